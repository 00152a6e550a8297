//! The workload of a server and its measurement: the arrival times of requests ([`Arrivals`]),
//! their queues ([`Shape`]), contents ([`Packets`], [`ItemKind`]) and service times
//! ([`ServiceTimes`]); the record of every latency ([`Recorder`]), and estimates with confidence
//! intervals.
//!
//! This crate does not depend on the way in which requests reach a server.

mod arrivals;
mod drift;
mod elementary;
mod extreme_values;
mod files;
mod ideal;
mod items;
mod operations;
mod packets;
mod random;
mod recorder;
mod replies;
mod service_times;
mod shape;
mod spec;
mod statistics;
mod work;

pub use crate::spec::{Load, SLOT_HEADER_BYTES, Sources, TrafficSpec};
pub use arrivals::{Arrival, ArrivalProcess, Arrivals};
pub use drift::Drift;
pub use files::Files;
pub use ideal::Units;
pub use items::ItemKind;
pub use operations::{OperationKind, Operations, OperationsSpec, Popularity, Sizes, Zipf};
pub use packets::{PacketError, Packets, checksum};
pub use random::{Random, Stream};
pub use recorder::{
    ControlledLatency, Drifts, Estimate, Ideal, Interval, KindMeasurement, LatencySummary,
    Measurement, QueueLatency, Recorder, Rings, Sample, Warmup, lost_requests,
};
pub use replies::{Asked, Replies, ReplyCounts};
pub use service_times::{Distribution, ServiceTimes};
pub use shape::Shape;
pub use statistics::{mean_interval, mser5, quantile, quantile_interval};
pub use work::{Work, WorkSpec};
