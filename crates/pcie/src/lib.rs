//! Conventional network interfaces: they move whole frames by DMA, without a notion of messages.
//!
//! - [`IceNic`] sits on the chip, beside the last-level cache: nanoPU's *traditional* network
//!   interface, IceNIC (OSDI 2021, Section 5.1). A core writes each buffer's address into a
//!   register and reads completions out of another.
//! - [`DmaNic`] sits behind PCI Express: rings of descriptors in memory, doorbells, several queues,
//!   and receive-side scaling. With cores of its own that run firmware it is a programmable one
//!   (`processors/`).
//! - [`CqeNic`] also sits behind PCI Express, and has two ports: work requests, completion queues
//!   and doorbell records in memory, as ConnectX-5.
//!
//! The receive path: a frame arrives at the port (`port.rs`) with its last bit; it waits in the
//! input buffer for a buffer in memory (`ice_nic.rs`, `dma_nic/`, `cqe_nic/`); its lines are
//! written at their home (`frames.rs`), over PCI Express if there is one (`express.rs`), to
//! addresses that an IOMMU translates if there is one (`iommu.rs`); and the program finds a
//! completion. The send path is the reverse.

mod cqe_nic;
mod dma_nic;
mod express;
mod frames;
mod ice_nic;
mod iommu;
mod port;
mod processors;
mod rss;
mod spec;
mod system;

pub use crate::spec::{
    CqeNicSpec, DmaNicSpec, ExpressEnergySpec, ExpressSpec, IceNicSpec, IommuEnergySpec, IommuSpec,
};
pub use cqe_nic::{CQE_NIC_INDIRECTION_ENTRIES, CqeNic, CqeNicStatistics};
pub use dma_nic::DmaNic;
pub use ice_nic::IceNic;
pub use iommu::IommuStatistics;
pub use port::NicStatistics;
pub use processors::{
    INTERFACE_MAP, INTERFACE_REGISTERS, ProcessorsEnergySpec, ProcessorsSpec, ProcessorsStatistics,
};
pub use rss::{INDIRECTION_ENTRIES, MICROSOFT_KEY, toeplitz};
pub use system::{CQE_NIC, CQE_NIC_MAP, DMA_NIC, DMA_NIC_MAP, ICE_NIC, ICE_NIC_MAP};

/// Offsets of the registers of [`IceNic`], by their names in `guest/include/ice_nic.h`.
pub const ICE_NIC_REGISTERS: &[(&str, u64)] = ice_nic::register::ALL;
/// Offsets of the registers of [`DmaNic`], by their names in `guest/include/dma_nic.h`.
pub const DMA_NIC_REGISTERS: &[(&str, u64)] = dma_nic::register::ALL;
/// Offsets of the registers of [`CqeNic`], by their names in `guest/include/cqe_nic.h`.
pub const CQE_NIC_REGISTERS: &[(&str, u64)] = cqe_nic::register::ALL;
/// Offsets of the registers of [`CqeNic`]'s queues.
pub const CQE_NIC_QUEUE_REGISTERS: &[(&str, u64)] = cqe_nic::queue_register::ALL;
