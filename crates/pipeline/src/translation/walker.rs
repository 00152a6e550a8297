//! Page walks: they read page tables through the data cache of the core.
//!
//! A hit takes the cache's latency. A miss takes a miss register and requests the line as a load
//! does, and the walk continues when the line arrives. Walkers have their own port at the cache.
//! Among walks that wait for a miss register or for a walker, the oldest has priority, and walks
//! have priority over loads.

use super::frame::{Fault, FetchedPage, Frame};
use super::spaces::Tables;
use super::tlb::SpaceTag;
use super::{Coming, Translation, page_of, side_of};
use crate::core::{Core, Why};
use crate::kind::CoreKind;
use fabric::{LINE_BYTES, LineAddress, Outbox, Region, RequestOutcome, Side, Slot};
use riscv::Class;
use riscv::paging::{Access, Page, Step, Walk};

/// A page walk.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(super) struct PageWalk {
    /// Its initial state.
    first: Walk,
    walk: Walk,
    space: SpaceTag,
    /// For an instruction fetch.
    is_fetch: bool,
    #[state(cycle)]
    since: u64,
    /// The cycle in which it looks up the next entry.
    #[state(cycle)]
    at: u64,
    /// Whether the line of the next entry has been requested.
    asked: bool,
}

impl PageWalk {
    fn page(&self) -> u64 {
        page_of(self.walk.address())
    }

    fn line(&self) -> LineAddress {
        LineAddress::of(self.walk.entry_address())
    }
}

/// A page walker, which performs one walk at a time.
#[derive(Clone, Copy, Debug, Default, state::State)]
pub(super) struct Walker {
    /// The walk that waits for a line.
    pub walk: Option<PageWalk>,
    /// The end of the last walk, if the walker is idle.
    #[state(cycle)]
    free_from: u64,
}

/// A finished walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    page: u64,
    space: SpaceTag,
    /// The cycle of its end.
    pub at: u64,
    pub found: Result<Page, Fault>,
}

/// The requester of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Wanted {
    /// The load, store or atomic in this slot of the window.
    Slot(u32),
    /// An instruction that is executed alone.
    Alone,
    /// The fetch of the next instruction: its first page, or the one after that.
    Fetch(u8),
    /// A prefetch instruction, which may have left the window.
    Prefetch,
}

/// An access that waits for a walk.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(super) struct Waiter {
    pub address: u64,
    space: SpaceTag,
    thread: u8,
    pub wanted: Wanted,
    /// The kind of access, which selects the TLB.
    pub access: Access,
    #[state(cycle)]
    pub issue: u64,
}

impl Waiter {
    fn is_fetch(&self) -> bool {
        matches!(self.wanted, Wanted::Fetch(_))
    }
}

impl Translation {
    /// Whether a walk for the page of `address` is in progress.
    pub(super) fn is_walking(&self, address: u64, space: SpaceTag) -> bool {
        let wanted = (page_of(address), space);
        let under_way = self
            .walkers
            .iter()
            .filter_map(|walker| walker.walk.as_ref());
        let mut walks = under_way.chain(&self.queue);
        walks.any(|walk| (walk.page(), walk.space) == wanted)
    }

    /// Restarts the walks of a hart: the entries that they have read may be stale.
    pub(super) fn begin_walks_anew(&mut self, thread: u8, now: u64) {
        let under_way = self
            .walkers
            .iter_mut()
            .filter_map(|walker| walker.walk.as_mut());
        for walk in under_way.filter(|walk| walk.space.is_of(thread)) {
            // It continues when the line that it has requested arrives.
            walk.walk = walk.first;
            walk.at = walk.at.max(now);
            walk.asked = false;
        }
    }

    /// Whether a load, a store or an atomic of this core waits for a walk.
    pub fn has_waiters(&self) -> bool {
        let mut waiters = self.waiters.iter();
        waiters.any(|waiter| matches!(waiter.wanted, Wanted::Slot(_) | Wanted::Alone))
    }

