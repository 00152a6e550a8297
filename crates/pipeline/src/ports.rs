//! Which execution unit is taken in which cycle.

use crate::spec::UnitSpec;

/// Cycles that a calendar looks ahead. An operation that issues later than this after another
/// takes the place of a cycle long past, never of one still open: the window of a core, even
/// behind a chain of divisions, is a few thousand cycles, and collisions only lose a reservation.
const CALENDAR_CYCLES: usize = 1024;

/// How many operations start in each of the coming cycles.
///
/// Each entry holds a count in its low 5 bits and, above, which cycle it is for, without the bits
/// that its place tells. An entry of another cycle counts as empty, so nothing has to be cleared
/// as time goes on. (The same 27 bits come again after 2^37 cycles, most of a minute.)
#[derive(Clone, Debug)]
pub struct Calendar {
    entries: Box<[u32; CALENDAR_CYCLES]>,
    limit: u8,
}

impl Calendar {
    /// A calendar for `limit` operations a cycle.
    pub fn new(limit: u8) -> Calendar {
        Calendar {
            entries: Box::new([u32::MAX; CALENDAR_CYCLES]),
            limit,
        }
    }

    /// How many are booked in `cycle`.
    #[inline]
    pub fn booked(&self, cycle: u64) -> u8 {
        let entry = self.entries[cycle as usize % CALENDAR_CYCLES];
        if entry >> 5 == tag(cycle) {
            (entry & 31) as u8
        } else {
            0
        }
    }

    #[inline]
    fn has_room(&self, cycle: u64) -> bool {
        self.booked(cycle) < self.limit
    }

    #[inline]
    fn book(&mut self, cycle: u64) {
        self.set(cycle, self.booked(cycle) + 1);
    }

    #[inline]
    fn set(&mut self, cycle: u64, count: u8) {
        self.entries[cycle as usize % CALENDAR_CYCLES] = tag(cycle) << 5 | u32::from(count);
    }
}

#[inline]
fn tag(cycle: u64) -> u32 {
    (cycle / CALENDAR_CYCLES as u64) as u32 & 0x7ff_ffff
}

/// The ports of one kind of unit.
#[derive(Clone, Debug)]
pub struct Ports {
    calendar: Calendar,
    /// For units that are not pipelined: when each is free.
    free_at: Vec<u64>,
    /// Cycles from issue to result.
    pub latency: u64,
}

impl Ports {
    pub fn new(spec: &UnitSpec) -> Ports {
        Ports {
            calendar: Calendar::new(spec.ports),
            free_at: if spec.pipelined {
                Vec::new()
            } else {
                vec![0; usize::from(spec.ports)]
            },
            latency: u64::from(spec.latency_cycles),
        }
    }

    /// Issues an operation at `earliest` or as soon after it as both a port and a place in
    /// `width` are free, and returns the cycle.
    #[inline]
    pub fn issue(&mut self, earliest: u64, width: &mut Calendar) -> u64 {
        let mut cycle = earliest;
        if self.free_at.is_empty() {
            while !(width.has_room(cycle) && self.calendar.has_room(cycle)) {
                cycle += 1;
            }
            self.calendar.book(cycle);
        } else if let Some(free_at) = self.free_at.iter_mut().min() {
            cycle = cycle.max(*free_at);
            while !width.has_room(cycle) {
                cycle += 1;
            }
            *free_at = cycle + self.latency;
        }
        width.book(cycle);
        cycle
    }

    /// What is booked from `now` on, relative to it: equal vectors behave equally.
    pub fn relative(&self, now: u64, horizon: u64, into: &mut Vec<u64>) {
        if self.free_at.is_empty() {
            self.calendar.relative(now, horizon, into);
        } else {
            into.extend(
                self.free_at
                    .iter()
                    .map(|free_at| free_at.saturating_sub(now)),
            );
        }
    }
}

impl Calendar {
    /// What is booked from `now` to `now + horizon`, relative to `now`.
    pub fn relative(&self, now: u64, horizon: u64, into: &mut Vec<u64>) {
        into.extend((now..now + horizon).map(|cycle| u64::from(self.booked(cycle))));
    }

    /// Moves everything booked from `now` on by `by` cycles.
    pub fn shift(&mut self, now: u64, horizon: u64, by: u64) {
        let booked: Vec<u8> = (now..now + horizon)
            .map(|cycle| self.booked(cycle))
            .collect();
        for (count, cycle) in booked.into_iter().zip(now + by..) {
            self.set(cycle, count);
        }
    }
}

impl Ports {
    /// Moves everything booked from `now` on by `by` cycles.
    pub fn shift(&mut self, now: u64, horizon: u64, by: u64) {
        if self.free_at.is_empty() {
            self.calendar.shift(now, horizon, by);
        } else {
            for free_at in &mut self.free_at {
                *free_at += by;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_width_both_limit_issue() {
        let mut width = Calendar::new(3);
        let mut ports = Ports::new(&UnitSpec {
            ports: 2,
            latency_cycles: 1,
            pipelined: true,
        });
        let issued: Vec<u64> = (0..5).map(|_| ports.issue(10, &mut width)).collect();
        assert_eq!(issued, [10, 10, 11, 11, 12]);
        // Cycle 10 has one place left in the width, but no port.
        let mut other = Ports::new(&UnitSpec {
            ports: 4,
            latency_cycles: 1,
            pipelined: true,
        });
        let issued: Vec<u64> = (0..3).map(|_| other.issue(10, &mut width)).collect();
        assert_eq!(issued, [10, 11, 12]);
    }

    #[test]
    fn an_unpipelined_unit_is_busy_for_its_latency() {
        let mut width = Calendar::new(8);
        let mut ports = Ports::new(&UnitSpec {
            ports: 1,
            latency_cycles: 20,
            pipelined: false,
        });
        assert_eq!(ports.issue(5, &mut width), 5);
        assert_eq!(ports.issue(6, &mut width), 25);
    }
}
