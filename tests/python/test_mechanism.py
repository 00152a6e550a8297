"""What HyperPlane's mechanism does for a program: policies, limits, false sharing, other work."""

from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, Store, simulator, sweep
from nanoplane.errors import DescriptionError
from nanoplane.papers import hyperplane_conflicts

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
SLOTS = 16
"""`traffic.queue_capacity`: what a queue can hold when a run ends, and a tenant's ring as well."""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    store = Store(tmp_path)

    def run(program: str = "packet-encapsulation", **settings: Any) -> dict[str, Any]:
        description = Description.from_dict(
            {
                "server": {"preset": "hyperplane-table1"},
                "data_plane": {"program": program, "notify": "hyperplane", "queues": 4},
                "traffic": {"shape": "fully-balanced", "packet_bytes": 256},
                "measure": {"requests": 1000, "warmup": 200},
            }
        )
        for key, value in settings.items():
            description = description.set(key.replace("__", "."), value)
        (outcome,) = sweep([description], store=store)
        return outcome.result

    return run


def rates_mrps(result: dict[str, Any]) -> list[float]:
    """The throughput of each queue, of the measured requests."""
    samples = result["queues"]["samples"]
    return [result["throughput_mrps"] * one / sum(samples) for one in samples]


def assert_nothing_is_lost(result: dict[str, Any]) -> None:
    """By queue: what came was dropped or delivered, or is in one of the two rings at the end."""
    queues = result["queues"]
    for name in ("generated", "dropped", "delivered"):
        assert sum(queues[name]) == result[name]
    for came, dropped, delivered in zip(
        queues["generated"], queues["dropped"], queues["delivered"], strict=True
    ):
        assert 0 <= came - dropped - delivered <= 2 * SLOTS


@pytest.mark.parametrize(
    ("queues", "weights"), [(3, [4, 2, 1]), (6, [3, 1]), (5, [1]), (4, [])], ids=str
)
def test_shares_are_as_the_weights(run: Any, queues: int, weights: list[int]) -> None:
    settings = {"data_plane__weights": weights, "data_plane__queues": queues}
    result = run(data_plane__policy="weighted-round-robin", **settings)
    weight = [(weights or [1])[queue % len(weights or [1])] for queue in range(queues)]
    # All queues have items all the time: each has its weight of items in a row, and the measured
    # requests are a part of that sequence. It may begin and end within a queue's turn.
    rounds = sum(result["queues"]["samples"]) / sum(weight)
    for samples, of in zip(result["queues"]["samples"], weight, strict=True):
        assert abs(samples - rounds * of) <= of
    assert min(result["queues"]["dropped"]) > 0
    assert_nothing_is_lost(result)


def test_strict_priority_starves_lower_queues(run: Any) -> None:
    # Two queues are offered far more than what the core takes: the first never becomes empty.
    result = run(data_plane__policy="strict-priority", data_plane__queues=2)
    assert result["queues"]["samples"][1] == 0
    assert result["queues"]["mean_latency_ns"][1] is None
    # But for the slots of its ring, all that comes to the second finds it full.
    queues = result["queues"]
    assert queues["generated"][1] - queues["dropped"][1] <= SLOTS
    assert_nothing_is_lost(result)


def test_strict_priority_serves_all_when_there_is_time(run: Any) -> None:
    peak = run(data_plane__policy="strict-priority")["throughput_mrps"]
    result = run(data_plane__policy="strict-priority", traffic__rate_mrps=0.75 * peak)
    latencies = result["queues"]["mean_latency_ns"]
    assert latencies == sorted(latencies)
    assert result["dropped"] == 0
    assert_nothing_is_lost(result)


def test_weights_do_not_matter_to_who_offers_little(run: Any) -> None:
    settings = {"data_plane__policy": "weighted-round-robin", "data_plane__weights": [8, 1, 1, 1]}
    result = run(**settings, traffic__rate_mrps=1.0)
    assert result["dropped"] == 0
    assert_nothing_is_lost(result)
    for delivered, generated in zip(
        result["queues"]["delivered"], result["queues"]["generated"], strict=True
    ):
        assert generated - delivered <= 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"data_plane__policy": "strict-priority", "data_plane__notify": "spin"},
            "a data plane that spins polls its queues round-robin",
        ),
        ({"data_plane__weights": [2, 1]}, "data_plane.weights has no meaning"),
        (
            {"data_plane__policy": "weighted-round-robin", "data_plane__weights": [1, 0]},
            "data_plane.weights.1 is 0; it must be a whole number from 1 to 65535",
        ),
        (
            {"data_plane__policy": "weighted-round-robin", "data_plane__weights": [1] * 5},
            "data_plane.weights has 5 weights, and there are 4 queues",
        ),
        ({"data_plane__parameters__speed": 1}, "the program has no parameters"),
        ({"data_plane__parameters__speed": "fast"}, "it must be a number"),
    ],
)
def test_what_has_no_meaning_gets_a_sentence(
    run: Any, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DescriptionError, match=sentence):
        run(**settings)


def test_conflicts_are_those_of_the_ways() -> None:
    two, _, four, short_walks = hyperplane_conflicts.TABLES_TRIED
    # Two ways hold half of their entries, four ways 98 %; so here they cannot and can.
    assert hyperplane_conflicts.percent(two, "random-in-turn", 10) > 5
    in_turn = hyperplane_conflicts.percent(four, "random-in-turn", 10)
    assert in_turn < 0.05
    assert hyperplane_conflicts.percent(four, "random", 10) > 10 * in_turn  # Banks overflow.
    assert hyperplane_conflicts.percent(short_walks, "random-in-turn", 0) > 1
    judgement = hyperplane_conflicts.judge({})
    assert judgement.agrees is False
    assert "4 ways" in judgement.why


def test_a_monitoring_set_that_cannot_be_built_gets_a_sentence() -> None:
    for key, value in {"entries": 1000, "ways": 9, "walk_places": 1}.items():
        with pytest.raises(DescriptionError, match=f"hyperplane.{key} = {value} cannot be built"):
            simulator.conflicts({key: value}, 16, "random", 10, 1)
