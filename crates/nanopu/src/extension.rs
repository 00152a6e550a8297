//! The registers of a core: `netRX`, `netTX`, and the CSRs.

use crate::context::Context;
use crate::mailbox::SharedMailbox;
use crate::scheduler::Scheduler;
use crate::spec::NanoPuSpec;
use fabric::{AgentId, Clock, CoreId, Time};
use pipeline::{Action, CsrAccess, Extension, Invocation, PortRegisters, Sent, Word};
use riscv::{Cause, Instruction, Names, Register, Trap, csr_update};
use std::collections::VecDeque;

/// `x30`.
const NET_RX: Register = 30;
/// `x31`.
const NET_TX: Register = 31;
/// The scheduler's machine interrupt.
const INTERRUPT_BIT: u8 = 16;
/// The context of the kernel that swaps threads.
pub(crate) const KERNEL_CONTEXT: u16 = 0xffff;
/// `lmsgcycles` and `lidlecycles` after reset.
const RESET_CYCLES: u64 = 3000;

/// The CSRs' numbers: `CSR_...` in `guest/include/lnic.h`.
pub(crate) mod csr {
    fabric::registers! { u16:
        LMSGSRDY = 0x52;
        LCURCONTEXT = 0x53;
        LNICCMD = 0x54;
        LCURPRIORITY = 0x55;
        LNICUCMD = 0x56;
        LNICRDY = 0x57;
        LTARGETCONTEXT = 0x58;
        LTARGETPRIORITY = 0x59;
        LMSGCYCLES = 0x60;
        LIDLECYCLES = 0x61;
    }
}

/// The exceptions of impossible requests: `mcause`.
pub mod cause {
    /// `netRX` was read, and the context's receive queue is empty.
    pub const NOTHING_RECEIVED: u8 = 24;
    /// There is no room for a message of this length now.
    pub const NO_ROOM: u8 = 25;
    /// The application header of a message has a length that none can have.
    pub const WRONG_LENGTH: u8 = 26;
    /// `netTX` was written, and no context runs that could send.
    pub const NO_CONTEXT: u8 = 27;
    /// The context cannot be bound, or removed.
    pub const NOT_BOUND: u8 = 28;
    /// A message is said to be done, and there is none.
    pub const NOTHING_TO_DO: u8 = 29;
}

/// What a core tells the interface; the arguments are its context and, for `BIND`, whether.
pub(crate) mod code {
    pub const MESSAGE: u32 = 0;
    pub const DONE: u32 = 1;
    pub const BIND: u32 = 2;
    pub const REMOVE: u32 = 3;
}

/// What the interface tells a core: one of these, and the context behind it.
pub(crate) mod notice {
    pub const MESSAGE: u64 = 0;
    pub const STOP: u64 = 1;
    pub const GO: u64 = 2;

    pub fn encode(kind: u64, context: u16) -> u64 {
        u64::from(context) << 8 | kind
    }

    pub fn decode(header: u64) -> (u64, u16) {
        (header & 0xff, (header >> 8) as u16)
    }
}

fn trap(cause: u8, value: u64) -> Trap {
    Trap {
        cause: Cause::Custom(cause),
        value,
    }
}

/// nanoPU's part of a core.
#[derive(Clone, state::State)]
pub struct NetworkRegisters {
    #[state(fixed)]
    agent: AgentId,
    #[state(fixed)]
    latency: Time,
    #[state(fixed)]
    core: usize,
    #[state(fixed)]
    max_contexts: usize,
    #[state(fixed)]
    max_bytes: u64,
    /// Bytes of a context's transmit queue.
    #[state(fixed)]
    queue_bytes: u64,
    #[state(fixed)]
    mailbox: SharedMailbox,
    scheduler: Scheduler,
    /// `lcurcontext` and `lcurpriority`, as written.
    current: u16,
    priority: u8,
    /// The time until which the wires for incoming messages are in use.
    #[state(cycle)]
    wires_until: u64,
    // Empty whenever the core rests.
    #[state(fixed)]
    sent: VecDeque<Sent>,
}

