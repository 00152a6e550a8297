//! Page tables of Sv39 and Sv48: their format, the walk through them, and permissions.
//!
//! Privileged Architecture, sections "Sv39: Page-Based 39-bit Virtual-Memory System", "Sv48" and
//! "Virtual Address Translation Process". Bits A and D are never set here: an access that would
//! have to set one is a page fault, as the extension Svade specifies. Svnapot and Svpbmt are not
//! implemented, so their bits are reserved.
//!
//! A [`Walk`] takes one entry at a time, so that a core can spend time on each. [`translate`]
//! performs a whole walk at once.

mod identity;

pub use identity::IdentityTables;

use crate::instruction::Instruction;
use crate::trap::{Cause, Trap};

/// Bytes of a page table, and of the smallest page.
pub const TABLE_BYTES: u64 = 1 << TABLE_BITS;
const TABLE_BITS: u32 = 12;
/// Bits of an address that index the table of one level.
const INDEX_BITS: u32 = 9;
/// Number of bits of a physical page number.
const NUMBER_BITS: u32 = 44;
/// The position of the physical page number in an entry.
const NUMBER_SHIFT: u32 = 10;

/// The size of translated addresses, and the number of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Addresses of 39 bits, three levels of tables.
    Sv39,
    /// Addresses of 48 bits, four levels of tables.
    Sv48,
}

impl Mode {
    /// Levels of tables.
    pub const fn levels(self) -> u32 {
        match self {
            Mode::Sv39 => 3,
            Mode::Sv48 => 4,
        }
    }

    /// Bits of an address.
    pub const fn address_bits(self) -> u32 {
        TABLE_BITS + INDEX_BITS * self.levels()
    }

    /// Whether the bits above an address's own all equal its highest bit.
    pub const fn is_canonical(self, address: u64) -> bool {
        let unused = 64 - self.address_bits();
        ((address << unused) as i64 >> unused) as u64 == address
    }
}

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum Access {
    /// An instruction fetch.
    Fetch,
    /// A load, `LR` included.
    Load,
    /// A store or an atomic, `SC` included.
    Store,
}

impl Access {
    /// The trap of an access to `address` that the page does not allow.
    pub fn page_fault(self, address: u64) -> Trap {
        let cause = match self {
            Access::Fetch => Cause::InstructionPage,
            Access::Load => Cause::LoadPage,
            Access::Store => Cause::StorePage,
        };
        let value = address;
        Trap { cause, value }
    }

    /// The trap of an access to `address` whose walk needs an entry outside memory.
    pub fn access_fault(self, address: u64) -> Trap {
        let cause = match self {
            Access::Fetch => Cause::InstructionAccess,
            Access::Load => Cause::LoadAccess,
            Access::Store => Cause::StoreAccess,
        };
        let value = address;
        Trap { cause, value }
    }
}

/// The origin of an access: a mode of the hart, and the relevant bits of `sstatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// User mode.
    User {
        /// `MXR`: executable pages are readable.
        executable_is_readable: bool,
    },
    /// Supervisor mode.
    Supervisor {
        /// `SUM`: user pages can be read and written.
        reaches_user: bool,
        /// `MXR`: executable pages are readable.
        executable_is_readable: bool,
    },
}

/// A hart's translation of addresses: the contents of `satp`, and the accessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The format of the tables.
    pub mode: Mode,
    /// The physical address of the first table.
    pub root: u64,
    /// The address space identifier.
    pub asid: u16,
    /// The origin of accesses.
    pub accessor: Accessor,
}

impl Space {
    /// The space that a value of `satp` describes; `None` if it disables translation.
    pub fn of(satp: u64, accessor: Accessor) -> Option<Space> {
        let mode = match satp >> 60 {
            8 => Mode::Sv39,
            9 => Mode::Sv48,
            _ => return None,
        };
        Some(Space {
            mode,
            root: (satp & ((1 << NUMBER_BITS) - 1)) << TABLE_BITS,
            asid: (satp >> NUMBER_BITS) as u16,
            accessor,
        })
    }

