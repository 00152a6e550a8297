"""What the key-value stores answer, byte by byte, against a dictionary and a sorted list."""

import bisect
import functools
import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from command_line import completed
from nanoplane import Description, compiler, simulator
from nanoplane.errors import DescriptionError, Failure
from seeds import generator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
STORES = ("key-value", "ordered-store")
GET, PUT, SCAN = 0, 1, 2
DONE, NOT_FOUND, NO_ROOM = 0, 1, 2
WORD = 2**64 - 1


@functools.cache
def elf(program: str) -> bytes:
    """Build a built-in program, or the file with this path."""
    if program.endswith(".c"):
        return compiler.build(Path(program))
    return compiler.build(ROOT / "guest" / "programs" / f"{program}.c")


def run(program: str, capture: int = 0, *assignments: str) -> Mapping[str, Any]:
    tables = {
        "server": {"preset": "hyperplane-table1"},
        "data_plane": {"program": program, "notify": "hyperplane", "queues": 1},
        "traffic": {"rate_mrps": 0.05, "operations": {"keys": 1000}},
        "measure": {"requests": max(100, capture), "warmup": 0},
    }
    description = Description.from_dict(tables)
    for assignment in assignments:
        description = description.assign(assignment)
    resolved, options = description.resolve(), {"capture_packets": capture}
    return simulator.run(resolved.data, elf(program), options, files=resolved.contents())


# Requests and replies, as guest/include/operations.h has them.


def mix(number: int) -> int:
    """Return one step of SplitMix64."""
    mixed = (number + 0x9E3779B97F4A7C15) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return mixed ^ mixed >> 31


def key_of(number: int) -> bytes:
    first = mix(number)
    return struct.pack("<QQ", first, mix(first))


def first_value(key: bytes, length: int = 32) -> bytes:
    (second,) = struct.unpack("<8xQ", key)
    words = (mix((second + at) & WORD) for at in range(0, length, 8))
    return b"".join(struct.pack("<Q", word) for word in words)[:length]


def first_content(keys: int, length: int = 32) -> dict[bytes, bytes]:
    return {key: first_value(key, length) for key in map(key_of, range(keys))}


def request(number: int, operation: int, key: bytes, more: int | bytes = 0) -> bytes:
    value = more if isinstance(more, bytes) else b""
    count = more if isinstance(more, int) else len(more)
    return struct.pack("<BBHI", operation, len(key), count, number) + key + value


def reply(number: int, operation: int, status: int, count: int = 0, data: bytes = b"") -> bytes:
    return struct.pack("<BBHI", status, operation, count, number) + data


def pair(key: bytes, value: bytes) -> bytes:
    data = struct.pack("<II", len(key), len(value)) + key + value
    return data + bytes(-len(data) % 8)


def answers(content: dict[bytes, bytes], requests: Sequence[bytes]) -> Iterator[bytes]:
    """Answer requests one after the other as a dictionary does; it changes."""
    for one in requests:
        operation, key_bytes, more, number = struct.unpack("<BBHI", one[:8])
        key, value = one[8 : 8 + key_bytes], one[8 + key_bytes :]
        if operation == PUT:
            content[key] = value
            yield reply(number, PUT, DONE)
        elif operation == SCAN:
            ordered = sorted(content)
            begin = bisect.bisect_left(ordered, key)
            found = [pair(each, content[each]) for each in ordered[begin : begin + more]]
            yield reply(number, SCAN, DONE, len(found), b"".join(found))
        elif key in content:
            yield reply(number, GET, DONE, len(content[key]), content[key])
        else:
            yield reply(number, GET, NOT_FOUND)


