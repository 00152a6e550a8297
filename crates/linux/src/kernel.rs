//! The state of all processes, and the dispatch of calls to their handlers.
//!
//! Numbers and layouts: Linux's `include/uapi/asm-generic`, which RISC-V uses.

use crate::agent::FEMTOSECONDS_PER_NANOSECOND;
use crate::errno::Errno;
use crate::files::{AT_FDCWD, Files};
use crate::frames::SharedFrames;
use crate::layout::MAXIMUM_THREADS;
use crate::output::Allowance;
use crate::process::{Dead, Process, Status};
use crate::sockets::Network;
use crate::space::Space;
use crate::stub::Answer;
use crate::threads::{Futexes, Thread};
use crate::user::{Outcome, Pause, User, Write as MemoryWrite};
use fabric::Time;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use riscv::Trap;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::rc::Rc;

/// The number of the first process, whose end is the end of the run.
pub(crate) const PROCESS_ID: u32 = 100;
/// Maximum number of messages about a program: one for each unimplemented call, and more.
const MAX_TOLD: usize = 500;
/// Nanoseconds from 1970 to the start of every run: 2020-01-01T00:00:00Z.
pub(crate) const EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// A call in progress.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The number of the call.
    pub number: u64,
    /// `a0` to `a5`.
    pub arguments: [u64; 6],
    /// Its view of memory.
    pub user: User,
    /// The time of the call.
    pub begin_ns: u64,
    /// Its timeout has expired.
    pub timed_out: bool,
    /// A signal arrived while it was blocked.
    pub interrupted: bool,
    /// Bytes of a write that are already accepted.
    pub progress: usize,
    /// It waits for nothing that other calls change: for a futex, for a time, or for a child that
    /// uses its memory.
    pub only_woken: bool,
    /// The floating-point registers are in the save area.
    pub has_all_registers: bool,
    /// Changes to address spaces, which are performed before anything else.
    pub jobs: Vec<MemoryWrite>,
}

/// The consequence of a call, carried out once all its writes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A new thread starts.
    Start(usize),
    /// The call of this thread need not wait any longer.
    Woken(usize),
    /// This thread has ended by itself.
    ThreadEnded(usize),
    /// This thread ends with its process, or because the process executes another program.
    Kill(usize),
    /// This thread executes another program.
    Executed(usize),
    /// This thread has received a signal.
    Signal(usize),
    /// [`Kernel::alarm_rings`] is to be called at that time, with this number.
    Alarm { at_ns: u64, number: u64 },
}

/// A crash of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The hart.
    pub hart: usize,
    /// The cause.
    pub trap: Trap,
    /// The address of the instruction.
    pub pc: u64,
    /// The 32 integer registers.
    pub registers: [u64; 32],
    /// The encoding of the instruction, if available.
    pub instruction: Option<u32>,
}

/// How the first process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exit(u8),
    /// A signal that it does not handle ended it; a shell shows 128 plus its number.
    Signal(u8),
    /// It did something that no hart can execute.
    Fault(Box<Fault>),
}

/// The source of all random numbers.
pub(crate) struct Random(Pcg64);

impl Random {
    pub fn from_seed(seed: u64) -> Random {
        Random(Pcg64::seed_from_u64(seed))
    }

    /// The next bytes.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length as usize + 8);
        while (bytes.len() as u64) < length {
            bytes.extend_from_slice(&self.0.next_u64().to_le_bytes());
        }
        bytes.truncate(length as usize);
        bytes
    }
}

/// The state of all processes.
pub(crate) struct Kernel {
    pub now: Time,
    pub ending: Option<(Time, Ending)>,
    /// A handler was interrupted by a signal of the host, which must be handled.
    pub host_interrupted: bool,
    /// Something has changed that a blocked call might wait for.
    pub changed: bool,
    /// Effects to carry out after the call.
    pub effects: Vec<Effect>,
    pub network: Network,
    pub frames: SharedFrames,
    /// The process whose call is being handled.
    pub process: Box<Process>,
    /// The other processes, by their numbers.
    pub processes: BTreeMap<u32, Box<Process>>,
    /// Ended processes that their parents have not yet waited for.
    pub dead: BTreeMap<u32, Dead>,
    /// The threads of all processes, indexed by the number of their save area.
    pub threads: Vec<Option<Thread>>,
    pub futexes: Futexes,
    pub next_id: u32,
    /// Number of alarms set so far, in all processes.
    pub alarms: u64,
    pub random: Random,
    pub harts: usize,
    pub memory_bytes: u64,
    pub output: Allowance,
    told: BTreeSet<String>,
}

