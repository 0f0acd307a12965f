"""Huge domains: states come back bit for bit, and memory is bounded."""

import tracemalloc

import numpy as np
import pytest

from dpi.budget import Epsilon
from dpi.domain import Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
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
    """A state comes back from its bytes bit for bit."""
    mechanism, counts = Boosted(season=season), slots(5)
    one, estimate = played(counts, mechanism)
    other, again = played(counts, mechanism, resumed=True)
    assert mechanism.to_bytes(one) == mechanism.to_bytes(other)
    assert estimate.pdf.tobytes() == again.pdf.tobytes()


def test_memory_is_bounded():
    """A state takes less than 100 bytes a bin, and an update less than 600 at its peak."""
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
    assert peak < 600 * bins
