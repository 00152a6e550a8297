"""What is said of parameters is what the simulator declares."""

import json
import re
from pathlib import Path

import pytest

from command_line import nanoplane
from nanoplane import parameters
from nanoplane.schemas import schema_at

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference.md"


def test_a_parameter_is_explained() -> None:
    key = "server.hyperplane.qwait_latency_cycles"
    told = json.loads(nanoplane("explain", key, "--json"))
    assert told["takes"] == "a whole number from 1 to 1000000"
    assert (told["unit"], told["default"]) == ("cycles", 50)
    assert told["source"] == "HyperPlane (MICRO 2020), §IV-C and Table I."
    assert told["presets"]["hyperplane-table1"] == {
        "value": 50,
        "source": "HyperPlane (MICRO 2020), Table I",
    }
    lines = nanoplane("explain", key).splitlines()
    assert lines[0] == key
    assert lines[2].startswith("Cycles of a `QWAIT` that finds a ready queue")
    assert lines[4:8] == [
        "takes    a whole number from 1 to 1000000",
        "unit     cycles",
        "default  50",
        "source   HyperPlane (MICRO 2020), §IV-C and Table I.",
    ]


def test_a_table_has_a_line_for_each_parameter() -> None:
    lines = nanoplane("explain", "server.fabric.memory").splitlines()
    assert lines[-5:] == [
        "bandwidth_gb_per_s: a number from 0.001 to 1000000, gigabytes a second, default 19.2. "
        "Gigabytes (1e9 bytes) a second that each controller reads and writes together.",
        "cache: a table. A cache in front of each controller.",
        "controllers: a whole number from 1 to 256, default 4. The number of controllers, spread "
        "evenly over the tiles at the mesh's edge; lines are interleaved over them.",
        "dram: a table. The DRAM behind each controller, command by command.",
        "latency_ns: a number from 0 to 1000000000, nanoseconds, default 50.0. Nanoseconds from "
        "the start of a read's service by the controller to the departure of its answer.",
    ]
    assert "spin: It polls the doorbell" in nanoplane("explain", "data_plane.notify")
    # Of alternatives and of a list's entries, too.
    shape = nanoplane("explain", "rack.clients.0.load.requests.3.service_times.shape")
    assert "takes    a number above 0 and below 1\n" in shape


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("server.fabric.colums",),
            'server.fabric.colums is not known; did you mean "server.fabric.mesh.columns"?',
        ),
        (("server.core.width.x",), 'server.core.width.x is not known; did you mean "server.core.'),
        (("sever",), 'sever is not known; did you mean "server"'),
        ((), "explain takes a key"),
        (("traffic", "--markdown"), "explain takes a key"),
    ],
)
def test_a_wrong_key_gets_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    told = nanoplane("explain", *arguments, status=2)
    assert sentence in told
    assert told.count("\n") == 1


def test_the_reference_is_as_the_parameters_are_declared() -> None:
    text = REFERENCE.read_text()
    assert text == parameters.markdown(), "`make docs` writes it anew"
    # Tables cannot be wrapped.
    assert [line for line in text.splitlines() if len(line) > 100 and line[0] != "|"] == []


def test_every_parameter_has_a_sentence() -> None:
    def silent(table: parameters.Parameter) -> list[str]:
        found = []
        for one in table.inside():
            tells = any("const" in of for of in [one.schema, *one.schema.get("anyOf", [])])
            found += [] if one.text or tells else [one.key]
            found += silent(one)
        return found

    tables = ("server", "data_plane", "traffic", "measure", "simulator", "queueing", "rack")
    assert [key for table in tables for key in silent(parameters.find(table))] == []


KEY = re.compile(
    r"\b(?:server|data_plane|traffic|measure|rack|simulator|queueing)(?:\.[a-z_][a-z_0-9]*)+\b"
)


def test_sentences_of_simulator_and_guests_name_keys_that_there_are() -> None:
    sources = [
        path
        for pattern in ("crates/*/src/**/*.rs", "guest/**/*.[ch]")
        for path in ROOT.glob(pattern)
        if "test" not in path.relative_to(ROOT).as_posix()
    ]
    unknown = set()
    for path in sources:
        code = re.sub(r"^\s*//.*", "", path.read_text().partition("#[cfg(test)]")[0], flags=re.M)
        code = re.sub(r'io_parameter\w*\("[^"]*"', "", code)  # Parameters of programs.
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', code):
            keys = [
                key for key in KEY.findall(text) if not re.search(r"\.parameters\.|_quantile$", key)
            ]
            unknown |= {(path, key) for key in keys if not schema_at(key)}
    assert unknown == set()
