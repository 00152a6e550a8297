"""A figure and a claim of one's own: an echo, spinning and on HyperPlane."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nanoplane.claims import Claim, between
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import settled
from nanoplane.papers import plots
from nanoplane.sweep import Run

NOTIFY = {"spin": "spinning", "hyperplane": "HyperPlane"}
QUEUES = (1, 10, 100)


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of the figure; its fields are what `--only` chooses by."""

    notify: str
    queues: int

    def run(self, requests: int) -> Run:
        """Return its run: a saturated echo."""
        tables: Mapping[str, Any] = {
            "extends": "hyperplane-table1",
            "data_plane": {"program": "echo", "notify": self.notify, "queues": self.queues},
            "measure": {"requests": requests},
        }
        return Run.of(Description.from_dict(tables, source=f"own.echo, {self}"))


def _points(quick: bool) -> dict[Any, Run]:
    points = [Point(notify, queues) for notify in NOTIFY for queues in QUEUES]
    return {point: point.run(500 if quick else 5000) for point in points}


def _rows(results: Results) -> list[Row]:
    return [
        Row(
            series=NOTIFY[point.notify],
            x=point.queues,
            x_unit="queues",
            y=outcome.result["throughput_mrps"],
            y_unit="million requests a second",
            statistic="peak throughput",
            labels=labels(point),
            ci95=outcome.result["throughput_mrps_ci95"],
            samples=outcome.result["latency_ns"]["samples"],
            steady=settled(outcome),
        )
        for point, outcome in results.items()
        if isinstance(point, Point)
    ]


def _chart(rows: list[Row]) -> Any:
    return plots.panels(
        rows,
        lambda row: row.statistic,
        x=plots.queues(QUEUES),
        y=plots.linear("million requests a second"),
        colour=plots.Series.label("mechanism", "notify", NOTIFY, plots.COLOURS),
        dash=plots.Series.label("mechanism", "notify", NOTIFY, plots.SYSTEM_DASHES),
    )


def _gain(results: Results) -> float:
    """Return by how much spinning is faster with one queue."""
    spin, hyperplane = (results[Point(notify, 1)].result for notify in NOTIFY)
    return float(spin["throughput_mrps"] / hyperplane["throughput_mrps"])


FIGURES = (
    Figure("own.echo", "Echo over the number of queues", "One core.", _points, _rows, _chart),
)
CLAIMS = (
    Claim(
        id="own.echo.gain",
        where="docs/start.md",
        quote="With a handful of queues, spin",
        paper_value="above 1",
        unit="times",
        how="the throughput of spinning over that of HyperPlane, with one queue",
        rule=between(1.0, 2.0, "the example has another ratio"),
        figure="own.echo",
        measure=_gain,
    ),
)
