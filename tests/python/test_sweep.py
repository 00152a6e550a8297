import _thread
import dataclasses
import json
import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fake_simulator
from nanoplane import (
    Description,
    Failure,
    Interrupted,
    NanoplaneError,
    Run,
    Store,
    execution,
    simulator,
    sweep,
)
from nanoplane import description as descriptions
from nanoplane import store as stores
from nanoplane.errors import DescriptionError
from nanoplane.load_search import Bracket, Limit, Shape
from nanoplane.outcomes import settled
from nanoplane.sweep import look_up

pytestmark = pytest.mark.usefixtures("fake")


def describe(queues: int = 10, **traffic: object) -> Description:
    return Description.from_dict(
        {
            "server": {"preset": "hyperplane-table1"},
            "data_plane": {"program": "packet-encapsulation", "notify": "spin", "queues": queues},
            # A rate that is given: no trial looks for one.
            "traffic": {"load": "saturate", "saturation_rate_mrps": 20.0, **traffic},
            "measure": {"requests": 1000},
        }
    )


def test_outcomes_have_the_order_of_the_runs() -> None:
    outcomes = sweep([describe(n) for n in (3, 1, 2)])
    assert [outcome.description["data_plane"]["queues"] for outcome in outcomes] == [3, 1, 2]


def test_the_longest_run_comes_first() -> None:
    sweep([describe(n) for n in (1, 100, 10)], workers=1)
    queues = [call["data_plane"]["queues"] for call in fake_simulator.calls]
    assert queues == [100, 10, 1]


def test_what_is_stored_is_not_run_again() -> None:
    (first,) = sweep([describe()])
    (second,) = sweep([describe()])
    assert (first.stored, second.stored) == (False, True)
    assert first.result == second.result
    assert len(fake_simulator.calls) == 1
    sweep([describe()], fresh=True)
    assert len(fake_simulator.calls) == 2


def test_results_go_into_the_store_that_is_given() -> None:
    other = Store("other")
    sweep([describe()], store=other)
    assert (len(other), len(Store())) == (1, 0)
    assert look_up([Run(describe())]) == [None]
    assert look_up([Run(describe())], store=other) != [None]


def test_looking_up_asks_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_asked(*_: object, **__: object) -> None:
        pytest.fail("it was asked")

    with monkeypatch.context() as without:
        # There are no results of this simulator.
        without.setattr(Description, "resolve", not_asked)
        assert look_up([Run(describe(queues)) for queues in (1, 2)]) == [None, None]
    (outcome,) = sweep([describe(1)])
    # A wrong description has no result. What a run costs, and where it begins, only matters to it.
    monkeypatch.setattr(simulator, "check", not_asked)
    monkeypatch.setattr(descriptions, "_validator", not_asked)
    monkeypatch.setattr(execution, "cost", not_asked)
    monkeypatch.setattr(stores, "warm_start_key", not_asked)
    keys, key = [], stores.key

    def counted(*of: Any) -> str:
        keys.append(key(*of))
        return keys[-1]

    monkeypatch.setattr(stores, "key", counted)
    found = look_up([Run(describe(queues)) for queues in (1, 2, 1)])
    known = dataclasses.replace(outcome, stored=True)
    assert found == [known, None, known]
    # A run that two points share is looked up once.
    assert len(keys) == 2


def test_the_same_run_twice_runs_once() -> None:
    first, second = sweep([describe(), describe()])
    assert first.key == second.key
    assert len(fake_simulator.calls) == 1


def test_a_part_of_the_peak_runs_the_peak_first() -> None:
    (outcome,) = sweep([describe().set("traffic.load", "0.5")])
    peak = Store().get(sweep([describe()])[0].key)
    assert peak is not None
    assert outcome.description["traffic"]["rate_mrps"] == 0.5 * peak["throughput_mrps"]
    assert outcome.description["traffic"].get("load") is None
    assert len(fake_simulator.calls) == 2


def test_a_part_of_another_peak() -> None:
    run = Run(describe(100), peak=describe(1), part=0.008)
    assert look_up([run]) == [None]
    (outcome,) = sweep([run])
    assert look_up([run]) == [
        type(outcome)(outcome.description, outcome.key, outcome.result, stored=True)
    ]


def test_a_part_of_a_peak_that_cannot_be_run_is_refused_before_the_peak_is_run() -> None:
    # Rings stay full at the peak, and not below.
    with pytest.raises(DescriptionError, match=r"measure\.rings"):
        sweep([describe().set("measure.rings", "full").set("traffic.load", 0.5)])
    assert not fake_simulator.calls


