//! Memory in pages that are found by one table look-up.

use crate::interpreter::Memory;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// The content of a page.
pub type Page = [u8; PAGE_BYTES];
/// Pages by their number, which is their address divided by [`PAGE_BYTES`]. A page in the table is
/// memory from end to end.
pub type PageTable = [Option<Box<Page>>];

/// Addresses below this are in the table. It takes half a gibibyte of the host's addresses, and
/// memory only for its touched parts.
const TABLE_END: u64 = 1 << 38;

/// Memory that the fast interpreter reaches without a call.
pub trait Paged: Memory {
    /// Its pages. A page missing here may still exist: then [`Memory`] finds it.
    fn pages(&mut self) -> &mut PageTable;
}

/// The initial contents of untouched pages, instead of zeros.
pub trait Behind: Debug + Send + Sync {
    /// Writes the contents of the page with this number.
    fn fill(&self, number: u64, page: &mut Page);
}

/// Memory in some ranges of addresses. It is zero until written, and only touched pages take memory
/// of the host.
#[derive(Clone, Debug, Default)]
pub struct PagedMemory {
    ranges: Vec<Range<u64>>,
    /// See [`PagedMemory::protect`].
    protected: Vec<Range<u64>>,
    /// See [`PagedMemory::observe`].
    observed: Vec<Range<u64>>,
    /// See [`PagedMemory::before`].
    behind: Option<Arc<dyn Behind>>,
    pages: Vec<Option<Box<Page>>>,
    /// Pages beyond the table, and pages that are only partly memory.
    others: BTreeMap<u64, Box<Page>>,
    touched_pages: u64,
    host_is_full: bool,
}

/// The page's number, and the offset in it.
fn place(address: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    (address / page_bytes, (address % page_bytes) as usize)
}

/// The addresses of the first and the last byte of a page.
fn first_and_last(number: u64) -> (u64, u64) {
    let first = number * PAGE_BYTES as u64;
    (first, first + (PAGE_BYTES as u64 - 1))
}

/// A page of zeros, if the host has memory for it.
fn zeros() -> Option<Box<Page>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(PAGE_BYTES).ok()?;
    bytes.resize(PAGE_BYTES, 0);
    bytes.into_boxed_slice().try_into().ok()
}

impl PagedMemory {
    /// Memory at these addresses.
    pub fn new(ranges: Vec<Range<u64>>) -> PagedMemory {
        let ends = ranges.iter().map(|range| range.end);
        let end = ends.filter(|&end| end <= TABLE_END).max().unwrap_or(0);
        PagedMemory {
            ranges,
            pages: vec![None; end.div_ceil(PAGE_BYTES as u64) as usize],
            ..PagedMemory::default()
        }
    }

    /// Keeps user mode from writing in these ranges, which must be untouched. Their pages are never
    /// in the table, whose accesses are unchecked.
    #[must_use]
    pub fn protect(mut self, ranges: Vec<Range<u64>>) -> PagedMemory {
        self.protected = ranges;
        self
    }

    /// Makes every access to the pages of these ranges, which must be untouched, go through
    /// [`Memory`], so that the owner of this memory can observe it: they are never in the table.
    #[must_use]
    pub fn observe(mut self, ranges: Vec<Range<u64>>) -> PagedMemory {
        self.observed = ranges;
        self
    }

    /// Takes the initial contents of untouched pages from `behind` when they are first touched.
    #[must_use]
    pub fn before(mut self, behind: Arc<dyn Behind>) -> PagedMemory {
        self.behind = Some(behind);
        self
    }

