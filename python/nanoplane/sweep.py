"""Sweeps: many runs on all host cores, or on a cluster.

Runs share nothing, and the simulator does not hold Python's interpreter lock, so threads are all
that is needed on one host. A cluster is a Dask scheduler's address (`dask-jobqueue` starts one on
Slurm and its kin). Each result is in the store before the next one is looked at.

Runs that have their warm start in common begin from a checkpoint of its end, which is made once and
removed with the sweep. Results are the same without.
"""

import concurrent.futures
import contextlib
import dataclasses
import heapq
import itertools
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoplane import compiler, simulator
from nanoplane import store as stores
from nanoplane.description import Description, Resolved
from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError
from nanoplane.progress import Watcher

_LOOK_SECONDS = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A description, and where its rate comes from if it is a part of a measured peak."""

    description: Description
    peak: Description | None = None
    """The saturated run whose throughput the rate is a part of."""
    part: float = 1.0
    """Which part."""
    derive: Callable[[dict[str, Any]], Description] | None = None
    """If given, makes the description out of the result of `peak`, instead of a rate."""
    limit: "Limit | None" = None
    """If given, the rate is not a part, but the largest at which the latency keeps the limit. A
    queueing system without a server has no peak: its load is at most 1."""
    near: tuple[float, ...] = ()
    """Loads, in what the description has them in, with which the search for that rate begins: such
    as those that a figure shows anyway. More of them cost nothing then, and save searching."""

    @classmethod
    def of(cls, description: Description) -> "Run":
        """Make a run of a description; `load = 0.5` is a half of its own peak."""
        if (found := description.part_of_peak()) is not None:
            return cls(description, *found)
        return cls(description)


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

    def limit_ns(self, peak: dict[str, Any], cores: int) -> float:
        """Return what the p99 may be, by the result of the peak."""
        if self.absolute_ns is not None:
            return self.absolute_ns
        if self.kind is None:
            return self.service_times * mean_service_ns(peak, cores)
        service = self._measured(peak)["service_ns"]
        if service is None:
            raise Failure("there are no service times: the way to learn of work does not show them")
        return self.service_times * float(service["mean"])

    def kept(self, result: dict[str, Any], limit: float, load: float | None = None) -> bool:
        """Say whether a run kept the limit; of the offered load, if given, all must be served.

        A queue that overflows hides its latencies, and so does one that grows until a run is over.
        """
        p99 = self.latencies(result)["p99"]
        overloaded = load is not None and not self.served(result, load)
        return bool(p99 <= limit and not dropped(result) and not overloaded)

    def served(self, result: dict[str, Any], load: float) -> bool:
        """Say whether a load was served, to the precision or to twice the throughput's interval.

        Of one that was not, latencies only say how long the run was. Twice, because the requests of
        a seed come too slowly at all loads if they do at one, and nothing would be served then.
        """
        measured = measurement(result)
        if "throughput_mrps" not in measured:
            return True
        throughput = measured["throughput_mrps"]
        _, most = measured.get("throughput_mrps_ci95") or (throughput, throughput)
        return bool(max(2 * most - throughput, throughput / (1 - self.precision)) >= load)

    def latencies(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the latencies that are limited, in nanoseconds or in service times."""
        measured = self._measured(result)
        found: dict[str, Any] = measured.get("latency_service_times") or measured["latency_ns"]
        return found

    def _measured(self, result: dict[str, Any]) -> dict[str, Any]:
        if self.kind is None:
            return measurement(result)
        kinds: dict[str, dict[str, Any]] = result.get("by_kind", {})
        if self.kind not in kinds:
            there = f"there are {', '.join(kinds)}" if kinds else "they are all of one kind"
            raise Failure(f"no request of the kind {self.kind} was measured; {there}")
        return kinds[self.kind]


