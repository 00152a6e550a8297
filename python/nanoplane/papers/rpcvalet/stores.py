"""The stores of Figures 7(a) and 7(b): HERD over MICA, and Masstree.

Ours are in their manner, and have shorter processing times (docs/key-value.md).
"""

import dataclasses

KEYS = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """A store, what it is asked for, and at which loads it is measured."""

    name: str
    """What figures call it."""
    operations: dict[str, float]
    """`traffic.operations`."""
    packet_bytes: int
    """Room for the longest request and reply."""
    saturation_mrps: float
    """More than 16 cores take."""
    rates_mrps: tuple[float, ...]
    quick_rates_mrps: tuple[float, ...]
    """Of those above."""
    quick_precision: float
    """Of the largest load within the SLO."""
    kind: str | None = None
    """The requests whose latency is limited and shown; None: all."""


STORES = {
    "key-value": Store(
        name="HERD-like",
        operations={"keys": KEYS, "gets": 0.95},
        packet_bytes=64,
        saturation_mrps=100.0,
        rates_mrps=(5.0, 10.0, 20.0, 25.0, 30.0, 33.0, 36.0),
        # The last is near what 16x1 can serve, where tails differ most.
        quick_rates_mrps=(10.0, 20.0, 36.0),
        quick_precision=0.04,
    ),
    "ordered-store": Store(
        name="Masstree-like, gets",
        operations={"keys": KEYS, "gets": 0.99, "scans": 0.01},
        packet_bytes=5632,
        saturation_mrps=30.0,
        rates_mrps=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0),
        quick_rates_mrps=(2.0, 8.0),
        # With forty scans, more would say nothing.
        quick_precision=0.1,
        kind="get",
    ),
}
"""By their programs. Section 5: HERD with "95/5% read/write query mix, uniform key popularity", and
Masstree with "99% single-key gets, plus 1% long-running scans", of 100 keys."""
