"""The lock file of the Python packages agrees with pyproject.toml."""

import itertools
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_required_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = map(Requirement, [*project["dependencies"], *itertools.chain(*extras)])
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK, re.MULTILINE))
    missing = [
        str(one)
        for one in wanted
        if one.name != project["name"]
        and not one.specifier.contains(locked.get(normal(one.name), "0"))
    ]
    assert missing == [], "`make lock` writes requirements.lock anew"


def test_every_file_has_a_hash_and_no_address() -> None:
    """A package without a hash, or from an address, would be refused by no one but pip."""
    entries = re.split(r"^(?=[\w])", re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE), flags=re.M)
    packages = [entry for entry in entries if entry.strip()]
    assert len(packages) > 60
    entry = re.compile(r"[\w.-]+==[\w.]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n")
    assert [one for one in packages if not entry.fullmatch(one)] == []
