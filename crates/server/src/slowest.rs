//! The slowest requests of a data plane, and the reasons.

use fabric::{Clock, Source, Time};
use queues::ItemRecord;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::Miss;

/// A service time is reported as long above this many times the mean.
const LONG: f64 = 1.5;

/// One of the slowest requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SlowRequest {
    /// The number of the request.
    pub item: u64,
    /// The queue of the request.
    pub queue: u32,
    /// The core that served it.
    pub core: u16,
    /// Simulated time of its arrival in the queue, in microseconds.
    pub arrived_us: f64,
    /// From its arrival until it was done.
    pub latency_ns: f64,
    /// From its arrival until its core started to serve it; `None` if the start was not observed.
    pub waited_ns: Option<f64>,
    /// The part of the wait in which its core served other requests; `None` if cores serve several
    /// at a time.
    pub others_ns: Option<f64>,
    /// From the start of its service until it was done; `None` if the start was not observed.
    pub service_ns: Option<f64>,
    /// The request that its core was serving when this one arrived, if any.
    pub behind: Option<u64>,
    /// Requests that its core finished while this one waited.
    pub served_before: u64,
    /// The loads of its service that waited for a line; `None` if they were not looked at, as where
    /// cores serve several requests at a time.
    pub misses: Option<ServiceMisses>,
    /// Why it took so long, as a sentence.
    pub reason: String,
}

/// Loads of a request's service that waited for a line, because it was not in the first-level
/// cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServiceMisses {
    /// The part of the service in which one of them or several waited.
    pub waited_ns: f64,
    /// Loads that waited for a line in the core's own second-level cache.
    pub second_level: MissesTo,
    /// Loads that waited for a line in the last-level cache.
    pub last_level: MissesTo,
    /// Loads that waited for a line in another core's private cache or in a device.
    pub another_cache: MissesTo,
    /// Loads that waited for a line in memory.
    pub memory: MissesTo,
}

/// Loads that waited for lines from one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MissesTo {
    /// Number of loads.
    pub loads: u64,
    /// The sum of their waits, which may overlap.
    pub waited_ns: f64,
}

/// The misses of a server's cores.
pub(crate) struct CoreMisses<'m> {
    /// The cycles in which they were looked at; ordered and disjoint.
    pub seen: &'m [Range<u64>],
    /// By core, in the order of the program.
    pub of_cores: Vec<Vec<Miss>>,
    pub clock: Clock,
}

impl CoreMisses<'_> {
    /// Those of a core's loads that had their values between two times; `None` if nobody has looked
    /// all the time.
    fn between(&self, core: u16, began_at: Time, done_at: Time) -> Option<ServiceMisses> {
        let (from, until) = (
            self.clock.cycle_of(began_at),
            self.clock.cycle_at_or_after(done_at),
        );
        let mut seen = self.seen.iter();
        if !seen.any(|seen| seen.start <= from && until <= seen.end) {
            return None;
        }
        let misses = self.of_cores.get(usize::from(core))?;
        let ended_in = |miss: &&Miss| {
            let at = self.clock.time(miss.until);
            began_at < at && at <= done_at
        };
        let mut found = ServiceMisses::default();
        let ns = |cycles: u64| self.clock.time(cycles).as_ns();
        let mut waits = Vec::new();
        for miss in misses.iter().filter(ended_in) {
            let to = match miss.source {
                Source::SecondLevel => &mut found.second_level,
                Source::LastLevel => &mut found.last_level,
                Source::Cache => &mut found.another_cache,
                Source::Memory => &mut found.memory,
            };
            to.loads += 1;
            to.waited_ns += ns(miss.until - miss.from);
            waits.push((miss.from.max(from), miss.until));
        }
        waits.sort_unstable();
        let (mut cycles, mut last) = (0, 0);
        for (from, until) in waits {
            cycles += until.saturating_sub(from.max(last));
            last = last.max(until);
        }
        found.waited_ns = ns(cycles);
        Some(found)
    }
}

impl ServiceMisses {
    /// As the end of a sentence.
    fn said(&self) -> String {
        let places = [
            (self.second_level, "from the second-level cache"),
            (self.last_level, "from the last-level cache"),
            (self.another_cache, "from another cache"),
            (self.memory, "from memory"),
        ];
        let all: u64 = places.iter().map(|(to, _)| to.loads).sum();
        let listed: Vec<String> = places
            .iter()
            .filter(|(to, _)| to.loads > 0)
            .map(|(to, place)| {
                let more = if to.loads > 1 { " in all" } else { "" };
                format!("{} {place}, {:.0} ns{more}", to.loads, to.waited_ns)
            })
            .collect();
        match all {
            0 => "; no load in it waited for a line".to_string(),
            1 => format!("; a load in it waited for a line ({})", listed.join("; ")),
            _ => format!(
                "; for {:.0} ns of it, loads waited for lines ({})",
                self.waited_ns,
                listed.join("; ")
            ),
        }
    }
}

