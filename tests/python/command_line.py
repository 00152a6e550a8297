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

Command = Callable[..., tuple[int, str, str]]
"""Runs the command line in this process; returns its status, output and errors."""

Completed = subprocess.CompletedProcess[str]


class _Server:
    """The process that forks for each command of this process, and ends with it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lines = self._socket.makefile("rw")
        script = Path(__file__).with_name("command_server.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def run(self, request: Mapping[str, object], timeout: float) -> int:
        """Run a command; return its exit status."""
        self._socket.settimeout(timeout)
        print(json.dumps(request), file=self._lines, flush=True)
        return int(self._lines.readline())

    def end(self) -> None:
        """End it, and the command that it runs."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_server = functools.cache(_Server)


def completed(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    timeout: float = 120,
    fresh: bool = False,
) -> Completed:
    """Run the command line; return what came of it.

    `text` is its standard input; `cwd` and `env` default to those of this process; it is an error
    if it takes more than `timeout` seconds. Standard streams are files. A `fresh` command has a
    process of its own, with other addresses and another order of hashing, and pipes.
    """
    listed = [str(one) for one in arguments]
    if fresh:
        return subprocess.run(
            [sys.executable, "-m", "nanoplane", *listed],
            cwd=cwd,
            env=env,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with tempfile.TemporaryDirectory() as directory:
        streams = [Path(directory) / name for name in ("input", "output", "errors")]
        for stream, content in zip(streams, (text, "", ""), strict=True):
            stream.write_text(content)
        request = {
            "arguments": listed,
            "directory": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "streams": [str(stream) for stream in streams],
        }
        try:
            status = _server().run(request, timeout)
        except BaseException:
            # The next command gets a server of its own, not this one's answer.
            _server().end()
            _server.cache_clear()
            raise
        _, output, errors = (stream.read_bytes().decode() for stream in streams)
        return subprocess.CompletedProcess(listed, status, output, errors)


def nanoplane(*arguments: object, status: int = 0) -> str:
    """Run the command line; return what it prints, on standard error if it fails."""
    done = completed(*arguments)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout
