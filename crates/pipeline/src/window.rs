//! The instructions in flight: the reorder buffer, deferred instructions, and the state for
//! squashing.

use crate::ports::Unit;
use crate::predictor::{Lookup, ReturnStack};
use crate::ring::Ring;
use crate::stack::CycleStack;
use riscv::{Instruction, SINK};
use state::{Purpose, State, Walker};

/// Cycles at or above this are no cycles: `UNKNOWN + index` says that the value is not known yet
/// and comes from the window's slot `index`.
pub const UNKNOWN: u64 = 1 << 62;

/// The effect of an instruction's commit, beside its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum SlotKind {
    Plain,
    Load,
    Store,
    Atomic,
}

/// An instruction in flight: what every instruction needs.
#[derive(Clone, Copy, Debug, state::State)]
pub struct Slot {
    /// Cycle in which it issues; [`UNKNOWN`] until that can be told.
    #[state(cycle)]
    pub issue: u64,
    /// Cycle at which it is done; [`UNKNOWN`] until that can be told.
    #[state(cycle)]
    pub complete: u64,
    /// What its destination register held before, to go back.
    pub previous_value: u64,
    /// When that was, or is to be, ready.
    #[state(cycle)]
    pub previous_ready: u64,
    pub tags: Tags,
}

/// What is known of a [`Slot`] when its instruction is decoded, in two words that are copied in one
/// piece.
#[derive(Clone, Copy, Debug, state::State)]
#[repr(C, align(16))]
pub struct Tags {
    pub pc: u64,
    pub rd: u8,
    /// Floating-point flags that it has raised.
    pub flags: u8,
    pub kind: SlotKind,
    pub unit: Unit,
}

/// How many operands a [`Waiter`] can tell apart.
pub const OPERANDS: usize = 4;

/// How many operands a [`Deferred`] has places for; a third is in [`Rest`].
const HOT_OPERANDS: usize = 2;

/// A waiter for a slot's value: [`OPERANDS`] times the index of the slot that waits, plus the
/// number of the operand.
pub type Waiter = u32;

/// Nobody.
pub const NOBODY: Waiter = u32::MAX;

/// Who waits for operand `operand` of what is deferred at `index`.
#[inline(always)]
pub fn waiter(index: usize, operand: usize) -> Waiter {
    (index * OPERANDS + operand) as Waiter
}

const _: () = assert!(size_of::<Deferred>() == 64, "one line of the host's caches");

/// The additional state of an instruction that was dispatched before its operands or its result
/// were known. It fills one line of the host's caches; rarely needed fields are in [`Rest`].
#[derive(Clone, Debug, state::State)]
#[repr(align(64))]
pub struct Deferred {
    /// 0: squashed or not in use.
    pub position: u64,
    pub instruction: Instruction,
    /// Of an operand that is unknown, the index of the slot that it comes from. The second is the
    /// result as soon as that is known: see [`Deferred::resolve`].
    pub operands: [u64; HOT_OPERANDS],
    /// When the latest of the known operands is ready; of a result that is known, when that is.
    #[state(cycle)]
    pub earliest: u64,
    /// Who waits for the value, the youngest first, so that a squash, which begins with the
    /// youngest instruction, takes waiters from the front.
    pub waiters: Waiter,
    /// Who else waits for each of the unknown operands, the next older.
    pub next_waiters: [Waiter; HOT_OPERANDS],
    /// Operands that are still unknown, a bit for each.
    pub pending: u8,
    /// A store or an atomic.
    pub is_store: bool,
    pub resolved: bool,
}

impl Deferred {
    /// The result is known and usable from cycle `ready` on. It replaces the second operand, which
    /// is no longer needed; the first operand is still an address. Returns the youngest of the
    /// waiters.
    #[inline(always)]
    pub fn resolve(&mut self, value: u64, ready: u64) -> Waiter {
        self.resolved = true;
        self.operands[1] = value;
        self.earliest = ready;
        std::mem::replace(&mut self.waiters, NOBODY)
    }

    /// The result, if it is known.
    #[inline]
    pub fn value(&self) -> u64 {
        self.operands[1]
    }

    /// When that can be used.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.earliest
    }
}

/// What some of the deferred need besides.
#[derive(Clone, Debug, state::State)]
pub struct Rest {
    /// Loads: number in the load queue. Stores and atomics: number in the store queue.
    pub queue_number: u64,
    /// Loads: how many stores there had been before it.
    pub stores_before: u64,
    /// The third operand of a fused multiply-add, and who else waits for it, the next older.
    pub third: u64,
    next_third: Waiter,
}

impl Rest {
    /// The third operand is known; says who else waits for it.
    pub fn supply_third(&mut self, value: u64) -> Waiter {
        self.third = value;
        self.next_third
    }
}

