//! The calls that take a path.

use super::paths::{Directory, Found, HostDirectory, HostEntry, Last, Node};
use super::{
    FileReference, HostFile, Kind, O_ACCESS, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_DSYNC,
    O_EXCL, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
    OpenDirectory, ProgramPlace,
};
use crate::errno::Errno;
use crate::execute::{ELF, SCRIPT_LINE_BYTES};
use crate::kernel::{Call, Kernel};
use crate::user::Outcome;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use std::io::Read;
use std::rc::Rc;

pub(crate) const AT_FDCWD: i32 = -100;
pub(super) const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub(super) const AT_EMPTY_PATH: u64 = 0x1000;
const AT_EACCESS: u64 = 0x200;
const AT_REMOVEDIR: u64 = 0x200;
const AT_SYMLINK_FOLLOW: u64 = 0x400;

/// The owner in a call; all ones means unchanged.
pub(super) fn owner(user: u64, group: u64) -> (Option<fs::Uid>, Option<fs::Gid>) {
    let given = |id: u64| (id as u32 != u32::MAX).then_some(id as u32);
    (
        given(user).map(fs::Uid::from_raw),
        given(group).map(fs::Gid::from_raw),
    )
}

/// The treatment of a final symbolic link, according to the flag AT_SYMLINK_NOFOLLOW.
fn last(flags: u64) -> Last {
    if flags & AT_SYMLINK_NOFOLLOW != 0 {
        Last::Keep
    } else {
        Last::Follow
    }
}

/// A program to execute.
pub(crate) struct ProgramFile {
    pub bytes: Vec<u8>,
    pub place: ProgramPlace,
}

impl Kernel {
    /// The directory that a relative path starts from.
    fn start(&self, fd: u64) -> Result<Directory, Errno> {
        if fd as i32 == AT_FDCWD {
            return Ok(self.process.files.current.clone());
        }
        let file = self.process.files.get(fd)?;
        let file = file.borrow();
        file.directory().cloned().ok_or(Errno::NOTDIR)
    }

    /// Resolves the path of a call.
    pub(super) fn find(
        &self,
        call: &mut Call,
        directory: u64,
        address: u64,
        last: Last,
    ) -> Outcome<Found> {
        let path = call.user.string(address)?;
        self.find_path(directory, &path, last)
    }

    fn find_path(&self, directory: u64, path: &[u8], last: Last) -> Outcome<Found> {
        let start = if path.first() == Some(&b'/') {
            self.process.files.view.root()
        } else {
            self.start(directory)?
        };
        Ok(self.process.files.find(&start, path, last)?)
    }

