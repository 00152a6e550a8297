/**
 * TPC-C's database and its five transactions ("TPC Benchmark C, Standard Specification", revision
 * 5.11) over silo.h. Numbers of clauses are the specification's.
 *
 * A transaction draws its input from a random number of the request, so that it can be repeated.
 * Money is in hundredths, rates are in ten-thousandths. Dates are a part of the input.
 *
 * Keys are one or two words: the warehouse and the district, and the row within the district.
 * Customers are found by name through an index whose second word has the number of the name (the
 * three syllables of clause 4.3.2.3), the first letters of the first name, and the customer. Orders
 * of a customer are found through an index whose second word has the customer, and the order
 * counted backwards, so that the last one comes first. The key of a history row is the request's
 * number, because the specification defines none.
 *
 * Think times, terminals and the texts of screens are left out, as in Silo.
 */
#ifndef TPCC_H
#define TPCC_H

#include <operations.h>
#include <silo.h>

enum tpcc_kind { /* The numbers in requests. */
                 TPCC_NEW_ORDER = 3,
                 TPCC_PAYMENT = 4,
                 TPCC_ORDER_STATUS = 5,
                 TPCC_DELIVERY = 6,
                 TPCC_STOCK_LEVEL = 7,
};

enum {
  TPCC_DISTRICTS = 10, /* In a warehouse: clause 1.2.1. */
  TPCC_MAX_LINES = 15,
  TPCC_RECENT_ORDERS = 20, /* For Stock-Level: clause 2.8.2.2. */
  TPCC_NAMES = 1000,
};

/* Rows: clause 1.3. */

struct tpcc_place {
  char name[10], street_1[20], street_2[20], city[20], state[2], zip[9];
};

struct tpcc_warehouse {
  int64_t ytd;
  int32_t tax;
  struct tpcc_place place;
};

struct tpcc_district {
  int64_t ytd;
  int32_t tax;
  uint32_t next_order;
  struct tpcc_place place;
};

struct tpcc_customer {
  int64_t balance, ytd_payment, credit_limit;
  uint64_t since;
  int32_t discount;
  uint32_t payments, deliveries, name; /* The number of the last name. */
  char first[16], middle[2], last[16], phone[16], credit[2];
  struct tpcc_place place; /* Its name is not used. */
  char data[500];
};

struct tpcc_history {
  uint32_t customer_warehouse, customer_district, customer;
  int64_t amount;
  uint64_t date;
  char data[24];
};

struct tpcc_order {
  uint64_t entered;
  uint32_t customer, carrier, lines, all_local; /* Carrier 0: not delivered yet. */
};

struct tpcc_line {
  uint64_t delivered; /* 0: not yet. */
  int64_t amount;
  uint32_t item, supplier, quantity;
  char district[24];
};

struct tpcc_item {
  uint32_t image;
  int32_t price;
  char name[24], data[50];
};

struct tpcc_stock {
  int64_t ytd;
  int32_t quantity;
  uint32_t orders, remote_orders;
  char district[TPCC_DISTRICTS][24], data[50];
};

/** The database; `items`, `customers` of a district and `warehouses` are its size. */
struct tpcc {
  struct silo silo;
  uint32_t warehouses, items, customers;
  struct masstree warehouse, district, customer, name, history, new_order, order, customer_order,
      line, item, stock;
  /* The last delivered order of each district, where a delivery starts to search, since deleted
   * rows stay in the map. Silo's TPC-C has the same. */
  uint32_t *delivered;
};

/** The request of a transaction. */
struct tpcc_request {
  enum tpcc_kind kind;
  uint32_t warehouse; /* From 1. */
  uint64_t seed;
};

enum tpcc_status { TPCC_COMMITTED = 0, TPCC_ROLLED_BACK = 1, TPCC_NO_ROOM = 2 };

/** The output of a transaction: numbers that depend on everything that it has read. */
struct tpcc_output {
  uint64_t words[4];
};

/* Random numbers: clause 2.1.5 and 2.1.6. */

/* One from `low` to `high`. */
static inline uint32_t tpcc_random(uint64_t *state, uint32_t low, uint32_t high) {
  *state += 0x9e3779b97f4a7c15;
  return low + (uint32_t)((operation_mix(*state) >> 32) * (high - low + 1) >> 32);
}

