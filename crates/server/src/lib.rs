//! Builds a server out of a description, runs it, and reports.

mod checkpoint;
mod clint;
mod description;
mod engine;
mod error;
mod functional;
mod host;
mod htif;
mod limits;
mod machine;
pub mod memory_map;
mod meter;
mod output;
mod period;
mod preparation;
mod rack;
mod run;
mod traces;

/// The simulator's version, and the SHA-256 of its sources, its dependencies, the compiler and the
/// profile that it was built with: results of different ones are never mixed.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NANOPLANE_BUILD"));

pub use checkpoint::{CheckpointOptions, Resumable};
pub use description::{
    DataPlaneSpec, Description, MeasureSpec, Notify, Policy, Preset, ServerSpec, SimulatorSpec,
    WarmStartSpec, presets, schema,
};
pub use engine::{Advance, Engine};
pub use error::RunError;
pub use host::{HostClock, HostCost};
pub use limits::Limits;
pub use linux::{Access, Reach};
pub use machine::Machine;
pub use rack::{
    InterfaceKind, InterfaceResult, Rack, RackAdvance, RackClientResult, RackClientSpec,
    RackDescription, RackMeasureSpec, RackResult, RackServer, RackServerResult, RackServerSpec,
    RackSpec, SwitchResult, Wire, rack_schema, run_rack,
};
pub use run::{
    CoreResult, EnergyResult, ExecuteOptions, ExecuteResult, FunctionalResult, HartResult, Options,
    Program, RunResult, Totals, check, execute, execute_functionally, run, warm_up,
};
pub use traces::{TraceOptions, TraceReport};
pub use workload::Files;
