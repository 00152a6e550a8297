//! The transactions of busy lines.

use super::HomeWrite;
use crate::{AgentId, CacheId, LineAddress, LineData, Source};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, Hash, state::State, state::Plain)]
pub(super) enum Request {
    Get {
        cache: CacheId,
        write: bool,
    },
    ReadAtHome {
        agent: AgentId,
    },
    WriteAtHome(HomeWrite),
    /// A prefetch by the home itself.
    Prefetch,
    Put {
        cache: CacheId,
        data: Option<LineData>,
    },
}

/// The kind of access that brings a line into the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Core,
    Io,
}

/// The event that a busy line waits for.
#[derive(Clone, Copy, Debug, Hash, state::State, state::Plain)]
pub(super) enum Step {
    /// None: the line is between two requests of the queue.
    Between,
    Memory(Request),
    Invalidates {
        request: Request,
        missing: u32,
        /// The location where the requested line was found.
        source: Source,
    },
    Forward {
        owner: u16,
        request: Request,
    },
    ReadOut,
    /// The line is being evicted.
    Recall {
        owner: u16,
        missing: u32,
    },
}

#[derive(Clone, Debug, state::State, state::Plain)]
pub(super) struct Transaction {
    pub(super) line: LineAddress,
    #[state(exact)]
    pub(super) slot: usize,
    pub(super) step: Step,
    pub(super) waiting: VecDeque<Request>,
}

/// Misses of one set that wait for a way.
#[derive(Clone, Debug, Hash, state::State, state::Plain)]
pub(super) struct Stalled {
    pub(super) set: usize,
    pub(super) recalling: bool,
    pub(super) waiting: VecDeque<(LineAddress, Request)>,
}

impl Request {
    pub(super) fn origin(&self) -> Origin {
        match self {
            Request::Get { .. } | Request::Put { .. } | Request::Prefetch => Origin::Core,
            Request::ReadAtHome { .. } | Request::WriteAtHome(_) => Origin::Io,
        }
    }

    /// Whether a cache or an agent requests the line.
    pub(super) fn reads(&self) -> bool {
        matches!(self, Request::Get { .. } | Request::ReadAtHome { .. })
    }
}
