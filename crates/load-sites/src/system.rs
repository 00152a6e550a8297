//! The instrument as a part of a server.

use crate::LoadSitesSpec;
use crate::counter::{HartProbe, SharedCounter};
use fabric::{Fabric, Time};
use pipeline::Probe;
use queues::Ledger;
use riscv::elf::Image;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use spec::{SpecError, Under};
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::rc::Rc;
use system::{Attached, Hardware, Host, Kind, Refusal, Site, System};

/// What the instrument is to a server.
pub const KIND: Kind = Kind {
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    observes_cores: true,
    ..Kind::new("load_sites")
};

/// Accesses and lines of load instructions, of all harts, from the first instruction on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LoadSiteStatistics")]
pub struct Statistics {
    /// Counted load instructions, whether listed or not.
    pub instructions: u64,
    /// Accesses of all counted load instructions.
    pub accesses: u64,
    /// The instructions with the most accesses, by ascending address.
    pub sites: Vec<LoadSite>,
}

/// A load instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoadSite {
    /// The instruction's address.
    pub pc: u64,
    /// The function that has it; empty if no symbol names one.
    pub function: String,
    /// The instruction's offset in the function in bytes.
    pub offset: u64,
    /// The instruction in assembly language.
    pub text: String,
    /// Committed executions.
    pub accesses: u64,
    /// Distinct lines of 64 bytes that were accessed, by virtual address.
    pub lines: u64,
    /// Accesses that brought a line to the first-level cache.
    pub misses: u64,
    /// The number of these lines that were not in the second-level cache either.
    pub second_level_misses: u64,
    /// Accesses that waited for a line which an older load was bringing.
    pub awaited: u64,
}

impl System for LoadSitesSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        spec::check(self).under("server.load_sites")
    }

    fn attach(&self, _fabric: &mut Fabric, _site: Site<'_>) -> Result<Attached, Refusal> {
        let counter = SharedCounter::default();
        let counted = Rc::clone(&counter);
        Ok(Attached {
            probes: Some(Box::new(move |_, _| -> Box<dyn Probe> {
                Box::new(HartProbe::new(&counted))
            })),
            ..Attached::new(Part {
                counter,
                spec: self.clone(),
                program: OnceCell::new(),
            })
        })
    }
}

/// The instrument in a server.
struct Part {
    counter: SharedCounter,
    spec: LoadSitesSpec,
    program: OnceCell<Image>,
}

impl Hardware for Part {
    fn connect_program(&self, program: &Image) -> Result<(), Refusal> {
        if !self.spec.functions.is_empty() {
            let mut ranges = Vec::new();
            for name in &self.spec.functions {
                let symbols = program.symbols.iter();
                let of_name =
                    symbols.filter(|symbol| symbol.code && symbol.size > 0 && symbol.name == *name);
                let before = ranges.len();
                ranges.extend(of_name.map(|one| one.address..one.address + one.size));
                if ranges.len() == before {
                    return Err(Refusal(format!(
                        "server.load_sites.functions: the program has no function {name:?}; \
                         functions that the compiler puts into their callers have no symbol"
                    )));
                }
            }
            self.counter.borrow_mut().limit(ranges);
        }
        let _ = self.program.set(program.clone());
        Ok(())
    }

    fn statistics(&self, _fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let counter = self.counter.borrow();
        let mut listed: Vec<_> = counter.sites().iter().collect();
        listed.sort_by_key(|(pc, site)| (Reverse(site.accesses), **pc));
        listed.truncate(self.spec.sites);
        listed.sort_by_key(|(pc, _)| **pc);
        let sites = listed.into_iter().map(|(&pc, site)| {
            let function = self.program.get().and_then(|one| one.function_at(pc));
            let (function, offset) = function.unwrap_or_default();
            LoadSite {
                pc,
                function: function.to_string(),
                offset,
                text: site.text.clone(),
                accesses: site.accesses,
                lines: site.lines.len() as u64,
                misses: site.misses,
                second_level_misses: site.second_level_misses,
                awaited: site.awaited,
            }
        });
        serde_json::json!(Statistics {
            instructions: counter.sites().len() as u64,
            accesses: counter.sites().values().map(|site| site.accesses).sum(),
            sites: sites.collect(),
        })
    }
}
