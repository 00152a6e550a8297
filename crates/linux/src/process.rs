//! Processes: their family, their end, and the calls that wait for it.

use crate::errno::Errno;
use crate::files::Files;
use crate::kernel::{Call, Effect, Ending, Kernel, PROCESS_ID};
use crate::signals::{SIGCHLD, Sent};
use crate::space::SharedSpace;
use crate::stub::Answer;
use crate::time::{Alarm, timespec};
use crate::user::{Outcome, Pause};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The parent of orphaned processes: like `init`, it never waits.
const NOBODY: u32 = 1;

/// A process.
pub(crate) struct Process {
    pub id: u32,
    pub parent: u32,
    /// Its process group and its session.
    pub group: u32,
    pub session: u32,
    pub files: Files,
    pub space: SharedSpace,
    /// For each signal its handler, flags and mask; 0 is the default action.
    pub actions: [[u64; 3]; 65],
    /// Pending signals that any thread may take, as bits from 1 on.
    pub pending: u64,
    /// The senders of pending signals.
    pub sent: BTreeMap<u64, Sent>,
    pub alarm: Alarm,
    /// CPU time of its ended threads, and of children that it has waited for.
    pub ended_cpu_ns: u64,
    pub children_cpu_ns: u64,
    pub name: [u8; 16],
    /// The thread that waits until this process no longer uses its memory (`vfork`).
    pub has_memory_of: Option<usize>,
    /// Its status once its last thread has ended.
    status: Option<Status>,
}

/// The exit status of a process, as returned by `wait4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u32);

impl Status {
    /// It exited.
    pub fn exit(status: u64) -> Status {
        Status((status as u32 & 0xff) << 8)
    }

    /// A signal ended it.
    pub fn signal(signal: u64) -> Status {
        Status(signal as u32)
    }

    /// The contents of `siginfo`: a code, and the exit status or the signal.
    fn about(self) -> (u32, u32) {
        const CLD_EXITED: u32 = 1;
        const CLD_KILLED: u32 = 2;
        match self.0 & 0x7f {
            0 => (CLD_EXITED, self.0 >> 8),
            signal => (CLD_KILLED, signal),
        }
    }
}

/// The remains of an ended process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dead {
    parent: u32,
    group: u32,
    status: Status,
    cpu_ns: u64,
}

impl Process {
    /// The first process.
    pub fn first(files: Files, space: SharedSpace) -> Process {
        let name = name_of(files.program_name());
        Process {
            id: PROCESS_ID,
            parent: NOBODY,
            group: PROCESS_ID,
            session: PROCESS_ID,
            files,
            space,
            actions: [[0; 3]; 65],
            pending: 0,
            sent: BTreeMap::new(),
            alarm: Alarm::default(),
            ended_cpu_ns: 0,
            children_cpu_ns: 0,
            name,
            has_memory_of: None,
            status: None,
        }
    }

    /// A child, which has the same files open.
    pub fn child(&self, id: u32, space: SharedSpace) -> Process {
        Process {
            id,
            parent: self.id,
            group: self.group,
            session: self.session,
            files: self.files.clone(),
            space,
            actions: self.actions,
            pending: 0,
            sent: BTreeMap::new(),
            alarm: Alarm::default(),
            ended_cpu_ns: 0,
            children_cpu_ns: 0,
            name: self.name,
            has_memory_of: None,
            status: None,
        }
    }
}

/// The name of a thread, at most 15 bytes.
pub(crate) fn name_of(program: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    let length = program.len().min(15);
    name[..length].copy_from_slice(&program[..length]);
    name
}

/// The children that a call waits for.
#[derive(Clone, Copy)]
enum Which {
    Any,
    Process(u32),
    Group(u32),
}

const WNOHANG: u64 = 1;
const WEXITED: u64 = 4;
const WNOWAIT: u64 = 0x100_0000;

impl Kernel {
    /// Makes the process of a thread current.
    pub fn enter_process(&mut self, slot: usize) {
        let Some(thread) = &self.threads[slot] else {
            return;
        };
        let id = thread.process;
        if self.process.id == id {
            return;
        }
        if let Some(next) = self.processes.remove(&id) {
            let before = std::mem::replace(&mut self.process, next);
            // A process without threads has ended.
            if !self.threads_of(before.id).is_empty() {
                self.processes.insert(before.id, before);
            }
        }
    }

