"""The compared key-value stores over ring entries, silicon, values, and latencies."""

import dataclasses
from collections.abc import Callable
from typing import Any

from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.compare.key_value import (
    LONG_ROUNDS,
    NODES,
    RPCVALET,
    SYSTEMS,
    WITHIN,
    Case,
    last_level_bytes,
    runs,
)
from nanoplane.papers.compare.key_value_rows import (
    ALIKE,
    MEDIAN,
    MRPS,
    P99,
    PEAK,
    SHORT_P99,
    answer,
    by_cores,
    latencies,
    latency_row,
    load_rows,
    panel,
)

ROOMS, SHARED_ROOMS, SLOTS = (16, 32, 64, 128), (32, 64, 128, 256), (2, 4, 32)
ROOM_MRPS = 10.0
VALUES = (8, 64, 512, 4096)
VALUES_MRPS = 1.0
SHORT_ROOM = 16
"""Ring entries for the longest values, whose buffers fill the cache."""
BIMODAL_MRPS = (1.0, 2.5, 5.0)
QWAIT_CYCLES = (25, 50, 100)
SYSTEM_CYCLES = (0, 800, 3200, 12_800)
"""0 to 4 us: a range to sweep, not a measurement of a system."""
SYSTEM_MRPS, SYSTEM_BIMODAL_MRPS = 2.5, 4.0
"""The second load is the dispatcher's: below it, long requests hardly ever leave others waiting,
and are not interrupted."""


FEW = (
    *("rings-on-chip", "stealing-on-chip", "shared-on-chip"),
    *("qwait-on-chip", "rpcvalet", "nanopu"),
)
"""The systems of figures that vary more than the load: the best of each kind, on the chip."""


def _rooms(system: str) -> tuple[int, ...]:
    """Return the entries or slots to try. A shared ring has more than one entry for each core."""
    if system == RPCVALET:
        return SLOTS
    return SHARED_ROOMS if SYSTEMS[system].queues == 1 else ROOMS


def room_cases() -> list[Case]:
    """Return the runs with other numbers of entries, slots and buffers."""
    return [
        case
        for system in SYSTEMS
        if system != "nanopu"
        for room in _rooms(system)
        for case in (
            Case(system, room=room),
            Case(system, ROOM_MRPS, room=room),
            Case(system, limit=True, room=room),
        )
    ]


def silicon_cases() -> list[Case]:
    """Return the runs with equal bytes of SRAM, and the runs to compare them with."""
    return [
        case
        for system in FEW
        for silicon in ("ways", "equal")
        for case in (
            Case(system, silicon=silicon),
            Case(system, 10.0, silicon=silicon),
            Case(system, limit=True, silicon=silicon),
        )
    ]


def value_cases() -> list[Case]:
    """Return the runs with other values."""
    listed = [
        case
        for system in FEW
        for size in VALUES
        for case in (Case(system, value_bytes=size), Case(system, VALUES_MRPS, value_bytes=size))
    ]
    longest = max(VALUES)
    return listed + [
        Case(system, value_bytes=longest, room=SHORT_ROOM)
        for system in ("rings-on-chip", "stealing-on-chip", "qwait-on-chip")
    ]


def qwait_cases() -> list[Case]:
    """Return the runs with other latencies of QWAIT."""
    return [
        dataclasses.replace(case, cores=cores, qwait_cycles=cycles)
        for cores, rate in (("in-order", 10.0), ("out-of-order", 30.0))
        for cycles in QWAIT_CYCLES
        for case in (
            Case("qwait-on-chip"),
            Case("qwait-on-chip", rate),
            Case("qwait-on-chip", limit=True),
        )
    ]


def bimodal_cases() -> list[Case]:
    """Return the runs with some long requests."""
    return [
        Case(system, rate, service="bimodal")
        for system in (*FEW, "dispatcher-on-chip", "shinjuku-on-chip")
        for rate in BIMODAL_MRPS
    ]


def system_cases() -> list[Case]:
    """Return the runs in which an operating system takes part in interrupts.

    Interrupts of the network interface end the sleep of a core. Those of the dispatcher preempt
    long requests. Zawrs sleeps without interrupts.
    """
    return [
        *(
            Case("interrupts-on-chip", SYSTEM_MRPS, system_cycles=cycles)
            for cycles in SYSTEM_CYCLES
        ),
        *(
            Case("shinjuku-on-chip", SYSTEM_BIMODAL_MRPS, service="bimodal", system_cycles=cycles)
            for cycles in SYSTEM_CYCLES
        ),
        Case("wrs-on-chip", SYSTEM_MRPS),
        Case("dispatcher-on-chip", SYSTEM_BIMODAL_MRPS, service="bimodal"),
    ]


def _varied(results: Results, listed: list[Case], x: Any) -> list[Row]:
    """Return the rows of cases over the varied parameter."""
    return [row for case in listed if case in results for row in load_rows(results, case, x(case))]


def _bimodal_rows(
    results: Results,
    listed: list[Case],
    x: Callable[[Case], tuple[float, str]] | None = None,
) -> list[Row]:
    rows = []
    for case in (one for one in listed if one in results):
        at = None if x is None else x(case)
        rows += latencies(results, case, at)
        if case.service == "bimodal":
            kinds = results[case].result["by_kind"]
            usual = (kinds[name]["latency_ns"] for name in ("read", "write"))
            worst = max(usual, key=lambda latency: latency["p99"])
            rows.append(latency_row(results, case, SHORT_P99, worst, "p99", at))
    return rows


