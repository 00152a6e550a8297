//! Open files and the calls about them. What a program can reach is in `view.rs`, how a path is
//! followed in `paths.rs`, and the calls that take a path in `names.rs`.

mod names;
mod paths;
mod private;
mod status;
mod view;

use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::signals::SIGPIPE;
use crate::sockets::Socket;
use crate::streams::{ReadEnd, WriteEnd, stream};
use crate::user::{Outcome, Pause};
pub(crate) use names::AT_FDCWD;
use paths::{Device, Directory, HostDirectory};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, SeekFrom};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
pub(crate) use view::Seen;
use view::View;
pub use view::{Access, FilesError, Reach};

/// Most files that can be open at once.
pub(crate) const MAXIMUM_FILES: usize = 1024;
/// One call reads or writes no more: the rest is for the next.
const MAXIMUM_TRANSFER_BYTES: u64 = 64 << 20;

pub(crate) const O_WRONLY: u64 = 1;
pub(crate) const O_RDWR: u64 = 2;
const O_ACCESS: u64 = 3;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_NOCTTY: u64 = 0o400;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
pub(crate) const O_NONBLOCK: u64 = 0o4000;
const O_DSYNC: u64 = 0o10000;
const O_DIRECTORY: u64 = 0o200_000;
const O_NOFOLLOW: u64 = 0o400_000;
pub(crate) const O_CLOEXEC: u64 = 0o2_000_000;
const O_PATH: u64 = 0o10_000_000;
const O_TMPFILE: u64 = 0o20_000_000;

/// What a file is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A file or device of the host.
    Host(HostFile),
    /// A directory.
    Directory(OpenDirectory),
    /// A file that only this server has: content and position.
    Made {
        content: Rc<[u8]>,
        position: usize,
    },
    /// A device that only this server has.
    Device(Device),
    /// The end of a pipe that is read, or written.
    PipeOut(ReadEnd),
    PipeIn(WriteEnd),
    /// `eventfd`.
    Event {
        count: u64,
        semaphore: bool,
        changes: u64,
    },
    /// `epoll`.
    Epoll(crate::poll::Epoll),
    Socket(Socket),
}

/// A file of the host.
#[derive(Debug)]
pub(crate) struct HostFile {
    fd: OwnedFd,
    /// Its path in the program's tree, if it was opened by one.
    path: Option<Vec<u8>>,
    /// Its mode, owner and times may be changed.
    changeable: bool,
}

/// A directory that is open.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    directory: Directory,
    /// While it is being read: its entries by name, and how many have been told.
    listing: Option<(Vec<Entry>, usize)>,
}

#[derive(Debug)]
struct Entry {
    inode: u64,
    kind: u8,
    name: Vec<u8>,
}

/// An open file, which several descriptors may share.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub kind: Kind,
    /// Access mode and status flags, as in `open`.
    pub flags: u64,
}

impl OpenFile {
    pub fn is_nonblocking(&self) -> bool {
        self.flags & O_NONBLOCK != 0
    }

    fn is_socket(&self) -> bool {
        matches!(self.kind, Kind::Socket(_))
    }

