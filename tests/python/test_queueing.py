"""Queueing theory: the simulator's waiting times where there is a formula for them.

A data plane with QWAIT that does synthetic work (guest/programs/synthetic.c) is a queueing system:
Poisson arrivals, one or several cores, service times that come out of a pcap file. Nothing about
the service is assumed: its mean is that of a core which always has work, its variance that of
latencies when hardly anything arrives. Both contain what the data plane does beside the work.
Waiting is what latency is longer than without load.

What the data plane does takes some 100 ns, and up to 20 ns more or less with the state of the
queues: to arm a doorbell takes longer than to find another item there, and a system at its limit
hardly ever arms one. Work of 5 us makes that a small part.
"""

import dataclasses
import math
import random
import re
import statistics
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from nanoplane import Description, Store, simulator, sweep
from nanoplane.errors import DescriptionError, NanoplaneError
from nanoplane.load_search import Limit, modelled
from nanoplane.simulator import histogram_bins
from nanoplane.sweep import Run

pytestmark = pytest.mark.simulator

REQUESTS, WARMUP = 5_000, 500
MEAN_NS = 5_000
# What the data plane takes for an item beside the work, about.
OVERHEAD_NS = 100
SYSTEMS = {
    "M/D/1": ("fixed", 1),
    "M/M/1": ("exponential", 1),
    "M/G/1": ("bimodal", 1),
    "M/M/4": ("exponential", 4),
}
# Several cores hardly let anything wait at 0.3.
POINTS = [
    (name, load)
    for name, (_, cores) in SYSTEMS.items()
    for load in (0.3, 0.6, 0.8)
    if cores == 1 or load > 0.3
]
# Student's t with 29 degrees of freedom, for 95 % and 99.9 %: intervals are made of 30 batches.
T_95, T_999 = 2.045, 3.659


def write_pcap(path: Path, times_ns: list[float]) -> None:
    """Write packets that take these times."""
    # Addresses and ports do not matter; a UDP checksum of 0 is none.
    packet = bytes(IP(dst="10.0.0.1") / UDP(chksum=0) / Raw(b"work" + bytes(4)))[:-4]
    frame = struct.pack("<IIII", 0, 0, len(packet) + 4, len(packet) + 4) + packet
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    path.write_bytes(header + b"".join(frame + struct.pack(">I", round(ns)) for ns in times_ns))


def service_times(distribution: str) -> list[float]:
    """Draw the packets' work. Exponential is what it is together with the overhead."""
    draw = random.Random(1)
    times: dict[str, Callable[[], float]] = {
        "fixed": lambda: MEAN_NS,
        "exponential": lambda: max(0.0, draw.expovariate(1 / MEAN_NS) - OVERHEAD_NS),
        "bimodal": lambda: MEAN_NS / 2 if draw.random() < 0.9 else MEAN_NS * 5.5,
    }
    return [times[distribution]() for _ in range(REQUESTS)]


def variance(text: str) -> float:
    pairs = list(histogram_bins(text))
    number = sum(count for _, count in pairs)
    mean = sum(value * count for value, count in pairs) / number
    return sum((value - mean) ** 2 * count for value, count in pairs) / number


@dataclasses.dataclass(frozen=True)
class System:
    """What was measured of a queueing system without load, and with as much as it can take."""

    cores: int
    idle_ns: float
    """Mean latency without load."""
    service_ns: float
    """Mean time between two items that one core takes, when there is always one."""
    variance_ns2: float
    """Of service times."""

    def rate_mrps(self, load: float) -> float:
        return load * self.cores / self.service_ns * 1e3

    def pollaczek_khinchine_ns(self, load: float) -> float:
        squares = self.variance_ns2 + self.service_ns**2
        return load * squares / self.service_ns / 2 / (1 - load)

    def erlang_c_ns(self, load: float) -> float:
        erlangs = load * self.cores
        terms = [erlangs**k / math.factorial(k) for k in range(self.cores + 1)]
        waits = terms[-1] / (1 - load)
        probability = waits / (sum(terms[:-1]) + waits)
        return probability * self.service_ns / self.cores / (1 - load)

    def law_ns(self, name: str, load: float) -> float:
        """Return the mean waiting time, by the law of that name."""
        if name.startswith("M/M/"):
            return self.erlang_c_ns(load)
        if name == "M/D/1":
            return load * self.service_ns / 2 / (1 - load)
        return self.pollaczek_khinchine_ns(load)


