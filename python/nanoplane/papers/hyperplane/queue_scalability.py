"""Section V-B, queue scalability: Figures 8 and 9, and what the paper claims of them."""

import itertools
import math
import statistics
from collections.abc import Callable

import altair

from nanoplane.claims import (
    Claim,
    Combine,
    Judgement,
    Part,
    above,
    below,
    between,
    judged,
    part,
    within,
)
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import (
    MODES,
    OPTIONAL,
    POLLS,
    POWER_OPTIMISED,
    QUEUES,
    REGULAR,
    SHAPES,
    SYSTEM_DASHES,
    SYSTEMS,
    TASKS,
    Case,
)
from nanoplane.sweep import Run

PEAK_REQUESTS = 5_000

LIGHT_LOAD = 0.008
"""Light traffic, as a part of the same system's peak with one queue (the paper: "<1% load")."""
LIGHT_SHAPES = ("single-queue", "fully-balanced")
"""The paper does not say which shape light traffic has: the two extremes."""
LIGHT_REQUESTS = 10_000
_SLOW = {"spin": (1000, 1_000), "wrs": (1000, 1_000), "spin-poll-mode": (100, 2_000)}
"""From how many queues on polls of a spinning core miss, so that none of them can be skipped, and
how many requests there are then. A poll reads one line, or almost four, and L1 has 512."""
SLOW_TASK = "crypto-forwarding"
"""With `--quick`, Figure 9 is without it: an item takes 5 us, so that there are 0.6 ms from one
request to the next, in which a core polls 60,000 queues."""


def _light_requests(case: Case) -> int:
    queues, requests = _SLOW.get(case.notify, (math.inf, 0))
    return requests if case.queues >= queues else LIGHT_REQUESTS


def _light_tasks(quick: bool) -> list[str]:
    return [task for task in TASKS if not (quick and task == SLOW_TASK)]


def light(task: str, notify: str, shape: str, queues: int, power: str = REGULAR) -> Case:
    """Return the case of light traffic."""
    case = Case(task, notify, shape, queues, power=power)
    return case.at(LIGHT_LOAD, of=Case(task, notify, shape, 1))


def _peak_points(quick: bool) -> dict[Case, Run]:
    cases = itertools.starmap(Case, itertools.product(TASKS, SYSTEMS, SHAPES, QUEUES))
    return {case: case.run(quick, PEAK_REQUESTS, 0) for case in cases}


def _light_points(quick: bool) -> dict[Case, Run]:
    # Two queues are not in the figure: a claim is about them.
    every = itertools.product(_light_tasks(quick), MODES, LIGHT_SHAPES, (*QUEUES, 2))
    cases = [
        light(task, notify, shape, queues, power) for task, (notify, power), shape, queues in every
    ]
    return {case: case.run(quick, _light_requests(case), PEAK_REQUESTS) for case in cases}


def _peak_rows(results: Results) -> list[Row]:
    rows = []
    for case in itertools.starmap(Case, itertools.product(TASKS, SYSTEMS, SHAPES, QUEUES)):
        outcome = results.get(case)
        if outcome is None:
            continue
        interval = outcome.result.get("throughput_mrps_ci95")
        rows.append(
            Row(
                series=f"{TASKS[case.task]}, {SYSTEMS[case.notify]}, {SHAPES[case.shape]}",
                x=case.queues,
                x_unit="queues",
                y=outcome.result["throughput_mrps"],
                y_unit="million requests a second",
                statistic="peak throughput",
                labels=labels(case),
                ci95=None if interval is None else (interval[0], interval[1]),
                samples=outcome.result["latency_ns"]["samples"],
                steady=outcome.result["steady"],
            )
        )
    return rows


def _light_rows(results: Results) -> list[Row]:
    rows = []
    for mode, shape, statistic, task, queues in itertools.product(
        MODES, LIGHT_SHAPES, ("mean", "p99"), TASKS, QUEUES
    ):
        case = light(task, mode[0], shape, queues, mode[1])
        outcome = results.get(case)
        if outcome is None:
            continue
        latency = outcome.result["latency_ns"]
        interval = latency.get(f"{statistic}_ci95")
        rows.append(
            Row(
                series=f"{MODES[mode]}, {SHAPES[shape]}, {TASKS[task]}",
                x=queues,
                x_unit="queues",
                y=latency[statistic] / 1000,
                y_unit="microseconds",
                statistic=f"{statistic} latency",
                labels=labels(case),
                ci95=None if interval is None else (interval[0] / 1000, interval[1] / 1000),
                samples=latency["samples"],
                steady=outcome.result["steady"],
            )
        )
    return rows


