"""Section III-A, spurious wake-ups: doorbells that share their line with others.

The paper has QWAIT-VERIFY for them and does not measure them. The monitoring set works on lines,
and holds one doorbell of a line; here the line's other words are doorbells of other listeners, each
rung as often as the monitored one. `guest/programs/false-sharing.c` writes them.
"""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, Part, exactly, part
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import (
    MIN_REQUESTS,
    measured_requests,
    saturated,
    with_used_rings,
)
from nanoplane.sweep import Run

QUEUES = 100
REQUESTS = 20_000
DOORBELLS = (1, 2, 4, 8)
"""Doorbells of 8 bytes in a line of 64."""
LOADS = {0.5: "0.5 Mrps", 2.0: "2 Mrps"}
SATURATED = "saturated"
"""The other doorbells then ring as often as at the largest load."""


DRAIN_MRPS = 0.02
"""The rate of a drained run: an item in 50 us, whose delivery ends long before the next arrival."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A run of the figure."""

    doorbells: int
    """The number of doorbells in each line."""
    rate_mrps: float | None
    """The rate of all monitored doorbells together; None: saturated."""
    drained: str = ""
    """`drained`: after the usual number of measured requests there is hardly any traffic, so that
    an item left in a queue at the end is one without a notification."""

    @property
    def name(self) -> str:
        """The name in progress lines and error messages."""
        doorbells = "1 doorbell" if self.doorbells == 1 else f"{self.doorbells} doorbells"
        drained = f", {self.drained}" if self.drained else ""
        return f"false sharing, {doorbells} on a line, {self.load}{drained}"

    @property
    def load(self) -> str:
        """The name of the load in the figure."""
        return SATURATED if self.rate_mrps is None else LOADS[self.rate_mrps]

    def run(self, quick: bool) -> Run:
        """Return the run."""
        others_mrps = (self.doorbells - 1) * (self.rate_mrps or max(LOADS))
        requests = measured_requests(REQUESTS, quick, QUEUES)
        description = Description.from_dict(
            {
                "server": {"preset": "hyperplane-table1"},
                "data_plane": {
                    "program": "false-sharing",
                    "notify": "hyperplane",
                    "queues": QUEUES,
                    "parameters": {"stray_mrps": others_mrps},
                },
                "traffic": {"shape": "fully-balanced", "arrivals": "poisson"},
                "measure": {"requests": requests, "seed": 1},
            },
            source=self.name,
        )
        if self.rate_mrps is None:
            return Run(saturated(description, cores=1))
        if not self.drained:
            description = with_used_rings(description, self.rate_mrps)
            return Run(description.set("traffic.rate_mrps", self.rate_mrps))
        before = {"requests": requests, "rate_mrps": self.rate_mrps}
        description = description.set("measure.requests", MIN_REQUESTS).set("measure.warmup", 0)
        description = description.set("measure.warm_start", before)
        return Run(description.set("traffic.rate_mrps", DRAIN_MRPS))


_LINES = tuple(itertools.starmap(Line, itertools.product(DOORBELLS, (*LOADS, None))))
_DRAINED = tuple(Line(doorbells, max(LOADS), "drained") for doorbells in DOORBELLS)


def _points(quick: bool) -> dict[Line, Run]:
    return {line: line.run(quick) for line in (*_LINES, *_DRAINED)}


def _spurious(results: Results, line: Line) -> float:
    """Return the spurious wake-ups for each delivered request."""
    result = results[line].result
    return float(result["hyperplane"]["spurious_wake_ups"] / result["delivered"])


def _row(results: Results, line: Line, statistic: str) -> Row:
    result = results[line].result
    latency = result["latency_ns"]
    interval, per = None, 1
    if statistic == "spurious wake-ups":
        value, unit = _spurious(results, line), "a request"
    elif statistic == "peak throughput":
        value, unit = result["throughput_mrps"], "million requests a second"
        interval = result.get("throughput_mrps_ci95")
    else:
        name = statistic.split()[0]
        value, unit, per = latency[name], "microseconds", 1000
        interval = latency.get(f"{name}_ci95")
    return Row.measured(
        line,
        results[line],
        series=line.load,
        x=line.doorbells,
        x_unit="doorbells on a line",
        y=value,
        y_unit=unit,
        statistic=statistic,
        labels={**labels(line), "load": line.load},
        ci95=interval,
        unit=per,
    )


def _rows(results: Results) -> list[Row]:
    statistics = {
        "spurious wake-ups": (*LOADS, None),
        "mean latency": tuple(LOADS),
        "p99 latency": tuple(LOADS),
        "peak throughput": (None,),
    }
    return [
        _row(results, Line(doorbells, rate_mrps), statistic)
        for statistic, rates in statistics.items()
        for rate_mrps, doorbells in itertools.product(rates, DOORBELLS)
        if Line(doorbells, rate_mrps) in results
    ]


def _chart(rows: list[Row]) -> plots.Chart:
    shown = [*LOADS.values(), SATURATED]
    x = plots.Axis(
        "doorbells on a line",
        {"type": "log", "domain": [DOORBELLS[0], DOORBELLS[-1]]},
        {"values": list(DOORBELLS), "format": "d"},
    )
    panels = {
        "spurious wake-ups a request": ("spurious wake-ups",),
        "latency, microseconds": ("mean latency", "p99 latency"),
        "peak, million requests a second": ("peak throughput",),
    }
    charts: list[Any] = [
        plots.panels(
            [row for row in rows if row.statistic in statistics],
            lambda _, title=title: title.partition(",")[0],  # type: ignore[misc]
            x=x,
            y=plots.linear(title),
            colour=plots.Series("load", lambda row: row.labels["load"], shown, plots.COLOURS),
            dash=plots.Series(
                "statistic",
                lambda row: row.statistic,
                list(dict.fromkeys(row.statistic for row in rows)),
                ([1, 0], [1, 0], [5, 3], [1, 0]),
            ),
        )
        for title, statistics in panels.items()
        if any(row.statistic in statistics for row in rows)
    ]
    return plots.beside(*charts)


FIGURES = (
    Figure(
        name="hyperplane.false-sharing",
        title="What doorbells that share a line cost",
        caption=(
            f"Items that are passed on as they came, {QUEUES} queues, all busy, one data plane "
            "core of the 16-core server of Table I. Each monitored doorbell has its line with "
            "none, one, three or seven others that somebody else listens to, each rung as often "
            "as this one, at even distances in time. Their rings wake the queue, QWAIT-VERIFY "
            "finds it empty, and arms it again."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)


# The paper's claims.


def _undelivered(results: Results) -> Part:
    """Return the largest number of items that arrived and were not delivered."""

    def missing(line: Line) -> float:
        result = results[line].result
        return float(result["generated"] - result["delivered"])

    return part(max, missing, _DRAINED)


CLAIMS = (
    Claim(
        "hyperplane.3.no-lost-wake-up",
        "Section III-B",
        "This instruction filters spurious wake-ups/activations … while ensuring there is no "
        "window of opportunity for actual work arrivals to be missed",
        "items",
        f"up to eight doorbells on a line, {max(LOADS):g} Mrps, after which the queues are "
        "drained: the most items that have arrived and were not delivered",
        exactly(0, "unexplained"),
        _undelivered,
        figure="hyperplane.false-sharing",
        paper_value=0,
    ),
)
