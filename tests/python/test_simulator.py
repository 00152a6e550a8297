"""The command line with the compiled simulator: what a user does, and does wrong."""

import ast
import inspect
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE
from scapy.packet import Raw
from scapy.utils import rdpcap

from command_line import completed
from nanoplane import Store, compiler, simulator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "encapsulation.toml"
GUESTS = ROOT / "guest" / "tests"
FEW = ("--set", "measure.requests=200", "--set", "data_plane.queues=20")


@pytest.fixture
def nanoplane(tmp_path: Path) -> Any:
    environment = {**os.environ, "NANOPLANE_STORE": str(tmp_path / "store")}

    def run(
        *arguments: object, status: int = 0, fresh: bool = False
    ) -> subprocess.CompletedProcess[str]:
        done = completed(*arguments, cwd=tmp_path, env=environment, fresh=fresh)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "panicked" not in done.stderr
        assert "defect" not in done.stderr
        return done

    return run


@pytest.fixture
def guest(nanoplane: Any, tmp_path: Path) -> Any:
    def build(name: str) -> Path:
        path = tmp_path / f"{name}.elf"
        nanoplane("build", GUESTS / f"{name}.c", "-o", path)
        return path

    return build


def result(nanoplane: Any, *settings: str, fresh: bool = False) -> Any:
    return json.loads(nanoplane("run", EXAMPLE, *FEW, *settings, "--json", fresh=fresh).stdout)


