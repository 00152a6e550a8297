//! What of the address space is in use: the program, its heap, and its mappings.

use crate::errno::Errno;
use crate::intervals::Intervals;
use crate::layout::{self, PAGE_BYTES, page_up};

/// Whether a mapping may be accessed at all. Nothing else of its protection is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It takes memory.
    Memory,
    /// `PROT_NONE`: only addresses.
    Reserved,
}

/// Where a mapping is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Anywhere, or there if that is free; 0: anywhere.
    Near(u64),
    /// There, whatever is there now.
    At(u64),
    /// There, if nothing is there.
    AtFree(u64),
}

/// Which pages of memory hold something for the program, at one time.
#[derive(Clone, Debug)]
pub struct Pages {
    uses: Intervals<Use>,
    written: Intervals<()>,
    limit_bytes: u64,
}

impl Pages {
    /// Whether the page at an address belongs to a mapping that takes memory, to the first stack or
    /// to the machine.
    pub fn maps(&self, page: u64) -> bool {
        self.uses.get(page) == Some(Use::Memory)
            || layout::STACK.contains(page)
            || layout::MACHINE.contains(page)
    }

    /// Whether what the page holds is still of use: it is not if the page was mapped once and is no
    /// longer.
    pub fn holds(&self, page: u64) -> bool {
        self.maps(page) || self.written.get(page).is_none()
    }

    /// How many pages may hold something at a time: the server's memory, and the machine's own
    /// pages.
    pub fn limit(&self) -> u64 {
        (self.limit_bytes + layout::MACHINE.length) / PAGE_BYTES
    }
}

/// The address space of the program.
#[derive(Debug)]
pub(crate) struct Space {
    uses: Intervals<Use>,
    /// What may hold something else than zeros.
    written: Intervals<()>,
    heap_start: u64,
    heap_end: u64,
    limit_bytes: u64,
}

impl Space {
    /// A space with a program at these ranges, and its heap behind them. All that it maps may take
    /// `limit_bytes`.
    pub fn new(program: &[(u64, u64)], limit_bytes: u64) -> Space {
        let end = program.iter().map(|&(_, end)| end).max().unwrap_or(0);
        let heap_start = page_up(end.max(layout::USER_START));
        let mut space = Space {
            uses: Intervals::new(),
            written: Intervals::new(),
            heap_start,
            heap_end: heap_start,
            limit_bytes,
        };
        for &(start, end) in program {
            let start = start & !(PAGE_BYTES - 1);
            space.uses.insert(start, page_up(end), Use::Memory);
            space.written.insert(start, page_up(end), ());
        }
        space
    }

    /// Memory that is mapped and may be accessed, in bytes, the first stack included.
    pub fn used_bytes(&self) -> u64 {
        layout::STACK_BYTES + self.uses.bytes(|one| one == Use::Memory)
    }

    /// Which pages hold something now.
    pub fn pages(&self) -> Pages {
        Pages {
            uses: self.uses.clone(),
            written: self.written.clone(),
            limit_bytes: self.limit_bytes,
        }
    }

    fn check_limit(&self, start: u64, end: u64) -> Result<(), Errno> {
        let replaced: u64 = self
            .uses
            .within(start, end)
            .iter()
            .filter(|(_, _, one)| *one == Use::Memory)
            .map(|(from, to, _)| to - from)
            .sum();
        if self.used_bytes() - replaced + (end - start) > self.limit_bytes {
            return Err(Errno::NOMEM);
        }
        Ok(())
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        self.uses.within(start, end).is_empty()
    }

