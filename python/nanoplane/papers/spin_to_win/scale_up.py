"""Section 7, scale-up queuing: Figures 16 to 18, cores that share a queue or have one each."""

import dataclasses
import itertools
from typing import Any

from nanoplane.claims import Claim, above, below, between, within
from nanoplane.figures import Figure, LeftOutError, Results, Row, labels
from nanoplane.outcomes import Outcome, settled
from nanoplane.papers import plots
from nanoplane.papers.spin_to_win import machine
from nanoplane.sweep import Run

OUT, UP = "scale-out", "scale-up"
ORGANISATIONS = {OUT: "a queue for each core", UP: "one that all share"}
PAIRS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
QUICK_PAIRS = (1, 2, 4, 8, 12)
MAX_PAIRS = PAIRS[-1]
TEN = 10
"""Forwarding cores of Figures 17 and 18."""
LOADS_MRPS = (1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0)
QUICK_LOADS_MRPS = (1.0, 10.0, 20.0, 30.0, 40.0)
LIGHT_MRPS = LOADS_MRPS[0]
SATURATED_MRPS = 120.0
BURST, ALONE = 32, 1
"""Burst sizes: that of DPDK's programs, or one packet. The paper gives none."""
HICCUP_NS = 1000.0
"""Section 7: "delayed by 1us with 1% probability"."""
PACKETS, QUICK_PACKETS = 12_000, 4000
WARMUP, QUICK_WARMUP = 6000, 3000
ALONE_PART = 4
"""The factor by which runs of one packet at a time are shorter, since they are slower by more than
that."""
LIGHT_PACKETS, QUICK_LIGHT_PACKETS = 1000, 250


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """Cores that receive packets and hand them to an equal number of sending cores (Figure 15)."""

    organisation: str
    pairs: int
    rate_mrps: float = SATURATED_MRPS
    hiccups: bool = False
    threads: int = 1
    """Hardware threads of each core that forwards or dispatches."""
    burst: int = BURST
    """The maximum number of packets in a poll or a ring operation."""

    def run(self, quick: bool) -> Run:
        """Return the run."""
        light = self.rate_mrps <= 5
        measured, warmup = (QUICK_PACKETS, QUICK_WARMUP) if quick else (PACKETS, WARMUP)
        if light:
            measured, warmup = (QUICK_LIGHT_PACKETS if quick else LIGHT_PACKETS), 50
        if self.burst == ALONE:
            measured, warmup = measured // ALONE_PART, warmup // ALONE_PART
        return machine.loaded(
            f"{self.organisation}, {self.pairs} cores, {self.rate_mrps:g} Mpps, "
            f"{'hiccups' if self.hiccups else 'no hiccups'}, {self.threads} threads, "
            f"{self.burst} at a time",
            "dispatch",
            {
                "pairs": self.pairs,
                "shared": self.organisation == UP,
                "hiccup_ns": HICCUP_NS if self.hiccups else 0,
                "threads": self.threads,
                "burst": self.burst,
                "rx_vec_en": 1,
            },
            self.rate_mrps,
            measured=measured,
            warmup=warmup,
            threads=self.threads,
        )


def _saturated(pairs: tuple[int, ...], threads: tuple[int, ...] = (1,)) -> list[Dispatch]:
    listed = itertools.product((BURST, ALONE), ORGANISATIONS, pairs, threads)
    return [
        Dispatch(organisation, count, threads=of, burst=burst)
        for burst, organisation, count, of in listed
    ]


def _core_points(quick: bool) -> dict[Any, Run]:
    pairs = QUICK_PAIRS if quick else PAIRS
    return {point: point.run(quick) for point in _saturated(pairs)}


def _latency_points(quick: bool) -> dict[Any, Run]:
    loads = QUICK_LOADS_MRPS if quick else LOADS_MRPS
    listed = [
        Dispatch(organisation, TEN, load, hiccups)
        for organisation, hiccups, load in itertools.product(ORGANISATIONS, (False, True), loads)
    ]
    listed += [
        Dispatch(organisation, TEN, SATURATED_MRPS, hiccups=True) for organisation in ORGANISATIONS
    ]
    return {point: point.run(quick) for point in listed}


def _thread_points(quick: bool) -> dict[Any, Run]:
    return {point: point.run(quick) for point in _saturated((TEN,), (1, 2))}


