"""Common parts of the commands: the application, options, and output."""

import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from nanoplane.commands.values import quicken
from nanoplane.errors import Failure, Interrupted

if TYPE_CHECKING:  # Most of the start of the command, and its help needs none of them.
    import rich.table

    from nanoplane.description import Description
    from nanoplane.outcomes import Outcome


class Commands(typer.core.TyperGroup):
    """A group of commands that reports an interruption, which Typer ends silently.

    Its commands parse simple values themselves.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Make a group of commands."""
        super().__init__(*arguments, **named)
        quicken(self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else quicken(command)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped", error) from None


def _part(text: str) -> float:
    """Return the number of `1%` or `0.01`, a value of `measure.precision`."""
    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = math.nan
    if not 0.001 <= part <= 1:
        raise typer.BadParameter(f"{text!r} is not from 0.1% to 100%")
    return part


app = typer.Typer(
    name="nanoplane",
    cls=Commands,
    add_completion=True,
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
    typer.Option(
        "--quick", help="Fewer points, and a tenth of the requests: rough numbers, quickly."
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Repeat runs that are in the store.")]
Precision = Annotated[
    float | None,
    typer.Option(
        parser=_part,
        metavar="N%",
        help="Saturated runs end when half of the throughput's 95 % confidence interval is this "
        "fraction of it; default: 1%, and 3% with --quick.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Also list the claims that have not been run.")]
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
    typer.Option(
        metavar="FROM..TO", help="Trace and log only this simulated time, as in 10us..20us."
    ),
]
TraceCore = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="The core whose pipeline --trace shows; in racks, numbered server by server.",
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write the guest's cycles by call stack, as folded stacks for flame graphs.",
    ),
]
Log = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Write each retired instruction and its results, as Spike's --log-commits.",
    ),
]
Functional = Annotated[
    bool,
    typer.Option(
        "--functional",
        help="Only the program's results, ten times as fast: no times, no traces except --log.",
    ),
]
SaveCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--save-checkpoint",
        metavar="FILE",
        help="Save the state of the server or the rack during the run, which continues.",
    ),
]
FromCheckpoint = Annotated[
    Path | None,
    typer.Option("--from-checkpoint", metavar="FILE", help="Start from a saved state."),
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="End the run after this time on the host, as in 90s."),
]
MaxInstructions = Annotated[
    str | None,
    typer.Option(metavar="N", help="End the run after this many instructions of all harts."),
]
MaxOutput = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES", help="End the run if the guest writes more than this, as in 10MiB."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the cluster of this Dask scheduler."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Concurrent runs on this host; default: all cores."),
]


def example(*lines: str) -> str:
    """Return the epilogue of a command's help: lines that can be copied."""
    # \b prevents the wrapping of lines, so that they can be copied.
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


@app.callback(
    invoke_without_command=True,
    epilog=example(
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
        from nanoplane import simulator

        print(simulator.version())
    elif context.invoked_subcommand is None:
        print(context.get_help())


_NUMBERS = re.compile(r"\[\n\s*((?:[-+.\deE]+|null)(?:,\n\s*(?:[-+.\deE]+|null))*)\n\s*\]")
"""A list of numbers over many lines; no text of JSON has a line break in it."""


def print_json(document: object) -> None:
    """Print a document on standard output."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # A list with a number for each queue is a line, not a thousand.
    print(_NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text))


_WIDE = 200
"""Columns of a table in a file or a pipe."""


def show(*parts: "str | rich.table.Table") -> None:
    """Print lines of text and tables.

    On a terminal they fit its width. Elsewhere no line is folded, and none ends in spaces.
    """
    import rich.console

    is_terminal = sys.stdout.isatty()
    # Text in brackets is no markup: names come from guests and files.
    width = None if is_terminal else _WIDE
    console = rich.console.Console(width=width, highlight=False, markup=False)
    for part in parts:
        if is_terminal:
            console.print(part)
            continue
        with console.capture() as printed:
            console.print(part)
        lines = [line.rstrip() for line in printed.get().splitlines()]
        print("\n".join(lines))


def with_settings(
    description: "Description", settings: list[str], option: str = "--set"
) -> "Description":
    """Return a description changed by `--set`, or by another option, which errors name."""
    for setting in settings:
        description = description.assign(setting, option)
    return description


def check_kept(outcomes: "Iterable[Outcome]") -> None:
    """Raise a Failure if a result, which is printed in any case, could not be stored."""
    for outcome in outcomes:
        if outcome.unkept is not None:
            raise Failure(outcome.unkept)


def check_outputs(*paths: Path | None) -> None:
    """Check before a long run that its results can be written."""
    from nanoplane import report

    for path in paths:
        if path is not None:
            report.check_writable(path)
