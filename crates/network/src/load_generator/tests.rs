use super::spec::{OpeningSpec, one_kind};
use super::*;
use crate::rack::{LinkFaultSpec, LinkSpec, Network, NodeId, Switch, SwitchSpec};
use crate::transport::program::{ProgramSource, parsed};
use crate::transport::{Protocol, TransportSpec};
use serde_json::json;
use workload::{Arrivals, ServiceTimes, Warmup};

/// A server that serves requests in order, each for as many nanoseconds as its first word says.
#[derive(state::State)]
#[state(fields)]
struct Echo {
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    transport: Box<dyn Transport>,
    queue: VecDeque<Message>,
    free_at: Time,
    #[state(fixed)]
    actions: Vec<TransportAction>,
    seen: Vec<Message>,
}

const DONE: u64 = 1 << 63;

impl Echo {
    fn new(address: u32, spec: &TransportSpec, rate: LineRate) -> Echo {
        Echo {
            address,
            transport: spec.open(address, rate),
            queue: VecDeque::new(),
            free_at: Time::ZERO,
            actions: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn act(&mut self, context: &mut NodeContext<'_>) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                TransportAction::Wake(at, token) => context.wake(at, token),
                TransportAction::GiveUp(_, why) => panic!("{why}"),
                TransportAction::Deliver(message) => {
                    self.transport.taken(context.now(), &message);
                    let service = u64::from_be_bytes(message.payload[..8].try_into().unwrap());
                    self.free_at = self.free_at.max(context.now()) + Time::from_ns(service as f64);
                    context.wake(self.free_at, DONE);
                    self.seen.push(message.clone());
                    self.queue.push_back(message);
                }
            }
        }
        context.offer(0);
    }
}

impl Node for Echo {
    fn name(&self) -> String {
        "echo".to_string()
    }

    fn packet(&mut self, context: &mut NodeContext<'_>, _port: usize, packet: Packet) {
        self.transport
            .arrived(context.now(), packet, &mut self.actions);
        self.act(context);
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, token: u64) {
        if token & DONE == 0 {
            self.transport
                .timer(context.now(), token, &mut self.actions);
        } else {
            let request = self.queue.pop_front().unwrap();
            let response = Message {
                from: request.to,
                to: request.from,
                payload: request.payload[..request.payload.len().min(16)].to_vec(),
                tag: 0,
            };
            assert_eq!(response.from.address, self.address);
            let now = context.now();
            assert!(self.transport.send(now, response, &mut self.actions));
        }
        self.act(context);
    }

    fn next_packet(&mut self, context: &mut NodeContext<'_>, _port: usize) -> Option<Packet> {
        self.transport.next_packet(context.now())
    }
}

impl state::State for Echo {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.transport.walk(walker);
        self.walk_fields(walker);
    }
}

fn spec(offer: Offer) -> LoadGeneratorSpec {
    LoadGeneratorSpec {
        offer,
        opening: Vec::new(),
        requests: one_kind(),
        operations: None,
        stamped: true,
        ports: 1,
        destinations: None,
        max_requests: None,
        transport: TransportSpec {
            send_buffers: 1000,
            receive_buffers: 1000,
            ..TransportSpec::default()
        },
        send_latency_ns: 0.0,
        receive_latency_ns: 0.0,
    }
}

/// Load generators and servers around a switch.
struct Star {
    network: Network,
    generators: Vec<NodeId>,
    servers: Vec<NodeId>,
    switch: NodeId,
}

const SERVER: u32 = 0x0a00_0001;
const GENERATOR: u32 = 0x0a00_0101;

impl Star {
    fn new(
        specs: &[LoadGeneratorSpec],
        servers: u32,
        recorder: &Recorder,
        (switch, link): (&SwitchSpec, &LinkSpec),
    ) -> Star {
        let mut network = Network::new(1);
        let hosts = specs.len() + servers as usize;
        let generator = |number: usize| GENERATOR + number as u32;
        let addresses = (0..specs.len())
            .map(generator)
            .chain((0..servers).map(|server| SERVER + server));
        let switch = network.add_node(Box::new(Switch::new(
            switch,
            "switch".to_string(),
            hosts,
            addresses
                .enumerate()
                .map(|(port, address)| (address, port))
                .collect(),
        )));
        let mut add = |node: Box<dyn Node>| {
            let node = network.add_node(node);
            network.connect(node, switch, link);
            node
        };
        let mut generators = Vec::new();
        for (number, spec) in specs.iter().enumerate() {
            assert_eq!(spec.check(), Ok(()));
            let generator = LoadGenerator::new(
                format!("generator {number}"),
                spec.clone(),
                (generator(number), link.rate()),
                ((0..servers).map(|server| SERVER + server).collect(), true),
                recorder.clone(),
                number as u64,
                &Files::default(),
            );
            generators.push(add(Box::new(generator.unwrap())));
        }
        let transport = &TransportSpec {
            send_buffers: 1000,
            ..specs[0].transport.clone()
        };
        let servers = (0..servers)
            .map(|server| add(Box::new(Echo::new(SERVER + server, transport, link.rate()))))
            .collect();
        for &generator in &generators {
            network.wake(generator, Time::ZERO, LoadGenerator::BEGIN);
        }
        Star {
            network,
            generators,
            servers,
            switch,
        }
    }

