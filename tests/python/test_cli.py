import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

import fake_simulator
from command_line import Command
from nanoplane import Failure, Store, cli, compiler, figures, progress
from nanoplane.figures import Row

pytestmark = pytest.mark.usefixtures("fake")

DESCRIPTION = """
server.preset = "hyperplane-table1"
data_plane = { program = "packet-encapsulation", notify = "hyperplane", queues = 1000 }
traffic = { shape = "single-queue", load = "saturate" }
measure.requests = 1000
"""

WITHOUT_RUNS = ["hyperplane.conflicts", "hyperplane.area"]
"""Figures that need no server."""


def test_run_tells_of_each_messaging_domain_if_there_are_several(command: Command) -> None:
    domain = "{ nodes = 500, cores = 1 }"
    settings = (
        *("--set", "data_plane.notify=rpcvalet"),
        *("--set", f"server.rpcvalet.domains=[{domain}, {domain}]"),
        *("--set", "server.data_plane_cores=2"),
    )
    status, output, _ = command("run", "example.toml", *settings)
    assert status == 0
    first, second = (line.split() for line in output.splitlines() if "domain " in line)
    assert first[:3] == ["domain", "0", "mrps"]
    assert "p99" in first
    assert " ".join(second) == "domain 1 mrps 0 0 of 0 dropped"
    status, output, _ = command("run", "example.toml", *settings[:2])
    assert status == 0
    assert "domain " not in output


def test_run_prints_a_table(command: Command) -> None:
    status, output, errors = command("run", "example.toml")
    assert (status, errors) == (0, "")
    for name in ("throughput_mrps", "latency_ns p99", "95 % confidence", "ipc", "host_mips"):
        assert name in output


def test_run_json_is_one_document(command: Command) -> None:
    arguments = ("run", "example.toml", "--set", "data_plane.queues=777", "--json")
    status, output, errors = command(*arguments)
    assert (status, errors) == (0, "")
    document = json.loads(output)
    assert document["description"]["data_plane"]["queues"] == 777
    assert {"throughput_mrps", "instructions", "cycles", "simulated_seconds"} <= set(document)
    assert {"mean", "p50", "p90", "p99", "p999", "samples", "p99_ci95"} <= set(
        document["latency_ns"]
    )
    again = json.loads(command(*arguments)[1])
    assert again.pop("stored") is True
    assert document.pop("stored") is False
    assert again == document


def test_run_captures_packets(command: Command) -> None:
    _, output, _ = command("run", "example.toml", "--capture", "2", "--json")
    assert json.loads(output)["captured"] == ["00" * 20] * 2


def test_exec_is_the_guest(command: Command) -> None:
    Path("hello.elf").write_bytes(b"\x7fELF")
    status, output, errors = command("exec", "hello.elf", "a", "--stats", "s.json", "--", "--b")
    assert (status, output, errors) == (3, "hello a --b\n", "")
    assert json.loads(Path("s.json").read_text())["instructions"] == 10


def test_exec_without_times(command: Command) -> None:
    Path("hello.elf").write_bytes(b"\x7fELF")
    arguments = ("hello.elf", "--functional", "--set", "measure.seed=2", "--stats", "s.json")
    assert command("exec", *arguments) == (3, "hello\n", "")
    assert json.loads(Path("s.json").read_text())["instructions"] == 20


def test_build(command: Command) -> None:
    Path("mine.c").write_text("int main(void) { return 0; }\n")
    assert command("build", "mine.c") == (0, "mine.elf\n", "")
    assert Path("mine.elf").read_bytes().startswith(b"\x7fELF")
    assert command("build", "mine.c", "-o", "other.elf") == (0, "other.elf\n", "")
    document = json.loads(command("build", "mine.c", "--json")[1])
    assert document["program"] == "mine.elf"
    assert document["bytes"] == Path("mine.elf").stat().st_size


