"""What `nanoplane new` begins with, and how it is put into a checkout of the sources."""

import re
from pathlib import Path

from nanoplane.errors import DescriptionError

MECHANISM = Path(__file__).with_name("mechanism")
"""A mechanism of notification in Rust that works: a crate, and the programs' side of it."""
_SYSTEMS = "crates/server/src/registry.rs"
_DEPENDENCIES = "crates/server/Cargo.toml"
_CODES = "guest/include/io_notify.h"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_REGISTERS_START, _REGISTERS_BYTES = 0x1200_0000, 0x2000
"""Where the template's registers are; those of later mechanisms follow, by their codes."""
_KEYWORD = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|do|dyn|else|enum|extern|false|"
    "final|fn|for|gen|if|impl|in|let|loop|macro|match|mod|move|mut|override|priv|pub|ref|return|"
    "self|static|struct|super|trait|true|try|type|typeof|unsafe|unsized|use|virtual|where|while|"
    "yield"
)
"""Rust's, which no crate can be called."""


def new_mechanism(name: str, checkout: Path) -> list[Path]:
    """Put a mechanism called `name` into a checkout of the sources, and return what was written.

    It works as it is: a device with a list of ready queues. Raises a DescriptionError, and writes
    nothing, if it cannot be put there.
    """
    if not _NAME.fullmatch(name) or _KEYWORD.fullmatch(name):
        raise DescriptionError(
            f"{name}: a mechanism is called by small letters and digits, with hyphens between, as "
            'in "ready-list"; the name is also that of a Rust crate'
        )
    crate = name.replace("-", "_")
    registry, dependencies, codes = (
        _read(checkout, file) for file in (_SYSTEMS, _DEPENDENCIES, _CODES)
    )
    known = re.findall(r"IO_NOTIFY_([A-Z0-9_]+) = (\d+)", codes)
    used = [int(code) for _, code in known] + _codes_of_crates(checkout)
    written = {
        checkout / "crates" / crate / file.relative_to(MECHANISM / "crate"): file
        for file in sorted((MECHANISM / "crate").rglob("*"))
        if file.is_file()
    }
    written[checkout / f"guest/include/notify/more/{name}.h"] = MECHANISM / "notify.h"
    taken = {other.lower() for other, _ in known} | set(re.findall(r"^    (\w+): ", registry, re.M))
    if crate in taken or any(path.exists() for path in written):
        raise DescriptionError(f"{name}: there is a system, a mechanism or a file of this name")
    # All texts before the first is written.
    text = "    /// A device with a list of the queues that have items.\n"
    entry = f"{crate}: {crate}::{_camel(name)}Spec = {crate}::KIND,"
    texts = {
        checkout / _SYSTEMS: _before(registry, "}\n", f"{text}    {entry}\n", "systems! {\n"),
        checkout / _DEPENDENCIES: _before(
            dependencies, "\n", f'{crate} = {{ path = "../{crate}" }}\n', "# Systems: "
        ),
    }
    code = max(used) + 1
    texts |= {path: _named(file.read_text(), name, code) for path, file in written.items()}
    try:
        for path, content in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise DescriptionError(f"{error.filename}: cannot be written: {error.strerror}") from None
    return list(texts)


def _read(checkout: Path, file: str) -> str:
    try:
        return (checkout / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DescriptionError(
            f"{checkout}: is no checkout of nanoplane's sources: {file} cannot be read there"
        ) from None


def _codes_of_crates(checkout: Path) -> list[int]:
    """Return the codes of mechanisms that `make docs` may not have written into the header yet."""
    sources = (checkout / "crates").glob("*/src/system.rs")
    found = (
        re.findall(r'Mechanism::new\(\s*"[a-z0-9-]+",\s*(\d+),', source.read_text())
        for source in sources
    )
    return [int(code) for codes in found for code in codes]


def _before(text: str, end: str, entry: str, begin: str) -> str:
    """Return a text with an entry before the first line `end` behind the line of `begin`."""
    at = text.index(f"\n{end}", text.index(begin)) + 1
    return text[:at] + entry + text[at:]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _named(text: str, name: str, code: int) -> str:
    """Return a file of the template under another name, with a code and an address of its own."""
    start = f"{_REGISTERS_START + code * _REGISTERS_BYTES:08x}"
    for old, new in (
        ("ready-list", name),
        ("ready_list", name.replace("-", "_")),
        ("READY_LIST", name.replace("-", "_").upper()),
        ("ReadyList", _camel(name)),
        ("0x1200_0000", f"0x{start[:4]}_{start[4:]}"),
    ):
        text = text.replace(old, new)
    return text.replace(f'"{name}",\n            0,', f'"{name}",\n            {code},')
