//! A switch: output queues with finite buffers, strict priorities, and NDP's trimming.

use super::node::{Node, NodeContext};
use crate::packet::{ECN_CAPABLE, ECN_MARKED, Packet};
use fabric::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// When a switch begins to forward a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// As soon as it knows where the packet goes.
    #[default]
    CutThrough,
    /// When the packet's last bit has come.
    StoreAndForward,
}

/// A switch.
///
/// Each output port has a buffer of its own. Waiting packets are sent by priority, 0 first, and in
/// the order of arrival within a priority. A packet that finds its buffer full is dropped. With
/// `trimming` its payload is cut off instead, and the rest continues at the highest priority (NDP;
/// Handley et al., SIGCOMM 2017).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchSpec {
    /// Nanoseconds from a packet's arrival until it can leave. 300 ns are nanoPU's (OSDI 2021,
    /// Section 5.3), "typical of modern cut-through commercial switch ASICs".
    #[schemars(range(min = 0.0, max = 1e6))]
    pub forwarding_latency_ns: f64,
    /// The start of forwarding: the latency counts from a packet's first bit, or from its last.
    pub forwarding: Forwarding,
    /// Bytes that can wait for each port: with `trimming` those of packets with a payload,
    /// otherwise all. A packet that is being sent does not count. No paper says; 128 KiB are some
    /// six times what 200 Gb/s have in flight in a round trip through one switch.
    #[schemars(range(min = 1088, max = 1_000_000_000))]
    pub buffer_bytes: u64,
    /// Whether the payload of a packet that finds the buffer full is cut off.
    pub trimming: bool,
    /// With `trimming`, bytes of packets without a payload that can wait for each port. What finds
    /// no room there is dropped. 65536 are 1024 headers; NDP has 1125.
    #[schemars(range(min = 64, max = 1_000_000_000))]
    pub header_buffer_bytes: u64,
    /// A packet that arrives while more than this many bytes wait for its port is marked, if its
    /// transport uses explicit congestion notification (DCTCP; Alizadeh et al., SIGCOMM 2010,
    /// Section 3.1). Without it no packet is marked.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub ecn_threshold_bytes: Option<u64>,
    /// The number of priorities that it distinguishes; packets of lower ones have the lowest.
    #[schemars(range(min = 1, max = 8))]
    pub priorities: u8,
}

impl Default for SwitchSpec {
    fn default() -> SwitchSpec {
        SwitchSpec {
            forwarding_latency_ns: 300.0,
            forwarding: Forwarding::CutThrough,
            buffer_bytes: 128 * 1024,
            trimming: false,
            header_buffer_bytes: 64 * 1024,
            ecn_threshold_bytes: None,
            priorities: 8,
        }
    }
}

/// The packets of one port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct PortCounts {
    /// Packets that were sent, including trimmed ones.
    pub forwarded: u64,
    /// Packets whose payload was cut off here.
    pub trimmed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets marked at this port (explicit congestion notification).
    pub marked: u64,
    /// The maximum number of waiting bytes.
    pub max_queued_bytes: u64,
}

/// The packets that wait for a port.
#[derive(Default, state::State)]
struct Output {
    /// By priority.
    #[state(slice)]
    queues: Vec<VecDeque<Packet>>,
    /// Bytes of packets with a payload, and of others.
    data_bytes: u64,
    header_bytes: u64,
    counts: PortCounts,
}

impl Output {
    /// The count of waiting bytes that includes `packet`.
    fn bytes_of(&mut self, packet: &Packet) -> &mut u64 {
        if packet.payload.is_empty() {
            &mut self.header_bytes
        } else {
            &mut self.data_bytes
        }
    }

    fn queued_bytes(&self) -> u64 {
        self.data_bytes + self.header_bytes
    }

    /// Whether there is room for `packet`.
    fn has_room(&self, spec: &SwitchSpec, packet: &Packet) -> bool {
        let bytes = packet.wire_bytes();
        match (spec.trimming, packet.payload.is_empty()) {
            (false, _) => self.data_bytes + self.header_bytes + bytes <= spec.buffer_bytes,
            (true, false) => self.data_bytes + bytes <= spec.buffer_bytes,
            (true, true) => self.header_bytes + bytes <= spec.header_buffer_bytes,
        }
    }

