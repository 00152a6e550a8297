"""Section 6.3: CARGO's effect on the time in the queue and in the core (Figure 17).

A spinning thread is as busy with polling as with requests. A thread that waits with QWAIT halts, so
that its other cycles are those of requests: here both stores use QWAIT. With QWAIT over all rings
the interface would not know which core will serve a packet: each core has a partition of the ready
set, with the rings of its threads.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from nanoplane.claims import Claim, within
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.intervals import UndecidedError
from nanoplane.papers import plots
from nanoplane.papers.cargo import links, offload
from nanoplane.papers.cargo.cases import CACHE, DATABASE, STORES
from nanoplane.papers.cargo.model import parts
from nanoplane.papers.cargo.offload import (
    BASELINE,
    CARGO,
    EMC,
    LARGE_NIC,
    PAPER_NIC,
    SYSTEMS,
    WAITING,
)
from nanoplane.papers.stores import load
from nanoplane.sweep import Run

CLOCK_GHZ = 4.0
PAPER, ON_CHIP = "paper", "on-chip"
INTERFACES = {
    PAPER: f"{PAPER_NIC} behind PCIe 3.0, lower load",
    ON_CHIP: f"{LARGE_NIC} on the chip, higher load",
}
HIGHER_MRPS = {CACHE: 4.0, DATABASE: 0.12}
"""For each core. Transactions have the lower load here, too: it keeps four threads busy."""
PROGRAM = "stores/{store}-qwait-cores"
CORES = {PAPER: offload.CORES, ON_CHIP: (1, 2, 4)}
"""On the chip, eight cores would need an interface of 48, and 32 are the most."""
QUICK_CORES = {
    (CACHE, PAPER): (1, 4),
    (CACHE, ON_CHIP): (1,),
    # Four cores with transactions take 20 s a run.
    (DATABASE, PAPER): (1,),
    (DATABASE, ON_CHIP): (1,),
}
REQUESTS = {CACHE: 8000, DATABASE: 1000}
QUICK_REQUESTS = {CACHE: 800, DATABASE: 100}
"""For each core."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitCase:
    """A store on cores with four threads each, which wait with QWAIT for the core's rings."""

    store: str
    system: str
    interface: str
    cores: int

    def run(self, quick: bool) -> Run:
        """Return its run: that of the figures behind the interface, with another program."""
        is_papers = self.interface == PAPER
        like = offload.Case(
            self.store,
            self.system,
            self.cores,
            WAITING if is_papers else f"{HIGHER_MRPS[self.store]:g}",
            PAPER_NIC if is_papers else LARGE_NIC,
        )
        data: dict[str, Any] = like.run(quick).description.data
        waits = load.Case(self.store, load.QWAIT, self.cores, like.per_core_mrps).run(quick)
        (entry,) = data["rack"]["servers"]
        (program,) = waits.description.data["rack"]["servers"]
        express = links.LINKS[links.PAPER if is_papers else links.ON_CHIP]
        interface = {**entry["server"]["dma_nic"], "express": dict(express)}
        server = {
            **entry,
            "program": PROGRAM.format(store=self.store),
            "systems": program["systems"],
            "server": {**entry["server"], "dma_nic": interface},
        }
        requests = (QUICK_REQUESTS if quick else REQUESTS)[self.store] * self.cores
        return Run(
            Description.from_dict(
                {
                    **data,
                    "rack": {**data["rack"], "servers": [server]},
                    "measure": {**data["measure"], "requests": requests},
                },
                source=f"{self.store}, QWAIT, {self.cores} cores, {SYSTEMS[self.system]}, "
                f"{INTERFACES[self.interface]}",
            )
        )


def _points(quick: bool) -> dict[Any, Run]:
    cases = (
        SplitCase(store, system, interface, cores)
        for interface, store in itertools.product(INTERFACES, STORES)
        for cores in (QUICK_CORES[store, interface] if quick else CORES[interface])
        for system in SYSTEMS
    )
    return {case: case.run(quick) for case in cases}


def core_ns(result: Mapping[str, Any]) -> float:
    """Return the time of a request in a core.

    These are the cycles in which a thread neither halts nor waits for other threads of the core,
    including the warm-up, divided by the number of requests.
    """
    (server,), (client,) = result["servers"], result["clients"]
    cycles = sum(parts(server["cores"]).values())
    return float(cycles / client["statistics"]["responses"] / CLOCK_GHZ)


