//! The instructions that harts retire, a line each, in the format of the RISC-V simulator Spike
//! (`spike --log-commits`): `commit_log_print_insn` in `riscv/execute.cc` of
//! <https://github.com/riscv-software-src/riscv-isa-sim>, commit 55b4658.
//!
//! A line has the hart, its mode (0: user, 1: supervisor, 3: machine), the program counter and the
//! encoding; the written registers, `x` before `f` before CSRs of the same number; the address of a
//! read; the address and value of a write:
//!
//! ```text
//! core   0: 3 0x0000000080000000 (0x00000297) x5  0x0000000080000000
//! core   0: 3 0x0000000080000004 (0x0002b303) x6  0x0000000000000001 mem 0x0000000080000000
//! core   0: 3 0x0000000080000008 (0x0062b023) mem 0x0000000080000000 0x0000000000000001
//! core   0: 3 0x000000008000000c (0x34029073) c832_mscratch 0x0000000080000000
//! ```
//!
//! Spike also lists CSRs that an instruction changes beside its result, such as `fflags` or, for
//! `mret`, `mstatus`. Here these are not listed.

use pipeline::{Executed, Probe};
use riscv::{Class, Instruction, Names, Privilege};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::rc::Rc;

/// A retired instruction.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// The privilege mode of its execution.
    pub privilege: Privilege,
    /// Its address.
    pub pc: u64,
    /// The decoded instruction.
    pub instruction: Instruction,
    /// The names of the core's extension.
    pub names: &'static Names,
    /// The value of its destination register, if it has one.
    pub value: Option<u64>,
    /// The CSR that a CSR instruction wrote, and the value.
    pub csr: Option<(u16, u64)>,
    /// The address that a load, store or atomic accessed.
    pub address: Option<u64>,
    /// The value that a store or atomic wrote there.
    pub stored: Option<u64>,
}

impl Retired {
    /// The line of the log, without its end; `hart` executed it.
    pub fn line(&self, hart: usize) -> String {
        let i = &self.instruction;
        let mut line = format!(
            "core{hart:>4}: {} 0x{:016x} (0x{:0width$x})",
            self.privilege.encoding(),
            self.pc,
            i.bits,
            width = 2 * usize::from(i.length),
        );
        for (_, text) in self.written() {
            line += &text;
        }
        let Some(address) = self.address else {
            return line;
        };
        // Writing into a string cannot fail.
        if matches!(i.class, Class::Load | Class::LoadReserved | Class::Atomic) {
            let _ = write!(line, " mem 0x{address:016x}");
        }
        if let Some(stored) = self.stored {
            let width = 2 * usize::from(i.access_bytes());
            let _ = write!(line, " mem 0x{address:016x} 0x{stored:0width$x}");
        }
        line
    }

    /// The written registers and CSRs, in Spike's order: by number, and for equal numbers `x`
    /// before `f` before CSRs.
    fn written(&self) -> Vec<((u16, u8), String)> {
        let mut written = Vec::new();
        if let Some(value) = self.value {
            let register = u16::from(self.instruction.rd);
            let (kind, letter, number) = match register {
                0..32 => (0, 'x', register),
                _ => (1, 'f', register - 32),
            };
            let text = format!(" {letter}{number:<2} 0x{value:016x}");
            written.push(((number, kind), text));
        }
        // `fcsr` consists of two CSRs.
        let csrs = match self.csr {
            Some((0x003, value)) => vec![(0x001, value & 0x1f), (0x002, value >> 5)],
            other => other.into_iter().collect(),
        };
        for (number, value) in csrs {
            let name = self.names.csr(number);
            written.push(((number, 4), format!(" c{number}_{name} 0x{value:016x}")));
        }
        written.sort_by_key(|(place, _)| *place);
        written
    }
}

/// A log shared by several harts.
pub type SharedLog<W> = Rc<RefCell<CommitLog<W>>>;

/// Writes the log.
pub struct CommitLog<W: Write> {
    out: W,
    lines: u64,
    error: Option<io::Error>,
}

impl<W: Write> CommitLog<W> {
    /// An empty log.
    pub fn new(out: W) -> CommitLog<W> {
        CommitLog {
            out,
            lines: 0,
            error: None,
        }
    }

    /// The same, for several harts.
    pub fn shared(out: W) -> SharedLog<W> {
        Rc::new(RefCell::new(CommitLog::new(out)))
    }

    /// The number of logged instructions.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The hart has retired an instruction.
    pub fn retired(&mut self, hart: usize, retired: &Retired) {
        if self.error.is_none() {
            self.error = writeln!(self.out, "{}", retired.line(hart)).err();
            self.lines += 1;
        }
    }

