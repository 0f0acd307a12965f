"""One slot of boosting: recall the experts, score them on the noisy counts, reweigh them, mix, remember.

A pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees counts after noise; no
histogram, no user.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.boosted._experts import (
    ALL,
    ANEW,
    BEATEN,
    CERTAIN,
    JUMP,
    QUIET,
    ExpertPool,
    Loud,
    Walked,
    Weights,
    log_odds,
    log_rate,
    remember_season,
    reweigh,
    walked_parts,
)
from dpi.mechanism.boosted._forecast import Forecast, Recalled, Scored, find_outcome, recall, score_forecast
from dpi.mechanism.boosted._posterior import LIKELY, SLACK, After, Heard, bound_variance, release_posterior
from dpi.mechanism.boosted._size import LARGEST_VARIANCE, Slot, first_size, fit_size, size_by_sum, total_users
from dpi.mechanism.boosted._state import BoostedState, Phase
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

TRUST = 1.5
"""The log scores of a slot in which a share c of the users pays count c^TRUST: newcomers may differ from the others.
Source: by trial (benchmarks/churn.py)."""


def _learned(forecast: Gaussians, scale: float, counts: NoisyCounts) -> float:
    """Between 0 and 1: how much a slot of so many users can say; next to nothing, if it is drowned in noise."""
    return -float(np.expm1(-0.5 * (scale / counts.noise) ** 2 * float(forecast.mean @ forecast.mean)))


def skip_slot(state: BoostedState, slot: int, pool: ExpertPool) -> tuple[BoostedState, Estimate]:
    """A slot that was not looked at: its estimate is the forecast, its size unknown before the first measurement."""
    recalled = recall(state, slot, pool, None)
    mixed = recalled.mixed()
    mass, size = float(mixed.mean.sum()), state.size.forecast()
    pdf, expected = mixed.mean / mass, size.scale * mass
    variance = SLACK * (mixed.variance / mass**2 + state.dispersion.likely * pdf / expected)
    season = state.season  # a phase that is still unseen stays so; one that was seen is a period older
    if state.phase(slot) is Phase.AGAIN:
        _, season = remember_season(recalled.every.pool, state.season, slot, state.mass)
    total, spread = (expected, size.variance * expected**2) if state.known else (float("nan"), float("nan"))
    estimate = Estimate(pdf, bound_variance(variance, pdf), np.zeros(state.bins), total, spread)
    after = replace(state, season=season, age=state.age + 1, size=size, plain=state.plain.forecast())
    return after, estimate


def boost_slot(
    state: BoostedState, slot: int, pool: ExpertPool, counts: NoisyCounts, *, partial: bool
) -> tuple[BoostedState, Estimate]:
    """A slot with noisy counts; `partial` if they may be of fewer users than are active."""
    recalled = recall(state, slot, pool, counts)
    mixed = recalled.mixed()
    if state.known:
        jump = log_rate(JUMP, _learned(mixed, state.plain.scale, counts))
        plain = size_by_sum(counts, state.plain.forecast(), jump)
    else:
        plain = first_size(counts)
    now = Slot(counts, plain, state.dispersion.value, state.bins)
    fresh = now.fresh(state.population)
    gauge = float(mixed.mean.sum()) if state.known else 1.0
    size = fit_size(counts, mixed, state.size.forecast(), plain, now.dispersion, fresh) if state.known else plain
    users, _ = total_users(size, plain, gauge)  # a crowd in one bin lowers the fitted size, and nobody's payments
    payers = state.payers.after(users, partial=partial, season=pool.season)
    if payers.coverage < 1:
        now = replace(now, coverage=payers.coverage)
        fresh = now.fresh(state.population)
    learned = _learned(mixed, size.scale, counts)
    del mixed
    scales, away = np.empty((2, recalled.weights.size))
    scales[:-3], scales[-3:] = size.scale, plain.scale
    away[:-3], away[-3:] = np.log(state.size.scale / size.scale), np.log(state.plain.scale / plain.scale)
    trust = now.coverage**TRUST
    # Those who still pay may differ from all, and how many all are may never have been seen: nothing need have changed.
    doubted = payers.coverage < 1 or (partial and not payers.reference)
    whole = 0.0 if doubted else learned
    jump, reset = (log_rate(probability, whole) for probability in (JUMP, ANEW))
    doubt = min(max(state.size.forecast().variance, state.plain.forecast().variance), LARGEST_VARIANCE)
    phase = recalled.every.pool.messages[recalled.every.restart - 1].rescaled(1 / state.mass) if state.season else None
    scored = [
        score_forecast(
            forecast,
            now.at(at),
            scales,
            fresh[at],
            state.odds[at],
            jump,
            trust,
            known=state.known,
            seasonal=phase is not None,
        )
        for forecast, at in recalled.parts
    ]
    found = find_outcome(recalled, scored, state.leader, (away, doubt), counts.nobody)
    weights = reweigh(recalled.weights, found.evidence, found.novelty, recalled.restart, reset, trust)
    few = now.coverage < 0.5  # the deviation of a few payers says nothing of the slot's own
    dispersion = state.dispersion if few or not state.known else found.dispersed(state.dispersion, weights.experts)
    after = After(now, replace(now, dispersion=dispersion.likely), recalled.readout, weights.newborn or not state.known)
    if after.newborn:
        for forecast, at in recalled.parts:
            _begin(forecast, now.alone(own=False, at=at), everybody=not state.known)
    heard = Heard.of(weights, scales)
    belief, mass, reading = release_posterior(recalled, scored, after, heard)
    odds = settle(recalled, scored, weights, now, phase, size.scale, state.phase(slot))
    if weights.all_new:
        size = plain
    total, total_variance = total_users(size, plain, mass)
    log_weights = weights.shared(pool.prior, learned)
    loud = _own(recalled, int(np.argmax(log_weights[: recalled.trackers])))
    leader = recalled.every.pool[[heard.merged(recalled).lead]]
    anew = scored[0].jumped.max(0) > LIKELY
    anew[recalled.at] = True
    moved = np.flatnonzero(anew)
    again = leader.at(moved).read(recalled.readout)
    reading.mean[moved], reading.variance[moved] = again.mean[0], again.variance[0]
    reach = 3 * counts.noise / size.scale
    population = recalled.readout.learned(leader.measured[0], reading, reach)
    if learned > 0.5 and not 0.8 < mass < 1.25:  # kept near one, where the grid of levels is; by data, not by prior
        _rescale(recalled.every.pool, recalled.every.restart, mass)
        if loud is not None:
            _rescale(loud.trackers, recalled.trackers, mass)
        size, mass = replace(size, scale=size.scale * mass), 1.0
    trackers, season = remember_season(recalled.every.pool, state.season, slot, mass)
    return BoostedState(
        pool=trackers.messages,
        walk=trackers.walk,
        season=season,
        age=learned,
        log_weights=log_weights,
        odds=odds,
        population=population,
        size=size,
        plain=plain,
        dispersion=dispersion,
        mass=mass,
        payers=payers,
        known=True,
        loud=loud,
    ), Estimate(belief.pdf, belief.variance, belief.skew, total, total_variance)


def _begin(forecast: Forecast, alone: Gaussians, *, everybody: bool) -> None:
    """The restart starts again from a slot `alone`; everybody does, if nothing was known before."""
    rows = ALL if everybody else slice(forecast.restart, forecast.restart + 1)
    forecast.pool.messages.mean[rows], forecast.pool.messages.variance[rows] = alone.mean, alone.variance


def _rescale(pool: Walked, rows: int, mass: float) -> None:
    """Divide the levels of the first rows by their sum."""
    pool.messages.mean[:rows] /= mass
    pool.messages.variance[:rows] /= mass**2
    pool.walk[:rows] /= mass**2


def _own(recalled: Recalled, leader: int) -> Loud | None:
    """What is remembered of the loud bins; the row that stands for all trackers has the leader's messages there."""
    if recalled.loud is None:
        return None
    rows = recalled.loud.pool[list(range(recalled.trackers))]
    for every, own in zip(walked_parts(recalled.every.pool), walked_parts(rows), strict=True):
        every[0, recalled.at] = own[leader]
    return Loud(recalled.at, rows)


