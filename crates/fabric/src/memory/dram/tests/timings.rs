//! A checker of constraints, and random traffic for it.

use super::super::spec::Cycles;
use super::*;
use std::collections::BTreeMap;

/// A checker that is independent of the controller's own bookkeeping: for each pair of commands,
/// the minimum distance in the standard.
struct Checker {
    cycles: Cycles,
    groups: usize,
    banks: usize,
}

impl Checker {
    fn banks_of(&self, command: Command) -> Option<usize> {
        match command {
            Command::Activate { bank, .. }
            | Command::Precharge { bank }
            | Command::Read { bank }
            | Command::Write { bank } => Some(bank),
            Command::PrechargeAll { .. } | Command::Refresh { .. } => None,
        }
    }

    fn rank(&self, command: Command) -> usize {
        match command {
            Command::PrechargeAll { rank } | Command::Refresh { rank } => rank,
            _ => self.banks_of(command).unwrap() / (self.groups * self.banks),
        }
    }

    fn gap(&self, first: Command, second: Command) -> u64 {
        use Command::*;
        let of = &self.cycles;
        let same_rank = self.rank(first) == self.rank(second);
        let (one, other) = (self.banks_of(first), self.banks_of(second));
        // A command to all banks of a rank concerns each of its banks.
        let same_bank = same_rank && (one.is_none() || other.is_none() || one == other);
        let group = |bank: Option<usize>| bank.map(|bank| bank / self.banks);
        let same_group = same_rank && group(one) == group(other);
        let data = 4;
        match (first, second) {
            (Activate { .. }, Activate { .. }) if same_bank => of.trc_cycles,
            (Activate { .. }, Activate { .. }) if same_group => of.trrd_l_cycles,
            (Activate { .. }, Activate { .. }) if same_rank => of.trrd_s_cycles,
            (Activate { .. }, Read { .. } | Write { .. }) if same_bank => of.trcd_cycles,
            (Activate { .. }, Precharge { .. } | PrechargeAll { .. }) if same_bank => {
                of.tras_cycles
            }
            (Activate { .. }, Refresh { .. }) if same_bank => of.trc_cycles,
            (Precharge { .. } | PrechargeAll { .. }, Activate { .. } | Refresh { .. })
                if same_bank =>
            {
                of.trp_cycles
            }
            (Read { .. }, Precharge { .. } | PrechargeAll { .. }) if same_bank => of.trtp_cycles,
            (Write { .. }, Precharge { .. } | PrechargeAll { .. }) if same_bank => {
                of.tcwl_cycles + data + of.twr_cycles
            }
            (Read { .. }, Read { .. }) | (Write { .. }, Write { .. }) if same_group => {
                of.tccd_l_cycles
            }
            (Read { .. }, Read { .. }) | (Write { .. }, Write { .. }) if same_rank => {
                of.tccd_s_cycles
            }
            (Read { .. }, Read { .. }) | (Write { .. }, Write { .. }) => data + of.trtrs_cycles,
            (Read { .. }, Write { .. }) => of.tcl_cycles + data + 2 - of.tcwl_cycles,
            (Write { .. }, Read { .. }) if same_group => of.tcwl_cycles + data + of.twtr_l_cycles,
            (Write { .. }, Read { .. }) if same_rank => of.tcwl_cycles + data + of.twtr_s_cycles,
            (Write { .. }, Read { .. }) => {
                (of.tcwl_cycles + data + of.trtrs_cycles).saturating_sub(of.tcl_cycles)
            }
            (Refresh { .. }, Activate { .. } | Refresh { .. }) if same_rank => of.trfc_cycles,
            _ => 1,
        }
    }