    /// Whether there is memory at an address.
    pub fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }

    /// Whether all of a page is memory.
    fn is_whole(&self, number: u64) -> bool {
        let (first, last) = first_and_last(number);
        let mut ranges = self.ranges.iter();
        ranges.any(|range| range.contains(&first) && range.contains(&last))
    }

    /// Whether a page is in the table once touched.
    fn is_in_table(&self, number: u64) -> bool {
        let (first, last) = first_and_last(number);
        let mut apart = self.protected.iter().chain(&self.observed);
        usize::try_from(number).is_ok_and(|index| index < self.pages.len())
            && self.is_whole(number)
            && !apart.any(|range| range.start <= last && first < range.end)
    }

    /// The page with this number, at least partly memory; `None` if the host has no memory left for
    /// it.
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let in_table = self.is_in_table(number);
        let exists = if in_table {
            self.pages[number as usize].is_some()
        } else {
            self.others.contains_key(&number)
        };
        if !exists {
            let Some(mut page) = zeros() else {
                self.host_is_full = true;
                return None;
            };
            if let Some(behind) = &self.behind {
                behind.fill(number, &mut page);
            }
            self.touched_pages += 1;
            if in_table {
                self.pages[number as usize] = Some(page);
            } else {
                self.others.insert(number, page);
            }
        }
        if in_table {
            self.pages[number as usize].as_deref_mut()
        } else {
            self.others.get_mut(&number).map(Box::as_mut)
        }
    }

    /// Whether more than `limit` pages have been touched, or the host had no memory for one and its
    /// writes were lost.
    #[inline]
    pub fn is_beyond(&self, limit: u64) -> bool {
        self.touched_pages > limit || self.host_is_full
    }

    /// Whether the host had no memory for a page.
    pub fn host_is_full(&self) -> bool {
        self.host_is_full
    }

    /// Discards the pages for whose addresses `keep` is false: they are zero again.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let mut kept = 0;
        for (number, page) in (0..).zip(&mut self.pages) {
            page.take_if(|_| !keep(number * PAGE_BYTES as u64));
            kept += u64::from(page.is_some());
        }
        self.others
            .retain(|&number, _| keep(number * PAGE_BYTES as u64));
        self.touched_pages = kept + self.others.len() as u64;
    }

    /// These bytes, if they are in one page that is memory as a whole.
    fn together(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let (number, offset) = place(address);
        let end = offset.checked_add(length)?;
        if end > PAGE_BYTES {
            return None;
        }
        let index = usize::try_from(number).ok()?;
        match self.pages.get(index) {
            Some(Some(_)) => self.pages[index].as_mut()?.get_mut(offset..end),
            _ if self.is_whole(number) => self.page(number)?.get_mut(offset..end),
            _ => None,
        }
    }

    /// The byte at an address, if it exists.
    fn byte(&mut self, address: u64) -> Option<&mut u8> {
        let (number, offset) = place(address);
        if !self.contains(address) {
            return None;
        }
        self.page(number).map(|page| &mut page[offset])
    }

    /// All touched pages, by their number, except those beyond the table.
    pub fn into_pages(mut self) -> Vec<Option<Box<Page>>> {
        for (number, page) in self.others {
            if let Some(place) = self.pages.get_mut(number as usize) {
                *place = Some(page);
            }
        }
        self.pages
    }

    /// Total bytes of touched pages.
    pub fn touched_bytes(&self) -> u64 {
        self.touched_pages * PAGE_BYTES as u64
    }

    /// Copies bytes out of memory; nonexistent bytes are zero.
    pub fn copy_out(&mut self, address: u64, bytes: &mut [u8]) {
        if let Some(found) = self.together(address, bytes.len()) {
            return bytes.copy_from_slice(found);
        }
        for (byte, address) in bytes.iter_mut().zip(address..) {
            *byte = self.byte(address).copied().unwrap_or(0);
        }
    }

    /// Copies bytes into memory where it exists.
    pub fn copy_in(&mut self, address: u64, bytes: &[u8]) {
        if let Some(place) = self.together(address, bytes.len()) {
            return place.copy_from_slice(bytes);
        }
        for (&byte, address) in bytes.iter().zip(address..) {
            if let Some(place) = self.byte(address) {
                *place = byte;
            }
        }
    }

    /// Whether all bytes of an access exist.
    fn has(&self, address: u64, bytes: u8) -> bool {
        let (number, offset) = place(address);
        let page = usize::try_from(number).map(|index| self.pages.get(index));
        if offset + usize::from(bytes) <= PAGE_BYTES && matches!(page, Ok(Some(Some(_)))) {
            return true;
        }
        let last = address.checked_add(u64::from(bytes) - 1);
        self.contains(address) && last.is_some_and(|last| self.contains(last))
    }
}

impl Memory for PagedMemory {
    fn read(&mut self, address: u64, bytes: u8) -> Option<u64> {
        let mut value = [0; 8];
        let wanted = value.get_mut(..bytes.into())?;
        if !self.has(address, bytes) {
            return None;
        }
        self.copy_out(address, wanted);
        Some(u64::from_le_bytes(value))
    }

    fn write(&mut self, address: u64, bytes: u8, value: u64) -> bool {
        let value = value.to_le_bytes();
        let Some(value) = value.get(..bytes.into()) else {
            return false;
        };
        let exists = self.has(address, bytes);
        if exists {
            self.copy_in(address, value);
        }
        exists
    }

    fn is_protected(&self, address: u64) -> bool {
        self.protected.iter().any(|range| range.contains(&address))
    }
}

