"""One module a paper: its figures and its claims."""

import importlib
from types import ModuleType

NAMES = ("hyperplane", "rpcvalet", "nanopu", "compare", "substrate", "stores")
"""The papers, in the order in which figures and claims are listed."""


def modules() -> dict[str, ModuleType]:
    """Return the module of each paper, with its `FIGURES` and `CLAIMS`, by its name."""
    return {name: importlib.import_module(f"{__name__}.{name}") for name in NAMES}
