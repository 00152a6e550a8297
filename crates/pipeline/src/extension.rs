//! The port for extensions: new instructions and CSRs of a core, interrupts, and registers that are
//! ends of queues.

use fabric::{AgentId, CoreId, Time, Transit, Update};
use riscv::{Instruction, Names, Privilege, Register, Trap};

/// The next action of a core for an extension's instruction, or for the delivery of its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The instruction is done; the value goes to its destination register. Of a delivery: the hart
    /// goes on at this address.
    Done(u64),
    /// The hart goes on at this address, to which it leaves the program; for instructions alone.
    Jump(u64),
    /// The core loads 8 bytes through its data cache and calls [`Extension::resume`].
    Load {
        /// Aligned to 8.
        address: u64,
    },
    /// The core changes 8 bytes in its data cache atomically, and calls [`Extension::resume`] with
    /// what they were.
    Update {
        /// Aligned to 8.
        address: u64,
        /// What they become.
        update: Update,
    },
    /// The core asks an agent, halts until the answer, and calls [`Extension::resume`].
    Ask {
        /// Whom.
        agent: AgentId,
        /// The way there and back.
        transit: Transit,
        /// Operation, as the extension and its agent agree.
        code: u32,
        /// Operands.
        arguments: [u64; 2],
        /// The event that the hart waits for, in words for a deadlock report: "QWAIT: a queue with
        /// work".
        waits_for: &'static str,
    },
    /// The instruction is illegal here: the hart traps. Of a delivery: there is none.
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
    /// The number of times that this instruction has been resumed: 0 at first.
    pub step: u32,
    /// The cycle.
    pub cycle: u64,
}

/// A word in a queue that a register is the head of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub value: u64,
    /// From this cycle on it can be read.
    pub readable: u64,
}

/// The result of an access to a CSR of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsrAccess {
    /// It is done.
    Done {
        /// What was in the register.
        old: u64,
        /// It has changed nothing, and reads the same value until the extension's next notice or
        /// event: a loop of such accesses may be skipped.
        quiet: bool,
        /// The following instructions are fetched again, as Rocket does after a CSR write.
        refetch: bool,
    },
    /// The hart traps.
    Trap(Trap),
}

/// A message of an extension to an agent, without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// From which cycle on it is on its way.
    pub cycle: u64,
    /// To whom.
    pub agent: AgentId,
    /// How long it is on wires of its own; at least as long as the core takes to send anything.
    pub latency: Time,
    /// What it is, as the extension and its agent agree.
    pub code: u32,
    /// What comes with it.
    pub arguments: [u64; 2],
}

/// The way in which a hart leaves its program for the handler of an extension's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Everything that has not committed is squashed, and fetch restarts with the delivery: so do
    /// x86 processors (Aydogmus et al., "Extended User Interrupts (xUI)", ASPLOS 2025).
    Flushing,
    /// The delivery enters the front end behind the dispatched instructions, which continue. If
    /// they turn out to be on a wrong path, the delivery is undone with them, and repeated on the
    /// right path: xUI's tracked interrupts.
    Tracked,
    /// Tracked, but only in front of an instruction that the program marks
    /// ([`Extension::is_safepoint`]): xUI's hardware safepoints. After a wrong path the next mark
    /// on the right one counts.
    AtSafepoint,
}

/// Words of an extension from before a delivery or a return, which the core keeps until that can no
/// longer be undone.
pub type Before = [u64; 3];

/// Instructions in RISC-V's custom opcode spaces; CSRs, interrupts, and wires to and from an agent;
/// and two registers that are the ends of queues.
///
/// # Instructions
///
/// An instruction begins when everything older is done, so it is never speculative, and nothing
/// younger begins before it is done. If [`Extension::is_barrier`] says so, it is a full memory
/// barrier, and also begins only when the store buffer is empty.
///
/// # Active extensions
///
/// An extension with [`Extension::IS_ACTIVE`] has CSRs, exchanges messages with agents, has timers,
/// and raises interrupts. A core with any other extension is compiled without these. Each hart has
/// its own copy.
///
/// An interrupt that the hart takes without changing its privilege is *delivered*: when
/// [`Extension::wants_delivery`] says how, the hart calls [`Extension::deliver`] at the next
/// boundary between instructions, which saves the program counter and says where to go on. Accesses
/// to memory come in between, as those of microcode do. The extension requests no other delivery
/// before one of its instructions has ended this one. Traps have priority.
///
/// An instruction that [returns](Extension::returns) from a handler does not wait on an
/// out-of-order core, and is squashed with the instructions before it.
///
/// # The register port
///
/// Only extensions with [`Extension::HAS_REGISTERS`] have one. It is for in-order cores of width 1.
/// An instruction that names [`Extension::INPUT`] or [`Extension::OUTPUT`] is dispatched only when
/// the values of all older instructions are known. It can therefore never be undone, and no word
/// ever has to be put back.
pub trait Extension: state::State {
    /// Whether it has more than instructions.
    const IS_ACTIVE: bool = false;
    /// Whether it has a register port; it is active, then.
    const HAS_REGISTERS: bool = false;
    /// An instruction that reads this register takes the next word out of the extension; once, even
    /// if it names the register twice.
    const INPUT: Register = riscv::SINK;
    /// An instruction that writes this register gives the extension the next word.
    const OUTPUT: Register = riscv::SINK;
    /// Its instructions, registers and CSRs in assembly language, for traces and messages.
    const NAMES: &'static Names = &Names::STANDARD;