    /// Inserts the page of `address` into both levels.
    pub(super) fn remember(&mut self, side: Side, address: u64, space: SpaceTag, page: Page) {
        match side {
            Side::Data => self.data.insert(address, space, page),
            Side::Instruction => self.instructions.insert(address, space, page),
        }
        self.second.insert(address, space, page);
    }
}

impl<K: CoreKind> Core<K> {
    /// Adds an access to `address` to those that wait for the walk of its page.
    pub(crate) fn wait_for_walk(
        &mut self,
        access: Access,
        address: u64,
        wanted: Wanted,
        issue: u64,
    ) {
        let thread = self.hart.thread;
        let space = self
            .tables(access)
            .map_or(SpaceTag::IDENTITY, |it| it.space);
        if let Some(one) = &mut self.shared.translation {
            one.waiters.push(Waiter {
                address,
                space,
                thread,
                wanted,
                access,
                issue,
            });
        }
    }

    /// Whether this hart waits for a walk on behalf of `wanted`.
    pub(super) fn is_waiting_for_walk(&self, wanted: Wanted) -> bool {
        let it = (self.hart.thread, wanted);
        let translation = self.shared.translation.as_ref();
        translation.is_some_and(|one| {
            let mut waiters = one.waiters.iter();
            waiters.any(|waiter| (waiter.thread, waiter.wanted) == it)
        })
    }

    /// Removes the waits of this hart's instruction fetch.
    pub(super) fn forget_fetch(&mut self) {
        let thread = self.hart.thread;
        if let Some(one) = &mut self.shared.translation {
            let is_it = |waiter: &Waiter| waiter.thread == thread && waiter.is_fetch();
            one.waiters.retain(|waiter| !is_it(waiter));
        }
    }

    /// Removes the waits of this hart's squashed instructions.
    #[inline(never)]
    pub(crate) fn forget_waiters(&mut self) {
        let Some(one) = &mut self.shared.translation else {
            return;
        };
        let hart = &self.hart;
        one.waiters.retain(|waiter| {
            let is_undone = match waiter.wanted {
                Wanted::Slot(index) => !hart.window.is_live(index as usize),
                Wanted::Alone | Wanted::Fetch(_) | Wanted::Prefetch => false,
            };
            waiter.thread != hart.thread || !is_undone
        });
    }

    /// Begins the walk for `address` at `begin`, or when a walker is free. Returns its result if
    /// all entries are in the data cache.
    pub(super) fn begin_walk(
        &mut self,
        tables: &Tables,
        access: Access,
        address: u64,
        begin: u64,
        outbox: &mut Outbox,
    ) -> Option<(u64, Frame)> {
        let is_fetch = access == Access::Fetch;
        let Some(walk) = Walk::new(tables.mode, tables.root, address) else {
            if tables.space == SpaceTag::IDENTITY {
                self.no_page(address, is_fetch, begin);
                return None;
            }
            return Some((begin, Frame::fault(Fault::Page)));
        };
        let walk = PageWalk {
            first: walk,
            walk,
            space: tables.space,
            is_fetch,
            since: begin,
            at: begin,
            asked: false,
        };
        let ended = self.start(walk, begin, outbox)?;
        Some((ended.at, self.frame_of(&ended, access, address)))
    }

    /// Gives a walk to the walker that is free first, not before `begin`. Returns its result if it
    /// is known already.
    fn start(&mut self, walk: PageWalk, begin: u64, outbox: &mut Outbox) -> Option<Ended> {
        let one = self.shared.translation.as_mut()?;
        let walkers = one.walkers.iter().enumerate();
        let free = walkers.filter(|(_, walker)| walker.walk.is_none());
        let Some((number, walker)) = free.min_by_key(|(_, walker)| walker.free_from) else {
            one.queue.push_back(walk);
            return None;
        };
        let at = begin.max(walker.free_from);
        let mut walk = PageWalk {
            since: at,
            at,
            ..walk
        };
        let skips = one.structure_caches.skip(&mut walk.walk, walk.space);
        one.statistics.structure_cache_hits += u64::from(skips);
        one.walkers[number].walk = Some(walk);
        self.go_on(number, None, outbox)
    }

