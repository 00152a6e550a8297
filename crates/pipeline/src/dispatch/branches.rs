//! Dispatch of branches and jumps: fetch follows the prediction.

use crate::blocks::NOWHERE;
use crate::core::Core;
use crate::kind::CoreKind;
use crate::ports::{Need, Unit};
use crate::predictor::{BranchStep, is_link};
use crate::stack::{CycleStack, Stall};
use crate::window::{Prediction, SlotKind, UNKNOWN};
use riscv::{Instruction, branch_taken};

impl<K: CoreKind> Core<K> {
    /// Continues at `target` after the instruction at the cursor.
    #[inline]
    pub(super) fn jump(&mut self, target: u64) {
        self.hart.pc = target;
        self.hart.cursor = NOWHERE;
        // Fetch ends with a taken branch.
        self.hart.dispatch_left = 0;
    }

    #[inline(never)]
    pub(super) fn dispatch_jump(&mut self, i: Instruction, need: Need) {
        let issue = self.issue(Unit::Integer, need, 0);
        let done = issue + u64::from(need.latency);
        let pc = self.hart.pc;
        let next = i.next(pc);
        self.push(&i, SlotKind::Plain, Unit::Integer, issue, next, done, 0);
        let target = i.jump_target(pc, 0);
        if is_link(i.rd) {
            self.hart.branches.push_return(next);
        }
        self.step(&i);
        self.jump(target);
        if target <= pc && !is_link(i.rd) {
            self.closes_loop(target);
        }
    }

    /// The cycle stack up to and including this cycle, in which an instruction is dispatched.
    fn cycles_so_far(&mut self) -> (CycleStack, u64) {
        if self.hart.stall != Stall::None {
            self.blame(self.hart.dispatch_cycle, Stall::None);
        }
        let cycles = (self.hart.dispatch_cycle + 1).saturating_sub(self.hart.charged);
        self.hart.statistics.stack.base += cycles;
        self.hart.charged += cycles;
        (self.hart.statistics.stack, self.hart.charged)
    }

    #[inline(never)]
    pub(crate) fn dispatch_branch(
        &mut self,
        i: Instruction,
        need: Need,
        [a, b]: [u64; 2],
        ready: u64,
    ) {
        self.hart.statistics.branches += 1;
        let pc = self.hart.pc;
        let target = i.jump_target(pc, 0);
        let next = pc.wrapping_add(u64::from(i.length));
        let lookup = self.shared.predictor.lookup(&self.hart.branches, pc);
        self.note_branch(BranchStep::Predict(lookup));
        if ready < UNKNOWN {
            let taken = branch_taken(i.operation, a, b);
            let issue = self.issue(Unit::Integer, need, ready);
            let done = issue + u64::from(need.latency);
            self.push(&i, SlotKind::Plain, Unit::Integer, issue, 0, done, 0);
            self.hart.branches.push_history(taken);
            self.shared.predictor.train(&lookup, taken);
            self.note_branch(BranchStep::Train(lookup, taken));
            self.step(&i);
            if taken {
                self.jump(target);
            }
            if taken != lookup.taken && target != next {
                self.hart.statistics.mispredictions += 1;
                self.blame(self.hart.dispatch_cycle + 1, Stall::Branch);
                self.redirect(self.hart.pc, done + self.front_end());
            } else if taken && target <= pc {
                self.closes_loop(target);
            }
        } else {
            let index = self.defer::<2>(&i, SlotKind::Plain, Unit::Integer, UNKNOWN);
            self.hart.window.predictions[index] = Prediction {
                next: if lookup.taken { target } else { next },
                lookup,
                returns: self.hart.branches.returns,
                cycles: self.cycles_so_far(),
            };
            self.hart.branches.push_history(lookup.taken);
            self.step(&i);
            if lookup.taken {
                self.jump(target);
                if target <= pc {
                    self.begins_iteration_at(target);
                }
            }
        }
    }

    pub(super) fn dispatch_indirect(&mut self, i: Instruction, need: Need, a: u64, ready: u64) {
        self.hart.statistics.branches += 1;
        let pc = self.hart.pc;
        let next = pc.wrapping_add(u64::from(i.length));
        let lookup = self.shared.predictor.lookup(&self.hart.branches, pc);
        let predicted = self
            .shared
            .predictor
            .indirect(&mut self.hart.branches, &i, pc);
        if ready < UNKNOWN {
            let target = i.jump_target(pc, a);
            let issue = self.issue(Unit::Integer, need, ready);
            let done = issue + u64::from(need.latency);
            self.push(&i, SlotKind::Plain, Unit::Integer, issue, next, done, 0);
            self.step(&i);
            self.jump(target);
            if predicted != Some(target) {
                self.shared.predictor.set_target(pc, target);
                self.hart.statistics.mispredictions += 1;
                self.blame(self.hart.dispatch_cycle + 1, Stall::Branch);
                self.redirect(target, done + self.front_end());
            }
        } else {
            let predicted = predicted.unwrap_or(next) & !1;
            let index = self.defer::<1>(&i, SlotKind::Plain, Unit::Integer, UNKNOWN);
            self.hart.window.predictions[index] = Prediction {
                next: predicted,
                lookup,
                returns: self.hart.branches.returns,
                cycles: self.cycles_so_far(),
            };
            self.step(&i);
            self.jump(predicted);
        }
    }
}
