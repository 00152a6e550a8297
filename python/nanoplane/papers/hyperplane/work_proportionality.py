"""Section V-D, work proportionality: Figures 11 and 12, and the paper's claims about them."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from nanoplane.claims import Claim, Part, above, at_most, below, part, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.hyperplane import multicore
from nanoplane.papers.hyperplane.cases import (
    MODE_COLOURS,
    MODES,
    OPTIONAL,
    POWER_OPTIMISED,
    REGULAR,
    SHORT_ITEMS,
    SYSTEM_DASHES,
    SYSTEMS,
    Case,
    measured_requests,
    with_used_rings,
)
from nanoplane.sweep import Run

TASK = "packet-encapsulation"
BASELINE, TIGHTEST = "spin-poll-mode", "spin"

QUEUES = multicore.QUEUES
"""The paper gives no number of queues for Figures 11 and 12(a). The number of the preceding figure
and of 12(b) agrees with its text: the heads of 400 queues, a line each, just fit into the L1 cache,
and "start to fall out of the L1 cache at higher loads"."""
FEW_QUEUES = 100
"""A second number of queues: that of each core in Figure 10. The lines that polls read here, four
for each queue in poll mode, fit into the L1 cache, and those of 400 queues do not."""
COUNTS = (QUEUES, FEW_QUEUES)
SHAPE = "fully-balanced"
ZERO_LOAD = 0.002
"""The load that represents no load: one request in some 100 us."""
LOADS = (ZERO_LOAD, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUICK_LOADS = (ZERO_LOAD, 0.1, 0.5, 0.7, 0.9)
HALF = 0.5
"""The load above which the paper has an anomaly; `--quick` has it, too."""
REQUESTS = 10_000
LIGHT_REQUESTS = 500

CO_RUNNER = "matrix-multiplication"
CO_RUNNER_LOADS, QUICK_CO_RUNNER_LOADS = (0.05, 0.3, 0.6, 0.9), (0.05, 0.9)
"""The co-runner never halts, so that time costs more than requests: the lowest load is higher."""
CO_RUNNER_REQUESTS = 10_000
"""Requests, multiplied by the load so that all loads take the same time."""
CO_RUNNER_WARM_MRPS = 2.0
"""Three quarters of HyperPlane's throughput beside the co-runner: a lower rate would only take
longer."""
PEAK_PRECISION = 0.02
"""The precision of the throughput beside the co-runner, which only sets the offered load."""
BESIDE = "all instructions of the co-runner"


def _busy(notify: str, queues: int = QUEUES) -> Case:
    return Case(TASK, notify, SHAPE if queues > 1 else "single-queue", queues)


def _loaded(notify: str, load: float, queues: int = QUEUES) -> Case:
    return _busy(notify, queues).at(load)


def _run(case: Case, quick: bool) -> Run:
    light = case.load is not None and case.load <= ZERO_LOAD
    return case.run(quick, LIGHT_REQUESTS if light else REQUESTS, REQUESTS)


def _ipc_points(quick: bool) -> dict[Case, Run]:
    loads = QUICK_LOADS if quick else LOADS
    cases = list(itertools.starmap(_loaded, itertools.product(SYSTEMS, loads, COUNTS)))
    cases += list(itertools.starmap(_busy, itertools.product(SYSTEMS, (1, *COUNTS))))
    points = {case: _run(case, quick) for case in cases}
    beside = QUICK_CO_RUNNER_LOADS if quick else CO_RUNNER_LOADS
    for notify, load in itertools.product(SYSTEMS, beside):
        case = _beside_co_runner(notify, load)
        # Instructions a cycle have no interval: they need no five rounds over the queues.
        requests = measured_requests(round(CO_RUNNER_REQUESTS * load), quick, queues=0)
        description = case.description(requests)
        description = with_used_rings(description.set("measure.rings", "used"), CO_RUNNER_WARM_MRPS)
        peak = dataclasses.replace(case, load=None, of=None).saturated(quick, REQUESTS)
        peak = peak.set("measure.precision", PEAK_PRECISION)
        points[case] = Run(description, peak=peak, part=load)
    return points


def _beside_co_runner(notify: str, load: float) -> Case:
    return dataclasses.replace(_busy(notify), co_runner=CO_RUNNER).at(load)


def _co_runner_ipc(results: Results, notify: str, load: float) -> float:
    (core,) = results[_beside_co_runner(notify, load)].result["cores"]
    return float(core["harts"][1]["ipc"])


def _co_runner_gain(results: Results, notify: str) -> float:
    """Return the co-runner's IPC at the highest load over that at the lowest."""
    lowest, *_, highest = CO_RUNNER_LOADS
    return _co_runner_ipc(results, notify, highest) / _co_runner_ipc(results, notify, lowest)


