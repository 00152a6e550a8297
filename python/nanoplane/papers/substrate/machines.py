"""The presets that are calibrated, and what is published of the real machine among them."""

from collections.abc import Mapping
from typing import Any

from nanoplane.description import Description
from nanoplane.sweep import Run

SKYLAKE = "skylake-sp"
PRESETS = {
    SKYLAKE: "Skylake-SP",
    "hyperplane-table1": "HyperPlane, Table I",
    "rpcvalet-table1": "RPCValet, Table 1",
    "nanopu-prototype": "nanoPU's prototype",
}
ANANDTECH = (
    "De Gelas and Cutress, \"Sizing Up Servers: Intel's Skylake-SP Xeon versus AMD's EPYC 7000\", "
    "AnandTech, July 2017"
)
"""A Xeon Platinum 8176: 28 cores of the same kind, 38.5 MB of last-level cache."""


def run(
    preset: str,
    program: str,
    parameters: Mapping[str, float],
    *,
    requests: int,
    warmup: int,
    cores: int = 1,
    memory_mib: int,
) -> Run:
    """Return the run of a calibration program that always has requests, one queue to a core."""
    return Run(
        Description.from_dict(
            {
                "server": {"preset": preset, "data_plane_cores": cores, "memory_mib": memory_mib},
                "data_plane": {
                    "program": program,
                    "notify": "spin",
                    "queues": cores,
                    "parameters": {name: float(value) for name, value in parameters.items()},
                },
                # More than any of them takes.
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
