//! Prefetching: which lines a cache asks for before they are needed. Each prefetcher is a file.
//!
//! A prefetcher is told of each demand access, and answers with lines to fetch. What it fetches is
//! asked for like any other line, to be read, so that it can change when something happens, never
//! which values are read nor in which order.
//!
//! The host's own prefetching is in the module `prefetch`.

mod next_line;

use crate::{LINE_BYTES, LineAddress, MemoryMap, Region};
use next_line::NextLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{Purpose, State, Walker};

/// Lines of a page. No prefetcher crosses its end: behind it is other memory, as a rule.
const PAGE_LINES: u64 = 4096 / LINE_BYTES as u64;

/// Which lines are fetched before they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// None.
    #[default]
    None,
    /// The next one, after each miss and after the first use of a line that was prefetched (tagged
    /// prefetching: Smith, "Cache Memories", ACM Computing Surveys 14(3), 1982).
    NextLine,
}

/// A demand access to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DemandAccess {
    pub(crate) line: LineAddress,
    /// The cache has the line, with the permission that is needed.
    pub(crate) is_hit: bool,
    /// It is the first one to a line that was prefetched.
    pub(crate) is_first_use: bool,
}

trait Prefetcher {
    /// A demand access has been looked up. Lines that would be of use are appended to `wanted`.
    fn accessed(&mut self, access: DemandAccess, wanted: &mut Vec<LineAddress>);
}

#[derive(Clone, Debug)]
enum Model {
    NextLine(NextLine),
}

/// What a prefetcher has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrefetchStatistics {
    /// Lines that the prefetcher has asked for.
    pub issued: u64,
    /// Prefetched lines that had come when they were needed.
    pub useful: u64,
    /// Prefetched lines that were still on their way when they were needed.
    pub late: u64,
    /// Prefetched lines that were never needed before another line took their place.
    pub unused: u64,
}

impl PrefetchStatistics {
    /// Whether nothing was prefetched.
    pub fn is_nothing(&self) -> bool {
        *self == PrefetchStatistics::default()
    }
}

state::plain!(PrefetchStatistics {
    issued: count,
    useful: count,
    late: count,
    unused: count,
});

/// A prefetcher beside a cache, with what is known of the lines that it has fetched.
#[derive(Clone, Debug)]
pub(crate) struct Prefetching {
    model: Model,
    memory: MemoryMap,
    /// For each place of the cache the line that was prefetched into it and has not been needed yet.
    waiting: Vec<Option<LineAddress>>,
    /// Lines that are on their way and have not been needed yet.
    under_way: Vec<LineAddress>,
    /// A buffer, empty between accesses.
    wanted: Vec<LineAddress>,
    /// Accesses so far.
    accesses: u64,
    statistics: PrefetchStatistics,
}

impl State for Prefetching {
    fn walk(&mut self, walker: &mut dyn Walker) {
        if walker.purpose() == Purpose::Compare {
            // Two moments are never alike between which it was told of anything.
            walker.number(&mut self.accesses.clone());
        }
        state::fields!(
            self,
            walker,
            Prefetching {
                model: fixed,
                memory: fixed,
                waiting: exact slice,
                under_way: exact,
                wanted: fixed,
                accesses: count,
                statistics,
            }
        );
    }
}

impl Prefetching {
    /// A prefetcher for a cache of so many `places`, if there is one of that kind. It fetches only
    /// what `memory` has.
    pub(crate) fn new(
        kind: PrefetcherKind,
        places: usize,
        memory: &MemoryMap,
    ) -> Option<Prefetching> {
        let model = match kind {
            PrefetcherKind::None => return None,
            PrefetcherKind::NextLine => Model::NextLine(NextLine),
        };
        Some(Prefetching {
            model,
            memory: memory.clone(),
            waiting: vec![None; places],
            under_way: Vec::new(),
            wanted: Vec::new(),
            accesses: 0,
            statistics: PrefetchStatistics::default(),
        })
    }

    pub(crate) fn statistics(&self) -> PrefetchStatistics {
        self.statistics
    }

    /// A demand access to `line` has been looked up; `place` is where it is, if the cache has it.
    /// Asks for each line that would be of use and is in the same page; `ask` returns whether that
    /// was possible.
    pub(crate) fn accessed(
        &mut self,
        (line, place): (LineAddress, Option<usize>),
        is_hit: bool,
        mut ask: impl FnMut(LineAddress) -> bool,
    ) {
        self.accesses += 1;
        let came =
            place.is_some_and(|place| self.waiting[place].take_if(|one| *one == line).is_some());
        let index = self.under_way.iter().position(|&one| one == line);
        let comes = index
            .map(|index| self.under_way.swap_remove(index))
            .is_some();
        self.statistics.useful += u64::from(came);
        self.statistics.late += u64::from(comes);
        let access = DemandAccess {
            line,
            is_hit,
            is_first_use: came || comes,
        };
        let mut wanted = std::mem::take(&mut self.wanted);
        match &mut self.model {
            Model::NextLine(model) => model.accessed(access, &mut wanted),
        }
        for other in wanted.drain(..) {
            let is_near = other.0 / PAGE_LINES == line.0 / PAGE_LINES;
            let is_memory = || self.memory.classify(other.base()) == Region::Ram;
            if is_near && is_memory() && ask(other) {
                self.statistics.issued += 1;
                self.under_way.push(other);
            }
        }
        self.wanted = wanted;
    }

    /// `line` has come to `place`.
    pub(crate) fn filled(&mut self, line: LineAddress, place: usize) {
        let index = self.under_way.iter().position(|&one| one == line);
        let fetched = index.map(|index| self.under_way.swap_remove(index));
        // A line that was asked for anew, in order to write it, comes to where it was.
        let old = std::mem::replace(&mut self.waiting[place], fetched);
        self.statistics.unused += u64::from(old.is_some_and(|old| old != line));
    }
}
