//! TLBs: which pages a core remembers.

use super::spec::{FirstLevelTlbSpec, SecondLevelTlbSpec, TlbPagesSpec};

/// No page.
const NONE: u64 = u64::MAX;
/// Bits of the smallest and of the largest page that a TLB remembers: one that is larger takes an
/// entry for each part of that size.
const LARGEST_BITS: u32 = 30;
/// The page sizes.
const SIZES: [u32; 3] = [12, 21, LARGEST_BITS];

/// A page as it is remembered: its number, and its size.
fn tag(address: u64, bits: u32) -> u64 {
    (address >> bits) << 8 | u64::from(bits)
}

/// The pages of some sizes, in sets, each of which has the page that was used last first.
struct Pages {
    ways: usize,
    set_mask: u64,
    tags: Vec<u64>,
    /// Pages of each of [`SIZES`] that have ever come: to see quickly that none is there.
    has: [bool; 3],
}

state::component!(Pages {
    ways: fixed,
    set_mask: fixed,
    tags: slice,
    has,
});

impl Pages {
    fn new(spec: &TlbPagesSpec) -> Pages {
        Pages {
            ways: spec.ways as usize,
            set_mask: u64::from(spec.sets()) - 1,
            tags: vec![NONE; spec.entries as usize],
            has: [false; 3],
        }
    }

    #[inline]
    fn set(&mut self, address: u64, bits: u32) -> &mut [u64] {
        let set = (address >> bits & self.set_mask) as usize;
        &mut self.tags[set * self.ways..][..self.ways]
    }

    /// Whether the page of this size with `address` is here; then it is the last used.
    #[inline]
    fn find(&mut self, address: u64, size: usize) -> bool {
        if !self.has[size] {
            return false;
        }
        let tag = tag(address, SIZES[size]);
        let set = self.set(address, SIZES[size]);
        let Some(way) = set.iter().position(|&other| other == tag) else {
            return false;
        };
        set[..=way].rotate_right(1);
        true
    }

    fn insert(&mut self, address: u64, size: usize) {
        if !self.find(address, size) {
            self.has[size] = true;
            let set = self.set(address, SIZES[size]);
            set.rotate_right(1);
            set[0] = tag(address, SIZES[size]);
        }
    }
}

/// Which of [`SIZES`] pages of so many bits have.
fn size_of(bits: u32) -> usize {
    let place = SIZES
        .iter()
        .position(|&size| size == bits.min(LARGEST_BITS));
    place.unwrap_or(0)
}

/// A first-level TLB.
pub(super) struct FirstLevelTlb {
    parts: [Pages; 3],
}

state::component!(FirstLevelTlb { parts });

impl FirstLevelTlb {
    pub fn new(spec: &FirstLevelTlbSpec) -> FirstLevelTlb {
        let parts = [&spec.pages_4kb, &spec.pages_2mb, &spec.pages_1gb];
        FirstLevelTlb {
            parts: parts.map(Pages::new),
        }
    }

    /// Whether the page of `address` is here; then it is the last used of its set.
    #[inline]
    pub fn find(&mut self, address: u64) -> bool {
        let mut parts = self.parts.iter_mut().enumerate();
        parts.any(|(size, part)| part.find(address, size))
    }

    /// Remembers the page of `address`, which has so many bits.
    pub fn insert(&mut self, address: u64, bits: u32) {
        let size = size_of(bits);
        self.parts[size].insert(address, size);
    }

    /// All that it remembers, in its order.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| part.tags.iter().copied())
    }
}

/// The second-level TLB.
pub(super) struct SecondLevelTlb {
    small_and_large: Pages,
    huge: Pages,
}

state::component!(SecondLevelTlb {
    small_and_large,
    huge,
});

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

    /// The bits of the page of `address`, if that is here; then it is the last used of its set.
    pub fn find(&mut self, address: u64) -> Option<u32> {
        let size = (0..SIZES.len()).find(|&size| self.part(size).find(address, size));
        size.map(|size| SIZES[size])
    }

    /// Remembers the page of `address`, which has so many bits.
    pub fn insert(&mut self, address: u64, bits: u32) {
        let size = size_of(bits);
        self.part(size).insert(address, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for page in [0, 2, 1] {
            tlb.insert(page << 12, 12);
        }
        assert!(tlb.find(0x0fff), "any byte of a page");
        tlb.insert(4 << 12, 12);
        let found = [0u64, 1, 2, 3, 4].map(|page| tlb.find(page << 12));
        assert_eq!(found, [true, true, false, false, true]);
    }

    #[test]
    fn each_size_has_a_part_and_the_second_level_shares_one() {
        let mut tlb = first_level(1, 1);
        for bits in SIZES {
            tlb.insert(1 << 33, bits);
        }
        for offset in [0u64, 0xfff, 0x1000, 0x1f_ffff, 0x20_0000, 0x3fff_ffff] {
            assert!(tlb.find((1 << 33) + offset), "{offset:#x}");
        }
        assert!(!tlb.find((1 << 33) + 0x4000_0000));
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
        second.insert(0x1000, 12);
        second.insert(0x20_0000, 21);
        second.insert(0x4000_0000, 30);
        let found = [0x1000, 0x20_1000, 0x4020_0000].map(|address| second.find(address));
        assert_eq!(found, [None, Some(21), Some(30)]);
    }

    /// 512 GB, with Sv48.
    #[test]
    fn a_larger_page_takes_an_entry_for_each_gigabyte() {
        let mut tlb = first_level(4, 4);
        tlb.insert(1 << 39, 39);
        assert!(tlb.find((1 << 39) + 0x3fff_ffff));
        assert!(!tlb.find((1 << 39) + 0x4000_0000));
    }
}