    /// Queues `packet`, or trims or drops it; returns the packet if it is dropped.
    fn take(&mut self, spec: &SwitchSpec, mut packet: Packet) -> Option<Packet> {
        if spec.trimming && !packet.payload.is_empty() && !self.has_room(spec, &packet) {
            packet.trim();
            self.counts.trimmed += 1;
        }
        if !self.has_room(spec, &packet) {
            self.counts.dropped += 1;
            return Some(packet);
        }
        let found = self.queued_bytes();
        if spec.ecn_threshold_bytes.is_some_and(|most| found > most) && packet.ecn == ECN_CAPABLE {
            packet.ecn = ECN_MARKED;
            self.counts.marked += 1;
        }
        *self.bytes_of(&packet) += packet.wire_bytes();
        let queued = self.queued_bytes();
        self.counts.max_queued_bytes = self.counts.max_queued_bytes.max(queued);
        let priority = packet.priority.min(spec.priorities - 1);
        self.queues[usize::from(priority)].push_back(packet);
        None
    }

    fn next(&mut self) -> Option<Packet> {
        let packet = self.queues.iter_mut().find_map(VecDeque::pop_front)?;
        *self.bytes_of(&packet) -= packet.wire_bytes();
        self.counts.forwarded += 1;
        Some(packet)
    }
}

/// A switch in a network.
#[derive(state::State)]
pub struct Switch {
    #[state(fixed)]
    spec: SwitchSpec,
    #[state(fixed)]
    name: String,
    #[state(fixed)]
    latency: Time,
    /// The output port for each destination address, sorted by address.
    #[state(fixed)]
    routes: Vec<(u32, usize)>,
    #[state(slice)]
    outputs: Vec<Output>,
    /// Packets within the forwarding latency and their output ports, by the token of the timer.
    inside: Vec<Option<(usize, Packet)>>,
    /// Free entries of `inside`.
    free: Vec<u64>,
    #[state(count)]
    unroutable: u64,
}

impl Switch {
    /// A switch with this number of ports. `routes`: the output port for each destination address.
    pub fn new(
        spec: &SwitchSpec,
        name: String,
        ports: usize,
        mut routes: Vec<(u32, usize)>,
    ) -> Switch {
        routes.sort_unstable();
        let output = || Output {
            queues: vec![VecDeque::new(); usize::from(spec.priorities)],
            ..Output::default()
        };
        Switch {
            spec: spec.clone(),
            name,
            latency: Time::from_ns(spec.forwarding_latency_ns),
            routes,
            outputs: std::iter::repeat_with(output).take(ports).collect(),
            inside: Vec::new(),
            free: Vec::new(),
            unroutable: 0,
        }
    }

    /// The counters of each of its ports.
    pub fn port_counts(&self) -> impl Iterator<Item = PortCounts> {
        self.outputs.iter().map(|output| output.counts)
    }

    /// Number of bytes that wait for each of its ports.
    pub fn queued_bytes(&self) -> impl Iterator<Item = u64> {
        self.outputs.iter().map(Output::queued_bytes)
    }

    /// The number of packets that were dropped because no route has their destination address.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }
}

impl Node for Switch {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn cuts_through(&self) -> bool {
        self.spec.forwarding == Forwarding::CutThrough
    }

    fn packet(&mut self, context: &mut NodeContext<'_>, port: usize, packet: Packet) {
        let address = packet.to.address;
        let Ok(route) = self.routes.binary_search_by_key(&address, |route| route.0) else {
            self.unroutable += 1;
            return context.note_dropped(&packet);
        };
        let output = self.routes[route].1;
        let mut ready = context.now() + self.latency;
        if self.cuts_through() {
            // On a faster output link the last bit must not leave before it has arrived.
            let bytes = packet.wire_bytes();
            let comes = context.rate(port).duration(bytes);
            let leaves = context.rate(output).duration(bytes);
            ready += comes.saturating_sub(leaves);
        }
        let token = self.free.pop().unwrap_or_else(|| {
            self.inside.push(None);
            self.inside.len() as u64 - 1
        });
        self.inside[token as usize] = Some((output, packet));
        context.wake(ready, token);
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, token: u64) {
        let inside = self.inside.get_mut(token as usize);
        let Some((output, packet)) = inside.and_then(Option::take) else {
            return;
        };
        self.free.push(token);
        if let Some(dropped) = self.outputs[output].take(&self.spec, packet) {
            context.note_dropped(&dropped);
        }
        context.offer(output);
    }

    fn next_packet(&mut self, _context: &mut NodeContext<'_>, port: usize) -> Option<Packet> {
        self.outputs[port].next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Host, ns, packet};
    use super::super::{LinkSpec, Network, NodeId};
    use super::*;
    use crate::packet::{ACK, CHOP, HEADER_BYTES, NO_ECN};
    use proptest::prelude::*;

