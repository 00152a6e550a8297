"""The search for the largest load at which the tail latency meets a limit."""

import dataclasses
import functools
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
    by_chance: bool = False
    """Whether the search also ends when the confidence interval of the load, as far as the tried
    loads give it, is twice as long as what is left between them. All runs have the same arrivals:
    at loads so close together, what is left of the difference is their chance. The answer is then
    between the last loads, and not the largest tried one that meets the limit. Of an `interval` it
    is then enough that a load is certain on each side, however far from the answer."""
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


_MODEL_LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
"""Loads of the queueing system, as parts of its capacity: close together where the tail grows fast.
At the last ones the tail depends on the length of the run, as a server's does."""


_LITTLE = 0.75
"""A load that leaves more than this part of the range was a bad guess."""
_CREEPS = 3
"""After so many bad guesses in turn between two tried loads, they are no longer made by the shape
of the curve. Two sockets that share a ready set sustain a third of what they serve when saturated:
by the shape alone the search needed 18 loads."""


_STRAIGHT = 0.1
"""Between loads that differ by no more than this part the reciprocal of the p99 is a straight line:
if queues are long, the p99 is proportional to 1 / (capacity - load)."""


_MODEL_LEAST = 3000
"""The fewest requests of a queueing system."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The p99 of a queueing system over its load: the shape of a server's curve.

    A server's queues are not ideal, and requests may take longer when it is not saturated. Its
    curve is taken to be this one, with another capacity.
    """

    loads: tuple[float, ...]
    """Parts of the capacity, in ascending order."""
    p99: tuple[float, ...]
    """The p99 at these loads, as a multiple of the limit; it does not decrease."""

    def part(self, p99: float) -> float:
        """Return the part of the capacity at which the p99 is this multiple of the limit.

        Logarithms of the p99 are interpolated. What is outside of the known loads is at their ends.
        """
        if p99 >= self.p99[-1]:
            return self.loads[-1]
        after = next(place for place, one in enumerate(self.p99) if one > p99)
        if after == 0:
            return self.loads[0]
        (below, above), (one, two) = (
            self.loads[after - 1 : after + 1],
            self.p99[after - 1 : after + 1],
        )
        return below + math.log(p99 / one) / math.log(two / one) * (above - below)

    @property
    def at_limit(self) -> float:
        """The part of the capacity at which the p99 is the limit."""
        return self.part(1.0)

    def expected(self, load: float, p99: float) -> float:
        """Return the load at which a server meets the limit, by its p99 at another load."""
        return load * self.at_limit / self.part(p99)


@functools.lru_cache(maxsize=256)
def _tails(
    service_times: str, fixed_part: float, organisation: tuple[int, int], measure: tuple[int, int]
) -> tuple[float, ...]:
    """Return the p99 in mean service times of a queueing system at `_MODEL_LOADS`.

    `measure` has the number of requests and the seed.
    """
    (queues, units), (requests, seed) = organisation, measure
    system = {
        "queues": queues,
        "units": units,
        "service_times": {"distribution": "recorded", "file": "service-times.csv"},
        "fixed_part": fixed_part,
        "requests": max(_MODEL_LEAST, requests),
        "seed": seed,
    }
    files = {"service-times.csv": service_times.encode()}
    tails: list[float] = []
    for load in _MODEL_LOADS:
        found = simulator.queueing({"queueing": {**system, "load": load}}, None, files)
        # A longer tail at a lower load is chance.
        tails.append(max([found["latency_service_times"]["p99"], *tails[-1:]]))
    return tuple(tails)


