//! A program, its arguments and its initial stack, laid out as the kernel does.

use crate::agent::Linux;
use crate::errno::Errno;
use crate::files::{Access, Files, FilesError, Seen};
use crate::frames::{Frames, SharedFrames};
use crate::kernel::{Kernel, Random};
use crate::layout::{self, PAGE_BYTES, STACK, STACK_BYTES, page_up};
use crate::output::Allowance;
use crate::space::{PROT_EXEC, PROT_READ, PROT_WRITE, Space};
use crate::stub;
use crate::user::{self, Write};
use riscv::elf::{ElfError, Image, Symbol};
use std::cell::RefCell;
use std::rc::Rc;
use thiserror::Error;

/// The address at which each hart starts, with its number in `a0`.
pub const ENTRY: u64 = layout::STUB;
/// The load address of a position-independent program.
const BASE: u64 = 0x1_0000;
/// Arguments and environment may take a quarter of the stack, as on Linux.
pub(crate) const MAXIMUM_ARGUMENT_BYTES: u64 = STACK_BYTES / 4;

/// The inputs of a program.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its arguments; the first is its own path.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// Number of harts.
    pub harts: usize,
    /// The memory that it may use.
    pub memory_bytes: u64,
    /// The source of all its random numbers.
    pub seed: u64,
    /// The files that it can reach.
    pub access: Access,
    /// How many bytes it may write to files of the host.
    pub output_bytes: u64,
}

/// The reason that a program cannot be run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Its ELF file is invalid.
    #[error("{0}")]
    Elf(#[from] ElfError),
    /// It has no entry point.
    #[error("the program is a shared library: it has no entry point")]
    Library,
    /// A segment is outside the addresses of programs.
    #[error(
        "the program has a segment of {bytes} bytes at {address:#x}; Linux programs here have the \
         addresses from {:#x} to {:#x}",
        layout::USER_START,
        layout::USER_END - 1
    )]
    Outside {
        /// The address of the segment.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// It needs more memory than there is.
    #[error(
        "the program needs {needed_mib} MiB of memory with its stack, and the server has \
         {available_mib} (server.memory_mib)"
    )]
    TooLarge {
        /// The memory that it needs.
        needed_mib: u64,
        /// The memory that the server has.
        available_mib: u64,
    },
    /// The initial stack would be too large.
    #[error("arguments and environment take {found} bytes; Linux accepts {MAXIMUM_ARGUMENT_BYTES}")]
    TooManyArguments {
        /// The size of arguments and environment.
        found: u64,
    },
    /// Its files are unreachable.
    #[error("{0}")]
    Files(#[from] FilesError),
    /// No memory is left for its pages.
    #[error("the server has no memory left for its pages (server.memory_mib)")]
    NoMemory,
}

impl From<Errno> for LoadError {
    fn from(_: Errno) -> LoadError {
        LoadError::NoMemory
    }
}

/// A program that is ready to run.
pub struct Prepared {
    /// The program, at its addresses.
    pub image: Image,
    /// Other initial memory contents: addresses and bytes.
    pub contents: Vec<(u64, Vec<u8>)>,
    /// The agent that handles its calls.
    pub agent: Linux,
}

/// Whether a program is for Linux. It has no host-target interface (the symbol `tohost`), and it
/// begins below `bare_metal_start`, is position-independent, has thread-local variables, or is
/// marked as a Linux program.
pub fn is_linux(image: &Image, bare_metal_start: u64) -> bool {
    const ELFOSABI_LINUX: u8 = 3;
    let headers = &image.headers;
    image.tohost.is_none()
        && (image.entry < bare_metal_start
            || headers.position_independent
            || headers.thread_local
            || headers.os_abi == ELFOSABI_LINUX)
}

/// The inputs for starting a program.
pub(crate) struct Start<'a> {
    pub arguments: &'a [Vec<u8>],
    pub environment: &'a [Vec<u8>],
    /// The path by which it was found.
    pub path: &'a [u8],
    pub random: &'a [u8],
}

