/**
 * An ordered map in the manner of Masstree (Mao, Kohler and Morris, EuroSys 2012): a trie of
 * B+-trees. Each tree, a *layer*, indexes slices of eight bytes of the keys; a key longer than its
 * layer's slice continues in the layer below, but only if another key has the same slices.
 *
 * - *Nodes* have up to 15 keys in five lines. Border nodes, the leaves, are linked in order, and
 *   store the order of their keys in a *permutation*: four bits for the number of keys, and four
 *   for each key's index. An insertion fills a free entry and then publishes it by writing one
 *   word.
 * - *Readers* write nothing. A node's version has flags for changes in progress, and counts
 *   insertions and splits; a reader that finds it changed retries: in the node, or in the next one
 *   of the list, since a split only moves keys to the right.
 * - *Writers* lock nodes by a bit of their version, from bottom to top.
 * - *Records* have the whole key, its value, and their own version: values change in place. A value
 *   that has outgrown its record gets another record, and the old one is reused as a record: a
 *   reader that still has it finds its version changed.
 *
 * There is no removal. All keys with the same slice are in one border node: ten at most, with 0 to
 * 8 bytes in this slice, and longer ones.
 *
 * The implementation follows the paper's description; `prev`, removal and its epochs are left out.
 */
#ifndef MASSTREE_H
#define MASSTREE_H

#include <byte_order.h>
#include <io.h>
#include <runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  MASSTREE_FANOUT = 15,
  MASSTREE_SLICE_BYTES = 8,
  MASSTREE_LONGEST_KEY = 255,
  MASSTREE_LONGER = 9,          /* In a border node: the key continues in its record ... */
  MASSTREE_LAYER = 10,          /* ... or, with all such keys of the same slice, in a layer. */
  MASSTREE_RECORD_CLASSES = 32, /* Records have 1 to 32 lines. */
};

/* Bits of a version; the counts are above them. */
#define MASSTREE_LOCKED ((uint64_t)1)
#define MASSTREE_INSERTING ((uint64_t)2)
#define MASSTREE_SPLITTING ((uint64_t)4)
#define MASSTREE_ROOT ((uint64_t)8)
#define MASSTREE_BORDER ((uint64_t)16)
#define MASSTREE_CHANGING (MASSTREE_INSERTING | MASSTREE_SPLITTING)
#define MASSTREE_ONE_INSERTION ((uint64_t)1 << 8)
#define MASSTREE_ONE_SPLIT ((uint64_t)1 << 32)

/* An action before a node is read; silo.h prefetches its lines. */
#ifndef MASSTREE_PREFETCH
#define MASSTREE_PREFETCH(node)
#endif

/* The header of both kinds of nodes. */
struct masstree_node {
  uint64_t version;
  struct masstree_interior *parent; /* Its lock protects this. */
};

struct masstree_interior {
  struct masstree_node node;
  uint64_t count;
  uint64_t slices[MASSTREE_FANOUT]; /* Child k + 1 has the keys from slice k on. */
  struct masstree_node *children[MASSTREE_FANOUT + 1];
} __attribute__((aligned(LINE_BYTES)));

/* The first line tells where to look, the next two have the slices, the others what they lead to.
 */
struct masstree_border {
  struct masstree_node node;
  uint64_t permutation;
  struct masstree_border *next;
  uint64_t lowest;                  /* No key here is or was below this slice. */
  uint8_t lengths[MASSTREE_FANOUT]; /* 0 to 8, MASSTREE_LONGER or MASSTREE_LAYER. */
  uint64_t slices[MASSTREE_FANOUT] __attribute__((aligned(LINE_BYTES)));
  void *links[MASSTREE_FANOUT]; /* To a record, or to the present or a former root of a layer. */
} __attribute__((aligned(LINE_BYTES)));

struct masstree_record {
  uint64_t version; /* Odd while it is being changed. */
  uint32_t key_bytes;
  uint32_t value_bytes;
  uint8_t bytes[]; /* The key, followed by the value. */
};

struct masstree_key {
  const uint8_t *bytes;
  uint64_t length;
};

/* A hart's memory allocator. */
struct masstree_arena {
  uint8_t *next, *end;
  struct masstree_record *free[MASSTREE_RECORD_CLASSES]; /* Lists by lines less one. */
} __attribute__((aligned(LINE_BYTES)));

struct masstree {
  struct masstree_node *root; /* The present or a former root. */
  struct masstree_arena *arenas;
};

/* Memory. */

static inline void *masstree_take(struct masstree_arena *arena, uint64_t bytes) {
  if ((uint64_t)(arena->end - arena->next) < bytes)
    return NULL;
  void *taken = arena->next;
  arena->next += bytes;
  return taken;
}