/// The `count` slowest of the measured requests, which are all but the first `warmup` of `history`,
/// in descending order of latency; ties are in order of completion, as in
/// [`Recorder::slowest_together`](workload::Recorder::slowest_together).
pub(crate) fn select(history: &[ItemRecord], warmup: usize, count: usize) -> Vec<&ItemRecord> {
    let latency = |record: &ItemRecord| record.done_at.saturating_sub(record.arrived_at);
    let mut measured: Vec<&ItemRecord> = history.iter().skip(warmup).collect();
    measured.sort_by_key(|one| (std::cmp::Reverse(latency(one)), one.done_at));
    measured.truncate(count);
    measured
}

/// The requests that [`select`] selects, with the reasons. The other requests of a core, and its
/// misses, are only considered if the core serves one at a time, i.e. has one of `threads`.
pub(crate) fn slowest(
    history: &[ItemRecord],
    warmup: usize,
    threads: usize,
    count: usize,
    misses: Option<&CoreMisses<'_>>,
) -> Vec<SlowRequest> {
    if count == 0 {
        return Vec::new();
    }
    let mut of_cores = BTreeMap::<u16, Vec<&ItemRecord>>::new();
    if threads == 1 {
        for record in history {
            of_cores.entry(record.core).or_default().push(record);
        }
    }
    let of_cores: BTreeMap<_, _> = of_cores
        .into_iter()
        .map(|(core, mut records)| {
            records.sort_by_key(|one| one.done_at);
            (core, records)
        })
        .collect();
    let services = history.iter().skip(warmup).filter_map(service_ns);
    let services: Vec<f64> = services.collect();
    let mean_service_ns = services.iter().sum::<f64>() / services.len().max(1) as f64;
    let explained = select(history, warmup, count).into_iter();
    explained
        .map(|one| {
            let of_core = of_cores.get(&one.core).map(Vec::as_slice);
            let misses = misses.filter(|_| threads == 1).zip(one.began_at);
            let misses = misses
                .and_then(|(misses, began_at)| misses.between(one.core, began_at, one.done_at));
            explain(of_core, one, mean_service_ns, misses)
        })
        .collect()
}

fn service_ns(record: &ItemRecord) -> Option<f64> {
    let began_at = record.began_at?;
    Some(record.done_at.saturating_sub(began_at).as_ns())
}

/// `of_core` has all requests of its core in order of completion, if the core served one at a time.
fn explain(
    of_core: Option<&[&ItemRecord]>,
    record: &ItemRecord,
    mean_service_ns: f64,
    misses: Option<ServiceMisses>,
) -> SlowRequest {
    let ItemRecord {
        item,
        queue,
        arrived_at,
        done_at,
        core,
        began_at,
    } = *record;
    let until = began_at.unwrap_or(done_at);
    let others = of_core.unwrap_or_default();
    let start = others.partition_point(|other| other.done_at <= arrived_at);
    let others = others[start..]
        .iter()
        .take_while(|other| other.done_at <= until);
    let others = others.filter(|other| other.item != item);
    let (mut served_before, mut busy, mut behind) = (0, Time::ZERO, None);
    for other in others {
        let since = other.began_at.unwrap_or(other.done_at);
        served_before += 1;
        busy += other.done_at.saturating_sub(since.max(arrived_at));
        if since <= arrived_at {
            behind = Some(other.item);
        }
    }
    let waited_ns = began_at.map(|at| at.saturating_sub(arrived_at).as_ns());
    let mut request = SlowRequest {
        item,
        queue,
        core,
        arrived_us: arrived_at.as_ns() / 1e3,
        latency_ns: done_at.saturating_sub(arrived_at).as_ns(),
        waited_ns,
        others_ns: of_core.and(waited_ns).map(|_| busy.as_ns()),
        service_ns: service_ns(record),
        behind,
        served_before,
        misses,
        reason: String::new(),
    };
    request.reason = request.sentence(mean_service_ns);
    request
}

