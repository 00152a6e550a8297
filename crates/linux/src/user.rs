//! A call's reads and writes of the program's memory.
//!
//! A handler of a call is run repeatedly: when it needs bytes that have not been read, it records
//! them and ends with [`Pause::Memory`]; the agent reads them through the fabric and runs the
//! handler again. So a handler reads everything it needs before it changes anything. Its writes are
//! kept and performed after it has ended, before the call is answered.

use crate::errno::Errno;
use crate::layout::PAGE_BYTES;
use crate::space::{SharedSpace, Space};
use fabric::{LINE_BYTES, LineAddress, LineData};
use riscv::paging::Access;
use std::collections::HashMap;

/// The reason that a handler has no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It needs the lines of [`User::take_wanted`].
    Memory,
    /// It blocks, at most until this time in nanoseconds.
    Block { deadline_ns: Option<u64> },
    /// It needs the thread's floating-point registers in the save area.
    Registers,
    /// It has failed.
    Error(Errno),
}

impl From<Errno> for Pause {
    fn from(errno: Errno) -> Pause {
        Pause::Error(errno)
    }
}

impl From<rustix::io::Errno> for Pause {
    fn from(errno: rustix::io::Errno) -> Pause {
        Pause::Error(errno.into())
    }
}

impl From<std::io::Error> for Pause {
    fn from(error: std::io::Error) -> Pause {
        Pause::Error(error.into())
    }
}

/// The result of a handler.
pub(crate) type Outcome<T = u64> = Result<T, Pause>;

/// A write; empty only if it is a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// The physical address.
    pub address: u64,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Bytes, and the number already taken.
    Bytes(Vec<u8>, usize),
    /// A number of zeros.
    Zeros(u64),
    /// Whole lines: those at `from`, with the number of bytes left.
    Copy { from: u64, left: u64 },
    /// No bytes, but all earlier writes complete before later ones begin.
    Barrier,
}

impl Write {
    pub fn bytes(address: u64, bytes: Vec<u8>) -> Write {
        Write {
            address,
            content: Content::Bytes(bytes, 0),
        }
    }

    pub fn zeros(address: u64, length: u64) -> Write {
        Write {
            address,
            content: Content::Zeros(length),
        }
    }

    /// Copies the lines of `length` bytes. All three are multiples of a line.
    pub fn copy(from: u64, to: u64, length: u64) -> Write {
        Write {
            address: to,
            content: Content::Copy { from, left: length },
        }
    }

    pub fn barrier() -> Write {
        Write {
            address: 0,
            content: Content::Barrier,
        }
    }

    /// Address and bytes, if there are any.
    pub fn into_bytes(self) -> Option<(u64, Vec<u8>)> {
        match self.content {
            Content::Bytes(bytes, _) => Some((self.address, bytes)),
            _ => None,
        }
    }

    pub fn is_barrier(&self) -> bool {
        self.content == Content::Barrier
    }

    /// The remaining bytes.
    pub fn left(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes, taken) => (bytes.len() - taken) as u64,
            Content::Zeros(left) | Content::Copy { left, .. } => *left,
            Content::Barrier => 0,
        }
    }

    /// If lines are to be copied, takes the next one: its source address.
    pub fn take_source(&mut self) -> Option<u64> {
        let Content::Copy { from, left } = &mut self.content else {
            return None;
        };
        let source = *from;
        *from += LINE_BYTES as u64;
        *left -= LINE_BYTES as u64;
        self.address += LINE_BYTES as u64;
        Some(source)
    }

    /// Takes the next bytes, at most a line and at most the remaining ones.
    pub fn take(&mut self, count: u64) -> LineData {
        let mut data = LineData::ZERO;
        match &mut self.content {
            Content::Bytes(bytes, taken) => {
                let end = *taken + count as usize;
                data.0[..count as usize].copy_from_slice(&bytes[*taken..end]);
                *taken = end;
            }
            Content::Zeros(left) => *left -= count,
            Content::Copy { .. } | Content::Barrier => {}
        }
        self.address += count;
        data
    }
}

/// Longest path, including its terminator.
const PATH_BYTES: u64 = 4096;
/// Longest argument of a program: Linux's `MAX_ARG_STRLEN`.
const ARGUMENT_BYTES: u64 = 32 * PAGE_BYTES;

/// One call's view of memory.
#[derive(Debug, Default)]
pub(crate) struct User {
    /// The address space; `None`: there is none.
    space: Option<SharedSpace>,
    /// Lines of physical memory.
    lines: HashMap<u64, LineData>,
    wanted: Vec<u64>,
    writes: Vec<Write>,
}

