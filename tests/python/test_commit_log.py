"""`--log`: what retires, in the format of Spike's log of commits."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import completed
from nanoplane import simulator

pytestmark = pytest.mark.simulator

# Instructions of the block are 4 bytes each; the first of them does nothing, and is found by that.
PROGRAM = """
#include <stdint.h>
static uint64_t cell = 0x1122334455667788;
static double half = 0.5;
int main(void) {
  uint64_t *place = &cell;
  double *number = &half;
  __asm__ volatile(
      ".option push\\n.option norvc\\n.balign 4\\n"
      "slti zero, zero, 0x123\\n"
      "mv a0, %0\\n"
      "mv a1, %1\\n"
      "lui t0, 0x12345\\n"
      "ld t1, 0(a0)\\n"
      "sw t0, 4(a0)\\n"
      "lbu t2, 7(a0)\\n"
      "fld ft0, 0(a1)\\n"
      "fadd.d ft1, ft0, ft0\\n"
      "fsd ft1, 0(a1)\\n"
      "amoadd.w t3, t1, (a0)\\n"
      "amoor.d zero, t0, (a0)\\n"
      "lr.d t4, (a0)\\n"
      "sc.d t5, t0, (a0)\\n"
      "sc.d t6, t0, (a0)\\n"
      "beq zero, zero, 1f\\n"
      "nop\\n"
      "1: jal t0, 2f\\n"
      "2: csrrw t1, fcsr, zero\\n"
      "csrrwi zero, frm, 1\\n"
      "csrrci t1, frm, 1\\n"
      ".option pop\\n"
      : : "r"(place), "r"(number)
      : "a0", "a1", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "ft0", "ft1", "memory");
  return 3;
}
"""

# A at the first number is the cell, B the other; P is the address of the first instruction.
EXPECTED = """
3 {P+4} (0x........) x10 {A}
3 {P+8} (0x........) x11 {B}
3 {P+12} (0x123452b7) x5  0x0000000012345000
3 {P+16} (0x00053303) x6  0x1122334455667788 mem {A}
3 {P+20} (0x00552223) mem {A+4} 0x12345000
3 {P+24} (0x00754383) x7  0x0000000000000012 mem {A+7}
3 {P+28} (0x0005b007) f0  0x3fe0000000000000 mem {B}
3 {P+32} (0x020070d3) f1  0x3ff0000000000000
3 {P+36} (0x0015b027) mem {B} 0x3ff0000000000000
3 {P+40} (0x00652e2f) x28 0x0000000055667788 mem {A} mem {A} 0xaaccef10
3 {P+44} (0x4055302f) mem {A} mem {A} 0x12345000bafcff10
3 {P+48} (0x10053eaf) x29 0x12345000bafcff10 mem {A}
3 {P+52} (0x18553f2f) x30 0x0000000000000000 mem {A} 0x0000000012345000
3 {P+56} (0x18553faf) x31 0x0000000000000001
3 {P+60} (0x00000463)
3 {P+68} (0x004002ef) x5  {P+72}
3 {P+72} (0x00301373) c1_fflags 0x0000000000000000 c2_frm 0x0000000000000000 x6  0x000000000000000.
3 {P+76} (0x0020d073) c2_frm 0x0000000000000001
3 {P+80} (0x0020f373) c2_frm 0x0000000000000000 x6  0x0000000000000001
"""

LINE = re.compile(
    r"core {0,3}\d+: [013] 0x[0-9a-f]{16} \(0x([0-9a-f]{4}|[0-9a-f]{8})\)"
    r"( c\d+_\w+ 0x[0-9a-f]{16}| [xf]\d{1,2} {1,2}0x[0-9a-f]{16})*"
    r"( mem 0x[0-9a-f]{16})?( mem 0x[0-9a-f]{16} 0x([0-9a-f]{2}){1,8})?"
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    Path("program.c").write_text(PROGRAM)


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def block(log: list[str]) -> list[str]:
    """The lines behind the instruction that does nothing, without their beginning."""
    (first,) = (number for number, line in enumerate(log) if "(0x12302013)" in line)
    return [line.removeprefix("core   0: ") for line in log[first : first + 20]]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--functional",),
        ("--preset", "nanopu-prototype"),
        ("--set", "simulator.lookahead_cycles=1"),
    ],
)
def test_lines_are_those_of_spike(options: tuple[str, ...]) -> None:
    done = completed("exec", "program.c", "--log", "t.log", *options)
    assert done.returncode == 3, done.stderr
    log = lines("t.log")
    found = block(log)
    place, cell, number = (
        int(found[line].split()[word], 16) for line, word in ((0, 1), (1, 4), (2, 4))
    )

    def written(match: re.Match[str]) -> str:
        value = {"P": place, "A": cell, "B": number}[match[1]] + int(match[2] or 0)
        return f"0x{value:016x}"

    expected = re.sub(r"\{([PAB])(?:\+(\d+))?\}", written, EXPECTED.strip()).splitlines()
    assert len(expected) == len(found) - 1
    for line, wanted in zip(found[1:], expected, strict=True):
        assert re.fullmatch(re.sub(r"([()])", r"\\\1", wanted), line), wanted
    for line in log:
        assert LINE.fullmatch(line), line


def test_a_log_changes_no_result() -> None:
    results = []
    for options in ((), ("--log", "t.log")):
        done = completed("exec", "program.c", "--stats", "stats.json", *options)
        assert done.returncode == 3, done.stderr
        results.append(simulator.without_host(json.loads(Path("stats.json").read_text())))
    plain, logged = results
    (report,) = logged.pop("traces")
    assert plain == logged
    log = lines("t.log")
    assert report == {"path": "t.log", "entries": len(log), "error": None}
    # What is in the reorder buffers at the end has not retired.
    for number, core in enumerate(logged["cores"]):
        own = sum(line.startswith(f"core{number:4}: ") for line in log)
        assert 0 <= core["instructions"] - own <= 192


def test_the_log_of_a_data_plane_has_a_window() -> None:
    Path("data-plane.toml").write_text(
        """
