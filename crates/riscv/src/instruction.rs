//! Decoded instructions, and the table of all instructions.

use crate::decode::{
    FUNCT3, Pattern, amo, csr, float, float_unary, float3, float3_unary, flush, fused, i, lr,
    major, prefetch, r, shift, unary, whole,
};
use crate::execute::{Evaluator, evaluate_nothing, evaluate_one};

/// Number of a register in a file of 65: 0 to 31 are `x0` to `x31`, 32 to 63 are `f0` to
/// `f31`, and [`SINK`] takes discarded results.
pub type Register = u8;

/// Destination of instructions that write no register or write `x0`. A register file of 65 entries,
/// whose entry 0 is therefore never written, needs no test for `x0`.
pub const SINK: Register = 64;

/// One decoded instruction. Compressed instructions appear as their expansions, with `length` 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Which instruction it is.
    pub operation: Operation,
    /// The kind of work, for models of time.
    pub class: Class,
    /// Destination, or [`SINK`].
    pub rd: Register,
    /// First source, or 0 (`x0`) if there is none. The address of loads, stores and atomics.
    pub rs1: Register,
    /// Second source, or 0 (`x0`) if there is none. The data of stores and atomics.
    pub rs2: Register,
    /// Third source (fused multiply-add only), or 0 (`x0`) if there is none.
    pub rs3: Register,
    /// Size in bytes: 2 or 4.
    pub length: u8,
    /// Rounding mode field of floating-point instructions (7: use `frm`), otherwise 0.
    pub rounding: u8,
    /// Sign-extended immediate. `lui` and `auipc`: already shifted left by 12. CSR
    /// instructions: the CSR's number in bits 11:0, the 5-bit immediate of `csrrwi` and its
    /// kin in bits 16:12. `fence`: the fields `fm`, `pred` and `succ`. Custom instructions:
    /// bits 31:20, sign-extended.
    pub immediate: i32,
    /// The encoding in memory; the upper half is zero if compressed.
    pub bits: u32,
}

/// The state is the encoding alone.
impl state::State for Instruction {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        let mut bits = self.bits;
        bits.walk(walker);
        if bits != self.bits {
            *self = crate::decode(bits);
        }
    }
}

impl state::Plain for Instruction {
    fn blank() -> Instruction {
        crate::decode(0)
    }
}

/// The kind of work that an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Integer arithmetic, logic, shifts, bit manipulation, `lui`, `auipc`.
    Alu,
    /// Integer multiplication.
    Multiply,
    /// Integer division and remainder.
    Divide,
    /// Conditional branch.
    Branch,
    /// `jal`.
    Jump,
    /// `jalr`.
    JumpRegister,
    /// Integer or floating-point load.
    Load,
    /// Integer or floating-point store.
    Store,
    /// `prefetch.i`, `prefetch.r`, `prefetch.w`: hints that change no value.
    Prefetch,
    /// Floating-point addition and subtraction.
    FloatAdd,
    /// Floating-point comparison, minimum, maximum, sign injection, classification.
    FloatMisc,
    /// Conversion between floating-point formats, or between floating point and integer.
    FloatConvert,
    /// `fmv` between the integer and the floating-point file.
    FloatMove,
    /// Floating-point multiplication.
    FloatMultiply,
    /// Fused multiply-add.
    FloatFused,
    /// Floating-point division.
    FloatDivide,
    /// Square root.
    FloatSqrt,
    /// Atomic read-modify-write (AMO).
    Atomic,
    /// `lr`.
    LoadReserved,
    /// `sc`.
    StoreConditional,
    /// `fence`, and the hints encoded in it.
    Fence,
    /// `fence.i`.
    FenceI,
    /// Access to a control and status register.
    Csr,
    /// `ecall`, `ebreak`, `mret`, `wfi`, `wrs.nto`, `wrs.sto`.
    System,
    /// One of the four opcodes set aside for extensions.
    Custom,
    /// Not an instruction of this machine.
    Illegal,
}

impl Class {
    /// Whether it accesses data memory.
    #[inline]
    pub const fn is_memory(self) -> bool {
        matches!(
            self,
            Class::Load
                | Class::Store
                | Class::Atomic
                | Class::LoadReserved
                | Class::StoreConditional
        )
    }

