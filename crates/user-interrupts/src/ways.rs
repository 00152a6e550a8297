//! The paths of notices to harts: within a socket, and between sockets.
//!
//! Notices travel as writes do. Within a socket each takes as long as the longest path over the
//! mesh. A notice to a hart of the other socket crosses the mesh to the tile where the link between
//! them begins, the link as a word, for which it may have to wait, and the other mesh; both halves
//! are again assumed to be the longest.

use fabric::{AgentContext, Fabric, FabricSpec, Time};

/// The lengths of the paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    cores: usize,
    cores_of_socket: usize,
    /// The longest path within a socket: its hops and its latency.
    hops: u64,
    within: Time,
    /// The tiles where the link between the sockets begins.
    link_tiles: [usize; 2],
    /// The longest path between a hart's tile and the link's; the ends of the word's path add the
    /// local hops.
    hops_to_link: u64,
    to_link: Time,
    from_link: Time,
}

impl Ways {
    pub fn of(fabric: &Fabric, described: &FabricSpec) -> Ways {
        let mesh = &described.mesh;
        let clock = described.clock();
        let sockets = fabric.sockets();
        let link_tile = fabric.link_tile(0);
        let (column, row) = (link_tile % mesh.columns, link_tile / mesh.columns);
        let longest = |place: usize, count: usize| place.max(count - 1 - place);
        let hops_to_link = (longest(column, mesh.columns) + longest(row, mesh.rows)) as u64;
        let to_link = clock.time(hops_to_link * mesh.hop_latency_cycles);
        let hops = (mesh.columns - 1 + mesh.rows - 1) as u64;
        let within = clock.time(mesh.local_latency_cycles + hops * mesh.hop_latency_cycles);
        // No message reaches a core sooner.
        let least = fabric.minimum_delivery_latency();
        Ways {
            cores: fabric.cores(),
            cores_of_socket: fabric.cores().div_ceil(sockets),
            hops,
            within: within.max(least),
            link_tiles: [link_tile, fabric.link_tile(sockets - 1)],
            hops_to_link,
            to_link,
            from_link: to_link.max(least),
        }
    }

    /// The socket of a core, or of a hart: the second harts of all cores follow the first ones.
    pub fn socket_of(&self, hart: u16) -> usize {
        usize::from(hart) % self.cores / self.cores_of_socket
    }

    /// Sends a notice from a socket to a hart; returns its hops. At a timer, [`Ways::arrive`]
    /// forwards it.
    pub fn notify(
        &self,
        context: &mut AgentContext<'_>,
        from: usize,
        hart: u16,
        header: u64,
    ) -> u64 {
        let to = self.socket_of(hart);
        if from == to {
            context.notify(hart, header, self.within);
            return self.hops;
        }
        let token = header << 16 | u64::from(hart);
        let tiles = (self.link_tiles[from], self.link_tiles[to]);
        context.send_word(tiles.0, tiles.1, self.to_link, token);
        2 * self.hops_to_link
    }

    /// Handles a notice that has crossed the link.
    pub fn arrive(&self, context: &mut AgentContext<'_>, token: u64) {
        context.notify(token as u16, token >> 16, self.from_link);
    }
}