    /// Writes the buffered rest.
    ///
    /// # Errors
    ///
    /// The first error of all writes.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// Writes the commits of one hart, as a probe.
pub struct HartLog<W: Write> {
    log: SharedLog<W>,
    hart: usize,
    /// The logged cycles; ordered and disjoint.
    windows: Vec<Range<u64>>,
}

impl<W: Write> HartLog<W> {
    /// Logs the commits of `hart` in the cycles of `windows`, which are ordered and disjoint.
    pub fn new(log: SharedLog<W>, hart: usize, windows: Vec<Range<u64>>) -> HartLog<W> {
        HartLog { log, hart, windows }
    }
}

impl<W: Write> Probe for HartLog<W> {
    fn executed(&mut self, executed: &Executed) {
        let cycle = executed.ended;
        let next = self.windows.partition_point(|window| window.end <= cycle);
        let window = self.windows.get(next);
        if executed.undone || !window.is_some_and(|window| window.contains(&cycle)) {
            return;
        }
        let retired = Retired {
            privilege: executed.privilege,
            pc: executed.pc,
            instruction: executed.instruction,
            names: executed.names,
            value: executed.value,
            csr: executed.csr,
            address: executed.address,
            stored: executed.stored,
        };
        self.log.borrow_mut().retired(self.hart, &retired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired(bits: u32) -> Retired {
        Retired {
            privilege: Privilege::Machine,
            pc: 0x8000_0000,
            instruction: riscv::decode(bits),
            names: &Names::STANDARD,
            value: None,
            csr: None,
            address: None,
            stored: None,
        }
    }

    /// Written by hand from Spike's source.
    #[test]
    fn lines_are_those_of_spike() {
        let value = Some(0x1234);
        let address = Some(0x8000_1000);
        let cases = [
            // auipc t0, 0
            (
                Retired {
                    value: Some(0x8000_0000),
                    ..retired(0x0000_0297)
                },
                "core   0: 3 0x0000000080000000 (0x00000297) x5  0x0000000080000000",
            ),
            // c.li a0, 0; in user mode
            (
                Retired {
                    privilege: Privilege::User,
                    value: Some(0),
                    ..retired(0x4501)
                },
                "core   0: 0 0x0000000080000000 (0x4501) x10 0x0000000000000000",
            ),
            // beq zero, zero, 8
            (
                retired(0x0000_0463),
                "core   0: 3 0x0000000080000000 (0x00000463)",
            ),
            // ld t1, 0(t0)
            (
                Retired {
                    value,
                    address,
                    ..retired(0x0002_b303)
                },
                "core   0: 3 0x0000000080000000 (0x0002b303) x6  0x0000000000001234 \
                 mem 0x0000000080001000",
            ),
            // sh t1, 0(t0)
            (
                Retired {
                    address,
                    stored: value,
                    ..retired(0x0062_9023)
                },
                "core   0: 3 0x0000000080000000 (0x00629023) mem 0x0000000080001000 0x1234",
            ),
            // amoadd.w a0, a1, (a2)
            (
                Retired {
                    value,
                    address,
                    stored: Some(0x1235),
                    ..retired(0x00b6_252f)
                },
                "core   0: 3 0x0000000080000000 (0x00b6252f) x10 0x0000000000001234 \
                 mem 0x0000000080001000 mem 0x0000000080001000 0x00001235",
            ),
            // sc.w a0, a1, (a2), which fails
            (
                Retired {
                    value: Some(1),
                    address,
                    ..retired(0x18b6_252f)
                },
                "core   0: 3 0x0000000080000000 (0x18b6252f) x10 0x0000000000000001",
            ),
            // fld ft0, 0(t0)
            (
                Retired {
                    value,
                    address,
                    ..retired(0x0002_b007)
                },
                "core   0: 3 0x0000000080000000 (0x0002b007) f0  0x0000000000001234 \
                 mem 0x0000000080001000",
            ),
            // csrrw t1, mscratch, t0
            (
                Retired {
                    value,
                    csr: Some((0x340, 7)),
                    ..retired(0x3402_9373)
                },
                "core   0: 3 0x0000000080000000 (0x34029373) x6  0x0000000000001234 \
                 c832_mscratch 0x0000000000000007",
            ),
            // csrrw t1, fcsr, t0
            (
                Retired {
                    value,
                    csr: Some((0x003, 0x61)),
                    ..retired(0x0032_9373)
                },
                "core   0: 3 0x0000000080000000 (0x00329373) c1_fflags 0x0000000000000001 \
                 c2_frm 0x0000000000000003 x6  0x0000000000001234",
            ),
        ];
        for (retired, expected) in cases {
            assert_eq!(retired.line(0), expected, "{:?}", retired.instruction);
        }
        assert!(retired(0x13).line(123).starts_with("core 123: 3 "));
    }
}
