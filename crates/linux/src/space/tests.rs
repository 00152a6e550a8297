use super::*;
use crate::frames::Frames;
use riscv::paging::{Accessor, Mode, translate};
use std::collections::HashMap;

const MIB: u64 = 1 << 20;
const PAGE: u64 = PAGE_BYTES;
const BOTH: u64 = PROT_READ | PROT_WRITE;

fn frames() -> SharedFrames {
    Rc::new(RefCell::new(Frames::new(64 * MIB)))
}

fn space() -> Space {
    let mut space = space_in(&frames());
    space.jobs();
    space
}

/// A space with a program of 17 pages.
fn space_in(frames: &SharedFrames) -> Space {
    let mut space = Space::new(frames).unwrap();
    space.map_program(0x10_000, 0x20_123, BOTH).unwrap();
    space
}

/// The contents of an initially zeroed memory after jobs.
#[derive(Default)]
struct Memory(HashMap<u64, u64>);

impl Memory {
    fn perform(&mut self, jobs: Vec<Write>) {
        for mut job in jobs {
            while job.left() > 0 {
                let at = job.address;
                if let Some(source) = job.take_source() {
                    for word in (0..64).step_by(8) {
                        let value = self.word(source + word);
                        self.0.insert(at + word, value);
                    }
                } else {
                    let bytes = job.take(8).0;
                    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    self.0.insert(at, word);
                }
            }
        }
    }

    fn word(&self, at: u64) -> u64 {
        self.0.get(&at).copied().unwrap_or(0)
    }

    /// The physical address that a hart finds for a virtual address.
    fn reach(&self, space: &Space, address: u64, access: Access) -> Option<u64> {
        let user = Accessor::User {
            executable_is_readable: false,
        };
        let root = (space.satp() & ((1 << 44) - 1)) * PAGE;
        let read = |at| Some(self.word(at));
        let page = translate(Mode::Sv39, root, address, access, user, read).ok()?;
        Some(page.physical(address))
    }
}

#[test]
fn harts_find_what_is_mapped_and_nothing_else() {
    let mut space = space_in(&frames());
    let mut memory = Memory::default();
    let at = space
        .map(Place::Near(0), 3 * PAGE, PROT_READ, false)
        .unwrap();
    space.protect(at + PAGE, PAGE, BOTH).unwrap();
    space.unmap(at + 2 * PAGE, PAGE).unwrap();
    memory.perform(space.jobs());
    for (address, reads, writes, runs) in [
        (0x10_008, true, true, false),
        (0x20_ff8, true, true, false),
        (0x21_000, false, false, false),
        (0, false, false, false),
        (at, true, false, false),
        (at + PAGE, true, true, false),
        (at + 2 * PAGE, false, false, false),
        (layout::STACK.end() - 8, true, true, false),
        (layout::STACK.start - 8, false, false, false),
        (layout::SIGNAL_PAGE.start, true, false, true),
        (layout::STUB, false, false, false),
    ] {
        let allowed = [Access::Load, Access::Store, Access::Fetch].map(|access| {
            let found = memory.reach(&space, address, access);
            // The first space has every page at its own address.
            assert!(found.is_none_or(|physical| physical == address));
            assert_eq!(
                found.is_some(),
                space.allows(address, access),
                "{address:#x}"
            );
            found.is_some()
        });
        assert_eq!(allowed, [reads, writes, runs], "{address:#x}");
    }
}

#[test]
fn a_child_has_the_same_memory_until_one_writes() {
    let frames = frames();
    let mut parent = space_in(&frames);
    let shared = parent.map(Place::Near(0), PAGE, BOTH, true).unwrap();
    let mut memory = Memory::default();
    memory.perform(parent.jobs());
    memory.0.insert(0x10_000, 7);
    let before = parent.loss();
    let mut child = parent.fork().unwrap();
    memory.perform(parent.jobs());
    memory.perform(child.jobs());
    assert_eq!(parent.loss(), before, "the tables may not say so yet");
    parent.has_changed();
    assert!(parent.loss() > before, "the parent's harts may still write");
    for space in [&parent, &child] {
        assert_eq!(memory.reach(space, 0x10_000, Access::Load), Some(0x10_000));
        assert_eq!(memory.reach(space, 0x10_000, Access::Store), None);
        assert_eq!(memory.reach(space, shared, Access::Store), Some(shared));
    }
    // The child writes: it gets a copy.
    let copy = child.access(0x10_000, Access::Store).unwrap();
    assert!(layout::FRAMES.contains(copy));
    memory.perform(child.jobs());
    assert_eq!(memory.reach(&child, 0x10_000, Access::Store), Some(copy));
    assert_eq!(memory.word(copy), 7);
    assert_eq!(memory.reach(&parent, 0x10_000, Access::Store), None);
    // Then the parent writes, which is the only user of the page by now.
    child.release_left(u64::MAX);
    assert_eq!(parent.access(0x10_000, Access::Store), Ok(0x10_000));
    memory.perform(parent.jobs());
    let own = memory.reach(&parent, 0x10_000, Access::Store);
    assert_eq!(own, Some(0x10_000));
}

