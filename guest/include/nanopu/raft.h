/**
 * Raft (Ongaro and Ousterhout, USENIX ATC 2014): servers that agree on a log of commands.
 *
 * A server is a state machine: its inputs are time and messages, and its outputs are messages and
 * committed commands. It is independent of the transport: messages may be lost, delayed, duplicated
 * and reordered. Elections, replication and the commit rules are those of the paper's Figure 2. In
 * addition:
 *
 * - A leader begins its term with an empty command, so that entries replicated by earlier leaders
 *   can be committed (Section 8).
 * - A leader sends entries without waiting for answers. A follower that lacks earlier ones answers
 *   with the index from which it needs entries; if a term does not match, it requests all entries
 *   of that term.
 * - Logs are not compacted. A full log accepts no more commands.
 *
 * `term`, `voted_for` and the log survive a crash; raft_restart() resets the rest. The program that
 * includes this file defines raft_send() and raft_apply().
 */
#ifndef NANOPU_RAFT_H
#define NANOPU_RAFT_H

#include <operations.h>
#include <stdint.h>

#ifndef RAFT_LOG_ENTRIES
#define RAFT_LOG_ENTRIES 65536
#endif

enum {
  RAFT_MAX_SERVERS = 7,
  RAFT_COMMAND_WORDS = 11,
  RAFT_ENTRY_WORDS = 1 + RAFT_COMMAND_WORDS, /**< In messages: the term comes first. */
  RAFT_MAX_ENTRIES = 20,                     /**< In a message, which has 2048 bytes. */
  RAFT_APPEND_WORDS = 7,                     /**< The words before the entries. */
  RAFT_MESSAGE_WORDS = RAFT_APPEND_WORDS + RAFT_MAX_ENTRIES * RAFT_ENTRY_WORDS,
  RAFT_NOBODY = RAFT_MAX_SERVERS,
};

/** The kind of a message between servers, its first word; sender and term follow, and then ... */
enum raft_message {
  RAFT_VOTE_REQUEST = 16, /**< ... the last entry's index and term. */
  RAFT_VOTE = 17,         /**< ... whether it is granted. */
  RAFT_APPEND = 18,   /**< ... index and term of the entry before, the leader's commit index, how
                         many entries, and these. */
  RAFT_APPENDED = 19, /**< ... whether it is, and the last index that matches, or else the one from
                         which entries are wanted. */
};

enum raft_role { RAFT_FOLLOWER, RAFT_CANDIDATE, RAFT_LEADER };

/** Results of raft_propose() other than an index. */
enum { RAFT_NOT_LEADER = 0, RAFT_FULL = -1 };

struct raft_entry {
  uint64_t term;
  uint64_t command[RAFT_COMMAND_WORDS]; /* All zeros: empty; see raft_become_leader(). */
};

struct raft {
  uint64_t self, servers;
  uint64_t election_timeout, heartbeat; /* In the units of `now`. */
  /* The persistent state. Entries are numbered from 1; log[0] precedes the first one. */
  uint64_t term, voted_for, last_index;
  struct raft_entry log[RAFT_LOG_ENTRIES + 1];
  /* The volatile state. */
  enum raft_role role;
  uint64_t leader; /* Of this term, if known; otherwise RAFT_NOBODY. */
  uint64_t commit_index, last_applied;
  uint64_t election_at, heartbeat_at;
  uint64_t votes; /* A bit for each server. */
  uint64_t next_index[RAFT_MAX_SERVERS], match_index[RAFT_MAX_SERVERS];
};

/** Sends a message to another server. Defined by the program. */
static void raft_send(struct raft *raft, uint64_t to, const uint64_t *words, uint64_t count);

/** The entry with this index is committed. Entries come in order, each once, and again after a
 * restart. Defined by the program. */
static void raft_apply(struct raft *raft, uint64_t index);

