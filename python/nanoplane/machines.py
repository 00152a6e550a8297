"""Machines: values of `server.preset`, the simulator's presets or the user's TOML files.

A file has one table, `server`, with any of its keys. Its own `server.preset` is the machine that it
modifies.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoplane import simulator
from nanoplane.errors import DescriptionError
from nanoplane.wording import DEEPEST, TOO_DEEP, choice, no_such_file, short, show


def is_file(preset: str) -> bool:
    """Say whether a preset is a file of the user rather than a name."""
    return preset.endswith(".toml")


def extended(server: Any, directory: Path, key: str) -> Any:
    """Return a table `server` with all keys of its preset, and of that preset's preset.

    A file's path is relative to `directory` or, in a file, to that file. Raises a DescriptionError,
    which begins with `key` if the key itself is wrong.
    """
    read: list[Path] = []
    while isinstance(server, dict) and "preset" in server:
        preset = server.pop("preset")
        if isinstance(preset, str) and is_file(preset):
            path = directory / preset
            if path.resolve() in read:
                raise DescriptionError(f"{key} is {show(preset)}, which extends itself")
            read.append(path.resolve())
            server = merge(_machine(path), server)
            directory, key = path.parent, f"{path}: server.preset"
            continue
        known = simulator.presets()
        if not isinstance(preset, str) or preset not in known:
            raise DescriptionError(f"{key} is {show(preset)}; {choice(str(preset), known)}")
        server = merge(known[preset]["server"], server)
    return server


def _machine(path: Path) -> Mapping[str, Any]:
    data = read_toml(path)
    check_plain(data, str(path))
    if others := sorted(data.keys() - {"server"}):
        raise DescriptionError(
            f"{path}: a preset is a machine, the table server; leave {others[0]} out"
        )
    server = data.get("server")
    if not isinstance(server, dict):
        raise DescriptionError(f"{path}: a preset is a machine, and has the table server")
    return server


_LEAVES = frozenset({str, bool, int, float, type(None)})
"""The types of values that are neither tables nor lists; an int may still be too large."""


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value with Python's own numbers and lists in place of NumPy's.

    They are recognized by `tolist()`, so NumPy need not be installed. Values nested too deeply for
    a description are returned unchanged.
    """
    if type(value) in _LEAVES or depth > DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {name: plain(of, depth + 1) for name, of in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(of, depth + 1) for of in value]
    to_plain = getattr(value, "tolist", None)
    return value if to_plain is None else to_plain()


def check_plain(data: Mapping[str, Any], source: str, depth: int = 0) -> None:
    """Refuse values that no description can have, whatever the keys.

    These are values without a JSON form, such as the dates of TOML; numbers beyond the range of the
    simulator; and nesting so deep that recursive functions would fail. `depth` is the nesting depth
    of `data`.
    """
    # Iterative, since recursion would fail, too.
    waiting: list[tuple[str, Any, int]] = [("", data, depth)]
    while waiting:
        key, value, depth = waiting.pop()
        if isinstance(value, (Mapping, list)):
            if depth > DEEPEST:
                raise DescriptionError(f"{source}: {short(key)}: {TOO_DEEP}")
            parts = value.items() if isinstance(value, Mapping) else enumerate(value)
            # No path is made for values that are certainly valid: figures make thousands of
            # descriptions, and most of their values are numbers below 2**64, texts and the like.
            inside = [
                (f"{key}.{name}" if key else str(name), part, depth + 1)
                for name, part in parts
                if type(part) not in _LEAVES or (type(part) is int and part.bit_length() > 64)
            ]
            waiting += reversed(inside)
        elif value is not None and not isinstance(value, (str, int, float, bool)):
            raise DescriptionError(
                f"{source}: {key} is {value}; it must be a text, a number, true or false"
            )
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            raise DescriptionError(
                f"{source}: {key} is a whole number of more than {sys.float_info.max_10_exp} "
                "digits, and no key takes that"
            )


_HINTS = {
    "Invalid value": '; a text has quotation marks, as in notify = "spin"',
    "Cannot overwrite a value": "; the key is there twice",
}
"""What to do about errors of Python's parser, by their beginnings."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a DescriptionError says what is wrong with it."""
    try:
        # Some editors begin a file with a byte order mark.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, IsADirectoryError):
        raise DescriptionError(no_such_file(path)) from None
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path}: this is not text in UTF-8 ({error.reason})") from None
    except tomllib.TOMLDecodeError as error:
        if path.suffix in (".c", ".elf"):
            raise DescriptionError(
                f"{path}: this is a program, not a description; a description names it: "
                f"--set data_plane.program={path}"
            ) from None
        hint = next((of for begin, of in _HINTS.items() if str(error).startswith(begin)), "")
        raise DescriptionError(f"{path}: this is not TOML: {error}{hint}") from None
    except RecursionError:
        raise DescriptionError(f"{path}: {TOO_DEEP}") from None
    except ValueError as error:
        # A whole number with thousands of digits.
        raise DescriptionError(f"{path}: this cannot be read as TOML: {error}") from None


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Override `base` by `changes`, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def toml(server: Mapping[str, Any]) -> str:
    """Return a machine as a TOML file: a line for each key, without unset ones."""
    lines = [f"{key} = {_value(value)}" for key, value in leaves(server) if value is not None]
    return "\n".join(["[server]", *lines, ""])


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Return all dotted keys with their values; entries of a list of tables have an index."""
    if isinstance(value, Mapping):
        for name, of in value.items():
            yield from leaves(of, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for number, of in enumerate(value):
            yield from leaves(of, f"{key}.{number}")
    else:
        yield key, value


def _value(value: Any) -> str:
    """Write a number, a text, a truth value or a list of these: TOML's form is that of JSON."""
    return json.dumps(value, ensure_ascii=False)
