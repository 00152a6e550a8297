/**
 * The key-value store behind RPCValet's network interface, which assigns messages to harts: a hart
 * sleeps on the next entry of its completion queue while that is empty (WRS.NTO of Zawrs).
 *
 * The interface's write of the entry ends the sleep; no other notification is needed.
 * services/compared_store.h has the parameter value_bytes, and services/store.h the messages.
 */
#include <services/compared_messages.h>

static inline struct sonuma_message compared_receive(struct sonuma_endpoint *endpoint) {
  for (;;) {
    struct sonuma_message message;
    /* Read first: an entry that is written after the poll is then another word. */
    const uint64_t *entry = (const uint64_t *)endpoint->completion;
    uint64_t before = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (sonuma_poll(endpoint, &message))
      return message;
    wait_while(entry, before);
  }
}
