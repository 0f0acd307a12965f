"""What users do: the laws of users by how often they have paid, filtered together.

A *law* is the PDF of the active users of some classes: newcomers, class 1, class 2, classes 3 to 5, and the rest
(`BANDS`). In every bin the levels of all laws are jointly Gaussian, so that what one law is measured to do says of the
others what it can. A hypothesis says how laws move: by which step of a slot (`DRIFTS`), and what happens when somebody
pays and moves up a class (`KINDS`): the laws stay with the classes, or move with the people, or move with people who
repeat their own visits. Hypotheses are weighted by the evidence of the counts, apart for each histogram.

A histogram is a sum over bins b of what its users pay: Y_b = Σ_d h_d·x_bd + (what these users do beside their law, of
variance s·x) + Laplace noise of scale one. Each bin is read under the population of levels (`filtering._population`),
which tells small bins from noise; the update is then one of expectation propagation: the Laplace score of the
residual moves the mean, its Fisher information the covariance. A bin may jump: with a small prior odds its level is
drawn anew, in the laws that were measured; in the others, in which nobody saw it yet, their doubt grows as much.

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering._population import WIDTH, Readout, grid_levels, initial_population
from dpi.mechanism.filtering.laplace_gauss import fisher_information, score_evidence
from dpi.mechanism.users import _counts

BANDS = (0, 1, 2, 3, 6)
"""The first class of each law. Source: classes 3 and above pay alike; a wait later, their people have been there twice
as long."""
GROUPS = (0, 1, 6)
"""The first class of each histogram: newcomers, those who have much left, and those who have little, whose sums the
others would drown. Source: docs/estimator.md, Payments."""
DRIFTS = (0.003, 0.03)
"""Steps by which log-levels move in a slot: hardly in a season, or in a month. Source: a prior; a factor of ten
apart."""
RESTART, RESTARTED = 0.004, 0.3
"""Prior odds that all bins have moved since the last measurement, and by which part of their levels. Source: a prior;
once in some hundred measurements, as much as a hundred slots of the faster walk."""
PATIENCE = 0.7
"""Prior weight of a drift against the next slower one. Source: a prior; docs/estimator.md, What was tried."""
STAY, MOVE, HABIT = KINDS = (0, 1, 2)
LEFT_TO_CHANCE = 0.2
"""Where visits are habits, the part of a class's sampling variance that is drawn anew. Source: a prior."""
OWN = (2.0, 0.3)
"""Steps that newcomers' law, and every other law, has of its own, as parts of the common one: newcomers are others in
every slot. Source: by trial, on random worlds and short streams."""
APART = 1.0
"""Relative deviation of later newcomers' law from that of those who are met in the first slot: they are of another
kind. Source: a prior; all that is known is the size of levels."""
SELECTED = 0.3
"""Relative deviation of the law of those who return from that of all who were there, if hardly anybody returns; it is
as much less as more of them return. Source: by trial; if all return it is nothing."""
RETURN = 0.01
"""Share of weight that flows back to the prior with a clear measurement: a regime lasts a hundred. Source: a prior."""
JUMP = 0.01
"""Prior odds that some bin is drawn anew between two measurements. Source: a prior; once in a hundred."""
TOGETHER = 0.2
"""How likely what all bins, or one, are seen to do in one histogram is done by everybody. Source: a prior."""
FAINTEST = 0.01
"""A restart or a jump that is less likely is left out: a sum of what hardly ever happens would be noise for a law that
never moves. Source: a prior; one in a hundred."""
UNIFORM = 0.2
"""Prior weight of the law that all bins are alike, which wins where nothing stands out from noise. Source: a prior."""
SCALES = 20.0
"""Powers of e among which what the first slot's users pay together is looked for, if they are anybody. Source: a prior;
from one user to a billion."""
LEAST = 0.02
"""A bin's expectation is no less than this share of its level. Source: by calculation; a level is positive."""
LEAST_FITTED, MISFIT, OUTLIER = 0.05, 0.1, 20.0
"""Totals are fitted by laws that are no less than this share of the uniform one, and are off by this much; a squared
residual counts as at most so many of its variance. Source: a prior."""
FORGOTTEN = 1e-3
"""A hypothesis of less weight starts again from the best one. Source: a prior."""
_SMALLEST = 1e-9
"""Variances below this, over bins², count as this. Source: by calculation."""

