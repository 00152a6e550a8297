//! Waiting for several files: `ppoll`, `pselect6`, `epoll`. A file of the host is always ready.

use crate::errno::Errno;
use crate::files::{Kind, O_CLOEXEC, O_RDWR, OpenFile};
use crate::kernel::{Call, Kernel, PollTime};
use crate::time::read_timespec;
use crate::user::{Outcome, Pause};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

const IN: u32 = 1;
const OUT: u32 = 4;
const ERROR: u32 = 8;
const HANG_UP: u32 = 0x10;
const INVALID: u32 = 0x20;
const IN_NORMAL: u32 = 0x40;
const OUT_NORMAL: u32 = 0x100;
const READ_HANG_UP: u32 = 0x2000;
const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

/// The operations that a file permits without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub input: bool,
    pub output: bool,
    /// The other end has shut down writing, or is closed.
    pub half_ended: bool,
    pub ended: bool,
    /// It has no reader.
    pub broken: bool,
    /// Number of its changes.
    pub changes: u64,
}

impl Ready {
    fn events(self) -> u32 {
        let table = [
            (self.input, IN | IN_NORMAL),
            (self.output, OUT | OUT_NORMAL),
            (self.half_ended, READ_HANG_UP),
            (self.ended, HANG_UP),
            (self.broken, ERROR),
        ];
        table
            .iter()
            .filter(|(holds, _)| *holds)
            .fold(0, |all, (_, events)| all | events)
    }
}

/// A set of files to wait for.
#[derive(Debug, Default)]
pub(crate) struct Epoll {
    interests: BTreeMap<u64, Interest>,
    /// The file reported last: the search starts after it.
    last: u64,
}

#[derive(Debug)]
struct Interest {
    file: Weak<RefCell<OpenFile>>,
    events: u32,
    data: u64,
    /// For edge-triggered files, the last change that was reported.
    told: Option<u64>,
    armed: bool,
}

impl Interest {
    /// The events to report, if any.
    fn news(&self) -> Option<(u32, u64)> {
        let file = self.file.upgrade()?;
        let ready = ready(&*file.try_borrow().ok()?);
        let events = ready.events() & (self.events | ERROR | HANG_UP);
        let known = self.events & EDGE != 0 && self.told == Some(ready.changes);
        (self.armed && events != 0 && !known).then_some((events, ready.changes))
    }
}

fn ready(file: &OpenFile) -> Ready {
    match &file.kind {
        Kind::Host(_) | Kind::Directory(_) | Kind::Made { .. } | Kind::Device(_) => Ready {
            input: true,
            output: true,
            ..Ready::default()
        },
        Kind::PipeOut(end) => Ready {
            input: end.available() > 0,
            ended: end.writer_gone(),
            changes: end.changes(),
            ..Ready::default()
        },
        Kind::PipeIn(end) => Ready {
            output: end.room() > 0,
            broken: end.reader_gone(),
            changes: end.changes(),
            ..Ready::default()
        },
        Kind::Event { count, changes, .. } => Ready {
            input: *count > 0,
            output: *count < u64::MAX - 1,
            changes: *changes,
            ..Ready::default()
        },
        // No epoll contains another one, so the recursion ends.
        Kind::Epoll(epoll) => Ready {
            input: epoll.interests.values().any(|one| one.news().is_some()),
            ..Ready::default()
        },
        Kind::Socket(socket) => socket.ready(),
    }
}

impl Kernel {
    /// The time until which a call may wait; `None`: for ever.
    fn poll_deadline(call: &mut Call, time: PollTime) -> Outcome<Option<u64>> {
        let duration = match time {
            PollTime::Milliseconds(negative) if negative < 0 => return Ok(None),
            PollTime::Milliseconds(time) => time as u64 * 1_000_000,
            PollTime::Timespec(0) => return Ok(None),
            PollTime::Timespec(address) => read_timespec(&mut call.user, address)?,
        };
        Ok(Some(call.begin_ns.saturating_add(duration)))
    }

    /// Handles a poll that finds nothing ready: it continues to wait, or returns empty.
    fn poll_again(&self, call: &Call, deadline_ns: Option<u64>) -> Outcome {
        if call.timed_out || deadline_ns.is_some_and(|at| at <= self.now_ns()) {
            Ok(0)
        } else if call.interrupted {
            Err(Errno::INTR.into())
        } else {
            Err(Pause::Block { deadline_ns })
        }
    }

    fn ready(&self, fd: u64) -> Option<Ready> {
        let file = self.process.files.get(fd).ok()?;
        let file = file.borrow();
        Some(ready(&file))
    }

    pub fn poll(&mut self, call: &mut Call, address: u64, count: u64, time: u64) -> Outcome {
        if count > crate::files::MAXIMUM_FILES as u64 {
            return Err(Errno::INVAL.into());
        }
        let deadline = Self::poll_deadline(call, PollTime::Timespec(time))?;
        let bytes = call.user.bytes(address, 8 * count)?;
        let mut found = 0;
        for (index, entry) in bytes.chunks_exact(8).enumerate() {
            let fd = i32::from_le_bytes(entry[..4].try_into().unwrap_or_default());
            let wanted = u32::from(u16::from_le_bytes([entry[4], entry[5]]));
            let events = match (fd, self.ready(fd as u64)) {
                (..0, _) => 0,
                (_, None) => INVALID,
                (_, Some(ready)) => ready.events() & (wanted | ERROR | HANG_UP),
            };
            found += u64::from(events != 0);
            let at = address + 8 * index as u64 + 6;
            call.user
                .write(at, (events as u16).to_le_bytes().to_vec())?;
        }
        if found > 0 {
            return Ok(found);
        }
        self.poll_again(call, deadline)
    }

