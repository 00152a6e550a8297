"""C of nanoPU's programs, compiled for this host by the compiler that guests have."""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "guest" / "programs" / "nanopu"

_SCRATCH = tempfile.TemporaryDirectory(prefix="nanopu-")
SCRATCH = Path(_SCRATCH.name)
"""For what is compiled; it goes when Python ends."""


def compile_for_this_host(output: str, *arguments: str | Path) -> Path:
    """Compile with tests/nanopu in front of guest/include; undefined behaviour ends a program."""
    command = [sys.executable, "-m", "ziglang", "cc", "-std=gnu11", "-O1", "-Wall", "-Wextra"]
    command += ["-Werror", "-fsanitize=undefined", "-fsanitize-trap=undefined"]
    command += [f"-I{ROOT / 'tests' / 'nanopu'}", f"-I{ROOT / 'guest' / 'include'}"]
    command += [*map(str, arguments), "-o", str(SCRATCH / output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return SCRATCH / output
