/**
 * The key-value store behind a network interface with one descriptor ring and a dispatching hart,
 * which receives all frames and distributes them to the others.
 *
 * As in Shinjuku (Kaffes et al., NSDI 2019): one queue, first come, first served; a request that
 * exceeds its time slice while others wait is preempted and moves to the end of the queue. Shinjuku
 * sends posted interrupts through its Dune; here these are user-level interrupts. A preempted
 * request's registers stay on its stack, so that any hart can resume it. Interrupts are enabled
 * while a request does its work (compared_work()), and disabled while it holds the lock of a bucket
 * of the store or a ring entry, for which others would wait.
 *
 * | parameter | meaning | default |
 * | --- | --- | --- |
 * | `depth` | requests that a hart has at one time: JBSQ(n) in software | 1 |
 * | `slice_cycles` | cycles of a slice; 0: nothing is interrupted | 0 |
 *
 * See ring_shared.h; services/compared_store.h has the other parameters, and services/store.h the
 * messages.
 */
#include <services/compared_store.h>
/* Above: the number of ring entries. */
#include <ring_shared.h>
#include <user_interrupt.h>

enum {
  MOST_DEPTH = 2,
  MOST_HARTS = 64, /* Bits of a word. */
  QUEUE_ITEMS = 4096,
  STACKS = 512, /* One for each hart, and for each preempted request. */
  STACK_BYTES = 4096,
  CONTEXT_BYTES = 256, /* 31 registers and the program counter. */
  NOTIFICATION = 0xec, /* A vector: any. */
  VECTOR = 1,
};

/* Communication between the dispatcher and a hart; each side writes its own lines. Items are
 * numbered from 1 on. */
struct worker {
  uint64_t given __attribute__((aligned(64)));    /* The last assigned item, */
  uint64_t item[MOST_DEPTH];                      /* by its number: a frame, or a context plus 1, */
  uint64_t bytes[MOST_DEPTH];                     /* the frame's bytes; */
  uint64_t interrupted;                           /* and the item to preempt. */
  uint64_t finished __attribute__((aligned(64))); /* The last finished item, */
  uint64_t left[MOST_DEPTH]; /* by its number: a free buffer, or a context plus 1. */
  uint64_t taken __attribute__((aligned(64))); /* The hart's own. */
};

/* A queued item. */
struct waiting {
  uint64_t item, bytes;
};

static struct worker *workers;
static struct shared_sender *sender;
static struct user_interrupt_descriptor *descriptors;
static struct user_interrupt_target *targets;
static uint64_t depth, slice_cycles;

/* The dispatcher's own. */
static struct dma_nic_queue frames;
static struct waiting waiting[QUEUE_ITEMS];
static uint64_t waiting_first, waiting_end;
static uint64_t *spares, spare_count;
static uint64_t with_items[MOST_DEPTH]; /* The harts with this many items, as bits. */
static uint64_t begun[MOST_HARTS];      /* The start of a hart's oldest item, or a later time. */
static uint64_t asked[MOST_HARTS];      /* The last of its items to be preempted. */

/* The free stacks. */
static uint64_t stacks_lock __attribute__((aligned(64)));
static uint64_t stack_count;
static uint64_t stacks[STACKS];

void prepare(void) {
  compared_prepare_rings();
  depth = compared_number("depth", 1, 1, MOST_DEPTH, 1);
  slice_cycles = compared_number("slice_cycles", 0, 0, 1000000000, 1);
  compared_prepare_system();
}

/* Without the work, which the hart has already done. */
static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return wire_store_answer(request, bytes, reply);
}

#include <ring_answer.h>

/* The state of this hart; the hart may change between calls, as any may resume a preempted
 * request. */
static inline struct worker *own(void) {
  uint64_t hart;
  __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
  return &workers[hart];
}

