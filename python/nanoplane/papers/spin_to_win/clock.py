"""Section 4.2: the effect of spinning cores on another core's clock, and on their own lifetime."""

import dataclasses
from typing import Any

from nanoplane.claims import Claim, within
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.outcomes import Outcome
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine
from nanoplane.sweep import Run

BUDGET_WATTS = 150.0
"""Thermal design power of a Xeon Platinum 8160, which has Table 1's cores and clocks: 24 cores,
2.10 to 3.70 GHz, and 150 W in Intel's product specifications (number 120501), as collected in
dataset/intel-cpus.csv of github.com/felixsteinke/cpu-spec-dataset, commit 4c08d88. The 8160T has
the same, and the 8160F 160 W."""
MAX_GHZ = 3.7
"""Table 1: "@2.10-3.70 GHz"."""
STATED = {0: 3.45, 8: 3.25, 16: 2.95}
"""Section 4.2: the clock in GHz, keyed by the number of other cores that spin."""
SPINNING = (0, 4, 8, 12, 16, 20, 23)
WINDOWS, WINDOW_US = 3, 10


@dataclasses.dataclass(frozen=True, slots=True)
class Spinning:
    """Cores that each spin on an empty queue, beside one that has work.

    The latter spins, too: the power of an application is unknown.
    """

    spinning: int

    def run(self) -> Run:
        """Return the run."""
        cores = 1 + self.spinning
        parameters = {
            **{"queues": cores, "cores": cores, "rx_vec_en": True},
            **{"window_us": WINDOW_US, "skip_us": WINDOW_US, "windows": WINDOWS},
        }
        return machine.idle(f"{self.spinning} cores spin", "io-forward", parameters)


def allowed_ghz(outcome: Outcome) -> float:
    """Return the clock that the budget allows for all cores that are not idle.

    Dynamic power is proportional to the cube of the clock, as the voltage is proportional to the
    clock; leakage is constant.
    """
    energy = outcome.result["servers"][-1]["energy_nj"]
    seconds = outcome.result["simulated_seconds"] * 1e9
    leaked = energy["static"] / seconds
    spent = (energy["total"] - energy["static"]) / seconds
    ratio = (max(0.0, BUDGET_WATTS - leaked) / spent) ** (1 / 3)
    return float(min(MAX_GHZ, machine.clock_ghz(outcome) * ratio))


def _points(quick: bool) -> dict[Any, Run]:
    return {
        point: point.run()
        for point in map(Spinning, SPINNING)
        if not quick or point.spinning in STATED
    }


def _row(point: Spinning, y: float, samples: int, paper: str = "") -> Row:
    return Row(
        series="one core beside others that spin",
        x=point.spinning,
        x_unit="cores that spin",
        y=y,
        y_unit="GHz",
        statistic="clock",
        labels=labels(point),
        samples=samples,
        paper=paper,
    )


def _rows(results: Results) -> list[Row]:
    points = [point for point in map(Spinning, SPINNING) if point in results]
    return [_row(point, allowed_ghz(results[point]), WINDOWS) for point in points]


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda _row: "one core's clock",
        x=plots.linear("cores that spin"),
        y=plots.linear("GHz"),
        colour=plots.Series("clock", lambda row: row.statistic, ["clock"], plots.COLOURS),
    )


FIGURES = (
    Figure(
        name="spin-to-win.clock",
        title="The clock that spinning cores leave to another one",
        caption=(
            f"Derived, and not simulated: the clock at which the power of the cores that are not "
            f"idle, and of all that is not a core, stays within {BUDGET_WATTS:g} W, the "
            "processor's thermal design power. Runs at the clock of the preset give the power; its "
            "dynamic part goes with the cube of the clock, and leakage stays. The processor's own "
            "limits by the number of active cores were not found."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        stated=tuple(
            _row(Spinning(spinning), ghz, 0, f"Section 4.2: “~{ghz:g}GHz”")
            for spinning, ghz in STATED.items()
        ),
    ),
)

_QUOTED = (
    "8 and 16 cores spinning full-tilt on empty queues reduce the frequency of a core running a "
    "regular application from ~3.45GHz to ~3.25GHz and ~2.95GHz"
)
_LEAKAGE = (
    "derived from a budget of 150 W: energies are those of 32 nm, where 101 of the 150 W leak, and "
    "the processor is of 14 nm; its limits by active cores (Intel's specification update 336065) "
    "were not found"
)
_ALONE = (
    "the budget does not limit a core alone, which then has the most of Table 1; how many other "
    "cores were not idle is not said"
)
_CLOCKS = tuple(
    Claim(
        f"spin-to-win.4.clock-{spinning}",
        "Section 4.2",
        _QUOTED,
        "GHz",
        f"clock of a core beside {spinning} that spin, as {BUDGET_WATTS:g} W allow it",
        within(ghz, 0.05, below=_LEAKAGE, above=_LEAKAGE if spinning else _ALONE),
        lambda r, spinning=spinning: allowed_ghz(r[Spinning(spinning)]),  # type: ignore[misc]
        figure="spin-to-win.clock",
        paper_value=ghz,
    )
    for spinning, ghz in STATED.items()
)

CLAIMS = (
    *_CLOCKS,
    Claim(
        "spin-to-win.4.power",
        "Section 4.2",
        "we expect cores running data plane software to consume at least 30% more switching power",
        "%",
        "switching power of a core that spins, by that of a usual application",
        None,
        paper_value="above 30",
        why="the paper expects this of instructions a cycle, and measures no power; which "
        "application it is compared with is not said",
    ),
    Claim(
        "spin-to-win.4.lifetime",
        "Section 4.2",
        "spinning core lifetimes may drop below the 5-year threshold",
        "years",
        "lifetime of a core that spins",
        None,
        paper_value="below 5",
        why="aging is not modelled; the paper concludes it from others' numbers",
    ),
)