impl Paged for PagedMemory {
    #[inline]
    fn pages(&mut self) -> &mut PageTable {
        &mut self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that is memory as a whole, a page that is partly memory, and one beyond the table.
    const FAR: u64 = 0xffff_ffff_8000_0000;

    fn memory() -> PagedMemory {
        PagedMemory::new(vec![0x1000..0x2040, 0x2080..0x3000, FAR..FAR + 0x1000])
    }

    #[test]
    fn bytes_come_back_wherever_they_are() {
        let mut memory = memory();
        for address in [0x1000, 0x1ffc, 0x2037, 0x2080, 0x2ff8, FAR, FAR + 0xff8] {
            assert_eq!(memory.read(address, 8), Some(0));
            assert!(memory.write(address, 8, address ^ 0x0123_4567_89ab_cdef));
            assert_eq!(
                memory.read(address, 8),
                Some(address ^ 0x0123_4567_89ab_cdef)
            );
            assert_eq!(memory.read(address + 7, 1), Some(address >> 56 ^ 1));
        }
        let present: Vec<usize> = (0..4)
            .filter(|&page| memory.pages().get(page).is_some_and(Option::is_some))
            .collect();
        assert_eq!(present, [1], "the second has a hole");
        assert_eq!(memory.touched_bytes(), 3 * 4096);
        let pages = memory.into_pages();
        let present: Vec<usize> = (0..4)
            .filter(|&page| pages.get(page).is_some_and(Option::is_some))
            .collect();
        assert_eq!(present, [1, 2]);
    }

    #[test]
    fn pages_that_are_touched_are_counted_until_they_are_dropped() {
        let mut memory = memory();
        assert!(!memory.is_beyond(0));
        for address in [0x1000, 0x1ff8, 0x2080, FAR] {
            assert!(memory.write(address, 8, 1));
        }
        assert!(memory.is_beyond(2) && !memory.is_beyond(3));
        memory.retain(|page| page == 0x2000);
        assert!(memory.is_beyond(0) && !memory.is_beyond(1));
        assert_eq!(
            [0x1000, 0x2080, FAR].map(|at| memory.read(at, 8)),
            [Some(0), Some(1), Some(0)]
        );
    }

    #[test]
    fn protected_pages_are_not_in_the_table() {
        let (all, protected) = (0x1000..0x4000, 0x2100..0x2200);
        let mut memory = PagedMemory::new(vec![all]).protect(vec![protected]);
        for page in [0x1000, 0x2000, 0x3000] {
            assert!(memory.write(page, 8, 1));
        }
        let present: Vec<usize> = (0..4)
            .filter(|&page| memory.pages().get(page).is_some_and(Option::is_some))
            .collect();
        assert_eq!(present, [1, 3]);
        assert_eq!(memory.read(0x2000, 8), Some(1));
        let kept_off = [0x20ff, 0x2100, 0x21ff, 0x2200].map(|at| memory.is_protected(at));
        assert_eq!(kept_off, [false, true, true, false]);
    }

    #[test]
    fn observed_pages_are_memory_outside_of_the_table() {
        let (all, word) = (0x1000..0x4000, 0x2ff8..0x3000);
        let mut memory = PagedMemory::new(vec![all]).observe(vec![word]);
        for page in [0x1000, 0x2000, 0x3000] {
            assert!(memory.write(page, 8, 1));
        }
        let present: Vec<usize> = (0..4)
            .filter(|&page| memory.pages().get(page).is_some_and(Option::is_some))
            .collect();
        assert_eq!(present, [1, 3]);
        assert_eq!(memory.read(0x2000, 8), Some(1));
        assert!(!memory.is_protected(0x2ff8));
        assert!(memory.into_pages()[2].is_some());
    }

    #[test]
    fn pages_begin_with_what_is_behind_them() {
        #[derive(Debug)]
        struct Numbers;
        impl Behind for Numbers {
            fn fill(&self, number: u64, page: &mut Page) {
                page[8..16].copy_from_slice(&number.to_le_bytes());
            }
        }
        let mut memory = memory().before(Arc::new(Numbers));
        assert!(memory.write(0x1010, 8, 7));
        let read = [0x1000, 0x1008, 0x1010, 0x2008, FAR + 8].map(|at| memory.read(at, 8));
        let far = FAR / PAGE_BYTES as u64;
        assert_eq!(read, [0, 1, 7, 2, far].map(Some));
        assert_eq!(memory.read(0, 8), None, "there is no memory");
    }

    #[test]
    fn what_is_not_memory_is_refused_as_a_whole() {
        let mut memory = memory();
        for address in [
            0,
            0xfff,
            0x203c,
            0x2040,
            0x2079,
            0x2ffc,
            0x3000,
            FAR - 1,
            FAR + 0xffd,
            u64::MAX - 3,
        ] {
            assert_eq!(memory.read(address, 8), None, "{address:#x}");
            assert!(!memory.write(address, 8, u64::MAX), "{address:#x}");
        }
        assert_eq!(memory.read(0x2038, 8), Some(0), "nothing has been written");
        assert_eq!(memory.read(0x2ff8, 8), Some(0));
    }
}
