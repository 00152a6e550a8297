"""nanoPU's threads: the kernel in lnic_threads.h, on the simulated hardware."""

import re
from pathlib import Path

import pytest

from command_line import completed

pytestmark = pytest.mark.simulator

GUESTS = Path(__file__).parents[2] / "guest"
PROTOTYPE = ("--preset", "nanopu-prototype", "--set", "server.memory_mib=64")


def output(guest: str, *options: str) -> list[str]:
    """Return the lines that a guest program prints."""
    done = completed("exec", *PROTOTYPE, *options, GUESTS / guest)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def swaps() -> dict[str, int]:
    """Return the cycles of the first swap, and the median and the longest of a thousand others."""
    first, others = output("programs/nanopu/swap.c")
    found = [re.search(r"p50 (\d+) .*longest (\d+)$", line) for line in (first, others)]
    assert all(found)
    (first_median, _), (median, longest) = (map(int, one.groups()) for one in found if one)
    return {"first": first_median, "median": median, "longest": longest}


MAX_CYCLES, WELL_BEHAVED_CYCLES = 3200, 3000
"""In nanopu-bound.c: t_0, and what the well-behaved thread works."""
TICK_CYCLES = 16_000
"""Of the paper's TIS: 5 us."""


def responses(*options: str) -> dict[int, list[int]]:
    """Return the response times of the well-behaved thread, in cycles, by how many others delay it.

    The first of each meets cold caches.
    """
    found: dict[int, list[int]] = {}
    for line in output("tests/nanopu-bound.c", *options):
        others, cycles = map(int, line.split())
        found.setdefault(others, []).append(cycles)
    assert sorted(found) == [0, 1, 2, 3]
    return found


def test_the_kernel_and_the_hardware_hold_the_bound() -> None:
    found = responses()
    swap_cycles = swaps()["longest"]
    # Alone it runs already, without a swap: beside its work there is only the way of the message.
    alone = min(found[0])
    way_cycles = alone - WELL_BEHAVED_CYCLES
    assert 0 < way_cycles < 120
    for others, cycles in found.items():
        threads = others + 1
        # t_n + k t_0 + (k + 1) t_c (docs/nanopu.md). Each other one has t_0 until it is lowered.
        bound = way_cycles + threads * MAX_CYCLES + (threads + 1) * swap_cycles
        assert all(one <= bound for one in cycles[1:]), (others, cycles)
        assert all(one >= alone + others * MAX_CYCLES for one in cycles[1:]), (others, cycles)


def test_with_a_timer_each_of_the_others_takes_an_interval() -> None:
    found = responses("--set", "server.nanopu.scheduler=timer")
    alone = min(found[0])
    swap_cycles = swaps()["longest"]
    for others in (1, 2, 3):
        # TIS chooses only when it ticks: if the thread does not run already, each of the others
        # has an interval, although it has been lowered, and then it is its turn.
        waits = [one for one in found[others] if one > alone + swap_cycles]
        assert waits
        most = (others + 1) * TICK_CYCLES + alone + swap_cycles
        assert all(others * TICK_CYCLES < one <= most for one in waits), (others, waits)


def test_a_swap_takes_as_long_as_its_instructions() -> None:
    cycles = swaps()
    # The kernel saves and restores 29 registers of 8 bytes, one each cycle; with its other
    # instructions, some 40, and nine CSRs of four to eight cycles each, that is 150. "160 cycles,
    # or 50ns on a 3.2GHz CPU" (Section 3.2). The first swap meets cold caches, and saves the
    # floating-point registers, which are not touched any more.
    assert cycles["first"] > cycles["longest"]
    assert 120 <= cycles["median"] <= cycles["longest"] <= 180, cycles


@pytest.mark.parametrize(
    ("contexts", "sentence"),
    [
        # Section 3.2: "the prototype supports up to four threads on each core".
        ("0, 1, 2, 3, 4", "context 4 cannot be bound: the core has queues for 4 contexts"),
        ("7, 8, 7", "context 7 is in use: it has a thread on this hart already"),
    ],
)
def test_threads_that_cannot_be_are_refused(tmp_path: Path, contexts: str, sentence: str) -> None:
    program = tmp_path / "threads.c"
    program.write_text(
        "#include <lnic_threads.h>\n"
        "static void thread(uint64_t unused) { (void)unused; }\n"
        "int main(void) {\n"
        f"  static const uint64_t contexts[] = {{{contexts}}};\n"
        "  for (uint64_t i = 0; i < sizeof contexts / sizeof *contexts; i++)\n"
        "    lnic_add_thread(contexts[i], 0, thread, 0);\n"
        "  return 0;\n"
        "}\n"
    )
    done = completed("exec", *PROTOTYPE, program)
    assert done.returncode != 0
    assert sentence in done.stderr
