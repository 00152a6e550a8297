"""Presets of the user: machines in files, and the simulator's presets printed as such."""

import re
from pathlib import Path

import jsonschema
import pytest

from command_line import nanoplane
from nanoplane import Description, DescriptionError, machines, parameters, simulator

pytestmark = pytest.mark.simulator

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
DESCRIPTIONS = [path for path in EXAMPLES if "rules" not in machines.read_toml(path)]
"""A transport's rules are no description."""


def description(preset: str) -> Description:
    tables = {
        "server": {"preset": preset},
        "data_plane": {"program": "echo", "notify": "spin", "queues": 1},
    }
    return Description.from_dict(tables, source="run.toml")


@pytest.mark.parametrize("name", sorted(simulator.presets()))
def test_a_preset_that_is_printed_is_the_same_machine(name: str, tmp_path: Path) -> None:
    path = tmp_path / "printed.toml"
    path.write_text(machines.toml(machines.extended({"preset": name}, tmp_path, "server.preset")))
    printed = description(str(path)).resolve().data
    assert printed == description(name).resolve().data


def test_a_file_changes_the_preset_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        'server.preset = "hyperplane-table1"\nserver.core.rob_entries = 64\n'
        "server.fabric.memory.latency_ns = 70\n"
    )
    (tmp_path / "deep").mkdir()
    mine = tmp_path / "deep" / "mine.toml"
    mine.write_text('server.preset = "../base.toml"\nserver.core.rob_entries = 96\n')
    own = description(str(mine)).set("server.fabric.memory.latency_ns", 90)
    server = own.resolve().data["server"]
    expected = description("hyperplane-table1").resolve().data["server"]
    expected["core"]["rob_entries"] = 96
    expected["fabric"]["memory"]["latency_ns"] = 90
    assert server == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('server.preset = "mine.toml"', 'mine.toml: server.preset is "mine.toml", which extends'),
        ('server.preset = "hyperplane-table"', 'did you mean "hyperplane-table1"?'),
        ("server.preset = 3", "mine.toml: server.preset is 3; it must be"),
        ('server.preset = "other.toml"', "other.toml: there is no such file"),
        ("measure.seed = 3", "mine.toml: a preset is a machine, the table server; leave measure"),
        ("", "mine.toml: a preset is a machine, and has the table server"),
        ("server = 3", "mine.toml: a preset is a machine, and has the table server"),
        ("server =", "mine.toml: this is not TOML"),
        ("server.x = 1979-05-27", "mine.toml: server.x is 1979-05-27; it must be a text"),
        (
            'server.preset = "hyperplane-table1"\nserver.core.rob_entires = 64',
            'server.core.rob_entires is not known; did you mean "server.core.rob_entries"?',
        ),
        (
            'server.preset = "hyperplane-table1"\nserver.core.rob_entries = 0',
            "mine.toml: server.core.rob_entries is 0; it must be",
        ),
    ],
)
def test_what_is_wrong_in_a_file_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(DescriptionError) as error:
        description(str(tmp_path / "mine.toml")).resolve()
    assert sentence in str(error.value)


def test_each_server_of_a_rack_may_have_a_machine_of_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('server.preset = "nanopu-prototype"\nserver.memory_mib = 0\n')
    rack = Description.from_toml(next(one for one in EXAMPLES if one.name == "rack.toml"))
    changed = rack.set("rack.servers.0.server", {"preset": str(mine)})
    with pytest.raises(DescriptionError, match=r"mine\.toml: rack\.servers\.0\.server\.memory_mib"):
        changed.resolve()


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: path.name)
def test_the_schema_accepts_every_example(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(parameters.schema())
    assert list(validator.iter_errors(machines.read_toml(path))) == []


def test_the_schema_refuses_what_is_misspelt() -> None:
    validator = jsonschema.Draft202012Validator(parameters.schema())
    data = description("hyperplane-table1").data
    assert list(validator.iter_errors(data)) == []
    data["data_plane"]["queus"] = 3
    assert list(validator.iter_errors(data)) != []


def test_keys_lists_what_is_in_a_table() -> None:
    lines = nanoplane("keys", "server.fabric.mesh").splitlines()
    assert lines[0].startswith("server.fabric.mesh: a table.")
    assert [line.split(":")[0] for line in lines[1:3]] == [
        "server.fabric.mesh.columns",
        "server.fabric.mesh.hop_latency_cycles",
    ]
    every = nanoplane("keys").splitlines()
    names = [line.split(":")[0] for line in every]
    assert len(set(names)) == len(names)
    assert {"traffic.rate_mrps", "queueing.load", "rack.servers.0.interface"} <= set(names)
    told = nanoplane("keys", "server.fabrc", status=2)
    assert told.count("\n") == 1


def test_a_description_extends_another(tmp_path: Path) -> None:
    """Paths start at the file that has them, and a rate takes the place of a load."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "work.c").write_text("")
    (tmp_path / "deep" / "base.toml").write_text(
        'extends = "hyperplane-table1"\nserver.data_plane_cores = 2\ntraffic.load = 0.5\n'
        'data_plane = { program = "work.c", notify = "spin", queues = 10 }\n'
    )
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "deep/base.toml"\ndata_plane.queues = 20\ntraffic.rate_mrps = 0.1\n')
    expected = {
        "server": {"preset": "hyperplane-table1", "data_plane_cores": 2},
        "data_plane": {
            "program": str(tmp_path / "deep" / "work.c"),
            "notify": "spin",
            "queues": 20,
        },
        "traffic": {"rate_mrps": 0.1},
    }
    assert Description.from_toml(mine).data == expected
    jsonschema.validate(machines.read_toml(mine), parameters.schema())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('extends = "mine.toml"', 'mine.toml: extends is "mine.toml", which extends itself'),
        ("extends = 3", "mine.toml: extends is 3, neither a preset nor a file"),
        ('extends = "hyperplane-table"', 'did you mean "hyperplane-table1"?'),
        ('extends = "none.toml"', "none.toml"),
        ('extends = "base.toml"', "base.toml: extends is 4"),
    ],
)
def test_a_wrong_base_gets_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("extends = 4")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(DescriptionError) as raised:
        Description.from_toml(tmp_path / "mine.toml")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("mine.c", "int main(void) {}", "a program, not a description; a description names it: "),
        ("mine.toml", "notify = spin", "a text has quotation marks"),
        ("mine.toml", "seed = 1\nseed = 2", "the key is there twice"),
        ("mine.toml", "extends = 'skylake-sp'", "either a program or a data plane (data_plane)"),
    ],
)
def test_a_file_that_is_no_description_gets_a_hint(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DescriptionError, match=re.escape(sentence)):
        Description.from_toml(tmp_path / name).check()