server = { preset = "hyperplane-table1", data_plane_cores = 2 }
data_plane = { program = "packet-encapsulation", notify = "hyperplane", queues = 20 }
traffic = { shape = "fully-balanced", rate_mrps = 0.5 }
measure.requests = 300
"""
    )
    window = ("--trace-window", "100us..110us")
    run = ("run", "data-plane.toml", "--json")
    plain = json.loads(completed(*run).stdout)
    done = completed(*run, "--log", "t.log", *window)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["latency_ns"] == plain["latency_ns"]
    log = lines("t.log")
    assert {line[:9] for line in log} == {"core   0:", "core   1:"}
    assert 0 < len(log) < plain["instructions"] / 5
    done = completed("exec", "program.c", "--log", "t.log", "--trace-window", "1s..2s")
    assert done.returncode != 0
    assert "nothing happened in 1s..2s" in done.stderr


def first_of(log: list[str], count: int) -> list[str]:
    return [line for line in log if line.startswith("core   0: ")][:count]


def test_timed_and_functional_logs_are_the_same() -> None:
    logs: list[Any] = []
    for options in ((), ("--functional",)):
        done = completed("exec", "program.c", "--log", "t.log", *options)
        assert done.returncode == 3, done.stderr
        logs.append(lines("t.log"))
    timed, functional = logs
    # From main() on, until the host is told: the hart then waits for as long as that takes.
    assert block(timed) == block(functional)
    own = first_of(functional, len(functional))
    assert first_of(timed, len(own)) == own


def test_files_that_cannot_be_written_are_told() -> None:
    Path("t.log").mkdir()
    done = completed("exec", "program.c", "--log", "t.log")
    assert done.returncode not in (0, 3)
    assert "t.log" in done.stderr
    assert "Traceback" not in done.stderr