static void stacks_acquire(void) {
  while (__atomic_exchange_n(&stacks_lock, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(&stacks_lock, __ATOMIC_RELAXED))
      ;
}

static void stacks_release(void) { __atomic_store_n(&stacks_lock, 0, __ATOMIC_RELEASE); }

/* The stack pointer of a free stack; 0 if there is none. */
static uint64_t stack_take(void) {
  stacks_acquire();
  uint64_t stack = stack_count == 0 ? 0 : stacks[--stack_count];
  stacks_release();
  return stack;
}

/* Frees the stack that contains an address. */
static __attribute__((used)) void stack_give(uint64_t address) {
  stacks_acquire();
  stacks[stack_count++] = (address & -(uint64_t)STACK_BYTES) + STACK_BYTES - 64;
  stacks_release();
}

/* Reports the item as finished to the dispatcher, with what is left of it. */
static void finish(uint64_t left) {
  struct worker *worker = own();
  worker->left[worker->taken % MOST_DEPTH] = left;
  __atomic_store_n(&worker->finished, worker->taken, __ATOMIC_RELEASE);
}

/* Resumes the request whose registers are at a0, on its stack, and frees the stack that contains
 * a1, which is not used any more. The saved registers exclude those that no program changes and
 * those of the floating-point unit, which the work does not use. */
static __attribute__((naked, noreturn, used)) void go_on(uint64_t context, uint64_t stack) {
  __asm__ volatile("mv sp, a0\n"
                   "mv a0, a1\n"
                   "call stack_give\n"
                   "registers_back:\n"
                   "ld t0, 248(sp)\n"
                   "csrw 0x801, t0\n" /* CSR_UI_PC */
                   "ld ra, 0(sp)\n ld t0, 8(sp)\n ld t1, 16(sp)\n ld t2, 24(sp)\n"
                   "ld s0, 32(sp)\n ld s1, 40(sp)\n ld a0, 48(sp)\n ld a1, 56(sp)\n"
                   "ld a2, 64(sp)\n ld a3, 72(sp)\n ld a4, 80(sp)\n ld a5, 88(sp)\n"
                   "ld a6, 96(sp)\n ld a7, 104(sp)\n ld s2, 112(sp)\n ld s3, 120(sp)\n"
                   "ld s4, 128(sp)\n ld s5, 136(sp)\n ld s6, 144(sp)\n ld s7, 152(sp)\n"
                   "ld s8, 160(sp)\n ld s9, 168(sp)\n ld s10, 176(sp)\n ld s11, 184(sp)\n"
                   "ld t3, 192(sp)\n ld t4, 200(sp)\n ld t5, 208(sp)\n ld t6, 216(sp)\n"
                   "addi sp, sp, 256\n" USER_INTERRUPT_RETURN);
}

/* Saves the registers, and switches to another stack if the request is to be preempted. */
static __attribute__((naked, aligned(64))) void handler(void) {
  __asm__ volatile("addi sp, sp, -256\n"
                   "sd ra, 0(sp)\n sd t0, 8(sp)\n sd t1, 16(sp)\n sd t2, 24(sp)\n"
                   "sd s0, 32(sp)\n sd s1, 40(sp)\n sd a0, 48(sp)\n sd a1, 56(sp)\n"
                   "sd a2, 64(sp)\n sd a3, 72(sp)\n sd a4, 80(sp)\n sd a5, 88(sp)\n"
                   "sd a6, 96(sp)\n sd a7, 104(sp)\n sd s2, 112(sp)\n sd s3, 120(sp)\n"
                   "sd s4, 128(sp)\n sd s5, 136(sp)\n sd s6, 144(sp)\n sd s7, 152(sp)\n"
                   "sd s8, 160(sp)\n sd s9, 168(sp)\n sd s10, 176(sp)\n sd s11, 184(sp)\n"
                   "sd t3, 192(sp)\n sd t4, 200(sp)\n sd t5, 208(sp)\n sd t6, 216(sp)\n"
                   "csrr t0, 0x801\n" /* CSR_UI_PC */
                   "sd t0, 248(sp)\n"
                   "call stack_to_change_to\n"
                   "beqz a0, registers_back\n"
                   "mv a1, sp\n"
                   "mv sp, a0\n"
                   "mv a0, a1\n"
                   "call interrupted\n");
}

static _Noreturn void work(void);

/* A stack to switch to; 0 if the interrupt was for an earlier item, or no stack is free. */
static __attribute__((used)) uint64_t stack_to_change_to(void) {
  compared_system();
  struct worker *worker = own();
  if (__atomic_load_n(&worker->interrupted, __ATOMIC_RELAXED) != worker->taken)
    return 0;
  return stack_take();
}

/* Returns the preempted request, whose registers are at `context`, to the dispatcher. */
static __attribute__((used)) _Noreturn void interrupted(uint64_t context) {
  finish(context | 1);
  work();
}

/* Answers a request and sends the reply. */
static void answer(struct frame *frame, uint64_t bytes) {
  uint64_t rounds = compared_rounds(frame->payload, frame_payload_bytes(frame, bytes));
  if (slice_cycles && rounds)
    user_interrupt_on();
  compared_work(rounds);
  if (slice_cycles && rounds)
    user_interrupt_off();
  bytes = ring_answer(frame, bytes);
  finish(shared_sender_send(sender, frame, bytes));
}

/* The loop of every hart other than the dispatcher. */
static _Noreturn void work(void) {
  for (;;) {
    struct worker *worker = own();
    while (__atomic_load_n(&worker->given, __ATOMIC_ACQUIRE) == worker->taken)
      ;
    uint64_t place = ++worker->taken % MOST_DEPTH;
    uint64_t item = worker->item[place];
    if (item & 1)
      go_on(item - 1, (uint64_t)__builtin_frame_address(0) - 1);
    answer((struct frame *)item, worker->bytes[place]);
  }
}

static __attribute__((naked, noreturn, used)) void work_on(uint64_t stack) {
  __asm__ volatile("mv sp, a0\n"
                   "call %0" ::"i"(work));
}

int hart_main(int hart) {
  if (slice_cycles)
    user_interrupt_receive(&descriptors[hart], handler);
  work_on(stack_take());
}

/* The lowest set bit of a word: CTZ of Zbb, for which the compiler is not configured. */
static inline uint64_t first_bit(uint64_t word) {
  uint64_t bit;
  __asm__(".insn i 0x13, 1, %0, %1, 0x601" : "=r"(bit) : "r"(word));
  return bit;
}

static inline void wait_at_the_end(uint64_t item, uint64_t bytes) {
  waiting[waiting_end++ % QUEUE_ITEMS] = (struct waiting){item, bytes};
}

/* Records the items that a hart has finished since `finished`; returns its new count. */
static inline uint64_t note(uint64_t hart, uint64_t finished, uint64_t given) {
  struct worker *worker = &workers[hart];
  uint64_t now = __atomic_load_n(&worker->finished, __ATOMIC_ACQUIRE);
  if (now == finished)
    return finished;
  if (given - finished < depth)
    with_items[given - finished] &= ~(1ul << hart);
  with_items[given - now] |= 1ul << hart;
  begun[hart] = compared_cycles();
  while (finished != now) {
    uint64_t left = worker->left[++finished % MOST_DEPTH];
    if (left & 1)
      wait_at_the_end(left, 0);
    else
      spares[spare_count++] = left;
  }
  return now;
}

/* Receives frames as long as there are buffers to replace theirs. */
static inline void take_frames(void) {
  while (spare_count != 0) {
    struct dma_nic_descriptor *descriptor = dma_nic_at(frames.receive_ring, frames.taken);
    uint16_t status = __atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE);
    if (!(status & DMA_NIC_DONE))
      return;
    frames.taken++;
    if (status & DMA_NIC_ERROR) {
      dma_nic_give(&frames, descriptor->address);
      continue;
    }
    wait_at_the_end(descriptor->address, descriptor->bytes);
    dma_nic_give(&frames, spares[--spare_count]);
  }
}

