"""nanoPU's figures and claims: over a formula for the simulator, and some small runs."""

import copy
import re
from random import Random
from typing import Any

import pytest

from faked import faked
from nanoplane.claims import (
    BY_CONSTRUCTION,
    DIFFERS,
    NOT_YET_RUN,
    REPRODUCED,
    UNDECIDED,
    claims,
    figures_of,
)
from nanoplane.figures import Measured, figures, find
from nanoplane.outcomes import Outcome, settled
from nanoplane.papers.nanopu import (
    applications,
    dot_product,
    loopback,
    network,
    racks,
    threads,
    traces,
)
from nanoplane.sweep import Run, sweep
from nanopu_reference import later

NAMES = [name for name in figures() if name.startswith("nanopu.")]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("name", NAMES)
def test_figures_have_rows_and_a_plot(name: str) -> None:
    figure = find(name)
    rows = figure.rows(faked(name))
    assert rows
    assert figure.rows({}) == []
    assert all(row.samples >= 1000 for row in rows)
    # What tells rows apart is in their labels.
    assert len({(row.series, row.x, *row.labels.values()) for row in rows}) == len(rows)


@pytest.mark.usefixtures("fake")
def test_equal_response_times_are_steady() -> None:
    results = copy.deepcopy(faked("nanopu.3"))
    point = loopback.FIRST
    measured = racks.measurement(results[point])
    results[point].result["measurement"]["steady"] = False
    for longest, steady in ((measured["latency_ns"]["mean"], True), (1e9, False)):
        measured["latency_ns"]["max"] = longest
        rows = find("nanopu.3").rows({point: results[point]})
        assert [row.steady for row in rows] == [steady]


@pytest.mark.usefixtures("fake")
def test_what_does_not_keep_up_is_not_steady() -> None:
    point = applications.Service("mica", "optimal", 2.5)
    results = copy.deepcopy(faked("nanopu.9"))
    measured = results[point].result["measurement"]
    for steady in (True, False):
        measured["keeps_up"] = steady
        rows = find("nanopu.9").rows({point: results[point]})
        assert [row.steady for row in rows] == [steady, steady]


@pytest.mark.usefixtures("fake")
def test_every_figure_bears_on_a_claim() -> None:
    listed = claims("nanopu")
    # The paper has nothing to say about one.
    assert figures_of(listed) == [name for name in NAMES if name != "nanopu.jbsq-preemption"]
    assert len({claim.id for claim in listed}) == len(listed)
    for claim in listed:
        assert claim.measure is not None or claim.why, claim.id
    for claim in listed:
        verdict = BY_CONSTRUCTION if claim.by_construction else NOT_YET_RUN
        assert claim.row({})["verdict"] == verdict


