//! Plain instructions enter the window.

use super::front::Front;
use crate::blocks::Decoded;
use crate::core::Core;
use crate::kind::CoreKind;
use crate::ports::Unit;
use crate::queues::Load;
use crate::window::{Slot, UNKNOWN};
use fabric::{LineAddress, Outbox};

impl<K: CoreKind> Core<K> {
    /// The cycle in which both operands of an instruction are ready.
    #[inline(always)]
    pub(super) fn operands_ready(&self, decoded: &Decoded) -> u64 {
        let i = &decoded.instruction;
        self.hart.ready[usize::from(i.rs1)].max(self.hart.ready[usize::from(i.rs2)])
    }

    /// Puts an instruction into the window whose operands are ready at `ready`, and which begins to
    /// execute when it has issued, but not before `begin`; returns its issue cycle.
    #[inline(always)]
    pub(super) fn enter<const KNOWN: bool, const SINGLE: bool, const FREQUENT: bool>(
        &mut self,
        at: &mut Front,
        decoded: &Decoded,
        value: u64,
        ready: u64,
        begin: u64,
    ) -> u64 {
        let need = decoded.need;
        let next = at.cycle + 1;
        let issue = if !K::IN_ORDER {
            let earliest = ready.max(next);
            if FREQUENT {
                self.shared.calendar.issue_frequent(need, earliest)
            } else {
                self.issue_at(decoded, earliest)
            }
        } else if SINGLE && (FREQUENT || need.is_frequent()) && at.last_issue <= at.cycle {
            // One instruction a cycle: later ones are dispatched later, and issue later.
            next
        } else {
            at.last_issue = self.issue_at(decoded, next);
            at.latest = at.latest.max(at.last_issue + u64::from(need.latency));
            if at.last_issue > next {
                at.room = 0;
                at.limit = 0;
            }
            at.last_issue
        };
        let done = issue.max(begin) + u64::from(need.latency);
        if SINGLE && !FREQUENT {
            at.latest = at.latest.max(done);
        }
        let commit = if !KNOWN {
            UNKNOWN
        } else if SINGLE {
            (done + 1).max(at.last_commit + 1)
        } else {
            self.hart.window.commit_at(at.tail, at.last_commit, done)
        };
        let register = usize::from(decoded.instruction.rd);
        let slot = Slot {
            issue,
            complete: done,
            previous_value: self.hart.registers[register],
            previous_ready: self.hart.ready[register],
            tags: decoded.tags,
        };
        self.hart.window.place(at.tail, slot, commit);
        self.hart.registers[register] = value;
        self.hart.ready[register] = done;
        if KNOWN {
            at.last_commit = commit;
        }
        at.tail += 1;
        if SINGLE {
            at.cycle = next;
        }
        issue
    }

    /// The same for infrequent instructions, out of line to keep the loop small.
    #[inline(never)]
    pub(super) fn enter_rarely<const KNOWN: bool, const SINGLE: bool>(
        &mut self,
        mut at: Front,
        decoded: &Decoded,
        value: u64,
        ready: u64,
        begin: u64,
    ) -> (Front, u64) {
        let issue = self.enter::<KNOWN, SINGLE, false>(&mut at, decoded, value, ready, begin);
        (at, issue)
    }

    /// Books the issue of an instruction at `earliest` or later: the general case.
    #[inline(never)]
    fn issue_at(&mut self, decoded: &Decoded, earliest: u64) -> u64 {
        self.shared.calendar.issue(
            decoded.tags.unit,
            decoded.need,
            earliest,
            &mut self.hart.statistics.operations,
        )
    }

    /// Puts a load into the window that takes its value from the store with this number.
    #[inline(always)]
    pub(super) fn enter_forwarded<const SINGLE: bool>(
        &mut self,
        at: &mut Front,
        decoded: &Decoded,
        address: u64,
        number: u64,
    ) {
        let store = self.hart.stores.get(number);
        let data = store.data >> ((address - store.address) * 8);
        let value = decoded.extended(data);
        let begin = store.data_ready;
        let ready = self.operands_ready(decoded);
        let issue;
        (*at, issue) = self.enter_rarely::<true, SINGLE>(*at, decoded, value, ready, begin);
        self.hart.loads.push(Load {
            position: at.tail - 1,
            address,
            performed: issue.max(begin),
            forwarded_from: number + 1,
            commit: at.last_commit,
            bytes: decoded.bytes,
        });
        self.hart.loads.committed += 1;
        self.hart.statistics.forwarded_loads += 1;
    }

    /// Puts an instruction into the window that waits for some of its operands; returns its index
    /// among the deferred ones.
    #[inline(always)]
    pub(super) fn enter_deferred(&mut self, at: &mut Front, decoded: &Decoded) -> usize {
        let place = (at.tail, at.cycle);
        let index = self.place_deferred::<2>(place, &decoded.instruction, decoded.tags, UNKNOWN);
        self.shared.unissued += 1;
        at.tail += 1;
        index
    }

    /// Puts a load into the window whose address is ready at `ready`, without older stores in its
    /// way, and whose line is not in the data cache.
    #[inline(never)]
    pub(super) fn enter_miss(
        &mut self,
        (position, cycle): (u64, u64),
        decoded: &Decoded,
        (address, ready): (u64, u64),
        outbox: &mut Outbox,
    ) {
        let need = decoded.need;
        let earliest = ready.max(cycle + 1);
        let issue = self.shared.calendar.issue(
            Unit::Load,
            need,
            earliest,
            &mut self.hart.statistics.operations,
        );
        let number = self.hart.loads.push(Load {
            position,
            address,
            performed: UNKNOWN,
            forwarded_from: 0,
            commit: UNKNOWN,
            bytes: decoded.bytes,
        });
        let place = (position, cycle);
        let index = self.place_deferred::<0>(place, &decoded.instruction, decoded.tags, issue);
        let rest = self.hart.window.rest_mut(index);
        rest.queue_number = number;
        rest.stores_before = 0;
        self.load_misses(index, LineAddress::of(address), issue, outbox);
    }
}
