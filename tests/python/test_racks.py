"""Racks: descriptions of several servers, and what comes out of them."""

from pathlib import Path
from typing import Any

import pytest

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "rack.toml"


def run(*settings: str) -> dict[str, Any]:
    description = Description.from_toml(EXAMPLE).assign("measure.requests=200")
    for setting in settings:
        description = description.assign(setting)
    resolved = description.resolve()
    return simulator.rack(resolved.data, compiler.unpack(resolved.elf()))


@pytest.mark.parametrize("servers", [2, 4, 81])
def test_servers_behind_a_switch_answer(servers: int) -> None:
    result = run(f"rack.servers.0.count={servers}", "rack.clients.0.begin_ns=2000")
    assert len(result["servers"]) == servers
    (client,) = result["clients"]
    assert client["address"] == f"10.0.0.{servers + 1}"
    # Two ways through links and switch, 386 ns each, and 3.2 ns of 80 bytes; two of 26 ns in MAC
    # and serial I/O; the rest is the interface's pipelines and the program.
    wires_ns = 2 * (386 + 3.2 + 26)
    assert wires_ns < client["measurement"]["latency_ns"]["p50"] < wires_ns + 60
    assert result["switch"]["unroutable"] == 0
    forwarded = sum(port["forwarded"] for port in result["switch"]["ports"])
    hosts = result["servers"] + result["clients"]
    assert forwarded == sum(host["received"]["packets"] for host in hosts)


def test_a_link_connects_two() -> None:
    description = Description.from_toml(EXAMPLE)
    data = description.data
    del data["rack"]["switch"]
    data["rack"]["servers"][0]["count"] = 1
    data["measure"]["requests"] = 200
    resolved = Description.from_dict(data, EXAMPLE.parent).resolve()
    result = simulator.rack(resolved.data, compiler.unpack(resolved.elf()))
    wires_ns = 2 * (43 + 3.2 + 26)
    assert wires_ns < result["clients"][0]["measurement"]["latency_ns"]["p50"] < wires_ns + 60
    assert "switch" not in result


def test_several_guests_are_one_piece() -> None:
    elves = [b"one", b"", b"three"]
    assert compiler.unpack(compiler.pack(elves)) == elves


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "rack.servers.0.interface=nanopuu",
            '--set: rack.servers.0.interface is "nanopuu"; it must be "ice-nic", "dma-nic" or '
            '"nanopu"; did you mean "nanopu"?',
        ),
        (
            "rack.servers.0.server.preset=nanopu-prototyp",
            '--set: rack.servers.0.server.preset is "nanopu-prototyp"; did you mean '
            '"nanopu-prototype"?',
        ),
        (
            "rack.servers.1.count=2",
            "--set rack.servers.1.count: 1 is no entry of the list; it has 1, counted from 0",
        ),
        ("rack.swich.priorities=2", '--set: rack.swich is not known; did you mean "switch"?'),
        (
            "rack.link.latency_ns=1",
            "--set: rack.link.latency_ns is 1; it must be a number of nanoseconds, from 2 to "
            "1000000000",
        ),
        (
            "traffic.load=0.5",
            "--set: a rack has its machines in rack.servers and its load in rack.clients; keep "
            "either the table rack or traffic",
        ),
        (
            "rack.servers.0.program=loopbak",
            '--set: rack.servers.0.program is "loopbak", which is no built-in program',
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(setting: str, sentence: str) -> None:
    with pytest.raises(DescriptionError) as error:
        Description.from_toml(EXAMPLE).assign(setting).check()
    assert str(error.value).startswith(sentence)
