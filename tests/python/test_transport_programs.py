"""Transports that a user describes in rules: in a rack, from files, and what is wrong with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = ROOT / "crates" / "network" / "src" / "transport" / "programs"
ENDS = ("rack.servers.0.server.nanopu.transport", "rack.clients.0.load.transport")


def simulate(description: Description) -> Mapping[str, Any]:
    resolved = description.resolve()
    return simulator.rack(resolved.data, compiler.unpack(resolved.elf()), {})


def at_both_ends(description: Description, key: str, value: Any) -> Description:
    for end in ENDS:
        description = description.set(f"{end}.{key}", value)
    return description


@pytest.mark.parametrize("protocol", ["ndp", "homa"])
def test_what_is_built_in_could_be_a_users(protocol: str) -> None:
    example = Description.from_toml(EXAMPLES / "rack.toml").set("measure.requests", 100)
    built_in = simulate(at_both_ends(example, "protocol", protocol))
    path = str(PROGRAMS / f"{protocol}.toml")
    of_a_file = simulate(at_both_ends(example, "program", path))
    assert of_a_file["clients"] == built_in["clients"]
    assert of_a_file["switch"] == built_in["switch"]


def test_windows_grow_until_the_link_is_full() -> None:
    example = Description.from_toml(EXAMPLES / "rack-swift.toml").set("measure.requests", 100)
    program = simulate(example)
    table = example.resolve().data["rack"]["clients"][0]["load"]["transport"]["program"]
    fixed = table | {"constants": table["constants"] | {"increase": 0}}
    without = simulate(at_both_ends(example, "program", fixed))

    def gbit_per_s(result: Mapping[str, Any]) -> float:
        measurements = [client["measurement"] for client in result["clients"]]
        rate = sum(float(one["throughput_mrps"]) for one in measurements)
        return rate * 1e6 * 64 * (1024 + 64) * 8 / 1e9

    # A window of 4 packets in a round trip of a microsecond; and 200 Gb/s but for the answers.
    assert gbit_per_s(without) < 80
    assert gbit_per_s(program) > 180
    for result in (program, without):
        assert sum(port["dropped"] for port in result["switch"]["ports"]) == 0
        assert {client["transport"]["repeated_packets"] for client in result["clients"]} == {0}


def test_marks_keep_the_queue_short() -> None:
    example = Description.from_toml(EXAMPLES / "rack-dctcp.toml").set("measure.requests", 100)
    ports = simulate(example)["switch"]["ports"]
    # Messages come and go: at most all windows, which have C x RTT and K packets together, wait at
    # once, 21 and 8 packets of 1088 bytes.
    assert max(port["max_queued_bytes"] for port in ports) <= (21 + 8) * 1088
    assert sum(port["marked"] for port in ports) > 0
    assert sum(port["dropped"] for port in ports) == 0
    without = simulate(example.set("rack.switch.ecn_threshold_bytes", None))["switch"]["ports"]
    assert sum(port["marked"] for port in without) == 0


def test_errors_name_file_rule_and_field(tmp_path: Path) -> None:
    text = (EXAMPLES / "swift.toml").read_text()
    description = Description.from_toml(EXAMPLES / "rack-swift.toml")

    def wrong(before: str, after: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text.replace(before, after, 1))
        with pytest.raises(DescriptionError) as error:
            at_both_ends(description, "program", str(path)).check()
        return str(error.value).removeprefix(f"{path}: ")

    table = f"{ENDS[0]}.program"
    sentence = wrong('"finish"', '"finished"')
    rule = 'in the rule "all acknowledged": '
    assert sentence.startswith(f'{table}.rules.13.do.0 is "finished"; {rule}')
    assert "there is no action finished" in sentence
    sentence = wrong("\ndo = ", "\ndoes = ")
    assert "rules.0.does is not known" in sentence
    assert "this is not TOML" in wrong("[data]", "[data")
    missing = at_both_ends(description, "program", "none.toml")
    with pytest.raises(DescriptionError, match=r"it must be a TOML file; .*none\.toml"):
        missing.check()


def test_both_ends_have_the_same_program() -> None:
    description = Description.from_toml(EXAMPLES / "rack-swift.toml")
    other = description.set(f"{ENDS[0]}.program", str(PROGRAMS / "ndp.toml"))
    with pytest.raises(DescriptionError, match="it must be that of server"):
        other.check()
