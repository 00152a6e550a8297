//! The state of the process, and which handler does which call.
//!
//! Numbers and layouts: Linux's `include/uapi/asm-generic`, which RISC-V uses.

use crate::agent::FEMTOSECONDS_PER_NANOSECOND;
use crate::errno::Errno;
use crate::files::Files;
use crate::output::Allowance;
use crate::sockets::Network;
use crate::space::Space;
use crate::stub::Answer;
use crate::threads::{Futexes, Thread};
use crate::time::Alarm;
use crate::user::{Outcome, Pause, User};
use fabric::Time;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use riscv::Trap;
use std::collections::BTreeSet;
use std::io::Write;

/// The process's number.
pub(crate) const PROCESS_ID: u32 = 100;
/// The user is told so many things about a program: one of each call that is not there, and more.
const MAX_TOLD: usize = 500;
/// Nanoseconds from 1970 to the time at which every run begins: 2020-01-01T00:00:00Z.
pub(crate) const EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// A call of the program, until it is answered.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// Which.
    pub number: u64,
    /// `a0` to `a5`.
    pub arguments: [u64; 6],
    /// Its view of memory.
    pub user: User,
    /// When it came.
    pub begin_ns: u64,
    /// The time that it was ready to wait is over.
    pub timed_out: bool,
    /// A signal has come while it waited.
    pub interrupted: bool,
    /// Bytes of a write that have been taken already.
    pub progress: usize,
    /// It waits for nothing that other calls change: for a futex, or for a time.
    pub only_woken: bool,
}

/// What happens after a call, once everything that it writes is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A new thread begins on this hart.
    Start(usize),
    /// The call of this hart need not wait any more.
    Woken(usize),
    /// The thread of this hart has ended.
    ThreadEnded(usize),
    /// The thread of this hart has been sent a signal.
    Signal(usize),
    /// What was mapped there has been moved.
    Unmap { start: u64, end: u64 },
    /// [`Kernel::alarm_rings`] is to be called then, with this number.
    Alarm { at_ns: u64, number: u64 },
}

/// A crash of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// On which hart.
    pub hart: usize,
    /// Why.
    pub trap: Trap,
    /// Where.
    pub pc: u64,
    /// The 32 integer registers.
    pub registers: [u64; 32],
    /// The instruction's encoding, if there is one.
    pub instruction: Option<u32>,
}

/// How the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exit(u8),
    /// A signal that it does not handle ended it; a shell shows 128 and its number.
    Signal(u8),
    /// It did something that no hart can do.
    Fault(Box<Fault>),
}

/// Everything that the process has.
pub(crate) struct Kernel {
    pub now: Time,
    pub ending: Option<(Time, Ending)>,
    /// A handler was interrupted by a signal of the host, which somebody should look after.
    pub host_interrupted: bool,
    /// Something has changed that a waiting call might wait for.
    pub changed: bool,
    /// What is to happen after the call.
    pub effects: Vec<Effect>,
    pub files: Files,
    pub network: Network,
    pub space: Space,
    /// The thread of each hart.
    pub threads: Vec<Option<Thread>>,
    pub futexes: Futexes,
    /// For each signal its handler, flags and mask; 0, the default action.
    pub actions: [[u64; 3]; 65],
    /// Signals that any thread may take, as bits from 1 on.
    pub pending: u64,
    pub alarm: Alarm,
    pub next_thread_id: u32,
    /// Time that threads which have ended took.
    pub ended_cpu_ns: u64,
    pub random: Pcg64,
    pub memory_bytes: u64,
    pub output: Allowance,
    pub name: [u8; 16],
    told: BTreeSet<String>,
}

impl Kernel {
    pub fn new(
        files: Files,
        space: Space,
        harts: usize,
        memory_bytes: u64,
        seed: u64,
        output: Allowance,
    ) -> Kernel {
        let mut threads: Vec<Option<Thread>> = (0..harts).map(|_| None).collect();
        threads[0] = Some(Thread::new(PROCESS_ID, 0, 0));
        let mut name = [0; 16];
        let from = files.program_name();
        let length = from.len().min(15);
        name[..length].copy_from_slice(&from[..length]);
        Kernel {
            now: Time::ZERO,
            ending: None,
            host_interrupted: false,
            changed: false,
            effects: Vec::new(),
            files,
            network: Network::default(),
            space,
            threads,
            futexes: Futexes::default(),
            actions: [[0; 3]; 65],
            pending: 0,
            alarm: Alarm::default(),
            next_thread_id: PROCESS_ID + 1,
            ended_cpu_ns: 0,
            random: Pcg64::seed_from_u64(seed),
            memory_bytes,
            output,
            name,
            told: BTreeSet::new(),
        }
    }

