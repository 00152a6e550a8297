"""The bandwidth of a number of cores that read and write memory sequentially."""

import dataclasses
from typing import Any

from nanoplane.claims import Claim, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.substrate.latency import MIB
from nanoplane.papers.substrate.machines import (
    ANANDTECH,
    GENIUS,
    OPTANE_STUDY,
    OPTIONAL_QUICK,
    PRESETS,
    SKYLAKE,
    STUDY_OF_SPINNING,
    interval,
    largest_cache_bytes,
    run,
)
from nanoplane.sweep import Run

CORES = {
    SKYLAKE: (1, 2, 4, 8, 16, 24),
    STUDY_OF_SPINNING: (1, 8, 24),
    "hyperplane-table1": (1, 2, 4, 8, 16),
    "rpcvalet-table1": (1, 2, 4, 8, 16),
    "nanopu-prototype": (1, 2, 4),
    "cargo-table5": (1, 2, 4),
}
WORKING_SET_BYTES = 64 * MIB
"""The array of each core: larger than any preset's last-level cache, so that every line is
fetched."""
REQUEST_BYTES = 64 << 10
REQUESTS, QUICK_REQUESTS = 50, 20
"""Requests for each core; a run has at least a hundred."""
READS, MIXED, WRITES, RANDOM = "reads", "mixed", "writes", "random"
KINDS = {
    READS: "reads",
    MIXED: "two reads to a write",
    WRITES: "writes",
    RANDOM: "reads of random lines",
}
WRITTEN = {READS: 0.0, MIXED: 1 / 3, WRITES: 1.0, RANDOM: 0.0}
_QUICK_CORES, _QUICK_CLAIMED = (1, 4), (1, 24)
"""With `--quick`; the second of the preset that claims are about. Of one core there, the claim is
about MIXED."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """Cores that stream through memory."""

    preset: str
    kind: str
    cores: int

    def run(self, quick: bool) -> Run:
        """Return the run."""
        # The warm-up ends when the caches evict as many lines as they fill. With --quick it does
        # not wait for that where only clean lines are evicted, which costs memory nothing, and
        # memory is the limit: 24 cores then read 0.3 % less, and random lines 0.5 % less, within
        # the intervals of 2.6 and 1 %.
        filling = largest_cache_bytes(self.preset) // REQUEST_BYTES
        brief = quick and self.cores == _QUICK_CLAIMED[-1] and not WRITTEN[self.kind]
        made = run(
            self.preset,
            "memory-stream",
            {
                "working_set_bytes": WORKING_SET_BYTES,
                "bytes": REQUEST_BYTES,
                "written_fraction": WRITTEN[self.kind],
                **({"is_random": 1} if self.kind == RANDOM else {}),
            },
            requests=max(100, self.cores * (QUICK_REQUESTS if quick else REQUESTS)),
            warmup=4 * self.cores + (0 if brief else filling),
            cores=self.cores,
            memory_mib=64 + 2 * self.cores * WORKING_SET_BYTES // MIB,
        )
        if self.kind != RANDOM:
            return made
        # Prefetchers of the second level would fetch lines that no core reads; the published
        # measurements had them off.
        description = made.description
        for key in ("l1_data_prefetcher", "l2.prefetcher"):
            description = description.set(f"server.core.{key}", "none")
        return dataclasses.replace(made, description=description)


def _points(quick: bool) -> dict[Any, Run]:
    def is_quick(preset: str, kind: str, cores: int) -> bool:
        if preset == SKYLAKE:
            return cores in _QUICK_CLAIMED and (cores > 1 or kind == MIXED)
        return cores in _QUICK_CORES

    points = (
        Stream(preset, kind, cores)
        for preset, counts in CORES.items()
        for kind in KINDS
        for cores in counts
        if not quick or is_quick(preset, kind, cores)
        if kind != RANDOM or preset == SKYLAKE
    )
    return {point: point.run(quick) for point in points}


GB_PER_S = REQUEST_BYTES / 1000
"""The value of a million requests a second."""


def _gb_per_s(results: Results, point: Stream) -> float:
    """Return the program's reads and writes, in gigabytes a second."""
    return GB_PER_S * float(results[point].result["throughput_mrps"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for point in (one for one in results if isinstance(one, Stream)):
        result = results[point].result
        rows.append(
            Row.measured(
                point,
                results[point],
                series=f"{PRESETS[point.preset]}, {KINDS[point.kind]}",
                x=point.cores,
                x_unit="cores",
                y=_gb_per_s(results, point),
                y_unit="GB/s",
                statistic="bytes read and written by the cores",
                ci95=interval(result, "throughput_mrps_ci95", GB_PER_S),
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    cores = plots.Axis("cores", {"zero": True}, {"values": [1, 2, 4, 8, 16, 24], "format": "d"})
    return plots.panels(
        rows,
        lambda row: KINDS[row.labels["kind"]],
        x=cores,
        y=plots.linear("GB/s"),
        colour=plots.Series.label("machine", "preset", PRESETS, plots.COLOURS),
        dash=plots.Series.label("accesses", "kind", KINDS, plots.DASHES),
    )


FIGURES = (
    Figure(
        name="substrate.bandwidth",
        title="Bandwidth of memory",
        caption=(
            "Each core goes through an array of its own of 64 MB, one line after the other. Bytes "
            "that the program reads and writes count: memory moves a line that is written twice, "
            "because it is read first."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        optional_quick=OPTIONAL_QUICK,
    ),
)


# Published measurements of Skylake-SP: STREAM's triad, which reads two arrays and writes a third,
# and counts the program's reads and writes.

_TRIAD = "two reads to a write, as in the triad"
LINES_MOVED = 4 / 3
"""Lines that memory moves for each line that the program reads or writes: the third line, which is
written, is read first."""


def _triad(cores: int) -> Stream:
    return Stream(SKYLAKE, MIXED, cores)


_MOVED = {READS: 1.0, MIXED: LINES_MOVED, WRITES: 2.0, RANDOM: 1.0}
"""Lines that memory moves for each line of the program: a written line is read first, so that
writes alone are one read to one write in memory, and MIXED is three to one."""


def _mix(name: str, kind: str, quote: str, both: float) -> Claim:
    """Make the claim of Memory Latency Checker's mix, as memory traffic of two processors."""
    return Claim(
        f"substrate.bandwidth.{name}",
        GENIUS,
        quote,
        "GB/s",
        f"24 cores, preset {SKYLAKE}, {KINDS[kind]}: what memory moves",
        within(
            both / 2,
            0.1,
            below="unexplained",
            above="the number of ranks: it is not said, and with one instead of two reads take "
            "104.5 GB/s in substrate.loaded-latency, and writes 96.1 here",
        ),
        lambda results: _MOVED[kind] * _gb_per_s(results, Stream(SKYLAKE, kind, 24)),
        figure="substrate.bandwidth",
        paper_value=both / 2,
    )


CLAIMS = (
    _mix("mlc-reads", READS, "all reads: 211,194 MB/s", 211.2),
    _mix("mlc-three-to-one", MIXED, "3:1 reads-writes: 193,422 MB/s", 193.4),
    _mix("mlc-one-to-one", WRITES, "1:1 reads-writes: 185,556 MB/s", 185.6),
    Claim(
        "substrate.bandwidth.random",
        OPTANE_STUDY,
        "24 threads, loads of 64 bytes at random: 93.35 GB/s",
        "GB/s",
        f"24 cores, preset {SKYLAKE}, {KINDS[RANDOM]}",
        within(93.35, 0.1, below="unexplained", above="unexplained"),
        lambda results: _gb_per_s(results, Stream(SKYLAKE, RANDOM, 24)),
        paper_value=93.35,
    ),
    Claim(
        "substrate.bandwidth.one-core",
        ANANDTECH,
        "Stream triad, one thread: 12 GB/s",
        "GB/s",
        f"one core, preset {SKYLAKE}, {_TRIAD}",
        within(
            12,
            0.2,
            below="unexplained: outstanding misses bound one core, and each written line is read "
            "first; whether stores of the published program read it is not said",
            above="unexplained",
        ),
        lambda results: _gb_per_s(results, _triad(1)),
        paper_value=12,
    ),
    Claim(
        "substrate.bandwidth.all-cores",
        ANANDTECH,
        "Intel claims 199 GB/s for two sockets, with a program that is tuned",
        "GB/s",
        f"24 cores, preset {SKYLAKE}, {_TRIAD}; what memory moves, because stores of the tuned "
        "program cannot read their lines: with these it would need 132.7 GB/s of six channels' "
        "127.8",
        within(99.5, 0.2, below="unexplained", above="unexplained"),
        lambda results: LINES_MOVED * _gb_per_s(results, _triad(24)),
        paper_value=99.5,
    ),
)
