//! Which execution unit is taken in which cycle.

use crate::spec::{CoreSpec, UnitSpec};

/// Kinds of execution units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unit {
    Integer,
    Multiply,
    Divide,
    FloatAdd,
    FloatMultiply,
    FloatDivide,
    Load,
    Store,
}

const UNITS: usize = 8;

/// What is booked in one cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    /// Which of the cycles that share this place; an entry of another one counts as empty, so
    /// that nothing has to be cleared as time goes on.
    lap: u32,
    /// Operations that issue, of all kinds.
    issues: u8,
    /// Ports that are busy, by kind of unit.
    busy: [u8; UNITS],
}

#[derive(Clone, Copy, Debug)]
struct UnitTiming {
    ports: u8,
    /// Cycles for which an operation keeps its port.
    busy: u64,
    latency: u64,
}

impl UnitTiming {
    fn new(spec: &UnitSpec) -> UnitTiming {
        let latency = u64::from(spec.latency_cycles);
        UnitTiming {
            ports: spec.ports,
            busy: if spec.pipelined { 1 } else { latency },
            latency,
        }
    }
}

/// The issue width and the ports of a core in the cycles to come.
///
/// No operation is booked further ahead than a chain of as many of the slowest as the reorder
/// buffer holds; there are more entries than that, so two cycles that matter never share one.
#[derive(Clone, Debug)]
pub struct Calendar {
    cycles: Box<[Cycle]>,
    lap_shift: u32,
    width: u8,
    units: [UnitTiming; UNITS],
}

impl Calendar {
    pub fn new(spec: &CoreSpec) -> Calendar {
        let units = &spec.units;
        let units = [
            UnitTiming::new(&units.integer),
            UnitTiming::new(&units.multiply),
            UnitTiming::new(&units.divide),
            UnitTiming::new(&units.float_add),
            UnitTiming::new(&units.float_multiply),
            UnitTiming::new(&units.float_divide),
            UnitTiming::new(&units.load),
            UnitTiming::new(&units.store),
        ];
        let slowest = units.iter().map(|unit| unit.latency).max().unwrap_or(1);
        let slowest = slowest.max(spec.l1_data.hit_latency_cycles) + 1;
        let cycles = (u64::from(spec.rob_entries) + 2) * slowest;
        let cycles = cycles.next_power_of_two() as usize;
        Calendar {
            // Cycles before the first lap are never asked for.
            cycles: vec![Cycle::default(); cycles].into_boxed_slice(),
            lap_shift: cycles.trailing_zeros(),
            width: spec.width,
            units,
        }
    }

    /// Cycles from issue to result.
    #[inline(always)]
    pub fn latency(&self, unit: Unit) -> u64 {
        self.units[unit as usize].latency
    }

    #[inline(always)]
    fn place(&self, cycle: u64) -> usize {
        cycle as usize & (self.cycles.len() - 1)
    }

    /// The number of a lap comes again after 2^32 times thousands of cycles: an hour and more.
    #[inline(always)]
    fn lap(&self, cycle: u64) -> u32 {
        (cycle >> self.lap_shift) as u32
    }

    #[inline(always)]
    fn get(&self, cycle: u64) -> Cycle {
        let entry = self.cycles[self.place(cycle)];
        if entry.lap == self.lap(cycle) {
            entry
        } else {
            Cycle::default()
        }
    }

    #[inline(always)]
    fn get_mut(&mut self, cycle: u64) -> &mut Cycle {
        let lap = self.lap(cycle);
        let place = self.place(cycle);
        let entry = &mut self.cycles[place];
        if entry.lap != lap {
            *entry = Cycle {
                lap,
                ..Cycle::default()
            };
        }
        entry
    }

    /// How many operations issue in `cycle`.
    #[inline(always)]
    pub fn issues(&self, cycle: u64) -> u8 {
        self.get(cycle).issues
    }