    const ADDRESSES: u32 = 100;

    /// Hosts around a switch: host `n` has address 100 + n and sends packets at given times.
    fn star(
        spec: &SwitchSpec,
        links: &[LinkSpec],
        sends: &[(usize, f64, Packet)],
    ) -> (Network, NodeId, Vec<NodeId>) {
        let mut network = Network::new(1);
        let routes = (0..links.len()).map(|host| (ADDRESSES + host as u32, host));
        let switch = Switch::new(
            spec,
            "the switch".to_string(),
            links.len(),
            routes.collect(),
        );
        let switch = network.add_node(Box::new(switch));
        let mut hosts = Vec::new();
        for (number, link) in links.iter().enumerate() {
            let mine = sends.iter().filter(|(host, ..)| *host == number);
            let host = Host {
                to_send: mine.clone().map(|(.., packet)| packet.clone()).collect(),
                ..Host::default()
            };
            let id = network.add_node(Box::new(host));
            assert_eq!(network.connect(switch, id, link), (number, 0));
            for (token, (_, at, _)) in mine.enumerate() {
                network.wake(id, ns(*at), token as u64);
            }
            hosts.push(id);
        }
        (network, switch, hosts)
    }

    fn got(network: &mut Network, host: NodeId) -> Vec<(Time, u64)> {
        network.node_mut::<Host>(host).unwrap().got.clone()
    }

    fn counts(network: &mut Network, switch: NodeId, port: usize) -> PortCounts {
        let switch = network.node_mut::<Switch>(switch).unwrap();
        switch.port_counts().nth(port).unwrap()
    }

    #[test]
    fn it_cuts_through_or_stores() {
        let send = [(0, 0.0, packet(101, 1088, 1))];
        let links = vec![LinkSpec::default(); 2];
        let arrives = |spec: &SwitchSpec, links: &[LinkSpec]| {
            let (mut network, _, hosts) = star(spec, links, &send);
            network.run_until(Time::NEVER);
            got(&mut network, hosts[1])[0].0
        };
        // Two links of 43 ns, 300 ns, and 1088 bytes at 200 Gb/s once: 43.52 ns.
        let cut = SwitchSpec::default();
        assert_eq!(arrives(&cut, &links), ns(2.0 * 43.0 + 300.0 + 43.52));
        // The same with 1088 bytes twice.
        let store = SwitchSpec {
            forwarding: Forwarding::StoreAndForward,
            ..SwitchSpec::default()
        };
        assert_eq!(
            arrives(&store, &links),
            ns(2.0 * 43.0 + 300.0 + 2.0 * 43.52)
        );
        // The slower of two links determines the duration: 87.04 ns at 100 Gb/s, as input or as
        // output.
        let slow = LinkSpec {
            rate_gbit_per_s: 100.0,
            ..LinkSpec::default()
        };
        let expected = ns(2.0 * 43.0 + 300.0 + 87.04);
        assert_eq!(
            arrives(&cut, &[slow.clone(), LinkSpec::default()]),
            expected
        );
        assert_eq!(arrives(&cut, &[LinkSpec::default(), slow]), expected);
    }

    #[test]
    fn packets_wait_for_their_port_by_priority() {
        // Three hosts send to the fourth at the same time: 72 bytes take 2.88 ns each. The packet
        // of the first port leaves first, since all arrive at the same time with equal priority;
        // then the one of higher priority.
        let urgent = Packet {
            priority: 0,
            ..packet(103, 72, 9)
        };
        let sends = [
            (0, 0.0, packet(103, 72, 1)),
            (0, 0.0, packet(103, 72, 2)),
            (1, 0.0, packet(103, 72, 3)),
            (2, 1.0, urgent),
        ];
        let links = vec![LinkSpec::default(); 4];
        let (mut network, switch, hosts) = star(&SwitchSpec::default(), &links, &sends);
        network.run_until(Time::NEVER);
        let first = 2.0 * 43.0 + 300.0 + 2.88;
        let expected: Vec<(Time, u64)> = [1, 9, 3, 2]
            .iter()
            .enumerate()
            .map(|(place, &tag)| (ns(first + 2.88 * place as f64), tag))
            .collect();
        assert_eq!(got(&mut network, hosts[3]), expected);
        let counts = counts(&mut network, switch, 3);
        assert_eq!((counts.forwarded, counts.dropped), (4, 0));
        // The last one arrives at the time at which the first has left, and before the next one
        // leaves.
        assert_eq!(counts.max_queued_bytes, 3 * 72);
    }