/* Assigns queued items to the harts with the fewest items, up to the depth. */
static inline void give_items(uint64_t given[]) {
  for (uint64_t count = 0; count < depth; count++)
    while (with_items[count] != 0 && waiting_first != waiting_end) {
      uint64_t hart = first_bit(with_items[count]);
      with_items[count] &= ~(1ul << hart);
      if (count + 1 < depth)
        with_items[count + 1] |= 1ul << hart;
      if (count == 0)
        begun[hart] = compared_cycles();
      struct waiting *next = &waiting[waiting_first++ % QUEUE_ITEMS];
      struct worker *worker = &workers[hart];
      uint64_t place = ++given[hart] % MOST_DEPTH;
      worker->item[place] = next->item;
      worker->bytes[place] = next->bytes;
      __atomic_store_n(&worker->given, given[hart], __ATOMIC_RELEASE);
    }
}

/* Preempts a hart whose item has used up its slice. */
static inline void interrupt(uint64_t hart, uint64_t item) {
  if (compared_cycles() - begun[hart] < slice_cycles || asked[hart] == item)
    return;
  asked[hart] = item;
  __atomic_store_n(&workers[hart].interrupted, item, __ATOMIC_RELEASE);
  user_interrupt_send(hart);
  compared_system();
}

static _Noreturn void dispatch(void) {
  static uint64_t given[MOST_HARTS], finished[MOST_HARTS];
  for (;;) {
    for (uint64_t hart = 1; hart < harts; hart++)
      finished[hart] = note(hart, finished[hart], given[hart]);
    take_frames();
    give_items(given);
    if (slice_cycles && waiting_first != waiting_end)
      for (uint64_t hart = 1; hart < harts; hart++)
        if (given[hart] != finished[hart])
          interrupt(hart, finished[hart] + 1);
  }
}

