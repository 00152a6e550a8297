"""Stands in for the compiled simulator where a test is about Python alone.

Descriptions are declared and checked by the compiled simulator. Results follow a formula, so that
sweeps, figures and reports can be tested in milliseconds; what no formula gives is zero.
"""

import base64
import functools
import json
import math
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from nanoplane._simulator import (  # noqa: F401
    SimulationError,
    check,
    histogram_bins,
    presets,
    result_schema,
    schema,
)

calls: list[dict[str, Any]] = []
"""The descriptions that `run` was given."""
delay_seconds = 0.0


def version() -> str:
    return "0.0.0-fake"


def _error(sentence: str, kind: str) -> SimulationError:
    error = SimulationError(sentence)
    error.kind = kind
    return error


@functools.cache
def _declared(kind: str) -> dict[str, Any]:
    declared: dict[str, Any] = json.loads(result_schema(kind))
    return declared


_ZEROS = {"integer": 0, "number": 0.0, "string": "", "boolean": False, "object": {}, "array": []}


def _zero(of: Mapping[str, Any]) -> Any:
    """Return the least that a field can be: `None`, if it can be that."""
    if "anyOf" in of or isinstance(of["type"], list):
        return None
    return [0.0] * of["minItems"] if "minItems" in of else _ZEROS[of["type"]]


