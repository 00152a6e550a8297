//! The mesh: XY routing, and links that carry one message at a time.
//!
//! A message's path is reserved link by link when its departure is known. The departure from a
//! bank, a cache's read port or an agent is known a few cycles in advance, so a link records which
//! future cycles are reserved, and a message takes the first gap that is long enough. Routers are
//! synchronous: a message that becomes ready within a cycle enters with the next one. Wormhole
//! routers with one path between two tiles keep messages in order (Dally and Towles, Principles and
//! Practices of Interconnection Networks, ch. 13), and the protocol requires this; a short message
//! that finds a gap before an older long one waits for it at the destination.
//!
//! Two sockets have a mesh each, and a link between them. A message from one to the other crosses
//! its mesh to the tile where the link begins, is assembled there, crosses the link, and continues
//! over the other mesh when all of it has arrived, because the link checks it first. Its links on
//! the other mesh are reserved far ahead, so the links of such a server have a [`Calendar`] each.

use crate::calendar::Calendar;
use crate::divisor::Divisor;
use crate::{Clock, FabricSpec, MeshSpec, PerfectCache, SocketLinkSpec, Time};

/// Bytes of a message that carries no data.
pub(crate) const CONTROL_BYTES: u64 = 8;
/// Bytes of a message with a register's worth of data.
pub(crate) const WORD_BYTES: u64 = 16;
/// Bytes of a message with a line.
pub(crate) const LINE_MESSAGE_BYTES: u64 = 72;

/// The classes of messages between two tiles that keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From private caches to homes.
    ToHome,
    /// From homes to private caches.
    FromHome,
    /// Unordered.
    Free,
}

/// Number of cycles in a link's window of reservations.
const WINDOW: u64 = 64;

/// The reservations of a link.
#[derive(Clone, Debug, Default, state::State)]
struct Link {
    /// The cycle of the lowest bit of `taken`; no earlier cycle will be reserved.
    #[state(cycle)]
    base: u64,
    /// The reserved cycles of the window.
    taken: u64,
    /// Cycles from the end of the window up to this one are reserved.
    #[state(cycle)]
    taken_until: u64,
}

impl Link {
    /// Reserves `flits` consecutive cycles, at `earliest` or as soon as possible after it. No
    /// reservation will be requested before `now`. `cycles` has as many bits set as there are
    /// flits, the lowest ones.
    #[inline(always)]
    fn reserve(&mut self, now: u64, earliest: u64, flits: u64, cycles: u64) -> u64 {
        // Usually the cycles are free and the window need not be moved.
        let offset = earliest - self.base;
        if offset + flits <= WINDOW {
            if self.taken & cycles << offset == 0 {
                self.taken |= cycles << offset;
                return earliest;
            }
            let gaps = self.gaps(flits) >> offset;
            if gaps != 0 {
                let wait = u64::from(gaps.trailing_zeros());
                self.taken |= cycles << (offset + wait);
                return earliest + wait;
            }
        }
        self.reserve_behind(now, earliest, flits, cycles)
    }

    /// The positions in the window with enough consecutive free cycles.
    #[inline(always)]
    fn gaps(&self, flits: u64) -> u64 {
        let mut free = !self.taken;
        for _ in 1..flits {
            free &= free >> 1;
        }
        free
    }

    /// The same, if the window has to be moved.
    #[inline(never)]
    fn reserve_behind(&mut self, now: u64, earliest: u64, flits: u64, cycles: u64) -> u64 {
        self.move_on(now);
        let offset = earliest - now;
        if offset + flits <= WINDOW && self.taken & cycles << offset == 0 {
            self.taken |= cycles << offset;
            return earliest;
        }
        self.reserve_later(now, earliest, flits)
    }

