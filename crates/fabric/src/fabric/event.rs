//! The events of the fabric, and their order at one time.

use crate::home::TransactionId;
use crate::hosting::Hosted;
use crate::memory::Ticket;
use crate::queue::Alarm;
use crate::{AgentId, CacheId, CoreId, LineAddress, OutgoingKind, ToHome};

/// A request for a home that is not from a private cache.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) enum HomeInput {
    ReadAtHome(AgentId),
    /// The written data is with the agent's access.
    WriteAtHome(AgentId),
    Memory(TransactionId),
    /// From another home.
    Prefetch,
}

/// The stage of a message from a private cache to the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Stage {
    /// It leaves the cache.
    Leaving,
    /// It arrives at the bank.
    Arriving,
    /// The bank accepts it.
    Admitted,
}

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) enum Event {
    /// A message of a private cache to a bank. It stays one event on its whole path.
    ToHome {
        stage: Stage,
        cache: CacheId,
        bank: u32,
        line: LineAddress,
        /// Where the line's entry in the directory may be.
        #[state(fixed)]
        entry: u32,
        message: ToHome,
    },
    /// Another message leaves a core.
    Departure { core: CoreId, kind: OutgoingKind },
    /// Another input arrives at a bank; `admitted` when the bank accepts it.
    Home {
        bank: u32,
        admitted: bool,
        line: LineAddress,
        input: HomeInput,
    },
    /// An agent can receive the line that it reads at home.
    ReadOut {
        bank: u32,
        transaction: TransactionId,
        agent: AgentId,
        line: LineAddress,
    },
    /// A read arrives at a memory controller.
    MemoryRead {
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
    },
    /// Its answer leaves the controller.
    MemoryAnswer {
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
    },
    /// A line arrives at a memory controller.
    MemoryWrite { controller: u32, line: LineAddress },
    /// A memory controller has requested a wake-up at this time.
    MemoryWake { controller: u32 },
    /// An event of an agent.
    Hosted(Hosted),
}

impl Alarm for Event {
    fn is_alarm(&self) -> bool {
        matches!(self, Event::Hosted(Hosted::Timer { .. }))
    }
}

/// The position of the sender's number in an event's order; the sender's count is below it.
pub(super) const SENDER_SHIFT: u32 = 48;

/// The sender of events that result from other events; cores come before it.
pub(super) const INTERNAL: u64 = 0xffff << SENDER_SHIFT;

/// The sender of requests of the server's builder.
pub(crate) const SERVER: u64 = 0xfffe << SENDER_SHIFT;
