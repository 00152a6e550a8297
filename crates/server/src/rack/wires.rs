//! The positions of servers and clients in the network of a rack.

use super::flows::{Member, Role};
use super::{Rack, RackDescription};
use crate::error::RunError;
use fabric::Time;
use network::rack::{LinkCounts, Network, NodeId, Switch};
use network::{LoadGenerator, Offer};
use workload::{Estimate, Files, Recorder};

/// The positions of all hosts in the network.
pub(crate) struct Wires {
    /// The IPv4 addresses of the servers, followed by those of the clients.
    pub addresses: Vec<u32>,
    pub servers: Vec<NodeId>,
    /// With their names.
    pub clients: Vec<(NodeId, String)>,
    pub switch: Option<NodeId>,
}

impl Wires {
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> {
        let clients = self.clients.iter().map(|&(id, _)| id);
        self.servers.iter().copied().chain(clients)
    }

    /// The members of the network, by number.
    pub fn members(&self, rack: &Rack) -> Vec<Member> {
        let member = |name: &str, role| Member {
            name: name.to_string(),
            role,
        };
        let servers = rack.servers.iter().zip(&self.servers);
        let servers = servers.map(|(server, &id)| (id, member(&server.name, Role::Server)));
        let clients = self.clients.iter();
        let clients = clients.map(|(id, name)| (*id, member(name, Role::Client)));
        let switch = self.switch.map(|id| (id, member("switch", Role::Switch)));
        let mut members: Vec<(NodeId, Member)> = servers.chain(clients).chain(switch).collect();
        members.sort_by_key(|(id, _)| *id);
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// The traffic of a host's links from it and to it.
    pub fn counts(&self, network: &Network, host: usize) -> (LinkCounts, LinkCounts) {
        let id = |host| self.hosts().nth(host).unwrap_or(NodeId(0));
        let all = |id| {
            let ports = 0..network.ports(id);
            ports.map(|port| network.link_counts(id, port)).sum()
        };
        let towards = match self.switch {
            Some(switch) => network.link_counts(switch, host),
            None => all(id(1 - host.min(1))),
        };
        (all(id(host)), towards)
    }
}

/// The name of one of several identical hosts, or of the only one.
pub(crate) fn name_of(name: &str, count: u32, number: u32) -> String {
    match count {
        1 => name.to_string(),
        _ => format!("{name} {number}"),
    }
}

/// The network of a rack, with places for its servers.
pub(crate) fn wire_up(
    description: &RackDescription,
    files: &Files,
) -> Result<(Network, Wires), RunError> {
    let spec = &description.rack;
    let measure = &description.measure;
    let mut network = Network::new(measure.seed);
    let hosts = spec.hosts();
    let all = spec.addresses()?;
    let servers: Vec<NodeId> = (0..spec.servers()).map(|_| network.add_server()).collect();
    let mut clients = Vec::new();
    for (place, client) in spec.clients.iter().enumerate() {
        let asked = spec.servers_of(client);
        let is_alone = client.count == 1
            && spec.clients.iter().enumerate().all(|(other, client)| {
                let also = spec.servers_of(client);
                other == place || !asked.iter().any(|server| also.contains(server))
            });
        let addresses: Vec<u32> = asked.into_iter().map(|server| all[server]).collect();
        for number in 0..client.count {
            let host = servers.len() + clients.len();
            let name = name_of(&client.name, client.count, number);
            // The seeds are far apart, like those of links.
            let seed = measure.seed.wrapping_add((host as u64) << 32);
            let precision_of = match client.load.offer {
                Offer::Closed { think_ns: 0.0, .. } => Estimate::Throughput,
                Offer::Closed { .. } | Offer::Open { .. } | Offer::Simultaneous { .. } => {
                    Estimate::P99
                }
            };
            let recorder = Recorder::new(measure.requests, measure.warmup)
                .with_precision(measure.precision, precision_of);
            let load_generator = LoadGenerator::new(
                name.clone(),
                client.load.clone(),
                (all[host], spec.link.rate()),
                (addresses.clone(), is_alone),
                recorder,
                seed,
                files,
            );
            let load_generator = load_generator
                .map_err(|sentence| RunError::Description(sentence).of(&client.name))?;
            let id = network.add_node(Box::new(load_generator));
            network.wake(id, Time::from_ns(client.begin_ns), LoadGenerator::BEGIN);
            clients.push((id, name));
        }
    }
    let switch = spec.switch.as_ref().map(|switch| {
        let routes = all.iter().zip(0..).map(|(&address, port)| (address, port));
        let switch = Switch::new(switch, "the switch".to_string(), hosts, routes.collect());
        network.add_node(Box::new(switch))
    });
    let wires = Wires {
        addresses: all,
        servers,
        clients,
        switch,
    };
    let ids: Vec<NodeId> = wires.hosts().collect();
    match (switch, &*ids) {
        (Some(switch), _) => {
            for &id in &ids {
                network.connect(switch, id, &spec.link);
            }
        }
        (None, &[one, other]) => {
            for _ in 0..spec.ports() {
                network.connect(one, other, &spec.link);
            }
        }
        (None, _) => {}
    }
    Ok((network, wires))
}
