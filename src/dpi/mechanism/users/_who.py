"""Who is active: how many newcomers there are, and how many of every class return.

A user has a type (`_types`). Users who were met in the first slot, later, and lately are *cohorts*, each with weights
of the types. If all of a cohort were of one type, numbers by class would follow by themselves: who stays, who is
active, who pays and moves up. So what users of some classes pay together is linear in the weights of cohorts and types:
a regression with weights that are not negative. Its uncertainty is that of an ensemble: every member is fitted to sums
with other noise, from another prior (randomise, then optimise). Members belong to three hypotheses, weighted by
evidence: cohorts are alike, cohorts differ, nobody returns of those who came after the first slot.

*A population is as large as what it lives of*: newcomers, times how long their types stay, make up about the number
that was met in the first slot. Without it, types that hardly pay any more could be as many as one likes.

*Self-check.* What forecasts missed, over what they said they could miss, widens what is said later; a slot counts by
the share of users whom it measured.

Sees totals after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.users._level import Level
from dpi.mechanism.users._types import ENTER, HAZARD, LONG_RUN, NEXT, STATES, TYPES, by_type, more_active

MEMBERS = 24
"""Members of the ensemble that are fitted. Source: by calculation; a spread is known to 15 %."""
SURPRISE, TURNS = 4.0, 2
"""After a measurement members are fitted again whose squared miss is so many times its variance, two deviations, and so
many others in turn. Source: by calculation; two deviations are rare, and all have their turn within a dozen."""
ALIKE, DIFFER, NOBODY = 0, 1, 2
"""The hypotheses. Source: by definition."""
HYPOTHESES: Floats = np.log([0.45, 0.25, 0.3])
"""Prior log weights of cohorts that are alike, that differ, and of nobody who returns. Source: a prior."""
ONCE, OTHERS, FOR_EVER = 0.8, 1.2, 0.5
"""Weights of a sparse Dirichlet prior: who comes once, and all other types together; of these, who stays for ever.
Source: a prior; a cohort has two or three types, and who has stayed for long stays for longer: the scale of time is not
known, so that half of the weight is beyond anything that was seen."""
PULL = (8.0, 4.0, 1.0)
"""Precision of that prior for each cohort. Source: a prior."""
TIES = ((2e-4, 2e-7), (0.03, 3e-4))
"""Variance by which a type's weight changes from cohort to cohort if they are alike, or differ: a part of the weight,
and a floor. Source: a prior."""
MEMORY = 0.997
"""What is left of a slot's evidence after another one: some hundred slots count. Source: a prior."""
COHORTS = (0, 1, 4, 16, 64, 256, 1024, 4096)
"""Slots from which users are a cohort of their own. Source: by calculation; each is four times as old as the next."""
COMMON = 0.04**2, 3.0
"""Relative variance of a slot's activity that all share, before it is learned, and how many slots that counts for.
Source: a prior."""
LONGEST = 500.0
"""No user counts for more slots than these. Source: a prior."""
SURE = 1e5
"""Precision with which weights of a cohort sum to one. Source: by definition."""
CHECKED = 0.95
"""What is left of the self-check after another measurement: twenty count. Source: a prior."""


class Total(NamedTuple):
    """What users of some classes pay together in a slot, with its variance; noise of one bin has scale one."""

    classes: Integers
    shares: Floats
    """What each class was asked for, …"""
    part: float
    """… and the part of it that was paid here."""
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
class Who:
    """What is known of users, between slots."""

    slots: int
    turn: int
    users: Floats
    """If all of a cohort were of one type: users by cohort, class and state."""
    left: Floats
    """What they have left together."""
    information: Floats
    """Of the weights of cohorts and types."""
    evidence: Floats
    """What sums said of them, by member."""
    prior: Floats
    """Of each member, (members, cohorts, types)."""
    weights: Floats
    """Of each member."""
    log_hypotheses: Floats
    inflow: Level
    usual: float
    """Newcomers, smoothed."""
    first: Floats
    """Users of the first slot, and the variance of that."""
    common: Floats
    """Squared common deviations of activity, and how much they weigh."""
    missed: Floats
    """Squared misses of forecasts over their variances, and how much they weigh."""

    @classmethod
    def begun(cls, classes: int) -> Who:
        """Before anything was seen."""
        nobody = np.zeros((0, classes, STATES))
        return cls(
            slots=0,
            turn=0,
            users=nobody,
            left=nobody,
            information=np.zeros((0, 0)),
            evidence=np.zeros((MEMBERS, 0)),
            prior=np.zeros((MEMBERS, 0, TYPES)),
            weights=np.zeros((MEMBERS, 0, TYPES)),
            log_hypotheses=HYPOTHESES,
            inflow=Level.begun(),
            usual=0.0,
            first=np.zeros(2),
            common=np.zeros(2),
            missed=np.array([2.0, 1.0]),
        )

    def types(self) -> Floats:
        """Of the users of each class who are active, the share of each type; of newcomers, of all who are new."""
        weights = np.tensordot(_member_weights(self.log_hypotheses), _with_nobody(self.weights), 1)
        shares = np.einsum("cmz,cz->mz", by_type(self.users) * LONG_RUN, weights)
        shares += 1e-9 * _USUAL * LONG_RUN  # who returns to a class that should be empty does not come once
        shares[0] = weights[-1]
        return np.asarray(shares / shares.sum(1, keepdims=True))


