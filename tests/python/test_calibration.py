"""The calibration programs, and the figures of the substrate."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Run, Store, simulator, sweep
from nanoplane.papers.compare import key_value
from nanoplane.papers.substrate import bandwidth, latency, leaky_dma, loaded_latency
from nanoplane.papers.substrate.machines import (
    LARGE,
    NO_PAGES,
    PRESETS,
    SKYLAKE,
    SMALL,
    largest_cache_bytes,
)

pytestmark = pytest.mark.simulator


Measure = Callable[..., dict[str, Any]]


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Return what makes the result of a run, with some keys of its description changed."""

    def measured(run: Run, changed: Mapping[str, Any]) -> dict[str, Any]:
        description = run.description
        for key, value in changed.items():
            description = description.set(key, value)
        (outcome,) = sweep([description], store=Store(tmp_path / "store"))
        return dict(outcome.result)

    return measured


def load_cycles(
    measure: Measure, size_bytes: int, order: str, page: str = LARGE, **changed: Any
) -> float:
    result = measure(latency.Chase(SKYLAKE, order, size_bytes, page).run(), changed)
    return float(result["service_ns"]["mean"]) / latency.LOADS * latency.CLOCK_GHZ


NO_PREFETCHERS = {"server.core.l1_data_prefetcher": "none", "server.core.l2.prefetcher": "none"}


def test_a_load_takes_what_the_caches_take(measure: Measure) -> None:
    # 4 cycles from load to use in the first level, and 4 + 9 + 1 in the second. The data plane's
    # own work for a request, some 150 cycles, is a twenty-fifth of a cycle a load.
    for size_bytes, cycles in ((16 * latency.KIB, 4), (256 * latency.KIB, 14)):
        took = load_cycles(measure, size_bytes, latency.RANDOM)
        assert took == pytest.approx(cycles, abs=0.06)


def test_a_load_waits_for_the_second_level_tlb(measure: Measure) -> None:
    # 512 KB are 128 pages of 4 KB, of which the first-level TLB has 64: in random order half of the
    # loads hit it, and the others wait 9 cycles for the second level. Pages of 2 MB all hit.
    size_bytes = 512 * latency.KIB
    large = load_cycles(measure, size_bytes, latency.RANDOM)
    assert large == pytest.approx(14, abs=0.06)
    small = load_cycles(measure, size_bytes, latency.RANDOM, page=SMALL)
    assert small - large == pytest.approx(9 / 2, abs=0.25)


def test_the_largest_cache_may_be_in_front_of_memory() -> None:
    """24 banks of 1.375 MB; and nanoPU's 4 MB in front of memory, behind four banks of 128 KB."""
    assert largest_cache_bytes(SKYLAKE) == 33 << 20
    assert largest_cache_bytes("rpcvalet-table1") == 2 << 20
    assert largest_cache_bytes("nanopu-prototype") == 4 << 20


def test_every_preset_is_calibrated() -> None:
    presets = set(simulator.presets())
    assert set(PRESETS) == set(bandwidth.CORES) == presets
    (figure,) = latency.FIGURES
    points = list(figure.points(True))
    assert {point.preset for point in points if point.page != NO_PAGES} == {
        SKYLAKE,
        "spin-to-win-table1",
    }
    assert {point.preset for point in points} == presets


@pytest.mark.parametrize(
    ("size_bytes", "least", "most"),
    [
        # 2 cycles of the first level; and both levels' 2 and 3, and one.
        (16 * latency.KIB, 2, 2.06),
        (128 * latency.KIB, 6, 6.06),
        # The same 2 and 3, a cycle to the bank on the same tile, its 30, one back, and one.
        (512 * latency.KIB, 38, 38.1),
        # Then 45 ns of memory, at 4 GHz 180 cycles; and 64 bytes at 7.6 GB/s, 33.7 cycles. Some of
        # eight times as many lines as the last level has are still there.
        (8 * latency.MIB, 38 + 180, 38 + 180 + 33.7),
    ],
)
def test_a_load_on_cargos_server(
    measure: Measure, size_bytes: int, least: float, most: float
) -> None:
    description = latency.Chase("cargo-table5", latency.RANDOM, size_bytes).run().description
    settings = {
        "data_plane_threads": 1,
        "fabric.cores": 1,
        "fabric.mesh.columns": 1,
        "fabric.mesh.rows": 1,
    }
    machine = {f"server.{key}": value for key, value in settings.items()}
    lines = min(size_bytes, 2 * latency.MIB) // latency.LINE_BYTES
    machine["measure.warmup"] = 4 + 2 * lines // latency.LOADS
    nanoseconds = float(measure(Run(description), machine)["service_ns"]["mean"]) / latency.LOADS
    assert least <= 4 * nanoseconds < most


