"""The figure of the two stores: its points, and laws that its numbers keep."""

from collections import Counter
from pathlib import Path

import pytest

from nanoplane import Store, sweep
from nanoplane.figures import chosen, find
from nanoplane.papers.stores import load
from nanoplane.papers.stores.load import Case


def test_each_store_is_run_on_each_server_in_both_ways() -> None:
    full, quick = (chosen([find("stores.load")], quick, ()) for quick in (False, True))
    cases = [point for point in full if isinstance(point, Case)]
    assert len(cases) == len(full) == 2 * 2 * 5 * 4
    assert Counter(case.cores for case in cases) == dict.fromkeys(load.CORES, 16)
    assert len(quick) == 2 * 2 * 2
    for case, run in full.items():
        rack = run.description.resolve().data["rack"]
        server = rack["servers"][0]["server"]
        # Table 5: a megabyte of last-level cache for each core; a memory controller for four.
        mesh = server["fabric"]["mesh"]
        assert mesh["columns"] * mesh["rows"] == case.cores == server["data_plane_cores"]
        assert server["fabric"]["last_level"]["size_bytes_per_bank"] == 1 << 20
        assert server["fabric"]["memory"]["controllers"] == max(1, case.cores // 4)
        # Each hart has a ring, and each four cores have 10 Gb/s.
        assert server["dma_nic"]["queues"] == 4 * case.cores
        assert rack["link"]["rate_gbit_per_s"] == 10 * max(1, case.cores // 4)


@pytest.mark.simulator
@pytest.mark.parametrize("notify", load.NOTIFY)
def test_numbers_keep_laws(notify: str, tmp_path: Path) -> None:
    """A thread's cycles are all accounted for, and a line that comes from memory has missed."""
    described = Case(load.CACHE, notify, 1, 0.5).run(True).description
    keys = "rack.clients.0.load.operations.keys"
    for key, value in {keys: 8000, "measure.requests": 200}.items():
        described = described.set(key, value)
    (outcome,) = sweep([described], store=Store(tmp_path / "store"))
    result, (server,) = outcome.result, outcome.result["servers"]
    values = {name: value for name, _, value in load.statistics(result)}
    cycles = sum(value for name, value in values.items() if name.startswith("cycles: "))
    assert cycles == pytest.approx(1, abs=1e-3)
    first, second, last = (values[f"misses of the {level}"] for level in ("L1", "L2", "last level"))
    assert first > second > last > 0
    # What the last level has asked for has been read; lines written back come on top.
    lines = values["DRAM bandwidth"] * 1e9 * server["energy_nj"]["seconds"] / load.LINE_BYTES
    assert lines == pytest.approx(
        server["fabric"]["memory_reads"] + server["fabric"]["memory_writes"]
    )
    requests = result["clients"][0]["statistics"]["responses"]
    assert server["fabric"]["memory_reads"] >= last * requests * 0.999
    assert values["throughput"] == pytest.approx(0.5, rel=0.3)