def saturating(queues: int = 10) -> Description:
    """Return a saturated run whose rate has to be found."""
    data = describe(queues).data
    del data["traffic"]["saturation_rate_mrps"]
    return Description.from_dict(data)


def rates() -> list[float]:
    return [call["traffic"]["saturation_rate_mrps"] for call in fake_simulator.calls]


def test_a_saturated_run_offers_a_third_more_than_is_served() -> None:
    # The fake's peak with 10 queues, all shapes but the single queue: 1000 / 505 a microsecond.
    peak = 1000 / 505
    (outcome,) = sweep([saturating()])
    assert rates() == [20.0, pytest.approx(1.35 * peak)]
    trial, run = fake_simulator.calls
    # A tenth of the requests, and as many left out before.
    assert (trial["measure"]["requests"], trial["measure"]["warmup"]) == (100, 100)
    assert (run["measure"]["requests"], run["measure"]["warmup"]) == (1000, "auto")
    assert outcome.description == run
    assert outcome.description["traffic"]["load"] == "saturate"
    # The second time both are in the store; so is the peak that a load is a part of.
    assert look_up([Run(saturating())]) == [dataclasses.replace(outcome, stored=True)]
    (half,) = sweep([saturating().set("traffic.load", "0.5")])
    assert half.description["traffic"]["rate_mrps"] == 0.5 * outcome.result["throughput_mrps"]
    assert len(fake_simulator.calls) == 3


def test_a_trial_measures_a_hundred_requests_or_more() -> None:
    """Its warm-up has no least length: on a server that polls, each request can take a lap."""
    sweep([saturating().set("measure.requests", 300)])
    trial = fake_simulator.calls[0]["measure"]
    assert (trial["requests"], trial["warmup"]) == (100, 30)


def test_a_server_that_takes_more_than_the_first_trial_is_offered_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Serves what it is offered up to 50 million a second; after a warm-up by rule 60.
    def run(description: str, *others: Any) -> str:
        data = json.loads(description)
        result = json.loads(fake(description, *others))
        capacity = 60.0 if data["measure"]["warmup"] == "auto" else 50.0
        offered = data["traffic"]["saturation_rate_mrps"]
        result["throughput_mrps"] = min(offered, capacity)
        return json.dumps(result)

    fake = fake_simulator.run
    monkeypatch.setattr(fake_simulator, "run", run)
    (outcome,) = sweep([saturating()])
    # 40 are served, and of 80 there are 50; 67.5 are less than 1.2 times the 60 that are served
    # then, and 81 are 1.35 times as many.
    assert rates() == [20.0, 40.0, 80.0, 67.5, 81.0]
    assert outcome.result["throughput_mrps"] == 60.0


def test_what_comes_to_closed_queues_does_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three quarters find their queue closed; of the others 3 million a second can be served.
    def run(description: str, *others: Any) -> str:
        result = json.loads(fake(description, *others))
        offered = json.loads(description)["traffic"]["saturation_rate_mrps"]
        result |= {"generated": 4000, "refused": 3000, "throughput_mrps": min(3.0, offered / 4)}
        return json.dumps(result)

    fake = fake_simulator.run
    monkeypatch.setattr(fake_simulator, "run", run)
    sweep([saturating()])
    # 1.35 times 3 come to open queues.
    assert rates() == [20.0, pytest.approx(4 * 1.35 * 3)]


def test_where_less_is_served_of_less_the_trial_says_what_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Half of the queues are served without limit, and the others hardly.
    def run(description: str, *others: Any) -> str:
        result = json.loads(fake(description, *others))
        offered = json.loads(description)["traffic"]["saturation_rate_mrps"]
        result["throughput_mrps"] = min(3.0, 0.01 + offered / 2)
        return json.dumps(result)

    fake = fake_simulator.run
    monkeypatch.setattr(fake_simulator, "run", run)
    (outcome,) = sweep([saturating()])
    # Of 4.05 there are 2.035; of 1.35 times that 1.38, and so on: 20 it is.
    assert [round(rate, 3) for rate in rates()] == [20.0, 4.05, 2.747, 20.0]
    assert outcome.result["throughput_mrps"] == 3.0


