//! QEMU, the interpreter and its fast variant must print the same bytes for the same program.
//!
//! The program executes every computing instruction on thousands of operands, in every
//! rounding mode, and prints results and exception flags. Skipped, with a message, if there is no
//! `qemu-riscv64` or no RISC-V compiler.

#[path = "../../../tests/rust/random.rs"]
mod random;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use random::Random;
use riscv::interpreter::{Machine, Memory, Step};
use riscv::paged::PagedMemory;
use riscv::threaded::Threaded;
use riscv::{Cause, elf};

const COMPILERS: &[&str] = &[
    "riscv64-linux-gnu-gcc",
    "riscv64-unknown-linux-gnu-gcc",
    "riscv64-unknown-elf-gcc",
];

fn runs(command: &str) -> bool {
    Command::new(command)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

impl Random {
    /// A floating-point number that is likely to expose errors: special values, exponents near each
    /// other or near the ends of their range, and significands with few or regular bits.
    fn float(&mut self, digits: u32, exponent_bits: u32) -> u64 {
        let greatest = (1 << exponent_bits) - 1;
        let middle = greatest / 2;
        let exponent = match self.below(8) {
            0 => 0,
            1 => greatest,
            2 => self.below(u64::from(digits) + 4),
            3 => greatest - 1 - self.below(4),
            4 => middle + self.below(66),
            5 => middle - self.below(66),
            _ => self.below(greatest + 1),
        };
        let fraction = match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(digits.into()),
            3 => u64::MAX << self.below(digits.into()),
            4 => (1_u64 << self.below(digits.into())).wrapping_sub(self.below(3)),
            _ => self.next(),
        } & ((1 << digits) - 1);
        self.below(2) << (digits + exponent_bits) | exponent << digits | fraction
    }

    fn single(&mut self) -> u64 {
        let bits = self.float(23, 8);
        if self.below(50) == 0 {
            self.next() << 32 | bits
        } else {
            0xffff_ffff << 32 | bits
        }
    }

    fn integer(&mut self) -> u64 {
        let bits = match self.below(6) {
            0 => self.below(8),
            1 => 1 << self.below(64),
            2 => (1_u64 << self.below(64)).wrapping_sub(self.below(3)),
            3 => self.next() as i32 as u64,
            4 => self.next() >> self.below(64),
            _ => self.next(),
        };
        if self.below(2) == 0 {
            bits
        } else {
            bits.wrapping_neg()
        }
    }
}

const OPERANDS: usize = 3000;

/// All pairs of these are tried.
const CORNERS: [u64; 8] = [
    0,
    1,
    u64::MAX,
    i64::MIN as u64,
    i64::MAX as u64,
    i32::MIN as u64,
    i32::MAX as u64,
    u32::MAX as u64,
];

