"""What `make same-results` compares, and a few of its runs: one of every kind."""

import json

import pytest
import same_results
from same_results import comparable, differing, digests, first_differences

RECORDED = json.loads(same_results.DIGESTS.read_text())


def test_every_run_is_recorded() -> None:
    assert RECORDED.keys() == same_results.RUNS.keys()


@pytest.mark.simulator
@pytest.mark.parametrize(
    "name",
    [
        "example queueing",
        "spin, 8 queues, scale-out",
        "hyperplane, 200 queues, scale-up",
        "sockets stealing",
        "rack NDP, incast",
    ],
)
def test_a_result_is_the_recorded_one(name: str) -> None:
    """`make same-results` says more about what differs, and records what is meant to."""
    found = digests(same_results.RUNS[name]())
    assert differing(RECORDED[name], found) == []


def test_what_depends_on_the_host_is_left_out() -> None:
    core = {"cycles": 3, "skipped_cycles": 2}
    result = {
        "host_seconds": 1.5,
        "version": "0.1",
        "cores": [core],
        "servers": [{"cores": [core]}],
    }
    left = {"cores": [{"cycles": 3}], "servers": [{"cores": [{"cycles": 3}]}]}
    assert comparable(result) == left
    assert digests(result) == digests(left)


def test_a_difference_is_named() -> None:
    old = {"cycles": 3, "cores": [{"ipc": 1.0}, {"ipc": 2.0}], "gone": 1}
    new = {"cycles": 3, "cores": [{"ipc": 1.0}, {"ipc": 2.0000000000000004}], "new": [1]}
    assert differing(digests(old), digests(new)) == [
        "cores",
        "gone (no longer there)",
        "new (not recorded)",
    ]
    assert list(first_differences(old, new)) == [
        "cores.1.ipc: 2.0 -> 2.0000000000000004",
        "gone: 1 -> null",
        "new: null -> [1]",
    ]
