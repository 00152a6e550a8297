"""Notification mechanisms and organisations: every item comes out once, in order and unchanged.

The guest puts the queue's number in front of each packet (guest/tests/tag.c), and the packets have
numbers of their own, so that what the tenants got says which items were served, when and where.
The tenants' ledger in the simulator checks the same by item, and ends a run that breaks it.
"""

import collections
import functools
import itertools
import math
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from command_line import nanoplane
from nanoplane import Description, Store, compiler, simulator, sweep
from nanoplane.errors import DescriptionError
from nanoplane.schemas import mechanisms

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]

GUESTS = Path(__file__).parents[2] / "guest" / "tests"
TAG = GUESTS / "tag.c"
QUEUES = {name: one for name, one in mechanisms().items() if not one.brings_requests}
DRIVERS = [name for name, one in QUEUES.items() if one.owns_queues]
"""Those of network interfaces, whose queues belong to one core each."""
MECHANISMS = [name for name in QUEUES if name not in DRIVERS]
PACKETS = 2500


@functools.cache
def packet(number: int) -> bytes:
    """Return the packet with this number; lengths differ, so that a mixture would show."""
    payload = struct.pack(">I", number) + bytes(number % 97 + (800 if number % 2 else 0))
    # IPv4 and UDP without checksums, which the guests here do not look at.
    ports = struct.pack(">HHHH", 1000, 2000, 8 + len(payload), 0)
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    first = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0)
    return first + addresses + ports + payload