def test_a_server_that_cannot_be_saturated_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(description: str, *others: Any) -> str:
        result = json.loads(fake(description, *others))
        result["throughput_mrps"] = json.loads(description)["traffic"]["saturation_rate_mrps"]
        return json.dumps(result)

    fake = fake_simulator.run
    monkeypatch.setattr(fake_simulator, "run", run)
    with pytest.raises(NanoplaneError, match="of 5120 million requests a second it serves nearly"):
        sweep([saturating()])


def test_wrong_descriptions_end_a_sweep_before_it_starts() -> None:
    with pytest.raises(Exception, match="queues"):
        sweep([describe(1), describe(0)])
    assert not fake_simulator.calls


def test_a_failing_run_leaves_the_others_done() -> None:
    wrong = describe().set("measure.seed", 666)
    with pytest.raises(Failure, match="jumped to nowhere"):
        sweep([wrong, describe(1), describe(2)])
    assert len(Store()) == 2


def test_a_failure_names_its_run() -> None:
    descriptions = [describe(1).set("measure.seed", seed) for seed in (666, 1)]
    with pytest.raises(Failure, match=r"^description: the guest jumped to nowhere$"):
        sweep(descriptions)


def test_a_rate_that_the_simulator_cannot_offer_is_a_failure_of_its_run_alone() -> None:
    # A hundred-millionth of the peak.
    wrong = Run(describe(5), peak=describe(1), part=1e-8)
    with pytest.raises(NanoplaneError, match=r"traffic\.rate_mrps is .*e-08"):
        sweep([wrong, describe(2), describe(3)], workers=1)
    assert len(Store()) == 3


def test_ctrl_c_keeps_what_is_finished() -> None:
    fake_simulator.delay_seconds = 0.3

    def interrupt() -> None:
        while len(fake_simulator.calls) < 5:
            time.sleep(0.01)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted, match="finished runs are kept in"):
        sweep([describe(n) for n in range(1, 40)], workers=2)
    done = len(Store())
    assert 2 <= done < 39
    started = len(fake_simulator.calls)
    fake_simulator.delay_seconds = 0.0
    outcomes = sweep([describe(n) for n in range(1, 40)])
    assert len(fake_simulator.calls) - started == 39 - done
    assert len(outcomes) == 39


def test_progress_goes_from_0_to_1() -> None:
    seen: list[tuple[float, int, int]] = []

    class Watcher:
        def update(self, fraction: float, finished: int, runs: int) -> None:
            seen.append((fraction, finished, runs))

    sweep([describe(n).set("traffic.load", "0.5") for n in (1, 2, 3)], watcher=Watcher())
    assert seen[-1] == (1.0, 3, 3)
    assert all(0 <= fraction <= 1 for fraction, _, _ in seen)
    # Trials are a small part, also while the runs that follow them are not yet known.
    assert all(fraction < 1 for fraction, finished, _ in seen if finished == 0)


def test_a_cluster_gives_the_same_results() -> None:
    distributed = pytest.importorskip("distributed")
    descriptions = [describe(n) for n in (1, 2, 3)]
    here = [outcome.result for outcome in sweep(descriptions, store=Store("here"))]
    # Workers in this process, because the fake simulator is.
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        there = sweep(descriptions, scheduler=cluster.scheduler_address, store=Store("there"))
    assert [outcome.result for outcome in there] == here


def key(description: Description, elf: bytes = b"\x7fELF") -> str:
    resolved = description.resolve()
    return stores.key(resolved, elf, resolved.contents())


def test_the_key_has_what_determines_a_result_and_nothing_else() -> None:
    same = key(describe())
    assert key(describe().set("simulator.skip_spinning", False)) == same
    assert key(describe().set("measure.seed", 1)) == same
    assert key(describe().set("measure.seed", 2)) != same
    assert key(describe(), b"\x7fELF another") != same
    Path("other.elf").write_bytes(b"\x7fELF")
    assert key(describe().set("data_plane.program", "other.elf")) == same


def test_the_key_has_the_packets_and_not_their_place() -> None:
    Path("one.pcap").write_bytes(b"packets")
    Path("two.pcap").write_bytes(b"packets")
    first = key(describe(packets="one.pcap"))
    assert key(describe(packets="two.pcap")) == first
    Path("two.pcap").write_bytes(b"other packets")
    assert key(describe(packets="two.pcap")) != first
    assert key(describe()) != first


def _fill(directory: str, start: int) -> None:
    resolved = describe().resolve()
    for number in range(start, start + 25):
        Store(directory).put(f"{number}", resolved, b"", {"number": number})


