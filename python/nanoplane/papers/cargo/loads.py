"""Section 4, accesses and lines of the loads of the look-up: Figure 7."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from nanoplane.claims import Claim, above, exactly, within
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo.cases import BASELINES, CACHE, CORES, row
from nanoplane.sweep import Run

FUNCTION = "memcache_find"
"""The look-up, as memcached's assoc_find() of Table 4 is."""
REQUESTS, QUICK_REQUESTS = 40_000, 4000
LONGER = 4
"""How many times as many requests the second run has."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadCase:
    """The cache on four cores, all of its look-ups' loads counted."""

    times: int = 1
    """Its requests, as a multiple."""

    @property
    def name(self) -> str:
        """What progress and errors call it."""
        return f"{CACHE}, {CORES} cores, saturated, loads counted, {self.times} times the requests"

    def run(self, quick: bool) -> Run:
        """Return its run: that of Figure 5, with the instrument in place of critical regions."""
        data: dict[str, Any] = BASELINES[CACHE].run(quick).description.data
        server = {name: of for name, of in data["server"].items() if name != "critical_region"}
        server["load_sites"] = {"functions": [FUNCTION]}
        requests = (QUICK_REQUESTS if quick else REQUESTS) * self.times
        measure = {**data["measure"], "requests": requests}
        return Run(
            Description.from_dict({**data, "server": server, "measure": measure}, source=self.name)
        )


USUAL, LONG = LoadCase(), LoadCase(LONGER)
SERIES = {USUAL: "look-ups", LONG: f"{LONGER} times as many"}
ACCESSES, LINES = "accesses", "distinct lines"
_COUNTS = {ACCESSES: "accesses", LINES: "lines"}


def _points(quick: bool) -> dict[LoadCase, Run]:
    return {case: case.run(quick) for case in SERIES}


def sites(results: Results, case: LoadCase) -> list[dict[str, Any]]:
    """Return what is counted of each load of the look-up, in the order of the program.

    Those of saved registers are left out: Table 4 has none.
    """
    listed = results[case].result["load_sites"]["sites"]
    return [site for site in listed if not site["text"].endswith("(sp)")]


def _rows(results: Results) -> list[Row]:
    rows = []
    for case, series in SERIES.items():
        if case not in results:
            continue
        for number, site in enumerate(sites(results, case), 1):
            for statistic, key in _COUNTS.items():
                name = f"{statistic}, {number}: {site['text']}"
                rows.append(row(results, case, series, number, "load", site[key], "times", name))
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        [row for row in rows if row.series == SERIES[USUAL]],
        lambda row: row.statistic.split(",")[0],
        group=lambda row: row.statistic.split(": ", 1)[1],
        y=plots.linear("times, or lines"),
        colour=plots.Series("", lambda row: row.series, tuple(SERIES.values()), plots.COLOURS),
    )


FIGURES = (
    Figure(
        name="cargo.7",
        title="Loads of the look-up: accesses, and distinct lines",
        caption=(
            f"`{CACHE}` on four cores with four threads each, saturated: each load of the function "
            f"`{FUNCTION}()`, which is that of Table 4, in the order of the program. Left, how "
            "often it is executed; right, how many different lines it accesses. Loads of saved "
            "registers are left out. Both grow with the number of look-ups: a second run has "
            f"{LONGER} times as many requests, and the claims are about that one. The paper has a "
            "billion instructions a core."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)


# What the paper claims.

_ACCESSES = (
    "each PC sources 376K accesses, with a maximum of 564K (PC 8) and a minimum of 224K (PC 5)"
)
_LINES = "Blocks count ranges from a maximum of 106K (PC 8) to a minimum of a single block (PC 1"
MEAN, MOST, LEAST, MOST_LINES = 376.0, 564.0, 224.0, 106.0
"""The paper's, in thousands."""


def _counts(results: Results, key: str) -> list[float]:
    """Return the counts of the longer run."""
    return [float(site[key]) for site in sites(results, LONG)]


def of_mean(results: Results, extreme: Callable[[list[float]], float]) -> float:
    """Return the accesses of the load with the most, or the fewest, as a multiple of the mean."""
    accesses = _counts(results, "accesses")
    return extreme(accesses) * len(accesses) / sum(accesses)


def variation(results: Results) -> float:
    """Return how many times more the lines of loads vary than their accesses: most by fewest."""
    accesses, lines = (_counts(results, key) for key in _COUNTS.values())
    return (max(lines) / min(lines)) / (max(accesses) / min(accesses))


def lines_percent(results: Results) -> float:
    """Return the lines of the load with the most, as part of its accesses."""
    most = max(sites(results, LONG), key=lambda site: int(site["lines"]))
    return 100 * float(most["lines"]) / float(most["accesses"])


def _claim(name: str, quote: str, unit: str, how: str, rule: Any, value: Any, paper: Any) -> Claim:
    return Claim(
        f"cargo.7.{name}",
        "Section 4",
        quote,
        unit,
        how,
        rule,
        value,
        figure="cargo.7",
        paper_value=paper,
    )


_CHAINS = (
    "how often a look-up goes along a chain depends on the length of the run: a put places its "
    "item in front, so that popular ones come there; with --quick it is 0.81 times in 6 thousand "
    "look-ups, and 0.71 times in 18 thousand"
)
_LENGTH = (
    "new lines become fewer with the length of the run: with --quick they are 68 % of the accesses "
    "of 6 thousand look-ups, and 61 % of 18 thousand; the paper's run has some 364 thousand"
)

CLAIMS = (
    _claim(
        "most",
        _ACCESSES,
        "times",
        "accesses of the load with the most, as a multiple of the mean over loads",
        within(MOST / MEAN, 0.2, below=_CHAINS, above=_CHAINS),
        functools.partial(of_mean, extreme=max),
        round(MOST / MEAN, 2),
    ),
    _claim(
        "least",
        _ACCESSES,
        "times",
        "accesses of the load with the fewest, as a multiple of the mean over loads",
        within(LEAST / MEAN, 0.2, below=_CHAINS, above=_CHAINS),
        functools.partial(of_mean, extreme=min),
        round(LEAST / MEAN, 2),
    ),
    _claim(
        "lines-most",
        _LINES,
        "%",
        "lines of the load that accesses the most, as part of its accesses",
        within(100 * MOST_LINES / MOST, 0.2, below=_LENGTH, above=_LENGTH),
        lines_percent,
        round(100 * MOST_LINES / MOST, 1),
    ),
    _claim(
        "lines-least",
        _LINES,
        "lines",
        "lines of the load that accesses the fewest",
        exactly(1, ""),
        lambda r: min(_counts(r, "lines")),
        1,
    ),
    _claim(
        "variation",
        "variation in block count is much larger than that of access count",
        "times",
        "lines of the load with the most by those of that with the fewest, as a multiple of the "
        "same quotient of accesses",
        above(10, ""),
        variation,
        "",
    ),
)
