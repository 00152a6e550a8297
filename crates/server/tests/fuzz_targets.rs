//! The fuzz targets compile, and take their seeds and some damage to them.

mod common;
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use common::cases::check;
use proptest::collection::vec;
use proptest::prelude::*;

const CASES: u32 = 300;

/// `seed`, with some bytes changed.
fn damaged(seed: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    vec((0..seed.len(), any::<u8>()), 0..8).prop_map(move |changes| {
        let mut bytes = seed.to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes
    })
}

fn takes<S: Strategy>(inputs: S, target: impl Fn(S::Value)) {
    check(CASES, &inputs, |input| {
        target(input);
        Ok(())
    });
}

#[test]
fn elf() {
    takes(damaged(fuzz::EXITS), |file| fuzz::elf(&file));
}

#[test]
fn guest() {
    takes(vec(any::<u8>(), 0..64), |code| fuzz::guest(&code));
}

#[test]
fn decode() {
    takes(any::<(u32, u64, [u64; 3], u8)>(), fuzz::decode);
}

#[test]
fn pcap() {
    let packets = include_bytes!("../../../examples/packets.pcap");
    takes(damaged(packets), |file| fuzz::pcap(&file));
}

#[test]
fn description() {
    // 15 leaves a number as it is.
    let bytes = vec(prop_oneof![4 => Just(15u8), 1 => any::<u8>()], 0..64);
    takes(bytes, |bytes| fuzz::description(&bytes));
}
