"""Section 6.1, the critical regions that are identified: Figures 11 and 12."""

import itertools
from collections.abc import Mapping
from typing import Any

from nanoplane.claims import Claim, between, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo.cases import BASELINES, CACHE, DATABASE, STORES, Case, points

KINDS = {
    "alu": "ALU",
    "independent_loads": "independent loads",
    "dependent_loads": "dependent loads",
    "other": "other",
}
"""Of Figure 12."""
SIZE, EXECUTIONS = "instructions", "executions"
COVERED = {
    "coverage": "with the registers that are known",
    "ready_coverage": "if all registers were known",
}


def found(results: Results, store: str) -> dict[str, Any]:
    """Return what was identified."""
    identified: dict[str, Any] = results[BASELINES[store]].result["critical_region"]
    return identified


def _row(
    results: Results, case: Case, series: str, x: float, y: float, unit: str, what: str
) -> Row:
    outcome = results[case]
    return Row.measured(
        case,
        outcome,
        series=series,
        x=x,
        x_unit="regions" if what in (SIZE, EXECUTIONS) else "kind",
        y=y,
        y_unit=unit,
        statistic=what,
    )


def _region_rows(results: Results) -> list[Row]:
    rows = []
    for case in BASELINES.values():
        if case not in results:
            continue
        identified = found(results, case.store)
        for what, unit in ((EXECUTIONS, "times"), (SIZE, "instructions")):
            for number, count in enumerate(identified[f"region_{what}"], 1):
                rows.append(_row(results, case, STORES[case.store], number, count, unit, what))
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
    for case in BASELINES.values():
        if case not in results:
            continue
        identified = found(results, case.store)
        for number, (key, name) in enumerate((KINDS | COVERED).items()):
            if (part := identified[key]) is not None:
                what = "part of the instructions" if key in KINDS else "part of the misses"
                rows.append(_row(results, case, name, number, 100 * part, "%", what))
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
            "Both stores on four cores with four threads each; the cache is saturated, and the "
            "database has 0.2 million transactions a second. A region is what an epoch ends with; "
            "regions with the same instructions are one. Executions are passes of the cores "
            "through its first instruction while it was the last region; the paper's are those of "
            "the network interface."
        ),
        points=points,
        rows=_region_rows,
        chart=_region_chart,
    ),
    Figure(
        name="cargo.12",
        title="Instructions of critical regions by kind, and the misses that they have",
        caption=(
            "The runs of Figure 11. Right, which the paper does not show: loads that miss the "
            "second-level cache and are in the last region, with the registers that are known and "
            "if all were. No user routine runs, so that no register has its value from one."
        ),
        points=points,
        rows=_kind_rows,
        chart=_kind_chart,
    ),
)


# What the paper claims.

_ALL_PROCEDURES = (
    "unexplained: here a region has what misses in all procedures of the data plane, and no two "
    "epochs end with the same one; how the paper's come to 13 instructions is not said"
)


def half(identified: Mapping[str, Any]) -> tuple[int, float]:
    """Return how many regions have half of all executions, and their mean size."""
    executions = identified["region_executions"]
    sums = itertools.accumulate(executions)
    count = 1 + sum(so_far < sum(executions) / 2 for so_far in sums)
    sizes = identified["region_instructions"][:count]
    return count, sum(sizes) / len(sizes)


def _loads_percent(results: Results, store: str) -> float:
    identified = found(results, store)
    return 100 * float(identified["independent_loads"] + identified["dependent_loads"])


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
            within(
                distinct, 0.2, below="the run has fewer epochs than that", above=_ALL_PROCEDURES
            ),
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
            within(13, 0.2, below=_ALL_PROCEDURES, above=_ALL_PROCEDURES),
            lambda r: float(found(r, store)["instructions_per_region"]),
            figure="cargo.11",
            paper_value=13,
        ),
        Claim(
            f"cargo.11.frequent-{name}",
            "Section 6.1",
            "only 2% and 9% regions get executed more than 50% of the time for memcached and Silo",
            "%",
            f"{store}: the regions that are executed most often and have half of all executions, "
            "as part of all regions",
            within(percent, 0.2, below=_ALL_PROCEDURES, above=_ALL_PROCEDURES),
            lambda r: 100 * half(found(r, store))[0] / found(r, store)["regions"],
            figure="cargo.11",
            paper_value=percent,
        ),
        Claim(
            f"cargo.11.frequent-instructions-{name}",
            "Section 6.1",
            "frequently executed (top 50%) regions execute only 8 and 6 instructions on average "
            "for memcached and Silo",
            "instructions",
            f"{store}: mean size of the regions that have half of all executions",
            within(size, 0.2, below=_ALL_PROCEDURES, above=_ALL_PROCEDURES),
            lambda r: half(found(r, store))[1],
            figure="cargo.11",
            paper_value=size,
        ),
        Claim(
            f"cargo.12.loads-{name}",
            "Section 6.1",
            "combined contribution of I-LD and D-LD instructions is 70%",
            "%",
            f"{store}: loads, as part of the instructions of distinct regions",
            between(60, 80, _ALL_PROCEDURES),
            lambda r: _loads_percent(r, store),
            figure="cargo.12",
            paper_value=70,
        ),
        Claim(
            f"cargo.12.alu-{name}",
            "Section 6.1",
            "ALU instructions make 21% of the region in memcached, whereas, for Silo only 4%",
            "%",
            f"{store}: arithmetic, as part of the instructions of distinct regions",
            within(alu, 0.3, below=_ALL_PROCEDURES, above=_ALL_PROCEDURES),
            lambda r: 100 * float(found(r, store)["alu"]),
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
        "bytes of the structures beside a core with four threads, computed from their fields, in "
        "KB of 1024 bytes",
        between(
            6.5,
            8.0,
            "each of the four threads has a register-to-PC map and a checkpoint, of twice the "
            "registers of x86-64; with one thread it is 6.8 KB",
        ),
        lambda r: found(r, CACHE)["storage_bytes"] / 1024,
        paper_value=7.0,
    ),
)
