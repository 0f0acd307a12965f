"""What a price list asks, in the ledger's words."""

from fractions import Fraction

import numpy as np

from dpi_research.learn.prices import STEPS


def in_groups(prices, slot):
    """The groups of a slot: its due classes with the share of each."""
    steps = np.round(prices.shares(slot) * STEPS).astype(int)
    groups = {}
    for number, (part, group) in enumerate(zip(steps.tolist(), prices.histogram().tolist(), strict=True)):
        if part:
            groups.setdefault(group, []).append((number, Fraction(part, STEPS)))
    return tuple(tuple(group) for group in groups.values())
