//! nanoPU's two paths on one link: the fast path into registers, and a conventional interface.
//!
//! A cycle has 312.5 ps.

use crate::common::assembler::*;
use crate::common::interfaces::*;
use crate::common::servers::read;
use fabric::{Agent, AgentId, Attachment, Clock, Fabric, Time};
use nanopu::{DmaPathStatistics, NanoPuSpec, Nic, Statistics, TransmitOrder};
use network::packet::{ACK, DATA, Endpoint, PULL, Packet, TransportHeader};
use network::rack::{Interface, LineRate, SecondPath};
use network::transport::Protocol;
use pcie::{DmaNic, DmaNicSpec, IceNic, IceNicSpec};
use proptest::prelude::*;
use riscv::elf::Image;
use server::{Machine, Resumable};

/// Bits of COMMAND.
const BIND: u32 = 1;
const REMOVE: u32 = 2;

/// The bound context, and a port that no core has bound.
const BOUND: u16 = 0;
const UNBOUND: u16 = 9;

/// By this time, in nanoseconds, the harts have bound their contexts and posted their buffers.
const READY: f64 = 10_000.0;

fn cycles(count: u64) -> Time {
    Clock::from_ghz(3.2).time(count)
}

fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

/// A rate at which a byte takes this many cycles.
fn cycles_a_byte(count: f64) -> LineRate {
    LineRate::from_gbit_per_s(8.0 * 3.2 / count)
}

/// What differs between servers.
#[derive(Clone, Copy, Debug)]
struct Setup {
    order: TransmitOrder,
    protocol: Protocol,
    rate: LineRate,
    /// Whether the conventional interface is behind nanoPU's. Otherwise each has its own link.
    shares: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            order: TransmitOrder::FastPathFirst,
            protocol: Protocol::Datagrams,
            rate: cycles_a_byte(0.125),
            shares: true,
        }
    }
}

/// A server with both interfaces, and wires in place of a network.
struct Bench {
    machine: Machine,
    first: AgentId,
    second: AgentId,
    sent: Vec<(Time, Packet)>,
}

impl Bench {
    fn new<N: Agent + Interface + 'static>(
        setup: &Setup,
        image: Image,
        make: fn(&Fabric) -> (N, Attachment),
    ) -> Bench {
        let server = nanopu_prototype();
        let mut agents = None;
        let machine = Machine::new(&server, image, &[], false, |fabric| {
            let mut spec: NanoPuSpec = server.nanopu.clone().expect("the server has nanoPU");
            spec.transmit_order = setup.order;
            spec.transport.protocol = setup.protocol;
            spec.transport.receive_buffers = 1000;
            let (cores, link) = (fabric.cores(), (SERVER, setup.rate));
            let (first, extension) = nanopu::attach(fabric, &spec, cores, link)?;
            let (mut nic, attachment) = make(fabric);
            nic.connect(SERVER, setup.rate);
            let second = fabric.attach(Box::new(nic), attachment)?;
            if setup.shares {
                let path = SecondPath::new(first, second);
                assert!(fabric.agent_mut::<N>(second).unwrap().follow(&path));
                assert!(fabric.agent_mut::<Nic>(first).unwrap().lead(&path));
            }
            agents = Some((first, second));
            Ok(Box::new(extension))
        });
        let (first, second) = agents.expect("they have been attached");
        Bench {
            machine: machine.expect("the machine can be built"),
            first,
            second,
            sent: Vec::new(),
        }
    }

    fn with_ice_nic(setup: &Setup, image: Image) -> Bench {
        Bench::new(setup, image, ice_nic)
    }

    fn agent<N: 'static>(&mut self, agent: AgentId) -> &mut N {
        let found = self.machine.engine.fabric.agent_mut::<N>(agent);
        found.expect("the agent is this interface")
    }

    /// The last bit of a packet arrives at the link of an interface.
    fn arrive_at<N: Interface + 'static>(&mut self, agent: AgentId, at: Time, packet: Packet) {
        let token = self.agent::<N>(agent).receive(0, at, packet);
        self.machine.engine.fabric.wake_agent(agent, at, token);
    }

    /// The last bit of a packet arrives at the shared link.
    fn arrive(&mut self, at: Time, packet: Packet) {
        let first = self.first;
        self.arrive_at::<Nic>(first, at, packet);
    }

    /// Runs until this number of packets has been sent.
    fn run_until(&mut self, packets: usize) {
        while self.sent.len() < packets {
            self.machine.advance().expect("packets are still to come");
            let (first, mut sent) = (self.first, std::mem::take(&mut self.sent));
            self.agent::<Nic>(first).take_sent(0, &mut sent);
            self.sent = sent;
        }
    }

    fn counts(&mut self) -> (Statistics, DmaPathStatistics) {
        let first = self.first;
        let nic = self.agent::<Nic>(first);
        let of_dma = nic.dma_path_statistics();
        (nic.statistics(), of_dma.unwrap_or_default())
    }

    /// The departures of first bits.
    fn departures(&self) -> Vec<Time> {
        self.sent.iter().map(|&(at, _)| at).collect()
    }
}

