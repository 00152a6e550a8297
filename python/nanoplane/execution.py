"""Execution of runs, on this host or on a cluster, and estimates of their duration."""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoplane import compiler, simulator
from nanoplane.description import has_network
from nanoplane.errors import Failure
from nanoplane.schemas import mechanisms


def run(
    description: Mapping[str, Any],
    elf: bytes,
    files: Mapping[str, bytes],
    report: Callable[[float], None] | None,
    checkpoint: Path | None,
    limits: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """Run one resolved description, from a checkpoint of its warm start if there is one."""
    if "queueing" in description:
        return simulator.queueing(description, report, files)
    options: dict[str, Any] = {"limits": limits or {}}
    if checkpoint is not None:
        options["checkpoint"] = {"from": str(checkpoint)}
    return run_with(description, elf, files, options, report)


def run_with(
    description: Mapping[str, Any],
    elf: bytes,
    files: Mapping[str, bytes],
    options: Mapping[str, Any] | None,
    report: Callable[[float], None] | None = None,
) -> Mapping[str, Any]:
    """Run one resolved description of a server or a rack, with options of the simulator."""
    if has_network(description):
        return simulator.rack(description, compiler.unpack(elf), options, report, files)
    return simulator.run(description, elf, options, report, files)


def warm_up(
    description: Mapping[str, Any],
    elf: bytes,
    files: Mapping[str, bytes],
    checkpoint: Path,
    report: Callable[[float], None],
) -> Path:
    """Make the checkpoint of a warm start, and return its path."""
    simulator.warm_up(description, elf, checkpoint, report, files)
    return checkpoint


@contextlib.contextmanager
def executor(workers: int, scheduler: str | None) -> Iterator[concurrent.futures.Executor]:
    """Yield an executor of runs: threads of this host, or a cluster by its Dask scheduler."""
    if scheduler is None:
        with concurrent.futures.ThreadPoolExecutor(workers) as threads:
            yield threads
        return
    try:
        from distributed import Client
    except ImportError:
        raise Failure(
            "a cluster needs Dask, which is not installed; `pip install nanoplane[cluster]` does it"
        ) from None
    connect: Any = Client
    try:
        client = connect(scheduler)
    except (OSError, ValueError) as error:
        raise Failure(f"the Dask scheduler {scheduler} does not answer: {error}") from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


_POLL_NS = {"spin": 5.0, "spin-poll-mode": 15.0, "wrs": 5.0}
"""The approximate time of polling a queue, for mechanisms that poll all of them. A mechanism that
is missing here is assumed to poll none; its runs then only start later than they should."""


def cost(data: Mapping[str, Any], rate_mrps: float | None) -> float:
    """Estimate the duration of a run at a rate (None: saturated): only order and proportion matter.

    `data` is its resolved description. A spinning core executes all the time, so the time between
    requests counts; a halted one costs nothing.
    """
    if has_network(data):
        clients = sum(one["count"] for one in data.get("rack", data)["clients"])
        return float(1000.0 * data["measure"]["requests"] * max(1, clients))
    if "queueing" in data:
        # Some 40 ns of the host, where a server takes more than 100 us for a simulated microsecond.
        return float(0.4 * data["queueing"]["requests"])
    request_ns = 1000.0  # Receiving, processing and sending.
    notify = data["data_plane"]["notify"]
    request_ns += _POLL_NS.get(notify, 0.0) * data["data_plane"]["queues"]
    mechanism = mechanisms()[notify]
    spins = not mechanism.sleeps and not mechanism.brings_requests
    if spins and rate_mrps is not None:
        request_ns = max(request_ns, 1000.0 / rate_mrps)
    return float(request_ns * data["measure"]["requests"])
