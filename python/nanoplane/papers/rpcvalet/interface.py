"""Section 4, the network interface: its memory, its state, and a dispatcher's throughput."""

import dataclasses
from typing import Any

from nanoplane.claims import Claim, at_most, between, within
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.rpcvalet.dispatch import (
    BEST,
    CORES,
    NODES,
    RATES_MRPS,
    REPLY_BYTES,
    ROWS,
    SATURATED_SLOTS,
    Case,
)
from nanoplane.sweep import Run

HALF_MICROSECOND_NS = 500.0
"""Section 4.3: "an RPC service time as low as 500ns"."""
REQUESTS, QUICK_REQUESTS = 50_000, 5000
SHORT, SHORTEST = "synthetic", "echo"
"""Programs: one that processes for half of the 500 ns and sends 512 bytes, and the shortest one."""
OWN, FASTER = "rpcvalet-table1", "hyperplane-table1"
"""The paper's chip, and one of faster cores and a last-level cache of 16 MB instead of 2."""
_NAMES = {
    (SHORT, OWN): "a reply of 512 bytes after 250 ns, Table 1",
    (SHORTEST, OWN): "a reply of 64 bytes at once, Table 1",
    (SHORTEST, FASTER): "a reply of 64 bytes at once, HyperPlane's Table I",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Saturated:
    """Sixteen cores that one dispatcher keeps busy, saturated."""

    program: str
    chip: str = OWN
    """The preset."""

    def run(self, quick: bool) -> Run:
        """Return the run."""
        packet: dict[str, Any] = {"packet_bytes": 48}
        parameters = {}
        if self.program == SHORT:
            half_ns = HALF_MICROSECOND_NS / 2
            work = {"base_ns": half_ns, "mean_ns": 0.0, "service_times": {"distribution": "fixed"}}
            packet = {"packet_bytes": REPLY_BYTES - 64, "work": work}
            parameters = {"reply_bytes": float(REPLY_BYTES - 16)}
        description = Description.from_dict(
            {
                "server": {
                    "preset": self.chip,
                    "data_plane_cores": CORES,
                    "rpcvalet": {"slots": SATURATED_SLOTS},
                },
                "data_plane": {
                    "program": self.program,
                    "notify": "rpcvalet",
                    "queues": NODES,
                    "parameters": parameters,
                },
                "traffic": {
                    "arrivals": "poisson",
                    "load": "saturate",
                    # More than the shortest program's throughput.
                    "saturation_rate_mrps": 400.0,
                    **packet,
                },
                "measure": {"requests": QUICK_REQUESTS if quick else REQUESTS, "seed": 1},
            },
            source=f"{self.program}, {self.chip}, saturated",
        )
        return Run(description)


NO_QUEUE, NO_QUEUE_ROWS = (Case("fixed", mode, RATES_MRPS[0]) for mode in (BEST, ROWS))
"""Cases in which requests hardly ever wait, dispatched by one backend and by each backend for
itself."""


def _points(quick: bool) -> dict[Any, Run]:
    points: list[Saturated | Case] = [Saturated(*case) for case in _NAMES]
    points += [NO_QUEUE, NO_QUEUE_ROWS]
    return {point: point.run(quick) for point in points}


def _interval_ns(results: Results, point: Saturated) -> float:
    """Return the mean time between two decisions."""
    return 1000 / float(results[point].result["throughput_mrps"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for case, series in _NAMES.items():
        if (point := Saturated(*case)) not in results:
            continue
        result = results[point].result
        interval = result.get("throughput_mrps_ci95")
        rows.append(
            Row.measured(
                point,
                results[point],
                series=series,
                x=result["service_ns"]["mean"],
                x_unit="ns a request takes",
                y=_interval_ns(results, point),
                y_unit="ns between two decisions",
                statistic="mean time between decisions, saturated",
                ci95=None if interval is None else (1000 / interval[1], 1000 / interval[0]),
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda _: "one dispatcher, sixteen cores",
        group=lambda row: row.series,
        y=plots.linear("ns between two decisions"),
        colour=plots.Series(
            "program and chip", lambda row: row.series, list(_NAMES.values()), plots.COLOURS
        ),
    )


FIGURES = (
    Figure(
        name="rpcvalet.interface",
        title="How often a dispatcher decides",
        caption=(
            f"{CORES} cores that one dispatcher keeps busy, saturated by nodes of "
            f"{SATURATED_SLOTS} slots. Section 4.3 asks for a decision every 31 ns with 16 cores, "
            "and every 8 ns with 64."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)


# The paper's claims.


def _domain_bytes(results: Results) -> int:
    """Return the bytes of the messaging domain."""
    return int(results[NO_QUEUE].result["rpcvalet"]["domain_bytes"])


def _interval_of_half_a_microsecond_ns(results: Results) -> float:
    """Return the time between decisions, scaled to requests of 500 ns."""
    took_ns = float(results[Saturated(SHORT)].result["service_ns"]["mean"])
    return _interval_ns(results, Saturated(SHORT)) * HALF_MICROSECOND_NS / took_ns


def _indirection_ns(results: Results) -> float:
    """Return by how much the median latency is longer if one backend dispatches for all."""
    one, own = (
        float(results[case].result["latency_ns"]["p50"]) for case in (NO_QUEUE, NO_QUEUE_ROWS)
    )
    return one - own


_INTERVAL = (
    "even an RPC service time as low as 500ns corresponds to a new dispatch decision every ~31/8ns "
    "for a 16/64-core chip"
)
_SLOT_SIZES = "the sizes of the slots are those of the formula, and N and S those of Section 5"
_SLOWER = "the dispatcher, or what comes before and behind it, does not keep the cores busy"

CLAIMS = (
    Claim(
        "rpcvalet.4.footprint",
        "Section 4.2",
        "the messaging mechanism's memory footprint is 32 x N x S + (max_msg_size + 64) x N x S "
        "bytes",
        "bytes",
        "200 nodes, 32 slots, messages of 1152 bytes: from the first send slot to the end of the "
        "last receive slot, without what is between both buffers",
        None,
        _domain_bytes,
        figure="rpcvalet.interface",
        paper_value="32 N S + (max_msg_size + 64) N S",
        why=_SLOT_SIZES,
        by_construction=True,
    ),
    Claim(
        "rpcvalet.4.footprint-size",
        "Section 4.2",
        "that number should not exceed a few tens of MBs",
        "MB",
        "the same",
        None,
        lambda r: _domain_bytes(r) / 1e6,
        figure="rpcvalet.interface",
        paper_value="a few tens",
        why=_SLOT_SIZES,
        by_construction=True,
    ),
    Claim(
        "rpcvalet.4.dispatch-interval-16",
        "Section 4.3",
        _INTERVAL,
        "ns",
        "16 cores, saturated: mean time between decisions, for requests that take 500 ns",
        within(31.25, 0.05, below="service overlaps", above=_SLOWER),
        _interval_of_half_a_microsecond_ns,
        figure="rpcvalet.interface",
        paper_value=31,
    ),
    Claim(
        "rpcvalet.4.dispatch-interval-64",
        "Section 4.3",
        _INTERVAL,
        "ns",
        "the chip of Table 1, whose 16 cores echo 48 bytes to take about as many requests as 64 "
        "with 500 ns each: mean time between the dispatcher's decisions",
        at_most(
            8,
            "sixteen cores of Table 1 complete an echo every 8.7 ns; they, not the dispatcher, "
            "are the limit: with HyperPlane's cores it is 5.6 ns (docs/rpcvalet.md)",
        ),
        lambda r: _interval_ns(r, Saturated(SHORTEST)),
        figure="rpcvalet.interface",
        paper_value=8,
    ),
    Claim(
        "rpcvalet.4.dispatch-interval-64-faster",
        "Section 4.3",
        _INTERVAL,
        "ns",
        "the same on the chip of HyperPlane's Table I, whose faster cores take more requests than "
        "64 with 500 ns each, and whose last-level cache has 16 MB instead of 2: mean time between "
        "the dispatcher's decisions",
        at_most(8, _SLOWER),
        lambda r: _interval_ns(r, Saturated(SHORTEST, FASTER)),
        figure="rpcvalet.interface",
        paper_value=8,
    ),
    Claim(
        "rpcvalet.4.dispatcher-latency",
        "Section 4.3",
        "the indirection from any NI backend to the NI dispatcher costs a couple of on-chip "
        "interconnect hops, adding just a few ns to the end-to-end message delivery latency",
        "ns",
        f"fixed times, {RATES_MRPS[0]:g} MRPS: median latency with one dispatcher for all backends "
        "less that with one in each",
        between(
            0,
            10,
            "a backend that dispatches for its own row is nearer to its cores, too",
        ),
        _indirection_ns,
        figure="rpcvalet.interface",
        paper_value="a few",
    ),
    Claim(
        "rpcvalet.4.stages",
        "Section 4.4",
        "We add five new stages to the NI pipelines in total",
        "stages",
        "what the interface does for messages: distinguish send and replenish, "
        "count a packet, compare with the message's length, enqueue, dispatch",
        None,
        paper_value=5,
        why="the pipelines have the steps that the paper names (docs/rpcvalet.md)",
        by_construction=True,
    ),
    Claim(
        "rpcvalet.4.state",
        "Section 4.4",
        "In total, we add 20B of stored state per context",
        "bytes",
        "bits of what each part of the network interface keeps of the domain, by 8: two addresses "
        "of 64 bits, and N, S and max_msg_size in as many bits as a header has for them",
        within(20, 0.2, below="fewer bits are kept", above="more bits are kept"),
        lambda r: r[NO_QUEUE].result["rpcvalet"]["domain_state_bits"] / 8,
        figure="rpcvalet.interface",
        paper_value=20,
    ),
)
