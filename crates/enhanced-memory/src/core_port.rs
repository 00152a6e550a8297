//! At a core: it builds chains, and follows what becomes of them.

use crate::chain::build;
use crate::counts::SharedCommon;
use crate::spec::EnhancedMemorySpec;
use fabric::{AgentId, Source};
use pipeline::{Fate, FullWindow, Handover, Supplier};

/// A request that is a chain, and one that withdraws it.
pub(crate) const CHAIN: u32 = 1;
pub(crate) const WITHDRAW: u32 = 2;

/// "3-bit counter": dependent misses are likely if one of the two upper bits is set.
const MAXIMUM: u8 = 7;
const LIKELY: u8 = 2;

/// An instruction of the paper takes six bytes. The header, chosen: the source's address.
const INSTRUCTION_BYTES: usize = 6;
const VALUE_BYTES: usize = 8;
const HEADER_BYTES: usize = 8;

/// The last load that filled a hart's window, the loads that depend on it, and whether it, and one
/// of them, have missed the last-level cache.
#[derive(Clone, Debug)]
struct Watched {
    oldest: u64,
    has_missed: bool,
    loads: Vec<u64>,
    others_have_missed: bool,
}

/// The hardware at a core.
#[derive(Debug)]
pub struct CorePort {
    common: SharedCommon,
    core: u16,
    /// The controllers, by the lines that they have: line `n` is the `n` modulo their number's.
    controllers: Vec<AgentId>,
    chain_instructions: usize,
    only_likely: bool,
    likely: u8,
    /// By hardware thread.
    watched: Vec<Option<Watched>>,
}

impl CorePort {
    /// At core number `core` with so many hardware threads.
    pub fn new(
        spec: &EnhancedMemorySpec,
        common: &SharedCommon,
        core: u16,
        threads: usize,
        controllers: Vec<AgentId>,
    ) -> CorePort {
        CorePort {
            common: common.clone(),
            core,
            controllers,
            chain_instructions: spec.chain_instructions,
            only_likely: spec.only_likely,
            likely: LIKELY,
            watched: vec![None; threads],
        }
    }

    fn missed(&mut self, thread: u8, position: u64, source: Source) {
        if let Some(Some(watched)) = self.watched.get_mut(usize::from(thread)) {
            let misses = source == Source::Memory;
            watched.has_missed |= misses && watched.oldest == position;
            watched.others_have_missed |= misses && watched.loads.contains(&position);
        }
    }
}

impl Supplier for CorePort {
    fn window_is_full(&mut self, window: &FullWindow<'_>) -> Option<Handover> {
        let mut common = self.common.borrow_mut();
        common.counts.full_windows += 1;
        let chain = build(window, self.chain_instructions);
        if let Some(watched) = self.watched.get_mut(usize::from(window.thread())) {
            let loads = chain.as_ref().map(|chain| chain.loads.clone());
            let next = Watched {
                oldest: window.oldest(),
                has_missed: false,
                loads: loads.unwrap_or_default(),
                others_have_missed: false,
            };
            if let Some(last) = watched.replace(next)
                && last.has_missed
            {
                self.likely = match last.others_have_missed {
                    true => MAXIMUM.min(self.likely + 1),
                    false => self.likely.saturating_sub(1),
                };
            }
        }
        let Some(chain) = chain else {
            common.counts.without_loads += 1;
            return None;
        };
        if self.only_likely && self.likely < LIKELY {
            common.counts.unlikely += 1;
            return None;
        }
        let bytes =
            HEADER_BYTES + INSTRUCTION_BYTES * chain.steps.len() + VALUE_BYTES * chain.values;
        let counts = &mut common.counts;
        counts.chains += 1;
        counts.instructions += chain.steps.len() as u64;
        counts.loads_sent += chain.loads.len() as u64;
        counts.values_sent += chain.values as u64;
        counts.bytes += bytes as u64;
        let controller = chain.line.0 % self.controllers.len().max(1) as u64;
        let handover = Handover {
            agent: *self.controllers.get(controller as usize)?,
            code: CHAIN,
            withdraw: WITHDRAW,
            arguments: [chain.address, 0],
            bytes: bytes as u64,
            // An instruction is renamed in a cycle.
            cycles: chain.steps.len() as u64,
            loads: chain.loads.clone(),
        };
        let key = (self.core, window.token());
        common.chains.insert(key, chain);
        Some(handover)
    }

    fn line_arrived(&mut self, thread: u8, position: u64, source: Source) {
        self.missed(thread, position, source);
    }

    fn ended(&mut self, thread: u8, position: u64, fate: Fate) {
        if let Fate::Taken(source) = fate {
            self.missed(thread, position, source);
        }
        let counts = &mut self.common.borrow_mut().counts;
        *match fate {
            Fate::Taken(_) => &mut counts.taken,
            Fate::OtherAddress => &mut counts.other_address,
            Fate::FoundByCore => &mut counts.found_by_core,
            Fate::Undone => &mut counts.loads_undone,
            Fate::LineLost => &mut counts.line_lost,
            Fate::NotSupplied => &mut counts.not_supplied,
            Fate::TooLate => &mut counts.loads_too_late,
        } += 1;
    }
}
