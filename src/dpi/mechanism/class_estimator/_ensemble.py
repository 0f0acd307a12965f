"""Which types of users there are: weights of cohorts and types, and how sure that is.

Users who were met in the first slot, later, and lately are *cohorts*, each with weights of the types (`_types`). What
users of some classes pay together is linear in these weights: a regression with weights that are not negative. Its
uncertainty is that of an ensemble: every member is fitted to sums with other noise, from another prior (randomise, then
optimise). Members belong to three hypotheses, weighted by evidence: cohorts are alike, cohorts differ, nobody returns
of those who came after the first slot.

*Who has not been met yet.* Where users are there before the first slot, those who come rarely are met one after the
other. How fast newcomers become fewer says how often they all come, and it is measured better than anything else. The
rest of the newcomers *arrive*: a number that walks.

*A population is as large as what it lives of*, if cohorts are alike: newcomers, times how long their types stay, make
up about the number that was met in the first slot. Where cohorts differ a stream may grow.

Sees totals after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator._types import HAZARD, LONG_RUN, TYPES

MEMBERS = 16
"""Members of the ensemble that are fitted. Source: by calculation; a spread is known to 18 %."""
SURPRISE, TURNS = 4.0, 2
"""After a measurement members are fitted again whose squared miss is so many times its variance, two deviations, and so
many others in turn. Source: by calculation; two deviations are rare, and all have their turn within eight."""
ALIKE, DIFFER, NOBODY = 0, 1, 2
"""The hypotheses. Source: by definition."""
HYPOTHESES: Floats = np.log([0.45, 0.25, 0.3])
"""Prior log weights of cohorts that are alike, that differ, and of nobody who returns. Source: a prior."""
LEAST_LIKELY = (-3.0, -3.0, -30.0)
REMEMBERED = 0.998
"""How far a hypothesis may fall behind, and what is left of its evidence after another measurement: cohorts may be
alike again. Source: a prior; some hundred measurements count."""
ONCE, OTHERS, FOR_EVER = 0.8, 1.2, 0.5
"""Weights of a sparse Dirichlet prior: who comes once, and all other types together; of these, who stays for ever.
Source: a prior; a cohort has two or three types, and the scale of time is not known, so that half of the weight is
beyond anything that was seen (.2, .43 and .6 were compared on random worlds)."""
PULL = (8.0, 4.0, 1.0)
"""Precision of that prior for each cohort. Source: a prior."""
FIRST_TIE = (0.5, 0.01)
TIES = ((2e-4, 2e-7), (0.03, 3e-4))
"""Variance by which a type's weight changes from the first cohort to the next, and from there on if cohorts are alike,
or differ: a part of the weight, and a floor. Source: a prior."""
MEMORY = 0.997
"""What is left of the evidence after a clear total: some hundred count. Where nobody has anything left to pay, nothing
is forgotten. Source: a prior."""
LONGEST = 500.0
"""No user counts for more slots than these. Source: a prior."""
WALK, SURE_OF_ARRIVALS = 0.1, 0.3
"""Relative step of the number of those who arrive, in a slot, and the precision of what it is presumed to be: anything
up to the number of the first slot's users. Source: a prior; the middle one of `_level.STEPS`."""
SURE = 1e5
"""Precision with which weights of a cohort sum to one. Source: by definition."""

_stays = HAZARD[1:] < 1e-4
PRIOR: Floats = np.r_[ONCE, OTHERS * np.where(_stays, FOR_EVER / _stays.sum(), (1 - FOR_EVER) / (~_stays).sum())]
"""Weights of the Dirichlet prior, by type."""
USUAL: Floats = PRIOR / PRIOR.sum()
"""Weights of the types, before anything was seen."""
_STAY: Floats = np.minimum(LONG_RUN * (1 - HAZARD) / HAZARD, LONGEST)
_OF: Integers = np.r_[np.arange(MEMBERS) % 2, np.full(MEMBERS, NOBODY)]
"""The hypothesis of each member; each is there twice, the second time with later cohorts who come once."""
_EVEN: Floats = np.stack([hypothesis == _OF for hypothesis in (ALIKE, DIFFER, NOBODY)]) / MEMBERS
_EVEN[:2] *= 2  # the mean over the members of each hypothesis


