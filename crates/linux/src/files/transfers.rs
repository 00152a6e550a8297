//! Calls that read and write open files.

use super::paths::Device;
use super::{FileReference, Kind, O_APPEND};
use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::signals::SIGPIPE;
use crate::streams::WriteEnd;
use crate::user::{Outcome, Pause};
use rustix::fs::{self, SeekFrom};

/// The maximum transfer of one call; the program's next call continues.
const MAXIMUM_TRANSFER_BYTES: u64 = 64 << 20;

impl Kernel {
    /// The outcome of a call that cannot proceed now: it blocks, unless its file is nonblocking.
    pub fn would_wait(call: &Call, nonblocking: bool) -> Pause {
        if nonblocking {
            Errno::AGAIN.into()
        } else if call.interrupted {
            Errno::INTR.into()
        } else {
            Pause::Block { deadline_ns: None }
        }
    }

    /// A call of the host was interrupted: it is repeated after the cause has been handled.
    pub(super) fn interrupted_by_host(&mut self) -> Pause {
        const A_LITTLE_NS: u64 = 1000;
        self.host_interrupted = true;
        Pause::Block {
            deadline_ns: Some(self.now_ns() + A_LITTLE_NS),
        }
    }

    /// Reads into buffers, from `position` or from the file's own position.
    pub fn read(
        &mut self,
        call: &mut Call,
        fd: u64,
        buffers: &[(u64, u64)],
        position: Option<u64>,
    ) -> Outcome {
        let mut total = 0_u64;
        for &(address, length) in buffers {
            call.user.check_write(address, length)?;
            total = total.saturating_add(length);
        }
        let most = total.min(MAXIMUM_TRANSFER_BYTES);
        let file = self.process.files.get(fd)?;
        if file.borrow().is_socket() {
            return self.receive(call, fd, buffers, 0, (0, 0));
        }
        let mut file = file.borrow_mut();
        if !file.is_readable() {
            return Err(Errno::BADF.into());
        }
        let nonblocking = file.is_nonblocking();
        let bytes = match &mut file.kind {
            Kind::Host(host) => {
                let mut bytes = vec![0; most as usize];
                let read = match position {
                    Some(at) => rustix::io::pread(&host.fd, bytes.as_mut_slice(), at),
                    None => rustix::io::read(&host.fd, bytes.as_mut_slice()),
                };
                match read {
                    Err(rustix::io::Errno::INTR) => return Err(self.interrupted_by_host()),
                    Err(errno) => return Err(errno.into()),
                    Ok(length) => bytes.truncate(length),
                }
                bytes
            }
            Kind::Made {
                content,
                position: own,
            } => {
                let from = position.map_or(*own, |at| at as usize).min(content.len());
                let to = from.saturating_add(most as usize).min(content.len());
                if position.is_none() {
                    *own = to;
                }
                content[from..to].to_vec()
            }
            Kind::Device(Device::Null) => Vec::new(),
            Kind::Device(Device::Zero | Device::Full) => vec![0; most as usize],
            Kind::Device(Device::Random) => self.random_bytes(most),
            Kind::Directory(_) => return Err(Errno::ISDIR.into()),
            _ if position.is_some() => return Err(Errno::SPIPE.into()),
            Kind::PipeOut(end) => {
                let read = end.read(most as usize, false);
                let read = read.ok_or_else(|| Self::would_wait(call, nonblocking))?;
                self.changed = true;
                read
            }
            Kind::Event {
                count,
                semaphore,
                changes,
            } => {
                if most < 8 {
                    return Err(Errno::INVAL.into());
                }
                if *count == 0 {
                    return Err(Self::would_wait(call, nonblocking));
                }
                let taken = if *semaphore { 1 } else { *count };
                *count -= taken;
                *changes += 1;
                self.changed = true;
                taken.to_le_bytes().to_vec()
            }
            Kind::PipeIn(_) | Kind::Epoll(_) | Kind::Socket(_) => return Err(Errno::INVAL.into()),
        };
        call.user.scatter(buffers, &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Writes buffers, at `position` or at the file's own position.
    pub fn write(
        &mut self,
        slot: usize,
        call: &mut Call,
        fd: u64,
        buffers: &[(u64, u64)],
        position: Option<u64>,
    ) -> Outcome {
        let file = self.process.files.get(fd)?;
        if !file.borrow().is_writable() {
            return Err(Errno::BADF.into());
        }
        if file.borrow().is_socket() {
            return self.send(slot, call, fd, buffers, 0, (0, 0));
        }
        let bytes = call.user.gather(buffers, MAXIMUM_TRANSFER_BYTES)?;
        self.write_bytes(slot, call, &file, &bytes, position)
    }

    fn write_bytes(
        &mut self,
        slot: usize,
        call: &mut Call,
        file: &FileReference,
        bytes: &[u8],
        position: Option<u64>,
    ) -> Outcome {
        let mut file = file.borrow_mut();
        let nonblocking = file.is_nonblocking();
        let append = file.flags & O_APPEND != 0;
        match &mut file.kind {
            Kind::Host(host) => {
                let wanted = bytes.len();
                let bytes = &bytes[..self.output.grant(wanted)];
                let written = match position {
                    Some(at) => rustix::io::pwrite(&host.fd, bytes, at),
                    None => {
                        if append {
                            // O_APPEND may have been set after the file was opened.
                            let _ = fs::seek(&host.fd, SeekFrom::End(0));
                        }
                        rustix::io::write(&host.fd, bytes)
                    }
                };
                match written {
                    Err(rustix::io::Errno::INTR) => Err(self.interrupted_by_host()),
                    Err(rustix::io::Errno::PIPE) => Err(self.broken_pipe(slot)),
                    other => {
                        let written = other?;
                        self.output.spend(written as u64);
                        // A write beyond the limit ends the run; the program does not see an error.
                        Ok(if bytes.len() < wanted {
                            wanted
                        } else {
                            written
                        } as u64)
                    }
                }
            }
            Kind::Device(Device::Full) => Err(Errno::NOSPC.into()),
            Kind::Device(_) => Ok(bytes.len() as u64),
            _ if position.is_some() => Err(Errno::SPIPE.into()),
            Kind::PipeIn(end) => {
                let end = &*end;
                self.pour(slot, call, end, bytes, nonblocking)
            }
            Kind::Event { count, changes, .. } => {
                let Some(Ok(added)) = bytes.get(..8).map(<[u8; 8]>::try_from) else {
                    return Err(Errno::INVAL.into());
                };
                let added = u64::from_le_bytes(added);
                if added == u64::MAX {
                    return Err(Errno::INVAL.into());
                }
                match count.checked_add(added) {
                    Some(sum) if sum != u64::MAX => *count = sum,
                    _ => return Err(Self::would_wait(call, nonblocking)),
                }
                *changes += 1;
                self.changed = true;
                Ok(8)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Writes into a stream; blocks until all bytes are accepted, if it may block.
    pub fn pour(
        &mut self,
        slot: usize,
        call: &mut Call,
        end: &WriteEnd,
        bytes: &[u8],
        nonblocking: bool,
    ) -> Outcome {
        if end.reader_gone() {
            return Err(self.broken_pipe(slot));
        }
        let rest = bytes.get(call.progress..).unwrap_or_default();
        let written = end.write(rest);
        call.progress += written;
        self.changed |= written > 0;
        let all = written == rest.len();
        if all || call.progress > 0 && (nonblocking || call.interrupted) {
            return Ok(call.progress as u64);
        }
        Err(Self::would_wait(call, nonblocking))
    }

    /// Handles a write to a stream without readers.
    pub fn broken_pipe(&mut self, slot: usize) -> Pause {
        self.send_signal(slot, SIGPIPE);
        Errno::PIPE.into()
    }

    /// `sendfile`: from a file, whose position may be in memory, to any other file.
    pub fn sendfile(
        &mut self,
        slot: usize,
        call: &mut Call,
        to: u64,
        from: u64,
        offset: u64,
        count: u64,
    ) -> Outcome {
        const CHUNK_BYTES: u64 = 65536;
        let source = self.process.files.get(from)?;
        let target = self.process.files.get(to)?;
        if !source.borrow().is_readable() || !target.borrow().is_writable() {
            return Err(Errno::BADF.into());
        }
        let at = match offset {
            0 => None,
            _ => Some(call.user.words::<1>(offset)?[0]),
        };
        let mut bytes = vec![0; count.min(CHUNK_BYTES) as usize];
        let start = {
            let source = source.borrow();
            let host = source.host()?;
            let start = match at {
                Some(at) => at,
                None => fs::seek(host, SeekFrom::Current(0))?,
            };
            let length = rustix::io::pread(host, bytes.as_mut_slice(), start)?;
            bytes.truncate(length);
            start
        };
        if target.borrow().is_socket() {
            // The library copies through a buffer instead.
            return Err(Errno::INVAL.into());
        }
        let written = self.write_bytes(slot, call, &target, &bytes, None)?;
        let end = start + written;
        if offset == 0 {
            fs::seek(source.borrow().host()?, SeekFrom::Start(end))?;
        } else {
            call.user.write_words(offset, &[end])?;
        }
        Ok(written)
    }

    pub fn lseek(&mut self, fd: u64, offset: u64, whence: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        match &mut file.kind {
            Kind::Directory(open) => {
                if whence != 0 || (offset as i64) < 0 {
                    return Err(Errno::INVAL.into());
                }
                match &mut open.listing {
                    _ if offset == 0 => open.listing = None, // to be read again
                    Some((entries, told)) => *told = (offset as usize).min(entries.len()),
                    None => {}
                }
                Ok(offset)
            }
            Kind::Host(host) => {
                let place = match whence {
                    0 if offset as i64 >= 0 => SeekFrom::Start(offset),
                    1 => SeekFrom::Current(offset as i64),
                    2 => SeekFrom::End(offset as i64),
                    3 => SeekFrom::Data(offset),
                    4 => SeekFrom::Hole(offset),
                    _ => return Err(Errno::INVAL.into()),
                };
                Ok(fs::seek(&host.fd, place)?)
            }
            Kind::Made { content, position } => {
                let base = match whence {
                    0 => 0,
                    1 => *position as i64,
                    2 => content.len() as i64,
                    _ => return Err(Errno::INVAL.into()),
                };
                let new = base.checked_add(offset as i64).filter(|&new| new >= 0);
                *position = new.ok_or(Errno::INVAL)? as usize;
                Ok(*position as u64)
            }
            Kind::Device(_) => Ok(0),
            _ => Err(Errno::SPIPE.into()),
        }
    }

    /// The file content that `mmap` puts into memory.
    pub fn file_content(&mut self, fd: u64, offset: u64, length: u64) -> Outcome<Vec<u8>> {
        let file = self.process.files.get(fd)?;
        let file = file.borrow();
        let host = file.host().map_err(|_| Errno::NODEV)?;
        if !file.is_readable() {
            return Err(Errno::ACCES.into());
        }
        let left = (fs::fstat(host)?.st_size as u64).saturating_sub(offset);
        let wanted = left.min(length) as usize;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(wanted).map_err(|_| Errno::NOMEM)?;
        bytes.resize(wanted, 0);
        let mut done = 0;
        while done < bytes.len() {
            let read = rustix::io::pread(host, &mut bytes[done..], offset + done as u64)?;
            if read == 0 {
                break;
            }
            done += read;
        }
        Ok(bytes)
    }
}
