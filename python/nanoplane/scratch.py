"""Temporary directories that do not stay for good when their process is killed.

Beside each is a file that its process keeps locked. The system lets go of the lock when the process
ends, however that happens; whoever makes the next directory removes those that nobody has locked.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = ".lock"


@contextlib.contextmanager
def directory(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a directory in `parent` whose name begins with `prefix`, for as long as this lasts."""
    remove_leftovers(parent, prefix)
    with _locked(parent, prefix) as lock:
        made = lock.with_name(lock.name.removesuffix(_LOCK))
        made.mkdir(mode=0o700)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove what processes of this user that were killed have left in `parent`."""
    for lock in parent.glob(f"{prefix}*{_LOCK}"):
        # What cannot be removed stays: it is in nobody's way.
        with contextlib.suppress(OSError):
            _remove_leftover(lock)


def _remove_leftover(lock: Path) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        of = os.fstat(descriptor)
        if of.st_uid != os.geteuid() or not stat.S_ISREG(of.st_mode):
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left = lock.with_name(lock.name.removesuffix(_LOCK))
        with contextlib.suppress(FileNotFoundError):
            found = left.lstat()
            if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
                shutil.rmtree(left)
        lock.unlink()
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(parent: Path, prefix: str) -> Iterator[Path]:
    while True:
        descriptor, name = tempfile.mkstemp(suffix=_LOCK, prefix=prefix, dir=parent)
        lock = Path(name)
        # Where files cannot be locked, nothing is ever taken for a leftover.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another process may have taken it for a leftover before it was locked.
        if lock.exists():
            break
        os.close(descriptor)
    try:
        yield lock
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
