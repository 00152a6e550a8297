"""What the six tasks of HyperPlane send, byte by byte, against libraries that we did not write."""

import functools
import itertools
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import galois
import msgpack
import numpy
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.layers.l2 import GRE
from scapy.packet import Raw

from command_line import completed
from nanoplane import Description, compiler, simulator
from nanoplane.errors import Failure
from nanoplane.schemas import choices

pytestmark = pytest.mark.simulator

GUEST = Path(__file__).parents[2] / "guest"
TASKS = (
    "packet-encapsulation",
    "crypto-forwarding",
    "packet-steering",
    "erasure-coding",
    "raid-protection",
    "request-dispatching",
)

# A run takes a good part of a second, so there are few, with many items each.
# To shrink what fails would take hundreds of runs.
few = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ITEMS = 100
"""Items in such a run, and the fewest requests that can be measured."""


@functools.cache
def elf(program: str, mechanism: str | None) -> bytes:
    return compiler.build(GUEST / "programs" / f"{program}.c", None, mechanism)


def run(program: str, capture: int, *assignments: str) -> Mapping[str, Any]:
    tables = {
        "server": {"preset": "hyperplane-table1"},
        "data_plane": {"program": program, "notify": "hyperplane", "queues": 1},
        "traffic": {"rate_mrps": 0.15},
        "measure": {"requests": max(ITEMS, capture), "warmup": 0},
    }
    description = Description.from_dict(tables)
    for assignment in assignments:
        description = description.assign(assignment)
    options = {"capture_packets": capture}
    resolved = description.resolve()
    program_elf = elf(program, resolved.mechanism)
    result = simulator.run(resolved.data, program_elf, options, files=resolved.contents())
    assert result["dropped"] == 0
    return result


def generated(program: str, count: int, *assignments: str) -> list[bytes]:
    """Return what a program makes of generated items, none of which may be an error to it."""
    result = run(program, count, *assignments)
    assert result["errors"] == 0
    captured = [bytes.fromhex(text) for text in result["captured"]]
    assert len(captured) == count
    return captured


@pytest.fixture
def sent(tmp_path: Path) -> Callable[..., list[bytes | None]]:
    """What a program makes of packets; None of each that is an error to it."""

    def send(program: str, packets: Sequence[bytes], *assignments: str) -> list[bytes | None]:
        path = tmp_path / "packets.pcap"
        records = (struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in packets)
        header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
        path.write_bytes(header + b"".join(records))
        largest = max(28, *map(len, packets))
        result = run(
            program,
            len(packets),
            f"traffic.packets={path}",
            f"traffic.packet_bytes={largest}",
            *assignments,
        )
        outputs = [bytes.fromhex(text) or None for text in result["captured"]]
        assert len(outputs) == len(packets)
        # After those that were captured it begins again.
        assert (result["errors"] > 0) == (None in outputs)
        return outputs

    return send


def payloads(contents: Sequence[bytes]) -> list[bytes]:
    """Return UDP packets that carry something; blocks and requests are taken out of them."""
    packet = functools.partial(struct.pack, ">BBHHHBBHIIHHHH")
    return [
        packet(0x45, 0, 28 + len(one), 0, 0, 64, 17, 0, 1, 2, 3, 4, 8 + len(one), 0) + one
        for one in contents
    ]


def checked(packet: bytes) -> Any:
    """Return an IP packet whose lengths and checksums Scapy computes to the same bytes."""
    parsed = IP(packet)
    again = IP(packet)
    del again.len, again.chksum
    if UDP in again:
        del again[UDP].len, again[UDP].chksum
    assert bytes(again) == packet
    return parsed


@pytest.mark.parametrize("guest", ["aes", "encapsulation"])
def test_a_guest_that_checks_itself(guest: str) -> None:
    done = completed("exec", GUEST / "tests" / f"{guest}.c")
    assert (done.returncode, done.stderr) == (0, "")


# Packets that are none.

