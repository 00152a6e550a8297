//! A messaging domain: its layout in memory (Section 4.2, Figure 5); and the queue pairs of the
//! cores.

use crate::header::{DOMAIN_BITS, MAX_CONTEXTS};
use crate::spec::{DomainPlan, Mode};
use fabric::LINE_BYTES;
use std::ops::Range;

const LINE: u64 = LINE_BYTES as u64;

/// Bytes of a send slot: valid bit, pointer and size, padded to a power of two.
pub(crate) const SEND_SLOT_BYTES: u64 = 32;
/// Bytes of a receive slot's counter: a block, so that payloads are aligned.
pub(crate) const COUNTER_BYTES: u64 = 64;
/// Bytes of an entry of a shared completion queue.
pub(crate) const SHARED_ENTRY_BYTES: u64 = 8;
/// Number of message classes that a queue separates.
pub const CLASSES: usize = 2;

/// Bytes of memory of a messaging domain, "32 x N x S + (max_msg_size + 64) x N x S" (Section 4.2).
pub fn footprint_bytes(nodes: u32, slots: u32, max_message_bytes: u32) -> u64 {
    let slots = u64::from(nodes) * u64::from(slots);
    SEND_SLOT_BYTES * slots + (u64::from(max_message_bytes) + COUNTER_BYTES) * slots
}

/// The addresses of the cores' queue pairs. A core has one for all contexts: each entry names its
/// context, as in the library of soNUMA's authors (`cid` in `sonuma-vm`) and in a send operation,
/// which "specifies a messaging domain" (Section 4.2). Each entry is a line, and all lines of a
/// core have their home on the core's tile, so that core and frontend exchange them without leaving
/// it. (The manycore network interface of Daglis et al., ISCA 2015, places the frontend's cache
/// behind the core's first level for this.)
#[derive(Clone, Copy, Debug)]
pub struct QueuePairs {
    /// The first byte.
    pub start: u64,
    /// Lines between two entries of one queue: the number of tiles in the mesh.
    pub stride_lines: u64,
}

impl QueuePairs {
    /// Entries of a work queue.
    pub const WORK_ENTRIES: u64 = 16;
    /// Entries of a completion queue: as many as the largest threshold, and as many again for
    /// one-sided operations.
    pub const COMPLETION_ENTRIES: u64 = 32;
    /// Number of work-queue entries after which a frontend writes its read position.
    pub const HEAD_EVERY: u64 = 4;
    /// For each core: both queues, the read position of the work queue, and for each context a
    /// shared head.
    const LINES: u64 = Self::WORK_ENTRIES + Self::COMPLETION_ENTRIES + 1 + MAX_CONTEXTS as u64;

    /// Queue pairs at or slightly after `start`, on a mesh of `tiles` tiles.
    pub fn new(start: u64, tiles: usize) -> QueuePairs {
        let stride_lines = tiles as u64;
        QueuePairs {
            start: start.next_multiple_of(stride_lines * LINE),
            stride_lines,
        }
    }

    /// Total bytes.
    pub fn bytes(&self) -> u64 {
        Self::LINES * self.stride_lines * LINE
    }

    fn line(&self, core: usize, line: u64) -> u64 {
        self.start + (line * self.stride_lines + core as u64) * LINE
    }

    /// The entry that is posted as number `count`.
    pub fn work_entry(&self, core: usize, count: u64) -> u64 {
        self.line(core, count % Self::WORK_ENTRIES)
    }

    /// The entry that is completed as number `count`.
    pub fn completion_entry(&self, core: usize, count: u64) -> u64 {
        self.line(core, Self::WORK_ENTRIES + count % Self::COMPLETION_ENTRIES)
    }

    /// The address of the number of entries read from its work queue.
    pub fn head(&self, core: usize) -> u64 {
        self.line(core, Self::WORK_ENTRIES + Self::COMPLETION_ENTRIES)
    }

    /// The address where cores that take messages themselves keep the head of the shared queue of a
    /// context's domain: the entry's address, with its phase in the lowest bit. Its home is the
    /// tile in the middle of their order.
    pub fn shared_head(&self, context: usize) -> u64 {
        let heads = Self::WORK_ENTRIES + Self::COMPLETION_ENTRIES + 1;
        self.line(self.stride_lines as usize / 2, heads + context as u64)
    }

    /// The phase of entry number `count` of a ring of `entries`: 1 in the first lap.
    pub fn phase(count: u64, entries: u64) -> u16 {
        u16::from((count / entries).is_multiple_of(2))
    }
}

