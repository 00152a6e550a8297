//! Programs: statically linked RISC-V executables in the ELF format.
//!
//! Reads the parts that a simulator needs (segments, entry point, symbols) and explains in a
//! sentence why a file is unusable. Source: *System V ABI*, chapters "Object Files" and "Program
//! Loading"; *RISC-V ELF psABI*.

use std::ops::Range;

use thiserror::Error;

/// A program, ready to be loaded into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Address of the first instruction.
    pub entry: u64,
    /// The contents of memory, by ascending address, without overlaps.
    pub segments: Vec<Segment>,
    /// The symbols, by ascending address.
    pub symbols: Vec<Symbol>,
    /// Address of `tohost`, if the program has such a symbol (host-target interface).
    pub tohost: Option<u64>,
    /// Address of `fromhost`, likewise.
    pub fromhost: Option<u64>,
    /// Information for an operating system.
    pub headers: Headers,
}

/// Information for an operating system in the headers of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Whether all addresses are relative to the load address (`ET_DYN`).
    pub position_independent: bool,
    /// Whether it has thread-local variables (`PT_TLS`).
    pub thread_local: bool,
    /// `EI_OSABI`: 0 if unspecified, 3 for Linux.
    pub os_abi: u8,
    /// Virtual address of the program headers, if a segment holds them.
    pub program_headers: Option<u64>,
    /// Number of program headers, of 56 bytes each.
    pub program_header_count: u64,
    /// The linker's description of the architecture, as in `rv64i2p1_m2p0_v1p0`.
    pub architecture: Option<String>,
    /// Whether it relies on total store order, the extension Ztso.
    pub total_store_order: bool,
}

impl Headers {
    /// Extensions that the program was built for and that harts do not have.
    pub fn missing_extensions(&self) -> Vec<&str> {
        const AVAILABLE: [&str; 21] = [
            "rv64i", "m", "a", "f", "d", "c", "b", "zicsr", "zicntr", "zifencei", "zmmul", "zaamo",
            "zalrsc", "zca", "zcd", "zba", "zbb", "zbs", "zawrs", "zicbop", "ztso",
        ];
        let parts = self.architecture.iter().flat_map(|all| all.split('_'));
        parts
            .map(|part| {
                // Each name is followed by its version, as in `zba1p0`.
                let digit = |c: char| c.is_ascii_digit();
                let without_minor = part.trim_end_matches(digit);
                match without_minor.strip_suffix('p') {
                    Some(rest) if without_minor != part => rest.trim_end_matches(digit),
                    _ => part,
                }
            })
            .filter(|name| !AVAILABLE.contains(name))
            .collect()
    }
}

/// A segment of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Physical address of its first byte (where it is loaded; linkers make it equal to the virtual
    /// address unless told otherwise).
    pub address: u64,
    /// Address that the program itself uses for it.
    pub virtual_address: u64,
    /// Its contents.
    pub bytes: Vec<u8>,
    /// Its size in memory, in bytes: the bytes beyond `bytes` are zero.
    pub memory_bytes: u64,
    /// Whether it holds instructions.
    pub executable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

impl Segment {
    /// Its address range.
    pub fn range(&self) -> Range<u64> {
        self.address..self.address + self.memory_bytes // the sum was checked by `load`
    }
}

/// A name for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name.
    pub name: String,
    /// The address, or the value of an absolute symbol.
    pub address: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
    /// Whether it names code: a function, or a label among instructions.
    pub code: bool,
}