impl Kernel {
    pub fn new(
        files: Files,
        space: Space,
        frames: SharedFrames,
        harts: usize,
        memory_bytes: u64,
        random: Random,
        output: Allowance,
    ) -> Kernel {
        let space = Rc::new(RefCell::new(space));
        let mut threads: Vec<Option<Thread>> = (0..MAXIMUM_THREADS).map(|_| None).collect();
        threads[0] = Some(Thread::new(PROCESS_ID, PROCESS_ID, space.clone(), 0, 0));
        Kernel {
            now: Time::ZERO,
            ending: None,
            host_interrupted: false,
            changed: false,
            effects: Vec::new(),
            network: Network::default(),
            frames,
            process: Box::new(Process::first(files, space)),
            processes: BTreeMap::new(),
            dead: BTreeMap::new(),
            threads,
            futexes: Futexes::default(),
            next_id: PROCESS_ID + 1,
            alarms: 0,
            random,
            harts,
            memory_bytes,
            output,
            told: BTreeSet::new(),
        }
    }

    /// Simulated time since the start.
    pub fn now_ns(&self) -> u64 {
        self.now.as_fs() / FEMTOSECONDS_PER_NANOSECOND
    }

    /// Random bytes, which are the same in every run with the same seed.
    pub fn random_bytes(&mut self, length: u64) -> Vec<u8> {
        self.random.bytes(length)
    }

