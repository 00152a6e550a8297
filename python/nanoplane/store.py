"""The store: one row for each result, under a key of everything that determines it.

It is SQLite in one file, because any number of processes may write to it concurrently and each row
is written atomically. A row holds the resolved description, the versions of simulator and guest,
the result with latencies as an HdrHistogram, and a checksum of all these: a damaged row counts as
absent.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoplane import compiler, simulator
from nanoplane.description import Resolved, has_network, put, servers
from nanoplane.errors import Failure

_TABLE = """
create table if not exists results (
    key text primary key,         -- Store.key
    description text not null,    -- resolved, canonical JSON
    guest text not null,          -- SHA-256 of the ELF file
    simulator text not null,      -- its version
    result text not null,         -- JSON
    checksum text not null,       -- SHA-256 of the columns before it
    made text not null default current_timestamp
)
"""
COLUMNS = ("key", "description", "guest", "simulator", "result")
"""The columns that make up a row; the next column has their checksum."""
_PATIENCE_SECONDS = 60.0
"""The maximum wait while other processes write."""
_ROOM_BYTES = 1 << 20
"""The disk space that a run requires: more than any result takes."""


def hexdigest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def key(resolved: Resolved, elf: bytes, files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of everything that determines a result.

    `files` has the contents of `resolved.files` by path, as given to the run. The table `simulator`
    only affects the speed of a run, and only the contents of the program and of data files matter,
    not their paths. A rate that would saturate the server does not matter if another rate is given,
    so that a search for a load shares its runs with a curve over given rates.
    """
    data = resolved.data
    if "traffic" in data and data["traffic"].get("rate_mrps") is not None:
        data["traffic"].pop("saturation_rate_mrps", None)
    return _key(resolved, data, elf, files)


def warm_start_key(resolved: Resolved, elf: bytes, files: Mapping[str, bytes]) -> str | None:
    """Return the SHA-256 of everything that determines the end of a run's warm start.

    None if there is no warm start.
    """
    data = resolved.data
    if not resolved.guests or has_network(data) or data["measure"].get("warm_start") is None:
        return None
    measure, traffic = data["measure"], data["traffic"]
    for table, name in (
        (measure, "requests"),
        (measure, "precision"),
        (measure, "precision_of"),
        (measure, "warmup"),
        (traffic, "load"),
        (traffic, "rate_mrps"),
    ):
        table.pop(name, None)
    if measure["warm_start"].get("rate_mrps") is not None:
        # Its own rate is the offered rate.
        traffic.pop("saturation_rate_mrps", None)
    if measure["warm_start"].get("work_ns") is not None:
        # So is the work of its items, but not their kind.
        for name in ("base_ns", "mean_ns", "service_times"):
            traffic["work"].pop(name, None)
        other = {
            key: path for key, path in resolved.files.items() if not key.startswith("traffic.work.")
        }
        resolved = dataclasses.replace(resolved, files=other)
    return _key(resolved, data, elf, files)


def _key(resolved: Resolved, data: dict[str, Any], elf: bytes, files: Mapping[str, bytes]) -> str:
    data.pop("simulator", None)
    for _, server in servers(data):
        server.pop("program", None)
        for name in ("program", "co_runner"):
            (server.get("data_plane") or {}).pop(name, None)
    for name, path in resolved.files.items():
        put(data, name, hexdigest(files[str(path)]))
    parts = {"description": data, "guest": hexdigest(elf), "simulator": simulator.version()}
    return hexdigest(json.dumps(parts, sort_keys=True).encode())


