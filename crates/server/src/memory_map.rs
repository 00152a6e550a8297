//! The memory map: the addresses in the servers, and the files for programs and readers that
//! contain them, which `make docs` writes.

use crate::clint;
use crate::registry::{SYSTEMS, mechanisms};
use fabric::{Answers, NamedRange};
use pipeline::EVENTS;
use std::fmt::Write;

fabric::named_ranges! {
    /// The addresses that bare-metal programs have on every server.
    COMMON:

    /// The core-local interruptor: `msip` of hart *k* at 4 *k*, `mtimecmp` at 0x4000 + 8 *k*,
    /// `mtime` (microseconds) at 0xbff8.
    CLINT: Device = 0x0200_0000, 0xc000, "all", "server/src/clint.rs";

    /// Registers of the I/O device, `struct io_registers`.
    IO_REGISTERS: Device = 0x1000_0000, 0x3_0000,
        "`run`; racks whose interface has its registers", "queues/src/io_source/setup.rs";

    /// For each queue whether it has a tenant, `io_tenants()`.
    IO_TENANTS: Device = 0x1010_0000, 0x1_0000, "`run`", "queues/src/tenant.rs";

    /// Doorbells that systems can snoop, 64 bytes each: two for each queue in `run`, 2048
    /// otherwise.
    DOORBELLS: Memory = 0x6000_0000, 0x10_0000,
        "`run`, `exec`, racks with `systems`", "queues/src/io_source/setup.rs";

    /// Two lines for the consumer of each queue, `struct io_consumer`.
    CONSUMERS: Memory = 0x6400_0000, 0x10_0000, "`run`", "queues/src/io_source/setup.rs";

    /// Doorbells of the tenants, one for each queue.
    TENANT_DOORBELLS: Memory = 0x6800_0000, 0x8_0000, "`run`", "queues/src/tenant.rs";

    /// Page tables, if `server.core.translation` is given. Page walks read them; to programs there
    /// is nothing.
    PAGE_TABLES: Memory = 0x6d00_0000, 0x300_0000,
        "servers whose cores translate", "server/src/page_tables.rs";

    /// Stacks: hart *k* has the 256 KiB below `STACKS_START` + 1 MiB + *k* (1 MiB + 65 lines), and
    /// no memory below them; the lines put each stack in sets of the last-level cache of its own.
    /// There is room for 254 harts.
    STACKS: Memory = 0x7000_0000, 0x1000_0000, "all", "server/src/machine.rs";

    /// Main memory, `server.memory_mib` of it: the program, then what `malloc` gives.
    MAIN_MEMORY: Memory = 0x8000_0000, 0x4_0000_0000, "all", "server/src/machine.rs";
}

/// The addresses of bare-metal programs, including those of systems, in ascending order. Any other
/// address is an access fault.
pub fn bare_metal() -> Vec<NamedRange> {
    let of_systems = SYSTEMS.iter().flat_map(|kind| kind.memory_map);
    let mut ranges: Vec<NamedRange> = COMMON.iter().chain(of_systems).copied().collect();
    ranges.sort_by_key(|one| one.range.start);
    ranges
}

/// The end of the first hart's stack.
pub const FIRST_STACK: u64 = STACKS.start + 0x10_0000;
/// The distance between the ends of two harts' stacks. Only the part below each end is memory, so
/// that an overflow reaches no memory. The harts are often at the same depth of the same program:
/// with a power of two, all would use one set of a shared cache. 64 more lines put their hottest
/// lines into different sets, as pages spread over memory do, and one more into different banks.
pub const STACK_STRIDE: u64 = 0x10_0000 + 65 * 64;
/// Number of harts with room for their stacks.
pub const MAX_HARTS: u64 = (STACKS.end() - FIRST_STACK) / STACK_STRIDE + 1;
/// Bytes of each stack.
pub const STACK_BYTES: u64 = 0x4_0000;
/// Number of doorbells of programs without an I/O device that would give the number.
pub const EXECUTED_DOORBELLS: u64 = 2048;

/// The header that programs include.
const HEADER: &str = "guest/include/memory_map.h";
/// The page for readers.
const DOCUMENT: &str = "docs/memory-map.md";

/// The header with the notification mechanisms.
const NOTIFY_HEADER: &str = "guest/include/io_notify.h";
const EVENTS_HEADER: &str = "guest/include/counter_events.h";

/// The first words of the files.
const ORIGIN: &str = "Written by `make docs` from crates/server/src/memory_map.rs";