def test_list(command: Command) -> None:
    status, output, _ = command("list", "--json")
    names = json.loads(output)
    assert status == 0
    assert "packet-encapsulation" in names["programs"]
    assert {"nanopu/mica", "traditional/set-algebra"} < set(names["rack_programs"])
    assert names["presets"] == [
        "cargo-table5",
        "hyperplane-table1",
        "nanopu-prototype",
        "rpcvalet-table1",
        "skylake-sp",
        "spin-to-win-table1",
    ]
    assert names["notify"][:2] == ["spin", "spin-poll-mode"]
    assert names["organisations"] == ["scale-out", "scale-up-2", "scale-up-4", "scale-up"]
    assert {f"hyperplane.{number}" for number in range(8, 14)} < set(names["figures"])
    assert {"hyperplane.conflicts", *(f"rpcvalet.{number}" for number in (2, 6, 7, 8, 9))} < set(
        names["figures"]
    )
    assert names["service_times"][:3] == ["fixed", "uniform", "exponential"]
    status, output, _ = command("list")
    assert "hyperplane.8: Peak throughput" in output
    assert "  nanopu/raft: A replicated key-value store: one server of several" in output
    assert "  scale-up-2: Two cores share queues\n" in output  # With the schema's own note.


def test_figure(command: Command) -> None:
    status, output, _ = command(
        *("figure", "hyperplane.8", "hyperplane.9", "--quick"),
        *("--only", "task=packet-encapsulation"),
        *("--html", "out/page.html", "--png", "out/page.png"),
    )
    assert status == 0
    assert output.count("HyperPlane, single queue") == 3
    assert "written: out/page.html" in output
    assert Path("out/page.html").read_text().startswith("<!doctype html>")
    assert Path("out/page.png").read_bytes().startswith(b"\x89PNG")


def test_a_figures_columns_have_different_headings(command: Command) -> None:
    # Gaps of 2070 and 1870 cycles at 3.2 GHz are 1.546 and 1.711 million requests a second.
    status, output, _ = command("figure", "nanopu.7", "--quick", "--only", "gap_cycles=2000,1800")
    assert status == 0
    heading = next(line for line in output.splitlines() if line.split()[:1] == ["1.55"])
    assert heading.split() == ["1.55", "1.71"]


