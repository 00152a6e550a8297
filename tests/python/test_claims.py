"""How claims are judged: rules, verdicts, and intervals of what is computed from several runs."""

import dataclasses
import math
import re
import statistics
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nanoplane.claims import (
    BY_CONSTRUCTION,
    DIFFERS,
    NOT_YET_RUN,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Estimate,
    Rule,
    above,
    at_most,
    below,
    between,
    by_verdict,
    claims,
    decide,
    exactly,
    part,
    within,
)
from nanoplane.description import Description
from nanoplane.figures import Measured, figures
from nanoplane.intervals import estimate
from nanoplane.outcomes import Outcome
from nanoplane.sweep import Run

numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e6)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    low, width = draw(numbers), draw(widths)
    return draw(
        st.sampled_from(
            [
                below(low, ""),
                above(low, ""),
                at_most(low, ""),
                between(low, low + width, ""),
                between(low, low + 1 + width, inclusive=False),
                exactly(low, ""),
                within(low, 0.2, below="", above=""),
            ]
        )
    )


@given(rules(), numbers)
def test_an_exact_number_is_never_undecided(rule: Rule, value: float) -> None:
    inside = rule.low <= value <= rule.high
    if not rule.inclusive and value in (rule.low, rule.high):
        inside = False
    assert rule.verdict((value, value)) == (REPRODUCED if inside else DIFFERS)


@given(rules(), numbers, widths, widths)
def test_a_wider_interval_decides_no_more(
    rule: Rule, low: float, width: float, more: float
) -> None:
    narrow, wide = (low, low + width), (low - more, low + width + more)
    assert rule.verdict(wide) in (rule.verdict(narrow), UNDECIDED)


@given(rules(), numbers, widths)
def test_an_interval_on_both_sides_of_an_end_is_undecided(
    rule: Rule, low: float, width: float
) -> None:
    high = low + width
    ends = {rule.verdict((one, one)) for one in (low, high)}
    if ends == {REPRODUCED, DIFFERS}:
        assert rule.verdict((low, high)) == UNDECIDED
    # What is accepted is an interval, so both ends say it all, unless it lies between them.
    around = low < rule.low and rule.high < high
    if not rule.inclusive:
        around = low <= rule.low and rule.high <= high
    if len(ends) == 1 and not around:
        assert {rule.verdict((low, high))} == ends


@given(numbers, st.floats(0, 2), st.floats(0, 3))
def test_within_is_as_far_below_the_target_as_above(
    target: float, tolerance: float, off: float
) -> None:
    assume(abs(off - tolerance) > 1e-9)
    assume(abs(target) > 1e-6)
    rule = within(target, tolerance, below="", above="")
    for value in (target * (1 - off), target * (1 + off)):
        assert (rule.verdict((value, value)) == REPRODUCED) == (off < tolerance)


def test_a_rounded_number_may_be_half_a_unit_off() -> None:
    """6 queues are 5.5 to 6.5, less or more by a fifth."""
    rule = within(6, 0.2, below="fewer", above="more", rounded=1)
    assert rule.text == "within 20 % of 6, a rounded number: between 4.4 and 7.8"
    assert (rule.low, rule.high) == pytest.approx((4.4, 7.8))


def test_each_side_of_a_range_has_its_reason() -> None:
    rule = between(1, 2, below="less", above="more")
    for value, why in ((0.5, "less"), (2.5, "more")):
        assert rule.why(Estimate(value, (value, value)), DIFFERS) == why
    assert between(1, 2, "either").below == between(1, 2, "either").above == "either"


def test_30_percent_let_no_43_percent_pass() -> None:
    """Of the larger number 43 % more are 30 %: the tolerance is of the paper's."""
    rule = within(10, 0.3, below="less", above="more")
    assert rule.verdict((14.2, 14.2)) == DIFFERS
    assert rule.verdict((13, 13)) == rule.verdict((7, 7)) == REPRODUCED
    for value, why in ((14.2, "more"), (6.9, "less")):
        assert rule.why(Estimate(value, (value, value)), DIFFERS) == why


_WORDS = {
    "below": lambda value, ends: value < ends[0],
    "above": lambda value, ends: value > ends[0],
    "at most": lambda value, ends: value <= ends[0],
    "at least": lambda value, ends: value >= ends[0],
    "exactly": lambda value, ends: value == ends[0],
    "between": lambda value, ends: ends[0] <= value <= ends[1],
}


