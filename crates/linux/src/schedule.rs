//! The assignment of threads to harts, when there are more threads than harts.
//!
//! A blocked thread keeps its hart until another thread is runnable. Runnable threads without a
//! hart queue; after each time slice as many threads leave their harts as are in the queue, and are
//! appended to it.

use std::collections::{BTreeMap, VecDeque};

/// The time slice of a thread while others queue: Linux 6.1's `sysctl_sched_min_granularity` on 8
/// cores and more, `kernel/sched/fair.c`.
pub(crate) const SLICE_NS: u64 = 3_000_000;

/// The state of a hart.
#[derive(Debug, Default)]
struct Hart {
    /// The thread that it runs or is about to run.
    thread: Option<usize>,
    /// The thread whose registers and address space are loaded.
    loaded: Option<usize>,
    /// Its thread must make room for another one.
    leaves: bool,
    /// For each address space that it has run, the last loss that it has seen.
    known: BTreeMap<u16, u64>,
}

/// Threads, harts, and the queue between them.
#[derive(Debug)]
pub(crate) struct Schedule {
    harts: Vec<Hart>,
    queue: VecDeque<usize>,
    /// The first hart whose thread is to be preempted next.
    next_hart: usize,
}

impl Schedule {
    /// A schedule in which the first hart runs the first thread.
    pub fn new(harts: usize) -> Schedule {
        let mut harts: Vec<Hart> = std::iter::repeat_with(Hart::default).take(harts).collect();
        if let Some(first) = harts.first_mut() {
            first.thread = Some(0);
        }
        Schedule {
            harts,
            queue: VecDeque::new(),
            next_hart: 0,
        }
    }

    /// The thread that a hart runs or is about to run.
    pub fn thread_of(&self, hart: usize) -> Option<usize> {
        self.harts[hart].thread
    }

    /// The hart that runs a thread or is about to.
    pub fn hart_of(&self, thread: usize) -> Option<usize> {
        self.harts.iter().position(|one| one.thread == Some(thread))
    }

