"""Section IV-C, hardware costs: the paper's claims about area, power and timing.

The runs are those of Figure 8.
"""

from nanoplane.claims import Claim, Part, above, part
from nanoplane.figures import Results
from nanoplane.papers.hyperplane import area
from nanoplane.papers.hyperplane.cases import TASKS, Case

SELECTION_NS = 12.25
"""The latency of the ready set in the paper's RTL."""


def _percent(results: Results, cores: int) -> Part:
    """Return the power of both sets as a part of the power of `cores` data plane cores."""

    def percent(task: str) -> float:
        power = results[Case(task, "hyperplane", "fully-balanced", 100)].result["power_w"]
        sets = (power["monitoring_set"], power["ready_set"])
        watts = sum(one["dynamic"] + one["static"] for one in sets)
        return float(100 * watts / (cores * power["cores"][0]["total"]))

    return part(max, percent, TASKS)


def _cores_served(results: Results, task: str) -> float:
    """Return the number of cores that could each have one selection per item, without waiting."""
    one_queue = Case(task, "hyperplane", "single-queue", 1)
    item_ns = 1000 / float(results[one_queue].result["throughput_mrps"])
    return item_ns / SELECTION_NS


_HOW_POWER = (
    "the largest of the tasks, fully balanced, 100 queues, saturated: power of the monitoring set "
    "and the ready set over that of {}"
)
_ENERGY_PUT_IN = (
    "the energy of a look-up and of a selection is the paper's; only how many there are is measured"
)

_READY_SET_QUOTE = (
    "Since processing each work item takes a few microseconds, the ready set can easily serve "
    "QWAIT requests from O(100) cores"
)
_HOW_CORES = (
    f" an item's time with one queue over the {SELECTION_NS} ns that a selection takes in the "
    "paper's RTL"
)

CLAIMS = (
    Claim(
        "hyperplane.4.area",
        "Section IV-C",
        "the overall area overhead of the HyperPlane hardware components is within 0.26% of "
        "the total core area",
        "%",
        "an arithmetic of cells, without a run, over 16 of the paper's cores of 8.4 mm² "
        "(papers/hyperplane/area.py)",
        None,
        paper_value="at most 0.26",
        why="not judged, because a choice decides it: with the monitoring set as arrays of tags "
        "0.04 to 0.11 %, as flip-flops with comparators 0.27 to 0.35 %, for weights of 0 to 16 "
        "bits; the paper gives no width (docs/energy.md)",
    ),
    Claim(
        "hyperplane.4.power",
        "Section IV-C",
        "we estimate the power costs of HyperPlane to be within 0.4% the total core power",
        "%",
        _HOW_POWER.format("16 such cores"),
        None,
        lambda r: _percent(r, area.CORES),
        figure="hyperplane.8",
        paper_value=0.4,
        why=_ENERGY_PUT_IN,
        by_construction=True,
    ),
    Claim(
        "hyperplane.4.power-core",
        "Section IV-C",
        "within 6.2% of a single core; 2.1% for the ready set and 4.1% for the monitoring set",
        "%",
        _HOW_POWER.format("the core"),
        None,
        lambda r: _percent(r, 1),
        figure="hyperplane.8",
        paper_value=6.2,
        why=_ENERGY_PUT_IN,
        by_construction=True,
    ),
    Claim(
        "hyperplane.4.ready-set-cores",
        "Section IV-C",
        _READY_SET_QUOTE,
        "cores",
        "the least of the tasks of" + _HOW_CORES,
        above(32, "an item takes 0.3 us here, and not a few microseconds, but with encryption"),
        lambda r: part(min, lambda task: _cores_served(r, task), TASKS),
        figure="hyperplane.8",
        paper_value=100,
    ),
    Claim(
        "hyperplane.4.ready-set-cores-encryption",
        "Section IV-C",
        _READY_SET_QUOTE,
        "cores",
        "crypto forwarding, whose items take a few microseconds:" + _HOW_CORES,
        above(32, "items take less time here"),
        lambda r: _cores_served(r, "crypto-forwarding"),
        figure="hyperplane.8",
        paper_value=100,
    ),
)
