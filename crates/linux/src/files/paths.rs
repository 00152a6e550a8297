//! Path resolution: the only place where a path of the program is followed.
//!
//! The program has a tree of its own ([`View`](super::view::View)): directories and files of the
//! host are mounted in it beside entries that only this server has. A path is followed component by
//! component in this tree. A component in a directory of the host is opened by `openat2`, with a
//! single name beneath that directory and without following links; a symbolic link is read, and its
//! text is followed in the program's tree. `..` removes a component of the directory's path in this
//! tree. So nothing leads out of the mounted trees: neither `..`, nor a symbolic or magic link, nor
//! another process of the host that renames files meanwhile. [`admit`] checks the kind of file
//! system of each opened file before it is used.

use super::view::{DESCRIPTORS, Entry};
use super::{FileReference, Files};
use crate::errno::Errno;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Maximum number of symbolic links followed in one path, as in Linux.
const MAXIMUM_LINKS: u32 = 40;

/// A directory tree of the host that is mounted in the program's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Distinguishes mounts: files are linked and renamed within one mount only.
    pub number: usize,
    pub writable: bool,
}

/// An open directory of the host.
#[derive(Debug)]
pub(crate) struct HostDirectory {
    pub fd: OwnedFd,
    pub mount: Mount,
}

impl HostDirectory {
    /// Opens `name` in this directory, or beneath it, without following any link.
    pub fn open(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<(OwnedFd, Stat), Errno> {
        const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
            .union(ResolveFlags::NO_SYMLINKS)
            .union(ResolveFlags::NO_MAGICLINKS);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat2(&self.fd, name, flags, mode, RESOLVE)?;
        let stat = admit(&fd)?;
        Ok((fd, stat))
    }

    /// The directory `name` in this directory or beneath it, for looking up names.
    pub fn directory(&self, name: &[u8]) -> Result<HostDirectory, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok(HostDirectory {
            fd: self.open(name, flags, Mode::empty())?.0,
            mount: self.mount,
        })
    }
}

/// File systems that control the host's kernel or expose other processes, by their numbers in
/// `linux/magic.h`.
const KERNEL_FILE_SYSTEMS: &[(u32, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x1980_0202, "mqueue"),
    (0x6e73_6673, "nsfs"),
    (0x0765_5821, "resctrl"),
    (0x6573_5543, "fusectl"),
    (0xabba_1974, "xenfs"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsd"),
    (0x6c6f_6f70, "binder"),
];

/// The kind of kernel file system that the file is on, if any.
pub(crate) fn kernel_file_system(fd: impl AsFd) -> rustix::io::Result<Option<&'static str>> {
    let found = fs::fstatfs(fd)?.f_type as u32;
    let known = KERNEL_FILE_SYSTEMS
        .iter()
        .find(|(number, _)| *number == found);
    Ok(known.map(|(_, name)| *name))
}

/// Rejects files on kernel file systems, which may be mounted anywhere.
fn admit(fd: &OwnedFd) -> Result<Stat, Errno> {
    match kernel_file_system(fd)? {
        Some(_) => Err(Errno::ACCES),
        None => Ok(fs::fstat(fd)?),
    }
}

/// A directory of the program's tree.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// Its path from the root, without links or a final slash; the root's is empty.
    pub path: Vec<u8>,
    /// The host's directory; `None` if the directory exists only on this server.
    pub host: Option<Rc<HostDirectory>>,
}

impl Directory {
    /// Whether names may be created and removed in it.
    pub fn is_writable(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.mount.writable)
    }

    /// The path of an entry in it.
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        [&self.path, b"/".as_slice(), name].concat()
    }
}

/// An entry of the host that is not a directory.
#[derive(Debug)]
pub(crate) struct HostEntry {
    /// Its path in the program's tree.
    pub path: Vec<u8>,
    /// Its directory, and its name there.
    pub directory: Rc<HostDirectory>,
    pub name: Vec<u8>,
    /// A descriptor that refers to it (`O_PATH`) without opening it.
    pub fd: OwnedFd,
    pub stat: Stat,
}

impl HostEntry {
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// A device that only this server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Null,
    Zero,
    Full,
    /// An endless source of random bytes.
    Random,
}

