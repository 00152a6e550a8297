"""The parameters that the paper varies, and the resulting runs."""

import dataclasses
from collections.abc import Mapping

from nanoplane.description import Description
from nanoplane.load_search import Limit
from nanoplane.outcomes import Outcome
from nanoplane.papers import plots
from nanoplane.schemas import mechanisms
from nanoplane.sweep import Run

TASKS = {
    "packet-encapsulation": "packet encapsulation",
    "crypto-forwarding": "crypto forwarding",
    "packet-steering": "packet steering",
    "erasure-coding": "erasure coding",
    "raid-protection": "RAID protection",
    "request-dispatching": "request dispatching",
}
"""The tasks of Section V-A, in the order of Figure 8; keys are the programs' names."""
SHAPES = {
    "fully-balanced": "fully balanced",
    "proportionally-concentrated": "proportionally concentrated",
    "non-proportionally-concentrated": "non-proportionally concentrated",
    "single-queue": "single queue",
}
"""The traffic shapes of Section II-C."""
ALWAYS_USED = 100
"""The queues that "non-proportionally concentrated" always uses; of the others, one in twenty."""
BASELINES = ("spin-poll-mode", "spin", "hyperplane")
"""The paper's baseline for HyperPlane is the first."""
OTHERS = tuple(
    name
    for name, one in mechanisms().items()
    if name not in BASELINES and not one.owns_queues and not one.brings_requests
)
"""Mechanisms that figures show only on request: the paper has no mechanism that sleeps and then
scans, and no interrupts."""
SYSTEMS = {name: mechanisms()[name].label for name in (*BASELINES, *OTHERS)}
"""The mechanisms that notify the data plane of work."""
SYSTEM_DASHES = (*plots.SYSTEM_DASHES, [8, 3, 2, 3], [1, 2])
OPTIONAL = {"notify": OTHERS}
INTERFACE = "spin-mlx5"
PEAK_SYSTEMS = SYSTEMS | {INTERFACE: mechanisms()[INTERFACE].label}
"""With the driver of the interface in the paper's server. The paper does not name the driver of its
simulated data plane, so this is a series of its own, on request. It writes at each poll, so that no
poll can be skipped: a thousand queues at light load would take an hour."""
DEVICE, SOURCE_CORES = "device", "cores"
SOURCES = {DEVICE: "", SOURCE_CORES: ", sources on cores"}
"""Suffixes of series, by the producer of items: the I/O device, or on request cores of the server,
as in the paper's simulation ("emulated I/O sources running on 'producer' cores")."""
PAPER_SERVER, SKYLAKE_SERVER = "hyperplane-table1", "spin-to-win-table1"
SERVERS = {PAPER_SERVER: "", SKYLAKE_SERVER: ", on the Skylake server"}
"""Suffixes of series, by preset: that of Table I, or on request the server of Figure 3."""
SKYLAKE_ENTRIES = 1536
"""Entries of that server's monitoring set: two ways of 32 rows for each of 24 tiles. The paper's
1024 are those of 16 tiles."""
MONITORED = ("hyperplane", "software-ready-set")
"""The mechanisms that use the monitoring set."""
BATCH = 1
"""The batch of a visit to a queue, for all systems. Section V-B: "a task is executed for every n
queue head polls (n ≈ 5 for PC and n = 1 for FB)". `spin-poll-mode` alone would take 32."""
QUEUES = (1, 10, 100, 400, 1000)

REGULAR, POWER_OPTIMISED = "regular", "power-optimised"
"""The modes of HyperPlane (Section V-D)."""

MODES = {
    **{(name, REGULAR): SYSTEMS[name] for name in BASELINES},
    ("hyperplane", POWER_OPTIMISED): "HyperPlane, power-optimised",
    **{(name, REGULAR): SYSTEMS[name] for name in OTHERS},
}
"""Names of a data plane in a mode."""
MODE_COLOURS = plots.colours(notify if power == REGULAR else "nanopu" for notify, power in MODES)

