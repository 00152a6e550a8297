/**
 * A key-value store whose values are copied through buffers in memory between the registers and the
 * store.
 *
 * MICA with its unchanged API, "naive" in the nanoPU paper (Section 5.3, Figure 9).
 * services/store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/store.h>

static uint64_t buffer[STORE_VALUE_WORDS] __attribute__((aligned(64)));

void prepare(void) { store_prepare(); }

static inline void write_value(struct mica *of, const uint64_t key[2]) {
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    buffer[word] = lnic_read();
  mica_put(of, 0, key, (const uint8_t *)buffer, sizeof buffer);
}

static inline int read_value(const struct mica *of, const struct load_request *request,
                             const uint64_t key[2]) {
  if (mica_get(of, key, (uint8_t *)buffer, sizeof buffer) < 0)
    return 0;
  reply_value(request, buffer);
  return 1;
}

static inline void serve(void) { serve_by(&store); }

int main(void) { return service_on_one_hart(); }
