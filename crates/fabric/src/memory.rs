//! Memory controllers: how long reads take and how much goes through.

use crate::{LINE_BYTES, LineAddress, MemorySpec, MeshSpec, Time};

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The tile of each controller.
    tiles: Vec<usize>,
    /// When each controller's channel has carried what it was given so far.
    free: Vec<Time>,
    latency: Time,
    occupancy: Time,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) queueing: Time,
}

state::component!(Memory {
    tiles: fixed,
    free: slice,
    latency: fixed,
    occupancy: fixed,
    reads: count,
    writes: count,
    queueing: count,
});

impl Memory {
    pub(crate) fn new(spec: &MemorySpec, mesh: &MeshSpec) -> Memory {
        let edge = crate::mesh::edge_tiles(mesh.columns, mesh.rows);
        Memory {
            tiles: (0..spec.controllers)
                .map(|controller| edge[controller * edge.len() / spec.controllers])
                .collect(),
            free: vec![Time::ZERO; spec.controllers],
            latency: Time::from_ns(spec.latency_ns),
            occupancy: Time::from_ns(LINE_BYTES as f64 / spec.bandwidth_gb_per_s),
            reads: 0,
            writes: 0,
            queueing: Time::ZERO,
        }
    }

    #[inline]
    pub(crate) fn controller(&self, line: LineAddress) -> usize {
        (line.0 % self.tiles.len() as u64) as usize
    }

    #[inline]
    pub(crate) fn tile(&self, controller: usize) -> usize {
        self.tiles[controller]
    }

    fn turn(&mut self, controller: usize, now: Time) -> Time {
        let start = self.free[controller].max(now);
        self.free[controller] = start + self.occupancy;
        self.queueing += start - now;
        start
    }

    /// A read arrives; returns when its answer leaves.
    pub(crate) fn read(&mut self, controller: usize, now: Time) -> Time {
        self.reads += 1;
        self.turn(controller, now) + self.latency
    }

    /// A line to write arrives.
    pub(crate) fn write(&mut self, controller: usize, now: Time) {
        self.writes += 1;
        self.turn(controller, now);
    }
}
