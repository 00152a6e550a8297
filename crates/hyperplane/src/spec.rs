//! The description of HyperPlane's hardware.

use crate::{HyperPlaneEnergySpec, MAX_WAYS, MonitoringSet};
use fabric::{Clock, FabricSpec, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Far beyond any real hardware, and still within the host's memory.
const MAXIMUM_ENTRIES: usize = 1 << 20;
const MAXIMUM_CYCLES: u64 = 1_000_000;

/// How many ready sets a server of two sockets has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadySets {
    /// One for each socket, of the queues whose doorbells are in that socket's memory.
    #[default]
    PerSocket,
    /// One on the first socket, for all queues and all cores.
    One,
}

/// Whether a core gets queues of the other socket's ready set (§III-B leaves this to future work).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stealing {
    /// Never.
    #[default]
    None,
    /// While it halts because its own socket's has none for it.
    WhenIdle,
}

/// HyperPlane's hardware.
///
/// Defaults: HyperPlane (MICRO 2020), §IV-C and Table I.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HyperPlaneSpec {
    /// Entries of the monitoring set, over all banks, and QIDs of the ready set (1024 in §IV-C and
    /// Table I). Each directory bank has an equal part, of `ways` ways of a power of two rows. Of
    /// two sockets each has a monitoring set of so many.
    #[schemars(range(min = 2, max = MAXIMUM_ENTRIES))]
    pub entries: usize,
    /// Ways of the monitoring set: the entries that a look-up reads, in any of which a doorbell can
    /// be (2 in Fig. 5 and §IV-C; the ZCache, after which it is built, has 4).
    #[schemars(range(min = 2, max = MAX_WAYS))]
    pub ways: usize,
    /// The maximum number of entries that a walk for `QWAIT.ADD` visits before it gives up; by
    /// default all of its bank. The paper gives no limit; the ZCache's is 52.
    #[schemars(range(min = 2, max = MAXIMUM_ENTRIES))]
    pub walk_places: Option<usize>,
    /// Cycles of a look-up in the monitoring set: from the grant of a doorbell's ownership to its
    /// queue's ready bit, and before the answer to an instruction that arms (5 in §IV-C).
    #[schemars(range(max = MAXIMUM_CYCLES))]
    pub monitoring_set_lookup_cycles: u64,
    /// Cycles of a `QWAIT` that finds a ready queue, and from the ready bit to the end of a `QWAIT`
    /// that waited for it (50 in §IV-C, which calls this conservative).
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub qwait_latency_cycles: u64,
    /// Nanoseconds of a selection by a ready set of 1024 entries (12.25 in §IV-C), part of
    /// `QWAIT`'s latency. Other sizes scale with the levels of the parallel-prefix network (§IV-B).
    /// The rest of `QWAIT`'s latency is the round trip on the wires between core and ready set;
    /// instructions that change the ready set without a selection take this round trip. The paper
    /// does not give it.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub ready_set_latency_ns: f64,
    /// The power-optimised mode: a core that halts in `QWAIT` enters C1, with its clock stopped,
    /// until a queue is ready (§III-A, §V-D). It enters C1 when the ready set has no queue for it;
    /// a `QWAIT` that finds a ready queue does not.
    pub power_optimised: bool,
    /// Nanoseconds that a core takes from C1 back to work, before the end of its `QWAIT`: some
    /// 500 in §V-D, after Falsafi et al., "Unlocking Energy", 2016, and Schöne et al., "Wake-up
    /// Latencies for Processor Idle States", 2015.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub wake_up_latency_ns: f64,
    /// The ready sets of two sockets: `per-socket`, or `one` on the first socket. One socket has
    /// one.
    pub ready_sets: ReadySets,
    /// Whether a core gets queues of the other socket's ready set: `none`, or `when-idle`.
    pub stealing: Stealing,
    /// The energy of its events, and its leakage.
    pub energy: HyperPlaneEnergySpec,
}

impl Default for HyperPlaneSpec {
    fn default() -> HyperPlaneSpec {
        HyperPlaneSpec {
            entries: 1024,
            ways: 2,
            walk_places: None,
            monitoring_set_lookup_cycles: 5,
            qwait_latency_cycles: 50,
            ready_set_latency_ns: 12.25,
            power_optimised: false,
            wake_up_latency_ns: 500.0,
            ready_sets: ReadySets::PerSocket,
            stealing: Stealing::None,
            energy: HyperPlaneEnergySpec::default(),
        }
    }
}

