//! What the targets do with their input. `crates/server/tests/fuzz_targets.rs` includes this file, so
//! that it is compiled and tried with everything else.

use pipeline::{CoreSpec, NoExtension};
use riscv::elf::{self, Image, Segment};
use riscv::{Operation, evaluate, is_compressed};
use serde_json::{Number, Value};
use server::{Description, ExecuteOptions, Machine, Program, RunError, ServerSpec, presets};
use std::path::Path;
use workload::{ItemKind, Packets};

/// A program that ends at once, with status 0.
pub const EXITS: &[u8] = include_bytes!("../seeds/elf/exits.elf");

/// A small server that is built quickly.
fn small_server() -> ServerSpec {
    let preset = presets().into_iter().next().expect("there is a preset");
    let mut spec = preset.server;
    spec.memory_mib = 16;
    spec.fabric.cores = 1;
    spec.fabric.mesh.columns = 2;
    spec.fabric.mesh.rows = 1;
    spec.fabric.memory.controllers = 1;
    spec.fabric.last_level.size_bytes_per_bank = 4096;
    spec.fabric.last_level.ways = 4;
    spec
}

/// Runs a program for a few thousand cycles, if it can be put into the server.
fn begin(spec: &ServerSpec, image: Image) {
    let Ok(mut machine) = Machine::new(spec, image, &[], false, |_| Ok(NoExtension)) else {
        return;
    };
    machine.engine.set_speed(32, true);
    for _ in 0..200 {
        match machine.advance() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}

/// Any bytes: they are refused, or they are a program that can be put into a server and begun.
pub fn elf(file: &[u8]) {
    let Ok(image) = elf::load(file) else { return };
    for pair in image.segments.windows(2) {
        assert!(
            pair[0].range().end <= pair[1].range().start,
            "segments overlap"
        );
    }
    for segment in &image.segments {
        assert!(segment.bytes.len() as u64 <= segment.memory_bytes);
        let _ = image.function_at(segment.address);
        let _ = image.function_at(segment.range().end);
    }
    let _ = image.function_at(image.entry);
    begin(&small_server(), image);
}

/// Any bytes as code: the first says on which core they run. Whatever they do, the simulator goes
/// on, or says in words why not.
pub fn guest(bytes: &[u8]) {
    const CODE: u64 = 0x8000_0000;
    const HOST: u64 = 0x8000_8000;
    let Some((&choice, code)) = bytes.split_first() else {
        return;
    };
    let mut spec = small_server();
    if choice & 1 == 1 {
        spec.core = CoreSpec::five_stage();
    }
    spec.fabric.cores = 1 + usize::from(choice >> 1 & 1);
    let segment = Segment {
        address: CODE,
        virtual_address: CODE,
        memory_bytes: code.len().max(1) as u64,
        bytes: code.to_vec(),
        executable: true,
        writable: true,
    };
    let image = Image {
        entry: CODE,
        segments: vec![segment],
        symbols: Vec::new(),
        tohost: Some(HOST),
        fromhost: Some(HOST + 64),
        headers: elf::Headers::default(),
    };
    begin(&spec, image);
}

/// Any encoding with any operands: it decodes, is written out, and computes.
pub fn decode((bits, pc, [a, b, c], rounding): (u32, u64, [u64; 3], u8)) {
    let instruction = riscv::decode(bits);
    let compressed = is_compressed(bits as u16);
    assert_eq!(instruction.length, if compressed { 2 } else { 4 });
    let own = if compressed { bits & 0xffff } else { bits };
    assert_eq!(instruction.bits, own);
    // Nothing beside the encoding's own bits counts.
    assert_eq!(riscv::decode(own), instruction);
    let text = riscv::disassemble(&instruction, pc);
    assert!(!text.is_empty());
    if instruction.operation == Operation::Illegal {
        let _ = riscv::absent_extension(bits);
        return;
    }
    let mut flags = 0;
    let value = evaluate(&instruction, pc, a, b, c, rounding % 5, &mut flags);
    assert!(flags < 32, "{text}: flags {flags}");
    let mut again = 0;
    assert_eq!(
        value,
        evaluate(&instruction, pc, a, b, c, rounding % 5, &mut again)
    );
}

/// Any bytes: they are refused in a sentence, or they are packets that fit, and so are the payloads
/// in them.
pub fn pcap(file: &[u8]) {
    const MAXIMUM_BYTES: u32 = 1500;
    match Packets::from_pcap(Path::new("file"), file, MAXIMUM_BYTES) {
        Ok(mut packets) => {
            for _ in 0..3 {
                let mut packet = Vec::new();
                packets.append_next(&mut packet);
                assert!((20..=MAXIMUM_BYTES as usize).contains(&packet.len()));
                assert_eq!(packet[0] >> 4, 4);
            }
            match packets.set_kind(ItemKind::Requests) {
                Ok(()) => {
                    let mut payload = Vec::new();
                    packets.append_next(&mut payload);
                    assert!(payload.len() <= MAXIMUM_BYTES as usize - 28);
                }
                Err(error) => assert!(error.to_string().starts_with("file: ")),
            }
        }
        Err(error) => assert!(error.to_string().starts_with("file: ")),
    }
}

/// Any text, and any numbers in a description: they are refused in a sentence, or they are a
/// server that can be built and begun.
pub fn description(bytes: &[u8]) {
    if let Ok(description) = serde_json::from_slice::<Description>(bytes) {
        return described(&description);
    }
    let mut value = serde_json::json!({
        "server": small_server(),
        "data_plane": { "notify": "spin", "queues": 4 },
    });
    replace_numbers(&mut value, &mut bytes.iter().copied());
    if let Ok(description) = serde_json::from_value::<Description>(value) {
        described(&description);
    }
}

/// Puts a number, taken from the bytes that are left, in the place of some of those in `value`.
fn replace_numbers(value: &mut Value, bytes: &mut impl Iterator<Item = u8>) {
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|one| replace_numbers(one, bytes)),
        Value::Array(items) => items.iter_mut().for_each(|one| replace_numbers(one, bytes)),
        Value::Number(number) => {
            let (Some(kind), whole) = (bytes.next(), number.is_u64()) else {
                return;
            };
            let mut next = || u64::from(bytes.next().unwrap_or(0));
            let small = |low: u64, high: u64| low | high << 8;
            *number = match (kind % 16, whole) {
                (0, true) => small(next(), next()).into(),
                (1, true) => (1u64 << (next() % 64)).into(),
                (2, true) => (u64::MAX - small(next(), 0)).into(),
                (3, true) => (next() % 16).into(),
                (0..=3, false) => {
                    let bits = (0..8).fold(0, |bits, _| bits << 8 | next());
                    Number::from_f64(f64::from_bits(bits)).unwrap_or_else(|| 0.into())
                }
                (4, false) => (next() % 16).into(),
                _ => return,
            };
        }
        _ => {}
    }
}

fn described(description: &Description) {
    let text = serde_json::to_string(description).expect("it can be written");
    let again: Description = serde_json::from_str(&text).expect("it can be read again");
    assert_eq!(&again, description);
    let _ = server::check(description);
    let fabric = &description.server.fabric;
    let tiles = fabric.mesh.columns.saturating_mul(fabric.mesh.rows) as u64;
    let cache_bytes = fabric.last_level.size_bytes_per_bank.saturating_mul(tiles);
    if cache_bytes > 1 << 24 && cache_bytes <= 1 << 30 {
        return; // it can be built, and takes long
    }
    let program = Program {
        elf: EXITS.to_vec(),
        ..Program::default()
    };
    match server::execute(description, &program, &ExecuteOptions::default(), || false) {
        Ok(result) => assert_eq!(result.exit_status, 0),
        Err(RunError::Description(sentence)) => assert!(!sentence.is_empty()),
        Err(RunError::Interrupted) => {}
        Err(error) => panic!("{error}"),
    }
}
