"""Figures: their structure, and the list of all.

A paper's module in `nanoplane.papers` makes its figures: the runs, the plots, and the claims of the
paper that they decide.

A point of a figure is a frozen dataclass of the paper's module, whose fields identify it: the task,
the mechanism, the number of queues. It is the key of its outcome, and `--only` selects by its
fields.
"""

import dataclasses
import difflib
import functools
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nanoplane.errors import DescriptionError
from nanoplane.outcomes import Outcome, measurement, settled
from nanoplane.sweep import Run

if TYPE_CHECKING:  # Half of the start of the command, and only plots need it.
    import altair

PRECISION = 0.01
QUICK_PRECISION = 0.03
"""Saturated runs of throughput figures end when half of the 95 % confidence interval is at most
this fraction of the throughput."""
TAIL = 5
"""For runs of p99 figures the fraction is so many times as large."""

Results = Mapping[Any, Outcome]
"""The results: from a point to its outcome; points that have not been run are absent."""


class LeftOutError(KeyError):
    """A point that its figure does not have: `--quick` leaves some out."""


class Measured(dict[Any, Outcome]):
    """The results of figures whose points are known."""

    def __init__(self, outcomes: Mapping[Any, Outcome], points: Collection[Any]) -> None:
        """Keep the outcomes of some of the points."""
        super().__init__(outcomes)
        self._points = points

    def __missing__(self, point: Any) -> Outcome:
        """Distinguish points that have not been run from points that the figure does not have."""
        raise (KeyError if point in self._points else LeftOutError)(point)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of a figure."""

    series: str
    x: float
    x_unit: str
    y: float
    y_unit: str
    statistic: str
    """The name of `y`: `peak throughput`, `mean latency`, `p99 latency`."""
    labels: Mapping[str, str]
    """The labels that identify the point: `task`, `notify`, `shape` and so on."""
    ci95: tuple[float, float] | None = None
    """95 % confidence interval of `y`; None where the simulator gives none."""
    samples: int
    """The number of requests behind `y`, without the warm-up."""
    steady: bool = True
    """Whether the run was in a steady state; if not, `y` may still change over time."""
    command: str = ""
    """The command that makes it."""
    paper: str = ""
    """The paper's words and their location, if the paper states the point and nothing was
    measured."""

    @classmethod
    def measured(
        cls,
        point: Any,
        outcome: Outcome,
        *,
        y: float,
        ci95: Sequence[float] | None = None,
        unit: float = 1.0,
        **told: Any,
    ) -> "Row":
        """Make the row of a point that was run; `y` and its interval are divided by `unit`.

        `told` has the other fields, and replacements of derived ones: the point's labels, the
        number of requests, and whether the run was steady.
        """
        measured = measurement(outcome.result)
        latency = measured.get("latency_ns") or measured["latency_service_times"]
        usual = {
            "labels": labels(point),
            "samples": latency["samples"],
            "steady": settled(outcome),
        }
        interval = None if ci95 is None else (ci95[0] / unit, ci95[1] / unit)
        return cls(y=y / unit, ci95=interval, **{**usual, **told})

    @classmethod
    def latency(
        cls,
        point: Any,
        outcome: Outcome,
        statistic: str = "p99",
        of: Mapping[str, Any] | None = None,
        **told: Any,
    ) -> "Row":
        """Make the row of a latency in microseconds: of a summary, or of all requests."""
        summary = measurement(outcome.result)["latency_ns"] if of is None else of
        return cls.measured(
            point,
            outcome,
            y=summary[statistic],
            ci95=summary.get(f"{statistic}_ci95"),
            unit=1000,
            **{"y_unit": "microseconds", "statistic": f"{statistic} latency", **told},
        )


def ranking(of: str, rows: Iterable[Row], value: Callable[[Row], float]) -> str:
    """Return a sentence with the series in descending order; an empty one for fewer than two."""
    ranked = sorted(rows, key=value, reverse=True)
    if len(ranked) < 2:
        return ""
    return f"{of}: {'; '.join(f'{row.series}: {value(row):.1f}' for row in ranked)}."


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a paper."""

    name: str
    """Its name on the command line, `hyperplane.8`."""
    title: str
    caption: str
    """The runs, and their differences from the paper's."""
    points: Callable[[bool], dict[Any, Run]]
    """Each point and its run; True for fewer requests."""
    rows: Callable[[Results], list[Row]]
    """The rows whose points have been run."""
    chart: "Callable[[list[Row]], altair.TopLevelMixin]"
    """The plot of the rows."""
    optional: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Labels' values that are only run if `--only` names them."""
    optional_quick: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """The same with `--quick`."""

    by_precision: bool = False
    """Its saturated runs end when their throughput is precise, and runs that are made for their p99
    (`Run.by_tail`) when that is."""
    stated: Sequence[Row] = ()
    """Points that the paper's text gives as numbers, with the labels of the points beside which
    they are drawn."""
    answer: Callable[[list[Row]], str] | None = None
    """A sentence that summarizes the rows with numbers; empty if there is none."""

    def runs(self, quick: bool, precision: float | None = None) -> Mapping[Any, Run]:
        """Return each point and its run; with `by_precision` runs end at this precision.

        None stands for the default of `quick`. The precision of a p99 is five times as coarse.
        """
        points = _made(self.points, quick)
        if not self.by_precision:
            return points
        if precision is None:
            precision = QUICK_PRECISION if quick else PRECISION
        tail = min(1.0, TAIL * precision)
        return {point: run.precise(precision, tail) for point, run in points.items()}

    def left_out(self, quick: bool) -> list[tuple[str, Sequence[str]]]:
        """Return the labels whose values are only run if `--only` names them."""
        return [*self.optional.items(), *(self.optional_quick.items() if quick else ())]

    def drawn(self, rows: list[Row]) -> "altair.TopLevelMixin":
        """Draw the rows, and the paper's numbers for the same points."""
        beside = [
            one
            for one in self.stated
            if any(one.labels.items() <= row.labels.items() for row in rows)
        ]
        return self.chart([*rows, *beside])

    def with_commands(self, rows: list[Row], quick: bool) -> list[Row]:
        """Return the rows with their commands: each selects as few runs as labels allow."""
        known: dict[str, set[str]] = {}
        for point in _made(self.points, quick):
            for name, value in labels(point).items():
                known.setdefault(name, set()).add(value)
        begin = ["nanoplane", "figure", self.name, *(["--quick"] if quick else [])]
        return [
            dataclasses.replace(row, command=shlex.join([*begin, *_choices(row, known)]))
            for row in rows
        ]


