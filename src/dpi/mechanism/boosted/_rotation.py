"""Rotation over what is measured: in one slot the bins, in another a coarse partition of them, never two at once.

Every view of the domain is a small boosted mechanism, which learns from its own slots and ages in others. The
release is a mixture of the bins' own mechanism and of PDFs refined from coarse to fine down to each view, weighted
by the log score of their forecasts. A view corrects block sums that coarser ones predict by the share
ρ²F²/(ρ²F² + C), with prediction F, variance of its evidence C, and ρ the relative deviation of all its blocks (Paule
and Mandel 1982). Which view is next follows from public state: turns are in proportion to the variance each removes.

A pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees counts after noise; no
histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.boosted._boosting import TRUST, boost_slot, skip_slot
from dpi.mechanism.boosted._experts import ExpertPool
from dpi.mechanism.boosted._posterior import bound_variance
from dpi.mechanism.boosted._state import Layout, View, Views
from dpi.mechanism.filtering._gaussians import UNKNOWN, Gaussians, blocks
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts, score_tails

SMALLEST = 0.05
"""One view takes at most all but this share of a block's predicted probability away. Source: by trial
(benchmarks/utility.py)."""
AMPLITUDE = 0.25
"""Relative deviation of the sum of a view's levels from one before it is compared with the prediction. Source: by trial
(benchmarks/utility.py)."""
SPREAD = 1.0
"""Relative deviation of blocks from what coarser views predict, as long as nothing is known of it. Source: by trial
(benchmarks/utility.py)."""


@dataclass(frozen=True, eq=False)
class Refined:
    """The PDF after one view, and what that view could and can say."""

    pdf: Floats
    error: Floats
    """The relative variance of every block, given the coarser views, after the correction."""
    deviation: float
    """ρ²: the relative variance of blocks around the prediction."""
    hoped: float
    """The most that ρ² may well be, over all blocks: two deviations above, or what the coarser view lets expect."""
    predicted: Floats
    """The blocks' probabilities by the coarser views."""
    variance: Floats
    """C, the variance of the evidence."""


def refine(layout: Layout, evidence: list[Gaussians], start: Floats | None = None) -> list[Refined]:
    """The PDFs after the first view, after the first two, …; `evidence` holds each view's levels, with any sum."""
    pdf = np.full(layout.bins, 1 / layout.bins) if start is None else start
    steps: list[Refined] = []
    for view, parent, levels in zip(layout.views, layout.parents, evidence, strict=False):
        step = _corrected(view, None if parent is None else parent[1], pdf, levels)
        if parent is not None:  # if blocks were independent, finer ones would deviate so much more
            expected = steps[parent[0]].hoped * view.blocks / parent[1].blocks
            step = replace(step, hoped=min(step.hoped, expected))
        if start is None and layout.ordered and view.labels is not None:
            step = replace(step, pdf=_interpolated(view, step.pdf))
        steps.append(step)
        pdf = step.pdf
    return steps


def _corrected(view: View, parent: View | None, pdf: Floats, levels: Gaussians) -> Refined:
    """The PDF after one view, whose blocks the `parent` divides; all but two passes are over blocks."""
    predicted = view.sums(pdf)
    if float(levels.variance.min()) >= UNKNOWN:
        error = np.full(predicted.size, SPREAD**2)
        hoped = SPREAD**2 if parent is None else float("inf")
        return Refined(pdf, error, SPREAD**2, hoped, predicted, np.full(predicted.size, UNKNOWN))
    seen = _in_scale(levels, predicted)
    away, noise = seen.mean - predicted, seen.variance
    square = predicted**2
    limit = _limit(predicted.size)
    plain = away**2 < limit * noise
    deviation = paule_mandel(away[plain] ** 2 / square[plain], noise[plain] / square[plain])
    own = deviation * square
    gain = np.maximum(own / (own + noise), 1 - limit * noise / np.maximum(away**2, 1e-300))
    corrected = np.maximum(predicted + gain * away, SMALLEST * predicted)
    factor = corrected / predicted
    if parent is not None:  # it knows its sums better
        factor *= parent.spread(parent.sums(predicted) / parent.sums(corrected))
    factor /= float(predicted @ factor)
    in_all = paule_mandel(away**2 / square, noise / square)
    share = square / (noise + in_all * square)
    hoped = in_all + 2 * float(np.sqrt(2 / max(float(share @ share), 1e-300)))
    error = gain * noise / corrected**2
    return Refined(pdf * view.spread(factor), error, deviation, hoped, predicted, noise)


