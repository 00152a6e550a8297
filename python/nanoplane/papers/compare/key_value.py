"""One key-value store behind four network interfaces: the same server, program and requests.

Rings of descriptors that each core polls, the same rings with QWAIT (HyperPlane, MICRO 2020) and
with user-level interrupts (xUI, ASPLOS 2025), messages that the interface gives to cores (RPCValet,
ASPLOS 2019), and messages in registers (nanoPU, OSDI 2021). docs/comparison.md says what is equal
and what differs.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from nanoplane.claims import Claim
from nanoplane.compiler import GUEST
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels, ranking
from nanoplane.load_search import Limit
from nanoplane.outcomes import measurement, settled
from nanoplane.papers import plots
from nanoplane.sweep import Run

CORES = 16
BUFFERS = 2048
"""For requests, behind each interface."""
LINK_NS = 43.0
"""From the client to the server, and back: the links of nanoPU's Section 5.3."""
CLIENT_PORTS = 4096
"""So many that receive-side scaling spreads requests nearly as evenly as chance would."""
KEYS, VALUE_WORDS = 10_000, 64
BEGIN_NS = 100_000.0
"""Programs have made their rings by then."""

SERVER: Mapping[str, Any] = {
    "preset": "nanopu-prototype",
    "data_plane_cores": CORES,
    "fabric": {
        "cores": CORES,
        "mesh": {"columns": 4, "rows": 4, "hop_latency_cycles": 3},
        "memory": {"controllers": 4, "latency_ns": 50.0, "bandwidth_gb_per_s": 25.6},
    },
    "nanopu": {
        "transport": {
            "protocol": "datagrams",
            "receive_buffers": BUFFERS,
            "send_buffers": BUFFERS,
        }
    },
}
"""nanoPU's cores, for its registers need an in-order core, and the others take any; 128 KB of
last-level cache a core, as in nanoPU's prototype and RPCValet's chip; and that chip's mesh and
memory."""

EXPRESS: Mapping[str, Any] = {"rate_gbit_per_s": 231.52, "reads": 256}
"""16 lanes of PCI Express 4.0, as an interface of 200 Gb/s has: four times the bandwidth of the
eight lanes of 3.0 that are the default, and extended tags."""
ON_CHIP: Mapping[str, Any] = {
    **{**EXPRESS, "rate_gbit_per_s": 10_000.0, "latency_ns": 0.0},
    "energy": {"byte_pj": 0.0, "static_mw_per_gb_per_s": 0.0},
}
"""The same rings without PCI Express in between, which takes neither time nor energy."""


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """An interface, and how cores learn of requests."""

    name: str
    """What figures call it."""
    program: str
    """Below guest/programs/compare."""
    server: Mapping[str, Any]
    """Of the entry of `rack.servers`, beside what all have."""
    parameters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Of its program: guest/include/services/compared_store.h."""


_BESIDE = {
    "store-qwait": ["hyperplane"],
    "store-interrupts": ["user_interrupts"],
    "store-dispatcher": ["user_interrupts"],
}
"""The systems that programs need beside the interface."""


def _rings(
    name: str, program: str, queues: int, express: Mapping[str, Any], **parameters: int
) -> System:
    described = {
        "interface": "dma-nic",
        "systems": _BESIDE.get(program, []),
        "server": {**SERVER, "dma_nic": {"queues": queues, "express": dict(express)}},
    }
    return System(name, program, described, parameters)


SLICE_CYCLES = 16_000
"""Of the dispatcher that interrupts: 5 us, the shortest of Shinjuku's (NSDI 2019, Section 5)."""

