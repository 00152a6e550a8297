"""RPCValet: messages from an integrated network interface, in every mode and with every misuse."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import Description, compiler, simulator
from nanoplane.errors import DescriptionError, Failure

pytestmark = pytest.mark.simulator

GUESTS = Path(__file__).parents[2] / "guest" / "tests"
BY_HAND = GUESTS / "sonuma.c"
MODES = ["one-queue", "queue-per-backend", "queue-per-core", "software"]

SMALL = {
    "server.fabric.cores": 4,
    "server.fabric.mesh.columns": 2,
    "server.fabric.mesh.rows": 2,
    "server.fabric.memory.controllers": 1,
    "server.data_plane_cores": 4,
    "server.rpcvalet.backends": 2,
    "data_plane.queues": 8,
    "traffic.rate_mrps": 4.0,
    "measure.requests": 400,
}


@functools.cache
def guest(program: str) -> bytes:
    return compiler.elf(compiler.find_program(program, Path(), "program"))


def described(program: str, settings: dict[str, Any]) -> Description:
    description = Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1"},
            "data_plane": {"program": program, "notify": "rpcvalet", "queues": 200},
            "traffic": {"packet_bytes": 48},
        }
    )
    for key, value in settings.items():
        description = description.set(key, value)
    return description


def run(program: str = "echo", *tables: dict[str, Any], **options: Any) -> Mapping[str, Any]:
    settings = {key: value for table in tables for key, value in table.items()}
    data = described(program, settings).resolve().data
    return simulator.run(data, guest(program), options or None)


def mode(name: str) -> dict[str, Any]:
    return {"server.rpcvalet.dispatch.mode": name}


def check(result: Mapping[str, Any]) -> None:
    """Every message is dispatched once, and everything adds up."""
    cluster, backends = (result["rpcvalet"][part] for part in ("cluster", "backends"))
    parts = ("dropped", "refused", "entering", "inside", "delivered")
    assert result["generated"] == sum(result[part] for part in parts)
    assert cluster["unexpected_replies"] == cluster["unexpected_replenishes"] == 0
    assert backends["unexpected_replenishes"] == 0
    assert cluster["messages"] >= backends["messages_received"] >= backends["replenished"]
    assert backends["replenished"] >= result["delivered"] >= cluster["replies"] - 1


BY_TURNS = {**mode("software"), "data_plane.parameters.turns": 1}


@pytest.mark.parametrize("settings", [*map(mode, MODES), BY_TURNS])
def test_requests_come_back_as_they_came(settings: dict[str, Any]) -> None:
    """In any mode the replies of `echo` are the packets that the same seed generates elsewhere."""
    generated = run("echo", SMALL, {"data_plane.notify": "spin"}, capture_packets=600)
    result = run("echo", SMALL, settings, capture_packets=400)
    check(result)
    assert len(set(result["captured"])) == len(result["captured"]) >= 390
    assert set(result["captured"]) <= set(generated["captured"])
    assert result["program_counters"] == {"replies_without_slot": 0}


@pytest.mark.parametrize("bytes_", [400, 2000])
def test_messages_of_many_packets_and_by_rendezvous(bytes_: int) -> None:
    """400 bytes have seven blocks; 2000 do not fit into a message, and are read, in both ways."""
    large = {
        "traffic.packet_bytes": bytes_,
        "server.rpcvalet.network.shuffle": True,
        "traffic.rate_mrps": 2.0,
        "measure.requests": 150,
    }
    generated = run("echo", SMALL, large, {"data_plane.notify": "spin"}, capture_packets=250)
    result = run("echo", SMALL, large, capture_packets=140)
    check(result)
    assert len(result["captured"][0]) == 2 * bytes_
    assert set(result["captured"]) <= set(generated["captured"])
    cluster, backends = (result["rpcvalet"][part] for part in ("cluster", "backends"))
    blocks = 7 if bytes_ == 400 else 1
    assert cluster["packets"] == blocks * cluster["messages"]
    reads = backends["one_sided"]
    assert reads == 0 if bytes_ == 400 else cluster["messages"] >= reads >= result["delivered"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        mode("software"),
        BY_TURNS,
        {"server.rpcvalet.dispatch.policy": "power-of-two", **mode("queue-per-backend")},
        {"server.rpcvalet.domains": [{"cores": 1}, {"dispatch": {"mode": "software"}}]},
    ],
)
def test_how_far_cores_run_ahead_changes_nothing(settings: dict[str, Any]) -> None:
    few = {"measure.requests": 150}
    results = []
    for simulator_settings in (
        {},
        {"simulator.lookahead_cycles": 1},
        {"simulator.skip_spinning": False},
    ):
        result = run("synthetic", SMALL, few, settings, simulator_settings)
        results.append(simulator.without_host(result))
    assert results[0] == results[1] == results[2]


def test_one_queue_has_the_shortest_tail() -> None:
    """The paper's point: 1x16 is better than 4x4 is better than 16x1, and the lock costs."""
    loaded = {
        "server.data_plane_cores": 16,
        # Some 1.15 us a request, 13.9 MRPS for 16 cores: a load of 0.75.
        "traffic.rate_mrps": 10.5,
        "measure.requests": 1500,
    }
    tails = {}
    for name in MODES:
        result = run("synthetic", loaded, mode(name))
        check(result)
        tails[name] = result["latency_ns"]["p99"]
        # 1000 ns of work, and what sends and replenishes; in software from the take on, so that the
        # wait for the lock is not in it.
        assert 1000 < result["service_ns"]["mean"] < 1250
        assert result["service_ns"]["samples"] == result["latency_ns"]["samples"]
    assert tails["one-queue"] * 1.5 < tails["queue-per-backend"]
    assert tails["queue-per-backend"] * 1.3 < tails["queue-per-core"]
    assert tails["one-queue"] * 1.2 < tails["software"]
    # Without a lock, software gives a message to whoever has waited longest, as hardware does.
    by_turns = run("synthetic", loaded, BY_TURNS)
    check(by_turns)
    assert by_turns["latency_ns"]["p99"] < 1.2 * tails["one-queue"]
    assert by_turns["service_ns"] is None


