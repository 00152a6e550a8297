//! The advance of simulated time in a whole server.
//!
//! A core cannot affect another sooner than the shortest path through the fabric: a message leaves
//! at least `departure` cycles after its cause and reaches a core at least `delivery` cycles after
//! the fabric's decision. Each core may therefore run alone up to that horizon, and the fabric may
//! then process its events up to the time that the cores have reached. The result equals that of
//! processing everything in time order, for any smaller horizon as well.

use crate::period::Period;
use fabric::{Clock, CoreId, Fabric, Inbox, Outbox, Time};
use pipeline::{CoreModel, NEVER};

/// A core that never interacts with the others still returns after this many cycles, so that the
/// caller regains control.
const LONGEST_RUN_CYCLES: u64 = 100_000;

/// The maximum length of one run of the fabric. Its events may end the simulation, at least 1000
/// cycles later (`Machine::end_after`), and it must not have passed that time by then.
const LONGEST_FABRIC_RUN_CYCLES: u64 = 500;

/// The cores and the fabric of one server, and their clock.
#[derive(state::State)]
pub struct Engine {
    /// The cores, by number.
    #[state(slice)]
    pub cores: Vec<Box<dyn CoreModel>>,
    /// The fabric, with everything that is not a core.
    pub fabric: Fabric,
    #[state(fixed)]
    pub(crate) clock: Clock,
    #[state(slice)]
    pub(crate) inboxes: Vec<Inbox>,
    #[state(fixed)]
    pub(crate) outbox: Outbox,
    #[state(fixed)]
    pub(crate) departure: u64,
    #[state(fixed)]
    pub(crate) delivery: u64,
    /// Upper bound on the horizon; [`NEVER`] selects the largest exact one.
    #[state(fixed)]
    lookahead: u64,
    /// No event at this cycle or later is simulated.
    #[state(cycle)]
    pub(crate) end: u64,
    /// No event at this cycle or later is simulated before the pause has been moved.
    #[state(fixed)]
    pub(crate) pause: u64,
    /// No core or event has passed this cycle, except cores that have a later one of their own.
    #[state(fixed)]
    pub(crate) reached: u64,
    /// A debugger stops harts.
    #[state(fixed)]
    pub(crate) is_debugged: bool,
    /// The search for a period of a core and the fabric together.
    #[state(fixed)]
    pub(crate) period: Option<Period>,
    /// The cycle of each core's next action, and the cores that have one.
    #[state(cycles)]
    next: Vec<u64>,
    pub(crate) active: u64,
    /// The first crash: its cycle and the core.
    crashed: Option<(u64, usize)>,
}

/// The positions of the set bits of `set`.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then_some(set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// The reason that [`Engine::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Time has advanced.
    Running,
    /// The end that was set has been reached.
    End,
    /// No event will ever happen again.
    Idle,
}

impl Engine {
    /// `departure_cycles`: see [`pipeline::CoreSpec::departure_cycles`].
    pub fn new(cores: Vec<Box<dyn CoreModel>>, fabric: Fabric, departure_cycles: u64) -> Engine {
        let clock = fabric.clock();
        let latency = fabric.minimum_delivery_latency();
        Engine {
            inboxes: cores.iter().map(|_| Inbox::default()).collect(),
            next: vec![0; cores.len()],
            active: u64::MAX >> (64 - cores.len().max(1)),
            crashed: None,
            outbox: Outbox::default(),
            departure: departure_cycles,
            // Rounded down: a delivery within a cycle takes effect at the next one.
            delivery: clock.cycle_of(latency).max(1),
            lookahead: NEVER,
            end: NEVER,
            pause: NEVER,
            reached: 0,
            is_debugged: false,
            period: None,
            cores,
            fabric,
            clock,
        }
    }

    /// Limits the distance that cores run ahead of each other to `cycles`; 0 selects the largest
    /// exact distance. `skip_spinning`: whether cores may skip periods of spinning. Neither ever
    /// changes a result.
    pub fn set_speed(&mut self, cycles: u64, skip_spinning: bool) {
        self.lookahead = if cycles == 0 { NEVER } else { cycles };
        for core in &mut self.cores {
            core.set_skip_spinning(skip_spinning);
        }
    }

    /// A cycle that no core has passed when an event at `cycle` is noticed: cores may have passed
    /// the event by less than a horizon, and this cycle is at the same distance after it for every
    /// horizon.
    pub fn settled_after(&self, cycle: u64) -> u64 {
        cycle + 1000.max(2 * (self.departure + self.delivery))
    }

    /// Wakes idle cores that may have received deliveries which wake no hart.
    #[cold]
    fn wake_idle(&mut self) -> bool {
        for (core, inbox) in self.inboxes.iter().enumerate() {
            let next = self.clock.cycle_at_or_after(inbox.next_at());
            if next != NEVER && self.cores[core].crash().is_none() {
                self.next[core] = next;
                self.active |= 1 << core;
            }
        }
        self.active != 0
    }

    /// Nothing at `cycle` or later is simulated.
    pub fn set_end(&mut self, cycle: u64) {
        self.end = self.end.min(cycle);
    }

    /// Continues without an end, after one that has been reached.
    pub(crate) fn reopen(&mut self) {
        self.end = NEVER;
        self.pause = NEVER;
        self.forget_loops();
        for core in 0..self.cores.len() {
            self.update_next(core);
        }
    }

    /// Simulates nothing at `cycle` or later until the next call. Changes no result.
    pub fn set_pause(&mut self, cycle: u64) {
        self.pause = cycle;
    }

