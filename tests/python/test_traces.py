"""Traces, as a user asks for them: through the command line."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from command_line import completed
from nanoplane import simulator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]

DESCRIPTION = """
server.preset = "hyperplane-table1"
data_plane = { program = "packet-encapsulation", notify = "NOTIFY", queues = 20 }
traffic = { shape = "fully-balanced", rate_mrps = 0.5 }
measure.requests = 1000
"""

PROGRAM = """
static volatile long results[64];
__attribute__((noinline)) static long work(long count) {
  long sum = 0;
  for (long i = 0; i < count; i++) sum += results[i % 64] ^ i;
  return sum;
}
int main(void) {
  for (long i = 0; i < 64; i++) results[i] = work(i);
  return 3;
}
"""


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    for notify in ("spin", "hyperplane"):
        Path(f"{notify}.toml").write_text(DESCRIPTION.replace("NOTIFY", notify))
    Path("work.c").write_text(PROGRAM)


def packets(path: str) -> Trace:
    trace = Trace()
    trace.ParseFromString(Path(path).read_bytes())
    return trace


def instructions(path: str) -> int:
    return sum(line.startswith("I\t") for line in Path(path).read_text().splitlines())


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_a_timeline_follows_every_request_of_a_window(notify: str) -> None:
    window = ("--trace-window", "1.2ms..1.3ms")
    done = completed("run", f"{notify}.toml", "--json", "--trace", "t.pftrace", *window)
    assert done.returncode == 0, done.stderr
    names = {}
    begun: Counter[str] = Counter()
    depth: Counter[int] = Counter()
    flows: Counter[int] = Counter()
    ended = set()
    for packet in packets("t.pftrace").packet:
        if packet.HasField("track_descriptor"):
            names[packet.track_descriptor.uuid] = packet.track_descriptor.name
            continue
        event = packet.track_event
        assert event.track_uuid in names
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            depth[event.track_uuid] += 1
            begun[event.name] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
            assert depth[event.track_uuid] >= 0
        flows.update(event.flow_ids)
        ended.update(event.terminating_flow_ids)
    assert not any(depth.values()), "every slice that begins ends"
    # 50 on average, by a Poisson process: four standard deviations.
    assert 22 <= len(ended) <= 78
    # Each request waits in its queue, is read by a core, and goes to its tenant. What a core read
    # before the window is not known.
    assert sum(flows[flow] == 2 for flow in ended) >= len(ended) - 2
    assert begun["process"] >= len(ended) - 2, "the guest's function is seen for each of them"


def test_only_the_slowest_requests_are_shown() -> None:
    done = completed(
        *("run", "hyperplane.toml", "--json", "--trace", "t.pftrace"),
        *("--trace", "t.kanata", "--trace-slower-than", "p99"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    slow: dict[str, list[int]] = {}
    for packet in packets("t.pftrace").packet:
        event = packet.track_event
        if event.terminating_flow_ids:
            slow.setdefault(event.name, []).append(packet.timestamp)
    # 1 % of them; and whoever came or went while they were under way.
    assert result["latency_ns"]["samples"] // 100 <= len(slow) < result["delivered"] // 5
    assert 0 < instructions("t.kanata") < result["instructions"] // 5


def test_traces_change_no_result() -> None:
    plain = json.loads(completed("exec", "work.c", "--stats", "plain.json").stdout or "{}")
    assert plain == {}
    arguments = ("--trace", "t.pftrace", "--trace", "t.kanata", "--profile", "t.folded")
    assert completed("exec", "work.c", "--stats", "traced.json", *arguments).returncode == 3
    before, after = (
        simulator.without_host(json.loads(Path(f"{name}.json").read_text()))
        for name in ("plain", "traced")
    )
    after.pop("traces")
    assert before == after
    # Everything that a core did is in the pipeline's log, and in the profile every cycle in which a
    # hart had not halted.
    core = after["cores"][0]
    ended = re.findall(r"^R\t\d+\t\d+\t(\d)$", Path("t.kanata").read_text(), re.MULTILINE)
    # An instruction counts when it is dispatched, and the hart goes on until the host has seen that
    # it has exited: what is in its reorder buffer then (192 entries) has no end in the log.
    assert 0 <= core["instructions"] - ended.count("0") <= 192
    assert ended.count("1") == core["squashed_instructions"]
    stacks = [line.rsplit(" ", 1) for line in Path("t.folded").read_text().splitlines()]
    awake = sum(core["cycles"] - core["halted_cycles"] for core in after["cores"])
    assert sum(int(cycles) for _, cycles in stacks) == awake
    in_work = sum(int(n) for stack, n in stacks if stack.startswith("core 0;_start;main;work;"))
    assert in_work > after["cycles"] / 3, "with its line: work.c:6"
    assert any(stack.endswith(";work;work.c:5") for stack, _ in stacks)


def slowest_of(*arguments: object) -> Any:
    settings = (*SLOW, *arguments)
    sets = [part for setting in settings for part in ("--set", setting)]
    done = completed("run", "hyperplane.toml", *sets, "--slowest", 10, "--json")
    return json.loads(done.stdout)


SLOW = (
    "server.data_plane_cores=2",
    "traffic.rate_mrps=4",
    "measure.requests=500",
)


PLACES = ("second_level", "last_level", "another_cache", "memory")


def assert_misses_are_told(one: Any) -> None:
    """What loads of the service waited for, and in which part of it."""
    misses = one["misses"]
    loads = sum(misses[place]["loads"] for place in PLACES)
    waits = sum(misses[place]["waited_ns"] for place in PLACES)
    assert loads > 0
    assert 0 < misses["waited_ns"] <= min(waits, one["service_ns"]) + 0.5
    assert "waited for" in one["reason"]
    for place in PLACES:
        name = place.replace("second_l", "second-l").replace("last_l", "last-l").replace("_", " ")
        assert (misses[place]["loads"] > 0) == (f" {name}" in one["reason"].partition("took")[2])


@pytest.mark.parametrize("notify", ["spin", "hyperplane", "rpcvalet"])
def test_the_slowest_requests_are_explained(notify: str) -> None:
    """The parts of a latency add up, and the one in front was really there before."""
    result = slowest_of(f"data_plane.notify={notify}")
    slowest = result["slowest"]
    latencies = [one["latency_ns"] for one in slowest]
    assert latencies == sorted(latencies, reverse=True)
    assert len(slowest) == 10
    assert latencies[-1] >= result["latency_ns"]["p90"]
    for one in slowest:
        assert one["waited_ns"] + one["service_ns"] == pytest.approx(one["latency_ns"])
        assert 0 <= one["others_ns"] <= one["waited_ns"] + 1e-6
        assert f"waited {one['waited_ns']:.0f} ns for core {one['core']}" in one["reason"]
        if one["behind"] is not None:
            assert f"behind request {one['behind']}" in one["reason"]
            assert one["behind"] < one["item"]
            assert one["served_before"] >= 1
        assert_misses_are_told(one)
    # At this load requests wait for others, not for being found.
    assert any(one["behind"] is not None for one in slowest)


def test_requests_of_data_planes_in_a_rack_are_explained() -> None:
    example = ROOT / "examples" / "rack-data-plane.toml"
    short = ("--set", "measure.requests=200", "--slowest", 3)
    result = json.loads(completed("run", example, *short, "--json").stdout)
    assert list(result["slowest"]) == ["data plane"]
    explained = result["slowest"]["data plane"]
    assert len(explained) == 3
    assert all("waited" in one["reason"] for one in explained)
    for one in explained:
        assert_misses_are_told(one)
    assert (
        'The 3 slowest requests of the server "data plane"'
        in completed("run", example, *short).stdout
    )
    without = completed("run", ROOT / "examples" / "rack.toml", "--slowest", 3)
    assert without.returncode == 2
    assert "describes a rack without a data plane" in without.stderr


def test_explaining_changes_no_result() -> None:
    explained = slowest_of()
    del explained["slowest"]
    sets = [part for setting in SLOW for part in ("--set", setting)]
    plain = json.loads(completed("run", "hyperplane.toml", *sets, "--json").stdout)
    assert explained["latency_ns"] == plain["latency_ns"]


def test_a_trace_of_the_slowest_has_arguments_and_counters() -> None:
    sets = [part for setting in SLOW for part in ("--set", setting)]
    done = completed(
        "run", "hyperplane.toml", *sets, "--slowest", 2, "--trace", "slow.pftrace", "--json"
    )
    slowest = json.loads(done.stdout)["slowest"]
    events = [packet.track_event for packet in packets("slow.pftrace").packet]
    arguments = {
        event.name: {one.name: one.double_value for one in event.debug_annotations}
        for event in events
        if event.debug_annotations
    }
    for one in slowest:
        found = arguments[f"request {one['item']}"]
        assert found["latency_ns"] == pytest.approx(one["latency_ns"])
        assert found["waited_ns"] == pytest.approx(one["waited_ns"])
        assert (found["queue"], found["core"]) == (one["queue"], one["core"])
        assert found["misses"] > 0
        assert found["misses_waited_ns"] > 0
        assert found["misses"] == sum(one["misses"][place]["loads"] for place in PLACES)
        for place in PLACES:
            of = one["misses"][place]
            assert found.get(f"misses_to_{place}", 0) == of["loads"]
            assert found.get(f"{place}_waited_ns", 0) == pytest.approx(of["waited_ns"])
    counted = [event.counter_value for event in events if event.HasField("counter_value")]
    assert max(counted) >= 1
    assert min(counted) >= 0


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_counters_of_queues_and_of_harts(notify: str) -> None:
    sets = ("--set", "measure.requests=200", "--set", "traffic.rate_mrps=2")
    completed(
        "run", f"{notify}.toml", *sets, "--trace", "t.pftrace", "--trace-window", "60us..99us"
    )
    written = packets("t.pftrace").packet
    names = {one.track_descriptor.uuid: one.track_descriptor.name for one in written}
    at: dict[int, dict[str, int]] = {}
    for one in written:
        if one.track_event.HasField("counter_value"):
            name = names[one.track_event.track_uuid]
            at.setdefault(one.timestamp, {})[name] = one.track_event.counter_value
    values: dict[str, int] = {}
    halted, spun = set(), set()
    for time in sorted(at):
        values |= at[time]
        waiting, queues = values["requests that wait"], values["queues in which a request waits"]
        # A request is in one queue.
        assert 0 <= queues <= waiting
        assert (queues > 0) == (waiting > 0)
        halted.add(values["harts that halt"])
        # The only core with a data plane is one of 16, of which the others halt.
        idle = 1 - (values["harts that halt"] - 15) - values["requests that cores serve"]
        assert values["harts that spin"] == max(0, idle)
        spun.add(values["harts that spin"])
    assert len(at) > 50
    # It spins, or halts when it has nothing to do, and looks for requests between two of them.
    assert max(halted) - min(halted) == (notify == "hyperplane")
    assert spun == {0, 1}


def test_a_window_limits_both_formats() -> None:
    arguments = ("exec", "work.c", "--trace", "t.kanata", "--trace", "t.pftrace")
    assert completed(*arguments, "--trace-window", "1us..2us").returncode == 3
    stamps = {packet.timestamp for packet in packets("t.pftrace").packet} - {0}
    # A slice that began before the window is shown from its last instruction before it.
    assert stamps
    assert min(stamps) >= 900
    assert max(stamps) <= 2100
    assert 0 < instructions("t.kanata") <= 3000 * 8, "3000 cycles of 8"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--trace", "t.txt"], 2, "must end in .pftrace"),
        (["--trace", "a.kanata", "--trace", "b.kanata"], 2, "two files ending in .kanata"),
        (["--trace", "work.c/t.kanata"], 1, "work.c"),
        (["--trace", "t.kanata", "--trace-window", "5us..4us"], 2, "which is empty"),
        (["--trace", "t.kanata", "--trace-window", "5..6"], 2, "units: ns, us, ms, s"),
        (["--trace-window", "5us..6us"], 2, "which is missing"),
        (["--trace", "t.kanata", "--trace-core", "77"], 2, "cores 0 to 15"),
        (["--trace", "t.kanata", "--trace-window", "5s..6s"], 1, "the run ended at"),
        (["--trace", "full.kanata"], 1, "No space left on device"),
        (["--trace", "full.pftrace"], 1, "No space left on device"),
        (["--profile", "full.folded"], 1, "No space left on device"),
    ],
)
def test_wrong_input(arguments: list[str], status: int, sentence: str) -> None:
    for suffix in ("kanata", "pftrace", "folded"):
        Path(f"full.{suffix}").symlink_to("/dev/full")
    done = completed("exec", "work.c", *arguments)
    assert (done.returncode, sentence in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


def test_no_request_is_slower_than_the_slowest() -> None:
    done = completed(
        *("run", "spin.toml", "--trace", "t.kanata", "--trace-slower-than", "p99.99"),
    )
    assert (done.returncode, "no request was slower" in done.stderr) == (1, True), done.stderr


def test_a_guest_that_crashes_leaves_its_trace() -> None:
    Path("crash.c").write_text("int main(void) { return *(volatile int *)8; }")
    done = completed("exec", "crash.c", "--trace", "t.kanata", "--trace", "t.pftrace")
    assert done.returncode == 1
    assert "crashed" in done.stderr
    assert instructions("t.kanata") > 10
    assert packets("t.pftrace").packet
