"""`sweep` and `compare`: several runs side by side."""

import collections
import csv
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nanoplane import comparison, frames, report
from nanoplane import fields as result_fields
from nanoplane.commands.common import (
    Fresh,
    Json,
    Scheduler,
    Set,
    Workers,
    app,
    check_kept,
    check_outputs,
    example,
    print_json,
    show,
    with_settings,
)
from nanoplane.commands.results import run_document
from nanoplane.description import Description
from nanoplane.errors import DescriptionError
from nanoplane.outcomes import Outcome, measurement, saturates
from nanoplane.progress import Progress
from nanoplane.sweep import sweep as run_all

_MAX_RUNS = 100_000
"""The maximum number of points of one command: more are a mistake in `--vary`."""


@app.command(
    short_help="Run every combination of some keys' values.",
    epilog=example(
        "nanoplane sweep examples/encapsulation.toml --vary data_plane.queues=1,10,100 "
        "--vary data_plane.notify=spin,hyperplane",
        "nanoplane sweep examples/encapsulation.toml --vary traffic.load=0.2,0.5,0.8 "
        "--field latency_ns.p999 --csv out/load.csv",
    ),
)
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The description.")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=A,B,…",
            help="Run each of these values of a key; several keys form all combinations.",
        ),
    ],
    settings: Set = [],  # noqa: B006
    fields: Annotated[
        list[str],
        typer.Option(
            "--field",
            metavar="FIELD",
            help="Show this field of each result, as in latency_ns.p50, instead of throughput, "
            "mean and p99.",
        ),
    ] = [],  # noqa: B006
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write the table with all intervals as CSV."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the table as Parquet, for data frames."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with plots of the numbers.")
    ] = None,
    as_document: Json = False,
    fresh: Fresh = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run a description with every combination of some keys' values, and print a table.

    Runs that are in the store are not repeated.
    """
    base = with_settings(Description.from_toml(file), settings)
    varied = dict(_varied(base, one) for one in vary)
    if len(varied) < len(vary):
        raise DescriptionError("--vary has the same key twice: write all of its values behind one")
    if (count := _count(varied.values())) > _MAX_RUNS:
        raise DescriptionError(f"--vary: these are {count:,} runs, more than {_MAX_RUNS:,}")
    for name in fields:
        # Before the runs, which may take hours.
        result_fields.check_number(name)
    check_outputs(csv_file, parquet, html)
    points = list(itertools.product(*varied.values()))
    descriptions = [
        with_settings(
            base, [f"{key}={value}" for key, value in zip(varied, point, strict=True)], "--vary"
        )
        for point in points
    ]
    with Progress() as progress:
        outcomes = run_all(
            descriptions, workers=workers, scheduler=scheduler, fresh=fresh, watcher=progress
        )
    names = frames.fields(outcomes, fields)
    labelled = [dict(zip(varied, point, strict=True)) for point in points]
    table = frames.columns(outcomes, labelled, names)
    if csv_file is not None:
        report.write(csv_file, _as_csv(table))
    if parquet is not None:
        typed = [{key: one.get(key) for key in varied} for one in descriptions]
        content = io.BytesIO()
        frames.frame(frames.columns(outcomes, typed, names)).write_parquet(content)
        report.write(parquet, content.getvalue())
    if html is not None:
        report.write(html, frames.page(f"Sweep of {file}", outcomes, labelled, names))
    if as_document:
        print_json(
            [
                {"varied": point, **run_document(outcome)}
                for point, outcome in zip(labelled, outcomes, strict=True)
            ]
        )
    else:
        _print_sweep(list(varied), points, names, outcomes)
        for path in (csv_file, parquet, html):
            if path is not None:
                print(f"written: {path}")
    check_kept(outcomes)


def _count(values: Any) -> int:
    count = 1
    for one in values:
        count *= len(one)
    return count


def _varied(base: Description, option: str) -> tuple[str, list[str]]:
    """Return the key of a `--vary` and its values; commas in brackets and strings are kept."""
    key, equals, text = option.partition("=")
    values = [one.strip() for one in _parts(text)]
    if not equals or not key.strip() or not all(values):
        raise DescriptionError(
            f'--vary {option}: write key=value,value, such as "data_plane.queues=1,10,100"'
        )
    if twice := [one for one, count in collections.Counter(values).items() if count > 1]:
        raise DescriptionError(f"--vary {option}: {twice[0]} is there twice")
    base.assign(f"{key}={values[0]}", "--vary")
    return key.strip(), values


def _parts(text: str) -> Iterator[str]:
    """Split a text at the commas outside of brackets and quotation marks."""
    depth, quote, begin = 0, "", 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and not depth:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _print_sweep(
    keys: list[str],
    points: list[tuple[str, ...]],
    names: Sequence[str],
    outcomes: list[Outcome],
) -> None:
    import rich.box
    import rich.table

    remarks = [frames.remark(outcome) for outcome in outcomes]
    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    for key in keys:
        table.add_column(key, no_wrap=True)
    measured = [frames.numbers(outcome, names) for outcome in outcomes]
    with_interval = [any(one and one.ci95 for one in of) for of in zip(*measured, strict=True)]
    for name, has_interval in zip(names, with_interval, strict=True):
        table.add_column(name, justify="right", no_wrap=True)
        if has_interval:
            table.add_column("95 %", no_wrap=True)
    if any(remarks):
        table.add_column("")
    for point, of, remark in zip(points, measured, remarks, strict=True):
        cells: list[str] = []
        for one, has_interval in zip(of, with_interval, strict=True):
            cells.append(report.number(None if one is None else one.value))
            if has_interval:
                cells.append(report.interval(None if one is None else one.ci95))
        table.add_row(*point, *cells, *([remark] if any(remarks) else []))
    show(table)


def _as_csv(table: Mapping[str, Sequence[Any]]) -> str:
    """Return a table with a line for each run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