/// Text from a guest, made safe for a terminal: characters that would control it, or change the
/// order of the text, are escaped as in `\u{1b}`.
pub fn printable(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        let reorders = matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        if c.is_control() || reorders {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The reason that a file is not a program for this machine.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ElfError {
    /// The magic number is missing.
    #[error("this is not an ELF file: it begins with {found}, not with 7f 45 4c 46 (\"\\x7fELF\")")]
    NotElf {
        /// The first bytes.
        found: String,
    },
    /// ELFCLASS32 or an undefined class.
    #[error(
        "this is not a 64-bit program (ELF class {class}; accepted is 2, 64-bit): compile it with \
         -march=rv64gc -mabi=lp64d"
    )]
    NotSixtyFourBit {
        /// `e_ident[EI_CLASS]`.
        class: u8,
    },
    /// ELFDATA2MSB or an undefined encoding.
    #[error(
        "this is not a little-endian program (ELF data encoding {encoding}; accepted is 1, \
         little-endian)"
    )]
    NotLittleEndian {
        /// `e_ident[EI_DATA]`.
        encoding: u8,
    },
    /// The program is for another processor.
    #[error("this program is for {name} (ELF machine {machine}), not for RISC-V (243)")]
    WrongMachine {
        /// `e_machine`.
        machine: u16,
        /// Its usual name.
        name: &'static str,
    },
    /// For RV32E or RV64E, whose registers and calls differ.
    #[error(
        "this program is for the reduced RV64E register set; compile it with -march=rv64gc \
         -mabi=lp64d"
    )]
    Embedded,
    /// For an ABI whose registers or memory model the server does not have.
    #[error("this program is compiled for {found}; compile it with -march=rv64gc -mabi=lp64d")]
    WrongAbi {
        /// The required feature.
        found: &'static str,
    },
    /// Relocatable object or core dump.
    #[error("this is {found}, not an executable: link it first (with -static)")]
    NotExecutable {
        /// The kind of file.
        found: &'static str,
    },
    /// It needs a dynamic linker.
    #[error(
        "this program is dynamically linked{}: link it with -static",
        .interpreter.as_ref().map_or_else(String::new, |name| format!(" (it wants {name})"))
    )]
    Dynamic {
        /// The dynamic linker that it requests.
        interpreter: Option<String>,
    },
    /// The file ends too early.
    #[error("the file is truncated: {part} needs {expected} bytes, the file has {found}")]
    Truncated {
        /// The part that is cut off.
        part: String,
        /// The required file length, in bytes.
        expected: u128,
        /// The actual file length, in bytes.
        found: u64,
    },
    /// A table has entries of an unknown size.
    #[error("{part} has entries of {found} bytes; ELF defines them to have {expected}")]
    BadEntrySize {
        /// The table.
        part: &'static str,
        /// Bytes of an entry according to ELF.
        expected: u16,
        /// Bytes of an entry according to the file.
        found: u16,
    },
    /// A segment is inconsistent.
    #[error("segment {index} at {address:#x} is malformed: {problem}")]
    BadSegment {
        /// The number of the program header.
        index: usize,
        /// The address at which it would be loaded.
        address: u64,
        /// The inconsistency.
        problem: &'static str,
    },
    /// There is nothing to run.
    #[error("the program has no loadable segment: there is nothing to run")]
    NothingToLoad,
    /// Two segments occupy the same memory.
    #[error("segments overlap: {0:#x} to {1:#x} and {2:#x} to {3:#x} (exclusive)")]
    Overlap(u64, u64, u64, u64),
    /// It has no valid entry point.
    #[error("the entry point {entry:#x} {problem}: give the linker one (-e SYMBOL)")]
    BadEntry {
        /// `e_entry`.
        entry: u64,
        /// The error.
        problem: &'static str,
    },
    /// The symbol table is inconsistent.
    #[error("the symbol table is malformed: {problem}")]
    BadSymbols {
        /// The inconsistency.
        problem: &'static str,
    },
}

/// Reads an executable.
///
/// # Errors
///
/// If it is anything but a complete, statically linked, 64-bit little-endian RISC-V program.
pub fn load(bytes: &[u8]) -> Result<Image, ElfError> {
    let file = File(bytes);
    file.check_header()?;
    let mut headers = Headers {
        position_independent: file.u16(16) == ET_DYN,
        os_abi: file.u8(7),
        architecture: file.architecture(),
        total_store_order: file.u32(48) & EF_RISCV_TSO != 0,
        ..Headers::default()
    };
    let segments = file.segments(&mut headers)?;
    let entry = file.entry(&segments)?;
    let symbols = file.symbols()?;
    let mut image = Image {
        entry,
        segments,
        symbols,
        tohost: None,
        fromhost: None,
        headers,
    };
    image.tohost = image.symbol("tohost");
    image.fromhost = image.symbol("fromhost");
    Ok(image)
}

