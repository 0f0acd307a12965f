"""Sets hypothesis up for a noisy machine, and imports the package before doctests do so module by module.

Tests that share what takes long to make run in one process, which makes it once.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

import dpi  # noqa: F401 - a module that a doctest imports first, by its path, would exist twice

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

# What decides whether a change may land is the same on every machine; `make test-slow` looks for new examples.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow" if os.environ.get("DPI_SLOW") else "default")


FOLDERS = ("tests/engine/spark/", "tests/service/page/")
"""All tests of these have something in common that takes long to start: a JVM, a browser."""


class SharedMakings(LoadScopeScheduling):
    """Tests go to whoever is free, but those of a file that makes something once for all of them stay together.

    (The groups of pytest-xdist 3.8 do nothing under pytest 9.2, which has no `_nodeid` to write them to.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = next((folder for folder in FOLDERS if file.startswith(folder)), None)
        return folder or (file if makes_once(self.config.rootpath / file) else nodeid)


@cache
def makes_once(file: Path) -> bool:
    """Whether a file of tests has a fixture of the whole file."""
    return file.name.startswith("test_") and 'scope="module"' in file.read_text("utf-8")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharedMakings:
    """The order in which processes get their tests."""
    return SharedMakings(config, log)
