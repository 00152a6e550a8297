"""The command line, run as a user runs it."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

Command = Callable[..., tuple[int, str, str]]
"""Runs the command line in this process; returns its status, output and errors."""

Completed = subprocess.CompletedProcess[str]


@functools.cache
def _server() -> tuple["subprocess.Popen[bytes]", socket.socket, TextIO]:
    """Start the server of this process, which ends with it; return it and how to talk to it."""
    ours, others = socket.socketpair()
    script = Path(__file__).with_name("command_server.py")
    server = subprocess.Popen(
        [sys.executable, str(script), str(others.fileno())],
        pass_fds=[others.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    others.close()
    return server, ours, ours.makefile("rw")


def completed(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    timeout: float = 120,
) -> Completed:
    """Run the command line; return what came of it.

    `text` is its standard input, `cwd` its working directory and `env` its environment, if they
    are not those of this process; it is an error if it takes more than `timeout` seconds.
    """
    listed = [str(one) for one in arguments]
    with tempfile.TemporaryDirectory() as directory:
        streams = [Path(directory) / name for name in ("input", "output", "errors")]
        for stream, content in zip(streams, (text, "", ""), strict=True):
            stream.write_text(content)
        server, connection, lines = _server()
        connection.settimeout(timeout)
        request = {
            "arguments": listed,
            "directory": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "streams": [str(stream) for stream in streams],
        }
        print(json.dumps(request), file=lines, flush=True)
        try:
            status = int(lines.readline())
        except TimeoutError:
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise subprocess.TimeoutExpired(listed, timeout) from None
        _, output, errors = (stream.read_bytes().decode() for stream in streams)
        return subprocess.CompletedProcess(listed, status, output, errors)


def nanoplane(*arguments: object, status: int = 0) -> str:
    """Run the command line; return what it prints, on standard error if it fails."""
    done = completed(*arguments)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout
