//! Physical memory in pages: its users and its size.

use crate::intervals::Intervals;
use crate::layout::{self, PAGE_BYTES};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Physical memory, which all address spaces share.
pub(crate) type SharedFrames = Rc<RefCell<Frames>>;

/// The use of physical memory. A frame is a page of it.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Number of address spaces that use each frame.
    users: Intervals<u32>,
    /// Memory that may hold other values than zeros.
    written: Intervals<()>,
    /// Memory that address spaces may use, in bytes. Shared memory counts once per address space,
    /// so that a copy-on-write always finds a frame.
    pub promised_bytes: u64,
    /// Number of frames that hold page tables.
    tables: u64,
    limit_bytes: u64,
    /// Numbers of the existing address spaces.
    numbers: BTreeSet<u16>,
    /// Number of losses so far: an address space loses a page or a permission.
    losses: u64,
}

impl Frames {
    /// Memory of which address spaces may use `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Frames {
        Frames {
            users: Intervals::new(),
            written: Intervals::new(),
            promised_bytes: 0,
            tables: 0,
            limit_bytes,
            numbers: BTreeSet::new(),
            losses: 0,
        }
    }

    /// Allocates the lowest free address-space number, from 1 on.
    pub fn take_number(&mut self) -> Option<u16> {
        let number = (1..=u16::MAX).find(|number| !self.numbers.contains(number))?;
        self.numbers.insert(number);
        Some(number)
    }

    /// Releases the number of an address space that has ended.
    pub fn release_number(&mut self, number: u16) {
        self.numbers.remove(&number);
    }

    /// Counts a loss and returns its number; the numbers increase.
    pub fn count_loss(&mut self) -> u64 {
        self.losses += 1;
        self.losses
    }

    /// Whether `more_bytes` more can be promised.
    pub fn has_room(&self, more_bytes: u64) -> bool {
        let used = self.promised_bytes + self.tables * PAGE_BYTES;
        used.saturating_add(more_bytes) <= self.limit_bytes
    }

    /// Bytes that are not promised.
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.promised_bytes)
    }

    /// Allocates frames for `length` bytes, those at `wanted` if they are free; returns their
    /// start.
    pub fn take(&mut self, wanted: u64, length: u64) -> Option<u64> {
        let end = wanted.saturating_add(length);
        let start = if self.users.within(wanted, end).is_empty() {
            wanted
        } else {
            let (from, to) = (layout::FRAMES.start, layout::FRAMES.end());
            self.users.first_free(from, to, length)?
        };
        self.users.insert(start, start + length, 1);
        Some(start)
    }

    /// Allocates a frame for a page table; returns also whether it may hold other values than
    /// zeros.
    pub fn take_table(&mut self) -> Option<(u64, bool)> {
        let (from, to) = (layout::FRAMES.start, layout::FRAMES.end());
        let frame = self.users.first_free(from, to, PAGE_BYTES)?;
        self.users.insert(frame, frame + PAGE_BYTES, 1);
        self.tables += 1;
        let is_dirty = !self.begin_to_write(frame, frame + PAGE_BYTES).is_empty();
        Some((frame, is_dirty))
    }

    /// Marks frames as written; returns the parts that must be cleared first.
    pub fn begin_to_write(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let dirty = self.written.within(start, end);
        self.written.insert(start, end, ());
        dirty.into_iter().map(|(from, to, ())| (from, to)).collect()
    }

    /// Counts another address space as a user of these frames.
    pub fn share(&mut self, start: u64, end: u64) {
        for (from, to, users) in self.users.within(start, end) {
            self.users.insert(from, to, users + 1);
        }
    }

    /// An address space no longer uses these frames.
    pub fn release(&mut self, start: u64, end: u64) {
        for (from, to, users) in self.users.within(start, end) {
            match users {
                0 | 1 => self.users.remove(from, to),
                more => self.users.insert(from, to, more - 1),
            }
        }
    }

    /// A frame no longer holds a page table.
    pub fn release_table(&mut self, frame: u64) {
        self.release(frame, frame + PAGE_BYTES);
        self.tables -= 1;
    }

    /// Whether several address spaces use a frame.
    pub fn is_shared(&self, frame: u64) -> bool {
        self.users.get(frame).is_some_and(|users| users > 1)
    }

    /// The frames that now hold something.
    pub fn pages(&self) -> Pages {
        Pages {
            used: self.users.clone(),
            written: self.written.clone(),
            limit_bytes: self.limit_bytes,
        }
    }
}

