"""Racks: descriptions of several servers, and what comes out of them."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from command_line import nanoplane
from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure, NanoplaneError
from nanoplane.outcomes import measurement, settled
from nanoplane.papers.compare import key_value
from nanoplane.store import Store
from nanoplane.sweep import Run, sweep
from seeds import generator

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "rack.toml"
ALONE = ROOT / "examples" / "server-behind-dma-nic.toml"
GUESTS = ROOT / "guest" / "programs"


def simulate(description: Description, **options: Any) -> Mapping[str, Any]:
    resolved = description.resolve()
    return simulator.rack(resolved.data, compiler.unpack(resolved.elf()), options)


def run(*settings: str) -> Mapping[str, Any]:
    description = Description.from_toml(EXAMPLE).assign("measure.requests=200")
    for setting in settings:
        description = description.assign(setting)
    return simulate(description)


def test_a_closed_loop_without_thinking_ends_when_its_throughput_is_precise() -> None:
    """Its latencies follow from the throughput: by Little's law, clients divided by it."""
    offer = "rack.clients.0.load.offer={{mode='closed', clients=16, think_ns={}}}"
    settings = ("measure.requests=20_000", "measure.warmup=200", "measure.precision=0.05")
    busy, thinking = (measurement(run(*settings, offer.format(think))) for think in (0, 1000))
    assert busy["precise"]
    low, high = busy["throughput_mrps_ci95"]
    assert (high - low) / 2 <= 0.05 * busy["throughput_mrps"]
    # A p99 needs many that exceed it.
    assert 200 <= busy["latency_ns"]["samples"] < 1000 < thinking["latency_ns"]["samples"]


def test_a_server_alone_is_a_rack_of_one(tmp_path: Path) -> None:
    alone = Description.from_toml(ALONE).set("measure.requests", 300)
    data = alone.data
    measure, link, clients = (data.pop(name) for name in ("measure", "link", "clients"))
    rack = {"servers": [data], "link": link, "clients": clients}
    of_rack = Description.from_dict({"rack": rack, "measure": measure})
    outcomes = sweep([alone, of_rack], store=Store(tmp_path))
    one, other = (simulator.without_host(outcome.result) for outcome in outcomes)
    assert one == other
    assert all(settled(outcome) for outcome in outcomes)
    (entry,) = outcomes[1].description["rack"]["servers"]
    assert entry.items() <= outcomes[0].description.items()


def test_a_server_alone_names_a_program_and_clients_of_the_user() -> None:
    alone = Description.from_toml(ALONE).assign("program=mine.c")
    assert alone.get("program") == str(Path("mine.c").absolute())
    assert Run(alone).longer(2).description.get("measure.requests") == 4000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["link.latency_ns=1"], "link.latency_ns is 1; it must be a number of nanoseconds"),
        (["clients.0.begin_ns=-1"], "clients.0.begin_ns is -1; it must be a number of"),
        (["server.fabric.mesh.columns=1"], "server.fabric.cores is "),
        (["clients.0.servers=['x']"], 'clients.0.servers is "x"; the servers are ["server"]'),
        (["serves=false"], "clients.0.servers is a list of 0; there is no server to send"),
        (["clients.0.count=2"], "clients is a list with which there are 3 hosts; a link connects"),
        (["clients=[]"], "clients is a list with which there is one host; a link connects two"),
        (["data_plane={notify='spin', queues=1}"], 'program is "traditional/loopback-express"; a '),
        (["data_plane={notify='spin', queues=1}", "traffic.load=0.5"], "traffic.load is 0.5; it"),
        (["traffic.rate_mrps=1"], "traffic is given; it comes to a data plane, and there is no"),
        (["interface=pcie"], 'interface is "pcie"; it must be "rpcvalet", "nanopu", "ice-nic", '),
        (["rack.switch={}"], "a rack has its machines in rack.servers and its load in rack.client"),
    ],
)
def test_what_a_server_alone_with_a_network_cannot_be(settings: list[str], sentence: str) -> None:
    description = Description.from_toml(ALONE)
    for setting in settings:
        description = description.assign(setting)
    with pytest.raises(DescriptionError) as raised:
        description.resolve()
    assert f": {sentence}" in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("clients=[{load={offer={mode='open', rate_mrps=1.0}}}]", "clients is given; the server "),
        ("link.latency_ns=7", "link is given; the server has no network: leave it out, or name "),
        ("count=2", "count is given; the server has no network: leave it out"),
        ("serves=true", "serves is given; the server has no network: leave it out"),
        ("interface=dma-nic", "clients is a list with which there is one host; a link connects"),
        ("systems=['hyperplane']", 'data_plane.notify is "hyperplane"; it is the interface or'),
        ("data_plane=1", "data_plane is 1; it must be a table"),
    ],
)
def test_what_a_server_alone_without_a_network_cannot_be(setting: str, sentence: str) -> None:
    description = Description.from_toml(ALONE.with_name("encapsulation.toml")).assign(setting)
    with pytest.raises(DescriptionError) as raised:
        description.resolve()
    assert f": {sentence}" in str(raised.value)


