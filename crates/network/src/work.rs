//! Work of given length: generated packets that say how long a program is to take for each.

use crate::packets::{IPV4_HEADER_BYTES, UDP_HEADER_BYTES, udp_checksum};
use crate::spec::TrafficError;
use crate::{Distribution, Files, Random, ServiceTimes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the payload of a UDP packet begins with; the nanoseconds follow in four bytes, the most
/// significant first (`guest/programs/synthetic.c`).
const TEXT: &[u8; 4] = b"work";
/// The shortest packet that has room for it.
const MINIMUM_PACKET_BYTES: u32 = (IPV4_HEADER_BYTES + UDP_HEADER_BYTES) as u32 + 8;
const MOST_NS: f64 = 1e9;

/// How long programs that do synthetic work are to take for each item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkSpec {
    /// Nanoseconds that every item takes.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub base_ns: f64,
    /// Nanoseconds that come on top, on average. Recorded times are as they were recorded without
    /// it; the other distributions need it.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub mean_ns: Option<f64>,
    /// How what comes on top is distributed.
    pub service_times: ServiceTimes,
}

impl WorkSpec {
    /// Whether everything is in range, for packets of so many bytes.
    pub fn check(&self, packet_bytes: u32) -> Result<(), TrafficError> {
        let refuse = |key, found: &dyn ToString, accepted| {
            let found = found.to_string();
            Err(TrafficError {
                key,
                found,
                accepted,
            })
        };
        if !(0.0..=MOST_NS).contains(&self.base_ns) {
            return refuse("work.base_ns", &self.base_ns, "it must be from 0 to 1e9");
        }
        match self.mean_ns {
            Some(mean) if !(0.0..=MOST_NS).contains(&mean) => {
                return refuse("work.mean_ns", &mean, "it must be from 0 to 1e9");
            }
            None if !matches!(self.service_times, ServiceTimes::Recorded { .. }) => {
                return refuse(
                    "work.mean_ns",
                    &"null",
                    "only recorded times have a mean of their own; give it in nanoseconds",
                );
            }
            _ => {}
        }
        if packet_bytes < MINIMUM_PACKET_BYTES {
            return refuse(
                "packet_bytes",
                &packet_bytes,
                "with traffic.work it must be 36 or more, to have room for the time",
            );
        }
        Ok(())
    }

    /// What the times are drawn from, with the file if there is one. A sentence if that is wrong.
    pub fn open(&self, random: Random, files: &Files) -> Result<Work, String> {
        let distribution = self.service_times.open(files)?;
        let scale = self.mean_ns.map_or(1.0, |mean| mean / distribution.mean());
        Ok(Work {
            base_ns: self.base_ns,
            scale,
            distribution,
            random,
        })
    }
}

/// Draws how long each item is to take.
#[derive(Clone, Debug)]
pub struct Work {
    base_ns: f64,
    scale: f64,
    distribution: Distribution,
    random: Random,
}

state::component!(Work {
    base_ns: fixed,
    scale: fixed,
    distribution: fixed,
    random
});

impl Work {
    /// Writes the next time into a generated UDP packet, checksum included. Four bytes hold no more
    /// than 4.29 s, which extreme values exceed once in 10^12 times: those are that long.
    pub(crate) fn write_next(&mut self, packet: &mut [u8]) {
        let time_ns = self.base_ns + self.scale * self.distribution.draw(&mut self.random);
        let time_ns = time_ns.round().min(f64::from(u32::MAX)) as u32;
        let payload = &mut packet[IPV4_HEADER_BYTES + UDP_HEADER_BYTES..];
        payload[..4].copy_from_slice(TEXT);
        payload[4..8].copy_from_slice(&time_ns.to_be_bytes());
        let checksum = udp_checksum(packet);
        packet[IPV4_HEADER_BYTES + 6..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ItemKind, OperationsSpec, Packets, Stream};

    fn plain() -> Packets {
        let random = Random::new(1, Stream::Packets);
        Packets::generated(64, &OperationsSpec::default(), random)
    }

    fn packets(spec: &WorkSpec) -> Packets {
        let work = spec
            .open(Random::new(1, Stream::ServiceTimes), &Files::default())
            .unwrap();
        plain().with_work(work)
    }

    fn spec(service_times: ServiceTimes) -> WorkSpec {
        WorkSpec {
            base_ns: 300.0,
            mean_ns: Some(300.0),
            service_times,
        }
    }

    #[test]
    fn packets_say_how_long_they_take() {
        let mut generated = packets(&spec(ServiceTimes::Exponential));
        let mut times = Vec::new();
        for _ in 0..50_000 {
            let mut packet = Vec::new();
            generated.append_next(&mut packet);
            assert_eq!(packet.len(), 64);
            assert_eq!(&packet[28..32], TEXT);
            assert_eq!(packet[26..28], udp_checksum(&packet).to_be_bytes());
            times.push(f64::from(u32::from_be_bytes(
                packet[32..36].try_into().unwrap(),
            )));
        }
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((300.0..301.0).contains(&least), "{least}");
        // The standard deviation of the mean is 300 / sqrt(50000) = 1.3.
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - 600.0).abs() < 6.0, "{mean}");
        // Of 300 ns and more on top, 1 / e: four standard deviations of 0.0022.
        let long = times.iter().filter(|&&time| time >= 600.0).count() as f64 / 5e4;
        assert!((long - (-1.0f64).exp()).abs() < 0.009, "{long}");
    }

    #[test]
    fn packets_are_otherwise_the_same() {
        let mut plain = plain();
        let mut working = packets(&spec(ServiceTimes::Fixed));
        for _ in 0..10 {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            plain.append_next(&mut one);
            working.append_next(&mut other);
            assert_eq!(one[..26], other[..26]);
            assert_eq!(other[32..36], 600u32.to_be_bytes());
            assert_eq!(one[36..], other[36..]);
        }
    }

    #[test]
    fn only_packets_have_room_for_it() {
        let mut packets = packets(&spec(ServiceTimes::Fixed));
        packets.set_kind(ItemKind::Sessions).unwrap();
        let error = packets.set_kind(ItemKind::Blocks).unwrap_err().to_string();
        assert!(error.contains("the program takes blocks"), "{error}");
    }

    #[test]
    fn wrong_work_gets_a_sentence() {
        let of = |change: &dyn Fn(&mut WorkSpec)| {
            let mut wrong = spec(ServiceTimes::Fixed);
            change(&mut wrong);
            wrong.check(64).unwrap_err().to_string()
        };
        assert_eq!(
            of(&|spec| spec.base_ns = -1.0),
            "traffic.work.base_ns = -1 is not possible: it must be from 0 to 1e9"
        );
        assert!(of(&|spec| spec.mean_ns = Some(f64::NAN)).contains("work.mean_ns = NaN"));
        assert!(of(&|spec| spec.mean_ns = None).contains("give it in nanoseconds"));
        let error = spec(ServiceTimes::Fixed).check(35).unwrap_err().to_string();
        assert!(error.contains("it must be 36 or more"), "{error}");
    }
}
