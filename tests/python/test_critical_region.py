"""Critical regions that are identified while a server runs."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, compiler, simulator
from nanoplane.errors import DescriptionError, Failure, NanoplaneError
from nanoplane.papers.compare import key_value
from test_stores import elf

pytestmark = pytest.mark.simulator

KEY = "critical_region"
EPOCH = "server.critical_region.epoch_misses=64"
CORES = 2


def resolve(*assignments: str) -> Any:
    tables = {
        "server": {
            "preset": "cargo-table5",
            "data_plane_cores": CORES,
            "fabric": {"cores": CORES, "mesh": {"columns": 2, "rows": 1}},
        },
        "data_plane": {
            "program": "object-cache",
            "notify": "hyperplane",
            "organisation": "scale-up",
            "in_order": False,
            "queues": 8,
        },
        "traffic": {
            "rate_mrps": 2.0,
            "packet_bytes": 5000,
            "operations": {"keys": 2000, "sizes": "facebook-etc", "popularity": "zipf"},
        },
        "measure": {"requests": 150, "warmup": 0},
    }
    description = Description.from_dict(tables)
    for assignment in assignments:
        description = description.assign(assignment)
    return description.resolve()


def run(*assignments: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    resolved = resolve(*assignments)
    files = resolved.contents()
    result = simulator.run(resolved.data, elf("object-cache"), options, files=files)
    return simulator.without_host(result)


@functools.cache
def observed() -> dict[str, Any]:
    return run(EPOCH)


def test_identification_changes_no_other_result() -> None:
    result, plain = dict(observed()), run()
    assert result.pop(KEY)["epochs"] > 0
    # Its structures need energy, and are the only ones that need more.
    energies = [dict(one.pop(name)) for one in (result, plain) for name in ("energy_nj", "power_w")]
    assert result == plain
    with_it, _, without, _ = energies
    of_structures = with_it.pop("critical_regions")
    assert of_structures["dynamic"] > 0
    assert of_structures["static"] > 0
    assert with_it["total"] - without["total"] == pytest.approx(sum(of_structures.values()))
    sums = {"total", "dynamic", "static", "per_request"}
    assert {name: with_it[name] for name in with_it.keys() - sums} == {
        name: without[name] for name in without.keys() - sums
    }


def test_what_is_identified_adds_up() -> None:
    found = observed()[KEY]
    # Each core counts its misses by itself, and an unfinished epoch has less than 64.
    assert 0 <= found["misses"] - 64 * found["epochs"] < 64 * CORES
    # Of several loads that wait for a line, the first has missed. Stores miss, too.
    assert found["misses"] <= sum(core["l2_misses"] for core in observed()["cores"])
    assert 0 < found["regions"] <= found["epochs"]
    sizes = found["region_instructions"]
    assert len(sizes) == len(found["region_executions"]) == found["regions"]
    assert found["instructions_per_region"] == pytest.approx(sum(sizes) / len(sizes))
    assert found["region_executions"] == sorted(found["region_executions"], reverse=True)
    kinds = ("alu", "independent_loads", "dependent_loads", "other")
    assert sum(found[kind] for kind in kinds) == pytest.approx(1)
    assert 0 < found["coverage"] <= found["ready_coverage"] <= 1
    assert found["ready_instructions"] >= sum(sizes) / found["epochs"]
    assert found["right_values"] > 0
    # Nobody returns anything that could be matched.
    assert found["computed_registers"] == 0
    # crates/critical-region/src/storage.rs: one hart, and three more.
    assert found["storage_bytes"] == 7843 + 3 * 648


def test_what_is_identified_does_not_depend_on_the_simulation(tmp_path: Path) -> None:
    assert run(EPOCH, "simulator.lookahead_cycles=1") == observed()
    trace = {"profile": str(tmp_path / "t.folded"), "window_ns": [10_000, 20_000]}
    traced = run(EPOCH, options={"trace": trace})
    traced.pop("traces")
    expected = {name: value for name, value in observed().items() if name != "traces"}
    assert traced == expected


def test_larger_structures_need_more_storage() -> None:
    found = run(EPOCH, "server.critical_region.instructions=512")[KEY]
    # An entry more is 128 bits, and the number of one has a bit more: two in each.
    assert (
        found["storage_bytes"] - observed()[KEY]["storage_bytes"] == 256 * 128 // 8 + 512 * 2 // 8
    )


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("instructions=100", "server.critical_region.instructions is 100; it must be a power"),
        ("ways=512", "server.critical_region.ways is 512; it must be a power of two, and 256"),
        ("in_values=31", "server.critical_region.in_values is 31"),
    ],
)
def test_structures_that_cannot_be(assignment: str, sentence: str) -> None:
    with pytest.raises(DescriptionError) as error:
        run(f"server.critical_region.{assignment}")
    assert sentence in str(error.value)


def test_regions_are_offloaded_to_firmware_that_runs_them() -> None:
    for firmware in (None, "flow-hash"):
        offer = {"mode": "open", "rate_mrps": 0.5}
        data = key_value.rack("store", "rings", offer, {"requests": 100, "warmup": 0}).data
        server = data["rack"]["servers"][0]["server"]
        server["critical_region"] = {"offload": {}}
        if firmware is not None:
            server["dma_nic"]["processors"] = {"firmware": firmware}
        with pytest.raises(DescriptionError) as error:
            Description.from_dict(data).resolve()
        assert "server.critical_region.offload is given" in str(error.value)
        why = "this server has no such interface"
        if firmware is not None:
            why = f'that of this server has the firmware "{firmware}"'
        sentence = f'server.dma_nic.processors.firmware = "critical-regions", and {why}'
        assert sentence in str(error.value)


def test_what_is_identified_is_not_saved(tmp_path: Path) -> None:
    resolved = resolve(EPOCH, "measure.warm_start.requests=10")
    with pytest.raises(NanoplaneError) as error:
        simulator.warm_up(resolved.data, elf("object-cache"), tmp_path / "checkpoint")
    assert "server.critical_region sees what the harts execute" in str(error.value)


def store(offload: Mapping[str, Any] | None, **simulate: Any) -> Mapping[str, Any]:
    """Run a store behind rings, and a client that asks one question after the other.

    The interface forwards, or runs critical regions.
    """
    offer = {"mode": "open", "rate_mrps": 0.5}
    data = key_value.rack("store", "rings", offer, {"requests": 1, "warmup": 0}).data
    (entry,) = data["rack"]["servers"]
    fabric = {"cores": 4, "mesh": {"columns": 2, "rows": 2, "hop_latency_cycles": 3}}
    entry["server"]["fabric"] |= fabric
    entry["server"]["data_plane_cores"] = 4
    firmware = "flow-hash" if offload is None else "critical-regions"
    entry["server"]["dma_nic"] |= {"queues": 4, "processors": {"firmware": firmware}}
    if offload is not None:
        entry["server"]["critical_region"] = {"epoch_misses": 96, "offload": offload}
    client = {
        "name": "client",
        "program": str(compiler.GUEST / "tests" / "store-client.c"),
        "interface": "nanopu",
        "server": {
            **key_value.SERVER,
            "fabric": entry["server"]["fabric"],
            "nanopu": {"transport": {"protocol": "datagrams"}},
        },
    }
    rack = {"link": {"latency_ns": 1000.0}, "servers": [entry, client]}
    description = Description.from_dict({"rack": rack, "simulator": simulate})
    resolved = description.resolve()
    elves = compiler.unpack(resolved.elf())
    return simulator.rack(resolved.data, elves, {}, None, resolved.contents())


@functools.cache
def offloaded() -> Mapping[str, Any]:
    return store({})


def test_answers_are_the_same_with_regions_on_the_interface() -> None:
    """Every reply has the same words, and regions have been executed."""
    plain, with_regions = store(None), offloaded()
    outputs = [result["servers"][1]["output"] for result in (plain, with_regions)]
    assert len(outputs[0].splitlines()) == 120
    assert outputs[0] == outputs[1]
    server = with_regions["servers"][0]
    cores, sent = server["interface"]["processors"], server[KEY]["offload"]
    assert sent["regions_sent"] > 0
    # The first frame of each of six cores, and every eighth that follows.
    assert cores["frames_to_host"] == 120
    assert 120 / 8 <= sent["packets_told"] <= 120 / 8 + 6
    assert 0 < sent["packets_begun"] <= sent["packets_told"]
    assert cores["runs"] > 0
    assert cores["run_instructions"] > cores["runs"]
    assert cores["run_host_loads"] == cores["host_loads"] == cores["host_loads_steered"] > 0
    assert cores["host_load_faults"] < cores["host_loads"]
    assert 0 <= sent["instructions_failed"] < sent["instructions_sent"]
    # A block of 64 bytes for each region, and one for each 64 bytes of its code; and the notes: the
    # address, what the interface adds, the core, and two words of the key.
    assert cores["window_bytes"] >= (24 + 64) * (sent["regions_sent"] + sent["code_bytes"] / 64)
    assert cores["note_bytes"] <= 120 * (24 + 8 * 5)
    assert cores["host_load_request_bytes"] == 24 * cores["host_loads"]
    assert cores["window_blocks_refused"] == 0


def test_a_budget_ends_a_region_and_not_the_run() -> None:
    result = store({"budget": 3})
    cores = result["servers"][0]["interface"]["processors"]
    assert 0 < cores["runs_over_budget"] <= cores["runs"]
    assert cores["run_instructions"] <= 3 * cores["runs"]
    assert result["servers"][1]["output"] == offloaded()["servers"][1]["output"]


def test_what_is_executed_does_not_depend_on_the_simulation() -> None:
    servers = store({}, lookahead_cycles=1)["servers"]
    assert servers[0][KEY] == offloaded()["servers"][0][KEY]
    assert servers[0]["interface"] == offloaded()["servers"][0]["interface"]


EXAMPLE = Path(__file__).parents[2] / "examples" / "programmable-interface.toml"


def behind(firmware: str | Path, **settings: Any) -> Mapping[str, Any]:
    """Run the example of a programmable interface with other firmware, and with regions."""
    description = Description.from_toml(EXAMPLE).set("measure.requests", 100)
    server = "rack.servers.0.server"
    description = description.set(f"{server}.dma_nic.processors.firmware", str(firmware))
    description = description.set(f"{server}.{KEY}.offload", {})
    for key, value in settings.items():
        description = description.set(f"{server}.{key.replace('__', '.')}", value)
    resolved = description.resolve()
    elves = compiler.unpack(resolved.elf())
    return simulator.rack(resolved.data, elves, {}, None, resolved.contents())


def test_a_user_routine_that_never_returns_is_named(tmp_path: Path) -> None:
    firmware = tmp_path / "critical-regions-endless.c"
    firmware.write_text(
        "#define INTERFACE_ARGUMENTS\n#include <interface.h>\n"
        "struct captured { uint64_t words[2]; };\n"
        "static int interface_capture(const struct frame *frame, uint64_t bytes,\n"
        "                             struct captured *captured) {\n"
        "  captured->words[0] = frame->payload[0] + bytes;\n  return 1;\n}\n"
        "static __attribute__((noinline)) uint64_t interface_arguments(\n"
        "    const struct captured *captured, uint64_t *values) {\n"
        "  for (;;)\n    *(volatile uint64_t *)values = captured->words[0];\n}\n"
        f'#include "{compiler.GUEST / "firmware" / "critical-regions.c"}"\n'
    )
    with pytest.raises(Failure) as raised:
        behind(firmware)
    named = r"on its core \d at 0x1000[0-9a-f]{4} \(interface_arguments\+0x"
    assert re.search(named, str(raised.value))
    assert "which suggests an endless loop" in str(raised.value)


def test_a_region_that_stores_ends_there(tmp_path: Path) -> None:
    """As no hardware sends one, firmware runs it: a store, and a return."""
    firmware = tmp_path / "stores.c"
    firmware.write_text(
        "#include <interface.h>\n"
        "static const uint32_t region[] = {0x00053023 /* sd zero, 0(a0) */, 0x00100073};\n"
        "static volatile uint64_t word = 5;\n"
        "void firmware(uint64_t core) {\n  (void)core;\n  for (;;) {\n    interface_next();\n"
        "    uint64_t why = interface_run(region, (uint64_t)&word, 100);\n"
        "    interface_steer(why == INTERFACE_ENDED_BY_REFUSAL && word == 5 ? 0 : 99);\n"
        "    interface_deliver(interface_queue());\n  }\n}\n"
    )
    cores = behind(firmware)["servers"][0]["interface"]["processors"]
    assert cores["runs"] == cores["runs_refused"] > 0
    assert cores["run_instructions"] == 0


def test_firmware_that_does_not_fit_is_a_sentence() -> None:
    with pytest.raises(DescriptionError) as raised:
        behind("critical-regions", dma_nic__processors__scratchpad_bytes=65536)
    sentence = r"takes addresses from 0x10000000 to 0x1002[0-9a-f]{4}, but firmware has 53248 bytes"
    assert re.search(sentence, str(raised.value))
