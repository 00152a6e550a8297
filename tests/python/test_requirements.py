"""The lock file of the Python packages agrees with pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_required_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = set(re.findall(r"^([\w.-]+==[\w.]+)", LOCK, re.MULTILINE))
    names = (one.partition("==") for one in wanted)
    missing = {f"{normal(name)}=={version}" for name, _, version in names} - locked
    assert missing == set(), "`make lock` writes requirements.lock anew"


def test_every_file_has_a_hash_and_no_address() -> None:
    """A package without a hash, or from an address, would be refused by no one but pip."""
    entries = re.split(r"^(?=[\w])", re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE), flags=re.M)
    packages = [entry for entry in entries if entry.strip()]
    assert len(packages) > 60
    entry = re.compile(r"[\w.-]+==[\w.]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n")
    assert [one for one in packages if not entry.fullmatch(one)] == []
