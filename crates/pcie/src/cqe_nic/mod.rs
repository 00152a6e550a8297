//! The network interface with completion queues: work requests in memory, completions of 64 bytes
//! with an owner bit, and doorbell records, in the manner of ConnectX-5.
//!
//! Its registers have 64 bits, at an address that the server chooses. One page of 4 KiB is common,
//! and each queue pair has another: first those of the first port, and then those of the second.
//! The real interface sets up its queues by commands in memory; registers replace these.
//!
//! | offset | name | |
//! | --- | --- | --- |
//! | 0x00 | `PORTS` | read: number of ports |
//! | 0x08 | `QUEUES` | read: number of queue pairs of each port |
//! | 0x10 | `ADDRESS` | read: the Ethernet address, its first byte lowest |
//! | 0x18 | `MAX_FRAME_BYTES` | read: bytes of the longest frame |
//! | 0x20 to 0x40 | `KEY` | write: the key of receive-side scaling, 40 bytes |
//! | 0x48 | `INDIRECTION` | write: queue, entry times 2^16, port times 2^32: an entry of the indirection table |
//! | page + 0x00, 0x40 | `RING` | write: the address of the receive queue's or the send queue's ring, a multiple of 64 |
//! | page + 0x08 | `STRIDES` | write: 0, or the binary logarithms of the number of a buffer's strides and, times 2^8, of their size in bytes |
//! | page + 0x10, 0x50 | `RECORD` | write: the address of the ring's doorbell record, a multiple of 4 |
//! | page + 0x18, 0x58 | `COMPLETIONS` | write: the address of the completion queue, a multiple of 64 |
//! | page + 0x20, 0x60 | `COMPLETIONS_RECORD` | write: the address of its doorbell record, a multiple of 4 |
//! | page + 0x28, 0x68 | `COMPLETION_ENTRIES` | write: its number of completions, a power of two from 4 to 32768 |
//! | page + 0x38 | `COMPRESSION` | write: whether the completions of the receive queue are compressed, 0 or 1; not with `STRIDES` |
//! | page + 0x30, 0x70 | `ENTRIES` | write: number of buffers of the receive queue, or of blocks of the send queue, a power of two from 4 to 32768; starts the queue |
//! | page + 0x800 | `DOORBELL` | write: the first eight bytes of the last work request to send |
//! | page + 0x808 | `COUNTER` | write: the address of a word, a multiple of 8, to which 1 is added after each completion of the receive queue; 0 (initially): none. Only before the queue starts, without `COMPRESSION`, and with `server.cqe_nic.counters` |
//! | page + 0x810 | `ARM` | write: number of completions of the receive queue that the program has taken, modulo 2^32; interrupts once, when there are more |
//! | page + 0x900 to 0x9ff | `BLUE_FLAME` | write: the last work request to send, whole blocks in order; stores to a block are combined into one write |
//!
//! `format.rs` has the layouts of work requests and completions. A doorbell record is a big-endian
//! word of 32 bits: the total number of buffers posted, or of completions taken.
//!
//! A program can wait for completions in two ways. The interface can count them in memory, by
//! fetch-and-adds (atomic operations of PCI Express 2.1, which ConnectX-5 uses for atomic
//! operations of RDMA; counting completions with them is an addition). Or it can interrupt: a
//! program arms the completion queue with its consumer index, as in the manual (`CQ` doorbell). The
//! real interface then writes an entry into an event queue and interrupts for that; here the vector
//! is the queue's number.
//!
//! - `receive.rs`: from the port to memory.
//! - `send.rs`: from memory to the port.
//! - `queue.rs`: completions.
//! - `compression.rs`: compressed completions.

mod compression;
mod format;
mod queue;
mod receive;
mod send;

