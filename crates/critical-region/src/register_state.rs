//! What is known of the registers with which a region begins: Table III of Figure 10.

use crate::convention::REGISTERS;
use crate::prediction::ValuePredictor;
use riscv::Register;

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

/// What is known of each register.
#[derive(Clone, Debug, Default)]
pub struct RegisterStates {
    states: [RegisterState; REGISTERS],
}

impl RegisterStates {
    /// What is known of `register`.
    pub fn get(&self, register: Register) -> RegisterState {
        self.states[usize::from(register)]
    }

    /// Its IN value is what routines returned under number `argument`.
    pub(crate) fn matches_argument(&mut self, register: Register, argument: usize) {
        self.states[usize::from(register)] = RegisterState::ReadyDyn(argument);
    }

    /// Takes what the predictor says of `register`, if that is not computed.
    pub(crate) fn update(&mut self, register: Register, predictor: &ValuePredictor) {
        let state = &mut self.states[usize::from(register)];
        if !matches!(state, RegisterState::ReadyDyn(_)) {
            let predicted = predictor.predict(register);
            *state = predicted.map_or(RegisterState::Unknown, RegisterState::Ready);
        }
    }
}
