//! A channel on its own: its commands in small cases, its timings under random traffic, and its
//! latency and bandwidth.

mod performance;
mod timings;

use super::*;
use crate::tests::Random;
use state::{Comparer, Reader, Writer};
use std::collections::BTreeSet;
use timings::traffic;

/// A channel, and the clock that wakes it.
struct Bench {
    spec: DramSpec,
    dram: Dram,
    wakes: BTreeSet<Time>,
    /// The departure time of each read's answer, its line, and its number.
    answers: Vec<(Time, u64, u32)>,
    reads: u32,
}

impl Bench {
    fn new(spec: DramSpec) -> Bench {
        spec.check().unwrap();
        Bench {
            dram: Dram::new(&spec, 1),
            spec,
            wakes: BTreeSet::new(),
            answers: Vec::new(),
            reads: 0,
        }
    }

    fn take(&mut self, decisions: Decisions) {
        self.wakes.extend(decisions.wake);
        let answers = decisions.answers.iter();
        let answers = answers.map(|&(at, line, ticket)| (at, line.0, ticket.bank));
        self.answers.extend(answers);
    }

    /// Wakes the controller at each requested time before `end`.
    fn run_until(&mut self, end: Time) {
        while let Some(&now) = self.wakes.first()
            && now < end
        {
            self.wakes.remove(&now);
            let mut decisions = Decisions::default();
            self.dram.wake(now, &mut decisions);
            self.take(decisions);
        }
    }

    fn ask(&mut self, now: Time, line: u64, is_read: bool) {
        self.run_until(now);
        let ticket = Ticket {
            bank: self.reads,
            transaction: 0,
        };
        self.reads += u32::from(is_read);
        let request = MemoryRequest {
            line: LineAddress(line),
            read: is_read.then_some(ticket),
        };
        let mut decisions = Decisions::default();
        self.dram.ask(now, request, &mut decisions);
        self.take(decisions);
    }

    fn finish(&mut self) {
        self.run_until(Time::NEVER);
        assert!(!self.dram.is_waiting());
    }

    /// The commands so far, with their times in cycles.
    fn commands(&self) -> Vec<(u64, Command)> {
        let clock = self.spec.clock().as_fs();
        let cycle = |at: Time| {
            assert_eq!(at.as_fs() % clock, 0, "the tests ask at whole cycles");
            at.as_fs() / clock
        };
        let trace = self.dram.trace.iter();
        trace.map(|&(at, command)| (cycle(at), command)).collect()
    }
}

/// One bank in each of four groups, with rows of two lines. Lines 0 and 2 are in row 0 of group 0,
/// lines 1 and 3 in that of group 1, lines 4 to 7 in those of groups 2 and 3, and line 8 in row 1
/// of group 0.
fn small() -> DramSpec {
    DramSpec {
        banks_per_group: Some(1),
        row_bytes: 128,
        ..DramSpec::default()
    }
}

/// The commands for requests (cycle, line, whether it is a read).
fn commands(spec: DramSpec, requests: &[(u64, u64, bool)]) -> Vec<(u64, Command)> {
    let mut bench = Bench::new(spec);
    for &(cycle, line, is_read) in requests {
        bench.ask(bench.dram.ranks.time(cycle), line, is_read);
    }
    bench.finish();
    bench.commands()
}

fn activate(bank: usize, row: u64) -> Command {
    Command::Activate { bank, row }
}

fn precharge(bank: usize) -> Command {
    Command::Precharge { bank }
}

fn read(bank: usize) -> Command {
    Command::Read { bank }
}

fn write(bank: usize) -> Command {
    Command::Write { bank }
}

/// DDR4-2666 (19-19-19): the first read takes tRCD + tCL + 4 = 19 + 19 + 4 cycles of 0.75 ns, and
/// 20 ns in the controller. The second one finds the row open.
#[test]
fn a_row_hit_needs_a_read_only() {
    let mut bench = Bench::new(small());
    let ns = Time::from_ns;
    bench.ask(Time::ZERO, 0, true);
    bench.ask(ns(300.0), 2, true);
    bench.finish();
    assert_eq!(
        bench.commands(),
        [(0, activate(0, 0)), (19, read(0)), (400, read(0))]
    );
    let miss = ns(0.75 * (19.0 + 23.0) + 20.0);
    let hit = ns(300.0 + 0.75 * 23.0 + 20.0);
    assert_eq!(bench.answers, [(miss, 0, 0), (hit, 2, 1)]);
    assert_eq!(miss, ns(51.5));
    let statistics = bench.dram.statistics();
    assert_eq!((statistics.row_hits, statistics.row_misses), (1, 1));
}

