"""`exec --gdb` and `run --gdb`: a debugger at a socket, which speaks GDB's remote protocol."""

import contextlib
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import completed
from nanoplane import compiler, simulator

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.simulator

PROGRAM = """
#include <stdint.h>
volatile uint64_t cell = 1;
volatile uint64_t sum;
volatile double half = 0.5;
__attribute__((noinline)) uint64_t add(uint64_t x) {
  cell = cell + x;
  return cell * 2;
}
int main(void) {
  half = half + half;
  for (uint64_t i = 0; i < 10; i++) sum += add(i);
  return sum & 0x7f;
}
"""
# cell is 1, 1, 2, 4, 7, 11, ... behind each call.
CELLS = [1 + i * (i + 1) // 2 for i in range(10)]
STATUS = sum(2 * cell for cell in CELLS) & 0x7F

ENDLESS = """
int main(void) { for (;;) __asm__ volatile("nop"); }
"""

HARTS = """
#include <stdint.h>
void harts_release(void);
volatile uint64_t cells[4];
__attribute__((noinline)) void visit(uint64_t hart) { cells[hart] = hart + 1; }
int hart_main(int hart) { visit((uint64_t)hart); return 0; }
int main(void) {
  harts_release();
  while (!cells[1]) {}
  visit(0);
  return 5;
}
"""

CRASH = """
int main(void) { return *(volatile int *)0x10; }
"""

PC, MEPC, INSTRET = 32, 65 + 0x341, 65 + 0xC02
A0 = 10
FA5 = 33 + 15


def symbols(path: Path) -> dict[str, int]:
    """The addresses of an ELF file's symbols."""
    elf = path.read_bytes()
    (at,) = struct.unpack_from("<Q", elf, 40)
    entry, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + entry * i) for i in range(count)]
    found = {}
    for section in sections:
        if section[1] != 2:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, place)
            end = elf.index(b"\0", names + name)
            found[elf[names + name : end].decode()] = value
    return found


