"""Descriptions: the program, the server, the traffic and the measurement.

A description is data, from TOML or from Python. One of a server has its tables at the top level:
`server`, `data_plane`, `traffic` and others, beside `link`, `switch` and `clients` if it has a
network. One of several servers has these tables in `rack`, with an entry of `rack.servers` for each
server. Both have `measure` and `simulator`. A queueing system without a server has one table,
`queueing`. Keys, their units, defaults and ranges come only from the simulator's JSON schemas. Only
Python resolves `server.preset`, the paths of programs and of data files, and a `traffic.load` that
is a fraction of the measured peak.
"""

import contextlib
import dataclasses
import difflib
import functools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nanoplane import compiler, machines, schemas, simulator
from nanoplane.errors import DescriptionError
from nanoplane.wording import (
    DEEPEST,
    TOO_DEEP,
    alternatives,
    choice,
    no_such_file,
    short,
    show,
)

if TYPE_CHECKING:  # A fifth of the start of the command, and only descriptions need it.
    import jsonschema

_GENERATED = "generated"

_TRANSPORTS = ("server.nanopu.transport.program", "clients.N.load.transport.program")
"""Tables that can be replaced by the file of a transport program."""

_FILES: Mapping[str, Callable[[str], bool]] = {
    "traffic.packets": lambda text: text != _GENERATED,
    "traffic.work.service_times.file": lambda _: True,
    "queueing.service_times.file": lambda _: True,
    "clients.N.load.requests.N.service_times.file": lambda _: True,
    "server.dma_nic.processors.firmware": lambda _: True,
}
"""Keys that can name a data file or firmware, and which of their texts do."""
_PATHS: Mapping[str, Callable[[str], bool]] = {
    "program": compiler.is_path,
    "data_plane.program": compiler.is_path,
    "data_plane.co_runner": compiler.is_path,
    **dict.fromkeys(_TRANSPORTS, lambda _: True),
    "server.preset": machines.is_file,
    **_FILES,
    "server.dma_nic.processors.firmware": compiler.is_path,
}
"""Keys whose texts can be paths, and which of their texts are."""

_MACHINES = re.compile(r"(rack\.servers\.\d+\.)?server(?=\.)")
"""Tables with a preset, at the beginning of a key."""

_INSTEAD = {"traffic.load": "rate_mrps", "traffic.rate_mrps": "load"}
"""Keys of `traffic` that replace another one."""


def _extended(
    data: Mapping[str, Any], directory: Path, source: str, read: tuple[Path, ...]
) -> Mapping[str, Any]:
    """Return the tables of a description, including those that it extends.

    `read` has the files that led here.
    """
    if "extends" not in data:
        return data
    own = {name: table for name, table in data.items() if name != "extends"}
    base, known = data["extends"], simulator.presets()
    if isinstance(base, str) and base in known:
        return machines.merge({"server": {"preset": base}}, own)
    if not isinstance(base, str) or not machines.is_file(base):
        raise DescriptionError(
            f"{source}: extends is {show(base)}, neither a preset nor a file that ends in .toml; "
            f"{choice(str(base), known)}"
        )
    path = directory / base
    if path.resolve() in read:
        raise DescriptionError(f"{source}: extends is {show(base)}, which extends itself")
    found = machines.read_toml(path)
    machines.check_plain(found, str(path))
    found = dict(_extended(found, path.parent, str(path), (*read, path.resolve())))
    # Paths are relative to the file in which they are written.
    for key, text in list(machines.leaves(found)):
        is_path = _PATHS.get(_general(key))
        if is_path is not None and isinstance(text, str) and is_path(text):
            # A quoted name can contain dots; it is wrong, and reported later.
            with contextlib.suppress(KeyError):
                put(found, key, str((path.parent / text).absolute()))
    for key, other in _INSTEAD.items():
        table, _, name = key.partition(".")
        changed, extended = own.get(table), found.get(table)
        if isinstance(changed, dict) and isinstance(extended, dict) and name in changed:
            extended.pop(other, None)
    return machines.merge(found, own)


def _general(key: str) -> str:
    """Return a key as that of a single server, with N for list indices."""
    return re.sub(r"\.\d+(?=\.|$)", ".N", re.sub(r"^rack\.(servers\.\d+\.)?", "", key))


