"""Mechanisms of a few lines, by class or not: for audits and tests in which estimates are not the point.

What they release is the plain sum of the groups' noisy counts; what they ask follows from what was released last, so
that budgets depend on the transcript.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

import numpy as np

from dpi.budget.classes import PaymentRequest, level
from dpi.budget.epsilon import Epsilon
from dpi.domain import Domain
from dpi.errors import StateError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Estimate, Measurement, Mechanism
from dpi.noise import RandomSource, add_laplace
from dpi.testing.laws import Laplace, Law, Point

FEW, MANY = (Fraction(1, 2), Fraction(1, 4)), (Fraction(3, 4), Fraction(5, 16))
"""What newcomers and others are asked for after a slot with few users, and after one with many."""


@dataclass(frozen=True)
class SumsState:
    """What was released last: grains of all classes together."""

    bins: int
    classes: int
    total: int = 0


@dataclass(frozen=True)
class ClassSums(Mechanism[SumsState]):
    """The noisy counts of all classes that were due, by the clock, added up.

    >>> from dpi.domain import Categories
    >>> sums = ClassSums()
    >>> state = sums.initial(Categories(["a", "b"], other=None), classes=5)
    >>> [(m, str(share)) for ((m, share),) in sums.request_payments(state, 7)]
    [(0, '1/2'), (1, '1/4'), (2, '1/4')]
    """

    by_class = True
    largest_sensitivity = GRAINS

    def initial(self, domain: Domain, classes: int = 1) -> SumsState:
        """Return the state in which nothing was released."""
        return SumsState(domain.size, classes)

    def request_payments(self, state: SumsState, slot: int) -> PaymentRequest:
        """Return what classes that are due by the clock are asked for: more after a slot of many users."""
        first, later = MANY if state.total > 100 * GRAINS else FEW
        return tuple([((m, later if m else first),) for m in range(level(slot, state.classes - 1) + 1)])

    def measure(
        self, state: SumsState, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Measure one class alone: the histogram plus discrete Laplace noise of scale G/ε, which is ε·w-DP."""
        noisy = add_laplace(histogram.grains, epsilon.scale, source) if epsilon.units else np.empty(0, dtype=np.int64)
        return Measurement(slot, epsilon, noisy)

    def law(self, state: SumsState, histogram: Histogram, epsilon: Epsilon) -> Law:
        """Return the law of one class alone, for audits."""
        return Laplace(histogram.grains, epsilon.scale) if epsilon.units else Point(())

    def update(self, state: SumsState, measurement: Measurement) -> tuple[SumsState, Estimate]:
        """Return counts of all classes, as a PDF; nothing is learned."""
        counts = measurement.values.reshape(-1, state.bins).sum(axis=0) / GRAINS
        mass = np.maximum(counts, 0) + 1
        total = int(np.clip(measurement.values, -(1 << 40), 1 << 40).sum())
        spread = np.ones(state.bins)
        estimate = Estimate(mass / mass.sum(), spread, spread, float(counts.sum()), 1.0)
        return SumsState(state.bins, state.classes, total), estimate

    def to_bytes(self, state: SumsState) -> bytes:
        """Return three numbers, of the same size whatever they are, after their digest."""
        text = f"{state.bins:20d},{state.classes:20d},{state.total:20d}".encode()
        return blake2b(text, digest_size=16).digest() + text

    def from_bytes(self, domain: Domain, data: bytes) -> SumsState:
        """Return the state of `to_bytes`."""
        if data[:16] != blake2b(data[16:], digest_size=16).digest():
            raise StateError("the state of the sums is damaged.")
        bins, classes, total = map(int, data[16:].split(b","))
        if bins != domain.size:
            raise StateError("the state of the sums is of another domain.")
        return SumsState(bins, classes, total)


@dataclass(frozen=True)
class SharedSums(ClassSums):
    """The same where classes share histograms, and what was released last says which of them are due.

    >>> from dpi.domain import Categories
    >>> state = SharedSums().initial(Categories(["a", "b"], other=None), classes=4)
    >>> [[m for m, _ in group] for group in SharedSums().request_payments(state, 7)]
    [[0, 2], [1, 3]]
    """

    def request_payments(self, state: SumsState, slot: int) -> PaymentRequest:
        """Return two groups of all classes or, if the last sum was odd, one of those from the middle on."""
        first, later = MANY if state.total > 100 * GRAINS else FEW
        shares = [(0, first), *[(m, later) for m in range(1, state.classes)]]
        if state.total % 2:
            return ((shares[0], *shares[state.classes // 2 or 1 :]),)
        return tuple(filter(None, (tuple(shares[::2]), tuple(shares[1::2]))))
