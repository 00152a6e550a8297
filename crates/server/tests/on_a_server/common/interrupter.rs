//! An extension that interrupts its hart at programmed times, and delivers the interrupt without a
//! trap.

use super::assembler::*;
use fabric::{CoreId, Update};
use pipeline::{Action, Before, CsrAccess, Delivery, Extension, Invocation, NEVER};
use riscv::{Instruction, csr_update};

/// The handler's address.
pub const HANDLER: u32 = 0x800;
/// Cycles from one interrupt to the next; writing it starts the period.
pub const PERIOD: u32 = 0x801;
/// The address where deliveries are counted: 8 bytes for each hart, in one line.
pub const DELIVERIES: u64 = 0x8013_1000;

/// Ends a handler.
pub const RETURN: u32 = 0x0b;

/// The state of the extension.
#[derive(Clone, Copy, Debug)]
pub struct Interrupts {
    /// The kind of delivery.
    pub delivery: Delivery,
    /// The number of deliveries.
    pub count: u64,
}

#[derive(Clone, Debug, state::State)]
pub struct Interrupter {
    #[state(fixed)]
    interrupts: Interrupts,
    #[state(fixed)]
    hart: u64,
    handler: u64,
    period: u64,
    left: u64,
    #[state(cycle)]
    next: u64,
    is_pending: bool,
    is_in_handler: bool,
    saved: u64,
}

impl Interrupter {
    pub fn new(interrupts: Interrupts) -> Interrupter {
        Interrupter {
            interrupts,
            hart: 0,
            handler: 0,
            period: 0,
            left: interrupts.count,
            next: NEVER,
            is_pending: false,
            is_in_handler: false,
            saved: 0,
        }
    }
}

impl Extension for Interrupter {
    fn copy(&self) -> Box<dyn Extension> {
        Box::new(self.clone())
    }

    fn is_active(&self) -> bool {
        true
    }

    fn place(&mut self, _core: CoreId, hart: u64) {
        self.hart = hart;
    }

    fn access_csr(&mut self, cycle: u64, i: &Instruction, rs1: u64) -> Option<CsrAccess> {
        let old = match u32::from(i.csr_number()) {
            HANDLER => &mut self.handler,
            PERIOD => &mut self.period,
            _ => return None,
        };
        let before = *old;
        let new = csr_update(i, before, rs1);
        *old = new.unwrap_or(before);
        if u32::from(i.csr_number()) == PERIOD && new.is_some() {
            self.next = cycle + self.period;
        }
        Some(CsrAccess::Done {
            old: before,
            quiet: new.is_none(),
            refetch: false,
        })
    }

    fn next_event(&self) -> u64 {
        self.next
    }

    fn event(&mut self, cycle: u64) {
        self.is_pending = true;
        self.left -= 1;
        self.next = if self.left > 0 {
            cycle + self.period
        } else {
            NEVER
        };
    }

    fn wants_delivery(&self) -> Option<Delivery> {
        (self.is_pending && !self.is_in_handler).then_some(self.interrupts.delivery)
    }

    /// Any instruction whose destination is one of every fourth register.
    fn is_safepoint(&self, instruction: &Instruction) -> bool {
        instruction.bits >> 7 & 3 == 0
    }

    fn wakes(&self) -> bool {
        self.is_pending
    }

    fn deliver(&mut self, _cycle: u64, pc: u64, step: u32, _value: u64) -> Action {
        if step == 0 {
            return Action::Update {
                address: DELIVERIES + 8 * self.hart,
                update: Update {
                    unless: 0,
                    keep: !0,
                    set: 1,
                },
            };
        }
        self.is_pending = false;
        self.is_in_handler = true;
        self.saved = pc;
        Action::Done(self.handler)
    }

    fn before(&self) -> Before {
        [self.saved, self.is_in_handler.into(), 0]
    }

    fn undo_delivery(&mut self, [saved, ..]: Before) {
        self.is_pending = true;
        self.is_in_handler = false;
        self.saved = saved;
    }

    fn returns(&self, instruction: &Instruction) -> bool {
        instruction.bits == RETURN
    }

    fn end_handler(&mut self) -> u64 {
        self.is_in_handler = false;
        self.saved
    }

    fn undo_return(&mut self, [_, is_in_handler, _]: Before) {
        self.is_in_handler = is_in_handler != 0;
    }

    fn begin(&mut self, invocation: &Invocation) -> Action {
        if invocation.instruction.bits != RETURN || !self.is_in_handler {
            return Action::Illegal;
        }
        Action::Jump(self.end_handler())
    }

    fn resume(&mut self, _invocation: &Invocation, _value: u64) -> Action {
        Action::Illegal
    }
}

/// Emits a handler that counts in the 8 bytes at `counter`, and enables interrupts every `period`
/// cycles. It changes `gp` and `tp`, and `t0` before the first interrupt.
pub fn emit_handler(asm: &mut Assembler, counter: u64, period: u64) {
    let over = asm.label();
    asm.jump(over);
    let handler = asm.here();
    asm.load_immediate(GP, counter);
    asm.add_immediate(TP, ZERO, 1);
    asm.amo(AMO_ADD, RELAXED, 8, TP, TP, GP);
    // A branch that depends on the loaded value.
    let even = asm.label();
    asm.and_immediate(TP, TP, 1);
    asm.branch(When::Equal, TP, ZERO, even);
    asm.load_double(TP, GP, 0);
    asm.bind(even);
    asm.emit(RETURN);
    asm.bind(over);
    asm.load_immediate(T0, handler);
    asm.csr_write(HANDLER, T0);
    asm.load_immediate(T0, period);
    asm.csr_write(PERIOD, T0);
}
