"""The three programs that gem5 ran, on a server described as gem5's: `make beside-gem5`.

gem5 is no authority, but a second opinion by others. Its figures are for v24.0.0.1 in system-call
emulation: O3 and Minor, the programs compiled by gcc 12.2 with -O2 for Linux. Here they run without
an operating system; the compiler has to be gcc 12, for another one's code has other instructions.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nanoplane import compiler

PROGRAMS = Path(__file__).parent

# What both have: one core at 3 GHz, L1 caches of 32 KB with 4 ways and 4 outstanding misses, an L2
# cache of 1 MB behind a crossbar, memory of 30 ns.
_COMMON = {
    "core.l1_data.size_bytes": 32 * 1024,
    "core.l1_data.ways": 4,
    "core.l1_data.mshrs": 4,
    "core.l1_instruction.size_bytes": 32 * 1024,
    "core.l1_instruction.ways": 4,
    "fabric.cores": 1,
    "fabric.clock_ghz": 3.0,
    "fabric.last_level.size_bytes_per_bank": 1024 * 1024,
    "fabric.last_level.ways": 16,
    "fabric.mesh.columns": 1,
    "fabric.mesh.rows": 1,
    "fabric.mesh.link_bytes": 64,
    "fabric.memory.controllers": 1,
    "fabric.memory.latency_ns": 30.0,
    "fabric.memory.bandwidth_gb_per_s": 25.6,
}


def _unit(ports: int, latency_cycles: int, pipelined: bool = True) -> dict[str, object]:
    return {"ports": ports, "latency_cycles": latency_cycles, "pipelined": pipelined}


CORES: Mapping[str, Mapping[str, object]] = {
    # 30 cycles from a load to its value out of the last-level cache.
    "out of order": {**_COMMON, "fabric.last_level.latency_cycles": 22},
    # Minor: two wide, four stages of which the first waits two cycles for the instruction cache.
    # gem5's L2 answers a load after 2 + 1 + 20 + 1 + 2 cycles: L1, crossbar, L2, crossbar, L1.
    "in order": {
        **_COMMON,
        "core.model": "in-order",
        "core.width": 2,
        "core.rob_entries": 16,
        "core.load_queue_entries": 8,
        "core.store_queue_entries": 5,
        "core.front_end_cycles": 7,
        "core.l1_data.hit_latency_cycles": 2,
        "core.units.integer": _unit(2, 1),
        "core.units.multiply": _unit(1, 4),
        "core.units.divide": _unit(1, 33, pipelined=False),
        "core.units.load": _unit(1, 2),
        "fabric.last_level.latency_cycles": 21,
    },
}


@dataclass(frozen=True)
class Gem5:
    """What gem5 reports, and what the program prints."""

    instructions: int
    out_of_order_cycles: int
    in_order_cycles: int
    output: str

    def cycles_per_instruction(self, core: str) -> float:
        """Return gem5's figure for the core of the same name."""
        cycles = self.out_of_order_cycles if core == "out of order" else self.in_order_cycles
        return cycles / self.instructions


GEM5 = {
    "sort": Gem5(10_544_375, 10_549_040, 20_053_054, "3500337677620339087\n"),
    "poll": Gem5(9_455_747, 10_991_077, 46_287_627, "23984 0\n"),
    "hash": Gem5(3_602_750, 6_435_738, 17_492_351, "3207906368\n"),
}

# Each one number away from the description, to see what a difference is made of.
EXPERIMENTS: list[tuple[str, str, dict[str, object]]] = [
    ("sort", "out of order", {"core.front_end_cycles": 11}),
    ("poll", "out of order", {"core.l1_data.mshrs": 8}),
    ("poll", "out of order", {"fabric.last_level.latency_cycles": 18}),
    ("hash", "out of order", {"core.front_end_cycles": 11}),
    ("hash", "out of order", {"fabric.memory.latency_ns": 34.0}),
    ("hash", "out of order", {"fabric.memory.bandwidth_gb_per_s": 12.8}),
    (
        "hash",
        "out of order",
        {
            "core.front_end_cycles": 11,
            "fabric.memory.latency_ns": 34.0,
            "fabric.memory.bandwidth_gb_per_s": 12.8,
        },
    ),
    ("sort", "in order", {"core.front_end_cycles": 8}),
    ("sort", "in order", {"core.l1_data.hit_latency_cycles": 3}),
    ("poll", "in order", {"fabric.last_level.latency_cycles": 24}),
    ("hash", "in order", {"core.store_queue_entries": 8}),
    ("hash", "in order", {"fabric.memory.latency_ns": 34.0}),
]


def build(program: str, elf: Path) -> None:
    """Compile one of the programs with gcc, as a guest."""
    runtime = compiler.GUEST.resolve() / "runtime"
    subprocess.run(
        [
            *compiler._GCC,
            *compiler._FLAGS,
            f"-Wl,-T,{runtime / 'guest.ld'}",
            f"-I{compiler.GUEST.resolve() / 'include'}",
            *map(str, sorted(runtime.glob("*.[Sc]"))),
            str(PROGRAMS / f"{program}.c"),
            "-lgcc",
            "-o",
            str(elf),
        ],
        check=True,
        capture_output=True,
    )


def measure(elf: Path, program: str, settings: Mapping[str, object]) -> float:
    """Run a program on a server; return its cycles for each instruction."""
    stats = elf.with_suffix(".json")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nanoplane", "exec", str(elf), "--stats", str(stats)),
            *(f"--set=server.{key}={_toml(value)}" for key, value in settings.items()),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.stdout != GEM5[program].output:
        raise AssertionError(f"{program} printed {done.stdout!r}")
    result = json.loads(stats.read_text())
    return float(result["cycles"] / result["instructions"])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(of)}" for key, of in value.items()) + "}"
    return json.dumps(value)


def main() -> None:
    """Print gem5's figures beside those measured here."""
    runs: list[tuple[str, str, dict[str, object]]]
    runs = [(program, core, {}) for core in CORES for program in GEM5]
    table = Table("program", "core", "changed", "gem5", "here", "difference")
    with tempfile.TemporaryDirectory() as scratch:
        elfs = {program: Path(scratch) / f"{program}.elf" for program in GEM5}
        for program, elf in elfs.items():
            build(program, elf)
        for program, core, changed in [*runs, *EXPERIMENTS]:
            here = measure(elfs[program], program, {**CORES[core], **changed})
            gem5 = GEM5[program].cycles_per_instruction(core)
            table.add_row(
                program,
                core,
                ", ".join(f"{key} = {value}" for key, value in changed.items()),
                f"{gem5:.2f}",
                f"{here:.2f}",
                f"{here / gem5 - 1:+.0%}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
