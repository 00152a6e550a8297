/**
 * nanopu: messages arrive in a register (nanoPU, OSDI 2021), and an adapter between the register
 * port and buffers provides the slots of process().
 *
 * The network interface selects the core of a message (server.nanopu.core_selection). All harts run
 * a thread of the same context; a context for each queue is impossible, since a core has queues for
 * four. A queue is a client's port, which is in the application header. The message has the words
 * of a slot. The adapter stores them into a buffer of the hart, by eight instructions for eight
 * words, which read the register themselves; process() reads that buffer and writes another one,
 * which the adapter loads into the register after the header. Both buffers stay in the hart's
 * first-level cache. A message ends when its reply is written.
 *
 * A native nanoPU program, which computes on the registers, does not have the adapter's cost. With
 * `data_plane.parameters.count_adapter = 1` harts count it, and the result has
 * `program_counters.adapter_requests`, `adapter_instructions` and `adapter_cycles`: from after the
 * header until the request is in the buffer, and from the header of the reply until its last word
 * is written, without the cost of counting. Counting makes a request longer.
 */
#ifndef NOTIFY_NANOPU_H
#define NOTIFY_NANOPU_H

#include <lnic.h>
#include <notify/queues.h>

/* It receives its own requests, and has its own loop. */
#define NOTIFY_SET_UP nanopu_set_up
#define NOTIFY_RUN nanopu_run

/* The data plane's layer-4 port. */
enum { NANOPU_CONTEXT = 0 };

/* The cost of a hart's adapter. */
struct nanopu_cost {
  uint64_t requests, instructions, cycles;
  uint64_t empty_instructions, empty_cycles; /* The cost of counting alone. */
} __attribute__((aligned(LINE_BYTES)));

static struct {
  uint8_t *buffers; /* For each hart a slot for requests, and one for replies. */
  struct nanopu_cost *costs;
  volatile uint64_t *requests, *instructions, *cycles;
  uint64_t is_counting;
} nanopu_state;

static inline void nanopu_set_up(void) {
  uint64_t bytes = 2 * data_plane_state.cores * data_plane_state.slot_bytes;
  nanopu_state.buffers = aligned_alloc(LINE_BYTES, bytes);
  io_cleared(nanopu_state.buffers, bytes);
  nanopu_state.is_counting = io_parameter("count_adapter", 0) != 0;
  if (!nanopu_state.is_counting)
    return;
  nanopu_state.costs =
      aligned_alloc(LINE_BYTES, data_plane_state.cores * sizeof *nanopu_state.costs);
  nanopu_state.requests = io_counter("adapter_requests");
  nanopu_state.instructions = io_counter("adapter_instructions");
  nanopu_state.cycles = io_counter("adapter_cycles");
}

#define NANOPU_STORE(place) "sd " LREAD ", " #place "(%0)\n\t"
#define NANOPU_LOAD(place) "ld " LWRITE ", " #place "(%0)\n\t"
#define NANOPU_EIGHT(step) step(0) step(8) step(16) step(24) step(32) step(40) step(48) step(56)

/* Stores the next words of the message, each by an instruction that reads the register. The core
 * waits for words that have not arrived. */
static inline __attribute__((always_inline)) void nanopu_store(uint64_t *to, uint64_t words) {
  uint64_t *end = to + words;
  for (; end - to >= 8; to += 8)
    __asm__ volatile(NANOPU_EIGHT(NANOPU_STORE) : : "r"(to) : "memory");
  for (; to < end; to++)
    __asm__ volatile(NANOPU_STORE(0) : : "r"(to) : "memory");
}

/* Sends words. */
static inline __attribute__((always_inline)) void nanopu_load(const uint64_t *from,
                                                              uint64_t words) {
  const uint64_t *end = from + words;
  for (; end - from >= 8; from += 8)
    __asm__ volatile(NANOPU_EIGHT(NANOPU_LOAD) : : "r"(from) : "memory");
  for (; from < end; from++)
    __asm__ volatile(NANOPU_LOAD(0) : : "r"(from) : "memory");
}

