"""The exact loss of any mechanism along one transcript: every noisy number is fixed in advance, for all inputs alike.

What a mechanism adds noise to is written down on the way. If two inputs give the same releases, then data entered
through the noise alone; and the shifts between what was noised are the loss of that transcript, however adaptive the
mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from unittest import mock

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines import Baseline
from dpi_research.baselines.base import Concentrated

Make = Callable[[UnsafeSeededSource], Baseline]


@dataclass
class Played:
    """Releases, and what got noise: grains with the Laplace scale or the Gaussian variance, in records."""

    releases: list[list[float]] = field(default_factory=list)
    laplace: list[tuple[Integers, Fraction]] = field(default_factory=list)
    gaussian: list[tuple[Integers, Fraction]] = field(default_factory=list)


def play(make: Make, stream: Sequence[object], seed: int = 0, spread: float = 20.0) -> Played:
    """Run a mechanism whose noisy numbers are drawn in advance, around 0 and 10, whatever the data."""
    rng = np.random.default_rng(seed)
    seen = Played()

    def fixed(grains: Integers) -> Integers:
        # The data decide neither how many numbers are drawn in a call nor their values, or `strict` below complains.
        middle = rng.choice([0.0, 10.0])
        return np.rint((middle + spread * rng.standard_normal(grains.size)) * GRAINS).astype(np.int64)

    def laplace(mechanism: Baseline, grains: Integers, scale: Fraction) -> Integers:
        seen.laplace.append((grains.copy(), scale))
        return fixed(grains)

    def gaussian(mechanism: Concentrated, grains: Integers, variance: Fraction) -> Integers:
        seen.gaussian.append((grains.copy(), variance))
        return fixed(grains)

    with mock.patch.object(Baseline, "_laplace", laplace), mock.patch.object(Concentrated, "_gaussian", gaussian):
        mechanism = make(UnsafeSeededSource(seed))
        for counts in stream:
            seen.releases.append(mechanism.update(counts).tolist())
    return seen


def transcript_loss(
    make: Make, stream: Sequence[object], neighbour: Sequence[object], seed: int = 0, spread: float = 20.0
) -> tuple[Fraction, Fraction]:
    """(pure loss, ρ) of one transcript: Σ|shift|/scale, and Σ shift²/(2·variance); releases must be the same."""
    one, other = play(make, stream, seed, spread), play(make, neighbour, seed, spread)
    assert one.releases == other.releases, "the releases depend on data that got no noise"
    pure, rho = Fraction(0), Fraction(0)
    for (a, scale), (b, same) in zip(one.laplace, other.laplace, strict=True):
        assert scale == same
        pure += Fraction(int(np.abs(a - b).sum()), GRAINS) / scale
    for (a, variance), (b, same) in zip(one.gaussian, other.gaussian, strict=True):
        assert variance == same
        rho += Fraction(sum(int(x) ** 2 for x in a - b), GRAINS**2) / (2 * variance)
    return pure, rho
