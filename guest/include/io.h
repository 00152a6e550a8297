/**
 * I/O queues: the memory shared by the I/O sources, the data plane and the tenants.
 *
 * Each queue is a pair of rings in memory. The I/O source fills a *device ring* and rings its
 * doorbell; the data plane takes the item, writes its result into the *tenant ring* of the same
 * queue and rings the tenant's doorbell; the tenant takes it from there. (HyperPlane, MICRO 2020,
 * Figure 2.)
 */
#ifndef IO_H
#define IO_H

#include <io_notify.h>
#include <memory_map.h>
#include <stdint.h>

/** Bytes in a cache line. */
enum { LINE_BYTES = 64 };

/** The device's registers, 64 bits each. Writable ones say so. */
struct io_registers {
  uint64_t queues;                /**< 0x00: the number of queues. */
  uint64_t capacity;              /**< 0x08: slots in each tenant ring; a power of two. */
  uint64_t slot_bytes;            /**< 0x10: bytes in a slot; a multiple of 64. */
  uint64_t data_plane_cores;      /**< 0x18: harts 0 to this - 1 run the data plane. */
  uint64_t notify;                /**< 0x20: enum io_notify. */
  uint64_t policy;                /**< 0x28: enum qwait_policy. */
  uint64_t doorbell_start;        /**< 0x30: the start of the device doorbells ... */
  uint64_t doorbell_bytes;        /**< 0x38: ... and their bytes. */
  uint64_t tenant_doorbell_start; /**< 0x40: the start of the tenant doorbells ... */
  uint64_t tenant_doorbell_bytes; /**< 0x48: ... and their bytes. */
  uint64_t table;                 /**< 0x50: write the address of the descriptors. */
  uint64_t start;                 /**< 0x58: write 1: the sources start. */
  uint64_t conflicts;             /**< 0x60: write the number of conflicts (a statistic). */
  uint64_t ring_slots;            /**< 0x68: slots in each device ring; a power of two. */
  uint64_t cluster_cores;         /**< 0x70: the number of harts that share queues. */
  uint64_t batch;                 /**< 0x78: the most items taken in a visit to a queue. */
  uint64_t in_order;              /**< 0x80: 1: items of a queue one at a time; else 0. */
  uint64_t name;                  /**< 0x88: write a name, eight bytes at a time. */
  uint64_t parameter;             /**< 0x90: the parameter of that name: see io_parameter(). */
  uint64_t counter;               /**< 0x98: creates a counter of that name: see io_counter(). */
  uint64_t items;                 /**< 0xa0: write enum io_items before start. */
  uint64_t cleared;               /**< 0xa8: write an address, and then ... */
  uint64_t cleared_bytes;         /**< 0xb0: ... write a number of bytes: see io_cleared(). */
  uint64_t second_socket;         /**< 0xb8: the start of the second socket's memory; or 0. */
  uint64_t consumers;             /**< 0xc0: memory for consumers: struct io_consumer. */
  uint64_t completions;           /**< 0xc8: write enum io_completions before start. */
  uint64_t source_cores;          /**< 0xd0: harts after the data plane's that run sources. */
  uint64_t unused[(0x800 - 0xd8) / 8];
  uint64_t counters[128];      /**< 0x800: write the values of the program's counters. */
  uint64_t source_rings[32];   /**< 0xc00: for each hart that runs sources. */
  uint64_t source_arrived[32]; /**< 0xd00: likewise. */
  uint64_t source_dropped[32]; /**< 0xe00: likewise. */
  uint64_t unused_too[(0x10000 - 0xf00) / 8];
  uint64_t weights[8192]; /**< 0x10000: the weight of each queue. */
  uint64_t states[8192];  /**< 0x20000: the state of each queue: see enum io_state. */
};

