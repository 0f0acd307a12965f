"""Engines and stores to run a test on."""

from __future__ import annotations

import pytest

from dpi.engine import BucketEngine
from dpi.engine.executor import Local


@pytest.fixture(params=["local", "pool"])
def engine(request: pytest.FixtureRequest) -> BucketEngine:
    """Each engine of this machine."""
    return BucketEngine(request.getfixturevalue("workers") if request.param == "pool" else Local(), bits=2)