    /// Tells the user something about the program, once.
    pub fn tell_once(&mut self, sentence: String) {
        if self.told.len() < MAX_TOLD && !self.told.contains(&sentence) {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "nanoplane: {sentence}");
            self.told.insert(sentence);
        }
    }

    /// Ends the run.
    pub fn end(&mut self, ending: Ending) -> u64 {
        self.ending.get_or_insert((self.now, ending));
        Answer::WAIT
    }

    /// Describes what a call waits for, for a report of a deadlock.
    pub fn describe_wait(&self, slot: usize, hart: Option<usize>, call: &Call) -> String {
        let thread = self.threads[slot].as_ref().map_or(0, |thread| thread.id);
        let name = NAMES
            .iter()
            .find(|(number, _)| *number == call.number)
            .map_or("a call", |(_, name)| name);
        let first = call.arguments[0];
        let what = match call.number {
            98 => format!("a futex at {first:#x}"),
            63 | 64 | 65 | 66 | 202 | 242 | 203 | 206 | 207 | 211 | 212 => {
                format!("{name} of file {first}")
            }
            _ => name.to_string(),
        };
        let place = hart.map_or_else(String::new, |hart| format!(" on hart {hart}"));
        format!("thread {thread}{place} waits in {what}.")
    }

    /// Runs the handler of a call.
    pub fn call(&mut self, slot: usize, call: &mut Call) -> Outcome {
        self.enter_process(slot);
        let outcome = self.dispatch(slot, call);
        if matches!(outcome, Ok(_) | Err(Pause::Error(_))) && !self.wants_signal(slot) {
            self.restore_mask(slot);
        }
        outcome
    }

    fn dispatch(&mut self, slot: usize, call: &mut Call) -> Outcome {
        let c = call;
        let [a0, a1, a2, a3, a4, a5] = c.arguments;
        match c.number {
            // Files.
            17 => self.getcwd(c, a0, a1),
            19 => self.eventfd(a0, a1),
            20 => self.epoll_create(a0),
            21 => self.epoll_ctl(c, a0, a1, a2, a3),
            22 => {
                self.wait_mask(slot, c, a4)?;
                self.epoll_wait(c, a0, a1, a2, PollTime::Milliseconds(a3 as i32))
            }
            23 => self.process.files.duplicate(a0, 0, false),
            24 => self.dup3(a0, a1, a2),
            25 => self.fcntl(a0, a1, a2),
            29 => self.ioctl(c, a0, a1, a2),
            32 => self.process.files.get(a0).map(|_| 0).map_err(Pause::from),
            33 => self.mknodat(c, a0, a1, a2),
            34 => self.mkdirat(c, a0, a1, a2),
            35 => self.unlinkat(c, a0, a1, a2),
            36 => self.symlinkat(c, a0, a1, a2),
            37 => self.linkat(c, a0, a1, a2, a3, a4),
            43 => self.statfs(c, a0, a1),
            44 => self.fstatfs(c, a0, a1),
            45 => self.truncate(c, a0, a1),
            46 => self.ftruncate(a0, a1),
            47 => self.fallocate(a0, a1, a2, a3),
            48 | 439 => self.faccessat(c, a0, a1, a2, if c.number == 48 { 0 } else { a3 }),
            49 => self.chdir(c, a0),
            50 => self.fchdir(a0),
            52 => self.fchmod(a0, a1),
            53 => self.fchmodat(c, a0, a1, a2),
            54 => self.fchownat(c, a0, a1, a2, a3, a4),
            55 => self.fchown(a0, a1, a2),
            56 => self.openat(c, a0, a1, a2, a3),
            57 => self.close(a0),
            59 => self.pipe(c, a0, a1),
            61 => self.getdents(c, a0, a1, a2),
            62 => self.lseek(a0, a1, a2),
            63 => self.read(c, a0, &[(a1, a2)], None),
            64 => self.write(slot, c, a0, &[(a1, a2)], None),
            65 | 66 => {
                let vectors = c.user.vectors(a1, a2)?;
                if c.number == 65 {
                    self.read(c, a0, &vectors, None)
                } else {
                    self.write(slot, c, a0, &vectors, None)
                }
            }
            67 => self.read(c, a0, &[(a1, a2)], Some(a3)),
            68 => self.write(slot, c, a0, &[(a1, a2)], Some(a3)),
            69 | 70 => {
                let vectors = c.user.vectors(a1, a2)?;
                if c.number == 69 {
                    self.read(c, a0, &vectors, Some(a3))
                } else {
                    self.write(slot, c, a0, &vectors, Some(a3))
                }
            }
            71 => self.sendfile(slot, c, a0, a1, a2, a3),
            72 => {
                let mask = match a5 {
                    0 => 0,
                    _ => c.user.words::<1>(a5)?[0],
                };
                self.wait_mask(slot, c, mask)?;
                self.select(c, [a0, a1, a2, a3, a4])
            }
            73 => {
                self.wait_mask(slot, c, a3)?;
                self.poll(c, a0, a1, a2)
            }
            // `splice` and its kin: programs fall back to copying.
            75..=77 => Err(Errno::INVAL.into()),
            78 => self.readlinkat(c, a0, a1, a2, a3),
            79 => self.fstatat(c, a0, a1, a2, a3),
            80 => self.fstat(c, a0, a1),
            81 => Ok(0),
            82 | 83 => self.fsync(a0),
            88 => self.utimensat(c, a0, a1, a2, a3),
            166 => self.umask(a0),
            223 => self.process.files.get(a0).map(|_| 0).map_err(Pause::from),
            276 => self.renameat(c, a0, a1, a2, a3, a4),
            279 => self.memfd_create(a1),
            291 => self.statx(c, a0, a1, a2, a4),
            436 => self.close_range(a0, a1, a2),

            // Memory.
            214 => Ok(self.process.space.borrow_mut().set_heap_end(a0)),
            215 => {
                self.process.space.borrow_mut().unmap(a0, a1)?;
                Ok(0)
            }
            216 => self.mremap(a0, a1, a2, a3),
            222 => self.mmap(c, [a0, a1, a2, a3, a4, a5]),
            226 => {
                self.process.space.borrow_mut().protect(a0, a1, a2)?;
                Ok(0)
            }
            227 | 228 | 229 | 230 | 231 | 284 => Ok(0),
            233 => self.madvise(a0, a1, a2),

            // Threads and processes.
            93 => self.exit_thread(slot, c, a0),
            94 => Ok(self.end_process(slot, Status::exit(a0))),
            95 => self.waitid(c, [a0, a1, a2, a3, a4]),
            96 => self.set_tid_address(slot, a0),
            98 => self.futex(slot, c, [a0, a1, a2, a3, a4, a5]),
            // Robust mutexes need no list: no holder can die alone.
            99 => Ok(0),
            118 | 119 => Ok(0),
            120 => Ok(0),
            121 => {
                c.user.write_u32(a1, 0)?;
                Ok(0)
            }
            122 => Ok(0),
            123 => self.sched_getaffinity(c, a1, a2),
            124 => Ok(0),
            125 | 126 => Ok(0),
            140 => Ok(0),
            // Niceness 0, returned as 20 minus the niceness.
            141 => Ok(20),
            168 => self.getcpu(slot, c, a0, a1),
            178 => Ok(u64::from(self.thread(slot).id)),
            220 => self.clone_thread(slot, c, [a0, a1, a2, a4, a3]),
            435 => self.clone3(slot, c, a0, a1),
            221 => self.execve(slot, c, AT_FDCWD as u64, [a0, a1, a2], 0),
            281 => self.execve(slot, c, a0, [a1, a2, a3], a4),
            260 => self.wait4(c, [a0, a1, a2, a3]),
            283 => self.membarrier(a0),
            // The stub discards decoded instructions when it reloads.
            259 => self.flush_instructions(slot, c),

            // Signals.
            129 => self.kill(slot, a0 as i32, a1),
            130 => self.tgkill(None, a0, a1),
            131 => self.tgkill(Some(a0), a1, a2),
            132 => self.sigaltstack(slot, c, a0, a1),
            133 => self.sigsuspend(slot, c, a0, a1),
            134 => self.sigaction(c, a0, a1, a2, a3),
            135 => self.sigprocmask(slot, c, a0, a1, a2, a3),
            136 => self.sigpending(slot, c, a0, a1),
            137 => self.sigtimedwait(slot, c, [a0, a1, a2, a3]),
            139 => self.sigreturn(slot, c),

            // Time.
            101 => self.sleep(c, a0, None, a1),
            102 => self.getitimer(c, a0, a1),
            103 => self.setitimer(c, a0, a1, a2),
            113 => self.clock_gettime(slot, c, a0, a1),
            114 => self.clock_getres(slot, c, a0, a1),
            115 => self.sleep(c, a2, Some((a0, a1 & 1 != 0)), a3),
            153 => self.times(c, a0),
            165 => self.getrusage(c, a0, a1),
            169 => self.gettimeofday(c, a0),

            // The process and the system.
            144..=147 | 149 | 151 | 152 | 159 => Ok(0),
            148 | 150 => {
                for address in [a0, a1, a2] {
                    c.user.write_u32(address, 0)?;
                }
                Ok(0)
            }
            154 => self.setpgid(a0, a1),
            155 => self.getpgid(a0),
            156 => self.getsid(a0),
            157 => self.setsid(),
            172 => Ok(u64::from(self.process.id)),
            158 => Ok(0),
            160 => self.uname(c, a0),
            163 => self.prlimit(c, a0, a1),
            164 => Ok(0),
            167 => self.prctl(c, a0, a1),
            173 => Ok(u64::from(self.process.parent)),
            174 | 175 => Ok(u64::from(rustix::process::getuid().as_raw())),
            176 | 177 => Ok(u64::from(rustix::process::getgid().as_raw())),
            179 => self.sysinfo(c, a0),
            258 => self.hardware_probe(c, a0, a1),
            261 => self.prlimit(c, a1, a3),
            278 => {
                let bytes = self.random_bytes(a1.min(1 << 20));
                let length = bytes.len() as u64;
                c.user.write(a0, bytes)?;
                Ok(length)
            }
            // Restartable sequences: C libraries work without them.
            293 => Err(Errno::NOSYS.into()),

            // Sockets.
            198 => self.socket(a0, a1, a2),
            199 => self.socketpair(c, a0, a1, a3),
            200 => self.bind(c, a0, a1, a2),
            201 => self.listen(a0, a1),
            202 => self.accept(c, a0, a1, a2, 0),
            203 => self.connect(c, a0, a1, a2),
            204 => self.socket_name(c, a0, a1, a2, false),
            205 => self.socket_name(c, a0, a1, a2, true),
            206 => self.send(slot, c, a0, &[(a1, a2)], a3, (a4, a5)),
            207 => self.receive(c, a0, &[(a1, a2)], a3, (a4, a5)),
            208 => self.set_socket_option(a0),
            209 => self.socket_option(c, a0, [a1, a2, a3, a4]),
            210 => self.shutdown(a0, a1),
            211 => self.send_message(slot, c, a0, a1, a2),
            212 => self.receive_message(c, a0, a1, a2),
            242 => self.accept(c, a0, a1, a2, a3),
            441 => {
                self.wait_mask(slot, c, a4)?;
                self.epoll_wait(c, a0, a1, a2, PollTime::Timespec(a3))
            }
            _ => self.unknown(c),
        }
    }

    fn unknown(&mut self, call: &Call) -> Outcome {
        let number = call.number;
        let name = NAMES
            .iter()
            .find(|(one, _)| *one == number)
            .map_or_else(String::new, |(_, name)| format!(" ({name})"));
        self.tell_once(format!(
            "the program uses system call {number}{name}, which is not implemented; it returns \
             ENOSYS"
        ));
        Err(Errno::NOSYS.into())
    }
}

