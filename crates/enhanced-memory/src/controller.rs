//! At a memory controller: it executes chains.

use crate::chain::{Chain, From, Step, Work};
use crate::core_port::{CHAIN, WITHDRAW};
use crate::counts::SharedCommon;
use crate::spec::EnhancedMemorySpec;
use fabric::{
    Agent, AgentContext, Attachment, CacheId, Clock, CoreId, LINE_BYTES, LineAddress, LineData,
    MemoryAccess, ReplyTo, Request, RequestKind, Source, Supply,
};
use riscv::{Class, branch_taken, evaluate_integer};
use std::collections::BTreeMap;

/// A load of this counter or above is predicted to miss the last-level cache.
const MISSES: u8 = 4;
const MAXIMUM: u8 = 7;

/// Tokens of loads: the context's number times this, plus the number of the instruction.
const STEPS: u64 = 64;

/// How far an instruction of a chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waits,
    /// A load, on its way.
    Issued {
        issue: u64,
        address: u64,
    },
    Done {
        issue: u64,
        value: u64,
        ready: u64,
    },
}

impl Progress {
    fn issue(self) -> Option<u64> {
        match self {
            Progress::Waits => None,
            Progress::Issued { issue, .. } | Progress::Done { issue, .. } => Some(issue),
        }
    }
}

/// Why a chain ends before its last instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Mispredicted,
    WithoutMemory,
    Invalidated,
}

/// A chain that waits for its line, or is being executed.
#[derive(Debug)]
struct Context {
    number: u64,
    reply_to: ReplyTo,
    chain: Chain,
    /// The value of the load that it begins with, and the cycle from which on it may be used.
    source: Option<(u64, u64)>,
    progress: Vec<Progress>,
    stopped: Option<Reason>,
}

/// A load on its way.
#[derive(Clone, Copy, Debug)]
struct Access {
    token: u64,
    line: LineAddress,
    started: u64,
    core: CoreId,
    counter: usize,
    /// Its value has been seen as it came from memory.
    is_known: bool,
    is_ahead: bool,
}

/// The part of a memory controller that executes chains.
#[derive(Debug)]
pub struct Controller {
    common: SharedCommon,
    number: usize,
    clock: Clock,
    /// Its cache.
    cache: CacheId,
    width: u8,
    stations: usize,
    hit_latency: u64,
    contexts: Vec<Option<Context>>,
    next_context: u64,
    /// How many instructions issue in a cycle.
    issues: BTreeMap<u64, u8>,
    accesses: Vec<Access>,
    /// For each core, by program counter: whether loads miss the last-level cache.
    counters: Vec<Vec<u8>>,
    /// The cores, as bits, that have been supplied with values of a line since it was last lost.
    supplied: BTreeMap<LineAddress, u64>,
}

state::unsaved!(Controller);

impl Controller {
    /// At memory controller `number` of a server with so many cores. `cache` is the number of its
    /// cache.
    pub fn new(
        spec: &EnhancedMemorySpec,
        common: &SharedCommon,
        (number, cores): (usize, usize),
        clock: Clock,
        cache: CacheId,
    ) -> Controller {
        Controller {
            common: common.clone(),
            number,
            clock,
            cache,
            width: spec.width,
            stations: spec.reservation_stations,
            hit_latency: spec.cache_latency_cycles,
            contexts: (0..spec.contexts).map(|_| None).collect(),
            next_context: 0,
            issues: BTreeMap::new(),
            accesses: Vec::new(),
            counters: vec![vec![MISSES; spec.miss_counters]; cores],
            supplied: BTreeMap::new(),
        }
    }

