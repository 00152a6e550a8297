"""The transactional store: serializability, TPC-C's conditions, and requests behind queues."""

import re
import struct
from collections import Counter
from pathlib import Path

import pytest

from command_line import completed
from nanoplane import simulator
from nanoplane.description import Description
from test_stores import DONE, NOT_FOUND, elf, run

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
STORE = "transactional-store"
KINDS = ["new-order", "payment", "order-status", "delivery", "stock-level"]
SMALL = (
    "traffic.operations.warehouses=2",
    "data_plane.parameters.items=500",
    "data_plane.parameters.customers=30",
    "data_plane.parameters.spare_mib=1",
)


def execute(*settings: str) -> str:
    program = str(ROOT / "guest/tests/transactions.c")
    done = completed("exec", program, *(part for one in settings for part in ("--set", one)))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 4])
def test_transactions_are_serializable(threads: int) -> None:
    """Repeated one by one, in the order in which they happened, they answer and leave the same.

    They happen between the locks and the validation (Silo, Section 4.4). TIDs follow the paper's
    rule, rows end up with the TID of the last one that wrote them, and TPC-C's consistency
    conditions 1 to 10 and 12 hold before and after: guest/tests/transactions.c.
    """
    machine = [f"server.fabric.cores={4 // threads}", f"server.core.threads={threads}"]
    assert "transactions are serializable" in execute(*machine)


def test_transactions_behind_queues() -> None:
    """Each kind as often as its part of the mix, and numbers that can be true of the data."""
    result = run(
        STORE,
        400,
        *SMALL,
        "traffic.packet_bytes=64",
        "traffic.rate_mrps=0.4",
        "server.data_plane_cores=4",
        "data_plane.organisation=scale-up",
        "data_plane.queues=8",
        "traffic.shape=fully-balanced",
    )
    assert result["errors"] == 0
    assert set(result["by_kind"]) <= set(KINDS)
    counts: Counter[int] = Counter()
    for text in result["captured"]:
        answer = bytes.fromhex(text)
        status, kind, length, _, *words = struct.unpack("<BBHI4Q", answer)
        counts[kind] += 1
        assert length == 32
        if kind == 3 and status == DONE:
            number, total = words[0], words[1]
            # The district's first new order; 15 lines of 10 at 100 and 20 and 20 % of tax.
            assert number > 30
            assert 0 < total < 15 * 10 * 10_000 * 1.4
        elif kind != 3:
            assert status == DONE
        if kind == 6:
            assert words[0] <= 10
        assert status in (DONE, NOT_FOUND)
    # 45, 43, 4, 4 and 4 of 100, within four standard deviations of 400 draws.
    for kind, part in zip(range(3, 8), (0.45, 0.43, 0.04, 0.04, 0.04), strict=True):
        deviation = (400 * part * (1 - part)) ** 0.5
        assert abs(counts[kind] - 400 * part) < 4 * deviation


def test_without_warehouses_there_is_a_sentence() -> None:
    with pytest.raises(Exception, match=r"set traffic\.operations\.warehouses"):
        run(STORE, 0)


CHECKED = (
    *SMALL,
    "data_plane.parameters.customers=100",
    "traffic.packet_bytes=64",
    "traffic.shape=fully-balanced",
    "data_plane.queues=16",
    "measure.requests=150",
)
THREADS = ("server.preset=cargo-table5", "server.data_plane_cores=4")
HOLD = re.compile(
    r"TPC-C's consistency conditions 1 to 10 and 12 hold: 2 warehouses, (\d+) orders\."
)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "settings",
    [
        ("server.data_plane_cores=4", "data_plane.notify=spin", "traffic.rate_mrps=0.1"),
        (*THREADS, "data_plane.in_order=false", "traffic.rate_mrps=0.2"),
        # The queues have many requests when the run ends.
        (*THREADS, "traffic.rate_mrps=0.6", "measure.requests=100"),
    ],
    ids=["spin", "hyperplane", "overload"],
)
def test_conditions_are_checked_after_a_run(settings: tuple[str, ...]) -> None:
    """Up to sixteen harts on two warehouses; what was under way at the end is answered."""
    result = run(STORE, 0, *CHECKED, *settings)
    found = HOLD.fullmatch(result["check"])
    assert found is not None
    at_the_beginning = 2 * 10 * 100
    # 45 of 100 requests are new orders; more are answered than are measured.
    assert at_the_beginning + 30 < int(found[1]) < at_the_beginning + result["generated"]


