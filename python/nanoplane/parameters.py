"""Parameters: the values and meaning of each key of a description, from the simulator's schemas.

A parameter is declared once, at its field in Rust. In a table's text the paragraph that begins with
`Defaults:` gives the source of its defaults, and of those of its tables without their own.
"""

import difflib
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nanoplane import schemas, simulator
from nanoplane.errors import DescriptionError

_DEFAULTS = "Defaults: "
_SCHEMAS: tuple[Callable[[], dict[str, Any]], ...] = (
    schemas.user_schema,
    schemas.queueing_schema,
    schemas.rack_schema,
)
"""The schemas of the kinds of descriptions: a server, a queueing system, a rack."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A key of a description: a value, or a table with its own keys."""

    key: str
    """In the form of `--set`; for a list, the key of the first entry."""
    schema: Mapping[str, Any]
    around: str = ""
    """The source of the defaults of the enclosing table."""

    @property
    def text(self) -> str:
        """Its meaning."""
        return "\n\n".join(one for one in self._paragraphs() if not one.startswith(_DEFAULTS))

    @property
    def sentence(self) -> str:
        """The first sentence of the text."""
        return re.split(r"(?<=\.)\s+(?=[A-Z`\"])|\n", self.text)[0]

    @property
    def takes(self) -> str:
        """Type and range of its values."""
        accepted = schemas.accepts(self.schema, "")
        for one in schemas.branches(self.schema):
            if "items" in one:
                accepted += f", each entry {schemas.accepts(one['items'], '')}"
        return accepted

    @property
    def unit(self) -> str | None:
        """The unit of its values."""
        return None if self.is_table else schemas.unit_of(self.key)

    @property
    def default(self) -> Any:
        """Its default; None if there is none, or if the default is null."""
        return None if self.is_table else self.schema.get("default")

    @property
    def source(self) -> str:
        """The source of its default, or of the defaults in it."""
        own = [one for one in self._paragraphs() if one.startswith(_DEFAULTS)]
        return own[0].removeprefix(_DEFAULTS) if own else self.around

    @property
    def presets(self) -> dict[str, Any]:
        """Its values in the presets, if it belongs to the machine."""
        key = self.key.removeprefix("rack.servers.0.")
        values = {name: _at(of, key) for name, of in simulator.presets().items()}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def is_table(self) -> bool:
        """Whether it has its own keys."""
        return bool(self.inside())

    def inside(self) -> list["Parameter"]:
        """Return the parameters of a table; for a list of tables, those of its first entry."""
        found: dict[str, Parameter] = {}
        for one in schemas.branches(self.schema):
            if "items" in one:
                entry = Parameter(f"{self.key}.0", one["items"], self.source)
                return [entry] if entry.is_table else []
            for name, of in one.get("properties", {}).items():
                # The key that distinguishes alternatives is in each of them.
                of = _joined(found[name].schema, of) if name in found else of
                found[name] = Parameter(f"{self.key}.{name}".lstrip("."), of, self.source)
        return list(found.values())

    def _paragraphs(self) -> list[str]:
        texts = [self.schema.get("description", ""), self.schema.get("about", "")]
        if "const" not in self.schema:
            tables = schemas.branches(self.schema)
            texts += [one.get("description", "") for one in tables if "properties" in one]
        paragraphs = [" ".join(one.split()) for text in texts for one in text.split("\n\n")]
        return list(dict.fromkeys(one for one in paragraphs if one))


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    return one if one == other else {**other, "anyOf": [*schemas.branches(one), other]}


def _at(value: Any, key: str) -> Any:
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return None if isinstance(value, dict) else value


def find(key: str) -> Parameter:
    """Return the parameter of a dotted key; a server's, if several kinds of descriptions fit."""
    for root in _roots():
        if (found := _inside(root, key)) is not None:
            return found
    raise DescriptionError(f"{key} is not known; {_near(key)}")


def every(prefix: str = "") -> Iterator[Parameter]:
    """Return all keys that begin with a prefix, in the order of a description, including tables.

    The prefix ends with a whole name. A table with the same keys as an earlier one, such as a
    rack's server, is listed without them, unless the prefix leads into it. Raises a
    DescriptionError if no key begins with the prefix.
    """
    shapes: list[list[Line]] = []

    def walk(table: Parameter) -> Iterator[Parameter]:
        for one in table.inside():
            yield one
            if one.is_table and (shape := lines(one)) not in shapes:
                shapes.append(shape)
                yield from walk(one)

    if prefix:
        found = find(prefix)
        # As the user wrote it: for example another entry of a list.
        yield Parameter(prefix, found.schema, found.around)
        yield from walk(Parameter(prefix, found.schema, found.around))
        return
    known: set[str] = set()
    for root in _roots():
        for one in walk(root):
            if one.key not in known:
                known.add(one.key)
                yield one


def _inside(table: Parameter, key: str) -> Parameter | None:
    for name in key.split("."):
        inside = {one.key.rsplit(".", 1)[-1]: one for one in table.inside()}
        place = "0" if name.isdecimal() else name
        if place not in inside:
            return None
        table = inside[place]
    return table