    /// Checks a whole trace. Returns the bank and the open row of each read and write by its time.
    fn check(&self, spec: &DramSpec, trace: &[(Time, Command)]) -> BTreeMap<Time, (usize, u64)> {
        let clock = spec.clock().as_fs();
        let mut open: Vec<Option<u64>> = vec![None; spec.ranks * self.groups * self.banks];
        let mut activates: Vec<Vec<u64>> = vec![Vec::new(); spec.ranks];
        let mut refreshes = vec![0; spec.ranks];
        let mut columns = BTreeMap::new();
        let mut bus_free = 0;
        for (index, &(at, command)) in trace.iter().enumerate() {
            let at_fs = at.as_fs();
            for &(before, other) in trace[..index].iter().rev() {
                let passed = at_fs.checked_sub(before.as_fs()).unwrap();
                let gap = self.gap(other, command).max(1);
                assert!(
                    passed >= gap * clock,
                    "{other:?} {before}, {command:?} {at}"
                );
                if passed > self.cycles.trfc_cycles * clock {
                    break;
                }
            }
            let mut carry = |latency: u64| {
                let first = at_fs + latency * clock;
                assert!(first >= bus_free, "{command:?} {at}: the data bus is taken");
                bus_free = first + 4 * clock;
            };
            match command {
                Command::Activate { bank, row } => {
                    assert_eq!(open[bank].replace(row), None);
                    let of_rank = &mut activates[self.rank(command)];
                    of_rank.push(at_fs);
                    if let [.., fourth, _, _, _, _] = of_rank[..] {
                        assert!(
                            at_fs >= fourth + self.cycles.tfaw_cycles * clock,
                            "tFAW {at}"
                        );
                    }
                }
                Command::Precharge { bank } => assert!(open[bank].take().is_some()),
                Command::PrechargeAll { rank } => {
                    let banks = self.groups * self.banks;
                    open[rank * banks..(rank + 1) * banks].fill(None);
                }
                Command::Read { bank } => {
                    carry(self.cycles.tcl_cycles);
                    columns.insert(at, (bank, open[bank].unwrap()));
                }
                Command::Write { bank } => {
                    carry(self.cycles.tcwl_cycles);
                    columns.insert(at, (bank, open[bank].unwrap()));
                }
                Command::Refresh { rank } => {
                    let banks = self.groups * self.banks;
                    let of_rank = &open[rank * banks..(rank + 1) * banks];
                    assert!(of_rank.iter().all(Option::is_none));
                    // It is issued when due, delayed at most by the recovery of a write or the rest
                    // of tRAS, a precharge, and the same of another rank.
                    let number = refreshes[rank] * spec.ranks as u64 + rank as u64 + 1;
                    let due = self.cycles.trefi_cycles * number / spec.ranks as u64;
                    let late = at_fs.checked_sub(due * clock).unwrap();
                    assert!(late <= 150 * clock, "refresh {number} {at}");
                    refreshes[rank] += 1;
                }
            }
        }
        columns
    }
}

/// Random requests in bursts and pauses, in few rows, which give hits and conflicts.
pub(super) fn traffic(random: &mut Random, lines: u64, count: usize) -> Vec<(Time, u64, bool)> {
    let mut now = 0;
    let (mut line, mut writes) = (0, 1);
    let mut recent: Vec<u64> = Vec::new();
    (0..count)
        .map(|_| {
            now += match random.below(40) {
                0 => random.below(2_000_000_000),
                1..10 => random.below(60_000_000),
                _ => random.below(4_000_000),
            };
            if random.below(100) == 0 {
                writes = random.below(10);
            }
            line = match random.below(3) {
                0 => random.below(lines),
                _ => (line + 1) % lines,
            };
            // The fabric writes no line that a waiting read has requested.
            let is_read = random.below(10) >= writes || recent.contains(&line);
            if is_read {
                recent.push(line);
                if recent.len() > 2000 {
                    recent.remove(0);
                }
            }
            (Time::from_fs(now), line, is_read)
        })
        .collect()
}

