"""Section 4, inefficiencies of spin-polling: cycles spent on polling, and instructions a cycle."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, above, between, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.intervals import Estimate
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine
from nanoplane.sweep import Run

TAX, IPC = "tax", "ipc"
QUEUES = (1, 2, 4, 8)
IPC_QUEUES = (1, 4, 8)
"""Numbers of queues in Figure 6."""
RATES_MRPS = (0.0, 2.0, 5.0, 10.0, 15.0, machine.OVERLOAD_MRPS)
"""Offered loads; the last one exceeds the core's throughput: the paper's load of 100 %."""
QUICK_RATES_MRPS = (0.0, 5.0, machine.OVERLOAD_MRPS)
WINDOW_US, SKIP_US = 40, 120
"""Rings and buffers fill the caches before the first window."""
WINDOWS, QUICK_WINDOWS = 10, 4
ROUTED_MRPS = 34.0
"""Approximately the routing throughput of the core, for the length of an overloaded run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """A core that routes packets of 64 bytes by 16,384 prefixes."""

    measured: str
    """`tax`: the program reads the cycle counter around polls that return packets; `ipc`: it does
    not."""
    queues: int
    rate_mrps: float

    def run(self, quick: bool) -> Run:
        """Return the run."""
        name = f"{self.measured}, {self.queues} queues, {self.rate_mrps:g} Mpps"
        parameters: dict[str, float] = {
            "queues": self.queues,
            "rx_vec_en": 1,
            "window_us": WINDOW_US,
            "skip_us": SKIP_US,
            "classify": self.measured == TAX,
        }
        count = QUICK_WINDOWS if quick else WINDOWS
        if self.rate_mrps == 0:
            return machine.idle(name, "l3-forward", {**parameters, "windows": count})
        # The first window may be cut at a round, and the last one by the end of the run.
        span_us = SKIP_US + (count + 1.5) * WINDOW_US
        return machine.loaded(
            name,
            "l3-forward",
            parameters,
            self.rate_mrps,
            measured=max(100, round(span_us * min(self.rate_mrps, ROUTED_MRPS))),
            warmup=0,
            bytes_=machine.SHORTEST_BYTES,
            routed=True,
        )


def _points(measured: str, queues: tuple[int, ...], quick: bool) -> dict[Any, Run]:
    rates = QUICK_RATES_MRPS if quick else RATES_MRPS
    listed = (Routing(measured, *one) for one in itertools.product(queues, rates))
    return {point: point.run(quick) for point in listed}


def _at(results: Results, measured: str, queues: int, full: bool) -> Any:
    rate = RATES_MRPS[-1] if full else RATES_MRPS[0]
    return results[Routing(measured, queues, rate)]


def tax_percent(results: Results, point: Routing) -> Estimate:
    """Return the part of the cycles that is not spent on packets."""
    return machine.of_windows(
        results[point], lambda window: 100 * (1 - window.useful / window.cycles)
    )


def ipc(results: Results, point: Routing) -> Estimate:
    """Return the instructions a cycle."""
    return machine.ipc(results[point])


_VALUES = {
    TAX: (tax_percent, "% of cycles", "cycles spent on polling"),
    IPC: (ipc, "instructions a cycle", "instructions a cycle"),
}


def _rows(measured: str, results: Results) -> list[Row]:
    value, unit, statistic = _VALUES[measured]
    rows = []
    for point in results:
        if not isinstance(point, Routing) or point.measured != measured:
            continue
        found = value(results, point)
        rows.append(
            Row(
                series=f"{point.queues} queues",
                x=machine.packets_mrps(results[point]).value,
                x_unit="million packets a second",
                y=found.value,
                y_unit=unit,
                statistic=statistic,
                labels=labels(point),
                ci95=found.ci95,
                samples=sum(one.polls for one in machine.windows(results[point])),
            )
        )
    return sorted(rows, key=lambda row: (int(row.labels["queues"]), row.x))


def _chart(rows: list[Row]) -> plots.Chart:
    (unit,) = {row.y_unit for row in rows}
    queues = {f"{count}": f"{count}" for count in QUEUES}
    return plots.panels(
        rows,
        lambda row: row.statistic,
        x=plots.linear("million packets a second"),
        y=plots.linear(unit),
        colour=plots.Series.label("queues", "queues", queues, plots.COLOURS),
    )


def _answer(measured: str, rows: list[Row]) -> str:
    queues = max((int(row.labels["queues"]) for row in rows), default=0)
    line = [row for row in rows if int(row.labels["queues"]) == queues]
    line.sort(key=lambda row: row.x)
    if len(line) < 2:
        return ""
    least, most = line[0], line[-1]
    verb, form, noun = _SAYS[measured]
    return (
        f"With {most.series}, a core {verb} {form.format(most.y)} {noun} when it routes "
        f"{most.x:.1f} million packets a second, and {form.format(least.y)} at {least.x:.1f} "
        "million."
    )


