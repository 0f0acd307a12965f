"""Where users are after a slot: who paid is in the next class, who was absent is behind.

Sees sizes and laws made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpi.mechanism.base import Floats
from dpi.mechanism.cells import dynamics, sizes
from dpi.mechanism.cells.cells import BEHIND, PAID, Cells
from dpi.mechanism.cells.classes import Due
from dpi.mechanism.cells.parts import Measured
from dpi.mechanism.cells.sizes import Sized
from dpi.mechanism.cells.state import CellsState
from dpi.mechanism.filtering.changed import replace
from dpi.mechanism.filtering.gaussians import Gaussians


def moved(state: CellsState, new: Measured, share: float, classes: Mapping[int, Due]) -> CellsState:
    """The state after newcomers paid a share of all they had, and the due classes what they were asked for."""
    cells, walk = state.cells.copied(), state.drift.mean
    absent = Gaussians(state.absent.mean.copy(), state.absent.variance.copy())
    class_weights, precision, evidence = state.class_weights.copy(), state.precision.copy(), state.evidence.copy()
    missing, looked = state.missing.copy(), state.looked.copy()
    for m, due in classes.items():
        looked[m] = sizes.looked(float(looked[m]), float(missing[m]), due.part.sized, due.part.expected)
        entered = float(missing[m] + cells.size[PAID, m])
        missing[m] = max(entered - due.part.size, 0.0)
        _put(cells, BEHIND, m, due.part.sized, 0.0, due.left, due.weights, due.law, walk)
        cells.size[PAID, m] = 0.0
        absent.mean[m], absent.variance[m] = due.absent.mean, due.absent.variance
        class_weights[m], precision[m], evidence[m] = due.class_weights, due.precision, due.evidence
    _join(cells, 1, new.sized, 1 - share, dynamics.PRIOR, new.realised, walk)
    for m, due in classes.items():
        _join(cells, m + 1, due.part.sized, due.left * (1 - due.share), due.weights, due.law, walk)
    return replace(
        state,
        cells=cells,
        absent=absent,
        missing=missing,
        looked=looked,
        class_weights=class_weights,
        precision=precision,
        evidence=evidence,
    )


def _join(cells: Cells, m: int, sized: Sized, left: float, weights: Floats, law: Gaussians, walk: Floats) -> None:
    """Add users to those who have paid m times since that class was measured; the top class takes all further ones."""
    m = min(m, cells.size.shape[1] - 1)
    before = cells[PAID, m]
    size = float(before.size)
    both = size + sized.size
    old, new = size / both, sized.size / both
    mean = old * before.mean + new * law.mean
    variance = old**2 * before.variance + new**2 * law.variance
    spread = size**2 * float(before.doubt) + sized.variance
    joined = Sized(both, spread, both, spread)
    age, rest = old * float(before.age), old * float(before.left) + new * left
    _put(
        cells,
        PAID,
        m,
        joined,
        age,
        rest,
        old * before.weights + new * weights,
        Gaussians(mean, variance),
        old * before.walk + new * walk,
    )


def _put(
    cells: Cells,
    kind: int,
    m: int,
    sized: Sized,
    age: float,
    left: float,
    weights: Floats,
    law: Gaussians,
    walk: Floats,
) -> None:
    cells.size[kind, m], cells.doubt[kind, m] = sized.size, sized.variance / sized.size**2
    cells.age[kind, m], cells.left[kind, m] = age, left
    cells.weights[kind, m], cells.mean[kind, m], cells.variance[kind, m] = weights, law.mean, law.variance
    cells.walk[kind, m] = walk
