//! A small server for tests: a fabric, HyperPlane, and cores that carry out scripts of operations
//! by the real extension and the real private caches, one at a time.

use fabric::*;
use hyperplane::{HyperPlane, HyperPlaneSpec, Operation, QwaitExtension, attach};
use pipeline::{Action, Extension, Invocation};
use riscv::Privilege;

/// Where doorbells are: one range of 256 lines, aligned to its size.
pub const DOORBELLS: AddressRange = AddressRange {
    start: 0x8000_4000,
    length: 0x4000,
};

/// Other memory.
pub const MEMORY: AddressRange = AddressRange {
    start: 0x8000_8000,
    length: 0x8000,
};

pub fn clock() -> Clock {
    Clock::from_ghz(2.0)
}

/// Something that a scripted core does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// An instruction of the extension.
    Instruction(Operation, u64, u64),
    /// An atomic addition; its result is the value before.
    FetchAdd(u64, u64),
    /// A load of 8 bytes.
    Load(u64),
    /// Nothing, for some cycles.
    Wait(u64),
    /// Nothing ever again.
    Stop,
}

/// What a core does next, after what it did gave `result`.
pub trait Script {
    fn next(&mut self, result: Result<u64, ()>, now: Time) -> Do;
}

enum State {
    /// What it did is over at `at`.
    Over {
        at: Time,
        result: Result<u64, ()>,
    },
    /// An instruction's load is over at `at`.
    Loaded {
        at: Time,
        value: u64,
    },
    /// It waits for a line.
    Line,
    /// It waits for an agent.
    Reply,
    Stopped,
}

pub struct Core<S> {
    id: CoreId,
    cache: PrivateCache,
    extension: QwaitExtension,
    pub script: S,
    doing: Do,
    step: u32,
    state: State,
    /// Of the load or atomic in progress.
    address: u64,
    token: u64,
    inbox: usize,
}

impl<S: Script> Core<S> {
    fn next_at(&self, inbox: &Inbox) -> Time {
        let own = match self.state {
            State::Over { at, .. } | State::Loaded { at, .. } => at,
            _ => Time::NEVER,
        };
        own.min(inbox.next_at())
    }

    fn advance(&mut self, until: Time, inbox: &mut Inbox, out: &mut Outbox) {
        loop {
            let now = self.next_at(inbox);
            if now >= until {
                return;
            }
            if inbox.next_at() == now {
                let delivery = inbox.pop().unwrap();
                self.take(now, delivery.kind, out);
                continue;
            }
            match self.state {
                State::Over { result, .. } => {
                    self.doing = self.script.next(result, now);
                    self.begin(now, out);
                }
                State::Loaded { value, .. } => self.resume(now, value, out),
                _ => unreachable!(),
            }
        }
    }

    fn invocation(&self) -> Invocation {
        let Do::Instruction(operation, rs1, rs2) = self.doing else {
            unreachable!()
        };
        let has = |operations: &[Operation], bits: u32| {
            if operations.contains(&operation) {
                bits
            } else {
                0
            }
        };
        use Operation::*;
        let bits = (operation as u32) << 25
            | 0x0b
            | has(
                &[Qwait, QwaitNonBlocking, Verify, Init, Add, Remove],
                10 << 7,
            )
            | has(
                &[
                    Qwait,
                    QwaitNonBlocking,
                    Verify,
                    Reconsider,
                    Enable,
                    Disable,
                    Init,
                    Add,
                    Remove,
                    Weight,
                    Partition,
                ],
                11 << 15,
            )
            | has(&[Reconsider, Init, Add, Weight, Partition], 12 << 20);
        Invocation {
            instruction: riscv::decode(bits),
            rs1,
            rs2,
            privilege: Privilege::Machine,
            step: self.step,
            cycle: 0,
        }
    }

    fn begin(&mut self, now: Time, out: &mut Outbox) {
        self.step = 0;
        match self.doing {
            Do::Instruction(..) => {
                let action = self.extension.begin(&self.invocation());
                self.act(now, action, out);
            }
            Do::FetchAdd(address, _) | Do::Load(address) => self.access(now, address, out),
            Do::Wait(cycles) => {
                self.state = State::Over {
                    at: now + clock().time(cycles),
                    result: Ok(0),
                };
            }
            Do::Stop => self.state = State::Stopped,
        }
    }

    fn resume(&mut self, now: Time, value: u64, out: &mut Outbox) {
        self.step += 1;
        let action = self.extension.resume(&self.invocation(), value);
        self.act(now, action, out);
    }

    fn act(&mut self, now: Time, action: Action, out: &mut Outbox) {
        match action {
            Action::Done(value) => {
                let result = Ok(value);
                self.state = State::Over { at: now, result };
            }
            Action::Load { address } => self.access(now, address, out),
            Action::Ask {
                agent,
                transit,
                code,
                arguments,
                ..
            } => {
                self.token += 1;
                let request = OutgoingKind::Request {
                    agent: Some(agent),
                    transit,
                    kind: RequestKind::Custom { code, arguments },
                    hart: 0,
                    token: self.token,
                };
                out.push(now, request);
                self.state = State::Reply;
            }
            action => panic!("{action:?}: {:?}", self.doing),
        }
    }

    fn access(&mut self, now: Time, address: u64, out: &mut Outbox) {
        self.address = address;
        let line = LineAddress::of(address);
        let write = matches!(self.doing, Do::FetchAdd(..));
        match self.cache.find(line) {
            Some(slot) if !write || self.cache.writable(slot) => {
                self.cache.touch(slot);
                self.perform(now, slot);
            }
            _ => {
                self.cache.request(line, write, now, out);
                self.state = State::Line;
            }
        }
    }