    /// The same, for a message that waits or reserves far ahead.
    #[inline(never)]
    fn reserve_later(&mut self, now: u64, earliest: u64, flits: u64) -> u64 {
        let free = self.gaps(flits);
        let offset = earliest - now;
        if offset < WINDOW && free >> offset != 0 {
            let start = earliest + u64::from((free >> offset).trailing_zeros());
            self.taken |= u64::MAX >> (WINDOW - flits) << (start - now);
            return start;
        }
        // Beyond the window only an end is recorded, so a gap left there is lost.
        let start = earliest.max(self.taken_until).max(now + WINDOW);
        self.taken_until = start + flits;
        start
    }

    #[inline(always)]
    fn move_on(&mut self, now: u64) {
        let passed = now - self.base;
        let end = self.base + WINDOW;
        self.base = now;
        self.taken = if passed < WINDOW {
            self.taken >> passed
        } else {
            0
        };
        if self.taken_until > end {
            self.bring_into_window(end);
        }
    }

    /// Marks the cycles from `from` to `taken_until` that are in the window as reserved.
    #[cold]
    #[inline(never)]
    fn bring_into_window(&mut self, from: u64) {
        let from = from.max(self.base);
        let until = self.taken_until.min(self.base + WINDOW);
        for cycle in from..until {
            self.taken |= 1 << (cycle - self.base);
        }
    }
}

/// The link between two sockets.
#[derive(Clone, Debug, state::State)]
struct SocketLink {
    /// Number of tiles of a socket; the second socket's follow the first's.
    #[state(fixed)]
    tiles: usize,
    /// The tile of each socket where the link begins.
    #[state(fixed)]
    ports: [usize; 2],
    #[state(fixed)]
    latency: Time,
    #[state(fixed)]
    bandwidth_gb_per_s: f64,
    /// The reservations of each direction: from the first socket, and to it.
    #[state(slice)]
    directions: [Calendar; 2],
    /// The reservations of each link on the meshes.
    #[state(slice)]
    calendars: Vec<Calendar>,
    #[state(count)]
    messages: u64,
    #[state(count)]
    bytes: u64,
    #[state(count)]
    queueing: Time,
}

impl SocketLink {
    fn new(spec: &SocketLinkSpec, mesh: &MeshSpec) -> SocketLink {
        let tiles = mesh.columns * mesh.rows;
        // In the middle of the first row, where Skylake-SP's UPI links are.
        let port = mesh.columns / 2;
        SocketLink {
            tiles,
            ports: [port, tiles + port],
            latency: Time::from_ns(spec.latency_ns),
            bandwidth_gb_per_s: spec.bandwidth_gb_per_s,
            directions: [Calendar::default(), Calendar::default()],
            calendars: vec![Calendar::default(); 2 * tiles * 4],
            messages: 0,
            bytes: 0,
            queueing: Time::ZERO,
        }
    }

    /// Sends a message that is complete at the link at `at`; returns its arrival at the other end.
    fn cross(&mut self, now: Time, at: Time, from_socket: usize, bytes: u64) -> Time {
        let length = Time::from_ns(bytes as f64 / self.bandwidth_gb_per_s);
        let direction = &mut self.directions[from_socket];
        let start = direction.reserve(now, at, length.max(Time::from_fs(1)));
        self.messages += 1;
        self.bytes += bytes;
        self.queueing += start - at;
        start + length + self.latency
    }
}

/// The traffic of the link between two sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crossings {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) queueing: Time,
}

/// The position of a route's links in the list of all routes.
#[derive(Clone, Copy, Debug)]
struct Route {
    start: u32,
    hops: u32,
}

#[derive(Clone, Debug, state::State)]
#[state(all(count))]
pub(crate) struct Mesh {
    /// Number of tiles of all sockets.
    #[state(fixed)]
    tiles: usize,
    #[state(fixed)]
    hop: u64,
    #[state(fixed)]
    local: u64,
    #[state(fixed)]
    clock: Clock,
    #[state(fixed)]
    link_bytes: Divisor,
    /// Whether messages take no time and no links: see [`PerfectCache::FirstLevel`].
    #[state(fixed)]
    takes_no_time: bool,
    /// Four for each tile: to the east, west, south, north.
    #[state(slice)]
    links: Vec<Link>,
    /// The other socket, if there is one; then the links are in its calendars.
    #[state(inside)]
    socket_link: Option<SocketLink>,
    /// The links from each tile to each other, route by route, and the position of each route.
    #[state(fixed)]
    routes: Vec<u16>,
    #[state(fixed)]
    ways: Vec<Route>,
    /// For each order, and then each pair of tiles, the cycle in which the last message arrives.
    #[state(cycles)]
    last_arrival: Vec<u64>,
    pub(crate) messages: u64,
    pub(crate) hops: u64,
    pub(crate) hop_cycles: u64,
    queueing_cycles: u64,
    /// In tests, one message in four is delayed by less than this number of cycles (0 for none);
    /// the other number selects the messages.
    #[cfg(test)]
    #[state(fixed)]
    pub(crate) jitter: (u64, u64),
}

