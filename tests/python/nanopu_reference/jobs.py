"""The small jobs that nanoPU's registers are measured with."""

from nanopu_reference import WORD, Message, payload_of, refusal, words_of


class Loopback:
    """`loopback-unrolled`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Send it back."""
        return [(peer, payload)]


class LoopbackIncrement:
    """`loopback-increment`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Increase every word."""
        whole = payload_of([(word + 1) & WORD for word in words_of(payload)])
        return [(peer, whole[: len(payload)])]


class LoopbackStamped:
    """`loopback-stamped`."""

    def __init__(self) -> None:
        self.stamp: int | None = None

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Put the first message's last word in place of the last one."""
        *words, last = words_of(payload)
        if self.stamp is None:
            self.stamp = last
        return [(peer, payload_of([*words, self.stamp])[: len(payload)])]


class TraditionalStamped(LoopbackStamped):
    """The same behind a traditional interface, for whole words."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Leave what is behind the last whole word, and what begins with all ones, as it is."""
        end = len(payload) // 8 * 8
        if end == 0 or payload[:8] == bytes([0xFF] * 8):
            return [(peer, payload)]
        ((_, stamped),) = super().serve(peer, payload[:end])
        return [(peer, stamped + payload[end:])]


class Stream:
    """`stream`."""

    def __init__(self) -> None:
        self.messages_left = 0
        self.start_time = 0

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Increase the words between the first and the last one."""
        words = words_of(payload)
        if len(words) == 3 and words[0] == 0:
            _, self.messages_left, self.start_time = words
            return []
        if len(words) < 2 or words[0] != 1 or self.messages_left == 0:
            return refusal(peer)
        self.messages_left -= 1
        middle = [(word + 1) & WORD for word in words[1:-1]]
        return [(peer, payload_of([1, *middle, self.start_time]))]


class DotProduct:
    """`dot-product` and `dot-product-naive`."""

    def serve(self, peer: int, payload: bytes) -> list[Message]:
        """Sum up the factors, each times its weight: its number, of 2048."""
        words = words_of(payload)
        if len(words) < 2 or words[0] != 1 or len(words) != 3 + words[1]:
            return refusal(peer)
        *factors, stamp = words[2:]
        result = sum(factor * (factor % 2048) for factor in factors)
        return [(peer, payload_of([2, result & WORD, stamp]))]
