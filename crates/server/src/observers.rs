//! Systems that observe the harts, and traces beside them.

use fabric::CoreId;
use pipeline::{CoreModel, Executed, Probe};
use std::cell::RefCell;
use std::rc::Rc;
use system::Probes;

/// Several probes of one hart.
pub(crate) struct Several(pub Vec<Box<dyn Probe>>);

impl Probe for Several {
    fn executed(&mut self, executed: &Executed) {
        for probe in &mut self.0 {
            probe.executed(executed);
        }
    }
}

/// A place for a temporary probe, while the probes beside it observe every instruction.
#[derive(Clone, Default)]
struct Place(Rc<RefCell<Option<Box<dyn Probe>>>>);

impl Probe for Place {
    fn executed(&mut self, executed: &Executed) {
        if let Some(probe) = &mut *self.0.borrow_mut() {
            probe.executed(executed);
        }
    }
}

/// The systems that observe the cores of a server, whose probes stay from the first instruction to
/// the last.
#[derive(Default)]
pub(crate) struct Observers {
    /// Their keys.
    keys: Vec<&'static str>,
    /// One for each hart; empty if no system observes.
    places: Vec<Place>,
}

impl Observers {
    /// Attaches the probes of `systems` to all harts.
    pub fn attach(
        cores: &mut [Box<dyn CoreModel>],
        threads: u8,
        systems: Vec<(&'static str, Probes)>,
    ) -> Observers {
        let mut observers = Observers::default();
        if systems.is_empty() {
            return observers;
        }
        for thread in 0..threads {
            for (number, core) in cores.iter_mut().enumerate() {
                let place = Place::default();
                let mut probes: Vec<Box<dyn Probe>> = vec![Box::new(place.clone())];
                let id = CoreId(number as u16);
                probes.extend(systems.iter().map(|(_, make)| make(id, thread)));
                core.set_probe(thread, Box::new(Several(probes)));
                observers.places.push(place);
            }
        }
        observers.keys = systems.iter().map(|(key, _)| *key).collect();
        observers
    }

    /// Another system observes the cores, without a probe.
    pub fn note(&mut self, key: &'static str) {
        self.keys.push(key);
    }

    /// Adds `probe` to those of a hart. Without observing systems there is no place for it.
    pub fn add(&self, hart: usize, probe: Box<dyn Probe>) -> Result<(), Box<dyn Probe>> {
        match self.places.get(hart) {
            Some(place) => {
                *place.0.borrow_mut() = Some(probe);
                Ok(())
            }
            None => Err(probe),
        }
    }

    /// Removes the added probes; returns whether there are places for them.
    pub fn remove_others(&self) -> bool {
        for place in &self.places {
            place.0.take();
        }
        !self.places.is_empty()
    }

    /// Ends the run in cycle `end`: earlier commits are reported.
    pub fn end(&self, cores: &mut [Box<dyn CoreModel>], end: u64) {
        if !self.places.is_empty() {
            for core in cores {
                core.remove_probes(end);
            }
        }
    }
}

/// The observations of systems are not part of a checkpoint.
impl state::State for Observers {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        if let [key, ..] = &self.keys[..] {
            walker.refuse(format!(
                "server.{key} sees what the harts execute, and what it has seen cannot be saved; \
                 checkpoints are for servers without it"
            ));
        }
    }
}
