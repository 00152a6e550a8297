//! PCI Express between a device and the chip: packets of the transaction layer, with their
//! transmission times and latency, and a root port that performs them.
//!
//! - A *posted write* of a core completes for the core at the root port. It arrives at the device
//!   later, in order.
//! - A *read* of a core crosses the link twice while the core waits.
//! - A read of the device requests at most the maximum payload of a packet, within a range aligned
//!   to it, and is answered by one packet when all its lines have been read.
//! - A write of the device is done line by line at their homes. Writes may pass each other (relaxed
//!   ordering), except a write *behind* others, such as the notice that a frame has arrived: it is
//!   done when all those are. After it, the device may ring a *doorbell*: a fetch-and-add (an
//!   atomic operation of PCI Express 2.1) that the root port completes, coherently.
//! - An *interrupt* of the device is a posted write without relaxed ordering: the root port
//!   forwards it when all writes that the device has begun before it are done, including doorbells.
//!
//! With an IOMMU, reads and writes of the device wait at the root port until their page is
//! translated. Others pass them as the rules above allow.

use crate::frames::{Piece, is_memory, lines, pieces};
use crate::iommu::Iommu;
use crate::spec::ExpressSpec;
use fabric::{
    AgentContext, AgentId, AgentMessage, CoreId, LineAddress, LineData, MemoryAccess, ReplyTo, Time,
};
use network::rack::LineRate;
use std::collections::VecDeque;

/// Bytes of a packet in addition to its data: framing 2, data link layer 6, and 16 of header for
/// requests with a 64-bit address.
const REQUEST_BYTES: u64 = 24;
/// The same for a completion, whose header has 12.
const COMPLETION_BYTES: u64 = 20;
/// Bytes of a register.
const REGISTER_BYTES: u64 = 8;
/// Data of a message-signalled interrupt (PCI Local Bus Specification, Revision 3.0, Section 6.8).
const INTERRUPT_BYTES: u64 = 4;

/// The purpose of an access or a timer: the upper 8 bits of its token, of which these are this
/// module's. The rest is an index.
pub(crate) mod purpose {
    /// A packet has arrived at the root port.
    pub const AT_ROOT: u64 = 240 << 56;
    /// A packet has arrived at the device.
    pub const AT_DEVICE: u64 = 241 << 56;
    /// A line of a read has been read.
    pub const LINE_READ: u64 = 242 << 56;
    /// A line of a group of writes has been written.
    pub const LINE_WRITTEN: u64 = 243 << 56;
    /// The write behind a group is done.
    pub const BEHIND_WRITTEN: u64 = 244 << 56;
    /// A doorbell has been rung.
    pub const RUNG: u64 = 245 << 56;
    /// A page-table entry has been read for the IOMMU's walker `index`.
    pub const ENTRY_READ: u64 = 246 << 56;
    pub const INDEX: u64 = !(0xff << 56);
}

/// Bytes of the request of a read.
pub(crate) const READ_BYTES: u64 = REQUEST_BYTES;

/// Bytes of the completion of a read of `data` bytes.
pub(crate) fn completion_bytes(data: usize) -> u64 {
    COMPLETION_BYTES + data as u64
}

/// Bytes of a posted write of `data` bytes.
pub(crate) fn write_bytes(data: usize) -> u64 {
    REQUEST_BYTES + data as u64
}

/// Bytes of a note of `words` words.
fn note_bytes(words: u64) -> u64 {
    REQUEST_BYTES + 8 * (1 + words)
}

/// An arrival at the device.
#[derive(Clone, Debug)]
pub(crate) enum AtDevice {
    /// A core has written a register.
    RegisterWritten { offset: u64, value: u64 },
    /// Stores of a core, combined into one write that starts at this register.
    BlockWritten { offset: u64, block: Vec<u8> },
    /// A core reads a register: [`Express::answer`] must answer it.
    RegisterRead { reply_to: ReplyTo, offset: u64 },
    /// The device's read with this token is done. No data means no memory.
    Read { token: u64, data: Vec<u8> },
}

