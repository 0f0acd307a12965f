"""Ways to tell two samples apart, learnt from examples: scores that are high where the first sample is likelier.

They know numbers, not what they mean. A bad distinguisher makes the audit weak, never wrong: bounds are taken on runs
that no distinguisher has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Score = Callable[[Floats], Floats]
"""Maps runs (rows) to scores."""

_CELLS = 24
_RIDGE = 1.0
_NEWTON_STEPS = 12


def enriched(runs: Floats) -> Floats:
    """Return the features, and for each the number of trailing zero bits of its float.

    Sums of floats lie on a coarser lattice than their parts: noise that was added in floating point tells the value it
    was added to by its last bits (Mironov 2012).
    """
    plain = np.nan_to_num(np.asarray(runs, dtype=np.float64), nan=-1e300, posinf=1e300, neginf=-1e300)
    bits = np.ascontiguousarray(plain).view(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    zeros = np.where(bits == 0, 64.0, np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)))
    return np.concatenate([plain, zeros], axis=1)


@dataclass(frozen=True, eq=False)
class Cells:
    """A histogram of one feature: the log of the ratio of the two samples' counts in each cell."""

    feature: int
    edges: Floats
    logs: Floats

    def __call__(self, runs: Floats) -> Floats:
        """Return the cell's log ratio."""
        return np.asarray(self.logs[np.searchsorted(self.edges, runs[:, self.feature], side="right")])


def _cells(feature: int, one: Floats, other: Floats) -> Cells:
    """Cells at quantiles of both samples; a value that many runs share gets a cell of its own."""
    pooled = np.concatenate([one, other])
    common, times = np.unique(pooled, return_counts=True)
    often = common[times > pooled.size // (2 * _CELLS)][:_CELLS]
    edges = np.unique(
        np.concatenate([np.quantile(pooled, np.linspace(0, 1, _CELLS + 1)[1:-1]), often, np.nextafter(often, np.inf)])
    )
    counts = [np.bincount(np.searchsorted(edges, x, side="right"), minlength=edges.size + 1) for x in (one, other)]
    logs = np.log((counts[0] + 0.5) / (one.size + 1)) - np.log((counts[1] + 0.5) / (other.size + 1))
    return Cells(feature, edges, logs)


def histograms(one: Floats, other: Floats) -> list[Cells]:
    """One for each feature that varies."""
    return [
        _cells(i, one[:, i], other[:, i])
        for i in range(one.shape[1])
        if np.ptp(one[:, i]) or np.ptp(other[:, i]) or one[0, i] != other[0, i]
    ]


def classifier(one: Floats, other: Floats) -> Score:
    """Logistic regression with a ridge, on features cut to the samples' middle 98 % and standardised."""
    runs = np.concatenate([one, other])
    labels = np.concatenate([np.ones(len(one)), np.zeros(len(other))])
    low, high = np.quantile(runs, [0.01, 0.99], axis=0)
    middle, width = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)

    def prepared(x: Floats) -> Floats:
        inside = (np.clip(x, low, high) - middle) / width
        return np.concatenate([inside, np.ones((len(x), 1))], axis=1)

    design, weights = prepared(runs), np.zeros(runs.shape[1] + 1)
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (labels - chance) - _RIDGE * weights
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + _RIDGE * np.eye(weights.size)
        weights = weights + np.linalg.solve(curve, slope)

    return lambda x: np.asarray(prepared(x) @ weights)


def learnt(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Every distinguisher that the two samples teach, by name."""
    cells = histograms(one, other)
    if not cells:
        return
    separation = [float(np.abs(cell(one).mean() - cell(other).mean())) for cell in cells]
    for at in np.argsort(-np.array(separation), kind="stable")[:6]:
        last_bits, feature = divmod(cells[int(at)].feature, one.shape[1] // 2)
        yield f"histogram of {'last bits of ' if last_bits else ''}feature {feature}", cells[int(at)]
    # The sum of all features' log ratios: the likelihood-ratio test if features were independent.
    yield "likelihood ratio", lambda runs: np.asarray(np.sum([cell(runs) for cell in cells], axis=0))
    yield "classifier", classifier(one, other)
