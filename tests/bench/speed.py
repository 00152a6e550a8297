"""How fast the simulator is: `make bench`, and `make bench BASE=v0.1.0` beside another revision.

Each row is a process of its own, so that its memory can be told. Speeds are by the processor time
of the compiled simulator, and of several processes that of the middle one: on a host with other
work single ones differ by a third. Instructions that were
skipped because a core provably only spun count as simulated; how many were executed is shown
beside, so that neither hides the other. A functional run has no core: it simulates no times and
skips nothing. `main_job.py` does the same for all runs of the first figure.

Beside another revision each row runs with both in turn, and the ratio of their processor times is
shown: what the host does besides changes the speeds, and hardly the ratio.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanoplane import cli, simulator

HERE = Path(__file__).resolve().parent
# How often each row is measured.
RUNS = 7
# Where a row writes down its processor time, in a directory of its own.
SECONDS = Path("seconds")

DATA_PLANE = """
server.preset = "hyperplane-table1"
data_plane = {{ program = "packet-encapsulation", notify = "{notify}", queues = {queues} }}
traffic = {{ shape = "single-queue", {load} }}
measure.requests = {requests}
"""

RACK = """
rack.switch = {{ trimming = true }}
rack.servers = [{servers}]
rack.clients = [{{ servers = ["busy"], load.offer = {{ mode = "open", rate_mrps = 4.0 }} }}]
measure.requests = 50000
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing to measure."""

    name: str
    core: str
    cores: int
    arguments: tuple[str, ...]
    description: str = ""


def _exec(name: str, core: str, cores: int, program: str, *settings: str) -> Row:
    arguments = ("exec", str(HERE / program), *settings, "--stats", "stats.json")
    return Row(name, core, cores, arguments)


def _run(name: str, notify: str, queues: int, load: str, requests: int) -> Row:
    text = DATA_PLANE.format(notify=notify, queues=queues, load=load, requests=requests)
    return Row(name, "out-of-order", 1, ("run", "run.toml", "--fresh", "--json"), text)


def _store(name: str, notify: str, *settings: str) -> Row:
    """Return the store of `examples/key-value.toml` with fewer keys; 16 cores serve it."""
    text = (HERE.parents[1] / "examples" / "key-value.toml").read_text()
    changes = (
        "server.preset=rpcvalet-table1",
        f"data_plane.notify={notify}",
        "traffic.operations.keys=100000",
        "measure.requests=20000",
        *settings,
    )
    options = tuple(part for change in changes for part in ("--set", change))
    return Row(name, "out-of-order", 16, ("run", "run.toml", "--fresh", "--json", *options), text)


def _rack(name: str, idle: int) -> Row:
    """Return servers of four cores with two busy ones, and so many that wait for messages."""
    program = HERE.parents[1] / "guest" / "programs" / "nanopu" / "loopback.c"
    machine = f'program = "{program}", serves = true, interface = "nanopu"'
    machine += ', server.preset = "nanopu-prototype"'
    counts = {"busy": 2, "idle": idle}
    servers = ", ".join(
        f'{{ name = "{which}", count = {count}, {machine} }}'
        for which, count in counts.items()
        if count
    )
    arguments = ("run", "run.toml", "--fresh", "--json")
    return Row(name, "in-order", 4 * (2 + idle), arguments, RACK.format(servers=servers))


# A five-stage core: `pipeline::CoreSpec::five_stage`.
FIVE_STAGE = [
    "model=in-order",
    "width=1",
    "rob_entries=16",
    "load_queue_entries=8",
    "store_queue_entries=4",
    "front_end_cycles=2",
    "units.integer.ports=1",
    "units.load.ports=1",
    "l1_data.hit_latency_cycles=2",
    "l1_data.mshrs=2",
    "l1_instruction.hit_latency_cycles=1",
    "l1_instruction.mshrs=1",
]
ONE_CORE = ("--set", "server.fabric.cores=1")
IN_ORDER = tuple(part for key in FIVE_STAGE for part in ("--set", f"server.core.{key}"))

ROWS = [
    _exec("integer code", "out-of-order", 1, "integer.c", *ONE_CORE),
    _exec("integer code", "in-order", 1, "integer.c", *ONE_CORE, *IN_ORDER),
    _exec("integer code", "functional", 1, "integer-long.c", *ONE_CORE, "--functional"),
    _exec("sharing data", "out-of-order", 16, "sharing.c"),
    # 1 % of what is served at most: 3.5 and 0.57 million requests a second (the first figure).
    _run("spinning over 20 queues, load 1 %", "spin", 20, "rate_mrps = 0.035", 1000),
    _run("spinning over 1000 queues, load 1 %", "spin", 1000, "rate_mrps = 0.0057", 100),
    _run("spinning over 1000 queues, saturated", "spin", 1000, 'load = "saturate"', 2000),
    _run("HyperPlane, 1000 queues, saturated", "hyperplane", 1000, 'load = "saturate"', 20_000),
    _store("key-value store, RPCValet", "rpcvalet", "data_plane.queues=200"),
    _store("key-value store, QWAIT", "hyperplane", "data_plane.organisation=scale-up"),
    _rack("two busy servers of nanoPU", 0),
    _rack("the same among 79 that wait", 79),
]


def _clocked(function: Callable[..., str]) -> Callable[..., str]:
    """Return the function, which then writes down how much processor time it has taken."""

    def call(*arguments: Any) -> str:
        begin = time.process_time()
        result = function(*arguments)
        SECONDS.write_text(str(time.process_time() - begin))
        return result

    return call


def run_row() -> None:
    """Do what the command line says, as `nanoplane` would."""
    module = simulator._module()
    for name in ("run", "execute", "execute_functionally"):
        setattr(module, name, _clocked(getattr(module, name)))
    cli.main()


def measure(row: Row, package: Path | None = None) -> tuple[dict[str, Any], float, float]:
    """Return the row's result, its processor time in seconds, and the most memory, in MiB.

    `package` is the directory of another revision's package.
    """
    SECONDS.unlink(missing_ok=True)
    if row.description:
        Path("run.toml").write_text(row.description)
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    process = subprocess.Popen(
        [sys.executable, __file__, *row.arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{row.name} failed")
    result = json.loads(output if row.description else Path("stats.json").read_text())
    return result, float(SECONDS.read_text()), usage.ru_maxrss / 1024


def build(revision: str) -> Path:
    """Build another revision in `target/bench`, unless it is there, and return its package."""
    root = HERE.parents[1]
    tools = Path(sys.executable).parent

    def shell(*command: str | Path, of: Path = root) -> None:
        subprocess.run(command, check=True, cwd=of)

    named = ["git", "rev-parse", "--short", f"{revision}^{{commit}}"]
    commit = subprocess.check_output(named, cwd=root, text=True).strip()
    directory = root / "target" / "bench" / commit
    package = directory / "package"
    if package.exists():
        return package
    source, wheels = directory / "source", directory / "wheels"
    # Both revisions share what is built of others' crates.
    target = ("--target-dir", root / "target" / "bench" / "target")
    shell("git", "worktree", "add", "--force", "--detach", source, commit)
    try:
        shell(tools / "maturin", "build", "--release", *target, "--out", wheels, of=source)
        (wheel,) = wheels.glob("*.whl")
        shell(tools / "pip", "install", "--quiet", "--no-deps", "--target", package, wheel)
    finally:
        shell("git", "worktree", "remove", "--force", source)
    return package


def main() -> None:
    """Measure every row and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="REVISION", help="a revision to compare with")
    revision = parser.parse_args().beside
    base = build(revision) if revision else None
    titles = ["MIPS", "executed MIPS", "ns/instruction", "MiB"]
    if revision:
        titles.append(f"by {revision}")
    print(f"{'work':38}{'core':14}{'cores':>6}" + "".join(f"{title:>15}" for title in titles))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["NANOPLANE_STORE"] = str(Path(directory) / "store")
        os.chdir(directory)
        for row in ROWS:
            runs, base_seconds = [], []
            for _ in range(RUNS):
                runs.append(measure(row))
                if base is not None:
                    base_seconds.append(measure(row, base)[1])
            result, seconds, memory_mib = sorted(runs, key=lambda run: run[1])[RUNS // 2]
            servers = result.get("servers", [result])
            cores = [core for server in servers for core in server["cores"]]
            # A functional run, which has no time, skips none.
            skipped = sum(
                core["instructions"] * cycles / core["cycles"]
                for core, cycles in zip(cores, result.get("host_skipped_cycles", ()), strict=False)
            )
            mips = result["instructions"] / seconds / 1e6
            executed = mips * (1 - skipped / result["instructions"])
            print(
                f"{row.name:38}{row.core:14}{row.cores:6}{mips:15.1f}{executed:15.1f}"
                f"{1000 / mips:15.2f}{memory_mib:15.0f}"
                + (f"{sorted(base_seconds)[RUNS // 2] / seconds:15.2f}" if base_seconds else "")
            )


if __name__ == "__main__":
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        run_row()
    else:
        main()
