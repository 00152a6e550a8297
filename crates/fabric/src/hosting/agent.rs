//! The port for agents: everything on the fabric that is not a core.

use crate::{AddressRange, CacheSpec, CoreId, LineAddress, LineData, Ram, RequestKind, Time};
use std::any::Any;

/// An agent's number on its fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain)]
pub struct AgentId(pub u16);

/// A core's store to a watched address that has been performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When.
    pub at: Time,
    /// Whose store.
    pub core: CoreId,
    /// Where.
    pub address: u64,
    /// The value that was there before.
    pub before: u64,
    /// The value that is there now.
    pub value: u64,
}

/// The attachment of an agent.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// Its place on the mesh.
    pub tile: usize,
    /// Addresses whose loads and stores go to [`Agent::request`].
    pub owns: Option<AddressRange>,
    /// Lines whose changes of ownership it sees in [`Agent::ownership_granted`].
    pub snoops: Option<AddressRange>,
    /// A private cache, for agents that read and write memory.
    pub cache: Option<CacheSpec>,
    /// Whether it is on both of two sockets: it then has such a cache on the same tile of the other
    /// socket, too, and accesses each line from the line's socket.
    pub on_each_socket: bool,
}

/// The destination of an answer, and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct ReplyTo {
    /// The core that asked.
    pub core: CoreId,
    /// Its hart: the harts of one core share its messages.
    pub hart: u16,
    /// Its token.
    pub token: u64,
    /// The tile where the request arrived, or `None` if it came over wires of its own.
    pub tile: Option<usize>,
}

/// A core's request, as it arrives at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Request {
    /// The destination of the answer. Every request must be answered exactly once, now or later,
    /// except those that an extension sends without waiting.
    pub reply_to: ReplyTo,
    /// What is asked.
    pub kind: RequestKind,
}

/// An atomic change of a little-endian `u64` in memory: it becomes `before & keep | set`, unless
/// one of the bits `unless` is set before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Update {
    /// Nothing changes if one of these bits is set.
    pub unless: u64,
    /// Bits that stay as they are.
    pub keep: u64,
    /// Bits that are set.
    pub set: u64,
}

impl Update {
    /// What `before` becomes.
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
    /// Writes `bytes` bytes of `data`, from its start, at `address`, owning the line.
    Write {
        /// First byte.
        address: u64,
        /// How many, 1 to 64.
        bytes: u8,
        /// What; the first `bytes` count.
        data: LineData,
    },
    /// Adds to the little-endian `u64` at `address`, atomically, owning the line.
    FetchAdd {
        /// Aligned to 8.
        address: u64,
        /// Added, wrapping.
        addend: u64,
    },
    /// Changes the little-endian `u64` at `address`, atomically, owning the line.
    Update {
        /// Aligned to 8.
        address: u64,
        /// What it becomes.
        update: Update,
    },
    /// Reads the line at its home without keeping a copy; an owner becomes a sharer first. It is
    /// for hardware with a part beside each directory bank, so the request comes from the home's
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
        /// How many, 1 to 64.
        bytes: u8,
        /// What; the first `bytes` count.
        data: LineData,
        /// The line goes into the last-level cache (Intel's DDIO), for which the rest of a line
        /// that is not on the chip is fetched from memory. Without, the bytes go to memory, and
        /// the last-level cache drops the line.
        allocate: bool,
    },
}

impl MemoryAccess {
    /// The first byte, and how many.
    pub(crate) fn bytes(&self) -> (u64, usize) {
        match *self {
            MemoryAccess::Read { address }
            | MemoryAccess::ReadAtHome { address }
            | MemoryAccess::DmaRead { address } => (address, 1),
            MemoryAccess::Write { address, bytes, .. }
            | MemoryAccess::DmaWrite { address, bytes, .. } => (address, usize::from(bytes)),
            MemoryAccess::FetchAdd { address, .. } | MemoryAccess::Update { address, .. } => {
                (address, 8)
            }
        }
    }

    /// It is done at the line's home, not in the agent's private cache.
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
    /// What it is.
    pub header: u64,
    /// What comes with it.
    pub data: LineData,
}

/// Hardware on the fabric beside the cores: devices, network interfaces, accelerators.
///
/// All methods run at the context's time, in the order of simulated time.
pub trait Agent: Any + state::State {
    /// A name for reports.
    fn name(&self) -> String;

    /// A core asks something.
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

    /// An access is done. `data` is the line's content: as read, as it is after a write, or as it
    /// was *before* a fetch-and-add.
    fn access_done(
        &mut self,
        _context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        _data: LineData,
    ) {
    }

