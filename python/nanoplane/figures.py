"""Figures: what one is made of, and which there are.

A paper's module in `nanoplane.papers` makes its figures: which runs, which plot, and which of the
paper's claims they bear on.
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

import altair

from nanoplane.errors import DescriptionError
from nanoplane.sweep import Outcome, Run

Results = Mapping[str, Outcome]
"""What has been measured: a point's name to its outcome; what has not been run is absent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One point of a figure."""

    series: str
    x: float
    x_unit: str
    y: float
    y_unit: str
    statistic: str
    """What `y` is: `peak throughput`, `mean latency`, `p99 latency`."""
    notify: str
    shape: str
    ci95: tuple[float, float] | None
    """95 % confidence interval of `y`; None where the simulator gives none."""
    samples: int
    """Requests behind `y`, warm-up excluded."""
    steady: bool
    """Whether the run had settled; if not, `y` may still change with time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a paper."""

    name: str
    """As the command line has it, `hyperplane.8`."""
    title: str
    caption: str
    """What was run, and how it differs from the paper's."""
    points: Callable[[bool], dict[str, Run]]
    """Name of each point to its run; True for fewer requests."""
    rows: Callable[[Results], list[Row]]
    """The rows whose points have been run."""
    chart: Callable[[list[Row]], altair.TopLevelMixin]
    """The plot of the rows."""


def figures() -> dict[str, Figure]:
    """Return all figures by their names."""
    from nanoplane.papers import hyperplane

    return {figure.name: figure for figure in hyperplane.FIGURES}


def find(name: str) -> Figure:
    """Return a figure by its name."""
    known = figures()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1, 0.7)
    meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise DescriptionError(f'no figure is called "{name}"; {meant}')


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows as the command line's JSON has them."""
    return [dataclasses.asdict(row) for row in rows]
