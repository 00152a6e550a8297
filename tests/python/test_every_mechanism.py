"""Every task behind every mechanism: the same requests, and the same answers to each of them.

All run on nanoPU's prototype, whose in-order cores can have each mechanism's hardware. The stores'
requests and the tasks' packets follow from the seed alone, so that the answers can be compared byte
by byte; the requests of one core and one queue come in one order.
"""

import functools
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, compiler, simulator
from nanoplane.errors import DescriptionError, Failure
from nanoplane.schemas import choices

pytestmark = pytest.mark.simulator

PROGRAMS = Path(__file__).parents[2] / "guest" / "programs"
TAG = Path(__file__).parents[2] / "guest" / "tests" / "tag.c"
MECHANISMS = sorted(choices("data_plane.notify"))
REFERENCE = "spin"
MESSAGES = ("nanopu", "rpcvalet")
"""Mechanisms that bring the requests; the others find them in queues in memory."""
ITEMS = 100
TEN_THOUSAND_KEYS = {"traffic": {"operations": {"keys": 10_000}}}
STORES: dict[str, dict[str, dict[str, Any]]] = {
    # Each program first stores all there is, which for a hundred requests need not be much.
    "key-value": TEN_THOUSAND_KEYS,
    "object-cache": TEN_THOUSAND_KEYS,
    "ordered-store": TEN_THOUSAND_KEYS,
    "transactional-store": {
        "data_plane": {"parameters": {"items": 500, "customers": 30, "spare_mib": 1}},
        # A transaction takes tens of microseconds.
        "traffic": {"operations": {"warehouses": 1}, "rate_mrps": 0.005},
    },
}


def tasks() -> list[str]:
    """Return the programs that are a process() of data_plane.h, and that answer."""
    programs = (path for path in PROGRAMS.glob("*.c") if "<data_plane.h>" in path.read_text())
    # They measure loads from memory, whose times are in their counters alone.
    measuring = {"loaded-latency", "memory-stream", "pointer-chase"}
    return sorted({path.stem for path in programs} - measuring)


@functools.cache
def elf(program: Path, mechanism: str | None) -> bytes:
    return compiler.build(program, None, mechanism)


def run(program: str, notify: str, settings: dict[str, Any], capture: int) -> Any:
    tables: dict[str, dict[str, Any]] = {
        "server": {"preset": "nanopu-prototype", "data_plane_cores": 1},
        "data_plane": {"program": program, "notify": notify, "queues": 1},
        # One after the other, so that no transport has to send anything again.
        "traffic": {"rate_mrps": 0.05, "arrivals": "fixed", "packet_bytes": 512},
        "measure": {"requests": max(capture, ITEMS), "warmup": 0},
    }
    if notify == "rpcvalet":
        tables["server"]["rpcvalet"] = {"backends": 2}  # As many rows as the mesh has.
    for name, settings_of_store in STORES.get(program, {}).items():
        tables[name] |= settings_of_store
    description = Description.from_dict(tables)
    for key, value in settings.items():
        description = description.set(key, value)
    resolved = description.resolve()
    assert resolved.program is not None
    options = {"capture_packets": capture}
    image = elf(resolved.program, resolved.mechanism)
    return simulator.run(resolved.data, image, options, files=resolved.contents())


@functools.cache
def answers(program: str, notify: str) -> tuple[str, ...]:
    result = run(program, notify, {}, ITEMS)
    assert result["dropped"] == 0
    return tuple(result["captured"])


@pytest.mark.sampled
@pytest.mark.parametrize("notify", [name for name in MECHANISMS if name != REFERENCE])
@pytest.mark.parametrize("task", tasks())
def test_answers_do_not_depend_on_the_mechanism(task: str, notify: str) -> None:
    expected = answers(task, REFERENCE)
    assert len(expected) == ITEMS
    assert answers(task, notify) == expected


