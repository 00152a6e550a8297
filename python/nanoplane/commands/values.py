"""Values of the command line's parameters, without what Typer imports for them.

Typer reads each value with an adapter of Pydantic, which takes a third of a second of processor
time to import and to build: more than everything else before a command begins. Strings, paths and
default values need no adapter. Typer reads the remaining values itself, and reports their errors.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

_NOTHING = object()


def quicken(command: Any) -> Any:
    """Let the parameters of a command, including `--help`, read simple values themselves."""
    find: Callable[[Any], list[Any]] = command.get_params

    def get_params(context: Any) -> list[Any]:
        parameters = find(context)
        for parameter in parameters:
            # Typer's cache for the parser built at the first value. A version without this
            # attribute builds its own parser, and is only slower.
            if getattr(parameter, "_runtime_param", _NOTHING) is None:
                parameter._runtime_param = _Plain()
        return parameters

    command.get_params = get_params
    return command


class _Plain:
    """Parses the values of a parameter in place of Typer."""

    def __init__(self) -> None:
        self._typers: Any = None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command gets it."""
        described = param.type_descriptor
        several = param.multiple or param.nargs == -1
        wanted = described.annotation
        if value is None:
            return () if several else None
        if several and get_origin(wanted) is list and isinstance(value, tuple | list):
            (of,) = get_args(wanted)
            values = [_simple(one, of, described.parameter_info) for one in value]
            if _NOTHING not in values:
                return values
        elif not several:
            found = _simple(value, wanted, described.parameter_info)
            if found is not _NOTHING:
                return found
        if self._typers is None:
            from typer._coercion import build_runtime_param

            self._typers = build_runtime_param(described)
        return self._typers.coerce(value, param=param, ctx=ctx)


def _simple(value: Any, wanted: Any, info: Any) -> Any:
    """Convert a value to the wanted type; `_NOTHING` if Typer has to do it."""
    if not isinstance(wanted, type):
        return _NOTHING
    if isinstance(value, str) and info.parser is None:
        if wanted is str:
            return value
        # Typer reports values that cannot be read.
        if wanted is Path and (not os.path.lexists(value) or os.access(value, os.R_OK)):
            return Path(value)
        return _NOTHING
    if type(value) is wanted and wanted in (int, float, bool) and _is_within(value, info):
        return value
    return value if wanted is Path and isinstance(value, Path) else _NOTHING


def _is_within(value: Any, info: Any) -> bool:
    above = info.min is None or value >= info.min
    return bool(above and (info.max is None or value <= info.max))