/* Between one and two timeouts, so that two servers are rarely candidates at the same time. */
static inline void raft_wait_for_leader(struct raft *raft, uint64_t now) {
  uint64_t random = operation_mix(raft->term * RAFT_MAX_SERVERS + raft->self);
  raft->election_at = now + raft->election_timeout + random % raft->election_timeout;
}

/** Restarts after a crash, with the persistent state. */
static inline void raft_restart(struct raft *raft, uint64_t now) {
  raft->role = RAFT_FOLLOWER;
  raft->leader = RAFT_NOBODY;
  raft->commit_index = raft->last_applied = 0;
  raft_wait_for_leader(raft, now);
}

/** Makes server `self` of a cluster of this size, with an empty log; the memory must be zero. */
static inline void raft_make(struct raft *raft, uint64_t self, uint64_t servers,
                             uint64_t election_timeout, uint64_t heartbeat, uint64_t now) {
  raft->self = self;
  raft->servers = servers;
  raft->election_timeout = election_timeout;
  raft->heartbeat = heartbeat;
  raft->voted_for = RAFT_NOBODY;
  raft_restart(raft, now);
}

/* Follows a newer term, or a leader of this one. */
static inline void raft_follow(struct raft *raft, uint64_t term, uint64_t now) {
  if (term > raft->term) {
    raft->term = term;
    raft->voted_for = RAFT_NOBODY;
    raft->leader = RAFT_NOBODY;
  }
  if (raft->role == RAFT_LEADER)
    raft_wait_for_leader(raft, now); /* It has not been waiting. */
  raft->role = RAFT_FOLLOWER;
}

/* Sends a follower the entries that it lacks, or a heartbeat. */
static inline void raft_send_entries(struct raft *raft, uint64_t to) {
  uint64_t words[RAFT_MESSAGE_WORDS];
  uint64_t next = raft->next_index[to], count = raft->last_index + 1 - next;
  if (count > RAFT_MAX_ENTRIES)
    count = RAFT_MAX_ENTRIES;
  words[0] = RAFT_APPEND;
  words[1] = raft->self;
  words[2] = raft->term;
  words[3] = next - 1;
  words[4] = raft->log[next - 1].term;
  words[5] = raft->commit_index;
  words[6] = count;
  uint64_t *word = words + RAFT_APPEND_WORDS;
  for (uint64_t index = next; index < next + count; index++) {
    const struct raft_entry *entry = &raft->log[index];
    *word++ = entry->term;
    for (int at = 0; at < RAFT_COMMAND_WORDS; at++)
      *word++ = entry->command[at];
  }
  raft->next_index[to] = next + count; /* If they are lost, the follower reports it. */
  raft_send(raft, to, words, (uint64_t)(word - words));
}

static inline void raft_send_entries_to_all(struct raft *raft, uint64_t now) {
  raft->heartbeat_at = now + raft->heartbeat;
  for (uint64_t to = 0; to < raft->servers; to++)
    if (to != raft->self)
      raft_send_entries(raft, to);
}

static inline void raft_apply_committed(struct raft *raft) {
  while (raft->last_applied < raft->commit_index)
    raft_apply(raft, ++raft->last_applied);
}

/* Commits the entries that a majority has, if they are of this term. */
static inline void raft_advance(struct raft *raft) {
  for (uint64_t index = raft->last_index; index > raft->commit_index; index--) {
    if (raft->log[index].term != raft->term)
      return;
    uint64_t have = 1;
    for (uint64_t server = 0; server < raft->servers; server++)
      have += server != raft->self && raft->match_index[server] >= index;
    if (2 * have > raft->servers) {
      raft->commit_index = index;
      raft_apply_committed(raft);
      return;
    }
  }
}

static inline void raft_append(struct raft *raft, const uint64_t *command) {
  struct raft_entry *entry = &raft->log[++raft->last_index];
  entry->term = raft->term;
  for (int word = 0; word < RAFT_COMMAND_WORDS; word++)
    entry->command[word] = command[word];
}

