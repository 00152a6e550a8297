"""Claims: a row for every number that a paper claims, beside what was measured here."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from nanoplane.errors import DescriptionError
from nanoplane.figures import LeftOutError, Results, figures
from nanoplane.sweep import Outcome

REPRODUCED = "reproduced"
DIFFERS = "differs"
NOT_YET_RUN = "not yet run"


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a claim's runs gave."""

    measured: float
    agrees: bool | None
    """Whether the claim's rule is met; None if what was run is not enough to say."""
    why: str = ""
    """Why it differs, or what is missing."""
    ci95: tuple[float, float] | None = None
    """95 % confidence interval of `measured`, where it does not follow from those of the runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One number that a paper claims."""

    id: str
    """The paper, the figure or section, and a name: `hyperplane.8.gain`."""
    where: str
    quote: str
    paper_value: float | str
    """A number, or what it has to be in words (`below 1`)."""
    unit: str
    how: str
    """How it is measured here."""
    rule: str
    """When it counts as reproduced."""
    figure: str | None = None
    """The figure whose runs are needed; None if there is none yet."""
    measure: Callable[[Results], Judgement] | None = None
    """From the figure's results to a judgement; a KeyError means that runs are missing."""
    why: str = ""
    """Why nothing is measured yet."""

    @property
    def paper(self) -> str:
        """The paper that claims it."""
        return self.id.partition(".")[0]

    def row(self, results: Results) -> dict[str, Any]:
        """Return the claim's row for what has been run."""
        measured: float | None = None
        interval: tuple[float, float] | None = None
        verdict, why = NOT_YET_RUN, self.why
        if self.measure is not None:
            try:
                judgement = self.measure(results)
            except LeftOutError:
                why = f"--quick leaves its runs out: `nanoplane figure {self.figure}` makes them"
            except KeyError:
                why = f"runs are missing: `nanoplane figure {self.figure}` makes them"
            else:
                measured, why = judgement.measured, judgement.why
                interval = judgement.ci95 or _interval(results, self.measure)
                if judgement.agrees is not None:
                    verdict = REPRODUCED if judgement.agrees else DIFFERS
        return {
            "id": self.id,
            "paper": self.paper,
            "where": self.where,
            "quote": self.quote,
            "paper_value": self.paper_value,
            "measured": measured,
            "measured_ci95": interval,
            "unit": self.unit,
            "verdict": verdict,
            "why": why,
            "how": self.how,
            "rule": self.rule,
            "figure": self.figure,
        }


Judge = Callable[[float], Judgement]
"""The rule of a claim: from a measured number to its judgement."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A number made of several values, of which some may not have been measured yet."""

    value: float
    found: int
    wanted: int


_T = TypeVar("_T")

Combine = Callable[[Sequence[float]], float]
"""What makes one number of several: `statistics.fmean`, `max`, `min`."""


def part(combine: Combine, value: Callable[[_T], float], cases: Iterable[_T]) -> Part:
    """Combine the values of all cases whose runs are there; a KeyError if none is.

    Cases that the figure leaves out are not wanted.
    """
    found, wanted = [], 0
    for case in cases:
        wanted += 1
        try:
            found.append(value(case))
        except LeftOutError:
            wanted -= 1
        except KeyError:
            pass
    if not wanted:
        raise LeftOutError
    if not found:
        raise KeyError
    return Part(combine(found), len(found), wanted)


def judged(
    value: Callable[[Results], float | Part], judge: Judge
) -> Callable[[Results], Judgement]:
    """Judge what `value` makes of the results; a part of the runs is not enough for a verdict."""

    def measure(results: Results) -> Judgement:
        measured = value(results)
        if not isinstance(measured, Part):
            return judge(measured)
        if measured.found == measured.wanted:
            return judge(measured.value)
        have = f"{measured.found} of {measured.wanted}"
        why = f"only {have} values have been run, which give `measured`"
        return Judgement(measured.value, None, why)

    return measure


_Path = tuple[Any, ...]
"""A point, and the names that lead to a number of its result."""


