/**
 * Crypto forwarding: IPv4 packets through ESP, encrypted with AES-256-CBC.
 *
 * HyperPlane (MICRO 2020, Section V-A) encrypts network packets "through AES-CBC-256" and cites
 * RFC 3602, the use of AES-CBC with IPsec. So this is the encryption of IPsec by a bump in the wire
 * (RFC 4301, Section 3.3): an Encapsulating Security Payload (RFC 4303) in transport mode takes the
 * place of the packet's payload, without the integrity check, which the paper does not mention.
 * Each queue's tenant has a security association of its own.
 *
 * The transformed packet consists of its IP header, with the new length, protocol and checksum; the
 * association's index and a sequence number; the initialization vector; and, encrypted, the
 * payload, its padding to whole blocks, the padding's length and the payload's protocol. The vector
 * must not be predictable (RFC 3602): it is the sequence number, encrypted with the same key (SP
 * 800-38A, Appendix C).
 *
 * Packets that are not IPv4, have a wrong header checksum, or are fragments (RFC 4303, Section
 * 3.3.4) are passed on as errors.
 */
#include <aes.h>
#include <data_plane.h>
#include <ipv4.h>

enum {
  ESP_HEADER_BYTES = 8,
  ESP_TRAILER_BYTES = 2, /* The padding's length and the protocol, behind the padding. */
  PROTOCOL_ESP = 50,
  FIRST_INDEX = 256, /* Smaller ones are reserved. */
};

/* The encryption state of a tenant. */
struct association {
  struct aes_256 key;
  uint32_t index; /* In network byte order. */
  uint32_t last_sequence;
} __attribute__((aligned(LINE_BYTES)));

static struct association *associations;

static inline uint32_t *write_block(uint32_t *to, struct aes_block block) {
  *(struct aes_block *)to = block;
  return to + 4;
}

/* The next of a sequence of random numbers: SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t mixed = *state += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

/* There is no peer to negotiate keys with: SplitMix64 generates them, seeded with the queue's
 * number. */
static void make_associations(uint64_t queues) {
  aes_make_tables();
  associations = aligned_alloc(LINE_BYTES, queues * sizeof(struct association));
  for (uint64_t queue = 0; queue < queues; queue++) {
    uint32_t key[AES_256_KEY_BYTES / 4];
    uint64_t state = queue;
    for (int half = 0; half < 4; half++) {
      uint64_t random = next_random(&state);
      key[2 * half] = (uint32_t)random;
      key[2 * half + 1] = (uint32_t)(random >> 32);
    }
    aes_256_expand(&associations[queue].key, key);
    associations[queue].index = swap32(FIRST_INDEX + (uint32_t)queue);
  }
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  const struct ipv4 *header = (const struct ipv4 *)in->packet;
  if (!ipv4_is_packet(in) || ipv4_header_sum(header) != 0xffff || !ipv4_is_whole(header)) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
    return;
  }

  /* Words of 4 bytes, since headers are a multiple of them. */
  struct association *association = &associations[queue];
  uint32_t header_bytes = ipv4_header_bytes(header), payload_bytes = in->length - header_bytes;
  const uint32_t *payload = (const uint32_t *)(in->packet + header_bytes);
  uint32_t *to = (uint32_t *)(out->packet + header_bytes);
  /* Several harts may serve a queue if its items need not stay in order. */
  uint32_t sequence = __atomic_add_fetch(&association->last_sequence, 1, __ATOMIC_RELAXED);
  *to++ = association->index;
  *to++ = swap32(sequence);
  struct aes_block block =
      aes_256_encrypt(&association->key, (struct aes_block){.column = {sequence}});
  to = write_block(to, block);

  uint32_t left = payload_bytes;
  for (; left >= AES_BLOCK_BYTES; left -= AES_BLOCK_BYTES, payload += 4) {
    block = aes_256_cbc(&association->key, block, *(const struct aes_block *)payload);
    to = write_block(to, block);
  }

  /* One more block, or two if the trailer does not fit into it. Padding counts from 1. */
  union {
    struct aes_block blocks[2];
    uint8_t bytes[2 * AES_BLOCK_BYTES];
  } last;
  uint32_t last_blocks = left + ESP_TRAILER_BYTES > AES_BLOCK_BYTES ? 2 : 1;
  uint32_t padding = last_blocks * AES_BLOCK_BYTES - ESP_TRAILER_BYTES - left;
  memcpy(last.bytes, payload, left);
  for (uint32_t pad = 0; pad < padding; pad++)
    last.bytes[left + pad] = (uint8_t)(pad + 1);
  last.bytes[left + padding] = (uint8_t)padding;
  last.bytes[left + padding + 1] = header->protocol;
  for (uint32_t number = 0; number < last_blocks; number++) {
    block = aes_256_cbc(&association->key, block, last.blocks[number]);
    to = write_block(to, block);
  }

  struct ipv4 *outer = (struct ipv4 *)out->packet;
  out->length = (uint32_t)((uint8_t *)to - out->packet);
  memcpy(outer, header, header_bytes);
  outer->total_bytes = swap16((uint16_t)out->length);
  outer->protocol = PROTOCOL_ESP;
  outer->checksum = 0;
  outer->checksum = (uint16_t)~ipv4_header_sum(outer);
}

int main(void) {
  make_associations(io_device()->queues);
  return data_plane();
}