def test_what_goes_wrong_is_counted_and_nothing_hangs() -> None:
    network = "server.rpcvalet.network"
    bad = {
        "traffic.packet_bytes": 200,
        f"{network}.shuffle": True,
        f"{network}.slots_used_twice": 0.1,
        f"{network}.oversized": 0.1,
        f"{network}.faults.lost": 0.05,
        f"{network}.faults.duplicated": 0.05,
        f"{network}.faults.reordered": 0.2,
    }
    result = run("echo", SMALL, bad)
    check(result)
    cluster, backends = (result["rpcvalet"][part] for part in ("cluster", "backends"))
    assert all(cluster[name] > 50 for name in ("lost", "duplicated", "reordered", "violations"))
    assert backends["refused"] >= cluster["violations"] - 5
    assert result["program_counters"]["replies_without_slot"] == 0


def test_a_node_that_never_replenishes_gets_as_many_replies_as_it_has_slots() -> None:
    silent = {"server.rpcvalet.slots": 4, "server.rpcvalet.network.silent_nodes": 2}
    result = run("echo", SMALL, silent)
    check(result)
    cluster = result["rpcvalet"]["cluster"]
    lost = result["program_counters"]["replies_without_slot"]
    # The slots towards two nodes fill up with four replies each; all later ones are lost.
    of_silent = sum(result["queues"]["delivered"][:2])
    assert abs(of_silent - (lost + 8)) <= 4
    assert cluster["replies"] + lost <= result["delivered"] + 1


def test_a_node_waits_for_a_slot() -> None:
    one = {"server.rpcvalet.slots": 1, "data_plane.queues": 2, "traffic.rate_mrps": 20.0}
    result = run("echo", SMALL, one)
    check(result)
    cluster = result["rpcvalet"]["cluster"]
    assert cluster["max_slots_in_use"] == 1
    assert cluster["waits"] > 300
    assert cluster["waited_fs"] > 0
    assert result["dropped"] > 0


