"""Two sockets: every item comes out once whatever the ready sets do, and what stealing brings."""

from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, simulator
from nanoplane.errors import NanoplaneError

pytestmark = pytest.mark.simulator

HARDWARE: dict[str, dict[str, Any]] = {
    "apart": {},
    "stealing": {"server.hyperplane.stealing": "when-idle"},
    "one ready set": {"server.hyperplane.ready_sets": "one"},
}


def run(settings: dict[str, Any], **checkpoint: Any) -> Any:
    described = Description.from_dict(
        {
            "server": {
                "preset": "hyperplane-table1",
                "data_plane_cores": 4,
                "fabric": {"sockets": 2, "cores": 4},
            },
            "data_plane": {
                "program": "packet-encapsulation",
                "notify": "hyperplane",
                "organisation": "scale-up",
                "queues": 16,
            },
            "traffic": {"shape": "fully-balanced", "rate_mrps": 6, "packet_bytes": 256},
            "measure": {"requests": 400, "warmup": 100},
        }
    )
    for key, value in settings.items():
        described = described.set(key, value)
    resolved = described.resolve()
    program = resolved.elf()
    options = {"capture_packets": 0, "checkpoint": checkpoint}
    return simulator.run(resolved.data, program, options, None)


def comparable(result: Any) -> Any:
    return {
        name: result[name]
        for name in ("latency_ns", "queues", "hyperplane", "fabric", "cycles", "delivered")
    }


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("in_order", [True, False])
def test_nothing_is_lost_and_nothing_depends_on_how(hardware: str, in_order: bool) -> None:
    # The simulator ends a run in which a tenant gets an item twice, or out of an order that holds.
    settings = {**HARDWARE[hardware], "data_plane.in_order": in_order}
    result = run(settings)
    queues = result["queues"]
    counts = zip(queues["generated"], queues["dropped"], queues["delivered"], strict=True)
    assert all(0 <= came - dropped - delivered <= 32 for came, dropped, delivered in counts)
    assert all(delivered > 0 for delivered in queues["delivered"])
    assert result["hyperplane"]["monitored"] == 16
    assert (result["hyperplane"]["steals"] > 0) == (hardware == "stealing")
    slow = {"simulator.lookahead_cycles": 1, "simulator.skip_spinning": False}
    assert comparable(run({**settings, **slow})) == comparable(result)


@pytest.mark.parametrize("forwarding", [True, False])
@pytest.mark.parametrize("organisation", ["scale-out", "scale-up"])
def test_interrupts_reach_both_sockets(forwarding: bool, organisation: str, tmp_path: Path) -> None:
    """An interrupt that got lost would leave items behind. Harts that share queues wake others."""
    settings = {
        "data_plane.notify": "user-interrupt",
        "data_plane.organisation": organisation,
        "server.user_interrupts.forwarding": forwarding,
    }

    def told(**more: Any) -> Any:
        result = run({**settings, **more.pop("settings", {})}, **more)
        names = ("latency_ns", "queues", "user_interrupts", "fabric", "cycles", "delivered")
        return {name: result[name] for name in names}

    saved = str(tmp_path / "saved.checkpoint")
    result = told(save=saved, at_requests=150)
    queues = result["queues"]
    counts = zip(queues["generated"], queues["dropped"], queues["delivered"], strict=True)
    assert all(0 <= came - dropped - delivered <= 32 for came, dropped, delivered in counts)
    assert all(delivered > 0 for delivered in queues["delivered"])
    assert result["user_interrupts"]["forwarded" if forwarding else "posted"] > 0
    slow = {"simulator.lookahead_cycles": 1, "simulator.skip_spinning": False}
    assert told(settings=slow) == result
    assert told(**{"from": saved}) == result


def test_what_is_under_way_is_saved(tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.checkpoint")
    settings = HARDWARE["stealing"]
    result = run(settings, save=saved, at_requests=150)
    assert comparable(run(settings, **{"from": saved})) == comparable(result)


@pytest.mark.parametrize("notify", ["spin", "spin-poll-mode"])
def test_a_data_plane_apart_stays_on_its_socket(notify: str) -> None:
    settings = {
        "data_plane.notify": notify,
        "data_plane.organisation": "scale-out",
        "traffic.rate_mrps": 2,
    }
    few = run({**settings, "measure.requests": 400})
    many = run({**settings, "measure.requests": 1600})
    items = many["delivered"] - few["delivered"]
    crossings = (
        many["fabric"]["socket_link_messages"] - few["fabric"]["socket_link_messages"]
    ) / items
    # An item of 256 bytes moves some fifteen lines; rings, doorbells and queues are all at home.
    assert items > 1000
    # Queues of both sockets are served.
    assert all(delivered > 0 for delivered in many["queues"]["delivered"])
    assert many["dropped"] < 0.01 * many["delivered"]
    assert crossings < 0.5


def test_what_is_not_possible_gets_a_sentence() -> None:
    for settings, sentence in (
        ({"server.fabric.sockets": 1, "traffic.socket_imbalance": 0.5}, "there is one socket"),
        ({"server.fabric.sockets": 1, **HARDWARE["stealing"]}, "one socket has one ready set"),
        ({**HARDWARE["one ready set"], **HARDWARE["stealing"]}, 'ready_sets to "per-socket"'),
        ({"server.fabric.cores": 5}, "it must be even"),
        ({"traffic.socket_imbalance": 0.5, "traffic.imbalance": 0.5}, "only one of the two"),
        (
            {"server.memory_mib": 16, "data_plane.queues": 800, "traffic.packet_bytes": 1024},
            "use a larger memory_mib",
        ),
    ):
        with pytest.raises(NanoplaneError) as caught:
            run(settings)
        assert sentence in str(caught.value)
