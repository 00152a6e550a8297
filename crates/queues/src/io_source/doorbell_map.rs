//! The map from doorbells to queues.

use super::LINE;
use fabric::{AddressRange, LineAddress};

/// The map from doorbells' lines to queues.
#[derive(state::State)]
pub(crate) struct DoorbellMap {
    #[state(fixed)]
    first: LineAddress,
    #[state(slice)]
    queues: Vec<u32>,
}

impl DoorbellMap {
    const NONE: u32 = u32::MAX;

    pub(crate) fn new(range: AddressRange) -> DoorbellMap {
        DoorbellMap {
            first: LineAddress::of(range.start),
            queues: vec![Self::NONE; (range.length / LINE) as usize],
        }
    }

    /// Adds a queue's doorbell; `false` if its line already has a queue or is out of range.
    pub(crate) fn insert(&mut self, address: u64, queue: u32) -> bool {
        let line = LineAddress::of(address).0.wrapping_sub(self.first.0);
        match self.queues.get_mut(line as usize) {
            Some(place) if *place == Self::NONE => {
                *place = queue;
                true
            }
            _ => false,
        }
    }

    /// Removes a queue's doorbell.
    pub(crate) fn remove(&mut self, address: u64) {
        let line = LineAddress::of(address).0.wrapping_sub(self.first.0);
        if let Some(place) = self.queues.get_mut(line as usize) {
            *place = Self::NONE;
        }
    }

    pub(crate) fn queue(&self, line: LineAddress) -> Option<u32> {
        let line = line.0.wrapping_sub(self.first.0);
        self.queues
            .get(line as usize)
            .copied()
            .filter(|&queue| queue != Self::NONE)
    }
}