    /// Where it is attached, on `tile`.
    pub fn attachment(spec: &EnhancedMemorySpec, number: usize, tile: usize) -> Attachment {
        Attachment {
            tile,
            cache: Some(spec.cache()),
            at_memory: Some(number),
            ..Attachment::default()
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        let is_it = |one: &Option<Context>| one.as_ref().is_some_and(|one| one.number == number);
        self.contexts.iter().position(is_it)
    }

    /// The first cycle from `earliest` on in which an instruction can issue.
    fn issue(&mut self, now: u64, earliest: u64) -> u64 {
        self.issues = self.issues.split_off(&now);
        let mut cycle = earliest.max(now);
        loop {
            let taken = self.issues.entry(cycle).or_default();
            if *taken < self.width {
                *taken += 1;
                return cycle;
            }
            cycle += 1;
        }
    }

    /// A core sends a chain.
    fn begin(&mut self, context: &mut AgentContext<'_>, reply_to: ReplyTo) {
        let key = (reply_to.core.0, reply_to.token);
        let Some(chain) = self.common.borrow_mut().chains.remove(&key) else {
            // Withdrawn by a message that has overtaken it.
            return;
        };
        let Some(place) = self.contexts.iter().position(Option::is_none) else {
            self.common.borrow_mut().counts.refused += 1;
            context.supply(reply_to, Supply::Ended);
            return;
        };
        self.contexts[place] = Some(Context {
            number: self.next_context,
            reply_to,
            progress: vec![Progress::Waits; chain.steps.len()],
            chain,
            source: None,
            stopped: None,
        });
        self.next_context += 1;
    }

    /// A core does not want a chain any more.
    fn withdraw(&mut self, core: CoreId, token: u64) {
        let mut common = self.common.borrow_mut();
        let mut has_begun = false;
        if common.chains.remove(&(core.0, token)).is_none() {
            let is_it = |one: &Option<Context>| {
                let of = one.as_ref().map(|one| one.reply_to);
                of.is_some_and(|of| of.core == core && of.token == token)
            };
            let Some(place) = self.contexts.iter().position(is_it) else {
                return;
            };
            let context = self.contexts[place].take();
            has_begun = context.is_some_and(|context| context.source.is_some());
        }
        *match has_begun {
            true => &mut common.counts.undone,
            false => &mut common.counts.too_late,
        } += 1;
    }

    /// Executes what can be executed of a chain, and ends it if nothing is left.
    fn go_on(&mut self, place: usize, context: &mut AgentContext<'_>) {
        let Some(mut one) = self.contexts[place].take() else {
            return;
        };
        let now = self.clock.cycle_at_or_after(context.now());
        let mut number = 0;
        while number < one.chain.steps.len() {
            if one.progress[number] == Progress::Waits
                && !self.execute(&mut one, number, now, context)
            {
                break;
            }
            number += 1;
        }
        let is_on_its_way = |progress: &Progress| matches!(progress, Progress::Issued { .. });
        if one.progress.iter().any(is_on_its_way) {
            self.contexts[place] = Some(one);
            return;
        }
        let counts = &mut self.common.borrow_mut().counts;
        *match one.stopped {
            None => &mut counts.completed,
            Some(Reason::Mispredicted) => &mut counts.mispredicted,
            Some(Reason::WithoutMemory) => &mut counts.without_memory,
            Some(Reason::Invalidated) => &mut counts.invalidated,
        } += 1;
        context.supply(one.reply_to, Supply::Ended);
    }

    /// Issues an instruction if its operands are known; false if the instructions behind it have no
    /// reservation station yet, or are not wanted.
    fn execute(
        &mut self,
        one: &mut Context,
        number: usize,
        now: u64,
        context: &mut AgentContext<'_>,
    ) -> bool {
        let mut earliest = 0;
        if let Some(entered) = number.checked_sub(self.stations) {
            // It enters when but `stations - 1` of the older ones have issued.
            let older = one.progress[..number].iter();
            let mut issues: Vec<u64> = older.filter_map(|progress| progress.issue()).collect();
            issues.sort_unstable();
            let Some(&issue) = issues.get(entered) else {
                return false;
            };
            earliest = issue + 1;
        }
        let Step {
            instruction,
            pc,
            operands,
            work,
        } = one.chain.steps[number];
        let mut values = [0; 2];
        for (value, from) in values.iter_mut().zip(operands) {
            let (known, ready) = match from {
                From::Value(value) => (value, 0),
                From::Source => match one.source {
                    Some(source) => source,
                    None => return true,
                },
                From::Step(step) => match one.progress[step] {
                    Progress::Done { value, ready, .. } => (value, ready),
                    _ => return true,
                },
            };
            (*value, earliest) = (known, earliest.max(ready));
        }
        let [a, b] = values;
        let issue = self.issue(now, earliest);
        self.common.borrow_mut().counts.executed += 1;
        let done = |value| Progress::Done {
            issue,
            value,
            ready: issue + 1,
        };
        match work {
            Work::Arithmetic => {
                one.progress[number] = done(evaluate_integer(&instruction, pc, a, b));
            }
            Work::Branch(predicted) => {
                let link = pc.wrapping_add(u64::from(instruction.length));
                one.progress[number] = done(link);
                let is_taken =
                    instruction.class != Class::Branch || branch_taken(instruction.operation, a, b);
                let next = match is_taken {
                    true => instruction.jump_target(pc, a),
                    false => link,
                };
                if next != predicted {
                    one.stop(number + 1, Reason::Mispredicted);
                    return false;
                }
            }
            Work::Load(_) => {
                let address = instruction.address(a);
                one.progress[number] = Progress::Issued { issue, address };
                let token = one.number * STEPS + number as u64;
                context.wake(self.clock.time(issue), token);
            }
        }
        true
    }

    /// A load looks into the cache.
    fn look_up(&mut self, place: usize, step: usize, context: &mut AgentContext<'_>) {
        let Some(one) = &mut self.contexts[place] else {
            return;
        };
        let Some(&Progress::Issued { address, .. }) = one.progress.get(step) else {
            return;
        };
        let instruction = one.chain.steps[step].instruction;
        let bytes = u64::from(instruction.access_bytes());
        if !context.in_memory(address) || address % LINE_BYTES as u64 + bytes > LINE_BYTES as u64 {
            one.stop(step, Reason::WithoutMemory);
            self.go_on(place, context);
            return;
        }
        let core = one.reply_to.core;
        let Some(counters) = self.counters.get(usize::from(core.0)) else {
            return;
        };
        let counter = (one.chain.steps[step].pc >> 1) as usize % counters.len();
        let is_ahead = counters[counter] >= MISSES;
        let token = one.number * STEPS + step as u64;
        self.accesses.push(Access {
            token,
            line: LineAddress::of(address),
            started: self.clock.cycle_at_or_after(context.now()),
            core,
            counter,
            is_known: false,
            is_ahead,
        });
        let access = match is_ahead {
            true => MemoryAccess::ReadAhead { address },
            false => MemoryAccess::Read { address },
        };
        let counts = &mut self.common.borrow_mut().counts;
        counts.loads += 1;
        counts.ahead += u64::from(is_ahead);
        context.access(access, token);
    }

    /// A load has missed the last-level cache, or not.
    fn train(&mut self, access: &Access, misses: bool) {
        if let Some(counters) = self.counters.get_mut(usize::from(access.core.0)) {
            let counter = &mut counters[access.counter];
            *counter = match misses {
                true => MAXIMUM.min(*counter + 1),
                false => counter.saturating_sub(1),
            };
        }
    }

    /// The line of a load is known: the core gets the value, and the chain goes on.
    fn loaded(
        &mut self,
        access: &Access,
        data: &LineData,
        source: Source,
        context: &mut AgentContext<'_>,
    ) {
        let Some(place) = self.place(access.token / STEPS) else {
            return;
        };
        let Some(one) = &mut self.contexts[place] else {
            return;
        };
        let number = (access.token % STEPS) as usize;
        let Some(&Progress::Issued { issue, address }) = one.progress.get(number) else {
            return;
        };
        let step = one.chain.steps[number];
        let Work::Load(load) = step.work else {
            return;
        };
        let offset = (address % LINE_BYTES as u64) as usize;
        let value = data.read(offset, usize::from(step.instruction.access_bytes()));
        one.progress[number] = Progress::Done {
            issue,
            value: step.instruction.load_value(value),
            ready: self.clock.cycle_at_or_after(context.now()),
        };
        let supply = Supply::Value {
            place: load,
            address,
            value,
            source,
        };
        context.supply(one.reply_to, supply);
        *self.supplied.entry(access.line).or_default() |= 1 << access.core.0;
        self.go_on(place, context);
    }
}

impl Context {
    /// Nothing from instruction `number` on is executed any more.
    fn stop(&mut self, number: usize, reason: Reason) {
        self.chain.steps.truncate(number);
        self.progress.truncate(number);
        self.stopped = Some(reason);
    }
}

impl Agent for Controller {
    fn name(&self) -> String {
        format!("the enhanced memory controller {}", self.number)
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        match request.kind {
            RequestKind::Custom { code: CHAIN, .. } => self.begin(context, request.reply_to),
            RequestKind::Custom {
                code: WITHDRAW,
                arguments: [token, _],
            } => self.withdraw(request.reply_to.core, token),
            _ => context.refuse(request.reply_to),
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if let Some(place) = self.place(token / STEPS) {
            self.look_up(place, (token % STEPS) as usize, context);
        }
    }

    fn line_from_memory(
        &mut self,
        context: &mut AgentContext<'_>,
        line: LineAddress,
        reader: CacheId,
        data: LineData,
    ) {
        if reader == self.cache {
            let is_of_it = |one: &&mut Access| one.line == line && !one.is_known;
            let mut known = Vec::new();
            for access in self.accesses.iter_mut().filter(is_of_it) {
                access.is_known = true;
                known.push(*access);
            }
            for access in known {
                self.common.borrow_mut().counts.from_memory += 1;
                self.train(&access, true);
                self.loaded(&access, &data, Source::Memory, context);
            }
            return;
        }
        let now = self.clock.cycle_at_or_after(context.now());
        for place in 0..self.contexts.len() {
            let Some(one) = &mut self.contexts[place] else {
                continue;
            };
            let is_it = one.chain.line == line && CacheId::data(one.reply_to.core) == reader;
            if !is_it || one.source.is_some() {
                continue;
            }
            let offset = (one.chain.address % LINE_BYTES as u64) as usize;
            let raw = data.read(offset, usize::from(one.chain.source.access_bytes()));
            one.source = Some((one.chain.source.load_value(raw), now));
            self.common.borrow_mut().counts.begun += 1;
            context.supply(one.reply_to, Supply::Begun);
            self.go_on(place, context);
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let is_it = |access: &Access| access.token == token;
        let Some(place) = self.accesses.iter().position(is_it) else {
            return;
        };
        let access = self.accesses.remove(place);
        if access.is_known {
            return;
        }
        if context.is_too_old() {
            if let Some(place) = self.place(token / STEPS) {
                if let Some(one) = &mut self.contexts[place] {
                    one.stop((token % STEPS) as usize, Reason::Invalidated);
                }
                self.go_on(place, context);
            }
            return;
        }
        let now = self.clock.cycle_at_or_after(context.now());
        if now == access.started + self.hit_latency {
            self.common.borrow_mut().counts.cache_hits += 1;
        } else {
            self.train(&access, false);
            let counts = &mut self.common.borrow_mut().counts;
            counts.on_chip += 1;
            counts.ahead_on_chip += u64::from(access.is_ahead);
        }
        self.loaded(&access, &data, Source::LastLevel, context);
    }

    fn invalidated(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        let cores = self.supplied.remove(&line).unwrap_or_default();
        for core in (0..64).filter(|core| cores & 1 << core != 0) {
            context.tell_line_lost(CoreId(core), line);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let contexts = self.contexts.iter().flatten();
        contexts
            .filter(|one| one.source.is_none())
            .map(|one| {
                let (line, core) = (one.chain.line.base(), one.reply_to.core.0);
                format!("waits for the line at {line:#x} for a chain of core {core}.")
            })
            .collect()
    }
}
