"""Static Linux programs on a simulated server, compiled with the C library that Zig carries."""

import json
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanoplane import compiler

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "guest" / "tests" / "linux"
QEMU = shutil.which("qemu-riscv64")

Program = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Compile a test program, once for each name and set of flags."""
    directory = tmp_path_factory.mktemp("linux")
    built: dict[tuple[str, ...], Path] = {}

    def build(name: str, *flags: str) -> Path:
        key = (name, *flags)
        if key not in built:
            output = directory / "-".join([name, *(flag.strip("-") for flag in flags)])
            command = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv64-linux-musl"]
            options = [*(flags or ("-static",)), "-O2", "-Wall", "-Wextra", "-Werror"]
            subprocess.run(
                [*command, *options, str(SOURCES / f"{name}.c"), "-o", str(output)],
                env=compiler._environment(),
                check=True,
            )
            built[key] = output
        return built[key]

    return build


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program; its options come before it."""

    def execute(
        path: Path,
        *arguments: object,
        options: tuple[str, ...] = (),
        status: int = 0,
        text: str = "",
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "nanoplane", "exec", *options, str(path)]
        done = subprocess.run(
            [*command, "--", *map(str, arguments)],
            cwd=tmp_path,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "panicked" not in done.stderr
        return done

    return execute


def statistics(run: Run, path: Path, *arguments: object, options: tuple[str, ...] = ()) -> Any:
    """All that is measured, without what tells how fast it came."""
    file = path.parent / "stats.json"
    run(path, *arguments, options=("--stats", str(file), *options))
    result = json.loads(file.read_text())
    for name in ("host_seconds", "host_mips"):
        del result[name]
    for core in result["cores"]:
        del core["skipped_cycles"]
    return result


# What works.


def test_arguments_environment_and_input(program: Program, run: Run) -> None:
    path = program("arguments")
    done = run(
        path,
        *("one", "--two", ""),
        options=("--env", "A=b c", "--env", "EMPTY="),
        status=4,
        text="a line\nand another\n",
    )
    assert done.stdout.splitlines() == [
        f"argument 0: {path}",
        "argument 1: one",
        "argument 2: --two",
        "argument 3: ",
        "variable: A=b c",
        "variable: EMPTY=",
        "page: 4096, secure: 0",
        "third: 0.33333333333333331",
        "a line",
        "and another",
    ]
    assert done.stderr == "to standard error\n"


def threads_result(threads: int) -> str:
    """What `threads.c` counts: 200 turns of each thread, and of three more one by one.

    A thread's own variable begins with 7, and gets its number and one for each turn. A thread
    writes the pair in each eighth turn.
    """
    numbers = sum(range(threads))
    return (
        f"counted {200 * (threads + 3)}, atomically {200 * numbers}, "
        f"owns {207 * threads + numbers}, own 7, once 1, pair {25 * (threads + 3)}, wrong 0\n"
    )


FILES = ".\n..\ndata\nlines\nlink (link)\nrenamed\nfiles: right\n"


@pytest.mark.parametrize("model", ["out-of-order", "in-order", "functional"])
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("files", [], FILES),
        ("threads", ["8"], threads_result(8)),
        ("waiting", [], "waiting: right\n"),
        ("echo", [], "60 of 60 answers are right\n"),
        ("signals", [], "signals: right\n"),
    ],
)
def test_a_program(
    program: Program, run: Run, model: str, name: str, arguments: list[str], expected: str
) -> None:
    timed = ("--set", f"server.core.model={model}")
    options = ("--functional",) if model == "functional" else timed
    done = run(program(name), *arguments, options=options)
    assert done.stdout == expected
    assert done.stderr == ""