impl NetworkRegisters {
    pub(crate) fn new(
        spec: &NanoPuSpec,
        clock: Clock,
        agent: AgentId,
        mailbox: SharedMailbox,
    ) -> NetworkRegisters {
        let max_bytes = u64::from(spec.max_message_bytes);
        let interval = clock.cycle_at_or_after(Time::from_ns(spec.timer_interval_ns));
        NetworkRegisters {
            agent,
            latency: clock.time(spec.from_core_cycles),
            core: 0,
            max_contexts: spec.contexts_per_core,
            max_bytes,
            queue_bytes: u64::from(spec.messages_per_core) * (max_bytes + 8),
            mailbox,
            scheduler: Scheduler::new(spec.scheduler, interval, RESET_CYCLES),
            current: 0,
            priority: 0,
            wires_until: 0,
            sent: VecDeque::new(),
        }
    }

    fn tell(&mut self, cycle: u64, code: u32, context: u16) {
        self.sent.push_back(Sent {
            cycle,
            agent: self.agent,
            latency: self.latency,
            code,
            arguments: [u64::from(context), 0],
        });
    }

    /// The value of a CSR, and whether it stays so until something happens; nothing if it is not
    /// ours.
    fn read_csr(&self, cycle: u64, number: u16) -> Option<(u64, bool)> {
        let scheduler = &self.scheduler;
        let target = || scheduler.target().map(|place| &scheduler.contexts[place]);
        let value = match number {
            csr::LMSGSRDY => {
                let first = scheduler.running().and_then(Context::first_word);
                let is_ready = first.is_some_and(|word| word.readable <= cycle);
                return Some((is_ready.into(), is_ready == first.is_some()));
            }
            csr::LCURCONTEXT => self.current.into(),
            csr::LNICCMD | csr::LNICUCMD => 0,
            csr::LCURPRIORITY => {
                let running = scheduler.running();
                running.map_or(self.priority, |one| one.priority).into()
            }
            csr::LNICRDY => 1,
            csr::LTARGETCONTEXT => target().map_or(self.current, |one| one.number).into(),
            csr::LTARGETPRIORITY => target().map_or(self.priority, |one| one.priority).into(),
            csr::LMSGCYCLES => scheduler.max_cycles,
            csr::LIDLECYCLES => scheduler.idle_cycles,
            _ => return None,
        };
        Some((value, true))
    }

    /// Whether the write has changed nothing.
    fn write_csr(&mut self, cycle: u64, number: u16, value: u64) -> Result<bool, Trap> {
        match number {
            csr::LCURCONTEXT => {
                self.current = value as u16;
                let place = self.scheduler.find(self.current);
                self.scheduler.run(cycle, place);
            }
            // A running thread's priority is what it was bound with, and that of the hardware.
            csr::LCURPRIORITY => self.priority = value.min(255) as u8,
            csr::LNICCMD => self.command(cycle, value)?,
            csr::LNICUCMD => {
                if value & 1 != 0 {
                    if !self.scheduler.message_done(cycle) {
                        return Err(trap(cause::NOTHING_TO_DO, self.current.into()));
                    }
                    self.tell(cycle, code::DONE, self.current);
                }
                let goes_idle = value & 2 != 0 && self.scheduler.idle(cycle);
                return Ok(value & 1 == 0 && !goes_idle);
            }
            csr::LMSGCYCLES => self.scheduler.max_cycles = value,
            csr::LIDLECYCLES => self.scheduler.idle_cycles = value,
            _ => {}
        }
        Ok(false)
    }

    fn command(&mut self, cycle: u64, value: u64) -> Result<(), Trap> {
        let place = self.scheduler.find(self.current);
        let refused = trap(cause::NOT_BOUND, self.current.into());
        if value & 1 != 0 {
            let is_new = place.is_none();
            let is_full = self.scheduler.contexts.len() == self.max_contexts;
            if is_new && (self.current == KERNEL_CONTEXT || is_full) {
                return Err(refused);
            }
            self.scheduler.bind(cycle, self.current, self.priority);
            if is_new {
                self.tell(cycle, code::BIND, self.current);
            }
        } else if value & 2 != 0 {
            let Some(place) = place else {
                return Err(refused);
            };
            self.scheduler.remove(cycle, place);
            self.tell(cycle, code::REMOVE, self.current);
        }
        if value & 4 != 0 {
            self.scheduler.start_timer(cycle);
        }
        Ok(())
    }
}