/// What a deferred branch or indirect jump needs, should its prediction be wrong.
#[derive(Clone, Copy, Debug, Default, state::State)]
#[state(fields)]
pub struct Prediction {
    /// Where fetch went on.
    pub next: u64,
    pub lookup: Lookup,
    pub returns: ReturnStack,
    /// Where the cycles had gone, and up to which one, when it was dispatched.
    #[state(fixed)]
    pub cycles: (CycleStack, u64),
}

impl State for Prediction {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let (stack, charged) = &mut self.cycles;
        // Moved on by the core, which knows how much has been counted.
        if walker.purpose() == Purpose::Exact {
            stack.walk(walker);
        }
        walker.cycle(charged);
    }
}

/// The reorder buffer. Positions count up for ever. The ring of what is deferred is twice the
/// reorder buffer, so that an instruction that went out of it can still be asked for its value by
/// those that were dispatched while it was in it.
#[derive(state::State)]
pub struct Window {
    slots: Ring<Slot>,
    /// The cycle in which each position commits; [`UNKNOWN`] until that can be told.
    #[state(cycles)]
    commits: Ring<u64>,
    deferred: Ring<Deferred>,
    rest: Ring<Rest>,
    /// By the indices of what is deferred.
    #[state(slice)]
    pub predictions: Box<[Prediction]>,
    #[state(fixed)]
    rob_entries: u64,
    /// Entries of the reorder buffer that this hart may have now: those that the other harts of the
    /// core have not got.
    capacity: u64,
    #[state(fixed)]
    width: u64,
    /// All before this position have left the reorder buffer.
    departed: u64,
    /// All before this position have issued.
    issued: u64,
    /// Position of the next instruction.
    pub tail: u64,
    /// The first position whose commit cycle is not known.
    pub commit_known: u64,
    #[state(cycle)]
    pub last_commit: u64,
}

/// The parts of a window that are changed together.
pub struct Parts<'window> {
    pub slots: &'window mut Ring<Slot>,
    pub deferred: &'window mut Ring<Deferred>,
    pub rest: &'window mut Ring<Rest>,
}

/// The cycles of commitment, to be told in order.
pub struct Commits<'window> {
    cycles: &'window mut Ring<u64>,
    width: u64,
}

impl Commits<'_> {
    /// Gives the instruction at `position`, which is complete at `complete`, its commit cycle, if
    /// those before it commit up to `last_commit`.
    #[inline(always)]
    pub fn next(&mut self, position: u64, last_commit: u64, complete: u64) -> u64 {
        let commit = commit_at(self.cycles, self.width, position, last_commit, complete);
        self.cycles[position] = commit;
        commit
    }
}

#[inline(always)]
fn commit_at(
    cycles: &Ring<u64>,
    width: u64,
    position: u64,
    last_commit: u64,
    complete: u64,
) -> u64 {
    // After the one before it, and in another cycle than the one that is a width before it.
    let width = cycles[position - width] + 1;
    last_commit.max(complete + 1).max(width)
}

impl Window {
    pub fn new(rob_entries: u16, width: u8) -> Window {
        // What has committed last tells when the next may.
        let slots = usize::from(rob_entries) + usize::from(width) + 1;
        let ring = (usize::from(rob_entries) * 2).next_power_of_two();
        let slot = Slot {
            issue: 0,
            complete: 0,
            previous_value: 0,
            previous_ready: 0,
            tags: Tags {
                pc: 0,
                rd: SINK,
                flags: 0,
                kind: SlotKind::Plain,
                unit: Unit::Integer,
            },
        };
        let deferred = Deferred {
            position: 0,
            instruction: Instruction::illegal(0, 4),
            operands: [0; HOT_OPERANDS],
            earliest: 0,
            waiters: NOBODY,
            next_waiters: [NOBODY; HOT_OPERANDS],
            pending: 0,
            is_store: false,
            resolved: true,
        };
        let rest = Rest {
            queue_number: 0,
            stores_before: 0,
            third: 0,
            next_third: NOBODY,
        };
        let slots = Ring::new(slots, slot);
        // There is always something before the first instruction: it committed in cycle 0.
        let first = slots.length();
        Window {
            commits: Ring::new(slots.length() as usize, 0),
            slots,
            deferred: Ring::new(ring, deferred),
            rest: Ring::new(ring, rest),
            predictions: vec![Prediction::default(); ring].into_boxed_slice(),
            rob_entries: u64::from(rob_entries),
            capacity: u64::from(rob_entries),
            width: u64::from(width),
            departed: first,
            issued: first,
            tail: first,
            commit_known: first,
            last_commit: 0,
        }
    }

