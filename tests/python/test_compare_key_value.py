"""The same key-value store behind four interfaces: what must hold whichever it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError
from nanoplane.papers.compare import key_value

_MASK = (1 << 64) - 1
_KEYS, _REFUSED = 10_000, _MASK
_REQUESTS = 120
"""Of guest/tests/store-client.c."""


def _mix(number: int) -> int:
    """Return what `operation_mix` of operations.h does: a step of SplitMix64."""
    mixed = (number + 0x9E3779B97F4A7C15) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


def _expected(value_words: int = 64, first_key: int = 0, rounds: int = 0) -> list[str]:
    """Return what store-client.c prints of a store that is a dictionary."""
    store = {
        key: [_mix(key * value_words + word) for word in range(value_words)] for key in range(_KEYS)
    }
    lines = []
    for number in range(_REQUESTS):
        choice = _mix(number)
        is_write = choice % 2 == 1
        key = first_key + choice // 2 % 8 + (_KEYS if number % 10 == 3 else 0)
        asked = rounds if number % 3 == 0 else 0
        if number % 20 in (7, 17):
            reply = [_REFUSED]
        elif is_write:
            store[key] = [_mix(number * value_words + 6 + word) for word in range(value_words)]
            reply = [asked, 0, 1]
        else:
            reply = [asked, 0, *store.get(key, [0])]
        value = 0
        for word in reply:
            value = _mix(value ^ word)
        lines.append(f"{len(reply)} {value:016x}")
    return lines


def _small(system: str) -> dict[str, Any]:
    """Return the entry of `rack.servers` of a system on four cores."""
    offer = {"mode": "open", "rate_mrps": 1.0}
    data = key_value.rack("small", system, offer, {"requests": 100}).resolve().data
    entry: dict[str, Any] = data["rack"]["servers"][0]
    server = entry["server"]
    server["fabric"] |= {"cores": 4, "mesh": {**server["fabric"]["mesh"], "columns": 2, "rows": 2}}
    server["data_plane_cores"] = 4
    if entry["interface"] == "rpcvalet":
        server["rpcvalet"] |= {"backends": 2}
    if entry["interface"] == "dma-nic":
        # Two rings for each core, so that they share completion queues.
        usual = 64 if "completions" in system else server["dma_nic"]["queues"]
        server["dma_nic"]["queues"] = {64: 8, 16: 4, 1: 1}[usual]
    return entry


def _run(description: dict[str, Any], **simulation: Any) -> Mapping[str, Any]:
    resolved = Description.from_dict(
        {**description, "simulator": simulation}, source="test"
    ).resolve()
    return simulator.rack(resolved.data, compiler.unpack(resolved.elf()))


def _client(entry: dict[str, Any], **parameters: int) -> dict[str, Any]:
    """Return the entry of a client that prints what it is answered."""
    return {
        "name": "client",
        "program": str(compiler.GUEST / "tests" / "store-client.c"),
        "interface": "nanopu",
        "server": {
            **key_value.SERVER,
            **key_value.interface(key_value.SYSTEMS["nanopu"], key_value.VALUE_BYTES),
            "fabric": entry["server"]["fabric"],
        },
        "parameters": parameters,
    }


@pytest.mark.sampled
@pytest.mark.parametrize("system", key_value.SYSTEMS)
def test_replies_are_those_of_a_dictionary(system: str) -> None:
    """Each reply has the words that a dictionary gives: the same, whatever the system."""
    entry = _small(system)
    result = _run({"rack": {"link": {"latency_ns": 1000.0}, "servers": [entry, _client(entry)]}})
    assert result["servers"][1]["output"].splitlines() == _expected()


@pytest.mark.parametrize("system", ["rings", "rpcvalet", "nanopu"])
def test_replies_have_short_values(system: str) -> None:
    """The same with values of a word, which are as long as what is no value."""
    entry = _small(system)
    entry["parameters"] |= {"value_bytes": 8}
    client = _client(entry, value_words=1)
    result = _run({"rack": {"link": {"latency_ns": 1000.0}, "servers": [entry, client]}})
    assert result["servers"][1]["output"].splitlines() == _expected(value_words=1)


def test_replies_are_right_behind_interrupts() -> None:
    """Several clients' requests interrupt each other on two harts, and go on on either of them."""
    entry = _small("shinjuku-on-chip")
    entry["parameters"] |= {"slice_cycles": 2000}
    entry["server"]["data_plane_cores"] = 3
    clients = [
        {**_client(entry, first_key=100 * number, rounds=1000 * (number + 1)), "name": f"{number}"}
        for number in range(4)
    ]
    switch = {"forwarding_latency_ns": 0.0}
    result = _run({"rack": {"switch": switch, "servers": [entry, *clients]}})
    server, *asked = result["servers"]
    assert server["user_interrupts"]["delivered"] > 20
    for number, client in enumerate(asked):
        expected = _expected(first_key=100 * number, rounds=1000 * (number + 1))
        assert client["output"].splitlines() == expected