use crate::express::{self, AtDevice, Express};
use crate::frames::is_memory;
use crate::port::{self, NicStatistics, Port};
use crate::rss::MICROSOFT_KEY;
use crate::spec::CqeNicSpec;
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, Attachment, CacheSpec, LineData, MemoryAccess,
    RegisterAccess, Request, Time,
};
use format::{BLOCK_BYTES, SEGMENT_BYTES};
use network::packet::{Packet, hardware_address};
use network::rack::{Interface, LineRate, SecondPath};
use queue::{Completing, Completions, Setup};
use receive::ReceiveQueue;
use schemars::JsonSchema;
use send::{SendQueue, Sender};
use serde::Serialize;
use spec::SpecError;
use state::{State, Walker};
use std::collections::VecDeque;

/// Bytes of the common registers, and of each queue pair's.
const PAGE_BYTES: u64 = 0x1000;
/// Entries of the indirection table of each port: as many as DPDK's driver for ConnectX-5 uses if
/// the number of queues is not a power of two (`ETH_RSS_RETA_SIZE_512`).
pub const CQE_NIC_INDIRECTION_ENTRIES: usize = 512;
/// Bytes of the registers that combine stores: the BlueFlame buffers.
const BLUE_FLAME_BYTES: u64 = 0x100;
/// The longest ring of queues and completions.
const MAX_ENTRIES: u64 = 1 << 15;

/// Offsets of the registers: `CQE_NIC_...` in `guest/include/cqe_nic.h`. The registers of a queue
/// are in its pair's page: those of the receive queue from `RECEIVE` on, those of the send queue
/// from `SEND` on.
pub(crate) mod register {
    fabric::registers! { u64:
        PORTS = 0x00;
        QUEUES = 0x08;
        ADDRESS = 0x10;
        MAX_FRAME_BYTES = 0x18;
        KEY = 0x20;
        INDIRECTION = 0x48;
        RECEIVE = 0x00;
        SEND = 0x40;
        DOORBELL = 0x800;
        COUNTER = 0x808;
        ARM = 0x810;
        BLUE_FLAME = 0x900;
    }
}

/// The registers of a queue.
pub(crate) use queue::register as queue_register;

/// The purpose of a timer, a read or a write: the upper 8 bits of its token. The rest is an index.
mod purpose {
    /// Receive requests have been read: of queue `index >> 32`, from the number in the lower 32
    /// bits on.
    pub const BUFFERS: u64 = 1 << 56;
    /// The doorbell record of a receive queue has been read.
    pub const RECORD: u64 = 2 << 56;
    /// Blocks of a send queue have been read.
    pub const BLOCKS: u64 = 3 << 56;
    /// A part of a frame has been read: the port in bit 55, the frame's number, and the part's
    /// offset in it in the lower 16 bits.
    pub const FRAME: u64 = 4 << 56;
    /// The doorbell record of completions has been read: twice the queue, plus 1 for a send queue.
    pub const COMPLETIONS_RECORD: u64 = 5 << 56;
    /// A frame and its completion are in memory: the number of frames, or 0 for one.
    pub const DELIVERED: u64 = 6 << 56;
    /// Another completion is in memory.
    pub const COMPLETED: u64 = 7 << 56;
    /// A frame has left the output buffer of a port.
    pub const LEFT: u64 = 8 << 56;
    /// The oldest frame in the receive pipeline has passed it.
    pub const PROCESSED: u64 = 9 << 56;
    /// The timeout of a session of compressed completions.
    pub const SESSION: u64 = 10 << 56;
    pub const INDEX: u64 = !(0xff << 56);
}

/// Counts of the interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
pub struct CqeNicStatistics {
    /// Frames, of both ports together.
    pub frames: NicStatistics,
    /// Frames that were dropped because there was no room for their completion.
    #[state(count)]
    pub dropped_overrun: u64,
    /// Completions written.
    #[state(count)]
    pub completions: u64,
    /// Completions that were compressed, as part of these.
    #[state(count)]
    pub compressed_completions: u64,
    /// Doorbells of send queues.
    #[state(count)]
    pub doorbells: u64,
    /// Work requests that came with their doorbells.
    #[state(count)]
    pub blue_flames: u64,
    /// Reads of work requests to receive.
    #[state(count)]
    pub buffer_reads: u64,
    /// Reads of blocks of send queues.
    #[state(count)]
    pub block_reads: u64,
    /// Reads of doorbell records.
    #[state(count)]
    pub record_reads: u64,
}