static inline void raft_become_leader(struct raft *raft, uint64_t now) {
  static const uint64_t nothing[RAFT_COMMAND_WORDS];
  raft->role = RAFT_LEADER;
  raft->leader = raft->self;
  for (uint64_t server = 0; server < raft->servers; server++) {
    raft->next_index[server] = raft->last_index + 1;
    raft->match_index[server] = 0;
  }
  if (raft->last_index < RAFT_LOG_ENTRIES)
    raft_append(raft, nothing);
  raft_send_entries_to_all(raft, now);
  raft_advance(raft); /* It may be the only server. */
}

static inline void raft_stand(struct raft *raft, uint64_t now) {
  raft->term++;
  raft->role = RAFT_CANDIDATE;
  raft->leader = RAFT_NOBODY;
  raft->voted_for = raft->self;
  raft->votes = (uint64_t)1 << raft->self;
  raft_wait_for_leader(raft, now);
  if (raft->servers == 1) {
    raft_become_leader(raft, now);
    return;
  }
  uint64_t words[] = {RAFT_VOTE_REQUEST, raft->self, raft->term, raft->last_index,
                      raft->log[raft->last_index].term};
  for (uint64_t to = 0; to < raft->servers; to++)
    if (to != raft->self)
      raft_send(raft, to, words, sizeof words / sizeof *words);
}

/** Processes the passage of time; must be called often. */
static inline void raft_tick(struct raft *raft, uint64_t now) {
  if (raft->role == RAFT_LEADER) {
    if (now >= raft->heartbeat_at)
      raft_send_entries_to_all(raft, now);
  } else if (now >= raft->election_at) {
    raft_stand(raft, now);
  }
}

/** Replicates a command, if this is the leader; returns its index, or RAFT_NOT_LEADER, or
 * RAFT_FULL. */
static inline int64_t raft_propose(struct raft *raft, const uint64_t *command, uint64_t now) {
  if (raft->role != RAFT_LEADER)
    return RAFT_NOT_LEADER;
  if (raft->last_index == RAFT_LOG_ENTRIES)
    return RAFT_FULL;
  raft_append(raft, command);
  uint64_t index = raft->last_index;
  raft_send_entries_to_all(raft, now);
  raft_advance(raft);
  return (int64_t)index;
}

static inline void raft_receive_vote_request(struct raft *raft, uint64_t now, uint64_t from,
                                             uint64_t last_index, uint64_t last_term) {
  uint64_t own_term = raft->log[raft->last_index].term;
  int is_up_to_date =
      last_term > own_term || (last_term == own_term && last_index >= raft->last_index);
  int grants = is_up_to_date && (raft->voted_for == RAFT_NOBODY || raft->voted_for == from);
  if (grants) {
    raft->voted_for = from;
    raft_wait_for_leader(raft, now);
  }
  uint64_t words[] = {RAFT_VOTE, raft->self, raft->term, (uint64_t)grants};
  raft_send(raft, from, words, sizeof words / sizeof *words);
}

static inline void raft_receive_vote(struct raft *raft, uint64_t now, uint64_t from) {
  uint64_t count = 0;
  raft->votes |= (uint64_t)1 << from;
  for (uint64_t server = 0; server < raft->servers; server++)
    count += raft->votes >> server & 1;
  if (2 * count > raft->servers)
    raft_become_leader(raft, now);
}

static inline void raft_answer(struct raft *raft, uint64_t to, int is_appended, uint64_t index) {
  uint64_t words[] = {RAFT_APPENDED, raft->self, raft->term, (uint64_t)is_appended, index};
  raft_send(raft, to, words, sizeof words / sizeof *words);
}

