"""nanoplane: a fast, exact, deterministic simulator of whole servers.

Write a data plane in C, describe a server, and run the one on the other:

    from nanoplane import Description, sweep

    description = Description.from_toml("examples/encapsulation.toml")
    for outcome in sweep([description.set("data_plane.queues", n) for n in (1, 10, 100)]):
        print(outcome.result["throughput_mrps"])
"""

from nanoplane import _startup  # noqa: F401
from nanoplane.description import Description
from nanoplane.errors import DescriptionError, Failure, Interrupted, NanoplaneError
from nanoplane.store import Store
from nanoplane.sweep import Outcome, Run, sweep

__all__ = [
    "Description",
    "DescriptionError",
    "Failure",
    "Interrupted",
    "NanoplaneError",
    "Outcome",
    "Run",
    "Store",
    "sweep",
]