    /// Whether the next instruction may be elsewhere: branches and jumps. (Traps and `mret` also
    /// change the program counter; see [`Class::ends_block`].)
    #[inline]
    pub const fn is_control(self) -> bool {
        matches!(self, Class::Branch | Class::Jump | Class::JumpRegister)
    }

    /// Whether a basic block must end after it: control transfers, instructions that can change how
    /// the following ones are fetched or executed, and instructions that always trap.
    #[inline]
    pub const fn ends_block(self) -> bool {
        self.is_control()
            || matches!(
                self,
                Class::FenceI | Class::Csr | Class::System | Class::Illegal
            )
    }

    /// Whether it computes on floating-point registers. Floating-point loads and stores are
    /// [`Class::Load`] and [`Class::Store`]; see [`Instruction::is_float`].
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Class::FloatAdd
                | Class::FloatMisc
                | Class::FloatConvert
                | Class::FloatMove
                | Class::FloatMultiply
                | Class::FloatFused
                | Class::FloatDivide
                | Class::FloatSqrt
        )
    }
}

/// The operand fields of an encoding, and their assembly syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// No operands.
    Bare,
    /// `rd, immediate << 12`.
    Upper,
    /// `rd, target`.
    Jump,
    /// `rd, offset(rs1)`: `jalr` and loads.
    Load,
    /// `fd, offset(rs1)`.
    FloatLoad,
    /// `rs2, offset(rs1)`.
    Store,
    /// `fs2, offset(rs1)`.
    FloatStore,
    /// `offset(rs1)`.
    Prefetch,
    /// `rs1, rs2, target`.
    Branch,
    /// `rd, rs1, immediate`.
    Immediate,
    /// `rd, rs1, shift amount`.
    Shift,
    /// `rd, rs1, rs2`.
    Register,
    /// `rs1, rs2`.
    Flush,
    /// `rd, rs1`.
    Unary,
    /// `rd, (rs1)`.
    Reserve,
    /// `rd, rs2, (rs1)`.
    Atomic,
    /// `rd, csr, rs1`.
    Csr,
    /// `rd, csr, immediate`.
    CsrImmediate,
    /// `predecessors, successors`.
    Fence,
    /// `fd, fs1, fs2, fs3`.
    Float4,
    /// `fd, fs1, fs2`.
    Float3,
    /// `fd, fs1`.
    Float2,
    /// `rd, fs1, fs2`.
    FloatCompare,
    /// `rd, fs1`.
    FloatToInteger,
    /// `fd, rs1`.
    IntegerToFloat,
    /// An extension's own.
    Custom,
}

/// A row of the table of instructions.
pub(crate) struct Entry {
    pub operation: Operation,
    pub mnemonic: &'static str,
    pub class: Class,
    pub format: Format,
    pub pattern: Pattern,
}

impl Entry {
    pub fn takes_rounding(&self) -> bool {
        self.class.is_float() && self.pattern.mask & FUNCT3 == 0
    }
}

macro_rules! instructions {
    ($($operation:ident $mnemonic:literal $class:ident $format:ident $pattern:expr;)*) => {
        /// Every instruction, under the name the manual gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation {
            $(#[doc = concat!("`", $mnemonic, "`")] $operation,)*
            /// One of the four opcodes set aside for extensions (custom-0 to custom-3).
            Custom,
            /// Not an instruction of this machine.
            Illegal,
        }

        impl Operation {
            /// All operations, in the order of the type.
            pub fn all() -> impl Iterator<Item = Operation> {
                [$(Operation::$operation,)* Operation::Custom, Operation::Illegal].into_iter()
            }

            /// The function that computes it: see [`evaluator`](crate::evaluator).
            pub(crate) fn evaluator(self) -> Evaluator {
                match self {
                    $(Operation::$operation => evaluate_one::<{ Operation::$operation as u8 }>,)*
                    Operation::Custom | Operation::Illegal => evaluate_nothing,
                }
            }
        }

        /// All instructions but `Custom` and `Illegal`, in the order of [`Operation`].
        pub(crate) const TABLE: &[Entry] = &[
            $(Entry {
                operation: Operation::$operation,
                mnemonic: $mnemonic,
                class: Class::$class,
                format: Format::$format,
                pattern: $pattern,
            },)*
        ];
    };
}

