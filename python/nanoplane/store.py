"""The store: one row for each result, under a key made of everything that determines it.

SQLite in one file, because any number of processes may write to it at once and each row is there
or not. A row holds the resolved description, the versions of simulator and guest, and what was
measured, latencies as an HdrHistogram among it.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanoplane import simulator
from nanoplane.description import Resolved, put
from nanoplane.errors import Failure

_TABLE = """
create table if not exists results (
    key text primary key,         -- Store.key
    description text not null,    -- resolved, canonical JSON
    guest text not null,          -- SHA-256 of the ELF file
    simulator text not null,      -- its version
    result text not null,         -- JSON
    made text not null default current_timestamp
)
"""


def hexdigest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def key(resolved: Resolved, elf: bytes) -> str:
    """Return the SHA-256 of everything that determines a result.

    The table `simulator` only says how fast a result comes, and where the program and the files
    with data lie does not matter: their contents do.
    """
    return _key(resolved, resolved.data, elf)


def warm_start_key(resolved: Resolved, elf: bytes) -> str | None:
    """Return the SHA-256 of everything that determines the end of a run's warm start.

    None if there is no warm start.
    """
    if resolved.program is None:
        return None
    data = resolved.data
    measure, traffic = data["measure"], data["traffic"]
    if measure.get("warm_start") is None:
        return None
    for table, name in (
        (measure, "requests"),
        (measure, "precision"),
        (measure, "precision_of"),
        (measure, "warmup"),
        (traffic, "load"),
        (traffic, "rate_mrps"),
    ):
        table.pop(name, None)
    return _key(resolved, data, elf)


def _key(resolved: Resolved, data: dict[str, Any], elf: bytes) -> str:
    data.pop("simulator", None)
    if resolved.program is not None:
        data["data_plane"].pop("program", None)
        data["data_plane"].pop("co_runner", None)
    if resolved.programs:
        for server in data["rack"]["servers"]:
            server.pop("program")
    for name, path in resolved.files.items():
        put(data, name, hexdigest(path.read_bytes()))
    parts = {"description": data, "guest": hexdigest(elf), "simulator": simulator.version()}
    return hexdigest(json.dumps(parts, sort_keys=True).encode())


class Store:
    """A directory of results: `$NANOPLANE_STORE`, or `.nanoplane/results` where you are."""

    def __init__(self, directory: str | Path | None = None) -> None:
        """Open or make the store in `directory`."""
        directory = directory or os.environ.get("NANOPLANE_STORE") or ".nanoplane/results"
        self.path = Path(directory) / "results.sqlite"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result under a key, None if there is none yet."""
        if not self.path.exists():
            return None
        with self._connection() as connection:
            row = connection.execute("select result from results where key = ?", [key]).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, resolved: Resolved, elf: bytes, result: dict[str, Any]) -> None:
        """Keep a result; it is safe once this returns."""
        row = [key, resolved.text, hexdigest(elf), simulator.version(), json.dumps(result)]
        with self._connection() as connection:
            connection.execute(
                "insert or replace into results (key, description, guest, simulator, result) "
                "values (?, ?, ?, ?, ?)",
                row,
            )

    def __len__(self) -> int:
        """Count the results."""
        with self._connection() as connection:
            return int(connection.execute("select count(*) from results").fetchone()[0])

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A minute of patience when other processes are writing.
            connection = sqlite3.connect(self.path, timeout=60)
            try:
                with connection:
                    connection.execute(_TABLE)
                    yield connection
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise Failure(
                f"{self.path}: the store of results cannot be used: {why}; "
                "NANOPLANE_STORE names another directory"
            ) from None
