"""What is left is ε minus what was spent; the published allocation keeps all of it and buys nothing."""

import math
from pathlib import Path

import numpy as np
import pytest

from dpi.theory import spence_series
from dpi_research.experiments.remaining import BINS, DRAWN, MEAN, RBA_4, RBA_8, cases, draw_allocation, play_ledger
from dpi_research.experiments.remaining import sheet as drawn_sheet
from dpi_research.reproduce.experiment import Value


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """All lines at ε = 2, 40 slots."""
    found = [row for name in DRAWN for row in draw_allocation(name, 2, 40, 0)]
    return found + [row for churn in (0.0, 0.05, 1.0) for row in play_ledger(2, churn, 40, 0)]


def numbers(rows: list[dict[str, Value]], name: str, key: str, churn: float | None = None) -> np.ndarray:
    """One column of one line."""
    return np.array([float(row[key] or 0) for row in rows if row["name"] == name and row["churn"] == churn])


def test_the_series_in_order_is_that_of_the_formula(rows: list[dict[str, Value]]) -> None:
    """Elements that are computed in integers, against floats."""
    expected = 2 - np.cumsum(spence_series(40, 2, 0.05, 0.1))
    slots = numbers(rows, "Spence in order", "slot").astype(int)
    assert numbers(rows, "Spence in order", "left") == pytest.approx(expected[slots - 1])


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_is_spent_twice(rows: list[dict[str, Value]], name: str) -> None:
    """What is left never grows and is never negative."""
    left = numbers(rows, name, "left")
    assert (np.diff(left) <= 0).all()
    assert 0 <= left[-1] < 2


def test_what_is_kept_buys_nothing(rows: list[dict[str, Value]]) -> None:
    """S has the mean 1/Λ: after 40 slots about 40/Λ is spent, and the noise is thousands of times a bin."""
    for name, rate in ((RBA_8, 1e8), (RBA_4, 1e4)):
        spent = 2 - numbers(rows, name, "left")[-1]
        assert 40 / rate / 5 < spent < 40 / rate * 5
    assert np.median(numbers(rows, RBA_8, "noise")) > 1_000 * MEAN


def test_accounts_are_those_of_the_population(rows: list[dict[str, Value]]) -> None:
    """Newcomers have the slot's budget taken off a full account; those who stay keep a part, which shrinks."""
    spent = numbers(rows, "ledger", "slot_epsilon", 1.0)
    left = numbers(rows, "ledger", "left", 1.0)
    assert (left >= 2 - spent - 1e-9).all()
    assert left[0] == pytest.approx(2 - spent[0])
    stay = numbers(rows, "ledger", "left", 0.0)
    assert 0 < stay[-1] < stay[9] < stay[0] == left[0]
    assert (numbers(rows, "ledger", "low", 0.0) > 0).all()
    assert (numbers(rows, "ledger", "low", 0.05) <= numbers(rows, "ledger", "high", 0.05)).all()
    noise = numbers(rows, "ledger", "noise", 1.0)
    assert noise[0] == pytest.approx(math.sqrt(2) / spent[0])


def test_the_sheet_draws_any_part(rows: list[dict[str, Value]], tmp_path: Path) -> None:
    """All lines, or one."""
    for part in (rows, [row for row in rows if row["name"] == RBA_8]):
        sheet = drawn_sheet(part)
        for name, (figure, _) in sheet.figures.items():
            figure.savefig(tmp_path / f"{name}.svg")
            assert (tmp_path / f"{name}.svg").stat().st_size > 1_000
        assert sheet.summary[0].strict.startswith("Λ = 10⁸: 100 %")
    assert len({case.digest for case in cases(False)}) == 2 * (len(DRAWN) + 3)
    assert BINS * MEAN == 10_000
