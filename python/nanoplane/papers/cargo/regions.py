"""Section 6.1: the identified critical regions (Figures 11 and 12)."""

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from nanoplane.claims import Claim, between, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo.cases import CACHE, DATABASE, STORES, row
from nanoplane.papers.cargo.offload import CARGO, WAITING, Case, points, with_regions

KINDS = {
    "alu": "ALU",
    "independent_loads": "independent loads",
    "dependent_loads": "dependent loads",
    "other": "other",
}
"""The kinds of Figure 12."""
SIZE, EXECUTIONS = "instructions", "executions"
COVERED = {
    "coverage": "with the registers that are known",
    "ready_coverage": "if all registers were known",
}


def found(results: Results, store: str) -> dict[str, Any]:
    """Return the statistics of the identification."""
    (server,) = results[with_regions(results, store)].result["servers"]
    identified: dict[str, Any] = server["critical_region"]
    return identified


def _shown(results: Results) -> Iterator[Case]:
    """Yield the measured points of both stores."""
    for store in STORES:
        try:
            yield with_regions(results, store)
        except KeyError:
            continue


def _region_rows(results: Results) -> list[Row]:
    rows = []
    for case in _shown(results):
        identified = found(results, case.store)
        for what, unit in ((EXECUTIONS, "times"), (SIZE, "instructions")):
            for number, count in enumerate(identified[f"region_{what}"], 1):
                series = STORES[case.store]
                rows.append(row(results, case, series, number, "regions", count, unit, what))
    return rows


def _region_chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda row: f"{row.statistic} of each region",
        x=plots.linear("regions, the one that is executed most often first"),
        y=plots.linear("instructions, or executions"),
        colour=plots.Series.label("store", "store", STORES, plots.COLOURS),
        shared_y=False,
    )


def _kind_rows(results: Results) -> list[Row]:
    rows = []
    for case in _shown(results):
        identified = found(results, case.store)
        for number, (key, name) in enumerate((KINDS | COVERED).items()):
            if (part := identified[key]) is not None:
                what = "part of the instructions" if key in KINDS else "part of the misses"
                rows.append(row(results, case, name, number, "kind", 100 * part, "%", what))
    return rows


def _kind_chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda row: row.statistic,
        group=lambda row: row.series,
        y=plots.linear("%"),
        colour=plots.Series.label("store", "store", STORES, plots.COLOURS),
    )


FIGURES = (
    Figure(
        name="cargo.11",
        title="Critical regions: how often they are executed, and their sizes",
        caption=(
            "The runs of Figure 14, on the most cores. Regions that fetch nothing are excluded, "
            "and regions with the same instructions count once. Executions are those of a region's "
            "first instruction by the cores while the interface had the region; the paper's are "
            "those by the network interface."
        ),
        points=functools.partial(points, WAITING, (CARGO,)),
        rows=_region_rows,
        chart=_region_chart,
    ),
    Figure(
        name="cargo.12",
        title="Instructions of critical regions by kind, and their share of misses",
        caption=(
            "The runs of Figure 11. On the right, not in the paper: loads that miss the "
            "second-level cache and are in a region of the interface, with the known registers, "
            "and if all registers were known."
        ),
        points=functools.partial(points, WAITING, (CARGO,)),
        rows=_kind_rows,
        chart=_kind_chart,
    ),
)


# What the paper claims.

_PROCEDURES = (
    "unexplained: regions are those of the procedures that miss here. The cache's look-up has 13 "
    "instructions, the mean of the paper's regions; copying has more, with more arithmetic"
)
_EPOCHS = (
    "the number of epochs, most of which end without a region that fetches anything: 4000 requests "
    "of the cache have 1, 2 and 6 distinct regions in 19, 78 and 318 epochs (of 2048, 512 and 128 "
    "misses). How many epochs the paper's runs have is not said"
)


