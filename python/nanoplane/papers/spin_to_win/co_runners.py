"""Section 4.2, co-runner interference: Figure 7, two programs on the hardware threads of a core."""

import dataclasses
import functools
from typing import Any

from nanoplane.claims import Claim, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.intervals import Estimate
from nanoplane.outcomes import Outcome
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine
from nanoplane.sweep import Run

NOTHING, IDLE, FULL, MATRIX, MIX = "nothing", "idle routing", "full routing", "matrix", "mix"
_BESIDE = {NOTHING: 0, MATRIX: 1}
_INSTEAD = {MIX: 2, NOTHING: 3}
"""The encoding of `l3-forward`'s parameters."""
BESIDE_MATRIX = (NOTHING, IDLE, FULL, MIX)
"""The first hardware thread's program, beside the matrix multiplication on the second one."""
WINDOW_US, SKIP_US = 40, 120
"""Rings and buffers fill the caches before the first window."""
WINDOWS, QUICK_WINDOWS = 10, 5
ROUTED_MRPS = 34.0
"""Approximately the routing throughput of the core, for the length of a run."""
SPAN_US, QUICK_SPAN_US = 400.0, 200.0
"""The length of runs without packets."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """The programs of the first core's two hardware threads."""

    first: str
    second: str

    def run(self, quick: bool) -> Run:
        """Return the run."""
        name = f"{self.first} and {self.second} on a core"
        parameters: dict[str, float] = {
            "rx_vec_en": 1,
            "window_us": WINDOW_US,
            "skip_us": SKIP_US,
            "beside": _BESIDE[self.second],
        }
        count = QUICK_WINDOWS if quick else WINDOWS
        if self.first == IDLE:
            parameters["windows"] = count
            return machine.idle(name, "l3-forward", parameters, threads=2)
        if self.first == FULL:
            return machine.loaded(
                name,
                "l3-forward",
                parameters,
                machine.OVERLOAD_MRPS,
                measured=round((SKIP_US + (count + 1.5) * WINDOW_US) * ROUTED_MRPS),
                warmup=0,
                bytes_=machine.SHORTEST_BYTES,
                routed=True,
                threads=2,
            )
        # Another core ends the run, after polling idle queues for long enough.
        span_us = QUICK_SPAN_US if quick else SPAN_US
        parameters |= {"instead": _INSTEAD[self.first], "cores": 2, "queues": 2, "timed_core": 1}
        parameters |= {"window_us": span_us / 2, "windows": 1}
        return machine.idle(name, "l3-forward", parameters, threads=2)


ALONE = Pair(FULL, NOTHING)
"""Routing without a co-runner."""
COLLOCATED = Pair(FULL, MATRIX)


def _points(quick: bool) -> dict[Any, Run]:
    pairs = [*(Pair(first, MATRIX) for first in BESIDE_MATRIX), ALONE]
    return {pair: pair.run(quick) for pair in pairs}