def two_domains(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """SMALL's nodes and cores, divided."""
    first, second = ({"nodes": 4, "cores": 2, **table} for table in more)
    return [first, second]


def test_one_domain_in_the_list_is_the_one_that_is_there_without() -> None:
    few = {"measure.requests": 150}
    lists: list[list[dict[str, Any]]]
    lists = [[], [{}], [{"nodes": 8, "cores": 4, "share": 7.0, "slots": 32}]]
    results = [run("echo", SMALL, few, {"server.rpcvalet.domains": domains}) for domains in lists]
    bare, *others = map(simulator.without_host, results)
    assert all(other == bare for other in others)
    (domain,) = bare["rpcvalet"]["domains"]
    assert domain["measured"]["latency_ns"]["p99"] == bare["latency_ns"]["p99"]
    assert domain["delivered"] == bare["delivered"]


@pytest.mark.parametrize("bytes_", [48, 900])
def test_two_domains_have_replies_of_their_own(bytes_: int) -> None:
    """In software and in hardware, in one message or by rendezvous, through contexts 0 and 1."""
    domains = two_domains(
        {"dispatch": {"mode": "software"}}, {"max_message_bytes": 256, "slots": 4, "share": 3.0}
    )
    packets = {"traffic.packet_bytes": bytes_, "traffic.rate_mrps": 2.0, "measure.requests": 200}
    generated = run("echo", SMALL, packets, {"data_plane.notify": "spin"}, capture_packets=300)
    result = run("echo", SMALL, packets, {"server.rpcvalet.domains": domains}, capture_packets=180)
    check(result)
    assert set(result["captured"]) <= set(generated["captured"])
    assert len(result["captured"]) == 180
    first, second = result["rpcvalet"]["domains"]
    assert (first["context"], first["first_core"], first["cores"]) == (0, 0, 2)
    assert (second["context"], second["first_core"], second["cores"]) == (1, 2, 2)
    assert first["delivered"] == sum(result["queues"]["delivered"][:4])
    assert second["delivered"] == sum(result["queues"]["delivered"][4:])
    # Three quarters of some 200 and the warm-up: a standard deviation of 3 %.
    assert second["delivered"] / result["delivered"] == pytest.approx(0.75, abs=0.15)
    # "32 x N x S + (max_msg_size + 64) x N x S" for each.
    assert first["bytes"] == 4 * 32 * (32 + 1152 + 64)
    assert second["bytes"] == 4 * 4 * (32 + 256 + 64)
    assert result["rpcvalet"]["domain_bytes"] == first["bytes"] + second["bytes"]
    cluster, backends = (result["rpcvalet"][part] for part in ("cluster", "backends"))
    assert backends["refused_one_sided"] == cluster["faults_of_reads"] == 0
    # Requests of 900 bytes do not fit into messages of 256, and do into those of 1152.
    expected = second["delivered"] if bytes_ == 900 else 0
    assert backends["one_sided"] == pytest.approx(expected, abs=4)


def test_each_domain_of_the_example_has_its_own_queue() -> None:
    """The second has twice what its cores take, and the first is as fast as alone."""
    description = Description.from_toml("examples/two-domains.toml")
    resolved = description.set("measure.requests", 1500).resolve()
    both = simulator.run(resolved.data, compiler.elf(resolved.program))
    first, second = both["rpcvalet"]["domains"]
    assert first["measured"] is not None
    assert second["measured"] is not None
    domains = description.data["server"]["rpcvalet"]["domains"]
    domains = [{**domains[0], "share": 1.0}, {**domains[1], "share": 0.0}]
    description = description.set("server.rpcvalet.domains", domains).set("measure.requests", 1500)
    resolved = description.set("traffic.rate_mrps", 6.0).resolve()
    alone, silent = simulator.run(resolved.data, compiler.elf(resolved.program))["rpcvalet"][
        "domains"
    ]
    assert silent["generated"] == 0
    assert silent["measured"] is None
    assert alone["measured"] is not None
    # Eight cores take 10 MRPS of requests of some 770 ns.
    assert second["measured"]["throughput_mrps"] == pytest.approx(10.4, rel=0.05)
    assert second["generated"] - second["delivered"] > 400
    # 6 MRPS for eight cores, a load of 0.6. What both have in common makes the mean a bit longer.
    latency_ns = first["measured"]["latency_ns"]
    assert latency_ns["mean"] == pytest.approx(alone["measured"]["latency_ns"]["mean"], rel=0.1)
    assert latency_ns["p99"] < second["measured"]["latency_ns"]["mean"] / 5


def test_a_domain_that_the_program_does_not_open_is_told(tmp_path: Path) -> None:
    source = tmp_path / "half.c"
    source.write_text(
        "#include <sonuma.h>\n"
        "static char segment[64] __attribute__((aligned(64)));\n"
        "int main(void) {\n"
        "  sonuma_open_context(0, segment, sizeof segment);\n"
        "  sonuma_open_domain(0);\n"
        "  io_device()->start = 1;\n"
        "  for (;;)\n"
        "    sonuma_receive(sonuma_endpoint(0));\n"
        "}\n"
    )
    settings = {"server.rpcvalet.domains": two_domains({}, {}), "server.rpcvalet.slots": 1}
    with pytest.raises(Failure, match="not opened the messaging domain of context 1"):
        run(str(source), SMALL, settings, {"traffic.rate_mrps": 100.0})


@pytest.mark.parametrize("offset", ["64", "1ul << 63"])
def test_a_reply_outside_of_the_segment_is_an_error(tmp_path: Path, offset: str) -> None:
    """Nodes cannot read what the program has told; the replies are errors, and nothing hangs."""
    source = tmp_path / "liar.c"
    source.write_text(
        "#include <sonuma.h>\n"
        "static uint64_t told[32][8] __attribute__((aligned(64)));\n"
        "int main(void) {\n"
        "  sonuma_open();\n"
        "  io_device()->start = 1;\n"
        "  for (uint64_t count = 0;; count++) {\n"
        "    struct sonuma_message message = sonuma_receive(sonuma_endpoint(0));\n"
        "    const struct io_slot *in = message.data;\n"
        "    uint64_t *reply = told[count % 32];\n"
        "    reply[0] = 184 | (uint64_t)IO_FLAG_RENDEZVOUS << 32;\n"
        "    reply[1] = in->item;\n"
        f"    reply[2] = {offset};\n"
        "    reply[3] = 200;\n"
        "    sonuma_send(sonuma_endpoint(0), 0, message.node, reply, 32);\n"
        "    sonuma_replenish(sonuma_endpoint(0), &message);\n"
        "  }\n"
        "}\n"
    )
    few = {"server.data_plane_cores": 1, "traffic.rate_mrps": 1.0, "measure.requests": 100}
    result = run(str(source), SMALL, few)
    check(result)
    cluster, backends = (result["rpcvalet"][part] for part in ("cluster", "backends"))
    assert result["errors"] == cluster["replies"] >= 99
    # 200 bytes have four blocks; the last replies are under way.
    assert 0 <= cluster["faults_of_reads"] - 4 * cluster["replies"] <= 8
    assert backends["refused_one_sided"] >= cluster["faults_of_reads"]


def test_the_interface_by_hand() -> None:
    """The guest checks each error, and what one-sided writes and reads bring."""
    by_hand = {
        "server.data_plane_cores": 1,
        "server.rpcvalet.network.one_sided_contexts": 2,
        "server.rpcvalet.network.segment_bytes": 8192,
        "traffic.rate_mrps": 1.0,
        "measure.requests": 200,
    }
    result = run(str(BY_HAND), SMALL, by_hand)
    check(result)
    backends, cluster = (result["rpcvalet"][part] for part in ("backends", "cluster"))
    # A write and four reads; four more, of which three have an error: one block of each of two
    # reads, and three of the four of the write that goes over the end. What is behind all segments
    # is not even posted.
    assert backends["one_sided"] == 5 + 4
    assert backends["faults"] == cluster["faults_of_nodes"] == 1 + 1 + 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"server.rpcvalet.backends": 5}, r"server\.rpcvalet\.backends is 5; each has a row"),
        ({"server.rpcvalet.slots": 0}, "slots is 0"),
        ({"server.rpcvalet.max_message_bytes": 100}, "a multiple of 64"),
        ({"server.rpcvalet.dispatch.threshold": 17}, "from 1 to 16"),
        ({"server.rpcvalet.dispatch.policy": "random"}, "power-of-two"),
        ({"data_plane.queues": 0}, "data_plane.queues is 0"),
        ({"data_plane.batch": 2}, "one message at a time"),
        ({"data_plane.organisation": "scale-out"}, "server.rpcvalet.dispatch says"),
        ({"traffic.imbalance": 0.5}, "no core has queues of its own"),
        (
            {"server.data_plane_cores": 8, **mode("queue-per-backend")},
            "backend 2 has no data",
        ),
        ({"server.rpcvalet.network.latency_ns": -1}, "latency_ns"),
        ({"server.rpcvalet.network.segment_bytes": 100}, "a multiple of 64, from 64"),
        (
            {"server.rpcvalet.domains": [{"nodes": 50}, {"nodes": 60}]},
            r"domains\.\*\.nodes is 50, 60; .*all together 200, which is data_plane\.queues",
        ),
        ({"server.rpcvalet.domains": [{"cores": 1}, {}]}, r"all together 1, which is server\.data"),
        ({"server.rpcvalet.domains": [{"share": 0.0}]}, "one at least must be above 0"),
        ({"server.rpcvalet.domains": [{"slots": 5000}]}, "slots is 5000"),
        ({"server.rpcvalet.domains": [{"share": 1.0, "size": 2}]}, "size"),
        (
            {"server.rpcvalet.network.one_sided_contexts": 15, "server.rpcvalet.domains": [{}] * 2},
            "17 contexts, and 16 are the most",
        ),
    ],
)
def test_wrong_descriptions_get_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DescriptionError, match=sentence):
        run("echo", settings)


def test_the_interface_is_there_only_if_asked_for() -> None:
    with pytest.raises(Failure, match=r'use data_plane\.notify = "rpcvalet"'):
        run(str(BY_HAND), SMALL, {"data_plane.notify": "spin"})


def test_a_program_that_never_replenishes_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "forgetful.c"
    source.write_text(
        "#include <sonuma.h>\n"
        "int main(void) {\n"
        "  sonuma_open();\n"
        "  io_device()->start = 1;\n"
        "  for (;;)\n"
        "    sonuma_receive(sonuma_endpoint(0));\n"
        "}\n"
    )
    one = {"server.data_plane_cores": 1, "data_plane.queues": 1, "server.rpcvalet.slots": 4}
    with pytest.raises(Failure) as error:
        run(str(source), SMALL, one)
    # Two messages are at the core, and two more wait; the node has no slot left.
    assert "2 messages wait in shared queue 0 of 1 for a core with fewer than 2" in str(error.value)
    assert "core 0 has 2" in str(error.value)
    assert "4 messages have not been replenished" in str(error.value)
