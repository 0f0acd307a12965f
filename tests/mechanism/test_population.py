"""The population of levels: what a message means to one who knows how many bins are of which size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.mechanism.filtering import _population as population
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering._population import Readout


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
