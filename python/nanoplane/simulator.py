"""The simulator as Python sees it: the compiled module's functions, with JSON taken apart."""

import functools
import importlib
import json
import os
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError, ProgramError

# Kinds of the compiled module's errors which mean that the question was wrong.
_WRONG_QUESTION = {"description": DescriptionError, "program": ProgramError}


@functools.cache
def _module() -> types.ModuleType:
    try:
        return importlib.import_module("nanoplane._simulator")
    except ImportError as error:
        raise Failure(
            f"the compiled simulator cannot be loaded ({error}); `make build` builds it"
        ) from None


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of a resolved description."""
    parsed: dict[str, Any] = json.loads(_module().schema())
    return parsed


@functools.cache
def queueing_schema() -> dict[str, Any]:
    """Return the JSON schema of a description of a queueing system without a server."""
    parsed: dict[str, Any] = json.loads(_module().queueing_schema())
    return parsed


@functools.cache
def rack_schema() -> dict[str, Any]:
    """Return the JSON schema of a resolved description of a rack."""
    parsed: dict[str, Any] = json.loads(_module().rack_schema())
    return parsed


@functools.cache
def presets() -> dict[str, dict[str, Any]]:
    """Return the papers' machines: name to `server`, `description` and `source`."""
    parsed: dict[str, dict[str, Any]] = json.loads(_module().presets())
    return parsed


@functools.cache
def version() -> str:
    """Return the simulator's version; results of different versions are never mixed."""
    return str(_module().version())


def _translate(error: BaseException) -> NanoplaneError | None:
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("stopped")
    if not isinstance(error, _module().SimulationError):
        return None
    kind = getattr(error, "kind", "")
    return _WRONG_QUESTION.get(kind, Failure)(str(error))


def run(
    description: Mapping[str, Any],
    elf: bytes,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run one resolved description of a server and return what was measured.

    `progress` is called now and then with the part that is done, from 0 to 1; the run ends early
    with whatever exception it raises.
    """
    try:
        text = _module().run(json.dumps(description), elf, json.dumps(options or {}), progress)
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: dict[str, Any] = json.loads(text)
    return result


def conflicts(
    hyperplane: Mapping[str, Any], banks: int, lines: str, doorbells: int, seeds: int
) -> list[int]:
    """Return how many of `doorbells` QWAIT.ADDs conflict, for each of so many monitoring sets.

    `hyperplane` is the table `server.hyperplane`; `lines` says which lines the doorbells have:
    `random`, `random-in-turn` (the banks have their turn) or `consecutive`.
    """
    try:
        found: list[int] = _module().conflicts(
            json.dumps(hyperplane), banks, lines, doorbells, seeds
        )
    except Exception as error:
        raise _translate(error) or error from None
    return found


def queueing(
    description: Mapping[str, Any], progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Simulate a queueing system Q x U without a server; return latencies in mean service times.

    For example `{"queueing": {"queues": 1, "units": 16, "load": 0.8, "service_times":
    {"distribution": "exponential"}}}`. `progress` is as in `run`.
    """
    begin = time.perf_counter()
    try:
        text = _module().queueing(json.dumps(description), progress)
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: dict[str, Any] = json.loads(text)
    return {**result, "host_seconds": time.perf_counter() - begin, "version": version()}


def rack(
    description: Mapping[str, Any],
    elves: Sequence[bytes],
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run one resolved description of a rack, with the ELF file of each entry of `rack.servers`.

    `options` and `progress` are as in `run`.
    """
    try:
        text = _module().rack(
            json.dumps(description), list(elves), json.dumps(options or {}), progress
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: dict[str, Any] = json.loads(text)
    return result


def warm_up(
    description: Mapping[str, Any],
    elf: bytes,
    checkpoint: Path,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Run the warm start of a resolved description, and save a checkpoint of its end."""
    try:
        _module().warm_up(json.dumps(description), elf, checkpoint, progress)
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None


def execute(
    elf: bytes,
    path: str,
    arguments: Sequence[str],
    environment: Sequence[str],
    description: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run an ELF whose output goes to standard output; return `exit_status` and statistics.

    `path` is the program's first argument; `environment` has a `NAME=VALUE` each.
    """
    try:
        text = _module().execute(
            elf,
            os.fsencode(path),
            [os.fsencode(argument) for argument in arguments],
            [os.fsencode(variable) for variable in environment],
            json.dumps(description),
            json.dumps(options or {}),
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: dict[str, Any] = json.loads(text)
    return result


def execute_functionally(
    elf: bytes,
    path: str,
    arguments: Sequence[str],
    environment: Sequence[str],
    description: Mapping[str, Any],
) -> dict[str, Any]:
    """Run an ELF as `execute` does, but only for what it computes: no time is simulated."""
    try:
        text = _module().execute_functionally(
            elf,
            os.fsencode(path),
            [os.fsencode(argument) for argument in arguments],
            [os.fsencode(variable) for variable in environment],
            json.dumps(description),
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: dict[str, Any] = json.loads(text)
    return result
