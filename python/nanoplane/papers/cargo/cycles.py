"""Section 3.3, where the cycles of the baseline go: Figure 5."""

from nanoplane.claims import Claim, above
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo.cases import BASELINES, CACHE, STORES, points
from nanoplane.papers.cargo.model import IDLE_PARTS, MEMORY_PARTS


def parts(results: Results, store: str) -> dict[str, float]:
    """Return the cycles of each part of the stack, over all cores, without idle ones."""
    cores = results[BASELINES[store]].result["cores"]
    names = [name for name in cores[0]["stack"] if name not in IDLE_PARTS]
    return {name: float(sum(core["stack"][name] for core in cores)) for name in names}


def memory_percent(results: Results, store: str) -> float:
    """Return the part of the cycles that the memory system has."""
    cycles = parts(results, store)
    return 100 * sum(cycles[name] for name in MEMORY_PARTS) / sum(cycles.values())


def _rows(results: Results) -> list[Row]:
    rows = []
    for case in BASELINES.values():
        if case not in results:
            continue
        outcome = results[case]
        instructions = sum(core["instructions"] for core in outcome.result["cores"])
        for number, (name, cycles) in enumerate(parts(results, case.store).items()):
            rows.append(
                Row.measured(
                    case,
                    outcome,
                    series=name,
                    x=number,
                    x_unit="part",
                    y=cycles / instructions,
                    y_unit="cycles an instruction",
                    statistic="cycles an instruction",
                )
            )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda _: "four cores with four threads each",
        group=lambda row: row.series,
        y=plots.linear("cycles an instruction"),
        colour=plots.Series.label("store", "store", STORES, plots.COLOURS),
    )


FIGURES = (
    Figure(
        name="cargo.5",
        title="Cycles an instruction, by what they were spent on",
        caption=(
            "Both stores on four cores with four threads each (CPU:1 in the paper). "
            "Cycles in which a thread halts or another one dispatches are left out. CPU:2, with a "
            "perfect first-level cache, is not run yet."
        ),
        points=points,
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
        "as part of those that are not idle",
        above(65, "unexplained"),
        lambda r: memory_percent(r, CACHE),
    ),
)
