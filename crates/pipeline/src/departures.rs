//! Where a hart has left its program for a handler of its extension, or returned, as long as that
//! can be undone: an older branch may have been mispredicted.

use crate::core::Core;
use crate::extension::Before;
use crate::kind::CoreKind;
use crate::ports::{Need, Unit};
use crate::window::SlotKind;
use riscv::Instruction;

/// A tracked delivery, or a return from a handler.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct Departure {
    /// The position of the first instruction after it.
    next: u64,
    kind: DepartureKind,
    before: Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum DepartureKind {
    Delivery,
    Return,
}

impl<K: CoreKind> Core<K> {
    /// Records that the hart has entered a handler, or returned from one, before the next
    /// dispatched instruction.
    pub(crate) fn note_departure(&mut self, kind: DepartureKind, before: Before) {
        let hart = &mut *self.hart;
        let settled = hart.window.settled();
        while hart
            .departures
            .front()
            .is_some_and(|one| one.next <= settled)
        {
            hart.departures.pop_front();
        }
        let next = hart.window.tail;
        hart.departures.push_back(Departure { next, kind, before });
    }

    /// Instructions from `position` on, or after the branch there, are squashed: undoes the
    /// deliveries and returns among them, and a delivery in progress.
    pub(crate) fn undo_departures(&mut self, position: u64, now: u64) {
        // It is the youngest of all.
        self.abandon_delivery(now);
        let hart = &mut *self.hart;
        while let Some(last) = hart.departures.pop_back_if(|one| one.next > position) {
            match last.kind {
                DepartureKind::Delivery => hart.extension.undo_delivery(last.before),
                DepartureKind::Return => hart.extension.undo_return(last.before),
            }
        }
    }

    /// The position after the last return from a handler.
    pub(crate) fn last_return(&self) -> u64 {
        let returned = |one: &&Departure| one.kind == DepartureKind::Return;
        let last = self.hart.departures.iter().rev().find(returned);
        last.map_or(0, |one| one.next)
    }

    /// Dispatches an instruction that returns from a handler: an indirect jump whose target the
    /// front end does not predict.
    pub(crate) fn dispatch_return(&mut self, i: &Instruction, need: Need) {
        let before = self.hart.extension.before();
        let issue = self.issue(Unit::Integer, need, 0);
        let done = issue + u64::from(need.latency);
        self.push(i, SlotKind::Plain, Unit::Integer, issue, 0, done, 0);
        self.step(i);
        let target = self.hart.extension.end_handler();
        self.note_departure(DepartureKind::Return, before);
        self.set_interrupt_line();
        self.shared.spin.disturb();
        self.redirect(target, done + self.front_end());
    }
}
