"""Clopper and Pearson's bounds against scipy, and their error probability summed exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dpi.errors import OptionError
from dpi_audit import clopper_pearson
from dpi_audit.empirical import incomplete_beta


@given(st.floats(0.5, 5000), st.floats(0.5, 5000), st.floats(0, 1, allow_subnormal=False))
def test_the_incomplete_beta_function(a, b, x):
    """It agrees with scipy to ten digits; not below the normal numbers, where scipy has fewer (√5e-324 by 13 %)."""
    assert incomplete_beta(a, b, x) == pytest.approx(float(special.betainc(a, b, x)), rel=1e-10, abs=1e-290)


@given(st.integers(1, 20_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(1e-9, 0.5))
def test_bounds_are_quantiles_of_beta_laws(counts, error):
    """Both ends agree with scipy's quantiles, and are never inside them by more than rounding."""
    successes, trials = counts
    low, high = clopper_pearson(successes, trials, error)
    expected_low = stats.beta.ppf(error, successes, trials - successes + 1) if successes else 0.0
    expected_high = stats.beta.isf(error, successes + 1, trials - successes) if successes < trials else 1.0
    assert low == pytest.approx(expected_low, rel=1e-7, abs=1e-300)
    assert high == pytest.approx(expected_high, rel=1e-7)


@pytest.mark.parametrize("trials", [1, 7, 60])
@pytest.mark.parametrize("error", [0.05, 1e-4])
def test_bounds_are_wrong_as_rarely_as_they_say(trials, error):
    """Summed over all outcomes, either bound is on the wrong side with probability at most `error`."""
    bounds = [clopper_pearson(k, trials, error) for k in range(trials + 1)]
    for step in range(1, 60):
        p = step / 60
        masses = stats.binom.pmf(range(trials + 1), trials, p)
        for wrong in ([low > p for low, _ in bounds], [high < p for _, high in bounds]):
            assert sum(m for m, w in zip(masses, wrong, strict=True) if w) <= error * (1 + 1e-9)


@pytest.mark.parametrize("counts", [(2, 1, 0.1), (-1, 1, 0.1), (0, 0, 0.1), (0, 1, 0), (0, 1, 1)])
def test_nonsense_is_refused(counts):
    """Each says what is expected."""
    with pytest.raises(OptionError, match="must"):
        clopper_pearson(*counts)
