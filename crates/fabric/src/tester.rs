//! The random tester: many agents and few lines, on the whole fabric, in order of time.
//!
//! A run is a list of operations. When one fails, operations are removed from the list as long as
//! it still fails, and the remaining ones are run again with all events printed.
//!
//! After every step:
//! - a line has one writer or many readers, and every copy is the line's last write;
//! - the directory knows the holders of a line that is not busy, and memory or the last-level cache
//!   has the last write of a line without an owner;
//! - a second level includes its first levels.
//!
//! Every read returns the last write at its time. A line that is used once, and one that travels to
//! an agent, may be as old as the read's beginning. Every write follows the last write. In the end
//! nothing is waiting. After an agent has read a line at home, it is not written before a grant of
//! ownership has been reported. All declared cells of the tables are reached, and no others.

use crate::coverage::{
    INCLUSIVE_HOME, NON_INCLUSIVE_HOME, PRIVATE_CACHE, SECOND_LEVEL, report, trace,
};
use crate::tests::{
    MEMORY, PLACES, Random, memory, memory_of_two_sockets, places_reached, seeds, small_dram,
    small_memory_cache,
};
use crate::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fetch,
    Load,
    Store,
    /// Delays other requests for the line for a while, as a core does between LR and SC.
    HoldingStore,
    /// A read of an agent with a private cache.
    AgentRead,
    AgentWrite,
    ReadAtHome,
    DmaRead,
    /// Whether it allocates, and whether it is a whole line.
    DmaWrite(bool, bool),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    at: Time,
    /// A core, or an agent after the cores.
    actor: usize,
    kind: Kind,
    line: LineAddress,
    /// The written word.
    word: usize,
}

/// A deliberate error of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    Nothing,
    /// A core answers an Invalidate of this line and keeps its copy.
    KeepsInvalidated(LineAddress),
    /// DMA writes to this line are lost.
    LosesDma(LineAddress),
}

#[derive(Clone, Debug)]
struct System {
    fabric: FabricSpec,
    first_level: CacheSpec,
    second_level: Option<CacheSpec>,
    /// The prefetcher of the first-level data caches.
    data_prefetcher: DataPrefetcherKind,
    /// The prefetcher of the first-level instruction caches.
    instruction_prefetcher: SequentialPrefetcherKind,
    /// The prefetcher of the second levels.
    prefetcher: PrefetcherKind,
    cached_agents: usize,
    dma_agents: usize,
    /// One message in four is delayed by less than this number of cycles, so that messages arrive
    /// in every order that the protocol allows.
    jitter_cycles: u64,
    jitter_seed: u64,
    sabotage: Sabotage,
}

/// The bytes of a line after each write, including the initial ones.
#[derive(Default)]
struct Golden {
    versions: BTreeMap<LineAddress, Vec<LineData>>,
    /// Lines that an agent has read at home since the last grant of their ownership.
    armed: BTreeSet<LineAddress>,
}

impl Golden {
    fn of(&mut self, line: LineAddress) -> &mut Vec<LineData> {
        self.versions
            .entry(line)
            .or_insert_with(|| vec![LineData::ZERO])
    }

    fn last(&mut self, line: LineAddress) -> LineData {
        let version = self.version(line);
        self.of(line)[version]
    }

    fn version(&mut self, line: LineAddress) -> usize {
        self.of(line).len() - 1
    }

    /// Checks a read that began at version `since` and returned `data`.
    fn check_read(&mut self, line: LineAddress, data: &LineData, since: usize) {
        let found = self.of(line)[since..].contains(data);
        assert!(
            found,
            "a read of {line:?} returns {data:?}, which it did not contain in that time"
        );
    }

    fn write(&mut self, line: LineAddress, before: &LineData, after: LineData) {
        assert_eq!(
            *before,
            self.last(line),
            "a write of {line:?} does not follow the last write"
        );
        let unseen = self.armed.contains(&line);
        assert!(!unseen, "{line:?} was read at home and is written unseen");
        self.of(line).push(after);
    }
}

/// State shared by all actors.
#[derive(Default)]
struct Shared {
    golden: Golden,
    /// For each operation: the version of its line at its beginning, and whether it is done.
    begun: Vec<Option<usize>>,
    done: Vec<bool>,
}

type Handle = Rc<RefCell<Shared>>;

impl Shared {
    fn begin(&mut self, index: usize, line: LineAddress) {
        let version = self.golden.version(line);
        self.begun[index] = Some(version);
    }

    fn end(&mut self, index: usize) -> usize {
        assert!(!self.done[index], "operation {index} is done twice");
        self.done[index] = true;
        self.begun[index].unwrap()
    }
}

/// The line after operation number `index`.
fn written(before: &LineData, index: usize, operation: &Operation) -> LineData {
    let mut data = *before;
    let words = match operation.kind {
        Kind::DmaWrite(_, true) => 0..8,
        _ => operation.word..operation.word + 1,
    };
    for word in words {
        data.write(word * 8, 8, index as u64 + 1);
    }
    data
}

struct TestAgent {
    operations: Rc<Vec<Operation>>,
    shared: Handle,
}