/// For all devices and random parameters: all commands respect the timings, each read is answered
/// once and from its own row, and the statistics count the actual events.
#[test]
fn random_traffic_keeps_the_timings() {
    for seed in crate::tests::seeds(48) {
        let mut random = Random(seed);
        let case = seed as usize;
        let mut choose = |from: &[u64]| from[random.below(from.len() as u64) as usize];
        let high = choose(&[1, 4, 54]) as usize;
        let spec = DramSpec {
            device: DramDevice::ALL[case % 4],
            ranks: choose(&[1, 2, 4]) as usize,
            row_bytes: choose(&[64, 512, 8192]),
            page: [PagePolicy::Open, PagePolicy::Closed][case / 4 % 2],
            read_queue: choose(&[1, 8, 32]) as usize,
            write_queue: choose(&[2, 64]) as usize,
            write_high_watermark: high,
            write_low_watermark: high / 2,
            max_overtakes: choose(&[0, 3, 64]),
            ..DramSpec::default()
        };
        let lines = choose(&[64, 4096, 1 << 30]);
        let mut bench = Bench::new(spec.clone());
        let mut requests = traffic(&mut random, lines, 3000);
        requests.dedup_by_key(|one| one.0);
        for &(at, line, is_read) in &requests {
            bench.ask(at, line, is_read);
        }
        bench.finish();
        let checker = Checker {
            cycles: spec.cycles(),
            groups: spec.bank_groups(),
            banks: spec.banks_per_group(),
        };
        let columns = checker.check(&spec, &bench.dram.trace);

        let reads: Vec<_> = requests.iter().filter(|one| one.2).collect();
        let mut answered = vec![0; reads.len()];
        let statistics = bench.dram.statistics();
        let mut forwarded = 0;
        for &(at, line, number) in &bench.answers {
            answered[number as usize] += 1;
            let &(asked, wanted, _) = reads[number as usize];
            assert_eq!(line, wanted);
            let data = at - Time::from_ns(spec.controller_latency_ns);
            if data == asked {
                forwarded += 1;
                continue;
            }
            let cycles = checker.cycles.tcl_cycles + 4;
            let command = Time::from_fs(data.as_fs() - cycles * spec.clock().as_fs());
            assert!(command >= asked);
            // Low part of the group, column, high part of the group, bank, rank, row.
            let (groups, banks) = (checker.groups as u64, checker.banks as u64);
            let low_groups = groups.min(2);
            let rest = line / low_groups / (spec.row_bytes / 64);
            let group = line % low_groups + rest * low_groups % groups;
            let rest = rest / (groups / low_groups);
            let rank = rest / banks % spec.ranks as u64;
            let bank = (rank * groups + group) * banks + rest % banks;
            let row = rest / banks / spec.ranks as u64;
            assert_eq!(columns[&command], (bank as usize, row));
        }
        assert!(answered.iter().all(|&times| times == 1));
        assert_eq!(forwarded, statistics.forwarded_reads);
        let writes = (requests.len() - reads.len()) as u64;
        assert_eq!(statistics.writes + statistics.merged_writes, writes);
        assert_eq!(
            statistics.reads + statistics.forwarded_reads,
            reads.len() as u64
        );
        assert_eq!(
            statistics.row_hits + statistics.row_misses + statistics.row_conflicts,
            statistics.reads + statistics.writes
        );
        let counted = |is: fn(&Command) -> bool| {
            let all = bench.dram.trace.iter();
            all.filter(|(_, command)| is(command)).count() as u64
        };
        assert_eq!(
            statistics.activates,
            counted(|one| matches!(one, Command::Activate { .. }))
        );
        assert_eq!(
            statistics.refreshes,
            counted(|one| matches!(one, Command::Refresh { .. }))
        );
        let still_open = (0..bench.dram.ranks.banks())
            .filter(|&bank| bench.dram.ranks.is_open(bank))
            .count() as u64;
        assert_eq!(statistics.activates, statistics.precharges + still_open);
        assert_eq!(statistics.row_open_fs, row_open_fs(&bench.dram));
    }
}

/// Total time with open rows, up to the last request, from the commands alone.
fn row_open_fs(dram: &Dram) -> u64 {
    let banks = dram.ranks.banks() / dram.ranks.ranks();
    let of_rank = |rank: usize| {
        let mut open = std::collections::BTreeSet::new();
        let (mut since, mut sum) = (Time::ZERO, Time::ZERO);
        for &(at, command) in &dram.trace {
            let was_open = !open.is_empty();
            match command {
                Command::Activate { bank, .. } if bank / banks == rank => {
                    open.insert(bank);
                }
                Command::Precharge { bank } if bank / banks == rank => {
                    open.remove(&bank);
                }
                Command::PrechargeAll { rank: other } if other == rank => open.clear(),
                _ => continue,
            }
            match (was_open, !open.is_empty()) {
                (false, true) => since = at,
                (true, false) => sum += at - since,
                _ => {}
            }
        }
        if !open.is_empty() {
            sum += dram.issued_until - since;
        }
        sum.as_fs()
    };
    (0..dram.ranks.ranks()).map(of_rank).sum()
}
