//! Work of given length: generated packets that state the time a program takes for each.

use crate::packets::{IPV4_HEADER_BYTES, UDP_HEADER_BYTES, udp_checksum};
use crate::{Distribution, Files, Random, ServiceTimes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};

/// The first bytes of the payload of a UDP packet; the nanoseconds follow in four bytes, most
/// significant first (`guest/programs/synthetic.c`).
const TEXT: &[u8; 4] = b"work";
/// The offset of the payload.
const PAYLOAD: usize = IPV4_HEADER_BYTES + UDP_HEADER_BYTES;

/// The time that programs with synthetic work take for each item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkSpec {
    /// Nanoseconds that every item takes.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub base_ns: f64,
    /// Additional nanoseconds, on average. Recorded times are as they were recorded without it; the
    /// other distributions need it.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub mean_ns: Option<f64>,
    /// The distribution of the additional time.
    pub service_times: ServiceTimes,
    /// The minimum time in nanoseconds of items of the kind `long` in results; all others are of
    /// the kind `short`. Without it there are no kinds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub long_ns: Option<f64>,
}

/// The kinds of items by their time, by the numbers from [`FIRST_KIND`] on.
const KINDS: [&str; 2] = ["short", "long"];
/// These follow the kinds of operations.
const FIRST_KIND: u8 = 128;

/// The name of a kind by its number.
pub(crate) fn kind_name(kind: u8) -> Option<&'static str> {
    let place = kind.checked_sub(FIRST_KIND)?;
    KINDS.get(usize::from(place)).copied()
}

impl WorkSpec {
    /// The shortest packet with room for the time.
    pub(crate) const MINIMUM_PACKET_BYTES: u32 = (IPV4_HEADER_BYTES + UDP_HEADER_BYTES) as u32 + 8;

    /// Checks whether such times are possible.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        require(
            self.mean_ns.is_some() || matches!(self.service_times, ServiceTimes::Recorded { .. }),
            "mean_ns",
            "missing",
            "only recorded times have a mean of their own; give it in nanoseconds",
        )?;
        self.service_times.check().under("service_times")
    }

    /// The distribution of the times, with the file if there is one. An error message if the file
    /// is invalid.
    pub fn open(&self, random: Random, files: &Files) -> Result<Work, String> {
        let distribution = self.service_times.open(files)?;
        let scale = self.mean_ns.map_or(1.0, |mean| mean / distribution.mean());
        Ok(Work {
            base_ns: self.base_ns,
            scale,
            distribution,
            long_ns: self.long_ns,
            warm_ns: None,
            random,
        })
    }
}

/// Draws the work of each item.
#[derive(Clone, Debug, state::State)]
pub struct Work {
    #[state(fixed)]
    base_ns: f64,
    #[state(fixed)]
    scale: f64,
    #[state(fixed)]
    distribution: Distribution,
    #[state(fixed)]
    long_ns: Option<f64>,
    /// The time of each item of a warm start, if it is another one.
    #[state(fixed)]
    warm_ns: Option<f64>,
    random: Random,
}

impl Work {
    /// Lets each item of a warm start take `warm_ns`; the times after it are the same as without a
    /// warm start.
    pub(crate) fn with_warm_start(self, warm_ns: Option<f64>) -> Work {
        Work { warm_ns, ..self }
    }

