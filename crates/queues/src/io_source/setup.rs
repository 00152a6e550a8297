//! The program's view of the device's registers, and their addresses.

use super::LINE;
use fabric::AddressRange;

/// What the program reads from the device's registers (`struct io_registers` in
/// `guest/include/io.h`).
#[derive(Clone, Copy, Debug)]
pub struct IoSetup {
    /// Where the registers are.
    pub registers: AddressRange,
    /// Where those of the tenants begin, 8 bytes for each queue: whether it has a tenant; 2 while
    /// one joins. A program writes 1 for a tenant that joins a queue whose last one has left.
    pub tenant_registers: u64,
    /// How many queues there are.
    pub queues: u32,
    /// Slots in each tenant ring, a power of two. A device queue holds one item less.
    pub queue_capacity: u32,
    /// Slots in each device ring, a power of two: what the queue holds, and what may still be being
    /// read after it was counted down.
    pub ring_slots: u32,
    /// Bytes in a slot, a multiple of 64.
    pub slot_bytes: u32,
    /// Bytes of the longest item.
    pub packet_bytes: u32,
    /// How many harts run the data plane.
    pub data_plane_cores: u32,
    /// How many of them share their queues.
    pub cluster_cores: u32,
    /// How many items a visit to a queue takes at most.
    pub batch: u32,
    /// Whether items of one queue are processed one after the other.
    pub in_order: bool,
    /// How they learn of work. Its meaning is the program's.
    pub notify: u64,
    /// Which of several queues is next. Its meaning is the program's.
    pub policy: u64,
    /// Where device doorbells can be.
    pub doorbells: AddressRange,
    /// Where tenant doorbells can be.
    pub tenant_doorbells: AddressRange,
    /// Memory for the consumers of queues whose doorbells are never counted down: two lines for
    /// each queue. The second begins with how many items have been taken.
    pub consumers: AddressRange,
    /// Where the main memory of the second socket begins, if there is one. The second half of the
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
        /// How many queues there are.
        QUEUES = 0x00;
        /// Slots in each tenant ring.
        CAPACITY = 0x08;
        /// Bytes in a slot.
        SLOT_BYTES = 0x10;
        /// How many harts run the data plane.
        DATA_PLANE_CORES = 0x18;
        /// How they learn of work.
        NOTIFY = 0x20;
        /// Which of several queues is next.
        POLICY = 0x28;
        /// Where device doorbells can be ...
        DOORBELL_START = 0x30;
        /// ... and in how many bytes.
        DOORBELL_BYTES = 0x38;
        /// Where tenant doorbells can be ...
        TENANT_DOORBELL_START = 0x40;
        /// ... and in how many bytes.
        TENANT_DOORBELL_BYTES = 0x48;
        /// The table of descriptors.
        TABLE = 0x50;
        /// 1: begin.
        START = 0x58;
        /// Doorbell addresses that were given up.
        CONFLICTS = 0x60;
        /// Slots in each device ring.
        RING_SLOTS = 0x68;
        /// How many harts share their queues.
        CLUSTER_CORES = 0x70;
        /// Items that a visit to a queue takes, at most.
        BATCH = 0x78;
        /// 1: items of a queue are processed one after the other.
        IN_ORDER = 0x80;
        /// A name, eight bytes at a time.
        NAME = 0x88;
        /// The value of the parameter of that name.
        PARAMETER = 0x90;
        /// The number of the counter of that name.
        COUNTER = 0x98;
        /// What the items are: [`workload::ItemKind`].
        ITEMS = 0xa0;
        /// Where memory begins that is to be as if it had been cleared.
        CLEARED = 0xa8;
        /// How many bytes of it; clears them.
        CLEARED_BYTES = 0xb0;
        /// Where the memory of the second socket begins; 0: there is none.
        SECOND_SOCKET = 0xb8;
        /// Memory for the consumers of queues.
        CONSUMERS = 0xc0;
        /// What announces an item.
        COMPLETIONS = 0xc8;
        /// How many harts behind those of the data plane run the sources; 0: the device does.
        SOURCE_CORES = 0xd0;
        /// The counters, 8 bytes each.
        COUNTERS = 0x800;
        /// Where the ring of arrivals of each core that runs sources is, 8 bytes each.
        SOURCE_RINGS = 0xc00;
        /// How many entries of it are whole, once there are some, 8 bytes for each core.
        SOURCE_ARRIVED = 0xd00;
        /// The item of the next entry has found its queue full, 8 bytes for each core.
        SOURCE_DROPPED = 0xe00;
        /// The weights of the queues, 8 bytes each.
        WEIGHTS = 0x1_0000;
        /// The states of the queues, 8 bytes each.
        STATES = 0x2_0000;
    }

    /// How many counters a program can have.
    pub const MAX_COUNTERS: u64 = 128;

    /// How many cores can run sources.
    pub const MAX_SOURCE_CORES: u64 = 32;

    /// Which core a register is for, if it is one of those from `first` on.
    pub fn of_core(offset: u64, first: u64) -> Option<usize> {
        let number = offset.checked_sub(first)? / 8;
        (number < MAX_SOURCE_CORES).then_some(number as usize)
    }

    /// Which counter a register is, if it is one.
    pub fn counter(offset: u64) -> Option<usize> {
        let number = offset.checked_sub(COUNTERS)? / 8;
        (number < MAX_COUNTERS).then_some(number as usize)
    }
}
