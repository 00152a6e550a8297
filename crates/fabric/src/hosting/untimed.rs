//! Agents without a fabric, for functional runs: their actions take no time.

use super::agent::Effect;
use crate::{
    AddressRange, Agent, AgentContext, AgentId, CoreId, LINE_BYTES, LineAddress, LineData,
    MemoryAccess, Ram, ReplyTo, Request, RequestKind, Time,
};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

/// The memory of agents without a fabric. Addresses without memory read as zeros and ignore writes.
pub trait UntimedMemory {
    /// Reads bytes.
    fn read(&mut self, address: u64, bytes: &mut [u8]);
    /// Writes bytes.
    fn write(&mut self, address: u64, bytes: &[u8]);
}

/// An interrupt line of a hart that an agent has raised or lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineChange {
    /// The hart.
    pub hart: u16,
    /// Its bit in `mip`.
    pub bit: u8,
    /// Whether it was raised.
    pub level: bool,
}

/// Agents and their actions. Their accesses, answers and interrupts take no time; only alarms wait.
/// Lines have no owners: a store to a snooped line counts as a grant of its ownership. Stores are
/// not observed.
#[derive(Default)]
pub struct UntimedAgents {
    agents: Vec<(Box<dyn Agent>, Option<AddressRange>)>,
    /// Lines and the agents that snoop them.
    snoops: Vec<(AddressRange, AgentId)>,
    /// The ranges of memory; the contents are elsewhere.
    map: Ram,
    /// The latest time. It never goes back, although the times of harts that take turns do.
    now: Time,
    wanted: VecDeque<(usize, Effect)>,
    /// Agents and their tokens, by time and then by order of request.
    alarms: BTreeMap<(Time, u64), (usize, u64)>,
    alarms_set: u64,
    changes: Vec<LineChange>,
    answer: Option<Result<u64, ()>>,
}

impl UntimedAgents {
    /// No agents yet; `map` gives the ranges of memory.
    pub fn new(map: Ram) -> UntimedAgents {
        UntimedAgents {
            map,
            ..UntimedAgents::default()
        }
    }

    /// Adds an agent that owns some addresses.
    pub fn attach(&mut self, agent: Box<dyn Agent>, owns: Option<AddressRange>) -> AgentId {
        self.agents.push((agent, owns));
        AgentId((self.agents.len() - 1) as u16)
    }

    /// Notifies an agent of stores in `range`.
    pub fn snoop(&mut self, range: AddressRange, id: AgentId) {
        self.snoops.push((range, id));
    }

    /// Whether an agent is notified of stores to this address.
    pub fn is_snooped(&self, address: u64) -> bool {
        let mut snoops = self.snoops.iter();
        snoops.any(|(range, _)| range.contains(address))
    }

    /// Notifies agents of a core's store at `address`, which is snooped.
    pub fn stored(&mut self, now: Time, address: u64, memory: &mut impl UntimedMemory) {
        self.now = self.now.max(now);
        for index in 0..self.snoops.len() {
            let (range, id) = self.snoops[index];
            if range.contains(address) {
                self.call(usize::from(id.0), |agent, context| {
                    agent.ownership_granted(context, LineAddress::of(address));
                });
                self.settle(memory);
            }
        }
    }

