"""Checkpoints: the options of the command line."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from nanoplane import report
from nanoplane.errors import DescriptionError
from nanoplane.traces import nanoseconds


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """A checkpoint to save and one to start from; either may be missing."""

    save: Path | None = None
    """The path of the checkpoint to save."""
    at: str | None = None
    """When to save it: after a number of requests, as in `5000`, or a simulated time, as in
    `10us`."""
    begin: Path | None = None
    """The checkpoint to start from."""
    has_requests: bool = True
    """Whether the run has requests to count."""

    def __bool__(self) -> bool:
        """Whether any option is set."""
        return self.save is not None or self.begin is not None

    def options(self) -> dict[str, Any]:
        """Check all options, and return them in the simulator's form."""
        if self.at is not None and self.save is None:
            raise DescriptionError(
                "--checkpoint-at tells when --save-checkpoint saves, which is missing"
            )
        options: dict[str, Any] = {}
        if self.save is not None:
            report.check_writable(self.save)
            options["save"] = str(self.save)
            if self.at is not None:
                options |= self._moment(self.at)
            elif not self.has_requests:
                raise DescriptionError(
                    "--save-checkpoint needs the simulated time, as in --checkpoint-at 10us"
                )
        if self.begin is not None:
            options["from"] = str(self.begin)
        return options

    def _moment(self, at: str) -> dict[str, Any]:
        if (time_ns := nanoseconds(at)) is not None:
            return {"at_ns": time_ns}
        if self.has_requests and re.fullmatch(r"\d{1,18}", at):
            return {"at_requests": int(at)}
        accepted = "a simulated time, as in 10us (units: ns, us, ms, s)"
        if self.has_requests:
            accepted = f"a number of requests, as in 5000, or {accepted}"
        raise DescriptionError(f'--checkpoint-at is "{at}"; it must be {accepted}')
