//! The thread scheduler of a core: bounded strict priority (Section 2.2).
//!
//! The active thread of the highest priority should run; of several, the one whose oldest message
//! has waited longest, but a thread that has begun a message goes on until it is done. A thread
//! that has spent more than `lmsg_cycles` on a message at priority 0 is at 1 from then on: "HTS
//! lowers the priority of the misbehaving application the first time it takes longer than 1 us to
//! process a request. Hence, the well-behaved thread quickly becomes strictly higher priority"
//! (Section 5.2.2). Only `lniccmd` gives it its priority back.
//!
//! The hardware only says which thread should run and raises an interrupt; the kernel swaps. The
//! interrupt stays until the kernel writes the running thread, even if its reason disappears: the
//! kernel has begun, and the time until that write is charged to no thread.
//!
//! A thread that runs without a message for `lidle_cycles` counts as idle, even if it has not
//! declared itself idle. If no thread is active then, the bound contexts are offered in turn: the
//! kernel is interrupted to run the next one. A thread that never had a message therefore reaches
//! its first instruction, and a thread that only polls does not exclude others. The kernel itself
//! counts as idle, too: if it waits for so long while several contexts are bound, the first one is
//! offered (`LNICQueues.scala` of the published prototype).
//!
//! # The bound
//!
//! Let k threads have priority 0 and none another, each with at most one message at a time, and a
//! swap take t_c from the interrupt until the thread runs. A message that its thread p works on no
//! longer than t_0 = `lmsg_cycles`, as on all before it, is done at most k t_0 + (k + 1) t_c after
//! its arrival. From then on p is active at priority 0 with a message, and stays so, as it is
//! charged only while it runs. Hence:
//!
//! 1. A swap that begins leads to p, or to a thread at priority 0 with a message that came before
//!    p's. Any other that runs, or that a swap still leads to, is interrupted at once.
//! 2. Such a thread, when it runs, does so until its message is done or it is at priority 1, for
//!    t_0 at most: if it has begun it goes before its equals, and if not, they would need a message
//!    that came earlier, and then it would not have been chosen. Its next message comes after p's.
//! 3. So no thread is swapped to twice, and with p's own this is k t_0 + k t_c, but for the swap
//!    that p's arrival finds under way. It leads to a thread x. If x is interrupted when it lands
//!    and has to be swapped to again, that is one t_c more. (Then x was chosen without a message,
//!    as it had not said that it is idle or was offered, and has one since, but that of another
//!    thread came first.) From p's arrival on no other thread is offered, as p is active.
//!
//! The paper has k t_0 + (k - 1) t_c: it counts neither a swap that is under way, nor one to a
//! thread that has only to say that it is idle.

use crate::context::Context;
use crate::mailbox::Words;
use crate::spec::SchedulerKind;
use pipeline::NEVER;

/// A core's scheduler.
#[derive(Clone, Debug, state::State)]
pub(crate) struct Scheduler {
    #[state(fixed)]
    kind: SchedulerKind,
    #[state(fixed)]
    interval_cycles: u64,
    pub contexts: Vec<Context>,
    /// The running thread's place in `contexts`; none while the kernel runs.
    running: Option<usize>,
    /// The cycle up to which the running thread has been charged for its message.
    #[state(cycle)]
    since: u64,
    /// Most cycles for a message at priority 0: `lmsgcycles`.
    pub max_cycles: u64,
    /// Cycles without a message after which the running thread is idle: `lidlecycles`.
    pub idle_cycles: u64,
    /// Since when the running thread, or the kernel, has run without a message.
    #[state(cycle)]
    idle_since: u64,
    /// The thread whose turn it is while none is active.
    offered: Option<usize>,
    /// When a scheduler of kind `timer` decides next.
    #[state(cycle)]
    tick_at: u64,
    /// The interrupt is raised.
    wants_swap: bool,
}

