//! Programs that access devices at random, and the files that they come in.

use super::input::Input;
use super::servers::EXITS;

const ENTRY: u64 = 0x8000_0000;
/// `tohost` of [`EXITS`] is between code and data.
const MAX_CODE_BYTES: usize = 0x1000;
const DATA_OFFSET: usize = 0x2000;
/// Where a program's data is.
pub const DATA: u64 = ENTRY + DATA_OFFSET as u64;

/// The file of a bare-metal program: that of [`EXITS`], with other code and with data.
pub fn bare_metal(code: &[u32], data: &[u8]) -> Vec<u8> {
    let mut contents: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(contents.len() <= MAX_CODE_BYTES);
    contents.resize(DATA_OFFSET, 0);
    contents.extend_from_slice(data);
    with_segment(EXITS, ENTRY, &contents)
}

/// The file of a Linux program: without symbols, at an address that Linux programs have.
pub fn linux(entry: u64, contents: &[u8]) -> Vec<u8> {
    let mut file = with_segment(EXITS, entry, contents);
    // The place, size, number and names of the sections.
    for range in [0x28..0x30, 0x3a..0x40] {
        file[range].fill(0);
    }
    file
}

/// A file with its only segment replaced.
fn with_segment(file: &[u8], address: u64, contents: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let offset = file.len() as u64;
    let length = contents.len() as u64;
    for (at, value) in [
        (0x18, address),
        (0x48, offset),
        (0x50, address),
        (0x58, address),
        (0x60, length),
        (0x68, length),
    ] {
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(contents);
    file
}

/// Registers of the programs here.
const OPERANDS: u32 = 8; // s0
const FIRST: u32 = 5; // t0
const SECOND: u32 = 6; // t1
const RESULT: u32 = 7; // t2
const HART: u32 = 10; // a0
const TEMPORARY: u32 = 28; // t3

/// `ld rd, offset(base)`.
pub fn load_double(rd: u32, base: u32, offset: u32) -> u32 {
    offset << 20 | base << 15 | 3 << 12 | rd << 7 | 0x03
}

/// `addi rd, rs, immediate`.
pub fn add_immediate(rd: u32, rs: u32, immediate: u32) -> u32 {
    immediate << 20 | rs << 15 | rd << 7 | 0x13
}

/// `auipc rd, pages`.
pub fn pages_ahead(rd: u32, pages: u32) -> u32 {
    pages << 12 | rd << 7 | 0x17
}

/// `jal x0, offset`.
fn jump(offset: i32) -> u32 {
    let bits = offset as u32;
    (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3ff) << 21
        | (bits >> 11 & 1) << 20
        | bits & 0xff000
        | 0x6f
}

/// `bne rs, x0, offset`; the offset is from 0 to 2046.
fn branch_unequal(rs: u32, offset: u32) -> u32 {
    (offset >> 11 & 1) << 7
        | (offset >> 5 & 0x3f) << 25
        | (offset >> 1 & 0xf) << 8
        | rs << 15
        | 1 << 12
        | 0x63
}

/// What a program begins with: an instruction that is refused is left out.
fn handler() -> Vec<u32> {
    const MTVEC: u32 = 0x305;
    const MEPC: u32 = 0x341;
    let swap = |csr: u32, rs: u32, rd: u32| csr << 20 | rs << 15 | 1 << 12 | rd << 7 | 0x73;
    vec![
        pages_ahead(TEMPORARY, 0),
        add_immediate(TEMPORARY, TEMPORARY, 16),
        swap(MTVEC, TEMPORARY, 0),
        jump(20),
        swap(MEPC, 0, TEMPORARY),
        add_immediate(TEMPORARY, TEMPORARY, 4),
        swap(MEPC, TEMPORARY, 0),
        0x3020_0073, // mret
    ]
}

/// One access.
#[derive(Clone, Copy)]
struct Access {
    /// The instruction, on [`FIRST`] and [`SECOND`].
    instruction: u32,
    first: u64,
    second: u64,
}

/// So many accesses, and what comes before them, do not fill the code's page.
const MAX_ACCESSES: usize = 180;
const MAX_OPENING: usize = 40;

/// A program that carries out `opening` (stores of values at addresses) on hart 0, and then over
/// and over again on all harts what is read from `input`: accesses at some offset from one of
/// `places`, and hardware operations. `data` is at [`DATA`].
pub fn of_accesses(
    input: &mut Input<'_>,
    opening: &[(u64, u64)],
    places: &[u64],
    data: &[u8],
) -> Vec<u8> {
    assert!(opening.len() <= MAX_OPENING);
    let store = SECOND << 20 | FIRST << 15 | 3 << 12 | 0x23;
    let opening = opening.iter().map(|&(first, second)| Access {
        instruction: store,
        first,
        second,
    });
    let opening: Vec<Access> = opening.collect();
    let mut accesses = Vec::new();
    while !input.is_empty() && accesses.len() < MAX_ACCESSES {
        accesses.push(access(input, places));
    }
    // The operands are behind the data, in the order of the accesses.
    let pages = (DATA_OFFSET + data.len()).div_ceil(0x1000);
    let mut contents = data.to_vec();
    contents.resize(pages * 0x1000 - DATA_OFFSET, 0);
    let mut code = handler();
    code.push(branch_unequal(HART, 4 * (3 + 4 * opening.len() as u32)));
    let mut emit = |code: &mut Vec<u32>, accesses: &[Access], before: usize| {
        let here = 4 * code.len() as u32;
        code.push(pages_ahead(OPERANDS, pages as u32));
        code.push(add_immediate(
            OPERANDS,
            OPERANDS,
            (16 * before as u32).wrapping_sub(here),
        ));
        for access in accesses {
            code.push(load_double(FIRST, OPERANDS, 0));
            code.push(load_double(SECOND, OPERANDS, 8));
            code.push(add_immediate(OPERANDS, OPERANDS, 16));
            code.push(access.instruction);
            contents.extend(access.first.to_le_bytes());
            contents.extend(access.second.to_le_bytes());
        }
    };
    emit(&mut code, &opening, 0);
    let again = code.len() as i32;
    emit(&mut code, &accesses, opening.len());
    code.push(jump((again - code.len() as i32) * 4));
    bare_metal(&code, &contents)
}

fn access(input: &mut Input<'_>, places: &[u64]) -> Access {
    let size = u32::from(input.byte());
    let (kind, size) = (size >> 3, size & 3);
    let instruction = match kind % 8 {
        0 | 1 => SECOND << 20 | FIRST << 15 | size << 12 | 0x23,
        2 | 3 => FIRST << 15 | size << 12 | RESULT << 7 | 0x03,
        // `amoadd`, `amoswap`.
        4 => {
            (kind >> 4) << 27
                | SECOND << 20
                | FIRST << 15
                | (2 | size & 1) << 12
                | RESULT << 7
                | 0x2f
        }
        // HyperPlane's instructions: custom-0 with the operation in `funct7`.
        5 | 6 => {
            u32::from(input.byte() % 16) << 25 | SECOND << 20 | FIRST << 15 | RESULT << 7 | 0x0b
        }
        // nanoPU's registers: `csrrw`; and what else is near them.
        _ => {
            (0x50 + u32::from(input.byte() % 8)) << 20 | SECOND << 15 | 1 << 12 | RESULT << 7 | 0x73
        }
    };
    let place = input.choice(places);
    let first = match input.byte() % 8 {
        // Aligned, in the first registers; on all pages; anywhere.
        0..=3 => place + u64::from(input.byte()) * 8,
        4 => place + u64::from(input.byte()),
        5 => place + u64::from(input.byte()) * 0x1000 + u64::from(input.byte()) * 8,
        6 => place,
        _ => input.number(),
    };
    let second = match input.byte() % 4 {
        0 => input.choice(places) + u64::from(input.byte()) * 64,
        _ => input.number(),
    };
    Access {
        instruction,
        first,
        second,
    }
}
