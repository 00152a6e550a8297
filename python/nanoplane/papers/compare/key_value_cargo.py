"""The compared store behind rings whose interface runs critical regions (CARGO).

RPCValet's and nanoPU's interfaces have no processors for regions, so CARGO is compared with rings
only: polled, and with QWAIT.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.outcomes import measurement
from nanoplane.papers import plots
from nanoplane.papers.compare import key_value
from nanoplane.sweep import Run

INTERFACES = ("rings", "rings-on-chip", "qwait", "qwait-on-chip")
"""Keys of key_value.SYSTEMS."""
PLAIN, CARGO = "plain", "cargo"
FIRMWARE = {PLAIN: "flow-hash", CARGO: "critical-regions"}
REGIONS = {PLAIN: "no regions", CARGO: "CARGO"}
PROCESSORS = {"cores": 24, "clock_mhz": 2000.0}
"""The largest of cargo.nic. Six cores at 166 MHz cannot carry the rates."""
EPOCH_MISSES, QUICK_EPOCH_MISSES = 4096, 512
RATES_MRPS, QUICK_RATES_MRPS = (2.5, 5.0, 10.0, 12.5), (2.5, 5.0, 10.0)
LOWEST_MRPS = RATES_MRPS[0]
"""For `--only` with `--quick`: cores whose loads are observed execute every poll on the host, and
take half of its time at this load."""


@dataclasses.dataclass(frozen=True, slots=True)
class CargoCase:
    """One run."""

    system: str
    regions: str
    rate_mrps: float | None = None
    """None: at saturation."""

    @property
    def series(self) -> str:
        """Its name in figures."""
        return f"{key_value.SYSTEMS[self.system].name}, {REGIONS[self.regions]}"

    @property
    def name(self) -> str:
        """Its name in progress messages and errors."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        return f"key-value store, {self.series}, {load}"

    def run(self, quick: bool) -> Run:
        """Return its run: that of compare.key-value, with processors in the interface."""
        like = key_value.Case(self.system, self.rate_mrps).description(quick)
        data: dict[str, Any] = like.data
        (entry,) = data["rack"]["servers"]
        processors = {**PROCESSORS, "firmware": FIRMWARE[self.regions]}
        interface = {**entry["server"]["dma_nic"], "processors": processors}
        server = {**entry["server"], "dma_nic": interface}
        if self.regions == CARGO:
            epoch = QUICK_EPOCH_MISSES if quick else EPOCH_MISSES
            server["critical_region"] = {"epoch_misses": epoch, "offload": {}}
        rack = {**data["rack"], "servers": [{**entry, "server": server}]}
        return Run(Description.from_dict({**data, "rack": rack}, source=self.name))


def _points(quick: bool) -> dict[Any, Run]:
    rates = (None, *(QUICK_RATES_MRPS if quick else RATES_MRPS))
    cases = itertools.starmap(CargoCase, itertools.product(INTERFACES, FIRMWARE, rates))
    return {case: case.run(quick) for case in cases}


MEAN, P99 = "mean latency", "p99 latency"
PEAK, MISSES = "peak throughput", "misses of the L1"
BEGUN = "packets begun on the core that was told"
_LATENCIES = {MEAN: "mean", P99: "p99"}


def misses_a_request(result: Mapping[str, Any]) -> float:
    """Return the misses of the L1 for each request, which does not depend on polls."""
    (server,), (client,) = result["servers"], result["clients"]
    misses = sum(core["data_misses"] for core in server["cores"])
    return float(misses / client["statistics"]["responses"])


def begun_percent(result: Mapping[str, Any]) -> float | None:
    """Return the percentage of packets served by the core that got their arguments.

    None if none were.
    """
    offload = result["servers"][0]["critical_region"]["offload"]
    told = offload["packets_told"]
    return float(100 * offload["packets_begun"] / told) if told else None


def _takes(results: Results, case: CargoCase) -> bool:
    """Whether the server can carry a load, as far as its peak is known."""
    peak = dataclasses.replace(case, rate_mrps=None)
    if peak not in results or case.rate_mrps is None:
        return True
    return case.rate_mrps <= float(measurement(results[peak].result)["throughput_mrps"])


def _rows(results: Results) -> list[Row]:
    rows = []
    for case in (one for one in results if isinstance(one, CargoCase)):
        if not _takes(results, case):
            continue
        result = results[case].result
        measured = measurement(result)
        values: list[tuple[str, str, float, Any]] = []
        if case.rate_mrps is None:
            ci95 = measured["throughput_mrps_ci95"]
            values.append((PEAK, "Mrps", measured["throughput_mrps"], ci95))
        else:
            latency = measured["latency_ns"]
            values += [
                (statistic, "ns", latency[name], latency.get(f"{name}_ci95"))
                for statistic, name in _LATENCIES.items()
            ]
        values.append((MISSES, "a request", misses_a_request(result), None))
        if case.regions == CARGO and (begun := begun_percent(result)) is not None:
            values.append((BEGUN, "%", begun, None))
        rows += [
            Row.measured(
                case,
                results[case],
                series=case.series,
                x=case.rate_mrps or 0.0,
                x_unit="Mrps offered" if case.rate_mrps is not None else "",
                y=y,
                y_unit=unit,
                statistic=statistic,
                ci95=ci95,
            )
            for statistic, unit, y, ci95 in values
        ]
    return rows


def _chart(rows: list[Row]) -> plots.Chart:
    systems = {name: key_value.SYSTEMS[name].name for name in INTERFACES}
    return plots.beside(
        *(
            plots.panels(
                [row for row in rows if row.statistic == statistic],
                lambda row: row.statistic,
                x=plots.linear("Mrps offered"),
                y=plots.logarithmic("ns"),
                colour=plots.Series.label("interface", "system", systems, plots.COLOURS),
                dash=plots.Series.label("regions", "regions", REGIONS, plots.DASHES),
            )
            for statistic in _LATENCIES
        ),
        shared=True,
    )


FIGURES = (
    Figure(
        name="compare.key-value-cargo",
        title="The store behind rings whose interface runs critical regions, polled or with QWAIT",
        caption=(
            "The server, store, requests and link of compare.key-value. The interface has 24 cores "
            "at 2 GHz, which choose the ring of a frame; with CARGO they also run critical regions "
            "for it. RPCValet's and nanoPU's interfaces have no "
            "such cores."
        ),
        points=_points,
        rows=_rows,
        chart=_chart,
        optional_quick={"rate_mrps": (str(LOWEST_MRPS),)},
    ),
)
