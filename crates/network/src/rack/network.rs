//! The network: nodes, servers and links, and the calendar of its events.

use super::link::{Direction, LinkCounts, LinkSpec};
use super::node::{Node, NodeContext, Port};
use super::record::{Record, Records, Step};
use crate::packet::{CHOP, Packet};
use fabric::Time;
use state::{State, Walker};
use std::any::Any;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use workload::{Random, Stream};

/// The number of a node or a server in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, state::State, state::Plain)]
pub struct NodeId(pub u16);

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
enum Happening {
    /// A packet arrives.
    Arrival { packet: Packet },
    /// The time of a [`NodeContext::wake`] has come.
    Timer { token: u64 },
    /// The link at a port is free, and the node may have a packet for it.
    Free,
}

/// An event at a node.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
struct Event {
    at: Time,
    node: u16,
    /// Events of the same time are ordered by kind: arrivals, timers, free links. A link's next
    /// packet is thus chosen among all that have arrived.
    rank: u8,
    port: u16,
    /// Orders events that are equal in all other respects. They have one cause, so their order is
    /// deterministic.
    count: u64,
    what: Happening,
}

impl Event {
    fn key(&self) -> (Time, u16, u8, u16, u64) {
        (self.at, self.node, self.rank, self.port, self.count)
    }
}

/// The first event is the greatest, as a max-heap requires.
impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The pending events.
#[derive(Default)]
pub(super) struct Calendar {
    events: BinaryHeap<Event>,
    count: u64,
}

impl State for Calendar {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut events = std::mem::take(&mut self.events).into_sorted_vec();
        events.walk(walker);
        self.events = events.into();
        self.count.walk(walker);
    }
}

impl Calendar {
    fn push(&mut self, at: Time, node: u16, rank: u8, port: u16, what: Happening) {
        let count = self.count;
        self.count += 1;
        self.events.push(Event {
            at,
            node,
            rank,
            port,
            count,
            what,
        });
    }

    fn arrival(&mut self, at: Time, (node, port): (u16, u16), packet: Packet) {
        self.push(at, node, 0, port, Happening::Arrival { packet });
    }

    pub(super) fn wake(&mut self, at: Time, node: u16, token: u64) {
        self.push(at, node, 1, 0, Happening::Timer { token });
    }

    pub(super) fn free(&mut self, at: Time, node: u16, port: usize) {
        self.push(at, node, 2, port as u16, Happening::Free);
    }

    fn next_at(&self) -> Time {
        self.events.peek().map_or(Time::NEVER, |event| event.at)
    }
}

/// A node or a server, and its ports.
struct Member {
    /// `None` for a server, which is simulated elsewhere.
    node: Option<Box<dyn Node>>,
    ports: Vec<Port>,
    /// The links that leave its ports.
    links: Vec<Direction>,
}

impl State for Member {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let Member { node, ports, links } = self;
        if let Some(node) = node {
            node.walk(walker);
        }
        state::slice(ports, walker);
        state::slice(links, walker);
    }
}

/// Nodes, servers, and the links between them.
#[derive(state::State)]
pub struct Network {
    #[state(slice)]
    members: Vec<Member>,
    /// Which members receive a packet when its first bit arrives.
    #[state(fixed)]
    cuts: Vec<bool>,
    calendar: Calendar,
    /// Packets that have arrived at servers and have not been collected, in order of time.
    arrived: Vec<(Time, (NodeId, u16), Packet)>,
    /// All events before this time have been processed.
    done_until: Time,
    #[state(fixed)]
    seed: u64,
    #[state(fixed)]
    links: u64,
    #[state(fixed)]
    records: Records,
}

impl Network {
    /// An empty network. `seed` determines the faults of its links.
    pub fn new(seed: u64) -> Network {
        Network {
            members: Vec::new(),
            cuts: Vec::new(),
            calendar: Calendar::default(),
            arrived: Vec::new(),
            done_until: Time::ZERO,
            seed,
            links: 0,
            records: Records::default(),
        }
    }

    fn add(&mut self, node: Option<Box<dyn Node>>) -> NodeId {
        let id = NodeId(self.members.len() as u16);
        self.cuts
            .push(node.as_ref().is_some_and(|node| node.cuts_through()));
        self.members.push(Member {
            node,
            ports: Vec::new(),
            links: Vec::new(),
        });
        id
    }

    /// Adds a switch or a host.
    pub fn add_node(&mut self, node: Box<dyn Node>) -> NodeId {
        self.add(Some(node))
    }

    /// Adds a server, which is simulated elsewhere.
    pub fn add_server(&mut self) -> NodeId {
        self.add(None)
    }

    /// Connects two members by a link; returns the new ports' numbers. The ports of a member are
    /// numbered from 0 in the order of their links.
    pub fn connect(&mut self, one: NodeId, other: NodeId, spec: &LinkSpec) -> (usize, usize) {
        let port = |id: NodeId| self.members[usize::from(id.0)].ports.len();
        let ends = [(one, port(one)), (other, port(other))];
        for (from, to) in [(0, 1), (1, 0)] {
            let (to, port) = (ends[to].0, ends[to].1);
            // Far apart, so that runs with consecutive seeds have no sequence in common.
            let seed = self.seed.wrapping_add(self.links << 32);
            self.links += 1;
            let random = Random::new(seed, Stream::LinkFaults);
            let member = &mut self.members[usize::from(ends[from].0.0)];
            member.ports.push(Port {
                rate: spec.rate(),
                is_offered: false,
                free_at: Time::ZERO,
            });
            member
                .links
                .push(Direction::new(spec, (to.0, port as u16), random));
        }
        (ends[0].1, ends[1].1)
    }

