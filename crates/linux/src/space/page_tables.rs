//! The page tables of an address space: changed entries and the writes that update them.

use super::{Memory, Space, Use};
use crate::intervals::Intervals;
use crate::layout::PAGE_BYTES;
use crate::user::Write;
use riscv::paging::{Access, Entry, table_index};

impl Memory {
    /// The page-table entry of the page at `address`. Accessed bits are not used.
    pub(super) fn entry(&self, address: u64) -> u64 {
        let mut bits = 0;
        if self.allows(Access::Load) {
            bits |= Entry::READ;
        }
        if self.allows(Access::Store) && !self.copied_on_write {
            bits |= Entry::WRITE | Entry::DIRTY;
        }
        if self.allows(Access::Fetch) {
            bits |= Entry::EXECUTE;
        }
        if bits == 0 {
            return 0;
        }
        bits |= Entry::VALID | Entry::USER | Entry::ACCESSED;
        Entry::new(address.wrapping_add(self.offset), bits).0
    }
}

impl Space {
    /// The writes that bring memory up to date with this space: pages are cleared and copied first,
    /// and then page-table entries written.
    pub fn jobs(&mut self) -> Vec<Write> {
        let changed = std::mem::replace(&mut self.changed, Intervals::new());
        let mut entries = Vec::new();
        for (from, to, ()) in changed.within(0, u64::MAX) {
            let mut at = from;
            while at < to {
                let (_, covered) = table_index(at, 1);
                let end = to.min((at >> covered).wrapping_add(1) << covered);
                self.entries(at, end, &mut entries);
                at = end;
            }
        }
        let mut jobs = std::mem::take(&mut self.contents);
        if !jobs.is_empty() && !entries.is_empty() {
            jobs.push(Write::barrier());
        }
        jobs.extend(entries);
        if !jobs.is_empty() {
            jobs.push(Write::barrier());
        }
        jobs
    }

    /// Writes the entries of `start..end`, which lie in one table.
    pub(super) fn entries(&mut self, start: u64, end: u64, writes: &mut Vec<Write>) {
        let table = self.tables.get(&(0, start >> 21)).copied();
        let has_pages = self
            .uses
            .within(start, end)
            .iter()
            .any(|(_, _, one)| *one != Use::Reserved);
        if table.is_none() && !has_pages {
            return;
        }
        let Some(table) = self.table(0, start, writes) else {
            return;
        };
        let mut bytes = Vec::with_capacity(((end - start) / PAGE_BYTES * 8) as usize);
        for page in (start..end).step_by(PAGE_BYTES as usize) {
            let entry = self.memory_at(page).map_or(0, |memory| memory.entry(page));
            bytes.extend_from_slice(&entry.to_le_bytes());
        }
        let (index, _) = table_index(start, 0);
        writes.push(Write::bytes(table + 8 * index as u64, bytes));
    }

    /// The table of a level for `address`; creates it if necessary.
    pub(super) fn table(
        &mut self,
        level: u32,
        address: u64,
        writes: &mut Vec<Write>,
    ) -> Option<u64> {
        let (index, covered) = table_index(address, level + 1);
        if level == 2 {
            return Some(self.root);
        }
        let key = (level, address >> covered);
        if let Some(&table) = self.tables.get(&key) {
            return Some(table);
        }
        let above = self.table(level + 1, address, writes)?;
        let (table, is_dirty) = self.frames.borrow_mut().take_table()?;
        if is_dirty {
            self.contents.push(Write::zeros(table, PAGE_BYTES));
        }
        self.tables.insert(key, table);
        let entry = Entry::new(table, Entry::VALID).0.to_le_bytes().to_vec();
        writes.push(Write::bytes(above + 8 * index as u64, entry));
        Some(table)
    }
}
