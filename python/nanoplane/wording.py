"""Common parts of messages about wrong input."""

import decimal
import difflib
import json
from pathlib import Path
from typing import Any

from nanoplane import compiler

EXAMPLES = Path(__file__).parent / "examples"
"""The examples: in a checkout a link to examples/, in a wheel a copy of it."""
DEEPEST = 32
"""The maximum nesting depth of tables and arrays: more than any key needs."""
TOO_DEEP = f"tables or arrays are more than {DEEPEST} deep in each other, and no key takes that"


def show(value: Any) -> str:
    """Write a value for a message."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return short(json.dumps(value, ensure_ascii=False))


def short(text: str) -> str:
    """Return the beginning of a text that is too long for a message, and other texts unchanged."""
    return text if len(text) <= 200 else f"{text[:200]}…"


def bound(value: float) -> str:
    """Write a bound as a user would: 10000 and 0.000001, not 10000.0 and 1e-06."""
    if not isinstance(value, float):
        return str(value)
    text = f"{decimal.Decimal(repr(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def choice(found: str, known: Any) -> str:
    """List the known names, and suggest the intended one."""
    names = sorted(known)
    near = difflib.get_close_matches(found, names, 1, 0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    return "it must be " + alternatives([f'"{name}"' for name in names])


def alternatives(names: list[str]) -> str:
    """Write names as alternatives: `a, b or c`."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def no_such_file(path: Path) -> str:
    """Say that a file does not exist, and suggest the intended one."""
    if compiler.is_directory(path):
        return f"{path}: this is a directory, not a file"
    sentence = f"{path}: there is no such file"
    if path.parts[:1] == ("examples",) and compiler.is_file(EXAMPLES.parent / path):
        return f"{sentence}; `nanoplane examples` writes the examples into examples/"
    if compiler.is_directory(path.parent):
        near = difflib.get_close_matches(path.name, [one.name for one in path.parent.iterdir()], 1)
        if near:
            sentence += f'; did you mean "{path.parent / near[0]}"?'
    return sentence
