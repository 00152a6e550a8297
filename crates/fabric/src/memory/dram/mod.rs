//! A channel of DRAM, command by command.
//!
//! The controller has a read queue and a write queue. Reads have priority. Writes are issued when
//! no read waits, or drained in a batch when the write queue reaches its high watermark, so that
//! the data bus seldom turns around. Within a queue the scheduler is FR-FCFS (Rixner et al.,
//! "Memory Access Scheduling", ISCA 2000): row hits first, then the oldest. `max_overtakes` bounds
//! how many younger requests may delay an older one: by keeping another row of its bank open, or by
//! taking the data bus. Requests to other banks that proceed while its own row is closed and opened
//! do not count. An open row is closed when no request in the queue needs it, or when that bound is
//! reached. A read of a line in the write queue is answered from the queue, and a second write of
//! such a line is merged with the first.
//!
//! When a refresh is due, its rank takes no other command until it is done. An idle channel has no
//! events: its refreshes are replayed at the next request, at the times that they would have had.
//!
//! Lines are interleaved over the controllers, and within a channel over bank groups; see
//! [`Ranks::place`].
//!
//! Commands are whole clock cycles apart, but the clock has no phase: the first command after an
//! idle time does not wait for an edge. Not modelled: power-down, postponed refreshes, temperature,
//! hashed bank addresses, the capacity of the device, and back-pressure (the queues never refuse a
//! request; the scheduler sees their oldest entries).

mod ranks;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{DramCommandTimes, DramDevice, DramSpec, DramTimingSpec, PagePolicy};

use super::{Controller, Decisions, MemoryRequest, Ticket};
use crate::{LINE_BYTES, LineAddress, Time};
use ranks::{Command, Ranks};
use schemars::JsonSchema;
use serde::Serialize;
use state::{Purpose, State, Walker};
use std::collections::VecDeque;

/// Commands and row outcomes of all DRAM channels, each up to its last request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[state(all(count))]
pub struct DramStatistics {
    /// Activate commands.
    pub activates: u64,
    /// Rows closed: by a precharge, or by the precharge of all banks before a refresh.
    pub precharges: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Refresh commands, each to one rank.
    pub refreshes: u64,
    /// Reads and writes that found their row open.
    pub row_hits: u64,
    /// Reads and writes whose bank had no open row.
    pub row_misses: u64,
    /// Reads and writes whose bank had another row open, which was closed first.
    pub row_conflicts: u64,
    /// Reads answered from the write queue.
    pub forwarded_reads: u64,
    /// Writes merged with a waiting write of the same line.
    pub merged_writes: u64,
    /// Time in which ranks had a row open, summed over the ranks, in femtoseconds.
    pub row_open_fs: u64,
}

impl std::ops::AddAssign for DramStatistics {
    fn add_assign(&mut self, other: DramStatistics) {
        state::add_counts(self, &other);
    }
}

/// The state of the bank that a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
enum RowOutcome {
    Hit,
    Miss,
    Conflict,
}

/// A request in a queue.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Waiting {
    since: Time,
    bank: usize,
    row: u64,
    line: LineAddress,
    read: Option<Ticket>,
    outcome: RowOutcome,
    /// The number of younger requests of its queue that have delayed it.
    overtaken: u64,
}

/// A command that may be issued: its earliest time, and the index of the request that it serves.
type Candidate = (Time, Command, Option<usize>);

#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub(super) struct Dram {
    ranks: Ranks,
    /// Both queues have the oldest request first.
    reads: VecDeque<Waiting>,
    writes: VecDeque<Waiting>,
    /// Writes that the current drain may still issue; 0 outside a drain.
    drain: usize,
    /// All commands up to this time have been issued.
    issued_until: Time,
    /// The earliest pending wake-up.
    wakes: Time,
    /// All requests so far.
    requests: u64,
    statistics: DramStatistics,
    #[state(fixed)]
    latency: Time,
    /// Time from a read command to the end of its data.
    #[state(fixed)]
    read_to_data: Time,
    /// Number of controllers over which lines are interleaved.
    #[state(fixed)]
    controllers: u64,
    #[state(fixed)]
    lines_per_row: u64,
    #[state(fixed)]
    spec: DramSpec,
    #[cfg(test)]
    #[state(fixed)]
    trace: Vec<(Time, Command)>,
}

