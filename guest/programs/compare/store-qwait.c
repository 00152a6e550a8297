/**
 * The key-value store behind a network interface with descriptor rings, and HyperPlane: any hart
 * takes the next frame of any queue, and halts while there is none.
 *
 * See ring_service_qwait.h; services/compared_store.h has the parameters, and services/store.h the
 * messages.
 */
#include <services/compared_rings.h>

void prepare(void) { compared_prepare_shared_rings(); }

#include <ring_service_qwait.h>

int main(void) { return ring_service(); }