@pytest.mark.usefixtures("fake")
def test_claims_measure_what_they_say() -> None:
    outcomes = {point: of for name in NAMES for point, of in faked(name).items()}
    results = Measured(outcomes, outcomes)
    rows = {claim.id: claim.row(results) for claim in claims("nanopu")}
    measured = {name: row["measured"] for name, row in rows.items()}
    # The fake's nanoPU takes 17 ns and twice 26 ns, and its traditional interface 51 ns.
    assert measured["nanopu.2.wire-to-wire"] == pytest.approx(69)
    assert measured["nanopu.2.without-mac"] == pytest.approx(17)
    assert measured["nanopu.3.times"] == pytest.approx(3)
    # It serves all programs alike, and prints the same 2176 cycles for all.
    assert measured["nanopu.3.memcpy"] == 0
    assert measured["nanopu.3.context-switch"] == pytest.approx(2176)
    # What is put in is no result.
    assert rows["nanopu.2.ndp"]["verdict"] == BY_CONSTRUCTION
    # 26 ns; 7, 3, 1 and 3 cycles of 3.2 GHz; and 576 bits at 200 Gb/s.
    assert measured["nanopu.1.arrival"] == pytest.approx(26 + 14 / 3.2 + 2.88)
    assert measured["nanopu.1.arrival-without-mac"] == pytest.approx(14 / 3.2 + 2.88)
    assert measured["nanopu.2.ndp"] == pytest.approx(9 / 3.2 + 2.88)
    assert "put in" in rows["nanopu.1.arrival"]["why"]
    # The last response of a burst of 21 comes after 38 ns, and behind the traditional interface
    # after 106 ns. A message has 72 bytes.
    rate = 21 / 0.038
    assert measured["nanopu.4.rate"] == pytest.approx(rate)
    assert measured["nanopu.4.bits"] == pytest.approx(rate * 0.576)
    assert measured["nanopu.4.small"] == pytest.approx(106 / 38)
    # The p99 of TIS and RSS is five times that of HTS and JBSQ.
    assert measured["nanopu.7.high-priority"] == pytest.approx(5)
    assert measured["nanopu.jbsq.tail"] == pytest.approx(5)
    assert measured["nanopu.incast.factor"] == pytest.approx(3)
    assert measured["nanopu.6.traditional-misses"] == pytest.approx(10)
    # 2176 cycles of 3.2 GHz are 680 ns: two thirds less than 2 us.
    assert measured["nanopu.table2.read-p50"] == pytest.approx(80)
    assert measured["nanopu.table2.lower"] == pytest.approx(66)
    assert rows["nanopu.table2.lower"]["verdict"] == REPRODUCED
    # 100 ns never exceed 2.1 us.
    assert rows["nanopu.8.never-exceeds"]["verdict"] == REPRODUCED
    # Of rates there are intervals, and so there are of what is made of them.
    low, high = rows["nanopu.4.rate"]["measured_ci95"]
    assert low < rate < high
    assert rows["nanopu.5.l1"]["measured_ci95"][0] == pytest.approx(0.99, abs=1e-3)
    assert measured["nanopu.raft.erpc"] == pytest.approx(5.5 / 0.68)


def test_headers_match_the_rules_that_they_are_for() -> None:
    """As the reference of the classifier has the rules."""
    random, rules = Random(3), later.rules()
    for _ in range(200):
        rule = random.randrange(later.RULES)
        addresses, ports, protocol = traces.header_for_rule(rule, random)
        mask, source, other_mask, destination, low, high, other_low, other_high, exact = (
            int(one) for one in rules[:, rule]
        )
        assert (addresses >> 32) & mask == source
        assert addresses & 0xFFFFFFFF & other_mask == destination
        assert low <= ports >> 32 <= high
        assert other_low <= ports & 0xFFFF <= other_high
        assert exact in (0, protocol >> 32)


def test_positions_are_those_of_games() -> None:
    """Who is to move can, and a move leads where the reference's does."""
    positions = traces.positions(100)
    for own, other in positions:
        position = later.squares_of(own), later.squares_of(other)
        assert not position[0] & position[1]
        after = [traces.after_move(own, other, at) for at in traces.moves(own, other)]
        found = {(theirs, ours) for ours, theirs in after}
        expected = {(later.bits_of(a), later.bits_of(b)) for a, b in later.moves_of(position)}
        assert found == expected
        assert expected
    # All parts of a game: it begins with 4 discs.
    discs = sorted((own | other).bit_count() for own, other in positions)
    assert discs[0] < 10
    assert discs[-1] > 55


