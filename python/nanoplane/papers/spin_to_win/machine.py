"""Section 3, methodology: the machine under test, the packet generator, and a core's counters."""

import dataclasses
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanoplane.description import Description
from nanoplane.intervals import Estimate
from nanoplane.outcomes import Outcome
from nanoplane.sweep import Run

CORES = 24
LINE_GBIT_PER_S = 100.0
FLOWS = 1024
"""Flows of the packet generator where receive-side scaling spreads packets over all queues."""
CHECKSUM_BYTES = 4
"""A packet's size in the paper includes Ethernet's checksum, which is not in memory."""
HEADER_BYTES = 64
"""The minimum header of the load generator's packets; a message has at least one byte more."""
TIMED_BYTES = 96
"""Section 3: "96-byte for experiments requiring timestamps for latency measurement"."""
SHORTEST_BYTES = 64
OVERLOAD_MRPS = 60.0
"""More than the forwarding throughput of one core."""
LINE_MRPS = 150.0
"""More than the line rate."""
BEGIN_NS = 5000.0
"""The first packet arrives after the ports are set up."""


def machine(threads: int = 1) -> dict[str, Any]:
    """Return the machine under test (Table 1), with `threads` hardware threads for each core."""
    return {"preset": "spin-to-win-table1", "core": {"threads": threads}}


def _network() -> dict[str, Any]:
    # A metre of cable; preamble, checksum and gap.
    return {"rate_gbit_per_s": LINE_GBIT_PER_S, "latency_ns": 5.0, "overhead_bytes": 24}


def loaded(
    source: str,
    program: str,
    parameters: Mapping[str, float],
    rate_mrps: float,
    *,
    measured: int,
    warmup: int,
    bytes_: int = TIMED_BYTES,
    flows: int = FLOWS,
    routed: bool = False,
    threads: int = 1,
    precision: float | None = None,
    systems: Mapping[str, Any] | None = None,
    interface: Mapping[str, Any] | None = None,
    begin_ns: float = BEGIN_NS,
) -> Run:
    """Describe a server that receives packets of `bytes_` at its first port (Figure 4).

    The generator sends the packets at random times (Poisson); they return from the second port.
    `routed` packets go to all prefixes of the routing table. `systems` are descriptions keyed by
    name, in addition to the paper's, and `interface` describes the interface.
    """
    load: dict[str, Any] = {
        "offer": {"mode": "open", "rate_mrps": rate_mrps},
        "ports": flows,
        "requests": [{"bytes": max(1, bytes_ - CHECKSUM_BYTES - HEADER_BYTES)}],
        "stamped": bytes_ >= TIMED_BYTES,
        "transport": {"protocol": "datagrams", "send_buffers": 4096, "receive_buffers": 4096},
    }
    if routed:
        load["destinations"] = {"first": "64.0.0.0", "last": "64.63.255.255"}
    measure: dict[str, Any] = {"requests": measured, "warmup": warmup, "seed": 1}
    if precision is not None:
        measure["precision"] = precision
    server: dict[str, Any] = {
        "program": f"poll-mode/{program}",
        "parameters": {name: float(value) for name, value in parameters.items()},
        "serves": True,
        "interface": "cqe-nic",
        "server": machine(threads),
    }
    _add(server, systems, interface)
    return Run(
        Description.from_dict(
            {
                "rack": {
                    "link": _network(),
                    "servers": [server],
                    "clients": [{"begin_ns": begin_ns, "load": load}],
                },
                "measure": measure,
            },
            source=source,
        )
    )


def _add(
    server: dict[str, Any], systems: Mapping[str, Any] | None, interface: Mapping[str, Any] | None
) -> None:
    if systems:
        server["systems"] = list(systems)
        server["server"].update(systems)
    if interface:
        server["server"]["cqe_nic"] = dict(interface)


