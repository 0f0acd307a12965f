"""A law that drifts: how the users of some measurements are spread over the bins, by a mixture of trackers.

A tracker has for each bin a Gaussian message (mean, variance) about the bin's level, if log-levels walk by its drift a
slot. Messages hold no prior; they are read under the population of levels (`dpi.mechanism.filtering.population`), which
all laws of a domain share. Trackers are weighted by how well they predicted the noisy counts.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells.counts import Counts
from dpi.mechanism.filtering import laplace_gauss
from dpi.mechanism.filtering.gaussians import PATIENCE, UNKNOWN, Gaussians
from dpi.mechanism.filtering.laplace_gauss import Reals, Score
from dpi.mechanism.filtering.population import Readout

DRIFTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Deviation of log-levels a slot, of the trackers and of a cell's own dynamics: those of `Boosted`.

Source: by trial; not measured by itself.
"""

RETURN = 0.01
"""Share of weight that flows back to the prior with every clear measurement, so that a beaten tracker can return.

Source: by trial; not measured by itself.
"""

BEATEN = 1e-3
"""A tracker of less weight starts again from the leader's messages.

Source: by trial; not measured by itself.
"""

REFIT = 0.5
"""Relative deviation of a size that is handed to a law: the counts may correct it before they are compared with it.

Source: by trial; not measured by itself.
"""

LUMP = 1.0
"""Noise at which the exact slope and the plain one count the same, in users.

Source: by trial; measured by benchmarks/clocked.py (growth, wiki).
"""

CROWD = 1e-9
"""Probability, for each bin and measurement, that as many users are in it as may be, whatever was expected.

Noise is Laplace, whose tails are wider than those of what is expected: without it, a crowd that nobody expected would
be taken for noise, however far it is beyond all noise. Only what the slot itself had is told so; laws go on walking,
since most crowds are gone with their slot.

Source: by trial; a count is believed from ln(size/CROWD) scales of the noise on, 28 for a thousand users. With 10⁻³,
14 scales, honeypot has 0.107 instead of 0.100 and retail 0.070 instead of 0.065 (benchmarks/clocked.py, seed 0).
"""

SHARPEST, LEAST = 0.02, 0.1
"""One measurement lowers a variance, and the number of users in a bin, to no less than these shares.

Source: by trial; not measured by itself.
"""

SUMMED = 0.2
"""The sum of messages is known if its relative deviation is below this.

Source: by trial; tests/mechanism/cells/test_law.py::test_a_law_of_noise_stays_where_it_is.
"""

_NARROWEST, _WIDEST = 1e-8, 4.0
"""Variances outside these (the first over bins²) say all or nothing, and are read as these.

Source: by calculation; the smallest level is 10⁻³ of the uniform one, the largest one.
"""

_FAINTEST = -60.0
"""Log weights below the largest by more than this count as this.

Source: by definition; nothing is heard at that weight.
"""

PRIOR = PATIENCE ** np.arange(len(DRIFTS)) / np.sum(PATIENCE ** np.arange(len(DRIFTS)))
_STEP = np.array(DRIFTS)[:, None] ** 2


@dataclass(frozen=True, eq=False)
class Law:
    """Messages of the trackers, (trackers, bins), their log weights, and whether anything was measured yet."""

    messages: Gaussians
    log_weights: Floats
    known: bool

    @classmethod
    def unknown(cls, bins: int) -> Law:
        """Before anything was seen."""
        shape = (len(DRIFTS), bins)
        return cls(Gaussians(np.full(shape, 1 / bins), np.full(shape, UNKNOWN)), np.log(PRIOR), False)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a law says under a population: every tracker's levels, and their mixture as a PDF with its variance."""

    levels: Gaussians
    weights: Floats
    mass: float
    pdf: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Learned:
    """A law after a measurement, and the posterior of the measured users' own PDF, which differs from the law."""

    law: Law
    realised: Gaussians


class Table:
    """The table in which laws are read in one slot; each law is read once."""

    def __init__(self, readout: Readout) -> None:
        self.readout = readout
        self._readings: dict[int, tuple[Law, Reading]] = {}

    def read(self, law: Law) -> Reading:
        """A law's reading."""
        known = self._readings.get(id(law))  # the law is kept beside it, so that its id is no other's
        if known is None:
            known = self._readings[id(law)] = law, read(law, self.readout)
        return known[1]

    def read_all(self, laws: Sequence[Law]) -> None:
        """Read laws at once, for when they are asked for: the same numbers, in fewer steps."""
        known = [law for law in laws if law.known]
        if known:
            each = levels(_together(known), self.readout)
            for i, law in enumerate(known):
                self._readings[id(law)] = law, _reading(law, each[i])

    def gaussians(self, law: Law) -> Gaussians:
        """A law's PDF with its variance."""
        reading = self.read(law)
        return Gaussians(reading.pdf, reading.variance)


