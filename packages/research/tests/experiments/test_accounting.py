"""Losses that are enumerated agree with theory, and exceed the published claim."""

import math

import numpy as np
import pytest

from dpi.theory import claimed_loss, exponents, true_loss
from dpi_research.experiments.accounting import (
    MU,
    ZETA,
    enumerate_outcomes,
    follow_longer,
    list_bounds,
    play_runs,
    sheet,
    transcripts,
)
from dpi_research.reproduce.rows import select, value


@pytest.fixture(scope="module")
def longest():
    """The worst outcomes of longer streams."""
    return follow_longer()


@pytest.mark.parametrize("pool", [2, 10, 10**6])
def test_all_outcomes_are_listed(pool):
    """Probabilities sum to one on both sides; the largest ratio is that of a closed form."""
    one, other = transcripts(1, 3, 20, pool)
    assert np.exp(one).sum() == pytest.approx(1)
    assert np.exp(other).sum() == pytest.approx(1)
    steps = exponents(3, 1, MU, ZETA) * np.arange(1, 4)
    lone = [s + math.log((1 + (pool - 1) * math.exp(s)) / (math.exp(s) + pool - 1)) for s in steps]
    assert (one - other).max() == pytest.approx(20 * sum(lone))


def test_the_claim_is_exceeded_and_the_corrected_bound_is_not():
    """By every pool of ten and more; the bound is reached by a large one."""
    rows = enumerate_outcomes(1.0, 3, 20)
    bound = true_loss(3, 20, 1, MU, ZETA)
    for row in rows:
        assert value(row, "loss") <= bound
        assert (value(row, "loss") > value(row, "claimed")) == (value(row, "pool") >= 10)
    assert value(rows[-1], "loss") == pytest.approx(bound, rel=1e-5)


def test_runs_lose_as_often_as_a_normal_law_says():
    """20,000 draws of ±tX_t: P(loss > claim) by the central limit; a false alarm has a probability below 10⁻⁶."""
    (row,) = play_runs(1.0, 1000, 20, 2, runs=2_000, seed=1)
    step = exponents(1000, 1, MU, ZETA) * np.arange(1, 1001)
    mean = float(20 * (step * np.tanh(step / 2)).sum())
    spread = math.sqrt(float(20 * (step**2 / np.cosh(step / 2) ** 2).sum()))
    expected = 0.5 * math.erfc((claimed_loss(1000, 1, MU, ZETA) - mean) / spread / math.sqrt(2))
    assert 0.005 < expected < 0.05
    assert value(row, "above") == pytest.approx(expected, abs=5 * math.sqrt(expected / 2_000))
    assert 0 < value(row, "delta") < value(row, "above")


def test_calibrated_mechanisms_keep_their_claim(longest):
    """As published 20 draws lose a hundred times the claim; the others lose what they claim, and no more."""
    for row in longest:
        ratio = value(row, "loss") / value(row, "claimed")
        if row["system"] == "as published":
            assert (ratio > 1) == (row["draws"] == 20 or row["slot"] == 1000)
        else:
            assert 0.99 < ratio <= 1 + 1e-9
    assert {row["system"] for row in longest} == {"as published", "strict", "converging", "ledger"}


def test_the_sheet_draws_what_there_is(longest, tmp_path):
    """All rows, or some of them."""
    rows = [*list_bounds(1.0, 1000, 8), *enumerate_outcomes(1.0, 2, 20), *longest]
    made = sheet(rows)
    assert "above the claim from slot 2 on" in made.found[0]
    assert len(made.tables) == 2
    assert "120 ×" in made.summary[0].published
    figure, _ = made.figures["bounds"]
    figure.savefig(tmp_path / "bounds.svg")
    assert (tmp_path / "bounds.svg").stat().st_size < 150_000
    for kind in ("bound", "enumerated", "followed"):
        sheet(select(rows, kind=kind))
    assert sheet([]).figures == {}