def _limit(blocks: int) -> float:
    """The squared deviation, in variances, that noise alone does not reach in any of so many blocks."""
    log = float(np.log(max(blocks, 2)))
    return max(2 * log, 0.5 * log**2) + 4


def _in_scale(levels: Gaussians, predicted: Floats) -> Gaussians:
    """The levels over their sum, which is fitted to the prediction: far more exact than adding them up."""
    weights = predicted / levels.variance
    known = 1 / AMPLITUDE**2
    amplitude = (float(weights @ levels.mean) + known) / (float(weights @ predicted) + known)
    return levels.rescaled(1 / max(amplitude, 0.1))


def paule_mandel(squares: Floats, noise: Floats) -> float:
    """The variance v ≥ 0 with Σ squares/(v + noise) = number of squares: what is left beyond the noise.

    >>> round(paule_mandel(np.full(8, 3.0), np.ones(8)), 6)
    2.0
    >>> paule_mandel(np.full(8, 0.5), np.ones(8))
    0.0
    """
    variance = 0.0
    for _ in range(60):
        total = variance + noise
        missing = float((squares / total).sum()) - squares.size
        if missing <= 1e-9 * squares.size:
            break
        variance += missing / float((squares / total**2).sum())  # Newton on a convex decreasing function: from below
    return variance


def _interpolated(view: View, pdf: Floats) -> Floats:
    """The same block sums, with a density inside that runs in straight lines from the middle of a block to the next."""
    assert view.labels is not None  # noqa: S101 - the bins themselves have no inside
    sizes = np.bincount(view.labels, minlength=view.blocks)
    sums = view.sums(pdf)
    ends = np.cumsum(sizes)
    line = np.interp(np.arange(pdf.size), ends - 0.5 * (sizes + 1), sums / sizes)
    return np.asarray(line * view.spread(sums / view.sums(line)))


SHARE = 0.01
"""Weight that flows back to even weights of the candidates in every measured slot. Source: by trial
(benchmarks/utility.py)."""
SLACK = 0.1
"""Relative deviation by which a candidate's forecast of a count may be wrong at no loss. Source: by trial
(benchmarks/utility.py)."""
FAR = 3.0
"""Deviations by which a slot's size may differ from the forecast before the forecast counts for nothing. Source: by
trial (benchmarks/utility.py)."""
EXPLORED = 0.1
"""Share of the slots that goes to all views evenly, whatever they promise. Source: by trial (benchmarks/utility.py)."""


def skip_views(views: Views, slot: int, pool: ExpertPool) -> tuple[Views, Estimate]:
    """A slot that was not looked at: its estimate is the forecast."""
    aged = [skip_slot(state, slot, pool) for state in views.states]
    after = replace(views, states=tuple(state for state, _ in aged), foreseen=())
    total = _best_total([estimate for _, estimate in aged])
    evidence = _evidence(after, pool)
    return after, _mixed(after, evidence, aged[-1][1], total, refine(views.layout, evidence))


def rotate_views(
    views: Views, slot: int, pool: ExpertPool, counts: NoisyCounts, *, partial: bool
) -> tuple[Views, Estimate]:
    """A slot whose noisy counts are those of the view `views.asked`."""
    evidence = _evidence(views, pool)
    foreseen = views.foreseen or _foreseen(views, refine(views.layout, evidence))
    aged = [skip_slot(state, slot, pool) for state in views.states]
    own = aged[-1][1].pdf
    candidates = [*map(views.asked.sums, (own, _raked(views, evidence, own))), *foreseen]
    updated = boost_slot(views.states[views.turn], slot, pool, counts, partial=partial)
    new = [*aged[: views.turn], updated, *aged[views.turn + 1 :]]
    total = _both_totals(updated[1], counts, [estimate for at, (_, estimate) in enumerate(aged) if at != views.turn])
    trust = updated[0].payers.coverage ** TRUST  # those who still pay may differ from all
    weights = views.log_weights + [trust * _log_score(blocks, total[0], counts) for blocks in candidates]
    weights = np.exp(weights - weights.max())
    shared = (1 - SHARE * trust) * weights / weights.sum() + SHARE * trust / weights.size
    after = replace(views, states=tuple(state for state, _ in new), log_weights=np.log(shared))
    evidence = _evidence(after, pool)
    steps = refine(views.layout, evidence)
    credit = after.credit + _wanted(steps, counts.noise / max(total[0], 1.0))
    turn = int(np.argmax(credit))
    credit[turn] -= 1
    after = replace(after, credit=credit, turn=turn)
    after = replace(after, foreseen=_foreseen(after, steps))
    return after, _mixed(after, evidence, new[-1][1], total, steps)


