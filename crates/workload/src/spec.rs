//! The description of the traffic.

use crate::packets::MINIMUM_PACKET_BYTES;
use crate::{
    ArrivalProcess, Arrivals, Files, OperationsSpec, PacketError, Packets, Random, Shape, Stream,
    WorkSpec,
};
use fabric::LINE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::path::Path;

/// Bytes of a slot before its packet: length, flags and item (`guest/include/io.h`).
pub const SLOT_HEADER_BYTES: u32 = 16;
/// Bytes that a data plane may add to a packet. GRE in IPv6 adds 44.
const HEADROOM_BYTES: u32 = 48;
const MAXIMUM_PACKET_BYTES: u32 = 9000;
const GENERATED: &str = "generated";

/// How much traffic is offered, if not a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// More than the data plane can take: `saturation_rate_mrps`. What finds its queue full is
    /// dropped.
    #[default]
    Saturate,
}

/// Who writes items into the queues of a data plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// The I/O device, as fast as eight cores and through a cache of its own.
    #[default]
    Device,
    /// Cores of the server beside those of the data plane (`source_cores`), which execute a program
    /// for it. When items arrive, and what is in them, is the same.
    Cores,
}

/// The traffic that the I/O sources offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrafficSpec {
    /// The distribution of the traffic over the queues.
    pub shape: Shape,
    /// When items arrive.
    pub arrivals: Arrivals,
    /// Mean number of items in a burst, for bursty arrivals.
    #[schemars(range(min = 1.0, max = 1e6))]
    pub burst_length: f64,
    /// The offered load as a word. Without `load` and `rate_mrps`: `saturate`.
    pub load: Option<Load>,
    /// The offered load, in millions of items a second over all queues.
    #[schemars(range(min = 1e-6, max = 1e4))]
    pub rate_mrps: Option<f64>,
    /// The offered load with `load = "saturate"`, in millions of items a second. If it is not
    /// given, it is found: a short trial begins with 20, which is well above what a core can take
    /// (a few hundred nanoseconds an item), and the run is offered 1.35 times what is served.
    #[schemars(range(min = 1e-6, max = 1e4))]
    pub saturation_rate_mrps: f64,
    /// `generated`, or the path of a pcap file. What is generated, packets, blocks or requests, is
    /// for the program to say.
    pub packets: String,
    /// Bytes in a generated item, a packet from its IPv4 header on; with a pcap file, the maximum
    /// length of a packet. The papers on data planes do not say; 1024 is one of the sizes of RFC
    /// 2544.
    #[schemars(range(min = MINIMUM_PACKET_BYTES, max = MAXIMUM_PACKET_BYTES))]
    pub packet_bytes: u32,
    /// Slots in each ring, a power of two. A device queue holds one item less, since the consumer
    /// counts an item as taken before it has read its slot.
    #[schemars(range(min = 2, max = 65536))]
    pub queue_capacity: u32,
    /// Static load imbalance between cores: the queues that scale-out gives to the first core get
    /// `1 + imbalance` times an equal share of the traffic, in any organisation; the others share
    /// the rest.
    #[schemars(range(min = 0.0, max = 31.0))]
    pub imbalance: f64,
    /// The requests and the contents of stores.
    pub operations: OperationsSpec,
    /// The time that a program with synthetic work takes for each item, which generated packets
    /// then state. Without it they do not.
    pub work: Option<WorkSpec>,
    /// Static load imbalance between two sockets: the queues of the first one get
    /// `1 + socket_imbalance` times an equal share of the traffic; the others share the rest.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub socket_imbalance: f64,
    /// The writer of items into their queues: "device", or "cores".
    pub sources: Sources,
    /// With `sources = "cores"`: the number of source cores, which follow those of the data plane;
    /// by default all others. Each queue is written by one of them.
    #[schemars(range(min = 1, max = 31))]
    pub source_cores: Option<u32>,
}

impl Default for TrafficSpec {
    fn default() -> TrafficSpec {
        TrafficSpec {
            shape: Shape::default(),
            arrivals: Arrivals::default(),
            burst_length: 8.0,
            load: None,
            rate_mrps: None,
            saturation_rate_mrps: 20.0,
            packets: GENERATED.to_string(),
            packet_bytes: 1024,
            queue_capacity: 16,
            imbalance: 0.0,
            operations: OperationsSpec::default(),
            work: None,
            socket_imbalance: 0.0,
            sources: Sources::Device,
            source_cores: None,
        }
    }
}

