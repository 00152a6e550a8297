"""The store of results: what is damaged, what cannot be written, and what ended too early."""

import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import fake_simulator
from nanoplane import (
    Description,
    DescriptionError,
    Failure,
    Run,
    Store,
    cli,
    scratch,
    simulator,
    sweep,
)
from nanoplane import store as stores
from nanoplane.sweep import look_up

ROOT = Path(__file__).parents[2]


def describe(queues: int = 10, **traffic: object) -> Description:
    return Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1"},
            "data_plane": {"program": "packet-encapsulation", "notify": "spin", "queues": queues},
            "traffic": {"load": "saturate", "saturation_rate_mrps": 20.0, **traffic},
            "measure": {"requests": 1000},
        }
    )


@contextlib.contextmanager
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(Store().path)
    with connection:
        yield connection
    connection.close()


# What the key was made of is what the run gets.


@pytest.mark.usefixtures("fake")
def test_a_file_that_changes_after_the_key_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("one.pcap").write_bytes(b"packets")
    run, given = fake_simulator.run, []

    def changing(description: str, elves: list[bytes], files: dict[str, bytes], *rest: Any) -> str:
        given.append(files)
        Path("one.pcap").write_bytes(b"other packets")
        return run(description, elves, files, *rest)

    monkeypatch.setattr(fake_simulator, "run", changing)
    half = describe(packets="one.pcap").set("traffic.load", "0.5")
    (outcome,) = sweep([half], workers=1)
    # The peak and the half of it: the file has changed before the second, and its key is made then.
    assert given == [{str(Path("one.pcap").absolute()): b"packets"}] * 2
    Path("one.pcap").write_bytes(b"packets")
    assert look_up([Run.of(half)]) != [None]
    Path("one.pcap").write_bytes(b"other packets")
    assert look_up([Run.of(half)]) == [None]
    assert outcome.unkept is None


@pytest.mark.simulator
def test_the_simulator_does_not_read_the_file_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = tmp_path / "times.csv"
    times.write_text("service_time_ns,count\n600,1\n")
    queueing = simulator.queueing

    def changed(*arguments: Any) -> Mapping[str, Any]:
        times.write_text("service_time_ns,count\n1200,1\n")
        return queueing(*arguments)

    monkeypatch.setattr(simulator, "queueing", changed)
    system = {
        **{"queues": 1, "units": 1, "load": 0.5, "requests": 3000},
        "service_times": {"distribution": "recorded", "file": str(times)},
    }
    described = Description.from_dict({"queueing": system})
    (outcome,) = sweep([described], store=Store(tmp_path / "store"))
    assert outcome.result["mean_drawn_service_time"] == 600
    assert look_up([Run(described)], store=Store(tmp_path / "store")) == [None]
    # Nor any other: what it is not given is not there.
    with pytest.raises(DescriptionError, match=r"times\.csv: the contents of this file were not"):
        simulator.queueing(described.resolve().data)


@pytest.mark.simulator
def test_the_version_is_a_whole_digest() -> None:
    """64 hexadecimal digits of SHA-256: two builds of a project never have the same by chance."""
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{64}", simulator.version())