_SAYS = {
    TAX: ("spends", "{:.0f} %", "of its cycles on polling"),
    IPC: ("retires", "{:.2f}", "instructions a cycle"),
}
_ROUTER = (
    "One core routes packets of 64 bytes by 16,384 prefixes, with the receive function of DPDK's "
    "driver (`rx_vec_en`). "
)

FIGURES = (
    Figure(
        name="spin-to-win.5",
        title="Cycles spent on polling in a core that routes packets",
        caption=_ROUTER
        + "The program reads the cycle counter before each poll, and behind the packets that it "
        "brings: what is between is useful. The last load of each line is more than the core "
        "routes, which is taken for 100 %.",
        points=lambda quick: _points(TAX, QUEUES, quick),
        rows=lambda results: _rows(TAX, results),
        chart=_chart,
        answer=lambda rows: _answer(TAX, rows),
    ),
    Figure(
        name="spin-to-win.6",
        title="Instructions a cycle of a core that routes packets",
        caption=_ROUTER + "Retired instructions by cycles.",
        points=lambda quick: _points(IPC, IPC_QUEUES, quick),
        rows=lambda results: _rows(IPC, results),
        chart=_chart,
        answer=lambda rows: _answer(IPC, rows),
    ),
)


# The paper's claims.


def _full_tax(results: Results, queues: int) -> Estimate:
    return tax_percent(results, Routing(TAX, queues, RATES_MRPS[-1]))


def _amortised(results: Results) -> Estimate:
    """Return the reduction of the tax with eight queues, at a load that both forward."""
    rate = QUICK_RATES_MRPS[1]
    one, eight = (tax_percent(results, Routing(TAX, queues, rate)) for queues in (1, 8))
    return machine.combined(lambda few, many: few - many, one, eight)


def _falls_percent(results: Results, queues: int) -> Estimate:
    none, full = (ipc(results, Routing(IPC, queues, RATES_MRPS[at])) for at in (0, -1))
    return machine.combined(lambda none, full: 100 * (1 - full / none), none, full)


_NO_EMPTY_POLL = (
    "a core that gets more than it routes finds packets in every poll: what is left is the loop "
    "and the reading of the counter; with 5 Mpps it is 43 % with one queue and 24 % with eight"
)
_EXPANDED = (
    "the driver's vectors of 16 bytes are pairs of words here, independent instructions of one "
    "cycle: an empty poll has more instructions than the original, with few dependences"
)
_IN_TIME = (
    "packets are prefetched in time here, so that routing waits less for memory: without "
    "prefetches it is 25 %"
)

CLAIMS = (
    *(
        Claim(
            f"spin-to-win.5.tax-{queues}",
            "Section 4.1, Figure 5",
            "even at 100% load (i.e., maximum routing throughput), a significant fraction of CPU "
            "cycles (~20-28%) are spent on spin-polling",
            "%",
            f"{queues} queues, more packets than the core routes: cycles outside polls that bring "
            "packets",
            between(20, 28, _NO_EMPTY_POLL),
            lambda r, queues=queues: _full_tax(r, queues),  # type: ignore[misc]
            figure="spin-to-win.5",
            paper_value="20 to 28",
        )
        for queues in (1, 8)
    ),
    Claim(
        "spin-to-win.5.amortised",
        "Section 4.1, Figure 5",
        "This amortization results in overhead decreasing as the number of queues increases at a "
        "specific offered load",
        "points of a percent",
        f"{QUICK_RATES_MRPS[1]:g} Mpps: tax with one queue less that with eight",
        above(0, "packets spread over eight queues leave more polls empty"),
        _amortised,
    ),
    *(
        Claim(
            f"spin-to-win.6.idle-{queues}",
            "Section 4.2, Figure 6",
            "software data planes can yield average IPCs of 2-2.6, depending on the load and the "
            "number of queues",
            "instructions a cycle",
            f"{queues} queues, no load",
            between(2, 2.6, _EXPANDED),
            lambda r, queues=queues: ipc(r, Routing(IPC, queues, 0.0)),  # type: ignore[misc]
            figure="spin-to-win.6",
            paper_value="2 to 2.6",
        )
        for queues in IPC_QUEUES
    ),
    Claim(
        "spin-to-win.6.full",
        "Section 4.2, Figure 6",
        "software data planes can yield average IPCs of 2-2.6, depending on the load and the "
        "number of queues",
        "instructions a cycle",
        "one queue, more packets than the core routes",
        between(2, 2.6, _EXPANDED),
        lambda r: ipc(r, Routing(IPC, 1, RATES_MRPS[-1])),
        paper_value="2 to 2.6",
    ),
    Claim(
        "spin-to-win.6.falls",
        "Section 4.2, Figure 6",
        "IPC decreases up to 29% as throughput increases",
        "%",
        "one queue: no load by more packets than the core routes",
        within(29, 0.2, below=_IN_TIME, above=_EXPANDED),
        lambda r: _falls_percent(r, 1),
        paper_value=29,
    ),
)
