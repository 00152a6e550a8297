//! The port for agents: everything on the fabric that is not a core.

use crate::{
    AddressRange, CacheId, CacheSpec, CoreId, LineAddress, LineData, Ram, RequestKind, Supply, Time,
};
use std::any::Any;

/// An agent's number on its fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain)]
pub struct AgentId(pub u16);

/// A completed store of a core to a watched address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The time of the store.
    pub at: Time,
    /// The core that stored.
    pub core: CoreId,
    /// The address.
    pub address: u64,
    /// The old value.
    pub before: u64,
    /// The new value.
    pub value: u64,
}

/// The attachment of an agent.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// Its tile on the mesh.
    pub tile: usize,
    /// Addresses whose loads and stores go to [`Agent::request`].
    pub owns: Option<AddressRange>,
    /// Lines whose changes of ownership it sees in [`Agent::ownership_granted`].
    pub snoops: Option<AddressRange>,
    /// A private cache, for agents that read and write memory.
    pub cache: Option<CacheSpec>,
    /// Whether it has a part on each of two sockets: it then has such a cache on the same tile of
    /// the other socket, too, and accesses each line from the line's socket.
    pub on_each_socket: bool,
    /// The memory controller that it is part of, if any; its tile must be the controller's
    /// ([`Fabric::memory_tile`](crate::Fabric::memory_tile)). It then sees lines as they come from
    /// memory, [`Agent::line_from_memory`], and is told of invalidations before its cache
    /// acknowledges them, [`Agent::invalidated`]. Its cache is only for reading: it is never
    /// granted ownership by a read.
    pub at_memory: Option<usize>,
}

/// The destination and the path of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct ReplyTo {
    /// The core that sent the request.
    pub core: CoreId,
    /// Its hart: the harts of a core share its messages.
    pub hart: u16,
    /// The request's token.
    pub token: u64,
    /// The tile where the request arrived, or `None` if it came over dedicated wires.
    pub tile: Option<usize>,
}

/// A core's request, as it arrives at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Request {
    /// The destination of the answer. Every request must be answered exactly once, now or later,
    /// except those that an extension sends without waiting.
    pub reply_to: ReplyTo,
    /// The kind of request.
    pub kind: RequestKind,
}

/// An atomic change of a little-endian `u64` in memory: it becomes `before & keep | set`, unless
/// one of the bits `unless` is set before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Update {
    /// Nothing changes if one of these bits is set.
    pub unless: u64,
    /// Bits that are kept.
    pub keep: u64,
    /// Bits that are set.
    pub set: u64,
}

impl Update {
    /// The new value for `before`.
    pub fn of(&self, before: u64) -> u64 {
        if before & self.unless == 0 {
            before & self.keep | self.set
        } else {
            before
        }
    }
}

/// An access of an agent to memory; it may not cross a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum MemoryAccess {
    /// Reads the whole line that holds `address` through the agent's private cache.
    Read {
        /// Any byte of the line.
        address: u64,
    },
    /// The same; if the cache does not have the line, memory is asked for it at once, in parallel
    /// with the home. The home decides as usual; if it needs the line from memory, that is on its
    /// way, or there.
    ReadAhead {
        /// Any byte of the line.
        address: u64,
    },
    /// Writes `bytes` bytes of `data`, from its start, at `address`, owning the line.
    Write {
        /// First byte.
        address: u64,
        /// Number of bytes, 1 to 64.
        bytes: u8,
        /// Data, of which the first `bytes` are written.
        data: LineData,
    },
    /// Adds to the little-endian `u64` at `address`, atomically, owning the line.
    FetchAdd {
        /// Aligned to 8.
        address: u64,
        /// The addend; the addition wraps.
        addend: u64,
    },
    /// Changes the little-endian `u64` at `address`, atomically, owning the line.
    Update {
        /// Aligned to 8.
        address: u64,
        /// The change.
        update: Update,
    },
    /// Reads the line at its home without keeping a copy; an owner becomes a sharer first. It is
    /// for hardware with a part beside each directory bank, so the request originates at the home's
    /// own tile. Afterwards the line has no owner, and a cache that wants to write it must ask the
    /// home. Needs no private cache.
    ReadAtHome {
        /// Any byte of the line.
        address: u64,
    },
    /// Reads the whole line by DMA: at its home, with request and data crossing the mesh, and
    /// otherwise like [`MemoryAccess::ReadAtHome`]. Needs no private cache.
    DmaRead {
        /// Any byte of the line.
        address: u64,
    },
    /// Writes by DMA: at the line's home, after all private caches have invalidated their copies.
    /// It is done when the home's acknowledgement arrives. Writes to different lines may be
    /// performed in any order; to order two of them, wait until the first is done. Needs no private
    /// cache.
    DmaWrite {
        /// First byte.
        address: u64,
        /// Number of bytes, 1 to 64.
        bytes: u8,
        /// Data, of which the first `bytes` are written.
        data: LineData,
        /// Whether the line goes into the last-level cache (Intel's DDIO); the rest of a line that
        /// is not on the chip is then fetched from memory. Otherwise the bytes go to memory, and
        /// the last-level cache drops the line.
        allocate: bool,
    },
}