state::unsaved!(TestAgent);

impl Agent for TestAgent {
    fn name(&self) -> String {
        "test agent".to_string()
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let index = token as usize;
        let operation = self.operations[index];
        self.shared.borrow_mut().begin(index, operation.line);
        let line = operation.line.base();
        let address = line + operation.word as u64 * 8;
        let mut data = LineData::ZERO;
        for word in 0..8 {
            data.write(word * 8, 8, token + 1);
        }
        let access = match operation.kind {
            Kind::AgentRead => MemoryAccess::Read { address },
            Kind::AgentWrite => MemoryAccess::Write {
                address,
                bytes: 8,
                data,
            },
            Kind::ReadAtHome => MemoryAccess::ReadAtHome { address },
            Kind::DmaRead => MemoryAccess::DmaRead { address },
            Kind::DmaWrite(allocate, whole) => MemoryAccess::DmaWrite {
                address: if whole { line } else { address },
                bytes: if whole { 64 } else { 8 },
                data,
                allocate,
            },
            _ => unreachable!(),
        };
        context.access(access, token);
    }

    fn ownership_granted(&mut self, _context: &mut AgentContext<'_>, line: LineAddress) {
        self.shared.borrow_mut().golden.armed.remove(&line);
    }

    fn access_done(
        &mut self,
        _context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let index = token as usize;
        let operation = &self.operations[index];
        let mut shared = self.shared.borrow_mut();
        let since = shared.end(index);
        let line = operation.line;
        match operation.kind {
            Kind::AgentWrite => {
                let before = shared.golden.last(line);
                assert_eq!(data, written(&before, index, operation));
                shared.golden.write(line, &before, data);
            }
            // It was checked when it was performed.
            Kind::DmaWrite(..) => {}
            Kind::ReadAtHome => {
                assert_eq!(data, shared.golden.last(line));
                shared.golden.armed.insert(line);
            }
            _ => shared.golden.check_read(line, &data, since),
        }
    }
}

/// Cycles for which a holding store delays others.
const HOLD: u64 = 40;

struct TestCore {
    id: CoreId,
    instruction: PrivateCache,
    data: PrivateCache,
    second: Option<SecondLevel>,
    /// Those of the first-level caches, by side.
    prefetching: [Option<Prefetching>; 2],
    /// Operations that wait for their line, in order.
    waiting: Vec<usize>,
    /// Operations that found no miss register.
    refused: Vec<usize>,
    /// A line for which others wait, the end of the wait, and their messages.
    held: Option<(LineAddress, Time, Vec<ToCache>)>,
    operations: Rc<Vec<Operation>>,
    shared: Handle,
    clock: Clock,
    sabotage: Sabotage,
}

fn side_of(kind: Kind) -> Side {
    match kind {
        Kind::Fetch => Side::Instruction,
        _ => Side::Data,
    }
}

fn is_write(kind: Kind) -> bool {
    matches!(kind, Kind::Store | Kind::HoldingStore)
}

