/**
 * The key-value store behind a network interface with descriptor rings: each hart polls its own.
 *
 * Receive-side scaling chooses the hart. See ring_service.h; services/compared_store.h has the
 * parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>

void prepare(void) { compared_prepare_rings(); }

#include <ring_service.h>

int main(void) { return ring_service(); }