class _Numbers(dict[str, Any]):
    """A result that notes which of its numbers are read that have an interval."""

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
        if self.get(f"{name}_ci95"):
            self._read.add((*self._path, name))
        return value


class _Changed(Mapping[Any, Outcome]):
    """Results of which some are not as they were measured."""

    def __init__(self, results: Results, change: Callable[[Any, Outcome], Outcome]) -> None:
        self._results, self._change = results, change

    def __getitem__(self, point: Any) -> Outcome:
        return self._change(point, self._results[point])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def _with(numbers: Any, names: _Path, end: int) -> Any:
    """Return a result in which a number is an end of its interval."""
    name, *rest = names
    if isinstance(numbers, list):
        changed = _with(numbers[name], tuple(rest), end)
        return [changed if place == name else one for place, one in enumerate(numbers)]
    value = _with(numbers[name], tuple(rest), end) if rest else numbers[f"{name}_ci95"][end]
    return {**numbers, name: value}


def _interval(
    results: Results, measure: Callable[[Results], Judgement]
) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of what a claim's runs give; None if they have none.

    The runs are independent, so what each number's interval is worth adds up by squares. There is
    none either if it has no end.
    """
    read: set[_Path] = set()

    def noting(point: Any, outcome: Outcome) -> Outcome:
        return dataclasses.replace(outcome, result=_Numbers(outcome.result, (point,), read))

    value = measure(_Changed(results, noting)).measured
    below, above = 0.0, 0.0
    for of, *names in sorted(read, key=repr):
        moved = []
        for end in (0, 1):
            outcome = results[of]
            shifted = dataclasses.replace(outcome, result=_with(outcome.result, tuple(names), end))

            def shifting(
                point: Any, outcome: Outcome, of: Any = of, shifted: Outcome = shifted
            ) -> Outcome:
                return shifted if point == of else outcome

            try:
                moved.append(measure(_Changed(results, shifting)).measured - value)
            except ZeroDivisionError:
                # What it is divided by may be as small as it likes: a search may know no load that
                # surely keeps its limit.
                return None
        below += min(*moved, 0.0) ** 2
        above += max(*moved, 0.0) ** 2
    return (value - math.sqrt(below), value + math.sqrt(above)) if read else None


def below(limit: float, why: str) -> Judge:
    """Agree with what is below a limit; `why` a value may be above it."""
    return lambda value: Judgement(value, value < limit, "" if value < limit else why)


def above(limit: float, why: str) -> Judge:
    """Agree with what is above a limit; `why` a value may be below it."""
    return lambda value: Judgement(value, value > limit, "" if value > limit else why)


def between(low: float, high: float, why: str) -> Judge:
    """Agree with what is between two limits; `why` a value may be outside."""

    def judge(value: float) -> Judgement:
        agrees = low <= value <= high
        return Judgement(value, agrees, "" if agrees else why)

    return judge


def within(target: float, tolerance: float, *, below: str, above: str) -> Judge:
    """Agree within a relative tolerance; why a value may be below the target or above it."""

    def judge(value: float) -> Judgement:
        agrees = math.isclose(value, target, rel_tol=tolerance)
        why = below if value < target else above
        return Judgement(value, agrees, "" if agrees else why)

    return judge


def claims(paper: str | None = None) -> list[Claim]:
    """Return the claims of a paper, or of all papers."""
    from nanoplane.papers import compare, hyperplane, nanopu, rpcvalet

    papers = {
        "hyperplane": hyperplane.CLAIMS,
        "rpcvalet": rpcvalet.CLAIMS,
        "nanopu": nanopu.CLAIMS,
        "compare": compare.CLAIMS,
    }
    if paper is None:
        return [claim for of in papers.values() for claim in of]
    if paper not in papers:
        near = difflib.get_close_matches(paper, papers, 1, 0.6)
        meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(papers)}"
        raise DescriptionError(f'no paper is called "{paper}"; {meant}')
    return list(papers[paper])


def figures_of(listed: list[Claim]) -> list[str]:
    """Return the names of the figures that claims need."""
    needed = {claim.figure for claim in listed}
    return [name for name in figures() if name in needed]
