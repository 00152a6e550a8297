"""The command line.

Exit status 0: success. 1: the work failed. 2: the command or the description was wrong. 130 and
143: ended by Ctrl-C and SIGTERM, as in a shell. Standard output has only the answer, with `--json`
exactly one JSON document; everything else goes to standard error.
"""

import contextlib
import importlib
import io
import os
import signal
import sys
from typing import Any, TextIO

from nanoplane.errors import Interrupted, NanoplaneError, Stopped

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the work in an orderly way: Ctrl-C, `kill`, and a closed terminal."""

_COMMANDS = {
    "examples": ("examples",),
    "explain": ("list", "explain", "keys", "schema"),
    "figures": ("figure", "claims", "report"),
    "new": ("new",),
    "programs": ("exec", "build"),
    "run": ("run",),
    "store": ("store",),
    "sweeps": ("sweep", "compare"),
}
"""The modules of the commands, in the order of the help. Only the command's own module is
imported."""


def _load(name: str) -> Any:
    """Return the application with one command, or with all of them for other arguments."""
    importlib.import_module("nanoplane.commands.common")
    wanted = [module for module, names in _COMMANDS.items() if name in names]
    for module in wanted or ([] if name == "--version" else _COMMANDS):
        importlib.import_module(f"nanoplane.commands.{module}")
    return sys.modules["nanoplane.commands.common"].app


def __getattr__(name: str) -> Any:
    """Return the application with all commands."""
    if name == "app":
        return _load("")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line and exit."""
    # First: until everything is loaded, a signal ends the command immediately.
    app = _load("".join(sys.argv[1:2]))
    for number in _SIGNALS:
        # A background job ignores Ctrl-C, and nohup a closed terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    status = _main(app) if _has_output() else _complain("standard output is closed", 1)
    for number in _SIGNALS:
        # All work is done, and only Python has to end.
        signal.signal(number, signal.SIG_IGN)
    sys.exit(status)


def _stop(number: int, _: object) -> None:
    raise Stopped(number)


def _has_output() -> bool:
    """Say whether standard output is open.

    Another closed standard stream becomes /dev/null, so that no file is opened in its place.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        return False
    # File names that are not valid text must not make the output fail.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return True


def _main(app: Any) -> int:
    status = _status(app)
    try:
        sys.stdout.flush()
    except OSError as error:
        status = _unwritten(error)
    try:
        sys.stderr.flush()
    except OSError:
        # Only the exit status can be reported.
        _discard(sys.stderr)
    return status


def _discard(stream: TextIO) -> None:
    """Discard everything written to a stream, including its buffer when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unwritten(error: OSError) -> int:
    """Report that standard output could not be written."""
    _discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        # The reader of the output has seen enough.
        return 1
    return _complain(f"standard output cannot be written: {error.strerror}", 1)


def _status(app: Any) -> int:
    try:
        # With standalone_mode=False an exit status that was raised is returned.
        return int(app(standalone_mode=False) or 0)
    except NanoplaneError as error:
        return _complain(str(error), error.exit_status)
    except KeyboardInterrupt as error:
        interrupted = Interrupted("stopped", error)
        return _complain(str(interrupted), interrupted.exit_status)
    except SystemExit as end:
        # Shell completion ends like this, and so do Rich and Typer if a pipe is closed.
        return _unwritten(BrokenPipeError()) if end.code else 0
    except OSError as error:
        if error.filename is not None:
            return _complain(f"{error.filename}: {error.strerror}", 1)
        # An error without a file name is of standard output.
        return _unwritten(error)
    except Exception as error:
        # Typer has its own copy of Click, and does not export its exceptions; they format
        # themselves.
        if (format_message := getattr(error, "format_message", None)) is not None:
            sentence = format_message()
            if sentence.startswith("Usage:"):
                # A group of commands without a command.
                print(sentence, file=sys.stderr)
                return 2
            return _complain(f"{_one_line(sentence)}{_help(error)}", 2)
        return _complain(_defect(error), 1)


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "the command line is incomplete; --help says what there is"


def _help(error: Exception) -> str:
    """Name the help of the command whose arguments are wrong."""
    context = getattr(error, "ctx", None)
    return "" if context is None else f" `{context.command_path} --help` shows its use."


def _complain(sentence: str, status: int) -> int:
    from nanoplane import report

    with contextlib.suppress(OSError):
        print(f"nanoplane: {report.printable(sentence)}", file=sys.stderr, flush=True)
    return status


def _defect(error: BaseException) -> str:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="nanoplane-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(f"{sys.argv}\n")
        traceback.print_exception(error, file=log)
    return f"this is a defect of nanoplane ({type(error).__name__}); {log.name} tells more"