@pytest.fixture
def sent(tmp_path: Path) -> Callable[..., list[bytes]]:
    """What a store answers to requests that come in UDP packets, in the order of the answers."""

    def send(program: str, requests: Sequence[bytes], *assignments: str) -> list[bytes]:
        head = functools.partial(struct.pack, ">BBHHHBBHIIHHHH")
        packets = [
            head(0x45, 0, 28 + len(one), 0, 0, 64, 17, 0, 1, 2, 3, 4, 8 + len(one), 0) + one
            for one in requests
        ]
        path = tmp_path / "requests.pcap"
        records = (struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in packets)
        header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
        path.write_bytes(header + b"".join(records))
        result = run(
            program,
            len(requests),
            f"traffic.packets={path}",
            "traffic.packet_bytes=6000",
            *assignments,
        )
        assert result["dropped"] == 0
        return [bytes.fromhex(text) for text in result["captured"]]

    return send


# One hart: what a dictionary and a sorted list say.


@pytest.mark.parametrize("program", STORES)
def test_what_a_store_has_from_the_beginning(program: str) -> None:
    """All that is generated is found; a value tells whose it is, for no two are the same."""
    result = run(program, 300, "traffic.operations.gets=1.0", "traffic.operations.value_bytes=13")
    values = set(first_content(1000, 13).values())
    assert result["errors"] == 0
    if program == "key-value":
        assert result["program_counters"] == {"keys_given_up_at_first": 0}
    for text in result["captured"]:
        answer = bytes.fromhex(text)
        assert answer[:4] == bytes([DONE, GET, 13, 0])
        assert answer[8:] in values
    kinds = result["by_kind"]
    assert list(kinds) == ["get"]
    assert kinds["get"]["service_ns"] == result["service_ns"]


def test_gets_and_puts_of_the_hash_table(sent: Any) -> None:
    """Values of all lengths, of keys that are there, new, or never put."""
    random = generator(1)
    keys = [key_of(number) for number in range(990, 1030)]
    requests = []
    for number in range(500):
        key = random.choice(keys)
        value = random.randbytes(random.choice((0, 1, 31, 32, 40, 41, 104, 105, 300)))
        is_put = random.random() < 0.5
        requests.append(request(number, PUT, key, value) if is_put else request(number, GET, key))
    replies = sent("key-value", requests, "data_plane.parameters.log_kib=1024")
    assert replies == list(answers(first_content(1000), requests))


def test_a_log_that_comes_round_gives_up_the_oldest_keys(sent: Any) -> None:
    """4 KiB have 64 items of a line: the last 60 keys are there, and older ones are not.

    A full bucket may give up one earlier, but hardly two of sixty: the index has 512 buckets for
    the 1000 keys that the description tells of. Whatever is found is right.
    """
    random = Random(2)
    requests, content = [], {}
    for number in range(400):
        key = key_of(10_000 + number)
        content[key] = random.randbytes(20 + number % 20)
        requests.append(request(number, PUT, key, content[key]))
    requests += [request(400 + at, GET, key) for at, key in enumerate(content)]
    replies = sent("key-value", requests, "data_plane.parameters.log_kib=4")
    assert all(one[0] == DONE for one in replies[:400])
    found = [one[0] == DONE for one in replies[400:]]
    for one, value, is_found in zip(replies[400:], content.values(), found, strict=True):
        assert not is_found or one[8:] == value
    assert sum(found[-60:]) >= 58
    assert sum(found[:330]) == 0


def words(random: Random) -> bytes:
    """Return a key of few letters, so that many have slices, or all but the end, in common."""
    length = random.choice((0, 1, 7, 8, 8, 9, 15, 16, 16, 17, 24, 30, 200))
    begin = b"a" * random.choice((0, 4, 8, 16, 24))
    return (begin + bytes(random.choice(b"ab\x00\xff") for _ in range(length)))[:length]


def some_operations(random: Random, count: int, keys: Sequence[bytes]) -> list[bytes]:
    requests = []
    for number in range(count):
        key = random.choice(keys)
        choice = random.random()
        if choice < 0.5:
            value = random.randbytes(random.choice((0, 8, 32, 33, 100)))
            requests.append(request(number, PUT, key, value))
        elif choice < 0.8:
            requests.append(request(number, GET, key))
        else:
            requests.append(request(number, SCAN, key, random.choice((0, 1, 5, 30))))
    return requests


