"""Plots that the papers' figures share: lines over a quantity, with intervals, in panels.

Here and in the papers' modules, what draws imports altair: it takes longer than all that a command
does which names or runs a figure's points.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nanoplane.figures import Row

if TYPE_CHECKING:
    import altair

Chart: TypeAlias = "altair.TopLevelMixin"

COLOURS = (
    *("#D55E00", "#0A7FC2", "#009E73", "#CC79A7", "#B8860B", "#7570B3"),
    *("#8C564B", "#7F7F7F", "#17A2A2", "#56B4E9"),
)
"""Colours that everybody can tell apart, on white and on black; the first ones best."""
_SHAPES = (
    *("circle", "square", "diamond", "triangle-up", "cross", "triangle-down"),
    *("triangle-right", "triangle-left", "M0,-1L0.3,-0.3L1,0L0.3,0.3L0,1L-0.3,0.3L-1,0L-0.3,-0.3Z"),
    "M-0.9,-0.9L0.9,-0.9L-0.9,0.9L0.9,0.9Z",
)
"""The points' shapes: each colour has its own, for those to whom two colours look alike."""
_PAPER_CROSS = "M-1,-0.8L-0.8,-1L0,-0.2L0.8,-1L1,-0.8L0.2,0L1,0.8L0.8,1L0,0.2L-0.8,1L-1,0.8L-0.2,0Z"
_POLLING, _QWAIT, _RPCVALET, _INTERRUPTS, _POLL_MODE, _NANOPU, *_REST = COLOURS
_DRIVER, _THEORY, _OTHER, _LIST = _REST
SYSTEMS = {
    "spin": _POLLING,
    "rings": _POLLING,
    "traditional": _POLLING,
    "queue-per-core": _POLLING,
    "spin-poll-mode": _POLL_MODE,
    "first-level": _POLL_MODE,
    "queue-per-backend": _POLL_MODE,
    "spin-mlx5": _DRIVER,
    "spin-ixgbe-vector": _NANOPU,
    "hyperplane": _QWAIT,
    "qwait": _QWAIT,
    "software-ready-set": _LIST,
    "software-bitmap": _THEORY,
    "rpcvalet": _RPCVALET,
    "one-queue": _RPCVALET,
    "user-interrupt": _INTERRUPTS,
    "interrupts": _INTERRUPTS,
    "software": _INTERRUPTS,
    "nanopu": _NANOPU,
    "fast-path": _NANOPU,
    "optimal": _NANOPU,
    "naive": _OTHER,
    "software-by-turns": _OTHER,
    "wrs": _OTHER,
    "theory": _THEORY,
}
"""The colour of each system, the same in every figure, by its name in labels. Those that one figure
can show differ; one that is not here gets a colour that is left."""
DASHES = ([1, 0], [6, 4], [2, 2], [8, 3, 2, 3])
SYSTEM_DASHES = ([5, 3], [2, 2], [1, 0])
"""For baselines first and the proposal last: the proposal is the solid line."""