/// The interface.
#[derive(state::State)]
#[state(fields)]
pub struct CqeNic {
    #[state(fixed)]
    spec: CqeNicSpec,
    #[state(fixed)]
    registers: AddressRange,
    #[state(fixed)]
    ports: Vec<Port>,
    express: Express,
    key: [u8; 40],
    /// The indirection table of each port.
    indirection: Vec<u16>,
    receive: Vec<ReceiveQueue>,
    send: Vec<SendQueue>,
    /// The frames of each port that are being read.
    senders: Vec<Sender>,
    /// Send queues with frames to read.
    ready: VecDeque<u32>,
    /// Received bytes in each port's input buffer.
    input_bytes: Vec<u32>,
    /// Frames in the receive pipeline, with their ports.
    pipeline: VecDeque<(u32, Vec<u8>, u32)>,
    /// The time at which each pipeline takes the next frame.
    receive_free_at: Time,
    send_free_at: Time,
    statistics: CqeNicStatistics,
    fault: Option<String>,
}

impl State for CqeNic {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::slice(&mut self.ports, walker);
        self.walk_fields(walker);
    }
}

impl CqeNic {
    /// An interface described by `spec`, with its registers at `registers`.
    pub fn new(spec: &CqeNicSpec, registers: u64) -> Result<CqeNic, SpecError> {
        spec.check()?;
        let (ports, queues) = (spec.ports as usize, spec.queues as usize);
        Ok(CqeNic {
            spec: spec.clone(),
            registers: AddressRange {
                start: registers,
                length: PAGE_BYTES * (1 + (ports * queues) as u64),
            },
            ports: (0..ports)
                .map(|number| Port::new(spec.mac_latency_ns).numbered(number as u64))
                .collect(),
            express: Express::new(&spec.express, spec.ddio),
            key: MICROSOFT_KEY,
            indirection: vec![0; ports * CQE_NIC_INDIRECTION_ENTRIES],
            receive: vec![ReceiveQueue::default(); ports * queues],
            send: vec![SendQueue::default(); ports * queues],
            senders: vec![Sender::default(); ports],
            ready: VecDeque::new(),
            input_bytes: vec![0; ports],
            pipeline: VecDeque::new(),
            receive_free_at: Time::ZERO,
            send_free_at: Time::ZERO,
            statistics: CqeNicStatistics::default(),
            fault: None,
        })
    }

    /// Its attachment to the fabric, with its root port on this tile. The root port has a cache
    /// only for counters, and only if there are any.
    pub fn attachment(&self, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(self.registers),
            cache: self.spec.counters.then(|| CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 4,
                mshrs: 16,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// Its counts.
    pub fn statistics(&self) -> CqeNicStatistics {
        CqeNicStatistics {
            frames: NicStatistics {
                link_bytes: self.ports.iter().map(Port::bytes).sum(),
                express_bytes: self.express.bytes(),
                ..self.statistics.frames.clone()
            },
            ..self.statistics
        }
    }

    /// Directs its interrupts to this agent. The header of each message is the queue's number;
    /// queues of the second port follow those of the first.
    pub fn connect_interrupts(&mut self, to: AgentId) {
        self.express.connect_interrupts(to);
    }

    /// The rate of its links.
    pub(crate) fn rate(&self) -> LineRate {
        self.ports[0].rate()
    }

    /// The number of links that it has itself.
    pub(crate) fn links(&self) -> u32 {
        self.ports.iter().map(Port::links).sum()
    }

    /// The program's first error, as a sentence.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn blame(&mut self, sentence: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(sentence);
    }

    /// The name of a queue, for a sentence.
    fn name_of(&self, queue: usize) -> String {
        let queues = self.spec.queues as usize;
        format!("queue {} of port {}", queue % queues, queue / queues)
    }

    fn port_of(&self, queue: usize) -> usize {
        queue / self.spec.queues as usize
    }

    fn read_register(&self, offset: u64) -> Option<u64> {
        match offset {
            register::PORTS => Some(u64::from(self.spec.ports)),
            register::QUEUES => Some(u64::from(self.spec.queues)),
            register::ADDRESS => Some(hardware_address(self.ports[0].address()).swap_bytes() >> 16),
            register::MAX_FRAME_BYTES => Some(u64::from(self.spec.max_frame_bytes)),
            _ => None,
        }
    }

    /// Handles the arrival of a write. Its core has long continued, so an error is recorded.
    fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) {
        if let Err(sentence) = self.try_write(context, offset, value) {
            self.blame(|| sentence);
        }
    }

