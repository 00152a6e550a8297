"""Notification of cores: the same store, chip and requests with three kinds of queues.

Spinning over 200 receive queues, QWAIT over them (HyperPlane, MICRO 2020), and messages that the
network interface dispatches to cores (RPCValet, ASPLOS 2019).
"""

import dataclasses
from typing import Any

from nanoplane.claims import Claim, above, below
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, ranking
from nanoplane.load_search import Limit
from nanoplane.papers import plots
from nanoplane.papers.rpcvalet.stores import STORES
from nanoplane.schemas import mechanisms
from nanoplane.sweep import Run

PROGRAM = "key-value"
SAME_END = "compare/key-value-replenish"
"""The same with replies sent by the harts: a request ends when its reply is in memory, as when
tenants fetch replies."""
CORES = 16
QUEUES = 200
"""The number of nodes of RPCValet's cluster (Section 5); each node's requests have a queue."""


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """A notification mechanism."""

    name: str
    """Its name in figures."""
    data_plane: dict[str, str]
    """The description's differences from the common parts."""


SYSTEMS = {
    "spin": System(
        "spinning, each core over its own queues",
        {"notify": "spin", "organisation": "scale-out"},
    ),
    "spin-shared": System(
        "spinning, each core over all queues",
        {"notify": "spin", "organisation": "scale-up"},
    ),
    "qwait": System(
        "QWAIT, each core over its own queues",
        {"notify": "hyperplane", "organisation": "scale-out"},
    ),
    "qwait-shared": System(
        "QWAIT, all cores over all queues",
        {"notify": "hyperplane", "organisation": "scale-up"},
    ),
    "rpcvalet": System("RPCValet, 1x16", {"notify": "rpcvalet"}),
}
APART, SHARED, QWAIT_APART, QWAIT, RPCVALET = SYSTEMS
OTHERS = tuple(
    name
    for name, one in mechanisms().items()
    if not one.brings_requests and name not in ("spin", "hyperplane")
)
"""Shown on request only: no paper compares these with RPCValet."""
SYSTEMS |= {
    name: System(
        f"{mechanisms()[name].label}, each core over its own queues",
        {"notify": name, "organisation": "scale-out"},
    )
    for name in OTHERS
}
RATES_MRPS = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0)
QUICK_RATES_MRPS = (10.0, 20.0, 30.0)
REQUESTS, QUICK_REQUESTS = 100_000, 4000
SATURATION_MRPS = 100.0
"""Twice the peak of 16 cores."""
SATURATED_SLOTS = 2
"""As where the mean service time of Figures 7 to 9 is measured."""
LIMITS = (10.0, 3.0)
"""On the p99, in mean service times: that of both papers, and a tight one. The mean service time is
RPCValet's for all, so that all have the same limit in nanoseconds."""
PRECISION, QUICK_PRECISION = 0.01, 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    system: str
    rate_mrps: float | None = None
    """None: at saturation, or at the largest load within the limit."""
    limit: float | None = None
    """On the p99, in mean service times."""

    @property
    def name(self) -> str:
        """Its name in progress messages and errors."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        if self.limit is not None:
            load = f"within {self.limit:g} mean service times"
        return f"{PROGRAM}, {SYSTEMS[self.system].name}, {load}"

    def description(self, quick: bool) -> Description:
        """Return its description."""
        store = STORES[PROGRAM]
        server: dict[str, Any] = {"preset": "rpcvalet-table1", "data_plane_cores": CORES}
        if self == REFERENCE:
            server["rpcvalet"] = {"slots": SATURATED_SLOTS}
        load: dict[str, Any] = {"rate_mrps": self.rate_mrps}
        if self.rate_mrps is None:
            load = {"load": "saturate", "saturation_rate_mrps": SATURATION_MRPS}
        return Description.from_dict(
            {
                "server": server,
                "data_plane": {
                    "program": SAME_END if self.system == RPCVALET else PROGRAM,
                    "queues": QUEUES,
                    **SYSTEMS[self.system].data_plane,
                },
                "traffic": {
                    "arrivals": "poisson",
                    "shape": "fully-balanced",
                    "packet_bytes": store.packet_bytes,
                    "operations": store.operations,
                    **load,
                },
                "measure": {"requests": QUICK_REQUESTS if quick else REQUESTS, "seed": 1},
            },
            source=self.name,
        )

    def run(self, quick: bool) -> Run:
        """Return its run."""
        description = self.description(quick)
        if self.limit is None:
            return Run(description)
        precision = QUICK_PRECISION if quick else PRECISION
        limit = Limit(self.limit, precision, interval=not quick)
        near = QUICK_RATES_MRPS if quick else RATES_MRPS
        return Run(description, peak=REFERENCE.description(quick), limit=limit, near=near)


REFERENCE = Case(RPCVALET)
"""The system whose mean service time defines all limits."""


def _points(quick: bool) -> dict[Any, Run]:
    cases = [REFERENCE]
    for system in SYSTEMS:
        rates = QUICK_RATES_MRPS if quick else RATES_MRPS
        cases += [Case(system, rate) for rate in rates]
        cases += [Case(system, limit=limit) for limit in LIMITS]
    return {case: case.run(quick) for case in cases}


def _rows(results: Results) -> list[Row]:
    cases = [
        case
        for system in SYSTEMS
        for case in (
            *(Case(system, rate) for rate in RATES_MRPS),
            *(Case(system, limit=limit) for limit in LIMITS),
        )
        if case in results
    ]
    return [_row(results, case) for case in cases]


def _row(results: Results, case: Case) -> Row:
    statistic = "p99 latency"
    if case.limit is not None:
        statistic = f"p99 at the largest load within {case.limit:g} mean service times"
    row = Row.latency(
        case,
        results[case],
        series=SYSTEMS[case.system].name,
        x=results[case].result["throughput_mrps"],
        x_unit="million requests a second",
    )
    return dataclasses.replace(row, statistic=statistic)


def _chart(rows: list[Row]) -> plots.Chart:
    names = {name: system.name for name, system in SYSTEMS.items()}
    shown = [row for row in rows if row.labels.get("limit") != f"{LIMITS[1]}"]
    return plots.panels(
        shown,
        lambda _: "the HERD-like store",
        x=plots.linear("million requests a second"),
        y=plots.logarithmic("p99 latency, microseconds"),
        colour=plots.Series.systems("notification", "system", names),
        dash=plots.Series.label(
            "notification",
            "system",
            names,
            [[6, 4], [2, 2], [8, 3, 2, 3], [4, 2], [1, 0], [1, 2]],
        ),
    )


def _answer(rows: list[Row]) -> str:
    within = [row for row in rows if row.labels.get("limit") == f"{LIMITS[0]}"]
    of = f"Million requests a second with a p99 of at most {LIMITS[0]:g} mean service times"
    return ranking(of, within, lambda row: row.x)


FIGURES = (
    Figure(
        name="compare.notification",
        title="Notification of cores: spinning, QWAIT and RPCValet",
        caption=(
            f"The chip of RPCValet's Table 1, {CORES} cores, the HERD-like store, and the same "
            f"requests, from {QUEUES} nodes with a receive queue each. Latency is from a request's "
            "arrival in its queue or slot until its reply is in memory: to the ring of its "
            "tenant's doorbell, or to a replenish that precedes the sending of the reply. Tenants "
            "fetch replies; with RPCValet cores send them, and have less time for requests. Items "
            "of a queue are processed in order; RPCValet dispatches those of a node to any core. "
            f"The last point of a line is the largest load with a p99 within {LIMITS[0]:g} mean "
            f"service times of RPCValet; the table also has those within {LIMITS[1]:g}."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        answer=_answer,
        optional={"system": OTHERS},
    ),
)


# What the papers lead one to expect.


def _mrps(results: Results, system: str, limit: float) -> float:
    return float(results[Case(system, limit=limit)].result["largest_load"])


def _gain(results: Results, system: str, over: str, limit: float) -> float:
    """Return the quotient of the throughputs of two systems within a limit."""
    return _mrps(results, system, limit) / _mrps(results, over, limit)


def _p99_ratio(results: Results, system: str, other: str, rate_mrps: float) -> float:
    latencies = (results[Case(one, rate_mrps)].result["latency_ns"] for one in (system, other))
    one, two = (float(latency["p99"]) for latency in latencies)
    return one / two


_MULTI_QUEUE = "The result is a multi-queue system, vulnerable to load imbalance"
_STRICTER = (
    "the throughput gap between RPCValet and 1x16 would be larger for SLOs stricter than the "
    "assumed 10xS"
)
_SPINNING = (
    "spinning alternatives experience performance drops due to (1) synchronization and cache "
    "coherence costs"
)
_UNKNOWN = "unexplained"
_SENDING = (
    "the gain of a shorter queue is spent on sending the reply, which a tenant fetches in the "
    "other systems"
)

CLAIMS = (
    Claim(
        "compare.rpcvalet-over-spinning",
        "RPCValet, Section 3.3",
        _MULTI_QUEUE,
        "times",
        "throughput with a p99 within three mean service times, RPCValet divided by spinning with "
        "private queues",
        above(1, _SENDING),
        lambda r: _gain(r, RPCVALET, APART, LIMITS[1]),
        figure="compare.notification",
    ),
    Claim(
        "compare.stricter",
        "RPCValet, Section 6.1",
        _STRICTER,
        "times",
        "RPCValet's gain over spinning with private queues: that within three mean service times "
        "divided by that within ten",
        above(1, _UNKNOWN),
        lambda r: _gain(r, RPCVALET, APART, LIMITS[1]) / _gain(r, RPCVALET, APART, LIMITS[0]),
        figure="compare.notification",
    ),
    Claim(
        "compare.qwait-shared",
        "HyperPlane, Section V-C",
        "scale-up designs improve HyperPlane latency, especially at high loads",
        "times",
        f"{QUICK_RATES_MRPS[2]:g} million requests a second: p99 of QWAIT with shared queues "
        "divided by that with private queues",
        below(1, _UNKNOWN),
        lambda r: _p99_ratio(r, QWAIT, QWAIT_APART, QUICK_RATES_MRPS[2]),
        figure="compare.notification",
    ),
    Claim(
        "compare.spinning-shared",
        "HyperPlane, Section V-C",
        _SPINNING,
        "times",
        "throughput with a p99 within ten mean service times: spinning with shared queues divided "
        "by spinning with private queues",
        below(1, _UNKNOWN),
        lambda r: _gain(r, SHARED, APART, LIMITS[0]),
        figure="compare.notification",
    ),
    Claim(
        "compare.rpcvalet-over-qwait",
        "RPCValet, Section 3.3",
        "achieving the best of both worlds: the load-balancing flexibility of a single-queue "
        "system, and the synchronization-free, zero-copy behavior of partitioned multi-queue "
        "architectures",
        "times",
        "throughput with a p99 within three mean service times, RPCValet divided by QWAIT with "
        "shared queues",
        above(1, _SENDING),
        lambda r: _gain(r, RPCVALET, QWAIT, LIMITS[1]),
        figure="compare.notification",
    ),
)
