/**
 * Request dispatching: identifies the type of a request, and prepares a call to a server.
 *
 * The mid-tier of a service (as in Sriraman and Wenisch, "uSuite", IISWC 2018) receives requests
 * and calls servers of the tiers behind it. Requests and calls are in MessagePack-RPC:
 *
 *     request    [0, number, method, [key, ...]]
 *     call       [0, number, "tier.method", [server, queue, [key, ...]]]
 *
 * The method is looked up in a hash table, and determines the tier. The key, a text or binary,
 * determines which of the tier's 16 servers has the data: its hash (FNV-1a, both halves) is the
 * server's number. The queue is that of the tenant who receives the answer. A request is checked to
 * its last byte before it is forwarded: anything other than one well-formed request with a known
 * method and a key is passed on as an error.
 */
#include <byte_order.h>
#include <data_plane.h>

enum {
  SERVERS = 16, /* Of a tier; a power of two. */

  NAME_BYTES = 8, /* The longest method. */
  TEXT_WORDS = 2, /* The longest "tier.method". */
  METHOD_SLOT_BITS = 5,
  METHOD_SLOTS = 1 << METHOD_SLOT_BITS,

  /* First bytes of the MessagePack objects in a call. */
  FIXED_ARRAY = 0x90,
  FIXED_TEXT = 0xa0,
  UNSIGNED_16 = 0xcd,
  UNSIGNED_32 = 0xce,
};

enum kind { NOTHING, INTEGER, NEGATIVE, SIGNED, TEXT, BINARY, ARRAY, MAP, OTHER };

/* The meaning of an object's first byte: the object's length is a number of `length_bytes` bytes
 * behind it, plus `length`. */
struct form {
  uint8_t kind;
  uint8_t length_bytes;
  uint8_t length;
};

static struct form forms[256];

static void make_form(int first, int last, enum kind kind, int length_bytes, int length) {
  for (int byte = first; byte <= last; byte++)
    forms[byte] = (struct form){(uint8_t)kind, (uint8_t)length_bytes, (uint8_t)length};
}

/* The MessagePack specification, "Formats". 0xc1 is never used. */
static void make_forms(void) {
  make_form(0x00, 0x7f, INTEGER, 0, 0);
  for (int length = 0; length < 16; length++) {
    make_form(0x80 + length, 0x80 + length, MAP, 0, length);
    make_form(0x90 + length, 0x90 + length, ARRAY, 0, length);
  }
  for (int length = 0; length < 32; length++)
    make_form(0xa0 + length, 0xa0 + length, TEXT, 0, length);
  make_form(0xc0, 0xc0, OTHER, 0, 0); /* Nil. */
  make_form(0xc2, 0xc3, OTHER, 0, 0); /* False and true. */
  for (int size = 0; size < 3; size++) {
    make_form(0xc4 + size, 0xc4 + size, BINARY, 1 << size, 0);
    make_form(0xc7 + size, 0xc7 + size, OTHER, 1 << size, 1); /* Extensions: a byte for the type. */
    make_form(0xd9 + size, 0xd9 + size, TEXT, 1 << size, 0);
  }
  make_form(0xca, 0xca, OTHER, 0, 4); /* Floating point. */
  make_form(0xcb, 0xcb, OTHER, 0, 8);
  for (int size = 0; size < 4; size++) {
    make_form(0xcc + size, 0xcc + size, INTEGER, 0, 1 << size);
    make_form(0xd0 + size, 0xd0 + size, SIGNED, 0, 1 << size);
  }
  for (int size = 0; size < 5; size++)
    make_form(0xd4 + size, 0xd4 + size, OTHER, 0, 1 + (1 << size)); /* Extensions. */
  for (int size = 0; size < 2; size++) {
    make_form(0xdc + size, 0xdc + size, ARRAY, 2 << size, 0);
    make_form(0xde + size, 0xde + size, MAP, 2 << size, 0);
  }
  make_form(0xe0, 0xff, NEGATIVE, 0, 0);
}

struct method {
  uint64_t name; /* Padded with zeros. */
  uint64_t name_bytes;
  uint64_t head; /* The first eight bytes of a call, without its number. */
  uint64_t text[TEXT_WORDS];
  uint64_t text_bytes;
} __attribute__((aligned(LINE_BYTES)));

/* A hash table with open addressing; half of it is empty. */
static struct method methods[METHOD_SLOTS];

static inline uint64_t method_slot(uint64_t name) {
  return name * 0x9e3779b97f4a7c15 >> (64 - METHOD_SLOT_BITS);
}

static uint64_t append(uint64_t *text, uint64_t bytes, const char *more) {
  size_t length = strlen(more);
  memcpy((uint8_t *)text + bytes, more, length);
  return bytes + length;
}

static void add_method(const char *tier, const char *name) {
  struct method method = {0};
  method.name_bytes = append(&method.name, 0, name);
  method.text_bytes = append(method.text, 0, tier);
  method.text_bytes = append(method.text, method.text_bytes, ".");
  method.text_bytes = append(method.text, method.text_bytes, name);
  method.head =
      (FIXED_ARRAY | 4) | UNSIGNED_32 << 16 | (uint64_t)(FIXED_TEXT | method.text_bytes) << 56;
  uint64_t slot = method_slot(method.name);
  while (methods[slot].name_bytes != 0)
    slot = (slot + 1) % METHOD_SLOTS;
  methods[slot] = method;
}