/// For another row of the bank, the precharge waits until tRAS = 43 cycles after the activate. The
/// read follows tRP + tRCD = 19 + 19 cycles later. If the row has been open for long, the precharge
/// is immediate.
#[test]
fn a_row_conflict_needs_a_precharge() {
    assert_eq!(
        commands(small(), &[(0, 0, true), (1, 8, true), (400, 0, true)]),
        [
            (0, activate(0, 0)),
            (19, read(0)),
            (43, precharge(0)),
            (62, activate(0, 1)),
            (81, read(0)),
            (400, precharge(0)),
            (419, activate(0, 0)),
            (438, read(0)),
        ]
    );
}

/// Activates of different groups are tRRD_S = 4 cycles apart; the fifth of a rank is tFAW = 28
/// cycles after the first. With two banks in each of four groups and rows of one line, lines 0 to 3
/// are in bank 0 of the groups, and line 4 in bank 1 of group 0.
#[test]
fn four_activates_in_a_window() {
    let spec = DramSpec {
        banks_per_group: Some(2),
        row_bytes: 64,
        ..DramSpec::default()
    };
    let requests: Vec<_> = (0..5).map(|line| (0, line, true)).collect();
    let all = commands(spec, &requests);
    let activates = all
        .iter()
        .filter(|(_, command)| matches!(command, Command::Activate { .. }));
    let cycles: Vec<u64> = activates.map(|&(cycle, _)| cycle).collect();
    assert_eq!(cycles, [0, 4, 8, 12, 28]);
    // Within a group: tRRD_L = 7.
    let spec = DramSpec {
        bank_groups: Some(1),
        banks_per_group: Some(4),
        row_bytes: 64,
        ..DramSpec::default()
    };
    assert_eq!(
        commands(spec, &[(0, 0, true), (0, 1, true)])[..2],
        [(0, activate(0, 0)), (7, activate(1, 0))]
    );
}

/// Reads of open rows in different groups are tCCD_S = 4 cycles apart, so that the data bus has no
/// gaps; those of one group are tCCD_L = 7 cycles apart.
#[test]
fn bank_groups_are_faster_in_turn() {
    let opened = [(0, 0, true), (0, 1, true)];
    let in_turn = commands(
        small(),
        &[&opened[..], &[(100, 2, true), (100, 3, true)]].concat(),
    );
    assert_eq!(in_turn[4..], [(100, read(0)), (104, read(1))]);
    let same = commands(
        small(),
        &[&opened[..], &[(100, 2, true), (100, 0, true)]].concat(),
    );
    assert_eq!(same[4..], [(100, read(0)), (107, read(0))]);
    // DDR3 has no groups: tCCD = 4.
    let ddr3 = DramSpec {
        device: DramDevice::Ddr3_1600,
        ..DramSpec::default()
    };
    let same = commands(ddr3, &[(0, 0, true), (0, 1, true)]);
    assert_eq!(same, [(0, activate(0, 0)), (11, read(0)), (15, read(0))]);
}

/// A read follows a write after tCWL + 4 + tWTR: 14 + 4 + 10 cycles in the group of the write,
/// 14 + 4 + 4 in another. A write follows a read after tCL + 4 + 2 - tCWL = 11 cycles.
#[test]
fn the_bus_turns_around() {
    let opened = [(0, 0, true), (0, 1, true)];
    let group = commands(
        small(),
        &[&opened[..], &[(100, 2, false), (101, 0, true)]].concat(),
    );
    assert_eq!(group[4..], [(100, write(0)), (128, read(0))]);
    let other = commands(
        small(),
        &[&opened[..], &[(100, 2, false), (101, 1, true)]].concat(),
    );
    assert_eq!(other[4..], [(100, write(0)), (122, read(1))]);
    let back = commands(
        small(),
        &[&opened[..], &[(100, 2, true), (101, 1, false)]].concat(),
    );
    assert_eq!(back[4..], [(100, read(0)), (111, write(1))]);
    // The row of a write is closed tCWL + 4 + tWR = 38 cycles after it.
    let closed = commands(small(), &[(0, 0, false), (20, 8, true)]);
    assert_eq!(closed[1..3], [(19, write(0)), (57, precharge(0))]);
}