IDLE, FULL = 0.0005, 1.5
"""Loads at which nothing ever waits, and at which there is always something that waits."""


def description(pcap: Path, cores: int, rate_mrps: float, seed: int = 1) -> Description:
    # Cores that share queues take the items of one queue one after the other. With many queues
    # that hardly ever keeps a core from work.
    queues, capacity = (16, 2048) if cores == 1 else (1000, 64)
    return Description.from_dict(
        {
            "server": {
                "preset": "hyperplane-table1",
                "data_plane_cores": cores,
            },
            "data_plane": {"program": "synthetic", "notify": "hyperplane", "queues": queues},
            "traffic": {
                "packets": str(pcap),
                "packet_bytes": 36,
                "queue_capacity": capacity,
                "rate_mrps": rate_mrps,
            },
            "measure": {"requests": REQUESTS, "warmup": WARMUP, "seed": seed},
        }
    )


def simulate(
    directory: Path, seed: int
) -> tuple[dict[str, System], dict[tuple[str, float], dict[str, Any]]]:
    """Measure the systems, and then run each at every load."""
    store = Store(directory / "store")
    times_ns = {name: service_times(distribution) for name, (distribution, _) in SYSTEMS.items()}

    def pcap(name: str, order: int) -> Path:
        path = directory / f"{name.replace('/', '')}-{order}.pcap"
        write_pcap(path, random.Random(order).sample(times_ns[name], REQUESTS))
        return path

    def run(descriptions: dict[Any, Description]) -> dict[Any, Any]:
        outcomes = sweep(descriptions.values(), store=store)
        return {key: one.result for key, one in zip(descriptions, outcomes, strict=True)}

    extremes = run(
        {
            (name, load): description(pcap(name, 0), cores, load * cores / MEAN_NS * 1e3)
            for name, (_, cores) in SYSTEMS.items()
            for load in (IDLE, FULL)
        }
    )
    systems = {
        name: System(
            cores,
            extremes[name, IDLE]["latency_ns"]["mean"],
            cores / extremes[name, FULL]["throughput_mrps"] * 1e3,
            variance(extremes[name, IDLE]["histogram"]),
        )
        for name, (_, cores) in SYSTEMS.items()
    }
    # Each run has arrivals of its own and the service times in an order of its own, or all would
    # err to the same side.
    results = run(
        {
            (name, load): description(
                pcap(name, 100 * seed + number),
                systems[name].cores,
                systems[name].rate_mrps(load),
                100 * seed + number,
            )
            for number, (name, load) in enumerate(POINTS)
        }
    )
    return systems, results


@pytest.fixture(scope="module")
def simulated(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, System], dict[tuple[str, float], dict[str, Any]]]:
    return simulate(tmp_path_factory.mktemp("queueing"), seed=1)


def deviation(system: System, name: str, load: float, result: dict[str, Any]) -> float:
    """Return how far the waiting time is from the law, in standard errors of the run's own."""
    latency = result["latency_ns"]
    low, high = latency["mean_ci95"]
    waiting_ns = latency["mean"] - system.idle_ns
    return float((waiting_ns - system.law_ns(name, load)) / ((high - low) / 2 / T_95))


def test_waiting_times_follow_the_laws(simulated: Any) -> None:
    systems, results = simulated
    found = {
        f"{name} at {load}": round(deviation(systems[name], name, load, result), 2)
        for (name, load), result in results.items()
    }
    assert all(result["dropped"] == 0 for result in results.values())
    # Of 11 intervals of 95 %, more than three are wrong in one of 600 such tests.
    assert sum(abs(one) > T_95 for one in found.values()) <= 3, found
    assert all(abs(one) < T_999 for one in found.values()), found
    # All together: laws that are a little wrong would show here. 99.9 % of normal means.
    assert abs(sum(found.values())) / math.sqrt(len(found)) < 3.3, found


def test_service_times_are_those_that_were_meant(simulated: Any) -> None:
    systems, _ = simulated
    for name, squared_variation in {"M/D/1": 0, "M/M/1": 1, "M/M/4": 1}.items():
        found = systems[name].variance_ns2 / systems[name].service_ns ** 2
        times_ns = service_times(SYSTEMS[name][0])
        drawn = statistics.pvariance(times_ns) / (statistics.fmean(times_ns) + OVERHEAD_NS) ** 2
        # The standard deviation of what is drawn is 0.04 for exponential times.
        assert drawn == pytest.approx(squared_variation, abs=0.12), name
        assert found == pytest.approx(drawn, abs=0.03), name
    overhead_ns = systems["M/D/1"].service_ns - MEAN_NS
    assert overhead_ns == pytest.approx(OVERHEAD_NS, abs=25)


