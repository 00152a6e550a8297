"""Rows and plots of the compared key-value stores."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nanoplane.figures import Results, Row, labels, ranking
from nanoplane.outcomes import measurement
from nanoplane.papers import plots
from nanoplane.papers.compare.key_value import ABSOLUTE_NS, BURSTS, EXPRESS, SYSTEMS, WITHIN, Case

MRPS = "million requests a second"
MEDIAN, P99 = "median latency", "p99 latency"
SHORT_P99 = "p99 latency of requests that do not take longer"
ENERGY, PEAK = "energy of a request", "peak throughput"
LOST = "requests that were dropped"


def measured_row(
    results: Results,
    case: Case,
    statistic: str,
    y: float,
    unit: str,
    *,
    x: tuple[float, str] | None = None,
    ci95: tuple[float, float] | None = None,
) -> Row:
    """Return a row of a case, over its load or over `x` with its unit."""
    load = (1.0, "") if case.rate_mrps is None else (case.rate_mrps, MRPS)
    place, place_unit = load if x is None else x
    return Row.measured(
        case,
        results[case],
        series=SYSTEMS[case.system].name,
        x=place,
        x_unit=place_unit,
        y=y,
        y_unit=unit,
        statistic=statistic,
        labels={**labels(case), "statistic": statistic},
        ci95=ci95,
    )


def _throughput_mrps(results: Results, case: Case) -> float:
    """Return the throughput in million requests a second."""
    return float(measurement(results[case].result)["throughput_mrps"])


def takes(results: Results, case: Case) -> bool:
    """Whether a system can carry a load, as far as its peak is known."""
    peak = dataclasses.replace(case, rate_mrps=None)
    return peak not in results or (case.rate_mrps or 0.0) <= _throughput_mrps(results, peak)


def latencies(results: Results, case: Case, x: tuple[float, str] | None = None) -> list[Row]:
    """Return the rows of a case at a rate: median, p99, and what was dropped."""
    latency = measurement(results[case].result)["latency_ns"]
    return [
        latency_row(results, case, MEDIAN, latency, "p50", x),
        latency_row(results, case, P99, latency, "p99", x),
        _lost(results, case, x),
    ]


def latency_row(
    results: Results,
    case: Case,
    statistic: str,
    latency: Mapping[str, Any],
    percentile: str,
    x: tuple[float, str] | None = None,
) -> Row:
    """Return the row of a percentile in microseconds, `p50` or `p99`."""
    ends = latency.get(f"{percentile}_ci95")
    ci95 = None if ends is None else (ends[0] / 1000, ends[1] / 1000)
    value = latency[percentile] / 1000
    return measured_row(results, case, statistic, value, "microseconds", x=x, ci95=ci95)


def _lost(results: Results, case: Case, x: tuple[float, str] | None = None) -> Row:
    """Return the percentage of dropped requests, which have no latency."""
    result = results[case].result
    (server,), (client,) = result["servers"], result["clients"]
    dropped = sum(count for name, count in server["interface"].items() if "dropped" in name)
    part = dropped / client["statistics"]["requests"] if dropped else 0.0
    return measured_row(results, case, LOST, 100 * part, "percent", x=x)


def load_rows(results: Results, case: Case, x: tuple[float, str] | None = None) -> list[Row]:
    """Return the rows of a case: its peak, its load within the limit, or its latencies."""
    if case.limit:
        result = results[case].result
        least, most = result["largest_load_ci95"]
        load = result["largest_load"]
        within = measured_row(results, case, WITHIN, load, MRPS, x=x, ci95=(least, most))
        return [within, _lost(results, case, x)]
    if case.rate_mrps is None:
        peak = measured_row(results, case, PEAK, _throughput_mrps(results, case), MRPS, x=x)
        return [peak, _lost(results, case, x)]
    return latencies(results, case, x) if takes(results, case) else []


_NAMES = {name: system.name for name, system in SYSTEMS.items()}
_LIKE = {
    **{"stealing": "spin-poll-mode", "counters": "wrs", "bursts": "rings"},
    **{"shared": "theory", "dispatcher": "spin-mlx5", "shinjuku": "spin-mlx5"},
    "completions": "spin-poll-mode",
}
"""Systems without their own colour have those of plots.SYSTEMS that are not shown here."""
_BEHIND, _FIRST, _SECOND = plots.DASHES[1:]
_DASH = {
    **{name: _BEHIND for name, system in SYSTEMS.items() if system.express is EXPRESS},
    **dict.fromkeys(("counters-on-chip", "shared-wrs-on-chip", "shinjuku-on-chip"), _FIRST),
    **dict.fromkeys(("completions-on-chip", "rpcvalet-wrs", "nanopu-wfi"), _SECOND),
    **{"bursts-2-on-chip": _FIRST, "bursts-4-on-chip": _SECOND},
    **{"bursts-8-on-chip": [1, 1], "bursts-16-on-chip": [12, 2]},
    **{f"bursts-{burst}": [burst, 1, 1, 1] for burst in BURSTS},
}
_COLOURS = [
    plots.SYSTEMS[_LIKE.get(kind, kind)] for kind in (name.split("-")[0] for name in SYSTEMS)
]
_DASHES = [_DASH.get(name, plots.DASHES[0]) for name in SYSTEMS]


def panel(rows: list[Row], statistic: str, x: plots.Axis, y: plots.Axis) -> Any:
    """Return the plot of a statistic with a line for each system."""
    return plots.panels(
        [row for row in rows if row.statistic == statistic],
        lambda row: row.statistic,
        x=x,
        y=y,
        colour=plots.Series.label("interface", "system", _NAMES, _COLOURS),
        dash=plots.Series.label("interface", "system", _NAMES, _DASHES),
    )


def by_cores(rows: list[Row], statistic: str, x: plots.Axis, y: plots.Axis) -> Any:
    """Return the plot of a statistic with a line for each kind of cores."""
    names = {name: f"{name} cores" for name in ("in-order", "out-of-order")}
    return plots.panels(
        [row for row in rows if row.statistic == statistic],
        lambda row: row.statistic,
        x=x,
        y=y,
        colour=plots.Series.label("cores", "cores", names, plots.COLOURS[:2]),
    )


def answer(rows: list[Row]) -> str:
    """Return the ranking of systems by their largest load within the limit."""
    within = [row for row in rows if row.statistic == WITHIN]
    limit = f"{ABSOLUTE_NS / 1000:g} us"
    return ranking(
        f"Million requests a second with a p99 within {limit}", within, lambda row: row.y
    )


ALIKE = (
    "The same store, requests, arrivals and link for all. Latency is measured at the client, from "
    "the creation of a request to the last bit of its reply. "
)
