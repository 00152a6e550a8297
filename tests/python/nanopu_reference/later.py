"""The other programs: N-body, path latency, the packet classifier, Othello."""

import functools
import struct
from fractions import Fraction

import numpy
import numpy.typing as npt

from nanopu_reference import LOAD_WORDS, WORD, Message, mix, payload_of, refusal, words_of


class NBody:
    """`n-body`."""

    def __init__(self) -> None:
        self.center = (0, 0)
        self.requests_left = 0
        self.start_time = 0

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Take a configuration, or compute the force on a body."""
        words = words_of(payload)
        if len(words) < 3 or max(words[1:3]) >= 2**26:
            return refusal(peer)
        if words[0] == 0 and len(words) == 5:
            _, x, y, self.requests_left, self.start_time = words
            self.center = x, y
            return []
        if words[0] != 1 or len(words) != 4 or self.requests_left == 0:
            return refusal(peer)
        self.requests_left -= 1
        squared = sum(
            (at - center) ** 2 for at, center in zip(words[1:3], self.center, strict=True)
        )
        force = float(Fraction(1, squared)) if squared else 0.0
        (bits,) = struct.unpack("<Q", struct.pack("<d", force))
        return [(peer, payload_of([2, bits, self.start_time]))]


class PathLatency:
    """`path-latency`."""

    def __init__(self) -> None:
        self.flows: dict[int, tuple[tuple[int, int], list[int]]] = {}
        self.reports = self.events = 0

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Take a report, and tell of a change."""
        words = words_of(payload)
        if len(words) < 2 or not 1 <= words[1] & 0xFF <= 6 or len(words) != 2 + (words[1] & 0xFF):
            return refusal(peer)
        flow = (words[0], words[1] & ~0xFF)
        latency = sum(word & 0xFFFFFFFF for word in words[2:])
        place = mix(flow[0] ^ mix(flow[1])) % 256
        known, before = self.flows.get(place, (None, []))
        last = [*(before if known == flow else []), latency][-10:]
        self.flows[place] = flow, last
        mean = sum(last) // len(last)
        messages = []
        self.reports += 1
        if known != flow or abs(latency - mean) > 1000:
            self.events += 1
            messages.append((peer, payload_of([1, *flow, latency, mean if known == flow else 0])))
        if self.reports == 50:
            messages.append((peer, payload_of([2, self.reports, self.events])))
            self.reports = self.events = 0
        return messages


RULES = 100_000
LENGTHS = (32, 28, 24, 16, 8)


@functools.cache
def rules() -> npt.NDArray[numpy.uint64]:
    """Return all rules, a column each.

    The rows are: source's mask and prefix, destination's, source ports from and to, destination
    ports from and to, and the protocol.
    """
    length_of = [0] * 8 + [1] * 4 + [2] * 2 + [3, 4]
    rows = []
    for number in range(RULES):
        sides, ports = mix(4 * number), mix(4 * number + 1)
        masks = [
            0xFFFFFFFF << 32 - LENGTHS[length_of[nibble]] & 0xFFFFFFFF
            for nibble in (sides & 15, sides >> 4 & 15)
        ]
        source = mix((sides >> 8) % 8192 + 2**32) & masks[0]
        destination = mix((sides >> 32) % 8192 + 2 * 2**32) & masks[1]
        source_ports, destination_ports = [0, 65535], [0, 65535]
        match ports >> 2 & 7:
            case 0:
                pass
            case 1:
                source_ports[0] = destination_ports[0] = 1024
            case 2:
                base = ports >> 16 & 0xFF00
                destination_ports = [base, base + (ports >> 32 & 0xFF)]
            case _:
                destination_ports = [(ports >> 16) % 64] * 2
        protocol = (6, 6, 17, 0)[ports & 3]
        sides_of_rule = [masks[0], source, masks[1], destination]
        rows.append([*sides_of_rule, *source_ports, *destination_ports, protocol])
    return numpy.array(rows, dtype=numpy.uint64).T


def first_rule(source: int, destination: int, ports: tuple[int, int], protocol: int) -> int | None:
    """Return the number of the first rule that matches: all of them are looked at."""
    mask, prefix, other_mask, other_prefix, low, high, other_low, other_high, exact = rules()
    matches = (numpy.uint64(source) & mask) == prefix
    matches &= (numpy.uint64(destination) & other_mask) == other_prefix
    matches &= (low <= ports[0]) & (ports[0] <= high)
    matches &= (other_low <= ports[1]) & (ports[1] <= other_high)
    matches &= (exact == protocol) | (exact == 0)
    found = numpy.flatnonzero(matches)
    return int(found[0]) if len(found) else None


