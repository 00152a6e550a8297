//! Prefetching: lines that a cache requests before they are needed. Each prefetcher has its own
//! file.
//!
//! A prefetcher observes each demand access, and responds with lines to fetch. These are requested
//! like any other line, for reading, so a prefetcher can change times, but never the values read or
//! their order.
//!
//! The host's own prefetching is in the module `prefetch`.

mod adjacent_line;
mod next_line;
mod streamer;
mod stride;

pub use streamer::StreamerSpec;
pub use stride::StrideSpec;

use crate::private_cache::LookUp;
use crate::{
    LINE_BYTES, LineAddress, MemoryMap, PrivateCache, Region, RequestOutcome, SecondLevelSpec, Slot,
};
use adjacent_line::AdjacentLine;
use next_line::NextLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{Comparer, Purpose, State, Walker};
use streamer::Streamer;
use stride::Stride;

/// Lines of a page. No prefetcher crosses its end, because other memory usually follows.
const PAGE_LINES: u64 = 4096 / LINE_BYTES as u64;

/// The lines that a first-level data cache fetches before they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPrefetcherKind {
    /// No lines: there is no prefetcher.
    #[default]
    None,
    /// The next one, after each miss and after the first use of a line that was prefetched (tagged
    /// prefetching: Smith, "Cache Memories", ACM Computing Surveys 14(3), 1982).
    NextLine,
    /// Those that each load instruction will need if it continues with its stride (Baer and Chen,
    /// "An Effective On-Chip Preloading Scheme to Reduce Data Access Penalty", Supercomputing
    /// 1991).
    Stride,
}

impl DataPrefetcherKind {
    /// Whether there is no prefetcher.
    pub fn is_none(&self) -> bool {
        *self == DataPrefetcherKind::None
    }
}

/// The lines that a first-level instruction cache, or the last-level cache, fetches before they are
/// needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SequentialPrefetcherKind {
    /// No lines: there is no prefetcher.
    #[default]
    None,
    /// The next one, after each miss and after the first use of a line that was prefetched (tagged
    /// prefetching: Smith, "Cache Memories", ACM Computing Surveys 14(3), 1982).
    NextLine,
}

/// The lines that a second-level cache fetches before they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// No lines: there is no prefetcher.
    #[default]
    None,
    /// The next one, after each miss and after the first use of a line that was prefetched (tagged
    /// prefetching: Smith, "Cache Memories", ACM Computing Surveys 14(3), 1982).
    NextLine,
    /// Those ahead of an ascending or descending stream of look-ups within a page (Intel's
    /// Optimization Reference Manual: the streamer).
    Streamer,
    /// After a miss, the other line of an aligned pair of 128 bytes (the same: the spatial
    /// prefetcher).
    AdjacentLine,
    /// Both of Intel's, beside each other.
    StreamerAndAdjacentLine,
}

/// A load instruction that has accessed a first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadInstruction {
    /// The address of the instruction.
    pub pc: u64,
    /// The address that it reads.
    pub address: u64,
}

/// A demand access to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DemandAccess {
    line: LineAddress,
    /// Whether the cache has the line with the required permission.
    is_hit: bool,
    /// Whether it is the first access to a prefetched line.
    is_first_use: bool,
    /// The load instruction; known only in first-level caches.
    load: Option<LoadInstruction>,
}

trait Prefetcher {
    /// Handles a demand access. Lines to prefetch are appended to `wanted`.
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>);

    /// No miss register was free for its last requested line, nor for those after it.
    fn refused(&mut self, _line: LineAddress) {}
}

#[derive(Clone, Debug)]
enum Model {
    NextLine(NextLine),
    AdjacentLine(AdjacentLine),
    Streamer(Streamer),
    Stride(Stride),
}

impl Model {
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>) {
        match self {
            Model::NextLine(model) => model.accessed(access, wanted),
            Model::AdjacentLine(model) => model.accessed(access, wanted),
            Model::Streamer(model) => model.accessed(access, wanted),
            Model::Stride(model) => model.accessed(access, wanted),
        }
    }

    fn refused(&mut self, line: LineAddress) {
        match self {
            Model::NextLine(model) => model.refused(line),
            Model::AdjacentLine(model) => model.refused(line),
            Model::Streamer(model) => model.refused(line),
            Model::Stride(model) => model.refused(line),
        }
    }
}

impl State for Model {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match self {
            Model::NextLine(NextLine) | Model::AdjacentLine(AdjacentLine) => {}
            Model::Streamer(model) => model.walk(walker),
            Model::Stride(model) => model.walk(walker),
        }
    }
}

