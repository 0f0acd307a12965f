"""One slot of users who are measured alike: one class, one law, one number.

The same filter as that of users by class (`_distributions`), with one law. The number of users is fitted to the law
where that says more than the sum of the counts. What the law gets wrong it gets wrong in every slot: the sums say how
much.

A pure function of a state and of sums after noise, so it is post-processing and costs no privacy. A slot that was not
measured goes the same way, without sums: the picture is held, and its intervals grow. Sees sums after noise; no
histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.class_estimator._activity import Sizes
from dpi.mechanism.class_estimator._distributions import APART, MISFIT, NEVER, RETURN, DistributionFilter
from dpi.mechanism.class_estimator._hypotheses import ALONE, ALONE_HUGE, Distributions, Fitted, Hypotheses
from dpi.mechanism.class_estimator._level import Level
from dpi.mechanism.class_estimator._payer_coverage import Payers
from dpi.mechanism.class_estimator._season import Season, learn_phase
from dpi.mechanism.class_estimator._slot import (
    ExpectedHistogram,
    GroupSums,
    enter_phase,
    know_nothing,
    learn_population,
    release_laws,
)
from dpi.mechanism.codec import freeze
from dpi.mechanism.filtering._gaussians import Gaussians

HUGE = 10_000
"""From this many bins on most drown in noise, and fewer hypotheses are told apart. Source: docs/utility.md, Huge
domains."""
FAR = 3.0
"""Deviations of the sum by which a fitted number may differ from it. Source: by definition; 99.7 %."""


@dataclass(frozen=True, eq=False)
class Number:
    """How many users there are, and by which part of it the law says another number, in every slot alike."""

    level: Level
    bias: float
    doubt: float
    """The variance of `bias`."""

    @classmethod
    def begun(cls) -> Number:
        """Before anything was seen."""
        return cls(Level.begun(), 0.0, MISFIT**2)

    def after(self, plain: float, noise: float, fitted: Fitted | None, clear: float) -> tuple[Number, float, float]:
        """With one more sum of all counts, of variance `noise`, and what was fitted; and the number, and its variance.

        A slot that says nothing (`clear`) leaves the bias as it is.
        """
        bias, doubt, seen, variance, unsure = self.bias, self.doubt, plain, noise, 0.0
        if fitted is not None:
            paid = max(fitted.paid, 1e-6)
            prior = min(fitted.common / paid**2, 1.0) + MISFIT**2
            doubt = min(doubt + RETURN * clear * prior, prior)
            if fitted.noise + paid**2 * doubt < noise and (paid * (1 + bias) - plain) ** 2 < FAR**2 * noise:
                # Of two measurements the better one is a part of the other: they differ by the rest of its variance.
                gain = doubt / (doubt + max(noise - fitted.noise, 0.1 * noise) / paid**2)
                bias, doubt = bias + gain * (plain / paid - 1 - bias), doubt * (1 - gain)
                seen, variance, unsure = paid * (1 + bias), fitted.noise * (1 + bias) ** 2, doubt
        level = _later(self.level, seen, variance, (plain, noise))
        users, spread = level.posterior
        return Number(level, bias, doubt), users, spread + users**2 * unsure


def _later(level: Level, seen: float, variance: float, plain: tuple[float, float]) -> Level:
    """Return the number after a measurement; below the noise it says nothing, and no time passes for what was known."""
    drowned = level.known and variance > FAR**2 * level.widest and (seen - level.expected) ** 2 < NEVER**2 * variance
    return level if drowned else level.after(seen, variance, plain)


@dataclass(frozen=True, eq=False)
class SingleClassState:
    """Public: a function of measurements. Its arrays are read-only."""

    slot: int
    """The last slot that was measured or held."""
    slots: int
    """How many were measured or held since the first measurement."""
    laws: Distributions
    number: Number
    payers: Payers
    season: Season

    def __post_init__(self) -> None:
        freeze(self)

    @classmethod
    def begun(cls, bins: int, season: int) -> SingleClassState:
        """Before anything was seen."""
        laws = Distributions.begun(bins, hypotheses_of(bins))
        return cls(-1, 0, laws, Number.begun(), Payers.begun(), Season.begun(season, bins))

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return self.slots > 0

    @property
    def bins(self) -> int:
        """How many bins the domain has."""
        return int(self.laws.level.size)

    @property
    def drift(self) -> float:
        """The root of the mean squared step of log-levels in a slot, by the weights of the hypotheses."""
        model = hypotheses_of(self.bins)
        weights = np.exp(self.laws.log_weights[0])
        return float(np.sqrt(weights[:-1] @ model.drift[:-1] ** 2 + weights[-1]))


def hypotheses_of(bins: int) -> Hypotheses:
    """How the law of so many bins may move."""
    return ALONE if bins < HUGE else ALONE_HUGE


def same_hypotheses(laws: Distributions) -> Distributions:
    """Laws of a domain that was huge, or now is, with the hypotheses of its bins: each as the nearest there was."""
    model = hypotheses_of(laws.level.size)
    if len(laws.mean) == model.size:
        return laws
    before = (ALONE if model is ALONE_HUGE else ALONE_HUGE).drift
    apart = np.abs(np.log(model.drift[:-1, None] / before[:-1]))
    rows = np.append(apart.argmin(1), len(before) - 1)
    log_weights = np.log(np.maximum(model.prior, 1e-300))[None]
    return replace(
        laws, mean=laws.mean[rows], covariance=laws.covariance[rows], noisy=laws.noisy[rows], log_weights=log_weights
    )


def update_single_class(
    state: SingleClassState, slot: int, counts: Floats | None, epsilon: float, *, partial: bool = False
) -> tuple[SingleClassState, Estimate]:
    """Return the next state, and the estimate of the slot: of counts with Laplace noise of scale 1/ε, or of none.

    `partial` if accounts may have been empty.
    """
    if counts is None and not state.known:
        return state, _nothing(state.number, state.bins)
    laws, phase, profile = _enter(state, slot)
    number, payers, histogram, bins, crowd = state.number, state.payers, None, state.bins, 0.0
    if counts is None:
        users, variance = number.level.expected, number.level.spread
    else:
        number, users, variance, crowd = _count(state, laws, counts, epsilon)
        payers = payers.after(users + crowd, partial=partial, season=state.season.period)
        laws.missing = 1 - payers.coverage
        histogram = _observe(laws, counts * epsilon, _at_least(users, variance), epsilon)
        laws.silent &= users < FAR * variance**0.5
        if laws.silent and not state.known:
            after = replace(state, slot=slot, number=number, payers=payers)
            return after, replace(_nothing(number, bins), counts=counts, counts_variance=2 / epsilon**2)
        if laws.silent:
            (laws, phase, profile), histogram = _enter(state, slot), None
    laws.normalise()
    size = np.array([_at_least(users, variance)])
    reading = laws.read(size)
    if histogram is not None:
        laws.population = learn_population(laws, reading, float(histogram.payments.sum()))
    sizes = Sizes(size, np.ones(1), size, max(users + crowd, 1e-3), variance, ())
    estimate = release_laws(laws, reading, size, sizes, [histogram] if histogram else [], profile)
    if laws.missing:
        estimate = _for_all(estimate, release_laws(laws, reading, size, sizes, [], profile), laws.missing)
    laws.level = np.maximum(estimate.pdf, 1e-3 / bins)
    if profile is not None:
        laws.season(1 / profile.mean)
    season = state.season
    if histogram is not None and season.period and counts is not None:
        weight = users / (users + 2 * bins / epsilon**2)
        season = learn_phase(season, phase, weight * counts, weight * users, 2 * (weight / epsilon) ** 2, np.zeros(2))
    if counts is not None:
        estimate = replace(estimate, counts=counts, counts_variance=2 / epsilon**2)
    return SingleClassState(slot, state.slots + 1, laws.sealed(), number, payers, season), estimate


def _nothing(number: Number, bins: int) -> Estimate:
    """Return the estimate before the first user is detected."""
    estimate = know_nothing(bins)
    if not number.level.known:
        return estimate
    return replace(estimate, total=number.level.posterior[0], total_variance=number.level.posterior[1])


def _enter(state: SingleClassState, slot: int) -> tuple[DistributionFilter, int, Gaussians | None]:
    """Return the law in a slot before it was measured, the slot's phase and its profile."""
    laws = DistributionFilter(state.laws, hypotheses_of(state.bins))
    phase, profile = enter_phase(state.season, slot, laws)
    if state.known:
        laws.age(max(slot - state.slot, 1), np.ones(1))
    return laws, phase, profile


