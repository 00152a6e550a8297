"""Sweeps: many runs on all host cores, or on a cluster.

Runs share nothing, and the simulator releases Python's interpreter lock, so threads suffice on one
host. A cluster is the address of a Dask scheduler (`dask-jobqueue` starts one on Slurm and similar
systems). Each result is stored before the next one is processed.

Runs with a common warm start begin from a checkpoint of its end, which is made once and deleted
after the sweep. It does not change results.
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

from nanoplane import execution, scratch, simulator, starts
from nanoplane import store as stores
from nanoplane.description import Description, Guest, Resolved, content, has_network, servers
from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError
from nanoplane.load_search import Bracket, Limit, modelled
from nanoplane.outcomes import Outcome, Outcomes, measurement
from nanoplane.progress import Watcher

_LOOK_SECONDS = 0.1
_CHECKPOINTS = "checkpoints-"
"""The prefix of directories with checkpoints of warm starts."""

SATURATION = 1.35
"""The offered load of a saturated run, as a multiple of its throughput. With less, a queue may
occasionally be empty. With more, the device repeatedly takes the doorbells of full queues from the
data plane, which costs a monitoring set 4 % of its peak at seven times."""
_SATURATED = (1.2, 1.5)
"""The accepted range of the multiple."""
_TRIALS = 9
"""Trials start at 20 million requests a second and double the rate: the schema's largest rate is
twice that of the last one."""
_SATURATION_TRIES = 4
_TRIAL_PART = 10
"""A first trial measures this fraction of the requests, after a warm-up of this fraction."""
_LEAST_REQUESTS = 100
"""The minimum number of measured requests."""
_CHECKPOINT_REQUESTS = 1000
"""Measured requests of the run that determines the offered load of a run with a checkpoint."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A description, and the source of its rate if that is a fraction of a measured peak."""

    description: Description
    peak: Description | None = None
    """The saturated run whose throughput the rate is a fraction of."""
    part: float = 1.0
    """The fraction."""
    derive: Callable[[Mapping[str, Any]], Description] | None = None
    """If given, derives the description from the result of `peak`, instead of a rate."""
    limit: "Limit | None" = None
    """If given, the rate is the largest at which the latency meets the limit, instead of a
    fraction. A queueing system without a server has no peak: its load is at most 1."""
    starts_as: "Limit | None" = None
    """The limit by which its start is known, if the search is a more precise one since then."""
    near: tuple[float, ...] = ()
    """Loads with which the search for that rate begins, in the description's unit: for example
    those that a figure shows anyway, which then cost nothing and shorten the search."""
    near_parts: tuple[float, ...] = ()
    """The same as parts of the throughput of `peak`."""
    by_tail: bool = False
    """The run is made for its p99, and what it measures begins with a warm server: it may end when
    the p99 is precise, in figures whose runs do."""
    organisation: tuple[int, int] | None = None
    """The queues of the ideal queueing system of the server, and the cores for each; by default one
    queue for all cores. A search for a load begins where that system meets the limit.
    """

    @classmethod
    def of(cls, description: Description) -> "Run":
        """Make a run of a description; `load = 0.5` is half of its own peak."""
        if (found := description.part_of_peak()) is not None:
            return cls(description, *found)
        return cls(description)

    def longer(self, times: int) -> "Run | None":
        """Return this run with `times` as many requests; None if its programs set the number.

        The peak does not change, and neither does the offered load. A search becomes more precise
        in proportion to the intervals of the latencies that it compares.
        """
        clients_key = self.description.clients_key
        if self.description.is_rack and not self.description.get(clients_key):
            return None
        key = "queueing.requests" if self.description.is_queueing else "measure.requests"
        derive, limit, starts_as = self.derive, self.limit, self.starts_as or self.limit

        def longer(description: Description) -> Description:
            description = description.set(key, times * description.get(key))
            if (precision := description.get("measure.precision")) is None:
                return description
            return description.set("measure.precision", precision / math.sqrt(times))

        if derive is not None:
            of_peak = derive
            derive = lambda result: longer(of_peak(result))  # noqa: E731
        if limit is not None:
            precision = limit.precision / math.sqrt(times)
            limit = dataclasses.replace(limit, precision=precision, interval=True)
        description = longer(self.description)
        return dataclasses.replace(
            self, description=description, derive=derive, limit=limit, starts_as=starts_as
        )

    def precise(self, precision: float, tail: float) -> "Run":
        """Return this run and its peak, ended as soon as they are precise.

        Half of the 95 % confidence interval is then at most this fraction of the throughput of a
        saturated data plane, or `tail` of the p99 of a run of which only that counts. Runs with
        their own precision are unchanged.
        """

        def ends(description: Description, saturates: bool) -> Description:
            part = precision if saturates else tail if self.by_tail else None
            if part is None or description.get("measure.precision") is not None:
                return description
            return description.set("measure.precision", part)

        peak, description = self.peak, self.description
        saturates = peak is None and _saturates(description)
        if peak is not None:
            # A run at a fraction of the peak, or of a search, does not saturate.
            peak = ends(peak, True)
        if not description.is_queueing:
            description = ends(description, saturates)
        return dataclasses.replace(self, description=description, peak=peak)


