//! The results of instructions.

use crate::float::{self, Double, Single};
use crate::instruction::{Class, Instruction, Operation, TABLE};

/// The value an instruction gives its destination register, for all instructions that access
/// neither memory nor CSRs: integer and floating-point arithmetic, moves, `lui`, `auipc`, and the
/// link of `jal` and `jalr`. Others give 0.
///
/// `a`, `b` and `c` are the values of `rs1`, `rs2` and `rs3`; `pc` is the instruction's own
/// address; `frm` is the dynamic rounding mode, for instructions that use it ([`illegal_rounding`]
/// tells whether it is valid). Floating-point exceptions are added to `flags`, which has the layout
/// of `fflags`: invalid 16, divide by zero 8, overflow 4, underflow 2, inexact 1.
#[inline]
pub fn evaluate(i: &Instruction, pc: u64, a: u64, b: u64, c: u64, frm: u8, flags: &mut u8) -> u64 {
    if i.is_float() {
        evaluate_float(i, a, b, c, frm, flags)
    } else {
        evaluate_integer(i, pc, a, b)
    }
}

/// [`evaluate`] for instructions outside the F and D extensions.
#[inline(always)]
pub fn evaluate_integer(i: &Instruction, pc: u64, a: u64, b: u64) -> u64 {
    use Operation::*;
    let immediate = i.immediate as u64; // i32 to u64 extends the sign
    match i.operation {
        Lui => immediate,
        Auipc => pc.wrapping_add(immediate),
        Jal | Jalr => pc.wrapping_add(u64::from(i.length)),

        Addi => a.wrapping_add(immediate),
        Slti => u64::from((a as i64) < immediate as i64),
        Sltiu => u64::from(a < immediate),
        Xori => a ^ immediate,
        Ori => a | immediate,
        Andi => a & immediate,
        Slli => a << (immediate & 63),
        Srli => a >> (immediate & 63),
        Srai => (a as i64 >> (immediate & 63)) as u64,
        Addiw => word(a.wrapping_add(immediate) as u32),
        Slliw => word((a as u32) << (immediate & 31)),
        Srliw => word(a as u32 >> (immediate & 31)),
        Sraiw => (i64::from(a as i32) >> (immediate & 31)) as u64,

        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Sll => a << (b & 63),
        Slt => u64::from((a as i64) < b as i64),
        Sltu => u64::from(a < b),
        Xor => a ^ b,
        Srl => a >> (b & 63),
        Sra => (a as i64 >> (b & 63)) as u64,
        Or => a | b,
        And => a & b,
        Addw => word((a as u32).wrapping_add(b as u32)),
        Subw => word((a as u32).wrapping_sub(b as u32)),
        Sllw => word((a as u32) << (b & 31)),
        Srlw => word(a as u32 >> (b & 31)),
        Sraw => (i64::from(a as i32) >> (b & 31)) as u64,

        Mul => a.wrapping_mul(b),
        Mulh => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        Mulhsu => ((i128::from(a as i64) * i128::from(b)) >> 64) as u64,
        Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Mulw => word((a as u32).wrapping_mul(b as u32)),

        // Division by zero gives all ones, its remainder the dividend; the one overflow
        // (most negative by -1) wraps. "M" Extension, section "Division Operations".
        Div if b == 0 => u64::MAX,
        Div => (a as i64).wrapping_div(b as i64) as u64,
        Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Rem if b == 0 => a,
        Rem => (a as i64).wrapping_rem(b as i64) as u64,
        Remu => a.checked_rem(b).unwrap_or(a),
        Divw if b as u32 == 0 => u64::MAX,
        Divw => word((a as i32).wrapping_div(b as i32) as u32),
        Divuw => word((a as u32).checked_div(b as u32).unwrap_or(u32::MAX)),
        Remw if b as u32 == 0 => word(a as u32),
        Remw => word((a as i32).wrapping_rem(b as i32) as u32),
        Remuw => word((a as u32).checked_rem(b as u32).unwrap_or(a as u32)),

        _ => evaluate_bits(i, a, b),
    }
}

/// [`evaluate_integer`] for one operation.
pub type Evaluator = fn(&Instruction, u64, u64, u64) -> u64;

/// The function that computes [`evaluate_integer`] for `operation`, or [`branch_taken`] as 1 or 0.
/// Callers that keep it with a decoded instruction need not dispatch on the operation each time.
pub fn evaluator(operation: Operation) -> Evaluator {
    operation.evaluator()
}

pub(crate) fn evaluate_one<const O: u8>(i: &Instruction, pc: u64, a: u64, b: u64) -> u64 {
    let operation = const { TABLE[O as usize].operation };
    if const { matches!(TABLE[O as usize].class, Class::Branch) } {
        return u64::from(branch_taken(operation, a, b));
    }
    evaluate_integer(&Instruction { operation, ..*i }, pc, a, b)
}