impl Image {
    /// The program as an operating system loads it: at its virtual addresses, moved up by `base`.
    ///
    /// # Errors
    ///
    /// If it would extend beyond the end of the address space, or its segments would overlap.
    pub fn at_virtual_addresses(mut self, base: u64) -> Result<Image, ElfError> {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            let address = segment.virtual_address.checked_add(base);
            segment.address = address
                .filter(|address| address.checked_add(segment.memory_bytes).is_some())
                .ok_or(ElfError::BadSegment {
                    index,
                    address: segment.virtual_address,
                    problem: "it goes beyond the end of the address space",
                })?;
        }
        sort_segments(&mut self.segments)?;
        self.entry = self.entry.wrapping_add(base);
        for symbol in &mut self.symbols {
            symbol.address = symbol.address.wrapping_add(base);
        }
        self.symbols.sort_by_key(|symbol| symbol.address);
        let headers = &mut self.headers.program_headers;
        *headers = headers.map(|address| address.wrapping_add(base));
        Ok(self)
    }

    /// The function, or code label, that an address lies in, and how many bytes into it.
    pub fn function_at(&self, pc: u64) -> Option<(&str, u64)> {
        let before = self.symbols.partition_point(|symbol| symbol.address <= pc);
        let candidates = self.symbols[..before]
            .iter()
            .rev()
            .filter(|symbol| symbol.code);
        // A label of unknown size extends to the next one, within its segment.
        let nearest = candidates.clone().next()?;
        let inside = |symbol: &&Symbol| pc - symbol.address < symbol.size;
        let found = match nearest.size {
            0 if self.same_segment(nearest.address, pc) => nearest,
            _ => candidates.take(16).find(inside)?,
        };
        Some((&found.name, pc - found.address))
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols
            .iter()
            .find(|symbol| symbol.name == name)
            .map(|symbol| symbol.address)
    }

    fn same_segment(&self, a: u64, b: u64) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.range().contains(&a) && segment.range().contains(&b))
    }
}

const ET_DYN: u16 = 3;
/// In `e_flags`: the program relies on total store order.
const EF_RISCV_TSO: u32 = 0x10;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_TLS: u32 = 7;
const SHT_SYMTAB: u32 = 2;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;

