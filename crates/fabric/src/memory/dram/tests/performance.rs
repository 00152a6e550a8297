//! Latency and bandwidth by device: laws, and the tables in docs/substrate.md.

use super::super::spec::Cycles;
use super::*;
use crate::tests::selection::sampled;

/// The line of each request by its number.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Streaming,
    /// This number of streams in turn, each from a random line.
    Streams(u64),
    Random,
}

impl Pattern {
    fn line(self, number: u64, random: &mut Random) -> u64 {
        match self {
            Pattern::Streaming => number,
            Pattern::Streams(count) => {
                let start = Random(number % count).next() % (1 << 30);
                start + number / count
            }
            Pattern::Random => random.below(1 << 30),
        }
    }
}

/// The steady state of a channel.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Reads and writes together.
    gb_per_s: f64,
    /// Mean latency of a read.
    latency_ns: f64,
    hit_ratio: f64,
}

/// Measures with `window` reads always outstanding. With `writes`, every third request is a write.
fn measure(spec: &DramSpec, window: usize, pattern: Pattern, writes: bool) -> Measured {
    const REQUESTS: u64 = 30_000;
    let mut bench = Bench::new(spec.clone());
    let mut random = Random(1);
    let mut now = Time::ZERO;
    let mut asked = Vec::new();
    let mut answers = BTreeSet::new();
    let (mut under_way, mut latency) = (0, Time::ZERO);
    for number in 0..REQUESTS {
        while under_way == window {
            answers.extend(bench.answers.drain(..));
            let wake = bench.wakes.first().copied().unwrap_or(Time::NEVER);
            match answers.first().copied() {
                Some((at, _, read)) if at <= wake => {
                    answers.pop_first();
                    under_way -= 1;
                    latency += at - asked[read as usize];
                    now = at;
                }
                _ => bench.run_until(wake + Time::from_fs(1)),
            }
        }
        let is_read = !(writes && number % 3 == 2);
        if is_read {
            asked.push(now);
            under_way += 1;
        }
        bench.ask(now, pattern.line(number, &mut random), is_read);
    }
    let DramStatistics {
        reads,
        writes,
        row_hits,
        ..
    } = bench.dram.statistics();
    Measured {
        gb_per_s: REQUESTS as f64 * LINE_BYTES as f64 / now.as_ns(),
        latency_ns: latency.as_ns() / (asked.len() - under_way) as f64,
        hit_ratio: row_hits as f64 / (reads + writes) as f64,
    }
}

const STREAMING: Pattern = Pattern::Streaming;
const STREAMS: Pattern = Pattern::Streams(16);
const RANDOM: Pattern = Pattern::Random;

fn all_devices() -> impl Iterator<Item = DramSpec> {
    DramDevice::ALL.into_iter().flat_map(|device| {
        [1, 2].map(|ranks| DramSpec {
            device,
            ranks,
            ..DramSpec::default()
        })
    })
}

fn peak_gb_per_s(spec: &DramSpec) -> f64 {
    LINE_BYTES as f64 / (spec::BURST_CYCLES as f64 * spec.clock().as_ns())
}

/// The latency of a single read if its row is open, if its bank has no open row, and if another row
/// is open there: the second, the first and the third read of a channel.
fn idle_latencies(spec: &DramSpec) -> [Time; 3] {
    let mut bench = Bench::new(spec.clone());
    let next_row = spec.row_bytes / LINE_BYTES as u64 * bench.dram.ranks.banks() as u64;
    let mut latency = |at_ns: f64, line| {
        bench.ask(Time::from_ns(at_ns), line, true);
        bench.finish();
        bench.answers.pop().unwrap().0 - Time::from_ns(at_ns)
    };
    let closed = latency(0.0, 0);
    [latency(1000.0, 0), closed, latency(2000.0, next_row)]
}

/// An idle read takes the controller's latency, tCL and the burst; tRCD more if the bank has no
/// open row; tRP more than that if another row is open.
#[test]
fn idle_latencies_are_arithmetic() {
    for spec in all_devices() {
        let Cycles {
            tcl_cycles,
            trcd_cycles,
            trp_cycles,
            ..
        } = spec.cycles();
        let cycles = |count: u64| Time::from_fs(spec.clock().as_fs() * count);
        let open = Time::from_ns(spec.controller_latency_ns) + cycles(tcl_cycles + 4);
        let closed = open + cycles(trcd_cycles);
        let other = closed + cycles(trp_cycles);
        assert_eq!(idle_latencies(&spec), [open, closed, other], "{spec:?}");
        // With closed pages no row stays open.
        let spec = DramSpec {
            page: PagePolicy::Closed,
            ..spec
        };
        assert_eq!(idle_latencies(&spec), [closed; 3], "{spec:?}");
    }
}