def simulated(run: Run) -> Outcome:
    (outcome,) = sweep([run], workers=1)
    return outcome


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path))


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_the_parts_of_the_way_add_up() -> None:
    point = loopback.WIRE_TO_WIRE
    results = {
        point: simulated(point.run(True)),
        loopback.FIRST: simulated(loopback.FIRST.run(True)),
    }
    parts = loopback.parts_ns(results)
    assert sum(parts.values()) == pytest.approx(loopback.response_ns(results, point))
    # A program of a dozen instructions, some of which are CSR accesses, on a core of 3.2 GHz.
    core_ns = parts["core: the program and its words"]
    assert 12 / 3.2 / 2 < core_ns < 40 / 3.2
    # MAC and serial I/O are 26 ns each way; a polling loop may see the message a turn later.
    without = loopback.response_ns(results, loopback.FIRST)
    assert loopback.response_ns(results, point) - without == pytest.approx(52, abs=8)


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_a_long_message_takes_its_time_on_the_link_both_ways() -> None:
    """It is stored and forwarded, in the interface and in the core, and its bits take the link."""
    results = {}
    for length in (loopback.SHORTEST, loopback.LONGEST):
        point = loopback.Loopback(loopback.LATENCY, racks.FAST_PATH, length)
        results[point] = simulated(point.run(True))
    short, long = (loopback.response_ns(results, point) for point in results)
    link_ns = (racks.bits(loopback.LONGEST) - racks.bits(loopback.SHORTEST)) / 200
    # In over the link, to the core at a word a cycle, and out over the link: three times, at least
    # two of them one after the other.
    assert 2 * link_ns < long - short < 4 * link_ns


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_who_overruns_at_priority_0_delays_others_less() -> None:
    """It has priority 1 after 1 us, so that others do not wait until its 5 us are over."""
    bounded = threads.Behaviours(threads.BOUNDED, threads.GAPS_CYCLES[0])
    unbounded = threads.Behaviours(threads.UNBOUNDED, threads.GAPS_CYCLES[0])
    results = {point: simulated(point.run(True)) for point in (bounded, unbounded)}
    kept, broken = (
        threads.p99_us(results, point, "well-behaved") for point in (bounded, unbounded)
    )
    assert kept < broken
    # On-core time and both links at least, and at most a wait as long as a request of 5 us.
    min_us = (threads.SERVICE_CYCLES / 3.2 + 2 * 43) / 1000
    assert min_us < kept < 5


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_a_timer_makes_a_high_priority_wait_for_its_interval() -> None:
    points = {
        scheduler: threads.Priorities(scheduler, threads.LOW_GAP_CYCLES)
        for scheduler in threads.SCHEDULERS
    }
    results = {point: simulated(point.run(True)) for point in points.values()}
    assert all(map(settled, results.values()))
    alone_us = (threads.SERVICE_CYCLES / 3.2 + 2 * racks.LINK_NS) / 1000
    of_high = {
        scheduler: results[point].result["by_kind"]["high"]["latency_ns"]
        for scheduler, point in points.items()
    }
    # With HTS most requests of priority 0 meet nobody but a thread of priority 1, which is
    # swapped out in 50 ns. The interface and the program's words take as long again.
    assert alone_us < of_high[threads.HARDWARE]["p50"] / 1000 < alone_us + 0.15
    # With TIS those that find the other thread running wait until the interval of 5 us ends: of
    # a half of them, those that come in its first fiftieth are 1 %.
    waits_us = of_high[threads.TIMER]["p99"] / 1000 - alone_us
    assert 0.9 * 5 < waits_us < 5 + 2 * alone_us


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_an_incast_is_as_long_as_the_link_takes() -> None:
    point = network.Incast(network.TRIMMING, network.HALF_PACKETS)
    results = {point: simulated(point.run(True))}
    # 80 packets of 1088 bytes at 200 Gb/s, 3.48 us, and the way through the switch and back, 0.77.
    link_us = 80 * 1088 * 8 / 200 / 1000
    assert link_us < network.longest_us(results, point) < link_us + 2.0


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_requests_of_applications_are_understood() -> None:
    """A refusal is one word, so that no response would be known to a request of stamped load."""
    for point in (
        applications.Service("mica", "optimal", 0.5),
        applications.Service("mica", "traditional", 0.5),
        applications.Service("mica-partitions", "partitions", 2.0, 4),
        applications.Service("set-algebra", racks.FAST_PATH, 0.5),
        applications.Service("set-algebra", racks.TRADITIONAL, 0.5),
        applications.Service("classifier", racks.FAST_PATH, 0.5),
        applications.Service("hd-search", racks.FAST_PATH, 0.5),
    ):
        counted = simulated(point.run(True)).result["clients"][0]["statistics"]
        assert counted["unexpected"] == 0, point.name
        assert counted["responses"] >= racks.QUICK_REQUESTS
    # A force has three words, an event five, and each 50th a summary of three behind it; the
    # opening of Othello has a reply of one word, and a reduce has five.
    for name, first_bytes, each_bytes, fiftieth_bytes in (
        ("n-body", 0, 24, 0),
        ("path-latency", 0, 40, 24),
        ("othello", 8, 40, 0),
    ):
        point = applications.Service(name, racks.FAST_PATH, applications.ALONE)
        description = point.run(True).description.set("measure.requests", 100)
        outcome = simulated(Run(description.set("measure.warmup", 0)))
        responses = outcome.result["clients"][0]["statistics"]["responses"]
        sent = outcome.result["servers"][0]["sent"]
        # Other packets have no data, and 64 bytes of padding behind their headers.
        with_data = responses + (first_bytes > 0) + (fiftieth_bytes > 0) * (responses // 50)
        others = sent["packets"] - with_data
        payload_bytes = sent["bytes"] - racks.HEADER_BYTES * sent["packets"] - 64 * others
        replies_bytes = each_bytes * responses + fiftieth_bytes * (responses // 50)
        assert payload_bytes == first_bytes + replies_bytes, name
    # A dot product's reply has three words more than its header, and a refusal one.
    for system in dot_product.SYSTEMS:
        outcome = simulated(dot_product.DotProduct(system, 10).run(True))
        client = outcome.result["clients"][0]
        (server,) = outcome.result["servers"]
        bytes_each = server["sent"]["bytes"] / server["sent"]["packets"]
        packets = server["sent"]["packets"] / client["statistics"]["responses"]
        # nanoPU's acknowledgements and credits are packets of 128 bytes.
        expected = 64 + 24 + 128 * (packets - 1)
        assert bytes_each * packets == pytest.approx(expected, abs=0.5), system


@pytest.mark.simulator
@pytest.mark.usefixtures("store")
def test_each_core_has_the_keys_that_are_asked_of_it() -> None:
    point = applications.Service("mica-partitions", "partitions", 2.0, 4)
    result = simulated(point.run(True)).result
    (server,), (client,) = result["servers"], result["clients"]
    samples = {kind: one["latency_ns"]["samples"] for kind, one in client["by_kind"].items()}
    total = sum(samples.values())
    for core in range(4):
        own = sum(samples[kind] for kind in applications._mica_kinds(core))
        # Four standard deviations of a fraction of a quarter.
        assert own / total == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / total) ** 0.5)
    reads = sum(count for kind, count in samples.items() if kind.startswith("read"))
    # A read's reply has two words and 64 of the value, a write's three; so would have that to a
    # read of a key that is not there.
    replies = (528 * reads + 24 * (total - reads)) / total
    responses, sent = client["statistics"]["responses"], server["sent"]
    others = sent["packets"] - responses
    payload_bytes = sent["bytes"] - racks.HEADER_BYTES * sent["packets"] - 64 * others
    assert payload_bytes / responses == pytest.approx(replies, rel=0.05)


