//! Caches of the upper levels of page tables, which shorten page walks.
//!
//! They model Intel's paging-structure caches ("64 and IA-32 Architectures Software Developer's
//! Manual", volume 3A, section 4.10.3): one for the entries of each level that point to another
//! table, tagged by the address bits that select them. A walk begins below the lowest level with an
//! entry for its address; the look-up is parallel to that of the second-level TLB and adds no
//! latency. An `sfence.vma` invalidates all entries of its hart, whatever its operands, as `INVLPG`
//! does (section 4.10.4.1).

use super::spec::StructureCachesSpec;
use super::tlb::SpaceTag;
use riscv::paging::{Walk, table_index};

/// An entry that points to a table.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Table {
    space: SpaceTag,
    /// The address bits above those that the table translates.
    prefix: u64,
    /// Its physical address.
    base: u64,
}

/// The cache of entries that point to tables of one level, in LRU order: the last one is the most
/// recently used.
#[derive(Clone, Debug, state::State)]
struct Level {
    #[state(fixed)]
    entries: usize,
    tables: Vec<Table>,
}

/// The caches of a core; without caches their capacity is 0.
#[derive(Clone, Debug, state::State)]
pub(super) struct StructureCaches {
    /// By the level of the tables that the entries point to, the lowest first.
    #[state(slice)]
    levels: Vec<Level>,
}

/// The address bits that select the entry which points to a table of `level`.
fn prefix(address: u64, level: u32) -> u64 {
    let (_, covered_bits) = table_index(0, level + 1);
    address >> covered_bits
}

impl StructureCaches {
    pub fn new(spec: &Option<StructureCachesSpec>) -> StructureCaches {
        let entries = spec.map_or([0; 3], |spec| {
            [spec.pde_entries, spec.pdpte_entries, spec.pml4e_entries]
        });
        let level = |entries: u32| Level {
            entries: entries as usize,
            tables: Vec::new(),
        };
        StructureCaches {
            levels: entries.map(level).into(),
        }
    }

    /// Advances `walk`, which has not begun, past the levels whose entries are cached; returns
    /// whether there were any.
    pub fn skip(&mut self, walk: &mut Walk, space: SpaceTag) -> bool {
        for (level, cache) in (0..walk.level()).zip(&mut self.levels) {
            let wanted = (space, prefix(walk.address(), level));
            let mut tables = cache.tables.iter();
            if let Some(place) = tables.position(|one| (one.space, one.prefix) == wanted) {
                let table = cache.tables.remove(place);
                cache.tables.push(table);
                walk.go_to(level, table.base);
                return true;
            }
        }
        false
    }

    /// Inserts the entry that `walk` has just read, if it points to another table; returns whether
    /// it did.
    pub fn remember(&mut self, walk: &Walk, space: SpaceTag) -> bool {
        let Some(cache) = self.levels.get_mut(walk.level() as usize) else {
            return false;
        };
        if cache.entries == 0 {
            return false;
        }
        let prefix = prefix(walk.address(), walk.level());
        let is_it = |one: &Table| (one.space, one.prefix) == (space, prefix);
        cache.tables.retain(|one| !is_it(one));
        if cache.tables.len() == cache.entries {
            cache.tables.remove(0);
        }
        cache.tables.push(Table {
            space,
            prefix,
            base: walk.table(),
        });
        true
    }

    /// Invalidates all entries of a hart.
    pub fn flush(&mut self, thread: u8) {
        for level in &mut self.levels {
            level.tables.retain(|one| !one.space.is_of(thread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riscv::paging::{Mode, Step};

    const ROOT: u64 = 0x1000;
    /// An entry that points to the table at this address.
    fn entry(base: u64) -> u64 {
        riscv::paging::Entry::new(base, riscv::paging::Entry::VALID).0
    }

    /// Walks to the last level in a space of a hart; returns the level and the table where it
    /// began.
    fn begin(caches: &mut StructureCaches, address: u64, space: SpaceTag) -> (u32, u64) {
        let mut walk = Walk::new(Mode::Sv39, ROOT, address).unwrap();
        caches.skip(&mut walk, space);
        let first = (walk.level(), walk.table());
        while walk.level() > 0 {
            let next = 0x10_0000 * u64::from(walk.level()) + 0x1000 * (address >> 21 & 15);
            assert_eq!(walk.step(entry(next)), Step::Next);
            caches.remember(&walk, space);
        }
        first
    }

    #[test]
    fn a_walk_begins_below_the_lowest_entry() {
        let spec = StructureCachesSpec {
            pde_entries: 2,
            pdpte_entries: 1,
            pml4e_entries: 0,
        };
        let mut caches = StructureCaches::new(&Some(spec));
        let [one, other] = [1, 2].map(|asid| SpaceTag::new(0, asid));
        let mut begin = |address: u64, space| begin(&mut caches, address, space);
        // A walk from the root leaves the entries of its gigabyte and its 2 MB.
        assert_eq!(begin(0, one), (2, ROOT));
        assert_eq!(begin(0x1f_f000, one), (0, 0x10_0000));
        assert_eq!(begin(0x20_0000, one), (1, 0x20_0000));
        // Another space, whose gigabyte takes the only entry of that level.
        assert_eq!(begin(0, other), (2, ROOT));
        // It has also evicted the entry of the first 2 MB, the least recently used.
        assert_eq!(begin(0x20_0000, one), (0, 0x10_1000));
        assert_eq!(begin(0, one), (2, ROOT));
        // A flush affects all spaces of a hart.
        caches.flush(1);
        assert_eq!(self::begin(&mut caches, 0, one), (0, 0x10_0000));
        caches.flush(0);
        assert_eq!(self::begin(&mut caches, 0, one), (2, ROOT));
        // Without caches each walk begins at the root.
        let mut none = StructureCaches::new(&None);
        for _ in 0..2 {
            assert_eq!(self::begin(&mut none, 0, one), (2, ROOT));
        }
    }
}