    /// Whether it is a file of the host that need not always have something to read.
    pub fn is_terminal_or_pipe(&self) -> bool {
        let stat = self.host().ok().and_then(|fd| fs::fstat(fd).ok());
        stat.is_some_and(|stat| {
            matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::CharacterDevice | FileType::Fifo | FileType::Socket
            )
        })
    }

    fn is_readable(&self) -> bool {
        self.flags & O_ACCESS != O_WRONLY && self.flags & O_PATH == 0
    }

    fn is_writable(&self) -> bool {
        matches!(self.flags & O_ACCESS, O_WRONLY | O_RDWR) && self.flags & O_PATH == 0
    }

    /// What stands for it on the host.
    fn host(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &self.kind {
            Kind::Host(file) => Ok(file.fd.as_fd()),
            Kind::Directory(OpenDirectory {
                directory: Directory {
                    host: Some(host), ..
                },
                ..
            }) => Ok(host.fd.as_fd()),
            _ => Err(Errno::INVAL),
        }
    }

    /// The same, if its mode, owner and times may be changed.
    fn changeable(&self) -> Result<BorrowedFd<'_>, Errno> {
        let may = match &self.kind {
            Kind::Host(file) => file.changeable,
            Kind::Directory(OpenDirectory { directory, .. }) => directory.is_writable(),
            _ => return Err(Errno::INVAL),
        };
        if may { self.host() } else { Err(Errno::ROFS) }
    }

    fn directory(&self) -> Option<&Directory> {
        match &self.kind {
            Kind::Directory(open) => Some(&open.directory),
            _ => None,
        }
    }

    /// Its path in the program's tree, if it has one.
    fn path_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.kind {
            Kind::Host(file) => file.path.as_mut(),
            Kind::Directory(open) => Some(&mut open.directory.path),
            _ => None,
        }
    }

    /// What `/proc/self/fd` shows it as.
    fn link_text(&self, number: u64) -> Vec<u8> {
        match &self.kind {
            Kind::Host(HostFile {
                path: Some(path), ..
            }) => path.clone(),
            Kind::Directory(open) if open.directory.path.is_empty() => b"/".to_vec(),
            Kind::Directory(open) => open.directory.path.clone(),
            Kind::PipeOut(_) | Kind::PipeIn(_) => format!("pipe:[{number}]").into_bytes(),
            Kind::Socket(_) => format!("socket:[{number}]").into_bytes(),
            _ => format!("anon_inode:[{number}]").into_bytes(),
        }
    }
}

/// A shared open file.
pub(crate) type FileReference = Rc<RefCell<OpenFile>>;

#[derive(Clone, Debug)]
struct Descriptor {
    file: FileReference,
    close_on_exec: bool,
}

/// Where a program was found: its path, its directory and its name there.
pub(crate) type ProgramPlace = (Vec<u8>, Rc<HostDirectory>, Vec<u8>);

/// A process's files. A child's are a copy of them, with the same open files.
#[derive(Clone)]
pub(crate) struct Files {
    table: Vec<Option<Descriptor>>,
    view: Rc<View>,
    current: Directory,
    umask: u64,
    program: Vec<u8>,
    /// The program that the process executes, if it is not the first.
    executed: Option<ProgramPlace>,
}

impl Files {
    /// The caller's standard input, output and error, and what is reached by paths.
    pub fn new(seen: &Seen<'_>) -> Result<Files, FilesError> {
        // Before anything is opened, which would get the number of one that is closed.
        let standard = [
            (std::io::stdin().as_fd().try_clone_to_owned(), 0),
            (std::io::stdout().as_fd().try_clone_to_owned(), O_WRONLY),
            (std::io::stderr().as_fd().try_clone_to_owned(), O_WRONLY),
        ];
        let (view, current) = View::new(seen)?;
        // One that the caller has closed is closed for the program, too.
        let table = standard
            .into_iter()
            .map(|(fd, flags)| {
                let fd = fd.ok()?;
                let terminal = rustix::termios::isatty(&fd);
                let flags = if terminal { O_RDWR } else { flags };
                let kind = Kind::Host(HostFile {
                    fd,
                    path: None,
                    changeable: view.all_rights && !seen.access.read_only,
                });
                Some(Descriptor {
                    file: Rc::new(RefCell::new(OpenFile { kind, flags })),
                    close_on_exec: false,
                })
            })
            .collect();
        Ok(Files {
            table,
            view: Rc::new(view),
            current,
            umask: 0o022,
            program: seen.program.to_vec(),
            executed: None,
        })
    }

