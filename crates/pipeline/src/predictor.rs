//! Branch prediction.

use crate::ring::Ring;
use crate::spec::PredictorSpec;
use riscv::Instruction;
use state::{Purpose, State, Walker};

const RETURN_STACK_ENTRIES: usize = 16;
/// The value of a two-bit counter that is sure that a branch is taken.
const STRONGEST: u8 = 3;
const RETURN_ADDRESS: u8 = 1;
const ALTERNATE_LINK: u8 = 5;

/// Whether a jump that writes this register is a call, and one that reads it a return.
#[inline(always)]
pub fn is_link(register: u8) -> bool {
    register == RETURN_ADDRESS || register == ALTERNATE_LINK
}

/// A tournament of per-address and history-indexed counters, a return-address stack and a table
/// of indirect targets.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct Predictor {
    /// The three tables of two-bit counters, one after the other: by address, by history, and the
    /// chooser (2 and 3: trust the history).
    #[state(fixed)]
    counters: Ring<u8>,
    #[state(slice)]
    targets: Box<[(u64, u64)]>,
    #[state(fixed)]
    table_mask: u32,
    #[state(fixed)]
    target_mask: u32,
    /// As long as it stays the same, so do all tables.
    #[state(exact)]
    changes: u64,
}

/// Equal predictors predict the same.
impl PartialEq for Predictor {
    fn eq(&self, other: &Predictor) -> bool {
        self.counters == other.counters && self.targets == other.targets
    }
}

impl State for Predictor {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // Two sample points may be compared without them: see [`Predictor::repeat`].
        if walker.purpose() == Purpose::Exact {
            self.walk_counters(walker);
        }
    }
}

/// The state that a prediction read, which is restored after a misprediction.
#[derive(Clone, Copy, Debug, Default, state::State)]
pub struct Lookup {
    by_address: u32,
    by_history: u32,
    chooser: u32,
    history: u32,
    /// The prediction.
    pub taken: bool,
}

/// The effect of a conditional branch on the counters.
#[derive(Clone, Copy, Debug)]
pub enum BranchStep {
    /// It is predicted.
    Predict(Lookup),
    /// Its outcome is known: the counters are trained.
    Train(Lookup, bool),
    /// Branches before this step were not recorded.
    Gap,
}

/// The return-address stack: a plain ring, so that it can be saved whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State)]
pub struct ReturnStack {
    addresses: [u64; RETURN_STACK_ENTRIES],
    top: u8,
}

/// A hart's own part of a predictor.
#[derive(Clone, Debug, PartialEq, Eq, state::State)]
pub struct BranchContext {
    /// The return-address stack.
    pub returns: ReturnStack,
    history: u32,
    #[state(fixed)]
    history_mask: u32,
}

impl BranchContext {
    pub fn new(spec: &PredictorSpec) -> BranchContext {
        BranchContext {
            returns: ReturnStack::default(),
            history: 0,
            history_mask: (1u32 << spec.history_bits) - 1,
        }
    }

    /// Appends an outcome, predicted or known, to the history.
    #[inline]
    pub fn push_history(&mut self, taken: bool) {
        self.history = (self.history << 1 | u32::from(taken)) & self.history_mask;
    }

    /// Restores the history that `lookup` saw, and appends the correct outcome.
    pub fn correct_history(&mut self, lookup: &Lookup, taken: bool) {
        self.history = lookup.history;
        self.push_history(taken);
    }

    /// Restores the history that `lookup` saw.
    pub fn restore_history(&mut self, lookup: &Lookup) {
        self.history = lookup.history;
    }

    /// A call pushes its return address.
    #[inline]
    pub fn push_return(&mut self, address: u64) {
        self.returns.top = (self.returns.top + 1) % RETURN_STACK_ENTRIES as u8;
        self.returns.addresses[usize::from(self.returns.top)] = address;
    }

    /// A return pops one.
    #[inline]
    pub fn pop_return(&mut self) -> u64 {
        let address = self.returns.addresses[usize::from(self.returns.top)];
        self.returns.top =
            (self.returns.top + RETURN_STACK_ENTRIES as u8 - 1) % RETURN_STACK_ENTRIES as u8;
        address
    }
}

