import dataclasses
import functools
import html
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import vl_convert

import fake_simulator
from nanoplane import report
from nanoplane.claims import (
    DIFFERS,
    NOT_YET_RUN,
    REPRODUCED,
    Claim,
    Judgement,
    claims,
    figures_of,
    judged,
    part,
)
from nanoplane.errors import DescriptionError, Failure
from nanoplane.figures import Measured, Row, chosen, figures, find
from nanoplane.papers import plots
from nanoplane.papers.compare import key_value, notification
from nanoplane.papers.hyperplane import multicore
from nanoplane.papers.hyperplane.cases import OPTIONAL, SYSTEMS, Case
from nanoplane.papers.hyperplane.monitoring_set import TABLES
from nanoplane.papers.hyperplane.queue_scalability import (
    LIGHT_LOAD,
    LIGHT_SHAPES,
    SLOW_TASK,
    light,
)
from nanoplane.papers.rpcvalet import dispatch, service_times, theory
from nanoplane.sweep import Outcome, sweep

pytestmark = pytest.mark.usefixtures("fake")


ONE_TASK = ("task=packet-encapsulation",)


@functools.cache
def run(name: str, *choices: str) -> dict[Any, Outcome]:
    """Return the fake's results, which are the same each time."""
    points = chosen([find(name)], True, choices)
    return dict(zip(points, sweep(points.values()), strict=True))


def test_figure_8_has_a_row_for_each_point() -> None:
    rows = find("hyperplane.8").rows(run("hyperplane.8"))
    assert len(rows) == 6 * 3 * 4 * 5
    assert {row.series for row in rows} >= {
        "packet encapsulation, spinning in poll mode, single queue",
        "RAID protection, HyperPlane, fully balanced",
    }
    assert [row.x for row in rows[:5]] == [1, 10, 100, 400, 1000]
    assert {row.y_unit for row in rows} == {"million requests a second"}


def test_figure_9_offers_less_than_one_percent_of_the_peak_with_one_queue() -> None:
    results = run("hyperplane.9", *ONE_TASK)
    rows = find("hyperplane.9").rows(results)
    assert len(rows) == 4 * 2 * 2 * 5  # HyperPlane in two modes.
    assert all(row.ci95 is not None for row in rows)
    peaks = run("hyperplane.8", *ONE_TASK)
    for shape in LIGHT_SHAPES:
        case = light("packet-encapsulation", "spin", shape, 1000)
        rate = results[case].description["traffic"]["rate_mrps"]
        peak = peaks[Case("packet-encapsulation", "spin", shape, 1)].result["throughput_mrps"]
        assert rate == LIGHT_LOAD * peak


def test_figures_share_the_runs_of_the_peak_with_one_queue() -> None:
    choices = (*ONE_TASK, "queues=1")
    sweep(chosen([find("hyperplane.8")], True, choices).values())
    fake_simulator.calls.clear()
    sweep(chosen([find("hyperplane.9")], True, choices).values())
    # Light traffic alone: 4 modes, and with one queue the shapes are the same; and the peak of
    # HyperPlane in power-optimised mode is not asked for.
    assert len(fake_simulator.calls) == 4


def test_with_one_queue_the_shapes_share_a_run() -> None:
    results = run("hyperplane.9", *ONE_TASK)
    for notify in set(SYSTEMS) - set(OPTIONAL["notify"]):
        cases = [light("packet-encapsulation", notify, shape, 1) for shape in LIGHT_SHAPES]
        assert len({results[case].key for case in cases}) == 1


def test_rows_of_what_has_been_run_only() -> None:
    results = dict(run("hyperplane.8", *ONE_TASK))
    del results[Case("packet-encapsulation", "spin", "single-queue", 1000)]
    assert len(find("hyperplane.8").rows(results)) == 59


