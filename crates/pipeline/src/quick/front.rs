//! The dispatch state of the innermost loop.

use crate::core::Core;
use crate::kind::CoreKind;
use crate::stack::Stall;
use riscv::SINK;

/// The maximum number of instructions for which room is established at a time.
const ROOM_FOR: u64 = 16;

/// The state that changes with each instruction.
#[derive(Clone, Copy)]
pub(super) struct Front {
    pub(super) cycle: u64,
    pub(super) tail: u64,
    pub(super) last_commit: u64,
    /// On an in-order core: the last issue cycle, if it may be later than the present cycle.
    pub(super) last_issue: u64,
    /// On an in-order core of width 1: the latest cycle in which a result is ready, except for
    /// results that do not delay the next instruction.
    pub(super) latest: u64,
    /// The width of the cycle is exhausted by the instruction before this position.
    pub(super) width_until: u64,
    /// The scheduler is full with the instructions before this position.
    pub(super) scheduler_until: u64,
    /// Instructions before this position have room in the reorder buffer and, on an in-order core,
    /// do not wait for `last_issue`.
    pub(super) room: u64,
    /// Instructions before this position need none of these checks. A core of width 1 then also
    /// does not reach the cycle at which it must stop.
    pub(super) limit: u64,
}

impl Front {
    /// The remaining width of the cycle.
    #[inline(always)]
    pub(super) fn left(&self) -> u8 {
        (self.width_until - self.tail) as u8
    }

    /// Advances to the next cycle if the width of the present one is exhausted. Returns whether a
    /// cycle begins.
    #[inline(always)]
    pub(super) fn begin_cycle<const SINGLE: bool>(&mut self, width: u8) -> bool {
        if SINGLE {
            return true;
        }
        let begins = self.left() == 0;
        if begins {
            self.cycle += 1;
            self.set_left(width);
        }
        begins
    }

    /// Ends the cycle. A core of width 1 is in the next one already.
    #[inline(always)]
    pub(super) fn end_cycle<const SINGLE: bool>(&mut self) {
        if !SINGLE {
            self.set_left(0);
        }
    }

    /// Sets the remaining width of the present cycle.
    #[inline(always)]
    pub(super) fn set_left(&mut self, left: u8) {
        self.width_until = self.tail + u64::from(left);
        self.limit = 0;
    }
}

/// Charges the uncharged cycles before `until` to `part`.
#[inline(always)]
pub(super) fn charge(part: &mut u64, charged: &mut u64, until: u64) {
    let cycles = until.saturating_sub(*charged);
    *part += cycles;
    *charged += cycles;
}

impl<K: CoreKind> Core<K> {
    /// The present dispatch state.
    #[inline(always)]
    pub(super) fn front(&self) -> Front {
        let tail = self.hart.window.tail;
        let scheduler_entries = u64::from(self.shared.spec.scheduler_entries);
        Front {
            cycle: self.hart.dispatch_cycle,
            tail,
            last_commit: self.hart.window.last_commit,
            last_issue: self.hart.last_issue,
            // Commits are complete by then, and no other register is waited for.
            latest: self.hart.window.last_commit,
            width_until: tail + u64::from(self.hart.dispatch_left),
            scheduler_until: tail + scheduler_entries - u64::from(self.shared.in_scheduler),
            room: 0,
            limit: 0,
        }
    }

    /// Writes the dispatch state back; dispatch continues with the instruction at `pc`.
    #[inline(always)]
    pub(super) fn write_back<const KNOWN: bool>(&mut self, at: &Front, pc: u64, cursor: u32) {
        self.hart.pc = pc;
        self.hart.cursor = cursor;
        self.hart.dispatch_cycle = at.cycle;
        self.hart.dispatch_left = at.left();
        if K::IN_ORDER && at.tail > self.hart.window.tail {
            self.hart.last_issue = self.hart.window.slot(at.tail - 1).issue;
        }
        if !K::IN_ORDER {
            self.shared.in_scheduler = self.in_scheduler_at(at);
        }
        self.hart.statistics.instructions += at.tail - self.hart.window.tail;
        self.hart.window.tail = at.tail;
        if KNOWN {
            self.hart.window.commit_known = at.tail;
            self.hart.window.last_commit = at.last_commit;
        }
        // No instruction depends on a squashed one.
        self.hart.ready[usize::from(SINK)] = 0;
    }

    /// The number of instructions in the scheduler.
    #[inline(always)]
    pub(super) fn in_scheduler_at(&self, at: &Front) -> u32 {
        (u64::from(self.shared.spec.scheduler_entries) + at.tail - at.scheduler_until) as u32
    }

    /// The first cycle, from the present one on, in which the reorder buffer has room.
    #[inline(always)]
    pub(super) fn room_from(&self, at: &mut Front) -> u64 {
        // Instructions commit in order: one that can enter when a later one has left can before.
        let oldest = self.hart.window.leaving_at(at.tail);
        let more = (ROOM_FOR - 1).min(self.hart.window.capacity() / 2);
        if self.hart.window.commit(oldest + more) < at.cycle {
            at.room = at.tail + more + 1;
        }
        at.cycle.max(self.hart.window.commit(oldest) + 1)
    }

    /// Removes instructions from the scheduler that were to issue before the present cycle.
    #[inline(always)]
    pub(super) fn issue_scheduled(&mut self, at: &mut Front) {
        if self.shared.scheduler_cycle >= at.cycle {
            return;
        }
        let entries = u64::from(self.shared.spec.scheduler_entries);
        let until_when_empty = at.tail + entries - u64::from(self.shared.unissued);
        let mut cycle = self.shared.scheduler_cycle;
        while cycle < at.cycle && at.scheduler_until != until_when_empty {
            at.scheduler_until += u64::from(self.shared.calendar.issues(cycle));
            cycle += 1;
        }
        self.shared.scheduler_cycle = at.cycle;
    }

    /// The scheduler is full in the present cycle: the next cycle in which an instruction issues. If
    /// an event before it could end the wait, by a value, a trap or another hart, it is before
    /// `stop`.
    #[inline(never)]
    pub(super) fn next_to_issue<const KNOWN: bool>(&self, at: &Front, stop: u64) -> u64 {
        let may_trap = K::IS_ACTIVE
            || self.hart.privileged.enables_interrupts()
            || !self.hart.posted.is_empty()
            || self.hart.debug.is_some();
        let last = if KNOWN && !K::MULTITHREADED && !may_trap {
            at.last_commit
        } else {
            stop - 1
        };
        let calendar = &self.shared.calendar;
        (self.shared.scheduler_cycle.max(at.cycle)..last)
            .find(|&cycle| calendar.issues(cycle) > 0)
            .unwrap_or(last.max(at.cycle))
    }

    /// The branch or jump that has just been dispatched, before the cycle `next`, and resolves at
    /// `done`, was mispredicted.
    #[inline(always)]
    pub(super) fn mispredicted(&mut self, at: &mut Front, next: u64, done: u64) {
        let hart = &mut *self.hart;
        hart.statistics.mispredictions += 1;
        charge(&mut hart.statistics.stack.base, &mut hart.charged, next);
        hart.stall = Stall::Branch;
        at.cycle = done + self.front_end();
        at.set_left(self.shared.spec.width);
    }
}
