//! Misses of the first-level caches: requests, fills and evictions of lines.

use crate::core::{Core, NEVER};
use crate::kind::CoreKind;
use crate::probe::Found;
use crate::stack::Stall;
use crate::window::SlotKind;
use fabric::{
    CacheNotice, FirstFill, FirstLevel, LineAddress, Outbox, RequestOutcome, SecondNotice, Side,
    Slot, Source, Time, ToCache,
};

impl<K: CoreKind> Core<K> {
    /// Requests a line for one of the first-level caches, for writing or for reading, from its
    /// home, or from the second-level cache if there is one. The request leaves at `at`.
    #[inline]
    pub(crate) fn request_line(
        &mut self,
        (side, line, write): (Side, LineAddress, bool),
        at: Time,
        outbox: &mut Outbox,
    ) -> RequestOutcome {
        if self.shared.second_level.is_some() {
            return self.request_second_level((side, line, write), at, outbox);
        }
        match side {
            Side::Instruction => self
                .shared
                .instruction_cache
                .request(line, write, at, outbox),
            Side::Data => self.shared.data_cache.request(line, write, at, outbox),
        }
    }

    #[inline(never)]
    fn request_second_level(
        &mut self,
        wanted: (Side, LineAddress, bool),
        at: Time,
        outbox: &mut Outbox,
    ) -> RequestOutcome {
        let Some(second) = &mut self.shared.second_level else {
            return RequestOutcome::Full;
        };
        let first = FirstLevel {
            instruction: &mut self.shared.instruction_cache,
            data: &mut self.shared.data_cache,
        };
        let cycle = self.shared.clock.cycle_at_or_after(at);
        let outcome = second.request(first, wanted, cycle, outbox);
        self.shared.second_level_event = second.next_found();
        self.shared.stop = self.shared.stop.min(self.shared.second_level_event);
        outcome
    }

    /// The second-level cache has found lines for the first level.
    #[inline(never)]
    pub(crate) fn second_level_found(&mut self, now: u64, outbox: &mut Outbox) {
        self.shared.spin.disturb();
        while let Some(second) = &mut self.shared.second_level {
            let first = FirstLevel {
                instruction: &mut self.shared.instruction_cache,
                data: &mut self.shared.data_cache,
            };
            let found = second.found(first, now, outbox);
            self.shared.second_level_event = second.next_found();
            let Some((side, fill)) = found else {
                return;
            };
            match side {
                Side::Instruction => self.instructions_filled(fill),
                Side::Data => self.first_level_filled(fill, Source::SecondLevel, now, outbox),
            }
        }
    }

