"""Experts: forecasts of the next slot's PDF made of past measurements, and how much each is believed.

A *tracker* has for each bin a Gaussian message (mean, variance) of all that was measured of its level, if log-levels
walk by `drift` a slot; the *seasonal* expert has one for each phase of a public period. Messages hold no prior: the
population of levels enters when they are read. In a huge domain one row stands for all trackers, but for *loud* bins,
whose level stands out from noise. For bins that jump a *challenger* knows what was measured since they may have, with
the odds of that (Page 1954; Adams and MacKay 2007). Weights follow log scores, and a constant part of them flows back
to the prior (fixed share: Herbster and Warmuth 1998).

Sees messages and log scores of counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.mechanism.filtering._gaussians import PATIENCE, UNKNOWN, Floats, Gaussians, blocks
from dpi.mechanism.filtering._population import Readout
from dpi.mechanism.filtering.laplace_gauss import Reals

ALL = slice(None)

ROUNDING = 1e-9
"""The least share of a variance that walks leave. Source: by calculation."""
_BLOCK = 1 << 13
"""Bins of one expert that are aged at a time. Source: by trial (benchmarks/huge.py)."""
SEASONAL_DRIFT = 0.03
"""Drift of the seasonal expert over one period. Source: by trial."""
SEASONAL_SHARE = 0.2
"""Prior weight of the seasonal expert. Source: by trial."""
LONGEST = 1_000_000
"""Slots of a season: each has a place in memory. Source: chosen."""
UNIFORM_SHARE = 0.2
"""Prior weight of the uniform PDF, of experts that take over from each other. Source: benchmarks/clocked.py, spent
first; with 0.6 (and twice the `SHARE`) 40 bins that are reshuffled are 5 % better, but flights has 0.079 instead of
0.054."""
PROOF = 0.99
"""Weight of the uniform PDF before the first slot: whoever knows better has to show it. A mixture that holds a share w
of the uniform PDF is never further from the truth than that PDF is, plus log(1/w): 0.01, until there is evidence.
Source: by calculation (tests/mechanism/test_estimator.py)."""


@dataclass(frozen=True)
class ExpertPool:
    """Which experts there are: a tracker for each of the `drifts`, then the seasonal expert if there is a `season`."""

    drifts: tuple[float, ...]
    season: int | None = None

    def __post_init__(self) -> None:
        finite = all(isinstance(d, int | float) and math.isfinite(d) and d >= 0 for d in self.drifts)
        if not self.drifts or not finite or any(a >= b for a, b in pairwise(self.drifts)):
            raise OptionError(f"`drifts` must be increasing finite numbers of at least 0. Got {self.drifts!r}.")
        if self.season is not None and (not isinstance(self.season, int) or not 2 <= self.season <= LONGEST):
            raise OptionError(f"`season` must be a number of slots from 2 to {LONGEST:,}. Got {self.season!r}.")

    def steps(self, age: float) -> Floats:
        """Variances of log-walks: of trackers that are `age` slots old, of season, restart and challenger.

        >>> ExpertPool((0, 0.1), season=24).steps(2.0).round(4).tolist()
        [0.0, 0.02, 0.0009, 0.0, 0.0]
        """
        seasonal = [SEASONAL_DRIFT**2] if self.season else []
        return np.array([*(age * np.square(self.drifts)), *seasonal, 0, 0], dtype=np.float64)

    @property
    def prior(self) -> Floats:
        """Weights before anything was seen: of trackers, season, restart, challenger, and the uniform PDF.

        The restart has none before a change, the challenger never: it speaks for single bins.

        >>> ExpertPool((0, 0.1), season=24).prior.round(2).tolist()
        [0.35, 0.25, 0.2, 0.0, 0.0, 0.2]
        """
        seasonal = [SEASONAL_SHARE] if self.season else []
        trackers = np.power(PATIENCE, np.arange(len(self.drifts)))
        trackers *= (1 - sum(seasonal) - UNIFORM_SHARE) / trackers.sum()
        return np.array([*trackers, *seasonal, 0, 0, UNIFORM_SHARE])

    @property
    def first(self) -> Floats:
        """The same for the first slot, in which the uniform PDF has nearly all of the weight.

        >>> ExpertPool((0, 0.1)).first.round(4).tolist()
        [0.0059, 0.0041, 0.0, 0.0, 0.99]
        """
        others = np.append(self.prior[:-1], 0)
        return np.asarray(others * (1 - PROOF) / others.sum() + np.append(np.zeros(others.size - 1), PROOF))


Season = tuple[Gaussians | None, ...]
"""A ring of messages, one for each phase of the period; None for a phase that was never measured."""


def unknown_pool(experts: int, bins: int) -> Gaussians:
    """Messages of a pool that has seen nothing."""
    return Gaussians(np.full((experts, bins), 1 / bins), np.full((experts, bins), UNKNOWN))


@dataclass(frozen=True, eq=False)
class Walked:
    """Messages of a pool, and the part of their variances that log-walks have brought since the measurements.

    A message is read as it was measured, and what has been walked is then added to the reading. For a wider message
    would pass for that of a small bin, though no log-walk makes a large bin small; and the experts of large drifts
    would fit a slot without users, or any surprise, better than the truth does.
    """

    messages: Gaussians
    walk: Floats

    def __getitem__(self, key: int | list[int] | slice | Integers) -> Walked:
        """Some experts."""
        return Walked(Gaussians(self.messages.mean[key], self.messages.variance[key]), self.walk[key])

    def at(self, here: slice | Integers) -> Walked:
        """Some bins."""
        return Walked(Gaussians(self.messages.mean[:, here], self.messages.variance[:, here]), self.walk[:, here])

    @property
    def measured(self) -> Gaussians:
        """The messages, but for the walks; rounding leaves something to measure."""
        wide = self.messages.variance
        return Gaussians(self.messages.mean, np.maximum(wide - self.walk, ROUNDING * wide))

    def read(self, readout: Readout, rows: slice | Integers = ALL) -> Gaussians:
        """What messages say under a population: of some experts, and zeros for all others."""
        readings = Gaussians(np.zeros(self.walk.shape), np.zeros(self.walk.shape))
        for here in blocks(self.walk.shape[1], _BLOCK):
            part = self.at(here)[rows]
            reading = readout.read(part.measured)
            readings.mean[rows, here] = reading.mean
            readings.variance[rows, here] = np.add(reading.variance, part.walk, out=reading.variance)
        return readings

    def aged(self, readings: Gaussians, steps: Floats) -> tuple[Walked, Gaussians]:
        """Messages and readings after log-walks of variance `steps`, which add that times E[level²]."""
        wide, walk = self.messages.variance.copy(), self.walk.copy()
        for row in np.flatnonzero(steps):
            for here in blocks(walk.shape[1], _BLOCK):
                step = readings.mean[row, here] ** 2
                step += readings.variance[row, here]
                step *= steps[row]
                readings.variance[row, here] += step
                walk[row, here] += step
                step += wide[row, here]
                np.minimum(step, UNKNOWN, out=wide[row, here])
        return Walked(Gaussians(self.messages.mean, wide), walk), readings


def recall_season(pool: Walked, season: Season, slot: int, leader: int, mass: float) -> Walked:
    """The pool for a slot: the trackers, the message of the slot's phase, restart and challenger."""
    if not season:
        return pool
    phase, trackers = season[slot % len(season)], len(pool.walk) - 2
    row, walk = (pool.messages[leader], pool.walk[leader]) if phase is None else (phase.rescaled(mass), 0.0)
    return Walked(
        Gaussians(
            np.insert(pool.messages.mean, trackers, row.mean, 0),
            np.insert(pool.messages.variance, trackers, row.variance, 0),
        ),
        np.insert(pool.walk, trackers, walk, 0),
    )


