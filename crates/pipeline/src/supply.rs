//! The port for hardware outside of the core that gets the values of loads: a supplier.
//!
//! When a hart can dispatch nothing because its oldest instruction is a load that waits for its
//! line, the supplier is shown the window: which instructions wait for which values. It may take
//! over loads whose addresses are not known yet, and sends an agent on the fabric a message about
//! them. The agent tells the core the values of these loads ([`Supply`]) with their addresses.
//!
//! **Which values are right.** The core executes all other instructions itself. A value is taken
//! only if the load has, by then, the address that it is for. So it does not matter how the agent
//! has found the address. An agent that supplies a value has the line in a cache that the home
//! knows, and the value is that of the line when it comes: before anybody may write the line, the
//! core is told that it is lost ([`fabric::DeliveryKind::SuppliedLineLost`]), behind everything
//! else that the agent has sent. A supplied value is therefore like one that is read in the
//! core's own cache, from a line that is lost when the agent's copy is. Loads that have read it
//! too early are undone by the same rules (`Core::line_lost`), so the order of memory accesses is
//! that of the memory model. A hart's own older stores are looked for as for any load; younger ones
//! need the line, which the home takes away from the agent first.
//!
//! A load that the supplier has looks into the core's caches when its address is known. If the line
//! is not there and the agent has begun, the load waits for the agent, which ends in any case;
//! otherwise it asks for its line as usual. Everything here depends only on the times of messages.

use crate::core::Core;
use crate::kind::CoreKind;
use crate::probe::Found;
use crate::stack::Stall;
use crate::window::{SlotKind, Window};
use fabric::{AgentId, LineAddress, Outbox, OutgoingKind, RequestKind, Source, Supply, Transit};
use riscv::{Class, Instruction};

/// Hardware outside of a core that gets the values of loads of its harts.
pub trait Supplier {
    /// A hart can dispatch nothing because its oldest instruction, a load, waits for its line. It
    /// has handed over no loads, and is not asked again for this load. Says what it hands over.
    fn window_is_full(&mut self, window: &FullWindow<'_>) -> Option<Handover>;

    /// A load that has asked for its line itself gets it from there.
    fn line_arrived(&mut self, _thread: u8, _position: u64, _source: Source) {}

    /// What has become of a load that was handed over.
    fn ended(&mut self, _thread: u8, _position: u64, _fate: Fate) {}
}

/// What has become of a load that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has taken the supplied value, which was found there.
    Taken(Source),
    /// It turned out to access another address.
    OtherAddress,
    /// The core had the line, or had asked for it, or an older store had the value.
    FoundByCore,
    /// It was undone.
    Undone,
    /// The line was lost after its value had come, and before the load's address was known.
    LineLost,
    /// The agent has ended without its value.
    NotSupplied,
    /// The oldest load had its line before the agent had begun.
    TooLate,
}

/// Loads that are handed over to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The agent.
    pub agent: AgentId,
    /// The code of the message; the agent finds the rest by the message's token.
    pub code: u32,
    /// The code of the message with which they are withdrawn; its first argument is that token.
    pub withdraw: u32,
    /// The arguments of the message.
    pub arguments: [u64; 2],
    /// The length of the message.
    pub bytes: u64,
    /// How many cycles the core takes to prepare it.
    pub cycles: u64,
    /// The positions of the loads, in program order. The agent numbers them from 0.
    pub loads: Vec<u64>,
}

/// A window that is full behind a load.
pub struct FullWindow<'core> {
    window: &'core Window,
    thread: u8,
    line: LineAddress,
    address: u64,
    token: u64,
}

/// An operand of an instruction in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Its value.
    Value(u64),
    /// It is the result of the instruction at this position.
    Result(u64),
}

/// An instruction that waits for operands, or a load that waits for its value.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// Its position in program order.
    pub position: u64,
    /// Its address.
    pub pc: u64,
    /// What it is.
    pub instruction: Instruction,
    /// Its integer operands. Those that it has not got are values of 0.
    pub operands: [Operand; 2],
    /// Of a branch or an indirect jump: where fetch went on.
    pub predicted: Option<u64>,
}

