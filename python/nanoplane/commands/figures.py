"""`figure`, `claims`, `report`: the papers' figures and claims."""

import itertools
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from nanoplane import claims as paper_claims
from nanoplane import report
from nanoplane.commands.common import (
    All,
    Fresh,
    Json,
    Precision,
    Quick,
    Scheduler,
    Workers,
    app,
    check_kept,
    check_outputs,
    example,
    print_json,
    show,
)
from nanoplane.figures import Figure, Measured, Row, as_json, chosen, figures
from nanoplane.figures import find as find_figure
from nanoplane.outcomes import Outcome
from nanoplane.progress import Progress
from nanoplane.sweep import Run, look_up, sweep

Effort = Annotated[
    int,
    typer.Option(
        min=1,
        max=paper_claims.MAX_EFFORT,
        metavar="N",
        help="Repeat runs that undecided claims depend on, with up to N times the requests.",
    ),
]
Only = Annotated[
    list[str],
    typer.Option(
        metavar="LABEL=VALUE,…",
        help="Run and show only these points, as in task=crypto-forwarding.",
    ),
]


def _points(listed: Iterable[Figure], quick: bool, precision: float | None) -> dict[Any, Run]:
    """Return all points of figures."""
    runs = (figure.runs(quick, precision).items() for figure in listed)
    return dict(itertools.chain.from_iterable(runs))


def _stored(
    listed: list[Figure],
    judged: list[paper_claims.Claim],
    quick: bool,
    precision: float | None = None,
    or_quick: bool = False,
    only: Collection[Any] | None = None,
) -> tuple[Measured, set[Any]]:
    """Return the stored results of figures, and of longer runs for undecided claims.

    Several figures may have the same point, with runs of different lengths: any of these is
    accepted. With `or_quick` a quick run takes the place of a full one that is missing; the set has
    these points. With `only` no other points are looked up.
    """
    outcomes: dict[Any, Outcome] = {}
    found: dict[Any, Run] = {}
    rough: set[Any] = set()
    for roughly in (False, True) if or_quick and not quick else (quick,):
        runs: dict[Any, list[Run]] = {}
        for figure in listed:
            for point, run in figure.runs(roughly, precision).items():
                if point in outcomes or (only is not None and point not in only):
                    continue
                if run not in (of := runs.setdefault(point, [])):
                    of.append(run)
        wanted = [(point, run) for point, of in runs.items() for run in of]
        for point, of in runs.items():
            found.setdefault(point, of[0])
        with Progress("results looked up") as progress:
            looked_up = look_up((run for _, run in wanted), watcher=progress)
        for (point, run), outcome in zip(wanted, looked_up, strict=True):
            if outcome is not None and point not in outcomes:
                outcomes[point], found[point] = outcome, run
                if roughly and not quick:
                    rough.add(point)

    def stored(longer: dict[Any, Run]) -> dict[Any, Outcome]:
        found = zip(longer, look_up(longer.values()), strict=True)
        return {point: outcome for point, outcome in found if outcome is not None}

    measured = Measured(outcomes, found)
    decided = paper_claims.decide(judged, measured, found, paper_claims.MAX_EFFORT, stored)
    return decided, rough


def _run_figures(
    listed: list[Figure],
    judged: list[paper_claims.Claim],
    quick: bool,
    choices: list[str],
    precision: float | None,
    fresh: bool,
    effort: int,
    workers: int | None,
    scheduler: str | None,
) -> Measured:
    """Perform the missing runs of figures as one sweep, then longer ones for undecided claims."""

    def run(points: dict[Any, Run]) -> dict[Any, Outcome]:
        with Progress() as progress:
            outcomes = sweep(
                points.values(), workers=workers, scheduler=scheduler, fresh=fresh, watcher=progress
            )
        return dict(zip(points, outcomes, strict=True))

    points = chosen(listed, quick, choices, precision)
    measured = Measured(run(points), _points(listed, quick, precision))
    return paper_claims.decide(judged, measured, points, effort, run)


