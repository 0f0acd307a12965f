"""Rotation over what is measured: in one slot the bins, in another a coarse partition of them, never two at once.

Every view of the domain has the filter of users who are measured alike (`dpi.mechanism.class_estimator`), which learns
from its own slots and holds its picture in others; all views share one number of users. The release is a mixture of the
bins' own picture and of PDFs refined from coarse to fine down to each view (`dpi.mechanism.refinement`), weighted by
the log score of their forecasts. Which view is next follows from public state: turns are in proportion to the variance
each removes.

A pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees counts after noise; no
histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.class_estimator import SingleClassState, update_single_class
from dpi.mechanism.codec import freeze
from dpi.mechanism.filtering._gaussians import UNKNOWN, Gaussians, blocks
from dpi.mechanism.filtering.laplace_gauss import score_evidence
from dpi.mechanism.refinement import Refined, refine
from dpi.mechanism.view_layout import Layout, View

SHARE = 0.01
"""Weight that flows back to even weights of the candidates in every measured slot. Source: by trial
(benchmarks/utility.py)."""
SLACK = 0.1
"""Relative deviation by which a candidate's forecast of a count may be wrong at no loss. Source: by trial
(benchmarks/utility.py)."""
EXPLORED = 0.1
"""Share of the slots that goes to all views evenly, whatever they promise. Source: by trial (benchmarks/utility.py)."""


@dataclass(frozen=True, eq=False)
class Turns:
    """What is remembered of all views: a state of each, from coarse to fine; the bins' own is the last."""

    states: tuple[SingleClassState, ...]
    log_weights: Floats
    """Of the bins' own picture, of that corrected by the coarser views, then of the PDFs down to each view."""
    credit: Floats
    """How many turns each view is owed."""
    turn: int
    """The view that the next slot is asked for."""

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, eq=False)
class Views:
    """What is remembered, and the views that it is of."""

    layout: Layout
    turns: Turns

    @classmethod
    def begun(cls, layout: Layout, season: int) -> Views:
        """Begin before the first slot: all candidates alike, and the coarsest view first."""
        states, candidates = (
            tuple(SingleClassState.begun(view.blocks, season) for view in layout.views),
            len(layout.views) + 2,
        )
        return cls(layout, Turns(states, np.full(candidates, -np.log(candidates)), np.zeros(len(states)), 0))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.layout.bins

    @property
    def asked(self) -> View:
        """What the next slot is asked for."""
        return self.layout.views[self.turns.turn]


def rotate_views(
    views: Views, slot: int, counts: Floats | None, epsilon: float, *, partial: bool = False
) -> tuple[Views, Estimate]:
    """Close a slot whose counts, with Laplace noise of scale 1/ε, are those of the view `views.asked`, or none."""
    turns, asked = views.turns, views.asked
    held = [update_single_class(state, slot, None, 0.0) for state in turns.states]
    if counts is None:
        after = Views(views.layout, replace(turns, states=tuple(state for state, _ in held)))
        total = held[-1][1].total, held[-1][1].total_variance
        return after, _mixed(after, _evidence(after), held[-1][1], total)
    evidence = _evidence(views)
    own, steps = held[-1][1].pdf, refine(views.layout, evidence)
    candidates = [own, _raked(views, evidence, own), *(step.pdf for step in steps)]
    state, seen = update_single_class(turns.states[turns.turn], slot, counts, epsilon, partial=partial)
    held[turns.turn] = state, seen
    number = state.number.level
    states = tuple(replace(one, number=replace(one.number, level=number), payers=state.payers) for one, _ in held)
    # Those who still pay may differ from all: information goes with the square of their share.
    trust = state.payers.coverage**2
    log = turns.log_weights + [trust * _log_score(asked.sums(pdf), seen.total, counts, epsilon) for pdf in candidates]
    weights = np.exp(log - log.max())
    shared = (1 - SHARE * trust) * weights / weights.sum() + SHARE * trust / weights.size
    after = Views(views.layout, replace(turns, states=states, log_weights=np.log(shared)))
    evidence = _evidence(after)
    credit = turns.credit + _wanted(refine(views.layout, evidence), 1 / epsilon / max(seen.total, 1.0))
    turn = int(np.argmax(credit))
    credit[turn] -= 1
    after = Views(views.layout, replace(after.turns, credit=credit, turn=turn))
    estimate = _mixed(after, evidence, held[-1][1], (seen.total, seen.total_variance))
    return after, replace(estimate, counts=counts, counts_variance=2 / epsilon**2) if asked.labels is None else estimate


def _raked(views: Views, evidence: list[Gaussians], own: Floats) -> Floats:
    """Return the PDF of the bins' own filter, with its sums corrected by all coarser views."""
    return refine(views.layout, evidence[:-1], own)[-1].pdf


def _evidence(views: Views) -> list[Gaussians]:
    """Return what each view's measurements say of its levels, without a prior: by its most likely hypothesis."""
    levels = []
    for state in views.turns.states:
        laws = state.laws
        if laws.known:
            best = int(np.argmax(laws.log_weights[0]))
            mean, variance = laws.mean[best, :, 0], laws.covariance[best, :, 0, 0]
            levels.append(Gaussians(mean.astype(np.float64), np.minimum(variance.astype(np.float64), UNKNOWN)))
        else:
            levels.append(Gaussians(np.full(state.bins, 1 / state.bins), np.full(state.bins, UNKNOWN)))
    return levels


def _log_score(pdf: Floats, total: float, counts: Floats, epsilon: float) -> float:
    """Return the log density of the counts around a forecast: Laplace noise, the scatter of users, and some slack."""
    score = 0.0
    for here in blocks(pdf.size, 1 << 14):
        expected = total * pdf[here]
        variance = expected + (SLACK * expected) ** 2
        log = score_evidence(counts[here] - expected, variance, 1 / epsilon).log_density
        score += float(log.sum(dtype=np.float64))
    return score


def _mixed(views: Views, evidence: list[Gaussians], own: Estimate, total: tuple[float, float]) -> Estimate:
    """Mix the candidates, with the variance of each probability; `own` is the bins' own."""
    weights, steps = np.exp(views.turns.log_weights), refine(views.layout, evidence)
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
    return Estimate(pdf, np.clip(variance, 1e-30, np.maximum(pdf * (1 - pdf), 1e-30)), skew, *total)


def _wanted(steps: list[Refined], noise: float) -> Floats:
    """Return the share of turns that each view should have, for measurements with `noise` as a share of the users."""
    saved = []
    for step in steps:
        own = step.hoped * step.predicted**2
        after = 1 / (1 / step.variance + 1 / (2 * noise**2))
        saved.append(0.5 * float(((_both(own, step.variance) - _both(own, after)) / step.predicted).sum()))
    gain = np.maximum(saved, 1e-300)
    return np.asarray((1 - EXPLORED) * gain / gain.sum() + EXPLORED / gain.size)


def _both(one: Floats, other: Floats) -> Floats:
    return one * other / (one + other)
