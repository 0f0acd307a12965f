"""A law that drifts: how the users of some measurements are spread over the bins, by a mixture of trackers.

A tracker has for each bin a Gaussian message about its level, if log-levels walk by its drift a slot. Messages hold no
prior; they are read under the population of levels, which all laws share. Sees counts after noise; no histogram, no
user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering._gaussians import PATIENCE, UNKNOWN, Gaussians, fast_replace
from dpi.mechanism.filtering._population import Readout
from dpi.mechanism.filtering.laplace_gauss import Evidence, NoisyCounts, Reals, fisher_information, score_evidence


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """The histogram of one due class, as it was measured."""

    values: Floats
    """Noisy sum of weights in each bin: users, where all have weight one."""
    noise: float
    """Scale of the Laplace noise, 1/ε of the class."""
    share: float
    """The fraction of what was left that its users paid."""
    most_left: float
    """The most that an account of the class can have left, as a share of ε: who has it has weight one."""

    def of_users(self, left: float) -> NoisyCounts:
        """NoisyCounts of users who have `left` of ε on average, so weigh `left / most_left`."""
        weight = left / self.most_left
        return NoisyCounts(np.asarray(self.values / weight), self.noise / weight)


DRIFTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Deviation of log-levels a slot, of the trackers and of a cell's own dynamics: those of `Boosted`. Source: by
trial."""
RETURN = 0.01
"""Share of weight that flows back to the prior with every clear measurement, so that a beaten tracker can return.
Source: by trial."""
BEATEN = 1e-3
"""A tracker of less weight starts again from the leader's messages. Source: by trial."""
REFIT = 0.5
"""Relative deviation of a size that is handed to a law: the counts may correct it before they are compared with it.
Source: by trial."""
LUMP = 1.0
"""Noise at which the exact slope and the plain one count the same, in users. Source: by trial
(benchmarks/clocked.py)."""
CROWD = 1e-9
"""Probability, for each bin and measurement, that as many users are in it as may be, whatever was expected. Noise is
Laplace, whose tails are wider than those of what is expected: without it, a crowd that nobody expected would be taken
for noise, however far it is beyond all noise. Only what the slot itself had is told so; laws go on walking, since most
crowds are gone with their slot. Source: by trial (benchmarks/clocked.py)."""
SHARPEST, LEAST = 0.02, 0.1
"""One measurement lowers a variance, and the number of users in a bin, to no less than these shares. Source: by
trial."""
SUMMED = 0.2
"""The sum of messages is known if its relative deviation is below this. Source: by trial
(tests/mechanism/cells/test_law.py)."""
_NARROWEST, _WIDEST = 1e-8, 4.0
"""Variances outside these (the first over bins²) say all or nothing, and are read as these. Source: by calculation."""
_FAINTEST = -60.0
"""Log weights below the largest by more than this count as this. Source: by definition."""
TRACKERS_PRIOR = PATIENCE ** np.arange(len(DRIFTS)) / np.sum(PATIENCE ** np.arange(len(DRIFTS)))
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
        return cls(Gaussians(np.full(shape, 1 / bins), np.full(shape, UNKNOWN)), np.log(TRACKERS_PRIOR), False)


@dataclass(frozen=True, eq=False)
class LawReading:
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


class LawTable:
    """The table in which laws are read in one slot; each law is read once."""

    def __init__(self, readout: Readout) -> None:
        self.readout = readout
        self._readings: dict[int, tuple[Law, LawReading]] = {}

    def read(self, law: Law) -> LawReading:
        """A law's reading."""
        known = self._readings.get(id(law))  # the law is kept beside it, so that its id is no other's
        if known is None:
            known = self._readings[id(law)] = law, read_law(law, self.readout)
        return known[1]

    def read_all(self, laws: Sequence[Law]) -> None:
        """Read laws at once, for when they are asked for: the same numbers, in fewer steps."""
        known = [law for law in laws if law.known]
        if known:
            each = read_levels(_together(known), self.readout)
            for law, reading in zip(known, _readings(known, each), strict=True):
                self._readings[id(law)] = law, reading

    def gaussians(self, law: Law) -> Gaussians:
        """A law's PDF with its variance."""
        reading = self.read(law)
        return Gaussians(reading.pdf, reading.variance)


def make_table(population: Floats, laws: Sequence[Law]) -> LawTable:
    """The table for laws as they are, or a little later."""
    bins = laws[0].messages.mean.shape[1]
    variances = [law.messages.variance for law in laws if law.known]
    low = min([v.item(v.argmin()) for v in variances], default=_NARROWEST)
    high = max([v.item(v.argmax()) for v in variances], default=_WIDEST)
    low, high = [min(max(v, _NARROWEST / bins**2), _WIDEST) for v in (0.05 * low, 4 * high)]
    return LawTable(Readout.snapped(population, bins, low, max(high, 2 * low)))