/// The object that a path names.
#[derive(Debug)]
pub(crate) enum Node {
    Directory(Directory),
    Host(HostEntry),
    /// A file that only this server has, and its content.
    Text(Rc<[u8]>),
    Device(Device),
    /// A symbolic link that only this server has. A link to an object without a path contains that
    /// object.
    Link(Vec<u8>, Option<Box<Node>>),
    /// An open file, reached through its descriptor's path.
    Open(FileReference),
}

/// The target of a symbolic link.
enum Followed {
    /// A path.
    Path(Vec<u8>),
    /// A node; a node that is not a link is its own target.
    Node(Node),
}

impl Node {
    fn follow(self) -> Result<Followed, Errno> {
        let text = match self {
            Node::Host(entry) if entry.file_type() == FileType::Symlink => {
                fs::readlinkat(&entry.fd, c"", Vec::new())?.into_bytes()
            }
            Node::Link(text, None) => text,
            Node::Link(_, Some(node)) => return Ok(Followed::Node(*node)),
            node => return Ok(Followed::Node(node)),
        };
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        Ok(Followed::Path(text))
    }

    pub fn is_directory(&self) -> bool {
        matches!(self, Node::Directory(_))
    }

    /// Calls `act` with a host descriptor of a file whose mode, owner and times may be changed. The
    /// descriptor may be an `O_PATH` one.
    pub fn change<T>(
        &self,
        act: impl FnOnce(BorrowedFd<'_>, FileType) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match self {
            Node::Directory(Directory {
                host: Some(directory),
                ..
            }) if directory.mount.writable => act(directory.fd.as_fd(), FileType::Directory),
            Node::Host(entry) if entry.directory.mount.writable => {
                act(entry.fd.as_fd(), entry.file_type())
            }
            Node::Open(file) => {
                let file = file.borrow();
                let fd = file.changeable()?;
                act(fd, FileType::from_raw_mode(fs::fstat(fd)?.st_mode))
            }
            _ => Err(Errno::ROFS),
        }
    }
}

/// The treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// The link is followed.
    Follow,
    /// The link itself is the result, unless a slash follows it.
    Keep,
    /// The link itself is the result, because a name is created or removed.
    Name,
}

/// The result of resolving a path.
#[derive(Debug)]
pub(crate) struct Found {
    /// The directory that contains the last component.
    pub directory: Directory,
    /// The last component; empty if the path ends in `/`, `.` or `..` only.
    pub name: Vec<u8>,
    /// The existing node, if any.
    pub node: Option<Node>,
    /// Whether the path ends in a slash.
    pub slash: bool,
}

impl Found {
    /// The existing node; an error if there is none.
    pub fn existing(self) -> Result<Node, Errno> {
        self.node.ok_or(Errno::NOENT)
    }
}

