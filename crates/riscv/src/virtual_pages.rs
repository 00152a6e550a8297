//! Cached translations of a hart, for the fast interpreter.

use crate::paging::{Access, Space, TABLE_BYTES};

/// Number of cached translations per kind of access, each at an index derived from its address.
const ENTRIES: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The number of its space; 0 if the entry is empty.
    space: u64,
    page: u64,
    frame: u64,
}

/// Pages that may be loaded from or stored to. Translations may be stale until an `sfence.vma`.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualPages {
    /// The number of the current space; 0 for physical addresses.
    space: u64,
    /// Entries for loads, then those for stores; empty until first used.
    entries: Vec<Entry>,
}

fn place(page: u64, access: Access) -> usize {
    page as usize % ENTRIES + if access == Access::Store { ENTRIES } else { 0 }
}

impl VirtualPages {
    /// Selects the space in which addresses are looked up.
    pub fn enter(&mut self, space: Option<Space>) {
        self.space = space.map_or(0, |space| space.key());
    }

    /// Discards all translations.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Caches the translation of `address` for this kind of access.
    pub fn remember(&mut self, space: &Space, access: Access, address: u64, physical: u64) {
        if access == Access::Fetch {
            return;
        }
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); 2 * ENTRIES];
        }
        let page = address / TABLE_BYTES;
        self.entries[place(page, access)] = Entry {
            space: space.key(),
            page,
            frame: physical / TABLE_BYTES,
        };
    }

    /// The physical address of `address`, if its translation is cached.
    #[inline(always)]
    pub fn find(&self, address: u64, access: Access) -> Option<u64> {
        let page = address / TABLE_BYTES;
        let entry = self.entries.get(place(page, access))?;
        let is_it = entry.page == page && entry.space == self.space;
        is_it.then_some(entry.frame * TABLE_BYTES + address % TABLE_BYTES)
    }
}
