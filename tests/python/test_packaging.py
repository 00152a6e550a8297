"""What is installed does what the README says, without the repository."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import nanoplane
from command_line import nanoplane as run_command
from make_release import bumped, order

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MANUAL = ROOT / "release" / "wheel" / "data" / "share" / "man" / "man1" / "nanoplane.1"


def tracked(*folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {f"python/nanoplane/{name}" for name in listed.stdout.split("\0") if name}


def test_every_example_and_guest_is_packed() -> None:
    """No folder is deeper than the patterns reach, which would leave its files out."""
    patterns = [one["path"] for one in PROJECT["tool"]["maturin"]["include"]]
    packed = {
        str(path.relative_to(ROOT))
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if path.is_file()
    }
    assert tracked("examples", "guest") <= packed


def test_one_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = cargo["workspace"]["package"]["version"]
    assert nanoplane.__version__ == version
    assert run_command("--version").partition("+")[0] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_manual_page_is_that_of_the_commands() -> None:
    from nanoplane import manual

    assert manual.page() == MANUAL.read_text(), "`make docs` writes it anew"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_roff() -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", str(MANUAL)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    text = re.sub(r"\x1b\[\d+m|.\x08", "", done.stdout)
    assert "nanoplane run [OPTIONS] {FILE.toml}" in text
    assert "nanoplane store merge [OPTIONS] {DIRECTORY}..." in text
    assert "--max-instructions N" in text


def test_examples_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    errors = run_command("run", "examples/encapsulation.toml", status=2)
    assert "`nanoplane examples` writes the examples into examples/" in errors
    assert run_command("examples") == "written: examples/\n"
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"python/nanoplane/{name}" for name in written} == tracked("examples")
    assert "is there already" in run_command("examples", status=2)


def test_a_release_bumps_the_version() -> None:
    for name in ("Cargo.toml", "CITATION.cff", "CHANGELOG.md", str(MANUAL.relative_to(ROOT))):
        text = (ROOT / name).read_text()
        new = bumped(name, text, nanoplane.__version__, "7.8.9", "2030-01-02")
        assert new.count("7.8.9") == 1
        assert bumped(name, new, "7.8.9", "7.9.0", "2030-01-03").count("7.9.0") == 1
    assert order("0.10.0") > order("0.9.1")
    with pytest.raises(SystemExit, match="not a version"):
        order("0.2")


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run(["make", "dist"], cwd=ROOT, check=True)
    (found,) = (ROOT / "out" / "dist").glob("*.whl")
    return found


@pytest.mark.long
def test_the_wheel_is_enough(wheel: Path, tmp_path: Path) -> None:
    """Installed where nothing else is, in a folder that is empty, it does the README's second."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    bin_ = tmp_path / "venv" / "bin"
    subprocess.run([bin_ / "pip", "install", "--quiet", wheel], check=True)
    room = tmp_path / "room"
    room.mkdir()
    clean = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def command(line: str, status: int = 0) -> str:
        done = subprocess.run(
            line, shell=True, cwd=room, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    command("nanoplane examples")
    if shutil.which("riscv64-unknown-elf-gcc", path=clean["PATH"]) is None:
        asked = command("nanoplane run examples/encapsulation.toml", status=1)
        match = re.search(r"`(.* -m pip install .*)`", asked)
        assert match is not None
        assert match[1].endswith('"nanoplane[compiler]"')
    subprocess.run([bin_ / "pip", "install", "--quiet", f"{wheel}[compiler]"], check=True)
    readme = (ROOT / "README.md").read_text()
    lines = re.findall(r"^\$ (nanoplane (?:run|sweep|exec|report|figure) .*)", readme, re.MULTILINE)
    assert lines
    for line in lines:
        command(line)
    for notify in ("spin-mlx5", "user-interrupt"):
        command(f"nanoplane run examples/encapsulation.toml --set data_plane.notify={notify}")
    assert nanoplane.__version__ in command(
        'python -c "import nanoplane; print(nanoplane.__version__, nanoplane.__file__)"'
    )
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "nanoplane.1").is_file()


@pytest.mark.long
def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """From another folder, too, and the same archive: neither times nor paths are in them."""
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("nanoplane-*")
    shutil.copy(ROOT / "Makefile", source)
    (source / ".venv").symlink_to(sys.prefix)
    (source / "requirements.lock").touch()
    os.utime(source / "requirements.lock", (0, 0))
    subprocess.run(["make", "dist"], cwd=source, check=True)
    again = source / "out" / "dist" / wheel.name
    first, second = (
        {one.filename: one.CRC for one in zipfile.ZipFile(path).infolist()}
        for path in (wheel, again)
    )
    assert [name for name in first if first[name] != second.get(name)] == []
    assert again.read_bytes() == wheel.read_bytes()
    assert (again.parent / archive.name).read_bytes() == archive.read_bytes()
