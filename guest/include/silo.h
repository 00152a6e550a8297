/**
 * Transactions over maps of masstree.h, in the manner of Silo (Tu, Zheng, Kohler, Liskov and
 * Madden, "Speedy transactions in multicore in-memory databases", SOSP 2013): optimistic
 * concurrency control in which readers write no shared data.
 *
 * - *Rows* have a TID word: the epoch and the sequence number of the transaction that last wrote
 *   the row, a lock, and a mark for absent rows (Section 4.2). A row's data change in place; a
 *   reader checks the word before and after (Section 4.5).
 * - *A transaction* records the rows that it has read with their TIDs, the rows that it will write,
 *   and the border nodes that it has scanned or in which it has missed a key (Sections 4.4, 4.6).
 * - *Commit* (Figure 2): lock the rows to be written in the order of their addresses; read the
 *   epoch, which is the serialization point; check that all that was read is unchanged and not
 *   locked by others; choose a TID larger than all TIDs that were read or are overwritten; write
 *   and unlock.
 * - *Epochs* (Section 4.1): the epoch advances every 40 ms, and is at most one ahead of any
 *   worker's. TIDs of different epochs thus have the order of their transactions.
 *
 * Left out: snapshots for read-only transactions, logging, and the removal of absent rows, since
 * masstree.h has no removal. A transaction that inserts into a border node which it has scanned
 * finds it changed and restarts; TPC-C has none.
 */
#ifndef SILO_H
#define SILO_H

#include <io.h>
#include <stdint.h>

/* Prefetches the line of an address: PREFETCH.R of Zicbop. */
static inline void silo_prefetch(const void *address) {
  __asm__ volatile(".insn i 0x13, 6, x0, %0, 1" : : "r"(address));
}

/* Prefetches all lines of a node, as Silo's Masstree does: a search then waits for memory once. */
static inline void silo_prefetch_node(const void *node) {
  for (uint64_t line = 0; line < 5; line++)
    silo_prefetch((const char *)node + line * LINE_BYTES);
}
#define MASSTREE_PREFETCH(node) silo_prefetch_node(node)

#include <masstree.h>
#include <runtime.h>
#include <stdlib.h>
#include <string.h>

#define SILO_LOCKED ((uint64_t)1)
#define SILO_ABSENT ((uint64_t)2)
#define SILO_ONE ((uint64_t)4) /* Of the sequence numbers; the epoch is above them. */
#define SILO_STATUS (SILO_ONE - 1)
#define SILO_EPOCH_BIT 32
#define SILO_IDLE (~(uint64_t)0)

/* Called at the serialization point, between the locks and the validation: for tests. */
#ifndef SILO_HAPPENS
#define SILO_HAPPENS(transaction)
#endif

enum {
  SILO_MAX_READS = 2048,
  SILO_MAX_WRITES = 512,
  SILO_MAX_NODES = 512,
  SILO_BUFFER_BYTES = 64 << 10,
};

/* The value of a masstree record, whose key's length is a multiple of 8. */
struct silo_row {
  uint64_t tid;
  uint8_t data[];
};

struct silo_read {
  const struct silo_row *row;
  uint64_t tid; /* Not locked. */
};

struct silo_write {
  struct silo_row *row;
  uint8_t *data; /* Null: the row is deleted. */
  uint64_t bytes;
};

struct silo_node {
  const struct masstree_border *border;
  uint64_t version, permutation;
};

struct silo_worker {
  uint64_t epoch; /* Of the transaction in progress, or SILO_IDLE. */
  uint64_t last;  /* The TID of the last transaction. */
} __attribute__((aligned(LINE_BYTES)));

struct silo {
  uint64_t epoch __attribute__((aligned(LINE_BYTES)));
  uint64_t advanced_at __attribute__((aligned(LINE_BYTES))); /* In cycles. */
  uint32_t is_advancing;
  uint64_t epoch_cycles;
  struct silo_worker *workers;   /* One for each hart. */
  struct masstree_arena *arenas; /* Shared by all maps. */
};

struct silo_transaction {
  struct silo *silo;
  uint64_t hart, tid;
  uint64_t order; /* For SILO_HAPPENS. */
  int is_doomed;  /* It cannot commit. */
  int is_full;    /* It never can: it exceeds a capacity, or memory is exhausted. */
  uint64_t reads, writes, nodes, buffered;
  struct silo_read read[SILO_MAX_READS];
  struct silo_write write[SILO_MAX_WRITES];
  struct silo_node node[SILO_MAX_NODES];
  uint8_t buffer[SILO_BUFFER_BYTES] __attribute__((aligned(8)));
};

