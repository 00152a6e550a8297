//! Networks of small nodes, and the times of their packets.

use super::*;
use crate::packet::{Endpoint, Packet};
use fabric::Time;
use std::collections::VecDeque;

pub(super) fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

/// A packet to a host, with this number of bytes on the wire.
pub(super) fn packet(to: u32, wire_bytes: u64, tag: u64) -> Packet {
    Packet {
        to: Endpoint {
            address: to,
            port: 0,
        },
        priority: 1,
        payload: vec![0; (wire_bytes - crate::packet::HEADER_BYTES) as usize],
        tag,
        ..Packet::default()
    }
}

/// A host that sends packets at given times, as far as its link allows, and records those it
/// receives.
#[derive(Default, state::State)]
pub(super) struct Host {
    #[state(fixed)]
    pub(super) to_send: Vec<Packet>,
    pub(super) waiting: VecDeque<Packet>,
    pub(super) got: Vec<(Time, u64)>,
    pub(super) got_packets: Vec<Packet>,
    /// Answers each packet immediately.
    #[state(fixed)]
    pub(super) answers: bool,
}

impl Node for Host {
    fn name(&self) -> String {
        "a host".to_string()
    }

    fn packet(&mut self, context: &mut NodeContext<'_>, port: usize, packet: Packet) {
        self.got.push((context.now(), packet.tag));
        self.got_packets.push(packet.clone());
        if self.answers {
            self.waiting.push_back(packet);
            context.offer(port);
        }
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, token: u64) {
        self.waiting.push_back(self.to_send[token as usize].clone());
        context.offer(0);
    }

    fn next_packet(&mut self, _: &mut NodeContext<'_>, _: usize) -> Option<Packet> {
        self.waiting.pop_front()
    }
}

/// Two hosts with a link between them; the first one sends the packets.
fn pair(spec: &LinkSpec, packets: &[(f64, Packet)], answers: bool) -> (Network, NodeId, NodeId) {
    let mut network = Network::new(1);
    let sender = Host {
        to_send: packets.iter().map(|(_, packet)| packet.clone()).collect(),
        ..Host::default()
    };
    let receiver = Host {
        answers,
        ..Host::default()
    };
    let one = network.add_node(Box::new(sender));
    let other = network.add_node(Box::new(receiver));
    assert_eq!(network.connect(one, other, spec), (0, 0));
    for (token, (at, _)) in packets.iter().enumerate() {
        network.wake(one, ns(*at), token as u64);
    }
    (network, one, other)
}

#[test]
fn a_packet_takes_its_length_and_that_of_the_link() {
    // 72 bytes at 200 Gb/s take 2.88 ns, 1088 bytes 43.52 ns, the link 43 ns. The second packet
    // waits for the first one's last bit; the third does not wait.
    let packets = [
        (10.0, packet(1, 72, 1)),
        (11.0, packet(1, 1088, 2)),
        (100.0, packet(1, 72, 3)),
    ];
    let (mut network, one, other) = pair(&LinkSpec::default(), &packets, true);
    network.run_until(Time::NEVER);
    let got = &network.node_mut::<Host>(other).unwrap().got;
    let second = 10.0 + 2.88 + 43.52 + 43.0;
    let expected = [(55.88, 1), (second, 2), (145.88, 3)].map(|(at, tag)| (ns(at), tag));
    assert_eq!(got[..], expected);
    // Each answer starts when the packet's last bit has arrived.
    let got = &network.node_mut::<Host>(one).unwrap().got;
    let expected = [
        (55.88 + 45.88, 1),
        (second + 43.52 + 43.0, 2),
        (2.0 * 145.88 - 100.0, 3),
    ];
    assert_eq!(got[..], expected.map(|(at, tag)| (ns(at), tag)));
    let counts = network.link_counts(one, 0);
    assert_eq!((counts.packets, counts.bytes), (3, 72 + 1088 + 72));
}

