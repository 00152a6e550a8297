"""The latency of a load from memory while other cores use memory, from idle to saturated."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import settled
from nanoplane.papers import plots
from nanoplane.papers.substrate.bandwidth import KINDS, MIXED, READS, WRITTEN
from nanoplane.papers.substrate.latency import LINE_BYTES, MIB
from nanoplane.papers.substrate.machines import GENIUS, SKYLAKE, interval, run
from nanoplane.sweep import Run

STREAMS = 17
"""Cores that stream beside the core whose loads are timed: a Xeon Gold 6140 has 18."""
DELAYS = (0, 10, 20, 30, 60, 120, 400)
"""Cycles between two lines of a stream."""
QUICK_DELAYS = (0, 30)
"""Those of the claims."""
LOADS = 128
"""Loads of a request: the data plane's own work is less than half a ns a load."""
WORKING_SET_BYTES = 64 * MIB
RANKS = {1: "one rank a channel", 2: "two ranks"}
MEMORY_CURVES = (*itertools.product((READS,), RANKS), (MIXED, 2))


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """A chase of pointers on one core, and streams on others."""

    kind: str
    """The kind of the streams' accesses."""
    ranks: int
    """Ranks of each channel."""
    streams: int
    delay: int

    def run(self) -> Run:
        """Return the run."""
        made = run(
            SKYLAKE,
            "loaded-latency",
            {
                "working_set_bytes": WORKING_SET_BYTES,
                "loads": LOADS,
                "streams": self.streams,
                "delay_cycles": self.delay,
                "written_fraction": WRITTEN[self.kind],
            },
            requests=100,
            warmup=20,
            memory_mib=1024,
        )
        key = "server.fabric.memory.dram.ranks"
        return dataclasses.replace(made, description=made.description.set(key, self.ranks))


def _curve(kind: str, ranks: int, quick: bool) -> list[Load]:
    delays = QUICK_DELAYS if quick else DELAYS
    # Without streams there are no writes, so that there is one idle memory.
    idle = Load(READS, ranks, 0, 0)
    return [idle, *(Load(kind, ranks, STREAMS, delay) for delay in reversed(delays))]


def _points(quick: bool) -> dict[Any, Run]:
    points = itertools.chain.from_iterable(
        _curve(kind, ranks, quick) for kind, ranks in MEMORY_CURVES
    )
    return {point: point.run() for point in dict.fromkeys(points)}


def load_ns(results: Results, point: Load) -> float:
    """Return the time of a load."""
    return float(results[point].result["service_ns"]["mean"]) / LOADS


def memory_gb_per_s(results: Results, point: Load) -> float:
    """Return the memory traffic of the whole run, in gigabytes a second."""
    result = results[point].result
    lines = result["fabric"]["memory_reads"] + result["fabric"]["memory_writes"]
    return float(LINE_BYTES * lines / result["simulated_seconds"] / 1e9)


def _rows(results: Results) -> list[Row]:
    rows = []
    for point in (one for one in results if isinstance(one, Load)):
        service = results[point].result["service_ns"]
        rows.append(
            Row(
                series=f"{KINDS[point.kind]}, {RANKS[point.ranks]}",
                x=memory_gb_per_s(results, point),
                x_unit="GB/s",
                y=load_ns(results, point),
                y_unit="ns a load",
                statistic="mean time from load to use",
                labels=labels(point),
                ci95=interval(service, "mean_ci95", 1 / LOADS),
                samples=service["samples"] * LOADS,
                steady=settled(results[point]),
            )
        )
    if rows:
        rows += [
            Row(
                series="Xeon Gold 6140, measured",
                x=gb_per_s,
                x_unit="GB/s",
                y=nanoseconds,
                y_unit="ns a load",
                statistic="mean time from load to use",
                labels={"kind": READS, "ranks": "not said"},
                samples=0,
                paper=GENIUS,
            )
            for gb_per_s, nanoseconds in MEASURED
        ]
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    ranks = {str(number): text for number, text in RANKS.items()}
    return plots.panels(
        rows,
        lambda row: "loads of one core beside 17 that stream",
        x=plots.linear("GB/s from and to memory"),
        y=plots.linear("ns a load"),
        colour=plots.Series.label("memory", "ranks", ranks, plots.COLOURS),
        dash=plots.Series.label("streams", "kind", KINDS, plots.DASHES),
        columns=1,
    )


FIGURES = (
    Figure(
        name="substrate.loaded-latency",
        title="Latency of memory under load",
        caption=(
            f"One core of {SKYLAKE} chases pointers through {WORKING_SET_BYTES // MIB} MB, and "
            f"{STREAMS} cores go through arrays of their own, with a delay between two lines that "
            "sets the load. Crosses are measurements of a processor of 18 of the same cores with "
            "six channels of DDR4-2666, for reads."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        optional_quick={"ranks": ("1",), "kind": (MIXED,)},
    ),
)

# What is published. Memory Latency Checker used both processors of a node, each with its own
# memory; this is a half of the bandwidth. The latency is that of one core, as here.
MEASURED = (
    (1.01, 91.66),
    (8.03, 94.13),
    (13.2, 96.23),
    (18.4, 102.52),
    (25.1, 101.35),
    (30.8, 103.73),
    (39.7, 105.64),
    (55.1, 116.34),
    (82.0, 128.73),
    (100.9, 163.31),
    (105.3, 166.18),
)
"""GB/s of a processor, and ns a load."""
_RANKS = "the number of ranks: it is not said, and with one instead of two it is {} here"


def _claim(name: str, quote: str, paper: float, unit: str, delay: int, one_rank: str) -> Claim:
    point = Load(READS, 2, STREAMS, delay)
    measure = memory_gb_per_s if unit == "GB/s" else load_ns
    why = _RANKS.format(one_rank)
    return Claim(
        f"substrate.loaded-latency.{name}",
        GENIUS,
        quote,
        unit,
        f"{STREAMS} cores that read with a delay of {delay} cycles, preset {SKYLAKE}",
        within(paper, 0.1, below=why, above=why),
        lambda results: measure(results, point),
        figure="substrate.loaded-latency",
        paper_value=paper,
    )


CLAIMS = (
    _claim("half", "110 GB/s of two processors: 116.34 ns", 116.34, "ns", 30, "113 ns"),
    _claim("saturated", "210.6 GB/s of two processors: 166.18 ns", 166.18, "ns", 0, "157 ns"),
    _claim("peak", "210.6 GB/s of two processors", 105.3, "GB/s", 0, "104.5 GB/s"),
)