static inline uint64_t silo_cycle(void) {
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle));
  return cycle;
}

/** Makes a database without maps. Each hart has an arena of `arena_bytes`; the first one's has
 * `first_bytes` more. */
static inline void silo_make(struct silo *silo, uint64_t arena_bytes, uint64_t first_bytes,
                             uint64_t epoch_cycles) {
  struct masstree map;
  masstree_make(&map, arena_bytes, first_bytes);
  silo->arenas = map.arenas;
  silo->epoch = 1;
  silo->epoch_cycles = epoch_cycles;
  silo->workers = aligned_alloc(LINE_BYTES, harts * sizeof *silo->workers);
  for (uint64_t hart = 0; hart < harts; hart++)
    silo->workers[hart].epoch = SILO_IDLE;
}

/** Makes an empty map. */
static inline void silo_make_map(struct silo *silo, struct masstree *map) {
  map->arenas = silo->arenas;
  map->root = &masstree_new_border(&map->arenas[0], MASSTREE_ROOT, 0)->node;
  if (map->root == NULL)
    fail("There is no memory for a map.");
}

/* Rows in maps. */

static inline struct silo_row *silo_row_of(struct masstree_record *record) {
  return (struct silo_row *)(record->bytes + record->key_bytes);
}

/* The record of a key, or null; then `node` is the node where it would be. */
static inline struct masstree_record *silo_locate(const struct masstree *map,
                                                  struct masstree_key key, struct silo_node *node) {
  struct masstree_node *root = __atomic_load_n(&map->root, __ATOMIC_ACQUIRE);
  uint64_t version;
  for (uint64_t layer = 0;; layer++) {
    uint64_t slice = masstree_slice(key, layer), reach = masstree_reach(key, layer);
    silo_prefetch_node(root);
    struct masstree_border *border = masstree_descend(root, slice, &version);
    for (;; border = masstree_forward(border, slice, &version)) {
      uint64_t permutation = __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE);
      uint64_t index = masstree_search(border, permutation, slice, reach);
      uint8_t length = 0;
      void *link = NULL;
      if (masstree_is_at(border, permutation, index, slice, reach)) {
        uint64_t place = masstree_place(permutation, index);
        length = border->lengths[place];
        link = __atomic_load_n(&border->links[place], __ATOMIC_ACQUIRE);
      }
      if (masstree_has_changed(&border->node, version))
        continue;
      *node = (struct silo_node){border, version, permutation};
      if (link == NULL)
        return NULL;
      if (length == MASSTREE_LAYER) {
        root = link;
        break;
      }
      /* A record's key never changes: there is no removal, and values do not move. */
      struct masstree_record *record = link;
      int is_it =
          reach != MASSTREE_LONGER || masstree_has_same_rest(masstree_key_of(record), key, layer);
      return is_it ? record : NULL;
    }
  }
}

/* The record of a key with a row of this size; if there is none, a new one that is absent. Null
 * without memory. */
static inline struct masstree_record *silo_find_or_insert(struct masstree *map, uint64_t hart,
                                                          struct masstree_key key,
                                                          uint64_t row_bytes) {
  struct masstree_arena *arena = &map->arenas[hart];
  struct silo_node node;
  struct masstree_record *record = silo_locate(map, key, &node);
  if (record != NULL)
    return record;
  uint64_t value_bytes = sizeof(struct silo_row) + row_bytes;
  struct masstree_record *new =
      masstree_take(arena, masstree_record_lines(key.length, value_bytes) * LINE_BYTES);
  if (new == NULL)
    return NULL;
  new->key_bytes = (uint32_t)key.length;
  new->value_bytes = (uint32_t)value_bytes;
  memcpy(new->bytes, key.bytes, key.length);
  silo_row_of(new)->tid = SILO_ABSENT;
  struct masstree_node *root = __atomic_load_n(&map->root, __ATOMIC_ACQUIRE);
  for (uint64_t layer = 0;; layer++) {
    uint64_t slice = masstree_slice(key, layer), reach = masstree_reach(key, layer);
    struct masstree_border *border = masstree_lock_border(root, slice);
    uint64_t permutation = border->permutation;
    uint64_t index = masstree_search(border, permutation, slice, reach);
    if (!masstree_is_at(border, permutation, index, slice, reach)) {
      if (masstree_count(permutation) < MASSTREE_FANOUT) {
        masstree_put_in(border, index, slice, reach, new);
        masstree_unlock(&border->node);
        return new;
      }
      if ((uint64_t)(arena->end - arena->next) < 2 * masstree_split_bytes(border)) {
        masstree_unlock(&border->node);
        return NULL;
      }
      masstree_split(map, arena, border, index, slice, reach, new);
      return new;
    }
    uint64_t place = masstree_place(permutation, index);
    struct masstree_record *there = border->links[place];
    if (border->lengths[place] == MASSTREE_LAYER) {
      root = border->links[place];
      masstree_unlock(&border->node);
      continue;
    }
    if (reach != MASSTREE_LONGER || masstree_has_same_rest(masstree_key_of(there), key, layer)) {
      masstree_unlock(&border->node); /* Another hart was faster; the new one is lost. */
      return there;
    }
    struct masstree_border *below = masstree_new_layer(arena, layer + 1, there, new);
    if (below != NULL) { /* Readers must not see one without the other. */
      masstree_mark(&border->node, MASSTREE_INSERTING);
      border->lengths[place] = MASSTREE_LAYER;
      border->links[place] = below;
    }
    masstree_unlock(&border->node);
    return below == NULL ? NULL : new;
  }
}

