//! The contents of directories, and the call that returns them.

use super::paths::Directory;
use super::{Files, Kind, O_PATH, status, view};
use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::user::Outcome;
use rustix::fs::{self, FileType};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) inode: u64,
    pub(super) kind: u8,
    pub(super) name: Vec<u8>,
}

impl Kernel {
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
}

impl Files {
    /// The contents of a directory, ordered by name because the host's order is arbitrary.
    pub(super) fn entries(&self, directory: &Directory) -> Result<Vec<Entry>, Errno> {
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
            // An own entry hides the host's, unless it is only a directory on the way to an entry.
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
