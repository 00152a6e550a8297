"""What nanoPU's programs answer: a reference for each, written from its messages' description.

A service is an object that takes a message and gives those that it causes. Messages are payloads,
as they are on the wire: a series of 64-bit words with the most significant byte first. A peer is an
IPv4 address and a context, as an application header has them in its bits 63 to 16.
"""

import struct
from collections.abc import Sequence
from typing import Protocol

WORD = 2**64 - 1
REFUSED = WORD
LOAD_WORDS = 2
"""What a load generator puts in front of a request, and finds in front of the reply."""

Message = tuple[int, bytes]
"""Whom it is from, or for, and its payload."""


class Service(Protocol):
    """What answers messages, and may remember them."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Take a message, and return those that are sent because of it."""
        ...


def words_of(payload: bytes) -> list[int]:
    """Return a payload's words; zeros fill up the last one."""
    whole = payload + bytes(-len(payload) % 8)
    return list(struct.unpack(f">{len(whole) // 8}Q", whole))


def payload_of(words: Sequence[int]) -> bytes:
    """Return the payload that has these words."""
    return struct.pack(f">{len(words)}Q", *words)


def mix(number: int) -> int:
    """Return one step of SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = (number + 0x9E3779B97F4A7C15) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return mixed ^ mixed >> 31


def refusal(peer: int) -> list[Message]:
    """Return the answer to what is no request of a service."""
    return [(peer, payload_of([REFUSED]))]
