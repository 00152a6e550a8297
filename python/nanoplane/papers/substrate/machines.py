"""The calibrated presets, and the publications about the real machine among them."""

from collections.abc import Mapping
from typing import Any

from nanoplane import simulator
from nanoplane.description import Description
from nanoplane.sweep import Run

SKYLAKE = "skylake-sp"
PRESETS = {
    SKYLAKE: "Skylake-SP",
    "spin-to-win-table1": "the study of spinning, Table 1",
    "hyperplane-table1": "HyperPlane, Table I",
    "rpcvalet-table1": "RPCValet, Table 1",
    "nanopu-prototype": "nanoPU's prototype",
    "cargo-table5": "CARGO, Table 5",
}
STUDY_OF_SPINNING = "spin-to-win-table1"
OPTIONAL_QUICK = {"preset": (STUDY_OF_SPINNING,)}
"""It has Skylake-SP's cores, caches and memory, so that `--quick` leaves it out."""
NO_PAGES, SMALL, LARGE, HUGE = "", "4KB", "2MB", "1GB"
PAGES = {
    NO_PAGES: "no translation",
    SMALL: "pages of 4 KB",
    LARGE: "pages of 2 MB",
    HUGE: "pages of 1 GB",
}
"""How a preset maps memory: not at all, or in pages of one size."""
PAGE_SIZES = dict.fromkeys((SKYLAKE, STUDY_OF_SPINNING), (SMALL, LARGE, HUGE))
"""Page sizes of the presets that translate addresses. Both have the same cores, caches and
memory."""
ANANDTECH = (
    "De Gelas and Cutress, \"Sizing Up Servers: Intel's Skylake-SP Xeon versus AMD's EPYC 7000\", "
    "AnandTech, July 2017"
)
"""A Xeon Platinum 8176: 28 cores of the same kind, 38.5 MB of last-level cache."""
ROME = (
    'De Gelas, "AMD Rome Second Generation EPYC Review", AnandTech, August 2019: a Xeon Platinum '
    "8280, of the next generation with the same caches"
)
GENIUS = (
    "Intel's Memory Latency Checker 3.10 on two Xeon Gold 6140 with 192 GiB, KU Leuven's cluster "
    "Genius: skylake_mlc.txt of https://github.com/hpcleuven/VscDocumentation"
)
"""Each processor has 18 cores of the same kind."""
OPTANE_STUDY = (
    'Yang et al., "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory", FAST '
    "2020: graphs/05-bandwidth_accesssize_dram.csv of https://github.com/NVSL/OptaneStudy"
)
"""A Xeon Platinum 8260 of the next generation: 24 cores, 33 MB of last-level cache, six channels of
DDR4-2666 with two ranks each, no prefetching."""
LATENCY_CHECKER = "Intel's Memory Latency Checker on Skylake-SP: https://github.com/gjbex/Code-optimization/pull/13"


def largest_cache_bytes(preset: str) -> int:
    """Return the size of the last level, or of the caches in front of memory if they are larger.

    Each of its lines has been used before a measurement begins.
    """
    fabric = simulator.presets()[preset]["server"]["fabric"]
    mesh, memory = fabric["mesh"], fabric["memory"]
    in_front = memory["cache"]["size_bytes"] * memory["controllers"] if memory["cache"] else 0
    banks = mesh["columns"] * mesh["rows"]
    return int(max(banks * fabric["last_level"]["size_bytes_per_bank"], in_front))


def run(
    preset: str,
    program: str,
    parameters: Mapping[str, float],
    *,
    requests: int,
    warmup: int,
    cores: int = 1,
    memory_mib: int,
    page: str = NO_PAGES,
) -> Run:
    """Return the run of a calibration program that always has requests, one queue for each core.

    `page` is the size of the pages that map memory; without it the preset decides.
    """
    server: dict[str, Any] = {
        "preset": preset,
        "data_plane_cores": cores,
        "data_plane_threads": 1,
        "memory_mib": memory_mib,
    }
    if page:
        server["core"] = {"translation": {"page": page}}
    return Run(
        Description.from_dict(
            {
                "server": server,
                "data_plane": {
                    "program": program,
                    "notify": "spin",
                    "queues": cores,
                    "parameters": {name: float(value) for name, value in parameters.items()},
                },
                # More than the throughput of any of them.
                "traffic": {"load": "saturate", "saturation_rate_mrps": 0.5 * cores},
                "measure": {"requests": requests, "warmup": warmup, "seed": 1},
            },
            source=f"{program} on {preset}",
        )
    )


def interval(result: Mapping[str, Any], key: str, unit: float) -> tuple[float, float] | None:
    """Return an interval of a result in another unit, if there is one."""
    found = result.get(key)
    return None if found is None else (unit * found[0], unit * found[1])