SYSTEMS = {
    "rings": _rings("rings behind PCI Express, polled", "store-rings", CORES, EXPRESS),
    "rings-on-chip": _rings("rings on the chip, polled", "store-rings", CORES, ON_CHIP),
    "qwait": _rings("rings behind PCI Express, QWAIT", "store-qwait", 64, EXPRESS, entries=32),
    "qwait-on-chip": _rings("rings on the chip, QWAIT", "store-qwait", 64, ON_CHIP, entries=32),
    "rpcvalet": System("RPCValet", "store-messages", {"interface": "rpcvalet"}),
    "nanopu": System("nanoPU", "store-registers", {"interface": "nanopu"}),
    "interrupts": _rings(
        "rings behind PCI Express, user interrupts", "store-interrupts", CORES, EXPRESS
    ),
    "interrupts-on-chip": _rings(
        "rings on the chip, user interrupts", "store-interrupts", CORES, ON_CHIP
    ),
    "bursts-on-chip": _rings(
        "rings on the chip, polled, a doorbell for a burst", "store-bursts", CORES, ON_CHIP
    ),
    "wrs-on-chip": _rings("rings on the chip, WRS", "store-wrs", CORES, ON_CHIP),
    "stealing-on-chip": _rings(
        "rings on the chip, polled, with stealing", "store-stealing", CORES, ON_CHIP
    ),
    "counters-on-chip": _rings(
        "rings on the chip, packed counters", "store-counters", CORES, ON_CHIP
    ),
    "shared-on-chip": _rings("one ring on the chip, fetch-and-add", "store-shared", 1, ON_CHIP),
    "shared-wrs-on-chip": _rings(
        "one ring on the chip, fetch-and-add and WRS", "store-shared", 1, ON_CHIP, sleep=1
    ),
    "dispatcher-on-chip": _rings(
        "one ring on the chip, a core that dispatches", "store-dispatcher", 1, ON_CHIP
    ),
    "shinjuku-on-chip": _rings(
        "one ring on the chip, a core that dispatches and interrupts",
        "store-dispatcher",
        1,
        ON_CHIP,
        slice_cycles=SLICE_CYCLES,
    ),
}
RINGS, RINGS_ON_CHIP, QWAIT, QWAIT_ON_CHIP, RPCVALET, NANOPU, *INTERRUPTED = SYSTEMS


def requests(keys: int = KEYS) -> list[dict[str, Any]]:
    """Return half reads and half writes, of keys that are equally likely, as nanoPU's MICA has."""
    key: list[Any] = [{"min": 0, "max": keys - 1}, 0, 0]
    anything = {"min": 0, "max": (1 << 64) - 1}
    return [
        {"name": "read", "words": [1, *key]},
        {"name": "write", "words": [2, *key, *[anything] * VALUE_WORDS]},
    ]


def rack(
    source: str, system: str, offer: Mapping[str, Any], measure: Mapping[str, Any]
) -> Description:
    """Describe a server and the client that loads it over one link, without a transport."""
    chosen = SYSTEMS[system]
    return Description.from_dict(
        {
            "rack": {
                "link": {"latency_ns": LINK_NS},
                "servers": [
                    {
                        "program": str(GUEST / "programs" / "compare" / f"{chosen.program}.c"),
                        "serves": True,
                        "server": dict(SERVER),
                        "parameters": dict(chosen.parameters),
                        **chosen.server,
                    }
                ],
                "clients": [
                    {
                        "count": 1,
                        "begin_ns": BEGIN_NS,
                        "load": {
                            "offer": dict(offer),
                            "requests": requests(),
                            "ports": CLIENT_PORTS,
                            "transport": {"protocol": "datagrams"},
                        },
                    }
                ],
            },
            "measure": dict(measure),
        },
        source=source,
    )


