//! The thread scheduler of a core: bounded strict priority (Section 2.2).
//!
//! The active thread of the highest priority should run; of several, the one whose oldest message has
//! waited longest, but a thread that has begun a message goes on until it is done. A thread that has
//! spent more than `lmsg_cycles` on a message at priority 0 is at 1 until that message is done.
//!
//! The hardware does no more than to say which thread should run and to raise an interrupt: the swap
//! is the kernel's.

use crate::context::Context;
use crate::spec::SchedulerKind;
use pipeline::NEVER;

/// A core's scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    kind: SchedulerKind,
    interval_cycles: u64,
    pub contexts: Vec<Context>,
    /// The running thread's place in `contexts`; none while the kernel runs.
    running: Option<usize>,
    /// Since when the running thread spends its time on a message.
    since: u64,
    /// Most cycles for a message at priority 0: `lmsgcycles`.
    pub most_cycles: u64,
    /// When a scheduler of kind `timer` decides next, and whether it wants a swap.
    tick_at: u64,
    wants_swap: bool,
}

state::component!(Scheduler {
    kind: fixed,
    interval_cycles: fixed,
    contexts,
    running,
    since: cycle,
    most_cycles,
    tick_at: cycle,
    wants_swap,
});

impl Scheduler {
    /// `interval_cycles`: between two decisions of a scheduler of kind `timer`.
    pub fn new(kind: SchedulerKind, interval_cycles: u64, most_cycles: u64) -> Scheduler {
        Scheduler {
            kind,
            interval_cycles,
            contexts: Vec::new(),
            running: None,
            since: 0,
            most_cycles,
            tick_at: NEVER,
            wants_swap: false,
        }
    }

    /// The place of a context.
    pub fn find(&self, number: u16) -> Option<usize> {
        self.contexts.iter().position(|one| one.number == number)
    }

    /// The thread that runs.
    #[inline]
    pub fn running(&self) -> Option<&Context> {
        self.contexts.get(self.running?)
    }

    /// The same, to change it.
    #[inline]
    pub fn running_mut(&mut self) -> Option<&mut Context> {
        self.contexts.get_mut(self.running?)
    }

    /// The thread that should run; the one that does, if there is nothing to do.
    pub fn target(&self) -> Option<usize> {
        let active = self.contexts.iter().enumerate();
        let active = active.filter(|(_, context)| context.is_active);
        let first = active.min_by_key(|&(place, context)| {
            let goes_on = self.running == Some(place) && context.has_begun;
            let waits_since = context.arrivals.front().copied().unwrap_or(NEVER);
            (context.priority(), !goes_on, waits_since, place)
        });
        first.map(|(place, _)| place).or(self.running)
    }

    /// Whether the interrupt is raised.
    pub fn interrupts(&self) -> bool {
        match self.kind {
            SchedulerKind::Hardware => self.target() != self.running,
            SchedulerKind::Timer => self.wants_swap,
        }
    }

    /// The kernel has changed to the thread of this context, or to none, at cycle `now`.
    pub fn run(&mut self, now: u64, context: Option<usize>) {
        self.stop_clock(now);
        self.running = context;
        self.wants_swap = false;
        self.since = now;
    }

    /// The timer of a scheduler of kind `timer` begins to run.
    pub fn start_timer(&mut self, now: u64) {
        if self.kind == SchedulerKind::Timer {
            self.tick_at = now + self.interval_cycles;
        }
    }

    /// A message has come for the context at `place`, and can be read from `readable` on.
    pub fn arrived(&mut self, place: usize, readable: u64) {
        if self.running == Some(place) && self.contexts[place].arrivals.is_empty() {
            self.since = readable;
        }
    }

    /// The running thread has done a message. `false`: it had none.
    pub fn message_done(&mut self, now: u64) -> bool {
        let Some(context) = self.running_mut() else {
            return false;
        };
        if context.arrivals.pop_front().is_none() {
            return false;
        }
        context.used_cycles = 0;
        context.is_lowered = false;
        context.has_begun = false;
        self.since = now;
        true
    }

    /// The running thread says that it has nothing to do. `false`: that was known, or is not true.
    pub fn idle(&mut self, now: u64) -> bool {
        self.stop_clock(now);
        let Some(context) = self.running_mut() else {
            return false;
        };
        if !context.is_active || context.first_word().is_some() {
            return false;
        }
        context.is_active = false;
        true
    }

    /// Removes a context.
    pub fn remove(&mut self, now: u64, place: usize) {
        self.run(now, None);
        self.contexts.remove(place);
    }

    /// Charges the running thread for its time up to `now`.
    fn stop_clock(&mut self, now: u64) {
        let cycles = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        if let Some(context) = self.running_mut()
            && !context.arrivals.is_empty()
        {
            context.used_cycles += cycles;
        }
    }

    /// When the running thread has used up its time at priority 0.
    fn overrun_at(&self) -> u64 {
        match self.running() {
            Some(context) if !context.arrivals.is_empty() && context.priority() == 0 => {
                let left = self.most_cycles.saturating_sub(context.used_cycles);
                self.since.saturating_add(left)
            }
            _ => NEVER,
        }
    }

    /// When it next does something by itself, in cycles.
    pub fn next_event(&self) -> u64 {
        self.overrun_at().min(self.tick_at)
    }

    /// That cycle has come.
    pub fn event(&mut self, now: u64) {
        if self.overrun_at() <= now {
            self.stop_clock(now);
            if let Some(context) = self.running_mut() {
                context.is_lowered = true;
            }
        }
        if self.tick_at <= now {
            self.tick_at = now + self.interval_cycles;
            self.wants_swap = self.target() != self.running;
        }
    }
}
