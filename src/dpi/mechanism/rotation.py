"""Rotation over what is measured: in one slot the bins, in another a coarse partition of them, never two at once.

Every view of the domain has the filter of users who are measured alike (`dpi.mechanism.users`), which learns from its
own slots and holds its picture in others; all views share one number of users. The release is a mixture of the bins'
own picture and of PDFs refined from coarse to fine down to each view, weighted by the log score of their forecasts. A
view corrects block sums that coarser ones predict by the share ρ²F²/(ρ²F² + C), with prediction F, variance of its
evidence C, and ρ the relative deviation of all its blocks (Paule and Mandel 1982). Which view is next follows from
public state: turns are in proportion to the variance each removes.

A pure function of a state and a measurement, so it is post-processing and costs no privacy. Sees counts after noise; no
histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.domain.partition import Blocks, Marginal, Partition
from dpi.errors import OptionError
from dpi.exact.integers import Integers, capped_sums
from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.filtering._gaussians import UNKNOWN, Gaussians, blocks
from dpi.mechanism.filtering.laplace_gauss import score_evidence
from dpi.mechanism.users import HUGE, AlikeState, close_alike, freeze

CAP_BITS = 60
"""Sums over blocks are cut at 2^60 grains. Like noise's own cut it moves no two sums further apart. Source: two of them
add up to less than 2^63; no measurement."""
COARSEST, FACTOR = 16, 8
"""Blocks of the coarsest partition of an ordered domain, and how many of the next finer one make a block. Source: by
trial."""


def automatic_partitions(domain: Domain) -> tuple[Partition, ...]:
    """The partitions of a domain that is huge and has a structure to use; none of any other domain.

    >>> automatic_partitions(Bins(range(1, 10_000)))
    (Blocks(count=16), Blocks(count=128), Blocks(count=1024))
    """
    if domain.size < HUGE:
        return ()
    if isinstance(domain, Product):
        return tuple(Marginal(name) for name, part in domain.parts.items() if 1 < part.size < domain.size)
    if not isinstance(domain, Bins):
        return ()
    counts = [COARSEST]
    while FACTOR * counts[-1] <= domain.size // 4:
        counts.append(FACTOR * counts[-1])
    return tuple(Blocks(count) for count in counts)


@dataclass(frozen=True, eq=False)
class View:
    """One partition of the bins; `labels` are None for the bins themselves."""

    blocks: int
    labels: Integers | None

    @cached_property
    def sizes(self) -> Integers | None:
        """The bins of every block, if each is a run of neighbours, which are added up several times as fast."""
        if self.labels is None or bool((np.diff(self.labels) < 0).any()):
            return None
        return np.bincount(self.labels, minlength=self.blocks)

    def sums(self, pdf: Floats) -> Floats:
        """The probability of every block."""
        if self.labels is None:
            return pdf
        if self.sizes is None:
            return np.asarray(np.bincount(self.labels, pdf, self.blocks), dtype=np.float64)
        return np.add.reduceat(pdf, np.cumsum(self.sizes) - self.sizes)

    def counts(self, grains: Integers) -> Integers:
        """The grains of every block, exactly; cut at 2^60, as noise cuts them, where they do not fit in 64 bits."""
        return grains if self.labels is None else capped_sums(grains, self.labels, self.blocks, CAP_BITS)

    def spread(self, values: Floats) -> Floats:
        """The value of every bin's block."""
        if self.labels is None:
            return values
        return values[self.labels] if self.sizes is None else np.repeat(values, self.sizes)

    def within(self, other: View) -> View | None:
        """`other` as a partition of this one's blocks; None, if not every block lies in one block of it."""
        if self.labels is None or other.labels is None:
            return other if self.labels is None else None
        one = np.zeros(self.blocks, dtype=np.int64)
        one[self.labels] = other.labels
        return View(other.blocks, one) if bool((one[self.labels] == other.labels).all()) else None


