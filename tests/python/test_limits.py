"""What a guest may take of the host, and where it cannot reach."""

import json
import os
import re
import stat
import sys
import time
from pathlib import Path

import pytest

from nanoplane import cli, compiler, report
from nanoplane.errors import DescriptionError, Failure
from nanoplane.limits import Limits
from test_linux import Program, Run, program, run

__all__ = ["program", "run"]  # The fixtures of Linux programs.

ROOT = Path(__file__).parents[2]
MODELS = [("--set", "server.core.model=in-order"), (), ("--functional",)]
NAMES = ["in-order", "out-of-order", "functional"]

simulator = pytest.mark.simulator
each_model = pytest.mark.parametrize("options", MODELS, ids=NAMES)
each_mode = pytest.mark.parametrize("options", MODELS[1:], ids=NAMES[1:])


# Memory.


@simulator
@each_mode
def test_what_is_not_mapped_cannot_be_touched(
    program: Program, run: Run, options: tuple[str, ...]
) -> None:
    done = run(program("limits"), "touch", 1, options=options, status=1)
    assert "store or atomic page fault" in done.stderr


@simulator
@each_mode
def test_memory_that_was_given_back_does_not_count(
    program: Program, run: Run, options: tuple[str, ...]
) -> None:
    small = ("--set", "server.memory_mib=16", *options)
    run(program("limits"), "wander", 48, options=small)


@simulator
@each_mode
def test_a_mapping_moves_with_what_it_holds(
    program: Program, run: Run, options: tuple[str, ...]
) -> None:
    done = run(program("limits"), "move", 1, options=options)
    assert done.stdout == "moved 1, again 1, wrong 0\n"


# Machine mode.

CODE, SAVED, KERNEL = 0xFFFFFFFF80000000, 0xFFFFFFFF80001000, 0xFFFFFFFF80100000
SIGILL, SIGSEGV = 4, 11


def denied(*places: int) -> list[str]:
    """Return what `limits.c` says of attempts in the machine's memory, which are all denied."""
    lines = []
    for place in places:
        attempts = ["store", "atomic"] + ["load", "jump"] * (place >= KERNEL)
        lines += [f"{attempt} signal {SIGSEGV} at {place:x}" for attempt in attempts]
    return lines


@simulator
@each_model
def test_user_mode_cannot_change_machine_mode(
    program: Program, run: Run, options: tuple[str, ...]
) -> None:
    lines = run(program("limits"), "protection", options=options).stdout.splitlines()
    expected = denied(CODE, SAVED, KERNEL, KERNEL + 8, KERNEL + 16)
    expected += [f"machine's code signal {SIGSEGV} at {CODE:x}"] * 2
    assert lines[: len(expected)] == expected
    csr, mret, end = lines[len(expected) :]
    assert re.fullmatch(rf"CSR signal {SIGILL} at [0-9a-f]+", csr)
    assert re.fullmatch(rf"mret signal {SIGILL} at [0-9a-f]+", mret)
    assert end == "protected"


# Queues and files.


@simulator
def test_a_backlog_is_honoured(program: Program, run: Run) -> None:
    # Linux accepts one more than the backlog; two that are accepted make room.
    path = program("limits")
    done = run(path, "backlog", 5, options=("--functional",))
    assert done.stdout == "6 connections, then 0\n"


@simulator
def test_datagrams_that_nobody_reads_are_bounded(program: Program, run: Run) -> None:
    # Six of 10,000 bytes are in 65,536; EAGAIN is 11.
    done = run(program("limits"), "letters", options=("--functional",))
    assert done.stdout == "6 letters, errno 11\n"


@simulator
def test_large_files_are_neither_allocated_nor_read(program: Program, run: Run) -> None:
    begin = time.monotonic()
    done = run(program("limits"), "files", options=("--functional",))
    # ENOSPC is 28, and ENOMEM 12; a file that is only long has no blocks.
    assert done.stdout == "allocated -1 (28), mapped 0 (12), 0 blocks\n"
    assert done.stderr == (
        "nanoplane: the program wants to reserve more of the disk (fallocate) than it may write "
        "(--max-output); the call returns ENOSPC\n"
    )
    assert time.monotonic() - begin < 60


# Limits of the command line.


@simulator
@each_mode
def test_output_ends_at_the_byte(program: Program, run: Run, options: tuple[str, ...]) -> None:
    path = program("limits")
    # 100 lines of 16 bytes are 1600.
    assert len(run(path, "talk", 100, options=("--max-output", "1600B", *options)).stdout) == 1600
    done = run(path, "talk", 100, options=("--max-output", "1599B", *options), status=1)
    assert len(done.stdout) == 1599
    assert done.stderr == (
        f"nanoplane: {path}: --max-output ended the run: the guest writes more than 1599 bytes; a "
        "larger --max-output gives it more\n"
    )