    /// The agent's private cache has lost its copy of `line`, by an invalidation or an eviction.
    fn line_lost(&mut self, _context: &mut AgentContext<'_>, _line: LineAddress) {}

    /// Another agent tells something.
    fn message(&mut self, _context: &mut AgentContext<'_>, _from: AgentId, _message: AgentMessage) {
    }

    /// A time that the agent asked for has come.
    fn timer(&mut self, _context: &mut AgentContext<'_>, _token: u64) {}

    /// A core's store to a watched address has been performed. This is an instrument, not hardware:
    /// the call comes some time after the store and must not influence the simulation.
    fn observe(&mut self, _observation: &Observation) {}

    /// The events that the agent waits for, one sentence each: for reports of deadlocks.
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
}

/// Whose private cache has had a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharer {
    /// A hart's first-level data cache. Harts are numbered as in [`AgentContext::interrupt`].
    Hart(u16),
    /// That of an agent, if it has one.
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
}

impl AgentContext<'_> {
    /// The simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The minimum latency from a decision to its delivery at a core; shorter delays are extended
    /// to it, which [`FabricStatistics`](crate::FabricStatistics) counts. Agents whose description
    /// has a latency of dedicated wires should reject a shorter one.
    pub fn minimum_delivery_latency(&self) -> Time {
        self.minimum_delivery_latency
    }

    /// Whether the line that holds `address` is memory, so that it can be accessed.
    pub fn in_memory(&self, address: u64) -> bool {
        self.ram.contains(LineAddress::of(address))
    }

    /// The socket that the line at `address` belongs to.
    pub fn socket_of(&self, address: u64) -> usize {
        self.ram.socket_of(LineAddress::of(address))
    }

    /// Sends a word from one tile to another, both of which the agent has a part on, after `delay`;
    /// [`Agent::timer`] is called with `token` when it arrives.
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

    /// Raises or lowers a hart's interrupt line after `delay`. The first harts are those of the
    /// cores in their order; if the cores have more hardware threads, the harts behind them are the
    /// second ones, in the same order.
    pub fn interrupt(&mut self, hart: u16, bit: u8, level: bool, delay: Time) {
        self.effects.push(Effect::Interrupt {
            hart,
            bit,
            level,
            delay,
        });
    }

    /// Tells a core to fetch `line` into its data cache, so that it can write it, as the stash
    /// hints of AMBA CHI do (ARM IHI 0050, "Cache stashing"). The hint arrives after the minimum
    /// latency.
    pub fn stash(&mut self, core: CoreId, line: LineAddress) {
        let is_to_write = true;
        self.effects.push(Effect::Stash {
            core,
            line,
            is_to_write,
        });
    }

    /// The same, so that it can read it.
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

    /// Requests [`Agent::timer`] at `at`, or now if that is past.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.effects.push(Effect::Wake { at, token });
    }

    /// Accesses memory; [`Agent::access_done`] is called with `token` when it is done. Accesses to
    /// one line are done in the order of their requests; others overlap up to the number of the
    /// private cache's miss status holding registers, and wait in order beyond.
    ///
    /// An impossible access (without memory, across lines, without a private cache) is recorded in
    /// [`Fabric::errors`](crate::Fabric::errors), reads zeros and writes nothing.
    pub fn access(&mut self, access: MemoryAccess, token: u64) {
        self.effects.push(Effect::Access { access, token });
    }

    /// Puts the last-level cache into the state that writing all of `range`, from start to end,
    /// before the simulation would leave: it holds the lines as newer than memory, as far as they
    /// fit beside lines that private caches hold or await. Takes no time and changes no byte; lines
    /// that a private cache holds or awaits are unaffected.
    pub fn warm_last_level(&mut self, range: AddressRange) {
        self.effects.push(Effect::WarmLastLevel { range });
    }

    /// Puts the directory into the state that it is in after both `sharers` have read the lines of
    /// `range`, and their caches have dropped them, of which it is not told: of those lines that
    /// are in the last-level cache, if that is inclusive, and that nobody holds or awaits. A
    /// directory beside a non-inclusive one has room for fewer lines: it keeps those of the last
    /// calls. Takes no time.
    pub fn note_sharers(&mut self, range: AddressRange, sharers: [Sharer; 2]) {
        self.effects.push(Effect::NoteSharers { range, sharers });
    }

    /// Changes a line as if `data` had been written before the simulation: in no time, and without
    /// a change of any cache. It must be memory, and no private cache may hold or await it; else
    /// this is recorded in [`Fabric::errors`](crate::Fabric::errors), and nothing changes.
    pub fn put_into_memory(&mut self, line: LineAddress, data: LineData) {
        self.effects.push(Effect::PutIntoMemory { line, data });
    }

    /// Sends another agent a message of `bytes` bytes over the mesh, where it takes links like any
    /// other; [`Agent::message`] is called there. Messages between two agents may overtake each
    /// other.
    pub fn send(&mut self, to: AgentId, bytes: u64, message: AgentMessage) {
        let way = Way::Mesh { bytes };
        self.effects.push(Effect::Send { to, way, message });
    }

    /// The same over wires of its own, on which the message takes `delay`.
    pub fn send_over_wires(&mut self, to: AgentId, delay: Time, message: AgentMessage) {
        let way = Way::Wires { delay };
        self.effects.push(Effect::Send { to, way, message });
    }
}
