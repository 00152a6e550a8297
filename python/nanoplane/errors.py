"""Errors, each with its exit status on the command line."""

import signal


class NanoplaneError(Exception):
    """Something a user should read as it stands: one sentence, at times with a short report."""

    exit_status = 1


class DescriptionError(NanoplaneError):
    """The request is wrong: a key, a value, a file or a name that cannot be used."""

    exit_status = 2


class ProgramError(DescriptionError):
    """The server cannot run the program, or it does not compile."""


class Failure(NanoplaneError):
    """The request is right but the work failed: a guest crashed, a disk is full."""


class Stopped(KeyboardInterrupt):
    """A signal has come that ends the work as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        """Note the signal's number."""
        super().__init__()
        self.number = number


class Interrupted(NanoplaneError):
    """The user stopped a sweep; the runs that had finished are in the store.

    The exit status is a shell's for a program that was ended by the signal.
    """

    def __init__(self, sentence: str, cause: BaseException | None = None) -> None:
        """Note what is to be said; `cause` tells the signal if it is not that of Ctrl-C."""
        super().__init__(sentence)
        number = cause.number if isinstance(cause, Stopped) else signal.SIGINT
        self.exit_status = 128 + number
