"""The command line.

Exit status 0: what was asked was done. 1: it failed. 2: the question was wrong. 130 and 143: Ctrl-C
and SIGTERM have ended it, as a shell has it. Standard output has the answer, with `--json` exactly
one JSON document; everything else goes to standard error.
"""

import contextlib
import io
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
import typer.core

from nanoplane import claims as paper_claims
from nanoplane import compiler, parameters, report, simulator
from nanoplane import description as descriptions
from nanoplane import store as stores
from nanoplane.checkpoints import Checkpoints
from nanoplane.description import Description
from nanoplane.errors import (
    DescriptionError,
    Failure,
    Interrupted,
    NanoplaneError,
    ProgramError,
    Stopped,
)
from nanoplane.figures import Figure, Measured, Row, as_json, chosen, figures
from nanoplane.figures import find as find_figure
from nanoplane.limits import Limits
from nanoplane.progress import Progress
from nanoplane.sweep import (
    Outcome,
    Run,
    look_up,
    measurement,
    run_alone,
    saturates,
    sweep,
)
from nanoplane.traces import Traces

if TYPE_CHECKING:  # A fifth of the start of the command, and only tables need it.
    import rich.console
    import rich.table


class _Commands(typer.core.TyperGroup):
    """Says that a command was stopped: Typer itself would end it without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped", error) from None


app = typer.Typer(
    name="nanoplane",
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Set = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change one key; may be given several times."),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document and nothing else on standard output."),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer points, and a tenth of the requests: rough numbers, soon."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what the store has already.")]
Effort = Annotated[
    int,
    typer.Option(
        min=1,
        max=paper_claims.MAX_EFFORT,
        metavar="N",
        help="Repeat runs that undecided claims depend on, with up to N times the requests.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="List the claims that have not been run, too.")]
Trace = Annotated[
    list[Path],
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write FILE.pftrace, a timeline for Perfetto, or FILE.kanata, a pipeline for Konata.",
    ),
]
TraceWindow = Annotated[
    str | None,
    typer.Option(metavar="FROM..TO", help="Trace only this simulated time, as in 10us..20us."),
]
TraceCore = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="The core whose pipeline --trace shows; those of a rack are counted server by server.",
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write where the guest's cycles went, as folded stacks for flame graphs.",
    ),
]
Functional = Annotated[
    bool,
    typer.Option(
        "--functional",
        help="Only what the program computes, ten times as fast: no times, no traces.",
    ),
]
SaveCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--save-checkpoint",
        metavar="FILE",
        help="Save the state of the server or the rack on the way, and go on.",
    ),
]
FromCheckpoint = Annotated[
    Path | None,
    typer.Option("--from-checkpoint", metavar="FILE", help="Begin from a state that was saved."),
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="End the run after so much time of the host, as in 90s."),
]
MaxInstructions = Annotated[
    str | None,
    typer.Option(metavar="N", help="End the run after so many instructions of all harts."),
]
MaxOutput = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="End the run if the guest writes more, as in 10MiB."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the cluster of this Dask scheduler."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Runs at once on this host; default: all cores."),
]


# What counts in a functional run; the mesh, because it must have a tile for each core.
_FUNCTIONAL_KEYS = (
    "server.memory_mib",
    "server.fabric.cores",
    "server.fabric.mesh.columns",
    "server.fabric.mesh.rows",
    "server.fabric.clock_ghz",
    "measure.seed",
)


def _example(*lines: str) -> str:
    # After \b lines stay as they are, so that they can be copied.
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


@app.callback(
    invoke_without_command=True,
    epilog=_example(
        "nanoplane run examples/encapsulation.toml",
        "nanoplane COMMAND --help",
    ),
)
def begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Run data planes written in C on simulated servers, exactly and fast."""
    if version:
        print(simulator.version())
    elif context.invoked_subcommand is None:
        print(context.get_help())


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends the work in order: Ctrl-C, `kill`, and the end of the terminal."""


def main() -> None:
    """Run the command line and exit."""
    for number in _SIGNALS:
        # A job in the background ignores Ctrl-C, and nohup the end of the terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    status = _main() if _has_output() else _complain("standard output is closed", 1)
    for number in _SIGNALS:
        # All is done, and Python has only to end.
        signal.signal(number, signal.SIG_IGN)
    sys.exit(status)


def _stop(number: int, _: object) -> None:
    raise Stopped(number)


def _has_output() -> bool:
    """Say whether standard output is open.

    What else of the three is closed becomes /dev/null, so that no file is opened in its place.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        return False
    # Names of files that are no text must not be what a command fails at in the end.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return True


def _main() -> int:
    status = _status()
    try:
        sys.stdout.flush()
    except OSError as error:
        status = _unwritten(error)
    try:
        sys.stderr.flush()
    except OSError:
        # The status is all that can be told.
        _discard(sys.stderr)
    return status


