use super::program::{self, Formula, ProgramSource, ProgramSpec, RuleSpec};
use super::{Protocol, TransportSpec};
use crate::packet::{
    ACK, BUSY, CHOP, DATA, Endpoint, Message, NACK, PULL, Packet, Transport, TransportAction,
    TransportStatistics,
};
use crate::rack::LineRate;
use fabric::Time;
use proptest::prelude::*;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use workload::{Random, Stream};

fn rate() -> LineRate {
    LineRate::from_gbit_per_s(200.0)
}

fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

fn endpoint(host: usize) -> Endpoint {
    Endpoint {
        // Addresses that are neither dense nor ascending.
        address: 0x0a00_0000 + (host as u32 * 37) % 101,
        port: host as u16,
    }
}

/// The faults of a network between two hosts.
#[derive(Clone, Debug, Default)]
struct Weather {
    lost: f64,
    duplicated: f64,
    trimmed: f64,
    latency_ns: f64,
    /// The maximum additional latency of a packet.
    jitter_ns: f64,
    /// The maximum time until an application takes a delivered message.
    taken_after_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Send(usize),
    Arrive(usize, usize),
    Timer(usize, u64),
    Free(usize),
    Take(usize, usize),
}

/// Hosts on a network without switches that loses, duplicates, delays and trims packets.
struct World {
    hosts: Vec<Box<dyn Transport>>,
    free_at: Vec<Time>,
    backlog: Vec<VecDeque<Message>>,
    weather: Weather,
    random: Random,
    calendar: BinaryHeap<Reverse<(Time, u64, What)>>,
    count: u64,
    now: Time,
    flying: Vec<Option<Packet>>,
    messages: Vec<Message>,
    /// How often each message was delivered, by tag.
    delivered: BTreeMap<u64, u32>,
    delivered_at: BTreeMap<u64, Time>,
    taken: Vec<Message>,
    given_up: Vec<(u64, String)>,
    /// When each host sent a packet with a credit.
    pulls: Vec<Vec<Time>>,
    /// All packets sent, if they are recorded.
    sent: Option<Vec<(Time, Packet)>>,
}

impl World {
    fn new(spec: &TransportSpec, hosts: usize, weather: Weather, seed: u64) -> World {
        assert_eq!(spec.check(), Ok(()));
        World {
            hosts: (0..hosts)
                .map(|host| spec.open(endpoint(host).address, rate()))
                .collect(),
            free_at: vec![Time::ZERO; hosts],
            backlog: vec![VecDeque::new(); hosts],
            weather,
            random: Random::new(seed, Stream::Faults),
            calendar: BinaryHeap::new(),
            count: 0,
            now: Time::ZERO,
            flying: Vec::new(),
            messages: Vec::new(),
            delivered: BTreeMap::new(),
            delivered_at: BTreeMap::new(),
            taken: Vec::new(),
            given_up: Vec::new(),
            pulls: vec![Vec::new(); hosts],
            sent: None,
        }
    }

    fn at(&mut self, at: Time, what: What) {
        self.count += 1;
        self.calendar.push(Reverse((at, self.count, what)));
    }

    /// A message with distinct contents.
    fn send(&mut self, at: Time, from: usize, to: usize, bytes: usize) -> u64 {
        let tag = self.messages.len() as u64;
        self.messages.push(Message {
            from: endpoint(from),
            to: endpoint(to),
            payload: (0..bytes as u64)
                .map(|place| (place.wrapping_mul(31) ^ tag.wrapping_mul(0x9e37)) as u8)
                .collect(),
            tag,
        });
        self.at(at, What::Send(tag as usize));
        tag
    }

    fn host_of(&self, address: u32) -> usize {
        (0..self.hosts.len())
            .find(|&host| endpoint(host).address == address)
            .expect("messages go to hosts")
    }

    fn act(&mut self, host: usize, actions: Vec<TransportAction>) {
        for action in actions {
            match action {
                TransportAction::Wake(at, token) => self.at(at, What::Timer(host, token)),
                TransportAction::GiveUp(tag, why) => self.given_up.push((tag, why)),
                TransportAction::Deliver(message) => {
                    assert_eq!(message, self.messages[message.tag as usize]);
                    *self.delivered.entry(message.tag).or_default() += 1;
                    self.delivered_at.insert(message.tag, self.now);
                    let after = self.weather.taken_after_ns * self.random.unit();
                    self.taken.push(message);
                    let index = self.taken.len() - 1;
                    self.at(self.now + ns(after), What::Take(host, index));
                }
            }
        }
        while let Some(message) = self.backlog[host].front() {
            let mut actions = Vec::new();
            let message = message.clone();
            if !self.hosts[host].send(self.now, message, &mut actions) {
                break;
            }
            self.backlog[host].pop_front();
            self.act(host, actions);
        }
        self.pump(host);
    }

