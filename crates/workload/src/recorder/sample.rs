//! A request that has completed.

use fabric::Time;
use state::{State, Walker};

/// A request that has completed.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
#[state(fields)]
pub struct Sample {
    /// When.
    pub completed_at: Time,
    /// How long it took from its arrival on.
    #[state(fixed)]
    pub latency: Time,
    /// How long a hart worked on it, if that is known.
    #[state(fixed)]
    pub service: Option<Time>,
    /// Its queue.
    pub queue: u32,
    /// What kind of request it was: a number that whoever made it understands.
    pub kind: u8,
    /// Whether it was in a slot of its queue's ring in which there had been none before.
    pub is_cold: bool,
    /// How many requests had come when it did, itself included, whatever became of them.
    pub offered: u64,
    /// How many of them were under way then, itself included.
    pub under_way: u64,
}

impl Sample {
    /// When it came.
    pub(super) fn came_at(&self) -> Time {
        self.completed_at.saturating_sub(self.latency)
    }
}

impl State for Sample {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // Lengths of time, not points in it.
        let mut latency_fs = self.latency.as_fs();
        latency_fs.walk(walker);
        self.latency = Time::from_fs(latency_fs);
        let mut service_fs = self.service.map(Time::as_fs);
        service_fs.walk(walker);
        self.service = service_fs.map(Time::from_fs);
    }
}
