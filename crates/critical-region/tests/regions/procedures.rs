//! Regions are confined to a procedure: a compiler's look-up of a cache, which calls another
//! function in its loop, and is called with the hash of a key.
//!
//! ```text
//! 1000  mv   s2, a2              the caller: the hash
//! 1004  jal  ra, 0x2000
//! 2000  auipc a1, 1              the look-up
//! 2004  addi a1, a1, 16
//! 2008  ld   a1, 0(a1)           the table, out of a global variable
//! 200c  add  a1, a1, a2
//! 2010  ld   s1, 0(a1)           misses: the bucket
//! 2014  lbu  a0, 39(s1)          misses: the item
//! 2018  jal  ra, 0x3000          compares the keys
//! 201c  bnez a0, 0x2014
//! 2020  ret
//! 3000  ld   a0, 0(a0)           misses
//! 3004  ret
//! ```

use critical_region::{Identification, Region, RegisterState, Sizes, executable};
use fabric::Source;
use pipeline::{Executed, Found};
use riscv::Class;

const TABLE: u64 = 0x8000_0000;

/// The executed instructions in order, with the values of the loads.
fn pass(hash: u64) -> Vec<(u64, u32, Option<u64>)> {
    let item = TABLE + 64 * hash;
    vec![
        (0x1000, 0x0006_0913, Some(hash)),
        (0x1004, 0x7fd0_00ef, Some(0x1008)),
        (0x2000, 0x0000_1597, Some(0x3000)),
        (0x2004, 0x0105_8593, Some(0x3010)),
        (0x2008, 0x0005_b583, Some(TABLE)),
        (0x200c, 0x00c5_85b3, Some(TABLE + hash)),
        (0x2010, 0x0005_b483, Some(item)),
        (0x2014, 0x0274_c503, Some(hash + 1)),
        (0x2018, 0x7e90_00ef, Some(0x201c)),
        (0x3000, 0x0005_3503, Some(0)),
        (0x3004, 0x0000_8067, None),
        (0x201c, 0xfe05_1ce3, None),
        (0x2020, 0x0000_8067, None),
    ]
}

/// The region after these passes. The caller has put the hash into `a2`.
fn region_of(misses: &[u64], hash: impl Fn(u64) -> u64) -> Region {
    let sizes = Sizes {
        epoch_misses: 24,
        ..Sizes::default()
    };
    let mut hardware = Identification::new(sizes, 1);
    for number in 0.. {
        let hash = hash(number);
        hardware.set_arguments(0, &[hash]);
        let make_hash = (0xffc, 0x0004_8613, Some(hash)); // mv a2, s1
        for (pc, bits, value) in [make_hash].into_iter().chain(pass(hash)) {
            let instruction = riscv::decode(bits);
            let found = match misses.contains(&pc) {
                true => Found::Line(Source::Memory),
                false => Found::DataCache,
            };
            let epoch = hardware.committed(
                0,
                &Executed {
                    value,
                    found: (instruction.class == Class::Load).then_some(found),
                    ..Executed::committed(pc, instruction)
                },
            );
            if let Some(epoch) = epoch {
                return epoch.region;
            }
        }
    }
    unreachable!("there are misses in each pass")
}

#[test]
fn a_region_is_of_the_procedure_that_misses_first() {
    let region = region_of(&[0x2010, 0x2014, 0x3000], |number| 8 * number);
    assert_eq!(region.procedure, Some(0x2000));
    let pcs: Vec<u64> = region.instructions.iter().map(|one| one.pc).collect();
    assert_eq!(pcs, [0x2008, 0x200c, 0x2010, 0x2014]);
    // The table is given, rather than the address of the variable that points to it.
    let given: Vec<u64> = region
        .instructions
        .iter()
        .filter(|one| one.given)
        .map(|one| one.pc)
        .collect();
    assert_eq!(given, [0x2008]);
    let states: Vec<_> = region
        .registers
        .iter()
        .map(|one| (one.register, one.state))
        .collect();
    assert_eq!(
        states,
        [
            (11, RegisterState::Ready(TABLE)),
            (12, RegisterState::ReadyDyn(0))
        ]
    );
    let can = executable(&region);
    assert_eq!(can, [true; 4]);
    assert!(region.fetches(&can));
}

#[test]
fn what_misses_elsewhere_is_in_no_region() {
    let region = region_of(&[0x3000], |number| 8 * number);
    assert_eq!(region.procedure, Some(0x3000));
    // Its argument is a result of its caller, and different each time.
    assert!(!region.fetches(&executable(&region)));
}
