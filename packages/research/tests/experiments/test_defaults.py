"""What is spent is what the rules say; with next to nothing spent nothing is told, with the same ε much is."""

import math

import pytest

from dpi.theory import spence_series
from dpi_research.experiments.defaults import DRAWS, SPENCE, measure_gain, play_demo, sheet, sum_budgets
from dpi_research.reproduce.rows import select, value


@pytest.fixture(scope="module")
def rows():
    """A few slots of the zipf stream at ε = 2."""
    return [*measure_gain("drift.01", 2.0, 6, 0), *play_demo("drift.01", 6, 0)]


def test_in_order_the_series_is_spent():
    """As theory computes it in floats."""
    row = select(sum_budgets("in order", 2.0, 500, 0), slot=500)[0]
    theory = spence_series(500, 2, float(SPENCE.mu), float(SPENCE.zeta)).sum()
    assert value(row, "spent") == pytest.approx(theory, rel=1e-6)


@pytest.mark.parametrize(("draw", "rate"), [("Λ = 10⁸", 1e8), ("Λ = 10⁴", 1e4)])
@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_random_allocation_spends_t_over_lambda(draw, rate, epsilon):
    """A sum of 500 exponential variables of rate Λ, whatever ε is: beyond six deviations once in 10⁸."""
    row = select(sum_budgets(draw, epsilon, 500, 3), slot=500)[0]
    assert value(row, "spent") * rate == pytest.approx(500, abs=6 * math.sqrt(500))


def test_nothing_spent_nothing_told(rows):
    """The published mechanism stays within a twentieth of a nat of the uniform guess, whatever the rule."""
    for draw in DRAWS:
        (row,) = select(rows, system="published", draw=draw)
        assert abs(value(row, "gain")) < 0.05
        assert value(row, "spent") <= 2
    (default,) = select(rows, system="published", draw="Λ = 10⁸")
    assert value(default, "spent") < 1e-6
    (other,) = select(rows, system="demo")
    assert value(other, "gain") < 0
    assert value(other, "spent") == 0


def test_the_same_total_tells_more(rows):
    """Boosted mechanisms gain more than nine tenths of what there is, and never spend more than ε."""
    for name in ("converging", "ledger"):
        for row in select(rows, system=name):
            assert value(row, "gain") > 0.9 * value(row, "uniform_kl")
            assert value(row, "spent") <= 2


def test_the_sheet_draws_what_there_is(rows, tmp_path):
    """All rows, or some of them."""
    paid = [row for draw in DRAWS for row in sum_budgets(draw, 0.5, 50, 0)]
    made = sheet([*paid, *rows])
    assert set(made.figures) == {"spent", "gain"}
    for end, (figure, _) in made.figures.items():
        figure.savefig(tmp_path / f"{end}.svg")
        assert (tmp_path / f"{end}.svg").stat().st_size < 150_000
    assert made.summary[0].uniform == "0"
    assert set(sheet(paid).figures) == {"spent"}
    assert sheet(select(rows, system="ledger")).found == ()
    assert sheet([]).figures == {}
