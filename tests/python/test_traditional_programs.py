"""Programs behind a conventional network interface, frame by frame, against references in Python.

They are compiled for this host, against tests/nanopu/mmio.h in place of the registers. The
references are those of nanoPU's programs of the same names, which answer the same messages.
"""

import functools
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from nanopu_host import ROOT, compile_for_this_host
from nanopu_reference import Service, jobs, payload_of, services
from seeds import generator

HEADER = struct.Struct(">HIHIH BBHHHBBHII BHHHBHHHB 7sQ")
"""Ethernet, IPv4, and the transport (`network::packet::Packet::to_bytes`)."""

SERVER, CLIENT = 0x0A000002, 0x0A000003


@dataclass(frozen=True)
class Frame:
    """A frame that is a message."""

    to: tuple[int, int, int]
    """The addresses in Ethernet and in IPv4, and the context."""
    sender: tuple[int, int, int]
    tag: int
    payload: bytes

    def to_bytes(self) -> bytes:
        """Return it as it is on the wire; the checksum is nobody's business here."""
        length = len(self.payload)
        ethernet = (0x0200, self.to[0], 0x0200, self.sender[0], 0x0800)
        ipv4 = (0x45, 0, 50 + length, 0, 0, 64, 0x99, 0, self.sender[1], self.to[1])
        transport = (1, self.sender[2], self.to[2], length, 0, 0, 0, 0, 0)
        return HEADER.pack(*ethernet, *ipv4, *transport, bytes(7), self.tag) + self.payload

    @staticmethod
    def from_bytes(data: bytes) -> "Frame":
        """Read one, and check what all have."""
        assert HEADER.size == 64
        fields = HEADER.unpack_from(data)
        assert (fields[0], fields[2], fields[4]) == (0x0200, 0x0200, 0x0800)
        assert fields[5] == 0x45
        assert fields[11] == 0x99
        assert fields[15] == 1
        length = fields[18]
        assert fields[7] == 50 + length
        assert 64 + length <= len(data) < 64 + length + 8
        return Frame(
            (fields[1], fields[14], fields[17]),
            (fields[3], fields[13], fields[16]),
            fields[25],
            data[64 : 64 + length],
        )

    def answer(self, payload: bytes, *, ethernet_alone: bool) -> "Frame":
        """Return what a program answers with."""
        if ethernet_alone:
            to = (self.sender[0], *self.to[1:])
            sender = (self.to[0], *self.sender[1:])
        else:
            to, sender = self.sender, self.to
        return Frame(to, sender, self.tag, payload)


@functools.cache
def compiled(program: str) -> Path:
    """Compile a program of guest/programs/traditional."""
    source = ROOT / "guest" / "programs" / "traditional" / f"{program}.c"
    registers = compile_for_this_host("mmio.o", "-c", ROOT / "tests" / "nanopu" / "mmio.c")
    return compile_for_this_host(f"frames-{program}", "-Dmain=guest_main", source, registers)


def sent(program: str, frames: Sequence[bytes]) -> list[Frame]:
    """Return what a program sends when these frames come one after the other."""
    stream = b"".join(struct.pack("<H", len(frame)) + frame for frame in frames)
    done = subprocess.run([compiled(program)], input=stream, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    found, at = [], 0
    while at < len(done.stdout):
        (length,) = struct.unpack_from("<H", done.stdout, at)
        found.append(Frame.from_bytes(done.stdout[at + 2 : at + 2 + length]))
        at += 2 + length
    return found


def check(
    program: str, service: Service | None, payloads: Sequence[bytes], *, ethernet_alone: bool
) -> None:
    """The program answers each of these as the reference does."""
    requests = [
        Frame((SERVER, SERVER, 0), (CLIENT, CLIENT, 1000 + tag), tag, payload)
        for tag, payload in enumerate(payloads)
    ]
    expected = []
    for request in requests:
        ((_, payload),) = service.serve(0, request.payload) if service else [(0, request.payload)]
        expected.append(request.answer(payload, ethernet_alone=ethernet_alone))
    found = sent(program, [request.to_bytes() for request in requests])
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one == other, f"frame {at} of {len(expected)}"


def some_payloads(random: Random, count: int) -> list[bytes]:
    """More than two batches, of all lengths that are in one frame."""
    lengths = [0, 1, 7, 8, 9, 1024, *(random.randrange(1025) for _ in range(count))]
    return [random.randbytes(length) for length in lengths]


@pytest.mark.parametrize("program", ["loopback", "loopback-batch"])
def test_loopback(program: str) -> None:
    check(program, None, some_payloads(generator(1), 70), ethernet_alone=True)


def test_loopback_stamped() -> None:
    payloads = [*some_payloads(generator(1), 70), b"\xff" * 24, bytes(32)]
    check("loopback-stamped", jobs.TraditionalStamped(), payloads, ethernet_alone=True)


def test_loopback_increment() -> None:
    random = generator(2)
    payloads = [random.randbytes(8 * random.randrange(129)) for _ in range(70)]
    payloads.append(b"\xff" * 16)  # Each word comes round to 0.
    check("loopback-increment", jobs.LoopbackIncrement(), payloads, ethernet_alone=True)


def test_dot_product() -> None:
    random = generator(3)
    payloads = some_payloads(random, 10)
    for count in [0, 1, 2, 125, *(random.randrange(126) for _ in range(60))]:
        factors = [random.getrandbits(64) for _ in range(count)]
        factors = [random.choice((factor, factor % 2048)) for factor in factors]
        payloads.append(payload_of([1, count, *factors, random.getrandbits(64)]))
    payloads += map(payload_of, [[1, 2, 0, 1], [1, 0], [2, 1, 0, 1], [1, 2**63, 0, 1], [1]])
    random.shuffle(payloads)
    check("dot-product", jobs.DotProduct(), payloads, ethernet_alone=True)


def test_set_algebra() -> None:
    random = generator(5)
    payloads = some_payloads(random, 10)
    for _ in range(200):
        load = [random.getrandbits(64), random.getrandbits(64)]
        count = random.randrange(1, 5)
        # Words with small numbers are frequent; hardly any document has four of the others.
        least = random.choice((1, 100))
        words = [int(least * (201 / least) ** random.random()) for _ in range(count)]
        payloads.append(payload_of([*load, count, *words]))
    wrong = [[1, 0], [1, 201], [2, 1, 2**32 + 1], [5, 1, 2, 3, 4, 5], [2, 1], [0], [1, 1, 1]]
    payloads += [payload_of([1, 2, *words]) for words in wrong]
    random.shuffle(payloads)
    check("set-algebra", services.SetAlgebra(), payloads, ethernet_alone=False)


def test_mica() -> None:
    """Reads and writes of keys that are there, are new, or are never written."""
    random = generator(4)
    keys = [services.key_of(random.randrange(services.KEYS)) for _ in range(40)]
    keys += [(random.getrandbits(64), random.getrandbits(64)) for _ in range(20)]
    payloads = some_payloads(random, 10)
    for _ in range(400):
        load = [random.getrandbits(64), random.getrandbits(64)]
        value = [random.getrandbits(64) for _ in range(services.VALUE_WORDS)]
        request = [1, *random.choice(keys), 0]
        if random.random() < 0.5:
            request = [2, *request[1:], *value]
        payloads.append(payload_of([*load, *request]))
    payloads += [payload_of([1, 2, 3, *keys[0], 0]), payload_of([1, 2, 2, *keys[0], 0])]
    random.shuffle(payloads)
    check("mica", services.Mica(), payloads, ethernet_alone=False)