def colours(names: Iterable[str]) -> list[str]:
    """Return the colours of systems. `rings-on-chip` has that of `rings`."""
    names = list(names)
    known = {one: SYSTEMS.get(one, SYSTEMS.get(one.split("-")[0])) for one in names}
    left = [colour for colour in COLOURS if colour not in known.values()] or COLOURS
    others = itertools.cycle(left)
    return [known[one] or next(others) for one in names]


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
    """Their colours or dashes, in the same order; those that follow begin again."""

    @classmethod
    def label(cls, title: str, name: str, texts: Mapping[str, str], styles: Sequence[Any]) -> Any:
        """Make a series of a label of the rows; `texts` has its values and what is shown."""
        return cls(title, lambda row: texts[row.labels[name]], list(texts.values()), styles)

    @classmethod
    def systems(cls, title: str, name: str, texts: Mapping[str, str]) -> Any:
        """Make a series of systems, in the colours that these have in every figure."""
        return cls.label(title, name, texts, colours(texts))

    def scale(self, shown: Sequence[str]) -> dict[str, Any]:
        """Return the scale of the values that are shown, each with its own style."""
        styled = zip(self.values, itertools.cycle(self.styles), strict=False)
        kept = [pair for pair in styled if pair[0] in shown]
        return {"domain": [value for value, _ in kept], "range": [style for _, style in kept]}

    def shapes(self, shown: Sequence[str]) -> dict[str, Any]:
        """Return the scale of the points' shapes, where the styles are colours."""
        scale = self.scale(shown)
        shapes = dict(zip(COLOURS, _SHAPES, strict=True))
        return {"domain": scale["domain"], "range": [shapes[one] for one in scale["range"]]}


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a plot, as Vega-Lite describes it."""

    title: str
    scale: dict[str, Any]
    axis: dict[str, Any]


def queues(values: Sequence[int]) -> Axis:
    """Return the axis of the number of queues."""
    # Wide enough for the first and the last point.
    scale = {"type": "log", "domain": [0.85 * min(values), 1.18 * max(values)], "nice": False}
    return Axis("number of queues", scale, {"values": list(values), "format": "d"})


def linear(title: str) -> Axis:
    """Return an axis that begins at zero."""
    return Axis(title, {"zero": True}, {"tickCount": 6})


def logarithmic(title: str, ticks: Sequence[float] = ()) -> Axis:
    """Return a logarithmic axis, with ticks at 1, 2 and 5 of each decade or at others."""
    ticks = list(ticks) or [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    scale = {"type": "log", "nice": False, "padding": 12}
    return Axis(title, scale, {"values": ticks, "format": "~g"})


def data(values: Iterable[Mapping[str, Any]]) -> "altair.InlineData":
    """Return the values of a chart, each with its fields by name.

    Altair copies charts, with lists in them, whenever they become parts of another; a tuple is not
    copied.
    """
    import altair

    return altair.InlineData(values=tuple(values))


def panels(
    rows: Sequence[Row],
    title: Callable[[Row], str],
    *,
    x: Axis,
    y: Axis,
    colour: Series,
    dash: Series | None = None,
    columns: int = 3,
    shared_y: bool = True,
) -> Chart:
    """Put the rows of each title into a panel of lines, in the order in which titles come.

    Without dashes of their own, the series have those that go with their colours.
    """
    import altair

    dash = dash or dataclasses.replace(colour, styles=DASHES)

    titles = list(dict.fromkeys(title(row) for row in rows))
    drawn: list[Any] = [
        _panel([row for row in rows if title(row) == one], rows, x, y, colour, dash).properties(
            width=370 if len(titles) < columns else 270, height=240, title=one
        )
        for one in titles
    ]
    chart: Any = altair.concat(*drawn, columns=columns)
    return chart.resolve_scale(y="shared" if shared_y else "independent")  # type: ignore[no-any-return]


def _interval(row: Row) -> str:
    return f"{row.ci95[0]:.3f} to {row.ci95[1]:.3f}" if row.ci95 else "not given"


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
            "interval": _interval(row),
            "samples": row.samples,
            "settled": row.steady,
            "colour": colour.of(row),
            "dash": dash.of(row),
            "command": row.command,
        }
        for row in rows
        if not row.paper
        for low, high in [_drawn_interval(row, y)]
    ]
    measured = [row for row in all_rows if not row.paper]
    colours = colour.scale([colour.of(row) for row in measured])
    shapes = colour.shapes([colour.of(row) for row in measured])
    dashes = dash.scale([dash.of(row) for row in measured])
    legend: dict[str, Any] = {}
    if len(dash.values) < 2:
        # It tells nothing apart.
        legend = {"legend": None}
    elif (dash.title, dashes["domain"]) != (colour.title, colours["domain"]):
        # Of its own: one that it shares with colours has points, which would be as large.
        legend = {"legend": altair.Legend(symbolSize=900)}
    base = altair.Chart(data(values)).encode(
        x=altair.X("x:Q", title=x.title, scale=x.scale, axis=x.axis),
        color=altair.Color("colour:N", title=colour.title, scale=colours),
    )
    vertical = altair.Y("y:Q", title=y.title, scale=y.scale, axis=y.axis)
    lines = base.mark_line().encode(
        y=vertical,
        strokeDash=altair.StrokeDash("dash:N", title=dash.title, scale=dashes, **legend),
    )
    points = base.mark_point(size=45).encode(
        y=vertical,
        fill=altair.Fill("colour:N", title=colour.title, scale=colours),
        shape=altair.Shape("colour:N", title=colour.title, scale=shapes),
        fillOpacity=altair.condition("datum.settled", altair.value(1), altair.value(0)),
        tooltip=[
            altair.Tooltip("colour:N", title=colour.title),
            altair.Tooltip("dash:N", title=dash.title),
            altair.Tooltip("x:Q", title=x.title),
            altair.Tooltip("y:Q", title=y.title, format=".4~g"),
            altair.Tooltip("interval:N", title="95 % confidence"),
            altair.Tooltip("samples:Q", format=","),
            altair.Tooltip("settled:N"),
            *_command(rows),
        ],
    )
    intervals = base.mark_rule(strokeWidth=1.5).encode(
        y=altair.Y("low:Q", title=y.title, scale=y.scale, axis=y.axis), y2="high:Q"
    )
    layers: list[Any] = [lines, intervals, points]
    if stated := [row for row in rows if row.paper]:
        layers.append(_stated(stated, x, y, vertical))
    return altair.layer(*layers)


def _stated(rows: Sequence[Row], x: Axis, y: Axis, vertical: Any) -> Any:
    """Draw what the paper states, which is no series: a large cross in the colour of text."""
    import altair

    values = [{"x": row.x, "y": row.y, "series": row.series, "paper": row.paper} for row in rows]
    return (
        altair.Chart(data(values))
        .mark_point(size=220, shape=_PAPER_CROSS, strokeWidth=1.5, filled=True, color="#808080")
        .encode(
            x=altair.X("x:Q", title=x.title, scale=x.scale, axis=x.axis),
            y=vertical,
            tooltip=[
                altair.Tooltip("series:N", title="the paper"),
                altair.Tooltip("x:Q", title=x.title),
                altair.Tooltip("y:Q", title=y.title, format=".4~g"),
                altair.Tooltip("paper:N", title="says"),
            ],
        )
    )


def _command(rows: Sequence[Row]) -> "list[altair.Tooltip]":
    """Return the tooltip's line with the command that made a point, where it is known."""
    import altair

    known = any(row.command for row in rows)
    return [altair.Tooltip("command:N", title="made by")] if known else []


