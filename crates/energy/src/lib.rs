//! What a server's work costs: the energy of each event, and of time.
//!
//! An event-based model in the manner of McPAT. The rooms count events; [`EnergySpec`] says what an
//! event of each kind costs and what each component leaks; [`Energy::of`] multiplies and adds, in a
//! fixed order, when a run is over. It changes nothing of what is simulated. `docs/energy.md` has
//! the model, where its numbers come from, and what it leaves out.

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