impl TestCore {
    fn side(&mut self, side: Side) -> &mut PrivateCache {
        match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        }
    }

    fn split(&mut self) -> (Option<&mut SecondLevel>, FirstLevel<'_>) {
        let first = FirstLevel {
            instruction: &mut self.instruction,
            data: &mut self.data,
        };
        (self.second.as_mut(), first)
    }

    fn cycle(&self, now: Time) -> u64 {
        self.clock.cycle_at_or_after(now)
    }

    fn next_at(&self, inbox: &Inbox) -> Time {
        let held = self.held.as_ref().map_or(Time::NEVER, |held| held.1);
        let found = self
            .second
            .as_ref()
            .map_or(u64::MAX, SecondLevel::next_found);
        let found = match found {
            u64::MAX => Time::NEVER,
            cycle => self.clock.time(cycle),
        };
        inbox.next_at().min(held).min(found)
    }

    /// Performs an operation if its line is present with the required permission.
    fn attempt(&mut self, index: usize, now: Time, once: bool) -> bool {
        let operation = self.operations[index];
        let line = operation.line;
        let write = is_write(operation.kind);
        let shared = self.shared.clone();
        let mut shared = shared.borrow_mut();
        let cache = self.side(side_of(operation.kind));
        let Some(slot) = cache.find(line) else {
            return false;
        };
        if write && !cache.writable(slot) {
            return false;
        }
        cache.touch(slot);
        let data = *cache.line(slot);
        let since = shared.end(index);
        if write {
            let after = written(&data, index, &operation);
            *cache.line_mut(slot) = after;
            shared.golden.write(line, &data, after);
            if operation.kind == Kind::HoldingStore && self.held.is_none() {
                let until = self.clock.time(self.cycle(now) + HOLD);
                self.held = Some((line, until, Vec::new()));
            }
        } else if once {
            shared.golden.check_read(line, &data, since);
        } else {
            let last = shared.golden.last(line);
            assert_eq!(data, last, "{operation:?} does not read the last write");
        }
        true
    }

    fn ask(&mut self, index: usize, now: Time, out: &mut Outbox) {
        let Operation { kind, line, .. } = self.operations[index];
        let (side, write) = (side_of(kind), is_write(kind));
        let cycle = self.cycle(now);
        let outcome = match self.split() {
            (Some(second), first) => second.request(first, (side, line, write), cycle, out),
            (None, _) => self.side(side).request(line, write, now, out),
        };
        match outcome {
            RequestOutcome::Full => self.refused.push(index),
            _ => self.waiting.push(index),
        }
    }

    fn begin(&mut self, index: usize, now: Time, out: &mut Outbox) {
        let line = self.operations[index].line;
        self.shared.borrow_mut().begin(index, line);
        let kind = self.operations[index].kind;
        let look_up = self.side(side_of(kind)).look_up(line);
        if !self.attempt(index, now, false) {
            self.ask(index, now, out);
        }
        if matches!(kind, Kind::Load | Kind::Fetch) {
            self.prefetch(index, look_up, now, out);
        }
    }

    /// Notifies the prefetcher of a first-level cache of a load or a fetch.
    fn prefetch(&mut self, index: usize, look_up: LookUp, now: Time, out: &mut Outbox) {
        let side = side_of(self.operations[index].kind);
        let Some(mut prefetching) = self.prefetching[side as usize].take() else {
            return;
        };
        // Loads of the same word belong to one instruction.
        let word = self.operations[index].word as u64;
        let load = LoadInstruction {
            pc: word * 2,
            address: look_up.line.base() + word * 8,
        };
        let cycle = self.cycle(now);
        prefetching.accessed(look_up, look_up.slot.is_some(), Some(load), |line| {
            match (self.side(side).may_prefetch(line), self.split()) {
                (RequestOutcome::Sent, (Some(second), first)) => {
                    second.request(first, (side, line, false), cycle, out)
                }
                (RequestOutcome::Sent, (None, _)) => self.side(side).request(line, false, now, out),
                (other, _) => other,
            }
        });
        self.prefetching[side as usize] = Some(prefetching);
    }

    /// Records the arrival of a line in a first-level cache.
    fn filled(&mut self, side: Side, fill: FirstFill) {
        if let Some(prefetching) = &mut self.prefetching[side as usize] {
            prefetching.filled(fill.line, fill.slot, fill.evicted);
        }
    }

    /// Handles the arrival of a line in one of the caches: waiting operations use it first.
    fn used(&mut self, side: Side, line: LineAddress, once: bool, now: Time) -> Vec<usize> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut again = Vec::new();
        for index in waiting {
            let operation = self.operations[index];
            if operation.line != line || side_of(operation.kind) != side {
                self.waiting.push(index);
            } else if !self.attempt(index, now, once) {
                again.push(index);
            }
        }
        again
    }

    fn holds(&self, line: LineAddress) -> bool {
        self.held.as_ref().is_some_and(|held| held.0 == line)
    }

    /// Operations that wait for a lost line wait in vain.
    fn lost(&mut self, line: LineAddress, now: Time) {
        if self.holds(line)
            && let Some(held) = &mut self.held
        {
            held.1 = now;
        }
    }

    fn finish(&mut self, side: Side, line: LineAddress, now: Time, out: &mut Outbox) {
        let (cycle, keep) = (self.cycle(now), self.holds(line) && side == Side::Data);
        let mut forward = None;
        let mut lost = false;
        match self.split() {
            (Some(second), _) if keep => forward = second.keep_fill(cycle, out),
            (Some(second), first) => lost = second.finish_fill(first, line, cycle, out),
            (None, first) if keep => forward = first.data.keep_fill(),
            (None, _) => {
                let notice = self.side(side).finish_fill(line, now, out);
                lost = matches!(notice, CacheNotice::Lost(_));
            }
        }
        if let (Some(forward), Some(held)) = (forward, &mut self.held) {
            held.2.push(forward);
        }
        if lost {
            self.lost(line, now);
        }
    }

    /// After the arrival of a line: repeats requests that were not served or found no register.
    fn go_on(&mut self, again: Vec<usize>, now: Time, out: &mut Outbox) {
        for index in again.into_iter().chain(std::mem::take(&mut self.refused)) {
            if !self.attempt(index, now, false) {
                self.ask(index, now, out);
            }
        }
    }

    fn receive(
        &mut self,
        cache: CacheId,
        line: LineAddress,
        message: ToCache,
        now: Time,
        out: &mut Outbox,
    ) {
        let cycle = self.cycle(now);
        let side = match cache == CacheId::instruction(self.id) {
            true => Side::Instruction,
            false => Side::Data,
        };
        let kept = (self.sabotage == Sabotage::KeepsInvalidated(line)
            && message == ToCache::Invalidate)
            .then(|| {
                self.side(side)
                    .find(line)
                    .map(|slot| *self.side(side).line(slot))
            })
            .flatten();
        if let (Some(second), first) = self.split() {
            match second.receive(first, line, &message, cycle, out) {
                SecondNotice::None => {}
                SecondNotice::Lost(line) => self.lost(line, now),
                SecondNotice::Filled {
                    evicted,
                    data,
                    instruction,
                    use_once,
                    ..
                } => {
                    for (side, fill) in [(Side::Data, data), (Side::Instruction, instruction)] {
                        if let Some(fill) = fill {
                            self.filled(side, fill);
                        }
                    }
                    for line in evicted
                        .into_iter()
                        .chain(data.and_then(|fill| fill.evicted))
                    {
                        self.lost(line, now);
                    }
                    let mut again = self.used(Side::Data, line, use_once, now);
                    again.extend(self.used(Side::Instruction, line, use_once, now));
                    self.finish(Side::Data, line, now, out);
                    self.go_on(again, now, out);
                }
            }
        } else {
            match self.side(side).receive(line, &message, now, out) {
                CacheNotice::None | CacheNotice::Downgraded(_) => {}
                CacheNotice::Lost(line) => self.lost(line, now),
                CacheNotice::Filled {
                    slot,
                    evicted,
                    use_once,
                    ..
                } => {
                    let fill = FirstFill {
                        line,
                        slot,
                        evicted,
                    };
                    self.filled(side, fill);
                    if let Some(evicted) = evicted {
                        self.lost(evicted, now);
                    }
                    let again = self.used(side, line, use_once, now);
                    self.finish(side, line, now, out);
                    self.go_on(again, now, out);
                }
            }
        }
        if let Some(data) = kept {
            self.side(side).place(line, State::Shared, &data);
        }
    }

    fn run(&mut self, now: Time, inbox: &mut Inbox, out: &mut Outbox, print: bool) {
        while inbox.next_at() <= now {
            let Some(delivery) = inbox.pop() else { return };
            let DeliveryKind::Cache {
                cache,
                line,
                message,
            } = delivery.kind
            else {
                continue;
            };
            if print {
                println!("{now}: core {} gets {}", self.id.0, short(&message));
            }
            let asks = !matches!(message, ToCache::Data(..) | ToCache::PutAck);
            if let Some(held) = &mut self.held
                && held.0 == line
                && held.1 > now
                && asks
                && cache == CacheId::data(self.id)
            {
                held.2.push(message);
            } else {
                self.receive(cache, line, message, now, out);
            }
        }
        let cycle = self.clock.cycle_of(now);
        while let (Some(second), first) = self.split() {
            let Some((side, fill)) = second.found(first, cycle, out) else {
                break;
            };
            self.filled(side, fill);
            if side == Side::Data
                && let Some(evicted) = fill.evicted
            {
                self.lost(evicted, now);
            }
            let again = self.used(side, fill.line, false, now);
            self.finish(side, fill.line, now, out);
            self.go_on(again, now, out);
        }
        if let Some((line, until, _)) = self.held
            && until <= now
            && let Some((_, _, messages)) = self.held.take()
        {
            for message in messages {
                self.receive(CacheId::data(self.id), line, message, now, out);
            }
        }
    }
}

