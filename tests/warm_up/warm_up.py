"""Whether runs that begin warm measure what runs after 32,000 timed requests do.

Of each case there is a reference, which serves 32,000 requests before it measures, and a run that
begins as quickly as it can: with rings that have been used (`measure.rings`), and a warm start or a
warm-up that ends by rule. `python tests/warm_up/warm_up.py` prints the table of docs/warm-up.md;
`pytest -m long tests/python/test_warm_up.py` says whether all intervals agree.
"""

import argparse
import dataclasses
import math
import time
from typing import Any

from nanoplane import Description, execution

TIMED = 32_000
"""Requests of a reference's warm-up."""
FILL_MRPS = 20.0
"""At which rate for each core a reference fills the rings of a saturated run."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a run has measured."""

    value: float
    interval: tuple[float, float]
    """95 %."""
    seconds: float
    """Of the host's processor."""

    def __str__(self) -> str:
        """Write it as the table has it."""
        digits = 3 if self.value < 20 else 0
        low, high = (f"{one:.{digits}f}" for one in self.interval)
        return f"{self.value:.{digits}f} [{low}, {high}]"

    def agrees(self, other: "Measured", bias: float = 0.0) -> bool:
        """Whether the difference of two independent runs is one of chance, with 99 %.

        `bias` is a known difference, as a part of the other value.
        """
        halves = [(one.interval[1] - one.interval[0]) / 2 for one in (self, other)]
        # Intervals of 95 % are 1.96 standard errors wide to each side, those of 99 % 2.58.
        most = 2.58 / 1.96 * math.hypot(*halves)
        return abs(self.value - other.value) <= most + bias * other.value


@dataclasses.dataclass(frozen=True)
class Case:
    """A server and its traffic."""

    description: Description
    rate_mrps: float | None
    """What is offered; None: it is saturated."""
    kind: str = "rings"
    """`rings`, which can begin used or full; `messages`, which can begin used; or a `rack`."""
    warm_mrps: float | None = None
    """At which rate the reference warms up, if not at its own."""
    bias: float = 0.0
    """A known difference after the rule's warm-up, as a part of the value."""

    @property
    def metric(self) -> str:
        """What is compared: millions a second, or nanoseconds."""
        return "throughput" if self.rate_mrps is None else "mean"

    def reference(self) -> Description:
        """Return the run after a timed warm-up."""
        if self.kind == "rack":
            return self.description.set("measure.warmup", TIMED)
        rate_mrps = self.rate_mrps
        if rate_mrps is None:
            rate_mrps = FILL_MRPS * float(self.description.get("server.data_plane_cores"))
        return self.description.set(
            "measure.warm_start", {"requests": TIMED, "rate_mrps": self.warm_mrps or rate_mrps}
        )

    def prepared(self) -> Description:
        """Return the run that begins warm, by rule."""
        if self.kind == "rack":
            return self.description
        start = {"requests": "auto"}
        rings = "full" if self.rate_mrps is None and self.kind == "rings" else "used"
        description = self.description.set("measure.rings", rings)
        if self.rate_mrps is not None:
            return description.set(
                "measure.warm_start", {**start, "rate_mrps": self.warm_mrps or self.rate_mrps}
            )
        return description.set("measure.warm_start", start)

    def run(self, description: Description) -> Measured:
        """Run it."""
        resolved = description.resolve()
        begin = time.process_time()
        measured = execution.run_with(resolved.data, resolved.elf(), resolved.contents(), None)
        seconds = time.process_time() - begin
        if self.metric == "throughput":
            value, interval = measured["throughput_mrps"], measured["throughput_mrps_ci95"]
        else:
            latency = (measured["measurement"] if self.kind == "rack" else measured)["latency_ns"]
            value, interval = latency["mean"], latency["mean_ci95"]
        return Measured(value, (interval[0], interval[1]), seconds)