def _peak_chart(rows: list[Row]) -> altair.TopLevelMixin:
    return plots.panels(
        rows,
        lambda row: TASKS[row.labels["task"]],
        x=plots.queues(QUEUES),
        y=plots.linear("million requests a second"),
        colour=plots.Series.label("traffic", "shape", SHAPES, plots.COLOURS),
        dash=plots.Series.label("data plane", "notify", SYSTEMS, SYSTEM_DASHES),
        shared_y=False,
    )


def _light_chart(rows: list[Row]) -> altair.TopLevelMixin:
    statistic = plots.Series(
        "latency", lambda row: row.statistic.split()[0], ("mean", "p99"), plots.DASHES
    )
    return plots.panels(
        rows,
        lambda row: (
            f"{MODES[row.labels['notify'], row.labels['power']]}, {SHAPES[row.labels['shape']]}"
        ),
        x=plots.queues(QUEUES),
        y=plots.logarithmic("microseconds"),
        colour=plots.Series.label("task", "task", TASKS, plots.COLOURS),
        dash=statistic,
        columns=2,
    )


FIGURES = (
    Figure(
        name="hyperplane.8",
        title="Peak throughput of a spinning data plane and HyperPlane",
        caption=(
            "One data plane core of the 16-core server of Table I, queues never empty for want of "
            "arrivals."
        ),
        points=_peak_points,
        rows=_peak_rows,
        chart=_peak_chart,
        optional=OPTIONAL,
    ),
    Figure(
        name="hyperplane.9",
        title="Latency under light traffic",
        caption=(
            "One data plane core of the 16-core server of Table I. Poisson "
            f"arrivals at {LIGHT_LOAD:.1%} of the peak that the same data plane reached with one "
            "queue. Latency is from an item's arrival in its queue to the ring of the tenant's "
            "doorbell; bars are 95 % confidence intervals."
        ),
        points=_light_points,
        rows=_light_rows,
        chart=_light_chart,
        optional=OPTIONAL,
    ),
)


# What the paper claims. It measured against a data plane in the manner of DPDK, which is
# `spin-poll-mode`; the tightest polling loop stands beside it where that makes a difference.

BASELINE = "spin-poll-mode"
TIGHTEST = "spin"


def _throughput(results: Results, case: Case) -> float:
    return float(results[case].result["throughput_mrps"])


def _latency_us(results: Results, statistic: str, case: Case) -> float:
    return float(results[case].result["latency_ns"][statistic]) / 1000


_PEAKS = tuple(itertools.product(TASKS, SHAPES, QUEUES))
_LIGHT = tuple(itertools.product(TASKS, LIGHT_SHAPES, QUEUES))


def _peak_gain(results: Results, baseline: str) -> Part:
    def gain(case: tuple[str, str, int]) -> float:
        task, shape, queues = case
        hyperplane = _throughput(results, Case(task, "hyperplane", shape, queues))
        return hyperplane / _throughput(results, Case(task, baseline, shape, queues))

    return part(statistics.fmean, gain, _PEAKS)


def _latency_gain(results: Results, statistic: str, baseline: str) -> Part:
    def gain(case: tuple[str, str, int]) -> float:
        task, shape, queues = case
        spinning = _latency_us(results, statistic, light(task, baseline, shape, queues))
        return spinning / _latency_us(results, statistic, light(task, "hyperplane", shape, queues))

    return part(statistics.fmean, gain, _LIGHT)


def _kept(results: Results, task: str, notify: str, shape: str, of: int = 1) -> float:
    """Return the part of the peak with `of` queues that is left with 1000."""
    case = Case(task, notify, shape, 1000)
    return _throughput(results, case) / _throughput(results, Case(task, notify, shape, of))


def _tasks(combine: Combine, value: Callable[[str], float]) -> Part:
    """Combine the values of the tasks."""
    return part(combine, value, TASKS)


