"""The simulator's interface to Python: the compiled module's functions, with parsed JSON."""

import functools
import importlib
import json
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError, ProgramError

if TYPE_CHECKING:  # Importing types only for annotations would delay the command.
    from nanoplane.results import (
        ExecuteResult,
        FunctionalResult,
        QueueingResult,
        RackResult,
        RunResult,
    )

# Kinds of the compiled module's errors that are errors of the request.
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
def schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a resolved description of a `server`, a `rack` or a `queueing`."""
    parsed: dict[str, Any] = json.loads(_module().schema(kind))
    return parsed


@functools.cache
def result_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of the results of a kind of `fields.KINDS`, which has every field."""
    parsed: dict[str, Any] = json.loads(_module().result_schema(kind))
    return parsed


@functools.cache
def presets() -> dict[str, dict[str, Any]]:
    """Return the papers' machines: from name to `server`, `description` and `source`."""
    parsed: dict[str, dict[str, Any]] = json.loads(_module().presets())
    return parsed


@functools.cache
def version() -> str:
    """Return the simulator's version; results of different versions are never mixed."""
    return str(_module().version())


def histogram_bins(text: str) -> list[tuple[int, int]]:
    """Return the non-empty bins of a result's histogram, in ascending order.

    Each is the lowest value of the bin, in the unit given in docs/result-fields.md, and its count.
    Raises `DescriptionError` if `text` is not an HdrHistogram (V2, compressed) in base64.
    """
    try:
        bins: list[tuple[int, int]] = _module().histogram_bins(text)
    except Exception as error:
        raise _translate(error) or error from None
    return bins


def without_host(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without the fields about the host.

    The rest is the same to the bit on any host and with any `simulator.lookahead_cycles` and
    `simulator.skip_spinning`.
    """
    return {name: value for name, value in result.items() if not name.startswith("host_")}


def _translate(error: BaseException) -> NanoplaneError | None:
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("stopped", error)
    if not isinstance(error, _module().SimulationError):
        return None
    kind = getattr(error, "kind", "")
    return _WRONG_QUESTION.get(kind, Failure)(str(error))


def _run(
    description: Mapping[str, Any],
    elves: Sequence[bytes],
    options: Mapping[str, Any] | None,
    progress: Callable[[float], None] | None,
    files: Mapping[str, bytes] | None,
) -> Any:
    try:
        text = _module().run(
            json.dumps(description),
            list(elves),
            dict(files or {}),
            json.dumps(options or {}),
            progress,
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    return json.loads(text)


def run(
    description: Mapping[str, Any],
    elf: bytes,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> "RunResult":
    """Run one resolved description of a server and return the result.

    `files` has the contents of the data files that the description names, by path:
    `Resolved.contents`. `progress` is called regularly with the completed fraction, from 0 to 1; if
    it raises an exception, the run ends early with it.
    """
    result: RunResult = _run(description, [elf], options, progress, files)
    return result


def rack(
    description: Mapping[str, Any],
    elves: Sequence[bytes],
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> "RackResult":
    """Run one resolved description of a rack, with the ELF file of each entry of `rack.servers`.

    `options`, `progress` and `files` are as in `run`.
    """
    result: RackResult = _run(description, elves, options, progress, files)
    return result


def check(description: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the error of a resolved description that can be detected without a run.

    It is the key of the wrong parameter and a sentence, or None if the description can run.
    """
    try:
        wrong: tuple[str, str] | None = _module().check(json.dumps(description))
    except Exception as error:
        raise _translate(error) or error from None
    return wrong


def conflicts(
    hyperplane: Mapping[str, Any], banks: int, lines: str, doorbells: int, seeds: int
) -> list[int]:
    """Return how many of `doorbells` QWAIT.ADDs conflict, for each of several monitoring sets.

    `hyperplane` is the table `server.hyperplane`; `lines` selects the lines of the doorbells:
    `random`, `random-in-turn` (the banks in turn) or `consecutive`.
    """
    try:
        found: list[int] = _module().conflicts(
            json.dumps(hyperplane), banks, lines, doorbells, seeds
        )
    except Exception as error:
        raise _translate(error) or error from None
    return found


def queueing(
    description: Mapping[str, Any],
    progress: Callable[[float], None] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> "QueueingResult":
    """Simulate a queueing system Q x U without a server; return latencies in mean service times.

    For example `{"queueing": {"queues": 1, "units": 16, "load": 0.8, "service_times":
    {"distribution": "exponential"}}}`. `progress` and `files` are as in `run`.
    """
    try:
        text = _module().queueing(json.dumps(description), dict(files or {}), progress)
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: QueueingResult = json.loads(text)
    return result


def warm_up(
    description: Mapping[str, Any],
    elf: bytes,
    checkpoint: Path,
    progress: Callable[[float], None] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Run the warm start of a resolved description, and save a checkpoint of its end."""
    try:
        _module().warm_up(json.dumps(description), [elf], dict(files or {}), checkpoint, progress)
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None


@dataclass(frozen=True)
class Program:
    """An ELF file to execute, and its input.

    `path` is its first argument; `environment` has entries `NAME=VALUE`. A Linux program can access
    the files in the working directory, those beneath `root`, or with `host_files` all of the
    user's; with `read_only` it can change none.
    """

    elf: bytes
    path: str
    arguments: Sequence[str] = ()
    environment: Sequence[str] = ()
    root: Path | None = None
    host_files: bool = False
    read_only: bool = False

    def _given(self) -> dict[str, Any]:
        return {
            **vars(self),
            "path": os.fsencode(self.path),
            "arguments": [os.fsencode(argument) for argument in self.arguments],
            "environment": [os.fsencode(variable) for variable in self.environment],
        }


def execute(
    program: Program,
    description: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> "ExecuteResult":
    """Run a program whose output goes to standard output; return `exit_status` and statistics."""
    try:
        text = _module().execute(
            program._given(), json.dumps(description), json.dumps(options or {})
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: ExecuteResult = json.loads(text)
    return result


def execute_functionally(
    program: Program,
    description: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> "FunctionalResult":
    """Run a program like `execute`, but without simulated time, only for its output.

    `options` has `limits`, like those of `execute`, and `log`: the file that gets a line for each
    retired instruction.
    """
    try:
        text = _module().execute_functionally(
            program._given(), json.dumps(description), json.dumps(options or {})
        )
    except (Exception, KeyboardInterrupt) as error:
        raise _translate(error) or error from None
    result: FunctionalResult = json.loads(text)
    return result
