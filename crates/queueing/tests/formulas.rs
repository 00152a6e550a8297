//! Simulated systems, compared with the formulas of queueing theory.

use queueing::{Latencies, Measured, QueueingSystem};
use workload::{Files, ServiceTimes};

fn system(queues: u32, units: u32, service_times: ServiceTimes, load: f64) -> QueueingSystem {
    QueueingSystem {
        queues,
        units,
        service_times,
        fixed_part: 0.0,
        load,
        requests: 1_000_000,
        seed: 1,
    }
}

/// The extreme values of RPCValet (Section 5).
fn extreme_values() -> ServiceTimes {
    ServiceTimes::GeneralizedExtremeValue {
        location: 363.0,
        scale: 100.0,
        shape: 0.65,
    }
}

fn simulate(system: &QueueingSystem) -> Measured {
    system
        .simulate(&Files::default(), |_| true)
        .unwrap()
        .unwrap()
}

fn latencies(system: &QueueingSystem) -> Latencies {
    simulate(system).latency_service_times
}

/// Intervals of 95 % would fail in one of twenty cases; intervals of twice the width fail in one of
/// ten thousand.
fn near(interval: [f64; 2], expected: f64) -> bool {
    let half = (interval[1] - interval[0]) / 2.0;
    (interval[0] - half..=interval[1] + half).contains(&expected)
}

/// Erlang's C: the probability that a request of M/M/k waits.
fn erlang_c(units: u32, load: f64) -> f64 {
    let offered = load * f64::from(units);
    // Erlang's B by its recursion.
    let blocked = (1..=units).fold(1.0, |blocked, unit| {
        offered * blocked / (f64::from(unit) + offered * blocked)
    });
    blocked / (1.0 - load * (1.0 - blocked))
}

#[test]
fn exponential_service_meets_erlang_c() {
    for (units, load) in [(1, 0.3), (1, 0.8), (4, 0.7), (16, 0.5), (16, 0.9)] {
        let measured = simulate(&system(1, units, ServiceTimes::Exponential, load));
        let wait = erlang_c(units, load) / (f64::from(units) * (1.0 - load));
        assert!(
            near(measured.latency_service_times.mean_ci95, 1.0 + wait),
            "{units} units, load {load}: {measured:?}, expected a mean of {}",
            1.0 + wait
        );
        assert!((measured.throughput - load).abs() < 0.01 * load);
        assert!(measured.steady && measured.keeps_up, "{measured:?}");
        // A latency is a wait and a service, whose unit is the mean of what is drawn: here 1.
        let parts = measured.mean_wait_service_times + measured.mean_drawn_service_time;
        assert!((measured.latency_service_times.mean - parts).abs() < 1e-9);
    }
}

#[test]
fn latency_beyond_the_capacity_grows() {
    let measured = simulate(&system(1, 4, ServiceTimes::Exponential, 1.5));
    assert!(!measured.steady && !measured.keeps_up, "{measured:?}");
    // The load itself, and the latency.
    assert_eq!(measured.overload.len(), 2, "{measured:?}");
}

/// Batches that are not a whole number of what is drawn at once.
#[test]
fn every_request_of_a_batch_is_served() {
    let mut system = system(1, 1, ServiceTimes::Exponential, 0.5);
    for requests in [30 * 255, 30 * 256, 30 * 257] {
        system.requests = requests;
        let mut fractions = Vec::new();
        let measured = system.simulate(&Files::default(), |fraction| {
            fractions.push(fraction);
            true
        });
        assert!(measured.unwrap().is_some());
        assert!(fractions.is_sorted());
        assert_eq!(fractions.last(), Some(&1.0), "{requests} requests");
    }
}

#[test]
fn tails_of_one_exponential_unit_are_exponential() {
    // M/M/1: the latency is exponential with mean 1 / (1 - load).
    for load in [0.2, 0.5, 0.8] {
        let measured = latencies(&system(1, 1, ServiceTimes::Exponential, load));
        let expected = 100.0f64.ln() / (1.0 - load);
        assert!(near(measured.p99_ci95, expected), "{measured:?} {expected}");
        assert!((measured.p50 * (1.0 - load) - 2.0f64.ln()).abs() < 0.03);
    }
}