#[test]
fn what_goes_wrong_on_a_link_is_what_was_asked_for() {
    let packets: Vec<(f64, Packet)> = (0..100)
        .map(|number| (100.0 * number as f64, packet(1, 72, number)))
        .collect();
    let with = |change: fn(&mut LinkFaultSpec)| {
        let mut spec = LinkSpec::default();
        change(&mut spec.faults);
        let (mut network, one, other) = pair(&spec, &packets, false);
        network.run_until(Time::NEVER);
        let got = network.node_mut::<Host>(other).unwrap().got.clone();
        (got, network.link_counts(one, 0))
    };
    let (all, _) = with(|_| {});
    assert_eq!(all.len(), 100);
    let (none, counts) = with(|faults| faults.lost = 1.0);
    assert_eq!((none.len(), counts.lost), (0, 100));
    // The second one's first bit follows the first one's last.
    let (twice, _) = with(|faults| faults.duplicated = 1.0);
    assert_eq!(twice.len(), 200);
    assert!(
        twice
            .chunks(2)
            .all(|pair| pair[0].1 == pair[1].1 && pair[1].0 == pair[0].0 + ns(2.88))
    );
    // 500 ns are five packets here.
    let (late, _) = with(|faults| faults.reordered = 0.5);
    assert_eq!(late.len(), 100);
    assert!(late.windows(2).any(|pair| pair[0].1 > pair[1].1));
    for (at, tag) in late {
        let delay = at - all[tag as usize].0;
        assert!(delay <= ns(500.0), "{delay}");
    }
}

#[test]
fn a_network_goes_on_where_it_was_saved() {
    let mut spec = LinkSpec::default();
    spec.faults.reordered = 0.3;
    spec.faults.lost = 0.2;
    let packets: Vec<(f64, Packet)> = (0..40)
        .map(|number| (3.0 * number as f64, packet(1, 700, number)))
        .collect();
    let (mut straight, one, other) = pair(&spec, &packets, true);
    straight.run_until(Time::NEVER);
    let (mut first, ..) = pair(&spec, &packets, true);
    first.run_until(ns(400.0));
    let saved = state::Writer::write(&mut first).unwrap();
    let (mut second, ..) = pair(&spec, &packets, true);
    state::Reader::read(&mut second, &saved).unwrap();
    second.run_until(Time::NEVER);
    for id in [one, other] {
        let wanted = straight.node_mut::<Host>(id).unwrap().got.clone();
        assert!(wanted.len() > 10);
        assert_eq!(second.node_mut::<Host>(id).unwrap().got, wanted);
        assert_eq!(second.link_counts(id, 0), straight.link_counts(id, 0));
    }
}

/// A server's packets enter and leave at its place in the network.
#[test]
fn servers_are_at_the_edge() {
    let mut network = Network::new(1);
    let (one, other) = (network.add_server(), network.add_server());
    let slow = LinkSpec {
        rate_gbit_per_s: 100.0,
        latency_ns: 50.0,
        ..LinkSpec::default()
    };
    network.connect(one, other, &slow);
    assert_eq!(network.shortest_server_latency(), ns(50.0));
    network.enter((one, 0), ns(1.0), packet(2, 72, 7));
    // A server may send before the link is free; the link delays the packet: 5.76 ns each.
    network.enter((one, 0), ns(2.0), packet(2, 72, 8));
    assert_eq!(network.next_event(), ns(56.76));
    network.run_until(ns(56.76));
    assert_eq!(network.take_arrived().count(), 0);
    network.run_until(ns(100.0));
    let arrived: Vec<_> = network
        .take_arrived()
        .map(|(at, id, packet)| (at, id, packet.tag))
        .collect();
    let place = (other, 0);
    assert_eq!(arrived, [(ns(56.76), place, 7), (ns(62.52), place, 8)]);
    assert_eq!(network.next_event(), Time::NEVER);
}
