//! Several servers and a network, with a minimal network interface.

use crate::common::assembler::*;
use crate::common::interfaces::nanopu_prototype;
use crate::common::servers::server;
use fabric::{AddressRange, Agent, AgentContext, AgentId, Attachment, Request, RequestKind, Time};
use network::packet::{Endpoint, Packet};
use network::rack::{
    Interface, LineRate, LinkFaultSpec, LinkSpec, Network, NodeId, Switch, SwitchSpec,
};
use pipeline::{CoreSpec, NoExtension};
use riscv::elf::Image;
use server::{
    Description, Machine, Options, Rack, RackAdvance, RackServer, Resumable, RunError, ServerSpec,
    Wire,
};
use std::collections::VecDeque;

const REGISTERS: AddressRange = AddressRange {
    start: 0x1000_0000,
    length: 0x1000,
};
/// A store sends the value to the address in its upper half; a load waits for a packet, and returns
/// its source address and its value.
const PORT: u64 = REGISTERS.start;
/// Bytes of a packet on a link: 72, which take 2.88 ns.
const BYTES: u64 = network::packet::HEADER_BYTES + 8;
const ON_LINK_NS: f64 = 2.88;
/// The address that a program writes when it is done.
const HOST: u64 = 0x8030_0000;
/// Flags between the harts of a server.
const BEGUN: u64 = 0x8020_0000;
const NEVER_WRITTEN: u64 = 0x8020_0040;

/// A network interface of one register, which carries 8 bytes a packet.
#[derive(Default, state::State)]
struct TestInterface {
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    rate: Option<LineRate>,
    free_at: Time,
    sent: Vec<(Time, Packet)>,
    coming: VecDeque<Packet>,
    ready: VecDeque<u64>,
    waiting: VecDeque<fabric::ReplyTo>,
    /// The times at which packets were sent and received.
    log: Vec<(Time, bool, u64)>,
}

impl TestInterface {
    fn answer(&mut self, context: &mut AgentContext<'_>) {
        while !self.ready.is_empty()
            && let Some(reply_to) = self.waiting.pop_front()
            && let Some(value) = self.ready.pop_front()
        {
            context.reply(reply_to, value, Time::ZERO);
        }
    }
}

impl Agent for TestInterface {
    fn name(&self) -> String {
        "the test's network interface".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        match request.kind {
            RequestKind::Read { .. } => {
                self.waiting.push_back(request.reply_to);
                self.answer(context);
            }
            RequestKind::Write { value, .. } => {
                let rate = self.rate.expect("it is connected");
                let at = context.now().max(self.free_at);
                self.free_at = at + rate.duration(BYTES);
                let packet = Packet {
                    from: Endpoint {
                        address: self.address,
                        port: 0,
                    },
                    to: Endpoint {
                        address: (value >> 32) as u32,
                        port: 0,
                    },
                    payload: (value & 0xffff_ffff).to_be_bytes().to_vec(),
                    ..Packet::default()
                };
                self.log.push((at, true, value & 0xffff_ffff));
                self.sent.push((at, packet));
                context.reply(request.reply_to, 0, Time::ZERO);
            }
            _ => context.refuse(request.reply_to),
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        let packet = self.coming.pop_front().expect("a packet was announced");
        let value = u64::from_be_bytes(packet.payload.try_into().expect("packets have 8 bytes"));
        self.log.push((context.now(), false, value));
        self.ready
            .push_back(u64::from(packet.from.address) << 32 | value);
        self.answer(context);
    }
}

impl Interface for TestInterface {
    fn connect(&mut self, address: u32, rate: LineRate) {
        self.address = address;
        self.rate = Some(rate);
    }

    fn receive(&mut self, _port: usize, _at: Time, packet: Packet) -> u64 {
        self.coming.push_back(packet);
        0
    }

