//! The reservations of execution units, by cycle.

use crate::ring::Ring;
use crate::spec::{CoreSpec, Model, UnitSpec};
use crate::statistics::Operations;

/// Kinds of execution units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
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

/// The free resources of a cycle: issue width, and ports of each kind. Each has seven bits, in the
/// order of [`Unit`] and then the width; the uppermost bit is a guard, which a subtraction clears
/// if nothing was left.
type Free = u64;

const FIELD_BITS: u32 = 7;
const WIDTH: u32 = UNITS as u32;
const GUARDS: Free = {
    let mut guards = 0;
    let mut field = 0;
    while field <= WIDTH {
        guards |= 1 << (field * FIELD_BITS + FIELD_BITS - 1);
        field += 1;
    }
    guards
};

const fn field(number: u32, count: u8) -> Free {
    (count as u64) << (number * FIELD_BITS)
}

/// The resources that an operation takes in its issue cycle, and its latency.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// 0 if operations of its unit are counted, or take a port for more than a cycle.
    free: Free,
    /// Cycles from issue to result; of loads, on a hit.
    pub latency: u32,
    /// Cycles for which it occupies its port.
    busy: u32,
}

impl Need {
    /// Whether it only occupies a port for one cycle.
    #[inline(always)]
    pub fn is_frequent(self) -> bool {
        self.free != 0
    }

    /// The same operation, on a unit that is not pipelined, with a latency shorter by `cycles`.
    pub fn done_sooner(self, cycles: u32) -> Need {
        Need {
            latency: self.latency - cycles,
            busy: self.busy - cycles,
            ..self
        }
    }
}

/// The reservations of one cycle.
#[derive(Clone, Copy, Debug, state::State)]
struct Cycle {
    /// Which of the cycles that share this entry; an entry of another cycle counts as free, so that
    /// nothing has to be cleared as time advances.
    #[state(cycle)]
    number: u64,
    free: Free,
}

#[derive(Clone, Copy, Debug)]
struct UnitTiming {
    /// Cycles for which an operation occupies its port.
    busy: u64,
    latency: u32,
}

impl UnitTiming {
    fn new(spec: &UnitSpec) -> UnitTiming {
        UnitTiming {
            busy: if spec.pipelined {
                1
            } else {
                u64::from(spec.latency_cycles)
            },
            latency: u32::from(spec.latency_cycles),
        }
    }
}

/// The reservations of a core's issue width and ports in future cycles.
///
/// No operation is reserved further ahead than a chain of as many of the slowest as the reorder
/// buffer holds. There are more entries than that, so no two relevant cycles share one.
#[derive(Clone, Debug, state::State)]
pub struct Calendar {
    cycles: Ring<Cycle>,
    #[state(fixed)]
    width: u8,
    /// The core issues one operation a cycle, in program order.
    #[state(fixed)]
    single: bool,
    /// The resources of a cycle without reservations.
    #[state(fixed)]
    all: Free,
    /// By unit, the cycles that were last found without room for a pipelined operation: from the
    /// first up to the second, which may have some. A search skips them.
    #[state(fixed)]
    full: [(u64, u64); UNITS],
    /// By unit, a cycle from which on no port is reserved. Kept for operations that are not
    /// frequent.
    #[state(cycles)]
    idle_from: [u64; UNITS],
    #[state(fixed)]
    units: [UnitTiming; UNITS],
    /// See [`UnitsSpec`](crate::spec::UnitsSpec).
    #[state(fixed)]
    pub multiplier_bits_per_cycle: u8,
    /// The result of [`Calendar::need`] by unit.
    #[state(fixed)]
    needs: [Need; UNITS],
}