/* NURand(a, low, high). C is 123 in loading and in transactions: clause 2.1.6.1 allows different
 * values for last names. */
static inline uint32_t tpcc_nurand(uint64_t *state, uint32_t a, uint32_t low, uint32_t high) {
  uint32_t one = tpcc_random(state, 0, a), other = tpcc_random(state, low, high);
  return ((one | other) + 123) % (high - low + 1) + low;
}

static inline uint32_t tpcc_customer_number(const struct tpcc *tpcc, uint64_t *state) {
  return tpcc_nurand(state, 1023, 1, tpcc->customers);
}

static inline uint32_t tpcc_item_number(const struct tpcc *tpcc, uint64_t *state) {
  return tpcc_nurand(state, 8191, 1, tpcc->items);
}

static inline uint32_t tpcc_name_number(const struct tpcc *tpcc, uint64_t *state) {
  return tpcc_nurand(state, 255, 0,
                     (tpcc->customers < TPCC_NAMES ? tpcc->customers : TPCC_NAMES) - 1);
}

/* Letters, eight at a time. */
static inline void tpcc_text(uint64_t *state, char *text, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    *state += 0x9e3779b97f4a7c15;
    uint64_t word = (operation_mix(*state) & 0x0f0f0f0f0f0f0f0f) | 0x6060606060606060;
    memcpy(text + at, &word, bytes - at < 8 ? bytes - at : 8);
  }
}

static inline void tpcc_last_name(uint32_t number, char last[16]) {
  static const char syllables[10][6] = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                        "ESE", "ANTI",  "CALLY", "ATION", "EING"};
  uint32_t digits[3] = {number / 100 % 10, number / 10 % 10, number % 10};
  uint64_t at = 0;
  memset(last, 0, 16);
  for (int digit = 0; digit < 3; digit++)
    for (int letter = 0; letter < 5 && syllables[digits[digit]][letter]; letter++)
      last[at++] = syllables[digits[digit]][letter];
}

/* Keys: the bytes of one or two words, in order. */

#define TPCC_ONE(word)                                                                             \
  ((struct masstree_key){(const uint8_t *)(const uint64_t[1]){swap64(word)}, 8})
#define TPCC_TWO(first, second)                                                                    \
  ((struct masstree_key){(const uint8_t *)(const uint64_t[2]){swap64(first), swap64(second)}, 16})

static inline uint64_t tpcc_pair(uint64_t high, uint64_t low) { return high << 32 | low; }

static inline uint64_t tpcc_name_key(const struct tpcc_customer *customer, uint64_t number) {
  uint64_t letters = (uint64_t)(customer->first[0] & 31) << 5 | (customer->first[1] & 31);
  return (uint64_t)customer->name << 52 | letters << 42 | number;
}

static inline uint64_t tpcc_customer_order_key(uint64_t customer, uint64_t order) {
  return tpcc_pair(customer, 0xffffffff - order);
}

static inline uint32_t *tpcc_delivered(const struct tpcc *tpcc, uint32_t warehouse,
                                       uint32_t district) {
  return &tpcc->delivered[(warehouse - 1) * TPCC_DISTRICTS + district - 1];
}

/* Loading: clause 4.3.3. */

static inline void tpcc_load(struct tpcc *tpcc, struct masstree *map, struct masstree_key key,
                             const void *data, uint64_t bytes) {
  struct masstree_record *record = silo_find_or_insert(map, 0, key, bytes);
  if (record == NULL)
    fail("There is no memory for the database.");
  struct silo_row *row = silo_row_of(record);
  memcpy(row->data, data, bytes);
  row->tid = tpcc->silo.epoch << SILO_EPOCH_BIT;
}

static inline void tpcc_load_place(uint64_t *state, struct tpcc_place *place) {
  tpcc_text(state, (char *)place, sizeof *place);
}