/**
 * Whether a queue accepts items. All are open after `start`.
 *
 * Write IO_CLOSED to close a queue: later arrivals are refused. The source writes the accepted
 * items, and then an item with IO_FLAG_LAST, the end of the queue. The data plane gives it to the
 * tenant like any item; the tenant has left when it has taken it. From then on the queue's memory
 * is unused.
 *
 * For a new tenant write a new descriptor into the queue's line of the table, write IO_OPEN to
 * io_tenants()[queue], wait until it reads IO_OPEN, and write IO_OPEN to the queue's state. Both
 * counts in the doorbells must be 0. Any other order is an access fault, or ends the run with an
 * error.
 */
enum io_state {
  IO_CLOSED = 0,
  IO_OPEN = 1, /**< Other values: opening or closing. */
};

/** Whether each queue has a tenant: IO_CLOSED when the last one has left. */
static inline volatile uint64_t *io_tenants(void) { return (volatile uint64_t *)IO_TENANTS_START; }

/** The kind of items. With a pcap file, items of the last three kinds are the payloads of its UDP
 * packets. */
enum io_items {
  IO_ITEMS_PACKETS = 0,    /**< IPv4 packets; generated ones have random addresses and ports. */
  IO_ITEMS_SESSIONS = 1,   /**< IPv4 packets; generated ones are of 128 sessions with a service. */
  IO_ITEMS_BLOCKS = 2,     /**< Data to store; generated: random bytes. */
  IO_ITEMS_REQUESTS = 3,   /**< Remote procedure calls in MessagePack-RPC. */
  IO_ITEMS_OPERATIONS = 4, /**< Operations on the keys of a store: see operations.h. */
};

/** The device's registers. */
static inline volatile struct io_registers *io_device(void) {
  return (volatile struct io_registers *)IO_REGISTERS_START;
}

/* Selects the parameter or counter by its name. */
static inline void io_name(const char *name) {
  uint64_t bytes;
  int is_last = 0;
  while (!is_last) {
    bytes = 0;
    for (int place = 0; place < 8 && !is_last; place++) {
      is_last = *name == 0;
      bytes |= (uint64_t)(uint8_t)*name++ << 8 * place;
    }
    io_device()->name = bytes;
  }
}

/**
 * A number of the description, `data_plane.parameters.<name>`, or `otherwise` if the description
 * does not have it. Must be called before `start` is written: a parameter that the program has not
 * read by then ends the run with an error. For one hart at a time.
 */
static inline double io_parameter(const char *name, double otherwise) {
  union {
    uint64_t bits;
    double value;
  } parameter;
  io_name(name);
  parameter.bits = io_device()->parameter;
  return parameter.value == parameter.value ? parameter.value : otherwise;
}

/**
 * A counter of the result, `program_counters.<name>`: its last written value. Each name can be used
 * once. For one hart at a time; different harts can then write different counters. A write takes as
 * long as other writes to devices, some 100 cycles.
 */
static inline volatile uint64_t *io_counter(const char *name) {
  io_name(name);
  return &io_device()->counters[io_device()->counter];
}

/**
 * Lets the last-level cache begin as if this memory had been written before the simulation, as a
 * driver clears its buffers: it holds the lines, dirty, as far as there is room. Memory keeps its
 * contents: zeros, where nothing has been written. The call takes no time, whereas writing the 36
 * MB of 1000 queues takes 3 milliseconds, and a second on the host.
 */
static inline void io_cleared(const void *memory, uint64_t bytes) {
  io_device()->cleared = (uint64_t)memory;
  io_device()->cleared_bytes = bytes;
}

/** Memory for the consumer of each queue, if the consumer never decrements the doorbell and counts
 * here instead. The measurement of service times then uses this count. */
struct io_consumer {
  uint64_t own[LINE_BYTES / 8]; /**< Free for use. */
  uint64_t taken;               /**< The number of items taken. */
  uint64_t own_too[LINE_BYTES / 8 - 1];
} __attribute__((aligned(LINE_BYTES)));

/** Counts the items in a ring; in its own line. Producers add 1 after they have written an item,
 * consumers subtract 1 (see io_take and io_room). The upper half belongs to the consumers. */
