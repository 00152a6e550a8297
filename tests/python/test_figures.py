import html
import re
from html.parser import HTMLParser

import pytest
import vl_convert

from nanoplane import report
from nanoplane.claims import DIFFERS, NOT_YET_RUN, REPRODUCED, claims, figures_of
from nanoplane.errors import DescriptionError
from nanoplane.figures import Row, figures, find
from nanoplane.papers import hyperplane, hyperplane_conflicts
from nanoplane.sweep import Outcome, sweep

pytestmark = pytest.mark.usefixtures("fake")


def run(name: str) -> dict[str, Outcome]:
    points = find(name).points(True)
    return dict(zip(points, sweep(points.values()), strict=True))


def test_figure_8_has_a_row_for_each_point() -> None:
    rows = find("hyperplane.8").rows(run("hyperplane.8"))
    assert len(rows) == 2 * 2 * 5
    assert {row.series for row in rows} == {
        "spinning, single queue",
        "spinning, fully balanced",
        "HyperPlane, single queue",
        "HyperPlane, fully balanced",
    }
    assert [row.x for row in rows[:5]] == [1, 10, 100, 400, 1000]
    assert {row.y_unit for row in rows} == {"million requests a second"}


def test_figure_9_offers_less_than_one_percent_of_the_peak_with_one_queue() -> None:
    results = run("hyperplane.9")
    rows = find("hyperplane.9").rows(results)
    assert len(rows) == 2 * 2 * 2 * 5
    assert all(row.ci95 is not None for row in rows)
    peaks = run("hyperplane.8")
    for shape in hyperplane.SHAPES:
        rate = results[f"light/spin/{shape}/1000"].description["traffic"]["rate_mrps"]
        peak = peaks[f"peak/spin/{shape}/1"].result["throughput_mrps"]
        assert rate == hyperplane.LIGHT_LOAD * peak


def test_figures_share_the_runs_of_the_peak_with_one_queue() -> None:
    run("hyperplane.8")
    stored = [outcome.stored for outcome in run("hyperplane.8").values()]
    assert all(stored)


def test_with_one_queue_the_shapes_share_a_run() -> None:
    results = run("hyperplane.9")
    for notify in hyperplane.SYSTEMS:
        keys = {results[f"light/{notify}/{shape}/1"].key for shape in hyperplane.SHAPES}
        assert len(keys) == 1


def test_rows_of_what_has_been_run_only() -> None:
    results = run("hyperplane.8")
    del results["peak/spin/single-queue/1000"]
    assert len(find("hyperplane.8").rows(results)) == 19


def test_conflicts_have_an_interval_for_each_point() -> None:
    rows = find("hyperplane.conflicts").rows({})
    assert len(rows) == 4 * 3 * 5
    for row in rows:
        assert row.ci95 is not None
        assert row.ci95[0] <= row.y <= row.ci95[1]
    # By the fake's formula: a tenth of what is full, in whole numbers, in all tables but one.
    full = next(row for row in rows if row.x == 0)
    tables = hyperplane_conflicts.TABLES
    assert full.y == pytest.approx(10 * (tables - 1) / tables, abs=100 * 0.5 / 1024)


def test_unknown_figure() -> None:
    with pytest.raises(DescriptionError, match=r"did you mean \"hyperplane\.8\""):
        find("hyperplane.88")
    with pytest.raises(DescriptionError, match=r"there are hyperplane\.8, hyperplane\.9"):
        find("nonsense")


def test_claims_have_distinct_names_and_known_figures() -> None:
    listed = claims("hyperplane")
    assert len({claim.id for claim in listed}) == len(listed)
    assert {claim.figure for claim in listed} - {None} <= set(figures())
    assert figures_of(listed) == ["hyperplane.8", "hyperplane.9", "hyperplane.conflicts"]
    with pytest.raises(DescriptionError, match='did you mean "hyperplane"'):
        claims("hyperplan")


def test_claims_without_runs_say_how_to_run_them() -> None:
    for claim in claims():
        row = claim.row({})
        if claim.figure == "hyperplane.conflicts":
            continue  # It needs no runs.
        assert row["verdict"] == NOT_YET_RUN
        assert row["why"]
        assert row["measured"] is None


def test_claims_with_runs_have_a_verdict_and_a_reason() -> None:
    results = run("hyperplane.8") | run("hyperplane.9")
    rows = {claim.id: claim.row(results) for claim in claims()}
    # By the fake's formula: HyperPlane is flat, spinning is slower by 5 ns a queue.
    assert rows["hyperplane.8.maintained"]["verdict"] == REPRODUCED
    assert rows["hyperplane.9.below-10us"]["verdict"] == REPRODUCED
    assert rows["hyperplane.9.below-10us"]["measured"] == pytest.approx(0.517)
    assert rows["hyperplane.9.spin-100us"]["verdict"] == DIFFERS
    assert rows["hyperplane.9.two-queues"]["verdict"] == DIFFERS
    assert rows["hyperplane.8.gain"]["verdict"] == NOT_YET_RUN
    assert rows["hyperplane.8.gain"]["measured"] > 1
    for row in rows.values():
        assert row["verdict"] == REPRODUCED or row["why"]


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
    results = run("hyperplane.8") | run("hyperplane.9")
    parts = [(figure, figure.rows(results)) for figure in figures().values()]
    text = report.page("Title", "Text.", parts, [claim.row(results) for claim in claims()])
    page = Page()
    page.feed(text)
    assert page.plots == 3
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
    results = run("hyperplane.8") | run("hyperplane.9")
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