def test_lengths_on_the_wire() -> None:
    """A message of 8 bytes is a packet of 72 (the paper's Figure 2), one of 2048 two packets."""
    assert racks.bits(8) == 8 * 72
    assert racks.bits(1024) == 8 * 1088
    assert racks.bits(2048) == 8 * (2048 + 128)


def changed(results: Measured, point: Any, **numbers: float) -> Measured:
    """Return results in which a point's client measured other numbers, exactly."""
    results = copy.deepcopy(results)
    measured = racks.measurement(results[point])
    for name, number in numbers.items():
        table = measured if name in measured else measured["latency_ns"]
        table |= {name: number, f"{name}_ci95": [number, number]}
    return results


def verdict(name: str, results: Measured) -> str:
    (found,) = (claim for claim in claims("nanopu") if claim.id == name)
    return str(found.row(results)["verdict"])


@pytest.mark.usefixtures("fake")
def test_each_length_of_small_messages_is_judged() -> None:
    """The mean of 2, 5 and 7 times is 4.7: "4 to 5", which one length is."""
    results, verdicts = faked("nanopu.6"), []
    for words, speedup in zip(dot_product.SMALL, (2, 5, 7), strict=True):
        for system, rate in ((dot_product.OPTIMAL, speedup), (racks.TRADITIONAL, 1)):
            point = dot_product.DotProduct(system, words)
            burst_ns = 1000 * dot_product.BURST / rate
            results = changed(results, point, p99=burst_ns + 2 * racks.BESIDE_NS)
        length = dot_product.vector_bytes(words)
        verdicts.append(verdict(f"nanopu.6.small-{length}", results))
    assert verdicts == [DIFFERS, REPRODUCED, DIFFERS]