static inline void tpcc_load_customers(struct tpcc *tpcc, uint32_t warehouse, uint32_t district,
                                       uint64_t *state) {
  uint64_t place = tpcc_pair(warehouse, district);
  for (uint32_t number = 1; number <= tpcc->customers; number++) {
    struct tpcc_customer customer = {
        .balance = -1000,
        .ytd_payment = 1000,
        .credit_limit = 5000000,
        .discount = (int32_t)tpcc_random(state, 0, 5000),
        .payments = 1,
        .name = number <= TPCC_NAMES ? number - 1 : tpcc_name_number(tpcc, state),
        .middle = {'O', 'E'},
        .credit = {'G', 'C'},
    };
    if (tpcc_random(state, 1, 10) == 1)
      customer.credit[0] = 'B';
    tpcc_text(state, customer.first, sizeof customer.first);
    tpcc_last_name(customer.name, customer.last);
    tpcc_text(state, customer.phone, sizeof customer.phone);
    tpcc_load_place(state, &customer.place);
    tpcc_text(state, customer.data, sizeof customer.data);
    tpcc_load(tpcc, &tpcc->customer, TPCC_TWO(place, number), &customer, sizeof customer);
    uint64_t found = number;
    tpcc_load(tpcc, &tpcc->name, TPCC_TWO(place, tpcc_name_key(&customer, number)), &found,
              sizeof found);
    struct tpcc_history history = {warehouse, district, number, 1000, 1, ""};
    tpcc_text(state, history.data, sizeof history.data);
    tpcc_load(tpcc, &tpcc->history, TPCC_TWO(place, number), &history, sizeof history);
  }
}

/* As many orders as customers, in a random order of customers; the last three tenths are
 * undelivered. */
static inline void tpcc_load_orders(struct tpcc *tpcc, uint32_t warehouse, uint32_t district,
                                    uint64_t *state) {
  uint64_t place = tpcc_pair(warehouse, district), none = 0;
  uint32_t orders = tpcc->customers, undelivered = orders - orders * 3 / 10 + 1;
  /* A permutation: multiples of a number coprime to the number of customers. */
  uint32_t step = orders / 2 + 1, one = step, other = orders;
  while (other) {
    uint32_t rest = one % other;
    one = other;
    other = rest;
    if (other == 0 && one != 1) {
      one = ++step;
      other = orders;
    }
  }
  uint32_t begin = tpcc_random(state, 0, orders - 1);
  for (uint32_t number = 1; number <= orders; number++) {
    int is_new = number >= undelivered;
    uint64_t customer = ((uint64_t)number * step + begin) % orders + 1;
    struct tpcc_order order = {1, (uint32_t)customer, is_new ? 0 : tpcc_random(state, 1, 10),
                               tpcc_random(state, 5, TPCC_MAX_LINES), 1};
    tpcc_load(tpcc, &tpcc->order, TPCC_TWO(place, number), &order, sizeof order);
    tpcc_load(tpcc, &tpcc->customer_order,
              TPCC_TWO(place, tpcc_customer_order_key(customer, number)), &none, sizeof none);
    if (is_new)
      tpcc_load(tpcc, &tpcc->new_order, TPCC_TWO(place, number), &none, sizeof none);
    for (uint32_t at = 1; at <= order.lines; at++) {
      struct tpcc_line line = {is_new ? 0 : 1,
                               is_new ? (int64_t)tpcc_random(state, 1, 999999) : 0,
                               tpcc_random(state, 1, tpcc->items),
                               warehouse,
                               5,
                               ""};
      tpcc_text(state, line.district, sizeof line.district);
      tpcc_load(tpcc, &tpcc->line, TPCC_TWO(place, tpcc_pair(number, at)), &line, sizeof line);
    }
  }
  *tpcc_delivered(tpcc, warehouse, district) = undelivered - 1;
}

