/**
 * The game of Othello: positions as sets of squares, a bit for each; square 0 is the lowest bit,
 * and eight squares make a row.
 */
#ifndef NANOPU_OTHELLO_H
#define NANOPU_OTHELLO_H

#include <stdint.h>

enum { OTHELLO_SQUARES = 64 };

/** A position, from the view of the player to move. */
struct othello_position {
  uint64_t own, other;
};

/* One step in one of eight directions; discs do not wrap around the edge of a row. */
static inline uint64_t othello_step(uint64_t squares, int direction) {
  static const uint64_t all = ~(uint64_t)0, not_first = 0xfefefefefefefefe,
                        not_last = 0x7f7f7f7f7f7f7f7f;
  static const struct {
    int8_t shift;
    uint64_t from; /* Squares that have a next one in this direction. */
  } steps[8] = {{1, not_last}, {-1, not_first}, {8, all},       {-8, all},
                {9, not_last}, {-9, not_first}, {7, not_first}, {-7, not_last}};
  squares &= steps[direction].from;
  int shift = steps[direction].shift;
  return shift > 0 ? squares << shift : squares >> -shift;
}

/** The legal moves. */
static inline uint64_t othello_moves(struct othello_position position) {
  uint64_t empty = ~(position.own | position.other), moves = 0;
#pragma GCC unroll 8 /* So that steps are constants. */
  for (int direction = 0; direction < 8; direction++) {
    uint64_t line = othello_step(position.own, direction) & position.other;
    for (int length = 1; length < 6; length++)
      line |= othello_step(line, direction) & position.other;
    moves |= othello_step(line, direction) & empty;
  }
  return moves;
}

/** The position after a move to a square, from the other player's view. */
static inline struct othello_position othello_after(struct othello_position position, int square) {
  uint64_t disc = (uint64_t)1 << square, turned = 0;
#pragma GCC unroll 8 /* So that steps are constants. */
  for (int direction = 0; direction < 8; direction++) {
    uint64_t line = 0, next = othello_step(disc, direction);
    while (next & position.other) {
      line |= next;
      next = othello_step(next, direction);
    }
    if (next & position.own)
      turned |= line;
  }
  return (struct othello_position){position.other & ~turned, position.own | disc | turned};
}

/** The other player's view, for a player who must pass. */
static inline struct othello_position othello_pass(struct othello_position position) {
  return (struct othello_position){position.other, position.own};
}

/* Adds up the bits in groups of two, four and eight, and the groups by a multiplication: these
 * cores do not have Zbb's instruction for it. */
static inline int othello_count(uint64_t squares) {
  squares -= squares >> 1 & 0x5555555555555555;
  squares = (squares & 0x3333333333333333) + (squares >> 2 & 0x3333333333333333);
  squares = (squares + (squares >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return (int)(squares * 0x0101010101010101 >> 56);
}

/** The number of discs that one has more than the other player. */
static inline int64_t othello_value(struct othello_position position) {
  return othello_count(position.own) - othello_count(position.other);
}

#endif
