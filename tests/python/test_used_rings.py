"""Rings that have been used before a run begins, against those that requests have gone round."""

from typing import Any

import pytest

from nanoplane import Description, simulator
from nanoplane.errors import DescriptionError, NanoplaneError

pytestmark = pytest.mark.simulator

QUEUES = 120
DESCRIPTION = Description.from_dict(
    {
        "server": {
            "preset": "hyperplane-table1",
            "fabric": {
                "cores": 4,
                "mesh": {"columns": 2, "rows": 2},
                "memory": {"controllers": 1},
                "last_level": {"size_bytes_per_bank": 512 * 1024},
            },
        },
        "data_plane": {"program": "packet-encapsulation", "batch": 1, "queues": QUEUES},
        "traffic": {"shape": "fully-balanced", "arrivals": "poisson", "packets": "generated"},
        "measure": {"requests": 16 * QUEUES, "warmup": 0},
    },
    source="used rings",
)
"""Rings of 4 MB, and a last-level cache of 2 MB."""


def measured(description: Description) -> dict[str, Any]:
    resolved = description.resolve()
    files = resolved.contents()
    return dict(simulator.run(resolved.data, resolved.elf(), files=files))


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_full_rings_are_as_two_laps_leave_them(notify: str) -> None:
    saturated = (
        DESCRIPTION.set("data_plane.notify", notify)
        .set("traffic.load", "saturate")
        .set("traffic.saturation_rate_mrps", 6.0)
    )
    laps = {"requests": 2 * 16 * QUEUES, "rate_mrps": 20.0}
    timed = measured(saturated.set("measure.warm_start", laps))
    settled = saturated.set("measure.warm_start", {"requests": 1000})
    full = measured(settled.set("measure.rings", "full"))
    intervals = [result["throughput_mrps_ci95"] for result in (timed, full)]
    assert overlap(*intervals), intervals
    low, high = full["throughput_mrps_ci95"]
    assert (high - low) / full["throughput_mrps"] < 0.05
    assert (timed["cold_samples"], full["cold_samples"]) == (0, 0)


def test_used_rings_are_as_two_laps_leave_them() -> None:
    loaded = DESCRIPTION.set("data_plane.notify", "hyperplane").set("traffic.rate_mrps", 1.0)
    laps = {"requests": 2 * 16 * QUEUES, "rate_mrps": 1.0}
    timed = measured(loaded.set("measure.warm_start", laps))
    settled = loaded.set("measure.warm_start", {"requests": 1000, "rate_mrps": 1.0})
    used = measured(settled.set("measure.rings", "used"))
    latencies = [result["latency_ns"] for result in (timed, used)]
    for name in ("mean_ci95", "p99_ci95"):
        assert overlap(*(latency[name] for latency in latencies)), (name, latencies)
    assert (used["dropped"], used["cold_samples"]) == (0, 0)


def test_sources_on_cores_leave_the_same_behind() -> None:
    loaded = DESCRIPTION.set("data_plane.notify", "spin").set("traffic.rate_mrps", 0.5)
    loaded = loaded.set("traffic.sources", "cores")
    laps = {"requests": 2 * 16 * QUEUES, "rate_mrps": 0.5}
    timed = measured(loaded.set("measure.warm_start", laps))
    settled = loaded.set("measure.warm_start", {"requests": "auto", "rate_mrps": 0.5})
    used = measured(settled.set("measure.rings", "used"))
    latencies = [result["latency_ns"] for result in (timed, used)]
    assert overlap(*(latency["mean_ci95"] for latency in latencies)), latencies


def test_a_warm_start_ends_when_queues_and_caches_have_been_used() -> None:
    saturated = DESCRIPTION.set("data_plane.notify", "spin").set("traffic.load", "saturate")
    saturated = saturated.set("traffic.saturation_rate_mrps", 6.0).set("measure.rings", "full")

    def warmed(description: Description) -> int:
        result = measured(description)
        return int(result["delivered"]) - int(result["latency_ns"]["samples"])

    # Queues are served in turn: 118 of 120 have been, and the core's cache has long been full.
    auto = saturated.set("measure.warm_start", {})
    assert 118 <= warmed(auto) < 2 * QUEUES
    # Of rings that begin unused, all but 38 of 1920 slots.
    new = auto.set("measure.rings", "new")
    assert 1882 <= warmed(new) < 2 * 1920
    # Whatever is skipped, and however far cores run ahead.
    slow = measured(auto.set("simulator.lookahead_cycles", 1).set("simulator.skip_spinning", False))
    fast = measured(auto)
    for name in ("latency_ns", "throughput_mrps", "cycles", "fabric"):
        assert slow[name] == fast[name], name
    # At a rate, requests go to the queues in turn as well; at random it would take four of each.
    loaded = auto.set("traffic.rate_mrps", 1.0).set("measure.rings", "used")
    assert 118 <= measured(loaded)["warm_start_requests"] < 2 * QUEUES
    # Queues that are hardly served are not waited for.
    strict = auto.set("data_plane.policy", "strict-priority")
    assert warmed(strict) < 10 * QUEUES


def test_what_has_no_rings_gets_a_sentence() -> None:
    domain = DESCRIPTION.set("server.rpcvalet.backends", 2).set("data_plane.notify", "rpcvalet")
    domain = domain.set("data_plane.queues", 1).set("traffic.rate_mrps", 1.0)
    with pytest.raises(
        DescriptionError, match=r'"full", and data_plane.notify = "rpcvalet" has no'
    ):
        measured(domain.set("traffic.load", "saturate").set("measure.rings", "full"))
    completions = DESCRIPTION.set("data_plane.notify", "spin-mlx5")
    completions = completions.set("traffic.load", "saturate")
    with pytest.raises(NanoplaneError, match=r'measure.rings is "full", .* by completions'):
        measured(completions.set("measure.rings", "full"))


def test_only_what_saturates_keeps_rings_full() -> None:
    full = DESCRIPTION.set("data_plane.notify", "spin").set("measure.rings", "full")
    for load in ("traffic.rate_mrps=1", "traffic.load=0.5"):
        with pytest.raises(
            DescriptionError, match=r'is "full"; .* traffic.load = "saturate" alone'
        ):
            full.assign(load).check()
    full.assign("traffic.load=saturate").check()
