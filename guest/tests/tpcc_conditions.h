/**
 * TPC-C's consistency conditions (clause 3.3.2), of a database that nobody uses just now.
 */
#ifndef TPCC_CONDITIONS_H
#define TPCC_CONDITIONS_H

#include <stdio.h>
#include <tpcc.h>

enum { MAX_WAREHOUSES = 4, MAX_CUSTOMERS = 100, PLACES = MAX_WAREHOUSES * TPCC_DISTRICTS };

/* Calls `visit` for each record of a layer and those below, in order. */
static void walk_layer(struct masstree_node *root,
                       void (*visit)(const struct masstree_record *record, void *with),
                       void *with) {
  uint64_t version;
  for (struct masstree_border *border = masstree_descend(root, 0, &version); border;
       border = border->next)
    for (uint64_t key = 0; key < masstree_count(border->permutation); key++) {
      uint64_t place = masstree_place(border->permutation, key);
      if (border->lengths[place] == MASSTREE_LAYER)
        walk_layer(border->links[place], visit, with);
      else
        visit(border->links[place], with);
    }
}

static void walk(const struct masstree *map,
                 void (*visit)(const struct masstree_record *record, void *with), void *with) {
  walk_layer(map->root, visit, with);
}

static uint64_t word_of(const struct masstree_record *record, uint64_t at) {
  uint64_t word;
  memcpy(&word, record->bytes + 8 * at, sizeof word);
  return swap64(word);
}

/* The row of a record; null if it is not there. */
static const void *row_of(const struct masstree_record *record) {
  const struct silo_row *row = silo_row_of((struct masstree_record *)record);
  return row->tid & SILO_ABSENT ? NULL : row->data;
}

static const void *find(const struct masstree *map, struct masstree_key key) {
  struct silo_node node;
  const struct masstree_record *record = silo_locate(map, key, &node);
  return record ? row_of(record) : NULL;
}

static struct sums {
  const struct tpcc *tpcc;
  int64_t warehouse_ytd[MAX_WAREHOUSES], district_ytd[PLACES], paid[PLACES];
  uint64_t next_order[PLACES], last_order[PLACES], lines[PLACES], promised[PLACES];
  uint64_t first_new[PLACES], last_new[PLACES], new_orders[PLACES], orders;
  struct {
    int64_t balance, ytd_payment, paid, delivered;
  } customers[PLACES][MAX_CUSTOMERS];
} sums;

/* Which district a record belongs to. */
static uint64_t place_of(uint64_t word) {
  return ((word >> 32) - 1) * TPCC_DISTRICTS + (word & 0xffffffff) - 1;
}

#define VISIT(name, type)                                                                          \
  static void name(const struct masstree_record *record, void *with) {                             \
    (void)with;                                                                                    \
    const struct type *row = row_of(record);                                                       \
    uint64_t first = word_of(record, 0), place = place_of(first);                                  \
    if (row != NULL)                                                                               \
      name##_row(record, row, first, place);                                                       \
  }

static void warehouse_row(const struct masstree_record *record, const struct tpcc_warehouse *row,
                          uint64_t first, uint64_t place) {
  (void)record, (void)place;
  sums.warehouse_ytd[first - 1] = row->ytd;
}
VISIT(warehouse, tpcc_warehouse)

static void district_row(const struct masstree_record *record, const struct tpcc_district *row,
                         uint64_t first, uint64_t place) {
  (void)record, (void)first;
  sums.district_ytd[place] = row->ytd;
  sums.next_order[place] = row->next_order;
}
VISIT(district, tpcc_district)

static void history_row(const struct masstree_record *record, const struct tpcc_history *row,
                        uint64_t first, uint64_t place) {
  (void)record, (void)first;
  sums.paid[place] += row->amount;
  uint64_t of = place_of(tpcc_pair(row->customer_warehouse, row->customer_district));
  sums.customers[of][row->customer - 1].paid += row->amount;
}
VISIT(history, tpcc_history)

struct nothing {
  uint64_t nothing;
};

static void new_order_row(const struct masstree_record *record, const struct nothing *row,
                          uint64_t first, uint64_t place) {
  (void)row, (void)first;
  uint64_t number = word_of(record, 1);
  if (sums.new_orders[place]++ == 0)
    sums.first_new[place] = number;
  sums.last_new[place] = number;
}
VISIT(new_order, nothing)

