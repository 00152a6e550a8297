"""Reports: one self-contained HTML page, and the same plots as a picture.

The plots are drawn by Vega, whose code is embedded in the page once; nothing is fetched. The page
is a template, nanoplane/page/page.html.
"""

import collections
import contextlib
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nanoplane import scratch, simulator
from nanoplane.claims import DIFFERS, NOT_YET_RUN, VERDICTS, by_verdict
from nanoplane.errors import Failure
from nanoplane.figures import Figure, Row

if TYPE_CHECKING:
    import altair
    import markupsafe

_GREY = "#808080"
_BLACK = "#000000"
# Text is black; a page replaces it by the colour of its own text, so that it can be dark.
_CONFIG: dict[str, Any] = {
    "background": None,
    "view": {"stroke": None},
    "font": "sans-serif",
    "title": {"color": _BLACK, "fontSize": 14},
    "axis": {
        "labelColor": _BLACK,
        "titleColor": _BLACK,
        "titleFontWeight": "normal",
        "titleFontSize": 13,
        "labelFontSize": 12,
        "gridColor": _GREY,
        "gridOpacity": 0.25,
        "domainColor": _GREY,
        "tickColor": _GREY,
    },
    "legend": {
        "orient": "top",
        "labelColor": _BLACK,
        "titleColor": _BLACK,
        "symbolStrokeColor": _GREY,
        "symbolSize": 90,
        "symbolStrokeWidth": 2,
        "labelFontSize": 13,
        "titleFontSize": 13,
        "labelLimit": 400,
    },
}


def printable(text: str) -> str:
    """Escape control characters of terminals, except line ends; guests choose names."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else _escaped(c)
        for c in text
    )


def _escaped(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def number(value: float | str | None) -> str:
    """Write a measured number with four significant digits."""
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
    """Write a paper's number like the paper."""
    return value if isinstance(value, str) else f"{value:g}"


def picture(charts: "Sequence[altair.TopLevelMixin]") -> bytes:
    """Draw charts one below the other as PNG, on white."""
    import vl_convert

    from nanoplane.papers import plots

    # The same colour has a different meaning in each.
    column = plots.stacked(*charts)
    spec = _specification(column)
    spec["background"] = "white"
    spec["config"] = {**_CONFIG, "legend": {**_CONFIG["legend"], "orient": "right"}}
    png: bytes = vl_convert.vegalite_to_png(spec, scale=2)
    return png


def page(
    title: str,
    introduction: str,
    parts: Sequence[tuple[Figure, list[Row]]],
    claims: Sequence[dict[str, Any]],
) -> str:
    """Make the page: the figures' summaries, each figure with its claims, all other claims.

    Figures that have been run come first.
    """
    import jinja2

    parts = sorted(parts, key=lambda part: not part[1])
    counts = collections.Counter(claim["verdict"] for claim in claims)
    shown = [figure.name for figure, _ in parts]
    answers = [figure.answer(rows) for figure, rows in parts if figure.answer and rows]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nanoplane", "page"),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": number,
        "interval": interval,
        "claimed": claimed,
        "code": _code,
    }
    files = Path(__file__).parent / "page"
    return environment.get_template("page.html").render(
        title=title,
        introduction=introduction,
        answers=[answer for answer in answers if answer][:_ANSWERS],
        claims_count=len(claims),
        verdicts=[
            (verdict, counted(counts[verdict], verdict)) for verdict in VERDICTS if counts[verdict]
        ],
        parts=[_part(index, figure, rows, claims) for index, (figure, rows) in enumerate(parts)],
        contents=[{"figure": figure, "rows": rows} for figure, rows in parts]
        if len(parts) > 1
        else [],
        others=_kinds([claim for claim in claims if claim["figure"] not in shown]),
        version=simulator.version(),
        style=(files / "style.css").read_text(encoding="utf-8"),
        script=(files / "script.js").read_text(encoding="utf-8"),
        # The end tag must not occur in the code's texts; `\x3C` is `<` there.
        vega=re.sub("<(?=/script|!--)", r"\\x3C", _vega(), flags=re.IGNORECASE),
        plots=_script_json(
            {
                index: interactive(_specification(figure.drawn(rows)))
                for index, (figure, rows) in enumerate(parts)
                if rows
            }
        ),
    )


def _vega() -> str:
    """Return the code that draws the plots, as one script.

    Putting it together takes a second or more, so it is kept for the next page, if possible.
    """
    import importlib.metadata

    import vl_convert

    kept = None
    with contextlib.suppress(Failure, OSError):
        version = importlib.metadata.version("vl-convert-python")
        kept = scratch.cache("nanoplane") / f"vega-{version}.js"
        return kept.read_text(encoding="utf-8")
    code: str = cast("Any", vl_convert).javascript_bundle()
    if kept is not None:
        with contextlib.suppress(OSError), scratch.directory(kept.parent, "vega-") as room:
            (room / kept.name).write_text(code, encoding="utf-8")
            (room / kept.name).replace(kept)
    return code


_ANSWERS = 3
"""The maximum number of sentences at the top of a page, which leaves room for the first plot."""


