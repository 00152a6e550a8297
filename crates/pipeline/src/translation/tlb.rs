//! TLBs.

use super::spec::{FirstLevelTlbSpec, SecondLevelTlbSpec, TlbPagesSpec};
use riscv::paging::{Entry, Flush, Page};

/// An invalid tag.
const NONE: u64 = u64::MAX;
/// The largest page of a TLB entry has 2^30 bytes; a larger page takes an entry for each part of
/// that size.
const LARGEST_BITS: u32 = 30;
/// The page sizes.
const SIZES: [u32; 3] = [12, 21, LARGEST_BITS];

/// A TLB's tag of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(super) struct SpaceTag(u32);

impl SpaceTag {
    /// The tag of the identity mapping.
    pub const IDENTITY: SpaceTag = SpaceTag(0);

    /// The tag of a hart's address space. Harts do not share ASIDs.
    pub fn new(thread: u8, asid: u16) -> SpaceTag {
        SpaceTag(u32::from(thread) << 17 | 1 << 16 | u32::from(asid))
    }

    /// Whether it belongs to the hart.
    pub fn is_of(self, thread: u8) -> bool {
        self.0 >> 16 == u32::from(thread) << 1 | 1
    }

    pub fn number(self) -> u64 {
        self.0.into()
    }

    fn asid(self) -> u16 {
        self.0 as u16
    }
}

/// A TLB entry: page number and size, address space, and page-table entry.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Remembered {
    tag: u64,
    space: SpaceTag,
    entry: u64,
}

const NOTHING: Remembered = Remembered {
    tag: NONE,
    space: SpaceTag::IDENTITY,
    entry: 0,
};

impl Remembered {
    /// Whether it is the page with this tag in a space. Global pages match all spaces of their
    /// hart.
    #[inline]
    fn is(&self, tag: u64, space: SpaceTag) -> bool {
        self.tag == tag
            && (self.space == space
                || self.entry & Entry::GLOBAL != 0 && self.space.0 >> 16 == space.0 >> 16)
    }

    /// Whether a hart's flush invalidates it.
    fn is_flushed(&self, thread: u8, flush: &Flush) -> bool {
        let bits = (self.tag & 0xff) as u32;
        let is_global = self.entry & Entry::GLOBAL != 0;
        let in_space = flush
            .asid
            .is_none_or(|asid| self.space.asid() == asid && !is_global);
        self.tag != NONE
            && self.space.is_of(thread)
            && in_space
            && flush
                .address
                .is_none_or(|address| tag(address, bits) == self.tag)
    }
}

/// The tag of a page: its number and its size.
fn tag(address: u64, bits: u32) -> u64 {
    (address >> bits) << 8 | u64::from(bits)
}

/// The location of a page in a first-level TLB, valid until the next insertion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The index of its size in [`SIZES`].
    size: usize,
    /// The index of its set's first entry.
    set: usize,
    way: usize,
}

/// A set-associative array for some page sizes; each set is in LRU order, the most recently used
/// first.
#[derive(state::State)]
struct Pages {
    #[state(fixed)]
    ways: usize,
    #[state(fixed)]
    set_mask: u64,
    #[state(slice)]
    entries: Vec<Remembered>,
    /// Whether a page of each of [`SIZES`] was ever inserted: a shortcut for misses.
    has: [bool; 3],
}

impl Pages {
    fn new(spec: &TlbPagesSpec) -> Pages {
        Pages {
            ways: spec.ways as usize,
            set_mask: u64::from(spec.sets()) - 1,
            entries: vec![NOTHING; spec.entries as usize],
            has: [false; 3],
        }
    }

    /// The index of the first entry of `address`'s set.
    #[inline]
    fn set_at(&self, address: u64, bits: u32) -> usize {
        (address >> bits & self.set_mask) as usize * self.ways
    }

    /// The page of this size with `address`, if it is cached, and its location.
    #[inline]
    fn look(&self, address: u64, space: SpaceTag, size: usize) -> Option<(Page, Place)> {
        if !self.has[size] {
            return None;
        }
        let bits = SIZES[size];
        let tag = tag(address, bits);
        let set = self.set_at(address, bits);
        let ways = &self.entries[set..][..self.ways];
        let way = ways.iter().position(|other| other.is(tag, space))?;
        let entry = Entry(ways[way].entry);
        Some((Page { entry, bits }, Place { size, set, way }))
    }

    /// Makes the page at this location the most recently used of its set.
    #[inline]
    fn touch(&mut self, place: Place) {
        if place.way > 0 {
            self.entries[place.set..=place.set + place.way].rotate_right(1);
        }
    }

    /// The page of this size with `address`, if it is cached; makes it the most recently used.
    #[inline]
    fn find(&mut self, address: u64, space: SpaceTag, size: usize) -> Option<Page> {
        let (page, place) = self.look(address, space, size)?;
        self.touch(place);
        Some(page)
    }

