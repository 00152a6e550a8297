//! Banks that each keep a row open. A request whose row is open is served before older ones whose
//! row is not; among those that are ready the oldest is first (FR-FCFS: Rixner et al., "Memory
//! Access Scheduling", ISCA 2000). A row is closed only when no request for it waits.
//!
//! Consecutive lines of a controller are in one row, and consecutive rows in different banks. Banks
//! open their rows side by side; the channel carries one line at a time, and the bank that it
//! carries it from or to does nothing else meanwhile. Refresh, and what turning the channel from
//! reads to writes costs, are left out.

use super::{Controller, Decisions, MemoryRequest, Ticket};
use crate::{DramSpec, LINE_BYTES, LineAddress, MemorySpec, Time};
use std::collections::VecDeque;

const NO_ROW: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct DramBank {
    /// The row that is open, or is being opened; [`NO_ROW`] before the first.
    row: u64,
    /// From when on it can be used or closed.
    ready: Time,
}

state::component!(DramBank { row, ready });

/// A request that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Time,
    bank: u64,
    row: u64,
    line: LineAddress,
    read: Option<Ticket>,
}

state::plain!(Waiting {
    since,
    bank,
    row,
    line,
    read
});

#[derive(Clone, Debug)]
pub(super) struct Banked {
    banks: Vec<DramBank>,
    /// The oldest is first.
    waiting: VecDeque<Waiting>,
    /// When the channel can carry the next line.
    free: Time,
    /// The first time at which it is to be woken.
    wakes: Time,
    latency: Time,
    occupancy: Time,
    activate: Time,
    precharge: Time,
    /// Lines of memory for which each bank of this controller has one row.
    lines_per_row: u64,
}

state::component!(Banked {
    banks: slice,
    waiting,
    free,
    wakes,
    latency: fixed,
    occupancy: fixed,
    activate: fixed,
    precharge: fixed,
    lines_per_row: fixed,
});

impl Banked {
    pub(super) fn new(spec: &MemorySpec, dram: &DramSpec) -> Banked {
        let bank = DramBank {
            row: NO_ROW,
            ready: Time::ZERO,
        };
        Banked {
            banks: vec![bank; dram.banks],
            waiting: VecDeque::new(),
            free: Time::ZERO,
            wakes: Time::NEVER,
            latency: Time::from_ns(spec.latency_ns),
            occupancy: Time::from_ns(LINE_BYTES as f64 / spec.bandwidth_gb_per_s),
            activate: Time::from_ns(dram.activate_ns),
            precharge: Time::from_ns(dram.precharge_ns),
            // Lines are interleaved over the controllers.
            lines_per_row: dram.row_bytes / LINE_BYTES as u64 * spec.controllers as u64,
        }
    }

    fn bank(&self, request: &Waiting) -> &DramBank {
        &self.banks[request.bank as usize]
    }

    /// Whether a request's row is open, or being opened.
    fn hits(&self, request: &Waiting) -> bool {
        self.bank(request).row == request.row
    }

    /// Opens the row of the oldest request of each bank for whose open row nobody waits.
    fn open_rows(&mut self, now: Time) {
        for index in 0..self.waiting.len() {
            let Waiting { bank, row, .. } = self.waiting[index];
            let is_wanted = |other: &Waiting| other.bank == bank && self.hits(other);
            let is_idle = self.banks[bank as usize].ready <= now;
            if is_idle && !self.waiting.iter().any(is_wanted) {
                let bank = &mut self.banks[bank as usize];
                let closes = match bank.row {
                    NO_ROW => Time::ZERO,
                    _ => self.precharge,
                };
                bank.row = row;
                bank.ready = now + closes + self.activate;
            }
        }
    }

    /// Does what can be done now, and says when there will be more to do.
    fn go_on(&mut self, now: Time, decisions: &mut Decisions) {
        self.open_rows(now);
        let is_ready = |one: &Waiting| self.hits(one) && self.bank(one).ready <= now;
        if self.free <= now
            && let Some(index) = self.waiting.iter().position(is_ready)
            && let Some(request) = self.waiting.remove(index)
        {
            self.free = now + self.occupancy;
            self.banks[request.bank as usize].ready = self.free;
            decisions.queueing += now - request.since;
            if let Some(ticket) = request.read {
                let answer = (now + self.latency, request.line, ticket);
                decisions.answers.push(answer);
            }
        }
        // Whose row is not open waits for the bank, or for those whose row is.
        let next = self.waiting.iter().map(|one| match self.hits(one) {
            true => self.bank(one).ready.max(self.free),
            false => self.bank(one).ready,
        });
        let next = next.filter(|&at| at > now).min().unwrap_or(Time::NEVER);
        if next < self.wakes {
            self.wakes = next;
            decisions.wake = Some(next);
        }
    }
}

