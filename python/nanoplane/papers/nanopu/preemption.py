"""The choice of a core together with the bound on a message's time.

The paper measures each alone: JBSQ on four cores with a thread each (Section 5.2.3), and the bound
on one core with two threads (Section 5.2.2, Figure 8). Here four cores have Figure 8's two threads
each.
"""

import dataclasses
import itertools
from typing import Any

from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.papers import plots
from nanoplane.papers.nanopu.network import CORES, PORTS, SELECTIONS
from nanoplane.papers.nanopu.racks import (
    CLOCK_GHZ,
    PROTOTYPE,
    QUICK_REQUESTS,
    REQUESTS,
    open_load,
    rack,
)
from nanoplane.papers.nanopu.threads import (
    BOUNDED,
    LIMITS,
    LOWERED_REQUESTS,
    OVERRUN_CYCLES,
    SERVICE_CYCLES,
    THREADS,
    UNBOUNDED,
    request,
)
from nanoplane.sweep import Run

MAX_CYCLES = {BOUNDED: 3200, UNBOUNDED: 1 << 40}
OVERRUN_PART = 0.01
MEAN_CYCLES = SERVICE_CYCLES + OVERRUN_PART / 2 * (OVERRUN_CYCLES - SERVICE_CYCLES)
IDEAL_MRPS = 1000 * CLOCK_GHZ * CORES / MEAN_CYCLES
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
QUICK_LOADS = (0.3, 0.5, 0.8)


@dataclasses.dataclass(frozen=True, slots=True)
class Together:
    """Two threads on each of four cores, one of which takes 5 us once in 100 requests."""

    selection: str
    limit: str
    load: float
    """A part of what four ideal cores can do."""

    @property
    def name(self) -> str:
        """The name in progress lines and error messages."""
        how = f"{SELECTIONS[self.selection]}, {LIMITS[self.limit]}"
        return f"two threads on each core, {how}, {100 * self.load:g} % load"

    def run(self, quick: bool) -> Run:
        """Return the run."""
        description = rack(
            self.name,
            "nanopu/threads-on-all-harts",
            open_load(self.load * IDEAL_MRPS),
            [
                request("well-behaved", 0, SERVICE_CYCLES, 1.0),
                request("misbehaving", 1, SERVICE_CYCLES, 1 - OVERRUN_PART),
                request("overrun", 1, OVERRUN_CYCLES, OVERRUN_PART),
            ],
            measured=4 * (QUICK_REQUESTS if quick else REQUESTS),
            nanopu={**PROTOTYPE, "core_selection": self.selection},
            # As in the figure of the choice alone.
            transport={"send_buffers": 256, "receive_buffers": 256},
            ports=PORTS,
            cores=CORES,
            # Until then the misbehaving thread of each core has been lowered.
            warmup=CORES * LOWERED_REQUESTS,
        )
        most = MAX_CYCLES[self.limit]
        return Run(description.set("rack.servers.0.parameters.max_cycles", most))


def _cases(loads: tuple[float, ...] = LOADS) -> list[Together]:
    return list(itertools.starmap(Together, itertools.product(SELECTIONS, MAX_CYCLES, loads)))


def _points(quick: bool) -> dict[Any, Run]:
    return {case: case.run(quick) for case in _cases(QUICK_LOADS if quick else LOADS)}


def _rows(results: Results) -> list[Row]:
    rows = []
    for thread, case in itertools.product(THREADS, (one for one in _cases() if one in results)):
        latencies = results[case].result["clients"][0]["by_kind"][thread]["latency_ns"]
        rows.append(
            Row.latency(
                case,
                results[case],
                of=latencies,
                series=f"{thread}, {SELECTIONS[case.selection]}, {LIMITS[case.limit]}",
                x=case.load * IDEAL_MRPS,
                x_unit="million requests a second",
                labels={**labels(case), "thread": thread},
                samples=latencies["samples"],
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda row: THREADS[row.labels["thread"]],
        x=plots.linear("million requests a second"),
        y=plots.logarithmic("p99 in us"),
        colour=plots.Series.label("core selection", "selection", SELECTIONS, plots.COLOURS),
        dash=plots.Series.label("limit", "limit", LIMITS, plots.DASHES),
    )


FIGURES = (
    Figure(
        name="nanopu.jbsq-preemption",
        title="p99 over load of four cores with two threads each, by the choice of a core",
        caption=(
            "Figure 8's two threads of priority 0 on each of four cores, 500 ns a request. One of "
            "them takes 5 us once in 100 requests; what is shown of it are its other requests. "
            "The paper has no such experiment."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