/// Appends the links of the route from one tile to another: along the row, then along the column.
/// The first link of the first tile has the number `first_link`.
fn route(columns: usize, first_link: usize, (from, to): (usize, usize), links: &mut Vec<u16>) {
    let mut tile = from;
    while tile % columns != to % columns {
        let east = tile % columns < to % columns;
        links.push((first_link + tile * 4 + usize::from(!east)) as u16);
        tile = if east { tile + 1 } else { tile - 1 };
    }
    while tile != to {
        let south = tile < to;
        links.push((first_link + tile * 4 + 2 + usize::from(!south)) as u16);
        tile = if south {
            tile + columns
        } else {
            tile - columns
        };
    }
}

impl Mesh {
    /// The mesh of each socket of `spec`, and the link between them.
    pub(crate) fn of(spec: &FabricSpec, clock: Clock) -> Mesh {
        let mesh = Mesh::new(&spec.mesh, spec.sockets, clock);
        let link = (spec.sockets > 1).then(|| SocketLink::new(&spec.socket_link, &spec.mesh));
        Mesh {
            socket_link: link,
            takes_no_time: spec.perfect_cache == PerfectCache::FirstLevel,
            ..mesh
        }
    }

    fn new(spec: &MeshSpec, sockets: usize, clock: Clock) -> Mesh {
        let in_socket = spec.columns * spec.rows;
        let tiles = in_socket * sockets;
        let mut routes = Vec::new();
        let mut ways = Vec::new();
        for from in 0..tiles {
            for to in 0..tiles {
                let start = routes.len() as u32;
                // A mesh has no routes between sockets.
                if from / in_socket == to / in_socket {
                    let first_link = from / in_socket * in_socket * 4;
                    let ends = (from % in_socket, to % in_socket);
                    route(spec.columns, first_link, ends, &mut routes);
                }
                let hops = routes.len() as u32 - start;
                ways.push(Route { start, hops });
            }
        }
        Mesh {
            tiles,
            hop: spec.hop_latency_cycles,
            local: spec.local_latency_cycles,
            clock,
            link_bytes: Divisor::new(spec.link_bytes),
            takes_no_time: false,
            links: vec![Link::default(); tiles * 4],
            socket_link: None,
            routes,
            ways,
            last_arrival: vec![0; 2 * tiles * tiles],
            messages: 0,
            hops: 0,
            hop_cycles: 0,
            queueing_cycles: 0,
            #[cfg(test)]
            jitter: (0, 0),
        }
    }

    /// See [`crate::Fabric::settle`].
    pub(crate) fn settle(&mut self, cycle: u64) {
        for link in &mut self.links {
            if cycle > link.base {
                link.move_on(cycle);
            }
        }
        if let Some(sockets) = &mut self.socket_link {
            let calendars = sockets.calendars.iter_mut().chain(&mut sockets.directions);
            calendars.for_each(|calendar| calendar.settle(self.clock.time(cycle)));
        }
    }

    /// The tiles of all sockets.
    pub(crate) fn tiles(&self) -> usize {
        self.tiles
    }

    /// The tile where the link of `socket` to the other one begins; arbitrary with one socket.
    pub(crate) fn link_tile(&self, socket: usize) -> usize {
        self.socket_link
            .as_ref()
            .map_or(0, |link| link.ports[socket])
    }

