"""Every command that the documentation shows works, and every link leads somewhere."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "guest/**/*.md", "crates/**/*.md")
    for path in ROOT.glob(pattern)
)
LEFT_OUT = "<!-- not run by the tests:"


def commands(document: Path) -> Iterator[str]:
    lines = document.read_text().splitlines()
    inside = False
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("```"):
            inside = line == "```console" and not before.startswith(LEFT_OUT)
        elif inside and line.startswith("$ "):
            yield line.removeprefix("$ ")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of all pages: a run that several of them show is made once."""
    return tmp_path_factory.mktemp("store")


@pytest.mark.simulator
@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if any(commands(path))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands(document: Path, store: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "guest").symlink_to(ROOT / "guest")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    environment = {**os.environ, "NANOPLANE_STORE": str(store)}
    for command in commands(document):
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_shown(document: Path) -> None:
    shown = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", document.read_text(), re.DOTALL)
    for path, text in shown:
        assert text == (ROOT / path).read_text(), f"{path} is shown as it was"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (document.parent / target).exists(), f"{target} does not exist"
