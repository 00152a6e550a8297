"""Writes docs/verdicts.md, the verdicts of all claims in full and with --quick: `make verdicts`.

Nothing is run: `nanoplane claims --run`, and the same with `--quick`, make the runs. Both columns
are of the installed simulator, because the store's keys have its version.
"""

import collections
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nanoplane import report, simulator
from nanoplane.claims import BY_CONSTRUCTION, DIFFERS, NOT_YET_RUN, VERDICTS
from nanoplane.papers import modules

Row = Mapping[str, Any]
"""A row of `nanoplane claims --json`."""


def _rows(*options: str) -> dict[str, Row]:
    """Return the claims of all papers by name."""
    command = [sys.executable, "-m", "nanoplane", "claims", "--json", *options]
    return {row["id"]: row for row in json.loads(subprocess.check_output(command, text=True))}


def _cell(row: Row) -> str:
    """Return the verdict, and the measured number with its interval."""
    verdict = str(row["verdict"])
    if row["measured"] is None:
        return verdict
    interval = report.interval(row["measured_ci95"])
    return f"{verdict}: {report.number(row['measured'])}" + (f" ({interval})" if interval else "")


def _counts(rows: Sequence[Row]) -> str:
    """Return how many claims have each verdict."""
    counts = collections.Counter(row["verdict"] for row in rows)
    return ", ".join(report.counted(counts[one], one) for one in VERDICTS if one in counts)


def _claimed(row: Row) -> str:
    """Return the paper's number or the rule, with its unit."""
    value = report.claimed(row["paper_value"])
    has_unit = row["unit"] not in ("", "times") and any(map(str.isdigit, value))
    return f"{value} {row['unit']}" if has_unit else value


def _of_paper(paper: str, full: Mapping[str, Row], quick: Mapping[str, Row]) -> list[str]:
    """Return the part of the page about a paper: counts, the table, and what differs."""
    names = [name for name, row in full.items() if row["paper"] == paper]
    lines = ["", f"## {paper}", ""]
    for title, rows in (("In full", full), ("With `--quick`", quick)):
        lines.append(f"{title}: {_counts([rows[name] for name in names])}.  ")
    lines += ["", "| claim | paper | in full | with `--quick` |", "| --- |" + " --- |" * 3]
    for name in names:
        cells = (f"`{name}`", _claimed(full[name]), _cell(full[name]), _cell(quick[name]))
        lines.append("| " + " | ".join(cells) + " |")
    different: dict[str, list[str]] = {}
    for rows in (full, quick):
        for name in names:
            if rows[name]["verdict"] == DIFFERS:
                of = different.setdefault(rows[name]["why"], [])
                if name not in of:
                    of.append(name)
    if different:
        lines += ["", "Why these differ:", ""]
    for why, of in different.items():
        lines.append(f"- {', '.join(f'`{name}`' for name in of)}: {why}")
    return lines


def _is_judged(row: Row) -> bool:
    """Say whether runs have decided a claim, or have not sufficed to."""
    return row["verdict"] not in (NOT_YET_RUN, BY_CONSTRUCTION)


def page(full: Mapping[str, Row], quick: Mapping[str, Row], version: str) -> str:
    """Return the page as Markdown: the papers of whose claims any has been judged."""
    lines = [
        "# Verdicts",
        "",
        "Every claim with its verdict: the paper's number or the rule, and what was measured, with",
        "its 95 % confidence interval. [figures.md](figures.md#verdicts) explains the verdicts.",
        f"All runs are of simulator {version[:18]}; `nanoplane figure NAME --json` has the command",
        "that repeats each of them. Runs behind an undecided claim were repeated with more",
        "requests (`--effort`). `make verdicts` writes this page from the store.",
    ]
    for paper in modules():
        if any(
            row["paper"] == paper and _is_judged(row) for row in (*full.values(), *quick.values())
        ):
            lines += _of_paper(paper, full, quick)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(page(_rows(), _rows("--quick"), simulator.version()), end="")