/// The latencies as times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latencies {
    pub lookup: Time,
    /// The wires between a core and the ready set, there and back.
    pub update: Time,
    /// A selection by the ready set.
    pub selection: Time,
    /// From C1 back to work; nothing for cores that do not go there.
    pub wake_up: Time,
}

/// The entries of the ready set whose latency the paper gives (§IV-C).
const SYNTHESISED_ENTRIES: usize = 1024;

/// The levels of a Brent-Kung network over so many bits, the paper's choice for the arbiter
/// (§IV-B): 2 log2 n - 1 (Brent and Kung, IEEE Transactions on Computers C-31(3), 1982).
fn brent_kung_levels(entries: usize) -> f64 {
    f64::from(2 * entries.next_power_of_two().ilog2().max(1) - 1)
}

impl HyperPlaneSpec {
    /// Checks whether it can be built on this fabric.
    pub fn check(&self, fabric: &FabricSpec) -> Result<(), SpecError> {
        self.monitoring_set(fabric.tiles_of_socket())?;
        let (sets, _) = self.ready_sets(fabric.sockets)?;
        let entries = self.entries * fabric.sockets / sets;
        let minimum = fabric.minimum_delivery_latency();
        self.latencies(fabric.clock(), minimum, entries).map(drop)
    }

    /// An empty monitoring set of `banks` banks.
    pub(crate) fn monitoring_set(&self, banks: usize) -> Result<MonitoringSet, SpecError> {
        let rows = self.rows(banks)?;
        let walk_places = self.walk_places.unwrap_or(usize::MAX);
        require(
            walk_places >= self.ways,
            "walk_places",
            walk_places,
            format!("a walk looks at the {} ways at least (ways)", self.ways),
        )?;
        Ok(MonitoringSet::new(banks, self.ways, rows).with_walks_of(walk_places))
    }

    /// How many ready sets there are on `sockets` sockets, and whether queues are stolen.
    pub(crate) fn ready_sets(&self, sockets: usize) -> Result<(usize, bool), SpecError> {
        if self.stealing == Stealing::None {
            return Ok(match self.ready_sets {
                ReadySets::PerSocket => (sockets, false),
                ReadySets::One => (1, false),
            });
        }
        let wrong = |accepted: &str| Err(SpecError::new("stealing", "\"when-idle\"", accepted));
        match (self.ready_sets, sockets) {
            (ReadySets::One, _) => wrong(
                "with one ready set there is no other to get queues of; set ready_sets \
                 to \"per-socket\"",
            ),
            (_, 1) => wrong(
                "one socket has one ready set, and there is no other to get queues of; set \
                 server.fabric.sockets to 2",
            ),
            _ => Ok((sockets, true)),
        }
    }

    /// Rows of each way of each of `banks` banks.
    pub fn rows(&self, banks: usize) -> Result<usize, SpecError> {
        spec::check(self)?;
        let ways = self.ways;
        let places = banks.saturating_mul(ways);
        let rows = self.entries.checked_div(places).unwrap_or(0);
        let built = places.saturating_mul(rows.clamp(1, MAXIMUM_ENTRIES).next_power_of_two());
        require(
            rows.is_power_of_two() && rows * places == self.entries,
            "entries",
            self.entries,
            format!(
                "each of the {banks} directory banks has {ways} ways of a power of two rows, so \
                 that it can be {built}"
            ),
        )?;
        Ok(rows)
    }

