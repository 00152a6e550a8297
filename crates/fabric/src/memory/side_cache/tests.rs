//! Times and contents of a cache in front of memory, against arithmetic and against a model.

use super::*;
use crate::MemorySpec;
use crate::memory::fixed::Fixed;
use std::collections::BTreeMap;

/// A cache in front of memory with 50 ns of latency and a line a nanosecond, at one gigahertz.
struct Bench {
    cache: SideCache,
    memory: Model,
    reads: u64,
    writes: u64,
}

fn spec() -> MemoryCacheSpec {
    MemoryCacheSpec {
        size_bytes: 4096,
        ways: 2,
        replacement: Replacement::Lru,
        bandwidth_gb_per_s: 32.0,
        ..MemoryCacheSpec::default()
    }
}

fn ticket(number: u32) -> Ticket {
    Ticket {
        bank: number,
        ..Ticket::NOBODY
    }
}

impl Bench {
    fn new(spec: &MemoryCacheSpec) -> Bench {
        spec.check().unwrap();
        let memory = MemorySpec {
            latency_ns: 50.0,
            bandwidth_gb_per_s: 64.0,
            ..MemorySpec::default()
        };
        Bench {
            cache: SideCache::new(spec, 1, Clock::from_ghz(1.0)),
            memory: Model::Fixed(Fixed::new(&memory)),
            reads: 0,
            writes: 0,
        }
    }

    /// The departure times, in nanoseconds, and the requesters of the scheduled answers.
    fn ask(&mut self, now_ns: f64, line: u64, read: Option<u32>) -> Vec<(f64, u32)> {
        let request = MemoryRequest {
            line: LineAddress(line),
            read: read.map(ticket),
        };
        let mut behind = Behind {
            controller: &mut self.memory,
            reads: &mut self.reads,
            writes: &mut self.writes,
        };
        let mut decisions = Decisions::default();
        let now = Time::from_ns(now_ns);
        self.cache.ask(now, request, &mut behind, &mut decisions);
        let answers = decisions.answers.iter();
        answers
            .map(|(at, _, ticket)| (at.as_ns(), ticket.bank))
            .collect()
    }
}

/// A miss takes 50 ns of memory and 3 of the look-up. The other line of the block comes with it: a
/// request for it meanwhile is answered no sooner, and a later one in 3 ns. Hits are 2 ns apart.
#[test]
fn a_block_comes_once() {
    let mut bench = Bench::new(&spec());
    assert_eq!(bench.ask(0.0, 0, Some(1)), [(53.0, 1)]);
    assert_eq!(bench.ask(10.0, 1, Some(2)), [(53.0, 2)]);
    assert_eq!(bench.ask(52.0, 1, Some(3)), [(55.0, 3)]);
    assert_eq!(bench.ask(100.0, 0, Some(4)), [(103.0, 4)]);
    assert_eq!(bench.ask(100.0, 1, Some(5)), [(105.0, 5)]);
    assert_eq!((bench.reads, bench.writes), (2, 0));
    let counts = bench.cache.statistics;
    assert_eq!((counts.hits, counts.misses), (4, 1));
}

/// 16 sets of two ways of two lines: blocks 0, 16 and 32 are in one set. The least recently used
/// one is evicted, and both its lines are written back if it is dirty.
#[test]
fn written_blocks_go_back() {
    let mut bench = Bench::new(&spec());
    // A write of a line fetches its block.
    assert_eq!(bench.ask(0.0, 0, None), []);
    assert_eq!((bench.reads, bench.writes), (2, 0));
    bench.ask(100.0, 32, Some(1));
    // Block 0 is evicted.
    bench.ask(200.0, 64, Some(2));
    assert_eq!((bench.reads, bench.writes), (6, 2));
    // Block 16 is clean.
    bench.ask(300.0, 0, Some(3));
    assert_eq!((bench.reads, bench.writes), (8, 2));
    assert_eq!(bench.cache.statistics.writebacks, 1);
}

/// Blocks of one line are not fetched for writing.
#[test]
fn whole_blocks_are_written_without_being_read() {
    let mut bench = Bench::new(&MemoryCacheSpec {
        block_bytes: 64,
        ..spec()
    });
    bench.ask(0.0, 7, None);
    assert_eq!((bench.reads, bench.writes), (0, 0));
    assert_eq!(bench.ask(10.0, 7, Some(1)), [(13.0, 1)]);
}

/// Random traffic: each read is answered once, no sooner than a look-up after its arrival; the
/// final contents of memory and cache are the last writes.
#[test]
fn nothing_is_lost() {
    for replacement in Replacement::ALL {
        let mut bench = Bench::new(&MemoryCacheSpec {
            replacement,
            ..spec()
        });
        let (mut state, mut answers, mut reads) = (1u64, BTreeMap::new(), 0);
        for number in 0..20_000u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (now, line) = (f64::from(number) * 4.0, (state >> 33) % 192);
            let is_read = state >> 60 < 11;
            reads += u64::from(is_read);
            for (at, whose) in bench.ask(now, line, is_read.then_some(number)) {
                assert!(at >= now + 3.0);
                assert_eq!(answers.insert(whose, at), None);
            }
        }
        assert_eq!(answers.len() as u64, reads);
        let counts = bench.cache.statistics;
        assert_eq!(counts.hits + counts.misses, 20_000);
        assert_eq!(bench.reads, 2 * counts.misses);
        assert_eq!(bench.writes, 2 * counts.writebacks);
        // 32 of 96 blocks fit.
        let hits = counts.hits as f64 / 20_000.0;
        assert!((0.30..0.37).contains(&hits), "{replacement:?}: {hits}");
    }
}