def variant(directory: Path, before: str, after: str = "") -> str:
    """Return the path of the store's program with text before and after it."""
    program = directory / "store.c"
    program.write_text(f'{before}\n#include "{ROOT}/guest/programs/{STORE}.c"\n{after}\n')
    return str(program)


def test_a_lost_update_is_found(tmp_path: Path) -> None:
    """Transactions that validate nothing of what they have read."""
    broken = variant(tmp_path, "#define SILO_HAPPENS(transaction) ((transaction)->reads = 0)")
    sentence = r"in check_after_run\(\); it said: Consistency condition \d+ of warehouse [12]"
    with pytest.raises(Exception, match=sentence):
        run(broken, 0, *THREADS, *CHECKED, "traffic.rate_mrps=0.2")


def test_a_row_that_stays_locked_is_found(tmp_path: Path) -> None:
    broken = variant(
        tmp_path,
        "#define check_after_run check_conditions",
        "#undef check_after_run\n"
        "static void lock(const struct masstree_record *record, void *with) {\n"
        "  (void)with;\n"
        "  silo_lock(silo_row_of((struct masstree_record *)record));\n"
        "}\n"
        "int check_after_run(void) {\n"
        "  tpcc_walk(&transactional_store.warehouse, lock, NULL);\n"
        "  return check_conditions();\n"
        "}",
    )
    with pytest.raises(Exception, match="The row with the key 1 0 is locked"):
        run(broken, 0, *CHECKED, "traffic.rate_mrps=0.02")


def test_the_check_changes_no_result(tmp_path: Path) -> None:
    """The same program without the symbol by which its check is found gives the same."""
    description = Description.from_dict(
        {
            "server": {"preset": "cargo-table5", "data_plane_cores": 4},
            "data_plane": {"program": STORE, "notify": "hyperplane", "queues": 16},
            "traffic": {"rate_mrps": 0.2, "shape": "fully-balanced", "packet_bytes": 64},
            "measure": {"requests": 100, "warmup": 0},
        }
    )
    for assignment in SMALL:
        description = description.assign(assignment)
    resolved, program = description.resolve(), elf(STORE)
    assert b"\0check_after_run\0" in program
    without = program.replace(b"\0check_after_run\0", b"\0check_after_fun\0")
    results = [
        dict(simulator.run(resolved.data, one, {}, files=resolved.contents()))
        for one in (program, without)
    ]
    assert HOLD.fullmatch(str(results[0].pop("check")))
    for result in results:
        for of_host in [key for key in result if key.startswith("host_")]:
            del result[of_host]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return 3;", r"the program returned 3 from check_after_run\(\)$"),
        ('printf("Seven.\\n"); return -1;', r"returned -1 from .*; it said: Seven\."),
        ("*(volatile int *)8 = 1; return 0;", r"crashed: hart 0, .* \(check_after_run"),
    ],
    ids=["status", "words", "crash"],
)
def test_what_a_check_can_say(tmp_path: Path, body: str, sentence: str) -> None:
    program = tmp_path / "checked.c"
    program.write_text(
        "#include <data_plane.h>\n#include <stdio.h>\n"
        "static void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {\n"
        "  (void)queue;\n  out->length = in->length;\n}\n"
        f"int check_after_run(void) {{ {body} }}\n"
        "int main(void) { return data_plane(); }\n"
    )
    description = Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1"},
            "data_plane": {"program": str(program), "notify": "spin", "queues": 1},
            "traffic": {"rate_mrps": 0.1},
            "measure": {"requests": 100, "warmup": 0},
        }
    )
    resolved = description.resolve()
    with pytest.raises(Exception, match=sentence):
        simulator.run(
            resolved.data, elf(str(program.with_suffix(""))), {}, files=resolved.contents()
        )
