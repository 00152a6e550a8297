"""Every command that the documentation shows works, and every link leads somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import completed

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "guest/**/*.md", "crates/**/*.md")
    for path in ROOT.glob(pattern)
)
READ_FIRST = ROOT / "docs" / "start.md"
"""The page whose commands `make test` always runs; it runs those of a third of the others."""
COMMAND = ".venv/bin/nanoplane "
LEFT_OUT = "<!-- not run by the tests:"
TAKES_LONG = "<!-- takes long: make test-all runs it -->"


def commands(document: Path, takes_long: bool = False) -> Iterator[str]:
    """Yield the commands of a page: those that take long, or the others."""
    lines = document.read_text().splitlines()
    inside = False
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("```"):
            inside = line == "```console" and not before.startswith(LEFT_OUT)
            inside = inside and (before == TAKES_LONG) == takes_long
        elif inside and line.startswith("$ "):
            yield line.removeprefix("$ ")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of all pages: a run that several of them show is made once."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return what a page's commands find: examples, guests, and the command itself."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "guest").symlink_to(ROOT / "guest")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.mark.simulator
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=() if path == READ_FIRST else pytest.mark.sampled)
        for path in DOCUMENTS
        if any(commands(path))
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands(document: Path, store: Path, directory: Path) -> None:
    succeed(commands(document), store, directory, 120)


@pytest.mark.long
@pytest.mark.simulator
@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if any(commands(path, takes_long=True))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands_that_take_long(document: Path, store: Path, directory: Path) -> None:
    """They depend on no other command of their pages."""
    succeed(commands(document, takes_long=True), store, directory, 3600)


def succeed(listed: Iterable[str], store: Path, directory: Path, timeout: float) -> None:
    environment = {**os.environ, "NANOPLANE_STORE": str(store)}
    for command in listed:
        if command.startswith(COMMAND) and not re.search(r"[|&;<>()$`*?#]", command):
            words = shlex.split(command.removeprefix(COMMAND))
            done = completed(*words, cwd=directory, env=environment, timeout=timeout)
        else:
            done = subprocess.run(
                command,
                shell=True,
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.simulator
def test_the_python_of_its_tutorial_runs(
    store: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "tutorials" / "python.md").read_text()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("NANOPLANE_STORE", str(store))
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    assert names["frame"].height == 8
    assert Path("spinning.parquet").is_file()


@pytest.mark.simulator
@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda p: p.name
)
def test_notebooks(
    notebook: Path, store: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("NANOPLANE_STORE", str(store))
    document = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    outputs = [cell.outputs for cell in document.cells if cell.cell_type == "code"]
    assert not any(outputs), "a notebook is kept without its outputs"
    where = {"metadata": {"path": str(directory / "examples")}}
    nbclient.NotebookClient(document, timeout=60, kernel_name="python3", resources=where).execute()
    shown = [out for cell in document.cells for out in cell.get("outputs", [])]
    assert any("text/html" in out.get("data", {}) for out in shown), "the table"


def test_site(tmp_path: Path) -> None:
    """Every link and its anchor lead somewhere, and nothing is fetched."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "start.html").read_text()
    assert 'href="repository/examples/encapsulation.toml.txt"' in page
    assert (tmp_path / "repository" / "examples" / "encapsulation.toml.txt").is_file()
    assert not re.search(r'<(script|img|iframe)[^>]* src="(https?:)?//', page), "fetched"
    assert not re.search(r'<link[^>]* rel="stylesheet"[^>]* href="(https?:)?//', page), "fetched"


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
