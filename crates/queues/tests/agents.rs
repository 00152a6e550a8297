//! The I/O source and the tenants on a real fabric, with a scripted data plane between them.

use fabric::{
    AddressRange, Agent, AgentContext, AgentId, Attachment, CacheSpec, CoreId, Fabric, FabricSpec,
    Inbox, LINE_BYTES, LineData, MemoryAccess, Observation, Outbox, OutgoingKind, Ram, RequestKind,
    Time, Transit,
};
use queues::{
    ArrivalTimer, IoSetup, IoSource, Ledger, ProgramSettings, RingsAtStart, SharedLedger,
    TenantSide,
};
use std::cell::RefCell;
use std::rc::Rc;
use workload::{Files, Measurement, Random, Recorder, Stream, TrafficSpec, Warmup, checksum};

const LINE: u64 = LINE_BYTES as u64;
const REGISTERS: u64 = 0x1000_0000;
const TENANT_REGISTERS: u64 = 0x1010_0000;
const DOORBELLS: u64 = 0x6000_0000;
const TENANT_DOORBELLS: u64 = 0x6800_0000;
const TABLE: u64 = 0x8000_0000;
const RINGS: u64 = 0x8010_0000;

/// Rings of tenant doorbells, as a server's cores would report them.
type Rings = Rc<RefCell<Vec<(Time, u64)>>>;

#[derive(Clone, Copy)]
enum Step {
    Poll,
    Take,
    ReadSlot,
    Serve,
    CheckRoom,
    WriteSlot,
    Ring,
}

/// A data plane that makes one access, or one group of accesses, after the other.
struct Relay {
    setup: IoSetup,
    service: Time,
    rings: Rings,
    step: Step,
    queue: u32,
    next_slot: Vec<u32>,
    next_tenant_slot: Vec<u32>,
    slot: Vec<u8>,
    accesses_left: usize,
    /// The item, by number, about which it makes an error.
    liar: Option<u64>,
    items: u64,
}

impl Relay {
    fn new(setup: IoSetup, service: Time, rings: Rings) -> Relay {
        Relay {
            setup,
            service,
            rings,
            step: Step::Poll,
            queue: 0,
            next_slot: vec![0; setup.queues as usize],
            next_tenant_slot: vec![0; setup.queues as usize],
            slot: vec![0; setup.slot_bytes as usize],
            accesses_left: 0,
            liar: None,
            items: 0,
        }
    }

    fn ring(&self, is_tenant: bool) -> u64 {
        let next = if is_tenant {
            &self.next_tenant_slot
        } else {
            &self.next_slot
        };
        ring_address(&self.setup, self.queue, is_tenant)
            + u64::from(next[self.queue as usize]) * u64::from(self.setup.slot_bytes)
    }

    fn begin(&mut self, context: &mut AgentContext<'_>, step: Step) {
        self.step = step;
        self.accesses_left = 1;
        let doorbell = DOORBELLS + u64::from(self.queue) * LINE;
        let tenant_doorbell = TENANT_DOORBELLS + u64::from(self.queue) * LINE;
        let lines = self.slot.len() / LINE_BYTES;
        match step {
            Step::Poll => context.access(MemoryAccess::Read { address: doorbell }, 0),
            Step::Take => context.access(
                MemoryAccess::FetchAdd {
                    address: doorbell,
                    addend: 1u64.wrapping_neg(),
                },
                0,
            ),
            Step::ReadSlot => {
                self.accesses_left = lines;
                for line in 0..lines as u64 {
                    let address = self.ring(false) + line * LINE;
                    context.access(MemoryAccess::Read { address }, line);
                }
            }
            Step::Serve => context.wake(context.now() + self.service, 0),
            Step::CheckRoom => {
                context.access(
                    MemoryAccess::Read {
                        address: tenant_doorbell,
                    },
                    0,
                );
            }
            Step::WriteSlot => {
                self.accesses_left = lines;
                self.items += 1;
                if self.liar == Some(self.items) {
                    self.slot[8] ^= 1;
                }
                for line in 0..lines {
                    let mut data = LineData::ZERO;
                    data.0
                        .copy_from_slice(&self.slot[line * LINE_BYTES..][..LINE_BYTES]);
                    context.access(
                        MemoryAccess::Write {
                            address: self.ring(true) + line as u64 * LINE,
                            bytes: 64,
                            data,
                        },
                        0,
                    );
                }
            }
            Step::Ring => context.access(
                MemoryAccess::FetchAdd {
                    address: tenant_doorbell,
                    addend: 1,
                },
                0,
            ),
        }
    }

    fn next_queue(&mut self, context: &mut AgentContext<'_>) {
        self.queue = (self.queue + 1) % self.setup.queues;
        self.begin(context, Step::Poll);
    }
}

state::unsaved!(Relay);

impl Agent for Relay {
    fn name(&self) -> String {
        "relay".to_string()
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let count = data.read(0, 8);
        if matches!(self.step, Step::ReadSlot) {
            self.slot[token as usize * LINE_BYTES..][..LINE_BYTES].copy_from_slice(&data.0);
        }
        self.accesses_left -= 1;
        if self.accesses_left > 0 {
            return;
        }
        let number = self.queue as usize;
        match self.step {
            Step::Poll if count == 0 => self.next_queue(context),
            Step::Poll => self.begin(context, Step::Take),
            Step::Take => {
                assert!(count > 0 && count < u64::from(self.setup.queue_capacity));
                self.begin(context, Step::ReadSlot);
            }
            Step::ReadSlot => {
                self.next_slot[number] = (self.next_slot[number] + 1) % self.setup.queue_capacity;
                self.begin(context, Step::Serve);
            }
            Step::Serve => {}
            Step::CheckRoom if count < u64::from(self.setup.queue_capacity) => {
                self.begin(context, Step::WriteSlot);
            }
            Step::CheckRoom => self.begin(context, Step::CheckRoom),
            Step::WriteSlot => self.begin(context, Step::Ring),
            Step::Ring => {
                let address = TENANT_DOORBELLS + u64::from(self.queue) * LINE;
                self.rings.borrow_mut().push((context.now(), address));
                self.next_tenant_slot[number] =
                    (self.next_tenant_slot[number] + 1) % self.setup.queue_capacity;
                self.next_queue(context);
            }
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        match self.step {
            Step::Serve => self.begin(context, Step::CheckRoom),
            _ => self.begin(context, Step::Poll),
        }
    }
}

fn ring_address(setup: &IoSetup, queue: u32, is_tenant: bool) -> u64 {
    let ring_bytes = u64::from(setup.queue_capacity) * u64::from(setup.slot_bytes);
    RINGS + (2 * u64::from(queue) + u64::from(is_tenant)) * ring_bytes
}

struct Server {
    fabric: Fabric,
    inboxes: Vec<Inbox>,
    ledger: SharedLedger,
    source: AgentId,
    tenants: AgentId,
    relay: AgentId,
    rings: Rings,
    now: Time,
    /// The order of the two events when a tenant takes an item must not matter.
    step: Time,
}

impl Server {
    fn new(traffic: &TrafficSpec, queues: u32, service_ns: f64, requests: u64) -> Server {
        Server::with_rings(RingsAtStart::New, traffic, queues, service_ns, requests)
    }

