//! The control flow that belongs to a region: the edges of Figure 9.
//!
//! Three basic blocks have critical instructions, and the blocks before and after them none:
//!
//! ```text
//! 1000  B0  beqz t0          edges A and D lead from here
//! 1010  B1  ld   s1, 0(a0)   misses
//! 1014      beqz t1          edge C leads from here
//! 1018  B2  ld   s2, 8(a0)   misses
//! 101c      bnez t2          edge F leads from here
//! 1020  B3  ld   s3, 16(a0)  misses
//! 1024      bnez t0          edge G leads from here
//! 1030  B4  bnez t1          edges E and H lead from here
//! ```

use critical_region::{Identification, Sizes};
use fabric::Source;
use pipeline::{Executed, Found};
use riscv::{Class, Instruction};

const LOADS: [(u64, u32); 3] = [
    (0x1010, 0x0005_3483), // ld s1, 0(a0)
    (0x1018, 0x0085_3903), // ld s2, 8(a0)
    (0x1020, 0x0105_3983), // ld s3, 16(a0)
];
/// `bnez t0, .`; the following instruction determines its target.
const BRANCH: u32 = 0x0002_9063;

fn hardware() -> Identification {
    let sizes = Sizes {
        epoch_misses: u64::MAX,
        ..Sizes::default()
    };
    Identification::new(sizes, 1)
}

fn commit(hardware: &mut Identification, pc: u64, instruction: Instruction, value: Option<u64>) {
    let is_load = instruction.class == Class::Load;
    let misses = LOADS.iter().any(|&(load, _)| load == pc);
    let executed = Executed {
        value,
        found: is_load.then_some(match misses {
            true => Found::Line(Source::Memory),
            false => Found::DataCache,
        }),
        ..Executed::committed(pc, instruction)
    };
    assert!(hardware.committed(0, &executed).is_none());
}

fn load(hardware: &mut Identification, block: usize) {
    let (pc, bits) = LOADS[block - 1];
    commit(hardware, pc, riscv::decode(bits), Some(0));
}

fn branch(hardware: &mut Identification, pc: u64) {
    commit(hardware, pc, riscv::decode(BRANCH), None);
}

fn is_tracked(hardware: &Identification, pc: u64) -> bool {
    hardware.cache().get(pc).is_some()
}

#[test]
fn forward_edges_that_lead_into_the_region() {
    let mut hardware = hardware();
    // Edge D: the branch in B0 leads to B2.
    branch(&mut hardware, 0x1000);
    load(&mut hardware, 2);
    assert!(is_tracked(&hardware, 0x1000));
}

#[test]
fn forward_edges_within_the_region() {
    let mut hardware = hardware();
    // Edge C: from B1 to B3. It ends a block with a critical instruction.
    load(&mut hardware, 1);
    branch(&mut hardware, 0x1014);
    assert!(is_tracked(&hardware, 0x1014));
}

#[test]
fn forward_edges_that_bypass_the_region() {
    let mut hardware = hardware();
    load(&mut hardware, 1);
    // Edge A: from B0 to B4, and on to non-critical code.
    branch(&mut hardware, 0x0fe0);
    branch(&mut hardware, 0x1000);
    branch(&mut hardware, 0x1030);
    commit(&mut hardware, 0x1040, riscv::decode(0x13), None);
    assert!(!is_tracked(&hardware, 0x1000) && !is_tracked(&hardware, 0x1030));
}

#[test]
fn a_branch_that_falls_through_leads_nowhere() {
    let mut hardware = hardware();
    branch(&mut hardware, 0x100c);
    load(&mut hardware, 1);
    assert!(!is_tracked(&hardware, 0x100c));
}

#[test]
fn backward_edges_within_the_region_and_into_it() {
    let mut hardware = hardware();
    // Edge F, from B2 back to B1; and edge E, from B4 to B3.
    load(&mut hardware, 2);
    branch(&mut hardware, 0x101c);
    load(&mut hardware, 1);
    assert!(is_tracked(&hardware, 0x101c));
    branch(&mut hardware, 0x1014);
    branch(&mut hardware, 0x1030);
    load(&mut hardware, 3);
    assert!(is_tracked(&hardware, 0x1030));
}

/// Edge H: from B4 to before B0, whose branch is passed through. `on_the_way`: the instruction
/// executed there, and the value that it writes into `a0`.
fn bypass(on_the_way: (u32, Option<u64>)) -> Identification {
    const ADDI_A0: u32 = 0x0085_0513; // addi a0, a0, 8
    let mut hardware = hardware();
    for block in 1..=3 {
        load(&mut hardware, block);
    }
    branch(&mut hardware, 0x1024);
    commit(&mut hardware, 0x1028, riscv::decode(ADDI_A0), Some(0x5000));
    branch(&mut hardware, 0x1030);
    assert!(!is_tracked(&hardware, 0x1030));
    commit(
        &mut hardware,
        0x0ffc,
        riscv::decode(on_the_way.0),
        on_the_way.1,
    );
    branch(&mut hardware, 0x100c);
    load(&mut hardware, 1);
    hardware
}

#[test]
fn a_backward_edge_that_bypasses_the_region_and_supplies_its_values() {
    // a0 has the value from before the branch, so the branch leads here.
    let hardware = bypass((0x13, None)); // nop
    assert!(is_tracked(&hardware, 0x1030));
    assert!(!is_tracked(&hardware, 0x100c));
}

#[test]
fn a_backward_edge_that_bypasses_the_region_and_supplies_nothing() {
    // a0 is written on the way.
    let hardware = bypass((0x0005_b503, Some(0x6000))); // ld a0, 0(a1)
    assert!(!is_tracked(&hardware, 0x1030));
}