def measurement(result: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured: of a rack, by all its clients together."""
    found: dict[str, Any] = result["measurement"] if "clients" in result else result
    return found


def dropped(result: Mapping[str, Any]) -> int:
    """Return how many requests were dropped for want of room: of a rack, by its interfaces."""
    if "servers" not in result:
        return int(result.get("dropped", 0))
    interfaces = [server["interface"] for server in result["servers"]]
    named = (item for interface in interfaces for item in interface.items())
    return sum(count for name, count in named if "dropped" in name)


def mean_service_ns(result: dict[str, Any], cores: int) -> float:
    """Return the mean service time: what a core of so many takes for a request when saturated."""
    return 1000 * cores / float(measurement(result)["throughput_mrps"])


def _cores(data: Mapping[str, Any]) -> int:
    """Return how many cores serve: of a rack, those of its first server."""
    if "rack" in data:
        return int(data["rack"]["servers"][0]["server"]["fabric"]["cores"])
    return int(data["server"]["data_plane_cores"])


def _rate_key(description: Description) -> str:
    """Return the key of the rate at which requests come: of a rack, its first client's."""
    return "rack.clients.0.load.offer.rate_mrps" if description.is_rack else "traffic.rate_mrps"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One run and its result."""

    description: dict[str, Any]
    """Resolved: every key with its value."""
    key: str
    """Under which the store has the result."""
    result: dict[str, Any]
    """What was measured; README.md says what the fields mean. Where the largest load was searched
    for that keeps a limit, that load is here as `largest_load`, in what the description has it
    in. `largest_load_ci95` goes from the load up to which the p99 keeps the limit with all of its
    95 % confidence interval, to that from which on it breaks it with all of it; between loads that
    were tried, the reciprocals of the interval's ends are joined by straight lines; if none of
    them breaks the limit so, the line goes on."""
    stored: bool
    """The result was there before; nothing was run."""


@dataclasses.dataclass(slots=True)
class _Job:
    name: str
    """What the user knows the run by: the description's file, or a point of a figure."""
    resolved: Resolved
    elf: bytes
    key: str
    cost: float
    warm_start: str | None
    """Tells which warm start the run begins with, if it does."""
    then: list[Callable[["_Job", dict[str, Any], bool], None]]
    done: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Bracket:
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
    ) -> "_Bracket":
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

    def further(self, precision: float) -> "_Bracket":
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

        Where queues are long, a p99 is what it is without them and a part that grows as
        1 / (capacity - load). So load and p99 are each a ratio of straight lines in the other,
        which three loads determine; two do if the first part is left out.
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
    ) -> "_Bracket":
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


@dataclasses.dataclass(slots=True, eq=False)
class _WarmStart:
    """A warm start that several runs may have in common."""

    users: int = 0
    """Runs that have asked for it."""
    making: "concurrent.futures.Future[Path] | None" = None
    """Makes its checkpoint, or has made it."""
    checkpoint: Path | None = None
    """Its checkpoint, when that is there."""
    waiting: list[_Job] = dataclasses.field(default_factory=list)
    """Runs that wait for the checkpoint."""


class _StoppedError(Exception):
    """Ends a run from within its progress call."""


