//! `stat` and its kin.

use super::names::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use super::paths::{Directory, Last, Node};
use super::{Kind, OpenFile};
use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::user::Outcome;
use rustix::fs::{self, Stat};

const REGULAR: u32 = 0o100_444;
const CHARACTER: u32 = 0o020_666;

/// The inode number of an object that only this server has: unique, and the same in each run.
pub(super) fn made_inode(path: &[u8]) -> u64 {
    // FNV-1a.
    path.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The results of `stat`.
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
    pub fn of_host(stat: &Stat) -> Status {
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
        const FIFO: u32 = 0o010_600;
        const SOCKET: u32 = 0o140_777;
        Ok(match &file.kind {
            Kind::Host(host) => Status::of_host(&fs::fstat(&host.fd)?),
            Kind::Directory(open) => Status::of_directory(&open.directory)?,
            Kind::Made { content, .. } => Status::made(REGULAR, content.len() as u64),
            Kind::Device(_) => Status::made(CHARACTER, 0),
            Kind::PipeOut(_) | Kind::PipeIn(_) => Status::made(FIFO, 0),
            Kind::Socket(_) => Status::made(SOCKET, 0),
            Kind::Event { .. } | Kind::Epoll(_) => Status::made(0o600, 0),
        })
    }

    fn of_directory(directory: &Directory) -> Result<Status, Errno> {
        Ok(match &directory.host {
            Some(host) => Status::of_host(&fs::fstat(&host.fd)?),
            None => Status::made_at(&directory.path, 0o040_555, 0),
        })
    }

    /// The status of a node at a path of the program's tree.
    fn of_node(path: &[u8], node: &Node) -> Result<Status, Errno> {
        Ok(match node {
            Node::Directory(directory) => Status::of_directory(directory)?,
            Node::Host(entry) => Status::of_host(&entry.stat),
            Node::Text(content) => Status::made_at(path, REGULAR, content.len() as u64),
            Node::Device(_) => Status::made_at(path, CHARACTER, 0),
            Node::Link(text, _) => Status::made_at(path, 0o120_777, text.len() as u64),
            Node::Open(file) => Status::of_file(&file.borrow())?,
        })
    }

    fn made_at(path: &[u8], mode: u32, size: u64) -> Status {
        Status {
            inode: made_inode(path),
            ..Status::made(mode, size)
        }
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
    fn status_at(
        &mut self,
        call: &mut Call,
        directory: u64,
        address: u64,
        flags: u64,
    ) -> Outcome<Status> {
        // Some C libraries pass a null path with AT_EMPTY_PATH.
        let empty =
            flags & AT_EMPTY_PATH != 0 && (address == 0 || call.user.string(address)?.is_empty());
        if empty {
            if directory as i32 == AT_FDCWD {
                return Ok(Status::of_directory(&self.process.files.current)?);
            }
            let file = self.process.files.get(directory)?;
            return Ok(Status::of_file(&file.borrow())?);
        }
        let last = if flags & AT_SYMLINK_NOFOLLOW != 0 {
            Last::Keep
        } else {
            Last::Follow
        };
        let found = self.find(call, directory, address, last)?;
        let path = found.directory.join(&found.name);
        Ok(Status::of_node(&path, &found.existing()?)?)
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
        let file = self.process.files.get(fd)?;
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

    /// File-system information for files that only this server has, as for a file system in memory.
    fn write_made_statfs(call: &mut Call, address: u64) -> Outcome {
        const TMPFS: u64 = 0x0102_1994;
        let mut words = vec![TMPFS, 4096, 0, 0, 0, 0, 0, 0, 255, 4096];
        words.resize(15, 0);
        call.user.write_words(address, &words)?;
        Ok(0)
    }

    pub fn statfs(&mut self, call: &mut Call, path: u64, address: u64) -> Outcome {
        let found = self.find(call, AT_FDCWD as u64, path, Last::Follow)?;
        match found.existing()? {
            Node::Directory(Directory {
                host: Some(host), ..
            }) => Self::write_statfs(call, address, &fs::fstatfs(&host.fd)?),
            Node::Host(entry) => Self::write_statfs(call, address, &fs::fstatfs(&entry.fd)?),
            _ => Self::write_made_statfs(call, address),
        }
    }

    pub fn fstatfs(&mut self, call: &mut Call, fd: u64, address: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        match file.borrow().host() {
            Ok(host) => Self::write_statfs(call, address, &fs::fstatfs(host)?),
            Err(_) => Self::write_made_statfs(call, address),
        }
    }
}
