"""PDFs that are refined from coarse to fine, view by view, each by what was measured of its blocks.

A view corrects block sums that coarser ones predict by the share ρ²F²/(ρ²F² + C), with prediction F, variance of its
evidence C, and ρ the relative deviation of all its blocks (Paule and Mandel 1982). Sees counts after noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering._gaussians import UNKNOWN, Gaussians
from dpi.mechanism.view_layout import Layout, View

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
    """Return the PDFs after the first view, the first two, …; `evidence` holds each view's levels, with any sum."""
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
    """Return the PDF after one view, whose blocks the `parent` divides; all but two passes are over blocks."""
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
    """Return the squared deviation, in variances, that noise alone does not reach in any of so many blocks."""
    log = float(np.log(max(blocks, 2)))
    return max(2 * log, 0.5 * log**2) + 4


def _in_scale(levels: Gaussians, predicted: Floats) -> Gaussians:
    """Divide the levels by their sum, which is fitted to the prediction: far more exact than adding them up."""
    weights = predicted / levels.variance
    known = 1 / AMPLITUDE**2
    amplitude = (float(weights @ levels.mean) + known) / (float(weights @ predicted) + known)
    return levels.rescaled(1 / max(amplitude, 0.1))


def paule_mandel(squares: Floats, noise: Floats) -> float:
    """Return the variance v ≥ 0 with Σ squares/(v + noise) = number of squares: what is left beyond the noise.

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
    """Keep the sums of blocks, with a density that runs in straight lines from the middle of a block to the next."""
    assert view.labels is not None  # noqa: S101 - the bins themselves have no inside
    sizes = np.bincount(view.labels, minlength=view.blocks)
    sums = view.sums(pdf)
    ends = np.cumsum(sizes)
    line = np.interp(np.arange(pdf.size), ends - 0.5 * (sizes + 1), sums / sizes)
    return np.asarray(line * view.spread(sums / view.sums(line)))
