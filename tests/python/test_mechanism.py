"""What HyperPlane's mechanism does for a program: policies, limits, false sharing, other work."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import completed
from nanoplane import Description, Store, simulator, sweep
from nanoplane.errors import DescriptionError, NanoplaneError
from nanoplane.papers.hyperplane import monitoring_set

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
SLOTS = 16
"""`traffic.queue_capacity`: what a queue can hold when a run ends, and a tenant's ring as well."""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    store = Store(tmp_path)

    def run(program: str = "packet-encapsulation", **settings: Any) -> Mapping[str, Any]:
        description = Description.from_dict(
            {
                "server": {"preset": "hyperplane-table1"},
                "data_plane": {"program": program, "notify": "hyperplane", "queues": 4},
                # More than the largest share of any queue: a policy chooses among full queues.
                "traffic": {
                    "shape": "fully-balanced",
                    "packet_bytes": 256,
                    "saturation_rate_mrps": 20.0,
                },
                "measure": {"requests": 1000, "warmup": 200},
            }
        )
        for key, value in settings.items():
            description = description.set(key.replace("__", "."), value)
        # Not from the store, whose keys do not have the table `simulator`.
        (outcome,) = sweep([description], store=store, fresh=True)
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


def test_several_cores_lose_the_weights(run: Any) -> None:
    # A queue that a core has taken is not ready, so the other's QWAIT passes the priority on.
    result = run(
        server__data_plane_cores=2,
        data_plane__queues=3,
        data_plane__policy="weighted-round-robin",
        data_plane__weights=[4, 2, 1],
    )
    for samples in result["queues"]["samples"]:
        assert samples / 1000 == pytest.approx(1 / 3, abs=0.05)
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
            {"data_plane__policy": "weighted-round-robin", "data_plane__notify": "spin"},
            "weights are kept by hardware",
        ),
        ({"data_plane__weights": [2, 1]}, "data_plane.weights is a list of 2; it has no meaning"),
        (
            {"data_plane__policy": "weighted-round-robin", "data_plane__weights": [1, 0]},
            "data_plane.weights.1 is 0; it must be a whole number from 1 to 65535",
        ),
        (
            {"data_plane__policy": "weighted-round-robin", "data_plane__weights": [1] * 5},
            "data_plane.weights is a list of 5; there are 4 queues",
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


def test_the_command_shows_each_queue(tmp_path: Path) -> None:
    command: list[object] = ["run", ROOT / "examples/encapsulation.toml"]
    settings = ("queues=3", "policy=weighted-round-robin", "weights=[2, 1]")
    for setting in settings:
        command += ["--set", f"data_plane.{setting}"]
    command += ["--set", "traffic.shape=fully-balanced", "--set", "measure.requests=200"]
    environment = {**os.environ, "NANOPLANE_STORE": str(tmp_path)}

    def output(*more: str) -> str:
        done = completed(*command, *more, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = output("--json").splitlines()
    # A line for each list, however many queues there are.
    assert any(re.fullmatch(r' +"samples": \[\d+, \d+, \d+\],', line) for line in lines)
    samples = json.loads("\n".join(lines))["queues"]["samples"]
    assert abs(samples[0] - 2 * samples[1]) <= 2
    shown = [line for line in output().splitlines() if line.strip().startswith("queue ")]
    assert len(shown) == 3


def test_conflicts_are_those_of_the_ways() -> None:
    two, _, four, short_walks = monitoring_set.TABLES_TRIED
    # Two ways hold half of their entries, four ways 98 %; so here they cannot and can.
    assert monitoring_set.percent(two, "random-in-turn", 10) > 5
    in_turn = monitoring_set.percent(four, "random-in-turn", 10)
    assert in_turn < 0.05
    assert monitoring_set.percent(four, "random", 10) > 10 * in_turn  # Banks overflow.
    assert monitoring_set.percent(short_walks, "random-in-turn", 0) > 1
    judgement = monitoring_set.CLAIMS[0].judge({})
    assert judgement.verdict == "differs"
    assert "4 ways" in judgement.why


def test_a_monitoring_set_that_cannot_be_built_gets_a_sentence() -> None:
    for key, value in {"entries": 1000, "ways": 9, "walk_places": 1}.items():
        with pytest.raises(DescriptionError, match=f"^server.hyperplane.{key} is {value}; "):
            simulator.conflicts({key: value}, 16, "random", 10, 1)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_limited_queue_has_its_rate_and_others_have_theirs(run: Any, cores: int) -> None:
    limit_mrps, burst = 0.05, 2
    result = run(
        "rate-limiter",
        server__data_plane_cores=cores,
        data_plane__parameters={
            "rate_mrps": limit_mrps,
            "burst_items": burst,
            "limited_queues": 2,
        },
        traffic__rate_mrps=0.8,
    )
    queues, samples = result["queues"], result["queues"]["samples"]
    for queue in (0, 1):
        # A bucket gives the limit to within what it holds, and the timer's microsecond or two.
        measured = rates_mrps(result)[queue]
        assert measured == pytest.approx(limit_mrps, rel=(burst + 1) / samples[queue])
        assert queues["dropped"][queue] > 0
    for queue in (2, 3):
        assert queues["dropped"][queue] == 0
        assert queues["generated"][queue] - queues["delivered"][queue] <= 2
        assert queues["mean_latency_ns"][queue] < 1000
    assert_nothing_is_lost(result)


def test_what_comes_while_a_queue_is_disabled_waits(run: Any) -> None:
    # Bursts of 4 on average for queues that may have 2 at once, but more a second than come.
    result = run(
        "rate-limiter",
        data_plane__parameters={"rate_mrps": 0.2, "burst_items": 2},
        traffic__arrivals="bursty",
        traffic__burst_length=4,
        traffic__queue_capacity=64,
        traffic__rate_mrps=0.1,
        measure__requests=300,
    )
    assert result["dropped"] == 0
    # The last of a burst of 4 waits for two tokens, 10 us.
    assert result["latency_ns"]["p90"] > 5000
    assert_nothing_is_lost(result)


def test_a_rate_that_is_none_gets_a_sentence(run: Any) -> None:
    with pytest.raises(NanoplaneError, match=r"rate_mrps must be from 0\.001 to 1000"):
        run("rate-limiter", data_plane__parameters={"rate_mrps": 0})
    with pytest.raises(DescriptionError, match="has burst_items, limited_queues, rate_mrps"):
        run("rate-limiter", data_plane__parameters={"rate": 1})


def test_a_loop_of_its_own_refuses_what_it_does_not_do(run: Any) -> None:
    with pytest.raises(NanoplaneError, match="This program takes items one at a time"):
        run("rate-limiter", data_plane__batch=4, traffic__rate_mrps=0.5)
    with pytest.raises(NanoplaneError, match="All cores share the queues of this program"):
        run("rate-limiter", data_plane__organisation="scale-out", server__data_plane_cores=2)


def test_spurious_wake_ups_are_filtered(run: Any) -> None:
    def with_stray_writes(rate_mrps: float) -> Any:
        return run(
            "false-sharing",
            data_plane__queues=40,
            data_plane__parameters={"stray_mrps": rate_mrps},
            traffic__rate_mrps=0.4,
            measure__requests=400,
        )

    quiet, noisy = with_stray_writes(0), with_stray_writes(2)
    assert quiet["hyperplane"]["spurious_wake_ups"] == 0
    assert quiet["program_counters"]["stray_writes"] == 0
    # Each write is to one of 40 doorbells, and at a load of some 10 % nearly all of them are armed:
    # not if a write or an item came to the same one less than a fraction of a microsecond before.
    writes = noisy["program_counters"]["stray_writes"]
    assert 0.9 * writes < noisy["hyperplane"]["spurious_wake_ups"] <= writes
    assert writes > 1000
    for result in (quiet, noisy):
        assert result["dropped"] == 0
        assert_nothing_is_lost(result)
    # Items do not pay for much more than a wake-up that is being dismissed when they come.
    assert quiet["latency_ns"]["mean"] < noisy["latency_ns"]["mean"]
    assert noisy["latency_ns"]["mean"] < quiet["latency_ns"]["mean"] + 100


def test_background_work_gets_what_requests_leave(run: Any) -> None:
    def at(rate_mrps: float) -> Any:
        return run("background", traffic__rate_mrps=rate_mrps, measure__requests=300)

    results = [at(rate_mrps) for rate_mrps in (1, 2, 20)]
    rows_per_us = [
        result["program_counters"]["background_rows"] / (1e6 * result["simulated_seconds"])
        for result in results
    ]
    assert rows_per_us == sorted(rows_per_us, reverse=True)
    assert rows_per_us[0] > 0.5
    assert rows_per_us[2] < 0.1
    for result in results[:2]:
        assert result["dropped"] == 0
        # At most a row, which takes half a microsecond, is in the way of an item at first.
        assert result["latency_ns"]["p50"] < 2000
    for result in results:
        assert_nothing_is_lost(result)


@pytest.mark.parametrize(("cores", "seed"), [(1, 1), (1, 2), (2, 3), (4, 4)])
def test_tenants_come_and_go(run: Any, cores: int, seed: int) -> None:
    result = run(
        "tenants",
        server__data_plane_cores=cores,
        # Some 32 of 64 doorbells in 64 places at random: many do not fit at first.
        data_plane__queues=64,
        server__hyperplane__entries=64,
        data_plane__parameters={"change_us": 2, "seed": seed},
        traffic__rate_mrps=0.5,
        measure__requests=1500,
        measure__seed=seed,
    )
    counters = result["program_counters"]
    assert counters["came"] > 300
    assert 0 <= counters["left"] - counters["came"] <= 64
    assert counters["doorbell_conflicts"] > 10
    # Half of the queues are closed at any time, and refuse what comes; nothing else is lost.
    refused = result["refused"] / result["generated"]
    assert 0.3 < refused < 0.7
    assert result["dropped"] == result["errors"] == 0
    came_in = result["generated"] - result["refused"]
    assert came_in == result["delivered"] + result["entering"] + result["inside"]
    for name in ("generated", "refused", "delivered"):
        assert sum(result["queues"][name]) == result[name]
    # No wake-up is lost: with a load of some 5 % no item waits long, or is left at the end.
    assert result["entering"] + result["inside"] <= 10
    assert result["latency_ns"]["max"] < 20_000


def test_queues_that_are_full_can_be_closed(run: Any) -> None:
    result = run(
        "tenants",
        data_plane__queues=8,
        data_plane__parameters={"change_us": 10},
        traffic__queue_capacity=4,
        measure__requests=1500,
    )
    assert result["program_counters"]["came"] > 5
    assert result["dropped"] > 0
    assert result["refused"] > 0
    came_in = result["generated"] - result["refused"] - result["dropped"]
    assert came_in == result["delivered"] + result["entering"] + result["inside"]


@pytest.mark.parametrize(
    ("text", "instead", "sentence"),
    [
        ("tenants[qid] = IO_OPEN;", "goto open;", "no new tenant has joined it"),
        # As soon as the device has closed the queue, while the old tenant is still there.
        (
            "} else if (state == REMOVED",
            "} else if (device->states[qid] == IO_CLOSED) {\n goto open;\n"
            "} else if (state == REMOVED",
            "no new tenant has joined it",
        ),
        ("device->states[qid] = IO_CLOSED;", "device->states[qid] = 7;", "access fault"),
        ("tenants[qid] = IO_OPEN;", "tenants[(qid + 1) % 4] = IO_OPEN;", "access fault"),
    ],
)
def test_tenants_in_a_wrong_order(
    run: Any, tmp_path: Path, text: str, instead: str, sentence: str
) -> None:
    source = (ROOT / "guest" / "programs" / "tenants.c").read_text()
    assert text in source
    wrong = tmp_path / "wrong.c"
    open_device = "device->states[qid] = IO_OPEN;"
    wrong.write_text(source.replace(text, instead).replace(open_device, f"open: {open_device}"))
    with pytest.raises(NanoplaneError, match=sentence):
        run(str(wrong), traffic__rate_mrps=0.5, data_plane__parameters={"change_us": 2})


@pytest.mark.parametrize("program", ["rate-limiter", "false-sharing", "tenants"])
def test_programs_are_exact(run: Any, program: str) -> None:
    settings = {"traffic__rate_mrps": 0.5, "measure__requests": 100, "measure__warmup": 50}
    first, second = (
        run(program, **settings, simulator__lookahead_cycles=cycles, simulator__skip_spinning=skip)
        for cycles, skip in ((0, True), (1, False))
    )
    assert simulator.without_host(first) == simulator.without_host(second)
