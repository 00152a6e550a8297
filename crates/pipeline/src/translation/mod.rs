//! Address translation: its cost for a core.
//!
//! A hit in the first-level TLB adds no latency. A miss looks up the second level; if that misses,
//! too, a page walk reads the tables entry by entry through the data cache. Loads, stores and
//! atomics continue when their page is known; `dispatch`, `resolve` and `serializing` handle them
//! until then. A core without translation has no cost; a core with translation dispatches at full
//! speed while the first-level TLBs hit (`hits`).
//!
//! Supervisor and user mode use the page tables of `satp`, and TLBs distinguish address spaces by
//! hart and ASID. A look-up yields the page and whether the access is allowed. A forbidden access
//! is executed alone, after all older instructions, and then traps. Until its page is known, the
//! address of a load or a store is unknown to all other accesses. An `sfence.vma` restarts the
//! walks of its hart.
//!
//! The architecture never translates machine mode's addresses. If `server.core.translation` is
//! given, bare-metal programs are nevertheless translated, as under an operating system, by tables
//! that map each address to itself and allow every access, so that only times change. Extensions
//! access memory by physical addresses.

mod frame;
mod hits;
mod spaces;
mod spec;
mod structure_caches;
mod tlb;
mod walker;

pub(crate) use frame::{FetchedPage, Frame};
pub(crate) use hits::Translates;
pub(crate) use spaces::{PageAtDispatch, access_of};

pub use spec::{
    FirstLevelTlbSpec, PageSize, PagingMode, SecondLevelTlbSpec, StructureCachesSpec, TlbPagesSpec,
    TranslationSpec,
};

use crate::core::Core;
use crate::kind::CoreKind;
use crate::window::UNKNOWN;
use fabric::{Outbox, Region, Side};
use riscv::Cause;
use riscv::paging::{Access, Flush, TABLE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spaces::Tables;
use std::collections::VecDeque;
use structure_caches::StructureCaches;
use tlb::{FirstLevelTlb, SecondLevelTlb, SpaceTag};
use walker::{PageWalk, Waiter, Walker};

pub(crate) use walker::Wanted;

/// Counts of address translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
#[state(all(count))]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TranslationStatistics {
    /// Loads, stores and atomics that hit the first-level TLB.
    pub l1_data_tlb_hits: u64,
    /// Loads, stores and atomics that missed the first-level TLB, except those that joined a page
    /// walk in progress.
    pub l1_data_tlb_misses: u64,
    /// Instruction fetches that hit the first-level TLB. A fetch extends to the next jump or
    /// branch, or to the end of a line.
    pub l1_instruction_tlb_hits: u64,
    /// Instruction fetches that missed the first-level TLB.
    pub l1_instruction_tlb_misses: u64,
    /// Misses of both first-level TLBs that hit the second-level TLB.
    pub l2_tlb_hits: u64,
    /// Misses of both first-level TLBs that also missed the second-level TLB: the page walks.
    pub l2_tlb_misses: u64,
    /// Page walks that began below the first table, because the caches of the upper levels had the
    /// entry that points there.
    pub structure_cache_hits: u64,
    /// Entries that page walks have filled into these caches.
    pub structure_cache_fills: u64,
    /// Page-table entries that page walks have read.
    pub page_walk_loads: u64,
    /// Cycles of page walks, summed over the walks.
    pub page_walk_cycles: u64,
    /// Page faults that harts have taken.
    pub page_faults: u64,
}

impl TranslationStatistics {
    /// Whether there were no look-ups.
    pub fn is_nothing(&self) -> bool {
        *self == TranslationStatistics::default()
    }
}

/// A page in a TLB that may be used from a later cycle on.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Coming {
    /// The smallest page of the access.
    page: u64,
    space: SpaceTag,
    #[state(cycle)]
    from: u64,
}

/// The number of the smallest page that contains `address`.
fn page_of(address: u64) -> u64 {
    address / TABLE_BYTES
}

state::declare! {
    /// A core's translation state, which its harts share.
    pub(crate) struct Translation {
        spec: TranslationSpec => fixed = spec,
        /// The physical address of the root table of the identity mapping, if there is one.
        identity: Option<u64> => fixed = None,
        data: FirstLevelTlb = FirstLevelTlb::new(&spec.l1_data_tlb),
        instructions: FirstLevelTlb = FirstLevelTlb::new(&spec.l1_instruction_tlb),
        second: SecondLevelTlb = SecondLevelTlb::new(&spec.l2_tlb),
        structure_caches: StructureCaches = StructureCaches::new(&spec.structure_caches),
        /// TLB entries that may not be used yet.
        coming: Vec<Coming> = Vec::new(),
        walkers: Vec<Walker> => slice = vec![Walker::default(); spec.page_walkers.into()],
        /// Walks that wait for a walker, oldest first.
        queue: VecDeque<PageWalk> = VecDeque::new(),
        /// Accesses that wait for a walk, in order of arrival.
        waiters: Vec<Waiter> = Vec::new(),
        statistics: TranslationStatistics = TranslationStatistics::default(),
    }

    fn new(spec: TranslationSpec);
}

