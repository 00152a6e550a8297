//! The address space of a process: its mappings, and the page tables that describe them to the
//! harts.
//!
//! Mappings have frames from the time of the call on. After `fork` both processes have the same
//! frames, and neither may write to them: the first to write gets a copy of the page. The resulting
//! changes in memory (cleared and copied pages, page-table entries) are kept as [jobs](Space::jobs)
//! for the agent, which performs them through the fabric.

mod mappings;
mod page_tables;
#[cfg(test)]
mod tests;

use crate::errno::Errno;
use crate::frames::SharedFrames;
use crate::intervals::Intervals;
use crate::layout::{self, PAGE_BYTES};
use crate::user::Write;
use riscv::paging::Access;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An address space that threads share.
pub(crate) type SharedSpace = Rc<RefCell<Space>>;

/// The permissions of a page: `PROT_READ` and so on.
pub(crate) const PROT_READ: u64 = 1;
pub(crate) const PROT_WRITE: u64 = 2;
pub(crate) const PROT_EXEC: u64 = 4;
const PROT_ALL: u64 = PROT_READ | PROT_WRITE | PROT_EXEC;

/// The use of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Memory(Memory),
    /// Mapped with `PROT_NONE`: addresses without memory.
    Reserved,
}

/// Pages that have frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// The physical address minus the virtual one, wrapping.
    offset: u64,
    /// `PROT_READ` and so on.
    protection: u64,
    /// Whether children share the memory instead of getting a copy.
    shared: bool,
    /// Whether the frame may also be another process's, and must be copied before it is written.
    copied_on_write: bool,
}

impl Memory {
    /// Whether an access is allowed. On RISC-V a writable page is readable.
    fn allows(&self, access: Access) -> bool {
        let needed = match access {
            Access::Load => PROT_READ | PROT_WRITE,
            Access::Store => PROT_WRITE,
            Access::Fetch => PROT_EXEC,
        };
        self.protection & needed != 0
    }
}

/// The number of a loss that is not yet counted.
const NOT_YET: u64 = u64::MAX;

/// The requested place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this address if that is free, otherwise anywhere; 0: anywhere.
    Near(u64),
    /// At this address, replacing other mappings.
    At(u64),
    /// At this address, if it is free.
    AtFree(u64),
}

/// The reason that a hart could not access a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The address is not mapped.
    Unmapped,
    /// The mapping does not permit the access.
    Forbidden,
}

/// The address space of a process.
#[derive(Debug)]
pub(crate) struct Space {
    /// The ASID.
    number: u16,
    frames: SharedFrames,
    uses: Intervals<Use>,
    heap_start: u64,
    heap_end: u64,
    /// The physical address of the first page table.
    root: u64,
    /// The other page tables, by their level and their first address divided by the size that they
    /// cover.
    tables: BTreeMap<(u32, u64), u64>,
    /// Pages whose page-table entries must be written.
    changed: Intervals<()>,
    /// Pages to clear or copy before that.
    contents: Vec<Write>,
    /// Unmapped frames that harts may still have in their TLBs, each with the loss that must be
    /// known before it is reused.
    left: Vec<(u64, u64, u64)>,
    /// The number of the last loss of a page or a permission; translations from before a loss may
    /// be stale.
    loss: u64,
    /// A page or a permission will be lost as soon as the page tables are written.
    loses: bool,
    promised_bytes: u64,
}

/// Whether the signal trampoline is in this range. All processes have that page, and it never
/// changes.
fn has_signal_page(start: u64, end: u64) -> bool {
    start < layout::SIGNAL_PAGE.end() && end > layout::SIGNAL_PAGE.start
}

impl Drop for Space {
    fn drop(&mut self) {
        self.release_left(u64::MAX);
        let mut frames = self.frames.borrow_mut();
        for (from, to, one) in self.uses.within(0, u64::MAX) {
            if let Use::Memory(memory) = one {
                let start = from.wrapping_add(memory.offset);
                frames.release(start, start + (to - from));
            }
        }
        for &table in self.tables.values().chain([&self.root]) {
            frames.release_table(table);
        }
        frames.promised_bytes -= self.promised_bytes;
        frames.release_number(self.number);
    }
}

impl Space {
    /// A space with the initial stack and the signal trampoline.
    pub fn new(frames: &SharedFrames) -> Result<Space, Errno> {
        let mut space = Space::without_memory(frames)?;
        let (start, end) = (layout::STACK.start, layout::STACK.end());
        space.check_limit(start, end)?;
        space.take((start, end), PROT_READ | PROT_WRITE, false)?;
        let page = Memory {
            offset: 0,
            protection: PROT_READ | PROT_EXEC,
            shared: true,
            copied_on_write: false,
        };
        let (start, end) = (layout::SIGNAL_PAGE.start, layout::SIGNAL_PAGE.end());
        space.uses.insert(start, end, Use::Memory(page));
        space.changed.insert(start, end, ());
        Ok(space)
    }