def table(population: Floats, laws: Sequence[Law]) -> Table:
    """The table for laws as they are, or a little later."""
    bins = laws[0].messages.mean.shape[1]
    variances = [law.messages.variance for law in laws if law.known]
    low = min((float(v.min()) for v in variances), default=_NARROWEST)
    high = max((float(v.max()) for v in variances), default=_WIDEST)
    low, high = (min(max(v, _NARROWEST / bins**2), _WIDEST) for v in (0.05 * low, 4 * high))
    return Table(Readout.snapped(population, bins, low, max(high, 2 * low)))


def levels(messages: Gaussians, readout: Readout) -> Gaussians:
    """Posterior levels of messages of any shape."""
    bins, shape = messages.mean.shape[-1], messages.mean.shape
    variance = np.minimum(np.maximum(messages.variance, _NARROWEST / bins**2), _WIDEST).ravel()
    each = readout.read(Gaussians(messages.mean.ravel(), variance))
    return Gaussians(each.mean.reshape(shape), each.variance.reshape(shape))


def read(law: Law, readout: Readout) -> Reading:
    """A law's PDF before it is compared with a measurement; an unknown law is uniform."""
    bins = law.messages.mean.shape[1]
    if not law.known:
        even = Gaussians(law.messages.mean, np.full_like(law.messages.mean, 1 / bins**2))
        return Reading(even, np.exp(law.log_weights), 1.0, np.full(bins, 1 / bins), np.full(bins, 1 / bins**2))
    return _reading(law, levels(law.messages, readout))


def _reading(law: Law, each: Gaussians) -> Reading:
    weights = np.exp(law.log_weights)
    mean = weights @ each.mean
    variance = weights @ (each.variance + (each.mean - mean) ** 2)
    mass = float(mean.sum())
    return Reading(each, weights, mass, mean / mass, variance / mass**2)


def clear(expected: Floats, noise: float) -> float:
    """How clear a measurement is: 0 where its signal drowns in noise, 1 where it stands out; evidence counts so much.

    Noise that is compared with noise would otherwise move weights by chance, slot after slot.
    """
    return float(-np.expm1(-0.5 * float(((expected / noise) ** 2).sum())))


def fitted(counts: Counts, pdf: Floats, variance: Floats, size: float) -> tuple[float, float]:
    """The size at which the counts look like a PDF, by weighted least squares, and its variance."""
    weight = 1 / (2 * counts.noise**2 + counts.doubt + size * pdf + size**2 * variance)
    precision = max(float((weight * pdf * pdf).sum()), 1e-300)
    return float((weight * pdf * counts.values).sum()) / precision, 1 / precision


def refitted(reading: Reading, counts: Counts, size: float, doubt: float) -> float:
    """A size of variance `doubt`, and of relative deviation `REFIT` beside that, corrected by the counts."""
    found, variance = fitted(counts, reading.pdf, reading.variance, size)
    known = (REFIT * size) ** 2 + doubt
    return max(size + known / (known + variance) * (found - size), 0.02 * size)


def begun(law: Law, counts: Counts, size: float) -> Law:
    """A law after its first measurement: that is all it knows."""
    mean = counts.values / size
    variance = (2 * counts.noise**2 + counts.doubt + np.maximum(counts.values, 0)) / size**2
    each = Gaussians(*(np.repeat(row[None], len(DRIFTS), 0) for row in (mean, variance)))
    return replace(law, messages=each, known=True)


