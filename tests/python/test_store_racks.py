"""The two stores of gigabytes behind a network interface, with a load generator."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import nanoplane
from nanoplane import Description, compiler, simulator
from nanoplane.description import Resolved
from nanoplane.errors import DescriptionError
from nanoplane.papers.stores import load
from test_transactional_store import HOLD

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    load.CACHE: ROOT / "examples" / "object-cache-rack.toml",
    load.TRANSACTIONS: ROOT / "examples" / "transactional-store-rack.toml",
}
OPERATIONS = "rack.clients.0.load.operations"
RATE = "rack.clients.0.load.offer.rate_mrps"
FRAME = "rack.servers.0.server.dma_nic.max_frame_bytes"
PROGRAM = "rack.servers.0.program"
SMALL: dict[str, dict[str, Any]] = {
    load.CACHE: {f"{OPERATIONS}.keys": 3000},
    load.TRANSACTIONS: {
        f"{OPERATIONS}.warehouses": 2,
        "rack.servers.0.parameters": {"items": 500, "customers": 30, "spare_mib": 1},
    },
}
ONE_CORE: dict[str, Any] = {
    "rack.servers.0.server": {
        **load.machine(1),
        "dma_nic": {"queues": load.THREADS},
    }
}
NUMBERS: dict[str, dict[str, Any]] = {
    load.CACHE: {RATE: 0.4, "measure.requests": 150, FRAME: load.FRAME_BYTES[load.CACHE]},
    load.TRANSACTIONS: {RATE: 0.06, "measure.requests": 150},
}
WAYS: dict[str, list[str]] = {"rings": [], "qwait": ["hyperplane"]}
REQUESTS = {"measure.requests": 250, "measure.warmup": 50}


def describe(store: str, settings: Mapping[str, Any]) -> Resolved:
    description = Description.from_toml(EXAMPLES[store])
    for key, value in {**SMALL[store], **REQUESTS, **settings}.items():
        description = description.set(key, value)
    return description.resolve()


def run(store: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    resolved = describe(store, settings)
    elves = compiler.unpack(resolved.elf())
    return simulator.rack(resolved.data, elves, {}, None, resolved.contents())


def way(store: str, name: str) -> dict[str, Any]:
    """Return what lets harts learn of frames so."""
    return {PROGRAM: f"stores/{store}-{name}", "rack.servers.0.systems": WAYS[name]}


@pytest.mark.parametrize("name", WAYS)
def test_the_cache_answers_through_the_interface(name: str) -> None:
    """The load generator checks each value; here, that all were answered and nothing was lost."""
    result = run(load.CACHE, way(load.CACHE, name))
    (client,), (server,) = result["clients"], result["servers"]
    statistics, replies = client["statistics"], client["replies"]
    assert statistics["responses"] == replies["done"] >= 300
    assert replies["not_found"] == replies["no_room"] == statistics["unexpected"] == 0
    assert set(client["by_kind"]) == {"get", "put"}
    gets = client["by_kind"]["get"]["latency_ns"]["samples"]
    # 200 of 250, within four standard deviations.
    assert abs(gets - 200) < 4 * (250 * 0.8 * 0.2) ** 0.5
    assert client["measurement"]["keeps_up"]
    assert server["program_counters"] == {"evicted_at_first": 0}


def test_a_reply_belongs_to_its_operation_among_those_sent_at_one_time() -> None:
    """Clients of a closed loop begin together; the replies of several cores overtake each other."""
    offer = {"mode": "closed", "clients": 16, "think_ns": 0.0}
    result = run(load.CACHE, {"rack.clients.0.load.offer": offer})
    (client,) = result["clients"]
    assert client["statistics"]["max_under_way"] == 16
    assert client["replies"]["done"] == client["statistics"]["responses"] >= 300
    assert client["statistics"]["unexpected"] == 0


@pytest.mark.parametrize("name", [pytest.param("rings", marks=pytest.mark.long), "qwait"])
def test_transactions_through_the_interface_leave_consistent_tables(name: str) -> None:
    """Requests that are under way when the run ends are answered, and then the tables are right."""
    settings = {**ONE_CORE, **way(load.TRANSACTIONS, name), RATE: 0.12, "measure.requests": 150}
    result = run(load.TRANSACTIONS, settings)
    (client,), (server,) = result["clients"], result["servers"]
    found = HOLD.fullmatch(server["check"])
    assert found is not None
    orders = int(found[1]) - 2 * 10 * 30
    # 45 of 100 requests enter an order, and all that were made are answered.
    assert 60 < orders < client["statistics"]["requests"] * 0.6
    assert client["replies"]["no_room"] == 0
    assert set(server["program_counters"]) == {"aborts"}


@pytest.mark.long
def test_overload_does_not_keep_the_tables_from_being_checked() -> None:
    """Frames that the interface drops are never answered."""
    result = run(load.TRANSACTIONS, {**ONE_CORE, RATE: 2, "measure.requests": 100})
    assert not result["measurement"]["keeps_up"]
    assert result["servers"][0]["interface"]["dropped_no_descriptor"] > 0
    assert HOLD.fullmatch(result["servers"][0]["check"])


@pytest.mark.long
def test_a_lost_update_is_found(tmp_path: Path) -> None:
    program = tmp_path / "store.c"
    program.write_text(
        "#define SILO_HAPPENS(transaction) ((transaction)->reads = 0)\n"
        f'#include "{ROOT}/guest/programs/stores/transactional-store-qwait.c"\n'
    )
    sentence = r"^server: .*in check_after_run\(\); it said: Consistency condition \d+ of warehouse"
    parameters = {"items": 500, "customers": 100, "spare_mib": 1}
    settings = {"rack.servers.0.parameters": parameters, "measure.requests": 400}
    with pytest.raises(Exception, match=sentence):
        run(load.TRANSACTIONS, {PROGRAM: str(program), RATE: 0.4, **settings})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("reply->data[reply->count - 1] ^= 1", "its value is neither the first one of the key nor"),
        ("reply->number++", "it is for a request of kind 0 with number"),
        ("reply->status = 3", "its status is 3"),
        ("reply->count--", r"it has \d+ bytes and tells \d+ behind its head, where \d+ are right"),
    ],
)
def test_a_wrong_reply_ends_the_run(tmp_path: Path, body: str, sentence: str) -> None:
    program = tmp_path / "store.c"
    original = f"{ROOT}/guest/programs/stores/object-cache-rings.c"
    program.write_text(
        f"""
        #include <object_cache.h>
        static uint32_t requests;
        static inline uint32_t answer(const void *request, uint32_t bytes, void *at,
                                      uint32_t room) {{
          uint32_t reply_bytes = object_cache_handle(request, bytes, at, room);
          struct operation_reply *reply = at;
          if (requests++ > 20 && reply->operation == OPERATION_GET)
            {body};
          return reply_bytes;
        }}
        #define object_cache_handle answer
        #include "{original}"
        """
    )
    place = r"^client has got a wrong reply from 10\.0\.0\.1 to request \d+, which is a get: "
    with pytest.raises(Exception, match=place + sentence):
        run(load.CACHE, {**way(load.CACHE, "rings"), PROGRAM: str(program)})


def test_stores_work_behind_firmware() -> None:
    """The programmable interface delivers frames by their flows, as the plain one does."""
    firmware = {"rack.servers.0.server.dma_nic.processors.firmware": "flow-hash"}
    for store in EXAMPLES:
        settings = {**ONE_CORE, **way(store, "qwait"), **NUMBERS[store]}
        plain, behind = run(store, settings), run(store, {**settings, **firmware})
        (server,) = behind["servers"]
        frames = server["interface"]["processors"]
        assert frames["frames_to_host"] == frames["frames"] >= 200
        assert behind["clients"][0]["replies"]["done"] > 190
        assert HOLD.fullmatch(server.get("check", "")) or store == load.CACHE
        mean = [one["measurement"]["latency_ns"]["mean"] for one in (plain, behind)]
        # Transactions that meet in another order take another time.
        assert mean[0] < mean[1] or store == load.TRANSACTIONS


def test_clients_must_take_a_store_for_the_same() -> None:
    client = Description.from_toml(EXAMPLES[load.CACHE]).data["rack"]["clients"][0]
    other = {**client, "name": "other"}
    other["load"] = {**client["load"], "operations": {"keys": 7}}
    tables = dict(Description.from_toml(EXAMPLES[load.CACHE]).data)
    tables["rack"] = {**tables["rack"], "clients": [client, other], "switch": {}}
    with pytest.raises(
        DescriptionError,
        match=re.escape("rack.clients.1.load.operations is another store; keys, sizes"),
    ):
        Description.from_dict(tables).resolve()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("stamped", False, "stamped is false; a store answers operations in any order"),
        ("requests", [{"words": [1]}], "operations are all that is sent"),
        ("transport.packet_bytes", 4000, "the longest request or reply has 49"),
        ("operations.scans", 0.5, "with gets it must be at most 1"),
    ],
)
def test_what_operations_need_is_said(key: str, value: object, sentence: str) -> None:
    with pytest.raises(DescriptionError, match=sentence):
        describe(load.CACHE, {f"rack.clients.0.load.{key}": value})


@pytest.mark.parametrize(
    ("body", "status"), [("return 0;", 0), ("return 3;", 1)], ids=["right", "wrong"]
)
def test_a_program_alone_is_checked(tmp_path: Path, body: str, status: int) -> None:
    program = tmp_path / "program.c"
    program.write_text(
        "#include <stdio.h>\n"
        "static int counted;\n"
        "int main(void) { counted = 7; return 0; }\n"
        f'int check_after_run(void) {{ printf("It has %d.", counted); {body} }}\n'
    )
    said = nanoplane("exec", program, status=status)
    if status:
        assert "the program returned 3 from check_after_run(); it said: It has 7." in said
    else:
        assert said == "It has 7.\n"