    /// Reads entries as long as their lines are in the data cache. `slot` holds the line of the
    /// next entry, if that is known. Returns the result if the walk ends.
    fn go_on(&mut self, number: usize, slot: Option<Slot>, outbox: &mut Outbox) -> Option<Ended> {
        let mut slot = slot;
        loop {
            let one = self.shared.translation.as_mut()?;
            let walk = one.walkers[number].walk.as_mut()?;
            let line = walk.line();
            let (space, entry_address) = (walk.space, walk.walk.entry_address());
            // The page tables of the identity mapping lie outside of the memory of programs.
            if space != SpaceTag::IDENTITY
                && self.shared.memory_map.classify(entry_address) != Region::Ram
            {
                return self.end_walk(number, Err(Fault::Access));
            }
            let Some(found) = slot.take().or_else(|| self.shared.data_cache.find(line)) else {
                let issue = walk.at;
                let at = self.departure(issue, self.shared.spec.l1_data.hit_latency_cycles);
                let outcome = self.request_line((Side::Data, line, false), at, outbox);
                if outcome == RequestOutcome::Sent {
                    self.expect_answer(at);
                }
                self.shared.spin.disturb();
                let one = self.shared.translation.as_mut()?;
                let walk = one.walkers[number].walk.as_mut()?;
                walk.asked = outcome != RequestOutcome::Full;
                return None;
            };
            self.shared.data_cache.touch(found);
            let offset = entry_address as usize % LINE_BYTES;
            let entry = self.shared.data_cache.line(found).read(offset, 8);
            one.statistics.page_walk_loads += 1;
            walk.at += self.shared.spec.l1_data.hit_latency_cycles;
            walk.asked = false;
            match walk.walk.step(entry) {
                Step::Next => {
                    let is_put_in = one.structure_caches.remember(&walk.walk, space);
                    one.statistics.structure_cache_fills += u64::from(is_put_in);
                }
                Step::Page(page) => return self.end_walk(number, Ok(page)),
                Step::Fault if space == SpaceTag::IDENTITY => {
                    let (address, is_fetch, done) = (walk.walk.address(), walk.is_fetch, walk.at);
                    self.no_page(address, is_fetch, done);
                    return None;
                }
                Step::Fault => return self.end_walk(number, Err(Fault::Page)),
            }
        }
    }

    /// Ends a walk. A valid page is inserted into the TLBs; a missing page is not.
    fn end_walk(&mut self, number: usize, found: Result<Page, Fault>) -> Option<Ended> {
        let one = self.shared.translation.as_mut()?;
        let walk = one.walkers[number].walk.take()?;
        let (address, space, done) = (walk.walk.address(), walk.space, walk.at);
        one.walkers[number].free_from = done;
        one.statistics.page_walk_cycles += done - walk.since;
        if let Ok(page) = found {
            let side = match walk.is_fetch {
                true => Side::Instruction,
                false => Side::Data,
            };
            one.remember(side, address, space, page);
            one.coming.push(Coming {
                page: page_of(address),
                space,
                from: done,
            });
        }
        Some(Ended {
            page: page_of(address),
            space,
            at: done,
            found,
        })
    }

    /// Reports a corrupted identity mapping, which initially maps every address.
    #[cold]
    fn no_page(&mut self, address: u64, is_fetch: bool, now: u64) {
        let access = match is_fetch {
            true => Access::Fetch,
            false => Access::Load,
        };
        let why = Why::Trap(access.page_fault(address));
        self.crash_at(now, why, self.hart.pc, None);
    }

    /// `line` has arrived in `slot` of the data cache: continues the walks that wait for it.
    #[inline(never)]
    pub(crate) fn walks_have_line(
        &mut self,
        line: LineAddress,
        slot: Slot,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
        let walkers = self.walker_count();
        for number in 0..walkers {
            let Some(walk) = self.walk_of(number) else {
                continue;
            };
            if walk.asked && walk.line() == line {
                // As for a load: the tags have been looked up, and the data is not available before
                // now.
                walk.at = walk.at.max((now + 1).saturating_sub(hit_latency));
                let done = self.go_on(number, Some(slot), outbox);
                self.walk_may_end(number, done, now, outbox);
            }
        }
    }