    fn pump(&mut self, host: usize) {
        if self.free_at[host] > self.now {
            return;
        }
        let Some(packet) = self.hosts[host].next_packet(self.now) else {
            return;
        };
        if packet.header.flags & PULL != 0 {
            self.pulls[host].push(self.now);
        }
        if let Some(sent) = &mut self.sent {
            sent.push((self.now, packet.clone()));
        }
        self.free_at[host] = self.now + rate().duration(packet.wire_bytes());
        self.at(self.free_at[host], What::Free(host));
        let to = self.host_of(packet.to.address);
        let copies = 1 + usize::from(self.random.unit() < self.weather.duplicated);
        for _ in 0..copies {
            if self.random.unit() < self.weather.lost {
                continue;
            }
            let mut packet = packet.clone();
            if packet.header.flags & DATA != 0 && self.random.unit() < self.weather.trimmed {
                packet.trim();
            }
            self.flying.push(Some(packet));
            let jitter = self.weather.jitter_ns * self.random.unit();
            let at = self.free_at[host] + ns(self.weather.latency_ns + jitter);
            self.at(at, What::Arrive(to, self.flying.len() - 1));
        }
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, what))) = self.calendar.pop() else {
            return false;
        };
        self.now = at;
        let mut actions = Vec::new();
        let host = match what {
            What::Send(tag) => {
                let message = self.messages[tag].clone();
                let host = self.host_of(message.from.address);
                self.backlog[host].push_back(message);
                host
            }
            What::Arrive(host, index) => {
                let packet = self.flying[index].take().expect("it arrives once");
                self.hosts[host].arrived(at, packet, &mut actions);
                host
            }
            What::Timer(host, token) => {
                self.hosts[host].timer(at, token, &mut actions);
                host
            }
            What::Free(host) => host,
            What::Take(host, index) => {
                let message = std::mem::take(&mut self.taken[index]);
                self.hosts[host].taken(at, &message);
                host
            }
        };
        self.act(host, actions);
        true
    }

    fn run(&mut self) {
        while self.step() {}
    }

    fn statistics(&self) -> Vec<TransportStatistics> {
        self.hosts.iter().map(|host| host.statistics()).collect()
    }

    /// Every message was delivered once and whole, and no state of any is left.
    fn check_all_delivered(&self) {
        assert_eq!(self.given_up, vec![]);
        for tag in 0..self.messages.len() as u64 {
            assert_eq!(self.delivered.get(&tag), Some(&1), "message {tag}");
        }
        for statistics in self.statistics() {
            let left = (statistics.sending, statistics.receiving, statistics.waiting);
            assert_eq!(left, (0, 0, 0), "{statistics:?}");
        }
        let sum = |part: fn(&TransportStatistics) -> u64| -> u64 {
            self.statistics().iter().map(part).sum()
        };
        let all = self.messages.len() as u64;
        assert_eq!(sum(|host| host.sent), all);
        assert_eq!(sum(|host| host.delivered), all);
    }

    /// Credits arrive no faster than full packets fit on the link. A credit that waits for the
    /// packet on the link and for another credit is late by less than two full packets, and the
    /// next one is not.
    fn check_pull_rate(&self, spec: &TransportSpec) {
        let gap = super::packet_time(spec.packet_bytes, rate()).as_fs();
        for pulls in &self.pulls {
            for (first, &from) in pulls.iter().enumerate() {
                for (second, &to) in pulls.iter().enumerate().skip(first + 3) {
                    let between = (second - first - 2) as u64 * gap;
                    assert!(
                        (to - from).as_fs() >= between,
                        "credits {first} and {second}: {from} to {to}"
                    );
                }
            }
        }
    }
}

fn spec(protocol: Protocol) -> TransportSpec {
    TransportSpec {
        protocol,
        ..TransportSpec::default()
    }
}

fn calm() -> Weather {
    Weather {
        latency_ns: 100.0,
        ..Weather::default()
    }
}

fn any_weather() -> impl Strategy<Value = Weather> {
    (
        prop_oneof![Just(0.0), 0.0..0.3],
        prop_oneof![Just(0.0), 0.0..0.5],
        prop_oneof![Just(0.0), 0.0..0.6],
        0.0..500.0,
        prop_oneof![Just(0.0), 0.0..2000.0],
        prop_oneof![Just(0.0), 0.0..3000.0],
    )
        .prop_map(
            |(lost, duplicated, trimmed, latency_ns, jitter_ns, taken_after_ns)| Weather {
                lost,
                duplicated,
                trimmed,
                latency_ns,
                jitter_ns,
                taken_after_ns,
            },
        )
}

fn any_spec() -> impl Strategy<Value = TransportSpec> {
    (
        prop_oneof![Just(Protocol::Ndp), Just(Protocol::Homa)],
        64u32..300,
        1u32..6,
        (1u32..20, 1u32..20),
        1000.0..20_000.0,
        any::<bool>(),
        (2u8..9, 1u32..5, any::<bool>()),
    )
        .prop_map(
            |(protocol, packet_bytes, rtt_packets, buffers, timeout_ns, answer_trimmed, homa)| {
                let mut spec = TransportSpec {
                    protocol,
                    packet_bytes,
                    rtt_packets,
                    send_buffers: buffers.0,
                    receive_buffers: buffers.1,
                    timeout_ns,
                    answer_trimmed,
                    ..TransportSpec::default()
                };
                spec.homa.priorities = homa.0;
                spec.homa.overcommitment = homa.1;
                if homa.2 && homa.0 > 2 {
                    spec.homa.unscheduled_up_to_bytes = vec![packet_bytes];
                }
                spec
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Messages are delivered once, whatever is lost, duplicated, delayed or trimmed.
    #[test]
    fn every_message_comes_once_and_whole(
        spec in any_spec(),
        weather in any_weather(),
        hosts in 2usize..5,
        messages in prop::collection::vec((0.0..20_000.0, 0usize..5, 0usize..5, 0usize..2049), 1..60),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(&spec, hosts, weather, seed);
        for (at, from, to, bytes) in messages {
            world.send(ns(at), from % hosts, to % hosts, bytes);
        }
        world.run();
        world.check_all_delivered();
        if spec.protocol == Protocol::Ndp {
            world.check_pull_rate(&spec);
        }
    }
}

/// Message numbers of 16 bits wrap: 70,000 messages from one host to another, whose packets are
/// lost, duplicated, delayed and reordered.
#[test]
fn numbers_may_wrap() {
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let weather = Weather {
            lost: 0.01,
            duplicated: 0.2,
            trimmed: 0.05,
            latency_ns: 50.0,
            jitter_ns: 1000.0,
            taken_after_ns: 100.0,
        };
        let mut world = World::new(&spec(protocol), 2, weather, 7);
        for number in 0..70_000 {
            world.send(ns(f64::from(number) * 20.0), 0, 1, 8);
        }
        world.run();
        world.check_all_delivered();
        let statistics = world.statistics();
        assert!(statistics[1].duplicates > 10_000, "{statistics:?}");
    }
}

/// The times of a message of four packets on an idle network; two are sent without credit.
///
/// A full packet is 1088 bytes, 43.52 ns at 200 Gb/s. An answer is 128 bytes with NDP, 5.12 ns, and
/// 65 bytes with Homa, 2.6 ns. The latency is 100 ns. The first packet arrives at 143.52 ns, and its
/// answer 100 ns and an answer's time later. Packets 2 and 3 leave one gap apart: the first credit is
/// sent immediately, the second one 43.52 ns later.
#[test]
fn a_message_takes_the_time_of_its_packets_and_round_trips() {
    for (protocol, answer) in [(Protocol::Ndp, 5.12), (Protocol::Homa, 2.6)] {
        let mut spec = spec(protocol);
        spec.largest_message_bytes = 4096;
        let mut world = World::new(&spec, 2, calm(), 1);
        world.sent = Some(Vec::new());
        let tag = world.send(Time::ZERO, 0, 1, 4096);
        world.run();
        world.check_all_delivered();
        let sent = world.sent.take().unwrap();
        let data: Vec<Time> = sent
            .iter()
            .filter(|(_, packet)| packet.header.flags & DATA != 0)
            .map(|(at, _)| *at)
            .collect();
        let third = 143.52 + answer + 100.0;
        assert_eq!(
            data,
            [0.0, 43.52, third, third + 43.52].map(ns),
            "{protocol:?}"
        );
        assert_eq!(world.delivered_at[&tag], ns(third + 43.52 + 143.52));
        // NDP acknowledges and pulls four times, in the same packets; Homa grants twice and
        // acknowledges once.
        let control = world.statistics()[1].control_packets;
        assert_eq!(control, if protocol == Protocol::Ndp { 4 } else { 3 });
        assert_eq!(world.statistics()[0].repeated_packets, 0);
    }
}

/// Loses the first `lost` of the chosen packets of data, and then none.
struct Gap<'a> {
    world: &'a mut World,
    lost: usize,
}