# Damage.


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    "damage",
    [
        "update results set result = replace(result, '1', '2')",
        "update results set result = '{}'",
        "update results set result = substr(result, 1, 100)",
        "update results set result = x'fffe'",
        "update results set result = 7",
        "update results set checksum = ''",
        "update results set simulator = 'another'",
        "update results set description = x'00ff'",
    ],
)
def test_a_damaged_row_is_said_dropped_and_run_again(
    damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = sweep([describe()])
    with database() as connection:
        connection.execute(damage)
    (again,) = sweep([describe()])
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert f"the row with the key {first.key} is damaged; it is dropped" in errors
    assert (again.result, again.stored) == (first.result, False)
    (stored,) = sweep([describe()])
    assert (stored.result, stored.stored) == (first.result, True)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("fake")
def test_the_row_of_another_key_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = sweep([describe(1), describe(2)])
    with database() as connection:
        connection.execute("delete from results where key = ?", [one.key])
        connection.execute("update results set key = ?", [one.key])
    (again,) = sweep([describe(1)])
    assert again.result == one.result != two.result
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_a_store_without_checksums_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Its rows get them, but for what cannot be a result."""
    one, two = sweep([describe(1), describe(2)])
    with database() as connection:
        connection.execute("alter table results drop column checksum")
        connection.execute("update results set result = '{' where key = ?", [two.key])
    sweep([describe(3)])
    assert Store().get(one.key) == one.result
    assert len(Store()) == 3
    assert capsys.readouterr().err == ""
    assert Store().get(two.key) is None
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_a_store_without_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    sweep([describe(1), describe(2)])
    with database() as connection:
        connection.execute("alter table results drop column guest")
    (again,) = sweep([describe(1)])
    errors = capsys.readouterr().err
    assert "no column guest; its 2 rows are dropped" in errors
    assert errors.count("\n") == 1
    assert not again.stored
    assert len(Store()) == 1


# What cannot be written.


def _as_file() -> None:
    Store().path.parent.write_text("")


def _no_database() -> None:
    Store().path.parent.mkdir()
    Store().path.write_text("this is no database\n" * 1000)


def _malformed() -> None:
    sweep([describe(n) for n in range(1, 5)])
    content = bytearray(Store().path.read_bytes())
    # All pages but the first, which says that it is a database.
    content[4096:] = b"\xff" * (len(content) - 4096)
    Store().path.write_bytes(content)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_as_file, "the store of results cannot be used: "),
        (_no_database, "file is not a database; move the file away, "),
        (_malformed, "database disk image is malformed; move the file away, "),
    ],
)
def test_a_store_that_cannot_be_used_is_found_before_the_run(spoil: Any, sentence: str) -> None:
    spoil()
    fake_simulator.calls.clear()
    with pytest.raises(Failure, match=re.escape(sentence)):
        sweep([describe()])
    assert not fake_simulator.calls


@pytest.mark.usefixtures("fake")
def test_a_store_on_a_file_system_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even root writes there."""
    monkeypatch.setenv("NANOPLANE_STORE", "/proc/store")
    with pytest.raises(Failure, match=r"^/proc/store/results\.sqlite: the store .* cannot be used"):
        sweep([describe()])
    assert not fake_simulator.calls


@pytest.mark.usefixtures("fake")
def test_a_store_that_another_process_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_PATIENCE_SECONDS", 0.1)
    sweep([describe(1)])
    fake_simulator.calls.clear()
    with database() as connection:
        connection.execute("begin immediate")
        with pytest.raises(Failure, match="database is locked"):
            sweep([describe(2)])
        assert not fake_simulator.calls
        # What is there can be read all the same.
        assert sweep([describe(1)])[0].stored
    assert not sweep([describe(2)])[0].stored


FULL_DISK = """
import resource, sys
sys.path.insert(0, {tests!r})
import fake_simulator
from nanoplane import simulator
from test_result_store import describe
simulator._module = lambda: fake_simulator
from nanoplane import Failure, sweep
# No file may grow beyond this: a write fails as on a disk that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    sweep([describe()])
except Failure as failure:
    print(failure)
print(len(fake_simulator.calls))
"""


def test_a_disk_without_room_is_found_before_the_run(tmp_path: Path) -> None:
    program = FULL_DISK.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    failure, calls = done.stdout.splitlines()
    assert "the store of results cannot be used: " in failure, done.stderr
    assert calls == "0"


@pytest.mark.usefixtures("fake")
def test_what_the_store_does_not_take_afterwards_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    put, failing = Store.put, Store()

    def full(self: Store, *arguments: Any) -> None:
        if self.path == failing.path:
            raise Failure("the disk is full")
        put(self, *arguments)

    monkeypatch.setattr(Store, "put", full)
    outcomes = sweep([describe(1), describe(2)])
    for outcome in outcomes:
        assert outcome.result["throughput_mrps"] > 0
        assert outcome.unkept is not None
        start, _, where = outcome.unkept.rpartition("; they are in ")
        assert start == "the disk is full; results that it has not taken: 2"
        other = Store(Path(where).parent)
        assert other.get(outcome.key) == outcome.result
    assert look_up([Run(describe(1))]) == [None]
    # A run that fails hides nothing of that.
    with pytest.raises(Failure, match=r"jumped to nowhere\nthe disk is full; .*taken: 1; they are"):
        sweep([describe(1), describe(2).set("measure.seed", 666)])


@pytest.mark.usefixtures("fake")
def test_a_store_that_fails_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    put, failures = Store.put, iter([Failure("the disk is full")])

    def full(self: Store, *arguments: Any) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        put(self, *arguments)

    monkeypatch.setattr(Store, "put", full)
    (outcome,) = sweep([describe()])
    assert outcome.unkept is None
    assert Store().get(outcome.key) == outcome.result


# What ends too early.

LEAVER = """
import pathlib, sys, time
from nanoplane import scratch
with scratch.directory(pathlib.Path("."), "room-") as room:
    (room / "file").write_text("content")
    print(room, flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_a_directory_until_the_next_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path()
    with contextlib.ExitStack() as stack:
        rooms = {}
        for name in ("killed", "living"):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", LEAVER], stdout=subprocess.PIPE, text=True)
            )
            assert process.stdout is not None
            rooms[name] = Path(process.stdout.readline().strip()), process
        (killed, process), (living, other) = rooms["killed"], rooms["living"]
        process.kill()
        process.wait()
        # What has no lock is somebody else's.
        Path("room-mine").mkdir()
        assert (killed / "file").exists()
        with scratch.directory(here, "room-") as mine:
            assert not killed.exists()
            assert (living / "file").exists()
            assert mine.is_dir()
        assert not mine.exists()
        other.kill()
        other.wait()
        scratch.remove_leftovers(here, "room-")
        assert sorted(here.iterdir()) == [Path("room-mine")]


@pytest.mark.simulator
def test_killed_sweeps_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """Runs with one warm start, so that there is a checkpoint, killed at the first result."""
    program = f"""
import sys
from nanoplane import Description, sweep
described = Description.from_toml({str(ROOT / "examples" / "encapsulation.toml")!r})
described = described.set("measure.requests", int(sys.argv[1]))
described = described.set("measure.warm_start", {{"requests": 100}})
rates = [described.set("traffic.rate_mrps", 0.5 + number / 100) for number in range(6)]
print(sum(outcome.stored for outcome in sweep(rates, workers=1)))
"""
    command = [sys.executable, "-c", program, "2000"]
    store = Store(tmp_path / ".nanoplane" / "results")
    with subprocess.Popen(command, cwd=tmp_path) as process:
        while process.poll() is None and not (store.path.exists() and len(store)):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    kept = len(store)
    assert kept >= 1
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) == kept
    assert [one.name for one in store.path.parent.iterdir()] == ["results.sqlite"]
    assert len(store) == 6


# Between stores.


@pytest.mark.usefixtures("fake")
def test_results_go_from_store_to_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep([describe(1), describe(2)])
    whole = {key: Store().entry(key) for key in Store().keys("")}
    assert len(whole) == 2

    def command(store: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("NANOPLANE_STORE", store)
        monkeypatch.setattr(sys, "argv", ["nanoplane", "store", *arguments])
        status = cli._main(cli.app)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    first = str(Store().path.parent)
    assert command(first, "export", "all.jsonl")[0] == 0
    assert "2 results of 2 added" in command("second", "import", "all.jsonl")[1]
    assert "2 results added" in command("third", "merge", "second")[1]
    assert ": 0 results added" in command("third", "merge", first)[1]
    third = Store("third")
    assert {key: third.entry(key) for key in third.keys("")} == whole
    # The same to the byte, whichever way they went.
    command("third", "export", "again.jsonl")
    assert Path("again.jsonl").read_bytes() == Path("all.jsonl").read_bytes()

    with database() as connection:
        connection.execute("update results set result = '{}' where key = ?", [min(whole)])
    assert "1 result added" in command("fourth", "merge", "third")[1], "damaged rows stay behind"

    line = Path("all.jsonl").read_text().splitlines()[0]
    for text, sentence in (
        ("{", "wrong.jsonl: line 1: this is not JSON"),
        ("{}", "a result has key, description"),
        (line.replace('"key": "', '"key": "x'), "64 hexadecimal digits"),
        (line + "\n[]", "line 2: a result has"),
    ):
        Path("wrong.jsonl").write_text(text)
        status, output = command("fifth", "import", "wrong.jsonl")
        assert status == 2
        assert sentence in output
    assert not Path("fifth").exists()
    assert command("fifth", "merge", "nowhere")[0] == 2
    assert command("fifth", "import", "nowhere.jsonl")[0] == 2
