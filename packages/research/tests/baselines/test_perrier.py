import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.perrier import Perrier, QuantileThreshold, smooth_sensitivity
from exact_loss import exact_loss, stated
from statistics_ import assert_variance
from strategies import few

VALUES = st.lists(st.integers(0, 10), min_size=1, max_size=9)


def by_definition(values, largest, rank, decay):
    """The published double maximum, over every k and j."""

    def x(i):
        return 0 if i < 1 else largest if i > len(values) else sorted(values)[i - 1]

    return max(
        math.exp(-decay * k) * max(x(rank + j) - x(rank + j - k - 1) for j in range(k + 2))
        for k in range(len(values) + 1)
    )


@given(VALUES, st.floats(0.05, 3), st.data())
def test_the_search_finds_the_smooth_sensitivity(values, decay, data):
    """The early end of the search loses nothing."""
    rank = data.draw(st.integers(0, len(values)))
    found = smooth_sensitivity(np.array(values, dtype=float), 12.0, rank, decay)
    assert found == pytest.approx(by_definition(values, 12.0, rank, decay), rel=1e-12)


@given(VALUES, st.integers(0, 10), st.floats(0.05, 3), st.data())
def test_it_is_smooth_and_covers_the_local_sensitivity(values, other, decay, data):
    """Between neighbours it moves by a factor of at most e^b, and it is at least how far the order statistic moves."""
    rank = data.draw(st.integers(1, len(values)))
    place = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:place], other, *values[place + 1 :]]
    one, two = (smooth_sensitivity(np.array(v, dtype=float), 12.0, rank, decay) for v in (values, changed))
    assert one <= math.exp(decay) * two * (1 + 1e-12)
    assert abs(sorted(values)[rank - 1] - sorted(changed)[rank - 1]) <= one


def test_the_threshold_is_below_the_quantile_with_the_stated_probability():
    """τ < x_(P) exactly if the noise is below -G, and P(Z < -G) = e^-G/2 is the stated failure."""
    rule = QuantileThreshold(epsilon=1.0, delta=1e-6, quantile=0.9, failure=0.006)
    values = np.arange(1.0, 101.0)
    assert math.exp(-rule.offset) / 2 == pytest.approx(0.006)
    assert rule.threshold(values, 200.0, -rule.offset) == pytest.approx(90.0)
    assert rule.threshold(values, 200.0, -rule.offset - 1e-6) < 90.0 < rule.threshold(values, 200.0, 1e-6 - rule.offset)
    assert rule.threshold(values, 200.0, -1e6) == 0.0


def test_sums_of_cut_values_have_the_stated_variance():
    """Errors of many runs over their scale τL/ε have variance 2·pop(t) in six standard errors (alarm < 10^-8)."""
    errors = []
    for seed in range(few(500, 1500)):
        mechanism = Perrier(epsilon=1, slots=7, prefix=4, largest=20, threshold_delta=1e-6)
        mechanism._source = UnsafeSeededSource(seed)
        for value in (3, 5, 2, 4, 30, 1, 7):
            release = mechanism.update(value)
        cut = float(mechanism.threshold)
        truth = min(30.0, cut) + min(1.0, cut) + min(7.0, cut)
        errors.append((float(release[0]) - truth) / math.sqrt(mechanism.variance(7)))
    assert_variance(errors, 1.0)
    assert mechanism.variance(7) == pytest.approx(2 * 2 * (cut * 3) ** 2)


@pytest.mark.parametrize("slots", [1, 4, 7, 20])
def test_the_trees_loss_is_exact(slots):
    """A user who moves every value after the prefix from 0 to the threshold or beyond loses Σ low(s)·ε/L."""
    make = lambda source: Perrier(  # noqa: E731
        epsilon=Fraction(1, 2), slots=20, prefix=3, largest=40, threshold_delta=1e-6, unsafe_source=source
    )
    loss = exact_loss(make, [1, 2, 3] + [40] * slots, [1, 2, 3] + [0] * slots)
    assert loss == stated(make(None), 3 + slots)


def test_the_prefix_makes_the_users_loss_vacuous():
    """Infinite without δ and at small δ; at a δ above k·e^((k-1)ε)·δ₀ it is k·ε and the tree's part."""
    mechanism = Perrier(epsilon=0.1, slots=50, prefix=10, threshold_delta=1e-9)
    assert mechanism.user_epsilon(9) == 0
    assert mechanism.user_epsilon(20) == math.inf
    needed = 10 * math.exp(0.9) * 1e-9
    assert mechanism.user_epsilon(20, 1, needed / 2) == math.inf
    assert 1.0 < mechanism.user_epsilon(20, 1, 1e-5) <= 1.0 + float(stated(mechanism, 20))
    assert mechanism.delta == 1e-9
    assert Perrier(epsilon=0.1, slots=50, prefix=10).delta == pytest.approx(1 / 2500)


def test_the_threshold_is_public_and_possible():
    """It lies between one grain and the largest value, whatever the noise."""
    for seed in range(50):
        mechanism = Perrier(epsilon=0.01, slots=5, prefix=2, largest=3, threshold_delta=1e-9)
        mechanism._source = UnsafeSeededSource(seed)
        for value in (0, 3):
            mechanism.update(value)
        assert Fraction(1, GRAINS) <= mechanism.threshold <= 3


def test_bad_options_are_refused():
    """More bins than one, a δ outside (0, 1), a δ too large for the failure probability."""
    with pytest.raises(OptionError, match="PerBin"):
        Perrier(epsilon=1, slots=5, bins=2)
    with pytest.raises(OptionError, match="delta"):
        Perrier(epsilon=1, slots=5, threshold_delta=2.0)
    with pytest.raises(OptionError, match="make `delta` smaller"):
        Perrier(epsilon=1, slots=5, threshold_delta=0.5)
