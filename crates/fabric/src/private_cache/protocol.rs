//! The cache's side of the coherence protocol.
//!
//! # States and events
//!
//! A line at a cache has a stable state (I, S, E, M), at most one outstanding request (GetS or
//! GetM), and perhaps an entry in the eviction buffer: an owned line whose Put has not been
//! acknowledged. The home's messages to one cache arrive in the order sent; a Transfer from another
//! cache is not ordered with them. After Sorin, Hill and Wood, *A Primer on Memory Consistency and
//! Cache Coherence*, ch. 8, with MESI's silent E to M and silent eviction from S.
//!
//! | event | eviction buffer has it | E or M | S | I, GetM sent | I, GetS sent | I |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | Data | as without | error | upgrade (GetM sent), or error | fill as M | fill as S or E | error |
//! | Invalidate | never | error | drop, ack: *Lost* | ack | ack; if the data comes with S, use it once | ack |
//! | ForwardGetS | answer from buffer | send data, to S: *Downgraded* | never | keep until filled | error | error |
//! | ForwardGetM | answer from buffer | send data, to I: *Lost* | never | keep until filled | error | error |
//! | PutAck | drop the oldest entry | error | error | error | error | error |
//! | replacement | | Put, into the buffer | silent | | | |
//!
//! The reasons that they are correct:
//!
//! - *Forward while the buffer has the line.* The home sends a PutAck when it has seen the Put, so
//!   a forward that arrives before the PutAck was sent before it, when this cache was the owner,
//!   even if the line has been requested again meanwhile.
//! - *Forward with GetM sent and nothing in the buffer.* The home has made this cache the owner,
//!   and the data is in flight from the last owner. It must be used once before it is given up, or
//!   two writers could take it from each other forever.
//! - *A forward never meets GetS sent alone*: a GetS makes an owner only by Data(Exclusive) from
//!   the home, which arrives before any later forward.
//! - *A forward never meets S*: a sharer becomes owner by Data(Modified) from the home, which
//!   arrives before any later forward. Data comes from another owner only after that one's
//!   ownership has invalidated the copy here.
//! - *An Invalidate never meets the eviction buffer*: it is for sharers, and to be a sharer again
//!   the cache had to send a request after its Put, so the PutAck was sent first.
//! - *Invalidate with GetS sent.* It is for a copy that was evicted silently, or for the copy in
//!   flight from the last owner. The cache cannot distinguish these, so it does not keep a Shared
//!   copy. The waiting loads may use the value: it was current after they were issued. Later loads
//!   must not use it, because they may follow others that have read newer writes; they request the
//!   line again after its arrival. Data with E comes from the home, ordered, so the Invalidate was
//!   for an older copy.
//! - *Invalidate with GetM sent*: this cache's GetM was not first. The home does not send
//!   Invalidates to an owner, so it is never for the data in flight.

use super::{
    CacheNotice, Eviction, Fill, Forward, INVALID, Miss, PrivateCache, RequestOutcome, Slot, State,
    UNUSED, internal_error, low_bits,
};
use crate::{Grant, LineAddress, LineData, Outbox, OutgoingKind, Source, Time, ToCache, ToHome};

impl PrivateCache {
    /// Requests `line` from the home, for writing or only for reading. The message leaves at `at`.
    pub fn request(
        &mut self,
        line: LineAddress,
        write: bool,
        at: Time,
        out: &mut Outbox,
    ) -> RequestOutcome {
        debug_assert!(
            self.find(line)
                .is_none_or(|slot| write && !self.writable(slot)),
            "a line is asked for that is here"
        );
        let outcome = self.begin_miss(line, write);
        if outcome == RequestOutcome::Sent {
            let message = if write { ToHome::GetM } else { ToHome::GetS };
            self.to_home(line, message, at, out);
        }
        outcome
    }

    /// Allocates a miss register for `line`.
    #[inline]
    pub(crate) fn begin_miss(&mut self, line: LineAddress, write: bool) -> RequestOutcome {
        if let Some(index) = self.miss_of(line) {
            if self.misses[index].comes_too_late() && !write {
                reached!("load behind an Invalidate of the line that is under way");
                return RequestOutcome::Full;
            }
            self.note_late(index);
            return RequestOutcome::Pending;
        }
        if self.misses.len() >= self.mshrs {
            return RequestOutcome::Full;
        }
        self.misses.push(Miss {
            line,
            write,
            prefetched: false,
            invalidated: false,
            forward: None,
        });
        self.missing[low_bits(line)] += 1;
        RequestOutcome::Sent
    }