def throughput_mrps(outcome: Outcome) -> float:
    """Return the rate of returned packets, in millions a second."""
    return float(machine.measurement(outcome)["throughput_mrps"])


def latency_us(outcome: Outcome) -> float:
    """Return the mean round trip."""
    return float(machine.measurement(outcome)["latency_ns"]["mean"]) / 1000


def _row(point: Dispatch, outcome: Outcome, x: float, x_unit: str) -> Row:
    return Row.measured(
        point,
        outcome,
        series=f"{point.organisation}, {point.burst} at a time",
        x=x,
        x_unit=x_unit,
        y=throughput_mrps(outcome),
        y_unit="million packets a second",
        statistic="throughput",
        labels={**labels(point), "hiccups": f"{point.hiccups}"},
        ci95=machine.measurement(outcome)["throughput_mrps_ci95"],
        steady=True,
    )


def _core_rows(results: Results) -> list[Row]:
    return [
        _row(point, results[point], point.pairs, "cores that forward")
        for point in _saturated(PAIRS)
        if point in results
    ]


def _thread_rows(results: Results) -> list[Row]:
    return [
        _row(point, results[point], point.threads, "hardware threads of a core")
        for point in _saturated((TEN,), (1, 2))
        if point in results
    ]


def _latency_rows(results: Results) -> list[Row]:
    rows = []
    for organisation, hiccups, load in itertools.product(ORGANISATIONS, (False, True), LOADS_MRPS):
        point = Dispatch(organisation, TEN, load, hiccups)
        if (outcome := results.get(point)) is None:
            continue
        ends = machine.measurement(outcome)["latency_ns"]["mean_ci95"]
        rows.append(
            dataclasses.replace(
                _row(point, outcome, load, "million packets a second"),
                y=latency_us(outcome),
                y_unit="us",
                statistic="hiccups of 1 us in 1 %" if hiccups else "no hiccups",
                ci95=None if ends is None else (ends[0] / 1000, ends[1] / 1000),
                steady=settled(outcome),
            )
        )
    return rows


_COLOUR = plots.Series.label("queues", "organisation", ORGANISATIONS, plots.COLOURS)
_BURSTS = {f"{BURST}": f"{BURST} packets at a time", f"{ALONE}": "one packet at a time"}
_DASH = plots.Series.label("bursts", "burst", _BURSTS, plots.DASHES)


def _chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        rows,
        lambda row: row.statistic,
        x=plots.linear(rows[0].x_unit),
        y=plots.logarithmic("us") if rows[0].y_unit == "us" else plots.linear(rows[0].y_unit),
        colour=_COLOUR,
        dash=_DASH,
    )


def _bars(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda row: _BURSTS[row.labels["burst"]],
        group=lambda row: f"{row.labels['threads']} on a core",
        y=plots.linear("million packets a second"),
        colour=_COLOUR,
    )


_SETUP = (
    "As many cores receive packets of 96 bytes and hand them on (Figure 15), through a ring for "
    "each core that forwards or one ring for all. "
)

FIGURES = (
    Figure(
        name="spin-to-win.16",
        title="Throughput of scale-out and scale-up",
        caption=_SETUP + "More packets come than are forwarded.",
        points=_core_points,
        rows=_core_rows,
        chart=_chart,
    ),
    Figure(
        name="spin-to-win.17",
        title="Round trip of scale-out and scale-up, ten cores",
        caption=_SETUP + "(b) Forwarding takes 1 us longer for one packet of a hundred, at random.",
        points=_latency_points,
        rows=_latency_rows,
        chart=_chart,
    ),
    Figure(
        name="spin-to-win.18",
        title="Ten cores that forward, on as many cores or on the two threads of five",
        caption=_SETUP + "Those that receive are placed in the same way.",
        points=_thread_points,
        rows=_thread_rows,
        chart=_bars,
    ),
)


# The paper's claims.


def _full(
    results: Results, organisation: str, pairs: int, threads: int = 1, burst: int = BURST
) -> float:
    point = Dispatch(organisation, pairs, threads=threads, burst=burst)
    return throughput_mrps(results[point])


