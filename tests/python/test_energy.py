"""Energy, power, and the power-optimised mode of HyperPlane, with the compiled simulator."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, compiler, simulator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLE = Description.from_toml(ROOT / "examples" / "encapsulation.toml")
FEW = EXAMPLE.set("measure.requests", 300).set("data_plane.queues", 20)
LIGHT = FEW.set("traffic.rate_mrps", 0.02)


def run(description: Description) -> Mapping[str, Any]:
    resolved = description.resolve()
    return simulator.run(resolved.data, compiler.elf(resolved.program))


@pytest.fixture(scope="module")
def ordinary() -> Mapping[str, Any]:
    return run(LIGHT)


@pytest.fixture(scope="module")
def optimised() -> Mapping[str, Any]:
    return run(LIGHT.set("server.hyperplane.power_optimised", True))


def test_energy_is_power_for_a_time(ordinary: dict[str, Any]) -> None:
    energy, power = ordinary["energy_nj"], ordinary["power_w"]
    # 300 requests and the warm-up at 20,000 a second: 15 ms and more; the set-up is not in it.
    assert 15e-3 < energy["seconds"] < ordinary["simulated_seconds"]
    assert power["total"] == pytest.approx(energy["total"] * 1e-9 / energy["seconds"])
    assert energy["total"] == energy["dynamic"] + energy["static"]
    # Everything that arrived in that time was delivered in it, but for one or two at the end.
    requests = energy["total"] / energy["per_request"]
    assert requests == pytest.approx(ordinary["delivered"], abs=2)
    assert power["monitoring_set"]["dynamic"] > 0
    assert power["ready_set"]["dynamic"] > 0


def test_a_core_in_c1_leaks_and_wakes_up(
    ordinary: dict[str, Any], optimised: dict[str, Any]
) -> None:
    assert optimised["hyperplane"]["power_ups"] > 250
    assert ordinary["hyperplane"]["power_ups"] == 0
    assert ordinary["cores"][0]["c1_cycles"] == 0
    core = optimised["cores"][0]
    # An item every 50 us takes less than 2 us, the wake-up included.
    seconds = core["c1_cycles"] / core["cycles"] * optimised["simulated_seconds"]
    assert 0.9 < seconds / optimised["energy_nj"]["seconds"] < 1
    assert core["c1_cycles"] < core["halted_cycles"]
    # Half a microsecond more, and on an idle server nothing else.
    added = optimised["latency_ns"]["p50"] - ordinary["latency_ns"]["p50"]
    assert added == pytest.approx(500, abs=20)
    leakage_w = 1.5829  # the sum of the nine defaults
    power = [one["power_w"]["cores"][0]["total"] for one in (ordinary, optimised)]
    assert leakage_w < power[1] < 1.05 * leakage_w < power[0]


def test_a_queue_that_is_never_empty_lets_no_core_sleep() -> None:
    results = [run(FEW.set("server.hyperplane.power_optimised", mode)) for mode in (False, True)]
    # At saturation the core halts a few times at the beginning, if at all.
    assert results[1]["hyperplane"]["power_ups"] < 10
    assert results[1]["throughput_mrps"] == pytest.approx(results[0]["throughput_mrps"], rel=0.05)


@pytest.mark.parametrize("power_optimised", [False, True])
def test_neither_lookahead_nor_energies_change_anything_else(power_optimised: bool) -> None:
    description = FEW.set("traffic.rate_mrps", 0.5)
    description = description.set("server.hyperplane.power_optimised", power_optimised)
    description = description.set("measure.requests", 100)

    def comparable(result: Mapping[str, Any], *without: str) -> str:
        left = simulator.without_host(result)
        return json.dumps({name: left[name] for name in left if name not in without})

    first = run(description)
    slow = run(
        description.set("simulator.lookahead_cycles", 1).set("simulator.skip_spinning", False)
    )
    assert comparable(slow) == comparable(dict(json.loads(json.dumps(first))))
    dear = run(description.set("server.energy.core.decode_pj", 1000.0))
    assert dear["energy_nj"]["total"] > first["energy_nj"]["total"]
    without = ("energy_nj", "power_w")
    assert comparable(dear, *without) == comparable(first, *without)


def test_numbers_follow_the_sizes_unless_told_otherwise(ordinary: dict[str, Any]) -> None:
    large = LIGHT.set("server.core.l1_data.size_bytes", 64 * 1024)

    def leaks(description: Description) -> float:
        return float(run(description)["power_w"]["cores"][0]["l1_data"]["static"])

    # 57.8 mW of 32 KB; McPAT has 1.602 times as much for 64 KB.
    assert ordinary["power_w"]["cores"][0]["l1_data"]["static"] == pytest.approx(0.0578)
    assert leaks(large) == pytest.approx(1.602 * 0.0578)
    assert leaks(large.set("server.energy.follow_sizes", False)) == pytest.approx(0.0578)


def test_a_spinning_core_draws_more_than_one_that_halts(ordinary: dict[str, Any]) -> None:
    spinning = run(LIGHT.set("data_plane.notify", "spin"))
    power, halting = spinning["power_w"], ordinary["power_w"]
    assert power["cores"][0]["total"] > halting["cores"][0]["total"]
    # The spinning server has no such hardware.
    assert not power.keys() & {"monitoring_set", "ready_set"}