    fn with_rings(
        rings_at_start: RingsAtStart,
        traffic: &TrafficSpec,
        queues: u32,
        service_ns: f64,
        requests: u64,
    ) -> Server {
        traffic.check().unwrap();
        let range = |start| AddressRange {
            start,
            length: u64::from(queues) * LINE,
        };
        let setup = IoSetup {
            second_socket: None,
            registers: AddressRange {
                start: REGISTERS,
                length: 4096,
            },
            tenant_registers: TENANT_REGISTERS,
            queues,
            queue_capacity: traffic.queue_capacity,
            slot_bytes: traffic.slot_bytes(),
            packet_bytes: traffic.packet_bytes,
            ring_slots: traffic.queue_capacity,
            data_plane_cores: 1,
            cluster_cores: 1,
            batch: 1,
            in_order: true,
            notify: 0,
            policy: 0,
            doorbells: range(DOORBELLS),
            tenant_doorbells: range(TENANT_DOORBELLS),
            consumers: AddressRange::default(),
        };
        let ram = Ram::new(vec![
            range(DOORBELLS),
            range(TENANT_DOORBELLS),
            AddressRange {
                start: TABLE,
                length: 0x1000_0000,
            },
        ])
        .unwrap();
        let mut fabric = Fabric::new(&FabricSpec::default(), ram).unwrap();
        for queue in 0..queues {
            let words = [
                DOORBELLS + u64::from(queue) * LINE,
                ring_address(&setup, queue, false),
                TENANT_DOORBELLS + u64::from(queue) * LINE,
                ring_address(&setup, queue, true),
            ];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            fabric
                .ram_mut()
                .load(TABLE + u64::from(queue) * LINE, &bytes)
                .unwrap();
        }

        let seed = 1;
        let ledger = Ledger::shared(Recorder::new(requests, Warmup::Auto));
        let source = IoSource::new(
            setup,
            ArrivalTimer::new(traffic, None, seed),
            traffic
                .shape
                .active_queues(queues, &mut Random::new(seed, Stream::ActiveQueues)),
            Random::new(seed, Stream::Queues),
            (
                traffic.open_packets(seed, &Files::default(), None).unwrap(),
                ProgramSettings::default(),
            ),
            ledger.clone(),
        )
        .with_rings(rings_at_start);
        let tenants = TenantSide::new(setup, ledger.clone(), 300);
        let rings = Rings::default();
        let relay = Relay::new(setup, Time::from_ns(service_ns), rings.clone());
        let source = fabric
            .attach(Box::new(source), IoSource::attachment(&setup, 3))
            .unwrap();
        let tenants = fabric
            .attach(Box::new(tenants), TenantSide::attachment(&setup, 12))
            .unwrap();
        let relay = fabric
            .attach(
                Box::new(relay),
                Attachment {
                    tile: 0,
                    cache: Some(CacheSpec::default()),
                    ..Attachment::default()
                },
            )
            .unwrap();
        fabric.wake_agent(relay, Time::ZERO, 0);
        fabric.wake_agent(tenants, Time::ZERO, 0);
        let inboxes = (0..FabricSpec::default().cores)
            .map(|_| Inbox::default())
            .collect();
        Server {
            fabric,
            inboxes,
            ledger,
            source,
            tenants,
            relay,
            rings,
            now: Time::ZERO,
            step: Time::from_ns(100.0),
        }
    }

    fn access(&mut self, kind: RequestKind) -> Result<u64, ()> {
        let mut outbox = Outbox::default();
        outbox.push(
            self.now,
            OutgoingKind::Request {
                agent: Some(self.source),
                transit: Transit::Tile,
                kind,
                hart: 0,
                token: 0,
            },
        );
        self.fabric.send(CoreId(0), &mut outbox);
        loop {
            self.run_step();
            if let Some(delivery) = self.inboxes[0].pop() {
                return match delivery.kind {
                    fabric::DeliveryKind::Reply { result, .. } => result,
                    kind => panic!("{kind:?}"),
                };
            }
        }
    }

    fn write(&mut self, offset: u64, value: u64) -> Result<u64, ()> {
        self.access(RequestKind::Write {
            address: REGISTERS + offset,
            bytes: 8,
            value,
        })
    }

    fn read(&mut self, offset: u64) -> Result<u64, ()> {
        self.access(RequestKind::Read {
            address: REGISTERS + offset,
            bytes: 8,
        })
    }

    fn start(&mut self) {
        self.write(0x50, TABLE).unwrap();
        self.write(0x58, 1).unwrap();
    }

    fn run_step(&mut self) {
        self.now += self.step;
        self.fabric.run_until(self.now, &mut self.inboxes);
        for (at, address) in self.rings.take() {
            let core = CoreId(0);
            let (before, value) = (0, 0);
            self.fabric.observe(&Observation {
                at,
                core,
                address,
                before,
                value,
            });
        }
    }