def servers(data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the table of each server, with the prefix of its keys."""
    if "rack" not in data:
        return [("", cast("dict[str, Any]", data))]
    listed = data["rack"].get("servers") if isinstance(data["rack"], dict) else None
    entries = enumerate(listed if isinstance(listed, list) else [])
    return [(f"rack.servers.{place}.", one) for place, one in entries if isinstance(one, dict)]


def has_network(data: Mapping[str, Any]) -> bool:
    """Whether a network connects the servers of a description with each other or clients."""
    return "rack" in data or "interface" in data


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """The programs of a server."""

    program: Path
    """C source or an ELF file."""
    co_runner: Path | None = None
    """C source for the other hardware threads, if any."""
    mechanism: str | None = None
    """The header of the notification mechanism, if it must be compiled in."""
    has_sources: bool = False
    """Whether cores run the sources of the traffic."""

    def elf(self, *, debug: bool = False) -> bytes:
        """Return its ELF file; `debug`: with line numbers."""
        return compiler.elf(
            self.program,
            self.co_runner,
            self.mechanism,
            has_sources=self.has_sources,
            debug=debug,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """The input of the simulator: every key has its value, and files have been found."""

    text: str
    """Canonical JSON of all tables; `data` is the same as a dictionary."""
    guests: tuple[Guest, ...]
    """The guest of each server; empty for a queueing system without one."""
    files: Mapping[str, Path]
    """Data files and firmware by their keys: a pcap file, recorded service times. In the data their
    paths are texts."""

    @property
    def program(self) -> Path:
        """The program of the single server."""
        return self.guests[0].program

    @property
    def mechanism(self) -> str | None:
        """The header of the single server's notification mechanism, if it must be compiled in."""
        return self.guests[0].mechanism

    def elf(self, *, debug: bool = False) -> bytes:
        """Return the guest's ELF file; `debug`: with line numbers.

        Several guests are concatenated; `compiler.unpack` splits them.
        """
        elves = [guest.elf(debug=debug) for guest in self.guests]
        return elves[0] if len(elves) == 1 else compiler.pack(elves)

    def contents(self) -> dict[str, bytes]:
        """Read the data files, and compile firmware; return the contents by path."""
        return {str(path): content(key, path) for key, path in self.files.items()}

    @property
    def data(self) -> dict[str, Any]:
        """A fresh dictionary of all tables."""
        data: dict[str, Any] = json.loads(self.text)
        return data


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """An immutable description; changes return new ones."""

    text: str
    """Canonical JSON of what the user wrote; `data` is the same as a dictionary."""
    directory: Path = Path()
    """The directory of relative paths in the description."""
    source: str = dataclasses.field(default="description", compare=False)
    """Its name in error messages: the file's path as the user gave it."""
    overrides: frozenset[tuple[str, str]] = dataclasses.field(default=frozenset(), compare=False)
    """The keys that `set` changed, each with the command line's option that did."""

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], directory: Path = Path(), source: str = "description"
    ) -> "Description":
        """Make a description from plain tables, like those of a TOML file.

        `extends` names a description's file or a preset, which the other keys override. NumPy's
        numbers are accepted.
        """
        data = machines.plain(data)
        machines.check_plain(data, source)
        if "extends" in data:
            base = data["extends"]
            data = _extended(data, directory, source, ())
            source = f"{source} (extends {base})"
        return cls(_canonical(data), directory, source)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Description":
        """Read a TOML file."""
        path = Path(path)
        return cls.from_dict(machines.read_toml(path), path.parent, str(path))

    @property
    def data(self) -> dict[str, Any]:
        """A fresh dictionary of what the user wrote."""
        data: dict[str, Any] = json.loads(self.text)
        return data

    def get(self, key: str) -> Any:
        """Return the value of a dotted key as written; None if it is absent."""
        value: Any = self.data
        for name in key.split("."):
            if isinstance(value, list):
                value = dict(zip(map(str, range(len(value))), value, strict=True))
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def value(self, key: str) -> Any:
        """Return the value of a dotted key, or its default; for keys that no preset has."""
        (of,) = schemas.schema_at(key)
        written = self.get(key)
        return of["default"] if written is None else written

    def set(self, key: str, value: Any, option: str = "--set") -> "Description":
        """Return this description with one dotted key changed.

        A string is parsed as a TOML value (`777`, `0.5`, `true`, `"text"`), unless the key takes a
        text; then it is used unchanged. `traffic.load` and `traffic.rate_mrps` replace each other.
        Errors name `option`.
        """
        if isinstance(value, str):
            value = _parse(key, value, option)
        *parents, name = key.split(".")
        is_whole = bool(parents) or bool(schemas.schema_at(name))
        if not is_whole or not all((*parents, name)):
            raise DescriptionError(
                f"{option} {short(key)}: a key is written with its table, such as "
                '"data_plane.queues"'
            )
        if len(parents) > DEEPEST:
            raise DescriptionError(f"{option} {short(key)}: {TOO_DEEP}")
        value = machines.plain(value)
        machines.check_plain({key: value}, option, len(parents))
        data = self.data
        table: Any = data
        for parent in parents:
            table = (
                _entry(key, table, parent, option)
                if isinstance(table, list)
                else table.setdefault(parent, {})
            )
            if not isinstance(table, (dict, list)):
                raise DescriptionError(f"{option} {key}: {parent} is not a table")
        if isinstance(table, list):
            _entry(key, table, name, option)
            table[int(name)] = value
        else:
            table[name] = value
        if (other := _INSTEAD.get(key)) is not None:
            table.pop(other, None)
        overrides = {one for one in self.overrides if one[0] != key} | {(key, option)}
        return dataclasses.replace(self, text=_canonical(data), overrides=frozenset(overrides))

    def assign(self, assignment: str, option: str = "--set") -> "Description":
        """Apply one `key=value` of the command line; paths are relative to the working directory.

        Errors name `option`.
        """
        key, equals, value = assignment.partition("=")
        if not equals:
            raise DescriptionError(
                f'{option} {assignment}: write key=value, such as "data_plane.queues=100"'
            )
        key, value = key.strip(), value.strip()
        is_path = _PATHS.get(_general(key))
        if is_path is not None and is_path(value):
            value = str(Path(value).absolute())
        return self.set(key, value, option)

    def part_of_peak(self) -> "tuple[Description, float] | None":
        """For `load = 0.5`: the description that measures the peak, and 0.5; else None.

        It is for a server without a network.
        """
        load = None if self.is_rack else self.get("traffic.load")
        if isinstance(load, (int, float)) and not isinstance(load, bool):
            return self.set("traffic.load", "saturate"), float(load)
        return None

    def measures(self, requests: int) -> "Description":
        """Return this description with a number of requests, and no other keys for that number."""
        data = self.data
        for name in ("precision", "precision_of", "warmup"):
            data.get("measure", {}).pop(name, None)
        changed = dataclasses.replace(self, text=_canonical(data))
        return changed.set("measure.requests", requests)

    @property
    def seeks_saturation(self) -> bool:
        """Whether it saturates a server at a rate that must be searched for."""
        if self.is_queueing or self.is_rack:
            return False
        given = (self.get(f"traffic.{key}") for key in ("rate_mrps", "saturation_rate_mrps"))
        return self.part_of_peak() is None and all(value is None for value in given)

    @property
    def is_queueing(self) -> bool:
        """Whether it is a queueing system without a server."""
        return "queueing" in self.data

    @property
    def is_rack(self) -> bool:
        """Whether it has a network: several servers, or one with clients."""
        return has_network(self.data)

    @property
    def clients_key(self) -> str:
        """The key of the clients, if it has a network."""
        return "rack.clients" if "rack" in self.data else "clients"

    def check(self) -> None:
        """Raise a DescriptionError with one sentence for the first error."""
        data = self._complete()
        self._guests(data)
        self._files(data)

    def resolve(self, check: bool = True) -> Resolved:
        """Fill in the preset's fields and all defaults, find the files, and check everything.

        Without `check`, neither values nor the consistency of parameters are checked: a look-up of
        a result does not need it, because a wrong description has none. A load that is a fraction
        of the peak must have been replaced by a rate before.
        """
        if self.part_of_peak() is not None:
            raise ValueError("traffic.load is a part of a peak that has to be measured first")
        data = self._complete(check)
        guests, files = self._guests(data), self._files(data)
        for key, path in files.items():
            put(data, key, str(path))
        return Resolved(_canonical(data), guests, files)

    def _origin(self, key: str) -> str:
        """Name the place where a key, a key in it, or its list was last written."""
        options = [
            option
            for one, option in sorted(self.overrides)
            if f"{one}.".startswith(f"{key}.") or f"{key}.".startswith(f"{one}.")
        ]
        written = options[0] if options else self.source
        return self._program_file(key) or self._preset_file(key) or written

    def _preset_file(self, key: str) -> str | None:
        """Return the user's preset that a key comes from, if no other place sets it."""
        table = next((of for of in _MACHINES.finditer(key) if of.start() == 0), None)
        if table is None or self.get(key) is not None:
            return None
        preset = self.get(f"{table[0]}.preset")
        is_file = isinstance(preset, str) and machines.is_file(preset)
        return str(self.directory / preset) if is_file else None

    def _program_file(self, key: str) -> str | None:
        """Return the file of the transport program that contains a key, if any."""
        for table, path in _texts_at(self.data, _TRANSPORTS):
            if key.startswith(f"{table}."):
                return str(self.directory / path)
        return None

    def _put_in_programs(self, data: dict[str, Any]) -> None:
        """Replace the paths of transport programs by the contents of the files."""
        for key, text in list(_texts_at(data, _TRANSPORTS)):
            path = self.directory / text
            if not compiler.is_file(path):
                raise DescriptionError(
                    f"{self._origin(key)}: {key} is {show(text)}; it must be a TOML file; "
                    f"{no_such_file(path)}"
                )
            program = machines.read_toml(path)
            machines.check_plain(program, str(path))
            put(data, key, program)

    def _machine(self, server: Any, key: str) -> Any:
        """Fill in the preset of the machine at a key, if it names one."""
        origin = f"{self._origin(f'{key}.preset')}: {key}.preset"
        return machines.extended(server, self.directory, origin)

    def _guests(self, data: Mapping[str, Any]) -> tuple[Guest, ...]:
        """Find the guest of each server."""
        if self.is_queueing:
            return ()
        return tuple(self._guest(one, key) for key, one in servers(data))

    def _guest(self, server: Mapping[str, Any], table: str) -> Guest:
        """Find the guest of a server, whose keys begin with `table`."""
        data_plane = server.get("data_plane")
        if data_plane is None:
            program = server.get("program") or ""
            return Guest(self._find(compiler.find_program, program, f"{table}program"))
        key = f"{table}data_plane."
        co_runner = data_plane.get("co_runner")
        return Guest(
            self._find(compiler.find_program, data_plane["program"], f"{key}program"),
            co_runner and self._find(compiler.find_co_runner, co_runner, f"{key}co_runner"),
            compiler.mechanism(data_plane["notify"]),
            server["traffic"]["sources"] == "cores",
        )

    def _find(self, find: Callable[[str, Path, str], Path], name: str, key: str) -> Path:
        return find(name, self.directory, f"{self._origin(key)}: {key}")

    def _complete(self, check: bool = True) -> dict[str, Any]:
        data = self.data
        if "rack" in data:
            schema = schemas.rack_schema
            if others := sorted(data.keys() - schema()["properties"].keys()):
                self._check_tables(others, schema())
                raise DescriptionError(
                    f"{self._origin(others[0])}: a rack has its machines in rack.servers and its "
                    f"load in rack.clients; keep either the table rack or {alternatives(others)}"
                )
        elif self.is_queueing:
            return self._complete_queueing(check)
        else:
            schema = schemas.network_schema if self.is_rack else schemas.user_schema
        for key, server in servers(data):
            if "server" in server:
                server["server"] = self._machine(server["server"], f"{key}server")
            if "data_plane" in server:
                server.setdefault("traffic", {})
        self._put_in_programs(data)
        data = _completed(self, data, schema, check)
        for key, server in servers(data):
            if (traffic := server.get("traffic")) is None:
                continue
            if traffic.get("load") is not None and traffic.get("rate_mrps") is not None:
                raise DescriptionError(
                    f"{self.source}: {key}traffic has both load and rate_mrps; keep the one you "
                    "mean"
                )
            _saturate(traffic)
        if check:
            self._check_relations(data)
        return data

    def _complete_queueing(self, check: bool) -> dict[str, Any]:
        data = self.data
        if others := sorted(data.keys() - {"queueing"}):
            self._check_tables(others, schemas.queueing_schema())
            raise DescriptionError(
                f"{self._origin(others[0])}: a queueing system has no server; keep either the "
                f"table queueing or {alternatives(others)}"
            )
        return _completed(self, data, schemas.queueing_schema, check)

    def _check_tables(self, names: Iterable[str], schema: dict[str, Any]) -> None:
        """Raise a DescriptionError for the first unknown top-level table."""
        tables = schemas.user_schema()["properties"].keys() | {"rack", "queueing"}
        for name in names:
            if name not in tables:
                meant = _meant("", name, list(schema["properties"]), schema)
                raise DescriptionError(f"{self._origin(name)}: {name} is not known; {meant}")

    def _check_relations(self, data: dict[str, Any]) -> None:
        """Check the consistency of parameters, which schemas do not express."""
        traffics = [data.get("traffic", {})]
        if self.part_of_peak() is not None:
            # The run that measures the peak, and one at a fraction of its rate.
            part = {name: value for name, value in traffics[0].items() if name != "load"}
            traffics = [{**traffics[0], "load": "saturate"}, {**part, "rate_mrps": 1.0}]
        ways = ({**data, "traffic": traffic} if traffic else data for traffic in traffics)
        if wrong := next(filter(None, map(simulator.check, ways)), None):
            key, sentence = wrong
            raise DescriptionError(f"{self._origin(key)}: {sentence}")

    def program(self) -> Path:
        """Return the guest's file: C source or ELF."""
        return self._guests(self._complete())[0].program

    def _files(self, data: Mapping[str, Any]) -> dict[str, Path]:
        """Find the data files and firmware."""
        files = {}
        for key, text in _texts_at(data, _FILES):
            if not _FILES[_general(key)](text):
                continue
            if _is_firmware(key):
                files[key] = self._find(compiler.find_firmware, text, key).absolute()
                continue
            path = (self.directory / text).absolute()
            if not compiler.is_file(path):
                raise DescriptionError(f"{self._origin(key)}: {_no_such_data(key, text, path)}")
            files[key] = path
        return files


