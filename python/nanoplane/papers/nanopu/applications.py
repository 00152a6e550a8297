"""Section 5.3, applications: Figures 9 and 10, and Tables 1 and 2."""

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Any

import altair

from nanoplane.claims import Claim, Judge, below, between, judged, within
from nanoplane.compiler import GUEST
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels
from nanoplane.papers import plots
from nanoplane.papers.nanopu.racks import (
    CLOCK_GHZ,
    FAST_PATH,
    LINK_NS,
    PROTOTYPE,
    QUICK_REQUESTS,
    REQUESTS,
    TRADITIONAL,
    latencies_ns,
    measurement,
    open_load,
    rack,
    saturating,
    uniform,
)
from nanoplane.sweep import Run

KEYS, VALUE_WORDS = 10_000, 64
MICA = {
    "traditional": "traditional",
    "naive": "nanoPU, by way of a buffer",
    "optimal": "nanoPU, out of the register",
}
_MICA_PROGRAMS = {
    "traditional": "traditional/mica",
    "naive": "nanopu/mica-naive",
    "optimal": "nanopu/mica",
}
MICA_RATES_MRPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
QUICK_MICA_RATES_MRPS = (0.5, 1.5, 2.5)
DOCUMENTS, WORDS = 100, 200
SET_ALGEBRA_CORES = (1, 4)
SET_ALGEBRA_RATES_MRPS = {
    1: (0.1, 0.5, 0.8, 1.0, 1.2, 1.4, 1.6),
    4: (0.1, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
}
LOW_RATE_MRPS = 0.1
"""What "low load" is taken to be."""


def _mica_requests() -> list[dict[str, Any]]:
    """Return half reads and half writes, of keys that are equally likely."""
    key: list[Any] = [uniform(0, KEYS - 1), 0, 0]
    anything = uniform(0, (1 << 64) - 1)
    return [
        {"name": "read", "words": [1, *key]},
        {"name": "write", "words": [2, *key, *[anything] * VALUE_WORDS]},
    ]


def _set_algebra_requests() -> list[dict[str, Any]]:
    """Return requests of one to four words, by Zipf's law."""
    word = {"zipf_least": 1, "zipf_items": WORDS, "zipf_exponent": 1.0}
    counts = range(1, 5)
    return [{"name": f"words-{count}", "words": [count, *[word] * count]} for count in counts]


def _hd_search_requests() -> list[dict[str, Any]]:
    """Return queries of 16 words among two to five vectors."""
    query = [uniform(0, (1 << 64) - 1)] * 16
    vector = uniform(1, KEYS)
    return [
        {"name": f"vectors-{count}", "words": [*query, count, *[vector] * count]}
        for count in range(2, 6)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A server that requests come to, at a rate, or as many as it can take."""

    application: str
    """`mica`, `set-algebra` or `hd-search`."""
    system: str
    rate_mrps: float | None
    cores: int = 1
    mac_and_serial_io: bool = False

    @property
    def name(self) -> str:
        """What progress and errors call it."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        return f"{self.application}, {self.system}, {self.cores} cores, {load}"

    def run(self, quick: bool) -> Run:
        """Return the run."""
        program, requests = {
            "mica": (_MICA_PROGRAMS.get(self.system), _mica_requests),
            "set-algebra": ("nanopu/set-algebra", _set_algebra_requests),
            "hd-search": ("nanopu/hd-search", _hd_search_requests),
        }[self.application]
        assert program is not None
        rate = self.rate_mrps
        under_way = 60 if self.system == TRADITIONAL else 16
        return Run(
            rack(
                self.name,
                program,
                saturating(under_way) if rate is None else open_load(rate),
                requests(),
                measured=QUICK_REQUESTS if quick else REQUESTS,
                warmup=QUICK_REQUESTS,
                interface=TRADITIONAL if self.system == TRADITIONAL else FAST_PATH,
                nanopu={} if self.mac_and_serial_io else PROTOTYPE,
                cores=self.cores,
            )
        )


# Figure 9.


def _mica_rates(quick: bool) -> tuple[float | None, ...]:
    return (*(QUICK_MICA_RATES_MRPS if quick else MICA_RATES_MRPS), None)


def _mica_points(quick: bool) -> dict[Any, Run]:
    listed = itertools.product(MICA, _mica_rates(quick))
    return {(point := Service("mica", *one)): point.run(quick) for one in listed}


_KINDS = ("read", "write")


def _load_row(results: Results, point: Service, series: str, kind: str | None) -> Row:
    client = results[point].result["clients"][0]
    measured = client["measurement"]
    latencies = (measured if kind is None else client["by_kind"][kind])["latency_ns"]
    ends = latencies.get("p99_ci95")
    return Row(
        series=series,
        x=measured["throughput_mrps"],
        x_unit="million requests a second",
        y=latencies["p99"] / 1000,
        y_unit="microseconds",
        statistic="p99 latency",
        labels={**labels(point), **({} if kind is None else {"kind": kind})},
        ci95=None if ends is None else (ends[0] / 1000, ends[1] / 1000),
        samples=latencies["samples"],
        steady=measured["steady"],
    )


def _mica_rows(results: Results) -> list[Row]:
    return [
        _load_row(results, point, f"{kind}, {MICA[system]}", kind)
        for system, kind, rate in itertools.product(MICA, _KINDS, MICA_RATES_MRPS)
        if (point := Service("mica", system, rate)) in results
    ]


def _mica_chart(rows: list[Row]) -> altair.TopLevelMixin:
    return plots.panels(
        rows,
        lambda row: {"read": "READ", "write": "WRITE"}[row.labels["kind"]],
        x=plots.linear("million requests a second"),
        y=plots.logarithmic("p99 in us"),
        colour=plots.Series.label("system", "system", MICA, plots.COLOURS),
        dash=plots.Series.label("system", "system", MICA, plots.SYSTEM_DASHES),
        columns=2,
    )


# Figure 10.


def _set_algebra_points(quick: bool) -> dict[Any, Run]:
    points = [
        Service("set-algebra", FAST_PATH, rate, cores)
        for cores, rates in SET_ALGEBRA_RATES_MRPS.items()
        for rate in (rates[::3] if quick else rates)
    ]
    points += [Service("set-algebra", FAST_PATH, None, cores) for cores in SET_ALGEBRA_CORES]
    return {point: point.run(quick) for point in points}


_CORES = {"1": "one core", "4": "four cores, JBSQ(2)"}


def _set_algebra_rows(results: Results) -> list[Row]:
    return [
        _load_row(results, point, _CORES[str(cores)], None)
        for cores, rates in SET_ALGEBRA_RATES_MRPS.items()
        for rate in rates
        if (point := Service("set-algebra", FAST_PATH, rate, cores)) in results
    ]


def _set_algebra_chart(rows: list[Row]) -> altair.TopLevelMixin:
    return plots.panels(
        rows,
        lambda _: "set intersection",
        x=plots.linear("million requests a second"),
        y=plots.logarithmic("p99 in us"),
        colour=plots.Series.label("cores", "cores", _CORES, plots.COLOURS),
        dash=plots.Series.label("cores", "cores", _CORES, plots.DASHES),
    )


# Tables 1 and 2.


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """A client program that measures, one request after the other, and its servers."""

    application: str
    servers: int
    forwarding_ns: float
    """Of the switch between them."""

    @property
    def name(self) -> str:
        """What progress and errors call it."""
        return f"{self.application}, measured by a client"

    def run(self, quick: bool) -> Run:
        """Return the run; it is as long as its program says."""
        programs = GUEST / "programs" / "nanopu"
        machine = {"preset": "nanopu-prototype", "nanopu": dict(PROTOTYPE)}
        names = {"chain": "chain-replication"}
        server = {
            "name": "server",
            "count": self.servers,
            "program": str(programs / f"{names.get(self.application, self.application)}.c"),
            "serves": True,
            "interface": "nanopu",
            "server": machine,
        }
        client = {
            "name": "client",
            "program": str(programs / f"{self.application}-client.c"),
            "interface": "nanopu",
            "server": machine,
        }
        description = Description.from_dict(
            {
                "rack": {
                    "link": {"latency_ns": LINK_NS},
                    "switch": {"forwarding_latency_ns": self.forwarding_ns},
                    "servers": [server, client],
                }
            },
            source=self.name,
        )
        return Run(description)


SWITCH_NS = 300.0
ONE_WAY_NS = 300.0
"""Table 2: "the one-way latency through the switch and links is 300ns"."""
RDMA = Exchange("rdma", 1, ONE_WAY_NS - 2 * LINK_NS)
RAFT = Exchange("raft", 3, SWITCH_NS)
CHAIN = Exchange("chain", 3, SWITCH_NS)
OPERATIONS = {
    "read": "Read",
    "write": "Write",
    "compare-and-swap": "Compare-and-Swap",
    "fetch-and-add": "Fetch-and-Add",
    "indirect read": "Indirect Read",
}
_PRINTED = re.compile(r"^(.*): (\d+), cycles p50 (\d+) p90 (\d+) p99 (\d+)$", re.MULTILINE)


def printed_ns(results: Results, point: Exchange) -> Mapping[str, Mapping[str, float]]:
    """Return what the client has printed: of each kind of request its percentiles, and how many."""
    output = results[point].result["servers"][-1]["output"]
    return {
        what: {
            "samples": float(samples),
            **{
                name: int(cycles) / CLOCK_GHZ
                for name, cycles in zip(("p50", "p90", "p99"), percentiles, strict=True)
            },
        }
        for what, samples, *percentiles in _PRINTED.findall(output)
    }


LOW_LOAD = {
    "MICA": Service("mica", "optimal", LOW_RATE_MRPS, mac_and_serial_io=True),
    "Set Algebra": Service("set-algebra", FAST_PATH, LOW_RATE_MRPS, mac_and_serial_io=True),
    "HD Search": Service("hd-search", FAST_PATH, LOW_RATE_MRPS, mac_and_serial_io=True),
}
CLIENTS = {"Raft": (RAFT, "raft writes"), "Chain Repl.": (CHAIN, "chain writes")}


def _table_1_points(quick: bool) -> dict[Any, Run]:
    points: list[Service | Exchange] = [*LOW_LOAD.values(), CHAIN, RAFT]
    return {point: point.run(quick) for point in points}


def table_1_us(results: Results, application: str) -> tuple[float, float]:
    """Return the median and the p99 of an application, as the table has them."""
    if application in CLIENTS:
        point, what = CLIENTS[application]
        found = printed_ns(results, point)[what]
        return found["p50"] / 1000, found["p99"] / 1000
    latencies = latencies_ns(results[LOW_LOAD[application]])
    median, p99 = (latencies[name] - 2 * LINK_NS for name in ("p50", "p99"))
    return median / 1000, p99 / 1000


def _table_row(
    series: str, value: float, unit: str, statistic: str, point: Any, samples: float
) -> Row:
    return Row(
        series=series,
        x=1,
        x_unit="",
        y=value,
        y_unit=unit,
        statistic=statistic,
        labels={**labels(point), "statistic": statistic},
        ci95=None,
        samples=int(samples),
        steady=True,
    )


_MEDIAN, _P90, _P99 = "median latency", "p90 latency", "p99 latency"


def _table_1_rows(results: Results) -> list[Row]:
    rows = []
    for application in (*LOW_LOAD, *CLIENTS):
        point: Any = CLIENTS[application][0] if application in CLIENTS else LOW_LOAD[application]
        if point not in results:
            continue
        samples: float = (
            printed_ns(results, point)[CLIENTS[application][1]]["samples"]
            if application in CLIENTS
            else latencies_ns(results[point])["samples"]
        )
        for statistic, value in zip((_MEDIAN, _P99), table_1_us(results, application), strict=True):
            rows.append(_table_row(application, value, "microseconds", statistic, point, samples))
    return rows


def _table_2_rows(results: Results) -> list[Row]:
    if RDMA not in results:
        return []
    printed = printed_ns(results, RDMA)
    return [
        _table_row(OPERATIONS[what], found[name], "ns", statistic, RDMA, found["samples"])
        for what, found in printed.items()
        for statistic, name in ((_MEDIAN, "p50"), (_P90, "p90"))
    ]


def _table_chart(unit: str, *statistics: str) -> Any:
    def chart(rows: list[Row]) -> altair.TopLevelMixin:
        texts = {one: one for one in statistics}
        return plots.bars(
            rows,
            lambda _: "response time",
            group=lambda row: row.series,
            y=plots.linear(unit),
            colour=plots.Series.label("statistic", "statistic", texts, plots.COLOURS),
        )

    return chart


FIGURES = (
    Figure(
        name="nanopu.9",
        title="MICA: p99 over throughput",
        caption=(
            "10,000 keys of 16 bytes, equally likely, values of 512 bytes, half reads; one core. "
            "MICA behind the traditional interface works in batches of 30."
        ),
        points=_mica_points,
        rows=_mica_rows,
        chart=_mica_chart,
    ),
    Figure(
        name="nanopu.10",
        title="Set intersection: p99 over throughput",
        caption=(
            "100 made-up documents and 200 words; one to four words a request, each as likely, by "
            "Zipf's law. The traditional program of the paper is not there."
        ),
        points=_set_algebra_points,
        rows=_set_algebra_rows,
        chart=_set_algebra_chart,
    ),
    Figure(
        name="nanopu.table1",
        title="Response times of applications at low load",
        caption=(
            f"At {LOW_RATE_MRPS:g} Mrps and one core from wire to wire, MAC and serial I/O "
            "included; Raft and chain replication at a client that runs on nanoPU, behind a switch "
            "of 300 ns."
        ),
        points=_table_1_points,
        rows=_table_1_rows,
        chart=_table_chart("us", _MEDIAN, _P99),
    ),
    Figure(
        name="nanopu.table2",
        title="Latency of one-sided operations",
        caption=(
            "At a client that runs on nanoPU, one request after the other, at random addresses; "
            "300 ns one way through the switch and its links. No MAC and serial I/O."
        ),
        points=lambda quick: {RDMA: RDMA.run(quick)},
        rows=_table_2_rows,
        chart=_table_chart("ns", _MEDIAN, _P90),
    ),
)


# What the paper claims.


def _peak_mrps(results: Results, system: str) -> float:
    """Return the throughput of as many requests as are under way."""
    return float(measurement(results[Service("mica", system, None)])["throughput_mrps"])


def _mica_gain(results: Results, over: str) -> float:
    """Return by how many percent the optimised MICA's throughput is higher."""
    return 100 * (_peak_mrps(results, "optimal") / _peak_mrps(results, over) - 1)


def _rdma_ns(results: Results, what: str, name: str) -> float:
    return printed_ns(results, RDMA)[what][name]


_DATA = "the data, or the program around them, are not the paper's"
_WAY = "the program, or the parts of the way that the paper gives in a picture, take another time"

_TABLE_1 = {
    "MICA": (0.40, 0.50),
    "Raft": (3.08, 3.26),
    "Chain Repl.": (1.10, 1.40),
    "Set Algebra": (0.60, 1.50),
    "HD Search": (0.80, 1.20),
    "N-Body Sim.": (0.35, None),
    "INT Processing": (0.13, None),
    "Packet Classifier": (0.90, 2.20),
    "Othello Player": (0.90, 1.70),
}
_NO_RUN = {
    "N-Body Sim.": "the load generator does not configure it; the program is there",
    "INT Processing": "reports of paths are not made by the load generator; the program is there",
    "Packet Classifier": "headers that match rules are not made by the load generator; the program "
    "is there",
    "Othello Player": "its requests make requests of their own; the program is there",
}
_TABLE_2 = {
    "read": (678, 680),
    "write": (679, 686),
    "compare-and-swap": (687, 690),
    "fetch-and-add": (688, 692),
    "indirect read": (691, 715),
}


def _table_1_claim(application: str, place: int) -> Claim:
    value = _TABLE_1[application][place]
    assert value is not None
    statistic = ("p50", "p99")[place]
    runs = application not in _NO_RUN
    name = application.lower().rstrip(".").replace(". ", "-").replace(" ", "-")
    judge: Judge = within(value, 0.2, below=_DATA, above=_DATA)
    return Claim(
        f"nanopu.table1.{name}-{statistic}",
        "Table 1",
        f"{application}: response time p50 / p99 (us)",
        value,
        "us",
        f"{statistic}, low load, "
        + ("at a client" if application in CLIENTS else "from wire to wire"),
        "reproduced within 20 %",
        "nanopu.table1" if runs else None,
        judged(lambda r: table_1_us(r, application)[place], judge) if runs else None,
        _NO_RUN.get(application, ""),
    )


def _table_2_claim(what: str, place: int) -> Claim:
    value, statistic, title = _TABLE_2[what][place], ("p50", "p90")[place], OPERATIONS[what]
    return Claim(
        f"nanopu.table2.{what.replace(' ', '-')}-{statistic}",
        "Table 2",
        f"{title}: {('median', '90th %ile')[place]} latency (ns)",
        value,
        "ns",
        f"{statistic} of 1000 operations at a client on nanoPU",
        "reproduced within 10 %",
        "nanopu.table2",
        judged(lambda r: _rdma_ns(r, what, statistic), within(value, 0.1, below=_WAY, above=_WAY)),
    )


_STATE_OF_THE_ART_NS = 2000.0
"""Section 5.3: "about 2us"."""

CLAIMS = (
    *(
        _table_1_claim(application, place)
        for application, values in _TABLE_1.items()
        for place, value in enumerate(values)
        if value is not None
    ),
    Claim(
        "nanopu.9.gain",
        "Section 5.3",
        "The optimized nanoPU implementation is able to achieve about 30% higher throughput",
        30,
        "%",
        "as many requests under way as find room: optimised by naive throughput",
        "reproduced within 12 percentage points",
        "nanopu.9",
        judged(lambda r: _mica_gain(r, "naive"), between(18, 42, _DATA)),
    ),
    Claim(
        "nanopu.9.naive",
        "Section 5.3",
        "The naive nanoPU implementation outperforms the traditional implementation",
        "above 1",
        "times",
        "naive by traditional throughput",
        "reproduced if above 1",
        "nanopu.9",
        judged(
            lambda r: _peak_mrps(r, "naive") / _peak_mrps(r, "traditional"),
            between(1, 100, "the buffer costs more than the traditional interface"),
        ),
    ),
    Claim(
        "nanopu.raft.erpc",
        "Section 5.3",
        "eRPC reports a 5.5us median [...] about a factor of two slower",
        2,
        "times",
        "5.5 us by the median of a write at the client",
        "reproduced within 20 %",
        "nanopu.table1",
        judged(
            lambda r: 5.5 / table_1_us(r, "Raft")[0],
            within(2, 0.2, below="Raft takes longer", above="Raft takes less long"),
        ),
    ),
    Claim(
        "nanopu.10.traditional",
        "Section 5.3",
        "The traditional design has a low-load tail response time of 1.7us",
        1.7,
        "us",
        "set intersection behind the traditional interface, p99 at low load",
        "reproduced within 20 %",
        why="there is no set intersection behind the traditional interface yet",
    ),
    Claim(
        "nanopu.10.one-core",
        "Section 5.3",
        "compared to 1.4us on a single nanoPU core",
        1.4,
        "us",
        f"set intersection on one core, p99 at {LOW_RATE_MRPS:g} Mrps",
        "reproduced within 20 %",
        "nanopu.10",
        judged(
            lambda r: (
                latencies_ns(r[Service("set-algebra", FAST_PATH, LOW_RATE_MRPS)])["p99"] / 1000
            ),
            within(1.4, 0.2, below=_DATA, above=_DATA),
        ),
    ),
    Claim(
        "nanopu.10.four-cores",
        "Section 5.3",
        "With JBSQ enabled for four cores, the 99th %ile tail response time remains low until "
        "7Mrps",
        7,
        "Mrps",
        "set intersection on four cores: throughput of as many requests as find room",
        "reproduced within 20 %",
        "nanopu.10",
        judged(
            lambda r: float(
                measurement(r[Service("set-algebra", FAST_PATH, None, 4)])["throughput_mrps"]
            ),
            within(7, 0.2, below=_DATA, above=_DATA),
        ),
    ),
    *(_table_2_claim(what, place) for what in _TABLE_2 for place in (0, 1)),
    Claim(
        "nanopu.table2.lower",
        "Section 5.3",
        "65% lower latency than state-of-the-art RDMA NICs",
        65,
        "%",
        "the median read, below the 2 us that the paper quotes",
        "reproduced within 3 percentage points",
        "nanopu.table2",
        judged(
            lambda r: 100 * (1 - _rdma_ns(r, "read", "p50") / _STATE_OF_THE_ART_NS),
            between(62, 68, _WAY),
        ),
    ),
    Claim(
        "nanopu.table2.indirect",
        "Section 5.3",
        "on the nanoPU, it takes only a few nanoseconds longer than a standard read",
        "a few",
        "ns",
        "the median indirect read, less that of a read",
        "reproduced if below 20",
        "nanopu.table2",
        judged(
            lambda r: _rdma_ns(r, "indirect read", "p50") - _rdma_ns(r, "read", "p50"),
            below(
                20, "a random word of 3.2 MB is in no cache, so that it costs an access to memory"
            ),
        ),
    ),
)