/// The metadata of a domain that every part of the network interface keeps (Section 4.4), and
/// parameters from the description.
#[derive(Clone, Debug, state::State)]
pub struct Domain {
    /// Nodes: N.
    #[state(fixed)]
    pub nodes: u32,
    /// Slots of each node: S.
    #[state(fixed)]
    pub slots: u32,
    /// Bytes of the largest message.
    #[state(fixed)]
    pub max_message_bytes: u32,
    /// The address of the send slots.
    pub send_buffer: u64,
    /// The address of the receive slots.
    pub receive_buffer: u64,
    /// The address of the shared completion queues.
    pub shared_queues: u64,
    /// The numbers of its shared queues among those of all domains.
    #[state(fixed)]
    pub queues: Range<usize>,
    /// The rule that selects the shared queue of a message.
    #[state(fixed)]
    pub mode: Mode,
    /// Its cores.
    #[state(fixed)]
    pub cores: Range<usize>,
    /// The number of its first node among those of all domains.
    #[state(fixed)]
    pub first_node: u32,
    /// The number of its first receive slot among those of all domains.
    #[state(fixed)]
    pub first_place: u64,
    /// Whether the program has opened it.
    pub is_open: bool,
    /// For each receive slot, the number of received packets of its message: a guard against a
    /// source that sends into a slot in use. This is an addition; the paper trusts the sources.
    #[state(slice)]
    pub guard: Vec<u16>,
}

impl Domain {
    /// Bits of a domain's state in each part of the network interface: the addresses of both
    /// buffers, the numbers of nodes and slots, and the largest message. "In total, we add 20B of
    /// stored state per context" (Section 4.4).
    pub const STATE_BITS: u32 = 2 * u64::BITS + DOMAIN_BITS;

    /// A planned domain, which is not open yet. `queues` are the numbers of its shared queues, and
    /// `first_place` is the number of its first receive slot among those of all domains.
    pub fn new(plan: &DomainPlan, queues: Range<usize>, first_place: u64) -> Domain {
        Domain {
            nodes: plan.nodes,
            slots: plan.slots,
            max_message_bytes: plan.max_message_bytes,
            send_buffer: 0,
            receive_buffer: 0,
            shared_queues: 0,
            queues,
            mode: plan.dispatch.mode,
            cores: plan.cores.clone(),
            first_node: plan.first_node,
            first_place,
            is_open: false,
            guard: vec![0; plan.nodes as usize * plan.slots as usize],
        }
    }

    /// Whether cores take messages from the shared queue themselves.
    pub fn is_software(&self) -> bool {
        self.mode == Mode::Software
    }

    /// The number of a slot among those of the domain, if it is valid.
    pub fn place(&self, node: u16, slot: u16) -> Option<u64> {
        let is_one = u32::from(node) < self.nodes && u32::from(slot) < self.slots;
        is_one.then(|| u64::from(node) * u64::from(self.slots) + u64::from(slot))
    }

    /// The address of a send slot's valid bit.
    pub fn send_slot(&self, place: u64) -> u64 {
        self.send_buffer + place * SEND_SLOT_BYTES
    }

    /// The address of a receive slot's counter.
    pub fn receive_counter(&self, place: u64) -> u64 {
        self.receive_buffer + place * (u64::from(self.max_message_bytes) + COUNTER_BYTES)
    }

    /// The address of a receive slot's message.
    pub fn receive_payload(&self, place: u64) -> u64 {
        self.receive_counter(place) + COUNTER_BYTES
    }

    /// Entries of a shared queue: enough for the maximum number of messages.
    pub fn shared_entries(&self) -> u64 {
        (u64::from(self.nodes) * u64::from(self.slots)).next_multiple_of(LINE / SHARED_ENTRY_BYTES)
    }

    /// Bytes of all shared queues.
    pub fn shared_bytes(&self) -> u64 {
        (self.queues.len() * CLASSES) as u64 * self.shared_entries() * SHARED_ENTRY_BYTES
    }

    /// The address of entry number `count` of a shared queue; the queue's number is that among all
    /// domains'.
    pub fn shared_entry(&self, queue: usize, class: usize, count: u64) -> u64 {
        let entries = self.shared_entries();
        let first = ((queue - self.queues.start) * CLASSES + class) as u64 * entries;
        self.shared_queues + (first + count % entries) * SHARED_ENTRY_BYTES
    }

