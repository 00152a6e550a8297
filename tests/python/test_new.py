"""`nanoplane new mechanism`: a mechanism of the user's own, put into a checkout of the sources."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Command

REPOSITORY = Path(__file__).parents[2]
DESCRIPTION = ""
"""No command here reads one."""
TOUCHED = (
    "crates/server/Cargo.toml",
    "crates/server/src/registry.rs",
    "crates/user-interrupts/src/system.rs",
    "guest/include/io_notify.h",
)


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a directory with what the command reads of a checkout."""
    for file in TOUCHED:
        (tmp_path / "co" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / "co" / file)
    return tmp_path / "co"


def texts(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def test_a_mechanism_is_a_crate_a_header_and_two_lines(command: Command, checkout: Path) -> None:
    before = texts(checkout)
    status, output, _ = command("new", "mechanism", "door-list", str(checkout))
    assert status == 0
    assert "make docs" in output
    after = texts(checkout)
    crate = {f"crates/door_list/src/{name}.rs" for name in ("lib", "list", "spec", "system")}
    assert set(after) - set(before) == {
        *crate,
        "crates/door_list/Cargo.toml",
        "guest/include/notify/more/door-list.h",
    }
    added = {
        "crates/server/Cargo.toml": ['door_list = { path = "../door_list" }'],
        "crates/server/src/registry.rs": [
            "    /// A device with a list of the queues that have items.",
            "    door_list: door_list::DoorListSpec = door_list::KIND,",
        ],
    }
    for file, text in before.items():
        kept = [line for line in after[file].splitlines() if line not in added.get(file, ())]
        assert kept == text.splitlines(), file
        assert all(line in after[file] for line in added.get(file, ())), file
    assert not re.search("ready[-_]list|ReadyList", "".join(after[file] for file in crate), re.I)


def test_mechanisms_get_codes_and_addresses_of_their_own(command: Command, checkout: Path) -> None:
    for name in ("first", "second-one"):
        assert command("new", "mechanism", name, str(checkout))[0] == 0
    used = re.findall(r"= (\d+),", (checkout / "guest/include/io_notify.h").read_text())
    for number, crate in enumerate(("first", "second_one"), max(map(int, used)) + 1):
        text = (checkout / "crates" / crate / "src/system.rs").read_text()
        assert re.search(rf'"[a-z-]+",\s+{number},\s', text)
        # 8 KiB of registers for each code.
        assert f"{0x1200_0000 + 0x2000 * number:x}" in text.replace("_", "")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hyperplane", "there is a system, a mechanism or a file of this name"),
        ("spin-poll-mode", "there is a system, a mechanism or a file of this name"),
        ("user-interrupts", "there is a system, a mechanism or a file of this name"),
        ("Door", "a mechanism is called by small letters and digits"),
        ("door--list", "a mechanism is called by small letters and digits"),
        ("../door", "a mechanism is called by small letters and digits"),
        ("match", "the name is also that of a Rust crate"),
    ],
)
def test_a_name_that_cannot_be_writes_nothing(
    command: Command, checkout: Path, name: str, sentence: str
) -> None:
    before = texts(checkout)
    status, output, errors = command("new", "mechanism", name, str(checkout))
    assert (status, output) == (2, "")
    assert sentence in errors
    assert texts(checkout) == before


def test_nothing_is_written_twice_or_elsewhere(command: Command, checkout: Path) -> None:
    assert command("new", "mechanism", "door", str(checkout))[0] == 0
    before = texts(checkout)
    status, _, errors = command("new", "mechanism", "door", str(checkout))
    assert status == 2
    assert "a file of this name" in errors
    assert texts(checkout) == before
    status, _, errors = command("new", "mechanism", "door", str(checkout / "crates"))
    assert status == 2
    assert "is no checkout of nanoplane's sources" in errors


@pytest.mark.long
@pytest.mark.simulator
def test_a_new_mechanism_is_built_and_serves_every_policy(tmp_path: Path) -> None:
    checkout = tmp_path / "co"
    left_out = shutil.ignore_patterns("target", "out", ".git", ".venv", "*.so", "__pycache__")
    shutil.copytree(REPOSITORY, checkout, symlinks=True, ignore=left_out)
    target = tmp_path / "target"
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "PYO3_PYTHON": sys.executable,
        "PYTHONPATH": str(checkout / "python"),
        "NANOPLANE_STORE": str(tmp_path / "store"),
    }

    def run(*arguments: str) -> str:
        return subprocess.run(
            arguments, cwd=checkout, env=environment, check=True, text=True, capture_output=True
        ).stdout

    nanoplane = (sys.executable, "-m", "nanoplane")
    run(*nanoplane, "new", "mechanism", "door-list")
    run("cargo", "update", "--workspace", "--offline")
    run("cargo", "test", "--offline", "--package", "door_list")
    # As tests are: quickly built.
    run("cargo", "build", "--offline", "--profile", "test", "--package", "nanoplane-python")
    module = checkout / "python/nanoplane/_simulator.abi3.so"
    shutil.copy(target / "debug/lib_simulator.so", module)
    run("cargo", "run", "--offline", "--profile", "test", "--package", "server", "--example",
        "memory_map")  # fmt: skip
    for settings in (
        [],
        ["data_plane.policy=strict-priority"],
        ["server.data_plane_cores=4", "data_plane.organisation=scale-up", "data_plane.queues=16"],
    ):
        changes = [part for one in settings for part in ("--set", one)]
        output = run(
            *nanoplane,
            *("run", "examples/encapsulation.toml", "--json"),
            *("--set", "data_plane.notify=door-list", "--set", "measure.requests=500"),
            *changes,
        )
        assert '"door_list": {' in output
        assert '"steady": true' in output