impl Translation {
    /// The state for a core with this description, if it has translation.
    pub fn of(spec: &Option<TranslationSpec>) -> Option<Box<Translation>> {
        spec.map(|spec| Box::new(Translation::new(spec)))
    }

    /// The counters.
    pub fn statistics(&self) -> TranslationStatistics {
        self.statistics
    }

    /// Adds `times` times the counts since `before`: repeats a skipped period.
    pub fn repeat(&mut self, before: &TranslationStatistics, times: u64) {
        state::repeat_counts(&mut self.statistics, before, times);
    }

    /// Counts a trap if it is a page fault.
    pub fn note_trap(&mut self, cause: Cause) {
        use Cause::{InstructionPage, LoadPage, StorePage};
        let is_page_fault = matches!(cause, InstructionPage | LoadPage | StorePage);
        self.statistics.page_faults += u64::from(is_page_fault);
    }

    /// The first cycle in which a TLB's entry for `address` may be used.
    #[inline]
    fn usable_from(&self, address: u64, space: SpaceTag) -> u64 {
        let wanted = (page_of(address), space);
        let coming = self.coming.iter();
        let coming = coming.filter(|one| (one.page, one.space) == wanted);
        coming.map(|one| one.from).max().unwrap_or(0)
    }

    /// Drops entries of `coming` that may be used at `now`.
    pub fn settle(&mut self, now: u64) {
        self.coming.retain(|one| one.from > now);
    }

    /// Whether no walk and no fill is in progress. [`Translation::settle`] must be called before.
    pub fn is_quiet(&self) -> bool {
        let is_walking = |walker: &Walker| walker.walk.is_some();
        self.coming.is_empty() && self.queue.is_empty() && !self.walkers.iter().any(is_walking)
    }

    /// The state that determines the latency of accesses as long as nothing misses.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.data.words().chain(self.instructions.words())
    }
}

impl<K: CoreKind> Core<K> {
    /// Sets the physical address of the identity mapping's root table. Must be called before a core
    /// with translation starts.
    pub fn set_page_tables(&mut self, root: u64) {
        if let Some(translation) = &mut self.shared.translation {
            translation.identity = Some(root);
        }
        self.for_each_hart(|core| core.look_for_observers());
    }

    /// Whether the load of `address` need not wait for its page. `page_from` is the first cycle in
    /// which the page may be used, if the hart has page tables.
    #[inline(never)]
    pub(crate) fn has_page(&self, address: u64, page_from: u64) -> bool {
        let now = self.hart.dispatch_cycle;
        let space = SpaceTag::IDENTITY;
        match &self.shared.translation {
            _ if page_from > 0 => false,
            Some(one) if one.identity.is_some() && !self.hart.has_page_tables() => {
                one.data.look(address, space).is_some() && one.usable_from(address, space) <= now
            }
            _ => true,
        }
    }

    /// Counts the TLB hit of a load that has its value immediately.
    pub(crate) fn note_page(&mut self, address: u64) {
        match &mut self.shared.translation {
            Some(one) if one.identity.is_some() && !self.hart.has_page_tables() => {
                one.data.find(address, SpaceTag::IDENTITY);
                one.statistics.l1_data_tlb_hits += 1;
            }
            _ => {}
        }
    }

    /// Looks up, at `now`, the page of an access to `address` that begins in cycle `issue`: the
    /// cycle in which it continues, and the page; `None` if it must wait for a page walk.
    #[inline(never)]
    pub(crate) fn look_for_page(
        &mut self,
        access: Access,
        address: u64,
        (issue, now): (u64, u64),
        outbox: &mut Outbox,
    ) -> Option<(u64, Frame)> {
        let Some(tables) = self.tables(access) else {
            return Some((issue, Frame::of(address)));
        };
        let one = self.shared.translation.as_mut()?;
        let space = tables.space;
        let side = side_of(access);
        let first = match side {
            Side::Data => &mut one.data,
            Side::Instruction => &mut one.instructions,
        };
        if let Some(page) = first.find(address, space) {
            one.statistics.l1_data_tlb_hits += u64::from(side == Side::Data);
            let from = issue.max(one.usable_from(address, space));
            return Some((from, tables.frame(page, access, address)));
        }
        if one.is_walking(address, space) {
            return None;
        }
        if space == SpaceTag::IDENTITY
            && self.shared.memory_map.classify(address) == Region::Nothing
        {
            // An access fault: nothing is mapped there.
            return Some((issue, Frame::of(address)));
        }
        self.shared.spin.disturb();
        match side {
            Side::Data => one.statistics.l1_data_tlb_misses += 1,
            Side::Instruction => one.statistics.l1_instruction_tlb_misses += 1,
        }
        one.settle(now);
        let begin = issue + u64::from(one.spec.l2_tlb.hit_latency_cycles);
        if let Some(page) = one.second.find(address, space) {
            one.statistics.l2_tlb_hits += 1;
            let from = begin.max(one.usable_from(address, space));
            one.remember(side, address, space, page);
            one.coming.push(Coming {
                page: page_of(address),
                space,
                from,
            });
            return Some((from, tables.frame(page, access, address)));
        }
        one.statistics.l2_tlb_misses += 1;
        self.begin_walk(&tables, access, address, begin, outbox)
    }