    /// The traffic of the link between the sockets.
    pub(crate) fn crossings(&self) -> Crossings {
        let link = self.socket_link.as_ref();
        link.map_or_else(Crossings::default, |link| Crossings {
            messages: link.messages,
            bytes: link.bytes,
            queueing: link.queueing,
        })
    }

    /// Total time that messages waited for links.
    pub(crate) fn queueing(&self) -> Time {
        self.clock.time(self.queueing_cycles)
    }

    /// Sends a message that departs at `departure`, not before `now`; returns the arrival of its
    /// last flit.
    pub(crate) fn send(
        &mut self,
        now: Time,
        departure: Time,
        from: usize,
        to: usize,
        bytes: u64,
        order: Order,
    ) -> Time {
        let now = self.clock.cycle_of(now);
        let departure = self.clock.cycle_at_or_after(departure);
        let arrival = self.send_in_cycle(now, departure, (from, to), bytes, order);
        self.clock.time(arrival)
    }

    /// The same in cycles, for a message that is ready to depart in cycle `departure`.
    #[inline]
    pub(crate) fn send_in_cycle(
        &mut self,
        now: u64,
        departure: u64,
        (from, to): (usize, usize),
        bytes: u64,
        order: Order,
    ) -> u64 {
        self.messages += 1;
        let pair = from * self.tiles + to;
        let mut arrival = if from == to || self.takes_no_time {
            departure + self.local
        } else if self.socket_link.is_some() {
            self.send_between(now, departure, (from, to), bytes)
        } else {
            let flits = self.link_bytes.divide(bytes - 1) + 1;
            let Route { start, hops } = self.ways[pair];
            let (route, hops) = (&self.routes[start as usize..], u64::from(hops));
            // Longer messages are never placed in the window.
            let cycles = u64::MAX >> WINDOW.saturating_sub(flits);
            let mut head = departure;
            let links = self.links.as_mut_slice();
            for &link in &route[..hops as usize] {
                let link = &mut links[usize::from(link)];
                head = link.reserve(now, head, flits, cycles) + self.hop;
            }
            self.hops += hops;
            self.hop_cycles += hops * flits;
            self.queueing_cycles += head - departure - hops * self.hop;
            // The rest of the message follows its head, one flit a cycle.
            head + flits - 1
        };
        cell!(arrival += self.more_cycles(departure, pair));
        let table = match order {
            Order::ToHome => 0,
            Order::FromHome => self.tiles * self.tiles,
            Order::Free => return arrival,
        };
        let last = &mut self.last_arrival[table + pair];
        arrival = arrival.max(*last);
        *last = arrival;
        arrival
    }

    /// The cycle in which a message arrives on a server of two sockets.
    #[inline(never)]
    fn send_between(
        &mut self,
        now: u64,
        departure: u64,
        (from, to): (usize, usize),
        bytes: u64,
    ) -> u64 {
        let Some(mut link) = self.socket_link.take() else {
            return departure;
        };
        let now = self.clock.time(now);
        let (from_socket, to_socket) = (from / link.tiles, to / link.tiles);
        let arrival = if from_socket == to_socket {
            self.go_along(&mut link.calendars, now, departure, (from, to), bytes)
        } else {
            let ports = (link.ports[from_socket], link.ports[to_socket]);
            let there = (from, ports.0);
            let whole = self.go_along(&mut link.calendars, now, departure, there, bytes);
            let across = link.cross(now, self.clock.time(whole), from_socket, bytes);
            let across = self.clock.cycle_at_or_after(across);
            self.go_along(&mut link.calendars, now, across, (ports.1, to), bytes)
        };
        self.socket_link = Some(link);
        arrival
    }