/// A second-level cache like `cache`.
fn with_prefetcher(cache: &CacheSpec, prefetcher: PrefetcherKind) -> SecondLevelSpec {
    SecondLevelSpec {
        size_bytes: cache.size_bytes,
        ways: cache.ways,
        replacement: cache.replacement,
        hit_latency_cycles: cache.hit_latency_cycles,
        mshrs: cache.mshrs,
        prefetcher,
        ..SecondLevelSpec::default()
    }
}

fn short(message: &ToCache) -> String {
    match message {
        ToCache::Data(grant, source, _) => format!("the line, {grant:?}, from {source:?}"),
        other => format!("{other:?}"),
    }
}

struct Run {
    fabric: Fabric,
    cores: Vec<TestCore>,
    agents: Vec<AgentId>,
    operations: Rc<Vec<Operation>>,
    shared: Handle,
    sabotage: Sabotage,
}

impl Run {
    fn new(system: &System, operations: &[Operation]) -> Run {
        let mut fabric = Fabric::new(&system.fabric, memory_of_two_sockets()).unwrap();
        fabric.set_jitter(system.jitter_cycles, system.jitter_seed);
        let operations = Rc::new(operations.to_vec());
        let shared = Handle::default();
        shared.borrow_mut().begun = vec![None; operations.len()];
        shared.borrow_mut().done = vec![false; operations.len()];
        let (clock, map) = (fabric.clock(), fabric.memory_map());
        let cores = (0..system.fabric.cores as u16).map(|core| {
            let id = CoreId(core);
            let first = |id| PrivateCache::new(&system.first_level, id);
            let second = system.second_level.as_ref();
            let data = first(CacheId::data(id));
            let instruction = first(CacheId::instruction(id));
            let kind = (system.data_prefetcher, StrideSpec::default());
            let of_instructions = system.instruction_prefetcher;
            TestCore {
                id,
                prefetching: [
                    Prefetching::of_instructions(of_instructions, &instruction, &map),
                    Prefetching::of_data(kind, &data, &map),
                ],
                instruction,
                data,
                second: second.map(|spec| {
                    let spec = with_prefetcher(spec, system.prefetcher);
                    SecondLevel::with_prefetcher(&spec, CacheId::data(id), clock, &map)
                }),
                waiting: Vec::new(),
                refused: Vec::new(),
                held: None,
                operations: operations.clone(),
                shared: shared.clone(),
                clock,
                sabotage: system.sabotage,
            }
        });
        let cores = cores.collect();
        let tiles = system.fabric.tiles_of_socket() * system.fabric.sockets;
        let agents = (0..system.cached_agents + system.dma_agents).map(|index| {
            let agent = TestAgent {
                operations: operations.clone(),
                shared: shared.clone(),
            };
            let attachment = Attachment {
                tile: (index * 5 + 1) % tiles,
                cache: (index < system.cached_agents).then(|| system.first_level.clone()),
                snoops: Some(memory().ranges()[0]),
                ..Attachment::default()
            };
            fabric.attach(Box::new(agent), attachment).unwrap()
        });
        let agents = agents.collect();
        Run {
            fabric,
            cores,
            agents,
            operations,
            shared,
            sabotage: system.sabotage,
        }
    }

