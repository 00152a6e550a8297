"""Checkpoints, as a user asks for them: through the command line, and in sweeps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import nanoplane
from nanoplane import Description, Run, simulator, sweep
from nanoplane.checkpoints import Checkpoints
from nanoplane.errors import DescriptionError, Failure, NanoplaneError
from nanoplane.load_search import Limit
from nanoplane.store import Store
from seeds import generator

pytestmark = pytest.mark.simulator

DESCRIPTION = """
server.preset = "hyperplane-table1"
server.fabric = { cores = 4, mesh = { columns = 2, rows = 2 }, memory.controllers = 1 }
data_plane = { program = "packet-encapsulation", notify = "hyperplane", queues = 20 }
traffic = { shape = "fully-balanced", rate_mrps = 0.5 }
measure = { requests = 200, warmup = 0 }
"""

IN_ORDER = {
    "server.core.model": "in-order",
    "server.core.width": 1,
    "server.core.rob_entries": 16,
    "server.core.load_queue_entries": 8,
    "server.core.store_queue_entries": 4,
}
SECOND_LEVEL = {
    "server.core.l2.size_bytes": 65536,
    "server.core.l2.ways": 8,
    "server.core.l1_data.size_bytes": 2048,
}
NON_INCLUSIVE = {
    "server.fabric.last_level.inclusion": "non-inclusive",
    "server.fabric.last_level.size_bytes_per_bank": 65536,
}


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    Path("run.toml").write_text(DESCRIPTION)


def measured(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must not depend on how the simulator goes about it."""
    left = simulator.without_host(result)
    return {name: left[name] for name in left if name not in ("key", "stored", "description")}


def run(description: Description, **checkpoint: Any) -> dict[str, Any]:
    resolved = description.resolve()
    options = {"checkpoint": checkpoint} if checkpoint else None
    elf = resolved.elf()
    return measured(simulator.run(resolved.data, elf, options))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"server.hyperplane.power_optimised": True, **SECOND_LEVEL},
        {"server.data_plane_cores": 2, **IN_ORDER},
        {"traffic.load": "saturate", "traffic.shape": "single-queue", **NON_INCLUSIVE},
        {"data_plane.notify": "spin", "server.data_plane_cores": 2},
        {"data_plane.notify": "spin", **IN_ORDER, **NON_INCLUSIVE},
        {"data_plane.notify": "spin-mlx5"},
        {"data_plane.notify": "spin", "traffic.sources": "cores", "traffic.source_cores": 3},
        {"data_plane.notify": "software-bitmap", "traffic.arrivals": "bursty"},
        {
            "data_plane.notify": "rpcvalet",
            "server.data_plane_cores": 2,
            "server.rpcvalet.backends": 2,
            "server.rpcvalet.dispatch.policy": "power-of-two",
            "server.rpcvalet.network.shuffle": True,
            "server.rpcvalet.network.faults.lost": 0.02,
            "server.rpcvalet.domains": [{"slots": 4}, {"dispatch": {"mode": "software"}}],
            "traffic.rate_mrps": 3.0,
        },
    ],
)
def test_a_run_that_was_saved_and_restored_is_the_same_run(settings: dict[str, Any]) -> None:
    """At random moments, while the server is set up and while requests are everywhere."""
    description = Description.from_toml("run.toml")
    for key, value in settings.items():
        description = description.set(key, value)
    whole = run(description)
    # Energy is counted from where the traffic begins: that, too, has to be in the checkpoint.
    end_ns, traffic_ns = whole["simulated_seconds"] * 1e9, whole["energy_nj"]["seconds"] * 1e9
    chosen = generator(str(settings))
    for begin_ns, length_ns in ((0, end_ns - traffic_ns), (end_ns - traffic_ns, traffic_ns)):
        at_ns = begin_ns + chosen.uniform(0.01, 0.95) * length_ns
        assert run(description, save="saved", at_ns=at_ns) == whole
        assert run(description, **{"from": "saved"}) == whole


