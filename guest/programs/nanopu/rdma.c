/**
 * One-sided operations on the memory of a server, performed by its program: read, write,
 * compare-and-swap, fetch-and-add, and an indirect read.
 *
 * The nanoPU paper's programmable RDMA (Section 5.3, Table 2).
 *
 * | message | words |
 * | --- | --- |
 * | read | two of the load generator, 1, address |
 * | write | two of the load generator, 2, address, value |
 * | compare-and-swap | two of the load generator, 3, address, expected value, new value |
 * | fetch-and-add | two of the load generator, 4, address, addend |
 * | indirect read | two of the load generator, 5, address of the address |
 * | reply | two of the load generator, 6, the value read, or the old value |
 *
 * Addresses are byte offsets from the beginning of the memory, multiples of a word. Initially each
 * word is the address of another one. Harts access a word by atomic instructions.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <operations.h>

enum {
  READ = 1,
  WRITE = 2,
  COMPARE_AND_SWAP = 3,
  FETCH_AND_ADD = 4,
  INDIRECT_READ = 5,
  REPLY = 6,
  MEMORY_WORDS = 400000,
};

static uint64_t memory[MEMORY_WORDS];

void prepare(void) {
  for (uint64_t word = 0; word < MEMORY_WORDS; word++)
    memory[word] = operation_mix(word) % MEMORY_WORDS * sizeof *memory;
}

/* Whether an address is that of a word of the memory. */
static inline int is_address(uint64_t address) {
  return address < sizeof memory && address % sizeof *memory == 0;
}

static inline uint64_t *at(uint64_t address) { return &memory[address / sizeof *memory]; }

static inline void serve(void) {
  struct load_request request;
  if (!request_begin(&request, LOAD_WORDS + 2))
    return;
  uint64_t type = lnic_read(), address = lnic_read();
  uint64_t operands = request.words - (LOAD_WORDS + 2), result, value, expected;
  if (!is_address(address))
    goto refused;
  if (type == READ && operands == 0) {
    result = __atomic_load_n(at(address), __ATOMIC_RELAXED);
  } else if (type == WRITE && operands == 1) {
    value = lnic_read();
    result = __atomic_exchange_n(at(address), value, __ATOMIC_ACQ_REL);
  } else if (type == COMPARE_AND_SWAP && operands == 2) {
    expected = lnic_read();
    value = lnic_read();
    __atomic_compare_exchange_n(at(address), &expected, value, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    result = expected; /* The old value, in both cases. */
  } else if (type == FETCH_AND_ADD && operands == 1) {
    value = lnic_read();
    result = __atomic_fetch_add(at(address), value, __ATOMIC_ACQ_REL);
  } else if (type == INDIRECT_READ && operands == 0) {
    result = __atomic_load_n(at(address), __ATOMIC_RELAXED);
    if (!is_address(result))
      goto refused;
    result = __atomic_load_n(at(result), __ATOMIC_RELAXED);
  } else {
    goto refused;
  }
  request_reply(&request, 2);
  lnic_write_i(REPLY);
  lnic_write_r(result);
  return;

refused:
  refuse(request.header, LOAD_WORDS + 2);
}

int main(void) { return service_on_all_harts(); }
