/** Comes before a program that client.h is beside: its own main() and hart_main() get other names.
 */
#include <runtime.h>
#define main service_main
#define hart_main service_hart_main