def test_conflicts_have_an_interval_for_each_point() -> None:
    rows = find("hyperplane.conflicts").rows({})
    assert len(rows) == 4 * 3 * 5
    for row in rows:
        assert row.ci95 is not None
        assert row.ci95[0] <= row.y <= row.ci95[1]
    # By the fake's formula: a tenth of what is full, in whole numbers, in all tables but one.
    full = next(row for row in rows if row.x == 0)
    assert full.y == pytest.approx(10 * (TABLES - 1) / TABLES, abs=100 * 0.5 / 1024)


def test_points_are_chosen_by_their_labels() -> None:
    figure = find("hyperplane.8")
    cases = chosen([figure], True, ("task=crypto-forwarding,raid-protection", "queues=10"))
    assert len(cases) == 2 * 3 * 4
    assert {case.queues for case in cases} == {10}
    assert not chosen([figure], True, ("queues=10", "queues=100"))
    # What a figure's points do not have does not choose from it.
    assert len(chosen([figure, find("hyperplane.9")], True, ("load=0.008",))) > 360
    with pytest.raises(DescriptionError, match=r"there are 1, 10, 100, 400, 1000"):
        chosen([figure], True, ("queues=7",))
    with pytest.raises(DescriptionError, match=r"their labels are .*notify, .*queues, shape, task"):
        chosen([figure], True, ("colour=red",))
    with pytest.raises(DescriptionError, match=r"their labels are none"):
        chosen([find("hyperplane.conflicts")], True, ("ways=2",))
    for wrong in ("queues", "=", "", "queues=", "=1"):
        with pytest.raises(DescriptionError, match="is not a label"):
            chosen([figure], True, (wrong,))


def test_what_is_optional_has_to_be_named() -> None:
    figure = dataclasses.replace(find("hyperplane.8"), optional={"notify": ["spin", "wrs"]})
    for choices in ((), ONE_TASK):
        cases = chosen([figure], True, choices)
        assert {case.notify for case in cases} == {"spin-poll-mode", "hyperplane"}
    assert {case.notify for case in chosen([figure], True, ("notify=spin",))} == {"spin"}


@pytest.mark.parametrize("number", [8, 9, 10, 11, 12])
def test_every_baseline_can_be_shown(number: int) -> None:
    figure = find(f"hyperplane.{number}")
    shown = {case.notify for case in chosen([figure], True)}
    for notify in ("spin-poll-mode", "spin", "wrs"):
        cases = chosen([figure], True, (f"notify={notify}",))
        assert {case.notify for case in cases} == {notify}
    assert "wrs" not in shown
    assert {"spin-poll-mode", "hyperplane"} <= shown


def test_a_baseline_that_is_asked_for_is_drawn() -> None:
    figure = find("hyperplane.8")
    results = run("hyperplane.8", *ONE_TASK, "notify=wrs,hyperplane")
    rows = figure.rows(results)
    assert {row.labels["notify"] for row in rows} == {"wrs", "hyperplane"}
    assert "a scan that sleeps by Zawrs" in json.dumps(figure.chart(rows).to_dict())


def test_unknown_figure() -> None:
    with pytest.raises(DescriptionError, match=r"did you mean \"hyperplane\.8\""):
        find("hyperplane.88")
    with pytest.raises(DescriptionError, match=r"there are hyperplane\.8, hyperplane\.9"):
        find("nonsense")


def test_claims_have_distinct_names_and_known_figures() -> None:
    listed = claims("hyperplane")
    assert len({claim.id for claim in listed}) == len(listed)
    assert {claim.paper for claim in listed} == {"hyperplane"}
    assert {claim.figure for claim in listed} - {None} <= set(figures())
    assert figures_of(listed) == [name for name in figures() if name.startswith("hyperplane.")]
    with pytest.raises(DescriptionError, match='did you mean "hyperplane"'):
        claims("hyperplan")