def test_a_program_needs_a_network_or_a_data_plane() -> None:
    server = {"server": {"preset": "hyperplane-table1"}}
    with pytest.raises(DescriptionError, match="program is absent; a server has either a program"):
        Description.from_dict(server).resolve()
    with pytest.raises(DescriptionError, match=r"`nanoplane exec` runs it without either"):
        Description.from_dict({**server, "program": "echo"}).resolve()


@pytest.mark.parametrize("servers", [2, 4, 81])
def test_servers_behind_a_switch_answer(servers: int) -> None:
    result = run(f"rack.servers.0.count={servers}", "rack.clients.0.begin_ns=2000")
    assert len(result["servers"]) == servers
    (client,) = result["clients"]
    assert client["address"] == f"10.0.0.{servers + 1}"
    # Two ways through links and switch, 386 ns each, and 3.2 ns of 80 bytes; two of 26 ns in MAC
    # and serial I/O; the rest is the interface's pipelines and the program.
    wires_ns = 2 * (386 + 3.2 + 26)
    assert wires_ns < client["measurement"]["latency_ns"]["p50"] < wires_ns + 60
    assert result["switch"]["unroutable"] == 0
    forwarded = sum(port["forwarded"] for port in result["switch"]["ports"])
    hosts = result["servers"] + result["clients"]
    assert forwarded == sum(host["received"]["packets"] for host in hosts)


def test_a_link_connects_two() -> None:
    description = Description.from_toml(EXAMPLE)
    data = description.data
    del data["rack"]["switch"]
    data["rack"]["servers"][0]["count"] = 1
    data["measure"]["requests"] = 200
    result = simulate(Description.from_dict(data, EXAMPLE.parent))
    wires_ns = 2 * (43 + 3.2 + 26)
    assert wires_ns < result["clients"][0]["measurement"]["latency_ns"]["p50"] < wires_ns + 60
    assert "switch" not in result


def test_a_published_program_says_that_it_is_ready() -> None:
    program = ROOT / "guest" / "tests" / "nanopu-published.c"
    result = run(
        f"rack.servers.0.program={program}",
        "rack.servers.0.count=1",
        "rack.clients.0.begin_ns=2000",
    )
    (server,), (client,) = result["servers"], result["clients"]
    assert server["output"] == "Ready!\n"
    # Nobody has the address 0.0.0.0 to which it says so.
    assert result["switch"]["unroutable"] > 0
    assert client["measurement"]["latency_ns"]["samples"] > 100


def test_a_pair_of_servers() -> None:
    result = simulate(Description.from_toml(ROOT / "examples" / "rack-pair.toml"))
    memory, reader = result["servers"]
    assert (memory["exit_status"], reader["exit_status"]) == (None, 0)
    printed = re.findall(r"^(.+): 1000, cycles p50 (\d+) ", reader["output"], re.MULTILINE)
    kinds = ["read", "indirect read", "write", "compare-and-swap", "fetch-and-add"]
    assert [kind for kind, _ in printed] == kinds
    # Two ways of 43 ns with 26 ns of MAC and serial I/O at both ends, at 3.2 GHz; the rest are
    # the interfaces' pipelines and both programs.
    assert all(2 * (43 + 2 * 26) * 3.2 < int(cycles) < 400 * 3.2 for _, cycles in printed)


def test_81_servers_of_which_two_are_busy() -> None:
    description = Description.from_toml(ROOT / "examples" / "rack-81.toml")
    description = description.set("measure.requests", 100).set("rack.clients.0.begin_ns", 2000.0)
    result = simulate(description)
    busy, idle = result["servers"][:2], result["servers"][2:]
    assert (len(idle), idle[-1]["name"], idle[-1]["address"]) == (79, "idle 78", "10.0.0.81")
    assert sum(len(server["cores"]) for server in result["servers"]) == 324
    answered = sum(server["interface"]["messages_sent"] for server in busy)
    assert answered >= 100
    assert {server["received"]["packets"] for server in idle} == {0}


MIXED = ROOT / "examples" / "rack-data-plane.toml"


