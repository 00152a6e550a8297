//! An instrument that counts, for each load instruction of a program, how often it is executed and
//! how many lines it accesses.
//!
//! It is a [probe](::system::Attached::probes) of every hart, of use beside any other system, and
//! changes nothing that is simulated. [`Counter`] counts what probes see; [`LoadSitesSpec`] is the
//! table `server.load_sites`.

mod counter;
mod spec;
mod system;

pub use crate::spec::LoadSitesSpec;
pub use crate::system::{KIND, LoadSite, Statistics};
pub use counter::{Counter, HartProbe, SharedCounter, SiteCounts};
