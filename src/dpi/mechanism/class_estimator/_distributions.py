"""What users do: the laws of users by how often they have paid, filtered together.

A *law* is the PDF of the active users of some classes: newcomers, classes 1, 2 and 3, classes 4 and 5, and the rest
(`BANDS`). In every bin the levels of all laws are jointly Gaussian, so that what one law is measured to do says of the
others what it can. A hypothesis says how laws move: by which step of a slot (`DRIFTS`), and what happens when somebody
pays and moves up a class (`KINDS`): laws stay with the classes, and each walks by itself; or they move with people, who
repeat their own visits and change together. Hypotheses are weighted by the evidence of the counts, apart for each
histogram.

A histogram is a sum over bins b of what its users pay: Y_b = Σ_d h_d·x_bd + (what these users do beside their law, of
variance s·x) + Laplace noise of scale one. Each bin is read under the population of levels (`filtering._population`),
which tells small bins from noise; the update is then one of expectation propagation: the Laplace score of the
residual moves the mean, its Fisher information the covariance. A bin may jump: with a small prior odds its level is
drawn anew, in the laws that were measured; in the others, in which nobody saw it yet, their doubt grows as much.

*Pace.* A stream may move faster or slower than any hypothesis. Each histogram's misses say so: the log density of its
residuals has a gradient in the logarithm of their variance, and the pace of all steps follows it.

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator import _counts
from dpi.mechanism.class_estimator._hypotheses import (
    BY_CLASS,
    GROUP_OF_LAW,
    STEADY,
    UNIFORM,
    Distributions,
    Fitted,
    Hypotheses,
    Reading,
    Residuals,
    join_residuals,
)
from dpi.mechanism.filtering._gaussians import Gaussians, blocks
from dpi.mechanism.filtering._population import WIDTH, Readout, grid_levels
from dpi.mechanism.filtering.laplace_gauss import fisher_information, score_evidence

RESTART, RESTARTED = 0.004, 0.3
"""Prior odds that all bins have moved since the last measurement, and by which part of their levels. Source:
docs/estimator.md, What was tried; once in some hundred measurements, a hundred slots of the faster walk."""
NEWCOMERS = 2.0
"""The step that newcomers' law has of its own, as a part of the common one: they are others in every slot. Source: by
trial, on random worlds and short streams."""
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
"""How likely what all bins, or one, are seen to do in a histogram of users who return is done by all of these. Source:
docs/estimator.md, What was tried."""
FAINTEST = 0.01
"""A restart or a jump that is less likely is left out: a sum of what hardly ever happens would be noise for a law that
never moves. Source: docs/estimator.md, What was tried; one in a hundred."""
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
CERTAIN = 0.95
"""With one law: from this weight on, a run that began anew is all that is remembered; and a bin that jumped with less
than the rest is left out, or hypotheses of small steps would walk by what they doubt. Source: 95 %; of a jump, .05 and
.5 were compared on random worlds."""
EMPTY = 0.1
"""With one law: prior odds of a slot without users. Holidays are common; that all bins are new must be the rarer
explanation, or a quiet week would wipe the memory out. Source: a prior, set after a stream with empty slots."""
NEVER = 6.5
"""Deviations that noise never has: in one of 10¹⁰ slots. Source: by calculation."""
MOST = 4096
"""The largest bins fix a median; further ones would add nothing but time. Source: by calculation."""
NODES = 200
"""Of the table of densities of what is drawn anew, in steps of the noise. Source: by calculation; 3 % apart."""
BLOCK = 1 << 14
"""Bins that are worked on at a time, with one law. Source: by calculation; their rows fit in a cache."""
FOLLOWED, TRUSTED, SLOWER = 0.5, 10.0, 0.3
"""How far the pace follows one histogram's misses; as how many bins of large signal the present pace counts beside
them; and the least ratio that counts. Source: docs/research-log.md, Pace; the first two were compared on random worlds
and streams, and judged on other worlds. The last is a prior."""
PACES = (-2.0, 8.0)
"""Logarithms between which the pace lies. Source: a prior; steps from .001 to more than one in a slot."""
FAR_OFF = 6.0
"""A squared miss counts as at most so many of its variance: a jump of one bin is no pace of all. Source:
docs/research-log.md, Pace; 4, 9 and 20 were compared."""
_SMALLEST = 1e-9
"""Variances below this, over bins², count as this. Source: by calculation."""


class _UpdateResult(NamedTuple):
    """What a histogram said of hypotheses, how clearly, and of its users; how far it missed its forecast."""

    evidence: Floats
    clear: float
    residuals: Residuals
    missed: Floats


class DistributionFilter:
    """The laws at work in one slot: each step changes them."""

    def __init__(self, laws: Distributions, model: Hypotheses = BY_CLASS, pace: Floats = STEADY) -> None:
        self._model = model
        self.pace = pace.copy()
        """Logarithm of by how much variances grow faster than the hypotheses say, as each histogram found."""
        self.missing = 0.0
        """Of the active users, the share who cannot pay: those who can may be of another kind."""
        self._crowded: npt.NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
        self._anew: Floats = np.zeros(0)
        self.even: Floats | None = None
        """With one law: users of each bin, if all bins are alike but for chance."""
        self.silent = self._begun = self._certain = False
        """Whether sums were more likely noise than of any users: nothing that was learned of them is to be kept."""
        self.mean, self.covariance = laws.mean.astype(np.float64), laws.covariance.astype(np.float64)
        self.log_weights, self.uniform = laws.log_weights.copy(), laws.uniform.copy()
        self.population, self.level, self.noisy = laws.population, laws.level, laws.noisy.astype(np.float64)
        self.bins = laws.level.size
        self._table: Readout | None = None
        self.laws = int(laws.mean.shape[2])
        """How many there are so far."""

    def sealed(self) -> Distributions:
        """Return the laws after the slot; single precision is more than what is known."""
        return Distributions(
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
        """Begin with the law of the first slot's users: all that is known is what was measured.

        How likely it is that bins are alike, or that there is nobody, is judged by marginal likelihoods: levels are
        drawn from the population, and the scale of what is paid from `SCALES`.
        """
        each = squared / max(payments, 1e-9)
        users = max(payments, 0.5 * np.sqrt(2 * self.bins))
        fresh, alike = float(self._fresh(sums, users, each).sum()), self._alike(sums, users, each)
        if self._model.alone:
            self.silent = self._is_noise(sums, float(np.logaddexp(fresh, alike)))
            self.uniform[0] = np.clip(alike - fresh, -40.0, 40.0)
        else:
            width = np.sqrt(2 * np.pi * 2 * self.bins) / users / SCALES
            noise = -float(np.abs(sums).sum()) - self.bins * np.log(2.0)
            nobody = noise - min(float(np.log(width)), 0.0) - np.log(UNIFORM)  # as likely as somebody
            fresh *= 1 - 1 / self.bins  # levels sum to one
            self.uniform[0] = np.clip(self.uniform[0] + np.logaddexp(alike, nobody) - fresh, -40.0, 40.0)
        self.laws, size = 1, self._model.size
        self.mean, self.covariance = np.empty((size, self.bins, 1)), np.empty((size, self.bins, 1, 1))
        self._set_alone(slice(None), sums, users, each)

    def age(self, slots: int, sizes: Floats, gone: float | None = None) -> None:
        """Laws some slots later: all walk together, and each by itself.

        After the first slot, of whose users a part is `gone`, newcomers are of another kind.
        """
        before = self._doubt(sizes)
        faster = float(np.exp(self.pace.max()))
        step = faster * slots * self._model.drift[:, None] ** 2 * np.maximum(self.level, 0.1 / self.bins) ** 2
        self.covariance += (self._model.together**2 * step)[..., None, None]
        for law in range(0 if self._model.alone else self.laws):
            self.covariance[..., law, law] += (self._model.apart if law else NEWCOMERS) ** 2 * step
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

    def _levels(self, sizes: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Of all users together: means, covariances with every law, variances, and what of them is noise."""
        part = sizes / sizes.sum()
        mean, towards = _dot(self.mean, part), _dot(self.covariance, part)
        variance = np.maximum(_dot(towards, part), _SMALLEST / self.bins**2)
        return mean, towards, variance, np.maximum(self.noisy * variance, _SMALLEST / self.bins**2)

    def _tabulate(self, noise: Floats) -> Readout:
        """One for the slot: what is read later is a little more or less known."""
        low = max(0.01 * float(noise.min()), _SMALLEST / self.bins**2)
        high = min(max(16 * float(noise.max()), 4 * low), 4.0)
        self._table = Readout.snapped(self.population, self.bins, low, high)
        return self._table

    def read(self, sizes: Floats) -> Reading:
        """All users together, laws weighted by their sizes, under the population of levels."""
        mean, towards, variance, noise = self._levels(sizes)
        table = self._table or self._tabulate(noise)
        read = table.read(Gaussians(mean, noise))
        return Reading(table, mean, towards, variance, Gaussians(read.mean, read.variance + (variance - noise)), noise)

    def fit(self, sums: Floats, payments: Floats, group: int, each: float) -> Fitted:
        """Fit what users of these laws pay together if sums look like their laws, and its variance: least squares."""
        whole, weights, read = float(payments.sum()), self.weights(group), self.read(payments).read
        law = weights @ read.mean
        doubt = weights @ (read.variance + (read.mean - law) ** 2)
        law = np.maximum(law, LEAST_FITTED / self.bins)
        law /= law.sum()
        if self._model.alone:
            whole = max(_middle(sums, law, np.sqrt(2 + whole**2 * np.maximum(doubt, 0.0) + whole * each * law)), 0.0)
        spread = 2 + whole**2 * np.maximum(doubt, 0.0) + whole * each * law
        weight = law / spread
        if self._model.alone:  # a crowd in a bin says nothing of the others
            beyond = np.abs(sums - whole * law) - np.log(1e6 * self.bins)
            self._crowded = beyond > NEVER * np.sqrt(spread - 2)
            if self._crowded.all():  # nobody is left to go by
                self._crowded = np.zeros(self.bins, dtype=np.bool_)
            weight = np.where(self._crowded, 0.0, weight)
        precision = float(weight @ law)
        paid = float(weight @ sums) / precision
        misfit = max(float(np.mean(np.minimum((sums - paid * law) ** 2 / spread, OUTLIER))), 1.0)
        crowd = float((sums - paid * law)[self._crowded].sum()) if self._model.alone else 0.0
        common = float(weight**2 @ np.maximum(doubt, 0.0)) * (whole / precision) ** 2
        return Fitted(paid, misfit**2 / precision + (MISFIT * paid) ** 2, misfit**2 / precision - common, common, crowd)

    def observe(self, sums: Floats, payments: Floats, squared: float, sizes: Floats, group: int) -> Residuals:
        """One histogram: what users of each law pay together, the sum of their squared payments, and sizes of laws."""
        whole = float(payments.sum())
        each = squared / whole  # what one of its users pays
        if not self._model.alone:
            result = self._update(sums, payments, each, sizes, group, JUMP)
            self._weigh(result.evidence, sums, whole, each, result.clear, group)
            misses, foreseen = result.missed
            ratio = max((misses + TRUSTED) / (foreseen + TRUSTED), SLOWER)
            self.pace[group] = np.clip(self.pace[group] + FOLLOWED * np.log(ratio), *PACES)
            return result.residuals
        # Information goes with the square of a signal: of all users, with the square of the share of those who pay (the
        # first and the third power were compared with it on random worlds).
        clear = -float(np.expm1(-0.5 * whole**2 * float(self.level @ self.level))) * (1 - self.missing) ** 2
        changed = 0.0 if self.missing else clear
        if self._table is None:
            self._tabulate(self._levels(sizes)[3])
        total, noise = float(sums.sum()), 2.0 * self.bins
        plain = max(total if (total - whole) ** 2 > noise else whole, 0.5 * noise**0.5)
        self._anew = self._fresh(sums, plain, each)
        parts = [
            self._at(here)._update(sums[here], payments, each, sizes, group, JUMP * changed)
            for here in blocks(self.bins, BLOCK)
        ]
        evidence = np.sum([part.evidence for part in parts], axis=0)
        self._weigh(evidence, sums, whole, each, clear, group, (changed, plain))
        residuals = join_residuals([part.residuals for part in parts])
        if self._begun:  # what this slot says is all that the run knows: there is nothing beside it
            rows = slice(None) if self._certain else slice(-1, None)
            residuals.apart[rows], residuals.apart_variance[rows] = 0.0, 0.0
            residuals = Residuals(residuals.apart, residuals.apart_variance, None, None)
        return residuals

    def _at(self, here: slice) -> DistributionFilter:
        """Return the same laws in some bins: what changes there changes here."""
        part = copy(self)
        part.mean, part.covariance, part.noisy = self.mean[:, here], self.covariance[:, here], self.noisy[:, here]
        part.level, part._anew = self.level[here], self._anew[here]
        return part

    def _update(
        self, sums: Floats, payments: Floats, each: float, sizes: Floats, group: int, jump: float
    ) -> _UpdateResult:
        """Laws after a histogram, which may be that of some bins."""
        reading = self.read(sizes)
        shift = (reading.read.mean - reading.mean) / reading.variance
        narrower = np.maximum(reading.variance - reading.read.variance, 0.0) / reading.variance**2
        whole = float(payments.sum())
        ahead, gain = _dot(self.mean, payments), _dot(self.covariance, payments)
        across, spread = _dot(reading.towards, payments), _dot(gain, payments)
        doubt = np.maximum(spread - across**2 * narrower, 1e-4 * spread)
        expected = np.maximum(ahead + across * shift, LEAST * whole * reading.read.mean)
        chance = each * expected * (self._model.chance if group else 1.0)
        if self.missing:  # log-odds of those who pay are apart
            part = np.clip(reading.read.mean, 0.0, 1.0)
            chance += (self.missing * APART * whole * part * (1 - part)) ** 2
        scored = score_evidence(sums - expected, doubt + chance, 1.0)
        evidence = np.asarray(scored.log_density, dtype=np.float64)
        missed = np.zeros(2) if self._model.alone else self._miss(sums, expected, doubt + chance, group)
        usual = (whole * np.maximum(self.level, 0.1 / self.bins)) ** 2
        all_bins: Floats = np.zeros(1)
        if not self._model.alone:
            moved = RESTARTED**2 * usual
            other = self._density(sums - expected, doubt + chance + moved)
            total, restarted = evidence.sum(1), other.sum(1) + np.log(RESTART)
            odds = 1 / (1 + np.exp(np.clip(total - restarted, -50.0, 50.0)))[:, None]
            evidence += ((np.logaddexp(total, restarted) - total) / self.bins)[:, None]
            all_bins = np.where(odds > FAINTEST, odds, 0.0) * moved
        signal = whole * (self.weights(group) @ reading.read.mean)
        clear = -float(np.expm1(-0.5 * signal @ signal))
        rare = max(jump, 1e-300) / self.bins
        anew = usual + (whole / self.bins) ** 2
        if self._model.alone:
            anew, other = np.maximum(anew, (sums - expected) ** 2), self._anew
        else:
            other = self._density(sums - expected, doubt + chance + anew)
        ratio = rare * np.exp(np.minimum(other - evidence, 50.0))
        evidence = np.logaddexp(evidence, other + np.log(rare))
        seen, jumped = payments > 0, ratio / (1 + ratio)
        one_bin = np.where(jumped > (1 - CERTAIN if self._model.alone else FAINTEST), jumped, 0.0) * anew
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
        self.noisy[...] = left * self.noisy + (1 - left)  # what a measurement leaves open is its noise
        residuals = Residuals(chance * slope / each, (chance - chance**2 * known) / each**2, *(counted or (None, None)))
        if self._model.alone and (jumped > CERTAIN).any():  # what was measured is all that is known
            np.copyto(residuals.apart, (sums - _dot(self.mean, payments)) / each, where=jumped > CERTAIN)
            np.copyto(residuals.apart_variance, 2 / each**2, where=jumped > CERTAIN)
        return _UpdateResult(evidence.sum(1), clear, residuals, missed)

    def _miss(self, sums: Floats, expected: Floats, variance: Floats, group: int) -> Floats:
        """Return by how much sums missed their forecast beside noise, and by how much they were to: squares.

        Both are weighted as in the gradient of a normal log density: a bin that noise hides tells nothing of itself.
        """
        weights = self.weights(group)
        mean = weights @ expected
        own = weights @ (variance + (expected - mean) ** 2)
        whole = own + 2
        squares = np.minimum((sums - mean) ** 2, FAR_OFF * whole)
        return np.array([np.sum(own * (squares - 2) / whole**2), np.sum((own / whole) ** 2)])

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

    def _is_noise(self, sums: Floats, users: float) -> bool:
        """Whether there are no users, rather than those with this log density."""
        return bool(np.log(EMPTY) - float(np.abs(sums).sum()) - self.bins * np.log(2.0) > users)

    def _alike(self, sums: Floats, whole: float, each: float) -> float:
        """Log density of all sums if all bins are alike; with one law, the users of each bin are then known too."""
        even = whole / self.bins
        scored = score_evidence(sums - even, np.full(self.bins, each * even), 1.0)
        if self._model.alone:
            self.even = np.maximum(even / each + even * np.asarray(scored.slope, dtype=np.float64), 0.0)
        return float(np.sum(scored.log_density, dtype=np.float64))

    @staticmethod
    def _density(residual: Floats, variance: Floats) -> Floats:
        return np.asarray(score_evidence(residual, variance, 1.0).log_density, dtype=np.float64)

    def _weigh(
        self,
        evidence: Floats,
        sums: Floats,
        whole: float,
        each: float,
        clear: float,
        group: int,
        changed: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Weights of the hypotheses and of the uniform law; what drowns in noise says nothing."""
        weights = self.weights(group)
        best = float(evidence.max())
        mixed = best + float(np.log(weights @ np.exp(evidence - best)))
        log = self.log_weights[group] + clear * (evidence - best)
        if self._model.alone:
            fresh = self._begin_again(log, best, sums, each, *changed)
            mixed = float(np.logaddexp(mixed, fresh))
            self.silent = self._is_noise(sums, mixed)
        odds = np.clip(self.uniform[group] + self._alike(sums, whole, each) - mixed, -30.0, 30.0)
        uniform = (1 - RETURN**2 * clear) / (1 + np.exp(-odds)) + RETURN**2 * clear * UNIFORM
        self.uniform[group] = np.log(uniform / (1 - uniform))
        weights = np.exp(np.maximum(log - log.max(), -40.0))
        weights /= weights.sum()
        prior = self._model.prior
        if self._model.alone and weights[-1] > CERTAIN:
            for array in (self.mean, self.covariance, self.noisy):
                array[:] = array[-1]
            self._certain = True
            weights = prior
        weights = (1 - RETURN * clear) * weights + RETURN * clear * prior
        self.log_weights[group] = np.log(np.maximum(weights, 1e-300))

    def _begin_again(
        self, log: Floats, best: float, sums: Floats, each: float, changed: float, payments: float
    ) -> float:
        """Let the last hypothesis begin now, if that is more likely than when it did; return the log odds."""
        if not changed:
            return -np.inf
        rare, fresh = np.log(RETURN * changed), float(self._anew.sum())
        begun = rare + np.logaddexp.reduce(self.log_weights[0]) + changed * (fresh - best)
        if begun > log[-1]:
            self._set_alone(slice(-1, None), sums, payments, each)
            self._begun = True
        log[-1] = np.logaddexp(log[-1], begun)
        return float(rare + fresh)

    def _set_alone(self, rows: slice, sums: Floats, payments: float, each: float) -> None:
        """Hypotheses that know one measurement of one law."""
        # That all of a sum y is noise has odds of e^-y, which a normal law of variance y/2 says too; beyond what the
        # noise of any bin reaches, a sum is as far from its level as noise is from nothing.
        noise = np.where(sums < np.log(1000 * self.bins), np.maximum(0.5 * sums, 2.0), 2.0)
        self.mean[rows] = (sums / payments)[:, None]
        self.covariance[rows] = ((noise + each * np.maximum(sums, 0)) / payments**2)[:, None, None]
        self.noisy[rows] = 1.0

    def _fresh(self, sums: Floats, payments: float, each: float) -> Floats:
        """Log density of each sum if its level is drawn anew from the population: tabulated."""
        levels = payments * grid_levels(self.bins)
        place = np.arcsinh(sums)
        nodes = np.linspace(min(float(place.min()), -1.0), max(float(place.max()), 1.0), NODES)
        log = self._density(np.sinh(nodes)[:, None] - levels, each * levels + (WIDTH * levels) ** 2)
        top = log.max(1)
        table = top + np.log(np.exp(log - top[:, None]) @ self.population)
        return np.asarray(np.interp(place, nodes, table))

    def normalise(self) -> None:
        """Every law sums to one: bins share what is missing by their variances."""
        if self._crowded.any():
            mass = np.maximum(self.mean.sum(1), 0.01)
            self.mean /= mass[:, None]
            self.covariance /= (mass**2)[:, None, None]
            return
        variance = np.diagonal(self.covariance, axis1=2, axis2=3)
        missing = (1 - self.mean.sum(1)) / (variance.sum(1) + 1e-6)
        self.mean += variance * missing[:, None]
        for beaten in np.flatnonzero(self.log_weights.max(0) < np.log(FORGOTTEN)).tolist():
            best = int(np.argmax(self.log_weights.sum(0) + 2.0 * (self._model.kind[beaten] == self._model.kind)))
            self.mean[beaten], self.covariance[beaten] = self.mean[best], self.covariance[best]

    def move_up(self, law: int, share: float, residuals: Residuals | None, users: float, gone: float) -> None:
        """Move users of a law, who pay, to the next one, where they are `share`, with what was seen of their visits.

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
            group, before = GROUP_OF_LAW[after], GROUP_OF_LAW[law]
            if group != before:  # they are the same people
                self.log_weights[group], self.uniform[group] = self.log_weights[before], self.uniform[before]
        habit = self._model.habit
        mean, part = self.mean[habit], self.covariance[habit]
        if share < 1:
            mean[..., after] += share * (mean[..., law] - mean[..., after])
            row = (1 - share) * part[..., after, :] + share * part[..., law, :]
            corner = (1 - share) * row[..., after] + share * row[..., law]
            part[..., after, :] = part[..., :, after] = row
            part[..., after, after] = corner + (share * SELECTED * gone * self.level) ** 2
        if residuals is not None:
            mean[..., after] += share / max(users, 1.0) * residuals.apart[habit]
            part[..., after, after] += (share / max(users, 1.0)) ** 2 * residuals.apart_variance[habit]

    def groups_of_laws(self) -> Integers:
        """Return the histogram in which each law is measured."""
        return GROUP_OF_LAW[: self.laws]


def _middle(sums: Floats, law: Floats, deviation: Floats) -> float:
    """Return what is paid together by the median bin: the weighted median of ratios, over the bins that say most."""
    at = np.argpartition(law, -MOST)[-MOST:] if law.size > MOST else slice(None)
    ratios, weights = sums[at] / law[at], law[at] / deviation[at]
    order = np.argsort(ratios)
    through = np.cumsum(weights[order])
    return float(ratios[order[np.searchsorted(through, 0.5 * through[-1])]])


def _dot(rows: Floats, vector: Floats) -> Floats:
    """Inner products along the last axis, in one step."""
    if vector.size == 1:
        return np.asarray(rows[..., 0] * vector[0])
    return np.asarray((rows.reshape(-1, vector.size) @ vector).reshape(rows.shape[:-1]))