@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not here")
@pytest.mark.parametrize("name", ["files", "threads", "waiting", "echo", "signals"])
def test_qemu_says_the_same(program: Program, run: Run, tmp_path: Path, name: str) -> None:
    path = program(name)
    done = subprocess.run(
        [str(QEMU), str(path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # Linux tells the entries of a directory in any order.
    assert sorted(run(path).stdout.splitlines()) == sorted(done.stdout.splitlines())


def test_memory(program: Program, run: Run) -> None:
    assert run(program("memory")).stdout == "memory: right\n"


@pytest.mark.parametrize("options", [(), ("--functional",)], ids=["timed", "functional"])
def test_time(program: Program, run: Run, options: tuple[str, ...]) -> None:
    assert run(program("time"), options=options).stdout.splitlines() == [
        "slept enough: 1",
        "did not work: 1",
        "woke in time: 1",
        "timed out: 1",
        "2020-01-01",
        "rdtime counts microseconds: 1",
    ]


def test_a_position_independent_program(program: Program, run: Run) -> None:
    path = program("position", "-nostdlib", "-static", "-fPIE", "-pie")
    assert struct.unpack_from("<H", path.read_bytes(), 16) == (3,)  # ET_DYN
    assert run(path, status=41).stdout == "anywhere\n"


@pytest.mark.parametrize(("name", "arguments"), [("threads", ["3"]), ("signals", []), ("echo", [])])
def test_lookahead_and_skipping_change_nothing(
    program: Program, run: Run, name: str, arguments: list[str]
) -> None:
    path = program(name)
    normal = statistics(run, path, *arguments)
    assert sum(core["instructions"] > 1000 for core in normal["cores"]) > 1
    slow = ("--set", "simulator.lookahead_cycles=1", "--set", "simulator.skip_spinning=false")
    assert statistics(run, path, *arguments, options=slow) == normal


def test_a_thread_that_waits_is_halted(program: Program, run: Run) -> None:
    result = statistics(run, program("time"))
    # It sleeps for 7 ms of some 7.2: the first of 16 harts, which the others never leave.
    assert result["cores"][0]["halted_cycles"] > 0.9 * result["cycles"]
    for core in result["cores"][1:]:
        assert core["halted_cycles"] > 0.99 * result["cycles"]


# What fails.


@pytest.mark.parametrize(("how", "status"), [("0", 0), ("3", 3), ("300", 300 & 0xFF)])
def test_the_exit_status(program: Program, run: Run, how: str, status: int) -> None:
    assert run(program("failures"), how, status=status).stderr == ""


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("null", ["hart 0, load access fault at pc", "(dereference", "lw a0, 0(a0)"]),
        ("thread", ["hart 1, load access fault at pc", "(dereference", "value 0x8"]),
        ("illegal", ["illegal instruction at pc", "(main", "ffffffff"]),
        ("privileged", ["illegal instruction at pc", "csrrs a0, mhartid, zero"]),
        ("stack", ["(descend", "is below the stack of 8192 KiB, which has overrun"]),
        ("deadlock", ["nothing will ever happen again", "thread 100 on hart 0 waits in a futex"]),
    ],
)
def test_a_crash(program: Program, run: Run, how: str, parts: list[str]) -> None:
    errors = run(program("failures"), how, status=1).stderr
    for part in parts:
        assert part in errors
    assert run(program("failures"), how, options=("--functional",), status=1).stderr == errors


def test_a_program_for_other_harts(program: Program, run: Run) -> None:
    path = program("vector", "-mcpu=generic_rv64+m+a+f+d+c+v", "-nostdlib", "-static")
    errors = run(path, status=1).stderr
    assert "illegal instruction at pc" in errors
    assert "the program was built for extensions that the harts do not have: v, " in errors


def test_a_signal_ends_a_program(program: Program, run: Run) -> None:
    path = program("failures")
    done = run(path, "abort", status=128 + signal.SIGABRT)
    assert done.stderr == f"nanoplane: {path} was ended by SIGABRT\n"


def test_an_unknown_call_is_named_once(program: Program, run: Run) -> None:
    assert run(program("failures"), "unknown").stderr.splitlines() == [
        "nanoplane: the program uses system call 425 (io_uring_setup), which is not there; it "
        "answers ENOSYS",
        "nanoplane: the program uses system call 7777, which is not there; it answers ENOSYS",
    ]


def test_no_second_process(program: Program, run: Run) -> None:
    assert "a second process (fork)" in run(program("failures"), "fork").stderr


def test_no_more_memory_than_there_is(program: Program, run: Run) -> None:
    run(program("failures"), "memory", options=("--set", "server.memory_mib=4096"), status=1)
    run(program("failures"), "memory")
    done = run(program("failures"), options=("--set", "server.memory_mib=16"), status=0)
    assert done.stderr == ""


def test_too_many_threads(program: Program, run: Run) -> None:
    done = run(program("threads"), 16, status=11)
    assert done.stdout == "thread 15: Resource temporarily unavailable\n"
    assert "more than 16 threads at once" in done.stderr
    assert "server.fabric.cores" in done.stderr


def with_interpreter(elf: bytes, name: bytes) -> bytes:
    """Turn the program header of the stack into one that names a dynamic linker."""
    changed = bytearray(elf + name)
    table, count = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
    for header in range(table, table + count * 56, 56):
        if struct.unpack_from("<I", elf, header) == (0x6474E551,):  # PT_GNU_STACK
            struct.pack_into("<IIQ", changed, header, 3, 4, len(elf))
            struct.pack_into("<Q", changed, header + 32, len(name))
    return bytes(changed)


def test_a_dynamic_program_is_refused(program: Program, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "dynamic"
    path.write_bytes(with_interpreter(program("failures").read_bytes(), b"/lib/ld.so.1\0"))
    done = run(path, status=2)
    assert done.stdout == ""
    assert "dynamically linked (it wants /lib/ld.so.1): link it with -static" in done.stderr


def test_a_bare_metal_program_takes_no_arguments(run: Run) -> None:
    done = run(ROOT / "guest" / "tests" / "hello.c", "argument", status=2)
    assert "a bare-metal program takes no arguments" in done.stderr


def test_a_variable_without_value_is_refused(program: Program, run: Run) -> None:
    done = run(program("arguments"), options=("--env", "NAME"), status=2)
    assert done.stderr == 'nanoplane: --env is "NAME"; it must be NAME=VALUE\n'


def start(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "nanoplane", "exec", str(path)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_ctrl_c_while_the_program_waits_for_input(program: Program) -> None:
    with start(program("arguments")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x" * 99)
        process.stdin.flush()
        # The program waits for more of the line: Ctrl-C finds it in a call of the host.
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 1
        assert errors.endswith(b"nanoplane: stopped\n")
        assert b"Traceback" not in errors


def test_a_reader_that_goes_away_ends_the_program(program: Program) -> None:
    with start(program("arguments")) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(b"a line\n" * 10_000, timeout=60)
        assert process.returncode == 128 + signal.SIGPIPE
        assert b"was ended by SIGPIPE" in errors