    fn try_write(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        value: u64,
    ) -> Result<(), String> {
        let none =
            || format!("{value:#x} was written to {offset:#x}, which is not a writable register");
        let Some(queue) = (offset / PAGE_BYTES).checked_sub(1) else {
            return self.write_common(offset, value).ok_or_else(none)?;
        };
        let queue = queue as usize;
        let place = offset % PAGE_BYTES;
        if place == register::DOORBELL {
            self.statistics.doorbells += 1;
            return self.ring(context, queue, value.to_le_bytes());
        }
        if place == register::COUNTER {
            return self.count_at(context, queue, value);
        }
        if place == register::ARM {
            return self.arm(context, queue, value as u32);
        }
        let is_send = place >= register::SEND;
        if place > register::SEND + queue_register::COMPRESSION {
            return Err(none());
        }
        let half = place % register::SEND;
        let name = self.name_of(queue);
        let has_counter = !is_send && self.receive[queue].counter != 0;
        let setup = match is_send {
            true => &mut self.send[queue].setup,
            false => &mut self.receive[queue].setup,
        };
        if setup.entries > 0 {
            return Err(format!(
                "the {} {name} was changed after it had begun",
                kind(is_send)
            ));
        }
        match half {
            queue_register::RING => setup.ring = value,
            queue_register::STRIDES if !is_send => setup.strides = value,
            queue_register::COMPRESSION if !is_send => setup.compresses = value != 0,
            queue_register::RECORD => setup.record = value,
            queue_register::COMPLETIONS => setup.completions = value,
            queue_register::COMPLETIONS_RECORD => setup.completions_record = value,
            queue_register::COMPLETION_ENTRIES | queue_register::ENTRIES => {
                if !(4..=MAX_ENTRIES).contains(&value) || !value.is_power_of_two() {
                    return Err(format!(
                        "the {} {name} was to have {value} entries; it must be a power of two from 4 to \
                         {MAX_ENTRIES}",
                        kind(is_send)
                    ));
                }
                if half == queue_register::COMPLETION_ENTRIES {
                    setup.completion_entries = value as u32;
                } else {
                    let candidate = Setup {
                        entries: value as u32,
                        ..*setup
                    };
                    if has_counter && candidate.compresses {
                        return Err(format!(
                            "the receive {name} was to count its completions, but compresses them"
                        ));
                    }
                    check(context, &candidate, is_send)
                        .map_err(|why| format!("the {} {name} {why}", kind(is_send)))?;
                    *setup = candidate;
                    if !is_send {
                        self.read_record(context, queue);
                    }
                }
            }
            _ => return Err(none()),
        }
        Ok(())
    }

