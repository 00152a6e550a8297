//! CARGO: context augmented critical region offload.
//!
//! After S. Rai and T. E. Carlson, "CARGO: Context Augmented Critical Region Offload for
//! Network-bound datacenter Workloads". Hardware at a core identifies the loads that often miss the
//! second-level cache, the instructions that compute their addresses, the control flow between
//! them, and the registers with which all this begins. Section numbers and the names of tables (I
//! to V, Figure 10) are the paper's.
//!
//! The [`Identification`] processes a committed instruction in these steps:
//!
//! 1. A load that missed gets an entry in the [`ContextInstructionCache`] (Table I).
//! 2. The [`RegisterMap`] (Table II) names the producers of its operands. These predecessors get
//!    entries, and so on, until a register begins a chain: by the calling convention
//!    ([`convention::Root`]) it holds an argument, or an address of the stack or of data.
//! 3. Control flow that originates in the region's basic blocks, or leads to them, gets entries.
//! 4. The values of registers that begin chains are predicted by the [`ValuePredictor`] (Tables IV
//!    and V), or recognized as results of user routines ([`RegisterStates`], Table III).
//! 5. After 4096 misses the epoch ends. The ready instructions with ready registers are the
//!    [`Region`] that goes to the network interface.
//! 6. A [`Listener`] at the interface's root port sends regions there, as [`code`], and receives
//!    the results of user routines for each packet. The interface runs the region of the core that
//!    will serve the packet.

pub mod convention;
mod executable;
mod identification;
mod instruction_cache;
mod listener;
mod observer;
mod offload;
mod prediction;
mod region;
mod register_map;
mod register_state;
mod shadow;
mod spec;
mod storage;
mod system;

pub use crate::spec::{CriticalRegionEnergySpec, CriticalRegionSpec, OffloadSpec};
pub use crate::system::{KIND, Statistics};
pub use executable::executable;
pub use identification::{
    Accesses, Epoch, Identification, Procedure, RETURN_STACK, Sizes, misses_second_level,
};
pub use instruction_cache::{ContextInstructionCache, Entry, Operand};
pub use listener::Listener;
pub use observer::{Counts, DistinctRegion, HartProbe, Observer, SharedObserver};
pub use offload::{Unsent, code};
pub use prediction::{
    Begins, GEN_VALUES, GENERATED_PER_RETURN, GenValue, IN_VALUES, InValue, PASSES_PER_VALUE,
    ValuePredictor,
};
pub use region::{Kind, LiveIn, Region, RegionInstruction};
pub use register_map::{Producer, RegisterMap};
pub use register_state::{RegisterState, RegisterStates};
pub use storage::Storage;
