//! The tenants' side: takes the data plane's results from the tenant queues.
//!
//! The agent replaces the cores of all tenants, each spinning on the doorbell of its own queue. A
//! spinning core holds the doorbell's line shared, loses it when the data plane takes ownership to
//! ring, and reads it again at once. The agent makes the same accesses, and skips the hits between
//! them.

use crate::io_source::{DoorbellMap, FLAG_LAST, descriptor_fault};
use crate::{IoSetup, QueueDescriptor, SharedLedger};
use fabric::{
    AddressRange, Agent, AgentContext, Attachment, CacheSpec, LINE_BYTES, LineAddress, LineData,
    MemoryAccess, Observation, RegisterAccess, Request, Time,
};
use workload::SLOT_HEADER_BYTES;

const LINE: u64 = LINE_BYTES as u64;
/// A flag of a slot: the data plane could not process the item.
const FLAG_ERROR: u64 = 1;

/// The purpose of an access: the upper 8 bits of its token. The rest is the tenant's number.
mod purpose {
    pub const READ_DOORBELL: u64 = 1 << 56;
    pub const READ_FIRST_LINE: u64 = 2 << 56;
    pub const READ_LINE: u64 = 3 << 56;
    pub const FREE_SLOT: u64 = 4 << 56;
    pub const READ_DESCRIPTOR: u64 = 5 << 56;
    pub const MASK: u64 = 0xff << 56;
}

/// A delivered item, for checking a data plane.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct DeliveredPacket {
    /// Its queue.
    pub queue: u32,
    /// Its number.
    pub item: u64,
    /// Whether the data plane reported that it could not process it.
    pub is_error: bool,
    /// The packet.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Tenant {
    descriptor: QueueDescriptor,
    next_slot: u32,
    /// Whether it is reading its doorbell, or taking an item.
    is_busy: bool,
    /// Whether it has joined, and is about to learn the addresses of its queue.
    is_joining: bool,
    /// Whether it has taken the end of its queue.
    has_left: bool,
    /// Whether the doorbell's line was lost meanwhile, so that it must be read again.
    look_again: bool,
    item: u64,
    packet_bytes: u64,
    is_error: bool,
    is_last: bool,
    lines_left: u64,
    /// The packet's lines, while packets are kept.
    slot: Vec<u8>,
}

/// The period at which the tenants check whether the program has set up their queues.
const START_POLL: Time = Time::from_fs(1_000_000_000);

/// The agent that takes items from all tenant queues.
#[derive(state::State)]
pub struct TenantSide {
    #[state(fixed)]
    setup: IoSetup,
    #[state(fixed)]
    ledger: SharedLedger,
    tenants: Vec<Tenant>,
    doorbells: DoorbellMap,
    #[state(fixed)]
    keep: usize,
    kept: Vec<DeliveredPacket>,
}

impl TenantSide {
    /// The tenants of the queues that an [`IoSource`](crate::IoSource) with the same ledger fills.
    /// The first `keep` delivered items are kept.
    pub fn new(setup: IoSetup, ledger: SharedLedger, keep: usize) -> TenantSide {
        TenantSide {
            doorbells: DoorbellMap::new(setup.tenant_doorbells),
            setup,
            ledger,
            tenants: Vec::new(),
            keep,
            kept: Vec::new(),
        }
    }

