"""Runs command lines for tests, each in a fork of a process that has imported what they need.

The imports take longer than most of the commands. `command_line.completed` starts one server for
each process of tests.
"""

import gc
import json
import os
import signal
import socket
import sys

from nanoplane import cli, simulator


def serve(connection: socket.socket) -> None:
    """Run the command of each line that is received, and send its exit status."""
    # Commands import these when they use them.
    import jsonschema  # noqa: F401
    import rich.console
    import rich.table  # noqa: F401

    assert cli.app is not None
    simulator.version()
    gc.freeze()
    with connection.makefile("rw") as lines:
        for line in lines:
            child = os.fork()
            if not child:
                run(**json.loads(line))
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), file=lines, flush=True)


def run(
    arguments: list[str], directory: str, environment: dict[str, str], streams: list[str]
) -> None:
    """Run a command and exit; `streams` are the files of its standard streams."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, descriptor)
        os.close(opened)
    # As Python starts for the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = ["nanoplane", *arguments]
    cli.main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
