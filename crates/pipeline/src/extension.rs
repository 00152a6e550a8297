//! The port for extensions: new instructions and CSRs of a core, interrupts, and registers that are
//! ends of queues.

use fabric::{AgentId, CoreId, Time, Transit, Update};
use riscv::{Instruction, Names, Privilege, Register, SINK, Trap};

/// The next action of a core for an extension's instruction, or for the delivery of its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The instruction is done; its destination register gets this value. For a delivery: the hart
    /// continues at this address.
    Done(u64),
    /// The hart leaves the program for this address; only for instructions.
    Jump(u64),
    /// The core loads 8 bytes through its data cache and calls [`Extension::resume`].
    Load {
        /// Aligned to 8.
        address: u64,
    },
    /// The core updates 8 bytes in its data cache atomically, and calls [`Extension::resume`] with
    /// the previous value.
    Update {
        /// Aligned to 8.
        address: u64,
        /// The update.
        update: Update,
    },
    /// The core sends a request to an agent, halts until the answer, and calls
    /// [`Extension::resume`].
    Ask {
        /// The agent.
        agent: AgentId,
        /// The paths of the request and of the answer.
        transit: Transit,
        /// The operation, as the extension and its agent define it.
        code: u32,
        /// Operands.
        arguments: [u64; 2],
        /// What the hart waits for, in words for a deadlock report: "QWAIT: a queue with work".
        waits_for: &'static str,
    },
    /// The instruction is illegal here: the hart traps. For a delivery: there is none.
    Illegal,
}

/// An instruction of an extension, with its operands.
#[derive(Clone, Copy, Debug)]
pub struct Invocation {
    /// The instruction; its encoding is in `bits`.
    pub instruction: Instruction,
    /// Value of rs1.
    pub rs1: u64,
    /// Value of rs2.
    pub rs2: u64,
    /// Privilege of the hart.
    pub privilege: Privilege,
    /// The number of times that this instruction has been resumed, 0 initially.
    pub step: u32,
    /// The cycle.
    pub cycle: u64,
}

/// The registers that are the ends of an extension's queues; [`SINK`] is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRegisters {
    /// An instruction that reads this register takes the next word from the extension; only one
    /// word, even if it names the register twice.
    pub input: Register,
    /// An instruction that writes this register appends a word to the extension's queue.
    pub output: Register,
}

impl PortRegisters {
    /// No such registers.
    pub const NONE: PortRegisters = PortRegisters {
        input: SINK,
        output: SINK,
    };

    /// Whether `i` takes a word from a queue.
    #[inline]
    pub(crate) fn takes(self, i: &Instruction) -> bool {
        self.input != SINK && (i.rs1 == self.input || i.rs2 == self.input)
    }

    /// Whether `i` appends a word to a queue.
    #[inline]
    pub(crate) fn gives(self, i: &Instruction) -> bool {
        self.output != SINK && i.rd == self.output
    }
}

/// A word of the queue whose head is a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub value: u64,
    /// The first cycle in which it can be read.
    pub readable: u64,
}

/// The result of an access to a CSR of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsrAccess {
    /// The access is done.
    Done {
        /// The previous value of the register.
        old: u64,
        /// It has no side effect, and the value does not change until the extension's next notice
        /// or event: a loop of such accesses may be skipped.
        quiet: bool,
        /// The following instructions are fetched again, as in Rocket after a CSR write.
        refetch: bool,
    },
    /// The hart traps.
    Trap(Trap),
}

/// A message of an extension to an agent, without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The cycle of its departure.
    pub cycle: u64,
    /// The destination.
    pub agent: AgentId,
    /// The latency of its own wires; at least the core's departure latency.
    pub latency: Time,
    /// Its kind, as the extension and its agent define it.
    pub code: u32,
    /// Its arguments.
    pub arguments: [u64; 2],
}

/// How a hart leaves its program for the handler of an extension's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Everything that has not committed is squashed, and fetch restarts with the delivery, as in
    /// x86 processors (Aydogmus et al., "Extended User Interrupts (xUI)", ASPLOS 2025).
    Flushing,
    /// The delivery enters the front end after the dispatched instructions, which continue. If they
    /// are on a wrong path, the delivery is undone with them, and repeated on the right path: xUI's
    /// tracked interrupts.
    Tracked,
    /// Tracked, but only before an instruction that the program marks
    /// ([`Extension::is_safepoint`]): xUI's hardware safepoints. After a wrong path the next mark
    /// on the right path counts.
    AtSafepoint,
}

/// State of an extension before a delivery or a return, which the core keeps until that can no
/// longer be undone.
pub type Before = [u64; 3];

/// An extension: instructions in RISC-V's custom opcode spaces; CSRs, interrupts, and messages to
/// and from agents; and two registers that are the ends of queues.
///
/// # Instructions
///
/// An instruction begins when everything older is done, so it is never speculative, and nothing
/// younger begins before it is done. If [`Extension::is_barrier`] is true for it, it is a full
/// memory barrier, and also waits for the store buffer to drain.
///
/// # Active extensions
///
/// An [active](Extension::is_active) extension has CSRs, exchanges messages with agents, has
/// timers, and raises interrupts. A core with any other extension runs code that is compiled
/// without these. Each hart has its own copy.
///
/// An interrupt that the hart takes without changing its privilege is *delivered*: when
/// [`Extension::wants_delivery`] returns a kind, the hart calls [`Extension::deliver`] at the next
/// boundary between instructions, which saves the program counter and returns the handler's
/// address. In between it may access memory, as microcode does. The extension requests no other
/// delivery before one of its instructions has ended this one. Traps have priority.
///
/// An instruction that [returns](Extension::returns) from a handler is not serializing on an
/// out-of-order core, and is squashed with the instructions before it.
///
/// # The register port
///
/// Only active extensions have one, and only in-order cores of width 1. An instruction that names
/// one of its [registers](Extension::port_registers) is dispatched only when the values of all
/// older instructions are known. It can therefore never be squashed, and no word ever has to be put
/// back.
pub trait Extension: state::State {
    /// A copy of it, for a hart.
    fn copy(&self) -> Box<dyn Extension>;

