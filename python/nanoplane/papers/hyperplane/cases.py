"""What the paper varies, and the runs that follow from it."""

import dataclasses

from nanoplane.description import Description
from nanoplane.load_search import Limit
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
"""The tasks of Section V-A, in the order of Figure 8; the programs' names."""
SHAPES = {
    "fully-balanced": "fully balanced",
    "proportionally-concentrated": "proportionally concentrated",
    "non-proportionally-concentrated": "non-proportionally concentrated",
    "single-queue": "single queue",
}
"""The traffic shapes of Section II-C."""
BASELINES = ("spin-poll-mode", "spin", "hyperplane")
"""The paper measured HyperPlane against the first."""
OTHERS = tuple(
    name
    for name, one in mechanisms().items()
    if name not in BASELINES and not one.owns_queues and not one.brings_requests
)
"""What figures only show if it is asked for: the paper has nothing that sleeps and has to scan, and
no interrupts."""
SYSTEMS = {name: mechanisms()[name].label for name in (*BASELINES, *OTHERS)}
"""How the data plane learns of work."""
SYSTEM_DASHES = (*plots.SYSTEM_DASHES, [8, 3, 2, 3], [1, 2])
OPTIONAL = {"notify": OTHERS}
INTERFACE = "spin-mlx5"
PEAK_SYSTEMS = SYSTEMS | {INTERFACE: mechanisms()[INTERFACE].label}
"""With the driver of the interface in the paper's server. Which driver its simulated data plane had
the paper does not say, so that this is a series of its own, on request. It writes at each poll, so
that no poll can be skipped: a thousand queues at light load would take an hour."""
DEVICE, SOURCE_CORES = "device", "cores"
SOURCES = {DEVICE: "", SOURCE_CORES: ", sources on cores"}
"""Who writes the items, as series are called: the I/O device, or on request cores of the server, as
in the paper's simulation ("emulated I/O sources running on 'producer' cores")."""
PAPER_SERVER, SKYLAKE_SERVER = "hyperplane-table1", "spin-to-win-table1"
SERVERS = {PAPER_SERVER: "", SKYLAKE_SERVER: ", on the Skylake server"}
"""The preset, as series are called: the one of Table I, or on request the server of Figure 3."""
SKYLAKE_ENTRIES = 1536
"""Of that server's monitoring set: two ways of 32 rows for each of 24 tiles. The paper's 1024 are
those of 16."""
MONITORED = ("hyperplane", "software-ready-set")
"""What has that set."""
BATCH = 1
"""Items that a visit to a queue takes, of all systems. Section V-B: "a task is executed for every n
queue head polls (n ≈ 5 for PC and n = 1 for FB)". `spin-poll-mode` alone would take 32."""
QUEUES = (1, 10, 100, 400, 1000)

REGULAR, POWER_OPTIMISED = "regular", "power-optimised"
"""The modes of HyperPlane (Section V-D)."""

MODES = {
    **{(name, REGULAR): SYSTEMS[name] for name in BASELINES},
    ("hyperplane", POWER_OPTIMISED): "HyperPlane, power-optimised",
    **{(name, REGULAR): SYSTEMS[name] for name in OTHERS},
}
"""A data plane and its mode, and how it is called."""
MODE_COLOURS = plots.colours(notify if power == REGULAR else "nanopu" for notify, power in MODES)

POLLS = (
    "a poll of an empty queue takes 10 ns with 1000 queues here, with a driver of rings in memory, "
    "where the paper's take 100 ns; with the driver of the paper's interface it takes 68 "
    "(docs/polling.md)"
)
"""Why polls cost less here than in the paper."""
SHORT_ITEMS = (
    "0.5 us are a larger part of what an item takes here, 0.3 us: with items of 4 KiB instead of "
    "1 KiB, p99 0.8 us, it is 63 % without load and 11 % at half of it (docs/figures.md)"
)
"""Why waking up costs a larger part here."""

QUICK = 10
"""`--quick` divides the number of requests by this."""
MIN_REQUESTS = 100
"""No run has fewer."""
ROUNDS = 6
"""A run that is not at light load has at least so many requests for each queue that is in use:
queues take different times, and intervals are made of five whole rounds over them. One more, as
which of the other queues are in use is chance."""
LIGHT_BELOW = 0.01
"""Loads below this are light: requests hardly meet, so that there are no rounds, and time passes
without requests, which costs more to simulate than they do."""
QUICK_TASKS = ("packet-encapsulation", "raid-protection", "request-dispatching")
"""The tasks that `--quick` has in the figures that have all: of networks, of storage and of
applications. The saturated runs of 1000 queues take ten seconds each; of crypto forwarding, whose
items take 5 us, a minute."""
FILL_MRPS = 20.0
"""A saturated run whose rings do not begin full fills them at this rate for each core: of 15 items
that a ring holds and 20 million that are offered a second, 16 stay in the rings as long as no more
than four million are served, which takes 4 items a queue. At the rate that is offered afterwards it
takes forty, and the figures would measure rings that are half empty."""
COMPLETIONS = tuple(
    name for name, one in mechanisms().items() if one.owns_queues and one.needs_device
)
"""Mechanisms whose rings do not begin full: completions, which an interface writes and the only
hart of a queue reads, announce their items."""
WEIGHTS = (4, 2, 1)
"""Of the queues in turn, under weighted round-robin; the paper gives none."""
WARM_MRPS = {"crypto-forwarding": 0.1}
"""At which rate for each core a run below saturation is warmed up: less than it can take."""
USUAL_WARM_MRPS = 0.75
AS_PRINTED, IN_ORDER = "as printed", "in order"
"""Algorithm 1: a queue can be served again as soon as an item has been taken from it; or, with its
lines 18 and 19 swapped, when that has been processed. Only cores that share queues differ in it."""