    /// Makes the completions of a receive queue be counted in a word.
    fn count_at(
        &mut self,
        context: &mut AgentContext<'_>,
        queue: usize,
        value: u64,
    ) -> Result<(), String> {
        let name = self.name_of(queue);
        let receive = &mut self.receive[queue];
        if !self.spec.counters {
            return Err(format!(
                "the receive {name} was to count its completions, which this interface is not \
                 configured for (server.cqe_nic.counters)"
            ));
        }
        if receive.setup.entries > 0 {
            return Err(format!("the receive {name} was changed after it had begun"));
        }
        if value != 0 && (!value.is_multiple_of(8) || !is_memory(context, value, 8)) {
            return Err(format!(
                "the counter of the receive {name} was to be at {value:#x}; it must be in memory, at a \
                 multiple of 8"
            ));
        }
        receive.counter = value;
        Ok(())
    }

    /// Arms a receive queue: it interrupts when it has completions beyond those already taken.
    fn arm(
        &mut self,
        context: &mut AgentContext<'_>,
        queue: usize,
        taken: u32,
    ) -> Result<(), String> {
        if !self.express.takes_interrupts() {
            let name = self.name_of(queue);
            return Err(format!(
                "the receive {name} was to interrupt, but nothing in this server takes interrupts"
            ));
        }
        self.receive[queue].armed = Some(taken);
        self.interrupt(context, queue);
        Ok(())
    }

    /// Interrupts if a receive queue is armed and has completions that its program has not taken.
    fn interrupt(&mut self, context: &mut AgentContext<'_>, queue: usize) {
        let receive = &mut self.receive[queue];
        let produced = receive.completions.produced;
        if receive.armed.take_if(|taken| *taken != produced).is_some() {
            self.express.interrupt(context, queue as u64);
        }
    }

    /// A write to a common register; `None` if there is no such writable register.
    fn write_common(&mut self, offset: u64, value: u64) -> Option<Result<(), String>> {
        if let Some(at) = offset.checked_sub(register::KEY)
            && let Some(word) = self.key.get_mut(at as usize..at as usize + 8)
        {
            word.copy_from_slice(&value.to_le_bytes());
            return Some(Ok(()));
        }
        if offset != register::INDIRECTION {
            return None;
        }
        let (port, entry, queue) = (value >> 32, value >> 16 & 0xffff, value & 0xffff);
        if port >= u64::from(self.spec.ports)
            || entry >= CQE_NIC_INDIRECTION_ENTRIES as u64
            || queue >= u64::from(self.spec.queues)
        {
            return Some(Err(format!(
                "entry {entry} of the indirection table of port {port} was to be queue {queue}; there are {} \
                 ports of {} queues, and tables of {CQE_NIC_INDIRECTION_ENTRIES} entries",
                self.spec.ports, self.spec.queues
            )));
        }
        let place = port as usize * CQE_NIC_INDIRECTION_ENTRIES + entry as usize;
        self.indirection[place] = queue as u16;
        Some(Ok(()))
    }

    /// A store to the combining registers; the store that fills a block submits the block.
    fn combine(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) {
        let place = offset % PAGE_BYTES - register::BLUE_FLAME;
        let queue = (offset / PAGE_BYTES - 1) as usize;
        let held = &mut self.send[queue].combining;
        if place % BLOCK_BYTES as u64 != held.len() as u64 {
            let at = held.len();
            let name = self.name_of(queue);
            return self.blame(|| {
                format!(
                    "the send {name} was written at {place:#x} of its combining registers, after \
                     {at} bytes of a block; stores to a block must be in order and fill it"
                )
            });
        }
        held.extend(value.to_le_bytes());
        if held.len() == BLOCK_BYTES {
            let block = std::mem::take(held);
            let start = offset + 8 - BLOCK_BYTES as u64;
            self.express.write_registers(context, start, block);
        }
    }

    /// The completion queue at an index, and its setup.
    fn completions(&mut self, index: usize) -> (&mut Completions, Setup) {
        match index % 2 {
            0 => {
                let queue = &mut self.receive[index / 2];
                (&mut queue.completions, queue.setup)
            }
            _ => {
                let queue = &mut self.send[index / 2];
                (&mut queue.completions, queue.setup)
            }
        }
    }