/** Makes and fills a database. Each hart has `spare_bytes` for later insertions. */
static inline void tpcc_make(struct tpcc *tpcc, uint32_t warehouses, uint32_t items,
                             uint32_t customers, uint64_t spare_bytes, uint64_t epoch_cycles) {
  uint64_t state = 1;
  tpcc->warehouses = warehouses;
  tpcc->items = items;
  tpcc->customers = customers;
  /* Lines of rows and nodes, including a customer's order; nodes are at least half full. */
  uint64_t per_customer = (13 + 4 * 2 + 15 * 2 + 20 * 2) * LINE_BYTES;
  uint64_t bytes = (uint64_t)items * 5 * LINE_BYTES +
                   (uint64_t)warehouses * (items * (uint64_t)8 * LINE_BYTES +
                                           TPCC_DISTRICTS * (customers * per_customer + 64 * 1024));
  silo_make(&tpcc->silo, spare_bytes, bytes, epoch_cycles);
  struct masstree *maps[] = {&tpcc->warehouse, &tpcc->district,       &tpcc->customer,
                             &tpcc->name,      &tpcc->history,        &tpcc->new_order,
                             &tpcc->order,     &tpcc->customer_order, &tpcc->line,
                             &tpcc->item,      &tpcc->stock};
  for (uint64_t map = 0; map < sizeof maps / sizeof *maps; map++)
    silo_make_map(&tpcc->silo, maps[map]);
  tpcc->delivered = malloc(warehouses * TPCC_DISTRICTS * sizeof *tpcc->delivered);
  for (uint32_t number = 1; number <= items; number++) {
    struct tpcc_item item = {tpcc_random(&state, 1, 10000),
                             (int32_t)tpcc_random(&state, 100, 10000), "", ""};
    tpcc_text(&state, item.name, sizeof item.name);
    tpcc_text(&state, item.data, sizeof item.data);
    tpcc_load(tpcc, &tpcc->item, TPCC_ONE(number), &item, sizeof item);
  }
  for (uint32_t warehouse = 1; warehouse <= warehouses; warehouse++) {
    struct tpcc_warehouse row = {.ytd = (int64_t)TPCC_DISTRICTS * customers * 1000,
                                 .tax = (int32_t)tpcc_random(&state, 0, 2000)};
    tpcc_load_place(&state, &row.place);
    tpcc_load(tpcc, &tpcc->warehouse, TPCC_ONE(warehouse), &row, sizeof row);
    for (uint32_t number = 1; number <= items; number++) {
      struct tpcc_stock stock = {.quantity = (int32_t)tpcc_random(&state, 10, 100)};
      tpcc_text(&state, stock.district[0], sizeof stock.district + sizeof stock.data);
      tpcc_load(tpcc, &tpcc->stock, TPCC_ONE(tpcc_pair(warehouse, number)), &stock, sizeof stock);
    }
    for (uint32_t district = 1; district <= TPCC_DISTRICTS; district++) {
      struct tpcc_district one = {.ytd = (int64_t)customers * 1000,
                                  .tax = (int32_t)tpcc_random(&state, 0, 2000),
                                  .next_order = customers + 1};
      tpcc_load_place(&state, &one.place);
      tpcc_load(tpcc, &tpcc->district, TPCC_ONE(tpcc_pair(warehouse, district)), &one, sizeof one);
      tpcc_load_customers(tpcc, warehouse, district, &state);
      tpcc_load_orders(tpcc, warehouse, district, &state);
    }
  }
}

/* Transactions. Each returns TPCC_COMMITTED if it can commit. */

#define TPCC_GET(map, key, row) silo_get(transaction, &tpcc->map, key, row, sizeof *(row))
#define TPCC_PUT(place, row) silo_put_row(transaction, place, row, sizeof *(row))
#define TPCC_INSERT(map, key, row) silo_insert(transaction, &tpcc->map, key, row, sizeof *(row))

