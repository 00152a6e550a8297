"""Runs command lines for tests, each in a fork of a process that has imported what they need.

The imports take longer than most of the commands. `command_line.completed` starts one server for
each process of tests.
"""

import gc
import json
import os
import select
import signal
import socket
import sys

import unsynchronized
from nanoplane import cli, simulator


def serve(connection: socket.socket) -> None:
    """Run the command of each line that is received, and send its exit status."""
    # Commands import these when they use them.
    import jsonschema  # noqa: F401
    import rich.console
    import rich.table  # noqa: F401

    # This imports all commands.
    assert cli.app is not None
    simulator.version()
    unsynchronized.use()
    gc.freeze()
    connection.set_inheritable(False)
    lines = connection.makefile("r")
    for line in lines:
        child = os.fork()
        if not child:
            os.close(connection.detach())
            run(**json.loads(line))
        # Nobody waits for a command whose tests have ended.
        ended = os.pidfd_open(child)
        if ended not in select.select([ended, connection.fileno()], [], [])[0]:
            os.kill(child, signal.SIGKILL)
        os.close(ended)
        _, status = os.waitpid(child, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def run(
    arguments: list[str], directory: str, environment: dict[str, str], streams: list[str]
) -> None:
    """Run a command and exit; `streams` are the files of its standard streams."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR if descriptor else os.O_RDONLY)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = ["nanoplane", *arguments]
    cli.main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