def _loaded(system: str, rate_mrps: float, requests: int) -> dict[str, Any]:
    offer = {"mode": "open", "rate_mrps": rate_mrps}
    data = key_value.rack("loaded", system, offer, {"requests": requests, "warmup": 0}).data
    return {**data, "rack": {**data["rack"], "servers": [_small(system)]}}


@pytest.mark.sampled
@pytest.mark.parametrize("system", key_value.SYSTEMS)
def test_no_request_is_lost(system: str) -> None:
    """What the client has sent has been answered, but for what is under way when the run ends."""
    result = _run(_loaded(system, 1.0, 200))
    (server,), (client,) = result["servers"], result["clients"]
    interface = server["interface"]
    came = interface.get("frames_received", interface.get("packets_received"))
    left = interface.get("frames_sent", interface.get("packets_sent"))
    assert not any(count for name, count in interface.items() if "dropped" in name)
    assert client["statistics"]["responses"] >= 200
    # Each of them is on one of the links, in the server, or answered: none is made or lost.
    assert client["statistics"]["requests"] == client["sent"]["packets"]
    assert client["sent"]["packets"] >= came >= left >= client["statistics"]["responses"]
    # The run ends within a microsecond of the last request measured; each takes some 2 or 3.
    assert client["statistics"]["requests"] - client["statistics"]["responses"] <= 10
    assert client["statistics"]["unexpected"] == 0
    energy = server["energy_nj"]
    responses = client["statistics"]["responses"]
    assert energy["per_request"] == pytest.approx(energy["total"] / responses)
    # From when the client begins, and not from when the server does.
    assert energy["seconds"] == pytest.approx(result["simulated_seconds"] - 100e-6)


def test_the_interface_is_told_in_order() -> None:
    """A number that is told behind a higher one is an error of the run: cores take turns at it.

    It takes cores that are far apart, and much to do.
    """
    case = key_value.Case("shared-on-chip", 12.0, room=64)
    description = case.description(quick=True)
    result = _run(description.data)
    assert result["measurement"]["throughput_mrps"] == pytest.approx(12, rel=0.1)


@pytest.mark.parametrize("forwarding", [True, False])
def test_no_wake_up_is_lost(forwarding: bool) -> None:
    """Two requests are under way, and the next comes when one is answered.

    A frame whose interrupt is lost waits until another one comes to its core, which takes more than
    14 us in each of these runs if the interface does not interrupt for what came before the write.
    Otherwise a request waits for the other one at most: twice 3.2 us, and two crossings of 250 ns.
    """
    description = _loaded("interrupts", 1.0, 200)
    (client,), (server,) = (description["rack"][key] for key in ("clients", "servers"))
    client["load"]["offer"] = {"mode": "closed", "clients": 2, "think_ns": 0.0}
    server["server"]["user_interrupts"] = {"forwarding": forwarding}
    for seed in range(20):
        description["measure"]["seed"] = seed
        result = _run(description)
        (server_result,), (client_result,) = result["servers"], result["clients"]
        counts = server_result["user_interrupts"]
        assert client_result["statistics"]["responses"] >= 200
        assert counts["forwarded" if forwarding else "posted"] >= counts["delivered"] > 0
        assert counts["unrouted"] == 0
        assert result["measurement"]["latency_ns"]["max"] < 2 * 3200 + 2 * 250