def _near(key: str) -> str:
    """Suggest the intended key."""

    def keys(table: Parameter) -> Iterator[str]:
        for one in table.inside():
            yield one.key
            yield from keys(one)

    all_keys = [known for root in _roots() for known in keys(root)]
    named = {known.rsplit(".", 1)[-1]: known for known in reversed(all_keys)}
    near = difflib.get_close_matches(key, all_keys, 3, 0.9)
    near += [named[one] for one in difflib.get_close_matches(key.rsplit(".", 1)[-1], named, 3, 0.7)]
    if not near:
        return "`nanoplane keys` has all that are"
    meant = [f'"{one}"' for one in dict.fromkeys(near)][:3]
    return f"did you mean {' or '.join(meant)}?"


def _roots() -> Iterator[Parameter]:
    for schema in _SCHEMAS:
        yield Parameter("", schema())


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a user's description: a server, a queueing system, or a rack.

    Keys that a preset or a default fills in may be missing, so nothing is required. Alternatives
    that a name distinguishes keep that name.
    """
    kinds = [_optional(one()) for one in _SCHEMAS]
    for kind in kinds:
        kind["properties"]["extends"] = {
            "description": "What this description changes: the TOML file of another, or a preset.",
            "anyOf": [
                {"enum": sorted(simulator.presets())},
                {"type": "string", "pattern": "\\.toml$"},
            ],
        }
        servers = [kind["properties"].get("server")]
        rack = kind["properties"].get("rack", {})
        for one in schemas.branches(rack):
            entry = one.get("properties", {}).get("servers", {}).get("items", {})
            servers += [of.get("properties", {}).get("server") for of in [entry]]
        for server in servers:
            if server is not None:
                server["properties"]["preset"] = {
                    "description": "The machine whose fields are the defaults: a name, or a "
                    "TOML file with a table `server`.",
                    "anyOf": [
                        {"enum": sorted(simulator.presets())},
                        {"type": "string", "pattern": "\\.toml$"},
                    ],
                }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A description for nanoplane",
        "anyOf": kinds,
    }


def _optional(schema: Any) -> Any:
    """Return a schema in which keys may be missing, except those with one possible value."""
    if isinstance(schema, list):
        return [_optional(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: _optional(of) for name, of in schema.items()}
    properties = schema.get("properties")
    if isinstance(properties, dict) and "required" in schema:
        known["required"] = [
            name for name in schema["required"] if "const" in properties.get(name, {})
        ]
    return known


class Line(NamedTuple):
    """A line of the list of parameters."""

    name: str
    takes: str
    default: str
    """Without a default, the values of the presets."""
    unit: str
    sentence: str


def lines(table: Parameter) -> list[Line]:
    """Return a line for each parameter of a table."""
    return [line(one) for one in table.inside()]


def line(one: Parameter) -> Line:
    """Return the line of a parameter."""
    name = one.key.rsplit(".", 1)[-1]
    return Line(name, one.takes, _default(one), one.unit or "", one.sentence)


def _default(one: Parameter) -> str:
    if one.default is None:
        values = [json.dumps(value) for value in one.presets.values()]
        return values[0] if len(set(values)) == 1 else " / ".join(values)
    return json.dumps(one.default)


_HEAD = """# Parameters

<!-- written by `make docs` -->

All keys of descriptions, as the simulator declares them; `nanoplane explain KEY` says more of each.
The name of a list's entry is its number, from 0 on. A parameter of the machine without a default
has its values in the presets instead, or the one if it is the same in all:
PRESETS.
"""


def markdown() -> str:
    """Return the reference: all tables with their parameters, in the order of a description."""
    known: list[list[Line]] = []
    places: list[str] = []
    written = [_HEAD.replace("PRESETS.", _wrapped(", ".join(simulator.presets()) + "."))]

    def add(table: Parameter) -> str:
        """Write a table and those in it, unless it has been written; return its key."""
        shape = lines(table)
        if shape in known:
            return places[known.index(shape)]
        known.append(shape)
        places.append(table.key)
        at = len(written)
        rows = []
        for one, (name, takes, default, unit, sentence) in zip(table.inside(), shape, strict=True):
            if one.is_table:
                place = add(one)
                takes = f"{takes.split(',')[0]}: [{place}](#{place.replace('.', '')})"
            cells = (f"`{name}`", takes, f"`{default}`" if default else "", unit, sentence)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        paragraphs = [*table.text.split("\n\n"), table.source and _DEFAULTS + table.source]
        text = "\n\n".join(_wrapped(one) for one in dict.fromkeys(paragraphs))
        head = "| key | range | default | unit | |\n| --- | --- | --- | --- | --- |"
        written.insert(at, f"## {table.key}\n\n{text.strip()}\n\n{head}\n" + "\n".join(rows) + "\n")
        return table.key

    for root in _roots():
        # The network last: what its tables have in common with others is shown there.
        for table in sorted(root.inside(), key=lambda one: one.key in schemas.OF_NETWORK):
            if table.is_table:
                add(table)
    return "\n".join(written)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
