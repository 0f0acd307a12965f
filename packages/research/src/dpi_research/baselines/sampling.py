"""Systems that sample a series now and then and filter the samples: FAST of Fan and Xiong, RescueDP of Wang et al."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.w_event import rounded_down

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


class Sampled(Baseline):
    """What such systems hold of every bin: a Kalman filter, and when the bin is sampled next."""

    held: ClassVar[tuple[str, ...]] = ("_estimate", "_uncertainty", "_interval", "_next", "_errors")

    def _start(self) -> None:
        self._estimate = np.zeros(self.bins)
        self._uncertainty = np.full(self.bins, 100.0)
        self._interval = np.ones(self.bins)
        self._next = np.ones(self.bins, dtype=np.int64)
        self._errors: list[list[float]] = [[] for _ in range(self.bins)]

    def _correct(self, i: int, sample: float, variance: float, kept: int) -> float:
        """The filter's step for a sample with noise of this variance, and its weight; the last errors are kept."""
        prior = self._estimate[i] if self._errors[i] else sample
        gain = float(self._uncertainty[i] / (self._uncertainty[i] + variance))
        self._estimate[i] = prior + gain * (sample - prior)
        self._uncertainty[i] *= 1 - gain
        error = abs(self._estimate[i] - prior) / max(self._estimate[i], 1.0)
        self._errors[i] = [*self._errors[i][1 - kept :], float(error)]
        return gain

    def _wait(self, i: int, interval: float) -> None:
        """Sample a bin again after this interval."""
        self._interval[i] = interval
        self._next[i] = self.slot + round(interval)


class Fast(Sampled):
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

    held = (*Sampled.held, "sampled")

    slots: int
    samples: int | None = None
    process: Amount = 100_000
    measurement: Amount | None = None

    def _start(self) -> None:
        super()._start()
        check_count(self.slots, "slots")
        self.most_samples = math.ceil(0.15 * self.slots) if self.samples is None else self.samples
        check_count(self.most_samples, "samples")
        self.scale = self.most_samples / self.rate
        self._process = float(rational(self.process, "process"))
        default = 2 * float(self.scale) ** 2
        self._measurement = default if self.measurement is None else float(rational(self.measurement, "measurement"))
        if self._process < 0 or self._measurement <= 0:
            raise OptionError("`process` must be at least 0, and `measurement` above 0.")
        self.sampled = np.zeros(self.bins, dtype=np.int64)
        """How many samples each bin has taken: public."""
        self.gain: Floats = np.zeros(self.bins)
        """The filter's weight of the last sample: public."""

    def _step(self, grains: Integers) -> Floats:
        self._uncertainty += self._process
        due = (self._next <= self.slot) | (self.slot <= ERRORS_KEPT)
        now = np.flatnonzero(due & (self.sampled < self.most_samples))
        if now.size:
            for i, sample in zip(now.tolist(), self._laplace(grains[now], self.scale) / GRAINS, strict=True):
                self.gain[i] = self._correct(i, float(sample), self._measurement, ERRORS_KEPT)
                self._wait(i, next_interval(float(self._interval[i]), feedback(self._errors[i])))
            self.sampled[now] += 1
        return self._estimate.copy()

    @property
    def record_share(self) -> Fraction:
        """One sample."""
        return Fraction(1, self.most_samples)

    def loss(self, slots: int) -> Loss:
        """As many samples as can meet a user."""
        count = min(slots, self.bins * self.most_samples)
        return Loss({1 / self.scale: count} if count else {})


LARGEST_PART = Fraction(1, 5)
"""No slot of a region costs more than this share of ε."""
HISTORY = 10
"""Releases of a region that similarity is judged by."""
_PREDICT, _ERRORS = 3, 3