/// All times are absolute, including those of refreshes. Two states therefore have the same future
/// if nothing waits and no request has arrived in between, and nothing needs to be shifted then.
impl State for Dram {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match walker.purpose() {
            Purpose::Exact => {}
            Purpose::Compare => {
                if self.is_waiting() || self.wakes != Time::NEVER {
                    walker.refuse("memory is being read or written".to_string());
                }
                return walker.number(&mut self.requests);
            }
            Purpose::MoveOn => return,
        }
        self.walk_fields(walker);
    }
}

impl Dram {
    /// The channel of one of `controllers` controllers.
    pub(super) fn new(spec: &DramSpec, controllers: usize) -> Dram {
        let ranks = Ranks::new(spec);
        Dram {
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            drain: 0,
            issued_until: Time::ZERO,
            wakes: Time::NEVER,
            requests: 0,
            statistics: DramStatistics::default(),
            latency: Time::from_ns(spec.controller_latency_ns),
            read_to_data: ranks.time(spec.cycles().tcl_cycles + spec::BURST_CYCLES),
            controllers: controllers as u64,
            lines_per_row: spec.row_bytes / LINE_BYTES as u64,
            ranks,
            spec: spec.clone(),
            #[cfg(test)]
            trace: Vec::new(),
        }
    }

    /// The counts up to its last request.
    pub(super) fn statistics(&self) -> DramStatistics {
        DramStatistics {
            row_open_fs: self.ranks.row_open(self.issued_until).as_fs(),
            ..self.statistics
        }
    }

    fn is_waiting(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// Whether writes are scheduled instead of reads.
    fn serves_writes(&self) -> bool {
        self.drain > 0 || self.reads.is_empty()
    }

    /// The requests among which the scheduler chooses.
    fn schedulable(&self) -> impl Iterator<Item = (usize, &Waiting)> {
        let (queue, seen) = match self.serves_writes() {
            true => (&self.writes, self.spec.write_queue),
            false => (&self.reads, self.spec.read_queue),
        };
        queue.iter().take(seen).enumerate()
    }

    /// The next command: the earliest one; among simultaneous ones a refresh, then a row hit, then
    /// the oldest request.
    fn next_command(&self) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut offer = |at: Time, command, request| {
            let at = at.max(self.issued_until);
            if best.is_none_or(|(other, ..)| at < other) {
                best = Some((at, command, request));
            }
        };
        for rank in 0..self.ranks.ranks() {
            let (at, command) = self.ranks.next_of_refresh(rank);
            offer(at, command, None);
        }
        // Once its refresh is due, a rank takes no other commands.
        let mut offer = |bank: usize, command, request| {
            let at = self.ranks.earliest(command).max(self.issued_until);
            if at < self.ranks.refresh_due(self.ranks.rank_of(bank)) {
                offer(at, command, request);
            }
        };
        // A bit for each bank: whether its open row is needed, and whether the next row to open has
        // been chosen.
        let (mut wanted, mut chosen) = (0u128, 0u128);
        for (index, one) in self.schedulable() {
            let bank = one.bank;
            let (bit, is_open) = (1 << bank, self.ranks.has_open(bank, one.row));
            if is_open && chosen & bit == 0 {
                wanted |= bit;
                let command = match one.read {
                    Some(_) => Command::Read { bank },
                    None => Command::Write { bank },
                };
                offer(bank, command, Some(index));
            }
            if one.overtaken >= self.spec.max_overtakes {
                // No younger request may delay it, on the data bus or by keeping another row open.
                match is_open {
                    true => break,
                    false => chosen |= bit,
                }
            }
        }
        chosen = 0;
        for (index, one) in self.schedulable() {
            let (bank, row) = (one.bank, one.row);
            let bit = 1 << bank;
            if (wanted | chosen) & bit != 0 {
                continue;
            }
            chosen |= bit;
            match self.ranks.is_open(bank) {
                false => offer(bank, Command::Activate { bank, row }, Some(index)),
                // A younger hit must not overtake the request again.
                true if self.ranks.has_open(bank, row) => {}
                true => offer(bank, Command::Precharge { bank }, Some(index)),
            }
        }
        if self.spec.page == PagePolicy::Closed {
            let all = self.reads.iter().chain(&self.writes);
            let hits = all.filter(|one| self.ranks.has_open(one.bank, one.row));
            let wanted = hits.fold(0u128, |bits, one| bits | 1 << one.bank);
            for bank in 0..self.ranks.banks() {
                if self.ranks.is_open(bank) && wanted & 1 << bank == 0 {
                    offer(bank, Command::Precharge { bank }, None);
                }
            }
        }
        best
    }

