"""Errors, each with its exit status on the command line."""

import signal


class NanoplaneError(Exception):
    """An error for users: one sentence, sometimes with a short report."""

    exit_status = 1


class DescriptionError(NanoplaneError):
    """The request is wrong: a key, a value, a file or a name that cannot be used."""

    exit_status = 2


class ProgramError(DescriptionError):
    """The server cannot run the program, or it does not compile."""


class Failure(NanoplaneError):
    """The request is right but the work failed: a guest crashed, a disk is full."""


class Stopped(KeyboardInterrupt):
    """A signal has arrived that ends the work like Ctrl-C."""

    def __init__(self, number: int) -> None:
        """Record the signal's number."""
        super().__init__()
        self.number = number


class Interrupted(NanoplaneError):
    """The user stopped a sweep; the runs that had finished are in the store.

    The exit status is that of a shell for a program ended by the signal.
    """

    def __init__(self, sentence: str, cause: BaseException | None = None) -> None:
        """Record the message; `cause` gives the signal if it is not that of Ctrl-C."""
        super().__init__(sentence)
        number = cause.number if isinstance(cause, Stopped) else signal.SIGINT
        self.exit_status = 128 + number
