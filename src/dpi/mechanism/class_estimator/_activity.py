"""Who is active: how many newcomers there are, and how many of every class return.

If all of a cohort were of one type (`_types`), numbers by class would follow by themselves: who stays, who is active,
who pays and moves up. So numbers are sums over cohorts and types, by weights that are learned from what users pay
(`_ensemble`).

*Self-check.* What forecasts missed, over what they said they could miss, widens what is said later; a slot counts by
the share of users whom it measured.

Sees totals after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator._engagement import PAST, Active
from dpi.mechanism.class_estimator._ensemble import PRIOR, USUAL, Ensemble, Regression
from dpi.mechanism.class_estimator._level import Level
from dpi.mechanism.class_estimator._types import (
    ACTIVE,
    ENTER,
    HAZARD,
    LONG_RUN,
    NEXT,
    STATES,
    STOCK,
    TYPES,
    by_type,
    more_active,
)

COHORTS = (0, 1, 4, 16, 64, 256, 1024, 4096)
"""Slots from which users are a cohort of their own. Source: by calculation; each is four times as old as the next."""
COMMON = 0.04**2, 3.0
"""Relative variance of a slot's activity that all share, before it is learned, and how many slots that counts for.
Source: a prior."""
CHECKED = 0.95
"""Decay per measurement of the forecast-error average; window about 20. Source: a prior."""
ARRIVING, LEARNED, TOLD = 0.3, 0.99, 0.05**2
"""How fast arrivals are smoothed; what is left of what was seen of common activity after a slot; and the relative
variance from which on a slot tells little of it. Source: priors (docs/estimator.md, Constants)."""
CHANCE, UNSEEN_CHANCE = 0.3, 0.5
"""Of the number of users of a histogram that is expected, the part that is chance: of those who were measured, and of
others. Source: priors; a binomial number has at most one."""
IN_COMMON, UNSEEN = 2.0, 2.0
"""By what the members' variances grow, and once more for users who were not measured (`_widening`)."""
COARSE = 0.15
"""The least relative deviation of returning users. Real rates lie between those of the grid of types, so that where
noise hides nothing, all members agree on a number that is off. Source: compared (docs/estimator.md, Constants); on
simulated streams of 60,000 to 300,000 users times ε it was off by 3 to 5 % in the first hundred slots and by 10 to 26 %
after a year of days."""
_BACK: Floats = (1 - HAZARD) * LONG_RUN / ((1 - HAZARD) * LONG_RUN + HAZARD)
"""How likely a user of each type, who is active, will be again."""


class Total(NamedTuple):
    """What users of some classes pay together in a slot, with its variance; noise of one bin has scale one."""

    classes: Integers
    shares: Floats
    """The share of what is left that each class was asked for."""
    part: float
    """The part of the shares that was paid in this total."""
    paid: float
    variance: float


class Sizes(NamedTuple):
    """How many users are active, by class."""

    users: Floats
    left: Floats
    """What one of them has left, as a part of ε."""
    stock: Floats
    """Those who may be active in each class, by how often they are."""
    total: float
    variance: float
    doubts: tuple[tuple[Integers, float], ...]
    """Variances of the numbers of some classes together."""