    /// Whether runnable threads have no hart.
    pub fn is_crowded(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a hart's thread must make room for another one.
    pub fn leaves(&self, hart: usize) -> bool {
        self.harts[hart].leaves
    }

    /// Whether a hart holds the registers of a thread other than the one it is to run.
    pub fn must_switch(&self, hart: usize) -> bool {
        let one = &self.harts[hart];
        one.thread.is_some() && one.thread != one.loaded
    }

    /// Adds a runnable thread without a hart; returns the hart to notify, if any. `waits` tells
    /// whether a thread is blocked.
    pub fn add(&mut self, thread: usize, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let free = self.harts.iter().position(|hart| hart.thread.is_none());
        if let Some(hart) = free {
            self.harts[hart].thread = Some(thread);
            return Some(hart);
        }
        self.queue.push_back(thread);
        let idle = |hart: &Hart| !hart.leaves && hart.thread.is_some_and(&waits);
        let hart = self.harts.iter().position(idle)?;
        self.harts[hart].leaves = true;
        Some(hart)
    }

    /// A hart's thread is blocked from now on: it makes room if others queue.
    pub fn waits(&mut self, hart: usize) {
        let leaving = self.harts.iter().filter(|one| one.leaves).count();
        self.harts[hart].leaves |= self.queue.len() > leaving;
    }

    /// Ends a slice; returns the harts to notify, whose threads `run` and must make room for those
    /// in the queue.
    pub fn slice_ends(&mut self, runs: impl Fn(usize) -> bool) -> Vec<usize> {
        let leaving = self.harts.iter().filter(|one| one.leaves).count();
        let mut wanted = self.queue.len().saturating_sub(leaving);
        let mut told = Vec::new();
        let harts = self.harts.len();
        for hart in (0..harts).map(|step| (self.next_hart + step) % harts) {
            let one = &mut self.harts[hart];
            if wanted > 0
                && !one.leaves
                && one.loaded == one.thread
                && one.thread.is_some_and(&runs)
            {
                one.leaves = true;
                wanted -= 1;
                told.push(hart);
            }
        }
        if let Some(last) = told.last() {
            self.next_hart = (last + 1) % harts;
        }
        told
    }

    /// A hart's thread has made room: returns that thread, and assigns the next one to the hart.
    pub fn left(&mut self, hart: usize) -> Option<usize> {
        let next = self.queue.pop_front();
        let one = &mut self.harts[hart];
        one.leaves = false;
        one.loaded = None;
        std::mem::replace(&mut one.thread, next)
    }

    /// A hart has loaded the registers and the address space (number and last loss) of its thread.
    /// A hart holds no translations of a space that it has never run.
    pub fn loaded(&mut self, hart: usize, (space, loss): (u16, u64)) {
        let one = &mut self.harts[hart];
        one.loaded = one.thread;
        one.known.entry(space).or_insert(loss);
    }

    /// Marks the loaded state of a hart as stale.
    pub fn unload(&mut self, hart: usize) {
        self.harts[hart].loaded = None;
    }

    /// Whether a hart may hold translations from before the space's last loss.
    pub fn is_outdated(&self, hart: usize, (space, loss): (u16, u64)) -> bool {
        let known = self.harts[hart].known.get(&space);
        known.is_some_and(|&known| known != loss)
    }

    /// Records that a hart has discarded all translations as of this loss of its space.
    pub fn fenced(&mut self, hart: usize, (space, loss): (u16, u64)) {
        let known = &mut self.harts[hart].known;
        known.clear();
        known.insert(space, loss);
    }

    /// Removes an ended thread; returns the hart that it ran on, which may now have another thread.
    pub fn ended(&mut self, thread: usize) -> Option<usize> {
        self.queue.retain(|&one| one != thread);
        let hart = self.hart_of(thread)?;
        self.left(hart);
        Some(hart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: usize) -> bool {
        false
    }

    #[test]
    fn threads_that_queue_take_turns() {
        let mut schedule = Schedule::new(2);
        assert_eq!(schedule.add(1, nobody), Some(1));
        for hart in [0, 1] {
            assert!(schedule.must_switch(hart));
            schedule.loaded(hart, (1, 0));
        }
        assert_eq!(schedule.add(2, nobody), None);
        assert_eq!(schedule.slice_ends(|_| true), [0]);
        assert_eq!(
            schedule.slice_ends(|_| true),
            [0; 0],
            "one makes room for one"
        );
        assert_eq!(schedule.left(0), Some(0));
        assert_eq!(schedule.thread_of(0), Some(2));
        schedule.loaded(0, (1, 0));
        assert_eq!(schedule.add(0, nobody), None);
        assert_eq!(schedule.slice_ends(|_| true), [1], "the other one is next");
    }

    #[test]
    fn one_that_waits_makes_room() {
        let mut schedule = Schedule::new(1);
        schedule.loaded(0, (1, 0));
        schedule.waits(0);
        assert!(!schedule.leaves(0), "for nobody");
        assert_eq!(schedule.add(1, |thread| thread == 0), Some(0));
        assert!(schedule.leaves(0));
        assert_eq!(schedule.left(0), Some(0));
        assert_eq!(schedule.thread_of(0), Some(1));
        assert_eq!(schedule.add(0, nobody), None);
        assert_eq!(schedule.ended(1), Some(0));
        assert_eq!(schedule.thread_of(0), Some(0));
    }

    #[test]
    fn a_hart_that_had_a_space_before_a_loss_is_outdated() {
        let mut schedule = Schedule::new(1);
        assert!(!schedule.is_outdated(0, (1, 7)), "it never had it");
        schedule.loaded(0, (1, 7));
        assert!(schedule.is_outdated(0, (1, 8)));
        schedule.loaded(0, (1, 8));
        assert!(schedule.is_outdated(0, (1, 8)), "without a fence");
        schedule.fenced(0, (1, 8));
        assert!(!schedule.is_outdated(0, (1, 8)));
    }
}
