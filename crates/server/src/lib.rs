//! Builds a server from a description, runs it, and reports the results.

mod after_run;
mod checkpoint;
mod clint;
mod data_plane;
mod debugger;
mod description;
mod engine;
mod error;
mod execute;
mod functional;
mod hardware;
mod host;
mod hosts;
mod htif;
mod limits;
mod machine;
pub mod memory_map;
mod meter;
mod notify;
mod observers;
mod output;
mod page_tables;
mod period;
mod plan;
mod preparation;
mod prepared;
mod presets;
mod program;
mod rack;
mod registry;
mod results;
mod run;
mod schema;
mod slowest;
mod totals;
mod traces;

/// The simulator's version, and the SHA-256 of its sources, its dependencies, the compiler and the
/// build profile: results of different builds are never mixed.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NANOPLANE_BUILD"));

pub use checkpoint::{CheckpointOptions, Resumable};
pub use data_plane::{DataPlaneResult, QueueResults};
pub use description::{
    DataPlaneSpec, Description, MeasureSpec, Policy, SimulatorSpec, WarmStartSpec, rack_schema,
    server_schema,
};
pub use engine::{Advance, Engine};
pub use error::RunError;
pub use execute::{
    ExecuteOptions, FunctionalOptions, FunctionalResult, HartResult, execute, execute_functionally,
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
    Rack, RackAdvance, RackClientSpec, RackDescription, RackServer, RackServerSpec, RackSpec,
};
pub use registry::{SYSTEMS, ServerSpec};
pub use results::{
    ExecuteResult, Outcome, RackClientResult, RackResult, RackServerResult, RunResult, SwitchResult,
};
pub use run::{Gdb, Options, run, warm_up};
pub use schema::result_schema;
pub use slowest::SlowRequest;
pub use system::Wire;
pub use totals::{CoreResult, EnergyResult, Totals};
pub use traces::{TraceOptions, TraceReport};
pub use workload::Files;