/* Epochs. */

/* Advances the epoch if it is due, and all workers have observed the present one. */
static inline void silo_advance(struct silo *silo) {
  uint64_t now = silo_cycle();
  if (now - __atomic_load_n(&silo->advanced_at, __ATOMIC_RELAXED) < silo->epoch_cycles ||
      __atomic_exchange_n(&silo->is_advancing, 1, __ATOMIC_ACQUIRE))
    return;
  uint64_t epoch = silo->epoch, hart = 0;
  while (hart < harts && __atomic_load_n(&silo->workers[hart].epoch, __ATOMIC_ACQUIRE) >= epoch)
    hart++;
  if (hart == harts) {
    __atomic_store_n(&silo->advanced_at, now, __ATOMIC_RELAXED);
    __atomic_store_n(&silo->epoch, epoch + 1, __ATOMIC_SEQ_CST);
  }
  __atomic_store_n(&silo->is_advancing, 0, __ATOMIC_RELEASE);
}

/* Transactions. */

/** Begins a transaction on this hart. */
static inline void silo_begin(struct silo_transaction *transaction, struct silo *silo) {
  uint64_t hart;
  __asm__("csrr %0, mhartid" : "=r"(hart));
  transaction->silo = silo;
  transaction->hart = hart;
  transaction->is_doomed = transaction->is_full = 0;
  transaction->reads = transaction->writes = transaction->nodes = transaction->buffered = 0;
  silo_advance(silo);
  __atomic_store_n(&silo->workers[hart].epoch, __atomic_load_n(&silo->epoch, __ATOMIC_SEQ_CST),
                   __ATOMIC_SEQ_CST);
}

static inline struct silo_write *silo_written(struct silo_transaction *transaction,
                                              const struct silo_row *row) {
  for (uint64_t at = transaction->writes; at-- > 0;)
    if (transaction->write[at].row == row)
      return &transaction->write[at];
  return NULL;
}

static inline void silo_keep_node(struct silo_transaction *transaction, struct silo_node node) {
  if (transaction->nodes == SILO_MAX_NODES)
    transaction->is_full = 1;
  else
    transaction->node[transaction->nodes++] = node;
}

/** Copies a row of this size. Returns whether it is present. */
static inline int silo_read_row(struct silo_transaction *transaction, const struct silo_row *row,
                                void *data, uint64_t bytes) {
  const struct silo_write *own = silo_written(transaction, row);
  if (own != NULL) {
    if (own->data != NULL)
      memcpy(data, own->data, bytes);
    return own->data != NULL;
  }
  uint64_t tid;
  for (;;) {
    tid = __atomic_load_n(&row->tid, __ATOMIC_ACQUIRE);
    if (tid & SILO_LOCKED)
      continue;
    memcpy(data, row->data, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&row->tid, __ATOMIC_RELAXED) == tid)
      break;
  }
  if (transaction->reads == SILO_MAX_READS)
    transaction->is_full = 1;
  else
    transaction->read[transaction->reads++] = (struct silo_read){row, tid};
  return !(tid & SILO_ABSENT);
}

