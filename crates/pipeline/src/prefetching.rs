//! Prefetches into the first-level caches, by their prefetchers and by prefetch instructions.
//!
//! The data cache's prefetcher observes each load that looks up the cache, in the order of the
//! look-ups, with its program counter. The instruction cache's prefetcher observes each line that
//! fetch misses, even on a wrong path, and the first use of each prefetched line. It ignores other
//! hits, so that all iterations of a loop behave alike. Prefetch requests leave at the end of the
//! look-up, like that of a miss.
//!
//! A prefetch instruction ("Zicbop") needs its address and a load port, and is done a cycle after
//! it has issued. It takes no entry of the load queue. It requests its line as a missing load or
//! store does, if memory exists there, a miss register is free and its page allows the access. A
//! TLB miss starts a page walk. In all other cases it does nothing.

use crate::core::{Core, Shared};
use crate::kind::CoreKind;
use crate::ports::{Need, Unit};
use crate::translation::Wanted;
use crate::window::{SlotKind, UNKNOWN};
use fabric::{LineAddress, LoadInstruction, Outbox, Prefetching, RequestOutcome, Side, Time};
use riscv::paging::Access;
use riscv::{Instruction, Operation};

impl<K: CoreKind> Core<K> {
    /// Attaches the prefetchers of the core's description to the first-level caches.
    pub(crate) fn attach_prefetchers(&mut self) {
        let Shared {
            spec,
            data_cache,
            instruction_cache,
            memory_map,
            ..
        } = &self.shared;
        let kind = (spec.l1_data_prefetcher, spec.l1_data_stride);
        let data = Prefetching::of_data(kind, data_cache, memory_map);
        let kind = spec.l1_instruction_prefetcher;
        let instructions = Prefetching::of_instructions(kind, instruction_cache, memory_map);
        self.shared.data_prefetching = data.map(Box::new);
        self.shared.instruction_prefetching = instructions.map(Box::new);
        self.for_each_hart(|core| core.look_for_observers());
    }

    /// Notifies the prefetcher that the load at `pc`, of `address`, looks up the data cache at
    /// cycle `issue`.
    #[inline(never)]
    pub(crate) fn tell_prefetcher(
        &mut self,
        (pc, address): (u64, u64),
        issue: u64,
        outbox: &mut Outbox,
    ) {
        let Some(mut prefetching) = self.shared.data_prefetching.take() else {
            return;
        };
        let look_up = self.shared.data_cache.look_up(LineAddress::of(address));
        let load = Some(LoadInstruction { pc, address });
        let at = self.departure(issue, self.shared.spec.l1_data.hit_latency_cycles);
        prefetching.accessed(look_up, look_up.slot.is_some(), load, |line| {
            let may = self.shared.data_cache.may_prefetch(line);
            self.request_prefetch(may, (Side::Data, line), at, outbox)
        });
        self.shared.data_prefetching = Some(prefetching);
    }

    /// Notifies the prefetcher if fetch hits a prefetched `line` for the first time, in `cycle`.
    #[inline]
    pub(crate) fn note_fetched_line(&mut self, line: LineAddress, cycle: u64, outbox: &mut Outbox) {
        if let Some(prefetching) = &self.shared.instruction_prefetching
            && let Some(slot) = self.shared.instruction_cache.find(line)
            && prefetching.is_unused(line, slot)
        {
            self.tell_instruction_prefetcher(line, cycle, outbox);
        }
    }

    /// Notifies the prefetcher that fetch looks up `line` in the instruction cache, in `cycle`.
    #[inline(never)]
    pub(crate) fn tell_instruction_prefetcher(
        &mut self,
        line: LineAddress,
        cycle: u64,
        outbox: &mut Outbox,
    ) {
        let Some(mut prefetching) = self.shared.instruction_prefetching.take() else {
            return;
        };
        let look_up = self.shared.instruction_cache.look_up(line);
        let at = self.departure(cycle, self.shared.spec.l1_instruction.hit_latency_cycles);
        prefetching.accessed(look_up, look_up.slot.is_some(), None, |line| {
            let may = self.shared.instruction_cache.may_prefetch(line);
            self.request_prefetch(may, (Side::Instruction, line), at, outbox)
        });
        self.shared.spin.disturb();
        self.shared.instruction_prefetching = Some(prefetching);
    }

    /// Requests a line for a prefetcher, unless `may` forbids it; the request leaves at `at`.
    fn request_prefetch(
        &mut self,
        may: RequestOutcome,
        (side, line): (Side, LineAddress),
        at: Time,
        outbox: &mut Outbox,
    ) -> RequestOutcome {
        let outcome = match may {
            RequestOutcome::Sent => self.request_line((side, line, false), at, outbox),
            other => other,
        };
        if outcome == RequestOutcome::Sent {
            self.expect_answer(at);
            self.shared.spin.disturb();
        }
        outcome
    }

