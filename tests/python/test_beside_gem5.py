"""The comparison with gem5 can be repeated, and out of order comes near."""

import shutil
from pathlib import Path

import beside_gem5
import pytest

pytestmark = pytest.mark.simulator


@pytest.mark.skipif(
    shutil.which("riscv64-unknown-elf-gcc") is None, reason="gem5 ran the code of this compiler"
)
@pytest.mark.parametrize("program", list(beside_gem5.GEM5))
def test_out_of_order_comes_near(tmp_path: Path, program: str) -> None:
    elf = tmp_path / f"{program}.elf"
    beside_gem5.build(program, elf)
    core = "out of order"
    here = beside_gem5.measure(elf, program, beside_gem5.CORES[core])
    # docs/appendix/substrate-beside-gem5.md explains the rest, up to an eighth.
    assert here == pytest.approx(beside_gem5.GEM5[program].cycles_per_instruction(core), rel=0.15)
