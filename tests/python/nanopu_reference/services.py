"""The services over data in memory: MICA, one-sided operations, set algebra, vectors."""

import functools

from nanopu_reference import (
    LOAD_WORDS,
    WORD,
    Message,
    mix,
    payload_of,
    refusal,
    words_of,
)

KEYS = 10_000
VALUE_WORDS = 64


def key_of(number: int) -> tuple[int, int]:
    """Return the key with a number, of those that the store has from the beginning."""
    return number, 0


@functools.cache
def first_store() -> dict[tuple[int, int], list[int]]:
    """Return what the store has from the beginning."""
    return {
        key_of(number): [mix(number * VALUE_WORDS + word) for word in range(VALUE_WORDS)]
        for number in range(KEYS)
    }


class Mica:
    """`mica` and `mica-naive`, as long as the store has room for all keys."""

    def __init__(self) -> None:
        self.values = dict(first_store())

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Read or write a value."""
        words = words_of(payload)
        load, rest = words[:LOAD_WORDS], words[LOAD_WORDS:]
        if len(rest) == 4 and rest[0] == 1:
            answer = self.values.get((rest[1], rest[2]), [0])
        elif len(rest) == 4 + VALUE_WORDS and rest[0] == 2:
            self.values[rest[1], rest[2]] = rest[4:]
            answer = [1]
        else:
            return refusal(peer)
        return [(peer, payload_of(load + answer))]


MEMORY_WORDS = 400_000


class Rdma:
    """`rdma`."""

    def __init__(self) -> None:
        self.changed: dict[int, int] = {}

    def read(self, address: int) -> int | None:
        """Return the word at an address; none if it is none."""
        if address % 8 or address >= 8 * MEMORY_WORDS:
            return None
        return self.changed.get(address, mix(address // 8) % MEMORY_WORDS * 8)

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Do an operation."""
        words = words_of(payload)
        load, rest = words[:LOAD_WORDS], words[LOAD_WORDS:]
        if len(rest) < 2 or (value := self.read(rest[1])) is None:
            return refusal(peer)
        match rest:
            case [1, _]:
                pass
            case [2, address, new]:
                self.changed[address] = new
            case [3, address, expected, new]:
                if value == expected:
                    self.changed[address] = new
            case [4, address, addend]:
                self.changed[address] = (value + addend) & WORD
            case [5, _]:
                if (there := self.read(value)) is None:
                    return refusal(peer)
                value = there
            case _:
                return refusal(peer)
        return [(peer, payload_of([*load, 6, value]))]


WORDS = 200
DOCUMENTS = 100


@functools.cache
def documents_of() -> list[set[int]]:
    """Return the documents that have each word: the first one half of them, others a 65th less."""
    chances = [2**31]
    while len(chances) < WORDS:
        chances.append(chances[-1] - chances[-1] // 65)
    return [
        {at for at in range(1, DOCUMENTS + 1) if mix(at * WORDS + word) >> 32 < chance}
        for word, chance in enumerate(chances)
    ]


class SetAlgebra:
    """`set-algebra`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Intersect the sets of the words."""
        words = words_of(payload)
        load, rest = words[:LOAD_WORDS], words[LOAD_WORDS:]
        if not 2 <= len(rest) <= 5 or rest[0] != len(rest) - 1:
            return refusal(peer)
        if not all(1 <= word <= WORDS for word in rest[1:]):
            return refusal(peer)
        found = sorted(set.intersection(*(documents_of()[word - 1] for word in rest[1:])))
        return [(peer, payload_of([*load, len(found), *found]))]


VECTORS = 10_000


def elements(words: list[int]) -> list[int]:
    """Return the four elements of each word."""
    return [word >> shift & 0xFFFF for word in words for shift in (48, 32, 16, 0)]


@functools.cache
def vector(number: int) -> list[int]:
    """Return the vector with a number from 1."""
    return elements([mix((number - 1) * 16 + place) for place in range(16)])


class HdSearch:
    """`hd-search`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Find the nearest vector."""
        words = words_of(payload)
        load, query, rest = words[:LOAD_WORDS], words[LOAD_WORDS:18], words[18:]
        if not 2 <= len(rest) <= 201 or rest[0] != len(rest) - 1:
            return refusal(peer)
        if not all(1 <= number <= VECTORS for number in rest[1:]):
            return refusal(peer)

        def squared(number: int) -> int:
            both = zip(elements(query), vector(number), strict=True)
            return sum((one - other) ** 2 for one, other in both)

        return [(peer, payload_of([*load, min(rest[1:], key=squared)]))]