impl Gap<'_> {
    fn run(mut self, what: impl Fn(&mut Packet) -> bool) {
        while self.world.step() {
            for flying in self.world.flying.iter_mut().flatten() {
                let is_data = flying.header.flags & DATA != 0 && flying.to.address != 0;
                if self.lost > 0 && is_data && what(flying) {
                    self.lost -= 1;
                    // The packet is for another host, so its receiver drops it.
                    flying.to.address = 0;
                }
            }
        }
    }
}

/// A dropped packet is repeated after a timeout, a trimmed one after a round trip: the purpose of
/// NDP, and the difference "when NDP is disabled" (nanoPU, Section 5.2.3).
#[test]
fn trimming_spares_the_timeout() {
    for (protocol, answer) in [(Protocol::Ndp, 5.12), (Protocol::Homa, 2.6)] {
        let time = |answer_trimmed: bool| {
            let spec = TransportSpec {
                answer_trimmed,
                ..spec(protocol)
            };
            let mut world = World::new(&spec, 2, calm(), 1);
            let tag = world.send(Time::ZERO, 0, 1, 8);
            world.step();
            for packet in world.flying.iter_mut().flatten() {
                packet.trim();
            }
            world.run();
            world.check_all_delivered();
            assert_eq!(world.statistics()[1].trimmed, 1);
            world.delivered_at[&tag].as_ns()
        };
        // Two packets of 72 bytes, 2.88 ns each (this network keeps the length of a trimmed one),
        // an answer, and three times 100 ns.
        let with = time(true);
        assert!(
            (with - (2.0 * 2.88 + answer + 300.0)).abs() < 1e-6,
            "{with}"
        );
        // One timeout after it was sent; Homa's sender waits for two.
        let timeouts = if protocol == Protocol::Ndp { 1.0 } else { 2.0 };
        let without = time(false);
        assert!(
            (without - (timeouts * 9375.0 + 102.88)).abs() < 1e-6,
            "{without}"
        );
    }
}

#[test]
fn all_packets_lost_are_sent_again_after_a_timeout() {
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let mut world = World::new(&spec(protocol), 2, calm(), 1);
        world.send(Time::ZERO, 0, 1, 2048);
        Gap {
            world: &mut world,
            lost: 2,
        }
        .run(|_| true);
        world.check_all_delivered();
        let [sender, receiver] = world.statistics()[..] else {
            panic!("two hosts");
        };
        assert_eq!((sender.data_packets, sender.repeated_packets), (4, 2));
        assert_eq!((sender.timeouts, receiver.malformed), (1, 2));
    }
}

/// Homa's receivers request packets that are missing in the middle of the granted ones.
#[test]
fn homa_asks_for_what_is_missing() {
    let mut spec = spec(Protocol::Homa);
    spec.largest_message_bytes = 8192;
    let mut world = World::new(&spec, 2, calm(), 1);
    world.sent = Some(Vec::new());
    world.send(Time::ZERO, 0, 1, 8192);
    Gap {
        world: &mut world,
        lost: 2,
    }
    .run(|packet| (3..5).contains(&packet.header.packet));
    world.check_all_delivered();
    let sent = world.sent.take().unwrap();
    let asked: Vec<_> = sent
        .iter()
        .filter(|(_, packet)| packet.header.flags & NACK != 0)
        .map(|(_, packet)| (packet.header.packet, packet.header.credit))
        .collect();
    // Packets 3 and 4 in one request: from packet 3 up to byte 5120.
    assert_eq!(asked, [(3, 5120)]);
    assert_eq!(world.statistics()[0].repeated_packets, 2);
}

/// Eighty hosts send one packet to the same host at the same time, all are trimmed, and the host
/// pulls them at the rate of its link: NDP's answer to incast.
#[test]
fn an_incast_is_pulled_at_line_rate() {
    let spec = TransportSpec {
        receive_buffers: 80,
        ..spec(Protocol::Ndp)
    };
    let mut world = World::new(&spec, 81, calm(), 1);
    for host in 1..81 {
        world.send(Time::ZERO, host, 0, 1024);
    }
    for _ in 0..80 {
        world.step();
    }
    for packet in world.flying.iter_mut().flatten() {
        packet.trim();
    }
    world.run();
    world.check_all_delivered();
    world.check_pull_rate(&spec);
    assert_eq!(world.statistics()[0].trimmed, 80);
    assert_eq!(
        world
            .statistics()
            .iter()
            .map(|host| host.timeouts)
            .sum::<u64>(),
        0
    );
    // The headers arrive at 143.52 ns (this network keeps the length of a trimmed packet). The last
    // of 80 credits is sent 79 gaps later, and its packet arrives a round trip of 248.64 ns later.
    let last = world.delivered_at.values().max().unwrap().as_ns();
    let expected = 143.52 + 79.0 * 43.52 + 248.64;
    assert!((last - expected).abs() < 1e-6, "{last} {expected}");
}