def _saturate(traffic: dict[str, Any]) -> None:
    """Set the traffic to saturation if the description gives no load."""
    if traffic.get("rate_mrps") is None and traffic.get("load") is None:
        traffic["load"] = "saturate"


def _entry(key: str, listed: list[Any], place: str, option: str) -> Any:
    """Return the list entry whose index is a part of a key."""
    if not place.isdecimal() or int(place) >= len(listed):
        raise DescriptionError(
            f"{option} {key}: {place} is no entry of the list; it has {len(listed)}, counted from 0"
        )
    return listed[int(place)]


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Change the value of an existing dotted key; list entries have indices."""
    *parents, name = key.split(".")
    table: Any = data
    for parent in parents:
        table = table[int(parent)] if isinstance(table, list) else table[parent]
    table[int(name) if isinstance(table, list) else name] = value


def _texts_at(data: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the texts at keys, in which N is any list index, with the keys where they are.

    The keys are those of a single server; in a rack, they are those of each server and client.
    """
    for prefix in ("rack.", "rack.servers.N.") if "rack" in data else ("",):
        for key in keys:
            yield from _at(data, f"{prefix}{key}".split("."), ())


def _at(value: Any, names: list[str], at: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return the texts at the parts `names` of a key in a value, which is at the key `at`."""
    if not names:
        if isinstance(value, str):
            yield ".".join(at), value
        return
    name, *rest = names
    if name == "N" and isinstance(value, list):
        for place, part in enumerate(value):
            yield from _at(part, rest, (*at, str(place)))
    elif isinstance(value, dict) and name in value:
        yield from _at(value[name], rest, (*at, name))


def _is_firmware(key: str) -> bool:
    return key.endswith(".processors.firmware")


def content(key: str, path: Path) -> bytes:
    """Return the contents of the file that a key names: its data, or an ELF file for firmware."""
    return compiler.firmware_elf(path) if _is_firmware(key) else read(path)


def _no_such_data(key: str, text: str, path: Path) -> str:
    if key != "traffic.packets":
        return f"{key} is {show(text)}; it must be a CSV file; {no_such_file(path)}"
    near = difflib.get_close_matches(path.name, [_GENERATED], 1, 0.8)
    why = f'did you mean "{_GENERATED}"?' if near else no_such_file(path)
    return f'{key} is {show(text)}; it must be "{_GENERATED}" or a pcap file; {why}'


def _parse(key: str, text: str, option: str) -> Any:
    """Parse a value of the command line: by TOML's rules, and then by the key's type."""
    try:
        document = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise DescriptionError(f"{option} {short(key)}: {TOO_DEEP}") from None
    except ValueError:
        # Not TOML, or a whole number with thousands of digits.
        return text
    value = document.pop("value")
    if document:
        # A line break followed by other keys.
        return text
    ones = schemas.schema_at(key)
    texts_only = bool(ones) and all(
        schemas.types_of(one) == ["string"] or isinstance(one.get("const"), str) for one in ones
    )
    return text if texts_only and not isinstance(value, str) else value


def read(path: Path) -> bytes:
    """Return the contents of a data file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from None


@functools.cache
def _validator() -> Any:
    import jsonschema

    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            # TOML distinguishes 777 from 777.0, and a count is the former.
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and math.isfinite(value)
            ),
        }
    )
    extend: Any = jsonschema.validators.extend
    validators = {"properties": _properties}
    return extend(jsonschema.Draft202012Validator, validators, type_checker=types)