def pair(
    source: str,
    first: tuple[str, Mapping[str, float]],
    second: tuple[str, Mapping[str, float]],
    *,
    threads: int = 1,
    systems: Mapping[str, Any] | None = None,
    interface: Mapping[str, Any] | None = None,
) -> Run:
    """Describe two servers whose first ports are connected.

    The run ends with the program of the second server, which has `systems` and `interface` as in
    `loaded()`.
    """
    servers: list[dict[str, Any]] = [
        {
            "name": name,
            "program": f"poll-mode/{program}",
            "parameters": {key: float(value) for key, value in parameters.items()},
            "serves": name == "first",
            "interface": "cqe-nic",
            "server": machine(threads),
        }
        for name, (program, parameters) in (("first", first), ("second", second))
    ]
    _add(servers[1], systems, interface)
    rack = {"link": _network(), "servers": servers}
    return Run(Description.from_dict({"rack": rack}, source=source))


def idle(source: str, program: str, parameters: Mapping[str, float], **described: Any) -> Run:
    """Describe a server without traffic; `described` as in `pair()`."""
    return pair(source, ("silent", {}), (program, parameters), **described)


_WINDOW = re.compile(
    r"window: (\d+) cycles (\d+) instructions (\d+) polls (\d+) packets (\d+) useful (\d+) l1 "
    r"(\d+) l2"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The first core's counts in a window of time (`poll_mode/window.h`)."""

    cycles: int
    instructions: int
    polls: int
    packets: int
    useful: int
    """Cycles spent on packets, if counted separately."""
    l1_misses: int
    l2_misses: int


def windows(outcome: Outcome) -> list[Window]:
    """Return the windows in a server's output."""
    output = outcome.result["servers"][-1]["output"]
    found = [Window(*map(int, numbers)) for numbers in _WINDOW.findall(output)]
    if len(found) < 2:
        raise ValueError(f"{output!r} has fewer than two windows")
    return found


_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Quantiles of Student's t for two-sided 95 %, by degrees of freedom."""


def mean(values: Sequence[float], points: Sequence[Any] = ()) -> Estimate:
    """Return the mean over windows, which are assumed to be independent."""
    average = statistics.fmean(values)
    degrees = len(values) - 1
    quantile = _STUDENT[degrees - 1] if degrees <= len(_STUDENT) else 2.2
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(average, (average - half, average + half), points=frozenset(points))


def of_windows(outcome: Outcome, value: Callable[[Window], float]) -> Estimate:
    """Return the mean of a function of the windows, and its interval."""
    return mean([value(window) for window in windows(outcome)])


def combined(combine: Callable[..., float], *parts: Estimate) -> Estimate:
    """Return a function of independent estimates; the squares of the changes add up."""
    values = [one.value for one in parts]
    middle = combine(*values)
    below = above = 0.0
    for place, one in enumerate(parts):
        moved = [combine(*values[:place], end, *values[place + 1 :]) for end in one.ci95]
        below += min(*(value - middle for value in moved), 0.0) ** 2
        above += max(*(value - middle for value in moved), 0.0) ** 2
    return Estimate(
        middle,
        (middle - math.sqrt(below), middle + math.sqrt(above)),
        points=frozenset().union(*(one.points for one in parts)),
    )


def ipc(outcome: Outcome) -> Estimate:
    """Return the instructions a cycle of the first core's first thread."""
    return of_windows(outcome, lambda window: window.instructions / window.cycles)


def polls_mhz(outcome: Outcome) -> Estimate:
    """Return the rate of polls of queues, in millions a second."""
    clock = clock_ghz(outcome)
    return of_windows(outcome, lambda window: 1000 * clock * window.polls / window.cycles)


def packets_mrps(outcome: Outcome) -> Estimate:
    """Return the rate of packets that the first core forwards, in millions a second."""
    clock = clock_ghz(outcome)
    return of_windows(outcome, lambda window: 1000 * clock * window.packets / window.cycles)


def clock_ghz(outcome: Outcome) -> float:
    """Return the clock of the machine under test."""
    server = outcome.description["rack"]["servers"][-1]["server"]
    return float(server["fabric"]["clock_ghz"])


def measurement(outcome: Outcome) -> dict[str, Any]:
    """Return the packet generator's measurements."""
    found: dict[str, Any] = outcome.result["clients"][0]["measurement"]
    return found