/// The pages of physical memory that hold something for a program at one time.
#[derive(Clone, Debug)]
pub struct Pages {
    used: Intervals<u32>,
    written: Intervals<()>,
    limit_bytes: u64,
}

impl Pages {
    /// Whether the page at a physical address belongs to an address space or to the machine.
    pub fn maps(&self, page: u64) -> bool {
        self.used.get(page).is_some()
            || layout::MACHINE.contains(page)
            || layout::SIGNAL_PAGE.contains(page)
    }

    /// Whether the page's contents are still of use; those of a released page are not.
    pub fn holds(&self, page: u64) -> bool {
        self.maps(page) || self.written.get(page).is_none()
    }

    /// The largest number of pages that may hold something at a time: the server's memory, the page
    /// tables for the last mapping that fits (one for 512 pages, and three of the higher levels),
    /// and the machine's own pages.
    pub fn limit(&self) -> u64 {
        let pages = self.limit_bytes / PAGE_BYTES;
        let machine = (layout::MACHINE.length + layout::SIGNAL_PAGE.length) / PAGE_BYTES;
        pages + pages / 512 + 3 + machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_frame_of_its_address_unless_another_has_it() {
        let mut frames = Frames::new(1 << 20);
        assert_eq!(frames.take(0x10_000, 0x2000), Some(0x10_000));
        assert_eq!(frames.take(0x11_000, 0x2000), Some(layout::FRAMES.start));
        frames.share(0x10_000, 0x11_000);
        assert!(frames.is_shared(0x10_000) && !frames.is_shared(0x11_000));
        frames.release(0x10_000, 0x12_000);
        // One of the two pages is still shared.
        assert_eq!(frames.take(0x11_000, 0x1000), Some(0x11_000));
        let next = layout::FRAMES.start + 0x2000;
        assert_eq!(frames.take(0x10_000, 0x1000), Some(next));
        frames.release(0x10_000, 0x11_000);
        assert_eq!(frames.take(0x10_000, 0x1000), Some(0x10_000));
    }

    #[test]
    fn what_was_written_once_has_to_be_cleared() {
        let mut frames = Frames::new(1 << 20);
        assert_eq!(frames.begin_to_write(0x10_000, 0x12_000), []);
        let dirty = frames.begin_to_write(0x11_000, 0x13_000);
        assert_eq!(dirty, [(0x11_000, 0x12_000)]);
        let (table, is_dirty) = frames.take_table().unwrap();
        assert_eq!((table, is_dirty), (layout::FRAMES.start, false));
        frames.release_table(table);
        assert_eq!(frames.take_table(), Some((table, true)));
    }

    #[test]
    fn pages_are_of_use_while_they_are_used_or_if_they_never_were() {
        let mut frames = Frames::new(64 << 20);
        frames.take(0x4000_0000, 0x2000);
        frames.begin_to_write(0x4000_0000, 0x4000_2000);
        frames.release(0x4000_0000, 0x4000_1000);
        let pages = frames.pages();
        let of = |page| (pages.maps(page), pages.holds(page));
        assert_eq!(of(0x4000_0000), (false, false), "used before");
        assert_eq!(of(0x4000_1000), (true, true), "used");
        assert_eq!(of(0x4000_2000), (false, true), "never used");
        for used in [layout::STUB, layout::SAVE_AREAS, layout::SIGNAL_PAGE.start] {
            assert_eq!(of(used), (true, true), "{used:#x}");
        }
        // 64 MiB and a table for each 2 MiB of them and three more; the page of the code, 512 save
        // areas of 1024 bytes, and the page that calls handlers.
        assert_eq!(pages.limit(), 64 * 256 + 32 + 3 + 1 + 128 + 1);
    }
}
