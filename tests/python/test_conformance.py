"""Programs that test a RISC-V implementation: nobody's runtime, user mode, and `tohost`."""

import json
import subprocess
from pathlib import Path

import pytest

from command_line import completed
from nanoplane import compiler

pytestmark = pytest.mark.simulator

TESTS = Path(__file__).parents[2] / "guest" / "tests"

IN_ORDER = {
    "model": "in-order",
    "width": 1,
    "front_end_cycles": 2,
    "load_queue_entries": 8,
    "store_queue_entries": 4,
}


def build(source: str, elf: Path, *flags: str) -> None:
    subprocess.run(
        [
            *compiler._compiler(),
            *("-mabi=lp64d", "-mcmodel=medany", "-nostdlib", "-static", *flags),
            f"-Wl,-T,{TESTS / 'conformance.ld'}",
            str(TESTS / source),
            "-o",
            str(elf),
        ],
        check=True,
        capture_output=True,
        env=compiler._environment(),
    )


CORES = pytest.mark.parametrize("core", ["out-of-order", "in-order", "functional"])


@CORES
@pytest.mark.parametrize(
    ("flags", "written"),
    [
        ([], 1),  # a pass
        (["-DFAIL=2"], 2 << 1 | 1),  # the first test fails, one in the middle, the last
        (["-DFAIL=10"], 10 << 1 | 1),
        (["-DFAIL=13"], 13 << 1 | 1),
        (["-DTRAP"], 1337),  # an exception that nobody expects, before the first test
    ],
)
def test_tohost_is_the_exit_status(
    tmp_path: Path, core: str, flags: list[str], written: int
) -> None:
    run("conformance.S", tmp_path, core, flags, written)


@CORES
@pytest.mark.parametrize(
    ("flags", "written"),
    [([], 1), (["-DFAIL=2"], 2 << 1 | 1), (["-DFAIL=12"], 12 << 1 | 1), (["-DTRAP"], 1337)],
)
def test_a_kernel_maps_pages_at_their_faults(
    tmp_path: Path, core: str, flags: list[str], written: int
) -> None:
    run("conformance_virtual.S", tmp_path, core, flags, written)


def run(source: str, tmp_path: Path, core: str, flags: list[str], written: int) -> None:
    in_order = [f"--set=server.core.{key}={json.dumps(value)}" for key, value in IN_ORDER.items()]
    options = {"out-of-order": [], "in-order": in_order, "functional": ["--functional"]}[core]
    elf, stats = tmp_path / "conformance.elf", tmp_path / "stats.json"
    build(source, elf, *flags)
    done = completed("exec", elf, "--stats", stats, *options, timeout=60)
    status = written >> 1
    assert (done.returncode, done.stdout, done.stderr) == (status & 0xFF, "", "")
    assert json.loads(stats.read_text())["exit_status"] == status