    /// The last part of the program's path.
    pub fn program_name(&self) -> &[u8] {
        self.program
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// Closes everything.
    pub fn close_all(&mut self) {
        self.table.clear();
    }

    /// The process executes another program: some files are closed.
    pub fn executes(&mut self, place: ProgramPlace) {
        self.executed = Some(place);
        for entry in &mut self.table {
            if entry.as_ref().is_some_and(|one| one.close_on_exec) {
                *entry = None;
            }
        }
    }

    pub fn get(&self, fd: u64) -> Result<FileReference, Errno> {
        let entry = self.table.get(fd as u32 as usize).and_then(Option::as_ref);
        entry.map(|entry| entry.file.clone()).ok_or(Errno::BADF)
    }

    /// The lowest free descriptor from `from` on, for a file.
    fn put(&mut self, file: FileReference, from: usize, close_on_exec: bool) -> Result<u64, Errno> {
        let free = (from..self.table.len()).find(|&fd| self.table[fd].is_none());
        let fd = free.unwrap_or(self.table.len().max(from));
        if fd >= MAXIMUM_FILES {
            return Err(Errno::MFILE);
        }
        if fd >= self.table.len() {
            self.table.resize(fd + 1, None);
        }
        self.table[fd] = Some(Descriptor {
            file,
            close_on_exec,
        });
        Ok(fd as u64)
    }

    /// A descriptor for a new file; `flags` as in `open`.
    pub fn add(&mut self, kind: Kind, flags: u64) -> Result<u64, Errno> {
        let file = OpenFile {
            kind,
            flags: flags & !(O_CLOEXEC | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC),
        };
        self.put(Rc::new(RefCell::new(file)), 0, flags & O_CLOEXEC != 0)
    }

    /// Descriptors for two new files, or for none.
    pub fn add_pair(&mut self, one: (Kind, u64), other: (Kind, u64)) -> Result<(u64, u64), Errno> {
        let first = self.add(one.0, one.1)?;
        match self.add(other.0, other.1) {
            Ok(second) => Ok((first, second)),
            Err(errno) => {
                self.table[first as usize] = None;
                Err(errno)
            }
        }
    }

    pub fn duplicate(&mut self, fd: u64, from: u64, close_on_exec: bool) -> Outcome {
        let file = self.get(fd)?;
        if from >= MAXIMUM_FILES as u64 {
            return Err(Errno::INVAL.into());
        }
        Ok(self.put(file, from as usize, close_on_exec)?)
    }
}

impl Kernel {
    /// A call that cannot go on now: it waits, unless its file is not for waiting.
    pub fn would_wait(call: &Call, nonblocking: bool) -> Pause {
        if nonblocking {
            Errno::AGAIN.into()
        } else if call.interrupted {
            Errno::INTR.into()
        } else {
            Pause::Block { deadline_ns: None }
        }
    }

    /// A call of the host was interrupted: it is made again, after somebody has looked why.
    fn interrupted_by_host(&mut self) -> Pause {
        const A_LITTLE_NS: u64 = 1000;
        self.host_interrupted = true;
        Pause::Block {
            deadline_ns: Some(self.now_ns() + A_LITTLE_NS),
        }
    }

    pub fn close(&mut self, fd: u64) -> Outcome {
        let entry = self.process.files.table.get_mut(fd as u32 as usize);
        entry.and_then(Option::take).ok_or(Errno::BADF)?;
        self.changed = true;
        Ok(0)
    }

    pub fn close_range(&mut self, first: u64, last: u64, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 4;
        let end = (last as u32 as usize).saturating_add(1);
        for fd in first as u32 as usize..end.min(self.process.files.table.len()) {
            if flags & CLOSE_ON_EXEC != 0 {
                if let Some(entry) = &mut self.process.files.table[fd] {
                    entry.close_on_exec = true;
                }
            } else if self.process.files.table[fd].is_some() {
                self.close(fd as u64)?;
            }
        }
        Ok(0)
    }

    pub fn dup3(&mut self, from: u64, to: u64, flags: u64) -> Outcome {
        let file = self.process.files.get(from)?;
        if from == to {
            return Err(Errno::INVAL.into());
        }
        if to as u32 as usize >= MAXIMUM_FILES {
            return Err(Errno::BADF.into());
        }
        if self.process.files.get(to).is_ok() {
            self.close(to)?;
        }
        Ok(self
            .process
            .files
            .put(file, to as usize, flags & O_CLOEXEC != 0)?)
    }

