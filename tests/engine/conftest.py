"""Engines and stores to run a test on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpi.engine import BucketEngine, pool
from dpi.engine.executor import Local, Pool


@pytest.fixture(scope="session")
def workers() -> Iterator[Pool]:
    """Two processes for all tests: starting them takes longer than most of what they do."""
    with pool(2) as engine:
        yield engine.executor


@pytest.fixture(params=["local", "pool"])
def engine(request: pytest.FixtureRequest) -> BucketEngine:
    """Each engine of this machine."""
    return BucketEngine(request.getfixturevalue("workers") if request.param == "pool" else Local(), bits=2)
