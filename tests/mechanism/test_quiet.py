"""Huge domains: one row for all trackers where noise hides the bins, rows of their own where levels stand out."""

import tracemalloc

import numpy as np
import pytest

from dpi.budget import Epsilon
from dpi.domain import Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.boosted import _experts as quiet
from dpi.mechanism.boosted import _forecast as forecast
from dpi.mechanism.boosted._experts import Loud, Walked, merge_pool, walked_parts, whole_pool
from dpi.mechanism.filtering.gaussians import Gaussians
from dpi.noise import UnsafeSeededSource

EPSILON = Epsilon.at_most("0.05")
BINS = 10_000


def slots(count, bins=BINS, users=30_000):
    """Counts of zipf shares."""
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