impl Scheduler {
    /// `interval_cycles`: between two decisions of a scheduler of kind `timer`. `reset_cycles`:
    /// `lmsgcycles` and `lidlecycles`.
    pub fn new(kind: SchedulerKind, interval_cycles: u64, reset_cycles: u64) -> Scheduler {
        Scheduler {
            kind,
            interval_cycles,
            contexts: Vec::new(),
            running: None,
            since: 0,
            max_cycles: reset_cycles,
            idle_cycles: reset_cycles,
            idle_since: 0,
            offered: None,
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
            (context.priority, !goes_on, waits_since, place)
        });
        let first = first.map(|(place, _)| place);
        first.or(self.offered).or(self.running)
    }

    /// Whether the interrupt is raised.
    pub fn interrupts(&self) -> bool {
        self.wants_swap
    }

    /// The input of a scheduler of kind `hardware` has changed.
    fn decide(&mut self) {
        if self.kind == SchedulerKind::Hardware {
            self.wants_swap |= self.target() != self.running;
        }
    }

    /// The kernel has changed to the thread of this context, or to none, at cycle `now`.
    pub fn run(&mut self, now: u64, context: Option<usize>) {
        self.stop_clock(now);
        self.running = context;
        self.offered = None;
        self.wants_swap = false;
        self.since = now;
        self.idle_since = now;
        self.decide();
    }

    /// The timer of a scheduler of kind `timer` begins to run.
    pub fn start_timer(&mut self, now: u64) {
        if self.kind == SchedulerKind::Timer {
            self.tick_at = now + self.interval_cycles;
        }
    }

    /// A message comes at `now` for the context at `place`, and can be read from `readable` on.
    pub fn receive(&mut self, now: u64, place: usize, message: Words, readable: u64) {
        self.stop_clock(now);
        self.contexts[place].receive(message, readable);
        self.decide();
    }

    /// Binds a context, or changes the priority of one that is bound.
    pub fn bind(&mut self, now: u64, number: u16, priority: u8) {
        self.stop_clock(now);
        if let Some(place) = self.find(number) {
            self.contexts[place].priority = priority;
            self.decide();
        } else {
            self.contexts.push(Context::new(number, priority));
            self.run(now, Some(self.contexts.len() - 1));
        }
    }

    /// The running thread has done a message. `false`: it had none.
    pub fn message_done(&mut self, now: u64) -> bool {
        self.stop_clock(now);
        let Some(context) = self.running_mut() else {
            return false;
        };
        if context.arrivals.pop_front().is_none() {
            return false;
        }
        context.used_cycles = 0;
        context.has_begun = false;
        self.idle_since = now;
        self.decide();
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
        self.decide();
        true
    }

    /// Removes the context of the running thread.
    pub fn remove(&mut self, now: u64, place: usize) {
        self.running = None;
        self.contexts.remove(place);
        self.offered = None;
        self.run(now, None);
    }

    /// Since when the running thread is to be charged for its message, if its clock runs: not for
    /// the time of a swap, which begins with the interrupt, nor before it can read.
    fn charged_since(&self) -> Option<(&Context, u64)> {
        let context = self.running().filter(|_| !self.wants_swap)?;
        let readable = *context.arrivals.front()?;
        Some((context, self.since.max(readable)))
    }

    /// Charges the running thread for its time up to `now`; to be called before anything changes.
    fn stop_clock(&mut self, now: u64) {
        let cycles = self
            .charged_since()
            .map(|(_, since)| now.saturating_sub(since));
        self.since = self.since.max(now);
        if let (Some(cycles), Some(context)) = (cycles, self.running_mut()) {
            context.used_cycles += cycles;
        }
    }

    /// When the running thread has used up its time at priority 0.
    fn overrun_at(&self) -> u64 {
        match self.charged_since() {
            Some((context, since)) if context.priority == 0 => {
                let left = self.max_cycles.saturating_sub(context.used_cycles);
                since.saturating_add(left)
            }
            _ => NEVER,
        }
    }

    /// When the running thread, or the kernel, has been without a message for so long that another
    /// one is offered.
    fn idle_at(&self) -> u64 {
        let has_message = self
            .running()
            .is_some_and(|context| !context.arrivals.is_empty());
        let is_alone = self.contexts.len() < 2;
        if has_message || is_alone || self.wants_swap || self.kind != SchedulerKind::Hardware {
            return NEVER;
        }
        self.idle_since.saturating_add(self.idle_cycles)
    }

    /// When it next does something by itself, in cycles.
    pub fn next_event(&self) -> u64 {
        self.overrun_at().min(self.tick_at).min(self.idle_at())
    }

    /// The timer expires.
    pub fn event(&mut self, now: u64) {
        if self.overrun_at() <= now {
            self.stop_clock(now);
            if let Some(context) = self.running_mut() {
                context.priority = 1;
            }
            self.decide();
        }
        if self.idle_at() <= now {
            if let Some(context) = self.running_mut() {
                context.is_active = false;
            }
            let next = self.running.map_or(0, |place| place + 1);
            self.offered = Some(next % self.contexts.len());
            self.decide();
        }
        if self.tick_at <= now {
            self.stop_clock(now);
            self.tick_at = now + self.interval_cycles;
            self.wants_swap |= self.target() != self.running;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_CYCLES: u64 = 60;

    fn scheduler(kind: SchedulerKind, priorities: &[u8]) -> Scheduler {
        let mut scheduler = Scheduler::new(kind, 100, MAX_CYCLES);
        for (number, &priority) in priorities.iter().enumerate() {
            let context = Context::new(number as u16, priority);
            scheduler.contexts.push(context);
        }
        scheduler
    }

    fn arrive(scheduler: &mut Scheduler, now: u64, place: usize) {
        let words = vec![0];
        let context = place as u16;
        scheduler.receive(now, place, Words { context, words }, now);
    }

    /// The running thread reads its message.
    fn begin(scheduler: &mut Scheduler) {
        scheduler.running_mut().expect("a thread runs").take_word();
    }

    #[test]
    fn a_higher_priority_preempts_and_an_equal_one_waits() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[1, 0, 1]);
        assert!(!hts.interrupts());
        arrive(&mut hts, 10, 0);
        assert!(hts.interrupts());
        assert_eq!(hts.target(), Some(0));
        hts.run(20, Some(0));
        begin(&mut hts);
        // "If its destination thread's priority is lower than or equal ..., the new message is
        // queued."
        arrive(&mut hts, 30, 2);
        assert!(!hts.interrupts());
        // "If the incoming message is for a higher priority thread, the running thread is
        // suspended."
        arrive(&mut hts, 40, 1);
        assert!(hts.interrupts());
        assert_eq!(hts.target(), Some(1));
        hts.run(50, Some(1));
        begin(&mut hts);
        assert!(hts.message_done(60) && hts.idle(61));
        // The one that was suspended has begun, but the other has not waited as long either.
        assert_eq!(hts.target(), Some(0));
        hts.run(70, Some(0));
        assert!(hts.message_done(80) && hts.idle(81));
        assert_eq!(hts.target(), Some(2));
    }

    #[test]
    fn of_equals_the_one_goes_first_that_has_waited_longest() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0, 0]);
        for (now, place) in [(10, 2), (11, 0), (12, 1), (13, 2)] {
            arrive(&mut hts, now, place);
        }
        let mut order = Vec::new();
        for now in [100, 200, 300, 400] {
            let target = hts.target();
            hts.run(now, target);
            order.extend(target);
            begin(&mut hts);
            assert!(hts.message_done(now + 10));
        }
        assert_eq!(order, [2, 0, 1, 2]);
    }

    #[test]
    fn a_thread_stays_active_until_it_says_that_it_is_idle_and_has_nothing_to_read() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 1]);
        arrive(&mut hts, 0, 0);
        hts.run(0, Some(0));
        arrive(&mut hts, 1, 1);
        // It cannot be idle with a message that it has not read.
        assert!(!hts.idle(2));
        begin(&mut hts);
        assert!(hts.message_done(3));
        // Done, but it may go on with something else.
        assert_eq!(hts.target(), Some(0));
        assert!(hts.idle(4));
        assert_eq!(hts.target(), Some(1));
        // A message that is done twice is none.
        assert!(!hts.message_done(5));
    }

    #[test]
    fn who_overruns_at_priority_0_is_lowered_until_it_is_bound_again() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 0);
        hts.run(5, Some(0));
        begin(&mut hts);
        arrive(&mut hts, 10, 1);
        assert!(!hts.interrupts());
        // Since 5 it runs with its message.
        assert_eq!(hts.next_event(), 5 + MAX_CYCLES);
        hts.event(5 + MAX_CYCLES);
        assert_eq!(hts.contexts[0].priority, 1);
        assert_eq!(hts.target(), Some(1));
        hts.run(100, Some(1));
        begin(&mut hts);
        assert!(hts.message_done(110) && hts.idle(111));
        hts.run(120, Some(0));
        assert_eq!(hts.next_event(), NEVER);
        assert!(hts.message_done(130));
        // "The well-behaved thread quickly becomes strictly higher priority."
        arrive(&mut hts, 140, 0);
        begin(&mut hts);
        arrive(&mut hts, 150, 1);
        assert!(hts.interrupts());
        assert_eq!(hts.target(), Some(1));
        // "The lniccmd CSR can also be used ... to update the priority level."
        hts.bind(160, 0, 0);
        assert_eq!(hts.contexts[0].priority, 0);
        assert_eq!(hts.target(), Some(0));
    }

    #[test]
    fn bound_contexts_are_offered_in_turn_while_none_has_a_message() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 1, 0]);
        // The first thread begins at 10 without a message, and polls.
        hts.run(10, Some(0));
        let mut order = Vec::new();
        let mut now = 10;
        for _ in 0..4 {
            assert_eq!(hts.next_event(), now + MAX_CYCLES);
            now += MAX_CYCLES;
            hts.event(now);
            assert!(hts.interrupts());
            // The interrupt stays until the kernel has swapped, which takes 20.
            assert_eq!(hts.next_event(), NEVER);
            let target = hts.target();
            order.extend(target);
            now += 20;
            hts.run(now, target);
        }
        // Neither the priority nor a message counts, of which there are none.
        assert_eq!(order, [1, 2, 0, 1]);
        // A message ends that: at once for another thread, and while it is there for its own.
        arrive(&mut hts, now + 5, 1);
        assert!(!hts.interrupts());
        assert_eq!(hts.next_event(), NEVER, "an overrun at priority 1 is none");
        arrive(&mut hts, now + 6, 0);
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(0)));
    }

    #[test]
    fn a_kernel_that_waits_is_interrupted_for_contexts_that_never_had_a_message() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        hts.run(10, None);
        assert_eq!(hts.next_event(), 10 + MAX_CYCLES);
        hts.event(10 + MAX_CYCLES);
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(0)));
        // One context alone is not offered: it runs as long as it likes, and so does its kernel.
        let mut alone = scheduler(SchedulerKind::Hardware, &[0]);
        alone.run(10, None);
        assert_eq!(alone.next_event(), NEVER);
    }

    #[test]
    fn who_polls_at_a_high_priority_makes_room_for_a_message_of_a_lower_one() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 1]);
        arrive(&mut hts, 0, 0);
        hts.run(0, Some(0));
        begin(&mut hts);
        assert!(hts.message_done(7));
        // It does not say that it is idle.
        arrive(&mut hts, 20, 1);
        assert!(!hts.interrupts());
        assert_eq!(hts.next_event(), 7 + MAX_CYCLES);
        hts.event(7 + MAX_CYCLES);
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(1)));
    }

    #[test]
    fn of_those_that_overran_the_one_that_runs_goes_on() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 0);
        arrive(&mut hts, 1, 1);
        for (place, now) in [(0, 0), (1, 100)] {
            hts.run(now, Some(place));
            begin(&mut hts);
            hts.event(now + MAX_CYCLES);
        }
        // The first has waited longer, but there is no use in changing between them.
        assert_eq!((hts.contexts[0].priority, hts.contexts[1].priority), (1, 1));
        assert!(!hts.interrupts());
        assert_eq!(hts.target(), Some(1));
    }

    #[test]
    fn time_on_the_core_counts_and_time_off_it_does_not() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 0);
        hts.run(0, Some(0));
        hts.run(20, None);
        hts.run(1000, Some(0));
        assert_eq!(hts.next_event(), 1000 + MAX_CYCLES - 20);
    }

    #[test]
    fn a_timer_decides_only_when_it_ticks() {
        let mut tis = scheduler(SchedulerKind::Timer, &[1, 0]);
        tis.start_timer(0);
        arrive(&mut tis, 10, 0);
        assert!(!tis.interrupts());
        assert_eq!(tis.next_event(), 100);
        tis.event(100);
        assert!(tis.interrupts());
        tis.run(105, Some(0));
        arrive(&mut tis, 120, 1);
        assert!(!tis.interrupts());
        assert_eq!(tis.next_event(), 200);
        tis.event(200);
        assert!(tis.interrupts());
        assert_eq!(tis.target(), Some(1));
    }

    #[test]
    fn a_timer_that_ticks_during_a_swap_does_not_take_it_back() {
        let mut tis = scheduler(SchedulerKind::Timer, &[0, 0]);
        tis.start_timer(0);
        leave_the_first_without_saying_that_it_is_idle(&mut tis);
        tis.event(100);
        assert!(tis.interrupts());
        // The kernel has not yet changed to the first when the second should run again.
        arrive(&mut tis, 150, 1);
        tis.event(200);
        assert_eq!(tis.target(), Some(1));
        assert!(tis.interrupts());
    }

    /// Until 31: the first thread was interrupted before it could say that it is idle, the second
    /// has said so and runs.
    fn leave_the_first_without_saying_that_it_is_idle(scheduler: &mut Scheduler) {
        arrive(scheduler, 0, 0);
        scheduler.run(0, Some(0));
        begin(scheduler);
        arrive(scheduler, 5, 1);
        assert!(scheduler.message_done(10));
        assert_eq!(scheduler.target(), Some(1));
        scheduler.run(20, Some(1));
        begin(scheduler);
        assert!(scheduler.message_done(30) && scheduler.idle(31));
    }

    #[test]
    fn a_swap_whose_reason_has_gone_is_charged_to_nobody() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        leave_the_first_without_saying_that_it_is_idle(&mut hts);
        // The first is swapped to so that it can say that it is idle.
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(0)));
        // A message for the second comes. It is still the running thread, and should be; but the
        // kernel is at work.
        arrive(&mut hts, 35, 1);
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(1)));
        assert_eq!(hts.next_event(), NEVER);
        hts.run(51, Some(0));
        assert_eq!((hts.interrupts(), hts.target()), (true, Some(1)));
        hts.run(71, Some(1));
        assert!(!hts.interrupts());
        assert_eq!(hts.next_event(), 71 + MAX_CYCLES);
    }

    #[test]
    fn to_wait_for_the_first_word_is_not_charged() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0]);
        let (context, words) = (0, vec![0]);
        hts.receive(10, 0, Words { context, words }, 90);
        hts.run(20, Some(0));
        assert_eq!(hts.next_event(), 90 + MAX_CYCLES);
    }

    #[test]
    fn a_context_that_is_removed_wants_nothing() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 1);
        hts.run(10, Some(1));
        hts.remove(20, 1);
        assert!(!hts.interrupts());
        hts.bind(30, 7, 0);
        assert_eq!(hts.running().map(|one| one.number), Some(7));
    }

    /// A core with `threads` threads of priority 0, each with at most one message, and a swap of so
    /// many cycles. A thread says that it is idle when it has run for `idle_cycles` without a
    /// message, and is taken for it after `lidle_cycles`. Gives the service and response times of
    /// the messages whose thread has never overrun, in the order in which they are done; at the end
    /// those that are not, with their time so far.
    fn responses(
        threads: usize,
        swap_cycles: u64,
        (idle_cycles, lidle_cycles): (u64, u64),
        arrivals: &[(u64, usize, u64)],
    ) -> Vec<(u64, u64)> {
        let mut hts = scheduler(SchedulerKind::Hardware, &vec![0; threads]);
        hts.idle_cycles = lidle_cycles;
        // What each thread works on: when it came, how much it is, how much is left.
        let mut work: Vec<Option<(u64, u64, u64)>> = vec![None; threads];
        let mut without_work = vec![0; threads];
        let mut swap: Option<(u64, Option<usize>)> = None;
        let mut running = None;
        let mut done = Vec::new();
        const END: u64 = 6000;
        for now in 0..END {
            for &(at, thread, service) in arrivals {
                let thread = thread % threads;
                if at == now && work[thread].is_none() {
                    work[thread] = Some((now, service, service));
                    arrive(&mut hts, now, thread);
                }
            }
            if hts.next_event() <= now {
                hts.event(now);
            }
            if let Some((until, target)) = swap {
                if now < until {
                    continue;
                }
                hts.run(now, target);
                running = target;
                swap = None;
            }
            if hts.interrupts() {
                swap = Some((now + swap_cycles, hts.target()));
                continue;
            }
            let Some(thread) = running else { continue };
            match &mut work[thread] {
                None => {
                    without_work[thread] += 1;
                    if without_work[thread] >= idle_cycles {
                        hts.idle(now);
                    }
                }
                Some((came, service, left)) => {
                    if left == service {
                        begin(&mut hts);
                    }
                    *left -= 1;
                    if *left == 0 {
                        if hts.contexts[thread].priority == 0 {
                            done.push((*service, now + 1 - *came));
                        }
                        work[thread] = None;
                        without_work[thread] = 0;
                        assert!(hts.message_done(now + 1));
                    }
                }
            }
        }
        let left = work.into_iter().zip(&hts.contexts);
        let left = left.filter(|(_, context)| context.priority == 0);
        let left = left.filter_map(|(work, _)| work);
        done.extend(left.map(|(came, service, _)| (service, END - came)));
        done
    }

    /// The bound of this module's documentation. A thread that is alone is never left without
    /// saying that it is idle.
    fn bound(threads: usize, swap_cycles: u64) -> u64 {
        let k = threads as u64;
        let swaps = if k == 1 { 1 } else { k + 1 };
        k * MAX_CYCLES + swaps * swap_cycles
    }

    #[test]
    fn the_bound_is_reached_and_the_papers_is_not_enough() {
        for threads in 1..=4 {
            // All come while nobody runs; each of the others overruns. k swaps.
            let last = threads - 1;
            let mut arrivals: Vec<_> = (0..last).map(|other| (0, other, 100)).collect();
            arrivals.push((0, last, MAX_CYCLES));
            let k = threads as u64;
            let response = k * MAX_CYCLES + k * 10;
            assert_eq!(
                responses(threads, 10, (1, NEVER), &arrivals)[0],
                (MAX_CYCLES, response)
            );
        }
        for threads in 2..=4 {
            // 0 to 15: the last thread is swapped to and done. It has not said that it is idle when
            // it is left for the first, which runs from 25 and is idle at 26. At 27 the last is
            // swapped to.
            let last = threads - 1;
            let mut arrivals = vec![(0, last, 5), (1, 0, 1)];
            // At 28 all get messages, the last one as the last. It lands at 37, is left at once,
            // and comes back when each of the others has been swapped to and has overrun.
            arrivals.extend((0..last).map(|other| (28, other, 100)));
            arrivals.push((28, last, MAX_CYCLES));
            let done = responses(threads, 10, (1, NEVER), &arrivals);
            let response = bound(threads, 10) - 1;
            assert_eq!(done[..3], [(5, 15), (1, 25), (MAX_CYCLES, response)]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        /// Others may overrun once, and come at any time; within a short span they nearly always
        /// collide.
        #[test]
        fn others_delay_a_well_behaved_thread_no_longer_than_the_bound(
            threads in 1usize..5,
            swap_cycles in 1u64..80,
            idle_cycles in 1u64..30,
            lidle_cycles in 1u64..100,
            span in 1u64..3000,
            arrivals in prop::collection::vec(
                (0u64..3000, 0usize..4, prop_oneof![9 => 1..=MAX_CYCLES, 1 => 61u64..400]), 1..80),
        ) {
            let arrivals: Vec<_> = arrivals
                .into_iter()
                .map(|(at, thread, service)| (at % span, thread, service))
                .collect();
            let bound = bound(threads, swap_cycles);
            let idle = (idle_cycles, lidle_cycles);
            for (service, response) in responses(threads, swap_cycles, idle, &arrivals) {
                if service <= MAX_CYCLES {
                    prop_assert!(response <= bound, "{response} > {bound}");
                }
            }
        }
    }
}