/// A program in an address space of its own.
pub(crate) struct Program {
    /// The image at its virtual addresses.
    pub image: Image,
    pub space: Space,
    /// The program and its initial stack.
    pub contents: Vec<Write>,
    /// The initial save area of its first thread.
    pub registers: Vec<u8>,
}

/// Creates an address space for a program.
pub(crate) fn build(
    image: Image,
    start: &Start<'_>,
    frames: &SharedFrames,
) -> Result<Program, LoadError> {
    if image.headers.position_independent && image.entry == 0 {
        return Err(LoadError::Library);
    }
    let base = if image.headers.position_independent {
        BASE
    } else {
        0
    };
    let image = image.at_virtual_addresses(base)?;
    for segment in &image.segments {
        let (address, bytes) = (segment.address, segment.memory_bytes);
        if address < layout::USER_START || segment.range().end > layout::USER_END {
            return Err(LoadError::Outside { address, bytes });
        }
    }
    let free_bytes = frames.borrow().free_bytes();
    let pages = image.segments.iter().map(|segment| {
        let range = segment.range();
        page_up(range.end) - (range.start & !(PAGE_BYTES - 1))
    });
    let needed_bytes = STACK_BYTES + pages.sum::<u64>();
    if !frames.borrow().has_room(needed_bytes) {
        const MIB: u64 = 1 << 20;
        return Err(LoadError::TooLarge {
            needed_mib: needed_bytes.div_ceil(MIB),
            available_mib: free_bytes / MIB,
        });
    }
    let (stack_pointer, stack) = first_stack(&image, start)?;
    let mut space = Space::new(frames)?;
    for segment in &image.segments {
        let (range, mut protection) = (segment.range(), PROT_READ);
        if segment.writable {
            protection |= PROT_WRITE;
        }
        if segment.executable {
            protection |= PROT_EXEC;
        }
        space.map_program(range.start, range.end, protection)?;
    }
    let mut contents: Vec<Write> = image
        .segments
        .iter()
        .flat_map(|segment| user::contents(&space, segment.address, &segment.bytes))
        .collect();
    contents.extend(user::contents(&space, stack_pointer, &stack));
    let mut registers = vec![0; stub::CONTEXT_BYTES as usize];
    for (at, value) in [
        (stub::register(2), stack_pointer),
        (stub::PC, image.entry),
        (stub::SATP, space.satp()),
    ] {
        registers[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }
    Ok(Program {
        image,
        space,
        contents,
        registers,
    })
}

/// Prepares a program to run.
///
/// # Errors
///
/// If the program needs something that is not available.
pub fn prepare(image: Image, setup: &Setup) -> Result<Prepared, LoadError> {
    let frames = Rc::new(RefCell::new(Frames::new(setup.memory_bytes)));
    let mut random = Random::from_seed(setup.seed);
    let bytes = random.bytes(16);
    let start = Start {
        arguments: &setup.arguments,
        environment: &setup.environment,
        path: setup.arguments.first().map_or(&[], Vec::as_slice),
        random: &bytes,
    };
    let mut program = build(image, &start, &frames)?;
    let (path, arguments) = setup
        .arguments
        .split_first()
        .map_or((&[][..], &[][..]), |(path, rest)| (path, rest));
    let working = std::env::current_dir().map_err(FilesError::Directory)?;
    let files = Files::new(&Seen {
        access: &setup.access,
        working: &working,
        program: path,
        arguments,
        harts: setup.harts,
        memory_bytes: setup.memory_bytes,
    })?;
    let jobs = program.space.jobs();
    let kernel = Kernel::new(
        files,
        program.space,
        frames,
        setup.harts,
        setup.memory_bytes,
        random,
        Allowance::new(setup.output_bytes),
    );
    let code = |words: Vec<u32>| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut contents = vec![
        (layout::STUB, code(stub::code())),
        (layout::SIGNAL_PAGE.start, code(stub::signal_code())),
        (stub::save_area(0), program.registers),
    ];
    let writes = jobs.into_iter().chain(program.contents);
    contents.extend(writes.filter_map(Write::into_bytes));
    // This is for profiles and reports; its address is above all others.
    let mut image = program.image;
    image.symbols.push(Symbol {
        name: "(system call)".to_string(),
        address: layout::STUB,
        size: PAGE_BYTES,
        code: true,
    });
    Ok(Prepared {
        contents,
        agent: Linux::new(kernel, setup.harts),
        image,
    })
}

/// The initial stack: its lowest address, which is the stack pointer, and its bytes. *RISC-V ELF
/// psABI* and Linux's `fs/binfmt_elf.c`.
fn first_stack(image: &Image, start: &Start<'_>) -> Result<(u64, Vec<u8>), LoadError> {
    const AT_PHDR: u64 = 3;
    const AT_PHENT: u64 = 4;
    const AT_PHNUM: u64 = 5;
    const AT_PAGESZ: u64 = 6;
    const AT_BASE: u64 = 7;
    const AT_FLAGS: u64 = 8;
    const AT_ENTRY: u64 = 9;
    const AT_UID: u64 = 11;
    const AT_EUID: u64 = 12;
    const AT_GID: u64 = 13;
    const AT_EGID: u64 = 14;
    const AT_HWCAP: u64 = 16;
    const AT_CLKTCK: u64 = 17;
    const AT_SECURE: u64 = 23;
    const AT_RANDOM: u64 = 25;
    const AT_EXECFN: u64 = 31;
    // The letters of the extensions A, C, D, F, I, M.
    const HARDWARE: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 12;

    let strings = start.arguments.iter().chain(start.environment);
    let bytes: u64 = strings.clone().map(|text| text.len() as u64 + 9).sum();
    if bytes > MAXIMUM_ARGUMENT_BYTES {
        return Err(LoadError::TooManyArguments { found: bytes });
    }
    // From the top: a word of zeros, the strings, the random bytes.
    let mut texts = Vec::new();
    let mut addresses = Vec::new();
    for text in strings {
        addresses.push(texts.len() as u64);
        texts.extend_from_slice(text);
        texts.push(0);
    }
    let path = texts.len() as u64;
    texts.extend_from_slice(start.path);
    texts.push(0);
    let random = start.random;
    let texts_at = STACK.end() - 8 - texts.len() as u64;
    let random_at = (texts_at - random.len() as u64) & !15;
    let (user, group) = (
        u64::from(rustix::process::getuid().as_raw()),
        u64::from(rustix::process::getgid().as_raw()),
    );
    let mut words = vec![start.arguments.len() as u64];
    let (arguments, environment) = addresses.split_at(start.arguments.len());
    words.extend(arguments.iter().map(|offset| texts_at + offset));
    words.push(0);
    words.extend(environment.iter().map(|offset| texts_at + offset));
    words.push(0);
    for (kind, value) in [
        (AT_PHDR, image.headers.program_headers.unwrap_or(0)),
        (AT_PHENT, 56),
        (AT_PHNUM, image.headers.program_header_count),
        (AT_PAGESZ, PAGE_BYTES),
        (AT_BASE, 0),
        (AT_FLAGS, 0),
        (AT_ENTRY, image.entry),
        (AT_UID, user),
        (AT_EUID, user),
        (AT_GID, group),
        (AT_EGID, group),
        (AT_HWCAP, HARDWARE),
        (AT_CLKTCK, 100),
        (AT_SECURE, 0),
        (AT_RANDOM, random_at),
        (AT_EXECFN, texts_at + path),
        (0, 0),
    ] {
        words.extend([kind, value]);
    }
    let pointer = (random_at - 8 * words.len() as u64) & !15;
    let mut stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (address, part) in [(random_at, random), (texts_at, &texts)] {
        stack.resize((address - pointer) as usize, 0);
        stack.extend_from_slice(part);
    }
    Ok((pointer, stack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riscv::elf::{Headers, Segment};

    fn image(entry: u64) -> Image {
        Image {
            entry,
            segments: vec![Segment {
                address: entry,
                virtual_address: entry,
                bytes: vec![0; 64],
                memory_bytes: 4096,
                executable: true,
                writable: false,
            }],
            symbols: Vec::new(),
            tohost: None,
            fromhost: None,
            headers: Headers::default(),
        }
    }

    fn setup() -> Setup {
        Setup {
            arguments: vec![b"./program".to_vec(), b"one".to_vec()],
            environment: vec![b"A=b".to_vec()],
            harts: 2,
            memory_bytes: 64 << 20,
            seed: 1,
            access: Access::default(),
            output_bytes: u64::MAX,
        }
    }

    #[test]
    fn the_first_stack_is_what_a_c_library_expects() {
        let setup = setup();
        let start = Start {
            arguments: &setup.arguments,
            environment: &setup.environment,
            path: b"./program",
            random: &[7; 16],
        };
        let (pointer, stack) = first_stack(&image(0x1_0000), &start).unwrap();
        assert_eq!(pointer % 16, 0);
        let word = |at: u64| {
            let at = (at - pointer) as usize;
            u64::from_le_bytes(stack[at..at + 8].try_into().unwrap())
        };
        let text = |at: u64| {
            let from = &stack[(at - pointer) as usize..];
            let end = from.iter().position(|&byte| byte == 0).unwrap();
            String::from_utf8(from[..end].to_vec()).unwrap()
        };
        // argc; argv and its terminator; the environment and its terminator.
        assert_eq!(word(pointer), 2);
        assert_eq!(text(word(pointer + 8)), "./program");
        assert_eq!(text(word(pointer + 16)), "one");
        assert_eq!(word(pointer + 24), 0);
        assert_eq!(text(word(pointer + 32)), "A=b");
        assert_eq!(word(pointer + 40), 0);
        let auxiliary: Vec<(u64, u64)> = (0..)
            .map(|index| pointer + 48 + 16 * index)
            .map(|at| (word(at), word(at + 8)))
            .take_while(|(kind, _)| *kind != 0)
            .collect();
        let value = |kind| auxiliary.iter().find(|(one, _)| *one == kind).unwrap().1;
        assert_eq!(value(9), 0x1_0000);
        let random = (value(25) - pointer) as usize;
        assert_eq!(stack[random..random + 16], [7; 16]);
        assert_eq!(text(value(31)), "./program");
    }

    #[test]
    fn what_is_a_linux_program() {
        let is_linux = |image: &Image| super::is_linux(image, 0x8000_0000);
        assert!(is_linux(&image(0x1_0000)));
        assert!(!is_linux(&image(0x8000_0000)));
        let mut with_tls = image(0x8000_0000);
        with_tls.headers.thread_local = true;
        assert!(is_linux(&with_tls));
        with_tls.tohost = Some(0x8000_1000);
        assert!(!is_linux(&with_tls));
    }

    #[test]
    fn what_cannot_be_run_gets_a_sentence() {
        let refused = |image: Image, setup: &Setup| {
            prepare(image, setup)
                .err()
                .map_or_else(String::new, |error| error.to_string())
        };
        assert_eq!(
            refused(image(0x1000), &setup()),
            "the program has a segment of 4096 bytes at 0x1000; Linux programs here have the \
             addresses from 0x10000 to 0xfffffffff"
        );
        let mut large = image(0x1_0000);
        large.segments[0].memory_bytes = 60 << 20;
        assert_eq!(
            refused(large, &setup()),
            "the program needs 68 MiB of memory with its stack, and the server has 64 \
             (server.memory_mib)"
        );
        let mut library = image(0);
        library.headers.position_independent = true;
        assert!(refused(library, &setup()).contains("shared library"));
        let many = Setup {
            arguments: vec![vec![b'a'; 1 << 20]; 3],
            ..setup()
        };
        assert!(refused(image(0x1_0000), &many).contains("arguments and environment"));
    }

    #[test]
    fn a_position_independent_program_is_moved() {
        let mut free = image(0x1000);
        free.headers.position_independent = true;
        free.headers.program_headers = Some(0x40);
        let prepared = prepare(free, &setup()).unwrap();
        assert_eq!(prepared.image.entry, BASE + 0x1000);
        assert_eq!(prepared.image.segments[0].address, BASE + 0x1000);
        assert_eq!(prepared.image.headers.program_headers, Some(BASE + 0x40));
    }
}