def remember_season(pool: Walked, season: Season, slot: int, mass: float) -> tuple[Walked, Season]:
    """The pool without the season, and the ring with the slot's phase replaced by its row, over the `mass`."""
    if not season:
        return pool, season
    phase, row = slot % len(season), len(pool.walk) - 3
    rest = [at for at in range(len(pool.walk)) if at != row]
    return pool[rest], (*season[:phase], pool.messages[row].rescaled(1 / mass), *season[phase + 1 :])


STANDS_OUT = 0.25
"""A bin is loud if the second moment of its level is above this share of the variance of its message. Source:
benchmarks/huge.py and benchmarks/utility.py (docs/utility.md, Huge domains)."""


@dataclass(frozen=True, eq=False)
class Loud:
    """The trackers' own messages in the bins that stand out; elsewhere all have the leader's."""

    at: Integers
    """The bins, in increasing order."""
    trackers: Walked
    """(trackers, bins that are loud)."""

    def rows(self, at: Integers, leader: Walked) -> Walked:
        """The trackers' messages in other bins: those of the `leader`, where they had none of their own."""
        count = len(self.trackers.walk)
        rows = [np.repeat(part[None, at], count, 0) for part in walked_parts(leader)]
        place = np.searchsorted(self.at, at)
        same = np.flatnonzero(np.append(self.at, -1)[place] == at)
        for row, own in zip(rows, walked_parts(self.trackers), strict=True):
            row[:, same] = own[:, place[same]]
        return Walked(Gaussians(*rows[:2]), rows[2])


