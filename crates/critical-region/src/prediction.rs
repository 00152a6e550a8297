//! The register value predictor: IN and GEN values, Tables IV and V of Figure 10.
//!
//! A register's IN value is its first value in a pass through the region; the values that critical
//! instructions then put into it are the GEN values of that IN value (Section 4.2).

use crate::convention::REGISTERS;
use riscv::Register;

/// The maximum number of IN values of one register (Section 4.2).
pub const IN_VALUES: usize = 8;
/// The number of GEN values of an IN value that are kept: the first, and the most recent.
pub const GEN_VALUES: usize = 2;
/// An IN value is valid if it has returned at least once for so many GEN values: 1/8 (Sections 4.2
/// and 4.4); this is the denominator.
pub const GENERATED_PER_RETURN: u64 = 8;
/// A valid IN value begins more than one in so many passes that have one: "above 1/8", as a
/// probability (Section 4.2), which is the share of each of [`IN_VALUES`] equally frequent ones.
pub const PASSES_PER_VALUE: u64 = IN_VALUES as u64;

/// The beginning of a chain: a register that an instruction reads, or the result of an instruction
/// all of whose operands are roots. One register can be both in a region, with different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// The register is read.
    Operand(Register),
    /// It is written.
    Result(Register),
}

impl Begins {
    /// 0 for operands, 1 for results; and the register's number.
    fn place(self) -> (usize, usize) {
        match self {
            Begins::Operand(register) => (0, usize::from(register)),
            Begins::Result(register) => (1, usize::from(register)),
        }
    }
}

/// A row of the IN value table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InValue {
    /// The value.
    pub value: u64,
    /// The number of returns of this value.
    pub uses: u64,
    /// The register's next value in the table.
    next: Option<usize>,
    /// Its rows in the GEN value table.
    generated: [Option<usize>; GEN_VALUES],
}

/// A row of the GEN value table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenValue {
    /// The value.
    pub value: u64,
    /// How often this row was written or matched.
    pub uses: u64,
}

/// Both tables.
#[derive(Clone, Debug)]
pub struct ValuePredictor {
    in_values: Vec<Option<InValue>>,
    /// The first rows of results, which have no fixed rows.
    results: [Option<usize>; REGISTERS],
    gen_values: Vec<Option<GenValue>>,
    /// The number of IN values of each register, as an operand and as a result.
    received: [[u64; REGISTERS]; 2],
    /// The number of rows of both tables that were compared or written.
    accesses: (u64, u64),
}

impl ValuePredictor {
    /// Empty tables with these numbers of rows. The IN table has a fixed row for each of the
    /// [`REGISTERS`], and needs at least these; further values take any other row.
    pub fn new(in_rows: usize, gen_rows: usize) -> ValuePredictor {
        assert!(in_rows >= REGISTERS, "each register has a row");
        ValuePredictor {
            in_values: vec![None; in_rows],
            results: [None; REGISTERS],
            gen_values: vec![None; gen_rows],
            received: [[0; REGISTERS]; 2],
            accesses: (0, 0),
        }
    }

    /// The number of rows of IN and of GEN values that have been compared or written.
    pub fn accesses(&self) -> (u64, u64) {
        self.accesses
    }

    /// The rows of a register's IN values.
    fn rows(&self, of: Begins) -> impl Iterator<Item = usize> {
        let first = match of {
            Begins::Operand(register) => {
                let first = usize::from(register);
                self.in_values[first].map(|_| first)
            }
            Begins::Result(register) => self.results[usize::from(register)],
        };
        std::iter::successors(first, |&row| self.in_values[row]?.next)
    }