impl TrafficSpec {
    /// Checks whether such traffic is possible.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        if let Some(rate_mrps) = self.rate_mrps {
            let accepted = "load is given too, and only one of the two can hold";
            require(self.load.is_none(), "rate_mrps", rate_mrps, accepted)?;
        }
        require(
            self.queue_capacity.is_power_of_two(),
            "queue_capacity",
            self.queue_capacity,
            "it must be a power of two",
        )?;
        require(
            self.imbalance == 0.0 || self.socket_imbalance == 0.0,
            "socket_imbalance",
            self.socket_imbalance,
            "imbalance is given too, and only one of the two can hold",
        )?;
        if let Some(cores) = self.source_cores {
            let accepted = "it belongs to sources = \"cores\"";
            require(
                self.sources == Sources::Cores,
                "source_cores",
                cores,
                accepted,
            )?;
        }
        self.operations.check().under("operations")?;
        let Some(work) = &self.work else {
            return Ok(());
        };
        require(
            self.packets == GENERATED,
            "packets",
            format_args!("{:?}", self.packets),
            "with work it must be \"generated\": packets of a capture file stay as they are",
        )?;
        let (bytes, least) = (self.packet_bytes, WorkSpec::MINIMUM_PACKET_BYTES);
        let accepted = format!("with work it must be {least} or more, to have room for the time");
        require(bytes >= least, "packet_bytes", bytes, accepted)?;
        work.check().under("work")
    }

    /// The offered load, in millions of items a second.
    pub fn offered_mrps(&self) -> f64 {
        self.rate_mrps.unwrap_or(self.saturation_rate_mrps)
    }

    /// Whether the load exceeds the data plane's capacity by intention.
    pub fn saturates(&self) -> bool {
        self.rate_mrps.is_none()
    }

    /// Bytes of a slot for the largest packet and the headers that a data plane adds: a multiple of
    /// 64.
    pub fn slot_bytes(&self) -> u32 {
        (SLOT_HEADER_BYTES + self.packet_bytes + HEADROOM_BYTES).next_multiple_of(LINE_BYTES as u32)
    }

    /// The arrival process for a seed.
    pub fn arrival_process(&self, seed: u64) -> ArrivalProcess {
        ArrivalProcess::new(
            self.arrivals,
            self.offered_mrps(),
            self.burst_length,
            Random::new(seed, Stream::Arrivals),
        )
    }

    /// The arrival process of a warm start for a seed: as [`TrafficSpec::arrival_process`], at
    /// another rate or, without one, at that of saturation.
    pub fn warm_arrivals(&self, rate_mrps: Option<f64>, seed: u64) -> ArrivalProcess {
        ArrivalProcess::new(
            self.arrivals,
            rate_mrps.unwrap_or(self.saturation_rate_mrps),
            self.burst_length,
            Random::new(seed, Stream::WarmArrivals),
        )
    }

    /// The packets for a seed; those of the capture file if there is one. If given, `warm_work_ns`
    /// replaces the work of each item of a warm start.
    pub fn open_packets(
        &self,
        seed: u64,
        files: &Files,
        warm_work_ns: Option<f64>,
    ) -> Result<Packets, PacketError> {
        if self.packets == GENERATED {
            let packets = Packets::generated(
                self.packet_bytes,
                &self.operations,
                Random::new(seed, Stream::Packets),
            );
            let Some(work) = &self.work else {
                return Ok(packets);
            };
            let work = work
                .open(Random::new(seed, Stream::ServiceTimes), files)
                .map_err(PacketError::Work)?;
            Ok(packets.with_work(work.with_warm_start(warm_work_ns)))
        } else {
            let content = files.get(&self.packets).map_err(PacketError::Missing)?;
            Packets::from_pcap(Path::new(&self.packets), content, self.packet_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<TrafficSpec, String> {
        let spec: TrafficSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
        spec.check().map_err(|error| error.to_string())?;
        Ok(spec)
    }

    #[test]
    fn descriptions_are_read() {
        assert_eq!(parse("{}").unwrap(), TrafficSpec::default());
        assert_eq!(
            parse(r#"{"load": "saturate"}"#).unwrap().offered_mrps(),
            20.0
        );
        let spec = parse(r#"{"shape": "single-queue", "rate_mrps": 0.2}"#).unwrap();
        assert_eq!((spec.shape, spec.offered_mrps()), (Shape::SingleQueue, 0.2));
        assert_eq!(spec.slot_bytes(), 1088);
    }

    #[test]
    fn wrong_descriptions_get_a_sentence() {
        for (json, part) in [
            (r#"{"rate": 1}"#, "unknown field `rate`"),
            (r#"{"shape": "round"}"#, "fully-balanced"),
            (
                r#"{"rate_mrps": 0}"#,
                "rate_mrps is 0; it must be from 0.000001 to 10000",
            ),
            (r#"{"rate_mrps": 1, "load": "saturate"}"#, "only one"),
            (r#"{"queue_capacity": 12}"#, "power of two"),
            (
                r#"{"operations": {"gets": 0.95, "scans": 0.1}}"#,
                "with gets it must be at most 1",
            ),
            (r#"{"operations": {"get": 1}}"#, "unknown field `get`"),
            (r#"{"socket_imbalance": 0.1, "imbalance": 0.1}"#, "only one"),
        ] {
            let message = parse(json).unwrap_err();
            assert!(message.contains(part), "{json}: {message}");
        }
    }
}