static void make_methods(void) {
  static const struct {
    const char *tier;
    const char *names[4];
  } tiers[] = {
      {"store", {"get", "set", "delete", "scan"}},
      {"index", {"search", "suggest", "index", "rank"}},
      {"users", {"login", "logout", "profile", "friends"}},
      {"feeds", {"post", "feed", "like", "follow"}},
  };
  for (size_t tier = 0; tier < sizeof tiers / sizeof *tiers; tier++)
    for (size_t name = 0; name < 4; name++)
      add_method(tiers[tier].tier, tiers[tier].names[name]);
}

/* NULL if there is no such method. */
static inline const struct method *find_method(const uint8_t *text, uint64_t bytes) {
  uint64_t name = 0;
  if (bytes > NAME_BYTES)
    return NULL;
  for (uint64_t byte = 0; byte < bytes; byte++)
    name |= (uint64_t)text[byte] << 8 * byte;
  for (uint64_t slot = method_slot(name);; slot = (slot + 1) % METHOD_SLOTS) {
    const struct method *method = &methods[slot];
    if (method->name_bytes == 0)
      return NULL;
    if (method->name == name && method->name_bytes == bytes)
      return method;
  }
}

/* The unread part of a request. */
struct reader {
  const uint8_t *at;
  const uint8_t *end;
};

struct object {
  enum kind kind;
  uint64_t length; /* Number of elements of an array or map, otherwise of bytes. */
  const uint8_t *bytes;
};

static inline uint64_t big_endian(const uint8_t *at, uint64_t bytes) {
  uint64_t value = 0;
  for (uint64_t byte = 0; byte < bytes; byte++)
    value = value << 8 | at[byte];
  return value;
}

/* The next object; the reader advances past it, or into it if it is an array or map. Its kind is
 * NOTHING if there is none, or it is incomplete. */
static inline struct object next_object(struct reader *reader) {
  const struct object nothing = {NOTHING, 0, NULL};
  if (reader->at == reader->end)
    return nothing;
  struct form form = forms[*reader->at++];
  uint64_t left = (uint64_t)(reader->end - reader->at);
  if (form.length_bytes > left)
    return nothing;
  uint64_t length = big_endian(reader->at, form.length_bytes) + form.length;
  reader->at += form.length_bytes;
  struct object object = {(enum kind)form.kind, length, reader->at};
  if (form.kind == ARRAY || form.kind == MAP)
    return object;
  if (length > left - form.length_bytes)
    return nothing;
  reader->at += length;
  return object;
}

/* An integer from 0 to 2^32 - 1, or -1. */
static inline int64_t unsigned32(struct object object) {
  if (object.kind != INTEGER && object.kind != SIGNED)
    return -1;
  if (object.length == 0)
    return object.bytes[-1]; /* The first byte is the number. */
  if (object.kind == SIGNED && object.bytes[0] >> 7)
    return -1;
  uint64_t value = big_endian(object.bytes, object.length);
  return value >> 32 ? -1 : (int64_t)value;
}

/* Skips this many objects, including nested ones. */
static inline int skip(struct reader *reader, uint64_t objects) {
  for (; objects > 0; objects--) {
    struct object object = next_object(reader);
    if (object.kind == NOTHING)
      return 0;
    if (object.kind == ARRAY)
      objects += object.length;
    if (object.kind == MAP)
      objects += 2 * object.length;
  }
  return 1;
}

/* The number of the server that has a key's data. */
static inline uint64_t server_of(struct object key) {
  uint64_t hash = 0xcbf29ce484222325; /* FNV-1a (Fowler, Noll and Vo). */
  for (uint64_t byte = 0; byte < key.length; byte++)
    hash = (hash ^ key.bytes[byte]) * 0x100000001b3;
  return (hash ^ hash >> 32) % SERVERS;
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  struct reader reader = {in->packet, in->packet + in->length};
  out->length = 0;
  out->flags = IO_FLAG_ERROR; /* The tenant counts it. */

  struct object request = next_object(&reader);
  if (request.kind != ARRAY || request.length != 4)
    return;
  int64_t type = unsigned32(next_object(&reader));
  int64_t number = unsigned32(next_object(&reader));
  struct object name = next_object(&reader);
  if (type != 0 || number < 0 || name.kind != TEXT)
    return;
  const struct method *method = find_method(name.bytes, name.length);
  const uint8_t *parameters = reader.at;
  struct object list = next_object(&reader);
  if (method == NULL || list.kind != ARRAY || list.length == 0)
    return;
  struct object key = next_object(&reader);
  if (key.kind != TEXT && key.kind != BINARY)
    return;
  if (!skip(&reader, list.length - 1) || reader.at != reader.end)
    return;

  /* The method's text begins at an aligned word. */
  uint64_t *words = (uint64_t *)out->packet;
  words[0] = method->head | (uint64_t)swap32((uint32_t)number) << 24;
  words[1] = method->text[0];
  words[2] = method->text[1];
  uint8_t *to = out->packet + sizeof(uint64_t) + method->text_bytes;
  *to++ = FIXED_ARRAY | 3;
  *to++ = (uint8_t)server_of(key);
  *to++ = UNSIGNED_16;
  *to++ = (uint8_t)(queue >> 8);
  *to++ = (uint8_t)queue;
  size_t parameter_bytes = (size_t)(reader.end - parameters);
  memcpy(to, parameters, parameter_bytes);
  out->length = (uint32_t)(to - out->packet + parameter_bytes);
  out->flags = 0;
}

int main(void) {
  io_device()->items = IO_ITEMS_REQUESTS;
  make_forms();
  make_methods();
  return data_plane();
}