class Classifier:
    """`classifier`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Find the first rule for a header."""
        words = words_of(payload)
        if len(words) != LOAD_WORDS + 4:
            return refusal(peer)
        number, addresses, ports, protocol = words[LOAD_WORDS:]
        rule = first_rule(
            addresses >> 32,
            addresses & 0xFFFFFFFF,
            (ports >> 32 & 0xFFFF, ports & 0xFFFF),
            protocol >> 32 & 0xFF,
        )
        result = number >> 32 << 32 | (0xFFFFFFFF if rule is None else rule)
        return [(peer, payload_of([*words[:LOAD_WORDS], result, addresses, ports, protocol]))]


Position = tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]
"""Squares by row and column: of who is to move, and of the other."""

DIRECTIONS = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column]


def squares_of(bits: int) -> frozenset[tuple[int, int]]:
    """Return a set of squares that is given by the bits of a number."""
    return frozenset(divmod(square, 8) for square in range(64) if bits >> square & 1)


def bits_of(squares: frozenset[tuple[int, int]]) -> int:
    """Return the number for a set of squares."""
    return sum(1 << 8 * row + column for row, column in squares)


def moves_of(position: Position) -> list[Position]:
    """Return the positions after each move, by the move's square; seen by the other player."""
    own, other = position
    after = []
    for square in range(64):
        place = divmod(square, 8)
        if place in own or place in other:
            continue
        turned: set[tuple[int, int]] = set()
        for down, right in DIRECTIONS:
            line = []
            row, column = place[0] + down, place[1] + right
            while (row, column) in other:
                line.append((row, column))
                row, column = row + down, column + right
            if (row, column) in own:
                turned.update(line)
        if turned:
            after.append((other - turned, own | turned | {place}))
    return after


def children_of(position: Position) -> list[Position]:
    """Return what a position leads to: moves, a pass, or nothing if the game is over."""
    if found := moves_of(position):
        return found
    passed = position[1], position[0]
    return [passed] if moves_of(passed) else []


def value_of(position: Position, ahead: int) -> int:
    """Return a position's value for who is to move, after looking so many moves ahead."""
    children = children_of(position) if ahead else []
    if not children:
        return len(position[0]) - len(position[1])
    return max(-value_of(child, ahead - 1) for child in children)


class Othello:
    """`othello`, as long as it can remember all positions that wait."""

    def __init__(self) -> None:
        self.servers: list[int] = []
        self.self = self.next = 0
        self.waiting: dict[int, tuple[int, int, int, list[int], int]] = {}
        self.free = list(range(1023, -1, -1))

    def reduced(self, where: int, number: int, value: int, time: int) -> Message:
        """Return a reduce."""
        return where >> 16, payload_of([1, where, number, value & WORD, time])

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Take a configuration, a map or a reduce."""
        words = words_of(payload)
        if len(words) < 2:
            return refusal(peer)
        match words:
            case [2, number, count, *where] if number < count == len(where) <= 128:
                self.servers, self.self, self.next = where, number, number
                return [(peer, payload_of([2]))]
            case [0, own, other, ahead, where, number, time] if self.servers:
                if own & other or not 1 <= ahead <= 60:
                    return refusal(peer)
                return self.map((squares_of(own), squares_of(other)), ahead, where, number, time)
            case [1, _, number, value, _] if number in self.waiting:
                value -= 2**64 if value >> 63 else 0
                return self.reduce(number, value) if abs(value) <= 64 else refusal(peer)
            case _:
                return refusal(peer)

    def map(
        self, position: Position, ahead: int, where: int, number: int, time: int
    ) -> list[Message]:
        """Look at a position."""
        where &= ~0xFFFF
        children = children_of(position) if ahead > 1 else []
        if not children:
            return [self.reduced(where, number, value_of(position, ahead), time)]
        place = self.free.pop()
        self.waiting[place] = where, number, time, [], len(children)
        messages = []
        for own, other in children:
            self.next = (self.next + 1) % len(self.servers)
            words = [bits_of(own), bits_of(other), ahead - 1, self.servers[self.self], place, time]
            messages.append((self.servers[self.next] >> 16, payload_of([0, *words])))
        return messages

    def reduce(self, place: int, value: int) -> list[Message]:
        """Take a child's value."""
        where, number, time, values, count = self.waiting[place]
        values.append(-value)
        if len(values) < count:
            return []
        del self.waiting[place]
        self.free.append(place)
        return [self.reduced(where, number, max(values), time)]
