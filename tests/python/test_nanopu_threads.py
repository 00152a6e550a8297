"""nanoPU's threads: the kernel in lnic_threads.h, on the simulated hardware."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nanoplane import cli

pytestmark = pytest.mark.simulator

GUEST = Path(__file__).parents[2] / "guest"


def swaps(*settings: str) -> list[int]:
    """Return the cycles of each swap from one thread to the other in guest/tests/nanopu-swap.c."""
    arguments = ["exec", "--preset", "nanopu-prototype", str(GUEST / "tests" / "nanopu-swap.c")]
    for setting in ("server.memory_mib=64", *settings):
        arguments += ["--set", setting]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    return [int(line) for line in done.output.split()]


def test_a_swap_takes_as_long_as_its_instructions() -> None:
    cycles = swaps()
    # The kernel saves and restores 29 registers of 8 bytes, one each cycle; with its other
    # instructions, some 40, and seven CSRs of five cycles each, that is 130. The paper's takes 160.
    assert len(cycles) == 8
    assert all(110 <= swap <= 200 for swap in cycles[2:]), cycles


def test_a_timer_swaps_when_it_ticks() -> None:
    # 500 ns are 1600 cycles of 3.2 GHz: the first thread goes on until the next tick.
    hardware, timer = (
        swaps(),
        swaps("server.nanopu.scheduler=timer", "server.nanopu.timer_interval_ns=500"),
    )
    assert max(timer) <= max(hardware) + 1600
    assert sum(timer) > 2 * sum(hardware)
