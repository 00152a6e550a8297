"""Claims: a row for every number that a paper claims, next to the measurement here."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanoplane.errors import DescriptionError
from nanoplane.figures import LeftOutError, Measured, Results, figures
from nanoplane.intervals import Combine, Estimate, Part, UndecidedError, Value, estimate, part
from nanoplane.outcomes import Outcome
from nanoplane.sweep import Run

__all__ = [
    "Claim",
    "Combine",
    "Estimate",
    "Part",
    "Rule",
    "above",
    "at_most",
    "below",
    "between",
    "exactly",
    "part",
    "within",
]

REPRODUCED = "reproduced"
DIFFERS = "differs"
UNDECIDED = "undecided"
BY_CONSTRUCTION = "by construction"
NOT_YET_RUN = "not yet run"
VERDICTS = (REPRODUCED, DIFFERS, UNDECIDED, BY_CONSTRUCTION, NOT_YET_RUN)


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """The values that count as reproduced: those between two limits."""

    low: float = -math.inf
    high: float = math.inf
    inclusive: bool = True
    """Whether the limits count as reproduced."""
    below: str = ""
    """Why a value may be below."""
    above: str = ""
    """Why a value may be above."""
    meaning: str = ""
    """The meaning of the limits: `within 20 % of 1.7`."""

    @property
    def text(self) -> str:
        """The rule in words, as in `within 20 % of 1.7: between 1.36 and 2.04`."""
        low, high = f"{self.low:g}", f"{self.high:g}"
        if self.low == self.high:
            ends = f"exactly {low}"
        elif self.low == -math.inf:
            ends = f"at most {high}" if self.inclusive else f"below {high}"
        elif self.high == math.inf:
            ends = f"at least {low}" if self.inclusive else f"above {low}"
        elif self.inclusive:
            ends = f"between {low} and {high}"
        else:
            ends = f"between {low} and {high}, without them"
        return f"{self.meaning}: {ends}" if self.meaning else ends

    def verdict(self, ends: tuple[float, float]) -> str:
        """Judge an interval: it is inside, outside, or partly inside."""
        low, high = ends
        if self._contains(low) and self._contains(high):
            return REPRODUCED
        if low > self.high or high < self.low:
            return DIFFERS
        if not self.inclusive and (low == self.high or high == self.low):
            return DIFFERS
        return UNDECIDED

    def _contains(self, value: float) -> bool:
        if self.inclusive:
            return self.low <= value <= self.high
        return self.low < value < self.high

    def why(self, measured: Estimate, verdict: str) -> str:
        """Say why a number is not reproduced, or why it is undecided."""
        if verdict == DIFFERS:
            return measured.why or (self.below if measured.value <= self.low else self.above)
        if verdict == UNDECIDED:
            if not all(map(math.isfinite, measured.ci95)):
                return "the measured value's interval has no end: too few requests were run"
            low, high = measured.ci95
            crossed = [f"{end:g}" for end in (self.low, self.high) if low <= end <= high]
            return f"the interval of the measured value has {' and '.join(crossed)} in it"
        return ""


def below(limit: float, why: str) -> Rule:
    """Accept values below a limit; `why` a value may be above it."""
    return Rule(high=limit, inclusive=False, above=why)


def at_most(limit: float, why: str, meaning: str = "") -> Rule:
    """Accept values up to a limit; `why` a value may be above it."""
    return Rule(high=limit, above=why, meaning=meaning)


def above(limit: float, why: str) -> Rule:
    """Accept values above a limit; `why` a value may be below it."""
    return Rule(low=limit, inclusive=False, below=why)


def between(
    low: float,
    high: float,
    why: str = "",
    meaning: str = "",
    *,
    below: str = "",
    above: str = "",
    inclusive: bool = True,
) -> Rule:
    """Accept values between two limits; `why` a value may be outside.

    `below` and `above` say why on one side, where the reasons differ. `inclusive` is whether the
    limits themselves count as reproduced.
    """
    return Rule(low, high, inclusive, below or why, above or why, meaning)


def within(
    target: float, tolerance: float, *, below: str, above: str, rounded: float = 0.0
) -> Rule:
    """Accept values within a relative tolerance; why a value may be below or above the target.

    A target that is `rounded` to a unit may be half of that unit less or more.
    """
    least, most = target - rounded / 2, target + rounded / 2
    low, high = least - tolerance * abs(least), most + tolerance * abs(most)
    of = f"{target:g}, a rounded number" if rounded else f"{target:g}"
    meaning = f"within {100 * tolerance:g} % of {of}"
    return Rule(low, high, below=below, above=above, meaning=meaning)


def exactly(target: float, why: str) -> Rule:
    """Accept one number; `why` a value may differ."""
    return Rule(target, target, below=why, above=why)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a claim by its runs."""

    verdict: str
    why: str
    measured: Estimate | None = None
    """None if runs are missing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One number that a paper claims."""

    id: str
    """The paper, the figure or section, and a name: `hyperplane.8.gain`."""
    where: str
    quote: str
    unit: str
    how: str
    """The definition of the measurement."""
    rule: Rule | None
    """The rule for its verdict; None if it is not judged."""
    measure: Value | None = None
    """Computes the number from the figure's results; a KeyError means that runs are missing. None
    if there is no figure yet."""
    figure: str | None = None
    """The figure whose runs are needed; if there is one, by default the one that `id` begins
    with."""
    paper_value: float | str = ""
    """A number, or the condition in words, by default that of the rule (`below 1`)."""
    why: str = ""
    """The reason why nothing is measured, or the paper's number that was put in."""
    by_construction: bool = False
    """Whether the number follows from a number of the paper in the description."""

    def __post_init__(self) -> None:
        """Derive fields that follow from others."""
        if self.figure is None and self.measure is not None:
            object.__setattr__(self, "figure", self.id.rpartition(".")[0])
        if self.paper_value == "" and self.rule is not None:
            object.__setattr__(self, "paper_value", self.rule.text)

    @property
    def paper(self) -> str:
        """The paper of the claim."""
        return self.id.partition(".")[0]

    def judge(self, results: Results) -> Judgement:
        """Judge the claim by the available results."""
        if self.by_construction:
            return Judgement(BY_CONSTRUCTION, self.why, self._estimate(results))
        if self.measure is None:
            return Judgement(NOT_YET_RUN, self.why)
        try:
            measured, cases = estimate(results, self.measure)
        except LeftOutError:
            why = f"--quick leaves its runs out: `nanoplane figure {self.figure}` makes them"
            return Judgement(NOT_YET_RUN, why)
        except KeyError:
            why = f"runs are missing: `nanoplane figure {self.figure}` makes them"
            return Judgement(NOT_YET_RUN, why)
        except UndecidedError as error:
            return Judgement(UNDECIDED, str(error))
        except ZeroDivisionError:
            return Judgement(UNDECIDED, "what it is divided by was measured as zero")
        if cases is not None and cases.found < cases.wanted:
            have = f"{cases.found} of {cases.wanted}"
            why = f"only {have} values have been run, which give `measured`"
            return Judgement(NOT_YET_RUN, why, measured)
        assert self.rule is not None, self.id
        verdict = self.rule.verdict(measured.ci95)
        return Judgement(verdict, self.rule.why(measured, verdict), measured)

    def _estimate(self, results: Results) -> Estimate | None:
        """Return the measured value, as far as its runs are available."""
        if self.measure is None:
            return None
        try:
            return estimate(results, self.measure)[0]
        except KeyError:
            return None

    def row(self, results: Results) -> dict[str, Any]:
        """Return the claim's row for the available results."""
        judgement = self.judge(results)
        measured = judgement.measured
        has_interval = (
            measured is not None
            and measured.ci95 != (measured.value, measured.value)
            and all(map(math.isfinite, measured.ci95))
        )
        return {
            "id": self.id,
            "paper": self.paper,
            "where": self.where,
            "quote": self.quote,
            "paper_value": self.paper_value,
            "measured": None if measured is None else measured.value,
            "measured_ci95": measured.ci95 if measured is not None and has_interval else None,
            "unit": self.unit,
            "verdict": judgement.verdict,
            "why": judgement.why,
            "how": self.how,
            "rule": "" if self.rule is None else f"reproduced if {self.rule.text}",
            "figure": self.figure,
        }