    /// The page of `address`; a trap if there is none, or if this access is not permitted. `read`
    /// reads 8 bytes at a physical address, if there is memory.
    pub fn translate(
        &self,
        address: u64,
        access: Access,
        read: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Page, Trap> {
        translate(self.mode, self.root, address, access, self.accessor, read)
    }

    /// A nonzero number that is unique to this space.
    pub(crate) fn key(&self) -> u64 {
        let accessor = match self.accessor {
            Accessor::User {
                executable_is_readable,
            } => 1 + u64::from(executable_is_readable),
            Accessor::Supervisor {
                reaches_user,
                executable_is_readable,
            } => 3 + 2 * u64::from(reaches_user) + u64::from(executable_is_readable),
        };
        let levels = match self.mode {
            Mode::Sv39 => 0,
            Mode::Sv48 => 1 << 3,
        };
        (levels | accessor) << 60 | u64::from(self.asid) << NUMBER_BITS | self.root >> TABLE_BITS
    }
}

/// The translations that an `sfence.vma` invalidates in a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Only those of this address.
    pub address: Option<u64>,
    /// Only those of this address space, excluding global pages.
    pub asid: Option<u16>,
}

impl Flush {
    /// The translations that an instruction with these operands invalidates. "Supervisor
    /// Memory-Management Fence Instruction".
    pub fn of(i: &Instruction, address: u64, asid: u64) -> Flush {
        Flush {
            address: (i.rs1 != 0).then_some(address),
            asid: (i.rs2 != 0).then_some(asid as u16),
        }
    }
}

/// A page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    /// V: the entry is valid.
    pub const VALID: u64 = 1;
    /// R: the page is readable.
    pub const READ: u64 = 1 << 1;
    /// W: the page is writable.
    pub const WRITE: u64 = 1 << 2;
    /// X: the page is executable.
    pub const EXECUTE: u64 = 1 << 3;
    /// U: the page belongs to user mode.
    pub const USER: u64 = 1 << 4;
    /// G: the page is in all address spaces.
    pub const GLOBAL: u64 = 1 << 5;
    /// A: the page has been accessed.
    pub const ACCESSED: u64 = 1 << 6;
    /// D: the page has been written.
    pub const DIRTY: u64 = 1 << 7;
    /// The bits above the physical page number: those of Svnapot and Svpbmt, and unassigned ones.
    const RESERVED: u64 = !0 << (NUMBER_SHIFT + NUMBER_BITS);

    /// The entry with these bits for the page or table at the physical address `base`.
    pub const fn new(base: u64, bits: u64) -> Entry {
        Entry(base >> TABLE_BITS << NUMBER_SHIFT | bits)
    }

    /// The physical address of the page or table.
    pub const fn base(self) -> u64 {
        (self.0 & !Self::RESERVED) >> NUMBER_SHIFT << TABLE_BITS
    }

    const fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    /// Whether it maps a page; otherwise, if valid, it points to a table.
    const fn is_leaf(self) -> bool {
        self.has(Self::READ | Self::EXECUTE)
    }

    /// Whether the page that it maps permits this access. "Virtual Address Translation Process",
    /// step 7, and step 9 in the variant of Svade.
    #[inline]
    pub fn allows(self, access: Access, accessor: Accessor) -> bool {
        let is_user = self.has(Self::USER);
        let (reaches, executable_is_readable) = match accessor {
            Accessor::User {
                executable_is_readable,
            } => (is_user, executable_is_readable),
            Accessor::Supervisor {
                reaches_user,
                executable_is_readable,
            } => {
                // The supervisor never executes user pages.
                let reaches = !is_user || reaches_user && access != Access::Fetch;
                (reaches, executable_is_readable)
            }
        };
        let permitted = match access {
            Access::Fetch => self.has(Self::EXECUTE),
            Access::Load => {
                self.has(Self::READ) || executable_is_readable && self.has(Self::EXECUTE)
            }
            Access::Store => self.has(Self::WRITE),
        };
        let recorded =
            self.has(Self::ACCESSED) && (access != Access::Store || self.has(Self::DIRTY));
        reaches && permitted && recorded
    }
}

