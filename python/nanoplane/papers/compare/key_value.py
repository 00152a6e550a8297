"""One key-value store behind four network interfaces: the same server, program and requests.

Descriptor rings, with eight kinds of software (polling, one doorbell for a burst, Zawrs, user-level
interrupts (xUI, ASPLOS 2025), stealing, packed counters, fetch-and-add on one ring, and a
dispatcher core); the same rings with QWAIT (HyperPlane, MICRO 2020); messages that the interface
dispatches to cores (RPCValet, ASPLOS 2019); and messages in registers (nanoPU, OSDI 2021).
docs/comparison.md lists what is equal and what differs.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from nanoplane import intervals
from nanoplane.claims import Claim, above, below
from nanoplane.compiler import GUEST
from nanoplane.description import Description
from nanoplane.figures import Figure, Results, Row, labels, ranking
from nanoplane.load_search import Limit
from nanoplane.outcomes import measurement, settled
from nanoplane.papers import plots
from nanoplane.papers.hyperplane import area
from nanoplane.sweep import Run

CORES = 16
UNDER_WAY = 128
"""Outstanding requests that saturate: 8 for each core. A client of a closed loop whose request is
dropped never sends again, so there must be few enough that rings of 32 entries drop almost none."""
RECEIVE_BUFFERS = 256
"""Requests that every interface can buffer after the MAC: 16 for each core."""
LINK_NS = 43.0
"""From the client to the server, and back: the links of nanoPU's Section 5.3."""
CLIENT_PORTS = 4096
"""Enough that receive-side scaling spreads requests almost as evenly as at random."""
KEYS, VALUE_BYTES = 10_000, 512
BEGIN_NS = 100_000.0
"""Programs have made their rings by then."""

_MESH = {"columns": 4, "rows": 4, "hop_latency_cycles": 3}
_MEMORY = {"controllers": 4, "latency_ns": 50.0, "bandwidth_gb_per_s": 25.6, "cache": None}
SERVER: Mapping[str, Any] = {
    "preset": "nanopu-prototype",
    "data_plane_cores": CORES,
    "fabric": {"cores": CORES, "mesh": _MESH, "memory": _MEMORY},
}
"""nanoPU's cores, since its registers need an in-order core, and the other systems run on any; 128
KB of last-level cache a core, as in nanoPU's prototype and RPCValet's chip; and that chip's mesh
and memory, without the cache in front of it that nanoPU's simulations have."""
CLOCK_GHZ = 3.2
OUT_OF_ORDER: Mapping[str, Any] = {
    "preset": "rpcvalet-table1",
    "data_plane_cores": CORES,
    "fabric": {"cores": CORES, "clock_ghz": CLOCK_GHZ, "mesh": _MESH, "memory": _MEMORY},
}
"""The cores and caches of RPCValet's chip, out of order and three wide, at nanoPU's clock."""

LAST_LEVEL_BYTES = 2 * 1024 * 1024
WAYS = 32
"""In the last-level cache of the comparison with equal SRAM: a way is 64 KB of all banks."""
WAY_BYTES = LAST_LEVEL_BYTES // WAYS

EXPRESS: Mapping[str, Any] = {"rate_gbit_per_s": 231.52, "reads": 256}
"""16 lanes of PCI Express 4.0, typical of an interface of 200 Gb/s: four times the bandwidth of the
default, eight lanes of 3.0, and extended tags."""
ON_CHIP: Mapping[str, Any] = {
    **{**EXPRESS, "rate_gbit_per_s": 10_000.0, "latency_ns": 0.0},
    "energy": {"byte_pj": 0.0, "static_mw_per_gb_per_s": 0.0},
}
"""The same rings without PCI Express, at no time and no energy."""


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """An interface, and the notification of its cores."""

    name: str
    """Its name in figures."""
    program: str
    """Below guest/programs/compare."""
    interface: str
    """As in `rack.servers`."""
    queues: int = 0
    """The number of ring pairs, if the interface has rings."""
    express: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The link to the chip, likewise."""
    parameters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Parameters of its program: guest/include/services/compared_store.h."""
    slots: int = 4
    """For each node, if messages arrive in slots."""

    @property
    def systems(self) -> list[str]:
        """The server's hardware for its program, besides the interface."""
        beside = {
            "store-qwait": ["hyperplane"],
            "store-interrupts": ["user_interrupts"],
            "store-dispatcher": ["user_interrupts"],
        }
        return beside.get(self.program, [])


SLICE_CYCLES = 16_000
"""For the interrupting dispatcher: 5 us, the shortest of Shinjuku's (NSDI 2019, Section 5)."""


SPARES = 16
"""Buffers of each core besides those in rings, if cores take frames off others' rings: chosen, half
of a ring."""


def _on_chip(name: str, program: str, queues: int, **parameters: int) -> System:
    return System(name, program, "dma-nic", queues, ON_CHIP, parameters)


def _express(name: str, program: str, queues: int, **parameters: int) -> System:
    return System(name, program, "dma-nic", queues, EXPRESS, parameters)