static void line_row(const struct masstree_record *record, const struct tpcc_line *row,
                     uint64_t first, uint64_t place) {
  uint64_t number = word_of(record, 1) >> 32;
  const struct tpcc_order *order = find(&sums.tpcc->order, TPCC_TWO(first, number));
  if (order == NULL)
    fail("Order %lu has lines, and is not there.", number);
  if ((row->delivered == 0) != (order->carrier == 0)) /* Condition 7. */
    fail("A line of order %lu was delivered at %lu, and its carrier is %u.", number, row->delivered,
         order->carrier);
  sums.lines[place]++;
  if (row->delivered)
    sums.customers[place][order->customer - 1].delivered += row->amount;
}
VISIT(line, tpcc_line)

static void order_row(const struct masstree_record *record, const struct tpcc_order *row,
                      uint64_t first, uint64_t place) {
  uint64_t number = word_of(record, 1);
  int is_new = find(&sums.tpcc->new_order, TPCC_TWO(first, number)) != NULL;
  if (is_new != (row->carrier == 0)) /* Condition 5. */
    fail("Order %lu has carrier %u and is%s new.", number, row->carrier, is_new ? "" : " not");
  for (uint64_t at = 1; at <= TPCC_MAX_LINES + 1; at++) { /* Condition 6. */
    int is_there = find(&sums.tpcc->line, TPCC_TWO(first, tpcc_pair(number, at))) != NULL;
    if (is_there != (at <= row->lines))
      fail("Order %lu has %u lines; line %lu is%s there.", number, row->lines, at,
           is_there ? "" : " not");
  }
  sums.orders++;
  sums.promised[place] += row->lines;
  sums.last_order[place] = number;
}
VISIT(order, tpcc_order)

static void customer_row(const struct masstree_record *record, const struct tpcc_customer *row,
                         uint64_t first, uint64_t place) {
  (void)first;
  uint64_t number = word_of(record, 1) - 1;
  sums.customers[place][number].balance = row->balance;
  sums.customers[place][number].ytd_payment = row->ytd_payment;
}
VISIT(customer, tpcc_customer)

static void equal(int condition, uint64_t place, int64_t one, int64_t other) {
  if (one != other)
    fail("Consistency condition %d of district %lu: %ld is not %ld.", condition, place, one, other);
}

/** Ends the program with a sentence unless the conditions hold: 1 to 10, and 12. (11 is only of a
 * database that has not been used.) */
static void check_conditions(const struct tpcc *tpcc) {
  memset(&sums, 0, sizeof sums);
  sums.tpcc = tpcc;
  walk(&tpcc->warehouse, warehouse, NULL);
  walk(&tpcc->district, district, NULL);
  walk(&tpcc->history, history, NULL);
  walk(&tpcc->new_order, new_order, NULL);
  walk(&tpcc->line, line, NULL);
  walk(&tpcc->order, order, NULL);
  walk(&tpcc->customer, customer, NULL);
  for (uint64_t number = 0; number < tpcc->warehouses; number++) {
    int64_t of_districts = 0, paid = 0;
    for (uint64_t place = number * TPCC_DISTRICTS; place < (number + 1) * TPCC_DISTRICTS; place++) {
      of_districts += sums.district_ytd[place];
      paid += sums.paid[place];
      equal(2, place, (int64_t)sums.next_order[place] - 1, (int64_t)sums.last_order[place]);
      if (sums.new_orders[place]) {
        equal(2, place, (int64_t)sums.last_order[place], (int64_t)sums.last_new[place]);
        equal(3, place, (int64_t)(sums.last_new[place] - sums.first_new[place] + 1),
              (int64_t)sums.new_orders[place]);
      }
      equal(4, place, (int64_t)sums.promised[place], (int64_t)sums.lines[place]);
      equal(9, place, sums.district_ytd[place], sums.paid[place]);
      for (uint64_t customer = 0; customer < tpcc->customers; customer++) {
        int64_t delivered = sums.customers[place][customer].delivered;
        int64_t balance = sums.customers[place][customer].balance;
        equal(10, place, balance, delivered - sums.customers[place][customer].paid);
        equal(12, place, balance + sums.customers[place][customer].ytd_payment, delivered);
      }
    }
    equal(1, number, sums.warehouse_ytd[number], of_districts);
    equal(8, number, sums.warehouse_ytd[number], paid);
  }
}

#endif
