//! The files that a program can reach: the tree in which its paths are resolved.

use super::paths::{Device, Directory, HostDirectory, Mount, kernel_file_system};
use super::private::PrivateDirectory;
use crate::errno::Errno;
use crate::kernel::PROCESS_ID;
use rustix::fs::{self, FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use thiserror::Error;

/// The path of the program's own descriptors, which `/proc/self/fd` leads to.
pub(crate) const DESCRIPTORS: &[u8] = b"/proc/100/fd";

/// The files of the host that a Linux program can reach. In each case `/proc`, `/sys` and parts of
/// `/dev` are the server's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The reachable part.
    pub reach: Reach,
    /// Whether writing to the host's files is forbidden.
    pub read_only: bool,
}

/// A part of the host's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The working directory; read-only, the program and the files that are its arguments; and an
    /// `/etc` and a `/tmp` that are removed at the end of the run.
    #[default]
    Sandbox,
    /// The tree beneath a directory, which is the program's `/`.
    Root(PathBuf),
    /// Everything that the user can reach, except file systems of the host's kernel.
    Host,
}

/// The reason that a program cannot be given its files.
#[derive(Debug, Error)]
pub enum FilesError {
    /// There is no current directory.
    #[error("the working directory cannot be opened: {0}")]
    Directory(std::io::Error),
    /// The directory chosen as root cannot be opened.
    #[error("--root is \"{}\", which cannot be opened: {cause}; it must be a directory", path.display())]
    Root {
        /// Its path.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The working directory is `/`, so that all files would be reachable.
    #[error(
        "the working directory is /, so that the program would reach all files of this host: \
         change to another directory, or give --root DIR or --host-files"
    )]
    Everything,
    /// A directory is on a file system of the kernel.
    #[error(
        "{} is on a file system of the host's kernel ({kind}), which no program reaches: choose \
         another directory",
        path.display()
    )]
    Kernel {
        /// The directory.
        path: PathBuf,
        /// The file system.
        kind: &'static str,
    },
    /// The host has no `openat2`, which confines the program.
    #[error(
        "the files of a Linux program are opened by openat2, which this host refuses ({0}); Linux \
         has it from 5.6 on, and the system-call filter of a container must permit it"
    )]
    NoOpenat2(rustix::io::Errno),
    /// The private directory cannot be made.
    #[error("a directory for the program's /tmp cannot be made in {}: {cause}", path.display())]
    Temporary {
        /// The directory to make it in.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
}

/// An entry at a path, which takes precedence over the host's.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A directory that only this server has.
    Directory,
    /// A directory of the host, with its contents.
    Mount(Rc<HostDirectory>),
    /// A file of the host: its directory and its name there.
    File(Rc<HostDirectory>, Vec<u8>),
    /// A file that only this server has.
    Text(Rc<[u8]>),
    Device(Device),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A link to the program's file at any location: its path, its directory and its name there.
    Program(Vec<u8>, Rc<HostDirectory>, Vec<u8>),
}

/// A program's tree.
#[derive(Debug)]
pub(crate) struct View {
    /// By path, without a final slash. Includes the directories on the way to an entry.
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Whether devices and FIFOs of the host may be opened, and files may get set-user-ID bits.
    pub all_rights: bool,
    mounts: usize,
    /// The private directory, removed with the view.
    temporary: Option<PrivateDirectory>,
}

/// The inputs from which the view is made.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub access: &'a Access,
    /// The caller's working directory, as reported by the host.
    pub working: &'a Path,
    /// The program's path and its arguments, as given.
    pub program: &'a [u8],
    pub arguments: &'a [Vec<u8>],
    pub harts: usize,
    pub memory_bytes: u64,
}