    /// Simulated time since the start.
    pub fn now_ns(&self) -> u64 {
        self.now.as_fs() / FEMTOSECONDS_PER_NANOSECOND
    }

    /// Random bytes, which are the same in every run with the same seed.
    pub fn random_bytes(&mut self, length: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length as usize + 8);
        while (bytes.len() as u64) < length {
            bytes.extend_from_slice(&self.random.next_u64().to_le_bytes());
        }
        bytes.truncate(length as usize);
        bytes
    }

    /// Tells the user something about the program, once.
    pub fn tell_once(&mut self, sentence: String) {
        if self.told.len() < MAX_TOLD && !self.told.contains(&sentence) {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "nanoplane: {sentence}");
            self.told.insert(sentence);
        }
    }

    /// Ends the process.
    pub fn end(&mut self, ending: Ending) -> u64 {
        self.ending.get_or_insert((self.now, ending));
        Answer::WAIT
    }

    /// What a call waits for, for a report of a deadlock.
    pub fn describe_wait(&self, hart: usize, call: &Call) -> String {
        let thread = self.threads[hart].as_ref().map_or(0, |thread| thread.id);
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
        format!("thread {thread} on hart {hart} waits in {what}.")
    }

    /// Runs the handler of a call.
    pub fn call(&mut self, hart: usize, call: &mut Call) -> Outcome {
        let outcome = self.dispatch(hart, call);
        if matches!(outcome, Ok(_) | Err(Pause::Error(_))) && !self.wants_signal(hart) {
            self.restore_mask(hart);
        }
        outcome
    }

    fn dispatch(&mut self, hart: usize, call: &mut Call) -> Outcome {
        let c = call;
        let [a0, a1, a2, a3, a4, a5] = c.arguments;
        match c.number {
            // Files.
            17 => self.getcwd(c, a0, a1),
            19 => self.eventfd(a0, a1),
            20 => self.epoll_create(a0),
            21 => self.epoll_ctl(c, a0, a1, a2, a3),
            22 => {
                self.wait_mask(hart, c, a4)?;
                self.epoll_wait(c, a0, a1, a2, PollTime::Milliseconds(a3 as i32))
            }
            23 => self.files.duplicate(a0, 0, false),
            24 => self.dup3(a0, a1, a2),
            25 => self.fcntl(a0, a1, a2),
            29 => self.ioctl(c, a0, a1, a2),
            32 => self.files.get(a0).map(|_| 0).map_err(Pause::from),
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
            64 => self.write(hart, c, a0, &[(a1, a2)], None),
            65 | 66 => {
                let vectors = c.user.vectors(a1, a2)?;
                if c.number == 65 {
                    self.read(c, a0, &vectors, None)
                } else {
                    self.write(hart, c, a0, &vectors, None)
                }
            }
            67 => self.read(c, a0, &[(a1, a2)], Some(a3)),
            68 => self.write(hart, c, a0, &[(a1, a2)], Some(a3)),
            69 | 70 => {
                let vectors = c.user.vectors(a1, a2)?;
                if c.number == 69 {
                    self.read(c, a0, &vectors, Some(a3))
                } else {
                    self.write(hart, c, a0, &vectors, Some(a3))
                }
            }
            71 => self.sendfile(hart, c, a0, a1, a2, a3),
            72 => {
                let mask = match a5 {
                    0 => 0,
                    _ => c.user.words::<1>(a5)?[0],
                };
                self.wait_mask(hart, c, mask)?;
                self.select(c, [a0, a1, a2, a3, a4])
            }
            73 => {
                self.wait_mask(hart, c, a3)?;
                self.poll(c, a0, a1, a2)
            }
            // `splice` and its kin: a program copies by itself where these cannot.
            75..=77 => Err(Errno::INVAL.into()),
            78 => self.readlinkat(c, a0, a1, a2, a3),
            79 => self.fstatat(c, a0, a1, a2, a3),
            80 => self.fstat(c, a0, a1),
            81 => Ok(0),
            82 | 83 => self.fsync(a0),
            88 => self.utimensat(c, a0, a1, a2, a3),
            166 => self.umask(a0),
            223 => self.files.get(a0).map(|_| 0).map_err(Pause::from),
            276 => self.renameat(c, a0, a1, a2, a3, a4),
            279 => self.memfd_create(a1),
            291 => self.statx(c, a0, a1, a2, a4),
            436 => self.close_range(a0, a1, a2),

            // Memory.
            214 => {
                let (end, dirty) = self.space.set_heap_end(a0);
                c.user.clear_ranges(&dirty);
                Ok(end)
            }
            215 => {
                self.space.unmap(a0, a1)?;
                Ok(0)
            }
            216 => self.mremap(c, a0, a1, a2, a3),
            222 => self.mmap(c, [a0, a1, a2, a3, a4, a5]),
            226 => {
                let dirty = self.space.protect(a0, a1, a2 & 7 != 0)?;
                c.user.clear_ranges(&dirty);
                Ok(0)
            }
            227 | 228 | 229 | 230 | 231 | 284 => Ok(0),
            233 => self.madvise(c, a0, a1, a2),

            // Threads.
            93 => self.exit_thread(hart, c, a0),
            94 => Ok(self.end(Ending::Exit(a0 as u8))),
            96 => self.set_tid_address(hart, a0),
            98 => self.futex(hart, c, [a0, a1, a2, a3, a4, a5]),
            // Nobody holds a robust mutex and dies.
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
            // The niceness 0, as 20 less it.
            141 => Ok(20),
            168 => self.getcpu(hart, c, a0, a1),
            178 => Ok(u64::from(self.thread(hart).id)),
            220 => self.clone_thread(hart, c, [a0, a1, a2, a4, a3, 0]),
            435 => self.clone3(hart, c, a0, a1),
            221 | 281 => {
                self.tell_once(
                    "the program wants to execute another one (execve), which it cannot: it is \
                     alone on the server; the call answers ENOSYS"
                        .to_string(),
                );
                Err(Errno::NOSYS.into())
            }
            260 | 95 => Err(Errno::CHILD.into()),
            283 => self.membarrier(a0),
            // The stub clears what it has decoded when it reloads.
            259 => self.flush_instructions(hart, c),

            // Signals.
            129 => self.kill(hart, a0 as i32, a1),
            130 => self.tgkill(a0, a1),
            131 => self.tgkill(a1, a2),
            132 => self.sigaltstack(hart, c, a0, a1),
            133 => self.sigsuspend(hart, c, a0, a1),
            134 => self.sigaction(c, a0, a1, a2, a3),
            135 => self.sigprocmask(hart, c, a0, a1, a2, a3),
            136 => self.sigpending(hart, c, a0, a1),
            137 => self.sigtimedwait(hart, c, [a0, a1, a2, a3]),
            139 => self.sigreturn(hart, c),

            // Time.
            101 => self.sleep(c, a0, None, a1),
            102 => self.getitimer(c, a0, a1),
            103 => self.setitimer(c, a0, a1, a2),
            113 => self.clock_gettime(hart, c, a0, a1),
            114 => self.clock_getres(c, a0, a1),
            115 => self.sleep(c, a2, Some((a0, a1 & 1 != 0)), a3),
            153 => self.times(c, a0),
            165 => self.getrusage(c, a1),
            169 => self.gettimeofday(c, a0),

            // The process and the system.
            144..=147 | 149 | 151 | 152 | 154 | 157 | 159 => Ok(0),
            148 | 150 => {
                for address in [a0, a1, a2] {
                    c.user.write_u32(address, 0)?;
                }
                Ok(0)
            }
            155 | 156 | 172 => Ok(u64::from(PROCESS_ID)),
            158 => Ok(0),
            160 => self.uname(c, a0),
            163 => self.prlimit(c, a0, a1),
            164 => Ok(0),
            167 => self.prctl(c, a0, a1),
            173 => Ok(1),
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
            // Restartable sequences: a C library does without.
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
            206 => self.send(hart, c, a0, &[(a1, a2)], a3, (a4, a5)),
            207 => self.receive(c, a0, &[(a1, a2)], a3, (a4, a5)),
            208 => self.set_socket_option(a0),
            209 => self.socket_option(c, a0, [a1, a2, a3, a4]),
            210 => self.shutdown(a0, a1),
            211 => self.send_message(hart, c, a0, a1, a2),
            212 => self.receive_message(c, a0, a1, a2),
            242 => self.accept(c, a0, a1, a2, a3),
            441 => {
                self.wait_mask(hart, c, a4)?;
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
            "the program uses system call {number}{name}, which is not there; it answers ENOSYS"
        ));
        Err(Errno::NOSYS.into())
    }
}

/// How long a call may wait for files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PollTime {
    /// So long; negative: for ever.
    Milliseconds(i32),
    /// As the `timespec` at this address says; 0: for ever.
    Timespec(u64),
}

/// Names of calls for what is said about them: those that may wait, and those that are not there.
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
