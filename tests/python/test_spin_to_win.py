"""The study of spinning: figures and claims over a formula for the simulator, and small runs."""

import statistics

import pytest

from faked import faked
from nanoplane.claims import DIFFERS, NOT_YET_RUN, REPRODUCED, claims, figures_of
from nanoplane.figures import Measured, figures, find
from nanoplane.intervals import Estimate
from nanoplane.outcomes import Outcome
from nanoplane.papers.spin_to_win import (
    beyond,
    clock,
    co_runners,
    cores,
    machine,
    queues,
    scale_up,
    tax,
)
from nanoplane.sweep import Run, sweep

NAMES = [name for name in figures() if name.startswith("spin-to-win.")]
BEYOND = {"spin-to-win.switching", "spin-to-win.beyond"}
"""Figures of what the paper does not have."""


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("name", NAMES)
def test_figures_have_rows_and_a_plot(name: str) -> None:
    figure = find(name)
    rows = figure.rows(faked(name))
    assert figure.rows({}) == []
    # What tells rows apart is in their labels.
    of = {(row.series, row.x, row.statistic, *row.labels.values()) for row in rows}
    assert len(of) == len(rows)


@pytest.mark.usefixtures("fake")
def test_every_figure_bears_on_a_claim() -> None:
    listed = claims("spin-to-win")
    assert figures_of(listed) == [name for name in NAMES if name not in BEYOND]
    made = {point: of for name in NAMES for point, of in faked(name).items()}
    results = Measured(made, made)
    for claim in listed:
        row = claim.row(results)
        if claim.figure is None:
            assert (row["verdict"], row["measured"]) == (NOT_YET_RUN, None)
        else:
            assert row["measured"] is not None, claim.id
        assert row["verdict"] == REPRODUCED or row["why"], claim.id


@pytest.mark.usefixtures("fake")
def test_clocks_follow_from_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = faked("spin-to-win.clock")[clock.Spinning(8)]
    assert clock.allowed_ghz(outcome) == clock.MAX_GHZ
    seconds = outcome.result["simulated_seconds"]
    # The fake spends 6 uJ and leaks 4: half of the dynamic power is left.
    monkeypatch.setattr(clock, "BUDGET_WATTS", 7e-6 / seconds)
    assert clock.allowed_ghz(outcome) == pytest.approx(2.8 * 0.5 ** (1 / 3))
    monkeypatch.setattr(clock, "BUDGET_WATTS", 3e-6 / seconds)
    assert clock.allowed_ghz(outcome) == 0


@pytest.mark.usefixtures("fake")
def test_a_window_is_what_a_longer_run_has_more() -> None:
    results = faked("spin-to-win.10")
    # The fake has a miss for two packets, each of which takes 0.1 us.
    assert queues.steady_mhz(results, queues.MULTI, "last_level_misses") == pytest.approx(5)
    assert queues.steady_mhz(results, queues.SINGLE, "last_level_hits") == 0


@pytest.mark.usefixtures("fake")
def test_values_are_those_of_the_formula() -> None:
    # The fake's windows: 10,000, 10,010 and 10,020 cycles, 20,000, 20,100 and 20,200 instructions.
    outcome = faked("spin-to-win.6")[tax.Routing(tax.IPC, 1, 0.0)]
    wanted = statistics.fmean((20_000 / 10_000, 20_100 / 10_010, 20_200 / 10_020))
    found = machine.ipc(outcome)
    assert found.value == pytest.approx(wanted)
    assert found.ci95[0] < wanted < found.ci95[1]
    # 100 polls in ten thousand cycles at 2.8 GHz.
    assert machine.polls_mhz(outcome).value == pytest.approx(28, rel=0.02)
    # 20,000 packets in a millisecond.
    assert cores.received_mrps(faked("spin-to-win.12")[cores.OneCore(64)]) == pytest.approx(20)
    rows = {claim.id: claim.row(faked("spin-to-win.7")) for claim in claims("spin-to-win")}
    assert rows["spin-to-win.7.matrix-idle"]["verdict"] == DIFFERS
    assert rows["spin-to-win.7.matrix-idle"]["measured"] == 0


def test_independent_changes_are_added_by_squares() -> None:
    one, other = Estimate(10, (7, 13)), Estimate(20, (16, 24))
    assert machine.combined(lambda a, b: a + b, one, other).ci95 == (25, 35)
    # Student's t of three values: 4.30 / sqrt(3) standard deviations.
    found = machine.mean((1.0, 2.0, 3.0))
    assert found.ci95[1] - found.value == pytest.approx(4.30 / 3**0.5)


def run(planned: Run) -> Outcome:
    (outcome,) = sweep([planned])
    return outcome