    fn without_memory(frames: &SharedFrames) -> Result<Space, Errno> {
        let mut all = frames.borrow_mut();
        let number = all.take_number().ok_or(Errno::NOMEM)?;
        let Some((root, is_dirty)) = all.take_table() else {
            all.release_number(number);
            return Err(Errno::NOMEM);
        };
        let mut contents = Vec::new();
        if is_dirty {
            contents.push(Write::zeros(root, PAGE_BYTES));
        }
        Ok(Space {
            number,
            frames: frames.clone(),
            uses: Intervals::new(),
            heap_start: layout::USER_START,
            heap_end: layout::USER_START,
            root,
            tables: BTreeMap::new(),
            changed: Intervals::new(),
            contents,
            left: Vec::new(),
            loss: all.count_loss(),
            loses: false,
            promised_bytes: 0,
        })
    }

    /// A child's address space: unshared pages are copied when either process writes to them.
    pub fn fork(&mut self) -> Result<Space, Errno> {
        if !self.frames.borrow().has_room(self.promised_bytes) {
            return Err(Errno::NOMEM);
        }
        let mut child = Space::without_memory(&self.frames)?;
        for (from, to, one) in self.uses.within(0, u64::MAX) {
            let mut one = one;
            if let Use::Memory(memory) = &mut one {
                let start = from.wrapping_add(memory.offset);
                self.frames.borrow_mut().share(start, start + (to - from));
                if !memory.shared && !memory.copied_on_write {
                    memory.copied_on_write = true;
                    if memory.allows(Access::Store) {
                        self.changed.insert(from, to, ());
                    }
                    self.uses.insert(from, to, one);
                }
                child.changed.insert(from, to, ());
            }
            child.uses.insert(from, to, one);
        }
        self.loses = true;
        (child.heap_start, child.heap_end) = (self.heap_start, self.heap_end);
        child.promise(self.promised_bytes);
        Ok(child)
    }

    /// The value of `satp` while a hart runs a thread in this space: Sv39.
    pub fn satp(&self) -> u64 {
        8 << 60 | u64::from(self.number) << 44 | (self.root / PAGE_BYTES)
    }

    /// The address-space number in `satp`.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// See [`Space`].
    pub fn loss(&self) -> u64 {
        self.loss
    }

    /// Mapped, accessible memory in bytes, including the initial stack.
    pub fn used_bytes(&self) -> u64 {
        self.promised_bytes
    }

    fn promise(&mut self, bytes: u64) {
        self.promised_bytes += bytes;
        self.frames.borrow_mut().promised_bytes += bytes;
    }

    fn check_limit(&self, start: u64, end: u64) -> Result<(), Errno> {
        let parts = self.uses.within(start, end).into_iter();
        let replaced: u64 = parts
            .filter(|(_, _, one)| *one != Use::Reserved)
            .map(|(from, to, _)| to - from)
            .sum();
        match self.frames.borrow().has_room(end - start - replaced) {
            true => Ok(()),
            false => Err(Errno::NOMEM),
        }
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        self.uses.within(start, end).is_empty()
    }

    /// The memory of the page at an address.
    fn memory_at(&self, address: u64) -> Option<Memory> {
        match self.uses.get(address) {
            Some(Use::Memory(memory)) => Some(memory),
            _ => None,
        }
    }

    /// Gives `start..end` zeroed memory. Pages that already have memory keep it.
    fn take(
        &mut self,
        (start, end): (u64, u64),
        protection: u64,
        shared: bool,
    ) -> Result<(), Errno> {
        let mut own = Intervals::new();
        for (from, to, one) in self.uses.within(start, end) {
            if let Use::Memory(memory) = one
                && !memory.shared
                && !memory.copied_on_write
            {
                own.insert(from, to, memory.offset);
            }
        }
        let kept = own.within(start, end);
        let mut at = start;
        for (from, to, offset) in kept.into_iter().chain([(end, end, 0)]) {
            if at < from {
                self.leave(at, from);
                self.take_frames(at, from, protection, shared)?;
            }
            if from < to {
                let frame = from.wrapping_add(offset);
                self.contents.push(Write::zeros(frame, to - from));
                let memory = Memory {
                    offset,
                    protection,
                    shared,
                    copied_on_write: false,
                };
                self.set(from, to, memory);
            }
            at = to;
        }
        Ok(())
    }

    fn take_frames(
        &mut self,
        start: u64,
        end: u64,
        protection: u64,
        shared: bool,
    ) -> Result<(), Errno> {
        let mut frames = self.frames.borrow_mut();
        let frame = frames.take(start, end - start).ok_or(Errno::NOMEM)?;
        for (from, to) in frames.begin_to_write(frame, frame + (end - start)) {
            self.contents.push(Write::zeros(from, to - from));
        }
        drop(frames);
        self.promise(end - start);
        let memory = Memory {
            offset: frame.wrapping_sub(start),
            protection,
            shared,
            copied_on_write: false,
        };
        self.uses.insert(start, end, Use::Memory(memory));
        self.changed.insert(start, end, ());
        Ok(())
    }

