"""The pages on engines name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "title"), [("engine", "## Failures"), ("spark", "## Failures")])
def test_tests_of_the_failure_table_are_there(page, title):
    """A test that a row names, and was renamed, is noticed."""
    table = (ROOT / "docs" / f"{page}.md").read_text("utf-8").partition(title)[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    found = {
        name
        for path in [*(ROOT / "tests").rglob("test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 11
    assert named <= found