    #[test]
    fn a_full_buffer_drops() {
        // Ten packets of 1088 bytes arrive at the same time, before any of them leaves, and there
        // is room for four.
        let sends: Vec<_> = (0..10)
            .map(|host| (host, 0.0, packet(110, 1088, host as u64)))
            .collect();
        let spec = SwitchSpec {
            buffer_bytes: 4 * 1088,
            ..SwitchSpec::default()
        };
        let links = vec![LinkSpec::default(); 11];
        let (mut network, switch, hosts) = star(&spec, &links, &sends);
        network.run_until(Time::NEVER);
        let tags: Vec<u64> = got(&mut network, hosts[10])
            .iter()
            .map(|(_, tag)| *tag)
            .collect();
        assert_eq!(tags, [0, 1, 2, 3]);
        let counts = counts(&mut network, switch, 10);
        assert_eq!(
            counts,
            PortCounts {
                forwarded: 4,
                trimmed: 0,
                dropped: 6,
                marked: 0,
                max_queued_bytes: 4 * 1088
            }
        );
    }

    /// Ten packets arrive at the same time, so each finds its predecessors waiting. All but the
    /// last use explicit congestion notification.
    #[test]
    fn packets_behind_a_long_queue_are_marked() {
        let sends: Vec<_> = (0..10)
            .map(|host| {
                let packet = Packet {
                    ecn: if host < 9 { ECN_CAPABLE } else { NO_ECN },
                    ..packet(110, 1088, host as u64)
                };
                (host, 0.0, packet)
            })
            .collect();
        let links = vec![LinkSpec::default(); 11];
        for (threshold, marked) in [(None, 0), (Some(3 * 1088), 5), (Some(3 * 1088 - 1), 6)] {
            let spec = SwitchSpec {
                ecn_threshold_bytes: threshold,
                ..SwitchSpec::default()
            };
            let (mut network, switch, _) = star(&spec, &links, &sends);
            network.run_until(Time::NEVER);
            let counts = counts(&mut network, switch, 10);
            assert_eq!((counts.forwarded, counts.marked), (10, marked));
        }
    }

    #[test]
    fn trimmed_packets_go_first_and_their_buffer_is_finite_too() {
        let mut sends: Vec<_> = (0..10)
            .map(|host| (host, 0.0, packet(110, 1088, host as u64)))
            .collect();
        // A packet without payload counts as a header.
        let acknowledgement = Packet {
            header: crate::packet::TransportHeader {
                flags: ACK,
                ..Default::default()
            },
            priority: 0,
            ..packet(110, 64, 100)
        };
        sends.push((9, 100.0, acknowledgement));
        let spec = SwitchSpec {
            buffer_bytes: 4 * 1088,
            trimming: true,
            header_buffer_bytes: 5 * HEADER_BYTES,
            ..SwitchSpec::default()
        };
        let links = vec![LinkSpec::default(); 11];
        let (mut network, switch, hosts) = star(&spec, &links, &sends);
        network.run_until(Time::NEVER);
        // Four fit; five of the other six, as headers, are sent immediately before them: 2.56 ns
        // each. The acknowledgement, which comes 100 ns later, passes the data that waits then.
        let begin = 2.0 * 43.0 + 300.0;
        let mut at = begin;
        let mut expected = Vec::new();
        for tag in [4, 5, 6, 7, 8, 0, 1, 2, 100, 3] {
            at += match tag {
                4..=8 | 100 => 2.56,
                _ => 43.52,
            };
            expected.push((ns(at), tag));
        }
        assert_eq!(got(&mut network, hosts[10]), expected);
        let host = network.node_mut::<Host>(hosts[10]).unwrap();
        for packet in &host.got_packets {
            let was_trimmed = (4..=8).contains(&packet.tag);
            assert_eq!(packet.header.flags & CHOP != 0, was_trimmed);
            assert_eq!(packet.payload.is_empty(), was_trimmed || packet.tag == 100);
        }
        let counts = counts(&mut network, switch, 10);
        assert_eq!(
            counts,
            PortCounts {
                forwarded: 10,
                trimmed: 6,
                dropped: 1,
                marked: 0,
                max_queued_bytes: 4 * 1088 + 5 * 64
            }
        );
    }

    #[test]
    fn nobody_is_at_an_unknown_address() {
        let sends = [(0, 0.0, packet(7, 72, 1))];
        let links = vec![LinkSpec::default(); 2];
        let (mut network, switch, hosts) = star(&SwitchSpec::default(), &links, &sends);
        network.run_until(Time::NEVER);
        assert_eq!(network.node_mut::<Switch>(switch).unwrap().unroutable(), 1);
        assert!(hosts.iter().all(|&host| got(&mut network, host).is_empty()));
    }