ADDRESSES = st.integers(1, 2**32 - 2)
PORTS = st.integers(0, 2**16 - 1)


@st.composite
def ip_packets(draw: st.DrawFn) -> bytes:
    """IPv4 packets of some protocol, some with options, valid in every checksum."""
    ip = IP(
        src=str(draw(st.ip_addresses(v=4))),
        dst=str(draw(st.ip_addresses(v=4))),
        id=draw(PORTS),
        tos=draw(st.integers(0, 255)),
        ttl=draw(st.integers(2, 255)),
        options=b"\x01" * draw(st.sampled_from([0, 0, 4, 40])),
    )
    transport = draw(
        st.sampled_from(
            [
                UDP(sport=draw(PORTS), dport=draw(PORTS)),
                TCP(sport=draw(PORTS), dport=draw(PORTS), seq=draw(PORTS), flags="A"),
                ICMP(),
            ]
        )
    )
    return bytes(ip / transport / Raw(draw(st.binary(max_size=70))))


def broken(packet: bytes, how: int) -> bytes:
    """Return an IPv4 packet in which one field is wrong, or that is a fragment."""
    wrong = IP(packet)
    if how == 0:
        wrong.chksum ^= 0x0100
        return bytes(wrong)
    if how == 1:
        wrong.ihl = 4
    if how == 2:
        wrong.ihl = 15 if len(packet) < 60 else 3
    if how == 3:
        wrong.flags = "MF"
    if how == 4:
        wrong.frag = 5
    del wrong.chksum
    return bytes(wrong)


# Packet encapsulation.


@few
@given(st.lists(ip_packets(), min_size=ITEMS, max_size=ITEMS))
def test_encapsulation_of_any_packet(sent: Any, packets: list[bytes]) -> None:
    for inner, outer in zip(packets, sent("packet-encapsulation", packets), strict=True):
        tunnel = IPv6(tc=inner[1], fl=IPv6(outer).fl, nh=47, src="2001:db8::1", dst="2001:db8:1::")
        assert outer == bytes(tunnel / GRE(proto=0x0800) / Raw(inner))


# Crypto forwarding.


def key_of(queue: int) -> bytes:
    """Return the key of a queue: four numbers of SplitMix64 (Steele, Lea and Flood 2014)."""
    words = []
    for index in range(1, 5):
        mixed = (queue + index * 0x9E3779B97F4A7C15) % 2**64
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        words.append(mixed ^ (mixed >> 31))
    return struct.pack("<4Q", *words)


def decrypted(packet: bytes, sequence: int, queue: int = 0) -> bytes:
    """Decrypt with Scapy, which knows ESP, after checking what it does not look at."""
    outer = checked(packet)
    assert (outer[ESP].spi, outer[ESP].seq) == (256 + queue, sequence)
    key = key_of(queue)
    # The vector is the sequence number, encrypted.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    at = 4 * outer.ihl + 8
    vector, rest = packet[at : at + 16], packet[at + 16 :]
    assert vector == cipher.update(struct.pack("<IIQ", sequence, 0, 0))
    plain = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor().update(rest)
    padding = plain[-2]
    assert padding < 16
    assert plain[-2 - padding : -2] == bytes(range(1, padding + 1))

    association: Any = SecurityAssociation  # It has no types.
    association = association(ESP, 256 + queue, crypt_algo="AES-CBC", crypt_key=key)
    return bytes(association.decrypt(outer))


@few
@given(
    st.lists(ip_packets(), min_size=ITEMS, max_size=ITEMS),
    st.lists(st.integers(0, 40), min_size=ITEMS, max_size=ITEMS),
)
def test_what_was_encrypted_decrypts(sent: Any, packets: list[bytes], faults: list[int]) -> None:
    items = [broken(one, how) if how < 5 else one for one, how in zip(packets, faults, strict=True)]
    sequence = 0
    for item, how, output in zip(items, faults, sent("crypto-forwarding", items), strict=True):
        if how < 5:
            assert output is None
            continue
        sequence += 1
        assert decrypted(output, sequence) == item