/// The part of `length` bytes at `address` that is in one page.
fn in_page(address: u64, length: u64) -> u64 {
    length.min(PAGE_BYTES - address % PAGE_BYTES)
}

impl User {
    /// The memory of a process.
    pub fn of(space: SharedSpace) -> User {
        User {
            space: Some(space),
            ..User::default()
        }
    }

    /// Its address space.
    pub fn space(&self) -> Option<&SharedSpace> {
        self.space.as_ref()
    }

    /// The physical ranges of `length` bytes of the program, page by page.
    fn reach(&self, address: u64, length: u64, access: Access) -> Result<Vec<(u64, u64)>, Errno> {
        // Nothing is copied for a call that fails.
        self.check(address, length, access)?;
        let mut parts = Vec::new();
        let (mut at, mut left) = (address, length);
        while left > 0 {
            let space = self.space.as_ref().ok_or(Errno::FAULT)?;
            let now = in_page(at, left);
            parts.push((space.borrow_mut().reach(at, access)?, now));
            left -= now;
            at = at.wrapping_add(now);
        }
        Ok(parts)
    }

    /// Whether a call may make this kind of access to `length` bytes at `address`.
    pub fn check(&self, address: u64, length: u64, access: Access) -> Result<(), Errno> {
        let (mut at, mut left) = (address, length);
        while left > 0 {
            let space = self.space.as_ref().ok_or(Errno::FAULT)?.borrow();
            if !space.allows(at, access) {
                return Err(Errno::FAULT);
            }
            let now = in_page(at, left);
            left -= now;
            at = at.wrapping_add(now);
        }
        Ok(())
    }

    /// Whether a call may write `length` bytes at `address`.
    pub fn check_write(&self, address: u64, length: u64) -> Result<(), Errno> {
        self.check(address, length, Access::Store)
    }