_DRIFT: Floats = np.tile(DRIFTS, len(KINDS))
_KIND: Integers = np.repeat(KINDS, len(DRIFTS))
HYPOTHESES = _DRIFT.size
_PRIOR: Floats = np.tile(PATIENCE ** np.arange(len(DRIFTS)), len(KINDS))
_PRIOR /= _PRIOR.sum()
_CHANCE: Floats = np.where(_KIND == HABIT, LEFT_TO_CHANCE, 1.0)[:, None]
BAND_OF: Integers = np.searchsorted(BANDS, np.arange(64), side="right") - 1
"""The law of each class."""
GROUP_OF: Integers = np.searchsorted(GROUPS, np.arange(64), side="right") - 1
"""The histogram of each class."""
_GROUP: Integers = GROUP_OF[list(BANDS)]


class Seen(NamedTuple):
    """What one histogram said of its own users: for each hypothesis and bin, in users."""

    apart: Floats
    """By how many they differ from what their laws say, …"""
    apart_variance: Floats
    """… and the variance of that."""
    users: Floats | None
    """How many they are, where that is known better than by their laws, …"""
    variance: Floats | None
    """… and the variance of that."""


class Reading(NamedTuple):
    """The levels of all users together, under the population of levels; for each hypothesis and bin."""

    table: Readout
    mean: Floats
    towards: Floats
    """Covariance of every law with the whole."""
    variance: Floats
    read: Gaussians
    noise: Floats
    """What of the variance is noise: only that is read under the population, or a picture would fade as it gets old."""


@dataclass(frozen=True, eq=False)
class Laws:
    """What is known of all laws, between slots."""

    mean: Floats
    """(hypotheses, bins, laws); no law before the first measurement."""
    covariance: Floats
    """(hypotheses, bins, laws, laws)."""
    log_weights: Floats
    """Of the hypotheses, (histograms, hypotheses)."""
    uniform: Floats
    """Log odds that all bins are alike, (histograms,)."""
    population: Floats
    """Shares of the levels of bins."""
    level: Floats
    """What was released of each bin."""
    noisy: Floats
    """The part of what is not known of all users together that is noise, (hypotheses, bins); the rest is that laws may
    have moved."""

    @classmethod
    def begun(cls, bins: int) -> Laws:
        """Before anything was seen."""
        return cls(
            mean=np.zeros((HYPOTHESES, bins, 0), dtype=np.float32),
            covariance=np.zeros((HYPOTHESES, bins, 0, 0), dtype=np.float32),
            log_weights=np.log(np.array([_PRIOR] * len(GROUPS))),
            uniform=np.full(len(GROUPS), np.log(UNIFORM / (1 - UNIFORM))),
            population=initial_population(bins),
            level=np.full(bins, 1 / bins),
            noisy=np.ones((HYPOTHESES, bins), dtype=np.float32),
        )

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(self.mean.shape[2])