    pub fn fcntl(&mut self, fd: u64, command: u64, argument: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        match command {
            0 => self.process.files.duplicate(fd, argument, false),
            1030 => self.process.files.duplicate(fd, argument, true),
            1 | 2 => {
                let Some(Some(entry)) = self.process.files.table.get_mut(fd as u32 as usize) else {
                    return Err(Errno::BADF.into());
                };
                if command == 2 {
                    entry.close_on_exec = argument & 1 != 0;
                    return Ok(0);
                }
                Ok(u64::from(entry.close_on_exec))
            }
            3 => Ok(file.borrow().flags),
            4 => {
                const CHANGEABLE: u64 = O_APPEND | O_NONBLOCK;
                let mut file = file.borrow_mut();
                // The host's file may be the caller's terminal, whose mode is not ours.
                file.flags = file.flags & !CHANGEABLE | argument & CHANGEABLE;
                Ok(0)
            }
            // Locks: there is no other process that could hold any.
            5..=7 | 36..=38 => Ok(0),
            1031 | 1032 => Ok(crate::streams::PIPE_BYTES as u64),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn ioctl(&mut self, call: &mut Call, fd: u64, request: u64, address: u64) -> Outcome {
        const TCGETS: u64 = 0x5401;
        const TIOCGPGRP: u64 = 0x540f;
        const TIOCSPGRP: u64 = 0x5410;
        const TIOCGWINSZ: u64 = 0x5413;
        const FIONREAD: u64 = 0x541b;
        const FIONBIO: u64 = 0x5421;
        const FIONCLEX: u64 = 0x5450;
        const FIOCLEX: u64 = 0x5451;
        let file = self.process.files.get(fd)?;
        match request & 0xffff_ffff {
            FIOCLEX => return self.fcntl(fd, 2, 1),
            FIONCLEX => return self.fcntl(fd, 2, 0),
            FIONBIO => {
                let on = call.user.u32(address)? != 0;
                let mut file = file.borrow_mut();
                file.flags = file.flags & !O_NONBLOCK | if on { O_NONBLOCK } else { 0 };
                return Ok(0);
            }
            FIONREAD => {
                let available = match &file.borrow().kind {
                    Kind::PipeOut(end) => end.available(),
                    Kind::Socket(socket) => socket.available(),
                    _ => return Err(Errno::NOTTY.into()),
                };
                call.user.write_u32(address, available as u32)?;
                return Ok(0);
            }
            _ => {}
        }
        let file = file.borrow();
        let host = file.host().map_err(|_| Errno::NOTTY)?;
        if !rustix::termios::isatty(host) {
            return Err(Errno::NOTTY.into());
        }
        match request & 0xffff_ffff {
            TIOCGWINSZ => {
                let size = rustix::termios::tcgetwinsize(host)?;
                let fields = [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel];
                let bytes = fields.iter().flat_map(|field| field.to_le_bytes());
                call.user.write(address, bytes.collect())?;
                Ok(0)
            }
            TCGETS => {
                let modes = rustix::termios::tcgetattr(host)?;
                let fields = [
                    modes.input_modes.bits(),
                    modes.output_modes.bits(),
                    modes.control_modes.bits(),
                    modes.local_modes.bits(),
                ];
                let mut bytes: Vec<u8> = fields
                    .iter()
                    .flat_map(|field| field.to_le_bytes())
                    .collect();
                bytes.resize(36, 0); // line discipline and special characters: none
                call.user.write(address, bytes)?;
                Ok(0)
            }
            TIOCGPGRP => {
                call.user.write_u32(address, self.process.group)?;
                Ok(0)
            }
            // Whoever asks is in the foreground.
            TIOCSPGRP => Ok(0),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn pipe(&mut self, call: &mut Call, address: u64, flags: u64) -> Outcome {
        call.user.check_write(address, 8)?;
        let (reader, writer) = stream();
        let flags = flags & (O_NONBLOCK | O_CLOEXEC);
        let reader = (Kind::PipeOut(reader), flags);
        let writer = (Kind::PipeIn(writer), flags | O_WRONLY);
        let (from, to) = self.process.files.add_pair(reader, writer)?;
        call.user.write_words(address, &[from | to << 32])?;
        Ok(0)
    }

    pub fn eventfd(&mut self, initial: u64, flags: u64) -> Outcome {
        const SEMAPHORE: u64 = 1;
        let kind = Kind::Event {
            count: initial as u32 as u64,
            semaphore: flags & SEMAPHORE != 0,
            changes: 0,
        };
        Ok(self.process.files.add(kind, flags & !SEMAPHORE | O_RDWR)?)
    }

    pub fn memfd_create(&mut self, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 1;
        let fd = fs::memfd_create("nanoplane", fs::MemfdFlags::CLOEXEC)?;
        let kind = Kind::Host(HostFile {
            fd,
            path: None,
            changeable: true,
        });
        let flags = if flags & CLOSE_ON_EXEC != 0 {
            O_CLOEXEC | O_RDWR
        } else {
            O_RDWR
        };
        Ok(self.process.files.add(kind, flags)?)
    }

    /// Reads into buffers, from `position` or where the file is.
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

    /// Writes what is in buffers, at `position` or where the file is.
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
                            // It may have been asked for after the file was opened.
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
                        // What is beyond the limit ends the run: the program is not told.
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

    /// Writes into a stream; waits until all has been taken, if it may wait.
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

    /// Nobody will read what is written.
    pub fn broken_pipe(&mut self, slot: usize) -> Pause {
        self.send_signal(slot, SIGPIPE);
        Errno::PIPE.into()
    }

    /// `sendfile`: from a file, whose position may be in memory, to any other.
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

    /// What `mmap` puts into memory.
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

    pub fn getdents(&mut self, call: &mut Call, fd: u64, address: u64, size: u64) -> Outcome {
        call.user.check_write(address, size)?;
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        if file.flags & O_PATH != 0 {
            return Err(Errno::BADF.into());
        }
        let Kind::Directory(open) = &mut file.kind else {
            return Err(Errno::NOTDIR.into());
        };
        if open.listing.is_none() {
            open.listing = Some((self.process.files.entries(&open.directory)?, 0));
        }
        let Some((entries, told)) = &mut open.listing else {
            return Ok(0);
        };
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(entry) = entries.get(*told) {
            let length = (19 + entry.name.len() + 1).next_multiple_of(8);
            if bytes.len() + length > size as usize {
                if bytes.is_empty() {
                    return Err(Errno::INVAL.into());
                }
                break;
            }
            *told += 1;
            let end = bytes.len() + length;
            bytes.extend(entry.inode.to_le_bytes());
            bytes.extend((*told as u64).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.push(entry.kind);
            bytes.extend(&entry.name);
            bytes.resize(end, 0);
        }
        let length = bytes.len() as u64;
        call.user.write(address, bytes)?;
        Ok(length)
    }

    pub fn ftruncate(&mut self, fd: u64, length: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        self.truncate_open(&file, length)
    }

    fn truncate_open(&mut self, file: &FileReference, length: u64) -> Outcome {
        let file = file.borrow();
        if !file.is_writable() {
            return Err(Errno::INVAL.into());
        }
        fs::ftruncate(file.host()?, length)?;
        Ok(0)
    }

    pub fn fallocate(&mut self, fd: u64, mode: u64, offset: u64, length: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        if !file.borrow().is_writable() {
            return Err(Errno::BADF.into());
        }
        let mode = fs::FallocateFlags::from_bits_truncate(mode as u32);
        let frees = fs::FallocateFlags::PUNCH_HOLE | fs::FallocateFlags::COLLAPSE_RANGE;
        let reserved = if mode.intersects(frees) { 0 } else { length };
        if reserved > self.output.left() {
            self.tell_once(
                "the program wants to reserve more of the disk (fallocate) than it may write \
                 (--max-output); the call answers ENOSPC"
                    .to_string(),
            );
            return Err(Errno::NOSPC.into());
        }
        fs::fallocate(file.borrow().host()?, mode, offset, length)?;
        self.output.spend(reserved);
        Ok(0)
    }

    pub fn fsync(&mut self, fd: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        fs::fsync(file.borrow().host()?)?;
        Ok(0)
    }

    pub fn fchmod(&mut self, fd: u64, mode: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        let file = file.borrow();
        let host = file.changeable()?;
        let kind = FileType::from_raw_mode(fs::fstat(host)?.st_mode);
        fs::fchmod(host, self.process.files.new_mode(kind, mode)?)?;
        Ok(0)
    }

    pub fn fchown(&mut self, fd: u64, user: u64, group: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        let (user, group) = names::owner(user, group);
        fs::fchown(file.borrow().changeable()?, user, group)?;
        Ok(0)
    }
}

impl Files {
    /// The mode that a program gives to something. A file that anybody may run with the rights of
    /// whoever runs the simulator would be a way out.
    fn new_mode(&self, kind: FileType, mode: u64) -> Result<Mode, Errno> {
        const SET_IDENTITY: u64 = 0o6000;
        if mode & SET_IDENTITY != 0 && kind != FileType::Directory && !self.view.all_rights {
            return Err(Errno::PERM);
        }
        Ok(Mode::from_raw_mode(mode as u32 & 0o7777))
    }

    /// What is in a directory, by name: the host's order may be any.
    fn entries(&self, directory: &Directory) -> Result<Vec<Entry>, Errno> {
        let mut found = BTreeMap::new();
        if let Some(host) = &directory.host {
            for entry in fs::Dir::read_from(&host.fd)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes().to_vec();
                found.insert(name, (entry.ino(), entry.file_type()));
            }
        } else {
            for name in [b".".as_slice(), b".."] {
                let inode = status::made_inode(&directory.path);
                found.insert(name.to_vec(), (inode, FileType::Directory));
            }
        }
        for (name, kind) in self.view.names(&directory.path) {
            let inode = status::made_inode(&directory.join(&name));
            // What the host has there is hidden, unless it only leads to something.
            if self.view.entry(&directory.join(&name)).is_some() {
                found.insert(name, (inode, kind));
            } else {
                found.entry(name).or_insert((inode, kind));
            }
        }
        if directory.path == view::DESCRIPTORS {
            for (number, descriptor) in self.table.iter().enumerate() {
                if descriptor.is_some() {
                    let inode = status::made_inode(&directory.join(number.to_string().as_bytes()));
                    found.insert(number.to_string().into_bytes(), (inode, FileType::Symlink));
                }
            }
        }
        let number = |kind| match kind {
            FileType::Fifo => 1,
            FileType::CharacterDevice => 2,
            FileType::Directory => 4,
            FileType::BlockDevice => 6,
            FileType::RegularFile => 8,
            FileType::Symlink => 10,
            FileType::Socket => 12,
            FileType::Unknown => 0,
        };
        Ok(found
            .into_iter()
            .map(|(name, (inode, kind))| Entry {
                inode,
                kind: number(kind),
                name,
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let seen = Seen {
            access: &Access::default(),
            working: &std::env::current_dir().expect("there is a working directory"),
            program: b"/bin/program",
            arguments: &[],
            harts: 4,
            memory_bytes: 1 << 30,
        };
        Files::new(&seen).expect("the working directory can be opened")
    }

    #[test]
    fn the_lowest_free_descriptor_is_taken() {
        let mut files = files();
        files.table.truncate(0);
        let add = |files: &mut Files| {
            files
                .add(Kind::Device(Device::Null), 0)
                .map_err(|errno| errno.0)
        };
        assert_eq!(
            [add(&mut files), add(&mut files), add(&mut files)],
            [Ok(0), Ok(1), Ok(2)]
        );
        files.table[1] = None;
        assert_eq!(files.duplicate(0, 0, true), Ok(1));
        assert_eq!(files.duplicate(0, 10, false), Ok(10));
        assert_eq!(add(&mut files), Ok(3));
        assert_eq!(files.get(9).err(), Some(Errno::BADF));
        assert_eq!(
            files.duplicate(0, MAXIMUM_FILES as u64, false),
            Err(Errno::INVAL.into())
        );
        while add(&mut files).is_ok() {}
        assert_eq!(add(&mut files), Err(Errno::MFILE.0));
        assert_eq!(files.table.len(), MAXIMUM_FILES);
    }

    #[test]
    fn a_program_learns_of_its_own_machine() {
        let files = files();
        let made = |path: &[u8]| {
            let found = files.find(&files.current, path, paths::Last::Follow);
            match found.and_then(paths::Found::existing) {
                Ok(paths::Node::Text(content)) => {
                    String::from_utf8(content.to_vec()).expect("it is text")
                }
                other => format!("{other:?}"),
            }
        };
        assert_eq!(made(b"/sys/devices/system/cpu/online"), "0-3\n");
        assert_eq!(made(b"/proc/cpuinfo").matches("rv64").count(), 4);
        assert!(made(b"//proc/../proc/./meminfo").starts_with("MemTotal:        1048576 kB"));
        assert_eq!(made(b"/proc/1/maps"), format!("Err({:?})", Errno::NOENT));
        assert_eq!(made(b"/process"), format!("Err({:?})", Errno::NOENT));
    }
}