    /// Discards everything.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.wanted.clear();
        self.writes.clear();
    }

    /// Accepts a line that has been read.
    pub fn provide(&mut self, line: LineAddress, data: LineData) {
        self.lines.insert(line.0, data);
    }

    /// Addresses of the lines to read.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The pending writes, in order.
    pub fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// Discards the pending writes.
    pub fn forget_writes(&mut self) {
        self.writes.clear();
    }

    /// Whether all of these bytes have been read; if not, requests them.
    fn has(&mut self, address: u64, length: u64) -> bool {
        if length == 0 {
            return true;
        }
        let (first, last) = (
            LineAddress::of(address).0,
            LineAddress::of(address + length - 1).0,
        );
        let before = self.wanted.len();
        let missing = (first..=last).filter(|line| !self.lines.contains_key(line));
        self.wanted
            .extend(missing.map(|line| LineAddress(line).base()));
        self.wanted.len() == before
    }

    fn copy(&self, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length as usize);
        let (mut at, end) = (address, address + length);
        while at < end {
            let offset = (at % LINE_BYTES as u64) as usize;
            let now = (LINE_BYTES - offset).min((end - at) as usize);
            let line = self.lines.get(&LineAddress::of(at).0);
            bytes.extend_from_slice(&line.unwrap_or(&LineData::ZERO).0[offset..offset + now]);
            at += now as u64;
        }
        bytes
    }

    /// Bytes of the program's memory.
    pub fn bytes(&mut self, address: u64, length: u64) -> Outcome<Vec<u8>> {
        let parts = self.reach(address, length, Access::Load)?;
        let mut has_all = true;
        for &(at, length) in &parts {
            has_all &= self.has(at, length);
        }
        if !has_all {
            return Err(Pause::Memory);
        }
        let copies = parts.into_iter().map(|(at, length)| self.copy(at, length));
        Ok(copies.collect::<Vec<_>>().concat())
    }

    /// Two bytes of the program's code.
    pub fn code(&mut self, address: u64) -> Outcome<Vec<u8>> {
        let parts = self.reach(address, 2, Access::Fetch)?;
        match parts.first() {
            Some(&(at, 2)) => self.saved(at, 2),
            _ => Err(Errno::FAULT.into()),
        }
    }

    /// Bytes of a save area, which belongs to the machine and not to the program.
    pub fn saved(&mut self, address: u64, length: u64) -> Outcome<Vec<u8>> {
        if self.has(address, length) {
            Ok(self.copy(address, length))
        } else {
            Err(Pause::Memory)
        }
    }

    /// `N` words of 8 bytes.
    pub fn words<const N: usize>(&mut self, address: u64) -> Outcome<[u64; N]> {
        let bytes = self.bytes(address, 8 * N as u64)?;
        let mut words = [0; N];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        Ok(words)
    }

    /// A word of 4 bytes.
    pub fn u32(&mut self, address: u64) -> Outcome<u32> {
        let bytes = self.bytes(address, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// A zero-terminated path.
    pub fn string(&mut self, address: u64) -> Outcome<Vec<u8>> {
        self.text(address, PATH_BYTES)?
            .ok_or(Errno::NAMETOOLONG.into())
    }

    /// A zero-terminated argument of a program.
    pub fn long_string(&mut self, address: u64) -> Outcome<Vec<u8>> {
        self.text(address, ARGUMENT_BYTES)?
            .ok_or(Errno::TOOBIG.into())
    }

    fn text(&mut self, address: u64, most: u64) -> Outcome<Option<Vec<u8>>> {
        let mut found = Vec::new();
        while (found.len() as u64) < most {
            let at = address.wrapping_add(found.len() as u64);
            let in_line = LINE_BYTES as u64 - at % LINE_BYTES as u64;
            let bytes = self.bytes(at, in_line)?;
            if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
                found.extend_from_slice(&bytes[..end]);
                return Ok(Some(found));
            }
            found.extend_from_slice(&bytes);
        }
        Ok(None)
    }

    /// Buffers of `readv` and its kin: address and length of each.
    pub fn vectors(&mut self, address: u64, count: u64) -> Outcome<Vec<(u64, u64)>> {
        if count > 1024 {
            return Err(Errno::INVAL.into());
        }
        let bytes = self.bytes(address, 16 * count)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let vectors: Vec<(u64, u64)> = bytes
            .chunks_exact(16)
            .map(|pair| (word(&pair[..8]), word(&pair[8..])))
            .collect();
        Ok(vectors)
    }

    /// The concatenated contents of buffers, up to `most` bytes.
    pub fn gather(&mut self, buffers: &[(u64, u64)], most: u64) -> Outcome<Vec<u8>> {
        let (mut all, mut found, mut left) = (true, Vec::new(), most);
        for &(address, length) in buffers {
            let length = length.min(left);
            left -= length;
            // The other buffers are requested at the same time.
            match self.bytes(address, length) {
                Ok(bytes) => found.extend(bytes),
                Err(Pause::Memory) => all = false,
                Err(other) => return Err(other),
            }
        }
        if all { Ok(found) } else { Err(Pause::Memory) }
    }

    /// Writes `bytes` into buffers, one after the other, as far as the buffers reach.
    pub fn scatter(&mut self, vectors: &[(u64, u64)], bytes: &[u8]) -> Outcome<()> {
        let mut rest = bytes;
        for &(address, length) in vectors {
            let (now, later) = rest.split_at(rest.len().min(length as usize));
            self.write(address, now.to_vec())?;
            rest = later;
        }
        Ok(())
    }

    /// Writes bytes into the program's memory.
    pub fn write(&mut self, address: u64, bytes: Vec<u8>) -> Outcome<()> {
        let mut rest = bytes;
        for (at, length) in self.reach(address, rest.len() as u64, Access::Store)? {
            let later = rest.split_off(length as usize);
            self.writes.push(Write::bytes(at, rest));
            rest = later;
        }
        Ok(())
    }

    /// Writes to physical memory.
    pub fn write_physical(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// Writes initial contents of a mapping, ignoring its permissions.
    pub fn fill(&mut self, address: u64, bytes: &[u8]) {
        let Some(space) = &self.space else { return };
        self.writes
            .extend(contents(&space.borrow(), address, bytes));
    }

    /// Writes words of 8 bytes.
    pub fn write_words(&mut self, address: u64, words: &[u64]) -> Outcome<()> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(address, bytes)
    }

    /// Writes a word of 4 bytes.
    pub fn write_u32(&mut self, address: u64, value: u32) -> Outcome<()> {
        self.write(address, value.to_le_bytes().to_vec())
    }

    /// Writes into a save area.
    pub fn write_saved(&mut self, address: u64, bytes: Vec<u8>) {
        self.writes.push(Write::bytes(address, bytes));
    }
}