# What is asked is done.


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_a_run_has_all_numbers_and_is_the_same_again(nanoplane: Any, notify: str) -> None:
    settings = ("--set", f"data_plane.notify={notify}", "--fresh")
    first = result(nanoplane, *settings)
    assert first["throughput_mrps"] > 0
    latency = first["latency_ns"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p999"]
    assert latency["samples"] >= 200
    assert first["warmup_samples"] >= 0
    assert len(latency["p99_ci95"]) == 2
    assert first["cores"][0]["ipc"] > 0
    for name in ("instructions", "cycles", "simulated_seconds", "host_seconds", "host_mips"):
        assert first[name] > 0
    # One thread of the host has made it, and cannot have had more time than went by.
    assert first["host_seconds"] <= first["host_wall_seconds"]
    # Which depends on how far cores run ahead, and is nowhere else in the result.
    assert len(first["host_skipped_cycles"]) >= len(first["cores"])
    assert "skipped" not in json.dumps(simulator.without_host(first))
    again = result(nanoplane, *settings, fresh=True)
    assert simulator.without_host(again) == simulator.without_host(first)


@pytest.mark.parametrize(
    "hierarchy",
    [
        (),
        ("server.core.l2.size_bytes=262144", "server.fabric.last_level.inclusion=non-inclusive"),
    ],
)
def test_skipping_spins_and_lookahead_change_nothing(
    nanoplane: Any, hierarchy: tuple[str, ...]
) -> None:
    settings = ["--set", "data_plane.notify=spin", "--set", "traffic.rate_mrps=0.1", "--fresh"]
    settings += [part for setting in hierarchy for part in ("--set", setting)]
    normal = simulator.without_host(result(nanoplane, *settings))
    slow = simulator.without_host(
        result(
            nanoplane,
            *settings,
            *("--set", "simulator.skip_spinning=false"),
            *("--set", "simulator.lookahead_cycles=1"),
        )
    )
    normal.pop("description")
    slow.pop("description")
    assert slow == normal


def half_width_of_p99(document: Any) -> float:
    low, high = document["latency_ns"]["p99_ci95"]
    return float((high - low) / 2 / document["latency_ns"]["p99"])


def test_a_run_goes_on_until_the_p99_is_precise(nanoplane: Any) -> None:
    settings = ("data_plane.queues=1", "traffic.rate_mrps=1", "measure.requests=500")
    arguments = [part for one in settings for part in ("--set", one)]
    short = result(nanoplane, *arguments)
    assert short["precise"]  # Nothing was asked.
    assert half_width_of_p99(short) > 0.1
    arguments += ["--set", "measure.requests=50_000"]
    precise = result(nanoplane, *arguments, "--set", "measure.precision=0.1")
    assert precise["precise"]
    assert half_width_of_p99(precise) <= 0.1
    assert 500 < precise["latency_ns"]["samples"] < 50_000


def test_a_run_that_cannot_be_precise_says_so(nanoplane: Any) -> None:
    settings = ("data_plane.queues=1", "traffic.rate_mrps=2", "measure.warmup=0")
    arguments = [part for one in (*settings, "measure.requests=2000") for part in ("--set", one)]
    document = result(nanoplane, *arguments, "--set", "measure.precision=0.001")
    assert not document["precise"]
    assert document["latency_ns"]["samples"] == 2000
    table = nanoplane("run", EXAMPLE, *FEW, *arguments, "--set", "measure.precision=0.001")
    assert "NOT PRECISE" in table.stdout


def test_a_saturated_run_ends_when_its_throughput_is_precise(nanoplane: Any) -> None:
    settings = ("data_plane.queues=1", "traffic.load=saturate", "traffic.saturation_rate_mrps=5")
    arguments = [part for one in settings for part in ("--set", one)]
    arguments += ["--set", "measure.requests=3000"]
    count = result(nanoplane, *arguments)
    precise = result(nanoplane, *arguments, "--set", "measure.precision=0.01")
    low, high = precise["throughput_mrps_ci95"]
    assert precise["precise"]
    assert (high - low) / 2 <= 0.01 * precise["throughput_mrps"]
    # Whole laps of a ring of 16 slots, of 200 requests at least.
    assert precise["latency_ns"]["samples"] % 16 == 0
    assert 200 <= precise["latency_ns"]["samples"] < 1000
    assert low < count["throughput_mrps"] < high


def test_precision_of_a_kind_needs_kinds(nanoplane: Any) -> None:
    settings = ("--set", "measure.precision=0.1", "--set", "measure.precision_of=get")
    failed = nanoplane("run", EXAMPLE, *FEW, *settings, status=2)
    assert "measure.precision_of names a kind of operations, and the program takes none" in (
        failed.stderr
    )
    wrong = ("--set", "measure.precision_of=delete")
    unknown = nanoplane("run", EXAMPLE, *FEW, *wrong, status=2)
    assert 'it must be "get", ' in unknown.stderr


def test_a_part_of_the_peak(nanoplane: Any) -> None:
    peak = result(nanoplane)
    half = result(nanoplane, "--set", "traffic.load=0.5")
    assert half["description"]["traffic"]["rate_mrps"] == 0.5 * peak["throughput_mrps"]
    assert half["dropped"] == 0


def test_hello(nanoplane: Any, guest: Any, tmp_path: Path) -> None:
    done = nanoplane("exec", guest("hello"), "--stats", tmp_path / "stats.json")
    assert done.stdout.startswith("hello, world\n")
    assert json.loads((tmp_path / "stats.json").read_text())["exit_status"] == 0


def test_the_exit_status_is_the_guests(nanoplane: Any, guest: Any) -> None:
    nanoplane("exec", guest("exit-status"), status=42)


def encapsulated(inner: bytes, captured: bytes) -> bytes:
    """Return what the captured packet should be; its flow label is the guest's own choice."""
    outer = IPv6(
        tc=IP(inner).tos,
        fl=IPv6(captured).fl,
        nh=47,
        hlim=64,
        src="2001:db8::1",
        dst="2001:db8:1::",
    )
    return bytes(outer / GRE(proto=0x0800) / Raw(inner))


def test_every_byte_of_captured_traffic(nanoplane: Any) -> None:
    pcap = ROOT / "examples" / "packets.pcap"
    document = result(
        nanoplane,
        *("--set", "data_plane.queues=1", "--set", "traffic.rate_mrps=0.01"),
        *("--set", f"traffic.packets={pcap}", "--capture", "100"),
    )
    sent = [bytes(frame[IP])[: frame[IP].len] for frame in rdpcap(str(pcap))]
    captured = [bytes.fromhex(packet) for packet in document["captured"]]
    assert len(captured) == 100
    for number, packet in enumerate(captured):
        inner = sent[number % len(sent)]
        assert packet == encapsulated(inner, packet), f"packet {number}"


def test_every_byte_of_generated_traffic(nanoplane: Any) -> None:
    settings = ("--set", "data_plane.queues=1", "--set", "traffic.rate_mrps=0.01")
    document = result(nanoplane, *settings, "--capture", "50")
    for text in document["captured"]:
        packet = bytes.fromhex(text)
        assert IPv6(packet).nh == 47
        assert GRE(packet[40:]).proto == 0x0800
        inner = packet[44:]
        assert packet == encapsulated(inner, packet)
        # Scapy's checksums and lengths are those of the packet.
        again = IP(inner)
        del again.chksum, again.len, again.payload.chksum, again.payload.len
        assert bytes(again) == inner


def test_the_router_of_the_guide(nanoplane: Any) -> None:
    pcap = ROOT / "examples" / "packets.pcap"
    document = result(
        nanoplane,
        *("--set", f"data_plane.program={ROOT / 'examples' / 'router.c'}"),
        *("--set", "data_plane.queues=1", "--set", "traffic.rate_mrps=0.01"),
        *("--set", f"traffic.packets={pcap}", "--capture", "100"),
    )
    sent = [bytes(frame[IP])[: frame[IP].len] for frame in rdpcap(str(pcap))]
    for number, text in enumerate(document["captured"]):
        expected = IP(sent[number % len(sent)])
        if expected.ttl <= 1:
            assert text == ""
            continue
        expected.ttl -= 1
        del expected.chksum
        assert bytes.fromhex(text) == bytes(expected), f"packet {number}"


def test_qwait_by_itself(nanoplane: Any) -> None:
    done = nanoplane("exec", ROOT / "examples" / "doorbells.c")
    assert done.stdout == "".join(f"queue {queue}: 3 items\n" for queue in range(4))


def test_qwait_waits_for_no_stores(nanoplane: Any, guest: Any) -> None:
    """QWAIT takes its 50 cycles, and some to read the clock, whatever the store buffer has.

    A barrier waits for a store to a line in memory, which is 150 cycles away. A hart that halts in
    QWAIT performs its stores, and one that is predicted wrongly takes no queue.
    """
    done = nanoplane("exec", guest("qwait-order"))
    lines = (line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    values = {name: int(value) for name, value in lines}
    assert 50 <= values["alone"] <= 60
    assert values["behind a store"] <= values["alone"]
    assert values["barrier"] > 150
    assert (values["halted"], values["predicted"], values["then"]) == (3, -1, 3)


@pytest.mark.parametrize(("cores", "threads"), [(1, 4), (1, 8), (2, 2)])
def test_harts_of_a_core_wait_in_qwait(
    nanoplane: Any, guest: Any, cores: int, threads: int
) -> None:
    """The harts that share cores all wait in one partition, and each item goes to one of them.

    The guest checks that none is lost or taken twice. Of 400, no hart has less than half its share.
    """
    settings = ("--set", f"server.fabric.cores={cores}", "--set", f"server.core.threads={threads}")
    done = nanoplane("exec", guest("qwait-harts"), *settings)
    taken = [int(line.rsplit(maxsplit=1)[1]) for line in done.stdout.splitlines()]
    assert len(taken) == cores * threads - 1
    assert sum(taken) == 400
    assert min(taken) >= 400 // len(taken) // 2


@pytest.mark.parametrize("options", [(), ("--functional",)])
def test_a_guest_whose_output_cannot_be_written(
    guest: Any, tmp_path: Path, options: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "nanoplane", "exec", *options, str(guest("hello"))]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_qwait_that_waits_for_ever(nanoplane: Any, tmp_path: Path) -> None:
    source = (ROOT / "examples" / "doorbells.c").read_text()
    assert "hart == 1" in source
    (tmp_path / "quiet.c").write_text(source.replace("hart == 1", "hart == 99"))
    text = complaint(nanoplane("exec", "quiet.c", status=1))
    assert "waits for qwait" in text
    assert "4 queues monitored, 4 armed" in text


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_with_a_sentence(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    command = [sys.executable, "-m", "nanoplane", "run", str(EXAMPLE)]
    process = subprocess.Popen(
        [*command, "--set", "measure.requests=100_000_000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The store is made when the run begins.
    while process.poll() is None and not list(tmp_path.rglob("results.sqlite")):
        time.sleep(0.05)
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == status
    assert output == ""
    # Or without a number, if the run had not begun.
    assert errors.splitlines()[-1].startswith("nanoplane: stopped")
    assert "Traceback" not in errors


def test_ctrl_c_in_a_sweep_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanoplane", "figure", "hyperplane.8", "--quick", "--json"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "NANOPLANE_STORE": str(tmp_path / "store")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    store = Store(tmp_path / "store")
    while process.poll() is None and not (store.path.exists() and len(store)):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    last = errors.splitlines()[-1]
    assert last.startswith(f"nanoplane: stopped: {len(store)} finished runs are kept in ")
    assert last.endswith("the same command goes on from there")


# What is wrong gets a sentence.


@pytest.fixture(scope="module")
def hello() -> bytes:
    return compiler.build(GUESTS / "hello.c")


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stderr.count("nanoplane: ") == 1
    return done.stderr.lower()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ["data_plane.quues=3"],
            'data_plane.quues is not known; did you mean "data_plane.queues"?',
        ),
        (
            ["traffic.rate=0.2"],
            'did you mean "traffic.rate_mrps" (million requests a second)?',
        ),
        (["server.fabric.memory.latency=50"], 'did you mean "server.fabric.memory.latency_ns" ('),
        (
            ["server.hyperplane.qwait_latency=9"],
            '.qwait_latency_cycles" (cycles)?',
        ),
        (["data_plane.queues=0"], "it must be a whole number from 1 to 8192"),
        (["data_plane.queues=-1"], "it must be a whole number from 1 to 8192"),
        ([f"data_plane.queues={10**30}"], "it must be a whole number from 1 to 8192"),
        ([f"measure.seed={2**64}"], f"it must be a whole number from 0 to {2**64 - 1}"),
        (["measure.requests=5"], "it must be a whole number from 100 to 1000000000"),
        (["measure.precision=5"], "it must be a number from 0.001 to 1"),
        (["traffic.rate_mrps=1e308"], "million requests a second, from 0.000001 to 10000"),
        (["traffic.rate_mrps=nan"], "traffic.rate_mrps is NaN"),
        (["traffic.shape=square"], 'it must be "fully-balanced", "proportionally-concentrated"'),
        (["data_plane.notify=poll"], 'it must be "spin", "spin-poll-mode", "spin-mlx5"'),
        (["server.preset=table2"], 'server.preset is "table2"'),
        (["data_plane.program=ecko"], 'did you mean "echo"?'),
        (["server.data_plane_cores=17"], "it must be server.fabric.cores, 16, or less"),
        (["server.fabric.cores=17"], "16 cores or fewer"),
        (["server.fabric.mesh.columns=2"], "8 cores or fewer"),
        (["server.hyperplane.entries=100"], "so that it can be 128"),
        (["server.core.rob_entries=1"], "a whole number of entries, from 2 to 1024"),
        (["server.core.l2.size_bytes=16384"], "as they are together, 65536 bytes, or larger"),
        (["server.core.l2.ways=3"], "a power of two times 3 ways of 64 bytes"),
        (["server.fabric.last_level.inclusion=some"], 'it must be "inclusive" or "non-inclusive"'),
        (["server.fabric.last_level.directory.ways=4"], "has its directory in its own tags"),
        (
            [
                "server.fabric.last_level.inclusion=non-inclusive",
                "server.fabric.last_level.directory.entries_per_bank=6",
            ],
            "a power of two times 12 ways, such as 12",
        ),
        (["traffic.queue_capacity=12"], "it must be a power of two"),
        (["traffic.packets=/"], "this is a directory, not a file"),
        (["traffic.packets=missing.pcap"], "there is no such file"),
    ],
)
def test_a_wrong_setting(nanoplane: Any, settings: list[str], sentence: str) -> None:
    listed = [part for setting in settings for part in ("--set", setting)]
    done = nanoplane("run", EXAMPLE, *FEW, *listed, status=2)
    complaint(done)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["server.core.l1_data.ways=3"], "a power of two times 3 ways of 64 bytes, such as 49152"),
        (["server.core.l1_data.size_bytes=30000"], "such as 32768"),
        (["server.fabric.last_level.size_bytes_per_bank=1000000"], "such as 1048576"),
        (
            ["server.fabric.last_level.size_bytes_per_bank=1073741824"],
            "the banks of all 16 tiles must have 1073741824 bytes or fewer",
        ),
        (["server.fabric.mesh.columns=200", "server.fabric.mesh.rows=2"], "256 tiles or fewer"),
        (["server.fabric.mesh.columns=4096"], "from 1 to 256"),
        (["server.core.l1_data.hit_latency_cycles=1_000_000"], "from 1 to 1000"),
    ],
)
def test_a_server_that_cannot_be_built(
    nanoplane: Any, hello: bytes, tmp_path: Path, settings: list[str], sentence: str
) -> None:
    (tmp_path / "hello.elf").write_bytes(hello)
    listed = [part for setting in settings for part in ("--set", setting)]
    done = nanoplane("exec", "hello.elf", *listed, status=2)
    complaint(done)
    assert sentence in done.stderr
    # It is not the program that is wrong.
    assert "hello" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("header", "field", "value", "sentence"),
    [
        # The first bytes of the file: class, data encoding.
        (False, (4, "B"), 1, "not a 64-bit program"),
        (False, (5, "B"), 2, "not a little-endian program"),
        (False, (24, "Q"), 0, "the entry point 0x0 lies in no segment"),
        (False, (48, "I"), 0xD, "reduced RV64E register set"),
        # The last segment's address and size.
        (True, (24, "Q"), 0x1000_0000, "does not lie in the server's memory"),
        (True, (24, "Q"), 0x8000_0000, "segments overlap"),
        (True, (40, "Q"), 1 << 45, "does not lie in the server's memory"),
    ],
)
def test_an_elf_file_that_is_wrong(
    nanoplane: Any,
    hello: bytes,
    tmp_path: Path,
    header: bool,
    field: tuple[int, str],
    value: int,
    sentence: str,
) -> None:
    elf = bytearray(hello)
    (table,), (count,) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<H", elf, 56)
    loaded = [at for at in range(table, table + 56 * count, 56) if elf[at] == 1]
    struct.pack_into(f"<{field[1]}", elf, (loaded[-1] if header else 0) + field[0], value)
    (tmp_path / "wrong.elf").write_bytes(elf)
    done = nanoplane("exec", "wrong.elf", status=2)
    complaint(done)
    assert sentence in done.stderr
    assert done.stderr.startswith("nanoplane: wrong.elf: ")
    assert done.stderr.count("\n") == 1