    /// The host's directory in which a name can be made, removed or changed.
    fn place<'a>(&self, found: &'a Found) -> Result<&'a HostDirectory, Errno> {
        let directory = &found.directory;
        if found.name.is_empty()
            || self
                .process
                .files
                .view
                .entry(&directory.join(&found.name))
                .is_some()
        {
            return Err(Errno::BUSY);
        }
        match &directory.host {
            Some(host) if host.mount.writable => Ok(host),
            _ => Err(Errno::ROFS),
        }
    }

    /// Finds a place for a new name.
    fn find_free(&self, call: &mut Call, directory: u64, path: u64) -> Outcome<Found> {
        let found = self.find(call, directory, path, Last::Name)?;
        if found.node.is_some() {
            return Err(Errno::EXIST.into());
        }
        Ok(found)
    }

    pub fn openat(
        &mut self,
        call: &mut Call,
        directory: u64,
        address: u64,
        flags: u64,
        mode: u64,
    ) -> Outcome {
        let is_path = flags & O_PATH != 0;
        let flags = if is_path {
            flags & (O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW)
        } else {
            flags
        };
        if flags & O_ACCESS == O_ACCESS {
            return Err(Errno::INVAL.into());
        }
        let create = flags & O_CREAT != 0;
        let exclusive = create && flags & O_EXCL != 0;
        let last = if exclusive {
            Last::Name
        } else if flags & O_NOFOLLOW != 0 {
            Last::Keep
        } else {
            Last::Follow
        };
        let mut found = self.find(call, directory, address, last)?;
        let Some(node) = found.node.take() else {
            if !create {
                return Err(Errno::NOENT.into());
            }
            if found.slash || flags & O_DIRECTORY != 0 {
                return Err(Errno::ISDIR.into());
            }
            let host = self.place(&found)?;
            let fd = self.open_host(host, &found.name, flags, mode)?;
            return self.add_host(fd, found.directory.join(&found.name), host, flags);
        };
        if exclusive {
            return Err(Errno::EXIST.into());
        }
        if flags & O_DIRECTORY != 0 && !node.is_directory() {
            return Err(Errno::NOTDIR.into());
        }
        let writes = flags & O_ACCESS != 0 || flags & O_TRUNC != 0;
        match node {
            Node::Directory(directory) if flags & O_TMPFILE != 0 => {
                self.open_temporary(&directory, flags, mode)
            }
            Node::Directory(_) if create || writes => Err(Errno::ISDIR.into()),
            Node::Directory(directory) => self.open_directory(directory, flags),
            _ if flags & O_TMPFILE != 0 => Err(Errno::NOTDIR.into()),
            Node::Host(entry) if is_path => {
                let file = Kind::Host(HostFile {
                    fd: entry.fd,
                    path: Some(entry.path),
                    changeable: false,
                });
                Ok(self.process.files.add(file, flags)?)
            }
            Node::Host(entry) => {
                self.may_open(&entry)?;
                if writes && !entry.directory.mount.writable {
                    return Err(Errno::ROFS.into());
                }
                let flags = flags & !O_CREAT;
                let fd = self.open_host(&entry.directory, &entry.name, flags, mode)?;
                self.add_host(fd, entry.path, &entry.directory, flags)
            }
            Node::Text(_) if writes => Err(Errno::ACCES.into()),
            Node::Text(content) => {
                let position = 0;
                let file = Kind::Made { content, position };
                Ok(self.process.files.add(file, flags)?)
            }
            Node::Device(device) => Ok(self.process.files.add(Kind::Device(device), flags)?),
            Node::Link(..) => Err(Errno::LOOP.into()),
            Node::Open(file) => self.open_again(file, flags),
        }
    }

    /// Reads a program to execute.
    pub fn open_program(
        &mut self,
        directory: u64,
        path: &[u8],
        flags: u64,
    ) -> Outcome<ProgramFile> {
        const MODE_EXECUTE: u32 = 0o111;
        if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
            return Err(Errno::NOSYS.into());
        }
        let found = self.find_path(directory, path, last(flags))?;
        let entry = match found.existing()? {
            Node::Host(entry) => entry,
            Node::Link(..) => return Err(Errno::LOOP.into()),
            _ => return Err(Errno::ACCES.into()),
        };
        let is_file = FileType::from_raw_mode(entry.stat.st_mode) == FileType::RegularFile;
        if !is_file || entry.stat.st_mode & MODE_EXECUTE == 0 {
            return Err(Errno::ACCES.into());
        }
        let fd = self.open_host(&entry.directory, &entry.name, 0, 0)?;
        let length = fs::fstat(&fd)?.st_size as u64;
        if length > self.frames.borrow().free_bytes() {
            return Err(Errno::NOMEM.into());
        }
        let mut bytes = Vec::new();
        let mut file = std::fs::File::from(fd).take(SCRIPT_LINE_BYTES as u64);
        file.read_to_end(&mut bytes)?;
        // If the file is not a program, no more is read.
        if bytes.starts_with(ELF) {
            file.set_limit(length.saturating_sub(bytes.len() as u64));
            file.read_to_end(&mut bytes)?;
        }
        let place = (entry.path, entry.directory, entry.name);
        Ok(ProgramFile { bytes, place })
    }

    /// Whether an entry of the host may be opened. Devices and FIFOs reach beyond the files that
    /// the program is given; opening one may have effects or block for ever.
    fn may_open(&self, entry: &HostEntry) -> Result<(), Errno> {
        match entry.file_type() {
            FileType::RegularFile => Ok(()),
            FileType::Symlink => Err(Errno::LOOP),
            FileType::Socket => Err(Errno::NXIO),
            _ if self.process.files.view.all_rights => Ok(()),
            _ => Err(Errno::ACCES),
        }
    }

    fn open_host(
        &mut self,
        directory: &HostDirectory,
        name: &[u8],
        flags: u64,
        mode: u64,
    ) -> Outcome<OwnedFd> {
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
            (O_TMPFILE, OFlags::TMPFILE),
        ];
        let host_flags = table
            .iter()
            .filter(|(one, _)| flags & one == *one)
            .fold(OFlags::empty(), |all, (_, one)| all | *one);
        let mode = if host_flags.intersects(OFlags::CREATE) || flags & O_TMPFILE != 0 {
            self.creation_mode(FileType::RegularFile, mode)?
        } else {
            Mode::empty() // as openat2 demands
        };
        let (fd, stat) = match directory.open(name, host_flags, mode) {
            Err(Errno::INTR) => return Err(self.interrupted_by_host()),
            other => other?,
        };
        // The file may have been replaced since its path was resolved.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            && !self.process.files.view.all_rights
        {
            return Err(Errno::ACCES.into());
        }
        Ok(fd)
    }

    fn add_host(
        &mut self,
        fd: OwnedFd,
        path: Vec<u8>,
        directory: &HostDirectory,
        flags: u64,
    ) -> Outcome {
        let file = Kind::Host(HostFile {
            fd,
            path: Some(path),
            changeable: directory.mount.writable,
        });
        Ok(self.process.files.add(file, flags)?)
    }

    /// `O_TMPFILE`: a file without a name, which can never be given one here.
    fn open_temporary(&mut self, directory: &Directory, flags: u64, mode: u64) -> Outcome {
        if flags & O_ACCESS == 0 || flags & O_DIRECTORY == 0 || flags & O_CREAT != 0 {
            return Err(Errno::INVAL.into());
        }
        let host = directory.host.as_ref().filter(|host| host.mount.writable);
        let host = host.ok_or(Errno::ROFS)?;
        let fd = self.open_host(host, b".", flags & !O_EXCL, mode)?;
        let file = Kind::Host(HostFile {
            fd,
            path: None,
            changeable: true,
        });
        Ok(self.process.files.add(file, flags)?)
    }

    fn open_directory(&mut self, mut directory: Directory, flags: u64) -> Outcome {
        if let Some(host) = &directory.host
            && flags & O_PATH == 0
        {
            let (fd, _) = host.open(b".", OFlags::DIRECTORY, Mode::empty())?;
            let mount = host.mount;
            directory.host = Some(Rc::new(HostDirectory { fd, mount }));
        }
        let open = OpenDirectory {
            directory,
            listing: None,
        };
        Ok(self.process.files.add(Kind::Directory(open), flags)?)
    }

    /// Opens `/proc/self/fd/N`: another descriptor for the same open file, if its access mode
    /// permits.
    fn open_again(&mut self, file: FileReference, flags: u64) -> Outcome {
        let enough = {
            let file = file.borrow();
            let reads = matches!(flags & O_ACCESS, 0 | O_RDWR);
            let writes = matches!(flags & O_ACCESS, O_WRONLY | O_RDWR);
            flags & O_PATH == 0
                && (file.is_readable() || !reads)
                && (file.is_writable() || !writes && flags & O_TRUNC == 0)
        };
        if !enough {
            return Err(Errno::ACCES.into());
        }
        Ok(self.process.files.put(file, 0, flags & O_CLOEXEC != 0)?)
    }

    pub fn readlinkat(
        &mut self,
        call: &mut Call,
        directory: u64,
        path: u64,
        address: u64,
        size: u64,
    ) -> Outcome {
        let found = self.find(call, directory, path, Last::Keep)?;
        let target = match found.existing()? {
            Node::Link(text, _) => text,
            Node::Host(entry) if entry.file_type() == FileType::Symlink => {
                fs::readlinkat(&entry.fd, c"", Vec::new())?.into_bytes()
            }
            _ => return Err(Errno::INVAL.into()),
        };
        let length = (target.len() as u64).min(size);
        call.user
            .write(address, target[..length as usize].to_vec())?;
        Ok(length)
    }

    pub fn getcwd(&mut self, call: &mut Call, address: u64, size: u64) -> Outcome {
        let current = &self.process.files.current;
        if let Some(host) = &current.host
            && fs::fstat(&host.fd)?.st_nlink == 0
        {
            return Err(Errno::NOENT.into()); // it has been removed
        }
        let mut path = current.path.clone();
        if path.is_empty() {
            path.push(b'/');
        }
        path.push(0);
        if path.len() as u64 > size {
            return Err(Errno::RANGE.into());
        }
        let length = path.len() as u64;
        call.user.write(address, path)?;
        Ok(length)
    }

    pub fn chdir(&mut self, call: &mut Call, path: u64) -> Outcome {
        let found = self.find(call, AT_FDCWD as u64, path, Last::Follow)?;
        match found.existing()? {
            Node::Directory(directory) => self.enter(directory),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    pub fn fchdir(&mut self, fd: u64) -> Outcome {
        let directory = self.start(fd)?;
        self.enter(directory)
    }

    fn enter(&mut self, mut directory: Directory) -> Outcome {
        // Opening an entry checks whether the directory may be searched.
        if let Some(host) = &directory.host {
            directory.host = Some(Rc::new(host.directory(b".")?));
        }
        self.process.files.current = directory;
        Ok(0)
    }

    pub fn umask(&mut self, mask: u64) -> Outcome {
        let old = self.process.files.umask;
        self.process.files.umask = mask & 0o777;
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
        const EXECUTE: u64 = 1;
        let access = fs::Access::from_bits_truncate(mode as u32);
        let mut at_flags = AtFlags::SYMLINK_NOFOLLOW;
        if flags & AT_EACCESS != 0 {
            at_flags |= AtFlags::EACCESS;
        }
        let found = self.find(call, directory, path, last(flags))?;
        let (host, name) = match found.existing()? {
            Node::Directory(Directory { host: None, .. }) if mode & WRITE != 0 => {
                return Err(Errno::ROFS.into());
            }
            Node::Directory(Directory {
                host: Some(host), ..
            }) if mode != 0 => (host, b".".to_vec()),
            Node::Host(entry) => (entry.directory, entry.name),
            Node::Text(_) if mode & (WRITE | EXECUTE) != 0 => return Err(Errno::ACCES.into()),
            Node::Device(_) if mode & EXECUTE != 0 => return Err(Errno::ACCES.into()),
            Node::Open(file) => {
                let file = file.borrow();
                let reads = mode & 4 == 0 || file.is_readable();
                let writes = mode & WRITE == 0 || file.is_writable();
                return if reads && writes {
                    Ok(0)
                } else {
                    Err(Errno::ACCES.into())
                };
            }
            _ => return Ok(0),
        };
        if mode & WRITE != 0 && !host.mount.writable {
            return Err(Errno::ROFS.into());
        }
        fs::accessat(&host.fd, name.as_slice(), access, at_flags)?;
        Ok(0)
    }

    /// The mode of a new file.
    fn creation_mode(&self, kind: FileType, mode: u64) -> Result<Mode, Errno> {
        self.process
            .files
            .new_mode(kind, mode & !self.process.files.umask)
    }

    pub fn mkdirat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let found = self.find_free(call, directory, path)?;
        let mode = self.creation_mode(FileType::Directory, mode & 0o1777)?;
        fs::mkdirat(&self.place(&found)?.fd, found.name.as_slice(), mode)?;
        Ok(0)
    }

    /// `mknodat`, for named pipes and regular files.
    pub fn mknodat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let found = self.find_free(call, directory, path)?;
        if found.slash {
            return Err(Errno::NOENT.into());
        }
        let kind = match mode & 0o170_000 {
            0 | 0o100_000 => FileType::RegularFile,
            // Only if named pipes may be opened.
            0o010_000 if self.process.files.view.all_rights => FileType::Fifo,
            _ => return Err(Errno::PERM.into()),
        };
        let mode = self.creation_mode(kind, mode & 0o7777)?;
        fs::mknodat(
            &self.place(&found)?.fd,
            found.name.as_slice(),
            kind,
            mode,
            0,
        )?;
        Ok(0)
    }

    pub fn unlinkat(&mut self, call: &mut Call, directory: u64, path: u64, flags: u64) -> Outcome {
        let found = self.find(call, directory, path, Last::Name)?;
        if found.node.is_none() {
            return Err(Errno::NOENT.into());
        }
        let flags = if flags & AT_REMOVEDIR != 0 {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        fs::unlinkat(&self.place(&found)?.fd, found.name.as_slice(), flags)?;
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
        let found = self.find_free(call, directory, path)?;
        if found.slash || target.is_empty() {
            return Err(Errno::NOENT.into());
        }
        fs::symlinkat(
            target.as_slice(),
            &self.place(&found)?.fd,
            found.name.as_slice(),
        )?;
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
        let last = if flags & AT_SYMLINK_FOLLOW != 0 {
            Last::Follow
        } else {
            Last::Keep
        };
        // AT_EMPTY_PATH, for which Linux requires a capability, is not supported: nothing exists at
        // "".
        let from = self.find(call, from_directory, from, last)?;
        let entry = match from.existing()? {
            Node::Host(entry) => entry,
            Node::Directory(_) => return Err(Errno::PERM.into()),
            _ => return Err(Errno::XDEV.into()),
        };
        let to = self.find_free(call, to_directory, to)?;
        if to.slash {
            return Err(Errno::NOENT.into());
        }
        let place = self.place(&to)?;
        if place.mount != entry.directory.mount {
            return Err(Errno::XDEV.into());
        }
        fs::linkat(
            &entry.directory.fd,
            entry.name.as_slice(),
            &place.fd,
            to.name.as_slice(),
            AtFlags::empty(),
        )?;
        Ok(0)
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
        let known = fs::RenameFlags::NOREPLACE | fs::RenameFlags::EXCHANGE;
        let flags = fs::RenameFlags::from_bits_retain(flags as u32);
        if !known.contains(flags) {
            return Err(Errno::INVAL.into());
        }
        let from = self.find(call, from_directory, from, Last::Name)?;
        let to = self.find(call, to_directory, to, Last::Name)?;
        let node = from.node.as_ref().ok_or(Errno::NOENT)?;
        if to.slash && !node.is_directory() {
            return Err(Errno::NOTDIR.into());
        }
        let mount = |found: &Found| found.directory.host.as_ref().map(|host| host.mount);
        if mount(&from) != mount(&to) {
            return Err(Errno::XDEV.into());
        }
        let (one, other) = (&self.place(&from)?.fd, &self.place(&to)?.fd);
        let (old, new) = (from.name.as_slice(), to.name.as_slice());
        if flags.is_empty() {
            fs::renameat(one, old, other, new)?;
        } else {
            fs::renameat_with(one, old, other, new, flags)?;
        }
        let exchanged = flags.contains(fs::RenameFlags::EXCHANGE);
        let (old, new) = (from.directory.join(old), to.directory.join(new));
        self.process.files.renamed(&old, &new, exchanged);
        for other in self.processes.values_mut() {
            other.files.renamed(&old, &new, exchanged);
        }
        Ok(0)
    }

    pub fn truncate(&mut self, call: &mut Call, path: u64, length: u64) -> Outcome {
        let found = self.find(call, AT_FDCWD as u64, path, Last::Follow)?;
        match found.existing()? {
            Node::Directory(_) => Err(Errno::ISDIR.into()),
            Node::Host(entry) if entry.file_type() != FileType::RegularFile => {
                Err(Errno::INVAL.into())
            }
            Node::Host(entry) if !entry.directory.mount.writable => Err(Errno::ROFS.into()),
            Node::Host(entry) => {
                let fd = self.open_host(&entry.directory, &entry.name, O_WRONLY, 0)?;
                fs::ftruncate(&fd, length)?;
                Ok(0)
            }
            Node::Text(_) => Err(Errno::ACCES.into()),
            Node::Device(_) | Node::Link(..) => Err(Errno::INVAL.into()),
            Node::Open(file) => self.truncate_open(&file, length),
        }
    }

    pub fn fchmodat(&mut self, call: &mut Call, directory: u64, path: u64, mode: u64) -> Outcome {
        let found = self.find(call, directory, path, Last::Follow)?;
        let files = &self.process.files;
        found.existing()?.change(|fd, kind| {
            let mode = files.new_mode(kind, mode)?;
            // No such call takes a descriptor with O_PATH, and the name may meanwhile denote
            // another file.
            Ok(fs::chmod(
                format!("/proc/self/fd/{}", fd.as_raw_fd()),
                mode,
            )?)
        })?;
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
        if flags & AT_EMPTY_PATH != 0 && call.user.string(path)?.is_empty() {
            return self.fchown(directory, user, group);
        }
        let found = self.find(call, directory, path, last(flags))?;
        let (user, group) = owner(user, group);
        found
            .existing()?
            .change(|fd, _| Ok(fs::chownat(fd, c"", user, group, AtFlags::EMPTY_PATH)?))?;
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
            let file = self.process.files.get(directory)?;
            fs::futimens(file.borrow().changeable()?, &times)?;
            return Ok(0);
        }
        let found = self.find(call, directory, path, last(flags))?;
        found
            .existing()?
            .change(|fd, _| Ok(fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?))?;
        Ok(0)
    }
}
