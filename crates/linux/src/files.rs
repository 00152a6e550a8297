//! Open files and the calls that use them. `view.rs` defines the files that a program can reach,
//! `paths.rs` resolves paths, and `names.rs` has the calls that take a path.

mod descriptors;
mod directories;
mod names;
mod paths;
mod private;
mod status;
mod transfers;
mod view;

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::sockets::Socket;
use crate::streams::{ReadEnd, WriteEnd};
use crate::user::Outcome;
use directories::Entry;
pub(crate) use names::AT_FDCWD;
use paths::{Device, Directory, HostDirectory};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode};
use std::cell::RefCell;
use std::rc::Rc;
pub(crate) use view::Seen;
use view::View;
pub use view::{Access, FilesError, Reach};

/// Maximum number of open files.
pub(crate) const MAXIMUM_FILES: usize = 1024;

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
    /// A file that only this server has, with its content and position.
    Made {
        content: Rc<[u8]>,
        position: usize,
    },
    /// A device that only this server has.
    Device(Device),
    /// An end of a pipe, for reading or for writing.
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
    /// Whether its mode, owner and times may be changed.
    changeable: bool,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    directory: Directory,
    /// While the directory is being read: its entries by name, and the number already returned.
    listing: Option<(Vec<Entry>, usize)>,
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

    /// Whether it is a file of the host that may have nothing to read yet.
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

    /// The host's descriptor for it.
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

    /// The host's descriptor, if mode, owner and times may be changed.
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

    /// Its target as shown in `/proc/self/fd`.
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

/// The place of a program: its path, its directory, and its name there.
pub(crate) type ProgramPlace = (Vec<u8>, Rc<HostDirectory>, Vec<u8>);

/// A process's files. A child has a copy of the table, with the same open files.
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
    /// A table with the caller's standard input, output and error, and the tree that paths are
    /// resolved in.
    pub fn new(seen: &Seen<'_>) -> Result<Files, FilesError> {
        // This precedes all opening, which would reuse the number of a closed descriptor.
        let standard = [
            (std::io::stdin().as_fd().try_clone_to_owned(), 0),
            (std::io::stdout().as_fd().try_clone_to_owned(), O_WRONLY),
            (std::io::stderr().as_fd().try_clone_to_owned(), O_WRONLY),
        ];
        let (view, current) = View::new(seen)?;
        // A descriptor that the caller has closed is closed for the program, too.
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

    /// Closes the files that are marked close-on-exec when the process executes another program.
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

    /// Assigns a file the lowest free descriptor from `from` on.
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
                 (--max-output); the call returns ENOSPC"
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
    /// The mode that a program gives to a file. A set-user-ID file, which runs with the rights of
    /// the simulator's user, would be an escape from the sandbox.
    fn new_mode(&self, kind: FileType, mode: u64) -> Result<Mode, Errno> {
        const SET_IDENTITY: u64 = 0o6000;
        if mode & SET_IDENTITY != 0 && kind != FileType::Directory && !self.view.all_rights {
            return Err(Errno::PERM);
        }
        Ok(Mode::from_raw_mode(mode as u32 & 0o7777))
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