    fn insert(&mut self, address: u64, space: SpaceTag, size: usize, entry: Entry) {
        let is_here = self.find(address, space, size).is_some();
        self.has[size] = true;
        let set = self.set_at(address, SIZES[size]);
        let set = &mut self.entries[set..][..self.ways];
        if !is_here {
            set.rotate_right(1);
        }
        set[0] = Remembered {
            tag: tag(address, SIZES[size]),
            space,
            entry: entry.0,
        };
    }

    fn flush(&mut self, thread: u8, flush: &Flush) {
        for one in &mut self.entries {
            if one.is_flushed(thread, flush) {
                *one = NOTHING;
            }
        }
    }
}

/// The entry for the part of a page that contains `address`, and the index of its size in
/// [`SIZES`].
fn part_of(page: Page, address: u64) -> (usize, Entry) {
    let place = SIZES.iter().position(|&size| size == page.bits);
    match place {
        Some(place) => (place, page.entry),
        None => {
            let last = SIZES.len() - 1;
            let part = page.physical(address) >> LARGEST_BITS << LARGEST_BITS;
            let flags = page.entry.0 & 0x3ff;
            (last, Entry::new(part, flags))
        }
    }
}

/// A first-level TLB.
#[derive(state::State)]
pub(super) struct FirstLevelTlb {
    parts: [Pages; 3],
}

impl FirstLevelTlb {
    pub fn new(spec: &FirstLevelTlbSpec) -> FirstLevelTlb {
        let parts = [&spec.pages_4kb, &spec.pages_2mb, &spec.pages_1gb];
        FirstLevelTlb {
            parts: parts.map(Pages::new),
        }
    }

    /// The page of `address`, if it is cached, and its location.
    #[inline]
    pub fn look(&self, address: u64, space: SpaceTag) -> Option<(Page, Place)> {
        let mut parts = self.parts.iter().enumerate();
        parts.find_map(|(size, part)| part.look(address, space, size))
    }

    /// Makes the page at this location the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, place: Place) {
        self.parts[place.size].touch(place);
    }

    /// The page of `address`, if it is cached; makes it the most recently used of its set.
    pub fn find(&mut self, address: u64, space: SpaceTag) -> Option<Page> {
        let (page, place) = self.look(address, space)?;
        self.touch(place);
        Some(page)
    }

    /// Inserts the page of `address`.
    pub fn insert(&mut self, address: u64, space: SpaceTag, page: Page) {
        let (size, entry) = part_of(page, address);
        self.parts[size].insert(address, space, size, entry);
    }

    /// Invalidates the entries that a hart's flush names.
    pub fn flush(&mut self, thread: u8, flush: &Flush) {
        for part in &mut self.parts {
            part.flush(thread, flush);
        }
    }

    /// All entries, in their order.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let all = self.parts.iter().flat_map(|part| part.entries.iter());
        all.flat_map(|one| [one.tag, one.space.number(), one.entry])
    }
}

/// The second-level TLB.
#[derive(state::State)]
pub(super) struct SecondLevelTlb {
    small_and_large: Pages,
    huge: Pages,
}

impl SecondLevelTlb {
    pub fn new(spec: &SecondLevelTlbSpec) -> SecondLevelTlb {
        SecondLevelTlb {
            small_and_large: Pages::new(&spec.pages_4kb_2mb),
            huge: Pages::new(&spec.pages_1gb),
        }
    }

    fn part(&mut self, size: usize) -> &mut Pages {
        match size {
            2 => &mut self.huge,
            _ => &mut self.small_and_large,
        }
    }

    /// The page of `address`, if it is cached; makes it the most recently used of its set.
    pub fn find(&mut self, address: u64, space: SpaceTag) -> Option<Page> {
        (0..SIZES.len()).find_map(|size| self.part(size).find(address, space, size))
    }

    /// Inserts the page of `address`.
    pub fn insert(&mut self, address: u64, space: SpaceTag, page: Page) {
        let (size, entry) = part_of(page, address);
        self.part(size).insert(address, space, size, entry);
    }

