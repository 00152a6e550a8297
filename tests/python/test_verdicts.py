"""The page of all verdicts: release/verdicts.py."""

import re
from pathlib import Path
from typing import Any

import pytest

from nanoplane.claims import DIFFERS, NOT_YET_RUN, REPRODUCED, UNDECIDED, claims
from verdicts import page

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"


def row(verdict: str, **given: Any) -> dict[str, Any]:
    usual = {
        **{"id": "rpcvalet.1.one", "paper": "rpcvalet", "paper_value": 29, "unit": "MRPS"},
        **{"measured": 30.123, "measured_ci95": (29.41, 30.77), "why": "", "verdict": verdict},
    }
    return {**usual, **given}


def test_a_claim_has_a_line_with_both_verdicts() -> None:
    full = {"rpcvalet.1.one": row(REPRODUCED)}
    quick = {"rpcvalet.1.one": row(UNDECIDED, measured_ci95=None)}
    text = page(full, quick, "0.1.0+0123456789abcdef")
    assert "simulator 0.1.0+0123456789ab;" in text
    cells = "29 MRPS | reproduced: 30.12 (29.41 to 30.77) | undecided: 30.12"
    assert f"| `rpcvalet.1.one` | {cells} |" in text
    assert "In full: 1 reproduced." in text
    assert "With `--quick`: 1 undecided." in text
    assert "Why these differ" not in text


def test_claims_that_differ_for_one_reason_share_it() -> None:
    full = {
        f"rpcvalet.1.{name}": row(DIFFERS, id=f"rpcvalet.1.{name}", why="polls overlap")
        for name in ("one", "two")
    }
    missing = {"measured": None, "measured_ci95": None}
    quick = {name: {**one, **missing, "verdict": NOT_YET_RUN} for name, one in full.items()}
    text = page(full, quick, "0.1.0")
    assert "- `rpcvalet.1.one`, `rpcvalet.1.two`: polls overlap" in text
    assert text.count("| not yet run |") == 2


@pytest.mark.parametrize("paper", ["hyperplane", "rpcvalet", "nanopu", "compare"])
def test_the_page_has_all_claims(paper: str) -> None:
    """If this fails, claims have been added or removed: `make verdicts` writes the page again."""
    found = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name in found if name.split(".")[0] == paper} == {
        claim.id for claim in claims(paper)
    }