    /// Its attachment to the fabric. Its cache is as large as those of 32 cores together. With two
    /// sockets, each has such tenants, for the queues in its memory. It must be woken at time 0.
    pub fn attachment(setup: &IoSetup, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(AddressRange {
                start: setup.tenant_registers,
                length: 8 * u64::from(setup.queues),
            }),
            snoops: None,
            on_each_socket: true,
            at_memory: None,
            cache: Some(CacheSpec {
                size_bytes: 32 * CacheSpec::default().size_bytes,
                mshrs: 32 * CacheSpec::default().mshrs,
                ..CacheSpec::default()
            }),
        }
    }

    /// The kept items.
    pub fn delivered(&self) -> &[DeliveredPacket] {
        &self.kept
    }

    /// Reads the addresses of the queues from the ledger, once the source has read their
    /// descriptors.
    fn learn_queues(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        let mut fault = None;
        for (queue, &descriptor) in ledger.queues.iter().enumerate() {
            if !self
                .doorbells
                .insert(descriptor.tenant_doorbell, queue as u32)
            {
                fault = Some(format!(
                    "Queue {queue} has the same tenant doorbell as another."
                ));
            }
            self.tenants.push(Tenant {
                descriptor,
                ..Tenant::default()
            });
        }
        if let Some(fault) = fault {
            ledger.set_fault(fault);
        }
    }

    /// The state of a queue's register.
    fn read_register(&self, number: usize) -> Option<u64> {
        let tenant = self.tenants.get(number)?;
        Some(if tenant.is_joining {
            2
        } else {
            // It has left once it has freed its last slot.
            u64::from(!tenant.has_left || tenant.is_busy)
        })
    }

    /// Lets a new tenant join a queue, if there is none.
    fn write_register(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        value: u64,
    ) -> Option<u64> {
        let tenant = self.tenants.get_mut(number)?;
        if value != 1 || !tenant.has_left || tenant.is_busy || tenant.is_joining {
            return None;
        }
        tenant.is_joining = true;
        let address = self.ledger.borrow().table + number as u64 * LINE;
        context.access(
            MemoryAccess::Read { address },
            purpose::READ_DESCRIPTOR | number as u64,
        );
        Some(0)
    }

    /// Starts a new tenant, which knows the addresses of its queue, to spin.
    fn join(&mut self, context: &mut AgentContext<'_>, number: u32, descriptor: QueueDescriptor) {
        let place = number as usize;
        let table = self.ledger.borrow().table;
        let mut fault = descriptor_fault(&self.setup, context, table, place, &descriptor);
        self.doorbells
            .remove(self.tenants[place].descriptor.tenant_doorbell);
        if fault.is_none() && !self.doorbells.insert(descriptor.tenant_doorbell, number) {
            fault = Some(format!(
                "Queue {number} has the same tenant doorbell as another."
            ));
        }
        if let Some(fault) = fault {
            self.ledger.borrow_mut().set_fault(fault);
            return;
        }
        self.tenants[place] = Tenant {
            descriptor,
            ..Tenant::default()
        };
        self.ledger.borrow_mut().join(number, descriptor);
        self.look(context, number);
    }

    fn look(&mut self, context: &mut AgentContext<'_>, number: u32) {
        let tenant = &mut self.tenants[number as usize];
        tenant.is_busy = true;
        tenant.look_again = false;
        context.access(
            MemoryAccess::Read {
                address: tenant.descriptor.tenant_doorbell,
            },
            purpose::READ_DOORBELL | u64::from(number),
        );
    }

    fn slot_address(&self, tenant: &Tenant) -> u64 {
        tenant.descriptor.tenant_ring
            + u64::from(tenant.next_slot) * u64::from(self.setup.slot_bytes)
    }

    /// Handles the number of items in the doorbell: takes the next one, or rests.
    fn counted(&mut self, context: &mut AgentContext<'_>, number: u32, count: u64) {
        let tenant = &self.tenants[number as usize];
        if tenant.has_left {
            self.tenants[number as usize].is_busy = false;
        } else if count > 0 {
            context.access(
                MemoryAccess::Read {
                    address: self.slot_address(tenant),
                },
                purpose::READ_FIRST_LINE | u64::from(number),
            );
        } else if tenant.look_again {
            self.look(context, number);
        } else {
            self.tenants[number as usize].is_busy = false;
        }
    }

    /// Handles the first line of a slot, which has the number of lines: reads the others.
    fn first_line(&mut self, context: &mut AgentContext<'_>, number: u32, data: &LineData) {
        let keeps = self.kept.len() < self.keep;
        let start = self.slot_address(&self.tenants[number as usize]);
        let tenant = &mut self.tenants[number as usize];
        tenant.packet_bytes = data.read(0, 4);
        tenant.is_error = data.read(4, 4) & FLAG_ERROR != 0;
        tenant.is_last = data.read(4, 4) & FLAG_LAST != 0;
        tenant.item = data.read(8, 8);
        let bytes = u64::from(SLOT_HEADER_BYTES) + tenant.packet_bytes;
        if bytes > u64::from(self.setup.slot_bytes) {
            self.ledger.borrow_mut().set_fault(format!(
                "The tenant of queue {number} was given a packet of {} bytes, and a slot holds {}.",
                tenant.packet_bytes,
                self.setup.slot_bytes - SLOT_HEADER_BYTES
            ));
            return;
        }
        let mut ledger = self.ledger.borrow_mut();
        if ledger.first_result_bytes == 0 {
            ledger.first_result_bytes = bytes;
        }
        drop(ledger);
        tenant.slot.clear();
        if keeps {
            tenant
                .slot
                .resize((bytes.div_ceil(LINE) * LINE) as usize, 0);
            tenant.slot[..LINE_BYTES].copy_from_slice(&data.0);
        }
        tenant.lines_left = bytes.div_ceil(LINE) - 1;
        for line in 1..=tenant.lines_left {
            context.access(
                MemoryAccess::Read {
                    address: start + line * LINE,
                },
                purpose::READ_LINE | u64::from(number),
            );
        }
        if tenant.lines_left == 0 {
            self.taken(context, number);
        }
    }

    fn next_line(
        &mut self,
        context: &mut AgentContext<'_>,
        number: u32,
        access: MemoryAccess,
        data: &LineData,
    ) {
        let start = self.slot_address(&self.tenants[number as usize]);
        let tenant = &mut self.tenants[number as usize];
        if let MemoryAccess::Read { address } = access
            && !tenant.slot.is_empty()
        {
            let place = (address - start) as usize;
            tenant.slot[place..place + LINE_BYTES].copy_from_slice(&data.0);
        }
        tenant.lines_left -= 1;
        if tenant.lines_left == 0 {
            self.taken(context, number);
        }
    }

    /// Frees the slot of a packet that has been read completely.
    fn taken(&mut self, context: &mut AgentContext<'_>, number: u32) {
        let tenant = &mut self.tenants[number as usize];
        if tenant.is_last {
            tenant.has_left = true;
            self.ledger.borrow_mut().left(number);
        } else {
            self.ledger
                .borrow_mut()
                .taken(number, tenant.item, tenant.is_error, context.now());
        }
        if !tenant.is_last && !tenant.slot.is_empty() && self.kept.len() < self.keep {
            let start = SLOT_HEADER_BYTES as usize;
            self.kept.push(DeliveredPacket {
                queue: number,
                item: tenant.item,
                is_error: tenant.is_error,
                bytes: tenant.slot[start..start + tenant.packet_bytes as usize].to_vec(),
            });
        }
        tenant.next_slot = (tenant.next_slot + 1) % self.setup.queue_capacity;
        context.access(
            MemoryAccess::FetchAdd {
                address: tenant.descriptor.tenant_doorbell,
                addend: 1u64.wrapping_neg(),
            },
            purpose::FREE_SLOT | u64::from(number),
        );
    }
}

