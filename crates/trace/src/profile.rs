//! Where a program's cycles went.

use crate::calls::{CallTree, ROOT};
use crate::program::SharedProgram;
use pipeline::{Executed, Probe};
use std::collections::BTreeMap;

/// The profile of one core's hart, as a probe. A cycle is attributed to the instruction whose
/// commit it waited for, with the calls that led to it. Cycles in which the hart had halted
/// voluntarily are not attributed.
pub struct Profile {
    core: String,
    tree: CallTree,
    /// Cycles by node.
    cycles: Vec<u64>,
    counted_until: u64,
    halted_cycles: u64,
}

impl Profile {
    /// An empty profile of the core called `core`, starting in cycle 0.
    pub fn new(core: &str, program: SharedProgram) -> Profile {
        Profile {
            core: core.to_string(),
            tree: CallTree::new(program),
            cycles: Vec::new(),
            counted_until: 0,
            halted_cycles: 0,
        }
    }

    fn count(&mut self, node: usize, until: u64, halted_cycles: u64) {
        if self.cycles.len() <= node {
            self.cycles.resize(node + 1, 0);
        }
        let passed = until.saturating_sub(self.counted_until);
        self.cycles[node] += passed.saturating_sub(halted_cycles);
        self.halted_cycles += halted_cycles;
        self.counted_until = self.counted_until.max(until);
    }

    /// Ends the run in cycle `end`; the hart has halted for `halted_cycles` in all. The remaining
    /// cycles are attributed to the instruction at `pc`.
    pub fn finish(&mut self, pc: u64, end: u64, halted_cycles: u64) {
        let function = self.tree.function(pc);
        let line = self.tree.line(function, pc);
        let halted_now = halted_cycles.saturating_sub(self.halted_cycles);
        self.count(line, end, halted_now);
    }

    /// Total attributed cycles.
    pub fn total(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// Adds up the cycles of each chain of calls.
    fn add_to(&self, stacks: &mut BTreeMap<String, u64>) {
        for (node, &cycles) in self.cycles.iter().enumerate() {
            if cycles > 0 {
                let mut stack = self.core.clone();
                for name in self.tree.path(ROOT, node) {
                    // Separators of frames must not occur in names.
                    stack = stack + ";" + &name.replace(';', ",");
                }
                *stacks.entry(stack).or_default() += cycles;
            }
        }
    }
}

impl Probe for Profile {
    fn executed(&mut self, executed: &Executed) {
        if !executed.undone {
            let function = self.tree.executed(executed);
            let line = self.tree.line(function, executed.pc);
            self.count(line, executed.ended, executed.halted_cycles);
        }
    }
}

/// The profiles as folded stacks: a line for each chain of calls, its frames from the outermost on
/// separated by semicolons, then a space and the cycles. Flame-graph viewers read this format.
pub fn folded<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> String {
    let mut stacks = BTreeMap::new();
    for profile in profiles {
        profile.add_to(&mut stacks);
    }
    stacks
        .iter()
        .map(|(stack, cycles)| format!("{stack} {cycles}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use riscv::elf::{Headers, Image, Symbol};

    const MAIN: u64 = 0x8000_0000;
    const WORK: u64 = 0x8000_1000;

    fn image() -> Image {
        let symbol = |name: &str, address| Symbol {
            name: name.to_string(),
            address,
            size: 0x100,
            code: true,
        };
        Image {
            entry: MAIN,
            segments: Vec::new(),
            headers: Headers::default(),
            symbols: vec![symbol("main", MAIN), symbol("work;er", WORK)],
            tohost: None,
            fromhost: None,
        }
    }

    fn executed(pc: u64, bits: u32, ended: u64) -> Executed {
        Executed {
            ended,
            ..Executed::committed(pc, riscv::decode(bits))
        }
    }

    #[test]
    fn cycles_go_to_the_function_and_its_callers() {
        const NOP: u32 = 0x13;
        const CALL: u32 = 0x0000_10ef; // jal ra, +4096
        const RETURN: u32 = 0x8067; // ret
        let program = crate::Program::shared(&image(), &[]);
        let mut profile = Profile::new("core 0", program);
        profile.executed(&executed(MAIN, CALL, 10));
        profile.executed(&executed(WORK, NOP, 15));
        // This instruction is squashed: its cost is the wait of the next one.
        let undone = Executed {
            undone: true,
            ..executed(WORK + 4, NOP, 16)
        };
        profile.executed(&undone);
        profile.executed(&executed(WORK + 4, RETURN, 20));
        profile.executed(&executed(MAIN + 4, NOP, 27));
        let halted = Executed {
            halted_cycles: 100,
            ..executed(MAIN + 8, NOP, 129)
        };
        profile.executed(&halted);
        profile.finish(MAIN + 12, 180, 150);
        // main: 10 to the call, 7 + 2 + 1 after it: it had halted for 50 of the last 51 cycles. A
        // semicolon separates frames.
        assert_eq!(
            folded([&profile]),
            "core 0;main 20\ncore 0;main;work,er 10\n"
        );
    }

    #[test]
    fn what_has_no_name_is_shown_by_its_address() {
        let program = crate::Program::shared(&image(), &[]);
        let mut profile = Profile::new("core 3", program);
        profile.executed(&executed(0x9000_0000, 0x13, 4));
        assert_eq!(folded([&profile]), "core 3;0x90000000 4\n");
    }
}