/* Clause 2.4. */
static inline enum tpcc_status tpcc_new_order(struct tpcc *tpcc,
                                              struct silo_transaction *transaction,
                                              const struct tpcc_request *request,
                                              struct tpcc_output *output) {
  uint64_t state = request->seed, date = request->seed | 1;
  uint32_t home = request->warehouse, district = tpcc_random(&state, 1, TPCC_DISTRICTS);
  uint32_t customer_number = tpcc_customer_number(tpcc, &state);
  uint32_t lines = tpcc_random(&state, 5, TPCC_MAX_LINES);
  int is_rolled_back = tpcc_random(&state, 1, 100) == 1;
  uint32_t items[TPCC_MAX_LINES], suppliers[TPCC_MAX_LINES], quantities[TPCC_MAX_LINES];
  uint32_t all_local = 1;
  for (uint32_t at = 0; at < lines; at++) {
    items[at] = tpcc_item_number(tpcc, &state);
    if (is_rolled_back && at == lines - 1)
      items[at] = tpcc->items + 1; /* An item that does not exist. */
    suppliers[at] = home;
    if (tpcc->warehouses > 1 && tpcc_random(&state, 1, 100) == 1) {
      suppliers[at] = tpcc_random(&state, 1, tpcc->warehouses - 1);
      suppliers[at] += suppliers[at] >= home;
      all_local = 0;
    }
    quantities[at] = tpcc_random(&state, 1, 10);
  }

  struct tpcc_warehouse warehouse;
  struct tpcc_district there;
  struct tpcc_customer customer;
  uint64_t place = tpcc_pair(home, district), none = 0;
  TPCC_GET(warehouse, TPCC_ONE(home), &warehouse);
  struct silo_row *row = TPCC_GET(district, TPCC_ONE(place), &there);
  TPCC_GET(customer, TPCC_TWO(place, customer_number), &customer);
  uint64_t number = there.next_order++;
  TPCC_PUT(row, &there);
  struct tpcc_order order = {date, customer_number, 0, lines, all_local};
  int is_new = TPCC_INSERT(order, TPCC_TWO(place, number), &order);
  is_new &= TPCC_INSERT(new_order, TPCC_TWO(place, number), &none);
  is_new &= TPCC_INSERT(customer_order,
                        TPCC_TWO(place, tpcc_customer_order_key(customer_number, number)), &none);
  int64_t total = 0;
  uint64_t stocks = 0;
  for (uint32_t at = 0; at < lines; at++) {
    struct tpcc_item item;
    struct tpcc_stock stock;
    if (TPCC_GET(item, TPCC_ONE(items[at]), &item) == NULL)
      return TPCC_ROLLED_BACK;
    row = TPCC_GET(stock, TPCC_ONE(tpcc_pair(suppliers[at], items[at])), &stock);
    int32_t quantity = (int32_t)quantities[at];
    stock.quantity -= stock.quantity >= quantity + 10 ? quantity : quantity - 91;
    stock.ytd += quantity;
    stock.orders++;
    stock.remote_orders += suppliers[at] != home;
    TPCC_PUT(row, &stock);
    struct tpcc_line line = {
        0, (int64_t)quantity * item.price, items[at], suppliers[at], quantities[at], ""};
    memcpy(line.district, stock.district[district - 1], sizeof line.district);
    is_new &= TPCC_INSERT(line, TPCC_TWO(place, tpcc_pair(number, at + 1)), &line);
    total += line.amount;
    stocks = stocks * 31 + (uint64_t)stock.quantity;
  }
  if (!is_new)
    transaction->is_doomed = 1; /* A concurrent transaction's key: one of them fails. */
  total = total * (10000 - customer.discount) / 10000;
  total = total * (10000 + warehouse.tax + there.tax) / 10000;
  *output = (struct tpcc_output){{number, (uint64_t)total, stocks, customer_number}};
  return TPCC_COMMITTED;
}

/* The customers of a name, in the order of their first names. */
struct tpcc_named {
  uint64_t count, numbers[64];
};

static inline int tpcc_name(struct silo_transaction *transaction, uint64_t second,
                            struct masstree_record *record, void *with) {
  (void)transaction;
  (void)record; /* The index does not change, and the key has all fields. */
  struct tpcc_named *named = with;
  named->numbers[named->count++] = second & 0xffffffff;
  return named->count < sizeof named->numbers / sizeof *named->numbers;
}

/* The customer of Payment and Order-Status: in 60 of 100 cases by name, the middle one (clauses
 * 2.5.2.2 and 2.6.2.2). */
static inline struct silo_row *tpcc_chosen(struct tpcc *tpcc, struct silo_transaction *transaction,
                                           uint64_t place, uint64_t *state,
                                           struct tpcc_customer *customer, uint32_t *number) {
  if (tpcc_random(state, 1, 100) <= 60) {
    struct tpcc_named named = {0};
    uint64_t name = (uint64_t)tpcc_name_number(tpcc, state) << 52;
    silo_scan(transaction, &tpcc->name, place, name, name | (((uint64_t)1 << 52) - 1), tpcc_name,
              &named);
    if (named.count > 0)
      *number = (uint32_t)named.numbers[(named.count - 1) / 2];
  } else {
    *number = tpcc_customer_number(tpcc, state);
  }
  return TPCC_GET(customer, TPCC_TWO(place, *number), customer);
}

