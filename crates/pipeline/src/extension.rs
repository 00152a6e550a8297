//! The port for extensions: new instructions of a core.

use fabric::{AgentId, Transit};
use riscv::{Instruction, Privilege};
use state::Walker;

/// What a core does next for an extension's instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The instruction is done; the value goes to its destination register.
    Done(u64),
    /// The core loads 8 bytes through its data cache and calls [`Extension::resume`].
    Load {
        /// Aligned to 8.
        address: u64,
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
        /// What the hart waits for, in words for a deadlock report: "QWAIT: a queue with work".
        waits_for: &'static str,
    },
    /// The instruction is illegal here: the hart traps.
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
    /// How often this instruction has been resumed: 0 at first.
    pub step: u32,
}

/// New instructions in RISC-V's custom opcode spaces.
///
/// Such an instruction has the semantics of a full memory barrier: it begins when everything
/// older is done and the store buffer is empty, and nothing younger begins before it is done.
/// It is never executed speculatively.
pub trait Extension {
    /// The instruction's first action.
    fn begin(&mut self, invocation: &Invocation) -> Action;

    /// The next action, after a load or an answer gave `value`.
    fn resume(&mut self, invocation: &Invocation, value: u64) -> Action;

    /// Shows the extension's state to `walker`, for a checkpoint.
    fn walk(&mut self, walker: &mut dyn Walker);
}

/// A core without extensions: every custom instruction is illegal.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtension;

impl Extension for NoExtension {
    fn begin(&mut self, _invocation: &Invocation) -> Action {
        Action::Illegal
    }

    fn resume(&mut self, _invocation: &Invocation, _value: u64) -> Action {
        Action::Illegal
    }

    fn walk(&mut self, _walker: &mut dyn Walker) {}
}