class Store:
    """A directory of results: `$NANOPLANE_STORE`, or `.nanoplane/results` in the working directory.

    Its methods raise a Failure if the directory or the file in it cannot be used.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        """Open or make the store in `directory`."""
        directory = directory or os.environ.get("NANOPLANE_STORE") or ".nanoplane/results"
        self.path = Path(directory) / "results.sqlite"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result under a key, None if there is none.

        A damaged row is deleted, with a message on standard error.
        """
        found = self.entry(key)
        return None if found is None else found[1]

    def entry(self, key: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the resolved description and the result under a key; otherwise like `get`."""
        with self._reading() as connection:
            if connection is None:
                return None
            row = connection.execute(
                f"select {', '.join(COLUMNS)}, checksum from results where key = ?", [key]
            ).fetchone()
        if row is None:
            return None
        if _is_whole(row):
            return json.loads(row[1]), json.loads(row[-2])
        print(
            f"nanoplane: {self.path}: the row with the key {key} is damaged; it is dropped, and "
            "its run counts as one that has not been made",
            file=sys.stderr,
        )
        # If the store is read-only, the row will be reported again.
        with contextlib.suppress(Failure), self._writing() as connection:
            connection.execute("delete from results where key = ?", [key])
        return None

    def keys(self, beginning: str = "") -> list[str]:
        """Return the keys with this prefix, in alphabetical order."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                "select key from results where substr(key, 1, ?) = ? order by key",
                [len(beginning), beginning],
            )
            return [key.decode() for (key,) in rows]

    def put(self, key: str, resolved: Resolved, elf: bytes, result: Mapping[str, Any]) -> None:
        """Store a result durably."""
        row = [key, resolved.text, hexdigest(elf), simulator.version(), json.dumps(result)]
        checksum = _checksum([column.encode() for column in row])
        with self._writing() as connection:
            connection.execute(
                f"insert or replace into results ({', '.join(COLUMNS)}, checksum) "
                "values (?, ?, ?, ?, ?, ?)",
                [*row, checksum],
            )

    def rows(self) -> Iterator[dict[str, str]]:
        """Return the undamaged rows as dictionaries, in the order of their keys."""
        for key in self.keys():
            row = None
            with self._reading() as connection:
                if connection is not None:
                    row = connection.execute(
                        f"select {', '.join(COLUMNS)}, checksum from results where key = ?", [key]
                    ).fetchone()
            if row is not None and _is_whole(row):
                yield dict(zip(COLUMNS, (column.decode() for column in row[:-1]), strict=True))

    def add(self, rows: Iterable[Mapping[str, str]]) -> int:
        """Add rows of another store to this one, all or none; return the number of new ones.

        Existing rows are kept: rows with the same key have the same result.
        """
        added = 0
        with self._writing() as connection:
            for row in rows:
                columns = [row[name] for name in COLUMNS]
                checksum = _checksum([column.encode() for column in columns])
                added += connection.execute(
                    f"insert or ignore into results ({', '.join(COLUMNS)}, checksum) "
                    "values (?, ?, ?, ?, ?, ?)",
                    [*columns, checksum],
                ).rowcount
        return added

    def check_writable(self) -> None:
        """Check before long work that results can be stored: reserve disk space for one."""
        with self._writing() as connection:
            connection.execute("create table if not exists room (bytes blob)")
            connection.execute("insert into room values (zeroblob(?))", [_ROOM_BYTES])
        # The file keeps the space for the next rows.
        with self._writing() as connection:
            connection.execute("delete from room")

    def has_results_of(self, version: str) -> bool:
        """Say whether there is a result of a version of the simulator."""
        with self._reading() as connection:
            if connection is None:
                return False
            # As bytes, which damage leaves readable.
            sentence = "select exists (select 1 from results where cast(simulator as blob) = ?)"
            return bool(connection.execute(sentence, [version.encode()]).fetchone()[0])

    def __len__(self) -> int:
        """Count the results."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return int(connection.execute("select count(*) from results").fetchone()[0])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Connect for reading, with texts as bytes; None if there are no readable rows."""
        with self._telling():
            if not self.path.exists():
                yield None
                return
            with self._connection() as connection:
                connection.text_factory = bytes
                yield connection if _columns(connection) >= {*COLUMNS, "checksum"} else None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Connect for one transaction."""
        with self._telling():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connection() as connection:
                connection.execute("begin immediate")
                try:
                    self._renew(connection)
                    connection.execute(_TABLE)
                    yield connection
                except BaseException:
                    # It may have ended already.
                    if connection.in_transaction:
                        connection.execute("rollback")
                    raise
                connection.execute("commit")

    def _renew(self, connection: sqlite3.Connection) -> None:
        """Migrate a table of an older version."""
        columns = _columns(connection)
        if not columns or columns >= {*COLUMNS, "checksum"}:
            return
        if missing := sorted({*COLUMNS} - columns):
            (rows,) = connection.execute("select count(*) from results").fetchone()
            print(
                f"nanoplane: {self.path}: the table of results has no column {missing[0]}; its "
                f"{rows} rows are dropped, and their runs count as ones that have not been made",
                file=sys.stderr,
            )
            connection.execute("drop table results")
            return
        connection.execute("alter table results add column checksum text not null default ''")
        connection.text_factory = bytes
        for (row,) in connection.execute("select rowid from results").fetchall():
            checked = connection.execute(
                f"select {', '.join(COLUMNS)} from results where rowid = ?", [row]
            ).fetchone()
            # A row that is certainly damaged gets no checksum.
            with contextlib.suppress(ValueError, TypeError):
                json.loads(checked[-1])
                sum_of_row = _checksum(checked)
                connection.execute(
                    "update results set checksum = ? where rowid = ?", [sum_of_row, row]
                )
        connection.text_factory = str

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # The code begins and ends transactions explicitly.
        connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn errors of the system and of SQLite into a sentence."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            help_ = "NANOPLANE_STORE names another directory"
            # Subclasses are errors of accessing the file rather than of its contents.
            if type(error) is sqlite3.DatabaseError:
                help_ = f"move the file away, and its runs are made again, or {help_}"
            raise Failure(
                f"{self.path}: the store of results cannot be used: {why}; {help_}"
            ) from None


def _columns(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the columns of the table; none if there is no table."""
    names = connection.execute("select name from pragma_table_info('results')")
    return {name.decode() if isinstance(name, bytes) else name for (name,) in names}


def _is_whole(row: tuple[Any, ...]) -> bool:
    *checked, checksum = row
    texts = all(isinstance(column, bytes) for column in checked)
    return texts and checksum == _checksum(checked).encode()


def _checksum(columns: list[bytes]) -> str:
    return hexdigest(compiler.pack(columns))
