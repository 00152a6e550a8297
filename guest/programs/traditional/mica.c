/**
 * A key-value store: MICA behind a conventional network interface (nanoPU, Figure 9). Values are
 * copied between frames and the store. services/store.h has the messages.
 */
#include <frame_service.h>
#include <services/store.h>

void prepare(void) { store_prepare(); }

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  uint64_t words = (payload_bytes + 7) / 8;
  uint64_t *payload = frame->payload;
  if (words < STORE_REQUEST_WORDS)
    return frame_refuse(frame);
  uint64_t operation = frame_word(payload[LOAD_WORDS]);
  if (!store_is_request(operation, words))
    return frame_refuse(frame);
  uint64_t key[2];
  key_of_words(key, frame_word(payload[LOAD_WORDS + 1]), frame_word(payload[LOAD_WORDS + 2]));
  uint64_t value[STORE_VALUE_WORDS];
  uint64_t *reply = payload + LOAD_WORDS;
  uint64_t reply_words = 1;
  if (operation == STORE_WRITE) {
    for (int word = 0; word < STORE_VALUE_WORDS; word++)
      value[word] = frame_word(payload[STORE_REQUEST_WORDS + word]);
    mica_put(&store, 0, key, (const uint8_t *)value, sizeof value);
    reply[0] = frame_word(STORE_DONE);
  } else if (mica_get(&store, key, (uint8_t *)value, sizeof value) < 0) {
    reply[0] = frame_word(STORE_NOT_FOUND);
  } else {
    for (int word = 0; word < STORE_VALUE_WORDS; word++)
      reply[word] = frame_word(value[word]);
    reply_words = STORE_VALUE_WORDS;
  }
  swap_addresses(frame);
  return (LOAD_WORDS + reply_words) * sizeof *payload;
}

int main(void) { return frame_service(); }
