//! The layout of physical memory and of a process's address space.

use fabric::AddressRange;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

fabric::named_ranges! {
    /// The addresses of a server that runs a Linux program.
    MAP:

    /// The program, its heap and its mappings, from Linux's `mmap_min_addr` on. A page's physical
    /// address equals its virtual one, unless another process's page has it already. Only touched
    /// pages take memory of the host.
    USER: Memory = 0x1_0000, 0x10_0000_0000 - 0x1_0000, "`exec`", "linux/src/space.rs";

    /// The first thread's stack. The addresses below are unmapped, so that an overflow faults.
    STACK: Memory = 0x20_0000_0000, STACK_BYTES, "`exec`", "linux/src/load.rs";

    /// The trampoline of signal handlers. Each process has this page.
    SIGNAL_PAGE: Memory = 0x30_0000_0000, PAGE_BYTES, "`exec`", "linux/src/stub.rs";

    /// Page tables, and pages whose own address another process's page has.
    FRAMES: Memory = 0x40_0000_0000, 0x20_0000_0000, "`exec`", "linux/src/frames.rs";

    /// The trap handler's code, and the threads' save areas.
    MACHINE: Memory = 0xffff_ffff_8000_0000,
        PAGE_BYTES + MAXIMUM_THREADS as u64 * crate::stub::SAVE_BYTES,
        "`exec`", "linux/src/stub.rs";

    /// The agent that handles system calls.
    DEVICE_RANGE: Device = 0xffff_ffff_8010_0000, PAGE_BYTES, "`exec`", "linux/src/agent.rs";
}

/// The lowest address that a program may have.
pub(crate) const USER_START: u64 = USER.start;
/// The end of the addresses of the program, its heap and its mappings.
pub(crate) const USER_END: u64 = USER.end();
/// The start of mappings without a requested place: above the addresses that programs are linked
/// to, and their heap.
pub(crate) const MAPPINGS_START: u64 = 0x8_0000_0000;
/// Linux's default limit.
pub const STACK_BYTES: u64 = 8 * 1024 * 1024;
/// The trap handler's code.
pub(crate) const STUB: u64 = MACHINE.start;
/// Its save areas, one for each thread.
pub(crate) const SAVE_AREAS: u64 = STUB + PAGE_BYTES;
/// Maximum number of threads in all processes. More than a server can have harts.
pub(crate) const MAXIMUM_THREADS: usize = 512;
/// The agent's addresses.
pub(crate) const DEVICE: u64 = DEVICE_RANGE.start;

/// All memory of a server that runs a Linux program.
pub fn memory() -> Vec<AddressRange> {
    vec![USER, STACK, SIGNAL_PAGE, FRAMES, MACHINE]
}

/// Memory that user mode may not access: the trap handler, its save areas, and the agent.
pub fn protected() -> Vec<AddressRange> {
    vec![MACHINE, DEVICE_RANGE]
}

/// Rounds up to a multiple of a page, at most to the largest such number.
pub(crate) fn page_up(address: u64) -> u64 {
    address
        .checked_next_multiple_of(PAGE_BYTES)
        .unwrap_or(!(PAGE_BYTES - 1))
}
