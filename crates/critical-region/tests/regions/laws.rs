//! Properties of the regions of any program.

use crate::programs::{any_way, regions};
use critical_region::convention;
use proptest::prelude::*;

proptest! {
    /// Instructions only read memory, are in the order of their addresses, and are at most as many
    /// as the cache has entries. Every operand is a register with which the region begins, a
    /// PC-relative address, or the result of one of its instructions; operands of control flow may
    /// be unknown.
    #[test]
    fn regions_are_closed(way in any_way()) {
        let epochs = regions(&way);
        for region in &epochs {
            prop_assert!(region.instructions.len() <= 32);
            prop_assert!(region.instructions.is_sorted_by(|one, next| one.pc < next.pc));
            let begins_with = |register| {
                let mut registers = region.registers.iter();
                registers.any(|live_in| live_in.register == register)
            };
            let is_written = |register| {
                let mut instructions = region.instructions.iter();
                instructions.any(|one| convention::result(&one.instruction) == Some(register))
            };
            for one in &region.instructions {
                let instruction = &one.instruction;
                prop_assert!(convention::is_offloadable(instruction));
                if one.given {
                    let result = convention::result(instruction);
                    prop_assert!(result.is_some_and(begins_with));
                } else if !instruction.class.is_control() {
                    let read = convention::operands(instruction).expect("of integers");
                    for register in read.into_iter().flatten() {
                        let mut addresses = one.addresses.iter().flatten();
                        let is_address = addresses.any(|&(address, _)| address == register);
                        prop_assert!(
                            is_address || begins_with(register) || is_written(register),
                            "{region:?}"
                        );
                    }
                }
            }
        }
        prop_assert_eq!(&epochs, &regions(&way), "the same program gives the same regions");
    }
}
