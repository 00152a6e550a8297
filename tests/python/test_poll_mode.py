"""The poll-mode library and its programs: parts against references, runs against arithmetic."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import completed

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
GUESTS = ROOT / "guest" / "tests"


def execute(*arguments: object) -> str:
    done = completed("exec", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def xorshift() -> Iterator[int]:
    state = 2463534242
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state


def test_longest_prefix_match_is_the_plain_one() -> None:
    random = xorshift()

    def address() -> int:
        upper, middle, low = next(random) % 4, next(random) % 64, next(random)
        return upper << 30 | middle << 20 | low & 0x000303FF

    routes: dict[tuple[int, int], int] = {}
    for number in range(300):
        ip = address()
        depth = 9 + next(random) % 24
        routes[ip >> 32 - depth, depth] = number
    lines = execute("--functional", GUESTS / "poll-mode-lpm.c").splitlines()
    assert lines[0] == "0 refused"
    found = set()
    for line in lines[1:]:
        ip = address()
        matches = [depth for depth in range(1, 33) if (ip >> 32 - depth, depth) in routes]
        longest = max(matches, default=0)
        hop = routes[ip >> 32 - longest, longest] if matches else "none"
        assert line == f"{ip:x} {hop}"
        found.add(longest)
    assert len(lines) == 2001
    # Prefixes of either table, and none.
    assert 0 in found
    assert any(1 <= depth <= 24 for depth in found)
    assert any(depth > 24 for depth in found)


@pytest.mark.parametrize("way", [["--functional"], []])
def test_a_ring_keeps_all_in_the_order_of_each_producer(way: list[str]) -> None:
    output = execute(*way, GUESTS / "poll-mode-ring.c", "--set=server.fabric.cores=4")
    got = [[int(word, 16) for word in line.split()] for line in output.splitlines()]
    assert sorted(got[0] + got[1]) == [
        producer << 16 | number for producer in range(2) for number in range(400)
    ]
    for consumer in got:
        for producer in range(2):
            numbers = [number for number in consumer if number >> 16 == producer]
            assert numbers == sorted(numbers)
    if not way:
        # With times, each consumer gets something of both.
        assert all({number >> 16 for number in consumer} == {0, 1} for consumer in got)


def test_a_pool_hands_out_each_buffer_once() -> None:
    execute("--functional", GUESTS / "poll-mode-pool.c")


def run(example: str, *settings: str) -> dict[str, Any]:
    assignments = (f"--set={setting}" for setting in settings)
    done = completed("run", ROOT / "examples" / f"{example}.toml", "--json", *assignments)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def statistics(result: dict[str, Any], server: int = 0) -> dict[str, Any]:
    counted: dict[str, Any] = result["servers"][server]["interface"]
    return counted


@pytest.mark.parametrize("example", ["io-forward", "l3-forward", "dispatch"])
def test_programs_forward_every_packet_at_a_low_load(example: str) -> None:
    result = run(example, "measure.requests=400")
    counted = statistics(result)
    frames = counted["frames"]
    assert frames["frames_received"] == frames["frames_delivered"] + under_way(frames)
    assert frames["not_sent"] == 0
    client = result["clients"][0]["statistics"]
    # All but those that are under way at the end, at 2 million a second for some 2 us.
    assert 0 <= client["requests"] - client["responses"] < 20
    assert client["unexpected"] == 0
    # Both links, MACs, and PCI Express five times out and once in, with 250 ns each.
    latency = result["measurement"]["latency_ns"]
    assert 6 * 250 < latency["p50"] < 3000


def under_way(frames: dict[str, Any]) -> int:
    """Return the frames that are neither delivered nor dropped: few."""
    left = frames["frames_received"] - frames["frames_delivered"]
    assert 0 <= left < 20
    dropped = [frames[name] for name in frames if name.startswith("dropped")]
    assert sum(dropped) == 0
    return int(left)


def test_packets_without_a_route_are_dropped() -> None:
    # Half of the destinations have one. Three standard deviations of 1000 packets are 0.047.
    result = run("l3-forward", "rack.servers.0.parameters.routes=8192", "measure.requests=500")
    client = result["clients"][0]["statistics"]
    assert abs(client["responses"] / client["requests"] - 0.5) < 0.06


def test_flows_go_to_all_queues() -> None:
    result = run(
        "io-forward",
        *(f"rack.servers.0.parameters.{name}" for name in ("queues=4", "cores=4")),
        *("rack.clients.0.load.offer.rate_mrps=40", "measure.requests=2000"),
    )
    # One core forwards 30 to 60 million; all of them get packets, so each executes more than an
    # idle poll.
    assert result["measurement"]["throughput_mrps"] > 35


def test_a_receiver_says_how_fast_it_is() -> None:
    result = run("receive-only", "rack.servers.1.parameters.packets=3000")
    said = re.search(r"(\d+) packets received in (\d+) cycles at (\d+) Hz", said_by(result, 1))
    assert said
    packets, cycles, hz = map(int, said.groups())
    assert packets >= 3000
    # The clock, from a timer of microseconds.
    assert abs(hz / 2.8e9 - 1) < 0.01
    # Within the line rate of 88 bytes and the interface's 100 million.
    mpps = packets / cycles * hz / 1e6
    assert 10 < mpps < 100


def said_by(result: dict[str, Any], server: int) -> str:
    output: str = result["servers"][server]["output"]
    return output


def test_a_program_gets_only_parameters_that_it_knows() -> None:
    setting = "--set=rack.servers.0.parameters.queue=2"
    done = completed("run", ROOT / "examples" / "io-forward.toml", setting)
    assert done.returncode == 2
    assert "parameters.queue is not known to the program" in done.stderr


def test_parts_cost_what_the_documentation_says() -> None:
    output = execute(GUESTS / "poll-mode-costs.c", "--preset=skylake-sp")
    lines = (line.split() for line in output.splitlines())
    costs = {name: int(cycles) / int(count) for name, count, cycles in lines}
    table = (ROOT / "docs" / "poll-mode.md").read_text(encoding="utf-8")
    assert {f"{costs[name]:.1f}" for name in costs} <= set(re.findall(r"\d+\.\d", table))
    # An atomic operation on each side; and entries share it.
    assert costs["ring-sp-sc-1"] < costs["ring-mp-mc-1"]
    assert costs["ring-mp-mc-32"] < costs["ring-mp-mc-8"] < costs["ring-mp-mc-1"]
    assert costs["lpm-cached"] < costs["lpm-memory"]
