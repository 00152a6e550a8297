//! The core models, which determine when instructions execute.
//!
//! A [`Core`] executes the instructions of its harts and times them, in order or out of order. It
//! owns its private caches and communicates with the rest of the server through an inbox and an
//! outbox.

mod blocks;
mod core;
mod debug;
mod departures;
mod dispatch;
mod events;
mod extension;
mod fetch;
mod hart;
mod kind;
mod loads;
mod misses;
mod model;
mod port;
mod ports;
mod predictor;
mod prefetching;
mod probe;
mod queues;
mod quick;
mod resolve;
mod ring;
mod serializing;
mod spec;
mod spin;
mod stack;
mod statistics;
mod stores;
mod supply;
mod thread_policy;
mod threads;
mod translation;
mod window;

pub use crate::core::{Core, Crash, NEVER, Why};
pub use crate::spec::{
    CoreSpec, MemoryModel, MisalignedAccesses, Model, PredictorSpec, UnitSpec, UnitsSpec,
};
pub use debug::{Debuggable, Halt, StopCause, Stops, Watch};
pub use events::EVENTS;
pub use extension::{
    Action, Before, CsrAccess, Delivery, Extension, Invocation, NoExtension, PortRegisters, Sent,
    Word,
};
pub use model::{CoreModel, build_core};
pub use probe::{Executed, Found, Probe};
pub use spin::{ClosedLoop, Periodic};
pub use stack::CycleStack;
pub use statistics::{CoreStatistics, Operations, SoftwarePrefetchStatistics};
pub use supply::{Fate, FullWindow, Handover, InFlight, Operand, Supplier};
pub use translation::{
    FirstLevelTlbSpec, PageSize, PagingMode, SecondLevelTlbSpec, StructureCachesSpec, TlbPagesSpec,
    TranslationSpec, TranslationStatistics,
};
