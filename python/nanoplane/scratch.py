"""Temporary directories that are removed eventually even if their process is killed.

Each has a file beside it that its process keeps locked. The system releases the lock when the
process ends for any reason; the process that makes the next directory removes those without a lock.
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
    """Make a directory in `parent` whose name begins with `prefix`, for a context's duration."""
    remove_leftovers(parent, prefix)
    with _locked(parent, prefix) as lock:
        made = lock.with_name(lock.name.removesuffix(_LOCK))
        made.mkdir(mode=0o700)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove the directories that killed processes of this user have left in `parent`."""
    for lock in parent.glob(f"{prefix}*{_LOCK}"):
        # Directories that cannot be removed stay and do no harm.
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
        # If files cannot be locked, no directory counts as a leftover.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another process may have removed it before it was locked.
        if lock.exists():
            break
        os.close(descriptor)
    try:
        yield lock
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
