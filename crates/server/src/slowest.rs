//! The slowest requests of a data plane, and the reasons.

use fabric::Time;
use queues::ItemRecord;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// Why it took so long, as a sentence.
    pub reason: String,
}

/// The `count` slowest of the measured requests, which are all but the first `warmup` of `history`,
/// in descending order of latency; ties are in order of completion, as in
/// [`Recorder::slowest_together`](workload::Recorder::slowest_together). The other requests of a
/// core are only considered if the core serves one at a time, i.e. has one of `threads`.
pub(crate) fn slowest(
    history: &[ItemRecord],
    warmup: usize,
    threads: usize,
    count: usize,
) -> Vec<SlowRequest> {
    if count == 0 {
        return Vec::new();
    }
    let latency = |record: &ItemRecord| record.done_at.saturating_sub(record.arrived_at);
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
    let mut measured: Vec<&ItemRecord> = history.iter().skip(warmup).collect();
    let services: Vec<f64> = measured.iter().filter_map(|one| service_ns(one)).collect();
    let mean_service_ns = services.iter().sum::<f64>() / services.len().max(1) as f64;
    measured.sort_by_key(|one| (std::cmp::Reverse(latency(one)), one.done_at));
    measured.truncate(count);
    let explained = measured.into_iter();
    explained
        .map(|one| {
            let of_core = of_cores.get(&one.core).map(Vec::as_slice);
            explain(of_core, one, mean_service_ns)
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
        match self.service_ns {
            Some(service) if service > LONG * mean_service_ns => {
                format!(
                    "{wait}; its service took {service:.0} ns, where the mean is {mean_service_ns:.0}"
                )
            }
            Some(service) => format!("{wait}; its service took {service:.0} ns"),
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
        let found = slowest(&history, 0, 1, 1);
        assert_eq!(found[0].item, 7);
    }

    #[test]
    fn nothing_is_said_of_others_on_a_core_that_serves_several_at_a_time() {
        let history = [record(0, 0, [0, 0, 900]), record(1, 0, [100, 900, 1000])];
        let found = slowest(&history, 0, 2, 2);
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
        let found = slowest(&history, 0, 1, 2);
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
    fn warm_up_is_left_out_and_still_explains() {
        let history = [record(0, 0, [0, 0, 900]), record(1, 0, [100, 900, 1000])];
        let found = slowest(&history, 1, 1, 10);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].item, found[0].behind), (1, Some(0)));
    }
}
