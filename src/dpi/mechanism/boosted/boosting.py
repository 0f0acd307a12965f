"""One slot of boosting: recall the experts, score them on the noisy counts, reweigh them, mix, remember.

The experts are trackers of different drifts, the memory of a season, a challenger that starts again where bins may
have jumped, and the uniform PDF. All are worked on at once, a block of bins after the other.

Everything here is a pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees
counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.boosted import experts, jumps
from dpi.mechanism.boosted import size as _size
from dpi.mechanism.boosted.assimilation import Dispersion, Slot, assimilate
from dpi.mechanism.boosted.experts import ExpertPool, Walked
from dpi.mechanism.boosted.jumps import Jumps
from dpi.mechanism.boosted.mixture import SLACK, Belief, bounded, normalised, settled
from dpi.mechanism.boosted.size import Counts
from dpi.mechanism.boosted.state import BoostedState, Phase
from dpi.mechanism.boosted.weights import BEATEN, Weights, reweigh
from dpi.mechanism.filtering import laplace_gauss as _laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians, blocks
from dpi.mechanism.filtering.population import Readout

TRUST = 1.5
"""The log scores of a slot in which a share c of the users pays count c^TRUST: newcomers may differ from the others.

Source: by trial; what it does is measured by benchmarks/churn.py (docs/utility.md, When users come and go).
"""

WIDEST = 4.0
"""A message of this variance says nothing, as levels are between 0 and 1.

Source: by definition.
"""


SMALLEST = 1e-15
"""The smallest probability that is released: a PDF is positive, also where a count is far beyond all that users make.

Source: by definition.
"""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The pool before the slot is looked at."""

    pool: Walked
    """Trackers, season, restart, challenger: (experts, bins)."""
    readout: Readout
    readings: Gaussians
    """What the messages say under the population and, in the last row, the uniform PDF: (experts + 1, bins)."""
    weights: Floats
    mass: float
    """Sum of the levels of those that know the past; the others' have a sum of one."""

    @property
    def messages(self) -> Gaussians:
        """The messages of the pool."""
        return self.pool.messages

    @property
    def restart(self) -> int:
        """The restart's row; those before it know the past, the next is the challenger's."""
        return len(self.messages.mean) - 2

    def mixed(self) -> Gaussians:
        """The mixture of the readings, at the scale of those that know the past."""
        mixed = Gaussians.empty(self.readings.mean.shape[1])
        unit = np.ones((len(self.weights), 1))
        unit[self.restart :] = self.mass
        for here in blocks(mixed.mean.size):
            mean, variance = unit * self.readings.mean[:, here], unit**2 * self.readings.variance[:, here]
            mixed.mean[here], mixed.variance[here] = _mixture(self.weights, mean, variance)
        return mixed


def _learned(forecast: Gaussians, scale: float, counts: Counts) -> float:
    """Between 0 and 1: how much a slot of so many users can say; next to nothing, if it is drowned in noise."""
    return -float(np.expm1(-0.5 * (scale / counts.noise) ** 2 * float(forecast.mean @ forecast.mean)))


