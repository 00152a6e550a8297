"""What can go wrong, each with the exit status that the command line gives it."""


class NanoplaneError(Exception):
    """Something a user should read as it stands: one sentence, at times with a short report."""

    exit_status = 1


class DescriptionError(NanoplaneError):
    """The question was wrong: a key, a value, a file or a name that cannot be used."""

    exit_status = 2


class ProgramError(DescriptionError):
    """The program is none that the server can run."""


class Failure(NanoplaneError):
    """The question was right and the work failed: a guest crashed, a program did not compile."""


class Interrupted(NanoplaneError):
    """The user stopped a sweep; the runs that had finished are in the store."""
