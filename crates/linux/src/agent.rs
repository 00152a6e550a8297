//! An agent on the fabric that handles the system calls of all harts.

mod harts;
mod task;

use crate::frames::Pages;
use crate::kernel::{Call, Effect, Ending, Kernel};
use crate::layout;
use crate::schedule::Schedule;
use crate::stub::{self, Answer};
use crate::user::{Outcome, Pause, User};
use fabric::{
    Agent, AgentContext, Attachment, CacheSpec, LineAddress, LineData, MemoryAccess, Request,
    RequestKind, Time,
};
use harts::Hart;
use std::rc::Rc;
use task::{Activity, Job, Task};

/// The interrupt that wakes a waiting hart.
const WAKE_INTERRUPT: u8 = 3;
pub(crate) const FEMTOSECONDS_PER_NANOSECOND: u64 = 1_000_000;
/// Marks the tokens of processes' alarms; other tokens are those of waits.
const ALARM: u64 = 1 << 63;
/// The token for the end of a time slice.
const SLICE: u64 = 1 << 62;
/// Number of low bits of a wait's token that hold the thread's number.
const THREAD_BITS: u32 = 16;
/// Marks the tokens of reads of lines that will be copied.
const COPY: u64 = 1 << 32;
/// Maximum number of accesses in flight for one thread.
const MAX_OUTSTANDING_ACCESSES: usize = 16;

/// The Linux personality of a server.
pub struct Linux {
    kernel: Kernel,
    tasks: Vec<Task>,
    harts: Vec<Hart>,
    schedule: Schedule,
    /// Whether the end of a time slice is scheduled.
    slice_ends: bool,
    /// Number of threads whose calls are changing address spaces.
    changing: usize,
    /// Threads whose handlers wait for those changes, in order of arrival.
    waiting: Vec<usize>,
    /// Threads blocked in calls, in the order in which they blocked.
    blocked: Vec<usize>,
    waits: u64,
}

impl Linux {
    pub(crate) fn new(kernel: Kernel, harts: usize) -> Linux {
        let mut tasks: Vec<Task> = std::iter::repeat_with(Task::default)
            .take(layout::MAXIMUM_THREADS)
            .collect();
        tasks[0].answer = Some(Answer::RELOAD);
        Linux {
            kernel,
            tasks,
            harts: std::iter::repeat_with(Hart::default).take(harts).collect(),
            schedule: Schedule::new(harts),
            slice_ends: false,
            changing: 0,
            waiting: Vec::new(),
            blocked: Vec::new(),
            waits: 0,
        }
    }