@given(rules())
def test_the_text_of_a_rule_says_what_it_accepts(rule: Rule) -> None:
    """At the ends and on both sides of them; numbers in texts have six digits."""
    words, *texts, without = re.fullmatch(
        r"(?:.*: )?(below|above|at most|at least|exactly|between) (\S+)(?: and ([^\s,]+))?"
        "(, without them)?",
        rule.text,
    ).groups()  # type: ignore[union-attr]
    ends = [float(text) for text in texts if text is not None]
    written = [end for end in (rule.low, rule.high) if math.isfinite(end)]
    assert ends == pytest.approx(written if words == "between" else written[:1], rel=1e-5, abs=1e-9)
    exact = written if words == "between" else written[:1]
    for end in exact:
        for value in (end, math.nextafter(end, -math.inf), math.nextafter(end, math.inf)):
            accepted = rule.verdict((value, value)) == REPRODUCED
            excluded = without is not None and value in exact
            assert accepted == (_WORDS[words](value, exact) and not excluded)


def outcome(value: float, low: float, high: float) -> Outcome:
    return Outcome({}, "", {"value": value, "value_ci95": [low, high]}, stored=True)


def value(results: Any, point: Any) -> float:
    return float(results[point].result["value"])


def test_10_03_from_6_07_to_12_6_is_not_surely_above_10() -> None:
    claim = Claim("f.b", "", "", "times", "", above(10, ""), lambda r: value(r, "a"))
    assert (claim.figure, claim.paper_value) == ("f", "above 10")
    row = claim.row({"a": outcome(10.03, 6.07, 12.6)})
    assert (row["measured"], row["verdict"]) == (10.03, UNDECIDED)
    assert row["rule"] == "reproduced if above 10"
    assert row["why"] == "the interval of the measured value has 10 in it"


def test_what_the_paper_gave_is_by_construction_whatever_it_is() -> None:
    made = Claim("f.b", "", "", "W", "", None, lambda r: value(r, "a"), paper_value=1)
    put_in = dataclasses.replace(made, why="put in", by_construction=True)
    for results in ({}, {"a": outcome(7, 6, 8)}):
        row = put_in.row(results)
        assert (row["verdict"], row["why"], row["rule"]) == (BY_CONSTRUCTION, "put in", "")


def test_claims_that_follow_from_the_papers_numbers_are_by_construction() -> None:
    assert {claim.id for claim in claims() if claim.by_construction} == {
        *("hyperplane.4.power", "hyperplane.4.power-core"),
        *("nanopu.1.arrival", "nanopu.1.arrival-without-mac", "nanopu.2.ndp"),
        *("nanopu.2.decisions", "rpcvalet.4.footprint", "rpcvalet.4.footprint-size"),
        "rpcvalet.4.stages",
        *(f"substrate.latency.{level}" for level in ("l1", "l2", "l3", "l3-structural")),
        *("substrate.latency.memory", "substrate.latency.memory-large-pages"),
    }


def test_what_was_not_run_is_folded() -> None:
    def row(name: str, verdict: str, measured: float | None) -> dict[str, Any]:
        return {"id": name, "verdict": verdict, "measured": measured}

    rows = [
        row("missing", NOT_YET_RUN, None),
        row("a part", NOT_YET_RUN, 1.0),
        row("put in", BY_CONSTRUCTION, 1.0),
        row("put in, not run", BY_CONSTRUCTION, None),
        row("differs", DIFFERS, 1.0),
        row("undecided", UNDECIDED, None),
    ]
    run, not_run = by_verdict(rows)
    assert [one["id"] for one in run] == ["differs", "undecided", "put in"]
    assert [one["id"] for one in not_run] == ["missing", "a part", "put in, not run"]


def coverage(true: list[float], deviation: float, of: Any, expected: float) -> float:
    """Return how often the interval of a value has the true one in it, over 400 experiments."""
    random = Random(1)
    hits = 0
    for _ in range(400):
        seen = [random.gauss(mean, deviation) for mean in true]
        half = 1.96 * deviation
        results = {place: outcome(x, x - half, x + half) for place, x in enumerate(seen)}
        found, _cases = estimate(results, of)
        hits += found.ci95[0] <= expected <= found.ci95[1]
    return hits / 400


