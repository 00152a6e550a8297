"""The command line, run as a user runs it."""

import subprocess
import sys
from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
"""Runs the command line in this process; returns its status, output and errors."""


def completed(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line; return what came of it."""
    return subprocess.run(
        [sys.executable, "-m", "nanoplane", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def nanoplane(*arguments: object, status: int = 0) -> str:
    """Run the command line; return what it prints, on standard error if it fails."""
    done = completed(*arguments)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout
