//! A network interface on a chip of one tile, a scripted core, and a wire.
//!
//! The clock is one gigahertz, so that a cycle is a nanosecond; every hop on the tile takes one
//! cycle, the bank of the last-level cache ten. So a read or a write at home takes 12 once the line
//! is on the chip.

use fabric::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, CoreId, DeliveryKind, Fabric,
    FabricSpec, Inbox, LastLevelSpec, LineData, MemoryAccess, MemorySpec, MeshSpec, Outbox,
    OutgoingKind, Ram, RequestKind, Time, Transit,
};
use network::packet::{DATA, Endpoint, Packet, TransportHeader};
use network::rack::{Interface, LineRate};
use std::cell::RefCell;
use std::rc::Rc;

/// The start of memory: 8 MiB.
pub const MEMORY: u64 = 0x8000_0000;
pub const MEMORY_BYTES: u64 = 0x80_0000;
/// The start of the registers.
pub const REGISTERS: u64 = 0x1001_6000;
/// The server's address and the client's.
pub const SERVER: u32 = 0x0a00_0002;
pub const CLIENT: u32 = 0x0a00_0003;

pub fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

/// Lines that have been read, and their times.
type Reads = Rc<RefCell<Vec<(Time, LineData)>>>;
/// The headers of messages, and their arrival times.
type Messages = Rc<RefCell<Vec<(Time, u64)>>>;
/// The words of received messages, and the messages that answer the next one.
type Told = Rc<RefCell<(Vec<LineData>, Vec<AgentMessage>)>>;
/// Pending writes: addresses and bytes.
type Writes = Rc<RefCell<Vec<(u64, Vec<u8>)>>>;

/// Reads and writes lines at home when woken: the token is the address of a line to read. It also
/// receives messages.
struct Memory {
    read: Reads,
    heard: Messages,
    told: Told,
    to_write: Writes,
}

/// The test owns its reads and pending writes.
impl state::State for Memory {
    fn walk(&mut self, _walker: &mut dyn state::Walker) {}
}

impl Agent for Memory {
    fn name(&self) -> String {
        "the test".to_string()
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token > 0 {
            return context.access(MemoryAccess::DmaRead { address: token }, 0);
        }
        for (address, bytes) in self.to_write.borrow_mut().drain(..) {
            let mut data = LineData::ZERO;
            data.0[..bytes.len()].copy_from_slice(&bytes);
            let write = MemoryAccess::DmaWrite {
                address,
                bytes: bytes.len() as u8,
                data,
                allocate: true,
            };
            context.access(write, 1);
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        if token == 0 {
            self.read.borrow_mut().push((context.now(), data));
        }
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        let (words, answers) = &mut *self.told.borrow_mut();
        words.push(message.data);
        for answer in answers.drain(..) {
            context.send(from, 72, answer);
        }
        let heard = (context.now(), message.header);
        self.heard.borrow_mut().push(heard);
    }
}

pub struct Bench {
    pub fabric: Fabric,
    pub inboxes: [Inbox; 1],
    pub now: Time,
    nic: AgentId,
    /// The agent that receives messages.
    pub memory: AgentId,
    read: Reads,
    heard: Messages,
    pub told: Told,
    to_write: Writes,
    /// Replies: time, the request's token, and value.
    pub answers: Vec<(Time, u64, Result<u64, ()>)>,
    /// Packets that the interface has sent.
    pub sent: Vec<(Time, Packet)>,
}

impl Bench {
    /// A chip with this interface.
    pub fn new<N: Agent + Interface + 'static>(nic: N, attachment: Attachment) -> Bench {
        Bench::with_latency(nic, attachment, 10)
    }