/// The files with the map and other numbers for programs, with their paths in the repository.
pub fn files() -> impl Iterator<Item = (&'static str, String)> {
    let common = [
        (HEADER, header()),
        (NOTIFY_HEADER, notify_header()),
        (EVENTS_HEADER, events_header()),
        (DOCUMENT, document()),
    ];
    let of_systems = SYSTEMS.iter().flat_map(|kind| kind.headers);
    common
        .into_iter()
        .chain(of_systems.map(|(path, text)| (*path, text())))
}

/// The numbers of notification mechanisms for programs.
fn notify_header() -> String {
    let mut known: Vec<_> = mechanisms().map(|(mechanism, _)| mechanism).collect();
    known.sort_by_key(|mechanism| mechanism.code);
    let values: String = known
        .iter()
        .map(|mechanism| {
            let name = mechanism.name.to_uppercase().replace('-', "_");
            let help = comment(mechanism.help);
            format!("{help}  IO_NOTIFY_{name} = {},\n", mechanism.code)
        })
        .collect();
    format!(
        "/* Written by `make docs` from crates/server/src/registry.rs. */\n\
         #ifndef IO_NOTIFY_H\n#define IO_NOTIFY_H\n\n\
         /** How the data plane learns of work. */\nenum io_notify {{\n{values}}};\n\n#endif\n"
    )
}

/// The numbers by which programs select a counter's event.
fn events_header() -> String {
    let values: String = EVENTS
        .iter()
        .zip(1..)
        .map(|((name, meaning), number)| {
            format!("{}  COUNTER_{name} = {number},\n", comment(meaning))
        })
        .collect();
    format!(
        "/* Written by `make docs` from crates/pipeline/src/events.rs. */\n\
         #ifndef COUNTER_EVENTS_H\n#define COUNTER_EVENTS_H\n\n\
         /** What a counter counts. */\nenum counter_event {{\n  /** Nothing. */\n  \
         COUNTER_NOTHING = 0,\n{values}}};\n\n#endif\n"
    )
}