def _discard(stream: TextIO) -> None:
    """Let nothing more be written to a stream, not even what it has when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unwritten(error: OSError) -> int:
    """Say that standard output could not be written."""
    _discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has seen enough.
        return 1
    return _complain(f"standard output cannot be written: {error.strerror}", 1)


def _status() -> int:
    try:
        # With standalone_mode=False an exit status that is raised is returned.
        return int(app(standalone_mode=False) or 0)
    except NanoplaneError as error:
        return _complain(str(error), error.exit_status)
    except KeyboardInterrupt as error:
        interrupted = Interrupted("stopped", error)
        return _complain(str(interrupted), interrupted.exit_status)
    except SystemExit:
        # Rich and Typer end so when a pipe is closed.
        return _unwritten(BrokenPipeError())
    except OSError as error:
        if error.filename is not None:
            return _complain(f"{error.filename}: {error.strerror}", 1)
        # What has no name is standard output.
        return _unwritten(error)
    except Exception as error:
        # Typer has a copy of Click, whose exceptions it does not export; they say so themselves.
        if (format_message := getattr(error, "format_message", None)) is not None:
            return _complain(_one_line(format_message()), 2)
        return _complain(_defect(error), 1)


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "the command line is incomplete; --help says what there is"


def _complain(sentence: str, status: int) -> int:
    with contextlib.suppress(OSError):
        print(f"nanoplane: {report.printable(sentence)}", file=sys.stderr, flush=True)
    return status


def _defect(error: BaseException) -> str:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="nanoplane-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(f"{sys.argv}\n")
        traceback.print_exception(error, file=log)
    return f"this is a defect of nanoplane ({type(error).__name__}); {log.name} tells more"


_NUMBERS = re.compile(r"\[\n\s*((?:[-+.\deE]+|null)(?:,\n\s*(?:[-+.\deE]+|null))*)\n\s*\]")
"""A list of numbers over many lines; no text of JSON has a line break in it."""


def _print_json(document: object) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # A list with a number for each queue is a line, not a thousand.
    print(_NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text))


def _console() -> "rich.console.Console":
    import rich.console

    # In a file or a pipe, lines must not be folded at 80 columns.
    # What is in brackets is text: names come from guests and files.
    width = None if sys.stdout.isatty() else 200
    return rich.console.Console(width=width, highlight=False, markup=False)


def _with_settings(description: Description, settings: list[str]) -> Description:
    for setting in settings:
        description = description.assign(setting)
    return description


@app.command(
    epilog=_example(
        "nanoplane run examples/encapsulation.toml",
        "nanoplane run examples/encapsulation.toml --set data_plane.queues=777 --json",
        "nanoplane run examples/encapsulation.toml --save-checkpoint warm --checkpoint-at 5000",
        "nanoplane run examples/encapsulation.toml --from-checkpoint warm",
        "nanoplane run examples/rack.toml --trace rack.pftrace --trace-slower-than p99",
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
            help="Also print the first N packets that the tenants get.",
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
    trace_core: TraceCore = 0,
    profile: Profile = None,
    save_checkpoint: SaveCheckpoint = None,
    checkpoint_at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="When to save: after so many requests, as in 5000, or so much simulated time, as "
            "in 10us; default: at the end of measure.warm_start, which racks do not have.",
        ),
    ] = None,
    from_checkpoint: FromCheckpoint = None,
    max_time: MaxTime = None,
    max_instructions: MaxInstructions = None,
    max_output: MaxOutput = None,
) -> None:
    """Run one description and print its results."""
    description = _with_settings(Description.from_toml(file), settings)
    limits = Limits(max_time, max_instructions, max_output)
    traces = Traces(tuple(trace), trace_window, trace_slower_than, trace_core, profile)
    checkpoints = Checkpoints(save_checkpoint, checkpoint_at, from_checkpoint)
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
    if description.is_rack and capture:
        raise DescriptionError(
            f"{file} describes a rack, of which no packets are printed; leave --capture out"
        )
    options: dict[str, Any] = {
        "capture_packets": capture,
        "trace": traces.options(),
        "checkpoint": checkpoints.options(),
        "limits": limits.options(),
    }
    again: Mapping[str, Any] = {}
    with Progress() as progress:
        if not checkpoints:
            (outcome,) = sweep(
                [description], fresh=fresh, limits=options["limits"], watcher=progress
            )
        if capture or traces or checkpoints:
            # The store has neither packets nor traces, and nothing that was cut in two.
            alone = run_alone(description, options, debug=bool(traces), watcher=progress)
            again = alone.result
            if not checkpoints and alone.key != outcome.key:
                raise Failure(
                    f"{file}: a file that it names has changed between the run that is measured "
                    "and the one that is looked into; the same command makes both again"
                )
            outcome = alone if checkpoints else outcome
    captured = again.get("captured") if capture else None
    document = _run_document(outcome)
    if captured is not None:
        document["captured"] = captured
    if as_document:
        _print_json(document)
    else:
        _print_result(outcome)
        for packet in captured or []:
            print(packet)
    _check_kept([outcome])
    traces.check(again)


def _check_kept(outcomes: Iterable[Outcome]) -> None:
    """Raise a Failure if the store has not taken a result, which is printed all the same."""
    for outcome in outcomes:
        if outcome.unkept is not None:
            raise Failure(outcome.unkept)


def _run_document(outcome: Outcome) -> dict[str, Any]:
    return {
        **outcome.result,
        "key": outcome.key,
        "stored": outcome.stored,
        "description": outcome.description,
    }


def _cycles(core: dict[str, Any]) -> str:
    """Say where most of a core's cycles went."""
    parts = sorted(core["stack"].items(), key=lambda part: -part[1])
    shares = [(name.replace("_", " "), cycles / core["cycles"]) for name, cycles in parts]
    return "cycles: " + ", ".join(f"{share:.0%} {name}" for name, share in shares if share >= 0.01)