/// The file. Reads at unchecked offsets give zero.
#[derive(Clone, Copy)]
struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn array<const N: usize>(self, offset: u64) -> [u8; N] {
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.0.get(start..start.checked_add(N)?))
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }

    fn u8(self, offset: u64) -> u8 {
        u8::from_le_bytes(self.array(offset))
    }

    fn u16(self, offset: u64) -> u16 {
        u16::from_le_bytes(self.array(offset))
    }

    fn u32(self, offset: u64) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    fn u64(self, offset: u64) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// A part of the file, which must be complete.
    fn part(self, what: &str, offset: u64, size: u64) -> Result<&'a [u8], ElfError> {
        let end = u128::from(offset) + u128::from(size);
        let found = self.0.len() as u64;
        if end > u128::from(found) {
            return Err(ElfError::Truncated {
                part: what.to_string(),
                expected: end,
                found,
            });
        }
        Ok(&self.0[offset as usize..end as usize])
    }

    fn check_header(self) -> Result<(), ElfError> {
        let start = &self.0[..self.0.len().min(4)];
        if start.is_empty() || !b"\x7fELF".starts_with(start) {
            let hex: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
            let found = if hex.is_empty() {
                "nothing".to_string()
            } else {
                hex.join(" ")
            };
            return Err(ElfError::NotElf { found });
        }
        self.part("the identification", 0, 16)?;
        if self.u8(4) != 2 {
            return Err(ElfError::NotSixtyFourBit { class: self.u8(4) });
        }
        if self.u8(5) != 1 {
            return Err(ElfError::NotLittleEndian {
                encoding: self.u8(5),
            });
        }
        self.part("the file header", 0, 64)?;
        let machine = self.u16(18);
        if machine != 243 {
            return Err(ElfError::WrongMachine {
                machine,
                name: machine_name(machine),
            });
        }
        match self.u16(16) {
            2 | ET_DYN => {}
            1 => {
                return Err(ElfError::NotExecutable {
                    found: "a relocatable object file",
                });
            }
            4 => {
                return Err(ElfError::NotExecutable {
                    found: "a core dump",
                });
            }
            _ => {
                return Err(ElfError::NotExecutable {
                    found: "an ELF file of unknown type",
                });
            }
        }
        let flags = self.u32(48);
        const EF_RISCV_FLOAT_ABI: u32 = 6;
        const EF_RISCV_FLOAT_ABI_QUAD: u32 = 6;
        const EF_RISCV_RVE: u32 = 8;
        if flags & EF_RISCV_RVE != 0 {
            return Err(ElfError::Embedded);
        }
        if flags & EF_RISCV_FLOAT_ABI == EF_RISCV_FLOAT_ABI_QUAD {
            return Err(ElfError::WrongAbi {
                found: "quad-precision floating point (the Q extension)",
            });
        }
        Ok(())
    }

    /// Checks a table of `count` entries, and returns the offset of each.
    fn table(
        self,
        part: &'static str,
        offset: u64,
        entry: (u16, u16),
        count: u64,
    ) -> Result<impl Iterator<Item = u64>, ElfError> {
        let (expected, found) = entry;
        if count > 0 && found != expected {
            return Err(ElfError::BadEntrySize {
                part,
                expected,
                found,
            });
        }
        let size = u64::from(expected);
        self.part(part, offset, count.saturating_mul(size))?;
        Ok((0..count).map(move |index| offset + index * size))
    }

    fn segments(self, about: &mut Headers) -> Result<Vec<Segment>, ElfError> {
        let count = self.u16(56).into();
        about.program_header_count = count;
        let headers = self.table(
            "the program header table",
            self.u64(32),
            (56, self.u16(54)),
            count,
        )?;
        let mut segments = Vec::new();
        for (index, header) in headers.enumerate() {
            match self.u32(header) {
                PT_INTERP => {
                    let [offset, size] = [8, 32].map(|field| self.u64(header + field));
                    let name = self.part("the name of the dynamic linker", offset, size)?;
                    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                    return Err(ElfError::Dynamic {
                        interpreter: (!name.is_empty()).then(|| printable(name)),
                    });
                }
                PT_TLS => {
                    about.thread_local = true;
                    continue;
                }
                PT_LOAD => {}
                _ => continue,
            }
            let flags = self.u32(header + 4);
            let [offset, virtual_address, address, file_bytes, memory_bytes] =
                [8, 16, 24, 32, 40].map(|field| self.u64(header + field));
            if memory_bytes == 0 {
                continue;
            }
            let bad = |problem| ElfError::BadSegment {
                index,
                address,
                problem,
            };
            if file_bytes > memory_bytes {
                return Err(bad("it is larger in the file than in memory"));
            }
            if address.checked_add(memory_bytes).is_none() {
                return Err(bad("it goes beyond the end of the address space"));
            }
            let bytes = self.part(
                &format!("segment {index} at {address:#x}"),
                offset,
                file_bytes,
            )?;
            let table = self.u64(32).wrapping_sub(offset);
            if table < file_bytes {
                about.program_headers = Some(virtual_address.wrapping_add(table));
            }
            segments.push(Segment {
                address,
                virtual_address,
                bytes: bytes.to_vec(),
                memory_bytes,
                executable: flags & 1 != 0,
                writable: flags & 2 != 0,
            });
        }
        if segments.is_empty() {
            return Err(ElfError::NothingToLoad);
        }
        sort_segments(&mut segments)?;
        Ok(segments)
    }

    fn entry(self, segments: &[Segment]) -> Result<u64, ElfError> {
        let entry = self.u64(24);
        let bad = |problem| Err(ElfError::BadEntry { entry, problem });
        if entry % 2 == 1 {
            return bad("is odd, and instructions begin at even addresses");
        }
        let holds = |one: &Segment| {
            one.range().contains(&entry)
                || entry.wrapping_sub(one.virtual_address) < one.memory_bytes
        };
        if !segments.iter().any(holds) {
            return bad("lies in no segment of the program");
        }
        Ok(entry)
    }

    /// The string `arch` in the section `.riscv.attributes`, if it exists and is well-formed.
    /// *RISC-V ELF psABI*, section "Attributes".
    fn architecture(self) -> Option<String> {
        const SHT_RISCV_ATTRIBUTES: u32 = 0x7000_0003;
        const TAG_ARCH: u8 = 5;
        let (table, entry, count) = (self.u64(40), self.u16(58), self.u16(60));
        let section = (0..u64::from(count))
            .map(|index| table.wrapping_add(index * u64::from(entry)))
            .find(|&at| self.u32(at.wrapping_add(4)) == SHT_RISCV_ATTRIBUTES)?;
        let [offset, size] = [24, 32].map(|field| self.u64(section + field));
        let bytes = self.part("the attributes", offset, size).ok()?;
        // Version, length, vendor, tag of the file's attributes and their length; then tags, each
        // with a number or, for odd tags, a string.
        let vendor_end = 5 + bytes.get(5..)?.iter().position(|&byte| byte == 0)?;
        let mut rest = bytes.get(vendor_end + 6..)?;
        while let Some((&tag, value)) = rest.split_first() {
            let length = if tag % 2 == 1 {
                value.iter().position(|&byte| byte == 0)?
            } else {
                value.iter().position(|&byte| byte < 0x80)?
            };
            if tag == TAG_ARCH {
                return Some(printable(&value[..length]));
            }
            rest = &value[length + 1..];
        }
        None
    }

    fn symbols(self) -> Result<Vec<Symbol>, ElfError> {
        let (table_at, entry, count) = (self.u64(40), self.u16(58), self.u16(60));
        let sections: Vec<u64> = self
            .table(
                "the section header table",
                table_at,
                (64, entry),
                count.into(),
            )?
            .collect();
        let Some(&section) = sections.iter().find(|&&at| self.u32(at + 4) == SHT_SYMTAB) else {
            return Ok(Vec::new()); // stripped
        };
        let [offset, size] = [24, 32].map(|field| self.u64(section + field));
        let entry = u16::try_from(self.u64(section + 56)).unwrap_or(u16::MAX);
        let link = self.u32(section + 40) as usize;
        let Some(&strings) = sections.get(link) else {
            let problem = "it names no section that exists for its strings";
            return Err(ElfError::BadSymbols { problem });
        };
        let [strings_at, strings_size] = [24, 32].map(|field| self.u64(strings + field));
        let strings = self.part("the symbols' names", strings_at, strings_size)?;

        let mut symbols = Vec::new();
        for at in self.table("the symbol table", offset, (24, entry), size / 24)? {
            let name = self.u32(at) as usize;
            let name = strings
                .get(name..)
                .and_then(|rest| rest.split(|&byte| byte == 0).next());
            let name = name.ok_or(ElfError::BadSymbols {
                problem: "a name lies outside",
            })?;
            let kind = self.u8(at + 4) & 15;
            let home = usize::from(self.u16(at + 6));
            // Undefined symbols, symbols without a name, and markers of the assembler are of no
            // use.
            let mark = name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L");
            if home == 0 || mark || !matches!(kind, STT_NOTYPE | STT_OBJECT | STT_FUNC) {
                continue;
            }
            const SHF_EXECINSTR: u64 = 4;
            let among_code = sections
                .get(home)
                .is_some_and(|&at| self.u64(at + 8) & SHF_EXECINSTR != 0);
            symbols.push(Symbol {
                name: printable(name),
                address: self.u64(at + 8),
                size: self.u64(at + 16),
                code: kind == STT_FUNC || kind == STT_NOTYPE && among_code,
            });
        }
        symbols.sort_by_key(|symbol| symbol.address); // stable: same file, same order
        Ok(symbols)
    }
}

/// Sorts segments by address.
fn sort_segments(segments: &mut [Segment]) -> Result<(), ElfError> {
    segments.sort_by_key(|segment| segment.address);
    for pair in segments.windows(2) {
        let (first, second) = (pair[0].range(), pair[1].range());
        if first.end > second.start {
            return Err(ElfError::Overlap(
                first.start,
                first.end,
                second.start,
                second.end,
            ));
        }
    }
    Ok(())
}

fn machine_name(machine: u16) -> &'static str {
    match machine {
        0 => "no machine",
        2 => "SPARC",
        3 => "x86 (32-bit)",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "PowerPC64",
        22 => "S/390",
        40 => "Arm (32-bit)",
        62 => "x86-64",
        183 => "AArch64",
        247 => "eBPF",
        258 => "LoongArch",
        _ => "another processor",
    }
}
