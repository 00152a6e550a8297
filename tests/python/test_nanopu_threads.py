"""nanoPU's threads: the kernel in lnic_threads.h, on the simulated hardware."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulator

GUESTS = Path(__file__).parents[2] / "guest" / "tests"


def swaps() -> list[int]:
    """Return the cycles of each swap from one thread to the other in nanopu-swap.c."""
    command = [sys.executable, "-m", "nanoplane", "exec", "--preset", "nanopu-prototype"]
    command += ["--set", "server.memory_mib=64", str(GUESTS / "nanopu-swap.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def test_a_swap_takes_as_long_as_its_instructions() -> None:
    cycles = swaps()
    # The kernel saves and restores 29 registers of 8 bytes, one each cycle; with its other
    # instructions, some 40, and nine CSRs of four to eight cycles each, that is 150. "160 cycles,
    # or 50ns on a 3.2GHz CPU" (Section 3.2). The first swap meets cold caches, and saves the
    # floating-point registers, which are not touched any more.
    assert len(cycles) == 8
    assert cycles[0] > cycles[1]
    assert all(120 <= swap <= 180 for swap in cycles[1:]), cycles
