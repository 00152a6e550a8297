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

    /// A message comes at `now` for the context at `place`, and can be read from `readable` on.
    pub fn arrives(&mut self, now: u64, place: usize, readable: u64) {
        self.stop_clock(now);
        if self.running == Some(place) && self.contexts[place].arrivals.is_empty() {
            self.since = readable;
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
        context.is_lowered = false;
        context.has_begun = false;
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

    /// Charges the running thread for its time up to `now`; to be called before anything changes. The
    /// time of a swap is nobody's: it begins with the interrupt.
    fn stop_clock(&mut self, now: u64) {
        let cycles = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        if cycles > 0
            && !self.interrupts()
            && let Some(context) = self.running_mut()
            && !context.arrivals.is_empty()
        {
            context.used_cycles += cycles;
        }
    }

    /// When the running thread has used up its time at priority 0.
    fn overrun_at(&self) -> u64 {
        match self.running() {
            Some(context)
                if !context.arrivals.is_empty()
                    && context.priority() == 0
                    && !self.interrupts() =>
            {
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
            self.stop_clock(now);
            self.tick_at = now + self.interval_cycles;
            self.wants_swap = self.target() != self.running;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Words;
    use proptest::prelude::*;

    const MOST_CYCLES: u64 = 60;

    fn scheduler(kind: SchedulerKind, priorities: &[u8]) -> Scheduler {
        let mut scheduler = Scheduler::new(kind, 100, MOST_CYCLES);
        for (number, &priority) in priorities.iter().enumerate() {
            let context = Context::new(number as u16, priority);
            scheduler.contexts.push(context);
        }
        scheduler
    }

    fn arrive(scheduler: &mut Scheduler, now: u64, place: usize) {
        scheduler.arrives(now, place, now);
        let words = vec![0];
        let context = place as u16;
        scheduler.contexts[place].receive(Words { context, words }, now);
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
        // "If its destination thread's priority is lower than or equal ..., the new message is queued."
        arrive(&mut hts, 30, 2);
        assert!(!hts.interrupts());
        // "If the incoming message is for a higher priority thread, the running thread is suspended."
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
    fn who_overruns_at_priority_0_is_lowered_until_the_message_is_done() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 0);
        hts.run(5, Some(0));
        begin(&mut hts);
        arrive(&mut hts, 10, 1);
        assert!(!hts.interrupts());
        // Since 5 it runs with its message.
        assert_eq!(hts.next_event(), 5 + MOST_CYCLES);
        hts.event(5 + MOST_CYCLES);
        assert_eq!(hts.contexts[0].priority(), 1);
        assert_eq!(hts.target(), Some(1));
        hts.run(100, Some(1));
        begin(&mut hts);
        assert!(hts.message_done(110) && hts.idle(111));
        hts.run(120, Some(0));
        assert_eq!(hts.next_event(), NEVER);
        assert!(hts.message_done(130));
        assert_eq!(hts.contexts[0].priority(), 0);
    }

    #[test]
    fn time_on_the_core_counts_and_time_off_it_does_not() {
        let mut hts = scheduler(SchedulerKind::Hardware, &[0, 0]);
        arrive(&mut hts, 0, 0);
        hts.run(0, Some(0));
        hts.run(20, None);
        hts.run(1000, Some(0));
        assert_eq!(hts.next_event(), 1000 + MOST_CYCLES - 20);
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

    /// A core with `threads` threads of priority 0, each with at most one message, and a swap of so
    /// many cycles. Gives the service and response times of the messages that are done.
    fn responses(
        threads: usize,
        swap_cycles: u64,
        arrivals: &[(u64, usize, u64)],
    ) -> Vec<(u64, u64)> {
        let mut hts = scheduler(SchedulerKind::Hardware, &vec![0; threads]);
        // What each thread works on: when it came, how much it is, how much is left.
        let mut work: Vec<Option<(u64, u64, u64)>> = vec![None; threads];
        let mut swap: Option<(u64, Option<usize>)> = None;
        let mut running = None;
        let mut done = Vec::new();
        for now in 0..6000 {
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
                    hts.idle(now);
                }
                Some((came, service, left)) => {
                    if left == service {
                        begin(&mut hts);
                    }
                    *left -= 1;
                    if *left == 0 {
                        done.push((*service, now + 1 - *came));
                        work[thread] = None;
                        assert!(hts.message_done(now + 1));
                    }
                }
            }
        }
        done
    }

    proptest! {
        /// Section 2.2: "t_p ≤ t_n + k t_0 + (k − 1) t_c" for messages that take at most t_0; the
        /// interface's t_n is not in this.
        #[test]
        fn others_delay_a_well_behaved_thread_no_longer_than_the_bound(
            threads in 1usize..5,
            swap_cycles in 1u64..20,
            arrivals in prop::collection::vec(
                (0u64..3000, 0usize..4, prop_oneof![3 => 1..=MOST_CYCLES, 1 => 61u64..400]), 1..80),
        ) {
            let k = threads as u64;
            let bound = k * MOST_CYCLES + (k - 1) * swap_cycles;
            // The first swap, from the kernel, is in addition: nobody runs at first.
            let bound = bound + swap_cycles;
            for (service, response) in responses(threads, swap_cycles, &arrivals) {
                if service <= MOST_CYCLES {
                    prop_assert!(response <= bound, "{response} > {bound}");
                }
            }
        }
    }
}