#[test]
fn pollaczek_and_khinchine() {
    // M/G/1: wait = load / (1 - load) * (1 + variance) / 2, with variance 0 and 1/3.
    for (times, variance) in [
        (ServiceTimes::Fixed, 0.0),
        (ServiceTimes::Uniform, 1.0 / 3.0),
    ] {
        for load in [0.3, 0.6, 0.85] {
            let measured = latencies(&system(1, 1, times.clone(), load));
            let wait = load / (1.0 - load) * (1.0 + variance) / 2.0;
            assert!(near(measured.mean_ci95, 1.0 + wait), "{measured:?} {wait}");
        }
    }
    // Half of a service time is fixed and half exponential: a quarter of the variance.
    let mixed = QueueingSystem {
        fixed_part: 0.5,
        ..system(1, 1, ServiceTimes::Exponential, 0.6)
    };
    let wait = 0.6 / 0.4 * 1.25 / 2.0;
    assert!(near(latencies(&mixed).mean_ci95, 1.0 + wait));
}

/// M/D/k by Crommelin's argument (1932): after a service time of 1, the requests that were in
/// service have left, and those that arrived meanwhile are present. So the number of requests in
/// the system at times 1 apart is a Markov chain, `next = max(now - units, 0) + Poisson(load *
/// units)`, whose stationary distribution gives the mean number waiting and, by Little's law, the
/// mean wait.
fn wait_with_fixed_service(units: u32, load: f64) -> f64 {
    let (units, arrivals) = (units as usize, load * f64::from(units));
    let states = 40 * units;
    let mut poisson = vec![(-arrivals).exp()];
    for count in 1..states {
        poisson.push(poisson[count - 1] * arrivals / count as f64);
    }
    let mut law = vec![1.0 / states as f64; states];
    for _ in 0..4000 {
        let mut next = vec![0.0; states];
        for (state, &probability) in law.iter().enumerate() {
            let stay = state.saturating_sub(units);
            for (count, &chance) in poisson.iter().enumerate().take(states - stay) {
                next[stay + count] += probability * chance;
            }
        }
        let sum: f64 = next.iter().sum();
        let change: f64 = next
            .iter()
            .zip(&law)
            .map(|(new, old)| (new / sum - old).abs())
            .sum();
        law = next.iter().map(|probability| probability / sum).collect();
        if change < 1e-12 {
            break;
        }
    }
    let waiting: f64 = (units..states)
        .map(|state| (state - units) as f64 * law[state])
        .sum();
    waiting / arrivals
}

#[test]
fn fixed_service_meets_crommelin() {
    // One unit, for which Pollaczek and Khinchine give the same.
    assert!((wait_with_fixed_service(1, 0.6) - 0.75).abs() < 1e-6);
    for (units, load) in [(1, 0.8), (4, 0.8), (16, 0.8), (16, 0.9)] {
        let measured = latencies(&system(1, units, ServiceTimes::Fixed, load));
        let wait = wait_with_fixed_service(units, load);
        assert!(
            near(measured.mean_ci95, 1.0 + wait),
            "{units} units, load {load}: {measured:?}, expected a mean of {}",
            1.0 + wait
        );
    }
}

#[test]
fn one_queue_each_is_as_many_systems_of_one_unit() {
    let divided = latencies(&system(16, 1, ServiceTimes::Exponential, 0.5));
    assert!(near(divided.mean_ci95, 2.0), "{divided:?}");
    let shared = latencies(&system(1, 16, ServiceTimes::Exponential, 0.5));
    assert!(shared.p99 < divided.p99);
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let one = system(4, 4, extreme_values(), 0.7);
    assert_eq!(simulate(&one), simulate(&one));
    let other = QueueingSystem {
        seed: 2,
        ..one.clone()
    };
    assert_ne!(latencies(&one).mean, latencies(&other).mean);
}

/// Every number but the seed, all of whose values are equally good.
#[test]
fn every_number_has_a_declared_range() {
    let schema = schemars::schema_for!(queueing::Description);
    let found = spec::without_range(schema.as_value());
    assert_eq!(Vec::from_iter(found), ["QueueingSystem.seed"]);
}

#[test]
fn wrong_systems_get_a_sentence() {
    let right = system(1, 16, ServiceTimes::Fixed, 0.5);
    let of = |change: &dyn Fn(&mut QueueingSystem)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        wrong.check().unwrap_err().to_string()
    };
    assert_eq!(
        of(&|system| system.queues = 0),
        "queues is 0; it must be from 1 to 1024"
    );
    assert_eq!(right.simulate(&Files::default(), |_| false), Ok(None));
}