def _ipc(results: Results, case: Case) -> float:
    return float(results[case].result["cores"][0]["ipc"])


def _useful_ipc(results: Results, case: Case) -> float:
    """Return the IPC of the items alone: an item's instructions without unsuccessful polls.

    These are the instructions with one queue that is never empty. Like the IPC, the count begins
    with the traffic.
    """
    busy, result = results[_busy(case.notify, 1)].result, results[case].result
    return float(busy["cores"][0]["ipc"] * _items_a_second(result) / _items_a_second(busy))


def _items_a_second(result: Mapping[str, Any]) -> float:
    """Return the rate of deliveries during the counting of instructions and energy."""
    spent = result["energy_nj"]
    return float(spent["total"] / spent["per_request"] / spent["seconds"])


def _ipc_rows(results: Results) -> list[Row]:
    rows = []
    for notify, kind, queues in itertools.product(SYSTEMS, ("all", "useful"), COUNTS):
        for load in (*LOADS, None):
            case = _busy(notify, queues) if load is None else _loaded(notify, load, queues)
            if case not in results or _busy(notify, 1) not in results:
                continue
            of = _ipc if kind == "all" else _useful_ipc
            rows.append(
                Row.measured(
                    case,
                    results[case],
                    series=f"{SYSTEMS[notify]}, {queues} queues, {kind} instructions",
                    x=100 if load is None else 100 * load,
                    x_unit="% of the peak",
                    y=of(results, case),
                    y_unit="instructions a cycle",
                    statistic=f"{kind} instructions",
                )
            )
    for notify, load in itertools.product(SYSTEMS, CO_RUNNER_LOADS):
        case = _beside_co_runner(notify, load)
        if case not in results:
            continue
        rows.append(
            Row.measured(
                case,
                results[case],
                series=f"co-runner beside {SYSTEMS[notify]}",
                x=100 * load,
                x_unit="% of the peak",
                y=_co_runner_ipc(results, notify, load),
                y_unit="instructions a cycle",
                statistic=BESIDE,
            )
        )
    return rows


def _ipc_chart(rows: list[Row]) -> plots.Chart:
    beside = [row for row in rows if row.statistic == BESIDE]
    own: Any = _own_ipc_chart([row for row in rows if row.statistic != BESIDE])
    if not beside:
        return _own_ipc_chart(rows)
    co_runner: Any = plots.panels(
        beside,
        lambda _: "The co-runner on the other hardware thread",
        x=plots.linear("load, % of the peak beside the co-runner"),
        y=plots.linear("instructions a cycle"),
        colour=plots.Series.systems("data plane", "notify", SYSTEMS),
        dash=plots.Series.label("data plane", "notify", SYSTEMS, SYSTEM_DASHES),
    )
    return plots.stacked(own, co_runner)


def _own_ipc_chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda row: f"{row.labels['queues']} queues",
        x=plots.linear("load, % of the peak"),
        y=plots.linear("instructions a cycle"),
        colour=plots.Series.systems("data plane", "notify", SYSTEMS),
        dash=plots.Series(
            "instructions",
            lambda row: row.statistic.split()[0],
            ("all", "useful"),
            plots.DASHES,
        ),
        columns=len(COUNTS),
    )


def _bend(results: Results) -> Part:
    """Return the largest deviation of HyperPlane's IPC from a line, in % of the last value."""

    def ipc_and_rate(load: float) -> tuple[float, float]:
        # The number of arrivals in a short run differs from the expected one.
        case = _loaded("hyperplane", load)
        return _ipc(results, case), _items_a_second(results[case].result)

    end, most = ipc_and_rate(LOADS[-1])

    def bend(load: float) -> float:
        ipc, rate = ipc_and_rate(load)
        return 100 * abs(ipc - end * rate / most) / end

    return part(max, bend, LOADS)


