/**
 * Harts that concurrently execute TPC-C's transactions, as fast as they can, on few rows; then one
 * that repeats them in serialization order on a second database. Both must give the same answers
 * and the same final state, and TPC-C's conditions must hold.
 *
 *     nanoplane exec guest/tests/transactions.c
 */
#include <runtime.h>
#include <stdint.h>

static uint64_t happened;
#define SILO_HAPPENS(transaction)                                                                  \
  ((transaction)->order = __atomic_add_fetch(&happened, 1, __ATOMIC_SEQ_CST))

#include <stdio.h>
#include <tpcc_conditions.h>

enum {
  HARTS = 4,
  EACH = 60,
  WAREHOUSES = 2,
  ITEMS = 50,
  CUSTOMERS = 20,
  SPARE_BYTES = 4 << 20,
  EPOCH_CYCLES = 20000, /* Many epochs, although there are few transactions. */
};

struct entry {
  struct tpcc_request request;
  struct tpcc_output output;
  uint64_t order, tid;
  int is_committed;
};

static struct tpcc database, replica;
static struct silo_transaction transactions[HARTS];
static struct entry entries[HARTS * EACH];
static const struct entry *by_order[64 * HARTS * EACH];
static uint64_t arrived, aborts[HARTS];

static void meet(uint64_t times) {
  __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < times * HARTS)
    ;
}

static void execute(uint64_t hart) {
  uint64_t state = hart + 100;
  for (uint64_t number = 0; number < EACH; number++) {
    struct entry *entry = &entries[hart * EACH + number];
    uint32_t choice = tpcc_random(&state, 0, 99);
    /* Rare transactions are more frequent than in the standard mix. */
    enum tpcc_kind kind = choice < 40   ? TPCC_NEW_ORDER
                          : choice < 65 ? TPCC_PAYMENT
                          : choice < 75 ? TPCC_ORDER_STATUS
                          : choice < 88 ? TPCC_DELIVERY
                                        : TPCC_STOCK_LEVEL;
    entry->request = (struct tpcc_request){kind, tpcc_random(&state, 1, WAREHOUSES),
                                           operation_mix(state) | (uint64_t)1 << 40};
    enum tpcc_status status = tpcc_execute(&database, &transactions[hart], &entry->request,
                                           &entry->output, &aborts[hart]);
    if (status == TPCC_NO_ROOM)
      fail("Hart %lu has no memory for transaction %lu.", hart, number);
    entry->is_committed = status == TPCC_COMMITTED;
    entry->order = transactions[hart].order;
    entry->tid = transactions[hart].tid;
  }
}

/* Repeats a transaction, and checks the rule for TIDs: larger than all that were read or are
 * overwritten. The replica's rows then get the TIDs of the database's. */
static void repeat(const struct entry *entry) {
  struct silo_transaction *transaction = &transactions[0];
  struct tpcc_output output;
  uint64_t in_vain = 0;
  replica.silo.workers[0].last = 0;
  if (tpcc_execute(&replica, transaction, &entry->request, &output, &in_vain) != TPCC_COMMITTED)
    fail("A transaction of kind %u is not committed when it is repeated.", entry->request.kind);
  for (uint64_t word = 0; word < sizeof output.words / sizeof *output.words; word++)
    if (output.words[word] != entry->output.words[word])
      fail("Number %lu of a transaction of kind %u is %lx, and %lx when it is repeated alone.",
           word, entry->request.kind, entry->output.words[word], output.words[word]);
  if (entry->tid < transaction->tid)
    fail("A transaction of kind %u has TID %lx, and must have %lx at least.", entry->request.kind,
         entry->tid, transaction->tid);
  for (uint64_t at = 0; at < transaction->writes; at++) {
    struct silo_row *row = transaction->write[at].row;
    row->tid = entry->tid | (row->tid & SILO_STATUS);
  }
}

/* Compares a row of the database with the replica's, which must have the same TID. */
static void compare_row(const struct masstree_record *record, void *with) {
  const struct masstree *other = with;
  struct silo_node node;
  const struct silo_row *row = silo_row_of((struct masstree_record *)record);
  struct masstree_key key = {record->bytes, record->key_bytes};
  struct masstree_record *found = silo_locate(other, key, &node);
  if (row->tid == SILO_ABSENT) /* Of a transaction that was aborted. */
    return;
  if (found == NULL || silo_row_of(found)->tid != row->tid ||
      memcmp(silo_row_of(found)->data, row->data, record->value_bytes - sizeof *row) != 0)
    fail("Row %lx %lx has TID %lx, and %lx in the replica.", tpcc_key_word(record, 0),
         record->key_bytes > 8 ? tpcc_key_word(record, 1) : 0, row->tid,
         found ? silo_row_of(found)->tid : 0);
}

static void compare(const struct masstree *one, const struct masstree *other) {
  tpcc_walk(one, compare_row, (void *)other);
  tpcc_walk(other, compare_row, (void *)one);
}

static void finish(void) {
  uint64_t kinds[8] = {0}, all_aborts = 0, committed = 0, epochs = database.silo.epoch;
  uint64_t orders = tpcc_check(&database);
  if (happened >= sizeof by_order / sizeof *by_order)
    fail("%lu transactions began again and again.", happened);
  for (uint64_t at = 0; at < HARTS * EACH; at++)
    if (entries[at].is_committed)
      by_order[entries[at].order] = &entries[at];
  for (uint64_t order = 1; order <= happened; order++)
    if (by_order[order] != NULL) { /* Else it was aborted. */
      repeat(by_order[order]);
      committed++;
      kinds[by_order[order]->request.kind]++;
    }
  compare(&database.warehouse, &replica.warehouse);
  compare(&database.district, &replica.district);
  compare(&database.customer, &replica.customer);
  compare(&database.history, &replica.history);
  compare(&database.new_order, &replica.new_order);
  compare(&database.order, &replica.order);
  compare(&database.customer_order, &replica.customer_order);
  compare(&database.line, &replica.line);
  compare(&database.stock, &replica.stock);
  for (uint64_t hart = 0; hart < HARTS; hart++)
    all_aborts += aborts[hart];
  if (kinds[TPCC_NEW_ORDER] != orders - WAREHOUSES * TPCC_DISTRICTS * CUSTOMERS)
    fail("%lu orders were entered, and there are %lu.", kinds[TPCC_NEW_ORDER], orders);
  for (int kind = TPCC_NEW_ORDER; kind <= TPCC_STOCK_LEVEL; kind++)
    if (kinds[kind] == 0)
      fail("No transaction of kind %d was committed.", kind);
  if (all_aborts < 10 || epochs < 5)
    fail("There were only %lu aborts and %lu epochs: nothing was tried.", all_aborts, epochs);
  printf("%lu transactions are serializable; %lu began again, in %lu epochs.\n", committed,
         all_aborts, epochs);
}

int hart_main(int hart) {
  if (hart < HARTS) {
    execute((uint64_t)hart);
    meet(1);
  }
  return 0;
}

void prepare(void) {
  tpcc_make(&database, WAREHOUSES, ITEMS, CUSTOMERS, SPARE_BYTES, EPOCH_CYCLES);
  tpcc_make(&replica, WAREHOUSES, ITEMS, CUSTOMERS, SPARE_BYTES, ~(uint64_t)0);
}

int main(void) {
  if (harts < HARTS)
    fail("This program needs %d harts.", HARTS);
  tpcc_check(&database);
  harts_release();
  execute(0);
  meet(1);
  finish();
  return 0;
}
