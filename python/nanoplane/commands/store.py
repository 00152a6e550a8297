"""`store`: results into files, out of files, and out of other stores."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from nanoplane import report
from nanoplane.commands.common import Commands, app, example
from nanoplane.errors import DescriptionError
from nanoplane.store import COLUMNS, Store

commands = typer.Typer(cls=Commands, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(
    commands,
    name="store",
    help="Export, import and merge results.",
    epilog=example("nanoplane store export results.jsonl", "nanoplane store merge stores/0"),
)


@commands.command(
    short_help="Write all results as lines of JSON.",
    epilog=example("nanoplane store export results.jsonl"),
)
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="The file to write.")],
) -> None:
    """Write all results as lines of JSON: key, description, guest, simulator and result of each."""
    store = Store()
    rows = [
        {**row, "description": json.loads(row["description"]), "result": json.loads(row["result"])}
        for row in store.rows()
    ]
    report.write(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"written: {file}: {_results(len(rows))} of {store.path}")


@commands.command(
    "import",
    short_help="Add the results of a file to the store.",
    epilog=example("nanoplane store import results.jsonl"),
)
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.jsonl", help="A file that `export` has written.")
    ],
) -> None:
    """Add the results of a file to the store; results that it already has are kept."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is not text in UTF-8"
        raise DescriptionError(f"{file}: cannot be read: {why}") from None
    rows = [_row(line, f"{file}: line {number}") for number, line in enumerate(lines, 1)]
    store = Store()
    print(f"{_results(store.add(rows))} of {len(rows)} added to {store.path}")


@commands.command(
    short_help="Add the results of other stores to this one.",
    epilog=example("nanoplane store merge stores/0 stores/1"),
)
def merge(
    stores: Annotated[
        list[Path], typer.Argument(metavar="DIRECTORY", help="Stores, such as those of jobs.")
    ],
) -> None:
    """Add the results of other stores to this one; results that it already has are kept."""
    store = Store()
    for directory in stores:
        other = Store(directory)
        if not other.path.is_file():
            raise DescriptionError(f"{directory}: there is no store, which has a {other.path.name}")
    for directory in stores:
        other = Store(directory)
        print(f"{other.path}: {_results(store.add(other.rows()))} added to {store.path}")


def _results(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"


def _row(line: str, place: str) -> dict[str, str]:
    """Return a row of the store from a line; the description in the store's own form."""
    try:
        found: Any = json.loads(line)
    except ValueError as error:
        raise DescriptionError(f"{place}: this is not JSON: {error}") from None
    if not isinstance(found, dict) or set(found) != set(COLUMNS):
        raise DescriptionError(
            f"{place}: a result has {', '.join(COLUMNS)} and nothing else; `nanoplane store "
            "export` writes such lines"
        )
    texts = {name: str(found[name]) for name in ("key", "guest", "simulator")}
    if not all(re.fullmatch("[0-9a-f]{64}", texts[name]) for name in ("key", "guest")):
        raise DescriptionError(f"{place}: key and guest are SHA-256, 64 hexadecimal digits each")
    if not isinstance(found["description"], dict) or not isinstance(found["result"], dict):
        raise DescriptionError(f"{place}: description and result are objects")
    canonical = json.dumps(
        found["description"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return {**texts, "description": canonical, "result": json.dumps(found["result"])}
