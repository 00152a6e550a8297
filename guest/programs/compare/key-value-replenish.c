/**
 * The program key-value behind RPCValet's network interface, where a request is complete when its
 * reply is in memory, as with tenants that fetch replies: before the hart sends it.
 */
#define RPCVALET_REPLENISHES_FIRST 1
#include "../key-value.c"