@pytest.mark.parametrize(
    ("true", "of", "expected", "least"),
    [
        ([10, 5], lambda r: value(r, 0) / value(r, 1), 2, 0.93),
        (
            [10, 9, 11, 12],
            lambda r: part(statistics.fmean, lambda n: value(r, n), range(4)),
            10.5,
            0.93,
        ),
        # One of them is the largest: it has an interval of its own.
        ([10, 5, 5], lambda r: part(max, lambda n: value(r, n), range(3)), 10, 0.93),
        # All are the largest but for chance, which makes their maximum too large: 1.96 deviations
        # below it miss the true one in 1 - 0.975**4 = 10 % of cases.
        ([10] * 4, lambda r: part(max, lambda n: value(r, n), range(4)), 10, 0.87),
        ([10] * 4, lambda r: part(min, lambda n: value(r, n), range(4)), 10, 0.87),
    ],
)
def test_intervals_have_the_true_value_in_them(
    true: list[float], of: Any, expected: float, least: float
) -> None:
    """95 %, within three deviations of what 400 experiments show; not 99.9 either."""
    assert least < coverage(true, 0.2, of, expected) < 0.985


def test_the_points_of_a_claim_are_those_that_its_interval_depends_on() -> None:
    results = {name: outcome(x, x - 1, x + 1) for name, x in {"a": 10, "b": 9.5, "c": 3}.items()}
    results["d"] = outcome(10, 10, 10)
    most, _ = estimate(results, lambda r: part(max, lambda name: value(r, name), "abcd"))
    assert most.value == 10
    # "c" is surely less, and of "d" more is not to be learnt.
    assert most.points == {"a", "b"}
    quotient, _ = estimate(results, lambda r: value(r, "a") / value(r, "d"))
    assert quotient.points == {"a"}
    assert quotient.ci95 == pytest.approx((0.9, 1.1))


def test_runs_that_a_claim_depends_on_get_longer_until_it_is_decided() -> None:
    """Four times as many requests halve the interval: from 8 to 14, 9.5 to 12.5, 10.25 to 11.75."""
    description = Description.from_dict(
        {
            "queueing": {
                **{"queues": 1, "units": 1, "load": 0.5, "requests": 3000},
                "service_times": {"distribution": "fixed"},
            }
        }
    )
    runs = {"a": Run(description), "b": Run(description)}
    asked: list[tuple[str, int]] = []

    def more(longer: dict[Any, Run]) -> dict[Any, Outcome]:
        for point, run in longer.items():
            asked.append((point, run.description.get("queueing.requests")))
        half = 3 / math.sqrt(asked[-1][1] / 3000)
        return {point: outcome(11, 11 - half, 11 + half) for point in longer}

    results = Measured({"a": outcome(11, 8, 14), "b": outcome(1, 0, 2)}, runs)
    listed = [
        Claim(
            "a.a",
            "",
            "",
            "",
            "",
            above(10, ""),
            lambda r: value(r, "a"),
            figure="f",
            paper_value=1,
        ),
        Claim(
            "a.b",
            "",
            "",
            "",
            "",
            above(-1, ""),
            lambda r: value(r, "b"),
            figure="f",
            paper_value=1,
        ),
    ]
    for effort, requests, verdict in (
        (1, [], UNDECIDED),
        (15, [12_000], UNDECIDED),
        (64, [12_000, 48_000], REPRODUCED),
    ):
        asked.clear()
        found = decide(listed, results, runs, effort, more)
        assert asked == [("a", count) for count in requests]
        assert listed[0].judge(found).verdict == verdict
        # Of what is decided nothing is run again.
        assert found["b"] is results["b"]
    # What is not found, as in a store, is left as it is.
    assert decide(listed, results, runs, 64, lambda _: {}) == results


def test_every_run_can_be_longer_but_those_of_programs() -> None:
    programs = {"nanopu.incast", "nanopu.table1", "nanopu.table2", "substrate.leaky-dma"}
    for figure in figures().values():
        for point, run in list(figure.points(True).items())[::7]:
            longer = run.longer(4)
            if longer is None:
                # Queues to which nothing comes have no requests.
                polls = figure.name.startswith("spin-to-win.")
                assert figure.name in programs or polls, point
                continue
            key = "queueing.requests" if run.description.is_queueing else "measure.requests"
            assert longer.description.get(key) == 4 * run.description.get(key)
            # The load is a part of the same peak.
            assert longer.peak == run.peak
            if run.limit is not None:
                assert longer.limit is not None
                assert longer.limit.precision == run.limit.precision / 2
