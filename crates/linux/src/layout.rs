//! Where everything is: in physical memory, and in the address space of a process.

use fabric::AddressRange;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

fabric::named_ranges! {
    /// The addresses of a server that runs a Linux program.
    MAP:

    /// The program, its heap and its mappings, from Linux's `mmap_min_addr` on. A page has the
    /// physical address that is its virtual one, unless another process's page has that already.
    /// Only what is touched takes memory of the host.
    USER: Memory = 0x1_0000, 0x10_0000_0000 - 0x1_0000, "`exec`", "linux/src/space.rs";

    /// The first thread's stack, which has nothing below it, so that an overrun is noticed.
    STACK: Memory = 0x20_0000_0000, STACK_BYTES, "`exec`", "linux/src/load.rs";

    /// Where handlers of signals are called from. Each process has this page.
    SIGNAL_PAGE: Memory = 0x30_0000_0000, PAGE_BYTES, "`exec`", "linux/src/stub.rs";

    /// Page tables, and pages whose own address another process's page has.
    FRAMES: Memory = 0x40_0000_0000, 0x20_0000_0000, "`exec`", "linux/src/frames.rs";

    /// The code that takes traps, and what it saves of each thread.
    MACHINE: Memory = 0xffff_ffff_8000_0000,
        PAGE_BYTES + MAXIMUM_THREADS as u64 * crate::stub::SAVE_BYTES,
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
/// What it saves, one area for each thread.
pub(crate) const SAVE_AREAS: u64 = STUB + PAGE_BYTES;
/// Maximum number of threads in all processes. More than a server can have harts.
pub(crate) const MAXIMUM_THREADS: usize = 512;
/// The agent's addresses.
pub(crate) const DEVICE: u64 = DEVICE_RANGE.start;

/// All memory of a server that runs a Linux program.
pub fn memory() -> Vec<AddressRange> {
    vec![USER, STACK, SIGNAL_PAGE, FRAMES, MACHINE]
}

/// What user mode may neither write nor ask: the code that takes traps, what that saves, and the
/// agent.
pub fn protected() -> Vec<AddressRange> {
    vec![MACHINE, DEVICE_RANGE]
}

/// The next multiple of a page, or the largest number that is one.
pub(crate) fn page_up(address: u64) -> u64 {
    address
        .checked_next_multiple_of(PAGE_BYTES)
        .unwrap_or(!(PAGE_BYTES - 1))
}