def _saturates(description: Description) -> bool:
    """Return whether its load is what it can take: full queues, or clients that do not think."""
    if not description.is_rack:
        return bool(description.get("traffic.load") == "saturate")
    offer = f"{description.clients_key}.0.load.offer"
    is_closed = bool(description.get(f"{offer}.mode") == "closed")
    return is_closed and not description.get(f"{offer}.think_ns")


def _cores(data: Mapping[str, Any]) -> int:
    """Return the number of serving cores: with a network, those of the first server."""
    _, first = servers(data)[0]
    machine = first["server"]
    return int(machine["fabric"]["cores"] if has_network(data) else machine["data_plane_cores"])


def _served_mrps(result: Mapping[str, Any]) -> float:
    """Return what a server serves of the arrivals at its open queues, in millions a second."""
    # Arrivals at a closed queue do not load the server.
    is_open = 1 - result.get("refused", 0) / result["generated"]
    return float(measurement(result)["throughput_mrps"] / is_open)


def saturates(rate_mrps: float, result: Mapping[str, Any]) -> bool:
    """Return whether a run was offered 1.2 to 1.5 times its throughput."""
    least, most = (times * _served_mrps(result) for times in _SATURATED)
    return least <= rate_mrps <= most


def rate_key(description: Description) -> str:
    """Return the key of the request rate: with a network, that of the first client."""
    of_client = f"{description.clients_key}.0.load.offer.rate_mrps"
    return of_client if description.is_rack else "traffic.rate_mrps"


@dataclasses.dataclass(slots=True)
class _Job:
    name: str
    """The name of the run for the user: the description's file, or a point of a figure."""
    resolved: Resolved
    elf: bytes
    files: Mapping[str, bytes]
    """The contents of the data files, by path."""
    key: str
    then: list[Callable[["_Job", Mapping[str, Any], bool], None]] = dataclasses.field(
        default_factory=list
    )
    cost: float = 0.0
    """Its estimated duration; 0 if it does not run."""
    warm_start: str | None = None
    """Identifies the run's warm start, if it runs and has one."""
    done: float = 0.0


@dataclasses.dataclass(slots=True, eq=False)
class _WarmStart:
    """A warm start that several runs may share."""

    users: set[int] = dataclasses.field(default_factory=set)
    """The indices of unfinished runs that use it: a search counts as one."""
    is_shared: bool = False
    """Several runs have used it."""
    making: "concurrent.futures.Future[Path] | None" = None
    """The run that makes its checkpoint, or has made it."""
    checkpoint: Path | None = None
    """Its checkpoint, if it has been made."""
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
    limits: Mapping[str, Any] | None = None,
    watcher: Watcher | None = None,
) -> Outcomes:
    """Run what the store does not have, the longest run first; return an outcome for each run.

    `workers` is the number of concurrent runs on this host (all its cores by default), `scheduler`
    the address of a Dask scheduler to use instead. `fresh` runs everything again. `limits` limits
    each run's use of the host, in the form of `Limits.options()`. Ctrl-C raises Interrupted.
    """
    if isinstance(runs, (Run, Description)):
        raise TypeError("sweep() takes a list of descriptions: write sweep([description])")
    listed = [run if isinstance(run, Run) else Run.of(run) for run in runs]
    planned = _Sweep(listed, store, fresh, watcher, limits)
    planned.check()
    return Outcomes(planned.go(workers, scheduler))


