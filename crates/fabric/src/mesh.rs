//! The mesh: XY routing, and links that carry one message at a time.
//!
//! A message's way is reserved link by link when its departure is known. What leaves a bank, a
//! cache's read port or an agent is known a few cycles before it departs, so a link keeps the few
//! reservations that lie ahead, and a message takes the first gap that is long enough for it.
//! Wormhole routers with one path between two tiles keep messages in order (Dally and Towles,
//! Principles and Practices of Interconnection Networks, ch. 13), and the protocol needs that; a
//! short message that finds a gap before an older long one waits for it at the end.

use crate::{Clock, MeshSpec, Time};

/// Bytes of a message that carries no data.
pub(crate) const CONTROL_BYTES: u64 = 8;
/// Bytes of a message with a register's worth of data.
pub(crate) const WORD_BYTES: u64 = 16;
/// Bytes of a message with a line.
pub(crate) const LINE_MESSAGE_BYTES: u64 = 72;

/// Which messages between two tiles keep their order among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From private caches to homes.
    ToHome,
    /// From homes to private caches.
    FromHome,
    /// No order is promised.
    Free,
}

/// When a link is taken.
#[derive(Clone, Debug, Default)]
struct Link {
    /// The last reservation.
    start: Time,
    end: Time,
    /// Those before it that are not over, in order.
    earlier: Vec<(Time, Time)>,
}

impl Link {
    /// Reserves `occupancy` at `earliest` or as soon as possible after it. Nothing will be
    /// reserved before `now` any more.
    #[inline]
    fn reserve(&mut self, now: Time, earliest: Time, occupancy: Time) -> Time {
        if self.end > earliest {
            return self.reserve_gap(now, earliest, occupancy);
        }
        if self.end > now {
            self.earlier.retain(|&(_, end)| end > now);
            self.earlier.push((self.start, self.end));
        } else if !self.earlier.is_empty() {
            self.earlier.clear();
        }
        (self.start, self.end) = (earliest, earliest + occupancy);
        earliest
    }

