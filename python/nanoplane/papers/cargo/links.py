"""The cost or gain of regions behind faster links than the paper's; not in the paper."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from nanoplane.claims import Claim
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.intervals import estimate
from nanoplane.papers import plots
from nanoplane.papers.cargo import offload
from nanoplane.papers.cargo.cases import CACHE, EXPRESS_GBIT_PER_S
from nanoplane.papers.cargo.offload import BASELINE, CARGO, LARGE_NIC, REGIONS, SYSTEMS
from nanoplane.sweep import Run

PAPER, TAGS, FIFTH = "PCIe 3.0", "PCIe 3.0 with 256 tags", "PCIe 5.0"
CXL, ON_CHIP = "CXL-like with 70 ns", "on the chip"
_FIFTH_GBIT_PER_S = 4 * EXPRESS_GBIT_PER_S
"""32 GT/s instead of 8, with the same encoding."""
LINKS: Mapping[str, Mapping[str, Any]] = {
    PAPER: {},
    TAGS: {"reads": 256},
    FIFTH: {"rate_gbit_per_s": _FIFTH_GBIT_PER_S},
    CXL: {"rate_gbit_per_s": _FIFTH_GBIT_PER_S, "latency_ns": 70.0},
    ON_CHIP: {
        "rate_gbit_per_s": 10_000.0,
        "latency_ns": 0.0,
        "energy": {"byte_pj": 0.0, "static_mw_per_gb_per_s": 0.0},
    },
}
"""The changes to the preset's link of 16 lanes with 32 tags and 250 ns one way. PCIe 5.0 keeps the
latency, so that it shows the effect of bandwidth alone. The 70 ns were chosen. The last entry has
no link."""
LOADS_MRPS, QUICK_LOADS_MRPS = (2.0, 4.0, 5.0, 6.0), (2.0, 5.0)
REQUESTS, QUICK_REQUESTS = 8000, 800


@dataclasses.dataclass(frozen=True, slots=True)
class LinkCase:
    """The cache on one core, behind an interface of 24 cores at 2 GHz and a link, under a load."""

    system: str
    link: str
    per_core_mrps: float

    def run(self, quick: bool) -> Run:
        """Return its run."""
        like = offload.Case(CACHE, self.system, 1, f"{self.per_core_mrps:g}", LARGE_NIC).run(quick)
        data: dict[str, Any] = like.description.data
        (entry,) = data["rack"]["servers"]
        interface = {**entry["server"]["dma_nic"], "express": dict(LINKS[self.link])}
        server = {**entry, "server": {**entry["server"], "dma_nic": interface}}
        requests = QUICK_REQUESTS if quick else REQUESTS
        return Run(
            Description.from_dict(
                {
                    **data,
                    "rack": {**data["rack"], "servers": [server]},
                    "measure": {**data["measure"], "requests": requests},
                },
                source=f"{CACHE}, {SYSTEMS[self.system]}, {self.link}, {self.per_core_mrps:g} Mrps",
            )
        )


def _points(quick: bool) -> dict[Any, Run]:
    loads = QUICK_LOADS_MRPS if quick else LOADS_MRPS
    cases = itertools.starmap(LinkCase, itertools.product(REGIONS, LINKS, loads))
    return {case: case.run(quick) for case in cases}


GAIN, MEAN, P99, MISSES = "gain", "mean latency", "p99 latency", "misses of the L1"
_LATENCIES = {MEAN: "mean", P99: "p99"}


def gain(results: Results, link: str, mrps: float) -> float:
    """Return the mean latency without regions as a multiple of that with them."""
    with_regions, without = (
        offload.latency_ns(results[LinkCase(system, link, mrps)].result, "mean")
        for system in (CARGO, BASELINE)
    )
    return without / with_regions


def _rows(results: Results) -> list[Row]:
    rows = []
    for case in (one for one in results if isinstance(one, LinkCase)):
        outcome = results[case]
        latency = outcome.result["measurement"]["latency_ns"]

        def row(
            statistic: str, unit: str, y: float, ci95: Any = None, *, case: LinkCase = case
        ) -> Row:
            return Row.measured(
                case,
                results[case],
                series=f"{case.link}, {SYSTEMS[case.system]}",
                x=case.per_core_mrps,
                x_unit="Mrps offered",
                y=y,
                y_unit=unit,
                statistic=statistic,
                ci95=ci95,
            )

        for statistic, name in _LATENCIES.items():
            rows.append(row(statistic, "ns", latency[name], latency.get(f"{name}_ci95")))
        rows.append(row(MISSES, "a request", offload.misses_a_request(outcome.result)))
        if case.system != CARGO or dataclasses.replace(case, system=BASELINE) not in results:
            continue
        of = functools.partial(gain, link=case.link, mrps=case.per_core_mrps)
        measured, _ = estimate(results, of)
        rows.append(row(GAIN, "times", measured.value, measured.ci95))
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    loads = plots.linear("Mrps offered to one core")
    links = plots.Series.label("link", "link", {name: name for name in LINKS}, plots.COLOURS)
    systems = plots.Series.label("system", "system", SYSTEMS, plots.DASHES)
    return plots.beside(
        *(
            plots.panels(
                [row for row in rows if row.statistic == statistic],
                lambda row: row.statistic,
                x=loads,
                y=y,
                colour=links,
                dash=systems,
            )
            for statistic, y in (
                (MEAN, plots.logarithmic("ns")),
                (P99, plots.logarithmic("ns")),
                (GAIN, plots.linear("mean latency without regions, by that with them")),
            )
        ),
        shared=True,
    )


def _answer(rows: list[Row]) -> str:
    """Say at which loads regions gain or cost with certainty."""
    said = []
    for link in LINKS:
        of = sorted(
            (row for row in rows if row.statistic == GAIN and row.labels["link"] == link),
            key=lambda row: row.x,
        )
        if not of:
            continue
        gains = [f"{row.x:g}" for row in of if row.ci95 is not None and row.ci95[0] > 1]
        costs = [f"{row.x:g}" for row in of if row.ci95 is not None and row.ci95[1] < 1]
        parts = [
            f"{what} at {', '.join(loads)} Mrps"
            for what, loads in (("they gain", gains), ("they cost", costs))
            if loads
        ]
        said.append(f"{link}: {'; '.join(parts) or 'no load decides'}")
    return f"Whether regions shorten the mean latency. {'. '.join(said)}." if said else ""


FIGURES = (
    Figure(
        name="cargo.links",
        title="Cost or gain of regions behind faster links",
        caption=(
            "The cache on one core with four spinning threads, behind an interface of 24 cores at "
            "2 GHz, with and without critical regions. A gain counts if the interval of the "
            "quotient of the mean latencies is above 1; both have the same link. PCIe 5.0 has four "
            "times the bandwidth of 3.0, and the same latency. Not in the paper."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        answer=_answer,
    ),
)

CLAIMS: tuple[Claim, ...] = ()