POLLS = (
    "a poll of an empty queue takes 10 ns with 1000 queues here, with a driver of rings in memory, "
    "where the paper's take 100 ns; with the driver of the paper's interface it takes 68 "
    "(docs/polling.md)"
)
"""The reason that polls cost less here than in the paper."""
SHORT_ITEMS = (
    "0.5 us are a larger part of what an item takes here, 0.3 us: with items of 4 KiB instead of "
    "1 KiB, p99 0.8 us, it is 63 % without load and 11 % at half of it "
    "(docs/appendix/figures-experiments.md)"
)
"""The reason that waking up costs a larger part here."""

QUICK = 10
"""`--quick` divides the number of requests by this."""
MIN_REQUESTS = 100
"""The minimum number of requests of a run."""
ROUNDS = 6
"""The minimum number of requests for each queue in use, in runs that are not at light load: queues
take different times, and intervals consist of five whole rounds over them. One round is added,
since the choice of the other queues in use is random."""
LIGHT_BELOW = 0.01
"""Loads below this are light: requests hardly ever overlap, so that there are no rounds, and time
passes without requests, which costs more to simulate than requests."""
QUICK_TASKS = ("packet-encapsulation", "raid-protection")
"""The tasks of `--quick` in figures that have all tasks: of networks and of storage. A task takes
half a minute; crypto forwarding, whose items take 5 us, minutes."""
FILL_MRPS = 20.0
"""The fill rate for each core, in saturated runs whose rings do not begin full. Of 20 million
offered items a second, 16 million stay in the rings as long as at most four million are served; a
ring of 15 items is then full after 4 served items a queue. At the rate of the measurement it takes
forty, and the figures would measure half-empty rings."""
COMPLETIONS = tuple(
    name for name, one in mechanisms().items() if one.owns_queues and one.needs_device
)
"""Mechanisms whose rings do not begin full: completions, which an interface writes and the only
hart of a queue reads, announce their items."""
WEIGHTS = (4, 2, 1)
"""Weights of the queues in turn, under weighted round-robin; the paper gives none."""
WARM_MRPS = {"crypto-forwarding": 0.1}
"""The warm-up rate for each core of a run below saturation: less than its throughput."""
USUAL_WARM_MRPS = 0.75
AS_PRINTED, IN_ORDER = "as printed", "in order"
"""Algorithm 1: a queue can be served again as soon as an item has been taken from it; or, with
lines 18 and 19 swapped, after that item has been processed. The difference only affects cores that
share queues."""


def tasks(quick: bool) -> list[str]:
    """Return the tasks of the figures that show all tasks."""
    return list(QUICK_TASKS if quick else TASKS)