    /// As `reserve`, where the last reservation ends after `earliest`.
    fn reserve_gap(&mut self, now: Time, earliest: Time, occupancy: Time) -> Time {
        self.earlier.retain(|&(_, end)| end > now);
        let mut start = earliest;
        for index in 0..self.earlier.len() {
            let (taken_from, taken_to) = self.earlier[index];
            if start + occupancy <= taken_from {
                self.earlier.insert(index, (start, start + occupancy));
                return start;
            }
            start = start.max(taken_to);
        }
        if start + occupancy <= self.start {
            self.earlier.push((start, start + occupancy));
            return start;
        }
        // Back to back with the last: one reservation.
        start = self.end;
        self.end = start + occupancy;
        start
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Mesh {
    columns: usize,
    /// Column and row of each tile.
    places: Vec<(u32, u32)>,
    tiles: usize,
    hop: Time,
    local: Time,
    clock: Clock,
    link_bytes: u64,
    /// Four for each tile: to the east, west, south, north.
    links: Vec<Link>,
    /// For each order and pair of tiles, when the last message arrives.
    last_arrival: [Vec<Time>; 2],
    pub(crate) messages: u64,
    pub(crate) hops: u64,
    pub(crate) hop_cycles: u64,
    pub(crate) queueing: Time,
}

impl Mesh {
    pub(crate) fn new(spec: &MeshSpec, clock: Clock) -> Mesh {
        let tiles = spec.columns * spec.rows;
        Mesh {
            columns: spec.columns,
            places: (0..tiles)
                .map(|tile| ((tile % spec.columns) as u32, (tile / spec.columns) as u32))
                .collect(),
            tiles,
            hop: clock.time(spec.hop_latency_cycles),
            local: clock.time(spec.local_latency_cycles),
            clock,
            link_bytes: spec.link_bytes,
            links: vec![Link::default(); tiles * 4],
            last_arrival: [
                vec![Time::ZERO; tiles * tiles],
                vec![Time::ZERO; tiles * tiles],
            ],
            messages: 0,
            hops: 0,
            hop_cycles: 0,
            queueing: Time::ZERO,
        }
    }

    pub(crate) fn tiles(&self) -> usize {
        self.tiles
    }

    /// The fastest way from anywhere to anywhere.
    pub(crate) fn shortest(&self) -> Time {
        if self.tiles > 1 {
            self.local.min(self.hop)
        } else {
            self.local
        }
    }

    /// Sends a message that departs at `departure`, not before `now`; returns when all of it has
    /// arrived.
    pub(crate) fn send(
        &mut self,
        now: Time,
        departure: Time,
        from: usize,
        to: usize,
        bytes: u64,
        order: Order,
    ) -> Time {
        self.messages += 1;
        let mut arrival = if from == to {
            departure + self.local
        } else {
            self.route(now, departure, from, to, bytes)
        };
        let table = match order {
            Order::ToHome => 0,
            Order::FromHome => 1,
            Order::Free => return arrival,
        };
        let last = &mut self.last_arrival[table][from * self.tiles + to];
        arrival = arrival.max(*last);
        *last = arrival;
        arrival
    }

    fn route(&mut self, now: Time, departure: Time, from: usize, to: usize, bytes: u64) -> Time {
        let flits = bytes.div_ceil(self.link_bytes);
        let occupancy = self.clock.time(flits);
        let (from_column, from_row) = self.places[from];
        let (to_column, to_row) = self.places[to];
        let columns = from_column.abs_diff(to_column);
        let rows = from_row.abs_diff(to_row);
        let mut head = departure;
        let mut tile = from;
        let mut pass = |tile: usize, direction: usize| {
            let start = self.links[tile * 4 + direction].reserve(now, head, occupancy);
            self.queueing += start - head;
            head = start + self.hop;
        };
        for _ in 0..columns {
            let east = from_column < to_column;
            pass(tile, usize::from(!east));
            tile = if east { tile + 1 } else { tile - 1 };
        }
        for _ in 0..rows {
            let south = from_row < to_row;
            pass(tile, 2 + usize::from(!south));
            tile = if south {
                tile + self.columns
            } else {
                tile - self.columns
            };
        }
        let hops = u64::from(columns + rows);
        self.hops += hops;
        self.hop_cycles += hops * flits;
        // The rest of the message follows its head, one flit a cycle.
        head + self.clock.time(flits - 1)
    }
}

/// The tiles at the edge of a mesh, clockwise from the north-west corner.
pub(crate) fn edge_tiles(columns: usize, rows: usize) -> Vec<usize> {
    if columns == 1 || rows == 1 {
        return (0..columns * rows).collect();
    }
    let north = 0..columns - 1;
    let east = (0..rows - 1).map(|row| row * columns + columns - 1);
    let south = (1..columns)
        .rev()
        .map(|column| (rows - 1) * columns + column);
    let west = (1..rows).rev().map(|row| row * columns);
    north.chain(east).chain(south).chain(west).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(count: u64) -> Time {
        Clock::from_ghz(1.0).time(count)
    }

    fn mesh() -> Mesh {
        // 4 x 4 tiles, 3 cycles a hop, 16 bytes a cycle, 1 cycle on a tile.
        Mesh::new(&MeshSpec::default(), Clock::from_ghz(1.0))
    }

    #[test]
    fn edges_go_round() {
        assert_eq!(edge_tiles(3, 3), [0, 1, 2, 5, 8, 7, 6, 3]);
        assert_eq!(edge_tiles(1, 3), [0, 1, 2]);
        assert_eq!(edge_tiles(2, 2), [0, 1, 3, 2]);
    }

    #[test]
    fn latency_is_hops_and_tail() {
        let mut mesh = mesh();
        let mut send = |from, to, bytes| {
            let at = cycles(100 * (from + 16 * to) as u64);
            mesh.send(at, at, from, to, bytes, Order::Free) - at
        };
        assert_eq!(send(0, 0, LINE_MESSAGE_BYTES), cycles(1));
        assert_eq!(send(0, 15, CONTROL_BYTES), cycles(6 * 3));
        // 72 bytes are 5 flits; the last comes 4 cycles after the first.
        assert_eq!(send(15, 0, LINE_MESSAGE_BYTES), cycles(6 * 3 + 4));
        assert_eq!(send(5, 6, WORD_BYTES), cycles(3));
    }

    #[test]
    fn a_link_carries_one_message_at_a_time() {
        let mut mesh = mesh();
        let mut send = |from, to, bytes| {
            let at = cycles(10);
            mesh.send(at, at, from, to, bytes, Order::Free)
        };
        assert_eq!(send(0, 1, LINE_MESSAGE_BYTES), cycles(10 + 3 + 4));
        // The link is taken for 5 cycles.
        assert_eq!(send(0, 1, CONTROL_BYTES), cycles(10 + 5 + 3));
        // Another link of the same router.
        assert_eq!(send(0, 4, CONTROL_BYTES), cycles(10 + 3));
        assert_eq!(mesh.queueing, cycles(5));
    }

    #[test]
    fn a_reservation_ahead_leaves_the_time_before_it() {
        let mut mesh = mesh();
        let now = cycles(0);
        let mut send = |departure, bytes, order| {
            mesh.send(now, cycles(departure), 0, 1, bytes, order)
                .as_fs()
                / 1_000_000
        };
        assert_eq!(send(20, CONTROL_BYTES, Order::Free), 23);
        assert_eq!(send(15, LINE_MESSAGE_BYTES, Order::FromHome), 15 + 3 + 4);
        // Cycles 15 to 20 are taken now: four free cycles before are not enough, nor is any gap
        // up to the end of the message at 20.
        assert_eq!(send(11, LINE_MESSAGE_BYTES, Order::Free), 21 + 3 + 4);
        // In a gap, but not before the ordered one.
        assert_eq!(send(12, CONTROL_BYTES, Order::Free), 15);
        assert_eq!(send(13, CONTROL_BYTES, Order::FromHome), 22);
    }
}
