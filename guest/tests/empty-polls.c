/* The cost of polling an empty queue with each polling mechanism, by the number of queues: cycles,
 * instructions, and misses of the first-level data cache. Nothing arrives, as in Figure 8 of
 * Golestani et al. (SoCC 2019). docs/polling.md has the numbers. */
#include <counters.h>
#include <data_plane.h>
#include <notify/more/spin-mlx5.h>
#include <stdio.h>
#undef NOTIFY_CODE
#undef NOTIFY_MECHANISM
#include <notify/more/spin-ixgbe-vector.h>

enum { MAX_QUEUES = 1000, SLOTS = 16, POLLS = 8000 };

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  (void)in;
  (void)out;
}

/* The device's information for a mechanism's set_up(). */
static struct io_registers registers;
static struct io_descriptor table[MAX_QUEUES];
static uint64_t queues;

static __attribute__((noinline)) void rounds_of_spin(uint64_t rounds) {
  struct io_doorbell *all = data_plane_state.doorbells;
  for (uint64_t round = 0; round < rounds; round++)
    if (spin_scan(all, all + queues) != all + queues)
      fail("There is an item.");
}

static __attribute__((noinline)) void rounds_of_poll_mode(uint64_t rounds) {
  uint64_t first;
  for (uint64_t round = 0; round < rounds; round++)
    for (uint64_t number = 0; number < queues; number++)
      if (poll_mode_receive_burst(number, 32, &first))
        fail("There is an item.");
}

static __attribute__((noinline)) void rounds_of_streams(uint64_t rounds) {
  uint64_t (*call)(struct receive_stream *) = receive_forward;
  __asm__("" : "+r"(call));
  for (uint64_t round = 0; round < rounds; round++)
    for (uint64_t number = 0; number < queues; number++)
      if (call(receive.streams[number]))
        fail("There is an item.");
}

static uint64_t cycles(void) {
  uint64_t value;
  __asm__ volatile("fence\n rdcycle %0" : "=r"(value)::"memory");
  return value;
}

static uint64_t instructions(void) {
  uint64_t value;
  __asm__ volatile("rdinstret %0" : "=r"(value)::"memory");
  return value;
}

static void measure(const char *name, void (*run)(uint64_t rounds)) {
  uint64_t rounds = POLLS / queues;
  run(2 + rounds / 8); /* Brings the caches into their steady state. */
  uint64_t misses = counter_read(3), count = instructions(), start = cycles();
  run(rounds);
  uint64_t taken = cycles() - start;
  count = instructions() - count;
  misses = counter_read(3) - misses;
  uint64_t polls = rounds * queues;
  printf("%s, %lu queues: %lu.%02lu cycles, %lu instructions, %lu.%lu misses\n", name, queues,
         taken / polls, taken * 100 / polls % 100, (count + polls / 2) / polls, misses / polls,
         misses * 10 / polls % 10);
}

int main(void) {
  counter_select(3, COUNTER_L1_DATA_MISSES);
  registers.consumers =
      (uint64_t)aligned_alloc(LINE_BYTES, MAX_QUEUES * sizeof(struct io_consumer));
  data_plane_state.queue_count = MAX_QUEUES;
  data_plane_state.ring_slots = SLOTS;
  data_plane_state.cores = data_plane_state.cluster_cores = data_plane_state.clusters = 1;
  data_plane_state.batch = 32;
  data_plane_state.doorbells =
      aligned_alloc(LINE_BYTES, MAX_QUEUES * sizeof *data_plane_state.doorbells);
  data_plane_state.queues = aligned_alloc(LINE_BYTES, MAX_QUEUES * sizeof *data_plane_state.queues);
  for (uint64_t number = 0; number < MAX_QUEUES; number++)
    data_plane_state.queues[number].doorbell = &data_plane_state.doorbells[number];
  static const uint64_t counts[] = {1, 2, 8, 64, 384, 512, 1000};
  static const struct {
    const char *name;
    const struct notify_mechanism *mechanism;
    void (*run)(uint64_t rounds);
  } all[] = {
      {"spin", &notify_spin, rounds_of_spin},
      {"spin-poll-mode", &notify_poll_mode, rounds_of_poll_mode},
      {"spin-ixgbe-vector", &notify_ixgbe, rounds_of_streams},
      {"spin-mlx5", &notify_mlx5, rounds_of_streams},
  };
  for (int which = 0; which < 4; which++) {
    all[which].mechanism->set_up(&registers, table);
    for (int place = 0; place < 7; place++) {
      queues = counts[place];
      measure(all[which].name, all[which].run);
    }
  }
  return 0;
}
