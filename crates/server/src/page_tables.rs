//! Page tables that map every address to itself, for cores that translate.
//!
//! They are written into memory before the program starts, where page walks read them through the
//! caches. The program itself finds no memory there.

use crate::error::RunError;
use crate::memory_map::PAGE_TABLES;
use fabric::{AddressRange, Ram};
use pipeline::TranslationSpec;
use riscv::paging::{Entry, TABLE_BYTES, table_index};

/// Entries of a table.
const ENTRIES: usize = TABLE_BYTES as usize / 8;
/// Everything is allowed, and nothing has to be recorded any more.
const PAGE: u64 = Entry::VALID
    | Entry::READ
    | Entry::WRITE
    | Entry::EXECUTE
    | Entry::GLOBAL
    | Entry::ACCESSED
    | Entry::DIRTY;

/// Tables one behind the other, the root first.
struct Tables(Vec<[u64; ENTRIES]>);

impl Tables {
    /// Where a table is in memory.
    fn base(table: usize) -> u64 {
        PAGE_TABLES.start + table as u64 * TABLE_BYTES
    }

    /// Maps the page of so many bits that begins at `base`, below a root of `level`.
    fn map(&mut self, base: u64, bits: u32, level: u32) {
        let mut table = 0;
        for level in (1..=level).rev() {
            let (index, covered) = table_index(base, level);
            if covered == bits {
                self.0[table][index] = Entry::new(base, PAGE).0;
                return;
            }
            let next = self.0.len();
            let entry = &mut self.0[table][index];
            if *entry == 0 {
                *entry = Entry::new(Tables::base(next), Entry::VALID).0;
                self.0.push([0; ENTRIES]);
                table = next;
            } else {
                table = ((Entry(*entry).base() - PAGE_TABLES.start) / TABLE_BYTES) as usize;
            }
        }
        let (index, _) = table_index(base, 0);
        self.0[table][index] = Entry::new(base, PAGE).0;
    }
}

/// Writes tables into `ram` that map all pages which have an address of `mapped`, and returns the
/// physical address of the first of them.
pub(crate) fn write(
    spec: &TranslationSpec,
    mapped: impl Iterator<Item = AddressRange>,
    ram: &mut Ram,
) -> Result<u64, RunError> {
    let bits = spec.page.bits();
    let mut tables = Tables(vec![[0; ENTRIES]]);
    let level = spec.mode.mode().levels() - 1;
    for range in mapped {
        for page in range.start >> bits..=(range.end() - 1) >> bits {
            tables.map(page << bits, bits, level);
        }
    }
    for (number, table) in tables.0.iter().enumerate() {
        let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        ram.load(Tables::base(number), &bytes)?;
    }
    Ok(Tables::base(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_map::{MAIN_MEMORY, STACKS};
    use pipeline::{PageSize, PagingMode};
    use riscv::paging::{Access, Accessor, translate};

    const ANYBODY: Accessor = Accessor::Supervisor {
        reaches_user: false,
        executable_is_readable: false,
    };

    /// All memory that there can be, in pages of each size: every address leads to itself, by as
    /// many entries as there are levels above the page's.
    #[test]
    fn every_address_leads_to_itself() {
        for (mode, levels) in [(PagingMode::Sv39, 3), (PagingMode::Sv48, 4)] {
            for (page, below) in [
                (PageSize::Small, 0),
                (PageSize::Large, 1),
                (PageSize::Huge, 2),
            ] {
                let spec = TranslationSpec {
                    mode,
                    page,
                    ..TranslationSpec::default()
                };
                let mut ram = Ram::new(vec![PAGE_TABLES]).unwrap();
                let mapped = [STACKS, MAIN_MEMORY];
                let root = write(&spec, mapped.into_iter(), &mut ram).unwrap();
                for address in [STACKS.start, STACKS.end() - 8, 0x8000_1234, 0x4_7fff_fff8] {
                    let mut read = 0;
                    let found = translate(
                        spec.mode.mode(),
                        root,
                        address,
                        Access::Store,
                        ANYBODY,
                        |at| {
                            read += 1;
                            let mut bytes = [0; 8];
                            ram.read(at, &mut bytes).unwrap();
                            Some(u64::from_le_bytes(bytes))
                        },
                    );
                    let found = found.unwrap();
                    assert_eq!(found.physical(address), address);
                    assert_eq!((found.bits, read), (page.bits(), levels - below));
                }
            }
        }
    }
}