class LawFilter:
    """The laws at work in one slot: each step changes them."""

    def __init__(self, laws: Laws) -> None:
        self.mean, self.covariance = laws.mean.astype(np.float64), laws.covariance.astype(np.float64)
        self.log_weights, self.uniform = laws.log_weights.copy(), laws.uniform.copy()
        self.population, self.level, self.noisy = laws.population, laws.level, laws.noisy.astype(np.float64)
        self.bins = laws.level.size
        self._table: Readout | None = None
        self.laws = int(laws.mean.shape[2])
        """How many there are so far."""

    def sealed(self) -> Laws:
        """The laws after the slot; single precision is more than what is known."""
        return Laws(
            self.mean.astype(np.float32),
            self.covariance.astype(np.float32),
            self.log_weights,
            self.uniform,
            self.population,
            self.level,
            self.noisy.astype(np.float32),
        )

    def weights(self, group: int) -> Floats:
        """Of the hypotheses, for the users of one histogram."""
        weights = np.exp(self.log_weights[group])
        return np.asarray(weights / weights.sum())

    def evenness(self, group: int) -> float:
        """How likely all bins are alike, for the users of one histogram, by what was compared so far."""
        return float(1 / (1 + np.exp(-self.uniform[group])))

    def begin(self, sums: Floats, payments: float, squared: float) -> None:
        """The law of the first slot's users: all that is known is what was measured.

        How likely it is that bins are alike, or that there is nobody, is judged by marginal likelihoods: levels are
        drawn from the population, and the scale of what is paid from `SCALES`.
        """
        each, levels = squared / max(payments, 1e-9), grid_levels(self.bins)
        users = max(payments, 0.5 * np.sqrt(2 * self.bins))
        ahead = users * levels
        spread = each * ahead + (WIDTH * ahead) ** 2
        density = np.asarray(score_evidence(sums[:, None] - ahead, spread, 1.0).log_density, dtype=np.float64)
        apart = float(np.logaddexp.reduce(density + np.log(self.population), axis=1).sum())
        apart *= 1 - 1 / self.bins  # levels sum to one
        width = np.sqrt(2 * np.pi * 2 * self.bins) / users / SCALES
        nobody = self._even(sums, 0.0, each) - min(float(np.log(width)), 0.0) - np.log(UNIFORM)  # as likely as somebody
        even = float(np.logaddexp(self._even(sums, payments, each), nobody))
        self.uniform[0] = np.clip(self.uniform[0] + even - apart, -40.0, 40.0)
        variance = (2 + each * np.maximum(sums, 0)) / users**2
        self.mean = np.repeat((sums / users)[None, :, None], HYPOTHESES, 0)
        self.covariance = np.repeat(variance[None, :, None, None], HYPOTHESES, 0)
        self.laws = 1

    def age(self, slots: int, sizes: Floats, gone: float | None = None) -> None:
        """Laws some slots later: all walk together, and each by itself.

        After the first slot, of whose users a part is `gone`, newcomers are of another kind.
        """
        before = self._doubt(sizes)
        step = slots * _DRIFT[:, None] ** 2 * np.maximum(self.level, 0.1 / self.bins) ** 2
        self.covariance += step[..., None, None]
        for law in range(self.laws):
            self.covariance[..., law, law] += OWN[min(law, 1)] ** 2 * step
        if gone is not None:
            self.covariance[..., 0, 0] += (APART * self.level) ** 2
            self.covariance[..., 1, 1] += (SELECTED * gone * self.level) ** 2
        self.noisy *= before / self._doubt(sizes)

    def _doubt(self, sizes: Floats) -> Floats:
        """Variance of the levels of all users together."""
        part = sizes / sizes.sum()
        return np.asarray(np.maximum(_dot(_dot(self.covariance, part), part), _SMALLEST / self.bins**2))

    def season(self, profile: Floats) -> None:
        """Laws in a phase whose levels are `profile` times those of all phases."""
        self.mean *= profile[:, None]
        self.covariance *= (profile**2)[:, None, None]

    def read(self, sizes: Floats) -> Reading:
        """All users together, laws weighted by their sizes, under the population of levels."""
        part = sizes / sizes.sum()
        mean, towards = _dot(self.mean, part), _dot(self.covariance, part)
        variance = np.maximum(_dot(towards, part), _SMALLEST / self.bins**2)
        noise = np.maximum(self.noisy * variance, _SMALLEST / self.bins**2)
        if self._table is None:  # one for the slot: what is read later is a little more or less known
            low = max(0.01 * float(noise.min()), _SMALLEST / self.bins**2)
            self._table = Readout.snapped(
                self.population, self.bins, low, min(max(16 * float(noise.max()), 4 * low), 4.0)
            )
        table = self._table
        read = table.read(Gaussians(mean, noise))
        return Reading(table, mean, towards, variance, Gaussians(read.mean, read.variance + (variance - noise)), noise)

    def fit(self, sums: Floats, payments: Floats, group: int, each: float) -> tuple[float, float]:
        """What users of these laws pay together if sums look like their laws, and its variance: least squares."""
        whole, weights, read = float(payments.sum()), self.weights(group), self.read(payments).read
        law = weights @ read.mean
        doubt = weights @ (read.variance + (read.mean - law) ** 2)
        law = np.maximum(law, LEAST_FITTED / self.bins)
        law /= law.sum()
        spread = 2 + whole**2 * np.maximum(doubt, 0.0) + whole * each * law
        weight = law / spread
        precision = float(weight @ law)
        found = float(weight @ sums) / precision
        misfit = max(float(np.mean(np.minimum((sums - found * law) ** 2 / spread, OUTLIER))), 1.0)
        return found, misfit**2 / precision + (MISFIT * found) ** 2

    def observe(self, sums: Floats, payments: Floats, squared: float, sizes: Floats, group: int) -> Seen:
        """One histogram: what users of each law pay together, the sum of their squared payments, and sizes of laws."""
        reading = self.read(sizes)
        shift = (reading.read.mean - reading.mean) / reading.variance
        narrower = np.maximum(reading.variance - reading.read.variance, 0.0) / reading.variance**2
        whole = float(payments.sum())
        each = squared / whole  # what one of its users pays
        ahead, gain = _dot(self.mean, payments), _dot(self.covariance, payments)
        across, spread = _dot(reading.towards, payments), _dot(gain, payments)
        doubt = np.maximum(spread - across**2 * narrower, 1e-4 * spread)
        expected = np.maximum(ahead + across * shift, LEAST * whole * reading.read.mean)
        chance = each * expected * (_CHANCE if group else 1.0)
        scored = score_evidence(sums - expected, doubt + chance, 1.0)
        evidence = np.asarray(scored.log_density, dtype=np.float64)
        usual = (whole * np.maximum(self.level, 0.1 / self.bins)) ** 2
        moved = RESTARTED**2 * usual
        other = np.asarray(score_evidence(sums - expected, doubt + chance + moved, 1.0).log_density, dtype=np.float64)
        total, restarted = evidence.sum(1), other.sum(1) + np.log(RESTART)
        odds = 1 / (1 + np.exp(np.clip(total - restarted, -50.0, 50.0)))[:, None]
        evidence += ((np.logaddexp(total, restarted) - total) / self.bins)[:, None]
        anew = usual + (whole / self.bins) ** 2
        other = np.asarray(score_evidence(sums - expected, doubt + chance + anew, 1.0).log_density, dtype=np.float64)
        ratio = JUMP / self.bins * np.exp(np.minimum(other - evidence, 50.0))
        evidence = np.logaddexp(evidence, other + np.log(JUMP / self.bins))
        seen, jumped = payments > 0, ratio / (1 + ratio)
        all_bins, one_bin = (
            np.where(odds > FAINTEST, odds, 0.0) * moved,
            np.where(jumped > FAINTEST, jumped, 0.0) * anew,
        )
        if all_bins.any() or one_bin.any():
            here, back = np.outer(seen, seen), np.arange(self.laws) > 0
            together = TOGETHER * (here | np.outer(back, back) & (group > 0))
            self.covariance += (all_bins / whole**2)[..., None, None] * np.maximum(here, together)
            alone = (1 - together) * (here + np.diag(~seen))
            self.covariance += (one_bin / whole**2)[..., None, None] * (together + alone)
            gain = _dot(self.covariance, payments)
            spread, doubt = _dot(gain, payments), doubt + all_bins + one_bin
            self.noisy *= reading.variance / self._doubt(sizes)
            scored = score_evidence(sums - expected, doubt + chance, 1.0)
        both, slope = doubt + chance, np.asarray(scored.slope, dtype=np.float64)
        known = np.asarray(fisher_information(both, 1.0), dtype=np.float64)
        counted = None if group else self._count(sums, each, expected, doubt, both, slope, known)
        sharp = known / np.maximum(1 - doubt * known, 1e-3)
        step = sharp / (1 + sharp * spread)
        self.mean += (step * (expected + slope / known - ahead))[..., None] * gain
        before = self._doubt(sizes)
        self.covariance -= step[..., None, None] * gain[..., :, None] * gain[..., None, :]
        left = np.minimum(self._doubt(sizes) / before, 1.0)
        self.noisy = left * self.noisy + (1 - left)  # what a measurement leaves open is its noise
        self._weigh(evidence.sum(1), sums, whole, each, reading.read.mean, group)
        return Seen(chance * slope / each, (chance - chance**2 * known) / each**2, *(counted or (None, None)))

    def _count(
        self, sums: Floats, each: float, expected: Floats, doubt: Floats, both: Floats, slope: Floats, known: Floats
    ) -> tuple[Floats, Floats] | None:
        """Newcomers, bin by bin, where a payment stands out so far from noise that users are whole numbers."""
        if each < _counts.FAINT:
            return None
        mean, spread = np.maximum(expected, 1e-6) / each, doubt / each**2
        fits = _counts.whole(sums, each, mean, spread)
        users, variance = _counts.posterior(sums, each, np.where(fits, mean, 1.0), np.where(fits, spread, 1.0))
        smooth = np.maximum(expected + both * slope, 0.0) / each
        return np.where(fits, users, smooth), np.where(fits, variance, (both - both**2 * known) / each**2)

    def _weigh(self, evidence: Floats, sums: Floats, whole: float, each: float, levels: Floats, group: int) -> None:
        """Weights of the hypotheses and of the uniform law; what drowns in noise says nothing."""
        weights = self.weights(group)
        best = float(evidence.max())
        mixed = best + float(np.log(weights @ np.exp(evidence - best)))
        alike = self._even(sums, whole, each)
        signal = whole * (weights @ levels)
        clear = -float(np.expm1(-0.5 * signal @ signal))
        odds = np.clip(self.uniform[group] + alike - mixed, -40.0, 40.0)
        uniform = (1 - RETURN**2 * clear) / (1 + np.exp(-odds)) + RETURN**2 * clear * UNIFORM
        self.uniform[group] = np.log(uniform / (1 - uniform))
        log = self.log_weights[group] + clear * (evidence - best)
        weights = np.exp(np.maximum(log - log.max(), -40.0))
        self.log_weights[group] = np.log((1 - RETURN * clear) * weights / weights.sum() + RETURN * clear * _PRIOR)

    def _even(self, sums: Floats, whole: float, each: float) -> float:
        """Log density of sums if all bins are alike."""
        even = whole / self.bins
        return float(np.sum(score_evidence(sums - even, np.full(self.bins, each * even), 1.0).log_density, dtype=float))

    def normalise(self) -> None:
        """Every law sums to one: bins share what is missing by their variances."""
        variance = np.diagonal(self.covariance, axis1=2, axis2=3)
        missing = (1 - self.mean.sum(1)) / (variance.sum(1) + 1e-6)
        self.mean += variance * missing[:, None]
        for beaten in np.flatnonzero(self.log_weights.max(0) < np.log(FORGOTTEN)).tolist():
            best = int(np.argmax(self.log_weights.sum(0) + 2.0 * (_KIND[beaten] == _KIND)))
            self.mean[beaten], self.covariance[beaten] = self.mean[best], self.covariance[best]

    def move_up(self, law: int, share: float, seen: Seen | None, users: float, gone: float) -> None:
        """Some users of a law pay and become `share` of the next one, with what was seen of their own visits.

        `gone` of them never return.
        """
        after, covariance = law + 1, self.covariance
        if after == self.laws:
            shape = (*covariance.shape[:2], after + 1, after + 1)
            grown = np.empty(shape)
            grown[..., :after, :after] = covariance
            grown[..., after, :after] = grown[..., :after, after] = covariance[..., law, :]
            grown[..., after, after] = covariance[..., law, law] + (SELECTED * gone * self.level) ** 2
            self.mean = np.concatenate([self.mean, self.mean[..., law : law + 1]], axis=2)
            self.covariance, share, self.laws = grown, 1.0, after + 1
            group, before = _GROUP[after], _GROUP[law]
            if group != before:  # they are the same people
                self.log_weights[group], self.uniform[group] = self.log_weights[before], self.uniform[before]
        else:
            moving = _KIND != STAY
            mean, part = self.mean[moving], covariance[moving]
            mean[..., after] += share * (mean[..., law] - mean[..., after])
            row = (1 - share) * part[..., after, :] + share * part[..., law, :]
            corner = (1 - share) * row[..., after] + share * row[..., law]
            part[..., after, :] = part[..., :, after] = row
            part[..., after, after] = corner + (share * SELECTED * gone * self.level) ** 2
            self.mean[moving], covariance[moving] = mean, part
        if seen is not None:
            habit = _KIND == HABIT
            self.mean[habit, :, after] += share / max(users, 1.0) * seen.apart[habit]
            self.covariance[habit, :, after, after] += (share / max(users, 1.0)) ** 2 * seen.apart_variance[habit]

    def groups_of_laws(self) -> Integers:
        """The histogram in which each law is measured."""
        return _GROUP[: self.laws]


def _dot(rows: Floats, vector: Floats) -> Floats:
    """Inner products along the last axis, in one step."""
    return np.asarray((rows.reshape(-1, vector.size) @ vector).reshape(rows.shape[:-1]))