def matrix_ipc(outcome: Outcome) -> float:
    """Return the instructions a cycle of the matrix multiplication, over the whole run."""
    core = outcome.result["servers"][-1]["cores"][0]
    return float(core["harts"][1]["ipc"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for pair in (Pair(first, MATRIX) for first in BESIDE_MATRIX):
        if pair in results:
            rows.append(
                Row(
                    series="matrix multiplication",
                    x=BESIDE_MATRIX.index(pair.first),
                    x_unit="co-runner",
                    y=matrix_ipc(results[pair]),
                    y_unit="instructions a cycle",
                    statistic=f"beside {pair.first}",
                    labels=labels(pair),
                    samples=results[pair].result["instructions"],
                )
            )
    for pair in (ALONE, COLLOCATED):
        if pair in results:
            rate = machine.packets_mrps(results[pair])
            rows.append(
                Row(
                    series="routing",
                    x=len(BESIDE_MATRIX) + (pair == COLLOCATED),
                    x_unit="co-runner",
                    y=rate.value,
                    y_unit="million packets a second",
                    statistic=f"beside {pair.second}",
                    labels=labels(pair),
                    ci95=rate.ci95,
                    samples=sum(one.packets for one in machine.windows(results[pair])),
                )
            )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    series = list(dict.fromkeys(row.series for row in rows))
    return plots.bars(
        rows,
        lambda row: f"{row.series}: {row.y_unit}",
        group=lambda row: row.statistic,
        y=plots.linear(""),
        colour=plots.Series("program", lambda row: row.series, series, plots.COLOURS),
    )


FIGURES = (
    Figure(
        name="spin-to-win.7",
        title="Routing and a matrix multiplication on two hardware threads of a core",
        caption=(
            "(a) Instructions a cycle of the matrix multiplication beside nothing, routing without "
            "packets, routing with more packets than it takes, and a mix of kernels that stands "
            "for Geekbench. (b) What routing forwards alone, and beside the matrix multiplication."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)


# The paper's claims.


def _lost_percent(results: Results, first: str, than: str = NOTHING) -> float:
    ipcs = [matrix_ipc(results[Pair(one, MATRIX)]) for one in (first, than)]
    return 100 * (1 - ipcs[0] / ipcs[1])


def _routing_lost_percent(results: Results) -> Estimate:
    rates = (machine.packets_mrps(results[pair]) for pair in (ALONE, COLLOCATED))
    return machine.combined(lambda alone, beside: 100 * (1 - beside / alone), *rates)


def _routing_ipc_lost_percent(results: Results) -> Estimate:
    found = (machine.ipc(results[pair]) for pair in (ALONE, COLLOCATED))
    return machine.combined(lambda alone, beside: 100 * (1 - beside / alone), *found)


def _core_gains_percent(results: Results, over_routing: bool) -> Estimate:
    """Return the gain in IPC of both together over routing alone, or over the better one alone."""
    alone, beside = (machine.ipc(results[pair]) for pair in (ALONE, COLLOCATED))
    matrix_alone, matrix = (matrix_ipc(results[Pair(one, MATRIX)]) for one in (NOTHING, FULL))
    other = 0.0 if over_routing else matrix_alone
    return machine.combined(
        lambda alone, beside: 100 * ((beside + matrix) / max(alone, other) - 1), alone, beside
    )


_SHARING = (
    "a poll has more instructions a cycle here and packets wait less for memory, so that routing "
    "leaves less of the core; the paper gives neither the size of its matrices nor how they were "
    "compiled"
)

CLAIMS = (
    Claim(
        "spin-to-win.7.matrix-idle",
        "Section 4.2, Figure 7(a)",
        "the matrix multiplication IPC is substantially lower than without a co-runner (by 30% and "
        "31% with empty and full queues, respectively)",
        "%",
        "matrix multiplication beside routing without packets, by alone",
        within(30, 0.2, below=_SHARING, above=_SHARING),
        lambda r: _lost_percent(r, IDLE),
        paper_value=30,
    ),
    Claim(
        "spin-to-win.7.matrix-full",
        "Section 4.2, Figure 7(a)",
        "the matrix multiplication IPC is substantially lower than without a co-runner (by 30% and "
        "31% with empty and full queues, respectively)",
        "%",
        "matrix multiplication beside routing with more packets than it takes, by alone",
        within(31, 0.2, below=_SHARING, above=_SHARING),
        lambda r: _lost_percent(r, FULL),
        paper_value=31,
    ),
    Claim(
        "spin-to-win.7.geekbench",
        "Section 4.2, Figure 7(a)",
        "... and the case where it is collocated with Geekbench by 11%",
        "%",
        "matrix multiplication beside routing without packets, by beside the mix of kernels that "
        "stands for Geekbench",
        within(11, 0.5, below=_SHARING, above=_SHARING),
        lambda r: _lost_percent(r, IDLE, MIX),
        paper_value=11,
    ),
    Claim(
        "spin-to-win.7.routing",
        "Section 4.2, Figure 7(b)",
        "The LPM routing application also experiences 42% IPC reduction and 42% packet throughput "
        "reduction due to SMT collocation",
        "%",
        "packets that are routed, beside the matrix multiplication by alone",
        within(42, 0.2, below=_SHARING, above=_SHARING),
        _routing_lost_percent,
        paper_value=42,
    ),
    Claim(
        "spin-to-win.7.routing-ipc",
        "Section 4.2, Figure 7(b)",
        "The LPM routing application also experiences 42% IPC reduction and 42% packet throughput "
        "reduction due to SMT collocation",
        "%",
        "instructions a cycle of routing, beside the matrix multiplication by alone",
        within(42, 0.2, below=_SHARING, above=_SHARING),
        _routing_ipc_lost_percent,
        paper_value=42,
    ),
    *(
        Claim(
            f"spin-to-win.7.core{suffix}",
            "Section 4.2",
            "the overall IPC of the core is about 39% better",
            "%",
            f"instructions a cycle of both together, by {than} alone (the paper does not say "
            "by what)",
            within(39, 0.2, below=_SHARING, above=_SHARING),
            functools.partial(_core_gains_percent, over_routing=over_routing),
            figure="spin-to-win.7",
            paper_value=39,
        )
        for suffix, than, over_routing in (
            ("", "the better one", False),
            ("-routing", "routing", True),
        )
    ),
)
