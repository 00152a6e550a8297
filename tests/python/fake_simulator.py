"""Stands in for the compiled simulator where a test is about Python alone.

The schema has the shape of the real one (schemars), and results follow a formula, so that sweeps,
figures and reports can be tested in milliseconds.
"""

import base64
import json
import math
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

calls: list[dict[str, Any]] = []
"""The descriptions that `run` was given."""
delay_seconds = 0.0


class SimulationError(Exception):
    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def _integer(low: int, high: int, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "description": text, **more}


def _one_of(text: str, *names: str, **more: Any) -> dict[str, Any]:
    alternatives = [{"type": "string", "const": name, "description": name} for name in names]
    return {"oneOf": alternatives, "description": text, **more}


def _table(text: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "description": text,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Description",
    **_table(
        "A run.",
        ["server", "data_plane"],
        server={"$ref": "#/$defs/Server"},
        data_plane={"$ref": "#/$defs/DataPlane"},
        traffic={"$ref": "#/$defs/Traffic", "default": {}},
        measure={"$ref": "#/$defs/Measure", "default": {}},
        simulator={"$ref": "#/$defs/Simulator", "default": {}},
    ),
    "$defs": {
        "Core": _table(
            "A core.",
            ["model", "rob_entries"],
            model={"$ref": "#/$defs/Model"},
            rob_entries=_integer(1, 4096, "Entries of the reorder buffer."),
            clock_ghz={"type": "number", "exclusiveMinimum": 0, "maximum": 10, "default": 3.0},
            threads=_integer(1, 2, "Hardware threads.", default=1),
        ),
        "Model": {"type": "string", "enum": ["out-of-order", "in-order"], "description": "Kind."},
        "HyperPlane": _table(
            "The monitoring set and the ready set.",
            [],
            entries=_integer(2, 65536, "Entries.", default=1024),
            power_optimised={"type": "boolean", "default": False},
            ready_sets=_one_of("How many.", "per-socket", "one", default="per-socket"),
            stealing=_one_of("When.", "none", "when-idle", default="none"),
        ),
        "Fabric": _table(
            "What the cores share.",
            [],
            sockets=_integer(1, 2, "Sockets.", default=1),
            cores=_integer(1, 64, "Cores.", default=16),
        ),
        "Server": _table(
            "The server.",
            ["cores", "core"],
            cores=_integer(1, 64, "Cores."),
            data_plane_cores=_integer(1, 64, "Cores that run the data plane.", default=1),
            core={"$ref": "#/$defs/Core"},
            fabric={"$ref": "#/$defs/Fabric", "default": {}},
            hyperplane={"$ref": "#/$defs/HyperPlane", "default": {}},
            rpcvalet={"type": "object", "default": {}},
        ),
        "DataPlane": _table(
            "The data plane.",
            ["queues"],
            program={"type": "string", "default": "packet-encapsulation"},
            co_runner={"type": ["string", "null"], "default": None},
            parameters={"type": "object", "default": {}},
            notify=_one_of(
                "How it learns of work.",
                "spin",
                "spin-poll-mode",
                "wrs",
                "software-ready-set",
                "software-bitmap",
                "hyperplane",
                "rpcvalet",
                "user-interrupt",
                default="spin",
            ),
            policy=_one_of(
                "Order of queues.",
                "round-robin",
                "weighted-round-robin",
                "strict-priority",
                default="round-robin",
            ),
            weights={
                "type": "array",
                "items": _integer(1, 65535, "Items in a row."),
                "default": [],
            },
            in_order={"type": "boolean", "default": True},
            queues=_integer(1, 65536, "Number of queues."),
            batch=_integer(1, 1024, "Items of a visit.", default=1),
            organisation={
                "anyOf": [
                    _one_of("By its name.", "scale-out", "scale-up-2", "scale-up-4", "scale-up"),
                    _integer(1, 32, "The number of cores in a cluster."),
                    {"type": "null"},
                ],
                "default": None,
            },
        ),
        "Traffic": _table(
            "The traffic.",
            [],
            shape=_one_of(
                "Shape.",
                "fully-balanced",
                "proportionally-concentrated",
                "non-proportionally-concentrated",
                "single-queue",
                default="fully-balanced",
            ),
            arrivals=_one_of("Gaps.", "poisson", "fixed", "bursty", default="poisson"),
            load={"anyOf": [{"const": "saturate"}, {"type": "null"}], "default": None},
            rate_mrps={
                "type": ["number", "null"],
                "minimum": 1e-6,
                "maximum": 1e4,
                "description": "Rate.",
                "default": None,
            },
            packets={"type": "string", "default": "generated"},
            saturation_rate_mrps={
                "type": "number",
                "minimum": 1e-6,
                "maximum": 1e4,
                "default": 20.0,
            },
            imbalance={"type": "number", "minimum": 0, "maximum": 31, "default": 0.0},
            packet_bytes=_integer(28, 9000, "Bytes.", default=1024),
            work={"type": ["object", "null"], "default": None},
            operations={"type": ["object", "null"], "default": None},
            socket_imbalance={"type": "number", "minimum": 0, "maximum": 1, "default": 0.0},
            burst_length={"type": "number", "minimum": 1e-6, "maximum": 1e4, "default": 8.0},
        ),
        "Measure": _table(
            "What is measured.",
            [],
            requests=_integer(1, 10**9, "Requests.", default=20_000),
            warmup={
                "anyOf": [{"const": "auto"}, _integer(0, 10**9, "Requests.")],
                "default": "auto",
            },
            seed={"type": "integer", "format": "uint64", "minimum": 0, "default": 1},
            warm_start={
                "anyOf": [{"$ref": "#/$defs/WarmStart"}, {"type": "null"}],
                "default": None,
            },
        ),
        "WarmStart": _table(
            "What comes before.",
            ["requests"],
            requests=_integer(1, 10**9, "Requests."),
            rate_mrps={"type": ["number", "null"], "default": None},
        ),
        "Simulator": _table(
            "Speed.",
            [],
            lookahead_cycles=_integer(0, 10**6, "Window.", default=0),
            skip_spinning={"type": "boolean", "default": True},
        ),
    },
}