@dataclass(frozen=True, eq=False)
class ActivityState:
    """What is known of users, between slots."""

    slots: int
    users: Floats
    """If all of a cohort were of one type: users by class, cohort and state; class 0 has not been met yet."""
    left: Floats
    """What they have left together."""
    ensemble: Ensemble
    inflow: Level
    usual: float
    """The number of arrivals in a slot, smoothed over slots."""
    arrivals: float
    """Newcomers who were not there in the first slot."""
    first: Floats
    """Users of the first slot, and the variance of that."""
    common: Floats
    """Squared common deviations of activity, and how much they weigh."""
    missed: Floats
    """Squared misses of forecasts over their variances, and how much they weigh."""
    types: Floats
    """Of the users of each class who are active, the share of each type; of newcomers, of all who are new."""
    past: Floats
    """If all of a cohort were of one type: active users of earlier slots by cohort and type, the latest last."""
    known: int
    """How many slots of `past` there were, one after the other."""

    @classmethod
    def begun(cls, classes: int) -> ActivityState:
        """Before anything was seen."""
        nobody = np.zeros((classes, 0, STATES))
        return cls(
            slots=0,
            users=nobody,
            left=nobody,
            ensemble=Ensemble.begun(),
            inflow=Level.begun(),
            usual=0.0,
            arrivals=0.0,
            first=np.zeros(2),
            common=np.zeros(2),
            missed=np.array([2.0, 1.0]),
            types=np.tile(USUAL, (classes, 1)),
            past=np.zeros((PAST, 0, TYPES)),
            known=0,
        )

    def by_class(self) -> tuple[Floats, Floats]:
        """How many users of each class are expected in a slot, and what one of them has left."""
        known, often = self.ensemble, np.maximum(LONG_RUN, 1e-3)
        both = (by_type(np.stack([self.users, self.left])) * often).reshape(2, len(self.users), -1)
        users, left = both @ (known.shares @ known.everyone)
        return users, np.where(users > 1e-9, left / np.maximum(users, 1e-9), 0.5)


class _ExpectedTotal(NamedTuple):
    """A total that says something."""

    total: Total
    row: Floats
    """What users of each cohort and type pay of it."""
    expected: float
    spread: float
    """Variance of that: of the members, and of chance."""


