//! The course of a run: its steps, and the checks between them of whether it has ended or fails.

use super::{LOOK_EVERY, Prepared, STEPS};
use crate::checkpoint::Resumable;
use crate::error::RunError;
use crate::limits::Guard;
use crate::machine::Machine;
use crate::rack::{RackAdvance, RackServer, Watchdog};
use fabric::Time;
use pipeline::NEVER;

/// The state of a run between two checks.
#[derive(Default)]
pub(super) struct Course {
    watchdog: Watchdog,
    /// The time at which the servers' energy is to be read, if it has not been.
    reads_at: Option<Time>,
    /// The time to advance to, if it has been determined.
    goes_to: Option<Time>,
    /// Steps since the last check, of a server alone.
    steps: u32,
    is_over: bool,
}

impl Prepared<'_> {
    /// Prepares the checks of a run whose first client starts at `begin`.
    pub(super) fn begin_course(&mut self, begin: Time) {
        let clients = self.clients().count();
        // A restored checkpoint may contain the reading.
        let has_read = |server: &RackServer| server.machine.first_reading.is_some();
        let has_read = clients == 0 || self.rack.servers.iter().any(has_read);
        let reads_at = (!has_read).then_some(begin);
        // A rack's next check is never later than this. A forged checkpoint must not delay the
        // checks of limits.
        let latest = self.rack.now().saturating_add(LOOK_EVERY + LOOK_EVERY);
        self.rack.looks_at = self.rack.looks_at.min(latest);
        let looks_at = Some(self.rack.looks_at).filter(|&at| at != Time::ZERO);
        self.course = Course {
            watchdog: Watchdog::new(self.rack.now(), clients),
            reads_at,
            goes_to: looks_at.map(|next| reads_at.map_or(next, |at| next.min(at))),
            ..Course::default()
        };
    }

    /// Advances until all is done, or no event remains. The end of a rack does not depend on how
    /// far servers run ahead, because all earlier events have been handled when it is determined.
    pub fn simulate(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        while !self.course.is_over {
            let next = self.next_look();
            let advance = self.advance_to(next)?;
            self.look(advance, guard)?;
        }
        Ok(())
    }

    /// Advances by one step of the engine of `server`, or by one window of the network if that
    /// server has no events in it, and simulates nothing at the server's cycle `pause` or later.
    /// Returns whether the run continues.
    pub fn advance_by_step(
        &mut self,
        server: usize,
        pause: u64,
        guard: &mut Guard<'_>,
    ) -> Result<bool, RunError> {
        let next = self.next_look();
        let machine = self.machine_seen(server);
        let until = match (pause, machine) {
            (NEVER, _) | (_, None) => next,
            (_, Some(machine)) => next.min(machine.engine.clock().time(pause)),
        };
        self.rack.set_pause(until);
        let advance = match self.advance(pause, 1) {
            Ok(advance) => advance,
            Err(error) => {
                self.check()?;
                return Err(error);
            }
        };
        self.course.steps += 1;
        let looks = match (advance, &self.wires) {
            (RackAdvance::Running, Some(_)) => false,
            (RackAdvance::Running, None) => self.course.steps >= STEPS,
            (RackAdvance::Paused, _) => until == next,
            (RackAdvance::End | RackAdvance::Idle, _) => true,
        };
        if looks {
            self.course.steps = 0;
            self.look(advance, guard)?;
        }
        Ok(!self.course.is_over)
    }

    /// The time of the next check.
    fn next_look(&mut self) -> Time {
        if let Some(next) = self.course.goes_to {
            return next;
        }
        let looks = self.rack.now().as_fs() / LOOK_EVERY.as_fs();
        let next = looks.saturating_add(1).saturating_mul(LOOK_EVERY.as_fs());
        // The rest of the cycle of the last pause precedes it.
        let next = Time::from_fs(next).max(self.rack.looks_at.saturating_add(LOOK_EVERY));
        self.rack.looks_at = next;
        let course = &mut self.course;
        let next = course.reads_at.map_or(next, |at| next.min(at));
        *course.goes_to.insert(next)
    }

    /// Checks a run that has reached the time of the next check, or its end, as `advance` says.
    fn look(&mut self, advance: RackAdvance, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let look_at = self.rack.looks_at;
        if let Some(at) = self.course.reads_at.take_if(|at| *at <= look_at) {
            self.read_energy(at);
            self.course.goes_to = Some(look_at);
            return Ok(());
        }
        self.course.goes_to = None;
        if self.saver.has_stopped() {
            self.course.is_over = true;
            return Ok(());
        }
        self.check()?;
        self.show_requests()?;
        let done = self.done()?;
        match (&self.wires, advance) {
            (None, RackAdvance::End) => {
                self.course.is_over = true;
                return self.saver.check();
            }
            (None, _) => {}
            (Some(_), _) if done >= 1.0 => {
                self.course.is_over = true;
                self.rack.set_end(look_at);
                while self.rack.advance()? != RackAdvance::End {}
                self.check()?;
                return self.saver.check();
            }
            (Some(_), RackAdvance::Idle | RackAdvance::End) => {
                let stop = "the rack has come to a stop: nothing will ever happen again";
                return Err(self.stuck(stop));
            }
            (Some(_), _) => {
                let packets = self.packets();
                let mut watchdog = std::mem::take(&mut self.course.watchdog);
                let summary = watchdog.look(look_at, packets, self.clients());
                self.course.watchdog = watchdog;
                if let Some(summary) = summary {
                    return Err(self.stuck(&summary));
                }
            }
        }
        let mut servers = self.rack.servers.iter_mut();
        let looked = servers.find_map(|server| {
            let data_plane = server.data_plane.as_mut()?;
            data_plane.look(&server.machine)
        });
        if let Some(summary) = looked {
            return Err(self.stuck(&summary));
        }
        guard.check(done, self.spent(Machine::spent))
    }
}