@pytest.mark.parametrize("warm_start", [None, {"requests": 200, "rate_mrps": 1.0}])
def test_a_data_plane_in_a_rack_is_measured_as_it_is_alone(warm_start: Any) -> None:
    """The random choices of the first server are those of one alone, and its link is idle."""
    mixed = Description.from_toml(MIXED).set("measure.requests", 300)
    if warm_start is not None:
        mixed = mixed.set("measure.warm_start", warm_start)
    entry = mixed.data["rack"]["servers"][0]
    tables = {name: entry[name] for name in ("server", "data_plane", "traffic")}
    alone = Description.from_dict({**tables, "measure": mixed.data["measure"]}).resolve()
    expected: Mapping[str, Any] = simulator.run(alone.data, alone.elf())
    server, loopback = simulate(mixed)["servers"]
    measured = server["data_plane"]
    # The rack goes on until its client has measured, and items come until then.
    counts = ("entering", "inside", "delivered", "dropped", "refused")
    later = {"generated", "queues", *counts}
    assert {name: measured[name] for name in measured.keys() - later} == {
        name: expected[name] for name in measured.keys() - later
    }
    # Conservation.
    assert measured["generated"] == sum(measured[name] for name in counts)
    assert "data_plane" not in loopback
    assert server["energy_nj"]["per_request"] > 0


def test_a_rack_of_data_planes_ends_when_all_have_measured() -> None:
    mixed = Description.from_toml(MIXED).set("measure.requests", 300)
    data = mixed.data
    entry = data["rack"]["servers"][0]
    slow = {**entry, "name": "slow", "traffic": {"rate_mrps": 0.5}}
    data["rack"] |= {"servers": [entry, slow], "clients": []}
    result = simulate(Description.from_dict(data))
    fast, slow = (server["data_plane"] for server in result["servers"])
    for measured in (fast, slow):
        assert measured["latency_ns"]["samples"] >= 300
    # The rates are 2 and 0.5 million a second, and both go on until the slower one is done.
    assert 3 < fast["generated"] / slow["generated"] < 5.5
    together = result["measurement"]["latency_ns"]["samples"]
    assert together == fast["latency_ns"]["samples"] + slow["latency_ns"]["samples"]


def test_a_rack_with_a_data_plane_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    mixed = Description.from_toml(MIXED).set("measure.requests", 300)
    whole = simulate(mixed)
    checkpoint = str(tmp_path / "checkpoint")
    simulate(mixed, checkpoint={"save": checkpoint, "at_requests": 200})
    resumed = simulate(mixed, checkpoint={"from": checkpoint})
    assert simulator.without_host(resumed) == simulator.without_host(whole)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"program": "nanopu/loopback"}, "a server has either a program or a data plane"),
        ({"data_plane": None}, "rack.servers.0"),
        ({"interface": "rpcvalet", "data_plane": {"notify": "rpcvalet", "queues": 4}},
         "rack.servers.0.data_plane.notify is \"rpcvalet\"; it is the interface or one of"),
        ({"systems": ["hyperplane"]}, "a server has each of them once"),
    ],
)  # fmt: skip
def test_what_a_data_plane_in_a_rack_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    data = Description.from_toml(MIXED).data
    data["rack"]["servers"][0] |= changes
    with pytest.raises(DescriptionError, match=re.escape(sentence)):
        Description.from_dict(data).check()


def test_what_only_data_planes_are_measured_by() -> None:
    wrong = Description.from_toml(EXAMPLE).set("measure.warm_start", {"requests": 100})
    with pytest.raises(DescriptionError, match="no server has one"):
        wrong.check()


