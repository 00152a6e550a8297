"""The common parts of nanoPU's experiments: a server, its clients, and the network between them."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nanoplane.description import Description
from nanoplane.outcomes import Outcome

CLOCK_GHZ = 3.2
LINK_NS = 43.0
"""Section 5.3: "all links have a latency of 43ns"."""
BESIDE_NS = 2.0
"""The shortest possible link: the load generator is beside the server, as in Verilator."""
HEADER_BYTES = 64
"""Header of a packet: Figure 2 has "8B message (72B packet)"."""
PACKET_BYTES = 1024
"""Payload of a packet."""
REQUESTS, QUICK_REQUESTS = 20_000, 2000
"""Section 5.2.2: 10,000 requests for each of two threads."""
MAC_AND_SERIAL_IO_NS = 26.0
"""The latency each way. Section 5.2.1: 69 ns from wire to wire with them, and 17 ns without."""
PROTOTYPE = {"mac_and_serial_io_ns": 0.0}
"""Footnote 10: "Our prototype does not include MAC & Serial IO"."""

_BURST_EVERY_NS = 40_000.0
"""Long enough for the slowest burst: 31 messages of 1 KB behind the traditional interface."""

FAST_PATH, TRADITIONAL = "fast-path", "traditional"
FIRST_LEVEL = "first-level"
"""The traditional interface if it "placed arriving messages directly in the L1 cache"."""
SYSTEMS = {
    FAST_PATH: "nanoPU's fast path",
    TRADITIONAL: "traditional",
    FIRST_LEVEL: "traditional, into the L1 cache",
}


def open_load(rate_mrps: float) -> dict[str, Any]:
    """Return an offer of Poisson arrivals."""
    return {"mode": "open", "arrivals": "poisson", "rate_mrps": rate_mrps}


def one_at_a_time(think_ns: float = 200.0) -> dict[str, Any]:
    """Return an offer of requests that never overlap: each waits for its predecessor's response."""
    return {"mode": "closed", "clients": 1, "think_ns": think_ns}


def saturating(clients: int) -> dict[str, Any]:
    """Return an offer with one request in flight for each client."""
    return {"mode": "closed", "clients": clients, "think_ns": 0.0}


def in_bursts(messages: int) -> dict[str, Any]:
    """Return an offer of so many requests back to back, and nothing between such bursts."""
    return {"mode": "simultaneous", "requests_per_burst": messages, "every_ns": _BURST_EVERY_NS}


def uniform(first: int, last: int) -> dict[str, int]:
    """Return a word of a request: a random number within the bounds."""
    return {"min": first, "max": last}


def rack(
    source: str,
    program: str,
    offer: Mapping[str, Any],
    requests: Sequence[Mapping[str, Any]],
    *,
    measured: int,
    interface: str = FAST_PATH,
    nanopu: Mapping[str, Any] | None = None,
    transport: Mapping[str, Any] | None = None,
    link_ns: float = LINK_NS,
    switch: Mapping[str, Any] | None = None,
    stamped: bool = True,
    opening: Sequence[Sequence[int]] = (),
    clients: int = 1,
    ports: int = 1,
    cores: int = 4,
    warmup: int | None = None,
) -> Description:
    """Describe a server, the clients that load it, and the link or switch between them.

    `program` is the name of a built-in program. `transport` applies to both ends; a traditional
    interface has none. `opening` has messages that precede all requests.
    """
    fast = interface == FAST_PATH
    ends = dict(transport or {}) if fast else {"protocol": "datagrams"}
    server: dict[str, Any] = {"preset": "nanopu-prototype", "fabric": {"cores": cores}}
    if fast:
        server["nanopu"] = {**(nanopu or {}), "transport": ends}
    load: dict[str, Any] = {
        "offer": dict(offer),
        "requests": [dict(one) for one in requests],
        "stamped": stamped,
        "ports": ports,
        "transport": ends,
    }
    if opening:
        load["opening"] = [{"words": list(words)} for words in opening]
    network: dict[str, Any] = {"link": {"latency_ns": link_ns}}
    if switch is not None:
        network["switch"] = dict(switch)
    served: dict[str, Any] = {
        "program": program,
        "serves": True,
        "interface": "nanopu" if fast else "ice-nic",
        "server": server,
    }
    if interface == FIRST_LEVEL:
        server["ice_nic"] = {"first_level": True}
    measure: dict[str, Any] = {"requests": measured, "seed": 1}
    if warmup is not None:
        measure["warmup"] = warmup
    return Description.from_dict(
        {
            "rack": {
                **network,
                "servers": [served],
                "clients": [{"count": clients, "load": load}],
            },
            "measure": measure,
        },
        source=source,
    )


