/**
 * Searches the game tree of Othello, distributed over servers: each message is a position to
 * evaluate.
 *
 * The nanoPU paper's Othello player (Table 1), a map and a reduce.
 *
 * - A configuration is 2, and what peers.h says; the reply is 2.
 * - A map is 0, the discs of the player to move, the discs of the other, the number of moves to
 *   look ahead, the address of its parent, the parent's number there, and a time.
 * - A reduce is 1, the address of the parent, the parent's number, the value, and the map's time.
 *
 * The value of a position is for the player to move: at the last level, the difference of the
 * numbers of discs; above, the best value of all moves, i.e. the worst one for the other player.
 *
 * A map of one move sends its reduce at once. One of more moves becomes maps of the positions after
 * each first move, which are distributed over all servers round-robin; when their reduces have
 * arrived, it sends its own. A server stores a limited number of such waiting positions; beyond
 * that it searches all moves itself, with the same result.
 */
#include <lnic.h>
#include <nanopu/othello.h>
#include <nanopu/peers.h>
#include <nanopu/service.h>

enum {
  MAP = 0,
  REDUCE = 1,
  CONFIGURATION = 2,
  MAP_WORDS = 7,
  REDUCE_WORDS = 5,
  MAX_WAITING = 1024,
  MAX_MOVES = 60, /* Of a game, without passes. */
};

static struct peers peers;
static uint64_t next_peer;

/* A position whose children are being evaluated; its number is its index here. */
static struct waiting {
  uint64_t where, number, time; /* Of its parent, and the time in the map. */
  int64_t best;                 /* So far. */
  uint64_t children;            /* Number of outstanding reduces. 0: the entry is free ... */
  uint64_t next_free;           /* ... and this is the next free one, plus 1. */
} waiting[MAX_WAITING];

static uint64_t first_free; /* Index plus 1; 0: none. */

void prepare(void) {
  for (uint64_t number = MAX_WAITING; number > 0; number--) {
    waiting[number - 1].next_free = first_free;
    first_free = number;
  }
}

/* The value of a position after a search of this depth. */
static int64_t search(struct othello_position position, uint64_t ahead) {
  if (ahead == 0)
    return othello_value(position);
  uint64_t moves = othello_moves(position);
  if (moves == 0) {
    struct othello_position passed = othello_pass(position);
    return othello_moves(passed) == 0 ? othello_value(position) : -search(passed, ahead - 1);
  }
  int64_t best = -OTHELLO_SQUARES;
  for (int square = 0; square < OTHELLO_SQUARES; square++) {
    if (moves >> square & 1) {
      int64_t value = -search(othello_after(position, square), ahead - 1);
      best = value > best ? value : best;
    }
  }
  return best;
}

static void send_reduce(uint64_t where, uint64_t number, int64_t value, uint64_t time) {
  lnic_write_r(header_to(where, REDUCE_WORDS));
  lnic_write_i(REDUCE);
  lnic_write_r(where);
  lnic_write_r(number);
  lnic_write_r((uint64_t)value);
  lnic_write_r(time);
}

static void send_map(struct othello_position position, uint64_t ahead, uint64_t number,
                     uint64_t time) {
  next_peer = next_peer + 1 < peers.count ? next_peer + 1 : 0;
  lnic_write_r(header_to(peers.where[next_peer], MAP_WORDS));
  lnic_write_i(MAP);
  lnic_write_r(position.own);
  lnic_write_r(position.other);
  lnic_write_r(ahead);
  lnic_write_r(peers.where[peers.self]);
  lnic_write_r(number);
  lnic_write_r(time);
}

/* Evaluates a position; if it must wait for its children's reduces, stores it. */
static void map(struct othello_position position, uint64_t ahead, uint64_t where, uint64_t number,
                uint64_t time) {
  uint64_t moves = ahead > 1 ? othello_moves(position) : 0;
  struct othello_position passed = othello_pass(position);
  int is_passed = ahead > 1 && moves == 0 && othello_moves(passed) != 0;
  if ((moves == 0 && !is_passed) || first_free == 0) {
    send_reduce(where, number, search(position, ahead), time);
    return;
  }
  uint64_t own_number = first_free - 1;
  struct waiting *own = &waiting[own_number];
  first_free = own->next_free;
  *own = (struct waiting){where, number, time, -OTHELLO_SQUARES, 0, 0};
  if (is_passed) {
    own->children = 1;
    send_map(passed, ahead - 1, own_number, time);
  }
  for (int square = 0; square < OTHELLO_SQUARES; square++) {
    if (moves >> square & 1) {
      own->children++;
      send_map(othello_after(position, square), ahead - 1, own_number, time);
    }
  }
}

static void reduce(uint64_t number, int64_t value) {
  struct waiting *own = &waiting[number];
  if (-value > own->best)
    own->best = -value;
  if (--own->children == 0) {
    send_reduce(own->where, own->number, own->best, own->time);
    own->next_free = first_free;
    first_free = number + 1;
  }
}

static inline void serve(void) {
  uint64_t words[2 + PEERS_MOST];
  uint64_t header = lnic_read();
  uint64_t count = message_words(header);
  if (count < 2) {
    refuse(header, 0);
    return;
  }
  uint64_t type = lnic_read();
  if (type == MAP && count == MAP_WORDS && peers.count != 0) {
    struct othello_position position;
    position.own = lnic_read();
    position.other = lnic_read();
    uint64_t ahead = lnic_read(), where = lnic_read() & (IP_MASK | CONTEXT_MASK);
    uint64_t number = lnic_read(), time = lnic_read();
    if ((position.own & position.other) == 0 && ahead > 0 && ahead <= MAX_MOVES)
      map(position, ahead, where, number, time);
    else
      refuse(header, MAP_WORDS);
  } else if (type == REDUCE && count == REDUCE_WORDS) {
    lnic_read(); /* The address, which is this server's. */
    uint64_t number = lnic_read();
    int64_t value = (int64_t)lnic_read();
    lnic_read(); /* The time, which is known. */
    if (number < MAX_WAITING && waiting[number].children != 0 && value >= -OTHELLO_SQUARES &&
        value <= OTHELLO_SQUARES)
      reduce(number, value);
    else
      refuse(header, REDUCE_WORDS);
  } else if (type == CONFIGURATION && count - 1 <= sizeof words / sizeof *words) {
    for (uint64_t word = 0; word < count - 1; word++)
      words[word] = lnic_read();
    if (peers_configure(&peers, words, count - 1)) {
      next_peer = peers.self;
      lnic_write_r(header_to(header, 1));
      lnic_write_i(CONFIGURATION);
    } else {
      refuse(header, count);
    }
  } else {
    refuse(header, 1);
  }
}

int main(void) { return service_on_one_hart(); }