/// Writes `bytes` at a virtual address of a space.
pub(crate) fn contents(space: &Space, address: u64, bytes: &[u8]) -> Vec<Write> {
    let mut rest = bytes;
    let mut writes = Vec::new();
    for (at, length) in space.parts(address, bytes.len() as u64) {
        let (now, later) = rest.split_at(length as usize);
        writes.push(Write::bytes(at, now.to_vec()));
        rest = later;
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Frames;
    use crate::layout;
    use crate::space::{PROT_READ, PROT_WRITE};
    use std::cell::RefCell;
    use std::rc::Rc;

    fn line(text: &[u8]) -> LineData {
        let mut data = LineData::ZERO;
        data.0[..text.len()].copy_from_slice(text);
        data
    }

    /// The memory of a process with two pages at 0x1_0000, the second of which is read-only.
    fn user() -> User {
        let frames = Rc::new(RefCell::new(Frames::new(64 << 20)));
        let mut space = Space::new(&frames).unwrap();
        space
            .map_program(0x1_0000, 0x1_1000, PROT_READ | PROT_WRITE)
            .unwrap();
        space.map_program(0x1_1000, 0x1_2000, PROT_READ).unwrap();
        User::of(Rc::new(RefCell::new(space)))
    }

    #[test]
    fn a_string_over_two_lines_is_asked_for_line_by_line() {
        let mut user = user();
        let address = 0x1_0040 - 3;
        assert_eq!(user.string(address), Err(Pause::Memory));
        assert_eq!(user.take_wanted(), [0x1_0000]);
        let mut first = LineData::ZERO;
        first.0[61..].copy_from_slice(b"abc");
        user.provide(LineAddress::of(0x1_0000), first);
        assert_eq!(user.string(address), Err(Pause::Memory));
        assert_eq!(user.take_wanted(), [0x1_0040]);
        user.provide(LineAddress::of(0x1_0040), line(b"de\0"));
        assert_eq!(user.string(address), Ok(b"abcde".to_vec()));
    }

    #[test]
    fn nobody_reads_or_writes_what_is_not_the_programs() {
        let mut user = user();
        let fault = Err(Pause::Error(Errno::FAULT));
        assert_eq!(user.bytes(0, 1).map(drop), fault);
        assert_eq!(user.bytes(u64::MAX, 2).map(drop), fault);
        assert_eq!(user.write(layout::STUB, vec![1]), fault);
        assert_eq!(user.write(layout::SIGNAL_PAGE.start, vec![1]), fault);
        assert_eq!(user.bytes(0x1_1fff, 1), Err(Pause::Memory));
        assert_eq!(user.bytes(0x1_1fff, 2).map(drop), fault);
        assert_eq!(user.write(0x1_0fff, vec![1]), Ok(()));
        assert_eq!(user.write(0x1_0fff, vec![1, 2]), fault);
        assert_eq!(user.write(0, vec![]), Ok(()));
        assert_eq!(User::default().bytes(0x1_0000, 1).map(drop), fault);
    }

    #[test]
    fn what_several_buffers_hold_is_asked_for_at_once() {
        let mut user = user();
        let buffers = [(0x1_0000, 2), (0x1_0300, 0), (0x1_0401, 9)];
        assert_eq!(user.gather(&buffers, 5), Err(Pause::Memory));
        assert_eq!(user.take_wanted(), [0x1_0000, 0x1_0400]);
        user.provide(LineAddress::of(0x1_0000), line(b"ab"));
        user.provide(LineAddress::of(0x1_0400), line(b"-cdefg"));
        assert_eq!(user.gather(&buffers, 5), Ok(b"abcde".to_vec()));
    }

    #[test]
    fn buffers_are_filled_one_after_the_other() {
        let mut user = user();
        let buffers = [(0x1_0000, 2), (0x1_0300, 0), (0x1_0400, 10)];
        user.scatter(&buffers, b"abcde").unwrap();
        assert_eq!(
            user.take_writes(),
            [
                Write::bytes(0x1_0000, b"ab".to_vec()),
                Write::bytes(0x1_0400, b"cde".to_vec())
            ]
        );
    }

    #[test]
    fn a_call_that_writes_to_a_page_of_two_processes_has_it_copied() {
        let mut user = user();
        let parent = user.space().unwrap().clone();
        let child = parent.borrow_mut().fork().unwrap();
        parent.borrow_mut().jobs();
        user.write(0x1_0ffe, vec![1, 2]).unwrap();
        let frame = parent.borrow_mut().access(0x1_0ffe, Access::Store);
        let frame = frame.unwrap();
        assert!(layout::FRAMES.contains(frame));
        assert_eq!(user.take_writes(), [Write::bytes(frame, vec![1, 2])]);
        let jobs = parent.borrow_mut().jobs();
        assert_eq!(jobs[0], Write::copy(0x1_0000, frame & !0xfff, 4096));
        drop(child);
    }
}