    fn generator(&mut self, number: usize) -> &mut LoadGenerator {
        self.network.node_mut(self.generators[number]).unwrap()
    }

    /// Runs until all generators are done, and then until no event is left.
    fn run(&mut self) {
        while !(0..self.generators.len()).all(|number| self.generator(number).is_done()) {
            let next = self.network.next_event();
            assert_ne!(next, Time::NEVER, "nothing happens any more");
            self.network.run_until(next + Time::from_ns(1000.0));
        }
    }

    fn report(&mut self, number: usize) -> LoadGeneratorReport {
        self.generator(number).report()
    }
}

fn star(specs: &[LoadGeneratorSpec], servers: u32, recorder: &Recorder) -> Star {
    let network = (&SwitchSpec::default(), &LinkSpec::default());
    Star::new(specs, servers, recorder, network)
}

fn all(requests: u64) -> Recorder {
    Recorder::new(requests, Warmup::Requests(0))
}

/// A message of 16 bytes is a packet of 80, 3.2 ns at 200 Gb/s. Its path: 43 ns of link, 300 ns of
/// switch from the first bit, 3.2 ns, and 43 ns: 389.2 ns.
const ONE_WAY_NS: f64 = 389.2;

#[test]
fn a_response_takes_the_way_there_and_back() {
    let mut spec = spec(Offer::Closed {
        clients: 1,
        think_ns: 100.0,
    });
    spec.requests[0].service = 1000.0;
    spec.send_latency_ns = 20.0;
    spec.receive_latency_ns = 30.0;
    spec.max_requests = Some(50);
    for protocol in [Protocol::Ndp, Protocol::Homa, Protocol::Datagrams] {
        spec.transport.protocol = protocol;
        let mut star = star(&[spec.clone()], 1, &all(100));
        star.run();
        let report = star.report(0);
        let latency = report.measurement.unwrap().latency_ns;
        assert_eq!(latency.samples, 50);
        let expected = 2.0 * ONE_WAY_NS + 1000.0 + 20.0 + 30.0;
        assert!((latency.mean - expected).abs() < 1e-3, "{latency:?}");
        assert!((latency.max - expected).abs() < 1e-3, "{latency:?}");
        let LoadGeneratorStatistics {
            requests,
            responses,
            max_under_way,
            given_up,
            unexpected,
            waits,
            ..
        } = report.statistics;
        assert_eq!((requests, responses, max_under_way), (50, 50, 1));
        assert_eq!((given_up, unexpected, waits), (0, 0, 0));
        assert_eq!(report.by_kind["request"].latency_ns, latency);
    }
}

/// An M/D/1 queue behind a network: the Pollaczek-Khinchine formula.
#[test]
fn an_open_loop_is_what_queueing_theory_says() {
    let mut spec = spec(Offer::Open {
        arrivals: Arrivals::Poisson,
        rate_mrps: 0.7,
        burst_length: 1.0,
    });
    spec.requests[0].service = 1000.0;
    let mut star = star(&[spec], 1, &Recorder::new(40_000, Warmup::Requests(500)));
    star.run();
    let measurement = star.report(0).measurement.unwrap();
    let wait = 1000.0 * 0.7 / (2.0 * 0.3);
    let expected = 2.0 * ONE_WAY_NS + 1000.0 + wait;
    let [low, high] = measurement.latency_ns.mean_ci95.unwrap();
    // Acknowledgements and other requests on the links are a few nanoseconds.
    assert!(
        low < expected + 5.0 && expected < high,
        "{low} {expected} {high}"
    );
    let [low, high] = measurement.throughput_mrps_ci95.unwrap();
    assert!(low < 0.7 && 0.7 < high, "{low} {high}");
}

