"""The speed of the simulator on the main job: `make bench`.

The goal is 15 million simulated instructions a second on one host core, in less than 1 GiB.
"""

import resource

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.papers import hyperplane


def main() -> None:
    """Run each kind of the main job's runs once, one after the other."""
    print(f"{'run':45} {'instructions':>15} {'host_seconds':>13} {'host_mips':>10}")
    for shape in hyperplane.SHAPES:
        for notify in hyperplane.SYSTEMS:
            for queues in (1, 1000):
                description = Description.from_dict(
                    {
                        "server": {"preset": "hyperplane-table1"},
                        "data_plane": {"notify": notify, "queues": queues},
                        "traffic": {"shape": shape, "load": "saturate"},
                        "measure": {"requests": 20_000},
                    }
                )
                resolved = description.resolve()
                result = simulator.run(resolved.data, compiler.elf(resolved.program))
                print(
                    f"{f'{notify}, {shape}, {queues} queues':45} {result['instructions']:15,} "
                    f"{result['host_seconds']:13.2f} {result['host_mips']:10.1f}"
                )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