    fn run(&mut self) -> Measurement {
        while !self.ledger.borrow().recorder().is_done() {
            assert!(self.now < Time::from_ns(1e9), "nothing happens any more");
            assert_eq!(self.ledger.borrow().fault(), None);
            self.run_step();
        }
        assert_eq!(self.fabric.errors(), [] as [&str; 0]);
        let counts = self.ledger.borrow().counts();
        assert_eq!(
            counts.generated,
            counts.dropped + counts.refused + counts.entering + counts.inside + counts.delivered,
            "{counts:?}"
        );
        self.ledger.borrow().recorder().measurement().unwrap()
    }
}

fn traffic(json: &str) -> TrafficSpec {
    serde_json::from_str(json).unwrap()
}

#[test]
fn light_traffic_is_neither_lost_nor_changed() {
    let traffic = traffic(r#"{"rate_mrps": 0.1, "packet_bytes": 200}"#);
    let mut server = Server::new(&traffic, 8, 500.0, 1000);
    server.start();
    let measurement = server.run();
    let counts = server.ledger.borrow().counts();
    assert_eq!((counts.dropped, counts.errors), (0, 0));
    assert!((measurement.throughput_mrps - 0.1).abs() < 0.01);
    let latency = &measurement.latency_ns;
    assert!(latency.p50 > 500.0 && latency.p50 < 1500.0, "{latency:?}");

    let tenants: &mut TenantSide = server.fabric.agent_mut(server.tenants).unwrap();
    assert_eq!(tenants.delivered().len(), 300);
    let mut last = [None; 8];
    for packet in tenants.delivered() {
        assert_eq!(packet.bytes.len(), 200);
        assert_eq!(checksum(&[&packet.bytes[..20]]), 0);
        assert!(
            last[packet.queue as usize] < Some(packet.item),
            "out of order"
        );
        last[packet.queue as usize] = Some(packet.item);
    }
}

#[test]
fn a_server_with_constant_service_is_an_m_d_1_queue() {
    // One queue, so that the relay finds work at once. The service time is the relay's time per
    // item at saturation.
    let shape = r#""shape": "single-queue", "packet_bytes": 64"#;
    let saturated = traffic(&format!("{{{shape}}}"));
    let mut server = Server::new(&saturated, 1, 2000.0, 2000);
    server.start();
    let service_us = 1.0 / server.run().throughput_mrps;
    assert!((2.0..2.6).contains(&service_us), "{service_us}");

    let load = 0.6;
    let rate_mrps = load / service_us;
    let open = traffic(&format!(
        r#"{{{shape}, "rate_mrps": {rate_mrps}, "queue_capacity": 1024}}"#
    ));
    let mut server = Server::new(&open, 1, 2000.0, 40_000);
    server.start();
    let measurement = server.run();
    assert_eq!(server.ledger.borrow().counts().dropped, 0);
    // Pollaczek and Khinchine: the wait is load / (2 (1 - load)) services. After the ring, the
    // relay works for the time of an idle poll, and takes less time to find waiting work.
    let expected_ns = 1e3 * service_us * (1.0 + load / (2.0 * (1.0 - load)));
    let ratio = measurement.latency_ns.mean / expected_ns;
    assert!((0.95..1.05).contains(&ratio), "{ratio} {measurement:?}");
}

#[test]
fn saturation_fills_the_queues_and_drops_the_rest() {
    let traffic = traffic(r#"{"packet_bytes": 64, "queue_capacity": 4}"#);
    let mut server = Server::new(&traffic, 8, 1000.0, 1000);
    server.start();
    let measurement = server.run();
    let counts = server.ledger.borrow().counts();
    assert!(counts.dropped > 10 * counts.delivered, "{counts:?}");
    // Three in each device queue, one with the relay, and a few that tenants are taking.
    assert!((20..=8 * 3 + 4).contains(&counts.inside), "{counts:?}");
    // Little's law, for about 24 waiting items.
    let inside = measurement.throughput_mrps * measurement.latency_ns.mean / 1e3;
    assert!((22.0..26.0).contains(&inside), "{inside}");
}

/// Eight rings of 16 slots: each has 15 initial items, and nothing arrives for a second.
#[test]
fn rings_that_begin_full_are_emptied_in_order() {
    let traffic = traffic(r#"{"rate_mrps": 1e-6, "packet_bytes": 200}"#);
    let mut server = Server::with_rings(RingsAtStart::Full, &traffic, 8, 500.0, 100);
    server.start();
    while server.ledger.borrow().counts().delivered < 121 {
        assert!(server.now < Time::from_ns(1e6));
        server.run_step();
    }
    assert_eq!(server.fabric.errors(), [] as [&str; 0]);
    assert_eq!(server.ledger.borrow().fault(), None);
    let counts = server.ledger.borrow().counts();
    assert_eq!((counts.generated, counts.delivered), (121, 121));
    assert_eq!((counts.errors, counts.reordered), (0, 0));
    let measurement = server.ledger.borrow().recorder().measurement().unwrap();
    assert_eq!(measurement.cold_samples, 0);

    let tenants: &mut TenantSide = server.fabric.agent_mut(server.tenants).unwrap();
    for queue in 0..8 {
        let delivered = tenants.delivered().iter();
        let items = delivered.filter(|packet| packet.queue == queue);
        let items: Vec<u64> = items.map(|packet| packet.item).collect();
        // The first item goes through the first queue alone.
        let last = (u64::from(queue) + 1) * 15;
        let first = if queue == 0 { 0 } else { last - 14 };
        assert_eq!(items, (first..=last).collect::<Vec<u64>>());
    }
    for packet in tenants.delivered() {
        assert_eq!(packet.bytes.len(), 200);
        assert_eq!(checksum(&[&packet.bytes[..20]]), 0);
    }
}

/// Five lines per slot, and rings that fit into the last-level cache.
#[test]
fn slots_that_have_been_used_are_in_the_last_level_cache() {
    let traffic = traffic(r#"{"rate_mrps": 0.5, "packet_bytes": 256}"#);
    let found = [RingsAtStart::New, RingsAtStart::Used].map(|rings| {
        let mut server = Server::with_rings(rings, &traffic, 8, 500.0, 128);
        server.start();
        let measurement = server.run();
        let statistics = server.fabric.statistics();
        let counts = server.ledger.borrow().counts();
        assert_eq!(counts.delivered, 128);
        (
            statistics.memory_reads,
            statistics.memory_writes,
            measurement.cold_samples,
        )
    });
    let [
        (new_reads, new_writes, new_cold),
        (used_reads, used_writes, used_cold),
    ] = found;
    // Both read 16 doorbells, 8 descriptors and the 10 lines of the first item. They differ in the
    // lines of the other items in two rings, except for slots that are used again.
    let lines = new_reads - used_reads;
    assert!((900..=128 * 2 * 5).contains(&lines), "{lines}");
    assert!(used_reads <= 34, "{used_reads}");
    assert_eq!((new_writes, used_writes), (0, 0));
    assert!(new_cold > 100 && used_cold == 0, "{new_cold}");
}

#[test]
fn rings_that_begin_full_are_nobodys() {
    let traffic = traffic(r#"{"packet_bytes": 64}"#);
    let mut server = Server::with_rings(RingsAtStart::Full, &traffic, 2, 500.0, 100);
    // The ring of the second queue is in a line that the source has just read for the descriptors.
    let descriptor = TABLE + LINE;
    let ram = server.fabric.ram_mut();
    ram.load(descriptor + 8, &TABLE.to_le_bytes()).unwrap();
    server.start();
    for _ in 0..10 {
        server.run_step();
    }
    let error = &server.fabric.errors()[0];
    let expected = "I/O sources: the line at 0x80000000 cannot be changed without taking time: a \
                    cache holds it or waits for it.";
    assert_eq!(error, expected);
}

#[test]
fn bursts_and_large_packets_pass() {
    let traffic = traffic(
        r#"{"arrivals": "bursty", "rate_mrps": 0.3, "packet_bytes": 1500,
            "shape": "proportionally-concentrated"}"#,
    );
    let mut server = Server::new(&traffic, 20, 100.0, 2000);
    server.start();
    let measurement = server.run();
    assert!(measurement.latency_ns.samples >= 2000);
}

#[test]
fn results_do_not_depend_on_when_one_looks() {
    let traffic = traffic(r#"{"rate_mrps": 0.5, "packet_bytes": 300}"#);
    let mut results = Vec::new();
    for step_ns in [1.0, 100.0, 12_345.0] {
        let mut server = Server::new(&traffic, 8, 300.0, 2000);
        // The program's writes occur at the same times in all runs.
        server.start();
        server.step = Time::from_ns(step_ns);
        results.push(server.run());
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn registers_are_read_and_written() {
    let mut server = Server::new(&TrafficSpec::default(), 5, 100.0, 10);
    assert_eq!(server.read(0x00), Ok(5));
    assert_eq!(server.read(0x08), Ok(16));
    assert_eq!(server.read(0x10), Ok(1088));
    assert_eq!(server.read(0x30), Ok(DOORBELLS));
    assert_eq!(server.read(0x48), Ok(5 * LINE));
    assert_eq!(server.read(0x68), Ok(16));
    assert_eq!(server.read(0x70), Ok(1));
    assert_eq!(server.read(0x78), Ok(1));
    assert_eq!(server.read(0x80), Ok(1));
    assert_eq!(server.read(0xa0), Ok(0));
    assert_eq!(server.read(0xa8), Err(()));
    assert_eq!(server.write(0xa0, 5), Err(()), "no such kind of items");
    assert_eq!(server.write(0xa0, 2), Ok(0));
    assert_eq!(server.read(0xa0), Ok(2));
    assert_eq!(server.write(0xa0, 3), Err(()), "said already");
    assert_eq!(server.write(0x00, 1), Err(()), "read only");
    assert_eq!(server.write(0xa8, RINGS), Ok(0));
    assert_eq!(server.write(0xb0, 4096), Ok(0));
    assert_eq!(server.write(0xb0, 0), Err(()), "nothing is cleared");
    for too_long in [1 << 40, u64::MAX] {
        assert_eq!(server.write(0xb0, too_long), Ok(0));
        let ledger = server.ledger.borrow();
        let sentence = ledger.wrong_description().unwrap();
        assert!(sentence.contains("server.memory_mib"), "{sentence}");
    }
    assert_eq!(server.write(0x50, TABLE + 8), Err(()), "not aligned");
    assert_eq!(server.write(0x58, 1), Err(()), "no table");
    assert_eq!(server.write(0x60, 7), Ok(0));
    assert_eq!(server.read(0x60), Ok(7));
    let source: &mut IoSource = server.fabric.agent_mut(server.source).unwrap();
    assert_eq!(source.conflicts(), 7);
    assert!(
        server
            .fabric
            .waiting_for()
            .iter()
            .any(|wait| wait.contains("START"))
    );
    server.start();
    assert_eq!(server.write(0x58, 1), Err(()), "started already");
}

#[test]
fn wrong_descriptors_get_a_sentence() {
    for (word, value, part) in [
        (
            0,
            DOORBELLS + 8,
            "doorbell = 0x60000008 is not a multiple of 64",
        ),
        (0, RINGS, "doorbell = 0x80100000 is not in the range"),
        (1, 0x1234_0000, "ring = 0x12340000 is not in memory"),
        (
            3,
            u64::MAX - 63,
            "tenant_ring = 0xffffffffffffffc0 is not in memory",
        ),
        (0, DOORBELLS, "Queue 1 has the same doorbell as another"),
    ] {
        let mut server = Server::new(&TrafficSpec::default(), 2, 100.0, 10);
        server
            .fabric
            .ram_mut()
            .load(TABLE + LINE + 8 * word, &value.to_le_bytes())
            .unwrap();
        server.start();
        for _ in 0..100 {
            server.run_step();
        }
        let fault = server.ledger.borrow().fault().map(str::to_string);
        assert!(
            fault.as_ref().is_some_and(|fault| fault.contains(part)),
            "{fault:?}"
        );
    }
}

#[test]
fn an_item_that_was_not_sent_is_noticed() {
    let traffic = traffic(r#"{"rate_mrps": 0.5, "packet_bytes": 64}"#);
    let mut server = Server::new(&traffic, 2, 100.0, 1000);
    let relay: &mut Relay = server.fabric.agent_mut(server.relay).unwrap();
    relay.liar = Some(20);
    server.start();
    for _ in 0..2000 {
        server.run_step();
    }
    let fault = server.ledger.borrow().fault().map(str::to_string);
    assert!(
        fault
            .as_ref()
            .is_some_and(|fault| fault.contains("in order")),
        "{fault:?}"
    );
}