/// Its instructions, registers and CSRs in assembly language.
const NAMES: &Names = &Names {
    registers: &[(NET_RX, "netrx"), (NET_TX, "nettx")],
    csrs: csr::ALL,
    ..Names::STANDARD
};

impl Extension for NetworkRegisters {
    fn copy(&self) -> Box<dyn Extension> {
        Box::new(self.clone())
    }

    fn is_active(&self) -> bool {
        true
    }

    fn port_registers(&self) -> PortRegisters {
        PortRegisters {
            input: NET_RX,
            output: NET_TX,
        }
    }

    fn names(&self) -> &'static Names {
        NAMES
    }

    fn place(&mut self, core: CoreId, _hart: u64) {
        self.core = usize::from(core.0);
    }

    fn begin(&mut self, _invocation: &Invocation) -> Action {
        Action::Illegal
    }

    fn resume(&mut self, _invocation: &Invocation, _value: u64) -> Action {
        Action::Illegal
    }

    fn has_registers(&self) -> bool {
        !self.scheduler.contexts.is_empty()
    }

    fn peek(&self) -> Result<Word, Trap> {
        let first = self.scheduler.running().and_then(Context::first_word);
        first.ok_or(trap(cause::NOTHING_RECEIVED, self.current.into()))
    }

    fn pop(&mut self) {
        if let Some(context) = self.scheduler.running_mut() {
            context.take_word();
        }
    }

    fn push(&mut self, cycle: u64, word: u64) -> Result<(), Trap> {
        let (max_bytes, queue_bytes) = (self.max_bytes, self.queue_bytes);
        let Some(context) = self.scheduler.running_mut() else {
            return Err(trap(cause::NO_CONTEXT, self.current.into()));
        };
        if !context.is_sending() {
            let bytes = word & 0xffff;
            if bytes == 0 || bytes > max_bytes {
                return Err(trap(cause::WRONG_LENGTH, word));
            }
            if context.is_stopped {
                if context.stopped_bytes + bytes + 8 > queue_bytes {
                    return Err(trap(cause::NO_ROOM, word));
                }
                context.stopped_bytes += bytes + 8;
            }
            context.begin_message(1 + bytes.div_ceil(8) as usize);
        }
        if let Some(message) = context.write_word(word) {
            let number = message.context;
            let mut mailbox = self.mailbox.borrow_mut();
            mailbox.send_from_core(self.core, message);
            drop(mailbox);
            self.tell(cycle, code::MESSAGE, number);
        }
        Ok(())
    }

    fn access_csr(&mut self, cycle: u64, i: &Instruction, rs1: u64) -> Option<CsrAccess> {
        let (old, stays) = self.read_csr(cycle, i.csr_number())?;
        let new = csr_update(i, old, rs1);
        let unchanged = match new {
            None => true,
            Some(new) => match self.write_csr(cycle, i.csr_number(), new) {
                Ok(unchanged) => unchanged,
                Err(trap) => return Some(CsrAccess::Trap(trap)),
            },
        };
        Some(CsrAccess::Done {
            old,
            quiet: unchanged && stays,
            refetch: new.is_some(),
        })
    }

    fn notice(&mut self, cycle: u64, header: u64) {
        let (kind, number) = notice::decode(header);
        let place = self.scheduler.find(number);
        if kind == notice::MESSAGE {
            let message = self.mailbox.borrow_mut().take_at_core(self.core);
            let (Some(message), Some(place)) = (message, place) else {
                // For a context that has been removed meanwhile.
                return;
            };
            let readable = cycle.max(self.wires_until);
            self.wires_until = readable + message.words.len() as u64;
            self.scheduler.receive(cycle, place, message, readable);
        } else if let Some(place) = place {
            let context = &mut self.scheduler.contexts[place];
            context.is_stopped = kind == notice::STOP;
            context.stopped_bytes = 0;
        }
    }

    fn next_event(&self) -> u64 {
        self.scheduler.next_event()
    }

    fn event(&mut self, cycle: u64) {
        self.scheduler.event(cycle);
    }

    fn interrupt(&self) -> (u8, bool) {
        (INTERRUPT_BIT, self.scheduler.interrupts())
    }

    fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn explain(&self, trap: &Trap) -> Option<String> {
        let Cause::Custom(number) = trap.cause else {
            return None;
        };
        let context = trap.value;
        Some(match number {
            cause::NOTHING_RECEIVED if context == u64::from(KERNEL_CONTEXT) => {
                "netRX (x30) was read while no thread runs (lcurcontext is 0xffff)".to_string()
            }
            cause::NOTHING_RECEIVED => format!(
                "netRX (x30) was read, and context {context} has received nothing that it has not \
                 read: wait for a message (lnic_wait), and read no more words than its header tells"
            ),
            cause::NO_ROOM => format!(
                "there is no room for a message of {} bytes: the network interface has not taken \
                 the last ones of this context yet",
                trap.value & 0xffff
            ),
            cause::WRONG_LENGTH => format!(
                "the header {:#018x} was written to netTX (x31), and its length is {}; it must be \
                 from 1 to {}. After a header come as many words as its length tells, and then \
                 the next header",
                trap.value,
                trap.value & 0xffff,
                self.max_bytes
            ),
            cause::NO_CONTEXT => format!(
                "netTX (x31) was written while no thread runs: context {context} is not bound to \
                 this hart"
            ),
            cause::NOT_BOUND if context == u64::from(KERNEL_CONTEXT) => {
                "context 0xffff is the kernel's, and cannot be bound".to_string()
            }
            cause::NOT_BOUND if self.scheduler.contexts.len() == self.max_contexts => format!(
                "context {context} cannot be bound: the core has queues for {} contexts, and all \
                 are in use",
                self.max_contexts
            ),
            cause::NOT_BOUND => {
                format!("context {context} cannot be removed: it is not bound to this hart")
            }
            cause::NOTHING_TO_DO => format!(
                "a message of context {context} was said to be done (lnic_msg_done), and it has \
                 none"
            ),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{Mailbox, Words};

    /// The wires to a core carry a word in each cycle, and one message after the other: of 3 words
    /// in cycles 100 to 102, and of 2 in 103 and 104. The third message finds them free.
    #[test]
    fn messages_to_a_core_share_its_wires() {
        let mailbox = Mailbox::shared(1);
        let mut registers = NetworkRegisters::new(
            &NanoPuSpec::default(),
            Clock::from_ghz(3.2),
            AgentId(0),
            mailbox.clone(),
        );
        registers.scheduler.bind(0, 5, 0);
        for (cycle, words) in [(100, 3), (101, 2), (105, 1), (200, 4)] {
            let message = Words {
                context: 5,
                words: vec![0; words],
            };
            mailbox.borrow_mut().send_to_core(0, message);
            registers.notice(cycle, notice::encode(notice::MESSAGE, 5));
        }
        let arrivals = &registers.scheduler.contexts[0].arrivals;
        assert_eq!(*arrivals, [100, 103, 105, 200]);
    }

    #[test]
    fn registers_have_names() {
        let names = [
            // addi x31, x30, 0, and the same compressed
            (0x000f_0f93, "addi nettx, netrx, 0"),
            (0x8ffa, "add nettx, zero, netrx"),
            // csrrw a0, 0x50 + 4, x0
            (0x0540_1573, "csrrw a0, lniccmd, zero"),
            (0x0015_0513, "addi a0, a0, 1"),
        ];
        for (bits, text) in names {
            let instruction = riscv::decode(bits);
            let shown = riscv::disassemble_with(&instruction, 0, NAMES);
            assert_eq!(shown, text);
        }
    }
}