def _at_least(users: float, variance: float) -> float:
    """Return the number to use: below the noise, half of its deviation. Too many would say too much of levels."""
    return float(max(users, 0.5 * variance**0.5, 1e-3))


def _count(
    state: SingleClassState, laws: DistributionFilter, counts: Floats, epsilon: float
) -> tuple[Number, float, float, float]:
    """Count the users, with a variance; and how many more there are in single bins."""
    number, noise, fitted, clear = state.number, 2 * state.bins / epsilon**2, None, 0.0
    if state.known:
        paid = np.array([max(number.level.expected, 1e-6) * epsilon])
        payments = laws.fit(counts * epsilon, paid, 0, epsilon)
        squared = epsilon**2
        fitted = Fitted(
            payments.paid / epsilon,
            payments.variance / squared,
            payments.noise / squared,
            payments.common / squared,
            payments.crowd / epsilon,
        )
        clear = -float(np.expm1(-0.5 * max(payments.paid, 0.0) ** 2 * float(laws.level @ laws.level)))
    crowd = fitted.crowd if fitted else 0.0
    return (*number.after(float(counts.sum()) - crowd, noise, fitted, clear), crowd)


def _observe(laws: DistributionFilter, sums: Floats, users: float, epsilon: float) -> ExpectedHistogram:
    """Return what was measured of so many users, each of whom pays ε."""
    payments, squared = np.array([users * epsilon]), users * epsilon**2
    residuals = None
    if not laws.laws:
        laws.begin(sums, float(payments[0]), squared)
    else:
        residuals = laws.observe(sums, payments, squared, np.array([users]), 0)
    group = GroupSums(sums, np.zeros(1, dtype=np.int64), np.ones(1), 1.0)
    return ExpectedHistogram(group, payments, squared, residuals)


def _for_all(payers: Estimate, others: Estimate, missing: float) -> Estimate:
    """Estimate all active users, of whom some could not pay: these may be of another kind."""
    pdf = (1 - missing) * payers.pdf + missing * others.pdf
    variance = (1 - missing) ** 2 * payers.variance + missing**2 * others.variance
    variance += (missing * APART * pdf * (1 - pdf)) ** 2
    return replace(payers, pdf=pdf, variance=np.minimum(variance, np.maximum(pdf * (1 - pdf), 0.0)))