def walked_parts(walked: Walked) -> tuple[Floats, Floats, Floats]:
    """Means, variances and walks."""
    return walked.messages.mean, walked.messages.variance, walked.walk


def find_loud(measured: Floats, reading: Gaussians) -> Integers:
    """Which bins are loud, by the variances of their messages as they were measured, and by their readings."""
    second = reading.mean * reading.mean
    second += reading.variance
    return np.flatnonzero(second > STANDS_OUT * measured)


def merge_pool(pool: Walked, leader: int) -> tuple[Walked, Loud]:
    """A pool of whole rows as that of a huge domain in which every bin is loud."""
    trackers = len(pool.walk) - 2
    every = np.arange(pool.walk.shape[1])
    return pool[[leader, -2, -1]], Loud(every, pool[list(range(trackers))])


def whole_pool(pool: Walked, loud: Loud | None) -> Walked:
    """The pool of a state with a whole row for every expert."""
    if loud is None:
        return pool
    own = loud.rows(np.arange(pool.walk.shape[1]), Walked(pool.messages[0], pool.walk[0]))
    mean, variance, walk = (
        np.concatenate([one, other[1:]]) for one, other in zip(walked_parts(own), walked_parts(pool), strict=True)
    )
    return Walked(Gaussians(mean, variance), walk)


JUMP = 1e-4
"""Probability that a bin jumps, in a slot. Source: by trial."""
ANEW = 1e-3
"""Probability that all of them do. Source: by trial."""
CERTAIN = 3.0
"""Log odds from which a bin has jumped, or all have: the trackers then forget what they knew. Source: 95 %; until then
the release is a mixture of both."""
SMALL = 1e-3
"""Up to here log(1 + x) is x - x²/2, up to a part of 3.4·10⁻⁷. Less than that must not be neglected: a slot has many
bins, and whoever can jump would lose to whoever cannot, a little in every slot. Source: by calculation."""
LIMIT = 40.0
"""The largest log odds: a density may be 0 in floating point. Source: by calculation."""
QUIET = float(np.log(JUMP))
"""Log odds of a bin of which nothing else is known."""


def log_rate(probability: float, learned: float) -> float:
    """Log probability of a jump in a slot that says so much: one drowned in noise shows none, and time is not counted.

    Late slots of a converging series would otherwise make all that is known doubtful, one after the other.
    """
    return float(np.log(max(probability * learned, 1e-300)))


