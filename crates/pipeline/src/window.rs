//! The instructions in flight: reorder buffer, what waits for a value that is still unknown, and
//! the way back.

use crate::ports::Unit;
use crate::predictor::{Lookup, ReturnStack};
use crate::stack::CycleStack;
use riscv::{Instruction, SINK};

/// Cycles at or above this are no cycles: `UNKNOWN + index` says that the value is not known yet
/// and comes from the window's slot `index`.
pub const UNKNOWN: u64 = 1 << 62;

/// What commitment means for an instruction, beside its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Plain,
    Load,
    Store,
    Atomic,
}

/// An instruction in flight: what every instruction needs.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Cycle in which it issues; [`UNKNOWN`] until that can be told.
    pub issue: u64,
    /// Cycle at which it is done; [`UNKNOWN`] until that can be told.
    pub complete: u64,
    /// Cycle in which it commits; meaningful below `commit_known`.
    pub commit: u64,
    /// What its destination register held before, to go back.
    pub previous_value: u64,
    /// When that was, or is to be, ready.
    pub previous_ready: u64,
    pub pc: u64,
    pub rd: u8,
    pub flags: u8,
    pub kind: SlotKind,
    pub unit: Unit,
}

/// Someone who waits for a slot's value.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    pub index: u32,
    pub id: u64,
    pub operand: u8,
}

/// What an instruction needs besides, when it was dispatched before its operands or its result
/// were known.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// Tells this use of the slot from all others; 0: squashed or not in use.
    pub id: u64,
    pub position: u64,
    pub instruction: Instruction,
    pub operands: [u64; 3],
    /// When the latest of the known operands is ready.
    pub earliest: u64,
    /// Operands that are still unknown.
    pub pending: u8,
    pub resolved: bool,
    pub value: u64,
    pub ready: u64,
    pub waiters: Vec<Waiter>,
    /// Loads: number in the load queue. Stores and atomics: number in the store queue.
    pub queue_number: u64,
    /// Loads: how many stores there had been before it.
    pub stores_before: u64,
}

/// What a deferred branch or indirect jump needs, should its prediction be wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prediction {
    /// Where fetch went on.
    pub next: u64,
    pub lookup: Lookup,
    pub returns: ReturnStack,
    /// Where the cycles had gone, and up to which one, when it was dispatched.
    pub cycles: (CycleStack, u64),
}

/// The reorder buffer. Positions count up for ever, a position's slot is found by its low bits.
/// The ring is twice the reorder buffer, so that an instruction that went out of it can still be
/// asked for its value by those that were dispatched while it was in it.
pub struct Window {
    slots: Box<[Slot]>,
    deferred: Box<[Deferred]>,
    /// By the slots' indices.
    pub predictions: Box<[Prediction]>,
    /// Position of the next instruction.
    pub tail: u64,
    /// The first position whose commit cycle is not known.
    pub commit_known: u64,
    pub last_commit: u64,
    pub commits_in_last: u8,
    next_id: u64,
}

impl Window {
    pub fn new(rob_entries: u16) -> Window {
        let ring = (usize::from(rob_entries) * 2).next_power_of_two();
        let slot = Slot {
            issue: 0,
            complete: 0,
            commit: 0,
            previous_value: 0,
            previous_ready: 0,
            pc: 0,
            rd: SINK,
            flags: 0,
            kind: SlotKind::Plain,
            unit: Unit::Integer,
        };
        let deferred = Deferred {
            id: 0,
            position: 0,
            instruction: Instruction::illegal(0, 4),
            operands: [0; 3],
            earliest: 0,
            pending: 0,
            resolved: true,
            value: 0,
            ready: 0,
            waiters: Vec::new(),
            queue_number: 0,
            stores_before: 0,
        };
        Window {
            slots: vec![slot; ring].into_boxed_slice(),
            deferred: vec![deferred; ring].into_boxed_slice(),
            predictions: vec![Prediction::default(); ring].into_boxed_slice(),
            tail: 0,
            commit_known: 0,
            last_commit: 0,
            commits_in_last: 0,
            next_id: 1,
        }
    }

    #[inline]
    pub fn index(&self, position: u64) -> usize {
        position as usize & (self.slots.len() - 1)
    }

    #[inline]
    pub fn slot(&self, position: u64) -> &Slot {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    #[inline]
    pub fn slot_mut(&mut self, position: u64) -> &mut Slot {
        let mask = self.slots.len() - 1;
        &mut self.slots[position as usize & mask]
    }

    #[inline]
    pub fn push(&mut self, slot: Slot) {
        *self.slot_mut(self.tail) = slot;
        self.tail += 1;
    }

    #[inline]
    pub fn deferred(&self, index: usize) -> &Deferred {
        &self.deferred[index & (self.deferred.len() - 1)]
    }

    #[inline]
    pub fn deferred_mut(&mut self, index: usize) -> &mut Deferred {
        let mask = self.deferred.len() - 1;
        &mut self.deferred[index & mask]
    }

    /// Whether `index` still holds the instruction that had `id`.
    #[inline]
    pub fn is_live(&self, index: usize, id: u64) -> bool {
        self.deferred(index).id == id
    }

    /// A number for one use of a slot.
    #[inline]
    pub fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Whether every instruction in flight has a known end.
    #[inline]
    pub fn all_known(&self) -> bool {
        self.commit_known == self.tail
    }

    /// Gives the next instruction in order its commit cycle. The caller has checked that it is
    /// complete.
    #[inline]
    pub fn commit_next(&mut self, width: u8) -> u64 {
        let earliest = self.slot(self.commit_known).complete + 1;
        if earliest > self.last_commit {
            self.last_commit = earliest;
            self.commits_in_last = 1;
        } else if self.commits_in_last < width {
            self.commits_in_last += 1;
        } else {
            self.last_commit += 1;
            self.commits_in_last = 1;
        }
        self.slot_mut(self.commit_known).commit = self.last_commit;
        self.commit_known += 1;
        self.last_commit
    }

    /// Makes `position` the next to be dispatched; the caller has undone everything from there
    /// on.
    pub fn truncate(&mut self, position: u64) {
        self.tail = position;
        if self.commit_known <= position {
            return;
        }
        self.commit_known = position;
        self.last_commit = if position == 0 {
            0
        } else {
            self.slot(position - 1).commit
        };
        let mut before = position;
        self.commits_in_last = 0;
        while before > 0
            && position - before < 16
            && self.slot(before - 1).commit == self.last_commit
        {
            self.commits_in_last += 1;
            before -= 1;
        }
    }
}
