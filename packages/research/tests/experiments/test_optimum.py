"""The optimum is a single slot; releases follow the budgets they are given."""

from pathlib import Path

import numpy as np
import pytest

from dpi.budget.epsilon import Epsilon
from dpi.noise import UnsafeSeededSource
from dpi.theory import concentration, log_loss, rates
from dpi_research.experiments.optimum import (
    EPSILON,
    FIRST,
    INVERSE,
    LEDGER,
    OPTIMUM,
    TEN,
    budgets,
    cases,
    list_losses,
    optimum,
    play_budget,
    spence_name,
    spreads,
)  # fmt: skip
from dpi_research.experiments.optimum import sheet as drawn_sheet
from dpi_research.reproduce.experiment import Value


def test_all_ways_spend_the_same() -> None:
    """The sum of the log-ratios is the total, for each of them."""
    for spread in (*spreads(2.0).values(), optimum(2.0, 5, 2, 0)):
        assert spread.sum() == pytest.approx(2.0)


def test_losses_are_those_of_the_theory() -> None:
    """Three of the ways stand in `dpi.theory`."""
    found = {str(row["name"]): row["log_loss"] for row in list_losses(2.0, 5, 2, 0)}
    known = concentration(2.0)
    assert found[FIRST] == pytest.approx(known.first_slot)
    assert found[INVERSE] == pytest.approx(known.inverse_square, rel=1e-3)
    assert found[TEN] == pytest.approx(known.ten_equal_slots)


def test_no_way_is_better_than_one_slot() -> None:
    """The numerical optimum, from any start, and 200 random spreads."""
    best = log_loss(rates(np.array([2.0])))
    found = optimum(2.0, 6, 4, 1)
    assert log_loss(rates(found)) == pytest.approx(best, rel=1e-6)
    assert found.max() == pytest.approx(2.0, rel=1e-6)
    rng = np.random.default_rng(0)
    assert all(log_loss(rates(2 * rng.dirichlet(np.full(6, 0.3)))) >= best for _ in range(200))


def test_budgets_add_up_to_epsilon() -> None:
    """A thousand slots of every series; ten slots of the ledger."""
    for name, budget in budgets().items():
        allocation = budget.allocation(Epsilon.at_most(EPSILON), 100)
        slots = 10 if name == TEN else 1_000
        spent = sum(float(allocation.draw(UnsafeSeededSource(0))) for _ in range(slots))
        assert spent <= EPSILON
        assert spent > EPSILON / 2


def test_one_slot_is_precise_and_then_grows_old(tmp_path: Path) -> None:
    """On a stream that moves fast: of one population, all in slot 1 is best there, and worst in slot 12."""
    names = (FIRST, spence_name(0.05, 0.1), TEN, LEDGER)
    rows: list[dict[str, Value]] = [row for name in names for row in play_budget(name, "fast", 12, 0)]
    kl = {(row["name"], row["slot"]): float(row["kl"] or 0) for row in rows}
    assert kl[FIRST, 1] < min(kl[name, 1] for name in names[1:-1])
    assert kl[FIRST, 12] > max(kl[name, 12] for name in names[1:])
    for part in (rows + list_losses(2.0, 4, 2, 0), list_losses(2.0, 4, 2, 0), rows):
        for name, (figure, _) in drawn_sheet(part).figures.items():
            figure.savefig(tmp_path / f"{name}.svg")
            assert (tmp_path / f"{name}.svg").stat().st_size > 1_000
    assert any("100.00 %" in text for text in drawn_sheet(list_losses(2.0, 4, 2, 0)).found)
    assert OPTIMUM in {row["name"] for row in list_losses(2.0, 4, 2, 0)}
    assert len({case.digest for case in cases(False)}) == len(cases(False))
