//! What a call reads and writes of the program's memory.
//!
//! A handler of a call is run as often as it takes: when it needs bytes that have not been read, it
//! says which and ends with [`Pause::Memory`]; the agent reads them through the fabric and runs it
//! again. So a handler reads everything it needs before it changes anything. What it writes is kept
//! and performed after it has ended, before the call is answered.

use crate::errno::Errno;
use crate::layout;
use fabric::{LINE_BYTES, LineAddress, LineData};
use std::collections::HashMap;

/// Why a handler has no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It needs [`User::take_wanted`].
    Memory,
    /// It waits for something, but not beyond this time in nanoseconds.
    Block { deadline_ns: Option<u64> },
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

/// A result of a handler.
pub(crate) type Outcome<T = u64> = Result<T, Pause>;

/// Something to be written; never nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// Where.
    pub address: u64,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Bytes, of which so many have been taken.
    Bytes(Vec<u8>, usize),
    /// So many zeros.
    Zeros(u64),
    /// Whole lines: those at `from`, of which so many bytes are left.
    Copy { from: u64, left: u64 },
}

impl Write {
    fn bytes(address: u64, bytes: Vec<u8>) -> Write {
        Write {
            address,
            content: Content::Bytes(bytes, 0),
        }
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes, taken) => (bytes.len() - taken) as u64,
            Content::Zeros(left) | Content::Copy { left, .. } => *left,
        }
    }

    /// If lines are to be copied, takes the next one: where it is.
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

    /// Takes the next bytes, at most a line and at most what is left.
    pub fn take(&mut self, count: u64) -> LineData {
        let mut data = LineData::ZERO;
        match &mut self.content {
            Content::Bytes(bytes, taken) => {
                let end = *taken + count as usize;
                data.0[..count as usize].copy_from_slice(&bytes[*taken..end]);
                *taken = end;
            }
            Content::Zeros(left) => *left -= count,
            Content::Copy { .. } => {}
        }
        self.address += count;
        data
    }
}

/// Longest path, with its end.
const PATH_BYTES: u64 = 4096;

/// One call's view of memory.
#[derive(Debug, Default)]
pub(crate) struct User {
    lines: HashMap<u64, LineData>,
    wanted: Vec<u64>,
    writes: Vec<Write>,
}

impl User {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.wanted.clear();
        self.writes.clear();
    }

    /// Takes a line that has been read.
    pub fn provide(&mut self, line: LineAddress, data: LineData) {
        self.lines.insert(line.0, data);
    }

    /// Addresses of the lines that are to be read.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// What is to be written, in this order.
    pub fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// Forgets what was to be written.
    pub fn forget_writes(&mut self) {
        self.writes.clear();
    }

    /// Whether all of these bytes have been read; if not, they will be.
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
        check(address, length)?;
        self.saved(address, length)
    }

    /// Bytes of a save area, which are the machine's and not the program's.
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

    /// A path, or any string with a zero at its end.
    pub fn string(&mut self, address: u64) -> Outcome<Vec<u8>> {
        let mut found = Vec::new();
        while (found.len() as u64) < PATH_BYTES {
            let at = address.wrapping_add(found.len() as u64);
            let in_line = LINE_BYTES as u64 - at % LINE_BYTES as u64;
            let bytes = self.bytes(at, in_line)?;
            if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
                found.extend_from_slice(&bytes[..end]);
                return Ok(found);
            }
            found.extend_from_slice(&bytes);
        }
        Err(Errno::NAMETOOLONG.into())
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
        for &(address, length) in &vectors {
            check(address, length)?;
        }
        Ok(vectors)
    }

    /// What is in some buffers, one after the other, up to `most` bytes.
    pub fn gather(&mut self, buffers: &[(u64, u64)], most: u64) -> Outcome<Vec<u8>> {
        let (mut all, mut left) = (true, most);
        let mut limited = Vec::with_capacity(buffers.len());
        for &(address, length) in buffers {
            check(address, length)?;
            let length = length.min(left);
            left -= length;
            all &= self.has(address, length);
            limited.push((address, length));
        }
        if !all {
            return Err(Pause::Memory);
        }
        Ok(limited
            .iter()
            .flat_map(|&(address, length)| self.copy(address, length))
            .collect())
    }

    /// Writes `bytes` into buffers, one after the other, as far as they go.
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
        check(address, bytes.len() as u64)?;
        if !bytes.is_empty() {
            self.writes.push(Write::bytes(address, bytes));
        }
        Ok(())
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

    /// Copies the lines of `start..end` to `to`. All three are at the beginning of a line.
    pub fn copy_lines(&mut self, (start, end): (u64, u64), to: u64) {
        self.writes.push(Write {
            address: to,
            content: Content::Copy {
                from: start,
                left: end - start,
            },
        });
    }

    /// Clears ranges from start to end.
    pub fn clear_ranges(&mut self, ranges: &[(u64, u64)]) {
        for &(start, end) in ranges {
            self.writes.push(Write {
                address: start,
                content: Content::Zeros(end - start),
            });
        }
    }
}

/// Whether a call may use `length` bytes at `address`.
pub(crate) fn check(address: u64, length: u64) -> Result<(), Errno> {
    if length == 0 || layout::is_user(address, length) {
        Ok(())
    } else {
        Err(Errno::FAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &[u8]) -> LineData {
        let mut data = LineData::ZERO;
        data.0[..text.len()].copy_from_slice(text);
        data
    }

    #[test]
    fn a_string_over_two_lines_is_asked_for_line_by_line() {
        let mut user = User::default();
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
        let mut user = User::default();
        let fault = Err(Pause::Error(Errno::FAULT));
        assert_eq!(user.bytes(0, 1).map(drop), fault);
        assert_eq!(user.bytes(u64::MAX, 2).map(drop), fault);
        assert_eq!(user.write(layout::STUB, vec![1]), fault);
        assert_eq!(user.write(layout::USER_END - 1, vec![1, 2]), fault);
        assert_eq!(user.write(0, vec![]), Ok(()));
    }

    #[test]
    fn what_several_buffers_hold_is_asked_for_at_once() {
        let mut user = User::default();
        let buffers = [(0x2_0000, 2), (0x3_0000, 0), (0x4_0001, 9)];
        assert_eq!(user.gather(&buffers, 5), Err(Pause::Memory));
        assert_eq!(user.take_wanted(), [0x2_0000, 0x4_0000]);
        user.provide(LineAddress::of(0x2_0000), line(b"ab"));
        user.provide(LineAddress::of(0x4_0000), line(b"-cdefg"));
        assert_eq!(user.gather(&buffers, 5), Ok(b"abcde".to_vec()));
    }

    #[test]
    fn buffers_are_filled_one_after_the_other() {
        let mut user = User::default();
        let buffers = [(0x2_0000, 2), (0x3_0000, 0), (0x4_0000, 10)];
        user.scatter(&buffers, b"abcde").unwrap();
        assert_eq!(
            user.take_writes(),
            [
                Write::bytes(0x2_0000, b"ab".to_vec()),
                Write::bytes(0x4_0000, b"cde".to_vec())
            ]
        );
    }
}