def test_every_length_of_a_payload_is_padded(sent: Any) -> None:
    packets = [bytes(IP(src="10.0.0.1", dst="10.0.0.2", proto=99) / bytes(n)) for n in range(100)]
    for number, output in enumerate(sent("crypto-forwarding", packets)):
        assert decrypted(output, number + 1) == packets[number]
        # Whole blocks: payload, padding, two bytes. Before them two headers and the vector.
        assert len(output) == 20 + 8 + 16 + (number + 2 + 15) // 16 * 16


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_associations_on_several_cores(notify: str) -> None:
    last: Counter[int] = Counter()
    server = ("data_plane.queues=6", "server.data_plane_cores=3", "traffic.rate_mrps=0.4")
    for packet in generated("crypto-forwarding", 60, *server, f"data_plane.notify={notify}"):
        queue = IP(packet)[ESP].spi - 256
        last[queue] += 1
        checked(decrypted(packet, last[queue], queue))
    assert set(last) == set(range(6))


# Packet steering.


class Balancer:
    """The load balancer of one queue, by its description."""

    def __init__(self) -> None:
        self.buckets: defaultdict[int, list[tuple[bytes, int]]] = defaultdict(list)
        self.sessions = 0

    def server(self, packet: Any) -> int:
        """Return the server of a packet's session."""
        raw = bytes(packet)
        at = 4 * packet.ihl
        (source, destination), ports = struct.unpack("<II", raw[12:20]), raw[at : at + 4]
        rest = packet.proto | int.from_bytes(ports, "little") << 8
        hashed = ((source << 32 | destination) ^ (rest * 0xC2B2AE3D27D4EB4F)) % 2**64
        hashed = hashed * 0x9E3779B97F4A7C15 % 2**64
        hashed = (hashed ^ hashed >> 32) * 0x9E3779B97F4A7C15 % 2**64
        bucket = self.buckets[hashed >> 56]
        key = raw[12:20] + ports + bytes([packet.proto])
        known = [entry for entry in bucket if entry[0] == key]
        if known:
            bucket.remove(known[0])
            bucket.insert(0, known[0])
        else:
            bucket.insert(0, (key, self.sessions % 16))
            self.sessions += 1
            del bucket[4:]
        return bucket[0][1]

    def sent(self, raw: bytes) -> bytes | None:
        """Return what the balancer sends on; Scapy computes its checksums."""
        packet = IP(raw)
        if TCP not in packet and UDP not in packet:
            return None
        server = self.server(packet)
        packet.dst = f"172.16.0.{server}"
        packet.ttl -= 1
        del packet.chksum
        if TCP in packet:
            del packet[TCP].chksum
        elif packet[UDP].chksum != 0:
            del packet[UDP].chksum
        return bytes(packet)


@st.composite
def traffic_of_sessions(draw: st.DrawFn) -> list[bytes]:
    """Packets of a few sessions, in any order, and some that belong to none."""
    sessions = draw(st.lists(ip_packets(), min_size=5, max_size=30))
    order = st.lists(st.sampled_from(sessions), min_size=ITEMS, max_size=ITEMS)
    return draw(order)


@few
@given(traffic_of_sessions(), st.lists(st.integers(0, 60), min_size=ITEMS, max_size=ITEMS))
def test_steering_of_any_packet(sent: Any, packets: list[bytes], faults: list[int]) -> None:
    items = [broken(one, how) if how < 5 else one for one, how in zip(packets, faults, strict=True)]
    balancer = Balancer()
    for item, how, output in zip(items, faults, sent("packet-steering", items), strict=True):
        assert output == (None if how < 5 else balancer.sent(item))


