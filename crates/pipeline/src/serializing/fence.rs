//! The accesses that a fence delays.

use crate::spec::MemoryModel;
use riscv::Instruction;

/// The accesses that a fence delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceEffect {
    /// None: stores perform in order and after all older loads, and with TSO loads are in order.
    None,
    /// Younger accesses wait for older loads.
    Loads,
    /// Younger accesses wait for older loads, and for older stores to be performed.
    Stores,
}

impl FenceEffect {
    pub fn of(i: &Instruction, memory_model: MemoryModel) -> FenceEffect {
        const TSO: i32 = 8;
        let fields = i.immediate;
        let (mode, before, after) = (fields >> 8 & 15, fields >> 4 & 15, fields & 15);
        let reads = |set: i32| set & 0b1010 != 0;
        let writes = |set: i32| set & 0b0101 != 0;
        if writes(before) && reads(after) && mode != TSO {
            FenceEffect::Stores
        } else if reads(before) && reads(after) && memory_model == MemoryModel::Rvwmo {
            FenceEffect::Loads
        } else {
            FenceEffect::None
        }
    }

    /// Whether the fence has no effect.
    pub fn is_none(i: &Instruction, memory_model: MemoryModel) -> bool {
        FenceEffect::of(i, memory_model) == FenceEffect::None && !FenceEffect::orders_output(i)
    }

    /// Whether younger instructions wait for posted stores to devices.
    pub(super) fn orders_output(i: &Instruction) -> bool {
        const OUTPUT_BEFORE: i32 = 1 << 6;
        i.immediate & OUTPUT_BEFORE != 0
    }
}
