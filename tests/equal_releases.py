"""Streams whose releases are equal whoever is in them, for tests of what else could be seen."""

from __future__ import annotations

import numpy as np
import pytest

from dpi.noise import SystemSource
from dpi.store.base import PaidSlot
from dpi.stream import slot_closer


def force_equal_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have measurements made of nothing, with numbers that follow from the slot: the same whoever was there."""
    measure = slot_closer.measure

    def blind(state, clean, offer, slot, source):
        paid = measure(state, clean, offer, slot, SystemSource())
        size = len(paid.values) // 8
        values = (np.random.default_rng(slot).integers(-50, 400, size) << 24).astype("<i8")
        return PaidSlot(
            paid.stream, slot, paid.epsilon, paid.partial, values.tobytes(), paid.allocation, paid.assumption, paid.tree
        )

    monkeypatch.setattr(slot_closer, "measure", blind)