def test_figure_2_of_rpcvalet_has_tails_and_the_largest_loads() -> None:
    results = run("rpcvalet.2")
    rows = find("rpcvalet.2").rows(results)
    # Five organisations with exponential service times, two with three others.
    assert len({row.series for row in rows}) == 5 + 2 * 3
    assert len(rows) == 11 * (len(theory.LOADS_PERCENT) + 1)
    tail = next(row for row in rows if row.series == "4x4, exponential" and row.x == 50)
    # By the fake's formula: ln 100 / (1 - load) / sqrt(units).
    assert tail.y == pytest.approx(math.log(100) / 0.5 / 2)
    largest = next(row for row in rows if row.series == "16x1, GEV" and row.x_unit != "% load")
    assert largest.y == pytest.approx(100 * (1 - math.log(100) / 10), rel=theory.PRECISION)
    assert largest.ci95 is not None
    assert largest.ci95[0] < largest.y < largest.ci95[1]
    judged = {claim.id: claim.row(results) for claim in claims("rpcvalet")}
    # 16x1 up to 1 - ln 100 / 10, 1x16 up to 1 - ln 100 / 40.
    loss = 1 - (1 - math.log(100) / 10) / (1 - math.log(100) / 40)
    assert judged["rpcvalet.2.loss-least"]["measured"] == pytest.approx(100 * loss, rel=0.02)
    assert judged["rpcvalet.2.units"]["verdict"] == REPRODUCED
    assert len(run("rpcvalet.2", "fixed_part=0.0")) == 2 * 4 * (len(theory.LOADS_PERCENT) + 1)


def test_figure_6_of_rpcvalet_has_the_times_that_are_drawn() -> None:
    results = run("rpcvalet.6")
    rows = find("rpcvalet.6").rows(results)
    drawn, stores = rows[:4], rows[4:]
    # The fake's histogram has one value, 1024: the mean, and of service times 1024 ns, which is
    # more than the histogram of HERD's shows.
    assert {row.series for row in drawn} == set(theory.DISTRIBUTIONS.values())
    assert [(row.x, row.y) for row in drawn] == [(625, 100)] * 4
    assert [(row.series, row.x, row.y) for row in stores] == [
        ("Masstree-like, gets, processing alone", 1025, 100),
        ("Masstree-like, gets, with sending the reply", 1025, 100),
    ]
    alone = results[service_times.Served("key-value")].description
    assert alone["data_plane"]["notify"] == "hyperplane"
    measured = {claim.id: claim.row(results)["measured"] for claim in claims("rpcvalet")}
    # A core takes 505 ns for a request of the fake's, and ten times that for a scan.
    assert measured["rpcvalet.6.herd-mean"] == pytest.approx(505)
    assert measured["rpcvalet.6.masstree-mean"] == pytest.approx(0.505)
    assert measured["rpcvalet.6.masstree-scans"] == pytest.approx(5.05)


def test_the_network_interface_of_rpcvalet_is_measured() -> None:
    results = run("rpcvalet.interface")
    rows = find("rpcvalet.interface").rows(results)
    # The fake's sixteen cores take a request every 505 ns, whatever it is.
    assert [row.y for row in rows] == [pytest.approx(505 / 16)] * 2
    judged = {claim.id: claim.row(results) for claim in claims("rpcvalet")}
    # 200 nodes with 32 slots each: 6400 x (32 + 1152 + 64) bytes.
    footprint = judged["rpcvalet.4.footprint"]
    assert (footprint["measured"], footprint["verdict"]) == (7_987_200, REPRODUCED)
    assert judged["rpcvalet.4.dispatch-interval-16"]["measured"] == pytest.approx(31.25)
    assert judged["rpcvalet.4.dispatch-interval-64"]["verdict"] == DIFFERS
    assert judged["rpcvalet.4.dispatcher-latency"]["measured"] == 0
    assert judged["rpcvalet.4.state"]["measured"] == 21.5


