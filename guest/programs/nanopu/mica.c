/**
 * A key-value store that reads and writes its values word by word between registers and memory.
 *
 * MICA as the nanoPU paper optimises it (Section 5.3, Figure 9). services/store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/store_in_registers.h>

void prepare(void) { store_prepare(); }

static inline void serve(void) { serve_by(&store); }

int main(void) { return service_on_one_hart(); }
