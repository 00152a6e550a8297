//! Disassembly of an [`Instruction`].

use crate::instruction::{Format, Instruction, Operation, Register};

const NAMES: [&str; 65] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1",
    "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8",
    "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11", "zero",
];

const ROUNDING: [&str; 8] = ["rne", "rtz", "rdn", "rup", "rmm", "5", "6", "dyn"];

const CSRS: &[(u16, &str)] = &[
    (0x001, "fflags"),
    (0x002, "frm"),
    (0x003, "fcsr"),
    (0x100, "sstatus"),
    (0x104, "sie"),
    (0x105, "stvec"),
    (0x106, "scounteren"),
    (0x10a, "senvcfg"),
    (0x140, "sscratch"),
    (0x141, "sepc"),
    (0x142, "scause"),
    (0x143, "stval"),
    (0x144, "sip"),
    (0x180, "satp"),
    (0x300, "mstatus"),
    (0x301, "misa"),
    (0x302, "medeleg"),
    (0x303, "mideleg"),
    (0x304, "mie"),
    (0x305, "mtvec"),
    (0x306, "mcounteren"),
    (0x30a, "menvcfg"),
    (0x320, "mcountinhibit"),
    (0x340, "mscratch"),
    (0x341, "mepc"),
    (0x342, "mcause"),
    (0x343, "mtval"),
    (0x344, "mip"),
    (0xb00, "mcycle"),
    (0xb02, "minstret"),
    (0xc00, "cycle"),
    (0xc01, "time"),
    (0xc02, "instret"),
    (0xf11, "mvendorid"),
    (0xf12, "marchid"),
    (0xf13, "mimpid"),
    (0xf14, "mhartid"),
    (0xf15, "mconfigptr"),
];

/// The register's name in the calling convention, such as `a0` or `ft1`. A number without a
/// register gives `?`, and [`crate::SINK`] gives `zero`, which it stands for.
pub fn register_name(register: Register) -> &'static str {
    NAMES.get(usize::from(register)).copied().unwrap_or("?")
}

/// The assembly-language names that an extension adds.
#[derive(Debug)]
pub struct Names {
    /// Instructions of type R in custom opcode spaces: their [`Names::r_type`] bits, and their text
    /// with `{rd}`, `{rs1}` and `{rs2}` for the registers. A field that the text does not name is
    /// zero.
    pub instructions: &'static [(u32, &'static str)],
    /// Hints: their complete encodings and their text.
    pub hints: &'static [(u32, &'static str)],
    /// Integer registers with a special meaning.
    pub registers: &'static [(Register, &'static str)],
    /// CSRs; they appear in lower case.
    pub csrs: &'static [(&'static str, u16)],
}

impl Names {
    /// Without an extension.
    pub const STANDARD: Names = Names {
        instructions: &[],
        hints: &[],
        registers: &[],
        csrs: &[],
    };

    /// The bits that identify an instruction of type R; its `funct3` is 0.
    pub const fn r_type(opcode: u32, funct7: u32) -> u32 {
        funct7 << 25 | opcode
    }

    fn register(&self, register: Register) -> &'static str {
        let mut own = self.registers.iter();
        own.find(|(known, _)| *known == register)
            .map_or_else(|| register_name(register), |(_, name)| name)
    }

    /// The name of a CSR; of one without a name, its number.
    pub fn csr(&self, number: u16) -> String {
        let mut own = self.csrs.iter();
        if let Some((name, _)) = own.find(|(_, known)| *known == number) {
            return name.to_lowercase();
        }
        let mut standard = CSRS.iter();
        standard
            .find(|(known, _)| *known == number)
            .map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_string())
    }

    /// The text of a custom instruction, if it is one of the extension's.
    fn custom(&self, bits: u32) -> Option<String> {
        const IDENTITY: u32 = 0xfe00_707f;
        let mut own = self.instructions.iter();
        let (_, text) = own.find(|(identity, _)| bits & IDENTITY == *identity)?;
        let mut shown = (*text).to_string();
        for (name, shift) in [("{rd}", 7), ("{rs1}", 15), ("{rs2}", 20)] {
            let register = bits >> shift & 0x1f;
            if !text.contains(name) && register != 0 {
                return None;
            }
            shown = shown.replace(name, self.register(register as Register));
        }
        Some(shown)
    }
}

