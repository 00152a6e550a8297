//! Byte streams between threads: pipes, and each direction of a connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The size of pipes, as in Linux.
pub(crate) const PIPE_BYTES: usize = 65536;

/// Bytes that have been written and not yet read.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    data: VecDeque<u8>,
    reader_gone: bool,
    writer_gone: bool,
    /// Number of changes, for edge-triggered polling.
    changes: u64,
}

/// The read end. It is closed when its last owner drops it.
#[derive(Debug)]
pub(crate) struct ReadEnd(Rc<RefCell<Stream>>);

/// The write end.
#[derive(Debug)]
pub(crate) struct WriteEnd(Rc<RefCell<Stream>>);

/// A stream with its two ends.
pub(crate) fn stream() -> (ReadEnd, WriteEnd) {
    let stream = Rc::new(RefCell::new(Stream::default()));
    (ReadEnd(stream.clone()), WriteEnd(stream))
}

impl ReadEnd {
    /// Reads at most `most` bytes; returns none at the end of the stream, and `None` if there may
    /// be some later. With `peek`, the bytes stay in the stream.
    pub fn read(&self, most: usize, peek: bool) -> Option<Vec<u8>> {
        let mut stream = self.0.borrow_mut();
        if stream.data.is_empty() && most > 0 {
            return stream.writer_gone.then(Vec::new);
        }
        let most = most.min(stream.data.len());
        if peek {
            return Some(stream.data.iter().take(most).copied().collect());
        }
        stream.changes += 1;
        Some(stream.data.drain(..most).collect())
    }

    /// Bytes that can be read.
    pub fn available(&self) -> usize {
        self.0.borrow().data.len()
    }

    /// Whether the write end is closed.
    pub fn writer_gone(&self) -> bool {
        self.0.borrow().writer_gone
    }

    /// See [`Stream`].
    pub fn changes(&self) -> u64 {
        self.0.borrow().changes
    }
}

impl WriteEnd {
    /// Accepts as many bytes as there is room for; returns their number. A small write is accepted
    /// whole or not at all.
    pub fn write(&self, bytes: &[u8]) -> usize {
        const ATOMIC_BYTES: usize = 4096;
        let room = self.room();
        if bytes.len() <= ATOMIC_BYTES && room < bytes.len() {
            return 0;
        }
        let mut stream = self.0.borrow_mut();
        let now = room.min(bytes.len());
        stream.data.extend(&bytes[..now]);
        stream.changes += 1;
        now
    }

    /// How many bytes there is room for.
    pub fn room(&self) -> usize {
        PIPE_BYTES - self.0.borrow().data.len()
    }

    /// Whether the read end is closed.
    pub fn reader_gone(&self) -> bool {
        self.0.borrow().reader_gone
    }

    /// See [`Stream`].
    pub fn changes(&self) -> u64 {
        self.0.borrow().changes
    }
}

impl Drop for ReadEnd {
    fn drop(&mut self) {
        let mut stream = self.0.borrow_mut();
        stream.reader_gone = true;
        stream.changes += 1;
    }
}

impl Drop for WriteEnd {
    fn drop(&mut self) {
        let mut stream = self.0.borrow_mut();
        stream.writer_gone = true;
        stream.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_and_then_the_end() {
        let (reader, writer) = stream();
        assert_eq!(reader.read(5, false), None);
        assert_eq!(writer.write(b"abcdef"), 6);
        assert_eq!(reader.read(2, true), Some(b"ab".to_vec()));
        assert_eq!(reader.read(4, false), Some(b"abcd".to_vec()));
        drop(writer);
        assert_eq!(reader.read(4, false), Some(b"ef".to_vec()));
        assert_eq!(reader.read(4, false), Some(vec![]));
    }

    #[test]
    fn small_writes_are_whole() {
        let (reader, writer) = stream();
        assert_eq!(writer.write(&vec![1; PIPE_BYTES + 5]), PIPE_BYTES);
        reader.read(100, false);
        assert_eq!(writer.write(&[2; 101]), 0);
        assert_eq!(writer.write(&[2; 100]), 100);
        // POSIX's PIPE_BUF, and one more.
        reader.read(4095, false);
        assert_eq!(writer.write(&[3; 4096]), 0);
        assert_eq!(writer.write(&[3; 4097]), 4095);
        drop(reader);
        assert!(writer.reader_gone());
    }
}
