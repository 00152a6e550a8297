//! The context instruction cache: Table I of Figure 10.

use crate::register_map::Producer;
use riscv::{Instruction, Register};

/// An operand: a register, and the instruction that wrote it (`PRED1`, `PRED2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The register.
    pub register: Register,
    /// The producer of its value.
    pub producer: Producer,
}

/// An instruction of the critical region.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its address.
    pub pc: u64,
    /// The instruction; `None` while the entry, allocated for a predecessor, waits for the
    /// instruction's next execution. The hardware has no such field: a region's instructions are
    /// fetched when it is sent.
    pub instruction: Option<Instruction>,
    /// Its operands; `None` if one is a floating-point register.
    pub operands: Option<[Option<Operand>; 2]>,
    /// `#ACCESS`: the number of executions since it was allocated.
    pub accesses: u64,
    /// The number of second-level misses.
    pub missed: u64,
    /// Whether it misses often; other entries are here because such loads depend on them.
    pub misses: bool,
    /// Whether its result was the first that its register had in a pass through the region.
    pub begins: bool,
    /// Whether its operands come from ready instructions or from roots.
    pub ready: bool,
}

impl Entry {
    /// Whether it is control flow.
    pub fn is_control(&self) -> bool {
        self.instruction.is_some_and(|one| one.class.is_control())
    }
}

/// A set-associative cache of instructions, tagged by their addresses.
#[derive(Clone, Debug)]
pub struct ContextInstructionCache {
    /// Set by set.
    entries: Vec<Option<Entry>>,
    ways: usize,
    smallest: Option<u64>,
    largest: Option<u64>,
    evictions: u64,
}

impl ContextInstructionCache {
    /// An empty cache of `entries` in sets of `ways`; both are powers of two.
    pub fn new(entries: usize, ways: usize) -> ContextInstructionCache {
        ContextInstructionCache {
            entries: vec![None; entries],
            ways,
            smallest: None,
            largest: None,
            evictions: 0,
        }
    }

    /// The entries of the set of `pc`. Instructions are at even addresses.
    fn set(&self, pc: u64) -> std::ops::Range<usize> {
        let sets = self.entries.len() / self.ways;
        let first = (pc >> 1) as usize % sets * self.ways;
        first..first + self.ways
    }

    fn position(&self, pc: u64) -> Option<usize> {
        self.set(pc)
            .find(|&way| self.entries[way].is_some_and(|entry| entry.pc == pc))
    }

    /// The instruction at `pc`.
    pub fn get(&self, pc: u64) -> Option<&Entry> {
        self.position(pc)
            .and_then(|position| self.entries[position].as_ref())
    }

    /// The instruction at `pc`, mutably; its address must not change.
    pub fn get_mut(&mut self, pc: u64) -> Option<&mut Entry> {
        let position = self.position(pc)?;
        self.entries[position].as_mut()
    }

    /// Allocates an entry for the instruction at `pc`, which has none. If its set is full, the
    /// entry with the fewest accesses is evicted, but never that of `keep`.
    pub fn allocate(&mut self, pc: u64, keep: u64) -> &mut Entry {
        let set = self.set(pc);
        let candidates = set.filter(|&way| self.entries[way].is_none_or(|entry| entry.pc != keep));
        // A free way counts as an entry without accesses.
        let least = candidates.min_by_key(|&way| self.entries[way].map(|entry| entry.accesses));
        let way = least.unwrap_or(0);
        let evicted = self.entries[way].take();
        if let Some(evicted) = evicted {
            self.evictions += 1;
            if Some(evicted.pc) == self.smallest || Some(evicted.pc) == self.largest {
                self.smallest = self.iter().map(|entry| entry.pc).min();
                self.largest = self.iter().map(|entry| entry.pc).max();
            }
        }
        self.smallest = Some(self.smallest.map_or(pc, |smallest| smallest.min(pc)));
        self.largest = self.largest.max(Some(pc));
        self.entries[way].insert(Entry {
            pc,
            instruction: None,
            operands: Some([None; 2]),
            accesses: 0,
            missed: 0,
            misses: false,
            begins: false,
            ready: false,
        })
    }

    /// All entries, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// The smallest address, where the region begins.
    pub fn smallest(&self) -> Option<u64> {
        self.smallest
    }

    /// The largest address.
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// The number of evicted entries.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Invalidates all entries.
    pub fn clear(&mut self) {
        self.entries.fill(None);
        self.smallest = None;
        self.largest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_accessed_makes_room() {
        // Two sets of two ways: bit 1 of the address selects the set.
        let mut cache = ContextInstructionCache::new(4, 2);
        cache.allocate(0x100, 0).accesses = 5;
        cache.allocate(0x104, 0).accesses = 3;
        cache.allocate(0x102, 0).accesses = 1;
        assert_eq!(
            (cache.smallest(), cache.largest()),
            (Some(0x100), Some(0x104))
        );
        // 0x104 has fewer accesses than 0x100; 0x102 is in the other set.
        cache.allocate(0x108, 0).accesses = 4;
        assert!(cache.get(0x104).is_none() && cache.get(0x100).is_some());
        // 0x108 would be evicted for 0x10c, but must stay.
        cache.allocate(0x10c, 0x108);
        assert!(cache.get(0x100).is_none() && cache.get(0x108).is_some());
        assert_eq!(
            (cache.smallest(), cache.largest()),
            (Some(0x102), Some(0x10c))
        );
        assert_eq!(cache.evictions(), 2);
        cache.clear();
        assert_eq!((cache.smallest(), cache.iter().count()), (None, 0));
    }
}
