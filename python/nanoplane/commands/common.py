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
    """Says that a command was stopped, which Typer itself would end without a word.

    Its commands read simple values themselves.
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
    typer.Option("--quick", help="Fewer points, and a tenth of the requests: rough numbers, soon."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what the store has already.")]
Precision = Annotated[
    float | None,
    typer.Option(
        parser=_part,
        metavar="N%",
        help="Saturated runs of throughput end when half of its 95 % confidence interval is "
        "this part of it; default: 1%, and 3% with --quick.",
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
    typer.Option(
        metavar="FROM..TO", help="Trace and log only this simulated time, as in 10us..20us."
    ),
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
Log = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Write each instruction that retires, with what it writes, as Spike's --log-commits.",
    ),
]
Functional = Annotated[
    bool,
    typer.Option(
        "--functional",
        help="Only what the program computes, ten times as fast: no times, no traces but --log.",
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
    typer.Option(min=1, metavar="N", help="Concurrent runs on this host; default: all cores."),
]


def example(*lines: str) -> str:
    """Return the epilogue of a command's help: lines that can be copied."""
    # After \b lines stay as they are, so that they can be copied.
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
    # What is in brackets is text: names come from guests and files.
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
    """Return a description with what `--set` changes, or another option, which errors name."""
    for setting in settings:
        description = description.assign(setting, option)
    return description


def check_kept(outcomes: "Iterable[Outcome]") -> None:
    """Raise a Failure if the store has not taken a result, which is printed in any case."""
    for outcome in outcomes:
        if outcome.unkept is not None:
            raise Failure(outcome.unkept)


def check_outputs(*paths: Path | None) -> None:
    """Find out before long work whether its result can be written."""
    from nanoplane import report

    for path in paths:
        if path is not None:
            report.check_writable(path)
