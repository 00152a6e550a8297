"""The compiled simulator (crates/python)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

class SimulationError(Exception):
    """A run that could not be done; `kind` says why."""

    kind: str

def schema(kind: str) -> str: ...
def result_schema(kind: str) -> str: ...
def presets() -> str: ...
def version() -> str: ...
def histogram_bins(text: str) -> list[tuple[int, int]]: ...
def run(
    description_json: str,
    elves: list[bytes],
    files: Mapping[str, bytes],
    options_json: str,
    progress: Callable[[float], None] | None,
) -> str: ...
def warm_up(
    description_json: str,
    elves: list[bytes],
    files: Mapping[str, bytes],
    checkpoint: Path,
    progress: Callable[[float], None] | None,
) -> None: ...
def queueing(
    description_json: str,
    files: Mapping[str, bytes],
    progress: Callable[[float], None] | None,
) -> str: ...
def check(description_json: str) -> tuple[str, str] | None: ...
def conflicts(
    hyperplane_json: str, banks: int, lines: str, doorbells: int, seeds: int
) -> list[int]: ...
def execute(program: Mapping[str, Any], description_json: str, options_json: str) -> str: ...
def execute_functionally(
    program: Mapping[str, Any], description_json: str, options_json: str
) -> str: ...
