"""Limits on a run's use of the host: the options of the command line."""

import dataclasses
import re
from typing import Any

from nanoplane.errors import DescriptionError

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_MOST = 2**64 - 1


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits as written; None stands for the simulator's default."""

    time: str | None = None
    """Wall-clock time of the host, as in `90s` or `2h`."""
    instructions: str | None = None
    """Instructions of all harts, as in `5000000` or `5e9`."""
    output: str | None = None
    """The guest's output, as in `10MiB`."""

    def options(self) -> dict[str, Any]:
        """Check all limits, and return those that are given in the simulator's form."""
        options: dict[str, Any] = {}
        if self.time is not None:
            options["seconds"] = _quantity(
                "--max-time", self.time, _SECONDS, "a time of the host, as in 90s"
            )
        if self.instructions is not None:
            options["instructions"] = self._count(self.instructions)
        if self.output is not None:
            amount = _quantity("--max-output", self.output, _BYTES, "an amount, as in 10MiB")
            options["output_bytes"] = int(min(amount, _MOST))
        return options

    @staticmethod
    def _count(text: str) -> int:
        match = re.fullmatch(r"(\d{1,19})(?:e(\d{1,2}))?", text)
        count = None if match is None else int(match[1] + "0" * int(match[2] or 0))
        if count is None or count > _MOST:
            raise DescriptionError(
                f'--max-instructions is "{text}"; it must be a whole number below 2^64, as in '
                "5000000 or 5e9"
            )
        return count


def _quantity(name: str, text: str, units: dict[str, Any], accepted: str) -> float:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)([A-Za-z]+)", text)
    if match is None or match[2] not in units:
        raise DescriptionError(
            f'{name} is "{text}"; it must be {accepted} (units: {", ".join(units)})'
        )
    return float(match[1]) * float(units[match[2]])