    /// Whether it has more than instructions. Never changes.
    fn is_active(&self) -> bool {
        false
    }

    /// The registers of its port. They never change; [`Extension::has_registers`] says whether they
    /// are ends of queues now.
    fn port_registers(&self) -> PortRegisters {
        PortRegisters::NONE
    }

    /// Its instructions, registers and CSRs in assembly language, for traces and messages.
    fn names(&self) -> &'static Names {
        &Names::STANDARD
    }

    /// Tells the copy of the extension its core and its hart.
    fn place(&mut self, _core: CoreId, _hart: u64) {}

    /// Whether its port's registers are ends of queues now. It may change with an access to a CSR.
    fn has_registers(&self) -> bool {
        false
    }

    /// The next word, or the trap of a read without one.
    fn peek(&self) -> Result<Word, Trap> {
        Ok(Word {
            value: 0,
            readable: 0,
        })
    }

    /// Removes the next word.
    fn pop(&mut self) {}

    /// Accepts a word written at `cycle`, or returns the trap that the write raises.
    fn push(&mut self, _cycle: u64, _word: u64) -> Result<(), Trap> {
        Ok(())
    }

    /// Executes the CSR instruction `i` at `cycle`, if the CSR belongs to the extension.
    fn access_csr(&mut self, _cycle: u64, _i: &Instruction, _rs1: u64) -> Option<CsrAccess> {
        None
    }

    /// A notice of its agent has arrived at `cycle`.
    fn notice(&mut self, _cycle: u64, _header: u64) {}

    /// The cycle of its next timer, or [`NEVER`](crate::NEVER).
    fn next_event(&self) -> u64 {
        crate::NEVER
    }

    /// The timer expires.
    fn event(&mut self, _cycle: u64) {}

    /// The bit in `mip` that it drives, and its level. Read after each of the above calls.
    fn interrupt(&self) -> (u8, bool) {
        (0, false)
    }

    /// The kind of delivery that it requests now, if any. Read after each of the above calls, and
    /// after each of its instructions.
    fn wants_delivery(&self) -> Option<Delivery> {
        None
    }

    /// Whether this instruction is a safepoint for [`Delivery::AtSafepoint`]. The core otherwise
    /// executes it as usual: it is a hint.
    fn is_safepoint(&self, _instruction: &Instruction) -> bool {
        false
    }

    /// Whether a hart that waits for interrupts (`WFI`, `WRS`) continues: it does if one is
    /// pending, even if it cannot be delivered now.
    fn wakes(&self) -> bool {
        self.wants_delivery().is_some()
    }

    /// Performs step number `step`, from 0, of the delivery at `cycle`; `value` is the result of
    /// the previous step's access. Continuing at an address other than `pc`, where the program
    /// would have continued, is the last step. The steps may restart at any time, if the previous
    /// ones were on a wrong path. The result of an access in progress is reported before that.
    fn deliver(&mut self, _cycle: u64, _pc: u64, _step: u32, _value: u64) -> Action {
        Action::Illegal
    }

    /// The state that a delivery or a return changes, for undoing it.
    fn before(&self) -> Before {
        Before::default()
    }

    /// Undoes the last delivery, which was on a wrong path.
    fn undo_delivery(&mut self, _before: Before) {}

    /// Whether this instruction returns from a handler.
    fn returns(&self, _instruction: &Instruction) -> bool {
        false
    }

    /// Executes an instruction that returns from a handler; returns where the hart continues.
    fn end_handler(&mut self) -> u64 {
        0
    }

    /// Undoes the last return, which was on a wrong path.
    fn undo_return(&mut self, _before: Before) {}

    /// Removes the oldest of its messages to agents.
    fn take_sent(&mut self) -> Option<Sent> {
        None
    }

    /// Explains one of its traps, in words that follow "the guest crashed".
    fn explain(&self, _trap: &Trap) -> Option<String> {
        None
    }

    /// Whether an instruction waits until older stores have performed. Otherwise they perform
    /// during or after the instruction.
    fn is_barrier(&self, _instruction: &Instruction) -> bool {
        true
    }

    /// The instruction's first action.
    fn begin(&mut self, invocation: &Invocation) -> Action;

    /// The next action, after a load, an update or an answer has yielded `value`.
    fn resume(&mut self, invocation: &Invocation, value: u64) -> Action;
}

/// A core without extensions: every custom instruction is illegal.
#[derive(Clone, Copy, Debug, Default, state::State)]
pub struct NoExtension;

impl Extension for NoExtension {
    fn copy(&self) -> Box<dyn Extension> {
        Box::new(*self)
    }

    fn begin(&mut self, _invocation: &Invocation) -> Action {
        Action::Illegal
    }

    fn resume(&mut self, _invocation: &Invocation, _value: u64) -> Action {
        Action::Illegal
    }
}