def _latency(results: Results, organisation: str, load: float, hiccups: bool = False) -> float:
    return latency_us(results[Dispatch(organisation, TEN, load, hiccups)])


def _best_pairs(results: Results, burst: int) -> float:
    """Return the number of cores with which scale-up forwards most."""
    rates = {}
    for pairs in PAIRS:
        try:
            rates[pairs] = _full(results, UP, pairs, burst=burst)
        except LeftOutError:
            continue
    if not rates:
        raise KeyError
    return max(rates, key=lambda pairs: rates[pairs])


def _gain_percent(results: Results, organisation: str, burst: int) -> float:
    one, two = (_full(results, organisation, TEN, threads, burst) for threads in (1, 2))
    return 100 * (two / one - 1)


def _kept_up(results: Results, organisation: str, hiccups: bool) -> float:
    """Return the largest load whose mean round trip is at most four times that of the lightest."""
    light = _latency(results, organisation, LIGHT_MRPS, hiccups)
    kept = LIGHT_MRPS
    for load in LOADS_MRPS:
        try:
            if _latency(results, organisation, load, hiccups) <= 4 * light:
                kept = load
        except LeftOutError:
            continue
    return kept


def _break_even_mrps(results: Results) -> float:
    """Return the largest load at which scale-up with hiccups has the lower latency, or 0."""
    found, compared = 0.0, False
    for load in LOADS_MRPS:
        try:
            up, out = (_latency(results, which, load, True) for which in (UP, OUT))
        except LeftOutError:
            continue
        compared = True
        if up < out:
            found = load
    if not compared:
        raise KeyError
    return found


def _step(results: Results, organisation: str) -> float:
    """Return the largest growth of a round trip from one load to the next."""
    found = []
    for load in LOADS_MRPS:
        try:
            found.append(_latency(results, organisation, load))
        except LeftOutError:
            continue
    if len(found) < 2:
        raise KeyError
    return max(high / low for low, high in itertools.pairwise(found))


_BURST_NOT_SAID = (
    "how many packets a ring operation takes decides it: with 32 at a time the interface is full "
    "before the ring is, with one the ring is full with one core; the paper does not say"
)
_RING = "the shared ring's counters go from core to core faster here"
_EMPTY = "forwarders that find the shared ring empty read the line that dispatchers write"


def _core_claims(burst: int) -> list[Claim]:
    """Return the claims of Figure 16, for a burst size."""
    name = f"spin-to-win.16-{burst}"
    how = f"{burst} at a time"
    only_four = (
        "with the scale-up organization, throughput only scales up to 4 cores and then falls off "
        "due to synchronization overhead"
    )
    return [
        Claim(
            f"{name}.out",
            "Section 7, Figure 16",
            "the throughput achieved by the scale-out organization scales with the number of cores",
            "times",
            f"scale-out, {how}: four cores by one",
            above(1, "the interface is full with one core"),
            lambda r: _full(r, OUT, 4, burst=burst) / _full(r, OUT, 1, burst=burst),
            figure="spin-to-win.16",
        ),
        Claim(
            f"{name}.up-peak",
            "Section 7, Figure 16",
            only_four,
            "cores",
            f"scale-up, {how}: with how many cores it forwards most",
            between(3, 5, _BURST_NOT_SAID),
            lambda r: _best_pairs(r, burst),
            figure="spin-to-win.16",
            paper_value=4,
        ),
        Claim(
            f"{name}.up-falls",
            "Section 7, Figure 16",
            only_four,
            "times",
            f"scale-up, {how}: {MAX_PAIRS} cores by four",
            below(1, _BURST_NOT_SAID),
            lambda r: _full(r, UP, MAX_PAIRS, burst=burst) / _full(r, UP, 4, burst=burst),
            figure="spin-to-win.16",
        ),
    ]


