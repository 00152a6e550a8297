/**
 * A key-value store with a partition of the keys for each hart, which alone accesses it.
 *
 * MICA's exclusive access on several cores: as in the prototype's program for several cores, each
 * core has its own store and context, and a client sends a request to the context of its key.
 * The contexts are 0 and so on; of n harts, hart h has the keys from h/n of all keys on. Values go
 * word by word between registers and memory, as in mica.c. services/store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/store_in_registers.h>

enum { MOST_HARTS = 16 };

static struct mica partitions[MOST_HARTS];

void prepare(void) {
  if (harts > MOST_HARTS)
    fail("There are %lu harts; there must be at most %d.", harts, MOST_HARTS);
  for (uint64_t hart = 0; hart < harts; hart++) {
    uint64_t first = STORE_KEYS * hart / harts, end = STORE_KEYS * (hart + 1) / harts;
    store_fill(&partitions[hart], first, end, STORE_NUMBERS);
  }
}

static inline void serve(void) {
  uint64_t hart;
  __asm__("csrr %0, mhartid" : "=r"(hart));
  serve_by(&partitions[hart]);
}

int hart_main(int hart) { return service_in((uint64_t)hart); }

int main(void) {
  harts_release();
  return hart_main(0);
}