impl Calendar {
    pub fn new(spec: &CoreSpec) -> Calendar {
        let units = &spec.units;
        let kinds = [
            &units.integer,
            &units.multiply,
            &units.divide,
            &units.float_add,
            &units.float_multiply,
            &units.float_divide,
            &units.load,
            &units.store,
        ];
        let mut all = GUARDS + field(WIDTH, spec.width);
        for (number, unit) in kinds.iter().enumerate() {
            all += field(number as u32, unit.ports);
        }
        let mut units = kinds.map(UnitTiming::new);
        let slowest = units.iter().map(|unit| unit.latency).max().unwrap_or(1);
        let slowest = u64::from(slowest).max(spec.l1_data.hit_latency_cycles) + 1;
        let length = (u64::from(spec.rob_entries) + 2) * slowest;
        // A load has the cache's latency, and a store is done when it has issued.
        units[Unit::Load as usize].latency = spec.l1_data.hit_latency_cycles as u32;
        units[Unit::Store as usize].latency = 1;
        let need = |unit: Unit| {
            let UnitTiming { busy, latency } = units[unit as usize];
            let frequent = matches!(unit, Unit::Integer | Unit::Load | Unit::Store);
            let free = if frequent && busy == 1 {
                field(unit as u32, 1) + field(WIDTH, 1)
            } else {
                0
            };
            Need {
                free,
                latency,
                busy: busy as u32,
            }
        };
        let needs = [
            Unit::Integer,
            Unit::Multiply,
            Unit::Divide,
            Unit::FloatAdd,
            Unit::FloatMultiply,
            Unit::FloatDivide,
            Unit::Load,
            Unit::Store,
        ]
        .map(need);
        let never = Cycle {
            number: u64::MAX,
            free: all,
        };
        Calendar {
            cycles: Ring::new(length as usize, never),
            width: spec.width,
            single: spec.width == 1 && spec.model == Model::InOrder,
            all,
            full: [(0, 0); UNITS],
            idle_from: [0; UNITS],
            units,
            multiplier_bits_per_cycle: spec.units.multiplier_bits_per_cycle,
            needs,
        }
    }

    /// The resources of an operation of this kind.
    #[inline(always)]
    pub fn need(&self, unit: Unit) -> Need {
        self.needs[unit as usize]
    }

    /// Whether the core issues one operation a cycle, in program order.
    pub fn is_single(&self) -> bool {
        self.single
    }

    #[inline(always)]
    fn get(&self, cycle: u64) -> Free {
        let entry = self.cycles[cycle];
        if entry.number == cycle {
            entry.free
        } else {
            self.all
        }
    }

    #[inline(always)]
    fn get_mut(&mut self, cycle: u64) -> &mut Free {
        let all = self.all;
        let entry = &mut self.cycles[cycle];
        if entry.number != cycle {
            *entry = Cycle {
                number: cycle,
                free: all,
            };
        }
        &mut entry.free
    }

    /// The number of operations that issue in `cycle`.
    #[inline(always)]
    pub fn issues(&self, cycle: u64) -> u8 {
        let left = self.get(cycle) >> (WIDTH * FIELD_BITS);
        self.width - (left as u8 & ((1 << (FIELD_BITS - 1)) - 1))
    }

    /// Whether a frequent operation that is dispatched in `cycle` can issue in the next one without
    /// a reservation, if its predecessor issued at `last_issue`. That holds if each cycle has one
    /// operation: later ones are dispatched later, and issue later.
    #[inline(always)]
    pub fn is_free_after(&self, cycle: u64, last_issue: u64) -> bool {
        self.single && last_issue <= cycle
    }

    /// Issues an operation at `earliest`, or in the next cycle in which both a port and issue width
    /// are free, and returns the cycle. Counts it in `operations` if its kind is counted.
    #[inline(always)]
    pub fn issue(
        &mut self,
        unit: Unit,
        need: Need,
        earliest: u64,
        operations: &mut Operations,
    ) -> u64 {
        if need.is_frequent() {
            self.take(need.free, earliest)
        } else {
            self.issue_rare(unit, need.busy, earliest, operations)
        }
    }

    /// The same for a frequent operation.
    #[inline(always)]
    pub fn issue_frequent(&mut self, need: Need, earliest: u64) -> u64 {
        debug_assert!(need.is_frequent(), "it has more to be done");
        self.take(need.free, earliest)
    }

    /// Takes the resources in the first cycle from `earliest` on that has them.
    #[inline(always)]
    fn take(&mut self, need: Free, earliest: u64) -> u64 {
        let all = self.all;
        let entry = &mut self.cycles[earliest];
        let free = if entry.number == earliest {
            entry.free
        } else {
            all
        };
        let left = free - need;
        if left & GUARDS != GUARDS {
            return self.take_later(need, earliest);
        }
        *entry = Cycle {
            number: earliest,
            free: left,
        };
        earliest
    }