def _mixture(weights: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture."""
    mean = weights @ means
    return mean, np.asarray(weights @ (variances + (means - mean) ** 2))


def recall(state: BoostedState, slot: int, pool: ExpertPool, counts: Counts | None) -> Forecast:
    """The experts' messages for a slot, read under the population; the table reaches to what `counts` will bring."""
    weights = np.exp(state.log_weights)
    leader = int(np.argmax(weights[: len(state.pool.mean) - 2]))
    before = experts.recalled(Walked(state.pool, state.walk), state.season, slot, leader, state.mass)
    steps, told = pool.steps(state.age), before.messages
    narrowest, widest = float(before.measured.variance.min()), float(told.variance.max())
    widest += float(steps.max()) * (float(told.mean.max()) ** 2 + widest)  # as they will be aged
    if counts is not None:
        scale = max(state.size.scale if state.known else 1.0, counts.total + 3 * counts.total_variance**0.5)
        narrowest = 1 / (1 / narrowest + 4 * (scale / counts.noise) ** 2)
        widest = max(widest, WIDEST) if not state.known else widest
    readout = Readout.tabulate(state.population, state.bins, max(narrowest, 1e-24), min(widest, WIDEST))
    walked, read = before.aged(before.read(readout), steps)
    mean = np.concatenate([read.mean, np.full((1, state.bins), 1 / state.bins)])
    variance = np.concatenate([read.variance, np.zeros((1, state.bins))])
    return Forecast(walked, readout, Gaussians(mean, variance), weights, state.mass)


def unmeasured(state: BoostedState, slot: int, pool: ExpertPool) -> tuple[BoostedState, Estimate]:
    """A slot that was not looked at: its estimate is the forecast, its size unknown before the first measurement."""
    forecast = recall(state, slot, pool, None)
    mixed = forecast.mixed()
    mass, size = float(mixed.mean.sum()), state.size.forecast()
    pdf, expected = mixed.mean / mass, size.scale * mass
    variance = SLACK * (mixed.variance / mass**2 + state.dispersion.likely * pdf / expected)
    season = state.season  # a phase that is still unseen stays so; one that was seen is a period older
    if state.phase(slot) is Phase.AGAIN:
        _, season = experts.remembered(forecast.pool, state.season, slot, state.mass)
    total, spread = (expected, size.variance * expected**2) if state.known else (float("nan"), float("nan"))
    estimate = Estimate(pdf, bounded(variance, pdf), np.zeros(state.bins), total, spread)
    after = replace(state, season=season, age=state.age + 1, size=size, plain=state.plain.forecast())
    return after, estimate


def measured(
    state: BoostedState, slot: int, pool: ExpertPool, counts: Counts, *, partial: bool
) -> tuple[BoostedState, Estimate]:
    """A slot with noisy counts; `partial` if they may be of fewer users than are active."""
    forecast = recall(state, slot, pool, counts)
    mixed = forecast.mixed()
    if state.known:
        jump = jumps.rate(jumps.JUMP, _learned(mixed, state.plain.scale, counts))
        plain = _size.of_sum(counts, state.plain.forecast(), jump)
    else:
        plain = _size.first(counts)
    now = Slot(counts, plain, state.dispersion.value)
    fresh = now.fresh(state.population)
    gauge = float(mixed.mean.sum()) if state.known else 1.0
    size = _size.fit(counts, mixed, state.size.forecast(), plain, now.dispersion, fresh) if state.known else plain
    users, _ = _size.total(size, plain, gauge)  # a crowd in one bin lowers the fitted size, and nobody's payments
    payers = state.payers.after(users, partial=partial, season=pool.season)
    if payers.coverage < 1:
        now = replace(now, coverage=payers.coverage)
        fresh = now.fresh(state.population)
    scales = np.full((len(forecast.readings.mean), 1), size.scale)
    scales[-3:] = plain.scale
    learned = _learned(mixed, size.scale, counts)
    trust = now.coverage**TRUST
    # Those who still pay may differ from all, and how many all are may never have been seen: nothing need have changed.
    doubted = payers.coverage < 1 or (partial and not payers.reference)
    whole = 0.0 if doubted else learned
    jump, anew = (jumps.rate(probability, whole) for probability in (jumps.JUMP, jumps.ANEW))
    away = np.full(len(scales), np.log(state.size.scale / size.scale))
    away[-3:] = np.log(state.plain.scale / plain.scale)
    doubt = min(max(state.size.forecast().variance, state.plain.forecast().variance), _size.LARGEST_VARIANCE)
    scored = score(forecast, now, scales, (away, doubt), fresh, jump, trust, state)
    weights = reweigh(forecast.weights, scored.evidence, scored.novelty, forecast.restart, anew, trust)
    few = now.coverage < 0.5  # the deviation of a few payers says nothing of the slot's own
    dispersion = state.dispersion if few or not state.known else scored.dispersed(state.dispersion, weights.experts)
    newborn = np.stack([np.full(state.bins, weights.newborn or not state.known), scored.newborn])
    messages = updated(forecast, scored, now, scales, newborn, state)
    doubtful = replace(now, dispersion=dispersion.likely)
    after = forecast.pool.after(messages)
    belief, mass = released(forecast, scored, weights, now, doubtful, scales, after, newborn)
    odds = settle(after, forecast, scored, weights, now, scales, state, slot)
    if weights.all_new:
        size = plain
    leader = after[[weights.leader]]
    total, total_variance = _size.total(size, plain, mass)
    told, reading = leader.measured[0], leader.read(forecast.readout)[0]
    population = forecast.readout.learned(told, reading, reach=3 * counts.noise / size.scale)
    if learned > 0.5 and not 0.8 < mass < 1.25:  # kept near one, where the grid of levels is; by data, not by prior
        messages.mean[: forecast.restart] /= mass
        messages.variance[: forecast.restart] /= mass**2
        after.walk[: forecast.restart] /= mass**2
        size, mass = replace(size, scale=size.scale * mass), 1.0
    trackers, season = experts.remembered(after, state.season, slot, mass)
    return BoostedState(
        pool=trackers.messages,
        walk=trackers.walk,
        season=season,
        age=learned,
        log_weights=weights.shared(pool.prior, learned),
        odds=odds,
        population=population,
        size=size,
        plain=plain,
        dispersion=dispersion,
        mass=mass,
        payers=payers,
        known=True,
    ), Estimate(belief.pdf, belief.variance, belief.skew, total, total_variance)


@dataclass(frozen=True, eq=False)
class Scored:
    """How the experts' forecasts of a slot turned out."""

    slope: Floats
    """Derivatives of the log scores with respect to the expected counts: (experts + 1, bins)."""
    heat: Floats
    """Their derivatives with respect to the variances."""
    jumped: Floats
    """Probabilities that bins have jumped, for each expert that knows the past."""
    newborn: Floats
    """Whether the challenger starts again in a bin."""
    stale: Floats
    """Whether the seasonal expert's message of a bin is less likely than a fresh start."""
    evidence: Floats
    """Log scores of the experts."""
    novelty: float
    """Log score of a fresh start minus the best expert's, over bins that are known by data rather than by prior; but
    for the bin that says so most: a crowd in one bin is no sign that all bins are new."""
    information: Floats
    """Fisher information of every count about its expectation, on average: (experts + 1, bins)."""
    dispersion_score: Floats
    dispersion_information: Floats

    def dispersed(self, before: Dispersion, weights: Floats) -> Dispersion:
        """The dispersion after one stochastic Newton step on the mixture's log score."""
        return before.stepped(float(weights @ self.dispersion_score), float(weights @ self.dispersion_information))


def score(
    forecast: Forecast,
    slot: Slot,
    scales: Floats,
    sizes: tuple[Floats, float],
    fresh: Floats,
    rate: float,
    trust: float,
    state: BoostedState,
) -> Scored:
    """Score all experts' forecasts. `fresh` is the log density of every count if its level is new.

    Every expert is scored over all sizes that were expected, `sizes` (`dpi.mechanism.boosted.size.marginal`): the one
    that is fitted to some of them would make the others worse than they are.
    """
    rows, bins = forecast.readings.mean.shape
    slope, heat, known = np.empty((3, rows, bins))
    pull, hold = np.zeros((2, rows))
    newborn, stale = np.ones(bins, dtype=bool), np.zeros(bins, dtype=bool)
    evidence, novelty, newest, dispersion, information = np.zeros((5, rows))
    restart, noise = forecast.restart, slot.counts.noise
    jumped = np.full((restart, bins), jumps.JUMP)
    for here in blocks(bins):
        read = forecast.readings.variance[:, here]
        expected = scales * forecast.readings.mean[:, here]
        variance = scales**2 * read + slot.scatter(expected)
        log, slope[:, here], heat[:, here] = _laplace_gauss.score(slot.counts.values[here] - expected, variance, noise)
        if not state.known:  # nobody knew anything
            log[:-1] = fresh[here]
            evidence += log.sum(1, dtype=np.float64)
            continue
        jump = Jumps.of(state.odds[here], log[restart + 1], fresh[here], rate)
        newborn[here] = jump.newborn
        stale[here] = rate + trust * (fresh[here] - log[restart - 1]) > 0
        log[:restart], jumped[:, here] = jump.either(log[:restart], trust)
        evidence += log.sum(1, dtype=np.float64)
        by_data = 2 * read[:-1] / forecast.messages.variance[:, here] - 1
        newer = fresh[here] - log
        newer[:-1] *= np.clip(by_data, 0, 1)
        novelty += newer.sum(1)
        np.maximum(newest, newer.max(1), out=newest)
        spread = np.minimum(heat[:, here], 4 / (variance + noise**2)) * slot.scatter(expected) / slot.dispersion
        stayed = 1 - jumped[:, here]
        spread[:restart] *= stayed
        dispersion += spread.sum(1)
        information += (spread * spread).sum(1)
        known[:, here] = _laplace_gauss.information(variance, noise)
        expected[:restart] *= stayed
        pull += (slope[:, here] * expected).sum(1)
        hold += (known[:, here] * expected * expected).sum(1)
    evidence = _size.marginal(evidence, pull, hold, *sizes, slot.counts.nobody)
    best = int(np.argmax(np.log(forecast.weights) + evidence))
    return Scored(
        slope, heat, jumped, newborn, stale, evidence, float((novelty - newest)[best]), known, dispersion, information
    )


def updated(
    forecast: Forecast, scored: Scored, slot: Slot, scales: Floats, newborn: Floats, state: BoostedState
) -> Gaussians:
    """The experts' messages after the slot; restart and challenger start again in bins that are `newborn`."""
    alone = slot.alone(own=False)
    if not state.known:
        return Gaussians(
            *(np.repeat(row[None], len(forecast.messages.mean), 0) for row in (alone.mean, alone.variance))
        )
    messages, count = Gaussians.empty(*forecast.messages.mean.shape), len(forecast.messages.mean)
    for here in blocks(state.bins):
        before, read = (
            Gaussians(g.mean[:count, here], g.variance[:count, here]) for g in (forecast.messages, forecast.readings)
        )
        part = assimilate(before, read, scales[:-1], scored.slope[:-1, here], scored.information[:-1, here])
        messages.mean[:, here], messages.variance[:, here] = part.mean, part.variance
    for row, born in zip((-2, -1), newborn, strict=True):
        messages.mean[row][born] = alone.mean[born]
        messages.variance[row][born] = alone.variance[born]
    return messages


def released(
    forecast: Forecast,
    scored: Scored,
    weights: Weights,
    slot: Slot,
    doubtful: Slot,
    scales: Floats,
    after: Walked,
    newborn: Floats,
) -> tuple[Belief, float]:
    """The posterior of the slot's PDF, a mixture over the experts that are heard; and the best group's sum of levels.

    `doubtful` is the slot with the largest dispersion that is likely.
    """
    heard, restart = weights.heard(), forecast.restart
    rows = np.union1d(np.flatnonzero(heard[:restart]), [] if weights.all_new else [weights.leader]).astype(np.int64)
    kept = [*rows.tolist(), restart, restart + 1]
    pool = after[kept]
    bins, scale = newborn.shape[1], scales[[*kept, -1]]
    mean, variance, skew = np.empty((rows.size + 3, bins)), np.empty((rows.size + 3, bins)), np.zeros(bins)
    share = heard[[*kept, -1]]
    group = np.array(kept) == restart if weights.all_new else np.array(kept) < restart
    group = group * weights.experts[kept] / float(weights.experts[kept][group].sum())
    mass = 0.0
    for here in blocks(bins):
        told, before = pool.at(here).measured.variance, _part(forecast.readings, [*kept, -1], here)
        read = pool.read(forecast.readout, here)
        slope, heat = scored.slope[[*kept, -1], here], scored.heat[[*kept, -1], here]
        expected = scale * np.concatenate([read.mean, before.mean[-1:]])
        mean[:, here] = expected * np.maximum(1 + slot.coverage * slot.dispersion * slope, 0.1)
        scatter = slot.scatter(scale * before.mean)
        first = scatter + scale**2 * before.variance
        more = scatter * (doubtful.dispersion / slot.dispersion - 1)
        known = settled(first, slope, heat, slot.counts.noise)
        variance[:, here] = known + more * (known / first) ** 2
        mass += float((group @ read.mean).sum())
        skew[here] = share[:-1] @ np.maximum(1 - read.variance / told, 0)
    own = slot.alone(own=True)
    for row, born in zip((-3, -2), newborn, strict=True):
        if born.any():
            anew = forecast.readout.read(Gaussians(own.mean[born], own.variance[born]))
            mean[row, born], variance[row, born] = slot.scale * anew.mean, slot.scale**2 * anew.variance
    jumped = scored.jumped[rows]
    away = mean[-2] - mean[:-3]
    mean[:-3] += jumped * away
    variance[:-3] += jumped * (variance[-2] - variance[:-3]) + jumped * (1 - jumped) * away**2
    parts = normalised(Gaussians(mean, variance))
    pdf, spread = _mixture(share, parts.mean, parts.variance)
    if slot.coverage < 1:
        spread += slot.doubt(pdf)
    pdf = np.maximum(pdf, SMALLEST)
    return Belief(pdf / pdf.sum(), bounded(SLACK * spread, pdf), skew), mass


def settle(
    after: Walked,
    forecast: Forecast,
    scored: Scored,
    weights: Weights,
    slot: Slot,
    scales: Floats,
    state: BoostedState,
    number: int,
) -> Floats:
    """Make `after` what is remembered; the odds of jumps.

    Where bins have jumped all trackers take the challenger's; a beaten tracker starts again from the leader's. The
    seasonal expert does not: it is the memory of its phase alone, and may need periods to become the best. It starts
    again from the slot alone in its first period, and in bins where a fresh start would have predicted better.
    """
    messages, walk = after.messages, after.walk
    trackers, restart = len(state.pool.mean) - 2, len(messages.mean) - 2
    unit = float(scales[-1, 0] / scales[0, 0])  # those that know the past have a scale of their own
    beaten = weights.experts[:trackers] < BEATEN
    if weights.all_new:
        unit, beaten = 1.0, np.ones_like(beaten)
        if restart > trackers:  # the phase was looked at with a scale that was wrong
            before = forecast.messages[trackers].rescaled(1 / forecast.mass)
            messages.mean[trackers], messages.variance[trackers] = before.mean, before.variance
    past = weights.experts[:restart]
    odds = jumps.log_odds(past / past.sum() @ scored.jumped)
    jumped = np.flatnonzero(odds > jumps.CERTAIN)
    messages.mean[:trackers, jumped] = messages.mean[-1, jumped] * unit
    messages.variance[:trackers, jumped] = messages.variance[-1, jumped] * unit**2
    walk[:trackers, jumped] = 0
    odds[jumped] = jumps.QUIET
    at = np.flatnonzero(beaten)
    for array in (messages.mean, messages.variance, walk):
        array[at] = array[weights.leader]
    if state.phase(number) is not Phase.NONE:
        anew = np.ones_like(scored.stale) if state.phase(number) is Phase.FIRST else scored.stale
        alone = slot.alone(own=False).rescaled(unit)
        messages.mean[restart - 1, anew], messages.variance[restart - 1, anew] = alone.mean[anew], alone.variance[anew]
    return odds


def _part(pool: Gaussians, rows: list[int], here: slice) -> Gaussians:
    return Gaussians(pool.mean[rows, here], pool.variance[rows, here])
