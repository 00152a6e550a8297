"""Section V-E, ready set implementation: Figure 13, and the paper's claims about it."""

import itertools

from nanoplane.claims import Claim, above, below, part, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import settled
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import SHAPES, TASKS, Case, tasks
from nanoplane.sweep import Run

QUEUES = 1000
REQUESTS = 5_000
SHAPES_SHOWN = ("proportionally-concentrated", "fully-balanced")
HARDWARE = "hyperplane"
SOFTWARE = {
    "software-ready-set": "list of ready queues, in software",
    "software-bitmap": "bitmap and find-first-set, without new hardware",
}
"""The paper's ready set in software, and a better one."""


def _case(task: str, notify: str, shape: str) -> Case:
    return Case(task, notify, shape, QUEUES)


def _points(quick: bool) -> dict[Case, Run]:
    every = itertools.product(tasks(quick), (HARDWARE, *SOFTWARE), SHAPES_SHOWN)
    return {case: case.run(quick, REQUESTS, 0) for case in itertools.starmap(_case, every)}


def _throughput(results: Results, case: Case) -> float:
    return float(results[case].result["throughput_mrps"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for notify, shape, (number, task) in itertools.product(
        SOFTWARE, SHAPES_SHOWN, enumerate(TASKS, 1)
    ):
        case, hardware = _case(task, notify, shape), _case(task, HARDWARE, shape)
        if case not in results or hardware not in results:
            continue
        result = results[case].result
        rows.append(
            Row(
                series=f"{SOFTWARE[notify]}, {SHAPES[shape]}, {TASKS[task]}",
                x=number,
                x_unit="tasks",
                y=_throughput(results, case) / _throughput(results, hardware),
                y_unit="of the throughput with the ready set in hardware",
                statistic="normalised peak throughput",
                labels=labels(case),
                samples=result["latency_ns"]["samples"],
                steady=settled(results[case]) and settled(results[hardware]),
            )
        )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda row: SHAPES[row.labels["shape"]],
        group=lambda row: TASKS[row.labels["task"]],
        y=plots.linear("part of the hardware's throughput"),
        colour=plots.Series.systems("ready set", "notify", SOFTWARE),
    )


FIGURES = (
    Figure(
        name="hyperplane.13",
        title="Throughput of ready sets in software, beside that in hardware",
        caption=(
            f"One data plane core and {QUEUES} queues on the 16-core server of Table I, saturated. "
            "The list is the paper's: the monitoring set is hardware, and a program goes through "
            "the ready queues. The bitmap needs no new hardware: producers set a bit."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        by_precision=True,
    ),
)


# The paper's claims.


def _kept(results: Results, task: str, shape: str) -> float:
    software = _throughput(results, _case(task, "software-ready-set", shape))
    return software / _throughput(results, _case(task, HARDWARE, shape))


_ENCRYPTION = (
    "the list takes 160 to 182 ns an item, whatever the task, and 668 to 692 if all queues are "
    "busy. An item of encryption takes 4.9 us here, and that is little; with the other tasks "
    "software keeps at most 0.69 (docs/appendix/figures-experiments.md)"
)

CLAIMS = (
    Claim(
        "hyperplane.13.software-ready-set",
        "Section V-E",
        "throughput drop is more severe with the FB traffic (down to 50%)",
        "%",
        "fully balanced: the least of the tasks of the software ready set's throughput, as a part "
        "of the hardware's",
        within(50, 0.2, below="unexplained", above="unexplained"),
        lambda r: part(min, lambda task: 100 * _kept(r, task, "fully-balanced"), TASKS),
        paper_value=50,
    ),
    Claim(
        "hyperplane.13.balanced-is-worse",
        "Section V-E",
        "throughput drop is more severe with the FB traffic",
        "times",
        "software's part of the hardware's throughput with proportionally concentrated traffic "
        "over that with fully balanced traffic, the least of the tasks",
        above(1, "unexplained"),
        lambda r: part(
            min,
            lambda task: (
                _kept(r, task, "proportionally-concentrated") / _kept(r, task, "fully-balanced")
            ),
            TASKS,
        ),
    ),
    *(
        Claim(
            f"hyperplane.13.software-{name}",
            "Section V-E",
            "For both shapes, throughput of the software-based implementation is considerably "
            "lower than its hardware-based counterpart",
            "times",
            f"{SHAPES[shape]}: the largest of the tasks of the software ready set's throughput "
            "over the hardware's; lower by more than 10 %",
            below(0.9, _ENCRYPTION),
            lambda r, shape=shape: part(  # type: ignore[misc]
                max, lambda task: _kept(r, task, shape), TASKS
            ),
            figure="hyperplane.13",
            paper_value="considerably below 1",
        )
        for name, shape in (
            ("concentrated", "proportionally-concentrated"),
            ("balanced", "fully-balanced"),
        )
    ),
)