    /// Takes memory at `start..end`, and gives what of it has to be cleared.
    fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let dirty = self.written.within(start, end);
        self.uses.insert(start, end, Use::Memory);
        self.written.insert(start, end, ());
        dirty.into_iter().map(|(from, to, ())| (from, to)).collect()
    }

    /// Where `length` bytes could be mapped: start and end.
    pub fn place(&self, place: Place, length: u64, accessible: bool) -> Result<(u64, u64), Errno> {
        if length == 0 {
            return Err(Errno::INVAL);
        }
        if length > layout::USER_END {
            return Err(Errno::NOMEM);
        }
        let length = page_up(length);
        let start = match place {
            Place::Near(hint) => {
                let hint = hint & !(PAGE_BYTES - 1);
                let end = hint.saturating_add(length);
                if hint >= layout::USER_START && end <= layout::USER_END && self.is_free(hint, end)
                {
                    hint
                } else {
                    self.uses
                        .first_free(layout::MAPPINGS_START, layout::USER_END, length)
                        .ok_or(Errno::NOMEM)?
                }
            }
            Place::At(start) | Place::AtFree(start) => {
                if !start.is_multiple_of(PAGE_BYTES) {
                    return Err(Errno::INVAL);
                }
                if start < layout::USER_START || start.saturating_add(length) > layout::USER_END {
                    return Err(Errno::NOMEM);
                }
                if matches!(place, Place::AtFree(_)) && !self.is_free(start, start + length) {
                    return Err(Errno::EXIST);
                }
                start
            }
        };
        let end = start + length;
        if accessible {
            self.check_limit(start, end)?;
        }
        Ok((start, end))
    }

    /// Maps `length` bytes: where, and what has to be cleared there.
    pub fn map(
        &mut self,
        place: Place,
        length: u64,
        accessible: bool,
    ) -> Result<(u64, Vec<(u64, u64)>), Errno> {
        let (start, end) = self.place(place, length, accessible)?;
        if !accessible {
            self.uses.insert(start, end, Use::Reserved);
            return Ok((start, Vec::new()));
        }
        Ok((start, self.take(start, end)))
    }

    /// Unmaps whatever is in `length` bytes at `start`.
    pub fn unmap(&mut self, start: u64, length: u64) -> Result<(), Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::INVAL)?;
        if length == 0 || !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        self.uses.remove(start, end);
        Ok(())
    }

    /// Makes mappings accessible or not: what has to be cleared, because it takes memory now and
    /// held something before it was mapped.
    pub fn protect(
        &mut self,
        start: u64,
        length: u64,
        accessible: bool,
    ) -> Result<Vec<(u64, u64)>, Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::NOMEM)?;
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        if layout::STACK.contains(start) || start == end {
            return Ok(Vec::new());
        }
        let parts = self.uses.within(start, end);
        let known: u64 = parts.iter().map(|(from, to, _)| to - from).sum();
        if known != end - start {
            return Err(Errno::NOMEM);
        }
        // Memory that becomes inaccessible keeps what it holds, and so stays what it is.
        if !accessible {
            return Ok(Vec::new());
        }
        self.check_limit(start, end)?;
        let mut dirty = Vec::new();
        for (from, to, one) in parts {
            if one == Use::Reserved {
                dirty.extend(self.take(from, to));
            }
        }
        Ok(dirty)
    }

    /// `madvise(MADV_DONTNEED)`: what of `length` bytes at `start` has to be cleared.
    pub fn discard(&self, start: u64, length: u64) -> Result<Vec<(u64, u64)>, Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        let parts = self.uses.within(start, end);
        Ok(parts
            .into_iter()
            .filter(|(_, _, one)| *one == Use::Memory)
            .map(|(from, to, _)| (from, to))
            .collect())
    }

    /// Sets the end of the heap if that is possible: its end, and what has to be cleared.
    pub fn set_heap_end(&mut self, wanted: u64) -> (u64, Vec<(u64, u64)>) {
        let (old, new) = (page_up(self.heap_end), page_up(wanted));
        let mut dirty = Vec::new();
        if wanted < self.heap_start || new > layout::MAPPINGS_START {
            return (self.heap_end, dirty);
        }
        if new > old {
            if !self.is_free(old, new) || self.check_limit(old, new).is_err() {
                return (self.heap_end, dirty);
            }
            dirty = self.take(old, new);
        } else {
            self.uses.remove(new, old);
        }
        // Linux clears whole pages only, as they come.
        self.heap_end = wanted;
        (wanted, dirty)
    }

    /// Forgets the mappings of `start..end`.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.uses.remove(start, end);
    }

    /// Changes the size of a mapping in place, or gives it a new one and says what must be copied.
    /// The old one stays, to be [forgotten](Space::forget) when it has been copied.
    pub fn remap(
        &mut self,
        start: u64,
        old_length: u64,
        new_length: u64,
        may_move: bool,
    ) -> Result<Remap, Errno> {
        let (old, new) = (page_up(old_length), page_up(new_length));
        if !start.is_multiple_of(PAGE_BYTES) || new_length == 0 || old_length == 0 {
            return Err(Errno::INVAL);
        }
        let end = start.checked_add(old).ok_or(Errno::INVAL)?;
        let known = self.uses.within(start, end);
        if known.iter().map(|(from, to, _)| to - from).sum::<u64>() != old {
            return Err(Errno::FAULT);
        }
        if new <= old {
            self.uses.remove(start + new, end);
            return Ok(Remap::InPlace(Vec::new()));
        }
        let new_end = start.checked_add(new).ok_or(Errno::NOMEM)?;
        if new_end <= layout::USER_END && self.is_free(end, new_end) {
            self.check_limit(end, new_end)?;
            return Ok(Remap::InPlace(self.take(end, new_end)));
        }
        if !may_move {
            return Err(Errno::NOMEM);
        }
        let (to, dirty) = self.map(Place::Near(0), new, true)?;
        let memory = known.iter().filter(|(_, _, one)| *one == Use::Memory);
        let copied: Vec<(u64, u64)> = memory.map(|&(from, end, _)| (from, end)).collect();
        let mut cleared = Intervals::new();
        for (from, end) in dirty {
            cleared.insert(from, end, ());
        }
        for &(from, end) in &copied {
            cleared.remove(from - start + to, end - start + to);
        }
        let cleared = cleared.within(to, to + new).into_iter();
        Ok(Remap::Moved {
            to,
            dirty: cleared.map(|(from, end, ())| (from, end)).collect(),
            copied,
        })
    }
}