def tasks(quick: bool) -> list[str]:
    """Return the tasks of the figures that have all."""
    return list(QUICK_TASKS if quick else TASKS)


def measured_requests(requests: int, quick: bool, queues: int) -> int:
    """Return how many requests a run has that are not light load, of so many queues in use."""
    return max(MIN_REQUESTS, ROUNDS * queues, requests // (QUICK if quick else 1))


def with_used_rings(description: Description, rate_mrps: float) -> Description:
    """Return a run that begins when each slot of the rings in use has been used once.

    Else its requests come in lines that nobody has had before, which are in no cache, until it has
    had as many as there are slots: with four cores and 400 queues at 80 % of the load the p99 of
    4000 requests is 12 us then, and 18 of 40,000. A rule says when that is over (docs/warm-up.md).
    """
    before = {"requests": "auto", "rate_mrps": rate_mrps}
    return description.set("measure.warm_start", before)


def saturated(description: Description, cores: int) -> Description:
    """Return a run whose rings are full before it measures what is served."""
    fill = {"requests": "auto", "rate_mrps": FILL_MRPS * cores}
    return description.set("traffic.load", "saturate").set("measure.warm_start", fill)


def organisation(case: "Case") -> str:
    """Return how the cores of a case divide the queues, as Figure 10 calls it."""
    name = "scale-out" if case.cluster == 1 else f"scale-up-{case.cluster}"
    if case.order == IN_ORDER and case.notify == "hyperplane":
        name += ", in order"
    return f"{name}, {case.imbalance:.0%} imbalance" if case.imbalance else name


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
    """What runs on the other hardware thread of each core (Section V-D)."""
    power: str = REGULAR
    """`power-optimised`: halted cores enter C1 (Section V-D)."""
    order: str = AS_PRINTED
    """Whether cores that share a queue can serve it at once."""
    policy: str = "round-robin"
    """Of the ready set (Section IV-B)."""
    load: float | None = None
    """Offered load, as a part of the peak of the case `of`; None: saturated."""
    of: "Case | None" = None
    limit: float | None = None
    """If given: at the largest load that keeps the p99 within so many mean service times of the
    case `of`."""
    sources: str = DEVICE
    server: str = PAPER_SERVER

    @property
    def name(self) -> str:
        """What progress and errors call it."""
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
        """Return the case at a part of its own peak, or of another's."""
        return dataclasses.replace(self, load=load, of=of or self)

    def within(self, limit: float, of: "Case") -> "Case":
        """Return the case at the largest load that keeps a limit."""
        return dataclasses.replace(self, limit=limit, of=of)

    def description(self, requests: int) -> Description:
        """Return what all runs of this case have in common."""
        # With one queue all shapes are the same traffic, and need one run.
        shape = "single-queue" if self.queues == 1 else self.shape
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
        """Through how many queues requests come: a round over them."""
        always = {
            "fully-balanced": self.queues,
            "proportionally-concentrated": self.queues // 5,
            "non-proportionally-concentrated": min(self.queues, 100),
            "single-queue": 1,
        }[self.shape]
        # Of the other queues one in twenty is in use, but with a single one.
        others = 0 if self.shape == "single-queue" else (self.queues - always) // 20
        return max(1, always + others)

    @property
    def begins_used(self) -> bool:
        """Whether the rings begin used, or full, instead of being gone round first.

        Other cases go round first: there prepared rings were compared with timed warm-ups for a few
        cases only, or differ from them, as under strict priority (docs/warm-up.md).
        """
        return (
            self.server == PAPER_SERVER
            and self.cluster == 1
            and self.policy == "round-robin"
            and self.co_runner is None
            and self.notify not in COMPLETIONS
        )

    def warm(self, description: Description) -> Description:
        """Let a run below saturation begin when each slot of its rings has been used once."""
        if self.busy_queues == 1:
            return description
        if self.begins_used:
            description = description.set("measure.rings", "used")
        rate_mrps = self.cores * WARM_MRPS.get(self.task, USUAL_WARM_MRPS)
        return with_used_rings(description, rate_mrps)

    def saturated(self, quick: bool, requests: int) -> Description:
        """Return the saturated run of this case, of so many requests."""
        requests = measured_requests(requests, quick, self.busy_queues)
        description = saturated(self.description(requests), self.cores)
        if self.begins_used:
            before = {"requests": "auto"}
            return description.set("measure.rings", "full").set("measure.warm_start", before)
        return description

    def run(self, quick: bool, requests: int, peak_requests: int) -> Run:
        """Return the case's run, of so many requests; those of the peak that it is a part of."""
        if self.of is None:
            return Run(self.saturated(quick, requests))
        is_light = self.load is not None and self.load < LIGHT_BELOW
        queues = 0 if is_light else self.busy_queues
        description = self.warm(self.description(measured_requests(requests, quick, queues)))
        peak = self.of.saturated(quick, peak_requests)
        if self.limit is not None:
            limit = Limit(self.limit, 0.03 if quick else 0.01)
            organisation = (self.cores // self.cluster, self.cluster)
            return Run(description, peak=peak, limit=limit, organisation=organisation)
        return Run(description, peak=peak, part=self.load or 1.0)
