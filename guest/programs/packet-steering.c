/**
 * Packet steering: a load balancer that sends all packets of a session to the same server.
 *
 * Each queue's tenant has a service with 16 servers. A new session (addresses, ports and protocol
 * of TCP or UDP) is assigned to the next server in round-robin order, and a hash table stores the
 * assignment (as in Linux's IPVS with its scheduler "rr"). The packet is forwarded as by a router
 * with network address translation: to the server's address, with a hop limit reduced by one, and
 * with incrementally updated checksums (RFC 1624).
 *
 * The table has 256 buckets of one cache line. A bucket has four sessions in order of their latest
 * packet, most recent first; a fifth replaces the last one. So a tenant has up to 1024 sessions in
 * 16 KiB, and 1000 tenants have a million, as many as one load balancer of a data center keeps. The
 * generator's packets belong to 128 sessions, an eighth of the table.
 *
 * Packets that are not IPv4, have a wrong header checksum, are fragments, lack a complete header of
 * TCP or UDP, or have no hops left are passed on as errors.
 */
#include <data_plane.h>
#include <ipv4.h>

enum {
  BUCKET_BITS = 8,
  BUCKET_SESSIONS = 4,
  SERVERS = 16, /* Of a tenant; a power of two. */

  TCP_HEADER_BYTES = 20,
  TCP_CHECKSUM = 16,
  UDP_HEADER_BYTES = 8,
  UDP_CHECKSUM = 6,
};

/* A session's key is both words without the server; an entry is empty while both are 0. */
struct session {
  uint64_t addresses;
  uint64_t rest : 40; /* Ports and protocol, which is not 0. */
  uint64_t server : 24;
};

struct bucket {
  struct session sessions[BUCKET_SESSIONS];
};
_Static_assert(sizeof(struct bucket) == LINE_BYTES, "a bucket is a cache line");

/* The state of a tenant's service. */
struct service {
  struct bucket *buckets;
  uint64_t sessions; /* The number of sessions so far. */
  uint32_t servers;  /* The address of the first; the others follow. */
  uint32_t is_locked;
} __attribute__((aligned(LINE_BYTES)));

static struct service *services;
static int services_are_shared; /* Whether several harts may serve a queue at once. */

static inline void lock(struct service *service) {
  while (__atomic_exchange_n(&service->is_locked, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(&service->is_locked, __ATOMIC_RELAXED))
      ;
}

static inline void unlock(struct service *service) {
  __atomic_store_n(&service->is_locked, 0, __ATOMIC_RELEASE);
}

/* The servers of queue q are 16 addresses of 172.16.0.0/12 (RFC 1918), from 16 q on. */
static void make_services(uint64_t queues) {
  uint64_t bytes = sizeof(struct bucket) << BUCKET_BITS;
  services = aligned_alloc(LINE_BYTES, queues * sizeof(struct service));
  for (uint64_t queue = 0; queue < queues; queue++) {
    services[queue].buckets = aligned_alloc(LINE_BYTES, bytes);
    services[queue].servers = 0xac100000 + SERVERS * (uint32_t)queue;
  }
}

/* The number of a session's server; moves the session to the front of its bucket. */
static inline uint32_t affinity(struct service *service, uint64_t addresses, uint64_t rest) {
  uint64_t hash = ipv4_flow_hash(addresses, rest);
  struct session *sessions = service->buckets[hash >> (64 - BUCKET_BITS)].sessions;
  struct session found = sessions[0];
  if (found.addresses == addresses && found.rest == rest)
    return (uint32_t)found.server;
  int place = 1;
  while (place < BUCKET_SESSIONS &&
         !(sessions[place].addresses == addresses && sessions[place].rest == rest))
    place++;
  if (place < BUCKET_SESSIONS) {
    found = sessions[place];
  } else {
    place = BUCKET_SESSIONS - 1;
    found = (struct session){addresses, rest, service->sessions++ % SERVERS};
  }
  for (; place > 0; place--)
    sessions[place] = sessions[place - 1];
  sessions[0] = found;
  return (uint32_t)found.server;
}

/* Updates a checksum after a change of words that it covers: RFC 1624, equation 3. The sums of the
 * old and new words are the same in both byte orders. */
static inline uint16_t changed_checksum(uint16_t checksum, uint64_t before, uint64_t after) {
  return (uint16_t)~ipv4_fold((uint64_t)(uint16_t)~checksum + (uint16_t)~ipv4_fold(before) +
                              ipv4_fold(after));
}

/* The offset of the checksum in the header of TCP or UDP; 0 if that header is incomplete. */
static inline uint32_t checksum_offset(const struct ipv4 *header, uint32_t bytes) {
  if (header->protocol == PROTOCOL_UDP && bytes >= UDP_HEADER_BYTES)
    return UDP_CHECKSUM;
  if (header->protocol == PROTOCOL_TCP && bytes >= TCP_HEADER_BYTES)
    return TCP_CHECKSUM;
  return 0;
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  const struct ipv4 *header = (const struct ipv4 *)in->packet;
  uint32_t header_bytes = ipv4_header_bytes(header);
  uint32_t checksum_at = 0;
  if (ipv4_is_packet(in) && ipv4_header_sum(header) == 0xffff && ipv4_is_whole(header) &&
      header->time_to_live > 1)
    checksum_at = checksum_offset(header, in->length - header_bytes);
  if (checksum_at == 0) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
    return;
  }

  struct service *service = &services[queue];
  uint64_t addresses = (uint64_t)header->source << 32 | header->destination;
  uint64_t rest = ipv4_flow_rest(header, header_bytes, in->length);
  if (services_are_shared)
    lock(service);
  uint32_t server = affinity(service, addresses, rest);
  if (services_are_shared)
    unlock(service);

  memcpy(out->packet, in->packet, in->length);
  out->length = in->length;
  struct ipv4 *sent = (struct ipv4 *)out->packet;
  sent->destination = swap32(service->servers + server);
  sent->time_to_live--;
  sent->checksum = 0;
  sent->checksum = (uint16_t)~ipv4_header_sum(sent);

  /* The transport's checksum covers the addresses. UDP may have none, which is 0. */
  uint16_t *checksum = (uint16_t *)(out->packet + header_bytes + checksum_at);
  if (header->protocol == PROTOCOL_TCP || *checksum != 0) {
    *checksum = changed_checksum(*checksum, header->destination, sent->destination);
    if (header->protocol == PROTOCOL_UDP && *checksum == 0)
      *checksum = 0xffff;
  }
}

int main(void) {
  io_device()->items = IO_ITEMS_SESSIONS;
  services_are_shared = !io_device()->in_order;
  make_services(io_device()->queues);
  return data_plane();
}