/// What became of a mapping whose size was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remap {
    /// It is where it was; these addresses have to be cleared.
    InPlace(Vec<(u64, u64)>),
    /// It is elsewhere. What of it takes memory has to be copied, and what else is dirty cleared.
    Moved {
        to: u64,
        dirty: Vec<(u64, u64)>,
        copied: Vec<(u64, u64)>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn space() -> Space {
        Space::new(&[(0x10_000, 0x20_123)], 64 * MIB)
    }

    #[test]
    fn memory_that_is_used_again_is_cleared() {
        let mut space = space();
        let (first, dirty) = space.map(Place::Near(0), 8192, true).unwrap();
        assert_eq!((first, dirty), (layout::MAPPINGS_START, vec![]));
        space.unmap(first, 8192).unwrap();
        let (second, dirty) = space.map(Place::Near(0), 3 * 4096, true).unwrap();
        assert_eq!((second, dirty), (first, vec![(first, first + 8192)]));
    }

    #[test]
    fn a_reservation_takes_no_memory_until_it_is_made_accessible() {
        let mut space = space();
        let before = space.used_bytes();
        let (start, _) = space.map(Place::Near(0), 1 << 34, false).unwrap();
        assert_eq!(space.used_bytes(), before);
        assert_eq!(space.protect(start + 4096, 8192, true), Ok(vec![]));
        assert_eq!(space.used_bytes(), before + 8192);
        assert_eq!(space.protect(start, 1 << 34, true), Err(Errno::NOMEM));
    }

    #[test]
    fn mappings_end_where_memory_does() {
        let mut space = space();
        // 64 MiB less 8 MiB of stack and 17 pages of program.
        assert_eq!(space.used_bytes(), 8 * MIB + 17 * 4096);
        let left = 56 * MIB - 17 * 4096;
        assert_eq!(space.map(Place::Near(0), left + 1, true), Err(Errno::NOMEM));
        assert!(space.map(Place::Near(0), left, true).is_ok());
        assert_eq!(space.map(Place::Near(0), 1, true), Err(Errno::NOMEM));
    }

    #[test]
    fn the_heap_grows_and_shrinks_and_is_clean() {
        let mut space = space();
        let (start, _) = space.set_heap_end(0);
        assert_eq!(start, 0x21_000);
        assert_eq!(space.set_heap_end(start + 5000), (start + 5000, vec![]));
        assert_eq!(space.set_heap_end(start), (start, vec![]));
        let (end, dirty) = space.set_heap_end(start + 1);
        assert_eq!((end, dirty), (start + 1, vec![(start, start + 4096)]));
        assert_eq!(space.set_heap_end(start - 1).0, start + 1);
    }

    #[test]
    fn pages_are_of_use_while_they_are_mapped_or_if_they_never_were() {
        let mut space = space();
        let at = 0x4000_0000;
        space.map(Place::At(at), 8192, true).unwrap();
        space.map(Place::At(at + 8192), 4096, false).unwrap();
        space.unmap(at, 4096).unwrap();
        let pages = space.pages();
        let of = |page| (pages.maps(page), pages.holds(page));
        assert_eq!(of(at), (false, false), "unmapped again");
        assert_eq!(of(at + 4096), (true, true), "mapped");
        assert_eq!(of(at + 8192), (false, true), "only reserved");
        assert_eq!(of(at + 0x10_0000), (false, true), "never mapped");
        for used in [
            0x10_000,
            layout::STACK.start,
            layout::STUB,
            layout::SAVE_AREAS,
        ] {
            assert_eq!(of(used), (true, true), "{used:#x}");
        }
        // 64 MiB, the page of the code and 256 save areas of 512 bytes.
        assert_eq!(pages.limit(), 64 * 256 + 1 + 32);
    }

    #[test]
    fn what_does_not_fit_has_no_place() {
        let space = space();
        assert_eq!(
            space.place(Place::Near(0), 64 * MIB, true),
            Err(Errno::NOMEM)
        );
        let end = layout::MAPPINGS_START + 4096;
        assert_eq!(
            space.place(Place::Near(0), 1, true),
            Ok((layout::MAPPINGS_START, end))
        );
    }

    #[test]
    fn fixed_places_are_kept_and_checked() {
        let mut space = space();
        let at = 0x4000_0000;
        assert_eq!(space.map(Place::AtFree(at), 4096, true), Ok((at, vec![])));
        assert_eq!(space.map(Place::AtFree(at), 4096, true), Err(Errno::EXIST));
        assert_eq!(
            space.map(Place::At(at), 4096, true),
            Ok((at, vec![(at, at + 4096)]))
        );
        assert_eq!(space.map(Place::At(at + 1), 1, true), Err(Errno::INVAL));
        assert_eq!(space.map(Place::At(0), 1, true), Err(Errno::NOMEM));
        let (hinted, _) = space.map(Place::Near(at), 4096, true).unwrap();
        assert_eq!(hinted, layout::MAPPINGS_START, "the hint is taken");
    }

    #[test]
    fn a_mapping_grows_in_place_or_moves() {
        let mut space = space();
        let (first, _) = space.map(Place::Near(0), 4096, true).unwrap();
        assert_eq!(
            space.remap(first, 4096, 8192, false),
            Ok(Remap::InPlace(vec![]))
        );
        let (second, _) = space.map(Place::Near(0), 4096, true).unwrap();
        assert_eq!(second, first + 8192);
        assert_eq!(space.remap(first, 8192, 12288, false), Err(Errno::NOMEM));
        let to = second + 4096;
        assert_eq!(
            space.remap(first, 8192, 12288, true),
            Ok(Remap::Moved {
                to,
                dirty: vec![],
                copied: vec![(first, first + 8192)]
            })
        );
        assert_eq!(space.used_bytes(), 8 * MIB + 17 * 4096 + 6 * 4096);
        space.forget(first, first + 8192);
        assert_eq!(space.used_bytes(), 8 * MIB + 17 * 4096 + 4 * 4096);
        // What had been mapped there is cleared, but for what is copied there.
        space.unmap(second, 4 * 4096).unwrap();
        let (moved, _) = space.map(Place::AtFree(0x4000_0000), 4096, true).unwrap();
        space.map(Place::AtFree(moved + 4096), 4096, true).unwrap();
        assert_eq!(
            space.remap(moved, 4096, 8192, true),
            Ok(Remap::Moved {
                to: first,
                dirty: vec![(first + 4096, first + 8192)],
                copied: vec![(moved, moved + 4096)]
            })
        );
    }
}