_FEW_QUEUES = 16
"""So many have a line each."""


def _add_queues(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add what was refused, and a line for each queue if there are several, but few."""
    if result.get("refused"):
        table.add_row("refused", f"{result['refused']:,}", "found their queue closed")
    queues = result.get("queues")
    if queues is None or not 1 < len(queues["samples"]) <= _FEW_QUEUES:
        return
    samples = sum(queues["samples"])
    for queue, count in enumerate(queues["samples"]):
        rate_mrps = result["throughput_mrps"] * count / samples
        mean, p99 = queues["mean_latency_ns"][queue], queues["p99_latency_ns"][queue]
        table.add_row(
            f"queue {queue} mrps",
            report.number(rate_mrps),
            f"latency_ns mean {report.number(mean)}, p99 {report.number(p99)}; "
            f"{queues['dropped'][queue]:,} of {queues['generated'][queue]:,} dropped",
        )


def _add_domains(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add a line for each messaging domain, if there are several."""
    systems = (part for part in result.values() if isinstance(part, dict))
    domains: list[Any] = next((part["domains"] for part in systems if "domains" in part), [])
    for domain in domains if len(domains) > 1 else []:
        measured = domain["measured"]
        note = f"{domain['dropped']:,} of {domain['generated']:,} dropped"
        if measured is not None:
            latency = measured["latency_ns"]
            mean, p99 = (report.number(latency[name]) for name in ("mean", "p99"))
            note = f"latency_ns mean {mean}, p99 {p99}; {note}"
        rate_mrps = 0.0 if measured is None else measured["throughput_mrps"]
        table.add_row(f"domain {domain['context']} mrps", report.number(rate_mrps), note)


def _power(result: Mapping[str, Any]) -> str:
    """Say where the power goes, most of it first."""
    power = result["power_w"]
    parts = {
        name.replace("_", " "): sum(part.values())
        for name, part in power.items()
        if isinstance(part, dict)
    }
    parts["cores"] = sum(core["total"] for core in power["cores"])
    shown = sorted(parts.items(), key=lambda part: -part[1])
    names = ", ".join(f"{report.number(watts)} {name}" for name, watts in shown if watts > 0)
    return f"{report.number(power['total'])} W: {names}"


def _add_services(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add how long harts worked on requests, and the same and more of each kind."""
    if (service := result.get("service_ns")) is not None:
        table.add_row("service_ns mean", report.number(service["mean"]), "from take to reply")
    for kind, measured in result.get("by_kind", {}).items():
        latency, service = measured["latency_ns"], measured["service_ns"]
        note = f"of {latency['samples']:,}"
        if service is not None:
            note += f"; service_ns mean {report.number(service['mean'])}"
        table.add_row(f"latency_ns p99 of {kind}", report.number(latency["p99"]), note)


def _result_table() -> "rich.table.Table":
    import rich.box
    import rich.table

    table = rich.table.Table(box=rich.box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    return table


def _add_latencies(table: "rich.table.Table", name: str, latency: dict[str, Any]) -> None:
    for statistic in ("mean", "p50", "p90", "p99", "p999"):
        interval = latency.get(f"{statistic}_ci95")
        note = "no interval: it needs 60 samples, and five for each queue in use"
        if interval is not None:
            note = f"95 % confidence: {report.number(interval[0])} to {report.number(interval[1])}"
        table.add_row(f"{name} {statistic}", report.number(latency[statistic]), note)


def _add_overload(table: "rich.table.Table", outcome: Outcome) -> None:
    """Add why the system does not keep up with its load, unless it is to be saturated."""
    if not saturates(outcome.description):
        for number, reason in enumerate(measurement(outcome.result)["overload"]):
            table.add_row("" if number else "DOES NOT KEEP UP", "", reason)


def _add_host(table: "rich.table.Table", outcome: Outcome) -> None:
    """Add what the run has cost the host."""
    result = outcome.result
    note = f"of processor time; {report.number(result['host_wall_seconds'])} on the clock"
    if outcome.stored:
        note += "; from the store; --fresh runs again"
    table.add_row("host_seconds", report.number(result["host_seconds"]), note)
    if "host_mips" in result:
        table.add_row("host_mips", report.number(result["host_mips"]), "")


def _print_queueing(outcome: Outcome) -> None:
    result, system = outcome.result, outcome.description["queueing"]
    console = _console()
    console.print(
        f"{system['queues']} x {system['units']}, {system['service_times']['distribution']} "
        f"service times, load {report.number(system['load'])}"
    )
    table = _result_table()
    table.add_row("throughput", report.number(result["throughput"]), "of what all units can serve")
    _add_latencies(table, "latency_service_times", result["latency_service_times"])
    table.add_row("mean_wait_service_times", report.number(result["mean_wait_service_times"]), "")
    table.add_row("samples", f"{result['latency_service_times']['samples']:,}", "")
    _add_overload(table, outcome)
    _add_host(table, outcome)
    console.print(table)


_FEW_HOSTS = 8
"""So many servers have a line each, and so many clients."""


def _add_hosts(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add what all clients and each of them have measured, and what each server has done."""
    together = result.get("measurement")
    if together is not None and len(result["clients"]) > 1:
        rate = report.number(together["throughput_mrps"])
        table.add_row("all clients throughput_mrps", rate, "")
        _add_latencies(table, "all clients latency_ns", together["latency_ns"])
    if len(result["by_kind"]) > 1:
        _add_services(table, result)
    for client in result["clients"][:_FEW_HOSTS]:
        measured, counted = client["measurement"], client["statistics"]
        name = client["name"]
        note = f"{counted['responses']:,} responses to {counted['requests']:,} requests"
        if measured is None:
            table.add_row(f"{name} latency_ns", "-", note)
            continue
        table.add_row(f"{name} throughput_mrps", report.number(measured["throughput_mrps"]), note)
        _add_latencies(table, f"{name} latency_ns", measured["latency_ns"])
    for server in result["servers"][:_FEW_HOSTS]:
        if (measured := server.get("data_plane")) is not None:
            rate = report.number(measured["throughput_mrps"])
            table.add_row(f"{server['name']} throughput_mrps", rate, "of its data plane")
            _add_latencies(table, f"{server['name']} latency_ns", measured["latency_ns"])
        sent, received = server["sent"], server["received"]
        table.add_row(
            f"{server['name']} instructions",
            f"{server['instructions']:,}",
            f"{server['address']}; packets: {sent['packets']:,} sent, "
            f"{received['packets']:,} received",
        )
    hidden = sum(max(0, len(result[one]) - _FEW_HOSTS) for one in ("clients", "servers"))
    if hidden:
        table.add_row("others", f"{hidden:,}", "with --json all servers and clients")


def _print_rack(outcome: Outcome) -> None:
    result, rack = outcome.result, outcome.description["rack"]
    console = _console()
    named = [one.get("data_plane", one)["program"] for one in rack["servers"]]
    programs = dict.fromkeys(Path(one).stem for one in named)
    console.print(
        f"{len(result['servers'])} servers ({', '.join(programs)}), "
        f"{len(result['clients'])} clients"
    )
    for server in result["servers"]:
        if server["output"]:
            console.print(report.printable(f"{server['name']}:\n{server['output'].rstrip()}"))
    table = _result_table()
    _add_hosts(table, result)
    if result["measurement"] is not None:
        _add_overload(table, outcome)
    if (switch := result.get("switch")) is not None:
        ports = switch["ports"]
        for name in ("forwarded", "trimmed", "dropped"):
            table.add_row(f"switch {name}", f"{sum(port[name] for port in ports):,}", "packets")
        most = max(port["max_queued_bytes"] for port in ports)
        table.add_row("switch max_queued_bytes", f"{most:,}", "in front of one port")
    table.add_row("instructions", f"{result['instructions']:,}", "")
    table.add_row("simulated_seconds", report.number(result["simulated_seconds"]), "")
    _add_host(table, outcome)
    console.print(table)


def _print_result(outcome: Outcome) -> None:
    result = outcome.result
    if "queueing" in outcome.description:
        _print_queueing(outcome)
        return
    if "rack" in outcome.description:
        _print_rack(outcome)
        return
    data_plane, traffic = outcome.description["data_plane"], outcome.description["traffic"]
    load = traffic.get("load") or f"{report.number(traffic.get('rate_mrps'))} Mrps"
    console = _console()
    console.print(
        f"{Path(data_plane['program']).stem}, {data_plane['notify']}, "
        f"{data_plane['queues']} queues, "
        f"{traffic['shape']}, {traffic['arrivals']}, load {load}"
    )
    latency = result["latency_ns"]
    table = _result_table()
    table.add_row("throughput_mrps", report.number(result["throughput_mrps"]), "")
    _add_latencies(table, "latency_ns", latency)
    note = f"after {result['warmup_samples']:,} of warm-up"
    if not result["steady"]:
        note += "; NOT STEADY: the numbers may still change with time, take more requests"
    elif not result["precise"]:
        note += "; NOT PRECISE: the p99 is not known as well as measure.precision asks"
    table.add_row("samples", f"{latency['samples']:,}", note)
    table.add_row("dropped", f"{result['dropped']:,}", f"of {result['generated']:,} generated")
    _add_overload(table, outcome)
    table.add_row("instructions", f"{result['instructions']:,}", "")
    table.add_row("cycles", f"{result['cycles']:,}", "")
    _add_services(table, result)
    _add_queues(table, result)
    _add_domains(table, result)
    for name, value in result.get("program_counters", {}).items():
        table.add_row(report.printable(name), f"{value:,}", "counted by the program")
    for index, core in enumerate(result["cores"]):
        if core["instructions"]:
            table.add_row(f"ipc of core {index}", report.number(core["ipc"]), _cycles(core))
    table.add_row(
        "energy_nj per_request",
        report.number(result["energy_nj"].get("per_request")),
        _power(result),
    )
    table.add_row("simulated_seconds", report.number(result["simulated_seconds"]), "")
    _add_host(table, outcome)
    console.print(table)


@app.command(
    "exec",
    epilog=_example(
        "nanoplane exec hello.elf --stats stats.json",
        "nanoplane exec --functional hello.elf",
        "nanoplane exec --env LANG=C -- busybox ls -l",
    ),
)
def execute(
    program: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM.elf",
            help="An RV64 program: bare-metal (ELF or C), or static and for Linux.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENTS", help="Arguments of a Linux program; options after --."),
    ] = None,
    environment: Annotated[
        list[str],
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="A variable of a Linux program's environment, which is else empty.",
        ),
    ] = [],  # noqa: B006
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Give a Linux program the files in DIR, as its /, and not those in the working "
            "directory.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let a Linux program change no file.")
    ] = False,
    host_files: Annotated[
        bool,
        typer.Option(
            "--host-files", help="Give a Linux program all files of the host that you can reach."
        ),
    ] = False,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="The server; `nanoplane list` names them.")
    ] = "hyperplane-table1",
    settings: Set = [],  # noqa: B006
    stats: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the statistics as JSON.")
    ] = None,
    functional: Functional = False,
    trace: Trace = [],  # noqa: B006
    trace_window: TraceWindow = None,
    trace_core: TraceCore = 0,
    profile: Profile = None,
    save_checkpoint: SaveCheckpoint = None,
    checkpoint_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The simulated time at which to save, as in 10us."),
    ] = None,
    from_checkpoint: FromCheckpoint = None,
    max_time: MaxTime = None,
    max_instructions: MaxInstructions = None,
    max_output: MaxOutput = None,
) -> None:
    """Run any program on a simulated server.

    The output is the guest's, and so is the exit status.
    """
    # Of the data plane and its traffic nothing is used here.
    tables = {"server": {"preset": preset}, "data_plane": {"notify": "spin", "queues": 1}}
    description = _with_settings(Description.from_dict(tables, source="--preset"), settings)
    _check_outputs(stats)
    for variable in environment:
        if not variable.partition("=")[0] or "=" not in variable:
            raise DescriptionError(f'--env is "{variable}"; it must be NAME=VALUE')
    if root is not None and host_files:
        raise DescriptionError(
            "--root gives the program a part of this host's files, and --host-files all of them: "
            "leave one out"
        )
    traces = Traces(tuple(trace), trace_window, None, trace_core, profile)
    checkpoints = Checkpoints(save_checkpoint, checkpoint_at, from_checkpoint, has_requests=False)
    if functional:
        _check_functional(settings, traces, checkpoints)
    limits = Limits(max_time, max_instructions, max_output).options()
    options = {
        "trace": traces.options(),
        "checkpoint": checkpoints.options(),
        "limits": limits,
    }
    sys.stdout.flush()
    elf, resolved = compiler.elf(program, debug=bool(traces)), description.resolve()
    what = simulator.Program(
        elf,
        str(program),
        arguments or [],
        environment,
        root=root,
        host_files=host_files,
        read_only=read_only,
    )
    try:
        result = (
            simulator.execute_functionally(what, resolved.data, limits)
            if functional
            else simulator.execute(what, resolved.data, options)
        )
    except (ProgramError, Failure) as error:
        raise type(error)(f"{program}: {error}") from error
    if stats is not None:
        report.write(stats, json.dumps(result, indent=2) + "\n")
    traces.check(result)
    if result["signal"] is not None:
        print(f"nanoplane: {program} was ended by {result['signal']}", file=sys.stderr)
    status = result["exit_status"]
    # A host keeps eight bits; what failed must not look as if it had not.
    raise typer.Exit(status & 0xFF or min(status, 1))