    /// Notifies the prefetcher of the load in slot `index`, whose address is known.
    #[inline(never)]
    pub(crate) fn tell_prefetcher_of(&mut self, index: usize, issue: u64, outbox: &mut Outbox) {
        let position = self.hart.window.deferred(index).position;
        let pc = self.hart.window.slot(position).tags.pc;
        let number = self.hart.window.rest(index).queue_number;
        let address = self.hart.loads.get(number).address;
        self.tell_prefetcher((pc, address), issue, outbox);
    }

    /// Dispatches a prefetch instruction, whose base is ready at `ready`.
    #[inline(never)]
    pub(crate) fn dispatch_prefetch(
        &mut self,
        i: Instruction,
        need: Need,
        (base, ready): (u64, u64),
        outbox: &mut Outbox,
    ) {
        if ready >= UNKNOWN {
            self.defer::<1>(&i, SlotKind::Plain, Unit::Load, UNKNOWN);
            self.step(&i);
            return;
        }
        let issue = self.issue(Unit::Load, need, ready);
        self.push(&i, SlotKind::Plain, Unit::Load, issue, 0, issue + 1, 0);
        let now = self.hart.dispatch_cycle;
        self.step(&i);
        self.prefetch(&i, i.address(base), (issue, now), outbox);
    }

    /// The base of the prefetch instruction in slot `index` has become known.
    #[inline(never)]
    pub(crate) fn wake_prefetch(&mut self, index: usize, now: u64, outbox: &mut Outbox) {
        self.issue_deferred(index, Unit::Load, now);
        let deferred = self.hart.window.deferred(index);
        let (i, base, position) = (
            deferred.instruction,
            deferred.operands[0],
            deferred.position,
        );
        let issue = self.hart.window.slot(position).issue;
        self.resolve(index, 0, issue + 1);
        self.prefetch(&i, i.address(base), (issue, now), outbox);
    }

    /// A prefetch instruction, whose address is known at `now`, issues in cycle `issue`.
    fn prefetch(
        &mut self,
        i: &Instruction,
        address: u64,
        (issue, now): (u64, u64),
        outbox: &mut Outbox,
    ) {
        self.hart.statistics.software_prefetches.executed += 1;
        let access = match i.operation {
            Operation::PrefetchI => Access::Fetch,
            Operation::PrefetchW => Access::Store,
            _ => Access::Load,
        };
        if self.shared.translation.is_none() {
            return self.prefetch_line(access, address, issue, outbox);
        }
        if self.is_identity(access) && !self.is_plain(address, 1) {
            return self.drop_prefetch();
        }
        match self.look_for_page(access, address, (issue, now), outbox) {
            Some((at, frame)) => match frame.physical(address) {
                Ok(physical) => self.prefetch_line(access, physical, at, outbox),
                Err(_) => self.drop_prefetch(),
            },
            None => self.wait_for_walk(access, address, Wanted::Prefetch, issue),
        }
    }

    /// Requests the line of a physical address in cycle `issue`, unless it is cached or
    /// outstanding.
    pub(crate) fn prefetch_line(
        &mut self,
        access: Access,
        address: u64,
        issue: u64,
        outbox: &mut Outbox,
    ) {
        if !self.is_plain(address, 1) {
            return self.drop_prefetch();
        }
        let line = LineAddress::of(address);
        let write = access == Access::Store;
        let spec = &self.shared.spec;
        let (side, cache, latency) = match access {
            Access::Fetch => (
                Side::Instruction,
                &self.shared.instruction_cache,
                spec.l1_instruction.hit_latency_cycles,
            ),
            Access::Load | Access::Store => (
                Side::Data,
                &self.shared.data_cache,
                spec.l1_data.hit_latency_cycles,
            ),
        };
        let is_here = cache
            .find(line)
            .is_some_and(|slot| !write || cache.writable(slot));
        if is_here || cache.is_pending(line) {
            return;
        }
        let at = self.departure(issue, latency);
        if self.request_line((side, line, write), at, outbox) == RequestOutcome::Full {
            return self.drop_prefetch();
        }
        match side {
            Side::Instruction => self.shared.instruction_cache.note_prefetch(line),
            Side::Data => self.shared.data_cache.note_prefetch(line),
        }
        self.expect_answer(at);
        self.shared.spin.disturb();
    }

    /// Counts a prefetch instruction that does nothing.
    pub(crate) fn drop_prefetch(&mut self) {
        self.hart.statistics.software_prefetches.dropped += 1;
    }
}
