"""One key-value store behind four network interfaces: the same server, program and requests.

Descriptor rings, with nine kinds of software (polling, one doorbell for a burst, Zawrs, user-level
interrupts (xUI, ASPLOS 2025), stealing, stealing from completion queues, packed counters,
fetch-and-add on one ring, and a dispatcher core); the same rings with QWAIT (HyperPlane, MICRO
2020); messages that the interface dispatches to cores (RPCValet, ASPLOS 2019); and messages in
registers (nanoPU, OSDI 2021).
docs/comparison.md lists what is equal and what differs.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from nanoplane.compiler import GUEST
from nanoplane.description import Description
from nanoplane.load_search import Limit
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
    "memory_mib": 16_384,
    "data_plane_cores": CORES,
    "fabric": {"cores": CORES, "clock_ghz": CLOCK_GHZ, "mesh": _MESH, "memory": _MEMORY},
}
"""The cores and caches of RPCValet's chip, out of order and three wide, at nanoPU's clock; as much
memory as nanoPU's prototype, because the store has a log for each core, of 128 MB with values of 4
KB."""

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
BURSTS = (2, 4, 8, 16)
"""The most replies that a doorbell announces."""


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
        for burst in BURSTS
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
    **{
        f"bursts-{burst}": _express(
            f"rings behind PCI Express, polled, a doorbell for up to {burst} replies",
            "store-bursts",
            CORES,
            entries=32,
            burst=burst,
        )
        for burst in BURSTS
    },
    "completions-on-chip": _on_chip(
        "rings on the chip, stealing from completion queues",
        "store-completions",
        CORES,
        entries=32,
        spares=SPARES,
    ),
    "rpcvalet-wrs": System("RPCValet, WRS", "store-messages-wrs", "rpcvalet"),
    "nanopu-wfi": System("nanoPU, WFI", "store-registers-wfi", "nanopu"),
}
OPTIONAL = (
    "interrupts",
    *(name for name in SYSTEMS if name.startswith("bursts")),
    "shinjuku-on-chip",
    "completions-on-chip",
    "rpcvalet-wrs",
    "nanopu-wfi",
)
"""Run on request."""
OPTIONAL_QUICK = ("stealing", "qwait")
"""Run on request with `--quick`: claims compare them only on the chip."""

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


def _with_room(system: System, room: int | None, spares: int | None, rings: int | None) -> System:
    """Return a system with this number of ring entries or slots of each node, spares and rings."""
    if rings is not None:
        system = dataclasses.replace(system, queues=rings)
    if spares is not None:
        system = dataclasses.replace(system, parameters={**system.parameters, "spares": spares})
    if room is None:
        return system
    if system.interface == "rpcvalet":
        return dataclasses.replace(system, slots=room)
    parameters = {**system.parameters, "entries": room}
    if "spares" in parameters:
        parameters["spares"] = min(parameters["spares"], room)
    return dataclasses.replace(system, parameters=parameters)


def last_level_bytes(system: System, silicon: str, value_bytes: int = VALUE_BYTES) -> int:
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
        size = last_level_bytes(system, silicon, value_bytes)
        last_level = {"size_bytes_per_bank": size // CORES, "ways": size // WAY_BYTES}
        server["fabric"] = {**server["fabric"], "last_level": last_level}
    if qwait_cycles is not None:
        # The ready set's selection is part of QWAIT's latency: it takes no time here, so that the
        # latency can be short.
        server["hyperplane"] = {"qwait_latency_cycles": qwait_cycles, "ready_set_latency_ns": 0.0}
    return server


RINGS_ON_CHIP = "rings-on-chip"


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
    spares: int | None = None,
    rings: int | None = None,
    qwait_cycles: int | None = None,
    system_cycles: int | None = None,
) -> Description:
    """Describe a server and the client that loads it over one link, without a transport."""
    chosen = _with_room(SYSTEMS[system], room, spares, rings)
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
QUICK_RATES_MRPS = (2.5, 7.5)
FAST_RATES_MRPS = (2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0)
QUICK_FAST_RATES_MRPS = (10.0, 20.0)
"""On out-of-order cores. The lower one of both is for `--only` with `--quick`, as is that in order:
claims compare the p99 at the other, and at lower loads cores poll most of the time, so that as many
requests take the host longer."""
VARIED_MRPS: Mapping[str, float] = {"in-order": 10.0, "out-of-order": 20.0}
"""By cores, the load of the figures over ring entries, spare buffers, rings and silicon."""
REQUESTS, QUICK_REQUESTS = 20_000, 4000
"""Two hundred requests exceed a p99: half of its 95 % interval is then about 5 % of it, the
precision of figures in full."""
WARMUP, QUICK_WARMUP = 6000, 2000
"""Requests of the warm-up. The last-level cache has 32,768 lines; a request accesses nine lines of
the store, and as many of its buffer."""
ABSOLUTE_NS = 5000.0
WITHIN = f"largest load within {ABSOLUTE_NS / 1000:g} us"
"""On the p99 at the client."""
PRECISION, QUICK_PRECISION = 0.01, 0.05


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
    spares: int | None = None
    """Buffers of each core besides those in rings, instead of SPARES."""
    rings: int | None = None
    """Pairs of rings, instead of one for each core."""
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
        told += [] if self.spares is None else [f"{self.spares} spare buffers"]
        told += [] if self.rings is None else [f"{self.rings} rings"]
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
        # The polls of nanoPU's cores are skipped, so that a warm-up costs the host little. With the
        # short one a load near their peak was measured behind the queue of its beginning: at 20
        # million requests a second, a p99 of 10 us instead of 2.1.
        is_nanopu = SYSTEMS[self.system].interface == "nanopu"
        measure = {
            "requests": QUICK_REQUESTS if quick else REQUESTS,
            "warmup": QUICK_WARMUP if quick and not is_nanopu else WARMUP,
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
            spares=self.spares,
            rings=self.rings,
            qwait_cycles=self.qwait_cycles,
            system_cycles=self.system_cycles,
        )

    def run(self, quick: bool) -> Run:
        """Return its run."""
        description = self.description(quick)
        # Of bimodal ones the p99 of a kind counts, too.
        by_tail = self.service == "equal"
        if not self.limit:
            return Run(description, by_tail=by_tail)
        limit = Limit(
            precision=QUICK_PRECISION if quick else PRECISION,
            interval=not quick,
            absolute_ns=ABSOLUTE_NS,
            by_chance=True,
        )
        # nanoPU has in-order cores in both figures.
        cores = "in-order" if SYSTEMS[self.system].interface == "nanopu" else self.cores
        # Its own peak leads to the answer in two or three loads. In full the rates of the figures
        # are near it, and the search needs a peak only as a guess.
        own = dataclasses.replace(self, limit=False)
        reference = own if quick else Case(RINGS_ON_CHIP, cores=cores)
        near = rates(quick, cores)
        if quick and self != Case(self.system, limit=True, cores=self.cores):
            near = (VARIED_MRPS[cores],)
        return Run(
            description,
            peak=reference.description(quick),
            limit=limit,
            near=near,
            by_tail=by_tail,
        )


def rates(quick: bool, cores: str) -> tuple[float, ...]:
    """Return the loads of a figure over throughput."""
    if cores == "in-order":
        return QUICK_RATES_MRPS if quick else RATES_MRPS
    return QUICK_FAST_RATES_MRPS if quick else FAST_RATES_MRPS


def runs(listed: list[Case], quick: bool) -> dict[Any, Run]:
    """Return each case and its run."""
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
