"""Section II-C, DPDK's queue scalability: Figure 3, measured on a real Skylake server.

The paper has "a real server with a 24-core Xeon Skylake processor and a 100GbE Mellanox ConnectX-5
NIC": here it is the machine under test of the study of spinning, by the same authors, with the
driver of that interface.
"""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, above, at_most, below, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.outcomes import Outcome
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import (
    INTERFACE,
    QUEUES,
    SHAPES,
    SKYLAKE_SERVER,
    Case,
)
from nanoplane.papers.spin_to_win import machine
from nanoplane.schemas import mechanisms
from nanoplane.sweep import Run

TASK = "packet-encapsulation"
SYSTEMS = {name: mechanisms()[name].label for name in (INTERFACE, "hyperplane")}
"""The paper measured the first; HyperPlane on the same machine is added for comparison."""
COMPARED_QUEUES = 400
COMPARED_SHAPES = ("fully-balanced", "proportionally-concentrated")
"""Of these, claims compare the peaks with this number of queues; `--quick` leaves it out of the
others, where it is between its neighbours."""
PEAK_REQUESTS, QUICK_PEAK_REQUESTS = 2_000, 1_000
"""Before the tenth of `--quick`: a request in one of 1000 polled queues takes a lap of 55 us."""
LIGHT_QUEUES = (1, 64, 128, 256, 384, 512)
"""DPDK's driver allows 512 (SoCC 2019, Section 5)."""
QUICK_LIGHT_QUEUES = (1, 256, 512)
DISTRIBUTIONS = (1, 256, 512)
"""Figure 3(c) has three; the text does not name them."""
PACKETS, QUICK_PACKETS = 1500, 150
WARMUP = 30
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
THINK_NS = 2000.0


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """A core of the Skylake server that encapsulates packets as fast as possible: Figure 3(a)."""

    notify: str
    shape: str
    queues: int

    def run(self, quick: bool) -> Run:
        """Return the run."""
        case = Case(TASK, self.notify, self.shape, self.queues, server=SKYLAKE_SERVER)
        return Run(case.saturated(quick, QUICK_PEAK_REQUESTS if quick else PEAK_REQUESTS))


@dataclasses.dataclass(frozen=True, slots=True)
class RoundTrip:
    """A core that forwards single packets between the interface's ports: Figure 3(b) and (c)."""

    polled: int
    """Receive queues; packets are equally likely to arrive in each."""

    def run(self, quick: bool) -> Run:
        """Return the run.

        At 0.01 million packets a second packets hardly ever overlap. Here they never do: each
        packet is sent after the previous one has returned, so that no time passes without a
        measurement. A packet's queue is random, and so is the number of polls before it.
        """
        run = machine.loaded(
            f"round trip, {self.polled} queues",
            "io-forward",
            {"queues": self.polled, "rx_vec_en": 1},
            1.0,
            measured=QUICK_PACKETS if quick else PACKETS,
            warmup=WARMUP,
        )
        alone = {"mode": "closed", "clients": 1, "think_ns": THINK_NS}
        return Run(run.description.set("rack.clients.0.load.offer", alone))


def _is_quick(notify: str, shape: str, queues: int) -> bool:
    if queues == COMPARED_QUEUES:
        return notify == INTERFACE and shape in COMPARED_SHAPES
    # HyperPlane's longest runs, of a system that the paper's figure does not have.
    return notify != "hyperplane" or shape == "single-queue" or queues != QUEUES[-1]


def _points(quick: bool) -> dict[Any, Run]:
    points: list[Peak | RoundTrip] = [
        Peak(notify, shape, queues)
        for notify, shape, queues in itertools.product(SYSTEMS, SHAPES, QUEUES)
        if not quick or _is_quick(notify, shape, queues)
    ]
    points += map(RoundTrip, QUICK_LIGHT_QUEUES if quick else LIGHT_QUEUES)
    return {point: point.run(quick) for point in points}


def peak_mrps(outcome: Outcome) -> float:
    """Return the rate of encapsulated packets, in millions a second."""
    return float(outcome.result["throughput_mrps"])


