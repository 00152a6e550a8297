/**
 * TPC-C's consistency conditions (clause 3.3.2 of the specification), for a database without
 * transactions in progress.
 *
 *     tpcc_check(&tpcc);
 *
 * ends the program with a sentence that names the condition, the warehouse and the district unless
 * conditions 1 to 10 and 12 hold. (11 is only of a database that has not been used.) It walks each
 * table once; items and stock, of which no condition is, are left out.
 */
#ifndef TPCC_CONDITIONS_H
#define TPCC_CONDITIONS_H

#include <stdlib.h>
#include <tpcc.h>

/** The rows of an order in all tables. */
struct tpcc_check_order {
  uint32_t customer, carrier, promised, lines;
  uint32_t is_there, is_new;
};

struct tpcc_check_customer {
  int64_t balance, ytd_payment, paid, delivered;
};

/** A district, and the position of its orders among all. */
struct tpcc_check_place {
  int64_t ytd, paid;
  uint64_t next_order, last_order, first_new, last_new, new_orders, promised, lines;
  struct tpcc_check_order *orders; /* From number 1. */
  struct tpcc_check_customer *customers;
};

struct tpcc_check {
  const struct tpcc *tpcc;
  int64_t *warehouse_ytd;
  struct tpcc_check_place *places;
  uint64_t orders; /* Of the whole company, at the end of the check. */
};

static inline uint64_t tpcc_key_word(const struct masstree_record *record, uint64_t at) {
  uint64_t word;
  memcpy(&word, record->bytes + 8 * at, sizeof word);
  return swap64(word);
}

/** Calls `visit` for each record of a layer and the layers below, in the order of their keys. */
static inline void tpcc_walk_layer(struct masstree_node *root,
                                   void (*visit)(const struct masstree_record *record, void *with),
                                   void *with) {
  uint64_t version;
  for (struct masstree_border *border = masstree_descend(root, 0, &version); border;
       border = border->next)
    for (uint64_t key = 0; key < masstree_count(border->permutation); key++) {
      uint64_t place = masstree_place(border->permutation, key);
      if (border->lengths[place] == MASSTREE_LAYER)
        tpcc_walk_layer(border->links[place], visit, with);
      else
        visit(border->links[place], with);
    }
}

/** Calls `visit` for each record of a map. */
static inline void tpcc_walk(const struct masstree *map,
                             void (*visit)(const struct masstree_record *record, void *with),
                             void *with) {
  tpcc_walk_layer(map->root, visit, with);
}

/* The row of a record; null if it is absent. It must not be locked. */
static inline const void *tpcc_check_row(const struct masstree_record *record) {
  const struct silo_row *row = silo_row_of((struct masstree_record *)record);
  if (row->tid & SILO_LOCKED)
    fail("The row with the key %lx %lx is locked, and no transaction is under way.",
         tpcc_key_word(record, 0), record->key_bytes > 8 ? tpcc_key_word(record, 1) : 0);
  return row->tid & SILO_ABSENT ? NULL : row->data;
}

static inline uint64_t tpcc_warehouse_of(uint64_t place) { return place >> 32; }
static inline uint64_t tpcc_district_of(uint64_t place) { return place & 0xffffffff; }

/* The district of a warehouse that a key or a row names. */
static inline struct tpcc_check_place *tpcc_check_place(const struct tpcc_check *check,
                                                        uint64_t place) {
  uint64_t warehouse = tpcc_warehouse_of(place), district = tpcc_district_of(place);
  if (warehouse - 1 >= check->tpcc->warehouses || district - 1 >= TPCC_DISTRICTS)
    fail("A row is of district %lu of warehouse %lu, and there is no such district.", district,
         warehouse);
  return &check->places[(warehouse - 1) * TPCC_DISTRICTS + district - 1];
}

/* An order that a row of another table names, for a condition. */
static inline struct tpcc_check_order *tpcc_check_order(const struct tpcc_check *check,
                                                        uint64_t place, uint64_t number,
                                                        int condition, const char *what) {
  struct tpcc_check_place *of = tpcc_check_place(check, place);
  if (number - 1 >= of->next_order - 1)
    fail("Consistency condition %d of warehouse %lu, district %lu: %s of order %lu is there, and "
         "D_NEXT_O_ID is %lu.",
         condition, tpcc_warehouse_of(place), tpcc_district_of(place), what, number,
         of->next_order);
  return &of->orders[number - 1];
}

#define TPCC_VISIT(name, type)                                                                     \
  static inline void tpcc_visit_##name(const struct masstree_record *record, void *with) {         \
    const struct type *row = tpcc_check_row(record);                                               \
    uint64_t second = record->key_bytes > 8 ? tpcc_key_word(record, 1) : 0;                        \
    if (row != NULL)                                                                               \
      tpcc_row_of_##name(with, row, tpcc_key_word(record, 0), second);                             \
  }

