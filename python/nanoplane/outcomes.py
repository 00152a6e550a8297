"""The outcomes of runs: descriptions and their results."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nanoplane.description import has_network

if TYPE_CHECKING:  # An extra, which only data frames need.
    import polars


def measurement(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the measurement: with a network, that of all clients together."""
    found: Mapping[str, Any] = result["measurement"] if "clients" in result else result
    return found


def mean_service_ns(result: Mapping[str, Any], cores: int) -> float:
    """Return the mean service time of a request on a core, from the saturated throughput."""
    return 1000 * cores / float(measurement(result)["throughput_mrps"])


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One run and its result."""

    description: dict[str, Any]
    """The resolved description: every key with its value."""
    key: str
    """The key of the result in the store."""
    result: Mapping[str, Any]
    """The result: docs/result-fields.md. A search for the largest load that meets a limit adds that
    load as `largest_load`, in the description's unit. `largest_load_ci95` extends from the load up
    to which the whole 95 % confidence interval of the p99 meets the limit, to that from which on
    the whole interval exceeds it. Between tried loads, the reciprocals of the interval's ends are
    interpolated linearly; if no tried load certainly exceeds the limit, they are extrapolated. The
    other fields are those of the run at the largest tried load that meets the limit; `beyond_run`
    is the load at which the p99 probably is the limit, over that load: reciprocals of the p99 are
    interpolated up to the next tried load. It is at least 1."""
    stored: bool
    """The result was in the store; nothing was run."""
    unkept: str | None = None
    """Why the store does not have the result, if it could not be stored, and where it is
    instead."""
    trials: "tuple[Outcome, ...]" = dataclasses.field(default=(), compare=False)
    """The runs of a search for the largest load, in the order in which it made them."""

    def __repr__(self) -> str:
        """Summarize it: the result has thousands of numbers."""
        from nanoplane import comparison

        measured = (
            f"{name}={found.value:.4g}"
            for name in ("throughput_mrps", "throughput", "latency_ns.p99")
            if (found := comparison.number(self.result, name)) is not None
        )
        return f"<Outcome {self.key[:8]}: {', '.join(measured)}>"


class Outcomes(list[Outcome]):
    """The outcomes of a sweep, in the order of its runs; notebooks show it as a table."""

    def to_frame(self, *fields: str) -> "polars.DataFrame":
        """Return a Polars data frame with a row for each run; its columns are Arrow's.

        The columns are the keys in which the descriptions differ, then the numbers of the results
        that `fields` names (docs/result-fields.md), such as `latency_ns.p50`, each with the ends of
        its 95 % confidence interval, and last `keeps_up`, `steady` and the key in the store.
        Without `fields` they are the offered load, the throughput, and the mean and the p99 of the
        latency. `to_frame().to_pandas()` and `to_frame().to_arrow()` convert it.
        """
        from nanoplane import frames

        names = frames.fields(self, fields)
        return frames.frame(frames.columns(self, frames.varied(self), names))

    def __repr__(self) -> str:
        """Summarize them: the results have thousands of numbers."""
        runs = "1 run" if len(self) == 1 else f"{len(self)} runs"
        return f"<{runs}, {sum(one.stored for one in self)} of them from the store>"

    def _repr_html_(self) -> str:
        from nanoplane import frames

        return frames.as_html(self)


def settled(outcome: Outcome) -> bool:
    """Say whether a longer run would have the same result.

    It does if the run is steady, and the system keeps up with its load or is saturated on purpose:
    by an open load, or by a new request for each answer.
    """
    measured = measurement(outcome.result)
    return bool(measured["steady"] and (saturates(outcome.description) or measured["keeps_up"]))


def saturates(described: Mapping[str, Any]) -> bool:
    """Say whether a system is saturated on purpose, by its resolved description."""
    if has_network(described):
        clients = described.get("rack", described)["clients"]
        return all(one["load"]["offer"]["mode"] == "closed" for one in clients)
    return bool(described.get("traffic", {}).get("load") == "saturate")