    fn run(&mut self, print: bool) {
        let mut inboxes: Vec<Inbox> = self.cores.iter().map(|_| Inbox::default()).collect();
        let mut out = Outbox::default();
        let operations = self.operations.clone();
        for (index, operation) in operations.iter().enumerate() {
            if let Some(agent) = operation.actor.checked_sub(self.cores.len()) {
                let agent = self.agents[agent];
                self.fabric.wake_agent(agent, operation.at, index as u64);
            }
        }
        let mut next_operation = 0;
        loop {
            let cores = self.cores.iter().zip(&inboxes);
            let cores = cores.map(|(core, inbox)| core.next_at(inbox)).min();
            let operation = operations.get(next_operation);
            let now = operation
                .map_or(Time::NEVER, |operation| operation.at)
                .min(cores.unwrap_or(Time::NEVER))
                .min(self.fabric.next_event());
            if now == Time::NEVER {
                break;
            }
            assert!(
                now < Time::from_ns(1e6),
                "no end: {:?}",
                self.fabric.waiting_for()
            );
            for (core, inbox) in self.cores.iter_mut().zip(&mut inboxes) {
                core.run(now, inbox, &mut out, print);
                self.fabric.send(core.id, &mut out);
            }
            while let Some(operation) = operations.get(next_operation)
                && operation.at <= now
            {
                if print {
                    println!("{now}: {operation:?}");
                }
                if let Some(core) = self.cores.get_mut(operation.actor) {
                    core.begin(next_operation, now, &mut out);
                    self.fabric.send(core.id, &mut out);
                }
                next_operation += 1;
            }
            self.fabric.run_until(now + Time::from_fs(1), &mut inboxes);
            self.written_at_home(print, now);
            self.check();
        }
        let waiting = self.fabric.waiting_for();
        assert!(waiting.is_empty(), "{waiting:?}");
        assert!(
            self.fabric.errors().is_empty(),
            "{:?}",
            self.fabric.errors()
        );
        let shared = self.shared.borrow();
        let left = shared.done.iter().position(|&done| !done);
        assert!(
            left.is_none(),
            "{:?} is never done",
            left.map(|index| operations[index])
        );
        for core in &self.cores {
            assert_eq!(core.instruction.outstanding() + core.data.outstanding(), 0);
            assert!(core.second.as_ref().is_none_or(SecondLevel::is_quiet));
        }
    }

    /// Handles DMA writes that have just been performed.
    fn written_at_home(&mut self, print: bool, now: Time) {
        for (agent, line, data) in std::mem::take(&mut self.fabric.written_at_home) {
            let mut shared = self.shared.borrow_mut();
            let agent = self
                .agents
                .iter()
                .position(|&other| other == agent)
                .unwrap();
            let actor = self.cores.len() + agent;
            // An agent's accesses to one line are done in order.
            let index = self
                .operations
                .iter()
                .enumerate()
                .position(|(index, operation)| {
                    operation.actor == actor
                        && operation.line == line
                        && shared.begun[index].is_some()
                        && !shared.done[index]
                });
            let index = index.unwrap();
            if print {
                println!("{now}: {:?} is performed", self.operations[index]);
            }
            if self.sabotage == Sabotage::LosesDma(line) {
                continue;
            }
            let before = shared.golden.last(line);
            assert_eq!(data, written(&before, index, &self.operations[index]));
            shared.golden.write(line, &before, data);
        }
    }