_stays = HAZARD[1:] < 1e-4
_PRIOR: Floats = np.r_[ONCE, OTHERS * np.where(_stays, FOR_EVER / _stays.sum(), (1 - FOR_EVER) / (~_stays).sum())]
_USUAL: Floats = _PRIOR / _PRIOR.sum()
"""Of all types, and as weights that sum to one."""
_OF: Integers = np.r_[np.arange(MEMBERS) % 2, np.full(MEMBERS, NOBODY)]
"""The hypothesis of each member; each is there twice, the second time with later cohorts who come once."""


def _member_weights(log: Floats) -> Floats:
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    return np.asarray(weights[_OF] / np.bincount(_OF)[_OF])


def _with_nobody(weights: Floats) -> Floats:
    """Members, and once more those members if nobody returns of those who came after the first slot."""
    nobody = np.zeros_like(weights)
    nobody[:, :1], nobody[:, 1:, 0] = weights[:, :1], 1.0
    return np.concatenate([weights, nobody])


class Census:
    """The numbers at work in one slot: each step changes them."""

    def __init__(self, who: Who, epsilon: float) -> None:
        self._who, self._epsilon = who, epsilon
        self._users, self._left = who.users, who.left
        self._information, self._evidence = who.information, who.evidence
        self._prior, self._weights = who.prior, who.weights
        self._log, self._turn, self._inflow, self._usual = who.log_hypotheses, who.turn, who.inflow, who.usual
        self._shares, self._all = _member_weights(self._log), _with_nobody(self._weights)
        self._first, self._common, self._missed = who.first, who.common, who.missed
        # Public: it perturbs fits to sums after noise. The noise of the promise comes from `dpi.noise`.
        self._random = np.random.Generator(np.random.Philox(who.slots))
        self._classes = who.users.shape[1]
        self._surprised: npt.NDArray[np.bool_] = np.zeros(MEMBERS, dtype=np.bool_)
        self.told: Floats = np.zeros(2)
        """How many returned, and how many were expected to, each by how much it told."""

    def sealed(self) -> Who:
        """What is known after the slot."""
        return Who(
            slots=self._who.slots + 1,
            turn=self._turn,
            users=self._users,
            left=self._left,
            information=self._information,
            evidence=self._evidence,
            prior=self._prior,
            weights=self._weights,
            log_hypotheses=self._log,
            inflow=self._inflow,
            usual=self._usual,
            first=self._first,
            common=self._common,
            missed=self._missed,
        )

    def gone(self) -> Floats:
        """By class, the part of those who are active who never will be again."""
        return np.asarray(1 - self.sealed().types() @ ((1 - HAZARD) * LONG_RUN / ((1 - HAZARD) * LONG_RUN + HAZARD)))

    def expect(self, slots: int, activity: float) -> Sizes:
        """Who is active some slots later, before anything is measured; in a phase that is more or less active."""
        if self._who.slots in COHORTS:
            self._begin_cohort()
        later = NEXT if slots == 1 else np.linalg.matrix_power(NEXT, slots)
        self._users, self._left = self._users @ later, self._left @ later
        self._activity, self._log_odds = activity, float(np.log(max(activity, 1e-3)))
        self._active = more_active(self._log_odds)
        self._present, self._holding = by_type(self._users * self._active), by_type(self._left * self._active)
        return self._sized(self._by_class(self._present), self._inflow.expected, 0.0, ())

    def count(self, totals: Sequence[Total]) -> Sizes:
        """Who is active, from what they paid; the first total is of newcomers, an empty list of nobody's."""
        newcomers, returned = (totals[0], totals[1:]) if totals else (None, ())
        if newcomers is not None:
            pay = self._epsilon * newcomers.part * float(newcomers.shares[0])
            self._inflow = self._inflow.after(newcomers.paid / pay, newcomers.variance / pay**2)
        new, doubt = self._inflow.posterior if newcomers is not None else (self._inflow.expected, self._inflow.spread)
        if not self._who.slots:
            self._usual, self._first = new, np.array([new, newcomers.variance / pay**2 if newcomers else 0.0])
        else:
            self._usual += 0.3 * (new - self._usual)
        heard = self._learn(returned)
        more, unsure = self._share_activity(heard)
        if returned:
            self._solve()
        sizes = self._number(heard, more, unsure, new, doubt)
        self._move(totals, more, new)
        return sizes

    def _by_class(self, of_types: Floats) -> Floats:
        """Expected over members, (classes,)."""
        mean = np.tensordot(self._shares, self._all, 1)
        return np.asarray(np.maximum(np.einsum("cmz,cz->m", of_types, mean), 0.0))

    def _sized(self, users: Floats, new: float, variance: float, doubts: tuple[tuple[Integers, float], ...]) -> Sizes:
        present, holding = self._by_class(self._present), self._by_class(self._holding)
        left = np.where(present > 1e-9, holding / np.maximum(present, 1e-9), 0.5)
        left[0], users = 1.0, users.copy()
        users[0] = new
        stock = self._by_class(by_type(self._users) * np.maximum(LONG_RUN, 1e-3))
        return Sizes(users, np.clip(left, 0, 1), stock, max(float(users.sum()), 1e-3), variance, doubts)

    def _begin_cohort(self) -> None:
        """Users who come from now on; of more than three cohorts the middle ones become one."""
        cohorts = len(self._users)
        if cohorts == len(PULL):
            share = float(self._users[2].sum() / max(self._users[1:].sum(), 1e-9))
            self._users, self._left = (np.stack([a[0], a[1] + a[2]]) for a in (self._users, self._left))
            join = np.zeros((3 * TYPES, 2 * TYPES))
            join[np.arange(3 * TYPES), np.r_[np.arange(2 * TYPES), np.arange(TYPES, 2 * TYPES)]] = 1.0
            self._information, self._evidence = join.T @ self._information @ join, self._evidence @ join
            self._weights, self._prior = (
                np.stack([a[:, 0], (1 - share) * a[:, 1] + share * a[:, 2]], axis=1)
                for a in (self._weights, self._prior)
            )
            cohorts = 2
        nobody = np.zeros((1, *self._users.shape[1:]))
        self._users, self._left = np.concatenate([self._users, nobody]), np.concatenate([self._left, nobody])
        more = [(0, TYPES)]
        self._information = np.pad(self._information, more * 2)
        self._evidence = np.pad(self._evidence, [(0, 0), *more])
        drawn = self._random.dirichlet(_PRIOR, MEMBERS)
        drawn[:2] = _USUAL
        self._prior = np.concatenate([self._prior, drawn[:, None]], axis=1)
        like = self._weights[:, -1:] if cohorts else drawn[:, None]
        self._weights = np.concatenate([self._weights, like], axis=1)
        self._all = _with_nobody(self._weights)

    def _paying(self, total: Total, of_types: Floats) -> Floats:
        """What users of each cohort and type pay of it, (cohorts, types)."""
        return np.asarray(np.einsum("m,cmz->cz", self._epsilon * total.part * total.shares, of_types[:, total.classes]))

    def _learn(self, totals: Sequence[Total]) -> list[tuple[Total, float, float]]:
        """Each total that says anything, with what was expected and its variance; the regression is told of all."""
        self._information, self._evidence = MEMORY * self._information, MEMORY * self._evidence
        common, heard = self._common_variance, []
        everybody = max(float(self._by_class(self._present)[1:].sum()), 1e-9)
        log, missed = self._log.copy(), self._missed
        for total in totals:
            paying = self._paying(total, self._holding)
            each = np.einsum("cz,jcz->j", paying, self._all)
            weights = self._shares
            expected = float(weights @ each)
            if expected <= 1e-6:
                continue
            spread = float(weights @ (each - expected) ** 2)
            present = float(self._by_class(self._present)[total.classes].sum())
            pay = expected / max(present, 1e-9)
            idle = by_type(
                np.einsum(
                    "m,cms->cs",
                    self._epsilon * total.part * total.shares,
                    (self._left * self._active)[:, total.classes],
                )
                * (1 - self._active)
            )
            chance = max(float((idle * self._weights.mean(0)).sum()), 0.0) * pay + pay**2
            variance = total.variance + common * expected**2 + chance
            for hypothesis in (ALIKE, DIFFER, NOBODY):
                said = each[np.equal(_OF, hypothesis)]
                wide = total.variance + float(said.var()) + common * float(said.mean()) ** 2
                wide += pay**2 + chance * min(float(said.mean()) / expected, 1.0)
                log[hypothesis] -= 0.5 * (min((total.paid - said.mean()) ** 2 / wide, 25.0) + np.log(wide))
            share = min(present / everybody, 1.0)
            missed = missed + share * np.array([min((total.paid - expected) ** 2 / (variance + spread), 100.0), 1.0])
            row = paying.ravel()
            self._information = self._information + np.outer(row, row) / variance
            drawn = np.r_[0.0, 0.0, self._random.normal(size=MEMBERS - 2)]
            told = total.paid + variance**0.5 * drawn
            self._evidence = self._evidence + told[:, None] * row / variance
            self._surprised |= (told - each[:MEMBERS]) ** 2 > SURPRISE * variance
            heard.append((total, expected, spread + chance))
        if heard:
            self._missed = np.maximum(CHECKED * missed, 1e-3)
        if totals:
            log = np.maximum(log - log.max(), (-3.0, -3.0, -30.0))
            self._log = HYPOTHESES + 0.998 * (log - HYPOTHESES)
            self._shares = _member_weights(self._log)
        return heard

    @property
    def _common_variance(self) -> float:
        prior, weight = COMMON
        return max(float((self._common[0] + weight * prior) / (self._common[1] + weight)), 1e-4)

    def _share_activity(self, heard: Sequence[tuple[Total, float, float]]) -> tuple[float, float]:
        """By what share all were more active than expected, and the variance of that."""
        usual = self._common_variance
        if not heard:
            return 0.0, usual
        foreseen = sum(expected**2 / total.variance for total, expected, _ in heard)
        seen = sum(total.paid * expected / total.variance for total, expected, _ in heard)
        doubt = sum(spread * (expected / total.variance) ** 2 for total, expected, spread in heard)
        apart, variance = (seen - foreseen) / foreseen, (foreseen + doubt) / foreseen**2
        weight = ((usual + 0.0025) / (usual + 0.0025 + variance)) ** 2
        self._common = 0.99 * self._common + weight * np.array([min(apart**2 - variance, 0.25), 1.0])
        self.told = np.array([(1 + apart) * self._activity, 1.0]) / (variance + usual)
        gain = usual / (usual + variance)
        return float(np.clip(gain * apart, -0.5, 1.0)), usual * (1 - gain)

    def _solve(self) -> None:
        """Weights of the members: those of the next in turn, all of them at first."""
        cohorts = len(self._users)
        size = cohorts * TYPES
        pull = np.repeat(PULL[:cohorts], TYPES)
        matrix = self._information + np.diag(pull) + SURE * np.kron(np.eye(cohorts), np.ones((TYPES, TYPES)))
        target = self._evidence + pull * self._prior.reshape(MEMBERS, size) + SURE
        matrices = [matrix, matrix.copy()]
        for after in range(1, cohorts):
            here = np.arange(after * TYPES, (after + 1) * TYPES)
            before = here - TYPES
            for hypothesis, tied in enumerate(matrices):
                usual = np.maximum(self._all[hypothesis == _OF, after - 1 : after + 1].mean((0, 1)), 0.0)
                part, floor = (0.5, 0.01) if after == 1 else TIES[hypothesis]
                tie = 1 / (part * usual + floor)
                tied[here, here] += tie
                tied[before, before] += tie
                tied[here, before] -= tie
                tied[before, here] -= tie
            self._keep_size(matrices, target, here)
        self._surprised[(self._turn + np.arange(TURNS)) % MEMBERS] = True
        self._turn = (self._turn + TURNS) % MEMBERS
        weights = self._weights.copy()
        for member in np.flatnonzero(self._surprised).tolist():
            weights[member] = solve_positive(matrices[_OF[member]], target[member], weights[member].ravel()).reshape(
                cohorts, TYPES
            )
        self._weights, self._all = weights, _with_nobody(weights)

    def _keep_size(self, matrices: list[Floats], target: Floats, here: Integers) -> None:
        """Newcomers of a cohort, times how long they stay, make about as many as were met in the first slot."""
        new = max(self._usual, 1e-3)
        row = new * np.minimum(LONG_RUN * (1 - HAZARD) / HAZARD, LONGEST)
        variance = self._first[0] ** 2 + new**2 + self._first[1]
        for matrix in matrices:
            matrix[np.ix_(here, here)] += np.outer(row, row) / variance
        target[:, here] += row * max(self._first[0] - new, 0.0) / variance

    def _number(
        self, heard: Sequence[tuple[Total, float, float]], more: float, unsure: float, new: float, doubt: float
    ) -> Sizes:
        """Numbers by class: what was measured, and what is expected of the others."""
        weights, wider = self._shares, _widening(*self._missed.tolist())
        each = np.einsum("cmz,jcz->jm", self._present, self._all)
        users = np.maximum(weights @ each, 0.0)
        result, variance = np.zeros(users.size), doubt
        others = np.ones(users.size, dtype=np.bool_)
        others[0] = False
        doubts: list[tuple[Integers, float]] = [(np.array([0]), doubt)]
        mean = np.tensordot(weights, self._all, 1)
        for total, _, _ in heard:
            here = total.classes
            others[here] = False
            expected = float(users[here].sum())
            pay = max(float((self._paying(total, self._holding) * mean).sum()) / max(expected, 1e-9), 1e-6)
            apart = each[:, here].sum(1)
            spread = wider * (_variance(weights, apart) + self._common_variance * expected**2) + 0.3 * expected + 1
            pays = np.einsum("cz,jcz->j", self._paying(total, self._holding), self._all) / np.maximum(apart, 1e-9)
            noise = (total.variance + _variance(weights, pays) * expected**2) / pay**2
            gain = spread / (spread + noise)
            found = max(expected + gain * (total.paid / pay - expected), 0.0)
            result[here] = users[here] * found / max(expected, 1e-9)
            variance += spread * (1 - gain)
            doubts.append((here, spread * (1 - gain)))
        rest = each[:, others].sum(1) * (1 + more)
        order = np.argsort(rest)
        middle = float(rest[order[min(int(np.searchsorted(np.cumsum(weights[order]), 0.5)), _OF.size - 1)]])
        usual = float(weights @ rest)
        result[others] = users[others] * (1 + more) * middle / max(usual, 1e-9)
        unheard = wider * (2 * (_variance(weights, rest) + (usual - middle) ** 2) + unsure * middle**2) + 0.5 * middle
        doubts.append((np.flatnonzero(others), unheard))
        return self._sized(result, new, variance + unheard, tuple(doubts))

    def _move(self, totals: Sequence[Total], more: float, new: float) -> None:
        """Who was active and due pays, and is in the next class."""
        active = more_active(self._log_odds + more)
        shares = {int(m): share for total in totals for m, share in zip(total.classes, total.shares, strict=True)}
        users, left, top = self._users.copy(), self._left.copy(), self._classes - 1
        for m in sorted(shares.keys() - {0}, reverse=True):
            paid, held = users[:, m] * active, left[:, m] * active
            if m < top:
                users[:, m] -= paid
                users[:, m + 1] += paid
            left[:, m] -= held
            left[:, min(m + 1, top)] += held * (1 - shares[m])
        users[-1, 1] += new * ENTER
        left[-1, 1] += new * (1 - shares.get(0, 0.0)) * ENTER
        self._users, self._left = users, left