    /// The index of the outstanding miss of `line`, if any.
    #[inline]
    pub(super) fn miss_of(&self, line: LineAddress) -> Option<usize> {
        if self.missing[low_bits(line)] == 0 {
            return None;
        }
        self.misses.iter().position(|miss| miss.line == line)
    }

    #[inline]
    pub(super) fn remove_miss(&mut self, index: usize) -> Miss {
        let miss = self.misses.swap_remove(index);
        self.missing[low_bits(miss.line)] -= 1;
        miss
    }

    #[inline]
    fn to_home(&self, line: LineAddress, message: ToHome, at: Time, out: &mut Outbox) {
        let cache = self.id;
        out.push(
            at,
            OutgoingKind::Coherence {
                cache,
                line,
                message,
            },
        );
    }

    /// Handles a message of the fabric, at the time of its delivery.
    pub fn receive(
        &mut self,
        line: LineAddress,
        message: &ToCache,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        debug_assert!(self.fill.is_none(), "a fill has not been finished");
        cell!(self.note_message(line, message));
        match *message {
            ToCache::Data(grant, source, ref data) => {
                self.fill(line, (grant, source), data, at, out)
            }
            ToCache::Invalidate => self.invalidate(line, at, out),
            ToCache::ForwardGetS {
                requester,
                with_data,
            } => {
                let forward = Forward {
                    requester,
                    write: false,
                    with_data,
                };
                self.forward(line, forward, at, out)
            }
            ToCache::ForwardGetM { requester } => {
                let forward = Forward {
                    requester,
                    write: true,
                    with_data: false,
                };
                self.forward(line, forward, at, out)
            }
            ToCache::PutAck => {
                self.acknowledge(line);
                CacheNotice::None
            }
        }
    }

    /// Handles a PutAck, like [`PrivateCache::receive`].
    #[inline]
    pub fn acknowledge(&mut self, line: LineAddress) {
        let mut evictions = self.evictions.iter();
        match evictions.position(|eviction| eviction.line == line) {
            Some(0) => drop(self.evictions.pop_front()),
            Some(index) => drop(self.evictions.remove(index)),
            None => internal_error(self.id, line, "a PutAck without a Put"),
        }
    }

    fn fill(
        &mut self,
        line: LineAddress,
        (grant, source): (Grant, Source),
        data: &LineData,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        let Some(index) = self.miss_of(line) else {
            internal_error(self.id, line, "data that was not asked for");
        };
        let miss = self.remove_miss(index);
        if miss.write != (grant == Grant::Modified) {
            internal_error(
                self.id,
                line,
                "data with a permission that was not asked for",
            );
        }
        let mut evicted = None;
        // A line that is present can only have been requested for writing.
        debug_assert!(
            miss.write || self.find(line).is_none(),
            "a line is here already"
        );
        let here = if miss.write { self.find(line) } else { None };
        let slot = match here {
            Some(slot) => {
                self.touch(slot);
                slot
            }
            None => {
                let slot = self.take_way(line);
                if self.tags[slot as usize] != INVALID {
                    evicted = Some(self.evict(slot, at, out));
                }
                *self.free_ways(line) -= 1;
                slot
            }
        };
        let place = slot as usize;
        self.tags[place] = match miss.prefetched && here.is_none() {
            true => line.0 | UNUSED,
            false => line.0,
        };
        self.states[place] = match grant {
            Grant::Shared => State::Shared,
            Grant::Exclusive => State::Exclusive,
            // It may come from another cache and be newer than at home.
            Grant::Modified => State::Modified,
        };
        self.data[place].0 = *data;
        self.version += 1;
        let use_once = miss.invalidated && grant == Grant::Shared;
        if use_once {
            reached!("data that is used once");
        }
        if miss.invalidated && grant == Grant::Exclusive {
            reached!("exclusive data after an Invalidate of an older copy");
        }
        #[cfg(test)]
        if self.evictions.iter().any(|eviction| eviction.line == line) {
            reached!("data before the PutAck of the line's last eviction");
        }
        self.fill = Some(Fill {
            line,
            use_once,
            forward: miss.forward,
        });
        CacheNotice::Filled {
            slot,
            grant,
            source,
            evicted,
            use_once,
        }
    }

    pub(super) fn evict(&mut self, slot: Slot, at: Time, out: &mut Outbox) -> LineAddress {
        let place = slot as usize;
        let line = self.replaced(slot);
        cell!(self.note("replacement", line));
        self.tags[place] = INVALID;
        *self.free_ways(line) += 1;
        let dirty = match self.states[place] {
            State::Shared => return line,
            State::Exclusive => false,
            State::Modified => true,
        };
        let data = self.data[place].0;
        self.evictions.push_back(Eviction { line, dirty, data });
        if dirty {
            self.to_home(line, ToHome::PutM(data), at, out);
        } else {
            self.to_home(line, ToHome::PutE, at, out);
        }
        line
    }

