"""Who uses whom among the crates, as docs/ports.md says."""

import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRATES = {
    path.name.replace("-", "_"): path
    for path in sorted((ROOT / "crates").iterdir())
    if path.is_dir()
}
SUBSTRATE = [
    "state_derive",
    "state",
    "spec",
    "riscv",
    "fabric",
    "pipeline",
    "workload",
    "queues",
    "network",
    "trace",
    "linux",
    "energy",
    "system",
]
ABOVE = ("server", "python")
"""These put the others together."""


def uses(crate: str) -> set[str]:
    manifest = tomllib.loads((CRATES[crate] / "Cargo.toml").read_text())
    return set(manifest["dependencies"]) & set(CRATES)


def documented() -> dict[str, set[str]]:
    text = (ROOT / "docs" / "ports.md").read_text()
    table = text.partition("## Who uses whom")[2]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", used)) for room, used in rows}


def test_each_room_uses_what_is_documented() -> None:
    assert documented() == {crate: uses(crate) for crate in CRATES if crate not in ABOVE}
    assert uses("server") == set(CRATES) - {*ABOVE, "queueing", "state_derive"}


SYSTEMS = re.compile(
    r"hyperplane|rpcvalet|nanopu|user_interrupts|critical_region|qwait|sonuma|ice.nic|dma.nic",
    re.IGNORECASE,
)


def assert_names_no_system(path: Path, code: str) -> None:
    found = SYSTEMS.search(code)
    assert found is None, f"{path.relative_to(ROOT)}: {found and found[0]}"


def test_the_server_names_systems_in_its_registry_alone() -> None:
    """Beside the papers' machines; tests may name what they test."""
    names = {"registry.rs", "presets.rs"}
    for path in CRATES["server"].glob("src/**/*.rs"):
        if path.name not in names:
            code = path.read_text().partition("#[cfg(test)]")[0]
            assert_names_no_system(path, re.sub(r"//.*", "", code))


def test_sweeps_name_no_system() -> None:
    for module in ("sweep", "execution", "load_search", "outcomes"):
        path = ROOT / "python" / "nanoplane" / f"{module}.py"
        assert_names_no_system(path, path.read_text())


def test_the_command_line_names_no_system() -> None:
    """Its examples may."""
    package = ROOT / "python" / "nanoplane"
    for path in [package / "cli.py", *(package / "commands").glob("*.py")]:
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        names = [token.string for token in tokens if token.type == tokenize.NAME]
        assert_names_no_system(path, " ".join(names))


@pytest.mark.parametrize("crate", SUBSTRATE)
def test_the_substrate_names_no_system(crate: str) -> None:
    """Comments may say where a number comes from; presets are called after a paper's table."""
    for path in CRATES[crate].glob("src/**/*.rs"):
        code = re.sub(r"//.*", "", path.read_text())
        code = re.sub(r"\b(hyperplane|rpcvalet)_table1\b|\bnanopu_prototype\b", "", code)
        assert_names_no_system(path, code)