pub(crate) fn evaluate_nothing(_: &Instruction, _: u64, _: u64, _: u64) -> u64 {
    0
}

/// The part of [`evaluate_integer`] for "B" Extension for Bit Manipulation (Zba, Zbb, Zbs), out of
/// line like floating point.
#[inline(never)]
fn evaluate_bits(i: &Instruction, a: u64, b: u64) -> u64 {
    manipulate_bits(i, a, b)
}

/// [`evaluate_bits`] for callers with an instruction known at compile time.
#[inline(always)]
pub(crate) fn manipulate_bits(i: &Instruction, a: u64, b: u64) -> u64 {
    use Operation::*;
    let (a_w, b_w) = (a as u32, b as u32);
    let zero_extended = u64::from(a_w);
    let amount = i.immediate as u32; // of a shift or rotation, or the number of a bit
    match i.operation {
        AddUw => zero_extended.wrapping_add(b),
        Sh1add => (a << 1).wrapping_add(b),
        Sh2add => (a << 2).wrapping_add(b),
        Sh3add => (a << 3).wrapping_add(b),
        Sh1addUw => (zero_extended << 1).wrapping_add(b),
        Sh2addUw => (zero_extended << 2).wrapping_add(b),
        Sh3addUw => (zero_extended << 3).wrapping_add(b),
        SlliUw => zero_extended << (amount & 63),

        Andn => a & !b,
        Orn => a | !b,
        Xnor => !(a ^ b),
        // The operand's width if it has no bit set.
        Clz => a.leading_zeros().into(),
        Ctz => a.trailing_zeros().into(),
        Cpop => a.count_ones().into(),
        Clzw => a_w.leading_zeros().into(),
        Ctzw => a_w.trailing_zeros().into(),
        Cpopw => a_w.count_ones().into(),
        Min => (a as i64).min(b as i64) as u64,
        Minu => a.min(b),
        Max => (a as i64).max(b as i64) as u64,
        Maxu => a.max(b),
        SextB => a as i8 as u64,
        SextH => a as i16 as u64,
        ZextH => a & 0xffff,
        Rol => a.rotate_left(b_w & 63),
        Ror => a.rotate_right(b_w & 63),
        Rori => a.rotate_right(amount & 63),
        Rolw => word(a_w.rotate_left(b_w & 31)),
        Rorw => word(a_w.rotate_right(b_w & 31)),
        Roriw => word(a_w.rotate_right(amount & 31)),
        OrcB => u64::from_le_bytes(a.to_le_bytes().map(|byte| if byte == 0 { 0 } else { 0xff })),
        Rev8 => a.swap_bytes(),

        Bset => a | 1 << (b & 63),
        Bclr => a & !(1 << (b & 63)),
        Binv => a ^ 1 << (b & 63),
        Bext => a >> (b & 63) & 1,
        Bseti => a | 1 << (amount & 63),
        Bclri => a & !(1 << (amount & 63)),
        Binvi => a ^ 1 << (amount & 63),
        Bexti => a >> (amount & 63) & 1,

        _ => 0,
    }
}