def busy_ns(result: Mapping[str, Any]) -> float:
    """Return how long the first core was not halted."""
    core = result["cores"][0]
    busy = 1 - core["halted_cycles"] / core["cycles"]
    return float(busy * result["simulated_seconds"] * 1e9)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_core_is_busy_for_as_long_as_its_items_take(
    simulated: Any, tmp_path: Path, load: float
) -> None:
    """Little's law for what is in service."""
    systems, results = simulated
    system, long = systems["M/D/1"], results["M/D/1", load]
    write_pcap(tmp_path / "fixed.pcap", [MEAN_NS])
    # With hardly any items: what the start takes.
    few = description(tmp_path / "fixed.pcap", 1, system.rate_mrps(load))
    few = few.set("measure.requests", 100).set("measure.warmup", 0)
    start = sweep([few], store=Store(tmp_path))[0].result
    each_ns = (busy_ns(long) - busy_ns(start)) / (long["delivered"] - start["delivered"])
    # QWAIT's end after a halt, 50 cycles, counts as halted, and so it may be less.
    assert system.service_ns - 50 / 3 - 5 < each_ns < system.service_ns + 5


SYSTEM = {
    "queueing": {
        "queues": 1,
        "units": 1,
        "service_times": {"distribution": "fixed"},
        "load": 0.5,
        "requests": 100_000,
    }
}


