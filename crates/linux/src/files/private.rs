//! A directory of the host that belongs to one run and is removed with it.

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "nanoplane-guest-";
/// The program's files are in this inner directory, so that the program cannot open the outer
/// directory to others.
const INNER: &str = "tmp";

/// A directory that is locked while in use, and then removed with its contents.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    path: PathBuf,
    fd: OwnedFd,
}

impl PrivateDirectory {
    /// Creates a directory in `place`, and removes those left there by killed runs of this user.
    pub fn new(place: &Path) -> io::Result<PrivateDirectory> {
        sweep(place);
        for number in 0u64.. {
            let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            // Until it is locked, another run may take it for a leftover and remove it.
            if let Some(fd) = lock(&path)
                && DirBuilder::new()
                    .mode(0o700)
                    .create(path.join(INNER))
                    .is_ok()
            {
                return Ok(PrivateDirectory { path, fd });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The directory for the program.
    pub fn inner(&self) -> PathBuf {
        self.path.join(INNER)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        remove(&self.path, &self.fd);
    }
}

/// Opens a directory and locks it, unless another process has locked it.
fn lock(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = fs::open(path, flags, Mode::empty()).ok()?;
    fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(fd)
}

fn sweep(place: &Path) {
    let own = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry
                .metadata()
                .is_ok_and(|data| data.is_dir() && data.uid() == own);
        if is_ours && let Some(fd) = lock(&entry.path()) {
            remove(&entry.path(), &fd);
        }
    }
}

/// Removes a locked directory. Each nested directory is moved to the top first, so that neither the
/// length of a path nor the number of open files limits the removal. Entries that cannot be removed
/// are left for the next attempt.
fn remove(path: &Path, top: &OwnedFd) {
    let mut moved = 0u64;
    // An earlier, interrupted attempt may have moved some.
    let mut left: Vec<Vec<u8>> = names(top)
        .into_iter()
        .filter_map(|(name, is_directory)| is_directory.then_some(name))
        .collect();
    while let Some(name) = left.pop() {
        let _ = fs::chmodat(top, name.as_slice(), Mode::RWXU, AtFlags::empty());
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = fs::openat(top, name.as_slice(), flags, Mode::empty()) else {
            continue;
        };
        for (inside, is_directory) in names(&directory) {
            if !is_directory {
                let _ = fs::unlinkat(&directory, inside.as_slice(), AtFlags::empty());
                continue;
            }
            let _ = fs::chmodat(&directory, inside.as_slice(), Mode::RWXU, AtFlags::empty());
            loop {
                moved += 1;
                let to = format!("{moved}").into_bytes();
                let result = fs::renameat_with(
                    &directory,
                    inside.as_slice(),
                    top,
                    to.as_slice(),
                    fs::RenameFlags::NOREPLACE,
                );
                match result {
                    Err(rustix::io::Errno::EXIST) => continue,
                    Err(_) => break,
                    Ok(()) => left.push(to),
                }
                break;
            }
        }
        let _ = fs::unlinkat(top, name.as_slice(), AtFlags::REMOVEDIR);
    }
    let _ = std::fs::remove_dir(path);
}

/// The names in a directory, each with whether it is a directory.
fn names(directory: &OwnedFd) -> Vec<(Vec<u8>, bool)> {
    let is_directory = |name: &[u8]| {
        fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    Dir::read_from(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_bytes().to_vec())
        .filter(|name| name != b"." && name != b"..")
        .map(|name| (name.clone(), is_directory(&name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names_in(place: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn everything_in_it_goes_and_nothing_else() {
        let outer = PrivateDirectory::new(&std::env::temp_dir()).unwrap();
        let place = outer.inner();
        std::fs::write(place.join("kept"), "").unwrap();
        let inner = PrivateDirectory::new(&place).unwrap();
        symlink(&place, inner.inner().join("link")).unwrap();
        std::fs::write(inner.inner().join("file"), "").unwrap();
        std::fs::create_dir(inner.inner().join("1")).unwrap();
        // Deeper than the maximum path length and the maximum number of descriptors.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = fs::open(inner.inner(), flags, Mode::empty()).unwrap();
        for _ in 0..3000 {
            fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = fs::openat(&at, "deep", flags, Mode::empty()).unwrap();
            fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        }
        std::fs::set_permissions(
            inner.inner().join("deep"),
            std::os::unix::fs::PermissionsExt::from_mode(0o000),
        )
        .unwrap();
        drop(inner);
        assert_eq!(names_in(&place), ["kept"]);
    }

    #[test]
    fn what_a_killed_run_has_left_goes_and_what_another_uses_stays() {
        let outer = PrivateDirectory::new(&std::env::temp_dir()).unwrap();
        let place = outer.inner();
        let left = place.join(format!("{PREFIX}1-0"));
        std::fs::create_dir_all(left.join("tmp/some")).unwrap();
        std::fs::create_dir_all(left.join("17")).unwrap(); // as an interrupted removal leaves it
        let used = PrivateDirectory::new(&place).unwrap();
        assert!(!left.exists());
        let other = PrivateDirectory::new(&place).unwrap();
        assert!(used.inner().exists());
        assert_ne!(used.inner(), other.inner());
        drop((used, other));
        assert_eq!(names_in(&place), Vec::<String>::new());
    }
}
