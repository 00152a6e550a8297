"""Reports: one HTML page that needs nothing else, and the same plots as a picture.

The plots are drawn by Vega, whose code is put into the page once; nothing is fetched.
"""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import altair
import vl_convert

from nanoplane import simulator
from nanoplane.claims import DIFFERS, NOT_YET_RUN, REPRODUCED
from nanoplane.errors import Failure
from nanoplane.figures import Figure, Row

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
    },
}
_EMBED_OPTIONS = {
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #808080; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h1, h2 { line-height: 1.2; }
.plot { overflow-x: auto; margin: 1rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
blockquote { margin: 0.5rem 0; padding-left: 1rem; border-left: 3px solid var(--line);
  color: var(--soft); }
.soft, footer { color: var(--soft); font-size: 0.85rem; }
.reproduced { color: #0a8f5b; } .differs { color: #c4500a; } .not-yet-run { color: var(--soft); }
summary { cursor: pointer; margin: 0.7rem 0; }
"""


def number(value: float | str | None) -> str:
    """Write a measured number with the digits that a reader needs: four significant ones."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if abs(value) < 1:
        return f"{value:.4g}"
    digits = max(0, 4 - len(str(int(abs(value)))))
    return f"{value:,.{digits}f}"


def claimed(value: float | str) -> str:
    """Write a paper's number as the paper does."""
    return value if isinstance(value, str) else f"{value:g}"


def picture(charts: Sequence[altair.TopLevelMixin]) -> bytes:
    """Draw charts one below the other as PNG, on white."""
    spec = _specification(altair.vconcat(*cast("Any", charts)))
    spec["background"] = "white"
    png: bytes = vl_convert.vegalite_to_png(spec, scale=2)
    return png


def page(
    title: str,
    introduction: str,
    parts: Sequence[tuple[Figure, list[Row]]],
    claims: Sequence[dict[str, Any]],
) -> str:
    """Make the page: for each figure its plot, the paper's words and the numbers; then claims."""
    body = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(introduction)}</p>"]
    script = []
    for index, (figure, rows) in enumerate(parts):
        body.append(_figure(figure, rows, index))
        if rows:
            spec = _script_json(_specification(figure.chart(rows)))
            options = _script_json(_EMBED_OPTIONS)
            script.append(f'vegaEmbed("#plot-{index}", {spec}, {options});')
    if claims:
        body.append(_claims(claims))
    body.append(f"<footer>nanoplane {html.escape(simulator.version())}</footer>")
    bundle = cast("Any", vl_convert).javascript_bundle().replace("</", "<\\/")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{bundle}</script>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{chr(10).join(script)}\n</script>\n</body>\n</html>\n"
    )


def write(path: Path, content: str | bytes) -> None:
    """Write a file, and the directory that it is in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise Failure(f"{path}: cannot be written: {error.strerror}") from None


def _specification(chart: altair.TopLevelMixin) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = _CONFIG
    return spec


def _script_json(data: object) -> str:
    return json.dumps(data).replace("</", "<\\/")


def _figure(figure: Figure, rows: list[Row], index: int) -> str:
    parts = [
        f"<h2>{html.escape(figure.title)} <span class=soft>{figure.name}</span></h2>",
        f"<p>{html.escape(figure.caption)}</p>",
    ]
    if rows:
        parts.append(f'<div class="plot" id="plot-{index}"></div>')
    else:
        parts.append(
            "<p class=soft>Nothing of it has been run yet: "
            f"<code>nanoplane figure {figure.name}</code> does it.</p>"
        )
    parts.append('<p class="soft">The paper:</p>')
    parts += [f"<blockquote>{html.escape(text)}</blockquote>" for text in figure.paper_text]
    if rows:
        header = ["what", "series", "queues", "value", "95 % confidence", "unit", "requests"]
        cells = [
            [
                row.statistic,
                row.series,
                f"{row.x:.0f}",
                number(row.y),
                f"{number(row.ci95[0])} to {number(row.ci95[1])}" if row.ci95 else "-",
                row.y_unit,
                f"{row.samples:,}" + ("" if row.steady else " (not steady)"),
            ]
            for row in rows
        ]
        table = _table(header, cells, numbers={2, 3, 4, 6})
        parts.append(f"<details><summary>The numbers</summary>{table}</details>")
    return "\n".join(parts)


def _claims(claims: Sequence[dict[str, Any]]) -> str:
    header = ["where", "claim", "paper", "measured", "unit", "verdict", "why"]
    cells = [
        [
            claim["where"],
            f"“{claim['quote']}”",
            claimed(claim["paper_value"]),
            number(claim["measured"]),
            claim["unit"],
            claim["verdict"],
            claim["why"],
        ]
        for claim in claims
    ]
    return "<h2>What the paper claims</h2>" + _table(header, cells, numbers={2, 3})


def _table(header: list[str], rows: list[list[str]], numbers: set[int]) -> str:
    def cell(tag: str, index: int, text: str) -> str:
        classes = "number" if index in numbers else ""
        if text in (REPRODUCED, DIFFERS, NOT_YET_RUN):
            classes = text.replace(" ", "-")
        return f'<{tag} class="{classes}">{html.escape(text)}</{tag}>'

    lines = ["<tr>" + "".join(cell("th", i, text) for i, text in enumerate(header)) + "</tr>"]
    lines += [
        "<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>"
        for row in rows
    ]
    return '<div class="wide"><table>' + "\n".join(lines) + "</table></div>"
