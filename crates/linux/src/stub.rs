//! The machine-mode code of every hart: it takes traps, notifies the agent, and carries out the
//! answer.
//!
//! A trap saves the integer registers in the hart's save area, as a kernel does, and then loads
//! from one of the agent's addresses. The hart waits in that load until the agent answers. The
//! answer is the result of the call, or one of the special [answers](Answer).

use crate::layout;

/// Bytes of a thread's save area; a power of two.
pub(crate) const SAVE_BYTES: u64 = 1024;
/// The position of the call's arguments and number, `a0` to `a7`: a line of their own.
pub(crate) const ARGUMENTS: u64 = 0;
/// The positions of the other values that a trap saves.
pub(crate) const PC: u64 = 248;
pub(crate) const CAUSE: u64 = 256;
pub(crate) const VALUE: u64 = 264;
pub(crate) const FLOAT_STATUS: u64 = 272;
/// Bytes of the save area that a trap writes.
pub(crate) const SAVED_BYTES: u64 = 280;
/// The address space.
pub(crate) const SATP: u64 = 280;
/// The floating-point registers, which are saved only if the agent requests it.
const FLOAT: u64 = 288;
/// Bytes of a thread's whole context.
pub(crate) const CONTEXT_BYTES: u64 = FLOAT + 256;

/// The agent's addresses, as offsets from its first.
pub(crate) const CALL: u64 = 0;
/// A trap that is not a call.
pub(crate) const FAULT: u64 = 8;
/// A hart that waited has been woken, has just started, or has carried out its order.
pub(crate) const READY: u64 = 16;
/// The address of the save area of the thread that the hart runs from now on.
pub(crate) const AREA: u64 = 24;

/// Answers that are not results of calls: results end with the addresses and with -4095.
pub(crate) struct Answer;

impl Answer {
    /// Halt until the software interrupt, and then read [`READY`]. An interrupted program traps as
    /// if by a fault.
    pub const WAIT: u64 = -4096_i64 as u64;
    /// Reload all registers, including `a0` and the floating-point status, from the save area.
    pub const RELOAD: u64 = -4097_i64 as u64;
    /// Discard all translations, and then read [`READY`]. This and the following answers are given
    /// only to loads of [`READY`].
    pub const FENCE: u64 = -4098_i64 as u64;
    /// Save the floating-point registers, and then read [`READY`].
    pub const SAVE: u64 = -4099_i64 as u64;
    /// Switch to another save area, its address space and its floating-point registers, and then
    /// read [`READY`].
    pub const SWITCH: u64 = -4100_i64 as u64;
    /// Not an answer to a hart: the call continues to wait after its writes.
    pub const SUSPEND: u64 = -4101_i64 as u64;
}

/// What a hart that is in machine mode has saved of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where the thread goes on.
    pub pc: u64,
    /// `x0` to `x31`.
    pub registers: [u64; 32],
}

impl Saved {
    /// Of the thread whose save area is at `area`, if one is; `read` reads 8 bytes of memory.
    pub fn of(area: u64, read: impl Fn(u64) -> u64) -> Option<Saved> {
        let offset = area.checked_sub(layout::SAVE_AREAS)?;
        let is_one = offset.is_multiple_of(SAVE_BYTES)
            && offset / SAVE_BYTES < layout::MAXIMUM_THREADS as u64;
        if !is_one {
            return None;
        }
        let mut registers = [0; 32];
        for (number, place) in (0..).zip(&mut registers).skip(1) {
            *place = read(area + register(number));
        }
        let pc = read(area + PC);
        Some(Saved { pc, registers })
    }
}

/// The position of integer register `number` (1 to 31) in the save area.
pub(crate) const fn register(number: u8) -> u64 {
    match number {
        10..=17 => (number as u64 - 10) * 8,
        0..=9 => 64 + (number as u64 - 1) * 8,
        _ => 136 + (number as u64 - 18) * 8,
    }
}

/// The address of the save area of `thread`.
pub(crate) const fn save_area(thread: usize) -> u64 {
    layout::SAVE_AREAS + thread as u64 * SAVE_BYTES
}

const SAVE: u32 = 5; // t0
const DEVICE: u32 = 11; // a1
const RESULT: u32 = 10; // a0
const SCRATCH: u32 = 6; // t1
const OTHER: u32 = 7; // t2

const SATP_REGISTER: u32 = 0x180;
const MSTATUS: u32 = 0x300;
const MIE: u32 = 0x304;
const MTVEC: u32 = 0x305;
const MCOUNTEREN: u32 = 0x306;
const MSCRATCH: u32 = 0x340;
const MEPC: u32 = 0x341;
const MCAUSE: u32 = 0x342;
const MTVAL: u32 = 0x343;
const FCSR: u32 = 0x003;

/// A sequence of instructions with branches to labels.
#[derive(Default)]
struct Assembler {
    words: Vec<u32>,
}

impl Assembler {
    fn here(&self) -> u32 {
        self.words.len() as u32 * 4
    }