/// Eighty hosts send a message of one packet to one host at the same time, through a switch with
/// room for fifteen of them: nanoPU's incast (Section 5.2.3).
#[test]
fn trimming_ends_an_incast_without_timeouts() {
    let mut spec = spec(Offer::Simultaneous {
        requests_per_burst: 1,
        every_ns: 1e6,
    });
    spec.requests[0].bytes = 1024;
    spec.max_requests = Some(1);
    let longest = |trimming: bool| {
        let switch = SwitchSpec {
            buffer_bytes: 16 * 1024,
            trimming,
            ..SwitchSpec::default()
        };
        let specs = vec![spec.clone(); 80];
        let mut star = Star::new(&specs, 1, &all(10), (&switch, &LinkSpec::default()));
        star.run();
        let reports: Vec<_> = (0..80).map(|number| star.report(number)).collect();
        let timeouts: u64 = reports.iter().map(|report| report.transport.timeouts).sum();
        assert_eq!(timeouts == 0, trimming);
        let switch: &mut Switch = star.network.node_mut(star.switch).unwrap();
        let lost: u64 = switch.port_counts().map(|port| port.dropped).sum();
        assert_eq!(lost == 0, trimming);
        reports
            .iter()
            .map(|report| report.measurement.as_ref().unwrap().latency_ns.max)
            .fold(0.0, f64::max)
    };
    // Trimmed packets are pulled behind the others without a gap: 80 packets of 43.52 ns on the
    // last link, and less than three one-way latencies around them.
    let with = longest(true);
    assert!(
        with > 80.0 * 43.52 && with < 80.0 * 43.52 + 3.0 * 450.0,
        "{with}"
    );
    let without = longest(false);
    assert!(without > 9375.0, "{without}");
    assert!(without / with > 2.0, "{without} {with}");
}

/// On links that lose, duplicate and reorder packets each request is answered once.
#[test]
fn every_request_is_answered_once_on_bad_links() {
    let link = LinkSpec {
        faults: LinkFaultSpec {
            lost: 0.02,
            duplicated: 0.1,
            reordered: 0.2,
            ..LinkFaultSpec::default()
        },
        ..LinkSpec::default()
    };
    for protocol in [Protocol::Ndp, Protocol::Homa] {
        let mut spec = spec(Offer::Closed {
            clients: 10,
            think_ns: 0.0,
        });
        spec.requests[0].bytes = 1500;
        spec.max_requests = Some(1000);
        spec.transport.protocol = protocol;
        let specs = [spec.clone(), spec];
        let mut star = Star::new(&specs, 2, &all(2000), (&SwitchSpec::default(), &link));
        star.run();
        let mut seen = 0;
        for server in star.servers.clone() {
            let server: &mut Echo = star.network.node_mut(server).unwrap();
            seen += server.seen.len();
        }
        assert_eq!(seen, 2000);
        for number in 0..2 {
            let statistics = star.report(number).statistics;
            assert_eq!((statistics.requests, statistics.responses), (1000, 1000));
            assert_eq!((statistics.given_up, statistics.unexpected), (0, 0));
        }
    }
}

