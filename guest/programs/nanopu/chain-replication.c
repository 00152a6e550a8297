/**
 * A replicated key-value store: one server of a chain along which writes propagate.
 *
 * The nanoPU paper's chain replication (Table 1). chain.h has the protocol and the messages, which
 * are preceded by two words of the load generator.
 */
#include <lnic.h>
#include <mica.h>
#include <nanopu/chain.h>
#include <nanopu/service.h>
#include <services/keys.h>

enum { KEYS = 10000 };

static struct mica store;

/* An acknowledged write is never lost: the index has four times as many entries as there are keys,
 * and the log twice the space that they need. */
void prepare(void) {
  mica_make(&store, (uint64_t)4 * KEYS / MICA_BUCKET_ENTRIES,
            (uint64_t)2 * KEYS * mica_item_bytes(sizeof(struct chain_value)));
}

static inline void serve(void) {
  struct load_request request;
  if (!request_begin(&request, LOAD_WORDS + 1))
    return;
  struct chain_head head = chain_parse(lnic_read());
  if (!chain_is_request(head, request.words - LOAD_WORDS)) {
    refuse(request.header, LOAD_WORDS + 1);
    return;
  }
  uint64_t servers[CHAIN_MAX_SERVERS], words_of_key[CHAIN_KEY_WORDS], value[CHAIN_VALUE_WORDS];
  for (uint64_t server = 0; server < head.servers; server++)
    servers[server] = lnic_read();
  for (int word = 0; word < CHAIN_KEY_WORDS; word++)
    words_of_key[word] = lnic_read();
  for (int word = 0; word < CHAIN_VALUE_WORDS; word++)
    value[word] = lnic_read();

  uint64_t key[2];
  key_of_words(key, words_of_key[0], words_of_key[1]);
  struct chain_value there = {.number = 0};
  mica_get(&store, key, (uint8_t *)&there, sizeof there);
  if (head.flags & CHAIN_WRITE) {
    if (chain_write(&head, &there, value) &&
        mica_put(&store, 0, key, (const uint8_t *)&there, sizeof there) != 0)
      fail("The store has no room for another key.");
  } else {
    head.flags &= (uint8_t)~CHAIN_FROM_CLIENT;
    head.number = (uint8_t)there.number;
    for (int word = 0; word < CHAIN_VALUE_WORDS; word++)
      value[word] = there.words[word];
  }

  uint64_t where = chain_next(&head, servers);
  request_pass(&request, where, 1 + head.servers + CHAIN_KEY_WORDS + CHAIN_VALUE_WORDS);
  lnic_write_r(chain_word(head));
  for (uint64_t server = 1; server <= head.servers; server++)
    lnic_write_r(servers[server]);
  for (int word = 0; word < CHAIN_KEY_WORDS; word++)
    lnic_write_r(words_of_key[word]);
  for (int word = 0; word < CHAIN_VALUE_WORDS; word++)
    lnic_write_r(value[word]);
}

int main(void) { return service_on_one_hart(); }
