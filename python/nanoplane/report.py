"""Reports: one HTML page that needs nothing else, and the same plots as a picture.

The plots are drawn by Vega, whose code is put into the page once; nothing is fetched.
"""

import collections
import html
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nanoplane import simulator
from nanoplane.claims import VERDICTS, by_verdict
from nanoplane.errors import Failure
from nanoplane.figures import Figure, Row

if TYPE_CHECKING:
    import altair

_GREY = "#808080"
# Legible on white and on black, so that the page can be either.
_CONFIG = {
    "background": None,
    "view": {"stroke": None},
    "font": "sans-serif",
    "title": {"color": _GREY, "fontSize": 14},
    "axis": {
        "labelColor": _GREY,
        "titleColor": _GREY,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 11,
        "gridColor": _GREY,
        "gridOpacity": 0.25,
        "domainColor": _GREY,
        "tickColor": _GREY,
    },
    "legend": {
        "labelColor": _GREY,
        "titleColor": _GREY,
        "symbolStrokeColor": _GREY,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 400,
    },
}
_EMBED_OPTIONS = {
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #808080; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h1, h2 { line-height: 1.2; }
.plot { overflow-x: auto; margin: 1rem 0; position: relative; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
.claims td:first-child { min-width: 24rem; } .claims td:last-child { min-width: 12rem; }
.soft, small, footer { color: var(--soft); font-size: 0.85rem; }
footer { margin-top: 2rem; }
.reproduced, .differs, .undecided, .by-construction, .not-yet-run { white-space: nowrap; }
.reproduced { color: #0a8f5b; } .differs { color: #c4500a; } .undecided { color: #8a7a00; }
.by-construction, .not-yet-run { color: var(--soft); }
.plot svg text { fill: CanvasText; }
nav ul { columns: 22rem; padding-left: 1.2rem; }
summary { cursor: pointer; margin: 0.7rem 0; }
"""


def printable(text: str) -> str:
    """Escape what would control a terminal, but for the ends of lines; guests make up names."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else _escaped(c)
        for c in text
    )


def _escaped(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def number(value: float | str | None) -> str:
    """Write a measured number with the digits that a reader needs: four significant ones."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if abs(value) < 1:
        return f"{value:#.4g}" if value else "0"
    digits = max(0, 4 - len(str(int(abs(value)))))
    return f"{value:,.{digits}f}"


def interval(ends: Sequence[float] | None) -> str:
    """Write a confidence interval."""
    return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def claimed(value: float | str) -> str:
    """Write a paper's number as the paper does."""
    return value if isinstance(value, str) else f"{value:g}"


def picture(charts: "Sequence[altair.TopLevelMixin]") -> bytes:
    """Draw charts one below the other as PNG, on white."""
    import altair
    import vl_convert

    # The same colour stands for something else in each.
    column = altair.vconcat(*cast("Any", charts)).resolve_scale(
        color="independent", fill="independent", strokeDash="independent"
    )
    spec = _specification(column)
    spec["background"] = "white"
    png: bytes = vl_convert.vegalite_to_png(spec, scale=2)
    return png


def page(
    title: str,
    introduction: str,
    parts: Sequence[tuple[Figure, list[Row]]],
    claims: Sequence[dict[str, Any]],
) -> str:
    """Make the page: each figure's plot, claims and numbers, and then all other claims."""
    import vl_convert

    body = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(introduction)}</p>"]
    if claims:
        body.append(f"<p>{_verdicts(claims)}</p>")
    if len(parts) > 1:
        body.append(_contents(parts))
    script = []
    for index, (figure, rows) in enumerate(parts):
        of_figure = [claim for claim in claims if claim["figure"] == figure.name]
        body.append(_figure(figure, rows, of_figure, index))
        if rows:
            spec = _script_json(_specification(figure.chart(rows)))
            options = _script_json(_EMBED_OPTIONS)
            script.append(f'vegaEmbed("#plot-{index}", {spec}, {options});')
    shown = [figure.name for figure, _ in parts]
    if others := [claim for claim in claims if claim["figure"] not in shown]:
        body.append("<h2>What else the paper claims</h2>" + _claims(others))
    body.append(f"<footer>nanoplane {html.escape(simulator.version())}</footer>")
    # The end of the element must not stand in a text of the code; `\x3C` there is `<`.
    bundle: str = cast("Any", vl_convert).javascript_bundle()
    code = re.sub("<(?=/script|!--)", r"\\x3C", bundle, flags=re.IGNORECASE)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{code}</script>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{chr(10).join(script)}\n</script>\n</body>\n</html>\n"
    )


def check_writable(path: Path) -> None:
    """Raise a Failure if a file cannot be written; leave what is there as it is."""
    new = not path.exists()
    _attempt(path, lambda: path.open("ab").close())
    if new:
        path.unlink()


def write(path: Path, content: str | bytes) -> None:
    """Write a file, and the directory that it is in."""
    data = content.encode() if isinstance(content, str) else content
    _attempt(path, lambda: path.write_bytes(data))


def _attempt(path: Path, action: Callable[[], object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        action()
    except OSError as error:
        raise Failure(f"{path}: cannot be written: {error.strerror}") from None


def _specification(chart: "altair.TopLevelMixin") -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = _CONFIG
    return spec


def _script_json(data: object) -> str:
    return json.dumps(data).replace("<", "\\u003c")


def _figure(figure: Figure, rows: list[Row], claims: Sequence[dict[str, Any]], index: int) -> str:
    parts = [
        f'<h2 id="{figure.name}">{html.escape(figure.title)} '
        f"<span class=soft>{figure.name}</span></h2>",
        f"<p>{html.escape(figure.caption)}</p>",
    ]
    if rows:
        parts.append(f'<div class="plot" id="plot-{index}"></div>')
        if not all(row.steady for row in rows):
            parts.append(
                "<p class=soft>Hollow points: the run had not settled when it ended, or did not "
                "keep up with its load; more requests may change the value.</p>"
            )
    else:
        parts.append(
            "<p class=soft>Nothing of it has been run yet: "
            f"<code>nanoplane figure {figure.name}</code> does it.</p>"
        )
    if claims:
        parts.append(_claims(claims))
    if rows:
        header = ["what", "series", rows[0].x_unit, "value", "95 % confidence", "unit", "requests"]
        cells = [
            [
                row.statistic,
                row.series,
                f"{row.x:.0f}",
                number(row.y),
                interval(row.ci95) or "-",
                row.y_unit,
                f"{row.samples:,}" + ("" if row.steady else " (not settled)"),
            ]
            for row in rows
        ]
        table = _table(header, [list(map(html.escape, row)) for row in cells], numbers={2, 3, 4, 6})
        parts.append(f"<details><summary>The numbers</summary>{table}</details>")
    return "\n".join(parts)


def _verdicts(claims: Sequence[dict[str, Any]]) -> str:
    """Say in a sentence how the paper's claims did."""
    counts = collections.Counter(claim["verdict"] for claim in claims)
    listed = (
        f'<span class="{verdict.replace(" ", "-")}">{counts[verdict]} {verdict}</span>'
        for verdict in VERDICTS
        if counts[verdict]
    )
    return f"Of {len(claims)} claims: {', '.join(listed)}."


def _contents(parts: Sequence[tuple[Figure, list[Row]]]) -> str:
    """Make a list of the figures; what has not been run is said."""
    entries = (
        f'<li><a href="#{figure.name}">{html.escape(figure.title)}</a>'
        + ("" if rows else " <span class=soft>not run</span>")
        + "</li>"
        for figure, rows in parts
    )
    return f"<nav><ul>{''.join(entries)}</ul></nav>"


def _claims(claims: Sequence[dict[str, Any]]) -> str:
    """Make a table of the claims that have been judged; the others are folded to one line."""
    run, not_run = by_verdict(list(claims))
    parts = [_claim_table(run)] if run else []
    if not_run:
        summary = not_run_line(not_run)
        parts.append(f"<details><summary>{summary}</summary>{_claim_table(not_run)}</details>")
    return "\n".join(parts)


def not_run_line(rows: Sequence[dict[str, Any]]) -> str:
    """Say how many claims have no verdict."""
    return f"{len(rows)} claim{'s' if len(rows) > 1 else ''} not yet run"


def _claim_table(claims: Sequence[dict[str, Any]]) -> str:
    header = ["what the paper claims", "paper", "here", "unit", "verdict", "why"]
    cells = []
    for claim in claims:
        where, quote, how, rule, unit, why = (
            html.escape(claim[name]) for name in ("where", "quote", "how", "rule", "unit", "why")
        )
        verdict, within = claim["verdict"], interval(claim["measured_ci95"])
        measured_how = (
            ""
            if claim["figure"] is None
            else f"<br><small>{'; '.join(filter(None, (how, rule)))}</small>"
        )
        cells.append(
            [
                f"“{quote}” <small>{where}</small>{measured_how}",
                html.escape(claimed(claim["paper_value"])),
                number(claim["measured"]) + (f"<br><small>{within}</small>" if within else ""),
                unit,
                f'<span class="{verdict.replace(" ", "-")}">{verdict}</span>',
                re.sub("`(.+?)`", r"<code>\1</code>", why),
            ]
        )
    return _table(header, cells, numbers={1, 2}, name="claims")


def table(header: list[str], rows: list[list[str]]) -> str:
    """Make a table of cells that are HTML."""
    return _table(list(map(html.escape, header)), rows, numbers=set())


def _table(
    header: list[str], rows: list[list[str]], numbers: set[int], name: str = "values"
) -> str:
    """Make a table of cells that are HTML; the columns in `numbers` are aligned to the right."""

    def line(tag: str, cells: list[str]) -> str:
        return (
            "<tr>"
            + "".join(
                f'<{tag} class="number">{cell}</{tag}>'
                if index in numbers
                else f"<{tag}>{cell}</{tag}>"
                for index, cell in enumerate(cells)
            )
            + "</tr>"
        )

    lines = [line("th", header), *(line("td", row) for row in rows)]
    return f'<div class="wide"><table class="{name}">' + "\n".join(lines) + "</table></div>"
