//! The network's side of a server: load generation, packets, the I/O sources that fill the data
//! plane's queues, the tenants that empty them, and the record of every latency.
//!
//! A request's way through here: [`Arrivals`] say when it comes and [`Shape`] to which queue,
//! [`Packets`] what it is; the [`IoSource`] writes it into the queue and rings the doorbell; the
//! [`TenantSide`] takes the data plane's result; the [`Recorder`] keeps its latency.

mod arrivals;
mod cluster;
mod drift;
mod elementary;
mod extreme_values;
mod files;
pub mod header;
mod io_source;
mod items;
mod ledger;
mod link;
mod load_generator;
mod operations;
pub mod packet;
mod packets;
mod program;
pub mod rack;
mod random;
mod recorder;
mod service_times;
mod shape;
mod spec;
mod statistics;
mod tenant;
pub mod transport;
mod work;

pub use crate::spec::{Load, TrafficSpec};
pub use arrivals::{Arrival, ArrivalProcess, Arrivals};
pub use cluster::{Cluster, ClusterDomain, ClusterSetup, ClusterStatistics, NetworkSpec};
pub use drift::Drift;
pub use files::Files;
pub use io_source::{CONSUMER_BYTES, IoSetup, IoSource};
pub use items::ItemKind;
pub use ledger::{ItemCounts, ItemRecord, Ledger, QueueCounts, QueueDescriptor, SharedLedger};
pub use link::{Link, LinkFaultCounts, LinkFaults};
pub use load_generator::{
    LoadGenerator, LoadGeneratorReport, LoadGeneratorSpec, LoadGeneratorStatistics, Offer,
    RequestSpec, UnexpectedMessages, Word,
};
pub use operations::{OperationKind, OperationsSpec, Popularity};
pub use packets::{PacketError, Packets, checksum};
pub use program::{
    MOST_NAME_BYTES, ProgramDevice, ProgramPreparation, ProgramSettings, TRAFFIC_PARAMETERS,
};
pub use random::{Random, Stream};
pub use recorder::{
    Drifts, Interval, KindMeasurement, LatencySummary, Measurement, QueueLatency, Recorder, Rings,
    Sample, Warmup, lost_requests,
};
pub use service_times::{Distribution, ServiceTimes};
pub use shape::Shape;
pub use statistics::{mean_interval, mser5, quantile, quantile_interval};
pub use tenant::{DeliveredPacket, TenantSide};
pub use work::{Work, WorkSpec};
