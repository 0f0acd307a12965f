"""The page on engines names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tests_of_the_failure_tables_are_there():
    """A test that a row names, and was renamed, is noticed."""
    table = (ROOT / "docs" / "engine.md").read_text("utf-8").partition("## Failures")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    found = {
        name
        for path in [*(ROOT / "tests").rglob("test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 25
    assert named <= found
