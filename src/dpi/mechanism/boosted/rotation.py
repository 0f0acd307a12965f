"""Rotation over what is measured: in one slot the bins, in another a coarse partition of them, never two at once.

Every view of the domain is a small boosted mechanism of its own, which learns from the slots in which it was measured
and ages in the others. The noise of the views is independent, because no slot is measured twice. The release is a
mixture: the bins' own mechanism, and the PDFs from coarse to fine (`_refinement`) down to each of the views, weighted
by the log score of their forecasts of what was measured.

Which view is measured next is fixed at the end of a slot, from public state: each view has a weight that grows with
the posterior variance that its measurement would remove, and their turns come in proportion to the weights.

Everything here is a pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees
counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.boosted import boosting as _boosting
from dpi.mechanism.boosted import tails
from dpi.mechanism.boosted.experts import ExpertPool
from dpi.mechanism.boosted.mixture import bounded
from dpi.mechanism.boosted.refinement import Refined, refine
from dpi.mechanism.boosted.size import Counts
from dpi.mechanism.boosted.views import Views
from dpi.mechanism.filtering.gaussians import UNKNOWN, Gaussians, blocks

SHARE = 0.01
"""Weight that flows back to even weights of the candidates in every measured slot.

Source: by trial; what rotation with it gives is in docs/utility.md, Huge domains (benchmarks/utility.py).
"""

SLACK = 0.1
"""Relative deviation by which a candidate's forecast of a count may be wrong at no loss.

Source: by trial; what rotation with it gives is in docs/utility.md, Huge domains (benchmarks/utility.py).
"""

FAR = 3.0
"""Deviations by which a slot's size may differ from the forecast before the forecast counts for nothing.

Source: by trial; what rotation with it gives is in docs/utility.md, Huge domains (benchmarks/utility.py).
"""

EXPLORED = 0.1
"""Share of the slots that goes to all views evenly, whatever they promise.

Source: by trial; what rotation with it gives is in docs/utility.md, Huge domains (benchmarks/utility.py).
"""


def unmeasured(views: Views, slot: int, pool: ExpertPool) -> tuple[Views, Estimate]:
    """A slot that was not looked at: its estimate is the forecast."""
    aged = [_boosting.unmeasured(state, slot, pool) for state in views.states]
    after = replace(views, states=tuple(state for state, _ in aged), foreseen=())
    total = _best_total([estimate for _, estimate in aged])
    evidence = _evidence(after, pool)
    return after, _mixed(after, evidence, aged[-1][1], total, refine(views.layout, evidence))


def measured(views: Views, slot: int, pool: ExpertPool, counts: Counts, *, partial: bool) -> tuple[Views, Estimate]:
    """A slot whose noisy counts are those of the view `views.asked`."""
    evidence = _evidence(views, pool)
    foreseen = views.foreseen or _foreseen(views, refine(views.layout, evidence))
    aged = [_boosting.unmeasured(state, slot, pool) for state in views.states]
    own = aged[-1][1].pdf
    candidates = [*map(views.asked.sums, (own, _raked(views, evidence, own))), *foreseen]
    updated = _boosting.measured(views.states[views.turn], slot, pool, counts, partial=partial)
    new = [*aged[: views.turn], updated, *aged[views.turn + 1 :]]
    total = _both_totals(updated[1], counts, [estimate for at, (_, estimate) in enumerate(aged) if at != views.turn])
    trust = updated[0].payers.coverage ** _boosting.TRUST  # those who still pay may differ from all
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


def _log_score(pdf: Floats, total: float, counts: Counts) -> float:
    """Log density of the counts around a forecast: Laplace noise, the scatter of users, and some slack."""
    found = 0.0
    for here in blocks(pdf.size, 1 << 14):
        expected = total * pdf[here]
        variance = expected + (SLACK * expected) ** 2
        log = tails.score(counts.values[here] - expected, variance, counts.noise).log_density
        found += float(log.sum(dtype=np.float64))
    return found


def _best_total(estimates: list[Estimate]) -> tuple[float, float]:
    """The number of users by the view that knows it best, and its variance; NaN before the first measurement."""
    known = [estimate for estimate in estimates if not np.isnan(estimate.total)]
    best = min(known, key=lambda estimate: estimate.total_variance, default=estimates[-1])
    return best.total, best.total_variance


def _both_totals(measured: Estimate, counts: Counts, forecasts: list[Estimate]) -> tuple[float, float]:
    """The measured view's number of users and the best forecast of the others, by precision.

    The views' noise is independent. Where the two are far apart the slot is unlike those before: what was measured
    counts.
    """
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
    return Estimate(pdf, bounded(variance, pdf), skew, *total)


def _wanted(steps: list[Refined], noise: float) -> Floats:
    """The share of turns that each view should have, for measurements with `noise` as a share of the users.

    A block that deviates from the prediction by a variance S, known up to C, has the posterior variance SC/(S + C). A
    measurement would lower C, and the divergence by half the sum of what that saves, over the probabilities.
    """
    saved = []
    for step in steps:
        own = step.hoped * step.predicted**2
        after = 1 / (1 / step.variance + 1 / (2 * noise**2))
        saved.append(0.5 * float(((_both(own, step.variance) - _both(own, after)) / step.predicted).sum()))
    gain = np.maximum(saved, 1e-300)
    return np.asarray((1 - EXPLORED) * gain / gain.sum() + EXPLORED / gain.size)


def _both(one: Floats, other: Floats) -> Floats:
    return one * other / (one + other)
