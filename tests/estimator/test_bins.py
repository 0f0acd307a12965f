"""Bins: a change that lasts is followed, a season shows, noise is neither; at the signals of real streams."""

import numpy as np
import pytest

from dpi.estimator import Measurement, initial_state, step
from dpi_research.learn.beginning import histograms

BINS, PRICE = 30, 0.02


def play(levels, season=0, seed=1):
    """The shares that are released of users who all pay alike, slot after slot."""
    rng, state, rows = np.random.default_rng(seed), initial_state(BINS, max(season, 1)), []
    due, price = np.array([1, 0, 0, 0], np.float32), np.array([PRICE, 1e-7, 1e-7, 1e-7], np.float32)
    for slot, level in enumerate(levels):
        sums = np.zeros((4, BINS), np.float32)
        sums[0] = PRICE * rng.poisson(level) + rng.laplace(size=BINS)
        phase = slot % season if season else 0
        seen = Measurement(sums, due, price, phase, np.float32(season > 0), np.float32(0), np.zeros(4, np.float32))
        state, said = step(histograms(), state, seen)
        rows.append(said.shares)
    return np.array(rows)


def law():
    """Users by bin: one noise is 71 of them."""
    return 10_000 / (np.arange(BINS) + 2.0) / np.log(16)


def test_a_change_that_lasts_is_followed():
    """A bin of 225 users triples on slot 40: six noises a slot. Ten slots later it is shown at least at .8 of it."""
    levels = [law() * np.where((np.arange(BINS) == 14) & (slot >= 40), 3, 1) for slot in range(60)]
    ratio = np.mean([play(levels, seed=seed)[:, 14] for seed in range(5)], 0) / [row[14] / row.sum() for row in levels]
    assert ratio[30:40].mean() == pytest.approx(1, abs=0.25)
    assert ratio[50:].mean() > 0.8


def test_noise_is_no_change():
    """Nothing happens for 200 slots: what is released of a bin moves by less than a quarter of one slot's noise."""
    levels = [law()] * 200
    shares = play(levels)[100:]
    noise = np.sqrt(2) / PRICE / law().sum()
    assert np.median(shares.std(0)) < noise / 4


def test_a_season_shows_and_an_absent_one_does_not():
    """A bin has half as many users again on one weekday, four noises a visit; others are as on other days."""
    lift = lambda slot: np.where((np.arange(BINS) == 3) & (slot % 7 == 5), 1.5, 1)  # noqa: E731
    shares = np.mean([play([law() * lift(slot) for slot in range(112)], season=7, seed=seed) for seed in range(4)], 0)
    days = np.arange(112) % 7
    late = np.arange(112) >= 56
    of_day = shares[late & (days == 5)].mean(0) / shares[late & (days != 5)].mean(0)
    assert of_day[3] > 1.3
    assert np.abs(np.delete(of_day, 3)[:10] - 1).max() < 0.15
