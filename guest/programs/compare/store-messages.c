/**
 * The key-value store behind RPCValet's network interface, which assigns messages to harts.
 *
 * services/compared_store.h has the parameter value_bytes, and services/store.h the messages.
 */
#include <services/compared_messages.h>

static inline struct sonuma_message compared_receive(struct sonuma_endpoint *endpoint) {
  return sonuma_receive(endpoint);
}