    fn immediate(&mut self, opcode: u32, function: u32, rd: u32, rs1: u32, immediate: i32) {
        self.words
            .push((immediate as u32) << 20 | rs1 << 15 | function << 12 | rd << 7 | opcode);
    }

    fn addi(&mut self, rd: u32, rs1: u32, immediate: i32) {
        self.immediate(0x13, 0, rd, rs1, immediate);
    }

    fn lui(&mut self, rd: u32, upper: i32) {
        self.words.push((upper as u32) << 12 | rd << 7 | 0x37);
    }

    fn load(&mut self, rd: u32, rs1: u32, offset: u64) {
        self.immediate(0x03, 3, rd, rs1, offset as i32);
    }

    fn store(&mut self, rs2: u32, rs1: u32, offset: u64) {
        let offset = offset as u32;
        self.words.push(
            (offset >> 5) << 25 | rs2 << 20 | rs1 << 15 | 3 << 12 | (offset & 31) << 7 | 0x23,
        );
    }

    fn load_float(&mut self, rd: u32, rs1: u32, offset: u64) {
        self.immediate(0x07, 3, rd, rs1, offset as i32);
    }

    fn store_float(&mut self, rs2: u32, rs1: u32, offset: u64) {
        self.store(rs2, rs1, offset);
        if let Some(word) = self.words.last_mut() {
            *word |= 4; // STORE-FP
        }
    }

    fn read_csr(&mut self, rd: u32, csr: u32) {
        self.immediate(0x73, 2, rd, 0, csr as i32);
    }

    fn swap_csr(&mut self, rd: u32, csr: u32, rs1: u32) {
        self.immediate(0x73, 1, rd, rs1, csr as i32);
    }

    fn write_csr_immediate(&mut self, csr: u32, value: u32) {
        self.immediate(0x73, 5, 0, value, csr as i32);
    }

    /// A branch whose target is `patch`ed in later.
    fn branch(&mut self, function: u32, rs1: u32, rs2: u32) -> usize {
        self.words
            .push(rs2 << 20 | rs1 << 15 | function << 12 | 0x63);
        self.words.len() - 1
    }

    fn branch_equal(&mut self, rs1: u32, rs2: u32) -> usize {
        self.branch(0, rs1, rs2)
    }

    fn branch_unequal(&mut self, rs1: u32, rs2: u32) -> usize {
        self.branch(1, rs1, rs2)
    }

    fn jump(&mut self) -> usize {
        self.branch_equal(0, 0)
    }

    fn patch(&mut self, branch: usize, target: u32) {
        let offset = target.wrapping_sub(branch as u32 * 4);
        self.words[branch] |= (offset >> 12 & 1) << 31
            | (offset >> 5 & 0x3f) << 25
            | (offset >> 1 & 0xf) << 8
            | (offset >> 11 & 1) << 7;
    }

    /// Loads a sign-extended 32-bit multiple of 4096 into a register.
    fn constant(&mut self, rd: u32, value: u64) {
        debug_assert!(value.is_multiple_of(4096) && value as i64 == i64::from(value as i32));
        self.lui(rd, value as i32 >> 12);
    }
}

