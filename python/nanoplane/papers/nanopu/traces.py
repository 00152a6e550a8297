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


_INNER = 0x7E7E7E7E7E7E7E7E
"""Othello's squares that have a neighbour on both sides of their row."""
_LINES = ((1, _INNER), (8, WORD), (7, _INNER), (9, _INNER))
"""Othello's lines: how far apart their squares are, and on which of them a disc can be turned."""
_WAYS = (operator.lshift, operator.rshift)
"""Both directions of a line."""


def moves(own: int, other: int) -> list[int]:
    """Return the squares to which a player can move, with their discs and the opponent's."""
    reached = 0
    for apart, between in _LINES:
        discs = other & between
        for shifted in _WAYS:
            line = shifted(own, apart) & discs
            # It has six discs at most.
            for _ in range(5):
                line |= shifted(line, apart) & discs
            reached |= shifted(line, apart)
    reached &= ~(own | other)
    return [square for square in range(64) if reached >> square & 1]


def after_move(own: int, other: int, square: int) -> tuple[int, int]:
    """Return the mover's discs after a possible move, and the opponent's."""
    turned = 0
    for apart, between in _LINES:
        discs = other & between
        for shifted in _WAYS:
            line, place = 0, shifted(1 << square, apart)
            while place & discs:
                line |= place
                place = shifted(place, apart)
            if place & own:
                turned |= line
    return own | turned | 1 << square, other & ~turned


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
            possible = moves(own, other)
            if not possible:
                break  # A player without a move gets no request.
            if number == wanted:
                found.append((own, other))
                break
            other, own = after_move(own, other, random.choice(possible))
    return tuple(found)