class Client:
    """Speaks the protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        # An acknowledgement and the next packet go out one after the other.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.bytes = b""

    def byte(self) -> bytes:
        if not self.bytes:
            self.bytes = self.socket.recv(65536)
            assert self.bytes, "the connection is closed"
        first, self.bytes = self.bytes[:1], self.bytes[1:]
        return first

    def send(self, packet: str) -> None:
        checksum = sum(packet.encode()) % 256
        self.socket.sendall(f"${packet}#{checksum:02x}".encode())

    def answer(self) -> str:
        while self.byte() != b"$":
            pass
        text = b""
        while (byte := self.byte()) != b"#":
            if byte == b"*":
                text += text[-1:] * (self.byte()[0] - 29)
            elif byte == b"}":
                text += bytes([self.byte()[0] ^ 0x20])
            else:
                text += byte
        self.byte()
        self.byte()
        self.socket.sendall(b"+")
        return text.decode("latin-1")

    def ask(self, packet: str) -> str:
        self.send(packet)
        return self.answer()

    def register(self, number: int) -> int:
        return int.from_bytes(bytes.fromhex(self.ask(f"p{number:x}")), "little")

    def word(self, address: int) -> int:
        return int.from_bytes(bytes.fromhex(self.ask(f"m{address:x},8")), "little")

    def monitor(self, command: str) -> str:
        text = ""
        answer = self.ask("qRcmd," + command.encode().hex())
        while answer != "OK":
            text += bytes.fromhex(answer[1:]).decode()
            answer = self.answer()
        return text

    def file(self, path: str) -> bytes:
        """What a file has that the debugger is given."""
        assert self.ask(f"vFile:open:{path.encode().hex()},2,0").startswith("F-1")
        assert self.ask(f"vFile:open:{b'/etc/passwd'.hex()},0,0").startswith("F-1")
        number = self.ask(f"vFile:open:{path.encode().hex()},0,0").removeprefix("F")
        data = b""
        while part := self.ask(f"vFile:pread:{number},400,{len(data):x}").partition(";")[2]:
            data += part.encode("latin-1")
        assert int(self.ask(f"vFile:close:{number}").removeprefix("F"), 16) == 0
        return data

    def cycle(self) -> int:
        (cycle,) = re.findall(r"cycle (\d+)", self.monitor("cycles"))
        return int(cycle)


class Debugged:
    """A program that waits for a debugger."""

    def __init__(self, *arguments: object, command: str = "exec", gdb: str = "0") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nanoplane", command, *map(str, arguments), "--gdb", gdb],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)", self.told) or ["0"]
        self.port = int(port)
        assert self.port, self.told + self.process.stderr.read()

    def end(self) -> tuple[int, str]:
        """Its status, and what it has written to the standard error since."""
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@contextlib.contextmanager
def debugged(
    *arguments: object, command: str = "exec", gdb: str = "0"
) -> Iterator[tuple[Debugged, Client]]:
    program = Debugged(*arguments, command=command, gdb=gdb)
    try:
        yield program, Client(program.port)
    finally:
        program.process.kill()
        program.process.communicate()


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))


def built(text: str, *options: str) -> tuple[Path, dict[str, int]]:
    source, elf = Path("program.c"), Path("program.elf")
    source.write_text(text)
    command = [sys.executable, "-m", "nanoplane", "build", str(source), "-o", str(elf), *options]
    subprocess.run(command, check=True, capture_output=True)
    return elf, symbols(elf)


def cores(count: int) -> list[str]:
    fabric = (f"cores={count}", f"mesh.columns={count}", "mesh.rows=1", "memory.controllers=1")
    keys = (f"data_plane_cores={count}", *(f"fabric.{key}" for key in fabric))
    return [part for key in keys for part in ("--set", f"server.{key}")]


def statistics(path: str) -> Any:
    return simulator.without_host(json.loads(Path(path).read_text()))


PRESETS = pytest.mark.parametrize("preset", ["hyperplane-table1", "nanopu-prototype"])


@PRESETS
def test_a_debugger_that_only_looks_changes_no_cycle(preset: str) -> None:
    elf, _ = built(PROGRAM)
    command = [sys.executable, "-m", "nanoplane", "exec", str(elf), "--preset", preset]
    plain = subprocess.run([*command, "--stats", "plain.json"], check=False)
    assert plain.returncode == STATUS
    with debugged(elf, "--preset", preset, "--stats", "debugged.json") as (program, client):
        assert client.ask("?").startswith("T05")
        assert client.ask("vCont;c") == f"W{STATUS:02x}"
        assert program.end()[0] == STATUS
    assert statistics("plain.json") == statistics("debugged.json")


@PRESETS
def test_breakpoints_registers_and_memory(preset: str) -> None:
    elf, at = built(PROGRAM)
    with debugged(elf, "--preset", preset) as (program, client):
        assert "swbreak+" in client.ask("qSupported:swbreak+;hwbreak+")
        xml = client.ask("qXfer:features:read:target.xml:0,ffff")
        assert "riscv:rv64" in xml
        assert "org.gnu.gdb.riscv.fpu" in xml
        general = client.ask("g")
        assert len(general) == 33 * 16
        assert client.register(PC) == at["_start"]
        assert bytes.fromhex(general[32 * 16 :]) == at["_start"].to_bytes(8, "little")
        assert client.ask(f"Z0,{at['add']:x},4") == "OK"
        cycles, retired = [client.cycle()], [client.register(INSTRET)]
        for number, cell in enumerate([1, *CELLS[:-1]]):
            assert client.ask("vCont;c").startswith("T05thread:01;swbreak:")
            assert client.register(PC) == at["add"]
            assert client.register(A0) == number
            assert client.word(at["cell"]) == cell
            cycles.append(client.cycle())
            retired.append(client.register(INSTRET))
        assert cycles == sorted(set(cycles))
        assert retired == sorted(set(retired))
        assert struct.pack("<d", 1.0).hex() == client.ask(f"m{at['half']:x},8")
        # Nobody sees a breakpoint in memory; and what is not there cannot be read.
        assert client.ask(f"m{at['add']:x},2") != "0290"
        assert client.ask("m10,8").startswith("E")
        assert client.ask("M10,1:00").startswith("E")
        assert client.ask(f"z0,{at['add']:x},4") == "OK"
        assert client.ask("vCont;c") == f"W{STATUS:02x}"
        assert program.end() == (STATUS, "")


def test_what_a_debugger_writes_is_what_the_program_reads() -> None:
    elf, at = built(PROGRAM)
    with debugged(elf) as (program, client):
        client.ask(f"Z0,{at['add']:x},4")
        client.ask("vCont;c")
        assert client.ask(f"M{at['cell']:x},8:" + (1000).to_bytes(8, "little").hex()) == "OK"
        assert client.word(at["cell"]) == 1000
        assert client.ask(f"P{A0:x}=" + (5).to_bytes(8, "little").hex()) == "OK"
        assert client.register(A0) == 5
        assert client.ask(f"P{FA5:x}=" + struct.pack("<d", 2.5).hex()) == "OK"
        assert client.ask(f"p{FA5:x}") == struct.pack("<d", 2.5).hex()
        assert client.ask(f"P{MEPC:x}=" + "00" * 8).startswith("E")
        client.ask(f"z0,{at['add']:x},4")
        status = sum(2 * (1005 + i * (i + 1) // 2) for i in range(10)) & 0x7F
        assert client.ask("vCont;c") == f"W{status:02x}"
        assert program.end()[0] == status


@PRESETS
def test_steps_are_those_of_the_log(preset: str) -> None:
    """A step is one instruction, of which time passes."""
    elf, at = built(PROGRAM)
    command = [sys.executable, "-m", "nanoplane", "exec", str(elf), "--preset", preset]
    subprocess.run([*command, "--log", "t.log"], check=False)
    lines = Path("t.log").read_text().splitlines()
    places = [int(line.split()[3], 16) for line in lines if line.startswith("core   0:")]
    first = places.index(at["main"])
    with debugged(elf, "--preset", preset) as (_, client):
        client.ask(f"Z0,{at['main']:x},4")
        client.ask("vCont;c")
        before = client.register(INSTRET)
        last = client.cycle()
        for number in range(120):
            assert client.register(PC) == places[first + number]
            assert client.ask("vCont;s:1" if number % 2 else "vCont;s:1;c").startswith("T05")
            cycle = client.cycle()
            assert last < cycle < last + 2000
            last = cycle
        assert client.register(INSTRET) == before + 120


@pytest.mark.sampled
@PRESETS
@pytest.mark.parametrize(
    ("kind", "name", "accesses"), [("2", "watch", 1), ("3", "rwatch", 2), ("4", "awatch", 3)]
)
def test_watchpoints(preset: str, kind: str, name: str, accesses: int) -> None:
    elf, at = built(PROGRAM)
    with debugged(elf, "--preset", preset) as (program, client):
        client.ask(f"Z0,{at['main']:x},4")
        client.ask("vCont;c")
        client.ask(f"z0,{at['main']:x},4")
        assert client.ask(f"Z{kind},{at['cell']:x},8") == "OK"
        seen = []
        for _ in range(10 * accesses):
            assert client.ask("vCont;c") == f"T05thread:01;{name}:{at['cell']:x};"
            seen.append(client.word(at["cell"]))
        # Each is told when it is done.
        expected = {
            "2": CELLS,
            "3": [word for pair in zip([1, *CELLS], CELLS, strict=False) for word in pair],
            "4": [x for pair in zip([1, *CELLS], CELLS, strict=False) for x in (*pair, pair[1])],
        }
        assert seen == expected[kind]
        assert client.ask(f"z{kind},{at['cell']:x},8") == "OK"
        assert client.ask("vCont;c") == f"W{STATUS:02x}"
        assert program.end()[0] == STATUS


def test_ctrl_c_and_the_end_of_a_program() -> None:
    elf, at = built(ENDLESS)
    with debugged(elf) as (program, client):
        client.send("vCont;c")
        client.socket.sendall(b"\x03")
        assert client.answer().startswith("T02")
        assert at["main"] <= client.register(PC) < at["main"] + 16
        client.send("k")
        status, told = program.end()
        assert status != 0
        assert "the debugger has ended the program" in told
        assert "Traceback" not in told


@pytest.mark.parametrize("says", [True, False])
def test_a_program_goes_on_when_its_debugger_is_gone(says: bool) -> None:
    elf, at = built(PROGRAM)
    with debugged(elf, "--stats", "stats.json") as (program, client):
        client.ask(f"Z0,{at['add']:x},4")
        client.ask("vCont;c")
        if says:
            assert client.ask("D") == "OK"
        client.socket.close()
        status, told = program.end()
        assert status == STATUS, told
        assert ("the debugger has disconnected" in told) is not says
        assert statistics("stats.json")["exit_status"] == STATUS


def test_harts_are_threads() -> None:
    elf, at = built(HARTS)
    with debugged(elf, *cores(2)) as (program, client):
        assert client.ask("qfThreadInfo") == "m01,02"
        assert client.ask("qsThreadInfo") == "l"
        client.ask(f"Z0,{at['visit']:x},4")
        told = client.ask("vCont;c")
        assert told.startswith("T05thread:02;swbreak:"), told
        client.ask("Hg2")
        assert (client.register(PC), client.register(A0)) == (at["visit"], 1)
        client.ask("Hg1")
        assert client.register(PC) != at["visit"]
        # The other hart stays where it is while this one makes a step.
        first = client.register(PC)
        assert client.ask("vCont;s:2").startswith("T05thread:02")
        client.ask("Hg1")
        assert client.register(PC) == first
        client.ask("Hg2")
        assert at["visit"] < client.register(PC) <= at["visit"] + 4
        told = client.ask("vCont;c")
        assert told.startswith("T05thread:01;swbreak:"), told
        client.ask("Hg1")
        assert (client.register(PC), client.register(A0)) == (at["visit"], 0)
        assert client.ask("vCont;c") == "W05"
        assert program.end()[0] == 5


def test_a_crash_is_shown_where_it_is() -> None:
    elf, at = built(CRASH)
    with debugged(elf) as (program, client):
        told = client.ask("vCont;c")
        assert told.startswith("T0bthread:01"), told
        assert at["main"] <= client.register(PC) < at["main"] + 16
        assert client.ask("vCont;c") == "X0b"
        status, told = program.end()
        assert status != 0
        assert "the guest crashed" in told


def test_errors_are_sentences() -> None:
    elf, _ = built(PROGRAM)

    def told(*options: str) -> str:
        done = completed("exec", elf, *options, timeout=60)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"port {port} cannot be used: another program uses it" in told("--gdb", str(port))
    assert "--gdb is for timed runs" in told("--functional", "--gdb", "0")
    assert "65535" in told("--gdb", "65536")


def test_nobody_comes() -> None:
    elf, _ = built(PROGRAM)
    program = Debugged(elf)
    assert "waiting for a debugger at 127.0.0.1:" in program.told
    program.process.send_signal(signal.SIGINT)
    status, told = program.end()
    assert status != 0
    assert "Traceback" not in told
    # And a limit ends the wait.
    program = Debugged(elf, "--max-time", "1s")
    status, told = program.end()
    assert status != 0
    assert "--max-time" in told


def test_build_adds_debug_information() -> None:
    plain, _ = built(PROGRAM)
    assert b".debug_info" not in plain.read_bytes()
    described, _ = built(PROGRAM, "-g")
    assert b".debug_info" in described.read_bytes()
    done = completed("build", "-g", "--firmware", "program.c")
    assert done.returncode != 0
    assert "leave --debug out" in done.stderr


# Without a C library: one with debug information would be compiled for this test alone.
LINUX = """
static long call(long number, long first, long second, long third) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = first;
  register long a1 __asm__("a1") = second;
  register long a2 __asm__("a2") = third;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
}
__attribute__((noinline)) int twice(int x) { return 2 * x; }
__attribute__((noinline)) int main(void) {
  return twice((int)call(64, 1, (long)"hello\\n", 6));  // write
}
void _start(void) { call(94, main(), 0, 0); }  // exit_group
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_linux_program_is_seen_in_user_mode(count: int) -> None:
    Path("linux.c").write_text(LINUX)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv64-linux-musl", "-static"]
    options = ["-nostdlib", "-O1", "-g", "linux.c", "-o", "linux"]
    subprocess.run([*command, *options], check=True, env=compiler._environment())
    at = symbols(Path("linux"))
    with debugged("linux", *cores(count)) as (program, client):
        client.ask(f"Z0,{at['main']:x},4")
        assert client.ask("vCont;c").startswith("T05thread:01;swbreak:")
        for _ in range(400):
            place = client.register(PC)
            if client.ask(f"m{place:x},4") == "73000000":
                break
            assert client.ask("vCont;s:1").startswith("T05thread:01")
        # A step goes over the whole call.
        assert client.ask("vCont;s:1").startswith("T05thread:01")
        assert client.register(PC) == place + 4
        assert client.register(A0) == 6
        client.ask(f"Z0,{at['twice']:x},4")
        assert client.ask("vCont;c").startswith("T05thread:01;swbreak:")
        assert client.register(A0) == 6
        assert client.ask("M" + f"{client.register(2) - 64:x},4:01020304") == "OK"
        assert client.ask("Mffffffff80000000,4:00000000").startswith("E")
        assert client.ask("vCont;c") == "W0c"
        assert program.process.stdout is not None
        assert program.process.stdout.read() == "hello\n"
        assert program.end()[0] == 12