    fn issue(&mut self, (now, command, request): Candidate, decisions: &mut Decisions) {
        self.issued_until = now;
        let statistics = &mut self.statistics;
        match command {
            Command::Activate { .. } => statistics.activates += 1,
            Command::Precharge { .. } => statistics.precharges += 1,
            Command::PrechargeAll { rank } => {
                statistics.precharges += self.ranks.open_rows(rank) as u64;
            }
            Command::Read { .. } => statistics.reads += 1,
            Command::Write { .. } => statistics.writes += 1,
            Command::Refresh { .. } => statistics.refreshes += 1,
        }
        self.ranks.issue(now, command);
        #[cfg(test)]
        self.trace.push((now, command));
        let Some(index) = request else { return };
        let queue = match self.serves_writes() {
            true => &mut self.writes,
            false => &mut self.reads,
        };
        match command {
            Command::Activate { .. } if queue[index].outcome == RowOutcome::Hit => {
                queue[index].outcome = RowOutcome::Miss;
            }
            Command::Precharge { .. } => queue[index].outcome = RowOutcome::Conflict,
            Command::Read { .. } | Command::Write { .. } => {
                let bank = queue[index].bank;
                for older in queue.iter_mut().take(index) {
                    // It waits behind a row of its bank, or for the data bus: nothing else delays
                    // it.
                    let is_delayed =
                        older.bank == bank || self.ranks.has_open(older.bank, older.row);
                    older.overtaken += u64::from(is_delayed);
                }
                if let Some(request) = queue.remove(index) {
                    self.complete(now, request, decisions);
                }
            }
            _ => {}
        }
    }

    /// Completes a request whose read or write command has been issued.
    fn complete(&mut self, now: Time, request: Waiting, decisions: &mut Decisions) {
        match request.outcome {
            RowOutcome::Hit => self.statistics.row_hits += 1,
            RowOutcome::Miss => self.statistics.row_misses += 1,
            RowOutcome::Conflict => self.statistics.row_conflicts += 1,
        }
        let (low, high) = (
            self.spec.write_low_watermark,
            self.spec.write_high_watermark,
        );
        if let Some(ticket) = request.read {
            decisions.queueing += now - request.since;
            let at = now + self.read_to_data + self.latency;
            decisions.answers.push((at, request.line, ticket));
            // Drains begin only here, so at least one read is issued between two of them.
            if self.writes.len() >= high {
                self.drain = high;
            }
        } else if self.writes.len() <= low {
            self.drain = 0;
        } else {
            self.drain = self.drain.saturating_sub(1);
        }
    }

    /// Issues all commands up to and including `now`, and requests a wake-up for the next one if a
    /// request waits.
    fn advance(&mut self, now: Time, decisions: &mut Decisions) {
        let next = loop {
            match self.next_command() {
                Some(candidate) if candidate.0 <= now => self.issue(candidate, decisions),
                next => break next,
            }
        };
        self.issued_until = now;
        if let Some((at, ..)) = next
            && self.is_waiting()
            && at < self.wakes
        {
            self.wakes = at;
            decisions.wake = Some(at);
        }
    }

    fn enqueue(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        let MemoryRequest { line, read } = request;
        let is_written = self.writes.iter().any(|one| one.line == line);
        let queue = match read {
            Some(ticket) if is_written => {
                self.statistics.forwarded_reads += 1;
                decisions.answers.push((now + self.latency, line, ticket));
                return;
            }
            None if is_written => {
                self.statistics.merged_writes += 1;
                return;
            }
            Some(_) => &mut self.reads,
            // No read of the line waits, because its home has one transaction at a time.
            None => &mut self.writes,
        };
        let (bank, row) = self
            .ranks
            .place(line.0 / self.controllers, self.lines_per_row);
        queue.push_back(Waiting {
            since: now,
            bank,
            row,
            line,
            read,
            outcome: RowOutcome::Hit,
            overtaken: 0,
        });
    }
}

impl Controller for Dram {
    fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        self.requests += 1;
        self.advance(now, decisions);
        self.enqueue(now, request, decisions);
        self.advance(now, decisions);
    }

    fn wake(&mut self, now: Time, decisions: &mut Decisions) {
        if self.wakes <= now {
            self.wakes = Time::NEVER;
        }
        self.advance(now, decisions);
    }
}