fn ice_nic(fabric: &Fabric) -> (IceNic, Attachment) {
    let spec = IceNicSpec {
        // So that it is the link for which frames wait.
        output_buffer_bytes: 1 << 16,
        ..IceNicSpec::default()
    };
    let nic = IceNic::new(&spec, REGISTERS, fabric.clock()).unwrap();
    let attachment = nic.attachment(0);
    (nic, attachment)
}

fn dma_nic(_: &Fabric) -> (DmaNic, Attachment) {
    let spec = DmaNicSpec {
        // Behind another interface it has no MAC, and this is not counted.
        mac_latency_ns: 0.0,
        ..DmaNicSpec::default()
    };
    let nic = DmaNic::new(&spec, REGISTERS).unwrap();
    let attachment = nic.attachment(0);
    (nic, attachment)
}

fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A message of one packet from the client.
fn request(port: u16, tag: u64, payload: Vec<u8>) -> Packet {
    let address = |address, port| Endpoint { address, port };
    Packet {
        from: address(CLIENT, 7),
        to: address(SERVER, port),
        header: TransportHeader {
            flags: DATA,
            message_bytes: payload.len() as u32,
            message: tag as u16,
            ..TransportHeader::default()
        },
        payload,
        tag,
        ..Packet::default()
    }
}

/// A frame that the server sends to the client.
fn frame(tag: u64, wire_bytes: usize) -> Packet {
    let request = request(UNBOUND, tag, vec![0; wire_bytes - 64]);
    Packet {
        from: request.to,
        to: request.from,
        ..request
    }
}

/// Binds context 0, and sends each message of one word back with 1 added to it.
fn loopback_plus_1(asm: &mut Assembler) {
    csr_write_immediate(asm, COMMAND, BIND);
    let wait = asm.label_here();
    asm.csr_read(A5, MESSAGE_READY);
    asm.branch(When::Equal, A5, ZERO, wait);
    asm.copy(NET_TX, NET_RX);
    asm.add_immediate(NET_TX, NET_RX, 1);
    csr_write_immediate(asm, USER_COMMAND, 1);
    asm.jump(wait);
}

/// Sends frames back, one after the other, through the interface on the chip.
fn ice_loopback(asm: &mut Assembler) {
    asm.load_immediate(S0, REGISTERS);
    asm.load_immediate(S1, BUFFERS);
    let again = asm.label_here();
    asm.store_double(S1, S0, 8);
    // The last byte of COUNTS is the number of received frames.
    let wait = asm.label_here();
    asm.load(4, false, T0, S0, 20);
    asm.shift_right(T0, T0, 24);
    asm.branch(When::Equal, T0, ZERO, wait);
    asm.load(2, false, T0, S0, 18);
    swap_addresses(asm, S1);
    asm.fence(RW, RW);
    asm.shift_left(T0, T0, 48);
    asm.add(T0, T0, S1);
    asm.store_double(T0, S0, 0);
    asm.load(2, false, T0, S0, 16);
    asm.jump(again);
}

/// The same behind PCI Express, with rings of four descriptors, of which one frame uses the first.
fn dma_loopback_once(asm: &mut Assembler) {
    asm.load_immediate(S0, REGISTERS + 0x1000);
    asm.load_immediate(S1, RINGS);
    asm.load_immediate(S3, RINGS + 0x1000);
    asm.load_immediate(S4, 4);
    asm.load_immediate(S5, 1);
    asm.store_double(S1, S0, 0x00);
    asm.store_double(S4, S0, 0x08);
    asm.store_double(S3, S0, 0x20);
    asm.store_double(S4, S0, 0x28);
    asm.store_double(S4, S0, 0x10);
    let wait = asm.label_here();
    asm.load(2, false, T0, S1, 10);
    asm.branch(When::Equal, T0, ZERO, wait);
    asm.fence(RW, RW);
    asm.load_double(S6, S1, 0);
    asm.load(2, false, A0, S1, 8);
    swap_addresses(asm, S6);
    asm.store_double(S6, S3, 0);
    asm.store_double(A0, S3, 8);
    asm.fence(RW, RW);
    asm.store_double(S5, S0, 0x30);
    asm.halt();
}