    /// Writes a frame, or nothing, and then its completion, once there is room for it. `index` is
    /// twice the queue, plus 1 for a send queue.
    fn complete(&mut self, context: &mut AgentContext<'_>, index: usize, completing: Completing) {
        let (completions, setup) = self.completions(index);
        if completions.has_overrun {
            self.statistics.dropped_overrun += u64::from(index.is_multiple_of(2));
            return;
        }
        completions.pending.push_back(completing);
        if completions.pending.len() == 1 || completions.has_room(&setup) {
            self.complete_pending(context, index);
        }
    }

    fn complete_pending(&mut self, context: &mut AgentContext<'_>, index: usize) {
        loop {
            let (completions, setup) = self.completions(index);
            if !completions.has_room(&setup) {
                if !completions.pending.is_empty() && !completions.is_reading {
                    completions.is_reading = true;
                    self.statistics.record_reads += 1;
                    let token = purpose::COMPLETIONS_RECORD | index as u64;
                    self.express
                        .read(context, token, (setup.completions_record, 4));
                }
                return;
            }
            let Some(completing) = completions.pending.pop_front() else {
                return;
            };
            let behind = completions.place(&setup, completing.completion);
            self.statistics.completions += 1;
            let write = (completing.address, &completing.content[..]);
            let queue = index / 2;
            let counter = match index % 2 {
                0 => self.receive[queue].counter,
                _ => 0,
            };
            self.express
                .write(context, completing.token, write, behind, counter);
            if index.is_multiple_of(2) {
                self.interrupt(context, queue);
            }
        }
    }

    /// Handles the value of the consumer's record of completions.
    fn consumer_read(&mut self, context: &mut AgentContext<'_>, index: usize, record: u32) {
        let (completions, setup) = self.completions(index);
        completions.is_reading = false;
        completions.taken(record);
        if completions.has_room(&setup) {
            return self.complete_pending(context, index);
        }
        completions.has_overrun = true;
        let lost = std::mem::take(&mut completions.pending).len();
        let is_send = index % 2 == 1;
        if !is_send {
            self.statistics.dropped_overrun += lost as u64;
        }
        let name = self.name_of(index / 2);
        self.blame(|| {
            format!(
                "the completions of the {} {name} overran: all {} entries are full, and according \
                 to the consumer's record it has taken none of them",
                kind(is_send),
                setup.completion_entries
            )
        });
    }

    /// Handles a completed read.
    fn read_done(&mut self, context: &mut AgentContext<'_>, token: u64, data: Vec<u8>) {
        let index = token & purpose::INDEX;
        let record = || u32::from_be_bytes(data[..4].try_into().unwrap_or_default());
        match token & !purpose::INDEX {
            purpose::RECORD => self.record_read(context, index as usize, record()),
            purpose::COMPLETIONS_RECORD => self.consumer_read(context, index as usize, record()),
            purpose::BUFFERS => self.buffers_read(context, index, data),
            purpose::BLOCKS => self.blocks_read(context, index, data),
            _ => self.part_read(context, index, &data),
        }
    }
}

/// The work requests of a ring to read next, at most `ahead` including those already held, and
/// within `room` bytes up to a multiple of those: the first number and the count.
fn next_read(
    (given, asked, held): (u32, u32, u32),
    setup: &Setup,
    entry_bytes: u64,
    (ahead, room): (u32, u64),
) -> Option<(u32, u32)> {
    let index = asked & setup.entries.wrapping_sub(1);
    let start = setup.ring + u64::from(index) * entry_bytes;
    let to_boundary = (room - start % room) / entry_bytes;
    let count = given
        .wrapping_sub(asked)
        .min(ahead.saturating_sub(held))
        .min(to_boundary as u32)
        .min(setup.entries - index);
    (count > 0).then_some((asked, count))
}

/// Stores data read from `first` on in order among the outstanding reads, the oldest of which
/// begins with `next`.
fn put_in_order(reading: &mut VecDeque<(u32, Vec<u8>)>, mut next: u32, first: u32, data: Vec<u8>) {
    for (count, came) in reading {
        if next == first {
            *came = data;
            return;
        }
        next = next.wrapping_add(*count);
    }
}