RATES_MRPS = (1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5)
QUICK_RATES_MRPS = (2.5, 7.5, 10.0)
REQUESTS, QUICK_REQUESTS = 100_000, 4000
WARMUP, QUICK_WARMUP = 10_000, 2000
"""Left out. The last-level cache has 32,768 lines; a request touches nine of the store alone, and
as many of its buffer."""
UNDER_WAY = 256
"""Requests that saturate: 16 for each core."""
SERVICE_TIMES = 10.0
ABSOLUTE_NS = 5000.0
LIMITS = {
    "service-times": f"{SERVICE_TIMES:g} mean service times",
    "absolute": f"{ABSOLUTE_NS / 1000:g} us",
}
"""On the p99 that the client sees. The mean service time is that of rings on the chip for all, so
that all have the same limit in nanoseconds."""
PRECISION, QUICK_PRECISION = 0.01, 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    system: str
    rate_mrps: float | None = None
    """None: as much as the server can take, or the largest load within the limit."""
    limit: str | None = None
    """Which of the limits."""

    @property
    def name(self) -> str:
        """What progress and errors call it."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        if self.limit is not None:
            load = f"within {LIMITS[self.limit]}"
        return f"key-value store, {SYSTEMS[self.system].name}, {load}"

    def description(self, quick: bool) -> Description:
        """Return its description."""
        offer: dict[str, Any] = {"mode": "open", "arrivals": "poisson", "rate_mrps": 1.0}
        if self.rate_mrps is not None:
            offer["rate_mrps"] = self.rate_mrps
        elif self.limit is None:
            offer = {"mode": "closed", "clients": UNDER_WAY, "think_ns": 0.0}
        measure = {
            "requests": QUICK_REQUESTS if quick else REQUESTS,
            "warmup": QUICK_WARMUP if quick else WARMUP,
            "seed": 1,
        }
        return rack(self.name, self.system, offer, measure)

    def run(self, quick: bool) -> Run:
        """Return its run."""
        description = self.description(quick)
        if self.limit is None:
            return Run(description)
        limit = Limit(
            SERVICE_TIMES,
            QUICK_PRECISION if quick else PRECISION,
            interval=not quick,
            absolute_ns=ABSOLUTE_NS if self.limit == "absolute" else None,
        )
        near = QUICK_RATES_MRPS if quick else RATES_MRPS
        return Run(description, peak=REFERENCE.description(quick), limit=limit, near=near)


REFERENCE = Case(RINGS_ON_CHIP)
"""Whose mean service time the limit is made of."""


def cases(quick: bool) -> list[Case]:
    """Return all runs."""
    return [
        case
        for system in SYSTEMS
        for case in (
            Case(system),
            *(Case(system, rate) for rate in (QUICK_RATES_MRPS if quick else RATES_MRPS)),
            *(Case(system, limit=limit) for limit in LIMITS),
        )
    ]


def _points(quick: bool) -> dict[Any, Run]:
    return {case: case.run(quick) for case in cases(quick)}


PARTS: Mapping[str, tuple[str, ...]] = {
    "last-level cache and directory": ("last_level", "directory"),
    "mesh": ("mesh",),
    "memory": ("memory_controllers", "dram"),
    "HyperPlane": ("monitoring_set", "ready_set"),
    "user-level interrupts": ("user_interrupts",),
    "network port and PCI Express": ("network_port", "pci_express"),
}
"""What the cores share, as the table has it."""
LEAKAGE = "of all of it, leakage"


def energy_nj(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the energy of a request in nanojoules: all, by part, and how much leaks of all."""
    (server,) = result["servers"]
    energy = server["energy_nj"]
    spent: dict[str, float] = {"all": energy["total"]}
    spent["cores"] = sum(core["total"] for core in energy["cores"])
    for part, names in PARTS.items():
        spent[part] = sum(
            energy[name]["dynamic"] + energy[name]["static"] for name in names if name in energy
        )
    spent[LEAKAGE] = energy["static"]
    return {part: value * energy["per_request"] / energy["total"] for part, value in spent.items()}