/// Counts of a prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
#[state(all(count))]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PrefetchStatistics {
    /// Lines that the prefetcher has requested.
    pub issued: u64,
    /// Prefetched lines that had arrived when they were needed.
    pub useful: u64,
    /// Prefetched lines that were still in flight when they were needed.
    pub late: u64,
    /// Prefetched lines that were evicted without having been needed.
    pub unused: u64,
    /// Misses on lines that a prefetched line had evicted, if no other line has replaced that one
    /// since.
    pub polluting: u64,
}

impl PrefetchStatistics {
    /// Whether nothing was prefetched.
    pub fn is_nothing(&self) -> bool {
        *self == PrefetchStatistics::default()
    }
}

/// A prefetcher beside a cache, with the state of the lines that it has fetched.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct Prefetching {
    /// Each of them observes every access.
    #[state(exact, slice)]
    models: Vec<Model>,
    #[state(fixed)]
    memory: MemoryMap,
    #[state(fixed)]
    ways: usize,
    /// For each place of the cache, the line that was prefetched into it and has not been used.
    #[state(exact, slice)]
    waiting: Vec<Option<LineAddress>>,
    /// For each place, the line that the prefetched one has evicted and that has not returned.
    #[state(exact, slice)]
    replaced: Vec<Option<LineAddress>>,
    /// Lines in flight that have not been needed yet.
    #[state(exact)]
    under_way: Vec<LineAddress>,
    /// A buffer, empty between accesses.
    #[state(fixed)]
    wanted: Vec<LineAddress>,
    /// Accesses so far.
    #[state(count)]
    accesses: u64,
    /// Number of changes to the state of lines.
    #[state(count)]
    version: u64,
    statistics: PrefetchStatistics,
}

impl State for Prefetching {
    fn walk(&mut self, walker: &mut dyn Walker) {
        if walker.purpose() == Purpose::Compare {
            // Two states with an access in between must never be equal.
            walker.number(&mut self.accesses.clone());
        }
        self.walk_fields(walker);
    }
}

impl Prefetching {
    /// The prefetcher of a first-level data cache, if it has one of that kind. It fetches only
    /// lines in `memory`.
    pub fn of_data(
        (kind, stride): (DataPrefetcherKind, StrideSpec),
        cache: &PrivateCache,
        memory: &MemoryMap,
    ) -> Option<Prefetching> {
        let model = match kind {
            DataPrefetcherKind::None => return None,
            DataPrefetcherKind::NextLine => Model::NextLine(NextLine),
            DataPrefetcherKind::Stride => Model::Stride(Stride::new(stride)),
        };
        Some(Prefetching::new(vec![model], cache.places(), memory))
    }

    /// The same for a first-level instruction cache.
    pub fn of_instructions(
        kind: SequentialPrefetcherKind,
        cache: &PrivateCache,
        memory: &MemoryMap,
    ) -> Option<Prefetching> {
        match kind {
            SequentialPrefetcherKind::None => None,
            SequentialPrefetcherKind::NextLine => {
                Some(Prefetching::next_line(cache.places(), memory))
            }
        }
    }

    /// The next-line prefetcher of a cache with these numbers of places for lines and of ways.
    pub(crate) fn next_line(places: (usize, usize), memory: &MemoryMap) -> Prefetching {
        Prefetching::new(vec![Model::NextLine(NextLine)], places, memory)
    }

    /// The prefetcher of a second-level cache, if it has one. It fetches only lines in `memory`.
    pub(crate) fn of_second_level(
        spec: &SecondLevelSpec,
        cache: &PrivateCache,
        memory: &MemoryMap,
    ) -> Option<Prefetching> {
        let streamer = || Model::Streamer(Streamer::new(spec.streamer));
        let adjacent_line = Model::AdjacentLine(AdjacentLine);
        let models = match spec.prefetcher {
            PrefetcherKind::None => return None,
            PrefetcherKind::NextLine => vec![Model::NextLine(NextLine)],
            PrefetcherKind::AdjacentLine => vec![adjacent_line],
            PrefetcherKind::Streamer => vec![streamer()],
            PrefetcherKind::StreamerAndAdjacentLine => vec![streamer(), adjacent_line],
        };
        Some(Prefetching::new(models, cache.places(), memory))
    }

    fn new(models: Vec<Model>, (places, ways): (usize, usize), memory: &MemoryMap) -> Prefetching {
        Prefetching {
            models,
            memory: memory.clone(),
            ways,
            waiting: vec![None; places],
            replaced: vec![None; places],
            under_way: Vec::new(),
            wanted: Vec::new(),
            accesses: 0,
            version: 0,
            statistics: PrefetchStatistics::default(),
        }
    }

