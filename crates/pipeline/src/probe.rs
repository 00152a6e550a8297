//! The port for probes, which observe a core's instructions. A core without a probe has no cost.

use crate::core::Core;
use crate::kind::CoreKind;
use crate::queues::low_bytes;
use crate::ring::Ring;
use crate::serializing::Serializing;
use crate::window::{SlotKind, UNKNOWN};
use fabric::Source;
use riscv::{Class, Instruction, Names, Privilege, SINK, csr_update, decode};

/// The source of a load's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The private data cache.
    DataCache,
    /// An older store of the same core that had not been performed.
    Store,
    /// A line that this load requested, with its source.
    Line(Source),
    /// A line that an older load of the hart was already waiting for, with its source.
    Awaited(Source),
}

/// An instruction that a core has executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// Its address.
    pub pc: u64,
    /// The instruction.
    pub instruction: Instruction,
    /// The extension's names in assembly language.
    pub names: &'static Names,
    /// The cycle in which it was dispatched; its fetch began earlier by the length of the front
    /// end.
    pub dispatched: u64,
    /// The cycle in which it was issued, unless it was squashed before.
    pub issued: Option<u64>,
    /// The cycle in which its result was available, unless it was squashed before.
    pub completed: Option<u64>,
    /// The cycle in which it was committed or squashed.
    pub ended: u64,
    /// The number of these cycles in which the hart had halted voluntarily.
    pub halted_cycles: u64,
    /// It was squashed, on a wrong path or to be repeated, and has had no effect.
    pub undone: bool,
    /// The value of its destination register, if it has one and was not squashed before.
    pub value: Option<u64>,
    /// The first byte that a load, store or atomic accesses, before translation, unless it was
    /// squashed before.
    pub address: Option<u64>,
    /// The value that a store or an atomic wrote, with unwritten bytes zero, unless it was squashed
    /// before.
    pub stored: Option<u64>,
    /// The number and the new value of the CSR that a CSR instruction wrote, if it wrote one of the
    /// hart's own.
    pub csr: Option<(u16, u64)>,
    /// The mode in which it was executed.
    pub privilege: Privilege,
    /// The source of a load's value.
    pub found: Option<Found>,
}

impl Executed {
    /// An instruction that committed in cycle 0, in machine mode, without a value or an access to
    /// memory: tests of probes change what they are about.
    pub fn committed(pc: u64, instruction: Instruction) -> Executed {
        Executed {
            pc,
            instruction,
            names: &Names::STANDARD,
            dispatched: 0,
            issued: Some(0),
            completed: Some(0),
            ended: 0,
            halted_cycles: 0,
            undone: false,
            value: None,
            address: None,
            stored: None,
            csr: None,
            privilege: Privilege::Machine,
            found: None,
        }
    }

    /// The instruction in assembly language.
    pub fn text(&self) -> String {
        riscv::disassemble_with(&self.instruction, self.pc, self.names)
    }
}

/// Observes each instruction of a core once its fate is known: committed ones in program order,
/// squashed ones before any instruction that is dispatched later. A probe is an instrument and must
/// not influence the simulation.
pub trait Probe {
    /// `executed` has committed or was squashed.
    fn executed(&mut self, executed: &Executed);
}

impl<P: Probe> Probe for std::rc::Rc<std::cell::RefCell<P>> {
    fn executed(&mut self, executed: &Executed) {
        self.borrow_mut().executed(executed);
    }
}

/// Data for the probe that the window does not keep.
#[derive(Clone, Copy, Debug)]
struct Note {
    instruction: Instruction,
    dispatched: u64,
    base: u64,
    /// The second operand of instructions whose result was known at dispatch.
    data: u64,
    /// The result of instructions whose result was known at dispatch.
    value: Option<u64>,
    /// The value that an atomic has written.
    stored: Option<u64>,
    privilege: Privilege,
    found: Found,
}

pub(crate) struct Probed {
    probe: Box<dyn Probe>,
    notes: Ring<Note>,
    /// The first position that has not been reported.
    next: u64,
    /// Of a serializing instruction: its mode, and the address that it accesses.
    alone_in: Privilege,
    alone_at: Option<u64>,
}

impl<K: CoreKind> Core<K> {
    /// Attaches a probe to the hart of a hardware thread, from its next instruction on. Meanwhile
    /// spinning is not skipped.
    pub fn set_probe(&mut self, thread: u8, probe: Box<dyn Probe>) {
        self.with_hart(thread, |core| core.probe_with(probe));
    }