static inline void raft_receive_entries(struct raft *raft, uint64_t now, uint64_t from,
                                        const uint64_t *words) {
  uint64_t previous = words[0], previous_term = words[1], commit = words[2], count = words[3];
  raft->leader = from;
  raft_wait_for_leader(raft, now);
  if (previous > raft->last_index) {
    raft_answer(raft, from, 0, raft->last_index + 1);
    return;
  }
  if (raft->log[previous].term != previous_term) {
    uint64_t wanted = previous; /* All entries of the mismatching term. */
    while (wanted > 1 && raft->log[wanted - 1].term == raft->log[previous].term)
      wanted--;
    raft_answer(raft, from, 0, wanted);
    return;
  }
  const uint64_t *word = words + 4;
  for (uint64_t index = previous + 1; index <= previous + count; index++) {
    struct raft_entry *entry = &raft->log[index];
    if (index > raft->last_index ||
        entry->term != word[0]) { /* This entry and all later ones are wrong. */
      entry->term = word[0];
      for (int at = 0; at < RAFT_COMMAND_WORDS; at++)
        entry->command[at] = word[1 + at];
      raft->last_index = index;
    }
    word += RAFT_ENTRY_WORDS;
  }
  uint64_t known = previous + count; /* Later entries may be an earlier leader's. */
  if (commit > known)
    commit = known;
  if (commit > raft->commit_index)
    raft->commit_index = commit;
  raft_answer(raft, from, 1, known);
  raft_apply_committed(raft);
}

static inline void raft_receive_answer(struct raft *raft, uint64_t from, int is_appended,
                                       uint64_t index) {
  if (is_appended) {
    if (index > raft->match_index[from])
      raft->match_index[from] = index;
    raft_advance(raft);
  } else if (index > raft->match_index[from] && index < raft->next_index[from]) {
    raft->next_index[from] = index;
  } else {
    return; /* A stale answer. */
  }
  /* Entries that did not fit into the last message, or that it has requested. */
  if (raft->next_index[from] <= raft->last_index)
    raft_send_entries(raft, from);
}

/* Whether a message has the length of its kind. */
static inline int raft_is_message(const struct raft *raft, const uint64_t *words, uint64_t count) {
  if (count < 4 || words[1] >= raft->servers || words[1] == raft->self)
    return 0;
  switch (words[0]) {
  case RAFT_VOTE_REQUEST:
  case RAFT_APPENDED:
    return count == 5;
  case RAFT_VOTE:
    return count == 4;
  case RAFT_APPEND:
    return count >= RAFT_APPEND_WORDS && words[6] <= RAFT_MAX_ENTRIES &&
           count == RAFT_APPEND_WORDS + words[6] * RAFT_ENTRY_WORDS &&
           words[3] <= RAFT_LOG_ENTRIES && words[3] + words[6] <= RAFT_LOG_ENTRIES;
  default:
    return 0;
  }
}

/** Processes a message of another server; returns whether it is valid. */
static inline int raft_receive(struct raft *raft, const uint64_t *words, uint64_t count,
                               uint64_t now) {
  if (!raft_is_message(raft, words, count))
    return 0;
  uint64_t kind = words[0], from = words[1], term = words[2];
  if (term > raft->term)
    raft_follow(raft, term, now);
  if (term < raft->term) { /* A sender with an older term is sent the present one. */
    if (kind == RAFT_VOTE_REQUEST) {
      uint64_t refusal[] = {RAFT_VOTE, raft->self, raft->term, 0};
      raft_send(raft, from, refusal, sizeof refusal / sizeof *refusal);
    } else if (kind == RAFT_APPEND) {
      raft_answer(raft, from, 0, 0);
    }
    return 1;
  }
  switch (kind) {
  case RAFT_VOTE_REQUEST:
    raft_receive_vote_request(raft, now, from, words[3], words[4]);
    break;
  case RAFT_VOTE:
    if (raft->role == RAFT_CANDIDATE && words[3])
      raft_receive_vote(raft, now, from);
    break;
  case RAFT_APPEND:
    raft_follow(raft, term, now); /* A candidate has lost. */
    raft_receive_entries(raft, now, from, words + 3);
    break;
  case RAFT_APPENDED:
    if (raft->role == RAFT_LEADER)
      raft_receive_answer(raft, from, words[3] != 0, words[4]);
    break;
  }
  return 1;
}

#endif