@pytest.mark.parametrize("seed", [3, 4])
def test_the_ordered_store_is_a_sorted_list(sent: Any, seed: int) -> None:
    """Keys of all lengths up to 200 bytes, in many layers; with few first keys the root splits."""
    random = generator(seed)
    keys = [words(random) for _ in range(400)] + [key_of(number) for number in range(20)]
    requests = some_operations(random, 900, keys)
    # At last everything, once.
    requests += [request(900, SCAN, b"", 10), request(901, SCAN, b"\xff" * 255, 10)]
    replies = sent("ordered-store", requests, "traffic.operations.keys=15")
    assert replies == list(answers(first_content(15), requests))


@pytest.mark.parametrize("order", [1, -1])
def test_keys_that_come_in_order(sent: Any, order: int) -> None:
    """Each split is at an end of the tree; 300 keys take three levels of nodes."""
    keys = [struct.pack(">I", number) for number in range(300)][::order]
    requests = [request(at, PUT, key, key * 2) for at, key in enumerate(keys)]
    requests += [request(300 + at, GET, key) for at, key in enumerate(keys[::7])]
    requests += [request(400 + at, SCAN, keys[at], 100) for at in (0, 150, 290)]
    replies = sent("ordered-store", requests, "traffic.operations.keys=1")
    content = first_content(1)
    assert replies == list(answers(content, requests))


def test_what_does_not_fit_is_refused(sent: Any) -> None:
    """What there is for the first key, and 4 KiB, are full after some values of 1000 bytes."""
    key, more = key_of(0), [key_of(number) for number in range(10, 60)]
    requests = [request(at, PUT, each, bytes(1000)) for at, each in enumerate(more)]
    requests += [request(90, PUT, key, b"x" * 30), request(91, GET, key)]
    requests += [request(92, PUT, key, bytes(3000)), request(93, GET, key)]
    replies = sent(
        "ordered-store",
        requests * 5,
        "traffic.operations.keys=1",
        "data_plane.parameters.spare_kib=4",
    )[: len(requests)]
    statuses = [one[0] for one in replies]
    assert statuses[0] == DONE
    assert statuses[len(more) - 1] == NO_ROOM
    assert statuses[-4:] == [DONE, DONE, NO_ROOM, DONE]
    assert replies[-3][8:] == replies[-1][8:] == b"x" * 30


@pytest.mark.parametrize("program", STORES)
def test_what_is_no_request_is_an_error(sent: Any, program: str) -> None:
    key = key_of(1)
    whole = request(1, PUT, key, b"value")
    wrong = [b"", whole[:1], whole[:7], whole[:-1], whole + b"x", request(1, 3, key)]
    wrong += [request(1, GET, key)[:-1], request(1, SCAN, key, 5) + b"x"]
    if program == "key-value":
        wrong += [request(1, SCAN, key, 5), request(1, GET, key[:15]), request(1, GET, key + b"x")]
    good = request(9, GET, key)
    replies = sent(program, [*wrong, good] * 10)
    once = [b""] * len(wrong) + [reply(9, GET, DONE, 32, first_value(key))]
    assert replies == once * 10


# Several harts at the same keys.