def waiting_ns(result: Mapping[str, Any]) -> float:
    """Return the rest of the mean latency: the queue, and the path to the core and back."""
    return offload.latency_ns(result, "mean") - core_ns(result)


CORE, REST = "in a core", "queue and way"
_PARTS = {CORE: core_ns, REST: waiting_ns}


def _pairs(
    results: Results, store: str, interface: str, system: str
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the results of the baseline and of the system, for each number of cores."""
    cases = [
        case
        for case in results
        if isinstance(case, SplitCase)
        and (case.store, case.interface, case.system) == (store, interface, system)
    ]
    others = [dataclasses.replace(case, system=BASELINE) for case in cases]
    if not cases or any(other not in results for other in others):
        raise KeyError(f"{store}, {interface}")
    return [
        (results[other].result, results[case].result)
        for other, case in zip(others, cases, strict=True)
    ]


def queue_percent(results: Results, store: str, interface: str, system: str = CARGO) -> float:
    """Return the queue's part of the improvement of the mean latency.

    Both are sums over the numbers of cores. Raises UndecidedError if there is none.
    """
    pairs = _pairs(results, store, interface, system)
    gained, waited = (
        sum(of(without) - of(improved) for without, improved in pairs)
        for of in (functools.partial(offload.latency_ns, statistic="mean"), waiting_ns)
    )
    if gained <= 0:
        raise UndecidedError(
            f"with {SYSTEMS[system]} the mean latency does not fall with certainty, so there is no "
            "improvement to divide"
        )
    return 100 * waited / gained


def _rows(results: Results) -> list[Row]:
    return [
        Row.measured(
            case,
            results[case],
            series=f"{STORES[case.store]}, {case.cores}C, {SYSTEMS[case.system]}, "
            f"{INTERFACES[case.interface]}",
            x=number,
            x_unit="part",
            y=value(results[case].result),
            y_unit="ns",
            statistic=part,
        )
        for case in results
        if isinstance(case, SplitCase)
        for number, (part, value) in enumerate(_PARTS.items())
    ]


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda row: f"{STORES[row.labels['store']]}, {INTERFACES[row.labels['interface']]}",
        group=lambda row: f"{row.labels['cores']}C, {row.statistic}",
        y=plots.linear("ns of the mean latency"),
        colour=plots.Series.label("system", "system", SYSTEMS, plots.COLOURS),
        # A transaction takes a hundred times as long as a get.
        shared_y=False,
    )


FIGURES = (
    Figure(
        name="cargo.17",
        title="The mean latency of a request: in a core, and the rest",
        caption=(
            "Both stores on cores with four threads each that wait with QWAIT, so that cycles that "
            "are neither halted nor another thread's are those of requests. A core has a partition "
            "of the ready set, so that the interface chooses the core. The rest of the latency at "
            "the client is the queue, and the path to the core and back, which is the same with "
            "CARGO except for the interface's additional time. Two systems: the paper's interface "
            "under the lower load, and one of 24 cores at 2 GHz on the chip. The paper shows the "
            "parts of the improvement."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
    ),
)

_QUOTE = (
    "CARGO achieves 68%, 58% improvement from queuing delay and 32%, 42% improvement from core "
    "for memcached and Silo"
)

_EMC_QUOTE = (
    "with EMC, queuing delay contributes 34% and 11% along with 66% and 89% contribution coming "
    "from core for memcached and Silo"
)

CLAIMS = tuple(
    Claim(
        f"cargo.17.{name}-{STORES[store].lower()}",
        "Section 6.3",
        quote,
        "%",
        f"{store}: the part of the improvement of the mean latency outside of the core, behind the "
        "paper's interface, under the lower load; of sums over the numbers of cores",
        within(percent, 0.2, below="unexplained", above="unexplained"),
        functools.partial(queue_percent, store=store, interface=PAPER, system=system),
        paper_value=percent,
    )
    for system, name, quote, percents in (
        (CARGO, "queue", _QUOTE, (68.0, 58.0)),
        (EMC, "emc-queue", _EMC_QUOTE, (34.0, 11.0)),
    )
    for store, percent in zip((CACHE, DATABASE), percents, strict=True)
)
