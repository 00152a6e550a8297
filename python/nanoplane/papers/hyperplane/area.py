"""Section IV-C, the area of the monitoring set and of the ready set, by an arithmetic of cells.

The paper synthesised the ready set in 32 nm and took the monitoring set from CACTI. This module
counts the cells of the circuits that Sections IV-A and IV-B describe. Cells have the areas of the
NanGate FreePDK45 Open Cell Library, which is public, scaled by the square of the nodes.
"""

import math

ENTRIES = 1024
"""Entries of both sets (Section IV-C)."""
CORES = 16
CORE_MM2 = 8.4
"""A core's area in the paper (Section IV-C)."""

CELLS_UM2 = {
    "DFFR_X1": 5.320,
    "DFF_X1": 4.522,
    "MUX2_X1": 1.862,
    "XNOR2_X1": 1.596,
    "AND4_X1": 1.596,
    "AND2_X1": 1.064,
    "OR2_X1": 1.064,
}
"""Square micrometres at 45 nm, from the library's Liberty file."""
NODE_NM, CELLS_NODE_NM = 32, 45
UTILISATION = 0.7
"""The part of a placed block that cells cover, an assumption; wires and clock take the rest."""

SRAM_CELL_UM2 = 146 * (NODE_NM / 1000) ** 2
"""The area of a single-port cell: 146 squares of the feature size in CACTI 7."""
ARRAY_EFFICIENCY = 0.56
"""The part of a tag array that cells cover: CACTI 7 has 895 square micrometres for a bank of 64
entries of 52 bits in two ways, at 32 nm."""

TAG_BITS = 48 - 6
"""The address of a doorbell's line, 48 bits without the offset in 64 bytes. A Cuckoo hash table
must keep it whole, since the row does not say what the other bits are."""
WEIGHT_BITS = (0, 8, 16)
"""Widths of a queue's weight. The paper gives none; 0 is round-robin alone."""


def qid_bits(entries: int) -> int:
    """Return the bits of a queue's number, for `entries` queues."""
    return (entries - 1).bit_length()


def entry_bits(entries: int = ENTRIES) -> int:
    """Return the bits of an entry of a monitoring set: tag, QID, valid and monitoring (IV-A)."""
    return TAG_BITS + qid_bits(entries) + 2


def and_cells(inputs: int) -> dict[str, int]:
    """Return the cells of an AND: a tree of cells of up to four inputs."""
    fours, left = divmod(inputs, 4)
    return {"AND4_X1": fours, "AND2_X1": fours + left - 1}


def brent_kung_nodes(inputs: int) -> int:
    """Return the nodes of a Brent-Kung network, for a power of two of inputs: 2n - 2 - log2 n."""
    return 2 * inputs - 2 - int(math.log2(inputs))


def ready_set_cells(entries: int, weight_bits: int) -> dict[str, int]:
    """Return the numbers of a ready set's cells by kind (Figures 6 and 7, Section IV-B).

    Weights are in flip-flops, as in a synthesis without memories.
    """
    # A ready, a mask and a current-priority bit for each QID; each keeps its value or takes a new
    # one.
    state = 3 * entries
    # Two decoders of QIDs: one for the monitoring set's activations, one for instructions. Each
    # output is an AND of all bits.
    bits = qid_bits(entries)
    decoder = {cell: 2 * entries * number for cell, number in and_cells(bits).items()}
    # Thermometer coding turns the current priority into a mask of the QIDs behind it. One network
    # finds the first ready QID behind the priority, one the first of all, and one makes the mask.
    networks = 3 * brent_kung_nodes(entries)
    # Ready and enabled; also behind the priority; the first of those; the first of all; and the
    # first of all only if none is behind the priority.
    select = 5 * entries
    # The number of the selected bit: for each of its bits an OR of half of the inputs.
    encoder = bits * (entries // 2 - 1)
    # A weight for each QID, the selected one read by an AND and an OR of all, and the counter.
    weights = weight_bits * (entries + 1)
    read = weight_bits * entries
    return {
        "DFFR_X1": state,
        "DFF_X1": weights,
        "MUX2_X1": state + weights,
        "AND4_X1": decoder["AND4_X1"],
        "AND2_X1": decoder["AND2_X1"] + select + read,
        "OR2_X1": networks + encoder + read,
    }


def ready_set_mm2(entries: int = ENTRIES, weight_bits: int = 0) -> float:
    """Return the area of a ready set at 32 nm, in square millimetres."""
    cells = ready_set_cells(entries, weight_bits)
    um2 = sum(number * CELLS_UM2[cell] for cell, number in cells.items())
    return um2 * (NODE_NM / CELLS_NODE_NM) ** 2 / UTILISATION / 1e6


def monitoring_set_mm2(entries: int = ENTRIES) -> float:
    """Return the area of the monitoring set's tag arrays at 32 nm, in square millimetres."""
    return entries * entry_bits(entries) * SRAM_CELL_UM2 / ARRAY_EFFICIENCY / 1e6


def monitoring_set_of_flip_flops_mm2(entries: int = ENTRIES) -> float:
    """Return its area with flip-flops for bits and a comparator for each tag, as in a synthesis.

    A comparator is an XNOR for each bit of the tag, and an AND of these and the valid bit.
    """
    bit = CELLS_UM2["DFF_X1"] + CELLS_UM2["MUX2_X1"]
    match = sum(number * CELLS_UM2[cell] for cell, number in and_cells(TAG_BITS + 1).items())
    entry = entry_bits(entries) * bit + TAG_BITS * CELLS_UM2["XNOR2_X1"] + match
    return entries * entry * (NODE_NM / CELLS_NODE_NM) ** 2 / UTILISATION / 1e6


MONITORING_SETS = {
    "tag arrays": monitoring_set_mm2,
    "flip-flops": monitoring_set_of_flip_flops_mm2,
}
"""Circuits of the monitoring set, with their areas. The paper's are arrays (Section IV-C)."""


def percent_of_cores(circuit: str, weight_bits: int, entries: int = ENTRIES) -> float:
    """Return the area of both sets in percent of the area of the cores that share them.

    `circuit` is that of the monitoring set.
    """
    sets = MONITORING_SETS[circuit](entries) + ready_set_mm2(entries, weight_bits)
    return 100 * sets / (CORES * CORE_MM2)