/// The code. It begins with the hart's first instruction.
pub(crate) fn code() -> Vec<u32> {
    const FENCE_I: u32 = 0x0000_100f;
    const SFENCE_VMA: u32 = 0x1200_0073;
    const WFI: u32 = 0x1050_0073;
    const MRET: u32 = 0x3020_0073;
    const FLOAT_INITIAL: u64 = 1 << 13;
    const SOFTWARE_INTERRUPT: u32 = 1 << 3;
    let mut a = Assembler::default();

    // Enable floating point and the user's counters.
    a.constant(SCRATCH, layout::STUB);
    let trap_vector = a.words.len();
    a.addi(SCRATCH, SCRATCH, 0); // the handler's offset, below
    a.swap_csr(0, MTVEC, SCRATCH);
    a.constant(SCRATCH, FLOAT_INITIAL);
    a.swap_csr(0, MSTATUS, SCRATCH);
    a.write_csr_immediate(MCOUNTEREN, 7);
    a.write_csr_immediate(MIE, SOFTWARE_INTERRUPT);
    a.constant(DEVICE, layout::DEVICE);
    let ready = a.here();
    a.load(RESULT, DEVICE, READY);
    a.lui(OTHER, -1);
    let special = [Answer::FENCE, Answer::SAVE, Answer::SWITCH].map(|answer| {
        a.addi(SCRATCH, OTHER, answer.wrapping_sub(Answer::WAIT) as i32);
        a.branch_equal(RESULT, SCRATCH)
    });
    let plain = a.jump();

    // mtvec has its mode in the lowest bits.
    let trap = a.here();
    a.words[trap_vector] |= trap << 20;
    a.swap_csr(SAVE, MSCRATCH, SAVE);
    for number in (1..32).filter(|&number| number != SAVE) {
        a.store(number, SAVE, register(number as u8));
    }
    a.swap_csr(SCRATCH, MSCRATCH, SAVE);
    a.store(SCRATCH, SAVE, register(SAVE as u8));
    a.read_csr(SCRATCH, FCSR);
    a.store(SCRATCH, SAVE, FLOAT_STATUS);
    a.read_csr(OTHER, MCAUSE);
    a.store(OTHER, SAVE, CAUSE);
    a.constant(DEVICE, layout::DEVICE);
    a.read_csr(SCRATCH, MEPC);
    a.addi(RESULT, 0, riscv::Cause::EcallUser.code() as i32);
    let fault = a.branch_unequal(OTHER, RESULT);
    a.addi(SCRATCH, SCRATCH, 4);
    a.store(SCRATCH, SAVE, PC);
    a.load(RESULT, DEVICE, CALL);

    let answered = a.here();
    a.patch(plain, answered);
    a.lui(OTHER, -1); // WAIT
    let wait = a.branch_equal(RESULT, OTHER);
    a.addi(OTHER, OTHER, -1); // RELOAD
    let reload = a.branch_equal(RESULT, OTHER);

    let back = a.here();
    a.load(SCRATCH, SAVE, PC);
    a.swap_csr(0, MEPC, SCRATCH);
    for number in (1..32).filter(|&number| number != SAVE && number != RESULT) {
        a.load(number, SAVE, register(number as u8));
    }
    a.load(SAVE, SAVE, register(SAVE as u8));
    a.words.push(MRET);

    let here = a.here();
    a.patch(fault, here);
    a.store(SCRATCH, SAVE, PC);
    a.read_csr(SCRATCH, MTVAL);
    a.store(SCRATCH, SAVE, VALUE);
    a.load(RESULT, DEVICE, FAULT);
    let to_answered = a.jump();
    a.patch(to_answered, answered);

    // Machine mode takes no interrupts; they only end the wait.
    let here = a.here();
    a.patch(wait, here);
    a.words.push(WFI);
    a.constant(DEVICE, layout::DEVICE);
    let to_ready = a.jump();
    a.patch(to_ready, ready);

    // The code of a starting thread may have been written a moment ago.
    let here = a.here();
    a.patch(reload, here);
    a.words.push(FENCE_I);
    a.load(SCRATCH, SAVE, FLOAT_STATUS);
    a.swap_csr(0, FCSR, SCRATCH);
    a.load(RESULT, SAVE, register(RESULT as u8));
    let to_back = a.jump();
    a.patch(to_back, back);

    let [fence, save, switch] = special;
    let then_ready = |a: &mut Assembler| {
        let to_ready = a.jump();
        a.patch(to_ready, ready);
    };
    let here = a.here();
    a.patch(fence, here);
    a.words.push(SFENCE_VMA);
    then_ready(&mut a);

    let here = a.here();
    a.patch(save, here);
    for number in 0..32 {
        a.store_float(number, SAVE, FLOAT + 8 * u64::from(number));
    }
    then_ready(&mut a);

    let here = a.here();
    a.patch(switch, here);
    a.load(SAVE, DEVICE, AREA);
    a.swap_csr(0, MSCRATCH, SAVE);
    a.load(SCRATCH, SAVE, SATP);
    a.swap_csr(0, SATP_REGISTER, SCRATCH);
    for number in 0..32 {
        a.load_float(number, SAVE, FLOAT + 8 * u64::from(number));
    }
    then_ready(&mut a);
    a.words
}

/// The trampoline that calls signal handlers: in user mode, with the handler's address in `t0`. It
/// saves the floating-point registers, which a trap does not, and ends with `rt_sigreturn`.
pub(crate) fn signal_code() -> Vec<u32> {
    const STACK: u32 = 2;
    const RETURN: u32 = 1;
    const RT_SIGRETURN: i32 = 139;
    const ECALL: u32 = 0x73;
    let bytes = 32 * 8;
    let mut a = Assembler::default();
    a.addi(STACK, STACK, -bytes);
    for number in 0..32 {
        a.store_float(number, STACK, u64::from(number) * 8);
    }
    a.immediate(0x67, 0, RETURN, SAVE, 0);
    for number in 0..32 {
        a.load_float(number, STACK, u64::from(number) * 8);
    }
    a.addi(STACK, STACK, bytes);
    a.addi(17, 0, RT_SIGRETURN);
    a.words.push(ECALL);
    a.words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_an_instruction() {
        for word in code().into_iter().chain(signal_code()) {
            let instruction = riscv::decode(word);
            assert_ne!(instruction.class, riscv::Class::Illegal, "{word:08x}");
        }
    }

    #[test]
    fn the_save_area_has_a_place_for_each_register() {
        let mut places: Vec<u64> = (1..32).map(register).collect();
        places.extend([PC, CAUSE, VALUE, FLOAT_STATUS, SATP]);
        places.sort_unstable();
        // 31 registers and five more words, contiguous from the start.
        let expected: Vec<u64> = (0..36).map(|index| index * 8).collect();
        assert_eq!(places, expected);
        assert_eq!((SAVED_BYTES, FLOAT), (35 * 8, 36 * 8));
        // The arguments are a line, so that a call reads only one.
        assert_eq!((register(10), register(17)), (ARGUMENTS, ARGUMENTS + 56));
    }
}
