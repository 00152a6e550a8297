//! Page tables that map every address to itself, for cores that translate.
//!
//! They are written into memory before the program starts, where page walks read them through the
//! caches. The program itself cannot access that memory.

use crate::error::RunError;
use crate::memory_map::PAGE_TABLES;
use fabric::{AddressRange, Ram};
use pipeline::TranslationSpec;
use riscv::paging::IdentityTables;

/// Writes tables into `ram` that map all pages that overlap `mapped`, and returns the physical
/// address of the root.
pub(crate) fn write(
    spec: &TranslationSpec,
    mapped: impl Iterator<Item = AddressRange>,
    ram: &mut Ram,
) -> Result<u64, RunError> {
    let start = PAGE_TABLES.start;
    let mut tables = IdentityTables::new(start, spec.mode.mode(), spec.page.bits());
    for range in mapped {
        tables.map(range.start..=range.end() - 1);
    }
    for (at, bytes) in tables.content() {
        ram.load(at, &bytes)?;
    }
    Ok(start)
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

    /// All possible memory, in pages of each size: every address maps to itself, with one entry for
    /// each level down to the page's.
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