def _varied_chart(
    title: str,
    statistics: tuple[str, ...],
    x: Callable[[str], plots.Axis] = plots.logarithmic,
    rates: Callable[[str], plots.Axis] = plots.logarithmic,
) -> Any:
    def chart(rows: list[Row]) -> plots.Chart:
        shown = [
            panel(
                rows,
                one,
                x(title),
                plots.logarithmic("microseconds") if "latency" in one else rates(MRPS),
            )
            for one in statistics
        ]
        return plots.beside(*shown, shared=True)

    return chart


def _near(title: str) -> plots.Axis:
    """Return an axis for numbers that differ by little, without zero and decades."""
    return plots.Axis(title, {"zero": False, "padding": 12}, {"tickCount": 6})


FIGURES = (
    Figure(
        name="compare.key-value-rooms",
        title="Ring entries and slots of nodes",
        caption=(
            f"{ALIKE}Over the entries of each ring, or the slots of each of {NODES} nodes "
            f"(RPCValet): the peak, and latencies at {ROOM_MRPS:g} million requests a second. "
            "Buffers are as long as the longest frame."
        ),
        points=lambda quick: runs(room_cases(), quick),
        rows=lambda results: _varied(
            results, room_cases(), lambda case: (float(case.room or 0), "entries or slots")
        ),
        chart=_varied_chart("entries or slots", (WITHIN, PEAK, P99), rates=plots.linear),
        optional={"system": tuple(name for name in SYSTEMS if name not in FEW)},
    ),
    Figure(
        name="compare.key-value-silicon",
        title="The store with equal bytes of SRAM",
        caption=(
            f"{ALIKE}Equal silicon: the last-level cache is smaller by the network interface's "
            "SRAM."
        ),
        points=lambda quick: runs(silicon_cases(), quick),
        rows=lambda results: _varied(
            results,
            silicon_cases(),
            lambda case: (
                last_level_bytes(SYSTEMS[case.system], case.silicon) / 1024,
                "kilobytes of last-level cache",
            ),
        ),
        chart=_varied_chart(
            "kilobytes of last-level cache",
            (PEAK, WITHIN),
            x=_near,
            rates=_near,
        ),
        answer=lambda rows: answer([row for row in rows if row.labels["silicon"] == "equal"]),
    ),
    Figure(
        name="compare.key-value-values",
        title="The store with values of 8 bytes to 4 KB",
        caption=(
            f"{ALIKE}The peak, and latencies at {VALUES_MRPS:g} million requests a second, over "
            "the length of values."
        ),
        points=lambda quick: runs(value_cases(), quick),
        rows=lambda results: _varied(
            results, value_cases(), lambda case: (float(case.value_bytes), "bytes of a value")
        ),
        chart=lambda rows: _varied_chart("bytes of a value", (PEAK, P99))(
            [row for row in rows if "room" not in row.labels]
        ),
    ),
    Figure(
        name="compare.key-value-qwait",
        title="The store with QWAIT of other latencies",
        caption=(
            f"{ALIKE}The ready set's selection takes no time, so that the latency can be short. "
            "HyperPlane's QWAIT takes 50 cycles."
        ),
        points=lambda quick: runs(qwait_cases(), quick),
        rows=lambda results: _varied(
            results, qwait_cases(), lambda case: (float(case.qwait_cycles or 0), "cycles")
        ),
        chart=lambda rows: plots.beside(
            *(
                by_cores(rows, one, plots.linear("cycles of QWAIT"), plots.linear(unit))
                for one, unit in ((PEAK, MRPS), (P99, "microseconds"))
            ),
            shared=True,
        ),
    ),
    Figure(
        name="compare.key-value-bimodal",
        title="The store with 90 us more for one request in a hundred",
        caption=(
            f"{ALIKE}One request in a hundred executes {LONG_ROUNDS:g} iterations of a loop "
            "before it accesses the store, 90 us. Latencies of all requests, and the p99 of the "
            "others."
        ),
        points=lambda quick: runs(bimodal_cases(), quick),
        rows=lambda results: _bimodal_rows(results, bimodal_cases()),
        chart=_varied_chart(MRPS, (MEDIAN, SHORT_P99)),
    ),
    Figure(
        name="compare.key-value-system",
        title="The store with an operating system in the way of interrupts",
        caption=(
            f"{ALIKE}Each interrupt takes so many cycles more where it is sent and where it is "
            f"taken. At {SYSTEM_MRPS:g} million requests a second, cores that sleep until the "
            f"interface interrupts them, beside Zawrs; at {SYSTEM_BIMODAL_MRPS:g} million, a "
            "dispatcher that interrupts the one request in a hundred that takes 90 us longer, "
            "beside one that does not."
        ),
        points=lambda quick: runs(system_cases(), quick),
        rows=lambda results: _bimodal_rows(
            results,
            system_cases(),
            lambda case: (float(case.system_cycles or 0), "cycles of a system"),
        ),
        chart=_varied_chart("cycles of a system", (P99, SHORT_P99), x=plots.linear),
    ),
)
