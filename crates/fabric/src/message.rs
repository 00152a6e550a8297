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

/// The permission granted with a line.
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
    /// Requests the line for reading.
    GetS,
    /// Requests ownership of the line; a sharer that upgrades sends this too.
    GetM,
    /// Returns a line that the cache wrote.
    PutM(LineData),
    /// Returns an exclusive line that the cache did not write.
    PutE,
    /// Acknowledges that the shared copy is gone.
    InvalidateAck,
    /// Answers a forward. `data` is the line's content if it was written here or the home has
    /// requested it; `kept` tells whether a shared copy remains.
    ForwardAck {
        /// The line's bytes, if they may differ from the home's.
        data: Option<LineData>,
        /// Whether the line was written here.
        dirty: bool,
        /// Whether a shared copy remains in this cache.
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
    /// Become a sharer, send the line to `requester`, and notify the home.
    ForwardGetS {
        /// The requester; `None` if it is the home itself.
        requester: Option<CacheId>,
        /// Whether the home has no copy and needs one, even of a clean line.
        with_data: bool,
    },
    /// Give up the line, send it to `requester`, and notify the home.
    ForwardGetM {
        /// The requester; `None` if it is the home itself.
        requester: Option<CacheId>,
    },
    /// A `PutM` or `PutE` has been received.
    PutAck,
}

/// The path of a core's request to an agent, and of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// Over the mesh, to the agent's tile.
    Tile,
    /// Over the mesh, to the home of a line: for agents that are banked with the directory.
    Home(LineAddress),
    /// Over dedicated wires, with a fixed latency.
    Fixed(Time),
    /// Over the mesh, to the agent's tile, as a message of so many bytes.
    Message(u64),
}

impl state::State for Transit {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        // A latency is a duration, not a point in time.
        let (mut kind, mut value) = match self {
            Transit::Tile => (0u64, 0),
            Transit::Home(line) => (1, line.0),
            Transit::Fixed(latency) => (2, latency.as_fs()),
            Transit::Message(bytes) => (3, *bytes),
        };
        kind.walk(walker);
        value.walk(walker);
        *self = match kind {
            0 => Transit::Tile,
            1 => Transit::Home(LineAddress(value)),
            2 => Transit::Fixed(Time::from_fs(value)),
            _ => Transit::Message(value),
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
        /// The operation; the extension and its agent agree on the numbers.
        code: u32,
        /// Its operands.
        arguments: [u64; 2],
    },
}

/// A message that a core leaves for the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The time at which it leaves the core. Times in an outbox need not be sorted.
    pub at: Time,
    /// Its kind and contents.
    pub kind: OutgoingKind,
}

/// The two kinds of [`OutgoingMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum OutgoingKind {
    /// From a private cache to the home of `line`.
    Coherence {
        /// Sender.
        cache: CacheId,
        /// The line.
        line: LineAddress,
        /// The message.
        message: ToHome,
    },
    /// From a private cache that owned `line` to the requester.
    Transfer {
        /// Sender.
        from: CacheId,
        /// Receiver.
        to: CacheId,
        /// The line.
        line: LineAddress,
        /// Permission granted to the receiver.
        grant: Grant,
        /// Its bytes.
        data: LineData,
    },
    /// From a core to an agent.
    Request {
        /// The agent; `None`: the one that owns the address of the access.
        agent: Option<crate::AgentId>,
        /// The path of the request.
        transit: Transit,
        /// The kind of request.
        kind: RequestKind,
        /// The requesting hart of the core.
        hart: u16,
        /// Returned with the reply, so that the core can match it.
        token: u64,
    },
}

/// Messages of one core for the fabric.
#[derive(Debug, Default)]
pub struct Outbox {
    /// In order of creation.
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
    /// The time at which it takes effect.
    pub at: Time,
    /// Orders simultaneous deliveries.
    #[state(exact)]
    pub sequence: u64,
    /// Its kind and contents.
    pub kind: DeliveryKind,
}