/// The floating-point half of [`evaluate`], out of line because its size would slow down integer
/// instructions.
#[inline(never)]
fn evaluate_float(i: &Instruction, a: u64, b: u64, c: u64, frm: u8, flags: &mut u8) -> u64 {
    use Operation::*;
    let mode = if i.rounding == 7 { frm } else { i.rounding };
    let [x, y, z] = [a, b, c].map(single); // the operands of single precision
    match i.operation {
        FaddS => boxed(float::add::<Single>(x, y, mode, flags)),
        FsubS => boxed(float::sub::<Single>(x, y, mode, flags)),
        FmulS => boxed(float::mul::<Single>(x, y, mode, flags)),
        FdivS => boxed(float::div::<Single>(x, y, mode, flags)),
        FsqrtS => boxed(float::sqrt::<Single>(x, mode, flags)),
        FaddD => float::add::<Double>(a, b, mode, flags),
        FsubD => float::sub::<Double>(a, b, mode, flags),
        FmulD => float::mul::<Double>(a, b, mode, flags),
        FdivD => float::div::<Double>(a, b, mode, flags),
        FsqrtD => float::sqrt::<Double>(a, mode, flags),

        // The products of `fnmsub` and `fnmadd` are negated, and the addends of `fmsub` and
        // `fnmadd`.
        FmaddS => boxed(float::fused::<Single>(x, y, z, mode, flags)),
        FmsubS => boxed(float::fused::<Single>(x, y, z ^ SIGN_S, mode, flags)),
        FnmsubS => boxed(float::fused::<Single>(x ^ SIGN_S, y, z, mode, flags)),
        FnmaddS => boxed(float::fused::<Single>(
            x ^ SIGN_S,
            y,
            z ^ SIGN_S,
            mode,
            flags,
        )),
        FmaddD => float::fused::<Double>(a, b, c, mode, flags),
        FmsubD => float::fused::<Double>(a, b, c ^ SIGN_D, mode, flags),
        FnmsubD => float::fused::<Double>(a ^ SIGN_D, b, c, mode, flags),
        FnmaddD => float::fused::<Double>(a ^ SIGN_D, b, c ^ SIGN_D, mode, flags),

        FsgnjS => boxed(x & !SIGN_S | y & SIGN_S),
        FsgnjnS => boxed(x & !SIGN_S | !y & SIGN_S),
        FsgnjxS => boxed(x ^ y & SIGN_S),
        FsgnjD => a & !SIGN_D | b & SIGN_D,
        FsgnjnD => a & !SIGN_D | !b & SIGN_D,
        FsgnjxD => a ^ b & SIGN_D,
        FminS => boxed(float::min::<Single>(x, y, flags)),
        FmaxS => boxed(float::max::<Single>(x, y, flags)),
        FminD => float::min::<Double>(a, b, flags),
        FmaxD => float::max::<Double>(a, b, flags),
        FleS => float::less_or_equal::<Single>(x, y, flags).into(),
        FltS => float::less::<Single>(x, y, flags).into(),
        FeqS => float::equal::<Single>(x, y, flags).into(),
        FleD => float::less_or_equal::<Double>(a, b, flags).into(),
        FltD => float::less::<Double>(a, b, flags).into(),
        FeqD => float::equal::<Double>(a, b, flags).into(),
        FclassS => float::class::<Single>(x),
        FclassD => float::class::<Double>(a),

        // Moves take the bits unchanged, boxed or not.
        FmvXW => word(a as u32),
        FmvWX => boxed(a & 0xffff_ffff),
        FmvXD | FmvDX => a,

        FcvtSD => boxed(float::convert::<Double, Single>(a, mode, flags)),
        FcvtDS => float::convert::<Single, Double>(x, mode, flags),
        FcvtWS => float::to_i32::<Single>(x, mode, flags) as u64,
        FcvtWuS => word(float::to_u32::<Single>(x, mode, flags)),
        FcvtLS => float::to_i64::<Single>(x, mode, flags) as u64,
        FcvtLuS => float::to_u64::<Single>(x, mode, flags),
        FcvtWD => float::to_i32::<Double>(a, mode, flags) as u64,
        FcvtWuD => word(float::to_u32::<Double>(a, mode, flags)),
        FcvtLD => float::to_i64::<Double>(a, mode, flags) as u64,
        FcvtLuD => float::to_u64::<Double>(a, mode, flags),
        FcvtSW => boxed(float::from_i64::<Single>(i64::from(a as i32), mode, flags)),
        FcvtSWu => boxed(float::from_u64::<Single>(a & 0xffff_ffff, mode, flags)),
        FcvtSL => boxed(float::from_i64::<Single>(a as i64, mode, flags)),
        FcvtSLu => boxed(float::from_u64::<Single>(a, mode, flags)),
        FcvtDW => float::from_i64::<Double>(i64::from(a as i32), mode, flags),
        FcvtDWu => float::from_u64::<Double>(a & 0xffff_ffff, mode, flags),
        FcvtDL => float::from_i64::<Double>(a as i64, mode, flags),
        FcvtDLu => float::from_u64::<Double>(a, mode, flags),

        _ => 0,
    }
}

/// Whether a conditional branch is taken; `a` and `b` are the values of `rs1` and `rs2`.
/// False for other instructions.
#[inline]
pub fn branch_taken(operation: Operation, a: u64, b: u64) -> bool {
    match operation {
        Operation::Beq => a == b,
        Operation::Bne => a != b,
        Operation::Blt => (a as i64) < b as i64,
        Operation::Bge => a as i64 >= b as i64,
        Operation::Bltu => a < b,
        Operation::Bgeu => a >= b,
        _ => false,
    }
}

/// Whether the instruction uses a reserved rounding mode, and so is illegal: 5 or 6 in the
/// instruction, or the dynamic mode when `frm` is 5 or more. "F" Extension, section "Floating-Point
/// Control and Status Register".
#[inline]
pub fn illegal_rounding(i: &Instruction, frm: u8) -> bool {
    matches!(i.rounding, 5 | 6) || i.rounding == 7 && frm >= 5
}

