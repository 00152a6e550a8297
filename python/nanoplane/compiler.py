"""Guests: finding them, and compiling C for the simulated server.

The compiler is Zig's C compiler, which the package `ziglang` contains, or otherwise
`riscv64-unknown-elf-gcc`. guest/README.md explains each flag. Zig caches its output under a hash of
all inputs, including headers, so there is no second cache here.
"""

import contextlib
import difflib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nanoplane import scratch
from nanoplane.errors import DescriptionError, Failure, ProgramError

GUEST = Path(__file__).parent / "guest"
"""The guest tree: in a checkout a link to guest/, in a wheel a copy of it."""

_FLAGS = [
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fomit-frame-pointer",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-pie",
]
_GCC = ["riscv64-unknown-elf-gcc", "-march=rv64gc"]
_ZIG = [
    "cc",
    *("-target", "riscv64-freestanding-none"),
    "-mcpu=generic_rv64+m+a+f+d+c+zicsr+zifencei",
    "-fno-sanitize=undefined",
]
_INTERFACE = {"-march=": "-march=rv64imac_zifencei", "-mcpu=": "-mcpu=generic_rv64+m+a+c+zifencei"}
"""The instruction set of a network interface's cores, instead of that of the server's harts."""
_INCLUDES = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_RESERVES = re.compile(rb"^#define \w+_RESERVED_REGISTERS ([x\d, ]+)$", re.MULTILINE)
"""The definition by which a header reserves registers for hardware: `x30, x31`."""


@functools.cache
def programs() -> tuple[str, ...]:
    """Return the names of the built-in programs."""
    return tuple(sorted(path.stem for path in (GUEST / "programs").glob("*.c")))


@functools.cache
def rack_programs() -> tuple[str, ...]:
    """Return the names of the built-in programs of racks: `nanopu/mica`, `traditional/mica`.

    The directory names the network interface that they are for.
    """
    paths = (GUEST / "programs").glob("*/*.c")
    return tuple(sorted(f"{path.parent.name}/{path.stem}" for path in paths))


@functools.cache
def co_runners() -> tuple[str, ...]:
    """Return the names of the built-in co-runners."""
    return tuple(sorted(path.stem for path in (GUEST / "co-runners").glob("*.c")))


@functools.cache
def firmware() -> tuple[str, ...]:
    """Return the names of the built-in firmware of programmable network interfaces."""
    return tuple(sorted(path.stem for path in (GUEST / "firmware").glob("*.c")))


def about(program: str) -> str:
    """Return the description of a built-in program: the first sentence of its first comment."""
    files = (GUEST / kind / f"{program}.c" for kind in ("programs", "co-runners", "firmware"))
    text = next(filter(is_file, files)).read_text(encoding="utf-8")
    comment = " ".join(line.removeprefix(" *").strip() for line in text.splitlines()[1:])
    return comment.split(". ")[0] + "."


def is_path(name: str) -> bool:
    """Whether a program is named by its path; otherwise it is the name of a built-in one."""
    return ("/" in name and name not in rack_programs()) or name.endswith((".c", ".elf"))


def find_program(name: str, directory: Path, what: str) -> Path:
    """Find a program: a built-in one by its name, any other by its path, relative to `directory`.

    `what` begins the error message.
    """
    if not is_path(name):
        known = programs() + rack_programs()
        if name in known:
            return GUEST / "programs" / f"{name}.c"
        near = difflib.get_close_matches(name, known, 1, 0.6)
        meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(programs())}"
        raise DescriptionError(
            f'{what} is "{name}", which is no built-in program and no path to .c or .elf; {meant}'
        )
    path = directory / name
    if not is_file(path):
        why = "this is a directory, not a file" if is_directory(path) else "there is no such file"
        at = "" if str(path) == name else f"{path}: "
        raise DescriptionError(f'{what} is "{name}"; {at}{why}')
    return path


def is_file(path: Path) -> bool:
    """Say whether there is a file; False also for names that are too long."""
    with contextlib.suppress(OSError):
        return path.is_file()
    return False


def is_directory(path: Path) -> bool:
    """Say whether there is a directory; False also for names that are too long."""
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def find_co_runner(name: str, directory: Path, what: str) -> Path:
    """Find a co-runner as :func:`find_program` finds a program; it is always C."""
    if name in co_runners():
        return GUEST / "co-runners" / f"{name}.c"
    path = directory / name
    if is_path(name) and path.suffix == ".c" and is_file(path):
        return path
    raise DescriptionError(
        f'{what} is "{name}"; it must be one of {", ".join(co_runners())}, or the path of a '
        ".c file that is there"
    )


