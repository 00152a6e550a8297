//! Orders to each hart: answers, interrupts, thread switches, and discarding of translations.

use super::{Activity, FEMTOSECONDS_PER_NANOSECOND, Job, Linux, SLICE, WAKE_INTERRUPT};
use crate::schedule::SLICE_NS;
use crate::stub::{self, Answer};
use fabric::{AgentContext, ReplyTo, Time};
use std::rc::Rc;

/// A hart, from the agent's point of view.
#[derive(Default)]
pub(super) struct Hart {
    /// The load that waits for an answer, and whether it is a load of [`stub::READY`].
    pub(super) asked: Option<(ReplyTo, bool)>,
    /// The order that the hart carries out before it loads [`stub::READY`] again.
    pub(super) told: Option<u64>,
    /// Whether its interrupt line is raised.
    pub(super) raised: bool,
}

impl Linux {
    /// Harts that run other threads in the address space of `thread`, and may hold stale
    /// translations.
    pub(super) fn outdated(&self, thread: usize) -> Vec<usize> {
        let Some(space) = self.tasks[thread].call.user.space() else {
            return Vec::new();
        };
        let state = (space.borrow().number(), space.borrow().loss());
        let runs_in_it = |hart: &usize| {
            self.schedule.thread_of(*hart).is_some_and(|other| {
                let one = self.kernel.threads[other].as_ref();
                other != thread
                    && one.is_some_and(|one| Rc::ptr_eq(&one.space, space))
                    && self.is_running(*hart)
            })
        };
        (0..self.harts.len())
            .filter(|&hart| self.schedule.is_outdated(hart, state))
            .filter(runs_in_it)
            .collect()
    }

    /// Whether a hart executes the program.
    pub(super) fn is_running(&self, hart: usize) -> bool {
        let one = &self.harts[hart];
        let thread = self.schedule.thread_of(hart);
        one.asked.is_none()
            && one.told.is_none()
            && !self.schedule.must_switch(hart)
            && thread.is_some_and(|thread| {
                let task = &self.tasks[thread];
                task.activity == Activity::Away && task.answer.is_none()
            })
    }

    pub(super) fn raise(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        let one = &mut self.harts[hart];
        if !one.raised {
            one.raised = true;
            context.interrupt(hart as u16, WAKE_INTERRUPT, true, Time::ZERO);
        }
    }

    /// Resumes a thread with this answer, on its hart or on the next free one.
    pub(super) fn answer(&mut self, context: &mut AgentContext<'_>, thread: usize, answer: u64) {
        if answer != Answer::WAIT {
            self.tasks[thread].answer = Some(answer);
        }
        match self.schedule.hart_of(thread) {
            Some(hart) => self.tell(context, hart),
            None => self.run(context, thread),
        }
    }

    /// Makes a thread that has no hart runnable.
    pub(super) fn run(&mut self, context: &mut AgentContext<'_>, thread: usize) {
        let tasks = &self.tasks;
        let waits = |one: usize| tasks[one].activity == Activity::Blocked;
        let hart = self.schedule.add(thread, waits);
        if let Some(hart) = hart {
            self.has_hart(hart);
            self.tell(context, hart);
        }
        if self.schedule.hart_of(thread).is_none() {
            self.kernel.begins_to_wait(thread);
        }
        self.await_slice(context);
    }

    /// Prepares the thread that a hart may have been given.
    pub(super) fn has_hart(&mut self, hart: usize) {
        if let Some(thread) = self.schedule.thread_of(hart)
            && let Some(one) = &mut self.kernel.threads[thread]
        {
            one.hart = hart;
            if self.tasks[thread].wait.is_none() {
                self.kernel.has_run_again(thread);
            }
        }
    }

    pub(super) fn await_slice(&mut self, context: &mut AgentContext<'_>) {
        if self.schedule.is_crowded() && !self.slice_ends {
            self.slice_ends = true;
            let slice = Time::from_fs(SLICE_NS * FEMTOSECONDS_PER_NANOSECOND);
            context.wake(self.kernel.now + slice, SLICE);
        }
    }

