//! The registers of the I/O device of a data plane whose requests come as messages: there are no
//! queues in memory, and the agent that brings the messages answers for the device.

use crate::io_source::register;
use crate::{IoSetup, ProgramRegisters, ProgramSettings, SharedLedger, write_counter};
use fabric::{AddressRange, AgentContext, RegisterAccess, Request};
use workload::ItemKind;

/// What a program has asked for by a write that its agent has to do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// Messages shall come.
    Start,
    /// Items of this kind.
    Items(ItemKind),
}

/// The registers.
#[derive(Clone, Debug, state::State)]
pub struct MessageDevice {
    #[state(fixed)]
    setup: IoSetup,
    #[state(fixed)]
    ledger: SharedLedger,
    program: ProgramRegisters,
    items: ItemKind,
    /// Where the memory begins that is to be as if it had been cleared.
    cleared: u64,
    is_started: bool,
}

impl MessageDevice {
    /// Those of a device that waits for the program to write START.
    pub fn new(setup: IoSetup, settings: ProgramSettings, ledger: SharedLedger) -> MessageDevice {
        ledger.borrow_mut().program_counters = settings.prepared.counters.clone();
        MessageDevice {
            setup,
            ledger,
            program: ProgramRegisters::new(settings),
            items: ItemKind::Packets,
            cleared: 0,
            is_started: false,
        }
    }

    /// What the program's items are.
    pub fn items(&self) -> ItemKind {
        self.items
    }

    /// Whether the program has written START.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Answers a request of a core; what is left to do about it.
    pub fn answer(&mut self, context: &mut AgentContext<'_>, request: Request) -> Asked {
        let register = request.register(self.setup.registers.start);
        let answer = register.and_then(|(offset, access)| match access {
            RegisterAccess::Read => Some((self.read(offset)?, Asked::Nothing)),
            RegisterAccess::Write(value) => Some((0, self.write(context, offset, value)?)),
        });
        let (value, asked) = answer.unzip();
        context.answer(request.reply_to, value);
        asked.unwrap_or(Asked::Nothing)
    }

    fn read(&mut self, offset: u64) -> Option<u64> {
        let setup = &self.setup;
        let queues = u64::from(setup.queues);
        Some(match offset {
            register::QUEUES => queues,
            register::CAPACITY => u64::from(setup.queue_capacity),
            register::SLOT_BYTES => u64::from(setup.slot_bytes),
            register::DATA_PLANE_CORES => u64::from(setup.data_plane_cores),
            register::NOTIFY => setup.notify,
            register::POLICY => setup.policy,
            register::START => u64::from(self.is_started),
            register::RING_SLOTS => u64::from(setup.ring_slots),
            register::CLUSTER_CORES => u64::from(setup.cluster_cores),
            register::BATCH => u64::from(setup.batch),
            register::IN_ORDER => u64::from(setup.in_order),
            register::ITEMS => self.items as u64,
            register::DOORBELL_START | register::TENANT_DOORBELL_START => {
                let sentence = "The program asks the I/O device for doorbells, and has none: with \
                                this data_plane.notify requests come as messages, to programs \
                                that are a process() of data_plane.h.";
                self.ledger.borrow_mut().set_fault(sentence.to_string());
                0
            }
            register::PARAMETER => self.program.parameter()?,
            register::COUNTER => self
                .program
                .add_counter(&mut self.ledger.borrow_mut().program_counters)?,
            _ if offset >= register::STATES => {
                ((offset - register::STATES) / 8 < queues).then_some(1)?
            }
            _ if offset >= register::WEIGHTS => {
                let queue = (offset - register::WEIGHTS) / 8;
                (queue < queues).then(|| self.program.weight(queue))?
            }
            _ => return None,
        })
    }

    /// `None`: the register cannot be written, or not with this value.
    fn write(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) -> Option<Asked> {
        match offset {
            register::START if !self.is_started && value == 1 => {
                if let Some(sentence) = self.program.unknown_parameter("data_plane.parameters") {
                    self.ledger.borrow_mut().set_wrong_description(sentence);
                }
                self.is_started = true;
                return Some(Asked::Start);
            }
            register::NAME => return self.program.add_to_name(value).then_some(Asked::Nothing),
            register::CLEARED => self.cleared = value,
            register::CLEARED_BYTES => {
                let (start, length) = (self.cleared, value);
                let last = start.checked_add(length).and_then(|end| end.checked_sub(1));
                let is_memory = last.is_some_and(|last| context.in_memory(last));
                if length == 0 || !context.in_memory(start) || !is_memory {
                    return None;
                }
                context.warm_last_level(AddressRange { start, length });
            }
            _ if register::counter(offset).is_some() => {
                let counters = &mut self.ledger.borrow_mut().program_counters;
                return write_counter(counters, offset, value).then_some(Asked::Nothing);
            }
            register::ITEMS if !self.is_started && self.items == ItemKind::Packets => {
                self.items = ItemKind::from_register(value)?;
                self.ledger.borrow_mut().items = self.items;
                return Some(Asked::Items(self.items));
            }
            _ => return None,
        }
        Some(Asked::Nothing)
    }
}