def sweep(
    runs: Iterable[Run | Description],
    *,
    store: stores.Store | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Run what the store does not have yet, the longest first; return an outcome for each run.

    `workers` is the number of runs at once on this host (all its cores), `scheduler` the address
    of a Dask scheduler to use instead. `fresh` runs everything again. Ctrl-C raises Interrupted.
    """
    listed = [run if isinstance(run, Run) else Run.of(run) for run in runs]
    for run in listed:
        for description in (run.description, run.peak):
            if description is not None:
                description.check()
    return _Sweep(listed, store, fresh, watcher).go(workers, scheduler)


def run_alone(
    description: Description,
    options: Mapping[str, Any],
    *,
    debug: bool = False,
    store: stores.Store | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run one description with options of the simulator; the store is not asked and gets nothing.

    `debug`: the guest has debug information. The peak that a load is a part of is still looked up.
    """
    run = Run.of(description)
    if run.peak is not None:
        (peak,) = sweep([run.peak], store=store, watcher=watcher)
        rate = run.part * peak.result["throughput_mrps"]
        description = description.set("traffic.rate_mrps", rate)
    resolved = description.resolve()
    elf = resolved.elf(debug=debug)

    def report(done: float) -> None:
        if watcher is not None:
            watcher.update(done, 0, 1)

    try:
        result = _run_with(resolved.data, elf, options, report)
    except (DescriptionError, Failure) as error:
        raise type(error)(f"{description.source}: {error}") from error
    key = stores.key(resolved, resolved.elf())
    return Outcome(resolved.data, key, result, stored=False)


def look_up(runs: Iterable[Run], store: stores.Store | None = None) -> list[Outcome | None]:
    """Return what the store has: an outcome for each run, None where it has not been run."""
    found = _Sweep(list(runs), store, fresh=False, watcher=None)
    found.prepare()
    return found.outcomes


class _Sweep:
    def __init__(
        self, runs: list[Run], store: stores.Store | None, fresh: bool, watcher: Watcher | None
    ) -> None:
        # Not `store or …`: an empty store is false.
        self.store = stores.Store() if store is None else store
        self.fresh = fresh
        self.watcher = watcher
        self.runs = runs
        self.outcomes: list[Outcome | None] = [None] * len(runs)
        self.jobs: dict[str, _Job] = {}
        self.ready: list[tuple[float, int, _Job]] = []
        self.order = itertools.count()
        self.resolved: dict[Description, Resolved] = {}
        self.elves: dict[tuple[Path | None, Path | None, tuple[Path, ...]], bytes] = {}
        self.finished: dict[str, dict[str, Any]] = {}
        self.later_cost = 0.0
        self.failures: list[NanoplaneError] = []
        self.stop = threading.Event()
        self.warm_starts: dict[str, _WarmStart] = {}

    def prepare(self) -> None:
        """Ask for every run; what is stored is answered at once, the rest becomes jobs."""
        for index, run in enumerate(self.runs):
            self._ask(index, run)

    def go(self, workers: int | None, scheduler: str | None) -> list[Outcome]:
        self.prepare()
        if self.ready:
            workers = workers or os.cpu_count() or 1
            try:
                with _executor(workers, scheduler) as executor:
                    if scheduler is None:
                        with self._room_for_checkpoints() as room:
                            self._drain(executor, workers, room)
                    else:
                        # Dask has its own queue and does not know how many workers will come.
                        self._drain(executor, len(self.runs) + 1, None)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"stopped: {len(self.finished)} finished runs are kept in {self.store.path}; "
                    "the same command goes on from there"
                ) from None
        if self.failures:
            if more := len(self.failures) - 1:
                runs = "run" if more == 1 else "runs"
                raise Failure(f"{self.failures[0]}\n{more} more {runs} failed as well")
            raise self.failures[0]
        return [outcome for outcome in self.outcomes if outcome is not None]

    def _ask(self, index: int, run: Run) -> None:
        def answer(job: _Job, result: dict[str, Any], stored: bool) -> None:
            self.outcomes[index] = Outcome(job.resolved.data, job.key, result, stored)

        def found(job: _Job, result: dict[str, Any], stored: bool, known: _Bracket) -> None:
            search = {
                "largest_load": known.low,
                "largest_load_ci95": known.interval95(),
            }
            answer(job, {**result, **search}, stored)

        if run.peak is not None and (derive := run.derive) is not None:

            def derived(_: _Job, result: dict[str, Any], __: bool) -> None:
                self._ask(index, dataclasses.replace(run, description=derive(result), peak=None))

            self._request(run.peak, derived)
            return
        if run.description.is_queueing and run.limit is not None:
            limit = run.limit
            known = _Bracket.within(
                "queueing.load", limit.service_times, (1.0, 1.0), run.near, limit.precision
            )
            self._search(run, limit, known, None, found)
            return
        if run.peak is None:
            self._request(run.description, answer)
            return
        key = _rate_key(run.description)
        guessed = run.description
        if not guessed.is_rack:
            guessed = guessed.set("traffic.load", "saturate")
        guess = _cost(self._resolve(guessed), run.part)
        self.later_cost += guess

        def at_rate(job: _Job, result: dict[str, Any], __: bool) -> None:
            self.later_cost -= guess
            peak_mrps = measurement(result)["throughput_mrps"]
            if run.limit is None:
                self._request(run.description.set(key, run.part * peak_mrps), answer)
                return
            limit_ns = run.limit.limit_ns(result, _cores(job.resolved.data))
            # That peak, which the limit is made of, may be another server's.
            loads, precision = (peak_mrps, 2 * peak_mrps), run.limit.precision
            known = _Bracket.within(key, limit_ns, loads, run.near, precision)
            self._search(run, run.limit, known, None, found)

        self._request(run.peak, at_rate)

    def _search(
        self,
        run: Run,
        limit: Limit,
        known: _Bracket,
        best: tuple[_Job, dict[str, Any], bool] | None,
        answer: Callable[[_Job, dict[str, Any], bool, _Bracket], None],
    ) -> None:
        """Go on between the largest load that keeps the limit and the least that does not."""
        known = known.further(limit.precision)
        load = known.next(limit)
        if load is None and best is not None:
            answer(*best, known)
            return
        if load is None or known.high < 1e-4:
            unit = "service times" if run.description.is_queueing else "ns"
            sentence = f"the p99 is above {known.limit:.0f} {unit} at any load"
            self.failures.append(Failure(f"{run.description.source}: {sentence}"))
            return

        def then(job: _Job, result: dict[str, Any], stored: bool) -> None:
            kept = limit.kept(result, known.limit, load)
            served = measurement(result).get("throughput_mrps", load)
            latencies = limit.latencies(result)
            p99 = latencies["p99"]
            # Without an interval nothing is sure; a queue that overflows or grows surely breaks the
            # limit.
            interval = latencies.get("p99_ci95") or (0.0, math.inf)
            if dropped(result) or not limit.served(result, load):
                p99, interval = math.inf, (math.inf, math.inf)
            # What is tried for the interval alone is no answer.
            found = (job, result, stored) if kept and known.low < load < known.high else best
            self._search(run, limit, known.tried(load, kept, p99, interval, served), found, answer)

        description = run.description.set(known.key, load)
        if limit.warmup is not None and load not in run.near:
            description = description.set("measure.warmup", limit.warmup)
        self._request(description, then)

    def _request(
        self, description: Description, then: Callable[[_Job, dict[str, Any], bool], None]
    ) -> None:
        resolved = self._resolve(description)
        elf = self._elf(resolved)
        key = stores.key(resolved, elf)
        job = self.jobs.get(key)
        if job is None:
            cost = _cost(resolved, description.get("traffic.rate_mrps"))
            warm_start = stores.warm_start_key(resolved, elf)
            job = _Job(description.source, resolved, elf, key, cost, warm_start, [])
            self.jobs[key] = job
            stored = None if self.fresh else self.store.get(key)
            if stored is None:
                self._push(job)
            else:
                self.finished[key] = stored
        if key in self.finished:
            then(job, self.finished[key], True)
        else:
            job.then.append(then)

    def _resolve(self, description: Description) -> Resolved:
        """Resolve a description, once: the points of a figure share their peaks."""
        if description not in self.resolved:
            self.resolved[description] = description.resolve()
        return self.resolved[description]

    def _elf(self, resolved: Resolved) -> bytes:
        guest = (resolved.program, resolved.co_runner, resolved.programs)
        if guest not in self.elves:
            self.elves[guest] = resolved.elf()
        return self.elves[guest]

    def _push(self, job: _Job) -> None:
        heapq.heappush(self.ready, (-job.cost, next(self.order), job))

    @contextlib.contextmanager
    def _room_for_checkpoints(self) -> Iterator[Path | None]:
        """Make a directory beside the store for as long as this lasts, if it can be made."""
        with contextlib.ExitStack() as stack:
            room = None
            if self._shares_warm_starts():
                parent = self.store.path.parent
                with contextlib.suppress(OSError):
                    parent.mkdir(parents=True, exist_ok=True)
                    directory = tempfile.TemporaryDirectory(prefix="checkpoints-", dir=parent)
                    room = Path(stack.enter_context(directory))
            yield room

    def _shares_warm_starts(self) -> bool:
        """Count who needs which warm start; a part of a peak has that of the peak or its own."""
        for run in self.runs:
            for description in {run.description, run.peak} - {None}:
                assert description is not None
                if description.is_queueing or description.is_rack:
                    continue
                resolved = description.set("traffic.load", "saturate").resolve()
                elf = self._elf(resolved)
                if (name := stores.warm_start_key(resolved, elf)) is not None:
                    self.warm_starts.setdefault(name, _WarmStart()).users += 1
        return any(one.users > 1 for one in self.warm_starts.values())

    def _drain(self, executor: concurrent.futures.Executor, limit: int, room: Path | None) -> None:
        local = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        flying: dict[concurrent.futures.Future[dict[str, Any]], _Job] = {}
        warming: dict[concurrent.futures.Future[Path], _WarmStart] = {}
        try:
            while self.ready or flying or warming:
                while self.ready and len(flying) + len(warming) < limit:
                    _, _, job = heapq.heappop(self.ready)
                    start = self.warm_starts.get(job.warm_start or "", _WarmStart())
                    if room is not None and start.users > 1 and start.making is None:
                        path, data = room / str(job.warm_start), job.resolved.data
                        start.making = executor.submit(
                            _warm_up, data, job.elf, path, self._stopper()
                        )
                        warming[start.making] = start
                    if start.making in warming:
                        start.waiting.append(job)
                        continue
                    report = self._reporter(job) if local else None
                    data = job.resolved.data
                    future = executor.submit(_run, data, job.elf, report, start.checkpoint)
                    flying[future] = job
                under_way: list[concurrent.futures.Future[Any]] = [*flying, *warming]
                concurrent.futures.wait(
                    under_way, _LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED
                )
                for warm in [one for one in warming if one.done()]:
                    start = warming.pop(warm)
                    # Where it could not be made, each run has a warm start of its own.
                    if warm.exception() is None:
                        start.checkpoint = warm.result()
                    for job in start.waiting:
                        self._push(job)
                for future in [one for one in flying if one.done()]:
                    # Taken off the list afterwards, so that Ctrl-C in between does not lose it.
                    self._finish(flying[future], future)
                    self._release(flying[future])
                    del flying[future]
                self._show()
        except BaseException:
            self.stop.set()
            for future, job in flying.items():
                # What has just ended is kept too.
                if not future.cancel() and (local or future.done()):
                    self._keep(job, future)
            raise

    def _finish(self, job: _Job, future: "concurrent.futures.Future[dict[str, Any]]") -> None:
        """Keep a result, and ask for the runs that have waited for it."""
        result = self._keep(job, future)
        job.done = 1.0
        if result is None:
            return
        for then in job.then:
            try:
                then(job, result, False)
            except NanoplaneError as error:
                self.failures.append(error)

    def _keep(
        self, job: _Job, future: "concurrent.futures.Future[dict[str, Any]]"
    ) -> dict[str, Any] | None:
        """Put a result into the store and return it; None if the run was stopped or failed."""
        try:
            result = future.result()
        except _StoppedError:
            return None
        except NanoplaneError as error:
            self.failures.append(type(error)(f"{job.name}: {error}"))
            return None
        self.store.put(job.key, job.resolved, job.elf, result)
        self.finished[job.key] = result
        return result

    def _release(self, job: _Job) -> None:
        """Remove a checkpoint that nobody will need any more."""
        start = self.warm_starts.get(job.warm_start or "")
        if start is not None:
            start.users -= 1
            if start.users == 0 and start.checkpoint is not None:
                start.checkpoint.unlink(missing_ok=True)

    def _stopper(self) -> Callable[[float], None]:
        def report(_: float) -> None:
            if self.stop.is_set():
                raise _StoppedError

        return report

    def _reporter(self, job: _Job) -> Callable[[float], None]:
        def report(fraction: float) -> None:
            job.done = fraction
            if self.stop.is_set():
                raise _StoppedError

        return report

    def _show(self) -> None:
        if self.watcher is None:
            return
        new = [job for job in self.jobs.values() if job.then]
        total = sum(job.cost for job in new) + self.later_cost
        done = sum(job.cost * job.done for job in new)
        finished = sum(outcome is not None for outcome in self.outcomes)
        self.watcher.update(done / total if total else 1.0, finished, len(self.outcomes))


