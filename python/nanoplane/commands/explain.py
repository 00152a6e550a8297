"""`list`, `explain`, `keys`, `schema`: the available choices and their meanings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nanoplane import compiler, machines, parameters, report, schemas, simulator
from nanoplane.commands.common import Json, app, example, print_json
from nanoplane.errors import DescriptionError
from nanoplane.figures import figures

_WITH_SOURCE = ("programs", "rack_programs", "co_runners", "firmware")
"""The groups of `list` whose entries are described by their sources."""


def _begun(incomplete: str) -> list[str]:
    """Return the keys with this prefix, for completion in a shell."""
    return [one.key for one in parameters.every("") if one.key.startswith(incomplete)]


def _begun_preset(incomplete: str) -> list[str]:
    return [name for name in sorted(simulator.presets()) if name.startswith(incomplete)]


@app.command(
    "list",
    short_help="List the programs, presets, figures and so on.",
    epilog=example(
        "nanoplane list", "nanoplane list --json", "nanoplane list --preset skylake-sp > mine.toml"
    ),
)
def list_names(
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Print this machine, as TOML that can be used as a preset.",
            autocompletion=_begun_preset,
        ),
    ] = None,
    as_document: Json = False,
) -> None:
    """List the programs, presets, traffic shapes, figures and so on, or print a preset."""
    if preset is not None:
        server = machines.extended({"preset": preset}, Path(), "--preset")
        print_json({"server": server}) if as_document else print(machines.toml(server), end="")
        return
    presets = simulator.presets()
    names: dict[str, Sequence[str]] = {
        "programs": compiler.programs(),
        "rack_programs": compiler.rack_programs(),
        "co_runners": compiler.co_runners(),
        "firmware": compiler.firmware(),
        "presets": sorted(presets),
        "notify": schemas.choices("data_plane.notify"),
        "organisations": schemas.choices("data_plane.organisation"),
        "policies": schemas.choices("data_plane.policy"),
        "shapes": schemas.choices("traffic.shape"),
        "arrivals": schemas.choices("traffic.arrivals"),
        "service_times": schemas.choices("queueing.service_times.distribution"),
        "figures": list(figures()),
    }
    if as_document:
        print_json(names)
        return
    notes = {name: of.get("description", "") for name, of in presets.items()}
    notes |= {name: of.title for name, of in figures().items()}
    notes |= schemas.notes("data_plane.notify")
    notes |= schemas.notes("data_plane.organisation")
    notes |= {name: compiler.about(name) for kind in _WITH_SOURCE for name in names[kind]}
    for kind, values in names.items():
        print(kind)
        for value in values:
            print(f"  {value}" + (f": {notes[value]}" if notes.get(value) else ""))


@app.command(
    short_help="Explain a parameter, or a field of results.",
    epilog=example(
        "nanoplane explain server.hyperplane", "nanoplane explain traffic.rate_mrps --json"
    ),
)
def explain(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="A key as in --set, or result.FIELD.",
            autocompletion=_begun,
        ),
    ] = None,
    as_document: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print all parameters, as in docs/reference.md.")
    ] = False,
) -> None:
    """Explain a parameter of a description, or list the parameters of a table.

    A key that starts with `result.` names a field of a result.
    """
    if markdown == (key is not None):
        raise DescriptionError(
            'explain takes a key, such as "server.hyperplane.ways" or "traffic", or --markdown'
        )
    if key is None:
        print(parameters.markdown(), end="")
        return
    if key.split(".")[0] == "result":
        _explain_field(key, as_document)
        return
    try:
        found = parameters.find(key)
    except DescriptionError as error:
        from nanoplane import fields

        if fields.exists(f"result.{key}"):
            raise DescriptionError(
                f'{key} is no key of a description, but a field of results: explain "result.{key}"'
            ) from None
        raise error
    document = {"key": key, **_document(key, found)}
    if as_document:
        print_json(document)
        return
    print(f"{key}\n")
    _print_document(document)


@app.command(
    short_help="List the keys of descriptions, with their meanings.",
    epilog=example("nanoplane keys server.hyperplane", "nanoplane keys --json"),
)
def keys(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="[PREFIX]", help="A table, such as server.fabric.", autocompletion=_begun
        ),
    ] = "",
    as_document: Json = False,
) -> None:
    """List the keys of descriptions, each with its values, unit and default, and a sentence."""
    listed = list(parameters.every(prefix.rstrip(".")))
    if as_document:
        print_json(
            [
                {"key": one.key, **parameters.line(one)._asdict(), "is_table": one.is_table}
                for one in listed
            ]
        )
        return
    for one in listed:
        print(f"{one.key}: {_line(parameters.line(one))}")


def _line(one: parameters.Line) -> str:
    default = f"default {one.default}" if one.default else ""
    what = ", ".join(part for part in (one.takes, one.unit, default) if part)
    return f"{what}. {one.sentence}"


@app.command(
    short_help="Print the JSON Schema of descriptions, for editors.",
    epilog=example("nanoplane schema --output nanoplane.schema.json"),
)
def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = None,
) -> None:
    """Print the JSON Schema of descriptions, which lets editors complete and check TOML files.

    Editors that use Taplo read a line such as `#:schema nanoplane.schema.json` at the top of a
    description. A preset leaves every key of `server` optional.
    """
    text = json.dumps(parameters.schema(), indent=1, ensure_ascii=False) + "\n"
    if output is None:
        print(text, end="")
        return
    report.write(output, text)
    print(f"written: {output}")


def _document(key: str, found: parameters.Parameter) -> dict[str, Any]:
    sources = {name: of["source"] for name, of in simulator.presets().items()}
    return {
        "takes": found.takes,
        "unit": found.unit,
        "default": found.default,
        # What is said of the defaults of a table is not about a key without one.
        "source": found.source if found.is_table or found.default is not None else "",
        "presets": {
            name: {"value": value, "source": sources[name]} for name, value in found.presets.items()
        },
        "choices": schemas.notes(key),
        "text": found.text,
        "parameters": [one._asdict() for one in parameters.lines(found)],
    }


def _print_document(document: Mapping[str, Any]) -> None:
    print(f"{document['text']}\n")
    for name in ("takes", "unit", "default", "source"):
        if (value := document[name]) not in (None, ""):
            print(f"{name:8} {json.dumps(value) if name == 'default' else value}")
    for name, of in document["presets"].items():
        print(f"{name}: {json.dumps(of['value'])}, {of['source']}")
    for name, note in document["choices"].items():
        print(f"{name}: {note}")
    for one in document["parameters"]:
        print(f"{one['name']}: {_line(parameters.Line(**one))}")


def _explain_field(key: str, as_document: bool) -> None:
    from nanoplane import fields

    found = fields.find(key)
    inside = fields.inside(found)
    if as_document:
        document = {"key": key, "type": found.type, "unit": found.unit, "text": found.text}
        print_json({**document, "fields": [one._asdict() for one in inside]})
        return
    print(f"{key}\n\n{found.text}\n")
    print(f"type     {found.type}" + (f"\nunit     {found.unit}" if found.unit else ""))
    for one in inside:
        what = ", ".join(part for part in (one.type, one.unit) if part)
        print(f"{one.name}: {what}. {one.text}")