/* Clause 2.5. */
static inline enum tpcc_status tpcc_payment(struct tpcc *tpcc, struct silo_transaction *transaction,
                                            const struct tpcc_request *request,
                                            struct tpcc_output *output) {
  uint64_t state = request->seed;
  uint32_t home = request->warehouse, district = tpcc_random(&state, 1, TPCC_DISTRICTS);
  int64_t amount = tpcc_random(&state, 100, 500000);
  uint32_t of_warehouse = home, of_district = district, number = 1;
  if (tpcc->warehouses > 1 && tpcc_random(&state, 1, 100) > 85) {
    of_warehouse = tpcc_random(&state, 1, tpcc->warehouses - 1);
    of_warehouse += of_warehouse >= home;
    of_district = tpcc_random(&state, 1, TPCC_DISTRICTS);
  }
  struct tpcc_warehouse warehouse;
  struct tpcc_district there;
  struct tpcc_customer customer;
  struct silo_row *row = TPCC_GET(warehouse, TPCC_ONE(home), &warehouse);
  warehouse.ytd += amount;
  TPCC_PUT(row, &warehouse);
  row = TPCC_GET(district, TPCC_ONE(tpcc_pair(home, district)), &there);
  there.ytd += amount;
  TPCC_PUT(row, &there);
  row = tpcc_chosen(tpcc, transaction, tpcc_pair(of_warehouse, of_district), &state, &customer,
                    &number);
  customer.balance -= amount;
  customer.ytd_payment += amount;
  customer.payments++;
  if (customer.credit[0] == 'B') { /* The new entry is prepended. */
    uint64_t entry[6] = {number, of_district, of_warehouse, district, home, (uint64_t)amount};
    memmove(customer.data + sizeof entry, customer.data, sizeof customer.data - sizeof entry);
    memcpy(customer.data, entry, sizeof entry);
  }
  TPCC_PUT(row, &customer);
  struct tpcc_history history = {of_warehouse, of_district, number, amount, request->seed | 1, ""};
  memcpy(history.data, warehouse.place.name, sizeof warehouse.place.name);
  memcpy(history.data + 14, there.place.name, sizeof there.place.name);
  if (!TPCC_INSERT(history, TPCC_TWO(tpcc_pair(home, district), request->seed), &history))
    transaction->is_doomed = 1;
  *output = (struct tpcc_output){
      {number, (uint64_t)customer.balance, (uint64_t)warehouse.ytd, (uint64_t)there.ytd}};
  return TPCC_COMMITTED;
}

/* The first present order of an index. */
static inline int tpcc_first(struct silo_transaction *transaction, uint64_t second,
                             struct masstree_record *record, void *with) {
  uint64_t none, *found = with;
  if (!silo_read_row(transaction, silo_row_of(record), &none, sizeof none))
    return 1;
  *found = second;
  return 0;
}

/* Lines of an order, for Order-Status and Delivery. */
struct tpcc_lines {
  uint64_t delivered; /* Their new date; 0: unchanged. */
  int64_t total;
  uint64_t digest;
};

static inline int tpcc_each_line(struct silo_transaction *transaction, uint64_t second,
                                 struct masstree_record *record, void *with) {
  struct tpcc_lines *lines = with;
  struct tpcc_line line;
  struct silo_row *row = silo_row_of(record);
  (void)second;
  if (!silo_read_row(transaction, row, &line, sizeof line))
    return 1;
  lines->total += line.amount;
  lines->digest = lines->digest * 31 + line.item + line.quantity + line.delivered;
  if (lines->delivered) {
    line.delivered = lines->delivered;
    TPCC_PUT(row, &line);
  }
  return 1;
}

static inline void tpcc_scan_lines(struct tpcc *tpcc, struct silo_transaction *transaction,
                                   uint64_t place, uint64_t order, struct tpcc_lines *lines) {
  silo_scan(transaction, &tpcc->line, place, tpcc_pair(order, 0), tpcc_pair(order, 0xffffffff),
            tpcc_each_line, lines);
}

