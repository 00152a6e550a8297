//! Squashes.

use super::{Core, NEVER};
use crate::kind::CoreKind;
use crate::queues::StoreKind;
use crate::window::{SlotKind, UNKNOWN};
use riscv::SINK;

impl<K: CoreKind> Core<K> {
    /// At `now`, squashes everything from `position` on; fetch continues at `pc`, with dispatch
    /// from `cycle`.
    pub(crate) fn squash(&mut self, position: u64, now: u64, pc: u64, cycle: u64) {
        debug_assert!(
            position == self.hart.window.tail || self.hart.window.commit(position) > now,
            "an instruction is undone that has committed"
        );
        if K::IS_ACTIVE {
            self.undo_departures(position, now);
        }
        let squashed = self.hart.window.tail - position;
        self.shared.spin.disturb();
        self.hart.statistics.squashed_instructions += squashed;
        self.hart.statistics.instructions -= squashed;
        for _ in 0..squashed {
            self.report_undone(now);
            let slot = self.hart.window.unpush();
            let at = self.hart.window.tail;
            let index = self.hart.window.index(at);
            let register = usize::from(slot.tags.rd);
            let hart = &mut *self.hart;
            hart.registers[register] = slot.previous_value;
            hart.ready[register] = slot.previous_ready;
            if slot.previous_ready >= UNKNOWN {
                let producer = (slot.previous_ready - UNKNOWN) as usize;
                let producer = hart.window.deferred(producer);
                if producer.resolved {
                    hart.registers[register] = producer.value();
                    hart.ready[register] = producer.ready();
                }
            }
            match slot.tags.kind {
                SlotKind::Plain => {}
                SlotKind::Load => self.hart.loads.unpush(),
                SlotKind::Store | SlotKind::Atomic => self.hart.stores.unpush(),
            }
            if slot.issue >= UNKNOWN {
                self.shared.in_scheduler -= 1;
                self.shared.unissued -= 1;
            } else if slot.issue > now {
                if !K::IN_ORDER {
                    self.shared.in_scheduler -= 1;
                }
                self.shared.calendar.cancel(
                    slot.tags.unit,
                    slot.issue,
                    &mut self.hart.statistics.operations,
                );
            }
            let deferred = self.hart.window.deferred_mut(index);
            if deferred.position == at {
                let waits = deferred.pending != 0;
                deferred.position = 0;
                deferred.resolved = true;
                if waits {
                    self.hart.window.stop_waiting(index);
                }
            }
        }
        // Nothing ever waits for a squashed instruction.
        let hart = &mut *self.hart;
        hart.ready[usize::from(SINK)] = 0;
        hart.window.uncommit();
        let window = &hart.window;
        hart.waiting_loads
            .retain(|load| window.is_live(load.index as usize));
        hart.refused
            .retain(|load| window.is_live(load.index as usize));
        if let Some(supplies) = &mut hart.supplies {
            supplies.undo(position);
        }
        for load in &mut hart.missing {
            load.live &= window.is_live(load.index as usize);
        }
        self.forget_waiters();
        if self.hart.acquire.is_some_and(|acquire| acquire >= position) {
            self.hart.acquire = self.youngest_acquire();
        }
        self.redirect(pc, cycle);
        if K::IS_ACTIVE && self.hart.extension.wants_delivery().is_some() {
            // The delivery comes before anything is dispatched.
            self.shared.stop = cycle;
        }
        self.hart.blocked = false;
        // The younger of two such instructions is squashed, since the port holds the last one.
        self.hart.at_port = None;
        // A serializing instruction after the squashed ones was on the wrong path.
        self.hart.serial = None;
        self.hart.serial_event = NEVER;
    }

    /// The position of the youngest unperformed atomic that delays younger loads.
    fn youngest_acquire(&self) -> Option<u64> {
        (self.hart.stores.head..self.hart.stores.tail)
            .rev()
            .map(|number| self.hart.stores.get(number))
            .find(|store| store.kind == StoreKind::Atomic && self.acquires(&store.instruction))
            .map(|store| store.position)
    }
}