def read_levels(messages: Gaussians, readout: Readout) -> Gaussians:
    """Posterior levels of messages of any shape."""
    variance = np.maximum(messages.variance, _NARROWEST / messages.mean.shape[-1] ** 2)
    return readout.read(Gaussians(messages.mean, np.minimum(variance, _WIDEST, out=variance)))


def read_law(law: Law, readout: Readout) -> LawReading:
    """A law's PDF before it is compared with a measurement; an unknown law is uniform."""
    bins = law.messages.mean.shape[1]
    if not law.known:
        even = Gaussians(law.messages.mean, np.full_like(law.messages.mean, 1 / bins**2))
        return LawReading(even, np.exp(law.log_weights), 1.0, np.full(bins, 1 / bins), np.full(bins, 1 / bins**2))
    return _readings([law], read_levels(_together([law]), readout))[0]


def _readings(laws: Sequence[Law], each: Gaussians) -> list[LawReading]:
    """Of some laws, by the levels of their trackers, (laws, trackers, bins)."""
    weights = np.exp(np.array([law.log_weights for law in laws]))
    row = weights[:, None]
    mean = row @ each.mean
    around = each.mean - mean
    around *= around
    around += each.variance
    mass = np.add.reduce(mean, 2, keepdims=True)
    pdf, variance = (mean / mass)[:, 0], (row @ around / (mass * mass))[:, 0]
    whole = mass.ravel().tolist()
    return [LawReading(each[i], weights[i], whole[i], pdf[i], variance[i]) for i in range(len(laws))]


def clearness(expected: Floats, noise: float) -> float:
    """How clear a measurement is: 0 where its signal drowns in noise, 1 where it stands out; evidence counts so much.

    Noise that is compared with noise would otherwise move weights by chance, slot after slot.
    """
    return -math.expm1(-0.5 * float(expected.dot(expected)) / noise**2)


def fit_size(counts: NoisyCounts, pdf: Floats, variance: Floats, size: float) -> tuple[float, float]:
    """The size at which the counts look like a PDF, by weighted least squares, and its variance."""
    known = size * pdf
    known += size**2 * variance
    known += 2 * counts.noise**2 + counts.doubt
    weight = pdf / known
    precision = max(float(weight.dot(pdf)), 1e-300)
    return float(weight.dot(counts.values)) / precision, 1 / precision


def refit_size(reading: LawReading, counts: NoisyCounts, size: float, doubt: float) -> float:
    """A size of variance `doubt`, and of relative deviation `REFIT` beside that, corrected by the counts."""
    found, variance = fit_size(counts, reading.pdf, reading.variance, size)
    known = (REFIT * size) ** 2 + doubt
    return max(size + known / (known + variance) * (found - size), 0.02 * size)


def begin_law(law: Law, counts: NoisyCounts, size: float) -> Law:
    """A law after its first measurement: that is all it knows."""
    mean = counts.values / size
    variance = (2 * counts.noise**2 + counts.doubt + np.maximum(counts.values, 0)) / size**2
    each = Gaussians(*(np.repeat(row[None], len(DRIFTS), 0) for row in (mean, variance)))
    return fast_replace(law, messages=each, known=True)


def assimilate_law(law: Law, reading: LawReading, counts: NoisyCounts, size: float) -> Learned:
    """A law after counts of `size` users: one Gaussian update for each tracker and bin."""
    noise = counts.noise
    scale = size / reading.mass
    expected, known = scale * reading.levels.mean, scale**2 * reading.levels.variance
    both = known + expected + counts.doubt
    residual = counts.values - expected
    scored = score_evidence(residual, both, noise)
    slope, seen = lumpy_slope(scored, residual, both, noise)
    trust = clearness(size * reading.pdf, noise)
    weights = softmax(law.log_weights + trust * np.add.reduce(scored.log_density, 1, np.float64))
    counted, spread = correct_counts(expected, both, slope, seen, LEAST * expected)
    counted, spread = correct_crowds(counted, spread, scored.log_density, counts, size)
    mean = weights @ counted
    around = counted - mean
    around *= around
    around += spread
    variance = weights @ around
    total = float(np.add.reduce(mean))
    messages = law.messages
    gain = scale**2 * messages.variance
    gain *= seen
    known *= seen
    np.subtract(1, known, out=known)
    gain /= np.maximum(known, 1e-3, out=known)
    seen *= scale
    away = np.divide(slope, seen, out=slope)
    away += reading.levels.mean
    away -= messages.mean
    away *= gain
    gain += 1
    away /= gain
    away += messages.mean
    new, leader = Gaussians(away, messages.variance / gain), int(weights.argmax())
    for beaten in (weights < BEATEN).nonzero()[0].tolist():
        new.mean[beaten], new.variance[beaten] = new.mean[leader], new.variance[leader]
    shared = RETURN * trust
    log_weights = np.log((1 - shared) * weights + shared * TRACKERS_PRIOR)
    return Learned(Law(new, log_weights, True), Gaussians(mean / total, variance / total**2))


