//! The port for probes, which observe a core's instructions. A core without one pays nothing.

use crate::core::Core;
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::ring::Ring;
use crate::serializing::Serializing;
use crate::window::{SlotKind, UNKNOWN};
use fabric::Source;
use riscv::{Instruction, Names, SINK};

/// Where a load found its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the private data cache.
    DataCache,
    /// In an older store of the same core that had not been performed.
    Store,
    /// In a line that was not in the data cache, and came from there for this load.
    Line(Source),
    /// In a line that came from there, and that an older load of the hart was already waiting for.
    Awaited(Source),
}

/// An instruction that a core has executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// Its address.
    pub pc: u64,
    /// What it is.
    pub instruction: Instruction,
    /// How the core's extension names things.
    pub names: &'static Names,
    /// The cycle in which it was dispatched; its fetch began the front end's length before.
    pub dispatched: u64,
    /// The cycle in which it was issued, if it came to that before it was undone.
    pub issued: Option<u64>,
    /// The cycle in which its result was available, if it came to that before it was undone.
    pub completed: Option<u64>,
    /// The cycle in which it was committed, or undone.
    pub ended: u64,
    /// The number of these cycles in which the hart had halted voluntarily.
    pub halted_cycles: u64,
    /// It was on a wrong path, or had to be repeated, and has had no effect.
    pub undone: bool,
    /// The value that its destination register got, if it has one and it came to that.
    pub value: Option<u64>,
    /// The first byte that a load, store or atomic accesses, if it came to that.
    pub address: Option<u64>,
    /// Where a load found its value.
    pub found: Option<Found>,
}

impl Executed {
    /// The instruction in assembly language.
    pub fn text(&self) -> String {
        riscv::disassemble_with(&self.instruction, self.pc, self.names)
    }
}

/// Sees each instruction of a core once its fate is known: committed ones in program order,
/// squashed ones before any instruction that is dispatched later. A probe is an instrument and must
/// not influence the simulation.
pub trait Probe {
    /// `executed` is over.
    fn executed(&mut self, executed: &Executed);
}

impl<P: Probe> Probe for std::rc::Rc<std::cell::RefCell<P>> {
    fn executed(&mut self, executed: &Executed) {
        self.borrow_mut().executed(executed);
    }
}

/// What a probe is told and the window does not keep.
#[derive(Clone, Copy, Debug)]
struct Note {
    instruction: Instruction,
    dispatched: u64,
    base: u64,
    /// Of instructions whose result was known at dispatch.
    value: Option<u64>,
    found: Found,
}

pub(crate) struct Probed {
    probe: Box<dyn Probe>,
    notes: Ring<Note>,
    /// The first position that the probe has not been told of.
    next: u64,
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Lets `probe` see everything that the hart of a hardware thread does from its next
    /// instruction on. Spinning is not skipped while it does.
    pub fn set_probe(&mut self, thread: u8, probe: Box<dyn Probe>) {
        self.with_hart(thread, |core| core.probe_with(probe));
    }

    fn probe_with(&mut self, probe: Box<dyn Probe>) {
        let note = Note {
            instruction: Instruction::illegal(0, 4),
            dispatched: 0,
            base: 0,
            value: None,
            found: Found::DataCache,
        };
        self.shared.spin.allow(false);
        self.hart.observe_window();
        self.hart.probed = Some(Box::new(Probed {
            probe,
            notes: Ring::new(usize::from(self.shared.spec.rob_entries) + 1, note),
            next: self.hart.window.tail,
        }));
    }

    /// Tells the probes of all that have committed before `cycle`, and lets them go.
    pub fn remove_probes(&mut self, cycle: u64) {
        self.for_each_hart(|core| core.remove_probe(cycle));
    }

    fn remove_probe(&mut self, cycle: u64) {
        if let Some(mut probed) = self.hart.probed.take() {
            while probed.next < self.hart.window.tail
                && self.hart.window.commit(probed.next) < cycle
            {
                self.report_next(&mut probed);
            }
        }
        self.look_for_observers();
    }

