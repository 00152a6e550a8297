"""The stores of Figures 7(a) and 7(b): HERD over MICA, and Masstree.

The paper recorded the processing times of its stores on a Haswell server, and its microbenchmark
drew from these times: `RECORDED`. `STORES` execute here; they are in the manner of the paper's, and
have shorter processing times (docs/key-value.md).
"""

import dataclasses
from pathlib import Path

KEYS = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """A store, its requests, and its loads."""

    name: str
    """The name in figures."""
    operations: dict[str, float]
    """`traffic.operations`."""
    packet_bytes: int
    """Room for the longest request and reply."""
    saturation_mrps: float
    """More than the throughput of 16 cores."""
    rates_mrps: tuple[float, ...]
    quick_rates_mrps: tuple[float, ...]
    """The subset of the rates above for `--quick`."""
    quick_precision: float
    """The precision of the largest load within the SLO."""
    kind: str | None = None
    """The requests whose latency is limited and shown; None: all."""


STORES = {
    "key-value": Store(
        name="HERD-like",
        operations={"keys": KEYS, "gets": 0.95},
        packet_bytes=64,
        saturation_mrps=100.0,
        rates_mrps=(5.0, 10.0, 20.0, 25.0, 30.0, 33.0, 36.0),
        # The last rate is near the throughput of 16x1, where tails differ most.
        quick_rates_mrps=(20.0, 36.0),
        quick_precision=0.04,
    ),
    "ordered-store": Store(
        name="Masstree-like, gets",
        operations={"keys": KEYS, "gets": 0.99, "scans": 0.01},
        packet_bytes=5632,
        saturation_mrps=30.0,
        rates_mrps=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0),
        quick_rates_mrps=(8.0,),
        # Forty scans give no better precision.
        quick_precision=0.1,
        kind="get",
    ),
}
"""Keyed by program. Section 5: HERD with "95/5% read/write query mix, uniform key popularity", and
Masstree with "99% single-key gets, plus 1% long-running scans", of 100 keys."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """Processing times of a store, from which the microbenchmark draws, and the loads.

    The paper shows its histograms and gives their means. The histograms here have the shape of the
    store's here, as Figure 6 shows it: processing alone, where no request waits for another.
    """

    name: str
    """The name in figures."""
    file: str
    """The recorded histogram, in the folder `recorded`."""
    saturation_mrps: float
    """More than the throughput of 16 cores."""
    rates_mrps: tuple[float, ...]
    quick_rates_mrps: tuple[float, ...]
    """The subset of the rates above for `--quick`."""
    quick_requests: int
    mean_ns: float | None = None
    """Times are scaled to this mean; None: the times in the file are used unscaled."""
    long_ns: float | None = None
    """Requests of at least this processing time are a kind of their own."""
    kind: str | None = None
    """The requests whose latency is limited and shown; None: all."""
    limit_ns: float | None = None
    """The limit on their p99; None: ten mean service times."""

    @property
    def path(self) -> Path:
        """The path of the histogram."""
        return Path(__file__).parent / "recorded" / self.file


RECORDED = {
    "herd-recorded": Recorded(
        name="HERD's times",
        file="herd.csv",
        mean_ns=330.0,
        saturation_mrps=60.0,
        rates_mrps=(5.0, 10.0, 15.0, 20.0, 24.0, 27.0, 29.0),
        # The last rate is the highest that 16x1 sustains, where tails differ most.
        quick_rates_mrps=(10.0, 20.0),
        quick_requests=5000,
    ),
    "masstree-recorded": Recorded(
        name="Masstree's times, gets",
        file="masstree.csv",
        saturation_mrps=20.0,
        rates_mrps=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
        quick_rates_mrps=(2.0, 4.0, 6.0),
        # A hundred are scans, which are too few for a search.
        quick_requests=10_000,
        long_ns=30_000.0,
        kind="short",
        limit_ns=12_500.0,
    ),
}
"""Section 5: HERD's times "have a mean of 330ns". Of Masstree's, 99 % are gets with "an average of
1.25 us"; "the runtime of scans is 60-120 us", whose distribution the paper does not give: here it
is uniform, in steps of a microsecond. Section 6.1: the limit of gets is "10x the service time of
the get operations, equalling 12.5us"."""
