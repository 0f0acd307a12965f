"""A number that walks, as that of newcomers does: three walks of unlike steps, weighted by how well each foresaw it.

Sees totals after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats

STEPS: Floats = np.array([0.01, 0.1, 0.6])
"""Relative steps of a slot: steady, walking, and anew every other slot. Source: a prior; each is a factor from the
next."""
PRIOR: Floats = np.array([0.5, 0.35, 0.15])
"""Weights of these before anything was seen. Source: a prior."""
RETURN = 0.02
"""Share of weight that flows back to the prior with every measurement: a regime lasts fifty or so. Source: a prior."""


ANEW = 0.01
"""Prior odds that the number is another one altogether: a crowd that nobody foresaw. Source: a prior; once in a hundred
slots."""


@dataclass(frozen=True, eq=False)
class Level:
    """What each walk knows; `known` is false before the first measurement."""

    mean: Floats
    variance: Floats
    weights: Floats
    known: bool

    @classmethod
    def begun(cls) -> Level:
        """Before anything was seen."""
        return cls(np.zeros(STEPS.size), np.zeros(STEPS.size), PRIOR, known=False)

    @property
    def expected(self) -> float:
        """The number, before it is measured again."""
        return float(self.weights @ self.mean)

    @property
    def spread(self) -> float:
        """The variance of that, for the next slot."""
        return float(self.weights @ (self._ahead + (self.mean - self.expected) ** 2))

    @property
    def widest(self) -> float:
        """The variance of the next slot's, if it walks as far as it may."""
        return float(self._ahead.max())

    @property
    def _ahead(self) -> Floats:
        return np.asarray(self.variance + (STEPS * np.maximum(self.mean, 1.0)) ** 2 + 0.1 * self.mean)

    def after(self, seen: float, variance: float, plain: tuple[float, float] | None = None) -> Level:
        """After a noisy measurement of the number.

        `plain` is another one, coarse and without a model, with its variance: a number that is another one altogether
        is then the plain one, and a measurement that says nothing lets no weight flow back.
        """
        if not self.known:
            return Level(np.full(STEPS.size, max(seen, 0.0)), np.full(STEPS.size, variance), PRIOR, known=True)
        ahead, missed = self._ahead, seen - self.mean
        both = ahead + variance
        log = np.log(self.weights) - 0.5 * (missed**2 / both + np.log(both))
        wide = max(self.expected, abs(seen)) ** 2 + variance
        if np.log(ANEW) - 0.5 * ((seen - self.expected) ** 2 / wide + np.log(wide)) > np.logaddexp.reduce(log):
            return Level.begun().after(*(plain or (seen, variance)))
        weights, gain = np.exp(log - log.max()), ahead / both
        back = RETURN if plain is None else RETURN * float(gain[-1])
        weights = (1 - back) * weights / weights.sum() + back * PRIOR
        return Level(np.maximum(self.mean + gain * missed, 0.0), ahead * (1 - gain), weights, known=True)

    @property
    def posterior(self) -> tuple[float, float]:
        """The number and its variance as they are known now."""
        return self.expected, float(self.weights @ (self.variance + (self.mean - self.expected) ** 2))
