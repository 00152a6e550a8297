/**
 * A replicated key-value store: one server of several that agree on its operations by Raft.
 *
 * The nanoPU paper's Raft (Section 5.3): keys of 16 bytes, values of 64, MICA as the state machine.
 * raft.h has the protocol, peers.h how a server learns who it is.
 *
 * | message | words |
 * | --- | --- |
 * | configuration | two of the load generator, 1, and what peers.h says; at most 7 servers |
 * | reply to a configuration | two of the load generator, 1 |
 * | write | two of the load generator, 2, two of the key, eight of the value |
 * | read | two of the load generator, 3, two of the key |
 * | reply to a write | two of the load generator, 1 |
 * | reply to a read | two of the load generator, 1, eight of the value; or one, 2: there is none |
 * | reply of others than the leader | two of the load generator, 3, where the leader is; or 0 |
 * | reply if the log is full | two of the load generator, 4 |
 * | between servers | two zeros, and then what raft.h says |
 *
 * A configuration after the first one changes nothing and has the same reply.
 *
 * A reply is sent when the operation is committed. Reads go through the log, too, so that they
 * return everything committed before. A client without a reply, because the leader has stopped,
 * asks another server; a repeated write does no harm as long as nothing else is written while the
 * first request may still arrive.
 */
#include <lnic.h>
#include <mica.h>
#include <nanopu/clock.h>
#include <nanopu/peers.h>
#include <nanopu/raft.h>
#include <services/keys.h>

enum {
  CONFIGURATION = 1,
  OPERATION_WRITES = 2,
  OPERATION_READS = 3,
  KEY_WORDS = 2,
  VALUE_WORDS = 8,
  DONE = 1,
  NOT_FOUND = 2,
  OTHER_LEADER = 3,
  LOG_IS_FULL = 4,
  KEYS = 10000,
  MESSAGE_WORDS = 256,
};

/* 5 ms at 3.2 GHz, as in the prototype; a leader sends heartbeats five times as often. */
static const uint64_t election_timeout_cycles = 16000000, heartbeat_cycles = 3200000;

static struct raft raft;
static struct peers peers;
static struct mica store;

/* The client that waits for an entry: the application header of the request, 0 for none, and its
 * load-generator words. It is valid if the entry is still of that term when it is committed. */
static struct waiting {
  uint64_t term, header, service_time, sent_time;
} waiting[RAFT_LOG_ENTRIES + 1];

/* A committed write is never lost: the index has four times as many entries as there are keys, and
 * the log twice the space that they need. */
void prepare(void) {
  mica_make(&store, (uint64_t)4 * KEYS / MICA_BUCKET_ENTRIES,
            (uint64_t)2 * KEYS * mica_item_bytes(VALUE_WORDS * WORD_BYTES));
}

static void reply(uint64_t header, uint64_t service_time, uint64_t sent_time, const uint64_t *words,
                  uint64_t count) {
  lnic_write_r(header_to(header, LOAD_WORDS + count));
  lnic_write_r(service_time);
  lnic_write_r(sent_time);
  for (uint64_t word = 0; word < count; word++)
    lnic_write_r(words[word]);
}

static void raft_send(struct raft *from, uint64_t to, const uint64_t *words, uint64_t count) {
  (void)from;
  reply(peers.where[to], 0, 0, words, count);
}

static void raft_apply(struct raft *of, uint64_t index) {
  const struct raft_entry *entry = &of->log[index];
  const uint64_t *words = entry->command + 1;
  uint64_t key[2];
  key_of_words(key, words[0], words[1]);
  uint64_t answer[1 + VALUE_WORDS] = {DONE}, count = 1;
  if (entry->command[0] == OPERATION_WRITES) {
    if (mica_put(&store, 0, key, (const uint8_t *)(words + KEY_WORDS), VALUE_WORDS * WORD_BYTES) !=
        0)
      fail("The store has no room for another key.");
  } else if (entry->command[0] == OPERATION_READS) {
    if (mica_get(&store, key, (uint8_t *)(answer + 1), VALUE_WORDS * WORD_BYTES) >= 0)
      count += VALUE_WORDS;
    else
      answer[0] = NOT_FOUND;
  }
  struct waiting *client = &waiting[index];
  if (client->header != 0 && client->term == entry->term)
    reply(client->header, client->service_time, client->sent_time, answer, count);
  client->header = 0;
}

/* An operation of a client: `words` follow the load generator's words in the request. */
static void propose(uint64_t header, uint64_t service_time, uint64_t sent_time,
                    const uint64_t *words, uint64_t count) {
  uint64_t command[RAFT_COMMAND_WORDS] = {0};
  for (uint64_t word = 0; word < count; word++)
    command[word] = words[word];
  if (raft.role == RAFT_LEADER && raft.last_index < RAFT_LOG_ENTRIES)
    waiting[raft.last_index + 1] = /* Set first, because an entry may be committed at once. */
        (struct waiting){raft.term, header, service_time, sent_time};
  int64_t index = raft_propose(&raft, command, clock_cycles());
  if (index == RAFT_NOT_LEADER) {
    uint64_t leader = raft.leader == RAFT_NOBODY ? 0 : peers.where[raft.leader];
    reply(header, service_time, sent_time, (uint64_t[]){OTHER_LEADER, leader}, 2);
  } else if (index == RAFT_FULL) {
    reply(header, service_time, sent_time, (uint64_t[]){LOG_IS_FULL}, 1);
  }
}

static inline void serve(void) {
  uint64_t words[MESSAGE_WORDS];
  uint64_t header = lnic_read();
  uint64_t count = message_words(header);
  if (count <= LOAD_WORDS || count > MESSAGE_WORDS) {
    refuse(header, 0);
    return;
  }
  uint64_t service_time = lnic_read(), sent_time = lnic_read();
  count -= LOAD_WORDS;
  for (uint64_t word = 0; word < count; word++)
    words[word] = lnic_read();
  if (words[0] == CONFIGURATION && peers.count != 0) {
    reply(header, service_time, sent_time, (uint64_t[]){DONE}, 1);
    return;
  }
  if (peers.count == 0) {
    if (words[0] == CONFIGURATION && count <= 3 + RAFT_MAX_SERVERS &&
        peers_configure(&peers, words + 1, count - 1)) {
      raft_make(&raft, peers.self, peers.count, election_timeout_cycles, heartbeat_cycles,
                clock_cycles());
      reply(header, service_time, sent_time, (uint64_t[]){DONE}, 1);
      return;
    }
  } else if ((words[0] == OPERATION_WRITES && count == 1 + KEY_WORDS + VALUE_WORDS) ||
             (words[0] == OPERATION_READS && count == 1 + KEY_WORDS)) {
    propose(header, service_time, sent_time, words, count);
    return;
  } else if (raft_receive(&raft, words, count, clock_cycles())) {
    return;
  }
  refuse(header, message_words(header));
}

int main(void) {
  lnic_add_context(SERVICE_CONTEXT, 0);
  for (;;) {
    if (lnic_ready()) {
      serve();
      lnic_msg_done();
    } else {
      lnic_idle();
    }
    if (peers.count != 0)
      raft_tick(&raft, clock_cycles());
  }
}
