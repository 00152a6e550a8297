"""The compared key-value stores over ring entries, silicon, values, and latencies."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from nanoplane.figures import Figure, Results, Row
from nanoplane.papers import plots
from nanoplane.papers.compare.key_value import (
    LONG_ROUNDS,
    NODES,
    SYSTEMS,
    VARIED_MRPS,
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

_IN_ORDER_MRPS = VARIED_MRPS["in-order"]
ROOMS, SHARED_ROOMS, SLOTS = (16, 32, 64, 128), (32, 64, 128, 256), (2, 4, 32)
SPARE_BUFFERS = (2, 4, 8, 16, 32)
"""Of each core, up to as many as its ring has entries."""
VALUES = (8, 64, 512, 4096)
VALUES_MRPS = 1.0
SHORT_ROOM = 16
"""Ring entries for the longest values, whose buffers fill the cache."""
RINGS = {16: 32, 64: 16, 128: 8}
"""Rings, and entries of each: up to as many rings as receive-side scaling's table has entries."""
BIMODAL_MRPS: Mapping[str, tuple[float, ...]] = {
    "in-order": (1.0, 2.5, 5.0),
    "out-of-order": (2.5, 5.0, 10.0),
}
"""By cores."""
LONG_US = {"in-order": 90, "out-of-order": 45}
"""What the additional work takes: two cycles an iteration, and one."""
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


SHARED = ("stealing-on-chip", "counters-on-chip", "qwait-on-chip")
"""The systems with several rings whose cores take frames of any ring."""
MANY_RINGS = (*SHARED, "completions-on-chip")
"""Those that are compared with more rings than cores."""


def _rooms(system: str) -> tuple[int, ...]:
    """Return the entries or slots to try. A shared ring has more than one entry for each core."""
    if SYSTEMS[system].interface == "rpcvalet":
        return SLOTS
    return SHARED_ROOMS if SYSTEMS[system].queues == 1 else ROOMS


def room_cases() -> list[Case]:
    """Return the runs with other numbers of entries and slots."""
    return [
        case
        for system in SYSTEMS
        if SYSTEMS[system].interface != "nanopu"
        for room in _rooms(system)
        for case in (
            Case(system, room=room),
            Case(system, _IN_ORDER_MRPS, room=room),
            Case(system, limit=True, room=room),
        )
    ]


def spare_cases() -> list[Case]:
    """Return the runs with other numbers of spare buffers, of the systems that have such."""
    return [
        case
        for system in SHARED
        for spares in SPARE_BUFFERS
        for case in (
            Case(system, spares=spares),
            Case(system, _IN_ORDER_MRPS, spares=spares),
            Case(system, limit=True, spares=spares),
        )
    ]


def ring_cases(cores: str) -> list[Case]:
    """Return the runs with more rings than cores, of the systems whose cores serve all rings."""
    return [
        dataclasses.replace(case, cores=cores, rings=rings, room=entries)
        for system in MANY_RINGS
        for rings, entries in RINGS.items()
        for case in (Case(system), Case(system, VARIED_MRPS[cores]), Case(system, limit=True))
    ]


def silicon_cases() -> list[Case]:
    """Return the runs with equal bytes of SRAM, and the runs to compare them with."""
    return [
        case
        for system in FEW
        for silicon in ("ways", "equal")
        for case in (
            Case(system, silicon=silicon),
            Case(system, _IN_ORDER_MRPS, silicon=silicon),
            Case(system, limit=True, silicon=silicon),
        )
    ]


