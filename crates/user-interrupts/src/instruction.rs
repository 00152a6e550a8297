//! The instructions: opcode custom-1 (0x2B), type R, `funct3` 0, `funct7` the operation.

use riscv::Instruction;

const CUSTOM_1: u32 = 0x2b;

/// The operations. Their numbers are the `funct7` of their instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Ends a handler: the program goes on where it was, and interrupts can be delivered.
    Return = 0,
    /// (index): sends the interrupt of an entry of the target table.
    Send = 1,
    /// Interrupts are delivered no longer; they stay pending.
    Clear = 2,
    /// Interrupts are delivered.
    Set = 3,
    /// Whether interrupts are delivered.
    Test = 4,
    /// (cycles, vector | 256 if it is periodic): sets the hart's timer; 0 cycles: turns it off.
    Timer = 5,
    /// (source, index): gives a device's interrupt source an entry of the target table.
    Route = 6,
}

impl Operation {
    /// The operation of an instruction.
    pub fn of(instruction: &Instruction) -> Option<Operation> {
        const ALL: [Operation; 7] = [
            Operation::Return,
            Operation::Send,
            Operation::Clear,
            Operation::Set,
            Operation::Test,
            Operation::Timer,
            Operation::Route,
        ];
        let bits = instruction.bits;
        let is_ours = bits & 0x7f == CUSTOM_1 && bits >> 12 & 7 == 0;
        let code = bits >> 25;
        ALL.into_iter()
            .find(|&operation| is_ours && operation as u32 == code)
    }
}
