"""CARGO's figures: the analytical model, and what is read off identified regions."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from fake_simulator import LOAD_SITES
from nanoplane import claims
from nanoplane.figures import Row, find
from nanoplane.papers import cargo
from nanoplane.papers.cargo import links, loads, model, offload, platforms, regions, split
from nanoplane.papers.cargo.model import Program, predict
from nanoplane.papers.compare import key_value, key_value_cargo


def test_few_threads_never_wait() -> None:
    # One access in four instructions of a cycle each. A thread of one has all 4096 KB: the hit rate
    # is 1 - (4096 / 50 + 1) ** -0.5 = 0.89018.
    program = Program(instructions=4000, memory_part=0.25, cycles=1.0)
    hit_rate = 1 - (4096 / 50 + 1) ** -0.5
    access = 30 * hit_rate + 180 * (1 - hit_rate)
    alone = predict(program, 1)
    assert hit_rate == pytest.approx(0.89018, abs=1e-5)
    assert alone.core_us == pytest.approx(4000 * (1 + 0.25 * access) / 4000)
    assert alone.latency_us == pytest.approx(alone.core_us)
    assert alone.queue_percent == pytest.approx(0, abs=1e-9)
    assert alone.throughput_mrps == pytest.approx(1 / alone.core_us)


def test_many_threads_share_what_the_cores_can_execute() -> None:
    # Four cores at 4 GHz execute 16 instructions a ns, which are 4 requests of 4000 a us.
    program = Program(instructions=4000, memory_part=0.25, cycles=1.0)
    many = predict(program, 10_000)
    assert many.throughput_mrps == pytest.approx(4.0)
    assert many.latency_us == pytest.approx(2500)
    # Twice as many wait twice as long.
    assert predict(program, 20_000).latency_us == pytest.approx(5000)


def test_the_models_parameters_are_those_of_a_request() -> None:
    stack = {"base": 400, "execution": 100, "memory": 900, "store_buffer": 100, "halted": 5000}
    core = {
        **{"instructions": 1000, "data_hits": 200, "data_misses": 50, "forwarded_loads": 10},
        **{"stores": 40, "stack": stack},
    }
    measured = model.measured({"cores": [core, core], "delivered": 4})
    assert measured == Program(instructions=500, memory_part=0.3, cycles=0.5)


def test_all_numbers_of_table_1_follow_from_two() -> None:
    for rate, row in platforms.PACKETS.items():
        for application_us, count in zip(platforms.APPLICATIONS_US, row, strict=True):
            latency_us = platforms.PATH_US + application_us
            assert int(platforms.packets(rate, latency_us, platforms.PACKET_BYTES)) == count


def test_half_of_the_executions() -> None:
    identified = {
        "regions": 4,
        "region_instructions": [6, 10, 20, 40],
        # The first has 40 of 100, the first two 70.
        "region_executions": [40, 30, 20, 10],
    }
    count, size = regions.half(identified)
    assert (count, size) == (2, 8)


def test_accesses_and_lines_of_loads() -> None:
    """The paper's numbers have its mean, and are what the claims compare with."""
    outcome: Any = SimpleNamespace(result={"load_sites": {"sites": LOAD_SITES}})
    results = {loads.LONG: outcome}
    assert loads.of_mean(results, max) == pytest.approx(564 / 376)
    assert loads.of_mean(results, min) == pytest.approx(224 / 376)
    assert loads.lines_percent(results) == pytest.approx(100 * 106 / 564)
    assert loads.variation(results) == pytest.approx(106 / (564 / 224))


def test_figures_behind_the_interface_share_their_runs() -> None:
    for quick in (True, False):
        points = {
            case: run
            for of in offload.LOADS_MRPS
            for case, run in offload.points(of, offload.SYSTEMS, quick).items()
        }
        # Each of CARGO's has the baseline to which it is compared, and all are descriptions.
        assert all(dataclasses.replace(case, system="baseline") in points for case in points)
        for run in (*points.values(), *offload.nic_points(quick).values()):
            run.description.check()
    # Six cores of the interface for each four of the host.
    large = offload.Case("object-cache", "cargo", 16, "waiting").run(quick=True)
    (server,) = large.description.data["rack"]["servers"]
    assert server["server"]["dma_nic"]["processors"]["cores"] == 24


def test_what_crosses_pci_express_is_a_part_of_both_directions() -> None:
    processors = {"window_bytes": 0, "note_bytes": 289_400}
    server = {"energy_nj": {"seconds": 1e-3}, "interface": {"processors": processors}}
    # 16 lanes of the third generation carry 14.47 GB a second in each direction.
    assert offload.express_percent({"servers": [server]}, "notes") == pytest.approx(1.0)
    assert offload.express_percent({"servers": [server]}, "state") == 0


