"""The schemas of descriptions: keys and their values.

The schemas are the simulator's, without references, and with the parts that only Python resolves.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from nanoplane import simulator
from nanoplane.wording import alternatives, bound, show

# The unit at the end of a key's name, after an underscore, in words.
_UNITS = {
    "bytes": "bytes",
    "bytes_per_bank": "bytes",
    "cycles": "cycles",
    "entries": "entries",
    "fs": "femtoseconds",
    "gbps": "gigabits a second",
    "ghz": "gigahertz",
    "gib": "gibibytes",
    "gb_per_s": "gigabytes a second",
    "gbit_per_s": "gigabits a second",
    "kib": "kibibytes",
    "mhz": "megahertz",
    "mib": "mebibytes",
    "mrps": "million requests a second",
    "ms": "milliseconds",
    "mw": "milliwatts",
    "mw_per_bank": "milliwatts",
    "mw_per_controller": "milliwatts",
    "mw_per_tile": "milliwatts",
    "nj": "nanojoules",
    "ns": "nanoseconds",
    "pj": "picojoules",
    "ps": "picoseconds",
    "seconds": "seconds",
    "us": "microseconds",
    "w": "watts",
}
_LARGEST = {"uint8": 2**8 - 1, "uint16": 2**16 - 1, "uint32": 2**32 - 1}
_LARGEST |= {"uint64": 2**64 - 1, "uint": 2**64 - 1}

OF_NETWORK = frozenset({"clients", "count", "link", "name", "serves", "switch", "systems"})
"""Keys of a server alone that have defaults only if it has a network."""


@functools.cache
def user_schema() -> dict[str, Any]:
    """Return the schema of a description of a server alone, whose preset has been filled in.

    It is the simulator's, with the keys that Python resolves.
    """
    schema = _expanded(simulator.schema("server"))
    traffic = next(one for one in branches(schema["properties"]["traffic"]) if "properties" in one)
    traffic["properties"]["load"] = {
        "description": 'The offered load: "saturate", or a fraction of the peak '
        "that is measured first.",
        "default": None,
        "anyOf": [
            {"const": "saturate"},
            {"type": "number", "minimum": 0.0001, "maximum": 10},
            {"type": "null"},
        ],
    }
    return schema


@functools.cache
def network_schema() -> dict[str, Any]:
    """Return the same of a server with a network, whose peak is not measured first."""
    return _expanded(simulator.schema("server"))


@functools.cache
def queueing_schema() -> dict[str, Any]:
    """Return the schema of a description of a queueing system without a server."""
    return _expanded(simulator.schema("queueing"))


@functools.cache
def rack_schema() -> dict[str, Any]:
    """Return the schema of a description of a rack whose presets have been filled in."""
    return _expanded(simulator.schema("rack"))


def _expanded(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace each `$ref` of a schema by its definition, and bound every integer.

    A definition's own description becomes `about`, next to the `description` of the key that refers
    to it. Later look-ups then need not follow references. Definitions with several references are
    shared.
    """
    known: dict[str, Any] = {}

    def definition(reference: str) -> Any:
        if reference not in known:
            target: Any = schema
            for part in reference.removeprefix("#/").split("/"):
                target = target[part]
            known[reference] = expand(target)
        return known[reference]

    def expand(part: Any) -> Any:
        if isinstance(part, list):
            return [expand(one) for one in part]
        if not isinstance(part, dict):
            return part
        expanded = {
            name: expand(one) for name, one in part.items() if name not in ("$ref", "$defs")
        }
        if "$ref" in part:
            of = definition(part["$ref"])
            expanded = {**of, **expanded, "about": of.get("description", "")}
        if expanded.get("format") in _LARGEST:
            expanded.setdefault("maximum", _LARGEST[expanded["format"]])
        return expanded

    return dict(expand(schema))


def branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema: those of anyOf and oneOf, or itself."""
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return [branch for one in schema[name] for branch in branches(one)]
    return [schema]


def _over_default(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a table with the enclosing table's default for it applied.

    That can differ from the defaults of its own fields: PCI Express has eight lanes, and that of
    `cqe_nic` 16.
    """
    default = schema.get("default")
    is_one_table = len(branches(schema)) == 1 and "properties" in branches(schema)[0]
    if not (is_one_table and isinstance(value, dict) and isinstance(default, dict)):
        return value
    return default | value


_MOST_FILLED = 2000
_filled: dict[tuple[int, str], tuple[Mapping[str, Any], Any]] = {}
"""Schemas, by their identity, and tables and lists with their defaults, by the JSON of what was
given."""