/// Hart 0 answers messages, and hart 1 runs `other`.
fn beside(other: impl Fn(&mut Assembler), data: &[(u64, Vec<u8>)]) -> Image {
    let mut asm = Assembler::new();
    asm.harts(4, |asm, hart| match hart {
        0 => loopback_plus_1(asm),
        1 => other(asm),
        _ => asm.halt(),
    });
    asm.finish(data)
}

fn both_loopbacks() -> Image {
    beside(ice_loopback, &[])
}

fn buffers_of_rings() -> (u64, Vec<u8>) {
    let of = |place: u64| [BUFFERS + 2048 * place, 2048];
    let descriptors = (0..4).flat_map(of).flat_map(u64::to_le_bytes);
    (RINGS, descriptors.collect())
}

/// Hart 1 sends three frames of 1088 bytes at READY.
fn three_frames() -> Image {
    let program = |asm: &mut Assembler| {
        asm.load_immediate(S0, REGISTERS);
        asm.load_immediate(S1, (READY * 3.2) as u64);
        asm.load_immediate(S2, 1088 << 48 | BUFFERS);
        let wait = asm.label_here();
        asm.csr_read(T0, CYCLE);
        asm.branch(When::LessUnsigned, T0, S1, wait);
        for place in 0..3 {
            asm.store_double(S2, S0, 0);
            if place < 2 {
                asm.add_immediate(S2, S2, 1088);
            }
        }
        asm.halt();
    };
    let frames = (0..3).flat_map(|tag| frame(tag, 1088).to_bytes());
    beside(program, &[(BUFFERS, frames.collect())])
}

/// A packet for a port that no core has bound is behind the MAC (26 ns) and the ingress pipeline (7
/// cycles) when the conventional interface gets it. From there on it takes the time of that
/// interface alone, until its answer is at the egress pipeline (2 cycles) and the MAC (26 ns).
#[test]
fn a_frame_takes_the_time_of_its_interface_and_of_the_pipelines() {
    fn check<N: Agent + Interface + 'static>(
        image: fn() -> Image,
        make: fn(&Fabric) -> (N, Attachment),
    ) {
        let at = ns(READY);
        let request = request(UNBOUND, 5, words(&[1, 2, 3]));
        let mut alone = Bench::new(
            &Setup {
                shares: false,
                ..Setup::default()
            },
            image(),
            make,
        );
        let second = alone.second;
        let given = at + ns(26.0) + cycles(7);
        alone.arrive_at::<N>(second, given, request.clone());
        let mut sent = Vec::new();
        while sent.is_empty() {
            alone.machine.advance().expect("the frame comes back");
            alone.agent::<N>(second).take_sent(0, &mut sent);
        }

        let mut shared = Bench::new(&Setup::default(), image(), make);
        shared.arrive(at, request.clone());
        shared.run_until(1);
        let (leaves, answer) = &sent[0];
        assert_eq!(
            shared.sent,
            [(*leaves + cycles(2) + ns(26.0), answer.clone())]
        );
        assert_eq!(answer.payload, request.payload);
        // It has been in memory.
        assert_eq!(read(&shared.machine, BUFFERS + 64).swap_bytes(), 1);
        let (all, dma) = shared.counts();
        assert_eq!((all.packets_received, all.packets_sent), (1, 1));
        assert_eq!((dma.packets_received, dma.packets_sent), (1, 1));
        assert_eq!((all.messages_received, all.packets_dropped), (0, 0));
        // The link carries 88 bytes each way, once.
        assert_eq!(all.link_bytes, 2 * 88);
    }
    check::<IceNic>(both_loopbacks, ice_nic);
    check::<DmaNic>(|| beside(dma_loopback_once, &[buffers_of_rings()]), dma_nic);
}

/// A packet for the bound context takes as long as without a DMA path, and touches no memory.
#[test]
fn a_message_takes_the_fast_path() {
    let outcome = |shares| {
        let setup = Setup {
            shares,
            ..Setup::default()
        };
        let mut bench = Bench::with_ice_nic(&setup, both_loopbacks());
        bench.arrive(ns(READY), request(BOUND, 5, words(&[41])));
        bench.run_until(1);
        assert_eq!(bench.sent[0].1.payload, words(&[42]));
        assert_eq!(read(&bench.machine, BUFFERS + 64), 0);
        assert_eq!(bench.counts().1, DmaPathStatistics::default());
        bench.sent
    };
    assert_eq!(outcome(true), outcome(false));
}