static inline void tpcc_row_of_warehouse(struct tpcc_check *check, const struct tpcc_warehouse *row,
                                         uint64_t number, uint64_t second) {
  (void)second;
  check->warehouse_ytd[number - 1] = row->ytd;
}
TPCC_VISIT(warehouse, tpcc_warehouse)

static inline void tpcc_row_of_district(struct tpcc_check *check, const struct tpcc_district *row,
                                        uint64_t place, uint64_t second) {
  (void)second;
  struct tpcc_check_place *of = tpcc_check_place(check, place);
  of->ytd = row->ytd;
  of->next_order = row->next_order;
  of->orders = calloc(row->next_order, sizeof *of->orders);
  of->customers = calloc(check->tpcc->customers, sizeof *of->customers);
  if (of->orders == NULL || of->customers == NULL)
    fail("There is no memory to check the database: give the server more (server.memory_mib).");
}
TPCC_VISIT(district, tpcc_district)

static inline struct tpcc_check_customer *tpcc_check_customer(const struct tpcc_check *check,
                                                              uint64_t place, uint64_t customer) {
  if (customer - 1 >= check->tpcc->customers)
    fail("A row is of customer %lu of district %lu of warehouse %lu, and there is none.", customer,
         tpcc_district_of(place), tpcc_warehouse_of(place));
  return &tpcc_check_place(check, place)->customers[customer - 1];
}

static inline void tpcc_row_of_history(struct tpcc_check *check, const struct tpcc_history *row,
                                       uint64_t place, uint64_t second) {
  (void)second;
  uint64_t of = tpcc_pair(row->customer_warehouse, row->customer_district);
  tpcc_check_place(check, place)->paid += row->amount;
  tpcc_check_customer(check, of, row->customer)->paid += row->amount;
}
TPCC_VISIT(history, tpcc_history)

static inline void tpcc_row_of_customer(struct tpcc_check *check, const struct tpcc_customer *row,
                                        uint64_t place, uint64_t number) {
  struct tpcc_check_customer *customer = tpcc_check_customer(check, place, number);
  customer->balance = row->balance;
  customer->ytd_payment = row->ytd_payment;
}
TPCC_VISIT(customer, tpcc_customer)

static inline void tpcc_row_of_order(struct tpcc_check *check, const struct tpcc_order *row,
                                     uint64_t place, uint64_t number) {
  struct tpcc_check_order *order = tpcc_check_order(check, place, number, 2, "a row");
  struct tpcc_check_place *of = tpcc_check_place(check, place);
  tpcc_check_customer(check, place, row->customer);
  order->is_there = 1;
  order->customer = row->customer;
  order->carrier = row->carrier;
  order->promised = row->lines;
  of->promised += row->lines;
  of->last_order = number;
  check->orders++;
}
TPCC_VISIT(order, tpcc_order)

/* A row of NEW-ORDER has only its key. */
struct tpcc_nothing {
  uint64_t nothing;
};

static inline void tpcc_row_of_new_order(struct tpcc_check *check, const struct tpcc_nothing *row,
                                         uint64_t place, uint64_t number) {
  (void)row;
  struct tpcc_check_place *of = tpcc_check_place(check, place);
  tpcc_check_order(check, place, number, 2, "a row of NEW-ORDER")->is_new = 1;
  if (of->new_orders++ == 0)
    of->first_new = number;
  of->last_new = number;
}
TPCC_VISIT(new_order, tpcc_nothing)

static inline void tpcc_row_of_line(struct tpcc_check *check, const struct tpcc_line *row,
                                    uint64_t place, uint64_t second) {
  uint64_t number = second >> 32, line = second & 0xffffffff;
  struct tpcc_check_order *order = tpcc_check_order(check, place, number, 6, "a line");
  if (!order->is_there || line != ++order->lines)
    fail("Consistency condition 6 of warehouse %lu, district %lu: line %lu of order %lu is there, "
         "and %s.",
         tpcc_warehouse_of(place), tpcc_district_of(place), line, number,
         order->is_there ? "not the one before" : "not the order");
  if ((row->delivered == 0) != (order->carrier == 0))
    fail("Consistency condition 7 of warehouse %lu, district %lu: OL_DELIVERY_D of line %lu of "
         "order %lu is %lu, and O_CARRIER_ID is %u.",
         tpcc_warehouse_of(place), tpcc_district_of(place), line, number, row->delivered,
         order->carrier);
  tpcc_check_place(check, place)->lines++;
  if (row->delivered)
    tpcc_check_customer(check, place, order->customer)->delivered += row->amount;
}
TPCC_VISIT(line, tpcc_line)