    fn check(&self) {
        let mut shared = self.shared.borrow_mut();
        let directory = self.fabric.directory();
        let mut holders: BTreeMap<LineAddress, (u32, u32)> = BTreeMap::new();
        let coherent = self.cores.iter().flat_map(|core| match &core.second {
            Some(second) => vec![(second.cache(), Some(&core.data))],
            None => vec![(&core.instruction, None), (&core.data, None)],
        });
        let agents = self.fabric.private_caches().map(|cache| (cache, None));
        for (cache, newer) in coherent.chain(agents) {
            for (line, state, data) in cache.lines() {
                let id = cache.id();
                let newer = newer.and_then(|first| first.find(line).map(|slot| first.line(slot)));
                let last = shared.golden.last(line);
                assert_eq!(
                    *newer.unwrap_or(data),
                    last,
                    "{id:?} has an older write of {line:?}"
                );
                let Some(&(sharers, owner, busy)) = directory.get(&line) else {
                    panic!("{id:?} holds {line:?}, which is not in the directory");
                };
                let counts = holders.entry(line).or_default();
                let known = if state == State::Shared {
                    counts.1 += 1;
                    // As owner: its upgrade is in flight.
                    sharers & (1 << id.0) != 0 || owner == Some(id)
                } else {
                    counts.0 += 1;
                    owner == Some(id)
                };
                assert!(
                    busy || known,
                    "the home does not know that {id:?} has {line:?}"
                );
            }
        }
        for (line, (owners, sharers)) in holders {
            assert!(
                owners == 0 || owners == 1 && sharers == 0,
                "{line:?} has {owners} writers and {sharers} readers"
            );
        }
        let lines: Vec<LineAddress> = shared.golden.versions.keys().copied().collect();
        for line in lines {
            let owned = directory
                .get(&line)
                .is_some_and(|&(_, owner, busy)| busy || owner.is_some());
            if !owned {
                let home = self.fabric.ram().read_line(line);
                assert_eq!(home, shared.golden.last(line), "{line:?} is older at home");
            }
        }
        for core in &self.cores {
            let Some(second) = &core.second else { continue };
            for first in [&core.instruction, &core.data] {
                for (line, state, data) in first.lines() {
                    let slot = second.cache().find(line);
                    let Some(slot) = slot else {
                        panic!("{:?} has {line:?} without its second level", first.id());
                    };
                    let fetched = core.instruction.find(line).is_some();
                    assert!(
                        state == State::Shared || second.cache().writable(slot) && !fetched,
                        "{:?} may write {line:?}, which its second level or its other half may not",
                        first.id()
                    );
                    let last = shared.golden.last(line);
                    assert_eq!(
                        *data,
                        last,
                        "{:?} has an older write of {line:?}",
                        first.id()
                    );
                }
            }
        }
    }
}

impl System {
    /// Tiny caches, a mesh of any shape, and any speed of its parts.
    fn random(random: &mut Random, second_level: bool, inclusion: Inclusion, dma: bool) -> System {
        let mut choose = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let shapes = [(2, 2), (3, 1), (4, 2), (1, 2), (8, 1), (1, 1)];
        let (columns, rows) = shapes[choose(&[0, 1, 2, 3, 4, 5]) as usize];
        let tiles = columns * rows;
        let ways = choose(&[1, 2, 4]);
        let directory_ways = choose(&[1, 2, 4]);
        let first_ways = choose(&[1, 2]);
        let cache = |ways: u64, sets: u64, hit_latency_cycles, mshrs| CacheSpec {
            size_bytes: ways * sets * 64,
            ways: ways as u32,
            hit_latency_cycles,
            mshrs: mshrs as u32,
            ..CacheSpec::default()
        };
        let first_level = cache(first_ways, choose(&[1, 2]), 3, choose(&[1, 2, 3]));
        let second_level = second_level.then(|| {
            // At least the capacity of both first levels.
            let ways = first_ways * choose(&[1, 2]);
            cache(
                ways,
                choose(&[1, 2]),
                choose(&[2, 5, 9]),
                choose(&[1, 2, 4]),
            )
        });
        let mut system = System {
            fabric: FabricSpec {
                cores: (1 + choose(&[0, 1, 2, 3, 5]) as usize).min(tiles),
                sockets: 1,
                socket_link: SocketLinkSpec {
                    latency_ns: 10.0,
                    bandwidth_gb_per_s: 10.0,
                },
                clock_ghz: 2.0,
                forward_latency_cycles: choose(&[1, 4]),
                last_level: LastLevelSpec {
                    size_bytes_per_bank: ways * choose(&[1, 2]) * 64,
                    ways: ways as u32,
                    latency_cycles: choose(&[1, 6]),
                    inclusion,
                    directory: (inclusion == Inclusion::NonInclusive).then(|| DirectorySpec {
                        entries_per_bank: directory_ways * choose(&[1, 2]),
                        ways: directory_ways as u32,
                        ..DirectorySpec::default()
                    }),
                    ..LastLevelSpec::default()
                },
                mesh: MeshSpec {
                    columns,
                    rows,
                    hop_latency_cycles: 3,
                    link_bytes: choose(&[4, 16, 128]),
                    local_latency_cycles: 1,
                },
                memory: MemorySpec {
                    controllers: 2.min(tiles),
                    latency_ns: choose(&[1, 30]) as f64,
                    bandwidth_gb_per_s: 20.0,
                    dram: None,
                    cache: None,
                },
                perfect_cache: PerfectCache::None,
            },
            first_level,
            second_level,
            data_prefetcher: DataPrefetcherKind::None,
            instruction_prefetcher: SequentialPrefetcherKind::None,
            prefetcher: PrefetcherKind::None,
            cached_agents: choose(&[0, 1, 2]) as usize,
            dma_agents: if dma { choose(&[1, 2]) as usize } else { 0 },
            jitter_cycles: choose(&[0, 0, 10, 100, 400]),
            jitter_seed: random.next(),
            sabotage: Sabotage::Nothing,
        };
        let mut random = Random(system.jitter_seed);
        system.fabric.memory.dram = [None, None, Some(PagePolicy::Open), Some(PagePolicy::Closed)]
            [random.below(4) as usize]
            .map(small_dram);
        if random.below(2) == 0 {
            let kinds = [
                PrefetcherKind::NextLine,
                PrefetcherKind::Streamer,
                PrefetcherKind::AdjacentLine,
                PrefetcherKind::StreamerAndAdjacentLine,
            ];
            system.prefetcher = kinds[random.below(4) as usize];
        }
        if random.below(2) == 0 {
            let kinds = [DataPrefetcherKind::NextLine, DataPrefetcherKind::Stride];
            system.data_prefetcher = kinds[random.below(2) as usize];
        }
        if random.below(2) == 0 {
            system.instruction_prefetcher = SequentialPrefetcherKind::NextLine;
        }
        if random.below(2) == 0 {
            system.fabric.last_level.prefetcher = SequentialPrefetcherKind::NextLine;
        }
        let mut replacement = || Replacement::ALL[random.below(4) as usize];
        system.first_level.replacement = replacement();
        system.fabric.last_level.replacement = replacement();
        if let Some(second) = &mut system.second_level {
            second.replacement = replacement();
        }
        if let Some(directory) = &mut system.fabric.last_level.directory {
            directory.replacement = replacement();
        }
        if random.below(4) == 0 {
            system.fabric.memory.cache = Some(small_memory_cache());
        }
        let last_level = &mut system.fabric.last_level;
        let io_ways = 1 + random.below(u64::from(last_level.ways)) as u32;
        last_level.io_ways = (random.below(2) == 0).then_some(io_ways);
        system
    }