def test_elf_of_another_machine(nanoplane: Any, tmp_path: Path) -> None:
    elf = bytearray(b"\x7fELF\x02\x01\x01".ljust(64, b"\0"))
    struct.pack_into("<HHIQQQIHHHHHH", elf, 16, 2, 62, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
    (tmp_path / "other.elf").write_bytes(elf)
    text = complaint(nanoplane("exec", "other.elf", status=2))
    assert "risc-v" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("length", [0, 10, 64, 200, 5000])
def test_truncated_elf(nanoplane: Any, guest: Any, tmp_path: Path, length: int) -> None:
    whole = guest("hello").read_bytes()
    (tmp_path / "cut.elf").write_bytes(whole[:length])
    text = complaint(nanoplane("exec", "cut.elf", status=2))
    assert "elf" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("length", [0, 10, 24, 30, 300])
def test_truncated_pcap(nanoplane: Any, tmp_path: Path, length: int) -> None:
    whole = (ROOT / "examples" / "packets.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(whole[:length])
    done = nanoplane("run", EXAMPLE, *FEW, "--set", "traffic.packets=cut.pcap", status=2)
    assert "cut.pcap" in complaint(done)


def test_illegal_instruction(nanoplane: Any, guest: Any) -> None:
    text = complaint(nanoplane("exec", guest("illegal"), status=1))
    assert "illegal instruction" in text
    assert "main" in text
    assert "pc" in text


def test_stack_overflow(nanoplane: Any, guest: Any) -> None:
    text = complaint(nanoplane("exec", guest("stack-overflow"), status=1))
    assert "descend" in text
    assert "stack" in text or "access" in text


def test_stacks_are_in_different_sets(nanoplane: Any, guest: Any) -> None:
    """What 16 harts use of their stacks, here 48 lines each, shares no set of a last-level cache.

    The smallest one of the presets has 512 KB and 8 ways: 1024 sets in all banks together, so that
    lines have the same set of the same bank if their numbers are the same modulo 1024.
    """
    done = nanoplane("exec", guest("stacks"))
    ends = [int(line, 16) // 64 for line in done.stdout.split()]
    assert len(ends) == 16
    assert len({(end - depth) % 1024 for end in ends for depth in range(48)}) == 16 * 48


def test_jump_to_nowhere(nanoplane: Any, guest: Any) -> None:
    assert "dead0000" in complaint(nanoplane("exec", guest("crash"), status=1))


def test_deadlock(nanoplane: Any, guest: Any) -> None:
    text = complaint(nanoplane("exec", guest("deadlock"), status=1))
    assert "wait" in text
    assert "hart 0" in text or "core 0" in text


def test_too_many_queues(nanoplane: Any) -> None:
    done = nanoplane("run", EXAMPLE, "--set", "data_plane.queues=1025", status=2)
    assert "1025" in complaint(done)
    assert "1024" in done.stderr


def test_a_program_that_is_no_data_plane(nanoplane: Any, guest: Any) -> None:
    settings = ("--set", f"data_plane.program={guest('hello')}")
    complaint(nanoplane("run", EXAMPLE, *FEW, *settings, status=1))


def test_the_stub_has_what_the_module_has() -> None:
    """All names, and parameters; what the compiled module does not tell are the types."""
    from nanoplane import _simulator

    stub = ast.parse((ROOT / "python" / "nanoplane" / "_simulator.pyi").read_text())
    written = {
        node.name: [argument.arg for argument in node.args.args]
        for node in stub.body
        if isinstance(node, ast.FunctionDef)
    }
    named = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert named == {name for name in dir(_simulator) if not name.startswith("__")}
    assert issubclass(_simulator.SimulationError, Exception)
    compiled = {
        name: list(inspect.signature(function).parameters)
        for name, function in inspect.getmembers(_simulator, inspect.isbuiltin)
    }
    assert written == compiled