def test_the_ways_to_learn_of_requests_are_compared() -> None:
    results = run("compare.notification")
    rows = find("compare.notification").rows(results)
    # Five systems, three loads, and the largest within two limits.
    assert len(rows) == 5 * (3 + 2)
    descriptions = {
        system: results[notification.Case(system, 10.0)].description
        for system in notification.SYSTEMS
    }
    # The same requests for all.
    for table in ("traffic", "measure"):
        assert len({repr(one[table]) for one in descriptions.values()}) == 1
    assert {one["data_plane"]["program"] for one in descriptions.values()} == {"key-value"}
    # All have the limit of RPCValet's service time, 505 ns: a p99 of 515 ns at a tenth of the
    # peak, as spinning has it, and (500 + 1000) ns as it is with 200 queues to poll.
    tight = results[notification.Case("rpcvalet", limit=3.0)].result["largest_load"]
    peak = 16_000 / 505
    assert tight == pytest.approx(3 * 505 / 510 * peak / 10, rel=0.05)
    measured = {claim.id: claim.row(results)["measured"] for claim in claims("compare")}
    assert measured["compare.qwait-shared"] == 1
    assert measured["compare.rpcvalet-over-spinning"] > 1


def test_interfaces_are_compared_with_the_same_requests() -> None:
    results = run("compare.key-value")
    rows = find("compare.key-value").rows(results)
    # Six systems: the peak, the largest loads within two limits; and at three rates two latencies,
    # the energy, its five parts and leakage. At the fake's peaks all rates can be taken.
    assert len(rows) == 6 * (1 + 2 + 3 * (2 + 1 + 5 + 1))
    racks = {
        system: results[key_value.Case(system, 7.5)].description for system in key_value.SYSTEMS
    }
    # The same requests, link, cores, caches, mesh and memory for all.
    for table in ("clients", "link"):
        assert len({repr(one["rack"][table]) for one in racks.values()}) == 1
    assert len({repr(one["rack"]["servers"][0]["server"]) for one in racks.values()}) == 1
    # Ten service times of the rings, 80 ns, are 800 ns, which the fake's p99 keeps up to the peak,
    # and nanoPU's is eight times that of the rings.
    within = results[key_value.Case("nanopu", limit="service-times")].result
    assert within["largest_load"] == pytest.approx(16_000 / 10, rel=0.05)
    spent = key_value.energy_nj(results[key_value.Case("nanopu", 7.5)].result)
    # Of 10,000 nJ for 1000 requests the cores have 3000, and each other part 1000.
    assert spent == pytest.approx(
        {
            **{"all": 10, "cores": 3, "last-level cache and directory": 2, "mesh": 1},
            **{"memory": 2, "HyperPlane": 2, key_value.LEAKAGE: 4},
        }
    )


def test_figures_of_rpcvalets_dispatch() -> None:
    rows = find("rpcvalet.7").rows(run("rpcvalet.7"))
    # Two distributions, three ways to dispatch; four loads, and the largest within the SLO. HERD
    # has three loads, Masstree two and one more limit.
    assert len(rows) == 3 * (2 * (4 + 1) + (3 + 1) + (2 + 2))
    results = run("rpcvalet.9")
    rows = find("rpcvalet.9").rows(results)
    assert len(rows) == 4 * ((4 + 1) + len(theory.LOADS_PERCENT) + 1)
    assert {row.y_unit for row in rows} == {"mean service times"}
    # The fake's cores take a request every 505 ns, of which 300 are drawn.
    theory_point = dispatch.Yardstick("fixed", load_percent=70)
    fixed_part = results[theory_point].description["queueing"]["fixed_part"]
    assert fixed_part == pytest.approx(1 - 300 / 505)
    measured = {claim.id: claim.row(results) for claim in claims("rpcvalet")}
    gap = measured["rpcvalet.9.gap-most"]
    # The fake's p99 is 510 ns times ten loads, and its limit ten times 505 ns; theory sustains
    # 1 - ln 100 / 40.
    expected = 100 * (1 - 505 / 510 / (1 - math.log(100) / 40))
    assert gap["measured"] == pytest.approx(expected, abs=5)
    assert gap["measured_ci95"] is not None


