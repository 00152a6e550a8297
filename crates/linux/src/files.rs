//! Open files, and the calls about files of the host, which are made with the rights of whoever
//! runs the simulator.

use crate::errno::Errno;
use crate::kernel::{Call, Kernel, PROCESS_ID};
use crate::signals::SIGPIPE;
use crate::sockets::Socket;
use crate::streams::{ReadEnd, WriteEnd, stream};
use crate::user::{Outcome, Pause, check};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use std::cell::RefCell;
use std::rc::Rc;

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

const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_SYMLINK_FOLLOW: u64 = 0x400;
const AT_EMPTY_PATH: u64 = 0x1000;

/// What a file is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A file, directory or device of the host.
    Host(HostFile),
    /// A file that only this server has: content and position.
    Made {
        content: Vec<u8>,
        position: usize,
    },
    /// An endless source of random bytes.
    Random,
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
    /// For directories that are being read: their entries by name, and how many have been told.
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

    fn host(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &self.kind {
            Kind::Host(file) => Ok(file.fd.as_fd()),
            _ => Err(Errno::INVAL),
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

/// What stands at a path.
enum Found {
    /// Whatever the host has there.
    Host,
    /// A file of this server.
    Made(Vec<u8>),
    Random,
    /// The program itself.
    Program,
    /// Nothing: the host's would tell of another machine.
    Nothing,
}

/// The process's files.
pub(crate) struct Files {
    table: Vec<Option<Descriptor>>,
    current: OwnedFd,
    umask: u64,
    program: Vec<u8>,
    harts: usize,
    memory_bytes: u64,
}

impl Files {
    /// The caller's standard input, output and error, and its current directory. `program` is the
    /// program's path.
    pub fn new(program: Vec<u8>, harts: usize, memory_bytes: u64) -> std::io::Result<Files> {
        let standard = [
            (std::io::stdin().as_fd().try_clone_to_owned(), 0),
            (std::io::stdout().as_fd().try_clone_to_owned(), O_WRONLY),
            (std::io::stderr().as_fd().try_clone_to_owned(), O_WRONLY),
        ];
        // One that the caller has closed is closed for the program, too.
        let table = standard
            .into_iter()
            .map(|(fd, flags)| {
                let kind = Kind::Host(HostFile {
                    fd: fd.ok()?,
                    listing: None,
                });
                let terminal = match &kind {
                    Kind::Host(file) => rustix::termios::isatty(&file.fd),
                    _ => false,
                };
                let flags = if terminal { O_RDWR } else { flags };
                Some(Descriptor {
                    file: Rc::new(RefCell::new(OpenFile { kind, flags })),
                    close_on_exec: false,
                })
            })
            .collect();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Files {
            table,
            current: fs::open(".", flags, Mode::empty())?,
            umask: 0o022,
            program,
            harts,
            memory_bytes,
        })
    }

    /// The last part of the program's path.
    pub fn program_name(&self) -> &[u8] {
        self.program
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
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

    pub fn duplicate(&mut self, fd: u64, from: u64, close_on_exec: bool) -> Outcome {
        let file = self.get(fd)?;
        if from >= MAXIMUM_FILES as u64 {
            return Err(Errno::INVAL.into());
        }
        Ok(self.put(file, from as usize, close_on_exec)?)
    }

    fn found(&self, path: &[u8]) -> Found {
        let below = |top: &[u8]| {
            path.strip_prefix(top)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let harts = self.harts;
        match path {
            b"/dev/random" | b"/dev/urandom" => return Found::Random,
            b"/proc/self/exe" => return Found::Program,
            b"/sys/devices/system/cpu/online"
            | b"/sys/devices/system/cpu/possible"
            | b"/sys/devices/system/cpu/present" => {
                let last = harts - 1;
                return Found::Made(if last == 0 {
                    b"0\n".to_vec()
                } else {
                    format!("0-{last}\n").into_bytes()
                });
            }
            b"/proc/cpuinfo" => {
                let one = |hart| {
                    format!(
                        "processor\t: {hart}\nhart\t\t: {hart}\nisa\t\t: \
                         rv64imafdc_zicsr_zifencei_zawrs_zba_zbb_zbs\nmmu\t\t: none\n\n"
                    )
                };
                return Found::Made((0..harts).map(one).collect::<String>().into_bytes());
            }
            b"/proc/meminfo" => {
                let total = self.memory_bytes / 1024;
                return Found::Made(
                    format!(
                        "MemTotal:       {total:8} kB\nMemFree:        {total:8} kB\n\
                         MemAvailable:   {total:8} kB\n"
                    )
                    .into_bytes(),
                );
            }
            _ => {}
        }
        if below(b"/proc") || below(b"/sys") {
            Found::Nothing
        } else {
            Found::Host
        }
    }
}

/// What `stat` tells.
#[derive(Default)]
struct Status {
    device: u64,
    inode: u64,
    mode: u32,
    links: u32,
    user: u32,
    group: u32,
    special: u64,
    size: u64,
    block_bytes: u64,
    blocks: u64,
    /// Seconds and nanoseconds of the last access, modification and change.
    times: [(i64, u64); 3],
}

impl Status {
    #[allow(clippy::unnecessary_cast)] // the types differ between hosts
    fn of_host(stat: &Stat) -> Status {
        Status {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            links: stat.st_nlink as u32,
            user: stat.st_uid,
            group: stat.st_gid,
            special: stat.st_rdev as u64,
            size: stat.st_size as u64,
            block_bytes: stat.st_blksize as u64,
            blocks: stat.st_blocks as u64,
            times: [
                (stat.st_atime as i64, stat.st_atime_nsec as u64),
                (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
                (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            ],
        }
    }

    fn made(mode: u32, size: u64) -> Status {
        Status {
            inode: 1,
            mode,
            links: 1,
            user: rustix::process::getuid().as_raw(),
            group: rustix::process::getgid().as_raw(),
            size,
            block_bytes: 4096,
            ..Status::default()
        }
    }

    fn of_file(file: &OpenFile) -> Result<Status, Errno> {
        const REGULAR: u32 = 0o100_444;
        const CHARACTER: u32 = 0o020_666;
        const FIFO: u32 = 0o010_600;
        const SOCKET: u32 = 0o140_777;
        Ok(match &file.kind {
            Kind::Host(host) => Status::of_host(&fs::fstat(&host.fd)?),
            Kind::Made { content, .. } => Status::made(REGULAR, content.len() as u64),
            Kind::Random => Status::made(CHARACTER, 0),
            Kind::PipeOut(_) | Kind::PipeIn(_) => Status::made(FIFO, 0),
            Kind::Socket(_) => Status::made(SOCKET, 0),
            Kind::Event { .. } | Kind::Epoll(_) => Status::made(0o600, 0),
        })
    }

    /// As `struct stat`.
    fn stat(&self) -> Vec<u8> {
        let [(accessed, a), (modified, m), (changed, c)] = self.times;
        let words = [
            self.device,
            self.inode,
            u64::from(self.mode) | u64::from(self.links) << 32,
            u64::from(self.user) | u64::from(self.group) << 32,
            self.special,
            0,
            self.size,
            self.block_bytes,
            self.blocks,
            accessed as u64,
            a,
            modified as u64,
            m,
            changed as u64,
            c,
            0,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// As `struct statx`.
    fn statx(&self) -> Vec<u8> {
        const BASIC: u64 = 0x7ff;
        let split = |device: u64| u64::from(fs::major(device)) | u64::from(fs::minor(device)) << 32;
        let [accessed, modified, changed] = self.times;
        let mut words = vec![
            BASIC | self.block_bytes << 32,
            0,
            u64::from(self.links) | u64::from(self.user) << 32,
            u64::from(self.group) | u64::from(self.mode) << 32,
            self.inode,
            self.size,
            self.blocks,
            0,
        ];
        for (seconds, nanoseconds) in [accessed, (0, 0), changed, modified] {
            words.extend([seconds as u64, nanoseconds]);
        }
        words.extend([split(self.special), split(self.device)]);
        words.resize(32, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
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

    /// Does something with the directory that a path begins at.
    fn in_directory<T>(
        &self,
        fd: u64,
        act: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Outcome<T> {
        if fd as i32 == AT_FDCWD {
            return Ok(act(self.files.current.as_fd())?);
        }
        let file = self.files.get(fd)?;
        let file = file.borrow();
        let directory = file.host().map_err(|_| Errno::NOTDIR)?;
        Ok(act(directory)?)
    }

    /// The path of a call, and the directory for it, where absolute paths need none.
    fn path(&self, call: &mut Call, directory: u64, address: u64) -> Outcome<(u64, Vec<u8>)> {
        let path = call.user.string(address)?;
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let directory = if path[0] == b'/' {
            AT_FDCWD as u64
        } else {
            directory
        };
        Ok((directory, path))
    }

    pub fn openat(
        &mut self,
        call: &mut Call,
        directory: u64,
        address: u64,
        flags: u64,
        mode: u64,
    ) -> Outcome {
        let (directory, mut path) = self.path(call, directory, address)?;
        match self.files.found(&path) {
            Found::Host => {}
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Made(content) => {
                let kind = Kind::Made {
                    content,
                    position: 0,
                };
                return Ok(self.files.add(kind, flags)?);
            }
            Found::Random => return Ok(self.files.add(Kind::Random, flags)?),
            Found::Program => path.clone_from(&self.files.program),
        }
        let table = [
            (O_WRONLY, OFlags::WRONLY),
            (O_RDWR, OFlags::RDWR),
            (O_CREAT, OFlags::CREATE),
            (O_EXCL, OFlags::EXCL),
            (O_NOCTTY, OFlags::NOCTTY),
            (O_TRUNC, OFlags::TRUNC),
            (O_APPEND, OFlags::APPEND),
            (O_NONBLOCK, OFlags::NONBLOCK),
            (O_DSYNC, OFlags::DSYNC),
            (O_DIRECTORY, OFlags::DIRECTORY),
            (O_NOFOLLOW, OFlags::NOFOLLOW),
            (O_PATH, OFlags::PATH),
            (O_TMPFILE, OFlags::TMPFILE),
        ];
        let host_flags = table
            .iter()
            .filter(|(one, _)| flags & one == *one)
            .fold(OFlags::CLOEXEC, |all, (_, one)| all | *one);
        let mode = Mode::from_raw_mode((mode & 0o7777 & !self.files.umask) as u32);
        let fd = self.in_directory(directory, |at| {
            fs::openat(at, path.as_slice(), host_flags, mode)
        });
        if fd.as_ref().err() == Some(&Pause::Error(Errno::INTR)) {
            return Err(self.interrupted_by_host());
        }
        let kind = Kind::Host(HostFile {
            fd: fd?,
            listing: None,
        });
        Ok(self.files.add(kind, flags)?)
    }

    pub fn close(&mut self, fd: u64) -> Outcome {
        let entry = self.files.table.get_mut(fd as u32 as usize);
        entry.and_then(Option::take).ok_or(Errno::BADF)?;
        self.changed = true;
        Ok(0)
    }

    pub fn close_range(&mut self, first: u64, last: u64, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 4;
        let end = (last as u32 as usize).saturating_add(1);
        for fd in first as u32 as usize..end.min(self.files.table.len()) {
            if flags & CLOSE_ON_EXEC != 0 {
                if let Some(entry) = &mut self.files.table[fd] {
                    entry.close_on_exec = true;
                }
            } else if self.files.table[fd].is_some() {
                self.close(fd as u64)?;
            }
        }
        Ok(0)
    }

    pub fn dup3(&mut self, from: u64, to: u64, flags: u64) -> Outcome {
        let file = self.files.get(from)?;
        if from == to {
            return Err(Errno::INVAL.into());
        }
        if to as u32 as usize >= MAXIMUM_FILES {
            return Err(Errno::BADF.into());
        }
        if self.files.get(to).is_ok() {
            self.close(to)?;
        }
        Ok(self.files.put(file, to as usize, flags & O_CLOEXEC != 0)?)
    }

    pub fn fcntl(&mut self, fd: u64, command: u64, argument: u64) -> Outcome {
        let file = self.files.get(fd)?;
        match command {
            0 => self.files.duplicate(fd, argument, false),
            1030 => self.files.duplicate(fd, argument, true),
            1 | 2 => {
                let Some(Some(entry)) = self.files.table.get_mut(fd as u32 as usize) else {
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
        const TIOCGWINSZ: u64 = 0x5413;
        const FIONREAD: u64 = 0x541b;
        const FIONBIO: u64 = 0x5421;
        const FIONCLEX: u64 = 0x5450;
        const FIOCLEX: u64 = 0x5451;
        let file = self.files.get(fd)?;
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
                call.user.write_u32(address, PROCESS_ID)?;
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn pipe(&mut self, call: &mut Call, address: u64, flags: u64) -> Outcome {
        check(address, 8)?;
        let (reader, writer) = stream();
        let flags = flags & (O_NONBLOCK | O_CLOEXEC);
        let from = self.files.add(Kind::PipeOut(reader), flags)?;
        let to = self.files.add(Kind::PipeIn(writer), flags | O_WRONLY)?;
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
        Ok(self.files.add(kind, flags & !SEMAPHORE | O_RDWR)?)
    }

    pub fn memfd_create(&mut self, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 1;
        let fd = fs::memfd_create("nanoplane", fs::MemfdFlags::CLOEXEC)?;
        let kind = Kind::Host(HostFile { fd, listing: None });
        let flags = if flags & CLOSE_ON_EXEC != 0 {
            O_CLOEXEC | O_RDWR
        } else {
            O_RDWR
        };
        Ok(self.files.add(kind, flags)?)
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
            check(address, length)?;
            total = total.saturating_add(length);
        }
        let most = total.min(MAXIMUM_TRANSFER_BYTES);
        let file = self.files.get(fd)?;
        if file.borrow().is_socket() {
            return self.receive(call, fd, buffers, 0, (0, 0));
        }
        let mut file = file.borrow_mut();
        if file.flags & O_ACCESS == O_WRONLY || file.flags & O_PATH != 0 {
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
            Kind::Random => self.random_bytes(most),
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
        hart: usize,
        call: &mut Call,
        fd: u64,
        buffers: &[(u64, u64)],
        position: Option<u64>,
    ) -> Outcome {
        let file = self.files.get(fd)?;
        if file.borrow().flags & (O_ACCESS | O_PATH) == 0 || file.borrow().flags & O_PATH != 0 {
            return Err(Errno::BADF.into());
        }
        if file.borrow().is_socket() {
            return self.send(hart, call, fd, buffers, 0, (0, 0));
        }
        let bytes = call.user.gather(buffers, MAXIMUM_TRANSFER_BYTES)?;
        self.write_bytes(hart, call, &file, &bytes, position)
    }

    fn write_bytes(
        &mut self,
        hart: usize,
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
                    Err(rustix::io::Errno::PIPE) => Err(self.broken_pipe(hart)),
                    other => Ok(other? as u64),
                }
            }
            Kind::Random => Ok(bytes.len() as u64),
            _ if position.is_some() => Err(Errno::SPIPE.into()),
            Kind::PipeIn(end) => {
                let end = &*end;
                self.pour(hart, call, end, bytes, nonblocking)
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
        hart: usize,
        call: &mut Call,
        end: &WriteEnd,
        bytes: &[u8],
        nonblocking: bool,
    ) -> Outcome {
        if end.reader_gone() {
            return Err(self.broken_pipe(hart));
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
    pub fn broken_pipe(&mut self, hart: usize) -> Pause {
        self.send_signal(Some(hart), SIGPIPE);
        Errno::PIPE.into()
    }

    /// `sendfile`: from a file, whose position may be in memory, to any other.
    pub fn sendfile(
        &mut self,
        hart: usize,
        call: &mut Call,
        to: u64,
        from: u64,
        offset: u64,
        count: u64,
    ) -> Outcome {
        const CHUNK_BYTES: u64 = 65536;
        let source = self.files.get(from)?;
        let target = self.files.get(to)?;
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
        let written = self.write_bytes(hart, call, &target, &bytes, None)?;
        let end = start + written;
        if offset == 0 {
            fs::seek(source.borrow().host()?, SeekFrom::Start(end))?;
        } else {
            call.user.write_words(offset, &[end])?;
        }
        Ok(written)
    }

    pub fn lseek(&mut self, fd: u64, offset: u64, whence: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let mut file = file.borrow_mut();
        match &mut file.kind {
            Kind::Host(host) => {
                if let Some((entries, told)) = &mut host.listing
                    && whence == 0
                {
                    *told = (offset as usize).min(entries.len());
                    if offset == 0 {
                        host.listing = None; // to be read again
                    }
                    return Ok(offset);
                }
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
            Kind::Random => Ok(0),
            _ => Err(Errno::SPIPE.into()),
        }
    }

    /// What `mmap` puts into memory.
    pub fn file_content(&mut self, fd: u64, offset: u64, length: u64) -> Outcome<Vec<u8>> {
        let file = self.files.get(fd)?;
        let file = file.borrow();
        let host = file.host().map_err(|_| Errno::NODEV)?;
        let left = (fs::fstat(host)?.st_size as u64).saturating_sub(offset);
        let mut bytes = vec![0; left.min(length) as usize];
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
        check(address, size)?;
        let file = self.files.get(fd)?;
        let mut file = file.borrow_mut();
        let Kind::Host(host) = &mut file.kind else {
            return Err(Errno::NOTDIR.into());
        };
        if host.listing.is_none() {
            host.listing = Some((entries(&host.fd)?, 0));
        }
        let Some((entries, told)) = &mut host.listing else {
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

    fn status_at(
        &mut self,
        call: &mut Call,
        directory: u64,
        address: u64,
        flags: u64,
    ) -> Outcome<Status> {
        // Some C libraries give no path at all with AT_EMPTY_PATH.
        let empty =
            flags & AT_EMPTY_PATH != 0 && (address == 0 || call.user.string(address)?.is_empty());
        if empty {
            if directory as i32 == AT_FDCWD {
                return Ok(Status::of_host(&fs::fstat(&self.files.current)?));
            }
            let file = self.files.get(directory)?;
            return Ok(Status::of_file(&file.borrow())?);
        }
        let (directory, mut path) = self.path(call, directory, address)?;
        match self.files.found(&path) {
            Found::Host => {}
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Made(content) => return Ok(Status::made(0o100_444, content.len() as u64)),
            Found::Random => return Ok(Status::made(0o020_666, 0)),
            Found::Program => path.clone_from(&self.files.program),
        }
        let follow = if flags & AT_SYMLINK_NOFOLLOW != 0 {
            AtFlags::SYMLINK_NOFOLLOW
        } else {
            AtFlags::empty()
        };
        self.in_directory(directory, |at| fs::statat(at, path.as_slice(), follow))
            .map(|stat| Status::of_host(&stat))
    }

    pub fn fstatat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        address: u64,
        flags: u64,
    ) -> Outcome {
        let status = self.status_at(call, directory, path, flags)?;
        call.user.write(address, status.stat())?;
        Ok(0)
    }

    pub fn fstat(&mut self, call: &mut Call, fd: u64, address: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let status = Status::of_file(&file.borrow())?;
        call.user.write(address, status.stat())?;
        Ok(0)
    }

    pub fn statx(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        flags: u64,
        address: u64,
    ) -> Outcome {
        let status = self.status_at(call, directory, path, flags)?;
        call.user.write(address, status.statx())?;
        Ok(0)
    }

    fn write_statfs(call: &mut Call, address: u64, stat: &fs::StatFs) -> Outcome {
        #[allow(clippy::unnecessary_cast)] // the types differ between hosts
        let mut words = vec![
            stat.f_type as u64,
            stat.f_bsize as u64,
            stat.f_blocks as u64,
            stat.f_bfree as u64,
            stat.f_bavail as u64,
            stat.f_files as u64,
            stat.f_ffree as u64,
            0,
            stat.f_namelen as u64,
            stat.f_frsize as u64,
        ];
        words.resize(15, 0);
        call.user.write_words(address, &words)?;
        Ok(0)
    }

    pub fn statfs(&mut self, call: &mut Call, path: u64, address: u64) -> Outcome {
        let (directory, path) = self.path(call, AT_FDCWD as u64, path)?;
        let fd = self.in_directory(directory, |at| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            fs::openat(at, path.as_slice(), flags, Mode::empty())
        })?;
        Self::write_statfs(call, address, &fs::fstatfs(&fd)?)
    }

    pub fn fstatfs(&mut self, call: &mut Call, fd: u64, address: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let stat = fs::fstatfs(file.borrow().host()?)?;
        Self::write_statfs(call, address, &stat)
    }

    pub fn readlinkat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        address: u64,
        size: u64,
    ) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let target = match self.files.found(&path) {
            Found::Program => self.files.program.clone(),
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Made(_) | Found::Random => return Err(Errno::INVAL.into()),
            Found::Host => self
                .in_directory(directory, |at| {
                    fs::readlinkat(at, path.as_slice(), Vec::new())
                })?
                .into_bytes(),
        };
        let length = (target.len() as u64).min(size);
        call.user
            .write(address, target[..length as usize].to_vec())?;
        Ok(length)
    }

    pub fn getcwd(&mut self, call: &mut Call, address: u64, size: u64) -> Outcome {
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", self.files.current.as_raw_fd());
        let mut path = fs::readlink(own, Vec::new())?.into_bytes();
        path.push(0);
        if path.len() as u64 > size {
            return Err(Errno::RANGE.into());
        }
        let length = path.len() as u64;
        call.user.write(address, path)?;
        Ok(length)
    }

    pub fn chdir(&mut self, call: &mut Call, path: u64) -> Outcome {
        let (directory, path) = self.path(call, AT_FDCWD as u64, path)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.files.current = self.in_directory(directory, |at| {
            fs::openat(at, path.as_slice(), flags, Mode::empty())
        })?;
        Ok(0)
    }

    pub fn fchdir(&mut self, fd: u64) -> Outcome {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.files.current =
            self.in_directory(fd, |at| fs::openat(at, c".", flags, Mode::empty()))?;
        Ok(0)
    }

    pub fn umask(&mut self, mask: u64) -> Outcome {
        let old = self.files.umask;
        self.files.umask = mask & 0o777;
        Ok(old)
    }

    pub fn faccessat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        mode: u64,
        flags: u64,
    ) -> Outcome {
        const WRITE: u64 = 2;
        let (directory, mut path) = self.path(call, directory, path)?;
        match self.files.found(&path) {
            Found::Host => {}
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Made(_) if mode & WRITE != 0 => return Err(Errno::ACCES.into()),
            Found::Made(_) | Found::Random => return Ok(0),
            Found::Program => path.clone_from(&self.files.program),
        }
        let access = fs::Access::from_bits_truncate(mode as u32);
        let mut at_flags = AtFlags::empty();
        if flags & 0x200 != 0 {
            at_flags |= AtFlags::EACCESS;
        }
        self.in_directory(directory, |at| {
            fs::accessat(at, path.as_slice(), access, at_flags)
        })?;
        Ok(0)
    }

    fn mode(&self, mode: u64) -> Mode {
        Mode::from_raw_mode((mode & 0o7777 & !self.files.umask) as u32)
    }

    pub fn mkdirat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let mode = self.mode(mode);
        self.in_directory(directory, |at| fs::mkdirat(at, path.as_slice(), mode))?;
        Ok(0)
    }

    /// `mknodat`, for pipes with a name and plain files.
    pub fn mknodat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let kind = match mode & 0o170_000 {
            0 | 0o100_000 => FileType::RegularFile,
            0o010_000 => FileType::Fifo,
            _ => return Err(Errno::PERM.into()),
        };
        let mode = self.mode(mode);
        self.in_directory(directory, |at| {
            fs::mknodat(at, path.as_slice(), kind, mode, 0)
        })?;
        Ok(0)
    }

    pub fn unlinkat(&mut self, call: &mut Call, directory: u64, path: u64, flags: u64) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let flags = if flags & AT_REMOVEDIR != 0 {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        self.in_directory(directory, |at| fs::unlinkat(at, path.as_slice(), flags))?;
        Ok(0)
    }

    pub fn symlinkat(
        &mut self,
        call: &mut Call,
        target: u64,
        directory: u64,
        path: u64,
    ) -> Outcome {
        let target = call.user.string(target)?;
        let (directory, path) = self.path(call, directory, path)?;
        self.in_directory(directory, |at| {
            fs::symlinkat(target.as_slice(), at, path.as_slice())
        })?;
        Ok(0)
    }

    pub fn linkat(
        &mut self,
        call: &mut Call,
        from_directory: u64,
        from: u64,
        to_directory: u64,
        to: u64,
        flags: u64,
    ) -> Outcome {
        let (from_directory, from) = self.path(call, from_directory, from)?;
        let (to_directory, to) = self.path(call, to_directory, to)?;
        let flags = if flags & AT_SYMLINK_FOLLOW != 0 {
            AtFlags::SYMLINK_FOLLOW
        } else {
            AtFlags::empty()
        };
        self.in_both(from_directory, to_directory, |one, other| {
            fs::linkat(one, from.as_slice(), other, to.as_slice(), flags)
        })
    }

    pub fn renameat(
        &mut self,
        call: &mut Call,
        from_directory: u64,
        from: u64,
        to_directory: u64,
        to: u64,
        flags: u64,
    ) -> Outcome {
        let (from_directory, from) = self.path(call, from_directory, from)?;
        let (to_directory, to) = self.path(call, to_directory, to)?;
        let flags = fs::RenameFlags::from_bits_truncate(flags as u32);
        self.in_both(from_directory, to_directory, |one, other| {
            if flags.is_empty() {
                fs::renameat(one, from.as_slice(), other, to.as_slice())
            } else {
                fs::renameat_with(one, from.as_slice(), other, to.as_slice(), flags)
            }
        })
    }

    /// Does something with two directories.
    fn in_both(
        &self,
        one: u64,
        other: u64,
        act: impl FnOnce(BorrowedFd<'_>, BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> Outcome {
        self.in_directory(one, |one| {
            self.in_directory(other, |other| act(one, other))
                .map_err(|pause| match pause {
                    Pause::Error(errno) => rustix::io::Errno::from_raw_os_error(errno.0),
                    _ => rustix::io::Errno::INVAL,
                })
        })?;
        Ok(0)
    }

    pub fn truncate(&mut self, call: &mut Call, path: u64, length: u64) -> Outcome {
        let (directory, path) = self.path(call, AT_FDCWD as u64, path)?;
        let fd = self.in_directory(directory, |at| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            fs::openat(at, path.as_slice(), flags, Mode::empty())
        })?;
        fs::ftruncate(&fd, length)?;
        Ok(0)
    }

    pub fn ftruncate(&mut self, fd: u64, length: u64) -> Outcome {
        let file = self.files.get(fd)?;
        fs::ftruncate(file.borrow().host()?, length)?;
        Ok(0)
    }

    pub fn fallocate(&mut self, fd: u64, mode: u64, offset: u64, length: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let mode = fs::FallocateFlags::from_bits_truncate(mode as u32);
        fs::fallocate(file.borrow().host()?, mode, offset, length)?;
        Ok(0)
    }

    pub fn fsync(&mut self, fd: u64) -> Outcome {
        let file = self.files.get(fd)?;
        fs::fsync(file.borrow().host()?)?;
        Ok(0)
    }

    pub fn fchmod(&mut self, fd: u64, mode: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let mode = Mode::from_raw_mode(mode as u32 & 0o7777);
        fs::fchmod(file.borrow().host()?, mode)?;
        Ok(0)
    }

    pub fn fchmodat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let mode = Mode::from_raw_mode(mode as u32 & 0o7777);
        self.in_directory(directory, |at| {
            fs::chmodat(at, path.as_slice(), mode, AtFlags::empty())
        })?;
        Ok(0)
    }

    fn owner(user: u64, group: u64) -> (Option<fs::Uid>, Option<fs::Gid>) {
        let given = |id: u64| (id as u32 != u32::MAX).then_some(id as u32);
        (
            given(user).map(fs::Uid::from_raw),
            given(group).map(fs::Gid::from_raw),
        )
    }

    pub fn fchown(&mut self, fd: u64, user: u64, group: u64) -> Outcome {
        let file = self.files.get(fd)?;
        let (user, group) = Self::owner(user, group);
        fs::fchown(file.borrow().host()?, user, group)?;
        Ok(0)
    }

    pub fn fchownat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        user: u64,
        group: u64,
        flags: u64,
    ) -> Outcome {
        let (directory, path) = self.path(call, directory, path)?;
        let (user, group) = Self::owner(user, group);
        let flags = if flags & AT_SYMLINK_NOFOLLOW != 0 {
            AtFlags::SYMLINK_NOFOLLOW
        } else {
            AtFlags::empty()
        };
        self.in_directory(directory, |at| {
            fs::chownat(at, path.as_slice(), user, group, flags)
        })?;
        Ok(0)
    }

    pub fn utimensat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        times: u64,
        flags: u64,
    ) -> Outcome {
        let now = crate::time::timespec(crate::kernel::EPOCH_NS + self.now_ns());
        let [a, b, c, d] = match times {
            0 => [now[0], now[1], now[0], now[1]],
            _ => call.user.words::<4>(times)?,
        };
        const UTIME_NOW: u64 = 0x3fff_ffff;
        let time = |seconds: u64, nanoseconds: u64| {
            let [seconds, nanoseconds] = if nanoseconds == UTIME_NOW {
                now
            } else {
                [seconds, nanoseconds]
            };
            fs::Timespec {
                tv_sec: seconds as i64,
                tv_nsec: nanoseconds as _,
            }
        };
        let times = fs::Timestamps {
            last_access: time(a, b),
            last_modification: time(c, d),
        };
        if path == 0 {
            let file = self.files.get(directory)?;
            fs::futimens(file.borrow().host()?, &times)?;
            return Ok(0);
        }
        let (directory, path) = self.path(call, directory, path)?;
        let flags = if flags & AT_SYMLINK_NOFOLLOW != 0 {
            AtFlags::SYMLINK_NOFOLLOW
        } else {
            AtFlags::empty()
        };
        self.in_directory(directory, |at| {
            fs::utimensat(at, path.as_slice(), &times, flags)
        })?;
        Ok(0)
    }
}

/// What is in a directory, by name: the host's order may be any.
fn entries(directory: &OwnedFd) -> Result<Vec<Entry>, Errno> {
    let mut entries = Vec::new();
    for entry in fs::Dir::read_from(directory)? {
        let entry = entry?;
        entries.push(Entry {
            inode: entry.ino(),
            kind: match entry.file_type() {
                FileType::Fifo => 1,
                FileType::CharacterDevice => 2,
                FileType::Directory => 4,
                FileType::BlockDevice => 6,
                FileType::RegularFile => 8,
                FileType::Symlink => 10,
                FileType::Socket => 12,
                FileType::Unknown => 0,
            },
            name: entry.file_name().to_bytes().to_vec(),
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        Files::new(b"/bin/program".to_vec(), 4, 1 << 30).expect("there is a current directory")
    }

    #[test]
    fn the_lowest_free_descriptor_is_taken() {
        let mut files = files();
        files.table.truncate(0);
        let add = |files: &mut Files| files.add(Kind::Random, 0).map_err(|errno| errno.0);
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
        let made = |path: &[u8]| match files.found(path) {
            Found::Made(content) => String::from_utf8(content).expect("it is text"),
            _ => String::new(),
        };
        assert_eq!(made(b"/sys/devices/system/cpu/online"), "0-3\n");
        assert_eq!(made(b"/proc/cpuinfo").matches("rv64").count(), 4);
        assert!(made(b"/proc/meminfo").starts_with("MemTotal:        1048576 kB"));
        assert!(matches!(files.found(b"/proc/1/maps"), Found::Nothing));
        assert!(matches!(files.found(b"/process"), Found::Host));
    }
}