def test_processes_write_at_once() -> None:
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_fill, args=("shared", start)) for start in (0, 25, 50, 75)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    store = Store("shared")
    assert len(store) == 100
    assert store.get("42") == {"number": 42}
    assert store.get("missing") is None


def test_a_store_that_cannot_be_used() -> None:
    Path("file").write_text("")
    with pytest.raises(Failure, match="cannot be used"):
        Store("file").put("key", describe().resolve(), b"", {})


def test_a_limit_on_one_kind_of_requests() -> None:
    """Ten times the mean service time of gets, 1.25 us; scans may take as long as they do."""
    peak = {
        "throughput_mrps": 4.0,
        "by_kind": {"get": {"service_ns": {"mean": 1250.0}}, "scan": {"service_ns": None}},
    }
    limit = Limit(10, kind="get")
    assert limit.limit_ns(peak, 16) == 12_500
    assert Limit(10).limit_ns(peak, 16) == 40_000
    assert Limit(kind="get", absolute_ns=75_000).limit_ns(peak, 16) == 75_000

    def result(get_p99: float, keeps_up: bool) -> dict[str, Any]:
        kinds = {"get": get_p99, "scan": 100_000.0}
        latencies = {kind: {"latency_ns": {"p99": p99}} for kind, p99 in kinds.items()}
        return {"latency_ns": {"p99": 90_000.0}, "keeps_up": keeps_up, "by_kind": latencies}

    assert limit.kept(result(12_500, True), 12_500)
    assert not limit.kept(result(12_501, True), 12_500)
    # However short latencies are, which then say no more than how short the run was.
    assert not limit.kept(result(12_500, False), 12_500)
    assert not Limit(10).kept(result(12_500, True), 12_500)
    for kind, sentence in (
        ("put", "no request of the kind put was measured; there are get, scan"),
        ("scan", "there are no service times"),
    ):
        with pytest.raises(Failure, match=sentence):
            Limit(10, kind=kind).limit_ns(peak, 16)
    with pytest.raises(Failure, match="they are all of one kind"):
        limit.kept({"latency_ns": {"p99": 1.0}, "keeps_up": True}, 12_500)


def test_what_saturates_a_system_settles_without_keeping_up() -> None:
    """It is offered more than it can take on purpose; one that is to serve a load is not."""
    peak, beyond = sweep([describe(), describe(load=None).set("traffic.rate_mrps", 1000.0)])
    assert [one.result["keeps_up"] for one in (peak, beyond)] == [False, False]
    assert [settled(one) for one in (peak, beyond)] == [True, False]
    served = sweep([describe(load=None).set("traffic.rate_mrps", 0.01)])[0]
    assert settled(served)
    unsteady = dataclasses.replace(served, result={**served.result, "steady": False})
    assert not settled(unsteady)


def test_a_search_that_no_tail_ends_ends_at_what_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs too short for a tail to reach the limit: the server's capacity is the answer."""
    run = fake_simulator.run

    def short_runs(*arguments: Any) -> str:
        result = json.loads(run(*arguments))
        result["keeps_up"] = result["throughput_mrps"] <= 1.5
        result["throughput_mrps"] = min(result["throughput_mrps"], 1.5)
        return json.dumps(result)

    monkeypatch.setattr(fake_simulator, "run", short_runs)
    limit = Limit(absolute_ns=75_000.0, precision=0.04)
    (found,) = sweep([Run(describe(load=None), peak=describe(), limit=limit)])
    assert 1.5 * 0.96 <= found.result["largest_load"] <= 1.5 / 0.96
    assert found.result["largest_load_ci95"][1] <= 1.5 / 0.96**2


def test_a_search_can_say_what_is_left_out() -> None:
    """Of runs of its own: those at the loads that it is given are as a figure shows them."""
    shown = (0.1, 0.15)
    limit = Limit(absolute_ns=700.0, precision=0.04, warmup=7)
    sweep([Run(describe(load=None), peak=describe(), limit=limit, near=shown)])
    tried = [call for call in fake_simulator.calls if call["traffic"].get("rate_mrps")]
    left_out = {call["traffic"]["rate_mrps"]: call["measure"]["warmup"] for call in tried}
    assert [left_out.pop(load, "auto") for load in shown] == ["auto", "auto"]
    assert set(left_out.values()) == {7}