    /// The same for two tiles of one socket.
    fn go_along(
        &mut self,
        calendars: &mut [Calendar],
        now: Time,
        departure: u64,
        (from, to): (usize, usize),
        bytes: u64,
    ) -> u64 {
        if from == to {
            return departure + self.local;
        }
        let flits = self.link_bytes.divide(bytes - 1) + 1;
        let pair = from * self.tiles + to;
        let Route { start, hops } = self.ways[pair];
        let (route, hops) = (start as usize..(start + hops) as usize, u64::from(hops));
        let (length, hop) = (self.clock.time(flits), self.clock.time(self.hop));
        let mut head = self.clock.time(departure);
        for &link in &self.routes[route] {
            head = calendars[usize::from(link)].reserve(now, head, length) + hop;
        }
        // All of these are whole cycles.
        let head = self.clock.cycle_of(head);
        self.hops += hops;
        self.hop_cycles += hops * flits;
        self.queueing_cycles += head - departure - hops * self.hop;
        head + flits - 1
    }
}

#[cfg(test)]
impl Mesh {
    /// The additional cycles of a message in a test. They depend only on the message, so that
    /// removing other messages does not change them.
    fn more_cycles(&self, departure: u64, pair: usize) -> u64 {
        let (cycles, seed) = self.jitter;
        let mut random = crate::tests::Random(seed ^ (departure << 16 | pair as u64));
        if cycles > 0 && random.below(4) == 0 {
            random.below(cycles)
        } else {
            0
        }
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
        Mesh::new(&MeshSpec::default(), 1, Clock::from_ghz(1.0))
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
        // The link is occupied for 5 cycles.
        assert_eq!(send(0, 1, CONTROL_BYTES), cycles(10 + 5 + 3));
        // Another link of the same router.
        assert_eq!(send(0, 4, CONTROL_BYTES), cycles(10 + 3));
        assert_eq!(mesh.queueing(), cycles(5));
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
        // Cycles 15 to 20 are reserved now: the four free cycles before are too few, as is every
        // gap up to the end of the message at 20.
        assert_eq!(send(11, LINE_MESSAGE_BYTES, Order::Free), 21 + 3 + 4);
        // It enters a gap, but without overtaking the ordered one.
        assert_eq!(send(12, CONTROL_BYTES, Order::Free), 15);
        assert_eq!(send(13, CONTROL_BYTES, Order::FromHome), 22);
    }

    #[test]
    fn reservations_far_ahead_are_kept() {
        let mut link = Link::default();
        let reserve = |link: &mut Link, now, earliest, flits| {
            link.reserve(now, earliest, flits, u64::MAX >> (WINDOW - flits))
        };
        assert_eq!(reserve(&mut link, 0, 62, 5), 64);
        assert_eq!(reserve(&mut link, 0, 56, 5), 56);
        assert_eq!(reserve(&mut link, 0, 1000, 5), 1000);
        // The reservations beyond the window have moved into it: nothing is free from 64 to 1005.
        assert_eq!(reserve(&mut link, 50, 58, 4), 1005);
        assert_eq!(reserve(&mut link, 1000, 1000, 1), 1009);
        assert_eq!(reserve(&mut link, 5000, 5000, 1), 5000);
        // It is as long as the window.
        assert_eq!(reserve(&mut link, 6000, 6000, 64), 6000);
        assert_eq!(reserve(&mut link, 6000, 6000, 1), 6064);
    }

    /// Two sockets of 2 x 2 tiles, 1 GHz; the link begins at tile 1 of each, takes 20 ns and
    /// carries 8 bytes a nanosecond.
    fn two_sockets() -> Mesh {
        let mut spec = FabricSpec {
            sockets: 2,
            clock_ghz: 1.0,
            ..FabricSpec::default()
        };
        (spec.mesh.columns, spec.mesh.rows) = (2, 2);
        spec.socket_link = SocketLinkSpec {
            latency_ns: 20.0,
            bandwidth_gb_per_s: 8.0,
        };
        Mesh::of(&spec, Clock::from_ghz(1.0))
    }

