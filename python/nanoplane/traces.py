"""Traces of a run for viewers: timelines, pipelines, profiles, logs of instructions."""

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nanoplane import report
from nanoplane.errors import DescriptionError, Failure

_FORMATS = {".pftrace": "timeline", ".kanata": "pipeline"}
_UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)")


def nanoseconds(text: str) -> float | None:
    """Parse a simulated time such as `10us`; return None if it is invalid."""
    match = _TIME.fullmatch(text)
    time_ns = math.inf if match is None else float(match[1]) * _UNITS_NS[match[2]]
    return time_ns if math.isfinite(time_ns) else None


@dataclasses.dataclass(frozen=True)
class Traces:
    """The trace options of the command line, all of them optional."""

    files: tuple[Path, ...] = ()
    """A timeline for Perfetto (.pftrace), the pipeline of one core for Konata (.kanata)."""
    window: str | None = None
    """The simulated time to show, as in `10us..20us`."""
    slower_than: str | None = None
    """Show only requests slower than this percentile, as in `p99.9`."""
    core: int = 0
    """The core whose pipeline is shown."""
    profile: Path | None = None
    """The profile of cycles, as folded stacks."""
    slowest: int = 0
    """The number of slowest requests to explain and show."""
    log: Path | None = None
    """A log of all retired instructions, in the format of Spike's commit log."""

    def __bool__(self) -> bool:
        """Whether any option is set."""
        return bool(self.paths) or self.slowest > 0

    def options(self) -> dict[str, Any]:
        """Check all options, and return them in the simulator's form."""
        options: dict[str, Any] = {"pipeline_core": self.core, "slowest": self.slowest}
        for path in self.files:
            kind = _FORMATS.get(path.suffix)
            if kind is None:
                raise DescriptionError(
                    f'--trace is "{path}"; its name must end in .pftrace (a timeline for Perfetto) '
                    "or .kanata (the pipeline of a core for Konata)"
                )
            if kind in options:
                raise DescriptionError(f"--trace asks for two files ending in {path.suffix}")
            options[kind] = str(path)
        if self.profile is not None:
            options["profile"] = str(self.profile)
        if self.log is not None:
            options["log"] = str(self.log)
        if self.window is not None and self.slower_than is not None:
            raise DescriptionError("--trace-window and --trace-slower-than exclude each other")
        for name, value in (
            ("--trace-window", self.window),
            ("--trace-slower-than", self.slower_than),
        ):
            if self.slowest and value is not None:
                raise DescriptionError(
                    f"--slowest limits the trace to the requests that it explains; leave {name} "
                    "or --slowest out"
                )
        if self.window is not None:
            options["window_ns"] = self._window_ns(self.window)
        if self.slower_than is not None:
            options["slower_than"] = self._part(self.slower_than)
        if not self.files and self.log is None:
            for name, value in (
                ("--trace-window", self.window),
                ("--trace-slower-than", self.slower_than),
            ):
                if value is not None:
                    raise DescriptionError(
                        f"{name} limits what --trace or --log writes, which is missing"
                    )
        for output in self.paths:
            report.check_writable(output)
        return options

    @staticmethod
    def _window_ns(window: str) -> list[float]:
        ends = [nanoseconds(end) for end in window.split("..")]
        times = [end for end in ends if end is not None]
        if len(ends) != 2 or len(times) != 2:
            raise DescriptionError(
                f'--trace-window is "{window}"; it must be two simulated times, as in 10us..20us '
                "(units: ns, us, ms, s)"
            )
        start, end = times
        if start >= end:
            raise DescriptionError(
                f'--trace-window is "{window}", which is empty; the first time must be the earlier'
            )
        return [start, end]

    @staticmethod
    def _part(percentile: str) -> float:
        text = percentile.removeprefix("p")
        try:
            part = float(text) / 100
        except ValueError:
            part = -1.0
        if not 0 <= part < 1:
            raise DescriptionError(
                f'--trace-slower-than is "{percentile}"; it must be a percentile below 100, as in '
                "p99.9"
            )
        return part

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are written."""
        others = (self.profile, self.log)
        return (*self.files, *(path for path in others if path is not None))

    def check(self, result: Mapping[str, Any]) -> None:
        """Raise Failure if a requested trace is missing or incomplete."""
        for trace in result.get("traces", []):
            if trace["error"] is not None:
                raise Failure(trace["error"])
            if trace["entries"]:
                continue
            if self.window is not None:
                ended_us = result["simulated_seconds"] * 1e6
                raise Failure(
                    f"{trace['path']}: the trace is empty: nothing happened in {self.window} of "
                    f"simulated time; the run ended at {ended_us:.3f}us"
                )
            if self.slower_than is not None:
                raise Failure(
                    f"{trace['path']}: the trace is empty: no request was slower than the "
                    f"{self.slower_than}; measure more requests"
                )
            who = "no core" if trace["path"] == str(self.log) else f"core {self.core}"
            verb = "did anything" if who == "no core" else "did nothing"
            raise Failure(f"{trace['path']}: the trace is empty: {who} {verb}")
