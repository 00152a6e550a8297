"""Histograms of results: HdrHistograms (V2, compressed, base64), as HdrHistogram's log files."""

import base64
import zlib
from collections.abc import Iterator

_HEADER_BYTES = 40
"""Of the payload: the significant digits are the fourth of its 32-bit numbers."""


def decode(text: str) -> Iterator[tuple[int, int]]:
    """Return the least value of each bin that is not empty, and its count, in ascending order."""
    # Eight bytes in front of what is compressed: the format's number and the length.
    data = zlib.decompress(base64.b64decode(text)[8:])
    digits = int.from_bytes(data[12:16], "big")
    # Each power of two is divided into as many bins as two values that the digits tell apart need.
    half = (2 * 10**digits - 1).bit_length() - 1
    index, place = 0, _HEADER_BYTES
    while place < len(data):
        number = shift = 0
        for length in range(9):
            byte = data[place]
            place += 1
            # The ninth byte has all its eight bits.
            number |= (byte & (0x7F if length < 8 else 0xFF)) << shift
            shift += 7
            if byte < 0x80:
                break
        count = number >> 1 ^ -(number & 1)
        if count < 0:
            # So many empty bins.
            index -= count
            continue
        bucket = max(0, (index >> half) - 1)
        if count:
            yield (index - (bucket << half)) << bucket, count
        index += 1
