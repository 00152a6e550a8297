//! Network interfaces on a small chip.

mod chip;
mod cqe_nic;
mod dma_nic;
mod ice_nic;
mod programmable;
