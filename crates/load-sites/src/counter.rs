//! The counts, and the probes that make them.

use fabric::{LINE_BYTES, Source};
use pipeline::{Executed, Found, Probe};
use riscv::Class;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// What is counted of a load instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// How often it has been executed.
    pub accesses: u64,
    /// The lines that it has accessed, by virtual address.
    pub lines: HashSet<u64>,
    /// How often it has brought a line to the first-level cache.
    pub misses: u64,
    /// How often it has brought one that was in no private cache of its core.
    pub second_level_misses: u64,
    /// How often it has waited for a line that an older load was bringing.
    pub awaited: u64,
    /// The last instruction executed here: programs that change their code may have several.
    pub text: String,
}

/// Counts the loads of all harts.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Where the counted instructions are; none: everywhere.
    counted: Option<Vec<Range<u64>>>,
    sites: BTreeMap<u64, SiteCounts>,
}

/// A counter, shared by the probes of all harts.
pub type SharedCounter = Rc<RefCell<Counter>>;

impl Counter {
    /// Counts only the loads in these ranges of addresses.
    pub fn limit(&mut self, to: Vec<Range<u64>>) {
        self.counted = Some(to);
    }

    /// The counts so far, by the instruction's address.
    pub fn sites(&self) -> &BTreeMap<u64, SiteCounts> {
        &self.sites
    }

    /// Counts an instruction, if it is a load that has had an effect.
    pub fn count(&mut self, executed: &Executed) {
        let is_load = executed.instruction.class == Class::Load && !executed.undone;
        let Some(address) = executed.address.filter(|_| is_load) else {
            return;
        };
        let is_elsewhere = |ranges: &Vec<Range<u64>>| {
            let here = |range: &Range<u64>| range.contains(&executed.pc);
            !ranges.iter().any(here)
        };
        if self.counted.as_ref().is_some_and(is_elsewhere) {
            return;
        }
        let site = self.sites.entry(executed.pc).or_default();
        if site.accesses == 0 {
            site.text = executed.text();
        }
        site.accesses += 1;
        let bytes = u64::from(executed.instruction.access_bytes());
        let last = address.wrapping_add(bytes - 1);
        // A load that is not aligned may access two lines.
        site.lines
            .extend([address, last].map(|byte| byte / LINE_BYTES as u64));
        match executed.found {
            Some(Found::Line(source)) => {
                site.misses += 1;
                site.second_level_misses += u64::from(source != Source::SecondLevel);
            }
            Some(Found::Awaited(_)) => site.awaited += 1,
            _ => {}
        }
    }
}

/// The probe of a hart.
pub struct HartProbe(SharedCounter);

impl HartProbe {
    /// One that counts in `counter`.
    pub fn new(counter: &SharedCounter) -> HartProbe {
        HartProbe(Rc::clone(counter))
    }
}

impl Probe for HartProbe {
    fn executed(&mut self, executed: &Executed) {
        self.0.borrow_mut().count(executed);
    }
}