_MOST_VALID = 2000
_valid: dict[tuple[int, str], Any] = {}
"""Schemas, by their identity, of tables and lists that were found valid, and the JSON of these."""


def _properties(
    validator: Any, properties: Mapping[str, Any], instance: Any, schema: Any
) -> "Iterator[jsonschema.ValidationError]":
    """Check the keys of a table, and equal tables and lists in it once.

    The racks of a figure have the same servers, and differ in the load alone.
    """
    if not isinstance(instance, dict):
        return
    for name, of in properties.items():
        if name not in instance:
            continue
        value = instance[name]
        is_nested = isinstance(value, (dict, list))
        key = (id(of), json.dumps(value) if is_nested else "")
        if is_nested and key in _valid:
            continue
        errors = list(validator.descend(value, of, path=name, schema_path=name))
        yield from errors
        if is_nested and not errors:
            if len(_valid) >= _MOST_VALID:
                _valid.clear()
            # The schema is kept, or another one might get its identity.
            _valid[key] = of


@functools.lru_cache(maxsize=1000)
def _filled(schema: Callable[[], dict[str, Any]], name: str, table: str, check: bool) -> str | None:
    """Return a table of a description with all defaults, as JSON; None if it is invalid.

    Without `check` it is not known to be valid.
    """
    of, value = schema()["properties"].get(name, False), json.loads(table)
    if check and not _validator()(of).is_valid(value):
        return None
    return json.dumps(schemas.with_defaults(value, of))