@pytest.mark.simulator
def test_an_idle_core_polls_more_slowly_the_more_queues_it_has() -> None:
    polls, misses = [], []
    for count in (1, 128):
        windows = {"window_us": 10, "skip_us": 15, "windows": 2}
        parameters = {"queues": count, "rx_vec_en": 1, **windows}
        outcome = run(machine.idle("idle", "io-forward", parameters))
        for window in machine.windows(outcome):
            assert window.packets == 0
            assert window.cycles >= 10 * 2800
        polls.append(machine.polls_mhz(outcome).value)
        misses.append(queues.l2_misses_a_poll(outcome).value)
    # One queue stays in the first-level cache.
    assert misses[0] == 0
    assert misses[1] > 1
    assert polls[1] < polls[0]


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("is_vector", "compresses", "burst"),
    [(False, False, 32), (True, False, 32), (True, True, 32), (True, True, 3)],
)
def test_receive_functions_forward_each_packet(
    is_vector: bool, compresses: bool, burst: int
) -> None:
    # 1500 packets go round rings of 128 in each of two queues, so that bursts meet their ends. A
    # burst of 3 leaves packets of a session of compressed completions for the next one.
    parameters = {"queues": 2, "descriptors": 128, "rx_vec_en": float(is_vector)}
    parameters |= {"rxq_cqe_comp_en": float(compresses), "burst": burst}
    planned = machine.loaded(
        "forward", "io-forward", parameters, 10.0, measured=1000, warmup=500, flows=64
    )
    outcome = run(planned)
    client = outcome.result["clients"][0]["statistics"]
    frames = outcome.result["servers"][0]["interface"]["frames"]
    dropped = sum(frames[name] for name in frames if name.startswith("dropped"))
    assert dropped == 0
    # Each answer is a packet that was sent, once.
    assert client["unexpected"] == 0
    assert 1500 <= client["responses"] <= client["requests"]
    # Ten million packets a second to two queues: some come within 250 ns of each other.
    compressed = outcome.result["servers"][0]["interface"]["compressed_completions"]
    assert (compressed > 500) == compresses


@pytest.mark.simulator
def test_a_co_runner_takes_work_from_its_neighbour() -> None:
    def outcome(first: str) -> Outcome:
        pair = co_runners.Pair(first, co_runners.MATRIX)
        return run(pair.run(True))

    alone, beside = (
        co_runners.matrix_ipc(outcome(first)) for first in (co_runners.NOTHING, co_runners.IDLE)
    )
    assert 0.3 * alone < beside < 0.9 * alone


def test_the_shared_ring_is_one() -> None:
    planned = scale_up.Dispatch(scale_up.UP, 4, threads=2).run(True)
    (server,) = planned.description.get("rack.servers")
    assert server["parameters"]["shared"] == 1
    assert server["server"]["core"]["threads"] == 2


def forwarded(outcome: Outcome, under_way: int) -> None:
    """Check that each packet comes back once, but for some that are under way at the end."""
    client = outcome.result["clients"][0]["statistics"]
    frames = outcome.result["servers"][0]["interface"]["frames"]
    assert sum(frames[name] for name in frames if name.startswith("dropped")) == 0
    assert frames["not_sent"] == 0
    assert client["unexpected"] == 0
    assert 0 <= client["requests"] - client["responses"] <= under_way


@pytest.mark.simulator
def test_no_packet_is_lost_or_passes_another_at_a_switch() -> None:
    # The program ends with a sentence if a packet is handed over before one that must precede it.
    parameters = {"pairs": 3, "period_us": 5, "check": 1, "log": 1, "hiccup_ns": 1000}
    outcome = run(
        machine.loaded("switches", "switching", parameters, 8.0, measured=1000, warmup=0, flows=64)
    )
    forwarded(outcome, 60)
    switches = outcome.result["servers"][0]["output"].splitlines()
    # 1000 packets come in 125 us.
    assert len(switches) > 10
    assert all(of.startswith("scale-up") for of in switches[::2])
    assert all(of.startswith("scale-out") for of in switches[1::2])


@pytest.mark.simulator
@pytest.mark.parametrize(("hiccup_us", "chosen"), [(0, "out"), (10, "up")])
def test_a_data_plane_is_what_has_the_shorter_wait(hiccup_us: int, chosen: str) -> None:
    # Of 12 million packets a second a core has 3, and one in a hundred takes 10 us: they wait for
    # 2.3 us on the average behind these, by Pollaczek's and Khinchine's formula.
    parameters = {"pairs": 4, "up": chosen == "out", "log": 1, "hiccup_ns": 1000 * hiccup_us}
    outcome = run(
        machine.loaded("chooses", "switching", parameters, 12.0, measured=1000, warmup=3000)
    )
    forwarded(outcome, 300)
    last = outcome.result["servers"][0]["output"].splitlines()[-1]
    assert last.startswith(f"scale-{chosen}")


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("mechanism", "organisation"),
    [
        (beyond.POLLING, scale_up.OUT),
        (beyond.QWAIT, scale_up.OUT),
        (beyond.QWAIT, scale_up.UP),
        (beyond.INTERRUPTS, scale_up.OUT),
    ],
)
def test_cores_that_wait_forward_each_packet(mechanism: str, organisation: str) -> None:
    # 130 queues: an interrupt's vector stands for one or two of each core's 65.
    point = beyond.Waiting(beyond.CORES, mechanism, 4.0, 130, 2, organisation)
    outcome = run(point.run(True))
    forwarded(outcome, 30)
    # They sleep when there is nothing: 2 million packets a second are a tenth of what one takes.
    core = outcome.result["servers"][0]["cores"][0]
    halted = core["halted_cycles"] / core["cycles"]
    assert halted == 0 if mechanism == beyond.POLLING else 0.3 < halted < 0.95


@pytest.mark.simulator
def test_a_core_that_waits_leaves_the_other_thread_alone() -> None:
    ipcs = {
        mechanism: beyond.hart_ipc(run(beyond.Waiting(beyond.WORK, mechanism, 0.0).run(True)), 1)
        for mechanism in beyond.MECHANISMS
    }
    assert ipcs[beyond.POLLING] < 0.7 * ipcs[beyond.QWAIT]
    assert ipcs[beyond.INTERRUPTS] == pytest.approx(ipcs[beyond.QWAIT], rel=0.02)