/// `(instruction, which operands, whether it rounds)`; operands come in a1 to a2 and fa1 to
/// fa3, the result goes to a0 or fa0.
fn instructions() -> Vec<(String, &'static str, bool)> {
    let mut all = Vec::new();
    let registers = "add sub sll slt sltu xor srl sra or and mul mulh mulhsu mulhu div divu rem \
        remu addw subw sllw srlw sraw mulw divw divuw remw remuw \
        add.uw sh1add sh1add.uw sh2add sh2add.uw sh3add sh3add.uw \
        andn orn xnor min minu max maxu rol rolw ror rorw \
        bclr bext binv bset";
    for name in registers.split_whitespace() {
        all.push((format!("{name} a0, a1, a2"), "integers", false));
    }
    // QEMU before 8.0 counts ones in the upper half for `ctzw`, so the operands have none there.
    all.push(("sext.w a1, a1\n ctzw a0, a1".into(), "integers", false));
    let unary = "clz clzw cpop cpopw ctz orc.b rev8 sext.b sext.h zext.h";
    for name in unary.split_whitespace() {
        all.push((format!("{name} a0, a1"), "integers", false));
    }
    for name in ["addi", "slti", "sltiu", "xori", "ori", "andi", "addiw"] {
        for immediate in [-2048, -1, 0, 1, 1365, 2047] {
            all.push((format!("{name} a0, a1, {immediate}"), "integers", false));
        }
    }
    let double = "slli srli srai rori slli.uw bclri bexti binvi bseti";
    let word = "slliw srliw sraiw roriw";
    for name in double.split_whitespace().chain(word.split_whitespace()) {
        for amount in [0, 1, 17, 31] {
            all.push((format!("{name} a0, a1, {amount}"), "integers", false));
        }
    }
    for name in double.split_whitespace() {
        all.push((format!("{name} a0, a1, 32"), "integers", false));
        all.push((format!("{name} a0, a1, 63"), "integers", false));
    }
    for condition in ["beq", "bne", "blt", "bge", "bltu", "bgeu"] {
        let text = format!("li a0, 1\n {condition} a1, a2, 7f\n li a0, 0\n7:");
        all.push((text, "integers", false));
    }
    for load in ["lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"] {
        all.push((
            format!("sd a1, 0(s6)\n {load} a0, 0(s6)"),
            "integers",
            false,
        ));
    }
    for store in ["sb", "sh", "sw", "sd"] {
        let text = format!("sd a1, 0(s6)\n {store} a2, 0(s6)\n ld a0, 0(s6)");
        all.push((text, "integers", false));
    }
    for name in [
        "swap", "add", "xor", "and", "or", "min", "max", "minu", "maxu",
    ] {
        for width in ["w", "d"] {
            let amo = format!("sd a1, 0(s6)\n amo{name}.{width} a0, a2, (s6)");
            all.push((amo.clone(), "integers", false));
            all.push((format!("{amo}\n ld a0, 0(s6)"), "integers", false));
        }
    }
    for width in ["w", "d"] {
        let pair = format!("sd a1, 0(s6)\n lr.{width} a0, (s6)\n sc.{width} a3, a2, (s6)");
        all.push((
            format!("{pair}\n add a0, a0, a3\n ld a3, 0(s6)\n xor a0, a0, a3"),
            "integers",
            false,
        ));
    }
    for (format, operands) in [("s", "singles"), ("d", "doubles")] {
        for name in ["fadd", "fsub", "fmul", "fdiv"] {
            all.push((format!("{name}.{format} fa0, fa1, fa2"), operands, true));
        }
        all.push((format!("fsqrt.{format} fa0, fa1"), operands, true));
        for name in ["fmadd", "fmsub", "fnmsub", "fnmadd"] {
            all.push((
                format!("{name}.{format} fa0, fa1, fa2, fa3"),
                operands,
                true,
            ));
        }
        for name in ["fsgnj", "fsgnjn", "fsgnjx", "fmin", "fmax"] {
            all.push((format!("{name}.{format} fa0, fa1, fa2"), operands, false));
        }
        for name in ["feq", "flt", "fle"] {
            all.push((format!("{name}.{format} a0, fa1, fa2"), operands, false));
        }
        all.push((format!("fclass.{format} a0, fa1"), operands, false));
        for integer in ["w", "wu", "l", "lu"] {
            all.push((
                format!("fcvt.{integer}.{format} a0, fa1, dyn"),
                operands,
                true,
            ));
            all.push((format!("fcvt.{format}.{integer} fa0, a1"), "integers", true));
        }
    }
    all.push(("fcvt.s.d fa0, fa1".into(), "doubles", true));
    all.push(("fcvt.d.s fa0, fa1".into(), "singles", false));
    all.push(("fmv.x.w a0, fa1".into(), "singles", false));
    all.push(("fmv.x.d a0, fa1".into(), "doubles", false));
    all.push(("fmv.w.x fa0, a1".into(), "integers", false));
    all.push(("fmv.d.x fa0, a1".into(), "integers", false));
    all.push(("fsd fa1, 0(s6)\n flw fa0, 0(s6)".into(), "singles", false));
    all.push((
        "sd zero, 0(s6)\n fsw fa1, 0(s6)\n fld fa0, 0(s6)".into(),
        "singles",
        false,
    ));
    all
}

/// A program that executes each instruction on each operand, and prints 16 bytes for each: the
/// result and the exception flags.
fn program(instructions: &[(String, &str, bool)]) -> String {
    let mut text = String::from(
        ".globl _start\n.text\n_start:\n la s6, scratch\n la s7, results\n li s8, 0\n",
    );
    for (instruction, operands, rounds) in instructions {
        let modes = if *rounds { 5 } else { 1 };
        let store = if instruction.contains(" fa0, ") {
            "fsd fa0, 0(s3)"
        } else {
            "sd a0, 0(s3)"
        };
        write!(
            text,
            " li s2, 0
5: csrw frm, s2
 la s0, {operands}
 li s1, {OPERANDS}
 mv s3, s7
6: ld a1, 0(s0)
 ld a2, 8(s0)
 fld fa1, 0(s0)
 fld fa2, 8(s0)
 fld fa3, 16(s0)
 csrw fflags, zero
 {instruction}
 csrr t0, fflags
 {store}
 sd t0, 8(s3)
 addi s3, s3, 16
 addi s0, s0, 24
 addi s1, s1, -1
 bnez s1, 6b
 call print
 addi s2, s2, 1
 li t0, {modes}
 bltu s2, t0, 5b
"
        )
        .unwrap();
    }
    let bytes = OPERANDS * 16;
    write!(
        text,
        " li a7, 93\n li a0, 0\n ecall
print: mv a1, s7\n li a2, {bytes}
8: li a7, 64\n li a0, 1\n ecall\n add a1, a1, a0\n sub a2, a2, a0\n bgtz a2, 8b\n ret
.bss\n.balign 16\nscratch: .zero 16\nresults: .zero {bytes}\n.data\n.balign 16\n"
    )
    .unwrap();
    let mut random = Random(1);
    for (name, kind) in [("integers", 0), ("singles", 1), ("doubles", 2)] {
        writeln!(text, "{name}:").unwrap();
        for index in 0..OPERANDS {
            let mut values = [(); 3].map(|()| match kind {
                0 => random.integer(),
                1 => random.single(),
                _ => random.float(52, 11),
            });
            // Sometimes the product and the addend, or two operands, should nearly cancel.
            match random.below(8) {
                0 => values[1] = values[0] ^ random.below(4),
                1 => values[2] = product(kind, values[0], values[1]) ^ random.below(4),
                _ => {}
            }
            if kind == 0 && index < CORNERS.len() * CORNERS.len() {
                values[0] = CORNERS[index / CORNERS.len()];
                values[1] = CORNERS[index % CORNERS.len()];
            }
            writeln!(
                text,
                " .dword {:#x}, {:#x}, {:#x}",
                values[0], values[1], values[2]
            )
            .unwrap();
        }
    }
    text
}

