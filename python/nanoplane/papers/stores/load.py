"""What the two stores do under load: latency, throughput, cycles, misses and DRAM bandwidth."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.sweep import Run

if TYPE_CHECKING:
    import altair

PRESET = "cargo-table5"
THREADS = 4
CORES, QUICK_CORES = (1, 2, 4, 8, 16), (1, 4)
LINE_BYTES = 64
CACHE, TRANSACTIONS = "object-cache", "transactional-store"
STORES = {CACHE: "memcached", TRANSACTIONS: "Silo, TPC-C"}
SPIN, QWAIT = "spin", "hyperplane"
NOTIFY = {SPIN: "spinning over its own queues", QWAIT: "QWAIT over all queues"}
KEYS_PER_CORE = 170_000
"""64 MB of items, with table and chunks: 64 times the megabyte of last-level cache of each core."""
WAREHOUSE_MIB = 119
LOADS_MRPS = {CACHE: (1.0, 2.0, 3.0, 4.0), TRANSACTIONS: (0.03, 0.06, 0.09, 0.12)}
"""For each core. One core with `QWAIT` keeps up with the largest, or nearly."""
QUICK_LOADS = 2
REQUESTS_PER_CORE = {CACHE: 2000, TRANSACTIONS: 500}
QUICK_REQUESTS_PER_CORE = {CACHE: 400, TRANSACTIONS: 150}
WARMUP_PER_CORE = {CACHE: 200, TRANSACTIONS: 50}


def machine(cores: int) -> dict[str, Any]:
    """Return the paper's server with so many cores: a tile each, a memory controller for four."""
    columns = 2 ** math.ceil(math.log2(cores) / 2)
    return {
        "preset": PRESET,
        "data_plane_cores": cores,
        "fabric": {
            "cores": cores,
            "mesh": {"columns": columns, "rows": cores // columns},
            "memory": {"controllers": max(1, cores // 4)},
        },
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A store on a number of cores, under a load."""

    store: str
    notify: str
    cores: int
    per_core_mrps: float

    def run(self, quick: bool) -> Run:
        """Return its run."""
        operations: dict[str, Any] = {"warehouses": math.ceil(64 * self.cores / WAREHOUSE_MIB)}
        if self.store == CACHE:
            operations = {
                "keys": KEYS_PER_CORE * self.cores,
                "sizes": "facebook-etc",
                "gets": 0.8,
                "popularity": "zipf",
            }
        shared = self.notify == QWAIT
        requests = (QUICK_REQUESTS_PER_CORE if quick else REQUESTS_PER_CORE)[self.store]
        return Run(
            Description.from_dict(
                {
                    "server": machine(self.cores),
                    "data_plane": {
                        "program": self.store,
                        "notify": self.notify,
                        "queues": self.cores * THREADS,
                        "organisation": "scale-up" if shared else "scale-out",
                        "in_order": not shared,
                    },
                    "traffic": {
                        "shape": "fully-balanced",
                        "rate_mrps": self.per_core_mrps * self.cores,
                        "packet_bytes": 5000 if self.store == CACHE else 64,
                        "operations": operations,
                    },
                    "measure": {
                        "requests": requests * self.cores,
                        "warmup": WARMUP_PER_CORE[self.store] * self.cores,
                    },
                },
                source=f"{STORES[self.store]}, {self.cores} cores, {NOTIFY[self.notify]}",
            )
        )


def _points(quick: bool) -> dict[Any, Run]:
    cases = (
        Case(store, notify, cores, load)
        for cores in (QUICK_CORES if quick else CORES)
        for store, loads in LOADS_MRPS.items()
        for load in (loads[:QUICK_LOADS] if quick else loads)
        for notify in NOTIFY
    )
    return {case: case.run(quick) for case in cases}


def _misses(result: Mapping[str, Any]) -> dict[str, float]:
    cores = result["cores"]
    return {
        "misses of the L1": sum(core["data_misses"] for core in cores),
        "misses of the L2": sum(core["l2_misses"] for core in cores),
        "misses of the last level": result["fabric"]["last_level_misses"],
    }


def statistics(result: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield what a run shows beside its latencies: what, its unit, and its value.

    Counts are of the whole run, the warm-up included, and divided by all requests of it.
    """
    requests = result["delivered"]
    yield "throughput", "Mrps", float(result["throughput_mrps"])
    for name, misses in _misses(result).items():
        yield name, "a request", misses / requests
    lines = result["fabric"]["memory_reads"] + result["fabric"]["memory_writes"]
    seconds = float(result["simulated_seconds"])
    yield "DRAM bandwidth", "GB/s", lines * LINE_BYTES / seconds / 1e9
    cycles = sum(core["cycles"] for core in result["cores"])
    parts = {name for core in result["cores"] for name in core["stack"]}
    for part in sorted(parts):
        held = sum(core["stack"].get(part, 0) for core in result["cores"])
        # Of a core with four threads the stacks of all are added.
        yield f"cycles: {part.replace('_', ' ')}", "of a thread's", held / (THREADS * cycles)


def _rows(results: Results) -> list[Row]:
    rows = []
    for case in (one for one in results if isinstance(one, Case)):
        result = results[case].result

        def row(
            statistic: str,
            unit: str,
            value: float,
            ci95: Any = None,
            *,
            case: Case = case,
            result: Mapping[str, Any] = result,
        ) -> Row:
            return Row.measured(
                case,
                results[case],
                series=f"{STORES[case.store]}, {case.cores}C/{case.cores * THREADS}T, "
                f"{NOTIFY[case.notify]}",
                x=case.per_core_mrps * case.cores,
                x_unit="Mrps offered",
                y=value,
                y_unit=unit,
                statistic=statistic,
                ci95=tuple(ci95) if ci95 else None,
            )

        latency = result["latency_ns"]
        rows.append(row("mean latency", "ns", latency["mean"], latency.get("mean_ci95")))
        rows.append(row("p99 latency", "ns", latency["p99"], latency.get("p99_ci95")))
        rows += [row(*one) for one in statistics(result)]
    return rows


def _chart(rows: list[Row]) -> "altair.TopLevelMixin":
    statistics = {"mean latency": "mean", "p99 latency": "p99"}
    shown = [row for row in rows if row.statistic in statistics]
    return plots.panels(
        shown,
        lambda row: f"{STORES[row.labels['store']]}, {row.labels['cores']} cores",
        x=plots.linear("Mrps offered"),
        y=plots.logarithmic("latency, ns"),
        colour=plots.Series.systems("harts learn of work by", "notify", NOTIFY),
        dash=plots.Series(
            "latency",
            lambda row: statistics[row.statistic],
            list(statistics.values()),
            plots.DASHES,
        ),
        columns=2,
        shared_y=False,
    )


FIGURES = (
    Figure(
        name="stores.load",
        title="Two stores of gigabytes under load",
        caption=(
            "A cache in the manner of memcached and TPC-C in the manner of Silo on CARGO's server, "
            "from one core with four hardware threads to 16. Data sets are at least 64 times the "
            "last-level cache. Rows also have throughput, misses by level, DRAM bandwidth, cycles."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