SYSTEMS = {
    "rings": _express("rings behind PCI Express, polled", "store-rings", CORES, entries=32),
    "rings-on-chip": _on_chip("rings on the chip, polled", "store-rings", CORES, entries=32),
    "interrupts-on-chip": _on_chip(
        "rings on the chip, user interrupts", "store-interrupts", CORES, entries=32
    ),
    "wrs-on-chip": _on_chip("rings on the chip, WRS", "store-wrs", CORES, entries=32),
    "stealing": _express(
        "rings behind PCI Express, stealing", "store-stealing", CORES, entries=32, spares=SPARES
    ),
    "stealing-on-chip": _on_chip(
        "rings on the chip, stealing", "store-stealing", CORES, entries=32, spares=SPARES
    ),
    "shared-on-chip": _on_chip(
        "one ring on the chip, fetch-and-add", "store-shared", 1, entries=128
    ),
    "shared-wrs-on-chip": _on_chip(
        "one ring on the chip, fetch-and-add, WRS", "store-shared", 1, entries=128, sleep=1
    ),
    "dispatcher-on-chip": _on_chip(
        "one ring on the chip, dispatcher core", "store-dispatcher", 1, entries=128, depth=2
    ),
    "qwait": _express(
        "rings behind PCI Express, QWAIT", "store-qwait", CORES, entries=32, spares=SPARES
    ),
    "qwait-on-chip": _on_chip(
        "rings on the chip, QWAIT", "store-qwait", CORES, entries=32, spares=SPARES
    ),
    "rpcvalet": System("RPCValet", "store-messages", "rpcvalet"),
    "nanopu": System("nanoPU", "store-registers", "nanopu"),
    "interrupts": _express(
        "rings behind PCI Express, user interrupts", "store-interrupts", CORES, entries=32
    ),
    **{
        f"bursts-{burst}-on-chip": _on_chip(
            f"rings on the chip, polled, a doorbell for up to {burst} replies",
            "store-bursts",
            CORES,
            entries=32,
            burst=burst,
        )
        for burst in (2, 4, 8, 16)
    },
    "counters-on-chip": _on_chip(
        "rings on the chip, packed counters", "store-counters", CORES, entries=32, spares=SPARES
    ),
    "shinjuku-on-chip": _on_chip(
        "one ring on the chip, dispatcher core that interrupts",
        "store-dispatcher",
        1,
        entries=128,
        slice_cycles=SLICE_CYCLES,
    ),
}
OPTIONAL = (
    "interrupts",
    *(name for name in SYSTEMS if name.startswith("bursts")),
    *("counters-on-chip", "shinjuku-on-chip"),
)
"""Run on request."""

PORT_BYTES = (192 * 1024, 32 * 1024)
"""Buffer bytes for RECEIVE_BUFFERS received frames, and for frames to send; values longer than
VALUE_BYTES have larger ports (_port_bytes())."""
BUFFERED_HEADERS = 64 + 6 * 8
"""Bytes before a value in a frame: its headers, and the words of a request."""
NODES, SLOT_HEADER_BYTES = 64, 16
"""NODES is chosen: with 4 slots each they are RECEIVE_BUFFERS slots."""
SEND_BUFFERS = 64
"""nanoPU's messages to send: chosen, 4 for each core."""
DESCRIPTOR_BYTES, DESCRIPTORS_AHEAD = 16, 16
FRONTEND_BYTES, BACKEND_BYTES, BACKENDS = 2048, 4096, 4
"""Caches of RPCValet's frontends and backends (docs/rpcvalet.md). BACKENDS is one for each row of
the mesh, at the edge of the chip."""