def value_cases(cores: str) -> list[Case]:
    """Return the runs with other values."""
    listed = [
        case
        for system in FEW
        for size in VALUES
        for case in (
            Case(system, cores=cores, value_bytes=size),
            Case(system, VALUES_MRPS, cores=cores, value_bytes=size),
        )
    ]
    longest = max(VALUES)
    return listed + [
        Case(system, cores=cores, value_bytes=longest, room=SHORT_ROOM)
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


def bimodal_cases(cores: str) -> list[Case]:
    """Return the runs with some long requests."""
    return [
        Case(system, rate, cores=cores, service="bimodal")
        for system in (*FEW, "dispatcher-on-chip", "shinjuku-on-chip")
        for rate in BIMODAL_MRPS[cores]
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


CORES_OF = {
    "in-order": ("", "in-order cores"),
    "out-of-order": ("-out-of-order", "out-of-order cores (nanoPU: in order)"),
}
"""The suffix of the names of figures on these cores, and the cores in words."""


def _of_rings(cores: str) -> Figure:
    rate = VARIED_MRPS[cores]
    return Figure(
        name=f"compare.key-value-rings{CORES_OF[cores][0]}",
        title=f"More rings than cores, {cores} cores",
        caption=(
            f"{ALIKE}Over the pairs of rings, any of whose frames any core takes: the peak, and "
            f"latencies at {rate:g} million requests a second. Rings of 32, 16 and 8 entries."
        ),
        points=lambda quick: runs(ring_cases(cores), quick),
        rows=lambda results: _varied(
            results, ring_cases(cores), lambda case: (float(case.rings or 0), "rings")
        ),
        chart=_varied_chart("rings", (WITHIN, PEAK, P99), rates=plots.linear),
        # Cores that poll 128 rings in turn sustain so little that a search takes most of the time.
        optional_quick={"rings": ("128",)},
        by_precision=True,
    )


def _of_values(cores: str) -> Figure:
    suffix, machine = CORES_OF[cores]
    return Figure(
        name=f"compare.key-value-values{suffix}",
        title=f"The store with values of 8 bytes to 4 KB, on {machine}",
        caption=(
            f"{ALIKE}The peak, and latencies at {VALUES_MRPS:g} million requests a second, over "
            "the length of values."
        ),
        points=lambda quick: runs(value_cases(cores), quick),
        rows=lambda results: _varied(
            results, value_cases(cores), lambda case: (float(case.value_bytes), "bytes of a value")
        ),
        chart=lambda rows: _varied_chart("bytes of a value", (PEAK, P99))(
            [row for row in rows if "room" not in row.labels]
        ),
        # The ends are left, without cores that steal, which take 10 s a run at this load.
        optional_quick={
            "system": ("stealing-on-chip",),
            "value_bytes": ("64", "512"),
            "room": (str(SHORT_ROOM),),
        },
        by_precision=True,
    )


def _bimodal(cores: str) -> Figure:
    suffix, machine = CORES_OF[cores]
    long_us = LONG_US[cores]
    return Figure(
        name=f"compare.key-value-bimodal{suffix}",
        title=f"The store with {long_us} us more for one request in a hundred, on {machine}",
        caption=(
            f"{ALIKE}One request in a hundred executes {LONG_ROUNDS:g} iterations of a loop "
            f"before it accesses the store, {long_us} us. Latencies of all requests, and the p99 "
            "of the others."
        ),
        points=lambda quick: runs(bimodal_cases(cores), quick),
        rows=lambda results: _bimodal_rows(results, bimodal_cases(cores)),
        chart=_varied_chart(MRPS, (MEDIAN, SHORT_P99)),
        # At the lowest load cores poll most of the time, and nothing waits.
        optional_quick={"rate_mrps": (str(BIMODAL_MRPS[cores][0]),)},
        by_precision=True,
    )


FIGURES = (
    Figure(
        name="compare.key-value-rooms",
        title="Ring entries and slots of nodes",
        caption=(
            f"{ALIKE}Over the entries of each ring, or the slots of each of {NODES} nodes "
            f"(RPCValet): the peak, and latencies at {_IN_ORDER_MRPS:g} million requests a second. "
            "Buffers are as long as the longest frame."
        ),
        points=lambda quick: runs(room_cases(), quick),
        rows=lambda results: _varied(
            results, room_cases(), lambda case: (float(case.room or 0), "entries or slots")
        ),
        chart=_varied_chart("entries or slots", (WITHIN, PEAK, P99), rates=plots.linear),
        optional={"system": tuple(name for name in SYSTEMS if name not in FEW)},
        # What is left: rings of 16 and 128 entries, shared ones of 128 and 256, and 2 and 4 slots.
        optional_quick={"room": ("32", "64")},
        by_precision=True,
    ),
    Figure(
        name="compare.key-value-spares",
        title="Buffers besides those in rings",
        caption=(
            f"{ALIKE}Over the buffers of each core that are not in its ring, if cores take frames "
            f"off others' rings: the peak, and latencies at {_IN_ORDER_MRPS:g} million requests a "
            "second."
        ),
        points=lambda quick: runs(spare_cases(), quick),
        rows=lambda results: _varied(
            results, spare_cases(), lambda case: (float(case.spares or 0), "spare buffers")
        ),
        chart=_varied_chart("spare buffers", (WITHIN, PEAK, P99), rates=plots.linear),
        # It is close to its neighbours.
        optional_quick={"spares": ("4",)},
        by_precision=True,
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
        by_precision=True,
    ),
    *map(_of_rings, CORES_OF),
    *map(_of_values, CORES_OF),
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
        by_precision=True,
    ),
    *map(_bimodal, CORES_OF),
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
        by_precision=True,
    ),
)