/// A packet on its way to the device.
#[derive(Clone, Debug, state::State, state::Plain)]
enum Down {
    RegisterWritten { offset: u64, value: u64 },
    BlockWritten { offset: u64, block: Vec<u8> },
    RegisterRead { reply_to: ReplyTo, offset: u64 },
    Completion { read: u64 },
}

/// A packet on its way to the root port.
#[derive(Clone, Debug, state::State, state::Plain)]
enum Up {
    Read {
        read: u64,
    },
    Write {
        group: u64,
        address: u64,
        data: Vec<u8>,
    },
    Behind {
        group: u64,
        address: u64,
        data: Vec<u8>,
        doorbell: u64,
    },
    Interrupt {
        vector: u64,
        behind: u64,
    },
    Answer {
        reply_to: ReplyTo,
        value: Option<u64>,
    },
    Note {
        to: AgentId,
        words: u64,
        message: AgentMessage,
    },
}

impl Up {
    /// Its data, if it is a posted write to memory.
    fn posted_bytes(&self) -> u64 {
        match self {
            Up::Write { data, .. } | Up::Behind { data, .. } => data.len() as u64,
            Up::Read { .. } | Up::Interrupt { .. } | Up::Answer { .. } | Up::Note { .. } => 0,
        }
    }
}

/// An outstanding read of the device, which has a tag.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Read {
    token: u64,
    address: u64,
    data: Vec<u8>,
    /// Number of bytes still to be read.
    missing: usize,
    /// The core whose first-level cache receives its lines.
    steer: Option<u16>,
    /// Whether its address still has to be checked for memory.
    is_unchecked: bool,
}

/// A read of the device that waits for a tag.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Wanted {
    token: u64,
    address: u64,
    bytes: u32,
    steer: Option<u16>,
    is_unchecked: bool,
}

/// Writes of the device, and the write that follows them.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Group {
    is_used: bool,
    /// The number of groups begun before it.
    number: u64,
    /// Number of bytes still to be written.
    missing: u64,
    /// The address and data of the write behind them, once it has arrived.
    behind: Option<(u64, Vec<u8>)>,
    /// The doorbell to ring after that; 0: none.
    doorbell: u64,
    /// The device's name for it.
    token: u64,
}

/// One direction.
#[derive(state::State)]
struct Lane {
    #[state(fixed)]
    rate: LineRate,
    #[state(fixed)]
    latency: Time,
    free_at: Time,
}

impl Lane {
    /// Sends a packet; returns its arrival time.
    fn send(&mut self, now: Time, bytes: u64) -> Time {
        self.free_at = self.free_at.max(now) + self.rate.duration(bytes);
        self.free_at + self.latency
    }
}

/// The link.
#[derive(state::State)]
pub(crate) struct Express {
    #[state(fixed)]
    payload_bytes: u64,
    #[state(fixed)]
    allocate: bool,
    up: Lane,
    down: Lane,
    upward: VecDeque<Up>,
    downward: VecDeque<Down>,
    /// Outstanding reads by tag.
    reads: Vec<Option<Read>>,
    /// Reads that wait for a tag.
    wanted: VecDeque<Wanted>,
    groups: Vec<Group>,
    /// Number of groups begun.
    begun: u64,
    /// The agent that takes interrupts.
    #[state(fixed)]
    interrupts_to: Option<AgentId>,
    /// Interrupts at the root port that wait for writes: the number of groups begun before each,
    /// and its vector.
    interrupts: VecDeque<(u64, u64)>,
    /// Bytes of posted writes that the root port accepts at a time; 0: unlimited.
    #[state(fixed)]
    posted_bytes: u64,
    /// Bytes of posted writes in flight or being written.
    posted: u64,
    /// Packets that wait for credits, in order.
    held: VecDeque<Up>,
    #[state(inside)]
    iommu: Option<Iommu>,
    /// Packets at the root port that wait for a page, with its number, in order of arrival.
    untranslated: Vec<(u64, Up)>,
    #[state(count)]
    bytes: u64,
}