    /// The agent, if it is of this type.
    pub fn agent_mut<A: 'static>(&mut self, id: AgentId) -> Option<&mut A> {
        let (agent, _) = self.agents.get_mut(usize::from(id.0))?;
        let agent: &mut dyn Any = agent.as_mut();
        agent.downcast_mut()
    }

    /// The agent that owns an address.
    pub fn owner(&self, address: u64) -> Option<AgentId> {
        let owns = |(_, range): &(_, Option<AddressRange>)| {
            range.is_some_and(|range| range.contains(address))
        };
        let index = self.agents.iter().position(owns)?;
        Some(AgentId(index as u16))
    }

    /// A request of a core to an agent. `Err` if it is refused; `None` if it was not answered, and
    /// never will be.
    pub fn request(
        &mut self,
        now: Time,
        core: CoreId,
        agent: AgentId,
        kind: RequestKind,
        memory: &mut impl UntimedMemory,
    ) -> Option<Result<u64, ()>> {
        self.now = self.now.max(now);
        self.answer = None;
        let reply_to = ReplyTo {
            core,
            hart: core.0,
            token: 0,
            tile: None,
        };
        let request = Request { reply_to, kind };
        self.call(usize::from(agent.0), |agent, context| {
            agent.request(context, request);
        });
        self.settle(memory);
        self.answer.take()
    }

    /// The time of the next alarm.
    pub fn next_alarm(&self) -> Option<Time> {
        self.alarms.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Fires the alarms that are due at `now`.
    pub fn ring_alarms(&mut self, now: Time, memory: &mut impl UntimedMemory) {
        while let Some(entry) = self.alarms.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), (agent, token)) = entry.remove_entry();
            self.now = self.now.max(at);
            self.call(agent, |agent, context| agent.timer(context, token));
            self.settle(memory);
        }
    }

    /// The interrupt lines that have changed since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<LineChange> {
        std::mem::take(&mut self.changes)
    }

    /// The events that the agents wait for, one sentence each.
    pub fn waiting_for(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (agent, _) in &self.agents {
            let name = agent.name();
            let waits = agent.waiting_for();
            sentences.extend(waits.iter().map(|what| format!("{name}: {what}")));
        }
        sentences
    }

    fn call(&mut self, index: usize, what: impl FnOnce(&mut dyn Agent, &mut AgentContext<'_>)) {
        let Some((agent, _)) = self.agents.get_mut(index) else {
            return;
        };
        let mut effects = Vec::new();
        let mut context = AgentContext {
            too_old: false,
            now: self.now,
            minimum_delivery_latency: Time::ZERO,
            ram: &self.map,
            effects: &mut effects,
        };
        what(agent.as_mut(), &mut context);
        let effects = effects.into_iter().map(|effect| (index, effect));
        self.wanted.extend(effects);
    }

    /// Carries out the actions of agents, and the actions that result from them.
    fn settle(&mut self, memory: &mut impl UntimedMemory) {
        while let Some((agent, effect)) = self.wanted.pop_front() {
            match effect {
                Effect::Reply { result, .. } => self.answer = Some(result),
                Effect::Interrupt {
                    hart, bit, level, ..
                } => self.changes.push(LineChange { hart, bit, level }),
                // There is no cache, and no core has an extension.
                Effect::WarmLastLevel { .. }
                | Effect::NoteSharers { .. }
                | Effect::Notify { .. }
                | Effect::Stash { .. }
                | Effect::Supply { .. }
                | Effect::TellLineLost { .. } => {}
                Effect::PutIntoMemory { line, data } => memory.write(line.base(), &data.0),
                Effect::Wake { at, token } => {
                    self.alarms_set += 1;
                    let key = (at.max(self.now), self.alarms_set);
                    self.alarms.insert(key, (agent, token));
                }
                Effect::WakeOther { agent, at, token } => {
                    self.alarms_set += 1;
                    let key = (at.max(self.now), self.alarms_set);
                    self.alarms.insert(key, (usize::from(agent.0), token));
                }
                Effect::Word { token, .. } => {
                    self.call(agent, |agent, context| agent.timer(context, token));
                }
                Effect::Access { access, token } => {
                    let data = perform(access, memory);
                    self.call(agent, |agent, context| {
                        agent.access_done(context, token, access, data);
                    });
                }
                Effect::Send { to, message, .. } => {
                    let from = AgentId(agent as u16);
                    self.call(usize::from(to.0), |agent, context| {
                        agent.message(context, from, message);
                    });
                }
            }
        }
    }
}

