//! Two sockets: the placement of queues and harts, and the messages between the sockets' hardware.
//!
//! Each socket has a monitoring set, which watches the doorbells in its memory, and, unless there
//! is one for both, a ready set of their queues. A `QWAIT` asks the ready set of its core's socket.
//! All that one socket's hardware has to tell the other's are words of 16 bytes between the tiles
//! where the link between them begins.
//!
//! # Stealing
//!
//! The other ready set is notified of each hart that halts. Harts of a partition and a socket are
//! interchangeable, so each ready set only counts the waiting harts of the other:
//!
//! | message | sent when | at the other end |
//! | --- | --- | --- |
//! | Ask | a hart halts | one more waits |
//! | Cancel | its own ready set has given a queue to a hart that waited | one less waits |
//! | Offer (queue) | a queue is ready, none of its own harts waits, and by its count one of the other's does; the ready bit is cleared, and one less waits | goes to the hart that has waited longest; back as a Return if none waits any more |
//! | Return (queue) | no hart waits any more | the queue is ready again, and one more waits: the Offer and the Cancel that it has met were of the same hart |
//!
//! *No queue is lost or given out twice.* A queue that is not armed is in one place: its ready bit,
//! an Offer, a Return, or a hart's hands; each step above moves it from one to the next. Only its
//! holder arms it.
//!
//! *No hart waits beside a ready queue.* Let W be the harts of a socket that wait, and V what the
//! other one counts. At all times, and in whatever order messages arrive,
//!
//! W = V + Asks - Cancels + Offers + Returns, of those under way
//!
//! for each step changes both sides alike. When none is under way, V = W; and a ready set that has
//! a queue for none of its own harts offers it as long as V > 0. V may be less than 0 for a while,
//! so it is kept as two numbers.
//!
//! A queue may have been removed, and added again, while it was away: a Return counts only if it is
//! of the last Offer of a queue that has not been removed since.

use crate::{PARTITIONS, Qid};
use fabric::{AgentContext, Fabric, ReplyTo, Request, Time};

/// Messages in flight between the sockets.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) enum Message {
    /// A core's request, to a ready set of the other socket.
    Request { request: Request },
    /// The answer to a core of the other socket, which has it after `delay`; or that there is none.
    Answer {
        reply_to: ReplyTo,
        result: Result<u64, ()>,
        delay: Time,
    },
    /// A hart has halted that could be given queues of this partition.
    Ask { partition: usize },
    /// One that had halted has got a queue.
    Cancel { partition: usize },
    /// A queue for a hart that waits in this partition; and the number of the offer.
    Offer {
        qid: Qid,
        partition: usize,
        number: u64,
    },
    /// The queue of this offer comes back to this partition.
    Return {
        qid: Qid,
        partition: usize,
        number: u64,
    },
}

/// The number of harts of the other socket that wait for queues of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Waiting {
    /// Asks.
    asked: u64,
    /// Those that have been cancelled or been sent an offer; before the Ask has come if the Cancel
    /// was faster.
    served: u64,
}

impl Waiting {
    pub(crate) fn ask(&mut self) {
        self.asked += 1;
    }

    pub(crate) fn serve(&mut self) {
        self.served += 1;
    }

    /// An offer has found no waiting hart.
    pub(crate) fn take_back(&mut self) {
        self.served -= 1;
    }

    pub(crate) fn is_any(&self) -> bool {
        self.asked > self.served
    }
}

/// The sockets and their ready sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sockets {
    /// The number of them.
    pub(crate) count: usize,
    /// How many ready sets; number `k` is on socket `k`.
    pub(crate) ready_sets: usize,
    /// Whether a ready set's queues go to harts of the other one.
    pub(crate) are_stolen: bool,
    cores: usize,
    /// Where the link to the other socket begins.
    link_tiles: [usize; 2],
}

impl Sockets {
    pub(crate) fn of(fabric: &Fabric, ready_sets: usize, are_stolen: bool) -> Sockets {
        let count = fabric.sockets();
        Sockets {
            count,
            ready_sets,
            are_stolen,
            cores: fabric.cores(),
            link_tiles: [fabric.link_tile(0), fabric.link_tile(count - 1)],
        }
    }

    pub(crate) fn of_core(&self, core: fabric::CoreId) -> usize {
        usize::from(core.0) * self.count / self.cores
    }

    /// The ready set that a core's `QWAIT` asks.
    pub(crate) fn set_of_core(&self, core: fabric::CoreId) -> usize {
        self.of_core(core).min(self.ready_sets - 1)
    }

    /// The ready set of doorbells in a socket's memory.
    pub(crate) fn set_of_socket(&self, socket: usize) -> usize {
        socket.min(self.ready_sets - 1)
    }

    /// The partition of the same number of the other ready set.
    pub(crate) fn other_partition(&self, partition: usize) -> usize {
        (partition + PARTITIONS) % (self.ready_sets * PARTITIONS)
    }

    /// Sends a message from a socket to the other, after `delay`.
    pub(crate) fn send(
        &self,
        context: &mut AgentContext<'_>,
        (from, to): (usize, usize),
        delay: Time,
        token: u64,
    ) {
        context.send_word(self.link_tiles[from], self.link_tiles[to], delay, token);
    }
}