fn kind(is_send: bool) -> &'static str {
    match is_send {
        true => "send",
        false => "receive",
    }
}

/// Checks the setup of a queue; the error is the end of a sentence.
fn check(context: &AgentContext<'_>, setup: &Setup, is_send: bool) -> Result<(), String> {
    let entry_bytes = match is_send {
        true => BLOCK_BYTES,
        false => SEGMENT_BYTES,
    };
    let entries = setup.entries as usize;
    let completion_entries = setup.completion_entries as usize;
    for (what, address, bytes, boundary) in [
        ("ring", setup.ring, entries * entry_bytes, 64),
        (
            "completions",
            setup.completions,
            completion_entries * BLOCK_BYTES,
            64,
        ),
        ("doorbell record", setup.record, 4, 4),
        (
            "doorbell record of completions",
            setup.completions_record,
            4,
            4,
        ),
    ] {
        if bytes == 0 {
            return Err("was to begin without completions".to_string());
        }
        if !address.is_multiple_of(boundary) || !is_memory(context, address, bytes) {
            return Err(format!(
                "was to have its {what}, {bytes} bytes, at {address:#x}; it must begin at a multiple of \
                 {boundary} and be in memory"
            ));
        }
    }
    if setup.strides != 0 && setup.compresses {
        return Err(
            "was to have compressed completions of buffers with strides, which are not modelled"
                .to_string(),
        );
    }
    let (strides, stride_bytes) = (setup.strides & 0xff, setup.strides >> 8);
    if setup.strides != 0 && (!(1..=16).contains(&strides) || !(6..=13).contains(&stride_bytes)) {
        return Err(format!(
            "was to have buffers of 2^{strides} strides of 2^{stride_bytes} bytes; it must be 2 to 65536 \
             strides of 64 to 8192 bytes"
        ));
    }
    Ok(())
}

