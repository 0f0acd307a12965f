"""Huge domains: one row for all trackers where noise hides the bins, rows of their own where levels stand out."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget import Epsilon
from dpi.domain import Hashed
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.boosted import _experts as quiet
from dpi.mechanism.boosted import _forecast as forecast
from dpi.mechanism.boosted._experts import (
    ExpertPool,
    Loud,
    Walked,
    merge_pool,
    recall_season,
    remember_season,
    unknown_pool,
    walked_parts,
    whole_pool,
)
from dpi.mechanism.boosted._size import assimilate
from dpi.mechanism.filtering import _population as population
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering._population import Readout
from dpi.noise import UnsafeSeededSource


@pytest.mark.parametrize("drifts", [(), (0.1, 0.1), (0.3, 0.1), (-1.0,), (float("nan"),), (float("inf"),), ("0",)])
def test_drifts_are_increasing_numbers(drifts):
    """A pool's drifts are finite, not negative and strictly increasing."""
    with pytest.raises(OptionError, match="`drifts` must be increasing"):
        ExpertPool(drifts)


@pytest.mark.parametrize("season", [0, 1, -3, 2.5, True])
def test_a_season_has_two_slots_or_more(season):
    """A period is a whole number of at least two slots."""
    with pytest.raises(OptionError, match="`season` must be a number of slots from 2"):
        ExpertPool((0.1,), season)


@given(st.integers(1, 9), st.none() | st.integers(2, 100))
def test_prior_weights_are_a_law(trackers, season):
    """The prior over experts sums to one and has an entry for every expert; restart and challenger start with none."""
    pool = ExpertPool(tuple(range(trackers)), season)
    assert pool.prior.size - 1 == pool.steps(1.0).size == trackers + (season is not None) + 2
    assert (pool.prior[:-3] > 0).all()
    assert pool.prior[-3:-1].tolist() == [0, 0]
    assert pool.prior.sum() == pytest.approx(1)


def test_ageing_adds_the_walks_variance():
    """A log-walk of variance d² adds that times the second moment, to messages, readings and walks; means stay."""
    kept = Walked(Gaussians(np.array([[0.5], [0.5]]), np.array([[0.1], [0.1]])), np.array([[0.0], [0.02]]))
    readings = Gaussians(np.array([[0.4], [0.4]]), np.array([[0.04], [0.04]]))
    pool, read = kept.aged(readings, np.array([0.0, 0.25]))
    assert pool.messages.mean.tolist() == [[0.5], [0.5]]
    np.testing.assert_allclose(pool.messages.variance, [[0.1], [0.1 + 0.25 * 0.2]])
    np.testing.assert_allclose(read.variance, [[0.04], [0.04 + 0.25 * 0.2]])
    np.testing.assert_allclose(pool.walk, [[0.0], [0.02 + 0.25 * 0.2]])
    np.testing.assert_allclose(pool.measured.variance, [[0.1], [0.08]])


def test_a_measurement_forgets_the_walk_as_a_filter_does():
    """With gain k, of a message's error 1 - k is left: of its variance by walks (1 - k)²."""
    one, site = np.array([[1.0]]), 0.1
    before, forecast = Gaussians(0.5 * one, 0.3 * one), Gaussians(0.5 * one, 0 * one)
    messages, left = assimilate(before, forecast, one, 0 * one, one / site)
    after = Walked(messages, left**2 * 0.2)
    gain = 0.3 / (0.3 + site)
    assert messages.variance[0, 0] == pytest.approx(0.3 * site / (0.3 + site))
    assert after.walk[0, 0] == pytest.approx((1 - gain) ** 2 * 0.2)
    assert after.measured.variance[0, 0] == pytest.approx((1 - gain) ** 2 * 0.1 + gain**2 * site)


def test_a_log_walk_makes_no_large_bin_small():
    """However far a large bin may have walked, its reading has the mean of the message as it was measured."""
    pool = Walked(Gaussians(np.array([[0.5]]), np.array([[1e-4 + 0.1]])), np.array([[0.1]]))
    reading = pool.read(readout())
    assert reading.mean[0, 0] == pytest.approx(0.5, rel=0.01)
    assert reading.variance[0, 0] == pytest.approx(0.1, rel=0.01)
    assert readout().read(pool.messages).mean[0, 0] < 0.1  # what reading the wide message would give