    /// Random packets between hosts around a switch, with their times and lengths.
    fn traffic() -> impl Strategy<Value = (SwitchSpec, Vec<(usize, f64, Packet)>)> {
        let spec = (
            any::<bool>(),
            any::<bool>(),
            1088u64..6000,
            64u64..400,
            1u8..=8,
        )
            .prop_map(
                |(stores, trimming, buffer_bytes, header_buffer_bytes, priorities)| SwitchSpec {
                    forwarding: if stores {
                        Forwarding::StoreAndForward
                    } else {
                        Forwarding::CutThrough
                    },
                    buffer_bytes,
                    trimming,
                    header_buffer_bytes,
                    priorities,
                    ..SwitchSpec::default()
                },
            );
        let send = (0usize..5, 0u32..400, 0u32..5, 64u64..=1088, 0u8..8).prop_map(
            |(from, at, to, bytes, priority)| {
                let packet = Packet {
                    priority,
                    ..packet(ADDRESSES + to, bytes, 0)
                };
                (from, f64::from(at), packet)
            },
        );
        (spec, prop::collection::vec(send, 1..150)).prop_map(|(spec, mut sends)| {
            for (tag, (.., packet)) in sends.iter_mut().enumerate() {
                packet.tag = tag as u64;
            }
            (spec, sends)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Each packet arrives once, whole or trimmed, or has been dropped and counted; no port is
        /// faster than its link; packets of one sender, receiver and priority keep their order if
        /// none is trimmed; and the steps in which time advances make no difference.
        #[test]
        fn packets_are_conserved((spec, sends) in traffic(), step in 1u32..200) {
            let links = vec![LinkSpec::default(); 5];
            let (mut network, switch, hosts) = star(&spec, &links, &sends);
            network.run_until(Time::NEVER);
            let mut times_got = vec![0; sends.len()];
            let mut dropped = 0;
            for (port, &host) in hosts.iter().enumerate() {
                let counts = counts(&mut network, switch, port);
                let host = network.node_mut::<Host>(host).unwrap();
                prop_assert_eq!(counts.forwarded, host.got.len() as u64);
                let most = spec.buffer_bytes
                    + if spec.trimming { spec.header_buffer_bytes } else { 0 };
                prop_assert!(counts.max_queued_bytes <= most);
                let trimmed = host.got_packets.iter().filter(|packet| packet.header.flags & CHOP != 0);
                let trimmed = trimmed.count() as u64;
                prop_assert!(trimmed <= counts.trimmed && counts.trimmed <= trimmed + counts.dropped);
                dropped += counts.dropped;
                for (packet, pair) in host.got_packets[1.min(host.got.len())..].iter().zip(host.got.windows(2)) {
                    let duration = ns(packet.wire_bytes() as f64 * 0.04);
                    prop_assert!(pair[1].0 >= pair[0].0 + duration);
                }
                let mut last = std::collections::BTreeMap::new();
                for packet in &host.got_packets {
                    let (from, at, sent) = &sends[packet.tag as usize];
                    prop_assert_eq!(sent.to.address, ADDRESSES + port as u32);
                    times_got[packet.tag as usize] += 1;
                    if packet.header.flags & CHOP == 0 {
                        prop_assert_eq!(packet, sent);
                        let order = (at.to_bits(), packet.tag);
                        let before = last.insert((*from, packet.priority), order);
                        prop_assert!(before.is_none_or(|before| before < order));
                    } else {
                        prop_assert!(packet.payload.is_empty() && packet.priority == 0);
                    }
                }
            }
            prop_assert!(times_got.iter().all(|&times| times <= 1));
            let arrived: u64 = times_got.iter().sum();
            prop_assert_eq!(arrived + dropped, sends.len() as u64);

            let (mut again, switch_again, hosts_again) = star(&spec, &links, &sends);
            let mut until = Time::ZERO;
            while again.next_event() != Time::NEVER {
                until += ns(f64::from(step));
                again.run_until(until);
            }
            for (port, (&one, &other)) in hosts.iter().zip(&hosts_again).enumerate() {
                prop_assert_eq!(got(&mut network, one), got(&mut again, other));
                prop_assert_eq!(
                    counts(&mut network, switch, port),
                    counts(&mut again, switch_again, port)
                );
            }
        }
    }
}
