"""The price list keeps to the rules of the ledger, and follows released numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.budget.classes import HIGHEST
from dpi.estimator.prices import DEAREST, TOP, Options, ReleasedActivity, pay, write_list
from dpi_research.learn.budgets import Costly, Listed, Shrinking
from dpi_research.learn.crowds import crowds
from dpi_research.learn.records import collect
from dpi_research.learn.worlds import Kind, World

TOTALS = st.floats(-1e3, 1e7)
OPTIONS = st.builds(
    Options,
    stretch=st.floats(0.3, 8),
    horizon=st.none() | st.floats(1, 9000),
    first=st.floats(0.05, 0.6),
    width=st.integers(2, 7),
    wider=st.integers(3, 9),
    often=st.floats(0.3, 5),
)


@settings(max_examples=60, deadline=None)
@given(OPTIONS, st.lists(st.tuples(TOTALS, TOTALS), min_size=1, max_size=20), st.integers(1, 5000))
def test_every_list_is_one_the_ledger_takes(options, totals, bins):
    """Prices are parts of ε, newcomers always due; payments are counted no further than the ledger counts them."""
    released = ReleasedActivity()
    for newcomers, returning in totals:
        released = released.add_slot(newcomers, returning, 0.2)
    prices = write_list(released, bins, 1.0, options)
    assert (prices.prices >= 0).all()
    assert 0 < prices.prices[0] <= DEAREST
    assert prices.prices.max() < 1
    assert [*prices.edges] == sorted(set(prices.edges))
    assert prices.edges[-1] <= TOP <= HIGHEST


@settings(max_examples=40, deadline=None)
@given(OPTIONS, st.floats(30, 1e6), st.floats(0, 1e5), st.floats(0, 1e6))
def test_a_user_who_comes_in_every_slot_pays_at_most_epsilon(options, first, newcomers, returning):
    """Whatever is released, payments never add up to more: a returning user pays at most half of what is left."""
    budget = Listed(20, 1.0, options)
    member, left, payments = budget.histogram(), 1.0, 0
    for slot in range(300):
        asked = budget.ask(slot)
        histogram = member[[min(payments, TOP)]]
        paid = pay(asked.prices[histogram] * asked.due[histogram], np.array([left]), histogram)[0]
        assert 0 <= paid <= (DEAREST if not payments else left / 2)
        left, payments = left - paid, payments + (paid > 0)
        budget.hear(first if slot == 0 else newcomers, returning)
    assert 0 < left < 1
    assert payments > 0


def test_users_of_a_histogram_pay_what_the_list_says():
    """Payments of regulars who come on three of ten days are the stated prices, in nearly every slot and histogram."""
    world = World(9, 50, 200, 1.0, [Kind(60_000, 60.0, 0.3, 0.001, 0.0, 0)], np.zeros((1, 50)), np.zeros(1))
    budget = Listed(50, 1.0)
    measured = collect(crowds(world, budget, 1), 1.0, None, budget)
    many = (measured.members > 1000) & (measured.due > 0)
    ratio = measured.paid.sum(-1)[many] / (measured.members * measured.price)[many]
    assert np.mean(np.abs(ratio - 1) < 1e-3) > 0.95
    assert ratio.max() < 1.001


def test_where_nobody_returns_newcomers_pay_nearly_all():
    """V follows the released numbers."""
    released = ReleasedActivity()
    for _ in range(50):
        released = released.add_slot(1000.0, 0.0, 0.5)
    assert write_list(released, 20, 1.0, Options()).prices[0] > 0.7
    for _ in range(500):
        released = released.add_slot(10.0, 990.0, 0.5)
    assert write_list(released, 20, 1.0, Options()).prices[0] < 0.5


def test_other_budgets_spend_what_they_may():
    """A cost per slot uses an account up in so many payments; a converging series sums to at most ε."""
    budget, left, payments = Costly(7), 1.0, 0
    for number in range(10):
        histogram = budget.histogram()[[min(number, TOP)]]
        paid = budget.ask(number).prices[histogram] * budget.ask(number).due[histogram]
        left -= pay(paid, np.array([left]), histogram)[0]
        payments += paid[0] > 0
    assert payments == 7
    assert left == pytest.approx(0, abs=1e-12)
    series = Shrinking(1.2, 2.0)
    assert sum(series.ask(slot).prices[0] for slot in range(5000)) < 1
