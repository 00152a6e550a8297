"""Section 3.3: the cycle stacks of both stores, with and without misses (Figure 5)."""

from nanoplane.claims import Claim, above, between
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo import model
from nanoplane.papers.cargo.cases import BASELINES, CACHE, DATABASE, Case, row
from nanoplane.papers.cargo.model import MEMORY_PARTS
from nanoplane.papers.cargo.platforms import PERFECT, PerfectCase
from nanoplane.sweep import Run

SERIES: dict[Case | PerfectCase, str] = {
    BASELINES[CACHE]: f"{CACHE}, CPU:1",
    PERFECT[CACHE]: f"{CACHE}, CPU:2",
    BASELINES[DATABASE]: f"{DATABASE}, CPU:1",
    PERFECT[DATABASE]: f"{DATABASE}, CPU:2",
}


def parts(results: Results, case: Case | PerfectCase) -> dict[str, float]:
    """Return the cycles of each part of the stack, over all cores, without idle ones."""
    return model.parts(results[case].result["cores"])


def memory_percent(results: Results, case: Case | PerfectCase) -> float:
    """Return the percentage of cycles that are spent in the memory system."""
    cycles = parts(results, case)
    return 100 * sum(cycles[name] for name in MEMORY_PARTS) / sum(cycles.values())


def _points(quick: bool) -> dict[Case | PerfectCase, Run]:
    return {case: case.run(quick) for case in SERIES}


def _rows(results: Results) -> list[Row]:
    rows = []
    for case, series in SERIES.items():
        if case not in results:
            continue
        instructions = sum(core["instructions"] for core in results[case].result["cores"])
        for number, (name, cycles) in enumerate(parts(results, case).items()):
            of_instruction = cycles / instructions
            rows.append(
                row(
                    results,
                    case,
                    name,
                    number,
                    "part",
                    of_instruction,
                    "cycles an instruction",
                    series,
                )
            )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda _: "four cores with four threads each",
        group=lambda row: row.series,
        y=plots.linear("cycles an instruction"),
        colour=plots.Series(
            "store", lambda row: row.statistic, tuple(SERIES.values()), plots.COLOURS
        ),
    )


FIGURES = (
    Figure(
        name="cargo.5",
        title="Cycles per instruction, by cause",
        caption=(
            "Both stores on four cores with four threads each: CPU:1, and CPU:2 with a first level "
            "in which every access hits (`server.fabric.perfect_cache`). Cycles in which a thread "
            "halts or another one dispatches are left out. The paper only shows memcached."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)

CLAIMS = (
    Claim(
        "cargo.5.memory",
        "Section 3.3",
        "for CPU:1, more than 65% for the cycles are spent in the memory-system alone",
        "%",
        f"{CACHE}: cycles of waiting for lines, for the store buffer, and for atomics and fences, "
        "as a percentage of those that are not idle",
        above(65, "unexplained"),
        lambda r: memory_percent(r, BASELINES[CACHE]),
    ),
    Claim(
        "cargo.5.perfect",
        "Section 3.3",
        "if all access from the core can be served by the DL1 cache (CPU:2), memory access "
        "overhead drops to 40%",
        "%",
        f"{CACHE}: the same parts of the cycles with a perfect first level",
        between(
            32,
            48,
            "unexplained: Sniper's stacks have a part for first-level hits, which here are "
            "execution, so that only the store buffer, atomics and fences are left; the paper does "
            "not give the size of that part",
        ),
        lambda r: memory_percent(r, PERFECT[CACHE]),
        paper_value=40,
    ),
)