    /// Its attachment to the fabric.
    pub fn attachment() -> Attachment {
        Attachment {
            owns: Some(layout::DEVICE_RANGE),
            cache: Some(CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 4,
                mshrs: MAX_OUTSTANDING_ACCESSES as u32,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// The way and time at which the program ended, if it has.
    pub fn ending(&self) -> Option<(Time, &Ending)> {
        self.kernel.ending.as_ref().map(|(at, how)| (*at, how))
    }

    /// The pages of memory that now hold something for the program.
    pub fn pages(&self) -> Pages {
        self.kernel.frames.borrow().pages()
    }

    /// Whether the program tried to write more to files of the host than it may.
    pub fn exceeds_output(&self) -> bool {
        self.kernel.output.is_exceeded()
    }

    /// Whether a signal of the host requires the simulation to stop; clears this flag.
    pub fn take_interrupted(&mut self) -> bool {
        std::mem::take(&mut self.kernel.host_interrupted)
    }

    /// Begins to handle a new request of a thread.
    fn begin(&mut self, thread: usize) {
        let space = self.kernel.threads[thread].as_ref();
        self.tasks[thread].call = Call {
            begin_ns: self.kernel.now_ns(),
            user: space.map_or_else(User::default, |one| User::of(one.space.clone())),
            ..Call::default()
        };
    }

    /// Begins as many accesses as may be in flight. When none is left, continues with the activity
    /// that needed them, and then with the threads that waited for it.
    fn go_on(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        self.access(context, thread);
        let mut waiting = self.waiting.iter();
        while let Some(place) = waiting.position(|&one| !self.waits_for_change(one)) {
            let thread = self.waiting.remove(place);
            if let Activity::Waiting(job) = self.tasks[thread].activity {
                self.handle(context, thread, job);
            }
            waiting = self.waiting.iter();
        }
        if self.changing > 0 {
            for thread in 0..self.tasks.len() {
                let task = &self.tasks[thread];
                let waits = task.changes.is_some() && task.under_way == 0;
                if waits && !self.others_access(thread) {
                    self.access(context, thread);
                }
            }
        }
    }

    /// Whether another thread's call is changing this thread's address space. Meanwhile no other
    /// handler may read or change that address space, as with Linux's `mmap_lock`.
    fn waits_for_change(&self, thread: usize) -> bool {
        let space = self.tasks[thread].call.user.space();
        self.changing > 0
            && space.is_some_and(|space| {
                let changes = |(other, task): (usize, &Task)| {
                    let changes = task.changes.as_ref();
                    other != thread && changes.is_some_and(|one| Rc::ptr_eq(one, space))
                };
                self.tasks.iter().enumerate().any(changes)
            })
    }

    /// Whether calls of other threads are reading or writing in the address space that this
    /// thread's call changes. Such calls have already translated their addresses.
    fn others_access(&self, thread: usize) -> bool {
        let Some(space) = &self.tasks[thread].changes else {
            return false;
        };
        self.tasks.iter().enumerate().any(|(other, task)| {
            let of_other = task.call.user.space();
            other != thread
                && task.has_accesses()
                && task.activity != Activity::Arguments
                && of_other.is_some_and(|one| Rc::ptr_eq(one, space))
        })
    }

    fn access(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        if self.tasks[thread].under_way == 0 && self.others_access(thread) {
            return;
        }
        let task = &mut self.tasks[thread];
        while task.under_way < MAX_OUTSTANDING_ACCESSES
            && let Some((access, mark)) = task.next_access()
        {
            task.under_way += 1;
            context.access(access, mark | thread as u64);
        }
        if task.under_way > 0 {
            return;
        }
        if let Some(space) = task.changes.take() {
            self.changing -= 1;
            space.borrow_mut().has_changed();
        }
        if task.is_doomed {
            return self.finish(context, thread);
        }
        match task.activity {
            Activity::Away
            | Activity::Blocked
            | Activity::Waiting(_)
            | Activity::Saving(_)
            | Activity::Fencing(_) => {}
            Activity::Arguments => {
                let saved = task
                    .call
                    .user
                    .saved(stub::save_area(thread) + stub::ARGUMENTS, 64);
                let mut words = [0; 8];
                for (word, bytes) in words.iter_mut().zip(saved.unwrap_or_default().chunks(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                }
                task.call.arguments.copy_from_slice(&words[..6]);
                task.call.number = words[7];
                task.call.user.clear();
                self.handle(context, thread, Job::Call);
            }
            Activity::Reading(job) => self.handle(context, thread, job),
            Activity::Writing(answer) => {
                let fences = self.outdated(thread);
                for &hart in &fences {
                    self.raise(context, hart);
                }
                let has_to_wait = !fences.is_empty();
                let task = &mut self.tasks[thread];
                task.known_loss = task.call.user.space().map_or(0, |one| one.borrow().loss());
                task.fences = fences;
                task.activity = Activity::Fencing(answer);
                match self.schedule.hart_of(thread) {
                    Some(hart) if has_to_wait => self.tell(context, hart),
                    _ => self.complete(context, thread),
                }
            }
        }
    }

    /// Answers a completed call, unless harts must first discard translations.
    fn complete(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        let task = &mut self.tasks[thread];
        let Activity::Fencing(answer) = task.activity else {
            return;
        };
        if !task.fences.is_empty() {
            return;
        }
        task.activity = Activity::Away;
        if let Some(space) = task.call.user.space() {
            space.borrow_mut().release_left(task.known_loss);
        }
        let effects = std::mem::take(&mut task.effects);
        if effects.contains(&Effect::Executed(thread))
            && let Some(hart) = self.schedule.hart_of(thread)
        {
            self.schedule.unload(hart);
        }
        if answer == Answer::SUSPEND {
            self.block(context, thread, None);
        } else if !effects.contains(&Effect::ThreadEnded(thread)) {
            self.answer(context, thread, answer);
        }
        self.carry_out(context, effects);
    }

    /// Runs the handler of a thread's request.
    fn handle(&mut self, context: &mut AgentContext<'_>, thread: usize, job: Job) {
        if self.kernel.ending.is_some() {
            return;
        }
        if self.tasks[thread].is_doomed {
            self.tasks[thread].activity = Activity::Away;
            return self.go_on(context, thread);
        }
        if self.waits_for_change(thread) {
            self.tasks[thread].activity = Activity::Waiting(job);
            return self.waiting.push(thread);
        }
        let mut call = std::mem::take(&mut self.tasks[thread].call);
        let outcome = match job {
            Job::Call => self.kernel.call(thread, &mut call),
            Job::Fault => self.kernel.fault(thread, &mut call),
            Job::Signal(answer) => self.kernel.deliver_signal(thread, &mut call, answer),
        };
        let task = &mut self.tasks[thread];
        task.writes.extend(std::mem::take(&mut call.jobs));
        if let Some(space) = call.user.space() {
            task.writes.extend(space.borrow_mut().jobs());
            let changes = !task.writes.is_empty() || space.borrow().loses();
            if changes && task.changes.is_none() {
                task.changes = Some(space.clone());
                self.changing += 1;
            }
        }
        task.call = call;
        self.after(context, thread, job, outcome);
        if std::mem::take(&mut self.kernel.changed) {
            self.retry_blocked(context);
        }
    }

    fn after(&mut self, context: &mut AgentContext<'_>, thread: usize, job: Job, outcome: Outcome) {
        let task = &mut self.tasks[thread];
        let answer = match outcome {
            Ok(value) => value,
            Err(Pause::Error(errno)) => {
                task.call.user.forget_writes();
                errno.result()
            }
            Err(Pause::Memory) => {
                task.call.user.forget_writes();
                let wanted = task.call.user.take_wanted();
                task.reads.extend(wanted);
                task.activity = Activity::Reading(job);
                self.kernel.effects.clear();
                return self.go_on(context, thread);
            }
            Err(Pause::Registers) => {
                task.call.user.forget_writes();
                task.activity = Activity::Saving(job);
                if let Some(hart) = self.schedule.hart_of(thread) {
                    self.tell(context, hart);
                }
                return;
            }
            Err(Pause::Block { deadline_ns }) => {
                task.call.user.forget_writes();
                self.block(context, thread, deadline_ns);
                let effects = std::mem::take(&mut self.kernel.effects);
                return self.carry_out(context, effects);
            }
        };
        if task.wait.take().is_some() {
            self.blocked.retain(|&other| other != thread);
            self.kernel.has_run_again(thread);
        }
        let effects = std::mem::take(&mut self.kernel.effects);
        for effect in &effects {
            // A killed thread must do nothing more in its address space.
            if let Effect::Kill(other) = effect {
                self.tasks[*other].is_doomed = true;
            }
        }
        let task = &mut self.tasks[thread];
        task.effects.extend(effects);
        let goes_on = !matches!(answer, Answer::WAIT | Answer::SUSPEND);
        task.writes.extend(task.call.user.take_writes());
        if goes_on && !matches!(job, Job::Signal(_)) && self.kernel.wants_signal(thread) {
            // The writes of the call must be in memory before the delivery reads there. The call
            // may have executed another program.
            let task = &mut self.tasks[thread];
            let space = self.kernel.threads[thread].as_ref();
            task.call.user = space.map_or_else(User::default, |one| User::of(one.space.clone()));
            task.activity = Activity::Reading(Job::Signal(answer));
            return self.go_on(context, thread);
        }
        let task = &mut self.tasks[thread];
        task.activity = Activity::Writing(answer);
        self.go_on(context, thread);
    }

    fn block(&mut self, context: &mut AgentContext<'_>, thread: usize, deadline_ns: Option<u64>) {
        let task = &mut self.tasks[thread];
        task.activity = Activity::Blocked;
        let is_new = task.wait.is_none();
        if let Some(hart) = self.schedule.hart_of(thread) {
            self.schedule.waits(hart);
            let asks = is_new && self.harts[hart].asked.is_some();
            if asks || self.schedule.leaves(hart) {
                self.tell(context, hart);
            }
        }
        let task = &mut self.tasks[thread];
        // A thread that was woken in vain blocks again; its alarm is still set unless it has gone
        // off.
        if !is_new && !std::mem::take(&mut task.call.timed_out) {
            return self.go_on(context, thread);
        }
        self.waits += 1;
        let wait = self.waits;
        task.wait = Some(wait);
        if let Some(at) = deadline_ns.and_then(|ns| ns.checked_mul(FEMTOSECONDS_PER_NANOSECOND)) {
            let token = wait << THREAD_BITS | thread as u64;
            context.wake(Time::from_fs(at), token);
        }
        if is_new {
            self.blocked.push(thread);
            self.kernel.begins_to_wait(thread);
        }
        // Perform the changes that the call made to its address space.
        self.go_on(context, thread);
        if self.kernel.wants_signal(thread) {
            self.tasks[thread].call.interrupted = true;
            self.look_again(context, thread);
        }
    }

    /// Lets each blocked call check whether it must still wait.
    fn retry_blocked(&mut self, context: &mut AgentContext<'_>) {
        for thread in self.blocked.clone() {
            if !self.tasks[thread].call.only_woken {
                self.look_again(context, thread);
            }
        }
    }

    /// Runs the handler of a blocked call. A handler that is already running will check by itself.
    fn look_again(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        if self.tasks[thread].activity == Activity::Blocked {
            self.handle(context, thread, Job::Call);
        }
    }

    fn carry_out(&mut self, context: &mut AgentContext<'_>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(thread) => self.answer(context, thread, Answer::RELOAD),
                Effect::Woken(thread) => self.look_again(context, thread),
                Effect::ThreadEnded(thread) => self.finish(context, thread),
                Effect::Kill(thread) => self.doom(context, thread),
                // The hart was told before the call was answered.
                Effect::Executed(_) => {}
                Effect::Alarm { at_ns, number } => {
                    let at = at_ns.saturating_mul(FEMTOSECONDS_PER_NANOSECOND);
                    context.wake(Time::from_fs(at), ALARM | number);
                }
                // A call in progress checks for signals when it is answered.
                Effect::Signal(thread) if self.kernel.wants_signal(thread) => {
                    let task = &mut self.tasks[thread];
                    if task.wait.is_some() {
                        task.call.interrupted = true;
                        self.look_again(context, thread);
                    } else if task.activity == Activity::Away
                        && let Some(hart) = self.schedule.hart_of(thread)
                    {
                        self.raise(context, hart);
                    }
                }
                Effect::Signal(_) => {}
            }
        }
    }

    /// Ends a doomed thread that has not yet ended by itself.
    fn doom(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        if !self.tasks[thread].is_doomed {
            return;
        }
        let hart = self.schedule.hart_of(thread);
        match hart {
            Some(hart) if self.is_running(hart) => self.raise(context, hart),
            // The hart returns once it has carried out its order.
            Some(hart) if self.harts[hart].told.is_some() => {}
            _ => self.go_on(context, thread),
        }
    }

    /// Cleans up after a thread that has ended.
    fn finish(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        self.blocked.retain(|&other| other != thread);
        let woken = self.kernel.thread_ended(thread);
        let task = std::mem::take(&mut self.tasks[thread]);
        self.changing -= usize::from(task.changes.is_some());
        if let Some(hart) = self.schedule.ended(thread) {
            self.has_hart(hart);
            self.tell(context, hart);
        }
        for thread in woken {
            self.look_again(context, thread);
        }
        let effects = std::mem::take(&mut self.kernel.effects);
        self.carry_out(context, effects);
        if std::mem::take(&mut self.kernel.changed) {
            self.retry_blocked(context);
        }
    }
}

state::unsaved!(Linux);

impl Agent for Linux {
    fn name(&self) -> String {
        "Linux".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        self.kernel.now = context.now();
        let hart = usize::from(request.reply_to.hart);
        let RequestKind::Read { address, .. } = request.kind else {
            return context.refuse(request.reply_to);
        };
        let from = address - layout::DEVICE;
        if from == stub::AREA {
            let thread = self.schedule.thread_of(hart).unwrap_or(0);
            if let Some(state) = self.space_of(hart) {
                self.schedule.loaded(hart, state);
            }
            return context.reply(request.reply_to, stub::save_area(thread), Time::ZERO);
        }
        if std::mem::take(&mut self.harts[hart].raised) {
            context.interrupt(hart as u16, WAKE_INTERRUPT, false, Time::ZERO);
        }
        self.harts[hart].asked = Some((request.reply_to, from == stub::READY));
        self.has_come(context, hart);
        match from {
            stub::CALL | stub::FAULT => self.trapped(context, hart, from),
            stub::READY => {
                if let Some(told) = self.harts[hart].told.take() {
                    self.has_done(context, hart, told);
                }
                let thread = self.schedule.thread_of(hart);
                if let Some(thread) = thread.filter(|&one| self.tasks[one].is_doomed) {
                    return self.go_on(context, thread);
                }
                if self.harts[hart].asked.is_some() {
                    self.tell(context, hart);
                }
            }
            // The program itself has read this address.
            _ => {
                self.harts[hart].asked = None;
                context.refuse(request.reply_to);
            }
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        self.kernel.now = context.now();
        let thread = (token & !COPY) as usize;
        let task = &mut self.tasks[thread];
        task.under_way -= 1;
        if let MemoryAccess::ReadAtHome { address } = access {
            if token & COPY != 0 {
                let copy = task.copies.iter().position(|&(from, _)| from == address);
                let (_, to) = task.copies.swap_remove(copy.expect("it has been begun"));
                task.copied.push_back((to, data));
            } else {
                task.call.user.provide(LineAddress::of(address), data);
            }
        }
        self.go_on(context, thread);
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        self.kernel.now = context.now();
        if token & ALARM != 0 {
            self.kernel.alarm_rings(token & !ALARM);
            let effects = std::mem::take(&mut self.kernel.effects);
            self.carry_out(context, effects);
            if std::mem::take(&mut self.kernel.changed) {
                self.retry_blocked(context);
            }
            return;
        }
        if token == SLICE {
            self.slice_ends = false;
            let running: Vec<usize> = (0..self.harts.len())
                .filter(|&hart| self.is_running(hart))
                .filter_map(|hart| self.schedule.thread_of(hart))
                .collect();
            for hart in self.schedule.slice_ends(|thread| running.contains(&thread)) {
                self.raise(context, hart);
            }
            return self.await_slice(context);
        }
        let wait = token >> THREAD_BITS;
        let thread = (token & ((1 << THREAD_BITS) - 1)) as usize;
        if self.tasks[thread].wait == Some(wait) {
            self.tasks[thread].call.timed_out = true;
            self.look_again(context, thread);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        self.blocked
            .iter()
            .map(|&thread| {
                let hart = self.schedule.hart_of(thread);
                self.kernel
                    .describe_wait(thread, hart, &self.tasks[thread].call)
            })
            .collect()
    }
}