    /// The same with two sockets, each with such a mesh.
    fn with_two_sockets(mut self) -> System {
        self.fabric.sockets = 2;
        self.fabric.cores = self.fabric.cores.next_multiple_of(2);
        self
    }

    /// The same with caches of one line on a long mesh: a line moves between neighbours, and is
    /// evicted, before its distant home is notified.
    fn contended(self) -> System {
        let one_line = |spec: CacheSpec| CacheSpec {
            size_bytes: 64,
            ways: 1,
            ..spec
        };
        let mut system = self;
        system.first_level = one_line(system.first_level);
        system.second_level = system.second_level.map(one_line);
        let mesh = &mut system.fabric.mesh;
        (mesh.columns, mesh.rows, mesh.link_bytes) = (8, 1, 128);
        system.fabric.cores = 8;
        system.fabric.last_level.size_bytes_per_bank = 8 * 64;
        system.fabric.last_level.ways = 4;
        system.fabric.memory.latency_ns = 1.0;
        system.jitter_cycles = system.jitter_cycles.max(100);
        system
    }

    fn operations(&self, random: &mut Random, count: usize) -> Vec<Operation> {
        let tiles = (self.fabric.mesh.columns * self.fabric.mesh.rows) as u64;
        let lines = [1, 2, 4, 8][random.below(4) as usize];
        // All with one home, or spread over the homes.
        let stride = [1, tiles][random.below(2) as usize];
        let think_cycles = [1, 6, 30, 200][random.below(4) as usize];
        let writes = 1 + random.below(3);
        let cores = self.fabric.cores;
        let actors = cores + self.cached_agents + self.dma_agents;
        let mut cycle = 1;
        let clock = Clock::from_ghz(self.fabric.clock_ghz);
        let operation = |_| {
            cycle += random.below(think_cycles);
            let actor = random.below(actors as u64) as usize;
            let write = random.below(4) < writes;
            let other = random.below(4);
            let kind = if actor < cores {
                match (write, other) {
                    (true, 0) => Kind::HoldingStore,
                    (true, _) => Kind::Store,
                    (false, 0) => Kind::Fetch,
                    (false, _) => Kind::Load,
                }
            } else if actor < cores + self.cached_agents {
                match (write, other) {
                    (true, _) => Kind::AgentWrite,
                    (false, 0) => Kind::ReadAtHome,
                    (false, _) => Kind::AgentRead,
                }
            } else {
                match (write, other) {
                    (true, 0) => Kind::DmaWrite(false, true),
                    (true, 1) => Kind::DmaWrite(false, false),
                    (true, 2) => Kind::DmaWrite(true, true),
                    (true, _) => Kind::DmaWrite(true, false),
                    (false, 0) => Kind::ReadAtHome,
                    (false, _) => Kind::DmaRead,
                }
            };
            Operation {
                at: clock.time(cycle),
                actor,
                kind,
                line: LineAddress(MEMORY / 64 + random.below(lines) * stride),
                word: random.below(8) as usize,
            }
        };
        (0..count).map(operation).collect()
    }

