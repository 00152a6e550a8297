"""Comparison of two results: differences in their descriptions and in their measurements."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanoplane import machines
from nanoplane.errors import DescriptionError
from nanoplane.outcomes import measurement
from nanoplane.store import Store

MEASURES: tuple[str, ...] = (
    "throughput_mrps",
    "throughput",
    *(f"latency_ns.{name}" for name in ("mean", "p50", "p90", "p99", "p999")),
    *(f"latency_service_times.{name}" for name in ("mean", "p50", "p90", "p99", "p999")),
    "service_ns.mean",
    "energy_nj.per_request",
    "exit_status",
    "instructions",
    "cycles",
    "simulated_seconds",
)
"""The numbers that are compared if both results have them."""

SAME = "within the intervals"
DIFFERS = "differs"
EQUAL = "equal"
NO_INTERVAL = "no interval"


@dataclass(frozen=True, slots=True)
class Side:
    """A result, and its source."""

    name: str
    """As the user named it."""
    result: Mapping[str, Any]
    description: Mapping[str, Any] | None
    """Resolved; None if the result's file does not have it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose value differs between two descriptions; None if one of them does not have it."""

    key: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A number of two results."""

    name: str
    first: float
    second: float
    ratio: float | None
    """The second over the first; None if the first is zero."""
    ratio_ci95: tuple[float, float] | None
    """Its 95 % confidence interval; None if one of the numbers has none."""
    verdict: str
    """EQUAL; DIFFERS or SAME, by whether the interval of the ratio excludes 1; or NO_INTERVAL."""


def read(name: str, store: Store | None = None) -> Side:
    """Return the result that a user names: a JSON file, or a key of the store.

    The file is the output of `run --json` or of `exec --stats`; a unique prefix of a key is enough.
    Raises a DescriptionError if there is no such result.
    """
    path = Path(name)
    if path.is_file():
        return _read_file(path)
    store = Store() if store is None else store
    keys = store.keys(name) if name and set(name) <= set("0123456789abcdef") else []
    if len(keys) > 1:
        raise DescriptionError(f"{len(keys)} keys of {store.path} begin with {name}: write more")
    if not keys:
        raise DescriptionError(
            f"{name}: there is no such file, and no key of {store.path} begins with it; "
            "`nanoplane run --json` prints a result and its key"
        )
    (key,) = keys
    found = store.entry(key)
    if found is None:
        raise DescriptionError(f"{name}: its row in {store.path} is damaged")
    description, result = found
    return Side(name, result, description)


def _read_file(path: Path) -> Side:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DescriptionError(f"{path}: this is not JSON: {error}") from None
    if not isinstance(document, dict) or all(number(document, one) is None for one in MEASURES):
        raise DescriptionError(
            f"{path}: this is not a result, as `nanoplane run --json` prints one"
        )
    return Side(str(path), document, document.get("description"))


def changes(first: Side, second: Side) -> list[Change]:
    """Return the keys in which two descriptions differ, in order; empty if one is unknown.

    The table `simulator` changes no result, and is omitted.
    """
    if first.description is None or second.description is None:
        return []
    one, two = (dict(machines.leaves(side.description or {})) for side in (first, second))
    return [
        Change(key, one.get(key), two.get(key))
        for key in dict.fromkeys([*one, *two])
        if one.get(key) != two.get(key) and not key.startswith("simulator.")
    ]


def differences(first: Side, second: Side) -> list[Difference]:
    """Return the numbers that both have, in the order of `MEASURES`."""
    found = []
    for name in MEASURES:
        one, two = number(first.result, name), number(second.result, name)
        if one is not None and two is not None:
            found.append(_difference(name, one, two))
    return found


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a result."""

    value: float
    ci95: tuple[float, float] | None
    """Its 95 % confidence interval, if the result has one."""


def number(result: Mapping[str, Any], name: str) -> Number | None:
    """Return a number of a result by its dotted name, None if it has none.

    For a rack, the measurement is that of all its clients together.
    """
    *tables, last = name.split(".")
    for start in (measurement(result), result):
        value: Any = start
        for table in tables:
            value = value.get(table) if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping):
            continue
        if isinstance(found := value.get(last), (int, float)):
            interval = value.get(f"{last}_ci95")
            return Number(float(found), (interval[0], interval[1]) if interval else None)
    return None


def _difference(name: str, first: Number, second: Number) -> Difference:
    """Compare two numbers of independent runs.

    The ratio's interval adds the relative half-widths of both by squares, downwards and upwards
    separately: the first order of the propagation of errors.
    """
    ratio = second.value / first.value if first.value else None
    interval = None
    if ratio is not None and first.ci95 and second.ci95 and second.value:
        below = [1 - second.ci95[0] / second.value, first.ci95[1] / first.value - 1]
        above = [second.ci95[1] / second.value - 1, 1 - first.ci95[0] / first.value]
        interval = (ratio * (1 - math.hypot(*below)), ratio * (1 + math.hypot(*above)))
    if first == second:
        verdict = EQUAL
    elif interval is None:
        verdict = NO_INTERVAL
    else:
        verdict = SAME if interval[0] <= 1 <= interval[1] else DIFFERS
    return Difference(name, first.value, second.value, ratio, interval, verdict)
