"""Rates that saturated runs and searches begin with (nanoplane.starts)."""

import dataclasses
from typing import Any

import pytest

import fake_simulator
from nanoplane import Description, Run, figures, papers, starts, sweep
from nanoplane.load_search import Limit


def saturating(queues: int = 10) -> Description:
    """Return a saturated run whose rate has to be found."""
    return Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1"},
            "data_plane": {"program": "packet-encapsulation", "notify": "spin", "queues": queues},
            "traffic": {"load": "saturate"},
            "measure": {"requests": 1000},
        }
    )


def know(monkeypatch: pytest.MonkeyPatch, rates: dict[str, tuple[float, ...]]) -> None:
    monkeypatch.setattr(starts, "known", lambda: rates)


PEAK = 1000 / 505
"""The fake's, with 10 queues."""


@pytest.mark.usefixtures("fake")
def test_a_start_that_saturates_is_the_only_run(monkeypatch: pytest.MonkeyPatch) -> None:
    (tried,) = sweep([saturating()])
    assert len(fake_simulator.calls) == 2
    rate = tried.description["traffic"]["saturation_rate_mrps"]
    know(monkeypatch, {starts.identity(saturating()): (rate,)})
    (started,) = sweep([saturating()], fresh=True)
    # Without the trial, and the same in every other way.
    assert len(fake_simulator.calls) == 3
    assert (started.description, started.result) == (tried.description, tried.result)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("wrong", [1.1 * PEAK, 1.6 * PEAK])
def test_another_start_is_followed_by_trials(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, {starts.identity(saturating()): (wrong,)})
    (outcome,) = sweep([saturating()])
    offered = [call["traffic"]["saturation_rate_mrps"] for call in fake_simulator.calls]
    assert offered == [wrong, 20.0, pytest.approx(1.35 * PEAK)]
    assert outcome.description["traffic"]["saturation_rate_mrps"] == offered[-1]


def _search() -> Run:
    found = saturating().set("traffic.saturation_rate_mrps", 20.0)
    limit = Limit(absolute_ns=700.0, precision=0.04)
    return Run(found.set("traffic.load", 0.5), peak=found, limit=limit)


def _begun_at(
    monkeypatch: pytest.MonkeyPatch, *rates: float, near: tuple[float, ...] = ()
) -> tuple[Any, list[float]]:
    """Return the outcome of a search, and the loads that it tried."""
    run = dataclasses.replace(_search(), near=near)
    know(monkeypatch, {starts.identity(run.description, run.limit, run.peak): rates})
    (outcome,) = sweep([run], fresh=True)
    return outcome, [one.description["traffic"]["rate_mrps"] for one in outcome.trials]


@pytest.mark.usefixtures("fake")
def test_a_search_begins_on_both_sides_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    (outcome,) = sweep([_search()])
    largest = outcome.result["largest_load"]
    tried = [one.description["traffic"]["rate_mrps"] for one in outcome.trials]
    least, most = largest, min(rate for rate in tried if rate > largest)
    again, loads = _begun_at(monkeypatch, least, most)
    # Its last two loads are enough, and the answer is the same.
    assert loads == [most, least]
    assert again.result["largest_load"] == largest
    assert again.result["latency_ns"] == outcome.result["latency_ns"]
    # What is shown anyway takes the place of a load close to it.
    _, loads = _begun_at(monkeypatch, least, most, near=(0.1 * least, 0.995 * least))
    assert loads[:2] == [most, 0.995 * least]
    # A wrong start costs runs, and the search ends by its rule.
    for wrong in (0.5, 0.8, 1.2):
        other, loads = _begun_at(monkeypatch, wrong * least, wrong * most)
        assert set(loads[:2]) & {wrong * least, wrong * most}
        assert other.result["largest_load"] == pytest.approx(largest, rel=0.04)


def test_what_is_measured_does_not_identify_a_run() -> None:
    one = saturating()
    assert starts.identity(one.measures(7)) == starts.identity(one)
    assert starts.identity(one.set("traffic.shape", "single-queue")) != starts.identity(one)
    limits = (Limit(10), Limit(10, precision=0.02), None)
    assert len({starts.identity(one, limit, one) for limit in limits}) == 3


def test_a_repetition_with_more_requests_has_the_start_of_its_search() -> None:
    run = _search()
    longer = run.longer(4)
    assert longer is not None
    twice = longer.longer(4)
    assert twice is not None
    assert longer.limit != run.limit
    assert (longer.starts_as, twice.starts_as) == (run.limit, run.limit)


def test_where_the_package_is_does_not_identify_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded times of RPCValet's figures are files of it."""

    def recorded(package: str) -> Description:
        times = {"distribution": "recorded", "file": f"{package}/papers/rpcvalet/recorded/herd.csv"}
        return saturating().set("traffic.work", {"service_times": times})

    here = starts.identity(recorded(starts._PACKAGE))
    monkeypatch.setattr(starts, "_PACKAGE", "/elsewhere/nanoplane")
    assert starts.identity(recorded("/elsewhere/nanoplane")) == here


def test_each_start_belongs_to_a_figure() -> None:
    listed = [figure for paper in papers.modules().values() for figure in paper.FIGURES]
    runs = figures.chosen(listed, True).values()
    peaks = {run.peak for run in runs if run.peak is not None}
    saturated = {starts.identity(run.description) for run in runs if run.peak is None}
    saturated |= {starts.identity(peak) for peak in peaks}
    searches = {
        starts.identity(run.description, run.limit, run.peak)
        for run in runs
        if run.limit is not None and not run.description.is_queueing
    }
    rates = starts.known()
    assert all(0 < rate < 1e4 for of_run in rates.values() for rate in of_run)
    assert {len(rates[key]) for key in rates.keys() & saturated} == {1}
    assert {len(rates[key]) for key in rates.keys() & searches} == {2}
    # Figures may change before the starts do.
    unknown = rates.keys() - saturated - searches
    assert len(unknown) < 0.1 * len(rates), "`make starts` finds what searches begin with"
    assert len(searches - rates.keys()) < 0.1 * len(searches)
