"""nanoPU's programs, message by message and byte by byte, against references in Python.

The programs are compiled for this host, against tests/nanopu/lnic.h in place of the registers: the
same code, without the simulator.
"""

import functools
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from nanopu_host import PROGRAMS, ROOT, SCRATCH, compile_for_this_host
from nanopu_reference import (
    WORD,
    Message,
    Service,
    chain,
    jobs,
    later,
    mix,
    payload_of,
    refusal,
    services,
    words_of,
)
from seeds import generator

CLOCK = READY = WORD
"""In place of an application header: time goes on; the program asks for the next message."""

PEER = 0x0A000001_0003
"""Context 3 of 10.0.0.1."""


@functools.cache
def registers() -> Path:
    return compile_for_this_host("lnic.o", "-c", ROOT / "tests" / "nanopu" / "lnic.c")


@functools.cache
def compiled(program: str) -> Path:
    """Compile a program of guest/programs/nanopu, or one that is named by its path."""
    source = PROGRAMS / f"{program}.c"
    return compile_for_this_host(source.stem, "-Dmain=guest_main", source, registers())


def as_words(message: Message) -> bytes:
    """Return a message as the registers have it: the header, and words in this host's order."""
    peer, payload = message
    whole = payload + bytes(-len(payload) % 8)
    words = struct.unpack(f">{len(whole) // 8}Q", whole)
    return struct.pack(f"={1 + len(words)}Q", peer << 16 | len(payload), *words)


def from_words(stream: bytes) -> list[Message]:
    messages, at = [], 0
    while at < len(stream):
        (header,) = struct.unpack_from("=Q", stream, at)
        if header == READY:
            at += 8
            continue
        length = header & 0xFFFF
        count = (length + 7) // 8
        words = struct.unpack_from(f"={count}Q", stream, at + 8)
        messages.append((header >> 16, struct.pack(f">{count}Q", *words)[:length]))
        at += 8 * (1 + count)
    return messages