/// A context is on the fast path from its binding on, and until its removal.
#[test]
fn software_fills_the_table() {
    let program = || {
        let mut asm = Assembler::new();
        asm.harts(4, |asm, hart| match hart {
            0 => {
                csr_write_immediate(asm, COMMAND, BIND);
                asm.load_immediate(S1, 20_000 * 16 / 5);
                let wait = asm.label_here();
                asm.csr_read(T0, CYCLE);
                asm.branch(When::LessUnsigned, T0, S1, wait);
                csr_write_immediate(asm, COMMAND, REMOVE);
                asm.halt();
            }
            1 => ice_loopback(asm),
            _ => asm.halt(),
        });
        asm.finish(&[])
    };
    let mut bench = Bench::with_ice_nic(&Setup::default(), program());
    // Bound until 20 us, and not from then on. Nothing answers the first one.
    for (tag, at) in [(0, 15_000.0), (1, 25_000.0)] {
        bench.arrive(ns(at), request(BOUND, tag, words(&[tag])));
    }
    // The port alone decides, whether there are data or not.
    let mut acknowledgement = request(BOUND, 2, Vec::new());
    acknowledgement.header.flags = ACK;
    bench.arrive(ns(30_000.0), acknowledgement);
    // This is for another host.
    let mut stray = request(BOUND, 3, words(&[3]));
    stray.to.address = CLIENT;
    bench.arrive(ns(35_000.0), stray);
    bench.arrive(ns(40_000.0), request(UNBOUND, 4, words(&[4])));
    bench.run_until(3);
    let tags: Vec<u64> = bench.sent.iter().map(|(_, packet)| packet.tag).collect();
    assert_eq!(tags, [1, 2, 4]);
    let (all, dma) = bench.counts();
    assert_eq!((all.packets_received, dma.packets_received), (5, 3));
    assert_eq!((all.messages_received, all.packets_dropped), (1, 1));
}

/// A byte takes 4 cycles: a frame of 1088 bytes 4352, and a packet of 72 bytes 288. While the first
/// of three frames is on the link, the others and three messages become ready.
#[test]
fn the_order_on_the_link() {
    let departures = |order| {
        let setup = Setup {
            order,
            rate: cycles_a_byte(4.0),
            ..Setup::default()
        };
        let mut bench = Bench::with_ice_nic(&setup, three_frames());
        for tag in 10..13 {
            bench.arrive(ns(READY + 300.0), request(BOUND, tag, words(&[tag])));
        }
        bench.run_until(6);
        let is_frame: Vec<bool> = bench
            .sent
            .iter()
            .map(|(_, packet)| packet.payload.len() > 8)
            .collect();
        (bench.departures(), is_frame)
    };
    let after = |begin: Time, durations: [u64; 5]| {
        let sums = durations.into_iter().scan(0, |sum, one| {
            *sum += one;
            Some(begin + cycles(*sum))
        });
        Vec::from_iter(std::iter::once(begin).chain(sums))
    };
    let (found, is_frame) = departures(TransmitOrder::FastPathFirst);
    assert_eq!(is_frame, [true, false, false, false, true, true]);
    assert_eq!(found, after(found[0], [4352, 288, 288, 288, 4352]));

    let (found, is_frame) = departures(TransmitOrder::RoundRobin);
    assert_eq!(is_frame, [true, false, true, false, true, false]);
    assert_eq!(found, after(found[0], [4352, 288, 4352, 288, 4352]));
}