/// Kinds are as frequent as their weights say, with the described words and ports.
#[test]
fn requests_are_as_described() {
    let mut spec = spec(Offer::Open {
        arrivals: Arrivals::Fixed,
        rate_mrps: 5.0,
        burst_length: 1.0,
    });
    spec.max_requests = Some(10_000);
    let short = RequestSpec {
        name: "short".to_string(),
        weight: 3.0,
        port: 7,
        bytes: 100,
        words: vec![
            Word::Constant(5),
            Word::Uniform { min: 2, max: 4 },
            Word::Zipf {
                zipf_min: 1,
                zipf_items: 100,
                zipf_exponent: 1.0,
            },
        ],
        ..RequestSpec::default()
    };
    let long = RequestSpec {
        name: "long".to_string(),
        port: 8,
        service: 50.0,
        service_times: ServiceTimes::Exponential,
        ..RequestSpec::default()
    };
    spec.requests = vec![short, long];
    spec.ports = 4;
    let mut star = star(&[spec], 1, &all(100_000));
    star.run();
    let report = star.report(0);
    let server: &mut Echo = star.network.node_mut(star.servers[0]).unwrap();
    let word = |message: &Message, place: usize| {
        u64::from_be_bytes(message.payload[place * 8..][..8].try_into().unwrap())
    };
    let mut ports = [0; 4];
    for message in &server.seen {
        ports[usize::from(message.from.port)] += 1;
    }
    // Four standard deviations of 10,000 x 1/4 x 3/4 are 173.
    assert!(
        ports.iter().all(|count| (2327..2673).contains(count)),
        "{ports:?}"
    );
    let (short, long): (Vec<_>, Vec<_>) =
        server.seen.iter().partition(|message| message.to.port == 7);
    assert_eq!(short.len() + long.len(), 10_000);
    // Four standard deviations of 10,000 x 3/4 x 1/4 are 173.
    assert!((7327..7673).contains(&short.len()), "{}", short.len());
    let mut counts = [0; 5];
    let mut first = 0;
    for message in &short {
        assert_eq!(message.payload.len(), 100);
        assert_eq!((word(message, 0), word(message, 2)), (0, 5));
        counts[word(message, 3) as usize] += 1;
        first += u32::from(word(message, 4) == 1);
        assert!((1..=100).contains(&word(message, 4)));
        assert_eq!(message.payload[40..], [0; 60]);
    }
    assert_eq!(counts[..2], [0, 0]);
    assert!(counts[2..].iter().all(|&count| count > 2300), "{counts:?}");
    // The first of 100 has 1 / H(100) = 0.193 of them: 1446, give or take 137.
    assert!((1309..1583).contains(&first), "{first}");
    let mean = long.iter().map(|&message| word(message, 0)).sum::<u64>() as f64 / long.len() as f64;
    // Four standard errors of 2500 exponential numbers are 4.
    assert!((mean - 50.0).abs() < 4.0, "{mean}");
    assert!(long.iter().all(|message| message.payload.len() == 16));
    // They were sent 200 ns apart.
    assert_eq!(
        word(&server.seen[1], 1) - word(&server.seen[0], 1),
        200_000_000
    );
    assert_eq!(
        report.by_kind["short"].latency_ns.samples,
        short.len() as u64
    );
    assert_eq!(report.by_kind["long"].latency_ns.samples, long.len() as u64);
}

/// Requests that have only their program's words: one of 8 bytes, which the server interprets as a
/// service time. Responses are matched by their order.
#[test]
fn requests_need_not_be_stamped() {
    let mut spec = spec(Offer::Simultaneous {
        requests_per_burst: 3,
        every_ns: 1000.0,
    });
    spec.stamped = false;
    spec.requests[0].words = vec![Word::Constant(100)];
    let mut star = star(&[spec], 1, &all(30));
    star.run();
    let measured = star.report(0).measurement.unwrap();
    let server: &mut Echo = star.network.node_mut(star.servers[0]).unwrap();
    let payload = 100u64.to_be_bytes();
    assert!(server.seen.iter().all(|message| message.payload == payload));
    // 43 + 300 + 43 ns in each direction, and 2.88 ns for the 72 bytes at 200 Gb/s; each request
    // waits for those before it.
    let ways_ns = 2.0 * (386.0 + 2.88);
    let latency = &measured.latency_ns;
    assert!((latency.mean - ways_ns - 200.0).abs() < 1.0, "{latency:?}");
    assert!((latency.max - ways_ns - 300.0).abs() < 2.0, "{latency:?}");
}