    fn take_sent(&mut self, _port: usize, sent: &mut Vec<(Time, Packet)>) {
        sent.append(&mut self.sent);
    }
}

/// The first address.
const FIRST_ADDRESS: u32 = 0x0a00_0001;

/// A server of four five-stage cores.
fn small_server() -> ServerSpec {
    server(4, &CoreSpec::five_stage())
}

fn rack_server(number: usize, spec: &ServerSpec, image: Image, place: NodeId) -> RackServer {
    let mut agent = AgentId(0);
    let machine = Machine::new(spec, image, &[], false, |fabric| {
        let attachment = Attachment {
            owns: Some(REGISTERS),
            ..Attachment::default()
        };
        agent = fabric.attach(Box::new(TestInterface::default()), attachment)?;
        Ok(Box::new(NoExtension))
    });
    let machine = machine.expect("the machine can be built");
    let wire = Wire::of::<TestInterface>(agent);
    RackServer::new(format!("server {number}"), machine, wire, place)
}

/// Servers connected by a switch or, without one, two servers and a link. `images` are the servers'
/// programs.
fn rack(images: &[Image], link: &LinkSpec, switch: Option<&SwitchSpec>, lookahead: u64) -> Rack {
    let mut network = Network::new(1);
    let places: Vec<NodeId> = images.iter().map(|_| network.add_server()).collect();
    match switch {
        None => {
            network.connect(places[0], places[1], link);
        }
        Some(spec) => {
            let routes = (0..images.len()).map(|port| (FIRST_ADDRESS + port as u32, port));
            let switch = Switch::new(spec, "switch".to_string(), images.len(), routes.collect());
            let switch = network.add_node(Box::new(switch));
            for &place in &places {
                network.connect(switch, place, link);
            }
        }
    }
    let spec = small_server();
    let mut servers: Vec<RackServer> = images
        .iter()
        .zip(places)
        .enumerate()
        .map(|(number, (image, place))| rack_server(number, &spec, image.clone(), place))
        .collect();
    for (number, server) in servers.iter_mut().enumerate() {
        let address = FIRST_ADDRESS + number as u32;
        server
            .connect(address, link.rate())
            .expect("it has an interface");
    }
    Rack::new(servers, network, lookahead).expect("the rack can be built")
}

fn run(rack: &mut Rack) -> RackAdvance {
    loop {
        match rack.advance().expect("nothing goes wrong") {
            RackAdvance::Running => {}
            other => return other,
        }
    }
}

/// The times and values of a server's sent and received packets.
fn log(rack: &mut Rack, server: usize) -> Vec<(Time, bool, u64)> {
    // CLINT is the first agent; HTIF is the second, if present.
    let fabric = &mut rack.servers[server].machine.engine.fabric;
    let ids = (1..3).map(AgentId);
    let found: Vec<_> = ids
        .filter_map(|id| Some(fabric.agent_mut::<TestInterface>(id)?.log.clone()))
        .collect();
    found.concat()
}

/// The first hart sends `rounds` packets to a server, each when the answer to the previous one has
/// arrived.
fn asks(server: u32, rounds: u64) -> Image {
    let mut asm = Assembler::new();
    asm.harts(1, |asm, _| {
        asm.load_immediate(S0, PORT);
        asm.load_immediate(S1, u64::from(FIRST_ADDRESS + server) << 32);
        asm.load_immediate(S2, rounds);
        let again = asm.label_here();
        asm.add(T0, S1, S2);
        asm.store_double(T0, S0, 0);
        asm.load_double(T1, S0, 0);
        asm.add_immediate(S2, S2, -1);
        asm.branch(When::NotEqual, S2, ZERO, again);
        asm.halt();
    });
    asm.finish(&[])
}

/// The first hart returns every packet.
fn answers() -> Image {
    let mut asm = Assembler::new();
    asm.harts(1, |asm, _| {
        asm.load_immediate(S0, PORT);
        let again = asm.label_here();
        asm.load_double(T0, S0, 0);
        asm.store_double(T0, S0, 0);
        asm.jump(again);
    });
    asm.finish(&[])
}

/// A program without work.
fn idles() -> Image {
    let mut asm = Assembler::new();
    asm.halt();
    asm.finish(&[])
}

#[test]
fn packets_between_servers_take_what_links_and_switch_take() {
    const ROUNDS: u64 = 20;
    let images = [asks(1, ROUNDS), answers()];
    let switch = SwitchSpec::default();
    let direct_ns = 43.0 + ON_LINK_NS;
    let switched_ns = 43.0 + 300.0 + 43.0 + ON_LINK_NS;
    let mut turnarounds = Vec::new();
    for (switch, way_ns) in [(None, direct_ns), (Some(&switch), switched_ns)] {
        let mut rack = rack(&images, &LinkSpec::default(), switch, 0);
        // In the end one waits for packets and the other has halted.
        assert_eq!(run(&mut rack), RackAdvance::Idle);
        let (asking, answering) = (log(&mut rack, 0), log(&mut rack, 1));
        assert_eq!(asking.len(), 2 * ROUNDS as usize);
        let way = Time::from_ns(way_ns);
        for (asked, answered) in asking.chunks(2).zip(answering.chunks(2)) {
            let ([out, back], [came, went]) = (asked, answered) else {
                panic!("a question without an answer");
            };
            assert_eq!((out.1, came.1, went.1, back.1), (true, false, true, false));
            assert_eq!((out.2, came.2, went.2), (back.2, back.2, back.2));
            assert_eq!(came.0, out.0 + way);
            assert_eq!(back.0, went.0 + way);
        }
        // By then all code is in the caches, so that an iteration always takes the same number of
        // cycles; but a packet arrives at any time within a cycle, so that it may take one less.
        let period = rack.servers[1].machine.engine.time(1);
        let iterations: Vec<Time> = answering[4..]
            .chunks(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect();
        let least = iterations.iter().min().unwrap();
        let most = iterations.iter().max().unwrap();
        assert!(*most - *least < period, "{least} to {most}");
        turnarounds.push(*most);
    }
    let difference = turnarounds[0].max(turnarounds[1]) - turnarounds[0].min(turnarounds[1]);
    assert!(difference < Time::from_ns(0.34), "{turnarounds:?}");
}

/// The complete observable outcome of a rack that has ended.
fn outcome(rack: &mut Rack) -> Vec<String> {
    let servers = rack.servers.len();
    let logs: Vec<_> = (0..servers).map(|server| log(rack, server)).collect();
    let seen = |(server, log): (&RackServer, _)| {
        let machine = &server.machine;
        let end = machine.end();
        let counts = machine.engine.cores.iter().map(|core| core.statistics(end));
        let cores: Vec<_> = counts.map(|core| format!("{core:?}")).collect();
        format!(
            "{end} {log:?} {:?} {cores:?}",
            machine.engine.fabric.statistics()
        )
    };
    rack.servers.iter().zip(logs).map(seen).collect()
}

/// Polls a word of memory until it is not zero.
fn polls(asm: &mut Assembler, address: u64) {
    asm.load_immediate(T0, address);
    let again = asm.label_here();
    asm.load_double(T1, T0, 0);
    asm.branch(When::Equal, T1, ZERO, again);
}

/// Each of four harts sends packets to servers and at times determined by a seed; the last one
/// starts when it sees that the first has begun. If requested, the first one exits after the others
/// are done. Received packets are only recorded.
fn talks(servers: u64, seed: u64, exits: bool) -> Image {
    let mut asm = Assembler::new();
    asm.harts(4, |asm, hart| {
        asm.load_immediate(S0, PORT);
        asm.load_immediate(S1, seed * 4 + hart as u64 + 1);
        asm.load_immediate(S2, 30);
        asm.load_immediate(S3, servers);
        asm.load_immediate(S4, u64::from(FIRST_ADDRESS));
        asm.load_immediate(S5, BEGUN);
        if hart == 3 {
            polls(asm, BEGUN);
        }
        // Marsaglia's xorshift64 (2003).
        let again = asm.label_here();
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            match left {
                true => asm.shift_left(T0, S1, by),
                false => asm.shift_right(T0, S1, by),
            }
            asm.operate(XOR, S1, S1, T0);
        }
        asm.operate(REMU, T1, S1, S3);
        asm.add(T1, T1, S4);
        asm.shift_left(T1, T1, 32);
        asm.load_immediate(T2, hart as u64 * 1000);
        asm.add(T1, T1, T2);
        asm.add(T1, T1, S2);
        asm.store_double(T1, S0, 0);
        asm.and_immediate(T2, S1, 1023);
        let wait = asm.label_here();
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::GreaterEqual, T2, ZERO, wait);
        if hart == 0 {
            asm.store_double(S2, S5, 0);
        }
        asm.add_immediate(S2, S2, -1);
        asm.branch(When::NotEqual, S2, ZERO, again);
        if exits && hart > 0 {
            polls(asm, NEVER_WRITTEN);
        } else if exits {
            asm.load_immediate(T0, 1);
            asm.load_immediate(T1, HOST);
            asm.store_double(T0, T1, 0);
        }
        asm.halt();
    });
    match exits {
        true => with_host(asm.finish(&[]), HOST),
        false => asm.finish(&[]),
    }
}

