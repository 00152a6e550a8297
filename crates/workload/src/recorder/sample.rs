//! A request that has completed.

use fabric::Time;
use state::{State, Walker};

/// A request that has completed.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
#[state(fields)]
pub struct Sample {
    /// Its completion time.
    pub completed_at: Time,
    /// Its latency since its arrival.
    #[state(fixed)]
    pub latency: Time,
    /// The time that a hart worked on it, if known.
    #[state(fixed)]
    pub service: Option<Time>,
    /// Its queue.
    pub queue: u32,
    /// The kind of request: a number whose meaning its source defines.
    pub kind: u8,
    /// Whether its slot in its queue's ring had never been used before.
    pub is_cold: bool,
    /// Number of requests that had arrived by its arrival, including itself and lost ones.
    pub offered: u64,
    /// Number of requests in flight at its arrival, including itself.
    pub under_way: u64,
}

impl Sample {
    /// Its arrival time.
    pub(super) fn came_at(&self) -> Time {
        self.completed_at.saturating_sub(self.latency)
    }
}

impl State for Sample {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // These are durations, not points in time.
        let mut latency_fs = self.latency.as_fs();
        latency_fs.walk(walker);
        self.latency = Time::from_fs(latency_fs);
        let mut service_fs = self.service.map(Time::as_fs);
        service_fs.walk(walker);
        self.service = service_fs.map(Time::from_fs);
    }
}