impl View {
    /// The tree of a program, and its initial working directory.
    pub fn new(seen: &Seen<'_>) -> Result<(View, Directory), FilesError> {
        let mut view = View {
            entries: BTreeMap::new(),
            all_rights: seen.access.reach == Reach::Host,
            mounts: 0,
            temporary: None,
        };
        view.add_own(seen);
        let writable = !seen.access.read_only;
        let working = seen.working;
        let program = canonical(working, seen.program);
        let mut start = Vec::new();
        match &seen.access.reach {
            Reach::Sandbox => {
                if working == Path::new("/") {
                    return Err(FilesError::Everything);
                }
                view.add_directory(b"/dev");
                view.add_etc();
                view.add_temporary()?;
                let directory = view.mount(working, writable, FilesError::Directory)?;
                start = bytes(working);
                view.entries.insert(start.clone(), Entry::Mount(directory));
                for given in
                    std::iter::once(seen.program).chain(seen.arguments.iter().map(Vec::as_slice))
                {
                    view.add_named(working, given);
                }
            }
            Reach::Root(root) => {
                view.add_directory(b"/dev");
                let failed = |cause| FilesError::Root {
                    path: root.clone(),
                    cause,
                };
                let directory = view.mount(root, writable, failed)?;
                view.entries.insert(Vec::new(), Entry::Mount(directory));
            }
            Reach::Host => {
                let directory = view.mount(Path::new("/"), writable, FilesError::Directory)?;
                view.entries.insert(Vec::new(), Entry::Mount(directory));
                start = bytes(working);
                if start == b"/" {
                    start.clear();
                }
            }
        }
        if let Some(program) = program
            && let Some((directory, name)) = view.file(&program)
        {
            let path = match &seen.access.reach {
                Reach::Root(root) => std::fs::canonicalize(root)
                    .ok()
                    .and_then(|root| program.strip_prefix(root).ok())
                    .map_or_else(|| program.clone(), |inside| Path::new("/").join(inside)),
                _ => program.clone(),
            };
            let link = Entry::Program(bytes(&path), directory, name);
            view.entries
                .insert(format!("/proc/{PROCESS_ID}/exe").into_bytes(), link);
        }
        let current = view.beginning(working, start)?;
        Ok((view, current))
    }

    /// The initial working directory; from here on the host's directory is opened like any other.
    fn beginning(&self, working: &Path, start: Vec<u8>) -> Result<Directory, FilesError> {
        let Some(Entry::Mount(mount)) = self.entry(&start).or_else(|| self.entry(b"")) else {
            return Ok(Directory {
                path: start,
                host: None,
            });
        };
        let inside = if self.entry(&start).is_some() {
            b".".as_slice()
        } else {
            &start[1..]
        };
        let host = mount.directory(inside).map_err(|errno| match errno {
            Errno::NOSYS | Errno::PERM => {
                FilesError::NoOpenat2(rustix::io::Errno::from_raw_os_error(errno.0))
            }
            errno => FilesError::Directory(std::io::Error::other(format!(
                "{}: {}",
                working.display(),
                std::io::Error::from_raw_os_error(errno.0)
            ))),
        })?;
        Ok(Directory {
            path: start,
            host: Some(Rc::new(host)),
        })
    }

    /// The server's own entry at a path.
    pub fn entry(&self, path: &[u8]) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Whether there is an entry beneath a path.
    pub fn leads_to_entry(&self, path: &[u8]) -> bool {
        self.beneath(path).next().is_some()
    }

    /// Each entry beneath a path, with the remainder of its path.
    fn beneath<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = (&'a [u8], &'a Entry)> {
        let top = [path, b"/"].concat();
        let length = top.len();
        self.entries
            .range(top.clone()..)
            .take_while(move |(path, _)| path.starts_with(&top))
            .map(move |(path, entry)| (&path[length..], entry))
    }

    /// The names of the server's own entries in a directory, with their types.
    pub fn names(&self, path: &[u8]) -> BTreeMap<Vec<u8>, FileType> {
        let mut names = BTreeMap::new();
        for (rest, entry) in self.beneath(path) {
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = rest[..end.unwrap_or(rest.len())].to_vec();
            let kind = match entry {
                _ if end.is_some() => FileType::Directory,
                Entry::Directory | Entry::Mount(_) => FileType::Directory,
                Entry::File(..) | Entry::Text(_) => FileType::RegularFile,
                Entry::Device(_) => FileType::CharacterDevice,
                Entry::Link(_) | Entry::Program(..) => FileType::Symlink,
            };
            names.entry(name).or_insert(kind);
        }
        names
    }

    /// The host's directory behind `/tmp`, if it belongs to this run.
    #[cfg(test)]
    pub fn temporary(&self) -> Option<PathBuf> {
        self.temporary.as_ref().map(PrivateDirectory::inner)
    }

    /// The directory in which absolute paths start.
    pub fn root(&self) -> Directory {
        Directory {
            path: Vec::new(),
            host: match self.entry(b"") {
                Some(Entry::Mount(directory)) => Some(directory.clone()),
                _ => None,
            },
        }
    }

    fn add(&mut self, path: &str, entry: Entry) {
        self.entries.insert(path.as_bytes().to_vec(), entry);
    }

    fn add_directory(&mut self, path: &[u8]) {
        self.entries.insert(path.to_vec(), Entry::Directory);
    }

    fn add_text(&mut self, path: &str, text: String) {
        self.add(path, Entry::Text(text.into_bytes().into()));
    }