#[test]
fn a_space_that_ends_leaves_nothing() {
    let frames = frames();
    let mut parent = space_in(&frames);
    let child = parent.fork().unwrap();
    assert_ne!(parent.number(), child.number());
    drop(child);
    drop(parent);
    assert_eq!(frames.borrow().promised_bytes, 0);
    assert_eq!(frames.borrow().free_bytes(), 64 * MIB);
    assert!(!frames.borrow().pages().maps(0x10_000));
    assert_eq!(space_in(&frames).number(), 1);
}

#[test]
fn what_processes_share_is_promised_to_each() {
    let frames = frames();
    let mut parent = space_in(&frames);
    parent.map(Place::Near(0), 30 * MIB, BOTH, false).unwrap();
    assert_eq!(parent.fork().err(), Some(Errno::NOMEM));
    assert_eq!(space_in(&frames).fork().err(), None);
}

#[test]
fn memory_that_is_used_again_is_cleared() {
    let mut space = space();
    let first = space.map(Place::Near(0), 2 * PAGE, BOTH, false).unwrap();
    assert_eq!(first, layout::MAPPINGS_START);
    assert_eq!(space.contents, [], "it never held anything");
    space.unmap(first, 2 * PAGE).unwrap();
    // While harts may hold translations to the frames, no other mapping gets them.
    let other = space.map(Place::Near(0), PAGE, BOTH, false).unwrap();
    assert_eq!(other, first);
    assert!(layout::FRAMES.contains(space.access(other, Access::Store).unwrap()));
    space.release_left(u64::MAX);
    space.unmap(other, PAGE).unwrap();
    space.release_left(u64::MAX);
    space.jobs();
    let again = space.map(Place::Near(0), 3 * PAGE, BOTH, false).unwrap();
    assert_eq!(again, first);
    assert_eq!(space.contents, [Write::zeros(first, 2 * PAGE)]);
}

#[test]
fn frames_are_free_when_all_harts_know_that_they_have_been_left() {
    let mut space = space();
    let at = space.map(Place::Near(0), 2 * PAGE, BOTH, false).unwrap();
    let is_used = |space: &Space, page| space.frames.borrow().pages().maps(page);
    space.unmap(at, PAGE).unwrap();
    // Harts that have just discarded everything may have walked the old tables again.
    space.release_left(space.loss());
    assert!(is_used(&space, at));
    space.has_changed();
    let first = space.loss();
    space.unmap(at + PAGE, PAGE).unwrap();
    space.has_changed();
    space.release_left(first - 1);
    assert!(is_used(&space, at));
    space.release_left(first);
    assert!(!is_used(&space, at) && is_used(&space, at + PAGE));
    space.release_left(space.loss());
    assert!(!is_used(&space, at + PAGE));
}

#[test]
fn the_page_that_calls_handlers_stays_as_it_is() {
    let mut space = space();
    let at = layout::SIGNAL_PAGE.start;
    let before = space.used_bytes();
    assert_eq!(space.protect(at, PAGE, BOTH), Err(Errno::ACCES));
    assert_eq!(space.unmap(at - PAGE, 3 * PAGE), Err(Errno::INVAL));
    assert_eq!(space.remap(at, PAGE, 2 * PAGE, true), Err(Errno::INVAL));
    assert_eq!(space.discard(at, PAGE), Ok(()));
    assert_eq!(space.used_bytes(), before);
    assert!(space.allows(at, Access::Fetch) && !space.allows(at, Access::Store));
    assert_eq!(space.contents, []);
}