impl FullWindow<'_> {
    /// The hart's hardware thread.
    pub fn thread(&self) -> u8 {
        self.thread
    }

    /// The position of the oldest load.
    pub fn oldest(&self) -> u64 {
        self.window.commit_known
    }

    /// The line that it waits for.
    pub fn line(&self) -> LineAddress {
        self.line
    }

    /// What it accesses.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The token of the message, if the supplier takes over loads.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The instructions without a result, in program order, from the oldest load on.
    pub fn waiting(&self) -> impl Iterator<Item = InFlight> {
        let positions = self.window.commit_known..self.window.tail;
        positions.filter_map(|position| {
            let index = self.window.index(position);
            let deferred = self.window.deferred(index);
            if deferred.position != position || deferred.resolved {
                return None;
            }
            let operand = |number: usize| match deferred.pending & (1 << number) {
                0 => Operand::Value(deferred.operands[number]),
                _ => {
                    let producer = deferred.operands[number] as usize;
                    Operand::Result(self.window.deferred(producer).position)
                }
            };
            let instruction = deferred.instruction;
            let is_predicted = matches!(instruction.class, Class::Branch | Class::JumpRegister);
            Some(InFlight {
                position,
                pc: self.window.slot(position).tags.pc,
                instruction,
                operands: [operand(0), operand(1)],
                predicted: is_predicted.then(|| self.window.predictions[index].next),
            })
        })
    }
}

/// The loads of a hart that the supplier has.
#[derive(Default)]
pub(crate) struct Supplies {
    /// The position of the load for which the window was last shown, plus one.
    shown: u64,
    handed: Option<Handed>,
    /// What the agent is to be told that it is no longer wanted, and what became of loads.
    withdrawn: Vec<Withdrawal>,
    fates: Vec<(u64, Fate)>,
}

#[derive(Clone, Copy)]
struct Withdrawal {
    agent: AgentId,
    code: u32,
    token: u64,
}

struct Handed {
    withdrawal: Withdrawal,
    oldest: u64,
    has_begun: bool,
    loads: Vec<HandedLoad>,
}

struct HandedLoad {
    place: u8,
    position: u64,
    state: HandedState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HandedState {
    /// Neither its address nor its value.
    Unknown,
    /// The value has come before the address was known.
    Here {
        address: u64,
        value: u64,
        source: Source,
    },
    /// It has looked into the caches, and waits for the value.
    Awaited { issue: u64 },
}

impl Handed {
    fn remove(&mut self, is_it: impl Fn(&HandedLoad) -> bool) -> Option<HandedLoad> {
        let place = self.loads.iter().position(is_it)?;
        Some(self.loads.remove(place))
    }
}

impl Supplies {
    /// Everything from `position` on is undone.
    pub(crate) fn undo(&mut self, position: u64) {
        if self.shown > position {
            self.shown = 0;
        }
        let Some(handed) = &mut self.handed else {
            return;
        };
        let fates = &mut self.fates;
        handed.loads.retain(|load| {
            let stays = load.position < position;
            if !stays {
                fates.push((load.position, Fate::Undone));
            }
            stays
        });
        if handed.loads.is_empty() || handed.oldest >= position {
            self.withdraw(Fate::Undone);
        }
    }

    /// Values of `line` that have come, and that no load has taken, may be too old.
    fn lose(&mut self, line: LineAddress) {
        let is_of_line = |load: &HandedLoad| match load.state {
            HandedState::Here { address, .. } => LineAddress::of(address) == line,
            _ => false,
        };
        if let Some(handed) = &mut self.handed {
            while let Some(load) = handed.remove(is_of_line) {
                self.fates.push((load.position, Fate::LineLost));
            }
        }
    }

    /// Takes everything back that has been handed over. The loads are waited for no longer.
    fn withdraw(&mut self, fate: Fate) {
        if let Some(handed) = self.handed.take() {
            self.withdrawn.push(handed.withdrawal);
            let positions = handed.loads.iter().map(|load| (load.position, fate));
            self.fates.extend(positions);
        }
    }

    fn handed(&mut self, token: u64) -> Option<&mut Handed> {
        let handed = self.handed.as_mut();
        handed.filter(|handed| handed.withdrawal.token == token)
    }
}

impl<K: CoreKind> Core<K> {
    /// Connects the hardware that gets values of loads of all harts. Spinning is not skipped then.
    /// In-order cores never ask it: they have no window.
    pub fn set_supplier(&mut self, supplier: Box<dyn Supplier>) {
        self.shared.spin.allow(false);
        self.shared.supplier = Some(supplier);
        self.for_each_hart(|core| core.hart.supplies = Some(Box::default()));
    }

