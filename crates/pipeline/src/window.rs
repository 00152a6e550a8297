//! The instructions in flight: the reorder buffer, deferred instructions, and the state that
//! squashes restore.

use crate::ports::Unit;
use crate::predictor::{Lookup, ReturnStack};
use crate::ring::Ring;
use crate::stack::CycleStack;
use riscv::{Instruction, SINK};
use state::{Purpose, State, Walker};

/// Values from here on are not cycles: `UNKNOWN + index` means that the value is unknown and comes
/// from the window's slot `index`.
pub const UNKNOWN: u64 = 1 << 62;

/// The queue whose state changes when an instruction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum SlotKind {
    Plain,
    Load,
    Store,
    Atomic,
}

/// An instruction in flight: the state that every instruction needs.
#[derive(Clone, Copy, Debug, state::State)]
pub struct Slot {
    /// Cycle in which it issues; [`UNKNOWN`] if it depends on an unknown value.
    #[state(cycle)]
    pub issue: u64,
    /// Cycle at which it is done; [`UNKNOWN`] if it depends on an unknown value.
    #[state(cycle)]
    pub complete: u64,
    /// The previous value of its destination register, for squashes.
    pub previous_value: u64,
    /// The cycle in which the previous value is ready.
    #[state(cycle)]
    pub previous_ready: u64,
    pub tags: Tags,
}

/// The part of a [`Slot`] that is determined at decode, in two words that are copied together.
#[derive(Clone, Copy, Debug, state::State)]
#[repr(C, align(16))]
pub struct Tags {
    pub pc: u64,
    pub rd: u8,
    /// The floating-point flags that it raises.
    pub flags: u8,
    pub kind: SlotKind,
    pub unit: Unit,
}

/// The number of operands that a [`Waiter`] distinguishes.
pub const OPERANDS: usize = 4;

/// The number of operands in a [`Deferred`]; a third one is in [`Rest`].
const HOT_OPERANDS: usize = 2;

/// A waiter for a slot's value: [`OPERANDS`] times the index of the slot that waits, plus the
/// number of the operand.
pub type Waiter = u32;

/// No waiter.
pub const NOBODY: Waiter = u32::MAX;

/// The waiter for operand `operand` of the deferred instruction at `index`.
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
    /// Its position; 0 if it is squashed or not in use.
    pub position: u64,
    pub instruction: Instruction,
    /// For each unknown operand, the index of the slot that produces it. The second one is the
    /// result as soon as that is known: see [`Deferred::resolve`].
    pub operands: [u64; HOT_OPERANDS],
    /// When the latest known operand is ready; once the result is known, when that is ready.
    #[state(cycle)]
    pub earliest: u64,
    /// The head of the list of waiters for its value, youngest first, so that a squash, which
    /// begins with the youngest instruction, removes waiters from the front.
    pub waiters: Waiter,
    /// For each unknown operand, the next older waiter for the same value.
    pub next_waiters: [Waiter; HOT_OPERANDS],
    /// A bit for each operand that is still unknown.
    pub pending: u8,
    /// It is a store or an atomic.
    pub is_store: bool,
    pub resolved: bool,
}

impl Deferred {
    /// Stores the result, usable from cycle `ready` on. It replaces the second operand, which is no
    /// longer needed; the first operand may still be needed as an address. Returns the youngest
    /// waiter.
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

    /// When the result can be used.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.earliest
    }
}

/// Rarely needed state of deferred instructions.
#[derive(Clone, Debug, state::State)]
pub struct Rest {
    /// Loads: number in the load queue. Stores and atomics: number in the store queue.
    pub queue_number: u64,
    /// Loads: the number of stores before it.
    pub stores_before: u64,
    /// The third operand of a fused multiply-add, and the next older waiter for the same value.
    pub third: u64,
    next_third: Waiter,
}

impl Rest {
    /// Supplies the third operand; returns the next older waiter for the same value.
    pub fn supply_third(&mut self, value: u64) -> Waiter {
        self.third = value;
        self.next_third
    }
}

/// The state of a deferred branch or indirect jump for the case of a misprediction.
#[derive(Clone, Copy, Debug, Default, state::State)]
#[state(fields)]
pub struct Prediction {
    /// The predicted target.
    pub next: u64,
    pub lookup: Lookup,
    pub returns: ReturnStack,
    /// The cycle stack at its dispatch, and the cycle up to which it was charged.
    #[state(fixed)]
    pub cycles: (CycleStack, u64),
}