_PRESETS = {
    "hyperplane-table1": {
        "server": {
            "cores": 16,
            "data_plane_cores": 1,
            "core": {"model": "out-of-order", "rob_entries": 192, "clock_ghz": 3.0},
            "hyperplane": {"entries": 1024},
        },
        "description": "The 16-core server of Table I.",
        "source": "HyperPlane, MICRO 2020, Table I",
    },
    "rpcvalet-table1": {
        "server": {
            "cores": 16,
            "data_plane_cores": 16,
            "core": {"model": "out-of-order", "rob_entries": 128, "clock_ghz": 2.0},
            "rpcvalet": {"slots": 32, "max_message_bytes": 1152},
        },
        "description": "The 16-core chip of Table 1.",
        "source": "RPCValet, ASPLOS 2019, Table 1",
    },
    "nanopu-prototype": {
        "server": {
            "cores": 4,
            "core": {"model": "in-order", "rob_entries": 8, "clock_ghz": 3.2},
            "fabric": {"cores": 4},
            "nanopu": {
                "core_selection": "jbsq",
                "scheduler": "hardware",
                "mac_and_serial_io_ns": 26.0,
                "ingress_cycles": 11,
                "reassembly_cycles": 2,
                "core_selection_cycles": 1,
                "to_core_cycles": 4,
                "from_core_cycles": 2,
                "packetization_cycles": 2,
                "egress_cycles": 11,
            },
        },
        "description": "4 cores.",
        "source": "nanoPU, OSDI 2021, Section 3",
    },
}


_DISTRIBUTIONS = ("fixed", "uniform", "exponential", "generalized-extreme-value")

_QUEUEING_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Description",
    **_table(
        "A description without a server.", ["queueing"], queueing={"$ref": "#/$defs/Queueing"}
    ),
    "$defs": {
        "Queueing": _table(
            "A queueing system.",
            ["queues", "units", "service_times", "load"],
            queues=_integer(1, 1024, "Queues."),
            units=_integer(1, 1024, "Units."),
            service_times={"$ref": "#/$defs/ServiceTimes"},
            fixed_part={"type": "number", "minimum": 0, "maximum": 1, "default": 0.0},
            load={"type": "number", "minimum": 1e-6, "maximum": 10},
            requests=_integer(3000, 10**11, "Requests.", default=1_000_000),
            seed={"type": "integer", "format": "uint64", "minimum": 0, "default": 1},
        ),
        "ServiceTimes": {
            "oneOf": [
                *(
                    _table(name, ["distribution"], distribution={"type": "string", "const": name})
                    for name in _DISTRIBUTIONS
                ),
                _table(
                    "recorded",
                    ["distribution", "file"],
                    distribution={"type": "string", "const": "recorded"},
                    file={"type": "string"},
                ),
            ]
        },
    },
}


