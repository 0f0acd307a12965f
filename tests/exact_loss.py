"""The exact privacy loss of mechanisms that add Laplace noise: every noised vector is written down, on two inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from unittest import mock

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines import Baseline

Noised = list[tuple[Integers, Fraction]]
Make = Callable[[UnsafeSeededSource], Baseline]


def noised(make: Make, stream: Sequence[object]) -> Noised:
    """What the mechanism adds noise to, with the scale in records, over a whole stream."""
    seen: Noised = []
    draw = Baseline._laplace

    def record(mechanism: Baseline, grains: Integers, scale: Fraction) -> Integers:
        seen.append((grains.copy(), scale))
        return draw(mechanism, grains, scale)

    with mock.patch.object(Baseline, "_laplace", record):
        mechanism = make(UnsafeSeededSource(5))
        for counts in stream:
            mechanism.update(counts)
    return seen


def exact_loss(make: Make, stream: Sequence[object], neighbour: Sequence[object]) -> Fraction:
    """Σ |shift|/scale over all noised numbers: the largest log-likelihood ratio over all outputs, and it is attained.

    For mechanisms whose sums and scales do not depend on earlier noise, so that the two runs can be paired.
    """
    total = Fraction(0)
    for (one, scale), (other, same) in zip(noised(make, stream), noised(make, neighbour), strict=True):
        assert scale == same
        total += Fraction(int(np.abs(one - other).sum()), GRAINS) / scale
    return total


def stated(mechanism: Baseline, slots: int) -> Fraction:
    """The mechanism's own number for a user with one record in every slot, as a fraction."""
    loss = mechanism.loss(slots)
    return sum((ratio * count for ratio, count in loss.shifts.items()), loss.pure)
