//! The fuzz targets compile, and accept their seeds and damaged versions of them.

use crate::common::cases::check;
use crate::fuzz;
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
    let packets = include_bytes!("../../../../examples/packets.pcap");
    takes(damaged(packets), |file| fuzz::pcap(&file));
}

#[test]
fn description() {
    // 15 leaves a number unchanged.
    let bytes = vec(prop_oneof![4 => Just(15u8), 1 => any::<u8>()], 0..64);
    takes(bytes, |bytes| fuzz::description(&bytes));
}

/// `head`, followed by any bytes.
fn any_behind(head: Vec<u8>, most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most).prop_map(move |tail| [head.as_slice(), &tail].concat())
}

#[test]
fn checkpoint() {
    fuzz::checkpoint(&[0]);
    fuzz::checkpoint(&[1]);
    takes(vec(any::<u8>(), 0..24), |bytes| fuzz::checkpoint(&bytes));
}

#[test]
fn queueing() {
    // Draws that would never end: the scale of extreme values vanishes beside their location.
    let lost = r#"{"distribution": "generalized-extreme-value", "scale": 1e-200}"#;
    let system = r#""queues": 1, "units": 1, "load": 0.5, "service_times""#;
    fuzz::queueing(format!(r#"{{"queueing": {{{system}: {lost}}}}}"#).as_bytes());
    let numbers = vec(prop_oneof![4 => Just(15u8), 1 => any::<u8>()], 0..32);
    takes((any::<u8>(), numbers), |(kind, numbers)| {
        fuzz::queueing(&[vec![kind], numbers].concat());
    });
}

#[test]
fn rack() {
    let interfaces = 0..4u8;
    takes(
        interfaces.prop_flat_map(|kind| any_behind(vec![kind, 0], 64)),
        |bytes| fuzz::rack(&bytes),
    );
}

#[test]
fn devices() {
    takes(vec(any::<u8>(), 0..128), |bytes| fuzz::devices(&bytes));
}

#[test]
fn linux() {
    // The working directory of tests is not the sandbox, which is the programs' root.
    assert_ne!(
        std::env::current_dir().ok().as_deref(),
        Some(fuzz::sandbox())
    );
    takes(vec(any::<u8>(), 0..256), |bytes| fuzz::linux(&bytes));
    let outside = fuzz::sandbox().parent().expect("it is in a directory");
    std::fs::remove_dir_all(outside).expect("it is there");
}
