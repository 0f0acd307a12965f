"""What one slot of discovery shows, as a whole: joint frequencies against the law of noise on every text."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import TextHistogram
from dpi.mechanism.text_histogram import SparseHistogram, unpacked
from dpi.noise import UnsafeSeededSource
from statistics_ import assert_law

UNIVERSE = dpi.Texts(2, characters="aé")
TEXTS = ["a", "aa", "é"]
"""One of one byte, and two of two bytes."""
ONE = Epsilon.at_most(1)
HIGH = 3 * GRAINS
"""Sums are low or high."""


def dense(grains):
    """The law of what is shown of each text, with continuous noise: its steps of 2^-24 are far below what is tested."""

    def at_least(y):
        return math.exp(-y) / 2 if y > 0 else 1 - math.exp(y) / 2

    least = SparseHistogram(failure=1).thresholds(UNIVERSE, ONE)
    laws = []
    for text in TEXTS:
        shown, high = (at_least((y - grains.get(text, 0)) / GRAINS) for y in (least[len(text.encode())], HIGH))
        laws.append({None: 1 - shown, "low": shown - high, "high": high})
    return {cell: math.prod(law[y] for law, y in zip(laws, cell, strict=True)) for cell in itertools.product(*laws)}


def test_a_slot_shows_what_noise_on_every_text_would():
    """Texts of somebody and of nobody, of a length that nobody has too, low and high (false alarm 10^-7)."""
    grains = {"aa": GRAINS}
    mechanism, source = SparseHistogram(failure=1, most=3), UnsafeSeededSource(5)
    clean = TextHistogram(np.array([*grains.values()]), GRAINS, texts=[*grains])
    state, found = mechanism.initial(UNIVERSE), Counter()
    for _ in range(800):
        shown = unpacked(UNIVERSE, mechanism.measure(state, clean, ONE, 0, source).values)
        assert shown.keys() <= set(TEXTS)
        found[tuple(None if t not in shown else "high" if shown[t] >= HIGH else "low" for t in TEXTS)] += 1
    law = dense(grains)
    assert sum(law.values()) == pytest.approx(1)
    assert_law([found[cell] for cell in law], list(law.values()))
