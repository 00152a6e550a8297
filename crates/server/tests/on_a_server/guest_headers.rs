//! The registers in the guests' headers are those of the devices.

use std::path::Path;

fn header(name: &str) -> String {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/include");
    std::fs::read_to_string(include.join(name)).unwrap()
}

/// A number in C.
fn number(text: &str) -> u64 {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The number of an array's members: a number, or the words from one offset to another.
fn members(count: &str) -> u64 {
    match count
        .strip_prefix('(')
        .and_then(|of| of.strip_suffix(") / 8"))
    {
        Some(bytes) => {
            let (end, start) = bytes.split_once(" - ").unwrap();
            (number(end) - number(start)) / 8
        }
        None => number(count),
    }
}

/// The fields of a structure of 64-bit registers with their offsets, and its size in bytes. Offsets
/// in the comments of fields are checked.
fn structure(header: &str, name: &str) -> (Vec<(String, u64)>, u64) {
    let (_, rest) = header.split_once(&format!("struct {name} {{\n")).unwrap();
    let (body, _) = rest.split_once("\n};").unwrap();
    let (mut fields, mut offset) = (Vec::new(), 0);
    for line in body.lines() {
        let (field, comment) = line.split_once(';').unwrap();
        let field = field.trim().strip_prefix("uint64_t ").unwrap();
        let (field, count) = match field.split_once('[') {
            Some((field, count)) => (field, members(count.strip_suffix(']').unwrap())),
            None => (field, 1),
        };
        if !field.starts_with("unused") {
            let (_, about) = comment.split_once("/**< ").unwrap();
            let (told, _) = about.split_once(':').unwrap();
            assert_eq!(number(told), offset, "the comment of {field}");
            fields.push((field.to_uppercase(), offset));
        }
        offset += 8 * count;
    }
    (fields, offset)
}

/// The constants whose names begin with `prefix`, without the prefix: numbers, alone or after a
/// base.
fn constants(header: &str, prefix: &str) -> Vec<(String, u64)> {
    let definitions = header.lines().filter_map(|line| {
        let line = line.strip_prefix("#define ")?.strip_prefix(prefix)?;
        let (name, value) = line.split_once(' ')?;
        if name.contains('(') {
            return None; // A macro.
        }
        let value = value.split_once("/*").map_or(value, |(value, _)| value);
        let value = value.trim().trim_end_matches(')');
        let value = value
            .rsplit_once("BASE + ")
            .map_or(value, |(_, offset)| offset);
        value
            .starts_with(|first: char| first.is_ascii_digit())
            .then(|| (name.into(), number(value)))
    });
    definitions.collect()
}

/// The same, in order of names.
fn sorted<N: Copy + Into<u64>>(registers: &[(&str, N)]) -> Vec<(String, u64)> {
    let registers = registers.iter();
    by_name(
        registers
            .map(|&(name, value)| (name.into(), value.into()))
            .collect(),
    )
}

fn by_name(mut registers: Vec<(String, u64)>) -> Vec<(String, u64)> {
    registers.sort();
    registers
}

#[test]
fn io_registers() {
    let (fields, bytes) = structure(&header("io.h"), "io_registers");
    assert_eq!(by_name(fields), sorted(queues::register::ALL));
    assert_eq!(bytes, server::memory_map::IO_REGISTERS.length);
}

#[test]
fn sonuma_registers() {
    let (fields, bytes) = structure(&header("sonuma.h"), "sonuma_registers");
    assert_eq!(by_name(fields), sorted(rpcvalet::REGISTERS));
    assert_eq!(bytes, rpcvalet::REGISTERS_BYTES);
    let contexts = rpcvalet::header::MAX_CONTEXTS as u64;
    assert_eq!(contexts * bytes, rpcvalet::SONUMA_REGISTERS.length);
}

#[test]
fn ice_nic_registers() {
    let constants = constants(&header("ice_nic.h"), "SIMPLENIC_");
    assert_eq!(by_name(constants), sorted(pcie::ICE_NIC_REGISTERS));
}

#[test]
fn dma_nic_registers() {
    let mut constants = constants(&header("dma_nic.h"), "DMA_NIC_");
    // Fields of a ring and of its buffers, in the form used by programs.
    let of_programs = ["ENTRIES", "BUFFER_BYTES", "DOORBELL_FRAMES"];
    constants.retain(|(name, _)| !of_programs.contains(&name.as_str()));
    assert_eq!(by_name(constants), sorted(pcie::DMA_NIC_REGISTERS));
}

#[test]
fn nanopu_control_registers() {
    let constants = constants(&header("lnic.h"), "CSR_");
    assert_eq!(by_name(constants), sorted(nanopu::CSRS));
}

#[test]
fn user_interrupt_control_registers() {
    let constants = constants(&header("user_interrupt.h"), "CSR_");
    assert_eq!(by_name(constants), sorted(user_interrupts::CSRS));
}

#[test]
fn cqe_nic_registers() {
    let constants = constants(&header("cqe_nic.h"), "CQE_NIC_");
    let (queues, others): (Vec<_>, Vec<_>) = constants
        .into_iter()
        .partition(|(name, _)| name.starts_with("QUEUE_"));
    assert_eq!(by_name(others), sorted(pcie::CQE_NIC_REGISTERS));
    let of_queues = queues.into_iter();
    let of_queues = of_queues.map(|(name, value)| (name.replacen("QUEUE_", "", 1), value));
    assert_eq!(
        by_name(of_queues.collect()),
        sorted(pcie::CQE_NIC_QUEUE_REGISTERS)
    );
}