def assimilated(law: Law, reading: Reading, counts: Counts, size: float) -> Learned:
    """A law after counts of `size` users: one Gaussian update for each tracker and bin."""
    noise = counts.noise
    scale = size / reading.mass
    expected, known = scale * reading.levels.mean, scale**2 * reading.levels.variance
    both = known + expected + counts.doubt
    residual = counts.values - expected
    scored = laplace_gauss.score(residual, both, noise)
    slope, seen = lumpy(scored, residual, both, noise)
    trust = clear(size * reading.pdf, noise)
    weights = softmax(law.log_weights + trust * scored.log_density.sum(1, dtype=np.float64))
    counted = np.maximum(expected + both * slope, LEAST * expected)
    spread = np.maximum(both - both * both * seen, SHARPEST * both)
    counted, spread = crowded(counted, spread, scored.log_density, counts, size)
    mean = weights @ counted
    variance = weights @ (spread + (counted - mean) ** 2)
    total = float(mean.sum())
    messages = law.messages
    gain = scale**2 * messages.variance * seen / np.maximum(1 - known * seen, 1e-3)
    away = slope / (seen * scale) + reading.levels.mean - messages.mean
    new = Gaussians(messages.mean + gain * away / (1 + gain), messages.variance / (1 + gain))
    beaten, leader = (weights < BEATEN)[:, None], int(np.argmax(weights))
    new = Gaussians(*(np.where(beaten, each[leader], each) for each in (new.mean, new.variance)))
    shared = RETURN * trust
    log_weights = np.log((1 - shared) * weights + shared * PRIOR)
    return Learned(Law(new, log_weights, True), Gaussians(mean / total, variance / total**2))


def crowded(counted: Floats, spread: Floats, log_density: Reals, counts: Counts, size: float) -> tuple[Floats, Floats]:
    """Users in each bin, and their variance, if a bin may hold a crowd that nobody expected (`CROWD`)."""
    anything = math.log(CROWD / (size + counts.noise))
    if log_density.min() > anything + 40:  # nothing comes near it
        return counted, spread
    crowd = np.exp(anything - np.logaddexp(log_density.astype(np.float64), anything))
    away = np.maximum(counts.values, 0) - counted
    alone = 2 * counts.noise**2 + counts.doubt
    return counted + crowd * away, spread + crowd * (alone - spread) + crowd * (1 - crowd) * away**2


def lumpy(scored: Score, residual: Floats, variance: Floats, noise: float) -> tuple[Floats, Floats]:
    """Slope and information of a residual, for counts that are lumps of one user.

    The exact slope for Laplace noise is flat beyond one scale: it tells medians. Where the noise is as small as one
    user, a bin that has a user now and then would be taken for an empty one; the plain slope tells means. The larger
    the noise, the more is the exact one worth, and the less it is off.
    """
    exact = noise / (noise + LUMP)
    plain = variance + 2 * noise**2
    np.divide(1, plain, out=plain)
    plain *= 1 - exact
    slope = scored.slope.astype(np.float64)
    slope *= exact
    slope += plain * residual
    seen = np.asarray(laplace_gauss.information(variance, noise), dtype=np.float64)
    seen *= exact
    seen += plain
    return slope, seen


def aged(laws: Sequence[Law], readout: Readout, elapsed: int) -> list[Law]:
    """Laws some slots later: a log-walk of step d adds d²·E[level²] in each; the sum of levels is kept near one.

    Only a sum that messages know is moved: that of the population would move them in every slot, without end.
    """
    known = [law for law in laws if law.known]
    if not known:
        return list(laws)
    messages = _together(known)
    each = levels(messages, readout)
    for i, law in enumerate(known):
        mass, best = float((np.exp(law.log_weights) @ each.mean[i]).sum()), leader(law)
        heard = float(best.variance.sum()) < (SUMMED * float(best.mean.sum())) ** 2
        if heard and not 0.8 < mass < 1.25:
            for beliefs in (each[i], messages[i]):
                np.multiply(beliefs.mean, 1 / mass, out=beliefs.mean)
                np.multiply(beliefs.variance, (1 / mass) ** 2, out=beliefs.variance)
    variance = np.minimum(messages.variance + elapsed * _STEP * (each.mean**2 + each.variance), UNKNOWN)
    parts = zip(messages.mean, variance, known, strict=True)
    later = iter([Law(Gaussians(mean, wide), law.log_weights, True) for mean, wide, law in parts])
    return [next(later) if law.known else law for law in laws]


def _together(laws: Sequence[Law]) -> Gaussians:
    """Messages of some laws, (laws, trackers, bins)."""
    return Gaussians(
        np.array([law.messages.mean for law in laws]),
        np.array([law.messages.variance for law in laws]),
    )


def leader(law: Law) -> Gaussians:
    """The messages of the tracker with the largest weight."""
    return law.messages[int(np.argmax(law.log_weights))]


def softmax(log: Floats) -> Floats:
    """Weights of log weights, none of them zero: what is impossible now may be right later."""
    weights = np.exp(np.maximum(log - log.max(), _FAINTEST))
    return np.asarray(weights / weights.sum())