    /// Tells a copy of the extension its core and its hart.
    fn place(&mut self, _core: CoreId, _hart: u64) {}

    /// Whether [`Extension::INPUT`] and [`Extension::OUTPUT`] are ends of queues now. It may change
    /// when a CSR is accessed.
    fn has_registers(&self) -> bool {
        false
    }

    /// The next word, or the trap that reading raises if there is none.
    fn peek(&self) -> Result<Word, Trap> {
        Ok(Word {
            value: 0,
            readable: 0,
        })
    }

    /// The word is taken.
    fn pop(&mut self) {}

    /// Accepts a word written at `cycle`, or returns the trap that the write raises.
    fn push(&mut self, _cycle: u64, _word: u64) -> Result<(), Trap> {
        Ok(())
    }

    /// Carries out the CSR instruction `i` at `cycle`, if the CSR is one of the extension's.
    fn access_csr(&mut self, _cycle: u64, _i: &Instruction, _rs1: u64) -> Option<CsrAccess> {
        None
    }

    /// A notice of its agent arrives at `cycle`.
    fn notice(&mut self, _cycle: u64, _header: u64) {}

    /// The cycle of its next timer, or [`NEVER`](crate::NEVER).
    fn next_event(&self) -> u64 {
        crate::NEVER
    }

    /// The timer expires.
    fn event(&mut self, _cycle: u64) {}

    /// The bit in `mip` that it drives, and its level. Looked at after each of the above.
    fn interrupt(&self) -> (u8, bool) {
        (0, false)
    }

    /// The kind of delivery that it requests now, if any. Looked at after each of the above, and
    /// after each of its instructions.
    fn wants_delivery(&self) -> Option<Delivery> {
        None
    }

    /// Whether [`Delivery::AtSafepoint`] may come in front of this instruction, which the core
    /// executes as it always does: a hint.
    fn is_safepoint(_instruction: &Instruction) -> bool {
        false
    }

    /// Whether a hart that waits for interrupts (`WFI`, `WRS`) continues, as it does if one is
    /// pending, even if it cannot be delivered now.
    fn wakes(&self) -> bool {
        self.wants_delivery().is_some()
    }

    /// Does the next step of the delivery at `cycle`, of which this is number `step`, beginning
    /// with 0; `value` is what the last one has read. Going on at an address other than `pc`, which
    /// is where the program would have gone on, is the last step. The steps may begin again with
    /// the first at any time: what came before was on a wrong path. What an access has read is told
    /// before.
    fn deliver(&mut self, _cycle: u64, _pc: u64, _step: u32, _value: u64) -> Action {
        Action::Illegal
    }

    /// The state that a delivery or a return changes, saved before it does, for undoing it.
    fn before(&self) -> Before {
        Before::default()
    }

    /// Undoes the last delivery, which was on a wrong path.
    fn undo_delivery(&mut self, _before: Before) {}

    /// Whether this instruction returns from a handler.
    fn returns(_instruction: &Instruction) -> bool {
        false
    }

    /// Carries out an instruction that returns from a handler; where the hart goes on.
    fn end_handler(&mut self) -> u64 {
        0
    }

    /// Undoes the last return, which was on a wrong path.
    fn undo_return(&mut self, _before: Before) {}

    /// Its messages to agents, oldest first.
    fn take_sent(&mut self) -> Option<Sent> {
        None
    }

    /// The meaning of one of its traps, in words, to follow "the guest crashed".
    fn explain(&self, _trap: &Trap) -> Option<String> {
        None
    }

    /// Whether an instruction waits until older stores have performed. Otherwise they perform
    /// during the instruction, or after it.
    fn is_barrier(&self, _instruction: &Instruction) -> bool {
        true
    }

    /// The instruction's first action.
    fn begin(&mut self, invocation: &Invocation) -> Action;

    /// The next action, after a load, an update or an answer gave `value`.
    fn resume(&mut self, invocation: &Invocation, value: u64) -> Action;
}

/// A core without extensions: every custom instruction is illegal.
#[derive(Clone, Copy, Debug, Default, state::State)]
pub struct NoExtension;

impl Extension for NoExtension {
    fn begin(&mut self, _invocation: &Invocation) -> Action {
        Action::Illegal
    }

    fn resume(&mut self, _invocation: &Invocation, _value: u64) -> Action {
        Action::Illegal
    }
}
