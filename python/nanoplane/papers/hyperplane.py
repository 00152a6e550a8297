"""HyperPlane (MICRO 2020): Figures 8 and 9 for packet encapsulation, and what the paper claims.

The paper runs six tasks under four traffic shapes; here are one task and two shapes.
"""

import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any

import altair

from nanoplane.claims import Claim, Judgement
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import hyperplane_conflicts
from nanoplane.sweep import Run

QUEUES = (1, 10, 100, 400, 1000)
SHAPES = ("single-queue", "fully-balanced")
SYSTEMS = ("spin", "hyperplane")

LIGHT_LOAD = 0.008
"""Light traffic, as a part of the same system's peak with one queue (the paper: "<1% load")."""

PEAK_REQUESTS = 10_000
LONG_PEAK_REQUESTS = 20_000
"""For 1000 queues, whose rings take some 28,000 requests to fill and settle if all are used."""
LIGHT_REQUESTS = 10_000
SPINNING_LIGHT_REQUESTS = 1_000
"""For the spinning core with 1000 queues: its polls miss, so that none of them can be skipped."""
QUICK = 10
"""`--quick` divides the number of requests by this."""

_LABELS = {
    "spin": "spinning",
    "hyperplane": "HyperPlane",
    "single-queue": "single queue",
    "fully-balanced": "fully balanced",
}


def _description(notify: str, shape: str, queues: int, requests: int) -> Description:
    if queues == 1:
        shape = "single-queue"  # All shapes are the same traffic, and need one run.
    return Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1", "data_plane_cores": 1},
            "data_plane": {
                "program": "packet-encapsulation",
                "notify": notify,
                "policy": "round-robin",
                "queues": queues,
            },
            "traffic": {
                "shape": shape,
                "arrivals": "poisson",
                "load": "saturate",
                "packets": "generated",
            },
            "measure": {"requests": requests, "seed": 1},
        },
        source=f"{notify}, {shape}, {queues} {'queue' if queues == 1 else 'queues'}",
    )


