/**
 * Finds the first of 100,000 rules that match a packet's header.
 *
 * The nanoPU paper's packet classifier (Table 1): addresses by prefixes, ports by ranges, the
 * protocol exactly or not at all.
 *
 * A request has two words of the load generator, and four more, each of two parts: a number and any
 * value; source and destination IPv4 address; source and destination port; the protocol and 0. The
 * reply is the same, except that the second part of the third word is the number of the rule, or
 * all ones for none.
 *
 * The first part of a word is in bits 63 to 32.
 *
 * *Rules.* The paper uses those of ClassBench's acl1 seed; here they are generated with similar
 * properties. Prefixes have a few lengths, mostly long ones, and sources and destinations come from
 * pools, so that many rules share them; most rules match any source port, and one destination port.
 *
 * *Search* is tuple space search (Srinivasan, Suri and Varghese, SIGCOMM 1999): rules with the same
 * two prefix lengths are in one hash table, indexed by these prefixes. Tables are ordered by their
 * first rules, so that the search ends at the first table whose rules all follow a match; the rules
 * of a table entry are ordered, too. nuevoMatch, which the paper uses, learns a model of the rules
 * to reduce the number of lookups.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <operations.h>

enum {
  RULES = 100000,
  LENGTHS = 5,
  TABLES = LENGTHS * LENGTHS,
  POOL = 8192, /* Addresses of each direction. */
  HEADER_WORDS = 3,
  ANY_PROTOCOL = 0,
};

static const uint8_t lengths[LENGTHS] = {32, 28, 24, 16, 8};

struct rule {
  uint32_t source, destination;                   /* Prefixes, padded with zeros. */
  uint16_t source_ports[2], destination_ports[2]; /* First and last port. */
  uint8_t protocol;
  uint8_t table;
  uint32_t next; /* The next one of its entry, plus 1; or 0. */
};

static struct rule rules[RULES];

/* All rules of two lengths. The entries are in `places`, from `first_place` on. */
static struct table {
  uint32_t source_mask, destination_mask;
  uint32_t first_place, place_mask;
  uint32_t first_rule; /* RULES if the table is empty. */
  uint32_t count;
} tables[TABLES];

static uint8_t order[TABLES];      /* Tables in the order of their first rules. */
static uint32_t places[4 * RULES]; /* The first rule of each entry, plus 1; or 0. */

static inline uint32_t mask_of(uint64_t length) { return ~(uint32_t)0 << (32 - length); }

/* The entry of a rule or a header. Prefixes are only multiplied, not hashed thoroughly: a
 * multiplication takes three cycles. */
static inline uint32_t place_of(const struct table *table, uint32_t source, uint32_t destination) {
  uint64_t both = (uint64_t)source << 32 | destination;
  return table->first_place + ((uint32_t)(both * 0x9e3779b97f4a7c15 >> 40) & table->place_mask);
}

/* Generates the rule with a number; its random parts come from four steps of SplitMix64. */
static void make_rule(uint64_t number, struct rule *rule) {
  uint64_t sides = operation_mix(4 * number), ports = operation_mix(4 * number + 1);
  /* Half of all prefixes are complete addresses, then a quarter, an eighth, and two sixteenths. */
  static const uint8_t length_of[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4};
  uint64_t source_length = length_of[sides & 15];
  uint64_t destination_length = length_of[sides >> 4 & 15];
  uint32_t source = (uint32_t)operation_mix((sides >> 8) % POOL + ((uint64_t)1 << 32));
  uint32_t destination = (uint32_t)operation_mix((sides >> 32) % POOL + ((uint64_t)2 << 32));
  *rule = (struct rule){
      .source = source & mask_of(lengths[source_length]),
      .destination = destination & mask_of(lengths[destination_length]),
      .source_ports = {0, 0xffff},
      .destination_ports = {0, 0xffff},
      .protocol = (uint8_t[]){6, 6, 17, ANY_PROTOCOL}[ports & 3],
      .table = (uint8_t)(source_length * LENGTHS + destination_length),
  };
  uint16_t port = (uint16_t)(ports >> 16);
  switch (ports >> 2 & 7) {
  case 0: /* Any port. */
    break;
  case 1: /* The upper ones, as clients use them. */
    rule->source_ports[0] = rule->destination_ports[0] = 1024;
    break;
  case 2: /* A range of up to 256. */
    rule->destination_ports[0] = port & 0xff00;
    rule->destination_ports[1] = (port & 0xff00) + (uint8_t)(ports >> 32);
    break;
  default: /* One of 64 services. */
    rule->destination_ports[0] = rule->destination_ports[1] = port % 64;
  }
}

