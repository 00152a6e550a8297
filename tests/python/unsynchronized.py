"""Stores of tests do not wait for the disk, which otherwise takes half of the time of some tests.

What is written still survives however a process ends, but not a power failure.
"""

import contextlib
import sqlite3
from collections.abc import Iterator

from nanoplane.store import Store

_durable = Store._connection


@contextlib.contextmanager
def _connection(store: Store) -> Iterator[sqlite3.Connection]:
    with _durable(store) as connection:
        # It reads the file, whose damage and locks are the test's.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("pragma synchronous = off")
        yield connection


def use() -> None:
    """Connect all stores of this process in this way."""
    Store._connection = _connection  # type: ignore[method-assign, assignment]
