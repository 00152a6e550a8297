//! Messages from the fabric to a core, and reserved lines that other requesters wait for.

use super::{Core, NEVER};
use crate::kind::CoreKind;
use fabric::{CacheId, CacheNotice, DeliveryKind, FirstFill, LineAddress, Outbox, ToCache};

impl<K: CoreKind> Core<K> {
    pub(crate) fn deliver(&mut self, now: u64, kind: &DeliveryKind, outbox: &mut Outbox) {
        self.shared.spin.disturb();
        self.take_delivery(now, kind, outbox);
        // An acknowledgement may be taken late, because nothing waits for it: nothing is sent then.
        if self.shared.supplier.is_some() && !kind.is_acknowledgement() {
            self.withdraw_loads(now, outbox);
        }
    }

    #[inline(always)]
    fn take_delivery(&mut self, now: u64, kind: &DeliveryKind, outbox: &mut Outbox) {
        match *kind {
            DeliveryKind::Cache {
                cache,
                line,
                ref message,
            } => {
                if cache == CacheId::instruction(self.shared.id) {
                    self.instruction_message(now, line, message, outbox);
                    return;
                }
                if matches!(message, ToCache::PutAck) && self.shared.second_level.is_none() {
                    // Only the cache is affected.
                    self.shared.data_cache.acknowledge(line);
                    return;
                }
                self.hart.statistics.note_message(message);
                let mut held = false;
                self.for_each_hart(|core| {
                    if !held && core.is_held(now, line, message) {
                        core.hart.held.push((line, *message));
                        held = true;
                    }
                });
                if !held {
                    self.data_message(now, line, message, outbox);
                }
            }
            DeliveryKind::Reply { token, result } => {
                self.for_each_hart(|core| core.replied_to(token, result));
            }
            DeliveryKind::Stash { line, is_to_write } => {
                self.shared.stashes.push_back((line, is_to_write));
                self.fetch_stashes(now, outbox);
            }
            DeliveryKind::Notice { thread, header } => {
                if K::IS_ACTIVE && self.has_hart(thread) {
                    self.with_hart(thread, |core| {
                        core.hart.extension.notice(now, header);
                        core.extension_has_changed(now, outbox);
                    });
                }
            }
            DeliveryKind::Supply {
                thread,
                token,
                supply,
            } => {
                if self.has_hart(thread) {
                    self.with_hart(thread, |core| core.supplied(now, (token, supply), outbox));
                }
            }
            DeliveryKind::SuppliedLineLost { line } => self.supplied_line_lost(line, now),
            DeliveryKind::Interrupt { thread, bit, level } => {
                if self.has_hart(thread) {
                    self.with_hart(thread, |core| {
                        core.hart.privileged.set_interrupt(bit, level)
                    });
                }
            }
        }
    }

    fn has_hart(&self, thread: u8) -> bool {
        thread < self.shared.spec.threads
    }

    fn is_held(&self, now: u64, line: LineAddress, message: &ToCache) -> bool {
        self.hart.reservation == Some(line)
            && now < self.hart.hold_until
            && self.hart.hold_until != NEVER
            && matches!(
                message,
                ToCache::Invalidate | ToCache::ForwardGetS { .. } | ToCache::ForwardGetM { .. }
            )
    }

    pub(crate) fn release_held(&mut self, now: u64, outbox: &mut Outbox) {
        self.hart.hold_until = NEVER;
        if self.is_filling() {
            // A store that waited for the line of one hart may end the hold of another line.
            self.shared.postponed.append(&mut self.hart.held);
            return;
        }
        for (line, message) in std::mem::take(&mut self.hart.held) {
            self.data_message(now, line, &message, outbox);
        }
    }

    /// Whether a fill of the data cache is in progress.
    fn is_filling(&self) -> bool {
        match &self.shared.second_level {
            None => self.shared.data_cache.is_filling(),
            Some(second) => second.is_filling(),
        }
    }

    fn instruction_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        let at = self.departure(now, self.shared.spec.l1_instruction.hit_latency_cycles);
        if let ToCache::Data(_, source, _) = message {
            self.hart.statistics.note_source(*source);
        }
        let mut notice = self
            .shared
            .instruction_cache
            .receive(line, message, at, outbox);
        while let CacheNotice::Filled { slot, evicted, .. } = notice {
            self.instructions_filled(FirstFill {
                line,
                slot,
                evicted,
            });
            notice = self.shared.instruction_cache.finish_fill(line, at, outbox);
        }
    }
}