/// Between the data of two ranks the bus is idle for tRTRS = 2 cycles.
#[test]
fn ranks_take_turns_on_the_bus() {
    let spec = DramSpec {
        ranks: 2,
        bank_groups: Some(1),
        banks_per_group: Some(1),
        row_bytes: 64,
        ..DramSpec::default()
    };
    assert_eq!(
        commands(spec, &[(0, 0, true), (0, 1, true)]),
        [
            (0, activate(0, 0)),
            (1, activate(1, 0)),
            (19, read(0)),
            (25, read(1)),
        ]
    );
}

/// A read that arrives when a refresh is due (tREFI = 10400 cycles) waits for the precharge of all
/// banks (tRP = 19), for the refresh (tRFC = 467), and for its row.
#[test]
fn a_refresh_is_in_the_way() {
    assert_eq!(
        commands(small(), &[(0, 0, true), (10_400, 2, true)])[2..],
        [
            (10_400, Command::PrechargeAll { rank: 0 }),
            (10_419, Command::Refresh { rank: 0 }),
            (10_886, activate(0, 0)),
            (10_905, read(0)),
        ]
    );
    // An idle channel replays its refreshes at the next request.
    let late = commands(small(), &[(35_000, 2, true)]);
    let refresh = Command::Refresh { rank: 0 };
    let refreshes = [10_400, 20_800, 31_200].map(|cycle| (cycle, refresh));
    assert_eq!(late[..3], refreshes);
    assert_eq!(late[3..], [(35_000, activate(0, 0)), (35_019, read(0))]);
}

/// The row is closed tRAS = 43 cycles after the activate; the next read finds no open row.
#[test]
fn a_closed_page_is_closed_at_once() {
    let spec = DramSpec {
        page: PagePolicy::Closed,
        ..small()
    };
    assert_eq!(
        commands(spec, &[(0, 0, true), (400, 0, true)])[..4],
        [
            (0, activate(0, 0)),
            (19, read(0)),
            (43, precharge(0)),
            (400, activate(0, 0)),
        ]
    );
}

/// Writes give way to reads until the write queue reaches the high watermark, 3. After the next
/// read they are drained to the low one, 1. All are in one row.
#[test]
fn writes_are_drained_at_the_high_watermark() {
    let spec = DramSpec {
        row_bytes: 4096,
        write_high_watermark: 3,
        write_low_watermark: 1,
        ..small()
    };
    let kinds = |writes: u64| {
        let reads = (0..3).map(|number| (0, 4 * number, true));
        let writes = (20..20 + writes).map(|number| (1, 4 * number, false));
        let requests: Vec<_> = reads.chain(writes).collect();
        let all = commands(spec.clone(), &requests);
        assert_eq!(all[0], (0, activate(0, 0)));
        let kinds: Vec<_> = all[1..].iter().map(|&(_, command)| command).collect();
        kinds
    };
    let (r, w) = (read(0), write(0));
    assert_eq!(kinds(3), [r, w, w, r, r, w]);
    // One write less, and all reads go first.
    assert_eq!(kinds(2), [r, r, r, w, w]);
    // However many writes there are, a read follows every three of them.
    assert_eq!(kinds(8), [r, w, w, w, r, w, w, w, r, w, w]);
}

/// A read of a line in the write queue is answered after the controller's 20 ns, and a second write
/// of the line is merged with the first.
#[test]
fn waiting_writes_answer_reads() {
    let mut bench = Bench::new(small());
    let ns = Time::from_ns;
    bench.ask(ns(3.0), 0, false);
    bench.ask(ns(4.5), 0, false);
    bench.ask(ns(6.0), 0, true);
    bench.finish();
    assert_eq!(bench.answers, [(ns(26.0), 0, 0)]);
    let DramStatistics {
        reads,
        writes,
        forwarded_reads,
        merged_writes,
        ..
    } = bench.dram.statistics();
    let counts = (reads, writes, forwarded_reads, merged_writes);
    assert_eq!(counts, (0, 1, 1, 1));
}