/// The transport is asked when the link is free, and not when it has something. While a frame is on
/// the link, an answer becomes ready (100 ns behind its request, at most) and 200 ns after the first
/// request another one comes, whose acknowledgement has a higher priority in NDP: it goes first. So
/// does a pull: acknowledgement and pull of the first request are one packet, but there is no token
/// for the second one's until 4352 cycles later, when both acknowledgements are on the link.
#[test]
fn priorities_hold_behind_a_frame() {
    let setup = Setup {
        protocol: Protocol::Ndp,
        rate: cycles_a_byte(4.0),
        ..Setup::default()
    };
    let mut bench = Bench::with_ice_nic(&setup, three_frames());
    for (tag, at) in [(10, 300.0), (11, 500.0)] {
        bench.arrive(ns(READY + at), request(BOUND, tag, words(&[tag])));
    }
    bench.run_until(6);
    let kinds: Vec<(u8, usize)> = bench.sent[..6]
        .iter()
        .map(|(_, packet)| (packet.header.flags, packet.payload.len()))
        .collect();
    let controls = [(ACK | PULL, 0), (ACK, 0), (PULL, 0)];
    assert_eq!(kinds[0], (DATA, 1024));
    assert_eq!(kinds[1..4], controls);
    assert_eq!(kinds[4..], [(DATA, 8); 2]);
    // The frame is on the link until after the second request.
    let begins = bench.sent[0].0 - cycles(2) - ns(26.0);
    assert!(begins + cycles(4352) > ns(READY + 500.0 + 100.0));
}

/// Arrivals of packets of both paths: the time since the one before, and the words of a packet for
/// an unbound port, or none for a message.
fn traffic() -> impl Strategy<Value = Vec<(u32, Option<usize>)>> {
    let packet = (0u32..2000, proptest::option::of(1usize..128));
    proptest::collection::vec(packet, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each packet comes back once on its path, unchanged or with 1 added; packets of each path keep
    /// their order; the link carries one packet at a time; and neither lookahead nor skipping nor a
    /// checkpoint changes anything.
    #[test]
    fn packets_are_conserved(
        arrivals in traffic(),
        is_fair in any::<bool>(),
        byte_cycles in 1u32..20,
        half in 0usize..40,
    ) {
        let setup = Setup {
            order: if is_fair { TransmitOrder::RoundRobin } else { TransmitOrder::FastPathFirst },
            // From 204.8 Gb/s down to a twentieth of that.
            rate: cycles_a_byte(0.125 * f64::from(byte_cycles)),
            ..Setup::default()
        };
        let begin = || {
            let mut bench = Bench::with_ice_nic(&setup, both_loopbacks());
            let mut at = ns(READY);
            for (tag, &(gap, frame_words)) in arrivals.iter().enumerate() {
                at += cycles(gap.into());
                let word = 1000 * tag as u64;
                let packet = match frame_words {
                    None => request(BOUND, word, words(&[word])),
                    Some(count) => request(UNBOUND, word, words(&vec![word; count])),
                };
                bench.arrive(at, packet);
            }
            bench
        };
        let mut bench = begin();
        bench.run_until(arrivals.len());

        let (mut messages, mut frames) = (Vec::new(), Vec::new());
        for (_, packet) in &bench.sent {
            match packet.to.port {
                // The loopback of frames exchanges the Ethernet addresses alone.
                UNBOUND => frames.push(packet.payload.clone()),
                _ => messages.push(packet.payload.clone()),
            }
        }
        let of = |is_frame: bool| {
            let of_path = arrivals.iter().enumerate().filter(move |(_, one)| one.1.is_some() == is_frame);
            of_path.map(|(tag, &(_, count))| match count {
                None => words(&[1000 * tag as u64 + 1]),
                Some(count) => words(&vec![1000 * tag as u64; count]),
            })
        };
        prop_assert_eq!(&frames, &of(true).collect::<Vec<_>>());
        prop_assert_eq!(&messages, &of(false).collect::<Vec<_>>());
        let (all, dma) = bench.counts();
        let (sent, of_dma) = (arrivals.len() as u64, frames.len() as u64);
        prop_assert_eq!((all.packets_received, all.packets_sent), (sent, sent));
        prop_assert_eq!((dma.packets_received, dma.packets_sent), (of_dma, of_dma));
        prop_assert_eq!((all.messages_received, all.packets_dropped), (sent - of_dma, 0));
        for pair in bench.sent.windows(2) {
            let (at, packet) = &pair[0];
            prop_assert!(pair[1].0 >= *at + setup.rate.duration(packet.wire_bytes()));
        }

        let mut slow = begin();
        slow.machine.engine.set_speed(1, false);
        slow.run_until(arrivals.len());
        prop_assert_eq!(&slow.sent, &bench.sent);

        let mut before = begin();
        before.run_until(half % arrivals.len());
        let state = before.machine.save().expect("it can be saved");
        let mut behind = Bench::with_ice_nic(&setup, both_loopbacks());
        behind.machine.restore(&state).expect("it can be restored");
        behind.sent = before.sent;
        behind.run_until(arrivals.len());
        prop_assert_eq!(&behind.sent, &bench.sent);
        prop_assert_eq!(behind.counts(), bench.counts());
    }
}