int main(void) {
  if (reg_read64(DMA_NIC_QUEUES) != 1)
    fail("The network interface must have one queue, for the hart that dispatches.");
  if (harts < 2 || harts > MOST_HARTS)
    fail("There are %lu harts; there must be 2 to %d.", harts, MOST_HARTS);
  workers = aligned_alloc(64, harts * sizeof *workers);
  sender = aligned_alloc(64, sizeof *sender);
  dma_nic_open(&frames, 0);
  shared_sender_begin(sender, &frames);
  /* As many requests as a ring has entries can be queued or preempted. */
  spare_count = DMA_NIC_ENTRIES;
  spares = aligned_alloc(64, (DMA_NIC_ENTRIES + STACKS) * sizeof *spares);
  uint8_t *buffers = aligned_alloc(64, DMA_NIC_ENTRIES * DMA_NIC_BUFFER_BYTES);
  for (uint64_t place = 0; place < DMA_NIC_ENTRIES; place++)
    spares[place] = (uint64_t)buffers + place * DMA_NIC_BUFFER_BYTES;
  uint8_t *memory = aligned_alloc(STACK_BYTES, STACKS * STACK_BYTES);
  for (uint64_t stack = STACKS; stack-- > 0;)
    stack_give((uint64_t)memory + stack * STACK_BYTES);
  with_items[0] = (1ul << harts) - 2; /* All but hart 0. */
  if (slice_cycles) {
    descriptors = aligned_alloc(64, harts * sizeof *descriptors);
    targets = aligned_alloc(64, harts * sizeof *targets);
    user_interrupt_write_csr(CSR_UI_TARGETS, (uint64_t)targets);
    user_interrupt_write_csr(CSR_UI_TARGET_COUNT, harts);
    for (uint64_t hart = 0; hart < harts; hart++) {
      descriptors[hart].control = user_interrupt_control(hart, NOTIFICATION);
      targets[hart] = (struct user_interrupt_target){.control = VECTOR << 8 | 1,
                                                     .descriptor = &descriptors[hart]};
    }
  }
  harts_release();
  dispatch();
}
