//! Page tables that map every address to itself, for runs with translation that must differ only in
//! timing.

use super::{Entry, Mode, TABLE_BYTES, table_index};

/// Entries of a table.
const ENTRIES: usize = TABLE_BYTES as usize / 8;
/// Every access is permitted, and bits A and D are already set.
const PAGE: u64 = Entry::VALID
    | Entry::READ
    | Entry::WRITE
    | Entry::EXECUTE
    | Entry::GLOBAL
    | Entry::ACCESSED
    | Entry::DIRTY;

/// Contiguous tables in physical memory, the root first. They map whole pages to themselves.
#[derive(Clone, Debug)]
pub struct IdentityTables {
    start: u64,
    mode: Mode,
    page_bits: u32,
    tables: Vec<[u64; ENTRIES]>,
}

impl IdentityTables {
    /// Tables that begin at the physical address `start` and initially map nothing; the page size
    /// is two to the power of `page_bits`.
    pub fn new(start: u64, mode: Mode, page_bits: u32) -> IdentityTables {
        IdentityTables {
            start,
            mode,
            page_bits,
            tables: vec![[0; ENTRIES]],
        }
    }

    /// Maps all pages that overlap these addresses.
    pub fn map(&mut self, addresses: std::ops::RangeInclusive<u64>) {
        let bits = self.page_bits;
        let (mut page, last) = (addresses.start() >> bits, addresses.end() >> bits);
        while page <= last {
            let (table, index) = self.place(page << bits);
            for entry in &mut self.tables[table][index..] {
                *entry = Entry::new(page << bits, PAGE).0;
                page += 1;
                if page > last {
                    break;
                }
            }
        }
    }

    fn base(&self, table: usize) -> u64 {
        self.start + table as u64 * TABLE_BYTES
    }

    /// The table and the index of the entry of the page that begins at `base`. Missing tables are
    /// added.
    fn place(&mut self, base: u64) -> (usize, usize) {
        let mut table = 0;
        for level in (0..self.mode.levels()).rev() {
            let (index, covered) = table_index(base, level);
            if level == 0 || covered == self.page_bits {
                return (table, index);
            }
            let entry = self.tables[table][index];
            if entry == 0 {
                let next = self.tables.len();
                self.tables[table][index] = Entry::new(self.base(next), Entry::VALID).0;
                self.tables.push([0; ENTRIES]);
                table = next;
            } else {
                table = ((Entry(entry).base() - self.start) / TABLE_BYTES) as usize;
            }
        }
        unreachable!("the last level has the smallest pages")
    }

    /// The address and the contents of each table.
    pub fn content(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.tables.iter().enumerate().map(|(number, table)| {
            let bytes = table.map(u64::to_le_bytes);
            (self.base(number), bytes.as_flattened().to_vec())
        })
    }
}
