"""Functional runs compute what timed runs do, and say the same when a guest fails."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import completed
from nanoplane import compiler

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
GUESTS = ROOT / "guest" / "tests"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def execute(*arguments: object, fresh: bool = False) -> subprocess.CompletedProcess[str]:
        return completed("exec", *arguments, cwd=tmp_path, fresh=fresh)

    return execute


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_counters_of_events_count_where_there_are_events(run: Run) -> None:
    # The second time all 64 lines, 4 KB, are in the first-level cache.
    timed = outcome(run(GUESTS / "counters.c"))
    assert timed == (0, "64 misses, then 0\nno such event: 0\n", "")
    functional = outcome(run("--functional", GUESTS / "counters.c"))
    assert functional == (0, "nothing is counted\n", "")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("harts", 0),
        ("interrupts", 5),
        # These fail: with the same function, instruction and registers.
        ("illegal", 1),
        ("crash", 1),
        ("stack-overflow", 1),
        ("deadlock", 1),
    ],
)
def test_both_ways(run: Run, tmp_path: Path, name: str, status: int) -> None:
    elf = tmp_path / f"{name}.elf"
    elf.write_bytes(compiler.build(GUESTS / f"{name}.c"))
    timed = outcome(run(elf))
    assert outcome(run("--functional", elf)) == timed
    assert timed[0] == status
    assert timed[1] or status
    assert timed[2] or status != 1


def test_what_takes_no_time_has_no_time(run: Run, tmp_path: Path) -> None:
    results: list[dict[str, Any]] = []
    for way in ((), ("--functional",)):
        file = tmp_path / "stats.json"
        done = run(*way, GUESTS / "hello.c", "--set=server.fabric.cores=2", "--stats", file)
        assert outcome(done)[0] == 0
        results.append(json.loads(file.read_text()))
    timed, functional = results
    assert set(functional) == {
        *("exit_status", "signal", "cores", "instructions", "version"),
        *("host_seconds", "host_wall_seconds", "host_mips"),
    }
    # The first hart does the same, but for how often it asks whether its output has been taken: not
    # more than once where that takes no time. The second halts at once.
    first, second = (core["instructions"] for core in functional["cores"])
    assert 0.5 * timed["cores"][0]["instructions"] < first <= timed["cores"][0]["instructions"]
    assert first + second == functional["instructions"]
    assert 0 < second < 20


def test_again_it_is_the_same(run: Run, tmp_path: Path) -> None:
    """Sixteen harts that wait for each other take their turns alike each time."""
    file = tmp_path / "stats.json"
    found = []
    command = ("--functional", ROOT / "tests/bench/sharing.c", "--stats", file)
    for fresh in (False, True):
        assert outcome(run(*command, fresh=fresh))[0] == 0
        found.append(json.loads(file.read_text())["cores"])
    assert len(found[0]) == 16
    assert all(core["instructions"] > 1000 for core in found[0])
    assert found[0] == found[1]


def test_there_are_no_checkpoints(run: Run) -> None:
    save = ("--save-checkpoint", "saved", "--checkpoint-at", "1us")
    status, _, errors = outcome(run("--functional", ROOT / "examples" / "doorbells.c", *save))
    assert status == 2
    assert "checkpoints are of timed runs" in errors


def test_instructions_of_other_hardware_are_named(run: Run) -> None:
    status, _, errors = outcome(run("--functional", ROOT / "examples" / "doorbells.c"))
    assert status == 1
    assert "illegal instruction at pc" in errors
    assert "beside the harts need a timed run: leave --functional out" in errors