CORES_AND_QUEUES = {
    "server.data_plane_cores": 4,
    "data_plane.queues": 30,
    "traffic.shape": "fully-balanced",
    "traffic.rate_mrps": 4.0,
    "traffic.arrivals": "poisson",
    "traffic.packet_bytes": 900,
}


@functools.cache
def tagged(notify: str, selection: str = "jbsq") -> Any:
    """Run four cores; each answer begins with the number of its queue (guest/tests/tag.c)."""
    return run(
        str(TAG), notify, {**CORES_AND_QUEUES, "server.nanopu.core_selection": selection}, 1000
    )


@pytest.mark.parametrize("selection", ["jbsq", "rss"])
def test_messages_in_registers_keep_their_queues(selection: str) -> None:
    """Random packets tell which they are: each comes once, through the queue that spinning saw."""
    result = tagged("nanopu", selection)
    counts = [result[name] for name in ("dropped", "entering", "inside", "delivered")]
    assert result["generated"] == sum(counts)
    nanopu = set(result["captured"])
    assert len(nanopu) == len(result["captured"]) == 1000
    # They are the first ones of the same sequence, but for those that were overtaken at the end.
    assert len(nanopu & set(tagged(REFERENCE)["captured"])) > 950
    queues = {struct.unpack_from("<Q", bytes.fromhex(text))[0] for text in nanopu}
    assert queues == set(range(30))
    cores = [core["instructions"] for core in result["cores"]]
    assert min(cores) > 0


def test_jbsq_spreads_the_messages_of_a_queue_and_rss_does_not() -> None:
    """A hash gives all messages of a queue to one core, in order; JBSQ gives them to any."""
    assert tagged("nanopu", "rss")["reordered"] == 0
    one = {"server.data_plane_cores": 4, "traffic.load": "saturate"}
    rates = [
        run("echo", "nanopu", {**one, "server.nanopu.core_selection": selection}, 0)[
            "throughput_mrps"
        ]
        for selection in ("jbsq", "rss")
    ]
    assert rates[0] > 3 * rates[1]


def test_the_adapter_counts_what_it_costs() -> None:
    """A word in takes an instruction and a cycle, a word out an instruction and two cycles."""
    packet = {"traffic.packet_bytes": 512, "data_plane.parameters": {"count_adapter": 1}}
    counters = run("echo", "nanopu", packet, ITEMS)["program_counters"]
    requests = counters["adapter_requests"]
    assert requests >= ITEMS
    words = (16 + 512) / 8
    instructions = counters["adapter_instructions"] / requests
    cycles = counters["adapter_cycles"] / requests
    # Beside the words: the loops, three instructions for eight words, and what is left of a message
    # word by word.
    assert 2 * words < instructions < 2 * words + 100
    assert 3 * words < cycles < 3 * words + 150
    without = run("echo", "nanopu", {"traffic.packet_bytes": 512}, ITEMS)
    assert not without["program_counters"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"server.preset": "hyperplane-table1"}, r'server\.core\.model is .*must be "in-order"'),
        ({"server.core.width": 2}, r"server\.core\.width is 2.*it must be 1"),
        ({"traffic.packet_bytes": 2048}, r"max_message_bytes is 2048: send smaller packets"),
        ({"data_plane.organisation": "scale-out"}, "core_selection says which core gets what"),
        ({"data_plane.batch": 4}, "a thread takes one message at a time"),
        ({"data_plane.policy": "strict-priority"}, "core_selection says"),
        ({"traffic.imbalance": 0.5}, "no core has queues of its own"),
        ({"traffic.sources": "cores"}, "requests come from the network interface"),
        ({"server.hyperplane": {}, "data_plane.program": "rate-limiter"}, "for doorbells"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((DescriptionError, Failure), match=re.compile(sentence, re.DOTALL)):
        run("echo", "nanopu", settings, ITEMS)


@pytest.mark.parametrize("program", ["loaded-latency", "memory-stream", "pointer-chase"])
def test_measuring_programs_run_behind_messages(program: str) -> None:
    for notify in MESSAGES:
        assert run(program, notify, {}, ITEMS)["delivered"] >= ITEMS
