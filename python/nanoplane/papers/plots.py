"""Plots that the papers' figures share: lines over a quantity, with intervals, in panels.

Here and in the papers' modules, what draws imports altair: it takes longer than all that a command
does which names or runs a figure's points.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nanoplane.figures import Row

if TYPE_CHECKING:
    import altair

COLOURS = ("#D55E00", "#0A7FC2", "#009E73", "#CC79A7", "#B8860B", "#7570B3")
"""Colours that everybody can tell apart, on white and on black."""
DASHES = ([1, 0], [6, 4], [2, 2], [8, 3, 2, 3])
SYSTEM_DASHES = ([5, 3], [2, 2], [1, 0])
"""For baselines first and the proposal last: the proposal is the solid line."""


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """What a colour or a dash stands for."""

    title: str
    """Of the legend."""
    of: Callable[[Row], str]
    """The value of a row, which the legend shows."""
    values: Sequence[str]
    """All values, in the legend's order."""
    styles: Sequence[Any]
    """Their colours or dashes, in the same order."""

    @classmethod
    def label(cls, title: str, name: str, texts: Mapping[str, str], styles: Sequence[Any]) -> Any:
        """Make a series of a label of the rows; `texts` has its values and what is shown."""
        return cls(title, lambda row: texts[row.labels[name]], list(texts.values()), styles)

    def scale(self, shown: Sequence[str]) -> dict[str, Any]:
        """Return the scale of the values that are shown, each with its own style."""
        kept = [pair for pair in zip(self.values, self.styles, strict=False) if pair[0] in shown]
        return {"domain": [value for value, _ in kept], "range": [style for _, style in kept]}


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a plot, as Vega-Lite describes it."""

    title: str
    scale: dict[str, Any]
    axis: dict[str, Any]


def queues(values: Sequence[int]) -> Axis:
    """Return the axis of the number of queues."""
    scale = {"type": "log", "domain": [min(values), max(values)]}
    return Axis("number of queues", scale, {"values": list(values), "format": "d"})


def linear(title: str) -> Axis:
    """Return an axis that begins at zero."""
    return Axis(title, {"zero": True}, {"tickCount": 6})


def logarithmic(title: str) -> Axis:
    """Return a logarithmic axis."""
    ticks = [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    scale = {"type": "log", "nice": False, "padding": 12}
    return Axis(title, scale, {"values": ticks, "format": "~g"})


def panels(
    rows: Sequence[Row],
    title: Callable[[Row], str],
    *,
    x: Axis,
    y: Axis,
    colour: Series,
    dash: Series,
    columns: int = 3,
    shared_y: bool = True,
) -> "altair.TopLevelMixin":
    """Put the rows of each title into a panel of lines, in the order in which titles come."""
    import altair

    titles = list(dict.fromkeys(title(row) for row in rows))
    drawn: list[Any] = [
        _panel([row for row in rows if title(row) == one], rows, x, y, colour, dash).properties(
            width=370 if len(titles) < columns else 270, height=240, title=one
        )
        for one in titles
    ]
    chart: Any = altair.concat(*drawn, columns=columns)
    return chart.resolve_scale(y="shared" if shared_y else "independent")  # type: ignore[no-any-return]


def _drawn_interval(row: Row, y: Axis) -> tuple[float, float]:
    """Return the ends of the interval to draw.

    A logarithmic axis has no zero, and would be drawn wrong as a whole: an interval that reaches
    it begins at the point.
    """
    low, high = row.ci95 or (row.y, row.y)
    return (row.y if y.scale.get("type") == "log" and low <= 0 else low), high


def _panel(
    rows: Sequence[Row], all_rows: Sequence[Row], x: Axis, y: Axis, colour: Series, dash: Series
) -> Any:
    import altair

    values = [
        {
            "x": row.x,
            "y": row.y,
            "low": low,
            "high": high,
            "interval": f"{row.ci95[0]:.3f} to {row.ci95[1]:.3f}" if row.ci95 else "not given",
            "samples": row.samples,
            "settled": row.steady,
            "colour": colour.of(row),
            "dash": dash.of(row),
        }
        for row in rows
        for low, high in [_drawn_interval(row, y)]
    ]
    colours = colour.scale([colour.of(row) for row in all_rows])
    dashes = dash.scale([dash.of(row) for row in all_rows])
    base = altair.Chart(altair.InlineData(values=values)).encode(
        x=altair.X("x:Q", title=x.title, scale=x.scale, axis=x.axis),
        color=altair.Color("colour:N", title=colour.title, scale=colours),
    )
    vertical = altair.Y("y:Q", title=y.title, scale=y.scale, axis=y.axis)
    lines = base.mark_line().encode(
        y=vertical, strokeDash=altair.StrokeDash("dash:N", title=dash.title, scale=dashes)
    )
    points = base.mark_point(size=45, opacity=1).encode(
        y=vertical,
        fill=altair.Fill("colour:N", title=colour.title, scale=colours),
        fillOpacity=altair.condition("datum.settled", altair.value(1), altair.value(0)),
        tooltip=[
            altair.Tooltip("colour:N", title=colour.title),
            altair.Tooltip("dash:N", title=dash.title),
            altair.Tooltip("x:Q", title=x.title),
            altair.Tooltip("y:Q", title=y.title, format=".4~g"),
            altair.Tooltip("interval:N", title="95 % confidence"),
            altair.Tooltip("samples:Q", format=","),
            altair.Tooltip("settled:N"),
        ],
    )
    intervals = base.mark_rule(strokeWidth=1.5).encode(
        y=altair.Y("low:Q", title=y.title, scale=y.scale, axis=y.axis), y2="high:Q"
    )
    return altair.layer(lines, intervals, points)


def bars(
    rows: Sequence[Row],
    title: Callable[[Row], str],
    *,
    group: Callable[[Row], str],
    y: Axis,
    colour: Series,
) -> "altair.TopLevelMixin":
    """Put the rows of each title into a panel of bars, side by side in each group."""
    import altair

    titles = list(dict.fromkeys(title(row) for row in rows))
    groups = list(dict.fromkeys(group(row) for row in rows))
    colours = colour.scale([colour.of(row) for row in rows])
    drawn: list[Any] = []
    for one in titles:
        values = [
            {"group": group(row), "y": row.y, "colour": colour.of(row), "samples": row.samples}
            for row in rows
            if title(row) == one
        ]
        chart = altair.Chart(altair.InlineData(values=values)).mark_bar()
        drawn.append(
            chart.encode(
                x=altair.X(
                    "group:N",
                    title=None,
                    sort=groups,
                    axis=altair.Axis(labelAngle=-30, labelLimit=200),
                ),
                xOffset=altair.XOffset("colour:N", sort=list(colour.values)),
                y=altair.Y("y:Q", title=y.title, scale=y.scale, axis=y.axis),
                color=altair.Color("colour:N", title=colour.title, scale=colours),
                tooltip=[
                    altair.Tooltip("group:N"),
                    altair.Tooltip("colour:N", title=colour.title),
                    altair.Tooltip("y:Q", title=y.title, format=".4~g"),
                    altair.Tooltip("samples:Q", format=","),
                ],
            ).properties(width=370, height=240, title=one)
        )
    panels: altair.HConcatChart = altair.hconcat(*drawn).resolve_scale(y="shared")
    return panels