class ActivityFilter:
    """The numbers at work in one slot: each step changes them."""

    def __init__(self, state: ActivityState, epsilon: float) -> None:
        self._before, self._epsilon = state, epsilon
        # Public: it perturbs fits to sums after noise. The noise of the promise comes from `dpi.noise`.
        self._regression = Regression(state.ensemble, np.random.Generator(np.random.Philox(state.slots)))
        self._users, self._left = state.users, state.left
        self._inflow, self._usual, self._first = state.inflow, state.usual, state.first
        self._common, self._missed = state.common, state.missed
        self._arrivals, self.past, self.known = state.arrivals, state.past, state.known
        self.told: Floats = np.zeros(2)
        """How many returned, and how many were expected to, each by how much it told."""

    def sealed(self) -> ActivityState:
        """Return what is known after the slot."""
        return replace(
            self._before,
            slots=self._before.slots + 1,
            users=self._users,
            left=self._left,
            ensemble=self._regression.sealed(),
            inflow=self._inflow,
            usual=self._usual,
            arrivals=self._arrivals,
            first=self._first,
            common=self._common,
            missed=self._missed,
            types=self._types(),
            past=np.concatenate([self.past[1:], by_type(self.active.users)[None]]),
            known=min(self.known + 1, PAST),
        )

    def _types(self) -> Floats:
        weights = self._mean.reshape(-1, TYPES)
        shares = (by_type(self._users) * LONG_RUN * weights).sum(1)
        shares += 1e-9 * USUAL * LONG_RUN  # who returns to a class that should be empty does not come once
        shares[0] = by_type(self._users[0, 0] * ACTIVE) * weights[0] + (self._arrivals + 1e-9) * weights[-1]
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def gone(self) -> Floats:
        """By class, the part of those who are active who never will be again."""
        return np.asarray(1 - self._types() @ _BACK)

    def expect(self, slots: int, activity: float) -> Sizes:
        """Who is active some slots later, before anything is measured; in a phase that is more or less active."""
        if self._before.slots in COHORTS:
            self._begin_cohort()
        if slots > 1:
            self.known = 0  # windows are of slots that follow each other
        later = NEXT if slots == 1 else np.linalg.matrix_power(NEXT, slots)
        self._users, self._left = self._users @ later, self._left @ later
        self._activity, self._log_odds = activity, float(np.log(max(activity, 1e-3)))
        active = more_active(self._log_odds)
        holding, classes = self._left * active, len(self._users)
        of_states = np.stack([self._users * active, holding, holding * (1 - active)])
        self._present, self._holding, self._idle = by_type(of_states).reshape(3, classes, -1)
        self._hold()
        return self._sized(np.maximum(self._present @ self._mean, 0.0), self._inflow.expected, 0.0, ())

    def count(self, totals: Sequence[Total]) -> Sizes:
        """Who is active, from what they paid; the first total is of newcomers, an empty list of nobody's."""
        newcomers, returned = (totals[0], totals[1:]) if totals else (None, ())
        if newcomers is not None:
            pay = self._epsilon * newcomers.part * float(newcomers.shares[0])
            self._inflow = self._inflow.after(newcomers.paid / pay, newcomers.variance / pay**2)
        new, doubt = self._inflow.posterior if newcomers is not None else (self._inflow.expected, self._inflow.spread)
        if not self._before.slots:
            self._usual = self._arrivals = new
            self._first = np.array([new, newcomers.variance / pay**2 if newcomers else 0.0])
        elif newcomers is not None:
            each = pay * max(float(self._first[0]), 1.0)  # arrivals are told as parts of the first slot's users
            row, told = pay / each * self._present[0], (newcomers.paid / each, newcomers.variance / each**2)
            self._regression.tell_newcomers(row, *told, self.common_variance, pay / each * self._usual)
        informative, part = self._learn(returned)
        more, unsure = self._share_activity(informative, part)
        if self._before.slots and totals:
            self._regression.solve(self._usual, self._first)
            self._hold()
        if self._before.slots:
            self._arrivals = max(new - float(self._present[0] @ self._mean), 0.0)
            self._usual += ARRIVING * (self._arrivals - self._usual)
        sizes = self._number(informative, more, unsure, new, doubt)
        active = more_active(self._log_odds + more)
        self.active = self._active(active, new)
        self._move(totals, active, new)
        return sizes

    def _active(self, active: Floats, new: float) -> Active:
        """Who is active, if each state is so likely."""
        newcomers, weights = np.zeros(self._users.shape[1:]), (self._everyone, self._shares)
        if not self._before.slots:
            newcomers[0] = new * np.where(STOCK > 0, STOCK * ACTIVE, ENTER)
        else:
            newcomers[0] = self._users[0, 0] * active
            newcomers[-1] += self._arrivals * ENTER
        users = newcomers + self._users[1:].sum(0) * active
        return Active(users, newcomers, *weights, _widening(*self._missed.tolist()), self.common_variance)

    def _hold(self) -> None:
        """Hold what every member says, how likely each is, and their mean."""
        self._everyone, self._shares = self._regression.ensemble.everyone, self._regression.ensemble.shares
        self._mean = self._shares @ self._everyone

    def _sized(self, users: Floats, new: float, variance: float, doubts: tuple[tuple[Integers, float], ...]) -> Sizes:
        present, holding = self._present @ self._mean, self._holding @ self._mean
        left = np.where(present > 1e-9, holding / np.maximum(present, 1e-9), 0.5)
        left[0], users = 1.0, users.copy()
        users[0] = new
        stock = (by_type(self._users) * np.maximum(LONG_RUN, 1e-3)).reshape(users.size, -1) @ self._mean
        return Sizes(users, np.clip(left, 0, 1), stock, max(float(users.sum()), 1e-3), variance, doubts)

    def _begin_cohort(self) -> None:
        """Users who come from now on; of more than three cohorts the middle ones become one."""
        if self._users.shape[1] == 3:
            last = float(self._users[1:, 2].sum() / max(self._users[1:, 1:].sum(), 1e-9))
            self._users, self._left, self.past = (
                np.stack([a[:, 0], a[:, 1] + a[:, 2]], axis=1) for a in (self._users, self._left, self.past)
            )
        else:
            last = 1.0
        self._regression.begin_cohort(last)
        self._users, self._left, self.past = (
            np.pad(a, ((0, 0), (0, 1), (0, 0))) for a in (self._users, self._left, self.past)
        )

    def _learn(self, totals: Sequence[Total]) -> tuple[list[_ExpectedTotal], float]:
        """Each total that says anything, and which part of the users who return they are of; tell the regression."""
        common, informative, missed, measured = self.common_variance, list[_ExpectedTotal](), self._missed, 0.0
        by_class = np.maximum(self._present @ self._mean, 0.0)
        everybody = max(float(by_class[1:].sum()), 1e-9)
        for total in totals:
            pays = self._epsilon * total.part * total.shares
            row = pays @ self._holding[total.classes]
            said = self._everyone @ row
            expected = float(self._shares @ said)
            if expected <= 1e-6:
                continue
            present = float(by_class[total.classes].sum())
            pay = expected / max(present, 1e-9)
            chance = max(float(pays @ self._idle[total.classes] @ self._mean), 0.0) * pay + pay**2
            variance, spread = total.variance + common * expected**2 + chance, _variance(self._shares, said)
            self._regression.tell(row, total.paid, variance, said, (total.variance + pay**2, common, chance))
            miss = min((total.paid - expected) ** 2 / (variance + spread), 100.0)
            missed = missed + min(present / everybody, 1.0) * np.array([miss, 1.0])
            measured += present / everybody
            informative.append(_ExpectedTotal(total, row, expected, spread + chance))
        if informative:
            self._missed = np.maximum(CHECKED * missed, 1e-3)
        if totals:
            self._regression.weigh()
        return informative, min(measured, 1.0)

    @property
    def common_variance(self) -> float:
        prior, weight = COMMON
        return max(float((self._common[0] + weight * prior) / (self._common[1] + weight)), 1e-4)

    def _share_activity(self, informative: Sequence[_ExpectedTotal], part: float) -> tuple[float, float]:
        """By what share all were more active than expected, and the variance of that; a `part` of them was measured.

        The others need not be so: if every part were active by itself, one would differ by the whole's variance over
        its size. A phase learns from all parts in the course of time, so for the season that does not matter; there a
        slot counts as at most three deviations, and nobody is less active than not at all.
        """
        usual = self.common_variance
        if not informative:
            return 0.0, usual
        foreseen = sum(one.expected**2 / one.total.variance for one in informative)
        seen = sum(one.total.paid * one.expected / one.total.variance for one in informative)
        doubt = sum(one.spread * (one.expected / one.total.variance) ** 2 for one in informative)
        apart, variance = (seen - foreseen) / foreseen, (foreseen + doubt) / foreseen**2
        weight = part * ((usual + TOLD) / (usual + TOLD + variance)) ** 2
        self._common = LEARNED * self._common + weight * np.array([min(apart**2 - variance, 0.25), 1.0])
        gain = usual / (usual + variance)
        bound = 3 * (usual + variance) ** 0.5
        here = max(1 + float(np.clip(apart, -bound, bound)), 0.0) * self._activity
        self.told = gain * np.array([here, 1.0])
        gain = usual / (usual / part + variance)
        return float(np.clip(gain * apart, -0.5, 1.0)), usual * (1 - gain)

    def _number(
        self, informative: Sequence[_ExpectedTotal], more: float, unsure: float, new: float, doubt: float
    ) -> Sizes:
        """Numbers by class: what was measured, and what is expected of the others."""
        weights, (missed, looks) = self._shares, self._missed.tolist()
        wider = _widening(missed, looks)
        each = self._everyone @ self._present.T
        users = np.maximum(weights @ each, 0.0)
        result, variance = np.zeros(users.size), doubt
        others = np.ones(users.size, dtype=np.bool_)
        others[0] = False
        doubts: list[tuple[Integers, float]] = [(np.array([0]), doubt)]
        for total, row, _, _ in informative:
            here = total.classes
            others[here] = False
            expected = float(users[here].sum())
            pay = max(float(row @ self._mean) / max(expected, 1e-9), 1e-6)
            apart = each[:, here].sum(1)
            spread = wider * (_variance(weights, apart) + self.common_variance * expected**2) + CHANCE * expected + 1
            pays = self._everyone @ row / np.maximum(apart, 1e-9)
            doubtful = _variance(weights, pays) + _mixture(self._mean, self._present[here].sum(0), row, looks)
            noise = (total.variance + doubtful * expected**2) / pay**2
            gain = spread / (spread + noise)
            users_now = max(expected + gain * (total.paid / pay - expected), 0.0)
            result[here] = users[here] * users_now / max(expected, 1e-9)
            variance += spread * (1 - gain)
            doubts.append((here, spread * (1 - gain)))
        rest = each[:, others].sum(1) * (1 + more)
        order = np.argsort(rest)
        middle = float(rest[order[min(int(np.searchsorted(np.cumsum(weights[order]), 0.5)), rest.size - 1)]])
        usual = float(weights @ rest)
        result[others] = users[others] * (1 + more) * middle / max(usual, 1e-9)
        spread = UNSEEN * (_variance(weights, rest) + (usual - middle) ** 2)
        unheard = wider * (spread + unsure * middle**2) + UNSEEN_CHANCE * middle
        doubts.append((np.flatnonzero(others), unheard))
        least = (COARSE * float(result[1:].sum())) ** 2
        return self._sized(result, new, max(variance + unheard, least), tuple(doubts))

    def _move(self, totals: Sequence[Total], active: Floats, new: float) -> None:
        """Who was active and due pays, and is in the next class. Those who are met were there before, or arrive."""
        shares = {int(m): share for total in totals for m, share in zip(total.classes, total.shares, strict=True)}
        users, left, top = self._users.copy(), self._left.copy(), len(self._users) - 1
        if not self._before.slots:
            users[0, 0] = left[0, 0] = new * STOCK
        for m in sorted(shares, reverse=True):
            paid, held = users[m] * active, left[m] * active
            if m < top:
                users[m] -= paid
                users[m + 1] += paid
            left[m] -= held
            left[min(m + 1, top)] += held * (1 - shares[m])
        arriving = self._arrivals * ENTER if self._before.slots else new * ENTER * (STOCK == 0)
        if totals:
            users[1, -1] += arriving
            left[1, -1] += (1 - shares[0]) * arriving
        self._users, self._left = users, left


def _widening(missed: float, looks: float) -> float:
    """By what the members' variances grow.

    What all members have in common, the grid of types and the prior, is taken to be as uncertain as what they differ
    in: twice. That is a guess, made after intervals without it were seen to be too narrow. Their scale is known from so
    many looks, and Student's law has longer tails: its quantile over the normal one is 1 + (z² + 1)/4ν for ν degrees,
    of which there are at least two.
    """
    longer = 1 + 1.21 / max(looks, 2.0)
    return IN_COMMON * max(missed / looks, 1.0) * longer**2


def _mixture(weights: Floats, users: Floats, paid: Floats, looks: float) -> float:
    """Variance of what a user pays on average, because shares of cohorts and types are not known exactly.

    If all of a cohort were of one type, so many `users` would pay so much; `weights` say how likely that is. The shares
    have a Dirichlet law: its precision is that of the prior, and one more with each look.
    """
    shares, pays = weights * users, paid / np.maximum(users, 1e-9)
    shares = shares / max(float(shares.sum()), 1e-9)
    return _variance(shares, pays) / (1 + float(PRIOR.sum()) + looks)


def _variance(weights: Floats, values: Floats) -> float:
    return float(weights @ (values - weights @ values) ** 2)