def _check_functional(settings: list[str], traces: Traces, checkpoints: Checkpoints) -> None:
    """Refuse what only has a meaning where there are times."""
    if checkpoints:
        raise DescriptionError(
            "checkpoints are of timed runs: leave --save-checkpoint and --from-checkpoint or "
            "--functional out"
        )
    if traces or traces != Traces():
        raise DescriptionError(
            "--trace and --profile show times, and a functional run has none; leave them or "
            "--functional out"
        )
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if key not in _FUNCTIONAL_KEYS:
            raise DescriptionError(
                f"--set {setting}: this has no meaning in a functional run, which has no times; "
                f"what it looks at is {', '.join(_FUNCTIONAL_KEYS)}"
            )


@app.command(epilog=_example("nanoplane build my-data-plane.c -o my-data-plane.elf"))
def build(
    source: Annotated[Path, typer.Argument(metavar="PROGRAM.c", help="The guest's source.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PROGRAM.elf", help="Where to put it.")
    ] = None,
    as_document: Json = False,
) -> None:
    """Compile a guest against guest/include and the runtime."""
    elf = compiler.build(source)
    output = output or source.with_suffix(".elf")
    report.write(output, elf)
    if as_document:
        _print_json({"program": str(output), "bytes": len(elf), "sha256": stores.hexdigest(elf)})
        return
    print(output)