def test_a_search_shares_its_runs_with_a_curve() -> None:
    """The rate that would saturate the server means nothing where another rate is given."""
    shown = (0.1, 0.15)
    curve = [Run(describe(load=None, saturation_rate_mrps=5.0, rate_mrps=rate)) for rate in shown]
    search = Run(describe(load=None), peak=describe(), limit=Limit(absolute_ns=700.0), near=shown)
    sweep([*curve, search])
    tried = [call["traffic"].get("rate_mrps") for call in fake_simulator.calls]
    assert [tried.count(rate) for rate in shown] == [1, 1]


def queueing(**changes: object) -> Description:
    system = {
        "queues": 1,
        "units": 1,
        "service_times": {"distribution": "exponential"},
        "load": 0.5,
        **changes,
    }
    return Description.from_dict({"queueing": system})


def test_queueing_systems_are_runs_like_others() -> None:
    (outcome,) = sweep([queueing()])
    assert outcome.result["throughput"] == 0.5
    assert outcome.result["host_seconds"] >= 0
    assert outcome.description["queueing"]["load"] == 0.5
    assert not outcome.stored
    assert sweep([queueing()])[0].stored
    # Beside a server, whose warm starts and programs it has none of.
    assert len(sweep([queueing(load=0.6), describe(1)])) == 2
    assert len(fake_simulator.calls) == 3


def test_the_search_in_a_queueing_system() -> None:
    run = Run(queueing(), limit=Limit(10, 0.01))
    (plain,) = sweep([run])
    # The fake's p99 is ln 100 / (1 - load): 10 at 0.539.
    exact = 1 - math.log(100) / 10
    found = plain.description["queueing"]["load"]
    assert 0.99 * exact < found <= exact
    # Half of the load, and then, as the p99 is a ratio of straight lines, both sides of the answer.
    assert len(fake_simulator.calls) == 3
    wide = dataclasses.replace(run, limit=Limit(10, 0.01, interval=True))
    (outcome,) = sweep([wide])
    assert outcome.description["queueing"]["load"] == found
    assert outcome.result["largest_load"] == found
    # The reciprocal of its p99 is a straight line.
    assert outcome.result["beyond_run"] == pytest.approx(exact / found)
    by_chance = dataclasses.replace(run, limit=Limit(10, 0.01, by_chance=True))
    assert sweep([by_chance])[0].result["largest_load"] == pytest.approx(exact)
    low, high = outcome.result["largest_load_ci95"]
    # Its intervals are 2 % wide on both sides: it is surely kept up to 1 - 1.02 ln 100 / 10, and
    # surely broken from 1 - 0.98 ln 100 / 10 on; the reciprocals of the ends are straight lines.
    exact_ends = [1 - part * math.log(100) / 10 for part in (1.02, 0.98)]
    assert [low, high] == pytest.approx(exact_ends)
    # Without going outwards no load that was tried is surely broken: the line goes on.
    assert plain.result["largest_load_ci95"] == pytest.approx(exact_ends)


def test_a_search_begins_with_the_loads_that_it_is_given() -> None:
    shown = (0.2, 0.4, 0.6)
    (found,) = sweep([Run(queueing(), limit=Limit(10, 0.01), near=shown)])
    # 0.4 keeps the limit, 0.6 breaks it; then both sides of the answer.
    loads = [call["queueing"]["load"] for call in fake_simulator.calls]
    assert loads[:2] == [0.4, 0.6]
    assert len(loads) == 4
    exact = 1 - math.log(100) / 10
    assert 0.99 * exact < found.result["largest_load"] <= exact
    # What is shown anyway costs nothing, and that it is there already changes nothing.
    (again,) = sweep([Run(queueing(), limit=Limit(10, 0.01), near=shown)])
    assert again == dataclasses.replace(found, stored=True)
    assert len(fake_simulator.calls) == 4


