"""Section 5, the service times: Figure 6, as the simulator draws them."""

import itertools
import math

import altair

from nanoplane.claims import Claim, judged, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.histograms import decode
from nanoplane.papers import plots
from nanoplane.papers.rpcvalet.theory import BASE_NS, DISTRIBUTIONS, EXTRA_NS, System
from nanoplane.sweep import Run

MEAN_NS = BASE_NS + EXTRA_NS
BIN_NS = 50
LAST_NS = 1500
"""The figure ends here, as the paper's does; what is longer is in no bin."""
UNITS_OF_MEAN = 1024
"""Of the histograms of queueing systems."""
NO_LOAD_PERCENT = 1e-4
"""Where a request in a million waits for another, so that latencies are service times."""


def drawn(distribution: str) -> System:
    """Return the run whose latencies are a distribution's service times."""
    return System("1x16", distribution, NO_LOAD_PERCENT)


def _points(quick: bool) -> dict[System, Run]:
    return {drawn(distribution): drawn(distribution).run(quick) for distribution in DISTRIBUTIONS}


def _times_ns(results: Results, distribution: str) -> list[tuple[float, int]]:
    text = results[drawn(distribution)].result["histogram"]
    return [(MEAN_NS * value / UNITS_OF_MEAN, count) for value, count in decode(text)]


def _rows(results: Results) -> list[Row]:
    rows = []
    for distribution in DISTRIBUTIONS:
        point = drawn(distribution)
        if point not in results:
            continue
        times = _times_ns(results, distribution)
        total = sum(count for _, count in times)
        for begin_ns, bins in itertools.groupby(times, lambda one: BIN_NS * (one[0] // BIN_NS)):
            if begin_ns >= LAST_NS:
                break
            share = sum(count for _, count in bins) / total
            error = 1.96 * math.sqrt(share * (1 - share) / total)
            rows.append(
                Row(
                    series=DISTRIBUTIONS[distribution],
                    x=begin_ns + BIN_NS / 2,
                    x_unit="ns of processing",
                    y=100 * share,
                    y_unit=f"% of the requests in {BIN_NS} ns",
                    statistic="share",
                    labels=labels(point),
                    ci95=(100 * (share - error), 100 * (share + error)),
                    samples=total,
                    steady=True,
                )
            )
    return rows


def _chart(rows: list[Row]) -> altair.TopLevelMixin:
    return plots.panels(
        rows,
        lambda _: "6(a): synthetic processing times",
        x=plots.linear("nanoseconds"),
        y=plots.logarithmic(f"% of the requests in {BIN_NS} ns"),
        colour=plots.Series.label("distribution", "distribution", DISTRIBUTIONS, plots.COLOURS),
        dash=plots.Series.label("distribution", "distribution", DISTRIBUTIONS, plots.DASHES),
    )


def _mean_cycles(results: Results) -> float:
    """Return the mean of the extreme values that were drawn, whose parameters are in cycles."""
    return float(results[drawn("generalized-extreme-value")].result["mean_drawn_service_time"])


FIGURES = (
    Figure(
        name="rpcvalet.6",
        title="Processing times of requests",
        caption=(
            "As the simulator draws them: the latencies of a queueing system in which nothing "
            f"waits. A base of {BASE_NS} ns, and {EXTRA_NS} ns more on average, distributed as "
            "named. Figure 6(a) of the paper; its 6(b) and 6(c) are those of key-value stores."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)

CLAIMS = (
    Claim(
        "rpcvalet.6.gev-mean",
        "Section 5",
        "(location, scale, shape) = (363, 100, 0.65), which result in a mean of 600 cycles (i.e., "
        "300ns at 2GHz)",
        600,
        "cycles",
        "GEV: mean of the times that are drawn",
        "reproduced within 2 %",
        "rpcvalet.6",
        judged(
            _mean_cycles,
            within(
                600, 0.02, below="fewer long times were drawn", above="more long times were drawn"
            ),
        ),
    ),
)