_WITH_SOURCE = ("programs", "rack_programs", "co_runners")
"""What `list` names whose source says what it is."""


@app.command("list", epilog=_example("nanoplane list", "nanoplane list --json"))
def list_names(as_document: Json = False) -> None:
    """Name the programs, presets, traffic shapes, figures and so on."""
    presets = simulator.presets()
    names: dict[str, Sequence[str]] = {
        "programs": compiler.programs(),
        "rack_programs": compiler.rack_programs(),
        "co_runners": compiler.co_runners(),
        "presets": sorted(presets),
        "notify": descriptions.choices("data_plane.notify"),
        "organisations": descriptions.choices("data_plane.organisation"),
        "policies": descriptions.choices("data_plane.policy"),
        "shapes": descriptions.choices("traffic.shape"),
        "arrivals": descriptions.choices("traffic.arrivals"),
        "service_times": descriptions.choices("queueing.service_times.distribution"),
        "figures": list(figures()),
    }
    if as_document:
        _print_json(names)
        return
    notes = {name: of.get("description", "") for name, of in presets.items()}
    notes |= {name: of.title for name, of in figures().items()}
    notes |= descriptions.notes("data_plane.notify")
    notes |= descriptions.notes("data_plane.organisation")
    notes |= {name: compiler.about(name) for kind in _WITH_SOURCE for name in names[kind]}
    for kind, values in names.items():
        print(kind)
        for value in values:
            print(f"  {value}" + (f": {notes[value]}" if notes.get(value) else ""))


