"""The speed of the simulator on the main job: `make bench`, second part.

Every run of the first figure (see the Makefile) in full, one after the other on one core of the
host. The goal is 15 million simulated instructions a second for the whole job, in less than 1 GiB.
Periods of spinning that the simulator proves to repeat are skipped, not executed; both speeds are
shown, so that neither hides the other.
"""

import resource
import tempfile

from nanoplane import figures
from nanoplane.store import Store
from nanoplane.sweep import sweep

CHOICES = (
    "task=packet-encapsulation",
    "notify=spin,hyperplane",
    "shape=single-queue,fully-balanced",
    "power=regular",
)


def main() -> None:
    """Run the main job and print what each of its runs took."""
    listed = [figures.find(name) for name in ("hyperplane.8", "hyperplane.9")]
    runs = figures.chosen(listed, False, CHOICES)
    with tempfile.TemporaryDirectory() as directory:
        outcomes = sweep(runs.values(), store=Store(directory), workers=1)
    titles = ("instructions", "executed", "host_seconds", "host_mips")
    print(f"{'run':45}" + "".join(f"{title:>15}" for title in titles))
    instructions = executed = seconds = 0.0
    # With one queue, both shapes are the same run.
    distinct = {
        outcome.key: (case.name, outcome) for case, outcome in zip(runs, outcomes, strict=True)
    }
    for name, outcome in distinct.values():
        result = outcome.result
        # Of the cores that run the data plane, which are the first.
        skipped = sum(result["host_skipped_cycles"][: len(result["cores"])]) / result["cycles"]
        here = result["instructions"] * (1 - skipped)
        print(
            f"{name:45}{result['instructions']:15,}{here:15,.0f}"
            f"{result['host_seconds']:15.2f}{result['host_mips']:15.1f}"
        )
        instructions += result["instructions"]
        executed += here
        seconds += result["host_seconds"]
    print(f"main job: {instructions / seconds / 1e6:.1f} million instructions a second")
    print(f"without those skipped: {executed / seconds / 1e6:.1f}")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