/// The instruction in assembly language; `pc` is its address, from which the targets of jumps and
/// branches follow. There are no pseudo-instructions, and compressed instructions appear as their
/// expansions. An illegal encoding is given as data.
pub fn disassemble(i: &Instruction, pc: u64) -> String {
    disassemble_with(i, pc, &Names::STANDARD)
}

/// The same on a hart with the extension that has these `names`.
pub fn disassemble_with(i: &Instruction, pc: u64, names: &Names) -> String {
    if let Some((_, text)) = names.hints.iter().find(|(bits, _)| *bits == i.bits) {
        return (*text).to_string();
    }
    if i.operation == Operation::Custom
        && let Some(text) = names.custom(i.bits)
    {
        return text;
    }
    let [rd, rs1, rs2, rs3] = [i.rd, i.rs1, i.rs2, i.rs3].map(|one| names.register(one));
    let immediate = i.immediate;
    let target = format!("{:#x}", pc.wrapping_add(immediate as u64));
    let operands = match i.operation.format() {
        Format::Bare => String::new(),
        Format::Upper => format!("{rd}, {:#x}", immediate as u32 >> 12),
        Format::Jump => format!("{rd}, {target}"),
        Format::Load | Format::FloatLoad => format!("{rd}, {immediate}({rs1})"),
        Format::Store | Format::FloatStore => format!("{rs2}, {immediate}({rs1})"),
        Format::Prefetch => format!("{immediate}({rs1})"),
        Format::Branch => format!("{rs1}, {rs2}, {target}"),
        Format::Immediate | Format::Shift => format!("{rd}, {rs1}, {immediate}"),
        Format::Register | Format::Float3 | Format::FloatCompare => format!("{rd}, {rs1}, {rs2}"),
        Format::Flush => format!("{rs1}, {rs2}"),
        Format::Reserve => format!("{rd}, ({rs1})"),
        Format::Atomic => format!("{rd}, {rs2}, ({rs1})"),
        Format::Csr => format!("{rd}, {}, {rs1}", names.csr(i.csr_number())),
        Format::CsrImmediate => {
            format!("{rd}, {}, {}", names.csr(i.csr_number()), i.csr_immediate())
        }
        Format::Fence => return fence(i),
        Format::Float4 => format!("{rd}, {rs1}, {rs2}, {rs3}"),
        Format::Unary | Format::Float2 | Format::FloatToInteger | Format::IntegerToFloat => {
            format!("{rd}, {rs1}")
        }
        Format::Custom => data(i),
    };
    let ordering = match (i.acquire(), i.release()) {
        (false, false) => "",
        (true, false) => ".aq",
        (false, true) => ".rl",
        (true, true) => ".aqrl",
    };
    // Assemblers default to dynamic rounding; conversions that are always exact are assumed, and
    // required, to say `rne`.
    let rounding = match i.rounding {
        7 => String::new(),
        0 if !rounds(i) => String::new(),
        mode => format!(", {}", ROUNDING[usize::from(mode & 7)]),
    };
    let text = format!("{}{ordering} {operands}{rounding}", i.operation.mnemonic());
    text.trim_end().to_string()
}

/// Whether the instruction's rounding mode can affect its result.
fn rounds(i: &Instruction) -> bool {
    use Operation::{FcvtDS, FcvtDW, FcvtDWu};
    i.operation.takes_rounding() && !matches!(i.operation, FcvtDS | FcvtDW | FcvtDWu)
}

fn data(i: &Instruction) -> String {
    match (i.operation, i.length) {
        (Operation::Custom, _) => format!("{:#x}, {:#010x}", i.length, i.bits),
        (_, 2) => format!("{:#06x}", i.bits),
        _ => format!("{:#010x}", i.bits),
    }
}

fn fence(i: &Instruction) -> String {
    let set = |bits: i32| -> String {
        let names = [(8, 'i'), (4, 'o'), (2, 'r'), (1, 'w')];
        names
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, name)| *name)
            .collect()
    };
    match (i.immediate & 0xfff, i.bits & 0x000f_ff80) {
        (0x010, 0) => "pause".to_string(),
        (0x833, 0) => "fence.tso".to_string(),
        (fields, _) if fields & 0xf == 0 || fields >> 4 & 0xf == 0 => {
            format!("fence # {:#010x}", i.bits) // a hint: assembler has no name for it
        }
        (fields, _) => format!("fence {}, {}", set(fields >> 4), set(fields)),
    }
}
