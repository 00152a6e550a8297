//! What is known of the registers with which a region begins: Table III of Figure 10.

use crate::convention::REGISTERS;
use crate::prediction::{Begins, ValuePredictor};

/// What is known of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterState {
    /// Nothing.
    #[default]
    Unknown,
    /// `READY`: it has this value.
    Ready(u64),
    /// `READY-DYN`: a user routine computes it for each packet; this is the number of its result.
    ReadyDyn(usize),
}

/// What is known of each register: where it is read as a root, and as the result of a root.
#[derive(Clone, Debug, Default)]
pub struct RegisterStates {
    operands: [RegisterState; REGISTERS],
    results: [RegisterState; REGISTERS],
}

impl RegisterStates {
    /// What is known of a register.
    pub fn get(&self, of: Begins) -> RegisterState {
        match of {
            Begins::Operand(register) => self.operands[usize::from(register)],
            Begins::Result(register) => self.results[usize::from(register)],
        }
    }

    fn get_mut(&mut self, of: Begins) -> &mut RegisterState {
        match of {
            Begins::Operand(register) => &mut self.operands[usize::from(register)],
            Begins::Result(register) => &mut self.results[usize::from(register)],
        }
    }

    /// Its IN value is what routines returned under number `argument`.
    pub(crate) fn matches_argument(&mut self, of: Begins, argument: usize) {
        *self.get_mut(of) = RegisterState::ReadyDyn(argument);
    }

    /// Takes what the predictor says of a register, if that is not computed.
    pub(crate) fn update(&mut self, of: Begins, predictor: &ValuePredictor) {
        let state = self.get_mut(of);
        if !matches!(state, RegisterState::ReadyDyn(_)) {
            let predicted = predictor.predict(of);
            *state = predicted.map_or(RegisterState::Unknown, RegisterState::Ready);
        }
    }
}