def _rings(
    notify: str,
    queues: int,
    *settings: str,
    rate: float | None = None,
    saturated: float | None = None,
    requests: int = 4000,
    preset: str = "hyperplane-table1",
    warm: float | None = None,
    bias: float = 0.0,
) -> Case:
    """Return a case with rings: at a rate, or with what saturates it."""
    traffic: dict[str, Any] = {
        "shape": "fully-balanced",
        "arrivals": "poisson",
        "packets": "generated",
    }
    if rate is None:
        traffic |= {"load": "saturate", "saturation_rate_mrps": saturated}
    else:
        traffic["rate_mrps"] = rate
    description = Description.from_dict(
        {
            "server": {"preset": preset, "data_plane_cores": 1},
            "data_plane": {
                "program": "packet-encapsulation",
                "notify": notify,
                "queues": queues,
                "batch": 1,
            },
            "traffic": traffic,
            "measure": {"requests": requests, "seed": 1},
        }
    )
    for setting in settings:
        description = description.assign(setting)
    return Case(description, rate, warm_mrps=warm, bias=bias)


def _messages(mode: str, rate_mrps: float) -> Case:
    """Return a case of RPCValet's, with its paper's traffic."""
    description = Description.from_dict(
        {
            "server": {
                "preset": "rpcvalet-table1",
                "data_plane_cores": 16,
                "rpcvalet": {"dispatch": {"mode": mode, "threshold": 2}},
            },
            "data_plane": {"program": "echo", "notify": "rpcvalet", "queues": 200},
            "traffic": {"arrivals": "poisson", "rate_mrps": rate_mrps, "packet_bytes": 470},
            "measure": {"requests": 8000, "seed": 1},
        }
    )
    return Case(description, rate_mrps, "messages")


def _rack(
    program: str,
    interface: str,
    preset: str,
    rate_mrps: float,
    *settings: str,
    bias: float = 0.0,
) -> Case:
    """Return a case of a server and a client."""
    description = Description.from_dict(
        {
            "rack": {
                "link": {"rate_gbit_per_s": 100, "latency_ns": 43},
                "servers": [
                    {
                        "program": program,
                        "serves": True,
                        "interface": interface,
                        "server": {"preset": preset},
                    }
                ],
                "clients": [{"load": {"offer": {"mode": "open", "rate_mrps": rate_mrps}}}],
            },
            "measure": {"requests": 8000, "seed": 1},
        }
    )
    for setting in settings:
        description = description.assign(setting)
    return Case(description, rate_mrps, "rack", bias=bias)


FOUR_CORES = "server.data_plane_cores=4"
IN_PAIRS, TOGETHER = (
    (FOUR_CORES, f"data_plane.organisation=scale-up-{cores}", "data_plane.in_order=true")
    for cores in (2, 4)
)
SOURCES = "traffic.sources=cores"
SKYLAKE = "spin-to-win-table1"
ENTRIES = "server.hyperplane.entries=1536"
DATAGRAMS = (
    'rack.clients.0.load.transport={protocol="datagrams", send_buffers=4096, receive_buffers=4096}'
)
CLIENT = "rack.clients.0"

