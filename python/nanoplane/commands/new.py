"""`new`: hardware of the user's own, in Rust."""

from pathlib import Path
from typing import Annotated

import typer

from nanoplane import templates
from nanoplane.commands.common import Commands, app, example

commands = typer.Typer(cls=Commands, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(
    commands,
    name="new",
    help="Create your own hardware, in Rust, in a checkout of the sources.",
    epilog=example("nanoplane new mechanism ready-list"),
)


@commands.callback()
def callback() -> None:
    """Create your own hardware, in Rust, in a checkout of the sources."""


@commands.command(epilog=example("nanoplane new mechanism ready-list ~/nanoplane"))
def mechanism(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The value of data_plane.notify: ready-list.")
    ],
    checkout: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="The checkout of the sources.")
    ] = Path(),
) -> None:
    """Write a working notification mechanism as a template: a device with a list of ready queues.

    It is a crate, a header for programs, and a line each in the server's registry and Cargo.toml.
    """
    written = templates.new_mechanism(name, checkout)
    for path in written:
        print(f"written: {path}")
    print(
        "Now, in the checkout, build it, write what follows from its declarations, and run it:\n"
        "    cargo update --workspace --offline\n"
        "    make docs\n"
        f"    .venv/bin/nanoplane run examples/encapsulation.toml --set data_plane.notify={name}"
    )
