//! Queues with doorbells between I/O sources, a data plane and its tenants: the device that fills
//! them, the tenants that empty them, the registers through which a program learns of both, and the
//! ledger of every item.
//!
//! The path of an item: the [`IoSource`] writes it into its queue and rings the doorbell; the data
//! plane takes it, processes it and rings the tenant's doorbell; the [`TenantSide`] takes the
//! result.

mod arrival_timer;
mod completion;
mod device;
mod io_source;
mod ledger;
mod program;
mod tenant;
mod warm_start;

pub use arrival_timer::ArrivalTimer;
pub use device::{Command, DeviceRegisters};
pub use io_source::{CONSUMER_BYTES, IoSetup, IoSource, RingsAtStart, register};
pub use ledger::{ItemCounts, ItemRecord, Ledger, QueueCounts, QueueDescriptor, SharedLedger};
pub use program::{
    MAX_NAME_BYTES, ProgramDevice, ProgramPreparation, ProgramRegisters, ProgramSettings,
    TRAFFIC_PARAMETERS, write_counter,
};
pub use tenant::{DeliveredPacket, TenantSide};
pub use warm_start::{Settling, WarmStartLength};