def _highest(results: Results, baseline: str, queues: int) -> Part:
    """Return a baseline's IPC without load over its largest with load."""
    empty = _ipc(results, _loaded(baseline, ZERO_LOAD, queues))
    return part(min, lambda load: empty / _ipc(results, _loaded(baseline, load, queues)), LOADS[1:])


def _useless(results: Results) -> float:
    case = _loaded(BASELINE, ZERO_LOAD)
    return 100 * (1 - _useful_ipc(results, case) / _ipc(results, case))


# Figure 12: power, and the cost of waking up.

_MODE_DASHES = (*SYSTEM_DASHES, [1, 3])


def _powered(notify: str, power: str, load: float | None, queues: int = QUEUES) -> Case:
    case = dataclasses.replace(_busy(notify, queues), power=power)
    # Both modes have the same offered load: saturated cores hardly ever halt.
    return case if load is None else case.at(load, of=_busy(notify, queues))


def _awake(notify: str, power: str, load: float) -> Case:
    """Return the case of Figure 10(a), scale-out, in a mode."""
    case = multicore.saturated(notify, multicore.BALANCED, 1)
    return multicore.loaded(dataclasses.replace(case, power=power), load)


def _power_points(quick: bool) -> dict[Case, Run]:
    points = {}
    for notify, power in MODES:
        for load, queues in itertools.product((ZERO_LOAD, None), COUNTS):
            case = _powered(notify, power, load, queues)
            points[case] = _run(case, quick)
        for load in multicore.QUICK_TAIL_LOADS if quick else multicore.LOADS:
            case = _awake(notify, power, load)
            points[case] = multicore.run(case, quick)
    return points


def _core_watts(results: Results, case: Case) -> float:
    return float(results[case].result["power_w"]["cores"][0]["total"])


def _mode(row: Row) -> str:
    return MODES[row.labels["notify"], row.labels["power"]]


def _power_rows(results: Results) -> list[Row]:
    rows = []
    for (notify, power), load, queues in itertools.product(MODES, (ZERO_LOAD, None), COUNTS):
        case = _powered(notify, power, load, queues)
        if case not in results:
            continue
        rows.append(
            Row.measured(
                case,
                results[case],
                series=f"{MODES[notify, power]}, {queues} queues",
                x=100 if load is None else 0,
                x_unit="% load",
                y=_core_watts(results, case),
                y_unit="watts",
                statistic="power of the core",
            )
        )
    tails = (
        multicore.tail_row(results, _awake(notify, power, load), MODES[notify, power])
        for (notify, power), load in itertools.product(MODES, multicore.LOADS)
    )
    return rows + [row for row in tails if row is not None]


def _power_chart(rows: list[Row]) -> plots.Chart:
    mode = plots.Series("data plane", _mode, list(MODES.values()), MODE_COLOURS)
    dashes = plots.Series("data plane", _mode, list(MODES.values()), _MODE_DASHES)
    charts: list[Any] = []
    if watts := [row for row in rows if row.y_unit == "watts"]:
        charts.append(
            plots.bars(
                watts,
                lambda row: f"Power of the core, {row.labels['queues']} queues",
                group=lambda row: "saturation" if row.x else "no load",
                y=plots.linear("watts"),
                colour=mode,
            )
        )
    if tails := [row for row in rows if row.y_unit != "watts"]:
        charts.append(
            plots.panels(
                tails,
                lambda _: "p99 latency of four cores, 400 queues, scale-out",
                x=plots.linear("load, % of HyperPlane's scale-out peak"),
                y=plots.logarithmic("microseconds"),
                colour=mode,
                dash=dashes,
            )
        )
    return plots.beside(*charts)


def _idle_power_percent(results: Results) -> float:
    idle = _core_watts(results, _powered("hyperplane", POWER_OPTIMISED, ZERO_LOAD))
    return 100 * idle / _core_watts(results, _powered("hyperplane", POWER_OPTIMISED, None))