def test_figures_7_a_and_b_of_rpcvalet_have_the_stores() -> None:
    results = run("rpcvalet.7", "distribution=key-value,ordered-store")
    rows = find("rpcvalet.7").rows(results)
    assert len(rows) == 3 * ((3 + 1) + (2 + 2))
    case = dispatch.Case("ordered-store", dispatch.BEST, 2.0)
    description = results[case].description
    assert description["data_plane"]["program"] == "ordered-store"
    assert description["traffic"]["operations"]["scans"] == 0.01
    assert "work" not in description["traffic"] or description["traffic"]["work"] is None
    # The fake's p99 is 510 ns times ten loads, of a peak of 16 / 505 ns; ten service times of
    # gets are 5050 ns, and 75 us are beyond what is not dropped.
    peak = 16_000 / 505
    tight = results[dispatch.slo("ordered-store", dispatch.BEST)].result["largest_load"]
    assert 0.9 * 505 / 510 * peak <= tight <= 505 / 510 * peak
    relaxed = results[dispatch.relaxed(dispatch.BEST)].result["largest_load"]
    assert 0.9 * peak <= relaxed <= peak
    measured = {claim.id: claim.row(results) for claim in claims("rpcvalet")}
    assert measured["rpcvalet.7a.service-time"]["measured"] == pytest.approx(505)
    assert measured["rpcvalet.7a.over-4x4"]["measured"] == 1
    assert measured["rpcvalet.7b.16x1"]["measured"] == pytest.approx(510 / 505)


def test_claims_without_runs_say_how_to_run_them() -> None:
    for claim in claims():
        row = claim.row({})
        if claim.figure == "hyperplane.conflicts":
            continue  # It needs no runs.
        assert row["verdict"] == NOT_YET_RUN
        assert row["why"]
        assert row["measured"] is None
    # A part of the runs is not enough for an average over all.
    rows = {claim.id: claim.row(run("hyperplane.8", *ONE_TASK)) for claim in claims()}
    assert rows["hyperplane.8.gain"]["verdict"] == NOT_YET_RUN
    assert rows["hyperplane.8.gain"]["measured"] > 1
    assert "only 20 of 120 values have been run" in rows["hyperplane.8.gain"]["why"]


def every_run() -> Measured:
    points = {point for figure in figures().values() for point in figure.points(True)}
    return Measured({point: of for name in figures() for point, of in run(name).items()}, points)


def made_up(value: float, low: float, high: float) -> Outcome:
    latency = {"p99": value, "p99_ci95": [low, high], "mean": 1.0}
    return Outcome({}, "", {"latency_ns": latency, "throughput_mrps": 2.0}, stored=True)


def p99(results: Any, point: str) -> float:
    return float(results[point].result["latency_ns"]["p99"])


def claim(measure: Any) -> Claim:
    return Claim("a.b", "", "", 1, "times", "", "", "hyperplane.8", measure)


def test_the_interval_of_a_claim_follows_from_those_of_its_runs() -> None:
    results = {"a": made_up(100, 98, 104), "b": made_up(50, 49, 52), "c": made_up(9, 1, 99)}
    ratio = claim(lambda r: Judgement(p99(r, "a") / p99(r, "b"), agrees=True)).row(results)
    assert ratio["measured"] == 2
    # Upwards, 104 / 50 and 100 / 49 are 0.08 and 0.0408 more; downwards, 98 / 50 and 100 / 52 are
    # 0.04 and 0.0769 less. What is independent adds up by squares; "c" has no part in it.
    low, high = 2 - (0.04**2 + 0.0769**2) ** 0.5, 2 + (0.08**2 + 0.0408**2) ** 0.5
    assert ratio["measured_ci95"] == pytest.approx((low, high), abs=1e-4)
    # What has no interval makes none.
    of_mean = claim(lambda r: Judgement(r["a"].result["latency_ns"]["mean"], agrees=True))
    assert of_mean.row(results)["measured_ci95"] is None
    of_peak = claim(lambda r: Judgement(r["a"].result["throughput_mrps"], agrees=True))
    assert of_peak.row(results)["measured_ci95"] is None
    # A divisor that may be zero leaves the quotient without an end.
    from_zero = {"a": made_up(100, 98, 104), "b": made_up(50, 0, 52)}
    endless = claim(lambda r: Judgement(p99(r, "a") / p99(r, "b"), agrees=True)).row(from_zero)
    assert endless["measured"] == 2
    assert endless["measured_ci95"] is None


