"""Rings that need more room than the ways for I/O: received lines leak into memory.

Tootoonchian et al., "ResQ: Enabling SLOs in Network Function Virtualization" (NSDI 2018), named it
leaky DMA: an interface with more buffers than the ways hold evicts received lines before a core
reads them. Farshin et al., "Reexamining Direct Cache Access to Optimize I/O Intensive Applications
for Multi-hundred-gigabit Networks" (ATC 2020), have two of eleven ways as the default.
"""

import dataclasses
import itertools
from typing import Any

from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.papers import plots
from nanoplane.sweep import Run

PRESET = "spin-to-win-table1"
PACKET_BYTES = 1500
LINES_A_PACKET = -(-PACKET_BYTES // 64)
"""A packet's buffer begins at a line."""
RINGS = (512, 1024, 2048, 4096, 8192, 16384)
QUICK_RINGS = (1024, 4096, 8192)
WAYS = {2: "2 of 11 ways", 11: "all ways"}
LAPS = (2, 3)
"""Laps of the ring in the two runs: the additional lap is the steady state."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ring:
    """A ring of receive descriptors that packets fill and one core empties."""

    ways: int
    descriptors: int
    laps: int

    def description(self) -> Description:
        """Return a server that sends as fast as it can, and one that receives and discards."""

        def server(name: str, program: str, **parameters: float) -> dict[str, Any]:
            return {
                "name": name,
                "program": f"poll-mode/{program}",
                "parameters": parameters,
                "interface": "cqe-nic",
                "server": {"preset": PRESET, "fabric": {"last_level": {"io_ways": self.ways}}},
            }

        receiver = server(
            "receiver",
            "receive-only",
            descriptors=float(self.descriptors),
            warmup=float(self.descriptors),
            packets=float(self.descriptors * (self.laps - 1)),
        )
        sender = {**server("sender", "transmit-only", bytes=float(PACKET_BYTES)), "serves": True}
        link = {"rate_gbit_per_s": 100, "latency_ns": 5, "overhead_bytes": 24}
        return Description.from_dict(
            {"rack": {"link": link, "servers": [sender, receiver]}},
            source=f"{self.laps} laps of {self.descriptors} descriptors, {self.ways} ways",
        )


def _points(quick: bool) -> dict[Any, Run]:
    rings = itertools.starmap(Ring, itertools.product(WAYS, QUICK_RINGS if quick else RINGS, LAPS))
    return {ring: Run(ring.description()) for ring in rings}


def written_lines(results: Results, ways: int, descriptors: int) -> float:
    """Return the lines written to memory for each line of packets received, in the steady state."""
    fewer, more = (
        results[Ring(ways, descriptors, laps)].result["servers"][1]["fabric"]["memory_writes"]
        for laps in LAPS
    )
    return float(more - fewer) / (descriptors * LINES_A_PACKET)


def _rows(results: Results) -> list[Row]:
    rows = []
    for ring in (one for one in results if isinstance(one, Ring) and one.laps == LAPS[0]):
        if Ring(ring.ways, ring.descriptors, LAPS[1]) not in results:
            continue
        rows.append(
            Row(
                series=WAYS[ring.ways],
                x=ring.descriptors,
                x_unit="receive descriptors",
                y=written_lines(results, ring.ways, ring.descriptors),
                y_unit="lines written to memory for each line received",
                statistic="in the last of three laps of the ring",
                labels=labels(ring),
                samples=ring.descriptors,
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    rings = plots.Axis(
        "receive descriptors",
        {"type": "log", "base": 2, "nice": False, "padding": 12},
        {"values": list(RINGS), "format": "d"},
    )
    ways = {str(number): text for number, text in WAYS.items()}
    return plots.panels(
        rows,
        lambda row: "lines written to memory for each line received",
        x=rings,
        y=plots.linear("lines"),
        colour=plots.Series.label("I/O fills", "ways", ways, plots.COLOURS),
        columns=1,
    )


FIGURES = (
    Figure(
        name="substrate.leaky-dma",
        title="Leaky DMA",
        caption=(
            f"One core receives and discards packets of {PACKET_BYTES} bytes at 100 Gb/s on "
            f"{PRESET}: lines that the last-level cache writes to memory in a lap of the ring, for "
            "each line of packets. Two ways hold 6 MB, 4096 packets."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)