impl State for Prediction {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let (stack, charged) = &mut self.cycles;
        // The core advances it, since it knows how much has been counted.
        if walker.purpose() == Purpose::Exact {
            stack.walk(walker);
        }
        walker.cycle(charged);
    }
}

/// The reorder buffer. Positions increase for ever. The ring of deferred instructions is twice as
/// large as the reorder buffer, so that the value of an instruction that has left it is still
/// available to those that were dispatched while it was there.
#[derive(state::State)]
pub struct Window {
    slots: Ring<Slot>,
    /// The cycle in which each position commits; [`UNKNOWN`] until it is known.
    #[state(cycles)]
    commits: Ring<u64>,
    deferred: Ring<Deferred>,
    rest: Ring<Rest>,
    /// By deferred index.
    #[state(slice)]
    pub predictions: Box<[Prediction]>,
    #[state(fixed)]
    rob_entries: u64,
    /// The entries of the reorder buffer available to this hart, which the core's other harts do
    /// not use.
    capacity: u64,
    #[state(fixed)]
    width: u64,
    /// All before this position have left the reorder buffer.
    departed: u64,
    /// All before this position have issued.
    issued: u64,
    /// Position of the next instruction.
    pub tail: u64,
    /// The first position whose commit cycle is unknown.
    pub commit_known: u64,
    #[state(cycle)]
    pub last_commit: u64,
}

/// The parts of a window that change together.
pub struct Parts<'window> {
    pub slots: &'window mut Ring<Slot>,
    pub deferred: &'window mut Ring<Deferred>,
    pub rest: &'window mut Ring<Rest>,
}

/// Assigns commit cycles in program order.
pub struct Commits<'window> {
    cycles: &'window mut Ring<u64>,
    width: u64,
}

impl Commits<'_> {
    /// Assigns the commit cycle of the instruction at `position`, which is complete at `complete`;
    /// older instructions commit up to `last_commit`.
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
    // Not before its predecessor, and after the instruction `width` positions earlier.
    let width = cycles[position - width] + 1;
    last_commit.max(complete + 1).max(width)
}