    /// Changes the attributes of pages with frames.
    fn set(&mut self, start: u64, end: u64, memory: Memory) {
        self.uses.insert(start, end, Use::Memory(memory));
        self.changed.insert(start, end, ());
        // Permissions may have been lost.
        self.loses = true;
    }

    /// Harts may hold translations with too few permissions: they must walk the page tables again.
    pub fn is_outdated(&mut self) {
        self.loses = true;
    }

    /// Whether harts will have to discard translations.
    pub fn loses(&self) -> bool {
        self.loses
    }

    /// The page tables now describe this space. From now on, translations that harts hold from
    /// before may be stale.
    pub fn has_changed(&mut self) {
        if std::mem::take(&mut self.loses) {
            self.loss = self.frames.borrow_mut().count_loss();
            for (_, _, before) in self.left.iter_mut().filter(|(_, _, one)| *one == NOT_YET) {
                *before = self.loss;
            }
        }
    }

    /// Unmaps whatever is in `start..end`.
    fn leave(&mut self, start: u64, end: u64) {
        for (from, to, one) in self.uses.within(start, end) {
            if let Use::Memory(memory) = one {
                let frame = from.wrapping_add(memory.offset);
                self.left.push((frame, frame + (to - from), NOT_YET));
                self.changed.insert(from, to, ());
                self.promised_bytes -= to - from;
                self.frames.borrow_mut().promised_bytes -= to - from;
                self.loses = true;
            }
        }
        self.uses.remove(start, end);
    }

    /// Releases the frames that were unmapped before a loss that all harts know of.
    pub fn release_left(&mut self, loss: u64) {
        let mut frames = self.frames.borrow_mut();
        self.left.retain(|&(from, to, before)| {
            let stays = before > loss;
            if !stays {
                frames.release(from, to);
            }
            stays
        });
    }

    /// The physical address of a byte, if children share the memory there.
    pub fn shared_word(&self, address: u64) -> Option<u64> {
        let memory = self.memory_at(address).filter(|memory| memory.shared)?;
        Some(address.wrapping_add(memory.offset))
    }

    /// Whether this kind of access to a byte is allowed.
    pub fn allows(&self, address: u64, access: Access) -> bool {
        self.memory_at(address)
            .is_some_and(|memory| memory.allows(access))
    }

    /// The physical address of a byte, for a call that reads or writes it. A copy-on-write page is
    /// copied if the call writes.
    pub fn reach(&mut self, address: u64, access: Access) -> Result<u64, Errno> {
        self.access(address, access).map_err(|_| Errno::FAULT)
    }

    /// Resolves a page fault of a hart, or an access of a call, at `address`: returns the physical
    /// address.
    pub fn access(&mut self, address: u64, access: Access) -> Result<u64, Denial> {
        let memory = match self.uses.get(address).ok_or(Denial::Unmapped)? {
            Use::Memory(memory) if memory.allows(access) => memory,
            _ => return Err(Denial::Forbidden),
        };
        if access == Access::Store && memory.copied_on_write {
            self.own(address & !(PAGE_BYTES - 1), memory)?;
        }
        let memory = self.memory_at(address).ok_or(Denial::Unmapped)?;
        Ok(address.wrapping_add(memory.offset))
    }

    /// Gives a page a frame of its own.
    fn own(&mut self, page: u64, memory: Memory) -> Result<(), Denial> {
        let old = page.wrapping_add(memory.offset);
        let mut memory = Memory {
            copied_on_write: false,
            ..memory
        };
        let mut frames = self.frames.borrow_mut();
        if frames.is_shared(old) {
            // A frame is available, because as many are promised as there are pages.
            let new = frames.take(page, PAGE_BYTES).ok_or(Denial::Unmapped)?;
            frames.begin_to_write(new, new + PAGE_BYTES);
            self.contents.push(Write::copy(old, new, PAGE_BYTES));
            self.left.push((old, old + PAGE_BYTES, NOT_YET));
            memory.offset = new.wrapping_sub(page);
        }
        drop(frames);
        self.set(page, page + PAGE_BYTES, memory);
        Ok(())
    }

    /// The physical ranges of `length` bytes at `address`, ignoring permissions and skipping parts
    /// without memory. For initial contents.
    pub fn parts(&self, address: u64, length: u64) -> Vec<(u64, u64)> {
        let parts = self.uses.within(address, address.saturating_add(length));
        parts
            .into_iter()
            .filter_map(|(from, to, one)| match one {
                Use::Memory(memory) => Some((from.wrapping_add(memory.offset), to - from)),
                Use::Reserved => None,
            })
            .collect()
    }
}