static void make_tables(void) {
  for (uint32_t number = 0; number < TABLES; number++)
    tables[number] = (struct table){
        .source_mask = mask_of(lengths[number / LENGTHS]),
        .destination_mask = mask_of(lengths[number % LENGTHS]),
        .first_rule = RULES,
    };
  for (uint32_t number = 0; number < RULES; number++) {
    struct table *table = &tables[rules[number].table];
    if (table->count++ == 0)
      table->first_rule = number;
  }
  uint32_t place = 0, sorted = 0;
  for (uint32_t number = 0; number < TABLES; number++) {
    struct table *table = &tables[number];
    uint32_t room = 1;
    while (room < table->count)
      room *= 2;
    table->first_place = place;
    table->place_mask = room - 1;
    place += room; /* At most twice as many as rules, plus 1 per empty table. */
    uint32_t at = sorted++;
    for (; at > 0 && tables[order[at - 1]].first_rule > table->first_rule; at--)
      order[at] = order[at - 1];
    order[at] = (uint8_t)number;
  }
}

void prepare(void) {
  for (uint64_t number = 0; number < RULES; number++)
    make_rule(number, &rules[number]);
  make_tables();
  for (uint32_t number = RULES; number > 0;
       number--) { /* From the last to the first, so that the first is found first. */
    struct rule *rule = &rules[number - 1];
    uint32_t *place = &places[place_of(&tables[rule->table], rule->source, rule->destination)];
    rule->next = *place;
    *place = number;
  }
}

static inline int is_in(uint16_t port, const uint16_t range[2]) {
  return port >= range[0] && port <= range[1];
}

/* The number of the first rule that matches; RULES if there is none. */
static inline uint32_t classify(uint32_t source, uint32_t destination, uint16_t source_port,
                                uint16_t destination_port, uint8_t protocol) {
  uint32_t best = RULES;
  for (int at = 0; at < TABLES; at++) {
    const struct table *table = &tables[order[at]];
    if (table->first_rule >= best)
      break;
    uint32_t source_prefix = source & table->source_mask;
    uint32_t destination_prefix = destination & table->destination_mask;
    uint32_t next = places[place_of(table, source_prefix, destination_prefix)];
    while (next != 0 && next - 1 < best) {
      const struct rule *rule = &rules[next - 1];
      if (rule->source == source_prefix && rule->destination == destination_prefix &&
          &tables[rule->table] == table &&
          (rule->protocol == protocol || rule->protocol == ANY_PROTOCOL) &&
          is_in(source_port, rule->source_ports) &&
          is_in(destination_port, rule->destination_ports))
        best = next - 1;
      next = rule->next;
    }
  }
  return best;
}

static inline void serve(void) {
  uint64_t header = lnic_read();
  if (message_words(header) != LOAD_WORDS + 1 + HEADER_WORDS) {
    refuse(header, 0);
    return;
  }
  lnic_write_r(header);
  lnic_copy();
  lnic_copy();
  uint64_t number = lnic_read() >> 32;
  uint64_t addresses = lnic_read(), ports = lnic_read(), protocol = lnic_read();
  uint32_t rule = classify((uint32_t)(addresses >> 32), (uint32_t)addresses,
                           (uint16_t)(ports >> 32), (uint16_t)ports, (uint8_t)(protocol >> 32));
  lnic_write_r(number << 32 | (rule == RULES ? ~(uint32_t)0 : rule));
  lnic_write_r(addresses);
  lnic_write_r(ports);
  lnic_write_r(protocol);
}

int main(void) { return service_on_all_harts(); }