/** Copies the row of a key. Returns the row; null if it is not present. */
static inline struct silo_row *silo_get(struct silo_transaction *transaction,
                                        const struct masstree *map, struct masstree_key key,
                                        void *data, uint64_t bytes) {
  struct silo_node node;
  struct masstree_record *record = silo_locate(map, key, &node);
  if (record == NULL) {
    silo_keep_node(transaction, node);
    return NULL;
  }
  struct silo_row *row = silo_row_of(record);
  return silo_read_row(transaction, row, data, bytes) ? row : NULL;
}

/** Sets the data of a row when the transaction commits, or deletes the row if `data` is null. */
static inline void silo_put_row(struct silo_transaction *transaction, struct silo_row *row,
                                const void *data, uint64_t bytes) {
  struct silo_write *write = silo_written(transaction, row);
  uint64_t room = (bytes + 7) & -(uint64_t)8;
  if (write == NULL) {
    if (transaction->writes == SILO_MAX_WRITES ||
        transaction->buffered + room > SILO_BUFFER_BYTES) {
      transaction->is_full = 1;
      return;
    }
    write = &transaction->write[transaction->writes++];
    *write = (struct silo_write){row, transaction->buffer + transaction->buffered, bytes};
    transaction->buffered += room;
  }
  if (data == NULL)
    write->data = NULL;
  else
    memcpy(write->data, data, bytes);
}

/** Inserts a row. Returns 0 if it is present already. */
static inline int silo_insert(struct silo_transaction *transaction, struct masstree *map,
                              struct masstree_key key, const void *data, uint64_t bytes) {
  struct masstree_record *record = silo_find_or_insert(map, transaction->hart, key, bytes);
  if (record == NULL) {
    transaction->is_full = 1;
    return 1;
  }
  struct silo_row *row = silo_row_of(record);
  uint64_t tid = __atomic_load_n(&row->tid, __ATOMIC_ACQUIRE) & ~SILO_LOCKED;
  if (transaction->reads == SILO_MAX_READS)
    transaction->is_full = 1;
  else /* It must still be absent at the commit. */
    transaction->read[transaction->reads++] = (struct silo_read){row, tid};
  silo_put_row(transaction, row, data, bytes);
  return (tid & SILO_ABSENT) != 0;
}

/** Calls `visit` for the records of 16-byte keys with the first word `first` and the second from
 * `from` to `to`, in order, until it returns 0. */
static inline void silo_scan(struct silo_transaction *transaction, const struct masstree *map,
                             uint64_t first, uint64_t from, uint64_t to,
                             int (*visit)(struct silo_transaction *transaction, uint64_t second,
                                          struct masstree_record *record, void *with),
                             void *with) {
  uint64_t version;
  struct masstree_node *root = __atomic_load_n(&map->root, __ATOMIC_ACQUIRE);
  struct masstree_border *border;
  /* The layer of the first word. */
  silo_prefetch_node(root);
  border = masstree_descend(root, first, &version);
  for (;; border = masstree_forward(border, first, &version)) {
    uint64_t permutation = __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE);
    uint64_t index = masstree_search(border, permutation, first, MASSTREE_LONGER);
    int is_there = masstree_is_at(border, permutation, index, first, MASSTREE_LONGER);
    uint64_t place = is_there ? masstree_place(permutation, index) : 0;
    uint8_t length = border->lengths[place];
    void *link = __atomic_load_n(&border->links[place], __ATOMIC_ACQUIRE);
    if (masstree_has_changed(&border->node, version))
      continue;
    if (is_there && length == MASSTREE_LAYER) {
      root = link;
      break;
    }
    silo_keep_node(transaction, (struct silo_node){border, version, permutation});
    if (is_there) { /* A single key has no layer. */
      uint64_t second = masstree_slice(masstree_key_of(link), 1);
      if (second >= from && second <= to)
        visit(transaction, second, link, with);
    }
    return;
  }
  silo_prefetch_node(root);
  border = masstree_descend(root, from, &version);
  border = masstree_forward(border, from, &version);
  while (border != NULL) {
    struct masstree_snapshot found;
    uint64_t permutation = __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE);
    if (!masstree_look(border, version, from, 0, &found) ||
        permutation != __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE)) {
      border = masstree_forward(border, from, &version);
      continue;
    }
    silo_keep_node(transaction, (struct silo_node){border, version, permutation});
    for (uint64_t at = 0; at < found.count; at++)
      if (found.slices[at] > to || !visit(transaction, found.slices[at], found.links[at], with))
        return;
    border = found.next;
    if (border == NULL || border->lowest > to)
      return;
    from = border->lowest;
    version = masstree_stable(&border->node);
  }
}

