"""Progress of long work, on standard error: a bar on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A fifth of the start of the command, and only a bar needs it.
    import rich.progress

_QUIET_SECONDS = 1.0
_LINE_EVERY_SECONDS = 5.0


class Watcher(Protocol):
    """The receiver of a sweep's progress."""

    def update(self, fraction: float, finished: int, runs: int) -> None:
        """Report the completed fraction (0 to 1), and the numbers of finished and of all runs."""


class Progress:
    """A watcher that shows, at most once a second, the progress and the remaining time."""

    def __init__(self, what: str = "runs done") -> None:
        """Start without output; `what` is counted."""
        self._what = what
        self._start = time.monotonic()
        self._last_line = self._start
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def __enter__(self) -> "Progress":
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the terminal."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.stop()

    def update(self, fraction: float, finished: int, runs: int) -> None:
        """Show the state, see `Watcher`."""
        # Work does not end because its progress cannot be shown.
        with contextlib.suppress(OSError):
            self._tell(fraction, finished, runs)

    def _tell(self, fraction: float, finished: int, runs: int) -> None:
        now = time.monotonic()
        elapsed = now - self._start
        if elapsed < _QUIET_SECONDS:
            return
        if sys.stderr.isatty():
            self._show(fraction, finished, runs)
        elif now - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = now
            # A run that has all of its samples may still go on, until it is steady or precise.
            left = elapsed / fraction - elapsed if fraction > 0.01 else 0.0
            about = f", about {left:.0f} s left" if left >= 0.5 else ""
            done = f"{finished} of {runs} {self._what}, {int(100 * fraction)}%{about}"
            print(done, file=sys.stderr)

    def _show(self, fraction: float, finished: int, runs: int) -> None:
        import rich.console
        import rich.progress

        if self._bar is None or self._task is None:
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"),
                rich.progress.BarColumn(),
                rich.progress.TaskProgressColumn(),
                rich.progress.TimeRemainingColumn(),
                console=rich.console.Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0)
            self._bar.start()
        self._bar.update(
            self._task, completed=fraction, description=f"{finished} of {runs} {self._what}"
        )
