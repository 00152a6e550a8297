"""Confidence intervals of values that are computed from several runs.

A claim computes one number from the results of many runs: a quotient, a mean, a maximum. Its 95 %
confidence interval is computed here from the intervals of the numbers that it reads.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from nanoplane.figures import LeftOutError, Results
from nanoplane.outcomes import Outcome

_T = TypeVar("_T")

Combine = Callable[[Sequence[float]], float]
"""A function of several numbers: `statistics.fmean`, `max`, `min`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A number computed from several cases, some of which may not have been measured."""

    combine: Combine
    values: Mapping[Any, float]
    """The values of the measured cases."""
    wanted: int
    """The number of cases."""

    @property
    def value(self) -> float:
        """The number computed from the measured cases."""
        return self.combine(list(self.values.values()))

    @property
    def found(self) -> int:
        """The number of measured cases."""
        return len(self.values)


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A number whose 95 % confidence interval is known."""

    value: float
    ci95: tuple[float, float]
    """Twice the number if it is exact; infinite where there is no limit."""
    why: str = ""
    """Why it may differ from a paper's number, if that depends on the measurement."""
    points: frozenset[Any] = frozenset()
    """The points of figures that determine the width of the interval."""


class UndecidedError(Exception):
    """The available runs do not determine the number; the message says why."""


Value = Callable[[Results], float | Part | Estimate]
"""Computes a number from a figure's results; a KeyError means that runs are missing."""


def part(combine: Combine, value: Callable[[_T], float], cases: Iterable[_T]) -> Part:
    """Combine the values of all cases that have been run; a KeyError if none has.

    Cases that the figure leaves out do not count.
    """
    found: dict[Any, float] = {}
    wanted = 0
    for case in cases:
        wanted += 1
        try:
            found[case] = value(case)
        except LeftOutError:
            wanted -= 1
        except KeyError:
            pass
    if not wanted:
        raise LeftOutError
    if not found:
        raise KeyError
    return Part(combine, found, wanted)


_Path = tuple[Any, ...]
"""A point, and the path to a number of its result."""


class _Numbers(dict[str, Any]):
    """A result that records the numbers with an interval that are read."""

    def __init__(self, numbers: Mapping[str, Any], path: _Path, read: set[_Path]) -> None:
        super().__init__(numbers)
        self._path, self._read = path, read

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, dict):
            return _Numbers(value, (*self._path, name), self._read)
        if isinstance(value, list):
            # A rack's clients, for example.
            return [
                _Numbers(one, (*self._path, name, place), self._read)
                if isinstance(one, dict)
                else one
                for place, one in enumerate(value)
            ]
        if f"{name}_ci95" in self:
            self._read.add((*self._path, name))
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


class _Changed(Mapping[Any, Outcome]):
    """Results in which some are replaced."""

    def __init__(self, results: Results, change: Callable[[Any, Outcome], Outcome]) -> None:
        self._results, self._change = results, change

    def __getitem__(self, point: Any) -> Outcome:
        return self._change(point, self._results[point])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def _with(numbers: Any, names: _Path, value: float) -> Any:
    """Return a result with one number replaced."""
    name, *rest = names
    changed = _with(numbers[name], tuple(rest), value) if rest else value
    if isinstance(numbers, list):
        return [changed if place == name else one for place, one in enumerate(numbers)]
    return {**numbers, name: changed}


def estimate(results: Results, value: Value) -> tuple[Estimate, Part | None]:
    """Return the value that `value` computes from the results, with its interval, and its cases.

    The changes caused by each number's interval are combined as the root of the sum of their
    squares, upwards and downwards separately, as if the runs were independent. Runs with the same
    seed have the same arrivals, so that the interval of a quotient is usually too wide. The
    interval of a minimum or maximum of several cases extends from that of their lower ends to that
    of their upper ends. Moving one number at a time would be wrong: the maximum of values that
    differ only by chance is above all of them, and does not change when one of them moves down.
    """
    read: set[_Path] = set()

    def noting(point: Any, outcome: Outcome) -> Outcome:
        return dataclasses.replace(outcome, result=_Numbers(outcome.result, (point,), read))

    measured = value(_Changed(results, noting))
    if isinstance(measured, Estimate):
        return measured, None
    found = measured if isinstance(measured, Part) else None
    extreme = found is not None and found.combine in (min, max)
    base = _quantities(measured, extreme)
    below, above = dict.fromkeys(base, 0.0), dict.fromkeys(base, 0.0)
    moving: dict[Any, set[Any]] = {case: set() for case in base}
    for path in sorted(read, key=repr):
        ends = [_moved(results, value, path, end, extreme) for end in (0, 1)]
        for case in base:
            if None in ends:
                changes = [-math.inf, math.inf]
            else:
                # A case that depends on this number is taken as measured.
                changes = [one.get(case, base[case]) - base[case] for one in ends if one]
            below[case] += min(*changes, 0.0) ** 2
            above[case] += max(*changes, 0.0) ** 2
            if any(changes):
                moving[case].add(path[0])
    lows = {case: base[case] - math.sqrt(below[case]) for case in base}
    highs = {case: base[case] + math.sqrt(above[case]) for case in base}
    if found is None or not extreme:
        ((low, high),) = zip(lows.values(), highs.values(), strict=True)
        (points,) = moving.values()
        return Estimate(next(iter(base.values())), (low, high), points=frozenset(points)), found
    low, high = found.combine(list(lows.values())), found.combine(list(highs.values()))
    # The other cases are certainly not the extreme one.
    close = [case for case in base if lows[case] <= high and highs[case] >= low]
    points = set().union(*(moving[case] for case in close))
    return Estimate(found.value, (low, high), points=frozenset(points)), found


def _quantities(measured: float | Part | Estimate, extreme: bool) -> dict[Any, float]:
    """Return the numbers with their own intervals: all cases of an extreme, or one."""
    if isinstance(measured, Estimate):
        return {None: measured.value}
    if not isinstance(measured, Part):
        return {None: measured}
    return dict(measured.values) if extreme else {None: measured.value}


def _moved(
    results: Results, value: Value, path: _Path, end: int, extreme: bool
) -> dict[Any, float] | None:
    """Return the quantities with one number at an end of its interval.

    None if they are unbounded: the number has no interval for lack of samples, or it is a divisor
    that may be arbitrarily small, for example if a search has found no load that certainly meets
    its limit.
    """
    of, *names = path
    outcome = results[of]
    numbers: Any = outcome.result
    for name in names[:-1]:
        numbers = numbers[name]
    interval = numbers[f"{names[-1]}_ci95"]
    if interval is None:
        return None
    result = _with(outcome.result, tuple(names), interval[end])
    shifted = dataclasses.replace(outcome, result=result)

    def shifting(point: Any, outcome: Outcome) -> Outcome:
        return shifted if point == of else outcome

    try:
        return _quantities(value(_Changed(results, shifting)), extreme)
    except (UndecidedError, ZeroDivisionError):
        return None