@app.command(
    epilog=_example(
        "nanoplane explain server.hyperplane", "nanoplane explain traffic.rate_mrps --json"
    )
)
def explain(
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="As --set takes it, or result.FIELD."),
    ] = None,
    as_document: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="All parameters, as docs/reference.md has them.")
    ] = False,
) -> None:
    """Say what a parameter of a description takes and means, or which ones a table has.

    A key that begins with `result.` is that of a field of a result.
    """
    if markdown == (key is not None):
        raise DescriptionError(
            'explain takes a key, such as "server.hyperplane.ways" or "traffic", or --markdown'
        )
    if key is None:
        print(parameters.markdown(), end="")
        return
    if key.split(".")[0] == "result":
        _explain_field(key, as_document)
        return
    found = parameters.find(key)
    document = {"key": key, **_told(key, found)}
    if as_document:
        _print_json(document)
        return
    print(f"{key}\n")
    _print_told(document)


def _told(key: str, found: parameters.Parameter) -> dict[str, Any]:
    sources = {name: of["source"] for name, of in simulator.presets().items()}
    return {
        "takes": found.takes,
        "unit": found.unit,
        "default": found.default,
        "source": found.source,
        "presets": {
            name: {"value": value, "source": sources[name]} for name, value in found.presets.items()
        },
        "choices": descriptions.notes(key),
        "text": found.text,
        "parameters": [one._asdict() for one in parameters.lines(found)],
    }


def _print_told(told: Mapping[str, Any]) -> None:
    print(f"{told['text']}\n")
    for name in ("takes", "unit", "default", "source"):
        if (value := told[name]) not in (None, ""):
            print(f"{name:8} {json.dumps(value) if name == 'default' else value}")
    for name, of in told["presets"].items():
        print(f"{name}: {json.dumps(of['value'])}, {of['source']}")
    for name, note in told["choices"].items():
        print(f"{name}: {note}")
    for one in told["parameters"]:
        default = f"default {one['default']}" if one["default"] else ""
        what = ", ".join(part for part in (one["takes"], one["unit"], default) if part)
        print(f"{one['name']}: {what}. {one['sentence']}")