def _thread_claims(burst: int) -> list[Claim]:
    """Return the claims of Figure 18, for a burst size."""
    how = f"{burst} at a time: on the two threads of five cores by on ten cores"
    return [
        Claim(
            f"spin-to-win.18-{burst}.up",
            "Section 7, Figure 18",
            "the scale-up organization experiences significant performance improvement (45%) when "
            "hyperthreading is enabled",
            "%",
            f"ten forwarders, scale-up, {how}",
            within(45, 0.2, below=_BURST_NOT_SAID, above=_BURST_NOT_SAID),
            lambda r: _gain_percent(r, UP, burst),
            figure="spin-to-win.18",
            paper_value=45,
        ),
        Claim(
            f"spin-to-win.18-{burst}.out",
            "Section 7, Figure 18",
            "the scale-out organization experiences a slight slow-down with hyperthreading, due to "
            "resource contention",
            "%",
            f"ten forwarders, scale-out, {how}",
            between(-20, 0, "the interface, and no core, limits scale-out with ten cores"),
            lambda r: _gain_percent(r, OUT, burst),
            figure="spin-to-win.18",
            paper_value="slightly below 0",
        ),
    ]


CLAIMS = (
    *(claim for burst in (BURST, ALONE) for claim in _core_claims(burst)),
    Claim(
        "spin-to-win.17.unloaded",
        "Section 7, Figure 17(a)",
        "the scale-up organization results in slightly lower unloaded latencies",
        "times",
        f"mean round trip at {LIGHT_MRPS:g} Mpps, scale-up by scale-out",
        below(1, _EMPTY),
        lambda r: _latency(r, UP, LIGHT_MRPS) / _latency(r, OUT, LIGHT_MRPS),
    ),
    Claim(
        "spin-to-win.17.above-15",
        "Section 7, Figure 17(a)",
        "it saturates much earlier and results in considerably higher latency at loads above 15 "
        "Mpps",
        "times",
        "mean round trip at 20 Mpps, scale-up by scale-out, more than a half higher",
        above(1.5, _RING),
        lambda r: _latency(r, UP, 20.0) / _latency(r, OUT, 20.0),
        paper_value="above 1",
    ),
    Claim(
        "spin-to-win.17.knee",
        "Section 7, Figure 17(a)",
        "the knee of the latency graph for the scale-up organization is much steeper",
        "times",
        "how many times longer the mean round trip is at most from one load to the next, scale-up "
        "by scale-out",
        above(1, "scale-out saturates as suddenly, when the interface is full"),
        lambda r: _step(r, UP) / _step(r, OUT),
    ),
    Claim(
        "spin-to-win.17.hiccups-unloaded",
        "Section 7, Figure 17(b)",
        "the scale-up organization now achieves considerably lower unloaded latency compared to "
        "the scale-out organization",
        "times",
        f"mean round trip at {QUICK_LOADS_MRPS[1]:g} Mpps with hiccups, scale-up by scale-out",
        below(1, _EMPTY),
        lambda r: (
            _latency(r, UP, QUICK_LOADS_MRPS[1], True) / _latency(r, OUT, QUICK_LOADS_MRPS[1], True)
        ),
    ),
    Claim(
        "spin-to-win.17.break-even",
        "Section 7, Figure 17(b)",
        "an adaptive system that switches queuing disciplines in response to load based on the "
        "latency break-even point observed in Figure 17(b)",
        "Mpps",
        "the largest load at which scale-up with hiccups has a shorter mean round trip than "
        "scale-out; 0: none has",
        above(0, "scale-up's is longer at every load, so that there is nothing to switch between"),
        _break_even_mrps,
    ),
    Claim(
        "spin-to-win.17.hiccups-knee",
        "Section 7, Figure 17(b)",
        "and saturates at higher load (relative to the case with no hiccups; Figure 17 (a))",
        "times",
        "scale-up: the largest load at which the mean round trip is at most four times that at "
        f"{LIGHT_MRPS:g} Mpps, with hiccups by without",
        above(1, "hiccups take time, and take none from the ring"),
        lambda r: _kept_up(r, UP, True) / _kept_up(r, UP, False),
    ),
    Claim(
        "spin-to-win.17.hiccups-peak",
        "Section 7, Figure 17(b)",
        "due to synchronization costs, the scale-up organization is still unable to match the peak "
        "throughput of the scale-out organization",
        "times",
        "throughput with hiccups and more packets than are forwarded, scale-up by scale-out",
        below(1, _RING),
        lambda r: (
            throughput_mrps(r[Dispatch(UP, TEN, hiccups=True)])
            / throughput_mrps(r[Dispatch(OUT, TEN, hiccups=True)])
        ),
    ),
    *(claim for burst in (BURST, ALONE) for claim in _thread_claims(burst)),
)