CASES = {
    "`hyperplane`, 1000 queues, saturated": _rings("hyperplane", 1000, saturated=1.6),
    "the same, RAID protection": _rings(
        "hyperplane", 1000, "data_plane.program=raid-protection", saturated=2.25
    ),
    "`spin`, 1000 queues, saturated": _rings("spin", 1000, saturated=1.7),
    "`spin`, 20 queues, saturated": _rings("spin", 20, saturated=5.5),
    "`spin-poll-mode`, 400 queues, saturated": _rings("spin-poll-mode", 400, saturated=5.0),
    "`hyperplane`, 400 queues, weighted round-robin, saturated": _rings(
        "hyperplane",
        400,
        "data_plane.policy=weighted-round-robin",
        "data_plane.weights=[4, 2, 1]",
        saturated=5.0,
    ),
    "`hyperplane`, 400 queues, beside a co-runner, 1 million a second": _rings(
        "hyperplane",
        400,
        "server.core.threads=2",
        "data_plane.co_runner=matrix-multiplication",
        rate=1.0,
    ),
    "`hyperplane`, 400 queues, shared by four cores, saturated": _rings(
        "hyperplane", 400, FOUR_CORES, "data_plane.organisation=scale-up-4", saturated=15.0
    ),
    "`hyperplane`, 400 queues, four cores in pairs, in order, 0.5 million a second": _rings(
        "hyperplane", 400, *IN_PAIRS, rate=0.5, requests=12_000, warm=3.0
    ),
    "the same, 4.5 million a second": _rings(
        "hyperplane", 400, *IN_PAIRS, rate=4.5, requests=12_000, warm=3.0
    ),
    "four cores that share all of them, in order, 4.5 million": _rings(
        "hyperplane", 400, *TOGETHER, rate=4.5, requests=12_000, warm=3.0
    ),
    "`spin-poll-mode`, 400 queues, four cores in pairs, 4 million a second": _rings(
        "spin-poll-mode", 400, *IN_PAIRS, rate=4.0, requests=12_000, warm=3.0
    ),
    "`hyperplane`, 1000 queues, 0.5 million a second": _rings(
        "hyperplane", 1000, rate=0.5, requests=8000
    ),
    "`spin`, 400 queues, 1.5 million a second": _rings("spin", 400, rate=1.5),
    "`spin-mlx5`, 400 queues, 0.5 million a second": _rings("spin-mlx5", 400, rate=0.5),
    "`user-interrupt`, 400 queues, 1 million a second": _rings("user-interrupt", 400, rate=1.0),
    "`hyperplane`, 400 queues of four cores, 5 million a second": _rings(
        "hyperplane", 400, FOUR_CORES, rate=5.0
    ),
    "`spin`, 400 queues, shared by four cores, 5 million a second": _rings(
        "spin", 400, FOUR_CORES, "data_plane.organisation=scale-up-4", rate=5.0
    ),
    "`hyperplane`, 400 queues of two sockets with two cores each, 4 million a second": _rings(
        "hyperplane", 400, FOUR_CORES, "server.fabric.sockets=2", rate=4.0
    ),
    "`spin`, 400 queues, sources on cores, 1 million a second": _rings(
        "spin", 400, SOURCES, rate=1.0
    ),
    "`hyperplane`, the same": _rings("hyperplane", 400, SOURCES, rate=1.0),
    "`hyperplane`, 400 queues, Skylake, 1 million a second": _rings(
        "hyperplane", 400, ENTRIES, rate=1.0, preset=SKYLAKE
    ),
    "`spin-mlx5`, the same": _rings("spin-mlx5", 400, rate=1.0, preset=SKYLAKE, bias=0.12),
    "`rpcvalet`, one queue, 8 million a second": _messages("one-queue", 8.0),
    "`rpcvalet`, taken by cores, 4 million a second": _messages("software", 4.0),
    "`nanopu`, 2 million a second": _rack("nanopu/loopback", "nanopu", "nanopu-prototype", 2.0),
    "`dma-nic`, 1 million a second": _rack(
        "traditional/loopback-express",
        "dma-nic",
        "nanopu-prototype",
        1.0,
        DATAGRAMS,
        f"{CLIENT}.begin_ns=100_000",
        f"{CLIENT}.load.ports=64",
    ),
    "`cqe-nic`, 2 million a second": _rack(
        "poll-mode/l3-forward",
        "cqe-nic",
        "skylake-sp",
        2.0,
        DATAGRAMS,
        "rack.servers.0.parameters={queues=1, cores=1, routes=16384}",
        f"{CLIENT}.begin_ns=20_000",
        f"{CLIENT}.load.ports=1024",
        f'{CLIENT}.load.destinations={{first="64.0.0.0", last="64.63.255.255"}}',
        f"{CLIENT}.load.requests=[{{bytes=32}}]",
        bias=0.005,
    ),
}
"""By what the table calls them."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help="of the name of a case")
    parts = parser.parse_args().part
    print("| case | 32,000 timed requests | prepared | seconds |")
    print("| --- | --- | --- | --- |")
    for name, case in CASES.items():
        if parts and not any(part in name for part in parts):
            continue
        reference, prepared = case.run(case.reference()), case.run(case.prepared())
        mark = "" if prepared.agrees(reference, case.bias) else " **differs**"
        seconds = f"{reference.seconds:.1f}, {prepared.seconds:.1f}"
        print(f"| {name} | {reference} | {prepared}{mark} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
