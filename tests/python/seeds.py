"""Random numbers for tests: others with another `NANOPLANE_TEST_SEED` (docs/fuzzing.md)."""

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

SEED = int(os.environ.get("NANOPLANE_TEST_SEED", "0"))


def generator(name: object) -> Random:
    """Return a generator of its own for each name.

    A test whose limits only hold for most seeds takes `Random` with a number instead.
    """
    return Random(f"{SEED} {name}")


def two_thirds(name: object, cases: Sequence[T]) -> set[T]:
    """Return two thirds of the cases, at most: others with each seed."""
    return set(generator(name).sample(cases, len(cases) * 2 // 3))