def _completed(
    description: Description,
    data: dict[str, Any],
    schema: Callable[[], dict[str, Any]],
    check: bool,
) -> dict[str, Any]:
    """Check a description against the schema, if wanted, and fill in the schema's defaults."""
    known = schema()["properties"]
    unset = frozenset() if has_network(data) else schemas.OF_NETWORK
    defaults = {name: of["default"] for name, of in known.items() if "default" in of}
    tables = {name: of for name, of in defaults.items() if name not in unset} | data
    # In a sweep most tables are equal: each is checked once.
    filled = {name: _filled(schema, name, json.dumps(one), check) for name, one in tables.items()}
    if data.keys() >= set(schema()["required"]) and None not in filled.values():
        return {name: json.loads(text) for name, text in filled.items() if text is not None}
    errors = _validator()(schema()).iter_errors(data)
    raise DescriptionError(_sentence(description, _first(errors), schema()))


def _sentence(
    description: Description, error: "jsonschema.ValidationError", root: dict[str, Any]
) -> str:
    while error.validator in ("anyOf", "oneOf") and error.context:
        nested = [one for one in error.context if one.relative_path]
        if not isinstance(error.instance, dict):
            break
        if (tagged := _tagged(description, error)) is not None:
            if isinstance(tagged, str):
                return tagged
            error = tagged
            continue
        inner = [one for one in error.context if one.validator in ("anyOf", "oneOf")]
        if not nested and len(inner) == 1:
            # Alternatives, one of which can be absent: a text, a table, or null.
            error = inner[0]
            continue
        if not nested:
            break
        # The intended alternative is the one whose constants match.
        meant = [one for one in nested if one.validator not in ("const", "enum")]
        error = min(meant or nested, key=lambda one: -len(one.relative_path))
    schema = cast("dict[str, Any]", error.schema)
    instance = cast("Any", error.instance)
    key = ".".join(str(part) for part in error.absolute_path)
    prefix = f"{key}." if key else ""
    if error.validator == "additionalProperties":
        known = list(schema.get("properties", {}))
        name = next(one for one in instance if one not in known)
        origin = description._origin(prefix + name)
        return f"{origin}: {prefix}{name} is not known; {_meant(prefix, name, known, root)}"
    if error.validator == "required":
        name = next(one for one in schema["required"] if one not in instance)
        hint = ""
        if prefix.startswith("server") or name == "server":
            machines = alternatives([show(one) for one in sorted(simulator.presets())])
            hint = f"; a preset has all of server: {machines}"
        of = schema.get("properties", {}).get(name)
        accepted = (
            f"; it must be {schemas.accepts(of, name)}" if of is not None and not hint else ""
        )
        if accepted == "; it must be a table":
            key = re.sub(r"\[.*", "", prefix) + name
            accepted += f", whose keys `nanoplane explain {key}` lists"
        return f"{description.source}: {prefix}{name} is missing{accepted}{hint}"
    accepted = schemas.accepts(schema, key)
    origin = description._origin(key)
    near = ""
    if isinstance(error.instance, str):
        names = [
            value
            for branch in schemas.branches(schema)
            for value in ([branch["const"]] if "const" in branch else branch.get("enum", []))
            if isinstance(value, str)
        ]
        if match := difflib.get_close_matches(error.instance, names, 1, 0.6):
            near = f'; did you mean "{match[0]}"?'
    return f"{origin}: {key} is {show(error.instance)}; it must be {accepted}{near}"


