//! The registers of the I/O device that are common to agents that fill queues in memory and agents
//! that send messages.

use crate::io_source::register;
use crate::{IoSetup, ProgramRegisters, ProgramSettings, SharedLedger, write_counter};
use fabric::{AddressRange, AgentContext, RegisterAccess, Request};
use state::{State, Walker};
use workload::{ItemKind, Packets};

/// The agent's remaining work after a write of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing.
    Nothing,
    /// To start requests.
    Start,
    /// To handle a changed kind of items.
    Items,
}

/// The registers, and the packets, whose kind the program can select.
#[derive(Debug, state::State)]
#[state(fields)]
pub struct DeviceRegisters {
    #[state(fixed)]
    setup: IoSetup,
    #[state(fixed)]
    ledger: SharedLedger,
    program: ProgramRegisters,
    packets: Packets,
    items: ItemKind,
    /// The start of the memory that is to be treated as cleared.
    cleared: u64,
    is_started: bool,
}

impl State for DeviceRegisters {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let before = self.items;
        self.walk_fields(walker);
        if self.items != before
            && let Err(error) = self.packets.set_kind(self.items)
        {
            walker.refuse(error.to_string());
        }
        self.ledger.borrow_mut().items = self.items;
    }
}

impl DeviceRegisters {
    /// The registers of a device that waits for the program to write START.
    pub fn new(
        setup: IoSetup,
        settings: ProgramSettings,
        packets: Packets,
        ledger: SharedLedger,
    ) -> DeviceRegisters {
        ledger.borrow_mut().program_counters = settings.prepared.counters.clone();
        DeviceRegisters {
            setup,
            ledger,
            program: ProgramRegisters::new(settings),
            packets,
            items: ItemKind::Packets,
            cleared: 0,
            is_started: false,
        }
    }

    /// The kind of the program's items.
    pub fn items(&self) -> ItemKind {
        self.items
    }

    /// The registers for settings and counters.
    pub(crate) fn program(&self) -> &ProgramRegisters {
        &self.program
    }

    /// Whether the program has written START.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Appends the next packet to `bytes`; returns its kind.
    pub fn append_next(&mut self, bytes: &mut Vec<u8>) -> u8 {
        let start = bytes.len();
        let in_warm_start = !self.ledger.borrow().measures();
        self.packets.append_next(bytes, in_warm_start);
        self.packets.kind_of(self.items, &bytes[start..])
    }

    /// Answers a request of a core; returns the remaining work.
    pub fn answer(&mut self, context: &mut AgentContext<'_>, request: Request) -> Command {
        let register = request.register(self.setup.registers.start);
        let answer = register.and_then(|(offset, access)| match access {
            RegisterAccess::Read => Some((self.read(offset)?, Command::Nothing)),
            RegisterAccess::Write(value) => Some((0, self.write(context, offset, value)?)),
        });
        let (value, command) = answer.unzip();
        context.answer(request.reply_to, value);
        command.unwrap_or(Command::Nothing)
    }

    /// The value of a register; `None` if it is not readable.
    pub(crate) fn read(&mut self, offset: u64) -> Option<u64> {
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

    /// Writes a register; `None` if it is not writable, or not with this value.
    pub(crate) fn write(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        value: u64,
    ) -> Option<Command> {
        match offset {
            register::START if !self.is_started && value == 1 => {
                if let Some(sentence) = self.program.unknown_parameter("data_plane.parameters") {
                    self.ledger.borrow_mut().set_wrong_description(sentence);
                }
                self.is_started = true;
                return Some(Command::Start);
            }
            register::NAME => return self.program.add_to_name(value).then_some(Command::Nothing),
            register::CLEARED => self.cleared = value,
            register::CLEARED_BYTES => {
                let (start, length) = (self.cleared, value);
                let last = start.checked_add(length).and_then(|end| end.checked_sub(1));
                if length == 0 || !context.in_memory(start) {
                    return None;
                }
                if !last.is_some_and(|last| context.in_memory(last)) {
                    self.ledger.borrow_mut().set_wrong_description(format!(
                        "the memory of the server has no room for the program's {length} bytes at \
                         {start:#x}; use a larger server.memory_mib, or fewer data_plane.queues"
                    ));
                    return Some(Command::Nothing);
                }
                context.warm_last_level(AddressRange { start, length });
            }
            _ if register::counter(offset).is_some() => {
                let counters = &mut self.ledger.borrow_mut().program_counters;
                return write_counter(counters, offset, value).then_some(Command::Nothing);
            }
            // Only once: in a capture file, the payloads replace their packets.
            register::ITEMS if !self.is_started && self.items == ItemKind::Packets => {
                self.items = ItemKind::from_register(value)?;
                let mut ledger = self.ledger.borrow_mut();
                ledger.items = self.items;
                if let Err(error) = self.packets.set_kind(self.items) {
                    ledger.set_fault(error.to_string());
                }
                return Some(Command::Items);
            }
            _ => return None,
        }
        Some(Command::Nothing)
    }
}
