//! The prefetcher of the first-level data cache.
//!
//! It is told of each load that looks into the cache, in the order in which they do, with its
//! program counter. Its requests leave at the end of the load's look-up, as that of a miss does.

use crate::core::Core;
use crate::extension::Extension;
use crate::kind::CoreKind;
use fabric::{LineAddress, LoadInstruction, Outbox, Prefetching, RequestOutcome, Side};

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Gives the data cache the prefetcher that the core is described with, if any.
    pub(crate) fn attach_data_prefetcher(&mut self) {
        let spec = &self.shared.spec;
        let kind = (spec.l1_data_prefetcher, spec.l1_data_stride);
        let (cache, memory) = (&self.shared.data_cache, &self.shared.memory_map);
        self.shared.data_prefetching = Prefetching::of_data(kind, cache, memory).map(Box::new);
        self.for_each_hart(|core| core.hart.observes = core.is_observed());
    }

    /// The load at `pc`, of `address`, looks into the data cache at cycle `issue`.
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
            let outcome = match self.shared.data_cache.may_prefetch(line) {
                RequestOutcome::Sent => self.request_line((Side::Data, line, false), at, outbox),
                other => other,
            };
            if outcome == RequestOutcome::Sent {
                self.expect_answer(at);
                self.shared.spin.disturb();
            }
            outcome
        });
        self.shared.data_prefetching = Some(prefetching);
    }

    /// The same for the load in slot `index`, whose address is known.
    #[inline(never)]
    pub(crate) fn tell_prefetcher_of(&mut self, index: usize, issue: u64, outbox: &mut Outbox) {
        let position = self.hart.window.deferred(index).position;
        let pc = self.hart.window.slot(position).tags.pc;
        let number = self.hart.window.rest(index).queue_number;
        let address = self.hart.loads.get(number).address;
        self.tell_prefetcher((pc, address), issue, outbox);
    }
}
