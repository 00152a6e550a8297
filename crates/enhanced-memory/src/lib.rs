//! The enhanced memory controller (EMC).
//!
//! After M. Hashemi, Khubaib, E. Ebrahimi, O. Mutlu and Y. N. Patt, "Accelerating Dependent Cache
//! Misses with an Enhanced Memory Controller", ISCA 2016. When a core's window is full behind a load
//! that misses, the instructions that depend on it and lead to further loads, a *chain*, are sent
//! to the memory controller. There they are executed when the line leaves memory, so that the
//! dependent loads need not wait until it has crossed the chip, and the values of these loads go
//! back to the core.
//!
//! 1. A [`CorePort`] is shown the full window ([`pipeline::Supplier`]), and builds the [`Chain`].
//! 2. The [`Controller`], an agent at the memory controller, holds it until the line comes from
//!    memory for that core, and executes it, two instructions a cycle. A load that is predicted to
//!    miss the last-level cache goes to memory at once, in parallel with the home.
//! 3. The core takes a value if its load has the address that the value is for. How the values are
//!    kept coherent is part of the port: see `crates/pipeline/src/supply.rs`.

mod chain;
mod controller;
mod core_port;
mod counts;
mod spec;
mod system;

pub use crate::spec::{EnhancedMemoryEnergySpec, EnhancedMemorySpec};
pub use crate::system::{KIND, Statistics, attach_controllers};
pub use chain::{Chain, From, Step, Work, build};
pub use controller::Controller;
pub use core_port::CorePort;
pub use counts::{Common, Counts, SharedCommon};