static inline uint64_t masstree_record_lines(uint64_t key_bytes, uint64_t value_bytes) {
  return (sizeof(struct masstree_record) + key_bytes + value_bytes + LINE_BYTES - 1) / LINE_BYTES;
}

static inline uint64_t masstree_lines(const struct masstree_record *record) {
  return masstree_record_lines(record->key_bytes, record->value_bytes);
}

/* A new or a reused record; its version is even. */
static inline struct masstree_record *masstree_new_record(struct masstree_arena *arena,
                                                          uint64_t lines) {
  struct masstree_record *record = arena->free[lines - 1];
  if (record == NULL)
    return masstree_take(arena, lines * LINE_BYTES);
  memcpy(&arena->free[lines - 1], record->bytes, sizeof record);
  return record;
}

static inline void masstree_begin_change(struct masstree_record *record) {
  __atomic_store_n(&record->version, record->version + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* The odd version before any change. */
}

static inline void masstree_end_change(struct masstree_record *record) {
  __atomic_store_n(&record->version, record->version + 1, __ATOMIC_RELEASE);
}

/* Frees a record that can no longer be found. */
static inline void masstree_free_record(struct masstree_arena *arena,
                                        struct masstree_record *record) {
  uint64_t lines = masstree_lines(record);
  masstree_begin_change(record);
  memcpy(record->bytes, &arena->free[lines - 1], sizeof record);
  masstree_end_change(record);
  arena->free[lines - 1] = record;
}

static inline void masstree_fill_record(struct masstree_record *record, struct masstree_key key,
                                        const uint8_t *value, uint64_t value_bytes) {
  masstree_begin_change(record);
  record->key_bytes = (uint32_t)key.length;
  record->value_bytes = (uint32_t)value_bytes;
  memcpy(record->bytes, key.bytes, key.length);
  memcpy(record->bytes + key.length, value, value_bytes);
  masstree_end_change(record);
}

static inline struct masstree_border *masstree_new_border(struct masstree_arena *arena,
                                                          uint64_t version, uint64_t lowest) {
  struct masstree_border *border = masstree_take(arena, sizeof *border);
  if (border != NULL) {
    border->node.version = version | MASSTREE_BORDER;
    border->lowest = lowest;
  }
  return border;
}

/** Makes an empty map. Each hart then has an arena of `arena_bytes`; hart 0's has `first_bytes`
 * more. */
static inline void masstree_make(struct masstree *map, uint64_t arena_bytes, uint64_t first_bytes) {
  map->arenas = aligned_alloc(LINE_BYTES, harts * sizeof *map->arenas);
  for (uint64_t hart = 0; hart < harts; hart++) {
    uint64_t bytes = arena_bytes + (hart == 0 ? first_bytes : 0);
    uint8_t *begin = aligned_alloc(LINE_BYTES, bytes);
    map->arenas[hart] = (struct masstree_arena){.next = begin, .end = begin + bytes};
  }
  map->root = &masstree_new_border(&map->arenas[0], MASSTREE_ROOT, 0)->node;
  if (map->root == NULL)
    fail("There is no memory for the map.");
}

/* Keys. */

/* A key's slice in a layer, as a number in the order of the bytes; missing bytes are 0. */
static inline uint64_t masstree_slice(struct masstree_key key, uint64_t layer) {
  const uint8_t *bytes = key.bytes + layer * MASSTREE_SLICE_BYTES;
  uint64_t left = key.length - layer * MASSTREE_SLICE_BYTES, slice = 0;
  if (left >= MASSTREE_SLICE_BYTES) {
    memcpy(&slice, bytes, sizeof slice);
    return swap64(slice);
  }
  for (uint64_t byte = 0; byte < left; byte++)
    slice |= (uint64_t)bytes[byte] << 8 * (MASSTREE_SLICE_BYTES - 1 - byte);
  return slice;
}

/* The length of a key in a layer: 0 to 8, or MASSTREE_LONGER. */
static inline uint64_t masstree_reach(struct masstree_key key, uint64_t layer) {
  uint64_t left = key.length - layer * MASSTREE_SLICE_BYTES;
  return left > MASSTREE_SLICE_BYTES ? MASSTREE_LONGER : left;
}

/* The same for a key in a node, for comparisons. */
static inline uint64_t masstree_length(const struct masstree_border *border, uint64_t place) {
  uint64_t length = border->lengths[place];
  return length == MASSTREE_LAYER ? MASSTREE_LONGER : length;
}

static inline struct masstree_key masstree_key_of(const struct masstree_record *record) {
  return (struct masstree_key){record->bytes, record->key_bytes};
}

/* Whether two keys are equal after the slices down to a layer's. */
static inline int masstree_has_same_rest(struct masstree_key one, struct masstree_key other,
                                         uint64_t layer) {
  uint64_t from = (layer + 1) * MASSTREE_SLICE_BYTES;
  return one.length == other.length &&
         memcmp(one.bytes + from, other.bytes + from, one.length - from) == 0;
}

/* Permutations. */

static inline uint64_t masstree_count(uint64_t permutation) { return permutation & 15; }

/* The index of the k-th key. */
static inline uint64_t masstree_place(uint64_t permutation, uint64_t key) {
  return permutation >> 4 * (key + 1) & 15;
}

/* The same permutation with an index inserted at position k. */
static inline uint64_t masstree_with(uint64_t permutation, uint64_t key, uint64_t place) {
  uint64_t low = ((uint64_t)1 << 4 * (key + 1)) - 1;
  return ((permutation & low) | place << 4 * (key + 1) | (permutation & ~low) << 4) + 1;
}

/* An index that no key has. */
static inline uint64_t masstree_free_place(uint64_t permutation) {
  uint64_t used = 0, place = 0;
  for (uint64_t key = 0; key < masstree_count(permutation); key++)
    used |= (uint64_t)1 << masstree_place(permutation, key);
  while (used >> place & 1)
    place++;
  return place;
}

/* Versions and locks. */

static inline uint64_t masstree_stable(const struct masstree_node *node) {
  uint64_t version;
  do
    version = __atomic_load_n(&node->version, __ATOMIC_ACQUIRE);
  while (version & MASSTREE_CHANGING);
  return version;
}

/* Whether values read from a node since it had this version may be inconsistent. */
static inline int masstree_has_changed(const struct masstree_node *node, uint64_t version) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* What was read is older than this version. */
  return ((__atomic_load_n(&node->version, __ATOMIC_RELAXED) ^ version) & ~MASSTREE_LOCKED) != 0;
}

