//! Page walks: they read page tables through the data cache of the core.
//!
//! An entry that the cache has is read in the cache's latency; otherwise its line is asked for as a
//! load's is, with a miss register, and the walk goes on when it comes. Walkers have a port of their
//! own at the cache. Of several walks that wait for a miss register or for a walker, the oldest goes
//! first, and before loads.

use super::{Coming, Translation, page_of};
use crate::core::{Core, Why};
use crate::extension::Extension;
use crate::kind::CoreKind;
use fabric::{LINE_BYTES, LineAddress, Outbox, RequestOutcome, Side, Slot};
use riscv::Class;
use riscv::paging::{Access, Step, TABLE_BYTES, Walk};

/// A walk from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageWalk {
    walk: Walk,
    /// For an instruction fetch.
    is_fetch: bool,
    since: u64,
    /// When the next entry is looked for.
    at: u64,
    /// Whether its line has been asked for.
    asked: bool,
}

state::plain!(PageWalk {
    walk,
    is_fetch,
    since: cycle,
    at: cycle,
    asked
});

impl PageWalk {
    fn page(&self) -> u64 {
        page_of(self.walk.address())
    }

    fn line(&self) -> LineAddress {
        LineAddress::of(self.walk.entry_address())
    }
}

/// What does one walk after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walker {
    /// The walk that waits for a line.
    pub walk: Option<PageWalk>,
    /// When the last one ended, if there is none.
    free_from: u64,
}

state::component!(Walker {
    walk,
    free_from: cycle
});

/// Who wants to know a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The load, store or atomic in this slot of the window.
    Slot(u32),
    /// An instruction that is executed alone.
    Alone,
    /// The fetch of the next instruction.
    Fetch,
}

state::choice!(Wanted { Slot(index), Alone, Fetch });

/// An access that waits for a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    page: u64,
    thread: u8,
    wanted: Wanted,
    issue: u64,
}

state::plain!(Waiter {
    page,
    thread,
    wanted,
    issue: cycle
});

impl Translation {
    /// Whether there is a walk for the page of `address`.
    pub(super) fn is_walking(&self, address: u64) -> bool {
        let page = page_of(address);
        let under_way = self
            .walkers
            .iter()
            .filter_map(|walker| walker.walk.as_ref());
        let mut walks = under_way.chain(&self.queue);
        walks.any(|walk| walk.page() == page)
    }

    /// Whether a data access of this core waits for a walk.
    pub fn has_waiters(&self) -> bool {
        let mut waiters = self.waiters.iter();
        waiters.any(|waiter| waiter.wanted != Wanted::Fetch)
    }

    /// Remembers the page of `address` in both levels.
    pub(super) fn remember(&mut self, side: Side, address: u64, bits: u32) {
        match side {
            Side::Data => self.data.insert(address, bits),
            Side::Instruction => self.instructions.insert(address, bits),
        }
        self.second.insert(address, bits);
    }
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// An access to `address` waits for the walk of its page.
    pub(super) fn wait_for_walk(&mut self, address: u64, wanted: Wanted, issue: u64) {
        let thread = self.hart.thread;
        if let Some(one) = &mut self.shared.translation {
            one.waiters.push(Waiter {
                page: page_of(address),
                thread,
                wanted,
                issue,
            });
        }
    }

    /// What this hart has wanted to fetch is not wanted, or is wanted anew.
    pub(super) fn forget_fetch(&mut self) {
        let thread = self.hart.thread;
        if let Some(one) = &mut self.shared.translation {
            let is_it = |waiter: &Waiter| (waiter.thread, waiter.wanted) == (thread, Wanted::Fetch);
            one.waiters.retain(|waiter| !is_it(waiter));
        }
    }

    /// Some instructions of this hart are undone: what they wait for is nobody's.
    #[inline(never)]
    pub(crate) fn forget_waiters(&mut self) {
        let Some(one) = &mut self.shared.translation else {
            return;
        };
        let hart = &self.hart;
        one.waiters.retain(|waiter| {
            let is_undone = match waiter.wanted {
                Wanted::Slot(index) => !hart.window.is_live(index as usize),
                Wanted::Alone | Wanted::Fetch => false,
            };
            waiter.thread != hart.thread || !is_undone
        });
    }

    /// Begins the walk for `address` at `begin`, or when there is a walker. Says when it ends, if
    /// all entries are in the data cache.
    pub(super) fn begin_walk(
        &mut self,
        side: Side,
        address: u64,
        begin: u64,
        outbox: &mut Outbox,
    ) -> Option<u64> {
        let one = self.shared.translation.as_mut()?;
        let mode = one.spec.mode.mode();
        let Some(walk) = Walk::new(mode, one.root, address) else {
            self.no_page(address, side == Side::Instruction, begin);
            return None;
        };
        let walk = PageWalk {
            walk,
            is_fetch: side == Side::Instruction,
            since: begin,
            at: begin,
            asked: false,
        };
        self.start(walk, begin, outbox)
    }

