"""Hypothesis strategies for events, users and amounts: one place for all tests."""

from __future__ import annotations

import os
from fractions import Fraction

from hypothesis import strategies as st

UNITS = 1 << 40


def few(quick: int, slow: int) -> int:
    """How many examples or draws a test takes: the second number where `DPI_SLOW` is set."""
    return slow if os.environ.get("DPI_SLOW") else quick


texts = st.text(max_size=40).filter(lambda s: s.isprintable())
user_ids = st.one_of(st.integers(-(2**70), 2**70), texts, st.uuids(), st.binary(max_size=20), st.none(), st.floats())
simple_ids = st.integers(0, 8)
bins = st.integers(-1, 5)
events = st.lists(st.tuples(simple_ids, bins), max_size=60)
mixed_events = st.lists(st.tuples(user_ids, bins), max_size=30)
amounts = st.integers(1, 4 * UNITS)
scales = st.fractions(Fraction(1, 4), Fraction(8), max_denominator=50)
keys = st.binary(min_size=32, max_size=32)