def find_firmware(name: str, directory: Path, what: str) -> Path:
    """Find firmware as :func:`find_program` finds a program."""
    if name in firmware():
        return GUEST / "firmware" / f"{name}.c"
    path = directory / name
    if is_path(name) and is_file(path):
        return path
    raise DescriptionError(
        f'{what} is "{name}"; it must be one of {", ".join(firmware())}, or the path of a .c or '
        ".elf file that is there"
    )


def mechanism(notify: str) -> str | None:
    """Return the header of a notification mechanism in notify/more, which must be compiled in."""
    header = f"notify/more/{notify}.h"
    return header if (GUEST / "include" / header).is_file() else None


def elf(
    program: Path | None,
    co_runner: Path | None = None,
    mechanism: str | None = None,
    *,
    has_sources: bool = False,
    debug: bool = False,
) -> bytes:
    """Return a program's ELF file, compiling it if it is C; `debug`: with line numbers.

    `co_runner` and the header `mechanism` are compiled into it and, with `has_sources`, the program
    of cores that are the sources of the traffic. Without a program, the result is empty.
    """
    if program is None:
        return b""
    if program.suffix == ".c":
        return build(program, co_runner, mechanism, has_sources=has_sources, debug=debug)
    if has_sources:
        raise DescriptionError(
            f"{program}: sources on cores are compiled together with the data plane, and this is "
            'an ELF file already; give the program as C, or take traffic.sources = "device"'
        )
    if co_runner is not None:
        raise DescriptionError(
            f"{program}: a co-runner is compiled together with the data plane, and this is an ELF "
            "file already; give the program as C, or leave out data_plane.co_runner"
        )
    return _read(program)


def pack(elves: list[bytes]) -> bytes:
    """Concatenate several ELF files, each after its length in bytes."""
    return b"".join(len(one).to_bytes(8, "little") + one for one in elves)


def unpack(packed: bytes) -> list[bytes]:
    """Split the concatenation that :func:`pack` made; a plain ELF file is a single entry."""
    if packed.startswith(b"\x7fELF"):
        return [packed]
    elves = []
    while packed:
        end = 8 + int.from_bytes(packed[:8], "little")
        elves.append(packed[8:end])
        packed = packed[end:]
    return elves


def build(
    source: Path,
    co_runner: Path | None = None,
    mechanism: str | None = None,
    *,
    has_sources: bool = False,
    debug: bool = False,
) -> bytes:
    """Compile a C file against guest/include and the runtime; return the ELF file.

    `co_runner` is a second C file for the same ELF file, and `mechanism` a header of guest/include;
    `has_sources` adds the program of cores that are the sources of the traffic. `debug` adds debug
    information, which contains paths of this host and changes no instruction.
    """
    headers = [] if mechanism is None else [GUEST / "include" / mechanism]
    registers = _reserved_registers(source, *headers)
    command = _reserve(registers, _compiler()) if registers else _compiler()
    more = [] if mechanism is None else [f"-DDATA_PLANE_NOTIFY=<{mechanism}>"]
    runtime = GUEST.resolve() / "runtime"
    sources = [*sorted(runtime.glob("*.S")), *sorted(runtime.glob("*.c")), source]
    if co_runner is not None:
        sources.append(co_runner)
    if has_sources:
        sources.append(GUEST.resolve() / "sources" / "source-cores.c")
        if co_runner is not None:
            more.append("-DSOURCES_WITH_CO_RUNNER")
    return _compiled([*command, *_FLAGS, *more], source, sources, runtime / "guest.ld", debug=debug)


def firmware_elf(source: Path) -> bytes:
    """Return the ELF file of firmware of a network interface, compiling it if it is C."""
    return build_firmware(source) if source.suffix == ".c" else _read(source)


def build_firmware(source: Path) -> bytes:
    """Compile a C file for the cores of a network interface; return the ELF file."""
    _read(source)
    command = [
        next((new for old, new in _INTERFACE.items() if part.startswith(old)), part)
        for part in _compiler()
    ]
    runtime = GUEST.resolve() / "firmware" / "runtime"
    sources = [runtime / "start.S", GUEST.resolve() / "runtime" / "string.c", source]
    script = runtime / "firmware.ld"
    flags = [*_FLAGS, "-mabi=lp64", "-ffunction-sections", "-Wl,--gc-sections"]
    return _compiled([*command, *flags], source, sources, script, debug=False)