def _row(
    results: Results,
    case: Case,
    statistic: str,
    y: float,
    unit: str,
    ci95: tuple[float, float] | None = None,
) -> Row:
    measured = measurement(results[case].result)
    return Row(
        series=SYSTEMS[case.system].name,
        x=1.0 if case.rate_mrps is None else case.rate_mrps,
        x_unit="" if case.rate_mrps is None else MRPS,
        y=y,
        y_unit=unit,
        statistic=statistic,
        labels={**labels(case), "statistic": statistic},
        ci95=ci95,
        samples=measured["latency_ns"]["samples"],
        steady=settled(results[case]),
    )


MRPS = "million requests a second"
MEDIAN, P99 = "median latency", "p99 latency"
ENERGY, PEAK = "energy of a request", "peak throughput"


def _peak_mrps(results: Results, system: str) -> float:
    """Return what a system can take, if that has been run."""
    peak = Case(system)
    return math.inf if peak not in results else _throughput_mrps(results, peak)


def _throughput_mrps(results: Results, case: Case) -> float:
    return float(measurement(results[case].result)["throughput_mrps"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for case in (one for one in cases(quick=False) if one in results):
        result = results[case].result
        latency = measurement(result)["latency_ns"]
        if case.limit is not None:
            statistic = f"largest load within {LIMITS[case.limit]}"
            least, most = result["largest_load_ci95"]
            load = result["largest_load"]
            rows.append(_row(results, case, statistic, load, MRPS, (least, most)))
        elif case.rate_mrps is None:
            rows.append(_row(results, case, PEAK, _throughput_mrps(results, case), MRPS))
        elif case.rate_mrps <= _peak_mrps(results, case.system):
            for statistic, name in ((MEDIAN, "p50"), (P99, "p99")):
                ends = latency.get(f"{name}_ci95")
                ci95 = None if ends is None else (ends[0] / 1000, ends[1] / 1000)
                value = latency[name] / 1000
                rows.append(_row(results, case, statistic, value, "microseconds", ci95))
            for part, value in energy_nj(result).items():
                statistic = ENERGY if part == "all" else f"{ENERGY}: {part}"
                rows.append(_row(results, case, statistic, value, "nanojoules"))
    return rows


_DASHES = ([6, 4], [6, 4], [2, 2], [2, 2], [8, 3, 2, 3], [1, 0], [4, 2], [4, 2])


def _chart(rows: list[Row]) -> plots.Chart:
    names = {name: system.name for name, system in SYSTEMS.items()}

    def panel(statistic: str, title: str) -> Any:
        shown = [row for row in rows if row.statistic == statistic]
        return plots.panels(
            shown,
            lambda row: row.statistic,
            x=plots.linear(MRPS),
            y=plots.logarithmic(title),
            colour=plots.Series.systems("interface", "system", names),
            dash=plots.Series.label("interface", "system", names, _DASHES),
        )

    return plots.beside(
        panel(MEDIAN, "microseconds"),
        panel(P99, "microseconds"),
        panel(ENERGY, "nanojoules"),
        shared=True,
    )


def _answer(rows: list[Row]) -> str:
    limit = next(iter(LIMITS.values()))
    within = [row for row in rows if row.statistic == f"largest load within {limit}"]
    return ranking(
        f"Million requests a second with a p99 within {limit}", within, lambda row: row.y
    )


FIGURES = (
    Figure(
        name="compare.key-value",
        title="One key-value store behind rings, HyperPlane, RPCValet and nanoPU",
        caption=(
            f"One server, {CORES} in-order cores of nanoPU's prototype at 3.2 GHz with 2 MB of "
            "last-level cache; the same store, requests, arrivals and link for all. Latency is "
            "what the client sees. Rates above what an interface can take are left out. The "
            "largest loads are those whose p99 is within ten mean service times, of rings on the "
            f"chip for all, and within {ABSOLUTE_NS / 1000:g} us. The energy is that of cores, "
            "caches, mesh, memory and HyperPlane's hardware; the network interfaces' own is not "
            "known."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        answer=_answer,
        optional={"system": tuple(INTERRUPTED)},
    ),
)

CLAIMS: tuple[Claim, ...] = ()
