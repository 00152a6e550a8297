"""The arithmetic of cells behind HyperPlane's area."""

import pytest

from nanoplane.papers.hyperplane import area


@pytest.mark.parametrize(("inputs", "nodes"), [(2, 1), (4, 4), (8, 11), (16, 26), (1024, 2036)])
def test_a_brent_kung_network_has_the_published_number_of_nodes(inputs: int, nodes: int) -> None:
    """8 inputs: 4 + 2 + 1 nodes up the tree, and 1 + 3 down."""
    assert area.brent_kung_nodes(inputs) == nodes


def test_round_robin_has_three_flip_flops_a_queue_and_weights_their_bits_more() -> None:
    plain = area.ready_set_cells(1024, 0)
    assert (plain["DFFR_X1"], plain["DFF_X1"]) == (3 * 1024, 0)
    # A counter stands beside the 1024 weights.
    assert area.ready_set_cells(1024, 8)["DFF_X1"] == 8 * 1025


def test_an_area_is_the_cells_scaled_to_the_node_and_spread() -> None:
    # 1024 queues, round-robin: 3072 (5.32 + 1.862) + 4096 x 1.596 + (9216 + 11218) x 1.064 square
    # micrometres at 45 nm are 50342; times (32/45)^2, over 0.7.
    assert area.ready_set_mm2(weight_bits=0) == pytest.approx(0.050342 * 0.50568 / 0.7, rel=1e-3)
    # 1024 x 54 bits of 146 x 0.032^2 square micrometres, over 0.56.
    assert area.monitoring_set_mm2() == pytest.approx(1024 * 54 * 0.149504e-6 / 0.56)


def test_the_sets_are_linear_in_their_entries_but_for_the_number_of_a_queue() -> None:
    # A Brent-Kung network and all other parts but the encoder are linear; that one's width is
    # fixed here.
    ratio = area.ready_set_mm2(2048) / area.ready_set_mm2(1024)
    assert ratio == pytest.approx(2, rel=0.01)
    assert area.monitoring_set_mm2(2048) == 2 * area.monitoring_set_mm2(1024)


def test_the_overhead_is_within_what_the_paper_claims_for_any_width_of_weights() -> None:
    shares = [area.percent_of_cores(bits) for bits in area.WEIGHT_BITS]
    assert shares == sorted(shares)
    assert shares[-1] < 0.26
