"""Programs with musl, the C library that Zig carries as source.

Zig compiles the library when it first links a program, which takes one core half a minute. If Zig
is started in a directory that contains its installation, it compiles a library for that directory.
In all other directories it uses a common one, as the documentation's commands do in their tests.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nanoplane import compiler
from nanoplane.errors import Failure

SOURCES = Path(__file__).parents[2] / "guest" / "tests" / "linux"


def _command(name: str, *options: str, output: Path) -> list[str]:
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv64-linux-musl"]
    return [*zig, *options, str(SOURCES / f"{name}.c"), "-o", str(output)]


def compile_program(name: str, *options: str, output: Path) -> None:
    """Compile the test program `name`."""
    command = _command(name, *options, output=output)
    subprocess.run(command, cwd=output.parent, env=compiler._environment(), check=True)


@contextlib.contextmanager
def compiled_meanwhile() -> Iterator[None]:
    """Compile the library in the background; programs that are linked meanwhile wait for it.

    Tests that need it report what is wrong with the compiler.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Failure, OSError):
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            process = subprocess.Popen(
                _command("arguments", "-static", "-O2", output=Path(directory) / "program"),
                cwd=directory,
                env=compiler._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield
