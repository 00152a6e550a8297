//! The path of each request through a rack, for a timeline: from its client over links and switch
//! to the network interface of a server, to a core, and back.

use crate::traces::Writer;
use fabric::Time;
use network::rack::{MessageName, NodeId, Record, Step};
use std::collections::{BTreeMap, HashMap};
use trace::{SharedTimeline, Shown};

/// The group of the tracks of links and switch.
const NETWORK: &str = "network";

/// A member of the network.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
}

/// The role of a member of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
    Switch,
}

/// Shows messages on a timeline.
pub(crate) struct Flows {
    timeline: SharedTimeline<Writer>,
    /// Indexed by their numbers in the network.
    members: Vec<Member>,
    /// The numbers of servers and clients, by address.
    hosts: HashMap<u32, NodeId>,
    /// The recorded steps of messages that have not been shown yet.
    steps: BTreeMap<MessageName, Vec<Step>>,
    flows: u64,
}

/// The context for showing one message, or a request and its response.
struct Way<'a> {
    flows: &'a Flows,
    flow: u64,
    name: &'a str,
}

impl Way<'_> {
    fn show(&self, group: &str, track: &str, (from, until): (Time, Time), note: &str) {
        self.flows.timeline.borrow_mut().show(&Shown {
            group,
            track,
            name: &format!("{}{note}", self.name),
            from,
            until: until.max(from),
            flow: Some(self.flow),
            is_last: false,
            notes: &[],
        });
    }

    /// Shows the passage over links, and the time between two of them.
    fn through_network(&self, steps: &[Step]) {
        let name_of = |node: NodeId| self.flows.name(node);
        // Packets inside a switch: their number, the switch, and the time of entry.
        let mut inside: Vec<(u16, NodeId, Time)> = Vec::new();
        for step in in_time(steps) {
            let part = |packet: u16| match packet {
                0 => String::new(),
                _ => format!(", packet {packet}"),
            };
            match *step {
                Step::OnLink {
                    packet,
                    is_trimmed,
                    is_lost,
                    from,
                    to,
                    enters,
                    arrives,
                } => {
                    let mut note = part(packet);
                    if is_trimmed {
                        note += " (trimmed)";
                    }
                    let is_this = |one: &(u16, NodeId, Time)| (one.0, one.1) == (packet, from);
                    if let Some(place) = inside.iter().position(is_this) {
                        let (_, switch, since) = inside.remove(place);
                        let track = format!("{}, to {}", name_of(switch), name_of(to));
                        self.show(NETWORK, &track, (since, enters), &note);
                    }
                    if is_lost {
                        note += " (lost)";
                    } else if self.flows.role(to) == Some(Role::Switch) {
                        inside.push((packet, to, arrives));
                    }
                    let track = format!("link from {} to {}", name_of(from), name_of(to));
                    self.show(NETWORK, &track, (enters, arrives), &note);
                }
                Step::Dropped { packet, by, at } => {
                    let is_this = |one: &(u16, NodeId, Time)| (one.0, one.1) == (packet, by);
                    let place = inside.iter().position(is_this);
                    let since = place.map_or(at, |place| inside.remove(place).2);
                    let note = part(packet) + " (dropped)";
                    self.show(NETWORK, name_of(by), (since, at), &note);
                }
                Step::Given { .. } | Step::Sent { .. } | Step::Answers { .. } => {}
            }
        }
    }

    /// Shows a server's network interface and its cores, with an incoming message, an outgoing one,
    /// or both as request and answer.
    fn through_server(&self, coming: &[Step], going: &[Step]) {
        let servers = |node: &NodeId| self.flows.role(*node) == Some(Role::Server);
        // The time at which all of it has been received or sent.
        let mut arrived = coming.iter().filter_map(|step| match *step {
            Step::OnLink { to, arrives, .. } if servers(&to) => Some((to, arrives)),
            _ => None,
        });
        let given = coming.iter().find_map(|step| match *step {
            Step::Given { core, at } => Some((core, at)),
            _ => None,
        });
        let arrived = match given {
            Some((_, at)) => arrived.rfind(|&(_, arrives)| arrives <= at),
            None => arrived.next_back(),
        };
        let sent = going.iter().find_map(|step| match *step {
            Step::Sent { core, at } => Some((core, at)),
            _ => None,
        });
        let left = going.iter().find_map(|step| match *step {
            Step::OnLink { from, enters, .. } if servers(&from) => Some((from, enters)),
            _ => None,
        });
        let name_of = |node: NodeId| self.flows.name(node);
        let track_of = |core: usize| format!("messages of core {core}");
        if let (Some((server, since)), Some((_, until))) = (arrived, given) {
            self.show(name_of(server), "interface, in", (since, until), "");
        }
        if let (Some((_, since)), Some((server, until))) = (sent, left) {
            self.show(name_of(server), "interface, out", (since, until), "");
        }
        let (here, there) = (arrived.map(|one| one.0), left.map(|one| one.0));
        match (given, sent) {
            (Some((core, since)), Some((other, until))) if core == other && here == there => {
                if let Some(server) = here {
                    self.show(name_of(server), &track_of(core), (since, until), "");
                }
            }
            (None, None) => {
                // The interface gives no details: only the server's total time is known.
                if let (Some((server, since)), Some((other, until))) = (arrived, left)
                    && server == other
                    && since <= until
                {
                    self.show(name_of(server), "interface and program", (since, until), "");
                }
            }
            _ => {
                for (server, event) in [(here, given), (there, sent)] {
                    if let (Some(server), Some((core, at))) = (server, event) {
                        self.show(name_of(server), &track_of(core), (at, at), "");
                    }
                }
            }
        }
    }
}

/// The start time of a step.
fn begins(step: &Step) -> Time {
    match *step {
        Step::OnLink { enters, .. } => enters,
        Step::Dropped { at, .. } | Step::Given { at, .. } | Step::Sent { at, .. } => at,
        Step::Answers { done_at, .. } => done_at,
    }
}

fn in_time(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let mut sorted: Vec<&Step> = steps.iter().collect();
    sorted.sort_by_key(|step| begins(step));
    sorted.into_iter()
}

impl Flows {
    /// Shows messages between `members`; `addresses` are those of the servers and clients.
    pub fn new(
        timeline: SharedTimeline<Writer>,
        members: Vec<Member>,
        hosts: HashMap<u32, NodeId>,
    ) -> Flows {
        Flows {
            timeline,
            members,
            hosts,
            steps: BTreeMap::new(),
            flows: 0,
        }
    }

    fn name(&self, node: NodeId) -> &str {
        let member = self.members.get(usize::from(node.0));
        member.map_or("", |member| &member.name)
    }

    fn role(&self, node: NodeId) -> Option<Role> {
        Some(self.members.get(usize::from(node.0))?.role)
    }

    fn host(&self, address: u32) -> Option<NodeId> {
        self.hosts.get(&address).copied()
    }

    /// Takes recorded steps, and shows completed messages.
    pub fn take(&mut self, records: &mut Vec<Record>) {
        let mut answers = Vec::new();
        let mut given = Vec::new();
        for Record { message, step } in records.drain(..) {
            match step {
                Step::Answers {
                    request,
                    made_at,
                    done_at,
                } => {
                    answers.push((request, message, made_at, done_at));
                    continue;
                }
                Step::Given { .. } => given.push(message),
                _ => {}
            }
            self.steps.entry(message).or_default().push(step);
        }
        for (request, response, made_at, done_at) in answers {
            self.show_answered(request, response, (made_at, done_at));
        }
        // Messages between servers have no known answers.
        for message in given {
            let sender = self.host(message.from).and_then(|node| self.role(node));
            if sender == Some(Role::Server)
                && let Some(steps) = self.steps.remove(&message)
            {
                self.show_alone(message, &steps);
            }
        }
    }

    /// Shows a request that has been answered.
    fn show_answered(
        &mut self,
        request: MessageName,
        response: MessageName,
        (made_at, done_at): (Time, Time),
    ) {
        let there = self.steps.remove(&request).unwrap_or_default();
        let back = self.steps.remove(&response).unwrap_or_default();
        // Later messages with the same name are still in flight.
        let (back, later): (Vec<Step>, Vec<Step>) =
            back.into_iter().partition(|step| begins(step) <= done_at);
        if !later.is_empty() {
            self.steps.insert(response, later);
        }
        if !self.timeline.borrow().shows(made_at, done_at) {
            return;
        }
        self.flows += 1;
        let client = self.host(request.from).map(|node| self.name(node));
        let client = client.unwrap_or_default();
        let name = format!("request {} of {client}", request.tag);
        let way = Way {
            flows: self,
            flow: self.flows,
            name: &name,
        };
        way.show(client, "requests", (made_at, done_at), "");
        way.through_network(&there);
        way.through_server(&there, &back);
        way.through_network(&back);
        self.timeline.borrow_mut().show(&Shown {
            group: client,
            track: "responses",
            name: &name,
            from: done_at,
            until: done_at,
            flow: Some(self.flows),
            is_last: true,
            notes: &[],
        });
    }

    /// Shows a message that is not a client's request, or has not been answered.
    fn show_alone(&mut self, message: MessageName, steps: &[Step]) {
        let times = || steps.iter().map(begins);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return;
        };
        if !self.timeline.borrow().shows(first, last) {
            return;
        }
        self.flows += 1;
        let sender = self.host(message.from).map(|node| self.name(node));
        let name = format!("message {} of {}", message.tag, sender.unwrap_or_default());
        let way = Way {
            flows: self,
            flow: self.flows,
            name: &name,
        };
        way.through_server(&[], steps);
        way.through_network(steps);
        way.through_server(steps, &[]);
    }

    /// Shows the unanswered messages at the end of the run.
    pub fn finish(&mut self) {
        for (message, steps) in std::mem::take(&mut self.steps) {
            self.show_alone(message, &steps);
        }
    }
}
