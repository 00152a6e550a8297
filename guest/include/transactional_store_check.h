/**
 * The check of a program over transactional_store.h when the run is over and all requests are
 * answered. Must be included after main(), so that it does not move code that serves.
 */
#ifndef TRANSACTIONAL_STORE_CHECK_H
#define TRANSACTIONAL_STORE_CHECK_H

#include <runtime.h>
#include <stdio.h>
#include <tpcc_conditions.h>
#include <transactional_store.h>

int check_after_run(void) {
  uint64_t orders = tpcc_check(&transactional_store);
  printf("TPC-C's consistency conditions 1 to 10 and 12 hold: %u warehouses, %lu orders.\n",
         transactional_store.warehouses, orders);
  return 0;
}

#endif