def test_what_a_figure_leaves_out_is_not_missing() -> None:
    results = Measured({"a": made_up(3, 2, 4)}, {"a", "b"})
    for wanted, verdict, why in (
        ("ac", REPRODUCED, ""),
        ("ab", NOT_YET_RUN, "only 1 of 2 values have been run"),
        ("b", NOT_YET_RUN, "runs are missing"),
        ("c", NOT_YET_RUN, "--quick leaves its runs out"),
    ):

        def largest(results: Any, wanted: str = wanted) -> Any:
            return part(max, lambda point: p99(results, point), wanted)

        row = claim(judged(largest, lambda value: Judgement(value, value == 3))).row(results)
        assert row["verdict"] == verdict
        assert row["why"].startswith(why)


def test_quick_figure_9_has_all_tasks_but_the_slow_one() -> None:
    tasks = {case.task for case in find("hyperplane.9").points(True)}
    assert {case.task for case in find("hyperplane.9").points(False)} - tasks == {SLOW_TASK}


def test_saturated_runs_leave_out_what_fills_the_rings() -> None:
    for shape, queues, full in (
        ("fully-balanced", 1000, 16_000),  # 16 slots each.
        ("proportionally-concentrated", 1000, 3840),  # A fifth of them, and 5 % of 800.
        ("non-proportionally-concentrated", 1000, 2320),  # 100, and 5 % of 900.
        ("single-queue", 1000, 100),
        ("fully-balanced", 1, 100),
    ):
        case = Case("packet-encapsulation", "spin", shape, queues)
        for quick, warmup in ((False, full), (True, min(full, 8000))):
            assert case.saturated(quick, 1000).resolve().data["measure"]["warmup"] == warmup


def test_a_limit_is_searched_for() -> None:
    results = run("hyperplane.10")
    case = multicore.sustained("hyperplane", "fully-balanced", 1)
    reference = multicore.reference("fully-balanced")
    # By the fake's formula: the p99 is 517 * 10 * rate / peak, and the limit ten service times,
    # 10 * 1000 * 4 / peak = 5050 with a peak of 4 * 1000 / 505; so the rate is 5050 / 5170 of it.
    peak = 4 * 1000 / 505
    found = results[case].result["throughput_mrps"]
    assert 0.99 * 5050 / 5170 * peak <= found <= 5050 / 5170 * peak
    assert results[case].description["traffic"]["rate_mrps"] == found
    # 10 % more on one core are dropped above 1 / 1.1 of the peak.
    uneven = multicore.sustained("hyperplane", "proportionally-concentrated", 1, 0.1)
    found = results[uneven].result["throughput_mrps"]
    assert 0.97 * peak / 1.1 <= found <= peak / 1.1
    assert reference not in results


def test_a_limit_that_nothing_keeps_gets_a_sentence() -> None:
    case = multicore.saturated("hyperplane", "fully-balanced", 1)
    impossible = case.within(0.5, of=case)
    with pytest.raises(Failure, match="the p99 is above 252 ns at any load"):
        sweep([impossible.run(True, 1000, 1000)])


def test_every_figure_has_rows_and_a_plot() -> None:
    results = every_run()
    for figure in figures().values():
        rows = figure.rows(results)
        assert rows, figure.name
        assert report.picture([figure.chart(rows)]).startswith(b"\x89PNG")
        # A part of it can be drawn as well.
        assert figure.rows({}) == [] or figure.name == "hyperplane.conflicts"