    /// A process by its number.
    pub fn process_mut(&mut self, id: u32) -> Option<&mut Process> {
        if self.process.id == id {
            return Some(&mut self.process);
        }
        self.processes.get_mut(&id).map(|process| &mut **process)
    }

    /// Numbers of the running processes.
    pub fn process_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.processes.keys().copied().collect();
        ids.push(self.process.id);
        ids.retain(|&id| !self.threads_of(id).is_empty());
        ids.sort_unstable();
        ids
    }

    /// The child's copy of the address space.
    pub fn fork_space(&mut self, call: &mut Call) -> Outcome<SharedSpace> {
        let child = self.process.space.borrow_mut().fork();
        let mut child = match child {
            Ok(child) => child,
            Err(errno) => {
                self.tell_once(
                    "the program forks, and the server has too little memory left for a second \
                     address space of the same size (server.memory_mib); the call returns ENOMEM"
                        .to_string(),
                );
                return Err(errno.into());
            }
        };
        call.jobs.extend(child.jobs());
        Ok(Rc::new(RefCell::new(child)))
    }

    /// Ends the process of a thread with all its threads; if it is the first process, ends the run.
    pub fn end_process(&mut self, slot: usize, status: Status) -> u64 {
        if self.process.id == PROCESS_ID {
            let (code, value) = status.about();
            return self.end(match code {
                1 => Ending::Exit(value as u8),
                _ => Ending::Signal(value as u8),
            });
        }
        self.process.status.get_or_insert(status);
        self.kill_others(slot);
        self.effects.push(Effect::ThreadEnded(slot));
        Answer::WAIT
    }

    /// Ends the other threads of the process.
    pub fn kill_others(&mut self, slot: usize) {
        let others = self.threads_of(self.process.id).into_iter();
        let others = others.filter(|&other| other != slot);
        self.effects.extend(others.map(Effect::Kill));
    }

    /// Handles the end of a process's last thread; returns the threads whose calls need not wait
    /// any longer.
    pub fn process_ended(&mut self) -> Vec<usize> {
        let id = self.process.id;
        self.process.files.close_all();
        self.changed = true;
        for one in self.processes.values_mut().filter(|one| one.parent == id) {
            one.parent = NOBODY;
        }
        self.dead.retain(|_, one| one.parent != id);
        let status = self.process.status.unwrap_or(Status::exit(0));
        let dead = Dead {
            parent: self.process.parent,
            group: self.process.group,
            status,
            cpu_ns: self.process.ended_cpu_ns + self.process.children_cpu_ns,
        };
        let waits = self.process.has_memory_of.take();
        if let Some(parent) = self.processes.get(&dead.parent) {
            const SA_NO_CHILD_WAIT: u64 = 2;
            let [handler, flags, _] = parent.actions[SIGCHLD as usize];
            if handler != 1 && flags & SA_NO_CHILD_WAIT == 0 {
                self.dead.insert(id, dead);
            }
            let (code, value) = status.about();
            let sent = Sent {
                code: code as i32,
                process: id,
                value,
            };
            self.send_to_process(dead.parent, SIGCHLD, sent);
        }
        waits.into_iter().collect()
    }

    /// Ends a process's use of its parent's memory.
    pub fn give_memory_back(&mut self) {
        if let Some(parent) = self.process.has_memory_of.take() {
            self.effects.push(Effect::Woken(parent));
        }
    }

    /// Looks for an ended child: its number and remains. `None`: there is none yet.
    fn ended_child(&self, which: Which) -> Result<Option<(u32, Dead)>, Errno> {
        let parent = self.process.id;
        let is_wanted = |id: u32, group: u32| match which {
            Which::Any => true,
            Which::Process(wanted) => wanted == id,
            Which::Group(wanted) => wanted == group,
        };
        let mut dead = self.dead.iter();
        let found = dead.find(|(id, one)| one.parent == parent && is_wanted(**id, one.group));
        if let Some((&id, &one)) = found {
            return Ok(Some((id, one)));
        }
        let mut others = self.processes.values();
        match others.any(|one| one.parent == parent && is_wanted(one.id, one.group)) {
            true => Ok(None),
            false => Err(Errno::CHILD),
        }
    }

    fn forget_child(&mut self, id: u32) {
        if let Some(dead) = self.dead.remove(&id) {
            self.process.children_cpu_ns += dead.cpu_ns;
        }
    }

    /// `wait4`: the children, the address for the status, options, the address for the resource
    /// usage.
    pub fn wait4(&mut self, call: &mut Call, [which, status, options, usage]: [u64; 4]) -> Outcome {
        let which = match which as i32 {
            -1 => Which::Any,
            0 => Which::Group(self.process.group),
            group if group < 0 => Which::Group(group.unsigned_abs()),
            process => Which::Process(process as u32),
        };
        let Some((id, dead)) = self.ended_child(which)? else {
            return self.wait_for_child(call, options);
        };
        if status != 0 {
            call.user.write_u32(status, dead.status.0)?;
        }
        if usage != 0 {
            let [seconds, nanoseconds] = timespec(dead.cpu_ns);
            let mut words = [0; 18];
            (words[0], words[1]) = (seconds, nanoseconds / 1000);
            call.user.write_words(usage, &words)?;
        }
        self.forget_child(id);
        Ok(u64::from(id))
    }

    /// `waitid`: kind and number of the children, the address for `siginfo`, options.
    pub fn waitid(
        &mut self,
        call: &mut Call,
        [kind, number, about, options, _]: [u64; 5],
    ) -> Outcome {
        let number = number as u32;
        let which = match kind {
            0 => Which::Any,
            1 => Which::Process(number),
            2 if number == 0 => Which::Group(self.process.group),
            2 => Which::Group(number),
            _ => return Err(Errno::INVAL.into()),
        };
        if options & WEXITED == 0 {
            return Err(Errno::INVAL.into());
        }
        let found = self.ended_child(which)?;
        if found.is_none() {
            let answer = self.wait_for_child(call, options)?;
            if about != 0 {
                call.user.write(about, vec![0; 128])?;
            }
            return Ok(answer);
        }
        let Some((id, dead)) = found else {
            return Ok(0);
        };
        if about != 0 {
            let (code, value) = dead.status.about();
            let user = rustix::process::getuid().as_raw();
            let mut bytes = vec![0; 128];
            let fields = [
                (0, SIGCHLD as u32),
                (8, code),
                (16, id),
                (20, user),
                (24, value),
            ];
            for (at, field) in fields {
                bytes[at..at + 4].copy_from_slice(&field.to_le_bytes());
            }
            call.user.write(about, bytes)?;
        }
        if options & WNOWAIT == 0 {
            self.forget_child(id);
        }
        Ok(0)
    }

    /// Handles a wait without an ended child.
    fn wait_for_child(&self, call: &Call, options: u64) -> Outcome {
        if options & WNOHANG != 0 {
            Ok(0)
        } else if call.interrupted {
            Err(Errno::INTR.into())
        } else {
            Err(Pause::Block { deadline_ns: None })
        }
    }

    /// The process that a call names; 0 is the caller.
    fn meant(&mut self, id: u64) -> Result<&mut Process, Errno> {
        let id = match id as u32 {
            0 => self.process.id,
            id => id,
        };
        self.process_mut(id).ok_or(Errno::SRCH)
    }

    pub fn setpgid(&mut self, process: u64, group: u64) -> Outcome {
        if (group as i32) < 0 {
            return Err(Errno::INVAL.into());
        }
        let (own, session) = (self.process.id, self.process.session);
        let groups: Vec<(u32, u32)> = self
            .processes
            .values()
            .chain([&self.process])
            .map(|one| (one.group, one.session))
            .collect();
        let process = self.meant(process)?;
        if process.id != own && process.parent != own {
            return Err(Errno::SRCH.into());
        }
        let group = match group as u32 {
            0 => process.id,
            group => group,
        };
        let exists = group == process.id || groups.contains(&(group, session));
        // A session leader stays in its group.
        if process.session != session || process.session == process.id || !exists {
            return Err(Errno::PERM.into());
        }
        process.group = group;
        Ok(0)
    }

    pub fn getpgid(&mut self, process: u64) -> Outcome {
        Ok(u64::from(self.meant(process)?.group))
    }

    pub fn getsid(&mut self, process: u64) -> Outcome {
        Ok(u64::from(self.meant(process)?.session))
    }

    pub fn setsid(&mut self) -> Outcome {
        let id = self.process.id;
        let mut others = self.processes.values();
        if self.process.group == id || others.any(|one| one.group == id) {
            return Err(Errno::PERM.into());
        }
        (self.process.group, self.process.session) = (id, id);
        Ok(u64::from(id))
    }
}
