//! The ranks of a channel: open rows, and the earliest time of each command by the timings.

use super::spec::{BURST_CYCLES, Cycles, DramSpec, TURNAROUND_CYCLES};
use crate::Time;

const NO_ROW: u64 = u64::MAX;

/// A command on the command bus. Banks are numbered consecutively through all groups and ranks of
/// the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Activate { bank: usize, row: u64 },
    Precharge { bank: usize },
    PrechargeAll { rank: usize },
    Read { bank: usize },
    Write { bank: usize },
    Refresh { rank: usize },
}

#[derive(Clone, Copy, Debug, state::State)]
struct Bank {
    row: u64,
    /// The earliest time of each command by the timings of the bank.
    activate: Time,
    column: Time,
    precharge: Time,
}

/// The earliest time of each command by the timings of a bank group or a rank.
#[derive(Clone, Copy, Debug, Default, state::State)]
struct Allowed {
    activate: Time,
    read: Time,
    write: Time,
}

#[derive(Clone, Copy, Debug, Default, state::State)]
struct Rank {
    allowed: Allowed,
    /// The ends of the tFAW windows of the last four activates, oldest first.
    four_activates: [Time; 4],
    refresh_due: Time,
    open_rows: usize,
    /// The time since which it has a row open, if any.
    open_since: Time,
}

#[derive(Clone, Debug, state::State)]
pub(super) struct Ranks {
    #[state(slice)]
    banks: Vec<Bank>,
    #[state(slice)]
    groups: Vec<Allowed>,
    #[state(slice)]
    ranks: Vec<Rank>,
    /// The time at which the command bus is free again.
    command_bus: Time,
    /// Total time with an open row, up to the closing of each rank's last one.
    row_open: Time,
    #[state(fixed)]
    banks_per_group: usize,
    #[state(fixed)]
    groups_per_rank: usize,
    #[state(fixed)]
    clock: Time,
    #[state(fixed)]
    cycles: Cycles,
}

fn later(time: &mut Time, other: Time) {
    *time = (*time).max(other);
}

impl Ranks {
    /// All rows are closed. The refreshes of the ranks are staggered over tREFI.
    pub(super) fn new(spec: &DramSpec) -> Ranks {
        let (groups_per_rank, banks_per_group) = (spec.bank_groups(), spec.banks_per_group());
        let groups = spec.ranks * groups_per_rank;
        let bank = Bank {
            row: NO_ROW,
            activate: Time::ZERO,
            column: Time::ZERO,
            precharge: Time::ZERO,
        };
        let (clock, cycles) = (spec.clock(), spec.cycles());
        let rank = |number: u64| Rank {
            refresh_due: Time::from_fs(
                clock.as_fs() * (cycles.trefi_cycles * (number + 1) / spec.ranks as u64),
            ),
            ..Rank::default()
        };
        Ranks {
            banks: vec![bank; groups * banks_per_group],
            groups: vec![Allowed::default(); groups],
            ranks: (0..spec.ranks as u64).map(rank).collect(),
            command_bus: Time::ZERO,
            row_open: Time::ZERO,
            banks_per_group,
            groups_per_rank,
            clock,
            cycles,
        }
    }

    pub(super) fn time(&self, cycles: u64) -> Time {
        Time::from_fs(self.clock.as_fs() * cycles)
    }

    /// The bank and the row of a line, where `line` counts the lines of this controller only. From
    /// the lowest digit: low part of the bank group, column, high part of the bank group, bank,
    /// rank, row. A stream therefore alternates between two groups, which tCCD_S and tCCD_L allow
    /// at the full rate, and stays in one row of each.
    pub(super) fn place(&self, line: u64, lines_per_row: u64) -> (usize, u64) {
        let mut rest = line;
        let mut take = |of: u64| {
            let digit = rest % of;
            rest /= of;
            digit as usize
        };
        let groups = self.groups_per_rank as u64;
        let low_groups = match groups.is_multiple_of(2) {
            true => 2,
            false => groups,
        };
        let low = take(low_groups);
        take(lines_per_row);
        let group = take(groups / low_groups) * low_groups as usize + low;
        let bank = take(self.banks_per_group as u64);
        let rank = take(self.ranks.len() as u64);
        let group = rank * self.groups_per_rank + group;
        (group * self.banks_per_group + bank, rest)
    }