    #[test]
    fn the_way_between_sockets_is_both_meshes_and_the_link() {
        let mut mesh = two_sockets();
        assert_eq!(mesh.tiles(), 8);
        let mut send = |from, to, bytes| {
            let at = cycles(1000 * (from + 16 * to) as u64);
            mesh.send(at, at, from, to, bytes, Order::Free) - at
        };
        // Within a socket as usual.
        assert_eq!(send(0, 3, LINE_MESSAGE_BYTES), cycles(2 * 3 + 4));
        assert_eq!(send(4, 7, LINE_MESSAGE_BYTES), cycles(2 * 3 + 4));
        // Local to the port, 8 bytes and 20 cycles over the link, local from the other port.
        assert_eq!(send(1, 5, CONTROL_BYTES), cycles(1 + 1 + 20 + 1));
        // Tile 2 is two hops from tile 1, like tile 6 from tile 5; each mesh adds a tail of 4
        // flits.
        let line = 2 * 3 + 4 + 72 / 8 + 20 + 2 * 3 + 4;
        assert_eq!(send(2, 6, LINE_MESSAGE_BYTES), cycles(line));
        assert_eq!(send(6, 2, LINE_MESSAGE_BYTES), cycles(line));
        let crossings = mesh.crossings();
        assert_eq!((crossings.messages, crossings.bytes), (3, 8 + 72 + 72));
        assert_eq!(crossings.queueing, Time::ZERO);
    }

    #[test]
    fn the_link_carries_one_message_at_a_time_each_way() {
        let mut mesh = two_sockets();
        let mut send = |from, to| {
            mesh.send(
                cycles(0),
                cycles(0),
                from,
                to,
                LINE_MESSAGE_BYTES,
                Order::Free,
            )
        };
        assert_eq!(send(1, 5), cycles(1 + 9 + 20 + 1));
        // The second waits for the 9 cycles of the first; the other direction does not.
        assert_eq!(send(1, 5), cycles(1 + 9 + 9 + 20 + 1));
        assert_eq!(send(5, 1), cycles(1 + 9 + 20 + 1));
        assert_eq!(mesh.crossings().queueing, cycles(9));
    }

    #[test]
    fn what_comes_from_the_other_socket_does_not_keep_others_waiting_before() {
        let mut mesh = two_sockets();
        let mut send = |departure, from, to| {
            let departure = cycles(departure);
            mesh.send(
                cycles(0),
                departure,
                from,
                to,
                LINE_MESSAGE_BYTES,
                Order::Free,
            )
        };
        // At tile 5 at cycle 100 + 30, and then for 5 cycles on the link to tile 4.
        assert_eq!(send(100, 1, 4), cycles(130 + 3 + 4));
        assert_eq!(send(120, 5, 4), cycles(120 + 3 + 4));
        assert_eq!(send(126, 5, 4), cycles(135 + 3 + 4));
    }

    #[test]
    fn messages_longer_than_the_window_are_carried_behind_it() {
        // A byte a cycle: 72 flits, which extend beyond the window of 64 cycles. The second waits
        // for them: 136 + 3 for the hop + 71 for its tail. A short one goes before both.
        let spec = MeshSpec {
            link_bytes: 1,
            ..MeshSpec::default()
        };
        let mut mesh = Mesh::new(&spec, 1, Clock::from_ghz(1.0));
        let mut send = |bytes| mesh.send(cycles(0), cycles(0), 0, 1, bytes, Order::Free);
        assert_eq!(send(LINE_MESSAGE_BYTES), cycles(64 + 3 + 71));
        assert_eq!(send(LINE_MESSAGE_BYTES), cycles(136 + 3 + 71));
        assert_eq!(send(CONTROL_BYTES), cycles(3 + 7));
    }

    #[test]
    fn ways_go_along_the_row_first() {
        // Tile 9 is column 1, row 2 of 4 columns; tile 3 is column 3, row 0.
        let route = |from, to| {
            let mut links = Vec::new();
            super::route(4, 0, (from, to), &mut links);
            links
        };
        assert_eq!(route(9, 3), [9 * 4, 10 * 4, 11 * 4 + 3, 7 * 4 + 3]);
        assert_eq!(route(3, 9), [3 * 4 + 1, 2 * 4 + 1, 4 + 2, 5 * 4 + 2]);
        assert_eq!(route(5, 5), [0u16; 0]);
    }
}