    /// A miss register has become free: retries walks that found none.
    #[inline(never)]
    pub(crate) fn retry_walks(&mut self, now: u64, outbox: &mut Outbox) {
        let walkers = self.walker_count();
        for number in 0..walkers {
            let Some(walk) = self.walk_of(number) else {
                continue;
            };
            let line = walk.line();
            if !walk.asked {
                walk.at = walk.at.max(now);
                if self.shared.data_cache.refuses_to_read(line) {
                    continue;
                }
                let done = self.go_on(number, None, outbox);
                self.walk_may_end(number, done, now, outbox);
            }
        }
    }

    fn walker_count(&self) -> usize {
        let translation = self.shared.translation.as_ref();
        translation.map_or(0, |one| one.walkers.len())
    }

    fn walk_of(&mut self, number: usize) -> Option<&mut PageWalk> {
        let translation = self.shared.translation.as_mut()?;
        translation.walkers[number].walk.as_mut()
    }

    /// If a walk has ended, continues the accesses that wait for it, and starts the next walk.
    fn walk_may_end(&mut self, number: usize, ended: Option<Ended>, now: u64, outbox: &mut Outbox) {
        let mut next = ended;
        while let Some(ended) = next {
            self.serve_waiters(&ended, now, outbox);
            let Some(one) = &mut self.shared.translation else {
                return;
            };
            // An access that has just continued may have started a walk on this walker.
            if one.walkers[number].walk.is_some() {
                return;
            }
            let Some(walk) = one.queue.pop_front() else {
                return;
            };
            next = self.start(walk, walk.since, outbox);
        }
    }

    /// Continues the accesses that wait for a page that is now known.
    fn serve_waiters(&mut self, ended: &Ended, now: u64, outbox: &mut Outbox) {
        loop {
            let Some(one) = &mut self.shared.translation else {
                return;
            };
            let wanted = (ended.page, ended.space);
            let is_served = |it: &Waiter| (page_of(it.address), it.space) == wanted;
            let Some(place) = one.waiters.iter().position(is_served) else {
                return;
            };
            let waiter = one.waiters.remove(place);
            let (address, space) = (waiter.address, waiter.space);
            if side_of(waiter.access) == Side::Data
                && let Some(page) = one.second.find(address, space)
            {
                one.data.insert(address, space, page);
            }
            self.with_hart(waiter.thread, |core| {
                if space == SpaceTag::IDENTITY {
                    core.serve(waiter, ended.at, outbox);
                } else {
                    core.serve_translated(waiter, ended, now, outbox);
                }
                core.wake_all(now, outbox);
            });
        }
    }

    /// Continues an access of this hart at `done`.
    fn serve(&mut self, waiter: Waiter, done: u64, outbox: &mut Outbox) {
        let at = waiter.issue.max(done);
        let frame = Frame::of(waiter.address);
        let index = match waiter.wanted {
            Wanted::Slot(index) => index as usize,
            Wanted::Alone => return self.serial_has_page(at, frame),
            Wanted::Fetch(which) => {
                return self.fetch_has_page(which.into(), waiter.address, at, frame);
            }
            Wanted::Prefetch => {
                return self.prefetch_line(waiter.access, waiter.address, at, outbox);
            }
        };
        if !self.hart.window.is_live(index) {
            return;
        }
        match self.hart.window.deferred(index).instruction.class {
            Class::Load => self.access_load(index, at, outbox),
            _ => self.store_has_page(index, at),
        }
    }

    /// The page of an instruction fetch may be used from this cycle on.
    pub(super) fn fetch_has_page(&mut self, which: usize, address: u64, from: u64, frame: Frame) {
        self.hart.fetched[which] = FetchedPage {
            page: page_of(address),
            space: self.fetch_key(),
            from,
            frame,
            has_missed: true,
        };
    }
}