def test_a_checkpoint_goes_on_with_more_requests_and_one_cycle_at_a_time() -> None:
    longer = Description.from_toml("run.toml").set("measure.requests", 300)
    expected = run(longer)
    output = nanoplane(
        "run", "run.toml", "--save-checkpoint", "saved", "--checkpoint-at", 150, "--json"
    )
    assert json.loads(output)["latency_ns"]["samples"] == 200
    output = nanoplane(
        *("run", "run.toml", "--from-checkpoint", "saved", "--json"),
        *("--set", "measure.requests=300", "--set", "simulator.lookahead_cycles=1"),
    )
    assert measured(json.loads(output)) == expected
    # Nothing of that is in the store.
    assert len(Store()) == 0
    with pytest.raises(DescriptionError, match="no more are to be measured"):
        run(longer.set("measure.requests", 100), **{"from": "saved"})


def test_a_checkpoint_of_something_else_gets_a_sentence() -> None:
    run(Description.from_toml("run.toml"), save="saved", at_ns=100e3)

    def refused(settings: dict[str, Any]) -> str:
        description = Description.from_toml("run.toml")
        for key, value in settings.items():
            description = description.set(key, value)
        with pytest.raises(DescriptionError) as error:
            run(description, **{"from": "saved"})
        message = str(error.value)
        assert "\n" not in message
        return message

    other = refused({"data_plane.queues": 21})
    assert "data_plane.queues = 20, and the description has 21" in other
    assert "traffic.rate_mrps = 0.5, and" in refused({"traffic.rate_mrps": 0.6})
    assert "another program" in refused({"data_plane.program": "echo"})
    assert "server.core.l1_data.size_bytes = 32768, and" in refused(SECOND_LEVEL)
    good = Path("saved").read_bytes()
    Path("hello.c").write_text("int main(void) { return 0; }\n")
    assert "by `nanoplane run`" in nanoplane(
        "exec", "hello.c", "--from-checkpoint", "saved", status=2
    )

    def damaged(content: bytes) -> str:
        Path("saved").write_bytes(content)
        message = refused({})
        assert "saved: this checkpoint cannot be used: " in message
        return message

    for place in (0, 22, 30, 60, len(good) // 2, len(good) - 1):
        content = bytearray(good)
        content[place] ^= 1 << place % 8
        damaged(bytes(content))
    for length in (0, 40, len(good) - 1):
        damaged(good[:length])
    assert "another format" in damaged(good.replace(b"checkpoint 1\n", b"checkpoint 2\n", 1))
    Path("saved").unlink()
    assert "saved: the checkpoint cannot be read: No such file" in refused({})


def test_what_cannot_be_saved_gets_a_sentence() -> None:
    def failed(save: str | None, at: str | None, kind: type[NanoplaneError]) -> str:
        checkpoints = Checkpoints(Path(save) if save else None, at)
        with pytest.raises(kind) as error:
            run(Description.from_toml("run.toml"), **checkpoints.options())
        message = str(error.value)
        assert "\n" not in message
        return message

    assert "No space left" in failed("/dev/full", "10", Failure)
    assert "cannot be written" in failed("/proc/none/saved", "10", NanoplaneError)
    assert "measure.warm_start, which there is none of" in failed("saved", None, DescriptionError)
    assert "as in 5000, or a simulated time" in failed("saved", "10 us", DescriptionError)
    assert "which is missing" in failed(None, "10us", DescriptionError)
    assert "the run ended before" in failed("saved", "1000000", Failure)
    arguments = ("run", "run.toml", "--save-checkpoint", "saved", "--checkpoint-at")
    assert nanoplane(*arguments, "1000000", status=1).count("\n") == 1
    assert not list(Path().glob("saved*"))


def test_a_program_goes_on_from_a_checkpoint() -> None:
    Path("count.c").write_text(
        """
#include <stdio.h>
int main(void) {
  volatile long sum = 0;
  puts("begins");
  for (long i = 0; i < 30000; i++) sum += i;
  puts("ends");
  return sum != 449985000;
}
"""
    )
    # The sum is 30000 * 29999 / 2.
    save = ("--save-checkpoint", "saved", "--checkpoint-at", "15us")
    assert nanoplane("exec", "count.c", *save, "--stats", "whole.json") == "begins\nends\n"
    rest = ("--from-checkpoint", "saved", "--stats", "rest.json")
    assert nanoplane("exec", "count.c", *rest) == "ends\n"
    whole, gone_on = (
        measured(json.loads(Path(name).read_text())) for name in ("whole.json", "rest.json")
    )
    assert whole == gone_on
    with pytest.raises(DescriptionError, match="--checkpoint-at 10us"):
        Checkpoints(Path("x"), has_requests=False).options()


WARM = """
server.preset = "hyperplane-table1"
server.fabric = { cores = 4, mesh = { columns = 2, rows = 2 }, memory.controllers = 1 }
data_plane = { program = "packet-encapsulation", notify = "NOTIFY", queues = 20 }
traffic.shape = "fully-balanced"
measure = { requests = 100, warmup = 0, warm_start = { requests = 200, rate_mrps = 1.0 } }
"""


def warm_starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that has every warm start from now on which runs share."""
    made: list[Any] = []
    warm_up = simulator.warm_up

    def counting(*arguments: Any) -> None:
        made.append(arguments)
        warm_up(*arguments)

    monkeypatch.setattr(simulator, "warm_up", counting)
    return made


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_a_sweep_begins_from_one_warm_server(notify: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("warm.toml").write_text(WARM.replace("NOTIFY", notify))
    description = Description.from_toml("warm.toml")
    points: list[Run | Description] = [
        description.set("traffic.rate_mrps", rate) for rate in (0.2, 0.4)
    ]
    points.append(description.set("traffic.load", 0.5))
    # A search has several runs that begin from it.
    peak = description.set("traffic.load", "saturate")
    points.append(Run(description, peak=peak, limit=Limit(3, 0.1)))
    # Each by itself has a warm start of its own.
    alone = [measured(sweep([point])[0].result) for point in points]
    made = warm_starts(monkeypatch)
    together = sweep(points, fresh=True)
    assert [measured(outcome.result) for outcome in together] == alone
    # One for two rates, a peak, a part of it and a search; and it is gone.
    assert len(made) == 1
    assert [path.name for path in Path("store").iterdir()] == ["results.sqlite"]
    # Nothing of the warm start is measured, and all of it is counted; its energy is left out, and
    # the few requests that come until the traffic changes belong to it.
    for one in alone:
        assert one["latency_ns"]["samples"] == 100
        assert one["delivered"] >= 300
        energy = one["energy_nj"]
        assert energy["total"] / energy["per_request"] == pytest.approx(
            one["delivered"] - 200, abs=3
        )
    # The change of the traffic does not depend on how far cores may run ahead.
    slow = description.set("traffic.rate_mrps", 0.2).set("simulator.lookahead_cycles", 1)
    slow = slow.set("simulator.skip_spinning", False)
    assert run(slow) == alone[0]


@pytest.mark.parametrize("length", ["200", '"auto"'])
def test_servers_with_other_work_begin_from_one_warm_server(
    length: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items of a warm start can take a time of their own, and those after it take theirs."""
    warm = WARM.replace("NOTIFY", "hyperplane").replace("requests = 200", f"requests = {length}")
    Path("warm.toml").write_text(warm)
    Path("times.csv").write_text("service_time_ns,count\n1000,1\n")
    description = Description.from_toml("warm.toml").set("data_plane.program", "synthetic")
    description = description.set("traffic.rate_mrps", 0.2).set("measure.warm_start.work_ns", 700)
    works: list[dict[str, Any]] = [
        {"mean_ns": 300.0, "service_times": {"distribution": "fixed"}},
        {"mean_ns": 600.0, "service_times": {"distribution": "exponential"}},
        {"service_times": {"distribution": "recorded", "file": str(Path("times.csv").absolute())}},
    ]
    points = [description.set("traffic.work", work) for work in works]
    alone = [measured(sweep([point])[0].result) for point in points]
    made = warm_starts(monkeypatch)
    assert [measured(outcome.result) for outcome in sweep(points, fresh=True)] == alone
    assert len(made) == 1
    # The work is divisions, which overlap with the loads of an item where there are few.
    fixed, _, recorded = (one["service_ns"]["mean"] for one in alone)
    assert recorded - fixed == pytest.approx(1000 - 300, rel=0.06)
    # What kind an item is, it keeps: with kinds the warm start is another one.
    kinds = [point.set("traffic.work.long_ns", 500.0) for point in points]
    alone = [measured(sweep([point])[0].result) for point in kinds]
    assert ["short" in one["by_kind"] for one in (alone[0], alone[2])] == [True, False]
    made.clear()
    sweep([*points, *kinds], fresh=True)
    assert len(made) == 2
    # Without a time of its own the warm start has the work of each.
    own = [point.set("measure.warm_start", {"requests": 200, "rate_mrps": 1}) for point in points]
    assert run(own[0]) != alone[0]
    sweep(own)
    assert len(made) == 2
    run(own[0], save="own")
    with pytest.raises(DescriptionError, match=r"traffic\.work\.mean_ns = 300\.0"):
        run(own[1], **{"from": "own"})
    with pytest.raises(DescriptionError, match=r"work_ns is given; it replaces the times of traf"):
        sweep([Description.from_toml("warm.toml").set("measure.warm_start.work_ns", 700)])


def test_what_saturates_does_not_depend_on_what_is_measured() -> None:
    Path("full.toml").write_text(WARM.replace("NOTIFY", "hyperplane"))
    half = ("--save-checkpoint", "half", "--checkpoint-at", "250", "--set", "measure.requests=100")
    nanoplane("run", "full.toml", "--set", "traffic.load=saturate", *half)
    whole = ("run", "full.toml", "--json", "--set", "measure.requests=300")
    rest = json.loads(nanoplane(*whole, "--from-checkpoint", "half"))
    rate = rest["description"]["traffic"]["saturation_rate_mrps"]
    given = Description.from_toml("full.toml").set("traffic.saturation_rate_mrps", rate)
    assert measured(rest) == run(given.set("measure.requests", 300))


@pytest.mark.parametrize("length", ["200", '"auto"'])
def test_the_end_of_a_warm_start_is_saved(length: str) -> None:
    warm = WARM.replace("NOTIFY", "hyperplane").replace("requests = 200", f"requests = {length}")
    Path("warm.toml").write_text(warm)
    nanoplane("run", "warm.toml", "--save-checkpoint", "warm", "--set", "traffic.rate_mrps=0.3")
    output = nanoplane(
        *("run", "warm.toml", "--from-checkpoint", "warm", "--json"),
        *("--set", "traffic.rate_mrps=0.2"),
    )
    other = Description.from_toml("warm.toml").set("traffic.rate_mrps", 0.2)
    assert measured(json.loads(output)) == run(other)
    # What saturates is found, and the warm start does not depend on it.
    nanoplane("run", "warm.toml", "--save-checkpoint", "full", "--set", "traffic.load=saturate")
    assert run(other, **{"from": "full"}) == run(other)
    with pytest.raises(DescriptionError, match=r"warm_start.rate_mrps = 1.0, and the descr.* 2.0"):
        run(other.set("measure.warm_start.rate_mrps", 2.0), **{"from": "warm"})