DATA_PLANE = """
#include <data_plane.h>
volatile uint64_t prepared;
volatile uint64_t seen;
void prepare(void) { prepared = 42; }
__attribute__((noinline)) void note(uint64_t queue) { seen = seen + 1 + 0 * queue; }
static void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  note(queue);
  memcpy(out->packet, in->packet, in->length);
  out->length = in->length;
}
int main(void) { return data_plane(); }
"""

SERVER = """
server = { preset = "hyperplane-table1", data_plane_cores = 2 }
data_plane = { program = "data-plane.c", notify = "NOTIFY", queues = 4 }
traffic = { shape = "fully-balanced", rate_mrps = 1.0 }
measure.requests = 200
"""


def data_plane(notify: str) -> dict[str, int]:
    """Write a data plane and its description; the addresses of what the program has."""
    Path("data-plane.c").write_text(DATA_PLANE)
    Path("server.toml").write_text(SERVER.replace("NOTIFY", notify))
    with debugged("server.toml", command="run") as (_, client):
        assert client.ask("qXfer:exec-file:read::0,fff").endswith("/program.elf")
        Path("found.elf").write_bytes(client.file("/program.elf"))
    return symbols(Path("found.elf"))


def told(*arguments: object) -> Any:
    done = completed("run", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return simulator.without_host(json.loads(done.stdout))


@pytest.mark.parametrize("notify", ["spin", "hyperplane"])
def test_a_data_plane_is_debugged(notify: str) -> None:
    at = data_plane(notify)
    plain = told("server.toml")
    with debugged("server.toml", "--json", command="run") as (program, client):
        # It begins behind prepare().
        assert client.register(PC) == at["main"]
        assert client.word(at["prepared"]) == 42
        assert client.ask("vCont;c") == "W00"
        assert program.process.stdout is not None
        document = json.loads(program.process.stdout.read())
        assert program.end()[0] == 0
    assert simulator.without_host(document) == plain
    with debugged("server.toml", "--json", command="run") as (program, client):
        client.ask(f"Z0,{at['note']:x},4")
        cycles = [client.cycle()]
        for number in range(5):
            stop = client.ask("vCont;c")
            assert re.match(r"T05thread:0[12];swbreak:", stop), stop
            hart = stop[10:12]
            client.ask(f"Hg{hart}")
            assert client.register(PC) == at["note"]
            assert client.register(A0) <= 4
            assert client.word(at["seen"]) == number
            cycles.append(client.cycle())
            assert client.ask(f"vCont;s:{hart}").startswith(f"T05thread:{hart}")
            assert cycles[-1] < client.cycle() < cycles[-1] + 2000
        assert cycles == sorted(set(cycles))
        client.ask(f"z0,{at['note']:x},4")
        assert client.ask(f"Z2,{at['seen']:x},8") == "OK"
        stop = client.ask("vCont;c")
        assert f"watch:{at['seen']:x};" in stop, stop
        assert client.word(at["seen"]) == 5
        assert client.ask("D") == "OK"
        assert program.process.stdout is not None
        document = json.loads(program.process.stdout.read())
        assert document["latency_ns"]["samples"] >= 200
        assert program.end()[0] == 0
    # What was stopped is not kept: the result in the store is that of the run without a debugger.
    again = told("server.toml")
    assert (plain.pop("stored"), again.pop("stored")) == (False, True)
    assert again == plain


def test_a_server_of_a_rack_is_debugged() -> None:
    """The others stand still with it, and what is only attached to has the same result."""
    example, short = EXAMPLES / "rack-data-plane.toml", ("--set", "measure.requests=200")
    plain = told(example, *short)
    with debugged(example, *short, "--json", command="run", gdb="data plane:0") as (
        program,
        client,
    ):
        Path("found.elf").write_bytes(client.file("/program.elf"))
        assert client.ask("vCont;c") == "W00"
        assert program.process.stdout is not None
        document = json.loads(program.process.stdout.read())
        assert program.end()[0] == 0
    assert simulator.without_host(document) == plain
    at = symbols(Path("found.elf"))
    with debugged(example, *short, "--json", command="run", gdb="data plane:0") as (
        program,
        client,
    ):
        client.ask(f"Z0,{at['main']:x},4")
        assert "swbreak" in client.ask("vCont;c") or client.register(PC) == at["main"]
        client.ask(f"z0,{at['main']:x},4")
        last = client.cycle()
        for _ in range(50):
            assert client.ask("vCont;s:1;c").startswith("T05")
            assert last < client.cycle() < last + 2000
            last = client.cycle()
        client.send("vCont;c")
        client.socket.sendall(b"\x03")
        assert client.answer().startswith("T02")
        assert client.cycle() > last
        assert client.ask("D") == "OK"
        assert program.process.stdout is not None
        document = json.loads(program.process.stdout.read())
        assert program.end()[0] == 0
    assert len(document["clients"]) == len(plain["clients"])


def test_errors_of_runs_with_a_debugger_are_sentences() -> None:
    Path("data-plane.c").write_text(DATA_PLANE)
    Path("server.toml").write_text(SERVER.replace("NOTIFY", "spin"))
    rack = EXAMPLES / "rack-data-plane.toml"

    def error(*arguments: object) -> str:
        done = completed("run", *arguments)
        assert done.returncode == 2, done.stderr
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())

    assert "is no port" in error("server.toml", "--gdb", "65536")
    assert "this one is alone" in error("server.toml", "--gdb", "server:0")
    assert "one server is debugged: --gdb SERVER:0" in error(rack, "--gdb", "0")
    assert 'names the server "nobody"; there are data plane, loopback' in error(
        rack, "--gdb", "nobody:0"
    )
    assert "leave --gdb out" in error(
        "server.toml", "--gdb", "0", "--trace", "t.pftrace", "--slowest", "3"
    )
    queueing = EXAMPLES / "queueing.toml"
    assert "a queueing system, which has no program" in error(queueing, "--gdb", "0")


