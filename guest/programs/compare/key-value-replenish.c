/**
 * The program key-value behind RPCValet's network interface, where a request ends when its reply is
 * in memory, as it does where tenants fetch replies: before the hart sends it.
 */
#define RPCVALET_REPLENISHES_FIRST 1
#include "../key-value.c"
