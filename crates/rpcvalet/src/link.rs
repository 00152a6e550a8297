//! Links of a network, and their faults.

use fabric::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::Random;

/// A link that carries one packet at a time, in order of submission.
#[derive(Clone, Debug, state::State)]
pub struct Link {
    #[state(fixed)]
    fs_per_byte: f64,
    free_at: Time,
}

impl Link {
    /// A link of this bandwidth in gigabytes a second, more than 0.
    pub fn new(gb_per_s: f64) -> Link {
        Link {
            fs_per_byte: 1e6 / gb_per_s,
            free_at: Time::ZERO,
        }
    }

    /// Sends a packet that is ready at `ready`; returns when its last byte has left the link.
    pub fn send(&mut self, ready: Time, bytes: u64) -> Time {
        let duration = Time::from_fs((bytes as f64 * self.fs_per_byte).round() as u64);
        self.free_at = self.free_at.max(ready) + duration;
        self.free_at
    }
}

/// Faults of the network. The link layer repairs them: it detects a lost or corrupted packet and
/// sends it again, and drops the second of two packets with the same number. The layers above see
/// only delays and packets out of order.
///
/// Defaults: nothing goes wrong. A retry takes a round trip of 2 x 50 ns and as long again to
/// notice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkFaults {
    /// The fraction of packets that is lost.
    #[schemars(range(min = 0.0, max = 0.9))]
    pub lost: f64,
    /// Nanoseconds until the link layer sends a lost packet again.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub retry_ns: f64,
    /// The fraction of packets that is duplicated.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicated: f64,
    /// The fraction of packets that is overtaken by others.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reordered: f64,
    /// The maximum delay of such a packet in nanoseconds.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub reordered_by_ns: f64,
}

impl Default for LinkFaults {
    fn default() -> LinkFaults {
        LinkFaults {
            lost: 0.0,
            retry_ns: 200.0,
            duplicated: 0.0,
            reordered: 0.0,
            reordered_by_ns: 100.0,
        }
    }
}

/// How often each thing has gone wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct LinkFaultCounts {
    /// Packets lost, and sent again.
    pub lost: u64,
    /// Packets that were duplicated; the second copy was dropped.
    pub duplicated: u64,
    /// Packets that were delayed.
    pub reordered: u64,
}

impl LinkFaults {
    /// The additional delay of the next packet due to faults.
    ///
    /// Draws no random number for faults that are disabled.
    pub fn delay(&self, random: &mut Random, counts: &mut LinkFaultCounts) -> Time {
        let mut delay_ns = 0.0;
        while self.lost > 0.0 && random.unit() < self.lost {
            counts.lost += 1;
            delay_ns += self.retry_ns;
        }
        if self.duplicated > 0.0 && random.unit() < self.duplicated {
            counts.duplicated += 1;
        }
        if self.reordered > 0.0 && random.unit() < self.reordered {
            counts.reordered += 1;
            delay_ns += self.reordered_by_ns * random.unit();
        }
        Time::from_ns(delay_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Stream;

    #[test]
    fn a_link_carries_one_packet_at_a_time() {
        // 80 bytes at 20 GB/s take 4 ns.
        let mut link = Link::new(20.0);
        let ns = Time::from_ns;
        assert_eq!(link.send(ns(10.0), 80), ns(14.0));
        assert_eq!(link.send(ns(11.0), 40), ns(16.0));
        assert_eq!(link.send(ns(20.0), 80), ns(24.0));
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let faults = LinkFaults {
            lost: 0.5,
            retry_ns: 10.0,
            duplicated: 0.25,
            ..LinkFaults::default()
        };
        let mut random = Random::new(1, Stream::Faults);
        let mut counts = LinkFaultCounts::default();
        let delays = (0..10_000).map(|_| faults.delay(&mut random, &mut counts).as_ns());
        // A packet is lost once on average, 1/2 + 1/4 + ..., and each loss delays it by 10 ns.
        let total: f64 = delays.sum();
        assert_eq!(total, counts.lost as f64 * 10.0);
        assert!((9_500..10_500).contains(&counts.lost), "{counts:?}");
        assert!((2_300..2_700).contains(&counts.duplicated), "{counts:?}");
        assert_eq!(counts.reordered, 0);
    }
}