    /// The same after `earliest`.
    #[inline(never)]
    fn take_later(&mut self, need: Free, earliest: u64) -> u64 {
        let unit = (need.trailing_zeros() / FIELD_BITS) as usize;
        let (mut from, to) = self.full[unit];
        let mut cycle = earliest + 1;
        if from <= earliest && earliest < to {
            cycle = to;
        } else {
            from = earliest;
        }
        loop {
            let left = self.get(cycle) - need;
            if left & GUARDS == GUARDS {
                self.cycles[cycle] = Cycle {
                    number: cycle,
                    free: left,
                };
                self.full[unit] = (from, cycle);
                return cycle;
            }
            cycle += 1;
        }
    }

    #[inline(never)]
    fn issue_rare(
        &mut self,
        unit: Unit,
        busy: u32,
        earliest: u64,
        operations: &mut Operations,
    ) -> u64 {
        if let Some(count) = operations.of(unit) {
            *count += 1;
        }
        let busy = u64::from(busy);
        if busy == 1 {
            let cycle = self.take(field(unit as u32, 1) + field(WIDTH, 1), earliest);
            self.idle_from[unit as usize] = self.idle_from[unit as usize].max(cycle + 1);
            return cycle;
        }
        self.issue_unpipelined(unit, busy, earliest)
    }

    #[inline(never)]
    fn issue_unpipelined(&mut self, unit: Unit, busy: u64, earliest: u64) -> u64 {
        let port = field(unit as u32, 1);
        let place = field(WIDTH, 1);
        let has = |free: Free, need: Free| (free - need) & GUARDS == GUARDS;
        let mut cycle = earliest;
        let idle_from = self.idle_from[unit as usize];
        loop {
            let taken = (cycle..idle_from.min(cycle + busy))
                .rev()
                .find(|&cycle| !has(self.get(cycle), port));
            match taken {
                Some(taken) => cycle = taken + 1,
                None if !has(self.get(cycle), place) => cycle += 1,
                None => break,
            }
        }
        *self.get_mut(cycle) -= place;
        for cycle in cycle..cycle + busy {
            *self.get_mut(cycle) -= port;
        }
        self.idle_from[unit as usize] = idle_from.max(cycle + busy);
        cycle
    }

    /// Cancels the operation that was to issue at `cycle`, if it was reserved.
    pub fn cancel(&mut self, unit: Unit, cycle: u64, operations: &mut Operations) {
        if let Some(count) = operations.of(unit) {
            *count -= 1;
        }
        if self.issues(cycle) == 0 {
            return;
        }
        for (_, to) in &mut self.full {
            *to = cycle.min(*to);
        }
        *self.get_mut(cycle) += field(WIDTH, 1);
        for cycle in cycle..cycle + self.units[unit as usize].busy {
            *self.get_mut(cycle) += field(unit as u32, 1);
        }
    }

    /// The reservations of the `span` cycles from `now` on: equal vectors behave equally.
    pub fn ahead(&self, now: u64, span: u64) -> impl Iterator<Item = u64> {
        (now..now + span).map(|cycle| self.get(cycle))
    }

    /// All reservations from `now` on.
    pub fn ahead_of(&self, now: u64, into: &mut Vec<u64>) {
        into.extend(self.ahead(now, self.cycles.length()));
    }

    /// Moves all reservations from `now` on by `by` cycles.
    pub fn shift_all(&mut self, now: u64, by: u64) {
        self.shift(now, self.cycles.length(), by);
    }