def _once(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return what `with_defaults` does; for tables and lists that were equal, the same object.

    The racks of a figure have the same servers, and differ in the load alone.
    """
    if not isinstance(value, (dict, list)):
        return with_defaults(value, schema)
    key = id(schema), json.dumps(value)
    if key not in _filled:
        if len(_filled) >= _MOST_FILLED:
            _filled.clear()
        # The schema is kept, or another one might get its identity.
        _filled[key] = schema, with_defaults(value, schema)
    return _filled[key][1]


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return `value` with all defaults of the schema, and with the schema's types of numbers.

    It shares its tables with other results, and is not to be changed.
    """
    ones = branches(schema)
    if isinstance(value, dict):
        branch = next(
            (
                one
                for one in ones
                if "properties" in one
                and (
                    one.get("additionalProperties", True)
                    or value.keys() <= one["properties"].keys()
                )
                and all(
                    value.get(name) == of["const"]
                    for name, of in one["properties"].items()
                    if "const" in of
                )
            ),
            None,
        )
        if branch is None:
            return value
        filled = {}
        for name, of in branch["properties"].items():
            if name in value:
                filled[name] = _once(_over_default(value[name], of), of)
            elif "default" in of or "properties" in of:
                filled[name] = _once(of.get("default", {}), of)
        return filled
    if isinstance(value, list):
        items = next((one["items"] for one in ones if "items" in one), None)
        return value if items is None else [_once(one, items) for one in value]
    names = {name for one in ones for name in types_of(one)}
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and names & {"number", "integer"} == {"number"}
    ):
        return float(value)
    return value


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of a schema's types."""
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def schema_at(key: str) -> list[Mapping[str, Any]]:
    """Return the alternatives of the schema for a dotted key; empty if it is unknown."""
    names = key.split(".")
    schemas = {"queueing": queueing_schema, "rack": rack_schema}
    found: list[Mapping[str, Any]] = [schemas.get(names[0], user_schema)()]
    for name in names:
        inside = [
            one["items"]
            if name.isdecimal() and "items" in one
            else one.get("properties", {}).get(name)
            for one in found
        ]
        found = [branch for one in inside if one is not None for branch in branches(one)]
    return found


def choices(key: str) -> list[str]:
    """Return the texts that a key can have, in the schema's order."""
    values: list[Any] = []
    for branch in schema_at(key):
        values += [branch["const"]] if "const" in branch else branch.get("enum", [])
    return [value for value in values if isinstance(value, str)]


def notes(key: str) -> dict[str, str]:
    """Return the schema's description of each text that a key can have."""
    return {
        branch["const"]: " ".join(branch.get("description", "").split()).split(". ")[0].rstrip(".")
        for branch in schema_at(key)
        if isinstance(branch.get("const"), str)
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Mechanism:
    """The simulator's declaration of a value of `data_plane.notify`."""

    label: str
    """Its name in figures."""
    sleeps: bool
    """Whether a hart without work halts."""
    owns_queues: bool
    """Whether a queue belongs to one hart, whatever the description says."""
    needs_device: bool
    """Whether cores cannot be the sources of its traffic."""
    brings_requests: bool
    """Whether requests come from a system instead of through queues in memory."""


@functools.cache
def mechanisms() -> dict[str, Mechanism]:
    """Return the values of `data_plane.notify` and their declarations, in order."""
    values = schema_at("data_plane.notify")
    return {one["const"]: Mechanism(one["title"], **one["mechanism"]) for one in values}


def unit_of(key: str) -> str | None:
    """Return the unit at the end of a key's name, if any."""
    words = key.rsplit(".", 1)[-1].split("_")
    for start in range(1, len(words)):
        if (unit := _UNITS.get("_".join(words[start:]))) is not None:
            return unit
    return None


def accepts(schema: Mapping[str, Any], key: str) -> str:
    """Say in words what a schema accepts."""
    constants: list[str] = []
    others: list[str] = []
    for branch in branches(schema):
        if "const" in branch:
            constants.append(show(branch["const"]))
        elif "enum" in branch:
            constants += [show(value) for value in branch["enum"] if value is not None]
        else:
            others += [_accepted_type(name, branch, key) for name in types_of(branch)]
    return alternatives(list(dict.fromkeys(constants + [one for one in others if one])))


def bounds(schema: Mapping[str, Any]) -> str:
    """Describe the range of a schema's numbers: `from 1 to 64`, `above 0 and below 1`."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"from {bound(low)} to {bound(high)}"
    parts = [f"above {bound(above)}"] if above is not None else []
    parts += [f"{bound(low)} or more"] if low is not None else []
    parts += [f"below {bound(below)}"] if below is not None else []
    parts += [f"up to {bound(high)}"] if high is not None else []
    return " and ".join(parts)


def _accepted_type(name: str, schema: Mapping[str, Any], key: str) -> str:
    if name in ("integer", "number"):
        noun = "a whole number" if name == "integer" else "a number"
        of = schema.get("multipleOf")
        multiple = f", a multiple of {of}" if of is not None else ""
        range_ = bounds(schema)
        if (unit := unit_of(key)) is None:
            range_ = f"of {range_}" if range_.endswith(" or more") else range_
            return f"{noun}{multiple}{',' if multiple else ''} {range_}".rstrip(" ,")
        return f"{noun} of {unit}{multiple}" + (f", {range_}" if range_ else "")
    if name == "array" and ("minItems" in schema or "maxItems" in schema):
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        entries = "entries or more" if most is None else f"to {most} entries"
        return f"an array of {least} {entries}"
    return {
        "string": "a text",
        "boolean": "true or false",
        "array": "an array",
        "object": "a table",
    }.get(name, "")
