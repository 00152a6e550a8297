use super::input::Input;
use super::program::{add_immediate, linux as program_file, load_double, pages_ahead};
use super::servers::small_server;
use fabric::LineAddress;
use linux::{Access, Reach, Setup, prepare};
use riscv::elf;
use server::Machine;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const ENTRY: u64 = 0x1_0000;
/// Paths and structures that calls are given, then the words of the calls.
const STRINGS: u64 = ENTRY + 0x2000;
const STRING_BYTES: usize = 256;
const BUFFERS: u64 = ENTRY + 0x6000;
const BUFFER_BYTES: usize = 0x1000;
const WORDS: u64 = BUFFERS + BUFFER_BYTES as u64;
const MAX_CALLS: usize = 60;
const WORDS_OF_CALL: usize = 7;
const MEMORY_BYTES: u64 = 32 << 20;
/// Bytes that calls may write to files.
const OUTPUT_BYTES: u64 = 1 << 16;
const STEPS: u32 = 3000;

/// What is in the file that no program may read.
const SECRET: &[u8; 32] = b"what is outside of every sandbox";
const CLOSE_RANGE: u64 = 436;

/// Beside it is the canary.
struct Sandbox {
    outside: PathBuf,
    inside: PathBuf,
}

impl Sandbox {
    fn canary(&self) -> PathBuf {
        self.outside.join("canary")
    }

    /// Fills the sandbox anew.
    fn fill(&self) {
        // What a program has made may have no permissions left.
        let _ = fs::set_permissions(&self.inside, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&self.inside).expect("it is there").flatten() {
            let path = entry.path();
            let removed = match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    open_up(&path);
                    fs::remove_dir_all(&path)
                }
                _ => fs::remove_file(&path),
            };
            removed.expect("it can be removed");
        }
        let inside = |name: &str| self.inside.join(name);
        fs::write(inside("file"), "a file\n").expect("it can be written");
        fs::create_dir_all(inside("directory/deeper")).expect("it can be made");
        fs::write(inside("directory/file"), "another\n").expect("it can be written");
        for (to, name) in [
            ("../canary", "out"),
            ("..", "up"),
            ("directory", "link"),
            ("loop", "loop"),
            ("/proc/self/fd", "descriptors"),
        ] {
            symlink(to, inside(name)).expect("it can be made");
        }
        symlink(self.canary(), inside("absolute")).expect("it can be made");
    }

    /// Makes the canary look as if nobody had touched it for a day.
    fn rest(&self) {
        let day = SystemTime::now() - Duration::from_secs(86_400);
        let times = fs::FileTimes::new().set_accessed(day).set_modified(day);
        let canary = fs::File::options().write(true).open(self.canary());
        canary
            .and_then(|file| file.set_times(times))
            .expect("it is there");
    }

    /// What somebody who reads or writes outside would change.
    fn state(&self) -> (Vec<u64>, Vec<String>) {
        let canary = fs::symlink_metadata(self.canary()).expect("it is there");
        let times = [
            canary.atime_nsec(),
            canary.mtime_nsec(),
            canary.ctime_nsec(),
        ];
        let seconds = [canary.atime(), canary.mtime(), canary.ctime()];
        let mut numbers: Vec<u64> = times
            .iter()
            .chain(&seconds)
            .map(|&one| one as u64)
            .collect();
        numbers.extend([
            canary.mode().into(),
            canary.nlink(),
            canary.size(),
            canary.ino(),
        ]);
        let mut names: Vec<String> = fs::read_dir(&self.outside)
            .expect("it is there")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        (numbers, names)
    }
}

/// Gives directories in `path` their permissions back.
fn open_up(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Contents, by their paths.
fn contents(path: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => contents(&path, found),
            Ok(kind) if kind.is_file() => {
                found.push((path.clone(), fs::read(&path).unwrap_or_default()))
            }
            _ => {}
        }
        found.push((path, Vec::new()));
    }
}

/// This process's sandbox, which is made at the first call.
fn sandbox_of_process() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nanoplane-fuzz-{}-{number}", std::process::id());
        let outside = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&outside);
        let inside = outside.join("inside");
        fs::create_dir_all(&inside).expect("it can be made");
        let sandbox = Sandbox { outside, inside };
        fs::write(sandbox.canary(), SECRET).expect("it can be written");
        sandbox
    })
}

/// The directory in which programs are. With it as working directory, some programs get the view
/// that they have if nothing else is said, and others this directory as their root.
pub fn sandbox() -> &'static Path {
    &sandbox_of_process().inside
}