fn product(kind: u8, a: u64, b: u64) -> u64 {
    if kind == 1 {
        let product = f32::from_bits(a as u32) * f32::from_bits(b as u32);
        0xffff_ffff_8000_0000 ^ u64::from(product.to_bits())
    } else {
        (-(f64::from_bits(a) * f64::from_bits(b))).to_bits()
    }
}

/// Runs a Linux program that only writes and exits. `quickly`: with the fast variant, too.
fn interpret(program: &[u8], quickly: bool) -> Vec<u8> {
    let image = elf::load(program).expect("the compiler makes good files");
    let ranges = image.segments.iter().map(elf::Segment::range);
    let mut memory = PagedMemory::new(ranges.collect());
    for segment in &image.segments {
        memory.copy_in(segment.address, &segment.bytes);
    }
    let mut machine = Machine::new(memory, image.entry);
    machine.hart.set_float_dirty();
    let mut threaded = Threaded::default();
    let mut output = Vec::new();
    loop {
        if quickly {
            threaded.run(&mut machine, u64::MAX);
        }
        match threaded.step(&mut machine) {
            Step::Retired(_) => continue,
            Step::Trapped(trap) if trap.cause == Cause::EcallMachine => {}
            other => panic!("{other:x?} at {:#x}", machine.hart.csrs.mepc),
        }
        let [a0, a1, a2, a7] = [10, 11, 12, 17].map(|r| machine.registers[r]);
        match a7 {
            64 if a0 == 1 => {
                let bytes = (a1..a1 + a2).map(|address| machine.memory.read(address, 1));
                output.extend(bytes.map(|byte| byte.expect("it writes what it has") as u8));
                machine.registers[10] = a2;
            }
            93 => return output,
            call => panic!("system call {call}"),
        }
        machine.pc = machine.hart.csrs.mepc + 4;
    }
}

#[test]
fn interpreter_agrees_with_qemu() {
    let Some(compiler) = COMPILERS.iter().find(|compiler| runs(compiler)) else {
        println!("skipped: none of {} is installed", COMPILERS.join(", "));
        return;
    };
    if !runs("qemu-riscv64") {
        println!("skipped: qemu-riscv64 is not installed");
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (directory.join("every.s"), directory.join("every.elf"));
    let instructions = instructions();
    std::fs::write(&source, program(&instructions)).unwrap();
    let compiled = Command::new(compiler)
        .args([
            "-march=rv64gc_zba_zbb_zbs",
            "-mabi=lp64d",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-o",
        ])
        .args([&binary, &source])
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );

    let expected = Command::new("qemu-riscv64").arg(&binary).output().unwrap();
    assert!(expected.status.success());
    let program = std::fs::read(&binary).unwrap();
    let found = interpret(&program, false);
    assert_eq!(expected.stdout.len(), found.len());
    assert!(interpret(&program, true) == found);

    let mut differences = Vec::new();
    let mut runs = found
        .chunks(OPERANDS * 16)
        .zip(expected.stdout.chunks(OPERANDS * 16));
    for (instruction, _, rounds) in &instructions {
        for mode in 0..if *rounds { 5 } else { 1 } {
            let (found, expected) = runs.next().expect("as many results as instructions");
            let mut lines = found.chunks(16).zip(expected.chunks(16)).enumerate();
            if let Some((index, (found, expected))) = lines.find(|(_, (a, b))| a != b) {
                differences.push(format!(
                    "{instruction:?}, rounding mode {mode}, operands {index}: \
                     {found:02x?} instead of {expected:02x?}"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