impl Instruction {
    /// Bytes of memory that a load, store or atomic accesses: 1, 2, 4 or 8. Otherwise 0.
    #[inline]
    pub fn access_bytes(&self) -> u8 {
        use Operation::*;
        match self.operation {
            Lb | Lbu | Sb => 1,
            Lh | Lhu | Sh => 2,
            Lw | Lwu | Flw | Sw | Fsw => 4,
            Ld | Fld | Sd | Fsd => 8,
            LrW | ScW | AmoswapW | AmoaddW | AmoxorW | AmoandW | AmoorW | AmominW | AmomaxW
            | AmominuW | AmomaxuW => 4,
            LrD | ScD | AmoswapD | AmoaddD | AmoxorD | AmoandD | AmoorD | AmominD | AmomaxD
            | AmominuD | AmomaxuD => 8,
            _ => 0,
        }
    }

    /// The address that a load, store or atomic accesses; `a` is the value of `rs1`.
    #[inline]
    pub fn address(&self, a: u64) -> u64 {
        a.wrapping_add(self.immediate as u64) // atomics have immediate 0
    }

    /// The register value of a load, `lr` or AMO when memory holds `raw` (of
    /// [`Self::access_bytes`], little-endian, zero-extended): sign-extended, or for a single
    /// NaN-boxed.
    #[inline]
    pub fn load_value(&self, raw: u64) -> u64 {
        use Operation::*;
        match self.operation {
            Lb => raw as i8 as u64,
            Lh => raw as i16 as u64,
            Lbu => raw & 0xff,
            Lhu => raw & 0xffff,
            Lwu => raw & 0xffff_ffff,
            Flw => boxed(raw & 0xffff_ffff),
            Ld | Fld => raw,
            _ if self.access_bytes() == 4 => word(raw as u32),
            _ => raw,
        }
    }

    /// The value that a store or `sc` writes to memory: the low [`Self::access_bytes`] of `rs2`,
    /// zero-extended.
    #[inline]
    pub fn store_value(&self, b: u64) -> u64 {
        match self.access_bytes() {
            1 => b & 0xff,
            2 => b & 0xffff,
            4 => b & 0xffff_ffff,
            _ => b,
        }
    }

    /// The value that an AMO writes to memory holding `old`, when its operand (`rs2`) is `operand`;
    /// inputs and output are zero-extended from [`Self::access_bytes`] (higher bits of the operand
    /// are ignored).
    #[inline]
    pub fn atomic_result(&self, old: u64, operand: u64) -> u64 {
        use Operation::*;
        let (old_w, operand_w) = (old as u32, operand as u32);
        match self.operation {
            AmoswapW => u64::from(operand_w),
            AmoaddW => u64::from(old_w.wrapping_add(operand_w)),
            AmoxorW => u64::from(old_w ^ operand_w),
            AmoandW => u64::from(old_w & operand_w),
            AmoorW => u64::from(old_w | operand_w),
            AmominW => u64::from((old_w as i32).min(operand_w as i32) as u32),
            AmomaxW => u64::from((old_w as i32).max(operand_w as i32) as u32),
            AmominuW => u64::from(old_w.min(operand_w)),
            AmomaxuW => u64::from(old_w.max(operand_w)),
            AmoswapD => operand,
            AmoaddD => old.wrapping_add(operand),
            AmoxorD => old ^ operand,
            AmoandD => old & operand,
            AmoorD => old | operand,
            AmominD => (old as i64).min(operand as i64) as u64,
            AmomaxD => (old as i64).max(operand as i64) as u64,
            AmominuD => old.min(operand),
            AmomaxuD => old.max(operand),
            _ => old,
        }
    }

    /// The target of a jump or a taken branch; `a` is the value of `rs1`.
    #[inline]
    pub fn jump_target(&self, pc: u64, a: u64) -> u64 {
        match self.class {
            Class::JumpRegister => a.wrapping_add(self.immediate as u64) & !1,
            _ => pc.wrapping_add(self.immediate as u64),
        }
    }

    /// Address of the next instruction in memory.
    #[inline]
    pub fn next(&self, pc: u64) -> u64 {
        pc.wrapping_add(u64::from(self.length))
    }
}

const SIGN_S: u64 = 1 << 31;
const SIGN_D: u64 = 1 << 63;

/// A 32-bit result in a 64-bit register.
#[inline]
fn word(value: u32) -> u64 {
    value as i32 as u64
}

/// A single in a 64-bit register. "D" Extension, section "NaN Boxing of Narrower Values".
#[inline]
fn boxed(value: u64) -> u64 {
    value | 0xffff_ffff_0000_0000
}

/// The single in a 64-bit register: the canonical NaN if it is not boxed.
#[inline]
fn single(register: u64) -> u64 {
    if register >> 32 == 0xffff_ffff {
        register & 0xffff_ffff
    } else {
        0x7fc0_0000
    }
}