struct io_doorbell {
  union {
    uint64_t count;
    struct {
      uint32_t items;
      uint32_t claim; /* Little-endian: the upper half of the count. */
    };
  };
  uint64_t unused[7];
};

/** A slot of a ring; the next one is slot_bytes further. The producer fills slots in order and
 * keeps its position private, and so does the consumer. */
struct io_slot {
  uint32_t length;  /**< Bytes in the packet. */
  uint32_t flags;   /**< 0, or enum io_flags. */
  uint64_t item;    /**< The number of the item, which stays with it from ring to ring. */
  uint8_t packet[]; /**< The packet, up to slot_bytes - 16 bytes. */
};

enum io_flags {
  IO_FLAG_ERROR = 1, /**< The data plane could not process the item; there is no packet. */
  IO_FLAG_LAST = 2,  /**< The end of a closed queue; there is no packet. */
  IO_FLAG_RENDEZVOUS =
      4, /**< All of the slot is at its sender; in place of the packet are its
              address there and its bytes, 8 bytes each. Data planes never see it. */
};

/** The data plane's description of a queue for the device, in its own line. */
struct io_descriptor {
  uint64_t doorbell;        /**< Address of the device ring's doorbell. */
  uint64_t ring;            /**< Address of the device ring. */
  uint64_t tenant_doorbell; /**< Address of the tenant ring's doorbell. */
  uint64_t tenant_ring;     /**< Address of the tenant ring. */
  uint64_t taken;           /**< Address of a word that counts the items that were taken, for a
                                 doorbell that is never counted down; or 0. */
  uint64_t wake;            /**< Address of a word to which the device adds wake_addend, once it
                                 has rung for an item that came into the empty queue; or 0. */
  uint64_t wake_addend;     /**< The addend. */
  uint64_t completions;     /**< Address of the ring of completions, an entry for each slot of the
                                 device ring; see enum io_completions. */
};

/** How the device announces an item. With completions a doorbell is never written, and a descriptor
 * must have `taken`. */
enum io_completions {
  IO_COMPLETIONS_NONE = 0,      /**< It adds 1 to the doorbell. */
  IO_COMPLETIONS_OWNER_BIT = 1, /**< It writes an entry of 64 bytes, as ConnectX does: bit 0 of the
                                     last byte, the owner, is 0 in the first lap of the ring, 1 in
                                     the next, and so on. */
  IO_COMPLETIONS_DONE_BIT = 2,  /**< It writes an entry of 16 bytes, as the 82599 does: bit 0 of
                                     byte 8 is 1. Whoever takes the item clears it. */
};

/** The number of items in a ring. */
static inline uint64_t io_count(const struct io_doorbell *doorbell) {
  return __atomic_load_n(&doorbell->items, __ATOMIC_RELAXED);
}

/**
 * Takes one item off a device ring that is not empty. Its slot is read after this: the producer
 * therefore never fills the last free slot, which may still be being read.
 */
static inline void io_take(struct io_doorbell *doorbell) {
  __atomic_fetch_sub(&doorbell->count, 1, __ATOMIC_ACQUIRE);
}

/** Takes several items off a device ring that has at least as many. */
static inline void io_take_several(struct io_doorbell *doorbell, uint64_t items) {
  __atomic_fetch_sub(&doorbell->count, items, __ATOMIC_ACQUIRE);
}

/** Announces one more item to the consumer of a ring, after all earlier stores. */
static inline void io_ring(struct io_doorbell *doorbell) {
  __atomic_fetch_add(&doorbell->count, 1, __ATOMIC_RELEASE);
}

/** The number of items that a tenant ring can take; waits until it is at least one. The tenant
 * decrements the count after it has read the slot. */
static inline uint64_t io_room(const struct io_doorbell *doorbell, uint64_t capacity) {
  uint64_t count;
  do
    count = __atomic_load_n(&doorbell->count, __ATOMIC_ACQUIRE);
  while (count >= capacity);
  return capacity - count;
}

#endif