def test_points_whose_x_was_measured_have_a_line_each(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = figures.find("rpcvalet.8")
    xs = {"1x16": (1.98, 5.96, 11.9), "1x16 in software": (1.99, 5.95, 7.9)}
    rows = [
        Row(
            series=series,
            x=x,
            x_unit="Mrps",
            y=10 * x,
            y_unit="us",
            statistic="p99",
            labels={},
            samples=1,
        )
        for series, measured in xs.items()
        for x in measured
    ]
    measured = dataclasses.replace(figure, rows=lambda _: rows)
    monkeypatch.setattr("nanoplane.commands.figures.find_figure", lambda _: measured)
    status, output, _ = command("figure", "rpcvalet.8", "--quick")
    assert status == 0
    lines = [line.split() for line in output.splitlines()]
    assert ["p99", "1x16", "1.98", "19.80"] in lines
    assert ["5.96", "59.60"] in lines
    assert ["p99", "1x16", "in", "software", "1.99", "19.90"] in lines


def test_figure_json(command: Command) -> None:
    chosen = ("--only", "task=packet-encapsulation", "--only", "notify=spin,hyperplane")
    status, output, _ = command("figure", "hyperplane.8", "--quick", *chosen, "--json")
    document = json.loads(output)
    assert status == 0
    # A row for each point and, behind them, the gain over the cost of a poll.
    assert len(document["rows"]) == 41
    labels = document["rows"][0]["labels"]
    assert labels["task"] == "packet-encapsulation"
    assert labels["notify"] == "spin"
    assert labels["queues"] == "1"
    assert {"series", "x", "x_unit", "y", "y_unit", "ci95", "samples"} <= set(document["rows"][0])
    assert {claim["id"] for claim in document["claims"]} >= {"hyperplane.8.gain"}
    _, output, _ = command("figure", "hyperplane.8", "hyperplane.9", "--quick", *chosen, "--json")
    assert [one["figure"] for one in json.loads(output)] == ["hyperplane.8", "hyperplane.9"]


def test_claims_only_read_the_store(command: Command) -> None:
    status, output, _ = command("claims", "hyperplane", "--json")
    rows = json.loads(output)
    assert status == 0
    needs_runs = [row for row in rows if row["figure"] not in WITHOUT_RUNS]
    assert {row["verdict"] for row in needs_runs} == {"not yet run", "by construction"}
    assert set(rows[0]) >= {
        *("id", "paper", "where", "quote", "paper_value"),
        *("measured", "unit", "verdict", "why"),
    }
    assert not fake_simulator.calls
    assert "nanoplane claims --run" in command("claims", "spin-to-win")[1]
    # A figure's claims need no other figure, though some of its points are in others, too.
    command("figure", "hyperplane.8", "--quick", "--json")
    rows = json.loads(command("claims", "hyperplane", "--quick", "--json")[1])
    of_figure = [row for row in rows if row["id"].startswith("hyperplane.8.")]
    # Those of the interface's driver need its runs, which are made when they are asked for.
    asked = [row for row in of_figure if not row["id"].endswith("gain-mlx5")]
    assert not [row["id"] for row in asked if row["verdict"] == "not yet run"]
    # The paper with the fewest runs.
    _, output, _ = command("claims", "spin-to-win", "--run", "--quick", "--json")
    assert {row["verdict"] for row in json.loads(output)} == {
        *("reproduced", "differs", "undecided", "not yet run"),
    }


def test_report(command: Command) -> None:
    document = json.loads(command("report", "-o", "report.html", "--json")[1])
    assert document["page"] == "report.html"
    assert document["figures"] == WITHOUT_RUNS
    assert len(document["claims"]) > 20
    assert "has been run yet" in Path("report.html").read_text()


def test_a_report_runs_what_is_missing_and_shows_quick_runs_where_there_are_no_others(
    command: Command,
) -> None:
    chosen = ["--only", "task=packet-encapsulation", "--only", "notify=spin,hyperplane"]
    arguments = ["report", "hyperplane.8", "-o", "report.html"]
    document = json.loads(command(*arguments, "--run", "--quick", *chosen, "--json")[1])
    assert document["figures"] == ["hyperplane.8"]
    assert {claim["figure"] for claim in document["claims"]} == {"hyperplane.8"}
    # Other mechanisms have not been run.
    status, output, progress = command(*arguments, *chosen[:2])
    assert (status, output) == (0, "written: report.html\n")
    # A look-up says how far it is only where it takes long.
    assert all("results looked up" in line for line in progress.splitlines())
    # Two systems, four shapes of traffic, five numbers of queues.
    assert "40 of 40 runs are those of --quick" in " ".join(Path("report.html").read_text().split())
    only = ["--only", "shape=single-queue", "--only", "queues=1000"]
    assert command(*arguments, *only)[0] == 0
    assert "2 of 2 runs are those of --quick" in " ".join(Path("report.html").read_text().split())
    assert ">1000<" in Path("report.html").read_text()
    assert ">400<" not in Path("report.html").read_text()


def test_every_command_has_help_with_an_example(command: Command) -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    names = {"run", "exec", "figure", "claims", "report", "build", "list", "explain"}
    names |= {"keys", "schema", "sweep", "compare", "store", "examples", "new"}
    assert set(commands) == names
    for name in commands:
        status, output, _ = command(name, "--help")
        assert status == 0
        assert f"\n  Example:\n    nanoplane {name}" in output
    status, output, _ = command()
    assert status == 0
    assert "Commands:" in output


def test_shells_complete_and_are_told_so() -> None:
    """Fish shows completions only if the command says by its status that there are some."""

    def completed(shell: str, words: str, **more: str) -> tuple[int, str]:
        variables = {"_NANOPLANE_COMPLETE": f"complete_{shell}", **more}
        variables |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        variables |= {"_TYPER_COMPLETE_ARGS": words}
        done = subprocess.run(
            [Path(sys.executable).with_name("nanoplane")],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    assert completed("bash", "nanoplane expl") == (0, "explain\n")
    assert completed("bash", "nanoplane run --slo") == (0, "--slowest\n")
    assert completed("bash", "nanoplane explain server.hyperplane.way") == (
        0,
        "server.hyperplane.ways\n",
    )
    assert completed("bash", "nanoplane list --preset sky")[1].startswith("skylake-sp\n")
    there, none = (
        completed("fish", f"nanoplane {word}", _TYPER_COMPLETE_FISH_ACTION="is-args")[0]
        for word in ("expl", "nonsense")
    )
    assert (there, none) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "Missing argument 'FILE.toml'. `nanoplane run --help` shows its use."),
        (["run", "mine.c"], "mine.c: there is no such file"),
        (["explain", "latency_ns.p99"], 'a field of results: explain "result.latency_ns.p99"'),
        (["explain", "result.counters"], 'did you mean "result.program_counters"?'),
        (["nonsense"], "No such command 'nonsense'."),
        (["run", "exmple.toml"], 'did you mean "example.toml"?'),
        (["run", "example.toml", "--jsn"], "No such option: --jsn"),
        (["run", "example.toml", "--set", "data_plane.queues"], "write key=value"),
        (["run", "example.toml", "--set", "data_plane.queues=1025"], "holds 1024 at most"),
        (["figure", "hyperplane.88"], 'did you mean "hyperplane.8"?'),
        (["figure", "nonsense"], "there are hyperplane.3, hyperplane.8, hyperplane.9"),
        (["claims", "hyperplan"], 'did you mean "hyperplane"?'),
        (["build", "missing.c"], "there is no such file"),
        (["exec", "missing.elf"], "there is no such file"),
        (["exec", "example.toml", "--preset", "x"], "server.preset"),
        (["exec", "hello.elf", "--root", ".", "--host-files"], "leave one out"),
        (["exec", "hello.elf", "--functional", "--trace", "t.kanata"], "a functional run has none"),
        (["exec", "hello.elf", "--functional", "--profile", "p"], "a functional run has none"),
        (
            ["exec", "hello.elf", "--functional", "--set", "server.core.rob_entries=224"],
            "the keys with an effect are server.memory_mib, server.fabric.cores,",
        ),
        (["run", "."], ".: this is a directory, not a file"),
        (["build", "."], ".: cannot be read: Is a directory"),
        (["build", "example.toml"], "the name of a C program must end in .c"),
        (["exec", "."], ".: cannot be read: Is a directory"),
        (["run", "example.toml", "--capture", "-1"], "greater than or equal to 0"),
        (["run", "example.toml", "--set", "data_plane.queues=-1"], "from 1 to 8192"),
        (["run", "example.toml", "--set", f"data_plane.queues={10**30}"], "from 1 to 8192"),
        (["run", "example.toml", "--set", "traffic.load=1e-9"], "a number from 0.0001 to 10"),
        (["run", "example.toml", "--set", "traffic.packets=."], "this is a directory, not a file"),
        (["figure", "hyperplane.8", "--workers", "0"], "greater than or equal to 1"),
        (["run", "example.toml", "--slowest", "0"], "a whole number from 1 to 10,000"),
        (["run", "example.toml", "--slowest", "ten"], "ten is no number of requests"),
        (
            ["run", "example.toml", "--slowest", "3", "--trace-window", "1us,2us"],
            "leave --trace-window or --slowest out",
        ),
        (["sweep", "example.toml", "--vary", "data_plane.quues=1,2"], "--vary: data_plane.quues"),
        (["sweep", "example.toml", "--vary", "data_plane.queues=1,x"], "--vary: data_plane.queues"),
        (["figure", "hyperplane.conflicts", "--only", "a=b"], "have no labels to choose by"),
    ],
)
def test_a_wrong_question_gets_one_sentence_and_2(
    command: Command, arguments: list[str], sentence: str
) -> None:
    status, output, errors = command(*arguments, *(["--json"] if arguments[0] == "figure" else []))
    assert (status, output) == (2, "")
    assert errors.count("\n") == 1
    assert sentence in errors
    assert errors.startswith("nanoplane: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["figure", "hyperplane.8", "--html", "file/page.html"],
        ["figure", "hyperplane.8", "--png", "."],
        ["exec", "hello.elf", "--stats", "file/stats.json"],
        ["report", "--output", "."],
        ["build", "mine.c", "--output", "."],
    ],
)
def test_output_that_cannot_be_written_gets_1_and_nothing_is_run(
    command: Command, arguments: list[str]
) -> None:
    Path("file").write_text("")
    Path("hello.elf").write_bytes(b"\x7fELF")
    Path("mine.c").write_text("int main(void) { return 0; }\n")
    status, output, errors = command(*arguments)
    assert (status, output) == (1, "")
    assert errors.count("\n") == 1
    assert errors.startswith(f"nanoplane: {arguments[-1]}: cannot be written: ")
    assert not fake_simulator.calls