def _penalty_percent(results: Results, baseline: str) -> Part:
    def penalty(case: tuple[str, str, str]) -> float:
        task, shape, statistic = case
        hyperplane = _latency_us(results, statistic, light(task, "hyperplane", shape, 1))
        return 100 * (
            hyperplane / _latency_us(results, statistic, light(task, baseline, shape, 1)) - 1
        )

    return part(max, penalty, itertools.product(TASKS, LIGHT_SHAPES, ("mean", "p99")))


def _spread_growth(results: Results, baseline: str) -> Part:
    """Return the least growth of p99 - mean from one queue count of 10 and above to the next."""

    def spread(task: str, shape: str, queues: int) -> float:
        case = light(task, baseline, shape, queues)
        return _latency_us(results, "p99", case) - _latency_us(results, "mean", case)

    def growth(case: tuple[str, str, tuple[int, int]]) -> float:
        task, shape, (few, many) = case
        return spread(task, shape, many) / spread(task, shape, few)

    return part(min, growth, itertools.product(TASKS, LIGHT_SHAPES, itertools.pairwise(QUEUES[1:])))


def _growth(results: Results, task: str) -> float:
    """Return how much more the mean has grown at 1000 queues than at 100, from one."""
    one, hundred, thousand = (
        _latency_us(results, "mean", light(task, BASELINE, "fully-balanced", queues))
        for queues in (1, 100, 1000)
    )
    return (thousand - one) / (hundred - one)


def _balanced_gain(results: Results, task: str, queues: int) -> float:
    hyperplane = _throughput(results, Case(task, "hyperplane", "fully-balanced", queues))
    return hyperplane / _throughput(results, Case(task, BASELINE, "fully-balanced", queues))


def _overtaken(results: Results, case: tuple[str, str]) -> float:
    """Return at how many queues the baseline's mean is that of HyperPlane in power-optimised mode.

    Between the numbers of queues that have been run it is taken to be linear.
    """
    task, shape = case
    counts = sorted((*QUEUES, 2))
    ahead = [
        _latency_us(results, "mean", light(task, "hyperplane", shape, queues, POWER_OPTIMISED))
        - _latency_us(results, "mean", light(task, BASELINE, shape, queues))
        for queues in counts
    ]
    if ahead[0] <= 0:
        return 1.0
    for (low, before), (high, after) in itertools.pairwise(zip(counts, ahead, strict=True)):
        if after <= 0:
            return low + (high - low) * before / (before - after)
    return float(counts[-1])


def _two_queues(results: Results, baseline: str) -> Part:
    def gain(case: tuple[str, str]) -> float:
        task, shape = case
        spinning = _latency_us(results, "mean", light(task, baseline, shape, 2))
        return spinning / _latency_us(results, "mean", light(task, "hyperplane", shape, 2))

    return part(min, gain, itertools.product(TASKS, LIGHT_SHAPES))