    fn fails(&self, operations: &[Operation]) -> bool {
        SILENT.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| Run::new(self, operations).run(false)));
        SILENT.set(false);
        outcome.is_err()
    }

    /// Removes operations from a failing list while it still fails. Sequential operations without
    /// jitter are easier to understand, and more of them can be removed.
    fn shrink(&self, mut operations: Vec<Operation>) -> (System, Vec<Operation>) {
        let steady = System {
            jitter_cycles: 0,
            ..self.clone()
        };
        if self.jitter_cycles > 0 && steady.fails(&operations) {
            return steady.shrink(operations);
        }
        let mut spread = operations.clone();
        for (operation, microseconds) in spread.iter_mut().zip(1..) {
            operation.at = Time::from_ns(1000.0 * f64::from(microseconds));
        }
        if self.fails(&spread) {
            operations = spread;
        }
        let mut part = operations.len().div_ceil(2);
        loop {
            let before = operations.len();
            let mut start = 0;
            while start < operations.len() {
                let mut fewer = operations.clone();
                fewer.drain(start..(start + part).min(operations.len()));
                if self.fails(&fewer) {
                    operations = fewer;
                } else {
                    start += part;
                }
            }
            if part == 1 && operations.len() == before {
                return (self.clone(), operations);
            }
            part = part.div_ceil(2);
        }
    }

    /// Runs the operations; if they fail, reports the shortest failing list, and fails.
    fn test(&self, operations: &[Operation]) {
        if self.fails(operations) {
            println!("shrinking a failure of {} operations", operations.len());
            let (system, shrunk) = self.shrink(operations.to_vec());
            println!("{system:#?}");
            trace(true);
            Run::new(&system, &shrunk).run(true);
        }
    }
}

thread_local! {
    /// Expected failures of this thread are not printed.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the output of expected failures.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !SILENT.get() {
                usual(panic);
            }
        }));
    });
}

const CONFIGURATIONS: [(bool, Inclusion, bool); 8] = [
    (false, Inclusion::Inclusive, false),
    (false, Inclusion::Inclusive, true),
    (false, Inclusion::NonInclusive, false),
    (false, Inclusion::NonInclusive, true),
    (true, Inclusion::Inclusive, false),
    (true, Inclusion::Inclusive, true),
    (true, Inclusion::NonInclusive, false),
    (true, Inclusion::NonInclusive, true),
];

/// The same with accesses that all hit in the last-level cache, or in the first level.
#[test]
fn random_operations_are_coherent_with_perfect_caches() {
    for perfect_cache in [PerfectCache::LastLevel, PerfectCache::FirstLevel] {
        for (second_level, inclusion, dma) in CONFIGURATIONS {
            for seed in seeds(60) {
                let mut random = Random(seed);
                let mut system = System::random(&mut random, second_level, inclusion, dma);
                system.fabric.perfect_cache = perfect_cache;
                let operations = system.operations(&mut random, 150);
                system.test(&operations);
            }
        }
    }
}

/// Runs each configuration, each with its own seed.
#[test]
fn random_operations_are_coherent_at_every_step() {
    hush();
    for (second_level, inclusion, dma) in CONFIGURATIONS {
        for seed in seeds(500) {
            let mut random = Random(seed);
            let mut system = System::random(&mut random, second_level, inclusion, dma);
            if seed % 4 == 3 {
                system = system.contended();
            }
            if seed % 3 == 2 {
                system = system.with_two_sockets();
            }
            let operations = system.operations(&mut random, 150);
            system.test(&operations);
        }
    }
    let missing = report(&[
        INCLUSIVE_HOME,
        NON_INCLUSIVE_HOME,
        PRIVATE_CACHE,
        SECOND_LEVEL,
    ]);
    assert!(missing.is_empty(), "never reached: {missing:#?}");
    let reached = places_reached();
    for place in PLACES.into_iter().chain([
        "a line that L2 had is gone when the look-up is over",
        "data before the PutAck of the line's last eviction",
        "load behind an Invalidate of the line that is under way",
    ]) {
        assert!(reached.contains(place), "never reached: {place}");
    }
}

/// The tester finds deliberate errors, and reports short lists.
#[test]
fn a_failure_shrinks_to_a_short_list() {
    hush();
    let mut random = Random(1);
    let line = LineAddress(MEMORY / 64);
    // One operation reads the line, perhaps another makes the first core a sharer, and one writes
    // it: three operations, and some more if their time is needed. A lost DMA write is detected at
    // once.
    for (sabotage, shortest) in [
        (Sabotage::KeepsInvalidated(line), 3),
        (Sabotage::LosesDma(line), 1),
    ] {
        let mut lengths = Vec::new();
        for _ in 0..20 {
            let system = System {
                sabotage,
                ..System::random(&mut random, false, Inclusion::Inclusive, true)
            };
            let operations = system.operations(&mut random, 150);
            if system.fails(&operations) {
                let (system, shrunk) = system.shrink(operations);
                assert!(system.fails(&shrunk));
                assert!(shrunk.len() <= 12, "{sabotage:?}: {shrunk:#?}");
                lengths.push(shrunk.len());
            }
        }
        assert!(lengths.len() >= 5, "{sabotage:?} is rarely found");
        assert!(
            lengths.iter().any(|&length| length <= shortest),
            "{sabotage:?}: {lengths:?}"
        );
    }
}