impl Controller for Banked {
    fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        let row = request.line.0 / self.lines_per_row;
        let banks = self.banks.len() as u64;
        self.waiting.push_back(Waiting {
            since: now,
            bank: row % banks,
            row: row / banks,
            line: request.line,
            read: request.read,
        });
        self.go_on(now, decisions);
    }

    fn wake(&mut self, now: Time, decisions: &mut Decisions) {
        if self.wakes <= now {
            self.wakes = Time::NEVER;
        }
        self.go_on(now, decisions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two banks with rows of two lines: lines 0 and 1 are row 0 of bank 0, 2 and 3 that of bank 1,
    /// 4 and 5 row 1 of bank 0. A row opens in 10 ns, after 20 ns if another was open. A line takes
    /// the channel for 1 ns, and the answer leaves 30 ns after its turn.
    fn controller() -> Banked {
        let dram = DramSpec {
            banks: 2,
            row_bytes: 128,
            activate_ns: 10.0,
            precharge_ns: 20.0,
        };
        let spec = MemorySpec {
            controllers: 1,
            latency_ns: 30.0,
            bandwidth_gb_per_s: 64.0,
            dram: Some(dram.clone()),
        };
        Banked::new(&spec, &dram)
    }

    /// When the answers to requests (nanoseconds, line, whether it is a read) leave, in the order
    /// in which they are decided.
    fn answers(requests: &[(u64, u64, bool)]) -> Vec<(u64, u64)> {
        let ns = |time: Time| time.as_fs() / 1_000_000;
        let mut controller = controller();
        let mut requests = requests.iter().copied().peekable();
        let mut wakes = std::collections::BTreeSet::new();
        let mut decisions = Decisions::default();
        loop {
            let arrival = requests.peek().map(|one| Time::from_ns(one.0 as f64));
            let wake = wakes.first().copied();
            let Some(now) = arrival.into_iter().chain(wake).min() else {
                break;
            };
            if Some(now) == wake {
                wakes.remove(&now);
                controller.wake(now, &mut decisions);
            } else if let Some((_, line, is_read)) = requests.next() {
                let ticket = Ticket {
                    bank: 0,
                    transaction: 0,
                };
                let request = MemoryRequest {
                    line: LineAddress(line),
                    read: is_read.then_some(ticket),
                };
                controller.ask(now, request, &mut decisions);
            }
            wakes.extend(decisions.wake.take());
        }
        assert!(controller.waiting.is_empty());
        let answers = decisions.answers.iter();
        answers.map(|&(at, line, _)| (line.0, ns(at))).collect()
    }

    /// The first read opens its row: 10 + 30. Its neighbour has its turn a nanosecond later, and a
    /// late one at once: 100 + 30.
    #[test]
    fn a_row_is_opened_once() {
        let requests = [(0, 0, true), (0, 1, true), (100, 0, true)];
        assert_eq!(answers(&requests), [(0, 40), (1, 41), (0, 130)]);
    }

    /// Two rows of a bank: the second is opened when the first line has been carried, at 11, and
    /// can be used at 11 + 20 + 10.
    #[test]
    fn another_row_has_to_wait_for_the_bank() {
        let requests = [(0, 0, true), (0, 4, true)];
        assert_eq!(answers(&requests), [(0, 40), (4, 71)]);
        // A row that is open for nobody is closed at once: 100 + 20 + 10 + 30.
        let requests = [(0, 0, true), (100, 4, true)];
        assert_eq!(answers(&requests), [(0, 40), (4, 160)]);
    }

    /// Both rows are open at 10, and only the channel makes one wait.
    #[test]
    fn banks_open_rows_side_by_side() {
        let requests = [(0, 0, true), (0, 2, true)];
        assert_eq!(answers(&requests), [(0, 40), (2, 41)]);
    }

    /// Line 1 overtakes line 4, which has come before it: at 11 its row is open. Then the bank
    /// turns to line 4: 12 + 20 + 10 + 30.
    #[test]
    fn an_open_row_is_served_first() {
        let requests = [(0, 0, true), (5, 4, true), (6, 1, true)];
        assert_eq!(answers(&requests), [(0, 40), (1, 41), (4, 72)]);
    }

    /// Writes have turns and open rows, and no answers: the write has its turn at 10, and the row
    /// is there for line 5 at 11.
    #[test]
    fn writes_open_rows() {
        let requests = [(0, 4, false), (0, 5, true)];
        assert_eq!(answers(&requests), [(5, 41)]);
        let requests = [(0, 4, false), (50, 5, true)];
        assert_eq!(answers(&requests), [(5, 80)]);
    }
}