/* Starts and stops counting. */
static inline __attribute__((always_inline)) void nanopu_begin(uint64_t *instructions,
                                                               uint64_t *cycles) {
  __asm__ volatile("rdinstret %0\n\trdcycle %1"
                   : "=&r"(*instructions), "=&r"(*cycles)
                   :
                   : "memory");
}

static inline __attribute__((always_inline)) void
nanopu_end(struct nanopu_cost *cost, uint64_t instructions, uint64_t cycles) {
  uint64_t instructions_after, cycles_after;
  __asm__ volatile("rdcycle %1\n\trdinstret %0"
                   : "=&r"(instructions_after), "=&r"(cycles_after)
                   :
                   : "memory");
  cost->instructions += instructions_after - instructions;
  cost->cycles += cycles_after - cycles;
}

/* Reports the counts of all harts to the device; harts that count meanwhile report later. */
static __attribute__((noinline)) void nanopu_tell(struct nanopu_cost *cost) {
  uint64_t requests = 0, instructions = 0, cycles = 0;
  cost->requests++;
  for (uint64_t hart = 0; hart < data_plane_state.cores; hart++) {
    const struct nanopu_cost *one = &nanopu_state.costs[hart];
    uint64_t of_hart = __atomic_load_n(&one->requests, __ATOMIC_RELAXED);
    requests += of_hart;
    instructions += one->instructions - 2 * of_hart * one->empty_instructions;
    cycles += one->cycles - 2 * of_hart * one->empty_cycles;
  }
  *nanopu_state.requests = requests;
  *nanopu_state.instructions = instructions;
  *nanopu_state.cycles = cycles;
}

/* Measures the cost of counting alone, with the instructions in the cache. */
static void nanopu_calibrate(struct nanopu_cost *cost) {
  uint64_t instructions, cycles;
  for (int turn = 0; turn < 4; turn++) {
    cost->instructions = cost->cycles = 0;
    nanopu_begin(&instructions, &cycles);
    nanopu_end(cost, instructions, cycles);
  }
  cost->empty_instructions = cost->instructions;
  cost->empty_cycles = cost->cycles;
  cost->instructions = cost->cycles = 0;
}

/* A hart's loop. */
static inline __attribute__((always_inline, noreturn)) void
nanopu_serve(struct io_slot *in, struct io_slot *out, struct nanopu_cost *cost) {
  uint64_t instructions = 0, cycles = 0;
  for (;;) {
    lnic_wait();
    uint64_t header = lnic_read();
    if (cost)
      nanopu_begin(&instructions, &cycles);
    nanopu_store((uint64_t *)in, (header & LEN_MASK) / LNIC_WORD_SIZE);
    if (cost)
      nanopu_end(cost, instructions, cycles);
    out->flags = 0;
    out->item = in->item;
    process((header & PORT_MASK) >> 16, in, out);
    if (cost)
      nanopu_begin(&instructions, &cycles);
    if (out->flags & IO_FLAG_ERROR)
      out->length = 0;
    uint64_t words = (sizeof *out + out->length + LNIC_WORD_SIZE - 1) / LNIC_WORD_SIZE;
    lnic_write_r((header & ~LEN_MASK) | words * LNIC_WORD_SIZE);
    nanopu_load((const uint64_t *)out, words);
    if (cost)
      nanopu_end(cost, instructions, cycles);
    lnic_msg_done();
    if (cost)
      nanopu_tell(cost);
  }
}

static inline __attribute__((noreturn)) void nanopu_run(uint64_t hart) {
  uint64_t slot_bytes = data_plane_state.slot_bytes;
  struct io_slot *in = (struct io_slot *)(nanopu_state.buffers + 2 * hart * slot_bytes);
  struct io_slot *out = (struct io_slot *)((uint8_t *)in + slot_bytes);
  lnic_add_context(NANOPU_CONTEXT, 0);
  if (hart == 0) /* Messages for an unbound context would be lost. */
    io_device()->start = 1;
  if (nanopu_state.is_counting) {
    struct nanopu_cost *cost = &nanopu_state.costs[hart];
    nanopu_calibrate(cost);
    nanopu_serve(in, out, cost);
  }
  nanopu_serve(in, out, 0);
}

#endif
