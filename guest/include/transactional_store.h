/**
 * A transactional service in the manner of Silo: TPC-C's transactions over tpcc.h. It is
 * independent of the transport of requests.
 *
 *     void prepare(void) { transactional_store_prepare(); }
 *     ...
 *     uint32_t bytes = transactional_store_handle(request, request_bytes, reply, room);
 *
 * A request is the header of operations.h with the kind of the transaction, the warehouse in
 * `more`, and eight bytes of key, from which the transaction draws its input. A reply has four
 * numbers, the transaction's output. A transaction that rolls itself back, as every hundredth
 * New-Order does, answers OPERATION_NOT_FOUND: it has requested an item that does not exist.
 *
 * data_plane.parameters, or rack.servers.N.parameters:
 *   items      of the company (100,000: clause 1.2.1)
 *   customers  of each district, and orders that it begins with (3000)
 *   spare_mib  MiB that each hart has for rows that are inserted: some 3 KiB for each transaction
 *              of the mix (4)
 *   epoch_us   microseconds between two epochs (40,000, Silo's)
 *   clock_ghz  of the cores, by which they are counted (4)
 */
#ifndef TRANSACTIONAL_STORE_H
#define TRANSACTIONAL_STORE_H

#include <io.h>
#include <operations.h>
#include <runtime.h>
#include <tpcc.h>

static struct tpcc transactional_store;
static struct silo_transaction *transactional_store_transactions; /* One for each hart. */
static volatile uint64_t *transactional_store_aborts;
static uint64_t transactional_store_aborted;

static inline double transactional_store_parameter(const char *name, double otherwise, double least,
                                                   double most) {
  double value = io_parameter(name, otherwise);
  if (!(value >= least && value <= most))
    fail("parameters.%s must be from %ld to %ld.", name, (int64_t)least, (int64_t)most);
  return value;
}

/** Fills the database for the warehouses of the traffic, in prepare(). */
static inline void transactional_store_prepare(void) {
  uint32_t warehouses = (uint32_t)io_parameter("traffic.warehouses", 0);
  if (warehouses == 0)
    fail("This store executes transactions: set traffic.operations.warehouses, such as to 1; in "
         "racks rack.clients.0.load.operations.warehouses.");
  uint32_t items = (uint32_t)transactional_store_parameter("items", 100000, 1, 1000000);
  uint32_t customers = (uint32_t)transactional_store_parameter("customers", 3000, 10, 10000);
  double spare_mib = transactional_store_parameter("spare_mib", 4, 1, 1024);
  double epoch_us = transactional_store_parameter("epoch_us", 40000, 1, 1e9);
  double clock_ghz = transactional_store_parameter("clock_ghz", 4, 1, 1000);
  tpcc_make(&transactional_store, warehouses, items, customers, (uint64_t)(spare_mib * (1 << 20)),
            (uint64_t)(epoch_us * clock_ghz * 1000));
  transactional_store_transactions =
      aligned_alloc(LINE_BYTES, harts * sizeof *transactional_store_transactions);
  transactional_store_aborts = io_counter("aborts");
}

/** Writes the reply to a request, both aligned to 8, and returns its length; 0 if the request is
 * malformed. They may be at the same address. */
static inline uint32_t transactional_store_handle(const void *request_bytes, uint32_t bytes,
                                                  void *reply_bytes, uint32_t room) {
  const struct operation_request *request = request_bytes;
  struct operation_reply *reply = reply_bytes;
  struct tpcc_request asked;
  struct tpcc_output output = {0};
  uint64_t hart, aborts = 0;
  if (bytes != sizeof *request + sizeof asked.seed || request->key_bytes != sizeof asked.seed ||
      request->operation < TPCC_NEW_ORDER || request->operation > TPCC_STOCK_LEVEL ||
      request->more < 1 || request->more > transactional_store.warehouses ||
      room < sizeof *reply + sizeof output)
    return 0;
  __asm__("csrr %0, mhartid" : "=r"(hart));
  asked.kind = request->operation;
  uint32_t number = request->number;
  asked.warehouse = request->more;
  memcpy(&asked.seed, request->key, sizeof asked.seed);
  enum tpcc_status status = tpcc_execute(
      &transactional_store, &transactional_store_transactions[hart], &asked, &output, &aborts);
  if (aborts)
    *transactional_store_aborts =
        __atomic_add_fetch(&transactional_store_aborted, aborts, __ATOMIC_RELAXED);
  reply->status = status == TPCC_COMMITTED     ? OPERATION_DONE
                  : status == TPCC_ROLLED_BACK ? OPERATION_NOT_FOUND
                                               : OPERATION_NO_ROOM;
  reply->operation = (uint8_t)asked.kind;
  reply->count = sizeof output;
  reply->number = number;
  memcpy(reply->data, &output, sizeof output);
  return sizeof *reply + sizeof output;
}

#endif
