//! The device's registers and the program's view of them.

use super::LINE;
use fabric::AddressRange;

/// The values that the program reads from the device's registers (`struct io_registers` in
/// `guest/include/io.h`).
#[derive(Clone, Copy, Debug)]
pub struct IoSetup {
    /// The addresses of the registers.
    pub registers: AddressRange,
    /// The address of the tenants' registers, 8 bytes for each queue: whether it has a tenant; 2
    /// while one joins. A program writes 1 to let a new tenant join a queue whose last one has
    /// left.
    pub tenant_registers: u64,
    /// Number of queues.
    pub queues: u32,
    /// Slots in each tenant ring, a power of two. A device queue holds one item less.
    pub queue_capacity: u32,
    /// Slots in each device ring, a power of two: for the queue's capacity, and for items that may
    /// still be being read after they were counted down.
    pub ring_slots: u32,
    /// Bytes in a slot, a multiple of 64.
    pub slot_bytes: u32,
    /// Bytes of the longest item.
    pub packet_bytes: u32,
    /// Number of harts that run the data plane.
    pub data_plane_cores: u32,
    /// Number of harts that share queues.
    pub cluster_cores: u32,
    /// Maximum number of items per visit to a queue.
    pub batch: u32,
    /// Whether items of one queue are processed one after the other.
    pub in_order: bool,
    /// The notification mechanism, as a number that the program interprets.
    pub notify: u64,
    /// The policy for choosing among queues, as a number that the program interprets.
    pub policy: u64,
    /// The address range of device doorbells.
    pub doorbells: AddressRange,
    /// The address range of tenant doorbells.
    pub tenant_doorbells: AddressRange,
    /// Memory for the consumers of queues whose doorbells are never counted down: two lines for
    /// each queue. The second begins with the number of items taken.
    pub consumers: AddressRange,
    /// The start of the second socket's main memory, if there is one. The second half of the
    /// doorbells of each kind is in its memory, too, and that of the queues should be.
    pub second_socket: Option<u64>,
}

impl IoSetup {
    /// From the first device doorbell to the last tenant doorbell; in between are only the
    /// consumers.
    pub fn all_doorbells(&self) -> AddressRange {
        AddressRange {
            start: self.doorbells.start,
            length: self.tenant_doorbells.end() - self.doorbells.start,
        }
    }
}

/// Bytes of the memory of a queue's consumer: `struct io_consumer` in `guest/include/io.h`.
pub const CONSUMER_BYTES: u64 = 2 * LINE;

/// Offsets of the registers: `struct io_registers` in `guest/include/io.h`.
pub mod register {
    fabric::registers! { u64:
        /// Number of queues.
        QUEUES = 0x00;
        /// Slots in each tenant ring.
        CAPACITY = 0x08;
        /// Bytes in a slot.
        SLOT_BYTES = 0x10;
        /// Number of harts that run the data plane.
        DATA_PLANE_CORES = 0x18;
        /// The notification mechanism.
        NOTIFY = 0x20;
        /// The policy for choosing among queues.
        POLICY = 0x28;
        /// The start of device doorbells.
        DOORBELL_START = 0x30;
        /// The bytes of device doorbells.
        DOORBELL_BYTES = 0x38;
        /// The start of tenant doorbells.
        TENANT_DOORBELL_START = 0x40;
        /// The bytes of tenant doorbells.
        TENANT_DOORBELL_BYTES = 0x48;
        /// The table of descriptors.
        TABLE = 0x50;
        /// 1: start.
        START = 0x58;
        /// Number of doorbell addresses that were given up.
        CONFLICTS = 0x60;
        /// Slots in each device ring.
        RING_SLOTS = 0x68;
        /// Number of harts that share queues.
        CLUSTER_CORES = 0x70;
        /// Maximum number of items per visit to a queue.
        BATCH = 0x78;
        /// 1: items of a queue are processed one after the other.
        IN_ORDER = 0x80;
        /// A name, eight bytes at a time.
        NAME = 0x88;
        /// The value of the parameter of that name.
        PARAMETER = 0x90;
        /// The number of the counter with that name.
        COUNTER = 0x98;
        /// The kind of the items: [`workload::ItemKind`].
        ITEMS = 0xa0;
        /// The start of memory to treat as cleared.
        CLEARED = 0xa8;
        /// The bytes of that memory; a write clears it.
        CLEARED_BYTES = 0xb0;
        /// The start of the second socket's memory; 0: there is none.
        SECOND_SOCKET = 0xb8;
        /// Memory for the consumers of queues.
        CONSUMERS = 0xc0;
        /// The way in which items are announced.
        COMPLETIONS = 0xc8;
        /// Number of harts after those of the data plane that run the sources; 0: the device does.
        SOURCE_CORES = 0xd0;
        /// The counters, 8 bytes each.
        COUNTERS = 0x800;
        /// The address of the ring of arrivals of each core that runs sources, 8 bytes each.
        SOURCE_RINGS = 0xc00;
        /// The number of complete entries of it, once there are some, 8 bytes for each core.
        SOURCE_ARRIVED = 0xd00;
        /// Reports that the item of the next entry has found its queue full, 8 bytes for each core.
        SOURCE_DROPPED = 0xe00;
        /// The weights of the queues, 8 bytes each.
        WEIGHTS = 0x1_0000;
        /// The states of the queues, 8 bytes each.
        STATES = 0x2_0000;
    }

    /// Maximum number of counters of a program.
    pub const MAX_COUNTERS: u64 = 128;

    /// Maximum number of cores that run sources.
    pub const MAX_SOURCE_CORES: u64 = 32;

    /// The core that a register belongs to, if it is one of those from `first` on.
    pub fn of_core(offset: u64, first: u64) -> Option<usize> {
        let number = offset.checked_sub(first)? / 8;
        (number < MAX_SOURCE_CORES).then_some(number as usize)
    }

    /// The number of the counter that a register belongs to, if it is one.
    pub fn counter(offset: u64) -> Option<usize> {
        let number = offset.checked_sub(COUNTERS)? / 8;
        (number < MAX_COUNTERS).then_some(number as usize)
    }
}