def test_what_is_written_when_all_is_well_does_not_stay_when_it_is_not(command: Command) -> None:
    status, _, _ = command("exec", "missing.elf", "--stats", "stats.json")
    assert status == 2
    assert not Path("stats.json").exists()


def test_a_failed_run_gets_1(command: Command) -> None:
    assert command("run", "example.toml", "--json", "--set", "measure.seed=666") == (
        1,
        "",
        "nanoplane: example.toml: the guest jumped to nowhere\n",
    )


def test_a_program_that_does_not_compile_gets_2(command: Command) -> None:
    Path("wrong.c").write_text("int main(void) { return undeclared; }\n")
    status, output, errors = command("build", "wrong.c")
    assert (status, output) == (2, "")
    assert "nanoplane: wrong.c does not compile:\n" in errors
    assert "undeclared" in errors
    assert "Traceback" not in errors


def test_a_defect_gets_one_sentence_and_a_log(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("this should not happen")

    monkeypatch.setattr(fake_simulator, "presets", broken)
    status, output, errors = command("list")
    assert (status, output) == (1, "")
    assert errors.startswith("nanoplane: this is a defect of nanoplane (RuntimeError); ")
    assert errors.count("\n") == 1
    log = Path(errors.split("; ")[1].split()[0])
    assert "this should not happen" in log.read_text()
    log.unlink()


def test_a_missing_compiler_gets_1(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(compiler, "_compiler", compiler._compiler.__wrapped__)
    status, output, errors = command("run", "example.toml")
    assert (status, output) == (1, "")
    assert "no C compiler for RISC-V was found" in errors
    assert '-m pip install "nanoplane[compiler]"`' in errors
    assert errors.count("\n") == 1


def test_output_that_nobody_takes_gets_1(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nanoplane", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("nanoplane: standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


COMMANDS = [
    ["list"],
    ["list", "--json"],
    ["--help"],
    ["run", "example.toml"],
    ["run", "example.toml", "--json"],
    ["run", "example.toml", "--capture", "9"],
    ["figure", "hyperplane.8", "--quick", "--only", "queues=1"],
    ["claims", "hyperplane"],
    ["report", "hyperplane.8", "--output", "report.html"],
    ["build", "mine.c"],
    ["exec", "hello.elf"],
]


@pytest.mark.parametrize("kind", ["full", "closed pipe"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written_gets_1(
    command: Command, arguments: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence on a full disk; of a pipe that is closed nobody wants to hear."""
    Path("hello.elf").write_bytes(b"\x7fELF")
    Path("mine.c").write_text("int main(void) { return 0; }\n")
    if kind == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, output = os.pipe()
        os.close(reader)
    with os.fdopen(output, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        status, _, errors = command(*arguments)
    assert status == 1
    if kind == "full":
        assert errors == "nanoplane: standard output cannot be written: No space left on device\n"
    else:
        assert errors == ""


def test_a_result_that_the_store_does_not_take_is_printed(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    put, failing = Store.put, Store()

    def full(self: Store, *arguments: Any) -> None:
        if self.path == failing.path:
            raise Failure("the disk is full")
        put(self, *arguments)

    monkeypatch.setattr(Store, "put", full)
    status, output, errors = command("run", "example.toml", "--json")
    assert status == 1
    assert json.loads(output)["throughput_mrps"] > 0
    # The trial that finds the rate, and the run.
    assert errors.startswith("nanoplane: the disk is full; results that it has not taken: 2; they ")
    assert errors.count("\n") == 1
    only = ("--quick", "--only", "queues=1", "--json")
    status, output, errors = command("figure", "hyperplane.8", *only)
    assert (status, errors.count("\n")) == (1, 1)
    assert json.loads(output)["rows"]
    status, output, _ = command("run", "example.toml")
    assert status == 1
    assert "throughput_mrps" in output


def test_standard_error_that_cannot_be_written_changes_no_status(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert command("list", "nonsense")[0] == 2
        monkeypatch.setattr(progress, "_QUIET_SECONDS", -1.0)
        monkeypatch.setattr(progress, "_LINE_EVERY_SECONDS", 0.0)
        status, output, _ = command("run", "example.toml")
    assert status == 0
    assert "throughput_mrps" in output


def test_an_error_of_a_file_names_the_file(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "nowhere")
    Path("mine.c").write_text("int main(void) { return 0; }\n")
    status, _, errors = command("build", "mine.c")
    assert status == 1
    assert errors.startswith("nanoplane: ")
    assert "nowhere/nanoplane-" in errors
    assert errors.endswith("No such file or directory\n")


def test_names_that_are_no_text_are_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nanoplane", "build", "mine.c", "-o", b"\xff.elf"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    (tmp_path / "mine.c").write_text("int main(void) { return 0; }\n")
    done = subprocess.run(
        [sys.executable, "-m", "nanoplane", "build", "mine.c", "-o", b"\xff.elf"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"\\udcff.elf\n"


def test_standard_output_that_is_closed_gets_1(tmp_path: Path) -> None:
    """And no file is opened in its place, that would get what is printed."""
    program = '"$0" -m nanoplane run example.toml >&-'
    (tmp_path / "example.toml").write_text(DESCRIPTION)
    done = subprocess.run(
        ["sh", "-c", program, sys.executable], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"nanoplane: standard output is closed\n")
    assert [one.name for one in tmp_path.iterdir()] == ["example.toml"]


_NEEDED_LATER = ("altair", "jsonschema", "numpy", "pydantic", "rich", "vl_convert")
"""What takes longer to import than all of nanoplane, and no command needs before it has results."""


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (["--version"], ["nanoplane.commands.run", "nanoplane.claims"]),
        (["list"], ["nanoplane.fields"]),
        (["explain", "server.fabric.cores"], ["nanoplane.fields", "nanoplane.papers.plots"]),
        (["run", "--help"], ["nanoplane.commands.figures", "nanoplane.papers.plots"]),
        (["store", "merge", "--help"], ["nanoplane.commands.figures", "nanoplane.papers.plots"]),
    ],
)
def test_a_command_starts_without_what_it_does_not_need(
    arguments: list[str], others: list[str], tmp_path: Path
) -> None:
    modules = _imported(arguments, 0, tmp_path)
    assert modules >= {"nanoplane.cli", "typer"}
    assert modules.isdisjoint((*_NEEDED_LATER, *others))


def test_arguments_that_are_not_given_need_nothing(tmp_path: Path) -> None:
    """Those of a guest; the program is read after them."""
    (tmp_path / "empty.elf").touch()
    modules = _imported(["exec", "empty.elf"], 2, tmp_path)
    assert "nanoplane.commands.programs" in modules
    assert "pydantic" not in modules


def _imported(arguments: list[str], status: int, directory: Path) -> set[str]:
    program = (
        "import json, sys\nfrom nanoplane import cli\n"
        f"sys.argv = ['nanoplane', *{arguments}]\n"
        "try: cli.main()\n"
        f"except SystemExit as end: assert end.code == {status}\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, capture_output=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_each_command_is_in_the_module_that_is_imported_for_it() -> None:
    for names in cli._COMMANDS.values():
        for name in names:
            program = (
                "import typer.main\nfrom nanoplane import cli\n"
                f"print(*typer.main.get_command(cli._load({name!r})).commands)"
            )
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
            assert done.stdout.split() == list(names), name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sweep", "x.toml", "--workers", "0"], "Input should be greater than or equal to 1"),
        (["figure", "hyperplane.8", "--effort", "many"], "Input should be a valid integer"),
        (["figure", "hyperplane.8", "--precision", "2"], "is not from 0.1% to 100%"),
    ],
)
def test_what_no_parameter_takes_is_refused_by_typer(
    command: Command, arguments: list[str], sentence: str
) -> None:
    status, _, errors = command(*arguments)
    assert (status, sentence in errors) == (2, True)


@pytest.mark.parametrize("by", ["module", "script"])
def test_ctrl_c_while_it_is_loaded_is_no_traceback(tmp_path: Path, by: str) -> None:
    """A module that it imports gets the signal, and would then take its time."""
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(10)\n"
    )
    script = tmp_path / "nanoplane"
    script.write_text("from nanoplane.cli import main\nmain()\n")
    what = ["-m", "nanoplane"] if by == "module" else [str(script)]
    done = subprocess.run(
        [sys.executable, *what, "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_program_that_imports_it_keeps_its_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import nanoplane, signal\nprint(signal.getsignal(signal.SIGINT))\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{signal.default_int_handler}\n"


def test_interrupted_gets_130(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_simulator, "execute", interrupted)
    Path("hello.elf").write_bytes(b"\x7fELF")
    assert command("exec", "hello.elf") == (130, "", "nanoplane: stopped\n")
    # Outside of the simulator, too, where Typer would take it.
    monkeypatch.setattr(compiler, "elf", interrupted)
    assert command("exec", "hello.elf") == (130, "", "nanoplane: stopped\n")


@pytest.mark.parametrize("group", [[], ["store"]])
def test_the_help_fits_into_80_columns(
    group: list[str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, output, _ = command(*group, "--help")
    assert status == 0
    assert "Commands:" in output
    assert "..." not in output.partition("Commands:")[2]