def test_interrupts_cost_what_happens() -> None:
    """Each cost alone, a nanojoule or a milliwatt, counts its events; none happens before."""
    description = _loaded("interrupts", 1.0, 100)
    (server,) = description["rack"]["servers"]
    names = "register_write_pj delivery_pj look_up_pj hop_pj hart_static_mw routes_static_mw"

    def spent(of: str) -> tuple[float, float, Mapping[str, Any], float]:
        costs = {name: 0.0 if name != of else 1000.0 for name in names.split()}
        server["server"]["user_interrupts"] = {"energy": costs}
        result = _run(description)["servers"][0]
        energy = result["energy_nj"]
        part = energy["user_interrupts"]
        return part["dynamic"], part["static"], result["user_interrupts"], energy["seconds"]

    dynamic, static, counts, seconds = spent("delivery_pj")
    assert (dynamic, static) == pytest.approx((counts["delivered"], 0))
    assert spent("look_up_pj")[:2] == pytest.approx((counts["forwarded"], 0))
    # The longest way over 2 x 2 tiles.
    assert spent("hop_pj")[:2] == pytest.approx((2 * counts["forwarded"], 0))
    # The notice, and `stui`, `uiret` and `clui`; at the end of the run one may be under way.
    writes = spent("register_write_pj")[0]
    assert 4 * counts["delivered"] <= writes <= 4 * counts["forwarded"] + 3
    # Watts are nanojoules in a nanosecond: of each of four harts, and once.
    assert spent("hart_static_mw")[:2] == pytest.approx((0, 4e9 * seconds))
    assert spent("routes_static_mw")[:2] == pytest.approx((0, 1e9 * seconds))


def test_cores_sleep_between_requests() -> None:
    """At 0.1 million requests a second four cores have 40 us for each, and it takes some 1.5."""

    def asleep(system: str) -> float:
        cores = _run(_loaded(system, 0.1, 100))["servers"][0]["cores"]
        return float(
            sum(core["halted_cycles"] for core in cores) / sum(core["cycles"] for core in cores)
        )

    # Before they begin, cores wait for the first one.
    for system in ("rings", "rpcvalet", "nanopu"):
        assert asleep(system) < 0.01
    for system in ("interrupts", "rpcvalet-wrs", "nanopu-wfi"):
        assert 0.9 < asleep(system) < 1


@pytest.mark.parametrize(
    "system",
    ["qwait", "rpcvalet", "interrupts", "completions-on-chip", "rpcvalet-wrs", "nanopu-wfi"],
)
def test_results_do_not_depend_on_how_they_are_found(system: str) -> None:
    """How far cores run ahead and what is skipped changes nothing, energy included."""
    description = _loaded(system, 2.0, 100)

    def told(**simulation: Any) -> dict[str, Any]:
        return simulator.without_host(_run(description, **simulation))

    usual = told()
    assert told(lookahead_cycles=1) == usual
    assert told(skip_spinning=False) == usual


def test_the_edge_of_the_chip_has_no_memory_to_read(tmp_path: Path) -> None:
    """A one-sided operation gets an error, for reads and writes of one and of many blocks."""
    program = tmp_path / "reader.c"
    program.write_text(
        "#include <sonuma.h>\n"
        "#include <stdio.h>\n"
        "static char lines[256] __attribute__((aligned(64)));\n"
        "int main(void) {\n"
        "  sonuma_open();\n"
        "  struct sonuma_endpoint *endpoint = sonuma_endpoint(0);\n"
        '  printf("%d ", sonuma_read(endpoint, 0, 3, lines, 64, 256));\n'
        '  printf("%d ", sonuma_write(endpoint, 0, 5, lines, 0, 1));\n'
        '  printf("%d", sonuma_read(endpoint, 0, 64, lines, 0, 64));\n'
        "  return 0;\n"
        "}\n"
    )
    entry = {**_small("rpcvalet"), "program": str(program), "serves": False, "parameters": {}}
    result = _run({"rack": {"servers": [entry, entry]}})
    # SONUMA_UNKNOWN_CONTEXT twice; of 64 nodes there is none with the number 64.
    assert result["servers"][0]["output"] == "-13 -13 -3"
    assert result["servers"][0]["interface"]["backends"]["faults"] == 4 + 1


def test_what_cannot_be_gets_a_sentence() -> None:
    """A core has one extension, and RPCValet's cluster is not in a rack."""
    entry = _small("nanopu")
    entry |= {"systems": ["hyperplane"], "serves": False}
    with pytest.raises(DescriptionError, match=r"systems is nanopu with hyperplane; each of them"):
        _run({**_loaded("nanopu", 1.0, 100), "rack": {"servers": [entry, entry]}})
    entry = _small("rpcvalet")
    entry["serves"] = False
    entry["server"]["rpcvalet"]["network"] = {"latency_ns": 10.0}
    with pytest.raises(DescriptionError, match=r"here the links describe the network, and only"):
        _run({**_loaded("rpcvalet", 1.0, 100), "rack": {"servers": [entry, entry]}})
    entry = _small("rpcvalet")
    entry["serves"] = False
    entry["server"]["rpcvalet"]["domains"] = [{}]
    with pytest.raises(DescriptionError, match=r"the edge of the chip \(gateway\) has one"):
        _run({**_loaded("rpcvalet", 1.0, 100), "rack": {"servers": [entry, entry]}})
