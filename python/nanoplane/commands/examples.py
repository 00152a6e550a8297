"""`examples`: a copy of the examples to run and to change."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from nanoplane.commands.common import app, example
from nanoplane.errors import DescriptionError
from nanoplane.wording import EXAMPLES


@app.command(epilog=example("nanoplane examples", "nanoplane run examples/encapsulation.toml"))
def examples(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="The new directory; it must not exist yet.")
    ] = Path("examples"),
) -> None:
    """Write the examples of the documentation into a directory."""
    if directory.exists() or directory.is_symlink():
        raise DescriptionError(f"{directory}: is there already, and nothing is written over it")
    shutil.copytree(EXAMPLES, directory, ignore=shutil.ignore_patterns("__pycache__"))
    print(f"written: {directory}/")
