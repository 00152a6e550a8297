"""HyperPlane's gain in throughput over the ratio of a poll to an item.

A core that spins pays for the empty queues between two items; HyperPlane does not. If an item takes
S, and e empty polls of p precede it, then the gain is (S + e p) / S = 1 + e r with r = p / S: the
gain depends on no other property of a machine. The traffic determines `e`.
"""

import itertools
import statistics
from collections.abc import Iterator
from typing import Any

from nanoplane.figures import Results, Row
from nanoplane.outcomes import settled
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import INTERFACE, PEAK_SYSTEMS, QUEUES, SHAPES, TASKS, Case

STATISTIC = "gain over poll by item"
SPINNING = ("spin-poll-mode", "spin", INTERFACE)
CELLS = tuple(itertools.product(SHAPES, QUEUES))
"""The points whose mean is the paper's 4.1 times, for each task."""

PAPER_GAIN = 4.1
PAPER_POLL_NS = 100.0
"""HyperPlane, Section V-B: "tail latency can be more than 100 us", which is a round over 1000
queues."""
PAPER_ITEM_NS = (2_000.0, 5_000.0)
""""A few microseconds" (Sections II-B and IV-C)."""
STUDY_RATIO = (0.33, 0.39)
"""Golestani et al., SoCC 2019: polls of 33 to 39 ns (docs/polling.md) over packets of less than 100
ns ("stable above 10 Mpps"), so that the ratio is a lower bound. The study has no HyperPlane."""


def empty_polls(shape: str, queues: int) -> float:
    """Return the number of empty polls of a spinning core before an item, with full busy queues."""
    return queues / Case("", "", shape, queues).busy_queues - 1


def predicted(ratio: float) -> float:
    """Return the mean gain over all shapes and numbers of queues at a ratio of poll to item."""
    return statistics.fmean(1 + empty_polls(*cell) * ratio for cell in CELLS)


def _item_ns(results: Results, case: Case) -> float:
    return 1e3 / float(results[case].result["throughput_mrps"])


def measured(results: Results, task: str, notify: str) -> tuple[float, float]:
    """Return the ratio of poll to item with 1000 queues, and the mean gain; KeyError: not run."""
    one = _item_ns(results, Case(task, notify, "single-queue", 1))
    many = _item_ns(results, Case(task, notify, "single-queue", QUEUES[-1]))
    gain = statistics.fmean(
        _item_ns(results, Case(task, notify, *cell))
        / _item_ns(results, Case(task, "hyperplane", *cell))
        for cell in CELLS
    )
    return (many - one) / empty_polls("single-queue", QUEUES[-1]) / one, gain


def rows(results: Results) -> Iterator[Row]:
    """Yield a point for each task and spinning data plane that has runs."""
    for task, notify in itertools.product(TASKS, SPINNING):
        try:
            ratio, gain = measured(results, task, notify)
        except KeyError:
            continue
        cases = [Case(task, one, *cell) for cell in CELLS for one in (notify, "hyperplane")]
        yield Row(
            series=f"{TASKS[task]}, {PEAK_SYSTEMS[notify]}",
            x=ratio,
            x_unit="poll by item",
            y=gain,
            y_unit="times",
            statistic=STATISTIC,
            labels={"task": task, "notify": notify},
            samples=sum(results[case].result["latency_ns"]["samples"] for case in cases),
            steady=all(settled(results[case]) for case in cases),
        )


def chart(shown: list[Row]) -> plots.Chart:
    """Draw the points on the curve, and both papers beside it."""
    import altair

    log = altair.Scale(type="log")
    x = altair.X("x:Q", title="poll over item", scale=log)
    y = altair.Y("y:Q", title="times", scale=log)

    def values(points: list[dict[str, object]]) -> Any:
        return altair.Chart(plots.data(points))

    ratios = [10 ** (exponent / 10) for exponent in range(-30, 1)]
    curve = values([{"x": ratio, "y": predicted(ratio)} for ratio in ratios])
    notify = plots.Series.systems("data plane", "notify", PEAK_SYSTEMS)
    here = values(
        [
            {
                "x": row.x,
                "y": row.y,
                "data plane": notify.of(row),
                "task": TASKS[row.labels["task"]],
            }
            for row in shown
        ]
    )
    few, many = (PAPER_POLL_NS / item for item in reversed(PAPER_ITEM_NS))
    study_from, study_to = STUDY_RATIO
    # Lines are broken for narrow pages.
    of_hyperplane = {
        "x": few,
        "end": many,
        "y": PAPER_GAIN,
        "what": "HyperPlane's paper:\n4.1 times",
    }
    of_study = {
        "x": study_from,
        "end": study_to,
        "y": predicted(study_from),
        "what": "the study of spinning:\nat least, without a gain",
    }
    papers = values([of_hyperplane, of_study])

    def text(paper: dict[str, object], at: str, **place: Any) -> Any:
        mark = values([paper]).mark_text(lineBreak="\n", color="#888888", **place)
        return mark.encode(x=altair.X(at, title="poll over item", scale=log), y=y, text="what:N")

    drawn = altair.layer(
        curve.mark_line(color="#888888").encode(x=x, y=y),
        papers.mark_rule(strokeWidth=5, color="#888888").encode(
            x=x, x2="end:Q", y=y, tooltip="what:N"
        ),
        text(of_hyperplane, "end:Q", align="left", dx=8),
        text(of_study, "x:Q", align="right", dx=-8, dy=-14),
        here.mark_point(size=45, filled=True, opacity=1).encode(
            x=x,
            y=y,
            color=altair.Color("data plane:N", scale=notify.scale([notify.of(r) for r in shown])),
            tooltip=["task:N", "data plane:N", "x:Q", "y:Q"],
        ),
    )
    return drawn.properties(width=600, height=300, title="Mean gain of HyperPlane: 1 + e r")