    /// The index, among what is deferred, of the instruction at `position`.
    #[inline(always)]
    pub fn index(&self, position: u64) -> usize {
        self.deferred.place(position)
    }

    #[inline]
    pub fn slot(&self, position: u64) -> &Slot {
        &self.slots[position]
    }

    #[inline]
    pub fn slot_mut(&mut self, position: u64) -> &mut Slot {
        &mut self.slots[position]
    }

    /// When the instruction at `position` commits.
    #[inline(always)]
    pub fn commit(&self, position: u64) -> u64 {
        self.commits[position]
    }

    /// The same, to be moved on.
    pub fn commit_mut(&mut self, position: u64) -> &mut u64 {
        &mut self.commits[position]
    }

    /// The position that leaves the reorder buffer when the next instruction enters it.
    #[inline(always)]
    pub fn leaving(&self) -> u64 {
        self.leaving_at(self.tail)
    }

    /// The position that leaves the reorder buffer when the one at `tail` enters it.
    #[inline(always)]
    pub fn leaving_at(&self, tail: u64) -> u64 {
        tail - self.capacity
    }

    /// The last position that can no longer be undone when the next instruction enters, however few
    /// entries this hart has.
    #[inline]
    pub fn settled(&self) -> u64 {
        self.tail - self.rob_entries
    }

    /// How many entries this hart may have now.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Leaves this hart all entries but those that the others have.
    pub fn share_with(&mut self, others: u64) {
        self.capacity = self.rob_entries - others;
        if self.capacity == 0 {
            // The instruction that would have to leave is the next one itself.
            self.commits[self.tail] = UNKNOWN;
        }
    }

    /// How many entries are taken at `cycle`, which never goes back.
    pub fn occupied(&mut self, cycle: u64) -> u64 {
        self.departed = self.departed.max(self.settled());
        while self.departed < self.commit_known && self.commits[self.departed] < cycle {
            self.departed += 1;
        }
        self.tail - self.departed
    }

    /// How many instructions have not issued before `cycle`, which never goes back.
    pub fn waiting(&mut self, cycle: u64) -> u64 {
        self.issued = self.issued.max(self.settled());
        while self.issued < self.tail && self.slots[self.issued].issue < cycle {
            self.issued += 1;
        }
        let waiting = (self.issued..self.tail).filter(|&at| self.slots[at].issue >= cycle);
        waiting.count() as u64
    }

    /// The positions whose commit cycles still matter: of those in the reorder buffer, and of those
    /// that limit how many commit in a cycle.
    pub fn recent(&self) -> std::ops::Range<u64> {
        self.tail - self.rob_entries.max(self.width)..self.tail
    }

    #[inline(always)]
    pub fn push(&mut self, slot: Slot) {
        self.place(self.tail, slot, UNKNOWN);
        self.tail += 1;
    }

    /// Puts an instruction that commits at `commit` to its position, without counting it.
    #[inline(always)]
    pub fn place(&mut self, position: u64, slot: Slot, commit: u64) {
        self.slots[position] = slot;
        self.commits[position] = commit;
    }

    /// How many places there are for what is deferred; a power of two.
    pub fn deferred_entries(&self) -> u64 {
        self.deferred.length()
    }

    #[inline(always)]
    pub fn deferred(&self, index: usize) -> &Deferred {
        &self.deferred[index as u64]
    }

    #[inline(always)]
    pub fn deferred_mut(&mut self, index: usize) -> &mut Deferred {
        &mut self.deferred[index as u64]
    }

    /// What some of the deferred need besides.
    #[inline(always)]
    pub fn rest(&self, index: usize) -> &Rest {
        &self.rest[index as u64]
    }

    #[inline(always)]
    pub fn rest_mut(&mut self, index: usize) -> &mut Rest {
        &mut self.rest[index as u64]
    }

    /// Whether the instruction at `index` has not been squashed. Its place is not taken again
    /// before the next instruction is dispatched.
    #[inline]
    pub fn is_live(&self, index: usize) -> bool {
        self.deferred(index).position != 0
    }

    /// Who else waits for the same value as `waiter`.
    #[inline(always)]
    pub fn next_waiter(&mut self, waiter: Waiter) -> &mut Waiter {
        let index = waiter as usize / OPERANDS;
        match waiter as usize % OPERANDS {
            operand @ 0..HOT_OPERANDS => &mut self.deferred_mut(index).next_waiters[operand],
            _ => &mut self.rest_mut(index).next_third,
        }
    }

    /// One of an instruction's operands.
    pub fn operand(&self, index: usize, operand: usize) -> u64 {
        match operand {
            0..HOT_OPERANDS => self.deferred(index).operands[operand],
            _ => self.rest(index).third,
        }
    }