def test_sessions_stay_until_their_bucket_is_full(sent: Any) -> None:
    # 1500 sessions in 256 buckets of four: each session twice, first near, then far from before.
    addresses = [f"10.1.{number >> 8}.{number & 255}" for number in range(1500)]
    packets = [bytes(IP(src=one, dst="192.0.2.1") / UDP(dport=443)) for one in addresses]
    items = packets[:200] + packets[100:300] + packets[300:] + packets[:200]
    outputs = sent("packet-steering", items, "traffic.rate_mrps=1")
    balancer = Balancer()
    assert outputs == [balancer.sent(item) for item in items]
    # What came again at once went to the same server; long after, many had lost their place.
    assert outputs[200:300] == outputs[100:200]
    assert outputs[-200:] != outputs[:200]
    # Servers have their turn: 200 sessions are 12 or 13 for each of 16.
    assert set(Counter(output[16:20] for output in outputs[:200]).values()) == {12, 13}


def test_checksums_at_their_limits(sent: Any) -> None:
    """Checksums of UDP that are absent, and every sum that a port can give."""
    packets = []
    for port in range(0, 65536, 331):
        packet = IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=7, dport=port)
        packets.append(bytes(packet))
    absent = IP(packets[0])
    absent[UDP].chksum = 0
    packets.append(bytes(absent))
    # A payload that is what the checksum would be without it makes it 0, which is sent as 0xffff.
    # The first session gets the first server.
    ports = UDP(sport=1, dport=2)
    without = IP(bytes(IP(src="10.0.0.9", dst="172.16.0.0") / ports / Raw(b"\0\0")))[UDP].chksum
    payload = Raw(struct.pack(">H", without))
    items = [bytes(IP(src="10.0.0.9", dst="192.0.2.1") / ports / payload), *packets]
    balancer = Balancer()
    outputs = sent("packet-steering", items)
    assert outputs == [balancer.sent(item) for item in items]
    assert IP(outputs[0])[UDP].chksum == 0xFFFF
    assert IP(outputs[-1])[UDP].chksum == 0


def test_headers_that_are_cut_short(sent: Any) -> None:
    def cut(protocol: int, transport_bytes: int, ttl: int = 64) -> bytes:
        ip = IP(src="10.0.0.1", dst="10.0.0.2", proto=protocol, ttl=ttl)
        return bytes(ip / Raw(bytes(transport_bytes)))

    items = [
        cut(17, 8),
        cut(17, 7),
        cut(6, 20),
        cut(6, 19),
        cut(1, 40),
        cut(17, 8, 1),
        cut(17, 8, 2),
    ]
    good = [output is not None for output in sent("packet-steering", items)]
    assert good == [True, False, True, False, False, False, True]


def test_generated_sessions_keep_their_servers() -> None:
    servers: dict[bytes, str] = {}
    again = 0
    for output in generated("packet-steering", 1000, "traffic.rate_mrps=1"):
        packet = checked(output)
        session = output[12:16] + output[20:24]
        again += session in servers
        assert servers.setdefault(session, packet.dst) == packet.dst
        assert packet.ttl == 63
    # 128 sessions, in a table that has room for them.
    assert len(servers) <= 128
    assert again >= 1000 - 128


# RAID protection and erasure coding.

GF16 = galois.GF(2**4, irreducible_poly="x^4 + x + 1", compile="python-calculate")
GF256 = galois.GF(2**8, irreducible_poly="x^8+x^4+x^3+x^2+1", compile="python-calculate")


def rows(block: bytes, count: int) -> numpy.ndarray:
    """Return the parts of a block, a row each."""
    return numpy.frombuffer(block, numpy.uint8).reshape(count, -1)


def recovers(generator: Any, data: Any, kept: Sequence[int]) -> bool:
    """Whether the data comes out of what is kept: rows of the generator's product with it."""
    field = type(data)
    stored = generator @ data
    return bool((numpy.linalg.inv(generator[kept]) @ field(stored[kept]) == data).all())


STRIPES = st.lists(st.binary(min_size=64, max_size=64), min_size=1, max_size=20).map(b"".join)
LENGTHS = st.lists(st.integers(0, 700), min_size=20, max_size=20)