    /// A register has the IN value `value` in this pass; returns the value's row, if there is room.
    /// If the register has the maximum number of values, or all rows are taken, its least frequent
    /// value is replaced.
    pub fn receive(&mut self, of: Begins, value: u64) -> Option<usize> {
        let (kind, register) = of.place();
        self.received[kind][register] += 1;
        let rows: Vec<usize> = self.rows(of).collect();
        // All rows of the register are compared, and one is written.
        self.accesses.0 += rows.len() as u64 + 1;
        for &row in &rows {
            if let Some(known) = &mut self.in_values[row]
                && known.value == value
            {
                known.uses += 1;
                return Some(row);
            }
        }
        let free = match (of, rows.len()) {
            (Begins::Operand(register), 0) => Some(usize::from(register)),
            (_, 0..IN_VALUES) => {
                (REGISTERS..self.in_values.len()).find(|&row| self.in_values[row].is_none())
            }
            _ => None,
        };
        let uses = |row: usize| self.in_values[row].map(|known| known.uses);
        let least = rows.iter().copied().min_by_key(|&row| uses(row));
        let row = free.or(least)?;
        let replaced = self.in_values[row].take();
        for generated in replaced.iter().flat_map(|one| one.generated).flatten() {
            self.gen_values[generated] = None;
        }
        self.in_values[row] = Some(InValue {
            value,
            uses: 0,
            next: replaced.and_then(|one| one.next),
            generated: [None; GEN_VALUES],
        });
        match (free, rows.last(), of) {
            (Some(_), Some(&last), _) => {
                if let Some(last) = &mut self.in_values[last] {
                    last.next = Some(row);
                }
            }
            (_, None, Begins::Result(register)) => self.results[usize::from(register)] = Some(row),
            _ => {}
        }
        Some(row)
    }

    /// A critical instruction has put `value` into a register whose IN value is in `row`.
    pub fn generate(&mut self, row: usize, value: u64) {
        let Some(known) = self.in_values[row] else {
            return;
        };
        let rows = known.generated;
        // The row of the IN value points to those of its GEN values, one of which is written.
        self.accesses.0 += 1;
        self.accesses.1 += rows.iter().flatten().count() as u64 + 1;
        let has = |row: Option<usize>| row.and_then(|row| self.gen_values[row]);
        let matching = rows
            .into_iter()
            .find(|&row| has(row).is_some_and(|one| one.value == value));
        // A new value takes the first row if that is free, and otherwise the second.
        let place = matching.flatten().or(rows[1]);
        if let Some(Some(one)) = place.map(|place| &mut self.gen_values[place]) {
            one.value = value;
            one.uses += 1;
            return;
        }
        let Some(free) = self.gen_values.iter().position(Option::is_none) else {
            return;
        };
        self.gen_values[free] = Some(GenValue { value, uses: 1 });
        if let Some(known) = &mut self.in_values[row] {
            known.generated[usize::from(rows[0].is_some())] = Some(free);
        }
    }

    /// The number of GEN values that have followed an IN value.
    fn generated(&self, known: &InValue) -> u64 {
        let rows = known.generated.iter().flatten();
        rows.filter_map(|&row| self.gen_values[row])
            .map(|one| one.uses)
            .sum()
    }

    /// The most probable IN value of a register: of the valid ones, the one with the most GEN
    /// values or, of equals, the most frequent one. `None` if none is valid.
    ///
    /// The condition on its share of the passes excludes values that return by chance, of an
    /// argument with thousands of different values, like `memcpy()`'s.
    pub fn predict(&self, of: Begins) -> Option<u64> {
        let (kind, register) = of.place();
        let received = self.received[kind][register];
        let known = self.rows(of).filter_map(|row| self.in_values[row]);
        let valid = known.filter(|one| {
            let is_returned = GENERATED_PER_RETURN * one.uses > self.generated(one);
            is_returned && PASSES_PER_VALUE * (one.uses + 1) > received
        });
        let best = valid.max_by_key(|one| (self.generated(one), one.uses));
        best.map(|one| one.value)
    }

    /// The IN values of a register, each with its GEN values.
    pub fn values(&self, of: Begins) -> Vec<(InValue, Vec<GenValue>)> {
        let known = self.rows(of).filter_map(|row| self.in_values[row]);
        known
            .map(|one| {
                let rows = one.generated.iter().flatten();
                let generated = rows.filter_map(|&row| self.gen_values[row]).collect();
                (one, generated)
            })
            .collect()
    }