def _widening(missed: float, looks: float) -> float:
    """By what the members' variances grow.

    What all members have in common, the grid of types and the prior, is taken to be as uncertain as what they differ
    in: twice. That is a guess, made after intervals without it were seen to be too narrow. Their scale is known from so
    many looks, and Student's law has longer tails: its quantile over the normal one is 1 + (z² + 1)/4ν for ν degrees,
    of which there are at least two.
    """
    longer = 1 + 1.21 / max(looks, 2.0)
    return 2 * max(missed / looks, 1.0) * longer**2


def _variance(weights: Floats, values: Floats) -> float:
    return float(weights @ (values - weights @ values) ** 2)


def solve_positive(matrix: Floats, target: Floats, start: Floats) -> Floats:
    """The x ≥ 0 that minimises ½x'Ax - b'x, by block principal pivoting (Portugal, Júdice and Vicente 1994).

    `start` says where x is positive at first.

    >>> solve_positive(np.eye(2), np.array([1.0, -1.0]), np.ones(2)).tolist()
    [1.0, 0.0]
    """
    on: npt.NDArray[np.bool_] = start > 1e-9
    best, patience, found = target.size + 1, 3, start
    for _ in range(30):
        found, inside = np.zeros(target.size), np.flatnonzero(on)
        if inside.size:
            found[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], target[inside])
        slope = matrix @ found - target
        wrong = np.where(on, found < -1e-10, slope < -1e-7 * (1 + np.abs(target)))
        count = int(wrong.sum())
        if not count:
            break
        if count < best:
            best, patience = count, 3
        elif patience:
            patience -= 1
        else:  # one at a time, the last: that ends
            last = np.flatnonzero(wrong)[-1]
            wrong[:] = False
            wrong[last] = True
        on = on ^ wrong
    return np.maximum(found, 0.0)
