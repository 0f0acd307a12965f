"""Sets hypothesis up for a noisy machine, and imports the package before doctests do so module by module.

Tests of a file run in one process, which makes once what they share.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import dpi  # noqa: F401 - a module that a doctest imports first, by its path, would exist twice
from dpi.noise.source import SystemSource, UnsafeSeededSource

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

LONG = "DPI_SLOW" in os.environ or "DPI_EXAMPLES" in os.environ
SYSTEM = SystemSource.words

# What decides whether a change may land is the same on every machine: examples follow from the test alone, and those
# that were found are in the tests. `make test-all` and `make nightly` look for new ones, and keep them in .hypothesis.
for _name, _examples in (("default", 40), ("slow", 2_000), ("nightly", 5_000)):
    settings.register_profile(
        _name,
        deadline=None,
        derandomize=_name == "default",
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
if not LONG:
    # Examples would be made of numbers in the modules that a process has imported so far: of which tests it ran before.
    providers._get_local_constants = lambda: providers._local_constants  # none of them is ever added
settings.load_profile(os.environ.get("DPI_EXAMPLES") or ("slow" if os.environ.get("DPI_SLOW") else "default"))

# numpy, which nothing has loaded so far, reads them here and in children: processes share the cores already.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

collect_ignore_glob = [] if find_spec("pyspark") else ["packages/spark/src/*"]
"""Examples in docstrings run where what they need is installed: Spark is an extra (`make test-all`), and so is JAX."""
if not find_spec("jax"):
    collect_ignore_glob += [
        f"packages/research/src/dpi_research/learn/{name}.py" for name in ("heads_training", "scores", "training")
    ]

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own there
ROOM = 4 << 30
"""Bytes that a disk in memory must have to spare: a container's own has less than the largest files of tests."""

# Stores wait for a disk at every commit, which no test can tell from one in memory: none takes the power away.
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

LONGEST = (
    "tests/store/test_kill.py",
    "tests/docs/test_blocks.py",
    "tests/cli/test_follow.py",
    "packages/audit/tests/test_report.py",
    "tests/service/test_commands.py",
    "tests/service/test_pilot.py",
    "tests/agents/test_mcp_command.py",
    "tests/service/test_admission.py",
    "tests/service/test_on_time.py",
    "tests/service/page/test_page.py",
    "tests/engine/test_odd_values.py",
    "packages/research/tests/test_reproduce_command.py",
    "tests/service/test_kills.py",
    "tests/cli/test_broker_run.py",
    "tests/sources/test_brokers.py",
    "tests/service/page/test_measured.py",
    "tests/service/test_leader.py",
    "tests/sources/test_one_rule.py",
    "packages/audit/tests/test_reach_commands.py",
    "tests/docs/test_notebooks.py",
    "tests/mechanism/class_estimator/test_people.py",
    "tests/mechanism/class_estimator/test_engagement.py",
    "tests/noise/test_selection.py",
    "packages/research/tests/experiments/test_reproduction.py",
    "tests/mechanism/test_estimator.py",
    "packages/audit/tests/test_empirical.py",
    "tests/sources/test_slot_sorter.py",
    "packages/research/tests/compare/test_compare.py",
    "tests/service/test_feeding.py",
    "tests/sources/test_broker_troubles.py",
    "packages/research/tests/experiments/test_recommender.py",
    "tests/stream/test_live.py",
)
"""Files that take about five seconds or more, waiting included, the longest first (see `pytest --durations=0`)."""

PATIENCE = 60.0
"""Seconds after which a process compiles tests itself: the first one may have been stopped."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Half as many processes again as there are cores: tests of a service or a command wait for much of their time."""
    cores = yield
    return cores + cores // 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """On a clean checkout the first process compiles the tests, and the others follow when half of them are done."""
    config, root, end = session.config, Path(__file__).parent, time.monotonic() + PATIENCE
    worker = getattr(config, "workerinput", {"workerid": "gw0"})
    if worker["workerid"] != "gw0" and not sys.dont_write_bytecode and config.args == config.getini("testpaths"):
        left_out = [root / path for path in config.getoption("ignore") or ()]
        folders = [root / "tests", *root.glob("packages/*/tests")]
        tests = [path for folder in folders for path in folder.rglob("test_*.py")]
        tests = [path for path in tests if not any(path.is_relative_to(out) for out in left_out)]
        while time.monotonic() < end:
            if 2 * sum(any(path.parent.glob(f"__pycache__/{path.stem}.*")) for path in tests) >= len(tests):
                return
            time.sleep(0.5)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Return the order in which processes get their tests; only here is pytest-xdist needed."""
    from by_file import ByFile

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long stands first, where processes share the work; the rest stays in its order."""
    if hasattr(config, "workerinput"):
        rank = {file: number for number, file in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Noise follows from the test alone, as examples do. Other processes have their own; long runs look for more."""
    SystemSource.words = SYSTEM  # type: ignore[method-assign]
    if not LONG and not item.get_closest_marker("system"):
        seeded, process = UnsafeSeededSource(zlib.crc32(item.nodeid.encode())), os.getpid()
        SystemSource.words = lambda self, count: (  # type: ignore[method-assign]
            seeded.words(count) if os.getpid() == process else SYSTEM(self, count)
        )


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The command line as a process of its own, which need not load everything first (see warm.py)."""
    from cli_files import ENVIRONMENT, PROGRAM

    if not Path("/proc/self/task").is_dir():
        yield PROGRAM
        return
    words = str(Path(__file__).parent / "tests" / "warm.py"), str(tmp_path_factory.mktemp("warm") / "calls")
    with subprocess.Popen([sys.executable, *words], env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield (sys.executable, "-I", "-S", *words)
        process.terminate()


class Cli:
    """Runs commands in this process; every call states the exit code that it expects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        from typer.testing import CliRunner

        self._runner = CliRunner()

    def __call__(self, *words: object, code: int = 0, stdin: str | None = None) -> str:
        """Both outputs of a command, which hold nothing private."""
        from cli_files import SECRETS
        from dpi.cli.app import app

        result = self._runner.invoke(app, [str(word) for word in words], input=stdin, prog_name="dpi")
        self.stdout, self.stderr = result.stdout, result.stderr
        assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception!r}"
        for secret in SECRETS:
            assert secret not in result.output
        assert "Traceback" not in result.output
        return result.output

    def json(self, *words: object, code: int = 0) -> dict[str, object]:
        """The document that a command prints with --json: one, and nothing else."""
        self(*words, "--json", code=code)
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Cli(tmp_path)


@pytest.fixture
def visits(cli):
    """Options of a run over a CSV file; the store and the period are left to the test."""
    from cli_files import rows

    lines = ["user,at,country,age"]
    lines += [",".join("" if v is None else str(v) for v in row.values()) for row in rows()]
    lines += ["secret-user-broken,2026", '"secret-user-open,2026-01-01T00:30:00,DE,4']
    (cli.folder / "visits.csv").write_text("\n".join(lines) + "\n")
    (cli.folder / "countries.txt").write_text("DE\nFR\nIT\n")
    return [
        "visits.csv", "--time", "at", "--value", "country", "--domain", "countries.txt", "--other", "elsewhere",
        "--slot", "1h", "--epsilon", "1", "--per-slot", "0.2",
    ]  # fmt: skip


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key that is the same in every store of these tests."""
    from dpi.testing.workload import KEY

    path = tmp_path / "key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    return path


@pytest.fixture(scope="session")
def workers() -> Iterator[object]:
    """Two processes for all tests: starting them takes longer than most of what they do."""
    from dpi.engine import pool

    with pool(2) as engine:
        yield engine.executor