class RescueDP(Sampled):
    """Counts of single slots; a bin is a region.

    alone: τ₁, regions predicted above it are measured alone. alike: τ₂, the least correlation within a group. near: τ₃,
    how far predictions in a group may lie apart. process: Q, the variance that a count gains from slot to slot.

    **Guarantee.** ε-DP for all records of a user within any `window` slots *in one region*, one record a slot. *Why:* a
    sampled region offers at most what its last w - 1 slots have left of ε; a group's sum gets noise for the
    smallest offer of its members, and all members pay that. Predictions, groups, filters and intervals are made of
    releases alone. *A user who moves* between regions meets other accounts: the loss is bounded by ε/5 a slot.

    >>> mechanism = RescueDP(epsilon=1000, bins=2, window=5)
    >>> [round(x) for x in mechanism.update([70, 9]).tolist()]
    [70, 9]
    """

    held = (*Sampled.held, "budgets", "_history", "_recent")

    window: int = 20
    alone: float = 30.0
    alike: float = 0.5
    near: float = 25.0
    process: Amount = 100

    def _start(self) -> None:
        super()._start()
        check_count(self.window, "window")
        self._process = float(rational(self.process, "process"))
        if self._process < 0:
            raise OptionError(f"`process` must be at least 0. Got {self.process}.")
        self._history: deque[Floats] = deque(maxlen=HISTORY)
        self._recent: list[deque[Fraction]] = [deque(maxlen=self.window - 1) for _ in range(self.bins)]
        self.budgets: list[Fraction] = [Fraction(0)] * self.bins
        """What the last slot cost in each region: public."""

    def _step(self, grains: Integers) -> Floats:
        self._uncertainty += self._process
        self.budgets = [Fraction(0)] * self.bins
        for group in self.groups(np.flatnonzero(self._next <= self.slot)):
            self._measure(group, grains)
        for recent, budget in zip(self._recent, self.budgets, strict=True):
            recent.append(budget)
        self._history.append(self._estimate.copy())
        return self._estimate.copy()

    def remaining(self, region: int) -> Fraction:
        """What a window has left for this slot."""
        return self.rate - sum(self._recent[region], Fraction(0))

    def _offer(self, region: int) -> Fraction:
        """min(p·remaining, ε/5) with p = min(0.2·ln(I + 1), 0.6), rounded down: more after a longer interval."""
        part = Fraction(min(0.2 * math.log(self._interval[region] + 1), 0.6))
        return self.rate * rounded_down(min(part * self.remaining(region) / self.rate, LARGEST_PART))

    def groups(self, regions: Integers) -> list[list[int]]:
        """Regions that are measured together: predicted small, near each other, and correlated; a public choice."""
        past = np.array(self._history)
        if past.shape[0] < 2:
            return [[int(i)] for i in regions]
        predicted = past[-_PREDICT:].mean(axis=0)
        groups: list[list[int]] = []
        total = math.inf
        for i in sorted(regions.tolist(), key=lambda i: float(predicted[i])):
            first = groups[-1][0] if groups else i
            joins = (
                total + predicted[i] < self.alone
                and predicted[i] - predicted[first] < self.near
                and _correlation(past[:, i], past[:, first]) > self.alike
            )
            if joins:
                groups[-1].append(i)
                total += predicted[i]
            else:
                groups.append([i])
                total = predicted[i] if predicted[i] <= self.alone else math.inf
        return groups

    def _measure(self, group: list[int], grains: Integers) -> None:
        """One noisy sum for the group, shared evenly; each member's filter and interval."""
        offer = min(self._offer(i) for i in group)
        if offer <= 0:
            return
        total = np.array([min(sum(int(grains[i]) for i in group), 1 << 60)])
        value = float(self._laplace(total, 1 / offer)[0]) / GRAINS / len(group)
        noise = 2 / float(offer * len(group)) ** 2
        for i in group:
            self._correct(i, value, noise, _ERRORS)
            self._plan(i)
            self.budgets[i] = offer

    def _plan(self, region: int) -> None:
        """I + 10·(1 - (Δ/λ)²), at least 1, with λ = 1/remaining and Δ = 0.9·E + 0.1·mean of the last three E."""
        errors = self._errors[region]
        control = 0.9 * errors[-1] + 0.1 * sum(errors) / len(errors)
        change = 10 * (1 - (control * float(self.remaining(region))) ** 2)
        self._wait(region, max(1.0, float(self._interval[region]) + change))

    @property
    def record_share(self) -> Fraction:
        """One slot of a region."""
        return LARGEST_PART

    def loss(self, slots: int) -> Loss:
        """A slot's largest budget in every slot, or all windows of all regions."""
        windows = -(-slots // self.window)
        return Loss(pure=min(slots * self.rate * LARGEST_PART, self.bins * windows * self.rate))


def _correlation(one: Floats, other: Floats) -> float:
    """Pearson's correlation; 0 where a series is constant."""
    a, b = one - one.mean(), other - other.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0