def round_trip_us(outcome: Outcome, statistic: str) -> float:
    """Return the mean, or a percentile, of the round trips."""
    return float(machine.measurement(outcome)["latency_ns"][statistic]) / 1000


def _peak_rows(results: Results) -> list[Row]:
    rows = []
    for point in itertools.starmap(Peak, itertools.product(SYSTEMS, SHAPES, QUEUES)):
        if (outcome := results.get(point)) is None:
            continue
        rows.append(
            Row.measured(
                point,
                outcome,
                series=f"{SYSTEMS[point.notify]}, {SHAPES[point.shape]}",
                x=point.queues,
                x_unit="queues",
                y=peak_mrps(outcome),
                y_unit="million packets a second",
                statistic="peak throughput",
                ci95=outcome.result.get("throughput_mrps_ci95"),
            )
        )
    return rows


def _trip_row(point: RoundTrip, outcome: Outcome, statistic: str) -> Row:
    latencies = machine.measurement(outcome)["latency_ns"]
    row = Row.latency(
        point,
        outcome,
        statistic,
        of=latencies,
        series=statistic,
        x=point.polled,
        x_unit="queues",
    )
    return dataclasses.replace(row, statistic="round trip")


def _rows(results: Results) -> list[Row]:
    rows = _peak_rows(results)
    trips = [point for point in map(RoundTrip, LIGHT_QUEUES) if point in results]
    rows += [
        _trip_row(point, results[point], statistic)
        for statistic in ("mean", "p99")
        for point in trips
    ]
    for point in trips:
        if point.polled not in DISTRIBUTIONS:
            continue
        for statistic, percent in PERCENTILES.items():
            row = _trip_row(point, results[point], statistic)
            # A distribution has the packets on its vertical axis and their round trips on its
            # horizontal one.
            rows.append(
                dataclasses.replace(
                    row,
                    series="1 queue" if point.polled == 1 else f"{point.polled} queues",
                    x=row.y,
                    x_unit="microseconds",
                    y=percent,
                    y_unit="% of packets",
                    statistic="distribution",
                    labels={**row.labels, "percentile": statistic},
                    ci95=None,
                )
            )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    def of(*statistics: str) -> list[Row]:
        return [row for row in rows if row.statistic in statistics]

    drawn: list[Any] = []
    if peaks := of("peak throughput"):
        drawn.append(
            plots.panels(
                peaks,
                lambda row: SYSTEMS[row.labels["notify"]],
                x=plots.queues(QUEUES),
                y=plots.linear("million packets a second"),
                colour=plots.Series.label("traffic", "shape", SHAPES, plots.COLOURS),
            )
        )
    for statistic, x, y in (
        ("round trip", "number of queues", "microseconds"),
        ("distribution", "microseconds", "% of packets"),
    ):
        if shown := of(statistic):
            series = list(dict.fromkeys(row.series for row in shown))
            styles = [plots.DASHES[place % len(plots.DASHES)] for place in range(len(series))]
            drawn.append(
                plots.panels(
                    shown,
                    lambda row: row.statistic,
                    x=plots.linear(x),
                    y=plots.linear(y),
                    colour=plots.Series("", lambda row: row.series, series, plots.COLOURS),
                    dash=plots.Series("", lambda row: row.series, series, styles),
                )
            )
    return plots.stacked(*drawn)


