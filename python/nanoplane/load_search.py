"""The search for the largest load at which the tail latency meets a limit."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from nanoplane import simulator
from nanoplane.errors import Failure
from nanoplane.outcomes import mean_service_ns, measurement


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A service-level objective: a limit on the tail latency."""

    service_times: float = 10.0
    """The limit on the p99, as a multiple of the mean service time; a server's is that at its peak,
    the number of data plane cores divided by its throughput."""
    precision: float = 0.01
    """The search ends when the relative uncertainty of the rate is at most this."""
    interval: bool = False
    """Whether it then continues until it knows a load that certainly meets the limit and one that
    certainly exceeds it. Otherwise its interval is derived from the loads that happened to be
    tried."""
    kind: str | None = None
    """If given, the limit applies only to requests of this kind, such as `get`, as a multiple of
    their own mean service time at the peak; other requests are not limited."""
    absolute_ns: float | None = None
    """If given, the limit itself, independent of the mean service time."""
    warmup: int | None = None
    """If given, the warm-up in requests of runs whose load is not in `Run.near`. A rule finds no
    end of the warm-up of an overloaded server, and continues for five times as many requests."""

    def limit_ns(self, peak: Mapping[str, Any], cores: int) -> float:
        """Return the limit on the p99, from the result at the peak."""
        if self.absolute_ns is not None:
            return self.absolute_ns
        if self.kind is None:
            return self.service_times * mean_service_ns(peak, cores)
        service = self._measured(peak)["service_ns"]
        if service is None:
            raise Failure("there are no service times: the way to learn of work does not show them")
        return self.service_times * float(service["mean"])

    def kept(self, result: Mapping[str, Any], limit: float) -> bool:
        """Say whether a run met the limit, and kept up with its load.

        A queue that overflows hides its latencies; those of a queue that grows until the end of the
        run only reflect the length of the run.
        """
        return bool(self.latencies(result)["p99"] <= limit and measurement(result)["keeps_up"])

    def latencies(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the limited latencies, in nanoseconds or in service times."""
        measured = self._measured(result)
        found: Mapping[str, Any] = measured.get("latency_service_times") or measured["latency_ns"]
        return found

    def _measured(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.kind is None:
            return measurement(result)
        kinds: Mapping[str, Mapping[str, Any]] = result.get("by_kind", {})
        if self.kind not in kinds:
            there = f"there are {', '.join(kinds)}" if kinds else "they are all of one kind"
            raise Failure(f"no request of the kind {self.kind} was measured; {there}")
        return kinds[self.kind]


_MODEL_REQUESTS = 100_000
"""Requests of the queueing system that gives the starting point, a hundredth of a second of the
host."""
_MODEL_STEPS = 8
"""Loads of it that are tried, each of which halves the remaining range."""


def modelled(
    peak: Mapping[str, Any], cores: int, limit_ns: float, organisation: tuple[int, int]
) -> tuple[float, ...]:
    """Return the load at which a queueing system meets a limit, in millions of requests a second.

    Its service times are those measured in the saturated run `peak`; the rest of a request's time,
    by the throughput, is the same for all requests. It has so many queues, and cores for each. It
    is only a starting point, since a server's queues are not ideal. Empty if no service times were
    measured, or no load meets the limit.
    """
    measured = measurement(peak)
    text = measured.get("service_histogram")
    if not text or measured["throughput_mrps"] <= 0:
        return ()
    bins = [(max(1, time_ns), count) for time_ns, count in simulator.histogram_bins(text)]
    served_ns = sum(time * count for time, count in bins) / sum(count for _, count in bins)
    mean_ns = mean_service_ns(peak, cores)
    lines = "".join(f"{time_ns},{count}\n" for time_ns, count in bins)
    files = {"service-times.csv": f"service_time_ns,count\n{lines}".encode()}
    queues, units = organisation
    system = {
        "queues": queues,
        "units": units,
        "service_times": {"distribution": "recorded", "file": "service-times.csv"},
        "fixed_part": min(1.0, max(0.0, 1 - served_ns / mean_ns)),
        "requests": _MODEL_REQUESTS,
        "seed": 1,
    }
    low, high = 0.0, 1.0
    for _ in range(_MODEL_STEPS):
        load = (low + high) / 2
        found = simulator.queueing({"queueing": {**system, "load": load}}, None, files)
        if found["latency_service_times"]["p99"] * mean_ns <= limit_ns:
            low = load
        else:
            high = load
    return (low * measured["throughput_mrps"],) if low else ()


@dataclasses.dataclass(frozen=True, slots=True)
class Bracket:
    """The state of a search for the largest load that meets a limit."""

    key: str
    """The load's key in the description."""
    limit: float
    """The limit on the p99."""
    most: float
    """No load of this size or above is tried. A system's load never reaches it if this is the
    capacity; otherwise it is a guess, which is doubled if loads up to it meet the limit."""
    capacity: float
    """The load at which the p99 is assumed to diverge, as long as no load that exceeds the limit
    was tried: only a guess, which determines the next load."""
    near: tuple[float, ...]
    """Loads to start with, in ascending order."""
    low: float
    """The largest load found that meets the limit; 0 if there is none."""
    high: float
    """The smallest load found that exceeds it."""
    surely_kept: float
    """The largest load whose whole p99 interval meets it."""
    surely_broken: float
    """The smallest load whose whole p99 interval exceeds it."""
    below: float
    """How far below `low` the next candidate is that may certainly meet it, as a fraction of
    `low`."""
    above: float
    """How far above `high` the next candidate is that may certainly exceed it, as a fraction of
    `high`."""
    seen: tuple[tuple[float, float], ...] = ()
    """All tried loads, and the reciprocals of their p99. A load that exceeds the limit is replaced
    by the throughput: above the capacity, the throughput shows the capacity, and the p99 only the
    length of the run."""
    ends: tuple[tuple[float, float, float], ...] = ()
    """All tried loads, and the reciprocals of the upper and lower ends of the 95 % intervals of
    their p99."""
    halve: bool = False
    """The last load was a bad guess: it left more than three quarters of the range."""

    @classmethod
    def within(
        cls,
        key: str,
        limit: float,
        loads: tuple[float, float],
        near: Iterable[float],
        precision: float,
    ) -> "Bracket":
        """Return the initial state: `loads` are the capacity and `most`."""
        capacity, most = loads
        begin = tuple(sorted(near))
        return cls(key, limit, most, capacity, begin, 0.0, most, 0.0, most, precision, precision)

    def next(self, limit: Limit) -> float | None:
        """Return the load to try next; None if the search is complete."""
        if not self.low or self.high - self.low > limit.precision * self.high:
            return self._nearer(limit.precision)
        if not limit.interval:
            return None
        if self.surely_kept < (load := self.low * (1 - self.below)):
            return load
        if (load := self.high * (1 + self.above)) < min(self.surely_broken, self.most):
            return load
        return None

    def further(self, precision: float) -> "Bracket":
        """Return the state with a doubled guess, if no load up to it exceeded the limit."""
        near = self.high - self.low <= precision * self.high
        if not near or self.high < self.most or self.most == self.capacity:
            return self
        most = 2 * self.most
        surely = most if self.surely_broken == self.most else self.surely_broken
        return dataclasses.replace(self, most=most, high=most, surely_broken=surely)

    @property
    def _end(self) -> float:
        """The load above which the limit is assumed to be exceeded."""
        untried = self.high == self.most
        return self.capacity if untried and self.low < self.capacity else self.high

    def _nearer(self, precision: float) -> float:
        """Return a load between `low` and `high`, which are too far apart."""
        if inside := [load for load in self.near if self.low < load < self.high]:
            return inside[len(inside) // 2]
        if not self.low or self.halve:
            return (self.low + self._end) / 2
        # Slightly below the expected load, or slightly above; if the expectation was right, both
        # ends are then close enough. First on the side that leaves the larger range.
        expected = self._expected(precision)
        aside = 0.45 * precision * expected
        more_below, more_above = expected - aside - self.low, self._end - expected - aside
        # If the end is a guess, there may be nothing left on either side.
        return expected - aside if more_below >= max(0, more_above) else expected + aside

    def _expected(self, precision: float) -> float:
        """Return the load at which the limit is expected to be met.

        If queues are long, the p99 is the sum of a constant and a term proportional to 1 /
        (capacity - load). Load and p99 are therefore each a ratio of linear functions of the other,
        which three loads determine; two suffice without the constant.
        """
        wanted = 1 / self.limit
        # The throughput may be slightly below the load that was met.
        least = self.low * (1 + precision)
        known = sorted((at if one >= wanted else max(at, least), one) for at, one in self.seen)
        if self.high == self.most:
            known += [(self._end, 0.0)]
        end = next(at for at, (load, _) in enumerate(known) if load > self.low)
        (low, at_low), (high, at_high) = known[end - 1 : end + 1]
        others = [*known[max(0, end - 2) : end - 1], *known[end + 1 : end + 2]]
        for other, at_other in sorted(others, key=lambda one: abs(2 * one[0] - low - high)):
            # The cross ratio of four points is that of their images.
            one = (wanted - at_low) * (at_high - at_other) * (high - low)
            two = (wanted - at_other) * (at_high - at_low) * (high - other)
            if one != two and low < (load := (one * other - two * low) / (one - two)) < high:
                return load
        return low + (at_low - wanted) / (at_low - at_high) * (high - low)

    def interval95(self) -> list[float]:
        """Return the confidence interval of the largest load that meets the limit."""
        ends, wanted = sorted(self.ends), 1 / self.limit
        kept, broken = self.surely_kept, self.surely_broken
        at = {load: number for number, (load, _, _) in enumerate(ends)}
        if kept in at and at[kept] + 1 < len(ends):
            (_, one, _), (above, two, _) = ends[at[kept] : at[kept] + 2]
            kept += (one - wanted) / (one - two) * (above - kept)
        if at.get(broken, 0) > 0:
            (below, _, one), (_, _, two) = ends[at[broken] - 1 : at[broken] + 1]
            if math.isfinite(one):
                broken = below + (one - wanted) / (one - two) * (broken - below)
        elif at.get(self.high, 0) > 1:
            # No load exceeds it certainly: extrapolate. The slope is that from the load before the
            # last two, which are close together; it tends to be too small, since tails grow faster.
            (below, _, one), (above, _, two) = ends[at[self.high] - 2], ends[at[self.high]]
            if one > two and math.isfinite(one):
                broken = min(broken, above + (two - wanted) / (one - two) * (above - below))
        return [min(kept, self.low), max(broken, self.high)]

    def tried(
        self, load: float, kept: bool, p99: float, interval: tuple[float, float], served: float
    ) -> "Bracket":
        """Return the state after a load has been tried; the steps outwards double."""
        least, most = interval
        ends = (load, 1 / most, 1 / least if least else math.inf)
        at = served if not kept and self.low < served < load else load
        known = dataclasses.replace(self, seen=(*self.seen, (at, 1 / p99)), ends=(*self.ends, ends))
        if most <= self.limit:
            known = dataclasses.replace(known, surely_kept=max(load, known.surely_kept))
        if least > self.limit:
            known = dataclasses.replace(known, surely_broken=min(load, known.surely_broken))
        if load <= self.low:
            return dataclasses.replace(known, below=2 * self.below)
        if load >= self.high:
            return dataclasses.replace(known, above=2 * self.above)
        if kept:
            known = dataclasses.replace(known, low=load)
        else:
            known = dataclasses.replace(known, high=load)
        left = (known._end - known.low) / (self._end - self.low)
        return dataclasses.replace(known, halve=load not in self.near and left > 0.75)