def test_claims_with_runs_have_a_verdict_and_a_reason() -> None:
    results = every_run()
    rows = {claim.id: claim.row(results) for claim in claims()}
    # By the fake's formula: HyperPlane is flat, spinning is slower by 5 or 10 ns a queue.
    assert rows["hyperplane.8.maintained"]["verdict"] == REPRODUCED
    assert rows["hyperplane.9.below-10us"]["verdict"] == REPRODUCED
    assert rows["hyperplane.9.below-10us"]["measured"] == pytest.approx(0.517)
    assert rows["hyperplane.9.spin-100us"]["verdict"] == DIFFERS
    assert rows["hyperplane.9.two-queues"]["verdict"] == REPRODUCED
    # Saturated, single queue: (500 + 10 n) / 517 for 1, 10, 100, 400, 1000 queues, mean 6.777;
    # any other shape: 1.
    single = sum((500 + 10 * n) / 517 for n in (1, 10, 100, 400, 1000)) / 5
    one = (500 + 10) / 517  # One queue is a single queue in every shape.
    other = (one + 4) / 5
    assert rows["hyperplane.8.gain"]["measured"] == pytest.approx((single + 3 * other) / 4)
    assert rows["hyperplane.8.gain"]["verdict"] == DIFFERS
    assert rows["hyperplane.12.wake-up-idle"]["measured"] == pytest.approx(100 * 500 / 517)
    assert rows["hyperplane.13.software-ready-set"]["measured"] is not None
    for row in rows.values():
        assert row["verdict"] == REPRODUCED or row["why"]
        # All but what nanoplane does not have.
        assert (row["measured"] is None) == (row["figure"] is None)


class Page(HTMLParser):
    """Notes whatever a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.plots = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self.plots += (named.get("id") or "").startswith("plot-")
        for name in ("src", "href"):
            if named.get(name):
                self.fetched.append(f"{tag} {named[name]}")


def test_a_page_needs_nothing_else() -> None:
    results = every_run()
    parts = [(figure, figure.rows(results)) for figure in figures().values()]
    text = report.page("Title", "Text.", parts, [claim.row(results) for claim in claims()])
    page = Page()
    page.feed(text)
    assert page.plots == len(figures())
    assert page.fetched == []
    assert not re.search(r"@import|url\(", text.split("<script>")[0])
    assert text.count("vegaEmbed(") >= 2
    assert text.count("</script>") == 2
    # Vega's code is as it came: escaping must not change its regular expressions.
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    assert bundle in text
    for claim in claims():
        assert text.count(html.escape(claim.quote)) >= 1


def test_a_page_of_nothing_says_how_to_make_it() -> None:
    parts: list[tuple[object, list[Row]]] = [(figure, []) for figure in figures().values()]
    text = report.page("Title", "Text.", parts, [])  # type: ignore[arg-type]
    assert "nanoplane figure hyperplane.8" in text


def test_the_plots_as_a_picture() -> None:
    results = every_run()
    png = report.picture([figure.chart(figure.rows(results)) for figure in figures().values()])
    assert png.startswith(b"\x89PNG")


def test_numbers_have_four_digits() -> None:
    assert [
        report.number(x) for x in (1234567.8, 123.456, 1.23456, 0.4, 0.0123456, 0, "text", None)
    ] == [
        "1,234,568",
        "123.5",
        "1.235",
        "0.4000",
        "0.01235",
        "0",
        "text",
        "-",
    ]


def test_an_interval_that_reaches_zero_has_no_place_on_a_logarithmic_axis() -> None:
    row = Row("s", 1.0, "Mrps", 2.0, "us", "p99", {"kind": "s"}, (-0.5, 3.0), 1, True)
    for axis, low in ((plots.logarithmic("us"), 2.0), (plots.linear("us"), -0.5)):
        assert plots._drawn_interval(row, axis) == (low, 3.0)