GDB = shutil.which("gdb-multiarch")


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_gdb_itself() -> None:
    built(PROGRAM, "-g")
    program = Debugged("program.elf")
    commands = [
        f"target remote 127.0.0.1:{program.port}",
        "break add",
        "continue",
        "continue",
        "print x",
        "print $pc == (long)&add",
        "watch cell",
        "continue",
        "stepi",
        "info threads",
        "print half",
        "print $fcsr",
        "monitor cycles",
        "delete",
        "set var cell = 1",
        "continue",
    ]
    done = subprocess.run(
        [str(GDB), "-nx", "-batch", *(x for one in commands for x in ("-ex", one)), "program.elf"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told = done.stdout + done.stderr
    assert "Breakpoint 1" in told, told
    assert "$2 = 1" in told, told
    assert "Hardware watchpoint 2: cell" in told, told
    assert re.search(r"cycle \d+, [\d.]+ ns", told), told
    assert "exited with code" in told, told
    program.end()


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_gdb_finds_the_lines_of_a_data_plane() -> None:
    Path("data-plane.c").write_text(DATA_PLANE)
    Path("server.toml").write_text(SERVER.replace("NOTIFY", "hyperplane"))
    program = Debugged("server.toml", command="run")
    commands = [
        f"target remote 127.0.0.1:{program.port}",
        "print prepared",
        "break process",
        "continue",
        "backtrace 2",
        "print in->length > 0",
        "next",
        "info threads",
        "kill",
    ]
    done = subprocess.run(
        [str(GDB), "-nx", "-batch", *(x for one in commands for x in ("-ex", one))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told = done.stdout + done.stderr
    assert "$1 = 42" in told, told
    assert "data-plane.c:8" in told, told
    assert "$2 = 1" in told, told
    program.end()
