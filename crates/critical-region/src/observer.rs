//! The identification hardware of a core, as a probe of its harts, and what is counted of it.

use crate::convention::operands;
use crate::identification::{Epoch, Identification, Sizes, misses_second_level};
use crate::region::{Kind, Region};
use crate::register_map::Producer;
use crate::register_state::RegisterState;
use pipeline::{Executed, Probe};
use riscv::Register;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A region that epochs have ended with, once or more often: the same instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctRegion {
    /// The region, with the registers of the last time.
    pub region: Region,
    /// How many epochs have ended with it.
    pub epochs: u64,
    /// How often harts have executed its first instruction while it was the last region.
    pub executions: u64,
}

/// What is counted of a core.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Epochs that have ended.
    pub epochs: u64,
    /// Loads that missed the second-level cache.
    pub misses: u64,
    /// Those since the first region.
    pub misses_with_region: u64,
    /// Those that the last region would have fetched.
    pub covered: u64,
    /// Those that it would have fetched if all registers were known.
    pub ready: u64,
    /// Ready instructions at the ends of epochs, with or without ready registers.
    pub ready_instructions: u64,
    /// Predicted values of the last region's registers that were right where harts read them as
    /// roots, or made them as results.
    pub right_values: u64,
    /// Those that were wrong.
    pub wrong_values: u64,
    /// Entries of the context instruction cache that have made room for others.
    pub evictions: u64,
    /// By their instructions.
    pub regions: BTreeMap<Vec<u64>, DistinctRegion>,
}

/// The identification hardware of a core.
pub struct Observer {
    identification: Identification,
    /// That of the last epoch that had one, with its place in `counts.regions`.
    region: Option<(Vec<u64>, Region)>,
    /// The ready instructions of the last epoch that had some.
    ready: Vec<u64>,
    counts: Counts,
}

/// A core's observer, shared by the probes of its harts.
pub type SharedObserver = Rc<RefCell<Observer>>;

impl Observer {
    /// That of a core with so many harts.
    pub fn shared(sizes: Sizes, threads: usize) -> SharedObserver {
        Rc::new(RefCell::new(Observer {
            identification: Identification::new(sizes, threads),
            region: None,
            ready: Vec::new(),
            counts: Counts::default(),
        }))
    }

    /// What it has counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn committed(&mut self, thread: usize, executed: &Executed) {
        self.compare(thread, executed);
        let Some(Epoch { region, ready }) = self.identification.committed(thread, executed) else {
            return;
        };
        self.counts.epochs += 1;
        self.counts.ready_instructions += ready.len() as u64;
        if !ready.is_empty() {
            self.ready = ready;
        }
        self.counts.evictions = self.identification.cache().evictions();
        if region.instructions.is_empty() {
            return;
        }
        let pcs: Vec<u64> = region.instructions.iter().map(|one| one.pc).collect();
        let known = self.counts.regions.entry(pcs.clone());
        let distinct = known.or_insert_with(|| DistinctRegion {
            region: Region::default(),
            epochs: 0,
            executions: 0,
        });
        distinct.region = region.clone();
        distinct.epochs += 1;
        self.region = Some((pcs, region));
    }

    /// Compares what the last region would do with what the hart does.
    fn compare(&mut self, thread: usize, executed: &Executed) {
        let missed = misses_second_level(executed);
        self.counts.misses += u64::from(missed);
        let Some((pcs, region)) = &self.region else {
            return;
        };
        self.counts.misses_with_region += u64::from(missed);
        let is_ready = missed && self.ready.binary_search(&executed.pc).is_ok();
        self.counts.ready += u64::from(is_ready);
        let Ok(place) = pcs.binary_search(&executed.pc) else {
            return;
        };
        let instruction = &region.instructions[place];
        self.counts.covered += u64::from(missed && !instruction.given);
        if place == 0
            && let Some(distinct) = self.counts.regions.get_mut(pcs)
        {
            distinct.executions += 1;
        }
        // A root's value is seen where an instruction reads it as one, a result's where it is made.
        let map = self.identification.register_map(thread);
        let reads = operands(&executed.instruction).into_iter().flatten();
        let reads: Vec<Register> = reads
            .flatten()
            .filter(|&register| map.producer(register) == Producer::Dead)
            .collect();
        for live_in in &region.registers {
            let register = live_in.register;
            let actual = match live_in.root {
                Some(_) if !instruction.given && reads.contains(&register) => {
                    self.identification.value(thread, register)
                }
                None if instruction.given && instruction.instruction.rd == register => {
                    executed.value
                }
                _ => None,
            };
            if let (RegisterState::Ready(predicted), Some(actual)) = (live_in.state, actual) {
                let is_right = predicted == actual;
                self.counts.right_values += u64::from(is_right);
                self.counts.wrong_values += u64::from(!is_right);
            }
        }
    }
}

/// The probe of a hart.
pub struct HartProbe {
    observer: SharedObserver,
    thread: usize,
}

impl HartProbe {
    /// That of a hart of the core.
    pub fn new(observer: &SharedObserver, thread: usize) -> HartProbe {
        HartProbe {
            observer: Rc::clone(observer),
            thread,
        }
    }
}

impl Probe for HartProbe {
    fn executed(&mut self, executed: &Executed) {
        if !executed.undone {
            let mut observer = self.observer.borrow_mut();
            observer.committed(self.thread, executed);
        }
    }
}

impl Region {
    /// How many of its instructions are of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        let instructions = self.instructions.iter();
        instructions.filter(|one| one.kind == kind).count()
    }
}
