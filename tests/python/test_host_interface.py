"""The host-target interface: what a bare-metal program asks of the host, by words in its memory."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from command_line import completed, nanoplane
from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "guest" / "tests"
ARGUMENTS = TESTS / "arguments.c"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program that has its own start-up."""
    elf = tmp_path_factory.mktemp("host-interface") / "host-interface.elf"
    subprocess.run(
        [
            *compiler._compiler(),
            *("-mabi=lp64d", "-mcmodel=medany", "-nostdlib", "-static"),
            f"-Wl,-T,{TESTS / 'conformance.ld'}",
            str(TESTS / "host-interface.S"),
            *("-o", str(elf)),
        ],
        check=True,
        capture_output=True,
        env=compiler._environment(),
    )
    return elf


def execute(program: Path, *options: str, given: tuple[str, ...] = ()) -> tuple[int, str, str]:
    done = completed("exec", program, *options, "--", *given, timeout=60)
    return done.returncode, done.stdout, done.stderr


MODES = [
    pytest.param((), id="timed"),
    pytest.param(("--functional",), id="functional"),
    pytest.param(("--preset", "nanopu-prototype"), id="in-order"),
    pytest.param(("--preset", "skylake-sp", "--set", "server.fabric.cores=2"), id="translated"),
]


@pytest.mark.parametrize("mode", MODES)
def test_code_and_tohost_can_share_a_line(published: Path, mode: tuple[str, ...]) -> None:
    # argv[1] crosses the lines of the buffer.
    text = "x" * 100
    assert execute(published, *mode, given=(text, "two")) == (3, text, "")


def test_arguments_reach_main() -> None:
    given = ("", "a b", "--option", "ä")
    expected = f"0: {ARGUMENTS}\n1: \n2: a b\n3: --option\n4: ä\n"
    assert execute(ARGUMENTS, given=given) == (0, expected, "")
    assert execute(ARGUMENTS, "--functional", given=given) == (0, expected, "")


def test_a_negative_status_is_that_of_a_process() -> None:
    assert execute(ARGUMENTS) == (255, "", "")


def test_arguments_that_do_not_fit_are_said() -> None:
    status, output, error = execute(ARGUMENTS, given=("x" * 20_000,))
    assert (status, output) == (2, "")
    assert "the stack of a bare-metal program has room for 16384" in error
    taken = re.search(r"the arguments take (\d+) bytes", error)
    assert taken is not None
    longest = 20_000 - (int(taken[1]) - 16384)
    status, output, _ = execute(ARGUMENTS, "--functional", given=("x" * longest,))
    assert (status, len(output)) == (0, len(f"0: {ARGUMENTS}\n1: \n") + longest)
    status, _, error = execute(ARGUMENTS, "--functional", given=("x" * (longest + 1),))
    assert status == 2
    assert "the arguments take 16385 bytes" in error


def rack(**server: object) -> Description:
    description = Description.from_toml(ROOT / "examples" / "rack.toml")
    data = description.data
    one = data["rack"]["servers"][0]
    data["rack"]["clients"] = []
    one.update(count=1, program=str(ARGUMENTS), serves=False)
    data["rack"]["servers"] = [one | server, one | {"arguments": ["b"], "name": "other"}]
    data["measure"] = {}
    return Description.from_dict(data, ROOT)


def test_each_server_of_a_rack_has_arguments_and_an_address() -> None:
    resolved = rack(arguments=["x", "y"], address="192.168.3.255").resolve()
    result = simulator.rack(resolved.data, compiler.unpack(resolved.elf()), {})
    first, second = result["servers"]
    assert first["output"] == f"0: {ARGUMENTS}\n1: x\n2: y\n"
    assert second["output"] == f"0: {ARGUMENTS}\n1: b\n"
    assert (first["address"], second["address"]) == ("192.168.3.255", "192.168.4.0")


def test_a_negative_status_in_a_rack() -> None:
    resolved = rack().resolve()
    with pytest.raises(Failure, match="server: the program ended with status 255"):
        simulator.rack(resolved.data, compiler.unpack(resolved.elf()), {})


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("10.0.0.300", r'"10.0.0.300"; an IPv4 address'),
        ("224.0.0.1", "no host can have it"),
        ("255.255.255.255", "no host can have it"),
    ],
)
def test_addresses_that_cannot_be(address: str, sentence: str) -> None:
    with pytest.raises(DescriptionError, match=sentence) as caught:
        rack(address=address).resolve()
    assert "rack.servers.0.address" in str(caught.value)


def test_an_address_is_one_hosts() -> None:
    description = rack(address="10.0.0.7")
    data = description.data
    data["rack"]["servers"][1]["address"] = "10.0.0.7"
    with pytest.raises(DescriptionError, match=r"servers\.1\.address.*another host of the rack"):
        Description.from_dict(data, ROOT).resolve()


def test_load_is_sent_to_the_described_addresses() -> None:
    example = str(ROOT / "examples" / "rack.toml")
    settings = [
        'rack.servers.0.address="10.1.0.1"',
        'rack.clients.0.address="10.2.0.1"',
        "measure.requests=200",
    ]
    printed = nanoplane("run", example, "--json", *(f"--set={one}" for one in settings))
    assert json.loads(printed)["clients"][0]["address"] == "10.2.0.1"
