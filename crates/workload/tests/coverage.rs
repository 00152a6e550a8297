//! Runs that end by precision: their 95 % intervals have their nominal coverage, although the runs
//! end when the interval is short.

use fabric::Time;
use workload::{Estimate, Measurement, Random, Recorder, Sample, Stream, Warmup};

const RUNS: u64 = 400;
/// The maximum number of measured requests: more than any of these runs needs.
const MOST: u64 = 1_000_000;

/// A request of a server: its completion time, its latency in microseconds, and its queue.
type Served = (f64, f64, u32);

/// The share of 400 runs whose interval contains `truth`. `start` makes a server whose first
/// request has the same distribution as all others.
fn coverage<Server: FnMut(&mut Random) -> Served>(
    (estimate, precision): (Estimate, f64),
    truth: f64,
    start: impl Fn(&mut Random) -> Server,
) -> f64 {
    let mut hits = 0;
    for seed in 0..RUNS {
        let mut random = Random::new(seed, Stream::Arrivals);
        let mut server = start(&mut random);
        let mut recorder =
            Recorder::new(MOST, Warmup::Requests(0)).with_precision(Some(precision), estimate);
        let mut offered = 0;
        while !recorder.is_done() {
            offered += 1;
            let (completed_at, latency, queue) = server(&mut random);
            recorder.add(Sample {
                completed_at: Time::from_ns(1000.0 * completed_at),
                latency: Time::from_ns(1000.0 * latency),
                service: None,
                queue,
                kind: 0,
                is_cold: false,
                offered,
                under_way: 2,
            });
        }
        let [low, high] = interval(estimate, &recorder.measurement().unwrap());
        hits += u32::from(low <= truth && truth <= high);
    }
    f64::from(hits) / RUNS as f64
}

fn interval(estimate: Estimate, measurement: &Measurement) -> [f64; 2] {
    match estimate {
        Estimate::Throughput => measurement.throughput_mrps_ci95.unwrap(),
        _ => measurement
            .latency_ns
            .p99_ci95
            .unwrap()
            .map(|ns| ns / 1000.0),
    }
}

/// 95 % of 400 runs, within 2 %, plus the deviation by chance that occurs once in a hundred times:
/// 2.6 times sqrt(0.95 * 0.05 / 400), 2.8 %.
fn assert_is_95_percent(name: &str, share: f64) {
    assert!((0.95 - share).abs() <= 0.048, "{name}: {share}");
}

#[test]
fn a_server_that_never_waits() {
    let light = |_: &mut Random| {
        let mut now = 0.0;
        move |random: &mut Random| {
            now += 100.0;
            (now, random.exponential(), 0)
        }
    };
    let share = coverage((Estimate::P99, 0.15), 100.0f64.ln(), light);
    assert_is_95_percent("independent times", share);
}

/// Times that vary little: the interval is soon a third as long as it need be.
#[test]
fn a_server_with_nearly_equal_times() {
    let light = |_: &mut Random| {
        let mut now = 0.0;
        move |random: &mut Random| {
            now += 100.0;
            (now, 1.0 + 0.1 * random.exponential(), 0)
        }
    };
    let share = coverage((Estimate::P99, 0.15), 1.0 + 0.1 * 100.0f64.ln(), light);
    assert_is_95_percent("nearly equal times", share);
}

/// M/M/1 with mean service time 1: times in the system are exponential with mean 1 / (1 - load).
#[test]
fn a_queue() {
    let load = 0.5;
    let queue = |random: &mut Random| {
        let (mut time, mut now) = (random.exponential() / (1.0 - load), 0.0);
        move |random: &mut Random| {
            let gap = random.exponential() / load;
            now += gap;
            time = (time - gap).max(0.0) + random.exponential();
            (now + time, time, 0)
        }
    };
    let share = coverage((Estimate::P99, 0.15), 2.0 * 100.0f64.ln(), queue);
    assert_is_95_percent("M/M/1", share);
}

/// M/D/1 at a load of 0.7. The distribution of the wait is Crommelin's (Tijms, A First Course in
/// Stochastic Models, 2003, Section 9.5).
#[test]
fn a_queue_with_fixed_times() {
    let load = 0.7;
    let probability = |wait: f64| {
        let term = |k: i32| {
            let x = load * (f64::from(k) - wait);
            let factorial: f64 = (1..=k).map(f64::from).product();
            x.powi(k) / factorial * (-x).exp()
        };
        (1.0 - load) * (0..=wait.floor() as i32).map(term).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 15.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if probability(middle) < 0.99 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let server = |random: &mut Random| {
        let (mut wait, mut now) = (0.0f64, 0.0);
        // The queue is initially empty, which 1000 requests make irrelevant.
        for _ in 0..1000 {
            wait = (wait + 1.0 - random.exponential() / load).max(0.0);
        }
        move |random: &mut Random| {
            let gap = random.exponential() / load;
            now += gap;
            wait = (wait + 1.0 - gap).max(0.0);
            (now + wait + 1.0, wait + 1.0, 0)
        }
    };
    let share = coverage((Estimate::P99, 0.15), low + 1.0, server);
    assert_is_95_percent("M/D/1", share);
}

/// A saturated server that visits 20 queues in turn, each with exponential times of its own mean,
/// from 1 us for the first to 3 for the last.
#[test]
fn a_saturated_server_of_many_queues() {
    let polled = |_: &mut Random| {
        let (mut queue, mut now) = (0, 0.0);
        move |random: &mut Random| {
            queue = (queue + 1) % 20;
            now += (1.0 + 2.0 * f64::from(queue) / 19.0) * random.exponential();
            (now, 100.0, queue)
        }
    };
    let share = coverage((Estimate::Throughput, 0.03), 0.5, polled);
    assert_is_95_percent("polled queues", share);
}

/// A saturated server with two alternating states: 18 requests on average take 1 us, and then 2
/// take 3 us: 1.2 us in all.
#[test]
fn a_saturated_server_that_is_slow_at_times() {
    let modal = |random: &mut Random| {
        let (mut slow, mut now) = (random.unit() < 0.1, 0.0);
        move |random: &mut Random| {
            if random.unit() < if slow { 1.0 / 2.0 } else { 1.0 / 18.0 } {
                slow = !slow;
            }
            now += if slow { 3.0 } else { 1.0 };
            (now, 100.0, 0)
        }
    };
    let share = coverage((Estimate::Throughput, 0.03), 1.0 / 1.2, modal);
    assert_is_95_percent("a server with two states", share);
}
