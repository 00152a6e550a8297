"""The two stores on CARGO's server (Section 5, Table 5)."""

import dataclasses
from typing import Any

from nanoplane.description import Description
from nanoplane.figures import Results, Row
from nanoplane.sweep import Run

STORES = {"object-cache": "memcached", "transactional-store": "Silo"}
"""The programs, and the paper's programs that they model (docs/stores.md)."""
CACHE, DATABASE = STORES
CORES = 4
"""4C/16T, the paper's system of Sections 3 and 4."""
QUEUES = 16
_TRAFFIC: dict[str, dict[str, Any]] = {
    CACHE: {
        "packet_bytes": 5000,
        "operations": {
            "keys": 700_000,
            "sizes": "facebook-etc",
            "gets": 0.8,
            "popularity": "zipf",
        },
    },
    DATABASE: {"packet_bytes": 64, "operations": {"warehouses": 4}},
}
"""As in examples/object-cache.toml and transactional-store.toml: 64 times the last-level cache."""
SATURATION_MRPS = 20.0
"""Above the peak of 16 threads."""
REQUESTS = {CACHE: 40_000, DATABASE: 8000}
QUICK = 10
"""`--quick` divides the number of requests by this."""
EPOCH_MISSES, QUICK_EPOCH_MISSES = 4096, 1024
"""The paper has 4K. A quick run has fewer misses, and would have one or two such epochs."""
EXPRESS_GBIT_PER_S = 115.76
"""The bandwidth of the preset `cargo-table5`'s PCI Express in each direction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    store: str
    rate_mrps: float | None = None
    """None: all that the cores can take."""

    @property
    def name(self) -> str:
        """Its name in progress messages and errors."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        return f"{self.store}, {CORES} cores, {load}"

    def run(self, quick: bool) -> Run:
        """Return its run; critical regions are identified in all of them."""
        load: dict[str, Any] = {"rate_mrps": self.rate_mrps}
        if self.rate_mrps is None:
            load = {"load": "saturate", "saturation_rate_mrps": SATURATION_MRPS}
        epoch = QUICK_EPOCH_MISSES if quick else EPOCH_MISSES
        description = Description.from_dict(
            {
                "server": {
                    "preset": "cargo-table5",
                    "critical_region": {"epoch_misses": epoch},
                },
                "data_plane": {
                    "program": self.store,
                    "notify": "hyperplane",
                    "organisation": "scale-up",
                    "in_order": False,
                    "queues": QUEUES,
                },
                "traffic": {"shape": "fully-balanced", **_TRAFFIC[self.store], **load},
                "measure": {
                    "requests": REQUESTS[self.store] // (QUICK if quick else 1),
                    "seed": 1,
                },
            },
            source=self.name,
        )
        return Run(description)


BASELINES = {CACHE: Case(CACHE), DATABASE: Case(DATABASE, 0.2)}
"""The runs that several figures share. A saturated database would fill its rings with transactions
for longer than the measurement; its offered load is that of examples/transactional-store.toml."""


def points(quick: bool) -> dict[Case, Run]:
    """Return the runs of both stores, which several figures share."""
    return {case: case.run(quick) for case in BASELINES.values()}


def row(
    results: Results,
    point: Any,
    series: str,
    x: float,
    x_unit: str,
    y: float,
    y_unit: str,
    statistic: str,
) -> Row:
    """Return a row of a point's measurements."""
    return Row.measured(
        point,
        results[point],
        series=series,
        x=x,
        x_unit=x_unit,
        y=y,
        y_unit=y_unit,
        statistic=statistic,
    )
