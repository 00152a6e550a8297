//! Changes of mappings: `mmap` and its kin, `brk`, and the segments of a program.

use super::{Memory, PROT_ALL, PROT_READ, PROT_WRITE, Place, Space, Use, has_signal_page};
use crate::errno::Errno;
use crate::layout::{self, PAGE_BYTES, page_up};

impl Space {
    /// The range where `length` bytes can be mapped.
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

    /// Maps `length` bytes; returns the range's start.
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

    /// Maps a segment of a program, including the rest of its first and last page, and puts the
    /// heap after it. Two segments may share a page, which then has the permissions of both.
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

    /// Unmaps `length` bytes at `start`.
    pub fn unmap(&mut self, start: u64, length: u64) -> Result<(), Errno> {
        let end = start.checked_add(page_up(length)).ok_or(Errno::INVAL)?;
        if length == 0 || !start.is_multiple_of(PAGE_BYTES) || has_signal_page(start, end) {
            return Err(Errno::INVAL);
        }
        self.leave(start, end);
        Ok(())
    }

    /// Changes the permissions of mappings.
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

    /// `madvise(MADV_DONTNEED)`: zeroes `length` bytes at `start`.
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

    /// Sets the end of the heap if possible; returns the resulting end.
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
        // Linux clears only whole pages, when they are touched.
        self.heap_end = wanted;
        wanted
    }

    /// Changes the size of a mapping, which moves if it must and may; returns its address. It keeps
    /// its frames.
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
}
