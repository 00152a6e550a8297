"""Section 3.1, queuing: Figure 2 and Table 2, by the paper's analytical model and simulated.

The model is that of Guz et al., "Many-Core vs. Many-Thread Machines: Stay Away From the Valley",
IEEE Computer Architecture Letters 8(1), 2009.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanoplane.claims import Claim, above, between, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.cargo import platforms
from nanoplane.papers.cargo.cases import CACHE, CORES, Case, row
from nanoplane.sweep import Run

PACKETS = {rate: counts[0] for rate, counts in platforms.PACKETS.items()}
"""Outstanding packets at each line rate in Gb/s (Table 1, an application of 0.6 us)."""
ALPHA, BETA_KB = 1.5, 50.0
"""Locality of the workload (Section 3.1); beta has the unit of the cache's size."""
CACHE_KB = 1024.0 * CORES
"""The last level (Table 5: 1 MB a core), which all threads share."""
CLOCK_GHZ = 4.0
CACHE_CYCLES, MEMORY_CYCLES = 30.0, 180.0
"""Table 5's last level, and its 45 ns of DRAM: "180 cycles fixed latency" (Section 3.2)."""
RATES_MRPS = (1.0, 2.0, 4.0, 6.0, 8.0)
PACKET_BITS = 8 * platforms.TEXT_PACKET_BYTES
MEMORY_PARTS = ("l2", "last_level", "remote_cache", "memory", "store_buffer", "serial")
"""In a core's cycle stack: waiting for lines, for room in the store buffer, and for atomics and
fences. `serial` includes `QWAIT`, too."""
IDLE_PARTS = ("halted", "other_hart")


