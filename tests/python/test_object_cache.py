"""The cache in the manner of memcached, against a model of its slabs and lists."""

import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from command_line import completed
from seeds import generator
from test_stores import (
    DONE,
    GET,
    NO_ROOM,
    NOT_FOUND,
    PUT,
    first_value,
    key_of,
    mix,
    reply,
    request,
    run,
    sent,
    value_for,
)

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
CACHE = "object-cache"
ITEM_BYTES = 48
"""Before an item's key: `sizeof(struct memcache_item)`."""

__all__ = ["sent"]


class Model:
    """One hart's cache: each class has its pages, and its items from the oldest on."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        self.free_pages, self.page_bytes = pages, page_bytes
        self.chunks: list[int] = []
        size = ITEM_BYTES + 48
        while size <= page_bytes // 2:
            self.chunks.append(size)
            size = (size * 5 // 4 + 7) & -8
        self.free = [0] * len(self.chunks)
        self.items: list[OrderedDict[bytes, bytes]] = [OrderedDict() for _ in self.chunks]
        self.evictions = 0

    def class_of(self, key: bytes, value: bytes) -> int | None:
        size = ITEM_BYTES + len(key) + len(value)
        return next((at for at, chunk in enumerate(self.chunks) if size <= chunk), None)

    def get(self, key: bytes) -> bytes | None:
        for items in self.items:
            if key in items:
                items.move_to_end(key)
                return items[key]
        return None

    def put(self, key: bytes, value: bytes) -> bool:
        if (number := self.class_of(key, value)) is None:
            return False
        if not self.free[number] and self.free_pages:
            self.free_pages -= 1
            self.free[number] += self.page_bytes // self.chunks[number]
        if self.free[number]:
            self.free[number] -= 1
        elif self.items[number]:
            self.items[number].popitem(last=False)
            self.evictions += 1
        else:
            return False
        for at, items in enumerate(self.items):
            if items.pop(key, None) is not None:
                self.free[at] += 1
        self.items[number][key] = value
        return True


def answers(model: Model, requests: Sequence[bytes]) -> list[bytes]:
    replies = []
    for one in requests:
        operation, key_bytes, _, number = struct.unpack("<BBHI", one[:8])
        key, value = one[8 : 8 + key_bytes], one[8 + key_bytes :]
        if operation == PUT:
            status = DONE if model.put(key, value) else NO_ROOM
            replies.append(reply(number, PUT, status))
        elif (found := model.get(key)) is not None:
            replies.append(reply(number, GET, DONE, len(found), found))
        else:
            replies.append(reply(number, GET, NOT_FOUND))
    return replies


def operations(random: Random, count: int, most: int) -> list[bytes]:
    """Half of them puts, of values of up to so many bytes; some keys are asked for more often."""
    keys = [bytes([1 + number]) * random.randrange(1, 60) for number in range(120)]
    requests = []
    for number in range(count):
        key = keys[int(120 * random.random() ** 2)]
        value = random.randbytes(random.randrange(most))
        is_put = random.random() < 0.5
        requests.append(request(number, PUT, key, value) if is_put else request(number, GET, key))
    return requests


@pytest.mark.parametrize("most", [60, 700, 2500])
def test_replies_are_those_of_the_model(sent: Callable[..., list[bytes]], most: int) -> None:
    """Evictions choose the least recently used item of the class; whoever outgrows all is refused.

    40 KiB are ten pages of 4 KiB. From 700 bytes on some classes get no page; with up to 2500 some
    values fit no chunk, 2 KiB at most.
    """
    requests = operations(generator(11), 900, most)
    model = Model(10, 4096)
    assert model.put(key_of(0), first_value(key_of(0)))
    expected = answers(model, requests)
    assert (model.evictions > 50) == (most > 60)
    refused = reply(0, PUT, NO_ROOM)[:4] in {one[:4] for one in expected}
    assert refused == (most > 60)
    replies = sent(
        CACHE,
        requests,
        "traffic.operations.keys=1",
        f"data_plane.parameters.memory_mib={40 / 1024}",
        "data_plane.parameters.page_kib=4",
        "data_plane.parameters.update_interval=0",
    )
    assert replies == expected


def test_an_item_is_moved_at_most_once_an_interval(sent: Callable[..., list[bytes]]) -> None:
    """Within the interval of memcached's minute, who was put first goes first, read or not."""
    page_items = 4096 // (ITEM_BYTES + 48)
    keys = [struct.pack(">I", number) for number in range(page_items + 1)]
    requests = [request(at, PUT, key, b"value") for at, key in enumerate(keys[:-1])]
    requests += [request(900, GET, keys[0]), request(901, PUT, keys[-1], b"value")]
    requests += [request(902, GET, keys[0]), request(903, GET, keys[1])]
    for interval, gone in ((60, keys[0]), (0, keys[1])):
        replies = sent(
            CACHE,
            [request(800, PUT, key_of(0), bytes(600)), *requests],
            "traffic.operations.keys=1",
            # A page for the first key, its new value, and one that is asked for.
            f"data_plane.parameters.memory_mib={8 / 1024}",
            "data_plane.parameters.page_kib=4",
            f"data_plane.parameters.update_interval={interval}",
        )
        status = {keys[0]: replies[-2][0], keys[1]: replies[-1][0]}
        assert {key for key, one in status.items() if one == NOT_FOUND} == {gone}