def test_a_season_returns_what_was_remembered():
    """The seasonal expert's message comes back one period later; an unseen phase speaks as the leader."""
    rows = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]  # two trackers, restart, challenger
    walk = np.array([[0.1, 0.1], [0.2, 0.2], [0.0, 0.0], [0.0, 0.0]])
    kept = Walked(Gaussians(np.array(rows), np.ones((4, 2))), walk)
    pool = recall_season(kept, (None, None), slot=4, leader=1, mass=1.0)
    assert pool.messages.mean.tolist() == [*rows[:2], rows[1], *rows[2:]]
    assert pool.walk.tolist() == [*walk[:2].tolist(), walk[1].tolist(), *walk[2:].tolist()]
    doubled = Walked(pool.messages.rescaled(2), pool.walk)
    rest, season = remember_season(doubled, (None, None), slot=4, mass=2.0)
    assert rest.messages.mean.tolist() == (2 * kept.messages.mean).tolist()
    assert rest.walk.tolist() == walk.tolist()
    assert season[1] is None
    again = recall_season(kept, season, slot=6, leader=0, mass=0.5)
    assert again.messages.mean[2].tolist() == [0.1, 0.4]
    assert again.walk[2].tolist() == [0, 0]


def readout(bins=50, narrowest=1e-8, widest=1e-2):
    """A table for the initial population."""
    return Readout.tabulate(population.initial_population(bins), bins, narrowest, widest)


def test_a_message_that_says_nothing_reads_as_the_population():
    """With a variance beyond all levels the reading is the population's own mean and variance."""
    bins = 50
    level, share = population.grid_levels(bins), population.initial_population(bins)
    table = Readout.tabulate(share, bins, 1e4, 1e5)
    reading = table.read(Gaussians(np.zeros(1), np.full(1, 3e4)))
    mean = share @ level
    assert reading.mean[0] == pytest.approx(mean, rel=1e-3)
    assert reading.variance[0] == pytest.approx(share @ ((1 + population.WIDTH**2) * level**2) - mean**2, rel=1e-3)


def test_a_certain_message_reads_as_itself():
    """Far from zero, the population has nothing to add."""
    reading = readout().read(Gaussians(np.array([0.3]), np.array([1e-6])))
    assert reading.mean[0] == pytest.approx(0.3)
    assert reading.variance[0] == pytest.approx(1e-6)


def test_the_table_is_the_exact_posterior():
    """Bilinear reading differs from direct summation by less than three per cent of the message's deviation."""
    rng = np.random.default_rng(1)
    level, share = population.grid_levels(50), population.initial_population(50)
    variance = np.exp(rng.uniform(np.log(1e-8), np.log(1e-2), 2000))
    mean = rng.uniform(-4, 9, 2000) * np.sqrt(variance)
    reading = readout().read(Gaussians(mean, variance))
    own = (population.WIDTH * level) ** 2
    both = variance[:, None] + own
    posterior = share * np.exp(-0.5 * (mean[:, None] - level) ** 2 / both) / np.sqrt(both)
    posterior /= posterior.sum(1, keepdims=True)
    means = np.maximum((level * variance[:, None] + mean[:, None] * own) / both, 0.05 * level)
    exact = (posterior * means).sum(1)
    assert (np.abs(reading.mean - exact) < 0.03 * np.sqrt(variance)).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.floats(1e-20, 1e5))
def test_readings_are_positive_and_finite(means, variance):
    """Every message, however far below zero, reads as a positive level with a positive variance."""
    messages = Gaussians(np.array(means), np.full(len(means), variance))
    table = Readout.tabulate(population.initial_population(len(means)), len(means), variance, 2 * variance)
    reading = table.read(messages)
    for array in (reading.mean, reading.variance):
        assert np.isfinite(array).all()
        assert (array > 0).all()
    learned = table.learned(messages, reading, reach=0.01)
    assert np.isfinite(learned).all()
    assert (learned > 0).all()
    assert learned.sum() == pytest.approx(1)


def test_the_population_is_learned():
    """After a few slots the population's mean level in two-level data lies where the two levels are.

    False alarm below 10^-9: messages are ten deviations apart.
    """
    rng = np.random.default_rng(3)
    bins = 1000
    true = np.where(np.arange(bins) < 50, 0.015, 0.00026)
    messages = Gaussians(true + 1e-4 * rng.standard_normal(bins), np.full(bins, 1e-8))
    share = population.initial_population(bins)
    for _ in range(30):
        table = Readout.tabulate(share, bins, 1e-8, 1e-7)
        share = table.learned(messages, table.read(messages), reach=3e-4)
    level = population.grid_levels(bins)
    high = share[level > 0.005].sum()
    assert abs(high - 0.05) < 0.01
    assert share[(level > 0.001) & (level < 0.005)].sum() < 0.02


def test_a_pool_that_saw_nothing_is_uniform():
    """Before the first slot every expert's mean is uniform and its variance beyond every level."""
    pool = unknown_pool(3, 4)
    assert (pool.mean == 0.25).all()
    assert (pool.variance > 1).all()


EPSILON = Epsilon.at_most("0.05")
BINS = 10_000


