"""The time of a load that depends on the previous one, over the size of the working set."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, between
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import settled
from nanoplane.papers import plots
from nanoplane.papers.substrate.machines import (
    ANANDTECH,
    LARGE,
    LATENCY_CHECKER,
    NO_PAGES,
    OPTIONAL_QUICK,
    PAGE_SIZES,
    PAGES,
    PRESETS,
    ROME,
    SKYLAKE,
    SMALL,
    interval,
    largest_cache_bytes,
    run,
)
from nanoplane.sweep import Run

KIB, MIB = 1 << 10, 1 << 20
LINE_BYTES = 64
LOADS = 4096
"""Loads of a request. The data plane's own work beside them, some 50 ns, is a hundredth of a ns a
load."""
REQUESTS = 100
WARMUP_LOADS_A_LINE = 1.25
"""Loads of the warm-up for each line of the working set, or of the largest cache if that is
smaller. A chase loads all lines once before it repeats, so that one load a line fills the cache;
the rest is a margin, because sets do not fill evenly."""
WORKING_SETS = tuple(4 * KIB << power for power in range(0, 19, 2))
"""From 4 KB to 1 GB."""
QUICK_WORKING_SETS = (16 * KIB, 256 * KIB, 4 * MIB, 16 * MIB, 64 * MIB)
QUICK_CLAIMED = 16 * MIB
"""The working set that `--quick` has only where a claim is about it."""
RANDOM, SEQUENTIAL = "random", "sequential"
ORDERS = {RANDOM: "in random order", SEQUENTIAL: "one line after the other"}


@dataclasses.dataclass(frozen=True, slots=True)
class Chase:
    """A chase of pointers through all lines of a working set."""

    preset: str
    order: str
    bytes: int
    page: str = NO_PAGES

    def run(self) -> Run:
        """Return the run."""
        lines = min(self.bytes, largest_cache_bytes(self.preset)) // LINE_BYTES
        return run(
            self.preset,
            "pointer-chase",
            {
                "working_set_bytes": self.bytes,
                "loads": LOADS,
                "is_sequential": self.order == SEQUENTIAL,
            },
            requests=REQUESTS,
            warmup=4 + int(WARMUP_LOADS_A_LINE * lines) // LOADS,
            memory_mib=64 + 2 * self.bytes // MIB,
            page=self.page,
        )


def _points(quick: bool) -> dict[Any, Run]:
    sizes = QUICK_WORKING_SETS if quick else WORKING_SETS
    return {
        point: point.run()
        for preset, order, size in itertools.product(PRESETS, ORDERS, sizes)
        if not quick or size != QUICK_CLAIMED or (preset, order) == (SKYLAKE, RANDOM)
        for page in PAGE_SIZES.get(preset, (NO_PAGES,))
        for point in (Chase(preset, order, size, page),)
    }


def _load_ns(results: Results, point: Chase) -> float:
    """Return the time of a load."""
    return float(results[point].result["service_ns"]["mean"]) / LOADS


def _rows(results: Results) -> list[Row]:
    rows = []
    for point in (one for one in results if isinstance(one, Chase)):
        result = results[point].result
        rows.append(
            Row(
                series=", ".join((PRESETS[point.preset], PAGES[point.page], ORDERS[point.order])),
                x=point.bytes,
                x_unit="bytes of the working set",
                y=_load_ns(results, point),
                y_unit="ns a load",
                statistic="mean time from load to use",
                labels=labels(point),
                ci95=interval(result["service_ns"], "mean_ci95", 1 / LOADS),
                samples=result["service_ns"]["samples"] * LOADS,
                steady=settled(results[point]),
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    sizes = plots.Axis(
        "bytes of the working set",
        {"type": "log", "base": 2, "nice": False, "padding": 12},
        {"values": list(WORKING_SETS), "format": ".0s", "labelAngle": -45},
    )
    return plots.panels(
        rows,
        lambda row: ORDERS[row.labels["order"]],
        x=sizes,
        y=plots.logarithmic("ns a load"),
        colour=plots.Series.label("machine", "preset", PRESETS, plots.COLOURS),
        dash=plots.Series.label("translation", "page", PAGES, plots.DASHES),
    )


FIGURES = (
    Figure(
        name="substrate.latency",
        title="From load to use",
        caption=(
            "A chase of pointers through all lines of a working set, on one core of each preset: "
            f"the time of requests of {LOADS} loads, divided by these. Each line of the caches has "
            "been used before. Presets that translate addresses do so with pages of each size."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        optional_quick=OPTIONAL_QUICK,
    ),
)


# Published measurements of Skylake-SP.

CLOCK_GHZ = 2.8
"""Clock of the preset."""
_CHOSEN = "the description has the latencies whose sum this is"
_WALKS = (
    "unexplained: 16 MB are more pages than the second-level TLB has, so each load waits for a "
    "page walk, of which Intel publishes neither the length nor the caches of upper levels; the "
    "clock of the measurement is not published either: with 2.1 GHz instead of 2.8 the load takes "
    "29.4 ns, and 26.15 ns if nothing is walked for"
)


def _claim(
    name: str,
    quote: str,
    ends: tuple[float, float],
    unit: str,
    size_bytes: int,
    *,
    source: str = ANANDTECH,
    page: str = SMALL,
    scale: float = 1.0,
    by_construction: bool = True,
) -> Claim:
    low, high = ends
    return Claim(
        f"substrate.latency.{name}",
        source,
        quote,
        unit,
        f"random chase through {size_bytes // KIB:,} KB, preset {SKYLAKE}, {PAGES[page]}",
        between(low, high, _WALKS),
        lambda results: scale * _load_ns(results, Chase(SKYLAKE, RANDOM, size_bytes, page)),
        figure="substrate.latency",
        paper_value=low if low == high else f"{low:g} to {high:g}",
        why=_CHOSEN if by_construction else "",
        by_construction=by_construction,
    )


CLAIMS = (
    _claim("l1", "L1 cache: 4 cycles", (4, 4), "cycles", 16 * KIB, scale=CLOCK_GHZ),
    _claim("l2", "L2 cache: 14 to 22 cycles", (14, 22), "cycles", 256 * KIB, scale=CLOCK_GHZ),
    _claim(
        "l3", "L3 cache, 4 to 8 MB: 54 to 56 cycles", (54, 56), "cycles", 4 * MIB, scale=CLOCK_GHZ
    ),
    _claim(
        "l3-structural",
        "L3 cache, misses of TLBs accounted for: ~46 cycles",
        (46, 46),
        "cycles",
        4 * MIB,
        source=ROME,
        page=LARGE,
        scale=CLOCK_GHZ,
    ),
    _claim(
        "l3-large",
        "L3 cache, 16 to 32 MB: 25 to 27 ns",
        (25, 27),
        "ns",
        16 * MIB,
        by_construction=False,
    ),
    _claim("memory", "memory, 384 to 512 MB: 89 to 91 ns", (89, 91), "ns", 64 * MIB),
    _claim(
        "memory-large-pages",
        "idle latency, huge pages: 80.8 ns",
        (80.8, 80.8),
        "ns",
        64 * MIB,
        source=LATENCY_CHECKER,
        page=LARGE,
    ),
)
