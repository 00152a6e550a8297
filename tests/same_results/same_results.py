"""Whether a change leaves every result as it was, to the bit: `make same-results`.

Small runs of every kind are compared with what `digests.json` recorded of them: a digest of each
field of the result, without the fields that depend on the host. `make same-results RECORD=1`
records anew. Full results are written to `out/same-results`, and where both a recorded and a new
one are there, the first values that differ are printed.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoplane import compiler
from nanoplane.description import Description
from nanoplane.store import Store
from nanoplane.sweep import sweep

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = Path(__file__).with_name("digests.json")
OUTPUT = ROOT / "out" / "same-results"
RECORDED = "recorded"

Result = Mapping[str, Any]


def comparable(value: Any) -> Any:
    """Return a result, or a part of one, without what tells on which host it was made, and when."""
    if isinstance(value, dict):
        return {
            name: comparable(one)
            for name, one in value.items()
            if not name.startswith("host_") and name not in ("skipped_cycles", "version")
        }
    return [comparable(one) for one in value] if isinstance(value, list) else value


def digests(result: Result) -> dict[str, str]:
    """Return a digest of each field of a result."""
    return {
        name: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for name, value in comparable(result).items()
    }


def first_differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    """Name each value that differs, with the key of its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            inner = f"{key}.{name}" if key else name
            yield from first_differences(old.get(name), new.get(name), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from first_differences(one, other, f"{key}.{place}")
    elif old != new:
        yield f"{key}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# The runs.


def _described(description: Description, *settings: str) -> Callable[[], Result]:
    def run() -> Result:
        changed = description
        for setting in settings:
            changed = changed.assign(setting)
        with tempfile.TemporaryDirectory() as directory:
            (outcome,) = sweep([changed], store=Store(directory), workers=1)
        return outcome.result

    return run


def _example(name: str, *settings: str) -> Callable[[], Result]:
    path = ROOT / "examples" / f"{name}.toml"
    return lambda: _described(Description.from_toml(path), *settings)()


def _server(*settings: str, cores: int = 4, requests: int = 400) -> Callable[[], Result]:
    tables = {
        "server": {"preset": "hyperplane-table1", "data_plane_cores": cores},
        "data_plane": {"notify": "hyperplane", "queues": 16},
        "traffic": {"rate_mrps": 2.0, "packet_bytes": 256},
        "measure": {"requests": requests},
    }
    return _described(Description.from_dict(tables, source="server"), *settings)


_MANY_FLOWS = {"rate_mrps": 4.0, "mode": "open"}


def _rack(
    program: str,
    interface: str,
    *settings: str,
    offer: Mapping[str, Any] = _MANY_FLOWS,
    transport: Mapping[str, Any] | None = None,
    clients: int = 1,
    machine: Mapping[str, Any] | None = None,
    **more: Any,
) -> Callable[[], Result]:
    ends = dict(transport or {"protocol": "datagrams"})
    server = {"preset": "nanopu-prototype", "nanopu": {"transport": ends}, **(machine or {})}
    served = {"program": program, "serves": True, "interface": interface, "server": server}
    load = {"offer": dict(offer), "ports": 64, "transport": ends}
    tables = {
        "rack": {
            "switch": {"trimming": True},
            "servers": [{**served, **more}],
            "clients": [{"count": clients, "begin_ns": 100_000.0, "load": load}],
        },
        "measure": {"requests": 300},
    }
    return _described(Description.from_dict(tables, source="rack"), *settings)


def _store(program: str, interface: str, *settings: str, **more: Any) -> Callable[[], Result]:
    key = [{"min": 0, "max": 9999}, 0, 0]
    words = json.dumps([1, *key]).replace(":", " =").replace('"', "")
    read = f'rack.clients.0.load.requests=[{{ name = "read", words = {words} }}]'
    return _rack(f"compare/{program}", interface, read, *settings, **more)


def _exec(source: str, *options: str, arguments: tuple[str, ...] = ()) -> Callable[[], Result]:
    """Run a program without data plane; one below `linux/` is compiled for Linux."""

    def run() -> Result:
        with tempfile.TemporaryDirectory() as directory:
            program = ROOT / source
            if program.parent.name == "linux":
                target = ("-target", "riscv64-linux-musl", "-static", "-O2")
                command = [*(sys.executable, "-m", "ziglang", "cc"), *target, str(program)]
                subprocess.run(
                    [*command, "-o", "program"],
                    cwd=directory,
                    env=compiler._environment(),
                    check=True,
                )
                program = Path("program")
            begin = (sys.executable, "-m", "nanoplane", "exec", "--stats", "stats.json")
            done = subprocess.run(
                [*begin, *options, program, "--", *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            # Absent if the program could not be begun, and then the command has said why.
            statistics = json.loads((Path(directory) / "stats.json").read_text())
            return {**statistics, "output": done.stdout}

    return run


_FIVE_STAGE = tuple(
    f"server.core.{setting}"
    for setting in (
        *("model=in-order", "width=1", "rob_entries=16", "load_queue_entries=8"),
        *("store_queue_entries=4", "front_end_cycles=2", "units.integer.ports=1"),
        *("units.load.ports=1", "l1_data.mshrs=2", "l1_instruction.mshrs=1"),
    )
)
_PRIVATE_L2 = "server.core.l2={ size_bytes = 262144 }"
_TWO_SOCKETS = ("server.fabric.sockets=2", "server.fabric.cores=4")
_SCALE_UP = "data_plane.organisation=scale-up"
_BACKENDS = ("data_plane.program=echo", "data_plane.notify=rpcvalet", "data_plane.queues=200")
_MESSAGES = (*_BACKENDS, "traffic.packet_bytes=48", "traffic.rate_mrps=8")
_OPERATIONS = ("traffic.packet_bytes=64", "traffic.operations.keys=2000")
_WORK = 'traffic.work={ base_ns = 200, mean_ns = 300, service_times = { distribution = "%s" } }'


def _notifications() -> Iterator[tuple[str, Callable[[], Result]]]:
    ways = ("spin", "spin-poll-mode", "wrs", "software-bitmap", "software-ready-set", "hyperplane")
    for way, queues, organisation in itertools.product(ways, (8, 200), ("scale-out", "scale-up")):
        yield (
            f"{way}, {queues} queues, {organisation}",
            _server(
                f"data_plane.notify={way}",
                f"data_plane.queues={queues}",
                f"data_plane.organisation={organisation}",
                requests=200,
            ),
        )


RUNS: dict[str, Callable[[], Result]] = {
    "example encapsulation": _example(
        "encapsulation", "measure.requests=500", "data_plane.queues=100"
    ),
    "example key-value": _example(
        "key-value", "measure.requests=1000", "traffic.operations.keys=5000"
    ),
    "example ordered-store": _example(
        "ordered-store", "measure.requests=500", "traffic.operations.keys=2000"
    ),
    "example queueing": _example("queueing", "queueing.requests=100000"),
    "example rack": _example("rack", "measure.requests=300"),
    "example rack-81": _example("rack-81", "measure.requests=200"),
    "example rack-pair": _example("rack-pair"),
    "example two-domains": _example("two-domains", "measure.requests=500"),
    "example router": _server(
        f"data_plane.program={ROOT / 'examples' / 'router.c'}",
        f"traffic.packets={ROOT / 'examples' / 'packets.pcap'}",
        "traffic.packet_bytes=1500",
    ),
    "example doorbells": _exec("examples/doorbells.c"),
    **dict(_notifications()),
    "task crypto-forwarding": _server("data_plane.program=crypto-forwarding", requests=200),
    "task erasure-coding": _server("data_plane.program=erasure-coding", requests=200),
    "task packet-steering": _server("data_plane.program=packet-steering"),
    "task raid-protection": _server("data_plane.program=raid-protection", requests=200),
    "task request-dispatching": _server("data_plane.program=request-dispatching"),
    "program background": _server("data_plane.program=background", cores=1, requests=200),
    "program rate-limiter": _server("data_plane.program=rate-limiter", requests=200),
    "program tenants": _server("data_plane.program=tenants"),
    "store key-value, Zipf": _server(
        "data_plane.program=key-value", *_OPERATIONS, "traffic.operations.popularity=zipf"
    ),
    "store ordered, scans": _server(
        "data_plane.program=ordered-store",
        "traffic.packet_bytes=5632",
        *_OPERATIONS[1:],
        "traffic.operations.gets=0.8",
        "traffic.operations.scans=0.1",
    ),
    "store key-value, RPCValet": _server(
        "data_plane.program=key-value",
        *_OPERATIONS,
        "data_plane.notify=rpcvalet",
        "data_plane.queues=200",
    ),
    "shape single-queue, saturated": _server(
        "traffic.shape=single-queue", "traffic.load=saturate", "data_plane.queues=100", cores=1
    ),
    "shape non-proportionally-concentrated, bursty": _server(
        "traffic.shape=non-proportionally-concentrated",
        "traffic.arrivals=bursty",
        "data_plane.queues=200",
        _SCALE_UP,
    ),
    "shape proportionally-concentrated, fixed arrivals": _server(
        "traffic.shape=proportionally-concentrated", "traffic.arrivals=fixed"
    ),
    "policy weighted": _server(
        "data_plane.policy=weighted-round-robin",
        "data_plane.queues=4",
        "data_plane.weights=[4, 1, 2, 1]",
        "traffic.load=saturate",
        cores=1,
    ),
    "policy strict-priority, any order": _server(
        "data_plane.policy=strict-priority", "data_plane.in_order=false", _SCALE_UP
    ),
    "batches of 8": _server("data_plane.notify=spin-poll-mode", "data_plane.batch=8"),
    "work exponential, imbalance": _server(
        "data_plane.program=synthetic", _WORK % "exponential", "traffic.imbalance=0.2"
    ),
    "work uniform, half of the peak": _server(
        "data_plane.program=synthetic",
        _WORK % "uniform",
        "traffic.load=0.5",
        "measure.precision=0.2",
    ),
    "user-interrupt, tracked": _server(
        "data_plane.notify=user-interrupt", "data_plane.queues=200", _SCALE_UP
    ),
    "user-interrupt, flushing": _server(
        "data_plane.notify=user-interrupt",
        "server.user_interrupts.delivery=flushing",
        "server.user_interrupts.forwarding=false",
    ),
    "core power-optimised": _server("server.hyperplane.power_optimised=true"),
    "core with two threads": _server(
        "server.core.threads=2", "data_plane.co_runner=matrix-multiplication", requests=100
    ),
    "core TSO": _server("server.core.memory_model=tso", "data_plane.notify=spin"),
    "core in order": _server(*_FIVE_STAGE, "data_plane.notify=wrs"),
    "cache L2, non-inclusive": _server(
        _PRIVATE_L2, "server.fabric.last_level.inclusion=non-inclusive", "data_plane.notify=spin"
    ),
    "cache random replacement": _server(
        "server.core.l1_instruction.replacement=random",
        "server.core.l1_data.replacement=random",
        "data_plane.queues=400",
        _SCALE_UP,
    ),
    "sockets apart": _server(*_TWO_SOCKETS, _SCALE_UP),
    "sockets stealing": _server(*_TWO_SOCKETS, _SCALE_UP, "server.hyperplane.stealing=when-idle"),
    "sockets spinning": _server(*_TWO_SOCKETS, _SCALE_UP, "data_plane.notify=spin"),
    "messages, one queue": _server(*_MESSAGES),
    "messages, queue per core": _server(*_MESSAGES, "server.rpcvalet.dispatch.mode=queue-per-core"),
    "messages, software": _server(*_MESSAGES, "server.rpcvalet.dispatch.mode=software"),
    "messages, faults": _server(
        *_MESSAGES,
        "server.rpcvalet.network.faults={ lost = 0.02, duplicated = 0.02, reordered = 0.05 }",
    ),
    "rack NDP, incast": _rack(
        "nanopu/loopback",
        "nanopu",
        offer={"mode": "simultaneous", "every_ns": 5000.0},
        transport={"protocol": "ndp"},
        clients=8,
    ),
    "rack Homa, lost packets": _rack(
        "nanopu/loopback",
        "nanopu",
        "rack.link.faults={ lost = 0.01 }",
        transport={"protocol": "homa"},
    ),
    "rack register threads": _rack("nanopu/threads-by-priority", "nanopu"),
    "rack rings on the chip": _rack("traditional/loopback", "ice-nic"),
    "rack rings into the L1 cache": _rack(
        "traditional/loopback-batch", "ice-nic", machine={"ice_nic": {"first_level": True}}
    ),
    "rack rings behind PCI Express": _rack("traditional/loopback-express", "dma-nic"),
    "rack store, rings": _store("store-rings", "dma-nic", machine={"dma_nic": {"queues": 4}}),
    "rack store, QWAIT": _store(
        "store-qwait", "dma-nic", machine={"dma_nic": {"queues": 8}}, systems=["hyperplane"]
    ),
    "rack store, messages": _store(
        "store-messages", "rpcvalet", "rack.servers.0.server.rpcvalet.backends=2"
    ),
    "rack store, registers": _store("store-registers", "nanopu"),
    "exec harts": _exec("guest/tests/harts.c"),
    "exec harts, in order": _exec(
        "guest/tests/harts.c", *(part for one in _FIVE_STAGE for part in ("--set", one))
    ),
    "exec integer code, functional": _exec("tests/bench/integer.c", "--functional"),
    "linux threads": _exec("guest/tests/linux/threads.c", arguments=("6",)),
    "linux threads, functional": _exec(
        "guest/tests/linux/threads.c", "--functional", arguments=("6",)
    ),
    "linux signals": _exec("guest/tests/linux/signals.c"),
    "linux sockets": _exec("guest/tests/linux/echo.c"),
    "linux memory": _exec("guest/tests/linux/memory.c"),
}
"""Every kind of run by its name: each takes a few seconds at most."""


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Say which fields of two runs' digests differ."""
    notes = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            notes.append(f"{name} (not recorded)")
        elif name not in new:
            notes.append(f"{name} (no longer there)")
        elif old[name] != new[name]:
            notes.append(name)
    return notes


def _timed(run: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.monotonic()
    return run(), time.monotonic() - begin


def _write(directory: str, name: str, result: Result) -> None:
    path = OUTPUT / directory / f"{name.replace(' ', '-').replace(',', '')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(comparable(result), indent=1, sort_keys=True) + "\n")


def _read(directory: str, name: str) -> Any:
    path = OUTPUT / directory / f"{name.replace(' ', '-').replace(',', '')}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def main() -> int:
    """Do every run, and compare or record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the results")
    parser.add_argument("--only", default="", metavar="TEXT", help="runs with this in their name")
    parser.add_argument("--times", action="store_true", help="say how long each run took")
    arguments = parser.parse_args()
    chosen = {name: run for name, run in RUNS.items() if arguments.only in name}
    known: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    found: dict[str, dict[str, str]] = {}
    begin = time.monotonic()
    different = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        futures = {workers.submit(_timed, run): name for name, run in chosen.items()}
        for future in concurrent.futures.as_completed(futures):
            name = futures[future]
            if (error := future.exception()) is not None:
                failed += 1
                print(f"{name}: {error}")
                continue
            result, took = future.result()
            if arguments.times:
                print(f"{name}: {took:.1f} s", flush=True)
            found[name] = digests(result)
            _write(RECORDED if arguments.record else "now", name, result)
            notes = differing(known.get(name, {}), found[name])
            if not notes or arguments.record:
                continue
            different += 1
            print(f"{name}: {', '.join(notes) if name in known else 'not recorded'}")
            if (old := _read(RECORDED, name)) is not None and digests(old) == known.get(name):
                new = json.loads(json.dumps(comparable(result)))
                for line in itertools.islice(first_differences(old, new), 10):
                    print(f"    {line}")
    seconds = time.monotonic() - begin
    if arguments.record:
        kept = {name: one for name, one in known.items() if name in RUNS and name not in found}
        DIGESTS.write_text(json.dumps({**kept, **found}, indent=1, sort_keys=True) + "\n")
        print(f"{len(found)} runs recorded in {DIGESTS.relative_to(ROOT)} ({seconds:.0f} s)")
        return 0
    if gone := [name for name in known if name not in RUNS]:
        print(f"no such run any more: {', '.join(gone)}")
    print(f"{len(found)} runs, {different} with other results than recorded ({seconds:.0f} s)")
    return 1 if different or gone else 0


if __name__ == "__main__":
    sys.exit(main())