def execute(program: str, stream: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([compiled(program)], input=stream, capture_output=True, check=False)


def sent(program: str, messages: Sequence[Message]) -> list[Message]:
    """Return what a program sends when these messages come one after the other."""
    done = execute(program, b"".join(map(as_words, messages)))
    assert (done.returncode, done.stderr) == (0, b"")
    return from_words(done.stdout)


def check(program: str, reference: Service, messages: Sequence[Message]) -> list[Message]:
    """What the program sends is what the reference does; returns it."""
    expected = [answer for message in messages for answer in reference.serve(*message)]
    found = sent(program, messages)
    for at, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, f"message {at} of {len(expected)}"
    assert len(found) == len(expected)
    return found


def some_peer(random: Random) -> int:
    return random.getrandbits(48)


def garbage(random: Random, count: int) -> list[Message]:
    """Messages of all lengths that are hardly ever requests."""
    lengths = [0, 1, 7, 8, 9, 16, 24, 2048]
    return [
        (some_peer(random), random.randbytes(random.choice([*lengths, random.randrange(2049)])))
        for _ in range(count)
    ]


def shuffled(random: Random, *lists: Sequence[Message]) -> list[Message]:
    together = [message for each in lists for message in each]
    random.shuffle(together)
    return together


# The registers of this host.

WRONG = """
#include <lnic.h>
int main(void) {
  lnic_add_context(0, 0);
  for (;;) {
    lnic_wait();
    switch (lnic_read() & LEN_MASK) {
    case 8: lnic_read(); lnic_read(); break;
    case 16: lnic_read(); lnic_msg_done(); lnic_msg_done(); break;
    case 24: lnic_wait(); break;
    case 32: lnic_write_r(4096); break;
    case 40: for (int word = 0; word < 5; word++) lnic_read(); lnic_write_r(8); break;
    }
    lnic_msg_done();
  }
}
"""


@pytest.mark.parametrize(
    ("length", "sentence"),
    [
        (8, "reads more words than the message has"),
        (16, "has left 1 words of a message unread"),
        (24, "asks for a message before lnic_msg_done()"),
        (32, "sends a message of 4096 bytes"),
        (40, "a message lacks 1 words"),
    ],
)
def test_wrong_uses_of_the_registers_are_seen(length: int, sentence: str) -> None:
    """Or else no test here would see them."""
    source = SCRATCH / "wrong.c"
    source.write_text(WRONG)
    done = execute(str(source.with_suffix("")), as_words((PEER, bytes(length))))
    assert done.returncode == 1
    assert done.stderr.decode().strip() == sentence


# The small jobs.


def test_loopback_increment() -> None:
    random = generator(1)
    messages = [(some_peer(random), random.randbytes(8 * n)) for n in (1, 2, 3, 128, 255, 256)]
    messages += [(PEER, b"\xff" * 16)]  # Each word comes round to 0.
    found = check("loopback-increment", jobs.LoopbackIncrement(), messages)
    assert found[-1] == (PEER, bytes(16))


LOOPBACK_LENGTHS = (8, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 24, 13, 1)


def test_loopback_unrolled() -> None:
    random = generator(2)
    messages = [(some_peer(random), random.randbytes(length)) for length in LOOPBACK_LENGTHS]
    check("loopback-unrolled", jobs.Loopback(), messages)


def test_loopback_stamped() -> None:
    random = generator(1)
    messages = [(some_peer(random), random.randbytes(length)) for length in LOOPBACK_LENGTHS]
    found = check("loopback-stamped", jobs.LoopbackStamped(), messages)
    assert {payload[-8:] for _, payload in found[:11]} == {messages[0][1]}


def test_stream() -> None:
    random = generator(2)
    messages: list[Message] = []
    for count in (1, 0, 5, 20):
        messages.append((PEER, payload_of([0, count, random.getrandbits(64)])))
        for _ in range(count + 1):  # The last one is more than was configured.
            words = [1, *(random.getrandbits(64) for _ in range(random.randrange(1, 30)))]
            messages.append((PEER, payload_of(words)))
        messages += garbage(random, 3)
    found = check("stream", jobs.Stream(), messages)
    assert found[1] == refusal(PEER)[0]


@pytest.mark.parametrize("program", ["dot-product", "dot-product-naive"])
def test_dot_product(program: str) -> None:
    random = generator(3)
    requests = []
    for count in [0, 1, 2, 253, *(random.randrange(254) for _ in range(60))]:
        factors = [random.getrandbits(64) for _ in range(count)]
        factors = [random.choice((factor, factor % 2048)) for factor in factors]
        stamp = random.getrandbits(64)
        requests.append((some_peer(random), payload_of([1, count, *factors, stamp])))
    wrong = [[1, 2, 0, 1], [1, 0], [2, 1, 0, 1], [1, 2**63, 0, 1], [1, 253], [1]]
    messages = shuffled(random, requests, [(PEER, payload_of(words)) for words in wrong])
    check(program, jobs.DotProduct(), messages + garbage(random, 30))


def test_dot_product_of_two_factors() -> None:
    """Five times the weight with number 5, and 2051 times the one with number 3."""
    (reply,) = sent("dot-product", [(PEER, payload_of([1, 2, 5, 2051, 77]))])
    assert reply == (PEER, payload_of([2, 5 * 5 + 2051 * 3, 77]))


# Services over data in memory. Their requests begin with what a load generator puts there.


def load(random: Random, words: Sequence[int]) -> Message:
    return some_peer(random), payload_of([random.getrandbits(64), random.getrandbits(64), *words])


@pytest.mark.parametrize("program", ["mica", "mica-naive"])
def test_mica(program: str) -> None:
    """Reads and writes of keys that are there, are new, or are never written."""
    random = generator(4)
    keys = [services.key_of(random.randrange(services.KEYS)) for _ in range(40)]
    keys += [(random.getrandbits(64), random.getrandbits(64)) for _ in range(20)]
    keys += [(number, 1) for number in range(5)]  # Almost those of the beginning.
    requests = []
    for _ in range(600):
        key, hashed = random.choice(keys), random.getrandbits(64)
        value = [random.getrandbits(64) for _ in range(services.VALUE_WORDS)]
        is_read = random.random() < 0.5
        words = [1, *key, hashed] if is_read else [2, *key, hashed, *value]
        requests.append(load(random, words))
    wrong = [[3, *keys[0], 0], [1, *keys[0]], [2, *keys[0], 0, *range(63)], [2, *keys[0], 0]]
    wrong += [[1, *keys[0], 0, *range(64)], [2, *keys[0], 0, *range(65)]]
    messages = shuffled(random, requests, [load(random, words) for words in wrong])
    found = check(program, services.Mica(), messages + garbage(random, 30))
    assert {len(payload) for _, payload in found} >= {8, 8 * 3, 8 * 66}


@pytest.mark.parametrize("program", ["mica", "mica-naive"])
def test_mica_has_all_its_first_keys(program: str) -> None:
    random = generator(5)
    requests = [load(random, [1, *services.key_of(key), 0]) for key in range(services.KEYS)]
    check(program, services.Mica(), requests)


def test_rdma() -> None:
    """Few addresses, so that what is there is known and compared with success."""
    random, memory = generator(6), services.Rdma()
    addresses = [8 * random.randrange(services.MEMORY_WORDS) for _ in range(8)]
    addresses += [0, 8 * services.MEMORY_WORDS - 8]
    wrong = [4, 8 * services.MEMORY_WORDS, 2**64 - 8, 2**63]
    expected, messages = [], []
    for _ in range(1500):
        address = random.choice(addresses if random.random() < 0.95 else wrong)
        there = memory.read(address) if random.random() < 0.5 else random.getrandbits(64)
        new = random.choice([*addresses, *wrong, random.getrandbits(64)])
        operands = [[], [new], [there or 0, new], [random.getrandbits(64)], []]
        type_ = random.randrange(5)
        words = [type_ + 1, address, *operands[type_]]
        if random.random() < 0.05:
            words = random.choice([words[:-1], [*words, 0], [0, *words[1:]], [6, *words[1:]]])
        messages.append(load(random, words))
        expected += memory.serve(*messages[-1])
    assert sent("rdma", messages) == expected
    check("rdma", services.Rdma(), garbage(random, 30))


def test_rdma_says_what_was_there() -> None:
    """Compare-and-swap succeeds once; fetch-and-add adds; each answers with what was there."""
    operations = [[2, 80, 5], [3, 80, 5, 7], [3, 80, 5, 9], [4, 80, 10], [1, 80]]
    first = mix(10) % 400_000 * 8
    results = [first, 5, 7, 7, 17]
    messages = [(PEER, payload_of([0, 0, *words])) for words in operations]
    assert sent("rdma", messages) == [(PEER, payload_of([0, 0, 6, was])) for was in results]


def test_set_algebra() -> None:
    random = generator(7)
    counts = [random.randrange(1, 5) for _ in range(400)]
    # Words with small numbers are frequent; hardly any document has four of the others.
    requests = [
        load(
            random, [count, *(int(least * (201 / least) ** random.random()) for _ in range(count))]
        )
        for count in counts
        for least in (1, 100)
    ]
    wrong = [[1, 0], [1, 201], [2, 1, 2**32 + 1], [5, 1, 2, 3, 4, 5], [2, 1], [0], [1, 1, 1]]
    messages = shuffled(random, requests, [load(random, words) for words in wrong])
    found = check("set-algebra", services.SetAlgebra(), messages + garbage(random, 30))
    lengths = {len(payload) // 8 - 3 for _, payload in found}
    assert 0 in lengths  # No document at all,
    assert max(lengths) == max(map(len, services.documents_of()))  # and all of a word.


def test_every_word_of_the_set_algebra() -> None:
    requests = [(PEER, payload_of([0, 0, 1, word])) for word in range(1, services.WORDS + 1)]
    check("set-algebra", services.SetAlgebra(), requests)


def test_hd_search() -> None:
    random = generator(8)
    requests = []
    for _ in range(150):
        numbers = [random.randrange(1, 10_001) for _ in range(random.randrange(1, 6))]
        query = [random.getrandbits(64) for _ in range(16)]
        requests.append(load(random, [*query, len(numbers), *numbers]))
    requests.append(load(random, [2**64 - 1] * 16 + [200, *range(1, 201)]))
    query = [mix(5000 * 16 + place) for place in range(16)]  # That is vector 5001 itself.
    requests.append(load(random, [*query, 3, 5000, 5001, 5001]))
    wrong = [[*query, 1, 0], [*query, 1, 10_001], [*query, 2, 1], [*query, 0], query]
    messages = [*requests, *(load(random, words) for words in wrong), *garbage(random, 30)]
    found = check("hd-search", services.HdSearch(), messages)
    assert found[151][1][16:] == payload_of([5001])


# Replicated services.


def test_a_leader_of_three_replicates_a_write() -> None:
    """Its life, message by message: election, a write, a read, and what others are told."""
    client, servers = PEER, [0x0A000002_0000, 0x0A000003_0000, 0x0A000004_0001]
    key, value = [11, 12], [*range(20, 28)]

    def from_server(number: int, *words: int) -> Message:
        return servers[number], payload_of([0, 0, *words])

    where = [server << 16 for server in servers]
    messages = [
        (client, payload_of([5, 6, 2, *key, *value])),  # It does not know who it is.
        (client, payload_of([1, 2, 1, 0, 3, *where])),
        (client, payload_of([5, 6, 2, *key, *value])),  # There is no leader.
    ]
    later = struct.pack("=2Q", CLOCK, 2 * TIMEOUT_CYCLES)  # It stands for term 1.
    more = [
        from_server(1, 17, 1, 1, 1),  # A vote: the leader, with an empty command at index 1.
        from_server(1, 19, 1, 1, 1, 1),
        (client, payload_of([7, 8, 2, *key, *value])),
        from_server(2, 19, 2, 1, 0, 1),  # It has nothing, and wants all from index 1.
        from_server(1, 19, 1, 1, 1, 2),  # Two of three have it: the client has its answer.
        (client, payload_of([9, 10, 3, *key])),
        from_server(2, 19, 2, 1, 1, 3),
        (client, payload_of([9, 10, 3, 1, 1])),
        from_server(1, 19, 1, 1, 1, 4),
        from_server(2, 16, 2, 2, 4, 1),  # A newer term: it is the leader no more.
        (client, payload_of([9, 10, 3, *key])),
        from_server(2, 18, 2, 2, 4, 1, 4, 0),
        (client, payload_of([9, 10, 3, *key])),
        (client, payload_of([9, 10, 4, *key])),
    ]
    stream = b"".join(map(as_words, messages)) + later + b"".join(map(as_words, more))
    done = execute("raft", stream)
    assert (done.returncode, done.stderr) == (0, b"")

    nothing, write, read = [1] + [0] * 11, [1, 2, *key, *value], [1, 3, *key] + [0] * 8
    missing = [1, 3, 1, 1] + [0] * 8

    def to_server(number: int, *words: int) -> Message:
        return from_server(number, *words)

    def append(to: int, previous: int, commit: int, *entries: list[int]) -> Message:
        words = [word for entry in entries for word in entry]
        term = 1 if previous else 0
        return to_server(to, 18, 0, 1, previous, term, commit, len(entries), *words)

    assert from_words(done.stdout) == [
        refusal(client)[0],
        (client, payload_of([1, 2, 1])),
        (client, payload_of([5, 6, 3, 0])),
        to_server(1, 16, 0, 1, 0, 0),
        to_server(2, 16, 0, 1, 0, 0),
        append(1, 0, 0, nothing),
        append(2, 0, 0, nothing),
        append(1, 1, 1, write),
        append(2, 1, 1, write),
        append(2, 0, 1, nothing, write),
        (client, payload_of([7, 8, 1])),
        append(1, 2, 2, read),
        append(2, 2, 2, read),
        (client, payload_of([9, 10, 1, *value])),
        append(1, 3, 3, missing),
        append(2, 3, 3, missing),
        (client, payload_of([9, 10, 2])),
        to_server(2, 17, 0, 2, 1),
        (client, payload_of([9, 10, 3, 0])),
        to_server(2, 19, 0, 2, 1, 4),
        (client, payload_of([9, 10, 3, servers[2] << 16])),
        refusal(client)[0],
    ]


def test_a_cluster_of_one_is_a_store() -> None:
    random, values = generator(9), {}
    messages, expected = [(PEER, payload_of([0, 0, 1, 0, 1, 0]))], [(PEER, payload_of([0, 0, 1]))]
    stream = as_words(messages[0]) + struct.pack("=2Q", CLOCK, 2 * TIMEOUT_CYCLES)
    for _ in range(1000):
        key = (random.randrange(30), random.choice((0, 2**64 - 1)))
        peer, payload = load(random, [])
        if random.random() < 0.5:
            value = [random.getrandbits(64) for _ in range(8)]
            values[key] = value
            words, answer = [2, *key, *value], [1]
        else:
            words, answer = [3, *key], [1, *values[key]] if key in values else [2]
        stream += as_words((peer, payload + payload_of(words)))
        expected.append((peer, payload + payload_of(answer)))
    for message in garbage(random, 30):
        stream += as_words(message)
        expected += refusal(message[0])
    done = execute("raft", stream)
    assert (done.returncode, done.stderr) == (0, b"")
    assert from_words(done.stdout) == expected


CLIENT = 0x0A000001_0007
SERVERS = [0x0A000002_0000, 0x0A000003_0000, 0x0A000004_0001]
TIMEOUT_CYCLES = 16_000_000
"""The shortest time after which a server of `raft` stands for election."""

RACK = [0x0A000001_0000, 0x0A000002_0000, 0x0A000003_0000, 0x0A000004_0000]
"""Servers in the order of a rack's addresses; the last one is the client."""


class Rack:
    """Running programs, the last one a client, and a network that delivers in any order."""

    def __init__(self, random: Random, programs: Sequence[str]) -> None:
        self.random = random
        self.client = RACK[len(programs) - 1]
        pipe = subprocess.PIPE
        self.programs = {
            server: subprocess.Popen([compiled(program)], stdin=pipe, stdout=pipe, stderr=pipe)
            for server, program in zip(RACK, programs, strict=False)
        }
        self.flying: list[tuple[int, Message]] = []
        self.delivered = 0
        for server in list(self.programs):
            self.read(server)

    def read(self, server: int) -> bool:
        """Read what a program sends until it asks for more; whether it does."""
        stream = self.programs[server].stdout
        assert stream is not None
        while header := stream.read(8):
            if header == struct.pack("=Q", READY):
                return True
            words = (int.from_bytes(header, sys.byteorder) & 0xFFFF) // 8
            ((to, payload),) = from_words(header + stream.read(8 * words))
            self.flying.append((to, (server, payload)))
        return False

    def give(self, server: int, stream: bytes) -> bool:
        pipe = self.programs[server].stdin
        assert pipe is not None
        pipe.write(stream)
        pipe.flush()
        return self.read(server)

    def run(self, cycles_a_step: int) -> str:
        """Run until the client ends; return what it prints."""
        going = True
        while going:
            if self.flying:
                to, message = self.flying.pop(self.random.randrange(len(self.flying)))
                self.delivered += 1
                # It takes time, which the client measures.
                going = self.give(self.client, struct.pack("=2Q", CLOCK, 100))
                if going and to in self.programs:
                    going = self.give(to, as_words(message)) or to != self.client
                self.on_delivery(message)
            else:
                for server in self.programs:
                    going &= self.give(server, struct.pack("=2Q", CLOCK, cycles_a_step))
        program = self.programs.pop(self.client)
        _, printed = program.communicate()
        text = printed.decode()
        assert program.returncode == 0, text
        for server in list(self.programs):
            self.stop(server)
        return text

    def on_delivery(self, message: Message) -> None:
        """A message has been delivered."""

    def stop(self, server: int) -> None:
        program = self.programs.pop(server)
        program.kill()
        _, printed = program.communicate()
        assert printed == b""


def with_requests(program: str, requests: int) -> str:
    """Return a program that sends so many requests."""
    source = SCRATCH / f"{program}-{requests}.c"
    source.write_text(f'#define REQUESTS {requests}\n#include "{PROGRAMS}/{program}.c"\n')
    return str(source.with_suffix(""))


@pytest.mark.parametrize("stop_after", [0, 100, 333, 444])
def test_the_client_of_raft(stop_after: int) -> None:
    """It finds the leader, also when that stops with a request on its way, and its writes."""
    stopped: list[int] = []

    class Stopping(Rack):
        def on_delivery(self, message: Message) -> None:
            is_of_a_leader = words_of(message[1])[2] == 18  # Entries.
            if 0 < stop_after <= self.delivered and is_of_a_leader and not stopped:
                stopped.append(message[0])
                self.stop(message[0])

    client = with_requests("raft-client", 60)
    printed = Stopping(Random(stop_after), ["raft", "raft", "raft", client]).run(2**20)
    assert len(stopped) == (stop_after > 0)
    assert printed.startswith("raft writes: 60, cycles p50 ")


def all_took(what: str, cycles: int) -> str:
    """Return what a client prints of thirty requests that took the same time."""
    percentiles = [f"p{percent} {cycles} ({cycles} to {cycles})" for percent in (50, 90, 99)]
    return f"{what}: 30, cycles {' '.join(percentiles)} longest {cycles}"


def test_the_client_of_chain_replication() -> None:
    """A write has four messages and a read two, each of which takes 100 cycles here."""
    rack = Rack(Random(1), [*["chain-replication"] * 3, with_requests("chain-client", 30)])
    assert rack.run(2**10).splitlines() == [
        all_took("chain writes", 400),
        all_took("chain reads", 200),
    ]


def test_the_client_of_rdma() -> None:
    printed = Rack(Random(1), ["rdma", with_requests("rdma-client", 30)]).run(2**10)
    operations = ["read", "indirect read", "write", "compare-and-swap", "fetch-and-add"]
    assert printed.splitlines() == [all_took(operation, 200) for operation in operations]


@dataclass
class Chain:
    """Servers, and a network that delivers each message once, in any order."""

    random: Random
    servers: dict[int, chain.Server] = field(
        default_factory=lambda: {server: chain.Server() for server in SERVERS}
    )
    flying: list[tuple[int, Message]] = field(default_factory=list)
    """For whom, and then from whom and what."""
    taken: dict[int, list[Message]] = field(
        default_factory=lambda: {server: [] for server in SERVERS}
    )
    answers: list[list[int]] = field(default_factory=list)

    def step(self) -> None:
        to, (sender, payload) = self.flying.pop(self.random.randrange(len(self.flying)))
        if to == CLIENT:
            self.answers.append(words_of(payload))
            return
        self.taken[to].append((sender, payload))
        for receiver, answer in self.servers[to].serve(sender, payload):
            self.flying.append((receiver, (to, answer)))


@pytest.mark.parametrize("seed", range(5))
def test_chain_replication(seed: int) -> None:
    """Writes and reads of few keys overtake each other, and a server is taken off the chain.

    The references are servers of a random network; then the program is given what each has taken.
    """
    random = generator(seed)
    network = Chain(random)
    chain_now = list(SERVERS)
    answered: dict[int, int] = {}
    """The highest number of a write that the client has an answer to, by key."""
    begun: dict[int, tuple[int, int]] = {}
    """Reads: their key, and what was answered when they were sent."""
    checked = writes = 0
    for number in range(1, 600):
        if number == 300:  # All that was on its way arrives, and then a server stops for good.
            while network.flying:
                network.step()
            chain_now.remove(random.choice(chain_now))
        key = random.randrange(6)
        if random.random() < 0.6:
            words = chain.write(CLIENT, chain_now, (key, ~key & WORD), [number] * 8)
            network.flying.append((chain_now[0], (CLIENT, payload_of([0, number, *words]))))
            writes += 1
        else:
            begun[number] = key, answered.get(key, 0)
            words = chain.read(CLIENT, (key, ~key & WORD))
            network.flying.append((chain_now[-1], (CLIENT, payload_of([0, number, *words]))))
        for _ in range(random.randrange(6)):
            if network.flying:
                network.step()
        for answer in network.answers[checked:]:
            head, answered_key = answer[2], answer[3]
            if head >> 56 == chain.WRITE:
                answered[answered_key] = max(answered.get(answered_key, 0), head >> 48 & 0xFF)
            else:  # A read sees all writes that were answered before it was sent.
                assert begun[answer[1]][0] == answered_key
                assert head >> 48 & 0xFF >= begun[answer[1]][1]
        checked = len(network.answers)
    while network.flying:
        network.step()
    # Each request has one answer, and all servers of the chain have the same.
    assert sorted(answer[1] for answer in network.answers) == list(range(1, 600))
    contents = [network.servers[server].values for server in chain_now]
    assert contents[0] == contents[1]
    assert writes > 300
    for server in SERVERS:
        check("chain-replication", chain.Server(), network.taken[server])


def test_chain_replication_of_what_is_no_request() -> None:
    random = generator(10)
    good = chain.write(CLIENT, SERVERS, (1, 2), [3] * 8)
    wrong = [
        good[:-1],
        [*good, 0],
        [good[0] | chain.READ << 56, *good[1:]],  # Both a read and a write.
        [good[0] & ~(chain.WRITE << 56), *good[1:]],  # Neither.
        [good[0] ^ 7 << 40, *good[1:]],  # Five servers, and words for two.
        [good[0] & ~(chain.WRITE << 56) | chain.READ << 56, *good[1:]],  # A read along a chain.
    ]
    messages = [load(random, words) for words in wrong] + garbage(random, 40)
    found = check("chain-replication", chain.Server(), messages)
    assert found == [refusal(peer)[0] for peer, _ in messages]


# The others.


def test_n_body() -> None:
    random = Random(11)
    messages: list[Message] = []
    for count in (0, 1, 30, 3):
        center = [random.randrange(2**26) for _ in range(2)]
        messages.append((PEER, payload_of([0, *center, count, random.getrandbits(64)])))
        for _ in range(count + 1):  # The last one is more than was configured.
            near = [max(0, at - random.randrange(3)) for at in center]
            far = [random.randrange(2**26) for _ in range(2)]
            place = random.choice((near, far, center))
            messages.append((some_peer(random), payload_of([1, *place, random.getrandbits(64)])))
    messages += [(PEER, payload_of(words)) for words in ([1, 2**26, 0, 0], [0, 0, 2**63, 1, 1])]
    messages += [(PEER, payload_of(words)) for words in ([0, 1, 2, 5, 6], [1, 3, 4, 0], [1, 3, 4])]
    found = check("n-body", later.NBody(), messages + garbage(random, 20))
    # (3 - 1)^2 + (4 - 2)^2 = 8, and the force is 1/8.
    assert (PEER, payload_of([2, 0x3FC0000000000000, 6])) in found


def test_path_latency() -> None:
    """Few flows in 256 places, so that they keep theirs; then many, which take them away."""
    random = Random(12)

    def report(flows: int) -> Message:
        flow, hops = mix(random.randrange(flows)), random.randrange(1, 7)
        rest = flow & ~0xFF | hops if flow % 3 else hops
        typical = flow % 1000
        latencies = [typical + random.randrange(500) for _ in range(hops)]
        words = [flow, rest, *(random.getrandbits(32) << 32 | each for each in latencies)]
        return some_peer(random), payload_of(words)

    messages = [report(10) for _ in range(500)] + [report(1000) for _ in range(1000)]
    wrong = [[1, 0], [1, 7, *range(7)], [1, 3, 0, 0], [1, 2, 0, 0, 0], [1]]
    messages += [(PEER, payload_of(words)) for words in wrong] + garbage(random, 20)
    found = check("path-latency", later.PathLatency(), messages)
    kinds = [payload[7] for _, payload in found]
    assert kinds.count(2) == 1500 // 50
    assert 100 < kinds.count(1) < 1400  # Some reports are events, and others are none.


def test_path_latency_of_one_flow() -> None:
    """An event at first, none at 1000 ns from the mean, one at 1001, above it and below."""
    latencies = [500, 2500, 3001, 665, 666, *[4000] * 8]
    messages = [(PEER, payload_of([7, 1, each])) for each in latencies]
    events = [
        [1, 7, 0, 500, 0],
        [1, 7, 0, 3001, 2000],
        [1, 7, 0, 665, 1666],
        [1, 7, 0, 4000, 1888],
        [1, 7, 0, 4000, 2190],
        [1, 7, 0, 4000, 2416],
        [1, 7, 0, 4000, 2592],
        [1, 7, 0, 4000, 2733],
        # The next mean is 3083, without the first latency. With it there would be one more event.
    ]
    assert sent("path-latency", messages) == [(PEER, payload_of(each)) for each in events]


def test_classifier() -> None:
    """Headers that some rule was made for, those beside it, and any."""
    random = Random(13)
    rules = later.rules()
    requests = []
    for number in range(160):
        masks, prefixes = rules[[0, 2], :], rules[[1, 3], :]
        rule = random.randrange(later.RULES) if number % 4 else random.randrange(100)
        source, destination = (
            int(prefixes[side, rule]) | random.getrandbits(32) & ~int(masks[side, rule])
            for side in (0, 1)
        )
        low, high, other_low, other_high, protocol = (int(rules[at, rule]) for at in range(4, 9))
        port = random.choice((low, high, random.randint(low, high), max(0, low - 1)))
        other = random.choice((other_low, other_high, random.randint(other_low, other_high)))
        protocol = protocol or random.choice((1, 6, 17))
        if number % 10 == 0:
            source = random.getrandbits(32)
        words = [source << 32 | destination, port << 32 | other, protocol << 32]
        requests.append(load(random, [number << 32 | random.getrandbits(32), *words]))
    found = check("classifier", later.Classifier(), requests + garbage(random, 20))
    results = [int.from_bytes(payload[20:24], "big") for _, payload in found[:160]]
    assert 0 < sum(result == 0xFFFFFFFF for result in results) < 50
    assert len(set(results)) > 80


def test_each_hundredth_rule_is_found_where_no_earlier_one_matches() -> None:
    """A header made of the lowest numbers of a rule matches that rule or an earlier one."""
    rules = later.rules()[:, ::100]
    requests = []
    for at in range(rules.shape[1]):
        _, source, _, destination, port, _, other, _, protocol = (
            int(each) for each in rules[:, at]
        )
        words = [source << 32 | destination, port << 32 | other, (protocol or 1) << 32]
        requests.append((PEER, payload_of([0, 0, at << 32, *words])))
    found = sent("classifier", requests)
    results = [int.from_bytes(payload[20:24], "big") for _, payload in found]
    assert all(result <= 100 * at for at, result in enumerate(results))
    assert sum(result == 100 * at for at, result in enumerate(results)) > 900


OPENING = (1 << 28 | 1 << 35, 1 << 27 | 1 << 36)
"""Black is to move."""


def random_position(random: Random, moves: int) -> later.Position:
    position = later.squares_of(OPENING[0]), later.squares_of(OPENING[1])
    for _ in range(moves):
        if children := later.children_of(position):
            position = random.choice(children)
    return position


@dataclass
class Players:
    """Servers that search together, and a network that delivers in any order."""

    random: Random
    servers: list[int]
    client: int = CLIENT

    def __post_init__(self) -> None:
        self.references = [later.Othello() for _ in self.servers]
        self.taken: list[list[Message]] = [[] for _ in self.servers]
        where = [server << 16 for server in self.servers]
        for number in range(len(self.servers)):
            words = [2, number, len(where), *where]
            assert self.give(number, (self.client, payload_of(words))) == [
                (self.client, payload_of([2]))
            ]

    def give(self, number: int, message: Message) -> list[Message]:
        self.taken[number].append(message)
        return self.references[number].serve(*message)

    def search(self, position: later.Position, ahead: int) -> int:
        own, other = (later.bits_of(side) for side in position)
        words = [0, own, other, ahead, self.client << 16, 77, 88]
        flying = [(self.servers[0], (self.client, payload_of(words)))]
        results = []
        while flying:
            to, message = flying.pop(self.random.randrange(len(flying)))
            if to == self.client:
                results.append(words_of(message[1]))
                continue
            for receiver, payload in self.give(self.servers.index(to), message):
                flying.append((receiver, (to, payload)))
        ((kind, where, number, value, time),) = results
        assert (kind, where, number, time) == (1, self.client << 16, 77, 88)
        return value - 2**64 if value >> 63 else value


@pytest.mark.parametrize("servers", [1, 3])
def test_othello(servers: int) -> None:
    """Positions of all parts of a game: the servers' value is that of a search in one place."""
    random = generator(14)
    players = Players(random, SERVERS[:servers])
    cases = [(moves, 1 + at % 3) for at, moves in enumerate(range(0, 60, 4))]
    for moves, ahead in [*cases, (54, 6), (56, 10), (60, 3)]:
        position = random_position(random, moves)
        assert players.search(position, ahead) == later.value_of(position, ahead)
    for number in range(servers):
        check("othello", later.Othello(), players.taken[number])


def test_othello_passes() -> None:
    """Late positions in which who is to move has to pass, and the other can go on."""
    random, players, passes = Random(16), Players(Random(1), SERVERS[:1]), 0
    while passes < 3:
        position = random_position(random, 50)
        while children := later.children_of(position):
            if not later.moves_of(position):
                passes += 1
                assert players.search(position, 3) == later.value_of(position, 3)
            position = random.choice(children)
    check("othello", later.Othello(), players.taken[0])


def test_othello_counts_the_games_of_the_opening() -> None:
    """4, 12, 56, 244: how many positions there are after one move and more is well known."""
    positions = [(later.squares_of(OPENING[0]), later.squares_of(OPENING[1]))]
    counts = []
    for _ in range(4):
        positions = [child for position in positions for child in later.children_of(position)]
        counts.append(len(positions))
    assert counts == [4, 12, 56, 244]


def test_othello_without_places_searches_itself() -> None:
    """More maps than can wait: the rest have their reduce at once, with the same value."""
    value = later.value_of((later.squares_of(OPENING[0]), later.squares_of(OPENING[1])), 2)
    messages = [(PEER, payload_of([2, 0, 1, SERVERS[0] << 16]))]
    messages += [
        (PEER, payload_of([0, *OPENING, 2, PEER << 16, number, 0])) for number in range(1030)
    ]
    found = sent("othello", messages)
    maps = [payload for _, payload in found if payload[7] == 0]
    reduces = [words_of(payload) for _, payload in found[1:] if payload[7] == 1]
    assert len(maps) == 4 * 1024
    assert reduces == [[1, PEER << 16, number, value & WORD, 0] for number in range(1024, 1030)]


def test_othello_refuses_what_is_no_message() -> None:
    random = generator(15)
    configured = (PEER, payload_of([2, 0, 1, SERVERS[0] << 16]))
    good = [0, *OPENING, 2, PEER << 16, 5, 6]
    wrong = [
        [0, 1, 1, 2, PEER << 16, 5, 6],  # Two discs on a square.
        [0, *OPENING, 0, PEER << 16, 5, 6],
        [0, *OPENING, 61, PEER << 16, 5, 6],
        good[:-1],
        [1, PEER << 16, 0, 0, 0],  # Nobody waits.
        [1, PEER << 16, 1024, 0, 0],
        [2, 1, 1, 0],
        [2, 0, 2, 0],
        [2, 0, 129, *[0] * 129],
        [3, 0],
    ]
    messages = [(PEER, payload_of(good)), configured]  # Nobody is known at first.
    messages += [load(random, [])] + [(PEER, payload_of(words)) for words in wrong]
    found = check("othello", later.Othello(), messages + garbage(random, 30))
    assert [payload for _, payload in found[:1]] == [refusal(PEER)[0][1]]
    assert len(found) == len(messages) + 30
