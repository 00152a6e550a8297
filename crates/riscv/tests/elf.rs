//! Good and bad ELF files, built byte by byte.

use proptest::prelude::*;
use riscv::elf::{ElfError, load, printable};

const BASE: u64 = 0x8000_0000;

/// A program of two segments (code at `BASE`, data at `BASE + 0x1000`) and some symbols.
struct Builder {
    bytes: Vec<u8>,
}

/// Offsets in the file.
const PROGRAM_HEADERS: usize = 64;
const CODE: usize = PROGRAM_HEADERS + 2 * 56;
const SECTIONS: usize = CODE + 16;
const STRINGS: usize = SECTIONS + 4 * 64;
const NAMES: &[u8] = b"\0_start\0loop\0tohost\0fromhost\0$x\0function\0";
const SYMBOLS: usize = STRINGS + 48;
const SYMBOL_COUNT: u64 = 8;
const END: usize = SYMBOLS + 24 * SYMBOL_COUNT as usize;

impl Builder {
    fn new() -> Builder {
        let mut file = Builder {
            bytes: vec![0; END],
        };
        file.bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file.put16(16, 2); // executable
        file.put16(18, 243); // RISC-V
        file.put32(20, 1);
        file.put64(24, BASE);
        file.put64(32, PROGRAM_HEADERS as u64);
        file.put64(40, SECTIONS as u64);
        file.put16(52, 64);
        file.put16(54, 56);
        file.put16(56, 2);
        file.put16(58, 64);
        file.put16(60, 4);
        file.segment(0, 1, 5, (CODE as u64, BASE, 12, 12));
        file.segment(1, 1, 6, (CODE as u64 + 12, BASE + 0x1000, 4, 0x100));
        file.bytes[CODE..CODE + 16].copy_from_slice(b"instructionsdata");
        file.section(1, 1, 6, (0, 0, 0, 0)); // code
        file.section(2, 3, 0, (STRINGS as u64, NAMES.len() as u64, 0, 0));
        file.section(3, 2, 0, (SYMBOLS as u64, 24 * SYMBOL_COUNT, 2, 24));
        file.bytes[STRINGS..STRINGS + NAMES.len()].copy_from_slice(NAMES);
        file.symbol(1, b"tohost", 1, 0xfff1, (BASE + 0x1000, 8));
        file.symbol(2, b"fromhost", 0, 2, (BASE + 0x1040, 8));
        file.symbol(3, b"function", 2, 1, (BASE + 4, 4));
        file.symbol(4, b"_start", 0, 1, (BASE, 0));
        file.symbol(5, b"$x", 0, 1, (BASE + 5, 0));
        file.symbol(6, b"loop", 0, 1, (BASE + 8, 0));
        file.symbol(7, b"function", 2, 0, (BASE + 4, 4)); // undefined
        file
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn segment(&mut self, index: usize, kind: u32, flags: u32, what: (u64, u64, u64, u64)) {
        let at = PROGRAM_HEADERS + 56 * index;
        let (offset, address, file_bytes, memory_bytes) = what;
        self.put32(at, kind);
        self.put32(at + 4, flags);
        for (field, value) in [
            (8, offset),
            (16, address),
            (24, address),
            (32, file_bytes),
            (40, memory_bytes),
        ] {
            self.put64(at + field, value);
        }
    }

    fn section(&mut self, index: usize, kind: u32, flags: u64, what: (u64, u64, u32, u64)) {
        let at = SECTIONS + 64 * index;
        let (offset, size, link, entry) = what;
        self.put32(at + 4, kind);
        self.put64(at + 8, flags);
        self.put64(at + 24, offset);
        self.put64(at + 32, size);
        self.put32(at + 40, link);
        self.put64(at + 56, entry);
    }

    fn symbol(&mut self, index: usize, name: &[u8], kind: u8, section: u16, what: (u64, u64)) {
        let at = SYMBOLS + 24 * index;
        let with_end = [b"\0", name, b"\0"].concat();
        let name = NAMES
            .windows(with_end.len())
            .position(|place| place == with_end)
            .unwrap()
            + 1;
        self.put32(at, name as u32);
        self.bytes[at + 4] = 1 << 4 | kind;
        self.put16(at + 6, section);
        self.put64(at + 8, what.0);
        self.put64(at + 16, what.1);
    }

    fn error(&self) -> String {
        load(&self.bytes).unwrap_err().to_string()
    }
}

#[test]
fn a_good_program() {
    let image = load(&Builder::new().bytes).unwrap();
    assert_eq!(image.entry, BASE);
    assert_eq!(image.tohost, Some(BASE + 0x1000));
    assert_eq!(image.fromhost, Some(BASE + 0x1040));
    assert_eq!(image.segments.len(), 2);
    assert_eq!(image.segments[0].bytes, b"instructions");
    assert!(image.segments[0].executable && !image.segments[0].writable);
    assert_eq!(
        (image.segments[1].address, image.segments[1].memory_bytes),
        (BASE + 0x1000, 0x100)
    );
    assert_eq!(image.symbol("loop"), Some(BASE + 8));
    assert_eq!(image.symbol("$x"), None);
    assert_eq!(image.symbol("printf"), None);
}

/// A program's start finds its headers in memory by the segment that has them, from the first byte
/// of the table on.
#[test]
fn the_segment_with_the_program_headers_is_known() {
    let table = PROGRAM_HEADERS as u64;
    for (bytes, expected) in [(table, None), (table + 1, Some(BASE + table))] {
        let mut file = Builder::new();
        file.segment(0, 1, 5, (0, BASE, bytes, bytes));
        let image = load(&file.bytes).unwrap();
        assert_eq!(image.headers.program_headers, expected);
    }
}

#[test]
fn functions_are_found() {
    let image = load(&Builder::new().bytes).unwrap();
    assert_eq!(image.function_at(BASE - 1), None);
    assert_eq!(image.function_at(BASE), Some(("_start", 0)));
    assert_eq!(image.function_at(BASE + 2), Some(("_start", 2)));
    assert_eq!(image.function_at(BASE + 7), Some(("function", 3)));
    assert_eq!(image.function_at(BASE + 8), Some(("loop", 0)));
    assert_eq!(image.function_at(BASE + 11), Some(("loop", 3)));
    assert_eq!(image.function_at(BASE + 12), None, "beyond the segment");
    assert_eq!(image.function_at(BASE + 0x1000), None, "data");
}

#[test]
fn names_are_shown_and_do_not_control_the_terminal() {
    let shown = printable("\x1b[31mred\r\n\u{202e}é\u{9b}; \u{65e5}".as_bytes());
    assert_eq!(
        shown,
        "\\u{1b}[31mred\\u{d}\\u{a}\\u{202e}é\\u{9b}; \u{65e5}"
    );
    let mut file = Builder::new();
    let at = file
        .bytes
        .windows(4)
        .position(|name| name == b"loop")
        .unwrap();
    file.bytes[at] = 0x1b;
    let image = load(&file.bytes).unwrap();
    assert_eq!(image.symbol("\\u{1b}oop"), Some(BASE + 8));
}

#[test]
fn stripped_programs_have_no_symbols() {
    let mut file = Builder::new();
    file.put16(60, 0);
    let image = load(&file.bytes).unwrap();
    assert!(image.symbols.is_empty());
    assert_eq!(image.tohost, None);
    assert_eq!(image.function_at(BASE), None);
}

fn with(change: impl FnOnce(&mut Builder)) -> String {
    let mut file = Builder::new();
    change(&mut file);
    file.error()
}

#[test]
fn errors_are_sentences() {
    assert_eq!(
        load(b"#!/bin/sh").unwrap_err().to_string(),
        "this is not an ELF file: it begins with 23 21 2f 62, not with 7f 45 4c 46 (\"\\x7fELF\")"
    );
    assert_eq!(
        load(b"").unwrap_err(),
        ElfError::NotElf {
            found: "nothing".to_string()
        }
    );
    assert_eq!(
        with(|f| f.bytes[4] = 1),
        "this is not a 64-bit program (ELF class 1; accepted is 2, 64-bit): \
         compile it with -march=rv64gc -mabi=lp64d"
    );
    assert_eq!(
        with(|f| f.bytes[5] = 2),
        "this is not a little-endian program (ELF data encoding 2; accepted is 1, little-endian)"
    );
    assert_eq!(
        with(|f| f.put16(18, 62)),
        "this program is for x86-64 (ELF machine 62), not for RISC-V (243)"
    );
    assert_eq!(
        with(|f| f.put32(48, 8)),
        "this program is for the reduced RV64E register set; \
         compile it with -march=rv64gc -mabi=lp64d"
    );
    assert_eq!(
        with(|f| f.put32(48, 6)),
        "this program is compiled for quad-precision floating point (the Q extension); \
         compile it with -march=rv64gc -mabi=lp64d"
    );
    assert_eq!(
        with(|f| f.put64(24, BASE + 1)),
        "the entry point 0x80000001 is odd, and instructions begin at even addresses: \
         give the linker one (-e SYMBOL)"
    );
    assert_eq!(
        with(|f| f.put64(24, 0)),
        "the entry point 0x0 lies in no segment of the program: give the linker one (-e SYMBOL)"
    );
    assert_eq!(
        with(|f| f.put16(16, 1)),
        "this is a relocatable object file, not an executable: link it first (with -static)"
    );
    let dynamic = "this program is dynamically linked: link it with -static";
    assert_eq!(with(|f| f.segment(1, 3, 4, (0, 0, 0, 0))), dynamic);
    let nothing = "the program has no loadable segment: there is nothing to run";
    assert_eq!(with(|f| f.put16(56, 0)), nothing);
    assert_eq!(
        with(|f| f.segment(1, 1, 6, (CODE as u64, BASE + 8, 4, 8))),
        "segments overlap: 0x80000000 to 0x8000000c and 0x80000008 to 0x80000010 (exclusive)"
    );
    assert_eq!(
        with(|f| f.segment(1, 1, 6, (CODE as u64, BASE + 0x1000, 4, 3))),
        "segment 1 at 0x80001000 is malformed: it is larger in the file than in memory"
    );
    assert_eq!(
        with(|f| f.segment(1, 1, 6, (CODE as u64, u64::MAX, 0, 8))),
        "segment 1 at 0xffffffffffffffff is malformed: \
         it goes beyond the end of the address space"
    );
    assert_eq!(
        with(|f| f.segment(1, 1, 6, (CODE as u64, BASE + 0x1000, 0x2000, 0x2000))),
        format!(
            "the file is truncated: segment 1 at 0x80001000 needs {} bytes, the file has {END}",
            CODE + 0x2000
        )
    );
    assert_eq!(
        with(|f| f.put16(54, 32)),
        "the program header table has entries of 32 bytes; ELF defines them to have 56"
    );
    assert_eq!(
        with(|f| f.put32(SYMBOLS + 24, 1000)),
        "the symbol table is malformed: a name lies outside"
    );
}

#[test]
fn no_prefix_is_a_program() {
    let file = Builder::new().bytes;
    for length in 0..file.len() {
        match load(&file[..length]).unwrap_err() {
            ElfError::NotElf { .. } => assert_eq!(length, 0),
            ElfError::Truncated {
                expected, found, ..
            } => {
                assert_eq!(found, length as u64);
                assert!(expected > length as u128 && expected <= END as u128);
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
}

proptest! {
    /// Whatever the damage, reading ends with an image or an error, and all queries of an image
    /// succeed.
    #[test]
    fn damage_never_panics(
        damage in prop::collection::vec((0..END, any::<u8>()), 1..8),
        pc in prop_oneof![any::<u64>(), BASE..BASE + 32],
    ) {
        let mut bytes = Builder::new().bytes;
        for (at, value) in damage {
            bytes[at] = value;
        }
        if let Ok(image) = load(&bytes) {
            image.function_at(pc);
        }
    }
}

#[test]
fn extensions_that_harts_lack_are_named() {
    let missing = |architecture: &str| {
        let headers = riscv::elf::Headers {
            architecture: Some(architecture.to_string()),
            ..Default::default()
        };
        headers.missing_extensions().join(" ")
    };
    assert_eq!(missing("rv64i2p1_m2p0_a2p1_f2p2_d2p2_c2p0_zicsr2p0"), "");
    assert_eq!(
        missing("rv64i2p1_v1p0_zve32f1p0_zvl128b1p0_zba1p0_zcmp"),
        "v zve32f zvl128b zcmp"
    );
    assert_eq!(riscv::elf::Headers::default().missing_extensions(), [""; 0]);
}