def bars(
    rows: Sequence[Row],
    title: Callable[[Row], str],
    *,
    group: Callable[[Row], str],
    y: Axis,
    colour: Series,
    shared_y: bool = True,
) -> Chart:
    """Put the rows of each title into a panel of bars, side by side in each group.

    If the colour is that of the group, a group has one bar, and there is no legend.
    """
    import altair

    titles = list(dict.fromkeys(title(row) for row in rows))
    groups = list(dict.fromkeys(group(row) for row in rows))
    colours = colour.scale([colour.of(row) for row in rows])
    side_by_side: dict[str, Any] = {"xOffset": altair.XOffset("colour:N", sort=list(colour.values))}
    legend: dict[str, Any] = {}
    if all(colour.of(row) == group(row) for row in rows):
        side_by_side, legend = {}, {"legend": None}
    drawn: list[Any] = []
    for one in titles:
        of = [row for row in rows if title(row) == one]
        values = [
            {
                "group": group(row),
                "y": row.y,
                "low": low,
                "high": high,
                "interval": _interval(row),
                "colour": colour.of(row),
                "samples": row.samples,
                "command": row.command,
            }
            for row in of
            for low, high in [_drawn_interval(row, y)]
        ]
        base = altair.Chart(data(values)).encode(
            x=altair.X(
                "group:N",
                title=None,
                sort=groups,
                axis=altair.Axis(labelAngle=-30, labelLimit=200),
            ),
            **side_by_side,
        )
        vertical: dict[str, Any] = {"title": y.title, "scale": y.scale, "axis": y.axis}
        layers: list[Any] = [
            base.mark_bar().encode(
                y=altair.Y("y:Q", **vertical),
                color=altair.Color("colour:N", title=colour.title, scale=colours, **legend),
                tooltip=[
                    altair.Tooltip("group:N"),
                    altair.Tooltip("colour:N", title=colour.title),
                    altair.Tooltip("y:Q", title=y.title, format=".4~g"),
                    altair.Tooltip("interval:N", title="95 % confidence"),
                    altair.Tooltip("samples:Q", format=","),
                    *_command(rows),
                ],
            )
        ]
        if any(row.ci95 for row in of):
            # They lie on the bars and above them; a page gives them the colour of text.
            layers.append(
                base.mark_rule(strokeWidth=1.5, color="#000000").encode(
                    y=altair.Y("low:Q", **vertical), y2="high:Q"
                )
            )
        drawn.append(altair.layer(*layers).properties(width=370, height=240, title=one))
    # Two in a row are as wide as a page.
    panels: Any = altair.concat(*drawn, columns=2) if len(drawn) > 2 else altair.hconcat(*drawn)
    return panels.resolve_scale(y="shared" if shared_y else "independent")  # type: ignore[no-any-return]


# One legend shows several of these; a shared one would get a second legend.
_OWN_LEGENDS = dict.fromkeys(("color", "fill", "shape", "strokeDash"), "independent")


def beside(*charts: Any, shared: bool = False) -> Chart:
    """Put charts beside each other, each with legends of its own unless these are shared."""
    import altair

    drawn: Any = altair.hconcat(*charts)
    return drawn if shared else drawn.resolve_scale(**_OWN_LEGENDS)  # type: ignore[no-any-return]


def stacked(*charts: Any) -> Chart:
    """Put charts above each other, each with legends of its own."""
    import altair

    drawn: Any = altair.vconcat(*charts)
    return drawn.resolve_scale(**_OWN_LEGENDS)  # type: ignore[no-any-return]
