"""The transactional store: serializability, TPC-C's conditions, and requests behind queues."""

import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from test_stores import DONE, NOT_FOUND, run

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
    command = [sys.executable, "-m", "nanoplane", "exec", program]
    assignments = [part for one in settings for part in ("--set", one)]
    done = subprocess.run([*command, *assignments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("threads", [1, 4])
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