def _result(kind: str, fields: Mapping[str, Any]) -> str:
    """Return a result with these fields, and with zeros for all others that are always there."""
    root = _declared(kind)
    fields = {"host_seconds": 0.01, "host_wall_seconds": 0.02, "version": version(), **fields}

    def filled(of: Mapping[str, Any], value: Any) -> Any:
        if "$ref" in of:
            return filled(root["$defs"][of["$ref"].rsplit("/", 1)[-1]], value)
        if value is ...:
            value = _zero(of)
        if value is None:
            return None
        if "anyOf" in of:
            return filled(next(one for one in of["anyOf"] if fits(one, value)), value)
        if isinstance(value, dict):
            every = of.get("properties") or dict.fromkeys(value, of.get("additionalProperties", {}))
            # What a formula gives is exact.
            ends = {f"{name}_ci95": [one, one] for name, one in value.items()}
            value = {name: one for name, one in ends.items() if name in every} | value
            wanted = [name for name in every if name in value or name in of.get("required", ())]
            return {name: filled(every[name], value.get(name, ...)) for name in wanted} | {
                name: one for name, one in value.items() if name not in every
            }
        if isinstance(value, list):
            return [filled(of["items"], one) for one in value]
        return value

    def fits(of: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        """Say whether a table has all fields of `value`."""
        if "$ref" not in of:
            return False
        table: dict[str, Any] = root["$defs"][of["$ref"].rsplit("/", 1)[-1]]
        return set(value) <= set(table["properties"])

    return json.dumps(filled(root, fields))


def run(
    description_json: str,
    elves: list[bytes],
    files: dict[str, bytes],
    options_json: str,
    progress: Callable[[float], None] | None,
) -> str:
    description = json.loads(description_json)
    calls.append(description)
    if not all(elf.startswith(b"\x7fELF") for elf in elves):
        raise _error("guest.elf: this is not an ELF file", "program")
    if "rack" in description:
        assert len(elves) == len(description["rack"]["servers"])
        return _rack(description, progress)
    (_,) = elves
    if description["measure"]["seed"] == 666:
        raise _error("the guest jumped to nowhere", "guest")
    for step in range(10):
        time.sleep(delay_seconds / 10)
        if progress is not None:
            progress(step / 10)
    queues, requests = description["data_plane"]["queues"], description["measure"]["requests"]
    polls = {
        "spin": 5.0 * queues,
        "spin-poll-mode": 10.0 * queues,
        "spin-mlx5": 25.0 + 60.0 * queues,
        "spin-ixgbe-vector": 26.0 * queues,
        "wrs": 5.0 * queues + 20.0,
        "software-ready-set": 0.5 * queues,
        "software-bitmap": 20.0,
        "hyperplane": 17.0,
        "rpcvalet": 10.0,
    }
    poll_ns = polls.get(description["data_plane"]["notify"], 30.0)
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
    stray_mrps = description["data_plane"]["parameters"].get("stray_mrps", 0.0)
    # Above a tenth of the peak latency is in proportion to the load; what is too much is dropped.
    busy = max(1.0, 10.0 * rate / peak) if rate else 1.0
    hyperplane = description["server"].get("hyperplane") or {"power_optimised": False}
    wake_up_ns = 500.0 * hyperplane["power_optimised"]
    mean = (500.0 + poll_ns / 2) * busy + wake_up_ns
    p99 = (500.0 + poll_ns) * busy + wake_up_ns
    latency = {
        **{"mean": mean, "p50": mean, "p90": p99, "p99": p99, "p999": p99, "samples": requests},
        **{"p99_ci95": [p99 - 5, p99 + 5], "mean_ci95": [mean - 1, mean + 1]},
    }
    fields = {
        "offered_mrps": rate or 1.35 * peak,
        "throughput_mrps": rate or peak,
        "latency_ns": latency,
        "warmup_samples": 10,
        "steady": True,
        "precise": True,
        **_kept_up(bool(rate) and rate * (1 + imbalance) <= peak),
        "generated": requests + 10,
        "dropped": int(bool(rate) and rate * (1 + imbalance) > peak),
        "delivered": requests + 10,
        "cores": [
            {
                **{"instructions": 1000, "cycles": 500, "ipc": 2.0},
                "stack": {"base": 400, "branch": 100},
                "harts": [{"ipc": 2.0}, {"ipc": 1.0 + busy / 10}],
            }
        ],
        "energy_nj": {"seconds": 1e-3, "per_request": 7000.0, "total": 7000.0 * requests},
        "power_w": {
            "total": 7.0,
            "cores": [{"total": 4.0, "window": {"dynamic": 4.0}}],
            "mesh": {"dynamic": 1.0, "static": 2.0},
            "monitoring_set": {"dynamic": 0.03, "static": 0.01},
            "ready_set": {"dynamic": 0.03, "static": 0.01},
        },
        **{"instructions": 1000, "cycles": 500, "simulated_seconds": 1e-3, "host_mips": 20.0},
        "histogram": base64.b64encode(b"histogram").decode(),
        "service_ns": {"mean": 1000 * cores / peak},
        "service_histogram": _HISTOGRAM,
        "captured": ["00" * 20] * json.loads(options_json).get("capture_packets", 0),
    }
    if "load_sites" in description["server"]:
        fields["load_sites"] = {"sites": LOAD_SITES}
    if description["data_plane"]["notify"] == "hyperplane":
        fields["hyperplane"] = {"spurious_wake_ups": round(requests * stray_mrps)}
    if description["data_plane"]["program"] in ("key-value", "ordered-store"):
        # Gets take as long as any request, scans ten times that.
        timed = {name: fields[name] for name in ("latency_ns", "service_ns", "service_histogram")}
        fields["by_kind"] = {"get": timed}
        if description["traffic"]["operations"]["scans"]:
            fields["by_kind"]["scan"] = {**timed, "service_ns": {"mean": 10_000 * cores / peak}}
    if (description["traffic"].get("work") or {}).get("long_ns"):
        timed = {name: fields[name] for name in ("latency_ns", "service_ns", "service_histogram")}
        fields["by_kind"] = {"short": timed, "long": timed}
    if description["data_plane"]["notify"] == "rpcvalet":
        # All requests are the first domain's.
        measured = {name: fields[name] for name in ("throughput_mrps", "latency_ns")}
        first = {"generated": requests + 10, "measured": measured}
        domains = len(description["server"].get("rpcvalet", {}).get("domains", [])) or 1
        fields["rpcvalet"] = {
            "domain_bytes": 7987200,
            "domain_state_bits": 172,
            "domains": [first, *({"context": context} for context in range(1, domains))],
        }
    return _result("run", fields)


# The accesses of CARGO's Figure 7, as far as its text has them, and the lines.
LOAD_SITES = [
    {"text": f"ld a{number}, 0(a0)", "accesses": accesses, "lines": lines}
    for number, (accesses, lines) in enumerate(
        ((364, 1), (364, 80), (224, 60), (564, 106), (364, 90)), 1
    )
]
# Two regions: of 8 instructions, executed nine times of ten, and of 18.
_CRITICAL_REGIONS = {
    **{"regions": 2, "instructions_per_region": 13.0, "storage_bytes": 7168},
    **{"region_instructions": [8, 18], "region_executions": [90, 10]},
    **{"alu": 0.2, "independent_loads": 0.3, "dependent_loads": 0.4, "other": 0.1},
    **{"coverage": 0.5, "ready_coverage": 0.7, "right_addresses": 93, "wrong_addresses": 7},
    "offload": {"instructions_sent": 100, "instructions_failed": 3},
}
# Of a programmable interface, for 1000 requests of five loads each.
_PROCESSORS = {
    **{"window_bytes": 6400, "note_bytes": 8000, "host_load_request_bytes": 120_000},
    **{"host_load_data_bytes": 320_000, "run_host_loads": 5000, "host_load_faults": 100},
    **{"frames": 1010, "frames_to_host": 1010, "instructions": 300_000, "run_instructions": 26_000},
}


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
    fields = {
        **{"throughput": system["load"], "steady": True, "mean_drawn_service_time": 600.0},
        **_kept_up(system["load"] < 1),
        "latency_service_times": {
            **latency,
            "mean_ci95": [0.99 * p99, 1.01 * p99],
            "p99_ci95": [0.98 * p99, 1.02 * p99],
            "samples": system["requests"],
        },
        "histogram": _HISTOGRAM,
    }
    return _result("queueing", fields)


PRINTED_KINDS = (
    *("read", "write", "compare-and-swap", "fetch-and-add", "indirect read"),
    *("raft writes", "chain writes", "incast", "swaps"),
)
RACK_SERVICE_NS = {
    "nanopu": 10.0,
    "rpcvalet": 40.0,
    "ice-nic": 70.0,
    "dma-nic": 80.0,
    "cqe-nic": 80.0,
}
"""What a core of the fake's racks takes for a request."""


def _rack(description: dict[str, Any], progress: Callable[[float], None] | None) -> str:
    """A server that answers in 17 ns and twice its MAC; one of another interface takes thrice that.

    With completion queues it takes 30 ns more for each queue.

    The p99 is twice the median, and with a timer or receive-side scaling five times that. Where
    nothing is trimmed some take three times as long. Beyond the peak the p99 is a hundred times
    as long.
    """
    if progress is not None:
        progress(0.5)
    spec = description["rack"]
    served = spec["servers"][0]
    fast = served["interface"] == "nanopu"
    nanopu = served["server"]["nanopu"] if fast else {"mac_and_serial_io_ns": 0.0}
    response_ns = (17.0 if fast else 51.0) + 2 * nanopu["mac_and_serial_io_ns"]
    median = response_ns + 2 * spec["link"]["latency_ns"]
    is_slow = fast and (nanopu["scheduler"], nanopu["core_selection"]) != ("hardware", "jbsq")
    if served["interface"] == "cqe-nic":
        median += 30 * served["parameters"].get("queues", 1)  # Half a round.
    p99 = median * (10 if is_slow else 2)
    peak = 1000 * served["server"]["fabric"]["cores"] / RACK_SERVICE_NS[served["interface"]]
    if any(one["load"]["offer"].get("rate_mrps", 0) > peak for one in spec["clients"]):
        p99 *= 100
    trims = spec["switch"] is None or spec["switch"].get("trimming", False)
    latency = {
        **{"mean": median, "p50": median, "p90": p99, "p99": p99, "p999": p99},
        **{"max": p99 * (1 if trims else 3), "p99_ci95": [0.99 * p99, 1.01 * p99]},
        **{"p50_ci95": [median - 1, median + 1], "samples": 1000},
        "mean_ci95": [0.99 * median, 1.01 * median],
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
    # Of poll-mode programs (poll_mode/window.h): 2 instructions a cycle, half of the cycles useful.
    printed += "20000 packets received in 2800000 cycles at 2800000000 Hz\n"
    printed += "".join(
        f"window: 100{part}0 cycles 20{part}00 instructions 100 polls 300 packets 5000 useful 20 "
        "l1 10 l2\n"
        for part in range(3)
    )
    requests = spec["clients"][0]["load"]["requests"] if spec["clients"] else []
    words = len(requests[0].get("words") or [0]) if requests else 1
    spent = {"dynamic": 600.0, "static": 400.0}
    parts = ("last_level", "directory", "mesh", "memory_controllers", "dram")
    energy: dict[str, Any] = dict.fromkeys((*parts, "monitoring_set", "ready_set"), spent)
    energy |= {"total": 10_000.0, "static": 4000.0, "per_request": 10.0, "seconds": 1e-3}
    energy |= {"cores": [{"total": 3000.0}]}
    server: dict[str, Any] = {
        "cores": [
            {
                "cycles": 500,
                "instructions": 1000,
                "stack": {"base": 400, "branch": 100},
                "data_hits": 100_000,
                "data_misses": (5000 if fast else 50_000) * words,
                "harts": [{"ipc": 2.0}, {"ipc": 1.5}],
            }
        ],
        "output": printed,
        "fabric": {
            "memory_reads": 1000,
            "memory_writes": 500,
            "last_level_hits": 2000,
            "last_level_misses": 1000 + description["measure"]["requests"] // 2,
        },
        "interface": {"packets_received" if fast else "frames_received": 1010},
        "energy_nj": energy,
        "power_w": {"total": energy["total"] / 1e3 / energy["seconds"] / 1e6},
    }
    if served["interface"] == "dma-nic":
        server["interface"]["processors"] = _PROCESSORS
    if "critical_region" in served["server"]:
        server["critical_region"] = _CRITICAL_REGIONS
        server["energy_nj"] = {**energy, "critical_regions": {"dynamic": 300.0, "static": 100.0}}
    if served["interface"] == "cqe-nic":
        delivered = 1000 + description["measure"]["requests"]
        server["interface"] = {"frames": {"frames_sent": 20_000, "frames_delivered": delivered}}
    fields = {
        "servers": [server] * len(spec["servers"]),
        "clients": clients,
        "measurement": clients[0]["measurement"] if clients else None,
        "by_kind": clients[0]["by_kind"] if clients else {},
        # A tenth of a microsecond for each request.
        "simulated_seconds": 1e-3 + 1e-7 * description["measure"]["requests"],
        **{"instructions": 1000, "host_mips": 20.0},
    }
    return _result("rack", fields)


def _histogram() -> str:
    """One value, 1024, in an HdrHistogram with three digits: empty bins, and a count of 1000."""
    # Seven bits a byte, the lowest first, of a number whose lowest bit is its sign.
    numbers = ((1024 << 1) - 1, 1000 << 1)
    counts = b"".join(bytes([number & 0x7F | 0x80, number >> 7]) for number in numbers)
    header = struct.pack(">IIIIQQd", 0x1C849313, len(counts), 0, 3, 1, 1 << 32, 1.0)
    packed = zlib.compress(header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()


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
    return _result("execute", {"exit_status": 3, "instructions": 10})


def execute_functionally(program: dict[str, Any], description_json: str, options_json: str) -> str:
    json.loads(description_json)
    json.loads(options_json)
    print("hello", *(argument.decode() for argument in program["arguments"]))
    return _result("execute-functionally", {"exit_status": 3, "instructions": 20})