def test_prefetchers_shorten_a_sequential_chase(measure: Measure) -> None:
    size_bytes = 256 * latency.KIB
    without = load_cycles(measure, size_bytes, latency.SEQUENTIAL, **NO_PREFETCHERS)
    assert without == pytest.approx(14, abs=0.06)
    assert load_cycles(measure, size_bytes, latency.SEQUENTIAL) < without / 2


def test_one_core_reads_no_faster_than_its_misses_allow(measure: Measure) -> None:
    # At most 12 lines of 64 bytes are on their way, each for the latency of memory: 82 ns, less
    # the 28.5 ns of tRP and tRCD where the row is open. Little's law.
    run = bandwidth.Stream(SKYLAKE, bandwidth.READS, 1).run(True)
    result = measure(run, {**NO_PREFETCHERS, "measure.warmup": 10})
    gb_per_s = bandwidth.GB_PER_S * float(result["throughput_mrps"])
    most_gb_per_s = 12 * 64 / (82 - 28.5)
    assert 0.7 * most_gb_per_s < gb_per_s < 1.05 * most_gb_per_s


def test_streams_with_a_delay_load_memory_by_so_much(measure: Measure) -> None:
    # A stream counts its delay of 500 down by one in a cycle, with two instructions. When 224 of
    # these fill the reorder buffer behind the load of a line, it waits for the rest of the load. So
    # a line takes 500 cycles of 2.8 GHz, and what a load takes beyond 112. The chase reads a line
    # in each of its loads. Nothing has been read before.
    load = loaded_latency.Load(bandwidth.READS, 2, 3, 500)
    result = measure(load.run(), {"measure.requests": 100, "measure.warmup": 10, **NO_PREFETCHERS})
    load_ns = float(result["service_ns"]["mean"]) / loaded_latency.LOADS
    lines = result["fabric"]["memory_reads"] + result["fabric"]["memory_writes"]
    streams_gb_per_s = 64e-9 * lines / result["simulated_seconds"] - 64 / load_ns
    cycles_a_line = 3 * 64 * 2.8 / streams_gb_per_s
    assert cycles_a_line == pytest.approx(500 + 2.8 * load_ns - 112, rel=0.03)


def test_more_streams_than_cores_are_refused(measure: Measure) -> None:
    run = loaded_latency.Load(bandwidth.READS, 2, 24, 0).run()
    with pytest.raises(Exception, match="streams is 24; beside the data plane's core there are 23"):
        measure(run, {})


def test_buffers_leak_out_of_too_few_ways(measure: Measure) -> None:
    # The rings of 16 cores cycle through 2048 buffers of 2 KB, 4 MB of 16: they fit four of eight
    # ways, and nothing is ever written to memory. One way has room for a half of them, so a buffer
    # is evicted, newer than memory, before its turn comes again.
    case = key_value.Case(key_value.RINGS_ON_CHIP, 5.0)
    last_level = "rack.servers.0.server.fabric.last_level"
    written = {
        ways: measure(
            Run(case.description(True)),
            {
                f"{last_level}.size_bytes_per_bank": 1 << 20,
                f"{last_level}.io_ways": ways,
                "rack.servers.0.parameters": {"entries": 128, "buffer_bytes": 2048},
                # That of the published simulations would take what the last level evicts.
                "rack.servers.0.server.fabric.memory.cache": None,
            },
        )["servers"][0]["fabric"]["memory_writes"]
        for ways in (1, 4)
    }
    assert written[4] == 0
    assert written[1] > 10_000


@pytest.mark.parametrize(("descriptors", "packets_written"), [(128, 0), (1024, 1)])
def test_rings_leak_out_of_the_ways_for_io(
    measure: Measure, descriptors: int, packets_written: int
) -> None:
    # Banks of 176 KB instead of 1.375 MB, to be fast: two of eleven ways are 24 times 32 KB, 12288
    # lines, and packets of 1500 bytes have 24 of these each. 512 packets fit: of a ring of 128,
    # each write finds its line in the cache. With 1024, each line has been evicted since the lap
    # before, newer than memory, so that a lap writes all lines of 1024 packets to memory.
    written = [
        measure(
            Run(leaky_dma.Ring(2, descriptors, laps).description()),
            {"rack.servers.1.server.fabric.last_level.size_bytes_per_bank": 11 * (16 << 10)},
        )["servers"][1]["fabric"]["memory_writes"]
        for laps in leaky_dma.LAPS
    ]
    lines = descriptors * leaky_dma.LINES_A_PACKET
    assert written[1] - written[0] == pytest.approx(packets_written * lines, rel=0.01)
