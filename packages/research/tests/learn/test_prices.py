"""The price list keeps to the rules of the ledger, and follows released numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.budget.classes import HIGHEST, Bounds
from dpi.budget.epsilon import Epsilon
from dpi_research.learn.budgets import Costly, Listed, Shrinking
from dpi_research.learn.crowds import crowds
from dpi_research.learn.prices import STEPS, TOP, Heard, Options, write_list
from dpi_research.learn.records import collect
from dpi_research.learn.worlds import Kind, World
from price_groups import in_groups

TOTALS = st.floats(-1e3, 1e7)
OPTIONS = st.builds(
    Options,
    stretch=st.floats(0.3, 8),
    horizon=st.none() | st.floats(1, 9000),
    split=st.floats(-0.5, 0.5),
    waits=st.integers(-1, 1),
    first=st.floats(0.05, 0.6),
    width=st.integers(2, 7),
)


@settings(max_examples=60, deadline=None)
@given(OPTIONS, st.lists(st.tuples(TOTALS, TOTALS), min_size=1, max_size=20), st.integers(1, 5000))
def test_the_ledger_takes_every_list(options, totals, bins):
    """Classes up to 40, shares in steps of 2^-12, newcomers always due: the ledger's bounds refuse anything else."""
    heard = Heard()
    for newcomers, returning in totals:
        heard = heard.hear(newcomers, returning, 0.2)
    prices = write_list(heard, bins, 1.0, options)
    bounds = Bounds.initial(Epsilon.at_most(1), TOP)
    for slot in range(40):
        bounds, groups = bounds.draw(slot, in_groups(prices, slot))
        assert groups[0].classes[0].number == 0
    assert TOP <= HIGHEST
    assert np.isfinite(prices.prices(0)).all()


@settings(max_examples=40, deadline=None)
@given(OPTIONS, st.floats(30, 1e6), st.floats(0, 1e5), st.floats(0, 1e6))
def test_a_user_who_comes_in_every_slot_pays_at_most_epsilon(options, first, newcomers, returning):
    """Whatever is released, shares of what is left never add up to more."""
    budget = Listed(20, 1.0, options)
    left, payments = 1.0, 0
    for slot in range(300):
        share = budget.ask(slot).shares[min(payments, TOP)]
        assert 0 <= share <= 0.85 + 1 / STEPS
        left, payments = left * (1 - share), payments + (share > 0)
        budget.hear(first if slot == 0 else newcomers, returning)
    assert 0 <= left < 1
    assert payments > 0


def test_users_of_a_histogram_pay_what_the_list_says():
    """Payments of regulars who come on three of ten days are the stated prices to within a tenth, for 200 slots."""
    world = World(9, 50, 200, 1.0, [Kind(60_000, 60.0, 0.3, 0.001, 0.0, 0)], np.zeros((1, 50)), np.zeros(1))
    measured = collect(crowds(world, Listed(50, 1.0), 1), 1.0, None, partial=False)
    many = (measured.members > 1000) & (measured.due > 0)
    ratio = measured.paid.sum(-1)[many] / (measured.members * measured.price)[many]
    assert np.abs(np.log(ratio)).mean() < 0.1


def test_where_nobody_returns_newcomers_pay_nearly_all():
    """V follows the released numbers."""
    heard = Heard()
    for _ in range(50):
        heard = heard.hear(1000.0, 0.0, 0.5)
    assert write_list(heard, 20, 1.0, Options()).shares(0)[0] > 0.7
    for _ in range(500):
        heard = heard.hear(10.0, 990.0, 0.5)
    assert write_list(heard, 20, 1.0, Options()).shares(0)[0] < 0.5


def test_other_budgets_spend_what_they_may():
    """A cost per slot uses an account up in so many payments; a converging series sums to at most ε."""
    budget = Costly(7)
    left = 1.0
    for number in range(10):
        left -= budget.ask(number).shares[min(number, TOP)] * left
    assert left == pytest.approx(0, abs=1e-12)
    series = Shrinking(1.2, 2.0)
    assert sum(series.ask(slot).prices[0] for slot in range(5000)) < 1
