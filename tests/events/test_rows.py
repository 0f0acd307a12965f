"""Rows that are added up: one for each account, slot and bin, whoever else is among them."""

from collections import Counter

import numpy as np
import pytest

from dpi.events.rows import Rows
from dpi.exact.integers import MOST


@pytest.mark.parametrize("widest", [4, 1 << 61], ids=["few bins", "too many for a word"])
@pytest.mark.parametrize("size", [0, 1, 5, 200])
def test_a_sum_has_one_row_for_each_account_slot_and_bin(size, widest):
    """Sorted, in whatever order rows come, also where names agree in one half; counts are cut at the most."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        names = rng.choice(np.array([0, 1, 1 << 63], dtype=np.uint64), (size, 2))
        slots = rng.integers(-3, 3 - 5 * (seed % 3 % 2), size)
        bins = rng.choice([0, 1, 2, widest][: 1 + seed % 4], size)
        counts = rng.choice([1, 2, MOST], size)
        expected = Counter()
        for *key, count in zip(*names.T.tolist(), slots.tolist(), bins.tolist(), counts.tolist(), strict=True):
            expected[tuple(key)] += count
        whole = Rows(names, slots, bins, counts)
        found = Rows.sum([whole.only(slice(0, size // 3)), whole.only(slice(size // 3, size))])
        keys = list(zip(*found.names.T.tolist(), found.slots.tolist(), found.bins.tolist(), strict=True))
        assert keys == sorted(expected)
        assert found.counts.tolist() == [min(expected[key], MOST) for key in keys]
