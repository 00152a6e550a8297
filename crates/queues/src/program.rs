//! Settings from the description for the program, and counters from the program for the result:
//! named parameters, weights and named counters, all through registers of the I/O device.

use crate::io_source::register;
use fabric::{AddressRange, Agent, AgentContext, RegisterAccess, Request};
use std::collections::{BTreeMap, BTreeSet};
use workload::OperationsSpec;

/// Maximum bytes of a name.
pub const MAX_NAME_BYTES: usize = 64;
/// The prefix of parameters whose values come from the description's `traffic`.
pub const TRAFFIC_PARAMETERS: &str = "traffic.";

/// The part of a description that only the program interprets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSettings {
    /// The weights of the queues, assigned cyclically; if empty, each has weight 1.
    pub weights: Vec<u32>,
    /// Numbers by name, which the program interprets.
    pub parameters: BTreeMap<String, f64>,
    /// The store that the traffic uses. The program reads it as parameters that begin with
    /// [`TRAFFIC_PARAMETERS`].
    pub operations: OperationsSpec,
    /// The results of its `prepare()`, executed without timing.
    pub prepared: ProgramPreparation,
}

/// The parameters read and the counters made by a program in `prepare()`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramPreparation {
    /// The names of parameters that it has read.
    pub asked: Vec<String>,
    /// Its counters.
    pub counters: Vec<(String, u64)>,
}

/// The registers that give access to the settings.
///
/// To read a setting, the program writes its name to one register, eight bytes at a time, up to a
/// zero byte, and reads another register. The device thereby learns the names that the program
/// knows: a parameter not asked for before the queues start is unknown to the program.
#[derive(Clone, Debug, Default, state::State)]
pub struct ProgramRegisters {
    #[state(fixed)]
    settings: ProgramSettings,
    /// The part of a name written so far.
    name: Vec<u8>,
    /// The parameters that have been read.
    asked: Vec<String>,
}

impl ProgramRegisters {
    /// The registers of a program with these settings.
    pub fn new(settings: ProgramSettings) -> ProgramRegisters {
        ProgramRegisters {
            asked: settings.prepared.asked.clone(),
            settings,
            ..ProgramRegisters::default()
        }
    }

    /// The store that the traffic uses.
    pub fn operations(&self) -> &OperationsSpec {
        &self.settings.operations
    }

    /// The weight of a queue.
    pub fn weight(&self, queue: u64) -> u64 {
        let weights = &self.settings.weights;
        let place = queue.checked_rem(weights.len() as u64);
        place.map_or(1, |place| u64::from(weights[place as usize]))
    }

    /// Adds eight more bytes to a name; returns whether it is not too long.
    pub fn add_to_name(&mut self, bytes: u64) -> bool {
        if self.name.len() > MAX_NAME_BYTES {
            return false;
        }
        self.name.extend(bytes.to_le_bytes());
        true
    }

    /// The written name, if valid; starts the next one.
    fn take_name(&mut self) -> Option<String> {
        let mut name = std::mem::take(&mut self.name);
        let end = name.iter().position(|&byte| byte == 0)?;
        name.truncate(end);
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// The bits of the named parameter's value; a NaN if the description does not have it.
    pub fn parameter(&mut self) -> Option<u64> {
        let name = self.take_name()?;
        let value = match self.settings.operations.parameter(&name) {
            None => self.settings.parameters.get(&name).copied(),
            some => some,
        };
        self.asked.push(name);
        Some(value.unwrap_or(f64::NAN).to_bits())
    }

    /// The index of a new counter with the written name.
    pub fn add_counter(&mut self, counters: &mut Vec<(String, u64)>) -> Option<u64> {
        let name = self.take_name()?;
        let is_new = counters.iter().all(|(known, _)| *known != name);
        if !is_new || counters.len() as u64 == register::MAX_COUNTERS {
            return None;
        }
        counters.push((name, 0));
        Some(counters.len() as u64 - 1)
    }

    /// An error message, if the description has a parameter that the program has not read.
    pub fn unknown_parameter(&self, table: &str) -> Option<String> {
        let mut given = self.settings.parameters.keys();
        let unknown = given.find(|name| !self.asked.contains(*name))?;
        let asked = self.asked.iter().map(String::as_str);
        let known: BTreeSet<&str> = asked
            .filter(|name| !name.starts_with(TRAFFIC_PARAMETERS))
            .collect();
        Some(if known.is_empty() {
            format!("{table}.{unknown} is not known: the program has no parameters")
        } else {
            format!(
                "{table}.{unknown} is not known to the program, which has {}",
                known.into_iter().collect::<Vec<_>>().join(", ")
            )
        })
    }
}

/// The part of the I/O device that a program can use in `prepare()`, when no time passes:
/// parameters and counters. Counters made there persist, if the program has no other I/O device.
#[derive(state::State)]
pub struct ProgramDevice {
    #[state(fixed)]
    registers: AddressRange,
    program: ProgramRegisters,
    counters: Vec<(String, u64)>,
}

impl ProgramDevice {
    /// A device with its registers at the I/O device's addresses.
    pub fn new(registers: AddressRange, settings: ProgramSettings) -> ProgramDevice {
        ProgramDevice {
            registers,
            counters: settings.prepared.counters.clone(),
            program: ProgramRegisters::new(settings),
        }
    }

