"""Temporary directories, and caches.

Temporary directories are removed eventually even if their process is killed. Each has a file beside
it that its process keeps locked. The system releases the lock when the process ends for any reason;
the process that makes the next directory removes those without a lock.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nanoplane.errors import Failure

_LOCK = ".lock"


def cache(name: str) -> Path:
    """Return the directory of a cache, which is made if need be.

    It is below `$XDG_CACHE_HOME` or `~/.cache`, and otherwise among the temporary files. Its files
    are trusted, so no other user may have created it; a Failure says why there is none.
    """
    directories = [Path(tempfile.gettempdir()) / f"nanoplane-{name}-{os.getuid()}"]
    # A user without an entry in the password database may have no home.
    with contextlib.suppress(RuntimeError):
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        directories.insert(0, caches / name)
    reasons = []
    for directory in directories:
        if (reason := _unusable(directory)) is None:
            return directory
        reasons.append(f"{directory} {reason}")
    raise Failure(
        f"there is no directory for the cache {name!r}: {'; '.join(reasons)}; set XDG_CACHE_HOME "
        "or TMPDIR to a directory of yours"
    )


def _unusable(directory: Path) -> str | None:
    """Make a directory that only this user can write, unless it exists; return an error."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        # Not the target of a link: whoever made the link could change it later.
        found = directory.lstat()
    except (OSError, RuntimeError) as error:
        return f"cannot be made: {getattr(error, 'strerror', None) or error}"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_uid != os.getuid():
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None if os.access(directory, os.W_OK) else "cannot be written"


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