impl Files {
    /// Resolves a path from `start`, or from the root if it begins with a slash.
    pub fn find(&self, start: &Directory, path: &[u8], last: Last) -> Result<Found, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut at = if path[0] == b'/' {
            self.view.root()
        } else {
            start.clone()
        };
        // The remaining components, last first.
        let mut rest = Vec::new();
        let mut slash = push_components(&mut rest, path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            match name.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    at = self.parent(&at)?;
                    continue;
                }
                _ => {}
            }
            let is_last = rest.is_empty();
            let Some(mut node) = self.look_up(&at, &name)? else {
                if !is_last {
                    return Err(Errno::NOENT);
                }
                return Ok(Found {
                    directory: at,
                    name,
                    node: None,
                    slash,
                });
            };
            if !is_last || last == Last::Follow || last == Last::Keep && slash {
                node = match node.follow()? {
                    Followed::Node(node) => node,
                    Followed::Path(text) => {
                        links += 1;
                        if links > MAXIMUM_LINKS {
                            return Err(Errno::LOOP);
                        }
                        if text.first() == Some(&b'/') {
                            at = self.view.root();
                        }
                        slash |= push_components(&mut rest, &text) && is_last;
                        continue;
                    }
                };
            }
            match node {
                Node::Directory(directory) if !is_last => at = directory,
                node if !is_last || slash && !node.is_directory() => return Err(Errno::NOTDIR),
                node => {
                    return Ok(Found {
                        directory: at,
                        name,
                        node: Some(node),
                        slash,
                    });
                }
            }
        }
        Ok(Found {
            directory: at.clone(),
            name: Vec::new(),
            node: Some(Node::Directory(at)),
            slash: true,
        })
    }

    /// The node under a name in a directory; the name is neither `.` nor `..`.
    fn look_up(&self, directory: &Directory, name: &[u8]) -> Result<Option<Node>, Errno> {
        let path = directory.join(name);
        if let Some(entry) = self.view.entry(&path) {
            return self.node(path, entry);
        }
        if directory.path == DESCRIPTORS {
            return Ok(self.descriptor(name));
        }
        if let Some(host) = &directory.host {
            match look_up_host(path.clone(), host, name) {
                Err(Errno::NOENT) => {}
                other => return other.map(Some),
            }
        }
        Ok(if self.view.leads_to_entry(&path) {
            Some(Node::Directory(Directory { path, host: None }))
        } else {
            None
        })
    }

    fn node(&self, path: Vec<u8>, entry: &Entry) -> Result<Option<Node>, Errno> {
        Ok(Some(match entry {
            Entry::Directory => Node::Directory(Directory { path, host: None }),
            Entry::Mount(directory) => Node::Directory(Directory {
                path,
                host: Some(directory.clone()),
            }),
            Entry::File(directory, name) => match look_up_host(path, directory, name) {
                Err(Errno::NOENT) => return Ok(None), // it has been removed meanwhile
                other => other?,
            },
            Entry::Text(content) => Node::Text(content.clone()),
            Entry::Device(device) => Node::Device(*device),
            Entry::Link(text) => Node::Link(text.clone(), None),
            Entry::Program(text, directory, name) => {
                let first = (text.clone(), directory.clone(), name.clone());
                let (text, directory, name) = self.executed.as_ref().unwrap_or(&first);
                let program = look_up_host(text.clone(), directory, name)?;
                Node::Link(text.clone(), Some(Box::new(program)))
            }
        }))
    }

    /// The parent directory, by the path in the program's tree.
    fn parent(&self, directory: &Directory) -> Result<Directory, Errno> {
        let path = &directory.path;
        let Some(end) = path.iter().rposition(|&byte| byte == b'/') else {
            return Ok(directory.clone()); // the root is its own parent
        };
        let path = path[..end].to_vec();
        // The innermost mount that contains it.
        let mut top = path.len();
        let mount = loop {
            match self.view.entry(&path[..top]) {
                Some(Entry::Mount(directory)) => break directory,
                Some(_) => return Ok(Directory { path, host: None }),
                None => {}
            }
            match path[..top].iter().rposition(|&byte| byte == b'/') {
                Some(shorter) => top = shorter,
                None => return Ok(Directory { path, host: None }),
            }
        };
        if top == path.len() {
            let host = Some(mount.clone());
            return Ok(Directory { path, host });
        }
        match mount.directory(&path[top + 1..]) {
            Ok(found) => Ok(Directory {
                path,
                host: Some(Rc::new(found)),
            }),
            Err(Errno::NOENT) if self.view.leads_to_entry(&path) => {
                Ok(Directory { path, host: None })
            }
            Err(errno) => Err(errno),
        }
    }

    /// An open file of the program, by its number in `/proc/self/fd`.
    fn descriptor(&self, name: &[u8]) -> Option<Node> {
        let number: u32 = std::str::from_utf8(name).ok()?.parse().ok()?;
        let number = u64::from(number);
        if number.to_string().as_bytes() != name {
            return None;
        }
        let file = self.get(number).ok()?;
        let (text, directory) = {
            let file = file.borrow();
            (file.link_text(number), file.directory().cloned())
        };
        let to = directory.map_or(Node::Open(file), Node::Directory);
        Some(Node::Link(text, Some(Box::new(to))))
    }

    /// Updates the paths of open files after a rename within a mount.
    pub fn renamed(&mut self, from: &[u8], to: &[u8], exchanged: bool) {
        let instead = |path: &[u8], one: &[u8], other: &[u8]| {
            let rest = path.strip_prefix(one)?;
            (rest.is_empty() || rest[0] == b'/').then(|| [other, rest].concat())
        };
        let moved = |path: &[u8]| {
            instead(path, from, to).or_else(|| exchanged.then(|| instead(path, to, from)).flatten())
        };
        if let Some(new) = moved(&self.current.path) {
            self.current.path = new;
        }
        let mut seen = BTreeSet::new();
        for descriptor in self.table.iter().flatten() {
            // Several descriptors may share a file.
            if !seen.insert(Rc::as_ptr(&descriptor.file)) {
                continue;
            }
            if let Some(path) = descriptor.file.borrow_mut().path_mut()
                && let Some(new) = moved(path)
            {
                *path = new;
            }
        }
    }
}