def modelled(
    peak: Mapping[str, Any],
    cores: int,
    limit_ns: float,
    organisation: tuple[int, int],
    measure: tuple[int, int],
) -> Shape | None:
    """Return the p99 of a queueing system with a server's service times, over its load.

    Its service times are those measured in the saturated run `peak`; the rest of a request's time,
    by the throughput, is the same for all requests. It has so many queues, and cores for each, and
    by `measure` as many requests as the server's runs and their seed, thus the same arrivals. None
    if no service times were measured, or no load meets the limit.
    """
    measured = measurement(peak)
    text = measured.get("service_histogram")
    if not text or measured["throughput_mrps"] <= 0:
        return None
    bins = [(max(1, time_ns), count) for time_ns, count in simulator.histogram_bins(text)]
    served_ns = sum(time * count for time, count in bins) / sum(count for _, count in bins)
    mean_ns = mean_service_ns(peak, cores)
    lines = "".join(f"{time_ns},{count}\n" for time_ns, count in bins)
    fixed_part = min(1.0, max(0.0, 1 - served_ns / mean_ns))
    service_times = f"service_time_ns,count\n{lines}"
    in_service_times = _tails(service_times, fixed_part, organisation, measure)
    tails = [p99 * mean_ns / limit_ns for p99 in in_service_times]
    if tails[0] >= 1:
        return None
    return Shape(_MODEL_LOADS, tuple(tails))


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
    shape: Shape | None = None
    """The expected shape of the curve, if it is known."""
    misses: int = 0
    """How many loads in turn were on the same side of the limit as the one before."""
    creeps: int = 0
    """How many loads in turn left more than three quarters of a range whose ends were both tried:
    the curve is not that of the shape."""

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

    def shaped(self, shape: Shape | None) -> "Bracket":
        """Return the state of a search that expects a curve of this shape.

        Without loads to start with it starts where the shape meets the limit.
        """
        if shape is None:
            return self
        near = self.near or (shape.at_limit * self.capacity,)
        return dataclasses.replace(self, near=near, shape=shape)

    def next(self, limit: Limit) -> float | None:
        """Return the load to try next; None if the search is complete."""
        width = limit.precision * self.high
        if limit.by_chance:
            width = max(width, self._left_to_chance())
        if not self.low or self.high - self.low > width:
            return self._nearer(limit.precision)
        if not limit.interval:
            return None
        if self.shape is not None:
            return self._certain(self.shape)
        if limit.by_chance and self.surely_kept and self.surely_broken < self.most:
            return None
        if self.surely_kept < (load := self.low * (1 - self.below)):
            return load
        if (load := self.high * (1 + self.above)) < min(self.surely_broken, self.most):
            return load
        return None

    def _certain(self, shape: Shape) -> float | None:
        """Return a load that is expected to meet the limit, or to exceed it, with its interval.

        That is where the shape has as much less of a p99, or more, as the interval is wide at the
        load next to the limit; a little further out, and more so if that was not enough. None if a
        load has been certain on each side.
        """
        ends = {load: (1 / one, 1 / two) for load, one, two in self.ends if one and two}

        def beside(load: float, end: float) -> float:
            _, one = self._known()[load]
            p99 = 1 / (one * self.limit) if one else math.inf
            if load not in ends or math.isinf(p99):
                return load
            return load * shape.part(p99 * self.limit / end) / shape.part(p99)

        if not self.surely_kept:
            load = beside(self.low, ends[self.low][0] if self.low in ends else math.inf)
            return min(load, self.low) / (1 + self.below)
        if self.surely_broken == self.most and self.high < self.most:
            load = beside(self.high, ends[self.high][1] if self.high in ends else math.inf)
            load = max(load, self.high) * (1 + self.above)
            return load if load < self.most else None
        return None

    def _left_to_chance(self) -> float:
        """Return half the confidence interval of the load, if both its ends are known."""
        if not self.low or self.high == self.most:
            return 0.0
        least, most = self.interval95()
        return (most - least) / 2 if least > 0 and most < self.most else 0.0

    @property
    def between(self) -> float:
        """The load at which the p99 probably is the limit: `low`, or a little more.

        Between `low` and `high`, reciprocals of the p99 are interpolated.
        """
        if not self.low or self.high == self.most:
            return self.low
        known = self._known()
        (_, one), (at, two) = known[self.low], known[self.high]
        part = (one - 1 / self.limit) / (one - two) if one > two else 0.0
        return self.low + min(1.0, max(0.0, part)) * (min(at, self.high) - self.low)

    @property
    def _brackets(self) -> bool:
        """Whether loads on both sides of the limit show where it is.

        An overloaded server may serve less than at a lower load, which then shows nothing.
        """
        known = self._known()
        return self.low in known and self.high in known and known[self.high][0] > self.low

    def _known(self) -> dict[float, tuple[float, float]]:
        """Return `seen` by the load that was tried."""
        return {load: seen for (load, _, _), seen in zip(self.ends, self.seen, strict=True)}

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
        if self.shape is not None and self.seen and self.creeps < _CREEPS:
            return self._by_shape(self.shape, precision)
        if not self.low or self.halve:
            return (self.low + self._end) / 2
        # Slightly below the expected load, or slightly above; if the expectation was right, both
        # ends are then close enough. First on the side that leaves the larger range.
        expected = self._expected(precision)
        aside = 0.45 * precision * expected
        more_below, more_above = expected - aside - self.low, self._end - expected - aside
        # If the end is a guess, there may be nothing left on either side.
        return expected - aside if more_below >= max(0, more_above) else expected + aside

    def _by_shape(self, shape: Shape, precision: float) -> float:
        """Return a load between `low` and `high` by the shape of the curve.

        It is on the side of the expected load that no load has been tried on, or that leaves the
        larger range. The step from the expected load doubles as long as that side is missed.
        """
        known = self._known()
        found = []
        for load, (at, one) in known.items():
            p99 = 1 / (one * self.limit) if one else math.inf
            found.append((load, p99, shape.part(p99), shape.expected(at, p99)))
        # The nearest to the limit first. Each gives the server another capacity if the shape is not
        # quite right.
        found.sort(key=lambda one: (abs(math.log(one[1])), abs(one[2] - shape.at_limit)))
        (_, p99, _, expected), *others = found
        if self._brackets:
            # Between the two, by the part of its capacity that each has.
            ends = {load: (part, at) for load, _, part, at in found}
            (below, one), (above, two) = ends[self.low], ends[self.high]
            where = (shape.at_limit - below) / (above - below) if above > below else 0.5
            expected = one + min(1.0, max(0.0, where)) * (two - one)
        elif others and others[0][1] not in (p99, math.inf):
            # Beyond the two, along a straight line over the logarithm of the p99.
            _, other, _, at = others[0]
            change = math.log(p99) / math.log(p99 / other) * (at - expected)
            expected += max(-0.1 * expected, min(0.1 * expected, change))
        aside = 0.45 * precision * expected * math.ldexp(1.0, self.misses)
        upwards = self.low in known or self.high not in known
        if self._brackets:
            upwards = self.high - expected > expected - self.low
        load = expected + aside if upwards else expected - aside
        # Not at the ends of the range, so that it becomes smaller.
        margin = min(0.1 * (self.high - self.low), 0.25 * precision * expected)
        return min(self.high - margin, max(self.low + margin, load))

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

    def _slope(self) -> float:
        """Return how fast the reciprocal of the p99 falls between `low` and `high`.

        0 if they have not both been tried, or are too far apart for a straight line.
        """
        if not self.low or self.high == self.most or self.high > (1 + _STRAIGHT) * self.low:
            return 0.0
        known = self._known()
        (_, one), (_, two) = known[self.low], known[self.high]
        return max(0.0, one - two) / (self.high - self.low)

    def interval95(self) -> list[float]:
        """Return the confidence interval of the largest load that meets the limit."""
        ends, wanted = sorted(self.ends), 1 / self.limit
        kept, broken = self.surely_kept, self.surely_broken
        at = {load: number for number, (load, _, _) in enumerate(ends)}
        slope = self._slope()
        if kept in at and at[kept] + 1 < len(ends):
            (_, one, _), (above, two, _) = ends[at[kept] : at[kept] + 2]
            kept += (one - wanted) / (one - two) * (above - kept)
        elif not kept and self.shape is not None and self.low in at:
            # No load meets it certainly: the shape says which one does, by the upper end.
            _, one, _ = ends[at[self.low]]
            kept = self.shape.expected(self.low, wanted / one) if one else 0.0
        elif not kept and slope:
            _, one, _ = ends[at[self.low]]
            kept = max(0.0, self.low - (wanted - one) / slope)
        if at.get(broken, 0) > 0:
            (below, _, one), (_, _, two) = ends[at[broken] - 1 : at[broken] + 1]
            if math.isfinite(one):
                broken = below + (one - wanted) / (one - two) * (broken - below)
        elif self.shape is not None and self.high in at:
            _, _, two = ends[at[self.high]]
            if two and math.isfinite(two):
                broken = min(broken, self.shape.expected(self.high, wanted / two))
        elif at.get(self.high, 0) > 1:
            # No load exceeds it certainly: extrapolate. The slope is that from the load before the
            # last two, which are close together; it tends to be too small, since tails grow faster.
            (below, _, one), (above, _, two) = ends[at[self.high] - 2], ends[at[self.high]]
            if one > two and math.isfinite(one):
                broken = min(broken, above + (two - wanted) / (one - two) * (above - below))
        elif slope:
            _, _, two = ends[at[self.high]]
            if math.isfinite(two):
                broken = min(broken, self.high + (two - wanted) / slope)
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
        creeps = self.creeps
        if creeps < _CREEPS:
            creeps = creeps + 1 if self._brackets and left > _LITTLE else 0
        # A load that both sides of the limit were known around has a new place to start from.
        misses = 0 if known._brackets or load in self.near else self.misses + 1
        return dataclasses.replace(
            known, halve=load not in self.near and left > _LITTLE, misses=misses, creeps=creeps
        )
