"""Sources of the traffic on cores of the server: `traffic.sources = "cores"`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, simulator
from nanoplane.errors import DescriptionError, Failure
from nanoplane.schemas import mechanisms

pytestmark = pytest.mark.simulator

CORES = "traffic.sources=cores"
TASKS = (
    "packet-encapsulation",
    "crypto-forwarding",
    "packet-steering",
    "erasure-coding",
    "raid-protection",
    "request-dispatching",
)
NEED_THE_DEVICE = {name for name, one in mechanisms().items() if one.needs_device}
MECHANISMS = tuple(name for name in mechanisms() if name not in NEED_THE_DEVICE)


def described(*assignments: str) -> Description:
    tables = {
        "server": {"preset": "hyperplane-table1"},
        "data_plane": {"program": "packet-encapsulation", "notify": "hyperplane", "queues": 6},
        "traffic": {"shape": "fully-balanced", "packet_bytes": 256},
        "measure": {"requests": 100, "warmup": 0},
    }
    description = Description.from_dict(tables)
    if not any(one.startswith("traffic.load=") for one in assignments):
        description = description.set("traffic.rate_mrps", 0.15)
    for assignment in assignments:
        description = description.assign(assignment)
    return description


def run(*assignments: str, capture: int = 0) -> Mapping[str, Any]:
    resolved = described(*assignments).resolve()
    options = {"capture_packets": capture}
    return simulator.run(resolved.data, resolved.elf(), options, files=resolved.contents())


def is_conserved(result: Mapping[str, Any]) -> bool:
    names = ("dropped", "refused", "entering", "inside", "delivered")
    return bool(result["generated"] == sum(result[name] for name in names))


@pytest.mark.parametrize("program", TASKS)
def test_answers_are_those_of_the_device(program: str) -> None:
    task = (f"data_plane.program={program}", "data_plane.notify=spin")
    device = run(*task, capture=100)
    cores = run(*task, CORES, capture=100)
    assert (cores["errors"], cores["dropped"], cores["reordered"]) == (0, 0, 0)
    assert is_conserved(cores)
    # The last few items may come in another order, and so be captured or not.
    same = Counter(device["captured"]) & Counter(cores["captured"])
    assert same.total() >= 95


@pytest.mark.sampled
@pytest.mark.parametrize("notify", MECHANISMS)
@pytest.mark.parametrize("organisation", ["scale-out", "scale-up"])
def test_every_mechanism_takes_their_items(notify: str, organisation: str) -> None:
    several = (
        *(f"data_plane.notify={notify}", f"data_plane.organisation={organisation}"),
        *("server.data_plane_cores=3", "traffic.rate_mrps=3", "measure.requests=300"),
    )
    device, cores = run(*several, capture=300), run(*several, CORES, capture=300)
    assert is_conserved(cores)
    assert (cores["errors"], cores["dropped"], cores["reordered"]) == (0, 0, 0)
    same = Counter(device["captured"]) & Counter(cores["captured"])
    assert same.total() >= 285


def test_arrivals_are_those_of_the_device() -> None:
    """The seed decides what arrives, and where, with imbalance and bursts too."""
    more = (
        *("traffic.arrivals=bursty", "traffic.imbalance=0.5", "server.data_plane_cores=2"),
        *("measure.requests=600", "data_plane.queues=20", "traffic.queue_capacity=256"),
    )
    for seed in (1, 2):
        device, cores = (run(*more, f"measure.seed={seed}", *source) for source in ((), (CORES,)))
        # The runs may end some arrivals apart.
        arrived = [result["queues"]["generated"] for result in (device, cores)]
        apart = sum(abs(one - other) for one, other in zip(*arrived, strict=True))
        assert apart == abs(device["generated"] - cores["generated"]) <= 32
        assert device["dropped"] == cores["dropped"] == 0


def test_they_are_deterministic() -> None:
    saturated = (CORES, "traffic.rate_mrps=12", "traffic.source_cores=4", "measure.requests=600")
    usual = run(*saturated)
    assert usual["dropped"] > 0
    assert is_conserved(usual)
    again = run(*saturated)
    slow = run(*saturated, "simulator.lookahead_cycles=1")
    exact = run(*saturated, "simulator.skip_spinning=false")
    for other in (again, slow, exact):
        assert other["sources"] == usual["sources"]
        assert other["queues"] == usual["queues"]
        assert other["latency_ns"] == usual["latency_ns"]
        assert other["cycles"] == usual["cycles"]


def test_the_device_says_nothing_of_cores() -> None:
    assert "sources" not in run()


def test_entering_takes_time_that_is_no_latency() -> None:
    light = run(CORES, "traffic.rate_mrps=0.01")
    sources = light["sources"]
    assert (sources["cores"], sources["waiting"]) == (15, 0)
    assert 50 < sources["mean_entering_ns"] <= sources["p99_entering_ns"] < 1000
    assert not light["overload"]


def test_a_core_that_falls_behind_is_said() -> None:
    behind = run(CORES, "traffic.source_cores=1", "traffic.rate_mrps=20", "measure.requests=1000")
    assert behind["sources"]["waiting"] > 1000
    assert any("of the sources" in one and "does not keep up" in one for one in behind["overload"])


@pytest.mark.parametrize("rings", ["used", "full"])
@pytest.mark.parametrize("notify", ["spin", "spin-poll-mode", "hyperplane"])
def test_rings_can_have_been_used(rings: str, notify: str) -> None:
    load: tuple[str, ...] = ("traffic.rate_mrps=1",)
    if rings == "full":
        load = ("traffic.load=saturate", "traffic.saturation_rate_mrps=6")
    result = run(f"data_plane.notify={notify}", CORES, f"measure.rings={rings}", *load)
    assert is_conserved(result)
    assert result["reordered"] == 0


def test_a_co_runner_is_beside_them() -> None:
    result = run(
        CORES,
        "server.core.threads=2",
        "data_plane.co_runner=matrix-multiplication",
        "data_plane.notify=spin",
        "server.fabric.cores=4",
    )
    assert result["sources"]["cores"] == 3
    assert is_conserved(result)


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (
            ("traffic.source_cores=2",),
            r'traffic\.source_cores is 2; it belongs to sources = "cores"',
        ),
        (
            (CORES, "traffic.source_cores=16"),
            r"traffic\.source_cores is 16; of 16 cores \(server\.fabric\.cores\) 1 run the data",
        ),
        (
            (CORES, "server.data_plane_cores=16"),
            r'traffic\.sources is "cores"; of 16 cores .* and 0 are left',
        ),
        (("traffic.sources=disk",), "disk"),
        *(
            ((CORES, f"data_plane.notify={notify}"), rf'traffic\.sources is "cores"; .*{notify}')
            for notify in sorted(NEED_THE_DEVICE)
        ),
    ],
)
def test_what_cannot_be_gets_a_sentence(assignments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises((DescriptionError, Failure), match=sentence):
        run(*assignments)


def test_programs_that_need_the_device() -> None:
    with pytest.raises(
        DescriptionError, match="closes and opens queues, which these sources cannot"
    ):
        run(CORES, "data_plane.program=tenants")


def test_an_elf_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "program.elf"
    path.write_bytes(described().resolve().elf())
    with pytest.raises(DescriptionError, match="sources on cores are compiled together"):
        run(CORES, f"data_plane.program={path}")
