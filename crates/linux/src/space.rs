//! The address space of a process: its mappings, and the page tables that tell the harts of them.
//!
//! What is mapped has frames from the time of the call on. After `fork` both processes have the
//! same frames, and neither may write to them: who does first gets a copy of the page. What that
//! changes in memory (cleared and copied pages, page-table entries) is kept as [jobs](Space::jobs)
//! for the agent, which performs them through the fabric.

use crate::errno::Errno;
use crate::frames::SharedFrames;
use crate::intervals::Intervals;
use crate::layout::{self, PAGE_BYTES, page_up};
use crate::user::Write;
use riscv::paging::{Access, Entry, table_index};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An address space that threads share.
pub(crate) type SharedSpace = Rc<RefCell<Space>>;

/// What may be done with a page: `PROT_READ` and so on.
pub(crate) const PROT_READ: u64 = 1;
pub(crate) const PROT_WRITE: u64 = 2;
pub(crate) const PROT_EXEC: u64 = 4;
const PROT_ALL: u64 = PROT_READ | PROT_WRITE | PROT_EXEC;

/// What addresses are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Memory(Memory),
    /// Mapped with `PROT_NONE`: only addresses.
    Reserved,
}

/// Pages that have frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// Added to a virtual address, wrapping, it gives the physical one.
    offset: u64,
    /// `PROT_READ` and so on.
    protection: u64,
    /// Children have the same memory, and not a copy.
    shared: bool,
    /// The frame may be another process's, too: it is copied before it is written.
    copied_on_write: bool,
}

impl Memory {
    /// Whether an access is allowed. On RISC-V a page that can be written can be read.
    fn allows(&self, access: Access) -> bool {
        let needed = match access {
            Access::Load => PROT_READ | PROT_WRITE,
            Access::Store => PROT_WRITE,
            Access::Fetch => PROT_EXEC,
        };
        self.protection & needed != 0
    }

    /// The page-table entry of the page at `address`. Nobody looks at what harts have accessed.
    fn entry(&self, address: u64) -> u64 {
        let mut bits = 0;
        if self.allows(Access::Load) {
            bits |= Entry::READ;
        }
        if self.allows(Access::Store) && !self.copied_on_write {
            bits |= Entry::WRITE | Entry::DIRTY;
        }
        if self.allows(Access::Fetch) {
            bits |= Entry::EXECUTE;
        }
        if bits == 0 {
            return 0;
        }
        bits |= Entry::VALID | Entry::USER | Entry::ACCESSED;
        Entry::new(address.wrapping_add(self.offset), bits).0
    }
}

/// The loss that is yet to be counted.
const NOT_YET: u64 = u64::MAX;

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

/// Why a hart could not access a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Nothing is mapped there.
    Unmapped,
    /// What is mapped does not allow it.
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
    /// The others, by their level and the address that they begin with, divided by what they cover.
    tables: BTreeMap<(u32, u64), u64>,
    /// Pages whose entries are to be written.
    changed: Intervals<()>,
    /// What is to be cleared or copied before that.
    contents: Vec<Write>,
    /// Frames that harts may still have in their TLBs: from before which loss.
    left: Vec<(u64, u64, u64)>,
    /// Another number after each loss of a page or of a right to one: what harts know from before
    /// it may be wrong.
    loss: u64,
    /// A page or a right to one is lost as soon as the page tables say so.
    loses: bool,
    promised_bytes: u64,
}