    /// Moves the reservations of the `span` cycles from `now` on by `by` cycles.
    pub fn shift(&mut self, now: u64, span: u64, by: u64) {
        let all = self.all;
        self.full = [(0, 0); UNITS];
        self.idle_from = self.idle_from.map(|cycle| cycle + by);
        let booked: Vec<Free> = (now..now + span)
            .map(|cycle| std::mem::replace(self.get_mut(cycle), all))
            .collect();
        for (free, cycle) in booked.into_iter().zip(now + by..) {
            *self.get_mut(cycle) = free;
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

    fn issue(calendar: &mut Calendar, unit: Unit, earliest: u64) -> u64 {
        let mut operations = Operations::default();
        calendar.issue(unit, calendar.need(unit), earliest, &mut operations)
    }

    fn cancel(calendar: &mut Calendar, unit: Unit, cycle: u64) {
        // Counts never become negative.
        let mut operations = ONE_OF_EACH;
        calendar.cancel(unit, cycle, &mut operations);
    }

    const ONE_OF_EACH: Operations = Operations {
        multiplications: 1,
        divisions: 1,
        float_additions: 1,
        float_multiplications: 1,
        float_divisions: 1,
    };

    #[test]
    fn ports_and_width_both_limit_issue() {
        // Two multipliers, six integer units, three operations a cycle.
        let mut calendar = calendar(3);
        let mut issue_all = |unit, times| -> Vec<u64> {
            (0..times).map(|_| issue(&mut calendar, unit, 10)).collect()
        };
        assert_eq!(issue_all(Unit::Multiply, 5), [10, 10, 11, 11, 12]);
        // Cycles 10 and 11 have a width of one left, cycle 12 of two.
        assert_eq!(issue_all(Unit::Integer, 5), [10, 11, 12, 12, 13]);
    }

    #[test]
    fn an_unpipelined_unit_is_busy_for_its_latency() {
        // One divider, 20 cycles.
        let mut calendar = calendar(8);
        assert_eq!(issue(&mut calendar, Unit::Divide, 50), 50);
        assert_eq!(issue(&mut calendar, Unit::Divide, 51), 70);
        // Cycles 30 to 49 are free for an operation that is ready then.
        assert_eq!(issue(&mut calendar, Unit::Divide, 31), 90);
        assert_eq!(issue(&mut calendar, Unit::Divide, 30), 30);
        cancel(&mut calendar, Unit::Divide, 70);
        assert_eq!(issue(&mut calendar, Unit::Divide, 31), 70);
    }

    #[test]
    fn what_is_issued_and_not_taken_back_is_counted() {
        let mut calendar = calendar(8);
        let mut operations = Operations::default();
        let mut issue = |calendar: &mut Calendar, unit| {
            calendar.issue(unit, calendar.need(unit), 100, &mut operations)
        };
        let counted = [
            Unit::Multiply,
            Unit::Divide,
            Unit::FloatAdd,
            Unit::FloatMultiply,
            Unit::FloatDivide,
        ];
        for (number, unit) in counted.into_iter().enumerate() {
            for _ in 0..=number {
                issue(&mut calendar, unit);
            }
        }
        for unit in [Unit::Integer, Unit::Load, Unit::Store] {
            issue(&mut calendar, unit);
        }
        let last = issue(&mut calendar, Unit::FloatDivide);
        calendar.cancel(Unit::FloatDivide, last, &mut operations);
        let expected = Operations {
            multiplications: 1,
            divisions: 2,
            float_additions: 3,
            float_multiplications: 4,
            float_divisions: 5,
        };
        assert_eq!(operations, expected);
    }

    #[test]
    fn what_was_not_booked_is_taken_back_without_a_trace() {
        let spec = CoreSpec::five_stage();
        let mut calendar = Calendar::new(&spec);
        // The previous operation issued in the cycle of its dispatch at the latest.
        assert!(calendar.is_free_after(9, 9));
        assert!(!calendar.is_free_after(9, 10));
        cancel(&mut calendar, Unit::Integer, 10);
        // Still one operation a cycle.
        assert_eq!(issue(&mut calendar, Unit::Integer, 10), 10);
        assert_eq!(issue(&mut calendar, Unit::Load, 10), 11);
        cancel(&mut calendar, Unit::Integer, 10);
        assert_eq!(issue(&mut calendar, Unit::Load, 10), 10);
        let wider = CoreSpec { width: 2, ..spec };
        assert!(!Calendar::new(&wider).is_free_after(9, 9));
    }

    #[test]
    fn a_shift_keeps_what_is_ahead() {
        let mut calendar = calendar(8);
        issue(&mut calendar, Unit::Store, 1000);
        issue(&mut calendar, Unit::Divide, 1001);
        let before: Vec<u64> = calendar.ahead(1000, 64).collect();
        calendar.shift(1000, 64, 1_000_003);
        assert!(calendar.ahead(1_001_003, 64).eq(before));
        assert_eq!(calendar.issues(1000), 0);
    }
}
