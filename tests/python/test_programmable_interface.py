"""Firmware on a network interface, as a user writes and names it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import nanoplane
from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure, ProgramError
from nanoplane.papers.compare import key_value

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "programmable-interface.toml"
FIRMWARE = "rack.servers.0.server.dma_nic.processors.firmware"


def simulate(description: Description) -> Mapping[str, Any]:
    resolved = description.resolve()
    elves = compiler.unpack(resolved.elf())
    return simulator.rack(resolved.data, elves, {}, None, resolved.contents())


def example(**settings: Any) -> Description:
    description = Description.from_toml(EXAMPLE).set("measure.requests", 300)
    for key, value in settings.items():
        description = description.set(key.replace("__", "."), value)
    return description


def test_the_interface_answers_without_the_host() -> None:
    """Half of the messages are answered before PCI Express, whose two crossings take 500 ns."""
    result = simulate(example())
    (server,), (client,) = result["servers"], result["clients"]
    interface = server["interface"]
    cores = interface["processors"]
    assert cores["frames"] == interface["frames_received"]
    assert cores["frames_sent"] > 100
    assert cores["frames_to_host"] > 100
    assert cores["frames_sent"] + cores["frames_to_host"] == cores["frames"]
    kinds = client["by_kind"]
    count, echo = (kinds[name]["latency_ns"]["p50"] for name in ("count", "echo"))
    assert count + 500 < echo
    assert client["statistics"]["unexpected"] == 0
    energy = server["energy_nj"]["interface_cores"]
    # Six cores of 163 mW, and 256 KB of 1.67 mW each: nanojoules a second.
    assert energy["static"] == pytest.approx(
        (6 * 163 + 256 * 1.67) * 1e6 * server["energy_nj"]["seconds"]
    )
    words = cores["scratchpad_words"] + cores["frame_words"]
    # From the beginning, and the energy is counted from when the client begins.
    assert 0 < energy["dynamic"] < (49.8 * cores["instructions"] + 19.6 * words) / 1000


def test_other_firmware_is_named_in_the_description(tmp_path: Path) -> None:
    """With the built-in one every message goes to the host. The path of another starts anywhere."""
    forwarded = simulate(example(**{FIRMWARE.replace(".", "__"): "flow-hash"}))
    cores = forwarded["servers"][0]["interface"]["processors"]
    assert cores["frames_to_host"] == cores["frames"] > 300
    elf = tmp_path / "counters.elf"
    elf.write_bytes(compiler.build_firmware(ROOT / "examples" / "counters.c"))
    from_elf = simulate(example(**{FIRMWARE.replace(".", "__"): str(elf)}))
    assert from_elf["clients"] == simulate(example())["clients"]


def store(cores: Mapping[str, Any] | None, client: bool) -> Mapping[str, Any]:
    """Run the store behind rings, with cores on the interface or without."""
    measure = {"requests": 200, "warmup": 0}
    offer = {"mode": "open", "rate_mrps": 0.5}
    data = key_value.rack("store", "rings", offer, measure).data
    (entry,) = data["rack"]["servers"]
    fabric = {"cores": 4, "mesh": {"columns": 2, "rows": 2, "hop_latency_cycles": 3}}
    entry["server"]["fabric"] |= fabric
    entry["server"]["data_plane_cores"] = 4
    entry["server"]["dma_nic"]["queues"] = 4
    if cores is not None:
        entry["server"]["dma_nic"]["processors"] = cores
    if client:
        of_client = {
            "name": "client",
            "program": str(compiler.GUEST / "tests" / "store-client.c"),
            "interface": "nanopu",
            "server": {**key_value.SERVER, "fabric": entry["server"]["fabric"]},
        }
        rack = {"link": {"latency_ns": 1000.0}, "servers": [entry, of_client]}
        return simulate(Description.from_dict({"rack": rack}))
    return simulate(Description.from_dict(data))


def test_a_store_answers_the_same_behind_firmware_that_forwards() -> None:
    """Every reply has the same words, and no request is lost; each takes some cycles more."""
    plain, programmed = store(None, client=True), store({}, client=True)
    outputs = [result["servers"][1]["output"] for result in (plain, programmed)]
    assert len(outputs[0].splitlines()) == 120
    assert outputs[0] == outputs[1]
    plain, programmed = store(None, client=False), store({}, client=False)
    assert "processors" not in plain["servers"][0]["interface"]
    interface = programmed["servers"][0]["interface"]
    assert not any(count for name, count in interface.items() if "dropped" in name)
    assert interface["processors"]["frames_to_host"] == interface["frames_received"]
    before, behind = (
        result["clients"][0]["measurement"]["latency_ns"]["p50"] for result in (plain, programmed)
    )
    # NEXT, which is executed when the frame is there, 2; QUEUE, 2; DELIVER; up to a cycle until
    # the first one begins. A cycle has 6.02 ns.
    assert before + 4 * 6.02 < behind < before + 12 * 6.02


@pytest.mark.parametrize("speed", [{"lookahead_cycles": 1}, {"skip_spinning": False}])
def test_speed_changes_no_result(speed: Mapping[str, Any]) -> None:
    def measured(description: Description) -> Any:
        result = simulate(description)
        return [result["clients"], result["servers"][0]["interface"]]

    description = example(measure__requests=100)
    slower = Description.from_dict({**description.data, "simulator": speed}, EXAMPLE.parent)
    assert measured(slower) == measured(description)


WRONG = {
    "  for (;;)\n    interface_cycle();": "which suggests an endless loop",
    "  *(volatile uint64_t *)(INTERFACE_SCRATCHPAD_START + 262144) = core;": "ends at 0x10040000",
    "  interface_steer(99);": "a steering tag for core 99 of the host, which has ",
    '  volatile uint64_t room[512];\n  __asm__("" ::"r"(room));\n  room[0] = core;': (
        "the stack of 2048 bytes begins at"
    ),
}


@pytest.mark.parametrize("body", WRONG)
def test_firmware_that_fails_is_named(body: str, tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(f"#include <interface.h>\n\nvoid firmware(uint64_t core) {{\n{body}\n}}\n")
    with pytest.raises(
        Failure, match=r"on its core \d at 0x10000[0-9a-f]{3} \(firmware\+0x"
    ) as raised:
        simulate(example(**{FIRMWARE.replace(".", "__"): str(source)}))
    assert WRONG[body] in str(raised.value)


def test_firmware_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError) as raised:
        example(**{FIRMWARE.replace(".", "__"): "flow-hahs"}).check()
    assert str(raised.value).endswith(
        f'{FIRMWARE} is "flow-hahs"; it must be one of cache-gets, critical-regions, '
        "critical-regions-object-cache, critical-regions-transactional-store, flow-hash, or the "
        "path of a .c or .elf file that is there"
    )
    large = tmp_path / "large.c"
    large.write_text(
        "#include <interface.h>\nstatic volatile char room[250000];\n"
        "void firmware(uint64_t core) { for (;;) room[core] = 1; }\n"
    )
    with pytest.raises(DescriptionError, match="but firmware has 249856 bytes from 0x10000000 on"):
        simulate(example(**{FIRMWARE.replace(".", "__"): str(large)}))
    broken = tmp_path / "broken.c"
    broken.write_text("void firmware(void) { nothing; }\n")
    with pytest.raises(ProgramError, match="does not compile"):
        simulate(example(**{FIRMWARE.replace(".", "__"): str(broken)}))


def test_firmware_can_be_built_and_run(tmp_path: Path) -> None:
    """As a new user does, from the command line."""
    elf = tmp_path / "counters.elf"
    source = ROOT / "examples" / "counters.c"
    nanoplane("build", "--firmware", str(source), "-o", str(elf))
    assert elf.read_bytes() == compiler.build_firmware(source)
    assert "flow-hash: Delivers every frame" in nanoplane("list")