/// A comment inside braces, in lines of 100 columns.
fn comment(text: &str) -> String {
    let mut lines = vec!["  /**".to_string()];
    for word in text.split_whitespace().chain(["*/"]) {
        let last = lines.len() - 1;
        if lines[last].len() + 1 + word.len() > 100 {
            lines.push(format!("   * {word}"));
        } else {
            lines[last] += " ";
            lines[last] += word;
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The constants of programs in C and in assembly language.
fn header() -> String {
    let starts = bare_metal()
        .into_iter()
        .map(|one| (format!("{}_START", one.name), one.range.start));
    let clint = clint::register::ALL
        .iter()
        .map(|(name, offset)| (format!("CLINT_{name}"), CLINT.start + offset));
    let constants: String = starts
        .chain(clint)
        .map(|(name, address)| format!("#define {name} {address:#010x}\n"))
        .collect();
    format!(
        "/* {ORIGIN}; docs/memory-map.md says what is\n   where. */\n\
         #ifndef MEMORY_MAP_H\n#define MEMORY_MAP_H\n\n{constants}\n\
         /* Where the stack of the first hart ends, and how far it is to the next one's end. */\n\
         #define FIRST_STACK {FIRST_STACK:#010x}\n\
         #define STACK_STRIDE {STACK_STRIDE:#x}\n\n\
         /* Doorbells without an I/O device that says how many. */\n\
         #define EXECUTED_DOORBELLS {EXECUTED_DOORBELLS}\n\n#endif\n"
    )
}

/// An address in groups of four digits.
fn grouped(address: u64) -> String {
    let digits = format!("{address:08x}");
    let first = digits.len() % 4;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(4).map(String::from_utf8_lossy);
    let head = (!head.is_empty()).then(|| head.into());
    let groups: Vec<_> = head.into_iter().chain(groups).collect();
    format!("`0x{}`", groups.join("_"))
}

/// The tables for readers.
fn document() -> String {
    let mut text = format!(
        "# The memory map\n\n<!-- {ORIGIN} -->\n\n\
         A row is a range: its first address and its last, what is in it, which servers have it,\n\
         and whose it is. Programs have the addresses from\n\
         [memory_map.h](../{HEADER}), named as here with `_START` behind it.\n\n\
         ## Bare-metal programs\n\n\
         Memory is there as far as the server needs it. Any other address is an access fault. The\n\
         words `tohost` and `fromhost`, somewhere in the program, are memory, too. The device behind\n\
         the console reads and writes them: the host-target interface of riscv-pk and Spike\n\
         ([htif.rs](../crates/server/src/htif.rs)).\n\n"
    );
    table(&mut text, &bare_metal());
    text.push_str(
        "\n## Linux programs\n\n\
         These are physical addresses. Each process has [virtual ones](linux-programs.md) of its own.\n\n",
    );
    table(&mut text, linux::MAP);
    text
}

fn table(text: &mut String, ranges: &[NamedRange]) {
    text.push_str(
        "| from | to | name | | what | in | owner |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for one in ranges {
        let answers = match one.answers {
            Answers::Device => "device",
            Answers::Memory => "memory",
        };
        let file = one.owner.rsplit('/').next().unwrap_or(one.owner);
        let _ = writeln!(
            text,
            "| {} | {} | `{}` | {answers} | {} | {} | [{file}](../crates/{}) |",
            grouped(one.range.start),
            grouped(one.last()),
            one.name,
            one.text.trim(),
            one.servers,
            one.owner,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::{DataPlaneSpec, ServerSpec};
    use queues::{CONSUMER_BYTES, register};
    use schemars::{JsonSchema, schema_for};
    use std::path::Path;

    /// The maximum of a parameter.
    fn maximum<T: JsonSchema>(parameter: &str) -> u64 {
        let schema = schema_for!(T);
        let property = schema.pointer(&format!("/properties/{parameter}/maximum"));
        property.unwrap().as_f64().unwrap() as u64
    }

    fn overlapping(ranges: &[NamedRange]) -> Vec<(&'static str, &'static str)> {
        let mut pairs = Vec::new();
        for (place, one) in ranges.iter().enumerate() {
            for other in &ranges[place + 1..] {
                let (one_last, other_last) = (one.last(), other.last());
                if one.range.start <= other_last && other.range.start <= one_last {
                    pairs.push((one.name, other.name));
                }
            }
        }
        pairs
    }

    #[test]
    fn no_two_ranges_of_a_server_overlap() {
        // The published interface's address takes precedence: such a server has no I/O device.
        assert_eq!(
            overlapping(&bare_metal()),
            [("IO_REGISTERS", "ICE_NIC_REGISTERS")]
        );
        assert_eq!(overlapping(linux::MAP), []);
    }

    #[test]
    fn ranges_are_in_order_and_all_but_the_last_are_below_main_memory() {
        for map in [&*bare_metal(), linux::MAP] {
            assert!(map.is_sorted_by_key(|one| one.range.start));
        }
        let ranges = bare_metal();
        let (last, others) = ranges.split_last().unwrap();
        assert_eq!(last.name, "MAIN_MEMORY");
        for one in others {
            assert!(one.last() < MAIN_MEMORY.start, "{}", one.name);
            let is_device = one.answers == Answers::Device;
            assert_eq!(is_device, one.last() < DOORBELLS.start, "{}", one.name);
        }
        // Queues and their consumers are watched as one range.
        assert!(DOORBELLS.end() <= CONSUMERS.start && CONSUMERS.end() <= TENANT_DOORBELLS.start);
    }

    #[test]
    fn ranges_are_as_long_as_the_largest_server_needs() {
        let queues = maximum::<DataPlaneSpec>("queues");
        assert_eq!(IO_REGISTERS.length, register::STATES + 8 * queues);
        assert_eq!(IO_TENANTS.length, 8 * queues);
        assert_eq!(DOORBELLS.length, 2 * 64 * queues);
        const { assert!(EXECUTED_DOORBELLS * 64 <= DOORBELLS.length) };
        assert_eq!(CONSUMERS.length, CONSUMER_BYTES * queues);
        assert_eq!(TENANT_DOORBELLS.length, 64 * queues);
        const { assert!(FIRST_STACK - STACK_BYTES >= STACKS.start) };
        // Two short of 32 cores with 8 threads: see `ServerSpec::check`.
        assert_eq!(MAX_HARTS, 254);
        assert!(MAX_HARTS >= 2 * maximum::<fabric::FabricSpec>("cores"));
        let memory_mib = maximum::<ServerSpec>("memory_mib");
        assert_eq!(MAIN_MEMORY.length, memory_mib << 20);
    }

    #[test]
    fn owners_are_files() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for one in bare_metal().iter().chain(linux::MAP) {
            assert!(crates.join(one.owner).is_file(), "{}", one.owner);
        }
    }

    #[test]
    fn files_are_as_they_would_be_written() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, text) in files() {
            let found = std::fs::read_to_string(repository.join(path)).unwrap();
            assert!(found == text, "{path} is not what `make docs` writes");
        }
    }

    #[test]
    fn addresses_are_grouped() {
        assert_eq!(grouped(0x200_0000), "`0x0200_0000`");
        assert_eq!(grouped(0x4_7fff_ffff), "`0x4_7fff_ffff`");
    }
}
