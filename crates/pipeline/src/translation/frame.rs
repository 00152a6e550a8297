//! Physical addresses of pages.

use riscv::Trap;
use riscv::paging::{Access, TABLE_BYTES};

/// The reason why an access has no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is none, or it does not allow the access.
    Page,
    /// A page table lies outside of memory.
    Access,
}

impl Fault {
    /// The trap of an access to `address`.
    pub fn trap(self, access: Access, address: u64) -> Trap {
        match self {
            Fault::Page => access.page_fault(address),
            Fault::Access => access.access_fault(address),
        }
    }
}

/// A physical page of 4 KB, or a fault, encoded in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Frame(u64);

const PAGE_FAULT: u64 = 1;
const ACCESS_FAULT: u64 = 2;

impl Frame {
    /// The frame with this physical address.
    pub fn of(physical: u64) -> Frame {
        Frame(physical & !(TABLE_BYTES - 1))
    }

    pub fn fault(fault: Fault) -> Frame {
        Frame(match fault {
            Fault::Page => PAGE_FAULT,
            Fault::Access => ACCESS_FAULT,
        })
    }

    /// The physical address of `address`, which is in this page.
    pub fn physical(self, address: u64) -> Result<u64, Fault> {
        match self.0 {
            PAGE_FAULT => Err(Fault::Page),
            ACCESS_FAULT => Err(Fault::Access),
            base => Ok(base + address % TABLE_BYTES),
        }
    }

    /// The encoding, for comparisons.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A page from which instructions have been fetched.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct FetchedPage {
    pub page: u64,
    /// The address space and the mode.
    pub space: u64,
    /// The first cycle in which it may be used.
    #[state(cycle)]
    pub from: u64,
    pub frame: Frame,
    /// The first-level TLB missed, and no instruction has been fetched from it yet.
    pub has_missed: bool,
}

impl FetchedPage {
    pub const NONE: FetchedPage = FetchedPage {
        page: u64::MAX,
        space: 0,
        from: 0,
        frame: Frame(0),
        has_missed: false,
    };
}