    /// Invalidates all rows.
    pub fn clear(&mut self) {
        self.in_values.fill(None);
        self.results = [None; REGISTERS];
        self.gen_values.fill(None);
        self.received = [[0; REGISTERS]; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A0: Begins = Begins::Operand(10);
    const A1: Begins = Begins::Operand(11);
    const RESULT: Begins = Begins::Result(10);

    fn paper() -> ValuePredictor {
        ValuePredictor::new(48, 132)
    }

    fn seen(predictor: &ValuePredictor, of: Begins) -> Vec<(u64, u64)> {
        let values = predictor.values(of);
        values
            .iter()
            .map(|(one, _)| (one.value, one.uses))
            .collect()
    }

    #[test]
    fn a_value_is_valid_when_it_comes_again() {
        let mut predictor = paper();
        predictor.receive(A0, 7);
        assert_eq!(predictor.predict(A0), None);
        predictor.receive(A0, 7);
        assert_eq!(predictor.predict(A0), Some(7));
        assert_eq!(predictor.predict(A1), None);
    }

    #[test]
    fn it_must_come_again_once_for_fewer_than_eight_generated_values() {
        let mut predictor = paper();
        let row = predictor.receive(A0, 7).unwrap();
        for value in 0..8 {
            predictor.generate(row, value);
        }
        predictor.receive(A0, 7);
        // 1 return for 8 GEN values is 1/8, and not above it.
        assert_eq!(predictor.predict(A0), None);
        predictor.receive(A0, 7);
        assert_eq!(predictor.predict(A0), Some(7));
    }

    #[test]
    fn it_must_begin_more_than_an_eighth_of_the_passes() {
        let mut predictor = paper();
        predictor.receive(A0, 7);
        predictor.receive(A0, 7);
        for value in 100..113 {
            predictor.receive(A0, value);
        }
        assert_eq!(predictor.predict(A0), Some(7), "2 of 15");
        predictor.receive(A0, 113);
        assert_eq!(predictor.predict(A0), None, "2 of 16");
        predictor.receive(A0, 7);
        assert_eq!(predictor.predict(A0), Some(7), "3 of 17");
        // Each of eight values in turn has 1/8, and a more frequent one has more.
        for value in 0..16 {
            predictor.receive(A1, value % 8);
        }
        assert_eq!(predictor.predict(A1), None);
        predictor.receive(A1, 3);
        assert_eq!(predictor.predict(A1), Some(3));
    }

    #[test]
    fn the_first_and_the_most_recent_generated_values_are_kept() {
        let mut predictor = paper();
        let row = predictor.receive(A0, 7).unwrap();
        for value in [1, 2, 3, 1, 3] {
            predictor.generate(row, value);
        }
        let (_, generated) = &predictor.values(A0)[0];
        // 1 came twice; 2 was replaced by 3, which came twice: the counter counts all three.
        let kept: Vec<(u64, u64)> = generated.iter().map(|one| (one.value, one.uses)).collect();
        assert_eq!(kept, [(1, 2), (3, 3)]);
    }

    #[test]
    fn generated_values_have_room_again_after_they_were_cleared() {
        let mut predictor = ValuePredictor::new(48, 2);
        for cleared in [false, true] {
            let row = predictor.receive(A0, 7).unwrap();
            // The third finds no free row.
            for (row, value) in [(row, 1), (row, 2), (predictor.receive(A1, 8).unwrap(), 3)] {
                predictor.generate(row, value);
            }
            let [(_, generated), (_, none)] = [A0, A1].map(|of| predictor.values(of)[0].clone());
            let kept: Vec<u64> = generated.iter().map(|one| one.value).collect();
            assert_eq!((kept, none), (vec![1, 2], vec![]), "cleared: {cleared}");
            predictor.clear();
        }
    }

    #[test]
    fn of_eight_values_the_least_frequent_makes_room() {
        let mut predictor = paper();
        for value in 0..8 {
            predictor.receive(A0, value);
        }
        for value in [0, 1, 2, 4, 5, 6, 7] {
            predictor.receive(A0, value);
        }
        predictor.receive(A0, 8);
        let values = seen(&predictor, A0);
        assert_eq!(values.len(), 8);
        assert_eq!(values[3], (8, 0), "in place of 3, which had come once");
    }

    #[test]
    fn registers_share_the_rows_that_are_nobodys() {
        // 32 fixed rows and 2 more.
        let mut predictor = ValuePredictor::new(34, 132);
        for value in 0..5 {
            predictor.receive(A0, value);
        }
        // Three rows in all; then 0, the first of the least frequent, is replaced by 3, and that by
        // 4.
        assert_eq!(seen(&predictor, A0), [(4, 0), (1, 0), (2, 0)]);
        predictor.receive(A1, 9);
        predictor.receive(A1, 8);
        assert_eq!(seen(&predictor, A1), [(8, 0)]);
        // No row is free for another register's result, unless the register has one.
        assert_eq!(predictor.receive(RESULT, 6), None);
        predictor.clear();
        assert!(seen(&predictor, A0).is_empty());
        assert_eq!(predictor.receive(RESULT, 6), Some(32));
        assert_eq!(
            (seen(&predictor, A0), seen(&predictor, RESULT)),
            (vec![], vec![(6, 0)])
        );
    }
}