def _explain_field(key: str, as_document: bool) -> None:
    from nanoplane import fields

    found = fields.find(key)
    inside = fields.inside(found)
    if as_document:
        told = {"key": key, "type": found.type, "unit": found.unit, "text": found.text}
        _print_json({**told, "fields": [one._asdict() for one in inside]})
        return
    print(f"{key}\n\n{found.text}\n")
    print(f"type     {found.type}" + (f"\nunit     {found.unit}" if found.unit else ""))
    for one in inside:
        what = ", ".join(part for part in (one.type, one.unit) if part)
        print(f"{one.name}: {what}. {one.text}")


def _points(listed: Iterable[Figure], quick: bool) -> dict[Any, Run]:
    """Return all points of figures."""
    return {point: run for figure in listed for point, run in figure.points(quick).items()}


def _stored(listed: Iterable[Figure], judged: list[paper_claims.Claim], quick: bool) -> Measured:
    """Return what the store has of figures, and of longer runs for undecided claims.

    Several figures may have a point, and run it for as long as each needs: any of these will do.
    """
    runs: dict[Any, list[Run]] = {}
    for figure in listed:
        for point, run in figure.points(quick).items():
            if run not in (of := runs.setdefault(point, [])):
                of.append(run)
    wanted = [(point, run) for point, of in runs.items() for run in of]
    found = {point: of[0] for point, of in runs.items()}
    outcomes: dict[Any, Outcome] = {}
    for (point, run), outcome in zip(wanted, look_up(run for _, run in wanted), strict=True):
        if outcome is not None and point not in outcomes:
            outcomes[point], found[point] = outcome, run

    def stored(longer: dict[Any, Run]) -> dict[Any, Outcome]:
        found = zip(longer, look_up(longer.values()), strict=True)
        return {point: outcome for point, outcome in found if outcome is not None}

    measured = Measured(outcomes, found)
    return paper_claims.decide(judged, measured, found, paper_claims.MAX_EFFORT, stored)


def _run_figures(
    listed: list[Figure],
    judged: list[paper_claims.Claim],
    quick: bool,
    choices: list[str],
    fresh: bool,
    effort: int,
    workers: int | None,
    scheduler: str | None,
) -> Measured:
    """Run what is missing of figures, all of them as one sweep; then what decides claims."""

    def run(points: dict[Any, Run]) -> dict[Any, Outcome]:
        with Progress() as progress:
            outcomes = sweep(
                points.values(), workers=workers, scheduler=scheduler, fresh=fresh, watcher=progress
            )
        return dict(zip(points, outcomes, strict=True))

    points = chosen(listed, quick, choices)
    measured = Measured(run(points), _points(listed, quick))
    return paper_claims.decide(judged, measured, points, effort, run)


def _check_outputs(*paths: Path | None) -> None:
    """Find out before long work whether its result can be written."""
    for path in paths:
        if path is not None:
            report.check_writable(path)