impl Agent for CqeNic {
    fn name(&self) -> String {
        "the network interface".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let reply_to = request.reply_to;
        match request.register(self.registers.start) {
            Some((offset, RegisterAccess::Read)) => {
                self.express.read_register(context, reply_to, offset);
            }
            Some((offset, RegisterAccess::Write(value))) => {
                context.reply(reply_to, 0, Time::ZERO);
                let place = (offset % PAGE_BYTES).wrapping_sub(register::BLUE_FLAME);
                if offset >= PAGE_BYTES && place < BLUE_FLAME_BYTES {
                    self.combine(context, offset, value);
                } else {
                    self.express.write_register(context, offset, value);
                }
            }
            None => context.refuse(reply_to),
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let Some(done) = self.express.access_done(context, token, access, &data) else {
            return;
        };
        if done & !purpose::INDEX == purpose::DELIVERED {
            self.statistics.frames.frames_delivered += (done & purpose::INDEX).max(1);
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let index = token & purpose::INDEX;
        match token & !purpose::INDEX {
            port::purpose::ARRIVED | port::purpose::PASSED => {
                let port = index as usize;
                if let Some(packet) = self.ports[port].timer(context, token) {
                    self.frame_came(context, port, &packet);
                }
            }
            express::purpose::AT_ROOT | express::purpose::AT_DEVICE => {
                match self.express.timer(context, token) {
                    Some(AtDevice::RegisterWritten { offset, value }) => {
                        self.write_register(context, offset, value);
                    }
                    Some(AtDevice::BlockWritten { offset, block }) => {
                        let queue = (offset / PAGE_BYTES - 1) as usize;
                        self.block_came(context, queue, block);
                    }
                    Some(AtDevice::RegisterRead { reply_to, offset }) => {
                        let value = self.read_register(offset);
                        self.express.answer(context, reply_to, value);
                    }
                    Some(AtDevice::Read { token, data }) => self.read_done(context, token, data),
                    None => {}
                }
            }
            purpose::LEFT => {
                self.senders[index as usize].left();
                self.read_frames(context);
            }
            purpose::PROCESSED => self.frame_processed(context),
            purpose::SESSION => self.session_timeout(context, index),
            _ => {}
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let mut sentences: Vec<_> = self.fault.clone().into_iter().collect();
        for (number, queue) in self.receive.iter().enumerate() {
            if !queue.input.is_empty() {
                let name = self.name_of(number);
                sentences.push(format!(
                    "{} frames of the receive {name} wait for buffers that are being read.",
                    queue.input.len()
                ));
            }
        }
        sentences
    }
}

impl Interface for CqeNic {
    fn ports(&self) -> usize {
        self.ports.len()
    }

    fn connect(&mut self, address: u32, rate: LineRate) {
        for port in &mut self.ports {
            port.connect(address, rate);
        }
    }

    fn receive(&mut self, port: usize, _at: Time, packet: Packet) -> u64 {
        self.ports[port].receive(packet)
    }

    fn take_sent(&mut self, port: usize, sent: &mut Vec<(Time, Packet)>) {
        self.ports[port].take_sent(sent);
    }

    fn follow(&mut self, path: &SecondPath) -> bool {
        let [port] = &mut *self.ports else {
            return false;
        };
        port.follow(path);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of 64 bytes, of which a read of 256 bytes has at most four, and none beyond a
    /// multiple of 256 bytes or the end of the ring.
    #[test]
    fn reads_end_at_boundaries() {
        // The ring's start and entries; given, asked, held; ahead; first and count.
        let rows = [
            (0x1000, 8, (0, 0, 0), 16, None),
            (0x1000, 8, (3, 0, 0), 16, Some((0, 3))),
            (0x1000, 8, (8, 0, 0), 16, Some((0, 4))),
            (0x1000, 8, (8, 1, 0), 16, Some((1, 3))),
            (0x1000, 8, (8, 6, 0), 16, Some((6, 2))),
            // The ring begins within 256 bytes.
            (0x1040, 8, (8, 0, 0), 16, Some((0, 3))),
            (0x1040, 8, (8, 3, 0), 16, Some((3, 4))),
            // The second pass: number 9 is entry 1.
            (0x1000, 8, (16, 9, 0), 16, Some((9, 3))),
            // The ring ends before the boundary.
            (0x1000, 2, (3, 1, 0), 16, Some((1, 1))),
            // Six or more of at most eight are held.
            (0x1000, 8, (12, 8, 6), 8, Some((8, 2))),
            (0x1000, 8, (12, 8, 8), 8, None),
            (0x1000, 8, (12, 8, 9), 8, None),
            // Numbers wrap around, and the ring with them.
            (0x1000, 8, (1, u32::MAX, 0), 16, Some((u32::MAX, 1))),
        ];
        for (ring, entries, window, ahead, expected) in rows {
            let setup = Setup {
                ring,
                entries,
                ..Setup::default()
            };
            let found = next_read(window, &setup, 64, (ahead, 256));
            assert_eq!(found, expected, "{ring:#x} {entries} {window:?} {ahead}");
        }
    }

    /// Three outstanding reads of two, three and one, from `u32::MAX` on: they begin with
    /// `u32::MAX`, 1 and 4.
    #[test]
    fn reads_that_overtake_are_put_in_order() {
        let reads = || VecDeque::from([2, 3, 1].map(|count| (count, Vec::new())));
        for (first, place) in [(u32::MAX, 0), (1, 1), (4, 2)] {
            let mut reading = reads();
            put_in_order(&mut reading, u32::MAX, first, vec![7]);
            let mut expected = reads();
            expected[place].1 = vec![7];
            assert_eq!(reading, expected, "{first}");
        }
        // Nothing that has been asked for begins there.
        let mut reading = reads();
        put_in_order(&mut reading, u32::MAX, 2, vec![7]);
        assert_eq!(reading, reads());
    }
}
