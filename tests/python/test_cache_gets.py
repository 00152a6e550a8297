"""Gets of the cache of objects that the network interface answers out of the server's memory."""

from typing import Any

import pytest

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.papers.cargo.gets import Offload

pytestmark = pytest.mark.simulator


def run(design: str, parameters: dict[str, Any] | None = None, **operations: Any) -> Any:
    description = Offload(design, 0.5).run(quick=True).description
    data: dict[str, Any] = description.data
    load = data["rack"]["clients"][0]["load"]
    load["operations"].update({"keys": 2000, **operations})
    (server,) = data["rack"]["servers"]
    server["parameters"] = {**server.get("parameters", {}), **(parameters or {})}
    data["measure"] = {"requests": 200, "warmup": 20, "seed": 1}
    resolved = Description.from_dict(data, source="test").resolve()
    elves = compiler.unpack(resolved.elf())
    return simulator.rack(resolved.data, elves, {}, None, resolved.contents())


@pytest.mark.parametrize("design", ["B", "C", "B:2"])
@pytest.mark.parametrize("value_bytes", [1, 16, 333])
def test_the_interface_answers_gets(design: str, value_bytes: int) -> None:
    """The load generator checks each value."""
    result = run(design, value_bytes=value_bytes)
    (client,), (server,) = result["clients"], result["servers"]
    replies = client["replies"]
    assert replies["done"] == client["statistics"]["responses"] >= 220
    assert replies["not_found"] == 0
    engines = server["interface"]["processors"]
    assert engines["frames"] >= engines["frames_sent"] >= replies["done"]
    assert engines["frames_to_host"] == engines["host_load_faults"] == 0


@pytest.mark.parametrize("design", ["B", "C"])
def test_absent_keys_are_not_found(design: str) -> None:
    """The cache has no memory for all keys, and has evicted the first ones."""
    result = run(design, {"memory_mib": 0.15, "page_kib": 16}, popularity="uniform")
    ((client,), (server,)) = result["clients"], result["servers"]
    replies = client["replies"]
    assert min(replies["not_found"], replies["done"]) > 20
    assert replies["done"] + replies["not_found"] == client["statistics"]["responses"]
    assert client["statistics"]["unexpected"] == 0
    assert server["interface"]["processors"]["host_load_faults"] == 0


def test_puts_are_not_answered() -> None:
    """They get the answer to what is no request: one word."""
    (client,) = run("B", gets=0.5)["clients"]
    unexpected = client["statistics"]["unexpected_because"]
    assert set(client["by_kind"]) == {"get"}
    assert unexpected["too_short"] == client["statistics"]["unexpected"] > 0