CLAIMS = (
    Claim(
        "hyperplane.8.gain",
        "Section V-B, abstract",
        "HyperPlane improves the peak throughput by 4.1x, on average",
        4.1,
        "times",
        f"mean over tasks, shapes and queue counts of HyperPlane's peak over {BASELINE}'s",
        "reproduced within 20 %",
        "hyperplane.8",
        judged(
            lambda r: _peak_gain(r, BASELINE),
            within(
                4.1,
                0.20,
                below="polls overlap: encapsulation alone has 2.9 here, and 5.0 with one miss at a "
                "time (docs/figures.md); " + POLLS,
                above="the reason is not known",
            ),
        ),
    ),
    Claim(
        "hyperplane.8.gain-tightest",
        "Section V-B, abstract",
        "HyperPlane improves the peak throughput by 4.1x, on average",
        4.1,
        "times",
        f"the same over the tightest polling loop, {TIGHTEST}: the paper did not have it",
        "reproduced within 20 %",
        "hyperplane.8",
        judged(
            lambda r: _peak_gain(r, TIGHTEST),
            within(
                4.1,
                0.20,
                below="a tight loop has many polls under way at once: one busy queue of 1000 "
                "gives 5 times here, and 16 with one miss at a time (docs/figures.md)",
                above="the reason is not known",
            ),
        ),
    ),
    Claim(
        "hyperplane.8.spin-single-queue",
        "Section V-B",
        "the throughput drop is the most drastic with the SQ traffic",
        "below 1",
        "times",
        f"{BASELINE}: part of the peak kept from 1 to 1000 queues, single queue over the least "
        "of the other shapes; the largest of the tasks",
        "reproduced if below 1",
        "hyperplane.8",
        judged(
            lambda r: _tasks(
                max,
                lambda task: (
                    _kept(r, task, BASELINE, "single-queue")
                    / min(_kept(r, task, BASELINE, s) for s in SHAPES if s != "single-queue")
                ),
            ),
            below(1, "the drop is not larger than that of every other shape"),
        ),
    ),
    Claim(
        "hyperplane.8.spin-concentrated",
        "Section V-B",
        "and is milder with the NC traffic",
        "above 1",
        "times",
        f"{BASELINE}: part of the peak kept from 1 to 1000 queues, non-proportionally concentrated "
        "over single queue; the smallest of the tasks",
        "reproduced if above 1",
        "hyperplane.8",
        judged(
            lambda r: _tasks(
                min,
                lambda task: (
                    _kept(r, task, BASELINE, "non-proportionally-concentrated")
                    / _kept(r, task, BASELINE, "single-queue")
                ),
            ),
            above(1, "the drop is not milder"),
        ),
    ),
    Claim(
        "hyperplane.8.spin-converges",
        "Section V-B",
        "throughput converges to a constant value with these two traffic shapes",
        1.0,
        "times",
        f"{BASELINE}, fully balanced and proportionally concentrated: peak at 1000 queues over "
        "peak at 400, mean over the tasks",
        "reproduced within 10 %",
        "hyperplane.8",
        judged(
            lambda r: part(
                statistics.fmean,
                lambda case: _kept(r, case[0], BASELINE, case[1], 400),
                itertools.product(TASKS, ("fully-balanced", "proportionally-concentrated")),
            ),
            within(
                1,
                0.10,
                below="fully balanced it falls: the rings of 400 queues, 14 MB, fit into the "
                "last-level cache here, and those of 1000 do not; with half of that cache neither "
                "fit, and encapsulation has 0.99 there (docs/figures.md)",
                above="it rises between 400 and 1000 queues",
            ),
        ),
    ),
    Claim(
        "hyperplane.8.maintained",
        "Section V-B",
        "in the SQ and NC traffics … HyperPlane maintains its peak throughput when the total "
        "number of queues is increased",
        1.0,
        "times",
        "HyperPlane, single queue: peak at 1000 queues over peak at 1, the least of the tasks",
        "reproduced within 5 %",
        "hyperplane.8",
        judged(
            lambda r: _tasks(min, lambda task: _kept(r, task, "hyperplane", "single-queue")),
            within(
                1,
                0.05,
                below="the peak falls by more than 5 %",
                above="the peak rises by more than 5 %",
            ),
        ),
    ),
    Claim(
        "hyperplane.8.maintained-concentrated",
        "Section V-B",
        "in the SQ and NC traffics, where the number of active queues is constant (1 and 100, "
        "respectively), HyperPlane maintains its peak throughput … we observe a slight decrease in "
        "throughput for the NC traffic [of packet encapsulation]",
        1.0,
        "times",
        "HyperPlane, non-proportionally concentrated: peak at 1000 queues over peak at 100, mean "
        "over the tasks",
        "reproduced within 15 %, since 5 % of the other queues are active too",
        "hyperplane.8",
        judged(
            lambda r: _tasks(
                statistics.fmean,
                lambda task: _kept(r, task, "hyperplane", "non-proportionally-concentrated", 100),
            ),
            within(
                1,
                0.15,
                below="the peak falls by more than 15 %",
                above="the peak rises by more than 15 %",
            ),
        ),
    ),
    Claim(
        "hyperplane.8.balanced-decrease",
        "Section V-B",
        "HyperPlane also exhibits a slightly larger throughput decrease for the PC and FB traffics",
        "below 1",
        "times",
        "HyperPlane: part of the peak kept from 1 to 1000 queues, fully balanced over single "
        "queue, mean over the tasks",
        "reproduced if below 1",
        "hyperplane.8",
        judged(
            lambda r: _tasks(
                statistics.fmean,
                lambda task: (
                    _kept(r, task, "hyperplane", "fully-balanced")
                    / _kept(r, task, "hyperplane", "single-queue")
                ),
            ),
            below(1, "the decrease is not larger than that of single-queue traffic"),
        ),
    ),
    Claim(
        "hyperplane.8.balanced-gain",
        "Section V-B",
        "under the FB traffic, HyperPlane achieves better peak throughput in comparison to "
        "the spinning data plane in the case of packet encapsulation and task dispatching",
        "above 1",
        "times",
        f"fully balanced, the two tasks: least of HyperPlane's peak over {BASELINE}'s at 100, 400 "
        "and 1000 queues",
        "reproduced if above 1",
        "hyperplane.8",
        judged(
            lambda r: part(
                min,
                lambda case: _balanced_gain(r, *case),
                itertools.product(
                    ("packet-encapsulation", "request-dispatching"), (100, 400, 1000)
                ),
            ),
            above(
                1,
                "a saturated queue is hardly ever empty, so no poll is in vain, while QWAIT-VERIFY "
                "and QWAIT-RECONSIDER are barriers, and an item is counted off its doorbell "
                "atomically: for stores, for what is executed alone and for QWAIT a core waits 626 "
                "of 944 cycles of an item's encapsulation, and 306 of 769 in poll mode. With one "
                "miss at a time encapsulation has 1.00 (docs/figures.md)",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.below-10us",
        "Section V-B",
        "HyperPlane keeps both average and tail latencies below 10 us even at 1000 queues",
        10.0,
        "us",
        "HyperPlane, 1000 queues: the largest p99 of tasks and shapes",
        "reproduced if below 10",
        "hyperplane.9",
        judged(
            lambda r: part(
                max,
                lambda case: _latency_us(r, "p99", light(case[0], "hyperplane", case[1], 1000)),
                itertools.product(TASKS, LIGHT_SHAPES),
            ),
            below(10, "the tail is longer"),
        ),
    ),
    Claim(
        "hyperplane.9.flat",
        "Section V-B",
        "HyperPlane is perfectly queue-scalable, and neither average nor tail latency is affected "
        "with more queues",
        1.0,
        "times",
        "HyperPlane, single queue: the largest of mean and p99 at 1000 queues over the same at 1",
        "reproduced within 5 %",
        "hyperplane.9",
        judged(
            lambda r: _tasks(
                max,
                lambda task: max(
                    _latency_us(r, statistic, light(task, "hyperplane", "single-queue", 1000))
                    / _latency_us(r, statistic, light(task, "hyperplane", "single-queue", 1))
                    for statistic in ("mean", "p99")
                ),
            ),
            within(
                1,
                0.05,
                below="latency falls by more than 5 %",
                above="latency rises by more than 5 %",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.spin-100us",
        "Section V-B",
        "tail latency can be more than 100 us for large queue counts in the spinning data plane",
        100.0,
        "us",
        f"{BASELINE}, 1000 queues: the largest p99 of tasks and shapes",
        "reproduced if above 100",
        "hyperplane.9",
        judged(
            lambda r: part(
                max,
                lambda case: _latency_us(r, "p99", light(case[0], BASELINE, case[1], 1000)),
                itertools.product(TASKS, LIGHT_SHAPES),
            ),
            above(
                100,
                POLLS,
            ),
        ),
    ),
    Claim(
        "hyperplane.9.spin-linear",
        "Section V-B",
        "both average and tail latencies grow linearly as the number of queues is increased",
        10.1,
        "times",
        f"{BASELINE}, fully balanced: growth of the mean from 1 to 1000 queues over that to 100, "
        "queue, mean over the tasks",
        "reproduced within 25 % of (1000 - 1) / (100 - 1)",
        "hyperplane.9",
        judged(
            lambda r: _tasks(statistics.fmean, lambda task: _growth(r, task)),
            within(
                999 / 99,
                0.25,
                below="the mean grows by less from 100 queues on than before",
                above="100 doorbells stay in the L1 cache and 1000 do not, so a poll costs more "
                "with more queues",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.spin-spread",
        "Section V-B",
        "the difference between tail and average latency grows with the queue count",
        "above 1",
        "times",
        f"{BASELINE}: least growth of p99 - mean between 10, 100, 400 and 1000 queues",
        "reproduced if above 1",
        "hyperplane.9",
        judged(
            lambda r: _spread_growth(r, BASELINE),
            above(1, "the difference does not grow everywhere"),
        ),
    ),
    Claim(
        "hyperplane.9.gain-mean",
        "Section V-B",
        "HyperPlane improves average/tail latency by 9.1x / 16.4x, on average, at different "
        "queue counts",
        9.1,
        "times",
        f"mean over tasks, shapes and queue counts of {BASELINE}'s mean over HyperPlane's",
        "reproduced within 20 %",
        "hyperplane.9",
        judged(
            lambda r: _latency_gain(r, "mean", BASELINE),
            within(
                9.1,
                0.20,
                below=POLLS,
                above="the reason is not known",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.gain-tail",
        "Section V-B, abstract",
        "HyperPlane improves average/tail latency by 9.1x / 16.4x, on average, at different "
        "queue counts",
        16.4,
        "times",
        f"mean over tasks, shapes and queue counts of {BASELINE}'s p99 over HyperPlane's",
        "reproduced within 20 %",
        "hyperplane.9",
        judged(
            lambda r: _latency_gain(r, "p99", BASELINE),
            within(
                16.4,
                0.20,
                below=POLLS,
                above="the reason is not known",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.one-queue",
        "Section V-B",
        "HyperPlane underperforms the spinning data plane by at most 3% for a single queue",
        3.0,
        "%",
        f"one queue: the most by which HyperPlane's mean or p99 is above {BASELINE}'s",
        "reproduced if at most 3",
        "hyperplane.9",
        judged(
            lambda r: _penalty_percent(r, BASELINE),
            lambda value: Judgement(
                value,
                value <= 3,
                ""
                if value <= 3
                else "QWAIT, the wake-up and QWAIT-VERIFY take 60 ns, of which QWAIT's 50 cycles "
                "are 17: a fifth of what an item takes here, and 1.2 % of encryption's 5 us",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.two-queues",
        "Section V-B",
        "HyperPlane outperforms the spinning data plane with as few as two queues",
        "above 1",
        "times",
        f"two queues: least of {BASELINE}'s mean over HyperPlane's, of tasks and shapes",
        "reproduced if above 1",
        "hyperplane.9",
        judged(
            lambda r: _two_queues(r, BASELINE),
            above(
                1,
                "a second queue makes polling 1 ns longer here, as it is in the L1 cache, and "
                "HyperPlane takes 60 ns more; so it has to be 120 ns a poll in the paper",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.power-mode-queues",
        "Section V-B",
        "the spinning data plane reacts faster to task arrival in comparison to HyperPlane "
        "for up to 6 queues on average",
        6,
        "queues",
        f"at how many queues {BASELINE}'s mean is that of HyperPlane in power-optimised mode, mean "
        "over tasks and shapes",
        "reproduced if between 4 and 9",
        "hyperplane.9",
        judged(
            lambda r: part(
                statistics.fmean,
                lambda case: _overtaken(r, case),
                itertools.product(TASKS, LIGHT_SHAPES),
            ),
            between(
                4,
                9,
                "a poll of few queues takes 2 ns here, as they are in the L1 cache; 0.56 us in six "
                "to nine queues are 140 to 220 ns a poll in the paper",
            ),
        ),
    ),
    Claim(
        "hyperplane.9.power-mode-queues-worst",
        "Section V-B",
        "(nine queues in the worst case)",
        9,
        "queues",
        f"at how many queues {BASELINE}'s mean is that of HyperPlane in power-optimised mode, the "
        "most of tasks and shapes",
        "reproduced if between 6 and 13",
        "hyperplane.9",
        judged(
            lambda r: part(
                max,
                lambda case: _overtaken(r, case),
                itertools.product(TASKS, LIGHT_SHAPES),
            ),
            between(
                6,
                13,
                "a poll of few queues takes 2 ns here, as they are in the L1 cache; 0.56 us in six "
                "to nine queues are 140 to 220 ns a poll in the paper",
            ),
        ),
    ),
)
