"""Intervals around probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import OptionError
from dpi.release.grid import Shares
from dpi.release.interval import interval
from dpi.release.queries import Distribution


@given(
    st.lists(st.tuples(st.floats(1e-300, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10),
    st.floats(0, 1e12) | st.just(float("nan")),
    st.floats(0.01, 0.999),
)
def test_intervals_hold_the_estimate(bins, total, level):
    """0 ≤ lower ≤ pdf ≤ upper ≤ 1, and a higher level never makes an interval narrower."""
    pdf, variance, skew = (np.array(column) for column in zip(*bins, strict=True))
    lower, upper = interval(pdf, variance, skew, total, level)
    assert ((lower >= 0) & (lower <= pdf) & (pdf <= upper) & (upper <= 1)).all()
    wider_lower, wider_upper = interval(pdf, variance, skew, total, (1 + level) / 2)
    assert (wider_lower <= lower).all()
    assert (wider_upper >= upper).all()


def test_a_sum_of_shares_is_a_share():
    """What is added up is within its interval, and that ends at one, where rounding takes the sum above it."""
    domain = dpi.Product(of=dpi.Categories(["all"], other=None), by=dpi.Categories(["a", "b"]))
    pdf = np.array([0.5, 0.5, 2.0**-52])
    assert pdf.sum() == 1 + 2.0**-52  # exactly, on every processor
    summed = Distribution(domain, pdf, np.full(3, 1e-4), 100.0, 1.0).marginal("of").probability("all")
    shares = Shares.of(np.array([pdf.sum()]), np.array([1e-4]), 2e-4, 100.0)
    for value, lower, upper in (
        (summed.value, *summed.interval()),
        (float(shares.value[0]), float(shares.lower[0]), float(shares.upper[0])),
    ):
        assert 0 < lower <= value <= upper == 1


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan")])
def test_levels_lie_between_zero_and_one(level):
    """A level outside (0, 1) is an error."""
    with pytest.raises(OptionError, match="`level` must be above 0 and below 1"):
        interval(np.ones(1), np.ones(1), np.zeros(1), 1.0, level)


def test_simultaneous_intervals_hold_all_bins_at_once():
    """Over many slots of equal users, all 20 bins lie inside in 95 %, less chance; by bins, more rarely."""
    domain, rng = dpi.Categories([str(number) for number in range(19)]), np.random.default_rng(1)
    whole = {False: 0, True: 0}
    slots = 60
    stream = dpi.Stream(domain=domain, epsilon=1, budget=dpi.Ledger(returning=False))
    for slot in range(slots):
        drawn = rng.multinomial(2000, np.full(20, 0.05))
        bins = np.repeat(np.arange(20), drawn)
        values = [domain.label(code) for code in bins.tolist()]
        release = stream.release([f"{slot}-{number}" for number in range(bins.size)], values)
        truth = drawn / drawn.sum()
        for simultaneous in whole:
            lower, upper = release.interval(0.95, simultaneous=simultaneous)
            whole[simultaneous] += bool(((lower <= truth) & (truth <= upper)).all())
    assert whole[True] >= 0.9 * slots
    assert whole[False] <= whole[True] - 0.1 * slots