def quantile_bytes(quantile: int) -> tuple[int, int]:
    """Return the lengths of keys and values of the pool ETC, by Atikoglu et al.'s formulas."""
    unit = (quantile + 0.5) / 256
    key = 30.7984 + 8.20449 / 0.078688 * ((-math.log(unit)) ** -0.078688 - 1)
    value = 214.476 / 0.348238 * ((1 - unit) ** -0.348238 - 1)
    return round(key), max(1, round(value))


def etc_entry(number: int) -> tuple[int, bytes]:
    """Return the length of a key, and its first value."""
    first = mix(number)
    second = mix(first)
    sizes = mix(second)
    key_bytes = quantile_bytes(sizes % 256)[0]
    value_bytes = quantile_bytes(sizes // 256 % 256)[1]
    return key_bytes, first_value(struct.pack("<QQ", first, second), value_bytes)


def test_sizes_of_the_pool_are_loaded_as_they_are_asked_for() -> None:
    """Each value that is found is that of a key with its length."""
    result = run(
        CACHE,
        300,
        "traffic.operations.sizes=facebook-etc",
        "traffic.operations.gets=1.0",
        "traffic.packet_bytes=5000",
    )
    assert result["program_counters"] == {"evicted_at_first": 0}
    values = {value for _, value in map(etc_entry, range(1000))}
    for text in result["captured"]:
        answer = bytes.fromhex(text)
        assert answer[:2] == bytes([DONE, GET])
        assert answer[8:] in values


@pytest.mark.parametrize(
    ("notify", "threads"), [("hyperplane", 1), ("spin", 1), ("spin", 4), ("hyperplane", 4)]
)
def test_harts_that_meet_at_keys(
    sent: Callable[..., list[bytes]], notify: str, threads: int
) -> None:
    """Four cores or threads, few keys, little memory: no value is torn or of another key."""
    random = generator(5)
    keys = [key_of(number) for number in range(40)]
    requests: list[bytes] = []
    while len(requests) < 600:
        number, key = len(requests), random.choice(keys)
        is_put = random.random() < 0.5
        more = value_for(key, number)
        requests.append(request(number, PUT, key, more) if is_put else request(number, GET, key))
    machine = ["server.data_plane_cores=4"]
    if threads > 1:
        machine = [f"server.core.threads={threads}", f"server.data_plane_threads={threads}"]
        machine += ["server.fabric.cores=1", "server.data_plane_cores=1"]
    replies = sent(
        CACHE,
        requests,
        "traffic.operations.keys=1",
        f"data_plane.parameters.memory_mib={20 / 1024}",
        "data_plane.parameters.page_kib=4",
        "traffic.rate_mrps=6.0",
        "traffic.queue_capacity=512",
        "traffic.packet_bytes=1000",
        f"data_plane.notify={notify}",
        "data_plane.organisation=scale-up",
        "data_plane.queues=8",
        "traffic.shape=fully-balanced",
        *machine,
    )
    served = 0
    for one in replies:
        (number,) = struct.unpack("<4xI", one[:8])
        if one[1] == GET and one[0] == DONE:
            served += 1
            key = requests[number][8:24]
            # The one key that is loaded has this value until its first put.
            if key == key_of(0) and one[8:] == first_value(key):
                continue
            (put,) = struct.unpack("<I", one[8:12])
            assert one[8:] == value_for(key, put)
            assert requests[put][8:24] == key
    assert served > 50


def test_harts_that_check_what_they_find() -> None:
    """No set is lost, and lists, chunks and table agree afterwards: guest/tests/caches.c."""
    program = ROOT / "guest/tests/caches.c"
    done = completed("exec", program, "--set", "server.fabric.cores=4")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "The caches are right.\n"
    # Four threads of one core, which take turns at the locks.
    one_core = ("--set", "server.fabric.cores=1", "--set", "server.core.threads=4")
    done = completed("exec", program, *one_core)
    assert (done.returncode, done.stdout) == (0, "The caches are right.\n")


def test_a_data_plane_on_threads_needs_all_cores() -> None:
    with pytest.raises(Exception, match=r"server\.data_plane_threads is 2; .*all cores"):
        run(CACHE, 0, "server.core.threads=2", "server.data_plane_threads=2")