/// Whether the page that calls handlers is among these. It is every process's, and stays as it is.
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
    /// A space with the first stack in it, and the page that calls handlers.
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

    /// The same space for a child: what is not shared is copied when one of the two writes to it.
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

    /// What `satp` has while a hart runs a thread in this space: Sv39.
    pub fn satp(&self) -> u64 {
        8 << 60 | u64::from(self.number) << 44 | (self.root / PAGE_BYTES)
    }

    /// The number that `satp` has.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// See [`Space`].
    pub fn loss(&self) -> u64 {
        self.loss
    }

    /// Memory that is mapped and may be accessed, in bytes, the first stack included.
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

    /// What the page at an address is.
    fn memory_at(&self, address: u64) -> Option<Memory> {
        match self.uses.get(address) {
            Some(Use::Memory(memory)) => Some(memory),
            _ => None,
        }
    }

    /// Gives `start..end` memory that is zero. What of it has memory of its own keeps that.
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

    /// Changes what pages with frames are.
    fn set(&mut self, start: u64, end: u64, memory: Memory) {
        self.uses.insert(start, end, Use::Memory(memory));
        self.changed.insert(start, end, ());
        // Rights may have been lost.
        self.loses = true;
    }

    /// Harts may know less than there is: they are to look again.
    pub fn is_outdated(&mut self) {
        self.loses = true;
    }

    /// Whether harts will have to forget translations.
    pub fn loses(&self) -> bool {
        self.loses
    }

    /// The page tables say what this says. From now on harts that have looked at them before may
    /// be wrong.
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

    /// All harts know of a loss: none has the frames any more that were left before it.
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

    /// Maps `length` bytes: where.
    pub fn map(
        &mut self,
        place: Place,
        length: u64,
        protection: u64,
        shared: bool,
    ) -> Result<u64, Errno> {
        let protection = protection & PROT_ALL;
        let (start, end) = self.place(place, length, protection != 0)?;
        if protection == 0 {
            self.leave(start, end);
            self.uses.insert(start, end, Use::Reserved);
        } else {
            self.take((start, end), protection, shared)?;
        }
        Ok(start)
    }

    /// Maps a part of a program, the rest of its first and last page included, and puts the heap
    /// behind it. Two parts may have a page in common, which then allows what either does.
    pub fn map_program(&mut self, start: u64, end: u64, protection: u64) -> Result<(), Errno> {
        let (start, end) = (start & !(PAGE_BYTES - 1), page_up(end));
        let mut page = start;
        while page < end {
            let known = self.memory_at(page);
            let run = (page..end)
                .step_by(PAGE_BYTES as usize)
                .find(|&at| self.memory_at(at).is_some() != known.is_some())
                .unwrap_or(end);
            match known {
                None => {
                    self.check_limit(page, run)?;
                    self.take((page, run), protection, false)?;
                    page = run;
                }
                Some(memory) => {
                    let protection = memory.protection | protection;
                    let memory = Memory {
                        protection,
                        ..memory
                    };
                    self.set(page, page + PAGE_BYTES, memory);
                    page += PAGE_BYTES;
                }
            }
        }
        if end > self.heap_start {
            (self.heap_start, self.heap_end) = (end, end);
        }
        Ok(())
    }

    /// Unmaps whatever is in `length` bytes at `start`.
    pub fn unmap(&mut self, start: u64, length: u64) -> Result<(), Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::INVAL)?;
        if length == 0 || !start.is_multiple_of(PAGE_BYTES) || has_signal_page(start, end) {
            return Err(Errno::INVAL);
        }
        self.leave(start, end);
        Ok(())
    }

    /// Changes what may be done with mappings.
    pub fn protect(&mut self, start: u64, length: u64, protection: u64) -> Result<(), Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::NOMEM)?;
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        if has_signal_page(start, end) {
            return Err(Errno::ACCES);
        }
        let protection = protection & PROT_ALL;
        let parts = self.uses.within(start, end);
        let known: u64 = parts.iter().map(|(from, to, _)| to - from).sum();
        if known != end - start {
            return Err(Errno::NOMEM);
        }
        if protection != 0 {
            self.check_limit(start, end)?;
        }
        for (from, to, one) in parts {
            match one {
                Use::Memory(memory) if memory.protection != protection => {
                    let memory = Memory {
                        protection,
                        ..memory
                    };
                    self.set(from, to, memory);
                }
                Use::Reserved if protection != 0 => {
                    self.uses.remove(from, to);
                    self.take_frames(from, to, protection, false)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `madvise(MADV_DONTNEED)`: `length` bytes at `start` are zero again.
    pub fn discard(&mut self, start: u64, length: u64) -> Result<(), Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        for (from, to, one) in self.uses.within(start, end) {
            if let Use::Memory(memory) = one
                && !memory.shared
            {
                self.take((from, to), memory.protection, false)?;
            }
        }
        Ok(())
    }

    /// Sets the end of the heap if that is possible: its end.
    pub fn set_heap_end(&mut self, wanted: u64) -> u64 {
        let (old, new) = (page_up(self.heap_end), page_up(wanted));
        if wanted < self.heap_start || new > layout::MAPPINGS_START {
            return self.heap_end;
        }
        if new > old {
            let fits = self.is_free(old, new) && self.check_limit(old, new).is_ok();
            if !fits
                || self
                    .take((old, new), PROT_READ | PROT_WRITE, false)
                    .is_err()
            {
                return self.heap_end;
            }
        } else {
            self.leave(new, old);
        }
        // Linux clears whole pages only, as they come.
        self.heap_end = wanted;
        wanted
    }

    /// Changes the size of a mapping, which moves if it has to and may: where it is. Its frames
    /// stay.
    pub fn remap(
        &mut self,
        start: u64,
        old_length: u64,
        new_length: u64,
        may_move: bool,
    ) -> Result<u64, Errno> {
        let (old, new) = (page_up(old_length), page_up(new_length));
        if !start.is_multiple_of(PAGE_BYTES) || new_length == 0 || old_length == 0 {
            return Err(Errno::INVAL);
        }
        let end = start.checked_add(old).ok_or(Errno::INVAL)?;
        if has_signal_page(start, end) {
            return Err(Errno::INVAL);
        }
        let known = self.uses.within(start, end);
        if known.iter().map(|(from, to, _)| to - from).sum::<u64>() != old {
            return Err(Errno::FAULT);
        }
        if new <= old {
            self.leave(start + new, end);
            return Ok(start);
        }
        let (protection, shared) = match known.last() {
            Some((_, _, Use::Memory(memory))) => (memory.protection, memory.shared),
            _ => (0, false),
        };
        let new_end = start.checked_add(new).ok_or(Errno::NOMEM)?;
        if new_end <= layout::USER_END && self.is_free(end, new_end) {
            self.map(Place::AtFree(end), new - old, protection, shared)?;
            return Ok(start);
        }
        if !may_move {
            return Err(Errno::NOMEM);
        }
        let (to, to_end) = self.place(Place::Near(0), new, false)?;
        self.map(
            Place::AtFree(to + old),
            to_end - to - old,
            protection,
            shared,
        )?;
        for (from, end, one) in known {
            let at = from - start + to;
            self.uses.remove(from, end);
            self.changed.insert(from, end, ());
            let mut one = one;
            if let Use::Memory(memory) = &mut one {
                memory.offset = memory.offset.wrapping_add(from.wrapping_sub(at));
                self.changed.insert(at, at + (end - from), ());
            }
            self.uses.insert(at, at + (end - from), one);
        }
        self.loses = true;
        Ok(to)
    }

    /// Where a byte is in physical memory, if children have the same memory there.
    pub fn shared_word(&self, address: u64) -> Option<u64> {
        let memory = self.memory_at(address).filter(|memory| memory.shared)?;
        Some(address.wrapping_add(memory.offset))
    }

    /// Whether a byte may be accessed in this way.
    pub fn allows(&self, address: u64, access: Access) -> bool {
        self.memory_at(address)
            .is_some_and(|memory| memory.allows(access))
    }

    /// Where a byte is in physical memory, for a call that reads or writes it. A page that is
    /// copied when it is written has been copied afterwards.
    pub fn reach(&mut self, address: u64, access: Access) -> Result<u64, Errno> {
        self.access(address, access).map_err(|_| Errno::FAULT)
    }

    /// The page of `address` is accessed, by a hart that has found no page to do that, or by a
    /// call: where it is in physical memory.
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

    /// Gives a page a frame that no other process has.
    fn own(&mut self, page: u64, memory: Memory) -> Result<(), Denial> {
        let old = page.wrapping_add(memory.offset);
        let mut memory = Memory {
            copied_on_write: false,
            ..memory
        };
        let mut frames = self.frames.borrow_mut();
        if frames.is_shared(old) {
            // There is one, since as many have been promised as there are pages.
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

    /// Where the parts of `length` bytes at `address` are in physical memory, whatever may be done
    /// with them; nothing of what has no memory. For what is put there before anybody runs.
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

    /// What has to be done in memory so that this space is what it says: first pages are cleared
    /// and copied, and then the entries of page tables written.
    pub fn jobs(&mut self) -> Vec<Write> {
        let changed = std::mem::replace(&mut self.changed, Intervals::new());
        let mut entries = Vec::new();
        for (from, to, ()) in changed.within(0, u64::MAX) {
            let mut at = from;
            while at < to {
                let (_, covered) = table_index(at, 1);
                let end = to.min((at >> covered).wrapping_add(1) << covered);
                self.entries(at, end, &mut entries);
                at = end;
            }
        }
        let mut jobs = std::mem::take(&mut self.contents);
        if !jobs.is_empty() && !entries.is_empty() {
            jobs.push(Write::barrier());
        }
        jobs.extend(entries);
        if !jobs.is_empty() {
            jobs.push(Write::barrier());
        }
        jobs
    }

    /// Writes the entries of `start..end`, which one table covers.
    fn entries(&mut self, start: u64, end: u64, writes: &mut Vec<Write>) {
        let table = self.tables.get(&(0, start >> 21)).copied();
        let has_pages = self
            .uses
            .within(start, end)
            .iter()
            .any(|(_, _, one)| *one != Use::Reserved);
        if table.is_none() && !has_pages {
            return;
        }
        let Some(table) = self.table(0, start, writes) else {
            return;
        };
        let mut bytes = Vec::with_capacity(((end - start) / PAGE_BYTES * 8) as usize);
        for page in (start..end).step_by(PAGE_BYTES as usize) {
            let entry = self.memory_at(page).map_or(0, |memory| memory.entry(page));
            bytes.extend_from_slice(&entry.to_le_bytes());
        }
        let (index, _) = table_index(start, 0);
        writes.push(Write::bytes(table + 8 * index as u64, bytes));
    }

    /// The table of a level for `address`, which is made if there is none.
    fn table(&mut self, level: u32, address: u64, writes: &mut Vec<Write>) -> Option<u64> {
        let (index, covered) = table_index(address, level + 1);
        if level == 2 {
            return Some(self.root);
        }
        let key = (level, address >> covered);
        if let Some(&table) = self.tables.get(&key) {
            return Some(table);
        }
        let above = self.table(level + 1, address, writes)?;
        let (table, is_dirty) = self.frames.borrow_mut().take_table()?;
        if is_dirty {
            self.contents.push(Write::zeros(table, PAGE_BYTES));
        }
        self.tables.insert(key, table);
        let entry = Entry::new(table, Entry::VALID).0.to_le_bytes().to_vec();
        writes.push(Write::bytes(above + 8 * index as u64, entry));
        Some(table)
    }
}

#[cfg(test)]
mod tests {
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

    /// What jobs have made of a memory that is zero.
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

        /// What a hart finds at a virtual address.
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
        // The child writes: it has a copy.
        let copy = child.access(0x10_000, Access::Store).unwrap();
        assert!(layout::FRAMES.contains(copy));
        memory.perform(child.jobs());
        assert_eq!(memory.reach(&child, 0x10_000, Access::Store), Some(copy));
        assert_eq!(memory.word(copy), 7);
        assert_eq!(memory.reach(&parent, 0x10_000, Access::Store), None);
        // Then the parent does, which is alone with the page by now.
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
        // While harts may know of the frames, nobody else gets them.
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
        // Harts that have forgotten everything by now may have looked at the old tables again.
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
        // What becomes inaccessible keeps what it holds.
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
}