// Instructions of one major opcode are adjacent: `decode` relies on it.
instructions! {
    Lui       "lui"       Alu     Upper     major(0x37);
    Auipc     "auipc"     Alu     Upper     major(0x17);
    Jal       "jal"       Jump    Jump      major(0x6f);
    Jalr      "jalr"      JumpRegister Load i(0x67, 0);

    Beq       "beq"       Branch  Branch    i(0x63, 0);
    Bne       "bne"       Branch  Branch    i(0x63, 1);
    Blt       "blt"       Branch  Branch    i(0x63, 4);
    Bge       "bge"       Branch  Branch    i(0x63, 5);
    Bltu      "bltu"      Branch  Branch    i(0x63, 6);
    Bgeu      "bgeu"      Branch  Branch    i(0x63, 7);

    Lb        "lb"        Load    Load      i(0x03, 0);
    Lh        "lh"        Load    Load      i(0x03, 1);
    Lw        "lw"        Load    Load      i(0x03, 2);
    Ld        "ld"        Load    Load      i(0x03, 3);
    Lbu       "lbu"       Load    Load      i(0x03, 4);
    Lhu       "lhu"       Load    Load      i(0x03, 5);
    Lwu       "lwu"       Load    Load      i(0x03, 6);
    Flw       "flw"       Load    FloatLoad i(0x07, 2);
    Fld       "fld"       Load    FloatLoad i(0x07, 3);

    Sb        "sb"        Store   Store     i(0x23, 0);
    Sh        "sh"        Store   Store     i(0x23, 1);
    Sw        "sw"        Store   Store     i(0x23, 2);
    Sd        "sd"        Store   Store     i(0x23, 3);
    Fsw       "fsw"       Store   FloatStore i(0x27, 2);
    Fsd       "fsd"       Store   FloatStore i(0x27, 3);

    Addi      "addi"      Alu     Immediate i(0x13, 0);
    Slti      "slti"      Alu     Immediate i(0x13, 2);
    Sltiu     "sltiu"     Alu     Immediate i(0x13, 3);
    Xori      "xori"      Alu     Immediate i(0x13, 4);
    // "ori" to `x0`, which must precede "ori".
    PrefetchI "prefetch.i" Prefetch Prefetch prefetch(0);
    PrefetchR "prefetch.r" Prefetch Prefetch prefetch(1);
    PrefetchW "prefetch.w" Prefetch Prefetch prefetch(3);
    Ori       "ori"       Alu     Immediate i(0x13, 6);
    Andi      "andi"      Alu     Immediate i(0x13, 7);
    Slli      "slli"      Alu     Shift     shift(0x13, 1, 0x00);
    Srli      "srli"      Alu     Shift     shift(0x13, 5, 0x00);
    Srai      "srai"      Alu     Shift     shift(0x13, 5, 0x10);
    Rori      "rori"      Alu     Shift     shift(0x13, 5, 0x18);
    Bseti     "bseti"     Alu     Shift     shift(0x13, 1, 0x0a);
    Bclri     "bclri"     Alu     Shift     shift(0x13, 1, 0x12);
    Binvi     "binvi"     Alu     Shift     shift(0x13, 1, 0x1a);
    Bexti     "bexti"     Alu     Shift     shift(0x13, 5, 0x12);
    Clz       "clz"       Alu     Unary     unary(0x13, 1, 0x600);
    Ctz       "ctz"       Alu     Unary     unary(0x13, 1, 0x601);
    Cpop      "cpop"      Alu     Unary     unary(0x13, 1, 0x602);
    SextB     "sext.b"    Alu     Unary     unary(0x13, 1, 0x604);
    SextH     "sext.h"    Alu     Unary     unary(0x13, 1, 0x605);
    OrcB      "orc.b"     Alu     Unary     unary(0x13, 5, 0x287);
    Rev8      "rev8"      Alu     Unary     unary(0x13, 5, 0x6b8);

    Addiw     "addiw"     Alu     Immediate i(0x1b, 0);
    Slliw     "slliw"     Alu     Shift     r(0x1b, 1, 0x00);
    Srliw     "srliw"     Alu     Shift     r(0x1b, 5, 0x00);
    Sraiw     "sraiw"     Alu     Shift     r(0x1b, 5, 0x20);
    Roriw     "roriw"     Alu     Shift     r(0x1b, 5, 0x30);
    SlliUw    "slli.uw"   Alu     Shift     shift(0x1b, 1, 0x02);
    Clzw      "clzw"      Alu     Unary     unary(0x1b, 1, 0x600);
    Ctzw      "ctzw"      Alu     Unary     unary(0x1b, 1, 0x601);
    Cpopw     "cpopw"     Alu     Unary     unary(0x1b, 1, 0x602);

    Add       "add"       Alu     Register  r(0x33, 0, 0x00);
    Sub       "sub"       Alu     Register  r(0x33, 0, 0x20);
    Sll       "sll"       Alu     Register  r(0x33, 1, 0x00);
    Slt       "slt"       Alu     Register  r(0x33, 2, 0x00);
    Sltu      "sltu"      Alu     Register  r(0x33, 3, 0x00);
    Xor       "xor"       Alu     Register  r(0x33, 4, 0x00);
    Srl       "srl"       Alu     Register  r(0x33, 5, 0x00);
    Sra       "sra"       Alu     Register  r(0x33, 5, 0x20);
    Or        "or"        Alu     Register  r(0x33, 6, 0x00);
    And       "and"       Alu     Register  r(0x33, 7, 0x00);
    Mul       "mul"       Multiply Register r(0x33, 0, 0x01);
    Mulh      "mulh"      Multiply Register r(0x33, 1, 0x01);
    Mulhsu    "mulhsu"    Multiply Register r(0x33, 2, 0x01);
    Mulhu     "mulhu"     Multiply Register r(0x33, 3, 0x01);
    Div       "div"       Divide  Register  r(0x33, 4, 0x01);
    Divu      "divu"      Divide  Register  r(0x33, 5, 0x01);
    Rem       "rem"       Divide  Register  r(0x33, 6, 0x01);
    Remu      "remu"      Divide  Register  r(0x33, 7, 0x01);
    Sh1add    "sh1add"    Alu     Register  r(0x33, 2, 0x10);
    Sh2add    "sh2add"    Alu     Register  r(0x33, 4, 0x10);
    Sh3add    "sh3add"    Alu     Register  r(0x33, 6, 0x10);
    Andn      "andn"      Alu     Register  r(0x33, 7, 0x20);
    Orn       "orn"       Alu     Register  r(0x33, 6, 0x20);
    Xnor      "xnor"      Alu     Register  r(0x33, 4, 0x20);
    Min       "min"       Alu     Register  r(0x33, 4, 0x05);
    Minu      "minu"      Alu     Register  r(0x33, 5, 0x05);
    Max       "max"       Alu     Register  r(0x33, 6, 0x05);
    Maxu      "maxu"      Alu     Register  r(0x33, 7, 0x05);
    Rol       "rol"       Alu     Register  r(0x33, 1, 0x30);
    Ror       "ror"       Alu     Register  r(0x33, 5, 0x30);
    Bset      "bset"      Alu     Register  r(0x33, 1, 0x14);
    Bclr      "bclr"      Alu     Register  r(0x33, 1, 0x24);
    Binv      "binv"      Alu     Register  r(0x33, 1, 0x34);
    Bext      "bext"      Alu     Register  r(0x33, 5, 0x24);

    Addw      "addw"      Alu     Register  r(0x3b, 0, 0x00);
    Subw      "subw"      Alu     Register  r(0x3b, 0, 0x20);
    Sllw      "sllw"      Alu     Register  r(0x3b, 1, 0x00);
    Srlw      "srlw"      Alu     Register  r(0x3b, 5, 0x00);
    Sraw      "sraw"      Alu     Register  r(0x3b, 5, 0x20);
    Mulw      "mulw"      Multiply Register r(0x3b, 0, 0x01);
    Divw      "divw"      Divide  Register  r(0x3b, 4, 0x01);
    Divuw     "divuw"     Divide  Register  r(0x3b, 5, 0x01);
    Remw      "remw"      Divide  Register  r(0x3b, 6, 0x01);
    Remuw     "remuw"     Divide  Register  r(0x3b, 7, 0x01);
    AddUw     "add.uw"    Alu     Register  r(0x3b, 0, 0x04);
    Sh1addUw  "sh1add.uw" Alu     Register  r(0x3b, 2, 0x10);
    Sh2addUw  "sh2add.uw" Alu     Register  r(0x3b, 4, 0x10);
    Sh3addUw  "sh3add.uw" Alu     Register  r(0x3b, 6, 0x10);
    Rolw      "rolw"      Alu     Register  r(0x3b, 1, 0x30);
    Rorw      "rorw"      Alu     Register  r(0x3b, 5, 0x30);
    ZextH     "zext.h"    Alu     Unary     unary(0x3b, 4, 0x080);

    Fence     "fence"     Fence   Fence     i(0x0f, 0);
    FenceI    "fence.i"   FenceI  Bare      i(0x0f, 1);

    Ecall     "ecall"     System  Bare      whole(0x0000_0073);
    Ebreak    "ebreak"    System  Bare      whole(0x0010_0073);
    Sret      "sret"      System  Bare      whole(0x1020_0073);
    Mret      "mret"      System  Bare      whole(0x3020_0073);
    SfenceVma "sfence.vma" System Flush     flush(0x09);
    Wfi       "wfi"       System  Bare      whole(0x1050_0073);
    WrsNto    "wrs.nto"   System  Bare      whole(0x00d0_0073);
    WrsSto    "wrs.sto"   System  Bare      whole(0x01d0_0073);
    Csrrw     "csrrw"     Csr     Csr       csr(1);
    Csrrs     "csrrs"     Csr     Csr       csr(2);
    Csrrc     "csrrc"     Csr     Csr       csr(3);
    Csrrwi    "csrrwi"    Csr     CsrImmediate csr(5);
    Csrrsi    "csrrsi"    Csr     CsrImmediate csr(6);
    Csrrci    "csrrci"    Csr     CsrImmediate csr(7);

    LrW       "lr.w"      LoadReserved Reserve lr(2);
    ScW       "sc.w"      StoreConditional Atomic amo(2, 0x03);
    AmoswapW  "amoswap.w" Atomic  Atomic    amo(2, 0x01);
    AmoaddW   "amoadd.w"  Atomic  Atomic    amo(2, 0x00);
    AmoxorW   "amoxor.w"  Atomic  Atomic    amo(2, 0x04);
    AmoandW   "amoand.w"  Atomic  Atomic    amo(2, 0x0c);
    AmoorW    "amoor.w"   Atomic  Atomic    amo(2, 0x08);
    AmominW   "amomin.w"  Atomic  Atomic    amo(2, 0x10);
    AmomaxW   "amomax.w"  Atomic  Atomic    amo(2, 0x14);
    AmominuW  "amominu.w" Atomic  Atomic    amo(2, 0x18);
    AmomaxuW  "amomaxu.w" Atomic  Atomic    amo(2, 0x1c);
    LrD       "lr.d"      LoadReserved Reserve lr(3);
    ScD       "sc.d"      StoreConditional Atomic amo(3, 0x03);
    AmoswapD  "amoswap.d" Atomic  Atomic    amo(3, 0x01);
    AmoaddD   "amoadd.d"  Atomic  Atomic    amo(3, 0x00);
    AmoxorD   "amoxor.d"  Atomic  Atomic    amo(3, 0x04);
    AmoandD   "amoand.d"  Atomic  Atomic    amo(3, 0x0c);
    AmoorD    "amoor.d"   Atomic  Atomic    amo(3, 0x08);
    AmominD   "amomin.d"  Atomic  Atomic    amo(3, 0x10);
    AmomaxD   "amomax.d"  Atomic  Atomic    amo(3, 0x14);
    AmominuD  "amominu.d" Atomic  Atomic    amo(3, 0x18);
    AmomaxuD  "amomaxu.d" Atomic  Atomic    amo(3, 0x1c);

    FmaddS    "fmadd.s"   FloatFused Float4 fused(0x43, 0);
    FmaddD    "fmadd.d"   FloatFused Float4 fused(0x43, 1);
    FmsubS    "fmsub.s"   FloatFused Float4 fused(0x47, 0);
    FmsubD    "fmsub.d"   FloatFused Float4 fused(0x47, 1);
    FnmsubS   "fnmsub.s"  FloatFused Float4 fused(0x4b, 0);
    FnmsubD   "fnmsub.d"  FloatFused Float4 fused(0x4b, 1);
    FnmaddS   "fnmadd.s"  FloatFused Float4 fused(0x4f, 0);
    FnmaddD   "fnmadd.d"  FloatFused Float4 fused(0x4f, 1);

    FaddS     "fadd.s"    FloatAdd      Float3 float(0x00);
    FaddD     "fadd.d"    FloatAdd      Float3 float(0x01);
    FsubS     "fsub.s"    FloatAdd      Float3 float(0x04);
    FsubD     "fsub.d"    FloatAdd      Float3 float(0x05);
    FmulS     "fmul.s"    FloatMultiply Float3 float(0x08);
    FmulD     "fmul.d"    FloatMultiply Float3 float(0x09);
    FdivS     "fdiv.s"    FloatDivide   Float3 float(0x0c);
    FdivD     "fdiv.d"    FloatDivide   Float3 float(0x0d);
    FsqrtS    "fsqrt.s"   FloatSqrt     Float2 float_unary(0x2c, 0);
    FsqrtD    "fsqrt.d"   FloatSqrt     Float2 float_unary(0x2d, 0);
    FsgnjS    "fsgnj.s"   FloatMisc     Float3 float3(0x10, 0);
    FsgnjnS   "fsgnjn.s"  FloatMisc     Float3 float3(0x10, 1);
    FsgnjxS   "fsgnjx.s"  FloatMisc     Float3 float3(0x10, 2);
    FsgnjD    "fsgnj.d"   FloatMisc     Float3 float3(0x11, 0);
    FsgnjnD   "fsgnjn.d"  FloatMisc     Float3 float3(0x11, 1);
    FsgnjxD   "fsgnjx.d"  FloatMisc     Float3 float3(0x11, 2);
    FminS     "fmin.s"    FloatMisc     Float3 float3(0x14, 0);
    FmaxS     "fmax.s"    FloatMisc     Float3 float3(0x14, 1);
    FminD     "fmin.d"    FloatMisc     Float3 float3(0x15, 0);
    FmaxD     "fmax.d"    FloatMisc     Float3 float3(0x15, 1);
    FleS      "fle.s"     FloatMisc     FloatCompare float3(0x50, 0);
    FltS      "flt.s"     FloatMisc     FloatCompare float3(0x50, 1);
    FeqS      "feq.s"     FloatMisc     FloatCompare float3(0x50, 2);
    FleD      "fle.d"     FloatMisc     FloatCompare float3(0x51, 0);
    FltD      "flt.d"     FloatMisc     FloatCompare float3(0x51, 1);
    FeqD      "feq.d"     FloatMisc     FloatCompare float3(0x51, 2);
    FclassS   "fclass.s"  FloatMisc     FloatToInteger float3_unary(0x70, 0, 1);
    FclassD   "fclass.d"  FloatMisc     FloatToInteger float3_unary(0x71, 0, 1);
    FmvXW     "fmv.x.w"   FloatMove     FloatToInteger float3_unary(0x70, 0, 0);
    FmvXD     "fmv.x.d"   FloatMove     FloatToInteger float3_unary(0x71, 0, 0);
    FmvWX     "fmv.w.x"   FloatMove     IntegerToFloat float3_unary(0x78, 0, 0);
    FmvDX     "fmv.d.x"   FloatMove     IntegerToFloat float3_unary(0x79, 0, 0);
    FcvtSD    "fcvt.s.d"  FloatConvert  Float2 float_unary(0x20, 1);
    FcvtDS    "fcvt.d.s"  FloatConvert  Float2 float_unary(0x21, 0);
    FcvtWS    "fcvt.w.s"  FloatConvert  FloatToInteger float_unary(0x60, 0);
    FcvtWuS   "fcvt.wu.s" FloatConvert  FloatToInteger float_unary(0x60, 1);
    FcvtLS    "fcvt.l.s"  FloatConvert  FloatToInteger float_unary(0x60, 2);
    FcvtLuS   "fcvt.lu.s" FloatConvert  FloatToInteger float_unary(0x60, 3);
    FcvtWD    "fcvt.w.d"  FloatConvert  FloatToInteger float_unary(0x61, 0);
    FcvtWuD   "fcvt.wu.d" FloatConvert  FloatToInteger float_unary(0x61, 1);
    FcvtLD    "fcvt.l.d"  FloatConvert  FloatToInteger float_unary(0x61, 2);
    FcvtLuD   "fcvt.lu.d" FloatConvert  FloatToInteger float_unary(0x61, 3);
    FcvtSW    "fcvt.s.w"  FloatConvert  IntegerToFloat float_unary(0x68, 0);
    FcvtSWu   "fcvt.s.wu" FloatConvert  IntegerToFloat float_unary(0x68, 1);
    FcvtSL    "fcvt.s.l"  FloatConvert  IntegerToFloat float_unary(0x68, 2);
    FcvtSLu   "fcvt.s.lu" FloatConvert  IntegerToFloat float_unary(0x68, 3);
    FcvtDW    "fcvt.d.w"  FloatConvert  IntegerToFloat float_unary(0x69, 0);
    FcvtDWu   "fcvt.d.wu" FloatConvert  IntegerToFloat float_unary(0x69, 1);
    FcvtDL    "fcvt.d.l"  FloatConvert  IntegerToFloat float_unary(0x69, 2);
    FcvtDLu   "fcvt.d.lu" FloatConvert  IntegerToFloat float_unary(0x69, 3);
}