@dataclass(frozen=True, eq=False)
class Ensemble:
    """What is known of the weights, which are (members, 1 + cohorts · types).

    The first one is the number of those who arrive in a slot, as a part of the first slot's users.
    """

    turn: int
    """The number of the member that is fitted next."""
    information: Floats
    """The information on the weights, a matrix."""
    evidence: Floats
    """What sums said of them, by member."""
    prior: Floats
    weights: Floats
    log_hypotheses: Floats

    @classmethod
    def begun(cls) -> Ensemble:
        """Before there are cohorts."""
        arrivals = ((np.arange(MEMBERS) * 5 % MEMBERS + 0.5) / MEMBERS)[:, None]
        return cls(0, np.zeros((1, 1)), np.zeros((MEMBERS, 1)), arrivals, arrivals, HYPOTHESES)

    @property
    def cohorts(self) -> int:
        """How many there are."""
        return (int(self.weights.shape[1]) - 1) // TYPES

    @property
    def everyone(self) -> Floats:
        """Weights of the members, and once more if nobody returns of those who came after the first slot."""
        weights = self.weights[:, 1:]
        nobody = np.zeros_like(weights)
        nobody[:, TYPES::TYPES], nobody[:, :TYPES] = 1.0, weights[:, :TYPES]
        return np.concatenate([weights, nobody])

    @property
    def shares(self) -> Floats:
        """How likely each of these is."""
        weights = np.exp(self.log_hypotheses - self.log_hypotheses.max())
        return np.asarray(weights / weights.sum() @ _EVEN)

    def with_cohort(self, random: np.random.Generator, last: float) -> Ensemble:
        """One more cohort; of three the last two become one, of which `last` is the share of the later."""
        grown = self._joined(last) if self.cohorts == len(PULL) else self
        drawn = random.dirichlet(PRIOR, MEMBERS)
        drawn[:2] = USUAL
        like = grown.weights[:, -TYPES:] if grown.cohorts else drawn
        return replace(
            grown,
            information=np.pad(grown.information, [(0, TYPES)] * 2),
            evidence=np.pad(grown.evidence, [(0, 0), (0, TYPES)]),
            prior=np.concatenate([grown.prior, drawn], axis=1),
            weights=np.concatenate([grown.weights, like], axis=1),
        )

    def _joined(self, last: float) -> Ensemble:
        both = 1 + 2 * TYPES
        sums = np.eye(both)[np.r_[:both, 1 + TYPES : both]]
        means = sums * np.r_[1.0, np.repeat([1.0, 1 - last, last], TYPES)][:, None]
        return replace(
            self,
            information=sums.T @ self.information @ sums,
            evidence=self.evidence @ sums,
            prior=self.prior @ means,
            weights=self.weights @ means,
        )