def interactive(spec: dict[str, Any]) -> dict[str, Any]:
    """Make the legend's names clickable, and allow panning and zooming of each panel.

    The wheel alone scrolls the page.
    """
    views = list(_views(spec))
    picked, params = [], []
    for index, view in enumerate(views):
        layers = view.get("layer", [view])
        layers[0]["name"] = name = f"view-{index}"
        coloured = [one for one in layers if _colour(one) is not None]
        for layer in coloured:
            layer["encoding"].setdefault(
                "opacity", {"condition": {"param": "pick", "value": 1}, "value": 0.07}
            )
        if layers[0] in coloured:
            picked.append(name)
        axes = {**view.get("encoding", {}), **layers[0].get("encoding", {})}
        if axes.get("x", {}).get("type") == "quantitative":
            params.append(
                {
                    "name": f"zoom_{index}",
                    "select": {"type": "interval", "zoom": "wheel![event.ctrlKey]"},
                    "bind": "scales",
                    "views": [name],
                }
            )
    if picked:
        select = {"type": "point", "fields": [_COLOUR_FIELD], "toggle": "true"}
        params.append({"name": "pick", "select": select, "bind": "legend", "views": picked})
    return {**spec, "params": params} if params else spec


_COLOUR_FIELD = "colour"
"""The field of a point's series in the data of `plots`."""


def _colour(layer: dict[str, Any]) -> str | None:
    """Return the field that colours a layer by series."""
    field = layer.get("encoding", {}).get("color", {}).get("field")
    return field if field == _COLOUR_FIELD else None


def _views(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the panels of a plot."""
    parts = spec.get("concat") or spec.get("hconcat") or spec.get("vconcat")
    if parts is None:
        yield spec
    else:
        for part in parts:
            yield from _views(part)


def check_writable(path: Path) -> None:
    """Raise a Failure if a file cannot be written; do not change its contents."""
    new = not path.exists()
    _attempt(path, lambda: path.open("ab").close())
    if new:
        path.unlink()


def write(path: Path, content: str | bytes) -> None:
    """Write a file, and create its directory if necessary."""
    data = content.encode() if isinstance(content, str) else content
    _attempt(path, lambda: path.write_bytes(data))


def _attempt(path: Path, action: Callable[[], object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        action()
    except OSError as error:
        raise Failure(f"{path}: cannot be written: {error.strerror}") from None


def _specification(chart: "altair.TopLevelMixin") -> dict[str, Any]:
    # Validation would take longer than everything else here; a test validates every figure.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["config"] = _CONFIG
    return spec


def _script_json(data: object) -> str:
    return json.dumps(data).replace("<", "\\u003c")


def _part(
    index: int, figure: Figure, rows: list[Row], claims: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the page's contents for a figure."""
    return {
        "index": index,
        "figure": figure,
        "rows": rows,
        "unsteady": not all(row.steady for row in rows),
        "stated": bool(figure.stated),
        "claims": _kinds([claim for claim in claims if claim["figure"] == figure.name]),
        "header": [
            *("what", "series", rows[0].x_unit if rows else ""),
            *("value", "95 % confidence", "unit", "requests"),
        ],
        "numbers": [
            [
                row.statistic,
                row.series,
                _across(row),
                number(row.y),
                interval(row.ci95) or "-",
                row.y_unit,
                f"{row.samples:,}" + ("" if row.steady else " (not settled)"),
            ]
            for row in rows
        ],
    }


def _across(row: Row) -> str:
    """Write a row's horizontal position: a sweep's value, which may be a text, or a number."""
    if (label := row.labels.get(row.x_unit)) is not None:
        return label
    return f"{row.x:.0f}" if abs(row.x) >= 1000 else f"{row.x:.3g}"


def _kinds(claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort claims by verdict; those that have not been run are the last line."""
    run, not_run = by_verdict(list(claims))
    kinds = []
    for verdict in VERDICTS:
        if of := [claim for claim in run if claim["verdict"] == verdict]:
            kinds.append({"verdict": verdict, "line": counted(len(of), verdict), "claims": of})
    if not_run:
        line = not_run_line(not_run)
        kinds.append({"verdict": NOT_YET_RUN, "line": line, "claims": not_run})
    return kinds


def counted(count: int, verdict: str) -> str:
    """Count claims with a verdict: 1 differs, 2 differ."""
    return f"{count} {'differ' if verdict == DIFFERS and count != 1 else verdict}"


def not_run_line(rows: Sequence[dict[str, Any]]) -> str:
    """Count claims without a verdict."""
    return f"{len(rows)} claim{'s' if len(rows) > 1 else ''} not yet run"


def _code(text: str) -> "markupsafe.Markup":
    """Format text between backquotes as code."""
    import markupsafe

    return markupsafe.Markup(re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text)))


def table(header: list[str], rows: list[list[str]]) -> str:
    """Make a table of HTML cells."""

    def line(tag: str, cells: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    lines = [line("th", list(map(html.escape, header))), *(line("td", row) for row in rows)]
    return "<table>" + "\n".join(lines) + "</table>"