    /// Bytes of the send and the receive slots.
    pub(crate) fn bytes(&self) -> u64 {
        let [send, receive, _] = self.ranges();
        send.2 + receive.2
    }

    /// The ranges that must be memory: their first bytes and lengths.
    pub(crate) fn ranges(&self) -> [(&'static str, u64, u64); 3] {
        let places = u64::from(self.nodes) * u64::from(self.slots);
        [
            (
                "send buffer",
                self.send_buffer,
                self.send_slot(places) - self.send_buffer,
            ),
            (
                "receive buffer",
                self.receive_buffer,
                self.receive_counter(places) - self.receive_buffer,
            ),
            (
                "shared completion queue",
                self.shared_queues,
                self.shared_bytes(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RpcValetSpec;

    #[test]
    fn the_footprint_is_the_paper_s() {
        // 200 nodes, 32 slots, messages of 512 bytes: 6400 x (32 + 576) = 3.9 MB; "should not
        // exceed a few tens of MBs".
        assert_eq!(footprint_bytes(200, 32, 512), 3_891_200);
        // The layout is neither larger nor smaller.
        let spec = RpcValetSpec {
            max_message_bytes: 512,
            ..RpcValetSpec::default()
        };
        let mut domain = Domain::new(&spec.plan(200, 16).unwrap()[0], 0..1, 0);
        domain.send_buffer = 0x8000_0000;
        domain.receive_buffer = 0x9000_0000;
        assert_eq!(domain.bytes(), footprint_bytes(200, 32, 512));
        assert_eq!(domain.place(199, 31), Some(6399));
        assert_eq!((domain.place(200, 0), domain.place(0, 32)), (None, None));
        assert_eq!(domain.receive_payload(1), 0x9000_0000 + 576 + 64);
    }

    /// Each shared queue has a part for each of two classes, with as many entries of 8 bytes as
    /// there are slots, up to a whole line; and these entries are the range, without gaps.
    #[test]
    fn shared_queues_are_as_long_as_their_entries() {
        for (nodes, slots, queues, bytes) in [
            (1, 1, 1, 2 * 64),
            (200, 32, 1, 2 * 6400 * 8),
            // Nine slots take the entries of two lines.
            (3, 3, 4, 4 * 2 * 128),
        ] {
            let spec = RpcValetSpec {
                slots,
                ..RpcValetSpec::default()
            };
            // Other domains have the queues before.
            let mut domain = Domain::new(&spec.plan(nodes, 16).unwrap()[0], 5..5 + queues, 0);
            domain.shared_queues = 0x9000_0000;
            assert_eq!(domain.shared_bytes(), bytes);
            let mut entries = std::collections::BTreeSet::new();
            for queue in domain.queues.clone() {
                for class in 0..CLASSES {
                    let of_class = (0..domain.shared_entries())
                        .map(|count| domain.shared_entry(queue, class, count));
                    assert!(of_class.into_iter().all(|entry| entries.insert(entry)));
                    // Then it begins again.
                    let lap = domain.shared_entries();
                    assert_eq!(
                        domain.shared_entry(queue, class, lap),
                        domain.shared_entry(queue, class, 0)
                    );
                }
            }
            let range = (0x9000_0000..0x9000_0000 + bytes).step_by(8);
            assert!(entries.into_iter().eq(range), "{nodes} {slots} {queues}");
        }
    }

    #[test]
    fn queue_pairs_have_their_home_beside_their_core() {
        for tiles in [1, 4, 6, 16] {
            let pairs = QueuePairs::new(0x6c00_0000, tiles);
            let mut seen = std::collections::BTreeSet::new();
            for core in 0..tiles {
                let work = (0..16).map(|count| pairs.work_entry(core, count));
                let completions = (0..32).map(|count| pairs.completion_entry(core, count));
                for address in work.chain(completions).chain([pairs.head(core)]) {
                    assert_eq!(address / 64 % tiles as u64, core as u64);
                    assert!(address + 64 <= pairs.start + pairs.bytes());
                    assert!(seen.insert(address));
                }
            }
            for context in 0..MAX_CONTEXTS {
                let head = pairs.shared_head(context);
                assert!(head + 64 <= pairs.start + pairs.bytes());
                assert!(seen.insert(head));
            }
        }
        assert_eq!(QueuePairs::phase(0, 16), 1);
        assert_eq!(
            (QueuePairs::phase(15, 16), QueuePairs::phase(16, 16)),
            (1, 0)
        );
    }
}