@functools.cache
def _made(points: Callable[[bool], dict[Any, Run]], quick: bool) -> Mapping[Any, Run]:
    """Return a figure's points. Making their descriptions takes a tenth of a second or more."""
    return points(quick)


def _choices(row: Row, known: Mapping[str, Collection[str]]) -> Iterable[str]:
    """Return the options that select a row's point, from labels that distinguish it."""
    for name, value in row.labels.items():
        # A comma separates values, and a row may need the runs with both True and False.
        if value in ("True", "False"):
            continue
        if value in known.get(name, ()) and len(known[name]) > 1 and "," not in value:
            yield from ("--only", f"{name}={value}")


def figures() -> dict[str, Figure]:
    """Return all figures by their names."""
    from nanoplane import papers

    return {one.name: one for paper in papers.modules().values() for one in paper.FIGURES}


def find(name: str) -> Figure:
    """Return a figure by its name."""
    known = figures()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1, 0.7)
    meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise DescriptionError(f'no figure is called "{name}"; {meant}')


def labels(point: Any) -> dict[str, str]:
    """Return the labels by which a point can be selected: its non-trivial fields, as text."""
    fields = ((field.name, getattr(point, field.name)) for field in dataclasses.fields(point))
    return {name: f"{value}" for name, value in fields if isinstance(value, str | int | float)}


def chosen(
    listed: Iterable[Figure],
    quick: bool,
    choices: Sequence[str] = (),
    precision: float | None = None,
) -> dict[Any, Run]:
    """Return the points of figures that `choices` select, texts such as `task=echo,synthetic`.

    A choice does not affect figures whose points do not have its label.
    """
    wanted = [_choice(text) for text in choices]
    named = {name for name, _ in wanted}
    points = {
        point: run
        for figure in listed
        for point, run in figure.runs(quick, precision).items()
        if not any(
            labels(point).get(name) in values
            for name, values in figure.left_out(quick)
            if name not in named
        )
    }
    known: dict[str, set[str]] = {}
    for point in points:
        for name, value in labels(point).items():
            known.setdefault(name, set()).add(value)
    for name, values in wanted:
        if name not in known:
            wrong = f'--only "{name}={",".join(values)}"'
            if not known:
                raise DescriptionError(f"{wrong}: these figures have no labels to choose by")
            raise DescriptionError(
                f'{wrong}: no point of these figures has a label "{name}"; their labels are '
                f"{', '.join(sorted(known))}"
            )
        for value in values:
            if value not in known[name]:
                there = ", ".join(sorted(known[name], key=_by_number))
                raise DescriptionError(
                    f'--only "{name}={",".join(values)}": no point has {name} = "{value}"; there '
                    f"are {there}"
                )
    return {
        point: run
        for point, run in points.items()
        if all(labels(point).get(name, values[0]) in values for name, values in wanted)
    }


def _choice(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise DescriptionError(
            f'--only "{text}" is not a label, =, and values with commas between, as in '
            "task=packet-steering,raid-protection"
        )
    return name, values.split(",")


def _by_number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows in the command line's JSON form."""
    documents = [dataclasses.asdict(row) for row in rows]
    for document in documents:
        del document["paper"]
    return documents