    /// The same with a last-level cache of this latency in cycles.
    pub fn with_latency<N: Agent + Interface + 'static>(
        mut nic: N,
        attachment: Attachment,
        latency_cycles: u64,
    ) -> Bench {
        let ram = Ram::new(vec![fabric::AddressRange {
            start: MEMORY,
            length: MEMORY_BYTES,
        }]);
        let spec = FabricSpec {
            cores: 1,
            clock_ghz: 1.0,
            mesh: MeshSpec {
                columns: 1,
                rows: 1,
                local_latency_cycles: 1,
                ..MeshSpec::default()
            },
            last_level: LastLevelSpec {
                latency_cycles,
                ..LastLevelSpec::default()
            },
            memory: MemorySpec {
                controllers: 1,
                ..MemorySpec::default()
            },
            ..FabricSpec::default()
        };
        let mut fabric = Fabric::new(&spec, ram.unwrap()).unwrap();
        nic.connect(SERVER, LineRate::from_gbit_per_s(64.0));
        let nic = fabric.attach(Box::new(nic), attachment).unwrap();
        let (read, to_write) = (Reads::default(), Writes::default());
        let (heard, told) = (Messages::default(), Told::default());
        let memory = Memory {
            read: Rc::clone(&read),
            heard: Rc::clone(&heard),
            told: Rc::clone(&told),
            to_write: Rc::clone(&to_write),
        };
        let memory = fabric
            .attach(Box::new(memory), Attachment::default())
            .unwrap();
        Bench {
            fabric,
            inboxes: [Inbox::default()],
            now: Time::ZERO,
            nic,
            memory,
            read,
            heard,
            told,
            to_write,
            answers: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub fn nic<N: 'static>(&mut self) -> &mut N {
        self.fabric.agent_mut(self.nic).unwrap()
    }

    /// Fires one of the interface's timers now.
    pub fn wake(&mut self, token: u64) {
        self.fabric.wake_agent(self.nic, self.now, token);
    }

    /// Runs all events up to `until`.
    pub fn run_until<N: Interface + 'static>(&mut self, until: Time) {
        self.fabric.run_until(until, &mut self.inboxes);
        self.now = until;
        while let Some(delivery) = self.inboxes[0].pop() {
            if let DeliveryKind::Reply { token, result } = delivery.kind {
                self.answers.push((delivery.at, token, result));
            }
        }
        let mut sent = std::mem::take(&mut self.sent);
        self.nic::<N>().take_sent(0, &mut sent);
        self.sent = sent;
        assert_eq!(self.fabric.errors(), [""; 0]);
    }

    pub fn run_for<N: Interface + 'static>(&mut self, nanoseconds: f64) {
        let until = self.now + ns(nanoseconds);
        self.run_until::<N>(until);
    }

    /// The messages since the last call.
    pub fn take_heard(&mut self) -> Vec<(Time, u64)> {
        self.heard.take()
    }

    /// The core sends a request now.
    pub fn ask(&mut self, kind: RequestKind, token: u64) {
        let mut outbox = Outbox::default();
        let request = OutgoingKind::Request {
            agent: None,
            transit: Transit::Tile,
            kind,
            hart: 0,
            token,
        };
        outbox.push(self.now, request);
        self.fabric.send(CoreId(0), &mut outbox);
    }

    pub fn write(&mut self, offset: u64, bytes: u8, value: u64) {
        let address = REGISTERS + offset;
        let kind = RequestKind::Write {
            address,
            bytes,
            value,
        };
        self.ask(kind, offset);
    }

    pub fn read(&mut self, offset: u64, bytes: u8) {
        let address = REGISTERS + offset;
        self.ask(RequestKind::Read { address, bytes }, offset);
    }

    /// Sends a request, waits and returns the answer.
    pub fn answer<N: Interface + 'static>(
        &mut self,
        ask: impl FnOnce(&mut Bench),
    ) -> Result<u64, ()> {
        self.answers.clear();
        ask(self);
        self.run_for::<N>(2000.0);
        let (_, _, result) = self.answers.pop().expect("an answer");
        result
    }

    /// The last bit of `packet` arrives `nanoseconds` from now.
    pub fn give<N: Interface + 'static>(&mut self, nanoseconds: f64, packet: &Packet) {
        let at = self.now + ns(nanoseconds);
        let token = self.nic::<N>().receive(0, at, packet.clone());
        self.fabric.wake_agent(self.nic, at, token);
    }

    /// The last bit of `packet` arrives at one of several ports `nanoseconds` from now.
    pub fn give_at<N: Interface + 'static>(
        &mut self,
        port: usize,
        nanoseconds: f64,
        packet: &Packet,
    ) {
        let at = self.now + ns(nanoseconds);
        let token = self.nic::<N>().receive(port, at, packet.clone());
        self.fabric.wake_agent(self.nic, at, token);
    }

    /// Writes bytes to memory, and brings their lines into the last-level cache.
    pub fn store<N: Interface + 'static>(&mut self, address: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let start = address + at as u64;
            let count = ((64 - start % 64) as usize).min(bytes.len() - at);
            let part = bytes[at..at + count].to_vec();
            self.to_write.borrow_mut().push((start, part));
            at += count;
        }
        let now = self.now;
        self.fabric.wake_agent(self.memory, now, 0);
        self.run_for::<N>(2000.0);
    }

    /// The bytes in memory, coherently; brings their lines into the last-level cache.
    pub fn load<N: Interface + 'static>(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        self.read.borrow_mut().clear();
        let first = address / 64 * 64;
        let lines = (address + bytes as u64 - first).div_ceil(64);
        for line in 0..lines {
            let now = self.now;
            self.fabric.wake_agent(self.memory, now, first + 64 * line);
            self.run_for::<N>(200.0);
        }
        let found: Vec<u8> = self
            .read
            .borrow()
            .iter()
            .flat_map(|(_, line)| line.0)
            .collect();
        let start = (address - first) as usize;
        found[start..start + bytes].to_vec()
    }
}

/// A packet to the server with a payload of this size.
pub fn request(number: u64, payload_bytes: usize) -> Packet {
    Packet {
        from: Endpoint {
            address: CLIENT,
            port: number as u16,
        },
        to: Endpoint {
            address: SERVER,
            port: 1,
        },
        routed_to: None,
        padding: 0,
        ecn: 0,
        header: TransportHeader {
            flags: DATA,
            message_bytes: payload_bytes as u32,
            ..TransportHeader::default()
        },
        priority: 0,
        payload: (0..payload_bytes)
            .map(|at| (number as usize + at) as u8)
            .collect(),
        tag: number,
    }
}

/// The answer of a loopback.
pub fn answer(number: u64, payload_bytes: usize) -> Packet {
    let packet = request(number, payload_bytes);
    Packet {
        from: packet.to,
        to: packet.from,
        ..packet
    }
}
