"""Requests that need construction: headers that match a rule, and positions of a game."""

import functools
import operator
from random import Random

WORD = 2**64 - 1


def mix(number: int) -> int:
    """Return one step of SplitMix64, which also generates the guest programs' data."""
    mixed = (number + 0x9E3779B97F4A7C15) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return mixed ^ mixed >> 31


RULES = 100_000
_PREFIX_BITS = (32,) * 8 + (28,) * 4 + (24,) * 2 + (16, 8)
_POOL = 8192


def header_for_rule(rule: int, random: Random) -> list[int]:
    """Return a header's words that a rule of `classifier.c` matches; an earlier rule may, too.

    The words are addresses, ports, and the protocol.
    """
    sides, ports = mix(4 * rule), mix(4 * rule + 1)
    addresses = []
    for side, nibble, pool in ((1, sides & 15, sides >> 8), (2, sides >> 4 & 15, sides >> 32)):
        free = (1 << 32 - _PREFIX_BITS[nibble]) - 1
        prefix = mix(pool % _POOL + (side << 32)) & 0xFFFFFFFF
        addresses.append(prefix & ~free | random.getrandbits(32) & free)
    source, destination = (0, 0xFFFF), (0, 0xFFFF)
    match ports >> 2 & 7:
        case 0:
            pass
        case 1:
            source = destination = (1024, 0xFFFF)
        case 2:
            first = ports >> 16 & 0xFF00
            destination = (first, first + (ports >> 32 & 0xFF))
        case _:
            destination = (ports >> 16 & 63,) * 2
    protocol = (6, 6, 17, 0)[ports & 3] or random.choice((1, 6, 17))
    return [
        addresses[0] << 32 | addresses[1],
        random.randint(*source) << 32 | random.randint(*destination),
        protocol << 32,
    ]


@functools.cache
def headers(count: int) -> tuple[tuple[int, ...], ...]:
    """Return headers, each made for a rule; all rules are equally likely."""
    random = Random(1)
    return tuple(tuple(header_for_rule(random.randrange(RULES), random)) for _ in range(count))


_NOT_FIRST, _NOT_LAST = 0xFEFEFEFEFEFEFEFE, 0x7F7F7F7F7F7F7F7F
_STEPS = [
    *((1, _NOT_LAST), (-1, _NOT_FIRST), (8, WORD), (-8, WORD)),
    *((9, _NOT_LAST), (-9, _NOT_FIRST), (7, _NOT_FIRST), (-7, _NOT_LAST)),
]
"""Othello's directions: the shift in squares, and the mask of squares that have a neighbour
there."""


def _step(squares: int, shift: int, of: int) -> int:
    moved = squares & of
    return (moved << shift if shift > 0 else moved >> -shift) & WORD


def after_move(own: int, other: int, square: int) -> tuple[int, int] | None:
    """Return the mover's discs after a move, and the opponent's; None if it turns none."""
    turned = 0
    for shift, of in _STEPS:
        line, place = 0, _step(1 << square, shift, of)
        while place & other:
            line |= place
            place = _step(place, shift, of)
        if place & own:
            turned |= line
    return (own | turned | 1 << square, other & ~turned) if turned else None


def moves(own: int, other: int) -> list[tuple[int, int]]:
    """Return the mover's discs after each possible move, and the opponent's."""
    # A move is beside a disc that it turns.
    near = functools.reduce(operator.or_, (_step(other, *step) for step in _STEPS))
    free = near & ~(own | other)
    each = (after_move(own, other, at) for at in range(64) if free >> at & 1)
    return [after for after in each if after]


@functools.cache
def positions(count: int) -> tuple[tuple[int, int], ...]:
    """Return positions of Othello from games of random moves, all parts of a game equally likely.

    Each has the discs of the player to move, who has a move, and those of the opponent.
    """
    random = Random(2)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        own, other = 1 << 28 | 1 << 35, 1 << 27 | 1 << 36
        wanted = random.randrange(60)
        for number in range(wanted + 1):
            after = moves(own, other)
            if not after:
                break  # A player without a move gets no request.
            if number == wanted:
                found.append((own, other))
                break
            other, own = random.choice(after)
    return tuple(found)