impl Predictor {
    /// Walks the counters.
    pub fn walk_counters(&mut self, walker: &mut dyn Walker) {
        state::octets(self.counters.all_mut(), walker);
    }

    pub fn new(spec: &PredictorSpec) -> Predictor {
        let table = 1usize << spec.table_bits;
        let targets = 1usize << spec.target_bits;
        Predictor {
            counters: Ring::new(table * 3, 1),
            targets: vec![(0, 0); targets].into_boxed_slice(),
            table_mask: table as u32 - 1,
            target_mask: targets as u32 - 1,
            changes: 0,
        }
    }

    /// A number that changes whenever the state does.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Becomes a copy of `other`, which is of the same size.
    pub fn copy_from(&mut self, other: &Predictor) {
        self.counters
            .all_mut()
            .copy_from_slice(other.counters.all());
        self.targets.copy_from_slice(&other.targets);
    }

    /// Predicts the conditional branch at `pc` of the hart with this `context`.
    #[inline]
    pub fn lookup(&self, context: &BranchContext, pc: u64) -> Lookup {
        let history = context.history;
        let table = self.table_mask + 1;
        let address = (pc >> 1) as u32;
        let by_address = address & self.table_mask;
        let by_history = table + ((address ^ history) & self.table_mask);
        let chooser = 2 * table + (history & self.table_mask);
        let trusted = if self.counters[chooser.into()] >= 2 {
            by_history
        } else {
            by_address
        };
        Lookup {
            by_address,
            by_history,
            chooser,
            history,
            taken: self.counters[trusted.into()] >= 2,
        }
    }

    /// Repeats `steps` up to `times` times, as long as all predictions stay the same; returns the
    /// number of repetitions.
    pub fn repeat(&mut self, steps: &[BranchStep], times: u64) -> u64 {
        for time in 0..times {
            let before = self.counters.clone();
            for step in steps {
                let is_same = match step {
                    BranchStep::Predict(lookup) => self.predicts_taken(lookup) == lookup.taken,
                    BranchStep::Train(lookup, taken) => {
                        self.train(lookup, *taken);
                        true
                    }
                    BranchStep::Gap => false,
                };
                if !is_same {
                    self.counters = before;
                    return time;
                }
            }
            if self.counters == before {
                // All further repetitions are the same.
                return times;
            }
        }
        times
    }

    /// The prediction of an earlier lookup with the present counters.
    fn predicts_taken(&self, lookup: &Lookup) -> bool {
        let trusted = if self.counters[lookup.chooser.into()] >= 2 {
            lookup.by_history
        } else {
            lookup.by_address
        };
        self.counters[trusted.into()] >= 2
    }

    /// Trains the counters with the outcome.
    #[inline]
    pub fn train(&mut self, lookup: &Lookup, taken: bool) {
        let by_address = self.counters[lookup.by_address.into()];
        let by_history = self.counters[lookup.by_history.into()];
        let settled = if taken { STRONGEST } else { 0 };
        if by_address == settled && by_history == settled {
            // Both were right, and nothing changes.
            return;
        }
        self.changes += 1;
        let address_right = (by_address >= 2) == taken;
        let history_right = (by_history >= 2) == taken;
        if address_right != history_right {
            step(&mut self.counters[lookup.chooser.into()], history_right);
        }
        step(&mut self.counters[lookup.by_address.into()], taken);
        step(&mut self.counters[lookup.by_history.into()], taken);
    }

    /// The target last taken by the indirect jump at `pc`, if it is known.
    #[inline]
    pub fn target(&self, pc: u64) -> Option<u64> {
        let (tag, target) = self.targets[((pc >> 1) as u32 & self.target_mask) as usize];
        (tag == pc).then_some(target)
    }

    /// Predicts the target of the indirect jump `i` at `pc`: a return pops the stack, and a call
    /// pushes its return address.
    #[inline(always)]
    pub fn indirect(&self, context: &mut BranchContext, i: &Instruction, pc: u64) -> Option<u64> {
        let predicted = if is_link(i.rs1) && i.rs1 != i.rd {
            Some(context.pop_return())
        } else {
            self.target(pc)
        };
        if is_link(i.rd) {
            context.push_return(i.next(pc));
        }
        predicted
    }

