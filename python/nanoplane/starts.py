"""Rates that the figures' saturated runs and searches begin with: starts.csv.

A saturated run needs an offered load, and a search a load near its answer. Both follow from
measurements, so that only their results can say where to begin: starts.csv has the offered load of
each saturated run of the figures, and the last two loads of each search of `--quick`, as an earlier
version found them. They are checked like any other: a run that they do not saturate is repeated,
and a search continues until it ends by its own rule. A wrong start thus costs time, and an unknown
one, too. `make starts` writes the file.
"""

import csv
import functools
import hashlib
import importlib.resources
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanoplane.description import Description
    from nanoplane.load_search import Limit

FILE = "starts.csv"
_PACKAGE = str(Path(__file__).parent)
COLUMNS = ("run", "least_mrps", "most_mrps", "name")
"""The run's identity, its rates, and what the figure calls it. A saturated run has one rate."""


def _without_measure(description: "Description | None") -> str:
    """Return the canonical text of a description, without how long it is measured."""
    data = {} if description is None else description.data
    data.pop("measure", None)
    # Recorded times are files of this package, wherever that is.
    return json.dumps(data, sort_keys=True).replace(json.dumps(_PACKAGE)[1:-1], "")


@functools.lru_cache(maxsize=1024)
def identity(
    description: "Description", limit: "Limit | None" = None, peak: "Description | None" = None
) -> str:
    """Return what identifies a saturated run, or the search for a limit that a peak determines."""
    text = "\n".join((_without_measure(description), repr(limit), _without_measure(peak)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def known() -> dict[str, tuple[float, ...]]:
    """Return the rates of all known runs by their identities, in millions a second, ascending."""
    text = (importlib.resources.files("nanoplane") / FILE).read_text(encoding="utf-8")
    return {
        row["run"]: tuple(sorted({float(row["least_mrps"]), float(row["most_mrps"])}))
        for row in csv.DictReader(text.splitlines())
    }
