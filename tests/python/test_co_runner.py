"""What a program on the other hardware thread gets of a data plane's core (Figure 11(b))."""

import functools
from typing import Any

import pytest

from nanoplane import Description, simulator

pytestmark = pytest.mark.simulator

WIDTH = 8
"""Instructions that a core of `hyperplane-table1` can begin in a cycle."""


@functools.cache
def core(notify: str, rate_mrps: float, co_runner: bool = True) -> Any:
    """Return what the data plane's core did, with 20 queues and 100 requests."""
    server: dict[str, object] = {"preset": "hyperplane-table1"}
    data_plane = {"program": "packet-encapsulation", "notify": notify, "queues": 20, "batch": 1}
    if co_runner:
        server["core"] = {"threads": 2}
        data_plane["co_runner"] = "matrix-multiplication"
    resolved = Description.from_dict(
        {
            "server": server,
            "data_plane": data_plane,
            "traffic": {"shape": "fully-balanced", "rate_mrps": rate_mrps},
            "measure": {"requests": 100, "warmup": 0},
        }
    ).resolve()
    (found,) = simulator.run(resolved.data, resolved.elf(), {}, None)["cores"]
    return found


def test_a_data_plane_that_halts_leaves_its_core_to_the_co_runner() -> None:
    """A halted thread has nothing of the core, so only what items take is missing.

    Twice as many items take away twice as much, until the data plane's own time doubles, too: what
    the co-runner would have without any is as far above the one as that is above the other.
    """
    seldom, often = (core("hyperplane", rate)["harts"] for rate in (0.1, 0.2))
    one, two = seldom[1]["ipc"], often[1]["ipc"]
    assert one > two
    alone = one + (one - two)
    # An item takes some 0.35 us of a thread, and at 0.1 million a second that is 3.5 % of the time.
    # All of the width would be the most that the co-runner could lose in it.
    assert 1 - one / alone < 0.07
    # And the data plane executes no more than its items need: a tenth of the instructions of poll
    # mode, which never halts.
    assert seldom[0]["ipc"] < 0.1 * core("spin-poll-mode", 0.1)["harts"][0]["ipc"]


@pytest.mark.parametrize("notify", ["spin", "spin-poll-mode"])
def test_spinning_takes_from_the_co_runner_and_the_co_runner_from_it(notify: str) -> None:
    """ICOUNT lets go first who has fewer instructions waiting: neither starves, both lose.

    Of two threads that both could fill the core, none gets less than a third of what it has alone,
    and together they cannot have more than the width.
    """
    spinning, beside = core(notify, 0.1)["harts"]
    free = core("hyperplane", 0.1)["harts"][1]["ipc"]
    own = core(notify, 0.1, co_runner=False)["ipc"]
    assert free / 3 < beside["ipc"] < free
    assert own / 3 < spinning["ipc"] < own
    assert spinning["ipc"] + beside["ipc"] <= WIDTH