    /// Dispatch is held up by the oldest instruction, or by one that waits for it.
    #[inline(never)]
    pub(crate) fn offer_window(&mut self, outbox: &mut Outbox) {
        let translated = self.has_page_tables();
        let hart = &mut *self.hart;
        let Some(supplies) = &mut hart.supplies else {
            return;
        };
        let oldest = hart.window.commit_known;
        if hart.window.all_known()
            || supplies.shown == oldest + 1
            || supplies.handed.is_some()
            || translated
            || hart.window.slot(oldest).tags.kind != SlotKind::Load
        {
            return;
        }
        let index = hart.window.index(oldest);
        let mut missing = hart.missing.iter();
        let Some(load) = missing.find(|load| load.live && load.index as usize == index) else {
            return;
        };
        let number = hart.window.rest(index).queue_number;
        let token = self.shared.next_token;
        let shown = FullWindow {
            window: &hart.window,
            thread: hart.thread,
            line: load.line,
            address: hart.loads.get(number).address,
            token,
        };
        supplies.shown = oldest + 1;
        let Some(supplier) = &mut self.shared.supplier else {
            return;
        };
        let Some(handover) = supplier.window_is_full(&shown) else {
            return;
        };
        self.shared.next_token += 1;
        let Handover {
            agent,
            code,
            withdraw,
            arguments,
            bytes,
            cycles,
            loads,
        } = handover;
        let loads = (0..).zip(loads).map(|(place, position)| HandedLoad {
            place,
            position,
            state: HandedState::Unknown,
        });
        supplies.handed = Some(Handed {
            withdrawal: Withdrawal {
                agent,
                code: withdraw,
                token,
            },
            oldest,
            has_begun: false,
            loads: loads.collect(),
        });
        let at = hart.dispatch_cycle + self.shared.spec.departure_cycles() + cycles;
        let at = self.shared.clock.time(at);
        let request = RequestKind::Custom { code, arguments };
        self.send_to_agent(at, agent, (token, bytes, request), outbox);
        self.expect_answer(at);
    }

    fn send_to_agent(
        &mut self,
        at: fabric::Time,
        agent: AgentId,
        (token, bytes, kind): (u64, u64, RequestKind),
        outbox: &mut Outbox,
    ) {
        let request = OutgoingKind::Request {
            agent: Some(agent),
            transit: Transit::Message(bytes),
            kind,
            hart: self.hart.privileged.csrs.mhartid as u16,
            token,
        };
        outbox.push(at, request);
    }

    /// The load in slot `index` has not found its line in the data cache: whether it has a supplied
    /// value, or waits for one.
    #[inline(never)]
    pub(crate) fn is_supplied(&mut self, index: usize, line: LineAddress, issue: u64) -> bool {
        let hart = &mut *self.hart;
        let Some(supplies) = &mut hart.supplies else {
            return false;
        };
        let position = hart.window.deferred(index).position;
        let Some(handed) = &mut supplies.handed else {
            return false;
        };
        let mut loads = handed.loads.iter();
        let Some(place) = loads.position(|load| load.position == position) else {
            return false;
        };
        let second_level = self.shared.second_level.as_ref();
        let is_near = second_level.is_some_and(|second| second.cache().find(line).is_some())
            || hart.missing.iter().any(|load| load.line == line);
        let number = hart.window.rest(index).queue_number;
        let wanted = hart.loads.get(number).address;
        let fate = match handed.loads[place].state {
            HandedState::Here {
                address,
                value,
                source,
            } if address == wanted => {
                handed.loads.remove(place);
                supplies.fates.push((position, Fate::Taken(source)));
                hart.statistics.data_misses += 1;
                let done = issue + self.shared.spec.l1_data.hit_latency_cycles;
                self.take_supplied(index, (value, source), (issue, done));
                return true;
            }
            HandedState::Here { .. } => Fate::OtherAddress,
            _ if is_near => Fate::FoundByCore,
            _ if !handed.has_begun => Fate::TooLate,
            _ => {
                handed.loads[place].state = HandedState::Awaited { issue };
                hart.statistics.data_misses += 1;
                return true;
            }
        };
        handed.loads.remove(place);
        supplies.fates.push((position, fate));
        false
    }

    /// The load in slot `index` takes a supplied value at cycle `performed`.
    fn take_supplied(
        &mut self,
        index: usize,
        (value, source): (u64, Source),
        (performed, done): (u64, u64),
    ) {
        let deferred = self.hart.window.deferred(index);
        let (position, instruction) = (deferred.position, deferred.instruction);
        let number = self.hart.window.rest(index).queue_number;
        self.hart.loads.get_mut(number).performed = performed;
        self.note_found(position, Found::Line(source));
        self.resolve(index, instruction.load_value(value), done);
    }

