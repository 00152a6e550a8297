"""The page of figures in a browser: its width, its colours, and what clicks do."""

import html
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nanoplane import report
from nanoplane.claims import claims
from nanoplane.figures import chosen, find
from nanoplane.papers import plots
from nanoplane.papers.compare import notification
from nanoplane.sweep import sweep

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

PROBE = """
<script>
function rest() { return new Promise((done) => setTimeout(done, 50)); }
function marks(plot, kind) { return [...plot.querySelectorAll(kind)]; }
function send(target, type, more = {}) {
  const box = target.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  const Kind = type === "wheel" ? WheelEvent : MouseEvent;
  target.dispatchEvent(new Kind(type, { bubbles: true, cancelable: true, ...at, ...more }));
}
function faint(plot) {
  const all = marks(plot, ".role-mark path");
  return all.filter((one) => one.getAttribute("opacity") === "0.07").length;
}
function axes(plot) {
  return marks(plot, ".role-axis-label text").map((one) => one.textContent).join(" ");
}
function part(plot) {
  return plot.querySelector("svg").getBoundingClientRect().width / plot.clientWidth;
}
(async () => {
  while (document.body.dataset.ready !== "yes") await rest();
  const plots = [...document.querySelectorAll(".plot")];
  const found = { plots: plots.length, wide: document.documentElement.scrollWidth };
  const room = document.body.clientWidth;
  found.room = room;
  found.filled = plots.map(part);
  found.first = plots[0].getBoundingClientRect().top;
  const text = plots[0].querySelector("svg .role-axis-label text");
  found.text = getComputedStyle(text).fill;
  found.open = document.querySelectorAll("details[open]").length;
  const plot = plots[0];
  found.legend = marks(plot, ".role-legend-symbol path").length;
  found.before = faint(plot);
  send(plot.querySelector(".role-legend-symbol path"), "click");
  await rest();
  found.picked = faint(plot);
  send(plot.querySelector(".role-legend-symbol path"), "click");
  await rest();
  found.after = faint(plot);
  const points = marks(plot, ".mark-symbol.role-mark path");
  const point = points.find((one) => one.__data__.datum.command);
  found.command = point.__data__.datum.command;
  for (const type of ["pointerover", "mouseover", "pointermove", "mousemove"]) send(point, type);
  await rest();
  const tip = document.getElementById("vg-tooltip-element");
  found.tip = tip ? tip.textContent : "";
  send(point, "click");
  await rest();
  found.made = plot.nextElementSibling.textContent;
  found.axes = axes(plot);
  send(points[0], "wheel", { deltaY: -400 });
  await rest();
  found.scrolled = axes(plot);
  send(points[0], "wheel", { deltaY: -400, ctrlKey: true });
  await rest();
  found.zoomed = axes(plot);
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
})();
</script>
"""


@pytest.fixture
def page(fake: None, tmp_path: Path) -> Path:
    parts = []
    for name in ("hyperplane.8", "hyperplane.9"):
        figure = find(name)
        choices = ["task=packet-encapsulation", "notify=spin,hyperplane,user-interrupt"]
        runs = chosen([figure], True, choices)
        results = dict(zip(runs, sweep(runs.values()), strict=True))
        parts.append((figure, figure.with_commands(figure.rows(results), True)))
    path = tmp_path / "page.html"
    path.write_text(report.page("Title", "Text.", parts, []))
    return path


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_in_a_browser(page: Path, tmp_path: Path) -> None:
    for width, dark in ((420, True), (1280, False), (2000, True)):
        found = look(page, tmp_path, width, dark)
        check(found, width, dark)


def look(page: Path, tmp_path: Path, width: int, dark: bool) -> dict[str, Any]:
    # A window of Chromium has at least 500 pixels; a page may be told to be narrower.
    narrow = f"<style>html {{ width: {width}px; overflow-x: hidden }}</style>"
    # Vega's code has such tags in its texts, too.
    text = page.read_text().replace("<style>", f"{narrow}<style>", 1).rpartition("</body>")[0]
    probed = tmp_path / "probed.html"
    probed.write_text(text + PROBE)
    done = subprocess.run(
        [
            *(CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"),
            *("--virtual-time-budget=20000", "--dump-dom"),
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            probed.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert match is not None, done.stderr
    found: dict[str, Any] = json.loads(html.unescape(match[1]))
    return found


def check(found: dict[str, Any], width: int, dark: bool) -> None:
    assert found["plots"] == 2
    # Each once: three data planes, four shapes of traffic, and the data plane of the mean gain.
    assert found["legend"] == 3 + 4 + 1
    assert found["room"] <= width
    # As wide as the page, and nothing reaches beyond it.
    assert [part for part in found["filled"] if not 0.9 < part <= 1] == []
    # The answer and the first plot are on the first screen.
    assert found["first"] < 700
    assert found["open"] == 0
    assert found["text"] == ("rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)")
    # A click on a name leaves its series alone, another one brings back the others.
    assert found["before"] == found["after"] == 0
    assert found["picked"] > 0
    assert found["command"].startswith("nanoplane figure hyperplane.8 --quick --only task=")
    assert found["command"] in found["tip"]
    assert found["command"] == found["made"]
    assert found["scrolled"] == found["axes"], "the wheel alone scrolls the page"
    assert found["zoomed"] != found["axes"]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("name", ["hyperplane.12", "rpcvalet.8", "nanopu.2", "cargo.2"])
def test_the_command_of_a_point_makes_it(name: str) -> None:
    figure = find(name)
    runs = figure.runs(True)
    results = dict(zip(runs, sweep(runs.values()), strict=True))
    rows = figure.with_commands(figure.rows(results), True)
    for row in rows[:: max(1, len(rows) // 4)]:
        words = shlex.split(row.command)
        assert words[:4] == ["nanoplane", "figure", name, "--quick"]
        assert words[4::2] == ["--only"] * len(words[5::2])
        only = chosen([figure], True, words[5::2])
        made = figure.rows({point: results[point] for point in only})
        assert (row.series, row.x, row.y) in [(one.series, one.x, one.y) for one in made]


def test_every_system_has_one_colour_and_every_colour_one_shape() -> None:
    texts = {name: name for name in ("rings", "rings-on-chip", "spin", "hyperplane", "something")}
    series = plots.Series.systems("system", "system", texts)
    colours = dict(zip(texts, series.styles, strict=True))
    assert colours["rings"] == colours["rings-on-chip"] == plots.SYSTEMS["spin"]
    assert colours["hyperplane"] == plots.SYSTEMS["hyperplane"]
    assert colours["something"] not in (colours["rings"], colours["hyperplane"])
    # Of those that one figure can show, only a system that shares its queues has another's.
    systems = [name for name in notification.SYSTEMS if not name.endswith("-shared")]
    assert len(set(plots.colours(systems))) == len(systems)
    assert len(set(plots._SHAPES)) == len(set(plots.COLOURS)) == len(plots.COLOURS)
    two = plots.Series.systems("system", "system", {"hyperplane": "QWAIT", "spin": "polling"})
    shapes = two.shapes(["QWAIT", "polling"])
    assert shapes == {"domain": ["QWAIT", "polling"], "range": ["square", "circle"]}


def test_what_a_paper_states_is_beside_what_was_measured() -> None:
    """Stated numbers stand in the claims, too, and only beside rows of the same labels."""
    stated = find("hyperplane.9").stated
    values = {row.y for row in stated}
    of_claims = {
        claim.paper_value for claim in claims("hyperplane") if claim.figure == "hyperplane.9"
    }
    assert values == {10.0, 100.0}
    assert values <= of_claims
