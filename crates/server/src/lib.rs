//! Builds a server out of a description, runs it, and reports.

mod clint;
mod description;
mod engine;
mod error;
mod functional;
mod htif;
mod machine;
mod run;
mod traces;

/// The simulator's version, and what its sources hash to: results of different ones are never
/// mixed.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NANOPLANE_SOURCES"));

pub use description::{
    DataPlaneSpec, Description, MeasureSpec, Notify, Policy, Preset, ServerSpec, SimulatorSpec,
    presets, schema,
};
pub use engine::{Advance, Engine};
pub use error::RunError;
pub use machine::Machine;
pub use run::{
    CoreResult, EnergyResult, ExecuteResult, FunctionalResult, HartResult, Options, Program,
    RunResult, Totals, check, execute, execute_functionally, run,
};
pub use traces::{TraceOptions, TraceReport};
