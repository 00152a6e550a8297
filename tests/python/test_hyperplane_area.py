"""The arithmetic of cells behind HyperPlane's area."""

import pytest

from nanoplane.claims import claims
from nanoplane.figures import find
from nanoplane.papers.hyperplane import area


@pytest.mark.parametrize(("inputs", "nodes"), [(2, 1), (4, 4), (8, 11), (16, 26), (1024, 2036)])
def test_a_brent_kung_network_has_the_published_number_of_nodes(inputs: int, nodes: int) -> None:
    """8 inputs: 4 + 2 + 1 nodes up the tree, and 1 + 3 down."""
    assert area.brent_kung_nodes(inputs) == nodes


@pytest.mark.parametrize("inputs", [2, 4, 9, 10, 11, 43])
def test_an_and_of_all_bits_reduces_each_but_one(inputs: int) -> None:
    """A cell of four inputs takes the place of three with two."""
    cells = area.and_cells(inputs)
    assert 3 * cells["AND4_X1"] + cells["AND2_X1"] == inputs - 1


def test_the_ready_set_has_the_cells_of_its_description() -> None:
    """1024 queues, round-robin.

    3072 flip-flops and multiplexers; 2048 outputs of decoders with two ANDs of four and three of
    two bits, and five ANDs a queue; 3 networks of 2036 nodes, and 10 ORs of 512 bits. They have
    3072 (5.32 + 1.862) + 4096 x 1.596 + (6144 + 5120 + 6108 + 5110) x 1.064 = 52,521 square
    micrometres at 45 nm, of which (32/45)^2 remain, over 0.7.
    """
    assert area.ready_set_mm2(weight_bits=0) == pytest.approx(0.052521 * 0.50568 / 0.7, rel=1e-3)
    # A counter stands beside the 1024 weights.
    assert area.ready_set_cells(1024, 8)["DFF_X1"] == 8 * 1025


def test_the_monitoring_set_is_arrays_of_tags_or_flip_flops() -> None:
    # 1024 x 54 bits of 146 x 0.032^2 square micrometres, over 0.56.
    assert area.monitoring_set_mm2() == pytest.approx(1024 * 54 * 0.149504e-6 / 0.56)
    # The number of a queue has a bit more with twice as many.
    assert area.monitoring_set_mm2(2048) == pytest.approx(2048 * 55 * 0.149504e-6 / 0.56)
    # 54 flip-flops and multiplexers, 42 XNORs, and an AND of 43: ten cells of four, twelve of two.
    entry = 54 * (4.522 + 1.862) + 42 * 1.596 + 10 * 1.596 + 12 * 1.064
    flip_flops = 1024 * entry * 0.50568e-6 / 0.7
    assert area.monitoring_set_of_flip_flops_mm2() == pytest.approx(flip_flops, rel=1e-3)


def test_the_paper_s_overhead_is_between_the_two_circuits() -> None:
    """The paper's 0.26 % of 16 cores are more than any with arrays, and less than any without."""
    shares = [
        [area.percent_of_cores(circuit, bits) for bits in area.WEIGHT_BITS]
        for circuit in area.MONITORING_SETS
    ]
    assert shares == [
        pytest.approx([0.039, 0.077, 0.114], abs=5e-4),
        pytest.approx([0.271, 0.308, 0.346], abs=5e-4),
    ]


def test_claims_on_area_have_a_verdict_for_each_circuit() -> None:
    rows = {claim.id: claim.row({}) for claim in claims("hyperplane")}
    for bits in area.WEIGHT_BITS:
        arrays = rows[f"hyperplane.4.area-{bits}-bits"]
        flip_flops = rows[f"hyperplane.4.area-flip-flops-{bits}-bits"]
        assert (arrays["verdict"], flip_flops["verdict"]) == ("reproduced", "differs")
        # The width is an assumption: a range of them is no confidence interval.
        assert arrays["measured_ci95"] is flip_flops["measured_ci95"] is None
    ready_sets = [rows[f"hyperplane.4.ready-set-area-{bits}-bits"] for bits in area.WEIGHT_BITS]
    assert [row["verdict"] for row in ready_sets] == ["differs", "differs", "reproduced"]
    assert rows["hyperplane.4.monitoring-set-area"]["verdict"] == "differs"


def test_qwait_takes_a_selection_and_the_wires_to_the_farthest_core() -> None:
    """12.25 ns are 36.75 cycles of 3 GHz; two hops either way, and back, of 3 cycles: 24."""
    (claim,) = (one for one in claims("hyperplane") if one.id == "hyperplane.4.qwait-latency")
    assert claim.row({})["measured"] == 36.75 + 24


def test_the_figure_of_area_has_both_circuits() -> None:
    rows = find("hyperplane.area").rows({})
    series = {row.series for row in rows}
    assert len(series) == len(area.MONITORING_SETS) * len(area.WEIGHT_BITS)
    assert not any(row.ci95 for row in rows)
    # Twice the entries have more than twice the area: decoders and QIDs grow, too.
    of = {(row.series, row.x): row.y for row in rows}
    for one in series:
        assert of[one, 2048] > 2 * of[one, 1024]