def _number(default: float) -> dict[str, Any]:
    return {"type": "number", "default": default}


_RACK_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "RackDescription",
    "$defs": _SCHEMA["$defs"],
    **_table(
        "Servers and a network.",
        ["rack"],
        rack=_table(
            "Servers and network.",
            ["servers"],
            link={
                **_table("Links.", [], latency_ns=_number(43.0), rate_gbit_per_s=_number(200.0)),
                "default": {},
            },
            switch={"type": ["object", "null"], "default": None},
            servers={"type": "array", "items": {"type": "object"}},
            clients={"type": "array", "items": {"type": "object"}, "default": []},
        ),
        measure={**_SCHEMA["$defs"]["Measure"], "default": {}},
        simulator={**_SCHEMA["$defs"]["Simulator"], "default": {}},
    ),
}


def schema() -> str:
    return json.dumps(_SCHEMA)


def queueing_schema() -> str:
    return json.dumps(_QUEUEING_SCHEMA)


def rack_schema() -> str:
    return json.dumps(_RACK_SCHEMA)


def check(description_json: str, is_rack: bool) -> None:
    """Find nothing wrong."""


def presets() -> str:
    return json.dumps(_PRESETS)


def version() -> str:
    return "0.0.0-fake"


def run(
    description_json: str,
    elf: bytes,
    files: dict[str, bytes],
    options_json: str,
    progress: Callable[[float], None] | None,
) -> str:
    description = json.loads(description_json)
    calls.append(description)
    if not elf.startswith(b"\x7fELF"):
        raise SimulationError("guest.elf: this is not an ELF file", "program")
    if description["measure"]["seed"] == 666:
        raise SimulationError("the guest jumped to nowhere", "guest")
    for step in range(10):
        time.sleep(delay_seconds / 10)
        if progress is not None:
            progress(step / 10)
    queues, requests = description["data_plane"]["queues"], description["measure"]["requests"]
    polls = {
        "spin": 5.0 * queues,
        "spin-poll-mode": 10.0 * queues,
        "wrs": 5.0 * queues + 20.0,
        "software-ready-set": 0.5 * queues,
        "software-bitmap": 20.0,
        "hyperplane": 17.0,
        "rpcvalet": 10.0,
        "user-interrupt": 30.0,
    }
    poll_ns = polls[description["data_plane"]["notify"]]
    cores, imbalance = (
        description["server"]["data_plane_cores"],
        description["traffic"]["imbalance"],
    )
    peak = (
        cores
        * 1000.0
        / (500.0 + (poll_ns if description["traffic"]["shape"] == "single-queue" else 5))
    )
    rate = description["traffic"].get("rate_mrps")
    stray_mrps = description["data_plane"].get("parameters", {}).get("stray_mrps", 0.0)
    # Above a tenth of the peak latency is in proportion to the load; what is too much is dropped.
    busy = max(1.0, 10.0 * rate / peak) if rate else 1.0
    wake_up_ns = 500.0 * description["server"]["hyperplane"]["power_optimised"]
    mean = (500.0 + poll_ns / 2) * busy + wake_up_ns
    p99 = (500.0 + poll_ns) * busy + wake_up_ns
    result = {
        "throughput_mrps": rate or peak,
        "latency_ns": {
            "mean": mean,
            "p50": mean,
            "p90": p99,
            "p99": p99,
            "p999": p99,
            "samples": requests,
            "p99_ci95": [p99 - 5, p99 + 5],
            "mean_ci95": [mean - 1, mean + 1],
        },
        "warmup_samples": 10,
        "steady": True,
        "precise": True,
        **_kept_up(bool(rate) and rate * (1 + imbalance) <= peak),
        "generated": requests + 10,
        "dropped": int(bool(rate) and rate * (1 + imbalance) > peak),
        "delivered": requests + 10,
        "cores": [
            {
                "instructions": 1000,
                "cycles": 500,
                "ipc": 2.0,
                "halted_cycles": 0,
                "stack": {"base": 400, "branch": 100, "halted": 0},
                "harts": [{"ipc": 2.0}, {"ipc": 1.0 + busy / 10}],
            }
        ],
        "energy_nj": {"seconds": 1e-3, "per_request": 7000.0, "total": 7000.0 * requests},
        "power_w": {
            "total": 7.0,
            "cores": [{"total": 4.0, "window": {"dynamic": 4.0, "static": 0.0}}],
            "mesh": {"dynamic": 1.0, "static": 2.0},
            "monitoring_set": {"dynamic": 0.03, "static": 0.01},
            "ready_set": {"dynamic": 0.03, "static": 0.01},
        },
        "instructions": 1000,
        "cycles": 500,
        "simulated_seconds": 1e-3,
        "host_seconds": 0.01,
        "host_wall_seconds": 0.02,
        "host_mips": 20.0,
        "histogram": base64.b64encode(b"histogram").decode(),
        "service_ns": {"mean": 1000 * cores / peak},
        "service_histogram": _HISTOGRAM,
        "fabric": {},
        "hyperplane": {"spurious_wake_ups": requests * stray_mrps}
        if description["data_plane"]["notify"] == "hyperplane"
        else None,
        "captured": ["00" * 20] * json.loads(options_json).get("capture_packets", 0),
        "version": version(),
    }
    operations = description["traffic"]["operations"]
    if operations is not None:
        # Gets take as long as any request, scans ten times that.
        latency, of_cores = result["latency_ns"], {"mean": 1000 * cores / peak}
        timed = {"service_ns": of_cores, "service_histogram": _HISTOGRAM}
        result["by_kind"] = {"get": {"latency_ns": latency, **timed}}
        if "scans" in operations:
            slow = {"mean": 10 * of_cores["mean"]}
            result["by_kind"]["scan"] = {"latency_ns": latency, **timed, "service_ns": slow}
    if description["data_plane"]["notify"] == "rpcvalet":
        # All requests are the first domain's.
        measured = {name: result[name] for name in ("throughput_mrps", "latency_ns")}
        counts = {"generated": result["generated"], "dropped": 0, "measured": measured}
        silent = {"generated": 0, "dropped": 0, "measured": None}
        domains = len(description["server"]["rpcvalet"].get("domains", [])) or 1
        result["rpcvalet"] = {
            "domain_bytes": 7987200,
            "domain_state_bits": 172,
            "domains": [
                {"context": context, **(silent if context else counts)}
                for context in range(domains)
            ],
        }
    return json.dumps(result)


