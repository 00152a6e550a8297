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
    """A service-level objective: the tail latency that must not be exceeded."""

    service_times: float = 10.0
    """The limit on the p99, as a multiple of the mean service time; a server's is that of the peak,
    the number of data plane cores over its throughput."""
    precision: float = 0.01
    """The search ends when the rate is known to this part of itself."""
    interval: bool = False
    """Whether it then goes on until it knows a load that surely keeps the limit and one that surely
    breaks it. Without, its interval is made of the loads that happened to be tried."""
    kind: str | None = None
    """If given, the limit is on requests of this kind alone, such as `get`, and a multiple of their
    own mean service time at the peak; others may take as long as they do."""
    absolute_ns: float | None = None
    """If given, the limit itself, whatever the mean service time is."""
    warmup: int | None = None
    """If given, how many requests a run leaves out whose load is none of `Run.near`. A rule finds
    no end of the warm-up of an overloaded server, and goes on for five times as many requests."""

    def limit_ns(self, peak: Mapping[str, Any], cores: int) -> float:
        """Return what the p99 may be, by the result of the peak."""
        if self.absolute_ns is not None:
            return self.absolute_ns
        if self.kind is None:
            return self.service_times * mean_service_ns(peak, cores)
        service = self._measured(peak)["service_ns"]
        if service is None:
            raise Failure("there are no service times: the way to learn of work does not show them")
        return self.service_times * float(service["mean"])

    def kept(self, result: Mapping[str, Any], limit: float) -> bool:
        """Say whether a run kept the limit, and kept up with its load.

        A queue that overflows hides its latencies; of one that grows until the run is over they
        only say how long the run was.
        """
        return bool(self.latencies(result)["p99"] <= limit and measurement(result)["keeps_up"])

    def latencies(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the latencies that are limited, in nanoseconds or in service times."""
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
"""Of a queueing system that says where to begin, a hundredth of a second of the host each."""
_MODEL_STEPS = 8
"""Loads of it that are tried, each of which halves what is left."""


def modelled(
    peak: Mapping[str, Any], cores: int, limit_ns: float, organisation: tuple[int, int]
) -> tuple[float, ...]:
    """Return the load at which a queueing system keeps a limit, in millions of requests a second.

    Its service times are those that the saturated run `peak` measured, and what its throughput says
    of each request beside them is the same for all. It has so many queues, and cores that serve
    each, and tells where to begin: a server's queues are not ideal. Nothing where no service times
    were measured, or no load keeps the limit.
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
    """What a search knows of the largest load that keeps a limit."""

    key: str
    """Of the load in the description."""
    limit: float
    """Of the p99."""
    most: float
    """No load is tried that is as large as this. A system's load never is, if this is the capacity;
    else it is a guess, which is doubled if loads up to it keep the limit."""
    capacity: float
    """Where the p99 is taken to be without bound, as long as no load that breaks the limit was
    tried: only a guess, which decides what is tried next."""
    near: tuple[float, ...]
    """Loads to begin with, in ascending order."""
    low: float
    """The largest load found that keeps the limit; 0 if none was."""
    high: float
    """The least found that does not."""
    surely_kept: float
    """The largest whose p99 keeps it with all of its interval."""
    surely_broken: float
    """The least whose p99 breaks it with all of its interval."""
    below: float
    """How far below `low` the next load is that may keep it surely, as a part of `low`."""
    above: float
    """How far above `high` the next load is that may break it surely, as a part of `high`."""
    seen: tuple[tuple[float, float], ...] = ()
    """All loads that were tried, and the reciprocals of their p99. In place of one that breaks the
    limit is what was served of it: with more than a server can serve, that says where its capacity
    is, and the p99 only how long the run was."""
    ends: tuple[tuple[float, float, float], ...] = ()
    """All loads that were tried, and the reciprocals of the most and the least that their p99 is
    with 95 % confidence."""
    halve: bool = False
    """The last load was a bad guess: it left more than three quarters of what there was."""

    @classmethod
    def within(
        cls,
        key: str,
        limit: float,
        loads: tuple[float, float],
        near: Iterable[float],
        precision: float,
    ) -> "Bracket":
        """Return what is known in the beginning: `loads` are the capacity and the most."""
        capacity, most = loads
        begin = tuple(sorted(near))
        return cls(key, limit, most, capacity, begin, 0.0, most, 0.0, most, precision, precision)

    def next(self, limit: Limit) -> float | None:
        """Return the load to try next; None if the search is over."""
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
        """Return the same with twice as large a guess, if no load up to the guess was too large."""
        near = self.high - self.low <= precision * self.high
        if not near or self.high < self.most or self.most == self.capacity:
            return self
        most = 2 * self.most
        surely = most if self.surely_broken == self.most else self.surely_broken
        return dataclasses.replace(self, most=most, high=most, surely_broken=surely)

    @property
    def _end(self) -> float:
        """Where the limit is taken to be broken."""
        untried = self.high == self.most
        return self.capacity if untried and self.low < self.capacity else self.high

    def _nearer(self, precision: float) -> float:
        """Return a load between `low` and `high`, which are too far apart."""
        if inside := [load for load in self.near if self.low < load < self.high]:
            return inside[len(inside) // 2]
        if not self.low or self.halve:
            return (self.low + self._end) / 2
        # A little below the load that is expected, or a little above, and then both are near enough
        # if it was right; first on the side where more would be left.
        expected = self._expected(precision)
        aside = 0.45 * precision * expected
        more_below, more_above = expected - aside - self.low, self._end - expected - aside
        # Where the end is a guess, there may be nothing left on either side.
        return expected - aside if more_below >= max(0, more_above) else expected + aside

    def _expected(self, precision: float) -> float:
        """Return the load at which the limit is expected to be met.

        Where queues are long, the p99 is the sum of a constant and a term proportional to 1 /
        (capacity - load). Load and p99 are therefore each a ratio of linear functions of the other,
        which three loads determine; two suffice without the constant.
        """
        wanted = 1 / self.limit
        # What was served may be a little below what is kept.
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
        """Return from where to where the largest load that keeps the limit is."""
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
            # None was surely broken: the line goes on. Its slope is that from the load before the
            # last two, which are near each other, and rather too small, for tails grow faster.
            (below, _, one), (above, _, two) = ends[at[self.high] - 2], ends[at[self.high]]
            if one > two and math.isfinite(one):
                broken = min(broken, above + (two - wanted) / (one - two) * (above - below))
        return [min(kept, self.low), max(broken, self.high)]

    def tried(
        self, load: float, kept: bool, p99: float, interval: tuple[float, float], served: float
    ) -> "Bracket":
        """Return what is known when a load has been tried; the steps outwards double."""
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