/* Clause 2.6. */
static inline enum tpcc_status tpcc_order_status(struct tpcc *tpcc,
                                                 struct silo_transaction *transaction,
                                                 const struct tpcc_request *request,
                                                 struct tpcc_output *output) {
  uint64_t state = request->seed, found = 0;
  uint32_t district = tpcc_random(&state, 1, TPCC_DISTRICTS), number = 1;
  uint64_t place = tpcc_pair(request->warehouse, district);
  struct tpcc_customer customer;
  struct tpcc_order order = {0};
  struct tpcc_lines lines = {0};
  tpcc_chosen(tpcc, transaction, place, &state, &customer, &number);
  silo_scan(transaction, &tpcc->customer_order, place, tpcc_pair(number, 0),
            tpcc_pair(number, 0xffffffff), tpcc_first, &found);
  uint64_t order_number = found ? 0xffffffff - (found & 0xffffffff) : 0;
  if (order_number) {
    TPCC_GET(order, TPCC_TWO(place, order_number), &order);
    tpcc_scan_lines(tpcc, transaction, place, order_number, &lines);
  }
  *output = (struct tpcc_output){{order_number, (uint64_t)customer.balance,
                                  (uint64_t)lines.total + order.carrier, lines.digest}};
  return TPCC_COMMITTED;
}

/* Clause 2.7, all districts in one transaction. */
static inline enum tpcc_status tpcc_delivery(struct tpcc *tpcc,
                                             struct silo_transaction *transaction,
                                             const struct tpcc_request *request,
                                             struct tpcc_output *output) {
  uint64_t state = request->seed, count = 0, orders = 0, total = 0;
  uint32_t carrier = tpcc_random(&state, 1, 10);
  for (uint32_t district = 1; district <= TPCC_DISTRICTS; district++) {
    uint64_t place = tpcc_pair(request->warehouse, district), found = 0;
    uint32_t *delivered = tpcc_delivered(tpcc, request->warehouse, district);
    silo_scan(transaction, &tpcc->new_order, place,
              __atomic_load_n(delivered, __ATOMIC_ACQUIRE) + (uint64_t)1, 0xffffffff, tpcc_first,
              &found);
    if (found == 0)
      continue;
    uint64_t none;
    struct tpcc_order order;
    struct tpcc_customer customer;
    struct tpcc_lines lines = {.delivered = request->seed | 1};
    struct silo_row *row = TPCC_GET(new_order, TPCC_TWO(place, found), &none);
    if (row == NULL)
      continue; /* Another transaction has deleted it; this one fails. */
    silo_put_row(transaction, row, NULL, sizeof none);
    row = TPCC_GET(order, TPCC_TWO(place, found), &order);
    if (row == NULL)
      continue;
    order.carrier = carrier;
    TPCC_PUT(row, &order);
    tpcc_scan_lines(tpcc, transaction, place, found, &lines);
    row = TPCC_GET(customer, TPCC_TWO(place, order.customer), &customer);
    if (row == NULL)
      continue;
    customer.balance += lines.total;
    customer.deliveries++;
    TPCC_PUT(row, &customer);
    count++;
    orders = orders * 31 + found;
    total += (uint64_t)lines.total;
  }
  *output = (struct tpcc_output){{count, orders, total, carrier}};
  return TPCC_COMMITTED;
}

/* Updates where later deliveries start to search. Orders are delivered in sequence. */
static inline void tpcc_has_delivered(struct tpcc *tpcc,
                                      const struct silo_transaction *transaction) {
  for (uint64_t at = 0; at < transaction->writes; at++) {
    const struct silo_write *write = &transaction->write[at];
    if (write->data != NULL)
      continue;
    /* The key precedes the row: warehouse, district and order. */
    uint64_t words[2];
    memcpy(words, (const uint8_t *)write->row - sizeof words, sizeof words);
    uint64_t place = swap64(words[0]);
    uint32_t *delivered = tpcc_delivered(tpcc, (uint32_t)(place >> 32), (uint32_t)place);
    uint32_t order = (uint32_t)swap64(words[1]);
    uint32_t before = __atomic_load_n(delivered, __ATOMIC_RELAXED);
    while (before < order && !__atomic_compare_exchange_n(delivered, &before, order, 0,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED))
      ;
  }
}

