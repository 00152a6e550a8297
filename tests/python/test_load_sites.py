"""Accesses and lines of loads, counted while a server runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import nanoplane
from nanoplane import simulator
from test_critical_region import resolve
from test_stores import elf

pytestmark = pytest.mark.simulator

PROGRAM = """
#include <runtime.h>

static _Alignas(64) uint64_t words[8 * 10];

/* Ten words, a line each; every second one is loaded once more. */
__attribute__((noinline)) uint64_t walk(void) {
  uint64_t sum;
  __asm__ volatile("li %0, 0\\n"
                   "li t0, 10\\n"
                   "mv t1, %1\\n"
                   "1: ld t2, 0(t1)\\n"
                   "add %0, %0, t2\\n"
                   "andi t3, t0, 1\\n"
                   "beqz t3, 2f\\n"
                   "lb t2, 7(t1)\\n"
                   "2: addi t1, t1, 64\\n"
                   "addi t0, t0, -1\\n"
                   "bnez t0, 1b\\n"
                   : "=&r"(sum)
                   : "r"(words)
                   : "t0", "t1", "t2", "t3", "memory");
  return sum;
}

int main(void) { return walk() + walk() != 0; }
"""


def counts(path: Path, *settings: str) -> dict[str, Any]:
    source = path / "walk.c"
    source.write_text(PROGRAM)
    stats = path / "stats.json"
    arguments = [part for one in settings for part in ("--set", one)]
    nanoplane("exec", source, "--preset", "cargo-table5", "--stats", stats, *arguments)
    result: dict[str, Any] = json.loads(stats.read_text())
    return result


def test_a_program_whose_loads_were_counted_by_hand(tmp_path: Path) -> None:
    """Ten loads a walk, and five; nothing of wrong paths, which the branches have."""
    found = counts(tmp_path, 'server.load_sites.functions=["walk"]')["load_sites"]
    assert (found["instructions"], found["accesses"]) == (2, 30)
    words, bytes_ = found["sites"]
    assert (words["function"], words["text"]) == ("walk", "ld t2, 0(t1)")
    assert (words["accesses"], words["lines"]) == (20, 10)
    assert (bytes_["text"], bytes_["accesses"], bytes_["lines"]) == ("lb t2, 7(t1)", 10, 5)
    assert bytes_["pc"] - words["pc"] == bytes_["offset"] - words["offset"] > 0
    # Each line comes once, for the first load of it, and nobody has had it.
    assert (words["misses"], words["second_level_misses"]) == (10, 10)
    assert (bytes_["misses"], bytes_["second_level_misses"]) == (0, 0)


def test_counting_changes_no_other_result(tmp_path: Path) -> None:
    with_counts, plain = counts(tmp_path, "server.load_sites={}"), counts(tmp_path)
    assert with_counts.pop("load_sites")["accesses"] > 30
    hosts = {"host_seconds", "host_wall_seconds", "host_mips", "host_skipped_cycles"}
    for result in (with_counts, plain):
        for name in hosts:
            result.pop(name)
    assert with_counts == plain


def test_only_the_most_frequent_loads_are_listed(tmp_path: Path) -> None:
    settings = ('server.load_sites.functions=["walk"]', "server.load_sites.sites=1")
    found = counts(tmp_path, *settings)["load_sites"]
    assert [site["accesses"] for site in found["sites"]] == [20]
    assert found["instructions"] == 2


def test_the_loads_of_a_data_plane_beside_another_observer() -> None:
    """The instrument sees the same with and without hardware that observes the cores."""
    sites = "server.load_sites.functions=['memcache_find']"
    found = []
    for settings in ((sites,), (sites, "server.critical_region.epoch_misses=64")):
        resolved = resolve(*settings)
        result = simulator.run(resolved.data, elf("object-cache"), files=resolved.contents())
        found.append(result["load_sites"])
    assert found[0] == found[1]
    # The table's address and mask are in one line.
    assert min(site["lines"] for site in found[0]["sites"]) == 1


def test_a_function_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "walk.c").write_text(PROGRAM)
    wrong = ("--set", 'server.load_sites.functions=["run"]')
    error = nanoplane("exec", tmp_path / "walk.c", *wrong, status=2)
    assert 'server.load_sites.functions: the program has no function "run"' in error
