//! A cache in front of a memory controller, for all memory behind it.
//!
//! It has tags and times; the bytes are in memory's image. A missing block is allocated at once,
//! and requests for it wait until it arrives. The requested line comes first. Dirty blocks are
//! written back when they are evicted. Free ways of a set are filled first.
//!
//! It models the cache that FireSim has in front of its models of DRAM (`LastLevelCache.scala`),
//! without its limit on outstanding misses. A write of less than a block fetches the block, as
//! there.

use super::{Controller, Decisions, MemoryRequest, Model, Ticket};
use crate::replacement::Policy;
use crate::{Clock, LINE_BYTES, LineAddress, Replacement, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};
use state::{Purpose, State, Walker};

/// A cache in front of each memory controller.
///
/// Defaults: that of FireSim as nanoPU's published simulations set it (`mm_llc_setBits = 12`,
/// `mm_llc_wayBits = 3`, `mm_llc_blockBits = 7`): 4 MB in 8 ways of blocks of 128 bytes, replaced
/// at random. A hit takes three cycles: one in the queue, one to begin, one for the tags. Its port
/// has 8 bytes in a cycle of 3.2 GHz.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryCacheSpec {
    /// Bytes at each controller: sets x ways x `block_bytes`, where the number of sets is a power
    /// of two.
    #[schemars(range(min = 64, max = 1 << 30))]
    pub size_bytes: u64,
    /// Ways of each set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// Bytes of a block: a multiple of 64.
    #[schemars(range(min = LINE_BYTES, max = 4096))]
    pub block_bytes: u64,
    /// `lru`, `tree-plru`, `srrip` or `random`: the policy that selects the block of a set to
    /// evict.
    pub replacement: Replacement,
    /// The latency of a look-up in cycles of the fabric's clock: from the start of a read's service
    /// to the departure of its answer if it hits, and in addition to the controller's time if it
    /// misses.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub latency_cycles: u64,
    /// The bandwidth of its port for hits, in gigabytes (1e9 bytes) a second.
    #[schemars(range(min = 0.001, max = 1e6))]
    pub bandwidth_gb_per_s: f64,
}

impl Default for MemoryCacheSpec {
    fn default() -> MemoryCacheSpec {
        MemoryCacheSpec {
            size_bytes: 4 << 20,
            ways: 8,
            block_bytes: 128,
            replacement: Replacement::Random,
            latency_cycles: 3,
            bandwidth_gb_per_s: 25.6,
        }
    }
}

impl MemoryCacheSpec {
    /// Checks the relations between parameters.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        require(
            self.block_bytes.is_multiple_of(LINE_BYTES as u64),
            "block_bytes",
            self.block_bytes,
            format!("a block has whole lines of {LINE_BYTES} bytes"),
        )?;
        let way = u64::from(self.ways) * self.block_bytes;
        let sets = self.size_bytes / way;
        require(
            self.size_bytes.is_multiple_of(way) && sets.is_power_of_two(),
            "size_bytes",
            self.size_bytes,
            format!("it must be a power of two times {way}, the bytes of a set"),
        )
    }
}

/// Counts of the caches in front of memory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[state(all(count))]
pub struct MemoryCacheStatistics {
    /// Reads and writes of lines whose block was present, or in flight.
    pub hits: u64,
    /// Reads and writes of lines whose block was absent.
    pub misses: u64,
    /// Dirty blocks that were written back to memory when they were evicted.
    pub writebacks: u64,
}

impl std::ops::AddAssign for MemoryCacheStatistics {
    fn add_assign(&mut self, other: MemoryCacheStatistics) {
        state::add_counts(self, &other);
    }
}

/// A block that has been requested.
#[derive(Clone, Debug, state::State, state::Plain)]
struct Coming {
    block: u64,
    /// Its first line to arrive.
    first: LineAddress,
    /// The arrival time of that line, once known.
    at: Option<Time>,
    /// Reads that wait until it is known; each is answered no sooner than its time.
    waiting: Vec<(Time, LineAddress, Ticket)>,
}

/// No block.
const NOTHING: u64 = u64::MAX;

/// The controller behind the cache, with the counts of its requests.
pub(super) struct Behind<'a> {
    pub controller: &'a mut Model,
    /// Number of lines read and written.
    pub reads: &'a mut u64,
    pub writes: &'a mut u64,
}

impl Behind<'_> {
    pub fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        match request.read {
            Some(_) => *self.reads += 1,
            None => *self.writes += 1,
        }
        self.controller.ask(now, request, decisions);
    }
}

#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub(super) struct SideCache {
    #[state(fixed)]
    ways: usize,
    #[state(fixed)]
    sets: u64,
    #[state(fixed)]
    lines_of_block: u64,
    /// Number of controllers over which lines are interleaved.
    #[state(fixed)]
    controllers: u64,
    #[state(fixed)]
    latency: Time,
    #[state(fixed)]
    occupancy: Time,
    /// The time at which its port has carried all hits so far.
    free: Time,
    /// The block of each place, set by set.
    #[state(slice)]
    blocks: Vec<u64>,
    #[state(slice)]
    is_dirty: Vec<bool>,
    /// The replacement policy's byte of each place.
    #[state(octets)]
    order: Vec<u8>,
    policy: Policy,
    coming: Vec<Coming>,
    requests: u64,
    pub(super) statistics: MemoryCacheStatistics,
}

/// Two states have the same future if no request has arrived in between and earlier ones are done,
/// as for a channel of DRAM.
impl State for SideCache {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match walker.purpose() {
            Purpose::Exact => {}
            Purpose::Compare => {
                if self.coming.iter().any(|one| one.at.is_none()) {
                    walker.refuse("memory is being read".to_string());
                }
                walker.number(&mut self.requests);
                return self.free.walk(walker);
            }
            Purpose::MoveOn => return self.free.walk(walker),
        }
        self.walk_fields(walker);
    }
}