def value_for(key: bytes, number: int) -> bytes:
    """Return a value that tells what it is of in each of its words, as long as the number says."""
    length = 8 * (1 + number % 12)
    return struct.pack("<II", number, sum(key) + len(key)) * (length // 8)


@pytest.mark.parametrize("program", STORES)
@pytest.mark.parametrize("notify", ["hyperplane", "spin"])
def test_harts_that_meet_at_keys(sent: Any, program: str, notify: str) -> None:
    """Four harts, few keys, as fast as they can: no value is torn, of another key, or never put.

    Scans have their keys in order, each once, and no key is missing that was always there.
    """
    random = generator(5)
    if program == "key-value":
        keys = [key_of(number) for number in range(12)]
    else:
        keys = [b"prefix--" * (number % 3) + b"%02d" % number for number in range(60)]
    first = [request(at, PUT, key, value_for(key, at)) for at, key in enumerate(keys)]
    requests = list(first)
    while len(requests) < 600:
        number, key = len(requests), random.choice(keys)
        choice = random.random()
        if choice < 0.5:
            requests.append(request(number, PUT, key, value_for(key, number)))
        elif choice < 0.8 or program == "key-value":
            requests.append(request(number, GET, key))
        else:
            requests.append(request(number, SCAN, key, 8))
    # One bucket for twelve keys, and logs that come round.
    few = ["data_plane.parameters.log_kib=2"] if program == "key-value" else []
    replies = sent(
        program,
        requests,
        *few,
        "traffic.operations.keys=1",
        "traffic.rate_mrps=8.0",
        "traffic.queue_capacity=512",
        "traffic.packet_bytes=1000",
        "server.data_plane_cores=4",
        f"data_plane.notify={notify}",
        "data_plane.organisation=scale-up",
        "data_plane.queues=8",
        "traffic.shape=fully-balanced",
    )
    by_number = {struct.unpack("<4xI", one[:8])[0]: one for one in replies}
    content = first_content(1)
    ordered = sorted([*keys, *content])

    def check(key: bytes, value: bytes) -> None:
        if value == content.get(key):
            return
        put = struct.unpack("<I", value[:4])[0]
        assert value == value_for(key, put)
        assert requests[put][8 : 8 + len(key)] == key

    # Queues are not equally long, so a put may be done after a scan that was sent later. Three
    # other harts answer far fewer than 100 requests during one scan.
    answered = {number: at for at, number in enumerate(by_number)}
    all_put = max(answered.get(number, len(requests)) for number in range(len(first))) + 100

    served = scans = 0
    for number in range(len(first), len(requests)):
        one = by_number.get(number)
        if one is None:  # What is captured are the first ones that were done.
            continue
        key = requests[number][8 : 8 + requests[number][1]]
        if one[1] == GET and one[0] == DONE:
            served += 1
            check(key, one[8:])
        elif one[1] == SCAN:
            at, found = 8, []
            while at < len(one):
                key_bytes, value_bytes = struct.unpack("<II", one[at : at + 8])
                found.append(one[at + 8 : at + 8 + key_bytes])
                check(found[-1], one[at + 8 + key_bytes : at + 8 + key_bytes + value_bytes])
                at += 8 + key_bytes + value_bytes + -(key_bytes + value_bytes) % 8
            begin = bisect.bisect_left(ordered, key)
            assert found == sorted(set(found))
            if answered[number] > all_put:
                scans += 1
                assert found == ordered[begin : begin + 8]
    assert served > 100
    assert scans > 10 or program == "key-value"


def test_harts_that_check_what_they_find() -> None:
    """The same without queues, which keep harts apart: they meet some hundred times as often."""
    done = completed("exec", ROOT / "guest/tests/stores.c", "--set", "server.fabric.cores=4")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "The stores are right.\n"


# What a run tells.


def test_kinds_are_told_apart() -> None:
    """A scan of 100 keys takes longer than a get; the parts add up to all."""
    result = run(
        "ordered-store",
        0,
        "traffic.packet_bytes=5700",
        "traffic.operations.gets=0.8",
        "traffic.operations.scans=0.1",
        "measure.requests=400",
    )
    kinds = result["by_kind"]
    assert set(kinds) == {"get", "put", "scan"}
    for name in ("latency_ns", "service_ns"):
        samples = {kind: kinds[kind][name]["samples"] for kind in kinds}
        assert sum(samples.values()) == result[name]["samples"] == 400
        mean = sum(kinds[kind][name]["mean"] * samples[kind] for kind in kinds) / 400
        assert mean == pytest.approx(result[name]["mean"])
    # The hundred records are in hundred lines, and there are 12 outstanding misses.
    assert kinds["scan"]["service_ns"]["p50"] > 5 * kinds["get"]["service_ns"]["p50"]
    rates = [kinds[kind]["throughput_mrps"] for kind in kinds]
    assert sum(rates) == pytest.approx(result["throughput_mrps"])
    # One at a time: what is not service is the way to the hart, some hundred nanoseconds.
    gets = kinds["get"]
    assert 0 < gets["latency_ns"]["p50"] - gets["service_ns"]["p50"] < 500


@pytest.mark.parametrize("notify", ["hyperplane", "spin", "software-bitmap", "spin-poll-mode"])
def test_service_is_the_time_of_the_work(tmp_path: Path, notify: str) -> None:
    """Packets that take 1000 or 3000 ns, eight of one queue in a visit where that is possible."""
    packets = []
    for number in range(64):
        work = b"work" + struct.pack(">I", 1000 if number % 2 else 3000)
        head = struct.pack(">BBHHHBBHIIHHHH", 0x45, 0, 36, 0, 0, 64, 17, 0, 1, 2, 3, 4, 16, 0)
        packets.append(struct.pack("<IIII", 0, 0, 36, 36) + head + work)
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    (tmp_path / "work.pcap").write_bytes(header + b"".join(packets))
    result = run(
        "synthetic",
        0,
        f"traffic.packets={tmp_path / 'work.pcap'}",
        f"data_plane.notify={notify}",
        "data_plane.batch=8",
        "traffic.rate_mrps=2.0",
        "measure.requests=300",
    )
    service = result["service_ns"]
    assert service["samples"] == 300
    assert "by_kind" not in result
    # Both kinds take what they say, and the same for taking and giving, below 250 ns.
    assert 1000 < service["p50"] - (2000 if service["p50"] > 2500 else 0) < 1250
    assert 3000 < service["p90"] < 3250
    assert 2000 < service["mean"] < 2250


def test_nothing_depends_on_how_it_is_simulated() -> None:
    assignments = [
        "server.data_plane_cores=4",
        "data_plane.queues=8",
        "data_plane.notify=spin",
        "traffic.shape=fully-balanced",
        "traffic.rate_mrps=5.0",
        "traffic.packet_bytes=5700",
        "traffic.operations.gets=0.5",
        "traffic.operations.scans=0.05",
        "traffic.operations.popularity=zipf",
    ]
    slow = ["simulator.lookahead_cycles=1", "simulator.skip_spinning=false"]
    names = ("latency_ns", "service_ns", "service_histogram", "by_kind", "captured", "instructions")
    one, other = (run("ordered-store", 100, *assignments, *more) for more in ([], slow))
    assert {name: one[name] for name in names} == {name: other[name] for name in names}


def test_popular_keys_stay_in_the_caches() -> None:
    """With an exponent of 2 the first key has 61 % of the requests: 6 / pi^2."""
    uniform, zipf = (
        run(
            "key-value",
            0,
            "traffic.operations.gets=1.0",
            "traffic.operations.keys=100000",
            f"traffic.operations.popularity={popularity}",
            "traffic.operations.zipf_exponent=2.0",
            "measure.requests=300",
        )["service_ns"]["p50"]
        for popularity in ("uniform", "zipf")
    )
    # A bucket and an item, each 50 ns away in memory, and one after the other.
    assert zipf < uniform - 80


# Preparation.


def test_what_is_prepared_takes_no_time(tmp_path: Path) -> None:
    """A hundred times the keys, and the server begins at the same time."""
    seconds = [
        run("key-value", 0, f"traffic.operations.keys={keys}")["simulated_seconds"]
        for keys in (1000, 100_000)
    ]
    # 100 requests at 0.05 million a second take 2 ms; to fill one key in time takes 100 ns.
    assert abs(seconds[1] - seconds[0]) < 100_000 * 100e-9 / 10


@pytest.mark.parametrize("program", STORES)
def test_what_is_kept_of_a_preparation_changes_nothing(program: str) -> None:
    """Replies and times are those of a run that prepares, whatever a run before has put."""

    def measured(keys: int) -> dict[str, Any]:
        result = run(program, 100, f"traffic.operations.keys={keys}", "traffic.operations.gets=0.5")
        return {name: value for name, value in result.items() if not name.startswith("host")}

    prepared, kept = measured(1013), measured(1013)
    assert kept == prepared
    # The last two are kept.
    assert measured(1015) != prepared != measured(1017)
    assert measured(1013) == prepared


PREPARED = """
#include <io.h>
#include <runtime.h>
#include <stdio.h>
#include <stdlib.h>

static double number = 1.5;
static int *list;

static uint64_t cycles(void) {{
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle));
  return cycle;
}}

void prepare(void) {{
  list = malloc(1000000 * sizeof *list);
  for (int at = 0; at < 1000000; at++)
    list[at] = at;
  number *= 2;
  printf("prepared\\n");
  {more}
}}

int main(void) {{
  uint64_t begin = cycles();
  printf("%d %d %d %lu\\n", list[0], list[999999], (int)(number * 10), harts);
  return begin < 10000 ? 0 : 1;
}}
"""


def execute(tmp_path: Path, more: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "prepared.c").write_text(PREPARED.format(more=more))
    return completed("exec", *arguments, tmp_path / "prepared.c")


def test_a_program_goes_on_from_what_it_has_prepared(tmp_path: Path) -> None:
    """Memory, registers, the floating-point unit and the console."""
    done = execute(tmp_path, "", "--set", "server.fabric.cores=4")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "prepared\n0 999999 30 4\n"


def test_a_preparation_that_goes_wrong(tmp_path: Path) -> None:
    failed = execute(tmp_path, 'fail("There is %d wrong.", 1);')
    assert failed.returncode == 1
    assert "the program ended with status 1 in prepare()" in failed.stderr
    assert "There is 1 wrong." in failed.stderr
    crashed = execute(tmp_path, "*(volatile int *)8 = 1;")
    assert crashed.returncode == 1
    assert "store or atomic access fault" in crashed.stderr
    waiting = execute(tmp_path, '__asm__ volatile("wfi");')
    assert waiting.returncode == 1
    assert "nothing will ever happen again" in waiting.stderr


# What is wrong.


@pytest.mark.parametrize(
    ("program", "assignments", "sentence"),
    [
        ("key-value", ["traffic.operations.scans=0.01"], "The keys of this store have no order"),
        ("key-value", ["data_plane.parameters.log_kib=0.5"], "log_kib must be from 1"),
        ("key-value", ["data_plane.parameters.log_mib=4"], "log_mib is not known"),
        ("key-value", ["traffic.packet_bytes=48"], "the longest request has 56 bytes"),
        (
            "ordered-store",
            ["traffic.operations.scans=0.01"],
            "the longest reply has 5608 bytes",
        ),
        ("ordered-store", ["server.memory_mib=16", "traffic.operations.keys=1000000"], "fault"),
    ],
)
def test_wrong_descriptions_get_a_sentence(
    program: str, assignments: list[str], sentence: str
) -> None:
    with pytest.raises((DescriptionError, Failure)) as caught:
        run(program, 0, *assignments)
    assert sentence in str(caught.value)


@pytest.mark.sampled
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("notify", ["spin", "hyperplane", "rpcvalet"])
def test_the_examples(tmp_path: Path, store: str, notify: str) -> None:
    """As they are but for fewer keys and requests."""
    command: list[object] = ["run", ROOT / "examples" / f"{store}.toml", "--json"]
    settings = ["measure.requests=300", "traffic.operations.keys=20000"]
    for setting in [*settings, f"data_plane.notify={notify}"]:
        command += ["--set", setting]
    environment = {**os.environ, "NANOPLANE_STORE": str(tmp_path / "store")}
    done = completed(*command, env=environment)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["errors"] == 0
    assert result["by_kind"]["get"]["service_ns"]["samples"] > 200