@app.command(
    epilog=example(
        "nanoplane figure hyperplane.8 --quick",
        "nanoplane figure hyperplane.8 hyperplane.9 --html out/figures.html",
        "nanoplane figure hyperplane.8 --only task=raid-protection --only queues=1,1000",
    )
)
def figure(
    names: Annotated[
        list[str], typer.Argument(metavar="PAPER.N", help="Figures; `nanoplane list` names them.")
    ],
    quick: Quick = False,
    only: Only = [],  # noqa: B006
    as_document: Json = False,
    precision: Precision = None,
    effort: Effort = 4,
    every: All = False,
    fresh: Fresh = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.")
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plots.")] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Make figures of the papers.

    Performs the runs that the store does not have, and shows the numbers beside the paper's claims.
    """
    listed = [find_figure(name) for name in dict.fromkeys(names)]
    check_outputs(html, png)
    shown = [one.name for one in listed]
    judged = [claim for claim in paper_claims.claims() if claim.figure in shown]
    results = _run_figures(
        listed, judged, quick, only, precision, fresh, effort, workers, scheduler
    )
    parts = [(one, one.with_commands(one.rows(results), quick)) for one in listed]
    all_claims = [claim.row(results) for claim in judged]
    if html is not None:
        introduction = (
            "Made by nanoplane, which ran the data plane's instructions on a simulated server. "
            f"Below each figure stands what the paper claims{_rough(quick)}."
        )
        report.write(html, report.page("nanoplane figures", introduction, parts, all_claims))
    if png is not None:
        report.write(png, report.picture([one.drawn(rows) for one, rows in parts]))
    if as_document:
        documents = [
            {
                "figure": one.name,
                "title": one.title,
                "caption": one.caption,
                "quick": quick,
                "rows": as_json(rows),
                "claims": [row for row in all_claims if row["figure"] == one.name],
            }
            for one, rows in parts
        ]
        print_json(documents[0] if len(documents) == 1 else documents)
        check_kept(results.values())
        return
    for one, rows in parts:
        _print_rows(one, rows)
    _print_claims(all_claims, every)
    for path in (html, png):
        if path is not None:
            print(f"written: {path}")
    check_kept(results.values())


def _rough(quick: bool) -> str:
    return " (quick: a tenth of the requests, fewer points, so rough numbers)" if quick else ""


def _print_rows(figure: Figure, rows: list[Row]) -> None:
    """Print a table for each unit of x, and an empty one if there is nothing."""
    if not rows:
        _print_table(figure, rows)
    for _, of in itertools.groupby(sorted(rows, key=_x_unit), _x_unit):
        _print_table(figure, list(of))


def _x_unit(row: Row) -> str:
    return row.x_unit


def _heading(x: float) -> str:
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def _print_table(figure: Figure, rows: list[Row]) -> None:
    """Print one table: a line for each statistic and series, a column for each x.

    If half of such a table were empty, because x was measured too, it has a line for each point.
    """
    import rich.box
    import rich.table

    xs = sorted({row.x for row in rows})
    units = " and ".join(sorted({row.y_unit for row in rows}))
    x_unit = rows[0].x_unit if rows else ""
    show(f"{figure.name}: {figure.title} ({units}, by {x_unit})")
    series: dict[tuple[str, str], dict[float, str]] = {}
    for row in rows:
        series.setdefault((row.statistic, row.series), {})[row.x] = report.number(row.y)
    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    table.add_column("")
    table.add_column("")
    if 2 * sum(map(len, series.values())) > len(xs) * len(series):
        for x in xs:
            table.add_column(_heading(x), justify="right", no_wrap=True)
        for names, values in series.items():
            table.add_row(*names, *(values.get(x, "-") for x in xs))
    else:
        table.add_column(x_unit, justify="right")
        table.add_column(units, justify="right")
        for names, values in series.items():
            for index, x in enumerate(sorted(values)):
                table.add_row(*(names if index == 0 else ("", "")), _heading(x), values[x])
    show(table)


@app.command(epilog=example("nanoplane claims hyperplane", "nanoplane claims --run --json"))
def claims(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="One paper; default: all.")
    ] = None,
    as_document: Json = False,
    missing: Annotated[bool, typer.Option("--run", help="Perform missing runs first.")] = False,
    quick: Quick = False,
    precision: Precision = None,
    effort: Effort = 4,
    every: All = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Show the papers' claims beside the measurements.

    The results come from the store; without --run nothing is run.
    """
    listed = paper_claims.claims(paper)
    needed = [find_figure(name) for name in paper_claims.figures_of(listed)]
    if missing:
        results = _run_figures(
            needed, listed, quick, [], precision, False, effort, workers, scheduler
        )
    else:
        results, _ = _stored(needed, listed, quick, precision)
    rows = [claim.row(results) for claim in listed]
    if as_document:
        print_json(rows)
        check_kept(results.values())
        return
    _print_claims(rows, every)
    check_kept(results.values())
    if not missing and any("runs are missing" in row["why"] for row in rows):
        print("`nanoplane claims --run` runs what is missing.")


_COLOURS = {
    paper_claims.REPRODUCED: "green",
    paper_claims.DIFFERS: "red",
    paper_claims.UNDECIDED: "yellow",
    paper_claims.BY_CONSTRUCTION: "dim",
    paper_claims.NOT_YET_RUN: "dim",
}


def _print_claims(rows: list[dict[str, Any]], every: bool) -> None:
    """Print a table of the claims that have been judged, and one line for the others."""
    run, not_run = paper_claims.by_verdict(rows)
    if shown := run + not_run if every else run:
        _print_claim_table(shown)
    if not_run and not every:
        print(f"{report.not_run_line(not_run)}; --all lists them.")


def _print_claim_table(rows: list[dict[str, Any]]) -> None:
    import rich.box
    import rich.table
    import rich.text

    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    for name, justify in (("claim", "left"), ("paper", "right"), ("measured", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for name in ("95 %", "unit", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("why")
    reported: dict[str, str] = {}
    before = ""
    for row in rows:
        why = row["why"]
        shown = why
        if why in reported:
            # Several claims of a figure may have the same long reason.
            shown = "the same" if why == before else f"as for {reported[why]}"
        elif why:
            reported[why] = row["id"]
        before = why
        verdict = row["verdict"]
        table.add_row(
            row["id"],
            report.claimed(row["paper_value"]),
            report.number(row["measured"]),
            report.interval(row["measured_ci95"]),
            row["unit"],
            rich.text.Text(verdict, style=_COLOURS[verdict]),
            shown,
        )
    show(table)


@app.command(
    "report",
    epilog=example(
        "nanoplane report --output out/report.html",
        "nanoplane report hyperplane.8 --run --quick --only task=raid-protection",
    ),
)
def write_report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER.N", help="Figures; default: all figures and claims."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = Path("out/report.html"),
    missing: Annotated[bool, typer.Option("--run", help="Perform missing runs first.")] = False,
    quick: Quick = False,
    only: Only = [],  # noqa: B006
    precision: Precision = None,
    effort: Effort = 4,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_document: Json = False,
) -> None:
    """Write one self-contained page of the results in the store.

    It shows the figures and numbers beside the papers'; without --run nothing is run.
    """
    every = list(figures().values())
    listed = [find_figure(name) for name in dict.fromkeys(names)] if names else every
    shown = [one.name for one in listed]
    judged = [claim for claim in paper_claims.claims() if listed == every or claim.figure in shown]
    check_outputs(output)
    rough: set[Any] = set()
    if missing:
        results = _run_figures(
            listed, judged, quick, only, precision, False, effort, workers, scheduler
        )
    else:
        wanted = chosen(listed, quick, only, precision) if only else None
        results, rough = _stored(listed, judged, quick, precision, or_quick=True, only=wanted)
        if only:
            results = Measured(results, _points(listed, quick, precision))
    parts = [(one, one.with_commands(one.rows(results), quick)) for one in listed]
    rows = [claim.row(results) for claim in judged]
    introduction = f"What has been run, and every claim of the papers about it{_rough(quick)}."
    if rough:
        introduction += (
            f" {len(rough)} of {len(results)} runs are those of --quick, since there are no "
            "others: rough numbers."
        )
    report.write(output, report.page("nanoplane report", introduction, parts, rows))
    if as_document:
        written = [one.name for one, of in parts if of]
        print_json({"page": str(output), "quick": quick, "figures": written, "claims": rows})
        return
    print(f"written: {output}")
    check_kept(results.values())
