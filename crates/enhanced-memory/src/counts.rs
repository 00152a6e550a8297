//! What cores and controllers have in common: chains on their way, and counts.

use crate::chain::Chain;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What cores and controllers have in common.
#[derive(Debug, Default)]
pub struct Common {
    /// The contents of messages to controllers, by core and token.
    pub chains: BTreeMap<(u16, u64), Chain>,
    /// The counts of all of them.
    pub counts: Counts,
}

/// The same, shared.
pub type SharedCommon = Rc<RefCell<Common>>;

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub(crate) full_windows: u64,
    pub(crate) without_loads: u64,
    pub(crate) unlikely: u64,
    pub(crate) chains: u64,
    pub(crate) instructions: u64,
    pub(crate) values_sent: u64,
    pub(crate) bytes: u64,
    pub(crate) loads_sent: u64,
    pub(crate) refused: u64,
    pub(crate) begun: u64,
    pub(crate) completed: u64,
    pub(crate) too_late: u64,
    pub(crate) undone: u64,
    pub(crate) mispredicted: u64,
    pub(crate) without_memory: u64,
    pub(crate) invalidated: u64,
    pub(crate) executed: u64,
    pub(crate) loads: u64,
    pub(crate) cache_hits: u64,
    pub(crate) on_chip: u64,
    pub(crate) from_memory: u64,
    pub(crate) ahead: u64,
    pub(crate) ahead_on_chip: u64,
    pub(crate) taken: u64,
    pub(crate) other_address: u64,
    pub(crate) found_by_core: u64,
    pub(crate) loads_undone: u64,
    pub(crate) line_lost: u64,
    pub(crate) not_supplied: u64,
    pub(crate) loads_too_late: u64,
}