def _kept_up(keeps_up: bool) -> dict[str, Any]:
    return {"keeps_up": keeps_up, "overload": [] if keeps_up else ["it is overloaded"]}


def queueing(
    description_json: str, files: dict[str, bytes], progress: Callable[[float], None] | None
) -> str:
    """M/M/1's p99, which is ln 100 / (1 - load), for as many units a queue as there are."""
    description = json.loads(description_json)
    calls.append(description)
    if progress is not None:
        progress(0.5)
    system = description["queueing"]
    p99 = math.log(100) / (1 - system["load"]) / math.sqrt(system["units"])
    latency = dict.fromkeys(("mean", "p50", "p90", "p99", "p999"), p99)
    return json.dumps(
        {
            "throughput": system["load"],
            "steady": True,
            **_kept_up(system["load"] < 1),
            "latency_service_times": {
                **latency,
                "mean_ci95": [0.99 * p99, 1.01 * p99],
                "p99_ci95": [0.98 * p99, 1.02 * p99],
                "samples": system["requests"],
            },
            "mean_wait_service_times": 0.0,
            "mean_drawn_service_time": 600.0,
            "histogram": _HISTOGRAM,
            **{"host_seconds": 0.01, "host_wall_seconds": 0.02, "version": version()},
        }
    )


PRINTED_KINDS = (
    *("read", "write", "compare-and-swap", "fetch-and-add", "indirect read"),
    *("raft writes", "chain writes", "incast"),
)
RACK_SERVICE_NS = {"nanopu": 10.0, "rpcvalet": 40.0, "ice-nic": 70.0, "dma-nic": 80.0}
"""What a core of the fake's racks takes for a request."""


