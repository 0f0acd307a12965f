"""One slot of boosting: recall the experts, score them on the noisy counts, reweigh them, mix, remember.

Everything here is a pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees
counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.boosted import experts
from dpi.mechanism.boosted import size as _size
from dpi.mechanism.boosted.assimilation import Scored, Slot, assimilate, score
from dpi.mechanism.boosted.experts import Expert, ExpertPool, Gaussians, Season, blocks
from dpi.mechanism.boosted.mixture import SLACK, Opinion, Uniform, blend, bounded, pooled
from dpi.mechanism.boosted.population import Readout
from dpi.mechanism.boosted.size import Counts, Size
from dpi.mechanism.boosted.state import BoostedState, Phase
from dpi.mechanism.boosted.weights import BEATEN, Weights, dispersed, first, reweigh, starts_anew

TRUST = 1.5
"""The log scores of a slot in which a share c of the users pays count c^TRUST: newcomers may differ from the others.

Source: by trial; what it does is measured by benchmarks/churn.py (docs/utility.md, When users come and go).
"""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The pool before the slot is looked at."""

    messages: Gaussians
    readout: Readout
    readings: Gaussians
    weights: Floats
    uniform: float
    """Weight of the uniform expert; the pool has the rest."""

    def experts(self) -> list[Expert]:
        """The single experts."""
        return [Expert(*pair) for pair in zip(self.messages.rows(), self.readings.rows(), strict=True)]

    def read(self, messages: Gaussians) -> Expert:
        """Other messages for the slot, read alike."""
        return Expert(messages, self.readout.read(messages))

    def mixed(self) -> Gaussians:
        """The pool's forecast: the mixture of its readings."""
        mixed = Gaussians.empty(self.readings.mean.shape[1])
        for here in blocks(mixed.mean.size):
            mean = mixed.mean[here] = self.weights @ self.readings.mean[:, here]
            spread = self.readings.mean[:, here] - mean
            spread *= spread
            spread += self.readings.variance[:, here]
            mixed.variance[here] = self.weights @ spread
        return mixed

    def with_uniform(self) -> tuple[Gaussians, float]:
        """The forecast of the pool and the uniform expert, and the sum of levels that counts as the whole slot."""
        mixed, weight = self.mixed(), self.uniform
        gauge = (1 - weight) * float(mixed.mean.sum()) + weight
        even = gauge / mixed.mean.size
        mean = (1 - weight) * mixed.mean + weight * even
        spread = (1 - weight) * (mixed.variance + (mixed.mean - mean) ** 2) + weight * (even - mean) ** 2
        return Gaussians(mean, spread), gauge


def recall(state: BoostedState, slot: int, counts: Counts | None) -> Forecast:
    """The experts' messages for a slot, read under the population; the table reaches to what `counts` will bring."""
    weights = np.exp(state.log_weights)
    leader = int(np.argmax(weights[: len(state.trackers.mean)]))
    messages = experts.recalled(state.trackers, state.season, slot, leader, state.mass)
    narrowest, widest = float(messages.variance.min()), float(messages.variance.max())
    if counts is not None:
        scale = max(state.size.scale, counts.total) if state.known else _size.first(counts).scale
        alone = 4 * (counts.noise / scale) ** 2
        narrowest = 1 / (1 / narrowest + 16 / alone)
        widest = max(widest, alone) if state.known else alone
    readout = Readout.tabulate(state.population, state.bins, max(narrowest, 1e-24), widest)
    uniform = 1 - 1 / (1 + float(np.exp(state.uniform)))
    return Forecast(messages, readout, readout.read(messages), weights, uniform)


def unmeasured(state: BoostedState, slot: int, pool: ExpertPool) -> tuple[BoostedState, Estimate]:
    """A slot that was not looked at: its estimate is the forecast, its size unknown before the first measurement."""
    return _passed(state, slot, pool, recall(state, slot, None), None)


def _passed(
    state: BoostedState, slot: int, pool: ExpertPool, forecast: Forecast, total: float | None
) -> tuple[BoostedState, Estimate]:
    """Nothing was learned of the PDF; `total` is the number of users if that was."""
    mixed, weight = forecast.mixed(), forecast.uniform
    mass, even = float(mixed.mean.sum()), 1 / state.bins
    level = mixed.mean / mass
    pdf = (1 - weight) * level + weight * even
    variance = (1 - weight) * (mixed.variance / mass**2 + (level - pdf) ** 2) + weight * (even - pdf) ** 2
    size = state.size.forecast()
    expected = size.scale * mass
    variance += SLACK * state.dispersion.value * pdf / expected
    aged = experts.aged(forecast.experts(), pool.pace)
    trackers, season = experts.remembered(aged, state.season, slot, state.mass)
    if state.phase(slot) is Phase.FIRST:
        season = state.season  # still unseen
    total_variance = size.variance * expected**2
    if total is None:
        total = expected
    if not state.known:
        total = total_variance = float("nan")
    pdf /= pdf.sum()
    estimate = Estimate(pdf, bounded(variance, pdf), np.zeros(state.bins), total, total_variance)
    return replace(state, trackers=trackers, season=season, size=size), estimate


