//! Execution of an extension's instructions, CSR accesses and interrupt delivery.

use super::{Kind, Serializing, State};
use crate::core::Core;
use crate::departures::DepartureKind;
use crate::extension::{Action, CsrAccess, Delivery, Invocation};
use crate::kind::CoreKind;
use fabric::{LineAddress, Outbox, RequestKind, Slot, Update};
use riscv::{Cause, Instruction, Trap};

impl<K: CoreKind> Core<K> {
    /// Begins the delivery of the extension's interrupt, if one is pending.
    pub(super) fn begin_delivery(&mut self) -> bool {
        let wanted = self.hart.extension.wants_delivery();
        let at_safepoint = wanted == Some(Delivery::AtSafepoint);
        if at_safepoint != self.hart.awaits_safepoint {
            self.hart.awaits_safepoint = at_safepoint;
            self.look_for_observers();
        }
        match wanted {
            None | Some(Delivery::AtSafepoint) => return false,
            Some(Delivery::Tracked) => self.track_delivery(),
            Some(Delivery::Flushing) => {
                self.begin_serial(Serializing::new(Kind::Delivery { tracked: false }, 0));
                // The front end is flushed and restarts.
                if let Some(serial) = &mut self.hart.serial {
                    serial.since += u64::from(self.shared.spec.front_end_cycles);
                    self.hart.serial_event = serial.since;
                }
            }
        }
        true
    }

    /// Makes a tracked delivery follow the instructions that have been dispatched.
    fn track_delivery(&mut self) {
        self.begin_serial(Serializing::new(Kind::Delivery { tracked: true }, 0));
    }

    /// Begins a delivery that waits for a safepoint, if the instruction at the cursor is one.
    #[inline(never)]
    pub(crate) fn begin_at_safepoint(&mut self) -> bool {
        let next = self.shared.blocks.instruction(self.hart.cursor);
        let is_safepoint = self.hart.extension.is_safepoint(&next.instruction);
        if is_safepoint {
            self.track_delivery();
        }
        is_safepoint
    }

    /// Executes a CSR instruction if the CSR belongs to the extension.
    pub(super) fn access_extension_csr(
        &mut self,
        serial: &Serializing,
        i: &Instruction,
        rs1: u64,
        now: u64,
    ) -> bool {
        let Some(access) = self.hart.extension.access_csr(now, i, rs1) else {
            return false;
        };
        match access {
            CsrAccess::Trap(trap) => self.trap(*serial, trap, now),
            CsrAccess::Done {
                old,
                quiet,
                refetch,
            } => {
                self.finish_csr(*serial, old, refetch, now);
                if quiet {
                    self.shared.spin.excuse();
                } else {
                    self.set_interrupt_line();
                    if K::HAS_PORT {
                        self.check_registers();
                    }
                }
            }
        }
        true
    }

    pub(super) fn invocation(
        &self,
        serial: &Serializing,
        i: Instruction,
        cycle: u64,
    ) -> Invocation {
        Invocation {
            instruction: i,
            rs1: self.hart.registers[usize::from(i.rs1)],
            rs2: self.hart.registers[usize::from(i.rs2)],
            privilege: self.hart.privileged.privilege,
            step: serial.step,
            cycle,
        }
    }

    pub(super) fn resume_extension(
        &mut self,
        serial: Serializing,
        value: u64,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let serial = Serializing {
            step: serial.step + 1,
            ..serial
        };
        if let Kind::Instruction(i) = serial.kind {
            let invocation = self.invocation(&serial, i, now);
            let action = self.hart.extension.resume(&invocation, value);
            self.act(serial, action, now, outbox);
        } else {
            self.continue_delivery(serial, value, now, outbox);
        }
    }

