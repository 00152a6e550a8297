"""Section IV-C, hardware costs: what the paper claims of power and timing.

The runs are those of Figure 8.
"""

import statistics

from nanoplane.claims import Claim, Judgement, Part, between, judged, part
from nanoplane.figures import Results
from nanoplane.papers.hyperplane.cases import TASKS, Case

CORES = 16
"""That share the monitoring set and the ready set."""
SELECTION_NS = 12.25
"""The latency of the ready set in the paper's RTL."""


def _core_percent(results: Results) -> Part:
    """Return the power of the two sets as a part of that of the data plane core."""

    def percent(task: str) -> float:
        power = results[Case(task, "hyperplane", "fully-balanced", 100)].result["power_w"]
        sets = (power["monitoring_set"], power["ready_set"])
        watts = sum(one["dynamic"] + one["static"] for one in sets)
        return float(100 * watts / power["cores"][0]["total"])

    return part(max, percent, TASKS)


def _chip_percent(results: Results) -> Part:
    of = _core_percent(results)
    return Part(of.value / CORES, of.found, of.wanted)


def _cores_served(results: Results) -> Part:
    """Return how many cores could each have a selection an item, without waiting for others."""

    def item_ns(task: str) -> float:
        one_queue = Case(task, "hyperplane", "single-queue", 1)
        return 1000 / float(results[one_queue].result["throughput_mrps"])

    of = part(statistics.fmean, item_ns, TASKS)
    return Part(of.value / SELECTION_NS, of.found, of.wanted)


def _at_most(limit: float, value: float) -> Judgement:
    return Judgement(value, value <= limit, "" if value <= limit else "the two sets draw more here")


_HOW_POWER = (
    "the largest of the tasks, fully balanced, 100 queues, saturated: power of the monitoring set "
    "and the ready set over that of {}. The energy of a look-up and of a selection is the paper's; "
    "how many there are is measured"
)

CLAIMS = (
    Claim(
        "hyperplane.4.area",
        "Section IV-C",
        "the overall area overhead of the HyperPlane hardware components is within 0.26% of "
        "the total core area",
        0.26,
        "%",
        "not measured",
        "none yet",
        why="needs a synthesis of the ready set, and CACTI for the monitoring set: nanoplane has "
        "no model of area. The paper's own 0.13 and 0.21 mm² are 0.25 % of 16 of its cores of "
        "8.4 mm², and 0.19 % of 16 cores of 11.3 mm², which is what McPAT makes of the core here",
    ),
    Claim(
        "hyperplane.4.power",
        "Section IV-C",
        "we estimate the power costs of HyperPlane to be within 0.4% the total core power",
        0.4,
        "%",
        _HOW_POWER.format("16 such cores"),
        "reproduced if at most 0.4",
        "hyperplane.8",
        judged(_chip_percent, lambda value: _at_most(0.4, value)),
    ),
    Claim(
        "hyperplane.4.power-core",
        "Section IV-C",
        "within 6.2% of a single core; 2.1% for the ready set and 4.1% for the monitoring set",
        6.2,
        "%",
        _HOW_POWER.format("the core"),
        "reproduced if at most 6.2",
        "hyperplane.8",
        judged(_core_percent, lambda value: _at_most(6.2, value)),
    ),
    Claim(
        "hyperplane.4.ready-set-cores",
        "Section IV-C",
        "Since processing each work item takes a few microseconds, the ready set can easily serve "
        "QWAIT requests from O(100) cores",
        100,
        "cores",
        f"mean over the tasks of an item's time with one queue, over the {SELECTION_NS} ns that a "
        "selection takes in the paper's RTL",
        "reproduced if of the order of 100, between 32 and 316",
        "hyperplane.8",
        judged(_cores_served, between(32, 316, "items take less time here")),
    ),
)
