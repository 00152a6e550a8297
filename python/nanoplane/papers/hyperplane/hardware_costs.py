"""Section IV-C, hardware costs: the paper's claims about area, power and timing.

Area is arithmetic (area.py), without a run. Power and timing have the runs of Figure 8.
"""

from nanoplane.claims import Claim, Estimate, Part, above, at_most, part, within
from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.hyperplane import area
from nanoplane.papers.hyperplane.cases import TASKS, Case

SELECTION_NS = 12.25
"""The latency of the ready set in the paper's RTL."""


ENTRIES = (128, 256, 512, 1024, 2048, 4096)


def _rows(_: Results) -> list[Row]:
    """Return the area by entries; the middle width of weights, between the least and the most."""
    rows = []
    for circuit in area.MONITORING_SETS:
        for entries in ENTRIES:
            least, middle, most = (
                area.percent_of_cores(circuit, bits, entries) for bits in area.WEIGHT_BITS
            )
            rows.append(
                Row(
                    series=circuit,
                    x=entries,
                    x_unit="entries of both sets",
                    y=middle,
                    y_unit="percent of the area of 16 cores",
                    statistic="area",
                    labels={"circuit": circuit, "entries": str(entries)},
                    ci95=(least, most),
                    samples=0,
                )
            )
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    circuits = {circuit: circuit for circuit in area.MONITORING_SETS}
    return plots.panels(
        rows,
        lambda _: "monitoring set and ready set",
        x=plots.logarithmic("entries of both sets", ENTRIES),
        y=plots.linear("% of the area of 16 cores"),
        colour=plots.Series.systems("monitoring set of", "circuit", circuits),
    )


def _area(circuit: str) -> Estimate:
    """Return the overhead with weights of 8 bits; the interval has 0 to 16 bits in it."""
    least, middle, most = (area.percent_of_cores(circuit, bits) for bits in area.WEIGHT_BITS)
    return Estimate(middle, (least, most))


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

_AREA_QUOTE = (
    "the overall area overhead of the HyperPlane hardware components is within 0.26% of the total "
    "core area"
)
_HOW_AREA = (
    "cells and arrays counted, without a run (papers/hyperplane/area.py), over 16 of the paper's "
    "cores of 8.4 mm²: weights of 8 bits, and as the interval of 0 to 16, because the paper gives "
    "no width; the monitoring set "
)

FIGURES = (
    Figure(
        name="hyperplane.area",
        title="The area of the monitoring set and the ready set",
        caption=(
            "An arithmetic of cells (NanGate FreePDK45, scaled to 32 nm) and of arrays (CACTI 7), "
            "without a run: both sets over 16 of the paper's cores. Weights have 8 bits, and 0 "
            "and 16 at the ends of the bars. The paper has 1024 entries and at most 0.26 %."
        ),
        points=lambda _: {},
        rows=_rows,
        chart=_chart,
    ),
)

CLAIMS = (
    Claim(
        "hyperplane.4.area",
        "Section IV-C",
        _AREA_QUOTE,
        "%",
        f'{_HOW_AREA}is "similar to the tag array of a 2-way associative cache", as in the paper',
        at_most(0.26, "arrays of tags are larger here"),
        lambda _: _area("tag arrays"),
        figure="hyperplane.area",
    ),
    Claim(
        "hyperplane.4.area-flip-flops",
        "Section IV-C",
        _AREA_QUOTE,
        "%",
        f"{_HOW_AREA}has flip-flops and a comparator for each tag, as in a synthesis without "
        "memories",
        at_most(
            0.26,
            "flip-flops and comparators have 0.33 mm²; with the paper's 0.21 mm² both sets would "
            "have 0.18 to 0.26 % (docs/energy.md)",
        ),
        lambda _: _area("flip-flops"),
        figure="hyperplane.area",
    ),
    Claim(
        "hyperplane.4.monitoring-set-area",
        "Section IV-C",
        "We estimate the area of the monitoring set to be 0.21 mm²",
        "mm²",
        "tag arrays of 1024 entries in 16 banks by CACTI 7, as in the paper by CACTI",
        within(
            0.21,
            0.2,
            below="unexplained: the same bits as flip-flops with comparators have 0.33 mm² "
            "(docs/energy.md)",
            above="arrays of tags are larger here",
        ),
        lambda _: area.monitoring_set_mm2(),
        figure="hyperplane.area",
        paper_value=0.21,
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