def rack_of_programs(
    source: str,
    servers: tuple[str, int],
    clients: tuple[str, int],
    switch: Mapping[str, Any],
    transport: Mapping[str, Any] | None = None,
) -> Description:
    """Describe nanoPU's servers around a switch, and clients that are such servers, too.

    `servers` and `clients` have the name of a built-in program, below `nanopu/`, and the number of
    servers that run it. The servers have the first addresses. The clients' program sets the length
    of a run.
    """
    machine = {
        "preset": "nanopu-prototype",
        "nanopu": {**PROTOTYPE, "transport": dict(transport or {})},
    }
    entries = [
        {
            "name": name,
            "count": count,
            "program": f"nanopu/{program}",
            "serves": name == "server",
            "interface": "nanopu",
            "server": machine,
        }
        for name, (program, count) in (("server", servers), ("client", clients))
    ]
    network = {"link": {"latency_ns": LINK_NS}, "switch": dict(switch)}
    return Description.from_dict({"rack": {**network, "servers": entries}}, source=source)


_PRINTED = re.compile(r"^(.*): (\d+), cycles (p50 .*) longest (\d+)$", re.MULTILINE)
_PERCENTILE = re.compile(r"(p\d+) (\d+) \((\d+) to (\d+)\)")


@dataclasses.dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of latencies, and its 95 % confidence interval."""

    ns: float
    ci95_ns: tuple[float, float]
    samples: int


@dataclasses.dataclass(frozen=True, slots=True)
class Printed:
    """The output of a client program for one kind of requests (`measure.h`)."""

    percentiles: Mapping[str, Percentile]
    """Keyed by name: `p50`."""
    longest_ns: float


def printed(outcome: Outcome, what: str, server: int = -1) -> Printed:
    """Return the output of one of the rack's servers, by default the last one."""
    for kind, samples, percentiles, longest in _PRINTED.findall(
        outcome.result["servers"][server]["output"]
    ):
        if kind == what:
            found = {}
            for name, *cycles in _PERCENTILE.findall(percentiles):
                value, low, high = (int(one) / CLOCK_GHZ for one in cycles)
                found[name] = Percentile(value, (low, high), int(samples))
            return Printed(found, int(longest) / CLOCK_GHZ)
    raise KeyError(what)


def measurement(outcome: Outcome, client: int = 0) -> dict[str, Any]:
    """Return a client's measurements."""
    found: dict[str, Any] = outcome.result["clients"][client]["measurement"]
    return found


def latencies_ns(outcome: Outcome) -> dict[str, Any]:
    """Return the first client's latencies."""
    found: dict[str, Any] = measurement(outcome)["latency_ns"]
    return found


def burst_mrps(outcome: Outcome, messages: int) -> tuple[float, tuple[float, float] | None]:
    """Return the rate of a burst's messages in millions a second, and its 95 % interval.

    A burst takes the time from the first bit of its first message at the server to the last bit of
    its last response. All its messages are created at once, and the last of at most 100 has the
    99th percentile of their latencies.
    """
    latencies = latencies_ns(outcome)

    def rate(latency_ns: float) -> float:
        return 1000 * messages / (latency_ns - 2 * BESIDE_NS)

    ends = latencies.get("p99_ci95")
    interval = None if ends is None else (rate(float(ends[1])), rate(float(ends[0])))
    return rate(float(latencies["p99"])), interval


def packets_of(bytes_: int) -> int:
    """Return the number of packets of a message of `bytes_` bytes."""
    return -(-bytes_ // PACKET_BYTES)


def bits(bytes_: int) -> int:
    """Return the bits on the wire of a message."""
    return 8 * (bytes_ + HEADER_BYTES * packets_of(bytes_))
