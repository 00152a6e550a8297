//! HyperPlane: `QWAIT`, the monitoring set and the ready set.
//!
//! After "HyperPlane: A Scalable Low-Latency Notification Accelerator for Software Data Planes"
//! (MICRO 2020), whose sections the comments cite. A notification's way through this crate:
//!
//! 1. A producer increments a queue's doorbell. Its cache asks the line's home for ownership, and
//!    [`HyperPlane`], an agent on the fabric, sees the grant.
//! 2. The [`MonitoringSet`] finds the line armed, disarms it and gives the queue's [`Qid`].
//! 3. The [`ReadySet`] sets the queue's ready bit. Its arbiter selects the next queue by
//!    [`Policy`].
//! 4. A core's `QWAIT`, an instruction of [`QwaitExtension`], returns the QID. `QWAIT.VERIFY` and
//!    `QWAIT.RECONSIDER` arm the queue again once it is empty.
//!
//! A doorbell is a little-endian `u64` that counts the queue's elements, in a cache line of its
//! own. Doorbell addresses are physical.

mod agent;
mod conflicts;
mod extension;
mod monitoring_set;
mod operation;
mod policy;
mod ready_set;
mod sockets;
mod spec;
mod system;

pub use crate::spec::{HyperPlaneSpec, ReadySets, Stealing};
pub use agent::{HyperPlane, Statistics, attach};
pub use conflicts::{DoorbellLines, conflicts};
pub use extension::QwaitExtension;
pub use monitoring_set::{InsertError, MAX_WAYS, MonitoringSet, Qid};
pub use operation::{ErrorCode, NO_QID, Operation};
pub use policy::Policy;
pub use ready_set::{PARTITIONS, ReadySet};
pub use system::{HyperPlaneEnergySpec, KIND};
