"""The two stores under load: latency, throughput, cycles, misses and DRAM bandwidth."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.outcomes import measurement
from nanoplane.papers import plots
from nanoplane.sweep import Run

PRESET = "cargo-table5"
THREADS = 4
CORES = 1, 2, 4, 8, 16
LINE_BYTES = 64
CACHE, TRANSACTIONS = "object-cache", "transactional-store"
STORES = {CACHE: "memcached", TRANSACTIONS: "Silo, TPC-C"}
SPIN, QWAIT = "spin", "hyperplane"
NOTIFY = {SPIN: "spinning over rings of their own", QWAIT: "QWAIT over all rings"}
PROGRAMS = {SPIN: "rings", QWAIT: "qwait"}
"""The suffixes of the programs' names below guest/programs/stores."""
LINK_GBIT_PER_S = 10.0
"""The link rate for every four cores (Section 5)."""
FRAME_BYTES = {CACHE: 81 * 64, TRANSACTIONS: 1520}
"""The length of the longest frame. With the values of Facebook's pool ETC a request has up to 4896
bytes, plus headers. Ethernet without jumbo frames has 1520."""
HEADER_BYTES = 64
CLIENT_PORTS = 4096
"""Enough ports that receive-side scaling spreads requests nearly as evenly as a random choice."""
BEGIN_NS = 100_000.0
"""The program has initialised its rings before this time."""
KEYS_PER_CORE = 170_000
"""64 MB of items, with table and chunks: 64 times each core's megabyte of last-level cache."""
WAREHOUSE_MIB = 119
LOADS_MRPS = {CACHE: (0.2, 0.4, 0.6, 0.8), TRANSACTIONS: (0.03, 0.06, 0.09, 0.12)}
"""Loads for each core. At the cache's largest one, replies take 90 % of four cores' 10 Gb/s."""
QUICK_CORES = 1
"""For `--quick`, the only number of cores: two cores take as long as this one, half of it to fill
two warehouses for each program."""
QUICK_LOADS = (1, 3)
"""For `--quick`, which of the loads: the second and the last. Threads that spin take twice as long
at the first."""
REQUESTS_PER_CORE = {CACHE: 2000, TRANSACTIONS: 500}
QUICK_REQUESTS_PER_CORE = {CACHE: 400, TRANSACTIONS: 150}
WARMUP_PER_CORE = {CACHE: 200, TRANSACTIONS: 50}


def machine(cores: int) -> dict[str, Any]:
    """Return the paper's server with `cores` cores: a tile each, one memory controller for four."""
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
        """Return the run."""
        operations: dict[str, Any] = {"warehouses": math.ceil(64 * self.cores / WAREHOUSE_MIB)}
        if self.store == CACHE:
            operations = {
                "keys": KEYS_PER_CORE * self.cores,
                "sizes": "facebook-etc",
                "gets": 0.8,
                "popularity": "zipf",
            }
        requests = (QUICK_REQUESTS_PER_CORE if quick else REQUESTS_PER_CORE)[self.store]
        frame = FRAME_BYTES[self.store]
        interface = {"queues": self.cores * THREADS, "max_frame_bytes": frame}
        message = frame - HEADER_BYTES
        return Run(
            Description.from_dict(
                {
                    "rack": {
                        "link": {"rate_gbit_per_s": LINK_GBIT_PER_S * max(1, self.cores // 4)},
                        "servers": [
                            {
                                "program": f"stores/{self.store}-{PROGRAMS[self.notify]}",
                                "serves": True,
                                "interface": "dma-nic",
                                "systems": ["hyperplane"] if self.notify == QWAIT else [],
                                "server": {**machine(self.cores), "dma_nic": interface},
                            }
                        ],
                        "clients": [
                            {
                                "begin_ns": BEGIN_NS,
                                "load": {
                                    "ports": CLIENT_PORTS,
                                    "transport": {
                                        "protocol": "datagrams",
                                        "packet_bytes": message,
                                        "largest_message_bytes": message,
                                    },
                                    "offer": {
                                        "mode": "open",
                                        "rate_mrps": self.per_core_mrps * self.cores,
                                    },
                                    "operations": operations,
                                },
                            }
                        ],
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
        for cores in CORES
        if not quick or cores == QUICK_CORES
        for store, loads in LOADS_MRPS.items()
        # One program after the other, so that each run finds the prepared state of the previous
        # one.
        for notify in NOTIFY
        for number, load in enumerate(loads)
        if not quick or number in QUICK_LOADS
    )
    return {case: case.run(quick) for case in cases}


def _misses(server: Mapping[str, Any]) -> dict[str, float]:
    cores = server["cores"]
    return {
        "misses of the L1": sum(core["data_misses"] for core in cores),
        "misses of the L2": sum(core["l2_misses"] for core in cores),
        "misses of the last level": server["fabric"]["last_level_misses"],
    }


def statistics(result: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield a run's statistics beside its latencies: name, unit, and value.

    Counts are of the whole run, the warm-up included, divided by all its requests; the time begins
    with the first request.
    """
    (server,), (client,) = result["servers"], result["clients"]
    requests = client["statistics"]["responses"]
    yield "throughput", "Mrps", float(measurement(result)["throughput_mrps"])
    for name, misses in _misses(server).items():
        yield name, "a request", misses / requests
    lines = server["fabric"]["memory_reads"] + server["fabric"]["memory_writes"]
    seconds = float(server["energy_nj"]["seconds"])
    yield "DRAM bandwidth", "GB/s", lines * LINE_BYTES / seconds / 1e9
    cycles = sum(core["cycles"] for core in server["cores"])
    parts = {name for core in server["cores"] for name in core["stack"]}
    for part in sorted(parts):
        held = sum(core["stack"].get(part, 0) for core in server["cores"])
        # For a core with four threads, the stacks of all threads are added.
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

        latency = measurement(result)["latency_ns"]
        rows.append(row("mean latency", "ns", latency["mean"], latency.get("mean_ci95")))
        rows.append(row("p99 latency", "ns", latency["p99"], latency.get("p99_ci95")))
        rows += [row(*one) for one in statistics(result)]
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
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
            "behind its network interface, from one core with four hardware threads to 16. Data "
            "sets are at least 64 times the last-level cache. Rows also have throughput, misses by "
            "level, DRAM bandwidth, cycles."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
