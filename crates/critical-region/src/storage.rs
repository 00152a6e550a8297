//! The sizes of the structures, computed from their fields.

use crate::convention::REGISTERS;
use crate::identification::{RETURN_STACK, Sizes};
use crate::prediction::GEN_VALUES;

/// A program counter, or a value.
const WORD_BITS: usize = 64;
/// Counters of accesses and uses; 32 bits count an epoch of 4096 misses of any program.
const COUNTER_BITS: usize = 32;
/// A load's misses are counted up to the number that counts as often.
const MISS_BITS: usize = 7;
/// INVALID, DEAD or an instruction in a predecessor's field; the four states of a register.
const STATE_BITS: usize = 2;

/// Bytes of each structure of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The context instruction cache.
    pub instruction_cache_bytes: usize,
    /// The register-to-PC maps of all harts.
    pub register_map_bytes: usize,
    /// The return stacks of all harts.
    pub return_stack_bytes: usize,
    /// The checkpoints of registers for backward branches, of all harts.
    pub checkpoint_bytes: usize,
    /// The states of registers, and the numbers of their IN values.
    pub register_state_bytes: usize,
    /// The table of IN values.
    pub in_value_bytes: usize,
    /// The table of GEN values.
    pub gen_value_bytes: usize,
}

/// The number of bits for an index of `things` entries, or none.
fn index_bits(things: usize) -> usize {
    (things + 1).next_power_of_two().trailing_zeros() as usize
}

impl Storage {
    /// The structures of a core with this number of harts.
    pub fn of(sizes: Sizes, threads: usize) -> Storage {
        let bytes = |entries: usize, bits: usize| (entries * bits).div_ceil(8);
        // A predecessor is the index of its entry, which exists or is allocated.
        let predecessor = STATE_BITS + index_bits(sizes.instructions);
        // Address, predecessors, whether it begins a pass, ready, valid; accesses and misses.
        let instruction = WORD_BITS + 2 * predecessor + 3 + COUNTER_BITS + MISS_BITS;
        let in_value = WORD_BITS
            + COUNTER_BITS
            + index_bits(sizes.in_values)
            + GEN_VALUES * index_bits(sizes.gen_values)
            + 1;
        Storage {
            instruction_cache_bytes: bytes(sizes.instructions, instruction),
            register_map_bytes: bytes(threads * REGISTERS, WORD_BITS + STATE_BITS),
            return_stack_bytes: bytes(threads * RETURN_STACK, WORD_BITS),
            checkpoint_bytes: bytes(threads * REGISTERS, WORD_BITS),
            register_state_bytes: bytes(2 * REGISTERS, WORD_BITS + STATE_BITS + COUNTER_BITS),
            in_value_bytes: bytes(sizes.in_values, in_value),
            gen_value_bytes: bytes(sizes.gen_values, WORD_BITS + COUNTER_BITS + 1),
        }
    }

    /// The sum of all structures.
    pub fn total_bytes(&self) -> usize {
        self.instruction_cache_bytes
            + self.register_bytes()
            + self.in_value_bytes
            + self.gen_value_bytes
    }

    /// The structures with entries for registers, and the return stacks.
    pub fn register_bytes(&self) -> usize {
        self.register_map_bytes
            + self.return_stack_bytes
            + self.checkpoint_bytes
            + self.register_state_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_fields() {
        let storage = Storage::of(Sizes::default(), 1);
        // 256 entries of 64 + 2 * (2 + 9) + 3 + 32 + 7 = 128 bits; the paper has 13 bytes, 104
        // bits.
        assert_eq!(storage.instruction_cache_bytes, 256 * 128 / 8);
        // 32 registers of 66 bits, and of 64.
        assert_eq!(
            (storage.register_map_bytes, storage.checkpoint_bytes),
            (264, 256)
        );
        // With a counter of 32 bits each.
        assert_eq!(storage.register_state_bytes, 2 * 264 + 2 * 128);
        // 48 of 64 + 32 + 6 + 2 * 8 + 1 = 119 bits; 132 of 97.
        assert_eq!(
            (storage.in_value_bytes, storage.gen_value_bytes),
            (714, 1601)
        );
        assert_eq!(
            storage.total_bytes(),
            4096 + 264 + 128 + 256 + 2 * (264 + 128) + 714 + 1601
        );
        // Section 6.4 adds up 3.5 KB, 272 bytes and 3 KB. Four harts need three more maps.
        let four = Storage::of(Sizes::default(), 4);
        assert_eq!(
            four.total_bytes() - storage.total_bytes(),
            3 * (264 + 128 + 256)
        );
    }
}