/// An answer and its PULL are one packet with a token, and two packets without, of 128 bytes each.
/// Each packet of data causes a PULL.
#[test]
fn a_pull_without_a_token_is_a_packet_of_its_own() {
    let spec = TransportSpec {
        send_buffers: 200,
        receive_buffers: 400,
        ..spec(Protocol::Ndp)
    };
    let mut host = spec.open(endpoint(0).address, rate());
    let mut actions = Vec::new();
    let gap = super::packet_time(spec.packet_bytes, rate());
    let packets = |from: usize, messages: usize| {
        let mut sender = spec.open(endpoint(from).address, rate());
        for _ in 0..messages {
            sender.send(Time::ZERO, message(from, 0, 8), &mut Vec::new());
        }
        packets_of(&mut sender, Time::ZERO)
    };
    for packet in packets(1, 3) {
        host.arrived(Time::ZERO, packet, &mut actions);
    }
    let flags = |packets: &[Packet]| -> Vec<(u8, u64)> {
        let of = |packet: &Packet| (packet.header.flags, packet.wire_bytes());
        packets.iter().map(of).collect()
    };
    let at_once = packets_of(&mut host, Time::ZERO);
    assert_eq!(flags(&at_once), [(ACK | PULL, 128), (ACK, 128), (ACK, 128)]);
    // The timer of the tokens: one PULL for each.
    let token = |actions: &[TransportAction]| {
        actions.iter().rev().find_map(|action| match action {
            TransportAction::Wake(at, token) => Some((*at, *token)),
            _ => None,
        })
    };
    for turn in 1..=2 {
        let (at, number) = token(&actions).unwrap();
        assert_eq!(at.as_fs(), turn * gap.as_fs());
        actions.clear();
        host.timer(at, number, &mut actions);
        assert_eq!(flags(&packets_of(&mut host, at)), [(PULL, 128)]);
    }
    assert_eq!(token(&actions), None);
    // At most 256 PULLs without new credit wait.
    let now = Time::from_fs(2 * gap.as_fs());
    for packet in packets(2, 150).into_iter().chain(packets(3, 150)) {
        host.arrived(now, packet, &mut actions);
    }
    assert_eq!(packets_of(&mut host, now).len(), 300);
    let mut pulls = 0;
    while let Some((at, number)) = token(&actions) {
        actions.clear();
        host.timer(at, number, &mut actions);
        pulls += packets_of(&mut host, at).len();
    }
    assert_eq!(pulls, 256);
}

/// Without a free buffer packets are dropped, and the sender repeats them after a timeout.
#[test]
fn without_a_buffer_a_message_waits_for_a_timeout() {
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let spec = TransportSpec {
            receive_buffers: 1,
            ..spec(protocol)
        };
        let weather = Weather {
            taken_after_ns: 2000.0,
            ..calm()
        };
        let mut world = World::new(&spec, 3, weather, 1);
        let first = world.send(Time::ZERO, 1, 0, 8);
        let second = world.send(ns(1.0), 2, 0, 8);
        world.run();
        world.check_all_delivered();
        assert_eq!(world.delivered_at[&first], ns(102.88));
        assert!(world.delivered_at[&second] > ns(9375.0));
        assert_eq!(world.statistics()[0].no_buffer, 1);
    }
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let spec = TransportSpec {
            max_timeouts: 3,
            ..spec(protocol)
        };
        let weather = Weather {
            lost: 1.0,
            ..calm()
        };
        let mut world = World::new(&spec, 2, weather, 1);
        world.send(Time::ZERO, 0, 1, 100);
        world.send(Time::ZERO, 0, 1, 5000);
        world.run();
        let sentences: Vec<_> = world
            .given_up
            .iter()
            .map(|(tag, why)| (*tag, why.as_str()))
            .collect();
        assert_eq!(
            sentences,
            [
                (
                    1,
                    "a message of 5000 bytes is too large for the transport: \
                     largest_message_bytes is 2048"
                ),
                (
                    0,
                    "a message of 100 bytes to 10.0.0.37, port 1, has been given up: its receiver \
                     did not answer in 4 consecutive timeouts of 9375 ns"
                ),
            ]
        );
        assert_eq!(world.statistics()[0].sending, 0);
        assert_eq!(world.statistics()[0].data_packets, 4);
    }
}

/// All packets that a host sends, back to back.
fn packets_of(host: &mut Box<dyn Transport>, now: Time) -> Vec<Packet> {
    std::iter::from_fn(|| host.next_packet(now)).collect()
}

fn message(from: usize, to: usize, bytes: usize) -> Message {
    Message {
        from: endpoint(from),
        to: endpoint(to),
        payload: vec![7; bytes],
        tag: bytes as u64,
    }
}

fn homa(packets: u32, overcommitment: u32) -> TransportSpec {
    let mut spec = spec(Protocol::Homa);
    spec.largest_message_bytes = packets * 1024;
    spec.homa.overcommitment = overcommitment;
    spec
}

