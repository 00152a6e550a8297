//! The program's control: the registers, the descriptors, and the closing and opening of queues.

use super::setup::{IoSetup, register};
use super::{DESCRIPTORS_AT_ONCE, IoSource, LINE, Queue, QueueState, ROOM_POLL, has_room, purpose};
use crate::completion::Completions;
use crate::{Command, QueueDescriptor};
use fabric::{AgentContext, MemoryAccess};
use workload::ItemKind;

impl IoSource {
    pub(super) fn read_register(&mut self, offset: u64) -> Option<u64> {
        let setup = &self.setup;
        Some(match offset {
            register::DOORBELL_START => setup.doorbells.start,
            register::DOORBELL_BYTES => setup.doorbells.length,
            register::TENANT_DOORBELL_START => setup.tenant_doorbells.start,
            register::TENANT_DOORBELL_BYTES => setup.tenant_doorbells.length,
            register::TABLE => self.table,
            register::CONFLICTS => self.conflicts,
            register::CONSUMERS => setup.consumers.start,
            register::COMPLETIONS => self.completions as u64,
            register::SOURCE_CORES => self.cores.len() as u64,
            register::SECOND_SOCKET => setup.second_socket.unwrap_or(0),
            _ if offset >= register::STATES => {
                let number = ((offset - register::STATES) / 8) as usize;
                let state = self.queues.get(number).map(|queue| queue.state);
                // Before their descriptors are read, all queues are being opened.
                (number < setup.queues as usize)
                    .then_some(state.unwrap_or(QueueState::Opening) as u64)?
            }
            _ => return self.registers.read(offset),
        })
    }

    /// Writes a register; returns whether it is writable with this value.
    pub(super) fn write_register(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        value: u64,
    ) -> bool {
        let is_started = self.registers.is_started();
        match offset {
            register::TABLE if !is_started && value.is_multiple_of(LINE) => {
                self.table = value;
            }
            register::START if !self.has_table(context) => return false,
            register::CONFLICTS => self.conflicts = value,
            _ if let Some(core) = register::of_core(offset, register::SOURCE_RINGS) => {
                return self.set_arrivals(context, core, value);
            }
            _ if let Some(core) = register::of_core(offset, register::SOURCE_DROPPED) => {
                return self.found_full(core);
            }
            _ if offset >= register::STATES && register::counter(offset).is_none() => {
                return self.set_state(context, ((offset - register::STATES) / 8) as u32, value);
            }
            register::COMPLETIONS if !is_started => {
                let Some(format) = Completions::from_register(value) else {
                    return false;
                };
                self.completions = format;
            }
            _ => match self.registers.write(context, offset, value) {
                None => return false,
                Some(Command::Nothing) => {}
                Some(Command::Items) => self.check_room(),
                Some(Command::Start) => {
                    self.descriptors = vec![QueueDescriptor::default(); self.setup.queues as usize];
                    self.descriptors_left = self.setup.queues;
                    for queue in 0..DESCRIPTORS_AT_ONCE.min(self.setup.queues) {
                        self.read_descriptor(context, purpose::READ_DESCRIPTOR, queue);
                    }
                }
            },
        }
        true
    }

    /// Whether the whole table of queues is in memory.
    fn has_table(&self, context: &AgentContext<'_>) -> bool {
        let last_line = self.table + (u64::from(self.setup.queues) - 1) * LINE;
        context.in_memory(self.table) && context.in_memory(last_line)
    }

    /// The error of a queue's ring of completions, if the program uses completions.
    pub(super) fn completion_fault(
        &self,
        context: &AgentContext<'_>,
        queue: usize,
        descriptor: &QueueDescriptor,
    ) -> Option<String> {
        let bytes = u64::from(self.setup.ring_slots) * self.completions.entry_bytes();
        let start = descriptor.completions;
        if bytes == 0 {
            return None;
        }
        let problem = if !start.is_multiple_of(LINE) {
            "is not a multiple of 64"
        } else if !context.in_memory(start)
            || !start
                .checked_add(bytes - 1)
                .is_some_and(|last| context.in_memory(last))
        {
            "is not in memory"
        } else if descriptor.taken == 0 {
            return Some(format!(
                "The descriptor of queue {queue} is wrong: it has completions, and no address in \
                 `taken` where the device learns what the program has taken."
            ));
        } else {
            return None;
        };
        Some(format!(
            "The descriptor of queue {queue} is wrong: completions = {start:#x} {problem}."
        ))
    }

    /// Whether requests and replies of a key-value store fit into the slots.
    fn check_room(&mut self) {
        let operations = self.registers.program().operations();
        let packet_bytes = self.setup.packet_bytes;
        let (request, reply) = (
            operations.longest_request_bytes(),
            operations.longest_reply_bytes(),
        );
        let longest = request.max(reply);
        if self.registers.items() == ItemKind::Operations && longest > packet_bytes {
            let which = if request > reply { "request" } else { "reply" };
            self.ledger.borrow_mut().set_wrong_description(format!(
                "traffic.packet_bytes is {packet_bytes}, and with traffic.operations the longest \
                 {which} has {longest} bytes; it must be at least as many"
            ));
        }
    }