/// A read that must not be overtaken closes and opens a row of bank 0; meanwhile hits of another
/// bank proceed. Its activate is 19 cycles after the precharge, and its row is open 19 later.
#[test]
fn other_banks_go_on_while_a_row_is_opened() {
    let spec = DramSpec {
        max_overtakes: 0,
        ..small()
    };
    let requests = [
        (0, 0, true),
        (0, 1, true),
        (100, 8, true),
        (100, 3, true),
        (110, 1, true),
    ];
    assert_eq!(
        commands(spec, &requests)[4..],
        [
            (100, precharge(0)),
            (101, read(1)),
            (110, read(1)),
            (119, activate(0, 1)),
            (138, read(0)),
        ]
    );
}

/// Under an endless stream of hits in row 0, a read of row 1 is overtaken at most the permitted
/// number of times.
#[test]
fn overtaking_is_limited() {
    for limit in [0, 1, 5, 64] {
        let mut bench = Bench::new(DramSpec {
            row_bytes: 1 << 20,
            max_overtakes: limit,
            ..small()
        });
        // A read of row 1, and then a read of row 0 each tCCD_L = 7 cycles, which is 5.25 ns.
        let other_row = 4 << 14;
        bench.ask(Time::ZERO, 0, true);
        let ns = |number: u64| Time::from_ns(5.25 * number as f64);
        bench.ask(ns(1), other_row, true);
        for number in 2..200 {
            bench.ask(ns(number), 4 * number, true);
        }
        bench.finish();
        let mut order: Vec<_> = bench.answers.clone();
        order.sort_unstable();
        let place = order.iter().position(|one| one.1 == other_row).unwrap();
        assert_eq!(place as u64, 1 + limit, "limit {limit}");
    }
}

/// A channel that is saved and restored, during a drain or otherwise, continues in the same way.
#[test]
fn a_channel_is_saved_and_restored() {
    let mut draining = 0;
    for seed in crate::tests::seeds(8) {
        let spec = DramSpec {
            ranks: 2,
            page: [PagePolicy::Open, PagePolicy::Closed][seed as usize % 2],
            write_high_watermark: 8,
            write_low_watermark: 2,
            max_overtakes: 4,
            ..DramSpec::default()
        };
        let requests = traffic(&mut Random(seed), 1 << 16, 1000);
        for split in (50..1000).step_by(50) {
            let mut bench = Bench::new(spec.clone());
            for &(at, line, is_read) in &requests[..split] {
                bench.ask(at, line, is_read);
            }
            draining += usize::from(bench.dram.drain > 0);
            let bytes = Writer::write(&mut bench.dram).unwrap();
            let mut other = Bench::new(spec.clone());
            Reader::read(&mut other.dram, &bytes).unwrap();
            (other.wakes, other.reads) = (bench.wakes.clone(), bench.reads);
            let (answers, commands) = (bench.answers.len(), bench.dram.trace.len());
            for &(at, line, is_read) in &requests[split..] {
                bench.ask(at, line, is_read);
                other.ask(at, line, is_read);
            }
            bench.finish();
            other.finish();
            assert_eq!(bench.answers[answers..], other.answers);
            assert_eq!(bench.dram.trace[commands..], other.dram.trace);
            assert_eq!(bench.dram.statistics(), other.dram.statistics());
        }
    }
    assert!(draining > 0);
}

/// The states at two times are equal if the queues are empty and no request has arrived in between.
/// A channel with a waiting request cannot be compared.
#[test]
fn idle_states_are_equal() {
    let at = |dram: &mut Dram, cycle: u64| {
        let mut comparer = Comparer::new(cycle, cycle * 1_000_000, None);
        dram.walk(&mut comparer);
        comparer
    };
    let mut bench = Bench::new(small());
    let before = at(&mut bench.dram, 0);
    assert!(before.is_equal(&at(&mut bench.dram, 100)));
    bench.ask(Time::from_ns(100.0), 0, true);
    assert!(at(&mut bench.dram, 100).is_refused());
    bench.finish();
    assert!(!before.is_equal(&at(&mut bench.dram, 200)));
}