    /// An instruction enters the window at its tail. The one that leaves it can no longer be
    /// undone.
    #[inline(never)]
    pub(crate) fn note_instruction(&mut self, instruction: &Instruction, value: Option<u64>) {
        if self.hart.float_in_window {
            self.retire_flags();
        }
        if let Some(mut probed) = self.hart.probed.take() {
            // Those that were in the window before the probe may have been undone.
            probed.next = probed.next.min(self.hart.window.tail);
            if probed.next <= self.hart.window.settled() {
                self.report_next(&mut probed);
            }
            probed.notes[self.hart.window.tail] = Note {
                instruction: *instruction,
                dispatched: self.hart.dispatch_cycle,
                base: self.hart.registers[usize::from(instruction.rs1)],
                value,
                found: Found::DataCache,
            };
            self.hart.probed = Some(probed);
        }
    }

    /// The load at `position` has found its value elsewhere than in the data cache.
    #[inline]
    pub(crate) fn note_found(&mut self, position: u64, found: Found) {
        if let Some(probed) = &mut self.hart.probed {
            probed.notes[position].found = found;
        }
    }

    /// The next instruction in order has committed.
    fn report_next(&self, probed: &mut Probed) {
        let executed = self.describe(
            probed,
            probed.next,
            self.hart.window.commit(probed.next),
            false,
        );
        probed.probe.executed(&executed);
        probed.next += 1;
    }

    fn describe(&self, probed: &Probed, position: u64, ended: u64, undone: bool) -> Executed {
        let note = probed.notes[position];
        let slot = self.hart.window.slot(position);
        let deferred = self.hart.window.deferred(self.hart.window.index(position));
        let was_deferred = note.value.is_none();
        let known = |cycle: u64| (cycle < UNKNOWN && (!undone || cycle <= ended)).then_some(cycle);
        let completed = known(slot.complete);
        let base = if was_deferred {
            deferred.operands[0]
        } else {
            note.base
        };
        let value = note.value.unwrap_or(deferred.value());
        let issued = known(slot.issue);
        let address = issued
            .filter(|_| slot.tags.kind != SlotKind::Plain)
            .map(|_| note.instruction.address(base));
        Executed {
            pc: slot.tags.pc,
            instruction: note.instruction,
            names: X::NAMES,
            dispatched: note.dispatched,
            issued,
            completed,
            ended,
            halted_cycles: 0,
            undone,
            value: completed
                .filter(|_| note.instruction.rd != SINK)
                .map(|_| value),
            address,
            found: completed
                .filter(|_| slot.tags.kind == SlotKind::Load)
                .map(|_| note.found),
        }
    }

    /// The youngest instruction is being undone at `now`.
    pub(crate) fn report_undone(&mut self, now: u64) {
        if let Some(mut probed) = self.hart.probed.take() {
            let youngest = self.hart.window.tail - 1;
            if youngest >= probed.next {
                let executed = self.describe(&probed, youngest, now, true);
                probed.probe.executed(&executed);
            }
            self.hart.probed = Some(probed);
        }
    }

    /// An instruction that was executed alone is over at `ended`; the window is empty.
    pub(crate) fn report_alone(
        &mut self,
        instruction: Instruction,
        serial: &Serializing,
        ended: u64,
    ) {
        if let Some(mut probed) = self.hart.probed.take() {
            while probed.next < self.hart.window.tail {
                self.report_next(&mut probed);
            }
            probed.probe.executed(&Executed {
                pc: serial.pc,
                instruction,
                names: X::NAMES,
                dispatched: serial.since,
                issued: Some(serial.since),
                completed: Some(ended),
                ended,
                halted_cycles: serial.halted_since().map_or(0, |since| ended - since),
                undone: false,
                value: (instruction.rd != SINK)
                    .then(|| self.hart.registers[usize::from(instruction.rd)]),
                address: None,
                found: None,
            });
            self.hart.probed = Some(probed);
        }
    }
}
