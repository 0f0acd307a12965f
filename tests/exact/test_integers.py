"""Divisions of whole numbers that are exact where 64 bits would not be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpi.exact.integers import GRAINS, fraction_ceil, fraction_floor


@given(st.integers(1, 2**51 - 1), st.data())
def test_fraction_floor_is_exact(whole, data):
    """floor(part · 2^24 / whole) equals arbitrary precision up to 51 bits."""
    part = data.draw(st.integers(0, whole))
    assert fraction_floor(np.array([part]), whole).tolist() == [part * GRAINS // whole]


@given(st.integers(0, 2**50), st.integers(0, GRAINS))
def test_fraction_ceil_is_exact(amount, grains):
    """ceil(amount · grains / 2^24) equals arbitrary precision up to 50 bits."""
    assert fraction_ceil(amount, np.array([grains])).tolist() == [-(-amount * grains // GRAINS)]
