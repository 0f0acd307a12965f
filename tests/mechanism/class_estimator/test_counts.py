"""The posterior of a whole number of users, against sums over all numbers; and where a normal law is as good."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpi.mechanism.class_estimator import _counts as counts
from dpi.mechanism.filtering.laplace_gauss import fisher_information, score_evidence

FAR = 2000
"""Users up to whom the sums of these tests go."""


def summed(total, payment, mean, doubt, most=FAR):
    """Mean and variance from a negative binomial prior (scipy's) of numbers below `most`, and Laplace noise."""
    users, shape = np.arange(most), mean**2 / doubt
    log = stats.nbinom.logpmf(users, shape, shape / (shape + mean)) - np.abs(total - payment * users)
    likely = np.exp(log - log.max())
    likely /= likely.sum()
    first = float(likely @ users)
    return first, float(likely @ (users - first) ** 2)


def normal(total, payment, mean, doubt):
    """Mean and variance by a normal law of the same mean and variance, as laws are filtered by it."""
    width = np.array([payment**2 * (mean + doubt)])
    residual = np.array([total - payment * mean])
    slope = float(score_evidence(residual, width, 1.0).slope[0])
    known = float(fisher_information(width, 1.0)[0])
    return mean + float(width[0]) * slope / payment, float(width[0] - width[0] ** 2 * known) / payment**2


bins = st.floats(counts.FAINT, 4.0), st.floats(0.01, 40.0), st.floats(0.01, 30.0), st.floats(-50.0, 250.0)
"""What a user pays, the expected number, its relative deviation, and the noisy sum."""


@settings(max_examples=200, deadline=None)
@given(*bins)
def test_the_posterior_is_a_sum_over_whole_numbers(payment, mean, deviation, total):
    """Mean and variance are those of a plain sum over numbers of users."""
    doubt = (deviation * mean) ** 2
    found = counts.posterior(np.array([total]), payment, np.array([[mean]]), np.array([[doubt]]))
    exact = summed(total, payment, mean, doubt, counts.MOST if total > counts.NEAR else FAR)
    assert [float(each[0, 0]) for each in found] == pytest.approx(exact, rel=1e-6, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(*bins)
def test_where_numbers_are_used_no_likely_one_is_missing(payment, mean, deviation, total):
    """`REACH`: wherever `whole` says so, numbers from `MOST` on move the mean by less than a tenth of a deviation."""
    doubt = (deviation * mean) ** 2
    arrays = np.array([total]), payment, np.array([[mean]]), np.array([[doubt]])
    if counts.whole(*arrays)[0, 0]:
        exact, variance = summed(total, payment, mean, doubt)
        assert abs(float(counts.posterior(*arrays)[0][0, 0]) - exact) < 0.1 * variance**0.5


def loss(payment, mean):
    """The expected squared error of a normal law over the least possible, of Poisson numbers."""
    users, grid = np.arange(200), np.arange(-20.0, payment * 60 + 20, 0.05)
    density = 0.5 * np.exp(-np.abs(grid[:, None] - payment * users)) * stats.poisson.pmf(users, mean)
    weight = density.sum(1)
    best = density @ users / weight
    guess = np.array([max(normal(total, payment, mean, 0.0)[0], 0.0) for total in grid])
    return 1 + float(weight @ (guess - best) ** 2) / float((density @ users**2 - weight * best**2).sum())


def test_below_faint_a_normal_law_is_as_good():
    """`FAINT`: there it loses less than a per cent, however many users a bin has; with loud payments more than ten."""
    means = (0.02, 0.3, 2.0, 20.0)
    assert max(loss(counts.FAINT, mean) for mean in means) < 1.01
    assert max(loss(8 * counts.FAINT, mean) for mean in means) > 1.1


def test_beyond_most_a_normal_law_is_as_good():
    """`MOST`: with as many users in a bin, two deviations fewer or more, both agree within a tenth of a deviation."""
    for payment in (counts.FAINT, 0.5, 1.0, 2.0):
        for away in (-2, 0, 2):
            total = payment * (counts.MOST + away * counts.MOST**0.5)
            exact, variance = summed(total, payment, counts.MOST, 0.1)
            found, spread = normal(total, payment, counts.MOST, 0.1)
            assert abs(found - exact) < 0.1 * variance**0.5
            assert variance / 2 < spread < 2 * variance


def test_a_loud_payment_tells_the_number():
    """With payments far above noise users are counted; where the sum is empty, so is the bin."""
    sums = np.array([0.0, 20.0, 41.0, 59.5])
    found, spread = counts.posterior(sums, 20.0, np.full((1, 4), 2.0), np.full((1, 4), 1.0))
    assert found == pytest.approx(np.array([[0.0, 1.0, 2.0, 3.0]]), abs=1e-6)
    assert (spread < 1e-6).all()


@pytest.mark.parametrize("payment", [0.25, 30.0, 870.0, 1e6])
def test_no_sum_is_too_large(payment):
    """Whatever is paid and measured, numbers are finite and between zero and the most."""
    sums = np.array([-1e3, -1.0, 0.0, 3.0, 5 * payment, 100 * payment])
    found, spread = counts.posterior(sums, payment, np.full((1, 6), 1.0), np.full((1, 6), 1.0))
    assert ((found >= 0) & (found < counts.MOST) & (spread >= -1e-9)).all()
