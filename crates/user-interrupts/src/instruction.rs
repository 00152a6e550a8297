//! The instructions: opcode custom-1 (0x2B), type R, `funct3` 0, `funct7` the operation.

use riscv::{Instruction, Names};

const CUSTOM_1: u32 = 0x2b;

/// A safepoint: `slti x0, x0, 1`, one of the hints that RISC-V designates for custom use
/// (Unprivileged ISA, "HINT Instructions" of RV64I). Without user-level interrupts it has no
/// effect, as xUI's prefix has none on older processors.
pub const SAFEPOINT: u32 = 0x0010_2013;

/// The operations. Their numbers are the `funct7` of their instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Ends a handler: the program continues where it was interrupted, and interrupts can be
    /// delivered.
    Return = 0,
    /// (index): sends the interrupt of an entry of the target table.
    Send = 1,
    /// Disables the delivery of interrupts; they stay pending.
    Clear = 2,
    /// Enables the delivery of interrupts.
    Set = 3,
    /// Tests whether the delivery of interrupts is enabled.
    Test = 4,
    /// (cycles, vector | 256 if periodic): sets the hart's timer; 0 cycles turn it off.
    Timer = 5,
    /// (source, index): assigns an entry of the target table to a device's interrupt source.
    Route = 6,
}

const fn code(operation: Operation) -> u32 {
    Names::r_type(CUSTOM_1, operation as u32)
}

/// The instructions in assembly language: Intel's names, where there are any, and xUI's.
pub const NAMES: &[(u32, &str)] = &[
    (code(Operation::Return), "uiret"),
    (code(Operation::Send), "senduipi {rs1}"),
    (code(Operation::Clear), "clui"),
    (code(Operation::Set), "stui"),
    (code(Operation::Test), "testui {rd}"),
    (code(Operation::Timer), "set_timer {rs1}, {rs2}"),
    (code(Operation::Route), "route {rs1}, {rs2}"),
];

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

#[cfg(test)]
mod tests {
    #[test]
    fn instructions_and_registers_have_names() {
        let texts = [
            (0x0000_002b, "uiret"),
            (0x0205_802b, "senduipi a1"),
            (0x0400_002b, "clui"),
            (0x0600_002b, "stui"),
            (0x0800_052b, "testui a0"),
            (0x0ab5_002b, "set_timer a0, a1"),
            (0x0cb5_002b, "route a0, a1"),
            (0x0010_2013, "safepoint"),
            (0x0020_2013, "slti zero, zero, 2"),
            (0x8005_1073, "csrrw zero, ui_handler, a0"),
            // There is no operation 7, and no `uiret` with an operand.
            (0x0e00_002b, ".insn 0x4, 0x0e00002b"),
            (0x0005_802b, ".insn 0x4, 0x0005802b"),
        ];
        for (bits, text) in texts {
            let instruction = riscv::decode(bits);
            let shown = riscv::disassemble_with(&instruction, 0, crate::extension::NAMES);
            assert_eq!(shown, text);
        }
    }
}
