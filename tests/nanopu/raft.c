/** Servers of nanopu/raft.h for a test in Python: a function for each way in, and lists of what
 * comes out. */
#define RAFT_LOG_ENTRIES 400
#include <nanopu/raft.h>
#include <stdlib.h>

enum { OUT_WORDS = 1 << 20, OUT_APPLIED = 1 << 12 };

/* Since they were last taken: messages, each as receiver, count and words; indices of entries. */
uint64_t sent[OUT_WORDS], sent_words, applied[OUT_APPLIED], applied_count;

static void raft_send(struct raft *raft, uint64_t to, const uint64_t *words, uint64_t count) {
  (void)raft;
  if (sent_words + 2 + count > OUT_WORDS)
    abort();
  sent[sent_words++] = to;
  sent[sent_words++] = count;
  for (uint64_t word = 0; word < count; word++)
    sent[sent_words++] = words[word];
}

static void raft_apply(struct raft *raft, uint64_t index) {
  (void)raft;
  if (applied_count == OUT_APPLIED)
    abort();
  applied[applied_count++] = index;
}

struct raft *server_make(uint64_t self, uint64_t servers, uint64_t election_timeout,
                         uint64_t heartbeat) {
  struct raft *raft = calloc(1, sizeof *raft);
  raft_make(raft, self, servers, election_timeout, heartbeat, 0);
  return raft;
}

void server_free(struct raft *raft) { free(raft); }
void server_restart(struct raft *raft, uint64_t now) { raft_restart(raft, now); }
void server_tick(struct raft *raft, uint64_t now) { raft_tick(raft, now); }

int server_receive(struct raft *raft, const uint64_t *words, uint64_t count, uint64_t now) {
  return raft_receive(raft, words, count, now);
}

int64_t server_propose(struct raft *raft, const uint64_t *command, uint64_t now) {
  return raft_propose(raft, command, now);
}

/* What a server is: role, term, last index, commit index. */
void server_state(const struct raft *raft, uint64_t state[4]) {
  state[0] = raft->role;
  state[1] = raft->term;
  state[2] = raft->last_index;
  state[3] = raft->commit_index;
}

/* An entry: its term, and its command. */
void server_entry(const struct raft *raft, uint64_t index, uint64_t words[RAFT_ENTRY_WORDS]) {
  words[0] = raft->log[index].term;
  for (int word = 0; word < RAFT_COMMAND_WORDS; word++)
    words[1 + word] = raft->log[index].command[word];
}