def rack(
    description_json: str,
    elves: list[bytes],
    files: dict[str, bytes],
    options_json: str,
    progress: Callable[[float], None] | None,
) -> str:
    """A server that answers in 17 ns and twice its MAC; one of another interface takes thrice that.

    The p99 is twice the median, and with a timer or receive-side scaling five times that. Where
    nothing is trimmed some take three times as long. Beyond the peak the p99 is a hundred times
    as long.
    """
    description = json.loads(description_json)
    calls.append(description)
    if progress is not None:
        progress(0.5)
    spec = description["rack"]
    assert len(elves) == len(spec["servers"])
    served = spec["servers"][0]
    fast = served["interface"] == "nanopu"
    nanopu = served["server"]["nanopu"] if fast else {"mac_and_serial_io_ns": 0.0}
    response_ns = (17.0 if fast else 51.0) + 2 * nanopu["mac_and_serial_io_ns"]
    median = response_ns + 2 * spec["link"]["latency_ns"]
    is_slow = fast and (nanopu["scheduler"], nanopu["core_selection"]) != ("hardware", "jbsq")
    p99 = median * (10 if is_slow else 2)
    peak = 1000 * served["server"]["fabric"]["cores"] / RACK_SERVICE_NS[served["interface"]]
    if any(one["load"]["offer"].get("rate_mrps", 0) > peak for one in spec["clients"]):
        p99 *= 100
    trims = spec["switch"] is None or spec["switch"].get("trimming", False)
    latency = {
        **{"mean": median, "p50": median, "p90": p99, "p99": p99, "p999": p99},
        **{"max": p99 * (1 if trims else 3), "p99_ci95": [0.99 * p99, 1.01 * p99]},
        **{"p50_ci95": [median - 1, median + 1], "samples": 1000},
    }
    clients = []
    for client in spec["clients"]:
        offer = client["load"]["offer"]
        measurement = {
            "throughput_mrps": offer.get("rate_mrps", peak),
            "throughput_mrps_ci95": [0.99 * peak, 1.01 * peak],
            **{"latency_ns": latency, "steady": True},
            **_kept_up(offer.get("rate_mrps", 0) <= peak),
        }
        names = [request.get("name", "request") for request in client["load"]["requests"]]
        of_client = {
            "measurement": measurement,
            "by_kind": {name: {"latency_ns": latency} for name in names},
            "statistics": {"requests": 1010, "responses": 1000},
        }
        clients += [of_client] * client["count"]
    percentiles = "p50 2176 (2170 to 2180) p90 2208 (2200 to 2210) p99 2240 (2230 to 2250)"
    longest = 2250 * (1 if trims else 3)
    printed = "".join(
        f"{what}: 1000, cycles {percentiles} longest {longest}\n" for what in PRINTED_KINDS
    )
    spent = {"dynamic": 600.0, "static": 400.0}
    parts = ("last_level", "directory", "mesh", "memory_controllers", "dram")
    energy: dict[str, Any] = dict.fromkeys((*parts, "monitoring_set", "ready_set"), spent)
    energy |= {"total": 10_000.0, "static": 4000.0, "per_request": 10.0}
    energy |= {"cores": [{"total": 3000.0}]}
    server = {
        **{"cores": [{"data_misses": 5000 if fast else 50_000}], "output": printed},
        "interface": {"frames_received": 1010, "dropped_buffer_full": 0},
        "energy_nj": energy,
    }
    return json.dumps(
        {
            "servers": [server] * len(spec["servers"]),
            "clients": clients,
            "measurement": clients[0]["measurement"] if clients else None,
            "by_kind": clients[0]["by_kind"] if clients else {},
            **{"instructions": 1000, "simulated_seconds": 1e-3, "host_seconds": 0.01},
            **{"host_wall_seconds": 0.02, "host_mips": 20.0, "version": version()},
        }
    )


def _histogram() -> str:
    """One value, 1024, in an HdrHistogram with three digits: empty bins, and a count of 1000."""
    # Seven bits a byte, the lowest first, of a number whose lowest bit is its sign.
    numbers = ((1024 << 1) - 1, 1000 << 1)
    counts = b"".join(bytes([number & 0x7F | 0x80, number >> 7]) for number in numbers)
    header = struct.pack(">IIIIQQd", 0x1C849303, len(counts), 0, 3, 1, 1 << 32, 1.0)
    packed = zlib.compress(header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849304, len(packed)) + packed).decode()


_HISTOGRAM = _histogram()


def conflicts(
    hyperplane_json: str, banks: int, lines: str, doorbells: int, seeds: int
) -> list[int]:
    full = doorbells / json.loads(hyperplane_json)["entries"]
    return [round(doorbells * 0.1 * full)] * (seeds - 1) + [0]


def execute(program: dict[str, Any], description_json: str, trace_json: str) -> str:
    json.loads(description_json)
    json.loads(trace_json)
    print("hello", *(argument.decode() for argument in program["arguments"]))
    return json.dumps({"exit_status": 3, "signal": None, "instructions": 10})


def execute_functionally(program: dict[str, Any], description_json: str, limits_json: str) -> str:
    json.loads(description_json)
    json.loads(limits_json)
    print("hello", *(argument.decode() for argument in program["arguments"]))
    return json.dumps({"exit_status": 3, "signal": None, "instructions": 20})