def _peak(notify: str, shape: str, queues: int, quick: bool) -> Description:
    requests = LONG_PEAK_REQUESTS if queues >= 1000 else PEAK_REQUESTS
    return _description(notify, shape, queues, requests // (QUICK if quick else 1))


def _light(notify: str, shape: str, queues: int, quick: bool) -> Run:
    requests = LIGHT_REQUESTS
    if notify == "spin" and queues >= 1000:
        requests = SPINNING_LIGHT_REQUESTS
    description = _description(notify, shape, queues, requests // (QUICK if quick else 1))
    return Run(description, peak=_peak(notify, shape, 1, quick), part=LIGHT_LOAD)


def _name(kind: str, notify: str, shape: str, queues: int) -> str:
    return f"{kind}/{notify}/{shape}/{queues}"


def _peak_points(quick: bool) -> dict[str, Run]:
    return {
        _name("peak", notify, shape, queues): Run(_peak(notify, shape, queues, quick))
        for notify, shape, queues in itertools.product(SYSTEMS, SHAPES, QUEUES)
    }


def _light_points(quick: bool) -> dict[str, Run]:
    # Two queues are not in the figure: a claim is about them.
    return {
        _name("light", notify, shape, queues): _light(notify, shape, queues, quick)
        for notify, shape, queues in itertools.product(SYSTEMS, SHAPES, (*QUEUES, 2))
    }


def _series(notify: str, shape: str) -> str:
    return f"{_LABELS[notify]}, {_LABELS[shape]}"


def _interval(latency: dict[str, Any], statistic: str) -> tuple[float, float] | None:
    interval = latency.get(f"{statistic}_ci95")
    return None if interval is None else (interval[0] / 1000, interval[1] / 1000)


def _peak_rows(results: Results) -> list[Row]:
    rows = []
    for notify, shape, queues in itertools.product(SYSTEMS, SHAPES, QUEUES):
        outcome = results.get(_name("peak", notify, shape, queues))
        if outcome is None:
            continue
        interval = outcome.result.get("throughput_mrps_ci95")
        rows.append(
            Row(
                series=_series(notify, shape),
                x=queues,
                x_unit="queues",
                y=outcome.result["throughput_mrps"],
                y_unit="million requests a second",
                statistic="peak throughput",
                notify=notify,
                shape=shape,
                ci95=None if interval is None else (interval[0], interval[1]),
                samples=outcome.result["latency_ns"]["samples"],
                steady=outcome.result["steady"],
            )
        )
    return rows


def _light_rows(results: Results) -> list[Row]:
    rows = []
    for statistic, notify, shape, queues in itertools.product(
        ("mean", "p99"), SYSTEMS, SHAPES, QUEUES
    ):
        outcome = results.get(_name("light", notify, shape, queues))
        if outcome is None:
            continue
        latency = outcome.result["latency_ns"]
        rows.append(
            Row(
                series=_series(notify, shape),
                x=queues,
                x_unit="queues",
                y=latency[statistic] / 1000,
                y_unit="microseconds",
                statistic=f"{statistic} latency",
                notify=notify,
                shape=shape,
                ci95=_interval(latency, statistic),
                samples=latency["samples"],
                steady=outcome.result["steady"],
            )
        )
    return rows


_COLOURS = altair.Scale(domain=["spinning", "HyperPlane"], range=["#D55E00", "#0A7FC2"])
"""Two colours that everybody can tell apart, on white and on black."""


def _panel(
    rows: list[Row], shape: str, y_title: str, y_scale: altair.Scale, y_axis: altair.Axis
) -> Any:
    """Lines over the number of queues, with points and 95 % confidence intervals."""
    values = [
        {
            "queues": row.x,
            "value": row.y,
            "low": row.ci95[0] if row.ci95 else row.y,
            "high": row.ci95[1] if row.ci95 else row.y,
            "interval": f"{row.ci95[0]:.3f} to {row.ci95[1]:.3f}" if row.ci95 else "not given",
            "samples": row.samples,
            "settled": row.steady,
            "data plane": _LABELS[row.notify],
            "latency": row.statistic.removesuffix(" latency"),
        }
        for row in rows
        if row.shape == shape
    ]
    queues = altair.X(
        "queues:Q",
        title="number of queues",
        scale=altair.Scale(type="log", domain=[1, 1000]),
        axis=altair.Axis(values=list(QUEUES), format="d"),
    )
    base = altair.Chart(altair.InlineData(values=values)).encode(
        x=queues, color=altair.Color("data plane:N", scale=_COLOURS)
    )
    value = altair.Y("value:Q", title=y_title, scale=y_scale, axis=y_axis)
    lines = base.mark_line().encode(y=value)
    if any(row.statistic == "p99 latency" for row in rows):
        dashes = altair.Scale(domain=["mean", "p99"], range=[[1, 0], [6, 4]])
        lines = lines.encode(strokeDash=altair.StrokeDash("latency:N", scale=dashes))
    points = base.mark_point(size=50, opacity=1).encode(
        y=value,
        fill=altair.Fill("data plane:N", scale=_COLOURS),
        fillOpacity=altair.condition("datum.settled", altair.value(1), altair.value(0)),
        tooltip=[
            altair.Tooltip("data plane:N"),
            altair.Tooltip("queues:Q"),
            altair.Tooltip("value:Q", title=y_title, format=".4~g"),
            altair.Tooltip("interval:N", title="95 % confidence"),
            altair.Tooltip("samples:Q", format=","),
            altair.Tooltip("settled:N"),
        ],
    )
    intervals = base.mark_rule(strokeWidth=1.5).encode(
        y=altair.Y("low:Q", title=y_title, scale=y_scale, axis=y_axis), y2="high:Q"
    )
    return altair.layer(lines, intervals, points)


def _panels(
    rows: list[Row], title: str, y_title: str, y_scale: altair.Scale, y_axis: altair.Axis
) -> altair.TopLevelMixin:
    """Put the traffic shapes side by side, with the same vertical axis."""
    panels: list[Any] = [
        _panel(rows, shape, y_title, y_scale, y_axis).properties(
            width=370, height=260, title=f"{title}, {_LABELS[shape]}"
        )
        for shape in SHAPES
    ]
    chart: altair.HConcatChart = altair.hconcat(*panels).resolve_scale(y="shared")
    return chart


def _peak_chart(rows: list[Row]) -> altair.TopLevelMixin:
    scale = altair.Scale(zero=True)
    axis = altair.Axis(tickCount=6)
    return _panels(rows, "Peak throughput", "million requests a second", scale, axis)


def _light_chart(rows: list[Row]) -> altair.TopLevelMixin:
    scale = altair.Scale(type="log", nice=False, padding=12)
    ticks = [step * 10**power for power in range(-2, 5) for step in (1, 2, 5)]
    axis = altair.Axis(values=ticks, format="~g")
    return _panels(rows, "Latency at light load", "microseconds", scale, axis)


FIGURES = (
    Figure(
        name="hyperplane.8",
        title="Peak throughput of a spinning data plane and HyperPlane",
        caption=(
            "Packet encapsulation on one data plane core of the 16-core server of Table I, queues "
            "never empty for want of arrivals. One of the paper's six tasks, two of its four "
            "traffic shapes."
        ),
        points=_peak_points,
        rows=_peak_rows,
        chart=_peak_chart,
    ),
    Figure(
        name="hyperplane.9",
        title="Latency under light traffic",
        caption=(
            "Packet encapsulation on one data plane core of the 16-core server of Table I. Poisson "
            f"arrivals at {LIGHT_LOAD:.1%} of the peak that the same data plane reached with one "
            "queue. Latency is from an item's arrival in its queue to the ring of the tenant's "
            "doorbell; bars are 95 % confidence intervals."
        ),
        points=_light_points,
        rows=_light_rows,
        chart=_light_chart,
    ),
    hyperplane_conflicts.FIGURE,
)


# What the paper claims.

_ONE_TASK = "one of six tasks (packet encapsulation) and two of four traffic shapes have been run"
_NOT_MODELLED = "needs what nanoplane does not have yet: "


def _throughput(results: Results, notify: str, shape: str, queues: int) -> float:
    return float(results[_name("peak", notify, shape, queues)].result["throughput_mrps"])


def _latency_us(results: Results, statistic: str, notify: str, shape: str, queues: int) -> float:
    outcome = results[_name("light", notify, shape, queues)]
    return float(outcome.result["latency_ns"][statistic]) / 1000


def _peak_gain(results: Results) -> float:
    return statistics.fmean(
        _throughput(results, "hyperplane", shape, queues)
        / _throughput(results, "spin", shape, queues)
        for shape, queues in itertools.product(SHAPES, QUEUES)
    )


def _latency_gain(results: Results, statistic: str) -> float:
    return statistics.fmean(
        _latency_us(results, statistic, "spin", shape, queues)
        / _latency_us(results, statistic, "hyperplane", shape, queues)
        for shape, queues in itertools.product(SHAPES, QUEUES)
    )


def _kept(results: Results, notify: str, shape: str, of: int = 1) -> float:
    return _throughput(results, notify, shape, 1000) / _throughput(results, notify, shape, of)


def _below(limit: float, why: str) -> Callable[[float], Judgement]:
    return lambda value: Judgement(value, value < limit, "" if value < limit else why)


def _above(limit: float, why: str) -> Callable[[float], Judgement]:
    return lambda value: Judgement(value, value > limit, "" if value > limit else why)


def _within(
    target: float, tolerance: float, below: str, above: str
) -> Callable[[float], Judgement]:
    """Judge by a relative tolerance; why it is below the target or above it."""

    def judge(value: float) -> Judgement:
        agrees = math.isclose(value, target, rel_tol=tolerance)
        why = below if value < target else above
        return Judgement(value, agrees, "" if agrees else why)

    return judge


def _subset(value: float) -> Judgement:
    return Judgement(value, None, f"an average over six tasks; {_ONE_TASK}, which give `measured`")


def _penalty_percent(results: Results) -> float:
    return max(
        100
        * (
            _latency_us(results, statistic, "hyperplane", shape, 1)
            / _latency_us(results, statistic, "spin", shape, 1)
            - 1
        )
        for statistic, shape in itertools.product(("mean", "p99"), SHAPES)
    )


def _spread_growth(results: Results) -> float:
    """Return the least growth of p99 - mean from one queue count of 10 and above to the next."""
    spreads = [
        [
            _latency_us(results, "p99", "spin", shape, queues)
            - _latency_us(results, "mean", "spin", shape, queues)
            for queues in QUEUES[1:]
        ]
        for shape in SHAPES
    ]
    return min(b / a for shape in spreads for a, b in itertools.pairwise(shape))


def _growth(results: Results) -> float:
    """Return how much more the spinning mean has grown at 1000 queues than at 100, from one."""
    one, hundred, thousand = (
        _latency_us(results, "mean", "spin", "fully-balanced", queues) for queues in (1, 100, 1000)
    )
    return (thousand - one) / (hundred - one)


def _claim(
    name: str,
    where: str,
    quote: str,
    paper_value: float | str,
    unit: str,
    how: str,
    rule: str,
    figure: str | None = None,
    value: Callable[[Results], float] | None = None,
    judge: Callable[[float], Judgement] | None = None,
    why: str = "",
) -> Claim:
    measure = None
    if value is not None and judge is not None:
        measure = _measure(value, judge)
    return Claim(
        f"hyperplane.{name}",
        "hyperplane",
        where,
        quote,
        paper_value,
        unit,
        how,
        rule,
        figure,
        measure,
        why,
    )


def _measure(
    value: Callable[[Results], float], judge: Callable[[float], Judgement]
) -> Callable[[Results], Judgement]:
    return lambda results: judge(value(results))


_FIRST_CLAIMS = (
    _claim(
        "8.gain",
        "Section V-B, abstract",
        "HyperPlane improves the peak throughput by 4.1x, on average",
        4.1,
        "times",
        "mean over shapes and queue counts of HyperPlane's peak over spinning's",
        "needs all six tasks and four shapes",
        "hyperplane.8",
        _peak_gain,
        _subset,
    ),
    _claim(
        "8.spin-single-queue",
        "Section V-B",
        "the throughput drop is the most drastic with the SQ traffic",
        "below 1",
        "times",
        "spinning: part of the peak kept from 1 to 1000 queues, single-queue over fully-balanced",
        "reproduced if below 1",
        "hyperplane.8",
        lambda r: _kept(r, "spin", "single-queue") / _kept(r, "spin", "fully-balanced"),
        _below(1, "the drop is not larger than that of fully balanced traffic"),
    ),
    _claim(
        "8.spin-converges",
        "Section V-B",
        "throughput converges to a constant value with these two traffic shapes",
        1.0,
        "times",
        "spinning, fully-balanced: peak at 1000 queues over peak at 400",
        "reproduced within 10 %",
        "hyperplane.8",
        lambda r: _kept(r, "spin", "fully-balanced", 400),
        _within(
            1,
            0.10,
            below="it still falls between 400 and 1000 queues",
            above="it rises between 400 and 1000 queues",
        ),
    ),
    _claim(
        "8.maintained",
        "Section V-B",
        "in the SQ and NC traffics … HyperPlane maintains its peak throughput when the total "
        "number of queues is increased",
        1.0,
        "times",
        "HyperPlane, single-queue: peak at 1000 queues over peak at 1 (NC is not run)",
        "reproduced within 5 %",
        "hyperplane.8",
        lambda r: _kept(r, "hyperplane", "single-queue"),
        _within(
            1,
            0.05,
            below="the peak falls by more than 5 %",
            above="the peak rises by more than 5 %",
        ),
    ),
    _claim(
        "8.balanced-decrease",
        "Section V-B",
        "HyperPlane also exhibits a slightly larger throughput decrease for the PC and FB traffics",
        "below 1",
        "times",
        "HyperPlane: part of the peak kept from 1 to 1000 queues, fully-balanced over single-queue",
        "reproduced if below 1",
        "hyperplane.8",
        lambda r: _kept(r, "hyperplane", "fully-balanced") / _kept(r, "hyperplane", "single-queue"),
        _below(1, "the decrease is not larger than that of single-queue traffic"),
    ),
    _claim(
        "8.balanced-gain",
        "Section V-B",
        "under the FB traffic, HyperPlane achieves better peak throughput in comparison to "
        "the spinning data plane in the case of packet encapsulation",
        "above 1",
        "times",
        "fully-balanced: least of HyperPlane's peak over spinning's at 100, 400 and 1000 queues",
        "reproduced if above 1",
        "hyperplane.8",
        lambda r: min(
            _throughput(r, "hyperplane", "fully-balanced", n)
            / _throughput(r, "spin", "fully-balanced", n)
            for n in (100, 400, 1000)
        ),
        _above(
            1,
            "likely because a saturated queue is hardly ever empty here: spinning wastes no polls, "
            "while each QWAIT, QWAIT-VERIFY and QWAIT-RECONSIDER costs its latency",
        ),
    ),
    _claim(
        "9.below-10us",
        "Section V-B",
        "HyperPlane keeps both average and tail latencies below 10 us even at 1000 queues",
        10.0,
        "us",
        "HyperPlane, 1000 queues: the larger p99 of the two shapes",
        "reproduced if below 10",
        "hyperplane.9",
        lambda r: max(_latency_us(r, "p99", "hyperplane", s, 1000) for s in SHAPES),
        _below(10, "the tail is longer"),
    ),
    _claim(
        "9.flat",
        "Section V-B",
        "HyperPlane is perfectly queue-scalable, and neither average nor tail latency is affected "
        "with more queues",
        1.0,
        "times",
        "HyperPlane, single-queue: the larger of mean and p99 at 1000 queues over the same at 1",
        "reproduced within 5 %",
        "hyperplane.9",
        lambda r: max(
            _latency_us(r, statistic, "hyperplane", "single-queue", 1000)
            / _latency_us(r, statistic, "hyperplane", "single-queue", 1)
            for statistic in ("mean", "p99")
        ),
        _within(
            1,
            0.05,
            below="latency falls by more than 5 %",
            above="latency rises by more than 5 %",
        ),
    ),
    _claim(
        "9.spin-100us",
        "Section V-B",
        "tail latency can be more than 100 us for large queue counts in the spinning data plane",
        100.0,
        "us",
        "spinning, 1000 queues: the larger p99 of the two shapes",
        "reproduced if above 100",
        "hyperplane.9",
        lambda r: max(_latency_us(r, "p99", "spin", s, 1000) for s in SHAPES),
        _above(
            100,
            "the paper's largest over six tasks, of which one is run; likely because 100 us for "
            "1000 queues are 300 cycles a poll, one miss to memory after the other, where here the "
            "polls hit in the last-level cache and an out-of-order core has several under way",
        ),
    ),
    _claim(
        "9.spin-linear",
        "Section V-B",
        "both average and tail latencies grow linearly as the number of queues is increased",
        10.1,
        "times",
        "spinning, fully-balanced: growth of the mean from 1 to 1000 queues over that to 100",
        "reproduced within 25 % of (1000 - 1) / (100 - 1)",
        "hyperplane.9",
        _growth,
        _within(
            999 / 99,
            0.25,
            below="the mean grows by less from 100 queues on than before",
            above="100 doorbells stay in the L1 cache and 1000 do not, so a poll costs more with "
            "more queues",
        ),
    ),
    _claim(
        "9.spin-spread",
        "Section V-B",
        "the difference between tail and average latency grows with the queue count",
        "above 1",
        "times",
        "spinning: least growth of p99 - mean between 10, 100, 400 and 1000 queues",
        "reproduced if above 1",
        "hyperplane.9",
        _spread_growth,
        _above(1, "the difference does not grow everywhere"),
    ),
    _claim(
        "9.gain-mean",
        "Section V-B",
        "HyperPlane improves average/tail latency by 9.1x / 16.4x, on average, at different "
        "queue counts",
        9.1,
        "times",
        "mean over shapes and queue counts of spinning's mean over HyperPlane's",
        "needs all six tasks and four shapes",
        "hyperplane.9",
        lambda r: _latency_gain(r, "mean"),
        _subset,
    ),
    _claim(
        "9.gain-tail",
        "Section V-B, abstract",
        "HyperPlane improves average/tail latency by 9.1x / 16.4x, on average, at different "
        "queue counts",
        16.4,
        "times",
        "mean over shapes and queue counts of spinning's p99 over HyperPlane's",
        "needs all six tasks and four shapes",
        "hyperplane.9",
        lambda r: _latency_gain(r, "p99"),
        _subset,
    ),
    _claim(
        "9.one-queue",
        "Section V-B",
        "HyperPlane underperforms the spinning data plane by at most 3% for a single queue",
        3.0,
        "%",
        "one queue: the most by which HyperPlane's mean or p99 is above spinning's",
        "reproduced if at most 3",
        "hyperplane.9",
        _penalty_percent,
        lambda value: Judgement(
            value,
            value <= 3,
            ""
            if value <= 3
            else "likely because QWAIT's 50 cycles and the arming are a larger part of a task "
            "that takes less time here",
        ),
    ),
    _claim(
        "9.two-queues",
        "Section V-B",
        "HyperPlane outperforms the spinning data plane with as few as two queues",
        "above 1",
        "times",
        "two queues: least of spinning's mean over HyperPlane's, of the two shapes",
        "reproduced if above 1",
        "hyperplane.9",
        lambda r: min(
            _latency_us(r, "mean", "spin", s, 2) / _latency_us(r, "mean", "hyperplane", s, 2)
            for s in SHAPES
        ),
        _above(
            1,
            "likely because polling a second doorbell that is in the L1 cache takes a cycle or "
            "two, less than QWAIT's 50 cycles",
        ),
    ),
)

_MULTICORE = _NOT_MODELLED + "Figure 10, several data plane cores"
_ENERGY = _NOT_MODELLED + "Figure 12, the power of a core over load"
_POWER_MODE = _NOT_MODELLED + "a figure of the power-optimized mode"
_SOFTWARE = _NOT_MODELLED + "the software ready set of Figure 13"


def _not_yet(
    name: str, where: str, quote: str, paper_value: float | str, unit: str, why: str
) -> Claim:
    return _claim(name, where, quote, paper_value, unit, "not measured yet", "none yet", why=why)


_LATER_CLAIMS = (
    Claim(
        id="hyperplane.4.conflicts",
        paper="hyperplane",
        where="Section IV-A",
        quote="over-provisioning the size of a Cuckoo hash table by 5%-10% reduces the conflict "
        "rate down to 0.1%",
        paper_value=0.1,
        unit="%",
        how="2 ways, 10 % more entries than doorbells, lines at random with the banks in turn: "
        "part of the QWAIT.ADDs that conflict",
        rule="reproduced if at most 0.1",
        figure="hyperplane.conflicts",
        measure=hyperplane_conflicts.judge,
    ),
    _not_yet(
        "4.area",
        "Section IV-C",
        "the overall area overhead of the HyperPlane hardware components is within 0.26% of "
        "the total core area",
        0.26,
        "%",
        _NOT_MODELLED + "area",
    ),
    _not_yet(
        "4.power",
        "Section IV-C",
        "the power costs of HyperPlane to be within 0.4% the total core power",
        0.4,
        "%",
        "cannot be: the model of energy takes the power of HyperPlane's hardware from here",
    ),
    _not_yet(
        "9.power-mode-queues",
        "Section V-B",
        "the spinning data plane reacts faster to task arrival in comparison to HyperPlane "
        "for up to 6 queues on average",
        6,
        "queues",
        _POWER_MODE,
    ),
    _not_yet(
        "10.balanced-tail",
        "Section V-C",
        "it significantly reduces the tail latency under pre-saturation loads (e.g., by 3.2x "
        "under 50% load)",
        3.2,
        "times",
        _MULTICORE,
    ),
    _not_yet(
        "10.concentrated-throughput",
        "Section V-C",
        "HyperPlane increases the saturation throughput by 23%",
        23,
        "%",
        _MULTICORE,
    ),
    _not_yet(
        "10.concentrated-tail",
        "Section V-C",
        "improving tail latency under pre-saturation loads by at least 73%",
        73,
        "%",
        _MULTICORE,
    ),
    _not_yet(
        "10.scale-up-hyperplane",
        "Section V-C",
        "improves the saturation throughput by 11% and 37% compared to scale-out HyperPlane "
        "and scale-out spinning data plane both with 10% load imbalance",
        11,
        "%",
        _MULTICORE,
    ),
    _not_yet(
        "10.scale-up-spin",
        "Section V-C",
        "improves the saturation throughput by 11% and 37% compared to scale-out HyperPlane "
        "and scale-out spinning data plane both with 10% load imbalance",
        37,
        "%",
        _MULTICORE,
    ),
    _not_yet(
        "10.spin-scale-up-loss",
        "Section V-C",
        "the scale-up spinning data plane exhibits 54% lower saturation throughput",
        54,
        "%",
        _MULTICORE,
    ),
    _not_yet(
        "12.idle-power",
        "Section V-D",
        "core power consumption reduces down to only 16.2% at zero load",
        16.2,
        "%",
        _ENERGY,
    ),
    _not_yet(
        "12.wake-up-idle",
        "Section V-D",
        "at zero load, power-optimized HyperPlane yields 38% higher tail latency",
        38,
        "%",
        _POWER_MODE,
    ),
    _not_yet(
        "12.wake-up-gain",
        "Section V-D",
        "its achieved tail latency is still 8.9x lower than the one achieved by the spinning "
        "data plane",
        8.9,
        "times",
        _POWER_MODE,
    ),
    _not_yet(
        "12.wake-up-half", "Section V-D", "only 8% higher latency at 50% load", 8, "%", _POWER_MODE
    ),
    _not_yet(
        "13.software-ready-set",
        "Section V-E",
        "throughput drop is more severe with the FB traffic (down to 50%)",
        50,
        "%",
        _SOFTWARE,
    ),
)

CLAIMS = _FIRST_CLAIMS + _LATER_CLAIMS
