//! Links: their rate, their latency and their faults.

use crate::packet::Packet;
use fabric::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::Random;

/// The bit rate of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineRate {
    fs_per_byte: f64,
    /// Bytes that a link adds to each packet.
    overhead_bytes: u32,
}

impl LineRate {
    /// A rate in gigabits a second, more than 0.
    pub fn from_gbit_per_s(gbit_per_s: f64) -> LineRate {
        LineRate {
            fs_per_byte: 8e6 / gbit_per_s,
            overhead_bytes: 0,
        }
    }

    /// The same rate, with this overhead for each packet.
    pub fn with_overhead(self, overhead_bytes: u32) -> LineRate {
        LineRate {
            overhead_bytes,
            ..self
        }
    }

    /// The rate in gigabits a second.
    pub fn gbit_per_s(self) -> f64 {
        8e6 / self.fs_per_byte
    }

    /// The duration of a packet of this size, rounded to the nearest femtosecond.
    pub fn duration(self, bytes: u64) -> Time {
        let bytes = bytes + u64::from(self.overhead_bytes);
        Time::from_fs((bytes as f64 * self.fs_per_byte).round() as u64)
    }
}

/// A link, the same in both directions.
///
/// Defaults: nanoPU's, 200 Gb/s, and "all links have a latency of 43ns" (OSDI 2021, Sections 2.3
/// and 5.3), which is 140 cycles of 3.2 GHz in its published experiments, rounded down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// Gigabits in a second.
    #[schemars(range(min = 0.1, max = 10000.0))]
    pub rate_gbit_per_s: f64,
    /// Nanoseconds from a bit's entering the link until its leaving it.
    #[schemars(range(min = 2.0, max = 1e9))]
    pub latency_ns: f64,
    /// Additional bytes of each packet on the link. Ethernet's preamble, checksum and gap have 8, 4
    /// and 12 (IEEE 802.3); nanoPU does not count them.
    #[schemars(range(max = 64))]
    pub overhead_bytes: u32,
    /// Faults of the link.
    pub faults: LinkFaultSpec,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec {
            rate_gbit_per_s: 200.0,
            latency_ns: 43.0,
            overhead_bytes: 0,
            faults: LinkFaultSpec::default(),
        }
    }
}

impl LinkSpec {
    /// Its rate.
    pub fn rate(&self) -> LineRate {
        LineRate::from_gbit_per_s(self.rate_gbit_per_s).with_overhead(self.overhead_bytes)
    }

    /// Its latency.
    pub fn latency(&self) -> Time {
        Time::from_ns(self.latency_ns)
    }
}

/// Faults of a link, in each direction. Only the transport repairs them.
///
/// Defaults: nothing goes wrong. 500 ns are twelve packets of 1 KB at 200 Gb/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkFaultSpec {
    /// The fraction of packets that is lost.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lost: f64,
    /// The fraction of packets that is duplicated, the copy immediately after the original.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicated: f64,
    /// The fraction of packets that is delayed, so that others overtake them.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reordered: f64,
    /// The maximum delay of such a packet; delays are uniformly distributed up to it.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub reordered_by_ns: f64,
}

impl Default for LinkFaultSpec {
    fn default() -> LinkFaultSpec {
        LinkFaultSpec {
            lost: 0.0,
            duplicated: 0.0,
            reordered: 0.0,
            reordered_by_ns: 500.0,
        }
    }
}

impl LinkFaultSpec {
    /// Draws whether a fault affects the next packet. A fault with probability 0 draws no number.
    fn happens(part: f64, random: &mut Random) -> bool {
        part > 0.0 && random.unit() < part
    }
}

/// The traffic of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct LinkCounts {
    /// Packets that were sent.
    pub packets: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that were delayed.
    pub reordered: u64,
}

impl std::iter::Sum for LinkCounts {
    fn sum<I: Iterator<Item = LinkCounts>>(counts: I) -> LinkCounts {
        counts.fold(LinkCounts::default(), |sum, counts| LinkCounts {
            packets: sum.packets + counts.packets,
            bytes: sum.bytes + counts.bytes,
            lost: sum.lost + counts.lost,
            duplicated: sum.duplicated + counts.duplicated,
            reordered: sum.reordered + counts.reordered,
        })
    }
}

