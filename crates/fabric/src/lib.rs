//! The coherent fabric: private caches, banked last-level cache with its directory, mesh and
//! memory controllers, and the agents that take part in coherence beside the cores.
//!
//! Data is kept where the hardware keeps it: a line's bytes are in the private cache that owns it,
//! or else at its home. An error in the protocol therefore gives wrong data, which tests detect.
//!
//! The fabric is driven by events in the order of their times. Cores are not part of it: a core
//! runs alone for a *window* that is shorter than the shortest path through the fabric, accesses
//! its own private caches directly, and leaves messages for the fabric in its [`Outbox`]; messages
//! to the core arrive in the core's [`Inbox`] with the time at which they take effect.

/// Records that a test has reached a point, so that tests can report the races that they cover.
macro_rules! reached {
    ($what:literal) => {
        #[cfg(test)]
        crate::tests::note_reached($what);
    };
}

/// Code that only tests need.
macro_rules! cell {
    ($note:expr) => {
        #[cfg(test)]
        $note;
    };
}

mod address;
mod calendar;
#[cfg(test)]
mod coverage;
mod divisor;
#[cfg(test)]
mod exhaustive;
mod fabric;
mod home;
mod hosting;
mod line_array;
mod memory;
mod memory_map;
mod mesh;
mod message;
mod newer_lines;
mod prefetch;
mod prefetcher;
mod private_cache;
mod queue;
mod ram;
mod replacement;
mod second_level;
mod spec;
mod statistics;
#[cfg(test)]
mod tester;
#[cfg(test)]
mod tests;
mod time;

pub use crate::spec::{
    CacheSpec, DirectorySpec, FabricSpec, Inclusion, LastLevelSpec, MemorySpec, MeshSpec,
    PerfectCache, SecondLevelSpec, SocketLinkSpec,
};
pub use address::{AddressRange, LINE_BYTES, LineAddress, LineData};
pub use fabric::{Fabric, FootprintMark};
pub use hosting::{
    Agent, AgentContext, AgentId, AgentMessage, Answers, Attachment, LineChange, MemoryAccess,
    NamedRange, Observation, RegisterAccess, ReplyTo, Request, Sharer, UntimedAgents,
    UntimedMemory, Update,
};
pub use memory::{
    DramCommandTimes, DramDevice, DramSpec, DramStatistics, DramTimingSpec, MemoryCacheSpec,
    MemoryCacheStatistics, PagePolicy,
};
pub use memory_map::{MemoryMap, Region};
pub use message::{
    CacheId, CoreId, Delivery, DeliveryKind, Grant, Inbox, Outbox, OutgoingKind, OutgoingMessage,
    RequestKind, Source, Supply, ToCache, ToHome, Transit,
};
pub use newer_lines::NewerLines;
pub use prefetcher::{
    DataPrefetcherKind, LoadInstruction, PrefetchStatistics, PrefetcherKind, Prefetching,
    SequentialPrefetcherKind, StreamerSpec, StrideSpec,
};
pub use private_cache::{CacheNotice, LookUp, PrivateCache, RequestOutcome, Slot, State};
pub use ram::{Image, Ram};
pub use replacement::Replacement;
pub use second_level::{
    FirstFill, FirstLevel, SecondLevel, SecondLevelStatistics, SecondNotice, Side,
};
pub use statistics::FabricStatistics;
pub use time::{Clock, Time};