    /// The agent tells something about the loads of the current hart.
    #[inline(never)]
    pub(crate) fn supplied(
        &mut self,
        now: u64,
        (token, supply): (u64, Supply),
        outbox: &mut Outbox,
    ) {
        let hart = &mut *self.hart;
        let Some(supplies) = &mut hart.supplies else {
            return;
        };
        let Some(handed) = supplies.handed(token) else {
            return;
        };
        let (place, address, value, source) = match supply {
            Supply::Begun => {
                handed.has_begun = true;
                return;
            }
            Supply::Ended => {
                let loads = std::mem::take(&mut handed.loads);
                supplies.handed = None;
                let fates = loads.iter().map(|load| (load.position, Fate::NotSupplied));
                supplies.fates.extend(fates);
                for load in loads {
                    if let HandedState::Awaited { issue } = load.state {
                        let index = self.hart.window.index(load.position);
                        self.hart.statistics.data_misses -= 1;
                        self.access_load(index, issue.max(now), outbox);
                    }
                }
                self.wake_all(now, outbox);
                return;
            }
            Supply::Value {
                place,
                address,
                value,
                source,
            } => (place, address, value, source),
        };
        let Some(load) = handed.remove(|load| load.place == place) else {
            return;
        };
        let position = load.position;
        let index = hart.window.index(position);
        let is_in_window = hart.window.deferred(index).position == position
            && !hart.window.deferred(index).resolved;
        let number = hart.window.rest(index).queue_number;
        let wanted = is_in_window.then(|| hart.loads.get(number).address);
        let fate = match (load.state, wanted) {
            (HandedState::Awaited { issue }, Some(wanted)) if wanted == address => {
                let performed = issue.max(now);
                let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
                let done = (issue + hit_latency).max(now + 1);
                if hart.stall == Stall::Miss && hart.window.commit_known == position {
                    self.charge_source(source, now);
                }
                let fate = match self.served_by_older_store(index, performed) {
                    true => Fate::FoundByCore,
                    false => {
                        self.take_supplied(index, (value, source), (performed, done));
                        Fate::Taken(source)
                    }
                };
                self.wake_all(now, outbox);
                fate
            }
            (HandedState::Awaited { issue }, Some(_)) => {
                // It looks into the caches again.
                hart.statistics.data_misses -= 1;
                self.access_load(index, issue.max(now), outbox);
                self.wake_all(now, outbox);
                Fate::OtherAddress
            }
            // Its address is not known yet.
            (HandedState::Unknown, Some(u64::MAX)) => {
                let state = HandedState::Here {
                    address,
                    value,
                    source,
                };
                handed.loads.push(HandedLoad { state, ..load });
                return;
            }
            _ => Fate::FoundByCore,
        };
        if let Some(supplies) = &mut self.hart.supplies {
            supplies.fates.push((position, fate));
        }
    }

    /// Values that were supplied from `line` may be too old from now on.
    #[inline(never)]
    pub(crate) fn supplied_line_lost(&mut self, line: LineAddress, now: u64) {
        self.for_each_hart(|core| {
            if let Some(supplies) = &mut core.hart.supplies {
                supplies.lose(line);
            }
            // A reservation is of the core's own copy, which is lost apart from this.
            core.loads_lost(line, now);
        });
    }

    /// Something has come at `now`: loads are withdrawn whose chain begins with a load that has its
    /// value, and of which the agent has not said that it works on them. The supplier is told what
    /// has become of loads.
    #[inline(never)]
    pub(crate) fn withdraw_loads(&mut self, now: u64, outbox: &mut Outbox) {
        let at = now + self.shared.spec.departure_cycles();
        let at = self.shared.clock.time(at);
        self.for_each_hart(|core| {
            let hart = &mut *core.hart;
            let Some(supplies) = &mut hart.supplies else {
                return;
            };
            if let Some(handed) = &supplies.handed
                && !handed.has_begun
            {
                let oldest = hart.window.deferred(hart.window.index(handed.oldest));
                if oldest.position != handed.oldest || oldest.resolved {
                    supplies.withdraw(Fate::TooLate);
                }
            }
            let withdrawn = std::mem::take(&mut supplies.withdrawn);
            if let Some(supplier) = &mut core.shared.supplier {
                for (position, fate) in supplies.fates.drain(..) {
                    supplier.ended(hart.thread, position, fate);
                }
            }
            for Withdrawal { agent, code, token } in withdrawn {
                let arguments = [token, 0];
                let request = RequestKind::Custom { code, arguments };
                core.send_to_agent(at, agent, (token, 8, request), outbox);
            }
        });
    }

    /// The load at `position` has got its line.
    #[inline(never)]
    pub(crate) fn tell_supplier(&mut self, position: u64, source: Source) {
        let thread = self.hart.thread;
        if let Some(supplier) = &mut self.shared.supplier {
            supplier.line_arrived(thread, position, source);
        }
    }
}