static inline void masstree_lock(struct masstree_node *node) {
  for (;;) {
    uint64_t version = __atomic_load_n(&node->version, __ATOMIC_RELAXED);
    if (!(version & MASSTREE_LOCKED) &&
        __atomic_compare_exchange_n(&node->version, &version, version | MASSTREE_LOCKED, 0,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return;
  }
}

/* Marks a locked node before a change that readers must not see in part. */
static inline void masstree_mark(struct masstree_node *node, uint64_t change) {
  __atomic_store_n(&node->version, node->version | change, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void masstree_unlock(struct masstree_node *node) {
  uint64_t version = node->version;
  if (version & MASSTREE_SPLITTING)
    version += MASSTREE_ONE_SPLIT;
  else if (version & MASSTREE_INSERTING) /* The count must not carry into that of splits. */
    version = (version & ~(MASSTREE_ONE_SPLIT - 1)) |
              ((version + MASSTREE_ONE_INSERTION) & (MASSTREE_ONE_SPLIT - 1));
  version &= ~(MASSTREE_LOCKED | MASSTREE_CHANGING);
  __atomic_store_n(&node->version, version, __ATOMIC_RELEASE);
}

/* Descent. */

/* The root of a layer: splits put new roots above former ones. */
static inline struct masstree_node *masstree_root(struct masstree_node *node, uint64_t *version) {
  for (;;) {
    *version = masstree_stable(node);
    if (*version & MASSTREE_ROOT)
      return node;
    struct masstree_interior *parent = __atomic_load_n(&node->parent, __ATOMIC_ACQUIRE);
    if (parent != NULL)
      node = &parent->node;
  }
}

/* The child of an interior node for a slice; null if it is just being inserted. */
static inline struct masstree_node *masstree_child(const struct masstree_interior *interior,
                                                   uint64_t slice) {
  uint64_t child = 0, count = interior->count;
  while (child < count && slice >= interior->slices[child])
    child++;
  return __atomic_load_n(&interior->children[child], __ATOMIC_ACQUIRE);
}

/* The border node of a slice, as far as the search has got, and its version. */
static inline struct masstree_border *masstree_descend(struct masstree_node *root, uint64_t slice,
                                                       uint64_t *version) {
again:;
  struct masstree_node *node = masstree_root(root, version);
  while (!(*version & MASSTREE_BORDER)) {
    struct masstree_node *child = masstree_child((struct masstree_interior *)node, slice);
    MASSTREE_PREFETCH(child);
    uint64_t below = child == NULL ? 0 : masstree_stable(child);
    /* The child's version is read first, so that a later split is noticed. */
    if (child != NULL && !masstree_has_changed(node, *version)) {
      node = child;
      *version = below;
      continue;
    }
    uint64_t before = *version;
    *version = masstree_stable(node);
    if ((*version ^ before) / MASSTREE_ONE_SPLIT != 0)
      goto again;
  }
  return (struct masstree_border *)node;
}

/* From a border node to the one that now has a slice, if splits have moved it to the right. */
static inline struct masstree_border *masstree_forward(struct masstree_border *border,
                                                       uint64_t slice, uint64_t *version) {
  *version = masstree_stable(&border->node);
  for (;;) {
    struct masstree_border *next = __atomic_load_n(&border->next, __ATOMIC_ACQUIRE);
    if (next == NULL || slice < next->lowest)
      return border;
    border = next;
    *version = masstree_stable(&border->node);
  }
}

/* The position of the first key of a border node that is not below a slice and length. */
static inline uint64_t masstree_search(const struct masstree_border *border, uint64_t permutation,
                                       uint64_t slice, uint64_t length) {
  uint64_t key = 0, count = masstree_count(permutation);
  for (; key < count; key++) {
    uint64_t place = masstree_place(permutation, key);
    if (border->slices[place] > slice)
      break;
    if (border->slices[place] == slice && masstree_length(border, place) >= length)
      break;
  }
  return key;
}

static inline int masstree_is_at(const struct masstree_border *border, uint64_t permutation,
                                 uint64_t key, uint64_t slice, uint64_t length) {
  if (key >= masstree_count(permutation))
    return 0;
  uint64_t place = masstree_place(permutation, key);
  return border->slices[place] == slice && masstree_length(border, place) == length;
}

/* Reading. */

/* Whether an entry still leads to a record whose version was `seen` before the entry was read. The
 * entry was then valid throughout, and not reused for another key: the version is checked last. */
static inline int masstree_is_current(const struct masstree_border *border, uint64_t version,
                                      uint64_t place, const struct masstree_record *record,
                                      uint64_t seen) {
  if (masstree_has_changed(&border->node, version) ||
      __atomic_load_n(&border->links[place], __ATOMIC_ACQUIRE) != record)
    return 0;
  return !(seen & 1) && __atomic_load_n(&record->version, __ATOMIC_RELAXED) == seen;
}

/* Copies the value of a record, if it has the key and there is room. Returns its length, or -1;
 * both may be wrong if the record is changed meanwhile. */
static inline int64_t masstree_read(const struct masstree_record *record, struct masstree_key key,
                                    uint64_t layer, uint8_t *value, uint64_t room) {
  uint64_t key_bytes = record->key_bytes, value_bytes = record->value_bytes;
  int64_t found = -1;
  if (key_bytes == key.length && value_bytes <= room &&
      (key.length <= (layer + 1) * MASSTREE_SLICE_BYTES ||
       masstree_has_same_rest(masstree_key_of(record), key, layer))) {
    memcpy(value, record->bytes + key_bytes, value_bytes);
    found = (int64_t)value_bytes;
  }
  return found;
}

/** Copies the value of a key to `value`, if there is room. Returns its length, or -1 if the map
 * does not have the key, or the value does not fit. */
static inline int64_t masstree_get(const struct masstree *map, struct masstree_key key,
                                   uint8_t *value, uint64_t room) {
  struct masstree_node *root = __atomic_load_n(&map->root, __ATOMIC_ACQUIRE);
  uint64_t version;
  for (uint64_t layer = 0;; layer++) {
    uint64_t slice = masstree_slice(key, layer), reach = masstree_reach(key, layer);
    struct masstree_border *border = masstree_descend(root, slice, &version);
    for (;; border = masstree_forward(border, slice, &version)) {
      uint64_t permutation = __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE);
      uint64_t index = masstree_search(border, permutation, slice, reach);
      uint64_t place = 0;
      uint8_t length = 0;
      void *link = NULL;
      if (masstree_is_at(border, permutation, index, slice, reach)) {
        place = masstree_place(permutation, index);
        length = border->lengths[place];
        link = __atomic_load_n(&border->links[place], __ATOMIC_ACQUIRE);
      }
      if (masstree_has_changed(&border->node, version))
        continue;
      if (link == NULL)
        return -1;
      if (length == MASSTREE_LAYER) {
        root = link;
        break;
      }
      const struct masstree_record *record = link;
      uint64_t seen = __atomic_load_n(&record->version, __ATOMIC_ACQUIRE);
      int64_t found = masstree_read(record, key, layer, value, room);
      if (masstree_is_current(border, version, place, record, seen))
        return found;
    }
  }
}

/* Writing. */

/* Locks the border node of a slice. */
static inline struct masstree_border *masstree_lock_border(struct masstree_node *root,
                                                           uint64_t slice) {
  uint64_t version;
  struct masstree_border *border = masstree_descend(root, slice, &version);
  masstree_lock(&border->node);
  while (border->next != NULL && slice >= border->next->lowest) {
    struct masstree_border *next = border->next;
    masstree_unlock(&border->node);
    masstree_lock(&next->node);
    border = next;
  }
  return border;
}

/* Locks a locked node's parent; null if it is a root. */
static inline struct masstree_interior *masstree_lock_parent(struct masstree_node *node) {
  for (;;) {
    struct masstree_interior *parent = __atomic_load_n(&node->parent, __ATOMIC_ACQUIRE);
    if (parent == NULL)
      return NULL;
    masstree_lock(&parent->node);
    if (parent == __atomic_load_n(&node->parent, __ATOMIC_RELAXED))
      return parent;
    masstree_unlock(&parent->node); /* It has been split, and is no longer the parent. */
  }
}

static inline void masstree_put_in(struct masstree_border *border, uint64_t index, uint64_t slice,
                                   uint64_t length, void *link) {
  uint64_t place = masstree_free_place(border->permutation);
  border->slices[place] = slice;
  border->lengths[place] = (uint8_t)length;
  border->links[place] = link;
  __atomic_store_n(&border->permutation, masstree_with(border->permutation, index, place),
                   __ATOMIC_RELEASE);
}

/* Moves the upper part of a full border node, which is marked, to an empty one, and inserts a new
 * key. Equal slices stay together. */
static inline void masstree_divide(struct masstree_border *border, struct masstree_border *right,
                                   uint64_t index, uint64_t slice, uint64_t length, void *link) {
  uint64_t permutation = border->permutation;
  /* The slices in order, with the new one. */
  uint64_t slices[MASSTREE_FANOUT + 1];
  for (uint64_t key = 0, from = 0; key <= MASSTREE_FANOUT; key++)
    slices[key] = key == index ? slice : border->slices[masstree_place(permutation, from++)];
  /* The boundary nearest to the middle; for appending insertions at the end of a layer, the end, so
   * that full nodes stay full. */
  uint64_t middle = (MASSTREE_FANOUT + 1) / 2, split = 0;
  if (border->next == NULL && index == MASSTREE_FANOUT &&
      slices[MASSTREE_FANOUT] != slices[MASSTREE_FANOUT - 1])
    split = MASSTREE_FANOUT;
  for (uint64_t off = 0; split == 0; off++) {
    uint64_t up = middle + off, down = middle - off;
    if (up <= MASSTREE_FANOUT && slices[up] != slices[up - 1])
      split = up;
    else if (down >= 1 && slices[down] != slices[down - 1])
      split = down;
  }
  right->lowest = slices[split];
  uint64_t kept = 0, left = permutation & ~(uint64_t)15;
  for (uint64_t key = 0, from = 0; key <= MASSTREE_FANOUT; key++) {
    if (key == index)
      continue;
    uint64_t place = masstree_place(permutation, from++);
    if (key < split)
      kept++;
    else
      masstree_put_in(right, masstree_count(right->permutation), border->slices[place],
                      border->lengths[place], border->links[place]);
  }
  border->permutation = kept == 0 ? 0 : (left & ~(uint64_t)0 >> (60 - 4 * kept)) | kept;
  if (index < split)
    masstree_put_in(border, index, slice, length, link);
  else
    masstree_put_in(right, index - split, slice, length, link);
  right->next = border->next;
  __atomic_store_n(&border->next, right, __ATOMIC_RELEASE);
}

static inline void masstree_adopt(struct masstree_interior *parent, uint64_t at,
                                  struct masstree_node *child) {
  __atomic_store_n(&parent->children[at], child, __ATOMIC_RELEASE);
  __atomic_store_n(&child->parent, parent, __ATOMIC_RELEASE);
}

/* Inserts a slice and the child to its right into a marked interior node that has room. */
static inline void masstree_insert_child(struct masstree_interior *interior, uint64_t slice,
                                         struct masstree_node *child) {
  uint64_t at = interior->count;
  for (; at > 0 && interior->slices[at - 1] > slice; at--) {
    interior->slices[at] = interior->slices[at - 1];
    __atomic_store_n(&interior->children[at + 1], interior->children[at], __ATOMIC_RELEASE);
  }
  interior->slices[at] = slice;
  masstree_adopt(interior, at + 1, child);
  __atomic_store_n(&interior->count, interior->count + 1, __ATOMIC_RELEASE);
}

/* Splits a full interior node, which is marked, and inserts a child: the upper half moves to an
 * empty one. Returns the slice between them. */
static inline uint64_t masstree_divide_interior(struct masstree_interior *interior,
                                                struct masstree_interior *right, uint64_t slice,
                                                struct masstree_node *child) {
  enum { HALF = MASSTREE_FANOUT / 2 };
  uint64_t between = interior->slices[HALF];
  masstree_adopt(right, 0, interior->children[HALF + 1]);
  for (uint64_t key = HALF + 1; key < MASSTREE_FANOUT; key++) {
    right->slices[key - HALF - 1] = interior->slices[key];
    masstree_adopt(right, key - HALF, interior->children[key + 1]);
  }
  right->count = MASSTREE_FANOUT - HALF - 1;
  interior->count = HALF;
  masstree_insert_child(slice < between ? interior : right, slice, child);
  return between;
}

/* The number of nodes that a split of a full border node needs: a sibling, one for each full
 * ancestor, a root. Ancestors may only change under locks that the caller does not hold, so
 * concurrent splits may require more; masstree_put() reserves some. */
static inline uint64_t masstree_split_bytes(const struct masstree_border *border) {
  uint64_t bytes = sizeof(struct masstree_border) + sizeof(struct masstree_interior);
  const struct masstree_interior *above = __atomic_load_n(&border->node.parent, __ATOMIC_ACQUIRE);
  for (; above != NULL; above = __atomic_load_n(&above->node.parent, __ATOMIC_ACQUIRE))
    bytes += sizeof(struct masstree_interior);
  return bytes + sizeof(struct masstree_interior);
}

/* Inserts a key into a full border node, which is locked, and unlocks it. Memory is available. */
static inline void masstree_split(struct masstree *map, struct masstree_arena *arena,
                                  struct masstree_border *border, uint64_t index, uint64_t slice,
                                  uint64_t length, void *link) {
  struct masstree_border *new_border = masstree_new_border(arena, MASSTREE_LOCKED, 0);
  struct masstree_node *left = &border->node, *right = &new_border->node;
  masstree_mark(left, MASSTREE_SPLITTING);
  right->version |= MASSTREE_SPLITTING;
  masstree_divide(border, new_border, index, slice, length, link);
  uint64_t between = new_border->lowest;
  for (;;) { /* `left` has been split at `between`; both are locked and marked. */
    struct masstree_interior *parent = masstree_lock_parent(left);
    if (parent == NULL) { /* A new root above a root. */
      struct masstree_interior *root = masstree_take(arena, sizeof *root);
      root->node.version = MASSTREE_ROOT;
      root->count = 1;
      root->slices[0] = between;
      masstree_adopt(root, 0, left);
      masstree_adopt(root, 1, right);
      left->version &= ~MASSTREE_ROOT;
      /* The map's root, or a layer's, which readers find by the parent. */
      struct masstree_node *old = left;
      __atomic_compare_exchange_n(&map->root, &old, &root->node, 0, __ATOMIC_RELEASE,
                                  __ATOMIC_RELAXED);
      masstree_unlock(left);
      masstree_unlock(right);
      return;
    }
    if (parent->count < MASSTREE_FANOUT) {
      masstree_mark(&parent->node, MASSTREE_INSERTING);
      masstree_insert_child(parent, between, right);
      masstree_unlock(left);
      masstree_unlock(right);
      masstree_unlock(&parent->node);
      return;
    }
    struct masstree_interior *new_parent = masstree_take(arena, sizeof *new_parent);
    new_parent->node.version = MASSTREE_LOCKED | MASSTREE_SPLITTING;
    masstree_mark(&parent->node, MASSTREE_SPLITTING);
    between = masstree_divide_interior(parent, new_parent, between, right);
    masstree_unlock(left);
    masstree_unlock(right);
    left = &parent->node;
    right = &new_parent->node;
  }
}

/* A layer for two keys that are equal down to layer - 1, with as many layers above it as they have
 * equal slices; null without memory. */
static inline struct masstree_border *masstree_new_layer(struct masstree_arena *arena,
                                                         uint64_t layer,
                                                         struct masstree_record *old,
                                                         struct masstree_record *new) {
  struct masstree_border *top = NULL, *above = NULL;
  struct masstree_key one = masstree_key_of(old), other = masstree_key_of(new);
  for (;; layer++) {
    struct masstree_border *border = masstree_new_border(arena, MASSTREE_ROOT, 0);
    if (border == NULL)
      return NULL; /* The layers above are lost; memory is exhausted anyway. */
    if (above != NULL)
      above->links[0] = border;
    else
      top = border;
    uint64_t slice = masstree_slice(one, layer), reach = masstree_reach(one, layer);
    uint64_t other_slice = masstree_slice(other, layer);
    uint64_t other_reach = masstree_reach(other, layer);
    if (slice == other_slice && reach == MASSTREE_LONGER && other_reach == MASSTREE_LONGER) {
      masstree_put_in(border, 0, slice, MASSTREE_LAYER, NULL);
      above = border;
      continue;
    }
    int is_first = slice < other_slice || (slice == other_slice && reach < other_reach);
    masstree_put_in(border, 0, slice, reach, old);
    masstree_put_in(border, is_first ? 1 : 0, other_slice, other_reach, new);
    return top;
  }
}

/* A record for a key and its value; null without memory. */
static inline struct masstree_record *masstree_record(struct masstree_arena *arena,
                                                      struct masstree_key key, const uint8_t *value,
                                                      uint64_t value_bytes) {
  struct masstree_record *record =
      masstree_new_record(arena, masstree_record_lines(key.length, value_bytes));
  if (record != NULL)
    masstree_fill_record(record, key, value, value_bytes);
  return record;
}

/* Replaces the value of an entry in a locked border node. Returns whether there was memory. */
static inline int masstree_replace(struct masstree_arena *arena, struct masstree_border *border,
                                   uint64_t place, struct masstree_key key, const uint8_t *value,
                                   uint64_t value_bytes) {
  struct masstree_record *record = border->links[place];
  if (masstree_lines(record) == masstree_record_lines(key.length, value_bytes)) {
    masstree_begin_change(record);
    record->value_bytes = (uint32_t)value_bytes;
    memcpy(record->bytes + record->key_bytes, value, value_bytes);
    masstree_end_change(record);
    return 1;
  }
  struct masstree_record *new = masstree_record(arena, key, value, value_bytes);
  if (new == NULL)
    return 0;
  __atomic_store_n(&border->links[place], new, __ATOMIC_RELEASE);
  masstree_free_record(arena, record);
  return 1;
}

/** Sets the value of a key, on this hart. Returns 0 without memory, or if they are too long for a
 * record. */
static inline int masstree_put(struct masstree *map, uint64_t hart, struct masstree_key key,
                               const uint8_t *value, uint64_t value_bytes) {
  struct masstree_arena *arena = &map->arenas[hart];
  struct masstree_node *root = __atomic_load_n(&map->root, __ATOMIC_ACQUIRE);
  if (masstree_record_lines(key.length, value_bytes) > MASSTREE_RECORD_CLASSES)
    return 0;
  for (uint64_t layer = 0;; layer++) {
    uint64_t slice = masstree_slice(key, layer), reach = masstree_reach(key, layer);
    struct masstree_border *border = masstree_lock_border(root, slice);
    uint64_t permutation = border->permutation;
    uint64_t index = masstree_search(border, permutation, slice, reach);
    if (!masstree_is_at(border, permutation, index, slice, reach)) {
      int is_full = masstree_count(permutation) == MASSTREE_FANOUT;
      uint64_t wanted = masstree_record_lines(key.length, value_bytes) * LINE_BYTES;
      wanted += is_full ? 2 * masstree_split_bytes(border) : 0;
      if ((uint64_t)(arena->end - arena->next) < wanted) {
        masstree_unlock(&border->node);
        return 0;
      }
      struct masstree_record *record = masstree_record(arena, key, value, value_bytes);
      if (is_full) {
        masstree_split(map, arena, border, index, slice, reach, record);
      } else {
        masstree_put_in(border, index, slice, reach, record);
        masstree_unlock(&border->node);
      }
      return 1;
    }
    uint64_t place = masstree_place(permutation, index);
    if (border->lengths[place] == MASSTREE_LAYER) {
      root = border->links[place];
      masstree_unlock(&border->node);
      continue;
    }
    struct masstree_record *record = border->links[place];
    int is_same =
        reach != MASSTREE_LONGER || masstree_has_same_rest(masstree_key_of(record), key, layer);
    int is_done;
    if (is_same) {
      is_done = masstree_replace(arena, border, place, key, value, value_bytes);
    } else {
      struct masstree_record *new = masstree_record(arena, key, value, value_bytes);
      struct masstree_border *below =
          new == NULL ? NULL : masstree_new_layer(arena, layer + 1, record, new);
      is_done = below != NULL;
      if (is_done) { /* Readers must not see one without the other. */
        masstree_mark(&border->node, MASSTREE_INSERTING);
        border->lengths[place] = MASSTREE_LAYER;
        border->links[place] = below;
      }
    }
    masstree_unlock(&border->node);
    return is_done;
  }
}

/* Scanning. */

/** A scan in progress. */
struct masstree_scan {
  struct masstree_key from; /* The first key, if it is there. */
  uint64_t left;            /* The number of keys still wanted. */
  /** Gets a key and its value, which may be invalid when it returns; returns the position of its
   * copy, or null if there is no room. */
  void *(*take)(struct masstree_scan *scan, struct masstree_key key, const uint8_t *value,
                uint64_t value_bytes);
  /** The last copy is valid. */
  void (*keep)(struct masstree_scan *scan, void *taken);
};

/* The contents of a border node at one time, from a key on. */
struct masstree_snapshot {
  struct masstree_border *next;
  uint64_t count;
  uint64_t slices[MASSTREE_FANOUT];
  uint8_t lengths[MASSTREE_FANOUT];
  uint8_t places[MASSTREE_FANOUT];
  void *links[MASSTREE_FANOUT];
};

/* From the first key that is not below a slice and length. Returns whether nothing has changed. */
static inline int masstree_look(const struct masstree_border *border, uint64_t version,
                                uint64_t slice, uint64_t length, struct masstree_snapshot *found) {
  uint64_t permutation = __atomic_load_n(&border->permutation, __ATOMIC_ACQUIRE);
  uint64_t key = masstree_search(border, permutation, slice, length);
  found->count = 0;
  for (; key < masstree_count(permutation); key++, found->count++) {
    uint64_t place = masstree_place(permutation, key);
    found->slices[found->count] = border->slices[place];
    found->lengths[found->count] = border->lengths[place];
    found->places[found->count] = (uint8_t)place;
    found->links[found->count] = __atomic_load_n(&border->links[place], __ATOMIC_ACQUIRE);
  }
  found->next = __atomic_load_n(&border->next, __ATOMIC_ACQUIRE);
  return !masstree_has_changed(&border->node, version);
}

/* Gives the record of an entry to the scan, unless it is below the start. Returns -1 if it was
 * changed meanwhile, 0 if the scan is complete, otherwise 1. */
static inline int masstree_emit(struct masstree_scan *scan, const struct masstree_border *border,
                                uint64_t version, uint64_t place,
                                const struct masstree_record *record, int may_be_below) {
  uint64_t seen = __atomic_load_n(&record->version, __ATOMIC_ACQUIRE);
  struct masstree_key key = masstree_key_of(record);
  uint64_t value_bytes = record->value_bytes;
  int is_below = 0;
  void *taken = NULL;
  /* A length that no record has belongs to one that is being changed. */
  int is_record = key.length <= MASSTREE_LONGEST_KEY &&
                  masstree_record_lines(key.length, value_bytes) <= MASSTREE_RECORD_CLASSES;
  if (is_record && may_be_below) {
    uint64_t both = key.length < scan->from.length ? key.length : scan->from.length;
    int order = memcmp(key.bytes, scan->from.bytes, both);
    is_below = order < 0 || (order == 0 && key.length < scan->from.length);
  }
  if (is_record && !is_below)
    taken = scan->take(scan, key, record->bytes + key.length, value_bytes);
  if (!masstree_is_current(border, version, place, record, seen))
    return -1;
  if (is_below)
    return 1;
  if (taken == NULL)
    return 0;
  scan->keep(scan, taken);
  return --scan->left > 0;
}

/* Scans the keys of a layer in order, including those of the layers below; from the scan's start,
 * or all of them. Returns whether the scan continues. */
static int masstree_scan_layer(struct masstree_scan *scan, struct masstree_node *root,
                               uint64_t layer, int is_at_beginning) {
  uint64_t slice = is_at_beginning ? masstree_slice(scan->from, layer) : 0;
  uint64_t length = is_at_beginning ? masstree_reach(scan->from, layer) : 0;
  uint64_t version;
  struct masstree_border *border = masstree_descend(root, slice, &version);
  border = masstree_forward(border, slice, &version);
  while (border != NULL) {
    struct masstree_snapshot found;
    if (!masstree_look(border, version, slice, length, &found)) {
      border = masstree_forward(border, slice, &version);
      continue;
    }
    uint64_t key = 0;
    for (; key < found.count; key++) {
      int is_first = is_at_beginning && found.slices[key] == slice && found.lengths[key] >= length;
      /* A retry starts here. */
      slice = found.slices[key];
      length = found.lengths[key] > MASSTREE_LONGER ? MASSTREE_LONGER : found.lengths[key];
      if (found.lengths[key] == MASSTREE_LAYER) {
        if (!masstree_scan_layer(scan, found.links[key], layer + 1,
                                 is_first &&
                                     scan->from.length > (layer + 1) * MASSTREE_SLICE_BYTES))
          return 0;
      } else {
        int result =
            masstree_emit(scan, border, version, found.places[key], found.links[key], is_first);
        if (result == 0)
          return 0;
        if (result < 0)
          break; /* The record may have been reused for another key. */
      }
      is_at_beginning = is_at_beginning && is_first;
    }
    if (key < found.count) {
      border = masstree_forward(border, slice, &version);
      continue;
    }
    is_at_beginning = 0;
    border = found.next;
    if (border != NULL) {
      slice = border->lowest;
      length = 0;
      version = masstree_stable(&border->node);
    }
  }
  return 1;
}

/** Gives `scan` the keys from its start on. */
static inline void masstree_scan(const struct masstree *map, struct masstree_scan *scan) {
  if (scan->left > 0)
    masstree_scan_layer(scan, __atomic_load_n(&map->root, __ATOMIC_ACQUIRE), 0, 1);
}

#endif
