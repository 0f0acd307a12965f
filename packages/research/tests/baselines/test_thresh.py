import math

import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.ldp_ids import users_randomness
from dpi_research.baselines.thresh import Thresh
from strategies import few


def make(seed=0, **options):
    """A setting in which votes can be paid for."""
    given = {"epsilon": 8, "users": 20_000, "epochs": 16, "length": 500} | options
    return Thresh(**given, unsafe_source=UnsafeSeededSource(seed))


def test_noise_levels_are_the_published_ones():
    """Levels a and b by the formulas at n = 20,000, T = 16, ℓ = 500, with natural logarithms inside the roots."""
    mechanism = make()
    log = math.log(12 * 16 / 0.1)
    a = 4 * math.sqrt(2 * 20_000 * log) / (20_000 - 3 / math.sqrt(2) * math.sqrt(20_000 * log))
    near = math.sqrt(log / (2 * 20_000))
    b = math.sqrt(2 * log / (2 * 20_000)) / (4 * math.sqrt(math.log(12 * 20_000 * 16 / 0.1) / 1000) - near)
    assert mechanism.vote_cost == pytest.approx(a)
    assert mechanism.estimate_cost == pytest.approx(b)


@pytest.mark.parametrize(("epochs", "deepest"), [(2, 1), (15, 3), (16, 4), (64, 6), (100, 6)])
def test_levels_are_counted_to_the_base_two(epochs, deepest):
    """Trap of a public port: it takes log₁₀ T, so that small changes are voted on 2^5 times as often at T = 100."""
    assert make(epochs=epochs).deepest == deepest


def test_users_vote_at_the_times_of_their_change():
    """b* = max{b: |change| > τ_b}; a vote at epoch t needs 2^(⌊log₂ T⌋ - b*) | t; no change, no vote."""
    mechanism = make()
    spread = math.sqrt(math.log(12 * 20_000 * 16 / 0.1) / 1000)
    for change in np.linspace(0, 1, 41):
        levels = [b for b in range(-1, 5) if change > 2 * (b + 1) * spread]
        for epoch in range(1, 17):
            expected = bool(levels) and epoch % 2 ** (4 - max(levels)) == 0
            assert bool(mechanism.wants(np.array([change]), epoch)[0]) == expected


def test_an_estimate_is_unbiased():
    """Trap of a public port: misplaced brackets in the law. Renewals average the users' mean (< 10^-8)."""
    mechanism, runs = make(users=20_000), few(500, 2_000)
    means = np.linspace(0, 1, 20_000)
    rng = users_randomness(UnsafeSeededSource(4))
    renewals = [mechanism.renewal(means, np.ones(20_000, dtype=bool), rng) for _ in range(runs)]
    power = math.exp(mechanism.estimate_cost)
    deviation = (power + 1) / (power - 1) / 2 / math.sqrt(20_000)  # at most
    assert abs(np.mean(renewals) - 0.5) < 6 * deviation / math.sqrt(runs)
    assert np.std(renewals) < deviation * 1.2


def test_bits_cost_a_and_b():
    """The laws of a vote and of an estimate differ from those of silence by e^a and e^b at most."""
    mechanism = make()
    quiet = 1 / (math.exp(mechanism.vote_cost) + 1)
    assert (1 - quiet) / quiet == pytest.approx(math.exp(mechanism.vote_cost))
    power = math.exp(mechanism.estimate_cost)
    for mean in (0.0, 0.3, 1.0):
        heads, silent = (1 + mean * (power - 1)) / (power + 1), 1 / (power + 1)
        assert 1 <= heads / silent <= power * (1 + 1e-12)
        assert 1 <= (1 - silent) / (1 - heads) <= power * (1 + 1e-12)


def test_no_user_pays_more_than_a_quarter_for_votes_or_estimates():
    """However the stream jumps, every user's votes cost at most ε/4, and estimates too; so the total is at most ε."""
    mechanism = make(epsilon=3, length=300)
    for t in range(16 * 300):
        mechanism.update(20_000 if (t // 300) % 2 else 0)
    assert mechanism.renewals[0] > 0
    assert mechanism._votes.max() * mechanism.vote_cost <= 3 / 4
    assert mechanism._estimates.max() * mechanism.estimate_cost <= 3 / 4


def test_a_jump_is_noticed_and_a_constant_stream_is_left_alone():
    """A large change is renewed at once, near the new mean; on a constant stream no more renewals follow."""
    mechanism = make(seed=1, epochs=4, length=1500, epsilon=20)
    releases = [float(mechanism.update(0 if t < 1500 else 18_000)[0]) for t in range(4 * 1500)]
    assert np.isnan(releases[:1499]).all()
    assert releases[1499] == 0
    assert releases[2999] == pytest.approx(18_000, rel=0.15)
    assert mechanism.renewals[0] == 1


def test_the_loss_does_not_grow_with_time():
    """ε for every t after the first epoch and any number of records; nothing before."""
    mechanism = make()
    assert [mechanism.user_epsilon(t, 50) for t in (0, 499, 500, 8000)] == [0, 0, 8, 8]


def test_where_epsilon_pays_for_no_vote_nothing_is_renewed():
    """At a small ε no user can ever vote; that costs no memory, and the release stays 0."""
    mechanism = make(epsilon=0.01, length=2, epochs=2)
    assert mechanism.most_votes == 0
    assert [float(mechanism.update(20_000)[0]) for _ in range(4)][1:] == [0, 0, 0]
    assert mechanism.memory == 3


def test_undefined_noise_levels_are_refused():
    """Too few users, or epochs too long for them."""
    with pytest.raises(OptionError, match="noise level"):
        Thresh(epsilon=1, users=5)
    with pytest.raises(OptionError, match="noise level"):
        Thresh(epsilon=1, users=100, length=10**6)
    with pytest.raises(OptionError, match="failure"):
        Thresh(epsilon=1, failure=1.5)
