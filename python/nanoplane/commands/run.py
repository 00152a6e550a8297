"""`run`: one description."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nanoplane.checkpoints import Checkpoints
from nanoplane.commands.common import (
    Fresh,
    FromCheckpoint,
    Json,
    Log,
    MaxInstructions,
    MaxOutput,
    MaxTime,
    Profile,
    SaveCheckpoint,
    Set,
    Trace,
    TraceCore,
    TraceWindow,
    app,
    check_kept,
    example,
    print_json,
    with_settings,
)
from nanoplane.commands.results import print_result, print_slowest, run_document
from nanoplane.description import Description, servers
from nanoplane.errors import DescriptionError, Failure
from nanoplane.limits import Limits
from nanoplane.progress import Progress
from nanoplane.sweep import run_alone, sweep
from nanoplane.traces import Traces

_GDB_PORT = re.compile(r"(?:(?P<server>.+):)?(?P<port>\d{1,5})")
_MOST_EXPLAINED = 10_000
"""The maximum number of requests that `--slowest` explains."""


def _slowest(text: str) -> int:
    """Parse `--slowest`."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= _MOST_EXPLAINED:
        raise typer.BadParameter(
            f"{text} is no number of requests; it must be a whole number from 1 to "
            f"{_MOST_EXPLAINED:,}"
        )
    return number


def _gdb(text: str) -> dict[str, Any]:
    """Parse `--gdb` into the simulator's option."""
    match = _GDB_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise typer.BadParameter(
            f"{text} is no port; it must be a whole number from 0 to 65535, and for a server of a "
            "rack its name and one, as in server-0:3333"
        )
    return {"port": int(match["port"]), "server": match["server"]}