def _compiled(
    command: list[str], source: Path, sources: list[Path], script: Path, *, debug: bool
) -> bytes:
    """Compile `sources`, including the user's `source`, and link them with a linker script."""
    if source.suffix != ".c":
        raise DescriptionError(f"{source}: the name of a C program must end in .c")
    with scratch.directory(Path(tempfile.gettempdir()), "nanoplane-") as room:
        output = room / "guest.elf"
        done = subprocess.run(
            [
                *command,
                "-g" if debug else "-g0",
                f"-I{(GUEST / 'include').resolve()}",
                # For a mechanism that a program names and data_plane.h includes.
                f"-iquote{source.parent.absolute()}",
                f"-Wl,-T,{script}",
                *(str(one.absolute()) for one in sources),
                "-o",
                str(output),
            ],
            capture_output=True,
            text=True,
            cwd=room,
            env=_environment(),
            check=False,
        )
        if done.returncode != 0:
            raise ProgramError(_why_not_compiled(source, done.stderr.strip()))
        if done.stderr.strip():
            print(done.stderr.strip(), file=sys.stderr)
        return output.read_bytes()


def _why_not_compiled(source: Path, errors: str) -> str:
    """Return the message for a program that does not compile or link, with the compiler's errors.

    A program that lacks what the runtime calls gets a sentence: the linker only names a symbol and
    an object file.
    """
    # Only if nothing else is wrong: without an error of the compiler, the linker has one.
    if not re.search(r"\.[chS]:\d+:\d+: (fatal )?error:", errors):
        if re.search(r"undefined (symbol: |reference to [`'])process\b", errors):
            return (
                f"{source} does not define process(), which a data plane calls for each item: "
                "static inline void process(uint64_t queue, const struct io_slot *in, struct "
                "io_slot *out)"
            )
        if re.search(r"undefined (symbol: |reference to [`'])main\b", errors):
            return (
                f"{source} does not define main(); that of a data plane is "
                "int main(void) { return data_plane(); }"
            )
    return f"{source} does not compile:\n{errors}"


def _reserved_registers(*sources: Path) -> list[str]:
    """Return the registers that hardware reserves, from the headers that a program includes."""
    # Reading first gives a proper error message if there is no file.
    texts = {source: _read(source) for source in sources}
    waiting = list(sources)
    while waiting:
        path = waiting.pop()
        for name in (one.decode(errors="replace") for one in _INCLUDES.findall(texts[path])):
            for header in (path.parent / name, GUEST / "include" / name):
                if header not in texts and header.is_file():
                    texts[header] = _read(header)
                    waiting.append(header)
    found = (one.decode() for text in texts.values() for one in _RESERVES.findall(text))
    return sorted({register for listed in found for register in listed.split(", ")})


def _reserve(registers: list[str], command: list[str]) -> list[str]:
    """Return a compiler command that leaves registers free, with their headers' definitions."""
    if command == _GCC:
        command = [*command, *(f"-ffixed-{register}" for register in registers)]
    else:  # Zig ignores -ffixed.
        without = "".join(f"+reserve_{register}" for register in registers)
        command = [part + without if part.startswith("-mcpu=") else part for part in command]
    return [*command, "-DREGISTERS_RESERVED"]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DescriptionError(f"{path}: there is no such file") from None
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from None


@functools.cache
def _environment() -> dict[str, str]:
    """Return the environment, with a cache directory for Zig that is writable even without a home.

    The cache's contents become part of guests and are executed by the compiler.
    """
    if "ZIG_GLOBAL_CACHE_DIR" in os.environ:
        return dict(os.environ)
    return {"ZIG_GLOBAL_CACHE_DIR": str(scratch.cache("zig")), **os.environ}


@functools.cache
def _compiler() -> list[str]:
    package = importlib.util.find_spec("ziglang")
    if package is not None and package.origin is not None:
        # Not `python -m ziglang`, which would start Python only to execute this.
        return [str(Path(package.origin).with_name("zig")), *_ZIG]
    if shutil.which(_GCC[0]) is not None:
        return _GCC
    raise Failure(
        "no C compiler for RISC-V was found, and every program, a built-in one too, is compiled; "
        f'`{sys.executable} -m pip install "nanoplane[compiler]"` installs one (400 MB). '
        "Debian's gcc-riscv64-unknown-elf is another; its instructions differ, and so do results"
    )