/// Servers that communicate through a switch with little room, over links with all kinds of faults.
fn talking(exits: bool, lookahead: u64, skip_spinning: bool) -> Rack {
    let servers = 5;
    let images: Vec<Image> = (0..servers)
        .map(|server| talks(servers, server, exits))
        .collect();
    let link = LinkSpec {
        rate_gbit_per_s: 20.0,
        latency_ns: 60.0,
        overhead_bytes: 0,
        faults: LinkFaultSpec {
            lost: 0.05,
            duplicated: 0.05,
            reordered: 0.1,
            reordered_by_ns: 200.0,
        },
    };
    let switch = SwitchSpec {
        buffer_bytes: 1088,
        ..SwitchSpec::default()
    };
    let mut rack = rack(&images, &link, Some(&switch), lookahead);
    for server in &mut rack.servers {
        server.machine.engine.set_speed(lookahead, skip_spinning);
    }
    rack
}

/// Number of skipped cycles of all servers.
fn skipped_cycles(rack: &Rack) -> u64 {
    let servers = rack.servers.iter();
    let cores = servers.flat_map(|server| &server.machine.engine.cores);
    cores.map(|core| core.skipped_cycles()).sum()
}

#[test]
fn windows_of_any_length_and_skipping_give_the_same() {
    for exits in [false, true] {
        let run_with = |lookahead, skip, end: Option<Time>| {
            let mut rack = talking(exits, lookahead, skip);
            if let Some(end) = end {
                rack.set_end(end);
            }
            let ending = run(&mut rack);
            let expected = match exits || end.is_some() {
                true => RackAdvance::End,
                false => RackAdvance::Idle,
            };
            assert_eq!(ending, expected);
            assert_eq!(skipped_cycles(&rack) > 0, skip);
            (outcome(&mut rack), rack.server_windows())
        };
        for end in [None, Some(Time::from_ns(4321.0))] {
            let (longest, windows) = run_with(0, true, end);
            // 4 harts of 5 servers have sent 30 packets each, some of which have been lost.
            let lines: usize = longest
                .iter()
                .map(|seen| seen.matches("true").count())
                .sum();
            assert!(lines > 100, "{lines}");
            let simulated = run_with(0, false, end).0;
            assert!(simulated == longest, "with nothing skipped, until {end:?}");
            for (lookahead, skip) in [(1, true), (50, false)] {
                let (shorter, more_windows) = run_with(lookahead, skip, end);
                assert!(
                    shorter == longest,
                    "with {lookahead} cycles, skipping {skip}, until {end:?}"
                );
                assert!(more_windows > windows);
            }
        }
    }
}