def _idle_over_busy(results: Results, baseline: str, queues: int) -> float:
    idle = _core_watts(results, _powered(baseline, REGULAR, ZERO_LOAD, queues))
    return idle / _core_watts(results, _powered(baseline, REGULAR, None, queues))


def _tail(results: Results, notify: str, power: str, load: float) -> float:
    return float(results[_awake(notify, power, load)].result["latency_ns"]["p99"])


def _wake_up_percent(results: Results, load: float) -> float:
    optimised = _tail(results, "hyperplane", POWER_OPTIMISED, load)
    return 100 * (optimised / _tail(results, "hyperplane", REGULAR, load) - 1)


FIGURES = (
    Figure(
        name="hyperplane.11",
        title="Instructions a cycle, over load",
        caption=(
            f"Packet encapsulation, {QUEUES} queues, and {FEW_QUEUES} beside it, one data plane "
            "core of the 16-core server of Table I. Useful instructions are those that an item "
            "takes where no poll is in vain. Below, as in Figure 11(b) of the paper, with "
            f"{QUEUES} queues: the core has two hardware threads, and a program that multiplies "
            "matrices runs on the other one."
        ),
        points=_ipc_points,
        rows=_ipc_rows,
        chart=_ipc_chart,
        optional=OPTIONAL,
    ),
    Figure(
        name="hyperplane.12",
        title="Power, and what waking up costs",
        caption=(
            f"Packet encapsulation. Left: the power of the data plane core, {QUEUES} queues, and "
            f"{FEW_QUEUES} beside it, without load and saturated. Right: the servers of Figure "
            "10(a), scale-out. Power-optimised: a core that halts in QWAIT goes to C1, and takes "
            "0.5 us to wake up."
        ),
        points=_power_points,
        rows=_power_rows,
        chart=_power_chart,
        optional=OPTIONAL,
    ),
)


def _of_few_queues() -> Iterator[Claim]:
    """Make the claims of the lines of Figures 11 and 12 that the number of queues turns round."""
    for name, notify in (("", BASELINE), ("-tightest", TIGHTEST)):
        yield Claim(
            f"hyperplane.11.spin-highest{name}-{FEW_QUEUES}",
            "Section V-D",
            "The IPC of the spinning core is the highest at 0% load",
            "times",
            f"{notify}, {FEW_QUEUES} queues: IPC without load over its largest IPC with load",
            above(1, "unexplained"),
            functools.partial(_highest, baseline=notify, queues=FEW_QUEUES),
            figure="hyperplane.11",
        )
        yield Claim(
            f"hyperplane.12.spin-disproportional{name}-{FEW_QUEUES}",
            "Section V-D",
            "the spinning data plane consumes more power at zero load compared to saturation",
            "times",
            f"{notify}, {FEW_QUEUES} queues: power of the core without load over that at "
            "saturation",
            above(1, "unexplained"),
            functools.partial(_idle_over_busy, baseline=notify, queues=FEW_QUEUES),
            figure="hyperplane.12",
        )


def _zero_load_gain(results: Results, queues: int) -> float:
    """Return HyperPlane's power without load over that of the baseline, both without C1."""
    hyperplane, spinning = (
        _core_watts(results, _powered(notify, REGULAR, ZERO_LOAD, queues))
        for notify in ("hyperplane", BASELINE)
    )
    return hyperplane / spinning


def _anomaly(results: Results, queues: int) -> Part:
    """Return by how much the IPC above half load is below a line, in % of that without load.

    The line goes through the IPC without load and at half load; the load with the most counts. A
    core whose time is divided between polls and items of constant IPC stays on the line.
    """

    def ipc(load: float) -> float:
        return _ipc(results, _loaded(BASELINE, load, queues))

    def below_line(load: float) -> float:
        part_of_way = (load - ZERO_LOAD) / (HALF - ZERO_LOAD)
        line = ipc(ZERO_LOAD) + part_of_way * (ipc(HALF) - ipc(ZERO_LOAD))
        return 100 * (line - ipc(load)) / ipc(ZERO_LOAD)

    return part(max, below_line, [load for load in LOADS if load > HALF])


