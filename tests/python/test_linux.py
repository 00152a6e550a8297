"""Static Linux programs on a simulated server, compiled with the C library that Zig carries."""

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

import musl
from command_line import completed
from nanoplane import simulator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
QEMU = shutil.which("qemu-riscv64")
BUSYBOX = os.environ.get("NANOPLANE_TEST_BUSYBOX")
BOTH = pytest.mark.parametrize("options", [(), ("--functional",)], ids=["timed", "functional"])

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
            options = [*(flags or ("-static",)), "-O2", "-Wall", "-Wextra", "-Werror"]
            musl.compile_program(name, *options, output=output)
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
        fresh: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        command = ("exec", *options, path, "--", *arguments)
        done = completed(*command, cwd=tmp_path, text=text, fresh=fresh)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "panicked" not in done.stderr
        return done

    return execute


def statistics(run: Run, path: Path, *arguments: object, options: tuple[str, ...] = ()) -> Any:
    """All that is measured, without what tells how fast it came."""
    file = path.parent / "stats.json"
    run(path, *arguments, options=("--stats", str(file), *options))
    return simulator.without_host(json.loads(file.read_text()))


# What works.


def test_arguments_environment_and_input(program: Program, run: Run) -> None:
    path = program("arguments")
    done = run(
        path,
        *("one", "--two", ""),
        options=("--env", "A=b c", "--env", "EMPTY="),
        status=4,
        text="a line\nand another\n",
        fresh=True,
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
    """What `threads.c` counts: 200 iterations of each thread, and of three more one by one.

    A thread's own variable begins with 7, and gets its number and one for each turn. A thread
    writes the pair in each eighth turn.
    """
    numbers = sum(range(threads))
    return (
        f"counted {200 * (threads + 3)}, atomically {200 * numbers}, "
        f"owns {207 * threads + numbers}, own 7, once 1, pair {25 * (threads + 3)}, wrong 0\n"
    )


FILES = ".\n..\ndata\nlines\nlink (link)\nrenamed\nfiles: right\n"


@pytest.mark.sampled
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


CROWD_RESULT = "2bd844941745e400"
PROCESSES = [
    "memory",
    "endings",
    "pipes",
    "signals",
    *["executed"] * 3,
    "execution",
    f"crowd 80: {CROWD_RESULT}",
    "processes: right",
]


def crowd_result() -> str:
    """What the 40 processes of `processes.c` compute: 20000 steps of a generator from each number.

    A step is x -> a x + c modulo 2^64; all results are combined by exclusive or.
    """
    combined = 0
    for value in range(40):
        for _ in range(20000):
            value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        combined ^= value
    return f"{combined:x}"


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize("cores", [1, 2, 16])
def test_processes(program: Program, run: Run, cores: int, options: tuple[str, ...]) -> None:
    """Processes of which there are more than harts have memory of their own, and end as they do."""
    path = program("processes")
    done = run(path, path, options=("--set", f"server.fabric.cores={cores}", *options))
    assert done.stdout.splitlines() == PROCESSES
    assert done.stderr == ""


def test_what_a_crowd_computes() -> None:
    assert crowd_result() == CROWD_RESULT


PROTECTION = """\
null: Segmentation fault at +8, SEGV_MAPERR
null: Segmentation fault at +16, SEGV_MAPERR
PROT_NONE: Segmentation fault at +3, SEGV_ACCERR
PROT_READ: 0
PROT_READ: Segmentation fault at +5, SEGV_ACCERR
the next page: Segmentation fault at +4096, SEGV_ACCERR
PROT_WRITE: stored
PROT_WRITE: stored
PROT_READ again: 1
PROT_READ again: Segmentation fault at +6, SEGV_ACCERR
no PROT_EXEC: Segmentation fault at +4096, SEGV_ACCERR
PROT_EXEC: returned
PROT_EXEC: Segmentation fault at +4160, SEGV_ACCERR
unmapped: Segmentation fault at +9, SEGV_MAPERR
unmapped: Segmentation fault at +10, SEGV_MAPERR
still mapped: 0
unmapped: Segmentation fault at +4160, SEGV_MAPERR
the program: Segmentation fault at +0, SEGV_ACCERR
nowhere: Segmentation fault at +17179869184, SEGV_MAPERR
read into PROT_READ: Bad address
write from PROT_READ: done
read into PROT_WRITE: done
pipe: done
write from both: Bad address
mprotect of nothing: Out of memory
open at nothing: Bad address
Segmentation fault at +0, SEGV_MAPERR
taken 1
ended by Segmentation fault
"""


@BOTH
def test_pages_are_protected(program: Program, run: Run, options: tuple[str, ...]) -> None:
    done = run(program("protection"), options=options)
    assert done.stdout == PROTECTION
    # The last one is a child's, which has no handler.
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(
        r"nanoplane: process 102 \(protection\) was ended by SIGSEGV: store or atomic page fault "
        r"at pc 0x[0-9a-f]+, value 0x[0-9a-f]+",
        line,
    )


SHELL = [
    "lines c b a | upper | sort > out",
    "cat < out",
    "numbers 900 | sort | count",
    "false | echo x >> out",
    "cat < out | count",
    "nothing",
]


@BOTH
def test_a_shell_runs_pipelines(program: Program, run: Run, options: tuple[str, ...]) -> None:
    done = run(program("shell"), *SHELL, options=options, status=127)
    assert done.stdout.splitlines() == ["A", "B", "C", "900", "4"]
    assert done.stderr == "nothing: no such command\n"


SCRIPT = """\
seq 20 | sort -r | head -n 3 | tr '\\n' ' '
for word in one two three; do echo $word; done | grep -v two | wc -l
(sleep 0.001; echo late) & echo early; wait
echo "$(printf 'b\\na\\n' | sort | tr -d '\\n')" > out; cat out
kill -9 $$
"""


@BOTH
@pytest.mark.skipif(BUSYBOX is None, reason="NANOPLANE_TEST_BUSYBOX names no BusyBox")
def test_busybox_runs_a_script(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    """BusyBox for riscv64 is not ours: whoever has one says where."""
    shutil.copy(str(BUSYBOX), tmp_path / "busybox")
    names = ("seq", "sort", "head", "tr", "grep", "wc", "sleep", "cat")
    for name in names:
        (tmp_path / name).symlink_to("busybox")
    path = ("--env", f"PATH={tmp_path}")
    done = run(tmp_path / "busybox", "sh", "-c", SCRIPT, options=(*path, *options), status=128 + 9)
    assert done.stdout == "9 8 7 2\nearly\nlate\nab\n"


def test_described_tlbs_take_time(program: Program, run: Run) -> None:
    """A Skylake's first-level TLB misses pages that one of the whole program still has."""
    path = program("memory")
    free = statistics(run, path)
    described = statistics(run, path, options=("--set", "server.core.translation={}"))
    assert described["cycles"] > free["cycles"]
    first, again = (one["cores"][0]["translation"] for one in (free, described))
    assert again["l1_data_tlb_misses"] > first["l1_data_tlb_misses"] > 0


RACES = {
    "16-cores": ("server.fabric.cores=16",),
    "2-cores-of-8-threads": ("server.fabric.cores=2", "server.core.threads=8"),
    "16-cores-in-order": ("server.fabric.cores=16", "server.core.model=in-order"),
}


@pytest.mark.parametrize("server", RACES)
def test_processes_with_threads(program: Program, run: Run, tmp_path: Path, server: str) -> None:
    """Threads map, unmap and fork under each other, and see nothing of other processes."""

    def measured(*settings: str) -> Any:
        file = tmp_path / "stats.json"
        options = [part for setting in settings for part in ("--set", setting)]
        done = run(program("races"), 6, options=("--stats", str(file), *options))
        assert done.stdout == "races: right\n"
        return simulator.without_host(json.loads(file.read_text()))

    first = measured(*RACES[server])
    assert measured(*RACES[server], "simulator.lookahead_cycles=7") == first


HOSTILE = {
    "calls": ("20",),
    "memory": (),
    "programs": (),
    "signals": (),
}


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_program(program: Program, run: Run, what: str, options: tuple[str, ...]) -> None:
    done = run(program("hostile"), what, *HOSTILE[what], options=options)
    assert done.stdout == f"{what}: refused\n"


def test_more_harts_than_a_word_has_bits(program: Program, run: Run) -> None:
    many = ("--set", "server.fabric.cores=12", "--set", "server.core.threads=8")
    assert run(program("hostile"), "memory", options=many).stdout == "memory: refused\n"


@pytest.mark.parametrize(
    ("memory_mib", "sentence"),
    [
        (16384, "more than 512 threads and processes at once"),
        (256, "the server has too little memory left"),
    ],
)
def test_processes_without_end(program: Program, run: Run, memory_mib: int, sentence: str) -> None:
    memory = ("--functional", "--set", f"server.memory_mib={memory_mib}")
    done = run(program("hostile"), "bomb", options=memory)
    (count,) = re.findall(r"^(\d+) processes\nbomb: refused\n$", done.stdout)
    assert sentence in done.stderr
    # A process that has ended, and has been waited for, makes room for another.
    assert int(count) >= 512 if memory_mib > 4096 else 10 < int(count) < 40


@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not here")
def test_qemu_says_the_same_of_protection(program: Program, tmp_path: Path) -> None:
    command = [str(QEMU), str(program("protection"))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == PROTECTION


def test_memory(program: Program, run: Run) -> None:
    assert run(program("memory")).stdout == "memory: right\n"


@BOTH
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


THREADED = {
    "threads": (["3"], threads_result(3)),
    "echo": ([], "60 of 60 answers are right\n"),
    "signals": ([], "signals: right\n"),
}

SERVERS = {
    "8-cores": ("server.fabric.cores=8",),
    "4-cores-of-2-threads": ("server.fabric.cores=4", "server.core.threads=2"),
    "1-core-of-8-threads": ("server.fabric.cores=1", "server.core.threads=8"),
    "8-cores-in-order": ("server.fabric.cores=8", "server.core.model=in-order"),
}

# What is the host's affair: how far cores run ahead of each other, and whether spinning is skipped.
OF_THE_HOST = {
    "again": (),
    "short steps": ("simulator.lookahead_cycles=7",),
    "single steps, no skipping": (
        "simulator.lookahead_cycles=1",
        "simulator.skip_spinning=false",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", THREADED)
def test_threads_are_deterministic(
    program: Program, run: Run, tmp_path: Path, name: str, server: str
) -> None:
    path = program(name)
    arguments, expected = THREADED[name]

    def measured(*settings: str, fresh: bool = False) -> Any:
        file = tmp_path / "stats.json"
        options = [part for setting in settings for part in ("--set", setting)]
        done = run(path, *arguments, options=("--stats", str(file), *options), fresh=fresh)
        assert done.stdout == expected
        return simulator.without_host(json.loads(file.read_text()))

    first = measured(*SERVERS[server], fresh=True)
    parts = [part for core in first["cores"] for part in core.get("harts", [core])]
    assert sum(part["instructions"] > 1000 for part in parts) > 1
    for name_of_setting, settings in OF_THE_HOST.items():
        assert measured(*SERVERS[server], *settings) == first, name_of_setting


def test_each_hart_of_a_core_makes_its_own_calls(program: Program, run: Run) -> None:
    """Two harts on a core are a thread each, as two on different cores are."""
    smt = ("server.fabric.cores=1", "server.core.threads=2")
    options = tuple(part for setting in smt for part in ("--set", setting))
    path = program("threads")
    assert run(path, 1, options=options).stdout == threads_result(1)
    (core,) = statistics(run, path, 1, options=options)["cores"]
    assert [hart["instructions"] > 1000 for hart in core["harts"]] == [True, True]
    # With a third thread they take turns.
    assert run(path, 2, options=options).stdout == threads_result(2)


def test_a_thread_that_waits_is_halted(program: Program, run: Run) -> None:
    result = statistics(run, program("time"))
    # It sleeps for 7 ms of some 7.2: the first of 16 harts, which the others never leave.
    assert result["cores"][0]["halted_cycles"] > 0.9 * result["cycles"]
    for core in result["cores"][1:]:
        assert core["halted_cycles"] > 0.99 * result["cycles"]


# What a program reaches.


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a working directory, and what a program in it must not reach, or only read."""
    outside, work = tmp_path / "outside", tmp_path / "work"
    (outside / "inner").mkdir(parents=True)
    (outside / "secret").write_text("secret")
    (work / "empty").mkdir(parents=True)
    (work / "out").symlink_to("../outside")
    (work / "file").write_text("some")
    os.mkfifo(work / "fifo")
    (tmp_path / "named").write_text("named")
    (tmp_path / "input").write_text("input")
    return tmp_path


def state(path: Path) -> dict[str, tuple[int, int, int, str]]:
    """Tell mode, links, time and content of what is in a directory, and its own."""
    found = {}
    for one in [path, *sorted(path.rglob("*"))]:
        status = one.lstat()
        text = one.read_text() if one.is_file() and not one.is_symlink() else ""
        name = str(one.relative_to(path))
        found[name] = (status.st_mode, status.st_nlink, status.st_mtime_ns, text)
    return found


def try_to_escape(program: Program, host: Path, *options: str, **more: Any) -> list[str]:
    """Run `escapes` in the working directory; `mode` is what it is told that it is given."""
    command = [sys.executable, "-m", "nanoplane", "exec", "--functional", *options]
    own = ("--env", f"OUTSIDE={host / 'outside'}", str(program("escapes")), more["mode"])
    with (host / "input").open() as given:
        done = subprocess.run(
            [*command, *own, *more.get("arguments", [])],
            cwd=host / "work",
            stdin=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("given", ["../named", "{host}/named"])
def test_a_sandbox(program: Program, host: Path, given: str) -> None:
    given = given.format(host=host)
    before = state(host / "outside"), state(host / "named"), state(host / "input")
    output = try_to_escape(program, host, mode="sandbox", arguments=[given])
    # The directories on the way to the working directory are seen, with nothing else in them.
    top = {"dev", "etc", "proc", "sys", "tmp", host.parts[1]}
    inside = [host.parts[2]] if host.parts[1] == "tmp" else []
    assert output == [
        f"/: {' '.join(sorted(top))}",
        "/dev: fd full null random stderr stdin stdout urandom zero",
        "/etc: group hostname hosts nsswitch.conf passwd",
        "/proc/self: exe fd",
        f"/tmp: {' '.join(sorted(['file', *inside]))}",
        "sandbox: 0 escapes",
    ]
    assert before == (state(host / "outside"), state(host / "named"), state(host / "input"))
    assert sorted(path.name for path in (host / "work").iterdir()) == [
        "empty",
        "fifo",
        "file",
        "out",
    ]


def test_another_root(program: Program, host: Path) -> None:
    before = state(host / "outside"), state(host / "input")
    output = try_to_escape(program, host, "--root", ".", mode="root")
    assert output == ["/: dev empty fifo file out proc sys", "root: 0 escapes"]
    assert before == (state(host / "outside"), state(host / "input"))


@pytest.mark.parametrize("more", [(), ("--root", "."), ("--host-files",)], ids=" ".join)
def test_nothing_is_written(program: Program, host: Path, more: tuple[str, ...]) -> None:
    if more[:1] == ("--root",):
        (host / "work" / "tmp").mkdir()
    before = state(host)
    mode = "read-only" if not more else "read-only-host"
    output = try_to_escape(program, host, "--read-only", *more, mode=mode)
    assert output == [f"{mode}: 0 escapes"]
    assert state(host) == before


def test_all_files_of_the_host_but_not_its_kernel(program: Program, host: Path) -> None:
    assert try_to_escape(program, host, "--host-files", mode="host") == ["host: 0 escapes"]


def test_where_the_files_are_too_many(program: Program) -> None:
    for directory, part in [("/", "all files of this host"), ("/proc", "the host's kernel (proc)")]:
        done = completed("exec", program("arguments"), cwd=Path(directory))
        assert (done.returncode, done.stdout) == (2, "")
        assert part in done.stderr
        assert "Traceback" not in done.stderr


def test_a_bare_metal_program_has_no_files(run: Run) -> None:
    done = run(ROOT / "guest" / "tests" / "hello.c", options=("--read-only",), status=2)
    assert "a bare-metal program has no files: leave --root, --read-only and" in done.stderr


def test_a_closed_standard_input_is_no_other_file(program: Program, tmp_path: Path) -> None:
    path = program("arguments")
    command = f"{sys.executable} -m nanoplane exec {shlex.quote(str(path))} <&-"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    # It is empty, as /dev/null is. The exit status is the number of arguments.
    assert (done.returncode, done.stderr) == (1, "to standard error\n")
    assert done.stdout.splitlines()[-1] == "third: 0.33333333333333331"


def test_a_tmp_of_its_own_ends_with_the_run(program: Program, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanoplane", "exec", str(program("arguments"))]
    (tmp_path / "work").mkdir()
    (tmp_path / "place").mkdir()
    left = tmp_path / "place" / "nanoplane-guest-1-0"
    (left / "tmp" / "file").mkdir(parents=True)  # by a run that was killed
    with subprocess.Popen(
        command,
        cwd=tmp_path / "work",
        env={**os.environ, "TMPDIR": str(tmp_path / "place")},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        for _ in range(600):
            if not left.exists() and any((tmp_path / "place").iterdir()):
                break
            time.sleep(0.1)
        (one,) = (tmp_path / "place").iterdir()
        assert (one.stat().st_mode & 0o777, one.name.split("-")[2]) == (0o700, str(process.pid))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert not any((tmp_path / "place").iterdir())


# What fails.


@pytest.mark.parametrize(("how", "status"), [("0", 0), ("3", 3), ("300", 300 & 0xFF)])
def test_the_exit_status(program: Program, run: Run, how: str, status: int) -> None:
    assert run(program("failures"), how, status=status).stderr == ""


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("null", ["hart 0, load page fault at pc", "(dereference", "lw a0, 0(a0)"]),
        ("thread", ["hart 1, load page fault at pc", "(dereference", "value 0x8"]),
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
    functional = run(program("failures"), how, options=("--functional",), status=1).stderr
    assert functional == errors


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
        "nanoplane: the program uses system call 425 (io_uring_setup), which is not "
        "implemented; it returns ENOSYS",
        "nanoplane: the program uses system call 7777, which is not implemented; it returns ENOSYS",
    ]


def test_no_more_memory_than_there_is(program: Program, run: Run) -> None:
    run(program("failures"), "memory", options=("--set", "server.memory_mib=4096"), status=1)
    run(program("failures"), "memory")
    done = run(program("failures"), options=("--set", "server.memory_mib=16"), status=0)
    assert done.stderr == ""


@BOTH
def test_more_threads_than_harts(program: Program, run: Run, options: tuple[str, ...]) -> None:
    """What queues for a hart runs, too, whether the others wait or spin."""
    few = ("--set", "server.fabric.cores=2", *options)
    assert run(program("threads"), 12, options=few).stdout == threads_result(12)
    assert run(program("echo"), options=few).stdout == "60 of 60 answers are right\n"


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


def test_a_bare_metal_program_has_no_environment(run: Run) -> None:
    done = run(ROOT / "guest" / "tests" / "hello.c", options=("--env", "A=1"), status=2)
    assert "a bare-metal program has no environment: leave --env out" in done.stderr


def test_a_variable_without_value_is_refused(program: Program, run: Run) -> None:
    done = run(program("arguments"), options=("--env", "NAME"), status=2)
    assert done.stderr == 'nanoplane: --env is "NAME"; it must be NAME=VALUE\n'


def start(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "nanoplane", "exec", str(path)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def unread(pipe: IO[bytes]) -> int:
    """Return how many bytes in a pipe nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_ctrl_c_while_the_program_waits_for_input(program: Program) -> None:
    with start(program("arguments")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x" * 99)
        process.stdin.flush()
        # Once it has taken these, the program waits for more of the line: Ctrl-C finds it in a call
        # of the host.
        end = time.monotonic() + 60
        while unread(process.stdin) and time.monotonic() < end:
            time.sleep(0.01)
        assert not unread(process.stdin)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
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