#[test]
fn a_rack_goes_on_where_it_was_saved() {
    let mut straight = talking(true, 0, true);
    run(&mut straight);
    let mut first = talking(true, 0, true);
    while first.now() < Time::from_ns(3000.0) {
        assert_eq!(
            first.advance().expect("nothing goes wrong"),
            RackAdvance::Running
        );
    }
    let saved = first.save().expect("it can be saved");
    let mut second = talking(true, 0, true);
    second.restore(&saved).expect("it can be restored");
    run(&mut second);
    assert!(outcome(&mut second) == outcome(&mut straight));
    assert_eq!(second.server_windows(), straight.server_windows());
}

/// Of 81 servers with 4 cores each, two communicate: the cost of the 79 idle ones does not grow
/// with the traffic of these two.
#[test]
fn idle_servers_cost_nothing() {
    let windows = |servers: usize, rounds: u64| {
        let mut images = vec![idles(); servers];
        images[0] = asks(1, rounds);
        images[1] = answers();
        let mut rack = rack(
            &images,
            &LinkSpec::default(),
            Some(&SwitchSpec::default()),
            0,
        );
        run(&mut rack);
        assert_eq!(log(&mut rack, 0).len(), 2 * rounds as usize);
        rack.server_windows()
    };
    let few = windows(81, 100);
    let many = windows(81, 1100);
    assert_eq!(many - few, windows(2, 1100) - windows(2, 100));
    // Each window is one of two servers, and a round trip takes at least some 800 ns, 19 windows.
    assert!(many - few >= 2000, "{few} {many}");
}

