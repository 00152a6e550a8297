"""Results have the fields that the simulator declares, and no others."""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import same_results

import fake_simulator
from command_line import nanoplane
from nanoplane import _simulator, compiler, fields, simulator
from nanoplane.description import Description
from nanoplane.schemas import mechanisms
from nanoplane.sweep import sweep

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]

# Small runs of every kind, with every system, two threads in a core, and several kinds of requests.
RUNS = {
    "run": [
        "hyperplane, 8 queues, scale-out",
        "spin, 8 queues, scale-out",
        "core with two threads",
        "store key-value, Zipf",
        "messages, one queue",
    ],
    "rack": [
        "rack NDP, incast",
        "rack rings on the chip",
        "rack rings behind PCI Express",
        "rack store, QWAIT",
        "rack store, messages",
    ],
    "execute": ["exec harts"],
    "execute-functionally": ["exec integer code, functional"],
    "queueing": ["example queueing"],
}

FAKED = (
    *("encapsulation.toml", "key-value.toml", "ordered-store.toml", "queueing.toml"),
    *("rack.toml", "rack-pair.toml", "two-domains.toml"),
)


def traced(directory: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Results of runs that write traces, with every mechanism of notification."""
    of_exec = directory / "exec.json"
    trace = ("--trace", directory / "exec.pftrace", "--stats", of_exec)
    # With a function that is called after the run.
    program = directory / "checked.c"
    alone = ROOT / "examples" / "doorbells.c"
    program.write_text(f'#include "{alone}"\nint check_after_run(void) {{ return 0; }}\n')
    observers = ("critical_region", "enhanced_memory_controller", "load_sites")
    settings = [part for key in observers for part in ("--set", f"server.{key}={{}}")]
    nanoplane("exec", *trace, program, *settings)
    yield "execute", json.loads(of_exec.read_text())
    # Instructions of hardware beside the harts need a timed run.
    plain = directory / "plain.c"
    plain.write_text("int main(void) { return 0; }\nint check_after_run(void) { return 0; }\n")
    log = ("--functional", "--log", directory / "exec.log", "--stats", of_exec)
    nanoplane("exec", *log, plain)
    yield "execute-functionally", json.loads(of_exec.read_text())
    options = {"trace": {"timeline": str(directory / "timeline.pftrace")}}
    for example in ("encapsulation", "rack-pair", "rack-data-plane", "nanopu-and-dma"):
        description = Description.from_toml(ROOT / "examples" / f"{example}.toml")
        description = description.set("measure.requests", 100)
        if description.is_rack:
            if example == "rack-data-plane":
                description = description.set("rack.servers.0.data_plane.program", "key-value")
                description = description.set("rack.servers.0.traffic.sources", "cores")
                description = description.set("measure.warm_start.requests", 10)
            resolved = description.resolve()
            explained = {"trace": {**options["trace"], "slowest": 10}}
            yield "rack", simulator.rack(resolved.data, compiler.unpack(resolved.elf()), explained)
        else:
            # The fields are those of the example's 1000 queues, which take twice as long.
            description = description.set("data_plane.queues", 50)
            for name in (name for name, one in mechanisms().items() if not one.brings_requests):
                resolved = description.set("data_plane.notify", name).resolve()
                yield "run", simulator.run(resolved.data, resolved.elf(), options)
            resolved = description.set("measure.warm_start.requests", 10).resolve()
            slow = {"trace": {"slowest": 10}}
            yield "run", simulator.run(resolved.data, resolved.elf(), slow)


def _completions() -> Mapping[str, Any]:
    """The result of a server with completion queues."""
    description = Description.from_toml(ROOT / "examples" / "io-forward.toml")
    (outcome,) = sweep([description.set("measure.requests", 100)])
    return outcome.result


def _store() -> Mapping[str, Any]:
    """The result of a rack with a store of transactions, and enhanced memory controllers."""
    description = Description.from_toml(ROOT / "examples" / "transactional-store-rack.toml")
    settings = {
        "rack.clients.0.load.operations.warehouses": 1,
        "rack.servers.0.parameters": {"items": 500, "customers": 30},
        "rack.servers.0.server.enhanced_memory_controller": {},
        "measure.requests": 100,
    }
    for key, value in settings.items():
        description = description.set(key, value)
    (outcome,) = sweep([description])
    return outcome.result


@functools.cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    """That of results of a kind, whose schema is checked once: that takes a second."""
    schema = simulator.result_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def present(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """Return the declared fields that a valid result has, as `Table.field`."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        yield from present(value, {"title": name, **root["$defs"][name]}, root)
    for one in schema.get("anyOf", []):
        if jsonschema.Draft202012Validator({"$defs": root["$defs"], **one}).is_valid(value):
            yield from present(value, one, root)
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield f"{schema['title']}.{name}"
                yield from present(value[name], field, root)
        for one in value.values() if isinstance(schema.get("additionalProperties"), dict) else ():
            yield from present(one, schema["additionalProperties"], root)
    for one in value if isinstance(value, list) and "items" in schema else ():
        yield from present(one, schema["items"], root)


MESSAGES_IN_REGISTERS = (
    "server.core.model=in-order",
    "server.core.width=1",
    "server.nanopu.to_core_cycles=5",
    "data_plane.notify=nanopu",
)


def test_results_have_the_declared_fields_and_no_others(tmp_path: Path) -> None:
    results = [(kind, same_results.RUNS[name]()) for kind in RUNS for name in RUNS[kind]]
    interrupted = same_results._rack("traditional/loopback", "ice-nic", systems=["user_interrupts"])
    fetching = 'server.core.l2={ size_bytes = 65536, prefetcher = "next-line" }'
    striding = (
        "server.core.l1_data_prefetcher=stride",
        "server.core.l1_instruction_prefetcher=next-line",
        "server.fabric.last_level.prefetcher=next-line",
    )
    memory = ("server.core.translation={}", "server.fabric.memory.dram={}")
    # A last level this small writes lines back to memory.
    fabric = {
        "last_level": {"size_bytes_per_bank": 65536},
        "memory": {"cache": None, "dram": {}},
    }
    processors = {"firmware": "critical-regions"}
    interface: Mapping[str, Any] = {"express": {"iommu": {}}, "processors": processors}
    observers: Mapping[str, Any] = {"critical_region": {"offload": {}}, "load_sites": {}}
    machine = {"fabric": fabric, "dma_nic": interface, **observers}
    translated = same_results._rack("traditional/loopback-express", "dma-nic", machine=machine)
    # `sd zero, 0(a0)` is no instruction of what hardware of the host may send.
    firmware = tmp_path / "refused.c"
    firmware.write_text(
        "#include <interface.h>\n"
        "static uint32_t code[1] __attribute__((aligned(64))) = {0x00053023};\n"
        "void firmware(uint64_t core) {\n"
        "  for (;;) {\n"
        "    interface_next();\n"
        "    interface_deliver(interface_queue());\n"
        "    interface_run(code, core, 16);\n"
        "  }\n"
        "}\n"
    )
    stored = {"dma_nic": {"processors": {"firmware": str(firmware)}}}
    refused = same_results._rack("traditional/loopback-express", "dma-nic", machine=stored)
    checked = (
        "data_plane.program=transactional-store",
        "data_plane.parameters={ items = 500, customers = 30 }",
        *("traffic.rate_mrps=0.1", "traffic.packet_bytes=64", "traffic.operations.warehouses=1"),
    )
    results += [
        ("rack", interrupted()),
        ("rack", translated()),
        ("rack", refused()),
        ("rack", _completions()),
        ("rack", _store()),
        ("run", same_results._server(fetching, *striding, *memory)()),
        ("run", same_results._server("server.critical_region={}", "server.load_sites={}")()),
        ("run", same_results._server("server.enhanced_memory_controller={}")()),
        ("run", same_results._server(*checked, requests=100)()),
        ("run", same_results._server("traffic.sources=cores", requests=100)()),
        ("run", same_results._server(*MESSAGES_IN_REGISTERS, requests=100)()),
        # So many samples that an ideal queue tells something.
        ("run", same_results._server("traffic.rate_mrps=1", requests=3000)()),
    ]
    found = set()
    for kind, result in [*results, *traced(tmp_path)]:
        schema = simulator.result_schema(kind)
        # What a program has printed is no part of the statistics.
        own = {name: result[name] for name in result if "exec" not in kind or name != "output"}
        validator(kind).validate(own)
        (error,) = validator(kind).iter_errors({**own, "undeclared": 1})
        assert "undeclared" in error.message
        found |= set(present(own, schema, schema))
    # What is declared of the host is the same for all kinds, and some have no cores or no times.
    declared = {
        f"{table.name}.{field.name}"
        for table in fields.tables().values()
        for field in table.fields
        if not field.name.startswith("host_")
    }
    assert sorted(declared - found) == []


@pytest.mark.usefixtures("fake")
def test_the_results_of_the_fake_simulator_have_the_declared_fields() -> None:
    described = [Description.from_toml(ROOT / "examples" / name) for name in FAKED]
    for outcome in sweep(described):
        kind = next((one for one in ("rack", "queueing") if one in outcome.description), "run")
        validator(kind).validate(outcome.result)
    for kind, run in (
        ("execute", fake_simulator.execute),
        ("execute-functionally", fake_simulator.execute_functionally),
    ):
        result = json.loads(run({"arguments": []}, "{}", "{}"))
        validator(kind).validate(result)


def test_every_field_has_a_sentence_of_its_own() -> None:
    """No links to items of the sources, and nothing that refers to the field before."""
    for table in fields.tables().values():
        for text in (table.text, *(field.text for field in table.fields)):
            assert text.endswith((".", "?")), (table.name, text)
            assert "[`" not in text
            assert not text.startswith(("Those ", "They ", "See ", "Its ", "Their ")), text


@pytest.mark.parametrize(
    ("path", "text"),
    [("docs/result-fields.md", fields.markdown), ("python/nanoplane/results.py", fields.types)],
)
def test_what_is_written_of_results_is_as_they_are_declared(path: str, text: Any) -> None:
    assert (ROOT / path).read_text() == text(), "`make docs` writes it anew"


def test_a_field_is_explained() -> None:
    told = json.loads(nanoplane("explain", "result.latency_ns", "--json"))
    assert (told["type"], told["unit"]) == ("LatencySummary", "nanoseconds")
    assert told["text"].startswith("From an item's arrival")
    (p99,) = (field for field in told["fields"] if field["name"] == "p99")
    assert (p99["type"], p99["text"]) == ("float", "99 % of the requests take at most this.")
    # Of a list's entry, a dictionary's entry and another kind of result.
    for key in ("result.cores.3.stack.l2", "result.by_kind.read.latency_ns.p99"):
        assert nanoplane("explain", key).splitlines()[0] == key
    lines = nanoplane("explain", "result.switch.ports.0.max_queued_bytes").splitlines()
    assert lines[2].startswith("The maximum number of waiting bytes")
    assert lines[4:] == ["type     int", "unit     bytes"]
    assert "result.latency is not known" in nanoplane("explain", "result.latency", status=2)


def test_there_are_no_other_kinds() -> None:
    with pytest.raises(_simulator.SimulationError, match='there are no results of "sweep"'):
        simulator.result_schema("sweep")