    /// The load in slot `index` of the window, whose address is known at `now`, issues in cycle
    /// `issue`: it looks up its page, and then reads its value.
    pub(crate) fn begin_load(
        &mut self,
        index: usize,
        (issue, now): (u64, u64),
        outbox: &mut Outbox,
    ) {
        if self.shared.translation.is_none() {
            return self.access_load(index, issue, outbox);
        }
        let number = self.hart.window.rest(index).queue_number;
        let address = self.hart.loads.get(number).address;
        if let Some(at) = self.data_page((address, index), (issue, now), outbox) {
            self.access_load(index, at, outbox);
        }
    }

    /// Looks up the page of a load, store or atomic that issues in cycle `issue`, which is known at
    /// `now`, and is in slot `index` of the window or will be the next one: the cycle in which it
    /// continues, or `None` if it must wait for a page walk. With page tables the page is known
    /// already.
    #[inline(never)]
    pub(crate) fn data_page(
        &mut self,
        (address, index): (u64, usize),
        (issue, now): (u64, u64),
        outbox: &mut Outbox,
    ) -> Option<u64> {
        if self.hart.has_page_tables() {
            return Some(issue);
        }
        let found = self.look_for_page(Access::Load, address, (issue, now), outbox);
        if found.is_none() {
            self.wait_for_walk(Access::Load, address, Wanted::Slot(index as u32), issue);
        }
        found.map(|(at, _)| at)
    }

    /// The same for an instruction that is executed alone, at `now`; also yields the page.
    pub(crate) fn page_of_serial(
        &mut self,
        access: Access,
        address: u64,
        now: u64,
        outbox: &mut Outbox,
    ) -> Option<(u64, Frame)> {
        let found = self.look_for_page(access, address, (now, now), outbox);
        if found.is_none() {
            self.wait_for_walk(access, address, Wanted::Alone, now);
        }
        found
    }

    /// Whether a data access of this core waits for a page walk.
    #[inline(never)]
    pub(crate) fn waits_for_walk(&self) -> bool {
        let translation = self.shared.translation.as_ref();
        translation.is_some_and(|one| one.has_waiters())
    }

    /// The page of an instruction's first byte, or the page after it, and the first cycle in which
    /// it may be used; [`UNKNOWN`] if it waits for a page walk. A hart keeps the page of its last
    /// fetch even if the TLBs evict it, so that other harts cannot take it away before it has been
    /// used.
    #[inline(never)]
    pub(crate) fn look_for_fetched_page(
        &mut self,
        which: usize,
        address: u64,
        outbox: &mut Outbox,
    ) -> FetchedPage {
        let now = self.hart.dispatch_cycle;
        let space = self.fetch_key();
        let known = self.hart.fetched[which];
        if (known.page, known.space) == (page_of(address), space) {
            return known;
        }
        self.forget_fetch();
        let tables = self.tables(Access::Fetch);
        let has_missed = match (&self.shared.translation, tables) {
            (Some(one), Some(tables)) => one.instructions.look(address, tables.space).is_none(),
            _ => false,
        };
        let found = self.look_for_page(Access::Fetch, address, (now, now), outbox);
        if found.is_none() {
            // It looks the page up again when a walk has ended.
            let wanted = Wanted::Fetch(which as u8);
            self.wait_for_walk(Access::Fetch, address, wanted, now);
        }
        let (from, frame) = found.unwrap_or((UNKNOWN, Frame::of(address)));
        let fetched = FetchedPage {
            page: page_of(address),
            space,
            from,
            frame,
            has_missed,
        };
        if found.is_some() {
            self.hart.fetched[which] = fetched;
        }
        fetched
    }

    /// Counts the TLB hit of an instruction fetch.
    #[inline]
    pub(crate) fn note_fetch(&mut self) {
        let has_missed = std::mem::take(&mut self.hart.fetched[0].has_missed);
        if !has_missed && let Some(one) = &mut self.shared.translation {
            one.statistics.l1_instruction_tlb_hits += 1;
        }
    }

    /// Invalidates the hart's translations in the TLBs and in its walks.
    pub(crate) fn flush_translations(&mut self, flush: &Flush, now: u64) {
        let thread = self.hart.thread;
        if let Some(one) = &mut self.shared.translation {
            one.data.flush(thread, flush);
            one.instructions.flush(thread, flush);
            one.second.flush(thread, flush);
            one.structure_caches.flush(thread);
            one.begin_walks_anew(thread, now);
        }
        self.hart.fetched = [FetchedPage::NONE; 2];
        self.forget_fetch();
    }
}

/// The first-level TLB that an access looks up.
fn side_of(access: Access) -> Side {
    match access {
        Access::Fetch => Side::Instruction,
        Access::Load | Access::Store => Side::Data,
    }
}