    /// Its counts so far.
    pub fn statistics(&self) -> PrefetchStatistics {
        self.statistics
    }

    /// Appends the state that determines its future behaviour, if its cache does not change.
    pub fn append_words(&mut self, words: &mut Vec<u64>) {
        words.push(self.version);
        for model in &mut self.models {
            if let Model::Stride(model) = model {
                model.append_words(words);
            } else {
                let mut gathered = Comparer::new(0, 0, None);
                model.walk(&mut gathered);
                words.extend(gathered.into_words());
            }
        }
    }

    /// Handles a demand access, of `load` if that is known. Calls `ask` for each useful line in the
    /// same page, as far as there are miss registers.
    pub fn accessed(
        &mut self,
        LookUp { line, slot, set }: LookUp,
        is_hit: bool,
        load: Option<LoadInstruction>,
        mut ask: impl FnMut(LineAddress) -> RequestOutcome,
    ) {
        self.accesses += 1;
        let came = slot.is_some_and(|slot| {
            let waiting = &mut self.waiting[slot as usize];
            waiting.take_if(|one| *one == line).is_some()
        });
        let comes = self.is_under_way(line);
        self.statistics.useful += u64::from(came);
        self.statistics.late += u64::from(comes);
        self.version += u64::from(came || comes);
        if slot.is_none() && self.forget_replaced(line, set) {
            self.statistics.polluting += 1;
            self.version += 1;
        }
        let access = DemandAccess {
            line,
            is_hit,
            is_first_use: came || comes,
            load,
        };
        let mut wanted = std::mem::take(&mut self.wanted);
        for model in &mut self.models {
            model.accessed(&access, &mut wanted);
            for other in wanted.drain(..) {
                let is_near = other.0 / PAGE_LINES == line.0 / PAGE_LINES;
                let is_memory = || self.memory.classify(other.base()) == Region::Ram;
                if !is_near || !is_memory() {
                    continue;
                }
                match ask(other) {
                    RequestOutcome::Sent => {
                        self.statistics.issued += 1;
                        self.under_way.push(other);
                        self.version += 1;
                    }
                    RequestOutcome::Pending => {}
                    RequestOutcome::Full => {
                        model.refused(other);
                        break;
                    }
                }
            }
        }
        self.wanted = wanted;
    }

    /// Whether the line at `slot` was prefetched and has not been used since its arrival.
    pub fn is_unused(&self, line: LineAddress, slot: Slot) -> bool {
        self.waiting[slot as usize] == Some(line)
    }

    /// Records the arrival of `line` at `slot`, where it has evicted `evicted`.
    pub fn filled(&mut self, line: LineAddress, slot: Slot, evicted: Option<LineAddress>) {
        let is_prefetched = self.under_way.contains(&line);
        self.placed(line, slot, evicted.filter(|_| is_prefetched));
        self.came(line, slot);
    }

    /// Records that `line` has been given `slot`. If it is prefetched, it `replaced` a line.
    pub(crate) fn placed(&mut self, line: LineAddress, slot: Slot, replaced: Option<LineAddress>) {
        let place = slot as usize;
        // A line that is requested again for writing arrives at its old place.
        self.version += 1;
        let old = self.waiting[place].take();
        self.statistics.unused += u64::from(old.is_some_and(|old| old != line));
        self.forget_replaced(line, place - place % self.ways);
        self.replaced[place] = replaced;
    }

    /// Records the arrival of `line` at `slot`, which it had been given.
    pub(crate) fn came(&mut self, line: LineAddress, slot: Slot) {
        if self.is_under_way(line) {
            self.version += 1;
            self.waiting[slot as usize] = Some(line);
        }
    }

    /// Records the request of a line.
    pub(crate) fn began(&mut self, line: LineAddress) {
        self.statistics.issued += 1;
        self.version += 1;
        self.under_way.push(line);
    }

    /// Whether `line` was prefetched and is in flight; it is then no longer counted as such.
    fn is_under_way(&mut self, line: LineAddress) -> bool {
        let index = self.under_way.iter().position(|&one| one == line);
        index
            .map(|index| self.under_way.swap_remove(index))
            .is_some()
    }

    /// Whether a prefetched line has evicted `line` from the set that begins at `set`; clears this
    /// record.
    fn forget_replaced(&mut self, line: LineAddress, set: usize) -> bool {
        let mut places = self.replaced[set..set + self.ways].iter_mut();
        places.any(|place| place.take_if(|one| *one == line).is_some())
    }
}
