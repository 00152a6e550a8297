//! The states of the registers with which a region begins: Table III of Figure 10.

use crate::convention::REGISTERS;
use crate::prediction::{Begins, ValuePredictor};

/// The state of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterState {
    /// Its value is unknown.
    #[default]
    Unknown,
    /// `READY`: it has this value.
    Ready(u64),
    /// `READY-DYN`: the user routine with this number computes its value for each packet.
    ReadyDyn(usize),
}

/// The state of each register: as a root that is read, and as the result of a root.
#[derive(Clone, Debug, Default)]
pub struct RegisterStates {
    operands: [RegisterState; REGISTERS],
    results: [RegisterState; REGISTERS],
}

impl RegisterStates {
    /// The state of a register.
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

    /// Its IN value equals result number `argument` of the routines.
    pub(crate) fn matches_argument(&mut self, of: Begins, argument: usize) {
        *self.get_mut(of) = RegisterState::ReadyDyn(argument);
    }

    /// Updates a register's state from the predictor, unless its value is computed.
    pub(crate) fn update(&mut self, of: Begins, predictor: &ValuePredictor) {
        let state = self.get_mut(of);
        if !matches!(state, RegisterState::ReadyDyn(_)) {
            let predicted = predictor.predict(of);
            *state = predicted.map_or(RegisterState::Unknown, RegisterState::Ready);
        }
    }
}
