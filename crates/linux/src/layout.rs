//! Where everything is in the one address space. There is no virtual memory.

use fabric::AddressRange;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

fabric::named_ranges! {
    /// The addresses of a server that runs a Linux program.
    MAP:

    /// The program, its heap and its mappings, from Linux's `mmap_min_addr` on: below there is
    /// nothing, so that null pointers are noticed. Only what is touched takes memory of the host.
    USER: Memory = 0x1_0000, 0x10_0000_0000 - 0x1_0000, "`exec`", "linux/src/space.rs";

    /// The first thread's stack, which has nothing below it, so that an overrun is noticed.
    STACK: Memory = 0x20_0000_0000, STACK_BYTES, "`exec`", "linux/src/load.rs";

    /// The code that takes traps, and what it saves of each hart.
    MACHINE: Memory = 0xffff_ffff_8000_0000, PAGE_BYTES + HARTS * crate::stub::SAVE_BYTES,
        "`exec`", "linux/src/stub.rs";

    /// The agent that answers system calls.
    DEVICE_RANGE: Device = 0xffff_ffff_8010_0000, PAGE_BYTES, "`exec`", "linux/src/agent.rs";
}

/// The lowest address that a program may have.
pub(crate) const USER_START: u64 = USER.start;
/// Where the addresses of the program, its heap and its mappings end.
pub(crate) const USER_END: u64 = USER.end();
/// Where mappings go that do not ask for a place: above what programs are linked to and their heap.
pub(crate) const MAPPINGS_START: u64 = 0x8_0000_0000;
/// Linux's default limit.
pub const STACK_BYTES: u64 = 8 * 1024 * 1024;
/// The code that takes traps.
pub(crate) const STUB: u64 = MACHINE.start;
/// Where handlers of signals are called from.
pub(crate) const SIGNAL_STUB: u64 = STUB + PAGE_BYTES / 2;
/// What it saves, one area for each hart.
pub(crate) const SAVE_AREAS: u64 = STUB + PAGE_BYTES;
/// Room for this many harts, which is more than a server can have.
const HARTS: u64 = 256;
/// The agent's addresses.
pub(crate) const DEVICE: u64 = DEVICE_RANGE.start;

/// All memory of a server that runs a Linux program.
pub fn memory() -> Vec<AddressRange> {
    vec![USER, STACK, MACHINE]
}

/// What user mode may neither write nor ask: the code that takes traps, what that saves, and the
/// agent. (Handlers of signals are called by code in the same page, which user mode executes.)
pub fn protected() -> Vec<AddressRange> {
    vec![MACHINE, DEVICE_RANGE]
}

/// Whether the program may have calls read or write `length` bytes at `address`.
pub(crate) fn is_user(address: u64, length: u64) -> bool {
    [USER, STACK].iter().any(|range| {
        let offset = address.wrapping_sub(range.start);
        offset <= range.length && length <= range.length - offset
    })
}

/// The next multiple of a page, or the largest number that is one.
pub(crate) fn page_up(address: u64) -> u64 {
    address
        .checked_next_multiple_of(PAGE_BYTES)
        .unwrap_or(!(PAGE_BYTES - 1))
}