@functools.cache
def guest(program: Path | str, mechanism: str | None) -> bytes:
    path = compiler.find_program(str(program), Path(), "program")
    return compiler.elf(path, mechanism=mechanism)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pcap file of numbered packets."""
    path = tmp_path_factory.mktemp("packets") / "numbered.pcap"
    frames = [packet(number) for number in range(PACKETS)]
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    path.write_bytes(
        header + b"".join(struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in frames)
    )
    return path


def description(settings: dict[str, Any]) -> Description:
    tables = {
        "server": {"preset": "hyperplane-table1"},
        "data_plane": {"program": str(TAG), "notify": "spin", "queues": 8},
        "traffic": {"load": "saturate", "packet_bytes": 1024},
        "measure": {"requests": 300, "warmup": 0},
    }
    described = Description.from_dict(tables)
    for key, value in settings.items():
        described = described.set(key, value)
    return described


def run(settings: dict[str, Any], capture: int = 0) -> Any:
    resolved = description(settings).resolve()
    options = {"capture_packets": capture}
    elf, files = guest(resolved.program, resolved.mechanism), resolved.contents()
    return simulator.run(resolved.data, elf, options, None, files)


def tagged(result: Any) -> list[tuple[int, bytes]]:
    """Return the queue and the packet of all that was captured, in the order of delivery."""
    captured = [bytes.fromhex(text) for text in result["captured"]]
    return [(struct.unpack_from("<Q", one)[0], one[8:]) for one in captured]


def number_of(content: bytes) -> int:
    return int(struct.unpack_from(">I", content, 28)[0])


def check_conservation(result: Any, in_order: bool) -> None:
    """Check that the captured items are each there once, unchanged, and in order if promised."""
    delivered = tagged(result)
    numbers = [number_of(content) for _, content in delivered]
    assert len(numbers) > 250
    assert len(set(numbers)) == len(numbers), "an item came twice"
    for number, (_, content) in zip(numbers, delivered, strict=True):
        assert content == packet(number), f"packet {number} has changed"
    by_queue = collections.defaultdict(list)
    for number, (queue, _) in zip(numbers, delivered, strict=True):
        by_queue[queue].append(number)
    overtaken = sum(
        later < earlier for one in by_queue.values() for earlier, later in itertools.pairwise(one)
    )
    if in_order:
        assert overtaken == 0
        assert result["reordered"] == 0
    counts = [result[name] for name in ("dropped", "entering", "inside", "delivered")]
    assert result["generated"] == sum(counts)
    assert result["delivered"] >= len(numbers)
    assert result["errors"] == 0


# Cores, organisation, order, batch: every kind of sharing, and up to 16 cores.
ORGANISATIONS = [
    (1, "scale-out", True, 1),
    (1, "scale-out", True, 8),
    (2, "scale-up", True, 1),
    (4, "scale-out", True, 1),
    (4, "scale-up-2", False, 2),
    (4, "scale-up-4", False, 1),
    (6, 3, True, 4),
    (16, "scale-up", True, 1),
    (16, "scale-up", False, 3),
]


@pytest.mark.sampled
@pytest.mark.parametrize("notify", MECHANISMS)
@pytest.mark.parametrize(("cores", "organisation", "in_order", "batch"), ORGANISATIONS)
def test_every_item_once_and_unchanged(
    numbered: Path, notify: str, cores: int, organisation: Any, in_order: bool, batch: int
) -> None:
    result = run(
        {
            "data_plane.notify": notify,
            "data_plane.organisation": organisation,
            "data_plane.in_order": in_order,
            "data_plane.batch": batch,
            "server.data_plane_cores": cores,
            "traffic.packets": str(numbered),
            "traffic.saturation_rate_mrps": 60,
        },
        capture=300,
    )
    check_conservation(result, in_order or cores == 1)


@pytest.mark.sampled
@pytest.mark.parametrize("notify", MECHANISMS)
@pytest.mark.parametrize("in_order", [True, False])
def test_many_cores_after_one_queue(numbered: Path, notify: str, in_order: bool) -> None:
    """Race: eight cores, one queue of only seven items, which is full or empty all the time."""
    result = run(
        {
            "data_plane.notify": notify,
            "data_plane.organisation": "scale-up",
            "data_plane.in_order": in_order,
            "data_plane.queues": 1,
            "server.data_plane_cores": 8,
            "traffic.packets": str(numbered),
            "traffic.queue_capacity": 8,
            "measure.requests": 1500,
        },
        capture=1500,
    )
    check_conservation(result, in_order)


@pytest.mark.parametrize("notify", MECHANISMS)
def test_an_item_that_is_overtaken_for_long(numbered: Path, notify: str) -> None:
    """Neither is its slot filled again while it is read, nor a result seen before it is whole.

    A ring has 64 slots here: the seven items of a full queue, and four for each of eight cores, up
    to a power of two. The slow item takes as long as some 200 others, so it would be overrun.
    """
    result = run(
        {
            "data_plane.program": str(GUESTS / "straggler.c"),
            "data_plane.notify": notify,
            "data_plane.organisation": "scale-up",
            "data_plane.in_order": False,
            "data_plane.batch": 1,
            "data_plane.queues": 1,
            "server.data_plane_cores": 8,
            "traffic.packets": str(numbered),
            "traffic.queue_capacity": 8,
            "measure.requests": 600,
        },
        capture=600,
    )
    check_conservation(result, in_order=False)
    assert result["reordered"] > 100


@pytest.mark.parametrize("notify", MECHANISMS)
def test_without_order_cores_share_the_work_of_one_queue(notify: str) -> None:
    """An item takes 1 us and a little. In order four cores do one at a time, otherwise four."""
    peak = {
        in_order: run(
            {
                "data_plane.program": "synthetic",
                "data_plane.notify": notify,
                "data_plane.organisation": "scale-up",
                "data_plane.in_order": in_order,
                "data_plane.batch": 1,
                "data_plane.queues": 1,
                "server.data_plane_cores": 4,
            }
        )["throughput_mrps"]
        for in_order in (True, False)
    }
    assert 0.7 < peak[True] < 1
    assert 2.8 < peak[False] < 4


@pytest.mark.sampled
@pytest.mark.parametrize("notify", [*MECHANISMS, *DRIVERS])
@pytest.mark.parametrize("policy", ["round-robin", "strict-priority"])
def test_which_queue_is_next(notify: str, policy: str) -> None:
    """One core, which cannot serve a half of what comes into eight queues."""
    result = run(
        {
            "data_plane.notify": notify,
            "data_plane.policy": policy,
            "data_plane.batch": 1,
            "traffic.saturation_rate_mrps": 160,
        },
        capture=400,
    )
    served = collections.Counter(queue for queue, _ in tagged(result))
    assert sum(served.values()) >= 300
    if policy == "round-robin":
        # Each queue has its turn, but for the first rounds, when some are empty.
        assert max(served.values()) - min(served.get(queue, 0) for queue in range(8)) <= 4
    else:
        # Queue 0 gets 20 million items a second, more than the core can take.
        assert served[0] > 0.8 * sum(served.values())


@pytest.mark.parametrize("notify", MECHANISMS)
@pytest.mark.parametrize("in_order", [True, False])
def test_lookahead_and_skipping_change_nothing(notify: str, in_order: bool) -> None:
    settings = {
        "data_plane.notify": notify,
        "data_plane.organisation": "scale-up",
        "data_plane.in_order": in_order,
        "server.data_plane_cores": 3,
        "traffic.rate_mrps": 4,
        "measure.requests": 100,
    }
    slow = {**settings, "simulator.lookahead_cycles": 1, "simulator.skip_spinning": False}
    assert simulator.without_host(run(settings)) == simulator.without_host(run(slow))


@pytest.mark.parametrize("notify", ["software-bitmap", "user-interrupt"])
def test_an_item_that_is_counted_off_after_its_ring_has_no_service_time(notify: str) -> None:
    """Nor has the next item one that begins there, whichever of tenant and core is observed first.

    In order, harts that share queues decrement a doorbell when they have processed the item.
    """
    settings = {
        "data_plane.notify": notify,
        "data_plane.organisation": "scale-up",
        "data_plane.queues": 64,
        "server.data_plane_cores": 16,
        "traffic.rate_mrps": 30,
        "measure.requests": 400,
    }
    usual = run(settings)
    assert usual["service_ns"] is None
    slow = run({**settings, "simulator.lookahead_cycles": 1})
    assert simulator.without_host(usual) == simulator.without_host(slow)
    # Out of order they decrement it before.
    reordering = run({**settings, "data_plane.in_order": False})
    assert reordering["service_ns"]["samples"] == reordering["latency_ns"]["samples"]


@pytest.mark.parametrize("notify", DRIVERS)
@pytest.mark.parametrize(
    ("cores", "batch", "queue_capacity"), [(1, 1, 16), (2, 32, 16), (4, 5, 64)]
)
def test_drivers_deliver_every_item_once_and_unchanged(
    numbered: Path, notify: str, cores: int, batch: int, queue_capacity: int
) -> None:
    """Rings go round many times, with bursts of one, of four and a part of four, and of all."""
    result = run(
        {
            "data_plane.notify": notify,
            "data_plane.batch": batch,
            "server.data_plane_cores": cores,
            "traffic.packets": str(numbered),
            "traffic.queue_capacity": queue_capacity,
            "traffic.saturation_rate_mrps": 60,
            "measure.requests": 1000,
        },
        capture=1000,
    )
    check_conservation(result, in_order=True)


@pytest.mark.parametrize("notify", DRIVERS)
def test_drivers_give_the_same_result_without_lookahead(notify: str) -> None:
    settings = {
        "data_plane.notify": notify,
        "server.data_plane_cores": 2,
        "traffic.rate_mrps": 4,
        "measure.requests": 100,
    }
    slow = {**settings, "simulator.lookahead_cycles": 1, "simulator.skip_spinning": False}
    assert simulator.without_host(run(settings)) == simulator.without_host(run(slow))


@pytest.mark.parametrize("notify", DRIVERS)
def test_a_queue_of_an_interface_belongs_to_one_core(notify: str) -> None:
    settings = {
        "data_plane.notify": notify,
        "data_plane.organisation": "scale-up",
        "server.data_plane_cores": 2,
    }
    with pytest.raises(DescriptionError, match=r'use data_plane\.organisation = "scale-out"'):
        run(settings)


@pytest.mark.parametrize("notify", MECHANISMS)
def test_in_scale_out_a_core_serves_its_own_queues(notify: str) -> None:
    settings = {
        "data_plane.notify": notify,
        "data_plane.organisation": "scale-out",
        "server.data_plane_cores": 4,
        "traffic.shape": "single-queue",
        "traffic.rate_mrps": 1,
    }
    result = run(settings)
    assert result["delivered"] >= 300
    # An item costs some ten stores; a hart that finds nothing writes nothing: it can be skipped.
    assert result["cores"][0]["stores"] > 3000
    assert all(core["stores"] < 300 for core in result["cores"][1:])
    # A core dispatches at most eight instructions a cycle, also one that does nothing.
    assert all(0 <= core["ipc"] <= 8 for core in result["cores"])


def test_imbalance_is_the_first_cores_share() -> None:
    result = run(
        {
            "data_plane.notify": "hyperplane",
            "server.data_plane_cores": 4,
            "data_plane.queues": 16,
            "traffic.imbalance": 0.5,
            "traffic.rate_mrps": 1,
            "measure.requests": 2000,
        },
        capture=2000,
    )
    served = collections.Counter(queue for queue, _ in tagged(result))
    total = sum(served.values())
    # (1 + 0.5) / 4 of the traffic, within four standard deviations; the rest evenly.
    share, deviation = 0.375, math.sqrt(0.375 * 0.625 / total)
    first = sum(served[queue] for queue in range(4))
    assert abs(first / total - share) < 4 * deviation
    for queue in range(16):
        expected = total * (share / 4 if queue < 4 else (1 - share) / 12)
        assert abs(served[queue] - expected) < 5 * math.sqrt(expected)


def test_who_tries_locks_without_a_look_loses_nothing(numbered: Path, tmp_path: Path) -> None:
    program = tmp_path / "lock-first.c"
    program.write_text("#define POLL_MODE_LOOKS_FIRST 0\n" + TAG.read_text())
    settings: dict[str, Any] = {
        "data_plane.program": str(program),
        "data_plane.notify": "spin-poll-mode",
        "data_plane.organisation": "scale-up-2",
        "server.data_plane_cores": 4,
        "traffic.packets": str(numbered),
    }
    check_conservation(run(settings, capture=PACKETS), in_order=True)


def test_busy_queues_at_equal_distances_do_not_meet_in_the_cache() -> None:
    """Rings in use that fit into the last-level cache stay there, wherever their queues are.

    100 of 1000 queues at equal distances, and some 45 of the others, have rings of 35 KB: 5 MB of
    16. So they reach what 100 queues do that are all there are.
    """

    def peak(queues: int) -> float:
        settings: dict[str, Any] = {
            "data_plane.program": "echo",
            "data_plane.notify": "hyperplane",
            "data_plane.queues": queues,
            "traffic.shape": "non-proportionally-concentrated",
            "measure.warmup": 2320,  # Each of 16 slots of 145 rings once.
            "measure.requests": 500,
        }
        return float(run(settings)["throughput_mrps"])

    assert peak(1000) > 0.9 * peak(100)


def test_a_sleeping_hart_executes_nothing() -> None:
    """At 0.1 million items a second of 300 ns at most, a hart is idle for 97 % of the time."""
    light = {"traffic.rate_mrps": 0.1, "measure.requests": 200}
    for notify in MECHANISMS:
        core = run({"data_plane.notify": notify, **light})["cores"][0]
        if QUEUES[notify].sleeps:
            assert core["halted_cycles"] > 0.9 * core["cycles"], notify
            assert core["ipc"] < 0.1, notify
        else:
            assert core["halted_cycles"] == 0, notify
            assert core["ipc"] > 1, notify


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"data_plane.organisation": 3, "server.data_plane_cores": 4},
            "3 cores that share queues; there are 4 data plane cores",
        ),
        ({"data_plane.organisation": "scale-up-4"}, "4 cores that share queues; there are 1 "),
        (
            {"data_plane.policy": "weighted-round-robin"},
            'take "round-robin" or "strict-priority"',
        ),
        ({"traffic.imbalance": 0.1}, "with 1 data plane cores"),
        (
            {
                "traffic.imbalance": 0.1,
                "server.data_plane_cores": 2,
                "traffic.shape": "single-queue",
            },
            "both must have some",
        ),
        (
            {"data_plane.notify": "software-ready-set", "data_plane.queues": 2000},
            "HyperPlane's monitoring set holds 1024 at most",
        ),
        ({"data_plane.batch": 0}, "data_plane.batch is 0; it must be a whole number from 1"),
        ({"data_plane.organisation": "scale-down"}, 'did you mean "scale-'),
    ],
)
def test_what_is_not_possible_gets_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        run(settings)
    assert sentence in str(caught.value)


def test_what_arrives_while_the_device_looks_for_room_is_not_lost() -> None:
    """Poll mode's device reads how much has been taken when it has written all slots once more.

    That is a hundred times in 1500 items, and takes some 60 ns, in which a second item arrives in
    nine of a hundred cases. A fifth of the core is busy: 16 slots are full in 0.2^16 of the time.
    """
    result = run(
        {
            "data_plane.notify": "spin-poll-mode",
            "data_plane.queues": 1,
            "traffic.load": None,
            "traffic.rate_mrps": 1.5,
            "traffic.packet_bytes": 64,
            "measure.requests": 1500,
        }
    )
    assert result["dropped"] == 0
    assert result["delivered"] >= 1500


def test_empty_polls_are_those_of_the_study() -> None:
    """Figure 8 of Golestani et al. (SoCC 2019): 33 % fewer polls of 512 queues than of one.

    Before it looks whether there is a packet, a poll of ConnectX's driver works on four: some 350
    instructions. The 82599's looks first.
    """
    printed = nanoplane("exec", GUESTS / "empty-polls.c", "--preset", "skylake-sp")
    found = re.findall(r"(\S+), (\d+) queues: (\S+) cycles, (\d+) instructions", printed)
    polls = {(name, int(queues)): (float(cycles), int(n)) for name, queues, cycles, n in found}
    one, many = (polls["spin-mlx5", queues][0] for queues in (1, 512))
    assert 0.28 < 1 - one / many < 0.38
    assert 330 < polls["spin-mlx5", 512][1] < 380
    assert polls["spin-ixgbe-vector", 512][1] < 70


def test_a_program_brings_its_own_mechanism(tmp_path: Path) -> None:
    """From a directory outside: examples/back-off.h waits after a round that finds nothing.

    That is 100 iterations of one or two cycles at 2 GHz, 50 to 100 ns, of which a request that
    comes at any time waits for half, and for the rest of a round of ten queues as `echo` does.
    """
    for name in ("back-off.c", "back-off.h"):
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text())
    base = Description.from_dict(
        {
            "extends": "hyperplane-table1",
            "data_plane": {"program": "echo", "notify": "spin", "queues": 10},
            "traffic": {"rate_mrps": 0.1},
            "measure": {"requests": 1000},
        }
    )
    own = base.set("data_plane.program", str(tmp_path / "back-off.c"))
    first, second = sweep([base, own], store=Store(tmp_path / "store"))
    waits = second.result["latency_ns"]["mean"] - first.result["latency_ns"]["mean"]
    assert 15 < waits < 60
    assert second.result["delivered"] >= 1000
