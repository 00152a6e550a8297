use super::*;
use crate::{Random, Stream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::cell::RefCell;

fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

#[test]
fn queues_are_told_apart() {
    let mut recorder = Recorder::new(300, Warmup::Requests(100));
    for number in 0..400 {
        let latency = if number < 100 { 1e6 } else { f64::from(number) };
        recorder.add(Sample {
            completed_at: ns(f64::from(number)),
            latency: ns(latency),
            service: None,
            queue: number % 2,
            kind: 0,
            is_cold: false,
            offered: u64::from(number),
            under_way: 1,
        });
    }
    let [even, odd, none] = recorder.by_queue(3)[..] else {
        panic!("three queues were asked for");
    };
    // 100, 102, … 398: 150 numbers, of which the 149th is 99 %.
    assert_eq!(
        (even.samples, even.mean_ns, even.p99_ns),
        (150, Some(249.0), Some(396.0))
    );
    assert_eq!(
        (odd.samples, odd.mean_ns, odd.p99_ns),
        (150, Some(250.0), Some(397.0))
    );
    assert_eq!(none, QueueLatency::default());
}

#[test]
fn a_known_series() {
    let mut recorder = Recorder::new(1000, Warmup::Requests(10));
    for number in 0..10 {
        recorder.record(ns(f64::from(number)), ns(1e6));
    }
    for number in 1..=1000 {
        assert!(!recorder.is_done());
        recorder.record(ns(100.0 * f64::from(number)), ns(f64::from(number)));
    }
    assert!(recorder.is_done());
    recorder.record(ns(1e9), ns(1e9)); // Comes too late to count.
    let measurement = recorder.measurement().unwrap();
    assert_eq!(measurement.warmup_samples, 10);
    assert!((measurement.throughput_mrps - 10.0).abs() < 1e-9);
    let [low, high] = measurement.throughput_mrps_ci95.unwrap();
    assert!((low - 10.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9);
    let latency = &measurement.latency_ns;
    assert_eq!(
        (
            latency.mean,
            latency.p50,
            latency.p99,
            latency.p999,
            latency.max,
            latency.samples
        ),
        (500.5, 500.0, 990.0, 999.0, 1000.0, 1000)
    );

    let bytes = STANDARD.decode(&measurement.histogram).unwrap();
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .unwrap();
    assert_eq!(
        (histogram.len(), histogram.value_at_quantile(0.5)),
        (1000, 500)
    );
}

#[test]
fn the_histogram_has_long_latencies_too() {
    let text = histogram(&[5.0, 1e9]);
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut STANDARD.decode(&text).unwrap().as_slice())
        .unwrap();
    assert!(histogram.equivalent(histogram.max(), 1_000_000_000));
    assert_eq!((histogram.min(), histogram.len()), (5, 2));
}

#[test]
fn enough_is_counted_behind_the_warmup() {
    let mut random = Random::new(1, Stream::Arrivals);
    let mut recorder = Recorder::new(5000, Warmup::Auto);
    let mut number = 0.0;
    while !recorder.is_done() {
        let base = if number < 1500.0 { 5000.0 } else { 1000.0 };
        recorder.record(ns(100.0 * number), ns(base + 100.0 * random.exponential()));
        number += 1.0;
    }
    let measurement = recorder.measurement().unwrap();
    assert!(measurement.steady);
    assert!(measurement.latency_ns.samples >= 5000);
    assert!((1500..1600).contains(&measurement.warmup_samples));
    let [low, high] = measurement.latency_ns.mean_ci95.unwrap();
    assert!(low < 1100.0 && 1100.0 < high);
}

#[test]
fn what_never_settles_is_said_to_be_unsteady() {
    let mut recorder = Recorder::new(1000, Warmup::Auto);
    let mut number = 0.0;
    while !recorder.is_done() {
        recorder.record(ns(number), ns(number));
        number += 1.0;
    }
    let measurement = recorder.measurement().unwrap();
    assert_eq!(recorder.recorded(), 5000);
    assert!(!measurement.steady);
    assert_eq!(measurement.latency_ns.samples, 1000);
}

/// A saturated data plane that goes round 100 rings of 16 slots. Slots cost 100 ns each, and 2
/// ns more or less in the two halves of a ring; those used for the first time cost 20 less.
/// Latencies are those of a ring that fills up.
fn saturated(requests: u64, cost: impl Fn(u32) -> f64) -> Recorder {
    let rings = Rings {
        queues: 100,
        slots: 16,
    };
    let mut recorder = Recorder::new(requests, Warmup::Auto).with_full_rings(Some(rings));
    let (mut now, mut number) = (0.0, 0u32);
    while !recorder.is_done() {
        // Not all queues are in step.
        let is_cold = number < 1595 || (1600..1605).contains(&number);
        let of_slot = if number / 100 % 16 < 8 { 2.0 } else { -2.0 };
        now += cost(number) + of_slot - if is_cold { 20.0 } else { 0.0 };
        recorder.add(Sample {
            completed_at: ns(now),
            latency: ns(now.min(1.6e6)),
            service: None,
            queue: number % 100,
            kind: 0,
            is_cold,
            offered: u64::from(number) + 1,
            under_way: 1,
        });
        number += 1;
    }
    recorder
}

/// 300 requests would be less than a lap, all in cold slots, 20 % too fast. One lap is left out
/// and one measured, whose mean is 100 ns: 10 million a second. Its 1599 gaps lack one, of 102
/// ns.
#[test]
fn a_saturated_run_is_measured_over_whole_laps() {
    for requests in [300, 1600] {
        let measurement = saturated(requests, |_| 100.0).measurement().unwrap();
        assert!(measurement.steady);
        assert_eq!(measurement.warmup_samples, 1605);
        assert_eq!(measurement.latency_ns.samples, 1600);
        assert_eq!(measurement.cold_samples, 0);
        assert!((measurement.throughput_mrps - 10.0).abs() < 2e-4);
        let [low, high] = measurement.throughput_mrps_ci95.unwrap();
        assert!(low < 10.0 && 10.0 < high, "{low} {high}");
    }
    let measurement = saturated(1601, |_| 100.0).measurement().unwrap();
    assert_eq!(measurement.latency_ns.samples, 3200);
}

/// A slowdown with a time constant of 4000 requests, from 70 ns to 100, is detected if a run has
/// enough laps. 40 runs with exponential noise: 38 of 40 intervals of 95 % are right on average,
/// and at least 34 with probability 99.5 %; the remaining bias at four time constants is 0.5 ns,
/// about half an interval.
#[test]
fn a_slow_transient_is_left_out() {
    let (mut hits, mut first) = (0, 0);
    for seed in 0..40 {
        let random = RefCell::new(Random::new(seed, Stream::Arrivals));
        let recorder = saturated(64_000, |number| {
            let settled = 100.0 - 30.0 * (-f64::from(number) / 4000.0).exp();
            settled + 50.0 * (random.borrow_mut().exponential() - 1.0)
        });
        let measurement = recorder.measurement().unwrap();
        assert!(measurement.steady);
        assert!(
            (8000..40_000).contains(&measurement.warmup_samples),
            "{}",
            measurement.warmup_samples
        );
        let [low, high] = measurement.throughput_mrps_ci95.unwrap();
        hits += u32::from(low <= 10.0 && 10.0 <= high);
        // The mean of the first lap alone is far off.
        let early = 1e3 * 1600.0 / recorder.samples[1599].completed_at.as_ns();
        first += u32::from(low <= early && early <= high);
    }
    assert!(hits >= 34, "{hits}");
    assert_eq!(first, 0);
}

/// Rings in which the longest run, of 100 times the requested number, makes one and a half laps:
/// laps are given up early, and the result says so.
#[test]
fn rings_that_are_too_large_are_not_gone_round() {
    let rings = Rings {
        queues: 1000,
        slots: 20,
    };
    let mut recorder = Recorder::new(300, Warmup::Auto).with_full_rings(Some(rings));
    for number in 0..20_000 {
        recorder.add(Sample {
            completed_at: ns(f64::from(number)),
            latency: ns(1.0),
            service: None,
            queue: number % 1000,
            kind: 0,
            is_cold: true,
            offered: u64::from(number) + 1,
            under_way: 1,
        });
    }
    let measurement = recorder.measurement().unwrap();
    assert_eq!(recorder.recorded(), 1500);
    assert!(!measurement.steady);
    assert_eq!(measurement.cold_samples, 300);
}

/// One request a microsecond is served, and one is dropped; each waits for the time that a full
/// queue takes.
#[test]
fn a_full_queue_is_steady_and_does_not_keep_up() {
    let fill = |offered: u64| {
        let mut recorder = Recorder::new(1000, Warmup::Requests(0));
        for number in 0..1000u32 {
            recorder.add(Sample {
                completed_at: ns(1000.0 * f64::from(number + 5)),
                latency: ns(5000.0),
                service: None,
                queue: 0,
                kind: 0,
                is_cold: false,
                offered: offered * u64::from(number) + 1,
                under_way: 5,
            });
        }
        recorder
    };
    let measurement = fill(2).measurement().unwrap();
    assert!(measurement.steady && !measurement.keeps_up);
    // 999 microseconds from the first to the last.
    let offered = measurement.offered_mrps.unwrap();
    assert!((offered - 2.0).abs() < 1e-9);
    assert_eq!(
        measurement.overload,
        [
            "1.0000 million requests a second were served (at most 1.0000 with 95 % confidence), \
             and 2.0000 came"
        ]
    );
    let measurement = fill(1).measurement().unwrap();
    assert!(measurement.keeps_up && measurement.overload.is_empty());
    // Together they keep up if each does.
    let both = [&fill(1), &fill(2)];
    let together = Recorder::measurement_together(&both).unwrap();
    assert!(together.steady && !together.keeps_up);
    assert!((together.offered_mrps.unwrap() - 3.0).abs() < 1e-9);
}

/// The number in flight grows by one with each request, though latencies do not: some requests are
/// never served.
#[test]
fn requests_that_stay_under_way_are_noticed() {
    let mut recorder = Recorder::new(1000, Warmup::Requests(0));
    for number in 0..1000u32 {
        recorder.add(Sample {
            completed_at: ns(1000.0 * f64::from(number + 5)),
            latency: ns(5000.0),
            service: None,
            queue: 0,
            kind: 0,
            is_cold: false,
            offered: u64::from(number) + 1,
            under_way: u64::from(number) + 5,
        });
    }
    let measurement = recorder.measurement().unwrap();
    assert!(!measurement.steady && !measurement.keeps_up);
    let [reason] = &measurement.overload[..] else {
        panic!("{:?}", measurement.overload);
    };
    assert!(reason.starts_with("the number of requests under way grew by 19"));
}

#[test]
fn nothing_recorded_is_nothing_to_report() {
    let recorder = Recorder::new(10, Warmup::Auto);
    assert_eq!(recorder.measurement(), None);
    assert_eq!(Recorder::measurement_together(&[&recorder; 2]), None);
}

/// Two recorders number their kinds differently: kinds of the same name are one.
#[test]
fn kinds_of_the_same_name_are_reported_together() {
    let fill = |latencies: [f64; 2]| {
        let mut recorder = Recorder::new(1000, Warmup::Requests(0));
        for number in 0..1000u32 {
            let kind = (number % 4 == 0) as u8;
            recorder.add(Sample {
                completed_at: ns(100.0 * f64::from(number)),
                latency: ns(latencies[usize::from(kind)]),
                service: None,
                queue: 0,
                kind,
                is_cold: false,
                offered: u64::from(number),
                under_way: 1,
            });
        }
        recorder
    };
    let (one, other) = (fill([10.0, 20.0]), fill([30.0, 40.0]));
    let names = [["get", "put"], ["put", "scan"]];
    let together = Recorder::by_kind_together(&[&one, &other], |recorder, kind| {
        names[recorder][usize::from(kind)]
    });
    // 10 million a second each, three quarters of kind 0.
    let expected = [
        ("get", 750, 7.5, 10.0, 10.0),
        (
            "put",
            250 + 750,
            2.5 + 7.5,
            (250.0 * 20.0 + 750.0 * 30.0) / 1000.0,
            30.0,
        ),
        ("scan", 250, 2.5, 40.0, 40.0),
    ];
    assert_eq!(together.len(), expected.len());
    for (name, samples, rate_mrps, mean, longest) in expected {
        let KindMeasurement {
            throughput_mrps,
            ref latency_ns,
            ..
        } = together[name];
        assert_eq!((latency_ns.samples, latency_ns.max), (samples, longest));
        assert!((latency_ns.mean - mean).abs() < 1e-9);
        assert!((throughput_mrps - rate_mrps).abs() < 1e-9);
    }
    // A single recorder gives its own results.
    let alone = Recorder::by_kind_together(&[&one], |_, kind| kind);
    assert_eq!(alone, one.by_kind());
}

/// One recorder of 1000 requests that take 1 to 1000 ns, 100 ns apart, and one of 3000 that take
/// 2000 ns, 50 ns apart, both after a warm-up.
#[test]
fn recorders_report_together() {
    let fill = |requests: u32, gap: f64, latency: &dyn Fn(u32) -> f64| {
        let mut recorder = Recorder::new(requests.into(), Warmup::Requests(10));
        for number in 0..requests + 10 {
            let latency = if number < 10 {
                1e6
            } else {
                latency(number - 9)
            };
            recorder.record(ns(gap * f64::from(number)), ns(latency));
        }
        recorder
    };
    let one = fill(1000, 100.0, &f64::from);
    let other = fill(3000, 50.0, &|_| 2000.0);
    let both = [&one, &other];
    let together = Recorder::measurement_together(&both).unwrap();
    let latency = &together.latency_ns;
    assert_eq!((latency.samples, together.warmup_samples), (4000, 20));
    // A quarter takes at most 1000 ns; the sum is 1000 * 1001 / 2 and 3000 * 2000.
    assert_eq!(
        (latency.p50, latency.p999, latency.max),
        (2000.0, 2000.0, 2000.0)
    );
    assert!((latency.mean - (500_500.0 + 6_000_000.0) / 4000.0).abs() < 1e-9);
    // 10 and 20 million a second, without any error.
    assert!((together.throughput_mrps - 30.0).abs() < 1e-9);
    let [low, high] = together.throughput_mrps_ci95.unwrap();
    assert!((low - 30.0).abs() < 1e-6 && (high - 30.0).abs() < 1e-6);
    let bytes = STANDARD.decode(&together.histogram).unwrap();
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .unwrap();
    assert_eq!(
        (histogram.len(), histogram.min(), histogram.count_at(2000)),
        (4000, 1, 3000)
    );
    // The slowest tenth of the first alone; of both, none: three quarters take equally long.
    assert_eq!(one.slower_than(0.9).len(), 100);
    assert_eq!(Recorder::slower_than_together(&both, 0.9).len(), 0);
    assert_eq!(Recorder::slower_than_together(&both, 0.2).len(), 200 + 3000);
    let alone = Recorder::measurement_together(&both[..1]).unwrap();
    assert_eq!(alone.latency_ns, one.measurement().unwrap().latency_ns);
    assert_eq!(alone.histogram, one.measurement().unwrap().histogram);
}

/// Sufficient samples may have been saved while another recorder was not done; after restoring they
/// must suffice again, without further ones.
#[test]
fn a_recorder_that_has_enough_can_be_put_back() {
    let fill = |requests| {
        let mut recorder = Recorder::new(requests, Warmup::Requests(0));
        (0..100).for_each(|number| recorder.record(ns(f64::from(number)), ns(1.0)));
        recorder
    };
    let saved = state::Writer::write(&mut fill(100)).unwrap();
    let not_enough = state::Writer::write(&mut fill(101)).unwrap();
    let put_back = |requests, saved: &[u8]| {
        let mut recorder = Recorder::new(requests, Warmup::Requests(0));
        state::Reader::read(&mut recorder, saved).map(|()| recorder.is_done())
    };
    assert_eq!(put_back(100, &saved), Ok(true));
    assert_eq!(put_back(102, &not_enough), Ok(false));
    for (requests, saved, why) in [
        (99, &saved, "no more are to be measured"),
        (101, &saved, "and more are to be measured"),
        (100, &not_enough, "no more are to be measured"),
    ] {
        let error = put_back(requests, saved).unwrap_err();
        assert!(error.starts_with(if requests == 101 {
            "the latencies of 100"
        } else {
            "it has"
        }));
        assert!(error.ends_with(why), "{error}");
    }
}

#[test]
fn warmup_is_a_word_or_a_number() {
    assert_eq!(
        serde_json::from_str::<Warmup>("\"auto\"").unwrap(),
        Warmup::Auto
    );
    assert_eq!(
        serde_json::from_str::<Warmup>("7").unwrap(),
        Warmup::Requests(7)
    );
    assert_eq!(serde_json::to_string(&Warmup::Auto).unwrap(), "\"auto\"");
    assert_eq!(serde_json::to_string(&Warmup::Requests(7)).unwrap(), "7");
}

/// For a saturated server with exponential service times, half an interval of 5 % of the throughput
/// takes about (2.05 / 0.05)^2 = 1700 requests, and of 1.9 % 11,600. The latter is measured in whole
/// laps of 20 rings of 25 slots, the former in rounds over the 20 queues. The latencies, which are
/// those of a ring that fills up, do not matter.
#[test]
fn a_saturated_run_ends_when_its_throughput_is_precise() {
    let rings = Rings {
        queues: 20,
        slots: 25,
    };
    for (precision, unit, expected) in [(0.05, 20, 800..5000), (0.019, 500, 8000..20_000)] {
        let mut random = Random::new(1, Stream::Arrivals);
        let mut recorder = Recorder::new(50_000, Warmup::Auto)
            .with_precision(Some(precision), Estimate::Throughput)
            .with_full_rings(Some(rings));
        let mut now = 0.0;
        while !recorder.is_done() {
            now += 100.0 * random.exponential();
            recorder.record(ns(now), ns(now));
        }
        let measurement = recorder.measurement().unwrap();
        let [low, high] = measurement.throughput_mrps_ci95.unwrap();
        let half_mrps = (high - low) / 2.0;
        assert!(measurement.precise && half_mrps <= precision * measurement.throughput_mrps);
        assert!(low < 10.0 && 10.0 < high, "{low} {high}");
        let samples = measurement.latency_ns.samples;
        assert!(samples.is_multiple_of(unit), "{samples}");
        assert_eq!(samples.is_multiple_of(500), unit == 500, "{samples}");
        assert!(expected.contains(&samples), "{samples}");
    }
}

/// Laps of five requests, the first two of which take longer: with ten laps the drift is found, and
/// with nine it is not looked for.
#[test]
fn a_drift_is_looked_for_in_at_least_ten_laps() {
    let rings = Rings {
        queues: 1,
        slots: 5,
    };
    for (laps, expected) in [(9, 0), (10, 10)] {
        let mut recorder = Recorder::new(1 + 5 * laps, Warmup::Requests(0));
        let mut now = 0.0;
        recorder.record(ns(now), ns(1.0));
        for number in 0..5 * laps {
            now += if number < 10 { 900.0 } else { 100.0 };
            recorder.record(ns(now), ns(1.0));
        }
        assert_eq!(end_of_drift(&recorder.samples, rings), Some(expected));
    }
}

/// Latencies that are exponential with mean 1000 ns.
fn exponential(requests: u64, precision: f64, seed: u64) -> Recorder {
    let mut random = Random::new(seed, Stream::Arrivals);
    let mut recorder = Recorder::new(requests, Warmup::Requests(100))
        .with_precision(Some(precision), Estimate::P99);
    let mut number = 0.0;
    while !recorder.is_done() {
        recorder.record(ns(100.0 * number), ns(1000.0 * random.exponential()));
        number += 1.0;
    }
    recorder
}

fn width_of_p99(latency: &LatencySummary) -> f64 {
    let [low, high] = latency.p99_ci95.unwrap();
    (high - low) / 2.0 / latency.p99
}

/// Independent values: the p99's standard error is 1000 ns sqrt(0.99 / 0.01 / n), and 5 % of
/// 4605 ns half an interval, so n is about 2.05^2 x 99 x 1000^2 / 230^2 = 7800.
#[test]
fn a_run_goes_on_until_the_p99_is_precise() {
    let (mut hits, mut samples, mut unsteady, runs) = (0, 0, 0, 400);
    for seed in 0..runs {
        let measurement = exponential(100_000, 0.05, seed).measurement().unwrap();
        let latency = &measurement.latency_ns;
        assert!(measurement.precise);
        unsteady += u32::from(!measurement.steady);
        assert!(width_of_p99(latency) <= 0.05);
        samples += latency.samples;
        let [low, high] = latency.p99_ci95.unwrap();
        let truth = 1000.0 * 100.0f64.ln();
        hits += u32::from(low <= truth && truth <= high);
    }
    // Two series, each reported to drift in one of 500 cases: 1.6 of 400, and almost certainly at
    // most 7.
    assert!(unsteady <= 7, "{unsteady}");
    // 95 % of 400, within chance; stopping when the interval is short costs little coverage.
    assert!((364..=393).contains(&hits), "{hits}");
    assert!((7_800..15_600).contains(&(samples / runs)), "{samples}");
}

/// Nine tenths of the requests take equally long, and are precise at once; the rest are
/// exponential, so that 7800 of them are needed as above, and 78,000 in all.
#[test]
fn one_kind_of_requests_can_be_what_is_precise() {
    let run = |of| {
        let mut random = Random::new(1, Stream::Arrivals);
        let mut recorder = Recorder::new(100_000, Warmup::Requests(0))
            .with_precision(Some(0.05), Estimate::P99Of(of));
        let mut number = 0u32;
        while !recorder.is_done() {
            let kind = u8::from(number.is_multiple_of(10));
            let latency = match kind {
                1 => 1000.0 * random.exponential(),
                _ => 10_000.0,
            };
            recorder.add(Sample {
                completed_at: ns(100.0 * f64::from(number)),
                latency: ns(latency),
                service: None,
                queue: 0,
                kind,
                is_cold: false,
                offered: u64::from(number),
                under_way: 1,
            });
            number += 1;
        }
        recorder
    };
    let (frequent, rare) = (run(0), run(1));
    assert!(frequent.measurement().unwrap().precise);
    assert!(frequent.recorded() <= 2000, "{}", frequent.recorded());
    assert!(rare.measurement().unwrap().precise);
    assert!(
        (60_000..=100_000).contains(&rare.recorded()),
        "{}",
        rare.recorded()
    );
    assert!(width_of_p99(&rare.by_kind()[&1].latency_ns) <= 0.05);
}

#[test]
fn requests_are_the_most_that_is_measured() {
    let [few, many] = [6000, 50_000].map(|requests| exponential(requests, 0.05, 1));
    let [few, many] = [few, many].map(|recorder| recorder.measurement().unwrap());
    assert_eq!((few.precise, few.latency_ns.samples), (false, 6000));
    assert!(many.precise && many.latency_ns.samples < 20_000);
}

#[test]
fn a_run_that_would_take_too_long_is_given_up() {
    let measurement = exponential(10_000, 0.001, 1).measurement().unwrap();
    assert!(measurement.steady && !measurement.precise);
    assert_eq!(measurement.latency_ns.samples, 10_000);
    assert!(width_of_p99(&measurement.latency_ns) > 0.001);
}

#[test]
fn a_run_that_never_settles_is_given_up() {
    let mut recorder = Recorder::new(1000, Warmup::Auto).with_precision(Some(1e-6), Estimate::P99);
    let mut number = 0.0;
    while !recorder.is_done() {
        recorder.record(ns(number), ns(number));
        number += 1.0;
    }
    let measurement = recorder.measurement().unwrap();
    assert!(!measurement.steady && !measurement.precise);
    assert!((5000..6250).contains(&recorder.recorded()));
    assert_eq!(measurement.latency_ns.samples, 1000);
}

#[test]
fn equal_latencies_are_precise_at_once() {
    let mut recorder =
        Recorder::new(10_000, Warmup::Requests(0)).with_precision(Some(0.001), Estimate::P99);
    for number in 0..2000 {
        recorder.record(ns(f64::from(number)), ns(10.0));
    }
    let measurement = recorder.measurement().unwrap();
    assert!(measurement.precise);
    assert!(recorder.recorded() < 1000, "{}", recorder.recorded());
}

/// Five rounds over 400 queues have an interval, and fewer do not; with 8 queues, or if one request
/// in ten meets another, 60 requests are the minimum.
#[test]
fn intervals_need_five_rounds_over_the_queues() {
    let latency = |requests: u32, queues, meets_each: u32| {
        let mut recorder = Recorder::new(requests.into(), Warmup::Requests(0));
        for number in 0..requests {
            recorder.add(Sample {
                completed_at: ns(100.0 * f64::from(number)),
                latency: ns(f64::from(number % 7)),
                service: None,
                queue: number % queues,
                kind: 0,
                is_cold: false,
                offered: u64::from(number) + 1,
                under_way: 1 + u64::from(number.is_multiple_of(meets_each)),
            });
        }
        recorder.measurement().unwrap().latency_ns
    };
    for (requests, queues, meets_each, has_one) in [
        (2000, 400, 1, true),
        (1999, 400, 1, false),
        (60, 8, 1, true),
        (59, 8, 1, false),
        (100, 400, 9, false),
        (100, 400, 10, true),
    ] {
        let found = latency(requests, queues, meets_each);
        assert_eq!(found.mean_ci95.is_some(), has_one, "{requests} {queues}");
        assert_eq!(found.p99_ci95.is_some(), has_one, "{requests} {queues}");
    }
}

/// For a Poisson process of 2 Mrps: 3000 gaps have a relative standard error of 1 / sqrt(3000),
#[test]
fn the_interval_of_the_throughput_has_the_rate_in_it() {
    let (mut hits, mut halves) = (0, 0.0);
    for seed in 0..100 {
        let mut random = Random::new(seed, Stream::Arrivals);
        let mut recorder = Recorder::new(3001, Warmup::Requests(0));
        let mut now = 0.0;
        while !recorder.is_done() {
            now += 500.0 * random.exponential();
            recorder.record(ns(now), ns(1.0));
        }
        let [low, high] = recorder
            .measurement()
            .unwrap()
            .throughput_mrps_ci95
            .unwrap();
        hits += i32::from(low <= 2.0 && 2.0 <= high);
        halves += (high - low) / 2.0 / 2.0 / 100.0;
    }
    assert!((88..=100).contains(&hits), "{hits}");
    assert!((0.033..0.045).contains(&halves), "{halves}");
}

/// An M/D/1 queue: the samples obey Little's law and the Pollaczek-Khinchine formula.
#[test]
fn littles_law_holds() {
    let service = 1000.0;
    let mut process = crate::ArrivalProcess::new(
        crate::Arrivals::Poisson,
        0.7,
        1.0,
        Random::new(5, Stream::Arrivals),
    );
    let mut recorder = Recorder::new(200_000, Warmup::Requests(1000));
    let (mut arrival, mut free_at) = (0.0f64, 0.0f64);
    let (mut in_system, mut end) = (0.0, 0.0);
    while !recorder.is_done() {
        arrival += process.next_arrival().gap.as_ns();
        free_at = arrival.max(free_at) + service;
        in_system += free_at - arrival;
        end = free_at;
        recorder.record(ns(free_at), ns(free_at - arrival));
    }
    let measurement = recorder.measurement().unwrap();
    let mean = measurement.latency_ns.mean;
    let number = in_system / end;
    let little = measurement.throughput_mrps / 1e3 * mean;
    assert!((little / number - 1.0).abs() < 0.01, "{little} {number}");
    let expected = service * (1.0 + 0.7 / (2.0 * 0.3));
    let [low, high] = measurement.latency_ns.mean_ci95.unwrap();
    assert!(low < expected && expected < high, "{low} {expected} {high}");
}
