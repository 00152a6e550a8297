"""Section 8, solution directions: the remainder of the four problems if cores need not spin."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import Outcome, settled
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine
from nanoplane.papers.spin_to_win.scale_up import OUT, UP, throughput_mrps
from nanoplane.sweep import Run

POLLING, QWAIT, INTERRUPTS = "spin", "qwait", "interrupts"
MECHANISMS = {
    POLLING: "polling",
    QWAIT: "QWAIT",
    INTERRUPTS: "user interrupts",
}
"""The ways to notify a core of packets, in the order of `wait-forward`'s parameter `mechanism`."""
_DESCRIBED: dict[str, dict[str, Any]] = {
    POLLING: {},
    # 32 rows of 2 ways in each of the 24 directory banks: 1024 entries would not give a power of
    # two of rows.
    QWAIT: {"systems": {"hyperplane": {"entries": 1536}}, "interface": {"counters": True}},
    INTERRUPTS: {"systems": {"user_interrupts": {}}},
}
WORK, QUEUES, FULL_QUEUES, CORES, FULL_CORES, SHARING = (
    "work",
    "queues",
    "queues, full",
    "cores",
    "cores, full",
    "sharing",
)
_PARTS = (WORK, QUEUES, FULL_QUEUES, CORES, FULL_CORES, SHARING)
LOADS_MRPS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
QUICK_LOADS_MRPS = (0.0, 0.5, 4.0)
MANY_QUEUES = (1, 2, 8, 32, 64, 128, 256, 512)
QUICK_QUEUES = (1, 8, 64, 512)
LIGHT_MRPS = 0.5
SOME_CORES = (1, 2, 4, 8, 16)
QUICK_CORES = (1, 4, 16)
QUICK_FULL_CORES = (1, 2, 4)
SHARED_CORES = 4
SHARED_LOADS_MRPS = (1.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0)
QUICK_SHARED_LOADS_MRPS = (4.0, 12.0, 20.0)
HICCUP_US = 10.0
"""The hiccup of one packet in a hundred, with which scale-up is ahead (`spin-to-win.switching`)."""
SPAN_US, QUICK_SPAN_US = 400, 150
"""The length of runs without packets."""
PACKETS, QUICK_PACKETS = 600, 150
FULL_PACKETS, QUICK_FULL_PACKETS = 6000, 2000
SHARED_PACKETS, QUICK_SHARED_PACKETS = 20_000, 3000


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """Cores that forward packets, and poll or wait for them."""

    part: str
    mechanism: str
    load_mrps: float
    queues: int = 1
    cores: int = 1
    organisation: str = OUT

    def run(self, quick: bool) -> Run:
        """Return the run."""
        name = (
            f"{self.part}, {self.mechanism}, {self.organisation}, {self.queues} queues, "
            f"{self.cores} cores, {self.load_mrps:g} Mpps"
        )
        parameters: dict[str, float] = {"rx_vec_en": 1}
        if self.part == SHARING:
            parameters["hiccup_ns"] = 1000 * HICCUP_US
        described = _DESCRIBED[self.mechanism]
        measured, warmup = (QUICK_PACKETS if quick else PACKETS), 30
        if self.part in (FULL_QUEUES, FULL_CORES):
            measured = QUICK_FULL_PACKETS if quick else FULL_PACKETS
            warmup = measured
        elif self.part == SHARING:
            measured = QUICK_SHARED_PACKETS if quick else SHARED_PACKETS
            warmup = 1000
        if self.mechanism == POLLING and self.organisation == UP:
            # As many cores again receive the packets.
            parameters |= {"pairs": self.cores, "shared": 1}
            return machine.loaded(
                name, "dispatch", parameters, self.load_mrps, measured=measured, warmup=warmup
            )
        parameters |= {
            "mechanism": list(MECHANISMS).index(self.mechanism),
            "queues": self.queues,
            "cores": self.cores,
            "shared": self.organisation == UP,
            "beside": self.part == WORK,
        }
        threads = 2 if self.part == WORK else 1
        if self.load_mrps == 0:
            parameters["span_us"] = QUICK_SPAN_US if quick else SPAN_US
            return machine.idle(name, "wait-forward", parameters, threads=threads, **described)
        return machine.loaded(
            name,
            "wait-forward",
            parameters,
            self.load_mrps,
            measured=measured,
            warmup=warmup,
            flows=1 if self.part in (QUEUES, FULL_QUEUES) else machine.FLOWS,
            threads=threads,
            # Before then the ports are set up and the clock is measured, which takes 10 us.
            begin_ns=20_000 + 500 * self.queues,
            **described,
        )


def _of(part: str, quick: bool) -> list[Waiting]:
    if part == WORK:
        values = [{"load_mrps": load} for load in (QUICK_LOADS_MRPS if quick else LOADS_MRPS)]
    elif part in (QUEUES, FULL_QUEUES):
        load = LIGHT_MRPS if part == QUEUES else machine.OVERLOAD_MRPS
        counts: tuple[int, ...] = QUICK_QUEUES if quick else MANY_QUEUES
        values = [{"queues": count, "load_mrps": load} for count in counts]
    elif part in (CORES, FULL_CORES):
        load = LIGHT_MRPS if part == CORES else machine.LINE_MRPS
        counts = SOME_CORES
        if quick:
            counts = QUICK_CORES if part == CORES else QUICK_FULL_CORES
        values = [{"queues": count, "cores": count, "load_mrps": load} for count in counts]
    else:
        loads = QUICK_SHARED_LOADS_MRPS if quick else SHARED_LOADS_MRPS
        some = SHARED_CORES
        values = [{"queues": some, "cores": some, "load_mrps": load} for load in loads]
    organisations = (OUT, UP) if part == SHARING else (OUT,)
    return [
        Waiting(part, mechanism, organisation=organisation, **value)  # type: ignore[arg-type]
        for mechanism, organisation, value in itertools.product(MECHANISMS, organisations, values)
        # An interrupt goes to one hart.
        if (mechanism, organisation) != (INTERRUPTS, UP)
    ]