def correct_counts(expected: Floats, both: Floats, slope: Floats, seen: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Users in each bin and their variance, if `expected` with variance `both` were, by slope and information."""
    counted = both * slope
    counted += expected
    spread = both * seen
    np.subtract(1, spread, out=spread)
    np.maximum(spread, SHARPEST, out=spread)
    spread *= both
    return np.maximum(counted, least, out=counted), spread


def correct_crowds(
    counted: Floats, spread: Floats, log_density: Reals, counts: NoisyCounts, size: float
) -> tuple[Floats, Floats]:
    """Users in each bin, and their variance, if a bin may hold a crowd that nobody expected (`CROWD`): filled in."""
    anything = math.log(CROWD / (size + counts.noise))
    crowd = np.subtract(log_density, anything)  # in the precision in which it was made
    np.exp(crowd, out=crowd)
    crowd += 1
    np.divide(1, crowd, out=crowd)
    away = np.maximum(counts.values, 0) - counted
    nearer = crowd * away
    counted += nearer
    away -= nearer
    away *= nearer  # crowd·(1 - crowd)·away²
    np.subtract(2 * counts.noise**2 + counts.doubt, spread, out=nearer)
    nearer *= crowd
    spread += nearer
    spread += away
    return counted, spread


def lumpy_slope(scored: Evidence, residual: Floats, variance: Floats, noise: float) -> tuple[Floats, Floats]:
    """Slope and information of a residual, for counts that are lumps of one user."""
    exact = noise / (noise + LUMP)
    plain = variance + 2 * noise**2
    np.divide(1 - exact, plain, out=plain)
    slope = scored.slope.astype(np.float64)
    slope *= exact
    slope += plain * residual
    seen = fisher_information(variance.astype(np.float32), noise).astype(np.float64)
    seen *= exact
    seen += plain
    return slope, seen


def age_laws(laws: Sequence[Law], readout: Readout, elapsed: int) -> list[Law]:
    """Laws some slots later: a log-walk of step d adds d²·E[level²] in each; the sum of levels is kept near one."""
    known = [law for law in laws if law.known]
    if not known:
        return list(laws)
    messages = _together(known)
    each, log_weights = read_levels(messages, readout), np.array([law.log_weights for law in known])
    masses = np.exp(log_weights) * np.add.reduce(each.mean, 2)
    best = np.arange(len(known)), log_weights.argmax(1)
    sums = [np.add.reduce(messages.mean[best], 1), np.add.reduce(messages.variance[best], 1)]
    for i, (mass, mean, wide) in enumerate(np.array([np.add.reduce(masses, 1), *sums]).T.tolist()):
        if wide < (SUMMED * mean) ** 2 and not 0.8 < mass < 1.25:  # heard, and off
            for beliefs in (each[i], messages[i]):
                np.multiply(beliefs.mean, 1 / mass, out=beliefs.mean)
                np.multiply(beliefs.variance, (1 / mass) ** 2, out=beliefs.variance)
    variance = each.mean * each.mean
    variance += each.variance
    variance *= elapsed * _STEP
    variance += messages.variance
    np.minimum(variance, UNKNOWN, out=variance)
    parts = zip(messages.mean, variance, known, strict=True)
    later = iter([Law(Gaussians(mean, wide), law.log_weights, True) for mean, wide, law in parts])
    return [next(later) if law.known else law for law in laws]


def _together(laws: Sequence[Law]) -> Gaussians:
    """Messages of some laws, (laws, trackers, bins)."""
    return Gaussians(np.array([law.messages.mean for law in laws]), np.array([law.messages.variance for law in laws]))


def leading_messages(law: Law) -> Gaussians:
    """The messages of the tracker with the largest weight."""
    return law.messages[int(law.log_weights.argmax())]


def softmax(log: Floats) -> Floats:
    """Weights of log weights, none of them zero: what is impossible now may be right later."""
    weights = np.maximum(log - log.item(log.argmax()), _FAINTEST)
    np.exp(weights, out=weights)
    weights /= np.add.reduce(weights)
    return weights