/// SRPT at the sender: the shortest message goes first, even in the middle of another one.
#[test]
fn homa_sends_the_shortest_message_first() {
    let mut spec = homa(8, 3);
    spec.rtt_packets = 8;
    let mut host = spec.open(endpoint(0).address, rate());
    let mut actions = Vec::new();
    let now = Time::ZERO;
    assert!(host.send(now, message(0, 1, 8 * 1024), &mut actions));
    let first = host.next_packet(now).unwrap();
    assert!(host.send(now, message(0, 2, 2 * 1024), &mut actions));
    assert!(host.send(now, message(0, 3, 1024 + 8), &mut actions));
    let order: Vec<_> = packets_of(&mut host, now)
        .iter()
        .map(|packet| packet.to.port)
        .collect();
    assert_eq!(first.to.port, 1);
    // 1032 bytes left, then 2048, then the 7168 of the first one.
    assert_eq!(order, [3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each packet is of the message with the fewest bytes left, and of the oldest of equal ones,
    /// in whatever order messages are sent.
    #[test]
    fn homa_always_sends_what_has_fewest_bytes_left(
        steps in prop::collection::vec((prop::option::of(1usize..8192), 0usize..6), 1..40),
    ) {
        let mut spec = homa(8, 3);
        spec.rtt_packets = 8;
        spec.send_buffers = 40;
        let mut host = spec.open(endpoint(0).address, rate());
        let mut left: Vec<usize> = Vec::new();
        for (bytes, packets) in steps {
            if let Some(bytes) = bytes {
                let new = Message {
                    tag: left.len() as u64,
                    ..message(0, 1, bytes)
                };
                prop_assert!(host.send(Time::ZERO, new, &mut Vec::new()));
                left.push(bytes);
            }
            for _ in 0..packets {
                let fewest = left
                    .iter()
                    .enumerate()
                    .filter(|&(_, &bytes)| bytes > 0)
                    .min_by_key(|&(tag, &bytes)| (bytes, tag));
                let expected = fewest.map(|(tag, _)| tag);
                let packet = host.next_packet(Time::ZERO);
                prop_assert_eq!(packet.as_ref().map(|packet| packet.tag as usize), expected);
                if let Some(packet) = packet {
                    left[packet.tag as usize] -= packet.payload.len();
                }
            }
        }
    }
}

/// The first packet of a message of this size, as its sender would send it.
fn first_packet(spec: &TransportSpec, from: usize, bytes: usize) -> Packet {
    let mut host = spec.open(endpoint(from).address, rate());
    host.send(Time::ZERO, message(from, 0, bytes), &mut Vec::new());
    host.next_packet(Time::ZERO).unwrap()
}

/// SRPT at the receiver: it grants to as many of the shortest messages as it overcommits, and the
/// shortest gets the highest of the priorities that are needed.
#[test]
fn homa_grants_to_the_shortest_messages() {
    let spec = homa(16, 2);
    let mut host = spec.open(endpoint(0).address, rate());
    let mut grants = |from: usize, kilobytes: usize| -> Vec<(u16, u32, u8)> {
        let packet = first_packet(&spec, from, kilobytes * 1024);
        host.arrived(Time::ZERO, packet, &mut Vec::new());
        packets_of(&mut host, Time::ZERO)
            .iter()
            .map(|packet| {
                assert_eq!(packet.header.flags, PULL);
                let header = packet.header;
                (packet.to.port, header.credit, header.granted_priority)
            })
            .collect()
    };
    // One packet has arrived, two more may be in flight: up to byte 3072. A single active message
    // has the lowest of priorities 1 to 3.
    assert_eq!(grants(1, 10), [(1, 3072, 3)]);
    assert_eq!(grants(2, 8), [(2, 3072, 2)]);
    // The third is longer than both, and gets no grant; the fourth is shorter, and displaces one.
    assert_eq!(grants(3, 12), []);
    assert_eq!(grants(4, 4), [(4, 3072, 2)]);
}

/// A sender that serves other messages first answers BUSY, and its message is not given up.
#[test]
fn homa_says_that_it_is_busy() {
    let spec = homa(4, 3);
    let mut sender = spec.open(endpoint(0).address, rate());
    let mut receiver = spec.open(endpoint(1).address, rate());
    let mut actions = Vec::new();
    sender.send(Time::ZERO, message(0, 1, 4096), &mut actions);
    let first = sender.next_packet(Time::ZERO).unwrap();
    receiver.arrived(Time::ZERO, first, &mut Vec::new());
    // The grant is lost: after a timeout the receiver requests packets 1 and 2.
    assert_eq!(packets_of(&mut receiver, Time::ZERO)[0].header.flags, PULL);
    let timeout = ns(spec.timeout_ns);
    receiver.timer(timeout, 0, &mut Vec::new());
    let asked = packets_of(&mut receiver, timeout);
    assert_eq!(asked.len(), 1);
    let header = asked[0].header;
    assert_eq!(
        (header.flags, header.packet, header.credit),
        (NACK, 1, 3072)
    );
    sender.arrived(timeout, asked[0].clone(), &mut Vec::new());
    let answer = packets_of(&mut sender, timeout);
    let what: Vec<_> = answer
        .iter()
        .map(|packet| (packet.header.flags, packet.header.packet))
        .collect();
    // It has sent neither; the request is also a grant.
    assert_eq!(what, [(BUSY, 1), (DATA, 1), (DATA, 2)]);
    assert_eq!(sender.statistics().repeated_packets, 0);
}

/// Unscheduled packets have a priority by their message's size, and scheduled ones the granted
/// priority.
#[test]
fn homa_gives_short_messages_a_higher_priority() {
    let mut spec = homa(16, 3);
    spec.homa.priorities = 8;
    spec.homa.unscheduled_up_to_bytes = vec![100, 1024];
    for (bytes, priority) in [(8, 0), (100, 0), (101, 1), (1024, 1), (1025, 2), (9000, 2)] {
        assert_eq!(first_packet(&spec, 1, bytes).priority, priority, "{bytes}");
    }
    let mut world = World::new(&spec, 2, calm(), 1);
    world.sent = Some(Vec::new());
    world.send(Time::ZERO, 0, 1, 4096);
    world.run();
    let priorities: Vec<_> = world
        .sent
        .take()
        .unwrap()
        .iter()
        .map(|(_, packet)| (packet.header.flags, packet.priority))
        .filter(|&(flags, _)| flags & DATA != 0)
        .collect();
    // Alone, it is granted the lowest of 3 to 7.
    assert_eq!(priorities, [(DATA, 2), (DATA, 2), (DATA, 7), (DATA, 7)]);
}

/// A datagram arrives as it was sent, or not at all.
#[test]
fn datagrams_are_sent_once() {
    let spec = spec(Protocol::Datagrams);
    let weather = Weather {
        lost: 0.2,
        trimmed: 0.1,
        ..calm()
    };
    let mut world = World::new(&spec, 2, weather, 3);
    for number in 0..1000 {
        world.send(ns(f64::from(number) * 100.0), 0, 1, number as usize);
    }
    let large = world.send(Time::ZERO, 0, 1, 1025);
    world.run();
    assert_eq!(world.given_up.len(), 1);
    assert_eq!(world.given_up[0].0, large);
    assert!(world.given_up[0].1.contains("packet_bytes is 1024"));
    assert!(world.delivered.values().all(|&times| times == 1));
    let [sender, receiver] = world.statistics()[..] else {
        panic!("two hosts");
    };
    assert_eq!((sender.data_packets, sender.repeated_packets), (1000, 0));
    assert_eq!(receiver.control_packets, 0);
    // The expected number is 1000 x 0.8 x 0.9, with a tolerance of four standard deviations, 57.
    assert!((663..777).contains(&receiver.delivered), "{receiver:?}");
    assert_eq!(receiver.waiting, 0);
}

#[test]
fn what_cannot_be_is_dropped() {
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let spec = spec(protocol);
        let mut host = spec.open(endpoint(0).address, rate());
        let good = first_packet(&spec, 1, 2000);
        let mut bad = vec![good.clone(); 6];
        bad[0].to.address += 1;
        bad[1].header.packet = 2;
        bad[2].header.message_bytes = 1 << 30;
        bad[3].payload.pop();
        bad[4].payload.push(0);
        bad[5].header.packet = 1;
        for packet in bad {
            host.arrived(Time::ZERO, packet, &mut Vec::new());
        }
        assert_eq!(host.statistics().malformed, 6);
        assert_eq!(host.statistics().receiving, 0);
        // Packets about messages that it has never sent are ignored.
        for flags in [ACK, NACK, PULL, ACK | PULL, NACK | PULL, BUSY] {
            let mut packet = good.clone();
            packet.header.flags = flags;
            packet.payload.clear();
            host.arrived(Time::ZERO, packet, &mut Vec::new());
        }
        assert_eq!(packets_of(&mut host, Time::ZERO), vec![]);
        // So are impossible packets about messages that it has sent.
        host.send(Time::ZERO, message(0, 1, 2000), &mut Vec::new());
        for (flags, packet, credit) in [
            (NACK, u16::MAX, u32::MAX),
            (PULL, 0, u32::MAX),
            (PULL, 0, u32::MAX - 1),
            (NACK | PULL, 1, 0),
        ] {
            let mut wrong = good.clone();
            wrong.header.flags = flags;
            wrong.header.message = 0;
            wrong.header.packet = packet;
            wrong.header.credit = credit;
            host.arrived(Time::ZERO, wrong, &mut Vec::new());
        }
        let timeout = ns(2.0 * spec.timeout_ns);
        host.timer(timeout, 0, &mut Vec::new());
        assert!(packets_of(&mut host, timeout).len() <= 4);
        // A packet of data without its payload is malformed unless it is trimmed.
        let mut trimmed = good;
        trimmed.trim();
        host.arrived(Time::ZERO, trimmed.clone(), &mut Vec::new());
        assert_eq!(trimmed.header.flags, DATA | CHOP);
        assert_eq!(
            packets_of(&mut host, Time::ZERO)[0].header.flags & NACK,
            NACK
        );
    }
}

/// A host whose state is written and read back into a new one continues identically.
#[test]
fn state_can_be_put_back() {
    struct Walked<'a>(&'a mut Box<dyn Transport>);
    impl state::State for Walked<'_> {
        fn walk(&mut self, walker: &mut dyn state::Walker) {
            self.0.walk(walker);
        }
    }
    let specs = [
        spec(Protocol::Ndp),
        spec(Protocol::Homa),
        programmed(swift()),
    ];
    for mut spec in specs {
        spec.largest_message_bytes = 16 * 1024;
        let run = |walk_every: usize| {
            let weather = Weather {
                lost: 0.1,
                duplicated: 0.1,
                trimmed: 0.2,
                latency_ns: 100.0,
                jitter_ns: 300.0,
                taken_after_ns: 100.0,
            };
            let mut world = World::new(&spec, 3, weather, 5);
            for number in 0..60 {
                let bytes = (number * 997) % 16_000;
                world.send(
                    ns(number as f64 * 50.0),
                    number % 3,
                    (number + 1) % 3,
                    bytes,
                );
            }
            let mut steps = 0;
            while world.step() {
                steps += 1;
                if steps % walk_every == 0 {
                    for (number, host) in world.hosts.iter_mut().enumerate() {
                        let bytes = state::Writer::write(&mut Walked(host)).unwrap();
                        *host = spec.open(endpoint(number).address, rate());
                        state::Reader::read(&mut Walked(host), &bytes).unwrap();
                    }
                }
            }
            world.check_all_delivered();
            (world.delivered_at.clone(), world.statistics())
        };
        assert_eq!(run(usize::MAX), run(101));
    }
}