    /// Records the target of the indirect jump at `pc`.
    pub fn set_target(&mut self, pc: u64, target: u64) {
        self.changes += 1;
        self.targets[((pc >> 1) as u32 & self.target_mask) as usize] = (pc, target);
    }
}

#[inline]
fn step(counter: &mut u8, up: bool) {
    if up {
        *counter = (*counter + 1).min(STRONGEST);
    } else {
        *counter = counter.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: PredictorSpec = PredictorSpec {
        table_bits: 10,
        history_bits: 10,
        target_bits: 4,
    };

    fn predictor() -> Predictor {
        Predictor::new(&SPEC)
    }

    fn context() -> BranchContext {
        BranchContext::new(&SPEC)
    }

    fn mispredicts(
        (predictor, context): (&mut Predictor, &mut BranchContext),
        pc: u64,
        outcomes: impl Iterator<Item = bool>,
    ) -> u32 {
        outcomes
            .map(|taken| {
                let lookup = predictor.lookup(context, pc);
                context.push_history(taken);
                predictor.train(&lookup, taken);
                u32::from(lookup.taken != taken)
            })
            .sum()
    }

    #[test]
    fn a_bias_is_learnt_after_one_wrong_prediction() {
        // Counters start at 1, weakly not taken: one step makes them predict taken, the history
        // table needs one step for each history until the history is all ones (10 of them).
        assert!(
            mispredicts(
                (&mut predictor(), &mut context()),
                0x80,
                (0..1000).map(|_| true)
            ) <= 2
        );
    }

    #[test]
    fn a_short_pattern_is_learnt_through_history() {
        let (mut predictor, mut context) = (predictor(), context());
        mispredicts(
            (&mut predictor, &mut context),
            0x80,
            (0..400).map(|k| k % 3 == 0),
        );
        assert_eq!(
            mispredicts(
                (&mut predictor, &mut context),
                0x80,
                (400..1000).map(|k| k % 3 == 0)
            ),
            0
        );
    }

    /// A branch that is taken twice in a row, recorded with this prediction.
    fn two_taken(lookup: Lookup, predicted: bool) -> [BranchStep; 4] {
        let lookup = Lookup {
            taken: predicted,
            ..lookup
        };
        let predict = BranchStep::Predict(lookup);
        let train = BranchStep::Train(lookup, true);
        [predict, train, predict, train]
    }

    #[test]
    fn branches_repeat_until_their_counters_settle() {
        let mut predictor = predictor();
        let lookup = predictor.lookup(&context(), 0x80);
        predictor.train(&lookup, true);
        let gap = [BranchStep::Gap];
        assert_eq!(predictor.clone().repeat(&gap, 5), 0);
        // From 2 the counters go to 3 and stay there: every further repetition is the same.
        let mut settled = predictor.clone();
        assert_eq!(settled.repeat(&two_taken(lookup, true), u64::MAX), u64::MAX);
        let mut stepped = predictor.clone();
        assert_eq!(stepped.repeat(&two_taken(lookup, true), 1), 1);
        assert_eq!(stepped, settled);
        assert_eq!(settled.counters[lookup.by_address.into()], 3);
        assert_eq!(predictor.repeat(&two_taken(lookup, true), 0), 0);
    }

    #[test]
    fn branches_repeat_only_as_long_as_predictions_do() {
        // The counters begin at 1, not taken, and the first of the two makes them 2: the second is
        // predicted differently than recorded.
        let mut predictor = predictor();
        let lookup = predictor.lookup(&context(), 0x80);
        let before = predictor.clone();
        assert_eq!(predictor.repeat(&two_taken(lookup, false), 5), 0);
        assert_eq!(predictor, before);
        // A single one is the same once, and then no longer.
        let [predict, train, ..] = two_taken(lookup, false);
        let mut trained = before.clone();
        trained.train(&lookup, true);
        assert_eq!(predictor.repeat(&[predict, train], 5), 1);
        assert_eq!(predictor, trained);
    }

    #[test]
    fn returns_come_back_in_reverse_order() {
        let mut context = context();
        context.push_return(1);
        context.push_return(2);
        assert_eq!(context.pop_return(), 2);
        assert_eq!(context.pop_return(), 1);
    }
}
