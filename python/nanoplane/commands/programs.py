"""`exec` and `build`: programs of the user."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nanoplane import compiler, report, simulator
from nanoplane import store as stores
from nanoplane.checkpoints import Checkpoints
from nanoplane.commands.common import (
    FromCheckpoint,
    Functional,
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
    check_outputs,
    example,
    print_json,
    with_settings,
)
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure, ProgramError
from nanoplane.limits import Limits
from nanoplane.traces import Traces

# The keys with an effect on a functional run; the mesh must have a tile for each core.
_FUNCTIONAL_KEYS = (
    "server.memory_mib",
    "server.fabric.cores",
    "server.fabric.mesh.columns",
    "server.fabric.mesh.rows",
    "server.fabric.clock_ghz",
    "measure.seed",
)


@app.command(
    "exec",
    epilog=example(
        "nanoplane exec hello.elf --stats stats.json",
        "nanoplane exec --functional hello.elf",
        "nanoplane exec --env LANG=C -- busybox ls -l",
        "nanoplane exec hello.elf --gdb 3333",
    ),
)
def execute(
    program: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM.elf",
            help="An RV64 program: bare-metal (ELF or C), or a static one for Linux.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENTS", help="The arguments of main(); options after --."),
    ] = None,
    environment: Annotated[
        list[str],
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="A variable of a Linux program's environment, which is otherwise empty.",
        ),
    ] = [],  # noqa: B006
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Give a Linux program the files in DIR, as its /, instead of those in the working "
            "directory.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Do not let a Linux program change files.")
    ] = False,
    host_files: Annotated[
        bool,
        typer.Option(
            "--host-files", help="Give a Linux program all files of the host that you can access."
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
    log: Log = None,
    gdb: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Wait for a debugger at this port of 127.0.0.1 before the first instruction; 0 "
            "selects a free port.",
        ),
    ] = None,
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
    # The data plane and its traffic are not used.
    tables = {"server": {"preset": preset}, "data_plane": {"notify": "spin", "queues": 1}}
    description = with_settings(Description.from_dict(tables, source="--preset"), settings)
    check_outputs(stats)
    for variable in environment:
        if not variable.partition("=")[0] or "=" not in variable:
            raise DescriptionError(f'--env is "{variable}"; it must be NAME=VALUE')
    if root is not None and host_files:
        raise DescriptionError(
            "--root gives the program a part of this host's files, and --host-files all of them: "
            "leave one out"
        )
    traces = Traces(tuple(trace), trace_window, None, trace_core, profile, log=log)
    checkpoints = Checkpoints(save_checkpoint, checkpoint_at, from_checkpoint, has_requests=False)
    if functional:
        if gdb is not None:
            raise DescriptionError(
                "--gdb is for timed runs, in which a debugger steps in simulated time: leave it or "
                "--functional out"
            )
        _check_functional(settings, traces, checkpoints)
    limits = Limits(max_time, max_instructions, max_output).options()
    options = {
        "trace": traces.options(),
        "checkpoint": checkpoints.options(),
        "limits": limits,
        "gdb": gdb,
    }
    sys.stdout.flush()
    debug = bool(traces) or gdb is not None
    elf, resolved = compiler.elf(program, debug=debug), description.resolve()
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
            simulator.execute_functionally(
                what, resolved.data, {"log": traces.options().get("log"), "limits": limits}
            )
            if functional
            else simulator.execute(what, resolved.data, options)
        )
    except (ProgramError, Failure) as error:
        raise type(error)(f"{program}: {error}") from error
    if stats is not None:
        report.write(stats, json.dumps(result, indent=2) + "\n")
    traces.check(result)
    said: Mapping[str, object] = result
    if said.get("check"):
        print(said["check"])
    if result["signal"] is not None:
        print(f"nanoplane: {program} was ended by {result['signal']}", file=sys.stderr)
    status = result["exit_status"]
    # The host keeps eight bits; the status of a failure must not become 0.
    raise typer.Exit(status & 0xFF or min(status, 1))


def _check_functional(settings: list[str], traces: Traces, checkpoints: Checkpoints) -> None:
    """Reject options that only have a meaning in timed runs."""
    if checkpoints:
        raise DescriptionError(
            "checkpoints are of timed runs: leave --save-checkpoint and --from-checkpoint or "
            "--functional out"
        )
    if traces != Traces(log=traces.log):
        raise DescriptionError(
            "--trace and --profile show times, and a functional run has none; leave them or "
            "--functional out (--log has no times)"
        )
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if key not in _FUNCTIONAL_KEYS:
            raise DescriptionError(
                f"--set {setting}: this has no effect on a functional run, which has no timing; "
                f"the keys with an effect are {', '.join(_FUNCTIONAL_KEYS)}"
            )


@app.command(
    short_help="Compile a data plane, or firmware.",
    epilog=example("nanoplane build my-data-plane.c -o my-data-plane.elf"),
)
def build(
    source: Annotated[Path, typer.Argument(metavar="PROGRAM.c", help="The guest's source.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PROGRAM.elf", help="The file to write."),
    ] = None,
    firmware: Annotated[
        bool,
        typer.Option("--firmware", help="For the cores of a programmable network interface."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("-g", "--debug", help="Add debug information, which changes no instruction."),
    ] = False,
    as_document: Json = False,
) -> None:
    """Compile a guest, or firmware, against guest/include and the runtime."""
    if firmware and debug:
        raise DescriptionError("firmware has no debugger: leave --debug out")
    elf = compiler.build_firmware(source) if firmware else compiler.build(source, debug=debug)
    output = output or source.with_suffix(".elf")
    report.write(output, elf)
    if as_document:
        print_json({"program": str(output), "bytes": len(elf), "sha256": stores.hexdigest(elf)})
        return
    print(output)


_WITH_SOURCE = ("programs", "rack_programs", "co_runners", "firmware")