    fn invalidate(&mut self, line: LineAddress, at: Time, out: &mut Outbox) -> CacheNotice {
        self.to_home(line, ToHome::InvalidateAck, at, out);
        if let Some(slot) = self.find(line) {
            if self.writable(slot) {
                internal_error(self.id, line, "an Invalidate to its owner");
            }
            if self.is_pending(line) {
                reached!("Invalidate of a copy that waits to be upgraded");
            }
            return self.lose(slot);
        }
        if let Some(miss) = self.misses.iter_mut().find(|miss| miss.line == line) {
            reached!("Invalidate without a copy while the line is under way");
            miss.invalidated = true;
        }
        CacheNotice::None
    }

    pub(super) fn lose(&mut self, slot: Slot) -> CacheNotice {
        let line = LineAddress(self.tags[slot as usize] & !UNUSED);
        self.tags[slot as usize] = INVALID;
        *self.free_ways(line) += 1;
        self.version += 1;
        CacheNotice::Lost(line)
    }

    fn forward(
        &mut self,
        line: LineAddress,
        forward: Forward,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        if let Some(eviction) = self.evictions.iter().find(|eviction| eviction.line == line) {
            let (dirty, data) = (eviction.dirty, eviction.data);
            reached!("forward answered from the eviction buffer");
            if self.is_pending(line) {
                reached!("forward of an evicted line that has been asked for again");
            }
            self.answer_forward(line, forward, dirty, &data, false, at, out);
            return CacheNotice::None;
        }
        if let Some(slot) = self.find(line)
            && self.writable(slot)
        {
            let dirty = self.state(slot) == State::Modified;
            let data = *self.line(slot);
            let kept = !forward.write;
            self.answer_forward(line, forward, dirty, &data, kept, at, out);
            if !kept {
                return self.lose(slot);
            }
            self.states[slot as usize] = State::Shared;
            self.version += 1;
            return CacheNotice::Downgraded(line);
        }
        match self.misses.iter_mut().find(|miss| miss.line == line) {
            Some(miss) if miss.write && miss.forward.is_none() => {
                reached!("forward before the data");
                miss.forward = Some(forward);
            }
            _ => internal_error(self.id, line, "a forward to a cache that is not the owner"),
        }
        CacheNotice::None
    }

    #[allow(clippy::too_many_arguments)]
    fn answer_forward(
        &self,
        line: LineAddress,
        forward: Forward,
        dirty: bool,
        data: &LineData,
        kept: bool,
        at: Time,
        out: &mut Outbox,
    ) {
        let grant = if forward.write {
            Grant::Modified
        } else {
            Grant::Shared
        };
        if let Some(to) = forward.requester {
            let (from, data) = (self.id, *data);
            out.push(
                at,
                OutgoingKind::Transfer {
                    from,
                    to,
                    line,
                    grant,
                    data,
                },
            );
        }
        // A new owner has the data and will write it back; otherwise the home needs it.
        let home_needs = dirty && (forward.requester.is_none() || grant == Grant::Shared);
        let data = (home_needs || forward.with_data).then_some(*data);
        self.to_home(line, ToHome::ForwardAck { data, dirty, kept }, at, out);
    }

    /// Ends the use of a line that has just been [filled](CacheNotice::Filled): performs the
    /// operations that waited for the data. Must be called once after each fill, at the same time.
    pub fn finish_fill(&mut self, line: LineAddress, at: Time, out: &mut Outbox) -> CacheNotice {
        let Some(fill) = self.fill.take() else {
            internal_error(self.id, line, "a fill is finished that did not begin");
        };
        debug_assert_eq!(
            fill.line, line,
            "another fill is finished than the one that began"
        );
        if let Some(forward) = fill.forward {
            return self.forward(line, forward, at, out);
        }
        if fill.use_once
            && let Some(slot) = self.find(line)
        {
            return self.lose(slot);
        }
        CacheNotice::None
    }

    /// Whether a line has been [filled](CacheNotice::Filled) and its use has not ended.
    pub fn is_filling(&self) -> bool {
        self.fill.is_some()
    }

    /// Like [`PrivateCache::finish_fill`] for a line that arrived with ownership, except that a
    /// forward that waited for the data continues to wait: it is returned to the caller, who passes
    /// it to [`PrivateCache::receive`] later.
    pub fn keep_fill(&mut self) -> Option<ToCache> {
        let fill = self.fill.take()?;
        fill.forward.map(Forward::message)
    }
}
