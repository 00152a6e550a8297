"""Write the rates that the figures' saturated runs and searches begin with: `make starts`.

It makes the runs of the figures with `--quick` that the store does not have, and writes their
starts into python/nanoplane/starts.csv, which nanoplane/starts.py describes. `ONLY=hyperplane.8`
leaves those of other figures as they are; otherwise what no figure has any more is dropped.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from nanoplane import figures, starts
from nanoplane.description import Description
from nanoplane.outcomes import Outcome
from nanoplane.progress import Progress
from nanoplane.sweep import Run, rate_key, saturates, sweep

Start = tuple[str, float, float, str]
"""The columns of the file."""
FILE = Path(__file__).parents[2] / "python" / "nanoplane" / starts.FILE


def rate_mrps(outcome: Outcome, key: str) -> float:
    """Return the value of a rate's key in a resolved description."""
    value: object = outcome.description
    for name in key.split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]
    assert isinstance(value, float)
    return value


def of_saturated(description: Description, outcome: Outcome) -> list[Start]:
    """Return the start of a saturated run; none if the rate follows from no throughput."""
    mrps = rate_mrps(outcome, "traffic.saturation_rate_mrps")
    if not saturates(mrps, outcome.result):
        return []
    return [(starts.identity(description), mrps, mrps, description.source)]


def of_search(run: Run, outcome: Outcome) -> list[Start]:
    """Return the start of a search: the load found, and the smallest above it."""
    key = rate_key(run.description)
    least = rate_mrps(outcome, key)
    above = [mrps for one in outcome.trials if (mrps := rate_mrps(one, key)) > least]
    if not above:
        return []
    return [
        (
            starts.identity(run.description, run.limit, run.peak),
            least,
            min(above),
            run.description.source,
        )
    ]


def found(runs: list[Run]) -> Iterator[Start]:
    """Make the runs, and return the starts of all that have one."""
    peaks = {run.peak: Run.of(run.peak) for run in runs if run.peak is not None}
    wanted = [*runs, *peaks.values()]
    with Progress() as progress:
        outcomes = sweep(wanted, watcher=progress)
    for run, outcome in zip(wanted, outcomes, strict=True):
        if run.limit is not None and not run.description.is_queueing:
            yield from of_search(run, outcome)
        elif run.peak is None and run.description.seeks_saturation:
            yield from of_saturated(run.description, outcome)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="FIGURE")
    only = parser.parse_args().only
    listed = [figures.find(name) for name in only or figures.figures()]
    rows: dict[str, Start] = {}
    if only:
        with FILE.open(encoding="utf-8", newline="") as file:
            for name, least, most, of in list(csv.reader(file))[1:]:
                rows[name] = (name, float(least), float(most), of)
    for figure in listed:
        runs = list(figures.chosen([figure], True).values())
        rows |= {row[0]: row for row in found(runs)}
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(starts.COLUMNS)
        by_name: list[Start] = sorted(rows.values(), key=lambda row: (row[3], row[0]))
        writer.writerows(by_name)
    print(f"{len(rows)} starts are in {FILE}")


if __name__ == "__main__":
    main()
