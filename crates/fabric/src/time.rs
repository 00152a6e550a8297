//! Simulated time.

use crate::divisor::Divisor;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in simulated time, or a duration: whole femtoseconds.
///
/// A femtosecond makes the clock periods in use exact enough (3.2 GHz is 312 500 fs) and a `u64`
/// of them lasts five hours of simulated time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// The beginning of the simulation.
    pub const ZERO: Time = Time(0);
    /// Later than all events.
    pub const NEVER: Time = Time(u64::MAX);

    /// `femtoseconds` as a time.
    pub const fn from_fs(femtoseconds: u64) -> Time {
        Time(femtoseconds)
    }

    /// `nanoseconds`, rounded to the nearest femtosecond. Negative values give zero.
    pub fn from_ns(nanoseconds: f64) -> Time {
        Time((nanoseconds * 1e6).round() as u64)
    }

    /// This time in femtoseconds.
    pub const fn as_fs(self) -> u64 {
        self.0
    }

    /// This time in nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e15
    }

    /// The sum, or [`Time::NEVER`] on overflow.
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if negative.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl state::State for Time {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        walker.time(&mut self.0);
    }
}

impl state::Plain for Time {
    fn blank() -> Time {
        Time::ZERO
    }
}

/// A duration that is accumulated.
impl state::Counted for Time {
    fn counted(&mut self) -> &mut u64 {
        &mut self.0
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ns", self.as_ns())
    }
}

/// A clock: converts between cycles and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    period_fs: Divisor,
}

impl Clock {
    /// A clock of `gigahertz`; its period is rounded to the nearest femtosecond.
    pub fn from_ghz(gigahertz: f64) -> Clock {
        Clock {
            period_fs: Divisor::new((1e6 / gigahertz).round().max(1.0) as u64),
        }
    }

    /// The length of `cycles` cycles; also the time at which cycle number `cycles` begins.
    #[inline]
    pub const fn time(self, cycles: u64) -> Time {
        Time(cycles.saturating_mul(self.period_fs.value()))
    }

    /// The first cycle that begins at `time` or later; `u64::MAX` for [`Time::NEVER`].
    #[inline]
    pub const fn cycle_at_or_after(self, time: Time) -> u64 {
        if time.0 >= 1 << 63 {
            Self::late_cycle(time.0.div_ceil(self.period_fs.value()), time)
        } else {
            let cycle = self.period_fs.divide(time.0);
            cycle + (cycle * self.period_fs.value() != time.0) as u64
        }
    }

    /// The cycle that contains `time`; `u64::MAX` for [`Time::NEVER`].
    #[inline]
    pub const fn cycle_of(self, time: Time) -> u64 {
        if time.0 >= 1 << 63 {
            Self::late_cycle(time.0 / self.period_fs.value(), time)
        } else {
            self.period_fs.divide(time.0)
        }
    }

    /// The `cycle` of a time that is too late for [`Divisor::divide`]: a guest may request an alarm
    /// in hours.
    const fn late_cycle(cycle: u64, time: Time) -> u64 {
        match time.0 {
            u64::MAX => u64::MAX,
            _ => cycle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_hours_have_cycles() {
        let clock = Clock::from_ghz(2.0); // 500,000 fs
        let late = Time((1 << 63) + 1);
        assert_eq!(clock.cycle_of(late), ((1 << 63) + 1) / 500_000);
        assert_eq!(clock.cycle_at_or_after(late), ((1 << 63) + 1) / 500_000 + 1);
        assert_eq!(clock.cycle_of(Time::NEVER), u64::MAX);
        assert_eq!(clock.cycle_at_or_after(Time::NEVER), u64::MAX);
    }

    #[test]
    fn cycles_and_times_agree() {
        let clock = Clock::from_ghz(3.2);
        assert_eq!(clock.time(1).as_fs(), 312_500);
        assert_eq!(clock.cycle_at_or_after(Time::from_fs(312_500)), 1);
        assert_eq!(clock.cycle_at_or_after(Time::from_fs(312_501)), 2);
        assert_eq!(clock.cycle_at_or_after(Time::NEVER), u64::MAX);
        assert_eq!(clock.cycle_of(Time::from_fs(312_499)), 0);
        assert_eq!(clock.cycle_of(Time::from_fs(312_500)), 1);
    }
}
