"""How good an application could be on noisy counts: linear estimators that are told what ours must learn.

Each is told second moments of the truth: how much bins drift and scatter, how large groups are, how much tastes differ.
Two kinds of counts are given to them. *Everybody*: all active users in every slot through the noise that newcomers have
in our run. No stream may do that, because whoever comes back would pay again; it is a limit from above. *The same*: the
very counts that our stream measured, with the true mean squared error of each class. An estimator of another form may
be better than these, and ours is on some streams.

Sees the truth: for public data alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpi.exact.integers import GRAINS
from dpi.mechanism.base import Estimate, Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.boosted.boosted import State
from dpi.release.queries import Floats


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Users in each bin plus Laplace noise of scale 1/ε."""

    values: Floats
    epsilon: float

    @property
    def variance(self) -> float:
        """Of the noise of one bin."""
        return 2 / self.epsilon**2

    @property
    def pdf(self) -> Floats:
        """Shares; the sum of the counts is taken to be at least its noise."""
        return np.asarray(self.values / max(float(self.values.sum()), (self.values.size * self.variance) ** 0.5))


@dataclass(frozen=True)
class Kept(Boosted):
    """The boosted mechanism, which keeps what it measured: for each slot the counts of its classes, newcomers first."""

    slots: list[list[NoisyCounts]] = field(default_factory=list, repr=False, compare=False)

    def update(self, state: State, measurement: Measurement) -> tuple[State, Estimate]:
        """As the boosted mechanism does, and keep the counts; none where a slot was not measured."""
        after, estimate = super().update(state, measurement)
        budgets = [float(due.epsilon) for due in measurement.classes] or [float(measurement.epsilon)]
        rows = measurement.values.reshape(-1, estimate.pdf.size) / GRAINS
        self.slots.append([NoisyCounts(*each) for each in zip(rows, budgets, strict=False)])
        return after, estimate


def of_everybody(counts: Sequence[Floats], slots: Sequence[Sequence[NoisyCounts]], seed: int) -> list[NoisyCounts]:
    """All active users of every slot, through fresh noise as large as that of the newcomers who were measured."""
    rng = np.random.default_rng(seed)  # of a limit that is never released
    budgets = [slot[0].epsilon if slot else 0.0 for slot in slots]
    least = min(epsilon for epsilon in budgets if epsilon > 0)
    return [
        NoisyCounts(each + rng.laplace(0, 1 / (epsilon or least), each.size), epsilon or least)
        for each, epsilon in zip(counts, budgets, strict=True)
    ]


Seen = Sequence[Sequence[tuple[Floats, Floats | float]]]
"""By slot: shares, and the variance of their errors; several if several classes were measured."""


def seen_of_everybody(truth: Sequence[Floats], noisy: Sequence[NoisyCounts]) -> Seen:
    """As shares of the true number of users, which is told."""
    users = [max(float(counts.sum()), 1.0) for counts in truth]
    return [[(one.values / n, one.variance / n**2)] for one, n in zip(noisy, users, strict=True)]


def seen_by_class(pdfs: Sequence[Floats], slots: Sequence[Sequence[NoisyCounts]]) -> Seen:
    """Each class as it was measured, with its true mean squared error in each bin, over all slots."""
    errors: dict[int, list[Floats]] = {}
    for pdf, slot in zip(pdfs, slots, strict=True):
        for m, one in enumerate(slot):
            errors.setdefault(m, []).append((one.pdf - pdf) ** 2)
    known = {m: np.mean(each, axis=0) + 1e-18 for m, each in errors.items()}
    return [[(one.pdf, known[m]) for m, one in enumerate(slot)] for slot in slots]


def filtered(pdfs: Sequence[Floats], seen: Seen) -> tuple[list[Floats], list[Floats]]:
    """Shares of every slot and their variances by a Kalman filter that is told how each bin moves.

    A share is a random walk of variance q plus what is the slot's own, of variance w. Steps over one slot have the
    variance q + 2w and steps over two 2q + 2w, which tells both; the walk begins with the true mean and variance.
    """
    truth = np.array(pdfs)
    one, two = (np.square(truth[k:] - truth[:-k]).mean(axis=0) for k in (1, 2))
    walk = np.clip(two - one, 0, one)
    own = (one - walk) / 2
    level, doubt = truth.mean(axis=0), truth.var(axis=0)
    shares, variances = [], []
    for slot in seen:
        doubt = doubt + walk
        share, variance = level, doubt + own
        if slot:
            error = np.asarray(1 / sum(1 / np.asarray(each) for _, each in slot))
            found = error * sum(pdf / each for pdf, each in slot)
            whole = doubt + own + error
            share, variance = level + (doubt + own) / whole * (found - level), (doubt + own) * error / whole
            level, doubt = level + doubt / whole * (found - level), doubt * (own + error) / whole
        shares.append(share)
        variances.append(variance)
    return shares, variances


def tastes(sums: Floats, variance: float, truth: Floats) -> Floats:
    """Shares of items in each group: the best linear guess from noisy sums, told how groups differ.

    A taste is what is popular plus a deviation; both are drawn from laws with the true variances, each group with its
    own, and the sizes of groups are true. Sums may be of other users than the truth: groups are then taken to have the
    same shares of them. The last item, `other`, counts as a part of a group and is not guessed.
    """
    sizes = truth.sum(axis=1)
    own = (truth / sizes[:, None])[:, :-1]
    popular = sizes @ own / sizes.sum()
    apart = np.square(own - popular).mean(axis=1)
    sizes = sizes * max(float(sums.sum()), 1.0) / sizes.sum()
    found = sums[:, :-1] / sizes[:, None]
    weight = 1 / (apart + variance / sizes**2)
    shared = (popular.mean() / popular.var() + weight @ found) / (1 / popular.var() + weight.sum())
    return np.asarray(shared + (apart * weight)[:, None] * (found - shared))
