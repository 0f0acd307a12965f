"""Laws of users by how often they have paid: first, moving, jumping, uniform; and their covariances."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocked_users import divergence, play
from dpi.mechanism.class_estimator import _hypotheses as laws
from dpi.mechanism.class_estimator._distributions import PACES, DistributionFilter
from dpi.mechanism.class_estimator._hypotheses import Distributions

LAW = np.arange(10, 0, -1) / 55
BINS = LAW.size
EACH = 0.5
"""What a user pays."""


def begin(users=4000, seed=0):
    """Laws after a first slot of so many newcomers, and the noise of what follows."""
    rng = np.random.default_rng(seed)
    filter_ = DistributionFilter(Distributions.begun(BINS))
    filter_.begin(rng.poisson(users * LAW) * EACH + rng.laplace(0, 1, BINS), users * EACH, users * EACH**2)
    filter_.normalise()
    return filter_, rng


def observe(filter_, rng, law, users=4000, first=False):
    """One more slot of newcomers alone, who are drawn from a law."""
    filter_.age(1, np.array([float(users)]))
    sums = rng.poisson(users * law) * EACH + rng.laplace(0, 1, BINS)
    seen = filter_.observe(sums, np.array([users * EACH]), users * EACH**2, np.array([float(users)]), 0)
    filter_.normalise()
    filter_.level = np.maximum(lead(filter_), 1e-3 / BINS)
    return seen


def lead(filter_):
    """The law of newcomers, by the weights of the hypotheses."""
    return filter_.weights(0) @ filter_.mean[..., 0]


def test_the_first_law_is_what_was_measured():
    """Every hypothesis has it, within five deviations of noise and of chance, and knows how well."""
    filter_, _ = begin()
    assert filter_.mean[..., 0].sum(1) == pytest.approx(np.ones(laws.HYPOTHESES), abs=1e-3)
    away = filter_.mean[..., 0] - LAW
    assert (np.abs(away) < 5 * filter_.covariance[..., 0, 0] ** 0.5).all()
    assert (filter_.covariance[..., 0, 0] < (0.1 * LAW.max()) ** 2).all()


def test_a_law_that_stays_is_known_better_and_better():
    """After forty slots the error is less than half of that of one slot, and slow hypotheses lead."""
    once, often = [], []
    for seed in range(8):
        filter_, rng = begin(seed=seed)
        once.append(np.abs(lead(filter_) - LAW).sum())
        for slot in range(40):
            observe(filter_, rng, LAW, first=not slot)
        often.append(np.abs(lead(filter_) - LAW).sum())
        assert laws.DRIFTS[filter_.weights(0).argmax() % len(laws.DRIFTS)] < max(laws.DRIFTS)
    assert np.mean(often) < 0.5 * np.mean(once)


def test_a_law_that_moves_is_followed():
    """Levels that walk by a tenth in every slot: fast hypotheses lead, and the law is near where it is, not was."""
    filter_, rng = begin()
    law = LAW
    for slot in range(40):
        law = law * np.exp(rng.normal(0, 0.1, BINS))
        law /= law.sum()
        observe(filter_, rng, law, first=not slot)
    assert divergence(law, np.maximum(lead(filter_), 1e-6)) < 0.1 * divergence(law, LAW)
    assert laws.DRIFTS[filter_.weights(0).argmax() % len(laws.DRIFTS)] > min(laws.DRIFTS)


@pytest.mark.parametrize("bin_", [0, BINS - 1])
def test_a_bin_that_jumps_is_believed_at_once(bin_):
    """After twenty still slots a bin is five times as large: more than half of that is seen in its first slot."""
    filter_, rng = begin()
    for slot in range(20):
        observe(filter_, rng, LAW, first=not slot)
    law = LAW * np.where(np.arange(BINS) == bin_, 5, 1)
    law /= law.sum()
    before = lead(filter_)[bin_]
    observe(filter_, rng, law)
    assert lead(filter_)[bin_] - before > 0.5 * (law[bin_] - before)


def test_laws_that_were_not_measured_get_doubts_of_a_jump():
    """Their mean in the bin hardly moves of itself, but their variance grows."""
    filter_, rng = begin()
    seen = observe(filter_, rng, LAW, first=True)
    filter_.move_up(0, 1.0, seen, 4000.0, 1.0)
    doubt = filter_.covariance[:, 0, 1, 1].copy()
    sums = 4000 * EACH * np.r_[0.9, np.full(BINS - 1, 0.1 / (BINS - 1))]
    filter_.observe(sums, np.array([4000 * EACH, 0.0]), 4000 * EACH**2, np.array([4000.0, 1000.0]), 0)
    assert (filter_.covariance[:, 0, 1, 1] > doubt).all()


def eigenvalues(covariance):
    """The least of each bin, over the largest."""
    found = np.linalg.eigvalsh(covariance.astype(np.float64))
    return found[..., 0] / np.maximum(found[..., -1], 1e-30)


@pytest.mark.parametrize("seed", range(3 if os.environ.get("DPI_SLOW") else 1))
def test_covariances_stay_positive(seed):
    """Over 200 slots of random crowds from nobody to thousands, some of whom return: no negative variance anywhere."""
    rng = np.random.default_rng(seed)
    slots, newest = [], 3000
    for _ in range(200):
        count, fresh = int(10 ** rng.uniform(0, 3.4)) - 1, int(10 ** rng.uniform(0, 3)) - 1
        users = np.r_[rng.choice(3000, count, replace=False), newest + np.arange(fresh)]
        slots.append((users, rng.choice(BINS, users.size, p=rng.dirichlet(30 * LAW))))
        newest += fresh
    for state, _ in play(slots, BINS, seed=seed):
        covariance = state.laws.covariance
        assert np.isfinite(covariance).all()
        assert np.isfinite(state.laws.mean).all()
        np.testing.assert_allclose(covariance, np.swapaxes(covariance, 2, 3), rtol=1e-4, atol=1e-12)
        assert eigenvalues(covariance).min() > -1e-4


def drifting(step, slots=80, users=20_000, seed=6):
    """Users who are all there in every slot, and draw from a law whose log-levels walk."""
    rng, logs = np.random.default_rng(seed), np.log(LAW)
    for _ in range(slots):
        law = np.exp(logs - logs.max())
        yield np.arange(users), rng.choice(BINS, users, p=law / law.sum())
        logs = logs + step * rng.normal(size=BINS)


@pytest.mark.parametrize("seed", range(3))
def test_the_pace_follows_how_fast_a_stream_moves(seed):
    """Where levels jump about, it rises; where nothing moves, no histogram asks for more."""
    *_, (calm, _) = play(drifting(0.0, seed=seed), BINS, seed=seed)
    *_, (wild, _) = play(drifting(0.4, seed=seed), BINS, seed=seed)
    assert wild.pace.max() > 1 > calm.pace.max()
    low, high = PACES
    assert ((low <= wild.pace) & (wild.pace <= high)).all()


def test_laws_sum_to_one():
    """Each law of each hypothesis, to a few per cent: who moved up brought visits that the next slot counts again."""
    rng = np.random.default_rng(3)
    slots = [(rng.choice(2000, 1500, replace=False), rng.choice(BINS, 1500, p=LAW)) for _ in range(40)]
    *_, (state, _) = play(slots, BINS)
    assert state.laws.mean.shape[2] == len(laws.BANDS)
    assert state.laws.mean.sum(1) == pytest.approx(np.ones((laws.HYPOTHESES, len(laws.BANDS))), abs=5e-2)


def test_uniform_data_gives_a_uniform_release():
    """Of users who are drawn evenly the law is even, and the release is nearer to the slot's own PDF than the guess."""
    rng = np.random.default_rng(4)
    slots = [(1000 * slot + np.arange(1000), rng.integers(0, 50, 1000)) for slot in range(40)]
    *_, (state, last) = play(slots, 50)
    truth = np.bincount(slots[-1][1], minlength=50).astype(float)
    assert divergence(truth, last.pdf) < 0.5 * divergence(truth, np.full(50, 1 / 50))
    assert 1 / (1 + np.exp(-state.laws.uniform[0])) > 0.9


def test_classes_share_laws_and_histograms_in_order():
    """Every class has one of each; newcomers have both to themselves, and no law is measured in two histograms."""
    assert (np.diff(laws.BAND_OF) >= 0).all()
    assert (np.diff(laws.GROUP_OF) >= 0).all()
    assert [laws.BAND_OF[1], laws.GROUP_OF[1]] == [1, 1]
    pairs = set(zip(laws.BAND_OF.tolist(), laws.GROUP_OF.tolist(), strict=True))
    assert len(pairs) == len(laws.BANDS)


@settings(deadline=None, max_examples=50)
@given(st.floats(1.0, 1e6), st.floats(-3, 3), st.integers(0, 10**6))
def test_fit_finds_what_is_paid(whole, shift, seed):
    """If sums look like the law, their total is found within five deviations and its own misfit."""
    filter_, _ = begin()
    sums = whole * LAW + np.random.default_rng(seed).laplace(0, 1, BINS)
    found, variance, *_ = filter_.fit(sums, np.array([whole * np.exp(shift)]), 0, EACH)
    assert abs(found - whole) < 5 * variance**0.5
