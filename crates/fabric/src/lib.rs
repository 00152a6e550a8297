//! The coherent fabric: private caches, banked last-level cache with its directory, mesh and
//! memory controllers, and the agents that take part in coherence beside the cores.
//!
//! Data is where the hardware has it. A line's bytes live in the private cache that owns it, or
//! else at its home. A protocol that is wrong therefore gives wrong data, and tests see it.
//!
//! The fabric is driven by events in the order of their times. Cores are not in it: a core runs
//! on its own for a *window* that is shorter than the shortest way through the fabric, talks to
//! its own private caches at once, and leaves messages for the fabric in its [`Outbox`]; what the
//! fabric has for the core arrives in the core's [`Inbox`] with the time at which it takes effect.

/// Notes that a test has come to a place, so that tests can tell which races they have reached.
macro_rules! reached {
    ($what:literal) => {
        #[cfg(test)]
        crate::tests::note_reached($what);
    };
}

/// What only tests need done at a place.
macro_rules! cell {
    ($note:expr) => {
        #[cfg(test)]
        $note;
    };
}

mod address;
mod agent;
mod calendar;
#[cfg(test)]
mod coverage;
mod divisor;
#[cfg(test)]
mod exhaustive;
mod fabric;
mod home;
mod line_array;
mod memory;
mod mesh;
mod message;
mod named_range;
mod prefetch;
mod private_cache;
mod queue;
mod ram;
mod registers;
mod replacement;
mod second_level;
mod spec;
#[cfg(test)]
mod tester;
#[cfg(test)]
mod tests;
mod time;
mod untimed;

pub use crate::spec::{
    CacheSpec, DirectorySpec, DramSpec, FabricSpec, Inclusion, LastLevelSpec, MemorySpec, MeshSpec,
    SecondLevelSpec, SocketLinkSpec,
};
pub use address::{AddressRange, LINE_BYTES, LineAddress, LineData};
pub use agent::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, MemoryAccess, Observation, ReplyTo,
    Request, Update,
};
pub use fabric::{Fabric, FabricStatistics, FootprintMark, MemoryMap, Region};
pub use message::{
    CacheId, CoreId, Delivery, DeliveryKind, Grant, Inbox, Outbox, OutgoingKind, OutgoingMessage,
    RequestKind, Source, ToCache, ToHome, Transit,
};
pub use named_range::{Answers, NamedRange};
pub use private_cache::{CacheNotice, PrivateCache, RequestOutcome, Slot, State};
pub use ram::Ram;
pub use registers::RegisterAccess;
pub use replacement::Replacement;
pub use second_level::{
    FirstFill, FirstLevel, SecondLevel, SecondLevelStatistics, SecondNotice, Side,
};
pub use time::{Clock, Time};
pub use untimed::{LineChange, UntimedAgents, UntimedMemory};