    pub(super) fn is_open(&self, bank: usize) -> bool {
        self.banks[bank].row != NO_ROW
    }

    pub(super) fn has_open(&self, bank: usize, row: u64) -> bool {
        self.banks[bank].row == row
    }

    pub(super) fn open_rows(&self, rank: usize) -> usize {
        self.ranks[rank].open_rows
    }

    /// Total time with an open row until `now`, summed over the ranks.
    pub(super) fn row_open(&self, now: Time) -> Time {
        let open = self.ranks.iter().filter(|rank| rank.open_rows > 0);
        open.fold(self.row_open, |sum, rank| sum + (now - rank.open_since))
    }

    pub(super) fn banks(&self) -> usize {
        self.banks.len()
    }

    pub(super) fn rank_of(&self, bank: usize) -> usize {
        bank / self.banks_per_group / self.groups_per_rank
    }

    fn banks_of(&self, rank: usize) -> std::ops::Range<usize> {
        let banks = self.banks_per_group * self.groups_per_rank;
        rank * banks..(rank + 1) * banks
    }

    /// The time at which the next refresh of a rank is due.
    pub(super) fn refresh_due(&self, rank: usize) -> Time {
        self.ranks[rank].refresh_due
    }

    /// The next command of a rank's refresh, and its earliest time.
    pub(super) fn next_of_refresh(&self, rank: usize) -> (Time, Command) {
        let command = match self.open_rows(rank) {
            0 => Command::Refresh { rank },
            _ => Command::PrechargeAll { rank },
        };
        let due = self.ranks[rank].refresh_due;
        (self.earliest(command).max(due), command)
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// The earliest time at which the timings allow a command that fits the state of its bank.
    pub(super) fn earliest(&self, command: Command) -> Time {
        let group = |bank: usize| &self.groups[bank / self.banks_per_group];
        let rank = |bank: usize| &self.ranks[self.rank_of(bank)];
        let of_all = |rank: usize, time: fn(&Bank) -> Time| {
            let banks = self.banks[self.banks_of(rank)].iter();
            banks.map(time).max().unwrap_or_default()
        };
        let allowed = match command {
            Command::Activate { bank, .. } => self.banks[bank]
                .activate
                .max(group(bank).activate)
                .max(rank(bank).allowed.activate)
                .max(rank(bank).four_activates[0]),
            Command::Precharge { bank } => self.banks[bank].precharge,
            Command::PrechargeAll { rank } => of_all(rank, |bank| bank.precharge),
            Command::Read { bank } => self.banks[bank]
                .column
                .max(group(bank).read)
                .max(rank(bank).allowed.read),
            Command::Write { bank } => self.banks[bank]
                .column
                .max(group(bank).write)
                .max(rank(bank).allowed.write),
            Command::Refresh { rank } => of_all(rank, |bank| bank.activate),
        };
        allowed.max(self.command_bus)
    }

    /// Issues a command at `now`, no earlier than [`Ranks::earliest`].
    pub(super) fn issue(&mut self, now: Time, command: Command) {
        let after = |cycles: u64| now + self.time(cycles);
        let of = self.cycles;
        let next = after(1);
        match command {
            Command::Activate { bank, row } => {
                let (column, precharge) = (after(of.trcd_cycles), after(of.tras_cycles));
                let same_bank = after(of.trc_cycles);
                let (same_group, same_rank) = (after(of.trrd_l_cycles), after(of.trrd_s_cycles));
                let fifth = after(of.tfaw_cycles);
                let one = &mut self.banks[bank];
                one.row = row;
                one.column = column;
                later(&mut one.activate, same_bank);
                later(&mut one.precharge, precharge);
                later(
                    &mut self.groups[bank / self.banks_per_group].activate,
                    same_group,
                );
                let number = self.rank_of(bank);
                let rank = &mut self.ranks[number];
                if rank.open_rows == 0 {
                    rank.open_since = now;
                }
                rank.open_rows += 1;
                later(&mut rank.allowed.activate, same_rank);
                rank.four_activates.rotate_left(1);
                rank.four_activates[3] = fifth;
            }
            Command::Precharge { bank } => self.close(bank, now, after(of.trp_cycles)),
            Command::PrechargeAll { rank } => {
                let ready = after(of.trp_cycles);
                for bank in self.banks_of(rank) {
                    self.close(bank, now, ready);
                }
            }
            Command::Read { bank } => {
                let precharge = after(of.trtp_cycles);
                let data = of.tcl_cycles + BURST_CYCLES;
                let turned = |rest: u64| after((data + rest).saturating_sub(of.tcwl_cycles));
                let write = turned(TURNAROUND_CYCLES);
                let write_of_other = turned(TURNAROUND_CYCLES.max(of.trtrs_cycles));
                let (same_group, same_rank) = (after(of.tccd_l_cycles), after(of.tccd_s_cycles));
                let other_rank = after(BURST_CYCLES + of.trtrs_cycles);
                later(&mut self.banks[bank].precharge, precharge);
                later(
                    &mut self.groups[bank / self.banks_per_group].read,
                    same_group,
                );
                let number = self.rank_of(bank);
                for (other, rank) in self.ranks.iter_mut().enumerate() {
                    let (read, write) = match other == number {
                        true => (same_rank, write),
                        false => (other_rank, write_of_other),
                    };
                    later(&mut rank.allowed.read, read);
                    later(&mut rank.allowed.write, write);
                }
            }
            Command::Write { bank } => {
                let data = of.tcwl_cycles + BURST_CYCLES;
                let precharge = after(data + of.twr_cycles);
                let (same_group, same_rank) = (after(of.tccd_l_cycles), after(of.tccd_s_cycles));
                let read_of_group = after(data + of.twtr_l_cycles);
                let read_of_rank = after(data + of.twtr_s_cycles);
                let other_rank = after(BURST_CYCLES + of.trtrs_cycles);
                let turned = (data + of.trtrs_cycles).saturating_sub(of.tcl_cycles);
                let read_of_other = after(turned);
                later(&mut self.banks[bank].precharge, precharge);
                let group = &mut self.groups[bank / self.banks_per_group];
                later(&mut group.write, same_group);
                later(&mut group.read, read_of_group);
                let number = self.rank_of(bank);
                for (other, rank) in self.ranks.iter_mut().enumerate() {
                    let (read, write) = match other == number {
                        true => (read_of_rank, same_rank),
                        false => (read_of_other, other_rank),
                    };
                    later(&mut rank.allowed.read, read);
                    later(&mut rank.allowed.write, write);
                }
            }
            Command::Refresh { rank } => {
                let (ready, interval) = (after(of.trfc_cycles), self.time(of.trefi_cycles));
                for bank in self.banks_of(rank) {
                    later(&mut self.banks[bank].activate, ready);
                }
                self.ranks[rank].refresh_due += interval;
            }
        }
        self.command_bus = next;
    }

    fn close(&mut self, bank: usize, now: Time, ready: Time) {
        let rank = self.rank_of(bank);
        let (bank, rank) = (&mut self.banks[bank], &mut self.ranks[rank]);
        if bank.row != NO_ROW {
            rank.open_rows -= 1;
            if rank.open_rows == 0 {
                self.row_open += now - rank.open_since;
            }
        }
        bank.row = NO_ROW;
        later(&mut bank.activate, ready);
    }
}