class Regression:
    """The ensemble at work in one slot."""

    def __init__(self, before: Ensemble, random: np.random.Generator) -> None:
        self.ensemble, self._random = before, random
        self._information, self._evidence = before.information, before.evidence
        self._log = before.log_hypotheses.copy()
        self._surprised: npt.NDArray[np.bool_] = np.zeros(MEMBERS, dtype=np.bool_)

    def tell(self, row: Floats, paid: float, variance: float, said: Floats, doubts: tuple[float, float, float]) -> None:
        """Add what users paid: a `row` of the regression, of which every member `said` something.

        A hypothesis misses by noise, by a share that all have in common and by chance, which are `doubts`: variances,
        of the share relative to what was said, of chance if as many came as were expected.
        """
        noise, common, chance = doubts
        mean = _EVEN @ said
        expected = max(float(self.ensemble.shares @ said), 1e-9)
        wide = noise + _EVEN @ said**2 - mean**2 + common * mean**2 + chance * np.minimum(mean / expected, 1.0)
        self._log -= 0.5 * (np.minimum((paid - mean) ** 2 / wide, 25.0) + np.log(wide))
        kept = 1 - (1 - MEMORY) * -float(np.expm1(-0.5 * expected**2 / variance))  # by as much as is heard anew
        self._information, self._evidence = kept * self._information, kept * self._evidence
        self._add(np.r_[0.0, row], paid, variance, said[:MEMBERS])

    def tell_newcomers(self, row: Floats, new: float, variance: float, common: float, usual: float) -> None:
        """Newcomers, as a part of the first slot's users: a `row` of those who are met late, and those who arrive.

        Arrivals, `usual` of late, walk; what was known of them is known less. A crowd that nobody foresaw counts as at
        most three deviations.
        """
        column = self._information[:, 0]
        lost = column / (1 / (WALK * max(usual, 0.01)) ** 2 + column[0])
        self._information = self._information - np.outer(column, lost)
        self._evidence = self._evidence - self._evidence[:, :1] * lost
        row = np.r_[1.0, row]
        said = self.ensemble.weights @ row
        expected = float(said.mean())
        self._add(row, new, variance + common * expected**2 + ((new - expected) / 3) ** 2, said)

    def _add(self, row: Floats, told: float, variance: float, said: Floats) -> None:
        """Add a row of the regression: every member sees it with noise of its own, but for two."""
        self._information = self._information + np.outer(row, row / variance)
        heard = told + variance**0.5 * np.r_[0.0, 0.0, self._random.normal(size=MEMBERS - 2)]
        self._evidence = self._evidence + heard[:, None] * (row / variance)
        self._surprised |= (heard - said) ** 2 > SURPRISE * variance

    def weigh(self) -> None:
        """Hypotheses, after all was told."""
        log = np.maximum(self._log - self._log.max(), LEAST_LIKELY)
        self.ensemble = replace(self.ensemble, log_hypotheses=HYPOTHESES + REMEMBERED * (log - HYPOTHESES))

    def solve(self, usual: float, first: Floats) -> None:
        """Weights of members that were surprised, and of the next in turn; newcomers are `usual`, at first `first`."""
        known = self.ensemble
        self._surprised[(known.turn + np.arange(TURNS)) % MEMBERS] = True
        pull = np.r_[SURE_OF_ARRIVALS, np.repeat(PULL[: known.cohorts], TYPES)]
        matrix = self._information + np.diag(pull)
        target = self._evidence + pull * known.prior
        target[:, 1:] += SURE
        cohorts = [slice(at, at + TYPES) for at in range(1, pull.size, TYPES)]
        for here in cohorts:
            matrix[here, here] += SURE
        matrices = [_tie(matrix, known.weights[hypothesis::2].mean(0), TIES[hypothesis]) for hypothesis in (0, 1)]
        for here in cohorts[1:]:
            _keep_size(matrices[ALIKE][here, here], target[ALIKE::2, here], max(usual, 1e-3), first)
        weights = known.weights.copy()
        for member in np.flatnonzero(self._surprised).tolist():
            weights[member] = solve_positive(matrices[member % 2], target[member], weights[member])
        self.ensemble = replace(known, turn=(known.turn + TURNS) % MEMBERS, weights=weights)

    def sealed(self) -> Ensemble:
        """Return the ensemble after the slot."""
        return replace(self.ensemble, information=self._information, evidence=self._evidence)

    def begin_cohort(self, last: float) -> None:
        """Users who come from now on are a cohort."""
        self.ensemble = replace(self.sealed(), turn=self.ensemble.turn).with_cohort(self._random, last)
        self._information, self._evidence = self.ensemble.information, self.ensemble.evidence


def _keep_size(matrix: Floats, target: Floats, new: float, first: Floats) -> None:
    """Newcomers of a cohort, times how long they stay, make about as many as were met in the first slot."""
    row, variance = new * _STAY, first[0] ** 2 + new**2 + first[1]
    matrix += np.outer(row, row / variance)
    target += row * (max(first[0] - new, 0.0) / variance)


def _tie(matrix: Floats, usual: Floats, changes: tuple[float, float]) -> Floats:
    """Weights of a type in cohorts that follow each other are about the same."""
    tied = matrix.copy()
    for after in range(1, (usual.size - 1) // TYPES):
        here = 1 + np.arange(after * TYPES, (after + 1) * TYPES)
        before = here - TYPES
        part, floor = FIRST_TIE if after == 1 else changes
        tie = 1 / (part * np.maximum(0.5 * (usual[here] + usual[before]), 0.0) + floor)
        tied[here, here] += tie
        tied[before, before] += tie
        tied[here, before] -= tie
        tied[before, here] -= tie
    return tied


def solve_positive(matrix: Floats, target: Floats, start: Floats) -> Floats:
    """Return the x ≥ 0 that minimises ½x'Ax - b'x, by block principal pivoting (Portugal, Júdice and Vicente 1994).

    `start` says where x is positive at first.

    >>> solve_positive(np.eye(2), np.array([1.0, -1.0]), np.ones(2)).tolist()
    [1.0, 0.0]
    """
    on: npt.NDArray[np.bool_] = start > 1e-9
    best, patience, solution = target.size + 1, 3, start
    allowed = -1e-7 * (1 + np.abs(target))
    for _ in range(30):
        solution, inside = np.zeros(target.size), np.flatnonzero(on)
        if inside.size:
            solution[inside] = np.linalg.solve(matrix[inside[:, None], inside], target[inside])
        wrong = np.where(on, solution < -1e-10, matrix @ solution - target < allowed)
        count = int(np.count_nonzero(wrong))
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
    return np.maximum(solution, 0.0)