impl SlowRequest {
    fn sentence(&self, mean_service_ns: f64) -> String {
        let core = self.core;
        let wait = match (self.waited_ns, self.others_ns) {
            (Some(waited), Some(others)) => {
                let more = match (self.behind, self.served_before) {
                    (_, 0) => "which had nothing else to do".to_string(),
                    (Some(behind), 1) => format!("behind request {behind}"),
                    (Some(behind), count) => {
                        format!("behind request {behind} and {} more", count - 1)
                    }
                    (None, 1) => "which served another first".to_string(),
                    (None, count) => format!("which served {count} others first"),
                };
                let unseen = waited - others;
                let found = match self.served_before {
                    0 => String::new(),
                    _ if unseen < 0.1 * waited => String::new(),
                    _ => format!(", with {unseen:.0} ns between services"),
                };
                format!("waited {waited:.0} ns for core {core}, {more}{found}")
            }
            (Some(waited), None) => format!("waited {waited:.0} ns for core {core}"),
            (None, _) => format!("was done by core {core}"),
        };
        let missed = self.misses.as_ref().map(ServiceMisses::said);
        let missed = missed.unwrap_or_default();
        match self.service_ns {
            Some(service) if service > LONG * mean_service_ns => {
                format!(
                    "{wait}; its service took {service:.0} ns, where the mean is \
                     {mean_service_ns:.0}{missed}"
                )
            }
            Some(service) => format!("{wait}; its service took {service:.0} ns{missed}"),
            None => wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(item: u64, core: u16, times: [u64; 3]) -> ItemRecord {
        let [arrived_at, began_at, done_at] = times.map(|ns| Time::from_ns(ns as f64));
        ItemRecord {
            item,
            queue: 3,
            arrived_at,
            done_at,
            core,
            began_at: Some(began_at),
        }
    }

    #[test]
    fn of_equally_slow_requests_the_first_is_the_one_that_was_done_first() {
        let history = [record(7, 0, [0, 0, 100]), record(3, 1, [50, 50, 150])];
        let found = slowest(&history, 0, 1, 1, None);
        assert_eq!(found[0].item, 7);
    }

    #[test]
    fn nothing_is_said_of_others_on_a_core_that_serves_several_at_a_time() {
        let history = [record(0, 0, [0, 0, 900]), record(1, 0, [100, 900, 1000])];
        let found = slowest(&history, 0, 2, 2, None);
        assert_eq!((found[1].others_ns, found[1].behind), (None, None));
        assert_eq!(found[1].waited_ns, Some(800.0));
        assert!(
            found[1]
                .reason
                .starts_with("waited 800 ns for core 0; its service")
        );
    }

    #[test]
    fn a_request_waits_behind_those_that_its_core_serves_first() {
        let history = [
            record(0, 0, [0, 10, 110]),
            record(1, 0, [50, 110, 210]),
            record(2, 1, [60, 70, 510]),
            record(3, 0, [100, 260, 360]),
        ];
        let found = slowest(&history, 0, 1, 2, None);
        let items: Vec<u64> = found.iter().map(|one| one.item).collect();
        assert_eq!(items, [2, 3]);
        assert_eq!(found[0].behind, None);
        assert_eq!(
            found[0].reason,
            "waited 10 ns for core 1, which had nothing else to do; its service took 440 ns, where \
             the mean is 185"
        );
        // Of the 160 ns, 10 are for request 0, 100 for request 1, and 50 between services.
        assert_eq!(found[1].behind, Some(0));
        assert_eq!(
            found[1].reason,
            "waited 160 ns for core 0, behind request 0 and 1 more, with 50 ns between services; \
             its service took 100 ns"
        );
    }

    #[test]
    fn misses_of_a_service_are_said_and_waits_that_overlap_count_once() {
        let history = [record(0, 0, [0, 100, 400]), record(1, 1, [0, 50, 90])];
        let miss = |from, until, source| Miss {
            from,
            until,
            source,
        };
        let of_cores = vec![
            vec![
                // Before its service.
                miss(40, 80, Source::Memory),
                // It began before it.
                miss(90, 150, Source::LastLevel),
                miss(200, 280, Source::Memory),
                miss(240, 300, Source::Cache),
                miss(241, 301, Source::Cache),
                miss(390, 410, Source::Memory),
            ],
            Vec::new(),
        ];
        let (whole, part) = (20..500, 20..380);
        let misses = CoreMisses {
            seen: std::slice::from_ref(&whole),
            of_cores,
            clock: Clock::from_ghz(1.0),
        };
        let found = slowest(&history, 0, 1, 2, Some(&misses));
        let of_first = found[0].misses.as_ref().unwrap();
        assert_eq!(of_first.waited_ns, 50.0 + 101.0);
        assert_eq!((of_first.last_level.loads, of_first.memory.loads), (1, 1));
        assert_eq!(of_first.another_cache.waited_ns, 120.0);
        assert!(
            found[0].reason.ends_with(
                "; for 151 ns of it, loads waited for lines (1 from the last-level cache, 60 ns; 2 \
                 from another cache, 120 ns in all; 1 from memory, 80 ns)"
            ),
            "{}",
            found[0].reason
        );
        assert!(
            found[1]
                .reason
                .ends_with("; no load in it waited for a line")
        );
        // Of a service that was not seen whole nothing is said.
        let misses = CoreMisses {
            seen: std::slice::from_ref(&part),
            ..misses
        };
        assert_eq!(slowest(&history, 0, 1, 2, Some(&misses))[0].misses, None);
    }

    #[test]
    fn warm_up_is_left_out_and_still_explains() {
        let history = [record(0, 0, [0, 0, 900]), record(1, 0, [100, 900, 1000])];
        let found = slowest(&history, 1, 1, 10, None);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].item, found[0].behind), (1, Some(0)));
    }
}