def _run(
    description: Mapping[str, Any],
    elf: bytes,
    report: Callable[[float], None] | None,
    checkpoint: Path | None,
) -> dict[str, Any]:
    if "queueing" in description:
        return simulator.queueing(description, report)
    options = None if checkpoint is None else {"checkpoint": {"from": str(checkpoint)}}
    return _run_with(description, elf, options, report)


def _run_with(
    description: Mapping[str, Any],
    elf: bytes,
    options: Mapping[str, Any] | None,
    report: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run one resolved description of a server or a rack, with options of the simulator."""
    if "rack" in description:
        return simulator.rack(description, compiler.unpack(elf), options, report)
    return simulator.run(description, elf, options, report)


def _warm_up(
    description: Mapping[str, Any], elf: bytes, checkpoint: Path, report: Callable[[float], None]
) -> Path:
    simulator.warm_up(description, elf, checkpoint, report)
    return checkpoint


@contextlib.contextmanager
def _executor(workers: int, scheduler: str | None) -> Iterator[concurrent.futures.Executor]:
    if scheduler is None:
        with concurrent.futures.ThreadPoolExecutor(workers) as threads:
            yield threads
        return
    try:
        from distributed import Client
    except ImportError:
        raise Failure(
            "a cluster needs Dask, which is not installed; `pip install nanoplane[cluster]` does it"
        ) from None
    connect: Any = Client
    try:
        client = connect(scheduler)
    except (OSError, ValueError) as error:
        raise Failure(f"the Dask scheduler {scheduler} does not answer: {error}") from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


_POLL_NS = {"spin": 5.0, "spin-poll-mode": 15.0, "wrs": 5.0}
"""About how long it takes to look at a queue, for what looks at all of them."""
_SPINNING = {"spin", "spin-poll-mode", "software-bitmap"}
"""What executes instructions all the time."""


def _cost(resolved: Resolved, rate_mrps: float | None) -> float:
    """Guess how long a run at a rate (None: saturated) takes: only order and share matter.

    A spinning core executes all the time, so the time between requests counts for it; a halted one
    costs nothing.
    """
    data = resolved.data
    if resolved.programs:
        clients = sum(one["count"] for one in data["rack"]["clients"])
        return float(1000.0 * data["measure"]["requests"] * max(1, clients))
    if resolved.program is None:
        # Some 40 ns of the host, where a server takes more than 100 us for a simulated microsecond.
        return float(0.4 * data["queueing"]["requests"])
    request_ns = 1000.0  # Taking, processing and giving away.
    notify = data["data_plane"]["notify"]
    request_ns += _POLL_NS.get(notify, 0.0) * data["data_plane"]["queues"]
    if notify in _SPINNING and rate_mrps is not None:
        request_ns = max(request_ns, 1000.0 / rate_mrps)
    return float(request_ns * data["measure"]["requests"])