    /// The minimum latency of the links to and from servers: a lower bound for the time from a
    /// server's sending a packet until another member receives it.
    pub fn shortest_server_latency(&self) -> Time {
        let is_server = |member: u16| self.members[usize::from(member)].node.is_none();
        let latencies = self
            .members
            .iter()
            .enumerate()
            .flat_map(|(number, member)| {
                member
                    .links
                    .iter()
                    .filter(move |link| is_server(number as u16) || is_server(link.to.0))
                    .map(Direction::latency)
            });
        latencies.min().unwrap_or(Time::NEVER)
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Time {
        self.calendar.next_at()
    }

    /// Calls the timer of a node at `at`, which must not be past.
    pub fn wake(&mut self, node: NodeId, at: Time, token: u64) {
        self.calendar.wake(at.max(self.done_until), node.0, token);
    }

    /// A server's packet starts to enter the link of `port` at `at`, which must not be past.
    pub fn enter(&mut self, (server, port): (NodeId, usize), at: Time, packet: Packet) {
        self.send(server, port, at, packet);
    }

    /// Puts `packet` on the link of `from` at `port`, at `at` or as soon as the link is free;
    /// returns when the link is free again.
    fn send(&mut self, from: NodeId, port: usize, at: Time, packet: Packet) -> Time {
        let member = &mut self.members[usize::from(from.0)];
        let (state, link) = (&mut member.ports[port], &mut member.links[port]);
        let start = at.max(state.free_at);
        let (arrivals, free_at) = link.carry(start, &packet);
        state.free_at = free_at;
        let (first, last) = arrivals.times;
        let arrival = match self.cuts[usize::from(link.to.0)] {
            true => first,
            false => last,
        };
        let (to, is_lost) = (link.to, arrivals.is_lost);
        let note = |records: &mut Records, arrives| {
            records.note_packet(&packet, || Step::OnLink {
                packet: packet.header.packet,
                is_trimmed: packet.header.flags & CHOP != 0,
                is_lost,
                from,
                to: NodeId(to.0),
                enters: start,
                arrives,
            });
        };
        note(&mut self.records, arrival);
        if is_lost {
            return free_at;
        }
        if arrivals.is_duplicated {
            let second = arrival + (last - first);
            note(&mut self.records, second);
            self.calendar.arrival(second, to, packet.clone());
        }
        self.calendar.arrival(arrival, to, packet);
        free_at
    }

    /// Records the steps of messages from now on.
    pub fn keep_records(&mut self) {
        self.records.keep();
    }

    /// Appends the records since the last call, in order of time, to `records`.
    pub fn take_records(&mut self, records: &mut Vec<Record>) {
        self.records.take(records);
    }

    /// Processes all events before `end`.
    pub fn run_until(&mut self, end: Time) {
        while self.calendar.next_at() < end
            && let Some(event) = self.calendar.events.pop()
        {
            self.happen(event);
        }
        self.done_until = self.done_until.max(end);
    }

    fn happen(&mut self, event: Event) {
        let Event { at, node, port, .. } = event;
        let member = &mut self.members[usize::from(node)];
        let port = usize::from(port);
        let Some(behaviour) = &mut member.node else {
            if let Happening::Arrival { packet } = event.what {
                let place = (NodeId(node), event.port);
                self.arrived.push((at, place, packet));
            }
            return;
        };
        let mut context = NodeContext {
            now: at,
            node,
            ports: &mut member.ports,
            calendar: &mut self.calendar,
            records: &mut self.records,
        };
        match event.what {
            Happening::Arrival { packet } => behaviour.packet(&mut context, port, packet),
            Happening::Timer { token } => behaviour.timer(&mut context, token),
            // The port stays offered as long as there are packets.
            Happening::Free => match behaviour.next_packet(&mut context, port) {
                Some(packet) => {
                    let free_at = self.send(NodeId(node), port, at, packet);
                    self.calendar.free(free_at, node, port);
                }
                None => context.ports[port].is_offered = false,
            },
        }
    }

    /// The packets that have arrived at servers since the last call, in order of time: the time of
    /// the last bit, the server and its port.
    pub fn take_arrived(&mut self) -> std::vec::Drain<'_, (Time, (NodeId, u16), Packet)> {
        self.arrived.drain(..)
    }

    /// The node `id`, if it is a `T`.
    pub fn node<T: Node>(&self, id: NodeId) -> Option<&T> {
        let node = self.members.get(usize::from(id.0))?.node.as_ref()?;
        let node: &dyn Any = &**node;
        node.downcast_ref()
    }

    /// The node `id`, mutably, if it is a `T`.
    pub fn node_mut<T: Node>(&mut self, id: NodeId) -> Option<&mut T> {
        let node = self.members.get_mut(usize::from(id.0))?.node.as_mut()?;
        let node: &mut dyn Any = &mut **node;
        node.downcast_mut()
    }

    /// The number of a member's ports.
    pub fn ports(&self, member: NodeId) -> usize {
        self.members[usize::from(member.0)].ports.len()
    }

    /// The counters of the link that leaves `node` at `port`.
    pub fn link_counts(&self, node: NodeId, port: usize) -> LinkCounts {
        self.members[usize::from(node.0)].links[port].counts
    }
}