def _foreseen(views: Views, steps: list[Refined]) -> tuple[Floats, ...]:
    """What the PDF down to each view predicts of the blocks that the next slot is asked for."""
    return tuple(views.asked.sums(step.pdf) for step in steps)


def _raked(views: Views, evidence: list[Gaussians], own: Floats) -> Floats:
    """The PDF of the bins' own mechanism, with its sums corrected by all coarser views."""
    return refine(views.layout, evidence[:-1], own)[-1].pdf


def _evidence(views: Views, pool: ExpertPool) -> list[Gaussians]:
    """What each view's measurements say of its levels, without a prior: the messages of its leading tracker."""
    found = []
    for state in views.states:
        told = state.leading.rescaled(1 / state.mass)
        walked = float(pool.steps(state.age)[state.leader])
        found.append(Gaussians(told.mean, np.minimum(told.variance + walked * told.mean**2, UNKNOWN)))
    return found


def _log_score(pdf: Floats, total: float, counts: NoisyCounts) -> float:
    """Log density of the counts around a forecast: Laplace noise, the scatter of users, and some slack."""
    found = 0.0
    for here in blocks(pdf.size, 1 << 14):
        expected = total * pdf[here]
        variance = expected + (SLACK * expected) ** 2
        log = score_tails(counts.values[here] - expected, variance, counts.noise).log_density
        found += float(log.sum(dtype=np.float64))
    return found


def _best_total(estimates: list[Estimate]) -> tuple[float, float]:
    """The number of users by the view that knows it best, and its variance; NaN before the first measurement."""
    known = [estimate for estimate in estimates if not np.isnan(estimate.total)]
    best = min(known, key=lambda estimate: estimate.total_variance, default=estimates[-1])
    return best.total, best.total_variance


def _both_totals(measured: Estimate, counts: NoisyCounts, forecasts: list[Estimate]) -> tuple[float, float]:
    """The measured view's number of users and the best forecast of the others, by precision."""
    forecast, doubt = _best_total(forecasts)
    own = min(measured.total_variance, counts.total_variance)  # never less is known than the sum says
    both = own + doubt
    if np.isnan(forecast) or not both > 0 or (measured.total - forecast) ** 2 > FAR**2 * both:
        return measured.total, own
    share = own / both
    return measured.total + share * (forecast - measured.total), share * doubt


def _mixed(
    views: Views, evidence: list[Gaussians], own: Estimate, total: tuple[float, float], steps: list[Refined]
) -> Estimate:
    """The candidates' mixture, with the variance of each probability; `own` is the bins' own mechanism's estimate."""
    weights = np.exp(views.log_weights)
    unresolved = np.cumsum([step.deviation for step in reversed(steps)])[::-1]  # by this view and finer ones
    raked = _raked(views, evidence, own.pdf)
    parts = [(own.pdf, own.variance), (raked, own.variance * (raked / own.pdf) ** 2)]
    error: Floats | float = 0.0
    scatter = 1 / float(np.fmax(total[0], 1.0))
    for at, (view, step) in enumerate(zip(views.layout.views, steps, strict=True)):
        error = error + view.spread(step.error)
        finer = float(unresolved[at + 1]) if at + 1 < len(steps) else 0.0
        parts.append((step.pdf, step.pdf**2 * (error + finer) + step.pdf * scatter))
    pdf = sum((weight * part for weight, (part, _) in zip(weights, parts, strict=True)), np.zeros(views.bins))
    variance = np.zeros(views.bins)
    for weight, (part, spread) in zip(weights, parts, strict=True):
        variance += weight * (spread + (part - pdf) ** 2)
    pdf /= pdf.sum()
    kept = float(weights[:2].sum())
    skew = kept * own.skew + (1 - kept)
    return Estimate(pdf, bound_variance(variance, pdf), skew, *total)


def _wanted(steps: list[Refined], noise: float) -> Floats:
    """The share of turns that each view should have, for measurements with `noise` as a share of the users."""
    saved = []
    for step in steps:
        own = step.hoped * step.predicted**2
        after = 1 / (1 / step.variance + 1 / (2 * noise**2))
        saved.append(0.5 * float(((_both(own, step.variance) - _both(own, after)) / step.predicted).sum()))
    gain = np.maximum(saved, 1e-300)
    return np.asarray((1 - EXPLORED) * gain / gain.sum() + EXPLORED / gain.size)


def _both(one: Floats, other: Floats) -> Floats:
    return one * other / (one + other)