def parts(cores: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the sum of the cores' cycle stacks by part, without idle parts."""
    names = [name for name in cores[0]["stack"] if name not in IDLE_PARTS]
    return {name: float(sum(core["stack"][name] for core in cores)) for name in names}


SATURATED = Case(CACHE)


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """The model's parameters of a request."""

    instructions: float
    memory_part: float
    """Loads and stores as a fraction of the instructions: r_m."""
    cycles: float
    """Cycles per instruction without the time of memory accesses: CPI_exe."""


def measured(result: Any) -> Program:
    """Return the model's parameters from a saturated run, in which harts only process requests."""
    cores = result["cores"]
    instructions = sum(core["instructions"] for core in cores)
    accesses = sum(
        core[name]
        for core in cores
        for name in ("data_hits", "data_misses", "forwarded_loads", "stores")
    )
    without = sum(cycles for part, cycles in parts(cores).items() if part not in MEMORY_PARTS)
    return Program(
        instructions / result["delivered"],
        accesses / instructions,
        without / instructions,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Prediction:
    """The model's prediction for a number of outstanding packets."""

    throughput_mrps: float
    latency_us: float
    core_us: float

    @property
    def queue_percent(self) -> float:
        """The percentage of a packet's time in which it waits for a core."""
        return 100 * (1 - self.core_us / self.latency_us)


def predict(program: Program, packets: int) -> Prediction:
    """Evaluate the model: every packet is a thread.

    The hit rate is 1 - (S / beta + 1)^(1 - alpha), where S is a thread's share of the cache. The
    utilization of a core is that of its threads, at most 1. The rest is Little's law.
    """
    hit_rate = 1 - (CACHE_KB / packets / BETA_KB + 1) ** (1 - ALPHA)
    access_cycles = hit_rate * CACHE_CYCLES + (1 - hit_rate) * MEMORY_CYCLES
    stretched = 1 + access_cycles * program.memory_part / program.cycles
    busy = min(1.0, packets / (CORES * stretched))
    instructions_a_us = 1000 * CORES * CLOCK_GHZ / program.cycles * busy
    throughput = instructions_a_us / program.instructions
    core_us = program.instructions * program.cycles * stretched / CLOCK_GHZ / 1000
    return Prediction(throughput, packets / throughput, core_us)


def _points(quick: bool) -> dict[Case, Run]:
    cases = [SATURATED, *(Case(CACHE, rate) for rate in RATES_MRPS)]
    return {case: case.run(quick) for case in cases}


MODEL, SIMULATOR = "model", "simulated"
SHARE, LATENCY, THROUGHPUT, EFFICIENCY = "queue's part", "latency", "throughput", "efficiency"
UNITS = {SHARE: "%", LATENCY: "us", THROUGHPUT: "Mrps", EFFICIENCY: "krps/W"}


def _of_model(results: Results) -> Iterator[tuple[float, dict[str, float]]]:
    if SATURATED not in results:
        return
    program = measured(results[SATURATED].result)
    for gbit_per_s, packets in PACKETS.items():
        says = predict(program, packets)
        values = {
            SHARE: says.queue_percent,
            LATENCY: says.latency_us,
            THROUGHPUT: says.throughput_mrps,
        }
        yield gbit_per_s, values


def _of_simulator(results: Results) -> Iterator[tuple[Case, float, dict[str, float]]]:
    for case in (Case(CACHE, rate) for rate in RATES_MRPS):
        if case not in results:
            continue
        result = results[case].result
        latency, throughput = result["latency_ns"]["mean"], result["throughput_mrps"]
        values = {
            SHARE: 100 * (1 - result["service_ns"]["mean"] / latency),
            LATENCY: latency / 1000,
            THROUGHPUT: throughput,
            EFFICIENCY: 1000 * throughput / result["power_w"]["total"],
        }
        yield case, throughput * PACKET_BITS / 1000, values


def _rows(results: Results, shown: tuple[str, ...]) -> list[Row]:
    rows = [
        row(results, SATURATED, MODEL, x, "Gb/s", values[what], UNITS[what], what)
        for x, values in _of_model(results)
        for what in shown
        if what in values
    ]
    return rows + [
        row(results, case, SIMULATOR, x, "Gb/s", values[what], UNITS[what], what)
        for case, x, values in _of_simulator(results)
        for what in shown
    ]


def _chart(rows: list[Row]) -> plots.Chart:
    kinds = (MODEL, SIMULATOR)
    return plots.panels(
        rows,
        lambda row: f"{row.statistic}, {row.y_unit}",
        x=plots.logarithmic("line rate, Gb/s in packets of 64 bytes"),
        y=plots.linear(""),
        colour=plots.Series("", lambda row: row.series, kinds, plots.COLOURS),
        dash=plots.Series("", lambda row: row.series, kinds, plots.DASHES),
        columns=2,
        shared_y=False,
    )


_PARAMETERS = (
    "The model takes a request's instructions, memory accesses and cycles without them from the "
    "saturated run, and the outstanding packets from Table 1; the simulated server is offered "
    "loads up to its peak."
)

FIGURES = (
    Figure(
        name="cargo.2",
        title="Waiting for a core, as a part of a request's time",
        caption=f"`{CACHE}` on four cores with four threads each. {_PARAMETERS}",
        points=_points,
        rows=lambda results: _rows(results, (SHARE,)),
        chart=_chart,
    ),
    Figure(
        name="cargo.table2",
        title="Latency, throughput and efficiency over the line rate",
        caption=f"The runs of Figure 2. {_PARAMETERS}",
        points=_points,
        rows=lambda results: _rows(results, (LATENCY, THROUGHPUT, EFFICIENCY)),
        chart=_chart,
    ),
)


# What the paper claims.

LATENCIES_US = {10: 2, 40: 4, 100: 12, 200: 25, 400: 56}
THROUGHPUTS_MRPS = {10: 5, 40: 11, 100: 11, 200: 12, 400: 11}
_LITTLE = (
    "by Little's law Table 2 has 10 outstanding packets at 10 Gb/s and 616 at 400, where Table 1 "
    "has 81 and 3250; the paper does not say how the two are related"
)
_WORK = (
    "the model's cores execute one thread at a time, and a request of the store takes 3400 cycles "
    "without memory; 11 Mrps need 1450, and the paper does not give its own"
)


def _predicted(results: Results, gbit_per_s: int) -> Prediction:
    return predict(measured(results[SATURATED].result), PACKETS[gbit_per_s])


def _latency(results: Results, gbit_per_s: int) -> float:
    return _predicted(results, gbit_per_s).latency_us


def _throughput(results: Results, gbit_per_s: int) -> float:
    return _predicted(results, gbit_per_s).throughput_mrps


def _queue_percent(results: Results, gbit_per_s: int) -> float:
    return _predicted(results, gbit_per_s).queue_percent


def _of_table_2() -> Iterator[Claim]:
    for rate, latency in LATENCIES_US.items():
        yield Claim(
            f"cargo.table2.latency-{rate}",
            "Table 2",
            f"Latency (us), {rate} Gbps: {latency}",
            "us",
            f"the model with {PACKETS[rate]} outstanding packets",
            within(latency, 0.2, below=_LITTLE, above=_LITTLE),
            functools.partial(_latency, gbit_per_s=rate),
            figure="cargo.table2",
            paper_value=latency,
        )
    for rate, throughput in THROUGHPUTS_MRPS.items():
        yield Claim(
            f"cargo.table2.throughput-{rate}",
            "Table 2",
            f"Throughput (MRPS), {rate} Gbps: {throughput}",
            "Mrps",
            f"the model with {PACKETS[rate]} outstanding packets",
            within(throughput, 0.2, below=_WORK, above=_WORK),
            functools.partial(_throughput, gbit_per_s=rate),
            figure="cargo.table2",
            paper_value=throughput,
        )


CLAIMS = (
    Claim(
        "cargo.2.half",
        "Section 3.1",
        "Even for the 10 Gbps line-rate, queuing contributes nearly half of the processing latency",
        "%",
        "the model at 10 Gb/s: the part of the latency that is not the core's",
        between(40, 60, _LITTLE),
        functools.partial(_queue_percent, gbit_per_s=10),
        paper_value=50,
    ),
    *(
        Claim(
            f"cargo.2.most-{rate}",
            "Section 3.1",
            "For bandwidth above 100 Gbps, more than 90% of the latency comes from queuing",
            "%",
            f"the model at {rate} Gb/s",
            above(90, "the cores are not full enough"),
            functools.partial(_queue_percent, gbit_per_s=rate),
            figure="cargo.2",
        )
        for rate in (200, 400)
    ),
    *_of_table_2(),
)
