//! Memory controllers: how long reads take and how much goes through.

use crate::{FabricSpec, LINE_BYTES, LineAddress, Time};

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The tile of each controller; those of the second socket are behind those of the first.
    tiles: Vec<usize>,
    /// Controllers of a socket.
    of_socket: usize,
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
    of_socket: fixed,
    free: slice,
    latency: fixed,
    occupancy: fixed,
    reads: count,
    writes: count,
    queueing: count,
});

impl Memory {
    pub(crate) fn new(fabric: &FabricSpec) -> Memory {
        let (spec, mesh) = (&fabric.memory, &fabric.mesh);
        let edge = crate::mesh::edge_tiles(mesh.columns, mesh.rows);
        let place = |controller| edge[controller * edge.len() / spec.controllers];
        let tiles: Vec<usize> = (0..fabric.sockets)
            .flat_map(|socket| {
                let first = socket * mesh.columns * mesh.rows;
                (0..spec.controllers).map(move |controller| first + place(controller))
            })
            .collect();
        Memory {
            free: vec![Time::ZERO; tiles.len()],
            tiles,
            of_socket: spec.controllers,
            latency: Time::from_ns(spec.latency_ns),
            occupancy: Time::from_ns(LINE_BYTES as f64 / spec.bandwidth_gb_per_s),
            reads: 0,
            writes: 0,
            queueing: Time::ZERO,
        }
    }

    /// The controller of a line of `socket`.
    #[inline]
    pub(crate) fn controller(&self, line: LineAddress, socket: usize) -> usize {
        socket * self.of_socket + (line.0 % self.of_socket as u64) as usize
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