MAX_EFFORT = 64
"""The maximum factor by which a run's requests are increased."""


def decide(
    listed: Sequence[Claim],
    results: Measured,
    runs: Mapping[Any, Run],
    effort: int,
    more: Callable[[dict[Any, Run]], Mapping[Any, Outcome]],
) -> Measured:
    """Return the results with longer runs of those points that undecided claims depend on.

    A point gets four times as many requests, which halves its interval, until the claim is decided
    or the next increase would exceed `effort`. `more` makes the outcomes of runs, or of some of
    them.
    """
    times = dict.fromkeys(runs, 1)
    while True:
        wanted: dict[Any, Run] = {}
        for claim in listed:
            judgement = claim.judge(results)
            if judgement.verdict == UNDECIDED and judgement.measured is not None:
                for point in judgement.measured.points & times.keys():
                    longer = runs[point].longer(4 * times[point])
                    if 4 * times[point] <= effort and longer is not None:
                        wanted[point] = longer
        if not wanted:
            return results
        for point in wanted:
            times[point] *= 4
        results = Measured({**results, **more(wanted)}, runs)


Rows = list[dict[str, Any]]
"""Rows of claims in the command line's JSON form."""


def by_verdict(rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows that have been judged or measured, and the others.

    Claims by construction follow those that the runs decide.
    """
    run: Rows = []
    not_run: Rows = []
    for row in rows:
        put_in = row["verdict"] == BY_CONSTRUCTION and row["measured"] is None
        (not_run if put_in or row["verdict"] == NOT_YET_RUN else run).append(row)
    return sorted(run, key=lambda row: row["verdict"] == BY_CONSTRUCTION), not_run


def claims(paper: str | None = None) -> list[Claim]:
    """Return the claims of a paper, or of all papers."""
    from nanoplane.papers import modules

    known = modules()
    if paper is None:
        return [claim for module in known.values() for claim in module.CLAIMS]
    if paper not in known:
        near = difflib.get_close_matches(paper, known, 1, 0.6)
        meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
        raise DescriptionError(f'no paper is called "{paper}"; {meant}')
    return list(known[paper].CLAIMS)


def figures_of(listed: list[Claim]) -> list[str]:
    """Return the names of the figures that claims need."""
    needed = {claim.figure for claim in listed}
    return [name for name in figures() if name in needed]