impl MemoryAccess {
    /// The first byte, and the number of bytes.
    pub(crate) fn bytes(&self) -> (u64, usize) {
        match *self {
            MemoryAccess::Read { address }
            | MemoryAccess::ReadAhead { address }
            | MemoryAccess::ReadAtHome { address }
            | MemoryAccess::DmaRead { address } => (address, 1),
            MemoryAccess::Write { address, bytes, .. }
            | MemoryAccess::DmaWrite { address, bytes, .. } => (address, usize::from(bytes)),
            MemoryAccess::FetchAdd { address, .. } | MemoryAccess::Update { address, .. } => {
                (address, 8)
            }
        }
    }

    /// Whether it is done at the line's home, not in the agent's private cache.
    pub(crate) fn is_at_home(&self) -> bool {
        matches!(
            self,
            MemoryAccess::ReadAtHome { .. }
                | MemoryAccess::DmaRead { .. }
                | MemoryAccess::DmaWrite { .. }
        )
    }
}

/// A message from one agent to another. The two agree on its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct AgentMessage {
    /// The kind of message.
    pub header: u64,
    /// Its payload.
    pub data: LineData,
}

/// Hardware on the fabric beside the cores: devices, network interfaces, accelerators.
///
/// All methods run at the context's time, in the order of simulated time.
pub trait Agent: Any + state::State {
    /// The name in reports.
    fn name(&self) -> String;