    fn probe_with(&mut self, probe: Box<dyn Probe>) {
        let note = Note {
            instruction: Instruction::illegal(0, 4),
            dispatched: 0,
            base: 0,
            data: 0,
            value: None,
            stored: None,
            privilege: Privilege::Machine,
            found: Found::DataCache,
        };
        self.shared.spin.allow(false);
        self.hart.observe_window();
        self.hart.probed = Some(Box::new(Probed {
            probe,
            notes: Ring::new(usize::from(self.shared.spec.rob_entries) + 1, note),
            next: self.hart.window.tail,
            alone_in: self.hart.privileged.privilege,
            alone_at: None,
        }));
    }

    /// Reports all instructions that have committed before `cycle`, and detaches the probes.
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
    /// squashed.
    #[inline(never)]
    pub(crate) fn note_instruction(&mut self, instruction: &Instruction, value: Option<u64>) {
        if self.hart.float_in_window {
            self.retire_flags();
        }
        if let Some(mut probed) = self.hart.probed.take() {
            // Instructions in the window before the probe was attached may have been squashed.
            probed.next = probed.next.min(self.hart.window.tail);
            if probed.next <= self.hart.window.settled() {
                self.report_next(&mut probed);
            }
            probed.notes[self.hart.window.tail] = Note {
                instruction: *instruction,
                dispatched: self.hart.dispatch_cycle,
                base: self.hart.registers[usize::from(instruction.rs1)],
                data: self.hart.registers[usize::from(instruction.rs2)],
                value,
                stored: None,
                privilege: self.hart.privileged.privilege,
                found: Found::DataCache,
            };
            self.hart.probed = Some(probed);
        }
    }

    /// The load at `position` has taken its value from elsewhere than the data cache.
    #[inline]
    pub(crate) fn note_found(&mut self, position: u64, found: Found) {
        if let Some(probed) = &mut self.hart.probed {
            probed.notes[position].found = found;
        }
    }

    /// The atomic at `position` writes `value`.
    pub(crate) fn note_stored(&mut self, position: u64, value: u64) {
        if let Some(probed) = &mut self.hart.probed {
            probed.notes[position].stored = Some(value);
        }
    }

    /// A serializing instruction begins.
    pub(crate) fn note_alone(&mut self) {
        let hart = &mut *self.hart;
        if let Some(probed) = &mut hart.probed {
            probed.alone_in = hart.privileged.privilege;
            probed.alone_at = None;
        }
    }

    /// The serializing instruction accesses `address`.
    pub(crate) fn note_access(&mut self, address: u64) {
        if let Some(probed) = &mut self.hart.probed {
            probed.alone_at = Some(address);
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
        // The result of a store is its data.
        let data = match was_deferred {
            true => deferred.value(),
            false => note.data,
        };
        let stored = match slot.tags.kind {
            SlotKind::Store if !undone => Some(stored_bytes(&note.instruction, data)),
            SlotKind::Atomic if !undone => note.stored,
            _ => None,
        };
        Executed {
            pc: slot.tags.pc,
            instruction: note.instruction,
            names: self.hart.extension.names(),
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
            stored,
            csr: None,
            privilege: note.privilege,
            found: completed
                .filter(|_| slot.tags.kind == SlotKind::Load)
                .map(|_| note.found),
        }
    }

    /// The youngest instruction is squashed at `now`.
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

    /// A serializing instruction is done at `ended`; the window is empty.
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
            let address = probed.alone_at;
            let data = self.hart.registers[usize::from(instruction.rs2)];
            let stored = address
                .filter(|_| instruction.class == Class::Store)
                .map(|_| stored_bytes(&instruction, data));
            let csr = self.written_csr(&instruction, ended);
            probed.probe.executed(&Executed {
                pc: serial.pc,
                instruction,
                names: self.hart.extension.names(),
                dispatched: serial.since,
                issued: Some(serial.since),
                completed: Some(ended),
                ended,
                halted_cycles: serial.halted_since().map_or(0, |since| ended - since),
                undone: false,
                value: (instruction.rd != SINK)
                    .then(|| self.hart.registers[usize::from(instruction.rd)]),
                address,
                stored,
                csr,
                privilege: probed.alone_in,
                found: None,
            });
            self.hart.probed = Some(probed);
        }
    }

    /// The CSR that `i` has written, and its value.
    fn written_csr(&mut self, i: &Instruction, now: u64) -> Option<(u16, u64)> {
        if i.class != Class::Csr || csr_update(i, 0, 0).is_none() {
            return None;
        }
        let number = i.csr_number();
        let reading = decode(CSRRS | u32::from(number) << 20);
        let value = self.access_csr(&reading, 0, now).ok()?;
        Some((number, value))
    }
}

/// `csrrs zero, 0, zero`, which reads a CSR and writes none.
const CSRRS: u32 = 2 << 12 | 0x73;

/// The bytes that a store of `data` writes.
fn stored_bytes(i: &Instruction, data: u64) -> u64 {
    low_bytes(i.store_value(data), i.access_bytes())
}