/// The maximum time that a call waits for files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PollTime {
    /// Milliseconds; negative: for ever.
    Milliseconds(i32),
    /// The `timespec` at this address; 0: for ever.
    Timespec(u64),
}

/// Names of calls for messages: those that may block, and those that are not implemented.
const NAMES: &[(u64, &str)] = &[
    (0, "io_setup"),
    (5, "setxattr"),
    (8, "getxattr"),
    (11, "listxattr"),
    (22, "epoll_pwait"),
    (26, "inotify_init1"),
    (39, "umount2"),
    (40, "mount"),
    (51, "chroot"),
    (58, "vhangup"),
    (63, "read"),
    (64, "write"),
    (65, "readv"),
    (66, "writev"),
    (72, "pselect6"),
    (73, "ppoll"),
    (74, "signalfd4"),
    (85, "timerfd_create"),
    (86, "timerfd_settime"),
    (87, "timerfd_gettime"),
    (89, "acct"),
    (90, "capget"),
    (91, "capset"),
    (92, "personality"),
    (97, "unshare"),
    (100, "get_robust_list"),
    (101, "nanosleep"),
    (107, "timer_create"),
    (112, "clock_settime"),
    (115, "clock_nanosleep"),
    (116, "syslog"),
    (117, "ptrace"),
    (95, "waitid"),
    (133, "rt_sigsuspend"),
    (137, "rt_sigtimedwait"),
    (138, "rt_sigqueueinfo"),
    (142, "reboot"),
    (161, "sethostname"),
    (170, "settimeofday"),
    (171, "adjtimex"),
    (180, "mq_open"),
    (186, "msgget"),
    (190, "semget"),
    (194, "shmget"),
    (198, "socket"),
    (202, "accept"),
    (203, "connect"),
    (206, "sendto"),
    (207, "recvfrom"),
    (211, "sendmsg"),
    (212, "recvmsg"),
    (213, "readahead"),
    (232, "mincore"),
    (235, "mbind"),
    (236, "get_mempolicy"),
    (241, "perf_event_open"),
    (242, "accept4"),
    (243, "recvmmsg"),
    (260, "wait4"),
    (264, "name_to_handle_at"),
    (266, "clock_adjtime"),
    (268, "setns"),
    (269, "sendmmsg"),
    (274, "sched_setattr"),
    (275, "sched_getattr"),
    (277, "seccomp"),
    (280, "bpf"),
    (282, "userfaultfd"),
    (285, "copy_file_range"),
    (286, "preadv2"),
    (287, "pwritev2"),
    (425, "io_uring_setup"),
    (434, "pidfd_open"),
    (437, "openat2"),
    (438, "pidfd_getfd"),
    (441, "epoll_pwait2"),
    (449, "futex_waitv"),
    (452, "fchmodat2"),
    (454, "futex_wake"),
    (455, "futex_wait"),
];
