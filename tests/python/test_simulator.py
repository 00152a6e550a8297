"""The command line with the compiled simulator: what a user does, and does wrong."""

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

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "encapsulation.toml"
GUESTS = ROOT / "guest" / "tests"
FEW = ("--set", "measure.requests=200", "--set", "data_plane.queues=20")


@pytest.fixture
def nanoplane(tmp_path: Path) -> Any:
    environment = {**os.environ, "NANOPLANE_STORE": str(tmp_path / "store")}

    def run(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "nanoplane", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
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


def result(nanoplane: Any, *settings: str) -> Any:
    return json.loads(nanoplane("run", EXAMPLE, *FEW, *settings, "--json").stdout)


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in document if name not in ("host_seconds", "host_mips")}


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
    assert comparable(result(nanoplane, *settings)) == comparable(first)


def test_skipping_spins_and_lookahead_change_nothing(nanoplane: Any) -> None:
    settings = ("--set", "data_plane.notify=spin", "--set", "traffic.rate_mrps=0.1", "--fresh")
    normal = comparable(result(nanoplane, *settings))
    slow = comparable(
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


def test_ctrl_c_ends_a_run_with_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanoplane", "run", str(EXAMPLE)]
    process = subprocess.Popen(
        [*command, "--set", "measure.requests=100_000_000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert output == ""
    assert errors.splitlines()[-1].startswith("nanoplane: stopped: 0 finished runs are kept")
    assert "Traceback" not in errors


# What is wrong gets a sentence.


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stderr.count("nanoplane: ") == 1
    return done.stderr.lower()


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
