//! Messages between cores, private caches, homes and agents.

use crate::{LineAddress, LineData, Time};

/// A core's number on its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain)]
pub struct CoreId(pub u16);

/// A private cache's number on its fabric. Core `k` has `2k` for instructions and `2k + 1` for
/// data; the caches of agents follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain)]
pub struct CacheId(pub u16);

impl CacheId {
    /// The instruction cache of `core`.
    pub const fn instruction(core: CoreId) -> CacheId {
        CacheId(core.0 * 2)
    }

    /// The data cache of `core`.
    pub const fn data(core: CoreId) -> CacheId {
        CacheId(core.0 * 2 + 1)
    }
}

/// The location where a requested line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum Source {
    /// In the core's own second-level cache.
    SecondLevel,
    /// In the last-level cache.
    LastLevel,
    /// In another private cache.
    Cache,
    /// In memory.
    Memory,
}

/// Permission that comes with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum Grant {
    /// Others may hold it too; reading only.
    Shared,
    /// No other cache holds it; it may be written without a request.
    Exclusive,
    /// No other cache holds it, and it was requested for writing.
    Modified,
}

/// A message from a private cache to a line's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum ToHome {
    /// Wants to read the line.
    GetS,
    /// Wants to own the line; a sharer that upgrades sends this too.
    GetM,
    /// Gives up a line that it wrote.
    PutM(LineData),
    /// Gives up an exclusive line that it did not write.
    PutE,
    /// Has given up its shared copy.
    InvalidateAck,
    /// Answers a forward. `data` is the line's content if it was written here or the home has
    /// asked for it; `kept` tells whether a shared copy stays.
    ForwardAck {
        /// The line's bytes, where they may differ from the home's.
        data: Option<LineData>,
        /// The line was written here.
        dirty: bool,
        /// A shared copy stays in this cache.
        kept: bool,
    },
}

/// A message to a private cache, from a line's home or (data only) from the line's last owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum ToCache {
    /// The line, with permission, and where it was found.
    Data(Grant, Source, LineData),
    /// Give up the shared copy and acknowledge.
    Invalidate,
    /// Become a sharer, send the line to `requester`, tell the home.
    ForwardGetS {
        /// The requester; `None` if it is the home itself.
        requester: Option<CacheId>,
        /// The home has no copy and needs one, even of a clean line.
        with_data: bool,
    },
    /// Give the line up, send it to `requester`, tell the home.
    ForwardGetM {
        /// The requester; `None` if it is the home itself.
        requester: Option<CacheId>,
    },
    /// A `PutM` or `PutE` has been seen.
    PutAck,
}

/// The path of a core's request to an agent, and of the answer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// Over the mesh, to the agent's tile.
    Tile,
    /// Over the mesh, to the home of a line: for agents that are banked with the directory.
    Home(LineAddress),
    /// Over wires of its own, with a fixed latency.
    Fixed(Time),
}

impl state::State for Transit {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        // A latency is no time that has come or will come.
        let (mut kind, mut value) = match self {
            Transit::Tile => (0u64, 0),
            Transit::Home(line) => (1, line.0),
            Transit::Fixed(latency) => (2, latency.as_fs()),
        };
        kind.walk(walker);
        value.walk(walker);
        *self = match kind {
            0 => Transit::Tile,
            1 => Transit::Home(LineAddress(value)),
            _ => Transit::Fixed(Time::from_fs(value)),
        };
    }
}

impl state::Plain for Transit {
    fn blank() -> Transit {
        Transit::Tile
    }
}

/// A core's request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum RequestKind {
    /// A load from the agent's addresses. The reply is the value.
    Read {
        /// Physical address.
        address: u64,
        /// 1, 2, 4 or 8.
        bytes: u8,
    },
    /// A store to the agent's addresses. The reply's value is ignored.
    Write {
        /// Physical address.
        address: u64,
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// The value.
        value: u64,
    },
    /// An instruction of an extension.
    Custom {
        /// Which operation; the extension and its agent agree on the numbers.
        code: u32,
        /// Its operands.
        arguments: [u64; 2],
    },
}

/// A message that a core leaves for the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// When it leaves the core. Times in an outbox need not be sorted.
    pub at: Time,
    /// What it is.
    pub kind: OutgoingKind,
}