    /// The line is here, as it must be.
    fn perform(&mut self, now: Time, slot: u32) {
        let offset = (self.address % LINE_BYTES as u64) as usize;
        let value = self.cache.line(slot).read(offset, 8);
        let at = now + clock().time(4);
        self.state = match self.doing {
            Do::Instruction(..) => State::Loaded { at, value },
            Do::FetchAdd(_, addend) => {
                let line = self.cache.line_mut(slot);
                line.write(offset, 8, value.wrapping_add(addend));
                let result = Ok(value);
                State::Over { at, result }
            }
            _ => State::Over {
                at,
                result: Ok(value),
            },
        };
    }

    fn take(&mut self, now: Time, kind: DeliveryKind, out: &mut Outbox) {
        match kind {
            DeliveryKind::Cache { line, message, .. } => {
                let notice = self.cache.receive(line, &message, now, out);
                if let CacheNotice::Filled { slot, .. } = notice {
                    let waits = matches!(self.state, State::Line);
                    assert!(waits && line == LineAddress::of(self.address));
                    self.perform(now, slot);
                    self.cache.finish_fill(line, now, out);
                }
            }
            DeliveryKind::Reply { token, result } => {
                assert!(matches!(self.state, State::Reply) && token == self.token);
                match result {
                    Ok(value) => self.resume(now, value, out),
                    Err(()) => self.state = State::Over { at: now, result },
                }
            }
            DeliveryKind::Interrupt { .. }
            | DeliveryKind::Stash { .. }
            | DeliveryKind::Notice { .. }
            | DeliveryKind::Supply { .. }
            | DeliveryKind::SuppliedLineLost { .. } => {}
        }
    }

    pub fn is_halted(&self) -> bool {
        matches!(self.state, State::Reply)
    }
}

pub struct Machine<S> {
    pub fabric: Fabric,
    pub hyperplane: AgentId,
    pub cores: Vec<Core<S>>,
    inboxes: Vec<Inbox>,
    /// When the last window ended.
    pub now: Time,
}

/// What of the memory belongs to the second socket of a server that has two: every other three
/// lines.
fn second_socket() -> Vec<AddressRange> {
    let length = 3 * 64;
    let start = |number: u64| DOORBELLS.start + (2 * number + 1) * length;
    let starts = (0..)
        .map(start)
        .take_while(|start| start + length <= MEMORY.end());
    starts.map(|start| AddressRange { start, length }).collect()
}

impl<S: Script> Machine<S> {
    pub fn new(spec: &HyperPlaneSpec, scripts: Vec<S>) -> Machine<S> {
        Machine::on_sockets(spec, 1, SocketLinkSpec::default(), scripts)
    }

    /// A machine of so many sockets, of whose cores each has as many.
    pub fn on_sockets(
        spec: &HyperPlaneSpec,
        sockets: usize,
        socket_link: SocketLinkSpec,
        scripts: Vec<S>,
    ) -> Machine<S> {
        // Small caches, so that lines are evicted and recalled.
        let cache = CacheSpec {
            size_bytes: 1024,
            ways: 2,
            ..CacheSpec::default()
        };
        let fabric = FabricSpec {
            cores: scripts.len(),
            sockets,
            socket_link,
            last_level: LastLevelSpec {
                size_bytes_per_bank: 4096,
                ways: 4,
                ..LastLevelSpec::default()
            },
            mesh: MeshSpec {
                columns: 2,
                rows: 2,
                ..MeshSpec::default()
            },
            ..FabricSpec::default()
        };
        let ram = Ram::new(vec![DOORBELLS, MEMORY]).unwrap();
        let ram = ram.with_second_socket(second_socket());
        let mut fabric = Fabric::new(&fabric, ram).unwrap();
        let hyperplane = attach(&mut fabric, 4, spec, DOORBELLS, clock()).unwrap();
        let core = |(index, script)| Core {
            id: CoreId(index as u16),
            cache: PrivateCache::new(&cache, CacheId::data(CoreId(index as u16))),
            extension: QwaitExtension::new(hyperplane),
            script,
            doing: Do::Wait(0),
            step: 0,
            state: State::Over {
                at: Time::ZERO,
                result: Ok(0),
            },
            address: 0,
            token: 0,
            inbox: index,
        };
        Machine {
            inboxes: scripts.iter().map(|_| Inbox::default()).collect(),
            cores: scripts.into_iter().enumerate().map(core).collect(),
            fabric,
            hyperplane,
            now: Time::ZERO,
        }
    }

    /// Runs until nothing happens any more, in windows of at most `window`.
    pub fn run(&mut self, window: Time) {
        let window = window.min(self.fabric.minimum_delivery_latency());
        let mut out = Outbox::default();
        loop {
            let cores = self
                .cores
                .iter()
                .map(|core| core.next_at(&self.inboxes[core.inbox]));
            let next = cores.min().unwrap().min(self.fabric.next_event());
            if next == Time::NEVER {
                assert_eq!(self.fabric.errors(), &[] as &[String]);
                return;
            }
            let until = next + window;
            for core in &mut self.cores {
                core.advance(until, &mut self.inboxes[core.inbox], &mut out);
                self.fabric.send(core.id, &mut out);
            }
            self.fabric.run_until(until, &mut self.inboxes);
            self.now = until;
        }
    }

    pub fn hyperplane(&mut self) -> &mut HyperPlane {
        self.fabric.agent_mut(self.hyperplane).unwrap()
    }
}