def slots(count, bins=BINS, users=30_000):
    """NoisyCounts of zipf shares."""
    rng, shares = np.random.default_rng(3), 1 / np.arange(1, bins + 1) ** 1.1
    return [rng.multinomial(users, shares / shares.sum()) for _ in range(count)]


def played(counts, mechanism=None, resumed=False):
    """The last state and estimate; `resumed` from bytes after every slot."""
    mechanism, source = mechanism or Boosted(), UnsafeSeededSource(1)
    domain = Hashed(counts[0].size, bytes(32))
    state, estimate = mechanism.initial(domain), None
    for slot, clean in enumerate(counts):
        measurement = mechanism.measure(state, Histogram(clean * GRAINS, GRAINS), EPSILON, slot, source)
        state, estimate = mechanism.update(state, measurement)
        state = mechanism.from_bytes(domain, mechanism.to_bytes(state)) if resumed else state
    return state, estimate


@pytest.mark.parametrize("season", [None, 2])
def test_a_resumed_huge_domain_is_the_uninterrupted_one(season):
    """Loud bins are in the bytes of a state, and come back bit for bit."""
    mechanism, counts = Boosted(season=season), slots(5)
    one, estimate = played(counts, mechanism)
    other, again = played(counts, mechanism, resumed=True)
    assert one.loud.at.size > 0
    assert mechanism.to_bytes(one) == mechanism.to_bytes(other)
    assert estimate.pdf.tobytes() == again.pdf.tobytes()


def test_what_is_quiet_does_not_show():
    """The release is as near to the truth as with a row of its own for every tracker in every bin: within 1 %."""
    counts = slots(12)
    truth = counts[-1] / counts[-1].sum()
    divergence = []
    for share in (quiet.STANDS_OUT, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quiet, "STANDS_OUT", share)
            state, estimate = played(counts)
        assert (state.loud.at.size == BINS) == (share == 0)
        seen = truth > 0
        divergence.append(float((truth[seen] * np.log(truth[seen] / estimate.pdf[seen])).sum()))
    few, all_loud = divergence
    assert few == pytest.approx(all_loud, rel=0.01)


def test_the_largest_bins_are_loud():
    """Those that stand out of the noise have a row for every tracker, and the row for all is the leader's there too."""
    state, _ = played(slots(12))
    assert set(range(20)) <= set(state.loud.at.tolist())
    assert state.loud.at.size < BINS / 10
    for every, own in zip(
        (state.pool.mean, state.pool.variance, state.walk), walked_parts(state.loud.trackers), strict=True
    ):
        assert every[0, state.loud.at].tobytes() == own[state.leader].tobytes()


def test_experts_without_weight_need_no_reading():
    """A slot that is not looked at has the same estimate, bit for bit, where they are read too."""
    state, _ = played(slots(6))
    estimates = []
    for least in (forecast.UNHEARD, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecast, "UNHEARD", least)
            assert (np.exp(state.log_weights[-3:-1]) > least).all() == (least == 0)
            _, estimate = Boosted().update(state, Measurement(6, Epsilon(0), np.zeros(0, dtype=np.int64)))
        estimates.append((estimate.pdf.tobytes(), estimate.variance.tobytes(), estimate.total))
    assert estimates[0] == estimates[1]


def test_whole_rows_come_back():
    """A pool of whole rows is the same after all of its bins were loud; others have the leader's messages."""
    rng = np.random.default_rng(0)
    pool = Walked(Gaussians(rng.random((5, 7)), rng.random((5, 7))), rng.random((5, 7)))
    few, loud = merge_pool(pool, 1)
    for one, other in zip(walked_parts(whole_pool(few, loud)), walked_parts(pool), strict=True):
        assert one.tobytes() == other.tobytes()
    some = Loud(
        loud.at[2:4], Walked(Gaussians(*(part[:3, 2:4] for part in walked_parts(pool)[:2])), pool.walk[:3, 2:4])
    )
    mean = whole_pool(few, some).messages.mean
    assert mean[:3, 2:4].tolist() == pool.messages.mean[:3, 2:4].tolist()
    assert mean[0, [0, 1, 4, 5, 6]].tolist() == pool.messages.mean[1, [0, 1, 4, 5, 6]].tolist()


def test_memory_is_bounded():
    """A state takes less than 100 bytes a bin, and an update less than 400 at its peak."""
    bins = 60_000
    mechanism, source, counts = Boosted(), UnsafeSeededSource(1), slots(3, bins, 100_000)
    domain = Hashed(bins, bytes(32))
    state = mechanism.initial(domain)
    for slot, clean in enumerate(counts):
        measurement = mechanism.measure(state, Histogram(clean * GRAINS, GRAINS), EPSILON, slot, source)
        tracemalloc.start()
        state, _ = mechanism.update(state, measurement)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(mechanism.to_bytes(state)) < 100 * bins
    assert peak < 400 * bins