def run_alone(
    description: Description,
    options: Mapping[str, Any],
    *,
    debug: bool = False,
    store: stores.Store | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run one description with options of the simulator, without the store.

    `debug`: the guest has debug information. The peak of a fractional load is still looked up.
    """
    run = Run.of(description)
    unkept = None
    if description.seeks_saturation:
        limits = options.get("limits")
        like = description
        if options.get("checkpoint"):
            # A run that continues from a checkpoint has the same offered load as the one that saved
            # it, and may differ from it in the measurement.
            like = description.measures(_CHECKPOINT_REQUESTS)
        (found,) = sweep([like], store=store, limits=limits, watcher=watcher)
        rate = found.description["traffic"]["saturation_rate_mrps"]
        description = description.set("traffic.saturation_rate_mrps", rate)
        unkept = found.unkept
    if run.peak is not None:
        (peak,) = sweep([run.peak], store=store, limits=options.get("limits"), watcher=watcher)
        unkept = peak.unkept
        rate = run.part * peak.result["throughput_mrps"]
        description = description.set("traffic.rate_mrps", rate)
    resolved = description.resolve()
    elf, files = resolved.elf(debug=debug), resolved.contents()
    key = stores.key(resolved, resolved.elf() if debug else elf, files)

    def report(done: float) -> None:
        if watcher is not None:
            watcher.update(done, 0, 1)

    try:
        result = execution.run_with(resolved.data, elf, files, options, report)
    except (DescriptionError, Failure) as error:
        raise type(error)(f"{description.source}: {error}") from error
    return Outcome(resolved.data, key, result, stored=False, unkept=unkept)


def look_up(
    runs: Iterable[Run], store: stores.Store | None = None, watcher: Watcher | None = None
) -> list[Outcome | None]:
    """Return the stored results: an outcome for each run, None if it has not been run."""
    found = _Sweep(list(runs), store, fresh=False, watcher=watcher, runs_nothing=True)
    # Resolving thousands of descriptions takes seconds.
    if found.store.has_results_of(simulator.version()):
        found.prepare()
    return found.outcomes


class _Sweep:
    def __init__(
        self,
        runs: list[Run],
        store: stores.Store | None,
        fresh: bool,
        watcher: Watcher | None,
        limits: Mapping[str, Any] | None = None,
        runs_nothing: bool = False,
    ) -> None:
        # Not `store or …`: an empty store is false.
        self.store = stores.Store() if store is None else store
        self.fresh = fresh
        self.watcher = watcher
        self.limits = limits
        self.runs_nothing = runs_nothing
        self.runs = runs
        self.outcomes: list[Outcome | None] = [None] * len(runs)
        self.jobs: dict[str, _Job] = {}
        # By description: the points of a figure share their peaks.
        self.requested: dict[Description, _Job] = {}
        self.ready: list[tuple[float, int, _Job]] = []
        self.order = itertools.count()
        self.resolved: dict[Description, Resolved] = {}
        self.elves: dict[tuple[Guest, ...], bytes] = {}
        # Each is read once, so that the run gets the contents of the key.
        self.files: dict[Path, bytes] = {}
        # Results that could not be stored.
        self.unkept: dict[str, tuple[_Job, Mapping[str, Any]]] = {}
        self.finished: dict[str, Mapping[str, Any]] = {}
        self.later_cost = 0.0
        self.failures: list[NanoplaneError] = []
        self.stop = threading.Event()
        self.has_begun = False
        self.warm_starts: dict[str, _WarmStart] = {}

    def check(self) -> None:
        """Refuse wrong descriptions before anything is run."""
        for run in self.runs:
            for description in filter(None, (run.description, run.peak)):
                if description.part_of_peak() is None:
                    self._resolve(description)
                else:
                    description.check()

    def prepare(self) -> None:
        """Request every run; stored results are used immediately, other runs become jobs."""
        for index, run in enumerate(self.runs):
            self._ask(index, run)
            if self.runs_nothing and self.watcher is not None:
                asked, runs = index + 1, len(self.runs)
                self.watcher.update(asked / runs, asked, runs)

    def go(self, workers: int | None, scheduler: str | None) -> list[Outcome]:
        self.prepare()
        scratch.remove_leftovers(self.store.path.parent, _CHECKPOINTS)
        if self.ready:
            self.store.check_writable()
            self.has_begun = True
            workers = workers or os.cpu_count() or 1
            try:
                with execution.executor(workers, scheduler) as executor:
                    if scheduler is None:
                        with self._room_for_checkpoints() as room:
                            self._drain(executor, workers, room)
                    else:
                        # Dask has its own queue and does not know how many workers will come.
                        self._drain(executor, len(self.runs) + 1, None)
            except KeyboardInterrupt as signal:
                unkept = self._keep_the_rest()
                raise Interrupted(
                    f"stopped: {len(self.finished) - len(self.unkept)} finished runs are kept in "
                    f"{self.store.path}; the same command goes on from there"
                    + (f"; {unkept}" if unkept else ""),
                    signal,
                ) from None
        unkept = self._keep_the_rest()
        if self.failures:
            sentences = [str(self.failures[0])]
            if more := len(self.failures) - 1:
                runs = "run" if more == 1 else "runs"
                sentences.append(f"{more} more {runs} failed as well")
            if unkept is not None:
                sentences.append(unkept)
            if len(sentences) > 1:
                raise Failure("\n".join(sentences))
            raise self.failures[0]
        return [
            dataclasses.replace(outcome, unkept=unkept) if outcome.key in self.unkept else outcome
            for outcome in self.outcomes
            if outcome is not None
        ]

    def _keep_the_rest(self) -> str | None:
        """Retry storing results that failed before; return why and where they are otherwise."""
        if not self.unkept:
            return None
        try:
            self._put_unkept(self.store)
        except Failure as failure:
            why = str(failure)
        else:
            self.unkept.clear()
            return None
        missing = f"{why}; results that it has not taken: {len(self.unkept)}"
        try:
            other = stores.Store(tempfile.mkdtemp(prefix="nanoplane-results-"))
            self._put_unkept(other)
        except (OSError, Failure):
            return f"{missing}, and nothing else could be found that takes them"
        return f"{missing}; they are in {other.path}"

    def _put_unkept(self, store: stores.Store) -> None:
        for job, result in self.unkept.values():
            store.put(job.key, job.resolved, job.elf, result)

    def _ask(self, index: int, run: Run) -> None:
        def answer(job: _Job, result: Mapping[str, Any], stored: bool) -> None:
            self.outcomes[index] = Outcome(job.resolved.data, job.key, result, stored)
            self._release(index)

        def found(best: Outcome, known: Bracket, trials: tuple[Outcome, ...]) -> None:
            assert run.limit is not None
            search = {
                "largest_load": known.between if run.limit.by_chance else known.low,
                "largest_load_ci95": known.interval95(),
                "beyond_run": known.between / known.low,
            }
            result = {**best.result, **search}
            self.outcomes[index] = dataclasses.replace(best, result=result, trials=trials)
            self._release(index)

        if run.peak is not None and (derive := run.derive) is not None:

            def derived(_: _Job, result: Mapping[str, Any], __: bool) -> None:
                self._ask(index, dataclasses.replace(run, description=derive(result), peak=None))

            self._request(run.peak, derived)
            return
        if run.description.is_queueing and run.limit is not None:
            limit = run.limit
            known = Bracket.within(
                "queueing.load", limit.service_times, (1.0, 1.0), run.near, limit.precision
            )
            self._search(run, limit, known, None, found)
            return
        if run.peak is None:
            self._request(run.description, answer)
            return
        key = rate_key(run.description)
        guessed = run.description
        if not guessed.is_rack:
            guessed = guessed.set("traffic.load", "saturate")
        guess = self._cost(guessed, run.part)
        self.later_cost += guess

        def at_rate(job: _Job, result: Mapping[str, Any], __: bool) -> None:
            self.later_cost -= guess
            peak_mrps = measurement(result)["throughput_mrps"]
            if run.limit is None:
                self._request(run.description.set(key, run.part * peak_mrps), answer)
                return
            limit_ns = run.limit.limit_ns(result, _cores(job.resolved.data))
            # That peak, from which the limit is derived, may be another server's.
            loads, precision = (peak_mrps, 2 * peak_mrps), run.limit.precision
            cores = _cores(job.resolved.data)
            known_limit = run.starts_as or run.limit
            start = starts.known().get(starts.identity(run.description, known_limit, run.peak))
            near = run.near or tuple(part * peak_mrps for part in run.near_parts)
            if start is not None:
                # A load that is shown anyway is as good as one that differs by less than the
                # precision of any search with a start, 3 % or more.
                near = tuple(
                    next((one for one in near if math.isclose(one, load, rel_tol=0.01)), load)
                    for load in start
                )
            known = Bracket.within(key, limit_ns, loads, near, precision)
            # The curve of one kind of requests is not that of all, and near loads may be enough.
            by_shape = run.organisation is not None or start is not None or not near
            if run.limit.kind is None and by_shape:
                organisation = run.organisation or (1, cores)
                measure = guessed.value("measure.requests"), guessed.value("measure.seed")
                shape = modelled(result, cores, limit_ns, organisation, measure)
                known = known.shaped(shape)
            self._search(run, run.limit, known, None, found)

        self._request(run.peak, at_rate)

    def _search(
        self,
        run: Run,
        limit: Limit,
        known: Bracket,
        best: Outcome | None,
        answer: Callable[[Outcome, Bracket, tuple[Outcome, ...]], None],
        trials: tuple[Outcome, ...] = (),
    ) -> None:
        """Continue between the largest load that meets the limit and the smallest that does not."""
        known = known.further(limit.precision)
        load = known.next(limit)
        if load is None and best is not None:
            answer(best, known, trials)
            return
        if load is None or known.high < 1e-4:
            unit = "service times" if run.description.is_queueing else "ns"
            sentence = f"the p99 is above {known.limit:.0f} {unit} at any load"
            self.failures.append(Failure(f"{run.description.source}: {sentence}"))
            return

        def then(job: _Job, result: Mapping[str, Any], stored: bool) -> None:
            kept = limit.kept(result, known.limit)
            served = measurement(result).get("throughput_mrps", load)
            latencies = limit.latencies(result)
            p99 = latencies["p99"]
            # Without an interval nothing is certain; a run that does not keep up certainly exceeds
            # the limit.
            interval = latencies.get("p99_ci95") or (0.0, math.inf)
            if not measurement(result)["keeps_up"]:
                p99, interval = math.inf, (math.inf, math.inf)
            # Loads tried only for the interval are not the answer.
            tried = Outcome(job.resolved.data, job.key, result, stored)
            found = tried if kept and known.low < load < known.high else best
            state = known.tried(load, kept, p99, interval, served)
            self._search(run, limit, state, found, answer, (*trials, tried))

        description = run.description.set(known.key, load)
        if limit.warmup is not None and load not in run.near:
            description = description.set("measure.warmup", limit.warmup)
        self._request(description, then)

    def _request(
        self, description: Description, then: Callable[[_Job, Mapping[str, Any], bool], None]
    ) -> None:
        """Request one run; several, if its saturating rate must be found first."""
        if description.seeks_saturation:
            self._saturate(description, then)
        else:
            self._request_one(description, then)

    def _saturate(
        self, description: Description, then: Callable[[_Job, Mapping[str, Any], bool], None]
    ) -> None:
        """Find the rate that saturates a run: 1.2 to 1.5 times its throughput at this rate.

        A known start is such a rate. Otherwise a short trial, which begins with the schema's rate,
        determines the run's offered load. The run is repeated if its throughput differs from the
        trial's. If the throughput follows the offered load, because a program or a policy does not
        serve some queues, the run gets the rate of the trial.
        """
        key = "traffic.saturation_rate_mrps"
        part = description.value("measure.requests") // _TRIAL_PART
        trial = description.measures(max(_LEAST_REQUESTS, part)).set("measure.warmup", part)
        # The run itself follows its trials, and most of the work is still to come.
        later = [self._cost(description, None)]
        self.later_cost += later[0]

        def attempt(rate_mrps: float, tries: int) -> None:
            def tried(_: _Job, result: Mapping[str, Any], __: bool) -> None:
                served_mrps = _served_mrps(result)
                if rate_mrps >= _SATURATED[0] * served_mrps:
                    offer(SATURATION * served_mrps, rate_mrps, 0.0, _SATURATION_TRIES)
                elif tries > 1:
                    attempt(2 * rate_mrps, tries - 1)
                else:
                    sentence = f"of {rate_mrps:.6g} million requests a second it serves nearly all"
                    self.failures.append(
                        Failure(f"{description.source}: nothing saturates this server; {sentence}")
                    )

            self._request_one(trial.set(key, rate_mrps), tried)

        def offer(rate_mrps: float, trial_mrps: float, before_mrps: float, tries: int) -> None:
            self.later_cost -= later.pop() if later else 0.0

            def measured(job: _Job, result: Mapping[str, Any], stored: bool) -> None:
                served_mrps = _served_mrps(result)
                follows = served_mrps < before_mrps / _SATURATED[0]
                if saturates(rate_mrps, result):
                    then(job, result, stored)
                elif follows or tries == 1:
                    self._request_one(description.set(key, trial_mrps), then)
                else:
                    offer(SATURATION * served_mrps, trial_mrps, served_mrps, tries - 1)

            self._request_one(description.set(key, rate_mrps), measured)

        (start, *_) = starts.known().get(starts.identity(description), (None,))
        first_mrps = description.value(key)
        if start is None:
            attempt(first_mrps, _TRIALS)
            return

        def started(job: _Job, result: Mapping[str, Any], stored: bool) -> None:
            if saturates(start, result):
                then(job, result, stored)
            else:
                attempt(first_mrps, _TRIALS)

        self.later_cost -= later.pop()
        self._request_one(description.set(key, start), started)

    def _request_one(
        self, description: Description, then: Callable[[_Job, Mapping[str, Any], bool], None]
    ) -> None:
        job = self._job(description)
        if job.key in self.finished:
            then(job, self.finished[job.key], True)
        else:
            job.then.append(then)

    def _job(self, description: Description) -> _Job:
        """Return the run of a description, looked up when it is first requested."""
        if description in self.requested:
            return self.requested[description]
        resolved = self._resolve(description)
        elf, files = self._elf(resolved), self._contents(resolved)
        key = stores.key(resolved, elf, files)
        if (job := self.jobs.get(key)) is None:
            job = self.jobs[key] = _Job(description.source, resolved, elf, files, key)
            stored = None if self.fresh else self._stored(key)
            if stored is not None:
                self.finished[key] = stored
            elif not self.runs_nothing:
                job.cost = self._cost(description, description.get("traffic.rate_mrps"))
                job.warm_start = stores.warm_start_key(resolved, elf, files)
                self._push(job)
        self.requested[description] = job
        return job

    def _cost(self, description: Description, rate_mrps: float | None) -> float:
        """Estimate the duration of a run; 0 if nothing is run."""
        if self.runs_nothing:
            return 0.0
        return execution.cost(self._resolve(description).data, rate_mrps)

    def _stored(self, key: str) -> Mapping[str, Any] | None:
        try:
            return self.store.get(key)
        except Failure:
            if not self.has_begun:
                raise
            # A failure at this point costs another run, but no finished one.
            return None

    def _resolve(self, description: Description) -> Resolved:
        """Resolve a description once: the points of a figure share their peaks."""
        if description not in self.resolved:
            self.resolved[description] = description.resolve(check=not self.runs_nothing)
        return self.resolved[description]

    def _elf(self, resolved: Resolved) -> bytes:
        guest = resolved.guests
        if guest not in self.elves:
            self.elves[guest] = resolved.elf()
        return self.elves[guest]

    def _contents(self, resolved: Resolved) -> dict[str, bytes]:
        for key, path in resolved.files.items():
            if path not in self.files:
                self.files[path] = content(key, path)
        return {str(path): self.files[path] for path in resolved.files.values()}

    def _push(self, job: _Job) -> None:
        heapq.heappush(self.ready, (-job.cost, next(self.order), job))

    @contextlib.contextmanager
    def _room_for_checkpoints(self) -> Iterator[Path | None]:
        """Make a temporary directory beside the store, if possible."""
        with contextlib.ExitStack() as stack:
            room = None
            if self._shares_warm_starts():
                parent = self.store.path.parent
                with contextlib.suppress(OSError):
                    parent.mkdir(parents=True, exist_ok=True)
                    room = stack.enter_context(scratch.directory(parent, _CHECKPOINTS))
            yield room

    def _shares_warm_starts(self) -> bool:
        """Determine the runs of each warm start; a fraction of a peak has the peak's or its own.

        Saturating rates, and the largest load within a limit, are found by runs at several rates,
        which share a warm start if it has its own rate.
        """
        for index, run in enumerate(self.runs):
            peak = run.description if run.peak is None else run.peak
            for description in {run.description, peak}:
                if description.is_queueing or description.is_rack or self.outcomes[index]:
                    continue
                seeks = description is peak and peak.seeks_saturation
                if seeks and description.get("measure.warm_start.rate_mrps") is None:
                    continue
                resolved = description.set("traffic.load", "saturate").resolve()
                elf, files = self._elf(resolved), self._contents(resolved)
                if (name := stores.warm_start_key(resolved, elf, files)) is not None:
                    start = self.warm_starts.setdefault(name, _WarmStart())
                    start.users.add(index)
                    searches = description is run.description and run.limit is not None
                    start.is_shared |= seeks or searches or len(start.users) > 1
        return any(start.is_shared for start in self.warm_starts.values())

    def _drain(self, executor: concurrent.futures.Executor, limit: int, room: Path | None) -> None:
        local = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        flying: dict[concurrent.futures.Future[Mapping[str, Any]], _Job] = {}
        warming: dict[concurrent.futures.Future[Path], _WarmStart] = {}
        try:
            while self.ready or flying or warming:
                while self.ready and len(flying) + len(warming) < limit:
                    _, _, job = heapq.heappop(self.ready)
                    start = self.warm_starts.get(job.warm_start or "", _WarmStart())
                    if room is not None and start.is_shared and start.making is None:
                        path, data = room / str(job.warm_start), job.resolved.data
                        start.making = executor.submit(
                            execution.warm_up, data, job.elf, job.files, path, self._stopper()
                        )
                        warming[start.making] = start
                    if start.making in warming:
                        start.waiting.append(job)
                        continue
                    report = self._reporter(job) if local else None
                    data = job.resolved.data
                    future = executor.submit(
                        execution.run,
                        data,
                        job.elf,
                        job.files,
                        report,
                        start.checkpoint,
                        self.limits,
                    )
                    flying[future] = job
                under_way: list[concurrent.futures.Future[Any]] = [*flying, *warming]
                concurrent.futures.wait(
                    under_way, _LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED
                )
                for warm in [one for one in warming if one.done()]:
                    start = warming.pop(warm)
                    # If it could not be made, each run has its own warm start.
                    if warm.exception() is None:
                        start.checkpoint = warm.result()
                    for job in start.waiting:
                        self._push(job)
                for future in [one for one in flying if one.done()]:
                    # Removed from the list afterwards, so that Ctrl-C in between does not lose it.
                    self._finish(flying[future], future)
                    del flying[future]
                self._show()
        except BaseException:
            self.stop.set()
            for future, job in flying.items():
                # Runs that have just ended are stored, too.
                if not future.cancel() and (local or future.done()):
                    self._keep(job, future)
            raise

    def _finish(self, job: _Job, future: "concurrent.futures.Future[Mapping[str, Any]]") -> None:
        """Store a result, and request the runs that have waited for it."""
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
        self, job: _Job, future: "concurrent.futures.Future[Mapping[str, Any]]"
    ) -> Mapping[str, Any] | None:
        """Store a result and return it; None if the run was stopped or failed."""
        try:
            result = future.result()
        except _StoppedError:
            return None
        except NanoplaneError as error:
            self.failures.append(type(error)(f"{job.name}: {error}"))
            return None
        self.finished[job.key] = result
        try:
            self.store.put(job.key, job.resolved, job.elf, result)
        except Failure:
            # Storing is retried at the end, and the other runs continue.
            self.unkept[job.key] = (job, result)
        return result

    def _release(self, index: int) -> None:
        """Remove the checkpoints that are no longer needed after a run."""
        for start in self.warm_starts.values():
            start.users.discard(index)
            if not start.users and start.checkpoint is not None:
                start.checkpoint.unlink(missing_ok=True)
                start.checkpoint = None

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