def measured_requests(requests: int, quick: bool, queues: int) -> int:
    """Return the number of requests of a run above light load, for `queues` queues in use."""
    return max(MIN_REQUESTS, ROUNDS * queues, requests // (QUICK if quick else 1))


def with_used_rings(description: Description, rate_mrps: float) -> Description:
    """Return a run that begins after the first use of each slot of the rings in use.

    Otherwise its requests would arrive in unused lines, which are in no cache, until each slot has
    been used: with four cores and 400 queues at 80 % of the load the p99 of 4000 requests is 12 us
    then, and 18 us of 40,000. A rule determines the end of the warm-up (docs/warm-up.md).
    """
    before = {"requests": "auto", "rate_mrps": rate_mrps}
    return description.set("measure.warm_start", before)


def saturated(description: Description, cores: int) -> Description:
    """Return a run whose rings are full before its measurement begins."""
    fill = {"requests": "auto", "rate_mrps": FILL_MRPS * cores}
    return description.set("traffic.load", "saturate").set("measure.warm_start", fill)


def organisation(case: "Case") -> str:
    """Return the case's division of queues among cores, in Figure 10's terms."""
    name = "scale-out" if case.cluster == 1 else f"scale-up-{case.cluster}"
    if case.order == IN_ORDER and case.notify == "hyperplane":
        name += ", in order"
    return f"{name}, {case.imbalance:.0%} imbalance" if case.imbalance else name


def near_limit(
    search: Outcome | None,
    curve: Mapping[float, Outcome],
    like: Mapping[float, Outcome] | None = None,
) -> dict[float, Outcome]:
    """Return the trials of a search for a load within a limit that a curve does not have.

    They show where it bends. Loads are parts of the same peak, and keys of both; `like` is another
    curve with that peak, for a curve without given loads. A load that the server does not keep up
    with is left out: its p99 is that of the length of the run.
    """
    given = curve or like
    if search is None or not given:
        return {}

    def rate(one: Outcome) -> float:
        return float(one.description["traffic"]["rate_mrps"])

    load, one = next(iter(given.items()))
    shown = {rate(one) for one in curve.values()}
    return {
        rate(trial) / rate(one) * load: trial
        for trial in search.trials
        if rate(trial) not in shown and trial.result["keeps_up"]
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run of a figure."""

    task: str
    notify: str
    shape: str
    queues: int
    cores: int = 1
    """Cores that run the data plane."""
    cluster: int = 1
    """Cores that share their queues: scale-out is 1, scale-up-2 is 2 (Section V-C)."""
    imbalance: float = 0.0
    """Static load imbalance between clusters, as a part of the mean (Section V-C)."""
    co_runner: str | None = None
    """The program on the other hardware thread of each core (Section V-D)."""
    power: str = REGULAR
    """`power-optimised`: halted cores enter C1 (Section V-D)."""
    order: str = AS_PRINTED
    """Whether several cores can serve a shared queue at the same time."""
    policy: str = "round-robin"
    """The policy of the ready set (Section IV-B)."""
    load: float | None = None
    """Offered load, as a part of the peak of `of`; None: saturated."""
    of: "Case | None" = None
    limit: float | None = None
    """If given: the largest load whose p99 is at most this number of mean service times of `of`."""
    sources: str = DEVICE
    server: str = PAPER_SERVER

    @property
    def name(self) -> str:
        """The name in progress lines and error messages."""
        load = "saturated" if self.load is None else f"load {self.load:g}"
        if self.limit is not None:
            load = f"p99 below {self.limit:g} service times"
        queues = "1 queue" if self.queues == 1 else f"{self.queues} queues"
        parts = [self.task, self.notify, self.shape, queues]
        if self.cores > 1:
            parts += [f"{self.cores} cores", organisation(self)]
        if self.co_runner is not None:
            parts += [f"beside {self.co_runner}"]
        if self.power != REGULAR:
            parts += [self.power]
        if self.policy != "round-robin":
            parts += [self.policy]
        if self.sources != DEVICE:
            parts += ["sources on cores"]
        if self.server != PAPER_SERVER:
            parts += [self.server]
        return ", ".join((*parts, load))

    def at(self, load: float, of: "Case | None" = None) -> "Case":
        """Return the case at a part of its own peak, or of another case's."""
        return dataclasses.replace(self, load=load, of=of or self)

    def within(self, limit: float, of: "Case") -> "Case":
        """Return the case at the largest load within a limit."""
        return dataclasses.replace(self, limit=limit, of=of)

    def description(self, requests: int) -> Description:
        """Return the common description of this case's runs."""
        # Shapes that are the same traffic share one run: all with one queue, and two with as many
        # queues as one of them always uses.
        shape = "single-queue" if self.queues == 1 else self.shape
        if shape == "non-proportionally-concentrated" and self.queues <= ALWAYS_USED:
            shape = "fully-balanced"
        server: dict[str, object] = {
            "preset": self.server,
            "data_plane_cores": self.cores,
        }
        data_plane: dict[str, object] = {
            "program": self.task,
            "notify": self.notify,
            "policy": self.policy,
            "batch": BATCH,
            "queues": self.queues,
        }
        traffic: dict[str, object] = {
            "shape": shape,
            "arrivals": "poisson",
            "load": "saturate",
            "packets": "generated",
        }
        if self.cores > 1:
            data_plane["organisation"] = (
                "scale-out" if self.cluster == 1 else f"scale-up-{self.cluster}"
            )
        if self.cluster > 1:
            data_plane["in_order"] = self.order == IN_ORDER
        if self.policy == "weighted-round-robin":
            data_plane["weights"] = list(WEIGHTS)
        if self.sources != DEVICE:
            traffic["sources"] = self.sources
        if self.imbalance:
            traffic["imbalance"] = self.imbalance
        if self.co_runner is not None:
            server["core"] = {"threads": 2}
            data_plane["co_runner"] = self.co_runner
        hyperplane: dict[str, object] = {}
        if self.power == POWER_OPTIMISED:
            hyperplane["power_optimised"] = True
        if self.server != PAPER_SERVER and self.notify in MONITORED:
            hyperplane["entries"] = SKYLAKE_ENTRIES
        if hyperplane:
            server["hyperplane"] = hyperplane
        return Description.from_dict(
            {
                "server": server,
                "data_plane": data_plane,
                "traffic": traffic,
                "measure": {"requests": requests, "seed": 1},
            },
            source=self.name,
        )

    @property
    def busy_queues(self) -> int:
        """The number of queues with requests: the length of a round over them."""
        always = {
            "fully-balanced": self.queues,
            "proportionally-concentrated": self.queues // 5,
            "non-proportionally-concentrated": min(self.queues, ALWAYS_USED),
            "single-queue": 1,
        }[self.shape]
        # One in twenty of the other queues is in use, except with a single busy queue.
        others = 0 if self.shape == "single-queue" else (self.queues - always) // 20
        return max(1, always + others)

    @property
    def begins_used(self) -> bool:
        """Whether the rings begin used instead of being filled first.

        Other cases first fill their rings: prepared rings were compared with timed warm-ups in only
        a few of these cases, or differ from them, as under strict priority, or where several cores
        serve a queue at once (docs/warm-up.md).
        """
        return (
            self.server == PAPER_SERVER
            and (self.cluster == 1 or self.order == IN_ORDER)
            and self.policy == "round-robin"
            and self.notify not in COMPLETIONS
        )

    @property
    def begins_full(self) -> bool:
        """Whether the rings of a saturated run begin full: of shared ones one case was compared."""
        return self.begins_used and self.cluster == 1

    def warm(self, description: Description) -> Description:
        """Let a run below saturation begin after the first use of each slot of its rings."""
        if self.busy_queues == 1:
            return description
        if self.begins_used:
            description = description.set("measure.rings", "used")
        rate_mrps = self.cores * WARM_MRPS.get(self.task, USUAL_WARM_MRPS)
        return with_used_rings(description, rate_mrps)

    def saturated(self, quick: bool, requests: int) -> Description:
        """Return the saturated run of this case, with `requests` requests."""
        requests = measured_requests(requests, quick, self.busy_queues)
        description = saturated(self.description(requests), self.cores)
        if self.begins_full:
            before = {"requests": "auto"}
            return description.set("measure.rings", "full").set("measure.warm_start", before)
        return description

    def run(self, quick: bool, requests: int, peak_requests: int) -> Run:
        """Return the case's run, with `requests` requests; its peak's run has `peak_requests`."""
        if self.of is None:
            return Run(self.saturated(quick, requests))
        is_light = self.load is not None and self.load < LIGHT_BELOW
        queues = 0 if is_light else self.busy_queues
        description = self.warm(self.description(measured_requests(requests, quick, queues)))
        peak = self.of.saturated(quick, peak_requests)
        if self.limit is not None:
            limit = Limit(self.limit, 0.03 if quick else 0.01, by_chance=True)
            organisation = (self.cores // self.cluster, self.cluster)
            return Run(description, peak=peak, limit=limit, organisation=organisation)
        return Run(description, peak=peak, part=self.load or 1.0)