    /// Gives a walk to the walker that is free first, not before `begin`. Says when the walk ends,
    /// if that is known.
    fn start(&mut self, walk: PageWalk, begin: u64, outbox: &mut Outbox) -> Option<u64> {
        let one = self.shared.translation.as_mut()?;
        let walkers = one.walkers.iter().enumerate();
        let free = walkers.filter(|(_, walker)| walker.walk.is_none());
        let Some((number, walker)) = free.min_by_key(|(_, walker)| walker.free_from) else {
            one.queue.push_back(walk);
            return None;
        };
        let at = begin.max(walker.free_from);
        one.walkers[number].walk = Some(PageWalk {
            since: at,
            at,
            ..walk
        });
        self.go_on(number, None, outbox)
    }

    /// Lets a walker read entries as long as they are in the data cache; the line of the next one
    /// is in `slot`, if that is known. Says when the walk ends, if it does.
    fn go_on(&mut self, number: usize, slot: Option<Slot>, outbox: &mut Outbox) -> Option<u64> {
        let mut slot = slot;
        loop {
            let one = self.shared.translation.as_mut()?;
            let walk = one.walkers[number].walk.as_mut()?;
            let line = walk.line();
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
            let offset = walk.walk.entry_address() as usize % LINE_BYTES;
            let entry = self.shared.data_cache.line(found).read(offset, 8);
            one.statistics.page_walk_loads += 1;
            walk.at += self.shared.spec.l1_data.hit_latency_cycles;
            walk.asked = false;
            let done = walk.at;
            let address = walk.walk.address();
            match walk.walk.step(entry) {
                Step::Next => {}
                Step::Page(page) => {
                    let side = match walk.is_fetch {
                        true => Side::Instruction,
                        false => Side::Data,
                    };
                    one.statistics.page_walk_cycles += done - walk.since;
                    one.walkers[number] = Walker {
                        walk: None,
                        free_from: done,
                    };
                    one.remember(side, address, page.bits);
                    one.coming.push(Coming {
                        page: page_of(address),
                        from: done,
                    });
                    return Some(done);
                }
                Step::Fault => {
                    let is_fetch = walk.is_fetch;
                    self.no_page(address, is_fetch, done);
                    return None;
                }
            }
        }
    }

    /// The tables map everything; somebody has written into them.
    #[cold]
    fn no_page(&mut self, address: u64, is_fetch: bool, now: u64) {
        let access = match is_fetch {
            true => Access::Fetch,
            false => Access::Load,
        };
        let why = Why::Trap(access.page_fault(address));
        self.crash_at(now, why, self.hart.pc, None);
    }

    /// `line` has come into `slot` of the data cache: walks go on that wait for it.
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
                // As of a load: it has been looked for before, and comes no sooner than now.
                walk.at = walk.at.max((now + 1).saturating_sub(hit_latency));
                let done = self.go_on(number, Some(slot), outbox);
                self.walk_may_end(number, done, now, outbox);
            }
        }
    }

    /// A miss register has become free: walks that found none may have it.
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

    /// If a walk ends at `done`, what waits for it goes on, and the next walk begins.
    fn walk_may_end(&mut self, number: usize, done: Option<u64>, now: u64, outbox: &mut Outbox) {
        let mut done = done;
        while let Some(end) = done {
            self.serve_waiters(end, now, outbox);
            let Some(one) = &mut self.shared.translation else {
                return;
            };
            // Somebody who has just gone on may have taken the walker.
            if one.walkers[number].walk.is_some() {
                return;
            }
            let Some(next) = one.queue.pop_front() else {
                return;
            };
            done = self.start(next, next.since, outbox);
        }
    }

    /// What waits for pages that are known goes on at `done`.
    fn serve_waiters(&mut self, done: u64, now: u64, outbox: &mut Outbox) {
        loop {
            let Some(one) = &mut self.shared.translation else {
                return;
            };
            let is_served = |waiter: &Waiter| one.coming.iter().any(|it| it.page == waiter.page);
            let Some(place) = one.waiters.iter().position(is_served) else {
                return;
            };
            let waiter = one.waiters.remove(place);
            let address = waiter.page * TABLE_BYTES;
            if waiter.wanted != Wanted::Fetch
                && let Some(bits) = one.second.find(address)
            {
                one.data.insert(address, bits);
            }
            self.with_hart(waiter.thread, |core| {
                core.serve(waiter, done, outbox);
                core.wake_all(now, outbox);
            });
        }
    }

    /// An access of this hart goes on at `done`.
    fn serve(&mut self, waiter: Waiter, done: u64, outbox: &mut Outbox) {
        let at = waiter.issue.max(done);
        let index = match waiter.wanted {
            Wanted::Slot(index) => index as usize,
            Wanted::Alone => return self.serial_has_page(at),
            Wanted::Fetch => return self.fetch_has_page_from(waiter.page, at),
        };
        if !self.hart.window.is_live(index) {
            return;
        }
        match self.hart.window.deferred(index).instruction.class {
            Class::Load => self.access_load(index, at, outbox),
            _ => self.store_has_page(index, at),
        }
    }
}