impl SideCache {
    /// The cache of one of `controllers` controllers.
    pub(super) fn new(spec: &MemoryCacheSpec, controllers: usize, clock: Clock) -> SideCache {
        let ways = spec.ways as usize;
        let places = (spec.size_bytes / spec.block_bytes) as usize;
        let policy = Policy::new(spec.replacement);
        SideCache {
            ways,
            sets: (places / ways) as u64,
            lines_of_block: spec.block_bytes / LINE_BYTES as u64,
            controllers: controllers as u64,
            latency: clock.time(spec.latency_cycles),
            occupancy: Time::from_ns(LINE_BYTES as f64 / spec.bandwidth_gb_per_s),
            free: Time::ZERO,
            blocks: vec![NOTHING; places],
            is_dirty: vec![false; places],
            order: policy.empty_set(ways).repeat(places / ways),
            policy,
            coming: Vec::new(),
            requests: 0,
            statistics: MemoryCacheStatistics::default(),
        }
    }

    fn block(&self, line: LineAddress) -> u64 {
        line.0 / self.controllers / self.lines_of_block
    }

    /// The lines of a block at the controller of `line`.
    fn lines(&self, block: u64, line: LineAddress) -> impl Iterator<Item = LineAddress> + use<> {
        let (first, lines) = (block * self.lines_of_block, self.lines_of_block);
        let (controllers, number) = (self.controllers, line.0 % self.controllers);
        (first..first + lines).map(move |local| LineAddress(local * controllers + number))
    }

    /// Handles a request at `now`.
    pub(super) fn ask(
        &mut self,
        now: Time,
        request: MemoryRequest,
        behind: &mut Behind<'_>,
        decisions: &mut Decisions,
    ) {
        self.requests += 1;
        self.coming.retain(|one| one.at.is_none_or(|at| at > now));
        let block = self.block(request.line);
        let set = (block % self.sets) as usize * self.ways;
        let mut places = self.blocks[set..set + self.ways].iter();
        if let Some(way) = places.position(|&other| other == block) {
            self.statistics.hits += 1;
            self.policy
                .touch(&mut self.order[set..set + self.ways], way);
            self.is_dirty[set + way] |= request.read.is_none();
            let start = self.free.max(now);
            self.free = start + self.occupancy;
            decisions.queueing += start - now;
            if let Some(ticket) = request.read {
                self.answer(
                    block,
                    (start + self.latency, request.line, ticket),
                    decisions,
                );
            }
            return;
        }
        self.statistics.misses += 1;
        let way = self.make_room(set, now, request.line, behind, decisions);
        let place = set + way;
        self.blocks[place] = block;
        self.is_dirty[place] = request.read.is_none();
        self.policy
            .insert(&mut self.order[set..set + self.ways], way);
        if request.read.is_none() && self.lines_of_block == 1 {
            return;
        }
        self.coming.push(Coming {
            block,
            first: request.line,
            at: None,
            waiting: Vec::new(),
        });
        let read = request.read.or(Some(Ticket::NOBODY));
        behind.ask(now, MemoryRequest { read, ..request }, decisions);
        for line in self.lines(block, request.line) {
            if line != request.line {
                let read = Some(Ticket::NOBODY);
                behind.ask(now, MemoryRequest { line, read }, decisions);
            }
        }
        self.decided(decisions);
    }

    /// Frees a way of the set that begins at `set`, if none is free.
    fn make_room(
        &mut self,
        set: usize,
        now: Time,
        line: LineAddress,
        behind: &mut Behind<'_>,
        decisions: &mut Decisions,
    ) -> usize {
        let free = self.blocks[set..set + self.ways]
            .iter()
            .position(|&block| block == NOTHING);
        if let Some(way) = free {
            return way;
        }
        let order = &mut self.order[set..set + self.ways];
        // Any way may be evicted, so there is a victim.
        let way = self.policy.victim(order, || None, |_| true).unwrap_or(0);
        self.policy.evict(order, way);
        if self.is_dirty[set + way] {
            self.statistics.writebacks += 1;
            for line in self.lines(self.blocks[set + way], line) {
                let read = None;
                behind.ask(now, MemoryRequest { line, read }, decisions);
            }
        }
        way
    }

    /// Answers a read of a block that is present or in flight.
    fn answer(
        &mut self,
        block: u64,
        (at, line, ticket): (Time, LineAddress, Ticket),
        decisions: &mut Decisions,
    ) {
        match self.coming.iter_mut().find(|one| one.block == block) {
            None => decisions.answers.push((at, line, ticket)),
            Some(Coming {
                at: Some(comes), ..
            }) => decisions.answers.push((at.max(*comes), line, ticket)),
            Some(one) => one.waiting.push((at, line, ticket)),
        }
    }

    /// Adds the cache's latency to the answers that the controller behind has scheduled.
    pub(super) fn decided(&mut self, decisions: &mut Decisions) {
        let mut answers = Vec::new();
        for (at, line, ticket) in decisions.answers.drain(..) {
            let at = at + self.latency;
            if ticket != Ticket::NOBODY {
                answers.push((at, line, ticket));
            }
            let mut coming = self.coming.iter_mut();
            if let Some(one) = coming.find(|one| one.first == line && one.at.is_none()) {
                one.at = Some(at);
                for (since, line, ticket) in one.waiting.drain(..) {
                    answers.push((since.max(at), line, ticket));
                }
            }
        }
        decisions.answers = answers;
    }
}

#[cfg(test)]
mod tests;
