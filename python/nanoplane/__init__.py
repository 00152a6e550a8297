"""nanoplane: a fast, exact, deterministic simulator of whole servers.

Write a data plane in C, describe a server, and run the data plane on it:

    from nanoplane import Description, sweep

    description = Description.from_toml("examples/encapsulation.toml")
    for outcome in sweep([description.set("data_plane.queues", n) for n in (1, 10, 100)]):
        print(outcome.result["throughput_mrps"])
"""

from nanoplane import _startup  # noqa: F401
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError
from nanoplane.outcomes import Outcome, Outcomes
from nanoplane.store import Store
from nanoplane.sweep import Run, sweep

__all__ = [
    "Description",
    "DescriptionError",
    "Failure",
    "Interrupted",
    "NanoplaneError",
    "Outcome",
    "Outcomes",
    "Run",
    "Store",
    "__version__",
    "sweep",
]


def __getattr__(name: str) -> str:
    """Return the version; finding it takes 10 ms, so it is not done at import."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nanoplane")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