#[test]
fn a_reservation_takes_no_memory_until_it_is_made_accessible() {
    let mut space = space();
    let before = space.used_bytes();
    let start = space.map(Place::Near(0), 1 << 34, 0, false).unwrap();
    assert_eq!(space.used_bytes(), before);
    assert_eq!(space.protect(start + PAGE, 2 * PAGE, BOTH), Ok(()));
    assert_eq!(space.used_bytes(), before + 2 * PAGE);
    assert_eq!(space.protect(start, 1 << 34, BOTH), Err(Errno::NOMEM));
    // Pages that become inaccessible keep their contents.
    assert_eq!(space.protect(start + PAGE, PAGE, 0), Ok(()));
    assert_eq!(space.used_bytes(), before + 2 * PAGE);
    assert!(!space.allows(start + PAGE, Access::Load));
    for at in [start, start + PAGE] {
        assert_eq!(space.access(at, Access::Load), Err(Denial::Forbidden));
    }
}

#[test]
fn mappings_end_where_memory_does() {
    let mut space = space();
    // 64 MiB less 8 MiB of stack, 17 pages of program and page tables: the root, two tables of
    // the second level for the program and mappings below 1 GiB apart (and one for the stack,
    // one for the page that calls handlers), and a table for each 2 MiB with something in it.
    assert_eq!(space.used_bytes(), 8 * MIB + 17 * PAGE);
    let tables = 1 + 3 + (1 + 4 + 1);
    let left = 56 * MIB - (17 + tables) * PAGE;
    let map = |space: &mut Space, length| space.map(Place::Near(0), length, BOTH, false);
    assert_eq!(map(&mut space, left + 1), Err(Errno::NOMEM));
    assert!(map(&mut space, left).is_ok());
    assert_eq!(map(&mut space, 1), Err(Errno::NOMEM));
}

#[test]
fn the_heap_grows_and_shrinks_and_is_clean() {
    let mut space = space();
    let start = space.set_heap_end(0);
    assert_eq!(start, 0x21_000);
    assert_eq!(space.set_heap_end(start + 5000), start + 5000);
    assert_eq!(space.set_heap_end(start), start);
    space.release_left(u64::MAX);
    assert_eq!(space.contents, []);
    assert_eq!(space.set_heap_end(start + 1), start + 1);
    assert_eq!(space.contents, [Write::zeros(start, PAGE)]);
    assert_eq!(space.set_heap_end(start - 1), start + 1);
}

#[test]
fn what_does_not_fit_has_no_place() {
    let space = space();
    assert_eq!(
        space.place(Place::Near(0), 64 * MIB, true),
        Err(Errno::NOMEM)
    );
    let end = layout::MAPPINGS_START + PAGE;
    assert_eq!(
        space.place(Place::Near(0), 1, true),
        Ok((layout::MAPPINGS_START, end))
    );
}

#[test]
fn fixed_places_are_kept_and_checked() {
    let mut space = space();
    let at = 0x4000_0000;
    let map = |space: &mut Space, place| space.map(place, PAGE, BOTH, false);
    assert_eq!(map(&mut space, Place::AtFree(at)), Ok(at));
    assert_eq!(map(&mut space, Place::AtFree(at)), Err(Errno::EXIST));
    assert_eq!(space.contents, []);
    assert_eq!(map(&mut space, Place::At(at)), Ok(at));
    assert_eq!(space.contents, [Write::zeros(at, PAGE)]);
    assert_eq!(map(&mut space, Place::At(at + 1)), Err(Errno::INVAL));
    assert_eq!(map(&mut space, Place::At(0)), Err(Errno::NOMEM));
    let hinted = map(&mut space, Place::Near(at));
    assert_eq!(hinted, Ok(layout::MAPPINGS_START), "the hint is taken");
}

#[test]
fn a_mapping_grows_in_place_or_moves_with_its_frames() {
    let mut space = space();
    let first = space.map(Place::Near(0), PAGE, BOTH, false).unwrap();
    assert_eq!(space.remap(first, PAGE, 2 * PAGE, false), Ok(first));
    let second = space.map(Place::Near(0), PAGE, BOTH, false).unwrap();
    assert_eq!(second, first + 2 * PAGE);
    let grow = |space: &mut Space, moves| space.remap(first, 2 * PAGE, 3 * PAGE, moves);
    assert_eq!(grow(&mut space, false), Err(Errno::NOMEM));
    let to = second + PAGE;
    assert_eq!(grow(&mut space, true), Ok(to));
    assert_eq!(space.used_bytes(), 8 * MIB + 17 * PAGE + 4 * PAGE);
    assert_eq!(space.access(to + PAGE, Access::Store), Ok(first + PAGE));
    assert_eq!(space.access(first, Access::Load), Err(Denial::Unmapped));
    let end = to + 2 * PAGE;
    assert_eq!(space.access(end, Access::Store), Ok(end));
    assert_eq!(space.contents, []);
}
