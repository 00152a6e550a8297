//! Files that a run writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that receives its name when it is complete and on the disk.
///
/// Until then its content is in `NAME.PROCESS-NUMBER.part` beside it, which is locked as long as
/// its process lives. Leftovers of killed processes are removed when the same file is written next.
pub(crate) struct OutputFile {
    path: PathBuf,
    /// The file that is written to, if it is not the final one.
    part: Option<PathBuf>,
    file: File,
}

impl OutputFile {
    /// Checks that `path` can be written, before long work.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        // The target of a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        // A non-file, such as a pipe, cannot be replaced by a file.
        if fs::metadata(&path).is_ok_and(|data| !data.is_file()) {
            return Ok(OutputFile {
                file: File::create(&path)?,
                part: None,
                path,
            });
        }
        let (part, file) = create_part(&path)?;
        let owner = file.metadata()?.uid();
        remove_leftovers(&path, owner);
        Ok(OutputFile {
            path,
            part: Some(part),
            file,
        })
    }

    /// The file for its content.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Completes the file, whose content has been written.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(part) = &self.part else {
            return Ok(());
        };
        self.file.sync_all()?;
        fs::rename(part, &self.path)?;
        self.part = None;
        // The new name must also survive a loss of power.
        File::open(directory_of(&self.path))?.sync_all()
    }
}

impl Drop for OutputFile {
    /// Removes an unfinished file.
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn create_part(path: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut name = path.as_os_str().to_owned();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.part", std::process::id()));
        let part = PathBuf::from(name);
        let file = File::create(&part)?;
        // On file systems without locks, no file is ever taken for a leftover.
        let _ = file.lock();
        // Another process may have removed it before it was locked.
        let made = file.metadata()?;
        if fs::metadata(&part).is_ok_and(|there| there.ino() == made.ino()) {
            return Ok((part, file));
        }
    }
}

/// Removes leftovers of the file `path` from dead processes of `owner`.
fn remove_leftovers(path: &Path, owner: u32) {
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(directory_of(path))) else {
        return;
    };
    let prefix = [name.as_encoded_bytes(), b"."].concat();
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let middle = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_slice())
            .and_then(|rest| rest.strip_suffix(b".part"));
        let is_part = middle.is_some_and(|middle| {
            !middle.is_empty()
                && middle
                    .iter()
                    .all(|&byte| byte.is_ascii_digit() || byte == b'-')
        });
        let is_ours = is_part
            && entry
                .metadata()
                .is_ok_and(|data| data.is_file() && data.uid() == owner);
        if is_ours && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_whole_and_leftovers_go() {
        let directory = std::env::temp_dir().join(format!("nanoplane-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("out");
        fs::write(&path, "old").unwrap();
        // This file is not locked: its process has died. The others are unrelated.
        fs::write(directory.join("out.123-0.part"), "left").unwrap();
        for other in ["out.me.part", "out..part", "in.123-0.part"] {
            fs::write(directory.join(other), "").unwrap();
        }
        let first = OutputFile::create(&path).unwrap();
        let second = OutputFile::create(&path).unwrap();
        first.writer().unwrap().write_all(b"new").unwrap();
        // The first process is active, so the second has not removed its file; the leftover is
        // gone.
        let there = names(&directory);
        assert_eq!(there.len(), 3 + 1 + 2, "{there:?}");
        assert!(!there.contains(&"out.123-0.part".to_string()), "{there:?}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(second);
        first.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(
            names(&directory),
            ["in.123-0.part", "out", "out..part", "out.me.part"]
        );
        // The target of a link is written, and a non-file is written in place.
        symlink(&path, directory.join("link")).unwrap();
        let linked = OutputFile::create(&directory.join("link")).unwrap();
        linked.writer().unwrap().write_all(b"linked").unwrap();
        linked.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"linked");
        let full = OutputFile::create(Path::new("/dev/full")).unwrap();
        assert!(full.writer().unwrap().write_all(b"x").is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