def _lines(number: int) -> int:
    """Round bytes up to a multiple of a line."""
    return -(-number // 64) * 64


def _port_bytes(value_bytes: int) -> tuple[int, int]:
    """Return PORT_BYTES, scaled for the same number of frames with longer values."""
    frame, usual = (_lines(BUFFERED_HEADERS + size) for size in (value_bytes, VALUE_BYTES))
    came, leave = (_lines(size * frame // usual) for size in PORT_BYTES)
    return max(came, PORT_BYTES[0]), max(leave, PORT_BYTES[1])


def _message_bytes(value_bytes: int) -> int:
    """Return the bytes of nanoPU's message buffers, in packets of a kilobyte."""
    return 1024 * -(-(value_bytes + 48) // 1024)


def interface(system: System, value_bytes: int) -> dict[str, Any]:
    """Return the description of an interface with room for values of this length."""
    came, leave = _port_bytes(value_bytes)
    if system.interface == "dma-nic":
        described = {
            "queues": system.queues,
            "express": dict(system.express),
            "input_buffer_bytes": came,
            "output_buffer_bytes": leave,
            "descriptors_ahead": DESCRIPTORS_AHEAD,
            "max_frame_bytes": _lines(BUFFERED_HEADERS + value_bytes),
        }
        return {"dma_nic": described}
    if system.interface == "rpcvalet":
        longest = _lines(SLOT_HEADER_BYTES + 48 + value_bytes)
        gateway = {"nodes": NODES, "input_buffer_bytes": came}
        return {
            "rpcvalet": {
                "slots": system.slots,
                "max_message_bytes": longest,
                "backends": BACKENDS,
                "gateway": gateway,
            }
        }
    longest = _message_bytes(value_bytes)
    transport = {
        "protocol": "datagrams",
        "receive_buffers": RECEIVE_BUFFERS,
        "send_buffers": SEND_BUFFERS,
        "largest_message_bytes": longest,
        "packet_bytes": longest,
    }
    return {
        "nanopu": {"max_message_bytes": longest, "contexts_per_core": 1, "transport": transport}
    }


def sram_bytes(system: System, value_bytes: int = VALUE_BYTES) -> dict[str, float]:
    """Return the bytes of SRAM of an interface, by part (docs/comparison.md, Equal silicon)."""
    came, leave = _port_bytes(value_bytes)
    if system.interface == "nanopu":
        longest = _message_bytes(value_bytes)
        return {
            "reassembly": float(RECEIVE_BUFFERS * longest),
            "packetization": float(SEND_BUFFERS * longest),
            # Two messages in each direction: JBSQ(2).
            "queues of cores": float(CORES * 2 * 2 * longest),
        }
    if system.interface == "rpcvalet":
        return {
            "port": float(came + leave),
            "caches of frontends and backends": float(
                CORES * FRONTEND_BYTES + BACKENDS * BACKEND_BYTES
            ),
            # Two bytes for each slot, and 20 for the domain (RPCValet, Section 4.3).
            "state of slots": float(2 * NODES * system.slots + 20),
        }
    parts = {
        "port": float(came + leave),
        "descriptors": float(system.queues * 2 * DESCRIPTORS_AHEAD * DESCRIPTOR_BYTES),
    }
    if "hyperplane" in system.systems:
        # Three flip-flops for each queue of the ready set.
        parts["monitoring and ready set"] = area.ENTRIES * (area.entry_bits() + 3) / 8
    return parts


def _with_room(system: System, room: int | None) -> System:
    """Return a system with this number of ring entries, or of slots of each node."""
    if room is None:
        return system
    if system.interface == "rpcvalet":
        return dataclasses.replace(system, slots=room)
    parameters = {**system.parameters, "entries": room}
    if "spares" in parameters:
        parameters["spares"] = min(parameters["spares"], room)
    return dataclasses.replace(system, parameters=parameters)


def _last_level_bytes(system: System, silicon: str, value_bytes: int = VALUE_BYTES) -> int:
    """Return the bytes of the last-level cache, in whole ways."""
    if silicon != "equal":
        return LAST_LEVEL_BYTES
    given_up = math.ceil(sum(sram_bytes(system, value_bytes).values()) / WAY_BYTES)
    return LAST_LEVEL_BYTES - given_up * WAY_BYTES


def _server(
    system: System, value_bytes: int, cores: str, silicon: str, qwait_cycles: int | None
) -> dict[str, Any]:
    """Return the machine of a system."""
    on_own = cores == "in-order" or system.interface == "nanopu"
    server = {**(SERVER if on_own else OUT_OF_ORDER), **interface(system, value_bytes)}
    if silicon != "own":
        size = _last_level_bytes(system, silicon, value_bytes)
        last_level = {"size_bytes_per_bank": size // CORES, "ways": size // WAY_BYTES}
        server["fabric"] = {**server["fabric"], "last_level": last_level}
    if qwait_cycles is not None:
        # The ready set's selection is part of QWAIT's latency: it takes no time here, so that the
        # latency can be short.
        server["hyperplane"] = {"qwait_latency_cycles": qwait_cycles, "ready_set_latency_ns": 0.0}
    return server


RINGS_ON_CHIP, RPCVALET = "rings-on-chip", "rpcvalet"


def requests(value_bytes: int = VALUE_BYTES, service: str = "equal") -> list[dict[str, Any]]:
    """Return half reads and half writes of equally likely keys, as for nanoPU's MICA.

    With `service` "bimodal" one in a hundred reads and writes takes LONG_ROUNDS more.
    """
    key: list[Any] = [{"min": 0, "max": KEYS - 1}, 0, 0]
    anything = {"min": 0, "max": (1 << 64) - 1}
    usual = [
        {"name": "read", "words": [1, *key]},
        {"name": "write", "words": [2, *key, *[anything] * (value_bytes // 8)]},
    ]
    if service == "equal":
        return usual
    return [
        *({**one, "weight": 1.0 - LONG_PART} for one in usual),
        *(
            {**one, "name": f"long-{one['name']}", "weight": LONG_PART, "service": LONG_ROUNDS}
            for one in usual
        ),
    ]


LONG_PART, LONG_ROUNDS = 0.01, 144_000.0
"""The fraction of long requests, and their additional work: rounds of a loop of two instructions,
90 us. As in RPCValet's Masstree (Section 5), where one request in a hundred is a scan of 60 to 120
us."""


def rack(
    source: str,
    system: str,
    offer: Mapping[str, Any],
    measure: Mapping[str, Any],
    *,
    value_bytes: int = VALUE_BYTES,
    service: str = "equal",
    cores: str = "in-order",
    silicon: str = "own",
    room: int | None = None,
    qwait_cycles: int | None = None,
    system_cycles: int | None = None,
) -> Description:
    """Describe a server and the client that loads it over one link, without a transport."""
    chosen = _with_room(SYSTEMS[system], room)
    parameters = {**chosen.parameters, "value_bytes": value_bytes}
    if chosen.interface == "dma-nic":
        parameters["buffer_bytes"] = _lines(BUFFERED_HEADERS + value_bytes)
    if system_cycles is not None:
        parameters["system_cycles"] = system_cycles
    return Description.from_dict(
        {
            "rack": {
                "link": {"latency_ns": LINK_NS},
                "servers": [
                    {
                        "program": str(GUEST / "programs" / "compare" / f"{chosen.program}.c"),
                        "serves": True,
                        "interface": chosen.interface,
                        "systems": chosen.systems,
                        "server": _server(chosen, value_bytes, cores, silicon, qwait_cycles),
                        "parameters": parameters,
                    }
                ],
                "clients": [
                    {
                        "count": 1,
                        "begin_ns": BEGIN_NS,
                        "load": {
                            "offer": dict(offer),
                            "requests": requests(value_bytes, service),
                            "ports": CLIENT_PORTS,
                            "transport": {
                                "protocol": "datagrams",
                                "largest_message_bytes": _message_bytes(value_bytes),
                                "packet_bytes": _message_bytes(value_bytes),
                            },
                        },
                    }
                ],
            },
            "measure": dict(measure),
        },
        source=source,
    )


RATES_MRPS = (1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5)
QUICK_RATES_MRPS = (2.5, 7.5, 10.0)
FAST_RATES_MRPS = (2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0)
QUICK_FAST_RATES_MRPS = (2.5, 10.0, 30.0)
"""On out-of-order cores."""
REQUESTS, QUICK_REQUESTS = 100_000, 4000
WARMUP, QUICK_WARMUP = 10_000, 2000
"""Requests of the warm-up. The last-level cache has 32,768 lines; a request accesses nine lines of
the store, and as many of its buffer."""
ABSOLUTE_NS = 5000.0
WITHIN = f"largest load within {ABSOLUTE_NS / 1000:g} us"
"""On the p99 at the client."""
PRECISION, QUICK_PRECISION = 0.01, 0.05
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


SILICON = {"equal": "equal silicon", "ways": f"{WAYS} ways"}


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    system: str
    rate_mrps: float | None = None
    """None: at saturation, or at the largest load within the limit."""
    limit: bool = False
    """Whether to search for the largest load within the limit."""
    cores: str = "in-order"
    """Or "out-of-order", for all except nanoPU."""
    silicon: str = "own"
    """Or "equal": the last-level cache of WAYS ways is smaller by the interface's SRAM; or "ways":
    it has all WAYS."""
    value_bytes: int = VALUE_BYTES
    service: str = "equal"
    """Or "bimodal"."""
    room: int | None = None
    """Ring entries or slots of each node, instead of the system's."""
    qwait_cycles: int | None = None
    """The latency of QWAIT, instead of HyperPlane's."""
    system_cycles: int | None = None
    """What an operating system adds to each interrupt, where it is sent and where it is taken."""

    @property
    def name(self) -> str:
        """Its name in progress messages and errors."""
        load = "saturated" if self.rate_mrps is None else f"{self.rate_mrps:g} Mrps"
        told = [SYSTEMS[self.system].name, WITHIN if self.limit else load]
        told += [] if self.cores == "in-order" else ["out-of-order cores"]
        told += [SILICON[self.silicon]] if self.silicon in SILICON else []
        told += [] if self.value_bytes == VALUE_BYTES else [f"values of {self.value_bytes} B"]
        told += [] if self.service == "equal" else ["bimodal"]
        told += [] if self.room is None else [f"room for {self.room}"]
        told += [] if self.qwait_cycles is None else [f"QWAIT of {self.qwait_cycles} cycles"]
        told += [] if self.system_cycles is None else [f"{self.system_cycles} cycles of a system"]
        return f"key-value store, {', '.join(told)}"

    def description(self, quick: bool) -> Description:
        """Return its description."""
        offer: dict[str, Any] = {"mode": "open", "arrivals": "poisson", "rate_mrps": 1.0}
        if self.rate_mrps is not None:
            offer["rate_mrps"] = self.rate_mrps
        elif not self.limit:
            offer = {"mode": "closed", "clients": UNDER_WAY, "think_ns": 0.0}
        measure = {
            "requests": QUICK_REQUESTS if quick else REQUESTS,
            "warmup": QUICK_WARMUP if quick else WARMUP,
            "seed": 1,
        }
        return rack(
            self.name,
            self.system,
            offer,
            measure,
            value_bytes=self.value_bytes,
            service=self.service,
            cores=self.cores,
            silicon=self.silicon,
            room=self.room,
            qwait_cycles=self.qwait_cycles,
            system_cycles=self.system_cycles,
        )

    def run(self, quick: bool) -> Run:
        """Return its run."""
        description = self.description(quick)
        if not self.limit:
            return Run(description)
        limit = Limit(
            precision=QUICK_PRECISION if quick else PRECISION,
            interval=not quick,
            absolute_ns=ABSOLUTE_NS,
        )
        # nanoPU has in-order cores in both figures.
        cores = "in-order" if self.system == "nanopu" else self.cores
        reference = Case(RINGS_ON_CHIP, cores=cores)
        near = _rates(quick, cores)
        return Run(description, peak=reference.description(quick), limit=limit, near=near)


def _rates(quick: bool, cores: str) -> tuple[float, ...]:
    """Return the loads of a figure over throughput."""
    if cores == "in-order":
        return QUICK_RATES_MRPS if quick else RATES_MRPS
    return QUICK_FAST_RATES_MRPS if quick else FAST_RATES_MRPS


def cases(quick: bool, cores: str = "in-order") -> list[Case]:
    """Return the runs of a figure over throughput."""
    return [
        case
        for system in SYSTEMS
        for case in (
            Case(system, cores=cores),
            *(Case(system, rate, cores=cores) for rate in _rates(quick, cores)),
            Case(system, limit=True, cores=cores),
        )
    ]


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


def _runs(listed: list[Case], quick: bool) -> dict[Any, Run]:
    return {case: case.run(quick) for case in listed}


PARTS: Mapping[str, tuple[str, ...]] = {
    "last-level cache and directory": ("last_level", "directory"),
    "mesh": ("mesh",),
    "memory": ("memory_controllers", "dram"),
    "HyperPlane": ("monitoring_set", "ready_set"),
    "user-level interrupts": ("user_interrupts",),
    "network port and PCI Express": ("network_port", "pci_express"),
}
"""The shared parts, as the table groups them."""
BUFFERS = "SRAM of the network interface"
LEAKAGE = "of all of it, leakage"
SRAM_MW_PER_KIB, SRAM_WORD_PJ = 1.67, 19.6
"""For buffers: the leakage, and the energy of an 8-byte word, of a programmable interface's
scratchpad, after McPAT and Horowitz (docs/energy.md)."""


def energy_nj(result: Mapping[str, Any], case: Case) -> dict[str, float]:
    """Return the energy of a request in nanojoules: the total, its parts, and its leakage.

    The interface's SRAM leaks; each word of a request and its reply, including headers, is written
    into it and read once. HyperPlane's sets are in the simulator's energy.
    """
    (server,) = result["servers"]
    energy = server["energy_nj"]
    spent: dict[str, float] = {"all": energy["total"]}
    spent["cores"] = sum(core["total"] for core in energy["cores"])
    for part, names in PARTS.items():
        spent[part] = sum(
            energy[name]["dynamic"] + energy[name]["static"] for name in names if name in energy
        )
    spent[LEAKAGE] = energy["static"]
    of_request = {
        part: value * energy["per_request"] / energy["total"] for part, value in spent.items()
    }
    requests_each_ns = energy["total"] / energy["per_request"] / (energy["seconds"] * 1e9)
    parts = sram_bytes(SYSTEMS[case.system], case.value_bytes)
    held = sum(size for part, size in parts.items() if not part.startswith("monitoring"))
    leaks = held / 1024 * SRAM_MW_PER_KIB / 1000 / requests_each_ns
    # A read and its reply have one value, and so have a write and its reply.
    words = (2 * BUFFERED_HEADERS + case.value_bytes) / 8
    of_request[BUFFERS] = leaks + 2 * words * SRAM_WORD_PJ / 1000
    of_request["all"] += of_request[BUFFERS]
    of_request[LEAKAGE] += leaks
    return of_request


MRPS = "million requests a second"
MEDIAN, P99 = "median latency", "p99 latency"
SHORT_P99 = "p99 latency of requests that do not take longer"
ENERGY, PEAK = "energy of a request", "peak throughput"
LOST = "requests that were dropped"


def _row(
    results: Results,
    case: Case,
    statistic: str,
    y: float,
    unit: str,
    *,
    x: tuple[float, str] | None = None,
    ci95: tuple[float, float] | None = None,
) -> Row:
    measured = measurement(results[case].result)
    load = (1.0, "") if case.rate_mrps is None else (case.rate_mrps, MRPS)
    place, place_unit = load if x is None else x
    return Row(
        series=SYSTEMS[case.system].name,
        x=place,
        x_unit=place_unit,
        y=y,
        y_unit=unit,
        statistic=statistic,
        labels={**labels(case), "statistic": statistic},
        ci95=ci95,
        samples=measured["latency_ns"]["samples"],
        steady=settled(results[case]),
    )


def _throughput_mrps(results: Results, case: Case) -> float:
    return float(measurement(results[case].result)["throughput_mrps"])


def _takes(results: Results, case: Case) -> bool:
    """Whether a system can carry a load, as far as its peak is known."""
    peak = dataclasses.replace(case, rate_mrps=None)
    return peak not in results or (case.rate_mrps or 0.0) <= _throughput_mrps(results, peak)


def _latencies(results: Results, case: Case, x: tuple[float, str] | None = None) -> list[Row]:
    latency = measurement(results[case].result)["latency_ns"]
    return [
        _latency_row(results, case, MEDIAN, latency, "p50", x),
        _latency_row(results, case, P99, latency, "p99", x),
        _lost(results, case, x),
    ]


def _latency_row(
    results: Results,
    case: Case,
    statistic: str,
    latency: Mapping[str, Any],
    percentile: str,
    x: tuple[float, str] | None = None,
) -> Row:
    ends = latency.get(f"{percentile}_ci95")
    ci95 = None if ends is None else (ends[0] / 1000, ends[1] / 1000)
    value = latency[percentile] / 1000
    return _row(results, case, statistic, value, "microseconds", x=x, ci95=ci95)


def _lost(results: Results, case: Case, x: tuple[float, str] | None = None) -> Row:
    """Return the percentage of dropped requests, which have no latency."""
    result = results[case].result
    (server,), (client,) = result["servers"], result["clients"]
    dropped = sum(count for name, count in server["interface"].items() if "dropped" in name)
    part = dropped / client["statistics"]["requests"] if dropped else 0.0
    return _row(results, case, LOST, 100 * part, "percent", x=x)


def _load_rows(results: Results, case: Case, x: tuple[float, str] | None = None) -> list[Row]:
    """Return the rows of a case: its peak, its load within the limit, or its latencies."""
    if case.limit:
        result = results[case].result
        least, most = result["largest_load_ci95"]
        load = result["largest_load"]
        within = _row(results, case, WITHIN, load, MRPS, x=x, ci95=(least, most))
        return [within, _lost(results, case, x)]
    if case.rate_mrps is None:
        peak = _row(results, case, PEAK, _throughput_mrps(results, case), MRPS, x=x)
        return [peak, _lost(results, case, x)]
    return _latencies(results, case, x) if _takes(results, case) else []


def _rows(results: Results, cores: str) -> list[Row]:
    rows = []
    for case in (one for one in cases(quick=False, cores=cores) if one in results):
        rows += _load_rows(results, case)
        if case.rate_mrps is not None and _takes(results, case):
            for part, value in energy_nj(results[case].result, case).items():
                statistic = ENERGY if part == "all" else f"{ENERGY}: {part}"
                rows.append(_row(results, case, statistic, value, "nanojoules"))
    return rows


def _varied(results: Results, listed: list[Case], x: Any) -> list[Row]:
    """Return the rows of cases over the varied parameter."""
    return [row for case in listed if case in results for row in _load_rows(results, case, x(case))]


def _bimodal_rows(
    results: Results,
    listed: list[Case],
    x: Callable[[Case], tuple[float, str]] | None = None,
) -> list[Row]:
    rows = []
    for case in (one for one in listed if one in results):
        at = None if x is None else x(case)
        rows += _latencies(results, case, at)
        if case.service == "bimodal":
            kinds = results[case].result["by_kind"]
            usual = (kinds[name]["latency_ns"] for name in ("read", "write"))
            worst = max(usual, key=lambda latency: latency["p99"])
            rows.append(_latency_row(results, case, SHORT_P99, worst, "p99", at))
    return rows


_NAMES = {name: system.name for name, system in SYSTEMS.items()}
_LIKE = {
    **{"stealing": "spin-poll-mode", "counters": "wrs", "bursts": "rings"},
    **{"shared": "theory", "dispatcher": "spin-mlx5", "shinjuku": "spin-mlx5"},
}
"""Systems without their own colour have those of plots.SYSTEMS that are not shown here."""
_BEHIND, _FIRST, _SECOND = plots.DASHES[1:]
_DASH = {
    **{name: _BEHIND for name, system in SYSTEMS.items() if system.express is EXPRESS},
    **dict.fromkeys(("counters-on-chip", "shared-wrs-on-chip", "shinjuku-on-chip"), _FIRST),
    **{"bursts-2-on-chip": _FIRST, "bursts-4-on-chip": _SECOND},
    **{"bursts-8-on-chip": [1, 1], "bursts-16-on-chip": [12, 2]},
}
_COLOURS = [
    plots.SYSTEMS[_LIKE.get(kind, kind)] for kind in (name.split("-")[0] for name in SYSTEMS)
]
_DASHES = [_DASH.get(name, plots.DASHES[0]) for name in SYSTEMS]


def _panel(rows: list[Row], statistic: str, x: plots.Axis, y: plots.Axis) -> Any:
    return plots.panels(
        [row for row in rows if row.statistic == statistic],
        lambda row: row.statistic,
        x=x,
        y=y,
        colour=plots.Series.label("interface", "system", _NAMES, _COLOURS),
        dash=plots.Series.label("interface", "system", _NAMES, _DASHES),
    )


def _by_cores(rows: list[Row], statistic: str, x: plots.Axis, y: plots.Axis) -> Any:
    names = {name: f"{name} cores" for name in ("in-order", "out-of-order")}
    return plots.panels(
        [row for row in rows if row.statistic == statistic],
        lambda row: row.statistic,
        x=x,
        y=y,
        colour=plots.Series.label("cores", "cores", names, plots.COLOURS[:2]),
    )


def _chart(rows: list[Row]) -> plots.Chart:
    loads, times = plots.linear(MRPS), plots.logarithmic("microseconds")
    return plots.beside(
        _panel(rows, MEDIAN, loads, times),
        _panel(rows, P99, loads, times),
        _panel(rows, ENERGY, loads, plots.logarithmic("nanojoules")),
        shared=True,
    )


def _varied_chart(
    title: str,
    statistics: tuple[str, ...],
    x: Callable[[str], plots.Axis] = plots.logarithmic,
    rates: Callable[[str], plots.Axis] = plots.logarithmic,
) -> Any:
    def chart(rows: list[Row]) -> plots.Chart:
        shown = [
            _panel(
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


def _answer(rows: list[Row]) -> str:
    within = [row for row in rows if row.statistic == WITHIN]
    limit = f"{ABSOLUTE_NS / 1000:g} us"
    return ranking(
        f"Million requests a second with a p99 within {limit}", within, lambda row: row.y
    )


_ALIKE = (
    "The same store, requests, arrivals and link for all. Latency is measured at the client, from "
    "the creation of a request to the last bit of its reply. "
)


def _over_throughput(name: str, title: str, cores: str, machine: str) -> Figure:
    return Figure(
        name=name,
        title=title,
        caption=(
            f"One server, {CORES} {machine} at {CLOCK_GHZ:g} GHz with 2 MB of last-level cache. "
            f"{_ALIKE}Rates above an interface's peak are left out. The energy is that of "
            "cores, caches, mesh, memory, HyperPlane's hardware, and the network interface's SRAM."
        ),
        points=lambda quick: _runs(cases(quick, cores), quick),
        rows=lambda results: _rows(results, cores),
        chart=_chart,
        answer=_answer,
        optional={"system": OPTIONAL},
    )


FIGURES = (
    _over_throughput(
        "compare.key-value",
        "One key-value store behind rings, HyperPlane, RPCValet and nanoPU",
        "in-order",
        "in-order cores of nanoPU's prototype",
    ),
    _over_throughput(
        "compare.key-value-out-of-order",
        "One key-value store behind rings, HyperPlane and RPCValet, on out-of-order cores",
        "out-of-order",
        "out-of-order cores of RPCValet's chip (nanoPU: its own, in order)",
    ),
    Figure(
        name="compare.key-value-rooms",
        title="Ring entries and slots of nodes",
        caption=(
            f"{_ALIKE}Over the entries of each ring, or the slots of each of {NODES} nodes "
            f"(RPCValet): the peak, and latencies at {ROOM_MRPS:g} million requests a second. "
            "Buffers are as long as the longest frame."
        ),
        points=lambda quick: _runs(room_cases(), quick),
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
            f"{_ALIKE}Equal silicon: the last-level cache is smaller by the network interface's "
            "SRAM."
        ),
        points=lambda quick: _runs(silicon_cases(), quick),
        rows=lambda results: _varied(
            results,
            silicon_cases(),
            lambda case: (
                _last_level_bytes(SYSTEMS[case.system], case.silicon) / 1024,
                "kilobytes of last-level cache",
            ),
        ),
        chart=_varied_chart(
            "kilobytes of last-level cache",
            (PEAK, WITHIN),
            x=_near,
            rates=_near,
        ),
        answer=lambda rows: _answer([row for row in rows if row.labels["silicon"] == "equal"]),
    ),
    Figure(
        name="compare.key-value-values",
        title="The store with values of 8 bytes to 4 KB",
        caption=(
            f"{_ALIKE}The peak, and latencies at {VALUES_MRPS:g} million requests a second, over "
            "the length of values."
        ),
        points=lambda quick: _runs(value_cases(), quick),
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
            f"{_ALIKE}The ready set's selection takes no time, so that the latency can be short. "
            "HyperPlane's QWAIT takes 50 cycles."
        ),
        points=lambda quick: _runs(qwait_cases(), quick),
        rows=lambda results: _varied(
            results, qwait_cases(), lambda case: (float(case.qwait_cycles or 0), "cycles")
        ),
        chart=lambda rows: plots.beside(
            *(
                _by_cores(rows, one, plots.linear("cycles of QWAIT"), plots.linear(unit))
                for one, unit in ((PEAK, MRPS), (P99, "microseconds"))
            ),
            shared=True,
        ),
    ),
    Figure(
        name="compare.key-value-bimodal",
        title="The store with 90 us more for one request in a hundred",
        caption=(
            f"{_ALIKE}One request in a hundred executes {LONG_ROUNDS:g} iterations of a loop "
            "before it accesses the store, 90 us. Latencies of all requests, and the p99 of the "
            "others."
        ),
        points=lambda quick: _runs(bimodal_cases(), quick),
        rows=lambda results: _bimodal_rows(results, bimodal_cases()),
        chart=_varied_chart(MRPS, (MEDIAN, SHORT_P99)),
    ),
    Figure(
        name="compare.key-value-system",
        title="The store with an operating system in the way of interrupts",
        caption=(
            f"{_ALIKE}Each interrupt takes so many cycles more where it is sent and where it is "
            f"taken. At {SYSTEM_MRPS:g} million requests a second, cores that sleep until the "
            f"interface interrupts them, beside Zawrs; at {SYSTEM_BIMODAL_MRPS:g} million, a "
            "dispatcher that interrupts the one request in a hundred that takes 90 us longer, "
            "beside one that does not."
        ),
        points=lambda quick: _runs(system_cases(), quick),
        rows=lambda results: _bimodal_rows(
            results,
            system_cases(),
            lambda case: (float(case.system_cycles or 0), "cycles of a system"),
        ),
        chart=_varied_chart("cycles of a system", (P99, SHORT_P99), x=plots.linear),
    ),
)


# The rules of docs/comparison.md as claims.

SOFTWARE = tuple(
    name
    for name, system in SYSTEMS.items()
    if system.express is ON_CHIP and "hyperplane" not in system.systems and name not in OPTIONAL
)
"""Programs over rings on the chip, without hardware of the papers."""
HARDWARE = {"qwait-on-chip": "QWAIT", "rpcvalet": "RPCValet", "nanopu": "nanoPU"}
ADVANTAGE = 0.05
"""The least advantage that counts; `--quick` finds loads to the same fraction."""
_P99_MRPS = {"in-order": 7.5, "out-of-order": 10.0}
"""A load of both the quick and the full figure, at about half of the software's."""


def _within_5_us(results: Results, system: str, cores: str) -> float:
    return float(results[Case(system, limit=True, cores=cores)].result["largest_load"])


def _load_gain(results: Results, system: str, cores: str) -> intervals.Part:
    """Return a system's load within the limit over that of the strongest software."""
    own = _within_5_us(results, system, cores)
    return intervals.part(
        min, lambda software: own / _within_5_us(results, software, cores), SOFTWARE
    )


def _p99_ratio(results: Results, system: str, cores: str) -> intervals.Part:
    """Return a system's p99 over the shortest p99 of software at the same load."""

    def p99(of: str) -> float:
        result = results[Case(of, _P99_MRPS[cores], cores=cores)].result
        return float(measurement(result)["latency_ns"]["p99"])

    # Software that a load saturates is not the strongest: its ratio is small.
    return intervals.part(max, lambda software: p99(system) / p99(software), SOFTWARE)


_NO_ADVANTAGE = {
    "qwait-on-chip": "a core that steals finds work in the first rings it polls, without the 50 "
    "cycles of QWAIT, which explain a third of what is missing on out-of-order cores; the rest is "
    "unexplained (docs/comparison.md)",
    "rpcvalet": "unexplained",
    "nanopu": "its cores are in order in both figures, and wait for each line of a value from "
    "memory; out-of-order cores overlap these misses (docs/comparison.md)",
}


def _claims(figure: str, cores: str) -> tuple[Claim, ...]:
    where, than = "comparison.md, Rules", "software over rings on the chip"
    return tuple(
        claim
        for system, name in HARDWARE.items()
        for claim in (
            Claim(
                f"{figure}.{name.lower()}-load",
                where,
                f"{name} sustains more load within 5 us, by 5 %, than the strongest {than}",
                "times",
                f"{cores} cores: the largest load with a p99 of at most 5 us over that of each "
                "program; the least of these quotients",
                above(1 + ADVANTAGE, _NO_ADVANTAGE[system]),
                lambda r, system=system: _load_gain(r, system, cores),  # type: ignore[misc]
                figure=figure,
            ),
            Claim(
                f"{figure}.{name.lower()}-p99",
                where,
                f"{name} has a shorter p99, by 5 %, than all {than}",
                "times",
                f"{cores} cores, {_P99_MRPS[cores]:g} million requests a second: the p99 over that "
                "of each program; the largest of these quotients",
                below(1 - ADVANTAGE, _NO_ADVANTAGE[system]),
                lambda r, system=system: _p99_ratio(r, system, cores),  # type: ignore[misc]
                figure=figure,
            ),
        )
    )


CLAIMS = (
    *_claims("compare.key-value", "in-order"),
    *_claims("compare.key-value-out-of-order", "out-of-order"),
)
