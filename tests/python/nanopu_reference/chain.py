"""Chain replication: a server, and what a client writes."""

from collections.abc import Sequence

from nanopu_reference import LOAD_WORDS, Message, payload_of, refusal, words_of

FROM_CLIENT, READ, WRITE = 1 << 7, 1 << 6, 1 << 5
MAX_SERVERS = 6


def read(client: int, key: tuple[int, int]) -> list[int]:
    """Return a read, behind what a load generator puts in front of it."""
    return [FROM_CLIENT << 56 | READ << 56 | client_bits(client), *key, 0, *[0] * 8]


def write(
    client: int, servers: Sequence[int], key: tuple[int, int], value: Sequence[int]
) -> list[int]:
    """Return a write for a chain, whose first server it is to be sent to."""
    head = (FROM_CLIENT | WRITE) << 56 | (len(servers) - 1) << 40 | client_bits(client)
    rest = [(server & 0xFFFF) << 32 | server >> 16 for server in servers[1:]]
    return [head, *rest, *key, 0, *value]


def client_bits(client: int) -> int:
    """Return a client as the first word has it: context, and IPv4 address."""
    return (client & 0xFF) << 32 | client >> 16


class Server:
    """`chain-replication`: numbered values by their keys."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, int], tuple[int, list[int]]] = {}

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Store a write and pass it on, or answer a read."""
        load, words = words_of(payload)[:LOAD_WORDS], words_of(payload)[LOAD_WORDS:]
        if not words:
            return refusal(peer)
        head = words[0]
        flags, number, follow = head >> 56, head >> 48 & 0xFF, head >> 40 & 0xFF
        client = (head & 0xFFFFFFFF) << 16 | head >> 32 & 0xFF
        is_read, is_write = bool(flags & READ), bool(flags & WRITE)
        if is_read == is_write or follow > (MAX_SERVERS if is_write else 0):
            return refusal(peer)
        if len(words) != 12 + follow:
            return refusal(peer)
        servers, rest = words[1 : 1 + follow], words[1 + follow :]
        key, value = (rest[0], rest[1]), rest[3:]
        there, known = self.values.get(key, (0, [0] * 8))
        if is_read:
            number, value = there, known
        elif flags & FROM_CLIENT:
            number = (there + 1) & 0xFF
            self.values[key] = number, value
        elif 0 < (number - there) & 0xFF < 128:
            self.values[key] = number, value
        to = client
        if servers:
            to = (servers[0] & 0xFFFFFFFF) << 16 | servers[0] >> 32 & 0xFFFF
        left = max(follow - 1, 0)
        head = (flags & ~FROM_CLIENT) << 56 | number << 48 | left << 40 | head & 0xFF_FFFFFFFF
        return [(to, payload_of([*load, head, *servers[1:], *rest[:3], *value]))]
