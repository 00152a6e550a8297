//! Pages that a hart has translated, for the fast interpreter to find again.

use crate::paging::{Access, Space, TABLE_BYTES};

/// Pages that are remembered of each kind of access, each at a place that its address tells.
const ENTRIES: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Of the space in which it is; 0 if there is none.
    space: u64,
    page: u64,
    frame: u64,
}

/// Pages that may be loaded from or stored to. Until an `sfence.vma` they may be older than the
/// tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualPages {
    /// The space in which addresses are looked for, by its number; 0 if they are not translated.
    space: u64,
    /// Loads' and then stores'; empty until there is one.
    entries: Vec<Entry>,
}

fn place(page: u64, access: Access) -> usize {
    page as usize % ENTRIES + if access == Access::Store { ENTRIES } else { 0 }
}

impl VirtualPages {
    /// Addresses are looked for in this space from now on.
    pub fn enter(&mut self, space: Option<Space>) {
        self.space = space.map_or(0, |space| space.key());
    }

    /// Forgets all pages.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The page of `address` may be accessed so; that is where its physical address is.
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

    /// The physical address of `address`, if its page is remembered.
    #[inline(always)]
    pub fn find(&self, address: u64, access: Access) -> Option<u64> {
        let page = address / TABLE_BYTES;
        let entry = self.entries.get(place(page, access))?;
        let is_it = entry.page == page && entry.space == self.space;
        is_it.then_some(entry.frame * TABLE_BYTES + address % TABLE_BYTES)
    }
}