    /// Handles a core's request.
    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        context.refuse(request.reply_to);
    }

    /// A cache is granted exclusive ownership (E or M) of a snooped line, for a read or a write, or
    /// an agent's [`MemoryAccess::DmaWrite`] performs, which changes the line without an owner.
    /// After a [`MemoryAccess::ReadAtHome`], the line cannot be written before this call. Reads at
    /// home and DMA reads never cause it.
    fn ownership_granted(&mut self, _context: &mut AgentContext<'_>, _line: LineAddress) {}

    /// Whether it snoops grants of ownership now. Otherwise [`Agent::ownership_granted`] is not
    /// called.
    fn is_snooping(&self) -> bool {
        true
    }

    /// Notifies of a completed access. `data` is the line's content: as read, as it is after a
    /// write, or as it was *before* a fetch-and-add.
    fn access_done(
        &mut self,
        _context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        _data: LineData,
    ) {
    }

    /// Notifies that the agent's private cache has lost its copy of `line`, by an invalidation or
    /// an eviction.
    fn line_lost(&mut self, _context: &mut AgentContext<'_>, _line: LineAddress) {}

    /// A line leaves memory for the private cache `reader`, which reads it: for any cache if the
    /// agent is at the line's memory controller ([`Attachment::at_memory`]), otherwise for the
    /// agent's own. Until the line's home has granted it to `reader`, nothing else is done with it.
    fn line_from_memory(
        &mut self,
        _context: &mut AgentContext<'_>,
        _line: LineAddress,
        _reader: CacheId,
        _data: LineData,
    ) {
    }

    /// The agent's private cache, at a memory controller, must give up `line`, which it has read.
    /// What the agent sends now by [`AgentContext::tell_line_lost`] is there before the cache
    /// acknowledges, so before the line is written.
    fn invalidated(&mut self, _context: &mut AgentContext<'_>, _line: LineAddress) {}

    /// Handles a message of another agent.
    fn message(&mut self, _context: &mut AgentContext<'_>, _from: AgentId, _message: AgentMessage) {
    }

    /// Notifies that a requested time has come.
    fn timer(&mut self, _context: &mut AgentContext<'_>, _token: u64) {}

    /// Reports a core's completed store to a watched address. This is an instrument, not hardware:
    /// the call comes some time after the store and must not influence the simulation.
    fn observe(&mut self, _observation: &Observation) {}

    /// The events that the agent waits for, one sentence each, for reports of deadlocks.
    fn waiting_for(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An action of an agent, carried out when its method returns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Reply {
        reply_to: ReplyTo,
        result: Result<u64, ()>,
        delay: Time,
    },
    Interrupt {
        hart: u16,
        bit: u8,
        level: bool,
        delay: Time,
    },
    Stash {
        core: CoreId,
        line: LineAddress,
        is_to_write: bool,
    },
    Notify {
        hart: u16,
        header: u64,
        delay: Time,
    },
    Wake {
        at: Time,
        token: u64,
    },
    WakeOther {
        agent: AgentId,
        at: Time,
        token: u64,
    },
    Access {
        access: MemoryAccess,
        token: u64,
    },
    WarmLastLevel {
        range: AddressRange,
    },
    PutIntoMemory {
        line: LineAddress,
        data: LineData,
    },
    NoteSharers {
        range: AddressRange,
        sharers: [Sharer; 2],
    },
    Send {
        to: AgentId,
        way: Way,
        message: AgentMessage,
    },
    Word {
        from: usize,
        to: usize,
        delay: Time,
        token: u64,
    },
    Supply {
        reply_to: ReplyTo,
        supply: Supply,
    },
    TellLineLost {
        core: CoreId,
        line: LineAddress,
    },
}

/// A private cache that has held a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharer {
    /// A hart's first-level data cache. Harts are numbered as in [`AgentContext::interrupt`].
    Hart(u16),
    /// The cache of an agent, if it has one.
    Agent(AgentId),
}

/// The path of a message from one agent to another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Over the mesh, with a number of bytes.
    Mesh { bytes: u64 },
    /// Over dedicated wires, with a latency.
    Wires { delay: Time },
}

/// The operations of an agent.
pub struct AgentContext<'a> {
    pub(crate) now: Time,
    pub(crate) minimum_delivery_latency: Time,
    pub(crate) ram: &'a Ram,
    pub(crate) effects: &'a mut Vec<Effect>,
    /// See [`AgentContext::is_too_old`].
    pub(crate) too_old: bool,
}

impl AgentContext<'_> {
    /// The simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The minimum latency from a decision to its delivery at a core. Shorter delays are extended
    /// to it, and [`FabricStatistics`](crate::FabricStatistics) counts these extensions. Agents
    /// whose description has a latency of dedicated wires should reject a shorter one.
    pub fn minimum_delivery_latency(&self) -> Time {
        self.minimum_delivery_latency
    }

    /// In [`Agent::access_done`] of a read: whether the line was invalidated on its way here. What
    /// has been read was current when it was asked for, and may not be any more.
    pub fn is_too_old(&self) -> bool {
        self.too_old
    }

    /// Tells the core that sent a request something about the loads it has handed over. Over the
    /// mesh, after the latency of the agent's answers; never before what was sent earlier.
    pub fn supply(&mut self, reply_to: ReplyTo, supply: Supply) {
        self.effects.push(Effect::Supply { reply_to, supply });
    }

    /// Tells a core that values supplied from `line` may be too old: [`Agent::invalidated`].
    pub fn tell_line_lost(&mut self, core: CoreId, line: LineAddress) {
        self.effects.push(Effect::TellLineLost { core, line });
    }

    /// Whether the line that holds `address` is memory, so that it can be accessed.
    pub fn in_memory(&self, address: u64) -> bool {
        self.ram.contains(LineAddress::of(address))
    }

    /// The socket that the line at `address` belongs to.
    pub fn socket_of(&self, address: u64) -> usize {
        self.ram.socket_of(LineAddress::of(address))
    }

    /// Sends a word between two tiles on each of which the agent has a part, after `delay`;
    /// [`Agent::timer`] is called with `token` on arrival.
    pub fn send_word(&mut self, from: usize, to: usize, delay: Time, token: u64) {
        self.effects.push(Effect::Word {
            from,
            to,
            delay,
            token,
        });
    }

    /// Answers a request with an access fault.
    pub fn refuse(&mut self, reply_to: ReplyTo) {
        self.effects.push(Effect::Reply {
            reply_to,
            result: Err(()),
            delay: Time::ZERO,
        });
    }

    /// Answers a request after `delay`: over the mesh, or over the request's own wires, which
    /// add nothing to `delay`.
    pub fn reply(&mut self, reply_to: ReplyTo, value: u64, delay: Time) {
        self.effects.push(Effect::Reply {
            reply_to,
            result: Ok(value),
            delay,
        });
    }

    /// Raises or lowers a hart's interrupt line after `delay`. The first harts are the first
    /// hardware threads of the cores, in the order of the cores; if cores have second threads,
    /// these follow in the same order.
    pub fn interrupt(&mut self, hart: u16, bit: u8, level: bool, delay: Time) {
        self.effects.push(Effect::Interrupt {
            hart,
            bit,
            level,
            delay,
        });
    }

    /// Hints a core to fetch `line` into its data cache for writing, as the stash hints of AMBA CHI
    /// do (ARM IHI 0050, "Cache stashing"). The hint arrives after the minimum latency.
    pub fn stash(&mut self, core: CoreId, line: LineAddress) {
        let is_to_write = true;
        self.effects.push(Effect::Stash {
            core,
            line,
            is_to_write,
        });
    }

    /// Hints a core to fetch `line` into its data cache for reading.
    pub fn stash_to_read(&mut self, core: CoreId, line: LineAddress) {
        let is_to_write = false;
        self.effects.push(Effect::Stash {
            core,
            line,
            is_to_write,
        });
    }

    /// Sends a notice to the extension of a hart's core, over wires with a latency of `delay`.
    /// Harts are numbered as in [`AgentContext::interrupt`].
    pub fn notify(&mut self, hart: u16, header: u64, delay: Time) {
        self.effects.push(Effect::Notify {
            hart,
            header,
            delay,
        });
    }

    /// Requests a call of [`Agent::timer`] at `at`, or now if that is past.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.effects.push(Effect::Wake { at, token });
    }

    /// Requests the same of another agent: for two agents that are parts of one piece of hardware,
    /// and agree on the token.
    pub fn wake_other(&mut self, agent: AgentId, at: Time, token: u64) {
        self.effects.push(Effect::WakeOther { agent, at, token });
    }

    /// Accesses memory; [`Agent::access_done`] is called with `token` when it is done. Accesses to
    /// one line are done in the order of their requests; others overlap up to the number of the
    /// private cache's miss status holding registers, and wait in order beyond that.
    ///
    /// An impossible access (without memory, across lines, without a private cache) is recorded in
    /// [`Fabric::errors`](crate::Fabric::errors), reads zeros and writes nothing.
    pub fn access(&mut self, access: MemoryAccess, token: u64) {
        self.effects.push(Effect::Access { access, token });
    }

    /// Puts the last-level cache into the state after writing all of `range`, from start to end,
    /// before the simulation: it holds the lines as newer than memory, as far as they fit beside
    /// lines that private caches hold or await. Takes no time and changes no byte; lines that a
    /// private cache holds or awaits are unaffected.
    pub fn warm_last_level(&mut self, range: AddressRange) {
        self.effects.push(Effect::WarmLastLevel { range });
    }

    /// Puts the directory into the state after both `sharers` have read the lines of `range`, and
    /// their caches have silently dropped them. This applies to lines that are in the last-level
    /// cache, if that is inclusive, and that no cache holds or awaits. A directory beside a
    /// non-inclusive cache has room for fewer lines: it keeps those of the last calls. Takes no
    /// time.
    pub fn note_sharers(&mut self, range: AddressRange, sharers: [Sharer; 2]) {
        self.effects.push(Effect::NoteSharers { range, sharers });
    }

    /// Changes a line as if `data` had been written before the simulation, without taking time or
    /// changing any cache. The line must be memory, and no private cache may hold or await it;
    /// otherwise an error is recorded in [`Fabric::errors`](crate::Fabric::errors), and nothing
    /// changes.
    pub fn put_into_memory(&mut self, line: LineAddress, data: LineData) {
        self.effects.push(Effect::PutIntoMemory { line, data });
    }

    /// Sends another agent a message of `bytes` bytes over the mesh, where it occupies links like
    /// any other; [`Agent::message`] is called there. Messages between two agents may overtake each
    /// other.
    pub fn send(&mut self, to: AgentId, bytes: u64, message: AgentMessage) {
        let way = Way::Mesh { bytes };
        self.effects.push(Effect::Send { to, way, message });
    }

    /// Sends a message over dedicated wires, on which it takes `delay`.
    pub fn send_over_wires(&mut self, to: AgentId, delay: Time, message: AgentMessage) {
        let way = Way::Wires { delay };
        self.effects.push(Effect::Send { to, way, message });
    }
}
