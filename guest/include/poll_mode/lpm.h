/**
 * Longest-prefix match of IPv4 addresses (Gupta, Lin and McKeown, "Routing Lookups in Hardware at
 * Memory Access Speeds", INFOCOM 1998): a table for the upper 24 bits, whose entries give the next
 * hop, or one of several tables for the lower 8.
 *
 * Routes can be added, but not removed. Addresses have the hart's byte order.
 */
#ifndef POLL_MODE_LPM_H
#define POLL_MODE_LPM_H

#include <poll_mode/lcore.h>
#include <stdlib.h>

enum {
  LPM_TBL24_ENTRIES = 1 << 24,
  LPM_TBL8_ENTRIES = 256,
  LPM_LOOKUP_SUCCESS = 1 << 24, /**< lpm_lookup_bulk() adds it to a next hop that it has found. */
};

/** An entry of either table. */
struct lpm_entry {
  uint32_t next_hop : 24; /**< In the first table also the number of a second one. */
  uint32_t valid : 1;
  uint32_t valid_group : 1; /**< In the first table: `next_hop` is the number of a second one. */
  uint32_t depth : 6;       /**< Bits of its prefix. */
};

struct lpm {
  uint32_t tbl8s, tbl8s_used;
  struct lpm_entry *tbl24;
  struct lpm_entry *tbl8;
};

_Static_assert(sizeof(struct lpm_entry) == 4, "an entry is a word");

/** Creates a table with this number of second tables, for prefixes of more than 24 bits. It takes
 * 64 MiB. */
static inline struct lpm *lpm_create(uint32_t number_tbl8s) {
  struct lpm *lpm = aligned_alloc(CACHE_LINE_SIZE, sizeof *lpm);
  lpm->tbl8s = number_tbl8s;
  lpm->tbl24 = aligned_alloc(4096, LPM_TBL24_ENTRIES * sizeof(struct lpm_entry));
  lpm->tbl8 =
      aligned_alloc(4096, (uint64_t)number_tbl8s * LPM_TBL8_ENTRIES * sizeof(struct lpm_entry));
  return lpm;
}

/* Sets the entries of a range that have no longer prefix. */
static inline void lpm_fill(struct lpm_entry *entries, uint32_t count, struct lpm_entry entry) {
  for (uint32_t place = 0; place < count; place++)
    if (!entries[place].valid || entries[place].depth <= entry.depth)
      entries[place] = entry;
}

/** Adds or changes a route: the upper `depth` bits of `ip`, 1 to 32. Returns 0, or -1 if the depth
 * is invalid or no second table is left. */
static inline int lpm_add(struct lpm *lpm, uint32_t ip, uint8_t depth, uint32_t next_hop) {
  if (depth < 1 || depth > 32 || next_hop >= 1 << 24)
    return -1;
  ip &= ~(uint32_t)0 << (32 - depth);
  struct lpm_entry entry = {.next_hop = next_hop, .valid = 1, .depth = depth};
  uint32_t first = ip >> 8;
  if (depth <= 24) {
    uint32_t count = 1u << (24 - depth);
    for (uint32_t place = first; place < first + count; place++) {
      if (lpm->tbl24[place].valid_group)
        lpm_fill(&lpm->tbl8[lpm->tbl24[place].next_hop * LPM_TBL8_ENTRIES], LPM_TBL8_ENTRIES,
                 entry);
      else
        lpm_fill(&lpm->tbl24[place], 1, entry);
    }
    return 0;
  }
  if (!lpm->tbl24[first].valid_group) {
    if (lpm->tbl8s_used == lpm->tbl8s)
      return -1;
    uint32_t group = lpm->tbl8s_used++;
    for (uint32_t place = 0; place < LPM_TBL8_ENTRIES; place++)
      lpm->tbl8[group * LPM_TBL8_ENTRIES + place] = lpm->tbl24[first];
    lpm->tbl24[first] = (struct lpm_entry){.next_hop = group, .valid = 1, .valid_group = 1};
  }
  uint32_t group = lpm->tbl24[first].next_hop;
  lpm_fill(&lpm->tbl8[group * LPM_TBL8_ENTRIES + (ip & 0xff)], 1u << (32 - depth), entry);
  return 0;
}

/* The entry of an address. */
static inline struct lpm_entry lpm_find(const struct lpm *lpm, uint32_t ip) {
  struct lpm_entry entry = lpm->tbl24[ip >> 8];
  if (unlikely(entry.valid_group))
    entry = lpm->tbl8[entry.next_hop * LPM_TBL8_ENTRIES + (ip & 0xff)];
  return entry;
}

/** The next hop of an address; returns 0, or -1 if no route matches. */
static inline int lpm_lookup(const struct lpm *lpm, uint32_t ip, uint32_t *next_hop) {
  struct lpm_entry entry = lpm_find(lpm, ip);
  *next_hop = entry.next_hop;
  return entry.valid ? 0 : -1;
}

/** The same for several addresses: LPM_LOOKUP_SUCCESS and the next hop of each, or 0. */
static inline void lpm_lookup_bulk(const struct lpm *lpm, const uint32_t *ips, uint32_t *next_hops,
                                   unsigned count) {
  for (unsigned place = 0; place < count; place++) {
    struct lpm_entry entry = lpm_find(lpm, ips[place]);
    next_hops[place] = entry.valid ? LPM_LOOKUP_SUCCESS | entry.next_hop : 0;
  }
}

#endif
