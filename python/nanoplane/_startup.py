"""Start-up code that runs before anything else is imported.

Loading takes a good part of a second, in which Ctrl-C would print a traceback. No work that needs
an orderly end has begun, so the signal ends the command immediately, as for any other command.
`cli.main` handles later signals.
"""

import signal
import sys
from pathlib import Path


def _is_command() -> bool:
    """Whether Python was started for the command, not for a program that imports this."""
    name = Path(getattr(sys, "argv", [""])[0]).name
    if name != "-m":
        return name == "nanoplane"
    # Python is still searching for the module to run.
    _, _, module = " ".join(sys.orig_argv).partition(" -m ")
    return module.split(" ")[0] == "nanoplane"


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