def settle(
    recalled: Recalled,
    scored: list[Scored],
    weights: Weights,
    slot: Slot,
    phase: Gaussians | None,
    scale: float,
    met: Phase,
) -> Floats:
    """Make the pools what is remembered; the odds of jumps."""
    unit = 1.0 if weights.all_new else slot.scale / scale  # those that know the past have a scale of their own
    found = []
    for (forecast, _), one in zip(recalled.parts, scored, strict=True):
        restart, trackers = forecast.restart, forecast.restart - bool(phase)
        messages, walk = forecast.pool.messages, forecast.pool.walk
        if weights.all_new and phase is not None and forecast is recalled.every:
            messages.mean[trackers], messages.variance[trackers] = phase.mean, phase.variance
        past = recalled.summed(weights.experts, forecast)[:restart]
        odds = log_odds(past / past.sum() @ one.jumped)
        jumped = np.flatnonzero(odds > CERTAIN)
        messages.mean[:trackers, jumped] = messages.mean[-1, jumped] * unit
        messages.variance[:trackers, jumped] = messages.variance[-1, jumped] * unit**2
        walk[:trackers, jumped] = 0
        odds[jumped] = QUIET
        found.append(odds)
        beaten = weights.all_new | (past[:trackers] < BEATEN)
        leader = restart if weights.all_new else recalled.row(weights.leader, forecast)
        for array in (messages.mean, messages.variance, walk):
            array[np.flatnonzero(beaten)] = array[leader]
    if met is not Phase.NONE:
        anew = np.ones_like(scored[0].stale) if met is Phase.FIRST else scored[0].stale
        alone, row = slot.alone(own=False).rescaled(unit), recalled.every.restart - 1
        messages = recalled.every.pool.messages
        messages.mean[row, anew], messages.variance[row, anew] = alone.mean[anew], alone.variance[anew]
    every, *loud = found
    for own in loud:
        every[recalled.at] = own
    return every
