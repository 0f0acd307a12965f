"""`make test` is the same run everywhere: nothing that decides it is drawn anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
TESTS = [
    path
    for folder in ("tests", "packages")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "/src/" not in str(path)
]
DRAWN = {
    "examples of its own": r"derandomize=False|@seed\(|@reproduce_failure",
    "random numbers without a seed": r"default_rng\(\)|np\.random\.(rand|seed|normal|integers)\(|\bRandom\(\)",
    "random numbers of the system": r"use_true_random=True|SystemRandom",
}


@pytest.mark.parametrize("what", DRAWN)
def test_no_test_draws_anew(what):
    """Noise of the program itself is another matter: its tests state their false alarm."""
    found = [path.name for path in TESTS if path != Path(__file__) and re.search(DRAWN[what], path.read_text("utf-8"))]
    assert found == []


@pytest.mark.skipif(bool(os.environ.get("DPI_SLOW")), reason="here new examples are looked for")
def test_examples_follow_from_the_test():
    """Two runs of a property have the same examples, whatever the machine has kept of earlier ones."""
    seen: list[list[int]] = []

    @given(st.lists(st.integers()))
    @settings(max_examples=20)
    def property_(rows):
        seen[-1].append(rows)

    for _ in range(2):
        seen.append([])
        property_()
    assert seen[0] == seen[1]
    assert len(seen[0]) == 20