def _tagged(
    description: Description, error: "jsonschema.ValidationError"
) -> "jsonschema.ValidationError | str | None":
    """Return the error of a table that can be one of several.

    It is the error of the only alternative that is a table, or of the one that the table selects by
    a key which all of them have; or a sentence about this key. None if there is no such key.
    """
    schema = cast("dict[str, Any]", error.schema)
    listed = schema[cast("str", error.validator)]
    tables = {place: one for place, one in enumerate(listed) if one.get("type") == "object"}
    if len(tables) == 1:
        (place,) = tables
        return _first(one for one in error.context or [] if one.relative_schema_path[0] == place)
    constants = {
        place: {
            name: of["const"] for name, of in one.get("properties", {}).items() if "const" in of
        }
        for place, one in tables.items()
    }
    common = [set(one) for one in constants.values()]
    tags = common[0].intersection(*common[1:]) if common else set()
    if len(tags) != 1:
        return None
    (tag,) = tags
    instance = cast("dict[str, Any]", error.instance)
    key = ".".join([*(str(part) for part in error.absolute_path), tag])
    places = {one[tag]: place for place, one in constants.items()}
    if tag not in instance:
        accepted = alternatives([show(name) for name in places])
        return f"{description.source}: {key} is missing; it must be {accepted}"
    found = instance[tag]
    if not isinstance(found, str) or found not in places:
        origin = description._origin(key)
        return f"{origin}: {key} is {show(found)}; {choice(str(found), places)}"
    return _first(
        one for one in error.context or [] if one.relative_schema_path[0] == places[found]
    )