def raid_generator() -> Any:
    """Return what a stripe is multiplied with: the data itself, P and Q (Anvin)."""
    identity, two = numpy.eye(8, dtype=int), GF256(2)
    return GF256([*identity, [1] * 8, [int(two**disk) for disk in range(8)]])


@few
@given(st.lists(STRIPES, min_size=20, max_size=20), LENGTHS)
def test_p_and_q(sent: Any, stripes: list[bytes], lengths: list[int]) -> None:
    items = [*stripes, *(bytes(length) for length in lengths)]
    outputs = sent("raid-protection", payloads(items))
    generator = raid_generator()
    for item, output in zip(items, outputs, strict=True):
        if len(item) == 0 or len(item) % 64 != 0:
            assert output is None
        else:
            parity = generator[8:] @ GF256(rows(item, 8))
            assert output == parity.astype(numpy.uint8).tobytes()


def test_any_two_disks_can_be_lost(sent: Any) -> None:
    (item,) = [bytes((7 * place * place + place // 3) % 256 for place in range(64))]
    (output,) = sent("raid-protection", payloads([item]))
    generator, data = raid_generator(), GF256(rows(item, 8))
    stored = GF256(numpy.vstack([rows(item, 8), rows(output, 2)]))
    assert (generator @ data == stored).all()
    for lost in itertools.combinations(range(10), 2):
        kept = [disk for disk in range(10) if disk not in lost]
        recovered = numpy.linalg.inv(generator[kept]) @ stored[kept]
        assert recovered.astype(numpy.uint8).tobytes() == item, f"without disks {lost}"


def elements(block: bytes, fragments: int) -> Any:
    """Return the elements of fragments of four strips; strip b has bit b of each."""
    strips = rows(block, 4 * fragments)
    bits = numpy.unpackbits(strips, axis=1, bitorder="little").reshape(fragments, 4, -1)
    return GF16((bits * numpy.array([1, 2, 4, 8])[None, :, None]).sum(axis=1))


def erasure_generator() -> Any:
    """Return the data itself, and a Cauchy matrix with its rows and columns scaled."""
    xs, ys, scales = GF16([0, 1, 2, 3]), GF16([4, 5, 7, 8, 9, 11, 12, 13]), GF16([1, 10, 12, 14])
    parity = [[int(s * (xs[0] + y) / (x + y)) for y in ys] for x, s in zip(xs, scales, strict=True)]
    return GF16([*numpy.eye(8, dtype=int), *parity])


OBJECTS = st.lists(st.binary(min_size=256, max_size=256), min_size=1, max_size=4).map(b"".join)


@few
@given(st.lists(OBJECTS, min_size=5, max_size=5), LENGTHS)
def test_parity_fragments(sent: Any, objects: list[bytes], lengths: list[int]) -> None:
    items = [*objects, *(bytes(length) for length in lengths)]
    outputs = sent("erasure-coding", payloads(items))
    generator = erasure_generator()
    for item, output in zip(items, outputs, strict=True):
        if len(item) == 0 or len(item) % 256 != 0:
            assert output is None
        elif any(item):
            assert (elements(output, 4) == generator[8:] @ elements(item, 8)).all()
        else:
            assert output == bytes(len(item) // 2)


def test_any_four_fragments_can_be_lost(sent: Any) -> None:
    item = bytes((11 * place * place + place // 5) % 256 for place in range(256))
    (output,) = sent("erasure-coding", payloads([item]))
    generator, data = erasure_generator(), elements(item, 8)
    stored = GF16(numpy.vstack([data, elements(output, 4)]))
    # Each of the 495 ways needs the inverse of a part of the parity's matrix.
    for lost in itertools.combinations(range(12), 4):
        data_lost = [one for one in lost if one < 8]
        if not data_lost:
            continue
        parity_left = [one for one in range(8, 12) if one not in lost]
        used = parity_left[: len(data_lost)]
        data_left = [one for one in range(8) if one not in lost]
        known = generator[used][:, data_left] @ stored[data_left]
        square = generator[used][:, data_lost]
        recovered = numpy.linalg.inv(square) @ (stored[used] + known)
        assert (recovered == data[data_lost]).all(), f"without fragments {lost}"


# Request dispatching.

TIERS = {
    "store": ("get", "set", "delete", "scan"),
    "index": ("search", "suggest", "index", "rank"),
    "users": ("login", "logout", "profile", "friends"),
    "feeds": ("post", "feed", "like", "follow"),
}
TIER_OF = {method: tier for tier, methods in TIERS.items() for method in methods}


def reader(message: bytes) -> Any:
    unpacker = msgpack.Unpacker(unicode_errors="surrogateescape", strict_map_key=False)
    unpacker.feed(message)
    return unpacker


def server_of(key: bytes) -> int:
    """Return the server that has a key: FNV-1a, its halves folded, of 16."""
    hashed = 0xCBF29CE484222325
    for byte in key:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return (hashed ^ hashed >> 32) % 16


def call_of(request: bytes) -> tuple[int, str, int, bytes] | None:
    """Return number, method, server and parameters of the call for a request; None if it is bad."""
    try:
        whole = reader(request)
        whole.skip()
        parts = reader(request)
        fields = parts.read_array_header()
        kind, number, method = (parts.unpack() for _ in range(3))
        start = parts.tell()
        parameters = parts.read_array_header()
        key = parts.unpack() if parameters > 0 else None
    except (ValueError, TypeError, RuntimeError, msgpack.UnpackException):
        return None
    if isinstance(key, str):
        key = key.encode(errors="surrogateescape")
    if (
        whole.tell() != len(request)
        or fields != 4
        or (type(kind), kind) != (int, 0)
        or type(number) is not int
        or not 0 <= number < 2**32
        or not isinstance(method, str)
        or method not in TIER_OF
        or not isinstance(key, bytes)
    ):
        return None
    return number, f"{TIER_OF[method]}.{method}", server_of(key), request[start:]


def check_call(output: bytes | None, request: bytes, queue: int = 0) -> bool:
    """Check a call by what the library reads in it; return whether there is one."""
    expected = call_of(request)
    if expected is None or output is None:
        assert (output is None) == (expected is None), request.hex()
        return False
    number, method, server, parameters = expected
    parts = reader(output)
    assert parts.read_array_header() == 4
    assert [parts.unpack() for _ in range(3)] == [0, number, method]
    assert parts.read_array_header() == 3
    assert [parts.unpack() for _ in range(2)] == [server, queue]
    assert output[parts.tell() :] == parameters
    return True


KEYS = st.text(max_size=40) | st.binary(max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | KEYS,
    lambda inner: st.lists(inner, max_size=17) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
METHODS = st.sampled_from([*TIER_OF, *TIER_OF, "", "ge", "gets", "get\0", "unknown-method"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Requests as the library makes them; a few have a wrong type, method or key."""
    key = draw(KEYS | KEYS | KEYS | VALUES)
    parameters = draw(st.sampled_from([[], *[[key, *draw(st.lists(VALUES, max_size=3))]] * 9]))
    kind = draw(st.sampled_from([0] * 12 + [1, 2, False]))
    message = [kind, draw(st.integers(0, 2**33)) >> draw(st.integers(0, 33)), draw(METHODS)]
    return bytes(msgpack.packb([*message, parameters]))


def damaged(request: bytes, random: Random) -> bytes:
    """Return a request that ends early or late, or has another byte somewhere, or all of it."""
    changed = bytearray(request)
    for _ in range(random.randrange(3)):
        changed[random.randrange(min(len(changed), 30))] = random.randrange(256)
    end = random.choice([len(changed), len(changed), random.randrange(len(changed))])
    return bytes(changed[:end]) + random.choice([b"", b"", b"\xc0"])


@few
@given(st.lists(requests(), min_size=12, max_size=12), st.integers(0, 2**32))
def test_dispatching_of_any_request(sent: Any, good: list[bytes], seed: int) -> None:
    random = Random(seed)
    bad = [damaged(request, random) for request in good for _ in range(15)]
    items = [*good, *bad, *(random.randbytes(length) for length in range(40))]
    for item, output in zip(items, sent("request-dispatching", payloads(items)), strict=True):
        check_call(output, item)


def test_every_form_of_an_object_is_skipped(sent: Any) -> None:
    """Each first byte, with all that it announces, with one byte less, and with one more."""
    items = []
    for first in range(256):
        for fill in (0, 1, 3):
            value = bytes([first, *[0] * 3, fill])
            for length in range(1, 24):
                parameters = b"\x92\xa3key" + (value + b"\x01" * 24)[:length]
                items.append(b"\x94\x00\x07\xa3get" + parameters)
    outputs = sent("request-dispatching", payloads(items), "traffic.rate_mrps=1")
    calls = [check_call(output, item) for item, output in zip(items, outputs, strict=True)]
    # All first bytes but one announce something, and most of it fits into these.
    assert sum(calls) > 400


def test_generated_requests_are_spread_over_methods_and_servers() -> None:
    for size in (28, 64, 1024):
        calls = generated("request-dispatching", 400, f"traffic.packet_bytes={size}")
        parsed = [msgpack.unpackb(call) for call in calls]
        methods = Counter(method for _, _, method, _ in parsed)
        assert set(methods) == {f"{tier}.{method}" for method, tier in TIER_OF.items()}
        # 400 draws of 16: 25 each, with a standard deviation of 4.8.
        assert max(methods.values()) < 25 + 5 * 4.8
        servers = Counter(parameters[0] for *_, parameters in parsed)
        assert set(servers) == set(range(16))
        assert max(servers.values()) < 25 + 5 * 4.8
        for kind, _, _, (server, queue, (key, _value)) in parsed:
            assert (kind, queue, server) == (0, 0, server_of(key.encode()))


# All of them.


def test_harts_share_what_a_queue_keeps() -> None:
    """Items of one queue are on three harts at once."""
    shared = (
        *("server.data_plane_cores=3", "data_plane.in_order=false"),
        *("traffic.packet_bytes=64", "traffic.rate_mrps=2"),
    )
    servers = defaultdict(set)
    for output in generated("packet-steering", 600, *shared):
        servers[output[12:16] + output[20:24]].add(output[16:20])
    assert {len(chosen) for chosen in servers.values()} == {1}

    sequence = [IP(output)[ESP].seq for output in generated("crypto-forwarding", 100, *shared)]
    assert len(set(sequence)) == len(sequence)
    assert sequence != sorted(sequence)


@pytest.mark.sampled
@pytest.mark.parametrize("program", TASKS)
def test_queues_on_several_cores(program: str) -> None:
    """Every item arrives as it does with one core, whatever tells of it."""
    alone = ("data_plane.notify=spin", "server.data_plane_cores=1")
    several = [
        (f"data_plane.notify={notify}", "server.data_plane_cores=3")
        for notify in choices("data_plane.notify")
        if notify != "nanopu"  # It needs other cores: test_every_mechanism.py.
    ]
    seen = []
    for server in (alone, *several):
        result = run(program, 100, "data_plane.queues=6", "traffic.packet_bytes=256", *server)
        assert result["errors"] == 0
        seen.append(Counter(result["captured"]))
    # The last few items may come in another order, and so be captured or not.
    for other in seen[1:]:
        assert (seen[0] & other).total() >= 95


def test_items_that_are_not_in_the_file(sent: Any) -> None:
    with pytest.raises(Failure, match=r"takes blocks out of UDP packets, and none of its 1 IPv4"):
        sent("raid-protection", [bytes(IP(src="10.0.0.1", dst="10.0.0.2") / TCP())])