@app.command(
    epilog=example(
        "nanoplane run examples/encapsulation.toml",
        "nanoplane run examples/encapsulation.toml --set data_plane.queues=777 --json",
        "nanoplane run examples/encapsulation.toml --save-checkpoint warm --checkpoint-at 2000",
        "nanoplane run examples/encapsulation.toml --from-checkpoint warm",
        "nanoplane run examples/encapsulation.toml --set traffic.load=0.5 --slowest 10",
        "nanoplane run examples/rack.toml --trace rack.pftrace --trace-slower-than p99",
        "nanoplane run examples/encapsulation.toml --gdb 3333",
    )
)
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The description.")],
    settings: Set = [],  # noqa: B006
    as_document: Json = False,
    fresh: Fresh = False,
    capture: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000_000,
            metavar="N",
            help="Also print the first N packets that the tenants receive.",
        ),
    ] = 0,
    trace: Trace = [],  # noqa: B006
    trace_window: TraceWindow = None,
    trace_slower_than: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENTILE", help="Trace only requests slower than this, as in p99.9."
        ),
    ] = None,
    slowest: Annotated[
        int | None,
        typer.Option(
            parser=_slowest,
            metavar="N",
            help="Also print the N slowest requests and their causes. With --trace, the file shows "
            "only the times at which they are in flight.",
        ),
    ] = None,
    trace_core: TraceCore = 0,
    profile: Profile = None,
    log: Log = None,
    gdb: Annotated[
        dict[str, Any] | None,
        typer.Option(
            parser=_gdb,
            metavar="[SERVER:]PORT",
            help="Wait for a debugger at this port of 127.0.0.1 before the first instruction of "
            "the server, or of one server of a rack; 0 selects a free port.",
        ),
    ] = None,
    save_checkpoint: SaveCheckpoint = None,
    checkpoint_at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="When to save: after this many requests, as in 5000, or at this simulated time, "
            "as in 10us; default: at the end of measure.warm_start, which racks do not have.",
        ),
    ] = None,
    from_checkpoint: FromCheckpoint = None,
    max_time: MaxTime = None,
    max_instructions: MaxInstructions = None,
    max_output: MaxOutput = None,
) -> None:
    """Run one description and print its results."""
    description = with_settings(Description.from_toml(file), settings)
    limits = Limits(max_time, max_instructions, max_output)
    traces = Traces(
        tuple(trace), trace_window, trace_slower_than, trace_core, profile, slowest or 0, log
    )
    checkpoints = Checkpoints(save_checkpoint, checkpoint_at, from_checkpoint)
    if description.is_queueing and slowest:
        raise DescriptionError(
            f"{file} describes a queueing system, whose requests are not followed one by one; "
            "leave --slowest out"
        )
    if description.is_queueing and (capture or traces or checkpoints):
        raise DescriptionError(
            f"{file} describes a queueing system, which has neither packets nor checkpoints, nor "
            "anything to trace"
        )
    if description.is_queueing and limits != Limits():
        raise DescriptionError(
            f"{file} describes a queueing system, which has no guest; leave --max-time, "
            "--max-instructions and --max-output out"
        )
    if gdb is not None:
        _check_debugged(description, gdb, traces)
    if description.is_rack and capture:
        raise DescriptionError(
            f"{file} describes a rack, of which no packets are printed; leave --capture out"
        )
    if description.is_rack and slowest and not _has_data_planes(description):
        raise DescriptionError(
            f"{file} describes a rack without a data plane, whose requests are in its trace: take "
            "--trace FILE.pftrace --trace-slower-than p99 in place of --slowest"
        )
    options: dict[str, Any] = {
        "capture_packets": capture,
        "trace": traces.options(),
        "checkpoint": checkpoints.options(),
        "limits": limits.options(),
        "gdb": gdb,
    }
    again: Mapping[str, Any] = {}
    with Progress() as progress:
        is_kept = not checkpoints and gdb is None
        if is_kept:
            (outcome,) = sweep(
                [description], fresh=fresh, limits=options["limits"], watcher=progress
            )
        if capture or traces or not is_kept:
            # The store has neither packets nor traces, nor runs with checkpoints or a debugger,
            # whose remaining time is unknown.
            watcher = progress if gdb is None else None
            debug = bool(traces) or gdb is not None
            alone = run_alone(description, options, debug=debug, watcher=watcher)
            again = alone.result
            if is_kept and alone.key != outcome.key:
                raise Failure(
                    f"{file}: a file that it names has changed between the run that is measured "
                    "and the one that is looked into; the same command makes both again"
                )
            outcome = outcome if is_kept else alone
    captured = again.get("captured") if capture else None
    document = run_document(outcome)
    if captured is not None:
        document["captured"] = captured
    explained = _explained(again) if slowest else {}
    if description.is_rack:
        document |= {"slowest": explained} if explained else {}
    elif slowest:
        document["slowest"] = again["slowest"]
    if as_document:
        print_json(document)
    else:
        print_result(outcome)
        for server, requests in explained.items():
            print_slowest(requests, server)
        if captured:
            print("Delivered packets, in hexadecimal:")
        for packet in captured or []:
            print(packet)
    check_kept([outcome])
    traces.check(again)
    if not as_document:
        written = [*traces.paths, *([save_checkpoint] if save_checkpoint is not None else [])]
        for path in written:
            print(f"written: {path}")


def _check_debugged(description: Description, gdb: Mapping[str, Any], traces: Traces) -> None:
    """Reject options that exclude `--gdb`."""
    if description.is_queueing:
        raise DescriptionError(
            f"{description.source} describes a queueing system, which has no program; leave --gdb "
            "out"
        )
    if (traces.files or traces.log) and (traces.slower_than or traces.slowest):
        raise DescriptionError(
            "the slowest requests are found by a first run, and a debugger is there in one; leave "
            "--gdb out, or give the times to show with --trace-window"
        )
    if "rack" in description.data and gdb["server"] is None:
        raise DescriptionError(
            f"{description.source} describes a rack, of which one server is debugged: --gdb "
            f"SERVER:{gdb['port']}"
        )


def _has_data_planes(description: Description) -> bool:
    """Return whether a server of a rack is a data plane, which records each request."""
    return any("data_plane" in server for _, server in servers(description.data))


def _explained(result: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the slowest requests of each data plane by its server's name, empty without a rack."""
    if "servers" not in result:
        return {"": result["slowest"]}
    return {
        server["name"]: server["data_plane"]["slowest"]
        for server in result["servers"]
        if "data_plane" in server
    }