/* Commit. */

/* Sorts by addresses: Shell's sort with Ciura's gaps. */
static inline void silo_sort(struct silo_write *writes, uint64_t count) {
  static const uint64_t gaps[] = {132, 57, 23, 10, 4, 1};
  for (uint64_t pass = 0; pass < sizeof gaps / sizeof *gaps; pass++)
    for (uint64_t at = gaps[pass]; at < count; at++) {
      struct silo_write moved = writes[at];
      uint64_t to = at;
      for (; to >= gaps[pass] && writes[to - gaps[pass]].row > moved.row; to -= gaps[pass])
        writes[to] = writes[to - gaps[pass]];
      writes[to] = moved;
    }
}

static inline int silo_is_written(const struct silo_transaction *transaction,
                                  const struct silo_row *row) {
  uint64_t low = 0, high = transaction->writes;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (transaction->write[middle].row < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low < transaction->writes && transaction->write[low].row == row;
}

static inline void silo_lock(struct silo_row *row) {
  for (;;) {
    uint64_t tid = __atomic_load_n(&row->tid, __ATOMIC_RELAXED);
    if (!(tid & SILO_LOCKED) && __atomic_compare_exchange_n(&row->tid, &tid, tid | SILO_LOCKED, 0,
                                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return;
  }
}

/* Whether everything that was read is unchanged: phase 2. */
static inline int silo_validate(const struct silo_transaction *transaction) {
  for (uint64_t at = 0; at < transaction->reads; at++) {
    const struct silo_read *read = &transaction->read[at];
    uint64_t tid = __atomic_load_n(&read->row->tid, __ATOMIC_RELAXED);
    if ((tid & ~SILO_LOCKED) != read->tid ||
        ((tid & SILO_LOCKED) && !silo_is_written(transaction, read->row)))
      return 0;
  }
  for (uint64_t at = 0; at < transaction->nodes; at++) {
    const struct silo_node *node = &transaction->node[at];
    if (__atomic_load_n(&node->border->permutation, __ATOMIC_ACQUIRE) != node->permutation ||
        masstree_has_changed(&node->border->node, node->version))
      return 0;
  }
  return 1;
}

/** Ends a transaction without effect. */
static inline void silo_abort(struct silo_transaction *transaction) {
  __atomic_store_n(&transaction->silo->workers[transaction->hart].epoch, SILO_IDLE,
                   __ATOMIC_RELEASE);
}

/** Commits a transaction; returns whether it has committed. If not, it has no effect. */
static inline int silo_commit(struct silo_transaction *transaction) {
  struct silo_worker *worker = &transaction->silo->workers[transaction->hart];
  if (transaction->is_doomed || transaction->is_full) {
    silo_abort(transaction);
    return 0;
  }
  silo_sort(transaction->write, transaction->writes);
  for (uint64_t at = 0; at < transaction->writes; at++)
    silo_lock(transaction->write[at].row);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  uint64_t epoch = __atomic_load_n(&transaction->silo->epoch, __ATOMIC_RELAXED);
  SILO_HAPPENS(transaction);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (!silo_validate(transaction)) {
    for (uint64_t at = 0; at < transaction->writes; at++) {
      struct silo_row *row = transaction->write[at].row;
      __atomic_store_n(&row->tid, row->tid & ~SILO_LOCKED, __ATOMIC_RELEASE);
    }
    silo_abort(transaction);
    return 0;
  }
  uint64_t largest = worker->last;
  for (uint64_t at = 0; at < transaction->reads; at++)
    if (transaction->read[at].tid > largest)
      largest = transaction->read[at].tid;
  for (uint64_t at = 0; at < transaction->writes; at++)
    if (transaction->write[at].row->tid > largest)
      largest = transaction->write[at].row->tid;
  largest &= ~SILO_STATUS;
  if (largest < epoch << SILO_EPOCH_BIT)
    largest = epoch << SILO_EPOCH_BIT;
  transaction->tid = worker->last = largest + SILO_ONE;
  for (uint64_t at = 0; at < transaction->writes; at++) {
    const struct silo_write *write = &transaction->write[at];
    if (write->data != NULL)
      memcpy(write->row->data, write->data, write->bytes);
    __atomic_store_n(&write->row->tid, transaction->tid | (write->data == NULL ? SILO_ABSENT : 0),
                     __ATOMIC_RELEASE);
  }
  silo_abort(transaction);
  return 1;
}

#endif