    /// The instruction in slot `index`, which is the youngest, waits for `operand`, which comes
    /// from slot `producer`. Says who else does, the next older.
    #[inline(always)]
    pub fn wait_for(&mut self, index: usize, operand: usize, producer: usize) -> Waiter {
        let first = &mut self.deferred_mut(producer).waiters;
        std::mem::replace(first, waiter(index, operand))
    }

    /// The same for the third operand, which comes from there or has this value.
    pub fn set_third(&mut self, index: usize, value: u64, producer: Option<usize>) {
        let next_third = producer.map_or(NOBODY, |producer| self.wait_for(index, 2, producer));
        let rest = self.rest_mut(index);
        rest.third = producer.map_or(value, |producer| producer as u64);
        rest.next_third = next_third;
    }

    /// The instruction in slot `index`, which is the youngest that waits, waits no longer.
    pub fn stop_waiting(&mut self, index: usize) {
        for operand in (0..3).rev() {
            if self.deferred(index).pending & (1 << operand) != 0 {
                let next = *self.next_waiter(waiter(index, operand));
                let producer = self.operand(index, operand) as usize;
                let first = &mut self.deferred_mut(producer).waiters;
                debug_assert_eq!(*first, waiter(index, operand), "a younger one waits");
                *first = next;
            }
        }
    }

    /// Who waits for the value of slot `index`, the youngest first.
    pub fn waiters(&mut self, index: usize) -> impl Iterator<Item = Waiter> {
        let mut next = self.deferred(index).waiters;
        std::iter::from_fn(move || {
            let waiter = (next != NOBODY).then_some(next)?;
            next = *self.next_waiter(waiter);
            Some(waiter)
        })
    }

    /// Whether every instruction in flight has a known end.
    #[inline]
    pub fn all_known(&self) -> bool {
        self.commit_known == self.tail
    }

    /// Gives the next instruction in order its commit cycle. It is complete at `complete`.
    #[inline(always)]
    pub fn commit_next(&mut self, complete: u64) -> u64 {
        self.last_commit = self.commit_at(self.commit_known, self.last_commit, complete);
        self.commits[self.commit_known] = self.last_commit;
        self.commit_known += 1;
        self.last_commit
    }

    /// When the instruction at `position` commits, which is complete at `complete`, if those before
    /// it do so up to `last_commit`.
    #[inline(always)]
    pub fn commit_at(&self, position: u64, last_commit: u64, complete: u64) -> u64 {
        commit_at(&self.commits, self.width, position, last_commit, complete)
    }

    /// The instructions themselves, by position, and what is deferred, by index.
    #[inline(always)]
    pub fn parts(&mut self) -> Parts<'_> {
        Parts {
            slots: &mut self.slots,
            deferred: &mut self.deferred,
            rest: &mut self.rest,
        }
    }

    /// What commitment in order reads, and what it writes.
    #[inline(always)]
    pub fn in_order(&mut self) -> (&Ring<Slot>, Commits<'_>) {
        let commits = Commits {
            cycles: &mut self.commits,
            width: self.width,
        };
        (&self.slots, commits)
    }

    /// Removes the youngest instruction, which has been squashed.
    ///
    /// Its place was that of an instruction that had left the reorder buffer before this one was
    /// dispatched, and that may be about to leave it once more: nobody has to wait for that one.
    pub fn unpush(&mut self) -> Slot {
        // What has left the reorder buffer has issued, and its slot may hold what is undone now.
        self.issued = self.issued.max(self.settled());
        self.tail -= 1;
        self.issued = self.issued.min(self.tail);
        self.commits[self.tail] = 0;
        let slot = self.slots[self.tail];
        self.slots[self.tail].tags.flags = 0;
        slot
    }

    /// Takes back the commits of instructions that have been squashed.
    pub fn uncommit(&mut self) {
        if self.commit_known > self.tail {
            self.commit_known = self.tail;
            self.last_commit = self.commits[self.tail - 1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undone_leaves_nothing_that_waits() {
        let mut window = Window::new(12, 3);
        let slot = |issue| Slot {
            issue,
            complete: issue,
            previous_value: 0,
            previous_ready: 0,
            tags: Tags {
                pc: 0,
                rd: SINK,
                flags: 0,
                kind: SlotKind::Plain,
                unit: Unit::Integer,
            },
        };
        for _ in 0..12 {
            window.push(slot(1));
        }
        // These follow when those have committed, and take the slots of eight of them: there are
        // 16.
        for _ in 0..12 {
            window.push(slot(UNKNOWN));
        }
        for _ in 0..12 {
            window.unpush();
        }
        assert_eq!(window.waiting(2), 0);
    }
}