    /// Reports the last access of an aborted delivery to the extension: its value has been read,
    /// and perhaps changed. Afterwards no serializing instruction is in progress.
    pub(crate) fn abandon_delivery(&mut self, now: u64) {
        let Some(serial) = self.hart.serial.take() else {
            return;
        };
        if let (Kind::Delivery { .. }, State::Paused { value, .. }) = (serial.kind, serial.state) {
            let pc = serial.pc;
            let before = self.hart.extension.before();
            match self.hart.extension.deliver(now, pc, serial.step + 1, value) {
                Action::Done(next) | Action::Jump(next) if next != pc => {
                    self.hart.extension.undo_delivery(before);
                }
                _ => {}
            }
        }
    }

    /// Performs the next step of a delivery.
    pub(super) fn continue_delivery(
        &mut self,
        serial: Serializing,
        value: u64,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let Kind::Delivery { tracked } = serial.kind else {
            return;
        };
        let pc = serial.pc;
        let before = self.hart.extension.before();
        let next = match self.hart.extension.deliver(now, pc, serial.step, value) {
            Action::Done(next) | Action::Jump(next) => next,
            Action::Illegal => pc,
            action => return self.act(serial, action, now, outbox),
        };
        self.leave_serial(&serial, now);
        // The handler is fetched while the delivery of a tracked interrupt is in the front end.
        let from = if tracked { serial.since } else { now };
        self.redirect(next, (from + self.front_end()).max(now + 1));
        if tracked && next != pc {
            self.note_departure(DepartureKind::Delivery, before);
        }
    }

    pub(super) fn act(
        &mut self,
        serial: Serializing,
        action: Action,
        now: u64,
        outbox: &mut Outbox,
    ) {
        match action {
            Action::Done(value) => {
                self.set_interrupt_line();
                self.finish(serial, value, now + 1);
            }
            Action::Jump(target) => {
                self.set_interrupt_line();
                self.finish(serial, 0, now + 1);
                self.redirect(target, now + self.front_end());
            }
            Action::Load { address } => self.access_memory(serial, address, None, now, outbox),
            Action::Update { address, update } => {
                self.access_memory(serial, address, Some(update), now, outbox);
            }
            Action::Ask {
                agent,
                transit,
                code,
                arguments,
                waits_for,
            } => {
                let serial = Serializing {
                    halted_since: Some(now),
                    waits_for,
                    ..serial
                };
                let kind = RequestKind::Custom { code, arguments };
                let token = self.send_request(Some(agent), transit, kind, now, outbox);
                self.wait_for_reply(serial, token);
            }
            Action::Illegal => self.illegal(serial, now),
        }
    }

    /// Reads 8 bytes for the extension, and updates them if `update` says so.
    fn access_memory(
        &mut self,
        serial: Serializing,
        address: u64,
        update: Option<Update>,
        now: u64,
        outbox: &mut Outbox,
    ) {
        if !address.is_multiple_of(8) || !self.is_plain(address, 8) {
            let cause = match update {
                None => Cause::LoadAccess,
                Some(_) => Cause::StoreAccess,
            };
            let value = address;
            let trap = Trap { cause, value };
            if let Kind::Instruction(_) = serial.kind {
                return self.trap(serial, trap, now);
            }
            // Instructions older than a tracked delivery come first.
            self.hart.serial_event = now + 1;
            return self.wait(Serializing {
                kind: Kind::Exception(trap),
                state: State::Drain,
                ..serial
            });
        }
        let serial = Serializing {
            gathered: address,
            update,
            ..serial
        };
        let line = LineAddress::of(address);
        self.try_line(serial, line, update.is_some(), now, outbox);
    }

    /// The line of the extension's access is available.
    pub(super) fn accessed(&mut self, serial: Serializing, slot: Slot, now: u64) {
        let address = serial.gathered;
        let offset = (address % 64) as usize;
        let value = self.shared.data_cache.line(slot).read(offset, 8);
        if let Some(update) = serial.update {
            let line = self.shared.data_cache.line_mut(slot);
            line.write(offset, 8, update.of(value));
            self.tell_other_harts(now, address, 8);
        }
        let until = now + self.shared.spec.l1_data.hit_latency_cycles;
        self.hart.serial_event = until;
        self.wait(Serializing {
            state: State::Paused { until, value },
            ..serial
        });
    }
}