    /// Handles the remaining events before `cycle`, at which the server has paused.
    pub fn settle(&mut self, cycle: u64) {
        // Events of the fabric may lie within a cycle.
        self.fabric
            .run_until(self.clock.time(cycle), &mut self.inboxes);
        self.fabric.take_delivered_to();
        self.catch_up(cycle);
        for core in 0..self.cores.len() {
            self.update_next(core);
        }
    }

    /// The clock of cores and fabric.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The first core that has crashed, once no other can crash before it.
    pub fn crashed(&self) -> Option<usize> {
        let (cycle, core) = self.crashed?;
        (self.now() > cycle).then_some(core)
    }

    /// Updates the cycle of a core's next action, to be called when the core has been changed.
    pub fn update_next(&mut self, core: usize) -> u64 {
        let model = &self.cores[core];
        let next = if self.crashed.is_some() && model.crash().is_some() {
            NEVER
        } else {
            model.next_cycle(&self.inboxes[core])
        };
        self.next[core] = next;
        if next == NEVER {
            self.active &= !(1 << core);
        } else {
            self.active |= 1 << core;
        }
        next
    }

    /// Advances all cores and the fabric by one horizon.
    pub fn advance(&mut self) -> Advance {
        let fabric_time = self.fabric.next_event();
        let fabric_next = self.clock.cycle_at_or_after(fabric_time);
        let mut first = NEVER;
        let mut second = NEVER;
        for core in bits(self.active) {
            let next = self.next[core];
            if next < first {
                second = first;
                first = next;
            } else if next < second {
                second = next;
            }
        }
        let now = first.min(fabric_next);
        if now == NEVER {
            if self.wake_idle() {
                return Advance::Running;
            }
            return Advance::Idle;
        }
        if now >= self.pause {
            return Advance::Running;
        }
        if self.is_sample_point(now) {
            self.look_for_period();
            return Advance::Running;
        }
        let pause = self
            .period
            .as_ref()
            .map_or(self.pause, |period| self.pause.min(period.look_at));
        if now >= self.end {
            // Events of the fabric may lie within a cycle.
            self.fabric
                .run_until(self.clock.time(self.end), &mut self.inboxes);
            return Advance::End;
        }
        let round_trip = self.departure + self.delivery;
        // An event of the fabric within a cycle may be answered within the cycle `delivery` later.
        let from_fabric = self
            .clock
            .cycle_of(fabric_time)
            .saturating_add(self.delivery)
            .min(self.end)
            .min(pause)
            .min(now.saturating_add(self.lookahead.min(LONGEST_RUN_CYCLES)));
        let mut reached = NEVER;
        for core in bits(self.active) {
            let next = self.next[core];
            let others = if next == first { second } else { first };
            let limit = from_fabric.min(others.saturating_add(round_trip));
            if next < limit {
                self.cores[core].run(
                    limit,
                    self.delivery,
                    &mut self.inboxes[core],
                    &mut self.outbox,
                );
                if let Some(closed) = self.cores[core].take_closed_loop() {
                    self.loop_closed(core, closed, limit);
                }
                if !self.outbox.messages.is_empty() {
                    self.fabric.send(CoreId(core as u16), &mut self.outbox);
                }
                for observation in self.cores[core].observations().drain(..) {
                    self.fabric.observe(&observation);
                }
                if let Some(crash) = self.cores[core].crash() {
                    let crash = (crash.cycle, core);
                    self.crashed = Some(self.crashed.map_or(crash, |first| first.min(crash)));
                }
                let mut next = self.update_next(core);
                if self.is_debugged && self.cores[core].has_stopped() {
                    // Its time has not advanced, and therefore no other time has.
                    next = next.min(self.cores[core].reached());
                }
                reached = reached.min(next);
            } else {
                reached = reached.min(next);
            }
        }
        // Later events of the fabric may depend on a core's answers.
        let until = reached
            .saturating_add(self.departure)
            .min(
                self.clock
                    .cycle_of(self.fabric.next_event())
                    .saturating_add(LONGEST_FABRIC_RUN_CYCLES),
            )
            .min(self.end)
            .min(pause)
            .min(now.saturating_add(self.lookahead));
        if until < NEVER {
            self.reached = self.reached.max(until);
        }
        self.fabric.run_until_answered(
            self.clock.time(until),
            self.clock.time(self.departure),
            &mut self.inboxes,
        );
        for core in bits(self.fabric.take_delivered_to()) {
            self.update_next(core);
        }
        Advance::Running
    }

    /// Advances every core to `cycle`, where the run has ended.
    pub fn catch_up(&mut self, cycle: u64) {
        for core in &mut self.cores {
            core.catch_up(cycle);
        }
    }

    /// The server's time: no event before this cycle remains.
    pub fn now(&self) -> u64 {
        let fabric = self.clock.cycle_at_or_after(self.fabric.next_event());
        bits(self.active)
            .map(|core| self.next[core])
            .min()
            .unwrap_or(NEVER)
            .min(fabric)
    }

    /// The same to the femtosecond: no event before this time remains.
    pub(crate) fn next_time(&self) -> Time {
        let cores = bits(self.active).map(|core| self.next[core]).min();
        let cores = cores.map_or(Time::NEVER, |cycle| self.clock.time(cycle));
        cores.min(self.fabric.next_event())
    }

    /// The time of a cycle.
    pub fn time(&self, cycle: u64) -> Time {
        self.clock.time(cycle)
    }
}
