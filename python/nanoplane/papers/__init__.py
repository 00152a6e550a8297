"""One module a paper: its figures and its claims."""

import functools
import importlib
import importlib.metadata
from types import ModuleType

from nanoplane.errors import Failure

NAMES = (
    "hyperplane",
    "rpcvalet",
    "nanopu",
    "spin-to-win",
    "cargo",
    "compare",
    "substrate",
    "stores",
)
"""The papers, in the order in which figures and claims are listed."""
GROUP = "nanoplane.figures"
"""The entry points of other packages: names, and modules with `FIGURES` and `CLAIMS`."""


@functools.cache
def modules() -> dict[str, ModuleType]:
    """Return the module of each paper, with its `FIGURES` and `CLAIMS`, by its name.

    Behind the papers here are the modules of other packages, by the names of their entry points.
    """
    packages = {name: name.replace("-", "_") for name in NAMES}
    found = {name: importlib.import_module(f"{__name__}.{of}") for name, of in packages.items()}
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.name in found:
            raise Failure(
                f'two packages have figures that are called "{point.name}", one of them '
                f"{point.value}; rename its entry point of {GROUP}"
            )
        try:
            found[point.name] = point.load()
        except Exception as error:
            raise Failure(
                f"the entry point {point.name} of {GROUP} ({point.value}) cannot be loaded: {error}"
            ) from error
    return found
