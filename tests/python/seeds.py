"""Random numbers for tests: others with another `NANOPLANE_TEST_SEED` (docs/fuzzing.md)."""

import os
from random import Random

SEED = int(os.environ.get("NANOPLANE_TEST_SEED", "0"))


def generator(name: object) -> Random:
    """Return a generator of its own for each name.

    A test whose limits only hold for most seeds takes `Random` with a number instead.
    """
    return Random(f"{SEED} {name}")