#[test]
fn wrong_descriptions_are_named() {
    let good = TransportSpec::default();
    assert_eq!(good.check(), Ok(()));
    let mut spec = good.clone();
    spec.homa.unscheduled_up_to_bytes = vec![8, 8];
    assert!(
        spec.check()
            .unwrap_err()
            .accepted
            .contains("larger than the one before")
    );
    let mut spec = good;
    spec.homa.unscheduled_up_to_bytes = vec![8, 80, 800];
    assert!(
        spec.check()
            .unwrap_err()
            .accepted
            .contains("two sizes less")
    );
}

#[test]
fn descriptions_are_written_as_tables() {
    let table = json!({"protocol": "homa", "rtt_packets": 4, "homa": {"overcommitment": 2}});
    let spec: TransportSpec = serde_json::from_value(table).unwrap();
    assert_eq!(spec.protocol, Protocol::Homa);
    assert_eq!((spec.rtt_packets, spec.homa.overcommitment), (4, 2));
    let error = serde_json::from_value::<TransportSpec>(json!({"rtt_pkts": 4})).unwrap_err();
    assert!(error.to_string().contains("rtt_pkts"), "{error}");
}

/// The transport of a user: `examples/swift.toml`.
fn swift() -> ProgramSpec {
    program::parsed(include_str!("../../../../examples/swift.toml"))
}

fn dctcp() -> ProgramSpec {
    program::parsed(include_str!("../../../../examples/dctcp.toml"))
}