/// The two kinds of [`OutgoingMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum OutgoingKind {
    /// From a private cache to the home of `line`.
    Coherence {
        /// Sender.
        cache: CacheId,
        /// Which line.
        line: LineAddress,
        /// The message.
        message: ToHome,
    },
    /// From a private cache that owned `line` to the one that asked for it.
    Transfer {
        /// Sender.
        from: CacheId,
        /// Receiver.
        to: CacheId,
        /// Which line.
        line: LineAddress,
        /// Permission that the receiver gets.
        grant: Grant,
        /// Its bytes.
        data: LineData,
    },
    /// From a core to an agent.
    Request {
        /// Which agent; `None`: whoever owns the address of the access.
        agent: Option<crate::AgentId>,
        /// The way it travels.
        transit: Transit,
        /// What is asked.
        kind: RequestKind,
        /// Which of the core's harts asks.
        hart: u16,
        /// Comes back with the reply, so that the core knows what was answered.
        token: u64,
    },
}

/// Messages of one core for the fabric.
#[derive(Debug, Default)]
pub struct Outbox {
    /// In the order in which they were made.
    pub messages: Vec<OutgoingMessage>,
}

impl Outbox {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, at: Time, kind: OutgoingKind) {
        self.messages.push(OutgoingMessage { at, kind });
    }
}

/// A message from the fabric to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Delivery {
    /// When it takes effect.
    pub at: Time,
    /// Orders deliveries of one time.
    #[state(exact)]
    pub sequence: u64,
    /// What it is.
    pub kind: DeliveryKind,
}

/// The kinds of [`Delivery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum DeliveryKind {
    /// For one of the core's private caches.
    Cache {
        /// Which.
        cache: CacheId,
        /// The line.
        line: LineAddress,
        /// The message.
        message: ToCache,
    },
    /// An agent's answer to a request.
    Reply {
        /// The request's token.
        token: u64,
        /// The answer; `Err(())` means that the access is not one that the agent allows, or that
        /// no agent or memory is there: the core takes an access fault.
        result: Result<u64, ()>,
    },
    /// An interrupt line changes.
    Interrupt {
        /// That of which of the core's hardware threads.
        thread: u8,
        /// Its bit in `mip`.
        bit: u8,
        /// Raised or lowered.
        level: bool,
    },
    /// The core will want a line: a hint of an agent, which asks the core to fetch it.
    Stash {
        /// The line.
        line: LineAddress,
        /// Whether the core will write it, and not only read it.
        is_to_write: bool,
    },
    /// A notice of an agent to the core's extension. The two agree on its meaning.
    Notice {
        /// That of which of the core's hardware threads.
        thread: u8,
        /// What it is.
        header: u64,
    },
}

impl DeliveryKind {
    /// Whether it only ends an eviction.
    #[inline]
    pub fn is_acknowledgement(&self) -> bool {
        matches!(
            self,
            DeliveryKind::Cache {
                message: ToCache::PutAck,
                ..
            }
        )
    }
}

/// Deliveries for one core, in the order of their times.
#[derive(Debug, state::State)]
#[state(fields)]
pub struct Inbox {
    awaited: DeliveryQueue,
    /// The ends of evictions, which nothing waits for, in a separate queue: they are half of all
    /// deliveries, and short enough to overtake lines in flight.
    acknowledgements: DeliveryQueue,
    #[state(exact)]
    next_sequence: u64,
    /// When the next one takes effect, and whether it is the end of an eviction.
    #[state(fixed)]
    next_at: Time,
    #[state(fixed)]
    is_acknowledgement: bool,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            awaited: DeliveryQueue::default(),
            acknowledgements: DeliveryQueue::default(),
            next_sequence: 0,
            next_at: Time::NEVER,
            is_acknowledgement: false,
        }
    }
}

impl state::State for Inbox {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        self.walk_fields(walker);
        if walker.purpose() == state::Purpose::Compare {
            // Of two of one time it matters which comes first.
            let key = |delivery: &Delivery| (delivery.at, delivery.sequence);
            for one in &self.acknowledgements.0 {
                let before = |other: &Delivery| key(other) < key(one);
                let before = self.awaited.0.partition_point(before);
                walker.number(&mut (before as u64));
            }
        }
        self.find_next();
    }
}

/// Deliveries in the order of their times.
#[derive(Debug, Default)]
struct DeliveryQueue(std::collections::VecDeque<Delivery>);

impl state::State for DeliveryQueue {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        self.0.walk(walker);
    }
}

impl DeliveryQueue {
    /// Adds a delivery behind those of the same time or earlier.
    #[inline]
    fn push(&mut self, delivery: Delivery) {
        if self.0.back().is_none_or(|last| last.at <= delivery.at) {
            self.0.push_back(delivery);
        } else {
            self.insert(delivery);
        }
    }

