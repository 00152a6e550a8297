//! Builds a server out of a description, runs it, and reports.

mod clint;
mod description;
mod engine;
mod error;
mod htif;
mod machine;

pub use description::{
    DataPlaneSpec, Description, MeasureSpec, Notify, Policy, Preset, ServerSpec, SimulatorSpec,
    Warmup, presets,
};
pub use engine::{Advance, Engine};
pub use error::RunError;
pub use machine::Machine;
