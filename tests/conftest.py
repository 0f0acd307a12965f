"""Sets hypothesis up for a noisy machine, and imports the package before doctests do so module by module.

Tests that share what takes long to make run in one process, which makes it once.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

import dpi  # noqa: F401 - a module that a doctest imports first, by its path, would exist twice

# What decides whether a change may land is the same on every machine; `make test-slow` looks for new examples.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow" if os.environ.get("DPI_SLOW") else "default")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together the tests of a file that have a fixture of the whole file (`--dist loadgroup`)."""
    for item in items:
        known = getattr(item, "_fixtureinfo", None)
        shared = [] if known is None else [each[-1] for each in known.name2fixturedefs.values()]
        if any(fixture.scope == "module" and fixture.baseid in item.nodeid for fixture in shared):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
