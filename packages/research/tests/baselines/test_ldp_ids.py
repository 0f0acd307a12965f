import math
from fractions import Fraction

import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.ldp_ids import LBA, LBD, LBU, LPA, LPD, LPU, LSP, Oracle
from statistics_ import assert_variance
from strategies import few

RUNS = few(1_000, 4_000)
METHODS = (LBU, LSP, LBD, LBA, LPU, LPD, LPA)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("size", [2, 5, 60])
def test_a_report_is_epsilon_private(size, epsilon):
    """The largest ratio of report probabilities between two values is e^ε, for either oracle."""
    oracle = Oracle(size, epsilon)
    if oracle.kind == "GRR":
        assert oracle.p / oracle.q == pytest.approx(math.exp(epsilon))
        assert oracle.p + (size - 1) * oracle.q == pytest.approx(1)
    else:  # one bit turns from "own" to "other", another the other way
        ratio = oracle.p * (1 - oracle.q) / (oracle.q * (1 - oracle.p))
        assert ratio == pytest.approx(math.exp(epsilon))


def test_the_better_oracle_is_chosen():
    """GRR below d = 3·e^ε + 2, OUE from there on: the border is where their variances cross."""
    for epsilon in (0.5, 1.0, 2.0):
        border = 3 * math.exp(epsilon) + 2
        assert Oracle(int(border), epsilon).kind == "GRR"
        assert Oracle(int(border) + 1, epsilon).kind == "OUE"


@pytest.mark.parametrize(("size", "epsilon"), [(3, 1.0), (6, 2.0), (30, 1.0)])
def test_estimates_are_unbiased_with_the_stated_variance(size, epsilon):
    """4,000 collections from 500 users: each frequency's mean and variance within six standard errors (< 10^-6)."""
    oracle = Oracle(size, epsilon)
    counts = np.zeros(size, dtype=np.int64)
    counts[:2] = 350, 150
    rng = np.random.default_rng(3)
    estimates = np.array([oracle.estimate(counts, rng) for _ in range(RUNS)])
    for value in (0, 1, 2):
        frequency = counts[value] / 500
        errors = estimates[:, value] - frequency
        variance = oracle.variance(500, frequency)
        assert abs(errors.mean()) < 6 * math.sqrt(variance / RUNS)
        assert_variance(errors, variance, kurtosis=3.2)
    assert oracle.mean_variance(500) == pytest.approx(
        np.mean([oracle.variance(500, c / 500) for c in counts]), rel=1e-12
    )


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize(("size", "epsilon"), [(3, 1.0), (30, 1.0)])
def test_the_variance_is_exact_for_every_frequency(size, epsilon, value):
    """p(1-p) and q(1-q) coins, summed over the users, give the formula for every frequency."""
    oracle, users = Oracle(size, epsilon), 1000
    for own in (0, 300, 1000):
        coins = own * oracle.p * (1 - oracle.p) + (users - own) * oracle.q * (1 - oracle.q)
        assert coins / (users * (oracle.p - oracle.q)) ** 2 == pytest.approx(
            oracle.variance(users, own / users), rel=1e-9
        )


@pytest.mark.parametrize("method", METHODS)
def test_releases_follow_the_stream_where_noise_is_small(method):
    """With many users and a large ε each method tracks a jump; LSP at its next sample."""
    mechanism = method(epsilon=8, bins=3, users=200_000, window=4, unsafe_source=UnsafeSeededSource(2))
    for t in range(12):
        counts = np.array([90_000, 50_000, 20_000]) if t < 6 else np.array([10_000, 50_000, 120_000])
        release = mechanism.update(counts)
    np.testing.assert_allclose(release, counts, atol=0.05 * 200_000)


@pytest.mark.parametrize("method", [LBD, LBA, LPD, LPA])
def test_no_window_takes_more_than_half(method):
    """Budgets, or users, of publications in any w slots are at most a half; publications do happen."""
    mechanism = method(epsilon=2, bins=3, users=50_000, window=5, unsafe_source=UnsafeSeededSource(1))
    rng, spent = np.random.default_rng(1), []
    for _ in range(60):
        mechanism.update(rng.integers(0, 15_000, 3))
        spent.append(mechanism.spent)
        assert sum(spent[-5:]) <= Fraction(1, 2)
    assert mechanism.published > 10
    if method in (LBD, LBA):
        assert (sum(spent) + 60 * Fraction(1, 10)) * 2 <= Fraction(mechanism.user_epsilon(60)).limit_denominator(10**6)


def test_losses_of_a_user_are_the_stated_ones():
    """LBU t·ε/w and LBA at most so; LSP and the population methods ⌈t/w⌉·ε; LBD tests and windows' halves."""
    options = {"epsilon": 1, "bins": 3, "users": 1000, "window": 10}
    for method, expected in ((LBU, 2.5), (LBA, 2.5), (LSP, 3), (LPU, 3), (LPD, 3), (LPA, 3), (LBD, 25 / 20 + 3 / 2)):
        assert method(**options).user_epsilon(25) == pytest.approx(expected)
        assert method(**options).user_epsilon(25, 2) == pytest.approx(2 * expected)


def test_dividing_users_is_better_than_dividing_budgets():
    """Mean variance: LPU's Var(ε, N/w) is below LBU's Var(ε/w, N), in the formulas and in 400 releases each."""
    options = {"epsilon": 1, "bins": 5, "users": 10_000, "window": 10}
    budget, population = LBU(**options), LPU(**options)
    assert population.mean_variance(1000, Fraction(1)) < budget.mean_variance(10_000, Fraction(1, 10)) / 3
    counts, errors = np.array([4000, 2000, 1000, 500, 500]), []
    for method in (LBU, LPU):
        mechanism = method(**options, unsafe_source=UnsafeSeededSource(3))
        errors.append(np.mean([(mechanism.update(counts) - counts) ** 2 for _ in range(400)]))
    assert errors[1] < errors[0] / 2
    assert errors[0] == pytest.approx(budget.variance(1), rel=0.2)  # six standard errors of 2,000 squares: 0.19


def test_more_records_than_users_are_drawn_from():
    """Each user then holds one of the records: shares are kept, and the sum is the users' number."""
    mechanism = LSP(epsilon=20, bins=2, users=10_000, window=1, unsafe_source=UnsafeSeededSource(3))
    release = mechanism.update([30_000, 10_000])
    np.testing.assert_allclose(release, [7500, 2500], atol=6 * math.sqrt(10_000))


def test_too_few_users_are_refused():
    """Dividing users over a window needs two for each slot."""
    with pytest.raises(OptionError, match="twice the window"):
        LPU(epsilon=1, users=30, window=20)
