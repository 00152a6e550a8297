//! The active parts of an extension: see [`Extension`](crate::Extension).

use crate::core::{Core, NEVER};
use crate::extension::{Delivery, PortRegisters};
use crate::kind::CoreKind;
use crate::stack::Stall;
use crate::window::SlotKind;
use fabric::{Outbox, OutgoingKind, RequestKind, Transit};
use riscv::{Instruction, Trap};

/// An instruction that has read or written a port register, or will when its value is known.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct AtPort {
    pub pc: u64,
    pub takes: bool,
    pub gives: bool,
}

impl<K: CoreKind> Core<K> {
    /// Puts the next word into the input register if `i` reads it.
    pub(crate) fn show_input(&mut self, i: &Instruction) -> Result<(), Trap> {
        if self.hart.extension.has_registers() && self.hart.port_registers.takes(i) {
            let word = self.hart.extension.peek()?;
            let input = usize::from(self.hart.port_registers.input);
            self.hart.registers[input] = word.value;
            self.hart.ready[input] = word.readable;
        }
        Ok(())
    }

    /// Completes the port accesses of an instruction whose value is known.
    pub(crate) fn leave_port(&mut self, at_port: AtPort) -> Result<(), Trap> {
        self.hart.at_port = None;
        if at_port.gives {
            let hart = &mut *self.hart;
            let register = usize::from(hart.port_registers.output);
            hart.extension
                .push(hart.ready[register], hart.registers[register])?;
        }
        if at_port.takes {
            self.hart.extension.pop();
        }
        Ok(())
    }

    /// Sends the messages of the extension.
    pub(crate) fn send_from_extension(&mut self, outbox: &mut Outbox) {
        let departure = self.shared.spec.departure_cycles();
        while let Some(sent) = self.hart.extension.take_sent() {
            let at = self.shared.clock.time(sent.cycle + departure);
            let latency = sent
                .latency
                .saturating_sub(self.shared.clock.time(departure));
            let token = self.shared.next_token;
            self.shared.next_token += 1;
            outbox.push(
                at,
                OutgoingKind::Request {
                    agent: Some(sent.agent),
                    transit: Transit::Fixed(latency),
                    kind: RequestKind::Custom {
                        code: sent.code,
                        arguments: sent.arguments,
                    },
                    hart: self.hart.privileged.csrs.mhartid as u16,
                    token,
                },
            );
            self.expect_answer(at);
        }
    }

    /// Updates the level of the extension's interrupt.
    pub(crate) fn set_interrupt_line(&mut self) {
        if K::IS_ACTIVE {
            let (bit, level) = self.hart.extension.interrupt();
            self.hart.privileged.set_interrupt(bit, level);
        }
    }

    /// The extension has received a notice or a timer at `now`.
    pub(crate) fn extension_has_changed(&mut self, now: u64, outbox: &mut Outbox) {
        self.set_interrupt_line();
        self.send_from_extension(outbox);
        match self.hart.extension.wants_delivery() {
            Some(Delivery::Flushing)
                if self.hart.serial.is_none_or(|serial| !serial.has_begun()) =>
            {
                self.flush(now);
            }
            // An instruction that waits for older ones comes after the handler.
            Some(Delivery::Tracked) if self.hart.serial.is_some_and(|serial| serial.can_wait()) => {
                self.hart.serial = None;
                self.hart.serial_event = NEVER;
            }
            _ => {}
        }
    }

    /// Squashes, at `now`, all that has not committed, except an atomic that has performed. No
    /// interrupt is taken before the last return from a handler. A delivery follows.
    fn flush(&mut self, now: u64) {
        let returned = self.last_return();
        let window = &self.hart.window;
        let mut position = window.tail;
        for at in window.recent().rev() {
            let slot = window.slot(at);
            let performed = at < window.commit_known && slot.tags.kind == SlotKind::Atomic;
            if window.commit(at) <= now || performed || at < returned {
                break;
            }
            position = at;
        }
        let pc = if position < window.tail {
            window.slot(position).tags.pc
        } else {
            self.hart.pc
        };
        self.squash(position, now, pc, now);
        self.blame(now, Stall::Serializing);
    }

    /// The extension may have claimed its registers, or released them.
    pub(crate) fn check_registers(&mut self) {
        let registers = if self.hart.extension.has_registers() {
            self.hart.port_registers
        } else {
            PortRegisters::NONE
        };
        if registers != self.shared.blocks.port() {
            self.shared.blocks.set_port(registers);
            self.forget_cursors();
        }
    }
}