    /// Closes an open queue, or opens a closed one, for the program.
    fn set_state(&mut self, context: &mut AgentContext<'_>, number: u32, value: u64) -> bool {
        let Some(queue) = self.queues.get_mut(number as usize) else {
            return false;
        };
        if !self.cores.is_empty() {
            self.ledger.borrow_mut().set_wrong_description(
                "traffic.sources is \"cores\", and the program closes and opens queues, which \
                 these sources cannot: use \"device\""
                    .to_string(),
            );
            return true;
        }
        match (queue.state, value) {
            (QueueState::Open, 0) => {
                queue.state = QueueState::Closing;
                self.end_if_possible(context, number);
                true
            }
            (QueueState::Closed, 1) => {
                queue.state = QueueState::Opening;
                self.read_descriptor(context, purpose::READ_NEW_DESCRIPTOR, number);
                true
            }
            _ => false,
        }
    }

    /// Writes the end of a queue that is being closed, when all earlier items have entered it and
    /// there is room.
    pub(super) fn end_if_possible(&mut self, context: &mut AgentContext<'_>, number: u32) {
        let queue = &mut self.queues[number as usize];
        if queue.state != QueueState::Closing || queue.entering > 0 || queue.checking > 0 {
            return;
        }
        if has_room(&self.setup, queue) {
            queue.state = QueueState::Ending;
            self.accept(context, number);
        } else {
            let address = queue.counted_at();
            context.access(
                MemoryAccess::Read { address },
                purpose::LOOK_FOR_ROOM | u64::from(number),
            );
        }
    }

    /// Handles the doorbell of a full queue that is being closed, or its consumer's count.
    pub(super) fn looked_for_room(
        &mut self,
        context: &mut AgentContext<'_>,
        number: u32,
        value: u64,
    ) {
        let queue = &mut self.queues[number as usize];
        queue.has_been_counted(value);
        if has_room(&self.setup, queue) {
            self.end_if_possible(context, number);
        } else {
            context.wake(
                context.now() + ROOM_POLL,
                purpose::LOOK_FOR_ROOM | u64::from(number),
            );
        }
    }

    /// Handles the descriptor of a queue that is being reopened.
    pub(super) fn reopen(
        &mut self,
        context: &AgentContext<'_>,
        number: u32,
        descriptor: QueueDescriptor,
    ) {
        let queue = &mut self.queues[number as usize];
        self.doorbells.remove(queue.descriptor.doorbell);
        *queue = Queue {
            descriptor,
            reopened: queue.reopened + 1,
            ..Queue::default()
        };
        let has_new_tenant = self.ledger.borrow().tenants(number) > queue.reopened;
        let mut fault = descriptor_fault(
            &self.setup,
            context,
            self.table,
            number as usize,
            &descriptor,
        )
        .or_else(|| self.completion_fault(context, number as usize, &descriptor));
        if fault.is_none() && !self.doorbells.insert(descriptor.doorbell, number) {
            fault = Some(format!(
                "Queue {number} has the same doorbell as another queue."
            ));
        }
        if fault.is_none() && !has_new_tenant {
            fault = Some(format!(
                "Queue {number} is opened, and no new tenant has joined it."
            ));
        }
        if let Some(fault) = fault {
            self.ledger.borrow_mut().set_fault(fault);
        }
    }

    pub(super) fn read_descriptor(&self, context: &mut AgentContext<'_>, purpose: u64, queue: u32) {
        let address = self.table + u64::from(queue) * LINE;
        context.access(MemoryAccess::Read { address }, purpose | u64::from(queue));
    }
}

/// The error of a descriptor in the table at `table`.
pub(crate) fn descriptor_fault(
    setup: &IoSetup,
    context: &AgentContext<'_>,
    table: u64,
    queue: usize,
    descriptor: &QueueDescriptor,
) -> Option<String> {
    let bytes_of = |slots| u64::from(slots) * u64::from(setup.slot_bytes);
    let (ring, tenant_ring) = (bytes_of(setup.ring_slots), bytes_of(setup.queue_capacity));
    let doorbells = (Some(setup.doorbells), Some(setup.tenant_doorbells));
    for (name, address, alignment, bytes, range) in [
        ("doorbell", descriptor.doorbell, LINE, LINE, doorbells.0),
        ("ring", descriptor.ring, LINE, ring, None),
        (
            "tenant_doorbell",
            descriptor.tenant_doorbell,
            LINE,
            LINE,
            doorbells.1,
        ),
        (
            "tenant_ring",
            descriptor.tenant_ring,
            LINE,
            tenant_ring,
            None,
        ),
        ("taken", descriptor.taken, 8, 8, None),
        ("wake", descriptor.wake, 8, 8, None),
    ] {
        if alignment == 8 && address == 0 {
            continue; // unused
        }
        let problem = if !address.is_multiple_of(alignment) {
            if alignment == LINE {
                "is not a multiple of 64"
            } else {
                "is not a multiple of 8"
            }
        } else if range.is_some_and(|range| !range.contains(address)) {
            "is not in the range that the device's registers give for it"
        } else if !context.in_memory(address)
            || !address
                .checked_add(bytes - 1)
                .is_some_and(|last| context.in_memory(last))
        {
            "is not in memory"
        } else {
            continue;
        };
        return Some(format!(
            "The descriptor of queue {queue}, at {:#x}, is wrong: {name} = {address:#x} {problem}.",
            table + queue as u64 * LINE
        ));
    }
    None
}