/// A page and its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its entry.
    pub entry: Entry,
    /// The binary logarithm of its size in bytes: 12, 21, 30, or 39 with Sv48.
    pub bits: u32,
}

impl Page {
    /// The physical address of `address`, which is in this page.
    pub const fn physical(self, address: u64) -> u64 {
        self.entry.base() | address & ((1 << self.bits) - 1)
    }
}

/// The result of one step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next entry is at [`Walk::entry_address`].
    Next,
    /// The walk has found a page.
    Page(Page),
    /// There is no page at the address.
    Fault,
}

/// The index of `address` in a table of `level` (0 for the smallest pages), and the binary
/// logarithm of the size that the entry covers.
pub const fn table_index(address: u64, level: u32) -> (usize, u32) {
    let bits = TABLE_BITS + INDEX_BITS * level;
    let index = address >> bits & ((1 << INDEX_BITS) - 1);
    (index as usize, bits)
}

/// A walk through page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Walk {
    address: u64,
    table: u64,
    /// The level of the current table; 0 for the smallest pages.
    level: u32,
}

impl Walk {
    /// The walk for `address` that begins with the table at the physical address `root`; `None` for
    /// a non-canonical address, which is a page fault.
    pub fn new(mode: Mode, root: u64, address: u64) -> Option<Walk> {
        mode.is_canonical(address).then_some(Walk {
            address,
            table: root,
            level: mode.levels() - 1,
        })
    }

    /// The address being translated.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The level of the table that is read next; 0 for the smallest pages.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The physical address of that table.
    pub fn table(&self) -> u64 {
        self.table
    }

    /// Skips the levels above the table of `level` at the physical address `table`, which must
    /// cover the address.
    pub fn go_to(&mut self, level: u32, table: u64) {
        (self.level, self.table) = (level, table);
    }

    /// The physical address of the next entry, of 8 bytes.
    pub fn entry_address(&self) -> u64 {
        let (index, _) = table_index(self.address, self.level);
        self.table + 8 * index as u64
    }

    /// Continues with the entry that was read.
    pub fn step(&mut self, entry: u64) -> Step {
        let entry = Entry(entry);
        let writes_only = entry.has(Entry::WRITE) && !entry.has(Entry::READ);
        if !entry.has(Entry::VALID) || writes_only || entry.has(Entry::RESERVED) {
            return Step::Fault;
        }
        if entry.is_leaf() {
            let (_, bits) = table_index(self.address, self.level);
            let is_misaligned = entry.base() & ((1 << bits) - 1) != 0;
            return match is_misaligned {
                true => Step::Fault,
                false => Step::Page(Page { entry, bits }),
            };
        }
        // "For non-leaf PTEs, the D, A, and U bits are reserved."
        if self.level == 0 || entry.has(Entry::DIRTY | Entry::ACCESSED | Entry::USER) {
            return Step::Fault;
        }
        self.level -= 1;
        self.table = entry.base();
        Step::Next
    }
}

/// The page of `address`, with the tables that begin at the physical address `root`; a trap if
/// there is none, or if this access is not permitted. `read` reads 8 bytes at a physical address,
/// if there is memory.
pub fn translate(
    mode: Mode,
    root: u64,
    address: u64,
    access: Access,
    accessor: Accessor,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Result<Page, Trap> {
    let fault = access.page_fault(address);
    let mut walk = Walk::new(mode, root, address).ok_or(fault)?;
    loop {
        let entry = read(walk.entry_address()).ok_or(access.access_fault(address))?;
        match walk.step(entry) {
            Step::Next => {}
            Step::Page(page) if page.entry.allows(access, accessor) => return Ok(page),
            Step::Page(_) | Step::Fault => return Err(fault),
        }
    }
}

#[cfg(test)]
mod tests;