/// Words of a trace follow the others, and all rows are equally likely.
#[test]
fn requests_are_taken_from_a_trace() {
    let mut spec = spec(Offer::Open {
        arrivals: Arrivals::Fixed,
        rate_mrps: 2.0,
        burst_length: 1.0,
    });
    spec.requests[0].words = vec![Word::Constant(7)];
    spec.requests[0].rows = vec![vec![1, 10], vec![2, 20], vec![3, 30]];
    let mut star = star(&[spec], 1, &all(3000));
    star.run();
    let server: &mut Echo = star.network.node_mut(star.servers[0]).unwrap();
    let mut counts = [0; 3];
    for message in &server.seen {
        let words: Vec<u64> = message
            .payload
            .chunks(8)
            .map(|word| u64::from_be_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!((words.len(), words[2], words[4]), (5, 7, 10 * words[3]));
        counts[words[3] as usize - 1] += 1;
    }
    // Four standard deviations of 3000 x 1/3 x 2/3 are 103.
    assert!(
        counts.iter().all(|count| (897..1103).contains(count)),
        "{counts:?}"
    );
}

/// Each server receives its opening before the first request, and its answer is not measured.
#[test]
fn the_opening_comes_before_all_requests() {
    let mut spec = spec(Offer::Closed {
        clients: 1,
        think_ns: 100.0,
    });
    spec.stamped = false;
    spec.max_requests = Some(40);
    spec.requests[0].words = vec![Word::Constant(50)];
    let message = |word, then_ns| OpeningSpec {
        port: 3,
        words: vec![word, 9],
        then_ns,
    };
    spec.opening = vec![message(1, 500.0), message(2, 5000.0)];
    for protocol in [Protocol::Ndp, Protocol::Homa, Protocol::Datagrams] {
        spec.transport.protocol = protocol;
        let mut star = star(&[spec.clone()], 2, &all(100));
        star.run();
        let report = star.report(0);
        let counted = report.statistics;
        assert_eq!((counted.requests, counted.unexpected), (40, 0));
        // 72 bytes at 200 Gb/s take 2.88 ns, beside the latency and the service of 50 ns.
        let latency = report.measurement.unwrap().latency_ns;
        let expected = 2.0 * (386.0 + 2.88) + 50.0;
        assert!((latency.mean - expected).abs() < 1e-3, "{latency:?}");
        let mut requests = 0;
        for place in 0..2 {
            let server: &mut Echo = star.network.node_mut(star.servers[place]).unwrap();
            let first: Vec<u64> = server
                .seen
                .iter()
                .map(|message| u64::from_be_bytes(message.payload[..8].try_into().unwrap()))
                .collect();
            assert_eq!(first[..2], [1, 2]);
            assert!(first[2..].iter().all(|&word| word == 50));
            assert_eq!(server.seen[0].to.port, 3);
            requests += first.len() - 2;
        }
        assert_eq!(requests, 40);
    }
}

/// A generator is done when it has the requested number of samples after the warm-up.
#[test]
fn the_warm_up_is_not_what_is_wanted() {
    let closed = Offer::Closed {
        clients: 1,
        think_ns: 0.0,
    };
    let mut star = star(
        &[spec(closed)],
        1,
        &Recorder::new(100, Warmup::Requests(100)),
    );
    while star.generator(0).progress() < 1.0 {
        let next = star.network.next_event();
        star.network.run_until(next + Time::from_ns(1000.0));
    }
    assert!(star.generator(0).is_done());
    let measured = star.report(0).measurement.unwrap();
    assert_eq!(
        (measured.warmup_samples, measured.latency_ns.samples),
        (100, 100)
    );
}

/// Requests that exceed the transport's buffers wait, and none is lost.
#[test]
fn what_finds_no_room_waits() {
    for protocol in [Protocol::Ndp, Protocol::Homa, Protocol::Datagrams] {
        let mut spec = spec(Offer::Simultaneous {
            requests_per_burst: 100,
            every_ns: 1e9,
        });
        spec.max_requests = Some(100);
        spec.transport.protocol = protocol;
        spec.transport.send_buffers = 4;
        let mut star = star(&[spec], 1, &all(1000));
        // The server answers immediately and in order.
        star.run();
        let statistics = star.report(0).statistics;
        assert_eq!((statistics.responses, statistics.max_under_way), (100, 100));
        assert_eq!(statistics.waits, 96, "{protocol:?}");
    }
}

/// A run whose state is written and read into another network continues identically.
#[test]
fn a_run_goes_on_where_another_was() {
    let mut specs = [
        spec(Offer::Open {
            arrivals: Arrivals::Bursty,
            rate_mrps: 2.0,
            burst_length: 3.0,
        }),
        spec(Offer::Closed {
            clients: 3,
            think_ns: 500.0,
        }),
    ];
    for spec in &mut specs {
        spec.requests[0].service = 200.0;
        spec.requests[0].service_times = ServiceTimes::Exponential;
        spec.max_requests = Some(200);
        spec.send_latency_ns = 50.0;
        spec.opening = vec![OpeningSpec {
            port: 0,
            words: vec![5],
            then_ns: 20_000.0,
        }];
        spec.opening.push(spec.opening[0].clone());
    }
    let build = || star(&specs, 2, &all(1000));
    let mut whole = build();
    whole.run();
    let mut first = build();
    first.network.run_until(Time::from_ns(30_000.0));
    let bytes = state::Writer::write(&mut first.network).unwrap();
    let mut second = build();
    state::Reader::read(&mut second.network, &bytes).unwrap();
    assert!(!second.generator(0).is_done());
    second.run();
    for number in 0..2 {
        assert_eq!(second.report(number), whole.report(number));
        assert_eq!(second.generator(number).progress(), 1.0);
    }
}

#[test]
fn wrong_descriptions_get_a_sentence() {
    let good = spec(Offer::Closed {
        clients: 1,
        think_ns: 0.0,
    });
    assert_eq!(good.check(), Ok(()));
    type Change = fn(&mut LoadGeneratorSpec);
    let wrong: [(&str, Change); 7] = [
        (
            "requests.1.name is \"request\"; each kind must have a name of its own",
            |spec| spec.requests.push(RequestSpec::default()),
        ),
        (
            "requests.*.weight is 0; at least one weight must be above 0",
            |spec| spec.requests[0].weight = 0.0,
        ),
        (
            "requests.0.bytes is 2049; with its words the message must have at most \
             transport.largest_message_bytes, 2048",
            |spec| spec.requests[0].bytes = 2049,
        ),
        (
            "requests.0.bytes is 0; a message without words must have at least 1",
            |spec| spec.stamped = false,
        ),
        (
            "requests.0.words.0.min is 3; it must be max, 2, or less",
            |spec| spec.requests[0].words = vec![Word::Uniform { min: 3, max: 2 }],
        ),
        (
            "requests.0.rows is from 1 to 2 words; all rows must have as many words, and at least \
             one",
            |spec| spec.requests[0].rows = vec![vec![1], vec![1, 2]],
        ),
        (
            "opening.0.words is a list of 257; there must be from 1 to 256, so that they are a \
             message of at most transport.largest_message_bytes",
            |spec| {
                spec.opening = vec![OpeningSpec {
                    port: 0,
                    words: vec![0; 257],
                    then_ns: 0.0,
                }]
            },
        ),
    ];
    for (sentence, change) in wrong {
        let mut spec = good.clone();
        change(&mut spec);
        assert_eq!(spec.check().unwrap_err().to_string(), sentence);
    }
}

#[test]
fn descriptions_are_written_as_tables() {
    let open = json!({"mode": "open", "rate_mrps": 0.5});
    let words = json!([1, {"min": 0, "max": 9}]);
    let table = json!({
        "offer": open, "requests": [{"name": "read", "port": 2, "words": words}],
    });
    let spec: LoadGeneratorSpec = serde_json::from_value(table).unwrap();
    assert_eq!(
        spec.requests[0].words,
        [Word::Constant(1), Word::Uniform { min: 0, max: 9 }]
    );
    assert_eq!(spec.transport, TransportSpec::default());
    let table = json!({"offer": open, "request": []});
    let error = serde_json::from_value::<LoadGeneratorSpec>(table);
    assert!(error.unwrap_err().to_string().contains("request"));
    for wrong in [
        json!({"min": 0, "max": 9, "zipf_items": 3}),
        json!(-1),
        json!({"max": 9}),
    ] {
        let word = serde_json::from_value::<Word>(wrong.clone());
        assert!(word.is_err(), "{wrong}");
    }
}

/// The first two of four requests have been answered, and so has the one made at 40 ns; the others
/// are outstanding.
#[test]
fn messages_that_answer_nothing_are_told_apart() {
    let offer = Offer::Closed {
        clients: 1,
        think_ns: 0.0,
    };
    let mut generator = LoadGenerator::new(
        "client".to_string(),
        spec(offer),
        (GENERATOR, LinkSpec::default().rate()),
        (vec![SERVER], true),
        all(1),
        1,
        &Files::default(),
    )
    .unwrap();
    let request = |at_ns, is_over| Request {
        sent_at: Time::from_ns(at_ns),
        server: SERVER,
        kind: 0,
        under_way: 1,
        is_over,
        ..Request::default()
    };
    let requests = [
        request(30.0, false),
        request(40.0, true),
        request(50.0, false),
    ];
    generator.requests = requests.into();
    generator.first_request = 2;
    generator.made_between = Some((Time::from_ns(10.0), Time::from_ns(50.0)));
    let find = |generator: &LoadGenerator, address, port, words: &[u64]| {
        let found = generator.find(&Message {
            from: Endpoint { address, port },
            to: Endpoint {
                address: GENERATOR,
                port: 5,
            },
            payload: words.iter().flat_map(|word| word.to_be_bytes()).collect(),
            tag: 0,
        });
        found.map_err(|reason| {
            let mut counted = UnexpectedMessages::default();
            *reason(&mut counted) += 1;
            counted.describe()
        })
    };
    let at = |at_ns| [7, Time::from_ns(at_ns).as_fs()];
    for (at_ns, place) in [(30.0, 0), (50.0, 2)] {
        assert_eq!(find(&generator, SERVER, 0, &at(at_ns)), Ok(place));
    }
    for (address, port, words, reason) in [
        (SERVER, 0, vec![7], "1 shorter than the 16 bytes"),
        // Before the first, between two, and after the last one.
        (SERVER, 0, vec![7, 0], "1 with a second word"),
        (SERVER, 0, at(35.0).to_vec(), "1 with a second word"),
        (SERVER, 0, at(60.0).to_vec(), "1 with a second word"),
        (SERVER, 0, at(20.0).to_vec(), "1 to requests that had been"),
        (SERVER, 0, at(40.0).to_vec(), "1 to requests that had been"),
        (SERVER + 1, 0, at(30.0).to_vec(), "1 from a server that"),
        (SERVER, 9, at(30.0).to_vec(), "1 from another port"),
    ] {
        let found = find(&generator, address, port, &words).unwrap_err();
        assert!(found.starts_with(reason), "{found}, not {reason}");
    }
    generator.spec.stamped = false;
    assert_eq!(find(&generator, SERVER, 0, &[]), Ok(0));
    let found = find(&generator, SERVER + 1, 0, &[]).unwrap_err();
    assert!(found.starts_with("1 from a server that"), "{found}");
    generator.requests.clear();
    let found = find(&generator, SERVER, 0, &[]).unwrap_err();
    assert_eq!(found, "1 when no request was outstanding");
}

/// Forwards each packet unchanged through its other port, after 100 ns.
#[derive(Default)]
struct Forwarder {
    kept: VecDeque<Packet>,
    /// IPv4 destinations that it has seen.
    seen: Vec<u32>,
}

state::unsaved!(Forwarder);

impl Node for Forwarder {
    fn name(&self) -> String {
        "forwarder".to_string()
    }

    fn packet(&mut self, context: &mut NodeContext<'_>, port: usize, packet: Packet) {
        assert_eq!(port, 0);
        self.seen.push(packet.ipv4_destination());
        self.kept.push_back(packet);
        context.wake(context.now() + Time::from_ns(100.0), 0);
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, _token: u64) {
        context.offer(1);
    }

    fn next_packet(&mut self, _: &mut NodeContext<'_>, _port: usize) -> Option<Packet> {
        self.kept.pop_front()
    }
}

/// Two links of 100 Gb/s with 10 ns, and 24 bytes around each packet of 80: 8.32 ns. The packet
/// returns unchanged from the other port.
#[test]
fn a_packet_that_is_forwarded_as_it_is_is_an_answer() {
    let link = LinkSpec {
        rate_gbit_per_s: 100.0,
        latency_ns: 10.0,
        overhead_bytes: 24,
        ..LinkSpec::default()
    };
    let mut spec = spec(Offer::Closed {
        clients: 1,
        think_ns: 0.0,
    });
    spec.transport.protocol = Protocol::Datagrams;
    spec.max_requests = Some(200);
    let span = AddressSpan {
        first: [198, 18, 0, 0].into(),
        last: [198, 18, 0, 7].into(),
    };
    spec.destinations = Some(span);
    let mut network = Network::new(1);
    let (name, end) = ("generator".to_string(), (GENERATOR, link.rate()));
    let (servers, files) = ((vec![SERVER], true), Files::default());
    let generator = LoadGenerator::new(name, spec, end, servers, all(200), 1, &files).unwrap();
    let generator = network.add_node(Box::new(generator));
    let forwarder = network.add_node(Box::new(Forwarder::default()));
    for _ in 0..2 {
        network.connect(generator, forwarder, &link);
    }
    network.wake(generator, Time::ZERO, LoadGenerator::BEGIN);
    network.run_until(Time::from_ns(100_000.0));
    let node: &LoadGenerator = network.node(generator).unwrap();
    let latency = node.report().measurement.unwrap().latency_ns;
    assert_eq!(latency.samples, 200);
    let expected = 2.0 * (8.32 + 10.0) + 100.0;
    assert!((latency.max - expected).abs() < 1e-3, "{latency:?}");
    assert!((latency.mean - expected).abs() < 1e-3, "{latency:?}");
    let node: &Forwarder = network.node(forwarder).unwrap();
    // Each of the eight is absent with a probability of (7/8)^200, 3e-12.
    let seen: std::collections::BTreeSet<u32> = node.seen.iter().copied().collect();
    let first = u32::from(span.first);
    assert_eq!(seen, (first..first + 8).collect());
}

#[test]
fn a_span_of_destinations_that_ends_before_it_begins_is_told() {
    let mut spec = spec(Offer::Closed {
        clients: 1,
        think_ns: 0.0,
    });
    spec.destinations = Some(AddressSpan {
        first: [10, 0, 0, 2].into(),
        last: [10, 0, 0, 1].into(),
    });
    assert_eq!(
        spec.check().unwrap_err().to_string(),
        "destinations.last is 10.0.0.1; it must be destinations.first, 10.0.0.2, or more"
    );
}

/// The shortest and longest queue with DCTCP, in packets, while `flows` long messages share a link,
/// and the utilisation of the link.
fn dctcp_queue(flows: usize, threshold: u64) -> (f64, f64, f64) {
    let program = include_str!("../../../../examples/dctcp.toml");
    let mut spec = spec(Offer::Simultaneous {
        requests_per_burst: 1,
        every_ns: 1e9,
    });
    spec.requests[0].bytes = 4 << 20;
    spec.max_requests = Some(1);
    spec.transport = TransportSpec {
        program: Some(ProgramSource::Program(Box::new(parsed(program)))),
        largest_message_bytes: 4 << 20,
        rtt_packets: (BANDWIDTH_DELAY / flows as f64) as u32,
        timeout_ns: 1e6,
        ..TransportSpec::default()
    };
    let switch = SwitchSpec {
        buffer_bytes: 1 << 20,
        ecn_threshold_bytes: Some(threshold * PACKET),
        ..SwitchSpec::default()
    };
    let link = LinkSpec {
        latency_ns: 1000.0,
        ..LinkSpec::default()
    };
    let mut star = Star::new(&vec![spec; flows], 1, &all(1), (&switch, &link));
    // Estimates converge within some tens of round trips. Each message has 4096 packets, and each
    // flow an equal share of the link.
    let whole = 4096.0 * flows as f64 * PACKET_NS;
    let (begin, end, step) = (0.4 * whole, 0.8 * whole, 50.0);
    let mut lengths = Vec::new();
    let mut forwarded = Vec::new();
    let mut now = begin;
    while now < end {
        star.network.run_until(Time::from_ns(now));
        let switch: &mut Switch = star.network.node_mut(star.switch).unwrap();
        let bytes = switch.queued_bytes().nth(flows).unwrap();
        lengths.push(bytes as f64 / PACKET as f64);
        let counts = switch.port_counts().nth(flows).unwrap();
        assert_eq!(counts.dropped, 0);
        forwarded.push(counts.forwarded);
        now += step;
    }
    let sent = forwarded[forwarded.len() - 1] - forwarded[0];
    let used = sent as f64 * PACKET_NS / (step * (lengths.len() - 1) as f64);
    let shortest = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = lengths.iter().copied().fold(0.0, f64::max);
    (shortest, longest, used)
}

/// Bytes of a full packet, and its time at 200 Gb/s.
const PACKET: u64 = 1088;
const PACKET_NS: f64 = 43.52;
/// C × RTT in packets: a packet and its answer take four links of 1000 ns and the switch twice.
const BANDWIDTH_DELAY: f64 = (4.0 * 1000.0 + 2.0 * 300.0 + 43.52 + 2.56) / PACKET_NS;

/// DCTCP's law (Alizadeh et al., SIGCOMM 2010, Section 3.3): the queue of N long flows is at most
/// K + N packets, and a link with K > C × RTT / 7, which is 15.3 packets here, is never idle.
///
/// Windows are rounded to whole packets, which costs 8 flows with windows of 16 packets less than
/// 1 % of the link.
#[test]
fn dctcp_keeps_its_queue_near_the_threshold() {
    for flows in [2, 4, 8] {
        for threshold in [20, 40] {
            let (shortest, longest, used) = dctcp_queue(flows, threshold);
            let most = (threshold as usize + flows) as f64;
            assert!(
                (longest - most).abs() <= 2.0,
                "{flows} {threshold}: {longest}"
            );
            assert!(
                shortest < threshold as f64 && used > 0.99,
                "{flows} {threshold}: {used}"
            );
        }
        // Below the law's threshold, windows shrink when the queue is almost empty.
        let (_, longest, used) = dctcp_queue(flows, 2);
        assert!(
            (longest - (2 + flows) as f64).abs() <= 2.0,
            "{flows}: {longest}"
        );
        assert!(used < 0.95, "{flows}: {used}");
    }
}