/* Compares two numbers; `one` and `other` name them. District 0: a condition of the warehouse. */
static inline void tpcc_equal(int condition, uint64_t warehouse, uint64_t district, const char *one,
                              int64_t first, const char *other, int64_t second) {
  if (first != second && district)
    fail("Consistency condition %d of warehouse %lu, district %lu: %s, %ld, is not %s, %ld.",
         condition, warehouse, district, one, first, other, second);
  if (first != second)
    fail("Consistency condition %d of warehouse %lu: %s, %ld, is not %s, %ld.", condition,
         warehouse, one, first, other, second);
}

static inline void tpcc_check_orders(const struct tpcc_check_place *of, uint64_t warehouse,
                                     uint64_t district) {
  for (uint64_t number = 1; number < of->next_order; number++) {
    const struct tpcc_check_order *order = &of->orders[number - 1];
    if (order->is_new != (order->is_there && order->carrier == 0))
      fail("Consistency condition 5 of warehouse %lu, district %lu: O_CARRIER_ID of order %lu is "
           "%u, and it has %s row of NEW-ORDER.",
           warehouse, district, number, order->carrier, order->is_new ? "a" : "no");
    if (order->lines != order->promised)
      fail("Consistency condition 6 of warehouse %lu, district %lu: O_OL_CNT of order %lu is %u, "
           "and it has %u lines.",
           warehouse, district, number, order->promised, order->lines);
  }
}

static inline void tpcc_check_customers(const struct tpcc_check *check,
                                        const struct tpcc_check_place *of, uint64_t warehouse,
                                        uint64_t district) {
  for (uint64_t number = 0; number < check->tpcc->customers; number++) {
    const struct tpcc_check_customer *customer = &of->customers[number];
    tpcc_equal(10, warehouse, district, "C_BALANCE of a customer", customer->balance,
               "sum(OL_AMOUNT) - sum(H_AMOUNT)", customer->delivered - customer->paid);
    tpcc_equal(12, warehouse, district, "C_BALANCE + C_YTD_PAYMENT of a customer",
               customer->balance + customer->ytd_payment, "sum(OL_AMOUNT)", customer->delivered);
  }
}

/** Ends the program with an error unless the conditions hold. Returns the number of orders. */
static inline uint64_t tpcc_check(const struct tpcc *tpcc) {
  struct tpcc_check check = {.tpcc = tpcc};
  check.warehouse_ytd = calloc(tpcc->warehouses, sizeof *check.warehouse_ytd);
  check.places = calloc((uint64_t)tpcc->warehouses * TPCC_DISTRICTS, sizeof *check.places);
  if (check.warehouse_ytd == NULL || check.places == NULL)
    fail("There is no memory to check the database: give the server more (server.memory_mib).");
  tpcc_walk(&tpcc->warehouse, tpcc_visit_warehouse, &check);
  tpcc_walk(&tpcc->district, tpcc_visit_district, &check);
  tpcc_walk(&tpcc->history, tpcc_visit_history, &check);
  tpcc_walk(&tpcc->customer, tpcc_visit_customer, &check);
  tpcc_walk(&tpcc->order, tpcc_visit_order, &check);
  tpcc_walk(&tpcc->new_order, tpcc_visit_new_order, &check);
  tpcc_walk(&tpcc->line, tpcc_visit_line, &check);
  for (uint64_t warehouse = 1; warehouse <= tpcc->warehouses; warehouse++) {
    int64_t ytd = check.warehouse_ytd[warehouse - 1], of_districts = 0, paid = 0;
    for (uint64_t district = 1; district <= TPCC_DISTRICTS; district++) {
      const struct tpcc_check_place *of = tpcc_check_place(&check, tpcc_pair(warehouse, district));
      of_districts += of->ytd;
      paid += of->paid;
      tpcc_equal(2, warehouse, district, "D_NEXT_O_ID - 1", (int64_t)of->next_order - 1,
                 "max(O_ID)", (int64_t)of->last_order);
      if (of->new_orders) {
        tpcc_equal(2, warehouse, district, "max(O_ID)", (int64_t)of->last_order, "max(NO_O_ID)",
                   (int64_t)of->last_new);
        tpcc_equal(3, warehouse, district, "max(NO_O_ID) - min(NO_O_ID) + 1",
                   (int64_t)(of->last_new - of->first_new + 1), "the number of rows of NEW-ORDER",
                   (int64_t)of->new_orders);
      }
      tpcc_equal(4, warehouse, district, "sum(O_OL_CNT)", (int64_t)of->promised,
                 "the number of rows of ORDER-LINE", (int64_t)of->lines);
      tpcc_check_orders(of, warehouse, district);
      tpcc_equal(9, warehouse, district, "D_YTD", of->ytd, "sum(H_AMOUNT)", of->paid);
      tpcc_check_customers(&check, of, warehouse, district);
    }
    tpcc_equal(1, warehouse, 0, "W_YTD", ytd, "sum(D_YTD)", of_districts);
    tpcc_equal(8, warehouse, 0, "W_YTD", ytd, "sum(H_AMOUNT)", paid);
  }
  return check.orders;
}

#endif