    /// Invalidates the entries that a hart's flush names.
    pub fn flush(&mut self, thread: u8, flush: &Flush) {
        self.small_and_large.flush(thread, flush);
        self.huge.flush(thread, flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceTag = SpaceTag::IDENTITY;

    /// A page of this size whose physical address is its virtual one.
    fn page(address: u64, bits: u32) -> Page {
        let entry = Entry::new(address >> bits << bits, Entry::VALID);
        Page { entry, bits }
    }

    fn first_level(entries: u32, ways: u32) -> FirstLevelTlb {
        let pages = TlbPagesSpec { entries, ways };
        FirstLevelTlb::new(&FirstLevelTlbSpec {
            pages_4kb: pages,
            pages_2mb: pages,
            pages_1gb: pages,
        })
    }

    #[test]
    fn the_least_recently_used_page_of_a_set_makes_room() {
        let mut tlb = first_level(4, 2);
        // Two sets: even and odd page numbers.
        for number in [0u64, 2, 1] {
            tlb.insert(number << 12, SPACE, page(number << 12, 12));
        }
        assert!(tlb.find(0x0fff, SPACE).is_some(), "any byte of a page");
        tlb.insert(4 << 12, SPACE, page(4 << 12, 12));
        let found = [0u64, 1, 2, 3, 4].map(|page| tlb.find(page << 12, SPACE).is_some());
        assert_eq!(found, [true, true, false, false, true]);
    }

    #[test]
    fn each_size_has_a_part_and_the_second_level_shares_one() {
        let mut tlb = first_level(1, 1);
        for bits in SIZES {
            tlb.insert(1 << 33, SPACE, page(1 << 33, bits));
        }
        for offset in [0u64, 0xfff, 0x1000, 0x1f_ffff, 0x20_0000, 0x3fff_ffff] {
            let found = tlb.find((1 << 33) + offset, SPACE).unwrap();
            assert_eq!(found.physical((1 << 33) + offset), (1 << 33) + offset);
        }
        assert!(tlb.find((1 << 33) + 0x4000_0000, SPACE).is_none());
        let mut second = SecondLevelTlb::new(&SecondLevelTlbSpec {
            pages_4kb_2mb: TlbPagesSpec {
                entries: 1,
                ways: 1,
            },
            pages_1gb: TlbPagesSpec {
                entries: 1,
                ways: 1,
            },
            hit_latency_cycles: 1,
        });
        second.insert(0x1000, SPACE, page(0x1000, 12));
        second.insert(0x20_0000, SPACE, page(0x20_0000, 21));
        second.insert(0x4000_0000, SPACE, page(0x4000_0000, 30));
        let found = [0x1000, 0x20_1000, 0x4020_0000]
            .map(|address| second.find(address, SPACE).map(|page| page.bits));
        assert_eq!(found, [None, Some(21), Some(30)]);
    }

    /// 512 GB, with Sv48.
    #[test]
    fn a_larger_page_takes_an_entry_for_each_gigabyte() {
        let mut tlb = first_level(4, 4);
        tlb.insert((1 << 39) + (5 << 30), SPACE, page(1 << 39, 39));
        let last = (1 << 39) + (6 << 30) - 1;
        let found = tlb.find(last, SPACE).unwrap();
        assert_eq!((found.bits, found.physical(last)), (30, last));
        assert!(tlb.find(last + 1, SPACE).is_none());
    }

    /// Equal ASIDs of two harts are different spaces; a global page is in all spaces of one hart.
    #[test]
    fn a_flush_is_as_narrow_as_it_says() {
        let (thread, other_thread) = (0, 1);
        let spaces = [1, 2].map(|asid| SpaceTag::new(thread, asid));
        let [first, second] = spaces;
        let foreign = SpaceTag::new(other_thread, 1);
        let filled = || {
            let mut tlb = first_level(64, 4);
            for space in [first, second, foreign, SpaceTag::IDENTITY] {
                tlb.insert(0x1000, space, page(0x1000, 12));
                tlb.insert(0x20_0000, space, page(0x20_0000, 21));
            }
            let mut global = page(0x3000, 12);
            global.entry.0 |= Entry::GLOBAL;
            tlb.insert(0x3000, first, global);
            tlb
        };
        let left = |flush: Flush| {
            let mut tlb = filled();
            tlb.flush(thread, &flush);
            let mut is_here = |address, space| tlb.find(address, space).is_some();
            assert!(is_here(0x1000, SpaceTag::IDENTITY) && is_here(0x1000, foreign));
            assert!(!is_here(0x3000, foreign) && !is_here(0x3000, SpaceTag::IDENTITY));
            let places = [0x1000, 0x20_0000, 0x3000];
            spaces.map(|space| places.map(|address| is_here(address, space)))
        };
        let flush = |address, asid| Flush { address, asid };
        assert_eq!(left(flush(None, None)), [[false; 3]; 2]);
        let of_one = [[false, false, true], [true; 3]];
        assert_eq!(left(flush(None, Some(1))), of_one);
        let address = [[true, false, true]; 2];
        assert_eq!(left(flush(Some(0x3f_ffff), None)), address);
        let both = [[true, false, true], [true; 3]];
        assert_eq!(left(flush(Some(0x2f_0000), Some(1))), both);
        assert_eq!(left(flush(Some(0x3fff), None)), [[true, true, false]; 2]);
        assert_eq!(left(flush(Some(0x3fff), Some(1))), [[true; 3]; 2]);
    }
}