@simulator
@each_mode
def test_instructions_are_counted_to_the_last(
    program: Program, run: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path, stats = program("limits"), tmp_path / "stats.json"
    run(path, "spin", 2000, options=("--stats", str(stats), *options))
    count = json.loads(stats.read_text())["instructions"]
    run(path, "spin", 2000, options=("--max-instructions", str(count), *options))
    one_less = ("--max-instructions", str(count - 1), *options)
    done = run(path, "spin", 2000, options=one_less, status=1)
    assert f"--max-instructions ended the run: the guest executes more than {count - 1} " in (
        done.stderr
    )
    # It need not end by itself.
    run(path, "spin", 10**15, options=one_less, status=1)


@simulator
@each_mode
def test_time_ends_what_does_not_end(program: Program, run: Run, options: tuple[str, ...]) -> None:
    endless = ("--max-time", "0.1s", *options)
    done = run(program("limits"), "spin", 10**15, options=endless, status=1)
    assert "--max-time ended the run: it has taken 0.1 s of the host's time" in done.stderr


@simulator
@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (("--max-instructions", "5000"), "the guest executes more than 5000 instructions"),
        (("--max-time", "0s"), "it has taken 0 s of the host's time"),
    ],
)
@pytest.mark.parametrize("example", ["encapsulation", "rack"])
def test_a_data_plane_has_limits_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    example: str,
    limit: tuple[str, str],
    sentence: str,
) -> None:
    file = str(ROOT / "examples" / f"{example}.toml")
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["nanoplane", "run", file, *limit])
    assert cli._main(cli.app) == 1
    errors = capsys.readouterr().err
    assert f"{limit[0]} ended the run: {sentence}" in errors


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (Limits(time="90"), '--max-time is "90"; it must be a time of the host, as in 90s'),
        (Limits(time="1e9s"), '--max-time is "1e9s"'),
        (Limits(instructions="-1"), '--max-instructions is "-1"; it must be a whole number'),
        (Limits(instructions="1e20"), '--max-instructions is "1e20"'),
        (Limits(output="10MB"), '--max-output is "10MB"; it must be an amount, as in 10MiB'),
    ],
)
def test_a_limit_that_is_none_gets_a_sentence(limits: Limits, sentence: str) -> None:
    with pytest.raises(DescriptionError, match=re.escape(sentence)):
        limits.options()


def test_limits_are_read_with_their_units() -> None:
    assert Limits().options() == {}
    assert Limits("1.5h", "5e9", "10MiB").options() == {
        "seconds": 5400.0,
        "instructions": 5_000_000_000,
        "output_bytes": 10 * 1024 * 1024,
    }


# Names.


@simulator
def test_names_of_a_program_do_not_control_the_terminal(
    program: Program, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "names"
    # As many bytes: the name of the function that crashes.
    name, colour = b"dereference", b"\x1b[31mred\x07[b"
    elf = program("failures").read_bytes()
    assert len(name) == len(colour)
    assert name + b"\0" in elf
    path.write_bytes(elf.replace(name + b"\0", colour + b"\0"))
    done = run(path, "null", status=1)
    assert "\x1b" not in done.stderr
    assert r"(\u{1b}[31mred\u{7}[b+0x" in done.stderr


def test_what_controls_a_terminal_is_escaped() -> None:
    assert report.printable("a\tb\nc\x1b[2J\x07\x9b\u202edé") == (
        "a\tb\nc" + r"\u{1b}[2J\u{7}\u{9b}\u{202e}dé"
    )


# The compiler's cache.


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave the compiler nothing but a directory for temporary files."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiler._environment.cache_clear()
    return tmp_path / f"nanoplane-zig-{os.getuid()}"


def environment() -> dict[str, str]:
    try:
        return compiler._environment()
    finally:
        compiler._environment.cache_clear()


def test_the_compilers_cache_is_this_users_alone(no_home: Path) -> None:
    assert environment()["ZIG_GLOBAL_CACHE_DIR"] == str(no_home)
    assert stat.S_IMODE(no_home.stat().st_mode) == 0o700
    assert environment()["ZIG_GLOBAL_CACHE_DIR"] == str(no_home), "it is there already"


def test_a_user_without_a_home_has_a_cache(no_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert environment()["ZIG_GLOBAL_CACHE_DIR"] == str(no_home)


def test_a_cache_that_another_one_could_have_made_is_refused(
    no_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    no_home.symlink_to(elsewhere)
    with pytest.raises(Failure, match=f"{no_home} is not a directory; set XDG_CACHE_HOME"):
        environment()
    no_home.unlink()
    no_home.mkdir()
    no_home.chmod(0o770)
    with pytest.raises(Failure, match=rf"{no_home} can be written by others \(mode 770\)"):
        environment()
    no_home.chmod(0o700)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    other = no_home.with_name(f"nanoplane-zig-{owner + 1}")
    no_home.rename(other)
    with pytest.raises(Failure, match=rf"{other} belongs to another user \({owner}\)"):
        environment()