    /// Writes the next time into a generated UDP packet, and updates the checksum. Four bytes hold
    /// at most 4.29 s, which extreme values exceed once in 10^12 times: those are limited to it.
    pub(crate) fn write_next(&mut self, packet: &mut [u8], in_warm_start: bool) {
        let time_ns = match self.warm_ns.filter(|_| in_warm_start) {
            Some(warm_ns) => warm_ns,
            None => self.base_ns + self.scale * self.distribution.draw(&mut self.random),
        };
        let time_ns = time_ns.round().min(f64::from(u32::MAX)) as u32;
        let payload = &mut packet[PAYLOAD..];
        payload[..4].copy_from_slice(TEXT);
        payload[4..8].copy_from_slice(&time_ns.to_be_bytes());
        let checksum = udp_checksum(packet);
        packet[IPV4_HEADER_BYTES + 6..][..2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The kind of a packet into which a time has been written, if items have kinds.
    pub(crate) fn kind_of(&self, packet: &[u8]) -> Option<u8> {
        let long_ns = self.long_ns?;
        let time = packet[PAYLOAD + TEXT.len()..].first_chunk()?;
        let is_long = f64::from(u32::from_be_bytes(*time)) >= long_ns;
        Some(FIRST_KIND + u8::from(is_long))
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
            long_ns: None,
        }
    }

    #[test]
    fn packets_say_how_long_they_take() {
        let mut generated = packets(&spec(ServiceTimes::Exponential));
        let mut times = Vec::new();
        for _ in 0..50_000 {
            let mut packet = Vec::new();
            generated.append_next(&mut packet, false);
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
        // The additional time is 300 ns or more with probability 1 / e: four standard deviations of
        // 0.0022.
        let long = times.iter().filter(|&&time| time >= 600.0).count() as f64 / 5e4;
        assert!((long - (-1.0f64).exp()).abs() < 0.009, "{long}");
    }

    /// Exponential times in addition to 300 ns: the kind follows from the time in the packet.
    #[test]
    fn times_can_tell_kinds_apart() {
        let mut generated = packets(&WorkSpec {
            long_ns: Some(600.0),
            ..spec(ServiceTimes::Exponential)
        });
        let mut seen = [0; 2];
        for _ in 0..1000 {
            let mut packet = Vec::new();
            generated.append_next(&mut packet, false);
            let time_ns = u32::from_be_bytes(packet[32..36].try_into().unwrap());
            let kind = generated.kind_of(ItemKind::Packets, &packet);
            let expected = if time_ns >= 600 { "long" } else { "short" };
            assert_eq!(ItemKind::Packets.kind_name(kind), Some(expected));
            seen[usize::from(time_ns >= 600)] += 1;
        }
        assert!(seen[0] > 500 && seen[1] > 300, "{seen:?}");
        let plain = packets(&spec(ServiceTimes::Fixed));
        assert_eq!(plain.kind_of(ItemKind::Packets, &[0; 64]), u8::MAX);
    }

    #[test]
    fn packets_are_otherwise_the_same() {
        let mut plain = plain();
        let mut working = packets(&spec(ServiceTimes::Fixed));
        for _ in 0..10 {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            plain.append_next(&mut one, false);
            working.append_next(&mut other, false);
            assert_eq!(one[..26], other[..26]);
            assert_eq!(other[32..36], 600u32.to_be_bytes());
            assert_eq!(one[36..], other[36..]);
        }
    }

    #[test]
    fn a_warm_start_has_its_own_time_and_draws_none() {
        let random = || Random::new(1, Stream::ServiceTimes);
        let open = || spec(ServiceTimes::Exponential).open(random(), &Files::default());
        let mut alone = plain().with_work(open().unwrap());
        let mut warmed = plain().with_work(open().unwrap().with_warm_start(Some(700.4)));
        let time = |packets: &mut Packets, in_warm_start| {
            let mut packet = Vec::new();
            packets.append_next(&mut packet, in_warm_start);
            u32::from_be_bytes(packet[32..36].try_into().unwrap())
        };
        for _ in 0..10 {
            assert_eq!(time(&mut warmed, true), 700);
        }
        for _ in 0..10 {
            assert_eq!(time(&mut warmed, false), time(&mut alone, true));
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
        let without = WorkSpec {
            mean_ns: None,
            ..spec(ServiceTimes::Fixed)
        };
        assert_eq!(
            without.check().unwrap_err().to_string(),
            "mean_ns is missing; only recorded times have a mean of their own; give it in \
             nanoseconds"
        );
        let mut traffic = crate::TrafficSpec {
            packet_bytes: 35,
            work: Some(spec(ServiceTimes::Fixed)),
            ..crate::TrafficSpec::default()
        };
        assert_eq!(
            traffic.check().unwrap_err().to_string(),
            "packet_bytes is 35; with work it must be 36 or more, to have room for the time"
        );
        traffic.packet_bytes = 36;
        assert_eq!(traffic.check(), Ok(()));
    }
}