/* The distinct items of recent orders: a table with linear probing. */
struct tpcc_recent {
  uint64_t count;
  uint32_t items[TPCC_RECENT_ORDERS * TPCC_MAX_LINES];
  uint32_t table[1024];
};

static inline int tpcc_recent_line(struct silo_transaction *transaction, uint64_t second,
                                   struct masstree_record *record, void *with) {
  struct tpcc_recent *recent = with;
  struct tpcc_line line;
  (void)second;
  if (!silo_read_row(transaction, silo_row_of(record), &line, sizeof line))
    return 1;
  uint32_t place = line.item * 2654435761u >> 22;
  while (recent->table[place] != 0 && recent->table[place] != line.item)
    place = (place + 1) & 1023;
  if (recent->table[place] == 0 && recent->count < sizeof recent->items / sizeof *recent->items) {
    recent->table[place] = line.item;
    recent->items[recent->count++] = line.item;
  }
  return 1;
}

/* Clause 2.8. */
static inline enum tpcc_status tpcc_stock_level(struct tpcc *tpcc,
                                                struct silo_transaction *transaction,
                                                const struct tpcc_request *request,
                                                struct tpcc_output *output) {
  uint64_t state = request->seed, low = 0, digest = 0;
  uint32_t district = tpcc_random(&state, 1, TPCC_DISTRICTS);
  int32_t threshold = (int32_t)tpcc_random(&state, 10, 20);
  uint64_t place = tpcc_pair(request->warehouse, district);
  struct tpcc_district there;
  struct tpcc_recent recent;
  TPCC_GET(district, TPCC_ONE(place), &there);
  uint64_t end = there.next_order;
  uint64_t begin = end > TPCC_RECENT_ORDERS ? end - TPCC_RECENT_ORDERS : 1;
  memset(&recent.table, 0, sizeof recent.table);
  recent.count = 0;
  silo_scan(transaction, &tpcc->line, place, tpcc_pair(begin, 0), tpcc_pair(end, 0) - 1,
            tpcc_recent_line, &recent);
  for (uint64_t at = 0; at < recent.count; at++) {
    struct tpcc_stock stock;
    TPCC_GET(stock, TPCC_ONE(tpcc_pair(request->warehouse, recent.items[at])), &stock);
    low += stock.quantity < threshold;
    digest = digest * 31 + (uint64_t)stock.quantity;
  }
  *output = (struct tpcc_output){{low, recent.count, digest, end}};
  return TPCC_COMMITTED;
}

/** Executes a transaction until it commits or rolls back itself. Counts restarts in `aborts`. */
static inline enum tpcc_status tpcc_execute(struct tpcc *tpcc, struct silo_transaction *transaction,
                                            const struct tpcc_request *request,
                                            struct tpcc_output *output, uint64_t *aborts) {
  for (;;) {
    enum tpcc_status status = TPCC_COMMITTED;
    silo_begin(transaction, &tpcc->silo);
    switch (request->kind) {
    case TPCC_NEW_ORDER:
      status = tpcc_new_order(tpcc, transaction, request, output);
      break;
    case TPCC_PAYMENT:
      status = tpcc_payment(tpcc, transaction, request, output);
      break;
    case TPCC_ORDER_STATUS:
      status = tpcc_order_status(tpcc, transaction, request, output);
      break;
    case TPCC_DELIVERY:
      status = tpcc_delivery(tpcc, transaction, request, output);
      break;
    case TPCC_STOCK_LEVEL:
      status = tpcc_stock_level(tpcc, transaction, request, output);
      break;
    }
    if (status != TPCC_COMMITTED) {
      silo_abort(transaction);
      return status;
    }
    if (silo_commit(transaction)) {
      if (request->kind == TPCC_DELIVERY)
        tpcc_has_delivered(tpcc, transaction);
      return TPCC_COMMITTED;
    }
    (*aborts)++;
    if (transaction->is_full)
      return TPCC_NO_ROOM;
  }
}

#endif