impl Express {
    /// A link over which the device's writes go into the last-level cache, or to memory.
    pub fn new(spec: &ExpressSpec, allocate: bool) -> Express {
        let lane = || Lane {
            rate: LineRate::from_gbit_per_s(spec.rate_gbit_per_s),
            latency: Time::from_ns(spec.latency_ns),
            free_at: Time::ZERO,
        };
        Express {
            payload_bytes: u64::from(spec.payload_bytes),
            allocate,
            up: lane(),
            down: lane(),
            upward: VecDeque::new(),
            downward: VecDeque::new(),
            reads: vec![None; spec.reads as usize],
            wanted: VecDeque::new(),
            groups: Vec::new(),
            begun: 0,
            interrupts_to: None,
            interrupts: VecDeque::new(),
            posted_bytes: u64::from(spec.posted_bytes),
            posted: 0,
            held: VecDeque::new(),
            iommu: spec.iommu.as_ref().map(Iommu::new),
            untranslated: Vec::new(),
            bytes: 0,
        }
    }

    /// The IOMMU, if there is one.
    pub fn iommu(&self) -> Option<&Iommu> {
        self.iommu.as_ref()
    }

    /// Sets the physical address of the IOMMU's tables.
    pub fn set_page_tables(&mut self, root: u64) {
        if let Some(iommu) = &mut self.iommu {
            iommu.set_root(root);
        }
    }

    /// Bytes of packets that have been sent, in both directions together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Directs the device's interrupts to this agent.
    pub fn connect_interrupts(&mut self, to: AgentId) {
        self.interrupts_to = Some(to);
    }

    /// Whether an agent takes interrupts.
    pub fn takes_interrupts(&self) -> bool {
        self.interrupts_to.is_some()
    }

    /// Sends a packet as soon as the root port has room for it, after those before it.
    fn send_up(&mut self, context: &mut AgentContext<'_>, packet: Up) {
        if self.posted_bytes == 0 {
            return self.send_now(context, packet);
        }
        self.held.push_back(packet);
        self.send_held(context);
    }

    fn send_held(&mut self, context: &mut AgentContext<'_>) {
        let limit = self.posted_bytes;
        while let Some(bytes) = self.held.front().map(Up::posted_bytes)
            && (bytes == 0 || self.posted == 0 || self.posted + bytes <= limit)
            && let Some(packet) = self.held.pop_front()
        {
            self.posted += bytes;
            self.send_now(context, packet);
        }
    }

    /// Returns credits for written bytes of posted writes.
    fn give_credit(&mut self, context: &mut AgentContext<'_>, bytes: u64) {
        if self.posted_bytes > 0 {
            self.posted -= bytes;
            self.send_held(context);
        }
    }

    fn send_now(&mut self, context: &mut AgentContext<'_>, packet: Up) {
        let bytes = match &packet {
            Up::Read { .. } => REQUEST_BYTES,
            Up::Write { data, .. } => REQUEST_BYTES + data.len() as u64,
            // Two packets, without another one in between.
            Up::Behind { data, doorbell, .. } => {
                let ring = if *doorbell == 0 {
                    0
                } else {
                    REQUEST_BYTES + REGISTER_BYTES
                };
                REQUEST_BYTES + data.len() as u64 + ring
            }
            Up::Interrupt { .. } => REQUEST_BYTES + INTERRUPT_BYTES,
            Up::Answer { .. } => COMPLETION_BYTES + REGISTER_BYTES,
            Up::Note { words, .. } => note_bytes(*words),
        };
        self.bytes += bytes;
        let at = self.up.send(context.now(), bytes);
        self.upward.push_back(packet);
        context.wake(at, purpose::AT_ROOT);
    }

    fn send_down(&mut self, context: &mut AgentContext<'_>, packet: Down) {
        let bytes = match &packet {
            Down::RegisterWritten { .. } => REQUEST_BYTES + REGISTER_BYTES,
            Down::BlockWritten { block, .. } => REQUEST_BYTES + block.len() as u64,
            Down::RegisterRead { .. } => REQUEST_BYTES,
            Down::Completion { read } => {
                let read = self.reads.get(*read as usize).and_then(Option::as_ref);
                COMPLETION_BYTES + read.map_or(0, |read| read.data.len() as u64)
            }
        };
        self.bytes += bytes;
        let at = self.down.send(context.now(), bytes);
        self.downward.push_back(packet);
        context.wake(at, purpose::AT_DEVICE);
    }