impl Operation {
    /// The assembler's name, such as `amoadd.w`. (`.insn` and `.word` for instructions without a
    /// name.)
    pub fn mnemonic(self) -> &'static str {
        match self {
            Operation::Custom => ".insn",
            Operation::Illegal => ".word",
            _ => TABLE[self as usize].mnemonic,
        }
    }

    /// Whether it has a rounding mode in the place of `funct3`.
    pub(crate) fn takes_rounding(self) -> bool {
        TABLE.get(self as usize).is_some_and(Entry::takes_rounding)
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Operation::Custom | Operation::Illegal => Format::Custom,
            _ => TABLE[self as usize].format,
        }
    }
}

impl Instruction {
    /// An illegal instruction, which traps when executed.
    pub const fn illegal(bits: u32, length: u8) -> Instruction {
        Instruction {
            operation: Operation::Illegal,
            class: Class::Illegal,
            rd: SINK,
            rs1: 0,
            rs2: 0,
            rs3: 0,
            length,
            rounding: 0,
            immediate: 0,
            bits,
        }
    }

    /// Whether it needs the floating-point unit, and so traps when `mstatus.FS` is Off.
    #[inline]
    pub fn is_float(&self) -> bool {
        use Operation::{Fld, Flw, Fsd, Fsw};
        self.class.is_float() || matches!(self.operation, Flw | Fld | Fsw | Fsd)
    }