_NO_ANOMALY = (
    "items evict what polls read at every load, so that the IPC falls fastest near no load: with "
    "400 queues and a cache of 128 KB, which holds what they read, from 3.5 to 1.5 up to half load "
    "and to 1.3 above; with 32 KB polls miss at every load (docs/appendix/figures-experiments.md). "
    "Why it falls above half load in the paper is unexplained"
)
_WAITING = (
    "polls of 400 queues wait for lines, and such a core draws less: with a first-level cache of "
    "256 KB, which holds what they read, it is 0.42 (docs/appendix/figures-experiments.md)"
)


def _of_each_count() -> Iterator[Claim]:
    """Make the claims about the anomaly of Figure 11 and about power without C1."""
    for queues in COUNTS:
        suffix = "" if queues == QUEUES else f"-{queues}"
        yield Claim(
            f"hyperplane.11.spin-anomaly{suffix}",
            "Section V-D",
            "Whereas the IPC of the spinning data plane generally decreases at higher loads, we "
            "observe an anomaly at loads above 50%. This anomaly arises because queue heads start "
            "to fall out of the L1 cache at higher loads, slowing the IPC of spinning",
            "%",
            f"{BASELINE}, {queues} queues: by how much the IPC at loads above half is below a "
            "straight line through those without load and at half load, the most, in % of that "
            "without load; more than 5 %, so that a figure would show it",
            above(5, _NO_ANOMALY),
            functools.partial(_anomaly, queues=queues),
            figure="hyperplane.11",
            paper_value="visible",
        )
        yield Claim(
            f"hyperplane.12.idle-less{suffix}",
            "Section V-D",
            "HyperPlane already consumes much less power at zero load by halting the execution",
            "times",
            f"{queues} queues, without load, without C1: power of HyperPlane's core over that of "
            f"{BASELINE}'s; at most half",
            at_most(0.5, _WAITING),
            functools.partial(_zero_load_gain, queues=queues),
            figure="hyperplane.12",
            paper_value="far below 1",
        )