def _points(quick: bool) -> dict[Any, Run]:
    listed = [one for part in _PARTS for one in _of(part, quick)]
    return {one: one.run(quick) for one in listed}


def _core(outcome: Outcome) -> dict[str, Any]:
    core: dict[str, Any] = outcome.result["servers"][-1]["cores"][0]
    return core


def hart_ipc(outcome: Outcome, hart: int) -> float:
    """Return the instructions a cycle of a hardware thread of the first core, over a run."""
    return float(_core(outcome)["harts"][hart]["ipc"])


def cores_watts(outcome: Outcome, cores: int) -> float:
    """Return the power of the forwarding cores, leakage included."""
    energy = outcome.result["servers"][-1]["energy_nj"]["cores"][:cores]
    total = sum(core["total"] for core in energy)
    return float(total * 1e-9 / outcome.result["simulated_seconds"])


@dataclasses.dataclass(frozen=True, slots=True)
class _Value:
    """A value of a run in a row."""

    statistic: str
    y: float
    y_unit: str
    ci95: tuple[float, float] | None = None
    unit: float = 1.0


_MPPS = "million packets a second"


def _work(outcome: Outcome) -> list[_Value]:
    harts = enumerate(("forwarding", "matrix multiplication beside it"))
    return [_Value(name, hart_ipc(outcome, hart), "instructions a cycle") for hart, name in harts]


def _latencies(outcome: Outcome, statistics: dict[str, str]) -> list[_Value]:
    found = machine.measurement(outcome)["latency_ns"]
    return [
        _Value(name, found[key], "us", found[f"{key}_ci95"], 1000.0)
        for key, name in statistics.items()
    ]


def _throughput(outcome: Outcome, by: str) -> list[_Value]:
    interval = machine.measurement(outcome)["throughput_mrps_ci95"]
    return [_Value(f"throughput by {by}", throughput_mrps(outcome), _MPPS, interval)]


def _values(point: Waiting, outcome: Outcome) -> tuple[float, str, list[_Value]]:
    """Return a point's place on the axis of its part, the axis, and the values."""
    if point.part == WORK:
        return point.load_mrps, _MPPS, _work(outcome)
    if point.part == QUEUES:
        return point.queues, "queues", _latencies(outcome, {"mean": "mean round trip"})
    if point.part == FULL_QUEUES:
        return point.queues, "queues", _throughput(outcome, "queues")
    if point.part == CORES:
        watts = cores_watts(outcome, point.cores)
        return point.cores, "cores", [_Value("power of these cores", watts, "W")]
    if point.part == FULL_CORES:
        return point.cores, "cores", _throughput(outcome, "cores")
    statistics = {"mean": "mean, four cores with hiccups", "p99": "p99, four cores with hiccups"}
    return point.load_mrps, _MPPS, _latencies(outcome, statistics)


def _rows(results: Results) -> list[Row]:
    rows = []
    for point in (one for part in _PARTS for one in _of(part, False)):
        if (outcome := results.get(point)) is None:
            continue
        x, x_unit, values = _values(point, outcome)
        latency = (outcome.result["measurement"] or {}).get("latency_ns") or {}
        is_full = point.part in (FULL_QUEUES, FULL_CORES)
        rows += [
            Row(
                series=f"{point.mechanism}, {point.organisation}",
                x=x,
                x_unit=x_unit,
                y=value.y / value.unit,
                y_unit=value.y_unit,
                statistic=value.statistic,
                labels=labels(point),
                ci95=value.ci95 and (value.ci95[0] / value.unit, value.ci95[1] / value.unit),
                samples=latency.get("samples", 0),
                steady=point.load_mrps == 0 or is_full or settled(outcome),
            )
            for value in values
        ]
    return rows


_COLOUR = plots.Series.systems("how cores learn of packets", "mechanism", MECHANISMS)
_DASH = plots.Series.label(
    "queues", "organisation", {OUT: "each core's own", UP: "shared"}, plots.DASHES
)


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda row: f"{row.statistic}, {row.y_unit}, by {row.x_unit}",
        x=plots.linear(""),
        y=plots.linear(""),
        colour=_COLOUR,
        dash=_DASH,
        columns=2,
        shared_y=False,
    )


FIGURES = (
    Figure(
        name="spin-to-win.beyond",
        title="The four problems of polling, with QWAIT and with user interrupts",
        caption=(
            "Packets of 96 bytes are forwarded by cores that poll, wait by QWAIT, or sleep until a "
            "user-level interrupt. Work without work: one core beside a matrix multiplication on "
            f"its second hardware thread. Queues: one core, one flow, {LIGHT_MRPS:g} million "
            "packets a second or more than it forwards. Cores: their power at the same load, and "
            "what they forward. Sharing: four cores with queues of their own, or all with all "
            "queues; polling shares a ring, which four more cores fill (Figure 15). One packet of "
            f"a hundred takes {HICCUP_US:g} us longer."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
CLAIMS: tuple[Claim, ...] = ()