/// Performs an access; returns the line's content: as read, as it is after a write, or as it was
/// before an addition.
fn perform(access: MemoryAccess, memory: &mut impl UntimedMemory) -> LineData {
    let mut line = |address: u64| {
        let mut data = LineData::ZERO;
        memory.read(LineAddress::of(address).base(), &mut data.0);
        data
    };
    match access {
        MemoryAccess::Read { address }
        | MemoryAccess::ReadAhead { address }
        | MemoryAccess::ReadAtHome { address }
        | MemoryAccess::DmaRead { address } => line(address),
        MemoryAccess::FetchAdd { address, addend } => {
            let before = line(address);
            let old = before.read((address % LINE_BYTES as u64) as usize, 8);
            memory.write(address, &old.wrapping_add(addend).to_le_bytes());
            before
        }
        MemoryAccess::Update { address, update } => {
            let before = line(address);
            let old = before.read((address % LINE_BYTES as u64) as usize, 8);
            memory.write(address, &update.of(old).to_le_bytes());
            before
        }
        MemoryAccess::Write {
            address,
            bytes,
            ref data,
        }
        | MemoryAccess::DmaWrite {
            address,
            bytes,
            ref data,
            ..
        } => {
            memory.write(address, &data.0[..usize::from(bytes).min(LINE_BYTES)]);
            let mut after = LineData::ZERO;
            memory.read(LineAddress::of(address).base(), &mut after.0);
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl UntimedMemory for Bytes {
        fn read(&mut self, address: u64, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0[address as usize..address as usize + bytes.len()]);
        }

        fn write(&mut self, address: u64, bytes: &[u8]) {
            self.0[address as usize..address as usize + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Adds stored values to a counter in memory, answers loads with the counter's value before the
    /// last addition, and interrupts when an alarm fires.
    #[derive(Default)]
    struct Adder {
        before: u64,
        rung: Vec<(Time, u64)>,
    }

    const COUNTER: u64 = 0x48;

    state::unsaved!(Adder);

    impl Agent for Adder {
        fn name(&self) -> String {
            "adder".to_string()
        }

        fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
            match request.kind {
                RequestKind::Read { .. } => {
                    context.reply(request.reply_to, self.before, Time::ZERO)
                }
                RequestKind::Write { value, .. } => {
                    let address = COUNTER;
                    context.access(
                        MemoryAccess::FetchAdd {
                            address,
                            addend: value,
                        },
                        0,
                    );
                    context.reply(request.reply_to, 0, Time::ZERO);
                    for token in [1, 2] {
                        context.wake(Time::from_ns(10.0 * value as f64), token);
                    }
                }
                RequestKind::Custom { code: 0, .. } => context.refuse(request.reply_to),
                RequestKind::Custom { .. } => {}
            }
        }

        fn access_done(
            &mut self,
            _context: &mut AgentContext<'_>,
            _token: u64,
            _access: MemoryAccess,
            data: LineData,
        ) {
            self.before = data.read((COUNTER % 64) as usize, 8);
        }

        fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
            self.rung.push((context.now(), token));
            context.interrupt(3, 7, true, Time::ZERO);
        }
    }

    #[test]
    fn what_agents_want_happens_at_once_and_alarms_in_order() {
        let range = AddressRange {
            start: 0x1000,
            length: 64,
        };
        let mut memory = Bytes(vec![0; 256]);
        let mut agents = UntimedAgents::new(Ram::default());
        let id = agents.attach(Box::new(Adder::default()), Some(range));
        assert_eq!(
            (agents.owner(0x1008), agents.owner(0x1040)),
            (Some(id), None)
        );
        let mut ask = |kind| agents.request(Time::ZERO, CoreId(0), id, kind, &mut memory);
        let (address, bytes) = (0x1000, 8);
        for value in [5, 2] {
            let write = RequestKind::Write {
                address,
                bytes,
                value,
            };
            assert_eq!(ask(write), Some(Ok(0)));
        }
        // 0 + 5 + 2; before the last addition it was 5.
        assert_eq!(ask(RequestKind::Read { address, bytes }), Some(Ok(5)));
        let custom = |code| RequestKind::Custom {
            code,
            arguments: [0; 2],
        };
        assert_eq!((ask(custom(0)), ask(custom(1))), (Some(Err(())), None));
        assert_eq!(memory.0[COUNTER as usize], 7);

        let [early, late] = [20.0, 50.0].map(Time::from_ns);
        assert_eq!(agents.next_alarm(), Some(early));
        agents.ring_alarms(Time::from_ns(49.0), &mut memory);
        assert_eq!(
            (agents.take_changes().len(), agents.next_alarm()),
            (2, Some(late))
        );
        agents.ring_alarms(Time::from_ns(60.0), &mut memory);
        let raised = LineChange {
            hart: 3,
            bit: 7,
            level: true,
        };
        assert_eq!(agents.take_changes(), [raised; 2]);
        let adder = agents.agent_mut::<Adder>(id).unwrap();
        assert_eq!(adder.rung, [(early, 1), (early, 2), (late, 1), (late, 2)]);
    }
}