CLAIMS = (
    *_of_few_queues(),
    *_of_each_count(),
    Claim(
        "hyperplane.11.linear",
        "Section V-D",
        "In HyperPlane, IPC … grows linearly with load",
        "%",
        "HyperPlane: the most by which its IPC is off a straight line through zero, as a part of "
        "its IPC at load 0.9",
        at_most(5, "unexplained"),
        _bend,
        paper_value=0.0,
    ),
    Claim(
        "hyperplane.11.spin-highest",
        "Section V-D",
        "The IPC of the spinning core is the highest at 0% load",
        "times",
        f"{BASELINE}, {QUEUES} queues: IPC without load over its largest IPC with load",
        above(
            1,
            "what polls of 400 queues read does not stay in the L1 cache, so that working on items "
            "has the higher IPC; with 256 KB polls have 3.4, and saturation 1.5 "
            "(docs/appendix/figures-experiments.md)",
        ),
        lambda r: _highest(r, BASELINE, QUEUES),
    ),
    Claim(
        "hyperplane.11.spin-highest-tightest",
        "Section V-D",
        "The IPC of the spinning core is the highest at 0% load",
        "times",
        f"{TIGHTEST}, {QUEUES} queues: IPC without load over its largest IPC with load",
        above(1, "unexplained"),
        lambda r: _highest(r, TIGHTEST, QUEUES),
    ),
    Claim(
        "hyperplane.11.spin-useless",
        "Section V-D",
        "At zero load, all the committed instructions are useless",
        "%",
        f"{BASELINE}: instructions beyond those that the items need, without load",
        above(95, "the few items of the lightest load need more"),
        _useless,
        paper_value=100.0,
    ),
    Claim(
        "hyperplane.11.co-runner-spin",
        "Section V-D",
        "when the spinning data plane is used, the co-runner IPC increases with the data plane "
        "load",
        "times",
        f"{BASELINE}: the co-runner's IPC at load {CO_RUNNER_LOADS[-1]} over that at "
        f"{CO_RUNNER_LOADS[0]}",
        above(1, "unexplained"),
        lambda r: _co_runner_gain(r, BASELINE),
    ),
    Claim(
        "hyperplane.11.co-runner-spin-tightest",
        "Section V-D",
        "when the spinning data plane is used, the co-runner IPC increases with the data plane "
        "load",
        "times",
        f"{TIGHTEST}: the co-runner's IPC at load {CO_RUNNER_LOADS[-1]} over that at "
        f"{CO_RUNNER_LOADS[0]}",
        above(1, "unexplained"),
        lambda r: _co_runner_gain(r, TIGHTEST),
    ),
    Claim(
        "hyperplane.11.co-runner-hyperplane",
        "Section V-D",
        "With HyperPlane, however, the co-runner IPC decreases when data plane load increases",
        "times",
        f"HyperPlane: the co-runner's IPC at load {CO_RUNNER_LOADS[-1]} over that at "
        f"{CO_RUNNER_LOADS[0]}",
        below(1, "unexplained"),
        lambda r: _co_runner_gain(r, "hyperplane"),
        paper_value="below 1",
    ),
    Claim(
        "hyperplane.12.spin-disproportional",
        "Section V-D",
        "the spinning data plane consumes more power at zero load compared to saturation",
        "times",
        f"{BASELINE}, {QUEUES} queues: power of the core without load over that at saturation",
        above(
            1,
            "its IPC is lower without load, as the claims of Figure 11 say; with a first-level "
            "cache of 256 KB, which holds what 400 polls read, it is 1.5 "
            "(docs/appendix/figures-experiments.md)",
        ),
        lambda r: _idle_over_busy(r, BASELINE, QUEUES),
    ),
    Claim(
        "hyperplane.12.spin-disproportional-tightest",
        "Section V-D",
        "the spinning data plane consumes more power at zero load compared to saturation",
        "times",
        f"{TIGHTEST}, {QUEUES} queues: power of the core without load over that at saturation",
        above(1, "unexplained"),
        lambda r: _idle_over_busy(r, TIGHTEST, QUEUES),
    ),
    Claim(
        "hyperplane.12.idle-power",
        "Section V-D",
        "core power consumption reduces down to only 16.2% at zero load",
        "%",
        "HyperPlane, power-optimised: power of the core without load, as a part of that at "
        "saturation",
        within(
            16.2,
            0.2,
            below="unexplained",
            above="what is left in C1 is leakage, 1.58 W, and a saturated core that encapsulates "
            "mostly waits for lines and draws 4.7 W; one that encrypts draws 9.6 W, of which "
            "it is 16.4 %, and one that polls without load 7.3 W, of which it is 22 %",
        ),
        _idle_power_percent,
        paper_value=16.2,
    ),
    Claim(
        "hyperplane.12.wake-up-idle",
        "Section V-D",
        "at zero load, power-optimized HyperPlane yields 38% higher tail latency",
        "%",
        "HyperPlane, the lowest load: by how much the p99 is higher in power-optimised mode",
        within(38, 0.2, below="unexplained", above=SHORT_ITEMS),
        lambda r: _wake_up_percent(r, multicore.LOADS[0]),
        paper_value=38,
    ),
    Claim(
        "hyperplane.12.wake-up-gain",
        "Section V-D",
        "its achieved tail latency is still 8.9x lower than the one achieved by the spinning "
        "data plane",
        "times",
        f"the lowest load: {BASELINE}'s p99 over that of HyperPlane in power-optimised mode",
        within(
            8.9,
            0.2,
            above="unexplained",
            below="a round of 100 empty queues takes 0.4 us here, as they are in the L1 cache, and "
            "waking up 0.5 us; at the 100 ns that a poll takes in the paper a round is 10 us "
            "(docs/appendix/figures-experiments.md)",
        ),
        lambda r: (
            _tail(r, BASELINE, REGULAR, multicore.LOADS[0])
            / _tail(r, "hyperplane", POWER_OPTIMISED, multicore.LOADS[0])
        ),
        paper_value=8.9,
    ),
    Claim(
        "hyperplane.12.wake-up-half",
        "Section V-D",
        "only 8% higher latency at 50% load",
        "%",
        "HyperPlane, half of the load: by how much the p99 is higher in power-optimised mode",
        within(8, 0.2, below="unexplained", above=SHORT_ITEMS, rounded=1),
        lambda r: _wake_up_percent(r, 0.5),
        paper_value=8,
    ),
)