    /// Sends words and a header to a listener on the chip: a vendor-defined message with data (PCI
    /// Express Base Specification 3.0, Section 2.2.8.6). Returns its bytes.
    pub fn note(
        &mut self,
        context: &mut AgentContext<'_>,
        to: AgentId,
        words: u64,
        message: AgentMessage,
    ) -> u64 {
        self.send_up(context, Up::Note { to, words, message });
        note_bytes(words)
    }

    /// A core writes a register; the write completes for it at once.
    pub fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) {
        self.send_down(context, Down::RegisterWritten { offset, value });
    }

    /// Combined stores of a core.
    pub fn write_registers(&mut self, context: &mut AgentContext<'_>, offset: u64, block: Vec<u8>) {
        self.send_down(context, Down::BlockWritten { offset, block });
    }

    /// A core reads a register; [`Express::answer`] supplies the value.
    pub fn read_register(
        &mut self,
        context: &mut AgentContext<'_>,
        reply_to: ReplyTo,
        offset: u64,
    ) {
        self.send_down(context, Down::RegisterRead { reply_to, offset });
    }

    /// Answers a core's read or, without a value, refuses it.
    pub fn answer(
        &mut self,
        context: &mut AgentContext<'_>,
        reply_to: ReplyTo,
        value: Option<u64>,
    ) {
        self.send_up(context, Up::Answer { reply_to, value });
    }

    /// The device reads memory, in as many reads as necessary; each returns the token and a part of
    /// the bytes, in any order. [`Express::parts`] gives the parts.
    pub fn read(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        (address, bytes): (u64, u32),
    ) {
        self.wanted.push_back(Wanted {
            token,
            address,
            bytes,
            steer: None,
            is_unchecked: false,
        });
        self.send_wanted(context);
    }

    /// A read for a program of the device, from any address: without data if there is no memory,
    /// and with a steering tag (TLP Processing Hints of PCI Express 3.0): for each line the root
    /// port tells the core `steer` to fetch it into its first-level data cache. The tag is in bits
    /// of the header that are otherwise unused in a read.
    pub fn read_for_program(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        (address, bytes): (u64, u32),
        steer: Option<u16>,
    ) {
        self.wanted.push_back(Wanted {
            token,
            address,
            bytes,
            steer,
            is_unchecked: true,
        });
        self.send_wanted(context);
    }

    /// The parts in which a range is read or written.
    pub fn parts(&self, address: u64, bytes: usize) -> impl Iterator<Item = Piece> + use<> {
        pieces(address, bytes, self.payload_bytes)
    }

    fn send_wanted(&mut self, context: &mut AgentContext<'_>) {
        while !self.wanted.is_empty()
            && let Some(tag) = self.reads.iter().position(Option::is_none)
            && let Some(wanted) = self.wanted.pop_front()
        {
            self.reads[tag] = Some(Read {
                token: wanted.token,
                address: wanted.address,
                data: vec![0; wanted.bytes as usize],
                missing: wanted.bytes as usize,
                steer: wanted.steer,
                is_unchecked: wanted.is_unchecked,
            });
            self.send_up(context, Up::Read { read: tag as u64 });
        }
    }

    /// The device writes `content` at `address`, then `behind`, and then adds 1 to the word at
    /// `doorbell`, unless it is 0; each follows the completion of the one before.
    /// [`Express::access_done`] returns the token when all is done.
    pub fn write(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        (address, content): (u64, &[u8]),
        behind: (u64, Vec<u8>),
        doorbell: u64,
    ) {
        let group = self.begin_group();
        self.add_to_group(context, group, (address, content));
        self.end_group(context, group, token, behind, doorbell);
    }

    /// Begins a group of writes that another write is to follow; returns its number.
    pub fn begin_group(&mut self) -> u64 {
        let free = self.groups.iter().position(|group| !group.is_used);
        let group = free.unwrap_or(self.groups.len());
        if group == self.groups.len() {
            self.groups.push(Group::default());
        }
        self.groups[group] = Group {
            is_used: true,
            number: self.begun,
            ..Group::default()
        };
        self.begun += 1;
        group as u64
    }

    /// Writes `content` at `address`, as a part of a group.
    pub fn add_to_group(
        &mut self,
        context: &mut AgentContext<'_>,
        group: u64,
        (address, content): (u64, &[u8]),
    ) {
        self.groups[group as usize].missing += content.len() as u64;
        for piece in self.parts(address, content.len()) {
            let write = Up::Write {
                group,
                address: piece.address,
                data: content[piece.offset..piece.offset + piece.bytes].to_vec(),
            };
            self.send_up(context, write);
        }
    }

    /// Ends a group: the write behind it, as in [`Express::write`], and its token.
    pub fn end_group(
        &mut self,
        context: &mut AgentContext<'_>,
        group: u64,
        token: u64,
        (address, data): (u64, Vec<u8>),
        doorbell: u64,
    ) {
        self.groups[group as usize].doorbell = doorbell;
        self.groups[group as usize].token = token;
        let behind = Up::Behind {
            group,
            address,
            data,
            doorbell,
        };
        self.send_up(context, behind);
    }

    /// The device interrupts, ordered after all its writes.
    pub fn interrupt(&mut self, context: &mut AgentContext<'_>, vector: u64) {
        let behind = self.begun;
        self.send_up(context, Up::Interrupt { vector, behind });
    }

    /// Forwards the interrupts at the root port that need not wait for writes.
    fn send_interrupts(&mut self, context: &mut AgentContext<'_>) {
        if self.interrupts.is_empty() {
            return;
        }
        let under_way = self.groups.iter().filter(|group| group.is_used);
        let oldest = under_way.map(|group| group.number).min();
        let oldest = oldest.unwrap_or(self.begun);
        while let Some((_, vector)) = self
            .interrupts
            .pop_front_if(|&mut (behind, _)| behind <= oldest)
        {
            if let Some(to) = self.interrupts_to {
                let message = AgentMessage {
                    header: vector,
                    data: LineData::ZERO,
                };
                context.send(to, INTERRUPT_BYTES, message);
            }
        }
    }

    /// Performs the write behind a group if it has arrived and the group is done.
    fn write_behind(&mut self, context: &mut AgentContext<'_>, number: u64) {
        let Some(group) = self.groups.get_mut(number as usize) else {
            return;
        };
        if group.missing == 0
            && let Some((address, data)) = group.behind.take()
        {
            // A descriptor lies in one line.
            for piece in lines(address, data.len()) {
                let write = piece.write(&data, self.allocate);
                context.access(write, purpose::BEHIND_WRITTEN | number);
            }
        }
    }

    /// Handles one of the link's timers; returns the arrival at the device, if any.
    pub fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) -> Option<AtDevice> {
        if token == purpose::AT_DEVICE {
            return Some(match self.downward.pop_front()? {
                Down::RegisterWritten { offset, value } => {
                    AtDevice::RegisterWritten { offset, value }
                }
                Down::BlockWritten { offset, block } => AtDevice::BlockWritten { offset, block },
                Down::RegisterRead { reply_to, offset } => {
                    AtDevice::RegisterRead { reply_to, offset }
                }
                Down::Completion { read } => {
                    let read = self.reads.get_mut(read as usize)?.take()?;
                    self.send_wanted(context);
                    AtDevice::Read {
                        token: read.token,
                        data: read.data,
                    }
                }
            });
        }
        let packet = self.upward.pop_front()?;
        self.at_root(context, packet, None);
        None
    }

    /// The page that a packet at the root port must wait for. The page `known` has just been
    /// translated for it.
    fn missing_page(
        &mut self,
        context: &mut AgentContext<'_>,
        packet: &Up,
        known: Option<u64>,
    ) -> Option<u64> {
        let iommu = self.iommu.as_mut()?;
        let addresses = match packet {
            Up::Read { read } => {
                let read = self.reads.get(*read as usize)?.as_ref()?;
                [read.address, 0]
            }
            Up::Write { address, .. } => [*address, 0],
            Up::Behind {
                address, doorbell, ..
            } => [*address, *doorbell],
            Up::Interrupt { .. } | Up::Answer { .. } | Up::Note { .. } => return None,
        };
        let missing = addresses.into_iter().find(|&address| {
            address != 0
                && known != Some(iommu.page(address))
                && !iommu.translates(context, address)
        });
        missing.map(|address| iommu.page(address))
    }

    /// Performs the request of a packet at the root port, once its pages are translated.
    fn at_root(
        &mut self,
        context: &mut AgentContext<'_>,
        packet: Up,
        known: Option<u64>,
    ) -> Option<()> {
        if let Up::Read { read: number } = packet {
            let read = self.reads.get_mut(number as usize)?.as_mut()?;
            if read.is_unchecked && !is_memory(context, read.address, read.data.len()) {
                read.data.clear();
                self.send_down(context, Down::Completion { read: number });
                return None;
            }
        }
        if let Some(page) = self.missing_page(context, &packet, known) {
            self.untranslated.push((page, packet));
            return None;
        }
        match packet {
            Up::Read { read: number } => {
                let read = self.reads.get(number as usize)?.as_ref()?;
                for piece in lines(read.address, read.data.len()) {
                    let access = MemoryAccess::DmaRead {
                        address: piece.address,
                    };
                    context.access(access, purpose::LINE_READ | number);
                    if let Some(core) = read.steer {
                        let line = LineAddress::of(piece.address);
                        context.stash_to_read(CoreId(core), line);
                    }
                }
            }
            Up::Write {
                group,
                address,
                data,
            } => {
                for piece in lines(address, data.len()) {
                    let write = piece.write(&data, self.allocate);
                    context.access(write, purpose::LINE_WRITTEN | group);
                }
            }
            Up::Behind {
                group,
                address,
                data,
                ..
            } => {
                self.groups.get_mut(group as usize)?.behind = Some((address, data));
                self.write_behind(context, group);
            }
            Up::Interrupt { vector, behind } => {
                self.interrupts.push_back((behind, vector));
                self.send_interrupts(context);
            }
            Up::Answer { reply_to, value } => context.answer(reply_to, value),
            Up::Note { to, words, message } => {
                context.send(to, 8 * (1 + words), message);
            }
        }
        None
    }

    /// Handles a completed access with one of the link's tokens; returns the token of the writes
    /// that it completes, if any.
    pub fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        line: &LineData,
    ) -> Option<u64> {
        let number = token & purpose::INDEX;
        if token & !purpose::INDEX == purpose::ENTRY_READ {
            let iommu = self.iommu.as_mut()?;
            let page = iommu.entry_read(context, number as usize, line)?;
            let waiting = std::mem::take(&mut self.untranslated).into_iter();
            let (known, waiting): (Vec<_>, Vec<_>) = waiting.partition(|(other, _)| *other == page);
            self.untranslated = waiting;
            for (_, packet) in known {
                self.at_root(context, packet, Some(page));
            }
            return None;
        }
        match (token & !purpose::INDEX, access) {
            (purpose::LINE_READ, MemoryAccess::DmaRead { address }) => {
                let read = self.reads.get_mut(number as usize)?.as_mut()?;
                let offset = address.checked_sub(read.address)? as usize;
                let piece = lines(address, read.data.len().checked_sub(offset)?).next()?;
                Piece { offset, ..piece }.read(line, &mut read.data);
                read.missing -= piece.bytes;
                if read.missing == 0 {
                    self.send_down(context, Down::Completion { read: number });
                }
                None
            }
            (purpose::LINE_WRITTEN, MemoryAccess::DmaWrite { bytes, .. }) => {
                self.groups.get_mut(number as usize)?.missing -= u64::from(bytes);
                self.give_credit(context, u64::from(bytes));
                self.write_behind(context, number);
                None
            }
            (purpose::BEHIND_WRITTEN | purpose::RUNG, _) => {
                if let MemoryAccess::DmaWrite { bytes, .. } = access {
                    self.give_credit(context, u64::from(bytes));
                }
                let group = self.groups.get_mut(number as usize)?;
                let address = std::mem::take(&mut group.doorbell);
                if address != 0 {
                    let ring = MemoryAccess::FetchAdd { address, addend: 1 };
                    context.access(ring, purpose::RUNG | number);
                    return None;
                }
                group.is_used = false;
                let token = group.token;
                self.send_interrupts(context);
                Some(token)
            }
            _ => None,
        }
    }
}