def _first(errors: "Iterable[jsonschema.ValidationError]") -> "jsonschema.ValidationError":
    """Choose the error to report: an unknown key explains a missing one."""
    return min(
        errors,
        key=lambda error: (
            error.validator != "additionalProperties",
            error.validator == "required",
            [str(part) for part in error.absolute_path],
        ),
    )


def _meant(prefix: str, name: str, known: list[str], root: Mapping[str, Any]) -> str:
    """Guess the intended key for an unknown one."""
    without_unit = [one for one in known if one.startswith(f"{name}_") and schemas.unit_of(one)]
    if without_unit:
        units = alternatives(
            [
                f'"{prefix}{one}"' + (f" ({schemas.unit_of(one)})" if schemas.unit_of(one) else "")
                for one in without_unit
            ]
        )
        return f"did you mean {units}? The unit is part of the name"
    if near := difflib.get_close_matches(name, known, 1, 0.6):
        return f'did you mean "{prefix}{near[0]}"?'
    # Not the key itself, which another alternative may have.
    elsewhere = [key for key in _keys(root) if key.endswith(f".{name}") and key != prefix + name]
    if elsewhere:
        return f'did you mean "{elsewhere[0]}"?'
    return f"{prefix.rstrip('.') or 'a description'} has {', '.join(sorted(known))}"


def _keys(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for branch in schemas.branches(schema):
        for name, of in branch.get("properties", {}).items():
            yield prefix + name
            yield from _keys(of, f"{prefix}{name}.")
        if "items" in branch:
            yield from _keys(branch["items"], f"{prefix}N.")