    /// Whether it writes a floating-point register, and so makes `mstatus.FS` Dirty.
    #[inline]
    pub fn writes_float(&self) -> bool {
        (32..SINK).contains(&self.rd)
    }

    /// Number of the CSR that a CSR instruction names.
    #[inline]
    pub fn csr_number(&self) -> u16 {
        (self.immediate & 0xfff) as u16
    }

    /// The 5-bit immediate of `csrrwi`, `csrrsi` and `csrrci`.
    #[inline]
    pub fn csr_immediate(&self) -> u64 {
        (self.immediate >> 12) as u64 & 0x1f
    }

    /// The field `funct3`, which distinguishes custom instructions.
    #[inline]
    pub fn funct3(&self) -> u8 {
        (self.bits >> 12 & 7) as u8
    }

    /// The field `funct7`, which distinguishes custom instructions.
    #[inline]
    pub fn funct7(&self) -> u8 {
        (self.bits >> 25) as u8
    }

    /// Whether an atomic orders later accesses after itself (`.aq`).
    #[inline]
    pub fn acquire(&self) -> bool {
        self.is_atomic() && self.bits >> 26 & 1 != 0
    }

    /// Whether an atomic orders earlier accesses before itself (`.rl`).
    #[inline]
    pub fn release(&self) -> bool {
        self.is_atomic() && self.bits >> 25 & 1 != 0
    }

    /// Whether it belongs to the "A" extension: AMO, `lr`, `sc`. Their addresses must be aligned.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        matches!(
            self.class,
            Class::Atomic | Class::LoadReserved | Class::StoreConditional
        )
    }
}