@pytest.mark.parametrize("capacity", [1.0, 0.5, 0.05])
@pytest.mark.parametrize("near", [(), (0.1, 0.3, 0.6, 0.8)])
@pytest.mark.parametrize(
    "p99",
    [
        lambda load: 1 + 0.001 / max(1e-9, 0.9 - load),  # Flat until shortly before saturation.
        lambda load: 11.0 if load > 0.123 else 1.0,  # A step, of which nothing can be foreseen.
        lambda load: math.exp(30 * load - 20),
        lambda load: 9 + load,  # Never broken but at the end, where it is taken to be.
    ],
)
def test_a_search_ends_whatever_the_tail_is(
    p99: Callable[[float], float], near: tuple[float, ...], capacity: float
) -> None:
    """With the answer to its precision, after not many more loads than by halving."""
    limit = Limit(10, 0.01)
    known = Bracket.within("load", 10.0, (capacity, 1.0), near, limit.precision)
    tried = 0
    while (load := known.next(limit)) is not None:
        tried += 1
        assert known.low < load < known.high
        measured = p99(load)
        known = known.tried(load, measured <= 10, measured, (0.0, math.inf), load)
    assert p99(known.low) <= 10
    assert known.high == 1.0 or p99(known.high) > 10
    assert known.high - known.low <= 0.01 * known.high
    # Ten halvings of what is between 0 and 1 leave a hundredth of 0.1. Before each a guess may be
    # bad, and there are those to begin with.
    assert tried <= 2 * 10 + 4


def test_a_search_learns_from_what_is_served() -> None:
    """A server that serves four tenths of what another one does, by which its load is guessed."""
    limit = Limit(10, 0.04)
    known = Bracket.within("load", 40.0, (1.0, 2.0), (0.1, 0.2), limit.precision)
    tried = []
    while (load := known.next(limit)) is not None:
        tried.append(load)
        # M/M/1 of 20,000 requests.
        p99 = min(math.log(100) / (0.4 - load), 1e4) if load < 0.4 else 1e4
        known = known.tried(load, p99 <= 40, p99, (0.0, math.inf), min(load, 0.4))
    # A load to begin with, one far above 0.4, and then both sides of 0.4 - ln 100 / 40, by
    # what was served. Without that they would be six.
    assert len(tried) == 4
    assert 0.96 * known.high <= known.low <= 0.4 - math.log(100) / 40 <= known.high


def test_a_search_goes_on_above_what_was_served() -> None:
    """A server that serves a little less when it is overloaded, as a lock that is fought over."""
    limit = Limit(10, 0.04)
    known = Bracket.within("load", 40.0, (1.0, 2.0), (0.1, 0.2), limit.precision)
    tried = 0
    while (load := known.next(limit)) is not None:
        tried += 1
        p99 = 5 / (1 - load / 0.5) if load < 0.45 else 1e4
        known = known.tried(load, p99 <= 40, p99, (0.0, math.inf), min(load, 0.43))
    assert tried <= 8
    assert 0.96 * known.high <= known.low <= 0.4375 <= known.high


def test_a_search_goes_on_beyond_its_guess() -> None:
    """A server that serves five times what another one does, by which its load is guessed."""
    limit = Limit(10, 0.04)
    known = Bracket.within("load", 40.0, (1.0, 2.0), (0.1, 0.2), limit.precision)
    while (load := (known := known.further(limit.precision)).next(limit)) is not None:
        p99 = min(math.log(100) / (5.0 - load), 1e4) if load < 5.0 else 1e4
        known = known.tried(load, p99 <= 40, p99, (p99, p99), min(load, 5.0))
    assert 0.96 * known.high <= known.low <= 5.0 - math.log(100) / 40 <= known.high
    least, most = known.interval95()
    assert known.surely_kept <= least <= known.low < known.high <= most < 8.0


SHAPE = Shape(
    tuple(one / 100 for one in range(5, 100, 5)),
    tuple(math.log(100) / (10 - one / 10) for one in range(5, 100, 5)),
)
"""M/M/1's: the p99 over ten mean service times is 1 at 1 - ln 100 / 10."""


def test_the_shape_of_a_curve() -> None:
    assert SHAPE.at_limit == pytest.approx(1 - math.log(100) / 10, abs=0.002)
    assert [SHAPE.part(one) for one in (0.1, 1000.0, math.inf)] == [0.05, 0.95, 0.95]
    # A server of half the capacity has the same p99 at half the load.
    assert SHAPE.expected(0.2, SHAPE.p99[7]) == pytest.approx(0.2 / 0.4 * SHAPE.at_limit)