/// For each device and one or two ranks: random bandwidth < streaming bandwidth <= peak; a random
/// line needs an activate, of which a rank takes four in tFAW; a refresh blocks a rank for tRFC;
/// and turning the bus around for writes costs bandwidth.
#[test]
fn bandwidths_are_ordered() {
    for spec in all_devices() {
        let peak = peak_gb_per_s(&spec);
        let cycles = spec.cycles();
        let bandwidth = |pattern, writes| measure(&spec, 64, pattern, writes).gb_per_s;
        let streaming = measure(&spec, 64, STREAMING, false);
        let random = measure(&spec, 64, RANDOM, false);
        assert!(random.gb_per_s < streaming.gb_per_s, "{spec:?}");
        assert!(streaming.gb_per_s > 0.93 * peak, "{spec:?} {streaming:?}");
        assert!(streaming.hit_ratio > 0.98 && random.hit_ratio < 0.001);
        assert!(bandwidth(STREAMING, true) < streaming.gb_per_s, "{spec:?}");
        assert!(bandwidth(RANDOM, true) < random.gb_per_s, "{spec:?}");
        let refreshed = 1.0 - cycles.trfc_cycles as f64 / cycles.trefi_cycles as f64;
        if spec.ranks == 1 {
            assert!(streaming.gb_per_s <= refreshed * peak, "{spec:?}");
        } else {
            assert!(streaming.gb_per_s <= peak, "{spec:?}");
            let one_rank = DramSpec {
                ranks: 1,
                ..spec.clone()
            };
            let one_rank = measure(&one_rank, 64, RANDOM, false);
            assert!(random.gb_per_s > 1.3 * one_rank.gb_per_s, "{spec:?}");
        }
        let window_ns = cycles.tfaw_cycles as f64 * spec.clock().as_ns();
        let four_lines = 4.0 * LINE_BYTES as f64 * spec.ranks as f64;
        assert!(random.gb_per_s <= refreshed * four_lines / window_ns);
    }
}

/// With more reads outstanding, bandwidth and latency rise from those of an idle channel to those
/// of a saturated one. Their product is the number of outstanding bytes (Little's law).
#[test]
fn load_raises_latency() {
    for pattern in [STREAMING, STREAMS, RANDOM] {
        let spec = DramSpec::default();
        let windows = [1, 4, 16, 64];
        let curve = windows.map(|window| measure(&spec, window, pattern, false));
        for (window, measured) in windows.iter().zip(&curve) {
            let bytes = measured.gb_per_s * measured.latency_ns;
            let expected = (window * LINE_BYTES) as f64;
            assert!(
                (bytes / expected - 1.0).abs() < 0.01,
                "{window} {measured:?}"
            );
        }
        for pair in curve.windows(2) {
            assert!(pair[0].gb_per_s < pair[1].gb_per_s, "{pair:?}");
            assert!(pair[0].latency_ns < 1.01 * pair[1].latency_ns, "{pair:?}");
        }
    }
}

/// The tables of docs/substrate.md match the model.
#[test]
fn the_documented_tables_are_current() {
    let docs = include_str!("../../../../../../docs/substrate.md");
    let mut missing = String::new();
    let mut expect = |row: String| {
        if !docs.contains(&row) {
            missing += &row;
        }
    };
    for spec in sampled(all_devices()) {
        let idle = idle_latencies(&spec).map(|time| format!("{:.1}", time.as_ns()));
        let cases = [STREAMING, STREAMS, RANDOM].map(|pattern| {
            let share = [false, true].map(|writes| {
                let share = measure(&spec, 64, pattern, writes).gb_per_s / peak_gb_per_s(&spec);
                format!("{:.0}", 100.0 * share)
            });
            share.join(", ")
        });
        expect(format!(
            "| `{}`, {} | {:.1} | {} | {} |\n",
            serde_json::to_value(spec.device).unwrap().as_str().unwrap(),
            spec.ranks,
            peak_gb_per_s(&spec),
            idle.join(", "),
            cases.join(" | ")
        ));
    }
    let spec = DramSpec {
        ranks: 2,
        ..DramSpec::default()
    };
    for window in sampled([1, 4, 16, 64]) {
        let cases = [STREAMING, STREAMS, RANDOM].map(|pattern| {
            [false, true]
                .map(|writes| {
                    let measured = measure(&spec, window, pattern, writes);
                    format!("{:.1}, {:.0}", measured.gb_per_s, measured.latency_ns)
                })
                .join(" | ")
        });
        expect(format!("| {window} | {} |\n", cases.join(" | ")));
    }
    assert!(missing.is_empty(), "docs/substrate.md has no\n{missing}");
}