@dataclass(frozen=True, eq=False)
class Jumps:
    """What a slot said of the jumps of some bins."""

    before: Reals
    """Log odds of a jump, this slot's included, before the slot was looked at."""
    density: Reals
    """Log density of every count if its bin has jumped."""
    newborn: npt.NDArray[np.bool_]
    """Whether a jump in this very slot is more likely than one before."""

    @classmethod
    def of(cls, odds: Floats, challenger: Reals, fresh: Reals, rate: float) -> Jumps:
        """From the odds after the last slot, and the log densities of the challenger and of a fresh level."""
        single = challenger.dtype
        chance = np.exp(odds.astype(single))
        chance += single.type(np.exp(rate))  # the odds of a jump before or in this slot
        earlier, now = (odds + challenger).astype(single), (rate + fresh).astype(single)
        return cls(np.log(chance), _log_sum(earlier, now) - np.log(chance), now > earlier)

    def either(self, stays: Reals, trust: float) -> tuple[Reals, Reals]:
        """Log densities of the counts where bins may or may not have jumped; and the probabilities that they have."""
        odds = (self.density - stays).astype(stays.dtype)
        trusted = odds * trust
        trusted += self.before
        after = np.exp(np.maximum(np.minimum(trusted, LIMIT, out=trusted), -LIMIT, out=trusted))
        jumped = after / (after + 1)
        odds += self.before
        if trust != 1:
            after = np.exp(np.minimum(odds, LIMIT))
        either = _log_one_plus(after)
        either -= _log_one_plus(np.exp(self.before))
        either += np.maximum(np.subtract(odds, LIMIT, out=odds), 0, out=odds)
        either += stays
        return either, jumped


def _log_sum(one: Reals, other: Reals) -> Reals:
    """log(e^one + e^other)."""
    high = np.maximum(one, other)
    low = np.minimum(one, other)
    low -= high
    np.exp(low, out=low)
    low += 1
    np.log(low, out=low)
    low += high
    return low


def _log_one_plus(x: Reals) -> Reals:
    """log(1 + x) for x ≥ 0: most are so small that two terms are all there is of it."""
    near = x * -0.5
    near += 1
    near *= x
    flat, small = near.reshape(-1), x.reshape(-1)
    at = np.flatnonzero(small > SMALL)
    flat[at] = np.log1p(small[at])
    return near


def log_odds(probability: Floats) -> Floats:
    """Of a jump, for the next slot."""
    held = np.minimum(probability, 1 - 1e-16)
    return np.asarray(np.clip(np.log(held / (1 - held)), -LIMIT, LIMIT))


SHARE = 0.01
"""Weight that flows back to the prior over experts in every slot. Source: by trial."""
BEATEN = 1e-3
"""An expert below this weight has no say in the release, and a tracker below it starts again from the leader's
messages. Source: by trial."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Posterior weights of the experts, with sum one."""

    experts: Floats
    restart: int
    """Which of them started again when all was new."""
    newborn: bool
    """Whether it is more likely that all is new in this slot than that all was new before."""

    @property
    def all_new(self) -> bool:
        """Whether that is certain: the trackers then forget what they knew."""
        return bool(self.experts[self.restart] > 1 / (1 + np.exp(-CERTAIN)))

    @property
    def leader(self) -> int:
        """The most likely of those that know the past, or the restart if all is new."""
        return self.restart if self.all_new else int(np.argmax(self.experts[: self.restart]))

    def heard(self) -> Floats:
        """Weights in the release: zero for those that are beaten."""
        weights = np.where(self.experts < BEATEN, 0, self.experts)
        return np.asarray(weights / weights.sum())

    def shared(self, prior: Floats, learned: float) -> Floats:
        """Log weights for the next slot; a slot drowned in noise (`learned` near 0) moves no weight to the prior."""
        share, experts = SHARE * learned, self.experts.copy()
        if self.all_new:
            experts[self.restart] = 0
            experts += self.experts[self.restart] * prior
        return np.asarray(np.log(np.maximum((1 - share) * experts + share * prior, 1e-300)))


def reweigh(before: Floats, evidence: Floats, novelty: float, restart: int, rate: float, trust: float) -> Weights:
    """Bayes' rule on the log scores, raised to the power `trust`."""
    log = np.log(before) + trust * evidence
    anew = float(rate + log.max() + trust * novelty)
    newborn = bool(anew > log[restart])
    log[restart] = np.logaddexp(log[restart], anew)
    log -= log.max()
    weights = np.exp(log)
    return Weights(np.maximum(weights / weights.sum(), 1e-300), restart, newborn)