def test_several_guests_are_one_piece() -> None:
    elves = [b"one", b"", b"three"]
    assert compiler.unpack(compiler.pack(elves)) == elves


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "rack.servers.0.interface=nanopuu",
            '--set: rack.servers.0.interface is "nanopuu"; it must be "rpcvalet", "nanopu", '
            '"ice-nic", "dma-nic" or "cqe-nic"; did you mean "nanopu"?',
        ),
        (
            "rack.servers.0.server.preset=nanopu-prototyp",
            '--set: rack.servers.0.server.preset is "nanopu-prototyp"; did you mean '
            '"nanopu-prototype"?',
        ),
        (
            "rack.servers.1.count=2",
            "--set rack.servers.1.count: 1 is no entry of the list; it has 1, counted from 0",
        ),
        ("rack.swich.priorities=2", '--set: rack.swich is not known; did you mean "rack.switch"?'),
        (
            "rack.link.latency_ns=1",
            "--set: rack.link.latency_ns is 1; it must be a number of nanoseconds, from 2 to "
            "1000000000",
        ),
        (
            "traffic.load=0.5",
            "--set: a rack has its machines in rack.servers and its load in rack.clients; keep "
            "either the table rack or traffic",
        ),
        (
            "rack.servers.0.program=loopbak",
            '--set: rack.servers.0.program is "loopbak", which is no built-in program',
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(setting: str, sentence: str) -> None:
    with pytest.raises(DescriptionError) as error:
        Description.from_toml(EXAMPLE).assign(setting).check()
    assert str(error.value).startswith(sentence)


# What several clients have measured.


def lopsided(directory: Path) -> Description:
    """A rack whose second client measures twice as slowly as the first, which begins later.

    The first one sends two kinds of requests, and the second one another two; all have `read`.
    """
    data = Description.from_toml(EXAMPLE).data
    rack = data["rack"]
    rack["servers"][0] |= {"count": 2, "program": str(GUESTS / "nanopu" / "loopback.c")}
    rack["clients"] = [
        {
            "name": name,
            "begin_ns": 2000.0,
            "load": {
                "offer": {"mode": "open", "rate_mrps": rate},
                "requests": [{"name": kind} for kind in kinds],
            },
        }
        for name, rate, kinds in (("fast", 4.0, ("write", "read")), ("slow", 2.0, ("read", "scan")))
    ]
    data["measure"] = {"requests": 150, "warmup": 10}
    return Description.from_dict(data, directory)


def test_clients_are_measured_together_as_well_as_each(tmp_path: Path) -> None:
    result = simulate(lopsided(tmp_path))
    together, each = result["measurement"], [one["measurement"] for one in result["clients"]]
    assert [one["latency_ns"]["samples"] for one in each] == [150, 150]
    assert (together["latency_ns"]["samples"], together["warmup_samples"]) == (300, 20)
    counts: dict[int, int] = defaultdict(int)
    for one in each:
        for value, count in simulator.histogram_bins(one["histogram"]):
            counts[value] += count
    assert dict(simulator.histogram_bins(together["histogram"])) == counts
    means = [one["latency_ns"]["mean"] for one in each]
    assert together["latency_ns"]["mean"] == pytest.approx(sum(means) / 2)
    assert together["latency_ns"]["max"] == max(one["latency_ns"]["max"] for one in each)
    rates = [one["throughput_mrps"] for one in each]
    assert together["throughput_mrps"] == pytest.approx(sum(rates))
    # What both call a read is number 1 of the first one's kinds, and number 0 of the other's.
    kinds, of_each = result["by_kind"], [one["by_kind"] for one in result["clients"]]
    assert set(kinds) == {"read", "write", "scan"}
    assert kinds["write"] == of_each[0]["write"]
    assert kinds["scan"] == of_each[1]["scan"]
    reads, read = [one["read"] for one in of_each], kinds["read"]
    samples = [one["latency_ns"]["samples"] for one in reads]
    assert read["latency_ns"]["samples"] == sum(samples) < 300
    assert read["latency_ns"]["max"] == max(one["latency_ns"]["max"] for one in reads)
    rates = [one["throughput_mrps"] for one in reads]
    assert read["throughput_mrps"] == pytest.approx(sum(rates))


def test_service_times_are_looked_for_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("service_time_ns,count\n100,1\n")
    text = EXAMPLE.read_text().replace("../guest", str(ROOT / "guest"))
    text = text.replace("[measure]", "")
    text += """
[[rack.clients.load.requests]]
service = 100
service_times = { distribution = "recorded", file = "FILE" }
"""
    text = re.sub("(?m)^(requests|seed) = .*$", "", text)
    (tmp_path / "rack.toml").write_text(text.replace("FILE", "times.csv"))
    description = Description.from_toml(tmp_path / "rack.toml")
    found = description.resolve().data["rack"]["clients"][0]["load"]["requests"][0]
    assert found["service_times"]["file"] == str(tmp_path / "times.csv")
    (tmp_path / "wrong.toml").write_text(text.replace("FILE", "time.csv"))
    with pytest.raises(DescriptionError) as error:
        Description.from_toml(tmp_path / "wrong.toml").check()
    key = "rack.clients.0.load.requests.0.service_times.file"
    assert f'{key} is "time.csv"; it must be a CSV file' in str(error.value)
    assert str(error.value).endswith('did you mean "' + str(tmp_path / "times.csv") + '"?')


def test_what_a_program_does_wrong_with_its_interface_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text(
        "#include <ice_nic.h>\nint main(void) { reg_write64(SIMPLENIC_RECV_REQ, 0x80000004); }\n"
    )
    description = Description.from_toml(EXAMPLE).assign(
        f"rack.servers.0.program={tmp_path}/wrong.c"
    )
    description = description.set("rack.servers.0.interface", "ice-nic")
    description = description.set("rack.clients.0.load.transport.protocol", "datagrams")
    with pytest.raises(Failure) as error:
        simulate(description)
    assert str(error.value) == (
        "server 0: a frame was to be received at 0x80000004, which is not a multiple of 8"
    )


# What is not answered, or too slowly.

PROGRAM = """
#include <lnic.h>
#include <nanopu/messages.h>

int main(void) {
  lnic_add_context(0, 0);
  for (;;) {
    lnic_wait();
    uint64_t header = lnic_read();
    %s
    lnic_msg_done();
  }
}
"""
TAKEN = "FOR_EACH_WORD(message_words(header), lnic_read());"
ECHOED = "lnic_write_r(header); FOR_EACH_WORD(message_words(header), lnic_copy());"
OTHER_WORDS = "lnic_write_r(header); FOR_EACH_WORD(message_words(header), lnic_write_i(0));"


@pytest.mark.parametrize(
    ("answer", "settings", "sentences"),
    [
        # An open loop goes on sending for ever.
        (
            TAKEN + OTHER_WORDS,
            (),
            ("failed 1000 times", "1000 with a second word that is not the one of a request"),
        ),
        (
            TAKEN + "lnic_write_r(header_to(header, 1)); lnic_write_i(7);",
            (),
            ("failed 1000 times", "1000 shorter than the 16 bytes with which a response begins"),
        ),
        (
            ECHOED,
            ("rack.clients.0.load.requests=[{port=7}]", "rack.clients.0.load.offer.rate_mrps=0.1"),
            ("waited for 50 ms of simulated time", "its interface has dropped"),
        ),
        # So does a closed one whose transport gives up, also if it is idle nearly always: after
        # 1001 timeouts of 9375 ns, which are 9.4 ms, so five times in 50 ms of waiting.
        (
            ECHOED,
            (
                "rack.link.faults.lost=1.0",
                'rack.clients.0.load.offer={mode="closed", clients=1, think_ns=1e6}',
            ),
            ("waited for 50 ms of simulated time", "5 were given up", "0 of 6 requests"),
        ),
        (
            ECHOED + "return 0;",
            (),
            ("nothing will ever happen again", "the program has ended with status 0"),
        ),
        (
            ECHOED + "((volatile char *)0)[0] = 1;",
            (),
            ("server: the guest crashed: hart 0, store or atomic access fault",),
        ),
    ],
    ids=["other words", "too short", "other port", "all lost", "exits", "crashes"],
)
def test_a_rack_that_is_never_done_says_why(
    answer: str, settings: tuple[str, ...], sentences: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "guest.c").write_text(PROGRAM % answer)
    program = f"rack.servers.0.program={tmp_path}/guest.c"
    with pytest.raises(Failure) as error:
        run(program, "rack.servers.0.count=1", *settings)
    for sentence in sentences:
        assert sentence in str(error.value)


def test_a_client_that_seldom_sends_is_not_stuck() -> None:
    """One request in 100 ms, twice as long as anybody waits for an answer."""
    offer = 'rack.clients.0.load.offer={mode="closed", clients=1, think_ns=1e8}'
    result = run(offer, "rack.servers.0.count=1", "rack.clients.0.load.max_requests=2")
    assert result["clients"][0]["statistics"]["responses"] == 2
    assert result["simulated_seconds"] > 0.1


def test_answers_that_come_twice_are_no_reason_to_stop() -> None:
    duplicated = ("rack.link.faults.duplicated=0.5", "rack.servers.0.count=1")
    plain = "rack.clients.0.load.transport.protocol=datagrams"
    nanopu = "rack.servers.0.server.nanopu.transport.protocol=datagrams"
    result = run(*duplicated, plain, nanopu)
    counted = result["clients"][0]["statistics"]
    # A request comes twice as often as not, and so does each of its answers.
    assert counted["unexpected"] == counted["unexpected_because"]["over"] > 100
    assert counted["responses"] >= 200


def test_a_rack_keeps_up_up_to_its_capacity() -> None:
    """A core that works for 500 ns takes less than two million requests a second."""
    service = 'rack.clients.0.load.requests=[{service=1600, service_times={distribution="fixed"}}]'
    settings = (
        *(service, "rack.servers.0.program=nanopu/service-times", "measure.requests=2000"),
        *("rack.servers.0.count=1", "rack.servers.0.server.fabric.cores=1"),
    )

    def at(rate_mrps: float) -> Any:
        return run(*settings, f"rack.clients.0.load.offer.rate_mrps={rate_mrps}")["measurement"]

    light, heavy = at(1.0), at(2.5)
    assert (light["keeps_up"], light["steady"], light["overload"]) == (True, True, [])
    # Each request is served in the end: as many come in the time as are served.
    assert light["offered_mrps"] == pytest.approx(light["throughput_mrps"], rel=0.01)
    assert (heavy["keeps_up"], heavy["steady"]) == (False, False)
    # Of 2000 Poisson arrivals the rate has a standard error of 2.2 %.
    assert heavy["offered_mrps"] == pytest.approx(2.5, rel=0.07)
    assert heavy["throughput_mrps"] < 2.0
    served, *growing = heavy["overload"]
    assert served.startswith(f"{heavy['throughput_mrps']:.4f} million requests a second were")
    assert [sentence.split(" grew by ")[0] for sentence in growing] == [
        "the number of requests under way",
        "latency",
    ]


def test_a_rack_that_drops_requests_does_not_keep_up() -> None:
    """However many it answers: datagrams that the interface has no room for are lost."""
    description = Description.from_dict(
        key_value.rack(
            "test",
            key_value.RINGS_ON_CHIP,
            {"mode": "open", "arrivals": "poisson", "rate_mrps": 100.0},
            {"requests": 1000, "warmup": 100, "seed": 1},
        ).data
    )
    result = simulate(description)
    dropped = sum(
        count for name, count in result["servers"][0]["interface"].items() if "dropped" in name
    )
    assert dropped > 0
    assert (
        f"{dropped} packets were dropped by the network interface"
        in result["measurement"]["overload"]
    )
    assert not result["measurement"]["keeps_up"]


# Checkpoints.


FAULTS = {"lost": 0.03, "duplicated": 0.02, "reordered": 0.05}


@pytest.mark.parametrize("protocol", ["ndp", "homa", "datagrams"])
def test_a_rack_that_was_saved_and_restored_is_the_same(protocol: str, tmp_path: Path) -> None:
    """At random moments, with packets lost, doubled and late, and after one client has enough.

    And just before the end, when nothing happens any more until the run is found to be over.
    """
    transport = {"protocol": protocol, "timeout_ns": 3000.0}
    data = lopsided(tmp_path).data
    rack = data["rack"]
    rack["link"]["faults"] = FAULTS
    rack["switch"]["buffer_bytes"] = 4096
    (served,) = rack["servers"]
    if protocol == "datagrams":
        served |= {
            "program": str(GUESTS / "traditional" / "loopback.c"),
            "interface": "ice-nic",
        }
    else:
        served["server"]["nanopu"] = {"transport": transport}
    for client in rack["clients"]:
        client["load"] |= {"transport": transport, "requests": [{"bytes": 1000}]}
        if protocol != "datagrams":
            client["load"]["requests"][0]["bytes"] = 2000
    description = Description.from_dict(data, tmp_path)
    resolved = description.resolve()
    elves = compiler.unpack(resolved.elf())

    def go(**checkpoint: Any) -> dict[str, Any]:
        return simulator.without_host(
            simulator.rack(resolved.data, elves, {"checkpoint": checkpoint})
        )

    saved = str(tmp_path / "saved")
    whole = go()
    lost = sum(one["sent"]["lost"] for one in (*whole["servers"], *whole["clients"]))
    assert lost > 3
    end_ns = whole["simulated_seconds"] * 1e9
    chosen = generator(protocol)
    responses = sum(one["statistics"]["responses"] for one in whole["clients"])
    moments = [
        {"at_ns": chosen.uniform(2000.0, end_ns)},
        {"at_requests": responses - 20},
        {"at_ns": end_ns - 1},
    ]
    for moment in moments:
        assert go(save=saved, **moment) == whole
        assert go(**{"from": saved}) == whole


def test_a_rack_goes_on_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    few = ("--set", "measure.requests=100", "--set", "rack.servers.0.count=2", "--json")
    more = ("--set", "measure.requests=200", *few[2:])
    saving = ("--save-checkpoint", "saved", "--checkpoint-at", "50")
    nanoplane("run", EXAMPLE, *few, *saving)
    gone_on = json.loads(nanoplane("run", EXAMPLE, *more, "--from-checkpoint", "saved"))
    whole = json.loads(nanoplane("run", EXAMPLE, *more))
    del gone_on["key"], whole["key"]
    assert simulator.without_host(gone_on) == simulator.without_host(whole)
    assert gone_on["measurement"]["latency_ns"]["samples"] >= 200

    def refused(*arguments: str, status: int = 2) -> str:
        errors = nanoplane("run", EXAMPLE, *arguments, status=status)
        assert errors.count("\n") == 1
        return errors

    begin = (*more, "--from-checkpoint", "saved")
    assert "rack.link.latency_ns = 43.0, and the description has 50" in refused(
        *begin, "--set", "rack.link.latency_ns=50"
    )
    may_change = "measure.requests, measure.precision, measure.precision_of, measure.warmup"
    refusal = refused(*begin, "--set", "measure.seed=2")
    assert f"only {may_change}, simulator may have changed" in refusal
    other = f"rack.servers.0.program={GUESTS / 'nanopu' / 'loopback-increment.c'}"
    assert "saved with another program" in refused(*begin, "--set", other)
    assert "by `nanoplane run` with a rack" in nanoplane(
        *("run", ROOT / "examples" / "encapsulation.toml", "--from-checkpoint", "saved"), status=2
    )
    assert "--checkpoint-at names another time" in refused(*few, "--save-checkpoint", "other")
    late = ("--save-checkpoint", "other", "--checkpoint-at", "1s")
    assert "the run ended before it was time to" in refused(*few, *late, status=1)
    assert "no packets are printed; leave --capture out" in refused("--capture", "1")
    content = Path("saved").read_bytes()
    Path("saved").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "saved: this checkpoint cannot be used: it is damaged" in refused(*begin)


# Traces.


def shown(path: Path) -> tuple[dict[int, str], dict[int, str], list[tuple[int, Any]]]:
    """Return the names of groups of tracks and of tracks, and all events with their times."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    groups: dict[int, str] = {}
    tracks: dict[int, str] = {}
    events = []
    for packet in trace.packet:
        described = packet.track_descriptor
        if not packet.HasField("track_descriptor"):
            events.append((packet.timestamp, packet.track_event))
        elif described.HasField("parent_uuid"):
            tracks[described.uuid] = f"{groups[described.parent_uuid]}: {described.name}"
        else:
            groups[described.uuid] = described.name
    return groups, tracks, events


def test_a_timeline_follows_requests_through_switch_interface_and_core(tmp_path: Path) -> None:
    path = tmp_path / "rack.pftrace"
    description = lopsided(tmp_path)
    plain = simulator.without_host(simulate(description))
    traced = simulate(description, trace={"timeline": str(path), "window_ns": [10_000.0, 20_000.0]})
    (report,) = traced["traces"]
    assert report["error"] is None
    assert simulator.without_host(traced) == {**plain, "traces": [report]}
    groups, tracks, events = shown(path)
    assert set(groups.values()) == {"server 0", "server 1", "fast", "slow", "network"}
    ways: dict[int, list[tuple[int, str]]] = defaultdict(list)
    open_tracks: dict[int, int] = defaultdict(int)
    ended = set()
    for at, event in events:
        assert event.track_uuid in tracks
        open_tracks[event.track_uuid] += {
            TrackEvent.TYPE_SLICE_BEGIN: 1,
            TrackEvent.TYPE_SLICE_END: -1,
        }.get(event.type, 0)
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            ways[flow].append((at, tracks[event.track_uuid]))
        ended.update(event.terminating_flow_ids)
    assert not any(open_tracks.values()), "every slice that begins ends"
    # 6 million a second for 10 us are 60, by a Poisson process: four standard deviations.
    assert 29 <= len(ended) <= 91
    assert ended == set(ways)
    for way in ways.values():
        # Where it goes is in the order of time.
        names = [name for _, name in sorted(way, key=lambda step: step[0])]
        client, server = names[0].split(":")[0], names[3].rsplit(" to ", 1)[1]
        core = names[5]
        assert re.fullmatch(f"{server}: messages of core [0-3]", core)
        assert names == [
            f"{client}: requests",
            f"network: link from {client} to switch",
            f"network: switch, to {server}",
            f"network: link from switch to {server}",
            f"{server}: interface, in",
            core,
            f"{server}: interface, out",
            f"network: link from {server} to switch",
            f"network: switch, to {client}",
            f"network: link from switch to {client}",
            f"{client}: responses",
        ]


def test_the_slowest_requests_of_a_rack_and_what_goes_wrong_with_them(tmp_path: Path) -> None:
    data = lopsided(tmp_path).data
    transport = {"timeout_ns": 3000.0}
    data["rack"]["servers"][0]["server"]["nanopu"] = {"transport": transport}
    for client in data["rack"]["clients"]:
        client["load"]["transport"] = transport
    data["rack"]["link"]["faults"] = {"lost": 0.004}
    path = tmp_path / "slow.pftrace"
    trace = {"timeline": str(path), "slower_than": 0.98}
    result = simulate(Description.from_dict(data, tmp_path), trace=trace)
    _, _, events = shown(path)
    ended = {event.name for _, event in events if event.terminating_flow_ids}
    answered = sum(client["statistics"]["responses"] for client in result["clients"])
    # A fiftieth of 300, and those that came or went meanwhile: 3 us of some 75 for each.
    assert 6 <= len(ended) < answered / 2
    lost = [event.name for _, event in events if event.name.endswith("(lost)")]
    assert len(lost) >= 3
    # They are the slowest because they were lost, and had come in the end.
    assert len(ended & {name.removesuffix(" (lost)") for name in lost}) >= 3


def test_frames_of_a_conventional_interface_are_followed_through_their_server(
    tmp_path: Path,
) -> None:
    data = lopsided(tmp_path).data
    program = str(GUESTS / "traditional" / "loopback.c")
    data["rack"]["servers"][0] |= {"program": program, "interface": "ice-nic"}
    for client in data["rack"]["clients"]:
        client["load"]["transport"] = {"protocol": "datagrams"}
    path = tmp_path / "frames.pftrace"
    trace = {"timeline": str(path), "window_ns": [10_000.0, 20_000.0]}
    simulate(Description.from_dict(data, tmp_path), trace=trace)
    _, tracks, events = shown(path)
    flows = [event.flow_ids for _, event in events if "interface" in tracks[event.track_uuid]]
    ended = {flow for _, event in events for flow in event.terminating_flow_ids}
    assert len(ended) > 20
    assert {flow for one in flows for flow in one} == ended


def test_a_profile_and_a_pipeline_of_a_rack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    short = ["--set", "measure.requests=100", "--set", "rack.servers.0.count=2"]
    short += ["--set", "rack.clients.0.begin_ns=2000", "--json"]
    traces = ("--profile", "p.folded", "--trace", "t.kanata", "--trace-core", "5")
    result = json.loads(nanoplane("run", EXAMPLE, *short, *traces))
    cores = [core for server in result["servers"] for core in server["cores"]]
    stacks = [line.rsplit(" ", 1) for line in Path("p.folded").read_text().splitlines()]
    for number, server in enumerate(("server 0", "server 1")):
        cycles = sum(int(count) for stack, count in stacks if stack.startswith(f"{server};core "))
        of_server = cores[4 * number : 4 * number + 4]
        assert cycles == sum(core["cycles"] - core["halted_cycles"] for core in of_server)
    assert any(stack.startswith("server 1;core 0;_start;main;") for stack, _ in stacks)
    # The sixth core of the rack is the second of its second server.
    log = Path("t.kanata").read_text()
    ended = re.findall(r"^R\t\d+\t\d+\t(\d)$", log, re.MULTILINE)
    assert ended.count("0") == cores[5]["instructions"]
    errors = nanoplane("run", EXAMPLE, *short, *traces[:-1], "8", status=2)
    assert "core 8 is to be traced, but the rack has, server by server, cores 0 to 7" in errors
    errors = nanoplane("run", EXAMPLE, *short, *traces[2:], "--trace-window", "1s..2s", status=1)
    assert "t.kanata: the trace is empty: nothing happened in 1s..2s" in errors


def test_a_rack_that_fails_leaves_its_traces(tmp_path: Path) -> None:
    (tmp_path / "crash.c").write_text(
        "#include <lnic.h>\nint main(void) {\n  lnic_add_context(0, 0);\n  lnic_wait();\n"
        "  return *(volatile int *)8;\n}\n"
    )
    description = Description.from_toml(EXAMPLE).assign(
        f"rack.servers.0.program={tmp_path}/crash.c"
    )
    path = tmp_path / "crash.pftrace"
    with pytest.raises(NanoplaneError, match=r"server \d: the guest crashed"):
        simulate(description, trace={"timeline": str(path)})
    groups, _, events = shown(path)
    assert {"server 0", "network"} <= set(groups.values())
    assert any(event.name.startswith("message ") for _, event in events), "unanswered requests"


# Ctrl-C.


def interrupted(when: Callable[[], bool], *arguments: str) -> str:
    """Run the command line, and interrupt it when it has come so far; return what it says last."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nanoplane", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not when():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, ""), errors
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_ctrl_c_ends_a_rack_and_keeps_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    endless = ("run", str(EXAMPLE), "--set", "measure.requests=100_000_000")
    # It saves when it has come this far, and goes on.
    saving = ("--save-checkpoint", "saved", "--checkpoint-at", "20us")
    tracing = ("--trace", "t.pftrace", "--trace-window", "5us..15us")
    assert interrupted(Path("saved").exists, *endless, *saving, *tracing) == "nanoplane: stopped"
    _, _, events = shown(tmp_path / "t.pftrace")
    assert sum(bool(event.terminating_flow_ids) for _, event in events) > 1


def test_ctrl_c_in_a_sweep_of_racks_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    store = Store(tmp_path / "store")

    def has_one() -> bool:
        return store.path.exists() and len(store) > 0

    last = interrupted(has_one, "figure", "nanopu.jbsq", "--quick", "--workers", "1")
    assert last.startswith(f"nanoplane: stopped: {len(store)} finished runs are kept in ")
    assert last.endswith("the same command goes on from there")