    /// The program's counters, by name.
    pub fn counters(&self) -> &[(String, u64)] {
        &self.counters
    }

    /// The parameters read and the counters made by the program.
    pub fn preparation(&mut self) -> ProgramPreparation {
        ProgramPreparation {
            asked: std::mem::take(&mut self.program.asked),
            counters: std::mem::take(&mut self.counters),
        }
    }
}

impl Agent for ProgramDevice {
    fn name(&self) -> String {
        "the program's parameters".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.registers.start);
        let answer = register.and_then(|(offset, access)| match (offset, access) {
            (register::PARAMETER, RegisterAccess::Read) => self.program.parameter(),
            (register::COUNTER, RegisterAccess::Read) => {
                self.program.add_counter(&mut self.counters)
            }
            (register::NAME, RegisterAccess::Write(name)) => {
                self.program.add_to_name(name).then_some(0)
            }
            (_, RegisterAccess::Write(value)) => {
                write_counter(&mut self.counters, offset, value).then_some(0)
            }
            _ => None,
        });
        context.answer(request.reply_to, answer);
    }
}

/// Writes the counter whose register is at an offset, if there is one.
pub fn write_counter(counters: &mut [(String, u64)], offset: u64, value: u64) -> bool {
    match register::counter(offset).and_then(|index| counters.get_mut(index)) {
        Some((_, counter)) => {
            *counter = value;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(parameters: &[(&str, f64)], weights: &[u32]) -> ProgramRegisters {
        let named = parameters
            .iter()
            .map(|&(name, value)| (name.to_string(), value));
        ProgramRegisters::new(ProgramSettings {
            weights: weights.to_vec(),
            parameters: named.collect(),
            ..ProgramSettings::default()
        })
    }

    fn write(registers: &mut ProgramRegisters, name: &str) -> bool {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(name.len() / 8 * 8 + 8, 0);
        bytes
            .chunks(8)
            .all(|chunk| registers.add_to_name(u64::from_le_bytes(chunk.try_into().unwrap())))
    }

    #[test]
    fn parameters_are_found_by_name() {
        let mut registers = registers(&[("rate_mrps", 0.1), ("12345678", -3.0)], &[]);
        for (name, value) in [("rate_mrps", 0.1_f64), ("12345678", -3.0)] {
            assert!(write(&mut registers, name));
            assert_eq!(registers.parameter(), Some(value.to_bits()));
        }
        assert!(write(&mut registers, "rate"));
        assert!(
            registers
                .parameter()
                .is_some_and(|bits| f64::from_bits(bits).is_nan())
        );
        assert_eq!(registers.parameter(), None); // No name has been written.
        assert_eq!(registers.unknown_parameter("data_plane.parameters"), None);
        assert!(write(&mut registers, &"x".repeat(MAX_NAME_BYTES)));
        assert!(registers.parameter().is_some());
        assert!(!write(&mut registers, &"x".repeat(MAX_NAME_BYTES + 8)));
    }

    #[test]
    fn a_parameter_that_nobody_asks_for_is_wrong() {
        let mut registers = registers(&[("rate_mprs", 0.1)], &[]);
        let sentence = registers
            .unknown_parameter("data_plane.parameters")
            .unwrap();
        assert!(
            sentence.ends_with("the program has no parameters"),
            "{sentence}"
        );
        for name in ["rate_mrps", "burst_items"] {
            assert!(write(&mut registers, name));
            registers.parameter();
        }
        assert_eq!(
            registers
                .unknown_parameter("data_plane.parameters")
                .unwrap(),
            "data_plane.parameters.rate_mprs is not known to the program, which has burst_items, \
             rate_mrps"
        );
    }

    #[test]
    fn weights_repeat() {
        let weights =
            |list: &[u32]| [0, 1, 2, 3, 4].map(|queue| registers(&[], list).weight(queue));
        assert_eq!(weights(&[4, 2, 1]), [4, 2, 1, 4, 2]);
        assert_eq!(weights(&[]), [1; 5]);
    }

    #[test]
    fn counters_have_names_of_their_own() {
        let mut registers = registers(&[], &[]);
        let mut counters = Vec::new();
        for (name, index) in [("slices", Some(0)), ("polls", Some(1)), ("slices", None)] {
            assert!(write(&mut registers, name));
            assert_eq!(registers.add_counter(&mut counters), index);
        }
        assert_eq!(counters.len(), 2);
    }
}
