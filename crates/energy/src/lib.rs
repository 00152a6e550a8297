//! The energy of a server's work: that of each event, and leakage over time.
//!
//! An event-based model in the manner of McPAT. The components count events; [`EnergySpec`] gives
//! the energy of an event of each kind and the leakage of each component; [`Energy::of`] multiplies
//! and adds, in a fixed order, after a run. It does not affect the simulation. `docs/energy.md`
//! describes the model, the sources of its numbers, and its limits.

mod dram;
mod model;
mod sizes;
mod spec;

pub use crate::spec::{
    CoreEnergySpec, DirectoryEnergySpec, DramEnergySpec, EnergySpec, LastLevelEnergySpec,
    MemoryEnergySpec, MeshEnergySpec, PrefetcherEnergySpec, SecondLevelEnergySpec,
    SocketLinkEnergySpec, TlbEnergySpec,
};
pub use model::{
    Activity, CoreActivity, CoreComponents, CoreEnergy, Energy, SharedComponents, Split, leaked,
    spent,
};