/// One direction of a link.
#[derive(state::State)]
pub(super) struct Direction {
    #[state(fixed)]
    rate: LineRate,
    #[state(fixed)]
    latency: Time,
    #[state(fixed)]
    faults: LinkFaultSpec,
    /// The member at its end, and that member's port.
    #[state(fixed)]
    pub(super) to: (u16, u16),
    random: Random,
    pub(super) counts: LinkCounts,
}

/// The arrival of a packet at the end of a link.
pub(super) struct Arrivals {
    /// The times of its first and its last bit.
    pub(super) times: (Time, Time),
    /// It is lost.
    pub(super) is_lost: bool,
    /// A copy follows immediately.
    pub(super) is_duplicated: bool,
}

impl Direction {
    pub(super) fn new(spec: &LinkSpec, to: (u16, u16), random: Random) -> Direction {
        Direction {
            rate: spec.rate(),
            latency: spec.latency(),
            faults: spec.faults.clone(),
            to,
            random,
            counts: LinkCounts::default(),
        }
    }

    pub(super) fn latency(&self) -> Time {
        self.latency
    }

    /// Carries `packet`, whose first bit enters at `start`; returns its arrival, and when the next
    /// packet can enter.
    pub(super) fn carry(&mut self, start: Time, packet: &Packet) -> (Arrivals, Time) {
        let bytes = packet.wire_bytes();
        let duration = self.rate.duration(bytes);
        self.counts.packets += 1;
        self.counts.bytes += bytes;
        let mut first = start + self.latency;
        let is_lost = LinkFaultSpec::happens(self.faults.lost, &mut self.random);
        let is_duplicated =
            !is_lost && LinkFaultSpec::happens(self.faults.duplicated, &mut self.random);
        let is_late = !is_lost && LinkFaultSpec::happens(self.faults.reordered, &mut self.random);
        if is_late {
            first += Time::from_ns(self.faults.reordered_by_ns * self.random.unit());
        }
        self.counts.lost += u64::from(is_lost);
        self.counts.duplicated += u64::from(is_duplicated);
        self.counts.reordered += u64::from(is_late);
        let arrivals = Arrivals {
            times: (first, first + duration),
            is_lost,
            is_duplicated,
        };
        (arrivals, start + duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Stream;

    #[test]
    fn bytes_take_their_time() {
        // 72 bytes are 576 bits: at 200 Gb/s 2.88 ns, at 100 Gb/s twice that.
        let ns = |gbit_per_s, bytes| {
            LineRate::from_gbit_per_s(gbit_per_s)
                .duration(bytes)
                .as_ns()
        };
        assert_eq!(ns(200.0, 72), 2.88);
        assert_eq!(ns(100.0, 72), 5.76);
        assert_eq!(ns(200.0, 1024 + 64), 43.52);
        // The shortest frame of Ethernet, 60 bytes with 24 of overhead: 148.8 million a second.
        let ethernet = LinkSpec {
            rate_gbit_per_s: 100.0,
            overhead_bytes: 24,
            ..LinkSpec::default()
        };
        assert_eq!(ethernet.rate().duration(60).as_ns(), 6.72);
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let spec = LinkSpec {
            faults: LinkFaultSpec {
                lost: 0.5,
                duplicated: 0.25,
                reordered: 0.1,
                reordered_by_ns: 30.0,
            },
            ..LinkSpec::default()
        };
        let mut direction = Direction::new(&spec, (0, 0), Random::new(1, Stream::LinkFaults));
        let mut late = 0.0;
        for _ in 0..10_000 {
            let (arrivals, _) = direction.carry(Time::ZERO, &Packet::default());
            late += (arrivals.times.0 - Time::from_ns(43.0)).as_ns();
        }
        // Half of the packets are lost; of the other 5000 a quarter are duplicated and a tenth
        // delayed, by 15 ns on average. Three standard deviations are 150, 106 (of 1250, with the
        // uncertainty of 5000) and 67.
        let counts = direction.counts;
        assert_eq!((counts.packets, counts.bytes), (10_000, 640_000));
        assert!((4850..5150).contains(&counts.lost), "{counts:?}");
        assert!((1140..1360).contains(&counts.duplicated), "{counts:?}");
        assert!((430..570).contains(&counts.reordered), "{counts:?}");
        assert!((6000.0..9000.0).contains(&late), "{late}");
    }
}