    /// The latencies at `clock`, for ready sets of `ready_entries` entries each and wires that take
    /// no less than `minimum` from agent to core.
    pub(crate) fn latencies(
        &self,
        clock: Clock,
        minimum: Time,
        ready_entries: usize,
    ) -> Result<Latencies, SpecError> {
        spec::check(self)?;
        let ns = self.ready_set_latency_ns;
        let cycles = self.qwait_latency_cycles;
        let least = clock.cycle_at_or_after(Time::from_ns(ns) + minimum);
        require(
            cycles >= least,
            "qwait_latency_cycles",
            cycles,
            format!(
                "the ready set takes {ns} ns and the way to a core {minimum}, so that it must be \
                 {least} or more"
            ),
        )?;
        let levels = brent_kung_levels(ready_entries) / brent_kung_levels(SYNTHESISED_ENTRIES);
        Ok(Latencies {
            lookup: clock.time(self.monitoring_set_lookup_cycles),
            update: clock.time(cycles) - Time::from_ns(ns),
            selection: Time::from_ns(ns * levels),
            wake_up: if self.power_optimised {
                Time::from_ns(self.wake_up_latency_ns)
            } else {
                Time::ZERO
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_paper_s() {
        let spec = HyperPlaneSpec::default();
        assert_eq!(spec.rows(16), Ok(32));
        assert_eq!(spec.rows(1), Ok(512));
        let clock = Clock::from_ghz(2.0);
        let latencies = spec.latencies(clock, clock.time(10), 1024).unwrap();
        assert_eq!(latencies.lookup, Time::from_ns(2.5));
        assert_eq!(latencies.selection, Time::from_ns(12.25));
        assert_eq!(latencies.update, Time::from_ns(12.75));
        // "Power-optimised" is another mode of the paper, in which cores take 0.5 us to wake up.
        assert!(!spec.power_optimised);
        assert_eq!(latencies.wake_up, Time::ZERO);
        let spec = HyperPlaneSpec {
            power_optimised: true,
            ..spec
        };
        let latencies = spec.latencies(clock, clock.time(10), 1024).unwrap();
        assert_eq!(latencies.wake_up, Time::from_ns(500.0));
    }

    /// 1024 bits have 19 levels, 64 have 11, 2048 have 21; the wires are the same.
    #[test]
    fn a_selection_takes_as_long_as_its_network_is_deep() {
        let spec = HyperPlaneSpec::default();
        let clock = Clock::from_ghz(2.0);
        for (entries, levels) in [(64, 11.0), (1024, 19.0), (1536, 21.0), (2048, 21.0)] {
            let latencies = spec.latencies(clock, Time::ZERO, entries).unwrap();
            let expected = Time::from_ns(12.25 * levels / 19.0);
            assert_eq!(latencies.selection, expected, "{entries}");
            assert_eq!(latencies.update, Time::from_ns(12.75));
        }
    }

    #[test]
    fn errors_say_what_would_be_accepted() {
        let spec = HyperPlaneSpec {
            entries: 1000,
            ..HyperPlaneSpec::default()
        };
        assert_eq!(
            spec.rows(16).unwrap_err().to_string(),
            "entries is 1000; each of the 16 directory banks has 2 ways \
             of a power of two rows, so that it can be 1024"
        );
        for entries in [0, 1, usize::MAX, 1 << 21] {
            let spec = HyperPlaneSpec {
                entries,
                ..HyperPlaneSpec::default()
            };
            assert!(spec.rows(16).is_err());
            assert!(spec.rows(0).is_err());
            assert!(spec.rows(usize::MAX).is_err());
        }
        let three_ways = HyperPlaneSpec {
            ways: 3,
            ..HyperPlaneSpec::default()
        };
        assert!(
            three_ways
                .rows(16)
                .unwrap_err()
                .to_string()
                .ends_with("can be 1536")
        );
        for (ways, walk_places) in [(1, None), (9, None), (4, Some(3))] {
            let spec = HyperPlaneSpec {
                ways,
                walk_places,
                ..HyperPlaneSpec::default()
            };
            assert!(spec.monitoring_set(16).is_err());
        }
        let spec = HyperPlaneSpec {
            qwait_latency_cycles: 20,
            ..HyperPlaneSpec::default()
        };
        let clock = Clock::from_ghz(2.0);
        assert_eq!(
            spec.latencies(clock, Time::from_ns(5.0), 1024)
                .unwrap_err()
                .to_string(),
            "qwait_latency_cycles is 20; the ready set takes 12.25 ns \
             and the way to a core 5 ns, so that it must be 35 or more"
        );
    }

    #[test]
    fn queues_are_stolen_from_another_ready_set() {
        let stealing = HyperPlaneSpec {
            stealing: Stealing::WhenIdle,
            ..HyperPlaneSpec::default()
        };
        assert_eq!(stealing.ready_sets(2), Ok((2, true)));
        assert_eq!(
            stealing.ready_sets(1).unwrap_err().to_string(),
            "stealing is \"when-idle\"; one socket has one ready set, and there \
             is no other to get queues of; set server.fabric.sockets to 2"
        );
        let one = HyperPlaneSpec {
            ready_sets: ReadySets::One,
            ..stealing
        };
        assert!(one.ready_sets(2).is_err());
        let apart = HyperPlaneSpec::default();
        assert_eq!(
            (apart.ready_sets(1), apart.ready_sets(2)),
            (Ok((1, false)), Ok((2, false)))
        );
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        let spec: HyperPlaneSpec = serde_json::from_str(r#"{"entries": 2048}"#).unwrap();
        assert_eq!(spec.entries, 2048);
        assert_eq!(spec.qwait_latency_cycles, 50);
        assert!(serde_json::from_str::<HyperPlaneSpec>(r#"{"entires": 2048}"#).is_err());
    }
}