/// Opens a name in a directory of the host to determine its kind.
fn look_up_host(path: Vec<u8>, directory: &Rc<HostDirectory>, name: &[u8]) -> Result<Node, Errno> {
    let (fd, stat) = directory.open(name, OFlags::PATH, Mode::empty())?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let mount = directory.mount;
        let host = Some(Rc::new(HostDirectory { fd, mount }));
        return Ok(Node::Directory(Directory { path, host }));
    }
    Ok(Node::Host(HostEntry {
        path,
        directory: directory.clone(),
        name: name.to_vec(),
        fd,
        stat,
    }))
}

/// Pushes the components of a path before the remaining ones, and returns whether the path ends in
/// a slash.
fn push_components(rest: &mut Vec<Vec<u8>>, path: &[u8]) -> bool {
    let end = path.iter().rposition(|&byte| byte != b'/');
    let components = &path[..end.map_or(0, |end| end + 1)];
    rest.extend(
        components
            .split(|&byte| byte == b'/')
            .rev()
            .map(<[u8]>::to_vec),
    );
    components.len() < path.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::private::PrivateDirectory;
    use crate::files::{Access, FilesError, Reach, Seen};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::{Path, PathBuf};

    /// The host's directories of a test: `work`, with a tree in it, beside `outside`.
    struct Place(PrivateDirectory);

    impl Place {
        /// Creates a tree; entries whose path already exists are skipped.
        fn new(tree: &[(String, Thing)]) -> Place {
            let place = Place(PrivateDirectory::new(&std::env::temp_dir()).unwrap());
            std::fs::create_dir(place.path("work")).unwrap();
            std::fs::create_dir(place.path("outside")).unwrap();
            std::fs::write(place.path("outside/a"), "secret").unwrap();
            let work = place.path("work");
            for (path, thing) in tree {
                let path = work.join(path);
                // Links of the tree may lead anywhere on the host: no entry is created through one.
                let directory = path.parent().unwrap();
                if !std::fs::canonicalize(directory).is_ok_and(|real| real == directory) {
                    continue;
                }
                let _ = match thing {
                    Thing::Directory => std::fs::create_dir(path),
                    Thing::File => std::fs::File::create_new(path).map(drop),
                    Thing::Link(target) => {
                        let base = place.path("");
                        symlink(target.replace("BASE", base.to_str().unwrap()), path)
                    }
                };
            }
            place
        }

        fn path(&self, rest: &str) -> PathBuf {
            std::fs::canonicalize(self.0.inner()).unwrap().join(rest)
        }

        fn files(&self, reach: Reach, arguments: &[&str]) -> Result<Files, FilesError> {
            let arguments: Vec<Vec<u8>> = arguments
                .iter()
                .map(|one| one.as_bytes().to_vec())
                .collect();
            Files::new(&Seen {
                access: &Access {
                    reach,
                    read_only: false,
                },
                working: &self.path("work"),
                program: b"program",
                arguments: &arguments,
                harts: 1,
                memory_bytes: 1 << 20,
            })
        }
    }

    #[derive(Clone, Debug)]
    enum Thing {
        Directory,
        File,
        Link(String),
    }

    /// Components that wander in a small tree, and out of it. BASE is the directory that contains
    /// `Place`.
    fn a_path(components: &'static [&'static str]) -> impl Strategy<Value = String> {
        let tops = prop::sample::select(vec!["", "", "", "/", "BASE/"]);
        let parts = prop::collection::vec(prop::sample::select(components), 1..7);
        let slash = prop::sample::select(vec!["", "", "/"]);
        (tops, parts, slash)
            .prop_map(|(top, parts, slash)| format!("{top}{}{slash}", parts.join("/")))
    }

    /// Directories, files and links with names of up to three letters.
    fn a_tree() -> impl Strategy<Value = Vec<(String, Thing)>> {
        let name = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4);
        let link = a_path(&["a", "b", "c", "..", "..", ".", "work", "outside", ""]);
        let thing = prop_oneof![
            2 => Just(Thing::Directory),
            1 => Just(Thing::File),
            2 => link.prop_map(Thing::Link),
        ];
        let one = (name.prop_map(|parts| parts.join("/")), thing);
        prop::collection::vec(one, 0..25)
    }

    fn identity(node: &Node) -> Option<(u64, u64)> {
        let stat = match node {
            Node::Directory(directory) => {
                fs::fstat(&directory.host.as_ref()?.fd).expect("it is open")
            }
            Node::Host(entry) => entry.stat,
            _ => return None,
        };
        Some((stat.st_dev, stat.st_ino))
    }

    /// The kernel cannot resolve `..` reliably during a concurrent rename, and reports this.
    fn asked_again<T>(ask: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        loop {
            match ask() {
                Err(rustix::io::Errno::AGAIN) => {}
                other => return other,
            }
        }
    }

    /// The identities of a directory and everything beneath it.
    fn identities(directory: &Path, found: &mut BTreeSet<(u64, u64)>) {
        let metadata = std::fs::symlink_metadata(directory).unwrap();
        found.insert((metadata.dev(), metadata.ino()));
        if metadata.is_dir() {
            for entry in std::fs::read_dir(directory).unwrap() {
                identities(&entry.unwrap().path(), found);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Path resolution finds the same file, or the same error, as the host's kernel with
        /// `RESOLVE_IN_ROOT`.
        #[test]
        fn a_path_leads_where_the_kernel_says(
            tree in a_tree(),
            paths in prop::collection::vec(a_path(&["a", "b", "c", "a", "b", "..", ".", ""]), 20),
        ) {
            let place = Place::new(&tree);
            let root = place.path("work");
            let files = place.files(Reach::Root(root.clone()), &[]).unwrap();
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let top = fs::open(&root, flags, Mode::empty()).unwrap();
            for path in paths {
                let path = path.replace("BASE", "");
                for (last, flags) in [
                    (Last::Follow, flags),
                    (Last::Keep, flags | OFlags::NOFOLLOW),
                ] {
                    let resolve = ResolveFlags::IN_ROOT;
                    let expected = asked_again(|| {
                        fs::openat2(&top, &path, flags, Mode::empty(), resolve)
                    })
                        .map(|fd| fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).unwrap())
                        .map_err(Errno::from);
                    let found = files
                        .find(&files.current, path.as_bytes(), last)
                        .and_then(Found::existing)
                        .map(|node| identity(&node).expect("it is the host's"));
                    prop_assert_eq!(found, expected, "{} {:?}", path, last);
                }
            }
        }

        /// Path resolution finds no file of the host except in the working directory or named on
        /// the command line, and finds it again by the path it reports.
        #[test]
        fn no_path_leads_out_of_the_sandbox(
            tree in a_tree(),
            paths in prop::collection::vec(
                a_path(&["a", "b", "c", "..", "..", ".", "work", "outside", "proc", "self", "fd", "0"]),
                20
            ),
        ) {
            let place = Place::new(&tree);
            let files = place.files(Reach::Sandbox, &[]).unwrap();
            let mut inside = BTreeSet::new();
            identities(&place.path("work"), &mut inside);
            identities(&files.view.temporary().unwrap(), &mut inside);
            let base = place.path("");
            for path in paths {
                let path = path.replace("BASE", base.to_str().unwrap());
                for last in [Last::Follow, Last::Keep, Last::Name] {
                    let Ok(found) = files.find(&files.current, path.as_bytes(), last) else {
                        continue;
                    };
                    if let Some(host) = &found.directory.host {
                        let stat = fs::fstat(&host.fd).unwrap();
                        prop_assert!(inside.contains(&(stat.st_dev, stat.st_ino)), "{}", path);
                    }
                    let Some(node) = found.node else { continue };
                    let there = identity(&node);
                    prop_assert!(there.is_none_or(|one| inside.contains(&one)), "{}", path);
                    let (Node::Directory(Directory { path, .. }) | Node::Host(HostEntry { path, .. })) = node
                    else {
                        continue;
                    };
                    let full = if path.is_empty() { b"/" } else { path.as_slice() };
                    let again = files.find(&files.current, full, Last::Name).unwrap();
                    prop_assert_eq!(identity(&again.node.unwrap()), there);
                }
            }
        }
    }

    #[test]
    fn a_named_file_is_found_through_links_on_the_way_and_nothing_beside_it() {
        let place = Place::new(&[("way".to_string(), Thing::Link("../outside".to_string()))]);
        std::fs::write(place.path("outside/b"), "").unwrap();
        for given in [
            "way/a",
            "../outside/a",
            "./../outside/./a",
            "BASE/outside/a",
        ] {
            let given = given.replace("BASE/", place.path("").to_str().unwrap());
            let files = place.files(Reach::Sandbox, &[&given]).unwrap();
            let find = |path: &str| {
                files
                    .find(&files.current, path.as_bytes(), Last::Follow)
                    .and_then(Found::existing)
            };
            let node = find(&given).unwrap();
            assert_eq!(node.change(|_, _| Ok(())), Err(Errno::ROFS), "{given}");
            let metadata = std::fs::metadata(place.path("outside/a")).unwrap();
            assert_eq!(identity(&node), Some((metadata.dev(), metadata.ino())));
            let beside = format!("{}b", given.strip_suffix('a').unwrap());
            assert_eq!(find(&beside).err(), Some(Errno::NOENT), "{beside}");
        }
        // Naming a directory, a device or a kernel file does not give access to it.
        for given in ["../outside", "/dev/tty", "/proc/self/environ"] {
            let files = place.files(Reach::Sandbox, &[given]).unwrap();
            let found = files.find(&files.current, given.as_bytes(), Last::Follow);
            assert!(
                found
                    .and_then(Found::existing)
                    .map_or(true, |node| identity(&node).is_none())
            );
        }
    }

    #[test]
    fn open_directories_know_where_they_have_gone() {
        let tree = ["a", "a/b", "c"].map(|path| (path.to_string(), Thing::Directory));
        let place = Place::new(&tree);
        let mut files = place.files(Reach::Root(place.path("work")), &[]).unwrap();
        let directory = |files: &Files, path: &[u8]| {
            let node = files.find(&files.current, path, Last::Follow).unwrap().node;
            match node.unwrap() {
                Node::Directory(directory) => directory,
                other => panic!("{other:?}"),
            }
        };
        files.current = directory(&files, b"a/b");
        std::fs::rename(place.path("work/a"), place.path("work/c/new")).unwrap();
        files.renamed(b"/a", b"/c/new", false);
        assert_eq!(files.current.path, b"/c/new/b");
        assert_eq!(directory(&files, b"..").path, b"/c/new");
        assert_eq!(directory(&files, b"../../../..").path, b"");
        files.renamed(b"/c/ne", b"/x", false);
        assert_eq!(files.current.path, b"/c/new/b");
        files.renamed(b"/x", b"/c", true);
        assert_eq!(files.current.path, b"/x/new/b");
    }

    #[test]
    fn what_cannot_be_given_gets_a_sentence() {
        let place = Place::new(&[("file".to_string(), Thing::File)]);
        let refused = |reach, working: &Path| {
            let seen = Seen {
                access: &Access {
                    reach,
                    read_only: true,
                },
                working,
                program: b"program",
                arguments: &[],
                harts: 1,
                memory_bytes: 1 << 20,
            };
            Files::new(&seen)
                .err()
                .map_or_else(String::new, |error| error.to_string())
        };
        let work = place.path("work");
        assert!(
            refused(Reach::Sandbox, Path::new("/")).starts_with("the working directory is /, so")
        );
        assert_eq!(
            refused(Reach::Sandbox, Path::new("/proc/self")),
            "/proc/self is on a file system of the host's kernel (proc), which no program reaches: \
             choose another directory"
        );
        assert!(
            refused(Reach::Root("/sys".into()), &work).contains("of the host's kernel (sysfs)")
        );
        assert_eq!(
            refused(Reach::Root(place.path("work/file")), &work),
            format!(
                "--root is \"{}\", which cannot be opened: Not a directory (os error 20); it must \
                 be a directory",
                place.path("work/file").display()
            )
        );
    }
}