    /// Number and last loss of the address space of the thread that a hart runs.
    pub(super) fn space_of(&self, hart: usize) -> Option<(u16, u64)> {
        let thread = self.schedule.thread_of(hart)?;
        let space = self.kernel.threads[thread].as_ref()?.space.borrow();
        Some((space.number(), space.loss()))
    }

    /// What a hart must do before its thread can continue.
    pub(super) fn order(&self, hart: usize) -> Option<u64> {
        let thread = self.schedule.thread_of(hart)?;
        let task = &self.tasks[thread];
        if self.schedule.must_switch(hart) {
            return Some(Answer::SWITCH);
        }
        if self.schedule.leaves(hart) || matches!(task.activity, Activity::Saving(_)) {
            return Some(Answer::SAVE);
        }
        let state = self.space_of(hart)?;
        (task.answer.is_some() && self.schedule.is_outdated(hart, state)).then_some(Answer::FENCE)
    }

    /// Gives a hart its next order, or wakes it so that it asks for one.
    pub(super) fn tell(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        let Some((asked, is_ready)) = self.harts[hart].asked else {
            if !self.is_running(hart) {
                self.raise(context, hart);
            }
            return;
        };
        let order = self.order(hart);
        let thread = self.schedule.thread_of(hart);
        let answer = match (order, thread) {
            // This order cannot answer a call; the hart asks again at once.
            (Some(_), _) if !is_ready => {
                self.harts[hart].asked = None;
                context.reply(asked, Answer::WAIT, Time::ZERO);
                return self.raise(context, hart);
            }
            (Some(order), _) => {
                self.harts[hart].told = Some(order);
                if order == Answer::FENCE
                    && let Some(state) = self.space_of(hart)
                {
                    self.schedule.fenced(hart, state);
                }
                order
            }
            (None, Some(thread)) => match self.tasks[thread].answer.take() {
                Some(answer) => answer,
                None => match self.tasks[thread].activity {
                    Activity::Away | Activity::Blocked | Activity::Fencing(_) => Answer::WAIT,
                    // The request is still being handled.
                    _ => return,
                },
            },
            (None, None) => Answer::WAIT,
        };
        self.harts[hart].asked = None;
        context.reply(asked, answer, Time::ZERO);
        // The thread may have received a signal while the call was handled, or while it had no
        // hart.
        if self.is_running(hart) && thread.is_some_and(|one| self.kernel.wants_signal(one)) {
            self.raise(context, hart);
        }
    }

    /// Handles the return of a hart that has carried out its order.
    pub(super) fn has_done(&mut self, context: &mut AgentContext<'_>, hart: usize, told: u64) {
        let Some(thread) = self.schedule.thread_of(hart) else {
            return;
        };
        if told != Answer::SAVE {
            return;
        }
        if let Activity::Saving(job) = self.tasks[thread].activity {
            self.tasks[thread].call.has_all_registers = true;
            self.tasks[thread].activity = Activity::Reading(job);
            return self.go_on(context, thread);
        }
        self.schedule.left(hart);
        self.has_hart(hart);
        if self.tasks[thread].answer.is_some() {
            self.run(context, thread);
        }
    }

    /// Handles a request of a hart: threads no longer wait for this hart to discard translations.
    pub(super) fn has_come(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        for thread in 0..self.tasks.len() {
            let fences = &mut self.tasks[thread].fences;
            let before = fences.len();
            fences.retain(|&other| other != hart);
            if fences.len() < before {
                self.complete(context, thread);
            }
        }
    }

    /// Handles a trap of the program.
    pub(super) fn trapped(&mut self, context: &mut AgentContext<'_>, hart: usize, from: u64) {
        let Some(thread) = self.schedule.thread_of(hart) else {
            return self.tell(context, hart);
        };
        if self.tasks[thread].is_doomed {
            return self.finish(context, thread);
        }
        self.begin(thread);
        if from == stub::CALL {
            let task = &mut self.tasks[thread];
            let address = stub::save_area(thread) + stub::ARGUMENTS;
            task.reads.push_back(address);
            task.activity = Activity::Arguments;
            self.go_on(context, thread);
        } else {
            self.handle(context, thread, Job::Fault);
        }
    }
}
