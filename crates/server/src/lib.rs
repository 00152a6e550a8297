//! Builds a server out of a description, runs it, and reports.

mod checkpoint;
mod clint;
mod description;
mod engine;
mod error;
mod execute;
mod functional;
mod hardware;
mod host;
mod htif;
mod limits;
mod machine;
pub mod memory_map;
mod meter;
mod notify;
mod output;
mod period;
mod plan;
mod preparation;
mod presets;
mod program;
mod rack;
mod registry;
mod run;
mod schema;
mod totals;
mod traces;

/// The simulator's version, and the SHA-256 of its sources, its dependencies, the compiler and the
/// profile that it was built with: results of different ones are never mixed.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NANOPLANE_BUILD"));

pub use checkpoint::{CheckpointOptions, Resumable};
pub use description::{
    DataPlaneSpec, Description, MeasureSpec, Policy, SimulatorSpec, WarmStartSpec, schema,
};
pub use engine::{Advance, Engine};
pub use error::RunError;
pub use execute::{
    ExecuteOptions, ExecuteResult, FunctionalResult, HartResult, execute, execute_functionally,
};
pub use hardware::SystemResults;
pub use host::{HostClock, HostCost};
pub use limits::Limits;
pub use linux::{Access, Reach};
pub use machine::Machine;
pub use notify::{InterfaceKind, Notify};
pub use presets::{Preset, presets};
pub use program::Program;
pub use rack::{
    Rack, RackAdvance, RackClientResult, RackClientSpec, RackDescription, RackMeasureSpec,
    RackResult, RackServer, RackServerResult, RackServerSpec, RackSpec, SwitchResult, rack_schema,
    run_rack,
};
pub use registry::{SYSTEMS, ServerSpec};
pub use run::{Options, RunResult, check, run, warm_up};
pub use schema::result_schema;
pub use system::Wire;
pub use totals::{CoreResult, EnergyResult, Totals};
pub use traces::{TraceOptions, TraceReport};
pub use workload::Files;
