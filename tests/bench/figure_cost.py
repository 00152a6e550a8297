"""What figures cost: `make figure-cost`, and `make figure-cost BASE=v0.1.0` beside a revision.

Users wait for figures, so the measure is processor time, of the command and all that it starts,
with one worker, an empty store and no repetitions of undecided claims (`--effort 1`): the start of
the command, the first figure, and each figure with `--quick`. `FULL=1` has those in full that
docs/performance.md has, which takes hours; `ONLY=text` the rows whose command has that text. Beside
another revision each row runs with both in turn, for what the host does besides changes processor
time by a third.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import speed  # type: ignore[import-not-found]

FIRST = (
    "hyperplane.8 hyperplane.9 --quick --only task=packet-encapsulation "
    "--only notify=spin,hyperplane --only shape=single-queue,fully-balanced --only power=regular"
)
"""As `make run` has it."""
START = ("--version", "run --help", "list")
FULL = ("hyperplane.8", "rpcvalet.7", "compare.key-value")
STARTS = 5
"""How often a start is measured; the least counts."""


def cost(arguments: str, package: Path | None) -> float:
    """Return the processor seconds of a command with an empty store, the kernel's included."""
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    with tempfile.TemporaryDirectory() as directory:
        environment["NANOPLANE_STORE"] = str(Path(directory) / "store")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "nanoplane", *arguments.split()],
            check=True,
            cwd=directory,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(full: bool) -> list[str]:
    """Return the commands to measure."""
    listed = subprocess.check_output(
        [sys.executable, "-m", "nanoplane", "list", "--json"], text=True
    )
    quick = [f"figure {name} --quick" for name in json.loads(listed)["figures"]]
    names = [f"figure {name}" for name in FULL] if full else []
    every = [*START, f"figure {FIRST}", *names, *quick]
    once = "--workers 1 --effort 1"
    return [f"{row} {once}" if row.startswith("figure") else row for row in every]


def main() -> None:
    """Measure every row and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="REVISION", help="a revision, or its package's folder")
    parser.add_argument("--full", action="store_true", help="the figures in full, too")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in them")
    parser.add_argument("--row", action="append", metavar="ARGUMENTS", help="this command instead")
    options = parser.parse_args()
    base = None
    if options.beside:
        is_package = Path(options.beside).is_dir()
        base = Path(options.beside).resolve() if is_package else speed.build(options.beside)
    print(
        "| command | before | now |\n| --- | --- | --- |"
        if base
        else "| command | s |\n| --- | --- |"
    )
    for row in options.row or [row for row in rows(options.full) if options.only in row]:
        times = 1 if row.startswith("figure") else STARTS
        measured: dict[Path | None, list[float]] = {base: [], None: []}
        for _ in range(times):
            for package, seconds in measured.items():
                seconds.append(cost(row, package))
        found = " | ".join(f"{min(seconds):.2f}" for seconds in measured.values())
        print(f"| `{row}` | {found} |", flush=True)


if __name__ == "__main__":
    main()