@pytest.mark.usefixtures("fake")
def test_a_tail_that_is_long_at_7_mrps_is_not_low() -> None:
    """Whatever the throughput of more requests than can be served is."""
    at_7, alone, saturated = (
        applications.Service("set-algebra", racks.FAST_PATH, rate, 4)
        for rate in (7.0, applications.ALONE, None)
    )
    results = changed(faked("nanopu.10"), saturated, throughput_mrps=7.0)
    results = changed(results, alone, p99=1086.0)
    for p99, expected in ((20_000.0, DIFFERS), (2000.0, REPRODUCED)):
        results = changed(results, at_7, p99=p99)
        assert verdict("nanopu.10.four-cores", results) == expected


@pytest.mark.usefixtures("fake")
def test_a_tail_above_2_1_us_exceeds_it() -> None:
    """2.25 us, which the paper's bound of 2.15 excludes, is within 10 % of 2.1."""
    point = threads.Behaviours(threads.BOUNDED, 1800)
    for p99, expected in ((2250.0, DIFFERS), (2090.0, REPRODUCED)):
        results = copy.deepcopy(faked("nanopu.8"))
        for gap in threads.QUICK_GAPS_CYCLES:
            of = threads.Behaviours(threads.BOUNDED, gap)
            latency = results[of].result["clients"][0]["by_kind"]["well-behaved"]["latency_ns"]
            value = p99 if of == point else 1000.0
            latency |= {"p99": value, "p99_ci95": [value, value]}
        assert verdict("nanopu.8.never-exceeds", results) == expected


@pytest.mark.usefixtures("fake")
def test_tables_judge_what_links_and_switch_do_not_take() -> None:
    """A server that takes 20 ns instead of 78 reads in 620 ns, within 10 % of the paper's 678."""
    for cycles, expected in ((1984, DIFFERS), (2170, REPRODUCED)):
        results = copy.deepcopy(faked("nanopu.table2"))
        (server, *_) = results[applications.RDMA].result["servers"]
        text = f"p50 {cycles} ({cycles} to {cycles})"
        server["output"] = re.sub(r"p50 2176 \(2170 to 2180\)", text, server["output"])
        results[applications.RDMA].result["servers"][:] = [server] * 2
        for name in ("nanopu.table2.read-p50", "nanopu.table2.lower"):
            assert verdict(name, results) == expected
        # 680 ns, and 600 of them given.
        row = next(one for one in claims("nanopu") if one.id == "nanopu.table2.read-p50")
        assert row.row(results)["measured"] == pytest.approx(cycles / 3.2 - 600)
        assert row.paper_value == 78


@pytest.mark.usefixtures("fake")
def test_a_response_is_dominated_by_what_is_more_than_half_of_it() -> None:
    """40 ns more, for 17: the link takes 38.4 ns for the bits, which is no half of 117 ns."""
    longest = loopback.Loopback(loopback.LATENCY, racks.FAST_PATH, loopback.LONGEST)
    shortest = loopback.FIRST
    results = changed(faked("nanopu.3"), shortest, p50=77 + 2 * racks.BESIDE_NS)
    for nanoseconds, expected in ((117, DIFFERS), (160, REPRODUCED)):
        results = changed(results, longest, p50=nanoseconds + 2 * racks.BESIDE_NS)
        assert verdict("nanopu.3.serialization", results) == expected


@pytest.mark.usefixtures("fake")
def test_a_limit_that_is_kept_at_all_loads_does_not_say_how_much_is_sustained() -> None:
    results = copy.deepcopy(faked("nanopu.jbsq"))
    for point in list(results):
        results = changed(results, point, p99=1000.0)
    (claim,) = (one for one in claims("nanopu") if one.id == "nanopu.jbsq.load")
    row = claim.row(results)
    assert (row["verdict"], row["measured"]) == (UNDECIDED, None)
    assert row["why"] == "JBSQ(2) keeps the limit at all loads, up to 90 %"