    /// `pselect6`: number, three sets, time.
    pub fn select(
        &mut self,
        call: &mut Call,
        [count, input, output, error, time]: [u64; 5],
    ) -> Outcome {
        if count > crate::files::MAXIMUM_FILES as u64 {
            return Err(Errno::INVAL.into());
        }
        let deadline = Self::poll_deadline(call, PollTime::Timespec(time))?;
        let set_bytes = count.div_ceil(64) * 8;
        let mut found = 0;
        for (address, events) in [(input, IN | HANG_UP), (output, OUT | ERROR), (error, 0)] {
            if address == 0 {
                continue;
            }
            let set = call.user.bytes(address, set_bytes)?;
            let mut result = vec![0; set.len()];
            for fd in 0..count {
                let (byte, bit) = (fd as usize / 8, fd % 8);
                if set[byte] >> bit & 1 == 0 {
                    continue;
                }
                let ready = self.ready(fd).ok_or(Errno::BADF)?;
                if ready.events() & events != 0 {
                    result[byte] |= 1 << bit;
                    found += 1;
                }
            }
            call.user.write(address, result)?;
        }
        if found > 0 {
            return Ok(found);
        }
        // Writes take effect only with the answer.
        self.poll_again(call, deadline)
    }

    pub fn epoll_create(&mut self, flags: u64) -> Outcome {
        let kind = Kind::Epoll(Epoll::default());
        Ok(self.process.files.add(kind, flags & O_CLOEXEC | O_RDWR)?)
    }

    pub fn epoll_ctl(
        &mut self,
        call: &mut Call,
        epoll: u64,
        operation: u64,
        fd: u64,
        event: u64,
    ) -> Outcome {
        const ADD: u64 = 1;
        const DELETE: u64 = 2;
        const MODIFY: u64 = 3;
        let file = self.process.files.get(fd)?;
        let epoll = self.process.files.get(epoll)?;
        if matches!(file.borrow().kind, Kind::Epoll(_)) {
            return Err(Errno::INVAL.into());
        }
        if matches!(file.borrow().kind, Kind::Host(_) | Kind::Directory(_))
            && !file.borrow().is_terminal_or_pipe()
        {
            return Err(Errno::PERM.into());
        }
        let mut epoll = epoll.borrow_mut();
        let Kind::Epoll(epoll) = &mut epoll.kind else {
            return Err(Errno::INVAL.into());
        };
        let fd = fd as u32 as u64;
        let known = epoll
            .interests
            .get(&fd)
            .is_some_and(|one| one.file.ptr_eq(&Rc::downgrade(&file)));
        match operation {
            ADD if known => return Err(Errno::EXIST.into()),
            DELETE | MODIFY if !known => return Err(Errno::NOENT.into()),
            DELETE => {
                epoll.interests.remove(&fd);
            }
            ADD | MODIFY => {
                let [events, data] = call.user.words(event)?;
                let interest = Interest {
                    file: Rc::downgrade(&file),
                    events: events as u32,
                    data,
                    told: None,
                    armed: true,
                };
                epoll.interests.insert(fd, interest);
            }
            _ => return Err(Errno::INVAL.into()),
        }
        self.changed = true;
        Ok(0)
    }

    pub fn epoll_wait(
        &mut self,
        call: &mut Call,
        epoll: u64,
        address: u64,
        count: u64,
        time: PollTime,
    ) -> Outcome {
        let count = count as u32 as u64;
        if count == 0 || count > 1 << 20 {
            return Err(Errno::INVAL.into());
        }
        let deadline = Self::poll_deadline(call, time)?;
        let file = self.process.files.get(epoll)?;
        let mut file = file.borrow_mut();
        let Kind::Epoll(epoll) = &mut file.kind else {
            return Err(Errno::INVAL.into());
        };
        call.user.check_write(address, 16)?;
        epoll
            .interests
            .retain(|_, interest| interest.file.strong_count() > 0);
        let first = epoll.last + 1;
        let order: Vec<u64> = epoll
            .interests
            .range(first..)
            .chain(epoll.interests.range(..first))
            .map(|(&fd, _)| fd)
            .collect();
        let mut found = 0;
        for fd in order {
            let Some(interest) = epoll.interests.get_mut(&fd) else {
                continue;
            };
            let Some((events, changes)) = interest.news() else {
                continue;
            };
            let at = address + 16 * found;
            call.user
                .write_words(at, &[u64::from(events), interest.data])?;
            interest.told = Some(changes);
            interest.armed = interest.events & ONE_SHOT == 0;
            epoll.last = fd;
            found += 1;
            if found == count {
                break;
            }
        }
        if found > 0 {
            return Ok(found);
        }
        self.poll_again(call, deadline)
    }
}