#[test]
fn who_waits_for_whom_is_told_by_server() {
    let mut rack = rack(&[asks(1, 1), idles()], &LinkSpec::default(), None, 0);
    assert_eq!(run(&mut rack), RackAdvance::Idle);
    let text = rack.describe_waiting("the rack has come to a stop");
    assert!(
        text.starts_with("the rack has come to a stop\nserver 0:\n  hart 0 at"),
        "{text}"
    );
    assert!(text.contains("\nserver 1:\n  hart 0 at"), "{text}");
}

/// The error of a rack whose second server runs a program that crashes.
fn crash(image: Image) -> String {
    let mut rack = rack(&[idles(), image], &LinkSpec::default(), None, 0);
    let error = loop {
        match rack.advance() {
            Ok(RackAdvance::Running) => {}
            Ok(other) => panic!("it has not crashed but come to {other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RunError::Guest(_)));
    error.to_string()
}

#[test]
fn a_crash_is_told_with_its_server() {
    let mut asm = Assembler::new();
    asm.load_double(T0, ZERO, 0);
    let text = crash(asm.finish(&[]));
    assert!(
        text.starts_with("server 1: the guest crashed: hart 0, load access fault"),
        "{text}"
    );
}

/// Main memory begins at 0x8000_0000 and has 16 MiB.
#[test]
fn an_access_beyond_the_memory_is_told_with_the_parameter_of_its_size() {
    let mut asm = Assembler::new();
    asm.load_immediate(T1, 0x8100_0000);
    asm.load_double(T0, T1, 0);
    let text = crash(asm.finish(&[]));
    let told = ": address 0x81000000 is beyond the main memory, whose size is server.memory_mib";
    assert!(text.contains(told), "{text}");
}

/// A hart of nanoPU that returns every message, on context 0 like the published loopback program.
fn loops_back() -> Vec<u8> {
    const MESSAGE_READY: u32 = 0x52;
    const CURRENT_CONTEXT: u32 = 0x53;
    const COMMAND: u32 = 0x54;
    const CURRENT_PRIORITY: u32 = 0x55;
    const USER_COMMAND: u32 = 0x56;
    const NET_RX: Register = T5;
    const NET_TX: Register = T6;
    let mut asm = Assembler::new();
    asm.harts(4, |asm, _| {
        asm.csr_write(CURRENT_CONTEXT, ZERO);
        asm.csr_write(CURRENT_PRIORITY, ZERO);
        asm.load_immediate(S0, 1);
        asm.csr_write(COMMAND, S0);
        let again = asm.label_here();
        asm.csr_read(T0, MESSAGE_READY);
        asm.branch(When::Equal, T0, ZERO, again);
        asm.copy(S1, NET_RX);
        asm.copy(NET_TX, S1);
        asm.shift_left(S1, S1, 48);
        asm.shift_right(S1, S1, 51);
        let words = asm.label_here();
        asm.copy(NET_TX, NET_RX);
        asm.add_immediate(S1, S1, -1);
        asm.branch(When::NotEqual, S1, ZERO, words);
        asm.csr_write(USER_COMMAND, S0);
        asm.jump(again);
    });
    elf(&with_host(asm.finish(&[]), HOST))
}

/// A description of nanoPU servers, and of a client.
fn description(text: serde_json::Value) -> Description {
    let server = nanopu_prototype().table();
    let mut description = serde_json::json!({
        "rack": {
            "servers": [{
                "count": 2, "program": "", "serves": true, "interface": "nanopu", "server": server,
            }],
            "clients": [{"load": {"offer": {"mode": "open", "rate_mrps": 1.0}}}],
            "switch": {},
        },
        "measure": {"requests": 300, "warmup": 50},
    });
    merge(&mut description, text);
    serde_json::from_value(description).expect("it is a description")
}

fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The result without the host's cost.
fn measured(description: &Description) -> serde_json::Value {
    let result = server::run(description, &[loops_back()], &Options::default(), |_| true)
        .expect("nothing goes wrong");
    let text = result.json().expect("it can be written");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("it can be read");
    let object = value.as_object_mut().expect("it is a table");
    object.retain(|name, _| !name.starts_with("host_"));
    value
}

#[test]
fn a_described_rack_answers_its_client() {
    let result = measured(&description(serde_json::json!({})));
    let client = &result["clients"][0];
    assert_eq!(client["address"], "10.0.0.3");
    let number = |value: &serde_json::Value| value.as_f64().expect("it is a number");
    let latency = &client["measurement"]["latency_ns"];
    // Two paths of 43 + 300 + 43 ns and a packet of 80 bytes, 3.2 ns. Between them are the
    // interface's MAC and serial I/O, 52 ns, its pipelines, some 10 ns, and a few dozen cycles of
    // program.
    let wires_ns = 2.0 * (386.0 + 3.2);
    let min_ns = number(&latency["p50"]) - wires_ns;
    assert!((60.0..140.0).contains(&min_ns), "{latency}");
    let servers = result["servers"].as_array().expect("there are servers");
    let received: f64 = servers
        .iter()
        .map(|server| number(&server["interface"]["messages_received"]))
        .sum();
    assert!(received >= 300.0, "{received}");
    let names: Vec<_> = servers
        .iter()
        .map(|server| server["name"].clone())
        .collect();
    assert_eq!(names, ["server 0", "server 1"]);
    // All sent packets are received, as nothing is dropped, except those in flight at the end.
    let packets = |of: &str| -> f64 {
        servers
            .iter()
            .map(|server| number(&server[of]["packets"]))
            .sum()
    };
    let forwarded: f64 = (0..2)
        .map(|port| number(&result["switch"]["ports"][port]["forwarded"]))
        .sum();
    assert!((packets("received") - forwarded).abs() < 1.0);
    assert!((number(&client["sent"]["packets"]) - forwarded).abs() <= 4.0);
}

#[test]
fn a_described_rack_is_the_same_in_windows_of_any_length_and_skipping() {
    let change = |lookahead: u64, skip: bool| {
        serde_json::json!({
            "rack": {
                "link": {"faults": {"lost": 0.02, "duplicated": 0.02, "reordered": 0.05}},
                "clients": [{"load": {"offer": {"mode": "open", "rate_mrps": 4.0}}, "begin_ns": 3000.0}],
            },
            "measure": {"requests": 100, "warmup": 0},
            "simulator": {"lookahead_cycles": lookahead, "skip_spinning": skip},
        })
    };
    let longest = measured(&description(change(0, true)));
    for (lookahead, skip) in [(0, false), (7, true), (50, false)] {
        let other = measured(&description(change(lookahead, skip)));
        assert_eq!(difference("", &other, &longest), None);
        assert!(other == longest, "with {lookahead} cycles, skipping {skip}");
    }
}

/// A run checks every microsecond whether all is done. A packet that arrives in the cycle before a
/// check is handled after it, and time advances.
#[test]
fn time_goes_on_when_packets_arrive_in_the_cycle_before_a_look() {
    // On a link of 43 ns with a packet of 80 bytes, 3.2 ns; a cycle takes 0.3125 ns.
    let begin_ns = 4000.0 - 0.15 - 3.2 - 43.0;
    let description = description(serde_json::json!({
        "rack": {
            "servers": [{
                "count": 1, "program": "", "serves": true, "interface": "nanopu",
                "server": nanopu_prototype().table(),
            }],
            "clients": [{
                "load": {"offer": {"mode": "simultaneous", "every_ns": 1000.0}}, "begin_ns": begin_ns,
            }],
            "switch": null,
        },
        "measure": {"requests": 100, "warmup": 0},
    }));
    let mut looks = 0;
    let result = server::run(&description, &[loops_back()], &Options::default(), |_| {
        looks += 1;
        looks < 1000
    });
    let result = result.expect("it comes to its end");
    let server::Outcome::Rack(result) = result else {
        panic!("it is a rack");
    };
    // The first answer arrives within the fifth microsecond, and the hundredth 99 later.
    assert_eq!(result.simulated_seconds, 104e-6);
}

/// The first key at which two results differ, with both values.
fn difference(key: &str, one: &serde_json::Value, other: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match (one, other) {
        (Value::Object(one), Value::Object(others)) => one
            .iter()
            .find_map(|(name, one)| difference(&format!("{key}.{name}"), one, others.get(name)?)),
        (Value::Array(one), Value::Array(others)) => one
            .iter()
            .zip(others)
            .enumerate()
            .find_map(|(place, (one, other))| difference(&format!("{key}.{place}"), one, other)),
        (one, other) => (one != other).then(|| format!("{key}: {one} and {other}")),
    }
}

#[test]
fn what_cannot_be_is_told_in_a_sentence() {
    let told = |text: serde_json::Value| {
        let result = server::run(
            &description(text),
            &[loops_back()],
            &Options::default(),
            |_| true,
        );
        result.expect_err("it cannot be").to_string()
    };
    use serde_json::json;
    assert_eq!(
        told(json!({"rack": {"switch": null}})),
        "rack.clients is a list with which there are 3 hosts; a link connects two; describe a \
         switch for more"
    );
    assert_eq!(
        told(json!({"rack": {"clients": []}})),
        "rack.clients is a list of 0; all servers serve, so that the run would never end; there \
         must be a client that measures, or a server whose program exits"
    );
    assert_eq!(
        told(json!({"rack": {"switch": {"buffer_bytes": 10}}})),
        "rack.switch.buffer_bytes is 10; it must be from 1088 to 1000000000"
    );
    let client = |change: serde_json::Value| {
        let mut client = json!({"load": {"offer": {"mode": "open", "rate_mrps": 1.0}}});
        merge(&mut client, change);
        told(json!({"rack": {"clients": [client]}}))
    };
    assert_eq!(
        client(json!({"servers": ["sever"]})),
        "rack.clients.0.servers is \"sever\"; the servers are [\"server\"]"
    );
    assert_eq!(
        client(json!({"load": {"transport": {"protocol": "homa"}}})),
        "rack.clients.0.load.transport.protocol is \"homa\"; that of server is \"ndp\""
    );
}