fn programmed(program: ProgramSpec) -> TransportSpec {
    TransportSpec {
        program: Some(ProgramSource::Program(Box::new(program))),
        ..TransportSpec::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A user's program delivers every message once and whole, too.
    #[test]
    fn a_program_of_a_user_delivers_every_message(
        spec in any_spec(),
        weather in any_weather(),
        hosts in 2usize..5,
        messages in prop::collection::vec((0.0..20_000.0, 0usize..5, 0usize..5, 0usize..2049), 1..60),
        seed in any::<u64>(),
    ) {
        for program in [swift(), dctcp()] {
            let program = programmed(program).program;
            let spec = TransportSpec { program, ..spec.clone() };
            let mut world = World::new(&spec, hosts, weather.clone(), seed);
            for &(at, from, to, bytes) in &messages {
                world.send(ns(at), from % hosts, to % hosts, bytes);
            }
            world.run();
            world.check_all_delivered();
        }
    }
}

/// The window follows the delay: with a short delay a message is sent at the rate of the link, and
/// with a long one the window shrinks to a packet.
#[test]
fn a_program_keeps_its_window() {
    let mut spec = programmed(swift());
    spec.largest_message_bytes = 64 * 1024;
    spec.rtt_packets = 8;
    spec.timeout_ns = 100_000.0;
    let times = |latency_ns: f64| -> Vec<f64> {
        let weather = Weather {
            latency_ns,
            ..calm()
        };
        let mut world = World::new(&spec, 2, weather, 1);
        world.sent = Some(Vec::new());
        world.send(Time::ZERO, 0, 1, 64 * 1024);
        world.run();
        world.check_all_delivered();
        assert_eq!(world.statistics()[0].repeated_packets, 0);
        let sent = world.sent.take().unwrap().into_iter();
        let data = sent.filter(|(_, packet)| packet.header.flags & DATA != 0);
        data.map(|(at, _)| at.as_ns()).collect()
    };
    // Eight packets take 348 ns, and the answer to the first arrives after 246 ns.
    let short = times(100.0);
    assert!((short[63] - 63.0 * 43.52).abs() < 1e-6, "{}", short[63]);
    let long = times(25_000.0);
    assert!(
        long[7] < 400.0 && long[63] - long[62] > 50_000.0,
        "{long:?}"
    );
}

/// The data packets that a program sends of a message of `packets` packets while none arrives.
fn sent_in_vain(program: ProgramSpec, packets: usize) -> Vec<(f64, Packet)> {
    let mut spec = programmed(program);
    spec.largest_message_bytes = 64 * 1024;
    spec.rtt_packets = 8;
    spec.timeout_ns = 10_000.0;
    spec.max_timeouts = 1;
    let weather = Weather {
        lost: 1.0,
        ..calm()
    };
    let mut world = World::new(&spec, 2, weather, 1);
    world.sent = Some(Vec::new());
    world.send(Time::ZERO, 0, 1, packets * 1024);
    world.run();
    assert_eq!(world.given_up.len(), 1);
    let sent = world.sent.take().unwrap().into_iter();
    sent.map(|(at, packet)| (at.as_ns(), packet)).collect()
}

#[test]
fn a_departing_packet_postpones_the_timer_of_its_message() {
    let sent = sent_in_vain(swift(), 8);
    // The window is eight packets, of 43.52 ns each. Swift starts the timer with each of them.
    assert!((sent[7].0 - 7.0 * 43.52).abs() < 1e-6, "{sent:?}");
    assert!((sent[8].0 - sent[7].0 - 10_000.0).abs() < 1e-6, "{sent:?}");
    assert_eq!(sent[8].1.header.packet, 0);
}

#[test]
fn a_number_beyond_a_bitmap_is_not_in_it() {
    let text = include_str!("../../../../examples/swift.toml");
    let in_place_of = "header.credit = now / ns % wrap";
    assert!(text.contains(in_place_of));
    // The largest message has 64 packets, 0 to 63.
    let asks = "header.credit = has(unacknowledged, 63) + 2 * has(unacknowledged, 64)";
    let program = program::parsed(&text.replace(in_place_of, asks));
    let sent = sent_in_vain(program, 64);
    assert!(sent.iter().all(|(_, packet)| packet.header.credit == 1));
}

/// Random sequences of a rule's words.
fn soup() -> impl Strategy<Value = String> {
    const WORDS: [&str; 40] = [
        "start_timer(",
        "timed_out",
        "deliver",
        "finish",
        "accept",
        "stop",
        "heard",
        "take(",
        "push(",
        "later",
        "wake(",
        "bell",
        "emit(answers, ACK",
        "set(",
        "merge(",
        "to_send",
        "missing",
        "mine",
        "count(",
        "first(",
        "has(",
        "(",
        ")",
        ")",
        ",",
        ", 1)",
        ")",
        "+",
        "-",
        "*",
        "/ 3",
        "==",
        "<",
        "not",
        "now",
        "us",
        "sent = sent +",
        "other = ",
        "header.packet",
        "select(some)",
    ];
    let word = (0..WORDS.len()).prop_map(|number| WORDS[number]);
    prop::collection::vec(word, 1..6).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A random program is either refused, or runs without a panic.
    #[test]
    fn no_program_stops_the_simulator(
        rules in prop::collection::vec(
            (0usize..10, prop::option::of(soup()), prop::collection::vec(soup(), 1..4)), 1..8),
        weather in any_weather(),
        seed in any::<u64>(),
    ) {
        const EVENTS: [&str; 10] = [
            "message", "data", "over", "control", "busy", "egress", "send-timer", "receive-timer",
            "timer bell", "select some",
        ];
        let mut program = program::parsed(
            r#"
            queues = ["answers"]
            lists = ["later"]
            timers = ["bell"]
            registers = { peer = { other = 1 }, send = { sent = 2 } }
            bitmaps = { mine = "all" }
            selections = { some = { when = "1", key = "bytes", most = 2 } }
            [[rules]]
            on = "message"
            do = ["start_timer(timeout)", "wake(bell, now)"]
            "#,
        );
        // A rule that is refused is dropped; those before it stay.
        let mut spec = programmed(program.clone());
        for (event, when, actions) in rules {
            for action in actions {
                let on = EVENTS[event].to_string();
                let (when, name) = (when.clone(), String::new());
                program.rules.push(RuleSpec { name, on, when, actions: vec![action] });
                let next = programmed(program.clone());
                match next.check() {
                    Ok(()) => spec = next,
                    Err(_) => drop(program.rules.pop()),
                }
            }
        }
        let mut world = World::new(&spec, 2, weather, seed);
        for number in 0..5 {
            world.send(ns(number as f64), number % 2, 1 - number % 2, 700 * number);
        }
        for _ in 0..500 {
            if !world.step() {
                break;
            }
        }
    }
}

#[test]
fn programs_have_as_many_stages_as_their_dependencies_are_long() {
    let stages = |program: &ProgramSpec| {
        let spec = programmed(program.clone());
        let program = program::compile(program, &spec, ns(43.52)).unwrap();
        program.stages().clone().into_iter().collect::<Vec<_>>()
    };
    let own = |event: &str, actions: &[&str]| ProgramSpec {
        registers: serde_json::from_value(json!({"event": {"one": 0, "other": 0, "third": 0}}))
            .unwrap(),
        rules: vec![RuleSpec {
            name: String::new(),
            on: event.to_string(),
            when: Some("one < 5".to_string()),
            actions: actions.iter().map(|&action| action.to_string()).collect(),
        }],
        ..ProgramSpec::default()
    };
    let count = |actions: &[&str]| stages(&own("message", actions))[0].1;
    // Independent; dependent; two operations; a write after a read; a write after a write.
    assert_eq!(count(&["one = 1", "other = 2"]), 1);
    assert_eq!(count(&["one = 1", "other = one"]), 2);
    assert_eq!(count(&["one = other + 2 * third"]), 2);
    assert_eq!(count(&["other = one", "one = 1"]), 1);
    assert_eq!(count(&["other = 1", "other = 2"]), 2);
    // NDP fills nanoPU's pipeline, and Homa needs no more stages.
    let of = |program: &ProgramSpec, event: &str| {
        let found = stages(program).into_iter().find(|(on, _)| on == event);
        found.unwrap().1
    };
    let all = |program| ["data", "control", "over", "egress"].map(|event| of(program, event));
    assert_eq!(all(program::ndp()), [4, 2, 1, 1]);
    assert_eq!(all(program::homa()), [3, 4, 1, 2]);
    assert_eq!(all(&swift()), [2, 14, 1, 2]);
    assert_eq!(programmed(swift()).further_cycles(), (10, 0));
    assert_eq!(TransportSpec::default().further_cycles(), (0, 0));
    assert_eq!(spec(Protocol::Homa).further_cycles(), (0, 0));
    let long: Vec<_> = (0..16).map(|_| "one = one + 1 + 1 + 1").collect();
    let error = programmed(own("message", &long)).check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "program.rules.0 is \"\"; the rules for message up to this one take 48 consecutive stages; \
         a pipeline has 32"
    );
}

