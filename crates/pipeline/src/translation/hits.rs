//! First-level TLB hits, for [`crate::quick`].
//!
//! All other accesses take the general path. Nothing is counted and no LRU order changes before
//! that is decided.

use super::tlb::{Place, SpaceTag};
use super::{Tables, Translation, page_of};
use crate::core::Core;
use crate::kind::CoreKind;
use fabric::LineAddress;
use riscv::paging::{Access, Accessor};

/// How accesses of a hart are translated, until its mode or its CSRs change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translates {
    /// The space of data and its accessor; no accessor if every access is allowed.
    data: Option<(SpaceTag, Option<Accessor>)>,
    fetch: Fetches,
}

#[derive(Clone, Copy, Debug)]
enum Fetches {
    Untranslated,
    /// By the tables that map each address to itself.
    Identity,
    /// By page tables of the hart's, in this space and mode.
    Translated(u64),
}

/// A data access that has its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub physical: u64,
    /// Where its page is, if it has one.
    place: Option<Place>,
}

impl Translates {
    /// Nothing is translated.
    pub const NOTHING: Translates = Translates {
        data: None,
        fetch: Fetches::Untranslated,
    };

    /// Whether the addresses of instructions are translated.
    #[inline(always)]
    pub fn translates_fetches(&self) -> bool {
        !matches!(self.fetch, Fetches::Untranslated)
    }
}

impl Translation {
    /// Whether the page of `address`, which a TLB has, may be used at `now`.
    #[inline]
    fn is_usable(&self, address: u64, space: SpaceTag, now: u64) -> bool {
        self.coming.is_empty() || self.usable_from(address, space) <= now
    }
}

impl<K: CoreKind> Core<K> {
    /// The translation of the hart's accesses; `None` in cases that the quick path does not handle.
    #[inline(never)]
    pub(crate) fn how_translated(&mut self) -> Option<Translates> {
        let now = self.hart.dispatch_cycle;
        match &mut self.shared.translation {
            None => return Some(Translates::NOTHING),
            Some(one) if !one.coming.is_empty() && now < self.shared.stop => one.settle(now),
            Some(_) => {}
        }
        let of_data = |tables: Tables| (tables.space, tables.accessor);
        let data = self.tables(Access::Load).map(of_data);
        let fetch = match self.tables(Access::Fetch) {
            Some(tables) if tables.space == SpaceTag::IDENTITY => Fetches::Identity,
            Some(_) => Fetches::Translated(self.fetch_key()),
            // Machine mode with data accesses of another mode (`MPRV`).
            None if data.is_some() => return None,
            None => Fetches::Untranslated,
        };
        Some(Translates { data, fetch })
    }

    /// The page of an access to `address` that is dispatched in cycle `now`, if the first-level TLB
    /// has it, it may be used by then, and it allows the access.
    #[inline(always)]
    pub(crate) fn hit(
        &self,
        how: &Translates,
        access: Access,
        address: u64,
        now: u64,
    ) -> Option<Hit> {
        let Some((space, accessor)) = how.data else {
            let (physical, place) = (address, None);
            return Some(Hit { physical, place });
        };
        let one = self.shared.translation.as_ref()?;
        let (page, place) = one.data.look(address, space)?;
        let may = accessor.is_none_or(|accessor| page.entry.allows(access, accessor));
        (may && one.is_usable(address, space, now)).then(|| Hit {
            physical: page.physical(address),
            place: Some(place),
        })
    }

    /// Counts a hit of an access that is dispatched, and updates the LRU order.
    #[inline(always)]
    pub(crate) fn note_hit(&mut self, hit: &Option<Hit>) {
        if let Some(Hit {
            place: Some(place), ..
        }) = *hit
            && let Some(one) = &mut self.shared.translation
        {
            one.statistics.l1_data_tlb_hits += 1;
            one.data.touch(place);
        }
    }

    /// The decoded block at `pc`, and its line, if the hart knows its page.
    #[inline(always)]
    pub(crate) fn block_at(
        &self,
        how: &Translates,
        pc: u64,
        now: u64,
    ) -> Option<(u32, LineAddress)> {
        let known = &self.hart.fetched[0];
        let has_page =
            |space| (known.page, known.space) == (page_of(pc), space) && known.from <= now;
        match how.fetch {
            Fetches::Untranslated => {}
            Fetches::Identity if has_page(0) => {}
            Fetches::Translated(space) if has_page(space) => {
                let physical = known.frame.physical(pc).ok()?;
                let start = self.shared.blocks.find_translated(pc, physical)?;
                return Some((start, LineAddress::of(physical)));
            }
            _ => return None,
        }
        let start = self.shared.blocks.find(pc)?;
        Some((start, LineAddress::of(pc)))
    }
}
