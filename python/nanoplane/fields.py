"""Fields of results and their meanings, from the simulator's schemas.

A field is declared once, in Rust. `make docs` generates its line in docs/result-fields.md and its
type in results.py from that declaration.
"""

import difflib
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nanoplane import schemas, simulator
from nanoplane.errors import DescriptionError

KINDS = ("run", "rack", "execute", "execute-functionally", "queueing")
"""The kinds of results, as arguments of `simulator.result_schema`."""

_TYPES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}


class Field(NamedTuple):
    """A field of a result."""

    name: str
    type: str
    """Its Python type, with `None` for `null`."""
    unit: str | None
    """The unit of its values, or of those in it."""
    is_always_there: bool
    text: str


class Table(NamedTuple):
    """A part of a result with fields: a TypedDict in Python."""

    name: str
    text: str
    fields: tuple[Field, ...]


@functools.cache
def tables() -> dict[str, Table]:
    """Return the tables of all results by name, each after those that it contains."""
    found: dict[str, Table] = {}

    def add(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
        fields = []
        for field, of in schema["properties"].items():
            inside = list(_names(of))
            for one in inside:
                add(one, definitions[one], definitions)
            text = of.get("description") or " ".join(found[one].text for one in inside[:1])
            unit = schemas.unit_of(field.removesuffix("_ci95"))
            always = field in schema.get("required", ())
            fields.append(Field(field, _type(of), unit, always, " ".join(text.split())))
        table = Table(name, " ".join(schema["description"].split()), tuple(fields))
        if found.setdefault(name, table) != table:
            raise ValueError(f"two different tables of results are called {name}")

    for kind in KINDS:
        schema = simulator.result_schema(kind)
        add(schema["title"], schema, schema["$defs"])
    return found


def _names(schema: Any) -> Iterator[str]:
    """Return the names of the tables that the schema of a field refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rsplit("/", 1)[-1]
        schema = list(schema.values())
    for one in schema if isinstance(schema, list) else ():
        yield from _names(one)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in schema:
        return " | ".join(_type(one) for one in schema["anyOf"])
    if isinstance(schema["type"], list):
        return " | ".join(_type({**schema, "type": one}) for one in schema["type"])
    if schema["type"] == "array":
        return f"list[{_type(schema['items'])}]"
    if schema["type"] == "object":
        return f"dict[str, {_type(schema['additionalProperties'])}]"
    return _TYPES[schema["type"]]


def inside(field: Field) -> tuple[Field, ...]:
    """Return the fields of the table that a field, or each of its entries, is."""
    known = tables()
    names = re.findall(r"\w+", field.type)
    found = {one.name: one for name in names if name in known for one in known[name].fields}
    return tuple(found.values())


def find(key: str) -> Field:
    """Return the field of a dotted key such as `result.latency_ns.p99`, of any kind of result.

    The entries of a list have indices, and those of a dictionary names.
    """
    for kind in KINDS:
        title = simulator.result_schema(kind)["title"]
        found = Field("result", title, None, True, tables()[title].text)
        names = key.split(".")[1:]
        while names:
            if found.type.startswith(("list[", "dict[")):
                # The field's properties are those of its entries.
                names.pop(0)
            of = {one.name: one for one in inside(found)}
            if names and names[0] not in of:
                break
            found = of[names.pop(0)] if names else found
        else:
            return found
    raise DescriptionError(f"{key} is not known; {meant(key, 'result.')}")


def exists(key: str) -> bool:
    """Say whether a dotted key such as `result.latency_ns.p99` is that of a field."""
    try:
        find(key)
    except DescriptionError:
        return False
    return True


def meant(key: str, prefix: str = "") -> str:
    """Suggest the intended field, with `prefix` before it, for an unknown key of a result."""
    asked = key.removeprefix("result.")
    known = list(_keys())
    near = difflib.get_close_matches(asked, known, 1, 0.8)
    # A single wrong name, such as that of the table, or the end of a name.
    first, _, rest = asked.partition(".")
    near += [one for one in known if not near and one.endswith(f"_{first}")]
    if near:
        name = f"{near[0]}.{rest}" if rest and near[0].endswith(first) else near[0]
        return f'did you mean "{prefix}{name}"?'
    return "docs/result-fields.md has all fields of results"


@functools.cache
def _keys() -> tuple[str, ...]:
    """Return the dotted keys of results, up to lists and dictionaries, whose entries have names."""

    def walk(prefix: str, field: Field) -> Iterator[str]:
        for one in inside(field):
            yield f"{prefix}{one.name}"
            if not one.type.startswith(("list[", "dict[")):
                yield from walk(f"{prefix}{one.name}.", one)

    titles = [simulator.result_schema(kind)["title"] for kind in KINDS]
    roots = [Field("result", title, None, True, "") for title in titles]
    return tuple(dict.fromkeys(key for root in roots for key in walk("", root)))


def check_number(name: str) -> None:
    """Raise a DescriptionError for a name that no number of any result has."""
    try:
        found = find(f"result.{name}")
    except DescriptionError:
        raise DescriptionError(f"--field: a result has no {name}; {meant(name)}") from None
    if inside(found) or not {"int", "float", "bool"} & set(re.findall(r"\w+", found.type)):
        example = next((one.name for one in inside(found)), "")
        hint = f', such as "{name}.{example}"' if example else ""
        raise DescriptionError(f"--field: {name} is not a number of a result{hint}")


_HEAD = '''"""The types of results, as the simulator declares them; written by `make docs`."""

from typing import NotRequired, TypedDict
'''


def _docstring(text: str) -> str:
    line = f'    """{text}"""'
    if len(line) <= 100:
        return line
    words = textwrap.TextWrapper(96, break_on_hyphens=False, break_long_words=False)
    return textwrap.indent("\n".join([*words.wrap(f'"""{text}'), '"""']), "    ")


def _base(table: Table) -> Table | None:
    """Return the largest table that makes up at least half of this one's fields."""
    within = [
        one
        for one in tables().values()
        if set(one.fields) < set(table.fields) and 2 * len(one.fields) >= len(table.fields)
    ]
    return max(within, key=lambda one: len(one.fields), default=None)


def types() -> str:
    """Return the text of results.py: a TypedDict for each table, each after its base."""
    written: dict[str, str] = {}

    def write(table: Table) -> None:
        if table.name in written:
            return
        base = _base(table)
        if base is not None:
            write(base)
        inherited = () if base is None else base.fields
        extends = "TypedDict" if base is None else base.name
        lines = [f"\nclass {table.name}({extends}):", _docstring(table.text), ""]
        for one in (one for one in table.fields if one not in inherited):
            of = one.type if one.is_always_there else f"NotRequired[{one.type}]"
            lines += [f"    {one.name}: {of}", _docstring(one.text)]
        written[table.name] = "\n".join(lines) + "\n"

    for table in tables().values():
        write(table)
    return "\n".join([_HEAD, *written.values()])


_MARKDOWN_HEAD = """# Fields of results

<!-- written by `make docs` -->

All fields of results, as the simulator declares them: the five kinds of results, and then the
tables in them. `nanoplane explain result.latency_ns` shows one field. The types are those of
Python, where `nanoplane.results` has the tables under these names. A field in parentheses may be
absent. Fields whose names begin with `host_` say what the run has cost the host; all others are
the same on any host.
"""


def markdown() -> str:
    """Return docs/result-fields.md: the results, each before the tables that it contains."""
    known = tables()
    titles = [simulator.result_schema(kind)["title"] for kind in KINDS]
    names = titles + [name for name in reversed(known) if name not in titles]
    written = [_MARKDOWN_HEAD]
    for table in (known[name] for name in names):
        lines = [f"## {table.name}", "", table.text, "", "| field | type | unit | |"]
        lines.append("| --- | --- | --- | --- |")
        for one in table.fields:
            of = re.sub(r"\w+", lambda name: _linked(name[0]), one.type)
            name = f"`{one.name}`" if one.is_always_there else f"(`{one.name}`)"
            cells = (name, of, one.unit or "", one.text)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        written.append("\n".join(lines) + "\n")
    return "\n".join(written)


def _linked(name: str) -> str:
    return f"[{name}](#{name.lower()})" if name in tables() else name