FIGURES = (
    Figure(
        name="hyperplane.3",
        title="DPDK's queue scalability on a Skylake server",
        caption=(
            "(a) One core of `spin-to-win-table1` encapsulates packets as fast as it can, with the "
            "driver of the interface in the paper's server, and with HyperPlane. (b) Round trips "
            "of packets that one core forwards between the ports of that interface, with the "
            "poll-mode library, one packet at a time. (c) Their distribution."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        by_precision=True,
    ),
)


# The paper's claims.

MOST = LIGHT_QUEUES[-1]
HALF = MOST // 2


def _kept(results: Results, shape: str, of: int = 1) -> float:
    """Return the throughput with the most queues, as a part of that with `of` queues."""
    many, few = (peak_mrps(results[Peak(INTERFACE, shape, count)]) for count in (QUEUES[-1], of))
    return many / few


def _grown(results: Results, statistic: str, queues: int) -> float:
    """Return the growth of a round trip from one queue to `queues`."""
    many, one = (round_trip_us(results[RoundTrip(count)], statistic) for count in (queues, 1))
    return many - one


def _spread(results: Results, queues: int) -> float:
    trip = results[RoundTrip(queues)]
    return round_trip_us(trip, "p99") - round_trip_us(trip, "mean")


_LINEAR = (
    f"what polls of {MOST} queues read leaves the second-level cache more often than that of "
    f"{HALF}: with one of 16 MB the mean grows to 2.03 times and the p99 to 2.15 "
    "(docs/appendix/figures-experiments.md)"
)
_STABLE = (
    "rings of 400 busy queues (14 MB) fit the last-level cache of 33 MB, those of 1000 (36 MB) do "
    "not: with 132 MB the throughput is the same, 1.00 (docs/appendix/figures-experiments.md)"
)
_NOT_STABLE = (
    "unexplained: with four times the last-level cache it is 0.905, too "
    "(docs/appendix/figures-experiments.md)"
)
"""Proportionally concentrated, where the rings of 1000 queues fit."""

CLAIMS = (
    Claim(
        "hyperplane.3a.single-queue",
        "Section II-C, Figure 3(a)",
        "a drastic drop in throughput with SQ traffic",
        "times",
        f"{INTERFACE}: encapsulation with one busy queue of 1000, by one queue alone; less than a "
        "quarter",
        at_most(0.25, "unexplained"),
        lambda r: _kept(r, "single-queue"),
        figure="hyperplane.3",
        paper_value="far below 1",
    ),
    Claim(
        "hyperplane.3a.concentrated",
        "Section II-C, Figure 3(a)",
        "The throughput drop with the NC traffic is milder",
        "times",
        f"{INTERFACE}: what is kept from 1 to 1000 queues, NC by SQ",
        above(1, "unexplained"),
        lambda r: _kept(r, "non-proportionally-concentrated") / _kept(r, "single-queue"),
        figure="hyperplane.3",
    ),
    *(
        Claim(
            f"hyperplane.3a.{name}-stable",
            "Section II-C, Figure 3(a)",
            "With FB and PC ... the throughput stabilizes as the number of cache misses per task "
            "becomes constant",
            "times",
            f"{INTERFACE}, {SHAPES[shape]}: encapsulation with 1000 queues by 400",
            within(1, 0.1, below=why, above="unexplained"),
            lambda r, shape=shape: _kept(r, shape, COMPARED_QUEUES),  # type: ignore[misc]
            figure="hyperplane.3",
            paper_value=1,
        )
        for name, shape, why in (
            ("balanced", "fully-balanced", _STABLE),
            ("proportional", "proportionally-concentrated", _NOT_STABLE),
        )
    ),
    *(
        Claim(
            f"hyperplane.3b.linear-{statistic}",
            "Section II-C, Figure 3(b)",
            "both average and 99th percentile tail latencies grow almost linearly with the queue "
            "count",
            "times",
            f"{statistic} of round trips: growth from one queue to {MOST}, by that to {HALF}",
            within(2, 0.1, below="unexplained", above=_LINEAR),
            lambda r, statistic=statistic: _grown(r, statistic, MOST) / _grown(r, statistic, HALF),  # type: ignore[misc]
            figure="hyperplane.3",
            paper_value=2,
        )
        for statistic in ("mean", "p99")
    ),
    Claim(
        "hyperplane.3b.tail",
        "Section II-C, Figure 3(b)",
        "tail latency grows with a higher slope",
        "times",
        f"growth of the p99 from one queue to {MOST}, by that of the mean",
        above(1, "unexplained"),
        lambda r: _grown(r, "p99", MOST) / _grown(r, "mean", MOST),
        figure="hyperplane.3",
    ),
    Claim(
        "hyperplane.3c.wider",
        "Section II-C, Figure 3(c)",
        "With more queues, the latency distribution spans a wider range, resulting in a larger "
        "difference between average and tail latencies",
        "times",
        f"p99 less mean with {HALF} queues, by that with {MOST}",
        below(1, "unexplained"),
        lambda r: _spread(r, HALF) / _spread(r, MOST),
        figure="hyperplane.3",
    ),
)
