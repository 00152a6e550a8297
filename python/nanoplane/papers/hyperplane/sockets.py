"""Section III-B, two sockets: the paper's future work, and its expectations."""

import dataclasses
import itertools

from nanoplane.claims import Claim, above, below
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.load_search import Limit
from nanoplane.outcomes import Outcome
from nanoplane.papers import plots
from nanoplane.papers.hyperplane.cases import (
    USUAL_WARM_MRPS,
    measured_requests,
    near_limit,
    saturated,
    with_used_rings,
)
from nanoplane.sweep import Run

CORES = 8
"""Four cores on each socket."""
QUEUES = 400
IMBALANCES = (0.0, 0.5)
"""The surplus of the first socket's queues over an equal share: half of the traffic, and three
quarters."""
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8)
QUICK_LOADS = (0.1, 0.5, 0.7)
OPTIONAL_QUICK_LOADS = (0.1, 0.7)
"""For `--only` with `--quick`: claims compare the loads that searches find."""
REQUESTS = 40_000
PRECISION, QUICK_PRECISION = 0.01, 0.03
SERVICE_TIMES = 10
"""The limit of Figure 10: the sustained load is the largest whose p99 is within this number of mean
service times."""

SPINNING, APART, STEALING, ONE = "spin", "apart", "stealing", "one-ready-set"
SYSTEMS = {
    SPINNING: "spinning, scale-out",
    APART: "HyperPlane, ready sets apart",
    STEALING: "HyperPlane, stealing when idle",
    ONE: "HyperPlane, one ready set",
}
_HARDWARE: dict[str, dict[str, object]] = {
    SPINNING: {},
    APART: {},
    STEALING: {"hyperplane": {"stealing": "when-idle"}},
    ONE: {"hyperplane": {"ready_sets": "one"}},
}
_TITLES = {0.0: "balanced", 0.5: "three quarters of the traffic for one socket"}


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run of the figure."""

    system: str
    imbalance: float
    load: float | None = None
    """Offered load, as a part of the peak of `_REFERENCE`; None: the largest sustained load."""

    @property
    def name(self) -> str:
        """The name in progress lines and error messages."""
        load = "largest load" if self.load is None else f"load {self.load:g}"
        return f"two sockets, {self.system}, {self.imbalance:.0%} imbalance, {load}"

    def description(self, requests: int) -> Description:
        """Return the common description of this case's runs."""
        spinning = self.system == SPINNING
        fabric = {"sockets": 2, "cores": CORES}
        return Description.from_dict(
            {
                "server": {
                    "preset": "hyperplane-table1",
                    "data_plane_cores": CORES,
                    "fabric": fabric,
                    **_HARDWARE[self.system],
                },
                "data_plane": {
                    "program": "packet-encapsulation",
                    "notify": "spin" if spinning else "hyperplane",
                    "organisation": "scale-out" if spinning else "scale-up",
                    "queues": QUEUES,
                },
                "traffic": {
                    "shape": "fully-balanced",
                    "socket_imbalance": self.imbalance,
                },
                "measure": {"requests": requests, "seed": 1},
            },
            source=self.name,
        )

    def run(self, quick: bool) -> Run:
        """Return the case's run."""
        requests = measured_requests(REQUESTS, quick, QUEUES)
        peak = saturated(_REFERENCE.description(requests), CORES)
        rate_mrps = CORES * USUAL_WARM_MRPS
        description = with_used_rings(self.description(requests), rate_mrps)
        if self.load is None:
            # A search begins with the loads that are shown anyway.
            return Run(
                description,
                peak=peak,
                limit=Limit(SERVICE_TIMES, QUICK_PRECISION if quick else PRECISION, by_chance=True),
                near_parts=QUICK_LOADS if quick else LOADS,
                organisation=(1, CORES) if self.system == ONE else (2, CORES // 2),
            )
        return Run(description, peak=peak, part=self.load)


_REFERENCE = Case(APART, 0.0)
"""The case whose peak is the unit of all loads."""


def _points(quick: bool) -> dict[Case, Run]:
    loads = QUICK_LOADS if quick else LOADS
    cases = itertools.starmap(Case, itertools.product(SYSTEMS, IMBALANCES, (None, *loads)))
    # Spinning has no sustained load: polling alone may take its p99 above the limit.
    return {
        case: case.run(quick) for case in cases if case.load is not None or case.system != SPINNING
    }


def _row(case: Case, outcome: Outcome, load: float) -> Row:
    return Row.latency(
        case,
        outcome,
        series=f"{_TITLES[case.imbalance]}, {SYSTEMS[case.system]}",
        x=100 * load,
        x_unit="% of the balanced peak of ready sets apart",
    )


def _rows(results: Results) -> list[Row]:
    rows = []
    for search in itertools.starmap(Case, itertools.product(SYSTEMS, IMBALANCES)):
        cases = {load: dataclasses.replace(search, load=load) for load in LOADS}
        curve = {load: results[case] for load, case in cases.items() if case in results}
        trials = near_limit(results.get(search), curve)
        for load, outcome in sorted((curve | trials).items()):
            rows.append(_row(cases.get(load, search), outcome, load))
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    system = plots.Series.systems("data plane", "system", SYSTEMS)
    return plots.panels(
        sorted(rows, key=lambda row: float(row.labels["imbalance"])),
        lambda row: _TITLES[float(row.labels["imbalance"])],
        x=plots.linear("load, % of the balanced peak of ready sets apart"),
        y=plots.logarithmic("p99 latency, microseconds"),
        colour=system,
        dash=dataclasses.replace(system, styles=plots.DASHES),
        columns=2,
    )


FIGURES = (
    Figure(
        name="hyperplane.sockets",
        title="Tail latency of two sockets, with and without work stealing",
        caption=(
            f"Beyond the paper. Packet encapsulation, two sockets of {CORES // 2} data plane cores "
            f"and {QUEUES // 2} queues each, every socket like the server of Table I. The cores of "
            "a socket share its queues, but for spinning, where each has its own. Loads are parts "
            "of the balanced peak of HyperPlane with the ready sets apart. Points close together "
            f"are trials of the search for the largest load with a p99 within {SERVICE_TIMES} mean "
            "service times."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        optional_quick={"load": tuple(map(str, OPTIONAL_QUICK_LOADS))},
    ),
)


def _sustained(results: Results, system: str, imbalance: float) -> float:
    """Return the largest sustained load, in million requests a second, as for Figure 10."""
    result = results[Case(system, imbalance)].result
    return float(result["throughput_mrps"]) * float(result["beyond_run"])


CLAIMS = (
    Claim(
        "hyperplane.sockets.imbalance",
        "Section III-B",
        "the deployment would exhibit scale-out queuing properties across sockets, which may "
        "result in suboptimal performance if there is heavy load imbalance across sockets",
        "times",
        "the load that HyperPlane's ready sets apart sustain when one socket gets three quarters "
        "of it, over the one that they sustain balanced",
        below(1, "the idle socket's cores would not help"),
        lambda r: _sustained(r, APART, 0.5) / _sustained(r, APART, 0.0),
    ),
    Claim(
        "hyperplane.sockets.stealing",
        "Section III-B",
        "To mitigate this issue, a work-stealing approach may be used, wherein the data plane "
        "cores fetch ready QIDs from remote ready sets if the local ready set is empty",
        "times",
        "the load that is sustained with stealing when idle over that without, when one socket "
        "gets three quarters of it",
        above(1, "what the link costs outweighs the help"),
        lambda r: _sustained(r, STEALING, 0.5) / _sustained(r, APART, 0.5),
    ),
)
