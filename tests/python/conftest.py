import itertools
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

import fake_simulator
import musl
import seeds
import unsynchronized
from command_line import Command
from nanoplane import cli, simulator
from nanoplane.papers.hyperplane import monitoring_set

ROOT = Path(__file__).parents[2]

# A job in the background ignores Ctrl-C, and so would what the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that name no store have that of their working directory, and not the user's.
os.environ.pop("NANOPLANE_STORE", None)

unsynchronized.use()

# In CI, too, other examples with another seed.
hypothesis.settings.register_profile("seeded", derandomize=False, print_blob=True)
hypothesis.settings.load_profile("seeded")


def pytest_configure(config: pytest.Config) -> None:
    """One variable chooses the random inputs of all tests; without it hypothesis takes any."""
    if "NANOPLANE_TEST_SEED" in os.environ and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seeds.SEED)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Compile the C library during the first tests; otherwise several workers wait for it."""
    if session.config.getoption("numprocesses", None) and not session.config.option.collectonly:
        with musl.compiled_meanwhile():
            return (yield)
    return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        action="store_true",
        help="run only a third of the cases of each test marked `sampled`",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out two thirds of the cases of each sampled test; the seed determines which."""
    if not config.option.sample:
        return
    left_out: set[pytest.Item] = set()
    sampled = [item for item in items if item.get_closest_marker("sampled")]
    for name, cases in itertools.groupby(sampled, lambda item: item.nodeid.partition("[")[0]):
        left_out |= seeds.two_thirds(name, list(cases))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_report_header() -> str:
    return f"NANOPLANE_TEST_SEED={seeds.SEED}"


def _forget() -> None:
    for cached in (simulator.presets, simulator.version, monitoring_set._shares):
        cached.cache_clear()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The fake simulator, an empty store, and an empty directory to be in."""
    monkeypatch.setattr(simulator, "_module", lambda: fake_simulator)
    monkeypatch.setattr(fake_simulator, "calls", [])
    monkeypatch.setattr(fake_simulator, "delay_seconds", 0.0)
    monkeypatch.setenv("NANOPLANE_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    _forget()
    yield
    _forget()


@pytest.fixture
def command(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """The command line beside `example.toml`, the test module's description."""
    Path("example.toml").write_text(request.module.DESCRIPTION)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nanoplane", *arguments])
        status = cli._main(cli.app)
        output, errors = capsys.readouterr()
        return status, output, errors

    return run