/// System calls with any arguments, of a program with two harts: which goes on, or ends with a
/// status or in a sentence, and reaches nothing outside its sandbox. The first byte says what it
/// may reach.
pub fn linux(bytes: &[u8]) {
    let sandbox = sandbox_of_process();
    sandbox.fill();
    sandbox.rest();
    let mut input = Input(bytes);
    let how = input.byte();
    let is_here = std::env::current_dir().is_ok_and(|current| current == sandbox.inside);
    let access = Access {
        reach: match how & 1 {
            0 if is_here => Reach::Sandbox,
            _ => Reach::Root(sandbox.inside.clone()),
        },
        read_only: how & 2 != 0,
    };
    let read_only = access.read_only;
    let before = sandbox.state();
    let mut files_before = Vec::new();
    contents(&sandbox.inside, &mut files_before);

    let mut spec = small_server();
    spec.fabric.cores = 2;
    let image = elf::load(&program(&mut input, sandbox)).expect("it is a program");
    let setup = Setup {
        arguments: vec![b"program".to_vec(), b"file".to_vec()],
        environment: Vec::new(),
        harts: spec.harts(),
        memory_bytes: MEMORY_BYTES,
        seed: 1,
        access,
        output_bytes: OUTPUT_BYTES,
    };
    let prepared = prepare(image, &setup).expect("it can be run");
    let mut machine = Machine::with_linux(&spec, prepared).expect("it can be built");
    machine.engine.set_speed(0, true);
    for _ in 0..STEPS {
        match machine.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    assert!(
        !knows_the_secret(&machine),
        "the program has read the canary"
    );
    drop(machine);
    assert_eq!(
        sandbox.state(),
        before,
        "something outside has been touched"
    );
    let canary = fs::read(sandbox.canary()).expect("it is there");
    assert_eq!(canary, SECRET);
    if read_only {
        let mut files = Vec::new();
        contents(&sandbox.inside, &mut files);
        files.sort();
        files_before.sort();
        assert!(files == files_before, "what may only be read has changed");
    }
}

/// Whether a part of the canary is in the memory that calls are given.
fn knows_the_secret(machine: &Machine) -> bool {
    let first = LineAddress::of(STRINGS).0;
    let last = LineAddress::of(WORDS).0;
    let mut memory = Vec::new();
    for line in (first..last).map(LineAddress) {
        let cores = &machine.engine.cores;
        let data = cores.iter().find_map(|core| core.copy_of(line));
        let data = data.map_or_else(
            || machine.engine.fabric.ram().read_line(line),
            |(_, data)| data,
        );
        memory.extend_from_slice(&data.0);
    }
    memory
        .windows(SECRET.len() / 2)
        .any(|part| part == &SECRET[..SECRET.len() / 2])
}

/// A program that makes the calls that are read from `input`, and then ends.
fn program(input: &mut Input<'_>, sandbox: &Sandbox) -> Vec<u8> {
    let paths = paths(sandbox);
    // What it was started with is not its own.
    let mut words = vec![CLOSE_RANGE, 0, 2, 0, 0, 0, 0];
    let mut filling = Vec::new();
    let count = usize::from(input.byte());
    filling.extend_from_slice(input.bytes(count));
    while !input.is_empty() && words.len() < WORDS_OF_CALL * MAX_CALLS {
        let number = match input.byte() {
            // What takes paths and descriptors, mostly.
            number @ 0..=223 => u64::from(number),
            number => u64::from(number) + 40 + u64::from(input.byte() & 1) * 170,
        };
        words.push(number);
        for _ in 1..WORDS_OF_CALL {
            words.push(argument(input, paths.len()));
        }
    }
    let mut code = vec![pages_ahead(8, 7)];
    for _ in 0..words.len() / WORDS_OF_CALL {
        code.push(load_double(17, 8, 0));
        code.extend((0..6).map(|number| load_double(10 + number, 8, 8 + 8 * number)));
        code.push(add_immediate(8, 8, 8 * WORDS_OF_CALL as u32));
        code.push(0x73); // ecall
    }
    // What calls have written may be in the caches of devices, into which nobody can look: reads
    // it.
    code.extend([
        (STRINGS as u32) | 5 << 7 | 0x37, // lui t0
        (WORDS as u32) | 6 << 7 | 0x37,   // lui t1
        load_double(7, 5, 0),
        add_immediate(5, 5, 64),
        0xfe62_9ce3, // bne t0, t1, -8
    ]);
    // exit_group(0)
    code.extend([add_immediate(10, 0, 0), add_immediate(17, 0, 94), 0x73]);
    let mut contents: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    contents.resize((STRINGS - ENTRY) as usize, 0);
    for path in &paths {
        let mut path = path.clone().into_bytes();
        path.resize(STRING_BYTES, 0);
        contents.extend(path);
    }
    contents.resize((BUFFERS - ENTRY) as usize, 0);
    contents.extend(filling);
    contents.resize((WORDS - ENTRY) as usize, 0);
    contents.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    program_file(ENTRY, &contents)
}

fn paths(sandbox: &Sandbox) -> Vec<String> {
    let outside = sandbox.outside.to_string_lossy();
    let mut paths: Vec<String> = [
        "file",
        "directory",
        "directory/file",
        "new",
        "directory/new",
        "link/file",
        "out",
        "absolute",
        "up/canary",
        "loop",
        "descriptors/3",
        "descriptors/4/../canary",
        "..",
        "../canary",
        ".",
        "/",
        "",
        "//proc/self/environ",
        "/proc/self/exe",
        "/proc/self/mem",
        "/./proc/self/maps",
        "/proc/self/fd/3",
        "/proc/self/fd/4/../../canary",
        "/dev/fd/3",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/etc/passwd",
        "/tmp",
        "/tmp/new",
        "/tmp/../proc/version",
        "/sys/kernel",
        "directory/../../canary",
        "directory/deeper/../../../canary",
    ]
    .map(String::from)
    .into();
    paths.extend([
        format!("{outside}/canary"),
        format!("{outside}/inside/../canary"),
        format!("{outside}/inside/file"),
        format!("/proc/self/root{outside}/canary"),
        format!("/proc/{}/cwd/../canary", std::process::id()),
        "x".repeat(STRING_BYTES - 1),
    ]);
    paths
}

fn argument(input: &mut Input<'_>, paths: usize) -> u64 {
    let kind = input.byte();
    match kind >> 5 {
        // A path.
        0 | 1 => STRINGS + STRING_BYTES as u64 * (u64::from(input.byte()) % paths as u64),
        // A structure.
        2 | 3 => BUFFERS + u64::from(input.byte()) * 8,
        // A descriptor, or flags.
        4 | 5 => u64::from(kind & 0x1f) % 12,
        // AT_FDCWD.
        6 => (-100i64) as u64,
        _ => input.number(),
    }
}
