"""The compiled simulator (crates/python)."""

from collections.abc import Callable

class SimulationError(Exception):
    """A run that could not be done; `kind` says why."""

    kind: str

def schema() -> str: ...
def queueing_schema() -> str: ...
def rack_schema() -> str: ...
def rack(
    description_json: str, elves: list[bytes], progress: Callable[[float], None] | None
) -> str: ...
def presets() -> str: ...
def version() -> str: ...
def run(
    description_json: str,
    elf: bytes,
    options_json: str,
    progress: Callable[[float], None] | None,
) -> str: ...
def conflicts(
    hyperplane_json: str, banks: int, lines: str, doorbells: int, seeds: int
) -> list[int]: ...
def queueing(description_json: str, progress: Callable[[float], None] | None) -> str: ...
def execute(
    elf: bytes,
    path: bytes,
    arguments: list[bytes],
    environment: list[bytes],
    description_json: str,
    trace_json: str,
) -> str: ...
def execute_functionally(
    elf: bytes,
    path: bytes,
    arguments: list[bytes],
    environment: list[bytes],
    description_json: str,
) -> str: ...
