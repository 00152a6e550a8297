/**
 * Adds random routes, and prints the matches of addresses near them; test_poll_mode.py computes the
 * same by comparing each address with every route.
 */
#include <poll_mode/lpm.h>
#include <stdio.h>

enum { ROUTES = 300, LOOKUPS = 2000 };

/* Marsaglia's xorshift ("Xorshift RNGs", 2003). */
static uint32_t state = 2463534242u;

static uint32_t draw(void) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

/* Few different upper bits, so that prefixes are nested. */
static uint32_t address(void) {
  uint32_t upper = draw() % 4, middle = draw() % 64, low = draw();
  return upper << 30 | middle << 20 | (low & 0x000303ff);
}

int main(void) {
  struct lpm *lpm = lpm_create(256);
  unsigned refused = 0;
  for (uint32_t route = 0; route < ROUTES; route++) {
    uint32_t ip = address();
    uint8_t depth = (uint8_t)(9 + draw() % 24);
    refused += lpm_add(lpm, ip, depth, route) != 0;
  }
  if (lpm_add(lpm, 0, 0, 1) == 0 || lpm_add(lpm, 0, 33, 1) == 0 || lpm_add(lpm, 0, 8, 1 << 24) == 0)
    return 1;
  printf("%u refused\n", refused);
  for (int lookup = 0; lookup < LOOKUPS; lookup++) {
    uint32_t ip = address(), next_hop, bulk;
    int found = lpm_lookup(lpm, ip, &next_hop) == 0;
    lpm_lookup_bulk(lpm, &ip, &bulk, 1);
    if (bulk != (found ? LPM_LOOKUP_SUCCESS | next_hop : 0))
      return 2;
    if (found)
      printf("%x %u\n", ip, next_hop);
    else
      printf("%x none\n", ip);
  }
  return 0;
}