def half(identified: Mapping[str, Any]) -> tuple[int, float]:
    """Return the smallest number of regions with half of all executions, and their mean size."""
    executions = identified["region_executions"]
    sums = itertools.accumulate(executions)
    count = 1 + sum(so_far < sum(executions) / 2 for so_far in sums)
    sizes = identified["region_instructions"][:count]
    return count, sum(sizes) / max(1, len(sizes))


def _loads_percent(results: Results, store: str) -> float:
    identified = found(results, store)
    return 100 * sum(float(identified[f"{one}_loads"] or 0) for one in ("independent", "dependent"))


def _of_store(
    store: str, distinct: int, percent: float, size: float, alu: float
) -> tuple[Claim, ...]:
    name = STORES[store].lower()
    return (
        Claim(
            f"cargo.11.regions-{name}",
            "Section 6.1",
            "our algorithm identifies 111 and 76 distinct regions for memcached and Silo",
            "regions",
            f"{store}: regions with different instructions",
            within(distinct, 0.2, below=_EPOCHS, above=_PROCEDURES),
            lambda r: float(found(r, store)["regions"]),
            figure="cargo.11",
            paper_value=distinct,
        ),
        Claim(
            f"cargo.11.instructions-{name}",
            "Section 6.1",
            "On average, for both, memcached and Silo a region has 13 instructions",
            "instructions",
            f"{store}: mean over distinct regions",
            within(13, 0.2, below=_PROCEDURES, above=_PROCEDURES),
            lambda r: float(found(r, store)["instructions_per_region"] or 0),
            figure="cargo.11",
            paper_value=13,
        ),
        Claim(
            f"cargo.11.frequent-{name}",
            "Section 6.1",
            "only 2% and 9% regions get executed more than 50% of the time for memcached and Silo",
            "%",
            f"{store}: the most executed regions with half of all executions, as a percentage of "
            "all regions",
            within(percent, 0.2, below=_PROCEDURES, above=_PROCEDURES),
            lambda r: 100 * half(found(r, store))[0] / max(1, found(r, store)["regions"]),
            figure="cargo.11",
            paper_value=percent,
        ),
        Claim(
            f"cargo.11.frequent-instructions-{name}",
            "Section 6.1",
            "frequently executed (top 50%) regions execute only 8 and 6 instructions on average "
            "for memcached and Silo",
            "instructions",
            f"{store}: mean size of the most executed regions with half of all executions",
            within(size, 0.2, below=_PROCEDURES, above=_PROCEDURES),
            lambda r: half(found(r, store))[1],
            figure="cargo.11",
            paper_value=size,
        ),
        Claim(
            f"cargo.12.loads-{name}",
            "Section 6.1",
            "combined contribution of I-LD and D-LD instructions is 70%",
            "%",
            f"{store}: loads, as a percentage of the instructions of distinct regions",
            between(60, 80, _PROCEDURES),
            lambda r: _loads_percent(r, store),
            figure="cargo.12",
            paper_value=70,
        ),
        Claim(
            f"cargo.12.alu-{name}",
            "Section 6.1",
            "ALU instructions make 21% of the region in memcached, whereas, for Silo only 4%",
            "%",
            f"{store}: arithmetic, as a percentage of the instructions of distinct regions",
            within(alu, 0.3, below=_PROCEDURES, above=_PROCEDURES),
            lambda r: 100 * float(found(r, store)["alu"] or 0),
            figure="cargo.12",
            paper_value=alu,
        ),
    )


CLAIMS = (
    *_of_store(CACHE, 111, 2, 8, 21),
    *_of_store(DATABASE, 76, 9, 6, 4),
    Claim(
        "cargo.11.storage",
        "Section 6.4",
        "storage overhead of our proposal is slightly above 7 KB",
        "KB",
        "bytes of the structures beside a core with four threads, computed from the fields that "
        "docs/critical-region.md lists, in KB of 1024 bytes",
        between(
            6.5,
            8.0,
            "each of the four threads has a register-to-PC map, a return stack and a checkpoint, "
            "of twice the registers of x86-64; with one thread it is 7.7 KB",
        ),
        lambda r: found(r, CACHE)["storage_bytes"] / 1024,
        paper_value=7.0,
    ),
)
