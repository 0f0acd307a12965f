"""docs/howto-events.md: its numbers of users are those of the mechanism."""

from __future__ import annotations

import re
from pathlib import Path

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.mechanism.text_histogram import SparseHistogram

PAGE = (Path(__file__).parents[2] / "docs" / "howto-events.md").read_text("utf-8")


def test_the_table_of_users_is_that_of_the_mechanism():
    """How many users a value needs, by its length and ε."""
    rows = re.findall(r"^\| (\d+) bytes[^|]*\| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 4
    for length, cells in rows:
        found = [int(re.sub(r"\D", "", cell)) for cell in cells.split("|")]
        amounts = [Epsilon.at_most(epsilon) for epsilon in ("0.1", "0.2", "0.5", "1")]
        needed = [SparseHistogram().thresholds(dpi.Texts(32), amount)[int(length)] / GRAINS for amount in amounts]
        assert found == [round(users) for users in needed]