@app.command(
    epilog=_example(
        "nanoplane figure hyperplane.8 --quick",
        "nanoplane figure hyperplane.8 hyperplane.9 --html out/figures.html",
        "nanoplane figure hyperplane.8 --only task=raid-protection --only queues=1,1000",
    )
)
def figure(
    names: Annotated[
        list[str], typer.Argument(metavar="PAPER.N", help="Figures; `nanoplane list` names them.")
    ],
    quick: Quick = False,
    only: Annotated[
        list[str],
        typer.Option(
            metavar="LABEL=VALUE,…",
            help="Run and show these points alone, as in task=crypto-forwarding.",
        ),
    ] = [],  # noqa: B006
    as_document: Json = False,
    effort: Effort = 4,
    every: All = False,
    fresh: Fresh = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.")
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plots.")] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Make figures of the papers.

    Runs what the store does not have yet, and shows the numbers beside the paper's claims.
    """
    listed = [find_figure(name) for name in dict.fromkeys(names)]
    _check_outputs(html, png)
    shown = [one.name for one in listed]
    judged = [claim for claim in paper_claims.claims() if claim.figure in shown]
    results = _run_figures(listed, judged, quick, only, fresh, effort, workers, scheduler)
    parts = [(one, one.rows(results)) for one in listed]
    all_claims = [claim.row(results) for claim in judged]
    if html is not None:
        introduction = (
            "Made by nanoplane, which ran the data plane's instructions on a simulated server. "
            f"Below each figure stands what the paper claims{_rough(quick)}."
        )
        report.write(html, report.page("nanoplane figures", introduction, parts, all_claims))
    if png is not None:
        report.write(png, report.picture([one.chart(rows) for one, rows in parts]))
    if as_document:
        documents = [
            {
                "figure": one.name,
                "title": one.title,
                "caption": one.caption,
                "quick": quick,
                "rows": as_json(rows),
                "claims": [row for row in all_claims if row["figure"] == one.name],
            }
            for one, rows in parts
        ]
        _print_json(documents[0] if len(documents) == 1 else documents)
        _check_kept(results.values())
        return
    for one, rows in parts:
        _print_rows(one, rows)
    _print_claims(all_claims, every)
    for path in (html, png):
        if path is not None:
            print(f"written: {path}")
    _check_kept(results.values())


def _rough(quick: bool) -> str:
    return " (quick: a tenth of the requests, fewer points, so rough numbers)" if quick else ""


def _print_rows(figure: Figure, rows: list[Row]) -> None:
    """Print a table for each unit of x, and an empty one if there is nothing."""
    if not rows:
        _print_table(figure, rows)
    for _, of in itertools.groupby(sorted(rows, key=_x_unit), _x_unit):
        _print_table(figure, list(of))


def _x_unit(row: Row) -> str:
    return row.x_unit


def _heading(x: float) -> str:
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def _print_table(figure: Figure, rows: list[Row]) -> None:
    """Print one table: a line for each statistic and series, a column for each x.

    If half of such a table were empty, because x was measured too, it has a line for each point.
    """
    import rich.box
    import rich.table

    xs = sorted({row.x for row in rows})
    units = " and ".join(sorted({row.y_unit for row in rows}))
    x_unit = rows[0].x_unit if rows else ""
    console = _console()
    console.print(f"{figure.name}: {figure.title} ({units}, by {x_unit})")
    series: dict[tuple[str, str], dict[float, str]] = {}
    for row in rows:
        series.setdefault((row.statistic, row.series), {})[row.x] = report.number(row.y)
    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    table.add_column("")
    table.add_column("")
    if 2 * sum(map(len, series.values())) > len(xs) * len(series):
        for x in xs:
            table.add_column(_heading(x), justify="right", no_wrap=True)
        for names, values in series.items():
            table.add_row(*names, *(values.get(x, "-") for x in xs))
    else:
        table.add_column(x_unit, justify="right")
        table.add_column(units, justify="right")
        for names, values in series.items():
            for index, x in enumerate(sorted(values)):
                table.add_row(*(names if index == 0 else ("", "")), _heading(x), values[x])
    console.print(table)


@app.command(epilog=_example("nanoplane claims hyperplane", "nanoplane claims --run --json"))
def claims(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="One paper; default: all.")
    ] = None,
    as_document: Json = False,
    missing: Annotated[bool, typer.Option("--run", help="Run first what is missing.")] = False,
    quick: Quick = False,
    effort: Effort = 4,
    every: All = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Show what the papers claim beside what was measured.

    The store is read; without --run nothing is run.
    """
    listed = paper_claims.claims(paper)
    needed = [find_figure(name) for name in paper_claims.figures_of(listed)]
    if missing:
        results = _run_figures(needed, listed, quick, [], False, effort, workers, scheduler)
    else:
        results = _stored(needed, listed, quick)
    rows = [claim.row(results) for claim in listed]
    if as_document:
        _print_json(rows)
        _check_kept(results.values())
        return
    _print_claims(rows, every)
    _check_kept(results.values())
    if not missing and any("runs are missing" in row["why"] for row in rows):
        print("`nanoplane claims --run` runs what is missing.")


_COLOURS = {
    paper_claims.REPRODUCED: "green",
    paper_claims.DIFFERS: "red",
    paper_claims.UNDECIDED: "yellow",
    paper_claims.BY_CONSTRUCTION: "dim",
    paper_claims.NOT_YET_RUN: "dim",
}


def _print_claims(rows: list[dict[str, Any]], every: bool) -> None:
    """Print a table of the claims that have been judged, and one line for the others."""
    run, not_run = paper_claims.by_verdict(rows)
    if shown := run + not_run if every else run:
        _print_claim_table(shown)
    if not_run and not every:
        print(f"{report.not_run_line(not_run)}; --all lists them.")


def _print_claim_table(rows: list[dict[str, Any]]) -> None:
    import rich.box
    import rich.table
    import rich.text

    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    for name, justify in (("claim", "left"), ("paper", "right"), ("measured", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for name in ("95 %", "unit", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("why")
    for row in rows:
        verdict = row["verdict"]
        table.add_row(
            row["id"],
            report.claimed(row["paper_value"]),
            report.number(row["measured"]),
            report.interval(row["measured_ci95"]),
            row["unit"],
            rich.text.Text(verdict, style=_COLOURS[verdict]),
            row["why"],
        )
    _console().print(table)


@app.command("report", epilog=_example("nanoplane report --output out/report.html"))
def write_report(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the page goes.")
    ] = Path("out/report.html"),
    quick: Quick = False,
    as_document: Json = False,
) -> None:
    """Write one self-contained page of everything in the store.

    Its figures and numbers stand beside the papers'; nothing is run.
    """
    judged = paper_claims.claims()
    results = _stored(figures().values(), judged, quick)
    parts = [(one, one.rows(results)) for one in figures().values()]
    rows = [claim.row(results) for claim in judged]
    introduction = f"All figures that have been run, and every claim of the papers{_rough(quick)}."
    report.write(output, report.page("nanoplane report", introduction, parts, rows))
    if as_document:
        written = [one.name for one, of in parts if of]
        _print_json({"page": str(output), "quick": quick, "figures": written, "claims": rows})
        return
    print(f"written: {output}")