    /// Adds a delivery that comes before others, of which there are few.
    #[inline(never)]
    fn insert(&mut self, delivery: Delivery) {
        let later = self.0.iter().rev();
        let later = later.take_while(|other| other.at > delivery.at).count();
        self.0.insert(self.0.len() - later, delivery);
    }

    /// When the next one takes effect; [`Time::NEVER`] if there is none.
    #[inline]
    fn next_at(&self) -> Time {
        self.0.front().map_or(Time::NEVER, |delivery| delivery.at)
    }
}

impl Inbox {
    /// Adds a delivery behind those of the same time or earlier.
    #[inline]
    pub fn push(&mut self, at: Time, kind: DeliveryKind) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let is_acknowledgement = kind.is_acknowledgement();
        if at < self.next_at {
            self.next_at = at;
            self.is_acknowledgement = is_acknowledgement;
        }
        let queue = if is_acknowledgement {
            &mut self.acknowledgements
        } else {
            &mut self.awaited
        };
        queue.push(Delivery { at, sequence, kind });
    }

    #[inline]
    fn find_next(&mut self) {
        let acknowledgement = self.acknowledgements.next_at();
        self.next_at = self.awaited.next_at().min(acknowledgement);
        self.is_acknowledgement = acknowledgement == self.next_at;
        if self.is_acknowledgement
            && let (Some(one), Some(other)) =
                (self.acknowledgements.0.front(), self.awaited.0.front())
        {
            self.is_acknowledgement = (one.at, one.sequence) < (other.at, other.sequence);
        }
    }

    /// When the next delivery takes effect; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// When the next delivery takes effect that is not the acknowledgement of an eviction, which
    /// nobody waits for; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_awaited_at(&self) -> Time {
        self.awaited.next_at()
    }

    /// The next delivery.
    #[inline]
    pub fn first(&self) -> Option<&Delivery> {
        if self.is_acknowledgement {
            self.acknowledgements.0.front()
        } else {
            self.awaited.0.front()
        }
    }

    /// Drops the next delivery.
    #[inline]
    pub fn remove_first(&mut self) {
        if self.is_acknowledgement {
            self.acknowledgements.0.pop_front();
        } else {
            self.awaited.0.pop_front();
        }
        self.find_next();
    }

    /// Takes the next delivery.
    #[inline]
    pub fn pop(&mut self) -> Option<Delivery> {
        let next = self.first().copied();
        self.remove_first();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inboxes_differ_if_deliveries_of_one_time_come_in_another_order() {
        let message = |message| DeliveryKind::Cache {
            cache: CacheId(1),
            line: LineAddress(7),
            message,
        };
        let inbox = |order: [ToCache; 2]| {
            let mut inbox = Inbox::default();
            for one in order {
                inbox.push(Time::from_fs(10), message(one));
            }
            let mut state = state::Comparer::new(0, 0, None);
            state::State::walk(&mut inbox, &mut state);
            state
        };
        let [first, second] = [ToCache::PutAck, ToCache::Invalidate];
        assert!(inbox([first, second]).is_equal(&inbox([first, second])));
        assert!(!inbox([first, second]).is_equal(&inbox([second, first])));
    }

    #[test]
    fn deliveries_come_in_the_order_of_their_times() {
        let mut inbox = Inbox::default();
        let message = |message| DeliveryKind::Cache {
            cache: CacheId(1),
            line: LineAddress(7),
            message,
        };
        let reply = DeliveryKind::Reply {
            token: 0,
            result: Ok(0),
        };
        let at = Time::from_fs;
        inbox.push(at(30), message(ToCache::Invalidate));
        inbox.push(at(10), message(ToCache::PutAck));
        inbox.push(at(30), reply);
        inbox.push(at(20), message(ToCache::PutAck));
        // The ends of evictions come first, but nobody waits for them.
        assert_eq!(inbox.next_at(), at(10));
        assert_eq!(inbox.next_awaited_at(), at(30));
        let order = [
            (at(10), message(ToCache::PutAck)),
            (at(20), message(ToCache::PutAck)),
            (at(30), message(ToCache::Invalidate)),
            (at(30), reply),
        ];
        for (time, kind) in order {
            let first = inbox.first().map(|delivery| (delivery.at, delivery.kind));
            assert_eq!(first, Some((time, kind)));
            inbox.remove_first();
        }
        assert_eq!(inbox.next_at(), Time::NEVER);
        assert_eq!(inbox.next_awaited_at(), Time::NEVER);
    }
}