/// The kinds of [`Delivery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum DeliveryKind {
    /// For one of the core's private caches.
    Cache {
        /// The cache.
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
        /// The answer; `Err(())` means that the agent does not permit the access, or that neither
        /// an agent nor memory is at the address: the core takes an access fault.
        result: Result<u64, ()>,
    },
    /// An interrupt line changes.
    Interrupt {
        /// The core's hardware thread.
        thread: u8,
        /// Its bit in `mip`.
        bit: u8,
        /// Whether it was raised.
        level: bool,
    },
    /// An agent's hint that the core should fetch a line.
    Stash {
        /// The line.
        line: LineAddress,
        /// Whether the core will write it.
        is_to_write: bool,
    },
    /// A notice of an agent to the core's extension. The two agree on its meaning.
    Notice {
        /// The core's hardware thread.
        thread: u8,
        /// The notice.
        header: u64,
    },
    /// From an agent at a memory controller that gets the values of a core's loads. It comes behind
    /// all that the agent has sent to the core before.
    Supply {
        /// The core's hardware thread.
        thread: u8,
        /// The token of the core's request.
        token: u64,
        /// What it tells.
        supply: Supply,
    },
    /// Values that such an agent has supplied from this line may be too old from now on. It comes
    /// behind all that the agent has sent to the core before, and before the line is written.
    SuppliedLineLost {
        /// The line.
        line: LineAddress,
    },
}

/// What an agent tells a core that has handed the agent some of its loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum Supply {
    /// It works on them, and will end.
    Begun,
    /// The value of a load. Until the core is told that the line is
    /// [lost](DeliveryKind::SuppliedLineLost), memory has it.
    Value {
        /// Which of the loads.
        place: u8,
        /// What the load accesses.
        address: u64,
        /// The load's bytes there, the others zero.
        value: u64,
        /// Where the line was found.
        source: Source,
    },
    /// It supplies nothing more.
    Ended,
}

impl DeliveryKind {
    /// Whether it only acknowledges an eviction.
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

/// Deliveries for one core, in order of time.
#[derive(Debug, state::State)]
#[state(fields)]
pub struct Inbox {
    awaited: DeliveryQueue,
    /// Acknowledgements of evictions, which nothing waits for, in a separate queue: they are half
    /// of all deliveries, and short enough to overtake lines in flight.
    acknowledgements: DeliveryQueue,
    #[state(exact)]
    next_sequence: u64,
    /// The time of the next delivery, and whether it acknowledges an eviction.
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
            // The order of two simultaneous deliveries matters.
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

/// Deliveries in order of time.
#[derive(Debug, Default)]
struct DeliveryQueue(std::collections::VecDeque<Delivery>);

impl state::State for DeliveryQueue {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        self.0.walk(walker);
    }
}

impl DeliveryQueue {
    /// Adds a delivery after those of the same time or earlier.
    #[inline]
    fn push(&mut self, delivery: Delivery) {
        if self.0.back().is_none_or(|last| last.at <= delivery.at) {
            self.0.push_back(delivery);
        } else {
            self.insert(delivery);
        }
    }

    /// Inserts a delivery before others, of which there are few.
    #[inline(never)]
    fn insert(&mut self, delivery: Delivery) {
        let later = self.0.iter().rev();
        let later = later.take_while(|other| other.at > delivery.at).count();
        self.0.insert(self.0.len() - later, delivery);
    }

    /// The time of the next delivery; [`Time::NEVER`] if there is none.
    #[inline]
    fn next_at(&self) -> Time {
        self.0.front().map_or(Time::NEVER, |delivery| delivery.at)
    }
}

impl Inbox {
    /// Adds a delivery after those of the same time or earlier.
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

    /// The time of the next delivery; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// The time of the next delivery other than acknowledgements of evictions, which nothing waits
    /// for; [`Time::NEVER`] if there is none.
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
        // The acknowledgement comes first, but nothing waits for it.
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
