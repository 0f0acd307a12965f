"""FAST of Fan and Xiong: sample a series now and then, filter the samples, and let the error choose the next one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts, check_count

ERRORS_KEPT = 5
"""How many errors the integral term is the mean of, and how many slots at the start are always sampled."""


def feedback(errors: list[float], proportional: float = 0.9, integral: float = 0.1) -> float:
    """The controller's error: 0.9 times the last, and 0.1 times the *mean* of the last five (derivative gain 0).

    >>> round(feedback([0.4] * 5), 3)
    0.4
    """
    recent = errors[-ERRORS_KEPT:]
    return proportional * recent[-1] + integral * sum(recent) / len(recent)


def next_interval(interval: float, error: float, gain: float = 5.0, goal: float = 0.1) -> float:
    """I + θ·(1 - e^((Δ - ξ)/ξ)), at least 1: longer while the error is below its goal.

    >>> next_interval(3.0, 0.1), round(next_interval(3.0, 0.0), 3), next_interval(3.0, 9.0)
    (3.0, 6.161, 1.0)
    """
    return max(1.0, interval + gain * (1 - math.exp(min((error - goal) / goal, 50.0))))


@dataclass(kw_only=True, eq=False)
class Fast(Baseline):
    """Counts of single slots, for up to `slots` slots, from samples and a Kalman filter in every bin.

    samples: how many slots are sampled at most; None is the published 15 %.
    process: Q, the variance that a count gains from slot to slot. measurement: R; None is that of the noise.

    **Guarantee.** ε-DP for the *whole series* of one bin, if a user has one record a slot in it. *Why:* at most M
    samples are taken, each with noise of scale M/ε. When to sample and the filter use noisy samples only.

    *In a histogram* a user may move between bins that are sampled at different times: K bins take up to K·M samples,
    so the loss is up to c·ε·min(t, K·M)/M; it stays at ε for users who keep to one bin.

    >>> mechanism = Fast(epsilon=1000, slots=20)
    >>> [round(float(mechanism.update(70)[0])) for _ in range(3)], mechanism.most_samples
    ([70, 70, 70], 3)
    >>> Fast(epsilon=1, slots=100).user_epsilon(100)
    1.0
    """

    facts: ClassVar[Facts] = Facts(
        source="Fan, Xiong, TKDE 2014",
        releases="slot",
        unit="the whole series of a bin, one record of a user in each slot",
        horizon="T slots, declared",
        delta="none",
        memory="10 numbers a bin",
        variance="depends on the samples; a sample has 2M²/ε², the filter less",
        user_loss="at most c·ε·min(t, K·M)/M for K bins: c·ε in one bin",
        reconstructed="the filter starts at the first sample",
    )

    slots: int
    samples: int | None = None
    process: Amount = 100_000
    measurement: Amount | None = None

    def _start(self) -> None:
        check_count(self.slots, "slots")
        self.most_samples = math.ceil(0.15 * self.slots) if self.samples is None else self.samples
        check_count(self.most_samples, "samples")
        self.scale = self.most_samples / self.rate
        self._process = float(rational(self.process, "process"))
        default = 2 * float(self.scale) ** 2
        self._measurement = default if self.measurement is None else float(rational(self.measurement, "measurement"))
        if self._process < 0 or self._measurement <= 0:
            raise OptionError("`process` must be at least 0, and `measurement` above 0.")
        self._estimate = np.zeros(self.bins)
        self._uncertainty = np.full(self.bins, 100.0)
        self._interval = np.ones(self.bins)
        self._next = np.ones(self.bins, dtype=np.int64)
        self._errors: list[list[float]] = [[] for _ in range(self.bins)]
        self.sampled = np.zeros(self.bins, dtype=np.int64)
        """How many samples each bin has taken: public."""
        self.gain: Floats = np.zeros(self.bins)
        """The filter's weight of the last sample: public."""

    def _step(self, grains: Integers) -> Floats:
        self._uncertainty += self._process
        due = (self._next <= self.slot) | (self.slot <= ERRORS_KEPT)
        now = np.flatnonzero(due & (self.sampled < self.most_samples))
        if now.size:
            self._correct(now, self._laplace(grains[now], self.scale) / GRAINS)
        return self._estimate.copy()

    def _correct(self, bins: Integers, samples: Floats) -> None:
        """The filter's step for sampled bins, and when each is sampled next."""
        prior = np.where(self.sampled[bins] == 0, samples, self._estimate[bins])
        gain = self._uncertainty[bins] / (self._uncertainty[bins] + self._measurement)
        posterior = prior + gain * (samples - prior)
        self.gain[bins], self._estimate[bins] = gain, posterior
        self._uncertainty[bins] *= 1 - gain
        self.sampled[bins] += 1
        for i, error in zip(bins, np.abs(posterior - prior) / np.maximum(posterior, 1), strict=True):
            self._errors[i] = [*self._errors[i][1 - ERRORS_KEPT :], float(error)]
            self._interval[i] = next_interval(float(self._interval[i]), feedback(self._errors[i]))
            self._next[i] = self.slot + round(self._interval[i])

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    @property
    def record_share(self) -> Fraction:
        """One sample."""
        return Fraction(1, self.most_samples)

    def loss(self, slots: int) -> Loss:
        """As many samples as can meet a user."""
        count = min(slots, self.bins * self.most_samples)
        return Loss({1 / self.scale: count} if count else {})

    @property
    def memory(self) -> int:
        """The filters, and the controllers' errors."""
        return 5 * self.bins + sum(map(len, self._errors))