def test_queueing_systems_without_a_server(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = Description.from_dict(SYSTEM)
    (outcome,) = sweep([one], store=store)
    # M/D/1: wait = load / (1 - load) / 2 service times.
    assert outcome.result["mean_wait_service_times"] == pytest.approx(0.5, rel=0.05)
    values = dict(histogram_bins(outcome.result["histogram"]))
    assert sum(values.values()) == outcome.result["latency_service_times"]["samples"]
    # Nothing is faster than its service, which is 1024 of the histogram's units.
    assert min(values) == 1024
    for text in ("", "no base64", outcome.result["histogram"][:-8]):
        with pytest.raises(DescriptionError, match="the histogram cannot be read"):
            histogram_bins(text)
    assert sweep([one], store=store)[0].stored
    for key, value, sentence in (
        ("queueing.units", 0, "queueing.units is 0; it must be a whole number from 1 to 1024"),
        ("queueing.service_times.distribution", "normal", 'did you mean "uniform"?'),
        ("server.preset", "rpcvalet-table1", "keep either the table queueing or server"),
    ):
        with pytest.raises(DescriptionError, match=re.escape(sentence)):
            sweep([one.set(key, value)], store=store)


def test_the_largest_load_that_keeps_a_limit(tmp_path: Path) -> None:
    system = Description.from_dict(SYSTEM).set("queueing.requests", 1_000_000)
    system = system.set("queueing.service_times.distribution", "exponential")
    (outcome,) = sweep([Run(system, limit=Limit(10))], store=Store(tmp_path))
    # M/M/1: the p99 is ln 100 / (1 - load), which is 10 at a load of 0.539.
    exact = 1 - math.log(100) / 10
    assert outcome.description["queueing"]["load"] == pytest.approx(exact, rel=0.02)
    assert outcome.result["latency_service_times"]["p99"] <= 10
    low, high = outcome.result["largest_load_ci95"]
    assert low <= exact <= high
    assert high - low < 0.1 * exact


def test_recorded_service_times(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.csv"
    recorded.write_text("service_time_ns,count\n100,3\n500,1\n")
    system = Description.from_dict(SYSTEM).set(
        "queueing.service_times", {"distribution": "recorded", "file": str(recorded)}
    )
    store = Store(tmp_path / "store")
    (outcome,) = sweep([system], store=store)
    # Pollaczek and Khinchine: mean 200, variance (3 * 100^2 + 300^2) / 4, a squared coefficient of
    # variation of 0.75; wait = load / (1 - load) * (1 + 0.75) / 2.
    assert outcome.result["mean_wait_service_times"] == pytest.approx(0.875, rel=0.05)
    # A result belongs to what is in the file, wherever that is.
    again = recorded.rename(tmp_path / "moved.csv")
    assert sweep([system.set("queueing.service_times.file", str(again))], store=store)[0].stored
    again.write_text("service_time_ns,count\n100,1\n500,1\n")
    assert not sweep([system.set("queueing.service_times.file", str(again))], store=store)[0].stored
    again.write_text("service_time_ns,count\nsoon,1\n")
    with pytest.raises(DescriptionError, match='line 2: "soon,1" has no time'):
        sweep([system.set("queueing.service_times.file", str(again))], store=store)
    with pytest.raises(DescriptionError, match="it must be a CSV file"):
        sweep([system], store=store)


def test_packets_say_how_long_they_take(tmp_path: Path) -> None:
    work = {"base_ns": 300, "mean_ns": 300, "service_times": {"distribution": "fixed"}}
    written = tmp_path / "600.pcap"
    write_pcap(written, [600])
    one = description(written, 1, 0.1).set("measure.requests", 300).set("measure.warmup", 0)
    other = one.set("traffic.packets", "generated").set("traffic.work", work)
    means = [
        outcome.result["latency_ns"]["mean"]
        for outcome in sweep([one, other], store=Store(tmp_path))
    ]
    assert means[0] == pytest.approx(means[1], abs=1)
    for wrong, sentence in (
        (one.set("traffic.work", work), "packets of a capture file stay as they are"),
        (other.set("data_plane.program", "raid-protection"), "the program takes blocks"),
        (other.set("traffic.packet_bytes", 35), "it must be 36 or more"),
    ):
        with pytest.raises(NanoplaneError, match=sentence):
            sweep([wrong], store=Store(tmp_path))


def test_a_search_begins_where_a_queueing_system_keeps_the_limit() -> None:
    """Its service times are those of the peak: here exponential ones of 1024 ns, so that the p99 of
    one core is ten of them at a load of 1 - ln(100) / 10."""
    system = {
        "queues": 1,
        "units": 1,
        "service_times": {"distribution": "exponential"},
        "load": 1e-3,
        "requests": 1_000_000,
        "seed": 1,
    }
    idle = simulator.queueing({"queueing": system})
    peak = {"service_histogram": idle["histogram"], "throughput_mrps": 1000 / 1024}
    measure = 100_000, 1

    def begins_at(peak: Mapping[str, Any], cores: int, limit_ns: float, *of: int) -> float:
        shape = modelled(peak, cores, limit_ns, (of[0], of[1]), measure)
        assert shape is not None
        return shape.at_limit * float(peak["throughput_mrps"])

    load = begins_at(peak, 1, 10 * 1024.0, 1, 1)
    assert load == pytest.approx(1000 / 1024 * (1 - math.log(100) / 10), rel=0.04)
    # Four queues of a core each are four times one of them, and one queue of four cores takes more.
    four = {**peak, "throughput_mrps": 4000 / 1024}
    apart = begins_at(four, 4, 10 * 1024.0, 4, 1)
    together = begins_at(four, 4, 10 * 1024.0, 1, 4)
    assert apart == pytest.approx(4 * load, rel=0.04)
    assert together > 1.3 * apart
    # If half of a request's time is not in the service time, it is fixed, and tails are shorter.
    fixed = begins_at({**peak, "throughput_mrps": 500 / 1024}, 1, 20 * 1024.0, 1, 1)
    assert fixed > 1.1 * load / 2
    # No load meets this limit, and the last one needs service times.
    assert modelled(peak, 1, 3 * 1024.0, (1, 1), measure) is None
    assert modelled({**peak, "service_histogram": None}, 1, 10 * 1024.0, (1, 1), measure) is None


def test_a_run_below_saturation_has_estimates_by_an_ideal_queue() -> None:
    """Near those that are measured alone; without Poisson arrivals there are none."""
    description = (
        Description.from_toml("examples/encapsulation.toml")
        .set("traffic.rate_mrps", 1.0)
        .set("measure.requests", 3000)
    )
    plain, fixed = sweep([description, description.set("traffic.arrivals", "fixed")])
    measured, found = plain.result["latency_ns"], plain.result["latency_ns_controlled"]
    for name in ("mean", "p99"):
        low, high = found[f"{name}_ci95"]
        assert low <= found[name] <= high
        assert found[name] == pytest.approx(measured[name], rel=0.1)
    assert found["ideal_mean"] == pytest.approx(found["ideal_mean_expected"], rel=0.1)
    assert fixed.result["latency_ns_controlled"] is None
