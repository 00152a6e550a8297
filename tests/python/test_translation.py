"""Address translation, from the command line."""

import json
from pathlib import Path

import pytest

from command_line import nanoplane

pytestmark = pytest.mark.simulator

PAGES = 2048
"""More than the second-level TLB has of 4 KB: 1536."""

CHASE = f"""
#include <stdint.h>
static uint64_t ring[{PAGES}][512] __attribute__((aligned(4096)));
int main(void) {{
  for (uint64_t page = 0; page < {PAGES}; page++)
    ring[page][page % 512] =
        (uint64_t)&ring[(page + 1) % {PAGES}][(page + 1) % {PAGES} % 512];
  volatile uint64_t *place = (volatile uint64_t *)ring;
  for (int step = 0; step < 4 * {PAGES}; step++) place = (volatile uint64_t *)*place;
  return place != (volatile uint64_t *)ring;
}}
"""


@pytest.mark.parametrize(("page", "levels"), [("4KB", 4), ("2MB", 3), ("1GB", 2)])
def test_a_pointer_chase_misses_what_the_tlbs_cannot_have(
    page: str, levels: int, tmp_path: Path
) -> None:
    program, stats = tmp_path / "chase.c", tmp_path / "stats.json"
    program.write_text(CHASE)
    settings = ("server.fabric.cores=1", f"server.core.translation.page={page}")
    options = [part for setting in settings for part in ("--set", setting)]
    nanoplane("exec", program, *options, "--stats", stats)
    counts = json.loads(stats.read_text())["cores"][0]["translation"]
    walks = counts["l2_tlb_misses"]
    assert counts["page_walk_loads"] == levels * walks
    # A hit of the data cache takes 4 cycles.
    assert counts["page_walk_cycles"] >= 4 * counts["page_walk_loads"]
    if page == "4KB":
        # Each page is written once and read four times, and never still in a TLB.
        assert walks >= 5 * PAGES
        assert counts["l1_data_tlb_misses"] >= walks - counts["l1_instruction_tlb_misses"]
    else:
        # 8 MB, code and stack are in a handful of pages, for which accesses walk at first.
        assert walks < PAGES / 20