    /// Handles a message for the second-level cache.
    #[inline(never)]
    fn second_level_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        let Some(second) = &mut self.shared.second_level else {
            return;
        };
        let first = FirstLevel {
            instruction: &mut self.shared.instruction_cache,
            data: &mut self.shared.data_cache,
        };
        match second.receive(first, line, message, now, outbox) {
            SecondNotice::None => {}
            SecondNotice::Lost(line) => self.line_lost(line, now),
            SecondNotice::Filled {
                source,
                evicted,
                data,
                instruction,
                ..
            } => {
                if let Some(fill) = instruction {
                    self.instructions_filled(fill);
                }
                if let Some(evicted) = evicted {
                    self.line_lost(evicted, now);
                }
                if let Some(fill) = data {
                    self.first_level_filled(fill, source, now, outbox);
                } else {
                    self.finish_fill(line, now, outbox);
                }
            }
        }
        self.shared.second_level_event = self
            .shared
            .second_level
            .as_ref()
            .map_or(NEVER, |second| second.next_found());
    }

    /// Handles a message for the data cache.
    pub(crate) fn data_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        if self.shared.second_level.is_some() {
            self.second_level_message(now, line, message, outbox);
            return;
        }
        let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
        let notice = self.shared.data_cache.receive(line, message, at, outbox);
        match notice {
            CacheNotice::None | CacheNotice::Downgraded(_) => {}
            CacheNotice::Lost(line) => self.line_lost(line, now),
            CacheNotice::Filled {
                slot,
                evicted,
                source,
                ..
            } => {
                self.for_each_hart(|core| core.charge_miss(line, source, now));
                self.line_filled(line, (slot, source), evicted, now, outbox);
            }
        }
    }

    /// `line` has arrived: if the oldest load has stalled dispatch and is of this line, the stall
    /// is charged to the line's source.
    #[inline(always)]
    fn charge_miss(&mut self, line: LineAddress, source: Source, now: u64) {
        if self.hart.stall != Stall::Miss || self.hart.window.all_known() {
            return;
        }
        let oldest = self.hart.window.commit_known;
        let rest = self.hart.window.rest(self.hart.window.index(oldest));
        if self.hart.window.slot(oldest).tags.kind != SlotKind::Load
            || LineAddress::of(self.hart.loads.get(rest.queue_number).address) != line
        {
            return;
        }
        self.charge_source(source, now);
    }

    /// The oldest load has held up dispatch, and its value comes from there.
    pub(crate) fn charge_source(&mut self, source: Source, now: u64) {
        let cycles = now.saturating_sub(self.hart.charged);
        let stack = &mut self.hart.statistics.stack;
        match source {
            Source::SecondLevel => stack.l2 += cycles,
            Source::LastLevel => stack.last_level += cycles,
            Source::Cache => stack.remote_cache += cycles,
            Source::Memory => stack.memory += cycles,
        }
        self.hart.charged += cycles;
    }

    /// The same for a line that has come through the second level.
    #[inline(never)]
    fn first_level_filled(
        &mut self,
        fill: FirstFill,
        source: Source,
        now: u64,
        outbox: &mut Outbox,
    ) {
        self.for_each_hart(|core| core.charge_miss(fill.line, source, now));
        self.line_filled(fill.line, (fill.slot, source), fill.evicted, now, outbox);
    }

    #[inline(always)]
    fn line_filled(
        &mut self,
        line: LineAddress,
        (slot, source): (Slot, Source),
        evicted: Option<LineAddress>,
        now: u64,
        outbox: &mut Outbox,
    ) {
        // Fills of a perfect cache are not counted.
        let counted = u64::from(!self.shared.spec.perfect_first_level);
        self.hart.statistics.lines_filled += counted;
        if let Some(prefetching) = &mut self.shared.data_prefetching {
            prefetching.filled(line, slot, evicted);
        }
        if let Some(evicted) = evicted {
            self.hart.statistics.lines_evicted += counted;
            self.line_lost(evicted, now);
        }
        if self.shared.translation.is_some() {
            self.walks_have_line(line, slot, now, outbox);
        }
        self.for_each_hart(|core| core.use_line(line, (slot, source), now, outbox));
        // Only now may the line be sent to another requester.
        let mut held = false;
        self.for_each_hart(|core| {
            if !held && core.is_held_line(line, now) {
                held = true;
                core.hold_fill(line, now, outbox);
            }
        });
        if !held {
            self.finish_fill(line, now, outbox);
        }
        for (line, message) in std::mem::take(&mut self.shared.postponed) {
            self.data_message(now, line, &message, outbox);
        }
        self.use_miss_register(now, outbox);
    }

    /// Continues the loads, the stores and the serializing instruction that wait for a line which
    /// has arrived.
    #[inline(always)]
    fn use_line(
        &mut self,
        line: LineAddress,
        (slot, source): (Slot, Source),
        now: u64,
        outbox: &mut Outbox,
    ) {
        let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
        let mut arrived = std::mem::take(&mut self.shared.arrived);
        // Usually their entries are adjacent.
        let mut place = 0;
        while let Some(first) = self.hart.missing[place..]
            .iter()
            .position(|one| one.line == line)
        {
            place += first;
            let others = self.hart.missing[place..]
                .iter()
                .position(|one| one.line != line);
            let end = others.map_or(self.hart.missing.len(), |others| place + others);
            arrived.extend(self.hart.missing.drain(place..end));
        }
        for (place, load) in arrived.drain(..).enumerate() {
            let index = load.index as usize;
            // A load that looks up the cache after the line's arrival hits like any other. An older
            // store may have got the same address meanwhile.
            let performed = load.issue.max(now);
            if load.live && !self.served_by_older_store(index, performed) {
                let done = (load.issue + hit_latency).max(now + 1);
                let position = self.hart.window.deferred(index).position;
                let found = match place {
                    0 => Found::Line(source),
                    _ => Found::Awaited(source),
                };
                self.note_found(position, found);
                if self.shared.supplier.is_some() {
                    self.tell_supplier(position, source);
                }
                self.take_value(index, slot, performed, done);
            }
        }
        self.shared.arrived = arrived;
        self.wake_all(now, outbox);
        // Due work may still be pending, and the line gone by then.
        if (self.hart.store_event > now || self.is_multithreaded()) && !self.hart.stores.is_empty()
        {
            self.perform_stores(now, outbox);
        }
        if let Some(serial) = &self.hart.serial
            && serial.waits_for_line(line)
        {
            self.run_serial(now, outbox);
        }
    }

    /// A line that this hart has reserved has arrived: other requesters must wait.
    fn hold_fill(&mut self, line: LineAddress, now: u64, outbox: &mut Outbox) {
        let forward = match &mut self.shared.second_level {
            None => self.shared.data_cache.keep_fill(),
            Some(second) => second.keep_fill(now, outbox),
        };
        if let Some(forward) = forward {
            self.hart.held.push((line, forward));
        }
    }

    /// A miss register has become free: the oldest refused load gets it.
    #[inline(always)]
    fn use_miss_register(&mut self, now: u64, outbox: &mut Outbox) {
        if self.shared.translation.is_some() {
            self.retry_walks(now, outbox);
        }
        if self.is_multithreaded() {
            self.share_miss_register(now, outbox);
        } else {
            self.retry_misses(now, outbox);
        }
        if !self.shared.stashes.is_empty() {
            self.fetch_stashes(now, outbox);
        }
    }

    /// Retries this hart's requests when a miss register has become free.
    #[inline(always)]
    pub(crate) fn retry_misses(&mut self, now: u64, outbox: &mut Outbox) {
        if !self.hart.refused.is_empty() {
            self.retry_refused(now, outbox);
            self.wake_all(now, outbox);
        }
        if self.hart.store_event > now && !self.hart.stores.is_empty() {
            self.hart.store_event = self.hart.store_event.min(now + 1);
        }
    }

    /// Requests the hinted lines, in order, as long as there are free miss registers.
    pub(crate) fn fetch_stashes(&mut self, now: u64, outbox: &mut Outbox) {
        while let Some(&(line, is_to_write)) = self.shared.stashes.front() {
            let is_here = match is_to_write {
                true => self.owns(line),
                false => self.shared.data_cache.find(line).is_some(),
            };
            if !is_here {
                let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
                let wanted = (Side::Data, line, is_to_write);
                if self.request_line(wanted, at, outbox) == RequestOutcome::Full {
                    return;
                }
            }
            self.shared.stashes.pop_front();
        }
    }

    fn is_held_line(&self, line: LineAddress, now: u64) -> bool {
        self.hart.reservation == Some(line)
            && self.hart.hold_until != NEVER
            && now < self.hart.hold_until
    }

    pub(crate) fn finish_fill(&mut self, line: LineAddress, now: u64, outbox: &mut Outbox) {
        let lost = if let Some(second) = &mut self.shared.second_level {
            let first = FirstLevel {
                instruction: &mut self.shared.instruction_cache,
                data: &mut self.shared.data_cache,
            };
            second.finish_fill(first, line, now, outbox)
        } else {
            let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
            let notice = self.shared.data_cache.finish_fill(line, at, outbox);
            matches!(notice, CacheNotice::Lost(_))
        };
        if lost {
            self.line_lost(line, now);
        }
    }

    /// The core no longer holds `line`. Loads that got its value for a later cycle must be
    /// repeated; so must loads that performed before an older load of the same line, because the
    /// two might otherwise see two values in the wrong order. With TSO the older one may be of any
    /// line (Gharachorloo, Gupta and Hennessy, "Two Techniques to Enhance the Performance of Memory
    /// Consistency Models", ICPP 1991: speculative loads).
    fn line_lost(&mut self, line: LineAddress, now: u64) {
        self.for_each_hart(|core| {
            core.lose_reservation(line, now);
            core.loads_lost(line, now);
        });
    }

    /// The same for the current hart, without its reservation.
    #[inline(always)]
    pub(crate) fn loads_lost(&mut self, line: LineAddress, now: u64) {
        if self.hart.loads.may_touch(line) {
            self.look_again(now, |load| LineAddress::of(load.address) == line);
        }
    }

    /// Another core has written `line`, or taken it: the hart loses its reservation.
    pub(crate) fn lose_reservation(&mut self, line: LineAddress, now: u64) {
        if self.hart.reservation == Some(line) {
            self.hart.reservation = None;
            // The line may have been evicted while other requesters waited for it.
            self.hart.hold_until = if self.hart.held.is_empty() {
                NEVER
            } else {
                now
            };
        }
    }
}