@app.command(
    short_help="Show the differences between two results.",
    epilog=example(
        "nanoplane compare spin.json qwait.json",
        "nanoplane compare 6fbfdff8 15fb4d83",
    ),
)
def compare(
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="A result: a JSON file, or a key of the store."),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_document: Json = False,
) -> None:
    """Show the differences between two results: in their descriptions and in their measurements.

    The ratio is B over A, with its 95 % confidence interval.
    """
    sides = comparison.read(first), comparison.read(second)
    changed, different = comparison.changes(*sides), comparison.differences(*sides)
    if as_document:
        print_json(
            {
                "first": sides[0].name,
                "second": sides[1].name,
                "description": [
                    {"key": one.key, "first": one.first, "second": one.second} for one in changed
                ],
                "measured": [
                    {
                        "name": one.name,
                        "first": one.first,
                        "second": one.second,
                        "ratio": one.ratio,
                        "ratio_ci95": one.ratio_ci95,
                        "verdict": one.verdict,
                    }
                    for one in different
                ],
                "overload": {side.name: _overload(side) for side in sides},
            }
        )
        return
    _print_comparison(sides, changed, different)


def _overload(side: comparison.Side) -> list[str]:
    """Return why a server did not keep up with its load, unless it was saturated on purpose."""
    if side.description is not None and saturates(side.description):
        return []
    found: list[str] = measurement(side.result).get("overload", [])
    return found


def _print_comparison(
    sides: tuple[comparison.Side, comparison.Side],
    changed: list[comparison.Change],
    different: list[comparison.Difference],
) -> None:
    import rich.box
    import rich.table

    names = [side.name for side in sides]
    if any(side.description is None for side in sides):
        print("One of the files has no description: only what was measured is compared.")
    elif not changed:
        print("The descriptions are the same.")
    else:
        table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
        for name in ("key", *names):
            table.add_column(name, no_wrap=name == "key")
        for one in changed:
            table.add_row(one.key, *(_shown(value) for value in (one.first, one.second)))
        show(table)
    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    for name in ("", *names, "B / A", "95 %", ""):
        table.add_column(name, justify="right" if name in (*names, "B / A") else "left")
    for of in different:
        ratio = "" if of.ratio is None else f"{of.ratio:.3f}"
        interval = "" if of.ratio_ci95 is None else "{:.3f} to {:.3f}".format(*of.ratio_ci95)
        values = (report.number(value) for value in (of.first, of.second))
        table.add_row(of.name, *values, ratio, interval, of.verdict)
    show(table)
    for side in sides:
        for reason in _overload(side):
            print(f"{side.name} DOES NOT KEEP UP: {reason}")


def _shown(value: Any) -> str:
    text = "-" if value is None else json.dumps(value, ensure_ascii=False)
    return report.printable(re.sub(r"^(.{60}).+$", r"\1…", text))