    /// Adds the files that describe this server instead of the host.
    fn add_own(&mut self, seen: &Seen<'_>) {
        for path in [b"/proc".as_slice(), b"/sys", DESCRIPTORS] {
            self.add_directory(path);
        }
        for (path, to) in [
            ("/proc/self", PROCESS_ID.to_string()),
            ("/dev/fd", "/proc/self/fd".to_string()),
            ("/dev/stdin", "/proc/self/fd/0".to_string()),
            ("/dev/stdout", "/proc/self/fd/1".to_string()),
            ("/dev/stderr", "/proc/self/fd/2".to_string()),
        ] {
            self.add(path, Entry::Link(to.into_bytes()));
        }
        for (path, device) in [
            ("/dev/null", Device::Null),
            ("/dev/zero", Device::Zero),
            ("/dev/full", Device::Full),
            ("/dev/random", Device::Random),
            ("/dev/urandom", Device::Random),
        ] {
            self.add(path, Entry::Device(device));
        }
        let last = seen.harts - 1;
        let harts = if last == 0 {
            "0\n".to_string()
        } else {
            format!("0-{last}\n")
        };
        for which in ["online", "possible", "present"] {
            self.add_text(&format!("/sys/devices/system/cpu/{which}"), harts.clone());
        }
        let one = |hart| {
            format!(
                "processor\t: {hart}\nhart\t\t: {hart}\nisa\t\t: \
                 rv64imafdc_zicbop_zicsr_zifencei_zawrs_zba_zbb_zbs\nmmu\t\t: none\n\n"
            )
        };
        self.add_text("/proc/cpuinfo", (0..seen.harts).map(one).collect());
        let total = seen.memory_bytes / 1024;
        self.add_text(
            "/proc/meminfo",
            format!(
                "MemTotal:       {total:8} kB\nMemFree:        {total:8} kB\n\
                 MemAvailable:   {total:8} kB\n"
            ),
        );
    }

    /// Adds the files that a C library looks for.
    fn add_etc(&mut self) {
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let mut passwd = "root:x:0:0:root:/:/bin/sh\n".to_string();
        if user != 0 {
            passwd += &format!("user:x:{user}:{group}:user:/:/bin/sh\n");
        }
        let mut groups = "root:x:0:\n".to_string();
        if group != 0 {
            groups += &format!("user:x:{group}:\n");
        }
        for (path, text) in [
            ("/etc/passwd", passwd.as_str()),
            ("/etc/group", &groups),
            ("/etc/hostname", "nanoplane\n"),
            (
                "/etc/hosts",
                "127.0.0.1 localhost nanoplane\n::1 localhost\n",
            ),
            (
                "/etc/nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files\n",
            ),
        ] {
            self.add_text(path, text.to_string());
        }
    }

    fn add_temporary(&mut self) -> Result<(), FilesError> {
        let place = std::env::temp_dir();
        let failed = |cause| FilesError::Temporary {
            path: place.clone(),
            cause,
        };
        let made = PrivateDirectory::new(&place).map_err(failed)?;
        let directory = self.mount(&made.inner(), true, failed)?;
        self.add("/tmp", Entry::Mount(directory));
        self.temporary = Some(made);
        Ok(())
    }

    /// Adds a file named on the command line, if it is one: under the given path, and under the
    /// path to which links on the way lead. Files in the working directory are present already.
    fn add_named(&mut self, working: &Path, given: &[u8]) {
        let Some(real) = canonical(working, given) else {
            return;
        };
        let named = without_dots(&working.join(OsStr::from_bytes(given)));
        let (real_inside, named_inside) = (real.starts_with(working), named.starts_with(working));
        for (path, is_there) in [(&real, real_inside), (&named, real_inside && named_inside)] {
            if !is_there && let Some((directory, name)) = self.file(&real) {
                self.entries
                    .insert(bytes(path), Entry::File(directory, name));
            }
        }
    }

    /// A regular file of the host, for reading: its directory and its name there.
    fn file(&mut self, real: &Path) -> Option<(Rc<HostDirectory>, Vec<u8>)> {
        let name = real.file_name()?.as_bytes().to_vec();
        let directory = self
            .mount(real.parent()?, false, FilesError::Directory)
            .ok()?;
        let (_, stat) = directory.open(&name, OFlags::PATH, Mode::empty()).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            .then_some((directory, name))
    }

    /// Opens a directory of the host for the program, by the user's path.
    fn mount(
        &mut self,
        path: &Path,
        writable: bool,
        failed: impl Fn(std::io::Error) -> FilesError,
    ) -> Result<Rc<HostDirectory>, FilesError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let kind = kernel_file_system(&fd).map_err(|errno| failed(errno.into()))?;
        if let Some(kind) = kind {
            let path = path.to_path_buf();
            return Err(FilesError::Kernel { path, kind });
        }
        self.mounts += 1;
        let mount = Mount {
            number: self.mounts,
            writable,
        };
        Ok(Rc::new(HostDirectory { fd, mount }))
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The path of an existing file without links.
fn canonical(working: &Path, path: &[u8]) -> Option<PathBuf> {
    std::fs::canonicalize(working.join(OsStr::from_bytes(path))).ok()
}

/// The lexical absolute path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
