"""Claims: a row for every number that a paper claims, beside what was measured here."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

from nanoplane.errors import DescriptionError
from nanoplane.figures import Results, figures

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


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One number that a paper claims."""

    id: str
    paper: str
    where: str
    quote: str
    paper_value: float | str
    """A number, or what it has to be in words (`below 1`)."""
    unit: str
    how: str
    """How it is measured here."""
    rule: str
    """When it counts as reproduced."""
    figure: str | None
    """The figure whose runs are needed; None if there is none yet."""
    measure: Callable[[Results], Judgement] | None
    """From the figure's results to a judgement; a KeyError means that runs are missing."""
    why: str = ""
    """Why nothing is measured yet."""

    def row(self, results: Results) -> dict[str, Any]:
        """Return the claim's row for what has been run."""
        measured: float | None = None
        verdict, why = NOT_YET_RUN, self.why
        if self.measure is not None:
            try:
                judgement = self.measure(results)
            except KeyError:
                why = f"runs are missing: `nanoplane figure {self.figure}` makes them"
            else:
                measured, why = judgement.measured, judgement.why
                if judgement.agrees is not None:
                    verdict = REPRODUCED if judgement.agrees else DIFFERS
        return {
            "id": self.id,
            "paper": self.paper,
            "where": self.where,
            "quote": self.quote,
            "paper_value": self.paper_value,
            "measured": measured,
            "unit": self.unit,
            "verdict": verdict,
            "why": why,
            "how": self.how,
            "rule": self.rule,
            "figure": self.figure,
        }


def claims(paper: str | None = None) -> list[Claim]:
    """Return the claims of a paper, or of all papers."""
    from nanoplane.papers import hyperplane

    papers = {"hyperplane": hyperplane.CLAIMS}
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
