"""Section 6.1 to 6.4: both stores behind the interface, which forwards or runs critical regions.

One set of runs serves Figures 13 to 16 and 18 to 21. Another system is another entry of `SYSTEMS`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nanoplane.claims import Claim, above, below, between, within
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row
from nanoplane.outcomes import measurement
from nanoplane.papers import plots
from nanoplane.papers.cargo.cases import CACHE, DATABASE, EXPRESS_GBIT_PER_S, STORES
from nanoplane.papers.cargo.model import parts
from nanoplane.papers.stores import load
from nanoplane.sweep import Run

BASELINE, CARGO, EMC = "baseline", "cargo", "emc"
SYSTEMS = {BASELINE: "baseline", CARGO: "CARGO", EMC: "EMC"}
"""The systems of a server: see `_server()`."""
REGIONS = (BASELINE, CARGO)
"""Without critical regions, and with them."""
CORES, QUICK_CORES = (1, 2, 4, 8, 16), (1,)
WAITING, SATURATED = "waiting", "saturated"
LOADS_MRPS = {
    WAITING: {CACHE: 0.15, DATABASE: 0.12},
    SATURATED: {CACHE: 5.0, DATABASE: 0.4},
}
"""For each core. The paper gives no load. The lower one was chosen low: four cores of the host have
0.6 million requests of the cache, where six cores of the interface serve about one million."""
PAPER_NIC, LARGE_NIC = "6 x 166 MHz", "24 x 2 GHz"
NICS: dict[str, dict[str, Any]] = {
    PAPER_NIC: {"cores": 6, "clock_mhz": 166.0},
    "6 x 1 GHz": {"cores": 6, "clock_mhz": 1000.0},
    LARGE_NIC: {"cores": 24, "clock_mhz": 2000.0},
}
"""Table 5's for each four cores of the host, and larger ones that can carry the rates."""
NIC_LOADS_MRPS, QUICK_NIC_LOADS_MRPS = (0.5, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0), (1.0, 5.0)
FAST_LINK_GBIT_PER_S = 100.0
"""The link limits none of them: a reply of the cache has 348 bytes on average."""
REQUESTS = {CACHE: 4000, DATABASE: 1000}
"""For each core."""
QUICK_REQUESTS = {CACHE: 600, DATABASE: 100}
EPOCH_MISSES, QUICK_EPOCH_MISSES = 4096, 512


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A store on a number of cores, behind an interface, under a load."""

    store: str
    system: str
    cores: int
    load: str
    """`waiting`, `saturated`, or millions of requests a second for a core."""
    nic: str = PAPER_NIC

    @property
    def per_core_mrps(self) -> float:
        """The offered load for each core."""
        named = LOADS_MRPS.get(self.load)
        return float(self.load) if named is None else named[self.store]

    def _server(self, quick: bool) -> dict[str, Any]:
        """Return the system's additions to the server."""
        nic = NICS[self.nic]
        cores = {"cores": nic["cores"] * max(1, self.cores // 4), "clock_mhz": nic["clock_mhz"]}
        forwards = {"dma_nic": {"processors": {"firmware": "flow-hash", **cores}}}
        if self.system == BASELINE:
            return forwards
        if self.system == EMC:
            return {**forwards, "enhanced_memory_controller": {}}
        epoch = QUICK_EPOCH_MISSES if quick else EPOCH_MISSES
        return {
            "dma_nic": {"processors": {"firmware": f"critical-regions-{self.store}", **cores}},
            "critical_region": {"epoch_misses": epoch, "offload": {}},
        }

    def run(self, quick: bool) -> Run:
        """Return its run."""
        base = load.Case(self.store, load.SPIN, self.cores, self.per_core_mrps).run(quick)
        data = base.description.data
        rack = data["rack"]
        (entry,) = rack["servers"]
        added = self._server(quick)
        interface = {**entry["server"]["dma_nic"], **added.pop("dma_nic")}
        server = {**entry["server"], **added, "dma_nic": interface}
        link = dict(rack["link"])
        if self.load not in LOADS_MRPS:
            link["rate_gbit_per_s"] = FAST_LINK_GBIT_PER_S
        requests = (QUICK_REQUESTS if quick else REQUESTS)[self.store] * self.cores
        return Run(
            Description.from_dict(
                {
                    **data,
                    "rack": {**rack, "link": link, "servers": [{**entry, "server": server}]},
                    "measure": {**data["measure"], "requests": requests},
                },
                source=f"{self.store}, {SYSTEMS[self.system]}, {self.cores} cores, {self.load}, "
                f"{self.nic}",
            )
        )


def points(of: str, systems: Iterable[str], quick: bool) -> dict[Any, Run]:
    """Return the runs under one of the two loads, which figures share."""
    cases = (
        Case(store, system, cores, of)
        for cores in (QUICK_CORES if quick else CORES)
        for store in STORES
        for system in systems
    )
    return {case: case.run(quick) for case in cases}


def with_regions(results: Results, store: str) -> Case:
    """Return the point whose regions Figures 11 and 12 show: CARGO, with the most cores."""
    cases = [
        case
        for case in results
        if isinstance(case, Case)
        and (case.store, case.system, case.load) == (store, CARGO, WAITING)
    ]
    if not cases:
        raise KeyError(store)
    return max(cases, key=lambda case: case.cores)


def nic_points(quick: bool) -> dict[Any, Run]:
    """Return the runs of the cache on one core, by load and interface."""
    nics = (PAPER_NIC, LARGE_NIC) if quick else tuple(NICS)
    loads = QUICK_NIC_LOADS_MRPS if quick else NIC_LOADS_MRPS
    cases = (
        Case(CACHE, system, 1, f"{mrps:g}", nic)
        for nic in nics
        for mrps in loads
        for system in REGIONS
    )
    return {case: case.run(quick) for case in cases}


# What a run gives.


def _server(result: Mapping[str, Any]) -> Mapping[str, Any]:
    (server,) = result["servers"]
    return dict(server)


def _requests(result: Mapping[str, Any]) -> float:
    (client,) = result["clients"]
    return float(client["statistics"]["responses"])


def latency_ns(result: Mapping[str, Any], statistic: str) -> float:
    """Return a statistic of the latency."""
    return float(measurement(result)["latency_ns"][statistic])


def throughput_mrps(result: Mapping[str, Any]) -> float:
    """Return the throughput."""
    return float(measurement(result)["throughput_mrps"])


def efficiency(result: Mapping[str, Any]) -> float:
    """Return thousands of requests per joule: krps/W."""
    energy = _server(result)["energy_nj"]
    return _requests(result) / (float(energy["total"]) * 1e-9) / 1000


def structures_w(result: Mapping[str, Any]) -> float:
    """Return the power of the structures of a core, including leakage."""
    server = _server(result)
    energy = server["energy_nj"]
    spent = energy["critical_regions"]["dynamic"] + energy["critical_regions"]["static"]
    return float(spent * 1e-9 / energy["seconds"] / len(server["cores"]))


def dram_gb_per_s(result: Mapping[str, Any]) -> float:
    """Return the bytes from and to memory a second."""
    server = _server(result)
    lines = server["fabric"]["memory_reads"] + server["fabric"]["memory_writes"]
    return float(lines * load.LINE_BYTES / server["energy_nj"]["seconds"] / 1e9)


def miss_percent(result: Mapping[str, Any]) -> float:
    """Return the loads that miss the L1, in percent."""
    cores = _server(result)["cores"]
    misses = sum(core["data_misses"] for core in cores)
    return float(100 * misses / (misses + sum(core["data_hits"] for core in cores)))


def misses_a_request(result: Mapping[str, Any]) -> float:
    """Return the misses of the L1 for each request, which does not depend on polls."""
    cores = _server(result)["cores"]
    return float(sum(core["data_misses"] for core in cores) / _requests(result))


def _processors(result: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(_server(result)["interface"]["processors"])


EXPRESS_PARTS = {
    "state": "window_bytes",
    "notes": "note_bytes",
    "requests": "host_load_request_bytes",
    "data": "host_load_data_bytes",
}
"""Traffic of CARGO over PCI Express. The paper does not count the results of user routines."""


def express_percent(result: Mapping[str, Any], part: str) -> float:
    """Return the percentage of PCI Express's bandwidth, in both directions, that a part takes."""
    capacity = 2 * EXPRESS_GBIT_PER_S / 8 * _server(result)["energy_nj"]["seconds"] * 1e9
    return float(100 * _processors(result)[EXPRESS_PARTS[part]] / capacity)


def failed_percent(result: Mapping[str, Any]) -> float | None:
    """Return the percentage of regions' instructions that failed; None if no region was sent."""
    offload = _server(result)["critical_region"]["offload"]
    if not offload["instructions_sent"]:
        return None
    return float(100 * offload["instructions_failed"] / offload["instructions_sent"])


def no_memory_percent(result: Mapping[str, Any]) -> float | None:
    """Return the percentage of regions' loads that found no memory; None without loads."""
    processors = _processors(result)
    if not processors["run_host_loads"]:
        return None
    return float(100 * processors["host_load_faults"] / processors["run_host_loads"])


def wrong_percent(result: Mapping[str, Any]) -> float | None:
    """Return the loads of executed regions whose address would be wrong; None if there are none."""
    found = _server(result)["critical_region"]
    checked = found["right_addresses"] + found["wrong_addresses"]
    return float(100 * found["wrong_addresses"] / checked) if checked else None


def firmware_instructions(result: Mapping[str, Any]) -> float:
    """Return the interface's instructions for each frame, without those of regions."""
    processors = _processors(result)
    own = processors["instructions"] - processors["run_instructions"]
    return float(own / processors["frames"])


def stack(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the threads' cycles per instruction, by cause."""
    cores = _server(result)["cores"]
    instructions = sum(core["instructions"] for core in cores)
    return {part: cycles / instructions for part, cycles in parts(cores).items()}


Value = tuple[str, str, float]
"""A series, a unit, and a number."""


def _cases(results: Results) -> Iterator[Case]:
    return (case for case in results if isinstance(case, Case))


def _row(results: Results, case: Case, value: Value, **told: Any) -> Row:
    series, unit, y = value
    usual = {
        "x": case.cores,
        "x_unit": "cores",
        "statistic": series,
        "series": f"{STORES[case.store]}, {SYSTEMS[case.system]}",
    }
    return Row.measured(case, results[case], y=y, y_unit=unit, **{**usual, **told})


def _of_load(
    of: str, values: Callable[[Case, Results], list[Value]], results: Results
) -> list[Row]:
    return [
        _row(results, case, value)
        for case in _cases(results)
        if case.load == of
        for value in values(case, results)
    ]


def _other(case: Case) -> Case:
    return dataclasses.replace(case, system=BASELINE)


def ratio(results: Results, case: Case, of: Callable[[Mapping[str, Any]], float]) -> float | None:
    """Return a number of a case as a multiple of the baseline's; None without a baseline."""
    other = _other(case)
    if case.system == BASELINE or other not in results:
        return None
    return of(results[case].result) / of(results[other].result)


def _ratios(
    name: str, of: Callable[[Mapping[str, Any]], float]
) -> Callable[[Case, Results], list[Value]]:
    def values(case: Case, results: Results) -> list[Value]:
        times = ratio(results, case, of)
        return [] if times is None else [(name, "times the baseline's", times)]

    return values


def _latencies(case: Case, results: Results) -> list[Value]:
    result = results[case].result
    return [(f"{one} latency", "ns", latency_ns(result, one)) for one in ("mean", "p99")]


def _errors(case: Case, results: Results) -> list[Value]:
    if case.system != CARGO:
        return []
    result = results[case].result
    values = {
        "instructions that failed": failed_percent(result),
        "loads with a wrong address": wrong_percent(result),
        "loads that found no memory": no_memory_percent(result),
    }
    return [(name, "%", value) for name, value in values.items() if value is not None]


def _stacks(case: Case, results: Results) -> list[Value]:
    parts = stack(results[case].result)
    return [(part.replace("_", " "), "cycles an instruction", held) for part, held in parts.items()]


def _misses(case: Case, results: Results) -> list[Value]:
    result = results[case].result
    return [
        ("loads that miss the L1", "%", miss_percent(result)),
        ("misses of the L1", "a request", misses_a_request(result)),
    ]


def _express(case: Case, results: Results) -> list[Value]:
    if case.system != CARGO:
        return []
    result = results[case].result
    return [(part, "%", express_percent(result, part)) for part in EXPRESS_PARTS]


def _nic_rows(results: Results) -> list[Row]:
    rows = []
    for case in _cases(results):
        values = [
            *_latencies(case, results),
            ("throughput", "Mrps", throughput_mrps(results[case].result)),
            *_misses(case, results)[1:],
        ]
        told = {"x": case.per_core_mrps, "x_unit": "Mrps offered"}
        series = f"{case.nic}, {SYSTEMS[case.system]}"
        rows += [_row(results, case, value, series=series, **told) for value in values]
    return rows


def _bars(rows: list[Row]) -> plots.Chart:
    return plots.bars(
        rows,
        lambda row: f"{STORES[row.labels['store']]}, {row.statistic}, {row.y_unit}",
        group=lambda row: f"{row.labels['cores']}C",
        y=plots.linear("see above each panel"),
        colour=plots.Series.label("system", "system", SYSTEMS, plots.COLOURS),
    )


def _nic_chart(rows: list[Row]) -> plots.Chart:
    return plots.panels(
        [row for row in rows if row.statistic == "mean latency"],
        lambda row: row.labels["nic"],
        x=plots.linear("Mrps offered to one core"),
        y=plots.logarithmic("mean latency, ns"),
        colour=plots.Series.label("system", "system", SYSTEMS, plots.COLOURS),
    )


_RUNS = (
    "Both stores behind the interface, spinning threads, and six cores of the interface at 166 MHz "
    "and 10 Gb/s for each four cores of the host. "
)


def _figure(name: str, title: str, caption: str, of: str, values: Any) -> Figure:
    return Figure(
        name=f"cargo.{name}",
        title=title,
        caption=_RUNS + caption,
        points=functools.partial(points, of, tuple(SYSTEMS)),
        rows=functools.partial(_of_load, of, values),
        chart=_bars,
    )


FIGURES = (
    _figure(
        "13",
        "Errors of the values of registers",
        "Instructions of the regions that were sent; loads of regions where a core executes them, "
        "and the region's code has another address; and loads of the interface that found no "
        "memory. Under the lower load.",
        WAITING,
        _errors,
    ),
    _figure(
        "14",
        "Mean and p99 latency",
        "The lower load; the paper gives no load.",
        WAITING,
        _latencies,
    ),
    _figure(
        "15",
        "Throughput",
        "The offered load exceeds the throughput.",
        SATURATED,
        _ratios("throughput", throughput_mrps),
    ),
    _figure(
        "16",
        "Power efficiency",
        "Requests per joule of cores, chip, memory and interface, saturated.",
        SATURATED,
        _ratios("efficiency", efficiency),
    ),
    _figure(
        "18",
        "Cycles per instruction, by cause",
        "Saturated, so that polling has the smallest share.",
        SATURATED,
        _stacks,
    ),
    _figure(
        "19",
        "DRAM bandwidth",
        "Saturated.",
        SATURATED,
        _ratios("DRAM bandwidth", dram_gb_per_s),
    ),
    _figure(
        "20",
        "Misses of the first-level cache",
        "The lower load. Polls are loads that hit; misses per request do not depend on them.",
        WAITING,
        _misses,
    ),
    _figure(
        "21",
        "PCI Express that CARGO takes",
        "The lower load; both directions of 16 lanes of the third generation.",
        WAITING,
        _express,
    ),
    Figure(
        name="cargo.nic",
        title="Rates of interfaces, and the cost or gain of regions by load",
        caption=(
            "The cache on one core with four spinning threads, from idle to saturation, behind "
            "interfaces with different cores and clocks, which forward or run critical regions. "
            "The link has 100 Gb/s. Not in the paper."
        ),
        points=nic_points,
        rows=_nic_rows,
        chart=_nic_chart,
    ),
)


# What the paper claims.

_SLOW = (
    "the interface limits it: with --quick and one core, it serves 1.59 million packets a second "
    "with regions, and 2.92 if they execute one instruction, while the link carries 3.51; in full "
    "runs the only region is identified late, the interface serves the link's rate, and why there "
    "is no gain is unexplained (docs/critical-region.md)"
)
_FEW = (
    "few of a request's misses are in the regions: of the cache's loads that miss the L2 the "
    "look-up has 21 %, copying 39 % and the rest of the service 34 % (server.load_sites); and an "
    "idle core serves a packet before its lines come (docs/critical-region.md)"
)
_WRONG = (
    "regions of transactions fetch wrong lines: 99 % of the addresses are wrong (cargo.13.wrong), "
    "since no register is what the user routine returns, and 16 % of the predicted values are right"
)
_LATER = (
    "a packet of the cache reaches its core 0.72 us later, of which 0.44 us are the copy of the "
    "key before the delivery, and the time in the core does not fall (cargo.17): the look-up "
    "has 21 % of the loads that miss the L2. For transactions 99 % of the addresses are wrong "
    "(cargo.13.wrong)"
)
_MANY = "unexplained"
_NO_CHAINS = (
    "of the full windows 12 to 15 in a hundred have a load that depends on the oldest one; if each "
    "such chain is sent, cores take supplied values for 7 % of the lines from memory with the "
    "cache, on four cores without an interface, and for 3 % with transactions, on one core, and "
    "are no faster (docs/critical-region.md)"
)


_LOAD = f"{_MANY}; likely the load, which the paper does not give"
_PREDICTED = (
    "for the cache no address is wrong: its look-up begins with the hash, which the routine "
    "returns, and with the table. For transactions 99 % are wrong: nothing that begins their "
    "regions is what the routine returns, and of the predicted values, 16 % are right"
)
_LOOPS = (
    "regions of transactions search nodes of trees in loops, most of them at wrong addresses "
    "(cargo.13.wrong): 35 instructions and 15.7 loads a packet, where the cache has 16 and 2.8"
)
_TAIL = (
    "the mix of TPC-C: for the cache it is 1.9; of transactions the mean is 57 us, and a delivery "
    "takes 100 us in the mean, a stock-level 210"
)
_ROUTINE = (
    "the routine of the cache, which hashes a key of 36 bytes: copy, routine and the rest are 241 "
    "instructions; for transactions, which have short keys, they are 76"
)
_FORWARDING = (
    "forwarding takes 4 instructions here, as the interface hashes and writes rings itself; 56 of "
    "4 % are 1400 instructions a packet in the paper"
)


def _mean(
    results: Results,
    store: str,
    of: str,
    value: Callable[[Case], float | None],
    system: str = CARGO,
) -> float:
    """Return the mean over the numbers of cores."""
    cases = [
        case
        for case in _cases(results)
        if (case.store, case.system, case.load) == (store, system, of)
    ]
    values = [one for one in map(value, cases) if one is not None]
    if not values:
        raise KeyError(f"{store}, {of}")
    return sum(values) / len(values)


def _gain(results: Results, of: str, number: Callable[[Mapping[str, Any]], float]) -> float:
    """Return the mean improvement of a latency over stores and cores."""
    ratios = []
    for store in STORES:

        def value(case: Case) -> float | None:
            times = ratio(results, case, number)
            return None if times is None else 1 / times

        ratios.append(_mean(results, store, of, value))
    return sum(ratios) / len(ratios)


_LATENCY = "CARGO reduces mean and 99th percentile latency by 2.7X and 3.3X"


def _claim_14(name: str, statistic: str, times: float) -> Claim:
    return Claim(
        f"cargo.14.{name}",
        "Section 6.2",
        _LATENCY,
        "times",
        f"{statistic} of the baseline, as a multiple of CARGO's; mean over stores and cores, under "
        "a load that the interface carries",
        within(times, 0.2, below=_LATER, above=_MANY),
        lambda r: _gain(r, WAITING, lambda result: latency_ns(result, statistic)),
        paper_value=times,
    )


def _claim_ratio(
    figure: str,
    store: str,
    quote: str,
    times: float,
    how: str,
    number: Callable[[Mapping[str, Any]], float],
) -> Claim:
    return Claim(
        f"cargo.{figure}.{STORES[store].lower()}",
        "Section 6.2" if figure in ("15", "16") else "Section 6.3",
        quote,
        "times",
        f"{store}: {how}, saturated, as a multiple of the baseline's; mean over cores",
        within(times, 0.2, below=_SLOW if store == CACHE else _WRONG, above=_MANY),
        lambda r: _mean(r, store, SATURATED, lambda case: ratio(r, case, number)),
        paper_value=times,
    )


def _emc_percent(
    results: Results, stores: Iterable[str], number: Callable[[Mapping[str, Any]], float]
) -> float:
    """Return how much more there is with EMC, saturated: the mean over stores and cores."""
    ratios = [
        _mean(results, store, SATURATED, lambda case: ratio(results, case, number), EMC)
        for store in stores
    ]
    return 100 * (sum(ratios) / len(ratios) - 1)


def _both(results: Results, value: Callable[[Mapping[str, Any]], float | None]) -> float:
    """Return the mean over stores and cores, under the lower load."""
    of = [
        _mean(results, store, WAITING, lambda case: value(results[case].result)) for store in STORES
    ]
    return sum(of) / len(of)


def _tail_by_mean(results: Results) -> float:
    def value(case: Case) -> float | None:
        if (other := _other(case)) not in results:
            return None
        result = results[other].result
        return latency_ns(result, "p99") / latency_ns(result, "mean")

    return sum(_mean(results, store, WAITING, value) for store in STORES) / len(STORES)


def _more_instructions(results: Results, *, as_percent: bool = False) -> float:
    """Return what the firmware executes for CARGO, beside regions, for each packet."""

    def value(case: Case) -> float | None:
        if (other := _other(case)) not in results:
            return None
        result = results[case].result
        more = firmware_instructions(result) - firmware_instructions(results[other].result)
        return 100 * more / _per_frame("instructions")(result) if as_percent else more

    return sum(_mean(results, store, WAITING, value) for store in STORES) / len(STORES)


def _half_of_loads(results: Results, store: str) -> float:
    def value(case: Case) -> float:
        parts = ("requests", "data")
        return sum(express_percent(results[case].result, part) for part in parts) / 2

    return _mean(results, store, WAITING, value)


def _per_frame(key: str) -> Callable[[Mapping[str, Any]], float]:
    def value(result: Mapping[str, Any]) -> float:
        processors = _processors(result)
        return float(processors[key] / processors["frames"])

    return value


_THROUGHPUT = "CARGO achieves 3X and 2.4X improvement in throughput for memcached and Silo"
_EFFICIENCY = "On average, CARGO achieves 2.9X and 2.2X improvement for memcached and Silo"
_DRAM = "CARGO improves the DRAM bandwidth utilization by 2.13X and 2.17X for memcached and Silo"
_MISS_RATE = "On average, CARGO reduces L1 miss rate by 1% and 3% for memcached and Silo"
_REGION = "26 instructions with 5 memory operations are executed for each packet"


def _fewer_misses(results: Results, store: str) -> float:
    def value(case: Case) -> float | None:
        if (other := _other(case)) not in results:
            return None
        return miss_percent(results[other].result) - miss_percent(results[case].result)

    return _mean(results, store, WAITING, value)


CLAIMS = (
    Claim(
        "cargo.13.failed",
        "Section 6.1",
        "2.7% of the instructions failed executing due to unknown register values",
        "%",
        "instructions of the sent regions with unknown operands; mean over stores and cores",
        within(2.7, 0.5, below=_MANY, above=_MANY),
        lambda r: _both(r, failed_percent),
        paper_value=2.7,
    ),
    Claim(
        "cargo.13.wrong",
        "Section 6.1",
        "Out of the instruction that executed, 7% of the generated memory accesses are incorrect",
        "%",
        "loads of regions that cores execute, in passes from the first instruction on, for which "
        "the region's code has another address; mean over stores and cores",
        within(7.0, 0.5, below=_MANY, above=_PREDICTED),
        lambda r: _both(r, wrong_percent),
        paper_value=7.0,
    ),
    _claim_14("mean", "mean", 2.7),
    _claim_14("tail", "p99", 3.3),
    Claim(
        "cargo.14.tail-by-mean",
        "Section 6.2",
        "tail-latency costing nearly 2X higher than the mean",
        "times",
        "p99 of the baseline by its mean; mean over stores and cores, under the lower load",
        within(2.0, 0.2, below=_MANY, above=_TAIL),
        _tail_by_mean,
        paper_value=2.0,
    ),
    *(
        _claim_ratio("15", store, _THROUGHPUT, times, "throughput", throughput_mrps)
        for store, times in ((CACHE, 3.0), (DATABASE, 2.4))
    ),
    *(
        _claim_ratio("16", store, _EFFICIENCY, times, "requests for each joule", efficiency)
        for store, times in ((CACHE, 2.9), (DATABASE, 2.2))
    ),
    Claim(
        "cargo.15.emc",
        "Section 6.2",
        "average gain for EMC remains at 42%",
        "%",
        "throughput with enhanced memory controllers, saturated: how much more than the "
        "baseline's; mean over stores and cores",
        within(42.0, 0.5, below=_NO_CHAINS, above=_MANY),
        lambda r: _emc_percent(r, STORES, throughput_mrps),
        paper_value=42.0,
    ),
    Claim(
        "cargo.16.emc-silo",
        "Section 6.2",
        "Across the board, EMC achieves 8% improvement for Silo",
        "%",
        f"{DATABASE}: requests for each joule with enhanced memory controllers, saturated: how "
        "many more than the baseline's; mean over cores",
        within(8.0, 0.5, below=_NO_CHAINS, above=_MANY),
        lambda r: _emc_percent(r, (DATABASE,), efficiency),
        paper_value=8.0,
    ),
    *(
        _claim_ratio("19", store, _DRAM, times, "DRAM bandwidth", dram_gb_per_s)
        for store, times in ((CACHE, 2.13), (DATABASE, 2.17))
    ),
    *(
        Claim(
            f"cargo.20.{STORES[store].lower()}",
            "Section 6.3",
            _MISS_RATE,
            "%",
            f"{store}: percentage of loads that miss the L1, without CARGO minus with it; mean "
            "over cores",
            between(0.5 * percent, 2 * percent, _FEW if store == CACHE else _WRONG),
            functools.partial(_fewer_misses, store=store),
            paper_value=percent,
        )
        for store, percent in ((CACHE, 1.0), (DATABASE, 3.0))
    ),
    *(
        Claim(
            f"cargo.6.region-{unit}",
            "Section 6.4",
            _REGION,
            unit,
            f"{how}; mean over stores and cores",
            within(
                number,
                0.5,
                below=f"unexplained; likely {why}",
                above=_LOOPS,
            ),
            functools.partial(_both, value=_per_frame(key)),
            figure="cargo.21",
            paper_value=number,
        )
        for unit, number, key, how, why in (
            (
                "instructions",
                26.0,
                "run_instructions",
                "instructions of regions for each packet",
                "because the cache's region has 13 instructions, and none is executed before the "
                "first epoch has ended",
            ),
            (
                "loads",
                5.0,
                "run_host_loads",
                "loads of host memory by regions for each packet",
                "because two loads of the look-up are given",
            ),
        )
    ),
    Claim(
        "cargo.6.routine-instructions",
        "Section 6.4",
        "user regions execute 56 additional instructions/packet",
        "instructions",
        "the interface's instructions for each packet without those of regions, less those of the "
        "baseline's firmware: the routine, the copy of what it needs, notes to the core, and the "
        "start of regions; mean over stores and cores",
        within(56.0, 0.5, below=_MANY, above=_ROUTINE),
        lambda r: _more_instructions(r),
        figure="cargo.21",
        paper_value=56.0,
    ),
    Claim(
        "cargo.6.routine-percent",
        "Section 6.4",
        "4% of the total instructions executed during complete packet processing at the NIC",
        "%",
        "the same, as part of all instructions of the interface; mean over stores and cores",
        within(4.0, 0.5, below=_MANY, above=_FORWARDING),
        lambda r: _more_instructions(r, as_percent=True),
        figure="cargo.21",
        paper_value=4.0,
    ),
    Claim(
        "cargo.6.power",
        "Section 6.4",
        "consumes .4 W of additional power",
        "W",
        "power of the structures beside a core, saturated; mean over stores and cores",
        within(0.4, 0.5, below=_MANY, above=_MANY),
        lambda r: (
            sum(
                _mean(r, store, SATURATED, lambda case: structures_w(r[case].result))
                for store in STORES
            )
            / len(STORES)
        ),
        figure="cargo.16",
        paper_value=0.4,
    ),
    Claim(
        "cargo.21.bandwidth",
        "Section 6.4",
        "CARGO consumes 4.5% bandwidth",
        "%",
        "bytes of regions, loads and their data, without notes, as a percentage of both directions "
        "of PCI Express; mean over stores and cores",
        within(4.5, 0.5, below=_LOAD, above=_MANY),
        lambda r: _both(
            r,
            lambda result: sum(
                express_percent(result, part) for part in ("state", "requests", "data")
            ),
        ),
        paper_value=4.5,
    ),
    Claim(
        "cargo.21.state",
        "Section 6.4",
        "transferring state incurs smallest overhead (less than 1%)",
        "%",
        "bytes for regions alone; mean over stores and cores",
        below(1.0, _MANY),
        lambda r: _both(r, lambda result: express_percent(result, "state")),
    ),
    *(
        Claim(
            f"cargo.21.{STORES[store].lower()}",
            "Section 6.4",
            "Request and Data components contribute equally (1.9% and 2.1% for memcached and silo",
            "%",
            f"{store}: half of the bytes for loads and their data; mean over cores",
            within(percent, 0.5, below=_LOAD, above=_MANY),
            functools.partial(_half_of_loads, store=store),
            figure="cargo.21",
            paper_value=percent,
        )
        for store, percent in ((CACHE, 1.9), (DATABASE, 2.1))
    ),
    Claim(
        "cargo.nic.gain",
        "Section 1",
        "Our proposal overlaps request wait time and application processing",
        "times",
        f"{CACHE}: mean latency without regions, as a multiple of that with them, behind 24 cores "
        "at 2 GHz, under 5 million requests a second of one core",
        above(1.0, _FEW),
        lambda r: (
            latency_ns(r[Case(CACHE, BASELINE, 1, "5", LARGE_NIC)].result, "mean")
            / latency_ns(r[Case(CACHE, CARGO, 1, "5", LARGE_NIC)].result, "mean")
        ),
    ),
)
