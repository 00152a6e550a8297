"""Section 7, its outlook: a data plane that switches between scale-out and scale-up."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine, scale_up
from nanoplane.papers.spin_to_win.scale_up import OUT, SATURATED_MRPS, UP, throughput_mrps
from nanoplane.sweep import Run

SWITCHING = "switching"
ORGANISATIONS = {
    OUT: "a queue for each core",
    UP: "one that all share",
    SWITCHING: "whichever has the shorter wait",
}
PAIRS = 4
"""The number of cores with which scale-up forwards most in the paper (Figure 16)."""
HICCUPS_US, QUICK_HICCUPS_US = (0.0, 1.0, 10.0), (0.0, 10.0)
"""Hiccups of one packet in a hundred: none and 1 us, as in the paper, and 10 us."""
LOADS_MRPS = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0)
QUICK_LOADS_MRPS = (12.0, 24.0)
"""At 4 million packets a second polling takes three times as long to simulate as at 12."""
PACKETS, QUICK_PACKETS = 30_000, 6000
WARMUP, QUICK_WARMUP = 20_000, 12_000
"""A switching data plane first learns the costs of both organisations, with cold caches."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plane:
    """Four cores that receive packets and hand them to four sending cores (Figure 15)."""

    organisation: str
    hiccup_us: float
    rate_mrps: float

    def run(self, quick: bool) -> Run:
        """Return the run."""
        switches = self.organisation == SWITCHING
        measured, warmup = (QUICK_PACKETS, QUICK_WARMUP) if quick else (PACKETS, WARMUP)
        if quick and not switches:
            warmup = scale_up.QUICK_WARMUP
        parameters = {"pairs": PAIRS, "hiccup_ns": 1000 * self.hiccup_us, "rx_vec_en": 1}
        name = f"{self.organisation}, hiccups of {self.hiccup_us:g} us, {self.rate_mrps:g} Mpps"
        return machine.loaded(
            name,
            "switching" if switches else "dispatch",
            parameters if switches else parameters | {"shared": self.organisation == UP},
            self.rate_mrps,
            measured=measured,
            warmup=warmup,
        )


def _planes(quick: bool) -> list[Plane]:
    loads = QUICK_LOADS_MRPS if quick else LOADS_MRPS
    hiccups = QUICK_HICCUPS_US if quick else HICCUPS_US
    listed = itertools.product(ORGANISATIONS, hiccups, (*loads, SATURATED_MRPS))
    return [Plane(*one) for one in listed]


def _points(quick: bool) -> dict[Any, Run]:
    return {plane: plane.run(quick) for plane in _planes(quick)}


def _rows(results: Results) -> list[Row]:
    rows = []
    for plane in _planes(quick=False):
        if (outcome := results.get(plane)) is None:
            continue
        shared: dict[str, Any] = {"series": plane.organisation}
        measured = machine.measurement(outcome)
        if plane.rate_mrps == SATURATED_MRPS:
            row = Row.measured(
                plane,
                outcome,
                x=plane.hiccup_us,
                x_unit="us of a hiccup",
                y=throughput_mrps(outcome),
                y_unit="million packets a second",
                ci95=measured["throughput_mrps_ci95"],
                statistic="peak",
                **shared | {"steady": True},
            )
            rows.append(row)
            continue
        for statistic in ("mean", "p99"):
            row = Row.measured(
                plane,
                outcome,
                x=plane.rate_mrps,
                x_unit="million packets a second",
                y=measured["latency_ns"][statistic],
                y_unit="us",
                ci95=measured["latency_ns"].get(f"{statistic}_ci95"),
                unit=1000,
                statistic=f"{statistic}, hiccups of {plane.hiccup_us:g} us in 1 %",
                **shared,
            )
            rows.append(row)
    return rows


_COLOUR = plots.Series.label("queues", "organisation", ORGANISATIONS, plots.COLOURS)


def _chart(rows: list[Row]) -> plots.Chart:
    latencies = [row for row in rows if row.y_unit == "us"]
    return plots.panels(
        latencies or rows,
        lambda row: row.statistic,
        x=plots.linear(rows[0].x_unit),
        y=plots.logarithmic("us") if latencies else plots.linear(rows[0].y_unit),
        colour=_COLOUR,
        columns=2,
    )


FIGURES = (
    Figure(
        name="spin-to-win.switching",
        title="Scale-out, scale-up, and a data plane that switches between them",
        caption=(
            "Four cores receive packets of 96 bytes and hand them to four that send them (Figure "
            "15), through a ring for each of these, through one for all, or through what has had "
            "the shorter wait. One packet of a hundred takes longer, at random. Peaks are in the "
            "table."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
CLAIMS: tuple[Claim, ...] = ()