impl Window {
    pub fn new(rob_entries: u16, width: u8) -> Window {
        // The last commits limit the following ones.
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
        // A sentinel before the first instruction, which committed in cycle 0.
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

    /// The deferred index of the instruction at `position`.
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

    /// The commit cycle of the instruction at `position`, mutably.
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

    /// The last position that can no longer be squashed when the next instruction enters, however
    /// few entries this hart has.
    #[inline]
    pub fn settled(&self) -> u64 {
        self.tail - self.rob_entries
    }

    /// The number of entries available to this hart.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Limits this hart to the entries that the other harts do not use.
    pub fn share_with(&mut self, others: u64) {
        self.capacity = self.rob_entries - others;
        if self.capacity == 0 {
            // The instruction that would have to leave is the next one itself.
            self.commits[self.tail] = UNKNOWN;
        }
    }

    /// The number of entries in use at `cycle`, which never decreases.
    pub fn occupied(&mut self, cycle: u64) -> u64 {
        self.departed = self.departed.max(self.settled());
        while self.departed < self.commit_known && self.commits[self.departed] < cycle {
            self.departed += 1;
        }
        self.tail - self.departed
    }

    /// The number of instructions that have not issued before `cycle`, which never decreases.
    pub fn waiting(&mut self, cycle: u64) -> u64 {
        self.issued = self.issued.max(self.settled());
        while self.issued < self.tail && self.slots[self.issued].issue < cycle {
            self.issued += 1;
        }
        let waiting = (self.issued..self.tail).filter(|&at| self.slots[at].issue >= cycle);
        waiting.count() as u64
    }

    /// The positions whose commit cycles still matter: those in the reorder buffer, and those that
    /// limit the number of commits in a cycle.
    pub fn recent(&self) -> std::ops::Range<u64> {
        self.tail - self.rob_entries.max(self.width)..self.tail
    }

    #[inline(always)]
    pub fn push(&mut self, slot: Slot) {
        self.place(self.tail, slot, UNKNOWN);
        self.tail += 1;
    }

    /// Puts an instruction that commits at `commit` at its position, without counting it.
    #[inline(always)]
    pub fn place(&mut self, position: u64, slot: Slot, commit: u64) {
        self.slots[position] = slot;
        self.commits[position] = commit;
    }

    /// The number of entries for deferred instructions, a power of two.
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

    /// The rarely needed state of a deferred instruction.
    #[inline(always)]
    pub fn rest(&self, index: usize) -> &Rest {
        &self.rest[index as u64]
    }

    #[inline(always)]
    pub fn rest_mut(&mut self, index: usize) -> &mut Rest {
        &mut self.rest[index as u64]
    }

    /// Whether the instruction at `index` has not been squashed. Its entry is not reused before the
    /// next instruction is dispatched.
    #[inline]
    pub fn is_live(&self, index: usize) -> bool {
        self.deferred(index).position != 0
    }

    /// The next older waiter for the same value as `waiter`.
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

    /// The youngest instruction, in slot `index`, waits for `operand` from slot `producer`. Returns
    /// the next older waiter.
    #[inline(always)]
    pub fn wait_for(&mut self, index: usize, operand: usize, producer: usize) -> Waiter {
        let first = &mut self.deferred_mut(producer).waiters;
        std::mem::replace(first, waiter(index, operand))
    }

    /// Sets the third operand: the value, or the slot that produces it.
    pub fn set_third(&mut self, index: usize, value: u64, producer: Option<usize>) {
        let next_third = producer.map_or(NOBODY, |producer| self.wait_for(index, 2, producer));
        let rest = self.rest_mut(index);
        rest.third = producer.map_or(value, |producer| producer as u64);
        rest.next_third = next_third;
    }

    /// Removes the youngest waiting instruction, in slot `index`, from the lists of waiters.
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

    /// The waiters for the value of slot `index`, youngest first.
    pub fn waiters(&mut self, index: usize) -> impl Iterator<Item = Waiter> {
        let mut next = self.deferred(index).waiters;
        std::iter::from_fn(move || {
            let waiter = (next != NOBODY).then_some(next)?;
            next = *self.next_waiter(waiter);
            Some(waiter)
        })
    }

    /// Whether the completion of every instruction in flight is known.
    #[inline]
    pub fn all_known(&self) -> bool {
        self.commit_known == self.tail
    }

    /// Assigns the commit cycle of the next instruction in order, which is complete at `complete`.
    #[inline(always)]
    pub fn commit_next(&mut self, complete: u64) -> u64 {
        self.last_commit = self.commit_at(self.commit_known, self.last_commit, complete);
        self.commits[self.commit_known] = self.last_commit;
        self.commit_known += 1;
        self.last_commit
    }

    /// The commit cycle of the instruction at `position`, if it is complete at `complete` and older
    /// ones commit up to `last_commit`.
    #[inline(always)]
    pub fn commit_at(&self, position: u64, last_commit: u64, complete: u64) -> u64 {
        commit_at(&self.commits, self.width, position, last_commit, complete)
    }

    /// The slots, by position, and the deferred instructions, by index.
    #[inline(always)]
    pub fn parts(&mut self) -> Parts<'_> {
        Parts {
            slots: &mut self.slots,
            deferred: &mut self.deferred,
            rest: &mut self.rest,
        }
    }

    /// The state that in-order commit reads, and the state that it writes.
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
    /// The entry belonged to an instruction that had left the reorder buffer before this one was
    /// dispatched; nothing has to wait for that instruction.
    pub fn unpush(&mut self) -> Slot {
        // All that has left the reorder buffer has issued; its slot may now hold a squashed
        // instruction.
        self.issued = self.issued.max(self.settled());
        self.tail -= 1;
        self.issued = self.issued.min(self.tail);
        self.commits[self.tail] = 0;
        let slot = self.slots[self.tail];
        self.slots[self.tail].tags.flags = 0;
        slot
    }

    /// Cancels the commits of squashed instructions.
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
        // These are dispatched when the former have committed, and reuse the slots of eight of
        // them: there are 16.
        for _ in 0..12 {
            window.push(slot(UNKNOWN));
        }
        for _ in 0..12 {
            window.unpush();
        }
        assert_eq!(window.waiting(2), 0);
    }
}