@pytest.mark.parametrize("capacity", [1.0, 0.9, 0.7, 1.2])
@pytest.mark.parametrize("longer", [0.0, 1.0, 2.0])
def test_a_search_by_the_shape_of_the_curve(capacity: float, longer: float) -> None:
    """A server of another capacity, whose requests take longer besides."""
    limit = Limit(10, 0.04)
    known = Bracket.within("load", 10.0, (1.0, 2.0), (), limit.precision).shaped(SHAPE)
    tried = []
    while (load := (known := known.further(limit.precision)).next(limit)) is not None:
        assert known.low < load < known.high
        tried.append(load)
        p99 = longer + math.log(100) / max(1e-9, 1 - load / capacity)
        kept, served = p99 <= 10, min(load, capacity)
        known = known.tried(load, kept, p99, (0.9 * p99, 1.1 * p99), served)
    exact = capacity * (1 - math.log(100) / (10 - longer))
    assert 0.96 * known.high <= known.low <= exact <= known.high
    assert known.low <= known.between <= known.high
    # One where the model meets the limit, and both sides of the answer, if the shape is right.
    assert len(tried) <= (6 if longer else 3)
    least, most = known.interval95()
    assert 0.7 * exact < least <= known.low < known.high <= most < 1.3 * exact


def test_an_overloaded_server_that_serves_less_does_not_mislead_a_search() -> None:
    """It serves 0.9 of its capacity, and the answer is 0.95 of it.

    The search expects another capacity, so its first load exceeds the server's.
    """
    loads = (0.3, 0.6, 0.8, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
    shape = Shape(loads, tuple(math.log(100) / (100 * (1 - load)) for load in loads))
    capacity, limit = 0.8, Limit(100, 0.01)
    known = Bracket.within("load", 100.0, (1.0, 2.0), (), limit.precision).shaped(shape)
    tried = []
    while (load := known.next(limit)) is not None:
        tried.append(load)
        p99 = math.log(100) / (1 - load / capacity) if load < capacity else math.inf
        served = load if load < capacity else 0.9 * capacity
        known = known.tried(load, p99 <= 100, p99, (0.9 * p99, 1.1 * p99), served)
    assert known.low <= capacity * (1 - math.log(100) / 100) <= known.high
    # In steps of a quarter of the precision from 0.72 it would need more than twenty.
    assert len(tried) <= 8


def test_a_search_does_not_creep_along_a_curve_of_another_shape() -> None:
    """The p99 grows slowly over a wide range of loads, as where sockets share a ready set."""
    loads = (0.3, 0.6, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)
    steep = Shape(loads, tuple(0.1 * (1 - load) ** -0.33 for load in loads))
    limit, near = Limit(10, 0.03), (0.1, 0.5, 0.7)
    known = Bracket.within("load", 1.0, (1.0, 2.0), near, limit.precision).shaped(steep)
    tried = 0
    while (load := known.next(limit)) is not None:
        tried += 1
        p99 = math.exp(8 * (load - 0.34))
        known = known.tried(load, p99 <= 1, p99, (0.9 * p99, 1.2 * p99), load)
    assert known.low <= 0.34 <= known.high
    # By the shape alone 19, of which each leaves nine tenths of the range.
    assert tried <= 12


def test_a_search_begins_where_the_shape_expects_its_answer() -> None:
    known = Bracket.within("load", 10.0, (0.9, 2.0), (), 0.04).shaped(SHAPE)
    assert known.next(Limit(10, 0.04)) == pytest.approx(0.9 * SHAPE.at_limit)


def test_a_search_goes_where_the_shape_expects_certainty() -> None:
    """Not in steps of the precision that double."""
    exact = 1 - math.log(100) / 10
    tried = {}
    for shape in (None, SHAPE):
        limit = Limit(10, 0.01, interval=True)
        known = Bracket.within("load", 10.0, (1.0, 2.0), (0.5,), limit.precision).shaped(shape)
        tried[shape] = 0
        while (load := known.next(limit)) is not None:
            tried[shape] += 1
            p99 = math.log(100) / max(1e-9, 1 - load)
            known = known.tried(load, p99 <= 10, p99, (0.8 * p99, 1.4 * p99), load)
        assert 0 < known.surely_kept < exact < known.surely_broken < 0.8
    assert tried[SHAPE] < tried[None]
    assert tried[SHAPE] <= 7


def test_a_search_can_leave_the_rest_to_chance() -> None:
    """Of p99s that are known to a third, loads that are closer together say nothing more."""
    found = {}
    for by_chance in (False, True):
        limit = Limit(10, 0.01, by_chance=by_chance)
        known = Bracket.within("load", 10.0, (0.9, 2.0), (), limit.precision).shaped(SHAPE)
        tried = 0
        while (load := known.next(limit)) is not None:
            tried += 1
            p99 = 2 + math.log(100) / max(1e-9, 1 - load)
            known = known.tried(load, p99 <= 10, p99, (0.8 * p99, 1.4 * p99), load)
        found[by_chance] = tried, known
    assert found[True][0] < found[False][0]
    _, known = found[True]
    exact = 1 - math.log(100) / 8
    assert known.low < known.between < known.high
    assert known.between == pytest.approx(exact, rel=0.03)
    least, most = known.interval95()
    assert least < known.low < exact < known.high < most


def test_two_loads_next_to_the_answer_give_its_interval() -> None:
    """The reciprocal of p99 = 2 / (1 - load) is a straight line; it is 10 at a load of 0.8."""
    known = Bracket.within("load", 10.0, (1.0, 2.0), (), 0.01)
    for load in (0.79, 0.82):
        p99 = 2 / (1 - load)
        known = known.tried(load, p99 <= 10, p99, (0.8 * p99, 1.1 * p99), load)
    # The limit is met at 0.79 - (0.2 - 0.21 / 1.1) by the upper ends, and exceeded at
    # 0.82 + (0.18 / 0.8 - 0.2) by the lower ones.
    assert known.interval95() == pytest.approx([0.79 - 0.0090909, 0.845])
    # So far apart a curve need not be straight.
    apart = Bracket.within("load", 10.0, (1.0, 2.0), (), 0.01)
    for load in (0.7, 0.82):
        p99 = 2 / (1 - load)
        apart = apart.tried(load, p99 <= 10, p99, (0.8 * p99, 1.6 * p99), load)
    assert apart.interval95() == [0.0, 2.0]


def test_a_search_by_chance_goes_no_further_than_to_what_is_certain() -> None:
    """A load that surely meets the limit need not be the next to the answer."""
    tried = {}
    for by_chance in (False, True):
        limit = Limit(10, 0.01, interval=True, by_chance=by_chance)
        known = Bracket.within("load", 10.0, (0.9, 2.0), (0.3, 0.7), limit.precision)
        tried[by_chance] = 0
        while (load := known.next(limit)) is not None:
            tried[by_chance] += 1
            p99 = 2 + math.log(100) / max(1e-9, 1 - load)
            known = known.tried(load, p99 <= 10, p99, (0.9 * p99, 1.1 * p99), load)
        assert 0 < known.surely_kept < known.low < known.high < known.surely_broken < known.most
    # 0.3 and 0.7 are certain; two more are next to the answer, 0.424.
    assert tried[True] == 4 < tried[False]


def test_a_search_begins_with_parts_of_the_peak() -> None:
    """Those that a figure shows anyway, which then are the same runs."""
    curve = [Run(describe(load=None), peak=describe(), part=part) for part in (0.1, 0.3)]
    limit = Limit(absolute_ns=700.0, precision=0.04)
    search = Run(describe(load=None), peak=describe(), limit=limit, near_parts=(0.1, 0.3))
    *shown, found = sweep([*curve, search])
    rates = [one.description["traffic"]["rate_mrps"] for one in shown]
    tried = [call["traffic"].get("rate_mrps") for call in fake_simulator.calls]
    assert [tried.count(rate) for rate in rates] == [1, 1]
    assert found.trials[0].description["traffic"]["rate_mrps"] in rates


def test_a_search_tells_its_trials() -> None:
    (found,) = sweep([Run(queueing(), limit=Limit(10, 0.01))])
    loads = [one.description["queueing"]["load"] for one in found.trials]
    assert loads == [call["queueing"]["load"] for call in fake_simulator.calls]
    assert found.result["largest_load"] in loads


def test_a_limit_that_nothing_keeps() -> None:
    with pytest.raises(Failure, match="the p99 is above 4 service times at any load"):
        sweep([Run(queueing(), limit=Limit(4))])


def test_a_description_that_follows_from_another_result() -> None:
    def derive(result: Mapping[str, Any]) -> Description:
        return queueing(fixed_part=result["throughput"])

    run = Run(queueing(), peak=queueing(load=0.25), derive=derive)
    assert look_up([run]) == [None]
    (outcome,) = sweep([run])
    assert outcome.description["queueing"]["fixed_part"] == 0.25
    assert look_up([run]) == [dataclasses.replace(outcome, stored=True)]
    (searched,) = sweep([dataclasses.replace(run, limit=Limit(10))])
    assert searched.description["queueing"]["fixed_part"] == 0.25
    assert searched.result["largest_load"] == searched.description["queueing"]["load"]