def _without(description: dict[str, Any], *removed: str) -> dict[str, Any]:
    """Return a copy of the description of a rack's server, without keys of its interface."""
    (server,) = description["rack"]["servers"]
    interface = {
        key: value for key, value in server["server"]["dma_nic"].items() if key not in removed
    }
    return {**server, "server": {**server["server"], "dma_nic": interface}}


@pytest.mark.parametrize("system", offload.SYSTEMS)
def test_links_differ_in_the_link_alone(system: str) -> None:
    runs = {link: links.LinkCase(system, link, 2.0).run(quick=True) for link in links.LINKS}
    servers = {link: run.description.resolve().data for link, run in runs.items()}
    assert len({repr(_without(data, "express")) for data in servers.values()}) == 1
    told = {
        link: data["rack"]["servers"][0]["server"]["dma_nic"]["express"]
        for link, data in servers.items()
    }
    assert [one["latency_ns"] for one in told.values()] == [250, 250, 250, 70, 0]
    # 16 lanes of the third generation, and of the fifth; and no link.
    rates = [one["rate_gbit_per_s"] for one in told.values()]
    assert rates == [115.76, 115.76, 463.04, 463.04, 10_000]


def test_only_sure_gains_count() -> None:
    def row(link: str, mrps: float, ci95: tuple[float, float]) -> Row:
        return Row(
            series="",
            x=mrps,
            x_unit="Mrps offered",
            y=sum(ci95) / 2,
            y_unit="times",
            statistic=links.GAIN,
            labels={"link": link},
            ci95=ci95,
            samples=1,
        )

    rows = [
        row(links.ON_CHIP, 4.0, (1.01, 1.2)),
        row(links.ON_CHIP, 2.0, (0.99, 1.3)),
        row(links.PAPER, 2.0, (0.9, 0.99)),
        row(links.CXL, 2.0, (0.9, 1.1)),
    ]
    answer = find("cargo.links").answer
    assert answer is not None
    assert answer(rows) == (
        "Whether regions shorten the mean latency. PCIe 3.0: they cost at 2 Mrps. "
        "CXL-like with 70 ns: no load decides. on the chip: they gain at 4 Mrps."
    )


def test_the_time_in_a_core_is_neither_halted_nor_another_threads() -> None:
    stack = {"base": 300, "memory": 100, "other_hart": 50, "halted": 9000}
    result = {
        "servers": [{"cores": [{"stack": stack}]}],
        "clients": [{"statistics": {"responses": 2}}],
        "measurement": {"latency_ns": {"mean": 80.0}},
    }
    # 400 cycles of 4 GHz for two requests.
    assert split.core_ns(result) == 50
    assert split.waiting_ns(result) == 30


def test_the_compared_store_has_the_same_rack_with_regions_and_without() -> None:
    for system in key_value_cargo.INTERFACES:
        usual = key_value.Case(system, 2.5).run(quick=True).description.data
        for regions_of in key_value_cargo.REGIONS:
            case = key_value_cargo.CargoCase(system, regions_of, 2.5)
            run = case.run(quick=True)
            run.description.check()
            data = run.description.data
            assert data["rack"]["clients"] == usual["rack"]["clients"]
            assert data["measure"] == usual["measure"]
            server = _without(data, "processors")
            server["server"].pop("critical_region", None)
            assert server == usual["rack"]["servers"][0]


def test_every_number_that_the_paper_claims_is_listed() -> None:
    listed = claims.claims("cargo")
    assert len({claim.id for claim in listed}) == len(listed)
    by_figure = {claim.id.split(".")[1] for claim in listed}
    tables, figures = {"table1", "table2", "table3"}, {"2", "4", "5", "7", *map(str, range(11, 22))}
    assert tables <= by_figure
    assert figures - {"18"} <= by_figure  # Figure 18 has no number in the text.
    # What cannot be run says why.
    assert all(claim.measure is not None or claim.why for claim in listed)
    behind_the_interface = {f"cargo.{number}" for number in (*range(11, 17), *range(18, 22))}
    assert {figure.name for figure in cargo.FIGURES} == {
        *("cargo.table1", "cargo.2", "cargo.table2", "cargo.table3", "cargo.4", "cargo.5"),
        "cargo.7",
        "cargo.nic",
        *("cargo.17", "cargo.links"),
        *behind_the_interface,
    }
    assert set(model.MEMORY_PARTS).isdisjoint(model.IDLE_PARTS)
