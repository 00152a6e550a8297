"""Who uses whom among the crates, as docs/ports.md says."""

import io
import re
import subprocess
import sys
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
ABOVE = ("server", "python")
"""These put the others together."""
REGISTRY = CRATES["server"] / "src" / "registry.rs"
SYSTEMS = dict(
    re.findall(r"^    (\w+): (\w+)::\w+ = \w+::\w+,$", REGISTRY.read_text(), re.MULTILINE)
)
"""Each system's key in `server`, and its crate."""
SUBSTRATE = sorted(CRATES.keys() - {*SYSTEMS.values(), *ABOVE})


def uses(crate: str) -> set[str]:
    manifest = tomllib.loads((CRATES[crate] / "Cargo.toml").read_text())
    return set(manifest["dependencies"]) & set(CRATES)


def documented() -> dict[str, set[str]]:
    text = (ROOT / "docs" / "ports.md").read_text()
    table = text.partition("## Who uses whom")[2]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", used)) for room, used in rows}


def test_each_room_uses_what_is_documented() -> None:
    assert documented() == {crate: uses(crate) for crate in SUBSTRATE}
    assert uses("server") == set(CRATES) - {*ABOVE, "queueing", "state_derive"}


@pytest.mark.parametrize("crate", sorted(set(SYSTEMS.values())))
def test_a_system_uses_no_other(crate: str) -> None:
    assert uses(crate) <= set(SUBSTRATE)


NAMES = re.compile(
    "|".join(["qwait", "sonuma", *SYSTEMS, *SYSTEMS.values()]).replace("_", "."), re.IGNORECASE
)


def assert_names_no_system(path: Path, code: str) -> None:
    found = NAMES.search(code)
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


# A mechanism as CONTRIBUTING.md adds it. What else names it has chosen to use it: programs, and
# experiments about it.
OF_THE_EXAMPLE = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock", "fuzz/Cargo.lock"),
    *("crates/server/Cargo.toml", "crates/server/src/registry.rs"),
    *("guest/include/io_notify.h", "python/nanoplane/results.py"),
    *("guest/include/user_interrupt.h", "guest/include/notify/more/user-interrupt.h"),
}
EXPERIMENTS = {
    *("guest/include/poll_mode/wait.h", "guest/include/dma_nic.h", "guest/README.md"),
    *("examples/encapsulation.toml", "examples/wait-forward.toml", "mkdocs.yml"),
    "python/nanoplane/papers/plots.py",
    "python/nanoplane/papers/compare/key_value.py",
    "python/nanoplane/papers/spin_to_win/beyond.py",
}
NOT_CODE = (":!docs", ":!tests", ":!guest/programs", ":(exclude,glob)crates/*/tests/**")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout")
def test_the_worked_example_touches_what_contributing_says() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lIiE", "user[-_]interrupt", "--", ".", *NOT_CODE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {
        path for path in listed.stdout.split() if not path.startswith("crates/user-interrupts/")
    }
    assert found <= OF_THE_EXAMPLE | EXPERIMENTS


STRANGER = """
from nanoplane import schemas, simulator

declared = simulator.schema


def schema(kind):
    known = declared(kind)
    if kind == "server":
        facts = {"sleeps": True, "owns_queues": False, "needs_device": True}
        facts["brings_requests"] = False
        known["$defs"]["Notify"]["oneOf"].append(
            {"const": "stranger", "title": "a stranger", "type": "string", "mechanism": facts}
        )
    return known


simulator.schema = schema
from nanoplane.figures import chosen, figures
from nanoplane.papers import plots

for name, figure in figures().items():
    labels = {
        label: "stranger"
        for label, values in figure.optional.items()
        if "stranger" in values and label in ("notify", "system")
    }
    for label in labels:
        assert chosen([figure], True, [f"{label}=stranger"])
        print(name)
own, *others = plots.colours(["stranger", "spin", "hyperplane"])
assert own not in others
"""


@pytest.mark.simulator
def test_figures_ask_the_simulator_which_mechanisms_there_are() -> None:
    """One that it declares is in Figures 8 to 12 and `compare.notification`, when asked for."""
    done = subprocess.run(
        [sys.executable, "-c", STRANGER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    of_hyperplane = [f"hyperplane.{number}" for number in range(8, 13)]
    assert set(done.stdout.split()) == {*of_hyperplane, "compare.notification"}
