"""Make a release: write its version and date, test everything, build it, commit and tag it.

`make release VERSION=0.2.0`. Nothing leaves this machine: pushing the tag and uploading what is in
out/dist are the last steps, by hand.
"""

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def bumped(name: str, text: str, old: str, new: str, day: str) -> str:
    """Return a file's text with the new version; `name` is the file's in the repository."""
    found, put = {
        "Cargo.toml": (f'version = "{old}"\n', f'version = "{new}"\n'),
        "CITATION.cff": (f"version: {old}\n", f"version: {new}\ndate-released: {day}\n"),
        "CHANGELOG.md": ("## Unreleased\n", f"## Unreleased\n\n## {new} - {day}\n"),
        "release/wheel/data/share/man/man1/nanoplane.1": (
            f'"nanoplane {old}"',
            f'"nanoplane {new}"',
        ),
    }[name]
    text = re.sub(r"^date-released: .*\n", "", text, flags=re.MULTILINE)
    if text.count(found) != 1:
        raise SystemExit(f"{name}: there is not exactly one {found.strip()!r} in it")
    return text.replace(found, put)


def order(version: str) -> tuple[int, ...]:
    """Return a version's numbers, which versions are ordered by."""
    if re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version) is None:
        raise SystemExit(f"{version!r} is not a version such as 0.2.0: make release VERSION=0.2.0")
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Make the release."""
    new = "".join(sys.argv[1:2])
    match = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert match is not None
    old = match[1]
    if order(new) <= order(old):
        raise SystemExit(f"{new} is not newer than {old}")
    if _output("git", "status", "--porcelain"):
        raise SystemExit("there are changes that are not committed")
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name in (
        "Cargo.toml",
        "CITATION.cff",
        "CHANGELOG.md",
        "release/wheel/data/share/man/man1/nanoplane.1",
    ):
        path = ROOT / name
        path.write_text(bumped(name, path.read_text(), old, new, day))
    for manifest in ("Cargo.toml", "fuzz/Cargo.toml"):
        _run("cargo", "update", "--workspace", "--offline", "--manifest-path", manifest)
    _run("make", "lint", "test-all", "dist")
    _run("git", "commit", "--all", "--message", f"Release {new}")
    _run("git", "tag", "--annotate", f"v{new}", "--message", f"nanoplane {new}")
    print(f"tagged: v{new}; push it, and upload what is in out/dist")


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