def measured(
    state: BoostedState, slot: int, pool: ExpertPool, counts: Counts, *, partial: bool
) -> tuple[BoostedState, Estimate]:
    """A slot with noisy counts; `partial` if they may be of fewer users than are active."""
    forecast = recall(state, slot, counts)
    mixed, gauge = forecast.with_uniform()
    gauge = gauge if state.known else 1.0
    anew = Slot(counts, _size_anew(state, counts, gauge), state.dispersion.value)
    fresh = anew.fresh(state.population)
    if state.known:
        expected = state.size.forecast()
        now = replace(anew, size=_size.fit(counts, mixed, expected, state.dispersion.value, fresh))
        if _size.is_empty(counts, now.size, expected, gauge):
            return _passed(state, slot, pool, forecast, now.scale * gauge)
        payers = state.payers.after(now.scale * gauge, partial=partial, season=pool.season)
        if payers.coverage < 1:
            now, anew = replace(now, coverage=payers.coverage), replace(anew, coverage=payers.coverage)
            fresh = anew.fresh(state.population)
        uniform = Uniform.of(now, now.scale * gauge)
        scored = [score(expert, now, fresh) for expert in forecast.experts()]
        learned = -np.expm1(
            -0.5 * float((now.scale * mixed.mean / counts.noise) @ (now.scale * mixed.mean / counts.noise))
        )
        trust = now.coverage**TRUST
        weights = reweigh(forecast.weights, state.uniform, scored, uniform, trust=trust, learned=learned)
        few = now.coverage < 0.5  # the deviation of a few payers says nothing of the slot's own
        dispersion = state.dispersion if few else dispersed(state.dispersion, scored, weights, uniform)
        now = replace(now, size=anew.size if weights.all_new else now.size, dispersion=dispersion.value)
    else:
        now, scored, dispersion = anew, [], state.dispersion
        payers = state.payers.after(now.scale, partial=partial, season=pool.season)
        uniform = Uniform.of(now, now.scale)
        weights = first(forecast.weights.size, float(fresh.sum()), uniform)

    after = posterior(forecast, scored, weights, now, state.phase(slot))
    belief = pooled(list(after.opinions(forecast, scored, weights, now)), now)
    mass = (1 - weights.uniform) * belief.mass + weights.uniform * gauge
    total, total_variance = _size.total(counts, now.size, mass)
    belief = blend(belief, uniform, weights.uniform, now.size.variance)
    trackers, season, size, mass = _remembered(state, slot, pool, after, now.size, mass)
    return BoostedState(
        trackers=trackers,
        season=season,
        log_weights=weights.shared(pool.prior),
        uniform=weights.uniform_odds,
        population=forecast.readout.learned(*after.leader, reach=3 * counts.noise / now.scale),
        size=size,
        dispersion=dispersion,
        mass=mass,
        payers=payers,
        known=True,
    ), Estimate(belief.pdf, belief.variance, belief.skew, total, total_variance)


def _size_anew(state: BoostedState, counts: Counts, gauge: float) -> Size:
    """The size by the sum, which is all there is in the first slot or in a new world."""
    if not state.known:
        return _size.first(counts)
    expected = state.size.forecast()
    return _size.of_sum(counts, replace(expected, scale=expected.scale * gauge))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The pool after the slot; `leader` is the most likely expert or a fresh start.

    An expert that is not heard has the leader's reading: it only scales how fast its messages age.
    """

    experts: list[Expert]
    leader: Expert
    anew: Expert | None
    """What the seasonal expert remembers instead of its own, where it starts anew."""

    def opinions(self, forecast: Forecast, scored: Sequence[Scored], weights: Weights, now: Slot) -> Iterator[Opinion]:
        """What enters the release: every expert that is heard, and a fresh start if that is."""
        heard = weights.heard()
        if heard[-1]:
            fresh = self.leader if weights.all_new else forecast.read(now.alone())
            variance = fresh.reading.variance
            yield Opinion(float(heard[-1]), fresh, np.zeros_like(variance), variance)
        for j in np.flatnonzero(heard[:-1]).tolist():
            slope, known = scored[j].settled_slope(), forecast.readings.variance[j]
            yield Opinion(float(heard[j]), self.experts[j], slope, known)


def posterior(forecast: Forecast, scored: Sequence[Scored], weights: Weights, now: Slot, phase: Phase) -> Posterior:
    """Read the updated messages; beaten trackers start again from the leader's.

    The seasonal expert does not: it is the memory of its phase alone, and may need periods to become the best. It
    starts again from the slot alone in its first period, and where a fresh start would have predicted better.
    """
    alone, before = now.alone(), forecast.experts()

    def updated(j: int) -> Gaussians:
        return assimilate(before[j], scored[j], alone)

    best = weights.experts.size if weights.all_new else int(np.argmax(weights.experts))
    leader = forecast.read(alone if weights.all_new else updated(best))
    last = weights.experts.size - 1 if phase is not Phase.NONE and scored else None
    heard = weights.heard()
    pool = []
    for j, weight in enumerate(weights.experts):
        if j == best or (weight < BEATEN and j != last):
            pool.append(leader)
        elif heard[j] or j == last:
            pool.append(forecast.read(updated(j)))
        else:
            pool.append(Expert(updated(j), leader.reading))
    starts = last is not None and (phase is Phase.FIRST or starts_anew(scored[last]))
    return Posterior(pool, leader, forecast.read(alone) if starts else None)


def _remembered(
    state: BoostedState, slot: int, pool: ExpertPool, after: Posterior, size: Size, mass: float
) -> tuple[Gaussians, Season, Size, float]:
    """Trackers, season, size and mass for the next slot, with the mass kept near one, where the grid of levels is."""
    after_slot = after.experts if after.anew is None else [*after.experts[:-1], after.anew]
    if not 0.8 < mass < 1.25:
        after_slot = [expert.rescaled(1 / mass) for expert in after_slot]
        size, mass = replace(size, scale=size.scale * mass), 1.0
    aged = experts.aged(after_slot, pool.pace)
    return *experts.remembered(aged, state.season, slot, mass), size, mass
