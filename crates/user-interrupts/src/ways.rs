//! The ways of notices to harts: within a socket, and from one to the other.
//!
//! Notices travel as writes do. Within a socket each takes as long as the longest way over the
//! mesh. To a hart of the other socket it goes to the tile where the link between them begins, as a
//! word over that link, which it may have to wait for, and over the other mesh; both halves are
//! taken to be the longest again.

use fabric::{AgentContext, Fabric, FabricSpec, Time};

/// What is known of the ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    cores: usize,
    cores_of_socket: usize,
    /// The longest way within a socket: its hops, and its time.
    hops: u64,
    within: Time,
    /// Where the link between the sockets begins.
    link_tiles: [usize; 2],
    /// Between a hart's tile and that; the ends of the word's way add the ways on the tiles.
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
        // Nothing reaches a core sooner.
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

    /// The socket of a core, or of a hart: the second harts of all cores are behind the first ones.
    pub fn socket_of(&self, hart: u16) -> usize {
        usize::from(hart) % self.cores / self.cores_of_socket
    }

    /// Sends a notice from a socket to a hart; returns its hops. At a timer [`Ways::arrive`] takes
    /// it on.
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

    /// A notice has crossed the link.
    pub fn arrive(&self, context: &mut AgentContext<'_>, token: u64) {
        context.notify(token as u16, token >> 16, self.from_link);
    }
}