    /// Issues an operation at `earliest` or as soon after it as both a port and a place in the
    /// width are free, and returns the cycle.
    #[inline(always)]
    pub fn issue(&mut self, unit: Unit, earliest: u64) -> u64 {
        let timing = self.units[unit as usize];
        if timing.busy > 1 {
            return self.issue_unpipelined(unit, earliest);
        }
        let width = self.width;
        let mut cycle = earliest;
        loop {
            let entry = self.get_mut(cycle);
            if entry.issues < width && entry.busy[unit as usize] < timing.ports {
                entry.issues += 1;
                entry.busy[unit as usize] += 1;
                return cycle;
            }
            cycle += 1;
        }
    }

    fn issue_unpipelined(&mut self, unit: Unit, earliest: u64) -> u64 {
        let UnitTiming { ports, busy, .. } = self.units[unit as usize];
        let mut cycle = earliest;
        loop {
            let taken = (cycle..cycle + busy)
                .rev()
                .find(|&cycle| self.get(cycle).busy[unit as usize] >= ports);
            match taken {
                Some(taken) => cycle = taken + 1,
                None if self.issues(cycle) >= self.width => cycle += 1,
                None => break,
            }
        }
        self.get_mut(cycle).issues += 1;
        for cycle in cycle..cycle + busy {
            self.get_mut(cycle).busy[unit as usize] += 1;
        }
        cycle
    }

    /// Takes back the operation that was to issue at `cycle`.
    pub fn cancel(&mut self, unit: Unit, cycle: u64) {
        self.get_mut(cycle).issues -= 1;
        for cycle in cycle..cycle + self.units[unit as usize].busy {
            self.get_mut(cycle).busy[unit as usize] -= 1;
        }
    }

    /// What is booked in the `span` cycles from `now` on: equal vectors behave equally.
    pub fn ahead(&self, now: u64, span: u64, into: &mut Vec<u64>) {
        into.extend((now..now + span).flat_map(|cycle| {
            let entry = self.get(cycle);
            [u64::from(entry.issues), u64::from_le_bytes(entry.busy)]
        }));
    }

    /// Moves what is booked in the `span` cycles from `now` on by `by` cycles.
    pub fn shift(&mut self, now: u64, span: u64, by: u64) {
        let booked: Vec<Cycle> = (now..now + span)
            .map(|cycle| std::mem::take(self.get_mut(cycle)))
            .collect();
        for (entry, cycle) in booked.into_iter().zip(now + by..) {
            let lap = self.lap(cycle);
            *self.get_mut(cycle) = Cycle { lap, ..entry };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(width: u8) -> Calendar {
        let mut spec = CoreSpec::hyperplane_table1();
        spec.width = width;
        Calendar::new(&spec)
    }

    #[test]
    fn ports_and_width_both_limit_issue() {
        // Two multipliers, six integer units, three operations a cycle.
        let mut calendar = calendar(3);
        let mut issue =
            |unit, times| -> Vec<u64> { (0..times).map(|_| calendar.issue(unit, 10)).collect() };
        assert_eq!(issue(Unit::Multiply, 5), [10, 10, 11, 11, 12]);
        // Cycles 10 and 11 have one place left in the width, cycle 12 has two.
        assert_eq!(issue(Unit::Integer, 5), [10, 11, 12, 12, 13]);
    }

    #[test]
    fn an_unpipelined_unit_is_busy_for_its_latency() {
        // One divider, 20 cycles.
        let mut calendar = calendar(8);
        assert_eq!(calendar.issue(Unit::Divide, 50), 50);
        assert_eq!(calendar.issue(Unit::Divide, 51), 70);
        // Cycles 30 to 49 are free, for an operation that is ready then.
        assert_eq!(calendar.issue(Unit::Divide, 31), 90);
        assert_eq!(calendar.issue(Unit::Divide, 30), 30);
        calendar.cancel(Unit::Divide, 70);
        assert_eq!(calendar.issue(Unit::Divide, 31), 70);
    }

    #[test]
    fn a_shift_keeps_what_is_ahead() {
        let mut calendar = calendar(8);
        calendar.issue(Unit::Store, 1000);
        calendar.issue(Unit::Divide, 1001);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        calendar.ahead(1000, 64, &mut before);
        calendar.shift(1000, 64, 1_000_003);
        calendar.ahead(1_001_003, 64, &mut after);
        assert_eq!(before, after);
        assert_eq!(calendar.issues(1000), 0);
    }
}