@dataclass(frozen=True, eq=False)
class Layout:
    """The views from coarse to fine, the bins last, and whether neighbouring bins are alike."""

    views: tuple[View, ...]
    ordered: bool

    @classmethod
    def of(cls, partitions: Sequence[Partition], domain: Domain) -> Layout:
        """The partitions of a domain, sorted by their number of blocks, and its bins."""
        labels = [partition.labels(domain) for partition in partitions]
        views = sorted((View(int(of.max()) + 1, of) for of in labels), key=lambda view: view.blocks)
        if any(view.blocks >= domain.size for view in views):
            raise OptionError("`partitions` must be coarser than the domain's bins, which are always measured too.")
        return cls((*views, View(domain.size, None)), isinstance(domain, Bins))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.views[-1].blocks

    @cached_property
    def parents(self) -> tuple[tuple[int, View] | None, ...]:
        """For every view the finest earlier one that it refines, and that one as a partition of its blocks."""
        found: list[tuple[int, View] | None] = []
        for at, view in enumerate(self.views):
            coarser = ((other, view.within(self.views[other])) for other in reversed(range(at)))
            found.append(next(((other, blocks) for other, blocks in coarser if blocks is not None), None))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Turns:
    """What is remembered of all views: a state of each, from coarse to fine; the bins' own is the last."""

    states: tuple[AlikeState, ...]
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
        """Before the first slot: all candidates alike, and the coarsest view first."""
        states, candidates = (
            tuple(AlikeState.begun(view.blocks, season) for view in layout.views),
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
EXPLORED = 0.1
"""Share of the slots that goes to all views evenly, whatever they promise. Source: by trial (benchmarks/utility.py)."""


def rotate_views(
    views: Views, slot: int, counts: Floats | None, epsilon: float, *, partial: bool = False
) -> tuple[Views, Estimate]:
    """A slot whose counts, with Laplace noise of scale 1/ε, are those of the view `views.asked`; or that has none."""
    turns, asked = views.turns, views.asked
    held = [close_alike(state, slot, None, 0.0) for state in turns.states]
    if counts is None:
        after = Views(views.layout, replace(turns, states=tuple(state for state, _ in held)))
        total = held[-1][1].total, held[-1][1].total_variance
        return after, _mixed(after, _evidence(after), held[-1][1], total)
    evidence = _evidence(views)
    own, steps = held[-1][1].pdf, refine(views.layout, evidence)
    candidates = [own, _raked(views, evidence, own), *(step.pdf for step in steps)]
    state, seen = close_alike(turns.states[turns.turn], slot, counts, epsilon, partial=partial)
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
    """The PDF of the bins' own filter, with its sums corrected by all coarser views."""
    return refine(views.layout, evidence[:-1], own)[-1].pdf


def _evidence(views: Views) -> list[Gaussians]:
    """What each view's measurements say of its levels, without a prior: by its most likely hypothesis."""
    found = []
    for state in views.turns.states:
        laws = state.laws
        if laws.known:
            best = int(np.argmax(laws.log_weights[0]))
            mean, variance = laws.mean[best, :, 0], laws.covariance[best, :, 0, 0]
            found.append(Gaussians(mean.astype(np.float64), np.minimum(variance.astype(np.float64), UNKNOWN)))
        else:
            found.append(Gaussians(np.full(state.bins, 1 / state.bins), np.full(state.bins, UNKNOWN)))
    return found


def _log_score(pdf: Floats, total: float, counts: Floats, epsilon: float) -> float:
    """Log density of the counts around a forecast: Laplace noise, the scatter of users, and some slack."""
    found = 0.0
    for here in blocks(pdf.size, 1 << 14):
        expected = total * pdf[here]
        variance = expected + (SLACK * expected) ** 2
        log = score_evidence(counts[here] - expected, variance, 1 / epsilon).log_density
        found += float(log.sum(dtype=np.float64))
    return found


def _mixed(views: Views, evidence: list[Gaussians], own: Estimate, total: tuple[float, float]) -> Estimate:
    """The candidates' mixture, with the variance of each probability; `own` is the bins' own."""
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