impl Agent for TenantSide {
    fn name(&self) -> String {
        "tenants".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.setup.tenant_registers);
        let answer = register.and_then(|(offset, access)| match access {
            RegisterAccess::Read => self.read_register((offset / 8) as usize),
            RegisterAccess::Write(value) => {
                self.write_register(context, (offset / 8) as usize, value)
            }
        });
        context.answer(request.reply_to, answer);
    }

    fn line_lost(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        let Some(number) = self.doorbells.queue(line) else {
            return;
        };
        let tenant = &mut self.tenants[number as usize];
        if tenant.is_busy {
            tenant.look_again = true;
        } else if !tenant.has_left {
            self.look(context, number);
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let number = token as u32;
        match token & purpose::MASK {
            purpose::READ_DOORBELL => self.counted(context, number, data.read(0, 8)),
            purpose::READ_FIRST_LINE => self.first_line(context, number, &data),
            purpose::READ_DESCRIPTOR => {
                self.join(context, number, QueueDescriptor::from_line(&data));
            }
            purpose::READ_LINE => self.next_line(context, number, access, &data),
            // The previous count, which included the item just taken.
            purpose::FREE_SLOT => {
                self.counted(context, number, data.read(0, 8).saturating_sub(1));
            }
            _ => {}
        }
    }

    /// Starts to spin, once the queues are known: after the first read the cache has the line of
    /// every doorbell, or loses it.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if self.tenants.is_empty() {
            self.learn_queues();
        }
        if self.tenants.is_empty() {
            context.wake(context.now() + START_POLL, token);
        }
        for number in 0..self.tenants.len() as u32 {
            self.look(context, number);
        }
    }

    fn observe(&mut self, observation: &Observation) {
        let address = observation.address;
        if self.tenants.is_empty() {
            self.learn_queues();
        }
        if let Some(queue) = self.doorbells.queue(LineAddress::of(address))
            && self.tenants[queue as usize].descriptor.tenant_doorbell == address
        {
            self.ledger
                .borrow_mut()
                .rung(queue, observation.core, observation.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ledger;
    use fabric::{Fabric, FabricSpec, Inbox, Ram};
    use workload::{Recorder, Warmup};

    const DOORBELL: u64 = 0x6000_0000;
    const SLOT: u64 = 0x8000_0000;

    /// A slot has 16 bytes of header. The tenant reads the doorbell, and each line of the slot that
    /// the item uses once: none behind it, although the slot has six.
    #[test]
    fn the_lines_of_an_item_are_read_once() {
        for (packet_bytes, lines) in [
            (0, 1),
            (1, 1),
            // 64 and 65 bytes in all.
            (48, 1),
            (49, 2),
            (64, 2),
            (65, 2),
            // 128 and 129 bytes in all.
            (112, 2),
            (113, 3),
            (128, 3),
            // The whole slot.
            (368, 6),
        ] {
            let range = |start, length| AddressRange { start, length };
            let setup = IoSetup {
                registers: AddressRange::default(),
                tenant_registers: 0,
                queues: 1,
                queue_capacity: 4,
                ring_slots: 4,
                slot_bytes: 384,
                packet_bytes: 368,
                data_plane_cores: 1,
                cluster_cores: 1,
                batch: 1,
                in_order: true,
                notify: 0,
                policy: 0,
                doorbells: AddressRange::default(),
                tenant_doorbells: range(DOORBELL, LINE),
                consumers: AddressRange::default(),
                second_socket: None,
            };
            let memory = vec![range(DOORBELL, LINE), range(SLOT, 0x1000)];
            let mut fabric =
                Fabric::new(&FabricSpec::default(), Ram::new(memory).unwrap()).unwrap();
            let packet: Vec<u8> = (1..=packet_bytes).map(|byte| byte as u8).collect();
            let header = [packet_bytes, 0_u64].map(u64::to_le_bytes).concat();
            let ram = fabric.ram_mut();
            ram.load(SLOT, &[header, packet.clone()].concat()).unwrap();
            ram.load(DOORBELL, &1_u64.to_le_bytes()).unwrap();

            let ledger = Ledger::shared(Recorder::new(1, Warmup::Auto));
            let descriptor = QueueDescriptor {
                tenant_doorbell: DOORBELL,
                tenant_ring: SLOT,
                ..QueueDescriptor::default()
            };
            ledger.borrow_mut().start(0, vec![descriptor], Time::ZERO);
            ledger.borrow_mut().generated(0);
            ledger.borrow_mut().arrived(0, (0, 0), Time::ZERO);
            let tenants = TenantSide::new(setup, ledger.clone(), 1);
            let attachment = TenantSide::attachment(&setup, 0);
            let tenants = fabric.attach(Box::new(tenants), attachment).unwrap();
            fabric.wake_agent(tenants, Time::ZERO, 0);
            let mut inboxes: Vec<Inbox> = (0..FabricSpec::default().cores)
                .map(|_| Inbox::default())
                .collect();
            fabric.run_until(Time::from_ns(10_000.0), &mut inboxes);

            assert_eq!(
                fabric.statistics().memory_reads,
                1 + lines,
                "{packet_bytes}"
            );
            assert_eq!(ledger.borrow().first_result_bytes, 16 + packet_bytes);
            let tenants: &mut TenantSide = fabric.agent_mut(tenants).unwrap();
            let delivered = DeliveredPacket {
                queue: 0,
                item: 0,
                is_error: false,
                bytes: packet,
            };
            assert_eq!(tenants.delivered(), [delivered]);
        }
    }
}
