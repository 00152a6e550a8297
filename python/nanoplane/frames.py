"""Outcomes as tables: columns for the keys that differ and for numbers, a row for each run."""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nanoplane import comparison, machines, report, schemas
from nanoplane.errors import DescriptionError, Failure
from nanoplane.figures import Figure, Row
from nanoplane.outcomes import Outcome, measurement, saturates

if TYPE_CHECKING:
    import polars

FIELDS = ("throughput_mrps", "latency_ns.mean", "latency_ns.p99")
QUEUEING_FIELDS = ("throughput", "latency_service_times.mean", "latency_service_times.p99")
"""The default numbers of each run."""
OFFERED = "offered_mrps"
_FOUND = "traffic.saturation_rate_mrps"
ENDS = ("_ci95_low", "_ci95_high")
"""The suffixes of the columns of an interval's ends, after the number's name."""


def fields(outcomes: Sequence[Outcome], asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the numbers to show: the requested ones, or throughput, mean and p99.

    If a load is given, the offered load precedes the throughput.
    """
    if asked:
        return tuple(asked)
    if all("queueing" in one.description for one in outcomes):
        return QUEUEING_FIELDS
    given = any(
        not saturates(one.description) and comparison.number(one.result, OFFERED) is not None
        for one in outcomes
    )
    return ((OFFERED,) if given else ()) + FIELDS


def numbers(outcome: Outcome, names: Sequence[str]) -> list[comparison.Number | None]:
    """Return numbers of a result, None for those that it does not have."""
    found = [comparison.number(outcome.result, name) for name in names]
    if all(one is None for one in found):
        raise DescriptionError(
            f"--field: a result has no number {', '.join(names)}; docs/result-fields.md has all, "
            "and `nanoplane explain result.latency_ns` tells of some"
        )
    return found


def remark(outcome: Outcome) -> str:
    """Say whether a run was overloaded, or was not in a steady state."""
    measured = measurement(outcome.result)
    if not measured.get("keeps_up", True) and not saturates(outcome.description):
        return "DOES NOT KEEP UP"
    return "" if measured.get("steady", True) else "NOT STEADY"


def varied(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return, for each run, the keys in which the descriptions differ, with their values.

    The saturating rate of a server is found by a trial, and is not a varied key.
    """
    leaves = [dict(machines.leaves(one.description)) for one in outcomes]
    every = dict.fromkeys(key for one in leaves for key in one)
    for key in [key for key in every if key.startswith("simulator.") or key == _FOUND]:
        del every[key]
    kept = [key for key in every if any(one.get(key) != leaves[0].get(key) for one in leaves)]
    return [{key: one.get(key) for key in kept} for one in leaves]


def columns(
    outcomes: Sequence[Outcome], points: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, list[Any]]:
    """Return a table: the keys of `points`, numbers with both ends of their intervals, flags."""
    table: dict[str, list[Any]] = {}

    def add(name: str, value: Any) -> None:
        table.setdefault(name, []).append(value)

    for point, outcome in zip(points, outcomes, strict=True):
        for key, value in point.items():
            add(key, value)
        for name, one in zip(names, numbers(outcome, names), strict=True):
            add(name, None if one is None else one.value)
            interval = (None, None) if one is None or one.ci95 is None else one.ci95
            for end, value in zip(ENDS, interval, strict=True):
                add(name + end, value)
        measured = measurement(outcome.result)
        add("keeps_up", measured.get("keeps_up"))
        add("steady", measured.get("steady"))
        add("key", outcome.key)
    return table


def frame(table: Mapping[str, Sequence[Any]]) -> "polars.DataFrame":
    """Return a table as a Polars data frame, whose columns are Arrow's."""
    try:
        import polars
    except ImportError:
        raise Failure(
            "a data frame needs Polars, which is not installed; `pip install nanoplane[frames]` "
            "does it"
        ) from None
    # A key can have a number in one run and a text in another.
    return polars.DataFrame(
        {
            name: values if _is_uniform(values) else [str(value) for value in values]
            for name, values in table.items()
        }
    )


def _is_uniform(values: Sequence[Any]) -> bool:
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    return len(kinds) <= 1 and not kinds & {list, dict}


def as_html(outcomes: Sequence[Outcome]) -> str:
    """Return the table of some runs in the form of a notebook."""
    if not outcomes:
        return "<p>no runs</p>"
    points, names = varied(outcomes), fields(outcomes)
    cells = [
        [
            *(html.escape(f"{value}") for value in point.values()),
            *(report.number(None if one is None else one.value) for one in numbers(outcome, names)),
            remark(outcome),
        ]
        for point, outcome in zip(points, outcomes, strict=True)
    ]
    return report.table([*points[0], *names, ""], cells)


def page(
    title: str,
    outcomes: Sequence[Outcome],
    points: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> str:
    """Make a page of plots and numbers of a sweep.

    The first key with numbers is the horizontal axis, and the values of the other keys distinguish
    the lines. If no key has numbers, the values of the first one are groups of bars.
    """
    keys = list(points[0])
    across = next((key for key in keys if _are_numbers([one[key] for one in points])), keys[0])
    others = [key for key in keys if key != across]
    rows = []
    for index, (point, outcome) in enumerate(zip(points, outcomes, strict=True)):
        series = ", ".join(str(point[key]) for key in others) or "all runs"
        x = float(point[across]) if _is_number(point[across]) else float(index)
        for name, one in zip(names, numbers(outcome, names), strict=True):
            if one is not None:
                rows.append(_row(outcome, series, (across, x), (name, one), point))
    caption = f"Keys that were varied: {', '.join(keys)}."
    figure = Figure("sweep", "Results", caption, lambda _: {}, lambda _: rows, _chart)
    introduction = "Made by nanoplane. Vertical lines are 95 % confidence intervals."
    return report.page(title, introduction, [(figure, rows)], [])


def _row(
    outcome: Outcome,
    series: str,
    across: tuple[str, float],
    of: tuple[str, comparison.Number],
    point: Mapping[str, Any],
) -> Row:
    (x_name, x), (name, one) = across, of
    latency = measurement(outcome.result).get("latency_ns") or {}
    return Row(
        series=series,
        x=x,
        x_unit=x_name,
        y=one.value,
        y_unit=name,
        statistic=name,
        labels={key: str(value) for key, value in point.items()},
        ci95=one.ci95,
        samples=int(latency.get("samples", 0)),
        steady=not remark(outcome),
    )


def _titled(name: str) -> str:
    """Return the title of an axis: a key or a field, with its unit in words if it has one."""
    units = map(schemas.unit_of, reversed(name.split(".")))
    unit = next(filter(None, units), None)
    return f"{name} ({unit})" if unit else name


_FEW_VALUES = 10
"""The maximum number of values with a tick each on a logarithmic axis."""


def _chart(rows: list[Row]) -> Any:
    from nanoplane.papers import plots

    series = list(dict.fromkeys(row.series for row in rows))
    across = rows[0].x_unit
    others = ", ".join(key for key in rows[0].labels if key != across)

    def value(row: Row) -> str:
        return row.labels[across]

    if not _are_numbers([value(row) for row in rows]):
        # Single bars in groups have the colours of their values.
        of = value if len(series) == 1 else lambda row: row.series
        names = list(dict.fromkeys(map(of, rows)))
        return plots.bars(
            rows,
            lambda row: _titled(row.statistic),
            group=value,
            y=plots.linear(""),
            colour=plots.Series("" if of is value else others, of, names, _colours(names)),
            shared_y=False,
        )
    xs = sorted({row.x for row in rows})
    wide = xs[0] > 0 and xs[-1] / xs[0] >= 20
    axis = plots.linear(_titled(across))
    if wide:
        axis = plots.logarithmic(_titled(across), xs if len(xs) <= _FEW_VALUES else ())
    return plots.panels(
        rows,
        lambda row: _titled(row.statistic),
        x=axis,
        y=plots.linear(""),
        colour=plots.Series(others, lambda row: row.series, series, _colours(series)),
        dash=plots.Series("", lambda _: "", [""], plots.DASHES[:1]),
        shared_y=False,
    )


def _colours(names: Sequence[str]) -> list[str]:
    """Return the colours that systems have in all figures, if these distinguish them."""
    from nanoplane.papers import plots

    colours = plots.colours(names)
    if len(set(colours)) == len(names):
        return colours
    return [plots.COLOURS[index % len(plots.COLOURS)] for index in range(len(names))]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