#[test]
fn wrong_programs_are_told_by_rule_and_field() {
    let wrong = |change: &dyn Fn(&mut ProgramSpec)| {
        let mut program = swift();
        change(&mut program);
        programmed(program).check().unwrap_err().to_string()
    };
    let action = |rule: usize, text: &str| {
        let error = wrong(&|program| program.rules[rule].actions[0] = text.to_string());
        error.split_once("; ").unwrap().1.to_string()
    };
    assert_eq!(
        wrong(&|program| program.rules[1].actions[1] = "emit(answer, ACK)".to_string()),
        "program.rules.1.do.1 is \"emit(answer, ACK)\"; in the rule \"whole\": emit needs the name \
         of a queue"
    );
    assert_eq!(
        wrong(&|program| program.rules[2].when = Some("trimed".to_string())),
        "program.rules.2.if is \"trimed\"; in the rule \"trimmed\": trimed is not known; known \
         here are acknowledged, delay, is_first, shrunk_at, taken, window, now, header.flags, \
         header.packet, header.credit, header.granted_priority, header.priority, bytes, packets, \
         trimmed, duplicate, marked"
    );
    assert_eq!(
        wrong(&|program| program.rules[3].on = "packet".to_string()),
        "program.rules.3.on is \"packet\"; in the rule \"the last packet\": it must be message, \
         data, over, control, busy, egress, send-timer, receive-timer, or `timer` or `select` with \
         the name of one"
    );
    assert_eq!(
        wrong(&|program| program.data.ready = "in_flight < window".to_string()),
        "program.data.ready is \"in_flight < window\"; window does not exist in this event"
    );
    let constant = |text: &str| Formula::Text(text.to_string());
    assert_eq!(
        wrong(&|program| drop(
            program
                .constants
                .insert("smallest".into(), constant("small"))
        )),
        "program.constants.smallest is \"small\"; small is not known"
    );
    assert_eq!(
        wrong(&|program| drop(
            program
                .registers
                .send
                .insert("now".into(), Formula::Number(1))
        )),
        "program.registers.send.now is \"now\"; this name has another meaning already"
    );
    assert_eq!(
        wrong(&|program| {
            for number in 0..8 {
                let name = format!("register_{number}");
                program.registers.send.insert(name, Formula::Number(0));
            }
        }),
        "program.registers.send is a list of 10; at most 8 registers are allowed"
    );
    assert_eq!(action(4, "accept"), "accept is for the event data");
    assert_eq!(
        action(4, "finish(1)"),
        "finish takes 0 arguments, and has 1"
    );
    assert_eq!(
        action(4, "limit = limit / in_flight"),
        "the divisor must be a constant"
    );
    assert_eq!(action(4, "limit = limit / 0"), "the divisor must not be 0");
    assert_eq!(action(4, "bytes = 1"), "bytes cannot be changed here");
    assert_eq!(
        action(4, "limit ="),
        "a number or a name is missing at the end"
    );
    assert_eq!(
        action(1, "set(missing, 1)"),
        "in the rule \"whole\": only accept changes missing"
    );
    assert!(action(4, "drop").starts_with("there is no action drop; there are assignments, set,"));
    let error = wrong(&|program| {
        program.rules[3]
            .actions
            .push("emit(answers, ACK, credit = bytes)".to_string());
    });
    assert!(
        error.contains("the message no longer exists after deliver or finish"),
        "{error}"
    );
    let path = TransportSpec {
        program: Some(ProgramSource::Path("my.toml".to_string())),
        ..TransportSpec::default()
    };
    assert_eq!(
        path.check().unwrap_err().to_string(),
        "program is \"my.toml\"; the contents of the file must take the place of its path"
    );
}
